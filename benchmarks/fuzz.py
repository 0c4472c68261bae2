"""Random input to every public entry: each case ends in a result or in an error of carver's own, in bounded time and
memory.

    python benchmarks/fuzz.py --cases 50000 --json fuzz.json
    python benchmarks/fuzz.py --entry hints --cases 2000 --seed 7

The cases run in a worker process of bounded memory; one that a case ends, or that a case holds for too long, is that
case's failure, and another goes on with what is left. Exits with 1 if any case failed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
MEMORY_BYTES = 2 << 30
TIME_S = 10.0
"""Of a processor that one case may take."""
WAIT_S = 60.0
"""Of the clock, after which a case is taken to hang: on a busy machine it waits for others as well."""
BATCH = 2500
"""Cases of a worker; another seed draws the next."""
AFTER = 1_000_003
"""What is added to the seed of a worker that a case ended, for the one that goes on."""


@dataclass
class Found:
    """What so many cases of an entry came to."""

    cases: int = 0
    results: int = 0
    longest_s: float = 0.0
    longest: str = ""
    waited_s: float = 0.0
    peak_bytes: int = 0
    seconds: float = 0.0
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Found) -> None:
        if other.longest_s > self.longest_s:
            self.longest_s, self.longest = other.longest_s, other.longest
        for name in ("cases", "results", "seconds", "failures"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("waited_s", "peak_bytes"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def row(self) -> dict[str, Any]:
        return {
            "cases": self.cases, "results": self.results, "failures": len(self.failures),
            "longest_s": round(self.longest_s, 3), "waited_s": round(self.waited_s, 3),
            "peak_mib": self.peak_bytes >> 20, "seconds": round(self.seconds, 1), "longest": self.longest[:300],
        }  # fmt: skip


def work(name: str, count: int, seed: int) -> None:
    """In a worker: a line on stdout for each case that begins, fails or ends."""
    sys.path[:0] = [str(HOME), str(HOME / "tests")]
    import fuzz as fuzzing
    import hypothesis
    from hypothesis import HealthCheck, Phase

    out = os.fdopen(os.dup(1), "w")
    entry = fuzzing.ENTRIES[name]
    home = tempfile.TemporaryDirectory()
    fuzzing.fresh_home(Path(home.name))
    entry.ready()
    # of what it writes to: libraries that it imports map more than anybody touches
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))

    def say(**what: Any) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(entry.given)
    def run(case: Any) -> None:
        say(case=repr(case)[:2000])
        began, used, error = time.perf_counter(), time.process_time(), None
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                answered = fuzzing.run(entry, case)
            except Exception as failure:  # what is looked for
                error, answered = failure, False
        if error is not None:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if "/carver/" in f.filename]
            at = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "outside"
            say(
                error=f"{type(error).__name__} in {at}",
                says=str(error)[:300],
                trace="".join(traceback.format_tb(error.__traceback__))[-3000:],
            )
        used = time.process_time() - used
        if used > TIME_S:
            say(error=f"over {TIME_S:g} s", says=f"{used:.1f} s")
        say(took=time.perf_counter() - began, used=used, answered=answered)

    with home:
        run()
    say(peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)


def batch(name: str, count: int, seed: int) -> Found:
    """What a worker told, until it ended or a case of it hung."""
    command = [sys.executable, "-X", "faulthandler", __file__, "--work", name, str(count), str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    found, case, began, done = Found(), "", time.monotonic(), False
    with tempfile.TemporaryFile() as errors:
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment)
        assert worker.stdout is not None
        os.set_blocking(worker.stdout.fileno(), False)
        rest, why = b"", ""
        while not why:
            ended = worker.poll() is not None
            *lines, rest = (rest + (worker.stdout.read() or b"")).split(b"\n")
            for told in map(json.loads, lines):
                if "case" in told:
                    case, began = told["case"], time.monotonic()
                elif "took" in told:
                    found.add(Found(1, told["answered"], told["used"], case, told["took"]))
                    case = ""
                elif "error" in told:
                    found.failures.append({**told, "case": case})
                else:
                    found.peak_bytes, done = told["peak_bytes"], True
            if case and time.monotonic() - began > WAIT_S:
                worker.kill()
                worker.wait()
                why = f"over {WAIT_S:g} s of the clock"
            elif ended:
                why = f"worker ended with {worker.returncode}"
            else:
                time.sleep(0.02)
        if not done:
            errors.seek(0)
            said = errors.read()[-4000:].decode(errors="replace")
            found.failures.append({"error": why, "says": said, "case": case})
    return found


def part(name: str, count: int, seed: int) -> tuple[str, Found]:
    """So many cases of an entry, by as many workers as these take, and the seconds that they took."""
    began, whole = time.monotonic(), batch(name, count, seed)
    while whole.cases < count:
        if not whole.cases and not whole.failures[0]["case"]:
            raise SystemExit(f"{name}: no case could be drawn: {whole.failures[0]['says'][-2000:]}")
        whole.cases += 1  # the one that ended its worker
        seed += AFTER
        if whole.cases < count:
            whole.add(batch(name, count - whole.cases, seed))
    whole.seconds = time.monotonic() - began
    return name, whole


def main() -> int:
    parser = argparse.ArgumentParser(description="random input to every public entry")
    parser.add_argument("--cases", type=int, default=2000, help="in all")
    parser.add_argument("--entry", action="append", help="only this one; repeatable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time")
    parser.add_argument("--json", type=Path, help="write the summary here, as it grows")
    parser.add_argument("--failures", type=Path, help="write every failure here")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work[0], int(args.work[1]), int(args.work[2]))
        return 0
    sys.path[:0] = [str(HOME), str(HOME / "tests")]
    from fuzz import ENTRIES

    names = args.entry or list(ENTRIES)
    each = -(-args.cases // len(names))
    every = {name: Found() for name in names}
    with ThreadPoolExecutor(args.jobs) as pool:
        parts = [
            pool.submit(part, name, min(BATCH, each - start), args.seed + start // BATCH)
            for name in names for start in range(0, each, BATCH)
        ]  # fmt: skip
        for done in as_completed(parts):
            name, found = done.result()
            every[name].add(found)
            row = every[name].row()
            if row["cases"] >= each:
                print(f"{name:<16s} {', '.join(f'{k} {v}' for k, v in row.items() if k != 'longest')}", flush=True)
            if args.json:
                told = {
                    "command": f"python benchmarks/fuzz.py --cases {args.cases} --seed {args.seed} --jobs {args.jobs}",
                    "python": platform.python_version(), "limit_s": TIME_S, "limit_of_the_clock_s": WAIT_S,
                    "limit_bytes": MEMORY_BYTES, "cases": sum(one.cases for one in every.values()),
                    "failures": sum(len(one.failures) for one in every.values()),
                    "entries": {name: one.row() for name, one in every.items() if one.cases},
                }  # fmt: skip
                args.json.write_text(json.dumps(told, indent=1) + "\n")
            failed = [{"entry": name, **failure} for name, one in every.items() for failure in one.failures]
            if args.failures:
                args.failures.write_text(json.dumps(failed, indent=1))
    for (entry, error), n in Counter((f["entry"], f["error"]) for f in failed).most_common():
        first = next(f for f in failed if (f["entry"], f["error"]) == (entry, error))
        print(f"{n:5d} {entry}: {error}: {first['says'][:150]!r}\n      {first['case'][:300]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
