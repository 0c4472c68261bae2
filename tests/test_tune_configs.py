"""What is tried: hints, dicts, spaces, baselines. CPU only but where marked."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tuned
from test_tune import X, cache, tuner  # noqa: F401 (the fixture)
from tuned import QUICK, scale

import carver
from carver.base.errors import ConfigError, RunError
from carver.tune import GEMM_GRID_288, SearchSpace
from carver.tune.candidates import expand, from_hint


def test_hints_speak_the_functions_words() -> None:
    op = carver.MatmulTemplate(M=1024, N=1024, K=1024).with_arch("h200")
    hint = op.recommend_hints(1)[0]
    assert hint.config["warps"] == 4
    words = ["block_M", "block_N", "block_K", "num_stages", "threads", "WARPS", "unknown"]
    assert from_hint(hint, words) == {
        "block_M": hint.block[0], "block_N": hint.block[1], "block_K": hint.rstep[0],
        "num_stages": hint.pipeline_stage, "threads": hint.launch.threads, "WARPS": 4,
    }  # fmt: skip


def test_threads_of_a_tilelang_function_are_those_that_compute() -> None:
    """TileLang adds the warps that only copy by itself."""
    hint = carver.MatmulTemplate(4096, 4096, 4096, trans_B=True).with_arch("h200").recommend_hints(1, "tilelang")[0]
    assert hint.launch.threads == hint.config["thread_num"] + 128
    for word in ("threads", "thread_num", "num_threads"):
        assert from_hint(hint, [word]) == {word: hint.config["thread_num"]}


def test_hints_must_say_something_and_equal_ones_count_once() -> None:
    op = carver.MatmulTemplate(M=1024, N=1024, K=1024).with_arch("h200")
    hints = op.recommend_hints(20)

    def some(n: int, block_M: int = 1) -> carver.Kernel:
        return scale.fn(n)

    made = carver.AutoTuner.from_kernel(carver.jit(out_idx=-1)(some), hints, (100,))
    plan = made.set_profile_args(**QUICK).plan()
    tiles = [e.config["block_M"] for e in plan.entries]
    assert tiles == list(dict.fromkeys(h.block[0] for h in hints)), "in rank order, each once"
    with pytest.raises(ConfigError, match=r"takes ways, delay, factor, of which a hint says nothing; it has block_m"):
        tuner(scale, hints).run()


@pytest.mark.parametrize(
    "configs", [[{"ways": 1}], SearchSpace(ways=[1]), lambda n: [{"ways": 1}], lambda: iter([{"ways": 1}])],
    ids=["list", "space", "callable", "generator"],
)  # fmt: skip
def test_an_option_of_the_function_is_not_a_tunable(configs: Any) -> None:
    """Choosing a tunable runs the function as it is; any other argument with a default is tuned for."""
    made = carver.autotune(configs=configs, **QUICK)(scale)
    assert made(64, ways=2)(X[:64]).shape == (64,)
    assert repr(made).endswith("0 tuned>")
    assert made(64, delay=1)(X[:64]).shape == (64,)
    assert repr(made).endswith("1 tuned>")


def test_a_template_that_takes_an_option() -> None:
    def kernel(n: int, wide: bool = False, block_m: int = 1) -> carver.Kernel:
        return scale.fn(n * n)

    def template(n: int, wide: bool) -> carver.MatmulTemplate:
        return carver.MatmulTemplate(n, 2 * n if wide else n, n, in_dtype="float32").with_arch("cpu")

    made = carver.autotune(template=template, topk=2, **QUICK)(carver.jit(out_idx=[-1])(kernel))
    made(16, wide=True)
    assert repr(made).endswith("1 tuned>")


@pytest.mark.slow
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
    assert {h.arch.name for h in asked} == {carver.CPU("auto").name}
    assert result.predicted_ms in [h.predicted_ms for h in asked]
    with pytest.raises(carver.CarverError, match="no device named"):
        carver.MatmulTemplate(M=8, N=8, K=8).recommend_hints()


@pytest.mark.slow
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
        (lambda n: None, ConfigError, "must be a list of dicts or hints, or what gives one; got None"),
    ],
)
def test_bad_candidates(configs: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        tuner(scale, configs).run()


@pytest.mark.slow
def test_missing_keys_are_named() -> None:
    def two(n: int, tile: int, ways: int) -> carver.Kernel:
        return scale.fn(n, ways)

    with pytest.raises(ConfigError, match=r"config 1 of two and config 0 do not both give 'tile'"):
        tuner(two, [{"ways": 1, "tile": 2}, {"ways": 1}]).run()
    def reserved(n: int, tile: Any = None, ways: Any = None) -> carver.Kernel:
        return scale.fn(n, ways)

    with pytest.raises(ConfigError, match=r"config 1 of reserved and config 0 do not both give 'tile'"):
        tuner(reserved, [{"ways": 1, "tile": 2}, {"ways": 1}]).run()
    said = tuner(carver.jit(out_idx=-1)(reserved), [{"ways": 1, "tile": 2}, {"ways": 1, "tile": None}])
    assert said.run().table[0].ok, "None is a value if it is given as one"
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
    for given in (5, "64"):
        with pytest.raises(ConfigError, match=f"tunable 'a' takes a list of values, got {given!r}"):
            SearchSpace(a=given)


def test_configs_of_other_kinds() -> None:
    import inspect

    class TritonConfig:
        def __init__(self, num_ctas: int = 1, maxnreg: int | None = None, pre_hook: Any = None) -> None:
            self.kwargs, self.num_warps, self.num_stages = {"BLOCK": 64}, 4, 2
            self.num_ctas, self.maxnreg, self.pre_hook, self.ir_override = num_ctas, maxnreg, pre_hook, None

    def fn(n: int, BLOCK: int, num_warps: int = 4, num_stages: int = 3) -> None: ...
    def clusters(n: int, BLOCK: int, num_warps: int, num_stages: int, num_ctas: int) -> None: ...

    def config(of: Any, **options: Any) -> Any:
        found = expand([TritonConfig(**options)], inspect.signature(of), {"n": 1}, lambda: carver.CPU("auto"), "fn")
        return found[0].config

    assert config(fn) == {"BLOCK": 64, "num_warps": 4, "num_stages": 2}
    assert config(clusters) == {"BLOCK": 64, "num_warps": 4, "num_stages": 2, "num_ctas": 1}
    hooked = expand([TritonConfig(pre_hook=print)], inspect.signature(fn), {"n": 1}, lambda: carver.CPU("auto"), "fn")
    assert hooked[0].config == config(fn) and hooked[0].hooks == (print, None)
    overridden = TritonConfig()
    overridden.ir_override = "kernel.ttir"  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="has an ir_override, which is lost here"):
        expand([overridden], inspect.signature(fn), {"n": 1}, lambda: carver.CPU("auto"), "fn")
    for options, said in (
        ({"num_ctas": 2}, "unknown key 'num_ctas'"), ({"maxnreg": 64}, "unknown key 'maxnreg'"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            config(fn, **options)


@pytest.mark.slow
def test_a_generator_serves_every_call() -> None:
    work = carver.autotune(configs=({"ways": w} for w in (1, 2)), **QUICK)(scale)
    assert [len(work.result(n).table) for n in (64, 32)] == [2, 2]
    made = tuner(scale, ({"ways": w} for w in (1, 2)))
    assert [len(made.run(fresh=fresh).table) for fresh in (False, True)] == [2, 2]


@pytest.mark.slow
def test_the_baseline_is_measured_and_compared() -> None:
    with carver.set_autotune_inputs(X):
        result = tuner(configs=[{"pause_ms": 0.1}], baseline={"pause_ms": 4.0}).run()
        again = tuner(configs=[{"pause_ms": 0.2}], baseline=True).run()
    assert result.baseline_ms and result.baseline_ms > 3.9
    assert result.speedup and result.speedup > 5
    assert again.baseline_ms and 1 < again.baseline_ms < 3, "the function's own default is 1 ms"
    with pytest.raises(ConfigError, match="takes the defaults of trouble; 'kind' has none"):
        carver.AutoTuner.from_kernel(tuned.trouble, [{"kind": "none"}]).run(baseline=True)


@pytest.mark.slow
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


@pytest.mark.parametrize("given", [True, False])
def test_python_code_on_the_arrays_of_hints_returns_its_output(given: bool) -> None:
    op = carver.MatmulTemplate(M=32, N=32, K=32, in_dtype="float32").with_arch("cpu")

    def product(block_m: int) -> Any:
        return lambda a, b: a @ b

    made = carver.AutoTuner.from_kernel(product, op.recommend_hints(2)).set_profile_args(**QUICK)
    if given:
        with carver.set_autotune_inputs(*(np.ones((32, 32), np.float32) for _ in "ab")):
            result = made.run(ref_prog=lambda a, b: a @ b)
    else:
        result = made.run(ref_prog=lambda a, b: a @ b)
    assert {m.outcome for m in result.table} == {"ok"}


@pytest.mark.slow
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


def test_an_argument_is_not_filled_from_what_a_hint_does_not_have() -> None:
    hint = carver.ElementwiseTemplate((4096, 4096)).with_arch("h200").recommend_hints(1)[0]
    assert from_hint(hint, ["BLOCK", "threads"]) == {"BLOCK": hint.config["block"], "threads": hint.launch.threads}
    for name in ("block_M", "block_N", "block_K", "num_stages", "split_k", "GROUP_M"):
        with pytest.raises(ConfigError, match=f"'{name}' cannot be filled: elementwise of kernel cuda has"):
            from_hint(hint, ["block", name])
        assert from_hint(hint, ["block", name], optional=[name]) == {"block": hint.config["block"]}

    def kernel(n: int, block_M: int) -> None: ...

    with pytest.raises(ConfigError, match="'block_M' cannot be filled"):
        expand([hint], inspect.signature(kernel), {"n": 4}, lambda: hint.arch, "kernel")
