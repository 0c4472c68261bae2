"""Trips, bytes and distinct bytes of kernels that one can count by hand, from their IR as text."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from carver.base.errors import ConfigError, KernelError, ProblemError
from carver.compiled import ttir
from carver.compiled.binary import given
from carver.compiled.footprint import Footprint, Touched
from carver.compiled.program import evaluate
from carver.compiled.stretches import Stretch, align_bytes, density, filled, tile_elements
from carver.compiled.trace import changed
from carver.compiled.triton import grid_of
from carver.compiled.turns import Turn, in_turn
from carver.compiled.values import Value, binary, compared, known, share, unknown

HEAD = "module {\n  tt.func public @kernel(%s) attributes {noinline = false} {\n"
END = "    tt.return\n  }\n}\n"
POINTER = "!tt.ptr<f16> {tt.divisibility = 16 : i32}"
INDEX = "!tt.ptr<i32> {tt.divisibility = 16 : i32}"


def module(params: str, body: str) -> str:
    return HEAD % params + body + END


CAUSAL = module(
    f"%k: {POINTER}, %seq: i32",
    """
    %c0 = arith.constant 0 : i32
    %c32 = arith.constant 32 : i32
    %c64 = arith.constant 64 : i32
    %c1 = arith.constant 1 : i32
    %pid = tt.get_program_id x : i32
    %next = arith.addi %pid, %c1 : i32
    %end = arith.muli %next, %c64 : i32
    %last = arith.minsi %end, %seq : i32
    %range = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %bound = tt.splat %seq : i32 -> tensor<32xi32>
    scf.for %start = %c0 to %last step %c32  : i32 {
      %first = tt.splat %start : i32 -> tensor<32xi32>
      %at = arith.addi %first, %range : tensor<32xi32>
      %inside = arith.cmpi slt, %at, %bound : tensor<32xi32>
      %base = tt.splat %k : !tt.ptr<f16> -> tensor<32x!tt.ptr<f16>>
      %where = tt.addptr %base, %at : tensor<32x!tt.ptr<f16>>, tensor<32xi32>
      %x = tt.load %where, %inside : tensor<32x!tt.ptr<f16>>
    }
""",
)


def test_a_causal_loop_runs_as_often_as_its_diagonal_says() -> None:
    trace = evaluate(CAUSAL, [("k", None), ("seq", 200)], (4, 1, 1))
    assert trace.loops[0].trips.tolist() == [2, 4, 6, 7]  # ceil(min(64 (i + 1), 200) / 32)


@pytest.mark.parametrize(("where", "said"), [
    ('loc(#loc3)\n#loc1 = loc("/home/me/k.py":12:4)\n#loc3 = loc("acc"(#loc1))', "k.py:12"),
    ('loc("acc"("k.py":7:0))', "k.py:7"), ('loc("/tmp/ipykernel_12/298.py":21:4)', "cell:21"),
    ("loc(#loc9)", ""), ("", ""),
    ('loc(#loc2)\n#loc1 = loc("k.py":3:1)\n#loc0 = loc("h.py":9:1)\n#loc2 = loc(callsite(#loc0 at #loc1))', "h.py:9"),
])
def test_a_loop_knows_its_line_of_the_source(where: str, said: str) -> None:
    """MLIR's locations: of a name that stands for a place, of a place itself, and of a function that was inlined."""
    at, _, names = where.partition("\n")
    text = CAUSAL.replace("    }\n", f"    }} {at}\n")
    trace = evaluate(f"{text}\n{names}", [("k", None), ("seq", 200)], (4, 1, 1))
    assert [loop.where for loop in trace.loops] == [said]


def test_masks_count_what_they_let_through() -> None:
    trace = evaluate(CAUSAL, [("k", None), ("seq", 200)], (4, 1, 1))
    load = trace.accesses[0]
    taken = load.count * load.times * load.kept * math.prod(load.shape)
    assert taken.tolist() == [64, 128, 192, 200]


def test_what_programs_share_is_read_once() -> None:
    trace = evaluate(CAUSAL, [("k", None), ("seq", 256)], (4, 1, 1))
    reads = Footprint(trace, ("load",), {"k": 512.0})
    assert reads.distinct == {"k": 512.0}
    everything = reads.waves(1).total_bytes  # each program its own wave: 64 + 128 + 192 + 256 elements
    assert everything == pytest.approx(2 * (64 + 128 + 192 + 256))
    assert reads.waves(4).total_bytes == pytest.approx(512.0)


TILES = module(
    f"%a: {POINTER}, %m: i32, %stride: i32",
    """
    %c16 = arith.constant 16 : i32
    %pid = tt.get_program_id x : i32
    %row = arith.muli %pid, %c16 : i32
    %rows = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %first = tt.splat %row : i32 -> tensor<16xi32>
    %r = arith.addi %first, %rows : tensor<16xi32>
    %column = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %s = tt.splat %stride : i32 -> tensor<16x1xi32>
    %down = arith.muli %column, %s : tensor<16x1xi32>
    %cols = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %line = tt.expand_dims %cols {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
    %wide = tt.broadcast %down : tensor<16x1xi32> -> tensor<16x64xi32>
    %across = tt.broadcast %line : tensor<1x64xi32> -> tensor<16x64xi32>
    %at = arith.addi %wide, %across : tensor<16x64xi32>
    %base = tt.splat %a : !tt.ptr<f16> -> tensor<16x64x!tt.ptr<f16>>
    %where = tt.addptr %base, %at : tensor<16x64x!tt.ptr<f16>>, tensor<16x64xi32>
    %bound = tt.splat %m : i32 -> tensor<16x1xi32>
    %inside = arith.cmpi slt, %column, %bound : tensor<16x1xi32>
    %mask = tt.broadcast %inside : tensor<16x1xi1> -> tensor<16x64xi1>
    %x = tt.load %where, %mask : tensor<16x64x!tt.ptr<f16>>
    tt.store %where, %x, %mask : tensor<16x64x!tt.ptr<f16>>
""",
)


def test_a_tile_has_runs_an_alignment_and_an_edge() -> None:
    trace = evaluate(TILES, [("a", None), ("m", 40), ("stride", 100)], (3, 1, 1))
    load, store = trace.accesses
    assert (load.kind, store.kind) == ("load", "store")
    assert load.coef == (100.0, 1.0)
    assert load.start.tolist() == [0, 1600, 3200]
    assert load.kept.tolist() == [1, 1, 0.5]  # of rows 32 to 47, 8 are there
    assert Stretch.of(load, 32) == Stretch(128.0, 128.0, 128.0, 1.0)
    assert align_bytes(load) == 8.0  # rows of 200 bytes
    assert tile_elements(load) == 16 * 64


PACKED = module(
    f"%w: {POINTER}",
    """
    %eight = arith.constant dense<8> : tensor<64xi32>
    %k = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %word = arith.divsi %k, %eight : tensor<64xi32>
    %base = tt.splat %w : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>>
    %where = tt.addptr %base, %word : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
    %x = tt.load %where : tensor<64x!tt.ptr<f16>>
""",
)


def test_elements_that_share_a_word_are_one() -> None:
    [load] = evaluate(PACKED, [("w", None)], (1, 1, 1)).accesses
    assert tile_elements(load) == 8
    assert Stretch.of(load, 32).run_bytes == 16.0


PAIRS = module(
    f"%x: {POINTER}, %y: {POINTER}",
    """
    %rows = tt.get_program_id x : i32
    %pitch = arith.constant 128 : i32
    %row = arith.muli %rows, %pitch : i32
    %two = arith.constant dense<2> : tensor<64xi32>
    %one = arith.constant dense<1> : tensor<64xi32>
    %line = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %even = arith.muli %line, %two : tensor<64xi32>
    %odd = arith.addi %even, %one : tensor<64xi32>
    %from = tt.addptr %x, %row : !tt.ptr<f16>, i32
    %to = tt.addptr %y, %row : !tt.ptr<f16>, i32
    %source = tt.splat %from : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>>
    %target = tt.splat %to : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>>
    %evens = tt.addptr %source, %even : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
    %odds = tt.addptr %source, %odd : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
    %results = tt.addptr %target, %odd : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
    %a = tt.load %evens : tensor<64x!tt.ptr<f16>>
    %b = tt.load %odds : tensor<64x!tt.ptr<f16>>
    %c = arith.addf %a, %b : tensor<64xf16>
    tt.store %results, %c : tensor<64x!tt.ptr<f16>>
""",
)


def test_pairs_share_sectors() -> None:
    """Two loads that read every other element read whole sectors between them, and the second finds them in L1; a store
    of every other element writes half sectors."""
    trace = evaluate(PAIRS, [("x", None), ("y", None)], (4, 1, 1))
    stretches = [Stretch.of(access, 32) for access in trace.accesses]
    assert stretches == [Stretch(2.0, 256.0, 128.0, 2.0)] * 3
    assert [density(*each, trace.accesses) for each in zip(trace.accesses, stretches, strict=True)] == [1.0, 1.0, 0.5]
    assert [align_bytes(access, 2.0) for access in trace.accesses] == [128.0] * 3
    [even, odd, _] = trace.accesses
    assert density(even, stretches[0], [even]) == density(odd, stretches[1], [odd]) == 0.5
    assert Stretch.of(even, 4) == Stretch(2.0, 2.0, 2.0, 1.0)  # no two of them in a sector


ROOTS = module(
    f"%a: {POINTER}, %n: i32",
    """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1  : i32 {
      %f = arith.sitofp %i : i32 to f32
      %root = math.sqrt %f : f32
      %place = arith.fptosi %root : f32 to i32
      %at = tt.addptr %a, %place : !tt.ptr<f16>, i32
      %x = tt.load %at : !tt.ptr<f16>
    }
""",
)


def test_places_that_floats_become_in_a_loop_are_looked_at_one_by_one() -> None:
    """Three iterations say all only of places that step evenly."""
    [load] = evaluate(ROOTS, [("a", None), ("n", 16)], (1, 1, 1)).accesses
    assert sorted(load.start.tolist()) == [math.isqrt(i) for i in range(16)]


PERSISTENT = module(
    f"%a: {POINTER}, %tiles: i32, %depth: i32",
    """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %step = tt.get_num_programs x : i32
    scf.for %tile = %pid to %tiles step %step  : i32 {
      %first = arith.muli %tile, %depth : i32
      %bound = arith.addi %tile, %c1 : i32
      scf.for %k = %c0 to %bound step %c1  : i32 {
        %place = arith.addi %first, %k : i32
        %at = tt.addptr %a, %place : !tt.ptr<f16>, i32
        %x = tt.load %at : !tt.ptr<f16>
      }
    }
""",
)


SELECTED = module(
    f"%a: {POINTER}, %i: {INDEX}, %m: i32",
    """
    %c16 = arith.constant dense<16> : tensor<32xi32>
    %c0 = arith.constant dense<0> : tensor<32xi32>
    %range = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %base = tt.splat %a : !tt.ptr<f16> -> tensor<32x!tt.ptr<f16>>
    %bound = tt.splat %m : i32 -> tensor<32xi32>
    %half = arith.cmpi sge, %range, %c16 : tensor<32xi32>
    %back = arith.subi %range, %c16 : tensor<32xi32>
    %wrapped = arith.select %half, %back, %range : tensor<32xi1>, tensor<32xi32>
    %w = tt.addptr %base, %wrapped : tensor<32x!tt.ptr<f16>>, tensor<32xi32>
    %x = tt.load %w : tensor<32x!tt.ptr<f16>>
    %inside = arith.cmpi slt, %range, %bound : tensor<32xi32>
    %clamped = arith.select %inside, %range, %c0 : tensor<32xi1>, tensor<32xi32>
    %v = tt.addptr %base, %clamped : tensor<32x!tt.ptr<f16>>, tensor<32xi32>
    %y = tt.load %v : tensor<32x!tt.ptr<f16>>
    %index = tt.splat %i : !tt.ptr<i32> -> tensor<32x!tt.ptr<i32>>
    %places = tt.addptr %index, %range : tensor<32x!tt.ptr<i32>>, tensor<32xi32>
    %loaded = tt.load %places : tensor<32x!tt.ptr<i32>>
    %odd = arith.cmpi slt, %loaded, %c16 : tensor<32xi32>
    %either = arith.select %odd, %back, %range : tensor<32xi1>, tensor<32xi32>
    %u = tt.addptr %base, %either : tensor<32x!tt.ptr<f16>>, tensor<32xi32>
    %z = tt.load %u : tensor<32x!tt.ptr<f16>>
""",
)


def test_what_a_mask_selects_steps_as_most_of_it_does() -> None:
    """Halves of a rotary embedding, rows behind the end that read the first one, and one of two by what is loaded."""
    trace = evaluate(SELECTED, [("a", None), ("i", None), ("m", 30)], (1, 1, 1))
    wrapped, clamped, _, either = trace.accesses
    assert (wrapped.coef, clamped.coef, either.coef) == ((1.0,), (1.0,), (1.0,))
    assert clamped.start.tolist() == [0.0] and np.isnan(either.start).all()
    few = evaluate(SELECTED, [("a", None), ("i", None), ("m", 3)], (1, 1, 1)).accesses[1]
    assert few.coef == (0.0,)


KEPT = module(
    f"%x: {INDEX}, %y: {INDEX}",
    """
    %zero = arith.constant dense<0> : tensor<64xi32>
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %base = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %where = tt.addptr %base, %range : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %key = tt.load %where : tensor<64x!tt.ptr<i32>>
    %low = arith.cmpi slt, %key, %zero : tensor<64xi32>
    %one = arith.extui %low : tensor<64xi1> to tensor<64xi32>
    %count = "tt.scan"(ONE) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%a: i32, %b: i32):
      %sum = arith.addi %a, %b : i32
      tt.scan.return %sum : i32
    }) : (tensor<64xi32>) -> tensor<64xi32>
    %out = tt.splat %y : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %there = tt.addptr %out, %count : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    tt.store %there, %key, %low : tensor<64x!tt.ptr<i32>>
""",
)


def test_running_counts_of_what_a_mask_keeps_lie_side_by_side() -> None:
    stored = evaluate(KEPT.replace("ONE", "%one"), [("x", None), ("y", None)], (4, 1, 1)).accesses[-1]
    assert stored.coef == (1.0,) and math.isnan(stored.start[0])
    there = "%there = tt.addptr %out, "
    before = f"%place = arith.subi %count, %one : tensor<64xi32>\n    {there}%place"
    before = KEPT.replace("ONE", "%one").replace(f"{there}%count", before)
    assert evaluate(before, [("x", None), ("y", None)], (4, 1, 1)).accesses[-1].coef == (1.0,)
    lengths = evaluate(KEPT.replace("ONE", "%key"), [("x", None), ("y", None)], (4, 1, 1)).accesses[-1]
    assert math.isnan(lengths.coef[0])  # sums of any numbers do not


def test_places_that_are_computed_without_loads_are_known_one_by_one() -> None:
    """Of 64 squares, all lie in other sectors of eight numbers but the first."""
    square = KEPT[: KEPT.index("%zero")] + """%range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %f = arith.sitofp %range : tensor<64xi32> to tensor<64xf32>
    %ff = arith.mulf %f, %f : tensor<64xf32>
    %root = math.sqrt %ff : tensor<64xf32>
    %again = arith.mulf %root, %root : tensor<64xf32>
    %i = arith.fptosi %again : tensor<64xf32> to tensor<64xi32>
    %base = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %where = tt.addptr %base, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %key = tt.load %where : tensor<64x!tt.ptr<i32>>
""" + END
    load = evaluate(square, [("x", None), ("y", None)], (4, 1, 1)).accesses[0]
    assert load.placed.sector_bytes == 32 * len({i * i // 8 for i in range(64)})
    turned = """%three = arith.constant 3.000000e+00 : f32
    %power = math.exp2 %three : f32
    %eight = arith.fptosi %power : f32 to i32
    %many = tt.splat %eight : i32 -> tensor<64xi32>
    %j = arith.xori %i, %many : tensor<64xi32>
    %base ="""
    load = evaluate(square.replace("%base =", turned).replace("%base, %i", "%base, %j"), [("x", None), ("y", None)],
                    (4, 1, 1)).accesses[0]  # fmt: skip
    assert load.placed.sector_bytes == 32 * len({(i * i ^ 8) // 8 for i in range(64)})


def test_an_inner_bound_may_depend_on_an_outer_counter() -> None:
    trace = evaluate(PERSISTENT, [("a", None), ("tiles", 7), ("depth", 100)], (3, 1, 1))
    outer, inner = trace.loops
    assert (outer.parent, inner.parent) == (-1, 0)
    assert outer.trips.tolist() == [3, 2, 2]  # tiles 0 3 6, 1 4, 2 5
    assert inner.trips.tolist() == [1 + 4 + 7, 2 + 5, 3 + 6]
    assert Footprint(trace, ("load",), {}).distinct == {"a": 2.0 * sum(range(1, 8))}


EARLY = module(
    f"%a: {POINTER}, %n: i32",
    """
    %pid = tt.get_program_id x : i32
    %done = arith.cmpi sge, %pid, %n : i32
    cf.cond_br %done, ^bb1, ^bb2
  ^bb1:  // pred: ^bb0
    tt.return
  ^bb2:  // pred: ^bb0
    %at = tt.addptr %a, %pid : !tt.ptr<f16>, i32
    %x = tt.load %at : !tt.ptr<f16>
""",
)


def test_programs_that_return_early_load_nothing() -> None:
    [load] = evaluate(EARLY, [("a", None), ("n", 3)], (8, 1, 1)).accesses
    assert load.program.tolist() == [0, 1, 2]


WHILE = module(
    f"%a: {POINTER}, %n: i32",
    """
    %pid = tt.get_program_id x : i32
    %programs = tt.get_num_programs x : i32
    %end = scf.while (%i = %pid) : (i32) -> i32 {
      %more = arith.cmpi slt, %i, %n : i32
      scf.condition(%more) %i : i32
    } do {
    ^bb0(%j: i32):
      %at = tt.addptr %a, %j : !tt.ptr<f16>, i32
      %x = tt.load %at : !tt.ptr<f16>
      %next = arith.addi %j, %programs : i32
      scf.yield %next : i32
    }
    %last = tt.addptr %a, %end : !tt.ptr<f16>, i32
    tt.store %last, %x0 : !tt.ptr<f16>
""",
)


def test_a_while_loop_is_run_and_its_result_used() -> None:
    trace = evaluate(WHILE, [("a", None), ("n", 10)], (4, 1, 1))
    assert trace.loops[0].trips.tolist() == [3, 3, 2, 2]
    store = next(access for access in trace.accesses if access.kind == "store")
    assert sorted(store.start.tolist()) == [10, 11, 12, 13]


WAITING = module(
    f"%a: {POINTER}, %flags: !tt.ptr<i32>",
    """
    %c0 = arith.constant 0 : i32
    %pid = tt.get_program_id x : i32
    %at = tt.addptr %flags, %pid : !tt.ptr<i32>, i32
    %first = tt.load %at : !tt.ptr<i32>
    %flag = scf.while (%i = %first) : (i32) -> i32 {
      %more = arith.cmpi eq, %i, %c0 : i32
      scf.condition(%more) %i : i32
    } do {
    ^bb0(%j: i32):
      %next = tt.load %at : !tt.ptr<i32>
      tt.store %a, %x0 : !tt.ptr<f16>
      scf.yield %next : i32
    }
    %to = tt.addptr %a, %flag : !tt.ptr<f16>, i32
    tt.store %to, %x0 : !tt.ptr<f16>
""",
)


@pytest.mark.parametrize("held", [0, np.array([5, 0, 5, 0])])
def test_a_wait_for_other_programs_is_refused_at_once(held: Any) -> None:
    """It also stores, so that its passes count; as nothing ends them, all that are allowed would be followed."""
    with pytest.raises(ProblemError, match=r"waits until another program changes what 'flags' holds.*values="):
        evaluate(WAITING, [("a", None), ("flags", None)], (4, 1, 1), {"flags": held})


CHAIN = module(
    f"%next: {INDEX}, %x: {INDEX}, %steps: i32",
    """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %at = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %links = tt.splat %next : !tt.ptr<i32> -> tensor<32x!tt.ptr<i32>>
    %last = scf.for %i = %c0 to %steps step %c1 iter_args(%node = %at) -> (tensor<32xi32>)  : i32 {
      %from = tt.addptr %links, %node : tensor<32x!tt.ptr<i32>>, tensor<32xi32>
      %to = tt.load %from : tensor<32x!tt.ptr<i32>>
      scf.yield %to : tensor<32xi32>
    }
    %first = tt.splat %x : !tt.ptr<i32> -> tensor<32x!tt.ptr<i32>>
    %where = tt.addptr %first, %last : tensor<32x!tt.ptr<i32>>, tensor<32xi32>
    %held = tt.load %where : tensor<32x!tt.ptr<i32>>
""",
)


def test_a_long_chain_of_loads_is_followed_to_its_end() -> None:
    """Of so many steps that no interpreter's stack has place for them: each comes from where the last one led."""
    links = np.random.default_rng(7).permutation(64)
    want = np.arange(32)
    for _ in range(600):
        want = links[want]
    trace = evaluate(CHAIN, [("next", None), ("x", None), ("steps", 600)], (2, 1, 1), {"next": links})
    load = next(access for access in trace.accesses if access.argument == "x")
    assert load.drawn.tolist() == [*want, *want]


OTHERWISE = module(
    f"%ids: {INDEX}, %x: {INDEX}, %n: i32",
    """
    %c1 = arith.constant 1 : i32
    %c40 = arith.constant dense<40> : tensor<8xi32>
    %pid = tt.get_program_id x : i32
    %at = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %bound = tt.splat %n : i32 -> tensor<8xi32>
    %mask = arith.cmpi slt, %at, %bound : tensor<8xi32>
    %firsts = tt.splat %ids : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %from = tt.addptr %firsts, %at : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %id = tt.load %from, %mask, %c40 : tensor<8x!tt.ptr<i32>>
    %first = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %where = tt.addptr %first, %id : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %held = tt.load %where : tensor<8x!tt.ptr<i32>>
    %own = tt.addptr %ids, %pid : !tt.ptr<i32>, i32
    %here = arith.cmpi slt, %pid, %c1 : i32
    %c9 = arith.constant 9 : i32
    %one = tt.load %own, %here, %c9 : !tt.ptr<i32>
    %to = tt.addptr %x, %one : !tt.ptr<i32>, i32
    tt.store %to, %c1 : !tt.ptr<i32>
""",
)


def test_what_a_mask_holds_back_is_what_its_load_says() -> None:
    """Of eight places, those of the first five are loaded and the others 40; and of two programs, the second's is 9."""
    ids = np.arange(8) ** 2 % 37 + 2
    trace = evaluate(OTHERWISE, [("ids", None), ("x", None), ("n", 5)], (2, 1, 1), {"ids": ids})
    load, store = (access for access in trace.accesses if access.argument == "x")
    assert load.drawn.tolist() == 2 * [*ids[:5], 40, 40, 40] and store.start.tolist() == [2, 9]


PROBES = module(
    f"%table: {INDEX}, %n: i32",
    """
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %ones = arith.constant dense<1> : tensor<8xi32>
    %gap = arith.constant dense<-1> : tensor<8xi32>
    %pid = tt.get_program_id x : i32
    %first = arith.muli %pid, %c8 : i32
    %firsts = tt.splat %first : i32 -> tensor<8xi32>
    %range = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %at = arith.addi %firsts, %range : tensor<8xi32>
    %bound = tt.splat %n : i32 -> tensor<8xi32>
    %mask = arith.cmpi slt, %at, %bound : tensor<8xi32>
    %places = tt.splat %table : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %end:2 = scf.while (%place = %at, %looks = %mask) : (tensor<8xi32>, tensor<8xi1>) -> (tensor<8xi32>, tensor<8xi1>) {
      %whole = arith.extui %looks : tensor<8xi1> to tensor<8xi32>
      %most = "tt.reduce"(%whole) <{axis = 0 : i32}> ({
      ^bb0(%a: i32, %b: i32):
        %c = arith.maxsi %a, %b : i32
        tt.reduce.return %c : i32
      }) : (tensor<8xi32>) -> i32
      %more = arith.cmpi sgt, %most, %c0 : i32
      scf.condition(%more) %place, %looks : tensor<8xi32>, tensor<8xi1>
    } do {
    ^bb0(%p: tensor<8xi32>, %l: tensor<8xi1>):
      %from = tt.addptr %places, %p : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      %there = tt.load %from, %l, %gap : tensor<8x!tt.ptr<i32>>
      %taken = arith.cmpi ne, %there, %gap : tensor<8xi32>
      %still = arith.andi %l, %taken : tensor<8xi1>
      %next = arith.addi %p, %ones : tensor<8xi32>
      scf.yield %next, %still : tensor<8xi32>, tensor<8xi1>
    }
""",
)


def test_a_loop_until_no_element_is_left_is_followed_or_passes_once() -> None:
    """Places of a table from which programs go on to the next gap: each passes as often as its slowest place. Where
    nobody tells the table, one pass is assumed of those that have any place."""
    table = np.where(np.arange(40) % 10 == 9, -1, 5)
    asked = PROBES, [("table", None), ("n", 20)], (4, 1, 1)
    told, untold = evaluate(*asked, {"table": table}), evaluate(*asked)
    ends = [[next(k for k in range(10) if table[at + k] < 0) + 1 for at in range(8 * pid, min(8 * pid + 8, 20))]
            for pid in range(4)]  # fmt: skip
    assert told.loops[0].trips.tolist() == [max(each, default=0) for each in ends] and not told.assumed
    assert untold.loops[0].trips.tolist() == [1, 1, 1, 0] and untold.assumed


LENGTHS = module(
    f"%table: {INDEX}",
    """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c8 = arith.constant 8 : i32
    %pid = tt.get_program_id x : i32
    %first = arith.muli %pid, %c8 : i32
    %firsts = tt.splat %first : i32 -> tensor<8xi32>
    %range = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %at = arith.addi %firsts, %range : tensor<8xi32>
    %places = tt.splat %table : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %from = tt.addptr %places, %at : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %held = tt.load %from : tensor<8x!tt.ptr<i32>>
    %row = tt.expand_dims %held {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
    %flat = tt.reshape %row allow_reorder : tensor<8x1xi32> -> tensor<8xi32>
    %most = "tt.reduce"(%flat) <{axis = 0 : i32}> ({
    ^bb0(%a: i32, %b: i32):
      %c = arith.maxsi %a, %b : i32
      tt.reduce.return %c : i32
    }) : (tensor<8xi32>) -> i32
    scf.for %k = %c0 to %most step %c1 : i32 {
      tt.store %from, %held : tensor<8x!tt.ptr<i32>>
      scf.yield
    }
""",
)


def test_a_loop_to_the_largest_of_all_dimensions_is_followed() -> None:
    """As over the neighbours of the nodes of a tile: `tl.max` of a tensor flattens it first."""
    table = np.random.default_rng(3).integers(0, 50, 32)
    trace = evaluate(LENGTHS, [("table", None)], (4, 1, 1), {"table": table})
    assert trace.loops[0].trips.tolist() == table.reshape(4, 8).max(1).tolist()


def test_a_loop_that_leaves_elements_for_ever_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table without a gap, as a full one of hashes: no more passes are followed than some for all programs."""
    monkeypatch.setattr("carver.compiled.program.MOST_PASSES", 100)
    trace = evaluate(PROBES, [("table", None), ("n", 32)], (4, 1, 1), {"table": np.ones(40)})
    assert trace.loops[0].trips.tolist() == [25] * 4 and trace.assumed


def test_what_is_not_known_may_change_in_a_pass() -> None:
    """As places in a table of hashes, of which each lane tries the next until its key is there: it waits for nobody."""
    at, key = unknown(1), Value(np.array([7, 7]))
    assert changed([key, at], [key, at], 2).all() and not changed([key], [key], 2).any()


def test_a_wait_that_is_over_is_no_loop() -> None:
    trace = evaluate(WAITING, [("a", None), ("flags", None)], (4, 1, 1), {"flags": 7})
    assert trace.loops[0].trips.tolist() == [0, 0, 0, 0]
    assert [a.start.tolist() for a in trace.accesses if a.kind == "store"][-1] == [7, 7, 7, 7]


def test_what_a_wait_ends_with_is_not_what_was_there_before() -> None:
    """Zeros before the launch; at the end of the wait something else, of which only `values` that end it tell."""
    text = WAITING.replace("tt.store %a, %x0 : !tt.ptr<f16>\n      scf", "scf")
    loop = "scf.for %n = %c0 to %flag step %flag  : i32 {\n %x = tt.load %a : !tt.ptr<f16>\n }\n"
    text = text.replace("%to =", f"{loop}%to =")
    with pytest.raises(ProblemError, match=r"depends on what the kernel computes from 'flags'"):
        evaluate(text, [("a", None), ("flags", None)], (4, 1, 1), {"flags": 0})
    trace = evaluate(text, [("a", None), ("flags", None)], (4, 1, 1), {"flags": 3})
    assert [loop.trips.tolist() for loop in trace.loops] == [[1, 1, 1, 1]]


LOCKED = module(
    "%locks: !tt.ptr<i32>",
    """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %pid = tt.get_program_id x : i32
    %which = arith.remsi %pid, %c2 : i32
    %lock = tt.addptr %locks, %which : !tt.ptr<i32>, i32
    scf.while : () -> () {
      %held = tt.atomic_cas acq_rel, gpu, %lock, %c0, %c1 : (!tt.ptr<i32>, i32, i32) -> i32
      %more = arith.cmpi eq, %held, %c1 : i32
      scf.condition(%more)
    } do {
      scf.yield
    }
""",
)


def test_programs_that_take_one_lock_or_their_turns_are_counted() -> None:
    """Half of them each, of those that run together; where the word is swapped for the same, or all await the same,
    they only wait for a flag."""
    arguments = [("locks", None)]

    def turns(text: str, slots: int = 8) -> tuple[float, float]:
        trace = evaluate(text, arguments, (8, 1, 1))
        return in_turn(trace.turns, slots, trace.ranges, 1.0)

    assert [turns(LOCKED, slots) for slots in (1, 2, 8)] == [(8, 0), (4, 0), (4, 0)]
    added = LOCKED.replace("tt.atomic_cas acq_rel, gpu, %lock, %c0, %c1 : (!tt.ptr<i32>, i32, i32)",
                           "tt.atomic_rmw add, acquire, gpu, %lock, %c0, %t : (!tt.ptr<i32>, i32, i1)")  # fmt: skip
    added = added.replace("%c2 =", "%t = arith.constant true\n    %c2 =")
    own = added.replace("cmpi eq, %held, %c1", "cmpi ne, %held, %pid")
    assert turns(own) == (4, 0)
    for text in (added, LOCKED.replace("%c0, %c1 :", "%c1, %c1 :")):
        assert turns(text) == (0, 0)
    waits = evaluate(WAITING, [("a", None), ("flags", None)], (4, 1, 1), {"flags": 7})
    assert in_turn(waits.turns, 8, waits.ranges, 1.0) == (0, 0)


def test_programs_go_on_one_by_one_along_what_each_stores_for_the_next() -> None:
    """32 programs that wait for the one before in rows of 8: side by side where all run, and where 4 run at a time,
    which have half of a row behind them, one row after another. A row without an end in sight has none beside it."""
    at = np.arange(32)
    inner = at[at % 8 > 0]
    steps = [Turn("flag", inner, inner - 1, "wait"), Turn("flag", at, at, "store")]
    assert in_turn(steps, 32, ((0, 32),), 1.0) == (0, 7)
    assert in_turn(steps, 4, ((0, 32),), 1.0) == (0, 28 / (8 / 7))
    one = [Turn("flag", at[1:], at[:-1], "wait"), Turn("flag", at, at, "store")]
    assert in_turn(one, 4, ((0, 32),), 1.0) == (0, 31) and in_turn(one, 64, ((0, 16), (16, 32)), 10.0) == (0, 310)
    other = [replace(steps[0], source="other"), steps[1]]
    assert in_turn(other, 32, ((0, 32),), 1.0) == in_turn([steps[1], *steps], 32, ((0, 32),), 1.0) == (0, 0)


def test_a_loop_that_tests_the_same_for_ever_says_so() -> None:
    text = WHILE.replace("scf.yield %next", "scf.yield %j")
    with pytest.raises(ProblemError, match="never ends"):
        evaluate(text.replace("%x = tt.load %at : !tt.ptr<f16>", ""), [("a", None), ("n", 10)], (4, 1, 1))


RAGGED = module(
    "%a: !tt.ptr<f16>, %lengths: !tt.ptr<i32>",
    """
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %pid = tt.get_program_id x : i32
    %where = tt.addptr %lengths, %pid : !tt.ptr<i32>, i32
    %length = tt.load %where : !tt.ptr<i32>
    scf.for %start = %c0 to %length step %c8  : i32 {
      %at = tt.addptr %a, %start : !tt.ptr<f16>, i32
      %x = tt.load %at : !tt.ptr<f16>
    }
""",
)


def test_values_say_what_the_kernel_loads() -> None:
    args = [("a", None), ("lengths", None)]
    assert evaluate(RAGGED, args, (3, 1, 1), {"lengths": 20}).loops[0].trips.tolist() == [3, 3, 3]
    ragged = evaluate(RAGGED, args, (3, 1, 1), {"lengths": np.array([8, 0, 33])})
    assert ragged.loops[0].trips.tolist() == [1, 0, 5]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ProblemError, match=r"how often the loop over start runs.*'lengths'.*values="):
        evaluate(RAGGED, [("a", None), ("lengths", None)], (3, 1, 1))


ADVANCED = module(
    f"%a: {POINTER}, %n: i32",
    """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %by = arith.constant dense<128> : tensor<64xi32>
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %base = tt.splat %a : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>>
    %first = tt.addptr %base, %range : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
    %end = scf.for %i = %c0 to %n step %c1 iter_args(%p = %first) -> (tensor<64x!tt.ptr<f16>>)  : i32 {
      %x = tt.load %p : tensor<64x!tt.ptr<f16>>
      %next = tt.addptr %p, %by : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
      scf.yield %next : tensor<64x!tt.ptr<f16>>
    }
    tt.store %end, %x0 : tensor<64x!tt.ptr<f16>>
""",
)


def test_a_pointer_that_is_advanced_walks() -> None:
    load, store = evaluate(ADVANCED, [("a", None), ("n", 50)], (1, 1, 1)).accesses
    assert (load.stride.tolist(), load.count.tolist()) == ([128], [50])
    assert store.start.tolist() == [50 * 128]


def test_a_pointer_that_becomes_another_tensors_is_told_apart() -> None:
    """A state that the first step reads from one tensor, and each later one where the step before stored it."""
    later = """%step = arith.muli %i, %n : i32
      %there = tt.addptr %b, %step : !tt.ptr<f16>, i32
      %wide = tt.splat %there : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>>
      %next = tt.addptr %wide, %range : tensor<64x!tt.ptr<f16>>, tensor<64xi32>"""
    text = ADVANCED.replace(f"%a: {POINTER}", f"%a: {POINTER}, %b: {POINTER}").replace(
        "%next = tt.addptr %p, %by : tensor<64x!tt.ptr<f16>>, tensor<64xi32>", later
    )
    loads = [a for a in evaluate(text, [("a", None), ("b", None), ("n", 9)], (1, 1, 1)).accesses if a.kind == "load"]
    walks = [(a.argument, a.start.tolist(), a.stride.tolist(), a.count.tolist()) for a in loads]
    assert walks == [("a", [0], [0], [1]), ("b", [0], [9], [8])]


def test_of_a_large_grid_a_part_is_evaluated() -> None:
    trace = evaluate(TILES, [("a", None), ("m", 10**8), ("stride", 64)], (10**6, 1, 1))
    assert trace.programs <= 8 * 4224
    looped = evaluate(CAUSAL, [("k", None), ("seq", 200)], (10**6, 1, 1))
    assert looped.programs <= 4224
    read = Footprint(trace, ("load",), {"a": 2.0 * 64 * 16 * 10**6}).distinct["a"]
    assert read == pytest.approx(2.0 * 64 * 16 * 10**6)


ROUND = module(
    f"%a: {POINTER}, %b: {POINTER}, %period: i32",
    """
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %place = arith.remsi %pid, %period : i32
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %own = arith.muli %pid, %c64 : i32
    %first = tt.splat %own : i32 -> tensor<64xi32>
    %at = arith.addi %first, %range : tensor<64xi32>
    %base = tt.splat %a : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>>
    %where = tt.addptr %base, %at : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
    %x = tt.load %where : tensor<64x!tt.ptr<f16>>
    %shared = arith.muli %place, %c64 : i32
    %second = tt.splat %shared : i32 -> tensor<64xi32>
    %there = arith.addi %second, %range : tensor<64xi32>
    %other = tt.splat %b : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>>
    %which = tt.addptr %other, %there : tensor<64x!tt.ptr<f16>>, tensor<64xi32>
    %y = tt.load %which : tensor<64x!tt.ptr<f16>>
""",
)
TILE_BYTES = 128


def reused(period: int, programs: int, at_once: int) -> tuple[float, float, float]:
    """Of all that waves read again: the bytes, and the least and the largest distance of nine tenths of them, in tiles.

    Each program reads a tile of its own and one of `period` that all take turns at.
    """
    trace = evaluate(ROUND, [("a", None), ("b", None), ("period", period)], (programs, 1, 1))
    touched = Touched.of(trace, {"a": TILE_BYTES * programs * 1.0, "b": TILE_BYTES * period * 1.0})
    parts = touched.reuse(at_once)
    every = sum(n for n, _ in parts)
    most = [meanwhile / TILE_BYTES for n, meanwhile in parts if n > 0.1 * every]
    return every / TILE_BYTES, min(most), max(most)


@pytest.mark.parametrize(
    ("period", "programs", "at_once"),
    [(640, 6400, 20), (640, 6400, 200), (2000, 8000, 100), (40_000, 2_000_000, 1000)],
)
def test_what_comes_back_is_as_far_as_what_is_touched_meanwhile(period: int, programs: int, at_once: int) -> None:
    """A tile comes back after `period` programs, which touch twice as many tiles; the last grid is seen in parts that
    are shorter."""
    tiles, least, largest = reused(period, programs, at_once)
    assert tiles == pytest.approx(programs - period, rel=0.05)
    assert period < least and largest < 4 * period


def test_what_the_next_wave_reads_comes_back_at_once() -> None:
    tiles, least, largest = reused(100, 2000, 100)
    assert tiles == pytest.approx(1900) and least == largest == 200


IMAGE = module(
    f"%a: {POINTER}, %width: i32, %wide: i32, %height: i32, %scale: f32",
    """
    %c256 = arith.constant 256 : i32
    %pid = tt.get_program_id x : i32
    %range = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
    %own = arith.muli %pid, %c256 : i32
    %first = tt.splat %own : i32 -> tensor<256xi32>
    %at = arith.addi %first, %range : tensor<256xi32>
    %widths = tt.splat %width : i32 -> tensor<256xi32>
    %heights = tt.splat %height : i32 -> tensor<256xi32>
    %line = arith.divsi %at, %widths : tensor<256xi32>
    %column = arith.remsi %at, %widths : tensor<256xi32>
    %image = arith.divsi %line, %heights : tensor<256xi32>
    %row = arith.remsi %line, %heights : tensor<256xi32>
    %float = arith.sitofp %column : tensor<256xi32> to tensor<256xf32>
    %scales = tt.splat %scale : f32 -> tensor<256xf32>
    %moved = arith.mulf %float, %scales : tensor<256xf32>
    %from = arith.fptosi %moved : tensor<256xf32> to tensor<256xi32>
    %pitch = tt.splat %wide : i32 -> tensor<256xi32>
    %tall = arith.muli %image, %heights : tensor<256xi32>
    %lines = arith.addi %tall, %row : tensor<256xi32>
    %rows = arith.muli %lines, %pitch : tensor<256xi32>
    %place = arith.addi %rows, %from : tensor<256xi32>
    %base = tt.splat %a : !tt.ptr<f16> -> tensor<256x!tt.ptr<f16>>
    %where = tt.addptr %base, %place : tensor<256x!tt.ptr<f16>>, tensor<256xi32>
    %within = arith.cmpi slt, %column, %widths : tensor<256xi32>
    %x = tt.load %where, %within : tensor<256x!tt.ptr<f16>>
""",
)


@pytest.mark.parametrize(
    ("width", "wide", "scale", "stretch", "elements"),
    [
        (56, 56, 1.0, (112, 112, 112, 1), 256), (14, 16, 1.0, (28, 28, 28, 1), 256),
        (224, 112, 0.5, (224, 224, 224, 1), 128), (300, 150, 0.5, (256, 256, 256, 1), 128),
        (224, 224, 1.0, (448, 448, 448, 1), 256), (6, 4096, 1.0, (12, 12, 12, 1), 256),
        (56, 112, 2.0, (2, 224, 112, 2), 256),
    ],
)  # fmt: skip
def test_places_in_an_image_lie_as_its_rows_do(
    width: int, wide: int, scale: float, stretch: tuple[float, ...], elements: float
) -> None:
    """An index that is divided into image, row and column is not affine, but within a row it is. Columns may be scaled:
    neighbours then share what they read, or leave some out."""
    given = [("a", None), ("width", width), ("wide", wide), ("height", 28), ("scale", scale)]
    [load] = evaluate(IMAGE, given, (64, 1, 1)).accesses
    assert Stretch.of(load, 32) == Stretch(*stretch)
    assert tile_elements(load) == elements
    assert load.start[0] == 0 and np.isfinite(load.start).all()
    if width <= 256:  # the remainder starts again within the tile, and a mask on it lets all through
        assert (load.kept == 1).all()


@pytest.mark.parametrize(("first", "kept"), [(0, 20 / 32), (32, 1.0), (64, 12 / 32)])
def test_a_mask_on_a_remainder_that_starts_again_in_the_tile_lets_all_through(first: int, kept: float) -> None:
    """Of 56 columns the first 20: elements 0 to 31 and 64 to 95 have them in a row, but 32 to 63 some at their end."""
    at, by = Value(np.array([first, first + 112]), (1.0,)), known(56, 1)
    column = binary("remsi", at, by, (32,))
    assert share(compared("slt", column, known(20, 1), (32,)), (32,)).max() == pytest.approx(kept)


@pytest.mark.parametrize("sizes", [{"width": 0}, {"height": 0}, {"width": -3}])
def test_sizes_that_nobody_divides_by_are_no_fault(sizes: dict[str, int]) -> None:
    given = {"a": None, "width": 56, "wide": 56, "height": 28, "scale": 1.0} | sizes
    [load] = evaluate(IMAGE, [*given.items()], (64, 1, 1)).accesses
    assert tile_elements(load) >= 1


TAPS = module(
    f"%w: {POINTER}, %taps: i32",
    """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %apart = arith.constant dense<9> : tensor<128xi32>
    %line = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %channels = arith.muli %line, %apart : tensor<128xi32>
    scf.for %tap = %c0 to %taps step %c1  : i32 {
      %weights = tt.addptr %w, %tap : !tt.ptr<f16>, i32
      %all = tt.splat %weights : !tt.ptr<f16> -> tensor<128x!tt.ptr<f16>>
      %those = tt.addptr %all, %channels : tensor<128x!tt.ptr<f16>>, tensor<128xi32>
      %b = tt.load %those : tensor<128x!tt.ptr<f16>>
    }
""",
)


@pytest.mark.parametrize(("taps", "share"), [(9, 1.0), (3, 1 / 3), (1, 1 / 9)])
def test_taps_fill_each_others_gaps(taps: int, share: float) -> None:
    """Of nine weights a channel the loop reads so many, one in each iteration."""
    trace = evaluate(TAPS, [("w", None), ("taps", taps)], (49, 1, 1))
    [weights] = trace.accesses
    stretch = Stretch.of(weights, 32)
    assert stretch == Stretch(2.0, 128 * 18.0, 256.0, 9.0)
    assert density(weights, stretch, trace.accesses) == pytest.approx(1 / 9)
    assert filled(weights, stretch, trace.accesses, 1 / 9) == pytest.approx(share)
    lost = replace(weights, start=np.full(49, np.nan))
    assert filled(lost, stretch, [lost, lost], 1 / 9) == pytest.approx(1 / 9)  # nobody knows what they read


def test_a_grid_of_more_than_three_numbers_is_one_of_the_first() -> None:
    assert grid_of(lambda meta: (meta["n"], 8, 1, 1), {"n": 256}) == (256, 8, 1)
    with pytest.raises(ConfigError, match="one to three whole numbers"):
        grid_of((256, 8, 1, 2), {})


def test_text_that_is_no_ir_is_refused() -> None:
    with pytest.raises(KernelError, match="no function"):
        ttir.parse("hello")


@pytest.mark.parametrize(
    ("kind", "depth", "left", "right"),
    [
        ("e2m1 rhs = e2m1", 128, "64xi8", "64x256xi8"), ("e4m3 rhs = e4m3", 128, "128xf8E4M3FN", "128x256xf8E4M3FN"),
        ("e4m3 rhs = e2m1", 128, "128xf8E4M3FN", "64x256xi8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("scales", ["", ", tensor<256x4xi8>"])
def test_a_product_with_scales_is_as_deep_as_its_first_factor(
    kind: str, depth: int, left: str, right: str, scales: str
) -> None:
    body = f"""
    %a = arith.constant dense<0> : tensor<128x{left}>
    %b = arith.constant dense<0> : tensor<{right}>
    %s = arith.constant dense<0> : tensor<128x4xi8>
    %t = arith.constant dense<0> : tensor<256x4xi8>
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %c = tt.dot_scaled %a scale %s, %b{scales and " scale %t"}, %zero lhs = {kind} {{fastMath = false}} \
: tensor<128x{left}>, tensor<128x4xi8> * tensor<{right}>{scales} -> tensor<128x256xf32>
"""
    [dot] = evaluate(module("%n: i32", body), [("n", 1)], (1, 1, 1)).dots
    assert dot.shape == (128, 256, depth)


def test_an_array_has_the_strides_that_its_library_says() -> None:
    """NumPy's are in bytes, PyTorch's in elements."""
    across = np.zeros((128, 64), np.float32).T
    assert given(across).strides == (1, 64)
    assert given(np.zeros((128, 64), np.float16)).strides == (64, 1)
    with pytest.raises(ConfigError, match="elements have 4 bytes, and are"):
        given(np.zeros(8, np.dtype([("x", "f4"), ("y", "i2")]))["x"])
