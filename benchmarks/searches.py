"""Search strategies on the GPU of this machine: what each needs to come within 1 % of the best of a grid.

    python benchmarks/searches.py OUT.json [--device cuda:0] [--seconds 280]

For ten GEMM shapes it measures a grid of carver's own CUDA kernels (every shape's first hints and a sample that is
spread over all of the space, the same configurations for all shapes), replays every strategy on it with the compile
and run times that were measured, and tunes each shape live by rank order with early stop in a cache of its own,
compilation included, and says what became of those seconds: compilers waited for, checks, timed runs, and the rest,
which is setting up. Shapes that the time does not reach are named, and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import carver
from carver.base.errors import CompileError
from carver.evaluate import simulate
from carver.evaluate.tables import Case
from carver.ranking.hint import Hint
from carver.ranking.recommend import own_backend
from carver.run.bench import Bench, Candidate, candidates, measure, stratified
from carver.run.compile import compile_source
from carver.run.session import Settings, compiler_of
from carver.tune.built import cpu_workers

SHAPES = (
    (4096, 4096, 4096), (8192, 8192, 8192), (1024, 1024, 1024), (2048, 2048, 8192), (16, 4096, 4096),
    (64, 14336, 4096), (256, 6144, 4096), (512, 1024, 4096), (4096, 4096, 256), (1000, 1008, 4096),
)  # fmt: skip
HEAD, SPREAD = 12, 24
"""Of every shape: its first hints, and a stratified sample of all candidates."""


def operator(shape: tuple[int, int, int], arch: carver.Arch) -> Any:
    m, n, k = shape
    return carver.MatmulTemplate(M=m, N=n, K=k).with_arch(arch)


def grid(arch: carver.Arch) -> list[dict[str, int]]:
    """The configurations that all shapes are measured with, each with the name of its kernel."""
    chosen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for seed, shape in enumerate(SHAPES):
        every = list(operator(shape, arch).recommend_hints(4000, own_backend(arch)))
        for hint in (*every[:HEAD], *stratified(every, SPREAD, seed)):
            config = {**hint.config}
            chosen[(hint.kernel, *config.items())] = {"kernel": hint.kernel, "config": config}
    return list(chosen.values())


def hints_of(shape: tuple[int, int, int], arch: carver.Arch, wanted: list[dict[str, Any]]) -> list[Hint]:
    """The grid as hints for one shape; what cannot run there is left out."""
    return list(operator(shape, arch).rank([each["config"] for each in wanted], own_backend(arch)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=280.0, help="for all of it")
    asked = parser.parse_args()
    began = time.monotonic()
    found: dict[str, Any] = {"command": "python benchmarks/searches.py"}
    found |= {name: [] for name in ("shapes", "live", "left_out", "failed")}
    os.environ.setdefault("CARVER_CACHE_DIR", tempfile.mkdtemp(prefix="carver-searches-"))
    arch = carver.load_arch(asked.device)
    wanted = grid(arch)
    cases: list[Case] = []
    costs: list[simulate.Cost] = []

    def write() -> None:
        asked.out.write_text(json.dumps(found | {"took_s": time.monotonic() - began}, indent=1))

    def failed(what: Any, e: Exception) -> None:
        found["failed"].append([what, f"{type(e).__name__}: {e}"])
        print(f"{what} failed: {e}", flush=True)

    with Bench(asked.device, settings=Settings(rounds=1, budget_s=9.0, timeout_s=10.0)) as bench:
        found |= {"device": bench.machine.name, "state": dict(bench.machine.state), "compiler": bench.compiler}
        for shape in SHAPES:
            if time.monotonic() - began > 0.75 * asked.seconds:
                found["left_out"].append(shape)
                continue
            try:
                case, cost, entry = measured(bench, shape, arch, wanted)
            except Exception as e:  # the next shape may well work
                failed(shape, e)
            else:
                cases.append(case)
                costs.append(cost)
                found["shapes"].append(entry)
            write()
    traces = [t for case, cost in zip(cases, costs, strict=True) for t in simulate.simulate([case], 5, cost)]
    if traces:
        found |= simulate.to_dict(traces)
        write()
    for case, entry in zip(cases, found["shapes"], strict=True):
        if time.monotonic() - began > 0.92 * asked.seconds:
            found["left_out"].append(["live", *entry["shape"]])
            continue
        try:
            found["live"].append(live(case, entry, asked.device))
            print(json.dumps(found["live"][-1]), flush=True)
        except Exception as e:  # as above: what was measured so far is written
            failed(["live", *entry["shape"]], e)
        write()
    if found["live"]:
        found["live_median"] = {
            name: _middle([each[name] for each in found["live"]])
            for name in (
                "trials", "trials_to_goal", "seconds", "seconds_to_goal", "setup_share", "of_exhaustive", "speed",
            )
        }
    write()
    if traces:
        from rich.console import Console

        Console(width=120).print(simulate.table(traces))
    print(json.dumps(found.get("live_median", {})))


def measured(
    bench: Bench, shape: tuple[int, int, int], arch: carver.Arch, wanted: list[dict[str, Any]]
) -> tuple[Case, simulate.Cost, dict[str, Any]]:
    """The grid on one shape, what a trial costs there, and its entry of the file."""
    hints = hints_of(shape, arch, wanted)
    chosen = candidates(hints, bench.machine.arch)
    bench.compile(chosen)
    start = time.monotonic()
    measurements = measure(bench, chosen)
    took = time.monotonic() - start
    seconds = [m.median_ms * 1e-3 if m.ok and m.median_ms else float("nan") for m in measurements]
    if not np.isfinite(seconds).any():
        raise RuntimeError(f"none ran: {measurements[0].outcome}: {measurements[0].message}")
    compile_s = [compiled_s(c, bench) for c in chosen]
    cost = simulate.Cost(compile_s=float(np.nanmedian(compile_s)), overhead_s=0.1)
    case = Case("h200", hints[0].problem, arch, own_backend(arch), [h.config for h in hints], np.array(seconds))
    best_ms = 1e3 * float(np.nanmin(seconds))
    print(f"{shape}: {len(hints)} candidates in {took:.1f} s, best {best_ms:.4g} ms", flush=True)
    return case, cost, {
        "shape": shape, "candidates": len(hints), "best_ms": best_ms,
        "outcomes": {o: sum(m.outcome == o for m in measurements) for o in {m.outcome for m in measurements}},
        "measuring_s": took, "compile_s_median": cost.compile_s, "compile_s_sum": float(np.nansum(compile_s)),
        "rows": [
            {"kernel": h.kernel, "config": dict(h.config), "predicted_ms": h.predicted_ms,
             "measured_ms": m.median_ms, "outcome": m.outcome, "message": m.message[:200], "compile_s": c}
            for h, m, c in zip(hints, measurements, compile_s, strict=True)
        ],
    }  # fmt: skip


def compiled_s(candidate: Candidate, bench: Bench) -> float:
    """Seconds that the compiler took for what is in the cache now; NaN where there is nothing."""
    if candidate.program is not None:
        with suppress(CompileError):
            return compile_source(candidate.program.source, compiler_of(bench.machine.kind)).seconds
    return float("nan")


def _middle(values: list[float | None]) -> float | None:
    """The median; None counts as the longest, and where it is the median nothing else would be honest."""
    return sorted(values, key=lambda v: float("inf") if v is None else v)[len(values) // 2]


def live(case: Case, entry: dict[str, Any], device: str) -> dict[str, Any]:
    """Rank order with early stop from an empty cache, by the clock, against compiling and measuring all."""
    ranking = case.ranked()
    assert ranking is not None
    before = os.environ["CARVER_CACHE_DIR"]
    os.environ["CARVER_CACHE_DIR"] = tempfile.mkdtemp(prefix="carver-live-")
    try:
        tuner = carver.AutoTuner.from_template(operator(tuple(entry["shape"]), case.arch))
        tuner.configs = list(ranking)
        began, started = time.monotonic(), datetime.now(UTC)
        result = tuner.run(warmup=5, rep=50, timeout=20, early_stop=True)
        seconds = time.monotonic() - began
    finally:
        os.environ["CARVER_CACHE_DIR"] = before
    best = float(np.nanmin(case.seconds)) * 1e3
    times = {tuple(c.items()): s * 1e3 for c, s in zip(case.configs, case.seconds, strict=True)}
    order = sorted(result.table, key=lambda m: m.predicted_ms or 0.0)
    own = [times.get(tuple(m.config.items()), float("inf")) for m in order]
    reached = [place for place, ms in enumerate(own, 1) if ms <= best / simulate.GOAL]
    at_s = [(datetime.fromisoformat(m.updated_at) - started).total_seconds() for m in order]
    spent_s = dict(result.env["spent_s"])
    trials_s = sum(spent_s[name] for name in ("compile", "check", "measure"))
    exhaustive_s = entry["compile_s_sum"] / cpu_workers() + entry["measuring_s"]
    chosen = times.get(tuple(result.config.items()), float("nan"))
    return {
        "shape": entry["shape"], "trials": result.trials, "trials_to_goal": reached[0] if reached else None,
        "seconds_to_goal": at_s[reached[0] - 1] if reached else None, "trials_at_s": at_s,
        "spent_s": spent_s, "setup_share": 1 - trials_s / seconds,
        "seconds": seconds, "of_exhaustive": seconds / exhaustive_s, "exhaustive_s": exhaustive_s,
        "speed": best / chosen, "latency_ms": result.latency_ms, "config": dict(result.config),
        "stopped": result.stopped, "reference_ms": result.ref_latency_ms,
    }  # fmt: skip


if __name__ == "__main__":
    main()
