"""Measure carver's own kernels on the device of this machine: how right the ranking is, problem by problem.

    python benchmarks/confirm.py --out h200.json.gz [--problems gemm types reduction] [--configs 300] [--budget 8]

For each problem: the ten hints and a stratified sample of the space that they come from, every result checked, and the
vendor's library for comparison. Where that space has fewer than --configs candidates, the fastest by the model of those
that its [avoid] rules leave out fill it up: the slowdown is against the best of all. Writes every measurement;
`carver evaluate FILE` reads it. The same command again goes on where --limit ended the last one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import frame

from carver import ElementwiseTemplate, GEMVTemplate, MatmulTemplate, OpTemplate, ReductionTemplate
from carver.ops.operator import Template
from carver.ranking.hint import Hint
from carver.ranking.recommend import recommend
from carver.run.bench import LIBRARY, Bench, Candidate, candidates, measure, stratified
from carver.run.records import Measurement, Records
from carver.run.report import Report
from carver.run.worker import Settings

GEMMS = [  # decode, prefill, square, skinny, ragged
    (1, 4096, 4096), (16, 6144, 4096), (64, 14336, 4096), (8, 4096, 14336), (128, 4096, 14336),
    (256, 6144, 4096), (512, 28672, 4096), (2048, 4096, 4096), (4096, 28672, 4096), (1024, 8192, 8192),
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
    (16384, 768, 3072), (4096, 4096, 64), (256, 256, 65536), (1000, 1008, 4096), (3137, 200, 576),
]  # fmt: skip


MORE = [  # what no constant was fitted to: batches, short K, sizes between those above
    (256, 512, 512, 64), (64, 1024, 1024, 128), (512, 128, 128, 64), (32, 2048, 2048, 64), (48, 1024, 64, 1024),
    (1, 8192, 8192, 128), (1, 4096, 4096, 256), (1, 2048, 8192, 96), (1, 6144, 2048, 512), (1, 768, 3072, 768),
    (1, 384, 5120, 5120), (1, 1536, 1536, 1536), (1, 96, 2560, 10240), (1, 3000, 3000, 3000), (1, 32, 50304, 2048),
]  # fmt: skip

TYPES = {  # what the table of 16-bit types leaves out: CUDA cores, and the other types of the tensor cores
    "float32": [*[(n, n, n) for n in (512, 1024, 2048, 4096)],
                (64, 14336, 4096), (16384, 768, 3072), (256, 256, 65536), (3137, 200, 576)],
    "float64": [*[(n, n, n) for n in (512, 1024, 2048, 4096)], (64, 14336, 4096), (256, 256, 65536), (3137, 200, 576)],
    "tfloat32": [(4096, 4096, 4096), (512, 14336, 4096)],
    "int8": [(4096, 4096, 4096), (64, 14336, 4096)],
    "float8_e4m3": [(4096, 4096, 4096), (256, 8192, 8192), (16, 6144, 4096)],
}  # fmt: skip

MEMORY: dict[str, list[Template]] = {
    "reduction": [
        ReductionTemplate("sum", (16384, 8192), 1), ReductionTemplate("sum", (8192, 16384), 0),
        ReductionTemplate("max", (1048576, 128), 1), ReductionTemplate("softmax", (16384, 4096), 1),
        ReductionTemplate("layer_norm", (8192, 8192), 1), ReductionTemplate("rms_norm", (65536, 1024), 1, "bfloat16"),
    ],
    "elementwise": [
        ElementwiseTemplate((8192, 8192), inputs=2), ElementwiseTemplate((16384, 4096), inputs=1),
        ElementwiseTemplate((4096, 8192), "float32", inputs=2),
        ElementwiseTemplate((32768, 2048), "bfloat16", inputs=3),
        ElementwiseTemplate((8192, 8192), inputs=1, broadcast=1), ElementwiseTemplate((1024, 1024), inputs=2),
    ],
    "gemv": [GEMVTemplate(4096, 14336), GEMVTemplate(16384, 16384), GEMVTemplate(14336, 4096, trans_A=True)],
}  # fmt: skip


NOTATION = [  # statements by no template: operands in strides of their own, axes that are merged, sums of a middle axis
    ("Y[b,h,q,k] += Q[b,h,q,d] * K[b,h,k,d]", "float16", {"b": 4, "h": 16, "q": 1024, "k": 1024, "d": 128}),
    ("Y[b,s,h,d] += X[b,s,e] * W[h,d,e]", "bfloat16", {"b": 8, "s": 512, "h": 32, "d": 96, "e": 3072}),
    ("Y[a,b,c,d] += X[a,b,e,f] * W[e,f,c,d]", "float16", {"a": 64, "b": 48, "c": 64, "d": 32, "e": 32, "f": 64}),
    ("Y[b,m,n] += A[b,k,m] * B[b,k,n]", "bfloat16", {"b": 24, "m": 640, "n": 768, "k": 512}),
    ("Y[h,m,n] += A[h,m,k] * B[h,n,k]", "float32", {"h": 8, "m": 1024, "n": 768, "k": 256}),
    ("Y[b,m] += A[b,m,k] * x[b,k]", "float16", {"b": 48, "m": 2048, "k": 1536}),
    ("y[m] += A[k,m] * x[k]", "float32", {"m": 12288, "k": 6144}),
    ("R[i,k] += X[i,j,k]", "float16", {"i": 96, "j": 700, "k": 1024}),
    ("R[i,k] max= X[i,j,k]", "float32", {"i": 2048, "j": 24, "k": 1536}),
    ("R[i,k] += X[i,j,k]", "bfloat16", {"i": 4, "j": 50000, "k": 384}),
    ("R[k] += X[i,j,k]", "float32", {"i": 300, "j": 200, "k": 1000}),
    ("R[i] max= X[i,j,k]", "float16", {"i": 6000, "j": 40, "k": 320}),
    ("R[i] += X[i,j] * Y[i,j]", "float16", {"i": 12288, "j": 4096}),
    ("Y[i,j,k] = A[i,j,k] + B[k]", "float16", {"i": 64, "j": 1000, "k": 1280}),
    ("Y[i,j] = A[i,j] * B[i]", "bfloat16", {"i": 20000, "j": 3000}),
    ("Y[i,j] = A[i,j] * B[i,j] + C[j]", "float32", {"i": 8000, "j": 4096}),
]  # fmt: skip


def problems(kinds: list[str]) -> Iterator[tuple[str, Template]]:
    if "types" in kinds:
        for dtype, shapes in TYPES.items():
            for i, (m, n, k) in enumerate(shapes):  # weights as they are stored, and every third the other way round
                stored = dtype.startswith(("int8", "float8")) or i % 3 != 2
                yield "types", MatmulTemplate(m, n, k, trans_B=stored, in_dtype=dtype)
    if "gemm" in kinds:
        for dtype in ("float16", "bfloat16"):
            for m, n, k in GEMMS:
                yield "gemm", MatmulTemplate(m, n, k, trans_B=True, in_dtype=dtype)
    if "more" in kinds:
        for i, (b, m, n, k) in enumerate(MORE):
            yield "more", MatmulTemplate(m, n, k, batch=b, trans_B=i % 3 != 2, in_dtype=("float16", "bfloat16")[i % 2])
    if "notation" in kinds:
        yield from (("notation", OpTemplate(said, in_dtype=dtype, **axes)) for said, dtype, axes in NOTATION)
    for kind in kinds:
        yield from ((kind, template) for template in MEMORY.get(kind, ()))


def _words(one: Hint | Measurement) -> tuple[Any, ...]:
    return one.kernel, *sorted(one.config.items())


def _row(m: Measurement) -> list[Any]:
    return [m.kernel, dict(m.config), m.predicted_ms, m.median_ms, m.outcome]


def confirm(bench: Bench, kind: str, template: Template, configs: int, device: str) -> tuple[dict[str, Any], Report]:
    """Measure one problem: its row of the file, and the report."""
    here = template.with_arch(bench.machine.arch)
    hints = list(here.recommend_hints(1_000_000, here.own_backend))
    missing = max(configs - len(hints), 0)
    runnable = recommend(here.problem, bench.machine.arch, len(hints) + missing, here.own_backend, advised=False)
    advised = {_words(h) for h in hints}
    avoided = [h for h in runnable if _words(h) not in advised][:missing]
    every = candidates([*hints[:10], *stratified(hints, configs), *avoided], bench.machine.arch)
    every.append(Candidate(template.problem, LIBRARY, LIBRARY, {}, None))
    rows = [m if _words(m) in advised else replace(m, predicted_ms=None) for m in measure(bench, every)]
    report = Report(template.problem, rows, device=device, grid_size=len(hints))
    library = report.library
    library_ms = library.median_ms if library and library.ok else None
    case = {
        "kind": kind, "problem": template.problem.to_dict(), "grid": len(hints), "runnable": runnable.candidates,
        "arch": bench.machine.arch.name, "backend": report.measurements[0].backend, "library_ms": library_ms,
        "rows": [_row(m) for m in report.measurements if m.predicted_ms is not None],
        "avoided": [_row(m) for m in report.measurements if m.predicted_ms is None],
    }  # fmt: skip
    if report.ok:
        best = report.best.median_ms
        slowdowns = {k: report.slowdown(k) for k in (1, 10)}
        said = " ".join(f"@{k} " + ("none ran" if r is None else f"{r:.3f}") for k, r in slowdowns.items())
        ratio = f"{library_ms / best:.2f}" if library_ms else "-"
        of = f"{len(case['rows']):4d} of {len(hints):5d} + {len(avoided):3d}"
        print(f"{template.problem!s:48.48s} {of}  best {best:8.4f} ms  library x{ratio}  slowdown {said}"
              f"  {report.outcomes}", flush=True)  # fmt: skip
    else:
        print(f"{template.problem!s:48.48s} none ran: {report.outcomes}", flush=True)
    return case, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--problems", nargs="+", default=["gemm", "more", "types", "reduction", "elementwise", "gemv"])
    parser.add_argument("--only", default="", help="a regular expression that a problem's name holds")
    parser.add_argument("--configs", type=int, default=300)
    parser.add_argument("--budget", type=float, default=8.0, help="seconds of measuring a problem")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no problem is begun")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    began = time.monotonic()
    found: dict[str, Any] = {"command": shlex.join(["python", *sys.argv]), "cases": [], "failed": [], "left_out": []}
    reports: list[tuple[str, Report]] = []
    settings = Settings(rounds=4, budget_s=args.budget, timeout_s=20.0)
    with Records(args.out.with_suffix(".sqlite")) as store, Bench(args.device, store, settings) as bench:
        found |= {"device": bench.machine.name, "state": dict(bench.machine.state), "compiler": bench.compiler}
        for kind, template in problems(args.problems):
            if not re.search(args.only, str(template.problem)):
                continue
            if time.monotonic() - began > args.limit:
                found["left_out"].append(str(template.problem))
                continue
            try:
                case, report = confirm(bench, kind, template, args.configs, args.device)
                found["cases"].append(case)
                reports.append((kind, report))
            except Exception as e:  # the next problem may well work
                found["failed"].append({"problem": str(template.problem), "why": f"{type(e).__name__}: {e}"})
                print(f"{template.problem!s:48.48s} failed: {e}", flush=True)
            with gzip.open(args.out, "wt") as file:
                json.dump(found, file, separators=(",", ":"))
    if found["left_out"]:
        count = len(found["left_out"])
        print(f"{count} problems left out: {args.limit:.0f} s were up; the same command goes on with them")
    print(summary(reports))


def summary(reports: list[tuple[str, Report]]) -> str:
    """Geometric means by kind of problem, over those of which any of the first k ran; how many did not, beside it."""
    lines = []
    for kind in dict.fromkeys(k for k, _ in reports):
        mine = [r for k, r in reports if k == kind and r.ok]
        cells = []
        for k in (1, 3, 10):
            known = [r for report in mine if (r := report.slowdown(k)) is not None]
            mean = f"{geometric_mean(known):.3f}" if known else "-"
            cells.append(mean + (f" ({len(mine) - len(known)} none ran)" if len(known) < len(mine) else ""))
        ratios = [r.library_ratio for r in mine if r.library_ratio]
        lines.append((kind, len(mine), *cells, f"{geometric_mean(ratios):.2f}" if ratios else "-"))
    heads = ("problems", "slowdown@1", "slowdown@3", "slowdown@10", "library time / ours")
    return frame.table(("kind", *heads), lines)


if __name__ == "__main__":
    main()
