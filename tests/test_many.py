"""Many problems at once: the answers of single queries, and the bound that leaves candidates out."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from cases import KERNELS, offered

import carver
from carver.base.errors import ConfigError, KernelError, NoCandidates, ProblemError
from carver.base.types import FrozenDict
from carver.cost.model import Catalogue, Priced, Traced, catalogue, model_of, price, resolve, shown
from carver.kernels.declaration import Kernel, kernel_named
from carver.kernels.enumeration import enumerate_space
from carver.kernels.expr import size_scope, static_scope
from carver.kernels.trace import Code, Symbol, Trace, loops, mapped
from carver.ops.operator import Template
from carver.problem.problem import Problem
from carver.ranking.recommend import default_backend, offered_kernels


def drawn(seed: int, count: int) -> Iterator[Template]:
    """Problems of all operators, types and sizes, so that some differ in sizes alone."""
    rng = random.Random(seed)

    def size(low: int, high: int) -> int:
        n = round(2 ** rng.uniform(low, high))
        return n if rng.random() < 0.2 else -(-n // 16) * 16

    for _ in range(count):
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                dtype = rng.choice(["float16", "float16", "bfloat16", "float32", "tf32", "int8", "float8_e4m3"])
                yield carver.MatmulTemplate(
                    size(0, 13), size(4, 13), size(4, 13), rng.choice([1, 1, 4]), in_dtype=dtype,
                    trans_B=rng.random() < 0.5,
                )  # fmt: skip
            case 4:
                yield carver.GEMVTemplate(size(4, 14), size(4, 14), trans_A=rng.random() < 0.3)
            case 5:
                yield carver.ElementwiseTemplate((size(2, 12), size(2, 12)), inputs=rng.choice([1, 2]))
            case 6:
                kind, axis = rng.choice(["sum", "max", "softmax"]), rng.choice([0, 1])
                yield carver.ReductionTemplate(kind, (size(2, 12), size(2, 12)), axis)
            case 7:
                kind = rng.choice(["bfloat16", "float8_e4m3"])
                sizes = size(0, 10), size(5, 12), size(5, 12), size(1, 6)
                yield carver.GroupedMatmulTemplate(*sizes, in_dtype=kind)
                bits = {"in_dtype": "bfloat16", "b_dtype": "int4" if kind == "bfloat16" else "int8"}
                yield carver.GroupedMatmulTemplate(sizes[0], sizes[1], 2048, sizes[3], **bits, scale_block=(1, 128))
            case 8:
                narrow = {"in_dtype": "float8_e4m3", "out_dtype": "bfloat16", "trans_B": True}
                for given in (
                    narrow | {"scale_block": (128, 128)}, narrow | {"scale_block": "row"},
                    {"b_dtype": "int4", "scale_block": (1, 128)}, {"b_dtype": "int8", "scale_block": "row"},
                    narrow | {"in_dtype": "float4_e2m1", "scale_block": (1, 16)},
                ):  # fmt: skip
                    yield carver.MatmulTemplate(size(0, 12), size(7, 12), 128 * rng.randint(1, 32), **given)
            case 9:
                yield carver.FlashAttentionTemplate(2, 16, seq=size(4, 12), head_dim=64, causal=rng.random() < 0.5)


def told(ranking: carver.Ranking) -> tuple[object, ...]:
    hints = [hint.to_json() for hint in ranking]
    return hints, ranking.candidates, ranking.rejected, ranking.notes, ranking.backend, ranking.seconds.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("device", "topk", "backend"), [
    ("h200", 10, None), ("mi300x", 10, "triton"), ("rtx_3090", 1, None),
    pytest.param("a100", 3, "triton", marks=pytest.mark.exhaustive),
    pytest.param("h200", 40, None, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_many_answers_are_those_of_single_queries(device: str, topk: int, backend: str | None) -> None:
    ops = [op for op in drawn(topk, 24) if backend is None or op.problem.operator != "gemv"]
    arch = carver.load_arch(device)
    ops = [op for op in ops if offered(op.problem, arch, backend or "triton") or op.problem.operator == "gemv"]
    many = carver.recommend_many(ops, device, topk, backend)
    assert len(many) == len(ops)
    for op, ranking in zip(ops, many, strict=True):
        assert ranking.problem is op.problem
        assert told(ranking) == told(op.with_arch(device).recommend_hints(topk, backend))


def test_many_answers_do_not_depend_on_their_company() -> None:
    """A problem that is there twice is answered twice."""
    ops = [carver.MatmulTemplate(16 * i, 2048, 1024) for i in range(1, 20)]
    forth = carver.recommend_many([*ops, ops[0]], "h200")
    back = carver.recommend_many(ops[::-1], "h200")[::-1]
    assert [told(r) for r in forth[:-1]] == [told(r) for r in back]
    assert told(forth[0]) == told(forth[-1])
    assert carver.recommend_many([], "h200") == []


def test_what_many_are_asked_for_is_checked() -> None:
    some = [carver.MatmulTemplate(64, 64, 64)]
    with pytest.raises(ConfigError, match="backend must be a string"):
        carver.recommend_many(some, "h200", backend=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs templates, arch"):
        carver.recommend_many()  # type: ignore[call-arg]
    with pytest.raises(ProblemError, match="topk must be a whole number"):
        carver.recommend_many(some, "h200", 0)


def test_one_that_has_no_answer_is_named() -> None:
    fine = carver.MatmulTemplate(64, 64, 64)
    with pytest.raises(NoCandidates, match="attention"):
        carver.recommend_many([fine, carver.FlashAttentionTemplate(1, 8, seq=128, head_dim=7)], "h200")
    with pytest.raises(ProblemError, match="takes a list of templates, got 7"):
        carver.recommend_many([fine, 7], "h200")  # type: ignore[list-item]
    with pytest.raises(ProblemError, match="takes a list of templates, got None"):
        carver.recommend_many(None, "h200")  # type: ignore[arg-type]


def test_hints_of_many_are_explained_and_survive_copies() -> None:
    ranking = carver.recommend_many([carver.MatmulTemplate(m, 1024, 1024) for m in (64, 4096)], "h200")[1]
    assert ranking.explain().hint.predicted_ms == pytest.approx(ranking[0].predicted_ms)
    assert carver.Hint.from_json(ranking[0].to_json()) == ranking[0]
    assert "M=4096" in str(ranking[0].problem)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if model_of(k).bound], ids=lambda k: f"{k.operator}/{k.name}")
def test_no_candidate_beats_its_bound(kernel) -> None:  # type: ignore[no-untyped-def]
    bound = model_of(kernel).bound
    assert bound is not None
    ops, seen = [op for op in drawn(3, 30) if op.problem.operator == kernel.operator], 0
    for at, device in enumerate(("h200_sxm", "t4", "b200", "mi300x", "mi100", "gtx_680")):
        arch = carver.load_arch(device)
        for op in ops[at % 3 :: 3] or ops:  # each on two of the devices
            if not offered(op.problem, arch, kernel.backend) or kernel.unmet(static_scope(op.problem, arch)):
                continue
            try:
                space = enumerate_space(op.problem, arch, kernel)
            except NoCandidates:
                continue
            k, every = resolve(kernel, arch), len(space) // 2000 + 1
            space = space.where(np.arange(len(space)) % every == 0) if every > 1 else space
            seconds, least = price(space).seconds, bound(space, k)
            assert (least > 0).all() and (least <= seconds).all(), (device, op)
            seen += 1
    assert seen > 0


def every_one(problem: Problem, arch: carver.Arch, kernels: Sequence[Kernel]) -> list[Priced]:
    """All candidates of the kernels that have any, priced."""
    its = catalogue(tuple(kernels), arch, problem.sizeless)
    [first] = its.fastest([problem], 10**6)
    its._asked = True  # from now on formulas are traced, as for all problems but the first
    [answer] = its.fastest([problem], 10**6)
    for name in ("rows", "seconds", "candidates"):
        assert np.array_equal(getattr(first, name), getattr(answer, name))
    parts = answer.parts()
    assert sum(len(part.space) for part in parts) == answer.candidates
    return list(parts)


@pytest.mark.parametrize("dtype", ["float16", "tf32", "float8_e4m3"])
@pytest.mark.parametrize("m", [16, 1000, 4096])
def test_kernels_of_one_pass_are_priced_as_each_alone(dtype: str, m: int) -> None:
    """Times, terms and demands are the same to the last bit."""
    arch, problem = carver.load_arch("h200"), carver.MatmulTemplate(m, 1024, 512, in_dtype=dtype).problem
    joint = every_one(problem, arch, offered_kernels(problem, arch, "cuda")[0])
    assert len({id(part.traced[0]) for part in joint if part.traced}) < len(joint) or len(joint) == 1
    every = [(part, np.arange(len(part.space))) for part in joint]
    for (part, rows), told in zip(every, shown(every), strict=True):
        alone = price(part.space)
        assert part.seconds.tolist() == alone.seconds.tolist() == told["seconds"].tolist()
        for one, other in zip(leaves(told), leaves(*shown([(alone, rows)])), strict=True):
            assert np.array_equal(one * np.ones(len(rows)), other * np.ones(len(rows)))


MATMUL = {dtype: carver.MatmulTemplate(1000, 1008, 4096, in_dtype=dtype) for dtype in ("float16", "float32", "int8")}
STREAMED = (
    carver.GEMVTemplate(3000, 520), carver.GEMVTemplate(3000, 520, trans_A=True), carver.TransposeTemplate(9, 100_000),
    carver.ElementwiseTemplate((77, 8192), inputs=2), carver.ReductionTemplate("softmax", (4096, 1000)),
    carver.ReductionTemplate("sum", (4096, 1000), axis=0), carver.OpTemplate("Y[r,c] = X[r,c] + B[c]", r=640, c=72),
)  # fmt: skip


@pytest.mark.parametrize(("device", "op"), [
    *product(["h200", "b200", "rtx_4090", "v100", "mi300x", "cpu_avx512"], [MATMUL["float16"], *STREAMED]),
    *product(["h200", "mi300x"], [MATMUL["float32"], MATMUL["int8"]]),
], ids=lambda value: value if isinstance(value, str) else str(value.problem))  # fmt: skip
def test_traced_code_computes_what_the_formulas_do(device: str, op: Template) -> None:
    """To the last bit: of carver's own candidates, and of the same ones as a user gives them, which are not traced."""
    arch, problem = carver.load_arch(device), op.problem
    seen = 0
    kernels = (k for k in KERNELS if k.operator == problem.operator and k.device_kind == arch.kind)
    for kernel in (k for k in kernels if model_of(k).variant and not k.unmet(static_scope(problem, arch))):
        for own in every_one(problem, arch, [kernel]):
            rows = np.arange(len(own.space))[:: max(1, len(own.space) // 200)]
            given = price(own.space.where(rows))
            assert given.made and not own.made
            assert given.seconds.tolist() == own.seconds[rows].tolist()
            [one], [other] = shown([(given, np.arange(len(rows)))]), shown([(own, rows)])
            for ours, theirs in zip(leaves(one), leaves(other), strict=True):
                assert np.array_equal(ours * np.ones(len(rows)), theirs * np.ones(len(rows)))
            seen += 1
    assert seen > 0 or (arch.kind, problem.operator) == ("cpu", "transpose")


@pytest.mark.skipif(loops is None, reason="carver was built without its extension")
@pytest.mark.parametrize(("device", "sizes"), [
    ("h200", (1000, 1008, 4096)), ("rtx_3090", (16, 16, 16)), ("mi300x", (8192, 8192, 512)), ("gtx_680", (64, 999, 40)),
])  # fmt: skip
def test_the_extension_computes_what_the_code_in_python_does(device: str, sizes: tuple[int, int, int]) -> None:
    """To the last bit: rules, bounds, times, and what hints tell."""
    arch, problem = carver.load_arch(device), carver.MatmulTemplate(*sizes).problem
    seen = 0
    for kernel in (k for k in KERNELS if k.operator == "matmul" and k.backend in ("cuda", "cublas", "triton")):
        its = Catalogue([kernel], arch, problem.sizeless)
        rules, count, scope = its.tables.rules.code, len(its.tables), size_scope(problem)
        rows = np.arange(0, count, count // 900 + 1)
        for traced in (one for *_, one in its._together if isinstance(one, Traced)):
            assert traced.bound
            seen += rules._program is not None and traced.times._program is not None
            for code in (traced.bound, traced.times, traced.shown):
                for one, other in zip(code(scope, rows), in_python(code)(scope, rows), strict=True):
                    assert np.array_equal(one, other * np.ones(len(rows)))
            for one, other in zip(rules(scope, None), in_python(rules)(scope, None), strict=True):
                assert np.array_equal(one, other)
    assert seen > 0


@pytest.mark.skipif(loops is None, reason="carver was built without its extension")
@pytest.mark.parametrize("topk", [1, 10, 10**6])
@pytest.mark.parametrize("device", ["h200", "rtx_3090", "mi300x", "gtx_680", "cpu_avx512"])
def test_one_call_of_the_extension_finds_what_the_steps_in_python_do(device: str, topk: int) -> None:
    """The same rows and times, to the last bit, where a bound leaves most rows out and where few are allowed."""
    arch, seen = carver.load_arch(device), 0
    problems = [carver.MatmulTemplate(*sizes).problem for sizes in ((16, 16, 16), (1000, 1008, 4096), (8192, 64, 512))]
    problems += [carver.ReductionTemplate("softmax", (4096, 1000)).problem]
    for problem in problems:
        backend = default_backend(problem, arch)
        its = catalogue(offered_kernels(problem, arch, backend)[0], arch, problem.sizeless)
        scope = size_scope(problem)
        if found := its._at_once(scope, topk):
            [(rows, seconds, count)] = its._search([problem], [scope], topk, its._together)
            assert (found[0].tolist(), found[1].tolist()) == (rows.tolist(), seconds.tolist())
            assert found[2] == count
            seen += 1
    assert seen > 1


def test_a_column_has_a_register_only_while_it_is_read() -> None:
    """So that the registers of a formula over many columns stay in a core's cache."""
    trace, columns = Trace(500), [np.arange(500) * (2.0 + place) for place in range(40)]
    size = trace.size("m", 2.0)
    code = Code(trace, sum(size + column for column in columns))
    assert sum(np.size(register) > 1 for register in code._placed[0]) <= 3
    rows = np.array([3, 0, 499])
    assert code({"m": 3.0}, rows)[0].tolist() == sum(3.0 + column[rows] for column in columns).tolist()


@pytest.mark.parametrize("sizes", [(16, 16, 16), (100, 2048, 512), (4096, 4096, 64)])
def test_rows_that_are_allowed_are_those_that_meet_every_rule(sizes: tuple[int, int, int]) -> None:
    """Rules that read some of the columns of another one are looked at with it."""
    arch, problem = carver.load_arch("h200"), carver.MatmulTemplate(*sizes).problem
    tables = catalogue(offered_kernels(problem, arch, "cuda")[0], arch, problem.sizeless).tables
    scope, met = size_scope(problem), []
    for table in tables.tables:
        met.append(np.ones(len(table.index), bool))
        for rule in table.rules:
            seen = {**table.scope, **scope, **rule.combinations}
            for name, expression in rule.columns:
                seen[name] = expression(seen)
            met[-1] &= np.broadcast_to(np.asarray(rule.expression(seen), bool), rule.size)[rule.which]
    [rows] = tables.allowed([scope])
    [held] = tables.rules.held([scope])
    assert tables.rules.depth > 0
    assert rows.tolist() == tables.rules.rows(held).tolist() == np.flatnonzero(np.concatenate(met)).tolist()


def test_what_a_number_decides_takes_no_step() -> None:
    """A maximum is at least a number in it; a power of two divides as its inverse multiplies; equal columns are one."""
    trace, column = Trace(3), np.array([1.0, 2.0, 4.0])
    size = trace.size("m", 2.0)
    assert trace.made("greater_equal", np.maximum(1, np.minimum(size, column)), 1) is True
    assert isinstance(trace.made("greater_equal", np.maximum(1, np.minimum(size, column)), 2), Symbol)
    assert trace.made("divide", size, 8) is trace.made("multiply", size, 0.125)
    code = Code(trace, np.maximum(size * column, size + column.copy()))
    assert len(code._columns) == 1
    assert code({"m": 3.0}, np.arange(3))[0].tolist() == [4.0, 6.0, 12.0]


@pytest.mark.skipif(loops is None, reason="carver was built without its extension")
def test_a_column_may_have_more_values_than_two_bytes_can_tell() -> None:
    trace = Trace(70_000)
    column = np.arange(70_000) * 0.5
    code = Code(trace, trace.size("m", 2.0) + column)
    rows = np.array([0, 65_535, 65_536, 69_999])
    assert code({"m": 1.0}, rows)[0].tolist() == [1.0, 32768.5, 32769.0, 35000.5]


def in_python(code: Code) -> Code:
    same = copy.copy(code)
    same._program = None
    return same


@pytest.mark.skipif(loops is None, reason="carver was built without its extension")
def test_the_extension_leaves_to_python_what_numpy_warns_of() -> None:
    trace = Trace(3)
    column, size = np.array([1.0, 0.0, 2.0]), trace.size("m", 2)
    code = Code(trace, (size / column, size + 0.5))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert code({"m": 6}, np.arange(3))[0].tolist() == [6.0, np.inf, 3.0]
    assert [each.tolist() for each in code({"m": 6}, np.array([0, 2]))] == [[6.0, 3.0], [6.5, 6.5]]
    assert code({"m": 0.5}, np.array([0, 2]))[0].tolist() == [0.5, 0.25]  # a size that was traced as a whole number
    with pytest.raises(IndexError):
        code({"m": 6}, np.array([3]))


def test_a_truth_of_sizes_is_refused_while_a_formula_is_traced() -> None:
    """A Python `if` would take one side for all sizes."""
    trace = Trace(2)
    with pytest.raises(TypeError, match="no truth"):
        bool(trace.size("m", 1) > np.array([1.0, 2.0]))
    with pytest.raises(TypeError, match=r"np\.sum cannot be traced"):
        np.sum(trace.size("m", 1))


def leaves(record: object) -> list[Any]:
    """The numbers and arrays of a record, in order."""
    found: list[Any] = []
    mapped(record, lambda value: found.append(value) if isinstance(value, int | float | np.ndarray) else None)
    return found


def test_a_constant_of_zero_is_refused_beside_another_kernel() -> None:
    problem, arch = carver.MatmulTemplate(1024, 1024, 1024).problem, carver.load_arch("h200")
    tma, wgmma = (kernel_named("matmul", name) for name in ("tma", "wgmma"))
    broken = replace(tma, constants=FrozenDict({**tma.constants, "l2_efficiency": 0.0}))
    with pytest.raises(KernelError, match=r"matmul/tma cannot be priced with these constants"):
        every_one(problem, arch, [wgmma, broken])


@pytest.mark.parametrize("m", [16, 1000, 4096])
def test_kernels_that_share_rules_have_the_candidates_of_each_alone(m: int) -> None:
    arch, problem = carver.load_arch("h200"), carver.MatmulTemplate(m, 1024, 512).problem
    kernels = offered_kernels(problem, arch, "cuda")[0]
    [together] = catalogue(kernels, arch, problem.sizeless).fastest([problem], 10**6)
    assert len(together.parts()) > 1
    found, count, lost = list[Priced](), 0, Counter[str]()
    for kernel in kernels:
        [alone] = catalogue((kernel,), arch, problem.sizeless).fastest([problem], 10**6)
        found += alone.parts()
        count += alone.candidates
        lost.update(alone.removed())
    assert [part.space.index.tolist() for part in together.parts()] == [part.space.index.tolist() for part in found]
    assert (together.candidates, together.removed()) == (count, lost)


ASKED = """
import json, random, carver
rng = random.Random(4)
ops = [carver.MatmulTemplate(*[16 * round(2 ** rng.uniform(0, 9)) for _ in range(3)]) for _ in range(60)]
ops += [carver.MatmulTemplate(8 * i, 512, 4096, in_dtype="float32") for i in range(1, 20)]
many = carver.recommend_many(ops, "h200", 5)
plain = [carver.ElementwiseTemplate((16 * i, 512)) for i in range(1, 9)]  # no rule of their kernel reads a size
many += carver.recommend_many(plain, "h200", 5, backend="triton")
each = ([(h.kernel, dict(h.config), h.predicted_ms, dict(h.details)) for h in ranking] for ranking in many)
print(json.dumps([(hints, ranking.rejected) for hints, ranking in zip(each, many)]))
"""


@pytest.mark.slow
@pytest.mark.skipif(loops is None, reason="carver was built without its extension")
def test_answers_with_and_without_the_extension_are_the_same() -> None:
    """To 1e-12. Without it many problems are looked at together, with it one after the other."""
    asked = [
        subprocess.check_output([sys.executable, "-c", ASKED], env={**os.environ, "CARVER_PURE": pure})
        for pure in ("", "1")
    ]
    ours, theirs = map(json.loads, asked)
    for (hints, rejected), (others, removed) in zip(ours, theirs, strict=True):
        assert rejected == removed
        for (kernel, config, ms, details), (its, given, other_ms, told) in zip(hints, others, strict=True):
            assert (kernel, config) == (its, given)
            assert ms == pytest.approx(other_ms, rel=1e-12) and details == pytest.approx(told, rel=1e-12)
