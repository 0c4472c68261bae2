"""Whatever a candidate does to its process becomes its outcome; whatever is killed, no finished measurement is lost."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fault_targets
import pytest

from carver.base.child import GRACE_S, Child
from carver.base.errors import DeviceError, RunError
from carver.run.session import ask

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
import faults as faults_of

HERE = Path(__file__).parent


def gpu() -> bool:
    from carver.run import cuda

    return cuda.device_count() > 0


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


@functools.cache
def faults(device: str) -> dict[str, dict[str, Any]]:
    return {row["fault"]: row for row in faults_of.table(device, 1.5 if device == "cpu" else 5.0)}


SAID = {
    "compile error": "no such thing",
    "wrong result": "wrong at 1 of 1000 elements (0.1 %), first at [0, 999]",
    "element not written": "nan where",
    "illegal address": "SIGSEGV",
    "abort": "SIGABRT",
    "infinite loop": "still running check after 1.5 s",
    "kills its own process": "SIGKILL",
    "leaves with status 70": "ended with status 70",
    "raises signal 35": "died of signal 35",
    "writes to every descriptor": "is none: b'{}'",
    "writes one element beyond": "it writes beyond Y",
    "writes one byte before": "it writes beyond X0",
    "writes over its input": "it writes over X0",
    "right at its first call only": "right at first, but after it was timed wrong at 1000 of 1000",
    "writes to what an earlier call had": "it writes over X0",
    "hangs, and ignores SIGTERM": "its process was killed",
    "two tunings on one device": "all 4 candidates tried",
    "out of memory": "no room for 70368744185856 bytes",
    "worker killed": "SIGKILL",
    "benchmark killed, run again": "1 run",
}


@pytest.mark.slow
def test_faults_on_the_cpu() -> None:
    """All of them in one test: they are run by one command."""
    found = faults("cpu")
    assert found.keys() >= SAID.keys()
    wrong = [
        row for fault, row in found.items()
        if not row["ok"] or row["recorded"] != row["expected"]
        or (fault != "compile error" and SAID.get(fault, "") not in row["message"])
    ]  # fmt: skip
    assert not wrong


@pytest.mark.gpu
@pytest.mark.parametrize(
    "fault", [*faults_of.FAULTS["cuda"], "out of memory", "worker killed", "benchmark killed, run again"]
)
def test_fault_on_the_gpu(fault: str) -> None:
    if not gpu():
        pytest.skip("no CUDA device that PyCUDA can use")
    row = faults("cuda")[fault]
    assert row["recorded"] == row["expected"] and row["ok"], row


def worker(forked: bool = False, **arguments: Any) -> Child:
    if forked:
        return Child(lambda: fault_targets.handler(**arguments), start_timeout_s=30)
    return Child("fault_targets:handler", arguments, start_timeout_s=30)


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize(
    ("job", "outcome", "said"),
    [
        ({"do": "print"}, "wrong_result", "told"),
        ({"do": "raise", "kind": "compile"}, "compile_error", "log line"),
        ({"do": "raise", "kind": "config"}, "does_not_fit", "no room"),
        ({"do": "raise", "kind": "run"}, "crash", "sticky"),
        ({"do": "exit", "status": 7}, "crash", "status 7"),
        ({"do": "bug"}, "crash", "KeyError: 'missing'"),
        ({"do": "sleep", "seconds": 60}, "timeout", "after 0.3 s"),
        ({"do": "allocate", "bytes": 1 << 50}, "out_of_memory", "memory ran out"),
    ],
)
def test_outcome_of_a_job_and_the_next_one_runs(job: dict[str, Any], outcome: str, said: str, forked: bool) -> None:
    with worker(forked) as w:
        reply = w.call(job, 0.3 if job["do"] == "sleep" else 20)
        assert (reply.outcome, said in reply.message) == (outcome, True), reply
        assert w.call({"do": "pid"}, 20).outcome == "ok"
        assert w.started == (2 if outcome in ("crash", "timeout", "out_of_memory") else 1)


@pytest.mark.parametrize(
    ("start", "forked", "error", "said"),
    [
        ("raise", False, DeviceError, "no such device here"),
        ("raise", True, DeviceError, "no such device here"),
        ("exit", False, RunError, "did not start.*status 3"),
        ("bug", False, RunError, "own code failed.*KeyError: 'a bug'"),
        ("bug", True, RunError, "own code failed"),
    ],
)
def test_a_worker_that_cannot_start(start: str, forked: bool, error: type[Exception], said: str) -> None:
    with worker(forked, start=start) as w, pytest.raises(error, match=f"(?s){said}"):
        w.call({"do": "pid"}, 20)


def test_a_set_up_that_fails_leaves_none() -> None:
    """Else the next job would run on what is left of it."""
    good, bad = {"do": "pid"}, {"do": "raise", "kind": "config"}
    with worker() as w:
        assert ask(w, good, good, 20, lambda reply: RunError(reply.message)).outcome == "ok" and w.set_up == good
        with pytest.raises(RunError, match="no room"):
            ask(w, bad, good, 20, lambda reply: RunError(reply.message))
        assert w.set_up is None and w.started == 1


@pytest.mark.parametrize("forked", [False, True])
def test_what_sigkill_took_is_asked_once_more(forked: bool) -> None:
    with worker(forked) as w:
        os.kill(w.call({"do": "pid"}, 20).data["pid"], signal.SIGKILL)
        reply = ask(w, {"do": "pid"}, {"do": "pid"}, 20, lambda reply: RunError(reply.message))
        assert reply.outcome == "ok" and "SIGKILL" in reply.message and w.started == 2
        w.stop()
        with pytest.raises(RunError, match="was stopped"):
            ask(w, {}, {"do": "pid"}, 20, lambda reply: RunError(reply.message))


@pytest.mark.slow
def test_an_interrupt_does_not_shift_the_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with worker() as w:
        first = w.call({"do": "pid"}, 20).data["pid"]
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(w, "_take", interrupted)
            w.call({"do": "print"}, 20)
        assert w.call({"do": "pid"}, 20).data["pid"] != first


def test_what_a_job_prints_does_not_pile_up() -> None:
    with worker() as w:
        assert w.call({"do": "flood", "bytes": 4 << 20}, 30).outcome == "ok"
        assert len(w._tail) <= 4000
        reply = w.call({"do": "exit", "status": 7}, 20)
    assert "status 7" in reply.message and reply.message.endswith("noise")


def test_killed_from_outside_is_told_apart() -> None:
    with worker() as w:
        pid = w.call({"do": "pid"}, 20).data["pid"]
        os.kill(pid, signal.SIGKILL)
        reply = w.call({"do": "pid"}, 20)
        assert reply.outcome == "crash" and reply.transient and "SIGKILL" in reply.message
        assert not w.call({"do": "exit", "status": 1}, 20).transient


def test_nothing_of_the_group_survives_a_timeout() -> None:
    with worker() as w:
        child = w.call({"do": "fork"}, 20).data["pid"]
        assert faults_of._exists(child)
        assert w.call({"do": "sleep", "seconds": 60}, 0.2).outcome == "timeout"
        faults_of._until(lambda: not faults_of._exists(child), 10)


def test_a_busy_worker_does_not_outlive_its_parent() -> None:
    code = (
        "from carver.base.child import Child\n"
        "w = Child('fault_targets:handler', {})\n"
        "print(w.call({'do': 'pid'}, 20).data['pid'], flush=True)\n"
        "w.call({'do': 'hold', 'seconds': 600}, 600)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    faults_of._until(lambda: not faults_of._exists(pid), GRACE_S + 10)


# What one candidate must not do to the others.


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"do": "exit", "status": os.EX_SOFTWARE}, "ended with status 70"),
        ({"do": "signal", "number": 35}, "signal 3"),
        ({"do": "signal", "number": signal.SIGALRM}, "SIGALRM"),
        ({"do": "forge", "line": "noise"}, "is none: b'noise'"),
        ({"do": "forge", "line": "[]"}, "is none"),
        ({"do": "forge", "line": '{"token": "", "outcome": "ok", "message": "", "data": {}}'}, "is none"),
        ({"do": "outcome", "outcome": "splendid"}, "is none"),
    ],
)
def test_no_candidate_ends_the_run(job: dict[str, Any], said: str, forked: bool) -> None:
    if forked and job["do"] == "forge":
        pytest.skip("it would write to the files of the tests")
    with worker(forked) as w:
        reply = w.call(job, 20)
        assert reply.outcome == "crash" and said in reply.message, reply
        assert w.call({"do": "pid"}, 20).outcome == "ok"


def test_a_worker_that_is_killed_as_it_starts_is_started_again() -> None:
    with worker() as w:
        w.spawn()
        assert w.pid is not None
        os.kill(w.pid, signal.SIGKILL)
        assert w.call({"do": "pid"}, 20).outcome == "ok" and w.started == 2


@pytest.mark.slow
def test_an_innocent_job_is_tried_again_in_a_new_process() -> None:
    def failed(reply: Any) -> RunError:
        return RunError(reply.message)

    def asked(w: Child, job: dict[str, Any], owner: str) -> Any:
        return ask(w, {"do": "pid"}, job, 20, failed, owner)

    with worker() as w:
        assert asked(w, {"do": "alarm", "seconds": 0.3}, "guilty").outcome == "ok"
        innocent = asked(w, {"do": "sleep", "seconds": 1.0}, "innocent")
        assert innocent.outcome == "ok" and "SIGALRM" in innocent.message and w.started == 2
        assert asked(w, {"do": "exit", "status": 7}, "innocent").outcome == "crash" and w.started == 2
        assert asked(w, {"do": "exit", "status": 7}, "guilty").outcome == "crash", "in a fresh one it counts at once"
        assert w.started == 3


@pytest.mark.parametrize("module", ["numpy", "queue", "types", "json"])
def test_a_worker_imports_nothing_from_the_current_directory(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("PYTHONPATH", f":{os.environ.get('PYTHONPATH', '')}")
    with worker() as w:
        assert w.call({"do": "pid"}, 20).outcome == "ok"
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("ended", ["closed", "timeout", "worker killed", "warden killed"])
def test_nothing_that_a_job_started_survives(ended: str, forked: bool) -> None:
    if ended == "warden killed" and forked:
        pytest.skip("a fork has no mark of its own to be found by")
    with worker(forked) as w:
        hidden = w.call({"do": "daemon"}, 20).data["pid"]
        assert faults_of._exists(hidden)
        if ended == "timeout":
            assert w.call({"do": "sleep", "seconds": 60}, 0.2).outcome == "timeout"
        elif ended != "closed":
            pid = w.pid if ended == "warden killed" else w.call({"do": "pid"}, 20).data["pid"]
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            w.call({"do": "sleep", "seconds": 5}, 6)
    faults_of._until(lambda: not faults_of._exists(hidden), 10)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["-v 8000000", "-v 4000000"])
def test_a_bench_starts_under_a_limit_of_memory(limit: str, tmp_path: Path) -> None:
    command = f"ulimit {limit}; exec {sys.executable} -m carver bench elementwise 64 64 --arch cpu --topk 1"
    shell = ["bash", "-c", f"{command} --json --quiet"]
    done = subprocess.run(shell, check=False, capture_output=True, text=True, cwd=HERE.parent)
    assert done.returncode == 0, done.stderr
