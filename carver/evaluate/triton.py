"""Tables of Triton kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..descriptor import Arch
from ..problem import Problem
from ..templates import ElementwiseTemplate, MatmulTemplate, ReductionTemplate
from .cases import Case, device, frames

_GEMM_KEYS = {"BM": "BLOCK_M", "BN": "BLOCK_N", "BK": "BLOCK_K", "G": "GROUP_M", "SK": "SPLIT_K"}
_MEMORY_KEYS = {"BR": "BLOCK_ROWS", "BC": "BLOCK_COLS"}


def gemm(table: str, data: Mapping[str, Any]) -> Iterator[Case]:
    """C[m,n] = A[m,k] B[n,k]; configurations shared by all shapes, one result list a shape."""
    arch = device({"gpu": data["device"]})
    configs = [{_GEMM_KEYS.get(key, key): value for key, value in c.items()} for c in data["configs"]]
    for result in data["results"]:
        s = result["shape"]
        template = MatmulTemplate(s["M"], s["N"], s["K"], trans_B=True, in_dtype=s["dtype"])
        yield _case(table, template.problem, arch, configs, result["rows"], result["cublas_ms"])


def memory(table: str, data: Mapping[str, Any]) -> Iterator[Case]:
    """Element-wise kernels and reductions; configurations by operator."""
    arch = device({"gpu": data["device"]})
    for result in data["results"]:
        p = result["problem"]
        configs = [{_MEMORY_KEYS.get(key, key): value for key, value in c.items()} for c in data["configs"][p["op"]]]
        yield _case(table, _memory_problem(p), arch, configs, result["rows"], result["torch_ms"])


def _memory_problem(p: dict[str, Any]) -> Problem:
    if p["op"] in ("row_sum", "col_sum"):
        axis = 1 if p["op"] == "row_sum" else 0
        return ReductionTemplate("sum", (p["R"], p["C"]), axis, p["dtype"], "float32").problem
    inputs, flops = {"add": (2, 1), "gelu": (1, 20)}[p["op"]]
    return ElementwiseTemplate((p["n"],), p["dtype"], inputs, flops).problem


def _case(table: str, problem: Problem, arch: Arch, configs: list[Any], rows: list[Any], reference_ms: float) -> Case:
    seconds = np.array([np.nan if row[1] is None else row[1] * 1e-3 for row in rows])
    return Case(
        table, problem, arch, "triton", [configs[row[0]] for row in rows], seconds, reference_s=reference_ms * 1e-3
    )


def inductor(folder: Path, name: str, meta: Mapping[str, Any]) -> Iterator[Case]:
    """PyTorch Inductor's matmul logs: any layout, leading dimensions as recorded, one candidate list a problem."""
    pd = frames()

    problems = pd.read_csv(folder / f"{name}_problems.csv.gz").set_index("pid")
    configs = pd.read_csv(folder / f"{name}_configs.csv.gz").set_index("cid")
    measured = pd.read_csv(folder / f"{name}_meas.csv.gz")
    arch = device(meta)
    keys = {"block_m": "BLOCK_M", "block_n": "BLOCK_N", "block_k": "BLOCK_K"}
    rows = {cid: {keys.get(k, k): int(v) for k, v in row.items()} for cid, row in configs.to_dict("index").items()}
    for pid, group in measured.groupby("pid"):
        p = problems.loc[pid]
        kinds = [{"uint8": "int8", "float32": "tf32"}.get(d, d) for d in (p.mat1_dtype, p.mat2_dtype)]
        trans = int(p.mat1_stride_1) != 1, int(p.mat2_stride_1) != 1
        ld = [
            int(p.mat1_stride_1 if trans[0] else p.mat1_stride_0),
            int(p.mat2_stride_1 if trans[1] else p.mat2_stride_0),
        ]
        template = MatmulTemplate(
            int(p.m), int(p.n), int(p.k), trans_A=trans[0], trans_B=trans[1], in_dtype=kinds[0], b_dtype=kinds[1],
            out_dtype="float32" if kinds[0] == "tf32" else kinds[0], lda=max(ld[0], 1), ldb=max(ld[1], 1),
        )  # fmt: skip
        seconds = np.where(group.valid == 1, group.time_ms * 1e-3, np.nan)
        yield Case(name, template.problem, arch, "triton", [rows[c] for c in group.cid], seconds,
                   reference_s=float(p.extern_ms) * 1e-3)  # fmt: skip
