"""The cost model's arithmetic, by hand: waves, steps, occupancy, traffic, and bounds that no answer may cross."""

from __future__ import annotations

import dataclasses
from functools import cache
from itertools import product

import numpy as np
import pytest
from cases import answerable, device_for, holds_for_each, offered, template

import carver
from carver.arch.descriptor import LIMITS, blocks_that_fit, occupancy_limits, resident_blocks
from carver.base.errors import NoCandidates
from carver.calibrate.fitting import samples
from carver.calibrate.tables import Case
from carver.cost.estimate import Estimate, Work, estimate, on_pipe
from carver.cost.learn import predict
from carver.cost.model import CONSTANTS, resolve, roofline_seconds
from carver.cost.models.contraction import one_step
from carver.cost.traffic import sector_waste
from carver.kernels.expr import row_of, warp_matrix_unit
from carver.ranking.recommend import offered_kernels, rank, unit_share

H200 = carver.CUDA("h200")
K = {name: constant.prior for name, constant in CONSTANTS.items()}
DEMANDS = [
    f.name for f in dataclasses.fields(Work)
    if str(f.type).startswith("FloatArray") and not f.name.endswith("_overlap")
]  # fmt: skip
ONES = ("chain_clk", "grid", "resident", "warps", "steps", "ahead", "slowdown", "l2_read_bytes", "sm_share")


def work(**demands: float) -> Work:
    """One candidate that asks for nothing but what is said."""
    values = {name: np.array([float(demands.pop(name, name in ONES))]) for name in DEMANDS}
    assert not demands, f"no such demand: {demands}"
    return Work(**values)  # type: ignore[arg-type]


def estimated(arch: carver.Arch = H200, **demands: float) -> Estimate:
    return estimate(work(**demands), arch, K)


def term(e: Estimate, name: str) -> float:
    return float(e.terms[name][0])


def bound(e: Estimate) -> str:
    return max(e.alone_s, key=lambda resource: float(e.alone_s[resource][0]))


# ---- waves


def test_whole_waves_leave_no_tail() -> None:
    e = estimated(grid=3 * 2 * 132, resident=2, math_clk=1000, warps=4)
    assert e.waves[0] == 3
    assert term(e, "tail wave") == 0


def test_each_wave_takes_as_long() -> None:
    one, four = (estimated(grid=n * 132, math_clk=1000, warps=4) for n in (1, 4))
    assert term(four, "main loop") == pytest.approx(4 * term(one, "main loop"))


def test_less_than_a_wave_is_no_tail() -> None:
    e = estimated(grid=100, resident=2, math_clk=1000, warps=4)
    assert e.waves[0] == pytest.approx(100 / 264)
    assert term(e, "tail wave") == 0
    assert term(e, "main loop") > 0


def test_one_block_more_than_a_wave_costs_a_tail_that_runs_alone() -> None:
    full = estimated(grid=264, resident=2, math_clk=1000, warps=4, steps=100)
    over = estimated(grid=265, resident=2, math_clk=1000, warps=4, steps=100)
    tail = term(over, "tail wave")
    assert term(over, "main loop") == pytest.approx(term(full, "main loop") * 265 / 264)
    # a block that has the SM to itself finishes in half the time of two that share it
    assert 0.4 * term(full, "main loop") < tail < 0.75 * term(full, "main loop")


def test_a_wave_that_is_all_but_full_wastes_next_to_nothing() -> None:
    full = estimated(grid=2 * 264, resident=2, math_clk=1000, warps=4, steps=100)
    less = estimated(grid=2 * 264 - 1, resident=2, math_clk=1000, warps=4, steps=100)
    assert term(less, "tail wave") < 0.01 * term(full, "main loop")
    assert term(less, "main loop") == pytest.approx(term(full, "main loop"), rel=0.03)
    assert sum(term(less, name) for name in less.terms) == pytest.approx(float(less.seconds[0]))


def test_idle_processors_do_not_speed_up_the_rest() -> None:
    half = H200.replace(sm_count=66)
    few = estimated(grid=66, math_clk=1000, warps=4)
    assert estimated(half, grid=66, math_clk=1000, warps=4).seconds[0] == pytest.approx(few.seconds[0], rel=0.01)


# ---- the main loop


def test_twice_the_steps_take_twice_the_time() -> None:
    short, long = (estimated(grid=132, math_clk=2000, warps=4, steps=n) for n in (50, 100))
    assert term(long, "main loop") == pytest.approx(2 * term(short, "main loop"), rel=1e-3)


def test_arithmetic_takes_its_clocks() -> None:
    e = estimated(grid=132, resident=1, warps=4, steps=1000, math_clk=4000)
    at_peak = 1000 * 4000 / H200.clock_hz
    assert at_peak <= term(e, "main loop") < 1.2 * at_peak
    assert bound(e) == "math"


def test_one_warp_reaches_a_quarter_of_four_schedulers() -> None:
    one, four = (estimated(grid=132, warps=n, steps=1000, math_clk=4000) for n in (1, 4))
    assert term(one, "main loop") == pytest.approx(4 * term(four, "main loop"), rel=0.05)


def test_a_scheduler_with_two_warps_takes_as_long_as_four_with_two() -> None:
    """Five warps on four schedulers: one of these has two of them, and twice a lone warp's work."""
    five, eight = (estimated(grid=132, warps=n, steps=1000, math_clk=1000 * n) for n in (5, 8))
    assert term(five, "main loop") == pytest.approx(term(eight, "main loop"))


def test_waits_among_products_show_where_no_other_block_fills_them() -> None:
    def loop(resident: float, wait_clk: float) -> float:
        e = estimated(grid=132 * resident, resident=resident, warps=4, steps=1000, math_clk=1000, apart_clk=1000,
                      chain_clk=0, wait_clk=wait_clk)  # fmt: skip
        return term(e, "main loop") * H200.clock_hz / 1000

    assert loop(1, 800.0) == pytest.approx(loop(1, 0.0) + 800, rel=0.2)
    assert loop(8, 800.0) == loop(8, 0.0)


def test_dram_takes_its_bytes() -> None:
    per_step = 64_000.0
    e = estimated(grid=132, warps=8, steps=100, ahead=4, dram_bytes=per_step, l2_read_bytes=per_step)
    at_peak = 132 * 100 * per_step / H200.dram_bytes_per_s
    assert at_peak < term(e, "main loop") < 1.6 * at_peak
    assert bound(e) == "DRAM"


@pytest.mark.parametrize(
    ("demand", "value", "limiter"),
    [
        ("math_clk", 5000.0, "math"),
        ("smem_clk", 5000.0, "shared memory"),
        ("fill_bytes", 500_000.0, "L2"),
        ("dram_bytes", 500_000.0, "DRAM"),
        ("issue_clk", 5000.0, "issue"),
    ],
)
def test_the_largest_demand_is_what_bounds_the_loop(demand: str, value: float, limiter: str) -> None:
    base = dict(grid=132, warps=8, steps=100, ahead=4)
    e = estimated(**base, **{demand: value})  # type: ignore[arg-type]
    assert bound(e) == limiter
    assert term(e, "main loop") >= max(float(alone[0]) for name, alone in e.alone_s.items() if name != "DRAM")


def test_what_a_hint_is_bound_by_takes_longest_of_what_explains_it() -> None:
    """On an RTX 5090 the port of shared memory is busy longest in a step of a convolution, but DRAM, which also writes
    and works from the first load to the last store, is busy for longer than the whole loop."""
    assert bound(estimated(grid=1320, warps=8, steps=4, smem_clk=900, store_bytes=64_000.0)) == "DRAM"
    hints = carver.Conv2DTemplate(2048, 2048, 9, 9).with_arch("rtx_5090").recommend_hints(3)
    assert hints[0].bound == "DRAM"
    for hint in hints:
        loop_ms = hint.explain().loop_ms
        assert hint.bound == max(loop_ms, key=loop_ms.__getitem__)


MAY_BE_FASTER = {"grid", "resident", "sm_share", "warps", "ahead", "l2_read_bytes", "next_tile", "other_stores"}
"""With more of them: that is what they are for."""


@holds_for_each(demand for demand in DEMANDS if demand not in MAY_BE_FASTER)
def test_asking_for_more_never_takes_less(demand: str) -> None:
    base = dict(
        grid=300, resident=2, warps=4, steps=50, ahead=2, math_clk=500, chain_clk=300, smem_clk=200, issue_clk=100,
        fill_bytes=10_000, l2_bytes=10_000, l2_read_bytes=10_000, dram_bytes=2_000, l3_bytes=2_000, store_bytes=5_000,
        store_clk=100, store_chain_clk=50, launch_s=1e-6, reduction_s=1e-6, slowdown=1.0, exposed=0.1,
        products_apart=1.0, scattered=0.1, apart_clk=10, barrier_wait_clk=5, wait_clk=2_000, missed=0.2, start_loads=2,
        power_clk=600, in_turn_s=1e-4, handed_on_s=1e-4,
    )  # fmt: skip
    now = estimated(**base).seconds[0]  # type: ignore[arg-type]
    more = estimated(**base | {demand: base[demand] * 1.5}).seconds[0]  # type: ignore[arg-type]
    assert more >= now


def test_deeper_pipelines_hide_latency() -> None:
    base = dict(grid=132, warps=4, steps=100, math_clk=200, dram_bytes=1000.0, l2_read_bytes=1000.0)
    times = [estimated(**base, ahead=n).seconds[0] for n in (1, 2, 3, 4)]  # type: ignore[arg-type]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.3 * times[3]


def test_scaling_between_products_of_mma_hides_in_part_behind_other_blocks() -> None:
    layer = carver.MatmulTemplate(4096, 8192, 8192, trans_B=True, in_dtype="int8", out_dtype="bfloat16")
    tile = dict(BLOCK_M=64, BLOCK_N=128, BLOCK_K=128, num_warps=4, num_stages=3, GROUP_M=16)
    tables = [rank(layer.problem, carver.CUDA(name), [tile], "triton_block_fp8") for name in ("a100", "h100")]
    steps = [one_step(table.table.parts[0].space, K) for table in tables]
    assert [float(step.chain_overlap[0]) for step in steps] == [1.2, K["chain_overlap"]]  # mma, wgmma
    math, chain = steps[0].math_clk, steps[0].chain_clk
    two = on_pipe(math, chain, np.array(2.0), steps[0].chain_overlap, True)
    hidden = (math + chain - two) / (chain - math)
    assert 0.1 < float(hidden[0]) < 0.9


def test_a_launch_of_clusters_takes_longer_and_pays_in_deep_matmuls_only() -> None:
    tile = dict(block_m=128, block_n=192, block_k=64, groups=2, alternate=1, stages=5, group_m=8, split_k=1)
    both = [tile | {"cluster": cluster} for cluster in (1, 2)]
    deep, flat = (
        rank(carver.MatmulTemplate(4096, 4096, k, trans_B=True).problem, H200, both, "cuda") for k in (4096, 64)
    )
    assert [deep[0].config["cluster"], flat[0].config["cluster"]] == [2, 1]
    launches = [hint.terms["launch"] for hint in sorted(flat, key=lambda hint: hint.index)]
    [kernel] = {part.space.kernel for part in flat.table.parts}
    assert launches[1] - launches[0] == pytest.approx(resolve(kernel, H200)["cluster_s"] * 1e3)


def test_terms_add_up_and_none_is_negative() -> None:
    e = estimated(
        grid=500, resident=3, warps=4, steps=20, math_clk=700, store_bytes=4000, launch_s=1e-6, reduction_s=2e-6
    )
    assert sum(float(t[0]) for t in e.terms.values()) == pytest.approx(float(e.seconds[0]))
    assert min(float(t[0]) for t in e.terms.values()) >= 0
    assert term(e, "launch") == K["launch_s"] + 1e-6
    assert term(e, "reduction") == 2e-6


# ---- occupancy, counted with the tables of the CUDA C++ Programming Guide


@pytest.mark.parametrize(
    ("device", "alone", "two"),
    [("mi300x", 32, 16), ("mi250x", 32, 16), ("mi100", 40, 16), ("rx_vega_64", 40, 16), ("rx_7900_xtx", 64, 32),
     ("rx_5700_xt", 80, 32), ("h200", 32, 32), ("a100_sxm_80", 32, 32)],
)  # fmt: skip
def test_blocks_of_one_wave_take_no_barrier(device: str, alone: int, two: int) -> None:
    """Of a CU, of a WGP on RDNA: as many as waves, where blocks of two are as many as barriers; on NVIDIA a limit of
    blocks is one of any blocks."""
    arch = carver.load_arch(device)
    assert [blocks_that_fit(arch, warps, 0, 24) for warps in (1, 2)] == [alone, two]


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "smem_bytes", "blocks", "limit"),
    [
        ("h100", 128, 32, 0, 16, "threads"),  # 2048 / 128
        ("h100", 32, 32, 0, 32, "blocks"),
        ("h100", 256, 128, 0, 2, "registers"),  # 128 x 256 = 32768 of 65536
        ("h100", 256, 129, 0, 1, "registers"),  # 129 is allocated as 136 a thread: 34816
        ("h100", 128, 32, 48 * 1024, 4, "shared memory"),  # 228 KiB / (48 + 1 KiB reserved)
        ("h100", 128, 32, 227 * 1024, 1, "shared memory"),
        ("a100_sxm_80", 256, 64, 40 * 1024, 4, "registers"),  # 164 / 41 is 4 as well; the first of the least wins
        ("t4", 256, 32, 0, 4, "threads"),  # 1024 an SM
        ("rtx_3090", 128, 40, 0, 12, "registers"),
        ("v100", 64, 32, 0, 32, "threads"),
    ],
)
def test_resident_blocks_by_hand(
    arch: str, threads: int, registers: int, smem_bytes: int, blocks: int, limit: str
) -> None:
    device = carver.CUDA(arch)
    columns = [np.array([float(x)]) for x in (threads // 32, smem_bytes, registers)]
    counts = occupancy_limits(device, *columns)
    assert resident_blocks(device, *columns)[0] == blocks
    assert counts[LIMITS.index(limit)][0] == blocks


TILE = {
    "TT0": 8, "TT1": 16, "WG0": 16, "WG1": 16, "DepthU": 16, "GSU": 1, "WGM": 8, "GRVW": 4, "VW": 4, "PGR": 1, "LDL": 1,
}  # fmt: skip
"""Of 256 x 128 sums, 128 of them in each of 256 threads."""


def test_blocks_spread_over_a_pair_of_compute_units() -> None:
    """A compute unit of RDNA holds 8 warps of 200 registers, a pair 16: three blocks of 5. On an RX 6900 XT with 80 of
    them, rocBLAS's 102 blocks that each fill one take 1.57 times as long as 80."""
    device = carver.HIP("rx_6900_xt")
    columns = [np.array([float(x)]) for x in (5, 0, 200)]
    assert occupancy_limits(device, *columns)[LIMITS.index("registers")][0] == 3
    assert resident_blocks(device, *columns)[0] == 1.5

    def ms(blocks: int) -> float:
        op = carver.MatmulTemplate(256 * blocks, 128, 4096, in_dtype="float32").with_arch(device)
        [hint] = op.rank([TILE], backend="tensile")
        assert hint.details["waves"] == blocks / 80
        return hint.predicted_ms

    assert ms(102) == pytest.approx(1.5 * ms(80), rel=0.08)
    assert 0.5 * ms(80) < ms(40) < 0.7 * ms(80)


def test_other_warps_of_a_scheduler_hide_the_latency_of_operands() -> None:
    device = carver.HIP("rx_6900_xt")
    op = carver.MatmulTemplate(512, 512, 512, in_dtype="float32").with_arch(device)
    ranking = op.rank([TILE | {"TT1": 8, "WG1": 8, "WG0": across} for across in (8, 32)], backend="tensile")
    [part] = ranking.table.parts
    constants = resolve(part.space.kernel, device)
    step = one_step(part.space, constants)
    latency_clk = constants["read_latency_clk"] * TILE["DepthU"]
    idle_clk = step.chain_clk - step.math_clk / np.minimum(2.0, step.warps / device.schedulers_per_sm)
    few, many = idle_clk[np.argsort(step.warps)]
    assert few >= latency_clk and many < 0.1 * latency_clk, "2 and 8 warps on the four schedulers of a pair"


# ---- traffic


@pytest.mark.parametrize(("run", "align"), [
    (128, 32), (128, 16), (32, 16), (8, 8), (48, 16), (64, 2), (2, 2), (2048, 128), (96, 4), (40, 8),
])  # fmt: skip
def test_sectors_are_fetched_whole(run: int, align: int) -> None:
    """The mean over every place in a 32-byte sector where a run may start."""
    touched = [-(-(start % 32 + run) // 32) for start in range(0, 32 * align, align)]
    expected = sum(touched) / len(touched) * 32 / run
    assert sector_waste(np.array([float(run)]), np.array([float(align)]), 32)[0] == pytest.approx(expected, rel=0.02)


def facts(m: int, n: int, k: int, arch: carver.Arch = H200, **config: int) -> dict[str, float]:
    defaults = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3)
    op = carver.MatmulTemplate(m, n, k).with_arch(arch)
    return dict(op.rank([defaults | config])[0].details)


def test_padding_by_hand() -> None:
    assert facts(1024, 1024, 1024)["padding"] == 1
    # 129 rows take two tiles of 128, 65 steps of K two of 64
    assert facts(129, 128, 64)["padding"] == pytest.approx(256 / 129)
    assert facts(128, 128, 65)["padding"] == pytest.approx(128 / 65)


def test_steps_and_waves_by_hand() -> None:
    f = facts(1024, 2048, 1000, SPLIT_K=2)
    assert f["steps"] == np.ceil(np.ceil(1000 / 64) / 2)
    assert f["waves"] == pytest.approx(8 * 16 * 2 / (132 * f["blocks_per_sm"]))


@pytest.mark.parametrize(
    ("types", "block", "device", "beside"),
    [
        (("float16", "int4"), (1, 32), "h100", 2 * 8192 * 4096 // 32),  # of A's type
        (("float16", "uint4"), (1, 128), "h100", (2 + 0.5) * 8192 * 4096 // 128),  # and a zero point
        (("float4_e2m1", "float4_e2m1"), (1, 16), "b200", (8192 + 16) * 4096 // 16),  # of 8 bits, A's too
        (("float8_e4m3", "float8_e4m3"), (128, 128), "h100", 4 * (16 + 64) * 32),
    ],
)
def test_scales_are_bytes(types: tuple[str, str], block: tuple[int, int], device: str, beside: float) -> None:
    m, n, k = 16, 8192, 4096
    op = carver.ScaledMatmulTemplate(m, n, k, block, in_dtype=types[0], b_dtype=types[1])
    width = {"int4": 0.5, "uint4": 0.5, "float4_e2m1": 0.5, "float8_e4m3": 1.0, "float16": 2.0}
    elements = m * k * width[types[0]] + n * k * width[types[1]] + m * n * 2
    assert op.problem.compulsory_bytes == elements + beside
    hint = op.with_arch(device).recommend_hints(1)[0]
    assert hint.details["dram_bytes"] >= op.problem.compulsory_bytes


def test_a_cache_that_holds_everything_leaves_compulsory_traffic() -> None:
    huge = H200.replace(l2_bytes=1 << 33)
    f = facts(4096, 4096, 4096, huge)
    assert f["compulsory_bytes"] == 3 * 4096 * 4096 * 2
    assert 1 <= f["dram_bytes"] / f["compulsory_bytes"] < 1.1  # a DRAM page is opened for each run of a tile's row


def test_less_cache_never_means_less_traffic() -> None:
    traffic = [facts(8192, 8192, 8192, H200.replace(l2_bytes=mb << 20))["dram_bytes"] for mb in (4, 8, 16, 32, 64)]
    assert traffic == sorted(traffic, reverse=True)
    assert traffic[0] > 1.2 * traffic[-1]
    assert min(traffic) >= 3 * 8192 * 8192 * 2


def test_splitting_the_sum_costs_a_second_pass() -> None:
    op = carver.MatmulTemplate(256, 256, 16384).with_arch(H200)
    config = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3)
    one, eight = (op.rank([config | {"SPLIT_K": s}])[0] for s in (1, 8))
    assert one.terms["reduction"] == 0
    assert eight.terms["reduction"] > 0
    assert eight.predicted_ms < one.predicted_ms  # four blocks on 132 SMs, or 32


# ---- bounds that no answer may cross

SHAPES = [(1, 1, 1), (64, 64, 64), (1000, 504, 768), (16, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 64)]
ARCHS = [name for name in carver.arch_names() if carver.load_arch(name).kind == "gpu"]
OF_EACH_RATE = list({(arch.isa, arch.matrix, arch.vector): arch.name for arch in map(carver.load_arch, ARCHS)}.values())
"""One device of those whose SMs are equally fast."""


@pytest.mark.parametrize(("operator", "backend"), list(answerable()))
@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_nothing_is_faster_than_the_roofline(operator: str, backend: str, shape: tuple[int, int, int]) -> None:
    arch = carver.load_arch(device_for(backend))
    for dtype in ("float16", "float32"):
        op = template(operator, *shape, dtype)
        if not offered(op.problem, arch, backend):
            continue
        for hint in op.with_arch(arch).recommend_hints(20, backend):
            assert hint.predicted_ms >= roofline_seconds(op.problem, arch) * 1e3
            assert 0 < hint.details["roofline_share"] <= 1


def units(arch: carver.Arch) -> tuple[str, ...]:
    """Devices with the same ones differ in counts and rates."""
    return arch.isa, *sorted({f"{row.dtype} {row.instruction}" for row in arch.matrix})


@cache
def picks(wanted: tuple[str, ...]) -> list[carver.Hint]:
    """For a large matmul on the first device with these units."""
    first = next(arch for arch in map(carver.load_arch, ARCHS) if units(arch) == wanted)
    return list(carver.MatmulTemplate(4096, 4096, 4096).with_arch(first).recommend_hints(8))


@holds_for_each(ARCHS)
def test_no_device_beats_its_own_roofline(name: str) -> None:
    arch = carver.load_arch(name)
    op = carver.MatmulTemplate(4096, 4096, 4096).with_arch(arch)
    first = picks(units(arch))
    best = op.rank(first, first[0].backend)[0]
    share = roofline_seconds(op.problem, arch) * 1e3 / best.predicted_ms
    issued = unit_share(op.problem, arch, offered_kernels(op.problem, arch, best.backend)[0])
    assert 0.25 * issued < share < 1, f"a large matmul at {share:.0%} of the roofline is not believable"


@pytest.mark.parametrize(("operator", "backend"), list(answerable()))
@pytest.mark.parametrize("field", ["dram_bytes_per_s", "l2_bytes_per_s", "clock_hz"])
def test_a_faster_device_is_never_slower(operator: str, backend: str, field: str) -> None:
    arch = carver.load_arch(device_for(backend))
    op = template(operator, 4096, 4096, 512)
    if not offered(op.problem, arch, backend):
        pytest.skip("no kernel of this backend takes the problem")
    hints = op.with_arch(arch).recommend_hints(50, backend)
    faster = arch.replace(**{field: 1.25 * getattr(arch, field)})
    again = {h.index: h.predicted_ms for h in op.with_arch(faster).rank(list(hints), backend)}
    for place, hint in enumerate(hints):
        assert again[place] <= hint.predicted_ms * (1 + 1e-9)


@pytest.mark.parametrize(("operator", "backend"), list(answerable()))
def test_more_work_takes_longer(operator: str, backend: str) -> None:
    arch = carver.load_arch(device_for(backend))
    times = []
    for scale in (1, 4, 16):
        op = template(operator, 4096 * scale, 1024, 1024 * scale)
        if not offered(op.problem, arch, backend):
            pytest.skip("no kernel of this backend takes the problem")
        times.append(op.with_arch(arch).recommend_hints(1, backend)[0].predicted_ms)
    assert times == sorted(times)
    assert times[-1] > 2 * times[0]


def test_constants_have_priors_within_their_bounds() -> None:
    for name, constant in CONSTANTS.items():
        assert constant.low <= constant.prior <= constant.high, name
        assert constant.meaning


def test_neighbours_share_what_they_read_of_l2() -> None:
    """Row by row a tall tile took 0.90 of its time in groups of 8 on an H200 at the first size, a wide one 1.14 at the
    second.
    """
    h200 = carver.load_arch("h200")

    def ratio(arch: carver.Arch, m: int, n: int, block_m: int, block_n: int) -> float:
        op = carver.MatmulTemplate(m, n, 4096, trans_B=True, in_dtype="bfloat16").with_arch(arch)
        tile = dict(BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=64, num_warps=8, num_stages=4)
        single, grouped = (op.rank([tile | {"GROUP_M": group}])[0].predicted_ms for group in (1, 8))
        return single / grouped

    assert ratio(h200, 16384, 1024, 256, 128) < 1
    assert ratio(h200, 4096, 4096, 128, 256) > 1.02
    each_alone = h200.replace(l2_merge_sms=1)
    assert ratio(each_alone, 4096, 4096, 128, 256) < ratio(h200, 4096, 4096, 128, 256)

    offered = carver.MatmulTemplate(4096, 4096, 4096).with_arch(h200).recommend_hints(10_000, "triton")
    assert {h.config["BLOCK_M"] > h.config["BLOCK_N"] for h in offered if h.config["GROUP_M"] == 1} == {True}
    flat = carver.MatmulTemplate(16, 4096, 4096).with_arch(h200).recommend_hints(10_000, "triton")
    assert {h.config["GROUP_M"] for h in flat} == {8}, "one row of tiles has one order"


def test_integer_sums_are_converted_where_the_device_converts() -> None:
    """Each step of a matmul scaled in blocks: I2F on a sixteenth of the lanes of an A100, I2FP on half of an L40's."""
    config = dict(BLOCK_M=64, BLOCK_N=128, BLOCK_K=128, num_warps=4, num_stages=3, GROUP_M=16)

    def ms(arch: str, dtype: str, **tile: int) -> float:
        op = carver.MatmulTemplate(4096, 4096, 4096, trans_B=True, in_dtype=dtype, out_dtype="bfloat16")
        return op.with_arch(arch).rank([config | tile], backend="triton_block_fp8")[0].predicted_ms

    conversions_ms = 4096**2 * 4096 / 64 / (16 * 108 * 1.41e9) * 1e3
    assert ms("a100", "int8", BLOCK_K=64) > conversions_ms, "a sum is converted once in 64 products"
    assert ms("a100", "int8", BLOCK_K=64) > 1.3 * ms("a100", "int8")
    assert 1 < ms("l40", "int8") / ms("l40", "float8_e4m3") < 1.15


def test_an_l2_in_halves_holds_half_as_much() -> None:
    """A wave of tiles that walks all columns: read again by each wave as far as L2 does not hold them."""
    arch = carver.CUDA("l40s")
    op = carver.MatmulTemplate(4096, 10240, 5120, trans_B=True, in_dtype="float8_e4m3", out_dtype="bfloat16")
    config = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=128, num_warps=8, num_stages=3, GROUP_M=1)

    def hit(arch: carver.Arch) -> float:
        return op.with_arch(arch).rank([config], backend="triton_block_fp8")[0].details["l2_hit_rate"]

    assert hit(arch) > 0.9 > hit(arch.replace(l2_copies=2))


def test_tcgen05_multiplies_for_a_whole_block() -> None:
    b200 = carver.load_arch("b200")

    def ms(dtype: str, **config: int) -> float:
        op = carver.MatmulTemplate(8192, 8192, 8192, in_dtype=dtype).with_arch(b200)
        tile = dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=4, GROUP_M=8, SPLIT_K=1)
        return op.rank([tile | config], backend="triton")[0].predicted_ms

    half = ms("float16")
    of_mma = 2 * 8192**3 / (b200.matrix_unit("float16", None, "mma").flops_per_clk_per_sm * b200.sm_count)
    assert half < of_mma / b200.matrix_clock_hz * 1e3, "faster than mma.sync could be"
    # integers are left to mma.sync; 64 rows fill half of the lanes
    assert ms("int8") > 1.5 * ms("float8_e4m3")
    assert ms("float16", BLOCK_M=64) > 1.5 * half


@pytest.mark.parametrize("name", ["h200", "b200"])
@pytest.mark.parametrize("dtype", ["float16", "tf32", "int8", "float8_e4m3"])
def test_a_thin_tile_is_not_padded_to_the_rows_of_wgmma(name: str, dtype: str) -> None:
    unit = warp_matrix_unit(carver.MatmulTemplate(16, 4096, 4096, in_dtype=dtype).problem, carver.load_arch(name))
    assert unit is not None
    assert unit.instruction == "mma"
    assert unit.shape[0] == 16


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8", "float8_e4m3"])
def test_no_type_runs_faster_than_the_units_that_compute_it(dtype: str) -> None:
    wide = {"float64": "float64", "int8": "int32"}.get(dtype, "float32")
    templates: list[carver.ops.operator.Template] = [carver.MatmulTemplate(2048, 64, 8192, in_dtype=dtype)]
    if dtype.startswith("float") and dtype != "float8_e4m3":  # element-wise, narrow types are computed as float32
        templates += [carver.ElementwiseTemplate((2048, 2048), dtype, flops_per_element=500)]
    for arch, op in product(map(carver.load_arch, OF_EACH_RATE), templates):
        try:
            arch.vector_flops_per_clk(wide)
        except carver.base.errors.ArchError:
            continue  # a device without float64
        best_s = op.with_arch(arch).recommend_hints(1).seconds[0]
        bound_s = roofline_seconds(op.problem, arch)
        if isinstance(op, carver.ElementwiseTemplate):
            computed = "float64" if dtype == "float64" else "float32"
            bound_s = max(op.problem.compulsory_bytes / arch.dram_bytes_per_s,
                          op.problem.flops / arch.vector_flops_per_s(computed))  # fmt: skip
        assert best_s >= bound_s, (arch.name, str(op.problem))


def test_the_same_memory_costs_the_same_under_another_description() -> None:
    """A column is a row of the transpose, and an axis of one element is none."""
    for trans_b in (False, True):
        narrow = carver.MatmulTemplate(16, 1, 4096, batch=512, trans_B=trans_b)
        hint = narrow.with_arch("h200").recommend_hints(1, "triton")[0]
        assert hint.details["dram_bytes"] < 1.3 * hint.details["compulsory_bytes"]
    rows = carver.ReductionTemplate("sum", (2**22, 3)).with_arch("h200").recommend_hints(1)[0]
    assert rows.details["dram_bytes"] < 1.3 * rows.details["compulsory_bytes"]


def test_a_ragged_output_is_written_once() -> None:
    config = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3}
    even, odd = (
        carver.MatmulTemplate(m, 2**20, 32, out_dtype="float32").with_arch("h200").rank([config])[0] for m in (128, 129)
    )
    assert odd.predicted_ms < 1.5 * even.predicted_ms


def column_sums(rows: int, columns: int) -> carver.ReductionTemplate:
    return carver.ReductionTemplate("sum", (rows, columns), 0).with_arch("h200")


def split_tile(threads: int, split: int, cluster: int) -> dict[str, int]:
    return dict(block_r=threads // 4, block_c=64, threads=threads, vec=4, split=split, cluster=cluster)


def test_clusters_cost_less_than_a_second_launch() -> None:
    split, cluster = (column_sums(16384, 2048).rank([split_tile(256, *by)], "cuda")[0] for by in ((8, 1), (1, 8)))
    assert cluster.predicted_ms < split.predicted_ms


def test_clusters_of_more_than_two_blocks_leave_sms_idle() -> None:
    """120 of 132: as many blocks as there are places take two waves."""
    large = column_sums(1 << 16, 1024)
    wide = [dict(block_r=512, block_c=16, threads=1024, vec=8, split=1, cluster=n) for n in (1, 2, 4)]
    alone, pairs, fours = (h.details for h in sorted(large.rank(wide, "cuda"), key=lambda h: h.config["cluster"]))
    assert [h["waves"] for h in (alone, pairs)] == pytest.approx([64 / 132, 128 / 132])
    assert fours["waves"] == pytest.approx(256 / 120)


def test_an_sm_holds_eight_blocks_of_clusters() -> None:
    narrow = [dict(block_r=8, block_c=64, threads=32, vec=1, split=1, cluster=n) for n in (1, 2)]
    rows = carver.ReductionTemplate("sum", (60_001, 1777)).with_arch("h200")
    alone, pairs = sorted(rows.rank(narrow, "cuda"), key=lambda h: h.config["cluster"])
    assert alone.details["waves"] < pairs.details["waves"] / 3


@pytest.mark.parametrize("op", ["softmax", "layer_norm"])
def test_rows_that_start_anywhere_are_read_in_vectors(op: str) -> None:
    hints = carver.ReductionTemplate(op, (201_475, 333)).with_arch("h200").recommend_hints(100, "cuda")
    assert next(h for h in hints if h.kernel == "normalise").config["vec"] == 8


@pytest.mark.parametrize(
    ("device", "shape"),
    [("h200", (300, 100_003)), ("h200", (16, 131_072)), ("b200", (600, 100_003)), ("rtx_5090", (16, 131_072))],
)
def test_clusters_hold_long_rows(device: str, shape: tuple[int, int]) -> None:
    """Where rows leave SMs without a block, or wait for a second reading."""
    hints = carver.ReductionTemplate("softmax", shape).with_arch(device).recommend_hints(1000, "cuda")
    alone = next(h for h in hints if h.kernel == "normalise")
    assert hints[0].config["cluster"] > 1
    assert hints[0].predicted_ms < 0.95 * alone.predicted_ms
    assert hints[0].details["dram_bytes"] < 1.05 * hints[0].details["compulsory_bytes"]


def test_clusters_are_for_devices_that_have_them() -> None:
    rows = carver.ReductionTemplate("softmax", (300, 40_003))
    for device in ("a100", "rtx_4090"):
        here = rows.with_arch(device)
        held = [h for h in here.recommend_hints(10_000, "cuda") if h.kernel == "held"]
        assert {h.config["cluster"] for h in held} == {1}
        config = dict(threads=128, cluster=8, block_c=5056)
        with pytest.raises(NoCandidates, match="clusters need compute capability"):
            here.rank([config], "cuda", kernel="held")


@pytest.mark.parametrize(("op", "dtype"), [("softmax", "float16"), ("rms_norm", "bfloat16"), ("sum", "float16")])
def test_short_rows_that_start_anywhere_are_one_run(op: str, dtype: str) -> None:
    """Sectors are not read twice, so that DRAM moves what it must; rows that start on vectors need none of that."""
    ragged, aligned = (
        carver.ReductionTemplate(op, (400_000, c), 1, dtype).with_arch("h200").recommend_hints(1000, "cuda")
        for c in (77, 80)
    )
    assert ragged[0].kernel == "rows"
    assert ragged[0].details["dram_bytes"] < 1.15 * ragged[0].details["compulsory_bytes"]
    assert "rows" not in {h.kernel for h in aligned}


def test_registers_are_shared_out_by_scheduler() -> None:
    """cuda_occupancy.h on a device of 64 Ki registers in 4 parts: 176 a thread leave room for 2 warps in each."""
    limits = occupancy_limits(H200, np.array([1.0, 2.0]), np.zeros(2), np.array([176.0, 176.0]))
    assert limits[LIMITS.index("registers")].tolist() == [8, 4]


def test_a_window_walks_no_further_than_its_image() -> None:
    conv = carver.OpTemplate("O[n,p,q,f] += I[n,p+r,q+s,c] * W[r,s,c,f]", n=8, p=28, q=28, f=64, r=7, s=7, c=3)
    image, weights = conv.problem.statement.inputs
    assert row_of(conv.problem, image) == (1, 21, 1)  # 7 pixels of 3 channels, then the next line
    assert row_of(conv.problem, weights) == (0, 64, 1)


@pytest.mark.parametrize("stride", [2, 8, 16, 1024])
def test_elements_apart_in_a_row_are_read_with_what_lies_between_up_to_a_sector_each(stride: int) -> None:
    """Counted by hand: 2^24 elements of 2 bytes are written, and as many read from sectors of 32."""
    copied = carver.OpTemplate(f"Y[i] = X[{stride}*i]", i=1 << 24).with_arch("h100").recommend_hints(1)[0]
    moved_bytes = (1 << 24) * (min(2 * stride, 32) + 2)
    assert moved_bytes <= copied.details["dram_bytes"] <= 1.1 * moved_bytes
    matmul = carver.OpTemplate(f"C[m,n] += A[m,{stride}*k] * B[k,n]", m=4096, n=4096, k=4096).with_arch("h100")
    matmul_bytes = 4096 * 4096 * (min(2 * stride, 32) + 4)
    assert matmul_bytes <= matmul.recommend_hints(1)[0].details["dram_bytes"] <= 3 * matmul_bytes


@pytest.mark.parametrize(("op", "fraction"), [("sum", 40), ("softmax", 80)])
def test_rows_of_one_byte_are_taken_as_one_run(op: str, fraction: int) -> None:
    """On an H200 a sum of 2^27 such rows takes 0.17 ms by runs and 6.9 by a thread a row, a softmax 0.22 and 19.4."""
    ranked = carver.ReductionTemplate(op, (1 << 27, 1), in_dtype="int8").with_arch("h200").recommend_hints(1, "cuda")
    assert ranked[0].kernel == "rows" and ranked[0].predicted_ms < 7.0 / fraction * 1.2


def test_where_a_batch_is_the_innermost_axis_each_element_takes_a_sector() -> None:
    """Counted by hand: 64 matmuls read 2 x 512 x 512 elements each, and of each element one sector of 32 bytes."""
    sizes = {"m": 512, "n": 512, "k": 512, "b": 64}
    each = [carver.OpTemplate(f"C[b,m,n] += {x}", **sizes) for x in ("A[b,m,k] * B[b,k,n]", "A[m,k,b] * B[k,n,b]")]
    outer, inner = (op.with_arch("h100").recommend_hints(1)[0].details["dram_bytes"] for op in each)
    assert outer < 1.1 * 3 * 64 * 512 * 512 * 2
    assert 2 * 64 * 512 * 512 * 32 < inner < 1.2 * 2 * 64 * 512 * 512 * 32 + 64 * 512 * 512 * 2


def test_taps_of_a_strided_window_fill_what_their_neighbours_leave_out() -> None:
    sizes = {"n": 8, "f": 64, "c": 64, "p": 56, "q": 56, "r": 3, "s": 3}
    each = [carver.OpTemplate(f"O[n,f,p,q] += I[n,c,{at}] * W[f,c,r,s]", **sizes) for at in ("p+r,q+s", "2*p+r,2*q+s")]
    near, far = (op.with_arch("h100").recommend_hints(1)[0].predicted_ms for op in each)
    assert near <= far <= 1.2 * near


@pytest.mark.parametrize("causal", [False, True])
def test_problems_fitted_together_are_priced_as_they_are_alone(causal: bool) -> None:
    heads = [carver.FlashAttentionTemplate(4, 16, seq=seq, head_dim=128, causal=causal) for seq in (512, 4096)]
    rankings = [op.with_arch(H200).recommend_hints(20, "triton") for op in heads]
    cases = [Case("", r.problem, H200, "triton", [h.config for h in r], r.seconds) for r in rankings]
    for sample in samples(cases):
        k = resolve(sample.space.kernel, H200)
        np.testing.assert_allclose(predict(sample.space, k), sample.seconds)


@pytest.mark.parametrize(("operator", "backend"), list(answerable()))
@pytest.mark.parametrize("shape", [(4096, 1024, 512), (100, 333, 77), (16, 8192, 8192)])
def test_facts_are_of_the_problem(operator: str, backend: str, shape: tuple[int, int, int]) -> None:
    """DRAM moves what has to move, and not many times that for any of the first hints; shares are shares."""
    op = template(operator, *shape).with_arch(device_for(backend))
    for hint in op.recommend_hints(10, backend):
        facts = hint.details
        assert facts["compulsory_bytes"] == pytest.approx(op.problem.compulsory_bytes)
        assert 0.999 <= facts["dram_bytes"] / facts["compulsory_bytes"] < 2
        assert facts.get("padding", 1) >= 1
        assert 0 <= facts.get("l2_hit_rate", 0) <= 1 and 0 <= facts.get("l2_merged_share", 0) < 1
        assert 0 < facts["roofline_share"] <= 1


def test_the_ends_of_rows_are_no_negative_padding() -> None:
    op = carver.ReductionTemplate("softmax", (1_000_000, 33), in_dtype="float64").with_arch("h200")
    assert all(hint.details["padding"] >= 1 for hint in op.recommend_hints(20, kernel="normalise"))
