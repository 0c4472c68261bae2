"""Tables of Tensile, the generator of rocBLAS's kernels: GFLOP/s of every solution for every size.

`NAME.npz` holds, for each layout, its sizes (M, N, batch, K) and GFLOP/s by size and solution;
`NAME_LAYOUT_solutions.csv.gz` the parameters of the solutions. Matrices are column-major: in row-major terms
C' = B' A' with N rows and M columns, and what Tensile calls transposed is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..templates import MatmulTemplate
from .cases import Case, device, frames

if TYPE_CHECKING:
    pd = frames()

BOTH = ("TT0", "TT1", "DepthU", "GSU", "WGM", "GRVW", "PGR", "NLCA", "NLCB", "IU", "EPS", "FL", "SU", "SUS")
VECTOR = ("WG0", "WG1", "WG2", "VW", "LDL", *BOTH)
MATRIX = ("MIM", "MT0", "MT1", "SRVW", "PLR", *BOTH)
_DTYPES = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16"}


def gemm(folder: Path, name: str, facts: Mapping[str, Any]) -> Iterator[Case]:
    """One case a size; the solutions of a layout are shared by its sizes."""
    pd = frames()

    dtype = _DTYPES[str(facts["dtype"]).split()[0]]
    arch = device(facts)
    with np.load(folder / f"{name}.npz") as z:
        data = {key: z[key] for key in z.files}
    for key in sorted(data):
        layout = key.removesuffix("_sizes")
        if layout == key:
            continue
        configs = solutions(pd.read_csv(folder / f"{name}_{layout}_solutions.csv.gz"))
        for (m, n, batch, k), gflops in zip(data[key].tolist(), data[f"{layout}_gflops"], strict=True):
            problem = MatmulTemplate(
                n, m, k, batch, trans_A=layout[1] == "T", trans_B=layout[0] == "T", in_dtype=dtype
            ).problem
            rate = np.where(gflops > 0, gflops, np.nan).astype(np.float64)
            seconds = 2.0 * m * n * batch * k * 1e-9 / rate
            yield Case(name, problem, arch, "tensile", configs, seconds, layout)


def solutions(frame: Any) -> list[dict[str, int]]:
    """The parameters of each solution that the profiles know; those that its table leaves out are at their defaults."""
    columns = {c: frame[c].to_numpy() for c in frame.columns if frame[c].notna().all()}
    if "MI" in columns:
        columns["MIM"] = np.array([int(str(shape).split("x")[0]) for shape in columns["MI"]])
    elif "TT0" not in columns:
        columns["TT0"], columns["TT1"] = columns["MT0"] // columns["WG0"], columns["MT1"] // columns["WG1"]
    if "MI" not in columns and "VW" not in columns:
        columns["VW"] = np.minimum(columns["GRVW"], np.minimum(columns["TT0"], columns["TT1"]))
    names = [name for name in (MATRIX if "MI" in columns else VECTOR) if name in columns]
    rows = zip(*(columns[name].astype(np.int64).tolist() for name in names), strict=True)
    padding = columns.get("LPA", np.zeros(len(frame))).astype(np.int64).tolist()
    return [dict(zip(names, row, strict=True)) | {"PAD": pad} for row, pad in zip(rows, padding, strict=True)]
