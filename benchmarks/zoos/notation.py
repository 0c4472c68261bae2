"""The kernels of `kernels/triton_zoo_notation.py` as `zoo.py` measures them: each computes the statement that its
docstring says, by the names of its problems' numbers, which `notation.py` ranks as declared operators.
"""

from __future__ import annotations

from typing import Any

from kernels import triton_zoo_notation as zoo

from .edges import LINE
from .subject import Config, Problem, fits, shapes, subject

TILES = {"BLOCK_M": (32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (16, 32, 64, 128),
         "num_warps": (4, 8), "num_stages": (2, 3, 4)}  # fmt: skip


def product(rows: str, columns: str, batch: str = "1") -> str:
    """The grid of tiles of a matrix."""
    return f"cdiv({rows}, BLOCK_M) * cdiv({columns}, BLOCK_N), {batch}"


def bounded(bytes_each: int = 2, most_n: int = 256) -> Any:
    """Tiles that fit, no wider than the columns."""
    return lambda p, c: fits(c, bytes_each, 256) and c["BLOCK_N"] <= most_n


def einsum(said: str) -> Any:
    """What PyTorch makes of it, in float32."""

    def want(p: Problem, t: dict[str, Any]) -> Any:
        import torch

        return torch.einsum(said, *(t[n].float() for n in ("x_ptr", "w_ptr") if n in t))

    return want


def convolved(apart: str = "1", step: str = "1", each: bool = False) -> Any:
    """Taps after each other, over tensors whose channels are last; with `each`, every channel has taps of its own."""

    def want(p: Problem, t: dict[str, Any]) -> Any:
        import itertools

        import torch

        x, w = t["x_ptr"].float(), t["w_ptr"].float()
        axes = [n for n in "duv" if n in p]
        taps, by, far = w.shape[: len(axes)], p.get(step, 1), p.get(apart, 1)
        total: Any = 0.0
        for tap in itertools.product(*map(range, taps)):
            part = x
            for dim, (axis, at) in enumerate(zip(axes, tap, strict=True), 1):
                part = part.narrow(dim, far * at, by * (p[axis] - 1) + 1)
                part = part[(slice(None),) * dim + (slice(None, None, by),)]
            total = total + (part * w[tap] if each else torch.einsum("...c,cf->...f", part, w[tap]))
        return total

    return want


def filtered(p: Problem, t: dict[str, Any]) -> Any:
    """Every row or image by its own taps."""
    import torch

    x, w = t["x_ptr"].float(), t["w_ptr"].float()
    x, w = (x[:, None], w[:, None]) if x.dim() == 2 else (x, w)
    filters = torch.nn.functional.conv2d(x[None], w[:, None], groups=len(w))[0]
    return filters.reshape(t["x_ptr"].shape[0], *([p["u"], p["v"]] if "u" in p else [p["x"]]))


def copied(p: Problem, c: Config) -> bool:
    return 1 <= c["BLOCK_R"] * c["BLOCK_C"] / (32 * c["num_warps"]) <= 64


SUBJECTS = [
    subject("contractions", zoo.conv_strided, shapes("n u f g r step", (16, 2000, 256, 128, 5, 2),
        (64, 500, 384, 80, 3, 1)), TILES,
        "x: float16[n, step * (u - 1) + r, g]; w: float16[r, g, f]; y: float16[n, u, f]; N = n; P = u; F = f; C = g; "
        "LONG = step * (u - 1) + r", product("n * u", "f"), constants="TAPS = r; step", keep=bounded(),
        want=convolved(step="step")),
    subject("contractions", zoo.conv_dilated, shapes("n u v f g r s apart", (8, 48, 48, 256, 256, 3, 3, 2),
        (32, 26, 26, 96, 48, 5, 5, 1)), TILES,
        "x: bfloat16[n, u + apart * (r - 1), v + apart * (s - 1), g]; w: bfloat16[r, s, g, f]; "
        "y: bfloat16[n, u, v, f]; N = n; P = u; Q = v; F = f; C = g; H = u + apart * (r - 1); W = v + apart * (s - 1)",
        product("n * u * v", "f"), constants="SIDE = r; apart", keep=bounded(), want=convolved("apart")),
    subject("contractions", zoo.conv_volume, shapes("n d u v f g t r s", (4, 14, 28, 28, 128, 64, 3, 3, 3),
        (2, 6, 54, 54, 64, 32, 3, 3, 3)), TILES,
        "x: float16[n, d + 2, u + 2, v + 2, g]; w: float16[t, r, s, g, f]; y: float16[n, d, u, v, f]; N = n; D = d; "
        "P = u; Q = v; F = f; C = g", product("n * d * u * v", "f"), constants="SIDE = r", keep=bounded(),
        want=convolved()),
    subject("contractions", zoo.tensors_of_four, shapes("a b g d e f", (64, 64, 32, 64, 32, 64),
        (16, 100, 24, 96, 50, 32)), TILES,
        "x: float16[a, e, b, f]; w: float16[e, g, f, d]; y: float16[a, b, g, d]; A = a; B = b; C = g; D = d; E = e; "
        "F = f", product("a * b", "g * d"), keep=bounded(), want=einsum("aebf,ecfd->abcd")),
    subject("contractions", zoo.into_heads, shapes("t h d m", (4096, 32, 128, 2048), (1000, 12, 64, 768)), TILES,
        "x: bfloat16[t, m]; w: bfloat16[h, m, d]; y: bfloat16[t, h, d]; T = t; HEADS = h; D = d; M = m",
        product("t", "h * d"), keep=bounded(), want=einsum("tm,hmd->thd")),
    subject("contractions", zoo.scores_of_heads, shapes("b h v k d", (4, 16, 1024, 1024, 64), (2, 32, 777, 1500, 128)),
        TILES, "x: float16[b, v, h, d]; w: float16[b, k, h, d]; y: float16[b, h, v, k]; HEADS = h; Q = v; K = k; D = d",
        product("v", "k", "b * h"), keep=bounded(), want=einsum("bqhd,bkhd->bhqk")),
    subject("contractions", zoo.triangles, shapes("i j k g", (256, 256, 256, 64), (100, 100, 100, 128)), TILES,
        "x: bfloat16[i, k, g]; w: bfloat16[j, k, g]; y: bfloat16[i, j, g]; ROWS = i; COLUMNS = j; K = k; C = g",
        product("i", "j", "g"), keep=bounded(), want=einsum("ikc,jkc->ijc")),
    subject("sums over windows", zoo.depthwise, shapes("n u v g r s", (16, 54, 54, 256, 3, 3), (8, 100, 60, 40, 7, 7)),
        LINE, "x: float16[n, u + r - 1, v + s - 1, g]; w: float16[r, s, g]; y: float16[n, u, v, g]; N = n; P = u; "
        "Q = v; C = g", "cdiv(n * u * v * g, BLOCK)", constants="SIDE = r", want=convolved(each=True)),
    subject("sums over windows", zoo.stencil_of_images, shapes("n u v r s", (16, 1022, 1022, 3, 3),
        (60, 300, 500, 5, 5)), LINE, "x: float32[n, u + r - 1, v + s - 1]; w: float32[n, r, s]; y: float32[n, u, v]; "
        "N = n; P = u; Q = v", "cdiv(n * u * v, BLOCK)", constants="SIDE = r", want=filtered),
    subject("sums over windows", zoo.filters, shapes("b x r", (64, 262144, 9), (2000, 3000, 25)), LINE,
        "x: float16[b, x + r - 1]; w: float16[b, r]; y: float16[b, x]; B = b; LONG = x", "cdiv(b * x, BLOCK)",
        constants="TAPS = r", want=filtered),
    subject("moves", zoo.turned_round, shapes("b i j dtype", (1, 8192, 8192, "float16"), (1, 5000, 3000, "float32"),
        (64, 512, 300, "bfloat16"), (16, 100_000, 8, "float32"), (1, 6000, 7000, "int8")),
        {"BLOCK_R": (8, 16, 32, 64, 128, 256), "BLOCK_C": (8, 16, 32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
        "x: dtype[b, i, j]; y: dtype[b, j, i]; ROWS = i; COLS = j", "cdiv(i, BLOCK_R) * cdiv(j, BLOCK_C), b",
        keep=copied, want=lambda p, t: t["x_ptr"].transpose(1, 2)),
    subject("reductions", zoo.middle_sums, shapes("b r g dtype", (64, 1000, 512, "float16"), (8, 197, 768, "float32"),
        (4000, 49, 128, "bfloat16"), (3, 20000, 300, "float32")),
        {"BLOCK_ROWS": (1, 2, 4, 8, 16, 32, 64, 128), "BLOCK_COLS": (16, 32, 64, 128, 256, 512),
         "num_warps": (1, 2, 4, 8)}, "x: dtype[b, r, g]; y: float32[b, g]; R = r; C = g", "b * cdiv(g, BLOCK_COLS)",
        keep="elements(c, BLOCK_ROWS * BLOCK_COLS, 64)", want=lambda p, t: t["x_ptr"].float().sum(1)),
    subject("moves", zoo.heads_apart, shapes("b h s d", (8, 16, 2048, 64), (64, 12, 197, 80)), LINE,
        "x: float16[b, s, h, d]; y: float16[b, h, s, d]; B = b; HEADS = h; S = s; D = d", "cdiv(b * h * s * d, BLOCK)",
        want=lambda p, t: t["x_ptr"].transpose(1, 2)),
    subject("moves", zoo.outer_product, shapes("i j", (8192, 8192), (3000, 1001)), LINE,
        "x: float32[i]; w: float32[j]; y: float32[i, j]; ROWS = i; COLS = j", "cdiv(i * j, BLOCK)",
        want=einsum("i,j->ij")),
    subject("moves", zoo.places_added, shapes("b s d", (64, 1024, 768), (300, 77, 512)), LINE,
        "x: bfloat16[b, s, d]; w: bfloat16[s, d]; y: bfloat16[b, s, d]; B = b; SIZE = s * d", "cdiv(b * s * d, BLOCK)",
        want=lambda p, t: t["x_ptr"].float() + t["w_ptr"].float()),
]  # fmt: skip
