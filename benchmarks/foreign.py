"""Measure another project's kernel on the GPU of this machine: how right carver's ranking of its tunables is.

    python benchmarks/foreign.py {xgemm,conv} --out FILE.csv [--configs 2000] [--budget 110] [--device h200]

xgemm is CLBlast's matmul, 4096 cubed, and conv Kernel Tuner's direct convolution, 15 x 15 on 4096 x 4096, both written
anew in `kernels/`. The candidates are carver's first 60 and a random sample of the rest of what the project's own tuner
would try. All are compiled, then each is checked and timed, in this order, as far as --budget goes. Writes a table that
`carver evaluate FILE` reads, row by row, with the registers and spills that the compiler reports, and prints what
carver's first lose. Needs PyCUDA, and PyTorch for quick checks.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pycuda import driver

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from carver import Arch, MatmulTemplate, load_arch
from carver.base.errors import CompileError, RunError
from carver.kernels import expr
from carver.kernels.declaration import kernels
from carver.kernels.enumeration import enumerate_space
from carver.ops.conv2d import Conv2DTemplate
from carver.problem.problem import Problem
from carver.ranking.rank import rank
from carver.run import reference
from carver.run.check import Differences
from carver.run.device import Binary, Device, Source, open_device, upload
from carver.run.reference import float64, namespace
from carver.run.render import CUDA_FLAGS

Row = dict[str, Any]
Config = dict[str, int]
Arrays = Mapping[str, Any]
Job = tuple[Config, Binary | CompileError]

FIRST = 60
SIDE, FILTER = 4096, 15
RUNS, SLOW = 5, 3
"""Samples of a time, and the multiple of the best from which one will do."""
START_S, WARM_S = 1.0, 0.003
"""Of runs before the samples: of the first candidate, which finds the GPU idle, and of each other."""


class Subject(NamedTuple):
    """A kernel and its problem, float32 throughout; tensors are called what the problem's notation calls them."""

    name: str
    """Of the entry, and of its file in `kernels/`."""
    backend: str
    problem: Problem
    columns: Row
    """The problem's arguments, as docs/reference/tables.md has them."""
    tunables: Mapping[str, tuple[int, ...]]
    """Those of which the project's tuner tries fewer values than the declaration has."""
    tile: tuple[str, str]
    """What a block computes along x and y; expressions over the tunables, as are its threads."""
    block: tuple[str, str]
    parameters: tuple[str | int, ...]
    """Of the entry: tensors and int32."""
    result: Callable[[Arrays], Any]
    """What is right, from float64 arrays; from their magnitudes, the magnitude of what is added up."""
    rules: tuple[str, ...] = ()
    """The tuner's, where the declaration's also say what carver expects of a compiler."""
    constants: Mapping[str, str] = {}
    """Variables in constant memory, and the tensors that they hold."""
    macros: Mapping[str, int] = {}


def convolved(x: Arrays) -> Any:
    span = range(FILTER)
    return sum(x["I"][i : i + SIDE, j : j + SIDE] * x["F"][i, j] for i in span for j in span)


GEMM: Row = {"M": SIDE, "N": SIDE, "K": SIDE, "in_dtype": "float32", "trans_A": True}
IMAGE: Row = {"height": SIDE, "width": SIDE, "filter_height": FILTER, "filter_width": FILTER, "dtype": "float32"}
SUBJECTS = [
    # in rows, C[n*M + m] has M columns: Xgemm's B is A here, stored transposed, and its A is B
    Subject(
        "xgemm", "clblast", MatmulTemplate(**GEMM).problem, GEMM,
        tunables={"KWG": (32,), "KWI": (2,), "STRM": (0,), "STRN": (0,)},
        tile=("MWG", "NWG"), block=("MDIMC", "NDIMC"), parameters=(SIDE, SIDE, SIDE, "B", "A", "C"),
        result=lambda x: x["A"].swapaxes(1, 2) @ x["B"],
    ),
    Subject(
        "conv", "kernel_tuner", Conv2DTemplate(**IMAGE).problem, IMAGE,
        tunables={"block_size_y": (1, 2, 4, 8, 16), "tile_size_x": (1, 2, 3, 4), "tile_size_y": (1, 2, 3, 4)},
        tile=("block_size_x * tile_size_x", "block_size_y * tile_size_y"), block=("block_size_x", "block_size_y"),
        parameters=("O", "I"), result=convolved, constants={"filter": "F"},
        rules=("use_padding == 0 or use_shmem == 1 and block_size_x % 32 != 0",
               "use_shmem == 0 or halo_rows * halo_cols < 12 * 1024"),
        macros={"image_height": SIDE, "image_width": SIDE, "filter_height": FILTER, "filter_width": FILTER},
    ),
]  # fmt: skip


def candidates(subject: Subject, arch: Arch, count: int) -> list[tuple[int | None, Config]]:
    """carver's first with their places, then a sample of the rest, which carver's rules may leave out."""
    [kernel] = kernels(subject.problem.operator, subject.backend)
    rules = {text: expr.parse(text) for text in subject.rules} or kernel.rules
    tried = replace(kernel, tunables={**kernel.tunables, **subject.tunables}, rules=rules)
    space = enumerate_space(subject.problem, arch, tried)
    every = [space.config(row) for row in range(len(space))]
    first = rank(subject.problem, arch, every, subject.backend).indices[: min(FIRST, count)]
    rest = sorted(set(range(len(every))) - set(first))
    drawn = random.Random(1).sample(rest, min(count - len(first), len(rest)))
    return [*((place, every[i]) for place, i in enumerate(first, 1)), *((None, every[i]) for i in drawn)]


def compiled(device: Device, subject: Subject, configs: Sequence[Config]) -> list[Job]:
    path = Path(__file__).resolve().parent / "kernels" / f"{subject.name}.cu"

    def one(config: Config) -> Job:
        macros = {name: str(value) for name, value in {**config, **subject.macros}.items()}
        try:
            return config, device.compile(Source(path, macros, CUDA_FLAGS, (subject.name,), device.arch.isa))
        except CompileError as failed:
            return config, failed

    began = time.monotonic()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = list(pool.map(one, configs))
    done = sum(isinstance(binary, Binary) for _, binary in jobs)
    print(f"{done} of {len(jobs)} compiled in {time.monotonic() - began:.0f} s", flush=True)
    return jobs


def why(error: Exception) -> str:
    """In one line; of a compiler's log the one that says so."""
    log = error.log.splitlines() if isinstance(error, CompileError) else []
    return next((line.strip() for line in log if "error" in line.lower()), str(error).splitlines()[0])[:200]


def measured(device: Device, subject: Subject, jobs: Sequence[Job], budget_s: float) -> Iterator[Row]:
    """What is found out about each, until the time is up or the GPU's context is lost."""
    problem = subject.problem
    values, xp = reference.draw(problem, seed=1), namespace(device.kind)
    buffers = {name: upload(device, value, "float32") for name, value in values.items()}
    wide = {name: float64(device, buffer, xp) for name, buffer in buffers.items()}
    right, magnitude = subject.result(wide), subject.result({name: abs(x) for name, x in wide.items()})
    allowed = reference.tolerance(problem, right, magnitude)
    out = buffers[problem.statement.output.name] = device.empty(reference.output_shape(problem), "float32")
    signature = "".join("P" if isinstance(p, str) else "i" for p in subject.parameters)
    passed = [buffers[p].pointer if isinstance(p, str) else p for p in subject.parameters]
    best_s, end = math.inf, time.monotonic() + budget_s
    for config, binary in jobs:
        if time.monotonic() > end:
            print(f"{budget_s:.0f} s are up")
            return
        row: Row = {"time_ms": "", "valid": 0}
        if isinstance(binary, CompileError):
            yield row | {"note.why": why(binary)}
            continue
        used = binary.resources[subject.name]
        row |= {"note.registers": used.registers, "note.spill_bytes": used.spill_bytes}
        try:
            module = driver.module_from_file(str(binary.path))
            for name, tensor in subject.constants.items():
                driver.memcpy_htod(module.get_global(name)[0], values[tensor])
            function = module.get_function(subject.name)
            function.prepare(signature)
            tile, block = ([int(expr.parse(n)(config)) for n in names] for names in (subject.tile, subject.block))
            grid = [-(-SIDE // extent) for extent in tile]
            run = partial(function.prepared_call, (*grid, 1), (*block, 1), *passed)
            device.fill(out, 0xFF)
            first_s = device.time(run)[0]
            seen = Differences(float64(device, out, xp), right, allowed)
            if seen.wrong:
                raise RunError(str(seen))
            slow = first_s > SLOW * best_s
            for _ in range(0 if slow else int((WARM_S if best_s < math.inf else START_S) / first_s)):
                run()
            seconds = statistics.median(device.time(run, 1 if slow else RUNS))
            best_s = min(best_s, seconds)
            row |= {"time_ms": f"{seconds * 1e3:.6f}", "valid": 1}
        except (RunError, driver.Error) as failed:
            row["note.why"] = why(failed)
        yield row
        try:
            device.synchronize()
        except RunError as lost:
            print(f"the GPU's context is lost, and no other candidate can run: {lost}")
            return


def summary(rows: Sequence[Row], count: int) -> str:
    """The best, and the time of the best of carver's first k over it; inf where none of them ran."""
    times = [float(row["time_ms"] or math.inf) for row in rows]
    said = f"{len(rows)} of {count} candidates measured, {sum(t < math.inf for t in times)} ran"
    if (best := min(times, default=math.inf)) == math.inf:
        return said
    over = ", ".join(f"k={k} {min(times[:k]) / best:.3f}" for k in (1, 3, 5, 10))
    return f"{said}, the best in {best:.4f} ms; the best of carver's first k over that: {over}"


def main() -> None:
    subjects = {subject.name: subject for subject in SUBJECTS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", choices=subjects)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--configs", type=int, default=2000)
    parser.add_argument("--budget", type=float, default=110.0, help="seconds of checking and timing")
    parser.add_argument("--device", help="descriptor; the GPU of this machine where not given")
    options = parser.parse_args()
    subject, device = subjects[options.kernel], open_device("cuda")
    arch = load_arch(options.device) if options.device else device.arch
    places, configs = zip(*candidates(subject, arch, options.configs), strict=True)
    found = measured(device, subject, compiled(device, subject, configs), options.budget)
    head = {"operator": subject.problem.operator, "arch": arch.name, "backend": subject.backend, **subject.columns}
    rows: list[Row] = []
    with options.out.open("w", newline="") as file:
        found_out = ("time_ms", "valid", "note.why", "note.place", "note.registers", "note.spill_bytes")
        writer = csv.DictWriter(file, [*head, *(f"config.{name}" for name in configs[0]), *found_out], restval="")
        writer.writeheader()
        for place, config, row in zip(places, configs, found, strict=False):
            tunables = {f"config.{name}": value for name, value in config.items()}
            rows.append({**head, **tunables, "note.place": place, **row})
            writer.writerow(rows[-1])
            file.flush()
    print(summary(rows, len(configs)))


if __name__ == "__main__":
    main()
