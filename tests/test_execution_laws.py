"""What blocks of machine code ask of an H100, by kernels that differ in one thing. Needs nvcc and nvdisasm, no GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_execution import NVCC, f32, i32

import carver
from carver.arch.devices import load
from carver.compiled.binary import Binary
from carver.compiled.execution.facts import facts_of_binary
from carver.compiled.facts import Facts
from carver.compiled.isa.banks import FURTHER
from carver.compiled.machine import LATENCIES_CLK
from carver.cost.models.compiled import Shape, _rewritten, price_compiled, shape_of
from carver.cost.models.l1 import passes

H100 = load("h100")
SOURCE = """
#define SUMMED(name, last) extern "C" __global__ void name(const float* x, float* y, int times) { \\
    extern __shared__ float held[]; \\
    int i = threadIdx.x; \\
    float v = x[blockIdx.x * blockDim.x + i]; \\
    _Pragma("unroll 1") for (int k = 0; k < times; ++k) v = (v * 1.5f + 0.5f) * 0.25f + v; \\
    held[i] = v; \\
    __syncthreads(); \\
    if (i >= last) return; \\
    _Pragma("unroll 1") for (int j = i % 32 + 32; j < blockDim.x; j += 32) v += held[j]; \\
    y[blockIdx.x * 32 + i % 32] = v; \\
}
SUMMED(summed_by_a_warp, 32)
SUMMED(summed_by_all, 1024)
extern "C" __global__ void scattered(const int* at, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[at[i]] = x[i];
}
extern "C" __global__ void gathered(const int* at, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[at[i]];
}
extern "C" __global__ void of_records(const int* at, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float total = 0;
    for (int k = 0; k < 8; ++k) total += x[at[i] * 8 + k];
    y[i] = total;
}
extern "C" __global__ void apart(const float* x, float* y, int step, int lanes, int words) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x % 32 < lanes) y[(long long)i * step] = x[i];
    if (threadIdx.x < words) y[i] = 0;
}
#define WALKED(name, type, sum) extern "C" __global__ void name(const type* x, float* y, int columns) { \\
    int row = blockIdx.x * blockDim.x + threadIdx.x; \\
    float total = 0; \\
    _Pragma("unroll 1") for (int c = 0; c < columns; ++c) { type v = x[(long long)row * columns + c]; total += sum; } \\
    y[row] = total; \\
}
WALKED(by_1, unsigned char, v)
WALKED(by_4, float, v)
WALKED(by_8, float2, v.x + v.y)
WALKED(by_16, float4, v.x + v.y + v.z + v.w)
#define WAIT(bar, parity) asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; " \\
                                       "@!p bra again;}" ::"r"(bar), "r"(parity) : "memory")
#define FREE(bar) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory")
#define FED(name, early) extern "C" __global__ void name(const float* x, float* y, int count) { \\
    __shared__ __align__(128) float held[128]; \\
    __shared__ unsigned long long bars[4]; \\
    unsigned full = __cvta_generic_to_shared(bars), free = full + 8, to = __cvta_generic_to_shared(held); \\
    int t = threadIdx.x; \\
    if (t == 0) { \\
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full)); \\
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(free)); \\
    } \\
    __syncthreads(); \\
    if (t >= 128) { \\
        _Pragma("unroll 1") for (int i = 0; t == 128 && i < count; ++i) { \\
            WAIT(free, i & 1 ^ 1); \\
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(full)); \\
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" \\
                         ::"r"(to), "l"(x + (blockIdx.x * count + i) * 128), "r"(full) : "memory"); \\
        } \\
    } else { \\
        float total = 0; \\
        _Pragma("unroll 1") for (int i = 0; i < count; ++i) { \\
            WAIT(full, i & 1); \\
            float v = held[t]; \\
            if (early) FREE(free); \\
            _Pragma("unroll") for (int k = 0; k < 512; ++k) v = v * v + 0.5f; \\
            total += v; \\
            if (!early) FREE(free + 16 * (v != v)); \\
        } \\
        y[blockIdx.x * 128 + t] = total; \\
    } \\
}
FED(given_back_early, true)
FED(given_back_late, false)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("laws")
    (folder / "k.cu").write_text(SOURCE)
    command = [str(NVCC), "-cubin", "-arch=sm_90", "-o", str(folder / "k.cubin"), str(folder / "k.cu")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "k.cubin"


def of(built: Path, entry: str, *args: object, grid: int = 1024, **more: int) -> tuple[Facts, Shape]:
    facts = facts_of_binary(Binary(str(built), entry, args, grid, 256, **more), H100)  # type: ignore[arg-type]
    return facts, shape_of(facts, H100)


@pytest.mark.parametrize("shared_bytes", [1024, 200_000])
def test_a_warp_that_finishes_a_block_does_not_do_all_of_its_work(built: Path, shared_bytes: int) -> None:
    """Where all warps add up what one does, a block does more, and it was said to take less than half of the time."""
    found = [of(built, entry, f32(1 << 20), f32(1 << 20), i32(2000), shared_bytes=shared_bytes)
             for entry in ("summed_by_a_warp", "summed_by_all")]  # fmt: skip
    one, all_ = (float(price_compiled([facts], H100)[1].seconds[0]) for facts, _ in found)
    assert [facts.warps for facts, _ in found] == [8, 8]
    assert 0.97 * all_ < one <= all_
    assert found[0][1].issue_clk < found[1][1].issue_clk


@pytest.mark.parametrize(("step", "lanes", "words", "lines"), [
    (1, 32, 0, 0), (8, 32, 0, 0), (16, 32, 0, 16 + 16 * FURTHER), (64, 32, 0, 32), (64, 16, 0, 16), (64, 32, 256, 32),
])  # fmt: skip
def test_stores_that_fill_sectors_in_part_are_counted_by_lines(
    built: Path, step: int, lanes: int, words: int, lines: float
) -> None:
    """Of a warp, beyond eight: whichever lanes take part, and whatever other stores do."""
    args = f32(1 << 18), f32(1 << 24), i32(step), i32(lanes), i32(words)
    assert of(built, "apart", *args)[1].partial_lines == pytest.approx(8 * lines)


def test_words_that_are_stored_anywhere_are_a_line_each(built: Path) -> None:
    """63 billion a second on an H100 (`words.jsonl` in tests/data/h100), be they of CUDA or of Triton."""
    many = 1 << 22
    at = carver.Tensor("int32", (many,))
    facts, shape = of(built, "scattered", at, f32(many), f32(1 << 20), grid=many // 256)
    assert shape.partial_lines == 256
    assert many / float(price_compiled([facts], H100)[1].seconds[0]) == pytest.approx(63e9, rel=0.1)


def test_l1_looks_up_a_line_for_each_word_that_is_loaded_anywhere(built: Path) -> None:
    """Half a clock each where L1 lacks it. Of places that are known, the code says what they take."""
    at = carver.Tensor("int32", (1 << 18,))
    facts, shape = of(built, "gathered", at, f32(1 << 26), f32(1 << 18))
    assert shape.total.unplaced_bytes == 128
    assert passes(facts, shape.total, H100, 1.0) == pytest.approx(8 * (0.5 * 32 - 1), rel=0.02)
    known = of(built, "apart", f32(1 << 18), f32(1 << 18), i32(1), i32(32), i32(0))
    assert passes(known[0], known[1].total, H100, 1.0) == 0


def test_words_of_one_record_are_fetched_together(built: Path) -> None:
    """Of eight loads at places that given numbers choose, one fetches the sector in which all of them are."""
    many = 1 << 18
    at = np.random.default_rng(0).integers(0, many, many).astype(np.int32)
    args = carver.Tensor("int32", (many,)), f32(8 * many), f32(many)
    facts = facts_of_binary(Binary(str(built), "of_records", args, many // 256, 256), H100, {"arg0": at})
    assert facts.fetched_bytes("load") == pytest.approx(256 * (4 + 32), rel=0.02)


def test_a_buffer_is_filled_while_what_it_held_is_worked_on(built: Path) -> None:
    """Where it is given back once it is read, a pass of 2,000 clocks waits for nothing; else for the whole copy."""
    args = f32(1 << 20), f32(1 << 17), i32(8)
    early, late = (of(built, f"given_back_{when}", *args)[0].loops[0].span.alone_clk for when in ("early", "late"))
    assert early[-1] == early[0] > 2000
    assert late[-1] - late[0] == pytest.approx(LATENCIES_CLK[-1] - LATENCIES_CLK[0], rel=0.05)


@pytest.mark.parametrize("step", [1, 4, 8, 16])
def test_rows_that_threads_walk_along_come_from_l2_whole(built: Path, step: int) -> None:
    """Of two passes by 16 bytes one fetches a sector; a third was said to."""
    row_bytes, blocks = 32 * 1024, 32
    tensor = carver.Tensor("int8", (row_bytes * blocks * 256,))
    facts, shape = of(built, f"by_{step}", tensor, f32(blocks * 256), i32(row_bytes // step), grid=blocks)
    assert facts.read_bytes == row_bytes * blocks * 256
    assert shape.load_bytes * blocks == pytest.approx(facts.read_bytes, rel=0.01)


@pytest.mark.parametrize(("step", "measured_ms"), [(3, 0.0359), (4, 0.0442), (6, 0.0599), (7, 0.0673), (8, 0.0760)])
def test_sectors_of_a_stretch_with_gaps_are_read_and_written(built: Path, step: int, measured_ms: float) -> None:
    """Words less than a sector apart: 0.54 to 0.61 of the times of an H200 with their writing alone."""
    many, h200 = 1 << 22, load("h200_sxm")
    code = str(built), "apart", (f32(many), f32(many * step), i32(step), i32(32), i32(0)), many // 256, 256
    facts = facts_of_binary(Binary(*code), h200)
    assert float(price_compiled([facts], h200)[1].seconds[0]) == pytest.approx(measured_ms * 1e-3, rel=0.2)


@pytest.mark.parametrize(("step", "measured_ms"), [(9, 0.0775), (12, 0.0826), (16, 0.0972), (24, 0.1349)])
def test_sectors_that_stores_fill_in_part_leave_l2_where_it_has_no_room_for_all(
    built: Path, step: int, measured_ms: float
) -> None:
    """4 million words on an H200, of 128 MiB of sectors: by the bytes of words, which L2 holds, 0.35 of that."""
    many, h200 = 1 << 22, load("h200_sxm")
    code = str(built), "apart", (f32(many), f32(many * step), i32(step), i32(32), i32(0)), many // 256, 256
    facts = facts_of_binary(Binary(*code), h200)
    assert float(price_compiled([facts], h200)[1].seconds[0]) == pytest.approx(measured_ms * 1e-3, rel=0.4)


def test_sectors_that_stores_fill_in_part_stay_in_l2_where_it_has_room_for_the_tensor(built: Path) -> None:
    few = of(built, "apart", f32(1 << 18), f32(1 << 22), i32(16), i32(32), i32(0))[0]
    assert _rewritten(few, H100, 25e6) == pytest.approx(1.0, abs=0.5)
    assert _rewritten(few, H100, 1e6) > 20.0
