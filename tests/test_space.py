"""The candidate space against counts by hand and against a plain loop over every combination."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import ceil, log2, prod
from typing import Any

import numpy as np
import pytest
from cases import FACES, KERNELS, PRICED, answerable, device_for, offered, template

import carver
from carver.base.errors import ConfigError, NoCandidates, ProblemError
from carver.cost import model
from carver.cost.model import price
from carver.kernels.declaration import Kernel
from carver.kernels.enumeration import enumerate_space
from carver.kernels.expr import Expression, roles, size_scope, static_scope
from carver.kernels.space import given_space
from carver.problem.problem import Problem
from carver.ranking.recommend import offered_kernels

H200 = carver.CUDA("h200")

TOY = """
backend = "triton"
model = "contraction"
[tunables]
x = [1, 2, 3, 4]
y = [1, 2, 4]
z = [10, 20]
[schedule]
threads = "32 * x * y"
smem_bytes = "50000 * y"
[rules]
"x is even" = "x % 2 == 0"
"x is at least y" = "x >= y"
[avoid]
"z is at most m" = "z <= m"
"""
# x even: 2 and 4. With x >= y: (2,1) (2,2) (4,1) (4,2) (4,4). Each with z = 10, 20.


def matmul(m: int, n: int = 64, k: int = 64) -> Problem:
    return carver.MatmulTemplate(m, n, k).problem


def test_counts_by_hand(declaration: Callable[..., Kernel]) -> None:
    space = enumerate_space(matmul(64), H200, declaration(TOY))
    assert len(space) == 10
    assert [(c["x"], c["y"], c["z"]) for c in map(space.config, range(10))] == [
        (2, 1, 10), (2, 1, 20), (2, 2, 10), (2, 2, 20), (4, 1, 10), (4, 1, 20), (4, 2, 10), (4, 2, 20), (4, 4, 10),
        (4, 4, 20),
    ]  # fmt: skip
    assert space["threads"].tolist() == [64, 64, 128, 128, 128, 128, 256, 256, 512, 512]
    # x = 1 and 3 go before y is known, (2, 4) before z is
    assert space.removed == {"x is even": 2, "x is at least y": 1}


def test_rules_over_sizes_apply_to_the_size_asked(declaration: Callable[..., Kernel]) -> None:
    toy = declaration(TOY)
    assert len(enumerate_space(matmul(19), H200, toy)) == 5
    assert len(enumerate_space(matmul(20), H200, toy)) == 10
    with pytest.raises(NoCandidates) as caught:
        enumerate_space(matmul(9), H200, toy)
    assert caught.value.removed["z is at most m"] == 10
    assert "10 by 'z is at most m'" in str(caught.value)


def test_the_device_has_rules_of_its_own(declaration: Callable[..., Kernel]) -> None:
    t4 = carver.CUDA("t4")  # 65,536 bytes of shared memory a block: y = 1 only
    space = enumerate_space(matmul(64), t4, declaration(TOY))
    assert set(space["y"].tolist()) == {1}
    small = H200.replace(max_threads_per_block=128)
    assert enumerate_space(matmul(64), small, declaration(TOY))["threads"].max() == 128


def test_places_are_running_numbers_of_the_full_product(declaration: Callable[..., Kernel]) -> None:
    space = enumerate_space(matmul(64), H200, declaration(TOY))
    every = list(itertools.product((1, 2, 3, 4), (1, 2, 4), (10, 20)))
    assert [every[i] for i in space.index] == [(space["x"][r], space["y"][r], space["z"][r]) for r in range(len(space))]


def test_given_configurations_are_told_the_first_rule_they_break(declaration: Callable[..., Kernel]) -> None:
    given = [{"x": 4, "y": 4, "z": 1}, {"x": 3, "y": 4, "z": 1}, {"x": 2, "y": 4, "z": 1}, {"x": 16, "y": 16, "z": 1},
             {"x": 8, "y": 8, "z": 1}]  # fmt: skip
    space, why = given_space(matmul(64), H200, declaration(TOY), given)
    assert space.index.tolist() == [0]  # values that carver would not list (z = 1) are the user's to choose
    assert why == {
        1: "x is even (x % 2 is 1, must be 0)",
        2: "x is at least y (x is 2, at least 4)",
        3: "a block holds at most arch.max_threads_per_block threads (it has 8,192 threads, a block may have 1,024)",
        4: "a block holds at most arch.max_threads_per_block threads (it has 2,048 threads, a block may have 1,024)",
    }


def test_defaults_fill_what_is_left_out(declaration: Callable[..., Kernel]) -> None:
    toy = declaration(TOY + "[defaults]\nz = 20\n")
    space, _ = given_space(matmul(64), H200, toy, [{"x": np.int64(4), "y": np.uint8(2)}])
    assert space.config(0) == {"x": 4, "y": 2, "z": 20}


def test_a_declaration_without_rules_is_stopped_before_it_fills_the_memory(declaration: Callable[..., Kernel]) -> None:
    wide = "\n".join(f"t{i} = {list(range(1, 65))}" for i in range(4))
    toy = declaration(f'backend = "triton"\nmodel = "contraction"\n[tunables]\n{wide}\n[schedule]\nthreads = "32"\n')
    with pytest.raises(NoCandidates, match="spans more than 2000000 candidates"):
        enumerate_space(matmul(64), H200, toy)


def test_roles_of_axes_by_hand() -> None:
    conv = carver.OpTemplate("O[n,p,q,f] += I[n,p+r,q+s,c] * W[r,s,c,f]", n=2, p=5, q=7, f=3, r=3, s=3, c=4).problem
    assert roles(conv) == {"b": 1, "m": 2 * 5 * 7, "n": 3, "k": 3 * 3 * 4}
    assert roles(carver.MatmulTemplate(3, 5, 7, batch=2).problem) == {"b": 2, "m": 3, "n": 5, "k": 7}
    assert roles(carver.ReductionTemplate("sum", (3, 5)).problem) == {"b": 1, "r": 3, "c": 5}
    assert roles(carver.GeneralReductionTemplate("SSRS", (2, 3, 5, 7)).problem) == {"b": 6, "r": 5, "c": 7}


SCALAR = {
    "min": min, "max": max, "ceil": lambda a, b: -(-a // b), "pow2": lambda x: 1 << ceil(log2(max(x, 1))),
    "log2": lambda x: log2(max(x, 1)),
}  # fmt: skip


def by_hand(kernel: Kernel, problem: Problem, arch: carver.Arch) -> set[tuple[int, ...]]:
    """The candidates of a declaration, found by a loop over the full product and Python's own `eval`."""
    listed = {name: values for name, values in kernel.tunables.items() if not isinstance(values, Expression)}
    derived = {name: e for name, e in kernel.tunables.items() if isinstance(e, Expression)} | dict(kernel.derived)
    ordered: list[str] = []
    while len(ordered) < len(derived):
        ordered += [n for n, e in derived.items() if n not in ordered and not e.names & derived.keys() - set(ordered)]
    rules = (*kernel.rules.values(), *kernel.avoid.values())
    decided = derived.keys() - kernel.let.keys() - kernel.schedule.keys() - kernel.tunables.keys()  # by the compiler
    written = (*(e for name, e in derived.items() if name not in decided), *rules)
    code = {e.text: compile(e.text.strip(), "declaration", "eval") for e in written}
    scope = static_scope(problem, arch) | size_scope(problem) | SCALAR
    found = set()
    for values in itertools.product(*listed.values()):
        env = scope | dict(zip(listed, values, strict=True))
        for name in ordered:
            formula = derived[name]
            env[name] = int(formula(env) if name in decided else eval(code[formula.text], env))
        fits = env.get("threads", 0) <= arch.max_threads_per_block
        fits = fits and env.get("smem_bytes", 0) <= arch.smem_per_block_bytes
        if fits and all(eval(code[e.text], env) for e in rules):
            found.add(tuple(env[name] for name in kernel.tunables))
    return found


def product(kernel: Kernel) -> int:
    return prod(len(values) for values in kernel.tunables.values() if not isinstance(values, Expression))


def most(kernel: Kernel) -> int:
    """Rows that a plain loop gets through; what a compiler decides is slow on one row."""
    return 60_000 if all(table for table, *_ in kernel.formulas()) else 6_000


SMALL = [kernel for kernel in KERNELS if product(kernel) <= most(kernel) and kernel.operator in FACES]


@pytest.mark.parametrize("kernel", SMALL, ids=repr)
@pytest.mark.parametrize("sizes", [
    (1000, 504, 768), pytest.param((17, 4096, 64), marks=pytest.mark.exhaustive),
], ids=str)  # fmt: skip
def test_enumeration_agrees_with_a_plain_loop(kernel: Kernel, sizes: tuple[int, int, int]) -> None:
    problem = template(kernel.operator, *sizes).problem
    arch = carver.load_arch(device_for(kernel.backend))
    if kernel.unmet(static_scope(problem, arch)):
        pytest.skip(f"{kernel} does not run this problem")
    expected = by_hand(kernel, problem, arch)
    try:
        space = enumerate_space(problem, arch, kernel)
    except NoCandidates:
        assert not expected
        return
    assert {tuple(space.config(row).values()) for row in range(len(space))} == expected


@pytest.mark.parametrize(("operator", "backend"), list(answerable()))
def test_every_candidate_is_one_that_the_user_could_give(operator: str, backend: str) -> None:
    arch = carver.load_arch(device_for(backend))
    problem = template(operator, 1000, 504, 768).problem
    if not offered(problem, arch, backend):
        pytest.skip("no kernel of this backend takes the problem")
    for kernel in offered_kernels(problem, arch, backend)[0]:
        try:
            space = enumerate_space(problem, arch, kernel)
        except NoCandidates:  # left to a better kernel of the backend
            continue
        rows = range(0, len(space), max(1, len(space) // 200))
        given, why = given_space(problem, arch, kernel, [space.config(row) for row in rows])
        assert not why
        for name in kernel.derived:
            assert np.array_equal(given[name], space[name][list(rows)]), name


def scaled() -> Iterator[Problem]:
    """Matmuls, and those of groups, of every pair of types and every block of scales that there is."""
    types = "bfloat16", "float8_e4m3", "int8", "int4", "float4_e2m1"
    blocks: tuple[Any, ...] = ("row", "tensor", (1, 16), (1, 32), (1, 128), (128, 128))
    for a, b, block in itertools.product(types, types, blocks):
        kinds: dict[str, Any] = {"in_dtype": a, "b_dtype": b, "scale_block": block}
        with suppress(ProblemError):
            yield carver.MatmulTemplate(512, 512, 512, trans_B=True, **kinds).problem
        with suppress(ProblemError):
            yield carver.GroupedMatmulTemplate(512, 512, 512, 8, **kinds).problem
    yield carver.GroupedMatmulTemplate(512, 512, 512, 8).problem


def test_vocabularies_are_told_apart() -> None:
    """Of two kernels of a backend with the same tunables, one at most runs a problem: whose is a configuration?"""
    alike: dict[tuple[str, str, tuple[str, ...]], list[Kernel]] = {}
    for k in PRICED:
        alike.setdefault((k.operator, k.backend, tuple(sorted(k.tunables))), []).append(k)
    several = {key[0]: kernels for key, kernels in alike.items() if len(kernels) > 1}
    assert several.keys() == {"scaled_matmul", "grouped_matmul"}
    problems, ran = list(scaled()), Counter[tuple[str, str]]()
    for arch, problem in itertools.product((H200, carver.load_arch("b200"), carver.load_arch("mi300x")), problems):
        kernels = several.get(problem.operator, [])
        able = [k.name for k in kernels if not k.unmet(static_scope(problem, arch))]
        assert len(able) <= 1, (str(problem), able)
        ran.update((problem.operator, name) for name in able)
    assert len(ran) == sum(map(len, several.values()))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"x": 1, "y": 1}, "configuration 0 lacks z; got {'x': 1, 'y': 1}"),
        ({"x": 1, "y": 1, "z": 1, "zz": 1}, "configuration 0 has unknown key 'zz'; did you mean 'z'?"),
        ({"x": 1.5, "y": 1, "z": 1}, "x must be a whole number from 0 to 2^31, got 1.5"),
        ({"x": -1, "y": 1, "z": 1}, "x must be a whole number from 0 to 2^31, got -1"),
        ({"x": "1", "y": 1, "z": 1}, "x must be a whole number from 0 to 2^31, got '1'"),
        (7, "configuration 0 is 7; expected a dict of x, y, z"),
    ],
)
def test_a_wrong_configuration_is_named(declaration: Callable[..., Kernel], config: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        given_space(matmul(64), H200, declaration(TOY), [config])


def test_an_operand_that_lacks_an_axis_is_read_again_for_each_row() -> None:
    """By hand: 2 bytes for each of 64 x 512 elements of Y, once for every row of a block that holds several."""
    again, plain = (
        carver.OpTemplate(text, r=64, c=512, in_dtype="float16").problem
        for text in ("Y[r,c] = X[r,c] * A[c]", "Y[r,c] = X[r,c] * A[r]")
    )
    assert size_scope(again)["repeated"] == size_scope(plain)["repeated"] == 1
    assert (size_scope(again)["repeated_bytes"], size_scope(plain)["repeated_bytes"]) == (64 * 512 * 2, 0)
    config = {"block": 256, "threads": 32, "vec": 8}
    kernel = offered_kernels(again, H200, "cuda")[0][0]
    read, once = (price(given_space(p, H200, kernel, [config])[0]).made[0] for p in (again, plain))
    blocks = 64 * 512 / 256
    assert read.l2_bytes[0] * blocks == pytest.approx(2 * (64 * 512 + 512) + 2 * 64 * 512 + 64 * 512 * 2, rel=0.01)
    assert read.l2_bytes[0] > 1.4 * once.l2_bytes[0]
    assert read.dram_bytes[0] < 1.02 * once.dram_bytes[0]


def test_what_is_kept_from_shape_to_shape_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates of many devices and types would else fill the memory of a process that lives long."""
    monkeypatch.setattr(model._KEPT, "most_bytes", 2**20)
    for dtype in ("float16", "float32", "int8"):
        carver.MatmulTemplate(512, 512, 512, in_dtype=dtype).with_arch("a100").recommend_hints(backend="clblast")
        *older, last = (each.nbytes for each in model._KEPT.values())
        assert last > 2**20 > sum(older) == 0, "the last alone is more than the bound, and is kept"
    again = carver.MatmulTemplate(480, 512, 512, in_dtype="int8").with_arch("a100").recommend_hints(backend="clblast")
    assert [each.nbytes for each in model._KEPT.values()] == [last] and again[0].predicted_ms > 0


def test_rows_that_are_said_to_ascend_are_in_the_order_of_all_tunables() -> None:
    """Equal times are then ordered by row, also where a tunable between others is computed from those before it."""
    said = {}
    problem = carver.MatmulTemplate(1000, 512, 4096).problem
    for kernel in offered_kernels(problem, H200, "cuda")[0]:
        with suppress(NoCandidates):
            space = enumerate_space(problem, H200, kernel)
            rows = list(zip(*(space.columns[name].tolist() for name in kernel.tunables), strict=True))
            said[kernel.name] = space.columns.fixed.ascending  # type: ignore[attr-defined]
            assert not said[kernel.name] or rows == sorted(rows)
    assert said == {"mma": True, "tma": False, "wgmma": True}  # group_m reads block_m; that of tma cluster, behind it
