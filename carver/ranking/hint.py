"""A hint: one configuration, its predicted time, and the reasons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields, replace
from enum import Enum
from functools import cache
from math import exp
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ..arch.descriptor import Arch
from ..arch.devices import from_plain, to_plain
from ..base.errors import ConfigError
from ..base.given import as_json, json_of, read, shown
from ..base.types import FrozenDict, Record, late
from ..problem.problem import Problem

if TYPE_CHECKING:
    from ..compiled.facts import Facts


class NoRasterizationType(Enum):
    """Blocks go over the output in row-major order. A singleton: `plan is not NoRasterization` is a valid test."""

    NoRasterization = "row-major"

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


NoRasterization = NoRasterizationType.NoRasterization


class Rasterization2DColumn(Record):
    """Blocks go over the output column by column, inside panels of `panel_width` rows of blocks."""

    panel_width: int

    def __str__(self) -> str:
        return f"panels of {self.panel_width} block rows"


RasterizationPlan = NoRasterizationType | Rasterization2DColumn


class Launch(Record):
    """Launch parameters of a hint. Registers are the model's estimate; the rest is exact."""

    grid: tuple[int, int, int]
    threads: int
    smem_bytes: int
    registers: int


class Subject(Record):
    """What a ranking is of where no declared operator says it: a kernel with its arguments, or several operators."""

    title: str
    sizes: Mapping[str, Any] = field(default_factory=FrozenDict)
    """Sizes and kinds of the arguments, in the form of profiles."""

    def __hash__(self) -> int:
        return hash(self.title)

    def __str__(self) -> str:
        return self.title

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = as_json(self)
        return plain


class Update(Record):
    """What measurements say of one candidate: its time [s], half of its band's width in logarithms, and the source."""

    seconds: float
    half_band: float
    text: str


NOT_MEASURED = "not measured"


class Hint(Record):
    """A ranked configuration. Fields that its kernel does not have are None, or absent from a mapping.

    `block`, `warp` and `thread` are extents in elements of the output, one for each tiled axis: (rows, columns) for a
    contraction, (rows,) or (columns,) for a reduction, (elements,) where a tensor is processed as one line. `rstep` and
    `reduce_thread` have one entry for each axis that is summed over. All are unknown of a kernel without a declaration.

    `rank` counts from 1, as in tables and exports, in the whole ranking. Indices count from 0: that of a Python list,
    as in `hints[0]`, and `index`, the place in the list given to `rank` or in carver's own space. `config` has the
    backend's own keys; the fields from `block` to `cluster` are derived from it. `terms_ms` adds up to `predicted_ms`.
    """

    rank: int
    index: int
    backend: str
    kernel: str
    arch: Arch
    subject: Problem | Subject
    config: Mapping[str, Any]
    predicted_ms: float
    bound: str
    terms_ms: Mapping[str, float]
    launch: Launch
    block: tuple[int, ...] = ()
    """Tile of a block."""
    warp: tuple[int, ...] | None = None
    """Tile of a warp, for kernels with matrix instructions."""
    thread: tuple[int, ...] | None = None
    """Tile of a thread, for kernels whose threads have their own tiles."""
    rstep: tuple[int, ...] | None = None
    """Elements along each summed axis that a block processes in one step of its loop."""
    reduce_thread: tuple[int, ...] | None = None
    """Threads that share the reduction of one output."""
    num_warps: int | None = None
    """Warps per block, on GPUs, without those that only copy. `launch.threads` counts both."""
    pipeline_stage: int | None = None
    """Number of buffers for the tiles of a contraction's main loop."""
    use_async: bool = False
    use_tc: bool = False
    vectorize: Mapping[str, int] = field(default_factory=FrozenDict)
    """For each input, the number of elements that one load moves."""
    rasterization_plan: RasterizationPlan = NoRasterization
    split_k: int | None = None
    """Number of blocks that share the reduction of one output tile."""
    cluster: tuple[int, ...] = ()
    """Blocks per cluster."""
    cached_tensors: tuple[str, ...] = ()
    details: Mapping[str, float] = field(default_factory=FrozenDict)
    limited_by: str = ""
    band_ms: tuple[float, float] | None = None
    """Range that is meant to contain the measured time in 80 % of cases; see carver.ranking.declared. None where
    nothing of the kind was measured."""
    calibrated: str = NOT_MEASURED
    """Where the constants behind the prediction come from: this device, another, or priors."""
    notes: tuple[str, ...] = ()
    also: tuple[int, ...] = ()
    """Further places in the given list whose configurations compile to the same code."""
    loop_ms: Mapping[str, float] = field(default_factory=FrozenDict)
    """Of a compiled kernel, for each resource, the time of the main loop if it were the only bound."""
    facts: Facts | None = field(default=None, compare=False, repr=False)
    """What is known of the compiled code, if the kernel was compiled."""
    layers: Mapping[str, Hint] = field(default_factory=FrozenDict)
    """The hint of each operator, by name, if there are several."""
    tied: bool = field(default=False, compare=False)
    """Whether the model does not tell it from the fastest of its ranking, or from a second where it is that one: their
    predicted times are within `ranking.TIED`."""

    explain: ClassVar[Callable[..., Any]] = late("ops.elsewise:explained")
    _repr_html_ = late("ranking.table:hint_html")

    if not TYPE_CHECKING:  # for who checks types, all fields are there

        def __getattr__(self, name: str) -> Any:
            """A field of `hints_of` that is made when one is first asked for, with all others."""
            if "_rest" not in vars(self):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(self._whole(), name)

    def _whole(self) -> Hint:
        """The hint with all its fields."""
        own = vars(self)
        if rest := own.get("_rest"):
            make, place = rest
            own.update(make()[place])
            own.pop("_rest", None)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return vars(self._whole())

    def __post_init__(self) -> None:
        for name in ("config", "terms_ms", "vectorize", "details", "loop_ms", "layers"):
            if type(value := getattr(self, name)) is not FrozenDict:
                object.__setattr__(self, name, FrozenDict(value))
        if self.rasterization_plan is None:  # as JSON has it
            object.__setattr__(self, "rasterization_plan", NoRasterization)

    @property
    def problem(self) -> Problem:
        """The declared problem. Raises ConfigError for a hint of a kernel or a layer, which has none."""
        return declared(self.subject)

    @property
    def contracts(self) -> bool:
        """Whether it multiplies matrices: what counts is arithmetic, else bytes."""
        return self.subject.contracts if isinstance(self.subject, Problem) else "tflops" in self.details

    @property
    def flops(self) -> float:
        """Arithmetic of the problem; of a compiled kernel, of its matrix products. [FLOP]"""
        if isinstance(self.subject, Problem):
            return self.subject.flops
        return self.details.get("tflops", 0.0) * self.predicted_ms * 1e9

    @property
    def compulsory_bytes(self) -> float:
        """Bytes that must move: each tensor's once."""
        if isinstance(self.subject, Problem):
            return self.subject.compulsory_bytes
        return self.details["compulsory_bytes"]

    @property
    def tunables(self) -> Mapping[str, Any]:
        """The configuration, and that of each further operator under its name if they may differ."""
        more = [*self.layers.items()][1:]
        return {**self.config, **{f"{name} {key}": value for name, h in more for key, value in h.config.items()}}

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
        return hash((self.kernel, self.arch, self.subject, self.config))

    def updated(self, update: Update) -> Hint:
        """The hint with the time and band that measurements gave it. Terms and rates are scaled in proportion."""
        ms = update.seconds * 1e3
        factor, width = ms / self.predicted_ms, update.half_band
        rates = {name: self.details[name] / factor for name in ("tflops", "roofline_share") if name in self.details}
        return replace(
            self, predicted_ms=ms, terms_ms=FrozenDict({name: t * factor for name, t in self.terms_ms.items()}),
            loop_ms=FrozenDict({name: t * factor for name, t in self.loop_ms.items()}),
            details=FrozenDict({**self.details, **rates}), band_ms=(ms * exp(-width), ms * exp(width)),
            calibrated=update.text,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` returns an equal hint.

        A device that ships with carver is written as its name, any other as its whole descriptor.
        """
        special: dict[str, Any] = {
            "arch": to_plain(self.arch),
            "subject": self.subject.to_dict(),
            "layers": {name: hint.to_dict() for name, hint in self.layers.items()},
        }
        if self.rasterization_plan is NoRasterization:
            special["rasterization_plan"] = None
        names = (f.name for f in fields(self) if f.name != "facts")
        out = {_CALLED.get(n, n): special[n] if n in special else as_json(getattr(self, n)) for n in names}
        return {name: value for name, value in out.items() if value or name not in _IF_ANY}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Hint:
        """The hint that `to_dict` wrote. Raises ConfigError for unknown keys and wrong values."""
        if isinstance(d, list) or (isinstance(d, Mapping) and "hints" in d):
            path = ".[0]" if isinstance(d, list) else ".hints[0]"
            raise ConfigError(f"this is a list of hints; take one of them, as jq '{path}' takes the first")
        if not isinstance(d, Mapping):
            raise ConfigError(f"a hint is an object of keys and values, got {shown(d)}")
        by: dict[str, Callable[[Any], Any]] = {
            "arch": from_plain, "subject": subject_of, "layers": lambda d: {n: cls.from_dict(h) for n, h in d.items()},
        }  # fmt: skip
        hint = read(cls, d, "hint", ConfigError, by=by, optional=_IF_ANY, left_out=("facts",), called=_CALLED)
        if isinstance(hint.subject, Problem) and not all(isinstance(value, int) for value in hint.config.values()):
            raise ConfigError(f"not a hint: config must be a mapping to whole numbers, got {shown(d['config'])}")
        if not hint.predicted_ms > 0:
            raise ConfigError(f"not a hint: predicted_ms is above 0, got {hint.predicted_ms!r}")
        return hint

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Hint:
        """The hint that `to_json` wrote. Raises ConfigError for anything else."""
        return cls.from_dict(json_of(text, "a hint", ConfigError))


_DEFAULTS = {
    f.name: f.default if f.default_factory is MISSING else f.default_factory()
    for f in fields(Hint) if f.default is not MISSING or f.default_factory is not MISSING
}  # fmt: skip
for _name in _DEFAULTS.keys() & vars(Hint).keys():
    delattr(Hint, _name)  # the class would answer for a hint whose field is not made yet; constructors have it too
Columns: TypeAlias = Mapping[str, Sequence[Any]]


def hints_of(columns: Columns, rest: Callable[[], tuple[Columns, Mapping[str, Any]]], **common: Any) -> list[Hint]:
    """Hints with a value for each in the columns, and with fields that all share. Mappings must be `FrozenDict`s.
    `rest` gives further columns and fields, and is called when a hint is first asked for one of them.

    The fields go into the objects directly: a frozen dataclass sets each by a call, and that takes as long as pricing.
    """

    @cache
    def made() -> list[dict[str, Any]]:
        more, alike = rest()
        same = {**{name: v for name, v in _DEFAULTS.items() if name not in columns and name not in common}, **alike}
        return [{**same, **dict(zip(more, row, strict=True))} for row in zip(*more.values(), strict=True)]

    out = []
    for place, row in enumerate(zip(*columns.values(), strict=True)):
        hint = object.__new__(Hint)
        object.__setattr__(hint, "__dict__", {**common, **dict(zip(columns, row, strict=True)), "_rest": (made, place)})
        out.append(hint)
    return out


_IF_ANY = ("also", "loop_ms", "layers", "tied")
"""Fields that JSON has only where there is something in them."""
_CALLED = {"subject": "problem"}
"""Keys of JSON that differ from the field's name."""


def declared(subject: Problem | Subject) -> Problem:
    """The subject if it is a declared problem. Raises ConfigError for any other."""
    if isinstance(subject, Problem):
        return subject
    raise ConfigError(f"this needs a declared operator, such as MatmulTemplate, and its candidates; {subject} is none")


def subject_of(d: Any) -> Problem | Subject:
    """What `to_dict` of either wrote."""
    if isinstance(d, Mapping) and "title" in d:
        return read(Subject, d, "subject of a hint", ConfigError)
    return Problem.from_dict(d)
