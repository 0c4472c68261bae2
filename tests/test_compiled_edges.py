"""Loads that overlap, atomics and gathers: what is counted of them, and their times as an H100 took them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import carver
from carver.compiled import stretches
from carver.compiled.atomics import queue, turns_at_l2
from carver.compiled.dealt import dealt_of, dealt_to, goes_on, idle_elements, lines, passed_on
from carver.compiled.execution.warp import arguments, read_layout
from carver.compiled.facts import AccessFacts, Facts, footprints
from carver.compiled.footprint import Footprint, Touched
from carver.compiled.inspect import apart
from carver.compiled.isa.rates import width_bytes
from carver.compiled.program import evaluate
from carver.compiled.rectangles import of_more
from carver.compiled.sectors import (
    Sectors,
    arithmetic,
    bounded,
    function,
    laid_out,
    layout,
    let_through,
    mapped,
    reduced,
    sectors,
    selected,
)
from carver.compiled.stretches import Stretch, fetched, filled, fresh, held_bytes, rectangles, tile_elements
from carver.compiled.trace import Access, Trace, iterations
from carver.compiled.trace import joined as trace_joined
from carver.compiled.ttir import Type
from carver.compiled.values import (
    Exact,
    Floor,
    Piece,
    Value,
    binary,
    both,
    compared,
    elements,
    known,
    looked_up,
    unknown,
)
from carver.cost.estimate import estimate
from carver.cost.models.compiled import PRIORS, _rewritten, _transfer_clk, price_compiled
from carver.cost.models.l1 import cached_share, lines_at_once, swept
from tests.test_compiled_isa_banks import TID, code
from tests.test_compiled_laws import span

WAITS = span(atomic_returned=1.0)
"""Code that waits for its atomics."""


def in_waves(facts: Facts) -> float:
    """Bytes that waves of resident blocks read, each wave what is different in it."""
    return facts.read_bytes + sum(again for again, _ in facts.reuse)


# -- the union of tiles

TURNED = """module {
  tt.func public @turned(%x: !tt.ptr<f32>, %cols: i32, %cos: f32, %sin: f32) attributes {noinline = false} {
    %pid = tt.get_program_id x : i32
    %c64 = arith.constant 64 : i32
    %first = arith.muli %pid, %c64 : i32
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %firsts = tt.splat %first : i32 -> tensor<64xi32>
    %c = arith.addi %firsts, %range : tensor<64xi32>
    %cf = arith.sitofp %c : tensor<64xi32> to tensor<64xf32>
    %c2 = tt.expand_dims %cf {axis = 0 : i32} : tensor<64xf32> -> tensor<1x64xf32>
    %cc = tt.broadcast %c2 : tensor<1x64xf32> -> tensor<8x64xf32>
    %rows = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %rf = arith.sitofp %rows : tensor<8xi32> to tensor<8xf32>
    %r2 = tt.expand_dims %rf {axis = 1 : i32} : tensor<8xf32> -> tensor<8x1xf32>
    %rr = tt.broadcast %r2 : tensor<8x1xf32> -> tensor<8x64xf32>
    %cosines = tt.splat %cos : f32 -> tensor<8x64xf32>
    %sines = tt.splat %sin : f32 -> tensor<8x64xf32>
    %a = arith.mulf %rr, %cosines : tensor<8x64xf32>
    %b = arith.mulf %cc, %sines : tensor<8x64xf32>
    %v = arith.addf %a, %b : tensor<8x64xf32>
    %d = arith.mulf %rr, %sines : tensor<8x64xf32>
    %e = arith.mulf %cc, %cosines : tensor<8x64xf32>
    %u = arith.subf %e, %d : tensor<8x64xf32>
    %top = arith.fptosi %v : tensor<8x64xf32> to tensor<8x64xi32>
    %left = arith.fptosi %u : tensor<8x64xf32> to tensor<8x64xi32>
    %pitch = tt.splat %cols : i32 -> tensor<8x64xi32>
    %row = arith.muli %top, %pitch : tensor<8x64xi32>
    %place = arith.addi %row, %left : tensor<8x64xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<8x64x!tt.ptr<f32>>
    %at = tt.addptr %base, %place : tensor<8x64x!tt.ptr<f32>>, tensor<8x64xi32>
    %one = tt.load %at : tensor<8x64x!tt.ptr<f32>>
    %below = tt.addptr %at, %pitch : tensor<8x64x!tt.ptr<f32>>, tensor<8x64xi32>
    %two = tt.load %below : tensor<8x64x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize(("cosine", "sine"), [(0.98, 0.198997), (0.6, 0.8)])
def test_a_turned_image_is_read_once(monkeypatch: pytest.MonkeyPatch, cosine: float, sine: float) -> None:
    """Two loads of a band of 8 rows of a turned image, one a row below the other: sectors that both touch together, of
    all programs and of one, against a count of every element. A sample of pages says the same."""
    trace = evaluate(TURNED, [("x", None), ("cols", 4096), ("cos", cosine), ("sin", sine)], (32, 1, 1))
    r, c = np.mgrid[0:8, 0 : 32 * 64]
    place = np.trunc(cosine * r + sine * c) * 4096 + np.trunc(cosine * c - sine * r)
    sectors = np.stack([place, place + 4096]) // 8
    loads = Footprint(trace, ("load",), {"x": 2.0**30})
    whole = 32 * len(np.unique(sectors))
    assert loads.distinct["x"] == pytest.approx(whole, rel=0.1)
    one = np.mean([32 * len(np.unique(sectors[:, :, n * 64 : n * 64 + 64])) for n in range(32)])
    assert loads.waves(1).total_bytes / 32 == pytest.approx(one, rel=0.1)
    monkeypatch.setattr(stretches, "MOST_PARTS", 1000)
    assert Footprint(trace, ("load",), {"x": 2.0**30}).distinct["x"] == pytest.approx(whole, rel=0.25)


LOOKED_UP = """module {
  tt.func public @looked_up(%ids: !tt.ptr<i32>, %x: !tt.ptr<f32>) attributes {noinline = false} {
    %pid = tt.get_program_id x : i32
    %c64 = arith.constant 64 : i32
    %first = arith.muli %pid, %c64 : i32
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %firsts = tt.splat %first : i32 -> tensor<64xi32>
    %i = arith.addi %firsts, %range : tensor<64xi32>
    %table = tt.splat %ids : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %entry = tt.addptr %table, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %id = tt.load %entry : tensor<64x!tt.ptr<i32>>
    %two = arith.constant dense<2> : tensor<64xi32>
    %place = arith.muli %id, %two : tensor<64xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %at = tt.addptr %base, %place : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %one = tt.load %at : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""
RUNS = np.random.default_rng(0).permutation(64)[:, None] * 16 + np.arange(16)


@pytest.mark.parametrize(
    ("ids", "piece"),
    [(np.arange(1024) // 4, (4, 0.0)), (RUNS.ravel(), (16, 2.0)), (RUNS.T.ravel(), None)],
    ids=["sorted", "runs", "random"],
)
def test_places_that_are_known_tell_how_neighbours_lie(ids: np.ndarray, piece: tuple[int, float] | None) -> None:
    """Of numbers at twice the places that a table holds: each four times in order, runs of 16, none beside another."""
    trace = evaluate(LOOKED_UP, [("ids", None), ("x", None)], (16, 1, 1), {"ids": ids.astype(np.int32)})
    [found] = trace.accesses[1].pieces
    assert found is None if piece is None else found is not None and abs(found.length - piece[0]) <= 1
    assert piece is None or (found is not None and found.step == piece[1])


@pytest.mark.parametrize("ids", [np.arange(1024) // 4, RUNS.ravel(), RUNS.T.ravel()], ids=["sorted", "runs", "random"])
def test_sectors_of_known_places_are_counted(ids: np.ndarray) -> None:
    """Of the same places: bytes of the sectors of eight numbers in which a tile of 64 lies. Where they are drawn at
    random, tiles meet by chance; where each is 800,024 numbers beyond the one before, they do not."""
    given = [("ids", None), ("x", None)]
    trace = evaluate(LOOKED_UP, given, (16, 1, 1), {"ids": ids.astype(np.int32)})
    each = [32 * len(np.unique(tile * 2 // 8)) for tile in ids.reshape(16, 64)]
    assert trace.accesses[1].placed.sector_bytes == pytest.approx(np.mean(each), rel=0.1)
    drawn = np.random.default_rng(1).integers(0, 2**25, 1024).astype(np.int32)
    for far, chance in ((drawn, True), (np.arange(1024, dtype=np.int32) * 400_012 % 2**25, False)):
        found = evaluate(LOOKED_UP, given, (16, 1, 1), {"ids": far}).accesses[1]
        assert (found.placed.sector_bytes, found.placed.by_chance) == (2048.0, chance)


LAID_OUT = """#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
    %y = tt.load %at, %mask {a = 1 : i32} : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc3)"""


@pytest.mark.parametrize(
    ("size", "apart", "wanted"),
    [(1, 1, (1.0, 128.0, 1.0)), (4, 1, (4.0, 128.0, 4.0)), (1, 32, (32.0, 32.0, 32.0)), (1, 33, (32.0, 32.0, 1.0)),
     (2, 2, (4.0, 128.0, 4.0))],
)
def test_lanes_want_lines_by_the_elements_that_threads_have(size: int, apart: int, wanted: tuple[float, ...]) -> None:
    """Of numbers of 4 bytes that are loaded one by one, each so many from the next."""
    at = np.arange(64, dtype=np.int32) * apart
    [_, access] = evaluate(LOOKED_UP.replace("dense<2>", "dense<1>"), [("ids", None), ("x", None)], (1, 1, 1),
                           {"ids": at}).accesses  # fmt: skip
    dealt = dealt_of(LAID_OUT)["load 64"]
    assert dealt == [[4], [32], [1]]
    added = LAID_OUT.replace("load %at", "atomic_rmw add, %at").replace("tensor", "(tensor")
    assert dealt_of(added) == {"atomic 64": dealt, "atomic 64 at": dealt}
    assert lines(replace(access, drawn=np.arange(128.0) * apart, shape=(128,)), [[size], [32], [1]]) == wanted
    assert lines(access, dealt)[0] > 0 == lines(access, ())[0]


TWO_WAYS = """#along = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], order = x}>
#down = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 1], order = x}>
    %p = tt.splat %x_ptr : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #along>
    %q = tt.addptr %p, %i : tensor<32x32x!tt.ptr<f16>, #along>, tensor<32x32xi32, #along>
    %r = tt.splat %z_ptr : !tt.ptr<i32> -> tensor<32x32x!tt.ptr<i32>, #down>
    %x = tt.load %q, %m, %o : tensor<32x32x!tt.ptr<f16>, #along>
    %z = tt.load %r, %n, %o : tensor<32x32x!tt.ptr<i32>, #down>"""


def test_tiles_of_one_shape_are_dealt_out_by_argument() -> None:
    """As weights whose rows name their group: Triton loads scales along rows, and a word for eight columns down them,
    each lane another row. A tile of which nothing is known is dealt out as the first of its shape."""
    dealt, tile = dealt_of(TWO_WAYS), tiles(np.zeros(1), (32, 32), (1, 1))
    ways = [dealt_to(replace(tile, argument=name), dealt) for name in ("x_ptr", "z_ptr", "other")]
    assert ways == [[[1, 8], [8, 4], [1, 1]], [[1, 1], [32, 1], [1, 1]], [[1, 8], [8, 4], [1, 1]]]


def test_lanes_that_ask_for_one_word_again_take_a_pass_each_time() -> None:
    """Four columns that are one word of 32 rows, 33 lines apart: four instructions of 32 lines for 128 bytes. Tiles
    that masks hold back as a whole say nothing."""
    places = np.repeat(np.arange(32.0) * 33 * 32, 4)
    one = replace(tiles(np.zeros(1), (32, 4), (1, 0)), coef=(np.nan, 0.0), drawn=places)
    found = lines(one, [[1, 1], [32, 1]])
    assert (found.lines, found.banks) == (128.0, 128.0)
    assert lines(replace(one, drawn=np.concatenate([np.full(128, np.nan), places])), [[1, 1], [32, 1]]) == found
    assert not any(lines(replace(one, drawn=np.full(128, np.nan)), [[1, 1], [32, 1]]))


@pytest.mark.parametrize(("size", "passes"), [(1, 1.0), (4, 2.0)])
def test_neighbours_that_want_a_third_each_may_meet_in_a_bank(size: int, passes: float) -> None:
    """32 lanes want 11 words in a row, or 32 of 43 where each lane's first element is four after its neighbour's."""
    third = replace(tiles(np.zeros(1), (128,), (1,)), coef=(1 / 3,), pieces=(Piece(3, 0.0),))
    found = lines(third, [[size], [32], [1]])
    assert found.banks == pytest.approx(passes * 4 * 32 / 43)  # of 43 words
    assert lines(replace(third, coef=(1.0,), pieces=(None,)), [[size], [32], [1]]).banks == 0.0  # as the code tells


@pytest.mark.parametrize(
    ("shape", "kept", "share"),
    [((128,), 0.5, 0.5), ((128,), 0.3, 0.5), ((128,), 0.0, 0.0), ((4, 16), 0.5, 1.0), ((4, 64), 0.75, 1.0),
     ((4, 64), 0.5, 0.5)],
)  # fmt: skip
def test_masks_that_end_rows_put_whole_instructions_to_sleep(
    shape: tuple[int, ...], kept: float, share: float
) -> None:
    access = tiles(np.zeros(1), shape, (4096, 1)[-len(shape) :])
    assert idle_elements(replace(access, kept=np.full(1, kept))) == (1.0 - share) * np.prod(shape)


@pytest.mark.parametrize(
    ("shape", "coef", "starts", "goes"),
    [((64,), (1,), np.arange(9) * 64, True),  # one row
     ((4, 64), (1000, 1), np.arange(9) // 3 * 4000 + np.arange(9) % 3 * 64, True),  # three tiles to a row
     ((4, 64), (64, 1), np.arange(9) * 4096, True),  # rows that follow one another
     ((64, 4), (1, 1000), np.arange(9) * 4000, False),  # as of a transpose: the next one's rows are others
     ((4, 64), (1000, 1), np.arange(9) % 3 * 4000 + np.arange(9) // 3 * 64, False)],
)  # fmt: skip
def test_a_row_of_a_store_goes_on_in_the_next_program(
    shape: tuple[int, ...], coef: tuple[int, ...], starts: np.ndarray, goes: bool
) -> None:
    assert goes_on(tiles(starts, shape, coef)) is goes


@pytest.mark.parametrize(
    ("shape", "coef", "distinct", "run"),
    [((512, 4), (1, -1), 515, 515), ((512, 8), (4, 1), 4 * 511 + 8, 4 * 511 + 8), ((64, 4), (4, 1), 256, 256),
     ((16, 4, 32), (1000, 1, 1), 16 * 35, 35), ((16, 4, 32), (8, 1000, 1), 4 * 152, 152),
     ((4, 4, 64), (4000, 1000, 1), 1024, 64)],
)  # fmt: skip
def test_taps_that_are_an_axis_ask_for_each_place_once(
    shape: tuple[int, ...], coef: tuple[int, ...], distinct: int, run: int
) -> None:
    access = tiles(np.zeros(1), shape, coef)
    assert tile_elements(access) == distinct and Stretch.of(access, 32).run_bytes == 4 * run


def test_rows_of_a_tile_that_its_mask_cuts_do_not_overlap() -> None:
    """64 rows of 64 numbers, read by a tile that is twice as wide: 4,096, and not half of the 4,160 that it spans."""
    access = replace(tiles(np.zeros(1), (64, 128), (64, 1)), covered=(1.0, 0.5))
    assert 0.5 * tile_elements(access) == 64 * 64


def test_lanes_of_a_turned_tile_want_the_lines_that_they_lie_in() -> None:
    """Rows of 1,024 numbers, turned by a right angle: each of 32 lanes along a row is in a line of its own, each down
    a column beside the next."""
    floors = (Floor(1024.0, (0.0, 1.0)), Floor(1.0, (1.0, 0.001)))
    access = replace(tiles(np.arange(4) * 32768.0, (32, 32), (1, 1024)), floors=floors)
    assert access.turned
    wanted = [lines(access, [[1, 1], threads, [1, 1]])[:3] for threads in ([1, 32], [32, 1])]
    assert wanted == [(32.0, 32.0, 32.0), (1.0, 128.0, 1.0)]


def test_what_a_search_by_halves_chooses_lies_anywhere() -> None:
    """Of two numbers that all elements share, each takes one or the other by what was loaded; by where it is, most of
    them the same."""
    test, a, b = unknown(1, frozenset("x")), known(3, 1), known(5, 1)
    assert np.isnan(selected(test, a, b, Type((64,), "i32")).coef).all()
    assert selected(unknown(1), a, b, Type((64,), "i32")).coef == (0.0,)
    step = replace(a, coef=(1.0,))
    assert selected(test, step, step, Type((64,), "i32")).coef == (1.0,)


@pytest.mark.parametrize(
    ("times", "apart", "new"), [(2, 1, 0.0), (1, 1, 1 / 8), (8, 7, 0.0), (8, 8, 1.0), (3, 4, 0.5)]
)
def test_neighbours_of_places_that_are_not_known_share_sectors(times: int, apart: int, new: float) -> None:
    """A number at so many times a place that is loaded, and one so many numbers beyond it: in the mean over where in a
    sector of eight the first may begin."""
    more = f"""
    %step = arith.constant dense<{apart}> : tensor<64xi32>
    %next = tt.addptr %at, %step : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %second = tt.load %next : tensor<64x!tt.ptr<f32>>
    tt.return"""
    text = LOOKED_UP.replace("dense<2>", f"dense<{times}>").replace("\n    tt.return", more)
    _, one, two = evaluate(text, [("ids", None), ("x", None)], (16, 1, 1)).accesses
    every = [one, two]
    assert (fetched(one, every), fetched(two, every)) == (8.0, pytest.approx(8.0 * new))


@pytest.mark.parametrize(
    ("op", "number", "length"),
    [("xori", 16, 16), ("xori", 1024, 0), ("ori", 8, 8), ("andi", 31, 32), ("andi", 1023, 0)],
)
def test_bits_of_places_tell_how_neighbours_lie(op: str, number: int, length: int) -> None:
    """Pieces of so many neighbours; 0 where all of a tile are one."""
    tile = Value(np.arange(4) * 64, (1.0,))
    one, other = (binary(op, *given, (64,)) for given in ((tile, known(number, 1)), (known(number, 1), tile)))
    assert one.pieces == other.pieces == ((Piece(length, 1.0) if length else None),)
    wanted = {"xori": np.bitwise_xor, "ori": np.bitwise_or, "andi": np.bitwise_and}[op]
    assert np.array_equal(elements(one, 3, (64,)), wanted(np.arange(192, 256), number))
    assert np.isnan(one.coef[0]) == (length > 0)
    swapped = binary("xori", tile, known(1, 1), (64,))  # as each stage of a butterfly does: no two neighbours stay
    assert np.array_equal(elements(swapped, 3, (64,)), np.arange(192, 256) ^ 1) and not any(swapped.pieces)
    hashed = binary("andi", Value(np.arange(4) * 64, (40503.0,)), known((1 << 24) - 1, 1), (64,))
    assert np.isnan(hashed.coef[0]) and not any(hashed.pieces)


def test_products_that_wrap_around_stay_whole_numbers() -> None:
    """A chain of pseudo-random numbers of 64 bits, which overflow floats: all places were one. An H200 reads 67 million
    sectors of 16 MB at such places in 0.434 ms; predicted were 0.117, now 0.433."""
    factor, step = 6364136223846793005, 1442695040888963407
    value, wanted = Value(np.arange(4) * 256, (1.0,)), np.arange(768, 1024)
    for _ in range(32):
        value = binary("addi", binary("muli", value, known(factor, 1), (256,)), known(step, 1), (256,))
        wanted = wanted * factor + step
    assert np.isnan(value.coef[0])
    assert np.array_equal(elements(value, 3, (256,)), wanted)


def test_places_by_a_function_are_as_far_apart_as_they_are_moved() -> None:
    """The corners around a place by angle and distance: what one fetched, the next finds."""
    angle = mapped(np.cos, Value(np.arange(4) * 64.0, (0.01,)), (64,))
    one, next_ = (binary("addf", angle, known(n, 1), (64,)) for n in (0.0, 1.0))
    assert angle.root is not None and one.root == next_.root == angle.root
    assert mapped(np.cos, known(2.0), ()).root is None
    assert mapped(np.sin, Value(np.arange(4) * 64.0, (0.01,)), (64,)).root != angle.root


def test_bits_of_a_float_tell_its_octave() -> None:
    """As bins of a histogram of sizes do; what is taken back is the number."""
    x = Value(np.array([1.5, -0.75, 40.0]))
    there, back = (function("bitcast", [Type((), a), Type((), b)]) for a, b in (("f32", "i32"), ("i32", "f32")))
    assert there and back and function("bitcast", [Type((), "i64"), Type((), "f64")]) is None
    bits = mapped(there, x, ())
    assert bits.base is not None and list(bits.base >> 23 & 255) == [127, 126, 132]
    assert np.array_equal(mapped(back, bits, ()).base, x.base)


def test_bits_of_two_numbers_lie_side_by_side() -> None:
    """As along a curve of Z's, of which no row's neighbours step evenly."""
    tile, row = Value(np.arange(4) * 64, (1.0,)), np.arange(192, 256)
    two = binary("ori", tile, binary("shli", tile, known(8, 1), (64,)), (64,))
    spread = binary("andi", two, known(0xFF00FF, 1), (64,))
    assert np.array_equal(elements(spread, 3, (64,)), (row | row << 8) & 0xFF00FF)


def test_hashes_of_32_bits_wrap_around_and_shift_in_zeros() -> None:
    """The first bits of a product name a register; masked lanes may stand before the table."""
    keys = np.arange(1000, 1256)
    mixed = Value(np.array([1000]), (1.0,), exact=Exact(lambda a: a, (Value(np.array([1000]), (1.0,)),), (256,)))
    for op, by in (("muli", -2048144777), ("shrui", 22)):
        mixed = binary(op, mixed, known(by, 1), (256,), short=True)
    wanted = keys.astype(np.uint32) * np.uint32(2**32 - 2048144777) >> np.uint32(22)
    assert np.array_equal(elements(mixed, 0, (256,)), wanted)
    assert mixed.base[0] == wanted[0]  # where a tile begins, which tells it from others
    access = replace(tiles(np.zeros(4), (4096,), (np.nan,)), kind="atomic", drawn=np.tile(np.arange(-2, 4094.0), 4))
    assert turns_at_l2([access], {"x": 2.0**14}, {})[0] > 0


def test_a_bound_that_most_are_is_one_place() -> None:
    """As distances beyond a limit, which are added up in one number; near an edge, or where a mask keeps them out, all
    step as they did."""
    distance = Value(np.arange(0, 1024, 64), (1.0,))
    far, edge = (arithmetic("minsi", distance, known(most, 1), (64,)) for most in (127, 1000))
    assert np.array_equal(elements(far, 15, (64,)), np.full(64, 127))
    assert np.isnan(bounded(far, None, (64,), 16).coef[0]) and bounded(edge, None, (64,), 16).coef == (1.0,)
    assert bounded(far, compared("slt", distance, known(128, 1), (64,)), (64,), 16).coef == (1.0,)
    again = binary("remsi", distance, known(80, 1), (64,))  # columns of a line that goes on in the next row
    assert bounded(arithmetic("minsi", again, known(79, 1), (64,)), None, (64,), 16).coef == (1.0,)


@pytest.mark.parametrize(("apart", "lines"), [(1, 2), (8, 16), (32, 64), (40, 64)])
def test_elements_less_than_a_line_apart_share_its_room(apart: int, lines: int) -> None:
    """Four fields of eight numbers of a struct lie in a line of L1, which keeps it whole."""
    access = tiles(np.arange(4.0) * 64 * apart, (64,), (apart,))
    assert held_bytes(access, [access]) == lines * 128


def test_two_rows_of_a_tile_lie_by_chance_as_many_do() -> None:
    """Each tile has one gap, which is its own mean; rows that lie evenly apart are no chance."""
    rows = np.random.default_rng(1).integers(0, 1 << 20, (512, 2, 1)) * 64
    for tiled, chance in ((rows, True), (rows[:, :1] + np.array([[0], [6400]]), False)):
        assert sectors([*enumerate(tiled + np.arange(16))], None, 4.0, (2, 16)).by_chance == chance


def test_a_mask_lets_a_triangle_through() -> None:
    row, column = Value(np.array([0, 8]), (1.0, 0.0)), Value(np.array([0]), (0.0, 1.0))
    assert let_through(compared("sle", column, row, (8, 8)), (8, 8), 1) == pytest.approx(36 / 64)


def test_swaps_are_worked_off_word_by_word() -> None:
    """Of 16 numbers of two bytes in a sector none is added with another; one anywhere takes the turn of a sum."""
    row = replace(tiles(np.arange(64) * 32, (32,), (1,)), kind="atomic", item_bytes=2.0)
    assert [32 * turns_at_l2([row], {}, {}, swaps=swaps)[0] for swaps in (False, True)] == [4.0, 16.0]
    apart = replace(row, coef=(64.0,))
    assert turns_at_l2([apart], {}, {}, swaps=True)[0] == 1.0


def test_a_walk_of_known_places_fetches_a_sector_once() -> None:
    """Means over windows of eight of places that are 16 apart: each step but the first is in the sectors of that."""
    text = LOOKED_UP.replace(
        "%one = tt.load %at : tensor<64x!tt.ptr<f32>>",
        """%from = arith.constant 0 : i32
    %to = arith.constant 8 : i32
    %by = arith.constant 1 : i32
    scf.for %k = %from to %to step %by : i32 {
      %steps = tt.splat %k : i32 -> tensor<64xi32>
      %now = tt.addptr %at, %steps : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %one = tt.load %now : tensor<64x!tt.ptr<f32>>
    }""",
    )
    ids = np.random.default_rng(0).permutation(1024).astype(np.int32) * 8
    trace = evaluate(text, [("ids", None), ("x", None)], (16, 1, 1), {"ids": ids})
    assert trace.accesses[1].placed.new == 1 / 8
    assert fetched(trace.accesses[1], trace.accesses) == 1.0


@pytest.mark.parametrize(("near", "new"), [(True, 1 / 3), (False, 1.0)])
def test_places_that_each_pass_looks_up_may_be_in_sectors_that_one_before_it_fetched(near: bool, new: float) -> None:
    """As those of a block of atoms, each pass another neighbour of each; or ever farther away. Of three that stand for
    all the share is at least a third."""
    text = LOOKED_UP.replace(
        "%one = tt.load %at : tensor<64x!tt.ptr<f32>>",
        """%from = arith.constant 0 : i32
    %to = arith.constant 8 : i32
    %by = arith.constant 1 : i32
    %all = arith.constant 1024 : i32
    scf.for %k = %from to %to step %by : i32 {
      %pass = arith.muli %k, %all : i32
      %passes = tt.splat %pass : i32 -> tensor<64xi32>
      %keys = tt.addptr %entry, %passes : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
      %other = tt.load %keys : tensor<64x!tt.ptr<i32>>
      %there = tt.addptr %base, %other : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %one = tt.load %there : tensor<64x!tt.ptr<f32>>
    }""",
    )
    draw, block = np.random.default_rng(0), np.arange(1024) // 64 * 512
    ids = np.array([block + draw.permuted(np.tile(np.arange(64) * 8, (16, 1)), axis=1).ravel() for _ in range(8)])
    ids += np.arange(8)[:, None] * (0 if near else 8192)
    trace = evaluate(text, [("ids", None), ("x", None)], (16, 1, 1), {"ids": ids.astype(np.int32)})
    assert [a.placed.new for a in trace.accesses if a.loop >= 0 and a.argument == "x"] == [new]


def test_places_of_all_passes_say_where_atomics_crowd() -> None:
    """As where particles go from plane to plane: in none of them all passes meet."""
    passes = [replace(tiles(np.arange(64) + k, (32,), (np.nan,)), kind="atomic", drawn=np.arange(2048.0) + 4096 * k)
              for k in range(16)]  # fmt: skip
    found = trace_joined(passes).drawn.reshape(64, 32)
    assert (found % 4096 == np.arange(2048).reshape(64, 32)).all()
    assert np.bincount((found[:, 0] // 4096).astype(int)).min() >= 3


def test_atomics_whose_steps_differ_from_program_to_program_are_looked_at_one_by_one() -> None:
    """Rays of a scanner: one goes along a row of its picture, the next down a column. Each has its own steps."""
    ray = Value(np.zeros(64), (np.where(np.arange(64) % 2, 256.0, 0.5),))
    found, _, _, places = layout("atomic", ray, None, (32,), 64, None, 4)
    assert np.isnan(found.coef[0])
    assert {float(np.ptp(each)) for each in places.reshape(-1, 32)} == {31 * 0.5, 31 * 256.0}
    assert len(layout("atomic", Value(np.zeros(64), (np.full(64, 0.5),)), None, (32,), 64, None, 4)[3]) == 0


@pytest.mark.parametrize(("apart", "new"), [(0, 1 / 16), (1, (8 + 15) / (8 * 16)), (4096, 1.0)])
def test_passes_that_are_followed_one_by_one_meet_sectors_again(apart: int, new: float) -> None:
    """As nodes of a tree, each chosen by the one before: a tile of 8 sectors that moves on by so many."""
    at = np.arange(8)[:, None] * 4096.0 + np.arange(8) * 8
    passes = [replace(tiles(np.arange(8), (8,), (np.nan,)), drawn=(at + k * apart * 8).ravel(), placed=Sectors(256.0))
              for k in range(16)]  # fmt: skip
    assert trace_joined(passes).placed.new == new


@pytest.mark.parametrize(("apart", "new"), [((1, 1), 0.0), ((8, 8), 1.0), ((1, 8), 0.5)])
def test_loads_at_known_places_share_sectors(apart: tuple[int, int], new: float) -> None:
    """As the ends of a range in a table: what the second wants is there, but for a part where L1 has room for that."""
    at = np.random.default_rng(0).permutation(4096).astype(float) * 16
    one = replace(tiles(np.full(64, np.nan), (32,), (np.nan,)), drawn=at[: 64 * 32])
    other = replace(one, drawn=one.drawn + np.tile(apart, 32 * 32))
    assert fresh(one, [one, other]) == 1.0 and fresh(other, [one, other]) == new
    assert fresh(other, [one, other], 32 * 128 / 2) == pytest.approx(1.0 - (1.0 - new) / 2)
    later = replace(other, loop=5)
    assert fresh(later, [one, later]) == 1.0


def test_passes_that_are_followed_one_by_one_stand_for_their_mean() -> None:
    """As those of a search: all begin in one sector, and end in one of their own each."""
    first, last = Sectors(32.0, 32.0, 32.0), Sectors(2048.0, 2.0**20, 32.0, True)
    affine = tiles(np.arange(8), (64,), (np.nan,))
    found = trace_joined([replace(affine, placed=placed) for placed in (Sectors(), first, last, last)]).placed
    assert found == Sectors((32.0 + 2 * 2048.0) / 3, 2.0**20, 32.0, True)


def test_iterations_of_two_axes_are_all_evaluated_where_they_are_few() -> None:
    """Rows and columns of 49 taps that one counter goes through: of seven in even steps each is a row and a column on.
    """
    few, many, outer = (iterations(np.full(4224, n), np.arange(4224), False, nests)[1:3]
                        for n, nests in ((49, False), (1000, False), (49, True)))  # fmt: skip
    assert few[0].tolist() == [*range(49)] * 4224 and (few[1] == 1.0).all()
    assert many[0][:7].tolist() == [0, 166, 333, 499, 666, 832, 999] and many[1][0] == 1000 / 7
    assert outer[0][:7].tolist() == [*range(0, 49, 8)]


@pytest.mark.parametrize(("predicate", "kept"), [("sge", [1.0, 1.0, 1.0, 0.0]), ("sgt", [1.0, 1.0, 0.0, 0.0])])
def test_lanes_whose_elements_are_alike_pass_a_mask_as_one(predicate: str, kept: list[float]) -> None:
    """As rays of a scanner that go along a side of its picture."""
    place = Value(np.array([3.0, 3.0, 0.0, -1.0]), (np.array([1.0, 0.0, 0.0, 0.0]),))
    mask = compared(predicate, place, Value(np.zeros(1), (0.0,)), (8,))
    assert np.broadcast_to(let_through(mask, (8,), 4), 4).tolist() == kept


def test_of_a_largest_float_each_of_two_atomics_is_for_half() -> None:
    pair = "".join(f"""
    %{kind} = tt.atomic_rmw {kind}, relaxed, gpu, %at, %id, %all : """
                   "(tensor<64x!tt.ptr<f32>>, tensor<64xi32>, tensor<64xi1>) -> tensor<64xi32>"
                   for kind in ("max", "umin"))  # fmt: skip
    text = LOOKED_UP.replace(
        "\n    tt.return", f"\n    %all = arith.constant dense<true> : tensor<64xi1>{pair}\n    tt.return"
    )
    found = evaluate(text, [("ids", None), ("x", None)], (16, 1, 1)).accesses
    assert [float(access.kept[0]) for access in found if access.kind == "atomic"] == [0.5, 0.5]


@pytest.mark.parametrize("table", [3_000, 30_000, 10**9])
def test_parts_that_are_looked_at_tell_of_the_others(table: int) -> None:
    """Eight parts of 1,000 places drawn from a table, of which two are looked at; parts that are one and the same."""
    drawn = np.random.default_rng(2).integers(0, table, (8, 1000))
    apart = np.array([sum(len(np.unique(part)) for part in drawn[:2])])
    found = of_more(apart, np.array([len(np.unique(drawn[:2]))]), 2, 4.0)
    assert found[0] == pytest.approx(len(np.unique(drawn)), rel=0.05)
    assert of_more(np.array([2000.0]), np.array([1000.0]), 2, 1e9)[0] == pytest.approx(1000.0)


def test_a_tile_of_pieces_touches_no_more_than_lies_between_its_ends() -> None:
    """64 tiles whose numbers lie over 256 bytes each, and that begin a sector apart."""
    starts = np.arange(64) * 8
    tile = tiles(starts.astype(float), (8,), (np.nan,))
    tile = replace(tile, placed=Sectors(256.0, 256.0), program=np.zeros(64), beside=np.full(64, np.nan))
    trace = Trace((1, 1, 1), 1, ((0, 1),), accesses=[tile])
    assert Footprint(trace, ("load",), {"x": 1e9}).distinct["x"] == 63 * 32 + 256


def tiles(starts: np.ndarray, shape: tuple[int, ...], coef: tuple[int, ...], count: int = 1, step: int = 0) -> Access:
    one = np.ones(len(starts))
    return Access(
        starts * 1.0, step * one, count * one, one, np.arange(len(starts)) * 1.0, 0 * one, one, kind="load", loop=-1,
        path="pointer", argument="x", shape=shape, item_bytes=4.0, coef=tuple(map(float, coef)),
        pieces=(None,) * len(shape),
    )  # fmt: skip


def places(access: Access) -> set[int]:
    """Sectors of eight elements that all tiles touch, one element after another."""
    inside = [
        sum(c * i for c, i in zip(access.coef, at, strict=True)) for at in product(*(range(n) for n in access.shape))
    ]
    walks = zip(access.start, access.stride, access.count, strict=True)
    walked = [s + t * d for s, d, n in walks for t in range(int(n))]
    return {int((s + i) // 8) for s in walked for i in inside}


ROWS, PITCH = np.arange(6) * 4, 1024
GRID = np.array([8 * PITCH + r * PITCH + c for r in ROWS for c in range(64, 576, 64)])
HALVED = np.array([(8 + 2 * r) * PITCH + c for r in ROWS for c in range(64, 832, 128)])
POOLED = np.array([r * 3584 + c * 64 for r in range(6) for c in range(0, 24, 8)])
"""Every second pixel of every second row of 56 pixels that have 32 channels each."""


@pytest.mark.parametrize(
    "accesses",
    [
        [tiles(np.arange(20) * 64, (64,), (1,)), tiles(np.arange(20) * 64 + 3, (64,), (1,))],
        [tiles(np.arange(20) * 64, (64,), (1,), count=9, step=1)],
        [tiles(np.arange(20) * 64, (32, 16), (2, 1))],
        [tiles(GRID + PITCH * i + j, (4, 64), (PITCH, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)],
        [tiles(GRID + d, (4, 64), (PITCH, 1)) for d in (0, -1, 1, -PITCH, PITCH)],
        [tiles(GRID, (4, 64), (PITCH, 1), count=3, step=PITCH)],
        [tiles(GRID, (4, 64), (PITCH, 1)), tiles(GRID - 1, (4, 64), (PITCH, 1), count=3, step=1)],
        [tiles(GRID + 1, (2, 4, 16), (16 * PITCH, PITCH, 1)), tiles(GRID, (2, 4, 16), (16 * PITCH, PITCH, 1))],
        [tiles(HALVED + PITCH * i + j, (4, 64), (2 * PITCH, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)],
        [tiles(POOLED + 1792 * i + 32 * j, (8, 32), (64, 1)) for i in range(3) for j in range(3)],
        [tiles(POOLED + 1792 * i + 32 * j, (8, 16), (64, 1)) for i in range(3) for j in range(3)],
    ],
    ids=["shifted", "walked", "windows", "box", "cross", "rows", "taps of a loop", "planes", "every second",
         "every second of channels", "every second of half the channels"],
)
def test_tiles_that_overlap_are_united(accesses: list[Access]) -> None:
    found = rectangles(accesses, 8.0, 1.0)
    assert found is not None
    every = set[int]().union(*map(places, accesses))
    walks = len(accesses) * len(accesses[0].start)
    assert found.touched(np.zeros(walks, np.int64)).sum() == pytest.approx(8 * len(every), rel=0.02)
    by_tile = found.touched(np.arange(walks) % len(accesses[0].start))
    firsts = (tiles(a.start[:1], a.shape, a.coef, int(a.count[0]), int(a.stride[0])) for a in accesses)
    assert by_tile[0] == pytest.approx(8 * len(set[int]().union(*map(places, firsts))), rel=0.1)


def test_of_too_many_tiles_some_rows_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    places = np.array([r * PITCH + c for r in range(0, 400, 4) for c in range(0, 960, 64)])
    cross = [tiles(places + d, (4, 64), (PITCH, 1)) for d in (0, -8, 8, -PITCH, PITCH)]
    group = np.zeros(5 * len(places), np.int64)
    whole = rectangles(cross, 8.0, 1.0)
    monkeypatch.setattr(stretches, "MOST_PARTS", 2 * len(places))
    some = rectangles(cross, 8.0, 1.0)
    assert whole is not None and some is not None and len(some.top) < len(whole.top)
    assert some.touched(group).sum() == pytest.approx(whole.touched(group).sum(), rel=0.05)


def test_walks_along_planes_meet_the_same_neighbours_in_each() -> None:
    """A cross of five points in 70 planes, by walks that start in the same one and by loads before them."""
    cross = [tiles(GRID + d, (4, 64), (PITCH, 1)) for d in (0, -1, 1, -PITCH, PITCH)]
    still, one = rectangles(cross, 8.0, 1.0), np.ones(len(GRID))
    walked = [replace(a, start=a.start + PITCH**2, stride=PITCH**2 * one, count=70 * one) for a in cross]
    along = rectangles([cross[0], *walked], 8.0, 1.0)
    assert still is not None and along is not None
    touched = still.touched(np.zeros(5 * len(GRID), np.int64)).sum()
    assert along.touched(np.zeros(6 * len(GRID), np.int64)).sum() == pytest.approx(70 * touched)
    apart = [replace(a, start=a.start + np.arange(len(GRID)) % 2 * 35 * PITCH**2) for a in walked]
    assert rectangles(apart, 8.0, 1.0) is None  # half of the walks are elsewhere


def test_an_sm_keeps_a_small_table_that_all_programs_look_up() -> None:
    """Of 4,096 programs that each read a row of their own and 64 sectors anywhere in 64 KiB, those of an SM read the
    table once, if L1 keeps 128 KiB; if it keeps 16, three in four look-ups miss."""
    rows = tiles(np.arange(4096) * 64, (64,), (1,))
    table = replace(tiles(np.full(4096, np.nan), (64,), (1,)), coef=(np.nan,), argument="table")
    loads = Footprint(Trace((4096, 1, 1), 4096, ((0, 4096),), accesses=[rows, table]), ("load",), {"table": 65536.0})
    held, read = zip(*loads.on_sm(8, 8 * 128)[0], strict=True)
    alone, once = 4096 * (256 + 64 * 32), 4096 * 256 + 128 * 65536
    assert read[0] == pytest.approx(alone, rel=0.05)
    assert np.interp(131072, held, read) < 1.5 * once
    assert np.interp(16384, held, read) > 0.7 * alone


def test_an_sm_keeps_a_small_part_that_known_numbers_choose() -> None:
    """The same where the numbers are told, and choose a quarter of the table: tiles that begin in other places meet by
    chance nonetheless."""
    first = np.random.default_rng(0).integers(0, 256, 4096)
    table = replace(tiles(first, (64,), (1,)), coef=(np.nan,), placed=Sectors(64 * 32.0, 65536.0, 32.0))
    loads = Footprint(Trace((4096, 1, 1), 4096, ((0, 4096),), accesses=[table]), ("load",), {"x": 262144.0})
    held, read = zip(*loads.on_sm(8, 8 * 128)[0], strict=True)
    assert read[0] == 4096 * 64 * 32
    assert np.interp(131072, held, read) < 1.5 * 128 * 65536
    assert np.interp(16384, held, read) > 0.7 * read[0]


def test_programs_of_an_sm_share_what_they_read_in_the_same_pass() -> None:
    """Of 512 programs that each read 64 sectors in 16 passes, the four of an SM: in a section of 64 KiB that all read
    in that pass, they share next to none, and in one of 2 KiB three in four."""
    program, turn = np.repeat(np.arange(512), 16), np.tile(np.arange(16), 512)
    for section_bytes, share in ((65536, 0.95), (2048, 0.25)):
        lane = np.random.default_rng(0).integers(0, 16, len(turn))
        table = replace(tiles(turn * section_bytes // 4 + lane, (64,), (1,)), program=program, loop=0, coef=(np.nan,),
                        placed=Sectors(64 * 32.0, float(section_bytes), 32.0))  # fmt: skip
        loads = Footprint(Trace((512, 1, 1), 512, ((0, 512),), accesses=[table]), ("load",), {"x": 2.0**20})
        assert loads.on_sm(4, 4 * 128)[2] == pytest.approx(share * 512 * 16 * 64 * 32, rel=0.1)


def test_a_sweep_that_fits_stays_and_one_of_twice_the_room_is_gone() -> None:
    assert [swept(n, 100.0, 0.25) for n in (50, 100)] == [1.0, 1.0]
    assert swept(200.0, 100.0, 0.0) == pytest.approx(0.203, abs=0.01)  # h = exp(-2 (1 - h))
    assert swept(200.0, 100.0, 0.25) == pytest.approx(0.094, abs=0.01)  # h = exp(-2 (1.25 - h))


def test_columns_of_short_rows_share_their_sectors() -> None:
    """Numbers of 4 bytes of 64 rows of 12, three of them, one at a time: of each row of 48 bytes all that is read lies
    in two sectors, as trees read the features of a program's rows."""
    columns = [tiles(np.array([n]), (64,), (12,)) for n in (0, 3, 7)]
    found = rectangles(columns, 8.0, 1.0)
    assert found is not None
    assert found.touched(np.zeros(3, np.int64)).sum() == 64 * 8


def test_tiles_side_by_side_are_only_counted() -> None:
    assert rectangles([tiles(np.arange(20) * 64, (64,), (1,))], 8.0, 1.0) is None
    assert rectangles([tiles(GRID, (4, 64), (PITCH, 1))], 8.0, 1.0) is None


@pytest.mark.parametrize("pitch", [64, 100])
def test_rows_that_a_mask_ends_are_as_long_as_it_lets_through(pitch: int) -> None:
    """Tiles of 256 on rows of 64 or 100 elements, which a mask ends there: no two read the same."""
    rows = replace(tiles(np.arange(8) * pitch, (256,), (1,)), kept=np.full(8, pitch / 256))
    found = rectangles([rows], 1.0, pitch / 256)
    assert found is not None
    assert found.touched(np.zeros(8, np.int64)).sum() == pytest.approx(8 * pitch)


def test_columns_that_no_program_has_are_not_fetched() -> None:
    """Two taps of 8 pixels that lie 128 elements apart, of tiles twice as wide as the 64 channels that there are."""
    two = [replace(tiles(np.arange(4) * 1024 + d, (8, 128), (128, 1)), covered=(1.0, 0.5)) for d in (0, 64)]
    found = rectangles([replace(each, kept=each.kept * 0.5) for each in two], 8.0, 0.5)
    assert found is not None
    assert found.touched(np.zeros(8, np.int64)).sum() == 4 * 1024


LOST = replace(tiles(np.full(32, np.nan), (64,), (1,)), loads=frozenset(["key"]))


@pytest.mark.parametrize(("at_once", "live"), [(8, 2**10), (16, 2**11), (32, 2**12)])
def test_programs_that_run_together_choose_among_the_columns_that_they_share(at_once: int, live: int) -> None:
    """Rows at loaded places of a tensor of 4 KiB, each twice: eight programs read the first quarter of each."""
    access = replace(LOST, beside=np.repeat(np.arange(4.0) * 64, 8))
    loads = Footprint(Trace((8, 4, 1), 32, ((0, 32),), accesses=[access]), ("load",), {"x": 2.0**12})
    assert loads.anywhere(at_once) == ((32 * 64 * 4, 2**12, live),)


@pytest.mark.parametrize(("run", "also", "sectors"), [
    (1, (), 64), (4, (), 16), (8, (), 0), (1, ("load",), 0),  # words, half sectors, sectors, of a tensor that is read
])  # fmt: skip
def test_sectors_are_read_that_stores_anywhere_fill_in_part(run: int, also: tuple[str, ...], sectors: int) -> None:
    """Each but for chance, and written (`anywhere` in `apart.jsonl`: a word beyond L2 takes as long as an atomic)."""
    store = replace(tiles(np.full(32, np.nan), (64 // run, run), (1, 1)), kind="store", coef=(np.nan, 1.0))
    trace = Trace((32, 1, 1), 32, ((0, 32),), accesses=[store, *(replace(store, kind=kind) for kind in also)])
    found = footprints(Touched.of(trace, {"x": 2.0**30}), carver.load_arch("h200"), 1.0, [WAITS])
    assert sum(asked for asked, *_ in found["changed_anywhere"]) == 32 * sectors * 32
    assert not sectors or found["read_bytes"] == found["written_bytes"] == pytest.approx(32 * sectors * 32, rel=1e-3)


def test_passes_that_are_looked_at_stand_for_as_many_as_there_are() -> None:
    """Of 20 rows that 512 programs read in turn, at places of a table of 4 GiB: the first, the last, and one for 18."""
    row = tiles(np.random.default_rng(1).permutation(2**21)[: 3 * 512] * 512, (64,), (1,))
    times, told = np.tile([1.0, 18.0, 1.0], 512), np.zeros(3 * 512)
    walks = replace(row, program=np.repeat(np.arange(512.0), 3), times=times, beside=told)
    loads = Footprint(Trace((512, 1, 1), 512, ((0, 512),), accesses=[walks]), ("load",), {"x": 2.0**32})
    assert loads.distinct["x"] == pytest.approx(20 * 512 * 256, rel=0.01)


def test_a_loop_reads_again_what_unrolled_code_read_before_it() -> None:
    """As norms do: of 128 rows of 768 numbers 32 at a time, in 24 loads, then in 4 that a loop runs 6 times."""
    rows = np.arange(128.0) * 768
    once = [tiles(rows + 32 * n, (32,), (1,)) for n in range(24)]
    again = [replace(tiles(rows + 32 * n, (32,), (1,), 6, 128), loop=0) for n in range(4)]
    trace = Trace((128, 1, 1), 128, ((0, 128),), accesses=[*once, *again])
    loads = Footprint(trace, ("load",), {"x": 2.0**30})
    assert loads.distinct["x"] == loads.again() == loads.waves(32).total_bytes == 128 * 768 * 4


def test_an_sm_finds_again_what_its_programs_read_of_their_own_rows() -> None:
    """As trees read the features of a program's rows: 64 numbers at a time, 400 times, in 8 KiB of a tensor of 1 MiB
    that are the program's own. Anywhere in all of it each would touch 555 KiB."""
    access = replace(tiles(np.full(128, np.nan), (64,), (1,), 400), coef=(np.nan,), beside=np.arange(128.0) * 2048)
    loads = Footprint(Trace((128, 1, 1), 128, ((0, 128),), accesses=[access]), ("load",), {"x": 2.0**20})
    assert loads.touched_by(np.arange(128)) == pytest.approx(2**20, rel=0.01)
    held, read = loads.on_sm(2, 64)[0][0]
    assert held == pytest.approx(8192, rel=0.01) and read == pytest.approx(2**20, rel=0.01)


def test_a_table_names_no_more_places_than_it_has_entries() -> None:
    """Numbers of a tensor of 1 GiB, each at a place from a table of 1,024 entries that is read at random."""
    x, table = (
        replace(LOST, argument=name, coef=(np.nan,), loads=frozenset([of])) for name, of in (("x", "t"), ("t", "key"))
    )
    for accesses, most in (([x, table], 1024 * 32), ([x, replace(table, coef=(1.0,))], 2**30)):
        trace = Trace((2**20, 1, 1), 32, ((0, 32),), accesses=accesses)
        loads = Footprint(trace, ("load",), {"x": 2.0**30, "t": 4096.0})
        assert sum(g.size_bytes for g in loads.walks["x"]) == most


@pytest.mark.parametrize(("length", "turns"), [(1, 1 / 8), (4, 1 / 8), (8, 1 / 4), (32, 1.0)])
def test_lanes_take_turns_on_the_words_that_a_division_gives_them(length: int, turns: float) -> None:
    """Of 32 lanes, `length` in a row add to one word: a sector of 8 words takes as many turns as one of them has."""
    access = replace(tiles(np.arange(0, 4096, 64) // length, (64,), (1,)), kind="atomic", coef=(1 / length,))
    assert turns_at_l2([access], {}, {})[0] == pytest.approx(turns, rel=0.05)


@pytest.mark.parametrize(("elements", "turns"), [(4, 0.86), (32, 0.41)])
def test_lanes_without_an_element_meet_nobody(elements: int, turns: float) -> None:
    """Of a warp on 64 counters at random: four lanes meet in 8 (1 - (7/8)^4) of its eight sectors, 0.83 of a sector
    each, and some on one word; 32 lanes work side by side in all."""
    access = replace(tiles(np.full(64, np.nan), (elements,), (np.nan,)), kind="atomic")
    assert turns_at_l2([access], {"x": 256.0}, {})[0] == pytest.approx(turns, abs=0.03)


def test_lanes_of_an_atomic_meet_by_the_elements_that_threads_have() -> None:
    """32 rows add to a sector each, neighbours in a row to one word: a warp along a row takes a turn for each of its
    lanes, as does one down a column, whose lanes have sectors of their own; one on 8 of a row's words takes 4."""
    at = np.arange(32)[:, None] * 64 + np.arange(32) // 8 * np.array([0, 1])[:, None, None] + np.zeros((2, 32, 32))
    for drawn, threads, turns in ((at[0], (1, 32), 1.0), (at[0], (32, 1), 1.0), (at[1], (1, 32), 0.25),
                                  (at[1], (4, 8), 1.0), (at[1], (8, 4), 0.5 + 0.5)):  # fmt: skip
        access = replace(tiles(np.full(1, np.nan), (32, 32), (np.nan, np.nan)), kind="atomic", drawn=drawn.ravel())
        assert turns_at_l2([access], {}, {"atomic 32x32": [[1, 1], threads, [1, 1]]})[0] == turns


@pytest.mark.parametrize("widest, turns", [(4, 0.5), (8, 0.25), (16, 0.125)])
def test_an_atomic_takes_of_each_thread_what_its_instruction_is_wide(widest: int, turns: float) -> None:
    """Rows of 128 words whose lanes have four each: by single words a lane is 16 bytes from the next, two in a sector;
    by pairs four words of a sector meet; by four all eight."""
    at = np.arange(64)[:, None] * 128 + np.arange(128)
    access = replace(tiles(np.full(64, np.nan), (1, 128), (0, 1)), kind="atomic", coef=(np.nan, 1.0), drawn=at.ravel())
    assert turns_at_l2([access], {}, {"atomic 1x128": [[1, 4], [1, 32], [1, 1]]}, widest)[0] == turns


@pytest.mark.parametrize("widest, turns", [(4, 0.5), (16, 0.125)])
def test_rows_that_lie_flat_are_added_as_wide_as_the_code_does(widest: int, turns: float) -> None:
    """Rows of 32 words at random places, four words a thread, in a tile of one dimension."""
    at = np.arange(64)[:, None] * 8192 + np.arange(4).repeat(32) * 512 + np.tile(np.arange(32), 4)
    access = replace(tiles(np.full(64, np.nan), (128,), (np.nan,)), kind="atomic", drawn=at.ravel())
    access = replace(access, pieces=(Piece(32, 1.0),))
    assert turns_at_l2([access], {}, {"atomic 128": [[4], [32], [1]]}, widest)[0] == turns


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "turns"), [("h100", 63 / 32), ("rx_7900_xtx", 1 / 32), ("mi300x", 1 / 64)])
def test_one_lane_of_a_wave_adds_for_all_where_the_code_elects_it(arch: str, turns: float) -> None:
    """LLVM adds up the lanes of a wave for one word, as Triton does for gfx942 those for each word, and says so by
    counting lanes of a mask; of lanes that want different words each adds."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from tests import compiled_kernels as kernels

    args = {"x": carver.Tensor("float32", (1 << 22,)), "y": carver.Tensor("float32", (1 << 20,))}
    config = {"BLOCK": 256, "num_warps": 4}
    facts = carver.inspect(kernels.lanes_added, args=args, config=config, arch=arch, grid=(1 << 14,))
    assert facts.atomic_turns == pytest.approx(turns)
    apart = carver.inspect(kernels.segments, args=args | {"length": 8}, config=config, arch=arch, grid=(1 << 14,))
    assert apart.atomic_turns >= 1 / 8


def test_the_run_of_most_turns_is_the_busiest_and_lanes_held_back_take_none() -> None:
    """Half of the warps add to one word, 63 turns each, the others to as many words anywhere; then all with every other
    lane held back, of which 16 take 31."""
    word = np.arange(64) // 2 % 2 == 0
    at = np.where(word[:, None], 0, (np.arange(64 * 32).reshape(64, 32) + 1) * 4096.0)
    for lanes, turns in ((32, 63), (16, 31)):
        held = np.where(np.arange(32) % (32 // lanes) == 0, at, np.nan)
        access = replace(tiles(np.full(64, np.nan), (32,), (np.nan,)), kind="atomic", drawn=held.ravel())
        mean, room, _ = turns_at_l2([access], {}, {}, adds=True)
        assert (mean, room) == pytest.approx(((turns + lanes) / lanes / 2, 512 * (turns + lanes) / turns))


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.4, 0.2, 0.2, 0.2)])
def test_waves_meet_in_their_busiest_run_as_often_as_all_do_in_theirs(shares: tuple[float, ...]) -> None:
    """Tiles of one run each, in waves of four: two runs in turn, so that every other tile says nothing of the rest; and
    one that is drawn twice as often as each of three, which four tiles do not tell."""
    run = np.arange(512) % 2 if len(shares) == 2 else np.random.default_rng(5).choice(4, 512, p=shares)
    at = run[:, None] * 128.0 + np.arange(32)
    access = replace(tiles(np.zeros(512), (32,), (np.nan,)), kind="atomic", drawn=at.ravel())
    for wave in (4, 512):
        _, room, _ = turns_at_l2([access], {}, {}, adds=True, waves=np.arange(512) // wave)
        assert room == pytest.approx(512 / np.bincount(run).max() * 512, rel=0.15)


@pytest.mark.parametrize(("words", "turns"), [(1, 63 / 32), (4, 15 / 32), (32, 4 / 32), (8192, 1.0)])
def test_sums_of_floats_wait_for_the_one_before_them_in_their_sector(words: int, turns: float) -> None:
    """32 lanes on one word take two turns each but for the first; 8 on each of four in a sector wait as long. Four
    sectors side by side hide it, and words that nobody else adds to wait for nobody."""
    at = np.arange(64)[:, None] * 8192 * 32 + np.arange(32) * words // 32
    access = replace(tiles(np.full(64, np.nan), (32,), (np.nan,)), kind="atomic", drawn=at.ravel())
    assert turns_at_l2([access], {}, {}, adds=True)[0] == pytest.approx(turns)


def test_lanes_of_an_atomic_that_steps_evenly_have_what_is_dealt_to_them() -> None:
    """Of 128 elements 32 in a row add to one word, and a thread has four in a row: an instruction's lanes are on all
    four words, eight on each; with one element a thread they are on one."""
    access = replace(tiles(np.arange(0, 4096, 64), (128,), (1,)), kind="atomic", coef=(1 / 32,))
    for size, turns in ((4, 8 / 32), (1, 32 / 32)):
        assert turns_at_l2([access], {}, {"atomic 128": [[size], [32], [4 // size]]})[0] == turns


def test_two_halves_of_a_word_are_added_at_once() -> None:
    """Each of 64 lanes adds two numbers of two bytes, which one instruction takes, to a sector of its own; as often to
    words that are known as where they lie anywhere (`hash_grid_grad` in `sixteenth.jsonl.gz`)."""
    pairs = replace(tiles(np.full(64, np.nan), (64, 2), (np.nan, 1)), kind="atomic", item_bytes=2)
    at = np.random.default_rng(0).permutation(1 << 12)[:, None] * 16 + np.arange(2)
    for access in (pairs, replace(pairs, drawn=at.reshape(-1).astype(float))):
        assert turns_at_l2([access], {"x": 2.0**30}, {}, adds=True)[0] == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("item_bytes", [4, 8])
def test_words_of_64_bits_take_the_turns_of_32(item_bytes: int) -> None:
    """An H200 takes as long for either, at random places of a table of as many bytes (8 to 16,384 KiB)."""
    access = replace(tiles(np.full(64, np.nan), (32,), (np.nan,)), kind="atomic", item_bytes=item_bytes)
    turns = turns_at_l2([access], {"x": 2.0**30}, {})[0]
    assert turns * item_bytes / 4 == pytest.approx(1.0, rel=0.01)


def test_counters_of_two_tensors_spread_each_over_its_own_bytes() -> None:
    """As many turns on 4 KiB as on 1 MiB: the busiest runs are those of the small one, half as busy as if all were on
    it; alone, or both of one size, each is even."""
    one, other = (replace(tiles(np.full(64, np.nan), (32,), (np.nan,)), kind="atomic", argument=name) for name in "xy")
    sizes = {"x": 4096.0, "y": 2.0**20}
    turns, room, _ = turns_at_l2([one, other], sizes, {}, 4, sizes)
    mine, theirs = (turns_at_l2([each], sizes, {}, 4, sizes)[0] for each in (one, other))
    assert turns == pytest.approx((mine + theirs) / 2, rel=0.01)
    assert room == pytest.approx(4096 * (mine + theirs) / mine, rel=0.01)
    alike = dict.fromkeys("xy", 4096.0)
    assert min(turns_at_l2([one, other], alike, {}, 4, alike)[1], 8192.0) == pytest.approx(8192.0, rel=0.02)
    assert turns_at_l2([one], sizes, {}, 4, {"x": 4096.0})[1] == np.inf


def test_atomics_that_masks_let_through_seldom_crowd_seldom() -> None:
    """As many on each of two tensors of 4 KiB, but on one by two atomics, each for half of the numbers: it is even."""
    one, other = (replace(tiles(np.full(64, np.nan), (32,), (np.nan,)), kind="atomic", argument=name) for name in "xy")
    sizes, half = dict.fromkeys("xy", 4096.0), replace(other, kept=other.kept / 2)
    assert min(turns_at_l2([one, half, half], sizes, {}, 4, sizes)[1], 8192.0) == pytest.approx(8192.0, rel=0.02)


def test_atomics_of_which_no_sample_lets_one_through_take_a_turn_each() -> None:
    """As of a mask that is true where a segment ends, which few tiles have (`scanned_segments`, sixteenth zoo)."""
    access = replace(tiles(np.full(64, np.nan), (32,), (np.nan,)), kind="atomic")
    assert turns_at_l2([replace(access, kept=0.0 * access.kept)], {"x": 4096.0}, {})[0] == 1.0


def test_runs_that_meet_by_chance_are_no_crowd() -> None:
    """Rows of 2 KiB at random: the busiest run has a few of some thousand, and says nothing of how they spread."""
    at = np.random.default_rng(0).permutation(4096) % 2048 * 512
    access = replace(tiles(at, (16, 512), (0, 1)), kind="atomic", coef=(np.nan, 1.0))
    assert turns_at_l2([access], {}, {})[1] > 2**20


def test_a_sector_that_half_of_all_lanes_add_to_is_a_crowd() -> None:
    """As the ends of a range at which places that lie beyond it are kept: 16 of 32 lanes at the first word."""
    at = np.where(np.arange(64 * 32) % 2, np.random.default_rng(0).permutation(64 * 32) * 64, 0)
    access = replace(tiles(np.full(64, np.nan), (32,), (np.nan,)), kind="atomic", drawn=at)
    turns, room, crowd = turns_at_l2([access], {}, {})
    assert turns == pytest.approx(1.0, rel=0.05) and crowd == pytest.approx(0.5, rel=0.05)
    assert room == pytest.approx(2 * 512, rel=0.05)


def test_an_own_place_that_a_loaded_number_moves_is_near() -> None:
    """Of a plane's columns, as a flow or a wind moves them; not of taps around a place that was loaded, nor of places
    that all programs count from one."""
    moved, own = unknown(1, frozenset("u")), Value(np.arange(4) * 64.0, (1.0,))
    for op, a, b in (("addf", own, moved), ("addf", moved, own), ("subf", own, moved)):
        found = arithmetic(op, a, b, (64,))
        assert found.base is not None and found.coef == (1.0,)
    taps = binary("remsi", own, known(9, 1), (64,))
    for op, a, b in (("addf", moved, taps), ("addf", Value(np.zeros(1), (1.0,)), moved), ("subf", moved, own),
                     ("addf", own, unknown(1))):  # fmt: skip
        assert arithmetic(op, a, b, (64,)).base is None


def test_bins_that_untold_numbers_choose_are_near_their_cell() -> None:
    """Those of a histogram of each cell, as if drawn, apart from others that are; they decide nothing that a program
    does. Many bins, one number, and what only divides are not drawn."""
    untold, cells = unknown(1, frozenset("x")), Value(np.arange(4) * 900.0, (0.0,))
    for op, by, count in (("minsi", 8, 9), ("andi", 7, 8), ("remui", 9, 9)):
        bins = arithmetic(op, untold, known(by, 1), (4096,), "%7")
        at = arithmetic("addi", cells, bins, (4096,), "%9")
        tile = elements(at, 2, (4096,))
        assert np.bincount(tile.astype(int) - 1800).tolist() == pytest.approx([4096 / count] * count, rel=0.2)
        assert at.base is not None and at.base[2] == 1800
        other = elements(arithmetic(op, untold, known(by, 1), (4096,), "%8"), 2, (4096,))
        assert np.mean(other + 1800 == tile) < 0.2
        assert reduced(at, 0, (4096,), {"maxsi"}, 4).base is None
    scalar, eight = unknown(0, frozenset("x")), known(8, 1)
    for op, a, b in (("remsi", eight, untold), ("minsi", untold, cells), ("minsi", untold, known(1 << 20, 1)),
                     ("andi", untold, eight), ("minsi", unknown(1), eight), ("minsi", scalar, known(8))):  # fmt: skip
        assert elements(arithmetic(op, a, b, (64,) * len(a.coef), "%7"), 0, (64,)) is None


def test_real_numbers_that_a_bound_clips_are_drawn_below_it() -> None:
    """As where between its knots a spline is asked: a value chooses among those of its own feature, not of all."""
    clipped = arithmetic("minnumf", unknown(1, frozenset("x")), Value(np.array([0.75]), (0.0,)), (4096,), "%7")
    knot = elements(arithmetic("mulf", clipped, Value(np.array([16.0]), (0.0,)), (4096,)), 2, (4096,))
    assert np.bincount(knot.astype(int)).tolist() == pytest.approx([4096 / 12] * 12, rel=0.2)
    assert elements(arithmetic("minnumf", unknown(1), clipped, (64,), "%7"), 0, (64,)) is None


def test_of_small_tiles_of_atomics_more_are_looked_at() -> None:
    """Each wave needs some that say where it crowds; of loads 32 say how their sectors lie."""
    at = looked_up(np.arange(1 << 15)[::-1] ** 2 % 1009, Value(np.arange(1024) * 32.0, (1.0,)), (32,))
    places = [layout(kind, at, None, (32,), 1024, None, 4)[3] for kind in ("atomic", "load")]
    assert [len(each) for each in places] == [1024 * 32, 32 * 32]


def test_each_wave_crowds_where_it_is() -> None:
    """16 pictures one after another, half of the counts of each in its first run: as many meet there as run together.
    A wave of which two tiles are looked at is taken with the next."""
    draw, picture = np.random.default_rng(0), np.repeat(np.arange(16), 16)
    at = picture[:, None] * 2**20 + np.where(np.arange(128) % 2, draw.integers(0, 128, (256, 128)), 0)
    at += np.where(np.arange(128) % 2, 0, draw.permutation(256 * 128).reshape(256, 128) * 16)
    access = replace(tiles(np.full(256, np.nan), (128,), (np.nan,)), kind="atomic", drawn=at.ravel())
    for waves, times in ((picture, 1), (picture // 4, 4), ([0], 16), (np.arange(128), 1)):
        room = turns_at_l2([access], {}, {}, waves=waves)[1]
        assert room == pytest.approx(times * 2 * 512, rel=0.3)


def test_rows_of_one_tile_are_no_crowd() -> None:
    """32 tiles of two rows of 256 numbers, each row its own: neighbours in a tile meet in a run, tiles do not."""
    at = np.random.default_rng(0).permutation(4096)[:64, None] * 256 + np.arange(256)
    access = replace(tiles(np.full(32, np.nan), (2, 256), (0, 1)), kind="atomic", coef=(np.nan, 1.0), drawn=at.ravel())
    assert turns_at_l2([access], {}, {})[1] == np.inf


def test_slices_of_l2_are_kept_busy_by_programs_that_run_together() -> None:
    """Each of 528 programs adds to 256 bytes of its own: 132 of them, one on each SM of an H100, to 33 KiB at a time.
    Where places are not known all of the tensor is near."""
    known = replace(tiles(np.arange(528) * 64, (64,), (1,)), kind="atomic")
    for access, size in ((known, 132 * 256), (replace(known, start=np.full(528, np.nan)), 2**20)):
        trace = Trace((528, 1, 1), 528, ((0, 528),), accesses=[access])
        found = footprints(Touched.of(trace, {"x": 2.0**20}), carver.load_arch("h100"), 1.0, [WAITS])
        assert found["atomic_bytes"] == pytest.approx(min(size, 2**20 * -np.expm1(-528 * 256 / 2**20)))


@pytest.mark.parametrize(("waited", "programs"), [(True, 132), (False, 132 + 132 * 256 // 32)])
def test_atomics_that_nobody_waits_for_are_under_way_when_their_programs_end(waited: bool, programs: int) -> None:
    """Programs of 1,024 sums, 32 instructions of a warp, one on each SM of an H100: 256 more of each SM are queued."""
    access = replace(tiles(np.arange(1 << 13) * 1024, (1024,), (1,)), kind="atomic")
    trace = Trace((1 << 13, 1, 1), 1 << 13, ((0, 1 << 13),), accesses=[access])
    touched = Touched.of(trace, {"x": 2.0**25})
    found = footprints(touched, carver.load_arch("h100"), 1.0, [span(atomic_returned=float(waited))])
    assert found["atomic_bytes"] == pytest.approx(programs * 4096, rel=0.05)


@pytest.mark.parametrize(("apart", "queued", "near"), [(4096, 0, 1 / 30), (4096, 96, 4 / 30), (0, 0, 1.0)])
def test_atomics_of_programs_that_run_together_are_in_one_pass_of_a_loop(apart: int, queued: int, near: float) -> None:
    """64 programs count in 1,024 words in each of eight passes, in others each time: in those of four passes where 96
    instructions of each program are queued, of 32 a pass; or in the same words every time."""
    at = np.arange(8) * apart + np.random.default_rng(0).integers(0, 1024, (64, 8))
    access = replace(tiles(at.ravel(), (1024,), (np.nan,)), kind="atomic", loop=0)
    access = replace(access, program=np.repeat(np.arange(64.0), 8))
    asked, found = queue(Trace((64, 1, 1), 64, ((0, 64),), accesses=[access]), 4, queued)
    assert asked == 8 * 32 and found == pytest.approx(near, rel=0.1)


def test_rows_are_read_once_where_all_loads_of_their_tensor_ask_for_no_more_than_it_has() -> None:
    """A loop that is unrolled asks for rows of a table far more often than what is left of it does."""
    left = tiles(np.full(4096, np.nan), (1, 8), (np.nan, 1))
    unrolled = tiles(np.full(4096, np.nan), (64, 8), (np.nan, 1))
    for accesses, once in (([left], True), ([unrolled], False), ([left, unrolled], False), ([unrolled, left], False)):
        trace = Trace((4096, 1, 1), 4096, ((0, 4096),), accesses=accesses)
        [(_, size, _)] = Footprint(trace, ("load",), {"x": 2.0**18}).anywhere(64)
        assert (size > 2.0**18) is once


@pytest.mark.parametrize("near", [64, 16, 1])
def test_programs_that_read_the_same_keys_look_up_the_same_rows(near: int) -> None:
    """Of 64 tiles of keys each is read by 64 programs, so many of them side by side, and 64 programs run at a time:
    what those look up by one tile is fetched once."""
    which = np.arange(4096) // near % 64
    keys = replace(tiles(which * 64.0, (64,), (1,)), argument="key")
    rows = replace(LOST, **{n: getattr(keys, n) for n in ("program", "count", "kept", "round", "times")},
                   start=np.full(4096, np.nan), stride=np.zeros(4096), beside=np.zeros(4096))  # fmt: skip
    sizes, asked = {"x": 2.0**30, "key": 2.0**20}, list[float]()
    for accesses in ([keys, rows], [rows], [keys, rows, replace(rows)]):  # what a program has of one is its own affair
        trace = Trace((4096, 1, 1), 4096, ((0, 4096),), accesses=accesses)
        asked.append(Footprint(trace, ("load",), sizes).anywhere(64)[-1][0])
    assert asked[1] == 4096 * 64 * 4 and asked[0] * near == asked[1] and asked[2] == 2 * asked[0]


@pytest.mark.parametrize(("ranges", "long", "count", "most"), [
    (((0, 1024),), 64, 16, 2.1 / 16),
    (tuple((340 * n, 340 * n + 68) for n in range(3)), 64, 16, 2.1 / 16),
    (tuple((1342 * n, 1342 * n + 68) for n in range(4)), 512, 8, 2.1 / 8),
])  # fmt: skip
def test_a_sample_of_programs_has_a_part_of_the_columns(ranges: Any, long: int, count: int, most: float) -> None:
    """Images of 64 programs each, 16 of them, whose places lie anywhere in the image: whether all programs are looked
    at or 3 runs of 68, a wave of 64 chooses from one or two of 16. And 8 of 512 each, of which a run sees one."""
    program = np.concatenate([np.arange(*each) for each in ranges])
    access = replace(LOST, kind="atomic", beside=program // long * 4096.0, start=np.full(len(program), np.nan))
    own = np.arange(len(program), dtype=float)
    ones, zeros = np.ones(len(program)), np.zeros(len(program))
    access = replace(access, program=own, stride=zeros, count=ones, kept=ones, round=zeros, times=ones)
    each = len(program) // len(ranges)
    parts = tuple((n * each, (n + 1) * each) for n in range(len(ranges)))
    trace = Trace((long, count, 1), len(program), parts, accesses=[access])
    [(_, size, near)] = Footprint(trace, ("atomic",), {"x": 2.0**20}).anywhere(64)
    assert 1 / count <= near / size < most


@pytest.mark.parametrize(
    ("size", "behind", "share"), [(1, 5 / 6, 1 / 6), (1, 0.5, 0.5), (1, 0.0, 1.0), (2, 5 / 6, 1.0)]
)
def test_fields_stored_one_behind_another_leave_l1_once(size: int, behind: float, share: float) -> None:
    """Six fields of structs of 24 bytes: a warp whose lanes have a struct each is in six lines, with two in twelve."""
    every = [replace(tiles(np.arange(8.0) * 1536 + i, (256,), (6,)), kind="store") for i in range(6)]
    assert passed_on(every[0], every, [[size], [32], [8 // size]], behind) == pytest.approx(share)
    assert passed_on(every[0], every[:1], [[size], [32], [8 // size]], behind) == 1.0


def test_atomics_at_loaded_places_meet_within_what_programs_that_run_together_share() -> None:
    """Rows at loaded places of a tensor of 1 MiB: an SM each for 32 programs adds to a quarter at a time."""
    access = replace(LOST, kind="atomic", beside=np.repeat(np.arange(4.0) * 64, 8))
    trace = Trace((8, 4, 1), 32, ((0, 32),), accesses=[access])
    arch = replace(carver.load_arch("h100"), sm_count=8)
    assert footprints(Touched.of(trace, {"x": 2.0**20}), arch, 1.0, [WAITS])["atomic_bytes"] <= 2**18


def test_lanes_that_loaded_numbers_hold_back_fetch_nothing() -> None:
    """Of 32 numbers a sector apart, those where another is below 20: the rest would double what is asked for, and the
    sectors that it is in."""
    held = np.arange(64) ** 2 % 37
    mask = compared("slt", looked_up(held, Value(np.zeros(1), (1.0,)), (32,)), known(20, 1), (32,))
    below = int((held[:32] < 20).sum())
    assert let_through(mask, (32,), 1) == pytest.approx(below / 32)
    found = sectors([(0, np.arange(32) * 8)], mask, 4.0, (32,))
    assert found.sector_bytes * below / 32 == pytest.approx(below * 32)
    assert np.isfinite(laid_out([(0, np.arange(32) * 8)], mask, (32,))).sum() == below


def test_a_choice_by_what_was_loaded_and_a_bound_is_followed() -> None:
    """32 numbers of a tensor whose contents are known: those below 20, of the first 24, are kept, the others are 0."""
    held, out = np.arange(64) ** 2 % 37, Type("i32", (32,))
    index = Value(np.zeros(1), (1.0,))
    number = looked_up(held, index, (32,))
    mask = both(compared("slt", number, known(20, 1), (32,)), compared("slt", index, known(24, 1), (32,)), (32,))
    kept = elements(selected(mask, number, known(0, 1), out), 0, (32,))
    assert kept.tolist() == np.where((held[:32] < 20) & (np.arange(32) < 24), held[:32], 0).tolist()


@pytest.mark.parametrize(("fields", "times"), [(range(16), 8.0), (range(4, 7), 3.0), ((0, 8), 1.0), ((0, 0), 1.0)])
def test_fields_of_a_struct_share_its_sectors(fields: Sequence[int], times: float) -> None:
    """Of structs of 16 numbers, a load for each field: how many of them are in the sector of the first."""
    every = [tiles(np.arange(20) * 64 * 16 + field, (64,), (16,)) for field in fields]
    assert filled(every[0], Stretch.of(every[0], 32), every, 1.0) == times
    loop = tiles(np.arange(20) * 64 * 16, (64,), (16,), count=16, step=1)
    assert filled(loop, Stretch.of(loop, 32), [loop], 1.0) == 8.0


def test_tiles_that_begin_in_one_sector_fetch_the_same() -> None:
    """Of tiles that are not affine but known, as a warped image's are: neighbours of four bytes to the right."""
    known = [
        replace(tiles(np.arange(20) * 4096 + d, (64,), (1,)), coef=(np.nan,), placed=Sectors(640.0)) for d in (0, 1)
    ]
    trace = Trace((20, 1, 1), 20, ((0, 20),), accesses=known)
    assert Footprint(trace, ("load",), {"x": 2.0**30}).distinct == {"x": 20 * 640.0}


# -- the code


def test_words_that_one_instruction_loads_of_constants_are_told_apart() -> None:
    """Lanes a line apart, as the second of two arguments says, are in one bank each; as the first says, none is."""
    lines = [("LDC.64", "R4, c[0x0][0x220]"), ("IMAD", "R6, R0, R5, RZ"), ("LDG.E", "R8, desc[UR4][R6.64]")]
    assert read_layout(code(TID, *lines), arguments([0x220, 0x224], [4, 128])).passes == {3: 32.0}


@pytest.mark.parametrize(("apart", "passes"), [(4, None), (8, 2.0), (16, 4.0), (128, 32.0), (132, 8.0), (144, 8.0)])
def test_lanes_meet_in_the_banks_of_l1(apart: int, passes: float | None) -> None:
    """1, 2 and 4 clocks where lanes of an H100 lie 4, 8 and 16 bytes apart (`taps` in `edges.jsonl.gz`); 8 where each
    is in a sector of its own, in other banks or in eight of them."""
    lines = code(TID, ("IMAD", f"R2, R0, {apart:#x}, RZ"), ("LDG.E", "R3, desc[UR4][R2.64]"))
    found, unknown, _ = read_layout(lines)
    assert (found.get(2), unknown) == (passes, frozenset())


@pytest.mark.parametrize(
    "fetch",
    [
        [("IMAD", "R2, R0, c[0x0][0x21c], RZ")],
        [("LDC", "R1, c[0x0][0x21c]"), ("IMAD", "R2, R0, R1, RZ")],
        [("ULDC", "UR4, c[0x0][0x21c]"), ("IMAD", "R2, R0, UR4, RZ")],
        [("ULDC", "UR4, c[0x0][0x21c]"), ("UIADD3", "UR5, UP0, UR4, 0x1, URZ"), ("UIADD3", "UR4, UR5, -0x1, URZ"),
         ("IMAD", "R2, R0, UR4, RZ")],
        [("ULDC", "UR4, c[0x0][0x218]"), ("UIMAD", "UR4, UR4, 0x0, URZ"), ("ULDC", "UR4, c[0x0][0x21c]"),
         ("IMAD", "R2, R0, UR4, RZ")],
    ],
)  # fmt: skip
def test_a_stride_may_be_an_argument(fetch: list[tuple[str, str]]) -> None:
    """Neighbours 2 words apart take 2 clocks; those of an unknown stride are kept apart, all in the same bank."""
    lines = code(TID, *fetch, ("IMAD.SHL.U32", "R4, R2, 0x4, RZ"), ("LDG.E", "R3, desc[UR6][R4.64]"))
    place = len(lines) - 1
    assert read_layout(lines, arguments((0x210, 0x218, 0x21C), (None, None, 2))).passes == {place: 2.0}
    assert read_layout(lines).passes == {place: 32.0}


def test_a_stride_of_atomics_may_be_an_argument() -> None:
    lines = code(TID, ("IMAD", "R2, R0, c[0x0][0x218], RZ"), ("IMAD.WIDE", "R2, R2, 0x4, R6"),
                 ("REDG.E.ADD.STRONG.GPU", "desc[UR4][R2.64], R7"))  # fmt: skip
    assert [read_layout(lines, arguments((0x218,), (n,))).sectors for n in (1, 2, 8)] == [{3: 4}, {3: 8}, {3: 32}]


def test_what_is_the_same_for_banks_is_read_once() -> None:
    """Numbers that differ by whole lines of any type are one, so that code is read once for most shapes."""
    assert {apart(n) for n in (4096, 8192, 1 << 25, np.int64(65536))} == {1 << 16}
    assert [apart(n) for n in (3, 300, 1300)] == [3, 300, (1 << 16) + 276]
    assert apart(None) is apart(0.5) is None


@pytest.mark.slow
def test_a_stride_that_is_passed_is_priced_as_one_that_is_compiled_in() -> None:
    """Every second of 2^26 numbers: an unknown stride would have each lane in a line of its own."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from tests import compiled_kernels as kernels

    n, ranked = 1 << 25, []
    for given in ({"args": {"step": 2}}, {"constants": {"step": 2}}):
        args = {"x": carver.Tensor("float32", (2 * n,)), "y": carver.Tensor("float32", (n,)), **given.get("args", {})}
        ranking = carver.rank_kernel(
            kernels.every, [{"BLOCK": 1024}], args=args, grid=lambda c: (n // c["BLOCK"],), arch="h100",
            constants=given.get("constants"),
        )  # fmt: skip
        ranked.append(ranking[0].predicted_ms)
    assert ranked[0] == pytest.approx(ranked[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["h200", "mi300x", "mi250x_gcd", "rx 7900 xtx"])
def test_windows_move_the_same_bytes_on_all_vendors(device: str) -> None:
    """Counted by hand: a plane of bytes in narrow tiles is read and written once, whatever sectors are; a wave of a
    pool by steps of two reads 63 of 64 rows and columns once."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from tests import compiled_kernels as kernels

    arch, rows, cols = carver.load_arch(device), 1000, 2048
    args = {"x": carver.Tensor("uint8", (rows + 2, cols + 2)), "y": carver.Tensor("uint8", (rows, cols)), "rows": rows,
            "cols": cols}  # fmt: skip
    one = carver.inspect(kernels.around, args=args, config={"BR": 4, "BC": 32}, arch=arch,
                         grid=(cols // 32, rows // 4))  # fmt: skip
    assert one.read_bytes == pytest.approx((rows + 2) * (cols + 2), rel=0.02) and one.written_bytes == rows * cols
    assert _rewritten(one, arch, 0.0) == 1.0
    images, wide, width = 64, 64, 64
    args = {"x": carver.Tensor("float16", (images, wide, wide, width)), "wide": wide, "out": 31,
            "y": carver.Tensor("float16", (images, 31, 31, width))}  # fmt: skip
    for block in (32, 128):
        two = carver.inspect(kernels.pooled, args=args, config={"BP": 8, "BC": block}, constants={"WIDTH": width},
                             arch=arch, grid=(-(-31 * 31 // 8), -(-width // block), images))  # fmt: skip
        assert in_waves(two) == pytest.approx(2 * images * 63 * 63 * width, rel=0.06)
        loads = [a for a in two.accesses if a.kind == "load"]
        share = sum(a.idle_bytes for a in loads) / sum(a.program_bytes for a in loads)
        assert share == pytest.approx(1.0 if block > width else 0.0, abs=0.02)  # half of the channels are not there


@pytest.mark.parametrize("step", [4096, 128])
def test_masks_end_each_row_of_a_walk_that_steps_over_it(step: int) -> None:
    """Of 32 tiles of 128 numbers a mask lets three quarters through: the end of the row that they make together, or of
    each of 32 rows. Another access is 16 numbers further on."""
    one = replace(tiles(np.array([0, 2**20]), (128,), (1,), 32, step), kept=np.full(2, 0.75))
    trace = Trace((2, 1, 1), 2, ((0, 2),), accesses=[one, replace(one, start=one.start + 16)])
    walks = Footprint(trace, ("load",), {"x": 2.0**24}).walks["x"][0]
    assert walks.overlapping is not None
    rows = 32 if step == 4096 else 1
    assert walks.bytes_by(walks.program.astype(np.int64)) == pytest.approx([32 * 384 + rows * 64] * 2, rel=0.01)


def test_programs_choose_by_chance_among_what_their_tiles_reach_over() -> None:
    """Eight programs with 2,048 random sectors each of one of two halves of 64 KiB, as of a level of a hashed grid: a
    half has 2,048 (1 - e^-4) different ones, and both have as many each; without a reach all are of one table."""
    starts = np.concatenate([np.random.default_rng(0).integers(n << 14, (n + 1) << 14, 8) for n in range(2)]) // 8 * 8
    each = tiles(starts, (2048,), (np.nan,))
    for reach, rooms in ((65536.0, 2), (np.inf, 1)):
        placed = Sectors(65536.0, reach, 32.0, by_chance=True)
        trace = Trace((16, 1, 1), 16, ((0, 16),), accesses=[replace(each, placed=placed)])
        walks = Footprint(trace, ("load",), {"x": 131072.0}).walks["x"][0]
        room, programs = 131072 / rooms, 16 / rooms
        found = walks.bytes_by(np.repeat([0, 1], 8) if rooms == 2 else np.zeros(16, np.int64))
        assert found == pytest.approx([room * -np.expm1(-programs * 65536 / room)] * rooms, rel=0.02)


def test_places_that_are_loaded_are_not_known() -> None:
    lines = code(TID, ("LDG.E", "R1, desc[UR4][R0.64]"), ("IMAD.WIDE", "R2, R1, 0x4, R6"),
                 ("LDG.E", "R4, desc[UR4][R2.64]"))  # fmt: skip
    assert read_layout(lines).unplaced == {3}


def test_a_pointer_from_constant_memory_is_the_same_in_all_lanes() -> None:
    """As sm_90 and later fetch it; an integer may be written as two halves of a product with zero."""
    lines = code(
        TID, ("LDC.64", "R2, c[0x0][0x210]"), ("HFMA2.MMA", "R5, -RZ, RZ, 0, 2.384185791015625e-07"),
        ("IMAD.WIDE", "R2, R0, R5, R2"), ("REDG.E.ADD.STRONG.GPU", "desc[UR4][R2.64], R7"),
    )  # fmt: skip
    assert read_layout(lines).sectors == {4: 4}  # 32 lanes of 4 bytes side by side


def test_an_atomic_on_four_numbers_has_sixteen_bytes() -> None:
    names = ("REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU", "REDG.E.ADD.F16x2.RN", "REDG.E.ADD.BF16x8.RN", "RED.E.ADD")
    assert [width_bytes(name) for name in names] == [16, 4, 16, 4]


# -- times on an H100 (tests/data/h100/edges.jsonl.gz), median of nine, L2 flushed; of kernels that were looked at


@pytest.mark.slow
def test_times() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from tests import compiled_kernels as kernels

    def tensors(dtype: str, **sizes: int) -> dict[str, Any]:
        return {name: carver.Tensor(dtype, (n,)) for name, n in sizes.items()}

    n = 1 << 26
    sums = {**tensors("float32", x=n, y=n), "n": n}
    keys = {"taken": 1 << 23, "largest": 1 << 23}
    table = {**tensors("float32", x=n, y=keys["taken"]), **tensors("int32", key=keys["taken"]), "places": n}
    maxima = {**tensors("int32", key=keys["largest"], y=1 << 25), "places": 1 << 25}
    every = tensors("float32", x=1 << 25, y=1)
    cases = [
        (kernels.taps, sums, {"TAPS": 7, "BLOCK": 1024, "num_warps": 4}, n // 1024, 0.2033),
        (kernels.taps, sums, {"TAPS": 7, "BLOCK": 2048, "num_warps": 2}, n // 2048, 0.1903),
        (kernels.taken, table, {"BLOCK": 1024, "num_warps": 4}, keys["taken"] // 1024, 0.2848),
        (kernels.largest, maxima, {"BLOCK": 512, "num_warps": 4}, keys["largest"] // 512, 0.5059),
        (kernels.total, every, {"BLOCK": 256, "num_warps": 4}, (1 << 25) // 256, 0.2555),
    ]
    for kernel, args, config, programs, ms in cases:
        [hint] = carver.rank_kernel(kernel, [config], args=args, grid=(programs,), arch="h100")
        assert 0.85 < hint.predicted_ms / ms < 1.2, kernel.fn.__name__
        if kernel is kernels.taps:
            assert in_waves(hint.facts) == pytest.approx(4 * n, rel=0.02)  # not seven times as many


def test_times_by_hand() -> None:
    """No measurement: an H100's L2 answers 119 billion requests a second (`take` in `edges.jsonl.gz`, tests/data/h100),
    and works off 60 atomics in 1.3 clocks of 1.98 GHz at most (`atomics.txt`)."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from tests import compiled_kernels as kernels

    n = 1 << 23
    given = {"x": carver.Tensor("float32", (n,)), "y": carver.Tensor("float32", (n // 100 + 1,)), "length": 100}
    [hint] = carver.rank_kernel(
        kernels.segments, [{"BLOCK": 1024, "num_warps": 4}], args=given, grid=(n // 1024,), arch="h100"
    )
    assert hint.predicted_ms > 1e3 * 1.3 * n / 60 / 1.98e9  # each number is a turn of its word
    rows = AccessFacts("load", "pointer", "x", 0, 65536.0, 128.0, 4096.0, 4096.0, 1.0, 1.0, 128.0)  # 32, one on a pass
    assert cached_share(replace(hint.facts, accesses=(rows,)), carver.load_arch("h100"), True) == 1 - 1 / 32
    grids = [replace(hint.facts, grid=(n, 1, 1)) for n in (33, 66, 132, 264)]
    work, _ = price_compiled(grids, carver.load_arch("h100"))
    work = replace(work, l2_bytes=np.full(4, 1e6), fill_bytes=np.ones(4))
    all_at_once = _transfer_clk(work, carver.load_arch("h100"), PRIORS)
    assert all_at_once / all_at_once[0] == pytest.approx([1.0, 2.0, 4.0, 4.0])  # of its SMs, those that have a block
    warps, none = np.array([1.0, 2.0, 4.0, 4.0]), np.zeros(4)
    work = replace(
        work, warps=warps, resident=32 / warps, grid=132 * 32 / warps, math_clk=30 * warps, steps=np.full(4, 1e4),
        apart_clk=np.full(4, 240.0), smem_clk=none, issue_clk=none, fill_bytes=none, l2_bytes=none, dram_bytes=none,
    )  # fmt: skip
    seconds = estimate(work, carver.load_arch("h100"), PRIORS).seconds
    assert seconds / seconds[2] == pytest.approx(np.ones(4), rel=0.01)  # as many warps on each scheduler
    square = {name: carver.Tensor("float32", (4096, 4096)) for name in "xy"} | {"rows": 4096, "cols": 4096}
    [hint] = carver.rank_kernel(
        kernels.turned_over, [{"BLOCK": 1024, "num_warps": 4}], args=square, grid=(4096 * 4,), arch="h100"
    )
    assert 1.0 < hint.predicted_ms / (1e3 * 4096 * 4096 / 119e9) < 1.25


@pytest.mark.parametrize(("size_bytes", "lines"), [(0.0, 32.0), (2.0**30, 32.0), (128.0, 1.0), (512.0, 4.0)])
def test_lanes_meet_in_lines_of_a_small_table(size_bytes: float, lines: float) -> None:
    access = AccessFacts("load", "pointer", "x", -1, 128.0, 0.0, 4.0, 4.0, 1.0, 1.0, 4.0, True, 8.0,
                         size_bytes=size_bytes)  # fmt: skip
    assert lines_at_once(access, carver.load_arch("h100")) == pytest.approx(lines, rel=1e-3)


@pytest.mark.slow
def test_lanes_that_store_to_as_many_lines_take_as_many_passes_on_amd() -> None:
    """fp8 tiles stored transposed, where the type of a stride hides that it is 1: lanes store a byte to a line each.
    An MI300X takes 5.9 times as long as where the stride is known (triton-lang/triton 9834)."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from tests import compiled_kernels as kernels

    rows, columns = 16384, 14336
    args = {
        "x": carver.Tensor("bfloat16", (rows, columns)), "y": carver.Tensor("float8_e4m3fnuz", (columns, rows)),
        "M": rows, "N": columns, "stride": rows, "beside": 1,
    }  # fmt: skip
    grid, config = (rows // 64, columns // 64), {"BLOCK": 64, "num_warps": 4}
    apart, beside = (
        carver.rank_kernel(kernel, [config], args=args, grid=grid, arch="mi300x")[0]
        for kernel in (kernels.turned_bytes, kernels.turned_rows)
    )
    assert [[a.lines for a in hint.facts.accesses] for hint in (apart, beside)] == [[1.0, 128.0], [2.0, 2.0]]
    assert apart.bound == "L2" and apart.predicted_ms / beside.predicted_ms == pytest.approx(5.9, rel=0.4)
