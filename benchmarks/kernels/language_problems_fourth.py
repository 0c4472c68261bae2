"""Problems of `benchmarks/languages.py` of other operators: sparse rows, routing, serving, gradients, scans."""

from __future__ import annotations

from typing import Any

from .language_problems import NZ, ROWS, Problem
from .language_problems_third import F16, F32, f32

SOURCE = "languages_fourth.cu"


def _scored(t: dict[str, Any]) -> Any:
    import torch

    starts = t["starts"].long()
    rows = torch.repeat_interleave(torch.arange(ROWS, device=starts.device), starts.diff())
    e = (t["held"][: len(rows)] - 8).exp()
    out = torch.zeros_like(t["held"])
    out[: len(rows)] = e / torch.zeros(ROWS, dtype=e.dtype, device=e.device).index_add_(0, rows, e)[rows]
    return out


def _mixed(t: dict[str, Any]) -> Any:
    import torch

    x = torch.nn.functional.pad(t["x"], (0, 0, 3, 0))
    y = sum(x[:, k : k + 2048] * t["w"][:, k] for k in range(4)) + t["bias"]
    return y * y.sigmoid()


def _w4gemm(t: dict[str, Any]) -> Any:
    import torch

    words = t["W"][..., None] >> torch.arange(0, 32, 4, device=t["W"].device)
    w = ((words & 15) - 8).double().reshape(len(t["W"]), -1, 128)
    return t["A"] @ (w * t["scales"][..., None]).reshape(len(w), -1).mT


def _paged(t: dict[str, Any]) -> Any:
    import torch

    out = []
    for seq in range(32):
        pages = t["table"].reshape(32, 128)[seq].long()
        k, v = (t[name][pages].transpose(1, 0).reshape(16, 2048, 128) for name in ("kcache", "vcache"))
        p = (torch.einsum("hd,hkd->hk", t["q"][seq], k) * 128**-0.5).softmax(-1)
        out.append(torch.einsum("hk,hkd->hd", p, v))
    return torch.stack(out)


def _scanned(t: dict[str, Any]) -> Any:
    import torch

    h, out = 0.0, []
    for step in range(1024):
        d = t["dt"][:, step, :, None]
        h = (d * t["A"]).exp() * h + d * t["x"][:, step, :, None] * t["B"][:, step, None]
        out.append((h * t["Cc"][:, step, None]).sum(-1))
    return torch.stack(out, 1)


def _life(t: dict[str, Any]) -> Any:
    import torch

    x = (t["x"].int() & 255) % 256
    n = sum(torch.roll(x, (u, v), (0, 1)) for u in (-1, 0, 1) for v in (-1, 0, 1)) - x
    return ((n == 3) | ((n == 2) & (x != 0))).to(torch.uint8)


def _waves(t: dict[str, Any], c: float) -> Any:
    import torch

    x, out = t["now"], torch.zeros_like(t["now"])
    inner = (slice(2, -2),) * 3
    near = sum(torch.roll(x, s, d) for s in (-1, 1) for d in range(3))
    far = sum(torch.roll(x, s, d) for s in (-2, 2) for d in range(3))
    out[inner] = (2 * x - t["before"] + c * (-7.5 * x + 4 / 3 * near - far / 12))[inner]
    return out


def _routed(t: dict[str, Any]) -> dict[str, Any]:
    best, at = t["logits"].topk(2, -1)
    return {"weights": best.softmax(-1), "ids": at.int()}


def _slopes(t: dict[str, Any]) -> dict[str, Any]:
    normal = (t["x"] - t["mean"][:, None]) * t["rstd"][:, None]
    return {"dgamma": (t["dy"] * normal).sum(0), "dbeta": t["dy"].sum(0)}


def _edges(t: dict[str, Any]) -> Any:
    import torch

    out = torch.zeros_like(t["out"]).double()
    for part in range(0, 1 << 21, 1 << 18):
        s = slice(part, part + (1 << 18))
        out.index_add_(0, t["to"][s].long(), t["weight"][s, None] * t["x"][t["from"][s].long()])
    return out


def fourth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        return Problem(f"cuda_{name}", tensors, outs, *rest, **{"tolerance": 2e-3, "source": SOURCE, **more})

    def gemm_room(c: dict[str, Any]) -> bool:
        bm, bn = c["WM"] * c["FM"] * 16, c["WN"] * c["FN"] * 16
        return c["WM"] * c["WN"] >= 2 and bm <= 128 and bn <= 256 and (bm + bn) * (c["BK"] + 8) * 2 <= 48 << 10

    return [
        problem("scored_64k", {"out": (F32, (NZ,), "zero"), "starts": ("int32", (ROWS + 1,), "starts"),
                               "held": (F32, (NZ,), "randn")},
                ("out", "starts", "held", ROWS), {"BLOCK": [64, 128, 256, 512], "LANES": [1, 2, 4, 8, 16, 32]},
                lambda c: (ROWS * c["LANES"] // c["BLOCK"], c["BLOCK"], 0), lambda t: {"out": _scored(t)},
                values=("starts",)),
        problem("edges_2m", {"out": (F32, (100_000, 32), "zero"), "x": (F32, (100_000, 32), "randn"),
                             "weight": (F32, (1 << 21,), "randn"), "from": ("int32", (1 << 21,), "which"),
                             "to": ("int32", (1 << 21,), "which")},
                ("out", "x", "weight", "from", "to", 1 << 21),
                {"BLOCK": [64, 128, 256, 512, 1024], "VEC": [1, 2, 4], "GRID": [264, 1056, 8448]},
                lambda c: (c["GRID"], c["BLOCK"], 0), lambda t: {"out": _edges(t)}, defines={"DIM": 32}),
        problem("mixed_8x2048x4096", {"out": (F16, (8, 2048, 4096), "poison"), "x": (F16, (8, 2048, 4096), "randn"),
                                      "w": (F16, (4096, 4), "randn"), "bias": (F16, (4096,), "randn")},
                ("out", "x", "w", "bias", 2048, 4096),
                {"BLOCK": [32, 64, 128, 256], "VEC": [1, 2, 8], "CHUNK": [16, 64, 256, 1024]},
                lambda c: ((-(-4096 // (c["BLOCK"] * c["VEC"])), 2048 // c["CHUNK"], 8), c["BLOCK"], 0),
                lambda t: {"out": _mixed(t)}),
        problem("pooled_64x64x112", {"out": (F32, (64, 64, 56, 56), "poison"), "x": (F32, (64, 64, 112, 112), "randn")},
                ("out", "x", 112, 112, 56, 56), {"BX": [8, 16, 32, 64], "BY": [1, 2, 4, 8, 16], "PER": [1, 2, 4, 7]},
                lambda c: ((-(-56 // c["BX"]), -(-56 // (c["BY"] * c["PER"])), 4096), (c["BX"], c["BY"]), 0),
                lambda t: {"out": __import__("torch").nn.functional.max_pool2d(t["x"], 3, 2, 1)},
                lambda c: 64 <= c["BX"] * c["BY"] <= 1024),
        problem("w4gemm_512x4096x4096", {"C": (F16, (512, 4096), "poison"), "A": (F16, (512, 4096), "randn"),
                                         "W": ("int32", (4096, 512), "bits"), "scales": (F16, (4096, 32), "rand")},
                ("C", "A", "W", "scales", 512, 4096, 4096),
                {"WM": [1, 2, 4], "WN": [1, 2, 4], "FM": [1, 2, 4], "FN": [1, 2, 4], "BK": [32, 64, 128]},
                lambda c: ((4096 // (c["WN"] * c["FN"] * 16), 512 // (c["WM"] * c["FM"] * 16)),
                           c["WM"] * c["WN"] * 32, 0),
                lambda t: {"C": _w4gemm(t)}, gemm_room, tolerance=1e-2),
        problem("paged_32x16x2048", {"out": (F32, (32, 16, 128), "poison"), "q": (F16, (32, 16, 128), "randn"),
                                     "kcache": (F16, (4096, 16, 16, 128), "randn"),
                                     "vcache": (F16, (4096, 16, 16, 128), "randn"),
                                     "table": ("int32", (4096,), "pages")},
                ("out", "q", "kcache", "vcache", "table", 128, 16, 2048, f32(128**-0.5)),
                {"WARPS": [4, 8, 16], "GROUP": [2, 4, 8, 16]},
                lambda c: ((16, 32), c["WARPS"] * 32, 2048 * 4), lambda t: {"out": _paged(t)}),
        problem("slopes_16kx4096", {"dgamma": (F32, (4096,), "zero"), "dbeta": (F32, (4096,), "zero"),
                                    "dy": (F32, (16_384, 4096), "randn"), "x": (F32, (16_384, 4096), "randn"),
                                    "mean": (F32, (16_384,), "randn"), "rstd": (F32, (16_384,), "rand")},
                ("dgamma", "dbeta", "dy", "x", "mean", "rstd", 16_384, 4096),
                {"BX": [32, 64, 128], "BY": [1, 2, 4, 8, 16], "DOWN": [4, 16, 64], "UNROLL": [1, 4]},
                lambda c: ((4096 // c["BX"], c["DOWN"]), (c["BX"], c["BY"]), 0), _slopes,
                lambda c: 64 <= c["BX"] * c["BY"] <= 1024),
        problem("routed_512k", {"weights": (F32, (1 << 19, 2), "poison"), "ids": ("int32", (1 << 19, 2), "poison"),
                                "logits": (F32, (1 << 19, 64), "randn")},
                ("weights", "ids", "logits", 1 << 19), {"BLOCK": [64, 128, 256, 512], "LANES": [2, 4, 8, 16, 32]},
                lambda c: ((1 << 19) * c["LANES"] // c["BLOCK"], c["BLOCK"], 0), _routed),
        problem("bagged_16kx32", {"out": (F32, (16_384, 128), "poison"), "table": (F32, (100_000, 128), "randn"),
                                  "which": ("int32", (16_384 * 32,), "which")},
                ("out", "table", "which", 128),
                {"BX": [16, 32, 64, 128], "BY": [1, 2, 4, 8], "VEC": [1, 4], "UNROLL": [1, 4, 16]},
                lambda c: (16_384 // c["BY"], (c["BX"], c["BY"]), 0),
                lambda t: {"out": t["table"][t["which"].long()].reshape(-1, 32, 128).sum(1)},
                lambda c: 64 <= c["BX"] * c["BY"] <= 1024 and c["BX"] * c["VEC"] <= 128),
        problem("hadamard_8kx4096", {"out": (F32, (8192, 4096), "poison"), "x": (F32, (8192, 4096), "randn")},
                ("out", "x", 4096), {"BLOCK": [64, 128, 256, 512, 1024], "RADIX": [2, 4]},
                lambda c: (8192, c["BLOCK"], 4096 * 4),
                lambda t: {"out": _hadamard(t)}),
        problem("scanned_4x1024x2048", {"y": (F32, (4, 1024, 2048), "poison"), "x": (F32, (4, 1024, 2048), "randn"),
                                        "dt": (F32, (4, 1024, 2048), "rand"), "A": (F32, (2048, 16), "less"),
                                        "B": (F32, (4, 1024, 16), "randn"), "Cc": (F32, (4, 1024, 16), "randn")},
                ("y", "x", "dt", "A", "B", "Cc", 1024, 2048),
                {"BLOCK": [32, 64, 128, 256], "LANES": [1, 2, 4, 8, 16], "UNROLL": [1, 4]},
                lambda c: ((2048 * c["LANES"] // c["BLOCK"], 4), c["BLOCK"], 0), lambda t: {"y": _scanned(t)}),
        problem("life_16k", {"out": ("uint8", (8192, 16_384), "poison"), "x": ("uint8", (8192, 16_384), "cells")},
                ("out", "x", 8192, 16_384), {"BX": [32, 64, 128, 256], "BY": [1, 2, 4], "PER": [1, 2, 4, 8]},
                lambda c: ((16_384 // (c["BX"] * c["PER"]), 8192 // c["BY"]), (c["BX"], c["BY"]), 0),
                lambda t: {"out": _life(t)}, lambda c: c["BX"] * c["BY"] <= 1024),
        problem("waves_384", {"next": (F32, (384, 384, 384), "zero"), "now": (F32, (384, 384, 384), "randn"),
                              "before": (F32, (384, 384, 384), "randn")},
                ("next", "now", "before", 384, 384, 384, f32(0.1)),
                {"BX": [32, 64, 128], "BY": [1, 2, 4, 8, 16], "DEEP": [1, 4, 16, 96]},
                lambda c: ((384 // c["BX"], 384 // c["BY"], 384 // c["DEEP"]), (c["BX"], c["BY"]), 0),
                lambda t: {"next": _waves(t, 0.1)}, lambda c: 64 <= c["BX"] * c["BY"] <= 1024),
        problem("ranked_16m", {"out": ("int32", (1 << 24,), "poison"), "x": ("int32", (1 << 24,), "low")},
                ("out", "x"), {"BLOCK": [64, 128, 256, 512], "ITEMS": [1, 2, 4, 8, 16]},
                lambda c: ((1 << 24) // (c["BLOCK"] * c["ITEMS"]), c["BLOCK"], 0), lambda t: {"out": t["x"]},
                lambda c: (16 * c["BLOCK"] + c["BLOCK"] * c["ITEMS"] + 16) * 4 <= 48 << 10),
    ]  # fmt: skip


def _hadamard(t: dict[str, Any]) -> Any:
    x = t["x"]
    for h in (1 << i for i in range(12)):
        a, b = x.reshape(8192, -1, 2, h).unbind(2)
        x = __import__("torch").stack([a + b, a - b], 2).reshape(8192, 4096)
    return x / 64
