"""What candidates run on and how they are checked: inputs, references, restored arrays. CPU only but where marked."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tuned
from test_tune import X, cache, tuner  # noqa: F401 (the fixture)
from tuned import QUICK, SCALE, scale, twice

import carver
from carver.base.errors import ConfigError, RunError
from carver.run import inputs
from carver.run.buffers import encode, fill, put
from carver.run.check import Checker, OperatorReference, agreement
from carver.run.inputs import Inputs, TensorSupplyType, from_user, supply
from carver.run.spec import Param, sizes_of
from carver.tune.plan import Tuning


@pytest.mark.slow
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


@pytest.mark.slow
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
    with carver.set_autotune_inputs(X):
        np.testing.assert_array_equal(made.run(ref_prog=twice).kernel(X), 2 * X), "an output has the sizes of inputs"
    np.testing.assert_array_equal(dynamic()(X), 2 * X)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([X[:50]], r"X is float32\[100\] by the kernel's params; given is float32\[50\]"),
        ([X.astype(np.float64)], r"X is float32\[100\] by .* given is float64\[100\]"),
        ([X, X, X], "scale takes X, Y; set_autotune_inputs gives 3"),
    ],
)
def test_inputs_are_what_the_kernel_says_it_takes(given: list[Any], said: str) -> None:
    """Else a kernel would read and write beyond their ends."""
    with carver.set_autotune_inputs(given), pytest.raises(ConfigError, match=said):
        tuner(scale, [{"ways": 1}]).run()


def test_sizes_that_arrays_share() -> None:
    a, b, c = Param("A", ("m", "k"), "float16"), Param("B", ("k", 4), "bfloat16"), Param("C", ("m", 4), "float32", True)
    given = [Param("A", (2, 3), "float16"), Param("B", (1, 3, 4), "uint16"), None]
    assert sizes_of([a, b, c], given, "params") == {"m": 2, "k": 3} and c.at({"m": 2}).extents == (2, 4)
    with pytest.raises(ConfigError, match=r"B is bfloat16\[k, 4\] by params, where m is 2, k is 3; given .*\[5, 4\]"):
        sizes_of([a, b], [given[0], Param("B", (5, 4), "bfloat16")], "params")


def drawn(dtype: str) -> Any:
    return supply([Param("X", (60,), dtype)], TensorSupplyType.Auto, 3, "numpy").values[0].content


@pytest.mark.parametrize(("dtype", "values"), [
    ("bool", range(2)), ("uint8", range(3)), ("uint16", range(3)), ("int64", range(-2, 3)), ("complex64", None),
])  # fmt: skip
def test_masks_and_indices_are_drawn(dtype: str, values: Any) -> None:
    x = drawn(dtype)
    assert str(x.dtype) == dtype and (set(np.unique(x)) == set(values) if values else len(np.unique(x)) > 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bool", "uint16", "complex64"])
def test_arrays_of_types_that_no_problem_has(dtype: str) -> None:
    """Masks and indices: of a kernel in C, and of Python code."""
    x = drawn(dtype)
    source = """
#include <string.h>
void copy(const void *X, void *Y, int n) {
    memcpy(Y, X, n / WAYS);
}
"""

    @carver.jit(out_idx=[-1])
    def copy(ways: int) -> carver.Kernel:
        params = [("X", (60,), dtype), ("Y", (60,), dtype)]
        return carver.Kernel(source, "copy", defines={"WAYS": ways}, scalars=[x.nbytes], params=params)

    made = carver.AutoTuner.from_kernel(copy, [{"ways": 1}, {"ways": 2}]).set_profile_args(**QUICK)
    result = made.run(ref_prog=lambda x: x, search="exhaustive")
    assert [m.outcome for m in result.table] == ["ok", "wrong_result"]
    assert (result.kernel(x) == x).all() and result.kernel(x).dtype == x.dtype

    def python(ways: int) -> Any:
        return lambda x: x if ways == 1 else ~x if x.dtype.kind == "b" else x.conj() + 1

    with carver.set_autotune_inputs(x):
        result = carver.AutoTuner.from_kernel(python, [{"ways": 1}, {"ways": 2}]).run(ref_prog=lambda x: x, **QUICK)
    assert [m.outcome for m in result.table] == ["ok", "wrong_result"]


@pytest.mark.parametrize("dtype", ["float8_e4m3", "bfloat16"])
def test_bits_stand_for_what_numpy_has_no_type_for(dtype: str) -> None:
    """The kernel gets them as they are, the reference as numbers."""
    source = "#include <string.h>\nvoid copy(const void *X, void *Y, int n) {\n    memcpy(Y, X, n);\n}\n"
    bits = encode(np.linspace(-2, 2, 60), dtype)
    params = [("X", (60,), dtype), ("Y", (60,), dtype)]

    @carver.jit(out_idx=[-1])
    def copy(ways: int) -> carver.Kernel:
        return carver.Kernel(source, "copy", scalars=[bits.nbytes], params=params)

    seen: list[Any] = []
    made = carver.AutoTuner.from_kernel(copy, [{"ways": 1}]).set_profile_args(**QUICK)
    with carver.set_autotune_inputs(bits):
        assert made.run(ref_prog=lambda x: seen.append(x) or x).table[0].ok  # type: ignore[func-returns-value]
    assert np.abs(seen[0] - np.linspace(-2, 2, 60)).max() < 0.1


def test_the_imaginary_part_counts() -> None:
    checker = Checker(lambda x: x * 1j)
    checker.prepare(from_user([X], ["x"], ""), "cpu", 1)
    assert [checker.check([y])[0] for y in (X * 1j, X * 2j, X * 0)] == ["ok", "wrong_result", "wrong_result"]


def test_arrays_must_be_known_and_fit() -> None:
    with pytest.raises(ConfigError, match=r"arrays of sleeper are not known.*set_autotune_inputs"):
        tuner().run()
    with pytest.raises(ConfigError, match=r"inputs take .* GB \(X alone"):
        tuner(scale, [{"ways": 1}], 1 << 44).run()
    with pytest.raises(ConfigError, match="no supply_type 'Unifrom'; did you mean 'Uniform'"):
        tuner(supply_type="Unifrom")
    with pytest.raises(ConfigError, match="at least one input"), carver.set_autotune_inputs():
        pass


@pytest.mark.parametrize("how", ["Uniform", "Normal", "Integer"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3", "int8", "tf32"])
def test_pieces_are_drawn_as_the_whole_would_be(dtype: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params = [Param("x", (7, 11), dtype), Param("y", (), dtype), Param("z", (3,), dtype, True)]
    whole = supply(params, TensorSupplyType.of(how), 1, "numpy")
    monkeypatch.setattr(inputs, "_PIECE", 10)
    assert supply(params, TensorSupplyType.of(how), 1, "numpy").checksum == whole.checksum
    assert [v.content.shape for v in whole.values] == [(7, 11), (), (3,)] and not whole.values[2].content.any()


def test_inputs_have_a_checksum() -> None:
    first, second = from_user([X, 3], ["a", "n"], ""), from_user([X + 1, 3], ["a", "n"], "")
    assert first.checksum == Inputs(first.values, "elsewhere").checksum != second.checksum


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
    output[:wrong] = -9
    assert checker.check([output])[0] == outcome
    output[:] = 2 * X
    output[5] = np.nan
    assert checker.check([output]) == (
        "wrong_result",
        "output 0: not finite at 1 of 100 elements (1 %), first at [5]: nan where 10 is right within 1.2; "
        "1 % of the elements may", np.inf
    )  # fmt: skip
    rms = np.sqrt((4 * X**2).mean())
    assert checker.check([2 * X + 0.0099 * rms])[0] == "ok", "atol"
    assert checker.check([2 * X * 1.02 + 0.02 * rms])[0] == "wrong_result", "rtol 1e-2"


@pytest.mark.parametrize("unit", [1e-300, 1e-4, 1.0, 1e300])
@pytest.mark.parametrize("beside", [[], [np.inf, np.nan]])
@pytest.mark.parametrize("package", ["numpy", pytest.param("torch", marks=pytest.mark.packages)])
def test_a_verdict_is_the_same_in_any_unit(unit: float, beside: list[float], package: str) -> None:
    """Of a softmax over thousands of columns zeros would pass where 1e-2 counts as little."""
    xp = pytest.importorskip(package)
    right = unit * np.concatenate([np.random.default_rng(0).standard_normal(1000), beside])
    checker = Checker(lambda x: xp.asarray(right))
    checker.prepare(from_user([X], ["x"], ""), "cpu", 1)
    with np.errstate(invalid="ignore"):
        outputs = (right, right * 1.005, right + 0.009 * unit, 0 * right, 3 * right, -right, right + 0.05 * unit)
    verdicts = [checker.check([np.where(np.isfinite(right), each, right)])[0] for each in outputs]
    assert verdicts == ["ok"] * 3 + ["wrong_result"] * 4


def checker_of(right: Any, **given: float) -> Checker:
    checker = Checker(lambda x: right, **given)
    checker.prepare(from_user([X], ["x"], ""), "cpu", 1)
    return checker


@pytest.mark.parametrize("package", ["numpy", pytest.param("torch", marks=pytest.mark.packages)])
def test_outputs_are_compared_where_the_reference_is(package: str) -> None:
    """In pieces, whose counts add up and whose first difference is that of the whole."""
    xp = pytest.importorskip(package)
    right = np.arange(200_000, dtype=np.float32).reshape(400, 500)
    checker = checker_of(right if xp is np else xp.from_numpy(right), rtol=0.0, atol=0.5, max_mismatched_ratio=0.0)
    assert checker._right is not None and isinstance(checker._right[0], np.ndarray if xp is np else xp.Tensor)
    output = right.astype(np.float64)
    assert checker.check([output]) == checker.check([output.reshape(400, 1, 500)]) == ("ok", "", 0.0)
    output[399, 499] = output[150, 7] = -1
    outcome, said, _ = checker.check([output])
    assert outcome == "wrong_result" and "2 of 200000 elements (0.001 %), first at [150, 7]: -1 where 75007 is" in said
    output[300, 0] = np.inf
    said = "not finite at 1 of 200000 elements (0.0005 %), first at [300, 0]: inf where 150000 is"
    assert said in checker.check([output])[1]
    right[300, 0] = np.inf
    checker = checker_of(right if xp is np else xp.from_numpy(right), rtol=0.0)
    assert checker.check([right])[0] == "ok", "an infinity is as right as the reference says"
    assert checker.check([np.where(np.isinf(right), 0, right)])[0] == "ok", "one of 200000 may differ"
    assert "shape (500, 400)" in checker.check([right.T])[1]


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("package", ["numpy", pytest.param("torch", marks=pytest.mark.packages)])
def test_what_was_never_written_is_no_mismatch_among_others(dtype: str, package: str) -> None:
    """Whatever share may differ. Of 8 bits no byte tells it; they are as wrong as other numbers."""
    if package == "torch" and dtype.startswith("uint"):
        pytest.skip("torch computes with none of these")
    xp = pytest.importorskip(package)
    right = np.arange(1000).astype(dtype)
    checker = checker_of(right if xp is np else xp.from_numpy(right))
    output = right.copy()
    fill(output[-5:])
    outcome, said, _ = checker.check([output])
    assert outcome == ("ok" if dtype == "int8" else "wrong_result")
    assert dtype == "int8" or "never written at 5 of 1000 elements (0.5 %), first at [995]" in said
    assert checker.check([right])[0] == "ok"
    fill(right[-5:])
    checker = checker_of(right if xp is np else xp.from_numpy(right))
    assert checker.check([output])[0] == "ok", "where the reference says the same it is right"


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("package", ["numpy", pytest.param("torch", marks=pytest.mark.packages)])
def test_integers_of_64_bits_are_compared_as_such(dtype: str, package: str) -> None:
    if (package, dtype) == ("torch", "uint64"):
        pytest.skip("torch computes with none of these")
    xp, least = pytest.importorskip(package), np.iinfo(dtype).min
    right = np.array([2**60, 2**53, least, np.iinfo(dtype).max], dtype)
    checker = checker_of(right if xp is np else xp.from_numpy(right), rtol=0, atol=99, max_mismatched_ratio=0)
    given = [right if xp is np else xp.from_numpy(right)]
    assert checker.check(given) == checker.check([right]) == ("ok", "", 0.0)
    for off, outcome in ((99, "ok"), (100, "wrong_result")):
        output = right.copy()
        output[:3] += off
        verdict = checker.check([output])
        assert verdict[0] == outcome and (off < 100 or f"{2**60 + off} where {2**60} is right" in verdict[1])
    assert checker.check([right[::-1].copy()])[0] == "wrong_result", "as far apart as they can be"


@pytest.mark.parametrize("package", ["numpy", pytest.param("torch", marks=pytest.mark.packages)])
def test_a_reference_may_write_to_what_it_returned(package: str) -> None:
    xp = pytest.importorskip(package)
    buffer = xp.zeros(len(X), dtype=xp.float64)

    def ref_prog(x: Any) -> Any:
        buffer[:] = buffer + xp.asarray(2 * x)
        return buffer

    checker = Checker(ref_prog)
    checker.prepare(from_user([X], ["x"], ""), "cpu", 1)
    assert checker.check([2 * X])[0] == "ok", "of the first run, not of those that time it"


def test_a_check_takes_little_memory() -> None:
    """Memory that is touched for the first time takes longer than to compare what lies in it."""
    output = np.ones((1000, 1000), np.float16)
    checker = checker_of(output)
    tracemalloc.start()
    try:
        assert checker.check([output])[0] == "ok"
        assert tracemalloc.get_traced_memory()[1] < 0.5 * checker._right[0].nbytes  # type: ignore[index]
    finally:
        tracemalloc.stop()


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
        checker = Tuning(ref_prog=reference, **given).checker()
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


@pytest.mark.parametrize("package", ["numpy", pytest.param("torch", marks=pytest.mark.packages)])
def test_a_check_says_no_in_any_type(package: str) -> None:
    """`(a - b).abs().max() < 1e-3` is a tensor."""
    xp = pytest.importorskip(package)

    def verdict(said: Any, **given: Any) -> str:
        checker = Checker(**given or {"manual_check_prog": lambda y: said})
        checker.prepare(from_user([X], ["x"], ""), "cpu", 1)
        return checker.check([2 * X])[0]

    truths = {said: [said, np.bool_(said), xp.asarray(said), xp.asarray([said])] for said in (True, False)}
    for said, outcome in ((True, "ok"), (False, "wrong_result")):
        for each in [*truths[said], int(said)]:
            assert verdict(each) == outcome
        for each in truths[said]:
            assert verdict(None, ref_prog=lambda x, y, each=each: each) == outcome
    for unclear in ([False], "no", xp.asarray([True, True]), {}):
        assert verdict(unclear) == "wrong_result"
    assert verdict(None) == verdict(None, ref_prog=lambda x, y: xp.asarray(2 * x)) == "ok"


@pytest.mark.slow
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


@pytest.mark.slow
def test_reset_to_zero_and_restore_value() -> None:
    y = np.full(100, 5, np.float32)
    made = carver.AutoTuner.from_kernel(tuned.accumulate, [{"pause_ms": 0.1}]).set_compile_args(out_idx=1)
    made.set_profile_args(**QUICK)
    with carver.set_autotune_inputs(X, y):
        with pytest.raises(RunError, match="1 wrong result"):
            made.run(ref_prog=lambda x: x + 5)
        zeroed = made.run(ref_prog=lambda x: x, reset_to_zero="y")
        restored = made.run(ref_prog=lambda x, y: x + y, restore_value=-1)
        with pytest.raises(ConfigError, match="no argument 'z'; the kernel's are x, y"):
            made.run(reset_to_zero=["z"])
    assert zeroed.config == restored.config
    np.testing.assert_array_equal(y, 5), "the caller's array is never touched"


@pytest.mark.slow
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


def test_temporary_files_go_where_they_are_told_and_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARVER_TMP_DIR", str(tmp_path / "scratch"))
    seen: list[list[str]] = []

    def ref_prog(x: Any) -> Any:
        seen.append([p.name for p in (tmp_path / "scratch").iterdir() if p.is_dir()])
        return 2 * x

    tuner(scale, [{"ways": 1}], ref_prog=ref_prog).run()
    assert seen and all(len(names) == 1 for names in seen)
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.slow
def test_the_reference_runs_before_the_candidates_and_not_for_each() -> None:
    calls = []

    def ref_prog(x: Any) -> Any:
        calls.append(time.monotonic())
        return 2 * x

    tuner(scale, [{"ways": 1, "delay": d} for d in range(9)], ref_prog=ref_prog).run()
    assert 1 <= len(calls) <= 5, "some more to time it"


# several ways to compute the same


def ways(names: str, **start: Any) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Launches of `y = x + 1` on torch tensors, each with a fault of its own."""
    torch = pytest.importorskip("torch")
    n = 1000
    x = torch.linspace(-1.0, 1.0, n)
    tensors = {"x": x, "y": torch.zeros(n), **{name: make(torch, x) for name, make in start.items()}}
    y = tensors["y"]

    def crash() -> None:
        raise RunError("no room")

    every = {
        "right": lambda: y.copy_(x + 1), "half": lambda: y[: n // 2].copy_(x[: n // 2] + 1),
        "nan": lambda: y.copy_(x + float("nan")), "one nan": lambda: (y.copy_(x + 1), y[7:8].fill_(float("nan"))),
        "off": lambda: y.copy_(x + 1.01), "rounded": lambda: y.copy_((x + 1) * (1 + 2**-23)), "crash": crash,
        "added": lambda: y.add_(x + 1), "half added": lambda: y[: n // 2].add_(x[: n // 2] + 1),
        "clamped": lambda: y.clamp_(min=0), "half clamped": lambda: y[: n // 2].clamp_(min=0),
    }  # fmt: skip
    return [(name, every[name]) for name in names.split(", ")], tensors


@pytest.mark.parametrize(
    ("names", "right"),
    [
        ("right, nan", [0]), ("nan, right", [1]), ("one nan, right", [1]), ("right, half", [0]), ("half, right", [1]),
        ("half, half, half, right", [3]), ("off, right, rounded", [1, 2]), ("crash, right", [1]), ("crash, crash", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("beforehand", [0.0, 1.0, np.nan])
def test_what_several_ways_compute_is_compared(names: str, right: list[int], beforehand: float) -> None:
    """Whatever the output held, of a launch before or of none. A fault is no truth for being first, nor most."""
    runs, tensors = ways(names, y=lambda _, x: (x + 1) * beforehand)
    given = {name: each.clone() for name, each in tensors.items()}
    found = agreement(runs, tensors, given, {"y"}, {"x"})
    assert [i for i, verdict in enumerate(found) if verdict[0] == "ok"] == right
    for (name, _), (outcome, said, error) in zip(runs, found, strict=True):
        if outcome == "wrong_result":
            assert f"those of {runs[right[0]][0]}: y is" in said and error is not None and 1 < error < np.inf, name


def test_what_the_first_run_changes_counts_as_written() -> None:
    runs, tensors = ways("half, right, half added, added, added", y=lambda _, x: x * 0)
    given = {name: each.clone() for name, each in tensors.items()}
    assert [v[0] for v in agreement(runs[:2], tensors, given)] == ["wrong_result", "ok"]
    found = agreement(runs[2:], tensors, given, read={"x", "y"})
    assert [v[0] for v in found] == ["wrong_result", "ok", "ok"], "of what is added to, most are right"


def test_what_is_read_and_written_starts_twice_with_numbers() -> None:
    """What was clamped before looks clamped, whoever clamps it again; integers stay, which may be places."""
    runs, tensors = ways("clamped, half clamped, clamped", y=lambda _, x: abs(x))
    tensors["at"] = tensors["x"].long()
    given, seen = {name: each.clone() for name, each in tensors.items()}, []
    runs.append(("clamped", lambda: (seen.append(tensors["at"].clone()), tensors["y"].clamp_(min=0))))
    found = agreement(runs, tensors, given, ("y", "at"), ("y", "at"))
    assert [verdict[0] for verdict in found] == ["ok", "wrong_result", "ok", "ok"]
    assert all((each == given["at"]).all() for each in seen)


def test_what_is_expected_is_right_and_not_what_most_compute() -> None:
    runs, tensors = ways("off, right, off, half", y=lambda _, x: x + 1)
    given = {name: each.clone() for name, each in tensors.items()}
    found = agreement(runs, tensors, given, ("y",), ("x",), {"y": tensors["x"] + 1})
    assert [verdict[0] for verdict in found] == ["wrong_result", "ok", "wrong_result", "wrong_result"]
    assert "y is wrong at 1000 of 1000" in found[0][1] and "y is not finite at 500 of 1000" in found[3][1]


def test_what_no_run_changes_is_never_written_to() -> None:
    """A parameter, or one element as many: whoever only reads takes them."""
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.ones(1000))
    runs, tensors = ways("right, half", bias=lambda torch, x: torch.ones(1).expand(1000))
    tensors["weight"] = weight.detach()
    given = {name: each.clone() for name, each in tensors.items()}
    assert [verdict[0] for verdict in agreement(runs, tensors, given)] == ["ok", "wrong_result"]
    put(tensors, given)
    assert all(torch.equal(tensors[name], each) for name, each in given.items())
