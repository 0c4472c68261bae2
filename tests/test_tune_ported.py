"""What code for other tuners expects: runtime scalars, symbolic sizes, optional arrays, hooks, names."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tuned
from test_tune import X, cache, tuner  # noqa: F401 (the fixture)
from tuned import QUICK

import carver
from carver.base.errors import ConfigError, RunError
from carver.base.folders import shipped
from carver.run import cuda
from carver.run.device import CpuDevice
from carver.run.worker import Worker
from carver.tune.cache import AutotuneResult
from carver.tune.keys import call_key

AXPY = """
#include <stdint.h>
void axpy(const float *X, const float *Y, float *Z, float alpha, int n) {
    for (int i = 0; i < n; i++) Z[i] = alpha * X[i] + (Y ? Y[i] : 0.0f) + 0 * WAYS;
}
"""
PARAMS = [("X", ("n",), "float32"), ("Y", ("n",), "float32"), ("Z", ("n",), "float32"), ("alpha", None, "float32")]


@carver.jit
def axpy(n: Any, ways: int = 1) -> carver.Kernel:
    """Z = alpha X + Y for any n; Y may be left out."""
    return carver.Kernel(AXPY, "axpy", grid=f"ceil({n}, 8)", defines={"WAYS": ways}, scalars=["n"], params=PARAMS)


CONFIGS = [{"ways": 1}, {"ways": 2}]
Y = np.ones(100, np.float32)


def z(n: int = 100) -> Any:
    return np.zeros(n, np.float32)


def expected(x: Any, y: Any, alpha: float) -> Any:
    return alpha * x + (0 if y is None else y)


@pytest.mark.slow
def test_numbers_of_the_call_are_passed_by_value() -> None:
    work = carver.autotune(configs=CONFIGS, ref_prog=expected, **QUICK)(axpy)
    with carver.set_autotune_inputs(X, Y, 0.5):
        kernel = work("n")
    assert [m.outcome for m in work.result("n").table] == ["ok", "ok"]
    for alpha in (0.5, 2.0, 3, np.float32(4)):
        np.testing.assert_array_equal(kernel(X, Y, z(), alpha), alpha * X + Y)
    with pytest.raises(RunError, match="alpha is passed by value as float32; got a ndarray"):
        kernel(X, Y, z(), X)


@pytest.mark.slow
def test_numbers_without_a_description_are_what_c_takes_them_for() -> None:
    source = AXPY.replace("alpha, int n", "alpha, int n, double beta").replace("0 * WAYS", "0 * WAYS + beta")

    def plain(ways: int) -> carver.Kernel:
        return carver.Kernel(source, "axpy", defines={"WAYS": ways})

    with carver.set_autotune_inputs(X, Y, z(), 0.5, 100, np.float64(2)):
        result = carver.AutoTuner.from_kernel(plain, CONFIGS).set_compile_args(out_idx=2).run(**QUICK)
    np.testing.assert_array_equal(result.kernel(X, Y, z(), 3.0, 100, np.float64(7)), 3 * X + Y + 7)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "int16", "uint8"])
def test_a_number_that_its_type_does_not_hold_is_refused(dtype: str) -> None:
    """And not cut: a kernel for 2^32 + 7 elements would compute 7."""
    source = f"#include <stdint.h>\nvoid f(int64_t *out, {dtype}_t n) {{ out[0] = n; }}"
    params = [("out", (1,), "int64", True), ("n", None, dtype)]
    kernel, out = carver.jit(out_idx=0)(lambda: carver.Kernel(source, "f", params=params))(), np.zeros(1, np.int64)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    for _ in range(2):  # at first, and as further calls are
        for number in (least, 7, most, np.dtype(dtype).type(most)):
            kernel(out, number)
            assert out[0] == number
        for number in (least - 1, most + 1, 2**70, 0.5, math.nan):
            with pytest.raises(RunError, match=f"n is passed by value as {dtype}, {least} to {most}; got "):
                kernel(out, number)
    with carver.set_autotune_inputs(out, 2**32 + 7), pytest.raises(RunError, match=r"an int of 32 bits"):
        carver.AutoTuner.from_kernel(lambda ways: carver.Kernel(source, "f"), CONFIGS).run(**QUICK)


def test_a_number_cannot_be_drawn() -> None:
    def plain(ways: int) -> carver.Kernel:
        return carver.Kernel(AXPY, "axpy", defines={"WAYS": ways}, scalars=[8],
                             params=[(n, s and (8,), d) for n, s, d in PARAMS])  # fmt: skip

    made = carver.AutoTuner.from_kernel(plain, CONFIGS)
    with pytest.raises(ConfigError, match=r"alpha is a number that each call gives, .*set_autotune_inputs"):
        made.run(**QUICK)
    with pytest.raises(ConfigError, match="s is passed by value, which float16 cannot be; these can: int32, "):
        carver.Param("s", None, "float16")
    given = carver.set_autotune_inputs(X[:8], 0.5, z(8), 0.5)
    with given, pytest.raises(ConfigError, match=r"Y is an array by .*float"):
        made.run(**QUICK)


@pytest.mark.slow
def test_one_tuned_kernel_takes_any_size(tmp_path: Path) -> None:
    work = carver.autotune(configs=CONFIGS, ref_prog=expected, **QUICK)(axpy)
    with carver.set_autotune_inputs(X, Y, 0.5):
        kernel = work("n")

    def right(kernel: Any) -> None:
        for n in (100, 7, 1000, 7, 100):
            x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
            np.testing.assert_array_equal(kernel(x, y, z(n), 2.0), 2 * x + y)
            assert kernel.program([p.at({"n": n}) for p in kernel.params]).calls[0].grid == (-(-n // 8), 1, 1)

    right(kernel)
    work.result("n").save(tmp_path / "saved")
    right(AutotuneResult.load(tmp_path / "saved").kernel)
    with pytest.raises(ConfigError, match=r"Y is float32\[n\] by params, where n is 100; given is float32\[50\]"):
        kernel(X, Y[:50], z(), 1.0)
    again = carver.autotune(configs=CONFIGS, ref_prog=expected, **QUICK)(axpy)
    with carver.set_autotune_inputs(X, Y, 0.5):
        right(again("n"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": "ceil(m, 8)"}, r"grid 'ceil\(m, 8\)': .*m"), ({"scalars": ["n +"]}, "does not parse"),
        ({"grid": "n - n"}, "grid must be one to three whole numbers above 0"),
        ({"scalars": ["n * n * n"]}, "a scalar must be an int of 32 bits"),
    ],
)  # fmt: skip
def test_expressions_of_sizes_that_are_wrong(options: dict[str, Any], said: str) -> None:
    kernel = carver.Kernel(**{"source": AXPY, "entry": "axpy", "params": PARAMS, **options})
    params = [p.at({"n": 10000}) for p in kernel.params]  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match=said):
        kernel.program(params, carver.CPU("auto"))


def test_a_scalar_of_64_bits_from_a_size() -> None:
    kernel = carver.Kernel(AXPY, "axpy", scalars=["int64(n * n)", "n", 2], params=PARAMS)
    (call,) = kernel.program([p.at({"n": 10**6}) for p in kernel.params], carver.CPU("auto")).calls  # type: ignore[union-attr]
    assert [(a.kind, a.value) for a in call.args[3:]] == [("f", "alpha"), ("q", 10**12), ("i", 10**6), ("i", 2)]  # type: ignore[union-attr]


@pytest.mark.slow
def test_arrays_may_be_left_out() -> None:
    work = carver.autotune(
        configs=CONFIGS, ref_prog=expected, reset_to_zero=["Y", "Z"], restore_value=["Y"], **QUICK
    )(axpy)  # fmt: skip
    with carver.set_autotune_inputs(X, None, z(), 0.5):
        kernel = work("n")
    assert [m.outcome for m in work.result("n").table] == ["ok", "ok"]
    np.testing.assert_array_equal(kernel(X, None, z(), 2.0), 2 * X)
    np.testing.assert_array_equal(kernel(X, Y, z(), 2.0), 2 * X + Y)
    np.testing.assert_array_equal(kernel(X, None, z(), 2.0), 2 * X)


def optional(x: Any, bias: Any, y: Any, *, pause_ms: float) -> None:
    y[:] = 2 * x if bias is None else 2 * x + bias


@pytest.mark.slow
def test_python_code_takes_none_where_arrays_are_reset_and_restored() -> None:
    with carver.set_autotune_inputs(X, None, z()):
        result = carver.AutoTuner.from_kernel(optional, [{"pause_ms": 1.0}, {"pause_ms": 2.0}]).set_profile_args(
            ref_prog=lambda x, bias, y: 2 * x, reset_to_zero=["bias"], restore_value=["bias", "y"], **QUICK
        ).set_compile_args(out_idx=[2]).run()  # fmt: skip
    assert [m.outcome for m in result.table] == ["ok", "ok"]


@pytest.mark.slow
def test_calls_that_are_repeated_are_looked_at_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way takes nothing that the first call would refuse."""
    kernel = tuner(tuned.scale, [{"ways": 1}]).run().kernel
    first = kernel(X)
    monkeypatch.setattr(type(kernel), "_first", lambda *_: pytest.fail("looked at anew"))
    np.testing.assert_array_equal(kernel(X + 1), 2 * X + 2)
    np.testing.assert_array_equal(kernel(X, first), 2 * X)
    monkeypatch.undo()
    y = z()
    y.flags.writeable = False
    for arrays, said in [
        ((X[:50],), "must be a contiguous float32 array"), ((X.astype(np.float64),), "got float64"),
        ((np.arange(200, dtype=np.float32)[::2],), "not contiguous"), ((X, y), "may not be written to"),
        ((X, z(), z()), "got 3 arguments"), ((X.tolist(),), "is a list"),
    ]:  # fmt: skip
        with pytest.raises(RunError, match=said):
            kernel(*arrays)
    frozen = X.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(kernel(frozen), 2 * X)


@pytest.mark.slow
def test_a_repeated_call_finds_its_kernel_by_types_and_values() -> None:
    work = carver.autotune(configs=CONFIGS, skip_check=True, **QUICK)(tuned.scale)
    assert work(100) is work(100) is work(n=100) is not work(101)

    def which(n: Any, ways: int = 1) -> carver.Kernel:
        return tuned.scale.fn(int(n) + 3 * isinstance(n, bool) + 7 * isinstance(n, float), 1)

    odd = carver.autotune(configs=CONFIGS, skip_check=True, **QUICK)(carver.jit(out_idx=[-1])(which))
    sizes = [odd(n).params[0].shape for n in (1, True, 1.0) * 2]
    assert sizes == [(1,), (4,), (8,)] * 2


EAGER = """
void scaled(const float *X, const float *B, float *Y) {
    for (int i = 0; i < N; i++) Y[i] = 2 * X[i] + (B ? B[i] : 0) + 0 * WAYS;
}
"""


@carver.jit
def eager(x: Any, b: Any, y: Any, ways: int = 1) -> carver.Kernel:
    """Y = 2 X + B for arrays of the shapes that it is called with."""
    assert isinstance(x, carver.Param) and x.dtype == "float32"
    return carver.Kernel(EAGER, "scaled", defines={"N": x.shape[0], "WAYS": ways})  # type: ignore[index]


@pytest.mark.slow
def test_a_function_of_arrays_that_gives_a_kernel() -> None:
    work = carver.autotune(configs=CONFIGS, ref_prog=lambda x, b: 2 * x + b, **QUICK)(eager)
    np.testing.assert_array_equal(work(X, Y, z()), 2 * X + 1)
    np.testing.assert_array_equal(work(X, Y + 1, z()), 2 * X + 2)
    np.testing.assert_array_equal(work(X[:50], Y[:50], z(50)), 2 * X[:50] + 1)
    assert work.result(X, Y, z()) is not work.result(X[:50], Y[:50], z(50))
    assert [m.outcome for m in work.result(X, Y, z()).table] == ["ok", "ok"]
    np.testing.assert_array_equal(work(x=X, b=Y, y=z()), 2 * X + 1)
    np.testing.assert_array_equal(work(X, Y, z(), ways=2), 2 * X + 1)


@pytest.mark.slow
def test_candidates_may_depend_on_arrays() -> None:
    def configs(x: Any) -> list[dict[str, int]]:
        return [{"ways": x.shape[0]}, {"ways": 2}]

    work = carver.autotune(configs=configs, skip_check=True, **QUICK)(eager)
    work(X, Y, z())
    assert [m.config["ways"] for m in work.result(X, Y, z()).table] == [100, 2]


def test_what_a_call_costs_is_counted_from_python_to_the_driver() -> None:
    program = [sys.executable, Path(__file__).parents[1] / "benchmarks" / "calls.py", "--device", "cpu"]
    said = json.loads(subprocess.run([*program, "--rounds", "3", "--json"], check=True, capture_output=True).stdout)
    least, *calls = said["calls"]
    assert [c["what"] for c in calls] == ["kernel(a, b, c)", "tuned(n)(a, b, c)", "tuned(a, b, c)"]
    assert all(c["least_us"] > least["least_us"] for c in calls)


def test_hooks_of_all_and_of_one_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "hooks"
    monkeypatch.setenv("HOOK_LOG", str(log))
    own = {"pause_ms": 0.1, "pre_hook": tuned.zeroing, "post_hook": tuned.after_one}
    made = carver.AutoTuner.from_kernel(tuned.accumulate, [{"pause_ms": 5.0}, own]).set_profile_args(
        pre_hook=tuned.before_all, post_hook=tuned.after_all, **{**QUICK, "warmup": 0, "rep": 3}
    ).set_compile_args(out_idx=[1])  # fmt: skip
    ones = np.ones(4, np.float32)
    with carver.set_autotune_inputs(ones, np.zeros(4, np.float32)):
        result = made.run(ref_prog=lambda x: x, reset_to_zero=[1], slow_factor=100)
        assert [m.outcome for m in result.table] == ["ok", "ok"] and result.config == {"pause_ms": 0.1}
        lines = log.read_text().splitlines()
        assert {line for line in lines if "5.0" in line} == {"before all 5.0 5.0 0", "after all 5.0 5.0 1"}
        first = [line.rsplit(" ", 3)[0] for line in lines if "0.1" in line]
        assert first[:4] == ["before all", "before one", "after all", "after one"] and len(first) == 4 * len(first[::4])
        y = np.full(4, 7, np.float32)
        for kernel in (result.kernel, made.run(ref_prog=lambda x: x, reset_to_zero=[1], slow_factor=100).kernel):
            kernel(ones, y)
            np.testing.assert_array_equal(y, ones)
        assert log.read_text().splitlines()[len(lines) :] == ["before one 0.1 0.1 0", "after one 0.1 0.1 1"] * 2
    assert "before all" not in log.read_text().splitlines()[-1], "those of all are the tuning's, not the kernel's"


def test_hooks_stay_with_a_kernel_of_source() -> None:
    called: list[str] = []
    configs: list[Any] = [{"ways": 1, "post_hook": lambda given: called.append(str(given["ways"]))}]
    work = carver.autotune(configs=configs, bucket="pow2", **QUICK)(tuned.scale)
    np.testing.assert_array_equal(work(100)(X), 2 * X)
    assert called == ["1"]
    work(120)(np.zeros(120, np.float32))
    assert called == ["1", "1"], "another size of the same bucket has them too"


def test_hooks_stay_where_a_template_ranks() -> None:
    op = carver.MatmulTemplate(M=64, N=64, K=64, in_dtype="float32").with_arch("cpu")
    configs = [{**op.recommend_hints(1)[0].config, "pre_hook": tuned.zeroing}]

    def kernel(**config: int) -> carver.Kernel:
        return tuned.scale.fn(100)

    made = carver.AutoTuner.from_kernel(carver.jit(out_idx=[-1])(kernel), configs, template=op)
    (entry,) = made.plan().entries
    assert entry.predicted_ms and entry.hooks == (tuned.zeroing, None)


def least_registers(m: Any) -> float:
    return float(m.config["ways"])


@pytest.mark.slow
def test_another_objective_than_time() -> None:
    configs = [{"ways": 2, "delay": 100}, {"ways": 1}]
    made = tuner(tuned.scale, configs)
    assert made.run().config == {"ways": 1}
    result = made.run(objective=lambda m: -m.config["ways"])
    assert result.config == {"ways": 2, "delay": 100} and result.env["objective"]["value"] == -2
    assert made.run(objective=least_registers).env["objective"] == {"name": "least_registers", "value": 1.0}
    assert made.run(objective="smem").config == {"ways": 1}, "of equals the fastest"
    assert any("nothing learnt" in note for note in result.notes)
    assert not any("nothing learnt" in note for note in made.run(objective="smem", search="exhaustive").notes)
    with pytest.raises(ConfigError, match="no objective 'power'; known: energy, smem, time, or a function"):
        made.run(objective="power")
    with pytest.raises(RunError, match="objective gives NaN for ways=2 delay=100"):
        made.run(objective=lambda m: float("nan"))


def test_energy_is_of_the_packages_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zone of the whole platform holds the packages, too."""
    monkeypatch.setattr("carver.run.device.POWERCAP", tmp_path)
    for place, (name, used) in enumerate({"package-0": 7, "package-1": 5, "psys": 20}.items()):
        (tmp_path / f"intel-rapl:{place}").mkdir()
        (tmp_path / f"intel-rapl:{place}" / "name").write_text(f"{name}\n")
        (tmp_path / f"intel-rapl:{place}" / "energy_uj").write_text(f"{used * 10**6}\n")
    assert CpuDevice().energy_j() == 12.0


def test_what_counts_energy_queues_no_more_than_has_run() -> None:
    """Launches return at once: 64 of a kernel of 1 s would outlast any limit."""
    waiting, most = 0, [0]

    def launch() -> None:
        nonlocal waiting
        waiting += 1

    def synchronize() -> None:
        nonlocal waiting
        most.append(waiting)
        time.sleep(0.3 * waiting)
        waiting = 0

    device = SimpleNamespace(energy_j=lambda: 1.0, synchronize=synchronize, name="a GPU")
    worker: Any = SimpleNamespace(device=device)
    assert Worker._energy(worker, launch, None) == 0.0 and max(most) <= 2 and sum(most) <= 4


def test_energy_is_counted_where_the_device_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("carver.arch.detect.text_at", lambda path: "")
        with carver.set_autotune_inputs(X), pytest.raises(RunError, match="has no counter of energy"):
            carver.AutoTuner.from_kernel(tuned.sleeper, [{"pause_ms": 1.0}], (1,)).run(
                **QUICK, objective="energy", isolate=False
            )
    pairs = [(9.0, 1.0), (0.0, 5.0), *[(0.0, 80.0)] * 100]  # the counter has run over in the first
    joules = iter(x for pair in pairs for x in pair)
    monkeypatch.setattr("carver.run.worker.ENERGY_S", 0.0)
    monkeypatch.setattr("carver.run.device.CpuDevice.energy_j", lambda self: next(joules))
    with carver.set_autotune_inputs(X):
        result = carver.AutoTuner.from_kernel(tuned.sleeper, [{"pause_ms": 9.0}, {"pause_ms": 1.0}], (1,)).run(
            **QUICK, objective="energy", isolate=False
        )
    assert result.config == {"pause_ms": 9.0}
    assert result.env["objective"] == {"name": "energy", "value": pytest.approx(5 / 3)}


def test_nvml_is_asked_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    class Library:
        def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:
            asked.append(uuid)
            return 0

        def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, into: Any) -> int:
            into._obj.value = 1500
            return 0

    monkeypatch.setattr(cuda, "_nvml", Library)
    assert cuda.energy_j("0123456789abcdef0123456789abcdef") == 1.5
    assert asked == [b"GPU-01234567-89ab-cdef-0123-456789abcdef"]
    monkeypatch.setattr(cuda, "_nvml", lambda: None)
    assert cuda.energy_j("0" * 32) is None


def test_names_of_other_tuners_say_what_stands_in_their_place() -> None:
    result = tuner(tuned.scale, [{"ways": 1}]).run()
    for name in shipped("settings")["result"]:
        with pytest.raises(AttributeError, match=f"a result has no '{name}'; here it is "):
            getattr(result, name)


def test_what_stands_in_the_place_of_a_name_is_there() -> None:
    result = tuner(tuned.scale, [{"ways": 1}]).run()
    kernel = result.kernel
    for instead in shipped("settings")["result"].values():
        assert hasattr(result, instead.partition(".")[0].partition("(")[0])
    for name, instead in shipped("settings")["kernel"].items():
        with pytest.raises(AttributeError, match=f"a kernel has no '{name}'; here it is "):
            getattr(kernel, name)
        first = instead.partition(".")[0].partition("(")[0]
        said = first in ("AutoTuner", "the kernel itself")
        assert said or hasattr(kernel, first) or hasattr(result, first.split()[0])
    assert "scale" in kernel.source.path.read_text() and kernel.tuned().calls[0].entry == "scale"
    with pytest.raises(AttributeError, match=r"a kernel has no 'nothing'$"):
        _ = kernel.nothing


@pytest.mark.parametrize("name", sorted(shipped("settings")["setting"]))
def test_settings_of_other_tuners_say_what_stands_in_their_place(name: str) -> None:
    with pytest.raises(ConfigError, match=f"a tuning has no setting '{name}': "):
        tuner(tuned.scale, [{"ways": 1}]).set_profile_args(**{name: 1})


def test_types_of_arrays_stay_in_a_key_that_does_not_name_them() -> None:
    def key(x: Any, **options: Any) -> Any:
        chosen = {"key": ["n"], "bucket": None, "do_not_specialize": (), **options}
        return call_key({"n": 1, "x": x}, what="f", **chosen)

    for chosen in (["n"], lambda n: n):
        assert key(X, key=chosen) == key(X[:7], key=chosen) != key(X.astype(np.float64), key=chosen)
    assert key(X, do_not_specialize=["x"]) == key(X.astype(np.float64), do_not_specialize=["x"])
    assert key(X, key=["n", "x"]) != key(X[:7], key=["n", "x"])


@pytest.mark.slow
def test_tuning_in_a_capture_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        capturing = False

        def is_initialized(self) -> bool:
            return True

        def is_current_stream_capturing(self) -> bool:
            return self.capturing

    torch = ModuleType("torch")
    torch.cuda, torch.Tensor = Cuda(), type("Tensor", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    work = carver.autotune(configs=CONFIGS, skip_check=True, **QUICK)(tuned.scale)
    kernel = work(100)
    torch.cuda.capturing = True  # type: ignore[attr-defined]
    assert work(100) is kernel
    with pytest.raises(RunError, match=r"scale is not tuned .* CUDA graph is being captured.*call it once before"):
        work(101)


@pytest.mark.exhaustive
def test_triton_under_its_interpreter_takes_params_and_any_size(interpreted: Callable[[str, str], None]) -> None:
    code = (
        "import carver, torch, triton, tuned_triton\n"
        "configs = [triton.Config({'BLOCK': b}) for b in (512, 1024)]\n"
        "x = torch.rand(3000); y = torch.zeros_like(x)\n"
        "t = carver.AutoTuner.from_kernel(tuned_triton.sized, configs, ('n',)).set_compile_args(target='cpu')\n"
        "with carver.set_autotune_inputs(x, y):\n"
        "    r = t.run(ref_prog=lambda x: 2 * x, warmup=1, rep=3, retakes=0)\n"
        "right = []\n"
        "for n in (3000, 10):\n"
        "    x = torch.rand(n); y = torch.zeros_like(x); r.kernel(x, y); right.append(torch.equal(y, 2 * x))\n"
        "print([m.outcome for m in r.table], right)"
    )
    interpreted(code, "['ok', 'ok'] [True, True]\n")


CUDA_AXPY = """
extern "C" __global__ void axpy(const float *X, const float *Y, float *Z, float alpha, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) Z[i] = alpha * X[i] + (Y ? Y[i] : 0.0f);
}
"""


def axpy_cuda(n: Any, BLOCK: int = 128) -> carver.Kernel:
    """Z = alpha X + Y for any n on a GPU."""
    return carver.Kernel(CUDA_AXPY, "axpy", grid=f"ceil({n}, {BLOCK})", block=BLOCK, defines={"BLOCK": BLOCK},
                         scalars=["n"], params=PARAMS)  # fmt: skip


@pytest.mark.gpu
def test_a_tuned_kernel_is_captured_in_a_cuda_graph() -> None:
    torch = pytest.importorskip("torch")
    x, y, z = (torch.rand(1000, device="cuda") for _ in range(3))
    work = carver.autotune(
        configs=[{"BLOCK": b} for b in (64, 256)], ref_prog=lambda x, y, alpha: alpha * x + y, rep=20
    )(axpy_cuda)  # fmt: skip
    with carver.set_autotune_inputs(x, y, 0.5):
        kernel = work("n")
    assert [m.outcome for m in work.result("n").table] == ["ok", "ok"]
    kernel(x, y, z, 2.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work("n")(x, y, z, 3.0)
        with pytest.raises(RunError, match="CUDA graph is being captured"):
            work("m")
    assert torch.equal(z, 2 * x + y), "recorded, not run"
    x.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(z, 3 * x + y)


@pytest.mark.gpu
def test_a_tuned_kernel_runs_in_torchs_stream_at_any_size() -> None:
    torch = pytest.importorskip("torch")
    made = carver.AutoTuner.from_kernel(axpy_cuda, [{"BLOCK": 64}, {"BLOCK": 256}], ("n",))
    x, z = torch.rand(1000, device="cuda"), torch.empty(1000, device="cuda")
    with carver.set_autotune_inputs(x, None, 0.5):
        result = made.run(rep=20, objective="energy")
    assert 0 < result.env["objective"]["value"] < 1, "joules a run"
    side = torch.cuda.Stream()
    for n in (1000, 77, 123457, 77):
        x, z = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # what follows in this stream waits for it
            result.kernel(x, None, z, 2.0)
            right = torch.equal(z, 2 * x)
        assert right
