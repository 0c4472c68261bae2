"""Measure a Triton kernel on this machine's GPU into a table that `carver evaluate` reads; for the scripts beside it.

All kernels are compiled ahead into Triton's cache, one process a core, so that a launch finds its own there.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import itertools
import math
import multiprocessing
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import triton

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import carver

Row = dict[str, Any]
Config = dict[str, int]


class Launch(NamedTuple):
    """One problem on the GPU: `run` launches a configuration and returns what was compiled, `error` checks it."""

    run: Callable[[Config], Any]
    error: Callable[[], float]
    tolerance: float


class Subject(Protocol):
    """A kernel, the problems that it is measured on, and the configurations of each, carver's first ten first."""

    problems: Sequence[Row]

    def columns(self, problem: Row) -> Row:
        """The operator and its arguments, as docs/reference/tables.md has them."""

    def configs(self, problem: Row, arch: carver.Arch) -> list[Config]: ...

    def identity(self, problem: Row, config: Config) -> Hashable:
        """Equal where Triton compiles once."""

    def compile(self, problem: Row, config: Config) -> None:
        """As a launch would, which then finds it in the cache; raises what the launch would raise."""

    def launch(self, problem: Row) -> Launch: ...


def _compiled(subject: Subject, job: tuple[Row, Config]) -> Hashable:
    """Its identity, whether or not it compiles: whatever Triton raises, the launch raises again."""
    problem, config = job
    with contextlib.suppress(Exception):
        subject.compile(problem, config)
    return subject.identity(problem, config)


def _compile_all(subject: Subject, jobs: list[tuple[Row, Config]], seconds: float) -> set[Hashable]:
    """What was compiled until the seconds were up; compilers that still run then are ended."""
    own = {subject.identity(p, c): (p, c) for p, c in jobs}
    began, done = time.monotonic(), set[Hashable]()
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        found = pool.imap_unordered(functools.partial(_compiled, subject), own.values())
        with contextlib.suppress(multiprocessing.TimeoutError):
            for _ in own:
                done.add(found.next(max(began + seconds - time.monotonic(), 0.1)))
    print(f"{len(done)} of {len(own)} kernels compiled in {time.monotonic() - began:.0f} s", flush=True)
    return done


def _measure(launch: Launch, config: Config, rep_ms: float) -> Row:
    """One row: time, or none where the configuration does not run, and what the compiler reports."""
    try:
        compiled = launch.run(config)
        torch.cuda.synchronize()
    except (triton.TritonError, RuntimeError) as e:
        return {"time_ms": "", "valid": 0, "note.why": f"{type(e).__name__}: {e}".splitlines()[0][:200]}
    said = {"smem_bytes": compiled.metadata.shared, "registers": compiled.n_regs, "spills": compiled.n_spills}
    row = {f"note.{name}": value for name, value in said.items()}
    if not (error := launch.error()) <= launch.tolerance:
        return row | {"time_ms": "", "valid": 0, "note.why": f"wrong by {error:.3g}"}
    ms = triton.testing.do_bench(lambda: launch.run(config), warmup=rep_ms / 5, rep=rep_ms, return_mode="median")
    return row | {"time_ms": f"{ms:.6g}", "valid": 1, "note.why": ""}


def _measured(subject: Subject, problem: Row, configs: list[Config], end: float, rep_ms: float) -> Iterator[Row]:
    """The rows of one problem, until the time is up."""
    launch = subject.launch(problem)
    tried, times = 0, []
    for config in configs:
        if time.monotonic() > end:
            break
        row = _measure(launch, config, rep_ms)
        tried += 1
        if row["valid"]:
            times.append(float(row["time_ms"]))
        yield {f"config.{name}": value for name, value in config.items()} | row
    best, first = (min(times), times[0]) if times else (math.nan, math.nan)
    print(problem, f"{len(times)} of {tried} ran, best {best:.4f} ms, first {first:.4f} ms", flush=True)


def main(sets: Mapping[str, Subject], description: str | None) -> None:
    """Measures the set that is asked for, else the first."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds a problem")
    parser.add_argument("--rep", type=float, default=25.0, help="milliseconds that a configuration is run for")
    parser.add_argument("--compile", type=float, default=240.0, help="seconds of compiling; the rest is left out")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds after which no problem is begun")
    parser.add_argument("--only", default="", help="a regular expression that a problem, as it is printed, holds")
    parser.add_argument("--problems", choices=list(sets), default=next(iter(sets)))
    parser.add_argument("--device", help="descriptor; the GPU of this machine where not given")
    options = parser.parse_args()
    arch = carver.load_arch(options.device) if options.device else carver.CUDA("auto")
    rows: list[Row] = []
    began = time.monotonic()
    subject = sets[options.problems]
    problems = [p for p in subject.problems if re.search(options.only, str(p))]
    configs = [subject.configs(p, arch) for p in problems]
    jobs = [(p, c) for p, every in zip(problems, configs, strict=True) for c in every]
    compiled = _compile_all(subject, jobs, options.compile)
    for problem, given in zip(problems, configs, strict=True):
        every = [c for c in given if subject.identity(problem, c) in compiled]
        if time.monotonic() - began > options.limit:
            print(problem, f"left out: {options.limit:.0f} s are up")
            continue
        head = {"arch": arch.name, "backend": "triton", **subject.columns(problem)}
        try:
            for row in _measured(subject, problem, every, time.monotonic() + options.budget, options.rep):
                rows.append(head | row)
        except (carver.CarverError, RuntimeError) as e:  # the next problem may well work
            print(problem, f"failed: {type(e).__name__}: {e}")
        if rows:
            with options.out.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), restval="")
                writer.writeheader()
                writer.writerows(rows)
    print(_summary(rows, [name for p in problems for name in subject.columns(p)]))


def _summary(rows: list[Row], names: list[str]) -> str:
    """Time of the first that ran, and of the best among the first ten, over that of the best of all."""
    first, ten = [], []
    for _, group in itertools.groupby(rows, key=lambda row: [row.get(name) for name in names]):
        times = [float(row["time_ms"]) if row["valid"] else math.inf for row in group]
        if ran := [t for t in times if t < math.inf]:
            first.append(ran[0] / min(ran))
            ten.append(min(times[:10]) / min(ran))
    if not first:
        return "nothing ran"
    one, best = statistics.geometric_mean(first), statistics.geometric_mean(ten)
    return f"{len(first)} problems: first / best {one:.3f}, best of ten / best {best:.3f} in the geometric mean"
