"""The tuner's workflows: entry points, outcomes, hooks, settings, records. CPU only but where marked."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tuned
from click.testing import CliRunner
from tuned import QUICK, scale, twice

import carver
from carver.base.errors import ConfigError, RunError
from carver.calibrate.tables import records_cases
from carver.cli.main import main
from carver.run.built import cpu_workers
from carver.run.inputs import TensorSupplyType, import_path
from carver.run.records import Measurement, Records
from carver.tune.plan import Tuning


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own for every test, but for the compiled binaries."""
    shared = tmp_path_factory.getbasetemp() / "binaries"
    shared.mkdir(exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "binaries").symlink_to(shared)
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


X = np.arange(100, dtype=np.float32)


def tuner(kernel: Any = tuned.sleeper, configs: Any = None, *args: Any, **settings: Any) -> carver.AutoTuner:
    chosen = configs if configs is not None else [{"pause_ms": 2.0}, {"pause_ms": 0.2}]
    return carver.AutoTuner.from_kernel(kernel, chosen, args or (100,)).set_profile_args(**{**QUICK, **settings})


def test_decorator_tunes_checks_and_remembers() -> None:
    calls = []

    def configs(n: int) -> Iterator[dict[str, int]]:
        calls.append(n)
        yield {"ways": 2}
        yield {"ways": 1}

    matmul = carver.autotune(configs=configs, ref_prog=twice, **QUICK)(scale)
    with carver.set_autotune_inputs(X):
        kernel = matmul(100)
    np.testing.assert_array_equal(kernel(X), 2 * X)
    assert matmul(100) is kernel
    assert calls == [100], "the second call takes the result that is in the process"
    result = matmul.result(100)
    assert result.config == {"ways": 1}
    assert result is matmul.result(100)
    assert [m.outcome for m in result.table] == ["ok", "ok"]
    assert result.latency_ms == min(m.median_ms for m in result.table if m.median_ms)
    assert result.ref_latency_ms is not None and result.ref_latency_ms > 0
    assert result.env["inputs"] == "set_autotune_inputs" and len(result.env["inputs_sha256"]) == 64


@pytest.mark.slow
def test_programmatic_setters_return_the_tuner() -> None:
    made = carver.AutoTuner.from_kernel(kernel=scale, configs=[{"ways": 1}])
    assert made.set_compile_args(out_idx=[-1], target="cpu") is made
    assert made.set_profile_args(ref_prog=twice, supply_type=TensorSupplyType.Integer) is made
    assert made.set_kernel_args(100) is made
    result = made.run(warmup=1, rep=3, timeout=60)
    assert result.kernel(X)[3] == 6
    assert result.table[0].rounds_ms and len(result.table[0].rounds_ms[0]) == 3


def test_tunables_given_by_the_caller_skip_tuning() -> None:
    matmul = carver.autotune(configs=[{"factor": 3}], **QUICK)(scale)
    np.testing.assert_array_equal(matmul(100, factor=5)(X), 5 * X)
    assert not Path(os.environ["CARVER_CACHE_DIR"], "tune").exists()


@pytest.mark.slow
def test_every_outcome_is_a_result_with_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")  # else a message is broken where the width of the times says
    ways = {"ok": 1, "wrong_result": 3, "timeout": 4, "crash": 5, "compile_error": 6}
    result = tuner(scale, [{"ways": w} for w in ways.values()], ref_prog=twice, timeout=8.0).run()
    assert [m.outcome for m in result.table] == list(ways)
    assert result.failures == {name: 1 for name in ways if name != "ok"}
    assert "wrong at 50 of 100 elements (50 %)" in result.table[1].message
    assert "killed" in result.table[2].message
    assert "SIGSEGV" in result.table[3].message
    assert "no such way" in result.table[4].message
    assert "1 compile error, 1 crash, 1 ok, 1 timeout, 1 wrong result" in result.summary()
    assert "no such way" in str(result)


def test_the_line_that_a_table_shows_of_a_message_does_not_hang_on_a_folder() -> None:
    def reason(message: str) -> str:
        names = "arch", "device", "host"
        return Measurement("run", "candidate", "crash", "op", {}, "k", "cuda", {}, *names, message).reason

    said = "#error no such way"
    for folder in ("/x", "/home/" + 200 * "x"):
        message = f"In file included\n{folder}/kernel.cpp:3:2: error: {said}\n  3 | more"
        assert reason(message) == f"kernel.cpp:3:2: error: {said}"
    assert reason("ran and/or hung\nsecond") == "ran and/or hung" and reason("") == ""
    assert len(reason(200 * "x")) == 160 and reason(200 * "x").endswith("…")


@pytest.mark.parametrize(
    ("kind", "outcome", "said"),
    [
        ("raise", "crash", "ZeroDivisionError: of course"),
        ("exit", "crash", "status 3"),
        ("kill", "crash", "SIGSEGV"),
        ("memory", "out_of_memory", "too big"),
        pytest.param("hang", "timeout", "killed", marks=pytest.mark.slow),
        ("wrong", "wrong_result", "wrong at"),
    ],
)
def test_python_code_that_fails(kind: str, outcome: str, said: str) -> None:
    made = carver.AutoTuner.from_kernel(tuned.trouble, [{"kind": kind}, {"kind": "none"}])
    with carver.set_autotune_inputs(X):
        result = made.run(ref_prog=twice, **QUICK)
    assert result.table[0].outcome == outcome and said in result.table[0].message
    assert result.config == {"kind": "none"}


def test_all_failed_names_the_counts_and_the_first_cause() -> None:
    said = r"no configuration of scale works.*1 compile error, 1 wrong result.*ways=3: output"
    with pytest.raises(RunError, match=said) as e:
        tuner(scale, [{"ways": 3}, {"ways": 6}], ref_prog=twice).run()
    assert Path(str(e.value).rpartition("log: ")[2]).is_file()


@pytest.mark.parametrize("how", ["importable", "closure", "inline"])
def test_python_callables_run_wherever_they_come_from(how: str) -> None:
    def closure(pause_ms: float) -> Any:
        return tuned.sleeper(0, pause_ms)

    kernel = closure if how == "closure" else tuned.sleeper
    assert import_path(tuned.sleeper) == "tuned:sleeper" and import_path(closure) is None
    assert import_path(scale.fn) == "tuned:scale"
    configs = [{"pause_ms": 30.0}, {"pause_ms": 0.1}]
    made = carver.AutoTuner.from_kernel(kernel, configs, () if how == "closure" else (100,))
    with carver.set_autotune_inputs(X):
        result = made.run(ref_prog=twice, isolate=how != "inline", **QUICK)
    assert result.config == {"pause_ms": 0.1}
    np.testing.assert_array_equal(result.kernel(X), 2 * X)


@pytest.mark.slow
def test_closures_that_hang_or_die_are_killed_too() -> None:
    def closure(kind: str) -> Any:
        return tuned.trouble(kind)

    with carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(closure, [{"kind": k} for k in ("hang", "kill", "raise", "none")])
        result = made.run(**QUICK)
    assert [m.outcome for m in result.table] == ["timeout", "crash", "crash", "ok"]
    assert 8 < result.seconds < tuned.HANGS_S


def test_a_forked_process_does_not_outlive_its_parent(tmp_path: Path) -> None:
    code = """
import os, sys, time
import numpy as np
import carver
def hangs(tile):
    def run(x):
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    return run
with carver.set_autotune_inputs(np.ones(3)):
    carver.AutoTuner.from_kernel(hangs, [{"tile": 1}]).run(timeout=600)
"""
    path = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", code, str(path)], start_new_session=True)
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    child = int(path.read_text())
    parent.kill()
    parent.wait(10)
    stat = Path(f"/proc/{child}/stat")
    while stat.exists() and stat.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert time.monotonic() < deadline


def test_a_function_that_works_on_arrays_itself() -> None:
    y = np.zeros_like(X)
    # a busy machine sleeps longer than it is asked to; which of the two was disturbed does not matter here
    configs, settings = [{"pause_ms": 20.0}, {"pause_ms": 0.1}], {**QUICK, "retakes": 0}
    work = carver.autotune(configs=configs, ref_prog=twice, **settings)(
        carver.jit(out_idx=[1])(tuned.direct)
    )
    work(X, y)
    np.testing.assert_array_equal(y, 2 * X)
    assert work.result(X, y).config == {"pause_ms": 0.1}
    made = carver.AutoTuner.from_kernel(tuned.direct, [{"pause_ms": 0.1}]).set_compile_args(out_idx=1)
    with pytest.raises(ConfigError, match=r"x, y of direct get a value neither.*set_autotune_inputs"):
        made.run()


def test_a_function_may_take_the_whole_config() -> None:
    def whole(config: dict[str, Any]) -> Any:
        return tuned.sleeper(0, config["pause"] / 10)

    with carver.set_autotune_inputs(X):
        result = carver.AutoTuner.from_kernel(whole, [{"pause": 30}, {"pause": 1}]).run(ref_prog=twice, **QUICK)
    assert result.config == {"pause": 1}


@pytest.mark.slow
def test_pre_hook_and_a_clock_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_LOG", str(tmp_path / "hook"))
    result = tuner(scale, [{"ways": 1}], pre_hook=tuned.logging_hook).run(rep=5, warmup=0)
    assert set((tmp_path / "hook").read_text().splitlines()) == {"['X', 'Y', 'config', 'ways'] {'ways': 1}"}
    assert result.table[0].ok
    assert tuner(scale, [{"ways": 1}], bench=tuned.fixed_bench).run().latency_ms == 7.0


@pytest.mark.slow
def test_slow_candidates_are_given_up() -> None:
    with carver.set_autotune_inputs(X):
        result = tuner(configs=[{"pause_ms": 0.1}, {"pause_ms": 5.0}], slow_factor=2.0, rep=40).run()
    fast, slow = result.table
    assert len(fast.samples_ms) == 40 and len(slow.samples_ms) <= 5
    assert "slower than the best" in slow.message and slow.median_ms and slow.median_ms > 4.9


@pytest.mark.slow
def test_a_slow_factor_without_limit_is_read_back() -> None:
    run_id = tuner(scale, [{"ways": 1}], slow_factor=math.inf).run().env["run_id"]
    with Records() as records:
        (run,) = (run for run in records.runs() if run.run_id == run_id)
    assert run.settings["slow_factor"] == math.inf


@pytest.mark.slow
def test_a_result_says_where_its_seconds_went(tmp_path: Path) -> None:
    result = tuner(scale, [{"ways": 1}, {"ways": 6}], ref_prog=twice).run()
    spent_s = result.env["spent_s"]
    assert list(spent_s) == ["setup", "compile", "check", "measure"] and min(spent_s.values()) > 0
    assert sum(spent_s.values()) == pytest.approx(result.seconds)
    assert ", measure " in Path(result.env["log"]).read_text()


@pytest.mark.slow
def test_the_log_is_in_the_runs_folder_and_printing_is_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = tuner(scale, [{"ways": 1}, {"ways": 6}]).run()
    assert capfd.readouterr().err == ""
    log = Path(result.env["log"])
    assert log.is_relative_to(tmp_path / "cache" / "tune-runs")
    assert "ways=6: compile_error" in log.read_text() and "scale: " in log.read_text()
    assert not list(tmp_path.glob("*.log"))
    monkeypatch.setenv("CARVER_PRINT_AUTOTUNING", "1")
    tuner(scale, [{"ways": 1}, {"ways": 6}]).run(fresh=True)
    assert "[1/2] ways=1: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("settings", "workers"),
    [
        ({}, 9), ({"CARVER_CPU_FRACTION": "0.5"}, 5), ({"CARVER_CPU_COUNT": "3"}, 3), ({"CARVER_CPU_COUNT": "30"}, 10),
        ({"CARVER_MAX_CPU": "4"}, 4), ({"CARVER_CPU_COUNT": "-1", "CARVER_MAX_CPU": "-1"}, 9),
        ({"CARVER_CPU_FRACTION": "0.01"}, 1), ({"CARVER_CPU_COUNT": "0.5", "CARVER_MAX_CPU": "0.5"}, 9),
    ],
)  # fmt: skip
def test_share_of_the_cpu(settings: dict[str, str], workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carver.run.built.cores_available", lambda: 10)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cpu_workers() == workers
    monkeypatch.setenv("CARVER_CPU_FRACTION", "2")
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        cpu_workers()
    monkeypatch.setenv("CARVER_CPU_COUNT", "inf")
    with pytest.raises(ConfigError, match="CARVER_CPU_COUNT must be a number, got 'inf'"):
        cpu_workers()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"warmup": -1}, "warmup must be a whole number of at least 0"), ({"rep": 0}, "rep must be"),
        ({"timeout": 0}, "timeout must be a time above 0"), ({"timeout": float("inf")}, "timeout must be"),
        ({"trials": 1.5}, "trials must be a whole"), ({"seconds": "x"}, "seconds must be a number"),
        ({"trials": 0}, "trials must be above 0"),
        ({"search": "ranked"}, "no search 'ranked'; did you mean 'rank'"), ({"slow_factor": 1}, "slow_factor"),
        ({"rtol": -1}, "rtol must be 0 or more"),
    ],
)  # fmt: skip
def test_bad_settings(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tuner(scale, [{"ways": 1}], **settings).run()


def test_a_setting_that_there_is_none_of_is_named() -> None:
    for call in (tuner().run, tuner().set_profile_args, partial(carver.autotune, scale, configs=[{"ways": 1}])):
        with pytest.raises(ConfigError, match="no setting 'warm_up'; did you mean 'warmup' or 'warm_cache'"):
            call(warm_up=3)


def test_profile_settings_are_not_compile_settings() -> None:
    with pytest.raises(TypeError, match="ref_prog"):
        tuner().set_compile_args(ref_prog=twice)  # type: ignore[call-arg]


def test_a_device_of_another_kind_is_refused() -> None:
    with carver.set_autotune_inputs(X), pytest.raises(ConfigError, match="tuned on cpu; 'cuda:0' is a device"):
        tuner().run(devices=["cpu", "cuda:0"])


@pytest.mark.slow
def test_several_devices_share_the_work() -> None:
    configs = [{"pause_ms": 1.0 + 40 * i} for i in range(4)]  # further apart than what a busy machine adds
    with carver.set_autotune_inputs(X):
        result = tuner(configs=configs, search="exhaustive").run(devices=["cpu", "cpu"])
    assert [m.config for m in result.table] == configs
    assert result.config == configs[0]


@pytest.mark.slow
def test_measurements_land_in_the_records() -> None:
    result = tuner(scale, [{"ways": 1}, {"ways": 3}], ref_prog=twice).run()
    with Records() as records:
        found = records.find(run_id=result.env["run_id"])
    assert [(m.kernel, m.backend) for m in found] == [("scale", "user")] * 2
    assert [m.outcome for m in found] == ["ok", "wrong_result"]
    assert found[0].problem == {"operator": "scale", "sizes": {"n": 100}}
    listed = CliRunner().invoke(main, ["records", "list"])
    assert listed.exit_code == 0 and "scale n=100" in listed.output and "wrong_result" in listed.output
    with Records() as records:
        assert list(records_cases(records.path)) == [], "no declaration describes them, so that nothing can rank them"


def test_defaults() -> None:
    s = Tuning()
    c = s.checker()
    assert (s.warmup, s.rep, c.rtol, c.atol, c.max_mismatched_ratio) == (25, 100, 1e-2, None, 0.01)
    assert s.supply_type is TensorSupplyType.Auto and s.search == "learn" and not s.skip_check


@pytest.mark.gpu
def test_two_gpus_share_the_work() -> None:
    from carver.run.cuda import device_count

    if device_count() < 2:
        pytest.skip("needs two GPUs")
    op = carver.MatmulTemplate(M=512, N=512, K=512).with_arch("cuda")
    made = carver.AutoTuner.from_template(op, topk=8)
    result = made.run(rep=20, devices=["cuda:0", "cuda:1"], search="exhaustive")
    assert {m.outcome for m in result.table} == {"ok"} and len(result.table) == 8
