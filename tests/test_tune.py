"""The tuner's workflows: both entry points, candidates, inputs, checks, outcomes, hooks. CPU only but where marked."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tuned
from click.testing import CliRunner
from tuned import QUICK, SCALE, scale, twice

import carver
from carver.cli import main
from carver.errors import CompileError, ConfigError, RunError
from carver.evaluate.tables import records_cases
from carver.records import Records
from carver.tune import GEMM_GRID_288, SearchSpace
from carver.tune.checks import Checker, OperatorReference
from carver.tune.configs import expand, from_hint
from carver.tune.inputs import Inputs, TensorSupplyType, from_user, supply
from carver.tune.jitted import cpu_workers
from carver.tune.plan import Settings
from carver.tune.runner import reference
from carver.tune.spec import Param


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


def test_programmatic_setters_return_the_tuner() -> None:
    made = carver.AutoTuner.from_kernel(kernel=scale, configs=[{"ways": 1}])
    assert made.set_compile_args(out_idx=[-1], target="cpu") is made
    assert made.set_profile_args(ref_prog=twice, supply_type=TensorSupplyType.Integer) is made
    assert made.set_kernel_args(100) is made
    result = made.run(warmup=1, rep=3, timeout=5)
    assert result.kernel(X)[3] == 6
    assert result.table[0].rounds_ms and len(result.table[0].rounds_ms[0]) == 3


def test_tunables_given_by_the_caller_skip_tuning() -> None:
    matmul = carver.autotune(configs=[{"factor": 3}], **QUICK)(scale)
    np.testing.assert_array_equal(matmul(100, factor=5)(X), 5 * X)
    assert not Path(os.environ["CARVER_CACHE_DIR"], "tune").exists()


def test_every_outcome_is_a_result_with_a_class() -> None:
    ways = {"ok": 1, "wrong_result": 3, "timeout": 4, "crash": 5, "compile_error": 6}
    result = tuner(scale, [{"ways": w} for w in ways.values()], ref_prog=twice, timeout=1.0).run()
    assert [m.outcome for m in result.table] == list(ways)
    assert result.failures == {name: 1 for name in ways if name != "ok"}
    assert "50 % of 100 elements differ" in result.table[1].message
    assert "killed" in result.table[2].message
    assert "SIGSEGV" in result.table[3].message
    assert "no such way" in result.table[4].message
    assert "1 compile error, 1 crash, 1 ok, 1 timeout, 1 wrong result" in result.summary()
    assert "no such way" in str(result)


@pytest.mark.parametrize(
    ("kind", "outcome", "said"),
    [
        ("raise", "crash", "ZeroDivisionError: of course"),
        ("exit", "crash", "status 3"),
        ("kill", "crash", "SIGSEGV"),
        ("memory", "out_of_memory", "too big"),
        ("hang", "timeout", "killed"),
        ("wrong", "wrong_result", "differ"),
    ],
)
def test_python_code_that_fails(kind: str, outcome: str, said: str) -> None:
    made = carver.AutoTuner.from_kernel(tuned.trouble, [{"kind": kind}, {"kind": "none"}])
    with carver.set_autotune_inputs(X):
        result = made.run(ref_prog=twice, **{**QUICK, "timeout": 0.7 if kind == "hang" else 5.0})
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
    assert reference(tuned.sleeper) == "tuned:sleeper" and reference(closure) is None
    assert reference(scale.fn) == "tuned:scale"
    configs = [{"pause_ms": 3.0}, {"pause_ms": 0.1}]
    made = carver.AutoTuner.from_kernel(kernel, configs, () if how == "closure" else (100,))
    with carver.set_autotune_inputs(X):
        result = made.run(ref_prog=twice, isolate=how != "inline", **QUICK)
    assert result.config == {"pause_ms": 0.1}
    np.testing.assert_array_equal(result.kernel(X), 2 * X)


def test_closures_that_hang_or_die_are_killed_too() -> None:
    def closure(kind: str) -> Any:
        return tuned.trouble(kind)

    with carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(closure, [{"kind": k} for k in ("hang", "kill", "raise", "none")])
        began = time.monotonic()
        result = made.run(**{**QUICK, "timeout": 0.7})
    assert [m.outcome for m in result.table] == ["timeout", "crash", "crash", "ok"]
    assert time.monotonic() - began < 20


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
    work = carver.autotune(configs=[{"pause_ms": 2.0}, {"pause_ms": 0.1}], ref_prog=twice, **QUICK)(
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


# candidates


def test_hints_speak_the_functions_words() -> None:
    op = carver.MatmulTemplate(M=1024, N=1024, K=1024).with_arch("h200")
    hint = op.recommend_hints(1)[0]
    assert hint.config["warps"] == 4
    words = ["block_M", "block_N", "block_K", "num_stages", "threads", "WARPS", "unknown"]
    assert from_hint(hint, words) == {
        "block_M": hint.block[0], "block_N": hint.block[1], "block_K": hint.rstep[0],
        "num_stages": hint.pipeline_stage, "threads": hint.launch.threads, "WARPS": 4,
    }  # fmt: skip


def test_hints_must_say_something_and_equal_ones_count_once() -> None:
    op = carver.MatmulTemplate(M=1024, N=1024, K=1024).with_arch("h200")
    hints = op.recommend_hints(20)

    def some(n: int, block_M: int = 1) -> carver.Kernel:
        return scale.fn(n)

    made = carver.AutoTuner.from_kernel(carver.jit(out_idx=-1)(some), hints, (100,))
    plan = made.plan(made.set_profile_args(**QUICK).settings())
    tiles = [e.config["block_M"] for e in plan.entries]
    assert tiles == list(dict.fromkeys(h.block[0] for h in hints)), "in rank order, each once"
    with pytest.raises(ConfigError, match=r"takes ways, delay, factor, of which a hint says nothing; it has block_m"):
        tuner(scale, hints).run()


def test_a_template_without_a_device_answers_for_the_tuners() -> None:
    asked = []

    def configs(n: int) -> Any:
        hints = carver.MatmulTemplate(M=n, N=n, K=n, in_dtype="float32").recommend_hints(topk=3)
        asked.extend(hints)
        return hints

    def kernel(n: int, block_m: int = 1) -> carver.Kernel:
        return scale.fn(n * n)

    made = carver.AutoTuner.from_kernel(carver.jit(out_idx=[-1], target="cpu")(kernel), configs, (32,))
    result = made.run(**QUICK)
    assert {h.arch for h in asked} == {carver.CPU("auto").name}
    assert result.predicted_ms in [h.predicted_ms for h in asked]
    with pytest.raises(carver.CarverError, match="no device named"):
        carver.MatmulTemplate(M=8, N=8, K=8).recommend_hints()


def test_carvers_own_kernels_from_a_template() -> None:
    op = carver.MatmulTemplate(M=48, N=48, K=48, in_dtype="float32").with_arch("cpu")
    result = op.tune(topk=3, **QUICK)
    assert [m.outcome for m in result.table] == ["ok"] * 3
    assert result.table[0].backend == "cpu" and result.table[0].hint is not None
    a, b = (np.random.default_rng(i).random((1, 48, 48), np.float32) for i in (0, 1))
    np.testing.assert_allclose(result.kernel(a, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("configs", "error", "said"),
    [
        ([], ConfigError, "no configurations to tune for scale: the list is empty"),
        (lambda n: [], ConfigError, "the callable returned empty"),
        (SearchSpace(ways=[1, 2]).where(lambda ways: ways > 5), ConfigError, "constraints refuse every combination"),
        ([{"way": 1}], ConfigError, "config 0 of scale has unknown key 'way'; did you mean 'ways'"),
        ([{"n": 1}], ConfigError, "config 0 of scale sets 'n', which the call fixes to 100"),
        ([3], ConfigError, "config 0 of scale must be a dict or a hint, got 3"),
        ({"ways": 1}, ConfigError, "must be a list of dicts or hints"),
        (lambda size: [], ConfigError, "configs of scale asks for 'size'"),
    ],
)
def test_bad_candidates(configs: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        tuner(scale, configs).run()


def test_missing_keys_are_named() -> None:
    def two(n: int, tile: int, ways: int) -> carver.Kernel:
        return scale.fn(n, ways)

    with pytest.raises(ConfigError, match=r"config 1 of two and config 0 do not both give 'tile'"):
        tuner(two, [{"ways": 1, "tile": 2}, {"ways": 1}]).run()
    with pytest.raises(ConfigError, match=r"tile of two get a value neither from the call nor from the configs"):
        tuner(two, [{"ways": 1}]).run()


def test_spaces() -> None:
    space = SearchSpace(a=[1, 2, 3], b=(True, False)).where(lambda a, b: a < 3 or b)
    assert list(space) == [{"a": a, "b": b} for a in (1, 2, 3) for b in (True, False) if a < 3 or b]
    assert len(space) == 5
    assert len(GEMM_GRID_288) == 3 * 3 * 2 * 4 * 2 * 2 == 288
    with pytest.raises(ConfigError, match="asks for 'c'"):
        space.where(lambda c: True)
    with pytest.raises(ConfigError, match="'a' has no values"):
        SearchSpace(a=[])


def test_configs_of_other_kinds() -> None:
    import inspect

    class TritonConfig:
        def __init__(self) -> None:
            self.kwargs, self.num_warps, self.num_stages = {"BLOCK": 64}, 4, 2

    def fn(n: int, BLOCK: int, num_warps: int = 4, num_stages: int = 3) -> None: ...

    found = expand([TritonConfig()], inspect.signature(fn), {"n": 1}, lambda: carver.CPU("auto"), "fn")
    assert found[0].config == {"BLOCK": 64, "num_warps": 4, "num_stages": 2}


def test_the_baseline_is_measured_and_compared() -> None:
    with carver.set_autotune_inputs(X):
        result = tuner(configs=[{"pause_ms": 0.1}], baseline={"pause_ms": 4.0}).run()
        again = tuner(configs=[{"pause_ms": 0.2}], baseline=True).run()
    assert result.baseline_ms and result.baseline_ms > 3.9
    assert result.speedup and result.speedup > 5
    assert again.baseline_ms and 1 < again.baseline_ms < 3, "the function's own default is 1 ms"
    with pytest.raises(ConfigError, match="takes the defaults of trouble; 'kind' has none"):
        carver.AutoTuner.from_kernel(tuned.trouble, [{"kind": "none"}]).run(baseline=True)


# inputs


def test_inputs_come_in_order_of_precedence() -> None:
    seen: list[Any] = []

    def supply_prog(signature: list[Param]) -> list[Any]:
        seen.extend(signature)
        return [X + 1]

    made = tuner(scale, [{"ways": 1}], supply_prog=supply_prog, supply_type="one", ref_prog=twice)
    assert made.run().env["inputs"] == "supply_prog"
    assert [(p.name, p.shape, p.dtype, p.is_output) for p in seen] == [
        ("X", (100,), "float32", False), ("Y", (100,), "float32", True),
    ]  # fmt: skip
    with carver.set_autotune_inputs([X]):
        assert made.run().env["inputs"] == "set_autotune_inputs"
    assert tuner(scale, [{"ways": 1}], supply_type="one").run().env["inputs"] == "supply_type One, seed 0"


@pytest.mark.parametrize(
    ("how", "low", "high", "values"),
    [
        ("Auto", -1, 1, None), ("Uniform", -1, 1, None), ("Integer", -2, 2, {-2, -1, 0, 1, 2}),
        ("Normal", -6, 6, None), ("Randn", -6, 6, None), ("Zero", 0, 0, {0}), ("One", 1, 1, {1}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_supply_types(how: str, low: float, high: float, values: set[int] | None, dtype: str) -> None:
    drawn = supply([Param("A", (50, 60), dtype)], TensorSupplyType.of(how), 1, "numpy").values[0].content
    assert drawn.shape == (50, 60) and str(drawn.dtype) == dtype
    assert low - 1.001 * (dtype == "int8" and how in ("Auto", "Uniform")) <= drawn.min() <= drawn.max() <= high + 1
    if values is not None:
        assert set(np.unique(drawn)) == values
    elif dtype == "float32":
        assert len(np.unique(drawn)) > 1000 and drawn.std() > 0.3
    again = supply([Param("A", (50, 60), dtype)], TensorSupplyType.of(how), 1, "numpy").values[0].content
    np.testing.assert_array_equal(drawn, again)


def test_symbolic_sizes_need_inputs_and_the_error_says_so() -> None:
    @carver.jit(out_idx=[-1])
    def dynamic(ways: int = 1) -> carver.Kernel:
        return carver.Kernel(
            SCALE, "scale", defines={"WAYS": ways, "DELAY": 1, "FACTOR": 2}, scalars=[100],
            params=[("X", ("m",), "float32"), ("Y", ("m",), "float32")],
        )  # fmt: skip

    made = carver.AutoTuner.from_kernel(dynamic, [{"ways": 1}]).set_profile_args(**QUICK)
    with pytest.raises(ConfigError, match=r"X has the symbolic size m.*set_autotune_inputs.*supply_prog"):
        made.run()
    with carver.set_autotune_inputs(X, np.zeros_like(X)):
        np.testing.assert_array_equal(made.run(ref_prog=twice).kernel(X, np.zeros_like(X)), 2 * X)


def test_arrays_must_be_known_and_fit() -> None:
    with pytest.raises(ConfigError, match=r"arrays of sleeper are not known.*set_autotune_inputs"):
        tuner().run()
    with pytest.raises(ConfigError, match=r"inputs take .* GB \(X alone"):
        tuner(scale, [{"ways": 1}], 1 << 44).run()
    with pytest.raises(ConfigError, match="no supply_type 'Unifrom'; did you mean 'Uniform'"):
        tuner(supply_type="Unifrom")
    with pytest.raises(ConfigError, match="at least one input"), carver.set_autotune_inputs():
        pass


def test_inputs_have_a_checksum() -> None:
    first, second = from_user([X, 3], ["a", "n"], ""), from_user([X + 1, 3], ["a", "n"], "")
    assert first.checksum == Inputs(first.values, "elsewhere").checksum != second.checksum


# checks


@pytest.mark.parametrize(
    ("ref", "outcome"),
    [
        (lambda x: 2 * x, "ok"),
        (lambda x: [2 * x], "ok"),
        (lambda x, y: bool((y == 2 * x).all()), "ok"),
        (lambda x, y: False, "wrong_result"),
        (lambda x, y: np.testing.assert_array_equal(y, 2 * x), "ok"),
        (lambda x, y: np.testing.assert_array_equal(y, 3 * x), "wrong_result"),
        (lambda x, y: 3 * x, "wrong_result"),
        (lambda x: 3 * x, "wrong_result"),
        (lambda x: (2 * x, x), "wrong_result"),
        (lambda x: 2 * x[:3], "wrong_result"),
    ],
)
def test_references_return_arrays_or_a_verdict_or_raise(ref: Any, outcome: str) -> None:
    checker = Checker(ref)
    checker.prepare(from_user([X], ["x"], ""), "cpu", 1)
    assert checker.check([2 * X])[0] == outcome


def test_a_verdict_needs_the_outputs() -> None:
    with pytest.raises(ConfigError, match="ref_prog returned True for the inputs alone"):
        Checker(lambda x: True).prepare(from_user([X], ["x"], ""), "cpu", 1)


@pytest.mark.parametrize(("wrong", "outcome"), [(0, "ok"), (1, "ok"), (2, "wrong_result")])
def test_one_percent_of_mismatches_is_allowed(wrong: int, outcome: str) -> None:
    checker = Checker(twice)
    checker.prepare(from_user([X], ["x"], ""), "cpu", 1)
    output = 2 * X
    output[:wrong] = -1
    assert checker.check([output])[0] == outcome
    output[:] = 2 * X
    output[5] = np.nan
    assert checker.check([output]) == (
        "wrong_result", "output 0: 1 of 100 elements are not finite, first at (5,): nan where 10 is right", np.inf
    )  # fmt: skip
    assert checker.check([2 * X + 0.0099])[0] == "ok", "atol 1e-2"
    assert checker.check([2 * X * 1.02 + 0.02])[0] == "wrong_result", "rtol 1e-2"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_carvers_own_reference_allows_what_rounding_explains(dtype: str) -> None:
    """And no mismatch at all, unless it is told to: a user's default tolerance would let all of these pass."""
    problem = carver.MatmulTemplate(M=24, N=40, K=64, in_dtype=dtype).with_arch("cpu_avx2").problem
    reference = OperatorReference(problem)
    params = [Param(t.name, t.shape(problem.sizes), dtype) for t in problem.statement.inputs]
    inputs = supply(params, TensorSupplyType.Auto, 0, "numpy")
    right = reference(*(v.content for v in inputs.values)).astype(np.float32)
    step = {"float32": 1e-4, "float16": 8e-3, "int8": 1.0}[dtype]

    def verdict(change: float, **given: float) -> str:
        checker = Settings(ref_prog=reference, **given).checker()
        checker.prepare(inputs, "cpu", 1)
        output = right.copy()
        output.flat[np.abs(right).argmin()] += change
        return checker.check([output])[0]

    assert verdict(0.0) == "ok" and verdict(step) == verdict(np.nan) == "wrong_result"
    assert verdict(step, max_mismatched_ratio=0.01) == "ok" and verdict(step, atol=1.01 * step) == "ok"


def test_a_tf32_operand_that_is_not_exact_is_allowed_for() -> None:
    problem = carver.MatmulTemplate(M=8, N=8, K=64, in_dtype="tf32", out_dtype="float32").with_arch("h200").problem
    params = [Param(t.name, t.shape(problem.sizes), "tf32") for t in problem.statement.inputs]
    exact = [v.content for v in supply(params, TensorSupplyType.Uniform, 0, "numpy").values]
    assert all((x.view(np.uint32) & 0x1FFF == 0).all() for x in exact)
    inexact = [x * np.float32(1 + 2**-12) for x in exact]
    value, allowed = OperatorReference(problem).bounded(*inexact)
    off = np.abs(OperatorReference(problem)(*exact) - value)
    assert (off <= allowed).all() and (off > OperatorReference(problem).bounded(*exact)[1]).any()


def test_manual_checks_see_the_outputs() -> None:
    seen: list[Any] = []

    def check(outputs: list[Any], right: list[Any]) -> None:
        seen.append((outputs[0][3], right[0][3]))
        assert outputs[0][3] == 6, "not six"

    configs = [{"factor": 2}, {"factor": 3}]
    result = tuner(scale, configs, ref_prog=twice, manual_check_prog=check, supply_type="one").run(skip_check=True)
    assert [m.outcome for m in result.table] == ["ok", "ok"] and not result.env["checked"] and not seen
    with carver.set_autotune_inputs(X):
        result = tuner(scale, [{"factor": 2}, {"factor": 3}], ref_prog=twice, manual_check_prog=check).run()
    assert [m.outcome for m in result.table] == ["ok", "wrong_result"]
    assert seen == [(6, 6), (9, 6), (9, 6)], "a wrong one is checked once more, on inputs loaded anew"
    assert "not six" in result.table[1].message


# hooks


def test_reset_to_zero_and_restore_value() -> None:
    y = np.full(100, 5, np.float32)
    made = carver.AutoTuner.from_kernel(tuned.accumulate, [{"pause_ms": 0.1}]).set_compile_args(out_idx=1)
    made.set_profile_args(**QUICK)
    with carver.set_autotune_inputs(X, y):
        with pytest.raises(RunError, match="1 wrong result"):
            made.run(ref_prog=lambda x: x + 5)
        zeroed = made.run(ref_prog=lambda x: x, reset_to_zero=["y"])
        restored = made.run(ref_prog=lambda x, y: x + y, restore_value=[1])
        with pytest.raises(ConfigError, match="no argument 'z'; the kernel's are x, y"):
            made.run(reset_to_zero=["z"])
    assert zeroed.config == restored.config
    np.testing.assert_array_equal(y, 5), "the caller's array is never touched"


def test_restore_value_of_a_compiled_kernel() -> None:
    source = "void add(const float *X, float *Y, int n) {\n for (int i = 0; i < n; i++) Y[i] += X[i];\n}\n"
    kernel = carver.Kernel(source, "add", scalars=[100], params=[("X", (100,), "float32"), ("Y", (100,), "float32")])

    @carver.jit(out_idx=[-1])
    def add(tile: int = 0) -> carver.Kernel:
        return kernel

    made = carver.AutoTuner.from_kernel(add, [{"tile": 1}]).set_profile_args(**QUICK)
    with carver.set_autotune_inputs(X, np.full(100, 5, np.float32)):
        assert made.run(ref_prog=lambda x, y: x + y, restore_value=["Y"]).table[0].ok
        assert made.run(ref_prog=lambda x: x, reset_to_zero=["Y"]).table[0].ok
        with pytest.raises(RunError, match="wrong result"):
            made.run(ref_prog=lambda x: x)


def test_pre_hook_and_a_clock_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_LOG", str(tmp_path / "hook"))
    result = tuner(scale, [{"ways": 1}], pre_hook=tuned.logging_hook).run(rep=5, warmup=0)
    assert set((tmp_path / "hook").read_text().splitlines()) == {"['X', 'Y', 'config'] {'ways': 1}"}
    assert result.table[0].ok
    assert tuner(scale, [{"ways": 1}], bench=tuned.fixed_bench).run().latency_ms == 7.0


# compiling, logging, settings


def test_par_compile_keeps_the_order_and_names_the_config() -> None:
    kernels = scale.par_compile([{"n": 100, "factor": f} for f in (5, 3, 4)] + [(100, 1, 0, 7)], num_workers=2)
    assert [k(X)[1] for k in kernels] == [5, 3, 4, 7]
    with pytest.raises(CompileError, match=r"(?s)config 1 of scale, \{'n': 100, 'ways': 9\}.*no such way"):
        scale.par_compile([{"n": 100}, {"n": 100, "ways": 9}])
    assert scale.par_compile([{"n": 100, "ways": 9}, {"n": 100}], ignore_error=True)[0] is None


def test_slow_candidates_are_given_up() -> None:
    with carver.set_autotune_inputs(X):
        result = tuner(configs=[{"pause_ms": 0.1}, {"pause_ms": 5.0}], slow_factor=2.0, rep=40).run()
    fast, slow = result.table
    assert len(fast.samples_ms) == 40 and len(slow.samples_ms) == 5
    assert "slower than the best" in slow.message and slow.median_ms and slow.median_ms > 4.9


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
        ({"CARVER_CPU_FRACTION": "0.01"}, 1),
    ],
)  # fmt: skip
def test_share_of_the_cpu(settings: dict[str, str], workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carver.tune.jitted.cores_available", lambda: 10)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cpu_workers() == workers
    monkeypatch.setenv("CARVER_CPU_FRACTION", "2")
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        cpu_workers()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"warmup": -1}, "warmup must be a whole number of runs"), ({"rep": 0}, "rep must be"),
        ({"timeout": 0}, "timeout must be a time above 0"), ({"trials": 0}, "trials must be above 0"),
        ({"search": "ranked"}, "no search 'ranked'; did you mean 'rank'"), ({"slow_factor": 1}, "slow_factor"),
        ({"search": "random", "early_stop": True}, "early_stop belongs to the search 'rank'"),
        ({"early_stop": True}, "no candidate has a prediction"), ({"rtol": -1}, "rtol must be 0 or more"),
    ],
)  # fmt: skip
def test_bad_settings(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tuner(scale, [{"ways": 1}], **settings).run()


def test_profile_settings_are_not_compile_settings() -> None:
    with pytest.raises(TypeError, match="ref_prog"):
        tuner().set_compile_args(ref_prog=twice)  # type: ignore[call-arg]


def test_several_devices_share_the_work() -> None:
    configs = [{"pause_ms": 1.0 + i} for i in range(4)]
    with carver.set_autotune_inputs(X):
        result = tuner(configs=configs, search="exhaustive").run(devices=["cpu", "cpu"])
    assert [m.config for m in result.table] == configs
    assert result.config == configs[0]


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


@pytest.mark.gpu
def test_a_cuda_kernel_by_its_text() -> None:
    source = """
extern "C" __global__ void scale(const float *X, float *Y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) Y[i] = 2.0f * X[i];
}
"""

    @carver.jit(out_idx=[-1])
    def double(n: int, threads: int = 128) -> carver.Kernel:
        return carver.Kernel(
            source, "scale", grid=-(-n // threads), block=(threads, 1), scalars=[n],
            params=[("X", (n,), "float32"), ("Y", (n,), "float32")],
        )  # fmt: skip

    made = carver.AutoTuner.from_kernel(double, [{"threads": t} for t in (32, 256, 2048)], (1 << 20,))
    result = made.run(ref_prog=lambda x: 2 * x, rep=20)
    assert [m.outcome for m in result.table] == ["ok", "ok", "does_not_fit"]


@pytest.mark.gpu
def test_carvers_own_cuda_kernels() -> None:
    op = carver.MatmulTemplate(M=512, N=512, K=512).with_arch("cuda")
    result = carver.AutoTuner.from_template(op, topk=4).run(rep=20)
    assert {m.outcome for m in result.table} == {"ok"}


GEMM = """
void gemm(const float *A, const float *B, float *C) {
    for (int m = 0; m < M; m += BLOCK_M)
        for (int i = m; i < M && i < m + BLOCK_M; i++)
            for (int j = 0; j < N; j++) {
                float sum = 0;
                for (int k = 0; k < K; k++) sum += A[i * K + k] * B[k * N + j];
                C[i * N + j] = sum;
            }
}
"""


def test_hints_inputs_and_a_source_file_without_further_ado(tmp_path: Path) -> None:
    """The arrays are those of the hints' problem, so that the output can be made for the caller."""
    (tmp_path / "my_gemm.c").write_text(GEMM)

    @carver.autotune(
        configs=lambda M, N, K: carver.MatmulTemplate(M=M, N=N, K=K, in_dtype="float32").recommend_hints(topk=3),
        warmup=2, rep=5, timeout=60, ref_prog=lambda A, B: A @ B,
    )  # fmt: skip
    @carver.jit(out_idx=[-1], target="cpu")
    def matmul(
        M: int, N: int, K: int, block_M: int = 128, block_N: int = 128, block_K: int = 32, num_stages: int = 3,
        threads: int = 128,
    ) -> carver.Kernel:  # fmt: skip
        return carver.Kernel(
            source=tmp_path / "my_gemm.c", entry="gemm", grid=-(-M // block_M), block=threads, shared_bytes=0,
            defines={"M": M, "N": N, "K": K, "BLOCK_M": block_M},
        )  # fmt: skip

    a, b = (np.random.default_rng(i).random((40, 40), np.float32) for i in (0, 1))
    with carver.set_autotune_inputs(a, b):
        kernel = matmul(40, 40, 40)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    result = matmul.result(40, 40, 40)
    assert [p.name for p in kernel.params] == ["A", "B", "C"]
    assert result.config.keys() <= {"block_M", "block_N", "block_K", "num_stages", "threads"}
    assert all(m.predicted_ms for m in result.table) and result.env["checked"]
    with pytest.raises(RunError, match=r"takes A, B, C \(outputs, which may be left out: C\); got 1 arrays"):
        kernel(a)


def test_a_function_that_refuses_a_config_costs_that_config_only() -> None:
    def choosy(n: int, ways: int) -> carver.Kernel:
        if ways == 7:
            raise ValueError("seven is out of the question")
        return scale.fn(n, ways)

    result = tuner(choosy, [{"ways": 7}, {"ways": 1}]).set_compile_args(out_idx=[-1]).run()
    assert [(m.outcome, m.message) for m in result.table] == [
        ("does_not_fit", "choosy(ways=7) raised ValueError: seven is out of the question"), ("ok", ""),
    ]  # fmt: skip
    with pytest.raises(RunError, match=r"choosy fails for every config; the first: choosy\(ways=7\)"):
        tuner(choosy, [{"ways": 7}]).run()


def test_no_gpu_is_said_before_anything_is_compiled() -> None:
    from carver.device.cuda import device_count

    if device_count():
        pytest.skip("this machine has one")
    with pytest.raises(carver.CarverError, match="no NVIDIA GPU"):
        tuner(lambda n, threads: carver.Kernel("__global__\n", "f", block=threads), [{"threads": 32}]).run()
    with pytest.raises(ConfigError, match="target 'cuda' cannot run a kernel for 'cpu'"):
        tuner(scale, [{"ways": 1}]).set_compile_args(target="cuda").jit(100)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source": 3}, "source must be a path, source text or a Triton function, got 3"),
        ({"source": "x.cu"}, "needs entry="),
        ({"source": "none.c", "entry": "f"}, "is no file; give the path"),
        ({"entry": "f", "grid": 0}, "grid must be one to three whole numbers above 0, got 0"),
        ({"entry": "f", "block": (1, 2, 3, 4)}, r"block must be one to three whole numbers above 0"),
        ({"entry": "f", "scalars": ["n"]}, "scalar must be an int of 32 bits, a float or a NumPy scalar, got 'n'"),
        ({"entry": "f", "scalars": [2**40]}, r"use numpy.int64"),
        ({"entry": "f", "defines": {"N": [1]}}, r"macro N must be a number or text, got \[1\]"),
    ],
)
def test_bad_kernels(options: dict[str, Any], said: str) -> None:
    with pytest.raises(carver.CarverError, match=said):
        carver.Kernel(**{"source": SCALE, **options}).program([Param("X", (1,), "float32")], carver.CPU("auto"))


def test_what_a_device_cannot_launch_does_not_fit() -> None:
    arch, params = carver.load_arch("h200"), [Param("X", (1,), "float32")]
    text = "__global__\n"
    call = carver.Kernel(text, "f", block=(32, 32), shared_bytes=232448).program(params, arch).calls[0]
    assert call.block == (32, 32, 1)
    with pytest.raises(ConfigError, match=r"f asks for 2048 threads a block; NVIDIA H200.* has 1024"):
        carver.Kernel(text, "f", block=(32, 64)).program(params, arch)
    with pytest.raises(ConfigError, match="f asks for 232449 bytes of shared memory"):
        carver.Kernel(text, "f", shared_bytes=232449).program(params, arch)


def test_scalars_as_c_sees_them() -> None:
    source = """
#include <stdint.h>
void f(double *Y, int a, float b, int64_t c, double d, uint8_t e) { Y[0] = a; Y[1] = b; Y[2] = c; Y[3] = d; Y[4] = e;
}
"""
    given = [-3, 0.5, np.int64(2**40), np.float64(1 / 3), np.uint8(200)]
    kernel = carver.jit(out_idx=0)(
        lambda: carver.Kernel(source, "f", scalars=given, params=[("Y", (5,), "float64")])
    )()
    np.testing.assert_array_equal(kernel(), [-3, 0.5, 2**40, 1 / 3, 200])


class FakeTriton:
    """Launches as a Triton function does: `fn[grid](arrays, scalars, constants)`."""

    def run(self) -> None: ...

    def __getitem__(self, grid: Any) -> Any:
        def launch(x: Any, y: Any, n: int, *, BLOCK: int, num_warps: int) -> None:
            assert grid({"BLOCK": BLOCK}) == (-(-n // BLOCK),) and num_warps == 4
            y[:] = 2 * x

        return launch


def test_triton_functions_are_launched_with_their_constants() -> None:
    kernel = carver.Kernel(
        FakeTriton(), grid=lambda meta: (-(-100 // meta["BLOCK"]),), scalars=[100],
        defines={"BLOCK": 32, "num_warps": 4},
    )  # fmt: skip
    assert kernel.is_triton and kernel.kind == "cuda"
    y = np.zeros_like(X)
    kernel.launcher()(X, y)
    np.testing.assert_array_equal(y, 2 * X)


def test_flags_may_depend_on_tunables() -> None:
    source = "void f(float *Y) {\n Y[0] = EXTRA;\n}\n"

    @carver.jit(out_idx=0)
    def kernel(extra: int = 1) -> carver.Kernel:
        return carver.Kernel(source, "f", params=[("Y", (1,), "float32")], flags=[f"-DEXTRA={extra}"])

    assert [kernel(extra=e)()[0] for e in (3, 4)] == [3, 4]


def test_temporary_files_go_where_they_are_told_and_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARVER_TMP_DIR", str(tmp_path / "scratch"))
    seen: list[list[str]] = []

    def ref_prog(x: Any) -> Any:
        seen.append([p.name for p in (tmp_path / "scratch").iterdir()])
        return 2 * x

    tuner(scale, [{"ways": 1}], ref_prog=ref_prog).run()
    assert seen and all(len(names) == 1 for names in seen)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_reference_runs_before_the_candidates_and_not_for_each() -> None:
    calls = []

    def ref_prog(x: Any) -> Any:
        calls.append(time.monotonic())
        return 2 * x

    tuner(scale, [{"ways": 1, "delay": d} for d in range(9)], ref_prog=ref_prog).run()
    assert 1 <= len(calls) <= 5, "some more to time it"


def test_defaults() -> None:
    s = Settings()
    c = s.checker()
    assert (s.warmup, s.rep, c.rtol, c.atol, c.max_mismatched_ratio) == (25, 100, 1e-2, 1e-2, 0.01)
    assert s.supply_type is TensorSupplyType.Auto and s.search == "rank" and not s.early_stop and not s.skip_check


def test_arguments_and_configs_that_are_not_plain() -> None:
    """Hints and tuples arrive as they were; an argument that JSON does not know is inherited by a forked process."""
    op = carver.MatmulTemplate(M=32, N=32, K=32, in_dtype="float32").with_arch("cpu")

    def closure(dtype: Any, hint: carver.Hint) -> Any:
        assert isinstance(hint, carver.Hint) and hint.config and dtype is np.float32
        return tuned.sleeper(0, 0.1)

    def tuples(block: tuple[int, int]) -> Any:
        assert block == (1, 2)
        return tuned.sleeper(0, 0.1)

    def arrays_of(thing: Any) -> Any:
        return tuned.sleeper(0, 0.1)

    with carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(closure, op.recommend_hints(2), (np.float32,))
        assert [m.outcome for m in made.run(**QUICK).table] == ["ok", "ok"]
        assert carver.AutoTuner.from_kernel(tuples, [{"block": (1, 2)}]).run(**QUICK).table[0].ok
        with pytest.raises(RunError, match="a config's value must be a number, text or a tuple of them"):
            carver.AutoTuner.from_kernel(arrays_of, [{"thing": {1: 2}}]).run(**QUICK)


@pytest.mark.gpu
def test_a_triton_function() -> None:
    torch, tuned_triton = pytest.importorskip("torch"), pytest.importorskip("tuned_triton")
    x = torch.rand(1 << 20, device="cuda")
    y = torch.empty_like(x)
    made = carver.AutoTuner.from_kernel(
        tuned_triton.double, [{"BLOCK": b, "num_warps": w} for b in (256, 1024) for w in (2, 4)], (1 << 20,)
    )
    with carver.set_autotune_inputs(x, y):
        result = made.run(ref_prog=lambda x: 2 * x, rep=20)
    assert {m.outcome for m in result.table} == {"ok"}
    result.kernel(x, y)
    assert torch.equal(y, 2 * x)


@pytest.mark.gpu
def test_two_gpus_share_the_work() -> None:
    from carver.device.cuda import device_count

    if device_count() < 2:
        pytest.skip("needs two GPUs")
    op = carver.MatmulTemplate(M=512, N=512, K=512).with_arch("cuda")
    made = carver.AutoTuner.from_template(op, topk=8)
    result = made.run(rep=20, devices=["cuda:0", "cuda:1"], search="exhaustive")
    assert {m.outcome for m in result.table} == {"ok"} and len(result.table) == 8


def test_launches_travel_as_json_and_reach_the_driver_as_they_are() -> None:
    import json

    from carver.device.cuda import _letter, _value
    from carver.trial import program_from_dict, program_to_dict

    kernel = carver.Kernel(
        "__global__\n", "f", grid=(4, 2), block=(32, 2), shared_bytes=512, scalars=[7, 0.5, np.int64(9)],
        defines={"FAST": True, "N": 3}, isa="sm_90a",
    )  # fmt: skip
    program = kernel.program([Param(t, (8,), "float16") for t in "XY"], carver.load_arch("h200"))
    plain = program_to_dict(program)
    assert program_to_dict(program_from_dict(json.loads(json.dumps(plain)))) == plain
    (call,) = program.calls
    assert (call.grid, call.block, call.dynamic_smem_bytes) == ((4, 2, 1), (32, 2, 1), 512)
    assert dict(program.source.defines) == {"FAST": "1", "N": "3"} and program.source.isa == "sm_90a"
    assert "".join(map(_letter, call.args)) == "PPifq"
    assert [_value(a, {"X": 100, "Y": 200}) for a in call.args] == [100, 200, 7, 0.5, 9]
    assert [_letter(a) for a in (None, 5, "X")] == ["P", "q", "P"]
