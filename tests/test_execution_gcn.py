"""What the evaluator of AMD's machine code says of HIP kernels, against counts by hand. Needs clang, no GPU."""

from __future__ import annotations

import math
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from everyday import clang
from test_execution import SOURCE, f32, i32, most_passes

import carver
from carver.arch.devices import load
from carver.base.errors import CompileError, ConfigError
from carver.compiled.binary import Binary
from carver.compiled.execution.facts import Execution, execution, facts_of_binary
from carver.compiled.execution.gcn import decode, placed
from carver.compiled.execution.lanes import Column, number
from carver.compiled.execution.tiles import spread, times
from carver.compiled.isa.code import Instruction
from carver.integrations.source import binary
from carver.run.compile import hip_compiler

TRAP = "#define __trap __builtin_trap\n"
"""What CUDA has a function for."""
MORE = """
extern "C" __global__ void folded(const float* x, float* y, int n) {
    extern __shared__ float held[];
    int lane = threadIdx.x;
    float total = 0;
    for (int i = lane; i < n; i += blockDim.x) total += x[blockIdx.x * n + i];
    held[lane] = total;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (lane < half) held[lane] += held[lane + half];
        __syncthreads();
    }
    if (lane == 0) y[blockIdx.x] = held[0];
}
extern "C" __global__ void ladder(const float* x, float* y, int n) {
    float total = 0;
    int start;
    if (threadIdx.x % 3 == 0) start = 2; else start = 5;
#pragma unroll 1
    for (int i = start; i < n + (int)threadIdx.x; ++i) {
        if (i % 2) continue;
        total += x[i * 64 + threadIdx.x];
        if (i == 40) break;
    }
    y[threadIdx.x] = total;
}
extern "C" __global__ void wide(const float4* x, double* y, long long n) {
    long long at = (long long)blockIdx.x * 64 + threadIdx.x;
    if (at < n) { float4 v = x[at * 3]; y[at] = v.x + v.y + v.z + v.w; }
}
extern "C" __global__ void added(int* y, const int* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(y + i, x[i]);
}
extern "C" __global__ void swapped(const int* x, int* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int* word = y + blockIdx.x * n + i;
        int held = *word, seen;
        do { seen = held; held = atomicCAS(word, seen, seen * 3 + x[blockIdx.x * n + i]); } while (held != seen);
    }
}
extern "C" __global__ void five_points(const float* x, float* y, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y, p = r * columns + c;
    if (r > 0 && r < rows - 1 && c > 0 && c < columns - 1)
        y[p] = x[p - 1] + x[p + 1] + x[p - columns] + x[p + columns] - 4 * x[p];
}
extern "C" __global__ void chased(const int* next, int* y, int steps) {
    int at = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < steps; ++i) at = next[at];
    y[threadIdx.x] = at;
}
extern "C" __global__ void placed(const short* x, int* y, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c < columns) atomicAdd(y + r / 2, (int)x[(blockIdx.z * 64 + r) * columns + c]);
}
"""
ARCH = {"gfx90a": "mi210", "gfx942": "mi300x", "gfx1100": "rx_7900_xtx", "gfx1151": "radeon_8060s",
        "gfx1201": "rx_9070_xt"}  # fmt: skip


def words(n: int) -> carver.Tensor:
    return carver.Tensor("int32", (n,))


pytestmark = pytest.mark.skipif(not clang(), reason="no clang that compiles HIP")


@pytest.fixture(params=list(ARCH))
def arch(request: pytest.FixtureRequest) -> Any:
    return load(ARCH[request.param])


def compiled(arch: Any, entry: str, grid: Any, block: Any, *args: Any, shared_bytes: int = 0, **more: Any) -> Binary:
    kernel = carver.Kernel(TRAP + SOURCE + MORE, entry, shared_bytes=shared_bytes)
    made = binary(kernel, {}, args=args, grid=grid, block=block, arch=arch)
    fields = {"constants": made.constants} | more  # arguments are told by their places, unless they are named
    return Binary(made.code, made.entry, made.args, made.grid, made.block, shared_bytes, **fields)


def executed(arch: Any, entry: str, grid: Any, block: Any, *args: Any, values: Any = None, **more: Any) -> Execution:
    of = execution(compiled(arch, entry, grid, block, *args, **more), arch, values)
    assert not of.detail.unknown
    return of


def moved(of: Execution) -> dict[tuple[str, str], float]:
    """Bytes that lanes of the detailed blocks ask for, by kind and argument; not the arguments themselves."""
    out: Counter[tuple[str, str]] = Counter()
    for event in of.detail.log:
        op = of.program.ops[of.program.index[event.where]] if event.kind == "global" else None
        lanes, address = spread(event) if op else ((), ())
        if op and len(lanes) and (place := of.launch.place_of(int(address[0]))):
            out[op.access, place.name] += len(lanes) * op.width_bytes * times(event)
    return dict(out)


def test_a_loop_over_the_grid(arch: Any) -> None:
    n, blocks = 1_000_000, 5
    of = executed(arch, "grid_sum", blocks, 256, f32(n), f32(1), i32(n))
    assert moved(of)["load", "arg0"] == 4 * n
    wave = of.code.warp_size
    # of wave w of block b: every blocks x 256 numbers from 256 b + wave w on
    wanted = [math.ceil((n - 256 * b - wave * w) / (blocks * 256)) for b in range(blocks) for w in range(256 // wave)]
    assert most_passes(of) == pytest.approx(np.mean(wanted))


def test_division_by_an_argument_and_ragged_edges(arch: Any) -> None:
    height, width = 13, 37  # 481 threads in 4 blocks
    of = executed(arch, "divided", 4, 128, f32(height * width), f32(height * width), i32(height), i32(width))
    taps = height * width + 2 * (height - 1) * (width - 1)
    assert moved(of) == {("load", "arg0"): 4 * taps, ("store", "arg1"): 4 * height * width}


def test_a_block_of_two_dimensions_and_local_memory(arch: Any) -> None:
    rows, columns = 64, 96
    of = executed(arch, "turned", (3, 2), (32, 8), f32(rows, columns), f32(columns, rows), i32(rows), i32(columns))
    assert moved(of) == {("load", "arg0"): 4 * rows * columns, ("store", "arg1"): 4 * rows * columns}
    local = Counter[str]()
    for event in of.detail.log:
        if event.kind == "shared":
            op = of.program.ops[of.program.index[event.where]]
            active = np.broadcast_to(event.detail, len(event.lanes)).sum()
            local[op.access] += int(active) * op.width_bytes * times(event)
    assert local == {"store": 4 * rows * columns, "load": 4 * rows * columns}


def test_loops_in_loops_leap(arch: Any) -> None:
    outer, inner = 300, 40
    of = executed(arch, "nested", 1, 128, f32(outer * inner * 128), f32(128), i32(outer), i32(inner))
    assert most_passes(of) == outer * inner
    assert moved(of)["load", "arg0"] == 4 * outer * inner * 128
    assert len(of.detail.log) < 1000  # of 12,000 passes
    facts = of.facts()
    assert facts.read_bytes == pytest.approx(4 * outer * inner * 128)
    assert [round(loop.trips) for loop in facts.loops][-1] == outer * inner


def test_a_condition_on_the_low_bits_of_a_counter_is_not_leapt_over(arch: Any) -> None:
    n = 203
    of = executed(arch, "every_eighth", 1, 32, f32(n), f32(n), i32(n))
    asked = moved(of)
    assert asked["store", "arg1"] == 4 * 32 * len(range(3, n, 8))
    assert asked["load", "arg0"] in (4 * n, 4 * 32 * n)  # of a wave, or of each lane


def test_loaded_numbers_are_unknown_until_they_are_given(arch: Any) -> None:
    at = carver.Tensor("int32", (33,))
    args = (f32(1000), at, f32(4096), i32(32))
    of = executed(arch, "gathered", 1, 32, *args, names=("x", "at", "y", "n"))
    assert of.detail.assumed
    assert [(tile.kind, tile.place.name, tile.tile_bytes) for tile in of.tiles if tile.anywhere] == [("load", "x", 128)]
    held = np.arange(33)[::-1].copy()
    held[32] = 7
    of = executed(arch, "gathered", 1, 32, *args, names=("x", "at", "y", "n"), values={"at": held})
    assert not of.detail.assumed
    found = moved(of)
    assert found["load", "x"] == 128
    assert found["store", "y"] == 128 + 128 * 7


def test_addresses_are_known_behind_conditions_that_are_not(arch: Any) -> None:
    rows, width = 128 * 40, 8
    ints = carver.Tensor("int32", (width, rows))
    args = (f32(rows), f32(width, rows), ints, f32(1000), i32(rows), i32(width))
    of = executed(arch, "sparse", 40, 128, *args, names=("y", "values", "columns", "x", "", ""))
    facts, entries = of.facts(), 4 * rows * width
    for argument in ("values", "columns"):
        held = [access for access in facts.accesses if access.argument == argument]
        assert sum(access.program_bytes for access in held) * facts.programs == pytest.approx(entries)
        assert not any(access.anywhere for access in held)


def test_bounds_of_a_launch_decide_how_many_registers_a_thread_may_have(arch: Any) -> None:
    source = 'extern "C" __global__ void __launch_bounds__(64) bounded(float* x) {\n x[threadIdx.x] = 1;\n}'
    made = binary(carver.Kernel(source, "bounded"), {}, args=(f32(64),), grid=1, block=64, arch=arch)
    assert b".max_flat_workgroup_size: 64\n" in made.code


def test_constants_by_symbol(arch: Any) -> None:
    held = np.zeros(64, np.int32)
    held[5], held[6] = 123, 1000
    of = executed(arch, "tabled", 1, 32, f32(2000), i32(5), constants={"table": held})
    assert most_passes(of) == 123
    [tile] = [tile for tile in of.tiles if tile.kind == "store"]
    assert tile.start % (1 << 40) == 4000
    with pytest.raises(ConfigError, match="names no 'tabel'; it names table"):
        compiled_facts = compiled(arch, "tabled", 1, 32, f32(2000), i32(5), constants={"tabel": held})
        facts_of_binary(compiled_facts, arch)


def test_blocks_of_unequal_work_in_a_large_grid(arch: Any) -> None:
    across, down = 64, 300
    of = executed(arch, "triangle", (across, down), 32, f32(64, 32), f32(across * down, 32))
    facts = of.facts()
    assert max(loop.trips for loop in facts.loops) == pytest.approx((across - 1) / 2, rel=0.02)
    assert facts.bytes_of("load") == pytest.approx(128 * (across - 1) / 2, rel=0.02)


def test_local_memory_of_the_launch(arch: Any) -> None:
    n, block = 1000, 128
    of = executed(arch, "folded", 7, block, f32(7, n), f32(7), i32(n), shared_bytes=4 * block)
    assert moved(of) == {("load", "arg0"): 4 * 6 * n, ("store", "arg1"): 4 * 6}  # of six blocks that are run
    facts = of.facts()
    assert facts.shared_bytes == 4 * block
    halves = [loop.trips for loop in facts.loops if loop.span.barriers]
    assert halves == [math.log2(block)]


def test_branches_in_loops_by_lane(arch: Any) -> None:
    n, threads = 90, 64
    of = executed(arch, "ladder", 1, threads, f32(200 * 64), f32(64), i32(n))
    loads = 0
    for t in range(threads):
        for i in range(2 if t % 3 == 0 else 5, n + t):
            if i % 2:
                continue
            loads += 1
            if i == 40:
                break
    assert moved(of)["load", "arg0"] == 4 * loads


def test_wide_loads_and_long_numbers(arch: Any) -> None:
    n = 200
    of = executed(arch, "wide", 4, 64, f32(4 * 3 * n), carver.Tensor("float64", (n,)), np.int64(n))
    assert moved(of) == {("load", "arg0"): 16 * n, ("store", "arg1"): 8 * n}
    tile = next(tile for tile in of.tiles if tile.kind == "load")
    assert (tile.tile_bytes, tile.run_bytes) == (16 * 64, 16)


def test_three_dimensions_and_atomics(arch: Any) -> None:
    columns = 50
    y = carver.Tensor("int32", (32,))
    of = executed(arch, "placed", (2, 1, 3), (32, 8), carver.Tensor("int16", (192, columns)), y, i32(columns))
    assert moved(of) == {("load", "arg0"): 2 * columns * 8 * 3, ("atomic", "arg1"): 4 * columns * 8 * 3}
    [atomic] = [tile for tile in of.tiles if tile.kind == "atomic"]
    assert (atomic.tile_bytes, atomic.run_bytes) == (4 * columns / 2 * 8, 4)  # those that meet are asked for each


def test_lanes_come_back_behind_a_loop_whose_end_is_not_known(arch: Any) -> None:
    """Each word is swapped until no other lane came between, which nobody knows; the loop around goes on for all."""
    n, blocks = 1024, 3
    of = executed(arch, "swapped", blocks, 128, words(blocks * n), words(blocks * n), i32(n))
    assert of.detail.assumed
    asked = moved(of)
    assert asked["load", "arg0"] == 4 * blocks * n and asked["atomic", "arg1"] == 4 * blocks * n
    assert any(round(loop.trips) == n // 128 for loop in of.facts().loops)


def test_rows_beside_a_wider_row_count_as_rows_of_its_neighbours(arch: Any) -> None:
    """A word and those beside it are one load of three: the rows above and below are loads of another width, of what
    the blocks beside them load, too."""
    n = 4096
    of = executed(arch, "five_points", (n // 32, n // 8), (32, 8), f32(n, n), f32(n, n), i32(n), i32(n))
    facts = of.facts()
    assert facts.read_bytes == pytest.approx(4 * n * n, rel=0.02)
    assert sum(again for again, _ in facts.reuse) < 0.15 * facts.read_bytes


@pytest.mark.parametrize("block", [(64, 4, 1), (32, 4, 2)])
def test_planes_beside_a_wider_row_count_as_planes_of_its_neighbours(block: tuple[int, ...]) -> None:
    """Of a device whose waves are far smaller than the runs of blocks that are looked at."""
    arch, n = load("rx_7900_xtx"), 512
    tensor, grid = f32(n, n, n), tuple(n // side for side in block)
    facts = executed(arch, "seven_points", grid, block, tensor, tensor, *[i32(n)] * 3).facts()
    assert facts.read_bytes == pytest.approx(4 * n**3, rel=0.01)
    planes = 4.0 * n * n * 5 * block[2]
    assert sum(again for again, meanwhile in facts.reuse if meanwhile > 2 * planes) < 0.15 * facts.read_bytes


def test_what_loaded_words_lead_to_lies_anywhere_though_the_first_is_known(arch: Any) -> None:
    steps = 500
    of = executed(arch, "chased", 1, 32, words(1 << 24), words(32), i32(steps))
    facts = of.facts()
    [load] = [each for each in facts.accesses if each.kind == "load"]
    assert load.anywhere and load.argument == "arg0" and facts.untold == ("arg0",)
    assert load.program_bytes == pytest.approx(4 * 32 * steps, rel=0.01)


def test_atomics_of_a_wave_are_on_the_sectors_of_all_of_its_lanes(arch: Any) -> None:
    """Those of 64 lanes were said to be on half of them."""
    many = words(4096)
    of = executed(arch, "added", 16, 256, many, many)
    assert [*of.code.sectors.values()] == [of.code.warp_size * 4 / 32]


@pytest.mark.parametrize(
    ("opcode", "operands", "given", "wanted"),
    [
        ("s_add_u32", "s0, s1, s2", {"s1": -1, "s2": 2}, {"s0": 1, "scc": True}),
        ("s_sub_u32", "s0, s1, s2", {"s1": 1, "s2": 2}, {"s0": 0xFFFFFFFF, "scc": True}),
        ("s_addc_u32", "s0, s1, 0", {"s1": 7, "scc": True}, {"s0": 8, "scc": False}),
        ("s_add_i32", "s0, s1, s2", {"s1": 0x7FFFFFFF, "s2": 1}, {"s0": 0x80000000, "scc": True}),
        ("s_addk_co_i32", "s0, 0x8000", {"s0": 0x80000000}, {"s0": 0x7FFF8000, "scc": True}),
        ("s_lshl_b64", "s[0:1], s[2:3], 4", {"s2": 0xF0000000, "s3": 1}, {"s0": 0, "s1": 0x1F, "scc": True}),
        ("s_ashr_i64", "s[0:1], s[2:3], 4", {"s2": 0, "s3": -16}, {"s0": 0, "s1": 0xFFFFFFFF, "scc": True}),
        ("s_bfe_u32", "s0, s1, 0x80004", {"s1": 0xABC}, {"s0": 0xAB, "scc": True}),
        ("s_bfe_i32", "s0, s1, 0x80000", {"s1": 0x80}, {"s0": 0xFFFFFF80, "scc": True}),
        ("s_mul_hi_u32", "s0, s1, s2", {"s1": -1, "s2": -1}, {"s0": 0xFFFFFFFE}),
        ("s_cselect_b32", "s0, s1, 3", {"s1": 4, "scc": False}, {"s0": 3}),
        ("s_cmp_lt_i32", "s0, s1", {"s0": -1, "s1": 0}, {"scc": True}),
        ("s_cmp_lt_u32", "s0, s1", {"s0": -1, "s1": 0}, {"scc": False}),
        ("s_cmpk_lg_u32", "s0, 0x80", {"s0": 0x80}, {"scc": False}),
        ("s_bitcmp1_b32", "s0, 3", {"s0": 8}, {"scc": True}),
        ("s_ff1_i32_b32", "s0, s1", {"s1": 0x50}, {"s0": 4}),
        ("s_flbit_i32_b32", "s0, s1", {"s1": 0x50}, {"s0": 25}),
        ("s_movk_i32", "s0, 0xff80", {}, {"s0": 0xFFFFFF80}),
        ("s_pack_ll_b32_b16", "s0, s1, s2", {"s1": 0x12345678, "s2": 0x9ABC}, {"s0": 0x9ABC5678}),
        ("s_absdiff_i32", "s0, s1, s2", {"s1": 3, "s2": 10}, {"s0": 7, "scc": True}),
        ("v_lshl_add_u32", "v0, v1, 3, v2", {"v1": 5, "v2": 2}, {"v0": 42}),
        ("v_lshlrev_b64", "v[0:1], 2, v[2:3]", {"v2": 0x80000000, "v3": 1}, {"v0": 0, "v1": 6}),
        ("v_lshl_add_u64", "v[0:1], v[2:3], 2, v[4:5]", {"v2": 1 << 30, "v3": 0, "v4": 8, "v5": 2}, {"v0": 8, "v1": 3}),
        ("v_mad_u64_u32", "v[0:1], s[0:1], v2, v3, v[4:5]", {"v2": -1, "v3": 2, "v4": 4, "v5": 0}, {"v0": 2, "v1": 2}),
        ("v_mad_i32_i24", "v0, v1, v2, v3", {"v1": 0xFFFFFF, "v2": 3, "v3": 1}, {"v0": 0xFFFFFFFE}),
        ("v_mul_u32_u24", "v0, v1, v2", {"v1": 0xFF000003, "v2": 5}, {"v0": 15}),
        ("v_mul_hi_i32", "v0, v1, v2", {"v1": -2, "v2": 1}, {"v0": 0xFFFFFFFF}),
        ("v_bfe_i32", "v0, v1, 0, 1", {"v1": 3}, {"v0": 0xFFFFFFFF}),
        ("v_bfi_b32", "v0, v1, v2, v3", {"v1": 0xFF00, "v2": 0x1234, "v3": 0x5678}, {"v0": 0x1278}),
        ("v_perm_b32", "v0, v1, v2, v3", {"v1": 0x44332211, "v2": 0x88776655, "v3": 0x0C010400}, {"v0": 0x00661155}),
        ("v_alignbit_b32", "v0, v1, v2, 8", {"v1": 0x12, "v2": 0x3456789A}, {"v0": 0x12345678}),
        ("v_add_co_u32", "v0, vcc, v1, v2", {"v1": -1, "v2": 1}, {"v0": 0, "vcc_lo": True}),
        ("v_addc_co_u32", "v0, vcc, v1, v2, vcc", {"v1": 1, "v2": 1, "vcc_lo": True}, {"v0": 3, "vcc_lo": False}),
        ("v_subrev_co_u32", "v0, vcc, v1, v2", {"v1": 3, "v2": 1}, {"v0": 0xFFFFFFFE, "vcc_lo": True}),
        ("v_cndmask_b32", "v0, v1, v2, vcc", {"v1": 1, "v2": 2, "vcc_lo": True}, {"v0": 2}),
        ("v_cmp_gt_i32", "vcc, 0, v1", {"v1": -1}, {"vcc_lo": True}),
        ("v_cmp_lt_u64", "s[0:1], v[2:3], v[4:5]", {"v2": 0, "v3": -1, "v4": 1, "v5": 0}, {"s0": False}),
        ("v_med3_i32", "v0, v1, 0, 10", {"v1": -5}, {"v0": 0}),
        ("v_cvt_f32_u32", "v0, v1", {"v1": 3}, {"v0": 0x40400000}),
        ("v_cvt_u32_f32", "v0, v1", {"v1": 0x40600000}, {"v0": 3}),
        ("v_cvt_f32_ubyte1", "v0, v1", {"v1": 0x300}, {"v0": 0x40400000}),
        ("v_mul_f32", "v0, 0x4f7ffffe, v1", {"v1": 0x3F800000}, {"v0": 0x4F7FFFFE}),
        ("v_dual_mov_b32", "v0, v1 :: v_dual_mov_b32 v1, v0", {"v0": 1, "v1": 2}, {"v0": 2, "v1": 1}),
        ("v_add_u32", "v0, v1, v2 dst_sel:DWORD src0_sel:WORD_1", {"v1": 0x50003, "v2": 1}, {"v0": 6}),
        ("v_pk_mov_b32", "v[0:1], v[2:3], v[2:3] op_sel:[1,0]", {"v2": 5, "v3": 6}, {"v0": 6, "v1": 5}),
        ("v_pk_mul_f32", "v[0:1], s[2:3], v[4:5] op_sel_hi:[0,1]",
         {"s2": 0x40000000, "s3": 0, "v4": 0x3F800000, "v5": 0x40400000}, {"v0": 0x40000000, "v1": 0x40C00000}),
        ("v_writelane_b32", "v9, s3, 5", {"s3": 7}, {"v9@5": 7}),
        ("s_lshl2_add_u32", "s0, s1, s2", {"s1": 3, "s2": 4}, {"s0": 16, "scc": False}),
        ("s_lshl2_add_u32", "s0, s1, s2", {"s1": 0x60000000, "s2": 0x80000000}, {"s0": 0, "scc": True}),
        ("s_min_i32", "s0, s1, s2", {"s1": 5, "s2": 5}, {"s0": 5, "scc": False}),
        ("s_max_i32", "s0, s1, s2", {"s1": 5, "s2": 5}, {"s0": 5, "scc": True}),
        ("s_cmov_b32", "s0, s1", {"s0": 1, "s1": 2, "scc": True}, {"s0": 2}),
        ("s_cmovk_i32", "s0, 0xff80", {"s0": 1, "scc": True}, {"s0": 0xFFFFFF80}),
        ("s_bitset1_b32", "s0, s1", {"s0": 1, "s1": 36}, {"s0": 0x11}),
        ("s_bitset0_b64", "s[0:1], 33", {"s0": 5, "s1": 7}, {"s0": 5, "s1": 5}),
        ("s_pack_lh_b32_b16", "s0, s1, s2", {"s1": 0x12345678, "s2": 0x9ABC0000}, {"s0": 0x9ABC5678}),
        ("s_pack_hh_b32_b16", "s0, s1, s2", {"s1": 0x12345678, "s2": 0x9ABC0000}, {"s0": 0x9ABC1234}),
        ("s_pack_hl_b32_b16", "s0, s1, s2", {"s1": 0x12345678, "s2": 0x9ABC}, {"s0": 0x9ABC1234}),
        ("s_quadmask_b32", "s0, s1", {"s1": 0x80000102}, {"s0": 0b10000101, "scc": True}),
        ("s_wqm_b64", "s[0:1], s[2:3]", {"s2": 0x20, "s3": 0x80000000}, {"s0": 0xF0, "s1": 0xF0000000, "scc": True}),
        ("v_bitop3_b32", "v0, v1, v2, v3 bitop3:0xec", {"v1": 0xF0, "v2": 0xCC, "v3": 0xAA}, {"v0": 0xEC}),
        ("v_bitop3_b32", "v0, v1, v2, -1 bitop3:0x6c", {"v1": 0b1100, "v2": 0b1010}, {"v0": 0b0110}),
        ("v_sad_u32", "v0, v1, v2, v3", {"v1": 3, "v2": 10, "v3": 1}, {"v0": 8}),
        ("v_cvt_pk_u16_u32", "v0, v1, v2", {"v1": 0x12345, "v2": 7}, {"v0": 0x7FFFF}),
        ("v_cvt_pk_i16_i32", "v0, v1, v2", {"v1": -70000, "v2": 7}, {"v0": 0x78000}),
        ("v_cvt_flr_i32_f32", "v0, v1", {"v1": 0xC0600000}, {"v0": 0xFFFFFFFC}),
        ("v_cvt_rpi_i32_f32", "v0, v1", {"v1": 0xC0600000}, {"v0": 0xFFFFFFFD}),
        ("v_cvt_nearest_i32_f32", "v0, v1", {"v1": 0x40600000}, {"v0": 4}),
        ("v_mad_legacy_u16", "v0, v1, v2, v3", {"v1": 0x30002, "v2": 5, "v3": 1}, {"v0": 11}),
        ("v_ashr_pk_i8_i32", "v0, v1, v2, 4", {"v1": -16, "v2": 0x7FFF}, {"v0": 0x7FFF}),
        ("v_ashr_pk_u8_i32", "v0, v1, v2, 4", {"v1": -16, "v2": 0x7FF}, {"v0": 0x7F00}),
        *(
            (f"v_cmp_{how}_f32", "vcc, v1, v2", {"v1": a, "v2": 0x3F800000}, {"vcc_lo": holds})
            for how, of_nan, of_two in (
                ("nlt", True, True), ("nle", True, True), ("ngt", True, False), ("nge", True, False),
                ("lg", False, True), ("nlg", True, False), ("neq", True, True), ("lt", False, False),
            )
            for a, holds in ((0x7FC00000, of_nan), (0x40000000, of_two))
        ),
    ],
)
def test_instructions(opcode: str, operands: str, given: dict[str, Any], wanted: dict[str, Any]) -> None:
    class Registers(dict[str, Any]):
        notes = True

        def set(self, name: str, value: Column | None) -> None:
            self[name] = value

        def note(self, address: int, how: str, *values: Column) -> None:
            assert values

        def ballot(self, holds: Any) -> Any:
            return np.atleast_1d(holds).astype(np.int64)

        def lost(self, opcode: str, names: Any) -> None:
            raise AssertionError(f"no rule for {opcode}")

        def leads(self) -> Any:
            return np.ones(1, bool)

    held = Registers({name: Column(np.array([value])) if isinstance(value, bool) else number(value)
                      for name, value in {**given, "exec_lo": True}.items()})  # fmt: skip
    op = decode(Instruction(0, "", opcode, operands), 64, set())
    assert op.run is not None
    op.run(held)
    assert wanted.keys() <= op.writes
    assert {name: held[name].bits.item() for name in wanted} == wanted
    held = Registers({"exec_lo": Column(np.ones(1, bool))})  # nothing else is known
    if op.reads - {"exec_lo"}:
        op.run(held)
        assert all(held[name] is None or not held[name].known.any() for name in wanted)


def test_an_instruction_without_a_rule_is_named_and_poisons_its_result() -> None:
    arch = load("mi300x")
    made = compiled(arch, "tabled", 1, 32, f32(2000), i32(5))
    assert made.code.count(b"s_ashr_i32")
    code = made.code.replace(b"s_ashr_i32", b"s_frobnicate_i32")
    of = execution(Binary(code, made.entry, made.args, made.grid, made.block), arch)
    assert of.detail.unknown["s_frobnicate_i32"] >= 1
    assert any("s_frobnicate_i32" in line for line in of.facts().notes)


def test_arguments_that_are_not_the_kernels() -> None:
    arch = load("mi300x")
    with pytest.raises(CompileError, match="3 parameters"):
        facts_of_binary(compiled(arch, "grid_sum", 1, 32, f32(8)), arch)


def test_a_file_that_is_no_assembly_is_one_sentence() -> None:
    with pytest.raises(CompileError, match="no AMD assembly"):
        facts_of_binary(Binary(b"\t.text\n", "add"), load("mi300x"))


@pytest.mark.slow
@pytest.mark.parametrize("device", ["mi300x", "rx_7900_xtx"])
def test_triton_kernels_against_their_ir(device: str) -> None:
    """Of a matmul and of sums of rows: passes, bytes of a mean block and of the grid, as the IR says them."""
    pytest.importorskip("triton")
    import triton_kernels as kernels

    from carver.integrations import gluon

    f16 = lambda *shape: carver.Tensor("float16", shape)  # noqa: E731
    M, N, K = 4096, 3072, 1000  # enough blocks to fill the device: L1 keeps more for fewer
    calls = [
        (kernels.matmul, {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2},
         {"a": f16(M, K), "b": f16(K, N), "c": f16(M, N), "M": M, "N": N, "K": K, "lda": K, "ldb": N, "ldc": N},
         (M // 64, N // 64)),
        (kernels.row_sums, {"BLOCK_ROWS": 4, "BLOCK_COLS": 256, "num_warps": 4},
         {"x_at": f16(512, 4096), "y_at": f16(512), "rows": 512, "cols": 4096}, (128,)),
    ]  # fmt: skip
    arch = load(device)
    for kernel, config, args, grid in calls:
        ours = facts_of_binary(gluon.binary(kernel, config, args=args, grid=grid, block=None, arch=arch), arch)
        theirs = carver.inspect(kernel, config=config, args=args, grid=grid, arch=arch)
        assert max(loop.trips for loop in ours.loops) == max(loop.trips for loop in theirs.loops)
        assert ours.bytes_of("load") == pytest.approx(theirs.bytes_of("load"), rel=0.01)
        assert ours.bytes_of("store") == pytest.approx(theirs.bytes_of("store"), rel=0.01)
        assert ours.read_bytes == pytest.approx(theirs.read_bytes, rel=0.01)
        assert (ours.warps, ours.shared_bytes) == (theirs.warps, theirs.shared_bytes)


TUNABLE = Path(__file__).parents[1] / "benchmarks" / "kernels" / "tunable.hip"
PRODUCTS = re.compile(r"v_(pk_|dual_)?(fma|fmac|mac|fmaak|fmamk|mul)_f32")


def products(of: Execution) -> float:
    """Sums of products that lanes of all blocks add up to, full waves being taken; two of packed and dual ones."""
    scale, _ = of.shares()
    waves = (of.detail.passes.mean(axis=1) * scale[:, None]).sum(axis=1) * of.count
    total = 0.0
    for i, each in enumerate(of.code.instructions):
        halves = f"{each.opcode} {each.operands}".split(" :: ")
        count = sum(2 if "_pk_" in half else 1 for half in halves if PRODUCTS.match(half.strip()))
        total += count * waves[of.program.block_of[i]] * of.code.warp_size
    return total


@pytest.mark.parametrize("isa", ["gfx90a", "gfx942", "gfx1100"])
@pytest.mark.parametrize("held", [0, 1])
def test_a_tunable_convolution_against_counts_by_hand(isa: str, held: int) -> None:
    height, width, r, s = 64, 256, 5, 3
    bx, by, tx, ty = 32, 4, 2, 4
    arch = load(ARCH[isa])
    config = {"HEIGHT": height, "WIDTH": width, "FILTER_HEIGHT": r, "FILTER_WIDTH": s,
              "block_size_x": bx, "block_size_y": by, "tile_size_x": tx, "tile_size_y": ty, "use_shmem": held,
              "use_padding": 0}  # fmt: skip
    blocks = height * width // (bx * by * tx * ty)
    made = binary(
        carver.Kernel(TUNABLE, "convolve"), config, args=[f32(height + r - 1, width + s - 1), f32(height, width)],
        grid=(width // bx // tx, height // by // ty), block=(bx, by), arch=arch,
    )  # fmt: skip
    of = execution(replace(made, names=()), arch)
    assert not of.detail.unknown
    share = of.count / len(of.detail.block_ids)
    found = {kind: n * share for kind, n in moved(of).items()}
    assert found["store", "arg1"] == 4 * height * width
    rows, columns = by * ty + r - 1, bx * tx + s - 1
    passes = of.detail.passes.mean(axis=(1, 2))
    if held:  # each input of a block once
        assert found["load", "arg0"] == 4 * blocks * rows * columns
        local = Counter[str]()
        for event in of.detail.log:
            if event.kind == "shared":
                op = of.program.ops[of.program.index[event.where]]
                active = int(np.broadcast_to(event.detail, len(event.lanes)).sum())
                local[op.access] += active * op.width_bytes * times(event)
        assert local["store"] * share == 4 * blocks * rows * columns
    heads = [passes[n] for n in of.program.heads]
    assert r in heads
    # a wave of 32 is one row of the block, of 64 two: rows in turn, then columns in turn
    lines = [len(range(first, rows, by)) for first in range(by)]
    if held and of.code.warp_size == 32:
        assert np.mean(lines) in heads
        assert np.mean(lines) * math.ceil(columns / bx) in heads
    assert products(of) == height * width * r * s


@pytest.mark.parametrize("isa", ["gfx90a", "gfx942", "gfx1100"])
def test_a_tunable_dedispersion_against_counts_by_hand(isa: str) -> None:
    trials, samples, channels, longest = 64, 192, 100, 40
    arch = load(ARCH[isa])
    config = {"TRIALS": trials, "SAMPLES": samples, "CHANNELS": channels, "MAX_DELAY": longest, "block_size_x": 32,
              "block_size_y": 8, "tile_size_x": 2, "tile_size_y": 4}  # fmt: skip
    shifts = np.linspace(0, longest / trials, channels, dtype=np.float32)
    made = binary(
        carver.Kernel(TUNABLE, "dedisperse"), config,
        args=[carver.Tensor("uint8", (channels, samples + longest)), f32(trials, samples)],
        grid=(samples // 64, trials // 32), block=(32, 8), arch=arch,
    )  # fmt: skip
    of = execution(replace(made, constants={"shifts": shifts}, names=()), arch)
    assert not of.detail.unknown
    share = of.count / len(of.detail.block_ids)
    found = {kind: n * share for kind, n in moved(of).items()}
    assert found == {("load", "arg0"): trials * samples * channels, ("store", "arg1"): 4 * trials * samples}
    assert channels in of.detail.passes.mean(axis=(1, 2))
    ends = []
    for event in of.detail.log:
        _, address = spread(event) if event.kind == "global" else ((), ())
        if len(address) and of.launch.place_of(int(address[0])) is of.launch.places[1]:
            ends.append(int(address.max()) - (1 << 40))
    # the last sample of the last trial, which the last channel delays most
    assert max(ends) == (channels - 1) * (samples + longest) + samples - 1 + int(shifts[-1] * np.float32(trials - 1))


def test_registers_on_the_stack_are_told_apart_by_the_scalar_that_was_just_set() -> None:
    lines = [("s_movk_i32", "s5, 0x80"), ("scratch_store_b32.spill", "off, v1, s5"), ("s_movk_i32", "s5, 0x84"),
             ("scratch_store_b32.spill", "off, v2, s5 offset:4"), ("scratch_load_b32.spill", "v3, off, off offset:136"),
             ("s_add_u32", "s5, s5, s6"), ("scratch_load_b32.spill", "v4, off, s5")]  # fmt: skip
    code = list(placed([Instruction(i, "", *line) for i, line in enumerate(lines)]))
    assert [each.operands for each in code[1:5:3]] == ["off, v1, off offset:128", "v3, off, off offset:136"]
    stored = decode(code[3], 32, set())
    assert stored.writes == {"stack 136"} == {name for name in decode(code[4], 32, set()).reads if "stack" in name}
    assert code[6].opcode == "scratch_load_b32"  # at a place that is not known


@pytest.mark.parametrize("written", [
    ("v_readlane_b32", "s5, v40, 3"), ("v_readfirstlane_b32", "s5, v2"), ("v_cmp_lt_i32", "s[4:5], v1, v2"),
    ("v_add_co_u32", "v0, s[4:5], v1, v2"), ("v_mad_u64_u32", "v[0:1], s[4:5], v2, v3, v[4:5]"),
    ("v_div_scale_f32", "v0, s[4:5], v1, v2, v3"), ("s_load_dword", "s5, s[0:1], 0x0"),
])  # fmt: skip
def test_a_scalar_that_any_instruction_writes_is_no_constant_any_more(written: tuple[str, str]) -> None:
    held, read = ("s_movk_i32", "s5, 0x80"), ("v_add_u32", "v3, s5, v2")
    load = ("scratch_load_b32.spill", "v4, off, s5")
    for lines, operands in (((held, written, load), "v4, off, s5"), ((held, read, load), "v4, off, off offset:128")):
        *_, loaded = placed([Instruction(i, "", *line) for i, line in enumerate(lines)])
        assert loaded.operands == operands


BANKS = """
extern "C" __global__ void turned(float* y) {
    __shared__ float held[64 * PITCH];
#pragma unroll 1
    for (int i = 0; i < 16; ++i) held[i * PITCH + threadIdx.x] = i;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < 16; ++i) y[i * 64 + threadIdx.x] = held[threadIdx.x * PITCH + i];
}
"""


@pytest.mark.parametrize(
    ("isa", "pitch", "passes"),
    [("gfx1100", 65, 1.0), ("gfx1100", 64, 32.0), ("gfx1100", 66, 2.0), ("gfx90a", 65, 1.0), ("gfx90a", 64, 16.0),
     ("gfx90a", 66, 1.0)],
)  # fmt: skip
def test_conflicts_of_the_banks_of_local_memory(isa: str, pitch: int, passes: float) -> None:
    """Rows of 64 words: 32 lanes read one bank of 32; of 66 words: 16 banks. On gfx90a a load has two words (b64), so
    that 16 lanes pass at a time."""
    arch = load(ARCH[isa])
    made = binary(carver.Kernel(BANKS, "turned"), {"PITCH": pitch}, args=[f32(1024)], grid=1, block=64, arch=arch)
    of = execution(made, arch)
    loads = [i for i, each in enumerate(of.code.instructions) if re.match(r"ds_(read|load)", each.opcode)]
    assert loads
    assert {of.code.conflicts.get(i, 1.0) for i in loads} == {passes}
    stores = [i for i, each in enumerate(of.code.instructions) if re.match(r"ds_(write|store)", each.opcode)]
    assert {of.code.conflicts.get(i, 1.0) for i in stores} == {1.0}


@pytest.mark.parametrize(("pitch", "passes"), [(4, 1.0), (16, 2.0), (32, 4.0)])
def test_lanes_that_read_16_bytes_go_with_those_of_other_rows(pitch: int, passes: float) -> None:
    """Lanes 0 to 3 of a wave of 64 read with 20 to 23, which have the next 16 bytes of rows 4 to 7. Of rows of 64 bytes
    two and two meet in a bank, where those of lanes 0 to 7 would be four; of 128 bytes four do and not eight."""
    source = """extern "C" __global__ void rows(float4* y, const float4* x) {
        __shared__ float4 s[16 * PITCH / 4 + 64]; int t = threadIdx.x;
        s[t] = x[t]; __syncthreads();
        y[t] = PITCH == 4 ? s[t ^ 1] : s[(t % 16) * (PITCH / 4) + t / 16]; }"""
    arch = load("mi210")
    given = [f32(256), f32(256)]
    made = binary(carver.Kernel(source, "rows"), {"PITCH": pitch}, args=given, grid=1, block=64, arch=arch)
    code = execution(made, arch).code
    (index,) = (i for i, each in enumerate(code.instructions) if each.opcode == "ds_read_b128")
    assert code.conflicts.get(index, 1.0) == passes


@pytest.mark.parametrize(("apart", "turns"), [(1, 1.0), (2, 4.0), (3, 4.0)])
def test_bytes_that_lie_apart_pass_the_address_unit_four_at_a_time(apart: int, turns: float) -> None:
    """A wave of 64 bytes in a row takes 4 clocks, of bytes that lie apart 16."""
    source = """extern "C" __global__ void pick(float* y, const unsigned char* x) {
        y[threadIdx.x] = x[threadIdx.x * APART]; }"""
    arch = load("mi210")
    args = [f32(64), carver.Tensor("uint8", (256,))]
    made = binary(carver.Kernel(source, "pick"), {"APART": apart}, args=args, grid=1, block=64, arch=arch)
    code = execution(made, arch).code
    (index,) = (i for i, each in enumerate(code.instructions) if each.opcode == "global_load_ubyte")
    assert code.conflicts.get(index, 1.0) == turns
    stores = {code.conflicts.get(i, 1.0) for i, each in enumerate(code.instructions) if "_store_" in each.opcode}
    assert stores == {1.0}


def test_blocks_that_end_at_once_are_counted_over_the_grid() -> None:
    """Of 100 rows of blocks the first 4 do the work; the runs of neighbours that are looked at have every fourth."""
    source = """extern "C" __global__ void first(float* y, const float* x) {
        if (blockIdx.y >= 4) return;
        float sum = 0;
        _Pragma("unroll 1") for (int i = 0; i < 50; ++i) sum += x[(blockIdx.x * 50 + i) * 64 + threadIdx.x];
        y[blockIdx.x * 64 + threadIdx.x] = sum; }"""
    arch = load("mi210")
    args = [f32(6400), f32(50 * 6400)]
    made = binary(carver.Kernel(source, "first"), {}, args=args, grid=(100, 100), block=64, arch=arch)
    facts = execution(made, arch).facts()
    (loop,) = facts.loops
    assert loop.trips == pytest.approx(50 * 0.04, rel=0.1)
    assert facts.bytes_of("load") == pytest.approx(50 * 256 * 0.04, rel=0.1)


OWN = """
extern "C" __global__ void turn(float* y, const float* x) {
    float held[32], sum = 0;
    for (int k = 0; k < 32; ++k) held[k] = x[k * 64 + threadIdx.x];
    for (int k = 0; k < 32; ++k) sum += held[(threadIdx.x + k * 5) & 31];
    y[threadIdx.x] = sum;
}
__attribute__((noinline)) __device__ float twice(float a) { return a + a; }
extern "C" __global__ void call(float* y, const float* x) { y[threadIdx.x] = twice(x[threadIdx.x]); }
"""


def test_an_array_on_the_stack_is_no_global_memory() -> None:
    """On gfx90a it is reached through a buffer's descriptor, at places that lanes compute."""
    arch = load("mi210")
    made = binary(carver.Kernel(OWN, "turn"), {}, args=[f32(64), f32(2048)], grid=1, block=64, arch=arch)
    facts = execution(made, arch).facts()
    assert not [note for note in facts.notes if "not known" in note]
    assert facts.bytes_of("load") == 4 * 2048
    assert facts.straight.bytes["load local"] >= 32 * 4 * 64


def test_a_call_that_is_not_followed_is_said() -> None:
    arch = load("mi300x")
    made = binary(carver.Kernel(OWN, "call"), {}, args=[f32(64), f32(64)], grid=1, block=64, arch=arch)
    assert any("not followed: 1 s_swappc_b64" in note for note in execution(made, arch).facts().notes)


@pytest.mark.slow
def test_lanes_that_store_to_lines_of_their_own_take_a_pass_for_each() -> None:
    """A transpose of 64 floats a side by a block: lanes of a wave read a row and store to 64 rows."""
    source = """
    extern "C" __global__ void turned(const float* x, float* y, int n) {
      int column = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y;
      y[column * n + row] = x[row * n + column];
    }
    """
    n = 4096
    args = {name: carver.Tensor("float32", (n, n)) for name in "xy"} | {"n": n}
    kernel = carver.Kernel(source, "turned", grid=(n // 64, n), block=64)
    [hint] = carver.rank_kernel(kernel, [{}], args=args, arch="mi300x")
    load, store = hint.facts.accesses
    assert (load.lines, load.line_bytes, store.lines, store.line_bytes) == (1.0, 128.0, 32.0, 32.0)


def by_clang(tmp_path: Path, target: str, *flags: str) -> Binary:
    """256 threads that square 2^20 numbers, each a thread."""
    source, out = tmp_path / "square.hip", tmp_path / "square.s"
    source.write_text(
        'extern "C" __attribute__((global)) void square(float* y, const float* x) {'
        " int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x(); y[i] = x[i] * x[i]; }"
    )
    subprocess.run(
        [hip_compiler().path, "-x", "hip", f"--offload-arch={target}", "-nogpulib", "-nogpuinc", "--cuda-device-only",
         "-O2", "-S", *flags, "-o", str(out), str(source)], check=True,
    )  # fmt: skip
    return Binary(out, "square", (f32(1 << 20), f32(1 << 20)), grid=1 << 12, block=256)


def test_wide_waves_of_rdna_take_the_room_of_two(tmp_path: Path) -> None:
    """A SIMD unit of RDNA 3 holds 16 waves, and has registers for as many of 32 lanes; one of 64 takes those of two."""
    arch = load("rx_7900_xtx")
    found = [execution(by_clang(tmp_path, "gfx1100", *flags), arch).facts() for flags in ((), ("-mwavefrontsize64",))]
    assert [each.warps for each in found] == [8, 4]
    assert [each.threads for each in found] == [256, 256]
    assert found[0].resident == found[1].resident


def test_code_for_all_of_a_generation_is_priced_as_the_device_runs_it(tmp_path: Path) -> None:
    found = [carver.rank_kernel([by_clang(tmp_path, *target)], arch="rx_7900_xtx")[0].predicted_ms
             for target in (("gfx1100",), ("gfx11-generic", "-mcode-object-version=6"))]  # fmt: skip
    assert found[1] == pytest.approx(found[0], rel=0.02)
