"""Every construct of Triton's language is ranked, or refused in carver's words; loops that a compiler unrolled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import carver
from carver.base.errors import ConfigError
from carver.compiled.machine import Aside, Machine, MachineLoop, Span
from carver.compiled.match import matched
from carver.compiled.trace import Access, LoopTrace, Trace
from carver.compiled.triton import Target, hashed

pytest.importorskip("triton", reason="Triton is not installed")

from tests import any_kernels as kernels

pytestmark = pytest.mark.usefixtures("own_cache")
MI300X = carver.load_arch("mi300x")
REFUSED = {
    "assembly": ": invalid instruction",
    "mxfp8": "Unsupported DotScaleOp",
    "mxfp4": "Unsupported DotScaleOp",
}
"""What Triton 3.6 has no code for on an MI300X, in its words."""


@pytest.mark.slow
@pytest.mark.parametrize("title", kernels.CASES)
def test_every_construct_is_ranked_or_refused_in_words(title: str) -> None:
    said = kernels.outcome(kernels.CASES[title], MI300X)
    if title in REFUSED and " of " not in said[:6]:
        assert said.startswith("NoCandidates") and REFUSED[title] in said
    else:
        assert " us, " in said, said


def test_a_tool_that_triton_lacks_is_what_each_configuration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Triton before 3.5 asks for ROCm's linker, when a process that compiles in copies of itself prepares."""

    class Backend:
        def hash(self) -> str:
            raise Exception("ROCm linker not found")

    monkeypatch.setattr("carver.compiled.triton._backend", lambda target: Backend())
    hashed(Target("hip", "gfx942", 64))


@pytest.mark.slow
def test_parts_of_a_tuple_are_arguments() -> None:
    """The second of two numbers is 1, so a constant; 4,000 of 4,096 elements, of 2 and 4 bytes, are asked for."""
    case = kernels.CASES["tuples"]
    [hint] = carver.rank_kernel(
        case.kernel, case.configs, args=case.args, grid=case.grid, arch="rtx_4090", values={"sources.0": 0}
    )
    moved = {each.argument: round(each.program_bytes) for each in hint.facts.accesses}
    assert moved == {"sources.0": 500, "sources.1": 1000, "y_ptr": 1024}
    with pytest.raises(ConfigError, match=r"argument 'counts\.0' is a list"):
        carver.rank_kernel(case.kernel, case.configs, args={**case.args, "counts": ([2],)}, grid=(1,), arch="h100")


def test_a_value_that_is_missing_is_named() -> None:
    case = kernels.CASES["ragged"]
    said = kernels.outcome(case._replace(values={}), MI300X)
    assert said.startswith("ProblemError") and next(iter(case.values)) in said


@pytest.mark.parametrize("arch", ["h100", "mi300x"])
def test_a_loop_that_waits_for_other_programs_is_passed_at_once(arch: str) -> None:
    """Whatever the lock and the flag hold: what is around runs as often as it says."""
    case = kernels.IN_TURN
    for values in ({}, {"lock_ptr": 1, "seen_ptr": 0}):
        [hint] = carver.rank_kernel(
            case.kernel, case.configs, args=case.args, grid=case.grid, arch=arch, values=values
        )
        loop = max(hint.facts.loops, key=lambda each: each.trips)
        assert loop.trips == 9 and loop.span.bytes["store global"] > 0


@pytest.mark.parametrize("arch", ["h100", "mi300x"])
@pytest.mark.parametrize(("grid", "sooner", "most"), [((512,), False, 511), ((64, 8), False, 63), ((512,), True, 0)])
def test_programs_that_wait_for_the_one_before_go_on_one_by_one(
    arch: str, grid: tuple[int, ...], sooner: bool, most: int
) -> None:
    """Along a row, whose rows go side by side; not where a program says that it is there before it waits itself."""
    args = {"x_ptr": carver.Tensor("float32", (512, 256)), "y_ptr": carver.Tensor("float32", (512, 256)),
            "flag_ptr": carver.Tensor("int32", (512,))}  # fmt: skip
    [hint] = carver.rank_kernel(
        kernels.one_by_one, [{"BLOCK": 256}], args=args, grid=grid, constants={"SOONER": sooner}, arch=arch
    )
    assert hint.facts.handed_on == most
    assert hint.predicted_ms > most * 5e-4 and (hint.bound == "latency" or most < 100)
    assert (f"{most} programs go on one after another" in hint.explain()) is (most > 0)


TAKEN = "assumed: undecided branches go one way, such loops run once, tickets in order"


@pytest.mark.parametrize("arch", ["h100", "mi300x"])
def test_a_branch_on_a_product_counts_as_taken_and_is_said(arch: str) -> None:
    """What it stores is counted, and table and facts say what was assumed; elsewhere nothing is said."""
    ranking = carver.rank_kernel(
        kernels.filtered, [kernels.TILE], args=kernels.MATRICES, grid=(8, 8), arch=arch
    )
    [hint] = ranking
    m, n = (kernels.MATRICES[name] for name in "MN")
    assert hint.facts.written_bytes == m * n * 2
    assert TAKEN in repr(ranking) and TAKEN in str(hint.facts)
    case = kernels.IN_TURN
    plain = carver.rank_kernel(case.kernel, case.configs, args=case.args, grid=case.grid, arch=arch)
    assert TAKEN not in repr(plain)


def test_a_branch_on_what_other_programs_wrote_needs_no_value() -> None:
    """The flag under a lock changes as the kernel runs: no caller has to say what it holds, though one may."""
    args = {"x_ptr": carver.Tensor("float32", (64, 256)), "y_ptr": carver.Tensor("float32", (4, 256)),
            "lock_ptr": carver.Tensor("int32", (8,))}  # fmt: skip
    for values in ({}, {"lock_ptr": 1}):
        ranking = carver.rank_kernel(
            kernels.summed_under_a_lock, [{"BLOCK": 256, "GROUPS": 4}], args=args, grid=(64,), arch="h100",
            values=values,
        )  # fmt: skip
        assert (TAKEN in repr(ranking)) is not bool(values)
        assert sum(a.program_bytes for a in ranking[0].facts.accesses if a.kind == "store") == 256 * 4


@pytest.mark.parametrize("tensors", [1, 6])
def test_tensors_whose_addresses_a_tensor_holds_are_read_once_each(tensors: int) -> None:
    """Two programs for each tile of a tensor read it once, and each entry of the table is a tensor of its own."""
    table = carver.Tensor("int64", (8,))
    args = {"from_ptr": table, "to_ptr": table, "n": 4096}
    for twice in (1, 2):
        [hint] = carver.rank_kernel(
            kernels.scaled_by_addresses, [{"BLOCK": 512}], args=args, grid=(8, tensors, twice), arch="h100"
        )
        assert hint.facts.read_bytes == pytest.approx(tensors * 4096 * 2, rel=0.02)
        assert hint.facts.written_bytes == pytest.approx(tensors * 4096 * 2)


@pytest.mark.parametrize(("arch", "starts"), [("h100", {}), ("mi300x", {}), ("h100", {"next_ptr": 24})])
def test_programs_draw_from_a_counter_in_turn(arch: str, starts: dict[str, int]) -> None:
    """All tiles from the counter's start on are done once, and the loop ends; it was refused for want of a number."""
    tensor = carver.Tensor("float16", (64 * 256,))
    args = {"x_ptr": tensor, "y_ptr": tensor, "next_ptr": carver.Tensor("int32", (1,)), "n": 64 * 256}
    [hint] = carver.rank_kernel(
        kernels.tiles_in_turn, [{"BLOCK": 256}], args=args, grid=(12,), arch=arch, values=starts
    )
    tiles = 64 - starts.get("next_ptr", 0)
    assert hint.facts.written_bytes - 4 == pytest.approx(tiles * 256 * 2, rel=0.01)
    [loop] = [each for each in hint.facts.loops if each.trips]
    assert loop.trips == pytest.approx(tiles / 12) and TAKEN in str(hint.facts)


def span(loaded: float) -> Span:
    none: dict[str, Any] = {}
    zeros = (0.0,) * 4
    moved, loads = {"load global": loaded}, {"load global": int(loaded // 256)}
    still = dict(alone_clk=zeros, cached_clk=zeros, tensor_clk=0.0)
    return Span(10, {"issue": 2.5}, none, none, 0.0, 0.0, moved, loads, 0, 0, none, **still)


def load(*walks: Any) -> Access:
    """Of tiles of 128 elements of two bytes, in the first loop."""
    what: dict[str, Any] = {"kind": "load", "path": "pointer", "argument": "x", "loop": 0}
    return Access(*walks, shape=(128,), item_bytes=2.0, coef=(1.0,), pieces=(None,), **what)


@pytest.mark.parametrize(("trips", "passes"), [(1, (0, 0, 1)), (3, (0, 1, 1)), (4, (1, 0, 0)), (15, (3, 1, 1))])
def test_an_unrolled_loop_leaves_what_it_leaves(trips: int, passes: tuple[int, int, int]) -> None:
    """Four iterations a pass, then two behind a branch, then one: 128 elements of two bytes a warp and iteration."""
    counts = np.full(3, float(trips))
    ones = np.ones(3)
    walk = load(ones, ones * 128, counts, ones, np.arange(3.0), ones * 0, ones)
    trace = Trace((3, 1, 1), 3, ((0, 3),), [LoopTrace("i", -1, counts, ones)], [walk])
    asides = (Aside(-1, 0, span(512)), Aside(-1, 0, span(256)), Aside(-1, -1, span(4)))
    machine = Machine(32, 0, span(0), (MachineLoop(-1, True, span(1024)),), asides)
    found = matched(machine, trace, warps=1)
    assert tuple(int(column[0]) for column in (*found.loops, *found.asides)) == (*passes, 1)


def test_code_that_reads_alike_goes_with_its_loop() -> None:
    """Two loops of the program, one that stores, and the machine's four: each with its rest behind it."""
    counts, ones = np.full(2, 9.0), np.ones(2)
    trace = Trace((2, 1, 1), 2, ((0, 2),), [LoopTrace("i", -1, counts, ones), LoopTrace("j", -1, counts, ones)], [])
    storing = replace(span(0), bytes={"load global": 512.0, "store global": 512.0})
    loops = tuple(MachineLoop(-1, True, each) for each in (span(1024), span(256), storing, storing))
    assert matched(Machine(32, 0, span(0), loops), trace, warps=1).whose == [0, 0, 1, 1]


def test_branches_that_a_compiler_lays_in_another_order() -> None:
    """The program's first loop loads, its second stores what it loads; the machine has the second first."""
    ones = np.ones(2)
    walk = load(ones, ones, ones, ones, np.arange(2.0), ones * 0, ones)
    accesses = [walk, replace(walk, loop=1), replace(walk, loop=1, kind="store", argument="y")]
    loops = [LoopTrace("i", -1, ones * 8, ones), LoopTrace("j", -1, ones * 16, ones)]
    trace = Trace((2, 1, 1), 2, ((0, 2),), loops, accesses)
    storing = replace(span(256), bytes={"load global": 256.0, "store global": 256.0})
    machine = Machine(32, 0, span(0), tuple(MachineLoop(-1, True, each) for each in (storing, span(256))))
    assert matched(machine, trace, warps=1).whose == [1, 0]


def test_a_loop_of_a_branch_that_no_program_takes_stands_for_none() -> None:
    """The program's loop loads; the machine has one that stores, for ignored rows say, before the one that loads."""
    counts, ones = np.full(2, 8.0), np.ones(2)
    walk = load(ones, ones, ones, ones, np.arange(2.0), ones * 0, ones)
    trace = Trace((2, 1, 1), 2, ((0, 2),), [LoopTrace("i", -1, counts, ones)], [replace(walk, count=counts)])
    storing = replace(span(0), bytes={"store global": 1024.0})
    machine = Machine(32, 0, span(0), tuple(MachineLoop(-1, True, each) for each in (storing, span(256))))
    found = matched(machine, trace, warps=1)
    assert found.whose == [-1, 0] and [float(n[0]) for n in found.loops] == [0.0, 8.0]
