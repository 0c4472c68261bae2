"""Everyday HIP kernels that no rule was made with: passes, bytes and products against counts by hand. No GPU."""

from __future__ import annotations

from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from everyday import clang, facts_of, halves, ints, moved
from test_execution import f32, i32

import carver
from carver.arch.devices import load
from carver.compiled.facts import Facts
from carver.integrations.source import binary

SOURCE = Path(__file__).parent / "languages" / "everyday.hip"
ARCH = {"gfx90a": "mi210", "gfx942": "mi300x", "gfx1100": "rx_7900_xtx", "gfx1201": "rx_9070_xt"}


pytestmark = pytest.mark.skipif(not clang(), reason="no clang that compiles HIP")


@cache
def code(isa: str) -> Any:
    kernel = carver.Kernel(SOURCE.read_text(encoding="utf-8"), "vadd")
    return binary(kernel, {}, args=[f32(1)] * 3 + [np.int64(1)], grid=1, block=64, arch=load(ARCH[isa])).code


def facts(isa: str, *given: Any, **more: Any) -> Facts:
    return facts_of(code(isa), load(ARCH[isa]), *given, **more)


def trips(of: Facts) -> list[float]:
    return [loop.trips for loop in of.loops]


N = 1_000_003
M = 1024
GEMM = [*[f32(M, M)] * 3, *[i32(M)] * 3]
IMAGE = 8 * 32 * 64 * 96
COUNTS: dict[str, tuple[Any, Any, Any, dict[str, float], list[float]]] = {
    # grid, block, arguments, bytes, passes of loops
    "vadd": (400, 256, [*[f32(N)] * 3, np.int64(N)], {"l0": 4 * N, "l1": 4 * N, "s2": 4 * N}, [N / 400 / 256]),
    "vadd4": (977, 256, [*[f32(1_000_004)] * 3, i32(250_001)], dict.fromkeys(("l0", "l1", "s2"), 4_000_016), []),
    "transpose": ((32, 17), (32, 8), [*[f32(500, 1000)] * 2, i32(1000), i32(500)], {"l0": 2e6, "s1": 2e6}, []),
    "transpose_half": ((16, 8), (64, 4), [*[halves(500, 1000)] * 2, i32(1000), i32(500)], {"l0": 1e6, "s1": 1e6}, []),
    "histogram": (320, 256, [carver.Tensor("uint8", (1 << 22,)), ints(256), i32(1 << 22)],
                  {"l0": 1 << 22, "a1": 4 * 256 * 320}, [12.8, 1.0]),
    # every block reads a plane of its tile more, and neighbours' edges, of which those of a row are one sector
    "stencil": ((16, 64), (32, 8), [*[f32(100, 512, 512)] * 2, *[i32(512)] * 2, i32(100)],
                {"l0": 4 * 512 * 512 * 100 + 98 * 4 * (2 * 63 * 512 + 2 * 15 * 512), "s1": 4 * 510 * 510 * 98}, [98.0]),
    "scan": (1000, 256, [*[ints(256_000)] * 2, i32(256_000)], {"l0": 1_024_000, "s1": 1_024_000}, [8.0]),
    "nbody": (64, 256, [*[f32(64 * 256, 4)] * 2, i32(64 * 256)],
              {"l0": 64 * 64 * 256 * 16 + 64 * 256 * 12, "s1": 64 * 256 * 16}, [64.0, 64.0 * 256 / 8]),
    "sgemm": ((16, 16), 256, GEMM, {"l0": 4 * M * M * 16, "l1": 4 * M * M * 16, "s2": 4 * M * M}, [64.0]),
    "sgemm8": ((8, 8), 256, GEMM, {"l0": 4 * M * M * 8, "l1": 4 * M * M * 8, "s2": 4 * M * M}, [128.0]),
    "activate": (1000, 256, [*[f32(256_000)] * 2, i32(256_000), i32(2)], {"l0": 1_024_000, "s1": 1_024_000}, []),
    "multi": ((100, 6), 256, [*[f32(4 * 25_600)] * 4, i32(25_600)],
              {"l0": 9 * 102_400, "s1": 204_800, "s2": 204_800, "s3": 204_800}, []),
    "triangular": (136, 64, [*[f32(256, 64)] * 2, i32(16)],
                   {"l0": 2 * 256 * sum(n * n for n in range(1, 17)), "s1": 136 * 256}, [11.0]),
    "modulo": (640, 256, [*[f32(IMAGE)] * 2, i32(IMAGE), i32(32), i32(64), i32(96)],
               {"l0": 4 * IMAGE, "s1": 4 * IMAGE}, [9.6]),
    # 304 blocks take 2,048 tiles, and each block once more a number that is none
    "persistent": (304, 256, [*[f32(2048, 2048)] * 2, ints(1), i32(2048)],
                   {"a2": 4 * (2048 + 304), "l0": 4 * 2048 * 2048, "s1": 4 * 2048 * 2048}, [2048 / 304 + 1]),
    # L1 keeps of nine taps what is in three rows of 258
    "taps": (400, 256, [*[f32(110_000)] * 2, i32(300), i32(102_400), i32(9)],
             {"l0": 400 * 3 * 258 * 4, "s1": 409_600}, []),
}  # fmt: skip


@pytest.mark.parametrize("isa", ["gfx942", "gfx1201", *(
    pytest.param(isa, marks=pytest.mark.exhaustive) for isa in ("gfx90a", "gfx1100"))])  # fmt: skip
@pytest.mark.parametrize("entry", COUNTS)
def test_counts_by_hand(entry: str, isa: str) -> None:
    grid, block, args, wanted, passes = COUNTS[entry]
    of = facts(isa, entry, grid, block, args, shared_bytes=1024 if entry == "scan" else 0)
    assert moved(of) == pytest.approx(wanted, rel=0.025)
    assert trips(of) == pytest.approx(passes, rel=0.01)
    assert not any("not known" in note for note in of.notes)
    assert of.assumed == (entry in ("histogram", "persistent"))


@pytest.mark.parametrize("isa", ARCH)
def test_rows_that_all_warps_of_a_block_share(isa: str) -> None:
    wave = 64 if isa in ("gfx90a", "gfx942") else 32
    each = np.mean([ceil((1500 - wave * w) / 256) for w in range(256 // wave)])
    of = facts(isa, "softmax", 1024, 256, [*[f32(1024, 1500)] * 2, i32(1500)])
    assert moved(of) == pytest.approx({"l0": 3 * 4 * 1024 * 1500, "s1": 4 * 1024 * 1500})
    assert sum(np.isclose(loop, each) for loop in trips(of)) == 3
    args = [halves(4096, 2048), f32(2048), f32(2048), halves(4096, 2048), i32(2048), np.float32(1e-5)]
    of = facts(isa, "layernorm", 4096, 256, args)
    size = 4096 * 2048
    assert moved(of) == pytest.approx({"l0": 4 * size, "l1": 4 * size, "l2": 4 * size, "s3": 2 * size})
    of = facts(isa, "reduce", 300, 256, [f32(N), f32(1), i32(N)])
    assert moved(of) | {"l1": 0} == pytest.approx({"l0": 4 * N, "l1": 0, "a1": 4 * 300}, rel=0.001)
    assert trips(of) == pytest.approx([N / 300 / 256], rel=0.001)


@pytest.mark.parametrize("isa", ARCH)
def test_tiles_that_wait_for_the_one_before_go_on_one_by_one(isa: str) -> None:
    of = facts(isa, "one_by_one", 128, 256, [f32(128 * 256), f32(128 * 256), carver.Tensor("int32", (128,)), f32(128)])
    assert of.handed_on == 63


@pytest.mark.parametrize("isa", ARCH)
def test_products_of_matrices(isa: str) -> None:
    wave = 64 if isa in ("gfx90a", "gfx942") else 32
    of = facts(isa, "hgemm", (16, 16), 4 * wave, [halves(M, M), halves(M, M), f32(M, M), *[i32(M)] * 3])
    assert moved(of) == pytest.approx({"l0": 2 * M * M * 16, "l1": 2 * M * M * 16, "s2": 4 * M * M})
    assert of.dot_flops * of.programs == 2 * M**3
    assert trips(of)[0] == 32


@pytest.mark.parametrize("isa", ARCH)
def test_sparse_rows_with_their_ends_given(isa: str) -> None:
    """A wave takes 7 entries of each of 10,000 rows, of which it reads the ends."""
    wave, rows = 64 if isa in ("gfx90a", "gfx942") else 32, 10_000
    args = {"rows": ints(rows + 1), "cols": ints(7 * rows), "vals": f32(7 * rows), "x": f32(rows), "y": f32(rows)}
    blocks = rows * wave // 256
    without = facts(isa, "spmv", blocks, 256, {**args, "m": i32(rows)})
    assert without.assumed
    given = {"rows": np.arange(rows + 1) * 7, "cols": np.random.default_rng(0).integers(0, rows, 7 * rows)}
    of = facts(isa, "spmv", blocks, 256, {**args, "m": i32(rows)}, values=given)
    size, per = 4 * 7 * rows, 256 // wave
    wanted = {"lrows": 4 * (per + 1) * blocks, "lcols": size, "lvals": size, "lx": size, "sy": 4 * rows}
    assert moved(of) == pytest.approx(wanted, rel=0.02) and not of.assumed


def test_a_filter_in_constant_memory(isa: str = "gfx942") -> None:
    of = facts(isa, "conv", (64, 64), (16, 16), [f32(1040, 1040), f32(1024, 1024), i32(1040), i32(1040)])
    assert trips(of) == [17.0]
    assert moved(of)["s1"] == 4 * 1024 * 1024
