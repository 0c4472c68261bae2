"""Tables of Kernel Tuner and CLTune: exhaustive runs of one kernel for one problem, a CSV beside a JSON of facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from carver.arch.descriptor import Arch
from carver.base.errors import ConfigError
from carver.base.types import BoolArray, FloatArray
from carver.calibrate.tables import Case, seconds, tunables
from carver.ops.conv import Conv2DTemplate, DedispersionTemplate
from carver.ops.matmul import MatmulTemplate
from carver.problem.problem import Problem

from .words import dtype, read_csv

MAX_DELAY = 650
"""Longest delay of the measured dedispersion, which its table does not state. [samples]"""


def convolution(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """A direct convolution; where the table does not say, the input is staged in shared memory.

    On AMD a tile that does not divide the image compiles to a boundary path that is an order of magnitude slower.
    Such tiles are a case of their own, so that neither hides the other.
    """
    (height, width), (filter_height, filter_width) = facts["image"], facts["filter"]
    problem = Conv2DTemplate(height, width, filter_height, filter_width, dtype(facts.get("dtype", "fp32"))).problem
    case, remark = _case(folder, name, facts, arch, problem)
    yield remark
    if case.arch.vendor != "amd":
        yield case
        return
    tiles = [
        (c["block_size_y"] * c.get("tile_size_y", 1), c["block_size_x"] * c.get("tile_size_x", 1)) for c in case.configs
    ]
    divides = np.array([height % rows == 0 and width % columns == 0 for rows, columns in tiles], bool)
    yield _part(case, divides, "dividing tiles")
    yield _part(case, ~divides, "other tiles")


def dedispersion(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """Sums of delayed channels, one byte a sample."""
    delay = facts.get("max_delay", MAX_DELAY)
    problem = DedispersionTemplate(facts["dms"], facts["samples"], facts["channels"], delay).problem
    case, remark = _case(folder, name, facts, arch, problem)
    yield remark
    yield case


def xgemm(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """CLBlast's SGEMM, C[n*M + m] += A[k*M + m] * B[k*N + n]: in row-major terms C' = B' A', with N rows and M columns.

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


def rows_of(folder: Path, name: str, facts: Mapping[str, Any]) -> tuple[list[dict[str, Any]], FloatArray]:
    """Parameters of each configuration, those that were fixed among them, and medians over its runs. [s]"""
    rows = read_csv(folder, name)
    time = "time_med_ms" if any("time_med_ms" in row for row in rows) else "time_ms"
    if not any(time in row for row in rows):
        raise ConfigError("no row has a time_med_ms or a time_ms")
    times = seconds([row.get(time) for row in rows], [row.get("valid", 1) == 1 for row in rows])
    results = {"time_ms", "time_med_ms", "n_runs", "valid", "fail"}
    tuned = set(facts.get("params", set().union(*rows) - results))
    fixed = facts.get("constants", {})
    return [fixed | {k: v for k, v in row.items() if k in tuned} for row in rows], times


def _case(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch, problem: Problem) -> tuple[Case, str]:
    """The whole table as one case, and a remark on what was not read."""
    rows, times = rows_of(folder, name, facts)
    backend = "kernel_tuner_hip" if arch.vendor == "amd" else "kernel_tuner"
    configs, remark = tunables(rows, problem.operator, backend)
    return Case(name, problem, arch, backend, configs, times), remark


def _part(case: Case, rows: BoolArray, group: str) -> Case:
    configs = [config for config, keep in zip(case.configs, rows, strict=True) if keep]
    return Case(case.table, case.problem, case.arch, case.backend, configs, case.seconds[rows], group)
