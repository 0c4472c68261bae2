"""Candidates of declared kernels, and their hints: of one operator, or of several that run one after another; and how
far to trust a prediction: where its constants come from, and a band of its error.

The band is the predicted time times exp(low) .. exp(high), and should hold the middle 80 % of measured times. On the
device on which a kernel's constants were fitted, low and high are quantiles of the errors on held-out problems, which
the kernel's `[fitted]` table states. Elsewhere they are widened by the error that moving to another device was seen to
add. `carver evaluate` prints the share of measured times that fell inside.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from math import hypot, isnan, nan
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ..arch.descriptor import LIMITS, Arch, occupancy_limits
from ..arch.devices import match
from ..base.errors import ConfigError
from ..base.types import FloatArray, FrozenDict, IntArray, Record, Value
from ..cost.estimate import LIMITERS
from ..cost.model import CONSTANTS, Priced, constants_of, resolve, roofline_seconds, shown
from ..kernels.declaration import Kernel
from ..kernels.expr import multiply_dtype
from ..kernels.space import Space
from ..problem.problem import Problem
from .hint import Columns, Hint, Launch, NoRasterization, Rasterization2DColumn, RasterizationPlan, Subject, hints_of
from .ranking import Ranking

if TYPE_CHECKING:
    from .profile import Prior

COVERAGE = 0.8
"""Share of measured times that a band is meant to contain."""
NEAR = 1.5
"""Bands are fitted to candidates predicted within this factor of the best, since these are the ones shown."""

Kind = Literal[
    "this device", "same kind", "other type", "family", "other device", "other vendor", "other kernel", "priors"
]
WIDENED: dict[Kind, float] = {
    "this device": 0.0, "same kind": 0.0, "other type": 0.2, "family": 0.1, "other device": 0.45, "other vendor": 0.9,
    "other kernel": 0.45, "priors": 0.7,
}  # fmt: skip
"""Error that is added to both sides of a band, as an independent error, if constants come from elsewhere. [ln]

For other devices, other vendors and priors it is the smallest value with which bands contain `COVERAGE` of the times of
every family left out (`benchmarks/heldout.py bands`). docs/howto/calibration.md lists the families, and the one table
for which no useful width is enough."""
MARKS: dict[Kind, str] = {
    "this device": "measured on this device", "same kind": "measured on this device", "other type": "same family",
    "family": "same family", "other device": "this device not measured", "other vendor": "this device not measured",
    "other kernel": "this kernel not measured", "priors": "datasheet only",
}  # fmt: skip
"""Basis of a ranking: times of this kernel on the device or one of its kind; times on its family or with other types;
times of another kernel, or on other devices; or only the device's datasheet."""
UNSTATED = 0.35
"""One side of the band of a fitted kernel whose `[fitted]` table does not state that side. [ln]"""


class Trust(Record):
    """Where a kernel's constants on a device come from, a mark first (`MARKS`).

    `low` and `high` are in logarithms of measured / predicted.
    """

    kind: Kind
    text: str
    low: float
    high: float

    def band_ms(self, predicted_ms: float) -> tuple[float, float]:
        return predicted_ms * float(np.exp(self.low)), predicted_ms * float(np.exp(self.high))


@lru_cache(maxsize=512)
def trust(kernel: Kernel, arch: Arch, dtype: str | None = None) -> Trust:
    """What is known of the constants that `kernel` is priced with on `arch`, for operands of `dtype`.

    A device with fields that the caller replaced is one of the same family.
    """
    name, here = f"{kernel.operator}/{kernel.name}", dict(arch.fitted)
    low, high = arch.fitted_constants("error_low").get(name), arch.fitted_constants("error_high").get(name)
    if low is not None and high is not None:
        return _made("this device", f"calibrated for this kernel on this device, {here['date']}", low, high)
    said = kernel.fitted
    if "device" not in said:
        text = "rates calibrated, this kernel not" if here else "nobody measured this kernel"
        return _made("priors", text, 0.0, 0.0)
    low, high = float(said.get("error_low", -UNSTATED)), float(said.get("error_high", UNSTATED))
    there = [found for name in said["device"].split(", ") if (found := match(name.partition(" (")[0]))]
    far = all(found.vendor != arch.vendor for found in there)
    if kernel.constants_of:
        text = f"constants of {kernel.constants_of}, fitted on {said['device']}"
        return _made("other vendor" if far else "other kernel", text, low, high)
    if any(found.name == arch.name for found in there) and not arch.replaced:
        if dtype and dtype not in said.get("dtypes", (dtype,)):
            return _made("other type", f"fitted on {said['device']}, but not with {dtype}", low, high)
        return _made("same kind", f"{said['device']}, {said['date']}", low, high)
    if any((found.vendor, found.isa) == (arch.vendor, arch.isa) for found in there):
        return _made("family", f"fitted on {said['device']}, also {arch.isa}", low, high)
    return _made("other vendor" if far else "other device", f"fitted on {said['device']}", low, high)


def _made(kind: Kind, text: str, low: float, high: float) -> Trust:
    low, high = widened((low, high), WIDENED[kind])
    return Trust(kind, f"{MARKS[kind]}: {text}", low, high)


def widened(band: tuple[float, float], more: float) -> tuple[float, float]:
    """Widen both sides of a band by an independent error of `more`, counted from the error in the band nearest to 0."""
    low, high = band
    middle = min(max(0.0, low), high)
    return middle - hypot(middle - low, more), middle + hypot(high - middle, more)


def share_within(errors: FloatArray, band: tuple[float, float]) -> float:
    """Share of log errors inside a band; NaN if there are no errors."""
    return float(np.mean((errors >= band[0]) & (errors <= band[1]))) if len(errors) else float("nan")


Column: TypeAlias = Callable[[str, int], list[int]]
"""Of the rows that are shown, a column by its name, or so many defaults."""


class Declared(Record, eq=False):
    """Priced candidates of an operator's kernels: those of each part after those of the one before."""

    subject: Problem
    arch: Arch
    backend: str
    made: Callable[[], tuple[Priced, ...]]
    notes: tuple[str, ...] = ()

    @cached_property
    def parts(self) -> tuple[Priced, ...]:
        return self.made()

    def __reduce__(self) -> tuple[Any, ...]:  # a copy has the candidates, not all that they were chosen from
        return Declared, (self.subject, self.arch, self.backend, partial(tuple, self.parts), self.notes)

    @property
    def of(self) -> str:
        return f"{self.subject.operator}/{self.backend}"

    @property
    def also(self) -> Mapping[int, tuple[int, ...]]:
        return {}

    @cached_property
    def seconds(self) -> FloatArray:
        return np.concatenate([part.seconds for part in self.parts])

    @property
    def index(self) -> IntArray:
        return np.concatenate([part.space.index for part in self.parts])

    @property
    def starts(self) -> IntArray:
        """The first row of each part."""
        return np.cumsum([0, *(len(part.space) for part in self.parts[:-1])])

    @property
    def keys(self) -> list[str]:
        return list(dict.fromkeys(name for part in self.parts for name in part.space.kernel.tunables))

    def column(self, key: str) -> tuple[IntArray, IntArray]:
        found = [
            (start + np.arange(len(part.space)), part.space.columns[key])
            for start, part in zip(self.starts, self.parts, strict=True) if key in part.space.kernel.tunables
        ]  # fmt: skip
        rows, values = zip(*found, strict=True)
        return np.concatenate(rows), np.concatenate(values)

    def owner(self, rows: IntArray) -> IntArray:
        """The part of each row."""
        out: IntArray = np.searchsorted(self.starts, rows, "right") - 1
        return out

    def by_part(self, rows: Sequence[int]) -> Iterator[tuple[Priced, IntArray, IntArray]]:
        """Each part with rows among these: their places among them, and their numbers in the part."""
        starts = self.starts.tolist()
        found: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            found.setdefault(bisect_right(starts, row) - 1, []).append(place)
        for number, places in sorted(found.items()):
            yield self.parts[number], np.array(places), np.array([rows[place] - starts[number] for place in places])

    def hints(self, rows: Sequence[int], ranks: Sequence[int]) -> list[Hint]:
        out: dict[int, Hint] = {}
        parts = list(self.by_part(rows))
        told = cache(lambda: shown([(part, those) for part, _, those in parts]))
        for number, (part, places, those) in enumerate(parts):
            space = part.space.where(those)
            columns: dict[str, Sequence[Any]] = {
                "rank": [ranks[place] for place in places], "index": space.index.tolist(), "config": _configs(space),
                "predicted_ms": [t * 1e3 for t in part.seconds[those].tolist()],
            }  # fmt: skip
            rest = partial(lambda space, at: _reasons(self.subject, space, told()[at]), space, number)
            made = hints_of(
                columns, rest, backend=self.backend, kernel=space.kernel.name, arch=space.arch, subject=self.subject,
                notes=self.notes, tied=False,
            )  # fmt: skip
            out |= zip(places.tolist(), made, strict=True)
        return [out[place] for place in range(len(rows))]

    def configs(self, rows: Sequence[int]) -> list[tuple[str, dict[str, int]]]:
        """The kernel's name and the configuration of each row, without making its hint."""
        out: dict[int, tuple[str, dict[str, int]]] = {}
        for part, places, those in self.by_part(rows):
            space = part.space
            out |= {at: (space.kernel.name, space.config(row)) for at, row in zip(places, those, strict=True)}
        return [out[place] for place in range(len(rows))]

    def learnable(self, rows: Sequence[int]) -> list[Prior]:
        from .profile import described

        return [
            _learnable([rows[place] for place in places], [part.space.where(those)], described(self.subject))
            for part, places, those in self.by_part(rows)
        ]


def _reasons(problem: Problem, space: Space, told: Mapping[str, Any]) -> tuple[Columns, Mapping[str, Any]]:
    """The other fields of hints, from the columns of `model.shown`: as columns, and those that all share."""
    arch, kernel, n = space.arch, space.kernel, len(space)
    col = partial(_whole, space)

    def of(values: Any) -> list[float]:
        if isinstance(values, np.ndarray) and values.ndim:
            found: list[float] = values.tolist()
            return found
        return [float(values)] * n

    warps, smem, registers = list(map(int, of(told["warps"]))), col("smem_bytes", 0), col("registers", 0)
    threads = col("threads", 0) if "threads" in space.columns else [w * arch.warp_size for w in warps]
    held = [max(w, -(-t // arch.warp_size)) for w, t in zip(warps, threads, strict=True)]  # with warps that only copy
    limited_by = list(map(_limit(arch), held, smem, registers))
    if arch.kind == "gpu":  # registers beyond these limits are spilled
        most, file = arch.max_regs_per_thread, arch.regs_per_block
        registers = [min(r, most, file // t) for r, t in zip(registers, threads, strict=True)]
    split, kind, group = col("split", 1), col("instruction", 0), col("group", 1)
    copies, cluster = col("async_copies", 0), col("cluster", 1)
    seconds, resident = of(told["seconds"]), of(told["resident"])
    limiter = np.array([of(alone) for alone in told["alone_s"]]).argmax(axis=0).tolist()
    terms = _records({name: [s * 1e3 for s in of(t)] for name, t in told["terms"].items()}, n)
    roofline = roofline_seconds(problem, arch)
    details = _records({
        **{name: of(fact) for name, fact in told["facts"].items()},
        "waves": of(told["waves"]), "blocks_per_sm": resident,
        "occupancy": [min(1.0, r * h / arch.max_warps_per_sm) for r, h in zip(resident, held, strict=True)],
        "steps": of(told["steps"]), "tflops": [problem.flops / t / 1e12 for t in seconds],
        "roofline_share": [roofline / t for t in seconds],
    }, n)  # fmt: skip
    trusted = trust(kernel, arch, multiply_dtype(problem))
    low, high = trusted.band_ms(1.0)
    tiles, stages = _tiles(space, col), _stages(space, col)
    vectorize, grids = _vectorize(problem, space, col), _grids(space, col, of(told["grid"]), split)
    inputs = tuple(t.name for t in problem.statement.inputs[:2])
    plans: list[RasterizationPlan] = [
        Rasterization2DColumn(g) if problem.contracts and g > 1 else NoRasterization for g in group
    ]
    columns: dict[str, Sequence[Any]] = {
        "bound": [_bound(each, LIMITERS[i]) for each, i in zip(terms, limiter, strict=True)], "terms_ms": terms,
        "launch": list(map(Launch, grids, threads, smem, registers)), **tiles, "use_async": list(map(bool, copies)),
        "use_tc": [k > 0 for k in kind], "vectorize": vectorize, "rasterization_plan": plans,
        "cluster": [(n, 1, 1) for n in cluster], "details": details, "limited_by": limited_by,
        "cached_tensors": [inputs if problem.contracts and n else () for n in smem],
        "band_ms": [(t * 1e3 * low, t * 1e3 * high) for t in seconds],
    }  # fmt: skip
    columns |= {"num_warps": warps} if arch.kind == "gpu" else {}
    columns |= {"pipeline_stage": stages} if stages else {}
    columns |= {"split_k": split} if problem.statement.reduced else {}
    return columns, {"calibrated": trusted.text}


@lru_cache(maxsize=64)
def _limit(arch: Arch) -> Callable[[int, int, int], str]:
    """What limits the blocks of an SM that have so many warps, bytes of shared memory, and registers."""

    @lru_cache(maxsize=4096)  # few values for many hints, and a dozen of NumPy's calls for each
    def limit(warps: int, smem_bytes: int, registers: int) -> str:
        limits = occupancy_limits(arch, *np.array([warps, smem_bytes, registers], float))
        return LIMITS[int(np.argmin(limits))]

    return limit


def _whole(space: Space, name: str, default: int) -> list[int]:
    """A column as whole numbers; a size of the scope, or else the default, stands in every row."""
    value = space.get(name, default)
    if not isinstance(value, np.ndarray):
        return [int(value)] * len(space)
    return value.tolist() if value.dtype == np.int64 else list(map(int, value.tolist()))


def _records(columns: Mapping[str, Sequence[Value]], n: int) -> list[FrozenDict[Value]]:
    """Each row of the columns as a mapping."""
    made = [FrozenDict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return made or [FrozenDict()] * n


def _configs(space: Space) -> list[FrozenDict[int]]:
    """`Space.config` of all rows."""
    kernel = space.kernel
    records = _records({name: _whole(space, name, 0) for name in kernel.tunables}, len(space))
    options = {name for names in kernel.options.values() for name in names}
    return records if not options else [
        FrozenDict({name: n for name, n in each.items() if name not in options or n != kernel.defaults[name]})
        for each in records
    ]  # fmt: skip


def _tiles(space: Space, col: Column) -> dict[str, list[Any]]:
    """The fields of hints for the tiles of a block, a warp, a thread and a step, from a declaration's columns.

    These are `tile_m tile_n tile_k` for a contraction; `tile_r tile_c` for a matrix as stored in memory;
    `tile_elements` for a tensor that is processed as one line. If a reduction has `axis` 1, it sums over the matrix's
    columns, with 0 over its rows.
    """

    def those(*names: str) -> list[tuple[int, ...]] | None:
        there = [col(name, 1) for name in names if name in space.columns]
        return list(zip(*there, strict=True)) or None

    block, rstep = those("tile_m", "tile_n"), those("tile_k")
    s = space.problem.statement
    if "tile_r" in space.columns and not s.reduced:
        turned = s.output.index[-1:] != s.inputs[0].index[-1:]
        block = those("tile_c", "tile_r") if turned else those("tile_r", "tile_c")
    elif "tile_r" in space.columns:
        kept, summed = ("tile_r", "tile_c") if space.scope["axis"] else ("tile_c", "tile_r")
        block, rstep = those(kept), those(summed)
    warp: list[tuple[int, ...] | None] | None = None
    if block is not None and any(kinds := col("instruction", 0)):
        warps = zip(col("warps_m", 1), col("warps_n", 1), strict=True)
        warp = [
            tuple(max(1, size // count) for size, count in zip(tile, counts, strict=True)) if kind else None
            for kind, tile, counts in zip(kinds, block, warps, strict=True)
        ]
    found: dict[str, list[Any] | None] = {
        "block": block or those("tile_elements"), "warp": warp, "thread": those("thread_m", "thread_n"),
        "rstep": rstep, "reduce_thread": those("reduce_threads"),
    }  # fmt: skip
    return {name: column for name, column in found.items() if column is not None}


def _stages(space: Space, col: Column) -> list[int] | None:
    """Pipeline stages as declared; otherwise, for a contraction, one more than the steps that its loads run ahead."""
    if "stages" in space.columns:
        return col("stages", 1)
    looped = space.problem.contracts and {"tile_m", "tile_k", "ahead"} <= space.columns.keys()
    return [ahead + 1 for ahead in col("ahead", 1)] if looped else None


def _bound(terms: Mapping[str, float], loop: str) -> str:
    """What bounds the time: the largest term, or the resource that bounds the loop (`loop`) if that is the main loop.
    The tail wave counts as part of the main loop."""
    largest = max(terms, key=terms.__getitem__)
    in_loop = terms["main loop"] + terms["tail wave"] >= 0.5 * sum(terms.values())
    return loop if in_loop or largest in ("main loop", "tail wave") else largest


def _vectorize(problem: Problem, space: Space, col: Column) -> list[FrozenDict[int]]:
    """For each input, the elements that one load moves; empty if the declaration does not say."""
    inputs = [t.name for t in problem.statement.inputs]
    copies: dict[str, list[float]] = {}
    if "access_elements" in space.columns:
        elements = col("access_elements", 1)
        sizes = {name: int(problem.itemsize(name)) for name in inputs}
        copies = {name: [each * itemsize for each in elements] for name, itemsize in sizes.items()}
    elif "instruction" in space.columns:
        copies = {name: [*col(f"copy_{x}_bytes", 16)] for name, x in zip(inputs, "ab", strict=False)}
    widths = {}
    for name, column in copies.items():
        align, itemsize = problem.align_bytes[name], problem.itemsize(name)
        widths[name] = [max(1, int(min(n, align) / itemsize)) for n in column]
    return _records(widths, len(space))


def _grids(space: Space, col: Column, tiles: list[float], split: list[int]) -> list[tuple[int, int, int]]:
    """Grid of the launch that is made for every candidate, as declared. For another tool's kernel, which declares no
    launch: (tiles, parts of the reduction, 1)."""
    always = [launch.grid for launch in space.kernel.launches if not launch.when.names]
    if not always:
        return [(int(count) // max(parts, 1), parts, 1) for count, parts in zip(tiles, split, strict=True)]
    names = frozenset[str]().union(*(extent.names for extent in always[0]))
    env = {name: space.get(name, 0) for name in names}
    extents = [extent(env) for extent in always[0]]
    columns = [list(map(int, e.tolist())) if np.ndim(e) else [int(e)] * len(split) for e in extents]
    ones = [1] * len(split)
    x, y, z = (*columns, ones, ones)[:3]
    return list(zip(x, y, z, strict=True))


def declared_in(ranking: Ranking) -> Declared:
    """The candidates of a ranking of a declared operator. Raises ConfigError for one of something else."""
    if isinstance(ranking.table, Declared):
        return ranking.table
    raise ConfigError(f"this needs a ranking of a declared operator; {ranking.subject} is none")


class Layered(Record, eq=False):
    """Each row is a row of every operator's candidates; its time is the sum of theirs."""

    subject: Subject
    tables: Mapping[str, Declared]
    """The candidates of each operator, by name, in the order in which they run."""
    rows: IntArray
    """Rows of these, of shape (operators, candidates)."""
    index: IntArray
    """The place of each in the list that the user gave."""
    notes: tuple[str, ...] = ()

    @property
    def _first(self) -> Declared:
        return next(iter(self.tables.values()))

    @property
    def arch(self) -> Arch:
        return self._first.arch

    @property
    def backend(self) -> str:
        return self._first.backend

    @property
    def of(self) -> str:
        return f"{' and '.join(dict.fromkeys(table.of for table in self.tables.values()))}, {len(self.tables)} layers"

    @property
    def also(self) -> Mapping[int, tuple[int, ...]]:
        return {}

    @cached_property
    def seconds(self) -> FloatArray:
        each = [table.seconds[rows] for table, rows in zip(self.tables.values(), self.rows, strict=True)]
        out: FloatArray = np.sum(each, axis=0)
        return out

    @property
    def keys(self) -> list[str]:
        return self._first.keys

    def column(self, key: str) -> tuple[IntArray, Any]:
        rows, values = self._first.column(key)
        place = {int(row): i for i, row in enumerate(rows)}
        here = [i for i, row in enumerate(self.rows[0].tolist()) if row in place]
        return np.array(here, np.int64), values[[place[int(row)] for row in self.rows[0][here]]]

    def hints(self, rows: Sequence[int], ranks: Sequence[int]) -> list[Hint]:
        chosen = self.rows[:, list(rows)].tolist()
        made = [table.hints(own, ranks) for table, own in zip(self.tables.values(), chosen, strict=True)]
        return [
            self._hint(row, dict(zip(self.tables, layers, strict=True)))
            for row, layers in zip(rows, zip(*made, strict=True), strict=True)
        ]

    def _hint(self, row: int, layers: dict[str, Hint]) -> Hint:
        first, most = next(iter(layers.values())), max(layers.values(), key=lambda hint: hint.predicted_ms)
        terms: dict[str, float] = {}
        for name, hint in layers.items():
            terms |= {f"{name}: {term}": ms for term, ms in hint.terms_ms.items() if ms}
        flops, seconds = sum(hint.problem.flops for hint in layers.values()), float(self.seconds[row])
        least = float(sum(hint.compulsory_bytes for hint in layers.values()))
        moved = float(sum(hint.details.get("dram_bytes", hint.compulsory_bytes) for hint in layers.values()))
        ideal = sum(h.predicted_ms * h.details["roofline_share"] for h in layers.values()) / 1e3
        lows, highs = zip(*(hint.band_ms or (nan, nan) for hint in layers.values()), strict=True)
        return Hint(
            rank=first.rank, index=int(self.index[row]), backend=first.backend, kernel=first.kernel, arch=first.arch,
            subject=self.subject, config=first.config, predicted_ms=seconds * 1e3, bound=most.bound,
            terms_ms=FrozenDict(terms), launch=most.launch, block=first.block, num_warps=first.num_warps,
            pipeline_stage=first.pipeline_stage, use_tc=first.use_tc, layers=FrozenDict(layers),
            details=FrozenDict({
                "tflops": flops / seconds / 1e12, "roofline_share": ideal / seconds, "dram_bytes": moved,
                "compulsory_bytes": least,
            }),
            calibrated=first.calibrated, notes=self.notes,
            band_ms=None if isnan(sum(lows)) else (sum(lows), sum(highs)),
        )  # fmt: skip

    def learnable(self, rows: Sequence[int]) -> list[Prior]:
        """Constants of one name move together in all operators."""
        from .profile import described

        tables, chosen = list(self.tables.values()), self.rows[:, list(rows)]
        sizes = {f"{name} {k}": v for name, table in self.tables.items() for k, v in described(table.subject).items()}
        kind = " and ".join(str(sizes.pop(f"{name} kind")) for name in self.tables)
        owners = zip(*(table.owner(own).tolist() for table, own in zip(tables, chosen, strict=True)), strict=True)
        by_kernels: dict[tuple[int, ...], list[int]] = {}
        for place, owner in enumerate(owners):
            by_kernels.setdefault(owner, []).append(place)
        return [
            _learnable([rows[place] for place in places], [
                table.parts[number].space.where(own[places] - table.starts[number])
                for table, own, number in zip(tables, chosen, owner, strict=True)
            ], {**sizes, "kind": kind}, [*self.tables])
            for owner, places in by_kernels.items()
        ]  # fmt: skip


def _learnable(
    rows: Sequence[int], spaces: Sequence[Space], problem: Mapping[str, Any], layers: Sequence[str] = ()
) -> Prior:
    """What learning needs of some rows: their candidates of each operator, of several the name too."""
    from ..cost.learn import predict
    from .profile import Prior

    kernel = spaces[0].kernel
    names, constants = [name for name in CONSTANTS if name in constants_of(kernel)], resolve(kernel, spaces[0].arch)

    def seconds(k: Mapping[str, float]) -> FloatArray:
        out: FloatArray = np.sum([predict(space, k) for space in spaces], axis=0)
        return out

    each = zip(*([space.config(i) for i in range(len(rows))] for space in spaces), strict=True)
    configs = [config for (config,) in each] if not layers else [
        {f"{layer} {key}": n for layer, config in zip(layers, row, strict=True) for key, n in config.items()}
        for row in each
    ]  # fmt: skip
    kernels = " and ".join(dict.fromkeys(space.kernel.name for space in spaces))
    return Prior.made(rows, kernels, configs, problem, seconds, names, constants)
