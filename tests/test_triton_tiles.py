"""What Triton's compiler makes of a matmul: shared memory as Triton 3.6 reports it for a tile, and what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import carver
from carver.arch.descriptor import resident_blocks
from carver.kernels.declaration import Kernel, kernels
from carver.kernels.space import given_space
from carver.ranking.recommend import default_backend

TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")


def matmul(dtype: str, layout: str, arch: str, size: int = 2048) -> Any:
    """`layout` names A, then B: n as it is multiplied, t transposed."""
    transposed = {"trans_A": layout[0] == "t", "trans_B": layout[1] == "t"}
    return carver.MatmulTemplate(size, size, size, in_dtype=dtype, **transposed).with_arch(arch)


def triton_matmul() -> Kernel:
    (kernel,) = (k for k in kernels("matmul", "triton") if k.name == "triton")
    return kernel


def ms(op: Any, *tile: int) -> float:
    return float(op.rank([dict(zip(TILE, tile, strict=True))])[0].predicted_ms)


@pytest.mark.parametrize(
    ("arch", "dtype", "layout", "tile", "smem_bytes"),
    [
        ("h200", "float16", "nt", (128, 64, 64, 4, 4), 98304),
        ("a100", "float16", "nn", (128, 128, 64, 4, 5), 131072),
        ("h200", "float64", "nt", (128, 128, 32, 8, 3), 131072),
        ("h200", "tfloat32", "nt", (128, 256, 32, 8, 2), 131072),  # sums of 32 bits on their way out
        ("h200", "int8", "nt", (128, 128, 32, 8, 3), 65536),
        ("h200", "int8", "nt", (32, 64, 64, 4, 4), 18432),
        ("h200", "int8", "nn", (64, 64, 64, 4, 3), 16384),  # B is not copied asynchronously: one buffer
        ("h200", "float8_e4m3", "nn", (128, 64, 64, 4, 4), 36864),
        ("h200", "float8_e4m3", "tt", (128, 64, 64, 4, 4), 24576),
        ("h200", "float8_e4m3", "tn", (128, 64, 64, 4, 4), 12288),
        ("h200", "float8_e4m3", "nn", (32, 64, 64, 4, 4), 18432),  # mma.sync: copied as ever
        ("h200", "tfloat32", "nn", (128, 64, 64, 4, 4), 196608),
        ("t4", "float16", "nn", (64, 64, 32, 4, 2), 8192),  # float32 in shared memory, one buffer for both operands
        ("t4", "float16", "nt", (128, 32, 64, 4, 2), 32768),
    ],
)
def test_shared_memory_is_what_triton_takes(
    arch: str, dtype: str, layout: str, tile: tuple[int, ...], smem_bytes: int
) -> None:
    (hint,) = matmul(dtype, layout, arch).rank([dict(zip(TILE, tile, strict=True))])
    assert hint.launch.smem_bytes == smem_bytes


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "tfloat32"])
def test_operands_that_wgmma_takes_only_along_k_are_turned_at_a_price(dtype: str) -> None:
    tile = 128, 128, 128 if dtype != "tfloat32" else 32, 4, 3
    straight, turned = (ms(matmul(dtype, layout, "h200"), *tile) for layout in ("nt", "nn"))
    assert turned > 2.5 * straight
    halves = [ms(matmul("float16", layout, "h200"), 128, 128, 64, 4, 3) for layout in ("nt", "nn")]
    assert halves[0] == pytest.approx(halves[1], rel=0.05)


def test_wgmmas_that_wait_for_each_other() -> None:
    """Where B has K contiguous and eight warps store rows of 512 bytes; measured 0.90 and 1.05 of the other's time."""
    ratio = {
        layout: ms(matmul("float16", layout, "h200", 4096), 256, 128, 64, 8, 3)
        / ms(matmul("float16", layout, "h200", 4096), 128, 256, 64, 8, 3)
        for layout in ("nt", "nn")
    }
    assert ratio["nt"] < 0.97 and ratio["nn"] > 1


def test_sums_of_64_bits_take_two_registers() -> None:
    wide, narrow = (
        matmul(dtype, "nt", "h200").rank([dict(zip(TILE, (64, 64, 32, 8, 3), strict=True))])[0].launch.registers
        for dtype in ("float64", "float16")
    )
    assert wide > narrow + 16


def test_triton_multiplies_on_vector_units_before_ampere() -> None:
    assert not any(hint.use_tc for hint in matmul("float16", "nt", "t4").recommend_hints(5, "triton"))
    assert all(hint.use_tc for hint in matmul("float16", "nt", "a100").recommend_hints(5, "triton"))


def test_before_ampere_the_first_operand_of_a_step_is_in_registers() -> None:
    """ptxas gives the threads of 64 x 64 x 16 with 4 warps 200 registers, and spills 348 bytes of 64 x 64 x 32."""
    op = matmul("float16", "nn", "t4", 4096)
    shallow, deep = (
        op.rank([dict(zip(TILE, (64, 64, k, 4, 2), strict=True))], "triton")[0].launch.registers for k in (16, 32)
    )
    assert 160 <= shallow <= 240 and deep == 255
    assert all(hint.launch.registers < 255 for hint in op.recommend_hints(5, "triton"))


def test_before_ampere_tl_dot_takes_no_integers() -> None:
    """Triton 3.6: 'arith.extf' op operand must be floating-point-like, but got i8."""
    with pytest.raises(carver.CarverError, match=r"tl\.dot of integers"):
        matmul("int8", "nt", "t4").recommend_hints(1, "triton")
    assert matmul("int8", "nt", "a100").recommend_hints(1, "triton")
    assert matmul("int8", "nt", "rx_6900_xt").recommend_hints(1, "triton")


def test_a_type_that_triton_cannot_compile_is_an_error_and_no_default() -> None:
    op = matmul("float8_e4m3", "nt", "a100")
    with pytest.raises(carver.CarverError, match="Triton matmul requires"):
        op.recommend_hints(1, "triton")
    assert default_backend(op.problem, carver.CUDA("a100")) == "cuda"
    assert op.recommend_hints(1)[0].backend == "cuda"
    assert matmul("float8_e4m3", "nt", "rtx_4090").recommend_hints(1, "triton")


def test_rows_whose_length_16_does_not_divide_are_copied_element_by_element() -> None:
    tile = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=4, num_stages=3)

    def hint(k: int, **options: bool) -> carver.Hint:
        op = carver.MatmulTemplate(3000, 3072, k, trans_B=True, **options).with_arch("h200")
        return op.rank([tile])[0]

    assert hint(3008).use_async and not hint(3000).use_async  # of an argument Triton knows only that 8 divides 3000
    assert hint(3000, static_shapes=True).use_async  # a constant's alignment is seen: 16 bytes
    note, spills = hint(3000).notes
    assert note.startswith("Triton copies A and B element by element: pad rows") and not hint(3008).notes
    assert "needs" in spills and "the others spill" in spills, "which wait in registers"
    assert hint(3000).predicted_ms > 1.5 * hint(3000, static_shapes=True).predicted_ms


def test_lanes_that_load_from_different_rows_take_turns() -> None:
    """3000 x 3000 x 3000 by 128 x 128 x 32 of 8 warps on an H200: 1.05 ms with B along N, 0.54 along K."""
    tile = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=8, num_stages=2)

    def ms(n: int, trans_b: bool, **options: bool) -> float:
        op = carver.MatmulTemplate(3000, n, 3000, trans_B=trans_b, **options).with_arch("h200")
        return op.rank([tile], "triton")[0].predicted_ms

    assert ms(3000, False) > 1.3 * ms(3000, True)
    assert ms(3008, False) < 0.9 * ms(3000, False), "of 3008 columns neighbours are known"
    assert ms(3000, False, static_shapes=True) < 1.1 * ms(3000, True, static_shapes=True)


def test_without_asynchronous_copies_a_lone_block_waits_for_its_own_loads() -> None:
    """What the copies of a step and their latency take one after the other is hidden by a second block only."""
    op = carver.MatmulTemplate(3000, 3000, 3000, trans_B=True).with_arch("h200")
    tile = dict(BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, num_warps=4, num_stages=2)
    here = op.rank([tile], "triton")[0]
    alone = op.with_arch(carver.CUDA("h200").replace(max_blocks_per_sm=1)).rank([tile], "triton")[0]
    assert alone.bound == "latency" and alone.predicted_ms > 1.5 * here.predicted_ms


def test_tiles_for_triton_are_no_default_where_it_copies_element_by_element() -> None:
    for device in ("h200", "b200"):
        odd = carver.MatmulTemplate(4097, 4095, 4093).with_arch(device)
        assert odd.recommend_hints(1)[0].backend == "cuda"
        if device == "h200":  # measured
            assert odd.recommend_hints(1)[0].predicted_ms < odd.recommend_hints(1, "triton")[0].predicted_ms
    assert carver.MatmulTemplate(4096, 4096, 4096).with_arch("b200").recommend_hints(1)[0].backend == "triton"


@pytest.mark.parametrize("device, k", [("t4", 4096), ("h200", 3000)])
def test_stages_that_change_nothing_are_one_hint(device: str, k: int) -> None:
    hints = carver.MatmulTemplate(4096, 4096, k, trans_B=True).with_arch(device).recommend_hints(50, "triton")
    assert {hint.config["num_stages"] for hint in hints} == {2}
    assert "without asynchronous copies stages change nothing" in hints.rejected


def test_rows_that_start_within_a_sector_are_moved_copy_by_copy() -> None:
    """3000 x 3000 by 128 x 128 x 64 on an H200: 0.162 ms at K = 3000, 0.130, 0.126, 0.116 at 3024, 3040, 3008."""
    tile = dict(block_m=128, block_n=128, block_k=64, warps=4, stages=3, group_m=16, split_k=1)
    per_step = {}
    for k in (3000, 3024, 3040, 3008):
        op = carver.MatmulTemplate(3000, 3000, k, trans_B=True, in_dtype="bfloat16").with_arch("h200")
        per_step[k] = op.rank([tile], "cuda")[0].predicted_ms / k
    assert per_step[3000] > 1.4 * per_step[3024] and per_step[3024] > per_step[3040] > per_step[3008]


SQUARE = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8)


@pytest.mark.parametrize("device", ["mi100", "mi250x", "mi300x", "mi355x", "rx_7900_xtx", "rx_9070_xt"])
@pytest.mark.parametrize(("stages", "buffers"), [(1, 0.5), (2, 1), (3, 2)])
def test_buffers_in_lds(device: str, stages: int, buffers: float) -> None:
    """As Triton 3.6 allocates them for gfx90a, gfx942, gfx950, gfx1100 and gfx1201: 16384, 32768 and 65536 bytes."""
    op = carver.MatmulTemplate(4096, 4096, 4096).with_arch(device)
    (hint,) = op.rank([SQUARE | {"num_stages": stages}], "triton")
    assert hint.launch.smem_bytes == buffers * 32768


def test_queries_do_not_stay_in_lds() -> None:
    """128 queries of 128 halves, 64 keys, three stages: 65536 bytes for gfx942, 98304 with the queries."""
    op = carver.FlashAttentionTemplate(1, 16, 16, seq=4096, head_dim=128).with_arch("mi300x")
    (hint,) = op.rank([dict(BLOCK_M=128, BLOCK_N=64, num_warps=4, num_stages=3)], "triton")
    assert hint.launch.smem_bytes == 65536


def test_sums_of_tcgen05_are_in_tensor_memory() -> None:
    """Its 512 columns limit the blocks of an SM; 128 x 256 by 4 warps takes 252 registers and does not spill."""
    one = np.ones(3)
    blocks = resident_blocks(carver.load_arch("b200"), 4 * one, 1024 * one, 64 * one, np.array([512.0, 256.0, 128.0]))
    assert blocks.tolist() == [1, 2, 4]
    op = carver.MatmulTemplate(8192, 8192, 8192).with_arch("b200")
    tile = dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_stages=3)
    few, many = (op.rank([tile | {"num_warps": w}], "triton")[0] for w in (4, 8))
    assert few.launch.registers < 255 and few.predicted_ms < 1.2 * many.predicted_ms


def test_one_stage_is_no_pipeline() -> None:
    op = carver.MatmulTemplate(4096, 4096, 4096).with_arch("a100")
    one, two = (op.rank([SQUARE | {"num_stages": s}], "triton")[0].predicted_ms for s in (1, 2))
    assert one > 1.1 * two


def test_lanes_on_different_rows_take_turns_on_vector_units() -> None:
    """float32 of 2048^3 on an H200: 256 x 16 takes 0.94 ms, 32 x 128 takes 0.42: lanes fill a row of the tile first."""
    op = carver.MatmulTemplate(2048, 2048, 2048, in_dtype="float32").with_arch("h200")
    tile = dict(BLOCK_K=32, num_warps=8, num_stages=3)
    tiles = [tile | dict(BLOCK_M=m, BLOCK_N=n) for m, n in ((256, 16), (32, 128))]
    tall, wide = (op.rank([each], "triton")[0].predicted_ms for each in tiles)
    assert tall > 1.5 * wide


def test_columns_along_k_start_in_one_bank_on_vector_units() -> None:
    """Eight lanes read 16 bytes each at once. If K is contiguous in B, they are on eight columns in the same banks."""
    columns, rows = (ms(matmul("float32", layout, "l40s"), 128, 64, 32, 4, 3) for layout in ("nt", "nn"))
    assert columns > 1.5 * rows


@pytest.mark.parametrize(
    ("device", "stages", "apart", "exposed"),
    [("a100", 2, 1, 0), ("a100", 1, 0, 0), ("h200", 3, 0, 0), ("t4", 3, 0, 0), ("mi300x", 2, 0, 0),
     ("rx_7900_xtx", 2, 1, 1), ("rx_9070_xt", 3, 1, 1), ("rx_7900_xtx", 1, 0, 0)],
)  # fmt: skip
def test_loads_that_do_not_overlap_with_products(device: str, stages: int, apart: int, exposed: int) -> None:
    op, config = matmul("float16", "nt", device), dict(zip(TILE, (64, 64, 64, 4, stages), strict=True))
    space, _ = given_space(op.problem, carver.load_arch(device), triton_matmul(), [config])
    assert (space["products_apart"][0], space["exposed_loads"][0]) == (apart, exposed)


def test_a_second_buffer_hides_loads_of_a_lone_block() -> None:
    """By SASS for compute capability 8.9, a lone warp takes (latency + products) / (stages - 1), if that is more than
    the products: 64 x 64 x 64 with 4 warps 1643, 824 and 660 clocks a step, at a latency of 1000."""
    op = carver.MatmulTemplate(1024, 2048, 8192, trans_B=True).with_arch("l40s")
    two, three = (ms(op, 128, 128, 64, 8, stages) for stages in (2, 3))
    assert two > 1.3 * three


def test_elements_copied_one_by_one_beside_tensor_memory_spill() -> None:
    """ptxas spills 1058 bytes of 128 x 128 x 64 with 4 warps for compute capability 10.0, and none with 8 warps."""
    op = carver.MatmulTemplate(1500, 1000, 3000, trans_B=True).with_arch("b200")
    few, many = (op.rank([dict(zip(TILE, (128, 128, 64, warps, 2), strict=True))], "triton")[0] for warps in (4, 8))
    assert few.launch.registers == 255 and many.launch.registers < 255


def test_orders_of_tiles_that_l2_makes_alike_are_one_hint() -> None:
    """On an L40 the ten hints of this layer were three tiles in four orders each, all predicted to take equal times."""

    def tiles(columns: int) -> tuple[int, int]:
        op = carver.MatmulTemplate(2048, columns, 7168, in_dtype="float8_e4m3", trans_B=True, scale_block=(128, 128))
        hints = op.with_arch("l40").recommend_hints(10)
        return len({tuple(v for k, v in h.config.items() if k != "GROUP_M") for h in hints}), len(hints)

    assert tiles(4608) == (10, 10)
    assert tiles(32768)[0] < 10, "beyond L2 the order counts"
