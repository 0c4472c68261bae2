"""Candidates, hooks and users that misbehave: what each costs, and that nothing else suffers."""

from __future__ import annotations

import gc
import os
import pickle
import queue
import resource
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tuned
from test_tune import X, cache, tuner  # noqa: F401 (the fixture)
from tuned import QUICK, scale, twice

import carver
from carver.arch import detect
from carver.base import child, store
from carver.base.errors import ConfigError, DeviceError
from carver.run import session, worker
from carver.run.session import Session, Trial
from carver.tune import cache as disk
from carver.tune import sessions
from carver.tune.plan import choose_device, likely_arch
from carver.tune.sessions import Sessions


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_a_kernel_that_does_nothing_is_wrong(dtype: str) -> None:
    """Though the right result of the candidate before it is still in the output."""
    x = np.arange(60).astype(dtype)
    made = carver.AutoTuner.from_kernel(tuned.lazy, [{"works": True}, {"works": False}]).set_compile_args(out_idx=1)
    with carver.set_autotune_inputs(x, np.zeros_like(x)):
        result = made.run(ref_prog=twice, search="exhaustive", **QUICK)
    assert [m.outcome for m in result.table] == ["ok", "wrong_result"]


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int16", "uint8"])
def test_poison_is_like_no_result(dtype: str) -> None:
    array = np.zeros((2, 3), dtype)
    worker.fill(array)
    assert np.isnan(array).all() if array.dtype.kind in "fc" else (array.view(np.uint8) == 0x7F).all()


def test_a_candidate_that_writes_over_the_inputs_spoils_no_other() -> None:
    with carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(tuned.scribble, [{"over_inputs": True}, {"over_inputs": False}])
        result = made.run(ref_prog=twice, search="exhaustive", **QUICK)
    assert [m.outcome for m in result.table] == ["wrong_result", "ok"] and "restore_value" in result.table[0].message


@pytest.mark.slow
def test_a_hook_or_a_clock_that_fails_costs_one_candidate() -> None:
    configs = [{"pause_ms": 0.1}, {"pause_ms": 30.0}]
    with carver.set_autotune_inputs(X):
        hooked = tuner(configs=configs, pre_hook=tuned.broken_hook).run()
        timed = tuner(configs=configs, bench=tuned.broken_bench).run()
        empty = tuner(configs=configs, bench=lambda run: [], isolate=False)
        with pytest.raises(carver.CarverError, match=r"2 crash; the first, pause_ms=0.1: bench returned \[\]"):
            empty.run()
    assert [m.outcome for m in hooked.table] == [m.outcome for m in timed.table] == ["ok", "crash"]
    assert "the hook does not like it" in hooked.table[1].message
    assert "bench returned [nan]; it must return times above 0 in ms" in timed.table[1].message


@pytest.mark.parametrize("isolate", [True, False])
def test_sys_exit_is_an_outcome(isolate: bool) -> None:
    def closure(leave: bool) -> Any:
        return (lambda x: sys.exit(1)) if leave else twice

    with carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(closure, [{"leave": True}, {"leave": False}])
        result = made.run(isolate=isolate, **QUICK)
    assert [m.outcome for m in result.table] == ["crash", "ok"] and "SystemExit: 1" in result.table[0].message


@pytest.mark.slow
def test_an_interrupted_job_takes_its_answer_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each later job would get the answer to the one before it."""
    forked = child.Child(lambda: lambda job: {"said": job["n"]})
    assert forked.call({"n": 1}, 5.0).data == {"said": 1}
    selector = child.selectors.DefaultSelector

    def interrupt(*_: Any) -> Any:
        monkeypatch.setattr(child.selectors, "DefaultSelector", selector)
        raise KeyboardInterrupt

    monkeypatch.setattr(child.selectors, "DefaultSelector", interrupt)
    with pytest.raises(KeyboardInterrupt):
        forked.call({"n": 2}, 5.0)
    assert forked.call({"n": 3}, 5.0).data == {"said": 3}
    forked.close()


def test_a_fork_walks_through_none_of_what_its_parent_holds() -> None:
    """Python's collector writes to each object that it looks at: the fork would copy all pages of a large process."""
    held = [[] for _ in range(100_000)]  # type: ignore[var-annotated]
    with child.Child(lambda: lambda job: {"walked": len(gc.get_objects())}) as one:
        assert one.call({}, 5.0).data["walked"] < len(held) / 2


def test_a_worker_answers_a_process_with_many_open_files() -> None:
    """`select` knows no descriptor from 1024 on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip("this process may not open so many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with child.Child(lambda: lambda job: {"said": job["n"]}) as one:
            assert one.call({"n": 1}, 5.0).data == {"said": 1}
    finally:
        for file in held:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_fork_runs_openmp_after_its_parent_did() -> None:
    source = """
void twice(const float *X, float *Y, int n) {
#pragma omp parallel for
    for (int i = 0; i < n; i++) Y[i] = 2 * X[i];
}
"""
    params = [("X", (100,), "float32"), ("Y", (100,), "float32")]
    kernel = carver.jit(out_idx=[-1])(lambda: carver.Kernel(source, "twice", scalars=[100], params=params))()
    np.testing.assert_array_equal(kernel(X), 2 * X)

    def closure(tile: int) -> Any:
        return kernel

    with carver.set_autotune_inputs(X):
        result = carver.AutoTuner.from_kernel(closure, [{"tile": 1}]).run(ref_prog=twice, **QUICK)
    assert result.table[0].ok


# several at once


class FakeSession:
    """The first candidate is measured, the second ends it all, any other waits until it is stopped."""

    def __init__(self, spec: Any) -> None:
        self.stopped, self.seen, self.worker = threading.Event(), spec, self

    def __enter__(self) -> FakeSession:
        return self

    def begin(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        assert self.stopped.is_set()

    def measure(self, work: Any, best_ms: float | None) -> dict[str, Any]:
        self.seen.put(work.key)
        if work.key == "second":
            raise KeyboardInterrupt
        if work.key != "first":
            assert self.stopped.wait(30)
        return {"outcome": "ok" if work.key == "first" else "crash"}

    def stop(self) -> None:
        self.stopped.set()


def test_an_interrupt_keeps_what_is_measured_and_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "Session", FakeSession)
    seen = queue.SimpleQueue[str]()
    plan: Any = SimpleNamespace(spec=lambda device: seen, kind="cpu", settings=SimpleNamespace(timeout=1.0))
    works = {i: Trial(key, {}) for i, key in enumerate(["first", "long", "second", *map(str, range(9))])}
    found = []
    with pytest.raises(KeyboardInterrupt), Sessions(plan, ["cpu", "cpu"], None, None) as both:
        for i, each in both.measure(works, {}, None):
            found.append((i, each["outcome"]))
    assert found == [(0, "ok")] and seen.qsize() <= 4, "what was not begun is not begun"


@pytest.mark.parametrize("search", ["rank", "exhaustive"])
def test_compilers_work_side_by_side_and_never_while_something_is_timed(
    search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there are for, whenever the next candidate is missing; a budget of seconds changes nothing in that."""
    events: list[str] = []

    def build(work: Trial, *_: Any) -> Trial:
        events.append("build")
        return work

    def measure(self: Session, work: Trial, best_ms: float | None) -> dict[str, Any]:
        events.append("run")
        return {"outcome": "ok", "message": "", "samples_ms": [1.0]}

    monkeypatch.setattr(sessions, "cpu_workers", lambda: 3)
    monkeypatch.setattr(sessions, "build", build)
    monkeypatch.setattr(Session, "measure", measure)
    configs = [{"ways": 2, "delay": i} for i in range(7)]
    tuner(scale, configs, search=search, seconds=600).run()
    side = ["build"] * 3 + ["run"] * 3
    assert events == [*side, *side, "build", "run"]


class QuietSession:
    """Measures at once, and says what was measured."""

    def __init__(self, measured: list[str]) -> None:
        self.measured = measured

    def __enter__(self) -> QuietSession:
        return self

    def __exit__(self, *_: object) -> None: ...

    def begin(self) -> None: ...

    def measure(self, work: Trial, best_ms: float | None) -> dict[str, Any]:
        self.measured.append(work.key)
        return {"outcome": "ok", "samples_ms": [1.0]}


def test_a_gpu_measures_while_the_next_compile_and_waits_for_none_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    begun: queue.SimpleQueue[str] = queue.SimpleQueue()
    together = threading.Barrier(3)

    def build(work: Trial, kind: str, timeout_s: float, stop: threading.Event) -> Trial:
        begun.put(work.key)
        together.wait(30)
        assert work.key == "0" or stop.wait(60), "all but the first take until nobody wants them any more"
        return work

    monkeypatch.setattr(sessions, "cpu_workers", lambda: 3)
    monkeypatch.setattr(sessions, "build", build)
    monkeypatch.setattr(sessions, "Session", QuietSession)
    plan: Any = SimpleNamespace(spec=lambda device: measured, kind="cuda", settings=SimpleNamespace(timeout=1.0))
    works = [Trial(str(i), {}, program={}) for i in range(9)]
    began = time.monotonic()
    with Sessions(plan, ["cuda:0"], None, None) as one:
        ((place, found),) = one.measure({0: works[0]}, iter(enumerate(works[1:], 1)), None)
    assert (place, found["outcome"], measured) == (0, "ok", ["0"]) and time.monotonic() - began < 30
    assert {begun.get(timeout=30) for _ in range(3)} == {"0", "1", "2"} and begun.empty()


@pytest.mark.slow
def test_only_what_may_be_tried_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []
    monkeypatch.setattr(sessions, "cpu_workers", lambda: 4)
    monkeypatch.setattr(sessions, "build", lambda trial, *_: built.append(trial.config) or session.build(trial, *_))
    configs = [{"ways": 2, "delay": i} for i in range(7)]
    assert tuner(scale, configs).run(trials=2).trials == 2
    assert built == configs[:2]


@pytest.mark.slow
def test_a_session_gets_ready_before_there_is_a_candidate() -> None:
    """The worker comes up and carver's own reference is computed; a user's is timed, so it waits for the compilers."""
    calls: list[Any] = []

    def ref_prog(x: Any) -> Any:
        calls.append(x)
        return 2 * x

    made = tuner(scale, [{"ways": 1}], ref_prog=ref_prog)
    with Session(made.plan().spec("cpu")) as one:
        one.begin()
        assert isinstance(one.worker, child.Child) and one.worker.pid and not calls
    own = carver.AutoTuner.from_template(carver.MatmulTemplate(M=16, N=16, K=16, in_dtype="float32"))
    with Session(own.set_compile_args(target="cpu").plan().spec("cpu")) as one:
        one.begin()
        assert one.spec.checker._right is not None


def test_a_fork_waits_until_it_is_needed() -> None:
    forked, other = child.Child(lambda: dict), child.Child("carver.run.worker:limited", {"device": "cpu"})
    with forked, other:
        for each in (forked, other):
            each.spawn()
        assert forked.pid is None and (pid := other.pid) is not None
        other.start()
        assert other.pid == pid and other.started == 1 and other.call({"do": "state"}, 30.0).outcome == "ok"


def test_a_device_is_asked_for_its_state_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    one, now_s = worker.Worker("cpu"), [100.0]
    asked: list[float] = []
    monkeypatch.setattr(worker.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(one.device, "state", lambda: asked.append(now_s[0]) or {"clock_hz": len(asked)})
    assert [one.state()["clock_hz"] for _ in range(3)] == [1, 1, 1]
    now_s[0] += 1.1 * worker.STATE_S
    assert one.state()["clock_hz"] == 2


def test_a_session_that_is_stopped_ends_what_runs() -> None:
    with carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(tuned.trouble, [{"kind": "hang"}])
        plan = made.set_profile_args(**{**QUICK, "timeout": 60.0}).plan()
    work = plan.trial(0)
    assert isinstance(work, Trial)
    ended: list[Any] = []
    with Session(plan.spec("cpu")) as one:

        def measure() -> None:
            try:
                ended.append(one.measure(work)["outcome"])
            except carver.CarverError as e:
                ended.append(str(e))

        thread = threading.Thread(target=measure)
        thread.start()
        deadline = time.monotonic() + 20
        while one.worker.started == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        one.worker.stop()
        thread.join(20)
        assert not thread.is_alive() and len(ended) == 1


class Pickling(Executor):
    """Runs each task in this process from its pickle; `forget` says before which task its worker is a new one."""

    _max_workers = 1

    def __init__(self, forget: int = -1) -> None:
        self.sizes: list[int] = []
        self.forget = forget

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = pickle.dumps((fn, args, kwargs))
        if len(self.sizes) in (0, self.forget):
            sessions._HERE.clear()
        self.sizes.append(len(task))
        future: Future[Any] = Future()
        try:
            same, positional, named = pickle.loads(task)
            future.set_result(same(*positional, **named))
        except Exception as e:
            future.set_exception(e)
        return future


@pytest.mark.slow
@pytest.mark.parametrize(("forget", "large"), [(-1, [0]), (2, [0, 3])])
def test_inputs_go_to_each_worker_once(forget: int, large: list[int]) -> None:
    """The task whose worker has lost them is sent again with them."""
    x = np.zeros(1 << 18, np.float32)
    configs = [{"pause_ms": 0.1 * i} for i in (1, 2, 3)]
    executor = Pickling(forget)
    with carver.set_autotune_inputs(x):
        made = carver.AutoTuner.from_kernel(tuned.sleeper, configs, (1,)).set_profile_args(**QUICK)
        result = made.run(executor=executor, search="exhaustive")
    sessions._HERE.clear()
    assert [m.outcome for m in result.table] == ["ok"] * 3
    assert len(executor.sizes) == 3 + (forget > 0)
    assert [i for i, size in enumerate(executor.sizes) if size > x.nbytes] == large


# the same twice


@pytest.mark.slow
def test_candidates_that_are_the_same_are_measured_once() -> None:
    result = tuner(scale, [{"ways": 1}, {"ways": 1}, {"ways": 2, "delay": 500}]).run(search="exhaustive")
    assert [m.config for m in result.table] == [{"ways": 1}, {"ways": 2, "delay": 500}]
    again = tuner(scale, [{"ways": 1}, {"ways": 1}], baseline={"ways": 1}).run(fresh=True)
    assert len(again.table) == 1 and again.speedup == 1


@pytest.mark.slow
def test_a_refused_config_is_found_again_in_the_records() -> None:
    def choosy(n: int, ways: int) -> carver.Kernel:
        assert ways != 7
        return scale.fn(n, ways)

    made = tuner(choosy, [{"ways": 7}, {"ways": 1}]).set_compile_args(out_idx=[-1])
    first = made.run()
    store.to_write().drop(disk.KIND, store.get(disk.KIND))
    assert made.run().table == first.table


# time


@pytest.mark.slow
def test_one_run_may_take_all_of_the_timeout() -> None:
    with carver.set_autotune_inputs(X):
        result = tuner(configs=[{"pause_ms": 3000.0}]).run(timeout=5.0)
    assert result.table[0].ok and len(result.table[0].samples_ms) == 1


@pytest.mark.slow
def test_a_longer_timeout_measures_again_what_had_failed_only(tmp_path: Path) -> None:
    made = tuner(tuned.awaiting, [{"awaits": ""}, {"awaits": str(tmp_path / "there")}], search="exhaustive")
    with carver.set_autotune_inputs(X):
        short = made.run(timeout=8.0)
        (tmp_path / "there").touch()
        long = made.run(timeout=9.0)
    assert [m.outcome for m in short.table] == ["ok", "timeout"]
    assert [m.outcome for m in long.table] == ["ok", "ok"]
    assert long.table[0].uuid == short.table[0].uuid and long.key != short.key


# calls, devices, files


@pytest.mark.slow
def test_a_number_may_stand_between_the_arrays() -> None:
    work = carver.autotune(configs=[{"pause_ms": 0.1}, {"pause_ms": 30.0}], restore_value=["y"], **QUICK)(
        carver.jit(out_idx=[1])(tuned.axpy)
    )
    y = np.ones_like(X)
    work(X, 3.0, y)
    np.testing.assert_array_equal(y, 1 + 3 * X)
    work(y=y, alpha=1.0, x=X)
    np.testing.assert_array_equal(y, 1 + 4 * X)
    assert work.result(X, 3.0, y).config == {"pause_ms": 0.1}


@pytest.mark.parametrize(
    ("target", "kind", "index", "device"),
    [
        ("auto", "python", None, "cpu"), ("auto", "cuda", None, "cuda:0"), ("cuda:1", "python", None, "cuda:1"),
        ("auto", "python", 1, "cuda:1"), ("cuda", "cuda", 1, "cuda:1"), ("cuda:1", "cuda", 1, "cuda:1"),
    ],
)  # fmt: skip
def test_the_device_is_that_of_the_target_or_the_arrays(target: str, kind: str, index: int | None, device: str) -> None:
    arrays = [X] if index is None else [X, SimpleNamespace(device=SimpleNamespace(type="cuda", index=index))]
    assert choose_device(target, kind, arrays) == device


def test_candidates_are_for_the_cpu_only_where_no_gpu_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = likely_arch(scale, [X])
    monkeypatch.setattr(detect, "nvidia_names", list)
    assert ask() == carver.CPU("auto")

    def broken() -> list[str]:
        raise DeviceError("cuInit returned 999")

    monkeypatch.setattr(detect, "nvidia_names", broken)
    with pytest.raises(DeviceError, match="999"):
        ask()


@pytest.mark.parametrize("target", ["cuda:0", "cpu"])
def test_a_target_that_is_not_where_the_arrays_are(target: str) -> None:
    array = SimpleNamespace(device=SimpleNamespace(type="cuda", index=1))
    with pytest.raises(ConfigError, match=f"the arrays are on cuda:1, the target is '{target}'"):
        choose_device(target, "python", [array])


@pytest.mark.slow
def test_sources_of_any_encoding_travel(tmp_path: Path) -> None:
    (tmp_path / "old.c").write_bytes(b"// \xe9t\xe9\n" + tuned.SCALE.encode())

    @carver.jit(out_idx=[-1])
    def kernel(n: int, ways: int) -> carver.Kernel:
        params = [("X", (n,), "float32"), ("Y", (n,), "float32")]
        macros = {"WAYS": ways, "DELAY": 1, "FACTOR": 2}
        return carver.Kernel(tmp_path / "old.c", "scale", defines=macros, scalars=[n], params=params)

    result = tuner(kernel, [{"ways": 1}], ref_prog=twice).run()
    result.save(tmp_path / "shipped")
    (tmp_path / "old.c").unlink()
    np.testing.assert_array_equal(carver.AutotuneResult.load(tmp_path / "shipped").kernel(X), 2 * X)


@pytest.mark.slow
def test_objects_say_what_they_are() -> None:
    work = carver.autotune(configs=[{"ways": 1}], **QUICK)(scale)
    assert repr(scale) == "<jit scale(n, ways, delay, factor)>"
    assert repr(work) == "<autotune scale(n, ways, delay, factor), 0 tuned>"
    assert repr(work(100)) == "<kernel scale on cpu: X float32[100], Y float32[100]>"
    result = work.result(100)
    assert repr(result) == "<tuned scale: not measured with ways=1, 0 tried>"
    measured = tuner(scale, [{"ways": 1}]).run()
    assert repr(measured) == f"<tuned scale: {measured.latency_ms:.4g} ms with ways=1, 1 tried>"
    assert repr(work).endswith("1 tuned>") and repr(tuner(scale)) == f"<tuner of {scale!r}>"


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["60", "150"])
def test_tables_are_as_wide_as_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    result = tuner(scale, [{"ways": 1}, {"ways": 6}], ref_prog=twice).run()
    assert 50 < max(map(len, str(result).splitlines())) <= int(columns)
