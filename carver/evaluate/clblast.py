"""Tables of CLBlast's and CLTune's Xgemm: exhaustive runs of one SGEMM, all of its parameters a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..ops.matmul import MatmulTemplate
from .cases import Case, dtype, seconds, tunables
from .kernel_tuner import rows_of


def gemm(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """C[n*M + m] += A[k*M + m] * B[k*N + n]: in row-major terms C' = B' A', with N rows and M columns.

    GEMMK = 1 is another kernel, which no declaration describes.
    """
    problem = MatmulTemplate(
        int(facts["N"]), int(facts["M"]), int(facts["K"]), trans_A=True, in_dtype=dtype(facts["dtype"])
    ).problem
    if (packed := folder / f"{name}.npz").is_file():
        with np.load(packed) as z:
            names, times = [str(p) for p in z["param_names"]], seconds(z["time_ms"])
            rows = [dict(zip(names, row, strict=True)) for row in z["params"].tolist()]
    else:
        rows, times = rows_of(folder, name, facts)
    ours = np.array([not row.get("GEMMK") for row in rows], bool)
    if not ours.all():
        yield f"{(~ours).sum()} of {len(ours)} configurations passed over: nothing describes the kernel GEMMK = 1"
    configs, remark = tunables([row for row, one in zip(rows, ours, strict=True) if one], "matmul", "clblast")
    yield remark
    yield Case(name, problem, arch, "clblast", configs, times[ours])
