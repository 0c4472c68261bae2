"""The problems of `benchmarks/languages.py`: how each kernel is launched."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from zoos.subject import space, value

MOST = 14
"""Configurations of most problems, chosen at random where there are more."""


@dataclass(frozen=True)
class Problem:
    """`tensors`: name: (type, shape, content). `out`: those that are written. `launch`: a configuration to grid, block
    and shared bytes. That and `allowed` may be text: expressions of a configuration's values by their names."""

    name: str
    tensors: dict[str, tuple[str, tuple[int, ...], str]]
    out: tuple[str, ...]
    args: Any
    """Names of tensors and numbers, in order; or a function of the configuration that says them."""
    axes: str | dict[str, list[Any]]
    """As text, what `zoos.subject.space` takes."""
    launch: Any
    allowed: Any = "True"
    made: str = ""
    """The function of kernels/languages.py, of other languages than CUDA C++."""
    defines: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    """Tensors whose contents are given to the evaluator."""
    source: str = "languages.cu"
    entry: str = ""
    """Of a template, with its arguments."""
    most: int = MOST

    @property
    def language(self) -> str:
        return self.made.partition("_")[0] or "cuda"

    def said(self, what: Any, config: dict[str, Any]) -> Any:
        return value(what, {}, config) if isinstance(what, str) else what(config)

    def configs(self) -> list[dict[str, Any]]:
        axes = space(self.axes) if isinstance(self.axes, str) else self.axes
        every = [dict(zip(axes, each, strict=True)) for each in product(*axes.values())]
        allowed = [config for config in every if self.said(self.allowed, config)]
        random.Random(7).shuffle(allowed)
        return allowed[: self.most]


NUMBERS, SCAN, SORT, WORDS = 40_000_512, 8192 * 3000, 4096 * 2048, 12_582_912
ROWS, HALO = 65_536, 4096
F = 7
BODIES = 24_576
NZ = 3_145_728
"""Numbers of the sparse matrix, so many that rows of 8 to 88 fill it."""


def problems() -> list[Problem]:

    def cube(name: str) -> tuple[str, tuple[int, ...], str]:
        return "float32", (130, 386, 514), name

    return [
        Problem("cuda_total_40m", {"out": ("float32", (1,), "zero"), "x": ("float32", (NUMBERS,), "rand")}, ("out",),
            ("out", "x", NUMBERS), "BLOCK=128..1024 VEC=1..4 UNROLL=1..8 PER_SM=1..8", "132 * PER_SM, BLOCK, 0",
            "512 <= PER_SM * BLOCK <= 2048"),
        Problem("cuda_scan_24m", {"out": ("int32", (SCAN,), "poison"), "x": ("int32", (SCAN,), "small")}, ("out",),
            ("out", "x"), "BLOCK=64..1024 ITEMS=2..16 STAGED=0,1",
            lambda c: (SCAN // (c["BLOCK"] * c["ITEMS"]), c["BLOCK"], 0)),
        Problem("cuda_transposed_6144x4608",
            {"out": ("float32", (4608, 6144), "poison"), "x": ("float32", (6144, 4608), "randn")}, ("out",),
            ("out", "x", 6144, 4608), "TILE=16..64 ROWS=2..16 PAD=0,1,4",
            "(4608 // TILE, 6144 // TILE), (TILE, ROWS), 0", "64 <= TILE * ROWS <= 1024"),
        Problem("cuda_filtered_4096", {"out": ("float32", (HALO, HALO), "poison"),
             "x": ("float32", (HALO + F - 1,) * 2, "randn"), "taps": ("float32", (F * F,), "randn")}, ("out",),
            ("out", "x", HALO), "BX=16..128 BY=1..16 TX=1..4 TY=1..4 SHARED=0,1",
            lambda c: ((HALO // (c["BX"] * c["TX"]), HALO // (c["BY"] * c["TY"])), (c["BX"], c["BY"]), 0),
            "64 <= BX * BY <= 512 and (BX * TX + 6) * (BY * TY + 6) < 12000", defines={"F": F},
            constants={"taps": "taps"}),
        Problem("cuda_nbody_24k", {"out": ("float32", (BODIES, 4), "poison"), "pos": ("float32", (BODIES, 4), "rand")},
            ("out",), ("out", "pos", BODIES), "BLOCK=64..512 PER=1..4 UNROLL=1..8",
            lambda c: (BODIES // (c["BLOCK"] * c["PER"]), c["BLOCK"], 0)),
        Problem("cuda_spmv_64k", {"out": ("float32", (ROWS,), "poison"), "starts": ("int32", (ROWS + 1,), "starts"),
             "cols": ("int32", (NZ,), "cols"), "held": ("float32", (NZ,), "randn"), "x": ("float32", (ROWS,), "randn")},
            ("out",), ("out", "starts", "cols", "held", "x", ROWS), "BLOCK=64..512 LANES=1..32",
            lambda c: (ROWS * c["LANES"] // c["BLOCK"], c["BLOCK"], 0), values=("starts",)),
        Problem("cuda_counts_50mb", {"out": ("int32", (256,), "zero"), "x": ("int32", (WORDS,), "bits")}, ("out",),
            ("out", "x", WORDS), "BLOCK=128..1024 ITEMS=1..8 COPIES=1..16", "132 * 2048 // BLOCK // 2, BLOCK, 0",
            lambda c: c["COPIES"] <= c["BLOCK"] // 32 and WORDS % (c["BLOCK"] * c["ITEMS"]) == 0),
        Problem("cuda_hmma_3072x2048x2560", {"C": ("float16", (3072, 2048), "poison"),
             "A": ("float16", (3072, 2560), "randn"), "B": ("float16", (2048, 2560), "randn")}, ("C",),
            ("C", "A", "B", 3072, 2048, 2560), "BM=64..256 BN=64..256 BK=32,64 WM=32,64 WN=32,64 STAGES=2,3,4",
            "(2048 // BN, 3072 // BM), BM // WM * BN // WN * 32, STAGES * (BM + BN) * BK * 2",
            "2 <= BM // WM * (BN // WN) <= 16 and STAGES * (BM + BN) * BK * 2 < 220000"),
        Problem("cuda_matvec_16384x7168", {"y": ("float32", (16_384,), "poison"),
             "A": ("float16", (16_384, 7168), "randn"), "x": ("float16", (7168,), "randn")}, ("y",),
            ("y", "A", "x", 7168), "WARPS=1..16 ROWS=1..8 VEC=2..8", "16384 // (WARPS * ROWS), WARPS * 32, 0"),
        Problem("cuda_softmax_6000x6144",
            {"out": ("float32", (6000, 6144), "poison"), "x": ("float32", (6000, 6144), "randn")}, ("out",),
            ("out", "x"), "BLOCK=64..1024 VEC=1..4 KEPT=0,1", "6000, BLOCK, 0", "6144 % (BLOCK * VEC) == 0",
            defines={"COLS": 6144}),
        Problem("cuda_bitonic_8m", {"out": ("int32", (SORT,), "poison"), "x": ("int32", (SORT,), "bits")}, ("out",),
            ("out", "x"), "BLOCK=64..1024 ITEMS=2..8", lambda c: (SORT // 2048, c["BLOCK"], 0),
             "BLOCK * ITEMS == 2048"),
        Problem("cuda_normed_16000x3072", {"out": ("float16", (16_000, 3072), "poison"),
             "x": ("float16", (16_000, 3072), "randn"), "scale": ("float32", (3072,), "rand")}, ("out",),
            ("out", "x", "scale"), "ROWS=1..8 WARPS=1..8 VEC=2..8", "16000 // ROWS, ROWS * WARPS * 32, 0",
            "ROWS * WARPS <= 16", defines={"COLS": 3072}),
        Problem("cuda_columns_12288x3072",
            {"out": ("float32", (3072,), "zero"), "x": ("float32", (12_288, 3072), "rand")}, ("out",),
            ("out", "x", 3072), "BX=8..128 BY=2..32 VEC=1..4 DEEP=96,384,1536",
            "(3072 // (BX * VEC), 12288 // DEEP), (BX, BY), 0", "128 <= BX * BY <= 512"),
        Problem("cuda_heat_512x384x128", {"out": cube("zero"), "x": cube("randn")}, ("out",), ("out", "x", 512, 384),
            "BX=32..128 BY=1..8 DEEP=8,32,128 UNROLL=1,4 SHARED=0,1",
            "(512 // BX, 384 // BY, 128 // DEEP), (BX, BY), 0", "64 <= BX * BY <= 512"),
        Problem("cuda_rows_of_200k", {"out": ("float32", (200_000, 256), "poison"),
             "table": ("float32", (100_000, 256), "randn"), "which": ("int32", (200_000,), "which")}, ("out",),
            ("out", "table", "which"), "BLOCK=128..512 LANES=4..32 VEC=1..4", "200000 * LANES // BLOCK, BLOCK, 0",
            "200000 * LANES % BLOCK == 0", defines={"COLS": 256}),
        Problem("cuda_bytes_product_2048x1536x4096", {"C": ("int32", (2048, 1536), "poison"),
             "A": ("int32", (2048, 1024), "bits"), "B": ("int32", (1536, 1024), "bits")}, ("C",),
            ("C", "A", "B", 1536, 1024), "BM=32..128 BN=32..128 BK=4..16 TM=2..8 TN=2..8",
            "(1536 // BN, 2048 // BM), BM // TM * (BN // TN), 0",
            "64 <= BM // TM * (BN // TN) <= 256 and TM * TN >= 8"),
        Problem("numba_rowsums_20000x3000",
            {"x": ("float32", (20_000, 3000), "rand"), "out": ("float32", (20_000,), "poison")}, ("out",), ("x", "out"),
            "BLOCK=32..512 UNROLL=1..4", "20000, BLOCK, 0", made="numba_rowsums"),
        Problem("numba_jacobi_5000", {"x": ("float32", (5000, 5000), "rand"), "y": ("float32", (5000, 5000), "zero")},
            ("y",), ("x", "y"), "BX=8..128 BY=1..16 PER=1..4", "(cdiv(4998, BX), cdiv(4998, BY * PER)), (BX, BY), 0",
            "64 <= BX * BY <= 512", made="numba_jacobi"),
        Problem("numba_pairs_32k", {"x": ("float32", (32_768,), "randn"), "out": ("float32", (32_768,), "poison")},
            ("out",), ("x", "out"), {"BLOCK": [32, 64, 128, 256, 512], "TILED": [False, True]},
            "32768 // BLOCK, BLOCK, 0", made="numba_pairs"),
        Problem("warp_nbody_16k", {"pos": ("float32", (16_384, 4), "rand"), "acc": ("float32", (16_384, 4), "zero")},
            ("acc",), ("pos", "acc", 16_384), "TILE=1,4,16 BLOCK=32..256", "16384, BLOCK, 0", made="warp_nbody"),
        Problem("warp_rownorm_12000x2048",
            {"x": ("float32", (12_000, 2048), "randn"), "out": ("float32", (12_000, 2048), "poison")}, ("out",),
            ("x", "out"), "ROWS=1,4 BLOCK=32..512", "(12000 // ROWS, BLOCK), BLOCK, 0", made="warp_rownorm",
            defines={"WIDTH": 2048}),
        Problem("warp_shifted_8192x6000",
            {"x": ("float32", (8192, 6000), "randn"), "y": ("float32", (8192, 6000), "zero")}, ("y",), ("x", "y"),
            "PER=1..8 BLOCK=64..512", "(8192 // PER, 6000), BLOCK, 0", made="warp_shifted"),
        Problem("gluon_softmax_20000x2048",
            {"x": ("float32", (20_000, 2048), "randn"), "out": ("float32", (20_000, 2048), "poison")}, ("out",),
            ("x", "out"), "ROWS=1..4 VEC=1,4 ACROSS=1..4 num_warps=1..8", "20000 // ROWS, None, 0",
            "ACROSS <= num_warps and ROWS * ACROSS >= num_warps // 2", made="gluon_softmax", defines={"COLS": 2048}),
        Problem("gluon_transposed_6144x5120",
            {"x": ("float32", (6144, 5120), "randn"), "out": ("float32", (5120, 6144), "poison")}, ("out",),
            ("x", "out", 6144, 5120), "R=32..128 C=32..128 VEC=1..4 num_warps=4,8", "(5120 // C, 6144 // R), None, 0",
            made="gluon_transposed"),
    ]  # fmt: skip
