"""Changes of Triton kernels, measured once: what `carver compare` says of each without a GPU.

    python benchmarks/compare_changes.py score FILE.json [--arch h100]

Both sides of a change were held against PyTorch on a GPU and timed in turns, L2 flushed before each run, inputs drawn
anew, the median of 41, by this program as of commit 3672b329. `score` needs no GPU. The changes were chosen, each with
its size, before any of them was measured or predicted: fifteen, and a second list of ten, with other kernels.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import frame
import numpy as np
from kernels import triton_changes as kernels

import carver
from carver.ranking.compare import compare

Side = tuple[Any, Mapping[str, Any]]
"""A kernel and its configuration."""


@dataclass(frozen=True)
class Change:
    name: str
    before: Side
    after: Side
    args: Mapping[str, Any]
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]
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

    grid = lambda c: (cdiv(size, c["BLOCK_M"]) * cdiv(size, c["BLOCK_N"]),)  # noqa: E731
    sides = ((kernels.matmul, {**whole, **side}) for side in (before, after))
    return Change(name, *sides, args, grid, after_args)


def tensors(dtype: str, **shapes: tuple[int, ...]) -> dict[str, carver.Tensor]:
    return {name: carver.Tensor(dtype, shape) for name, shape in shapes.items()}


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
           (kernels.normalise_once, {"BLOCK": 8192, "num_warps": 8}), NORM, lambda c: (ROWS,)),
    Change("more elements a thread", (kernels.add, {"BLOCK": 128, "num_warps": 4}),
           (kernels.add, {"BLOCK": 1024, "num_warps": 4}), ADD, lambda c: (cdiv(N, c["BLOCK"]),)),
    Change("a transpose by columns", (kernels.turn, {"BLOCK_R": 64, "BLOCK_C": 64, "TILED": True, "num_warps": 4}),
           (kernels.turn, {"BLOCK_R": 64, "BLOCK_C": 64, "TILED": False, "num_warps": 4}),
           tensors("float32", x=(SIDE, SIDE), y=(SIDE, SIDE)) | {"rows": SIDE, "cols": SIDE},
           lambda c: (SIDE // 64, SIDE // 64)),
    Change("an unrolled loop", (kernels.column_sums, {"BLOCK_C": 128, "UNROLL": 1, "num_warps": 4}),
           (kernels.column_sums, {"BLOCK_C": 128, "UNROLL": 8, "num_warps": 4}),
           tensors("float32", x=(2048, 65536), y=(65536,)) | {"rows": 2048, "cols": 65536},
           lambda c: (65536 // 128,)),
    Change("rows by an index", (kernels.take_rows, {"BLOCK": 1024, "BY_INDEX": False, "num_warps": 4}),
           (kernels.take_rows, {"BLOCK": 1024, "BY_INDEX": True, "num_warps": 4}),
           tensors("float16", x=(65536, 1024), y=(65536, 1024)) | TAKEN,
           lambda c: (65536, 1),
           values={"index": RNG.integers(65536, size=65536)}),
    Change("blocks above the diagonal left out", (kernels.attention, {**ATTENTION, "TO_DIAGONAL": False}),
           (kernels.attention, {**ATTENTION, "TO_DIAGONAL": True}), HEAD | {"LENGTH": LENGTH, "scale": SCALE},
           lambda c: (LENGTH // c["BLOCK_M"], HEADS)),
    Change("counted by the block first", (kernels.count_each, {"BINS": 256, "BLOCK": 1024, "num_warps": 4}),
           (kernels.count_first, {"BINS": 256, "BLOCK": 1024, "num_warps": 4}), COUNTED,
           lambda c: (cdiv(N // 4, c["BLOCK"]),),
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


SECOND = [
    Change("a stage more of two products", (kernels.gated, {**GATED, "num_stages": 2}), (kernels.gated, GATED),
           tensors("bfloat16", x=(4096, 4096), u=(4096, 4096), g=(4096, 4096), y=(4096, 4096))
           | dict.fromkeys("MNK", 4096),
           lambda c: (4096 // c["BLOCK_M"], 4096 // c["BLOCK_N"])),
    Change("float32 to bfloat16 in a softmax", (kernels.softmax, {"BLOCK": WIDE, "num_warps": 8}),
           (kernels.softmax, {"BLOCK": WIDE, "num_warps": 8}), SOFT, lambda c: (TALL,),
           SHORT),
    Change("half the warps of attention: it spills", (kernels.attention, WIDER),
           (kernels.attention, {**WIDER, "num_warps": 4}), LONG | {"LENGTH": LENGTH, "scale": SCALE},
           lambda c: (LENGTH // c["BLOCK_M"], 32)),
    Change("an unrolled loop of a product with a vector",
           (kernels.matvec, {"BLOCK_R": 4, "BLOCK_C": 512, "UNROLL": 1, "num_warps": 4, "num_stages": 1}),
           (kernels.matvec, {"BLOCK_R": 4, "BLOCK_C": 512, "UNROLL": 4, "num_warps": 4, "num_stages": 1}),
           tensors("float16", w=(TALL, 8192), x=(8192,), y=(TALL,)) | {"rows": TALL, "cols": 8192},
           lambda c: (TALL // c["BLOCK_R"],)),
    Change("twice the rows a tile of attention", (kernels.attention, {**WIDER, "BLOCK_M": 64, "num_warps": 4}),
           (kernels.attention, WIDER), LONG | {"LENGTH": LENGTH, "scale": SCALE},
           lambda c: (LENGTH // c["BLOCK_M"], 32)),
    Change("an eighth of the warps of a softmax", (kernels.softmax, {"BLOCK": WIDE, "num_warps": 32}),
           (kernels.softmax, {"BLOCK": WIDE, "num_warps": 4}), SHORT, lambda c: (TALL,)),
    Change("no mask by a row's length", (kernels.padded, {"BLOCK": 1024, "MASKED": True, "num_warps": 4}),
           (kernels.padded, {"BLOCK": 1024, "MASKED": False, "num_warps": 4}), PADDED,
           lambda c: (TALL, WIDE // c["BLOCK"]),
           values={"length": np.full(TALL, WIDE)}),
    Change("products and sums merged",
           (kernels.pulled, {"BLOCK": 64, "CHUNK": 64, "num_warps": 4, "enable_fp_fusion": False}),
           (kernels.pulled, {"BLOCK": 64, "CHUNK": 64, "num_warps": 4, "enable_fp_fusion": True}), POINTS,
           lambda c: (32768 // c["BLOCK"],)),
    Change("components side by side to one after another",
           (kernels.lengths, {"BLOCK": 512, "TOGETHER": True, "num_warps": 4}),
           (kernels.lengths, {"BLOCK": 512, "TOGETHER": False, "num_warps": 4}),
           tensors("float32", points=(3, N // 2), out=(N // 2,)) | {"n": N // 2}, lambda c: (N // 2 // c["BLOCK"],)),
    Change("sums kept for a second pass, no atomics",
           (kernels.bias_gradient, {"EACH": 16, "BLOCK_C": 256, "ATOMIC": True, "num_warps": 4}),
           (kernels.bias_gradient, {"EACH": 64, "BLOCK_C": 256, "ATOMIC": False, "num_warps": 4}), SUMMED,
           lambda c: (WIDE // c["BLOCK_C"], TALL // c["EACH"])),
]  # fmt: skip


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
    scored = commands.add_parser("score")
    scored.add_argument("file", type=Path)
    scored.add_argument("--arch", default="h100")
    args = parser.parse_args()
    score(json.loads(args.file.read_text()), args.arch)


if __name__ == "__main__":
    main()
