"""Measure carver's own kernels on the device of this machine: how right the ranking is, problem by problem.

    python benchmarks/confirm.py --out h200.json.gz [--problems gemm reduction elementwise] [--configs 300] [--budget 8]

For each problem: the ten hints and a stratified sample of the whole feasible grid, every result checked, and the
vendor's library for comparison. Writes every measurement; `carver evaluate FILE` reads it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from carver import ElementwiseTemplate, GEMVTemplate, MatmulTemplate, ReductionTemplate
from carver.bench import LIBRARY, Bench, Candidate, Settings, candidates, measure, stratified
from carver.records import Records
from carver.report import Report
from carver.templates import Template

GEMMS = [  # decode, prefill, square, skinny, ragged
    (1, 4096, 4096), (16, 6144, 4096), (64, 14336, 4096), (8, 4096, 14336), (128, 4096, 14336),
    (256, 6144, 4096), (512, 28672, 4096), (2048, 4096, 4096), (4096, 28672, 4096), (1024, 8192, 8192),
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
    (16384, 768, 3072), (4096, 4096, 64), (256, 256, 65536), (1000, 1008, 4096), (3137, 200, 576),
]  # fmt: skip


def problems(kinds: list[str]) -> Iterator[tuple[str, Template]]:
    if "gemm" in kinds:
        for dtype in ("float16", "bfloat16"):
            for m, n, k in GEMMS:
                yield "gemm", MatmulTemplate(m, n, k, trans_B=True, in_dtype=dtype)
    if "reduction" in kinds:
        yield "reduction", ReductionTemplate("sum", (16384, 8192), 1)
        yield "reduction", ReductionTemplate("sum", (8192, 16384), 0)
        yield "reduction", ReductionTemplate("max", (1048576, 128), 1)
        yield "reduction", ReductionTemplate("softmax", (16384, 4096), 1)
        yield "reduction", ReductionTemplate("layer_norm", (8192, 8192), 1)
        yield "reduction", ReductionTemplate("rms_norm", (65536, 1024), 1, "bfloat16")
    if "elementwise" in kinds:
        yield "elementwise", ElementwiseTemplate((8192, 8192), inputs=2)
        yield "elementwise", ElementwiseTemplate((16384, 4096), inputs=1)
        yield "elementwise", ElementwiseTemplate((4096, 8192), "float32", inputs=2)
        yield "elementwise", ElementwiseTemplate((32768, 2048), "bfloat16", inputs=3)
        yield "elementwise", ElementwiseTemplate((8192, 8192), inputs=1, broadcast=1)
        yield "elementwise", ElementwiseTemplate((1024, 1024), inputs=2)
    if "gemv" in kinds:
        yield "gemv", GEMVTemplate(4096, 14336)
        yield "gemv", GEMVTemplate(16384, 16384)
        yield "gemv", GEMVTemplate(14336, 4096, trans_A=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--problems", nargs="+", default=["gemm", "reduction", "elementwise", "gemv"])
    parser.add_argument("--configs", type=int, default=300)
    parser.add_argument("--budget", type=float, default=8.0, help="seconds of measuring a problem")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds after which no problem is begun")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    began, cases, reports = time.monotonic(), [], []
    settings = Settings(rounds=4, budget_s=args.budget, timeout_s=20.0)
    with Records(args.out.with_suffix(".sqlite")) as store, Bench(args.device, store, settings) as bench:
        for kind, template in problems(args.problems):
            if time.monotonic() - began > args.limit:
                print(f"stopped before {template.problem}: {args.limit:.0f} s are up")
                break
            ranking = template.with_arch(bench.machine.arch).recommend_hints(topk=1_000_000)
            hints = list(ranking)
            sample = stratified(hints, args.configs)
            every = candidates([*hints[:10], *sample], bench.machine.arch)
            every.append(Candidate(template.problem, LIBRARY, LIBRARY, {}, None))
            rows = measure(bench, every)
            report = Report(template.problem, rows, device=args.device, grid_size=len(hints))
            reports.append((kind, template.problem, report))
            library = [m for m in rows if m.backend == LIBRARY and m.ok]
            own = [m for m in rows if m.backend != LIBRARY]
            cases.append({
                "kind": kind, "problem": template.problem.to_dict(), "grid": len(hints),
                "arch": bench.machine.arch.name, "backend": own[0].backend,
                "library_ms": library[0].median_ms if library else None,
                "rows": [[m.kernel, dict(m.config), m.predicted_ms, m.median_ms, m.outcome] for m in own],
            })  # fmt: skip
            best = report.best.median_ms if report.ok else float("nan")
            print(
                f"{template.problem!s:48.48s} {len(own):4d} of {len(hints):5d}  best {best:8.4f} ms"
                f"  library x{(library[0].median_ms or 0) / best if library else float('nan'):5.2f}"
                f"  regret@1 {report.regret(1) or 0:.3f} @10 {report.regret(10) or 0:.3f}  {report.outcomes}",
                flush=True,
            )
        description = {"device": bench.machine.name, "state": dict(bench.machine.state), "compiler": bench.compiler}
    with gzip.open(args.out, "wt") as file:
        json.dump(
            {**description, "command": "python benchmarks/confirm.py", "cases": cases}, file, separators=(",", ":")
        )
    Console(width=100).print(summary(reports))


def summary(reports: list[tuple[str, object, Report]]) -> Table:
    """Geometric means by kind of problem."""
    from carver.evaluate.score import geometric_mean

    table = Table(title="Regret against the best of everything measured, and speed against the library")
    for name in ("kind", "problems", "regret@1", "regret@3", "regret@10", "library time / ours"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind in dict.fromkeys(k for k, _, _ in reports):
        mine = [r for k, _, r in reports if k == kind and r.ok]
        means = [geometric_mean([1 + (r.regret(k) or 0.0) for r in mine]) - 1 for k in (1, 3, 10)]
        ratios = [r.library_ratio for r in mine if r.library_ratio]
        ratio = f"{geometric_mean(ratios):.2f}" if ratios else "-"
        table.add_row(kind, str(len(mine)), *(f"{100 * m:.1f} %" for m in means), ratio)
    return table


if __name__ == "__main__":
    main()
