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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
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
NOTHING: Mapping[str, Any] = {
    "cases": 0, "results": 0, "longest_s": 0.0, "waited_s": 0.0, "peak_bytes": 0, "failures": (),
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


def batch(name: str, count: int, seed: int) -> dict[str, Any]:
    """What a worker told: cases, failures, the longest case and the peak of its memory."""
    command = [sys.executable, "-X", "faulthandler", __file__, "--work", name, str(count), str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    found: dict[str, Any] = {**NOTHING, "failures": []}
    assert worker.stdout is not None and worker.stderr is not None
    os.set_blocking(worker.stdout.fileno(), False)
    os.set_blocking(worker.stderr.fileno(), False)
    rest, said, case, began, done = b"", b"", "", time.monotonic(), False
    while True:
        ended = worker.poll() is not None
        text, said = rest + (worker.stdout.read() or b""), (said + (worker.stderr.read() or b""))[-4000:]
        *lines, rest = text.split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "case" in told:
                case, began = told["case"], time.monotonic()
            elif "took" in told:
                found["cases"] += 1
                found["results"] += told["answered"]
                found["waited_s"] = max(found["waited_s"], told["took"])
                if told["used"] > found["longest_s"]:
                    found |= {"longest_s": told["used"], "longest": case}
                case = ""
            elif "error" in told:
                found["failures"].append({**told, "case": case})
            else:
                found["peak_bytes"], done = told["peak_bytes"], True
        if case and time.monotonic() - began > WAIT_S:
            worker.kill()
            worker.wait()
            found["failures"].append({"error": f"over {WAIT_S:g} s of the clock", "says": "", "case": case})
            break
        if ended:
            if not done:
                tail = said.decode(errors="replace")
                found["failures"].append(
                    {"error": f"worker ended with {worker.returncode}", "says": tail, "case": case}
                )
            break
        time.sleep(0.02)
    return found


def part(name: str, count: int, seed: int) -> tuple[str, dict[str, Any]]:
    """So many cases of an entry, by as many workers as these take, and the seconds that they took."""
    began, whole = time.monotonic(), batch(name, count, seed)
    while whole["cases"] < count:
        if not whole["cases"] and not whole["failures"][0]["case"]:
            raise SystemExit(f"{name}: no case could be drawn: {whole['failures'][0]['says'][-2000:]}")
        whole["cases"] += 1  # the one that ended its worker
        seed += AFTER
        more = batch(name, count - whole["cases"], seed) if whole["cases"] < count else NOTHING
        whole["cases"] += more["cases"]
        whole["results"] += more["results"]
        whole["failures"] += more["failures"]
        if more["longest_s"] > whole["longest_s"]:
            whole |= {"longest_s": more["longest_s"], "longest": more["longest"]}
        for key in ("waited_s", "peak_bytes"):
            whole[key] = max(whole[key], more[key])
    return name, {**whole, "seconds": time.monotonic() - began}


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
    rows: dict[str, Any] = {}
    failed: list[dict[str, Any]] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        parts = [
            pool.submit(part, name, min(BATCH, each - start), args.seed + start // BATCH)
            for name in names for start in range(0, each, BATCH)
        ]  # fmt: skip
        for done in as_completed(parts):
            name, found = done.result()
            row = rows.setdefault(name, {"cases": 0, "results": 0, "failures": 0, "longest_s": 0.0, "waited_s": 0.0,
                                         "peak_mib": 0, "seconds": 0.0})  # fmt: skip
            for key in ("cases", "results", "seconds"):
                row[key] = round(row[key] + found[key], 1)
            row["failures"] += len(found["failures"])
            if found["longest_s"] > row["longest_s"]:
                row |= {"longest_s": round(found["longest_s"], 3), "longest": found["longest"][:300]}
            row["waited_s"] = round(max(row["waited_s"], found["waited_s"]), 3)
            row["peak_mib"] = max(row["peak_mib"], found["peak_bytes"] >> 20)
            failed += [{"entry": name, **failure} for failure in found["failures"]]
            if row["cases"] >= each:
                print(
                    f"{name:<16s} {row['cases']:6d} cases, {row['results']:6d} results, {row['failures']:4d} failed, "
                    f"longest {row['longest_s']:.2f} s ({row['waited_s']:.2f} by the clock), {row['peak_mib']} MiB, "
                    f"{row['seconds']:.0f} s",
                    flush=True,
                )
            if args.json:
                told = {
                    "command": f"python benchmarks/fuzz.py --cases {args.cases} --seed {args.seed} --jobs {args.jobs}",
                    "python": platform.python_version(),
                    "limit_s": TIME_S,
                    "limit_of_the_clock_s": WAIT_S,
                    "limit_bytes": MEMORY_BYTES,
                    "cases": sum(r["cases"] for r in rows.values()),
                    "failures": sum(r["failures"] for r in rows.values()),
                    "entries": {name: rows[name] for name in names if name in rows},
                }
                args.json.write_text(json.dumps(told, indent=1) + "\n")
            if args.failures:
                args.failures.write_text(json.dumps(failed, indent=1))
    for (entry, error), n in Counter((f["entry"], f["error"]) for f in failed).most_common():
        first = next(f for f in failed if (f["entry"], f["error"]) == (entry, error))
        print(f"{n:5d} {entry}: {error}: {first['says'][:150]!r}\n      {first['case'][:300]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
