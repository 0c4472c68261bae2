"""Laws of the declared model and of its learner, each with its number and the source of that.

No number here is read from the module under test: a term that is changed breaks its law.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from test_learn import rows
from test_model import H200, K, estimated, term, work

import carver
from carver.arch.descriptor import Arch
from carver.cost.estimate import Work, estimate
from carver.cost.learn import Rows, _alike, _latest, _near, _shared, posterior
from carver.cost.model import read_columns, resolve
from carver.cost.models.attention import Attention, attention, softmax_clk
from carver.cost.models.contraction import contraction, copying, reduction
from carver.cost.tile import Tile, spill_slowdown
from carver.cost.traffic import dram_reads, split_waste, traffic
from carver.kernels.space import Space

MIB = 2.0**20
TRITON = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3, "GROUP_M": 8}


def tile(arch: str | Arch, m: int, n: int, k: int, **config: Any) -> tuple[Tile, Space]:
    ranking = carver.MatmulTemplate(m, n, k, trans_B=True).with_arch(arch).rank([TRITON | config], "triton")
    space = ranking.table.parts[0].space
    return read_columns(Tile, space, arch=space.arch, problem=space.problem), space


# ---- time


def test_a_dot_product_of_halves_is_one_instruction() -> None:
    """Triton 3.6 multiplies two pairs of halves by one v_dot2c_f32_f16 for gfx1030, and by two v_fmac_f32 for gfx1010,
    which lacks it: the instructions of matmul and attention take longer, whatever else they wait for."""
    one = carver.load_arch("rx_6800")
    other = one.replace(isa="gfx1010")
    for op, least in (
        (carver.MatmulTemplate(4096, 4096, 4096, in_dtype="float16"), 1.4),
        (carver.FlashAttentionTemplate(batch=1, heads=32, seq=4096, head_dim=64, in_dtype="float16"), 1.1),
    ):
        few, many = (op.with_arch(a).recommend_hints(1, "triton")[0].explain().loop_ms["issue"] for a in (one, other))
        assert many > least * few


def test_an_epilogue_takes_its_instructions() -> None:
    """Of 128 x 256 sums of a block on an H100, which issues 128 lanes a clock and has 16 special-function lanes: 33
    instructions for a gelu by the error function, 13 for a silu, of which an exponential and a reciprocal are special.
    A bias takes one, and the latency of L2. Split-K finishes them in its second kernel, and a CPU's core in vectors."""

    def store(split: int = 1, arch: str = "h100", **said: Any) -> Work:
        op = carver.MatmulTemplate(4096, 4096, 64 * split, trans_B=True, **said).with_arch(arch)
        space = op.rank([TRITON | {"BLOCK_N": 256, "SPLIT_K": split}], "triton").table.parts[0].space
        return contraction(space, resolve(space.kernel, space.arch))

    none, bias, gelu, silu = (store(), store(with_bias=True), store(activation="gelu"), store(activation="silu"))
    sums = 128 * 256
    assert gelu.store_clk - none.store_clk == pytest.approx(33 * sums / 128)
    assert silu.store_clk - none.store_clk == pytest.approx(max(13 * sums / 128, 2 * sums / 16))
    assert bias.store_clk - none.store_clk == pytest.approx(sums / 128)
    h100 = carver.load_arch("h100")
    assert bias.store_chain_clk - none.store_chain_clk == pytest.approx(3.16 * h100.l2_latency_s * h100.clock_hz)
    apart = store(4, activation="gelu")
    assert apart.store_clk == pytest.approx(none.store_clk)
    assert apart.reduction_s >= store(4).reduction_s
    two = (carver.MatmulTemplate(1024, 1024, 64, in_dtype="float32", activation=word) for word in ("none", "gelu"))
    plain, smooth = (op.with_arch("cpu_avx2").recommend_hints(1) for op in two)
    assert smooth[0].predicted_ms > 1.2 * plain[0].predicted_ms


def test_what_misses_l2_is_found_in_a_cache_behind_it() -> None:
    """Four heads of 65,536 keys, 33 MB each, and a softmax in two passes: an RX 7900 XTX has 96 MB behind its L2, where
    they stay. An MI300X's L2 are eight of 4 MB, and each reads the keys for itself."""

    def dram(arch: Arch, op: Any) -> float:
        return float(op.with_arch(arch).recommend_hints(1)[0].details["dram_bytes"]) / op.problem.compulsory_bytes

    keys = carver.FlashAttentionTemplate(1, 4, 4, seq=65536, head_dim=128, causal=True)
    l3, rows = carver.load_arch("rx_7900_xtx"), carver.ReductionTemplate("softmax", (64, 1 << 20))
    for op in (keys, rows):
        assert dram(l3.replace(l3_bytes=0, l3_bytes_per_s=0.0), op) > 1.4
        assert dram(l3, op) < 1.15
    mi300x = carver.load_arch("mi300x")
    eight, one = (keys.with_arch(a).recommend_hints(1)[0].details for a in (mi300x, mi300x.replace(l2_partitions=1)))
    assert eight["l2_hit_rate"] < 0.2 * one["l2_hit_rate"]


def test_half_of_what_a_store_takes_beyond_the_loop_shows_where_other_warps_multiply() -> None:
    """TileLang's persistent kernels on an H200: one group of warps stores a tile while another multiplies the next.
    Of two later waves, 2 x (store - loop) / 2 is seen."""
    hz = H200.clock_hz
    asked = dict(resident=1, math_clk=2000, warps=4, store_clk=9000, other_stores=1)
    one, three = (estimated(grid=n * 132, **asked) for n in (1, 3))
    loop = term(one, "main loop") * hz
    assert 2000 < loop < 3500
    assert (term(three, "epilogue") - term(one, "epilogue")) * hz == pytest.approx(9000 - loop)
    plain = dict(asked, other_stores=0)
    one, three = (estimated(grid=n * 132, **plain) for n in (1, 3))
    assert (term(three, "epilogue") - term(one, "epilogue")) * hz == pytest.approx(2 * 9000)


def test_so_does_half_of_it_in_the_last_wave() -> None:
    hz = H200.clock_hz
    asked = dict(resident=1, math_clk=2000, warps=4, store_clk=9000, other_stores=1)
    full, over = (float(estimated(grid=n, **asked).seconds[0]) for n in (132, 132 + 66))
    loop = term(estimated(grid=132, **asked), "main loop") * hz
    start = term(estimated(grid=132, **asked), "prologue") * hz
    assert (over - full) * hz / 0.98 == pytest.approx(start + loop + (9000 - loop) / 2, rel=0.01)


@pytest.mark.parametrize("ahead, share", [(1, 0.0), (2, 0.5), (4, 0.75)])
def test_the_first_loads_of_a_block_are_waited_for_as_far_as_no_step_does(ahead: int, share: float) -> None:
    """With one buffer each step waits for its own loads, the first too: nothing is added before it."""
    latency = 1000e-9
    arch = H200.replace(l2_latency_s=latency / 2.8, dram_latency_s=latency)
    none, some = (term(estimated(a, grid=132, ahead=ahead, warps=4), "prologue") for a in (H200, arch))
    plain = H200.l2_latency_s * 2.8
    assert some - none == pytest.approx(share * (latency - plain))


def test_sectors_that_stores_fill_in_parts_are_written_again() -> None:
    """3,200 bytes of which each sector is touched 1.5 times more take 1.5 x 3,200 bytes of the port of 64 bytes."""
    one, again = (
        term(estimated(grid=132, warps=4, store_bytes=3200, scattered=n), "epilogue") * H200.clock_hz for n in (0, 1.5)
    )
    busy = max(1 / 64, 132 / (H200.l2_bytes_per_s / H200.clock_hz))
    assert again - one == pytest.approx(1.5 * 3200 * busy)


def test_loads_that_find_where_others_go_miss_l2_once() -> None:
    """Each dependent load waits for L2; those of the first blocks wait for DRAM, once in a kernel."""
    none, two = (estimated(grid=132, warps=4, start_loads=n) for n in (0, 2))
    added = 2 * (2.8 * H200.l2_latency_s + H200.dram_latency_s - H200.l2_latency_s)
    assert float(two.seconds[0] - none.seconds[0]) == pytest.approx(added)


def test_arithmetic_takes_its_clocks_in_the_last_wave_too() -> None:
    """133 blocks of 10,000 clocks on 132 SMs, of which a wave's tail would count by half."""
    e = estimate(work(grid=132 * 9 + 131, math_clk=1e5, chain_clk=1, warps=4, steps=100), H200, {**K, "tail": 0.0})
    own = float(e.seconds[0]) - term(e, "launch")
    assert own >= (132 * 9 + 131) / 132 * 100 * 1e5 / H200.clock_hz


# ---- traffic


@pytest.mark.parametrize(
    ("run", "align", "passes"),
    [
        (128, 16, 1 + 2.5 * 0.5 + 112 / 128 / 4),  # each copy of 16 bytes goes alone, and most runs cross a line
        (128, 32, 1 + 96 / 128 / 4),  # merged copies, and the line that they cross into
        (128, 64, 1 + 64 / 128 / 4),
        (128, 128, 1.0),
    ],
)
def test_copies_from_rows_that_start_inside_a_sector(run: int, align: int, passes: float) -> None:
    """3000 x 3000 on an H200 with rows of 6000 to 6144 bytes (`benchmarks/rows.py`, tests/data/h200/rows.json): rows
    aligned to 16 bytes take up to 1.5 times as long, to 32 up to 1.13 and to 64 up to 1.10."""
    t, _ = tile("h200", 4096, 4096, 4096)
    assert split_waste(t, np.array([run]), np.array([align]), np.array([16.0]))[0] == pytest.approx(passes)
    assert split_waste(t, np.array([run]), np.array([align]), np.array([8.0]))[0] == 1.0  # through L1


def test_rows_past_the_edge_take_no_room_in_l2() -> None:
    """140 tiles of 256 x 16, of which 132 run at once: (256 + 132 x 16) x 8192 elements are 38.8 MB, of which only 16
    rows are in the matrix. All that exists are (16 + 2240) x 8192, which are 37.0 MB and fit 38."""
    arch = H200.replace(l2_bytes=38_000_000)
    t, _ = tile(arch, 16, 2240, 8192, BLOCK_M=256, BLOCK_N=16)
    two = np.full(1, 2.0)
    read, _, hit = dram_reads(t, {**K, "l2_usable": 1.0}, two, two, np.ones(1))
    assert hit[0] == 1.0
    assert read[0] == (16 + 2240) * 8192 * 2
    _, _, hit = dram_reads(t, {**K, "l2_usable": 0.9}, two, two, np.ones(1))
    assert hit[0] == pytest.approx(0.9 * 38e6 / ((16 + 2240) * 8192 * 2))


def test_a_line_that_all_blocks_want_comes_from_one_slice() -> None:
    """A slice of L2 gives 64 bytes a clock. Blocks are spread over `hot_steps` steps, so 4 of these times a line of 128
    bytes (one row of A, 64 elements deep) are read at 256 bytes a clock of all that L2 has."""
    t, _ = tile("h200", 1, 16384, 4096, BLOCK_M=16, BLOCK_N=128, BLOCK_K=64)
    k = {**K, "hot_steps": 4.0, "l2_efficiency": 1.0, "l2_merge": 0.0}
    l2 = t.arch.l2_bytes_per_s / t.arch.clock_hz
    hot = traffic(t, k, np.ones(1), np.ones(1), np.ones(1)).l2_bytes[0]
    cool = traffic(t, {**k, "hot_steps": 1e6}, np.ones(1), np.ones(1), np.ones(1)).l2_bytes[0]
    rows_of_a = 16  # the tile's: asynchronous copies of 16 bytes do not find the repeated row in L1
    assert hot - cool == pytest.approx(rows_of_a * 64 * 2 * (l2 / 256 - 1), rel=1e-6)


@pytest.mark.parametrize(("l2_mib", "fits"), [(40, False), (60, True)])
def test_partial_sums_stay_in_l2_where_they_take_less_than_half_of_it(l2_mib: int, fits: bool) -> None:
    """6 parts of 1024 x 1024 float32 are 24 MiB, read once, and written once as 4."""
    arch = H200.replace(l2_bytes=int(l2_mib * MIB))
    t, _ = tile(arch, 1024, 1024, 8192, SPLIT_K=6)
    rate = 0.5 * arch.l2_bytes_per_s if fits else arch.dram_bytes_per_s
    k = {**K, "split_s": 3e-6, "split_each_s": 1e-7, "l2_efficiency": 0.5}
    assert reduction(t, k)[0] == pytest.approx(3e-6 + 6e-7 + (24 + 2) * MIB / rate)


def test_the_first_wave_waits_for_dram_together() -> None:
    """Of 528 blocks, 132 at a time, a quarter finds nothing in L2; the others find all of an operand that fits it."""
    t, _ = tile("h200", 128 * 24, 128 * 22, 512)
    moved = traffic(t, {**K, "l2_usable": 1.0}, np.ones(1), np.ones(1), np.ones(1))
    later = moved.read_bytes[0] / (528 * 8) / moved.distinct_bytes[0]
    assert moved.missed[0] == pytest.approx(0.25 + 0.75 * later)


def test_blocks_of_a_cluster_read_their_columns_once() -> None:
    """B passes from L2 to four blocks of a cluster as one; A to each."""
    t, _ = tile("h200", 4096, 4096, 4096)
    one = traffic(t, {**K, "l2_merge": 0.0, "hot_steps": 1e6}, np.ones(1), np.ones(1), np.ones(1)).l2_bytes[0]
    t.__dict__["cluster"] = np.full(1, 4.0)
    four = traffic(t, {**K, "l2_merge": 0.0, "hot_steps": 1e6}, np.ones(1), np.ones(1), np.ones(1)).l2_bytes[0]
    assert one == pytest.approx(2 * 128 * 64 * 2)
    assert four == pytest.approx((1 + 1 / 4) * 128 * 64 * 2)


def test_sums_by_compare_and_swap_need_a_zeroed_output() -> None:
    """4 MiB of float32 are zeroed by a kernel of its own, then 6 parts of them go through L2's atomic units."""
    t, _ = tile("h200", 1024, 1024, 8192, SPLIT_K=6)
    t.__dict__["atomic"] = np.ones(1)
    swapped = 4e-6 + 4 * MIB / H200.dram_bytes_per_s + 24 * MIB / (0.02 * H200.l2_bytes_per_s)
    assert reduction(t, {**K, "launch_s": 4e-6, "atomic_share": 0.02})[0] == pytest.approx(swapped)


def test_an_operand_laid_out_anew_is_read_and_written() -> None:
    t, _ = tile("h200", 1024, 1024, 8192)
    t.__dict__["copied_bytes"] = np.full(1, 16 * MIB)
    k = {**K, "split_s": 3e-6, "dram_efficiency": 0.5}
    assert copying(t, k)[0] == pytest.approx(3e-6 + 32 * MIB / (0.5 * H200.dram_bytes_per_s))


# ---- registers


def test_a_spilled_register_is_stored_and_loaded() -> None:
    """10 registers too many in 4 warps of 32 lanes are 5,120 bytes each way: 40 clocks of a port of 128 bytes, 80 both
    ways, which is 8 % of a step of 1,000 clocks for each round."""
    some = spill_slowdown(H200, np.full(1, 4.0), np.full(1, 265.0), np.full(1, 1000.0), {"spill_rounds": 1.0})
    assert some[0] == pytest.approx(1.08)
    assert spill_slowdown(H200, np.full(1, 4.0), np.full(1, 255.0), np.full(1, 1000.0), {"spill_rounds": 1.0})[0] == 1


BY_CODE = {
    ("rx_7900_xtx", "float32", True): [
        ((64, 128, 32, 8), 28.6), ((128, 64, 32, 2), 73.9), ((256, 64, 32, 4), 66.9), ((128, 128, 32, 4), 51.6),
    ],
    ("rx_7900_xtx", "float32", False): [((64, 128, 32, 8), 21.4), ((16, 64, 64, 2), 46.2), ((128, 256, 32, 8), 53.4)],
    ("rx_9070_xt", "float32", True): [((32, 128, 32, 4), 32.7), ((128, 16, 64, 2), 183.9), ((64, 256, 16, 4), 56.9)],
    ("rx_6900_xt", "float32", True): [((16, 128, 64, 4), 69.4), ((32, 64, 64, 2), 92.3), ((256, 16, 32, 4), 66.0)],
    ("rx_6900_xt", "float16", True): [
        ((128, 128, 32, 8), 9.03), ((128, 128, 64, 4), 7.72), ((16, 256, 32, 2), 9.79), ((256, 16, 32, 8), 12.0),
    ],
    ("rx_7900_xtx", "float64", True): [((256, 64, 16, 8), 94.1), ((64, 32, 64, 4), 117.2), ((64, 64, 32, 2), 102.7)],
    ("rx_6900_xt", "int8", True): [((64, 128, 64, 2), 3.9), ((128, 64, 64, 8), 5.27), ((256, 128, 32, 8), 4.67)],
}  # fmt: skip
"""Of matmuls of 4096 cubed, by device, type and whether K is contiguous in B: rows, columns and depth of tiles, warps;
milliseconds by the machine code of Triton 3.6. Those of float32 spill 97 to 1,024 registers a thread."""


SPILLED = {
    "rx_7900_xtx": [((128, 128, 64, 4), 1.76), ((128, 256, 32, 4), 5.94), ((256, 64, 64, 2), 11.6)],
    "rx_9070_xt": [((256, 128, 64, 8), 1.2), ((128, 32, 128, 2), 5.0), ((256, 128, 64, 4), 8.75)],
}  # fmt: skip
"""The same of float16 on matrix units; all but the first of a device spill 35 to 440 registers."""


def over_code(
    device: str, dtype: str, along: bool, listed: Sequence[tuple[tuple[int, ...], float]], size: int = 4096
) -> list[float]:
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps")
    tiles = [dict(zip(names, each, strict=True)) | {"num_stages": 2} for each, _ in listed]
    op = carver.MatmulTemplate(size, size, size, in_dtype=dtype, trans_B=along).with_arch(device)
    said = {hint.index: hint.predicted_ms for hint in op.rank(tiles, backend="triton")}
    return [said[i] / ms for i, (_, ms) in enumerate(listed)]


@pytest.mark.parametrize(("device", "dtype", "along"), BY_CODE)
def test_products_on_vector_units_of_rdna_take_what_their_code_says(device: str, dtype: str, along: bool) -> None:
    ratios = over_code(device, dtype, along, BY_CODE[device, dtype, along])
    assert all(0.7 < ratio < 1.35 for ratio in ratios), ratios


@pytest.mark.parametrize("device", SPILLED)
def test_matrix_products_of_rdna_that_spill_are_last(device: str) -> None:
    ratios = over_code(device, "float16", True, SPILLED[device])
    assert all(0.5 < ratio < 2.0 for ratio in ratios), ratios


def test_dot_products_of_a_lone_block_wait_for_one_another() -> None:
    """Of 1024 cubed, 64 blocks on 80 units: by machine code a warp takes 21,808 clocks for 4,096 dot products of each
    lane, which its pipes do in 6,256."""
    ratios = over_code("rx_6900_xt", "float16", True, [((128, 128, 64, 4), 0.232), ((128, 128, 32, 4), 0.230)], 1024)
    assert all(0.8 < ratio < 1.25 for ratio in ratios), ratios


# ---- attention


def test_a_capped_score_takes_five_more_vector_instructions_and_two_special_ones() -> None:
    """tanh(x) = 1 - 2 / (exp(2x) + 1): two scalings, an addition, a multiply-add and a product on the vector units, an
    exponential and a reciprocal on the special-function units. 128 x 64 scores are 256 warps' worth of each."""
    size = dict(batch=4, heads=32, seq=4096, head_dim=64)
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}

    def asked(**more: Any) -> Work:
        space = carver.FlashAttentionTemplate(**size, **more).with_arch("h200").rank([config]).table.parts[0].space
        return attention(space, K)

    plain, capped = asked(), asked(softcap=50.0)
    assert capped.issue_clk[0] - plain.issue_clk[0] == pytest.approx(7 * 256 / 4)
    exponentials, vector, _ = softmax_clk(H200, np.array(128 * 64.0), np.array(128 * 64.0))
    assert (exponentials, vector) == (128 * 64 / 16, 128 * 64 * (3.5 + 1) / 128)
    assert capped.math_clk[0] > 1.3 * plain.math_clk[0]


def asked(arch: str, config: dict[str, int], **size: Any) -> Work:
    size = dict(batch=4, heads=32, seq=4096, head_dim=128) | size
    ranking = carver.FlashAttentionTemplate(**size).with_arch(arch).rank([config], "triton")
    return attention(ranking.table.parts[0].space, K)


def test_warps_in_step_hide_little_of_their_softmax() -> None:
    """A barrier keeps the warps of a block in step: all compute, then all multiply (FlashAttention-3, arXiv 2407.08608,
    section 3.1). Two warps a scheduler take 0.9 to 1 of the time that one takes for both in turn; freely they would
    take as little as half."""
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_stages": 3}
    one, two = (float(asked("h200", {**config, "num_warps": n}).chain_clk[0]) for n in (4, 8))
    assert 0.9 < two / one < 0.99


def test_a_paged_kernel_reads_its_table_first() -> None:
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    plain, paged = (asked("h200", config, **more) for more in ({}, {"page": 16}))
    assert np.max(paged.start_loads) - np.max(plain.start_loads) == 1


def test_a_block_sparse_kernel_looks_up_which_keys_it_visits() -> None:
    """A count and an index, each loaded before the next load can begin, besides the first load of keys."""
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    plain, sparse = (asked("h200", config, **more) for more in ({}, {"visited": 1024}))
    assert np.max(plain.exposed * plain.steps) == pytest.approx(1)
    assert np.max(sparse.exposed * sparse.steps) == pytest.approx(3)


def test_parts_of_the_keys_store_sums_and_two_words_a_row() -> None:
    """128 rows of 128 float32, with the maximum and the sum of each."""
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3, "SPLIT_KV": 4}
    ranking = carver.FlashAttentionTemplate(4, 32, seq=4096, head_dim=128).with_arch("h200").rank([config])
    assert attention(ranking.table.parts[0].space, K).store_bytes[0] == 128 * 128 * 4 + 128 * 8


def test_gradients_mask_every_score_of_a_causal_grid() -> None:
    """A comparison and a selection beside 4 vector instructions and one exponential a score: 4,096 scores, 32 lanes."""
    config = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
    size = dict(backward="keys", seq=65536, batch=1, heads=1)
    plain, causal = (asked("h200", config, causal=c, **size) for c in (False, True))
    assert causal.issue_clk[0] - plain.issue_clk[0] == pytest.approx(2 * 64 * 64 / 32 / 4, rel=0.05)


def test_values_beyond_256_registers_are_moved_there_and_back_on_cdna() -> None:
    """CDNA 3 ISA, accumulation VGPRs. Four warps issue one instruction a clock on the four SIMDs of a compute unit."""
    config = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 4, "num_stages": 2}
    mi300x = carver.load_arch("mi300x")

    def issued(arch: Arch) -> tuple[float, float]:
        op = carver.FlashAttentionTemplate(1, 32, seq=4096, head_dim=128).with_arch(arch)
        space = op.rank([config], "triton").table.parts[0].space
        return float(attention(space, K).issue_clk[0]), float(read_columns(Attention, space, whole=True).registers[0])

    moved, registers = issued(mi300x)
    plain, _ = issued(mi300x.replace(max_regs_per_thread=256))
    assert registers > 256
    assert moved - plain == pytest.approx(4 * 2 * (registers - 256), rel=1e-3)


# ---- learning


def test_one_candidate_with_a_cause_of_its_own_says_little_of_the_others() -> None:
    """A candidate that took 20 times as long as predicted counts as one of e^0.7, twice the median of the others."""
    seen = rows(1)
    log_s = seen.log_s + np.log(1.5)
    log_s[11] += np.log(20.0)
    _, wrong = _latest(seen, log_s)
    assert wrong[11] == pytest.approx(np.log(1.5) + 0.7)
    assert wrong[:11] == pytest.approx(np.log(1.5))
    log_s[11] -= np.log(1e4)
    assert _latest(seen, log_s)[1][11] == pytest.approx(np.log(1.5) - 0.7)


def test_what_differs_in_one_tunable_differs_as_far_in_the_others() -> None:
    """Half of what two configurations have in common is due to single tunables: those of one tile that differ in
    everything else stay correlated, by 0.5 / 4 + 0.5 exp(-distance)."""
    one = np.zeros((1, 4))
    far = np.array([[0.0, 9.0, 9.0, 9.0]])
    assert _near(one, far)[0, 0] == pytest.approx(0.5 / 4, abs=1e-3)
    near = np.array([[0.0, 0.0, 0.0, 1.0]])
    assert _near(one, near)[0, 0] == pytest.approx(0.5 * (3 + np.exp(-1)) / 4 + 0.5 * np.exp(-1))


def test_times_of_a_tile_are_told_by_configurations_that_share_nothing_else() -> None:
    """All measured candidates of tile 16 are 40 % slow; one of tile 16 whose warps and stages were
    never measured near is expected slower than one of tile 1."""
    configs = [(t, w, s) for t in (0.0, 4.0) for w in (0.0, 1.0) for s in (0.0, 1.0)]
    seen = Rows((), np.zeros(8), np.zeros((8, 0)), ("t", "w", "s"), np.array(configs), ({"m": 1},) * 8)
    asked = Rows(
        (), np.zeros(2), np.zeros((2, 0)), ("t", "w", "s"), np.array([[0.0, 5, 5], [4.0, 5, 5]]), ({"m": 1},) * 2
    )
    slow = 0.4 * (seen.places[:, 0] > 2)
    fast_s, slow_s = posterior(asked, seen, slow).mean
    assert slow_s - fast_s > 0.05


def test_what_problems_have_in_common() -> None:
    """Three quarters of a discrepancy are shared by problems, less by e^-(d^2 / 2) for a distance of 16 doublings; an
    offset of 0.1 is a problem's own, of 0.2 the kernel's; a measured candidate is known to 1 %."""
    same, near = _alike([{"m": 1}], [{"m": 1}, {"m": 2.0**16}])
    assert list(same[0]) == [1, 0]
    assert near[0] == pytest.approx([1.0, 0.75 * np.exp(-0.5)])
    seen = rows(1)
    _, _, offset, _ = _shared(seen, rows(1, 2))
    assert offset[0, 0] == pytest.approx(0.2**2 + 0.1**2)
    assert offset[0, -1] == pytest.approx(0.2**2)
    known = posterior(seen, seen, seen.log_s)
    assert known.deviation == pytest.approx(0.01, abs=0.003)
