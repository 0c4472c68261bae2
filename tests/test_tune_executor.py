"""Scale-out: any executor measures; Dask with a real scheduler and two worker processes, one of them killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import tuned
from test_tune import X, cache  # noqa: F401 (the fixture)
from tuned import QUICK, scale, twice

import carver
from carver.base.errors import ConfigError, RunError
from carver.run.records import Records

CONFIGS: list[dict[str, Any]] = [
    *({"ways": 2, "delay": 6000 - 1000 * i} for i in range(5)), {"ways": 1}, {"ways": 3}, {"ways": 6},
]  # fmt: skip
OUTCOMES = ["ok"] * 6 + ["wrong_result", "compile_error"]


def tune(n: int = 100, **options: Any) -> carver.AutotuneResult:
    made = carver.AutoTuner.from_kernel(scale, CONFIGS, (n,)).set_profile_args(ref_prog=twice, **QUICK)
    return made.run(search="exhaustive", fresh=True, **options)


def complete(result: carver.AutotuneResult) -> None:
    """The winner, every outcome, and all of it in the database."""
    assert result.config == {"ways": 1}
    assert [m.outcome for m in result.table] == OUTCOMES
    assert [dict(m.config) for m in result.table] == CONFIGS
    with Records() as records:
        found = records.find(run_id=result.env["run_id"])
    assert {m.uuid for m in found} == {m.uuid for m in result.table} and len(found) == len(CONFIGS)


@pytest.mark.slow
def test_threads_and_processes_are_executors() -> None:
    with ThreadPoolExecutor(2) as pool:
        complete(tune(executor=pool))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        complete(tune(executor=pool))


@pytest.mark.slow
def test_a_broken_pool_keeps_what_was_measured() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(os.getpid).result()
        (worker,) = pool._processes
        threading.Timer(2.0, os.kill, (worker, signal.SIGKILL)).start()
        with pytest.raises(RunError, match=r"lost its workers.*what was measured is kept"):
            for n in range(100, 140):
                tune(n, executor=pool)


def children() -> int:
    """Processes that this one has started and that have not ended."""
    tasks = Path("/proc/self/task").iterdir()
    return sum(len((task / "children").read_text().split()) for task in tasks)


@pytest.mark.slow
def test_a_worker_of_an_executor_keeps_one_tuning_only() -> None:
    """Each session holds a process with inputs and, on a GPU, a context: those of tunings that are over must go."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        before = pool.submit(children).result()
        for n in (100, 101, 102):
            made = carver.AutoTuner.from_kernel(scale, CONFIGS[5:6], (n,)).set_profile_args(**QUICK)
            made.run(executor=pool, fresh=True)
        assert pool.submit(children).result() == before + 1


def test_closures_cannot_travel() -> None:
    def closure(pause_ms: float) -> Any:
        return tuned.sleeper(0, pause_ms)

    with ThreadPoolExecutor(1) as pool, carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(closure, [{"pause_ms": 0.1}])
        with pytest.raises(ConfigError, match="cannot be imported by an executor's workers"):
            made.run(executor=pool, **QUICK)


def test_python_code_on_an_executor() -> None:
    with ThreadPoolExecutor(1) as pool, carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(tuned.sleeper, [{"pause_ms": 30.0}, {"pause_ms": 0.1}], (100,))
        assert made.run(executor=pool, ref_prog=twice, **QUICK).config == {"pause_ms": 0.1}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A scheduler and two worker processes of one thread each; a worker that dies is replaced."""
    distributed = pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("dask")
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(carver.__file__).parent.parent)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        patch.setenv("CARVER_CACHE_DIR", str(folder / "cache"))
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(folder)
        ) as workers, distributed.Client(workers) as client:
            yield client


@pytest.mark.slow
def test_dask_finds_the_same_winner_and_fills_one_database(cluster: Any) -> None:
    complete(tune())
    with cluster.get_executor() as pool:
        result = tune(executor=pool, parallel=4)
    complete(result)
    assert len({m.host for m in result.table}) == 1
    assert result.kernel(X)[3] == 6


@pytest.mark.slow
def test_dask_survives_a_worker_that_is_killed_in_the_middle(cluster: Any) -> None:
    pids = cluster.run(os.getpid)
    assert len(set(pids.values())) == 2
    killed: list[int] = []

    def kill_one() -> None:
        """Once the database has the first measurements, so that the rest is under way."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with Records() as records:
                if len(records.find(kernel="scale")) >= 2:
                    break
            time.sleep(0.02)
        killed.append(next(iter(pids.values())))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    with cluster.get_executor() as pool:
        result = tune(executor=pool, parallel=8)
    killer.join()
    complete(result)
    assert killed
    cluster.wait_for_workers(2, timeout=60)
    assert killed[0] not in set(cluster.run(os.getpid).values())


@pytest.mark.slow
def test_what_a_dead_worker_left_is_swept_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_TMP_DIR", str(tmp_path / "scratch"))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        tune(executor=pool)
    tune()
    assert not list((tmp_path / "scratch").iterdir())
