"""Tables of Triton kernels, logs of PyTorch Inductor's autotuning among them, and of TileLang's tuning example."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from carver.arch.descriptor import Arch
from carver.base.errors import ProblemError
from carver.base.given import shown
from carver.base.types import FloatArray
from carver.calibrate.tables import Case, seconds, tunables
from carver.ops.attention import FlashAttentionTemplate
from carver.ops.elementwise import ElementwiseTemplate
from carver.ops.matmul import MatmulTemplate
from carver.ops.operator import Template
from carver.ops.reduction import ReductionTemplate
from carver.problem.problem import Problem

from .words import dtype, each, read_csv, reference

_OUR_WORD = {
    "BM": "BLOCK_M", "BN": "BLOCK_N", "BK": "BLOCK_K", "G": "GROUP_M", "SK": "SPLIT_K", "BR": "BLOCK_ROWS",
    "BC": "BLOCK_COLS", "block_m": "BLOCK_M", "block_n": "BLOCK_N", "block_k": "BLOCK_K",
}  # fmt: skip

_POINTWISE = {
    "copy": (1, 0), "scale": (1, 1), "relu": (1, 1), "add": (2, 1), "mul": (2, 1), "gelu": (1, 20), "silu": (1, 20),
    "sigmoid": (1, 20), "tanh": (1, 20), "exp": (1, 20),
}  # fmt: skip
"""Inputs, and arithmetic instructions an element."""

_NORMALISATIONS = {
    "softmax": "softmax", "layernorm": "layer_norm", "layer_norm": "layer_norm", "rmsnorm": "rms_norm",
    "rms_norm": "rms_norm",
}  # fmt: skip

VISITED = 0
"""Keys that a query walked while the logs of flex attention were recorded, as inferred from the times themselves.

They grow with the bytes of Q and O, at 1.57 TB/s on an A100 for any sequence length, and not with the number of keys;
taken for full attention they would be forty times the device's peak. A count of blocks that was left at zero does
that: a comment in later versions of Inductor names this very mistake, and they time 16 blocks of keys or all.
"""


def gemm(table: str, data: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """C = A B in row-major terms; configurations shared by all shapes, one result list a shape.

    `kernel` says in brackets how A and B are stored, taken as [M,K] and [N,K] where it does not, and whether float32
    is multiplied as such ("ieee"): tl.dot's default is tf32.
    """
    configs, remark = _configs(data["configs"], "matmul")
    yield remark
    said = str(data.get("kernel", "")).replace(" ", "")
    stored = re.findall(r"\[(?:\w+,)?([MNK],[MNK])\]", said)
    wide = "float32" if "ieee" in said.lower() else "tf32"

    def case(result: Mapping[str, Any]) -> Case:
        shape = {key.lower(): value for key, value in result["shape"].items()}
        m, n, k, kind = (shape.pop(key) for key in ("m", "n", "k", "dtype"))
        a, b = (wide if (word := dtype(text)) == "float32" else word for text in (kind, shape.pop("b_dtype", kind)))
        out = dtype(shape.pop("out_dtype")) if "out_dtype" in shape else None
        template = MatmulTemplate(
            m, n, k, shape.pop("batch", 1), shape.pop("trans_a", "K,M" in stored),
            shape.pop("trans_b", "K,N" not in stored), a, out, b_dtype=b,
        )  # fmt: skip
        _all_read(shape)
        return _case(table, template.problem, arch, configs, result["rows"], result.get("cublas_ms"))

    yield from each(data["results"], case)


def tilelang(table: str, data: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """C[m,n] = A[m,k] B[n,k] by TileLang, each problem with a list of its own; in float16 where it does not say."""
    _, remark = tunables([c for result in data["results"] for c in result["configs"]], "matmul", "tilelang")
    yield remark

    def case(result: Mapping[str, Any]) -> Case:
        m, n, k = result["shape"]
        kind = dtype(result.get("dtype", data.get("dtype", "float16")))
        problem = MatmulTemplate(m, n, k, trans_B=True, in_dtype=kind).problem
        configs, _ = tunables(result["configs"], "matmul", "tilelang")
        return _case(table, problem, arch, configs, result["rows"], result.get("cublas_ms"), "tilelang")

    yield from each(data["results"], case)


def memory(table: str, data: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """Element-wise kernels and reductions; configurations by operator."""

    def case(result: Mapping[str, Any]) -> Case:
        p = result["problem"]
        problem = _memory_problem(p)
        configs, _ = _configs(data["configs"][p["op"]], problem.operator)
        return _case(table, problem, arch, configs, result["rows"], result.get("torch_ms"))

    yield from each(data["results"], case)


FORMS = {"problem": memory, "configs": tilelang, "shape": gemm}
"""By a key of its results, the first that is there."""


def _memory_problem(given: Any) -> Problem:
    if not isinstance(given, Mapping):
        raise ProblemError(f"its problem is an object with an op, got {shown(given)}")
    p = dict(given)
    op, kind = str(p.pop("op")), dtype(p.pop("dtype"))
    out = dtype(p.pop("out_dtype")) if "out_dtype" in p else None
    way, _, what = op.partition("_")
    if op in _POINTWISE:
        shape, (inputs, flops) = (p.pop("n"),), _POINTWISE[op]
        template: Template = ElementwiseTemplate(shape, kind, inputs, flops, out_dtype=out)
    elif op in _NORMALISATIONS:
        template = ReductionTemplate(_NORMALISATIONS[op], (p.pop("R"), p.pop("C")), 1, kind, out)
    elif way in ("row", "col") and what in ("sum", "max", "mean"):
        template = ReductionTemplate(what, (p.pop("R"), p.pop("C")), int(way == "row"), kind, out)
    else:
        known = ", ".join((*_POINTWISE, *_NORMALISATIONS))
        raise ProblemError(f"no operator {op!r}; read are {known}, and row_ and col_ sum, max and mean")
    _all_read(p)
    return template.problem


def _all_read(left: Mapping[str, Any]) -> None:
    if left:
        raise ProblemError(f"nothing reads {', '.join(left)} of a problem")


def _configs(rows: Sequence[Mapping[str, Any]], operator: str) -> tuple[list[dict[str, int]], str]:
    return tunables([{_OUR_WORD.get(k, k): v for k, v in row.items()} for row in rows], operator, "triton")


def _case(
    table: str, problem: Problem, arch: Arch, configs: Sequence[Any], rows: Sequence[Any], library_ms: float | None,
    backend: str = "triton",
) -> Case:  # fmt: skip
    """A row is (place among the configurations, median ms or null)."""
    tried, times = [configs[row[0]] for row in rows], seconds([row[1] for row in rows])
    return Case(table, problem, arch, backend, tried, times, reference_s=reference(library_ms))


def inductor(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """PyTorch Inductor's matmul logs: any layout, leading dimensions as recorded, one candidate list a problem."""
    remark, problems = logged(folder, name, "matmul")
    yield remark

    def case(row: Any) -> Case:
        p, configs, times = row
        a, b = (_multiplied(str(p[f"mat{i}_dtype"]), p) for i in (1, 2))
        m, n, k, batch = int(p["m"]), int(p["n"]), int(p["k"]), 1
        first = 0
        if facts["op"] == "bmm":
            batch, first = int(p["b"]), 1
            if batch > 1 and 0 in (p["mat1_stride_0"], p["mat2_stride_0"]):
                raise ProblemError("a batch that shares an operand is read as if it did not")
        trans_a, lda = _layout(m, k, *(int(p[f"mat1_stride_{first + i}"]) for i in (0, 1)))
        trans_b, ldb = _layout(k, n, *(int(p[f"mat2_stride_{first + i}"]) for i in (0, 1)))
        out = None if a in ("tf32", "int8", "float8_e4m3", "float8_e5m2") else a
        template = MatmulTemplate(
            m, n, k, batch, trans_a, trans_b, a, out, b_dtype=b, with_bias=facts["op"] == "addmm", lda=lda, ldb=ldb,
            static_shapes=True,
        )  # fmt: skip
        library_s = reference(p.get("extern_ms"))
        return Case(name, template.problem, arch, "triton", configs, times, reference_s=library_s)

    yield from each(problems, case)


def flex_attention(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """One case a problem: Q of b x h x m x n (batch, heads, queries, head dimension), K and V with as many heads."""
    remark, problems = logged(folder, name, "attention")
    yield remark

    def case(row: Any) -> Case:
        p, configs, times = row
        kind = dtype(p["dtype"])
        template = FlashAttentionTemplate(
            int(p["b"]), int(p["h"]), seq=int(p["m"]), seq_kv=int(p["kv_seq_length"]), head_dim=int(p["n"]),
            in_dtype="tf32" if kind == "float32" else kind, visited=VISITED,
        )  # fmt: skip
        return Case(name, template.problem, arch, "triton", configs, times)

    yield from each(problems, case)


Logged = tuple[dict[str, Any], list[dict[str, int]], FloatArray]
"""A problem, the configurations that were tried on it, and their times. [s]"""


def logged(folder: Path, name: str, operator: str) -> tuple[str, list[Logged]]:
    """The three files of a log: a remark on the configurations, and what was measured."""
    problems = {p["pid"]: p for p in read_csv(folder, f"{name}_problems")}
    rows = {row.pop("cid"): row for row in read_csv(folder, f"{name}_configs")}
    every, remark = _configs(list(rows.values()), operator)
    configs = dict(zip(rows, every, strict=True))
    tried: dict[int, list[dict[str, Any]]] = {}
    for row in read_csv(folder, f"{name}_meas"):
        tried.setdefault(row["pid"], []).append(row)
    measured = [
        (problems[pid], [configs[row["cid"]] for row in group],
         seconds([row.get("time_ms") for row in group], [row.get("valid", 1) == 1 for row in group]))
        for pid, group in sorted(tried.items())
    ]  # fmt: skip
    return remark, measured


def _multiplied(name: str, p: Mapping[str, Any]) -> str:
    """The type that an operand is multiplied in: a log says of float32 whether that is tf32."""
    kind = dtype(name)
    if kind != "float32":
        return kind
    if "using_tf32" not in p:
        raise ProblemError("float32 without using_tf32: nothing says whether it is multiplied as tf32")
    return "tf32" if str(p["using_tf32"]) == "True" else "float32"


def _layout(rows: int, columns: int, row_stride: int, column_stride: int) -> tuple[bool, int]:
    """Whether an operand is stored column by column, and the elements from one column (row) to the next."""
    by_rows = column_stride == 1 and (columns > 1 or row_stride != 1)
    if not by_rows and row_stride != 1:
        raise ProblemError(f"neither axis of an operand is contiguous: strides {row_stride} and {column_stride}")
    lines, length, stride = (rows, columns, row_stride) if by_rows else (columns, rows, column_stride)
    if stride < length and lines > 1:
        raise ProblemError(f"the rows of an operand overlap: {length} elements, the next {stride} on")
    return not by_rows, max(stride, length)
