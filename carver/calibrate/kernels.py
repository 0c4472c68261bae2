"""A small set of carver's own kernels, measured on the device, to fit constants that no microbenchmark can isolate."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import NoCandidates, RunError
from ..cost.fit import fit, identified
from ..evaluate.tables import Case
from ..ops.elementwise import ElementwiseTemplate
from ..ops.gemv import GEMVTemplate
from ..ops.matmul import MatmulTemplate
from ..ops.reduction import ReductionTemplate
from ..ops.template import Template
from ..problem.problem import Problem
from ..ranking.hint import Hint
from ..ranking.recommend import own_backend, recommend
from ..run.bench import Bench, candidates, measure, stratified
from ..run.records import Records
from ..run.session import Settings
from .fitting import Group, groups, samples

COUNTS = (5, 28, 4)
"""Candidates of each problem: its first hints, others spread over predicted time and tile, then hints of the fit."""
EVERYTHING = 10**6

GPU: Mapping[str, tuple[Template, ...]] = {
    "matmul": tuple(
        MatmulTemplate(m, n, k, trans_B=True)
        for m, n, k in ((4096, 4096, 4096), (1024, 1024, 1024), (16, 4096, 8192), (256, 6144, 4096),
                        (2048, 512, 8192), (8192, 1024, 512))
    ),
    "elementwise": (
        ElementwiseTemplate((8192, 8192), inputs=2), ElementwiseTemplate((4096, 4096), "float32"),
        ElementwiseTemplate((1024, 1024), inputs=2), ElementwiseTemplate((16384, 4096), "bfloat16", inputs=3),
    ),
    "reduction": (
        ReductionTemplate("sum", (8192, 8192)), ReductionTemplate("sum", (4096, 16384), 0),
        ReductionTemplate("max", (262144, 128)), ReductionTemplate("sum", (1024, 65536)),
        ReductionTemplate("softmax", (16384, 4096)), ReductionTemplate("layer_norm", (8192, 8192)),
        ReductionTemplate("softmax", (65536, 512)),
    ),
    "gemv": (GEMVTemplate(4096, 14336), GEMVTemplate(16384, 16384), GEMVTemplate(14336, 4096, trans_A=True)),
}  # fmt: skip
CPU: Mapping[str, tuple[Template, ...]] = {
    "matmul": tuple(
        MatmulTemplate(m, n, k, in_dtype="float32")
        for m, n, k in ((512, 512, 512), (1024, 256, 1024), (64, 2048, 512), (256, 1024, 128))
    ),
    "elementwise": (
        ElementwiseTemplate((2048, 2048), "float32", inputs=2), ElementwiseTemplate((512, 512), "float32"),
        ElementwiseTemplate((1024, 8192), "float32"),
    ),
    "reduction": (
        ReductionTemplate("sum", (2048, 4096), in_dtype="float32"),
        ReductionTemplate("sum", (4096, 2048), 0, "float32"), ReductionTemplate("max", (65536, 64), in_dtype="float32"),
    ),
}  # fmt: skip


def measured(
    device: str, arch: Arch, seconds: float, problems: Mapping[str, Sequence[Template]] | None = None,
    counts: tuple[int, int, int] = COUNTS, each: Callable[[str], None] = lambda text: None,
    records: Records | None = None,
) -> tuple[list[Case], list[str]]:  # fmt: skip
    """Cases of carver's own kernels, and the problems that time did not allow or that failed.

    Measure until the time is up, first every problem's hints and a sample, then the hints of a first fit.

    The second round is where a fit shows what it got wrong: it measures what the fitted model likes best and nobody has
    tried. Operators take turns, so that less time means fewer problems of each.
    """
    began = time.monotonic()
    top, spread, again = counts
    chosen = problems or (CPU if arch.kind == "cpu" else GPU)
    todo = [template for turn in zip_longest(*chosen.values()) for template in turn if template is not None]
    settings = Settings(rounds=3, budget_s=max(0.5, 0.4 * seconds / len(todo)), timeout_s=20.0)
    cases: dict[Problem, Case] = {}
    skipped: list[str] = []
    with Bench(device, records, settings) as bench:
        for template in todo:
            if time.monotonic() - began > 0.75 * seconds:
                skipped.append(f"{template.problem}: no time left")
                continue
            try:
                hints = list(recommend(template.problem, arch, EVERYTHING, own_backend(arch)))
                case = _case(bench, arch, template.problem, [*hints[:top], *stratified(hints[top:] or hints, spread)])
            except (NoCandidates, RunError) as none:  # the next problem may well work
                skipped.append(str(none))
                continue
            if np.isfinite(case.seconds).sum() > 1:
                cases[template.problem] = case
            each(str(template.problem))
        for group in groups(cases.values()):
            data = samples(group.cases)
            constants = fit(data, identified(data), max_evaluations=20)
            for case in group.cases:
                if time.monotonic() - began > seconds:
                    break
                try:
                    more = _second(bench, arch, group, case, constants, again)
                except RunError as none:
                    skipped.append(str(none))
                    continue
                if more is not None:
                    was = cases[case.problem]
                    times = np.concatenate([was.seconds, more.seconds])
                    cases[case.problem] = replace(was, configs=[*was.configs, *more.configs], seconds=times)
            each(group.name)
    return list(cases.values()), skipped


def _case(bench: Bench, arch: Arch, problem: Problem, hints: Sequence[Hint]) -> Case:
    found = measure(bench, candidates(hints, bench.machine.arch), fresh=True)
    return Case.of("calibrate", problem, arch, own_backend(arch), found)


def _second(
    bench: Bench, arch: Arch, group: Group, case: Case, constants: Mapping[str, float], again: int
) -> Case | None:
    """What the fitted model would choose now, of what has not been measured."""
    there = arch.replace(fitted=tuple((dict(arch.fitted) | {group.name: tuple(constants.items())}).items()))
    known = {tuple(sorted(config.items())) for config in case.configs}
    fresh = [
        hint
        for hint in recommend(case.problem, there, 4 * again, own_backend(arch))
        if hint.kernel == group.kernel.name
        and tuple(sorted({"kernel": hint.kernel, **hint.config}.items())) not in known
    ]
    return _case(bench, arch, case.problem, fresh[:again]) if fresh else None
