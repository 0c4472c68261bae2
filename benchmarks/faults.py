"""Faults injected into real kernels and processes, and what the records say of each.

    python benchmarks/faults.py --device cuda --json faults.json
    python benchmarks/faults.py --kills 200                    # SIGKILL to whatever process of a run, at any moment

Every fault is measured among healthy candidates. Exits with 1 if an outcome is not the expected one, or if a
healthy candidate or a finished measurement was lost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HOME), str(HOME / "tests")]

from kernels import candidate  # noqa: E402

from carver.run.bench import Bench, measure  # noqa: E402
from carver.run.records import Measurement, Records  # noqa: E402
from carver.run.worker import Settings  # noqa: E402

FAULTS = {
    "cpu": {
        "compile error": ("compile_error", "compile_error"),
        "wrong result": ("wrong_result", "wrong_result"),
        "element not written": ("unwritten", "wrong_result"),
        "illegal address": ("crash", "crash"),
        "abort": ("abort", "crash"),
        "infinite loop": ("hang", "timeout"),
        "kills its own process": ("killed", "crash"),
        "leaves with status 70": ("leaves", "crash"),
        "raises signal 35": ("raises 35", "crash"),
        "writes to every descriptor": ("forges", "crash"),
        "writes one element beyond": ("beyond", "wrong_result"),
        "writes one byte before": ("before", "wrong_result"),
        "writes over its input": ("scribble", "wrong_result"),
        "right at its first call only": ("once", "wrong_result"),
        "writes to what an earlier call had": ("stale", "wrong_result"),
        "hangs, and ignores SIGTERM": ("stubborn", "timeout"),
    },
    "cuda": {
        "compile error": ("compile_error", "compile_error"),
        "wrong result": ("wrong_result", "wrong_result"),
        "element not written": ("unwritten", "wrong_result"),
        "illegal address": ("crash", "crash"),
        "trap": ("trap", "crash"),
        "infinite loop": ("hang", "timeout"),
        "writes one element beyond": ("beyond", "wrong_result"),
        "writes over its input": ("scribble", "wrong_result"),
        "writes to what an earlier call had": ("stale", "wrong_result"),
    },
}
"""Fault -> (kernel, expected outcome)."""

MEMORY_BYTES = 1 << 46
HEALTHY = 3
LONG_RUN = 8
RUNS = ("bench", "tune", "autotune", "executor")


def settings(kind: str, timeout_s: float) -> Settings:
    return Settings(warm=True, rounds=2, budget_s=30, timeout_s=timeout_s)


def inside(device: str, folder: Path, timeout_s: float) -> list[dict[str, Any]]:
    """Faults of the kernels themselves: one run over all of them, with healthy candidates before, between and after."""
    with Records(folder / "faults.sqlite") as db, Bench(device, db, settings(device, timeout_s)) as bench:
        kind, isa = bench.machine.kind, _isa(bench)
        faults = FAULTS[kind]
        bad = [candidate(folder, kernel, isa=isa) for kernel, _ in faults.values()]
        full = candidate(folder, "ok", HEALTHY, workspace_bytes=MEMORY_BYTES, isa=isa)
        good = [candidate(folder, "ok", i, isa=isa) for i in range(HEALTHY)]
        got = measure(bench, [good[0], *bad, good[1], full, good[2]])
    names = [*faults, "out of memory"]
    expected = [outcome for _, outcome in faults.values()] + ["out_of_memory"]
    recorded = [*got[1 : 1 + len(bad)], got[-2]]
    healthy = [m for m in got if m not in recorded]
    kept = f"{sum(m.ok and len(m.samples_ms) > 0 for m in healthy)} of {HEALTHY} healthy candidates measured"
    return [
        _row(name, wanted, m.outcome, m.message, kept, m.outcome == wanted and kept.startswith(str(HEALTHY)))
        for name, wanted, m in zip(names, expected, recorded, strict=True)
    ]


def worker_killed(device: str, folder: Path, timeout_s: float) -> list[dict[str, Any]]:
    """SIGKILL to the worker in the middle of a run."""
    with Records(folder / "worker.sqlite") as db, Bench(device, db, settings(device, timeout_s)) as bench:
        every = [candidate(folder, "slow", i, isa=_isa(bench)) for i in range(4)]
        killed: list[int] = []

        def kill() -> None:
            with Records(folder / "worker.sqlite") as seen:
                _until(lambda: len(seen.find()) >= 1, 60)
            if bench.session.worker.pid is not None:
                os.kill(bench.session.worker.pid, signal.SIGKILL)
                killed.append(bench.session.worker.pid)

        thread = threading.Thread(target=kill)
        thread.start()
        got = measure(bench, every)
        thread.join()
        told = [m.message for m in got if "SIGKILL" in m.message]
    fine = sum(m.ok for m in got)
    return [_row(
        "worker killed", "ok", got[0].outcome if fine == len(got) else "lost", "; ".join(told),
        f"{fine} of {len(got)} candidates measured", fine == len(got) and len(killed) == 1,
    )]  # fmt: skip


def parent_killed(device: str, folder: Path, timeout_s: float) -> list[dict[str, Any]]:
    """SIGKILL to the benchmark itself after some measurements; then the same command again."""
    command = [sys.executable, str(Path(__file__).resolve()), "--device", device, "--timeout", str(timeout_s)]
    command += ["--run", str(folder)]
    store = folder / "parent.sqlite"
    first = subprocess.Popen(command, start_new_session=True)
    with Records(store) as db:
        _until(lambda: len(db.find()) >= 3, 120)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    with Records(store) as db:
        before = {m.uuid: m for m in db.find()}
    orphans = lambda: [pid for pid in _children(folder) if pid != os.getpid()]  # noqa: E731
    _until(lambda: not orphans(), 30)
    subprocess.run(command, check=True, timeout=300)
    with Records(store) as db:
        after = {m.uuid: m for m in db.find()}
        runs = len(db.runs())
    kept = [m for uuid, m in before.items() if _continues(m, after.get(uuid))]
    complete = len(after) == LONG_RUN == len({m.candidate for m in after.values()}) and all(
        m.ok for m in after.values()
    )
    fine = complete and len(kept) == len(before) and len(before) < LONG_RUN and runs == 1
    return [_row(
        "benchmark killed, run again", "ok", "ok" if fine else "lost",
        f"{len(before)} measured before, {len(after) - len(before)} after, {runs} run",
        f"{len(kept)} of {len(before)} finished measurements kept; no orphan process", fine,
    )]  # fmt: skip


def stubborn(device: str, folder: Path, timeout_s: float) -> Iterator[dict[str, Any]]:
    """A hang on a GPU in a worker that ignores SIGTERM, as it was told before its program began."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Records(folder / "stubborn.sqlite") as db, Bench(device, db, settings(device, timeout_s)) as bench:
            isa = _isa(bench)
            names = ("ok", "hang", "slow")
            first, hung, last = measure(bench, [candidate(folder, name, 7, isa=isa) for name in names])
    finally:
        signal.signal(signal.SIGTERM, before)
    kept = f"{first.ok + last.ok} of 2 healthy candidates measured"
    yield _row("hang in a worker that ignores SIGTERM", "timeout", hung.outcome, hung.message, kept,
               hung.outcome == "timeout" and first.ok and last.ok)  # fmt: skip


_HOLD = """
import sys
import pycuda.driver as cuda
cuda.init()
context = cuda.Device(0).retain_primary_context()
context.push()
room = cuda.mem_alloc(cuda.mem_get_info()[0] - int(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
context.pop()
"""
LEFT_BYTES = 2 << 30
"""What the process that takes the GPU's memory leaves: enough for a context and small arrays."""


def memory_taken(device: str, folder: Path, timeout_s: float) -> Iterator[dict[str, Any]]:
    """Another process has all but a little of the GPU's memory; then it ends, and the same is measured again."""
    command = [sys.executable, "-c", _HOLD, str(LEFT_BYTES)]
    outcomes = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        try:
            if other.stdout.readline() != "held\n":
                yield _row("memory taken by another process", "held", "not held", "", "", False)
                return
            for when in ("taken", "given back"):
                store = folder / f"{when}.sqlite"
                with Records(store) as db, Bench(device, db, settings(device, timeout_s)) as bench:
                    isa = _isa(bench)
                    large = candidate(folder, "ok", 8, workspace_bytes=2 * LEFT_BYTES, isa=isa)
                    small = [candidate(folder, "ok", i, isa=isa) for i in (9, 10)]
                    outcomes[when] = measure(bench, [small[0], large, small[1]])
                other.stdin.close()
                other.wait(30)
        finally:
            other.kill()
    during, after = outcomes["taken"], outcomes["given back"]
    kept = f"{sum(m.ok for m in (during[0], during[2]))} of 2 small candidates measured meanwhile; afterwards " \
           f"{sum(m.ok for m in after)} of 3"  # fmt: skip
    fine = during[1].outcome == "out_of_memory" and during[0].ok and during[2].ok and all(m.ok for m in after)
    yield _row("memory taken by another process", "out_of_memory", during[1].outcome, during[1].message, kept, fine)


def two_tunings(device: str, folder: Path, timeout_s: float) -> Iterator[dict[str, Any]]:
    """Two processes that tune at once, with one cache: the device is leased to one at a time."""
    command = [sys.executable, str(Path(__file__).resolve()), "--device", device, "--timeout", str(timeout_s)]
    environment = {**os.environ, "CARVER_CACHE_DIR": str(folder / "cache")}
    runs = [
        subprocess.Popen([*command, "--run", str(folder), "--kind", f"hints {rows}"], env=environment,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rows in (512, 513)
    ]  # fmt: skip
    said = []
    for run in runs:
        try:
            out, err = run.communicate(timeout=120)
            said.append(out.strip() or err.strip()[-200:])
        except subprocess.TimeoutExpired:
            run.kill()
            said.append("not within 120 s")
    fine = all(run.returncode == 0 for run in runs)
    yield _row("two tunings on one device", "ok", "ok" if fine else "lost", "; ".join(said),
               f"{sum(run.returncode == 0 for run in runs)} of 2 tunings complete", fine)  # fmt: skip


def tuned_hints(device: str, rows: int) -> None:
    """What `two_tunings` starts: the first four hints of a small operator, each of which must work."""
    import carver

    template = carver.ElementwiseTemplate((rows, 1024), "float32").with_arch(device)
    found = template.tune(4, template.own_backend, warmup=1, rep=5, timeout=20, retakes=0, warm_cache=True)
    print(f"{len(found.table)} candidates: {found.stopped}")
    if not all(m.ok for m in found.table):
        raise SystemExit(f"{[(m.outcome, m.message) for m in found.table if not m.ok]}")


def long_run(device: str, folder: Path, timeout_s: float, kind: str = "") -> None:
    """What `parent_killed` starts, kills and starts again."""
    path = Path(os.environ["CARVER_CACHE_DIR"]) / "store.sqlite" if kind else folder / "parent.sqlite"
    with Records(path) as db, Bench(device, db, settings(device, timeout_s)) as bench:
        (folder / "pids").open("a").write(f"{bench.session.worker.pid}\n")
        measure(bench, [candidate(folder, "slow", i, isa=_isa(bench)) for i in range(LONG_RUN)])


def random_kills(device: str, folder: Path, count: int, seed: int = 0, only: str = "") -> list[dict[str, Any]]:
    """SIGKILL to a process of a run, drawn among all of them, after a time that is drawn; the command again, until it
    is through; and so on. A row for each kind of run: a benchmark, a tuner, a decorated function, an executor."""
    rng, rows = random.Random(seed), []
    for kind in (only,) if only else RUNS:
        killed, whole, lost, twice, orphans, left = 0, 0, 0, 0, 0, 0
        while killed < count // len(RUNS):
            home = folder / f"{kind}{whole}"
            (home / "tmp").mkdir(parents=True)
            mark = f"CARVER_FAULTS={uuid.uuid4().hex}"
            environment = {**os.environ, "CARVER_CACHE_DIR": str(home / "cache"), "CARVER_TMP_DIR": str(home / "tmp"),
                           "CARVER_LOCK_DIR": str(home / "tmp"), **dict([mark.split("=")])}  # fmt: skip
            command = [sys.executable, str(Path(__file__).resolve()), "--device", device, "--run", str(home)]
            seen: dict[str, Measurement] = {}
            while True:
                run = subprocess.Popen([*command, "--kind", kind], env=environment, start_new_session=True)
                while run.poll() is None and killed < count // len(RUNS):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        run.wait(rng.uniform(0.05, 3.0))
                    if victims := _marked(mark):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(rng.choice(victims), signal.SIGKILL)
                            killed += 1
                ended = run.wait(600)
                with contextlib.suppress(TimeoutError):
                    _until(lambda mark=mark: not _marked(mark, "CARVER_WORKER="), 30)  # type: ignore[misc]
                orphans += len(_marked(mark, "CARVER_WORKER="))
                for pid in _marked(mark):  # those of the executor, which are not carver's
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                with Records(home / "cache" / "store.sqlite") as db:
                    now = {m.uuid: m for m in db.find()}
                lost += sum(not _continues(m, now.get(each)) for each, m in seen.items())
                twice += len(now) - len({m.candidate for m in now.values()})
                seen = now
                if ended == 0:
                    break
            whole += 1
            left += sum(1 for pattern in ("cache/**/building-*", "tmp/carver-*", "cache/leases/*")
                        for p in home.glob(pattern) if not p.name.startswith("carver-") or p.is_dir())  # fmt: skip
        fine = not (lost or twice or orphans or left)
        rows.append(_row(
            f"{killed} random kills of {kind}", "ok", "ok" if fine else "lost",
            f"{lost} finished measurements lost, {twice} measured twice, {orphans} processes and {left} files left",
            f"{whole} runs completed", fine,
        ))  # fmt: skip
    return rows


def _marked(mark: str, also: str = "") -> list[int]:
    """Processes that were started with a variable of that value in their environment, and `also` one, or are forks."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            text = path.read_bytes()
            if mark.encode() in text.split(b"\0") and also.encode() in text and _exists(int(path.parent.name)):
                found.append(int(path.parent.name))
    return found


def tuned_run(device: str, folder: Path, kind: str) -> None:
    """A tuning of eight C kernels: by a tuner, at the call of a decorated function, in the workers of an executor."""
    import tuned

    import carver

    configs = [{"ways": 2, "delay": 20000 + i} for i in range(LONG_RUN)]
    if kind == "autotune":
        carver.autotune(configs=configs, ref_prog=tuned.twice, warmup=1, rep=10, search="exhaustive")(tuned.scale)(1000)
        return
    made = carver.AutoTuner.from_kernel(tuned.scale, configs, (1000,)).set_profile_args(
        ref_prog=tuned.twice, warmup=1, rep=10, search="exhaustive"
    )
    if kind == "tune":
        made.run()
        return
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        made.run(executor=pool)


def table(device: str, timeout_s: float, limit_s: float = math.inf) -> Iterator[dict[str, Any]]:
    """The rows, as soon as they are known. What fails by itself, or is not begun within the limit, is a row too."""
    began = time.monotonic()
    gpu = device.startswith("cuda")
    for part in (inside, *((stubborn, memory_taken) if gpu else ()), two_tunings, worker_killed, parent_killed):
        name = part.__name__.replace("_", " ")
        if time.monotonic() - began > limit_s:
            yield _row(name, "begun", "not begun", f"{limit_s:g} s were up", "", False)
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                yield from part(device, Path(folder), timeout_s)
        except Exception as e:  # that, too, is what the table is for; the parts that follow still run
            yield _row(name, "rows", "failed", f"{type(e).__name__}: {e}", "", False)


def _continues(before: Measurement, after: Measurement | None) -> bool:
    """Whether a record is still there with all its samples, and more only in further rounds."""
    return after is not None and after.rounds_ms[: len(before.rounds_ms)] == before.rounds_ms


def _row(fault: str, expected: str, recorded: str, message: str, others: str, fine: bool) -> dict[str, Any]:
    return {
        "fault": fault,
        "expected": expected,
        "recorded": recorded,
        "message": message.replace(str(HOME), ".")[:300],
        "others": others,
        "ok": fine,
    }


def _isa(bench: Bench) -> str:
    return bench.machine.arch.isa if bench.machine.kind == "cuda" else "native"


def _children(folder: Path) -> list[int]:
    """The workers of `long_run` that still exist."""
    pids = [int(line) for line in (folder / "pids").read_text().split()]
    return [pid for pid in pids if _exists(pid)]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for what did not happen")
        time.sleep(0.02)


def main() -> int:
    parser = argparse.ArgumentParser(description="faults injected, and what was recorded")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--timeout", type=float, default=5.0, help="of one candidate [s]")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds after which nothing more is begun")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--kills", type=int, default=0, help="so many SIGKILLs at random in place of the table")
    parser.add_argument("--seed", type=int, default=0, help="of the random kills")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", default="", help=f"one of {', '.join(RUNS)} alone: its share of the kills")
    args = parser.parse_args()
    if args.run:
        if args.kind.startswith("hints"):
            tuned_hints(args.device, int(args.kind.split()[1]))
        elif args.kind in ("tune", "autotune", "executor"):
            tuned_run(args.device, args.run, args.kind)
        else:
            long_run(args.device, args.run, args.timeout, args.kind)
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        every = (
            iter(random_kills(args.device, Path(folder), args.kills, args.seed, args.kind))
            if args.kills else table(args.device, args.timeout, args.limit)
        )  # fmt: skip
        rows = _told(every, args)
    return 0 if all(row["ok"] for row in rows) else 1


def _told(every: Iterator[dict[str, Any]], args: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for row in every:
        rows.append(row)
        mark = "ok  " if row["ok"] else "LOST"
        print(f"{mark} {row['fault']:28} {row['recorded']:14} {row['others']}; {row['message'][:90]}", flush=True)
        if args.json:
            args.json.write_text(json.dumps({"device": args.device, "rows": rows}, indent=1) + "\n")
    return rows


if __name__ == "__main__":
    sys.exit(main())
