"""Tables of TileLang's tuning example: each problem with a candidate list of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..arch.descriptor import Arch
from ..ops.matmul import MatmulTemplate
from .cases import Case, dtype, each, reference, seconds, tunables


def gemm(table: str, data: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """C[m,n] = A[m,k] B[n,k], in float16 where it does not say; a row is (place in the list, median ms or null)."""
    _, remark = tunables([c for result in data["results"] for c in result["configs"]], "matmul", "tilelang")
    yield remark

    def case(result: Mapping[str, Any]) -> Case:
        m, n, k = result["shape"]
        kind = dtype(result.get("dtype", data.get("dtype", "float16")))
        problem = MatmulTemplate(m, n, k, trans_B=True, in_dtype=kind).problem
        configs, _ = tunables([result["configs"][row[0]] for row in result["rows"]], "matmul", "tilelang")
        times = seconds([row[1] for row in result["rows"]])
        return Case(table, problem, arch, "tilelang", configs, times, reference_s=reference(result.get("cublas_ms")))

    yield from each(data["results"], case)
