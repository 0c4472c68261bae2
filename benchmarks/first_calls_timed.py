"""Seconds of first calls of five autotuned operators by Triton's tuner and with `enable_triton(3)`, on this GPU.

    python benchmarks/first_calls_timed.py --out FILE.jsonl [--limit 340] [--runs "gemm:0@16 gemm:3@2 ..."]
    python benchmarks/first_calls_timed.py --show FILE.jsonl

Each run, of an operator by a topk (0 is Triton's own tuner) with so many cores, has a process of its own and empty
caches, and is timed once the next one has imported what it needs. Operators are in `kernels/triton_first_calls.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import geometric_mean, median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "kernels")]

OPERATORS = ("gemm", "attention", "norm_backward", "chunk_scan", "cross_entropy")
RUNS = " ".join(f"{name}:{how}" for how in ("3@2", "3@16", "0@16") for name in OPERATORS)


def one(run: str) -> None:
    """In a process of its own: imports, says that it is ready, waits, and writes a line."""
    name, how = run.split(":")
    topk, cores = map(int, how.split("@"))
    import torch
    import triton
    import triton_first_calls

    import carver

    log = carver.enable_triton(topk) if topk else []
    torch.manual_seed(0)
    tuner, grid, args = next(case for case in triton_first_calls.cases() if case[0].base_fn.__name__ == name)
    a = torch.randn(64, 64, device="cuda")
    (a @ a).sum().item()  # what PyTorch loads at its first matmul is no tuner's
    print("ready", flush=True)
    sys.stdin.readline()
    left = sorted(os.sched_getaffinity(0))[:cores]
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), left)
    began = time.perf_counter()
    tuner[grid](**args)
    torch.cuda.synchronize()
    first_s = time.perf_counter() - began
    later = [triton.testing.do_bench(lambda: tuner[grid](**args), 10, 60, return_mode="median") for _ in range(3)]
    row = {"run": run, "listed": len(tuner.configs), "first_s": round(first_s, 3), "later_ms": round(median(later), 5)}
    print(json.dumps(row | {"kept": [e.kept for e in log], "best": tuner.best_config.all_kwargs()}), flush=True)


def started(run: str, folder: str) -> subprocess.Popen[str]:
    caches = {"CARVER_CACHE_DIR": f"{folder}/{run}/carver", "TRITON_CACHE_DIR": f"{folder}/{run}/triton"}
    command = [sys.executable, __file__, "--one", run]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | caches
    )  # fmt: skip


def measure(out: Path, runs: list[str], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    with tempfile.TemporaryDirectory() as folder:
        child = started(runs[0], folder)
        child.stdout.readline()
        for i in range(len(runs)):
            following = started(runs[i + 1], folder) if i + 1 < len(runs) else None
            if following:
                following.stdout.readline()
            line, _ = child.communicate("go\n", timeout=max(end - time.monotonic(), 1.0))
            with out.open("a") as file:
                file.write(line)
            if following is None:
                break
            child = following
            if time.monotonic() > end:
                child.kill()
                break


def show(file: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """First calls and later ones over those of Triton's tuner, by topk and cores and by commit."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    own = {row["run"].split(":")[0]: row for row in rows if ":0@" in row["run"]}
    found = {}
    for how, commit in dict.fromkeys((row["run"].split(":")[1], row.get("commit", "")) for row in rows):
        some = [row for row in rows if row["run"].endswith(f":{how}") and row.get("commit", "") == commit]
        pairs = [(row, own[name]) for row in some if (name := row["run"].split(":")[0]) in own]
        if pairs:
            took = sum(row["first_s"] for row, _ in pairs) / sum(each["first_s"] for _, each in pairs)
            later = geometric_mean(row["later_ms"] / each["later_ms"] for row, each in pairs)
            found[how, commit] = took, later
            print(f"{how:6} {commit:8} {len(pairs)} operators: first calls {took:.3f}, later ones {later:.3f}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--limit", type=float, default=340.0)
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one(asked.one)
    elif asked.show:
        show(asked.show)
    else:
        measure(asked.out, asked.runs.split(), asked.limit)


if __name__ == "__main__":
    main()
