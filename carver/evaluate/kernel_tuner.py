"""Tables of Kernel Tuner: exhaustive runs of one kernel for one problem, a CSV of parameters beside a JSON of facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..arch import match
from ..descriptor import Arch
from ..errors import ConfigError
from ..problem import Problem
from ..templates import Conv2DTemplate, DedispersionTemplate
from ..types import BoolArray
from .cases import Case, frames

CONVOLUTION = (
    "block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "read_only", "use_padding", "use_shmem",
)  # fmt: skip
DEDISPERSION = (
    "block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "tile_stride_x", "tile_stride_y",
)  # fmt: skip
MAX_DELAY = 650
"""Longest delay of the measured dedispersion, which its table does not state. [samples]"""


def convolution(folder: Path, name: str, facts: Mapping[str, Any]) -> Iterator[Case]:
    """A direct convolution; where the table does not say, the input is staged in shared memory.

    On AMD a tile that does not divide the image compiles to a boundary path that is an order of magnitude slower.
    Such tiles are a case of their own, so that neither hides the other.
    """
    (height, width), (filter_height, filter_width) = facts["image"], facts["filter"]
    problem = Conv2DTemplate(height, width, filter_height, filter_width).problem
    case, frame = _case(folder, name, facts, problem, CONVOLUTION, {"use_shmem": 1})
    if case.arch.vendor != "amd":
        yield case
        return
    divides = np.asarray(
        (height % (frame.block_size_y * frame.tile_size_y) == 0)
        & (width % (frame.block_size_x * frame.tile_size_x) == 0)
    )
    yield _part(case, divides, "dividing tiles")
    yield _part(case, ~divides, "other tiles")


def dedispersion(folder: Path, name: str, facts: Mapping[str, Any]) -> Iterator[Case]:
    """Sums of delayed channels, one byte a sample."""
    problem = DedispersionTemplate(facts["dms"], facts["samples"], facts["channels"], MAX_DELAY).problem
    yield _case(folder, name, facts, problem, DEDISPERSION, {})[0]


def _case(
    folder: Path,
    name: str,
    facts: Mapping[str, Any],
    problem: Problem,
    tunables: tuple[str, ...],
    fixed: dict[str, int],
) -> tuple[Case, Any]:
    """The whole table as one case, and its rows. Times are medians over the runs of a configuration."""
    pd = frames()

    frame = pd.read_csv(folder / f"{name}.csv.gz")
    columns = [p for p in facts["params"] if p in tunables]
    fixed = fixed | {c: int(v) for c, v in facts["constants"].items() if c in tunables}
    configs = [fixed | {c: int(v) for c, v in row.items()} for row in frame[columns].to_dict("records")]
    seconds = np.where(frame.valid == 1, frame.time_med_ms * 1e-3, np.nan)
    arch = _device(facts["gpu"])
    backend = "kernel_tuner_hip" if arch.vendor == "amd" else "kernel_tuner"
    return Case(name, problem, arch, backend, configs, seconds), frame


def _part(case: Case, rows: BoolArray, group: str) -> Case:
    configs = [config for config, keep in zip(case.configs, rows, strict=True) if keep]
    return Case(case.table, case.problem, case.arch, case.backend, configs, case.seconds[rows], group)


def _device(name: str) -> Arch:
    """The descriptor of a device by the name that the driver printed, without remarks and alternatives."""
    arch = match(name) or match(re.split(r"[/(]", name)[0])
    if arch is None:
        raise ConfigError(f"no descriptor for the device {name!r} that a table was measured on")
    return arch
