"""Measure a Triton reduction and a Triton element-wise kernel on the GPU of this machine, over ragged sizes and others.

    python benchmarks/triton_stream.py --out triton_stream.csv [--only elementwise] [--budget 12] [--device h200]

For each problem: carver's first eight and a sample of its space, at most 64 elements a thread, each result checked
against PyTorch. Writes a table that `carver evaluate FILE` reads, with the shared memory, registers and spills that the
compiler reports. Needs PyTorch and Triton. Of a size that is an argument Triton knows only whether 16 divides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import triton
from kernels.triton_declared import elementwise, reduction
from triton_table import Config, Launch, Row, main

import carver
from carver.run.bench import stratified

CONFIGS, MOST = 7, 64
"""Besides the first eight; elements a thread, of more the compiler takes minutes."""


def reduced(rows: int, cols: int, axis: int = 1, in_dtype: str = "float16") -> Row:
    return {"operator": "reduction", "op": "sum", "rows": rows, "cols": cols, "axis": axis, "in_dtype": in_dtype}


def mapped(rows: int, cols: int, inputs: int = 1, dtype: str = "float16") -> Row:
    return {"operator": "elementwise", "rows": rows, "cols": cols, "inputs": inputs, "dtype": dtype}


PROBLEMS = [
    *[reduced(*shape) for shape in ((8192, 1000), (3000, 3000), (100003, 77), (50000, 1333), (777, 33333))],
    *[reduced(*shape, in_dtype="float32") for shape in ((131072, 100), (65536, 520), (1000, 10000))],
    *[reduced(*shape, in_dtype="bfloat16") for shape in ((2048, 50257), (16384, 5120))],
    *[reduced(*shape, axis=0) for shape in ((8192, 1000), (3000, 3000), (50000, 1333), (200003, 96))],
    *[reduced(*shape, axis=0, in_dtype="float32") for shape in ((65536, 520), (4096, 11008))],
    mapped(50000, 1333, 2), mapped(100003, 77), mapped(8192, 1000, 2, "bfloat16"), mapped(4096, 11008, 2, "bfloat16"),
    mapped(3163, 3163, 1, "float32"), mapped(1000, 1001, 2, "float32"),
]  # fmt: skip


def template(p: Row) -> Any:
    if p["operator"] == "reduction":
        return carver.ReductionTemplate(p["op"], (p["rows"], p["cols"]), p["axis"], p["in_dtype"])
    return carver.ElementwiseTemplate((p["rows"], p["cols"]), p["dtype"], p["inputs"])


def elements(c: Mapping[str, Any]) -> int:
    """Of a tile."""
    return int(c["BLOCK"] if "BLOCK" in c else c["BLOCK_ROWS"] * c["BLOCK_COLS"])


class Stream:
    problems: Sequence[Row] = PROBLEMS

    def columns(self, p: Row) -> Row:
        return p

    def configs(self, p: Row, arch: carver.Arch) -> list[Config]:
        hints = list(template(p).with_arch(arch).recommend_hints(1_000_000, "triton"))
        hints = [h for h in hints if elements(h.config) <= MOST * 32 * h.config["num_warps"]]
        first = [h.rank for h in hints[:8]]
        rest = [h for h in stratified(hints, CONFIGS) if h.rank not in first]
        return [dict(h.config) for h in (*hints[:8], *rest)]

    def identity(self, p: Row, c: Config) -> tuple[Any, ...]:
        own = (p["axis"], p["in_dtype"]) if p["operator"] == "reduction" else (p["inputs"], p["dtype"])
        sizes = (p["rows"], p["cols"]) if p["operator"] == "reduction" else (p["rows"] * p["cols"],)
        return p["operator"], *own, *(n % 16 == 0 for n in sizes), *sorted(c.items())

    def compile(self, p: Row, c: Config) -> None:
        if p["operator"] == "reduction":
            dtype = getattr(torch, p["in_dtype"])
            reduction.warmup(dtype, torch.float32, p["rows"], p["cols"], AXIS=p["axis"], grid=(1,), **c)
        else:
            dtype = getattr(torch, p["dtype"])
            elementwise.warmup(dtype, dtype, dtype, p["rows"] * p["cols"], INPUTS=p["inputs"], grid=(1,), **c)

    def launch(self, p: Row) -> Launch:
        rows, cols, reduces = p["rows"], p["cols"], p["operator"] == "reduction"
        dtype = getattr(torch, p["in_dtype" if reduces else "dtype"])
        x, y = (torch.randn((rows, cols), device="cuda").to(dtype) for _ in range(2))
        if reduces:
            expected = x.double().sum(p["axis"])
            out = torch.empty(expected.shape, device="cuda", dtype=torch.float32)
        else:
            expected = torch.relu(x.double() + (y.double() if p["inputs"] == 2 else 0.0))
            out = torch.empty_like(x)

        def run(c: Config) -> Any:
            if not reduces:
                grid = (triton.cdiv(rows * cols, c["BLOCK"]),)
                return elementwise[grid](x, y, out, rows * cols, INPUTS=p["inputs"], **c)
            along = p["axis"] == 1
            grid = (triton.cdiv(rows, c["BLOCK_ROWS"]) if along else triton.cdiv(cols, c["BLOCK_COLS"]),)
            return reduction[grid](x, out, rows, cols, AXIS=p["axis"], **c)

        def error() -> float:
            found = float((out.double() - expected).abs().max() / expected.abs().max())
            out.zero_()
            return found

        return Launch(run, error, 2e-2 if dtype == torch.bfloat16 else 2e-3)


if __name__ == "__main__":
    main({"all": Stream()}, __doc__)
