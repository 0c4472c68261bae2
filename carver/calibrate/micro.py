"""Microbenchmarks, each for one constant: readings with their error bars, of a CPU and of an NVIDIA GPU.

On a CPU all cores that the process may use work at once. On a GPU rates of instructions are counted in clocks of the SM
by the kernels themselves, whatever the clock does meanwhile; bandwidths and launches are times between events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from math import ceil, inf
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arch.descriptor import Arch, Matrix
from ..base.dtypes import BYTES, CODES
from ..base.errors import CompileError, RunError
from ..base.folders import cores_available, folder
from ..base.types import Record
from ..run.buffers import Buffer
from ..run.device import CpuDevice, Device
from ..run.records import median_interval
from ..run.render import CPU_FLAGS, CUDA_FLAGS, Call, Program, Source, TensorSpec

REPEATS = 7
"""Runs of each microbenchmark: the fewest of which the extremes bound a median at 95 %, and one more."""


class Reading(Record):
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


class Microbenchmarks(Record):
    """All readings of one device, by name, and what was left out for what reason."""

    readings: Mapping[str, Reading]
    left_out: tuple[str, ...] = ()

    def __add__(self, more: Microbenchmarks) -> Microbenchmarks:
        return Microbenchmarks({**self.readings, **more.readings}, self.left_out + more.left_out)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, the readings in a list."""
        return {"readings": [asdict(r) for r in self.readings.values()], "left_out": list(self.left_out)}

    def get(self, name: str) -> float | None:
        found = self.readings.get(name)
        return found.value if found else None


NOTHING = Microbenchmarks(MappingProxyType({}))
Run = Callable[[], None]


def run_part(bench: Launcher, name: str) -> Microbenchmarks:
    """The readings of one part, a method of a `Cpu` or `Gpu`, and why there are no more of them. The first of its
    `parts` measures `hz`, which others need."""
    bench.left_out = []
    found: dict[str, Reading] = {}
    try:
        for r in getattr(bench, name)():
            found[r.name] = r
    except (CompileError, RunError) as error:
        bench.left_out.append(f"{name}: {error}")
    return Microbenchmarks(found, tuple(bench.left_out))


class Launcher:
    """Kernels of templates/calibrate/ on one device, and what is said of it beside readings."""

    def __init__(self, device: Device, repeats: int = REPEATS) -> None:
        self.device, self.arch, self.repeats, self.hz = device, device.arch, repeats, device.arch.clock_hz
        self.left_out: list[str] = []

    def source_of(self, file: str, entry: str, isa: str = "", **defines: int) -> Source:
        path = folder("templates") / "calibrate" / file
        macros = {name: str(value) for name, value in defines.items()}
        if self.device.kind == "cpu":
            return Source(path, macros, CPU_FLAGS, (entry,), "native")
        return Source(path, macros, CUDA_FLAGS, (entry,), isa or self.arch.isa)

    def build(self, sources: Iterable[Source]) -> None:
        """Compile on all cores, so that what follows finds every binary in the cache."""

        def one(source: Source) -> None:
            with suppress(CompileError):  # said where the binary is used
                self.device.compile(source)

        with ThreadPoolExecutor(cores_available()) as pool:
            list(pool.map(one, sources))

    def launch(
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


CHAINS = 12
SPAN_S = 0.005
"""What one run takes at least: long beside waking the cores up, short beside the time slices of a busy system."""
CPU_REPEATS = 15
MOST_COUNT = 1 << 16
MOST_BYTES = 1 << 30
BEYOND, LEAST_BEYOND = 8, 1 << 29


class Cpu(Launcher):
    """Every reading of the processor. `most_bytes` is what may be allocated; `effort` scales how long each run is."""

    parts: tuple[str, ...] = ("clock", "fma", "tasks", "bandwidth", "latency")

    def __init__(self, device: CpuDevice, most_bytes: int = MOST_BYTES, effort: float = 1.0) -> None:
        super().__init__(device, CPU_REPEATS)
        self.span_s, self.threads, self.most_bytes = effort * SPAN_S, device.threads, most_bytes
        self.out = device.empty((8 * max(device.threads, 1),), "float64")
        caches = self.arch.l2_bytes + self.arch.l3_bytes
        self.beyond = min(max(BEYOND * caches, LEAST_BEYOND), most_bytes, self.arch.dram_bytes // 4)
        """Bytes that caches do not hold; a virtual machine may have more of them than it says."""

    def source(self, entry: str) -> Source:
        return self.source_of("cpu.c", f"carver_{entry}", SIMD_BYTES=max(self.arch.simd_bytes, 16))

    def run(self, entry: str, *args: str | int, data: int = 0) -> Run:
        return self.launch(self.source(entry), {"data": data, "out": self.out.pointer}, *args)

    def counted(self, make: Callable[[int], Run], least: int) -> tuple[int, list[float]]:
        """A count of which one run takes at least the span, and the times of the runs of it. [s] Half as many must take
        visibly less: on a busy system a parallel region waits for a core whatever it computes."""
        count, before = least, self._quickest(make(least))
        while count < MOST_COUNT * least:
            count *= 2
            took = self._quickest(make(count))
            if took >= self.span_s and took > 1.6 * before:
                break
            before = took
        return count, self.seconds(make(count))

    def _quickest(self, run: Run) -> float:
        return min(self.device.time(run, 3, cold=False))

    def clock(self) -> Iterator[Reading]:
        rounds, took = self.counted(lambda n: self.run("clock", "out", n), 1000)
        samples = [64 * rounds / t for t in took]
        self.hz = float(np.median(samples))
        yield reading("clock_hz", "clock of one core, by dependent additions", "Hz", samples, self.arch.clock_hz)

    def fma(self) -> Iterator[Reading]:
        rounds, took = self.counted(lambda n: self.run("fma", "out", n), 20_000)
        per_core = [2 * self.arch.simd_bytes / 4 * CHAINS * rounds / t for t in took]
        said = self.arch.vector_flops_per_clk("float32") * self.arch.clock_hz
        yield reading("vector.float32", "vector multiply-add, float32, a core", "FLOP/s", per_core, said)

    def tasks(self) -> Iterator[Reading]:
        single = self.seconds(self.run("tasks", "out", self.threads))
        yield reading("launch_s", "parallel region of empty tasks, one a core", "s", single)
        many, took = self.counted(lambda n: self.run("tasks", "out", n), 1000)
        per = [max(t - float(np.median(single)), 0.0) / many * self.threads * self.hz for t in took]
        yield reading("block_dispatch_clk", "handing a core one task", "clk", per)

    def bandwidth(self) -> Iterator[Reading]:
        """Of caches that each core has its own of, that of all cores; what they share is read by all or not at all."""
        a, threads = self.arch, self.threads
        private, part, largest = a.l2_bytes // a.l2_partitions, a.l3_bytes // 2 // threads, self.beyond // threads
        own = [
            ("read", "l1_bytes_per_s", "L1, reading half of it", a.l1_bytes // 2, None),
            ("read", "l2_bytes_per_s", "L2, reading half of it", private // 2, a.l2_bytes_per_s),
        ]
        shared = [
            ("read", "l3_bytes_per_s", "L3, reading half of it", part, a.l3_bytes_per_s),
            ("read", "dram_read_bytes_per_s", "DRAM, reading", largest, a.dram_bytes_per_s),
            ("write", "dram_write_bytes_per_s", "DRAM, writing (fetched before it is written)", largest, None),
        ][part <= private :]
        if threads < a.sm_count:
            self.left_out.append(f"L3 and DRAM: {threads} of {a.sm_count} cores may run at once")
            shared = []
        levels = [(*level, a.sm_count) for level in own] + [(*level, threads) for level in shared]
        buffer = self.device.empty((max(size for *_, size, _, _ in levels) * threads,), "int8")
        self.device.fill(buffer, 0)
        for entry, name, what, size, said, readers in levels:
            each = max(size, 4096) & -1024
            if each * threads > buffer.size_bytes:
                self.left_out.append(f"{what}: it would take more than {self.most_bytes:,} bytes")
                continue
            note = ""
            if name == "dram_read_bytes_per_s" and each * threads < 2 * (a.l2_bytes + a.l3_bytes):
                note = "partly from cache: the array is less than twice the caches"
            passes, took = self.counted(partial(self.run, entry, "data", "out", each, data=buffer.pointer), 1)
            samples = [each * passes * readers / t for t in took]
            yield reading(name, what, "B/s", samples, said, note)

    def latency(self) -> Iterator[Reading]:
        a = self.arch
        for name, what, size, said in (
            ("l2_latency_s", "L2, pointer chase", a.l2_bytes // a.l2_partitions // 2, a.l2_latency_s),
            ("dram_latency_s", "DRAM, pointer chase", self.beyond, a.dram_latency_s),
        ):
            stride = 2 * a.line_bytes  # the neighbouring line is often fetched along
            slots = 1 << int(np.log2(max(size // stride, 16)))
            data = self.device.empty((slots * stride,), "int8")
            self.run("chain", "data", "out", slots, stride, data=data.pointer)()
            hops, took = self.counted(partial(self.run, "chase", "data", "out", data=data.pointer), 1000)
            yield reading(name, what, "s", [t / hops for t in took], said, "address translation included")


VECTOR_BYTES = 16
UNROLL = 4
LANES = ((1, 32), (1, 64), (1, 128), (1, 256), (1, 512), (1, 1024), (2, 1024))
"""Blocks on an SM and threads of a block, from too few bytes in flight to more than enough."""
BUSY = 0.9
"""Share of the highest bandwidth at which a latency counts as that of a busy memory."""
MMA_K_BYTES, MMA_TILES, MMA_WARPS = 32, 8, 16
WGMMA_STEPS, WGMMA_GROUPS = 4, 2
WGMMA_SMEM_BYTES = (64 * WGMMA_GROUPS + 256) * 128
SHARED_BYTES_PER_ROUND = 8 * VECTOR_BYTES
ROUNDS = 2000
"""Of a kernel that counts its clocks."""
PASSES = 4
"""Over DRAM: what is timed takes a millisecond, beside which the gap between an event and a launch is small."""


class Gpu(Launcher):
    """Every reading that the GPU allows; below half a minute, most of it the compiler's."""

    parts: tuple[str, ...] = (
        "clock", "launches", "dram", "l2", "latencies", "shared", "vector", "mma", "wgmma", "atomics",
    )  # fmt: skip

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.sms = self.arch.sm_count
        self.clocks = device.empty((max(self.sms, 2),), "int32")
        self.out = device.empty((4,), "int32")
        self.has_fragments = (self.arch.cc or (0, 0)) >= (7, 5)  # ldmatrix, and mma.sync as carver's kernels use it

    def source(self, name: str, entry: str = "", **defines: int) -> Source:
        isa = f"{self.arch.isa}a" if name == "wgmma" else ""
        return self.source_of(f"{name}.cu", entry or f"carver_{name}", isa, **defines)

    def sources(self) -> Iterator[Source]:
        for name in ("stream", "shared", "empty"):
            yield self.source(name)
        yield self.source("stream", WRITE=1)
        for entry in ("chain", "chase"):
            yield self.source("chase", f"carver_{entry}")
        for entry in ("add", "swap"):
            yield self.source("atomic", f"carver_{entry}")
        if self.has_fragments:
            yield self.source("shared", "carver_fragment")
        for _, _, source in (*self._vectors(), *self._mmas()):
            yield source
        for _, source in self._wgmmas():
            yield source

    def _counted(self, run: Run, *, cold: bool = False) -> list[tuple[int, float]]:
        """Most clocks of any block, and the time [s], of each run."""
        found = []
        for _ in range(self.repeats):
            took = self.device.time(run, 1, cold=cold)[0]
            found.append((int(self.device.download(self.clocks).max()), took))
        return found

    def _busy(self, source: Source, rounds: int, blocks: int, threads: int, smem_bytes: int = 0) -> Run:
        """A kernel that takes (clocks, out, rounds)."""
        self.device.fill(self.clocks, 0)
        pointers = {"clocks": self.clocks.pointer, "out": self.out.pointer}
        return self.launch(source, pointers, "clocks", "out", rounds, grid=blocks, block=threads, smem_bytes=smem_bytes)

    def clock(self) -> Iterator[Reading]:
        """First of all, and long enough that the clock has left its idle state; before it all sources are compiled."""
        self.build(self.sources())
        run = self._busy(self.source("vector", KIND=CODES["float32"]), 40_000, self.sms, 1024)
        for _ in range(30):
            run()
        samples = [clk / took for clk, took in self._counted(run)]
        self.hz = float(np.median(samples))
        yield reading("clock_hz", "SM clock under vector load", "Hz", samples, self.arch.clock_hz)

    def launches(self) -> Iterator[Reading]:
        source = self.source("empty")
        one = self.launch(source, {}, grid=1, block=32)

        def two() -> None:
            one()
            one()

        single, double = self.seconds(one, cold=True), self.seconds(two, cold=True)
        launch_s = float(np.median(single))
        yield reading("launch_s", "empty kernel, event to event", "s", single)
        yield reading("second_launch_s", "one kernel behind another", "s", [t - launch_s for t in double])
        for name, what, blocks, warps in (
            ("block_dispatch_clk", "handing an SM a block of one warp", 4096, 1),
            ("warp_start_clk", "starting one warp of a block of 32", 512, 32),
        ):
            run = self.launch(source, {}, grid=self.sms * blocks, block=32 * warps)
            per = [(t - launch_s) * self.hz / blocks / warps for t in self.seconds(run, cold=True)]
            yield reading(name, what, "clk", per)

    def stream(
        self, source: Source, data: Buffer, to: Buffer, size: int, passes: int, lanes: tuple[int, int],
        sharers: int = 1,
    ) -> tuple[Run, int]:  # fmt: skip
        """A run that reads the first `size` bytes about `passes` times, and the bytes that all its threads ask for."""
        blocks, threads = lanes[0] * self.sms, lanes[1]
        readers = ceil(blocks / sharers) * threads
        rounds = max(round(passes * size / (VECTOR_BYTES * UNROLL * readers)), 1)
        run = self.launch(
            source, {"data": data.pointer, "to": to.pointer},
            "data", "to", size // VECTOR_BYTES, rounds, sharers, 1, grid=blocks, block=threads,
        )  # fmt: skip
        return run, rounds * UNROLL * VECTOR_BYTES * blocks * threads

    def _sweep(self, data: Buffer, size: int, passes: int, sharers: int = 1) -> tuple[list[float], float]:
        """Bandwidths of the runs with the most, and the latency that a busy memory shows. [bytes/s], [s] By Little's
        law, at the bytes in flight that reach `BUSY` of the best."""
        source = self.source("stream")
        in_flight = [float(b * t * UNROLL * VECTOR_BYTES) for b, t in LANES]
        runs = [self.stream(source, data, data, size, passes, lanes, sharers) for lanes in LANES]
        samples = [[moved / t for t in self.seconds(run)] for run, moved in runs]
        rates = [float(np.median(each)) for each in samples]
        best = int(np.argmax(rates))
        rising = np.maximum.accumulate(rates[: best + 1])
        enough = float(np.interp(BUSY * rates[best], rising, in_flight[: best + 1]))
        return samples[best], enough * self.sms / (BUSY * rates[best])

    def dram(self) -> Iterator[Reading]:
        peak = self.arch.dram_bytes_per_s
        size = int(min(1 << 30, self.arch.dram_bytes // 8)) & -(1 << 20)
        data, to = self.device.empty((size,), "int8"), self.device.empty((size,), "int8")
        self.device.fill(data, 1)
        read, latency = self._sweep(data, size, PASSES)
        yield reading("dram_read_bytes_per_s", "DRAM, reading", "B/s", read, peak)
        yield Reading("dram_busy_latency_s", "DRAM latency when busy (Little)", "s", latency, latency, latency)
        copy, moved = self.stream(self.source("stream", WRITE=1), data, to, size, PASSES, (2, 1024))
        both = [2 * moved / t for t in self.seconds(copy)]
        yield reading("dram_copy_bytes_per_s", "DRAM, copying: read and written", "B/s", both, peak)

    def l2(self) -> Iterator[Reading]:
        size = self.arch.l2_bytes // 4 & -(1 << 16)
        data = self.device.empty((size,), "int8")
        self.device.fill(data, 1)
        read, latency = self._sweep(data, size, max(PASSES, (1 << 33) // size))
        yield reading("l2_read_bytes_per_s", "L2, reading a quarter of it", "B/s", read, self.arch.l2_bytes_per_s)
        yield Reading("l2_busy_latency_s", "L2 latency when busy (Little)", "s", latency, latency, latency)
        shared, _ = self._sweep(data, size, max(PASSES, (1 << 33) // size), 2)
        yield reading("l2_shared_bytes_per_s", "L2, each line read by two neighbours", "B/s", shared)

    def latencies(self) -> Iterator[Reading]:
        """The clocks of a hop over the SM's clock; of DRAM over lines that L2 does not hold."""
        line = self.arch.line_bytes
        for name, what, size, warm, hops, said in (
            ("l2_latency_s", "L2, pointer chase", self.arch.l2_bytes // 8, 1, 4096, self.arch.l2_latency_s),
            ("dram_latency_s", "DRAM, pointer chase", 4 * self.arch.l2_bytes, 0, 4096, self.arch.dram_latency_s),
        ):
            slots = 1 << int(np.log2(size // line))
            data = self.device.empty((slots * line,), "int8")
            pointers = {"data": data.pointer, "clocks": self.clocks.pointer}
            chain = self.launch(
                self.source("chase", "carver_chain"), pointers, "data", slots, line // 4, grid=self.sms, block=256
            )
            chase = self.launch(
                self.source("chase", "carver_chase"), pointers, "data", "clocks", warm * min(slots, 1 << 16), hops
            )
            self.device.fill(self.clocks, 0)
            chain()
            counted = self._counted(chase, cold=not warm)
            yield reading(name, what, "s", [clk / hops / self.hz for clk, _ in counted], said)

    def _rate(self, source: Source, work: int, threads: int, smem_bytes: int = 0) -> list[float]:
        """What a block on each SM does a clock, if `work` is what it does in a round."""
        counted = self._counted(self._busy(source, ROUNDS, self.sms, threads, smem_bytes))
        return [work * ROUNDS / clk for clk, _ in counted]

    def shared(self) -> Iterator[Reading]:
        rate = self._rate(self.source("shared"), 1024 * SHARED_BYTES_PER_ROUND, 1024)
        yield reading("smem_bytes_per_clk", "shared memory, an SM", "B/clk", rate, self.arch.smem_bytes_per_clk)
        if self.has_fragments:
            counted = self._counted(self._busy(self.source("shared", "carver_fragment"), ROUNDS, self.sms, 32))
            latency = [clk / ROUNDS for clk, _ in counted]
            yield reading("fragment_latency_clk", "a fragment from shared memory (ldmatrix), latency", "clk", latency)

    def _vectors(self) -> Iterator[tuple[str, int, Source]]:
        """(dtype, FLOP of an instruction, source): int8 multiplies four at a time."""
        for dtype, flops in (("float32", 2), ("float64", 2), ("int32", 2), ("int8", 8)):
            yield dtype, flops, self.source("vector", KIND=CODES[dtype])

    def vector(self) -> Iterator[Reading]:
        for dtype, flops, source in self._vectors():
            rate = self._rate(source, 1024 * 16 * flops, 1024)
            said = self.arch.vector_flops_per_clk(dtype)
            yield reading(f"vector.{dtype}", f"vector multiply-add, {dtype}, an SM", "FLOP/clk", rate, said)

    def _mmas(self) -> Iterator[tuple[Matrix, int, Source]]:
        for row in self.arch.matrix:
            if row.instruction == "mma" and self.has_fragments:
                half = int(row.accumulate == "float16")
                k = MMA_K_BYTES // BYTES.get(row.dtype, 1)
                yield row, 2 * 16 * 8 * k, self.source("mma", KIND=CODES[row.dtype], HALF_SUMS=half)

    def mma(self) -> Iterator[Reading]:
        done = set()
        for row, flops, source in self._mmas():
            done.add((row.dtype, row.accumulate, row.instruction))
            yield _matrix_reading(row, self._rate(source, MMA_WARPS * MMA_TILES * flops, 32 * MMA_WARPS))
        for row in self.arch.matrix:
            if (row.dtype, row.accumulate, row.instruction) not in done and row.instruction != "wgmma":
                self.left_out.append(f"{row.instruction} of {row.dtype}: no microbenchmark for it on {self.arch.isa}")

    def _wgmmas(self) -> Iterator[tuple[Matrix, Source]]:
        for row in self.arch.matrix:
            if row.instruction == "wgmma" and row.accumulate != "float16":
                yield row, self.source("wgmma", KIND=CODES[row.dtype])

    def wgmma(self) -> Iterator[Reading]:
        for row, source in self._wgmmas():
            flops = 2 * 64 * 256 * (MMA_K_BYTES // BYTES.get(row.dtype, 1)) * WGMMA_STEPS * WGMMA_GROUPS
            yield _matrix_reading(row, self._rate(source, flops, 128 * WGMMA_GROUPS, WGMMA_SMEM_BYTES))
        halves = next((source for row, source in self._wgmmas() if row.dtype == "float16"), None)
        if halves is None:
            return
        long = self._busy(halves, 10 * ROUNDS, self.sms, 128 * WGMMA_GROUPS, WGMMA_SMEM_BYTES)
        samples = [clk / took for clk, took in self._counted(long)]
        yield reading("matrix_clock_hz", "SM clock under matrix load", "Hz", samples, self.arch.matrix_clock_hz)

    def atomics(self) -> Iterator[Reading]:
        size = self.arch.l2_bytes // 4
        slots = 1 << int(np.log2(size // 4))
        data = self.device.empty((slots,), "float32")
        self.device.fill(data, 0)
        grid, rounds = 8 * self.sms, 512
        adds = grid * 256 * rounds
        for name, what, entry, places, per, unit in (
            ("atomic_add_bytes_per_s", "atomic additions of float32 in L2", "add", slots, 4, "B/s"),
            ("atomic_swap_bytes_per_s", "the same by compare-and-swap", "swap", slots, 4, "B/s"),
            ("atomic_same_per_s", "atomic additions to one place", "add", 1, 1, "1/s"),
        ):
            run = self.launch(
                self.source("atomic", f"carver_{entry}"), {"sums": data.pointer}, "sums", places, rounds,
                grid=grid, block=256,
            )  # fmt: skip
            yield reading(name, what, unit, [adds * per / t for t in self.seconds(run)])


def _matrix_reading(row: Matrix, rate: Sequence[float]) -> Reading:
    sums = f", sums {row.accumulate}" if row.accumulate == "float16" else ""
    return reading(
        matrix_name(row), f"{row.instruction} of {row.dtype}{sums}, an SM", "FLOP/clk", rate, row.flops_per_clk_per_sm
    )


def matrix_name(row: Matrix) -> str:
    """How the reading of a matrix instruction is called."""
    return f"matrix.{row.instruction}.{row.dtype}.{row.accumulate}"


def matrix_rows(arch: Arch) -> dict[str, Matrix]:
    return {matrix_name(row): row for row in arch.matrix}
