"""A hint: one configuration, its predicted time, and the reasons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar

from ..arch.descriptor import Arch
from ..arch.devices import from_plain, to_plain
from ..base.errors import ConfigError
from ..base.given import check_fields, json_of, shown
from ..base.types import FrozenDict
from ..problem.problem import Problem


class NoRasterizationType(Enum):
    """Blocks go over the output in row-major order. A singleton: `plan is not NoRasterization` is a valid test."""

    NoRasterization = "row-major"

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


NoRasterization = NoRasterizationType.NoRasterization


@dataclass(frozen=True, slots=True)
class Rasterization2DColumn:
    """Blocks go over the output column by column, inside panels of `panel_width` rows of blocks."""

    panel_width: int

    def __str__(self) -> str:
        return f"panels of {self.panel_width} block rows"


RasterizationPlan = NoRasterizationType | Rasterization2DColumn


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch parameters of a hint. Registers are the model's estimate; the rest is exact."""

    grid: tuple[int, int, int]
    threads: int
    smem_bytes: int
    registers: int


@dataclass(frozen=True)
class Hint:
    """A ranked configuration. Fields that its kernel does not have are None, or absent from a mapping.

    `block`, `warp` and `thread` are extents in elements of the output, one for each tiled axis: (rows, columns) for a
    contraction, (rows,) or (columns,) for a reduction, (elements,) where a tensor is processed as one line. `rstep` and
    `reduce_thread` have one entry for each axis that is summed over.

    `rank` counts from 1, as in tables and exports. Indices count from 0: that of a Python list, as in `hints[0]`, and
    `index`, the place in the list given to `rank` or in carver's own space. `config` has the backend's own keys; the
    fields from `block` to `cluster` are derived from it. `terms_ms` adds up to `predicted_ms`.
    """

    rank: int
    index: int
    backend: str
    kernel: str
    arch: Arch
    problem: Problem
    config: Mapping[str, int]
    predicted_ms: float
    bound: str
    terms_ms: Mapping[str, float]
    launch: Launch
    block: tuple[int, ...]
    """Tile of a block."""
    warp: tuple[int, ...] | None
    """Tile of a warp, for kernels with matrix instructions."""
    thread: tuple[int, ...] | None
    """Tile of a thread, for kernels whose threads have their own tiles."""
    rstep: tuple[int, ...] | None
    """Elements along each summed axis that a block processes in one step of its loop."""
    reduce_thread: tuple[int, ...] | None
    """Threads that share the reduction of one output."""
    num_warps: int | None
    """Warps per block, on GPUs, without those that only copy. `launch.threads` counts both."""
    pipeline_stage: int | None
    """Number of buffers for the tiles of a contraction's main loop."""
    use_async: bool
    use_tc: bool
    vectorize: Mapping[str, int]
    """For each input, the number of elements that one load moves."""
    rasterization_plan: RasterizationPlan
    split_k: int | None
    """Number of blocks that share the reduction of one output tile."""
    cluster: tuple[int, ...]
    """Blocks per cluster."""
    cached_tensors: tuple[str, ...]
    details: Mapping[str, float]
    limited_by: str
    band_ms: tuple[float, float]
    """Range that is meant to contain the measured time in 80 % of cases; see carver.ranking.uncertainty."""
    calibrated: str
    """Where the constants behind the prediction come from: this device, another, or priors."""
    notes: tuple[str, ...] = ()

    explain: ClassVar[Callable[..., Any]]
    """`carver.ops.elsewise.explained` of this hint, on its own device or another; see `carver._methods`."""

    def __post_init__(self) -> None:
        for name in ("config", "terms_ms", "vectorize", "details"):
            object.__setattr__(self, name, FrozenDict(getattr(self, name)))

    @property
    def terms(self) -> Mapping[str, float]:
        """The terms of the predicted time. [ms]"""
        return self.terms_ms

    def __str__(self) -> str:
        words = " ".join([self.kernel, *(f"{name}={value}" for name, value in self.config.items())])
        return f"{words}: {self.predicted_ms:.4g} ms predicted, bound by {self.bound}"

    def __repr__(self) -> str:
        return f"Hint(#{self.rank} {self})"

    def __hash__(self) -> int:
        return hash((self.kernel, self.arch, self.problem, tuple(self.config.items())))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` returns an equal hint.

        A device that ships with carver is written as its name, any other as its whole descriptor.
        """
        plan = self.rasterization_plan
        raster = None if isinstance(plan, NoRasterizationType) else {"panel_width": plan.panel_width}
        out: dict[str, Any] = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        out |= {
            "arch": to_plain(self.arch),
            "problem": self.problem.to_dict(),
            "rasterization_plan": raster,
            "launch": {f.name: _plain(getattr(self.launch, f.name)) for f in fields(self.launch)},
        }
        return out

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Hint:
        """The hint that `to_dict` wrote. Raises ConfigError for unknown keys and wrong values."""
        if isinstance(d, list) or (isinstance(d, Mapping) and "hints" in d):
            path = ".[0]" if isinstance(d, list) else ".hints[0]"
            raise ConfigError(f"this is a list of hints; take one of them, as jq '{path}' takes the first")
        if not isinstance(d, Mapping):
            raise ConfigError(f"a hint is an object of keys and values, got {shown(d)}")
        named = isinstance(d.get("arch"), str)
        check_fields(cls, {**d, "arch": {}} if named else d, "hint", ConfigError)
        check_fields(Launch, d["launch"], "hint's launch", ConfigError)
        if not d["predicted_ms"] > 0:
            raise ConfigError(f"not a hint: predicted_ms is above 0, got {d['predicted_ms']!r}")
        if d["rasterization_plan"] is not None:
            check_fields(Rasterization2DColumn, d["rasterization_plan"], "hint's rasterization_plan", ConfigError)
        out: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in d.items()}
        raster, launch = d["rasterization_plan"], d["launch"]
        out |= {
            "arch": from_plain(d["arch"]),
            "problem": Problem.from_dict(d["problem"]),
            "rasterization_plan": Rasterization2DColumn(**raster) if raster else NoRasterization,
            "launch": Launch(**launch | {"grid": tuple(launch["grid"])}),
        }
        return cls(**out)

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Hint:
        """The hint that `to_json` wrote. Raises ConfigError for anything else."""
        return cls.from_dict(json_of(text, "a hint", ConfigError))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
