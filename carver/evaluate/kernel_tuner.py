"""Tables of Kernel Tuner: exhaustive runs of one kernel for one problem, a CSV of parameters beside a JSON of facts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..arch import match
from ..descriptor import Arch
from ..errors import ConfigError
from ..problem import Problem
from ..templates import Conv2DTemplate, DedispersionTemplate
from ..types import BoolArray
from .cases import Case

_DEFAULTS = {"conv2d_direct": {"use_shmem": 1}, "dedispersion": {}}
"""Parameters that a table leaves out because its kernel had them fixed."""


_MAX_DELAY = 650
"""Longest delay of the measured dedispersion, which its table does not state. [samples]"""


def kernel_tuner(path: Path) -> Iterator[Case]:
    """The cases of one table, `path` without its endings. Times are medians over the runs of a configuration.

    On AMD a convolution whose tiles do not divide the image compiles to a boundary path that is an order of
    magnitude slower. Such tiles are a case of their own, so that neither hides the other.
    """
    import pandas as pd

    facts = json.loads(path.with_name(path.name + ".meta.json").read_text())
    frame = pd.read_csv(path.with_name(path.name + ".csv.gz"))
    problem = _reader(path, facts)(facts)
    arch = _device(facts["gpu"])
    columns = [p for p in facts["params"] if p in _TUNABLES[facts["op"]]]
    fixed = _DEFAULTS[facts["op"]] | {c: v for c, v in facts["constants"].items() if c in _TUNABLES[facts["op"]]}
    configs = [fixed | {c: int(v) for c, v in row.items()} for row in frame[columns].to_dict("records")]
    seconds = np.where(frame.valid == 1, frame.time_med_ms * 1e-3, np.nan)
    backend = "kernel_tuner_hip" if arch.vendor == "amd" else "kernel_tuner"
    for group, rows in _groups(facts, frame, arch).items():
        if rows.any():
            chosen = [config for config, keep in zip(configs, rows, strict=True) if keep]
            yield Case(path.name, problem, arch, backend, chosen, seconds[rows], group=group)


def _groups(facts: dict[str, Any], frame: Any, arch: Arch) -> dict[str, BoolArray]:
    whole = np.ones(len(frame), bool)
    if facts["op"] != "conv2d_direct" or arch.vendor != "amd":
        return {"": whole}
    height, width = facts["image"]
    divides = (height % (frame.block_size_y * frame.tile_size_y) == 0) & (
        width % (frame.block_size_x * frame.tile_size_x) == 0
    )
    return {"dividing tiles": np.asarray(divides), "other tiles": ~np.asarray(divides)}


def _convolution(facts: dict[str, Any]) -> Problem:
    (height, width), (filter_height, filter_width) = facts["image"], facts["filter"]
    return Conv2DTemplate(height, width, filter_height, filter_width).problem


def _dedispersion(facts: dict[str, Any]) -> Problem:
    return DedispersionTemplate(facts["dms"], facts["samples"], facts["channels"], _MAX_DELAY).problem


_PROBLEMS: dict[str, Callable[[dict[str, Any]], Problem]] = {
    "conv2d_direct": _convolution,
    "dedispersion": _dedispersion,
}
_TUNABLES = {
    "conv2d_direct": (
        "block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "read_only", "use_padding", "use_shmem",
    ),
    "dedispersion": (
        "block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "tile_stride_x", "tile_stride_y",
    ),
}  # fmt: skip


def _reader(path: Path, facts: dict[str, Any]) -> Callable[[dict[str, Any]], Problem]:
    if facts.get("op") not in _PROBLEMS:
        raise ConfigError(f"{path}: op {facts.get('op')!r} has no reader; there are {', '.join(_PROBLEMS)}")
    return _PROBLEMS[facts["op"]]


def _device(name: str) -> Arch:
    """The descriptor of a device by the name that the driver printed, without remarks and alternatives."""
    arch = match(name) or match(re.split(r"[/(]", name)[0])
    if arch is None:
        raise ConfigError(f"no descriptor for the device {name!r} that a table was measured on")
    return arch
