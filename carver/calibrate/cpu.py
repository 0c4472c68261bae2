"""Microbenchmarks of a CPU, each for one constant. All cores that the process may use work at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ..run.cpu import CpuDevice
from ..run.device import Buffer, Source
from .micro import Curve, Launcher, Reading, Run, reading

CHAINS = 12
SPAN_S = 0.005
"""What one run takes at least: long beside waking the cores up, short beside the time slices of a busy system."""
REPEATS = 15
MOST_COUNT = 1 << 16
MOST_BYTES = 1 << 30
BEYOND, LEAST_BEYOND = 8, 1 << 29


class Cpu:
    """Every reading of the processor. `most_bytes` is what may be allocated; `effort` scales how long each run is."""

    parts: tuple[str, ...] = ("clock", "fma", "tasks", "bandwidth", "latency")

    def __init__(self, device: CpuDevice, most_bytes: int = MOST_BYTES, effort: float = 1.0) -> None:
        self.bench = Launcher(device, REPEATS)
        self.device, self.arch = device, device.arch
        self.hz = self.arch.clock_hz
        self.span_s, self.threads, self.most_bytes = effort * SPAN_S, device.threads, most_bytes
        self.out = device.empty((8 * max(device.threads, 1),), "float64")
        caches = self.arch.l2_bytes + self.arch.l3_bytes
        self.beyond = min(max(BEYOND * caches, LEAST_BEYOND), most_bytes, self.arch.dram_bytes // 4)
        """Bytes that caches do not hold; a virtual machine may have more of them than it says."""
        self.curves: list[Curve] = []
        self.left_out: list[str] = []

    def source(self, entry: str) -> Source:
        return self.bench.source("cpu.c", f"carver_{entry}", SIMD_BYTES=max(self.arch.simd_bytes, 16))

    def run(self, entry: str, *args: str | int, data: int = 0) -> Run:
        return self.bench.run(self.source(entry), {"data": data, "out": self.out.pointer}, *args)

    def counted(self, make: Callable[[int], Run], least: int) -> tuple[int, list[float]]:
        """A count of which one run takes at least the span, and the times of the runs of it. [s]

        Half as many must take visibly less: on a busy system a parallel region waits for a core whatever it computes.
        """
        count, before = least, self._quickest(make(least))
        while count < MOST_COUNT * least:
            count *= 2
            took = self._quickest(make(count))
            if took >= self.span_s and took > 1.6 * before:
                break
            before = took
        return count, self.bench.seconds(make(count))

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
        single = self.bench.seconds(self.run("tasks", "out", self.threads))
        yield reading("launch_s", "parallel region of empty tasks, one a core", "s", single)
        many, took = self.counted(lambda n: self.run("tasks", "out", n), 1000)
        per = [max(t - float(np.median(single)), 0.0) / many * self.threads * self.hz for t in took]
        yield reading("block_dispatch_clk", "handing a core one task", "clk", per)

    def bandwidth(self) -> Iterator[Reading]:
        a, threads = self.arch, self.threads
        private = a.l2_bytes // a.l2_partitions
        largest = self.beyond // threads
        levels = [
            ("l1_bytes_per_s", "L1, reading half of it", a.l1_bytes // 2, None),
            ("l2_bytes_per_s", "L2, reading half of it", private // 2, a.l2_bytes_per_s * threads / a.sm_count),
        ]
        if a.l3_bytes and a.l3_bytes // 2 // threads > private:
            levels.append(("l3_bytes_per_s", "L3, reading half of it", a.l3_bytes // 2 // threads, a.l3_bytes_per_s))
        levels.append(("dram_read_bytes_per_s", "DRAM, reading", largest, a.dram_bytes_per_s))
        buffer = self.device.empty((max(size for *_, size, _ in levels) * threads,), "int8")
        self.device.fill(buffer, 0)
        sizes, rates = [], []
        for name, what, size, said in levels:
            each = max(size, 4096) & -1024
            if each * threads > buffer.size_bytes:
                self.left_out.append(f"{what}: it would take more than {self.most_bytes:,} bytes")
                continue
            note = ""
            if name == "dram_read_bytes_per_s" and each * threads < 2 * (a.l2_bytes + a.l3_bytes):
                note = "partly from cache: the array is less than twice the caches"
            passes, took = self.counted(partial(self._pass, "read", buffer, each), 1)
            samples = [each * passes * threads / t for t in took]
            sizes.append(float(each))
            rates.append(float(np.median(samples)) / threads)
            yield reading(name, what, "B/s", samples, said, note)
        self.curves.append(Curve("one core, by the bytes that it reads again and again", tuple(sizes), tuple(rates)))
        passes, took = self.counted(partial(self._pass, "write", buffer, largest & -1024), 1)
        samples = [(largest & -1024) * passes * threads / t for t in took]
        yield reading("dram_write_bytes_per_s", "DRAM, writing (fetched before it is written)", "B/s", samples)

    def _pass(self, entry: str, buffer: Buffer, size: int, passes: int) -> Run:
        return self.run(entry, "data", "out", size, passes, data=buffer.pointer)

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
            hops, took = self.counted(partial(self._chase, data), 1000)
            yield reading(name, what, "s", [t / hops for t in took], said, "address translation included")

    def _chase(self, data: Buffer, hops: int) -> Run:
        return self.run("chase", "data", "out", hops, data=data.pointer)
