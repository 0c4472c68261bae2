"""Many problems on one command line, and how long queries take."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click
import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..base.given import json_each, json_of, shown
from ..evaluate.tables import template_of
from ..ops.matmul import MatmulTemplate
from ..ops.template import Template, recommend_many
from ..ranking.ranking import Ranking
from .operators import device

MANY_HELP = (
    "Rank all problems of FILE at once, for the device of --arch; - is standard input. FILE is a CSV with columns "
    "operator, M, N, K, in_dtype and so on, or JSON objects with these keys, one a line: the arguments of the "
    "operator's template, a shape as rows and cols. Without an operator, matmul."
)


def read_problems(text: str) -> list[Template]:
    """Templates from JSON (a list of objects, or one a line) or CSV with a header."""
    start = text.lstrip()[:1]
    if not start:
        raise ConfigError("no problems: the input is empty")
    what = "the list of problems, which is neither JSON, one a line, nor CSV with a header,"
    if start == "[":
        rows = json_of(text, what, ConfigError)
    elif start == "{":
        rows = json_each(text, what, ConfigError)
    else:
        header, *lines = ([cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip())
        rows = [{name: cell for name, cell in zip(header, line, strict=False) if cell} for line in lines]
    return [_template(row, place) for place, row in enumerate(rows, 1)]


def _template(row: Any, place: int) -> Template:
    if not isinstance(row, dict):
        raise ConfigError(f"problem {place} is an object of an operator and its arguments, got {shown(row)}")
    words = {str(name): str(value) for name, value in row.items()}
    return template_of(words.pop("operator", "matmul"), words, f"problem {place}")


def told(ranking: Ranking) -> dict[str, Any]:
    """A ranking in plain JSON types."""
    return {
        "problem": ranking.problem.to_dict(), "arch": ranking.arch.name, "backend": ranking.backend,
        "candidates": ranking.candidates, "rejected": dict(ranking.rejected),
        "reasons": {str(place): why for place, why in ranking.reasons.items()},
        "notes": list(ranking.notes), "constants": ranking.arch.provenance,
        "hints": [hint.to_dict() for hint in ranking],
    }  # fmt: skip


def answer_many(text: str, arch: str | None, topk: int, backend: str | None, as_json: bool) -> None:
    """A line for each problem: its first hint, or, as JSON, all that `--json` says of one."""
    if arch is None:
        raise ConfigError("--many needs the device: --arch NAME")
    for ranking in recommend_many(read_problems(text), device(arch), topk, backend):
        click.echo(json.dumps(told(ranking), ensure_ascii=False) if as_json else f"{ranking.problem}: {ranking[0]}")


def drawn(count: int, seed: int = 0) -> list[Template]:
    """Matmuls of M, N and K from 16 to 8192 in multiples of 16, each octave as likely."""
    rng = random.Random(seed)
    sizes = [[16 * round(2 ** rng.uniform(0, 9)) for _ in range(3)] for _ in range(count)]
    return [MatmulTemplate(m, n, k) for m, n, k in sizes]


def timings(
    shapes: Callable[[int, int], list[Template]], arch: Arch, topk: int, backend: str | None, repeats: int, many: int
) -> dict[str, float]:
    """Medians of CPU time: a query has one thread and waits for nothing, and other work on the machine adds little.

    `shapes` makes so many problems with a seed, none of which was asked for before.
    """
    warm = [template.with_arch(arch) for template in shapes(20, 1)]
    for template in warm:
        template.recommend_hints(topk, backend)
    new = [_timed(partial(_ask, template, arch, topk, backend)) for template in shapes(repeats, 2)]
    again = [_timed(partial(warm[0].recommend_hints, topk, backend)) for _ in range(repeats)]
    at_once = [_timed(partial(recommend_many, shapes(many, seed), arch, topk, backend)) for seed in (3, 4, 5)]
    return {
        "new_shape_ms": statistics.median(new) * 1e3, "repeated_us": statistics.median(again) * 1e6,
        "many_s": statistics.median(at_once),
    }  # fmt: skip


def _ask(template: Template, arch: Arch, topk: int, backend: str | None) -> Ranking:
    return template.with_arch(arch).recommend_hints(topk, backend)


_FRESH = """
import time
start = time.process_time()
import carver
imported = time.process_time()
carver.MatmulTemplate(4096, 4096, 4096).with_arch({arch!r}).recommend_hints({topk}, {backend!r})
print(imported - start, time.process_time() - imported)
"""


def fresh(arch: Arch, topk: int, backend: str | None, processes: int) -> dict[str, float]:
    """Medians of CPU time over new processes: the import, and the first query. [ms]"""
    code = _FRESH.format(arch=arch.name, topk=topk, backend=backend)
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(processes)
    ]
    imports, firsts = np.median(np.array(runs, float), axis=0) * 1e3
    return {"import_ms": float(imports), "first_ms": float(firsts)}


def print_timings(found: dict[str, Any], lines: Sequence[tuple[str, str, str]]) -> None:
    """Of what was measured, a line each: what it is, its key, its unit."""
    for what, key, unit in lines:
        if key in found:
            click.echo(f"  {what:<34s} {found[key]:9.3f} {unit}")


LINES = (
    ("import carver", "import_ms", "ms"), ("the first query of a process", "first_ms", "ms"),
    ("a new shape", "new_shape_ms", "ms"), ("the same shape again", "repeated_us", "us"),
    ("all of many new shapes at once", "many_s", "s"),
)  # fmt: skip


def _timed(run: Callable[[], object]) -> float:
    start = time.thread_time()
    run()
    return time.thread_time() - start
