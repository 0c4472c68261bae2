"""Changes of Triton kernels: what `carver compare` says of each without a GPU, and what a GPU measures.

    python benchmarks/compare_changes.py measure --out FILE.json [--second]
    python benchmarks/compare_changes.py score FILE.json [--arch h100]

`measure` needs a GPU with PyTorch and Triton: it checks both sides of a change against PyTorch and times them in turns,
L2 flushed before each run, inputs drawn anew; the median of 41. `score` needs neither. The changes were chosen, each
with its size, before any of them was measured or predicted: fifteen, and a second list of ten, with other kernels.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import frame
import numpy as np
from kernels import triton_changes as kernels

import carver
from carver.ranking.compare import compare

ROUNDS = 41
Side = tuple[Any, Mapping[str, Any]]
"""A kernel and its configuration."""


@dataclass(frozen=True)
class Change:
    name: str
    before: Side
    after: Side
    args: Mapping[str, Any]
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]
    want: Callable[[Mapping[str, Any]], Any]
    result: str
    after_args: Mapping[str, Any] | None = None
    """Where they are others."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Of tensors of integers."""


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def matmul(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], size: int = 4096, after_dtype: str = "bfloat16"
) -> Change:
    tile = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
    plain = {"MASK_K": False, "B_BY_ROWS": False, "GELU": False}
    whole = {**tile, **plain}
    args, after_args = (
        tensors(dtype, **dict.fromkeys("abc", (size, size))) | dict.fromkeys("MNK", size)
        for dtype in ("bfloat16", after_dtype)
    )

    def want(t: Mapping[str, Any]) -> Any:
        import torch

        c = t["a"].float() @ (t["b"].float().T if t["B_BY_ROWS"] else t["b"].float())
        return torch.nn.functional.gelu(c) if t["GELU"] else c

    grid = lambda c: (cdiv(size, c["BLOCK_M"]) * cdiv(size, c["BLOCK_N"]),)  # noqa: E731
    sides = ((kernels.matmul, {**whole, **side}) for side in (before, after))
    return Change(name, *sides, args, grid, want, "c", after_args)


def tensors(dtype: str, **shapes: tuple[int, ...]) -> dict[str, carver.Tensor]:
    return {name: carver.Tensor(dtype, shape) for name, shape in shapes.items()}


def norm(t: Mapping[str, Any]) -> Any:
    x = t["x"].float()
    return x * (x.square().mean(1, keepdim=True) + 1e-6).rsqrt() * t["w"].float()


def attended(t: Mapping[str, Any]) -> Any:
    import torch

    q, k, v = (t[n].float() for n in "qkv")
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.125)


SCALE = 0.125 * 1.4426950408889634
ROWS, COLS, N, SIDE, HEADS, LENGTH = 8192, 5120, 1 << 26, 8192, 64, 4096
HEAD = tensors("bfloat16", **dict.fromkeys("qkvo", (HEADS, LENGTH, 64)))
NORM = tensors("bfloat16", x=(ROWS, COLS), w=(COLS,), y=(ROWS, COLS)) | {"cols": COLS}
ADD = tensors("float32", x=(N,), y=(N,), out=(N,)) | {"n": N}
ATTENTION = {"HEAD": 64, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
RNG = np.random.default_rng(0)
TAKEN = {"index": carver.Tensor("int32", (65536,)), "cols": 1024}
COUNTED = {"x": carver.Tensor("int32", (N // 4,)), "bins": carver.Tensor("int32", (256,)), "n": N // 4}

CHANGES = [
    matmul("a stage more", {"num_stages": 2}, {"num_stages": 4}),
    matmul("a mask less", {"MASK_K": True}, {"MASK_K": False}),
    matmul("bfloat16 to float32", {"BLOCK_K": 32}, {"BLOCK_K": 32}, after_dtype="float32"),
    matmul("half the warps: sums spill", {"BLOCK_N": 256}, {"BLOCK_N": 256, "num_warps": 4}),
    matmul("the second operand by rows", {}, {"B_BY_ROWS": True}, 2048),
    matmul("an activation", {}, {"GELU": True}, 2048),
    matmul("tiles in groups", {"GROUP_M": 1}, {"GROUP_M": 8}, 8192),
    matmul("a smaller tile", {}, {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4}),
    Change("a row read once", (kernels.normalise_twice, {"BLOCK": 1024, "num_warps": 4}),
           (kernels.normalise_once, {"BLOCK": 8192, "num_warps": 8}), NORM, lambda c: (ROWS,), norm, "y"),
    Change("more elements a thread", (kernels.add, {"BLOCK": 128, "num_warps": 4}),
           (kernels.add, {"BLOCK": 1024, "num_warps": 4}), ADD, lambda c: (cdiv(N, c["BLOCK"]),),
           lambda t: t["x"] + t["y"], "out"),
    Change("a transpose by columns", (kernels.turn, {"BLOCK_R": 64, "BLOCK_C": 64, "TILED": True, "num_warps": 4}),
           (kernels.turn, {"BLOCK_R": 64, "BLOCK_C": 64, "TILED": False, "num_warps": 4}),
           tensors("float32", x=(SIDE, SIDE), y=(SIDE, SIDE)) | {"rows": SIDE, "cols": SIDE},
           lambda c: (SIDE // 64, SIDE // 64), lambda t: t["x"].T, "y"),
    Change("an unrolled loop", (kernels.column_sums, {"BLOCK_C": 128, "UNROLL": 1, "num_warps": 4}),
           (kernels.column_sums, {"BLOCK_C": 128, "UNROLL": 8, "num_warps": 4}),
           tensors("float32", x=(2048, 65536), y=(65536,)) | {"rows": 2048, "cols": 65536},
           lambda c: (65536 // 128,), lambda t: t["x"].sum(0), "y"),
    Change("rows by an index", (kernels.take_rows, {"BLOCK": 1024, "BY_INDEX": False, "num_warps": 4}),
           (kernels.take_rows, {"BLOCK": 1024, "BY_INDEX": True, "num_warps": 4}),
           tensors("float16", x=(65536, 1024), y=(65536, 1024)) | TAKEN,
           lambda c: (65536, 1), lambda t: t["x"][t["index"].long()] if t["BY_INDEX"] else t["x"], "y",
           values={"index": RNG.integers(65536, size=65536)}),
    Change("blocks above the diagonal left out", (kernels.attention, {**ATTENTION, "TO_DIAGONAL": False}),
           (kernels.attention, {**ATTENTION, "TO_DIAGONAL": True}), HEAD | {"LENGTH": LENGTH, "scale": SCALE},
           lambda c: (LENGTH // c["BLOCK_M"], HEADS), attended, "o"),
    Change("counted by the block first", (kernels.count_each, {"BINS": 256, "BLOCK": 1024, "num_warps": 4}),
           (kernels.count_first, {"BINS": 256, "BLOCK": 1024, "num_warps": 4}), COUNTED,
           lambda c: (cdiv(N // 4, c["BLOCK"]),), lambda t: t["x"].bincount(minlength=256), "bins",
           values={"x": RNG.integers(256, size=N // 4)}),
]  # fmt: skip


TALL, WIDE = 16384, 4096
GATED = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
LONG = tensors("bfloat16", **dict.fromkeys("qkvo", (32, LENGTH, 128)))
WIDER = {"HEAD": 128, "BLOCK_M": 128, "BLOCK_N": 128, "TO_DIAGONAL": True, "num_warps": 8, "num_stages": 2}
PADDED = tensors("float32", x=(TALL, WIDE), y=(TALL, WIDE)) | {"length": carver.Tensor("int32", (TALL,)), "cols": WIDE}
POINTS = tensors("float32", **dict.fromkeys(("px", "py", "mass", "out"), (32768,))) | {"n": 32768}
SUMMED = tensors("bfloat16", x=(TALL, WIDE)) | tensors("float32", y=(TALL // 64, WIDE)) | {"rows": TALL, "cols": WIDE}
SOFT, SHORT = (tensors(t, x=(TALL, WIDE), y=(TALL, WIDE)) | {"cols": WIDE} for t in ("float32", "bfloat16"))


def pull(t: Mapping[str, Any]) -> Any:
    import torch

    parts = []
    for x, y in zip(t["px"].split(4096), t["py"].split(4096), strict=True):
        dx, dy = t["px"] - x[:, None], t["py"] - y[:, None]
        parts.append((t["mass"] * dx * (dx * dx + dy * dy + 0.01).rsqrt() ** 3).sum(1))
    return torch.cat(parts)


def summed(t: Mapping[str, Any]) -> Any:
    if not t["ATOMIC"]:
        return t["x"].float().view(TALL // 64, 64, WIDE).sum(1)
    want = t["y"].new_zeros(t["y"].shape)
    want[0] = t["x"].float().sum(0)
    return want


SECOND = [
    Change("a stage more of two products", (kernels.gated, {**GATED, "num_stages": 2}), (kernels.gated, GATED),
           tensors("bfloat16", x=(4096, 4096), u=(4096, 4096), g=(4096, 4096), y=(4096, 4096))
           | dict.fromkeys("MNK", 4096),
           lambda c: (4096 // c["BLOCK_M"], 4096 // c["BLOCK_N"]),
           lambda t: (t["x"] @ t["u"]).float() * (t["x"] @ t["g"]).float().sigmoid() * (t["x"] @ t["g"]).float(), "y"),
    Change("float32 to bfloat16 in a softmax", (kernels.softmax, {"BLOCK": WIDE, "num_warps": 8}),
           (kernels.softmax, {"BLOCK": WIDE, "num_warps": 8}), SOFT, lambda c: (TALL,),
           lambda t: t["x"].float().softmax(1), "y", SHORT),
    Change("half the warps of attention: it spills", (kernels.attention, WIDER),
           (kernels.attention, {**WIDER, "num_warps": 4}), LONG | {"LENGTH": LENGTH, "scale": SCALE},
           lambda c: (LENGTH // c["BLOCK_M"], 32), attended, "o"),
    Change("an unrolled loop of a product with a vector",
           (kernels.matvec, {"BLOCK_R": 4, "BLOCK_C": 512, "UNROLL": 1, "num_warps": 4, "num_stages": 1}),
           (kernels.matvec, {"BLOCK_R": 4, "BLOCK_C": 512, "UNROLL": 4, "num_warps": 4, "num_stages": 1}),
           tensors("float16", w=(TALL, 8192), x=(8192,), y=(TALL,)) | {"rows": TALL, "cols": 8192},
           lambda c: (TALL // c["BLOCK_R"],), lambda t: t["w"].float() @ t["x"].float(), "y"),
    Change("twice the rows a tile of attention", (kernels.attention, {**WIDER, "BLOCK_M": 64, "num_warps": 4}),
           (kernels.attention, WIDER), LONG | {"LENGTH": LENGTH, "scale": SCALE},
           lambda c: (LENGTH // c["BLOCK_M"], 32), attended, "o"),
    Change("an eighth of the warps of a softmax", (kernels.softmax, {"BLOCK": WIDE, "num_warps": 32}),
           (kernels.softmax, {"BLOCK": WIDE, "num_warps": 4}), SHORT, lambda c: (TALL,),
           lambda t: t["x"].float().softmax(1), "y"),
    Change("no mask by a row's length", (kernels.padded, {"BLOCK": 1024, "MASKED": True, "num_warps": 4}),
           (kernels.padded, {"BLOCK": 1024, "MASKED": False, "num_warps": 4}), PADDED,
           lambda c: (TALL, WIDE // c["BLOCK"]), lambda t: t["x"] * t["x"] * (3 - 2 * t["x"]), "y",
           values={"length": np.full(TALL, WIDE)}),
    Change("products and sums merged",
           (kernels.pulled, {"BLOCK": 64, "CHUNK": 64, "num_warps": 4, "enable_fp_fusion": False}),
           (kernels.pulled, {"BLOCK": 64, "CHUNK": 64, "num_warps": 4, "enable_fp_fusion": True}), POINTS,
           lambda c: (32768 // c["BLOCK"],), pull, "out"),
    Change("components side by side to one after another",
           (kernels.lengths, {"BLOCK": 512, "TOGETHER": True, "num_warps": 4}),
           (kernels.lengths, {"BLOCK": 512, "TOGETHER": False, "num_warps": 4}),
           tensors("float32", points=(3, N // 2), out=(N // 2,)) | {"n": N // 2}, lambda c: (N // 2 // c["BLOCK"],),
           lambda t: (t["points"].view(-1, 3) if t["TOGETHER"] else t["points"].T).norm(dim=1), "out"),
    Change("sums kept for a second pass, no atomics",
           (kernels.bias_gradient, {"EACH": 16, "BLOCK_C": 256, "ATOMIC": True, "num_warps": 4}),
           (kernels.bias_gradient, {"EACH": 64, "BLOCK_C": 256, "ATOMIC": False, "num_warps": 4}), SUMMED,
           lambda c: (WIDE // c["BLOCK_C"], TALL // c["EACH"]), summed, "y"),
]  # fmt: skip


def measure(out: Path, changes: Sequence[Change]) -> None:
    import torch

    found: list[dict[str, Any]] = []
    flush = torch.empty(frame.CLEARED_BYTES, dtype=torch.int8, device="cuda")
    for change in changes:
        runs, wrong = [], []
        for (kernel, config), args in sides(change):
            torch.manual_seed(0)
            given = {name: filled(change, name, value) for name, value in args.items()}

            run = partial(kernel[change.grid(config)], **given, **config)
            run()
            got, want = given[change.result].float(), change.want({**given, **config}).float()
            wrong.append(float((got - want).abs().max() / want.abs().max()))
            runs.append(run)
        for run in runs * 3:
            run()
        times: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for side, run in enumerate(runs):
                times[side].append(frame.median_ms(run, flush, 1))
        before, after = map(statistics.median, times)
        found.append({"change": change.name, "before_ms": before, "after_ms": after, "error": wrong})
        print(f"{change.name}: {before:.4f} -> {after:.4f} ms, {wrong}", flush=True)
        out.write_text(json.dumps({"device": torch.cuda.get_device_name(), "changes": found}, indent=1) + "\n")
        torch.cuda.empty_cache()


def filled(change: Change, name: str, value: Any) -> Any:
    import torch

    if not isinstance(value, carver.Tensor):
        return value
    dtype = getattr(torch, value.dtype)
    if name == change.result:
        return torch.zeros(value.shape, dtype=dtype, device="cuda")
    if name in change.values:
        return torch.from_numpy(change.values[name]).to("cuda", dtype)
    return torch.randn(value.shape, device="cuda").to(dtype)


def sides(change: Change) -> list[tuple[Side, Mapping[str, Any]]]:
    return [(change.before, change.args), (change.after, change.after_args or change.args)]


def score(measured: Mapping[str, Any], arch: str) -> None:
    print(f"measured on {measured['device']}; after / before, as measured and as predicted")
    signs = sizes = 0
    known = {row["change"]: row for row in measured["changes"]}
    changes = [change for change in (*CHANGES, *SECOND) if change.name in known]
    for change in changes:
        began = time.monotonic()
        hints = []
        for (kernel, config), args in sides(change):
            values = {name: each for name, each in change.values.items() if name in args}
            hints.append(carver.rank_kernel(
                kernel, [config], arch=arch, args=args, values=values, grid=change.grid, progress=False))  # fmt: skip
        found, row = compare(*hints), known[change.name]
        truth = row["after_ms"] / row["before_ms"]
        same = (truth > 1) == (found.ratio > 1) or max(abs(truth - 1), abs(found.ratio - 1)) < 0.01
        near = frame.NEAR[0] <= found.ratio / truth <= frame.NEAR[1]
        signs, sizes = signs + same, sizes + near
        said = f"{'' if same else 'other sign':10} {'' if near else 'other size':10} {time.monotonic() - began:4.1f} s"
        print(f"{change.name:36} {truth:6.3f} {found.ratio:6.3f}  {said}  {found.why[:150]}", flush=True)
    print(f"sign right: {signs} of {len(changes)}; size within 0.8 and 1.25: {sizes} of {len(changes)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("--out", type=Path, required=True)
    measured.add_argument("--second", action="store_true", help="the second list")
    scored = commands.add_parser("score")
    scored.add_argument("file", type=Path)
    scored.add_argument("--arch", default="h100")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.out, SECOND if args.second else CHANGES)
    else:
        score(json.loads(args.file.read_text()), args.arch)


if __name__ == "__main__":
    main()
