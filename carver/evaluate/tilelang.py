"""Tables of TileLang's tuning example: each problem with a candidate list of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..templates import MatmulTemplate
from .cases import Case, device


def gemm(table: str, data: Mapping[str, Any]) -> Iterator[Case]:
    """C[m,n] = A[m,k] B[n,k] in float16; a row is (place in the list, median ms or null)."""
    arch = device({"gpu": data["device"]})
    for result in data["results"]:
        m, n, k = result["shape"]
        problem = MatmulTemplate(m, n, k, trans_B=True, in_dtype="float16").problem
        seconds = np.array([np.nan if row[1] is None else row[1] * 1e-3 for row in result["rows"]])
        configs = [result["configs"][row[0]] for row in result["rows"]]
        yield Case(table, problem, arch, "tilelang", configs, seconds, reference_s=result["cublas_ms"] * 1e-3)
