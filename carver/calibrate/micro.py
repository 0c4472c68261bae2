"""What microbenchmarks share: a reading with its error bars, and how one kernel of templates/calibrate/ is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from types import MappingProxyType
from typing import Any

from ..base.errors import CompileError, RunError
from ..base.host import cores_available
from ..base.shipped import folder
from ..run.device import Call, Device, Program, Source, TensorSpec
from ..run.records import median_interval
from ..run.render import CPU_FLAGS, CUDA_FLAGS

REPEATS = 7
"""Runs of each microbenchmark: the fewest of which the extremes bound a median at 95 %, and one more."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured constant: the median of some runs, and the 95 % interval of that median. SI units."""

    name: str
    what: str
    unit: str
    value: float
    low: float
    high: float
    datasheet: float | None = None
    """What the descriptor says, from a datasheet or a prior."""
    note: str = ""

    @property
    def error(self) -> float:
        """Half the interval over the value."""
        if not self.value:
            return inf if self.high > self.low else 0.0
        return (self.high - self.low) / 2 / self.value


def reading(
    name: str, what: str, unit: str, samples: Sequence[float], datasheet: float | None = None, note: str = ""
) -> Reading:
    return Reading(name, what, unit, *median_interval(samples), datasheet, note)


@dataclass(frozen=True)
class Curve:
    """Bandwidth of a GPU against bytes in flight on an SM; of a core against those it walks. [bytes], [bytes/s]"""

    what: str
    in_flight_bytes: tuple[float, ...]
    bytes_per_s: tuple[float, ...]


@dataclass(frozen=True)
class Microbenchmarks:
    """All readings of one device, by name, and what was left out for what reason."""

    readings: Mapping[str, Reading]
    curves: tuple[Curve, ...] = ()
    left_out: tuple[str, ...] = ()

    def __add__(self, more: Microbenchmarks) -> Microbenchmarks:
        return Microbenchmarks(
            {**self.readings, **more.readings}, self.curves + more.curves, self.left_out + more.left_out
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, the readings in a list."""
        return {
            "readings": [asdict(r) for r in self.readings.values()], "curves": [asdict(c) for c in self.curves],
            "left_out": list(self.left_out),
        }  # fmt: skip

    def get(self, name: str) -> float | None:
        found = self.readings.get(name)
        return found.value if found else None


NOTHING = Microbenchmarks(MappingProxyType({}))
Run = Callable[[], None]


def run_part(bench: Any, name: str) -> Microbenchmarks:
    """The readings of one part, a method of a `cpu.Cpu` or `cuda.Gpu`, and why there are no more of them.

    The first of its `parts` measures `hz`, which others need.
    """
    bench.curves, bench.left_out = [], []
    found: dict[str, Reading] = {}
    try:
        for r in getattr(bench, name)():
            found[r.name] = r
    except (CompileError, RunError) as error:
        bench.left_out.append(f"{name}: {error}")
    return Microbenchmarks(found, tuple(bench.curves), tuple(bench.left_out))


class Launcher:
    """Kernels of templates/calibrate/ on one device."""

    def __init__(self, device: Device, repeats: int = REPEATS) -> None:
        self.device = device
        self.repeats = repeats

    def source(self, file: str, entry: str, isa: str = "", **defines: int) -> Source:
        path = folder("templates") / "calibrate" / file
        macros = {name: str(value) for name, value in defines.items()}
        if self.device.kind == "cpu":
            return Source(path, macros, CPU_FLAGS, (entry,), "native")
        return Source(path, macros, CUDA_FLAGS, (entry,), isa or self.device.arch.isa)

    def build(self, sources: Iterable[Source]) -> None:
        """Compile on all cores, so that what follows finds every binary in the cache."""

        def one(source: Source) -> None:
            with suppress(CompileError):  # said where the binary is used
                self.device.compile(source)

        with ThreadPoolExecutor(cores_available()) as pool:
            list(pool.map(one, sources))

    def run(
        self, source: Source, pointers: Mapping[str, int], *args: str | int, grid: int = 1, block: int = 1,
        smem_bytes: int = 0,
    ) -> Run:  # fmt: skip
        """A launch of the source's entry; strings in `args` name pointers."""
        call = Call(source.entries[0], (grid, 1, 1), block, smem_bytes, args)
        nothing = TensorSpec("out", (1,), "int32", 4)
        loaded = self.device.load(self.device.compile(source), Program(source, (call,), 0, (), nothing))
        return lambda: loaded.launch(pointers)

    def seconds(self, run: Run, *, cold: bool = False) -> list[float]:
        """Device time of each run, after one that is not counted. [s]"""
        self.device.time(run, 1, cold=cold)
        return self.device.time(run, self.repeats, cold=cold)
