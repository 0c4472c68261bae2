"""Tables of Tensile, the generator of rocBLAS's kernels: GFLOP/s of every solution for every size.

`NAME.npz` holds, for each layout, its sizes (M, N, batch, K) and GFLOP/s by size and solution;
`NAME_LAYOUT_solutions.csv.gz` the parameters of the solutions. Matrices are column-major: in row-major terms
C' = B' A' with N rows and M columns, and what Tensile calls transposed is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import BoolArray
from ..kernels.declaration import kernels
from ..ops.matmul import MatmulTemplate
from .cases import Case, dtype, each, read_csv, seconds, tunables


def gemm(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """One case a size; the solutions of a layout are shared by its sizes."""
    said = str(facts["dtype"])
    wide = re.search(r"(\w+) accumulate", said)
    kind, accumulate = dtype(said), dtype(wide[1]) if wide else None
    with np.load(folder / f"{name}.npz") as z:
        data = {key: z[key] for key in z.files}
    for layout in sorted(key.removesuffix("_sizes") for key in data if key.endswith("_sizes")):
        rows = read_csv(folder, f"{name}_{layout}_solutions")
        ours = [solution(row, arch.warp_size) for row in rows]
        known = np.array([row is not None for row in ours])
        if not known.all():
            yield f"{layout}: {(~known).sum()} of {len(rows)} solutions passed over: no profile has their waves"
        configs, remark = tunables([row for row in ours if row is not None], "matmul", "tensile")
        yield f"{layout}: {remark}" if remark else ""

        def case(row: Any, layout: str = layout, configs: Any = configs, known: BoolArray = known) -> Case:
            (m, n, batch, k), gflops = row
            problem = MatmulTemplate(
                n, m, k, batch, layout[1] == "T", layout[0] == "T", in_dtype=kind, accum_dtype=accumulate
            ).problem
            times = seconds(2e-6 * m * n * batch * k / np.where(gflops > 0, gflops, np.nan)[known])
            return Case(name, problem, arch, "tensile", configs, times, layout)

        yield from each(zip(data[f"{layout}_sizes"].tolist(), data[f"{layout}_gflops"], strict=True), case)


def solution(given: Mapping[str, Any], wave: int = 64) -> dict[str, Any] | None:
    """A solution in the words of its profile, and what no profile has; None where neither describes it.

    One with an instruction (`MI`, M x N x K x blocks) is for the matrix units, any other for the vector units. The
    tiles of an instruction must make up the work-group: more blocks, or waves that share a reduction, do not.
    """
    profiles = {kernel.name: kernel.tunables.keys() for kernel in kernels("matmul", "tensile")}
    row = {k: v for k, v in given.items() if k not in ("sid", "MI", "LPA")} | {"PAD": given.get("LPA", 0)}
    shape = [int(extent) for extent in re.findall(r"\d+", str(given.get("MI", "")))]
    if shape:
        group = [given[k] for k in ("WG0", "WG1", "WG2") if k in given]
        waves = given["MT0"] // (shape[0] * given["TT0"]) * (given["MT1"] // given["TT1"])
        if shape[3:] not in ([], [1]) or (group and prod(group) != waves * wave):
            return None
        row["MIM"] = shape[0]
    else:
        for tile, macro, threads in (("TT0", "MT0", "WG0"), ("TT1", "MT1", "WG1")):
            if tile not in row:
                row[tile] = given[macro] // given[threads]
        row = {"VW": min(row["GRVW"], row["TT0"], row["TT1"])} | row
    other = profiles["tensile" if shape else "tensile_mfma"] - profiles["tensile_mfma" if shape else "tensile"]
    return {k: v for k, v in row.items() if k not in other}
