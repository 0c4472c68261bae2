"""`carver bench-query`: how long queries take."""

from __future__ import annotations

import dataclasses
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..ops.matmul import MatmulTemplate
from ..ops.template import Template, recommend_many
from .operators import backend_option, per_operator, without_operator
from .options import as_json, print_json, topk_option


def drawn(count: int, seed: int = 0) -> list[Template]:
    """Matmuls of M, N and K from 16 to 8192 in multiples of 16, each octave as likely."""
    rng = random.Random(seed)
    sizes = [[16 * round(2 ** rng.uniform(0, 9)) for _ in range(3)] for _ in range(count)]
    return [MatmulTemplate(m, n, k) for m, n, k in sizes]


def timings(
    shapes: Callable[[int, int], list[Template]], arch: Arch, topk: int, backend: str | None, repeats: int, many: int
) -> dict[str, float]:
    """Medians of the thread's CPU time: a query has one and waits for nothing, and other work here adds little.

    `shapes` makes so many problems with a seed, none of which was asked for before.
    """
    warm = [template.with_arch(arch) for template in shapes(20, 1)]
    for template in warm:
        template.recommend_hints(topk, backend)
    new = [_timed(lambda t: t.with_arch(arch).recommend_hints(topk, backend), t) for t in shapes(repeats, 2)]
    again = [_timed(warm[0].recommend_hints, topk, backend) for _ in range(repeats)]
    at_once = [_timed(recommend_many, shapes(many, seed), arch, topk, backend) for seed in (3, 4, 5)]
    return {
        "new_shape_ms": statistics.median(new) * 1e3, "repeated_us": statistics.median(again) * 1e6,
        "many_s": statistics.median(at_once),
    }  # fmt: skip


_FRESH = """
import time
start = time.thread_time()
import carver
imported = time.thread_time()
carver.MatmulTemplate(4096, 4096, 4096).with_arch({arch!r}).recommend_hints({topk}, {backend!r})
print(imported - start, time.thread_time() - imported)
"""


def fresh(arch: Arch, topk: int, backend: str | None, processes: int) -> dict[str, float]:
    """Medians over new processes: the import, and the first query. [ms]

    CPU time of the thread: that of the process counts NumPy's idle threads, which spin for a while after its import.
    """
    code = _FRESH.format(arch=arch.name, topk=topk, backend=backend)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runs = [  # the first one writes the bytecode that an installed package has
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout.split()
        for _ in range(processes + 1)
    ]
    imports, firsts = np.median(np.array(runs[1:], float), axis=0) * 1e3
    return {"import_ms": float(imports), "first_ms": float(firsts)}


LINES = (
    ("import carver", "import_ms", "ms"), ("the first query of a process", "first_ms", "ms"),
    ("a new shape", "new_shape_ms", "ms"), ("the same shape again", "repeated_us", "us"),
    ("all of many new shapes at once", "many_s", "s"),
)  # fmt: skip


def _timed(run: Callable[..., object], *args: Any) -> float:
    start = time.thread_time()
    run(*args)
    return time.thread_time() - start


many_option = click.option(
    "--many", "count", type=click.IntRange(1), default=1000, help="Number of shapes in one call."
)


@per_operator
@as_json
@many_option
@click.option("--repeats", type=click.IntRange(1), default=100, help="Number of queries of each kind.")
@backend_option
@topk_option
def bench_query(
    template: Template, topk: int, backend: str | None, repeats: int, count: int, as_json: bool
) -> None:
    """Measure the CPU time of queries. The shape is new, or the same again, or one of many in one call."""
    arch, problem = template.arch, template.problem
    assert arch is not None
    axis = problem.statement.axes[-1]

    def longer(count: int, seed: int) -> list[Template]:
        sizes = [dict(problem.sizes) | {axis: problem.sizes[axis] + 16 * (i + 1000 * seed)} for i in range(count)]
        return [Template(dataclasses.replace(problem, sizes=each, align_bytes={})) for each in sizes]

    ranking = template.recommend_hints(topk, backend)
    _show_timings(
        {"problem": str(problem), "arch": arch.name, "topk": topk, "candidates": ranking.candidates}
        | timings(longer, arch, topk, backend, repeats, count),
        f"{problem} and longer on {arch.title}: top {topk} of {ranking.candidates:,} candidates; at once {count:,}",
        as_json,
    )  # fmt: skip


def _show_timings(found: dict[str, Any], title: str, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    click.echo(title)
    for what, key, unit in LINES:
        if key in found:
            click.echo(f"  {what:<34s} {found[key]:9.3f} {unit}")


@many_option
@click.option("--repeats", type=click.IntRange(1), default=200, help="Number of queries of each kind.")
@as_json
def query_matmuls(repeats: int, count: int, as_json: bool) -> None:
    """Measure the CPU time of queries. Without an operator, these are matmuls of all sizes on an H200."""
    arch = load("h200")
    found = {"arch": arch.name, "topk": 10, "many": count, **fresh(arch, 10, None, 5)}
    found |= timings(drawn, arch, 10, None, repeats, count)
    title = f"matmuls of 16 to 8192 each way on {arch.title}, top 10; CPU time; at once {count:,} shapes"
    _show_timings(found, title, as_json)


without_operator(bench_query, query_matmuls)
