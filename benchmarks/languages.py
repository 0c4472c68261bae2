"""Kernels of our own in CUDA C++, Numba, Warp and Gluon: built with no GPU, then checked and timed on one.

    python benchmarks/languages.py build FOLDER [--only NAME] [--arch h100]
    python benchmarks/languages.py time FOLDER --out FILE.jsonl [--seconds 90] [--counters 0]
    python benchmarks/languages.py join FOLDER FILE.jsonl

`build` compiles every configuration and writes `problems.json.gz` and `cubins.tar.xz` into FOLDER, as
`benchmarks/machine.py predict` reads them. `time` runs on a machine with an NVIDIA GPU, PyTorch and its driver alone:
it launches the cubins, compares what they write with a result in double precision on random inputs, and times each 25
times in two passes of random order, with a buffer of 128 MiB read before each launch. It writes a line for each
configuration as it is done. With `--counters N` Nsight Compute counts N launches a problem after that, if it is there.
`join` adds what was measured to the problems of FOLDER: `tests/data/h100/languages.jsonl.gz`, say.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import hashlib
import io
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
SOURCE = HERE / "kernels" / "languages.cu"
CTYPES = {"i8": ctypes.c_int8, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u32": ctypes.c_uint32,
          "f32": ctypes.c_float, "f64": ctypes.c_double}  # fmt: skip
MOST = 14
"""Configurations of a problem, chosen at random where there are more."""


@dataclass(frozen=True)
class Problem:
    """`tensors`: name: (type, shape, content). `out`: those that are written. `launch`: a configuration to grid, block
    and shared bytes. `right`: tensors in double precision to what is right of each output."""

    name: str
    tensors: dict[str, tuple[str, tuple[int, ...], str]]
    out: tuple[str, ...]
    args: tuple[Any, ...]
    space: dict[str, list[Any]]
    launch: Callable[[dict[str, Any]], tuple[Any, Any, int]]
    right: Callable[[dict[str, Any]], dict[str, Any]]
    allowed: Callable[[dict[str, Any]], bool] = lambda c: True
    made: str = ""
    """The function of kernels/languages.py, of other languages than CUDA C++."""
    tolerance: float = 2e-4
    defines: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    """Tensors whose contents are given to the evaluator."""

    @property
    def language(self) -> str:
        return self.made.partition("_")[0] or "cuda"

    def configs(self) -> list[dict[str, Any]]:
        every = [dict(zip(self.space, each, strict=True)) for each in product(*self.space.values())]
        allowed = [config for config in every if self.allowed(config)]
        random.Random(7).shuffle(allowed)
        return allowed[:MOST]


def _conv(t: dict[str, Any], f: int) -> Any:
    x, taps = t["x"], t["taps"]
    high, wide = x.shape[0] - f + 1, x.shape[1] - f + 1
    return sum(taps[v * f + u] * x[v : v + high, u : u + wide] for v in range(f) for u in range(f))


def _bodies(t: dict[str, Any], name: str) -> Any:
    import torch

    p, parts = t[name], []
    for i in range(0, len(p), 1024):
        d = p[None, :, :3] - p[i : i + 1024, None, :3]
        pull = ((d * d).sum(-1) + 0.01) ** -1.5 * p[None, :, 3]
        parts.append((d * pull[..., None]).sum(1))
    return torch.cat(parts)


def _pairs(x: Any) -> Any:
    import torch

    return torch.cat([(1 / ((x[None] - x[i : i + 1024, None]) ** 2 + 1)).sum(1) for i in range(0, len(x), 1024)])


def _heat(t: dict[str, Any]) -> Any:
    x = t["x"]
    m = slice(1, -1)
    around = x[m, m, :-2] + x[m, m, 2:] + x[m, :-2, m] + x[m, 2:, m] + x[:-2, m, m] + x[2:, m, m]
    out = t["out"].clone()
    out[m, m, m] = 0.4 * x[m, m, m] + 0.1 * around
    return out


def _jacobi(t: dict[str, Any]) -> Any:
    x, out = t["x"], t["y"].clone()
    out[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return out


def _shifted(t: dict[str, Any]) -> Any:
    x, out = t["x"], t["y"].clone()
    out[:, 2:-2] = 0.1 * x[:, :-4] + 0.2 * x[:, 1:-3] + 0.4 * x[:, 2:-2] + 0.2 * x[:, 3:-1] + 0.1 * x[:, 4:]
    return out


def _spmv(t: dict[str, Any]) -> Any:
    import torch

    starts = t["starts"].long()
    rows = torch.repeat_interleave(torch.arange(len(starts) - 1, device=starts.device), starts[1:] - starts[:-1])
    out = torch.zeros(len(starts) - 1, dtype=torch.float64, device=starts.device)
    return out.index_add_(0, rows, (t["held"] * t["x"][t["cols"].long()])[: len(rows)])


def _acc(t: dict[str, Any]) -> Any:
    out = t["acc"].clone()
    out[:, :3] = _bodies(t, "pos")
    return out


def _normed(t: dict[str, Any]) -> Any:
    x = t["x"]
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5) ** 0.5 * t["scale"]


NUMBERS, SCAN, SORT, WORDS = 40_000_512, 8192 * 3000, 4096 * 2048, 12_582_912
ROWS, HALO = 65_536, 4096
F = 7
BODIES = 24_576
NZ = 3_145_728
"""Numbers of the sparse matrix, so many that rows of 8 to 88 fill it."""


def problems() -> list[Problem]:
    import torch

    def cube(name: str) -> tuple[str, tuple[int, ...], str]:
        return "float32", (130, 386, 514), name

    return [
        Problem(
            "cuda_total_40m",
            {"out": ("float32", (1,), "zero"), "x": ("float32", (NUMBERS,), "rand")},
            ("out",),
            ("out", "x", NUMBERS),
            {"BLOCK": [128, 256, 512, 1024], "VEC": [1, 2, 4], "UNROLL": [1, 2, 4, 8], "PER_SM": [1, 2, 4, 8]},
            lambda c: (132 * c["PER_SM"], c["BLOCK"], 0),
            lambda t: {"out": t["x"].sum().reshape(1)},
            lambda c: 512 <= c["PER_SM"] * c["BLOCK"] <= 2048,
        ),
        Problem(
            "cuda_scan_24m",
            {"out": ("int32", (SCAN,), "poison"), "x": ("int32", (SCAN,), "small")},
            ("out",),
            ("out", "x"),
            {"BLOCK": [64, 128, 256, 512, 1024], "ITEMS": [2, 4, 8, 16], "STAGED": [0, 1]},
            lambda c: (SCAN // (c["BLOCK"] * c["ITEMS"]), c["BLOCK"], 0),
            lambda t: {"out": None},
        ),
        Problem(
            "cuda_transposed_6144x4608",
            {"out": ("float32", (4608, 6144), "poison"), "x": ("float32", (6144, 4608), "randn")},
            ("out",),
            ("out", "x", 6144, 4608),
            {"TILE": [16, 32, 64], "ROWS": [2, 4, 8, 16], "PAD": [0, 1, 4]},
            lambda c: ((4608 // c["TILE"], 6144 // c["TILE"]), (c["TILE"], c["ROWS"]), 0),
            lambda t: {"out": t["x"].T},
            lambda c: 64 <= c["TILE"] * c["ROWS"] <= 1024,
        ),
        Problem(
            "cuda_filtered_4096",
            {
                "out": ("float32", (HALO, HALO), "poison"),
                "x": ("float32", (HALO + F - 1,) * 2, "randn"),
                "taps": ("float32", (F * F,), "randn"),
            },
            ("out",),
            ("out", "x", HALO),
            {"BX": [16, 32, 64, 128], "BY": [1, 2, 4, 8, 16], "TX": [1, 2, 4], "TY": [1, 2, 4], "SHARED": [0, 1]},
            lambda c: ((HALO // (c["BX"] * c["TX"]), HALO // (c["BY"] * c["TY"])), (c["BX"], c["BY"]), 0),
            lambda t: {"out": _conv(t, F)},
            lambda c: 64 <= c["BX"] * c["BY"] <= 512 and (c["BX"] * c["TX"] + 6) * (c["BY"] * c["TY"] + 6) < 12_000,
            defines={"F": F},
            constants={"taps": "taps"},
        ),
        Problem(
            "cuda_nbody_24k",
            {"out": ("float32", (BODIES, 4), "poison"), "pos": ("float32", (BODIES, 4), "rand")},
            ("out",),
            ("out", "pos", BODIES),
            {"BLOCK": [64, 128, 256, 512], "PER": [1, 2, 4], "UNROLL": [1, 2, 4, 8]},
            lambda c: (BODIES // (c["BLOCK"] * c["PER"]), c["BLOCK"], 0),
            lambda t: {"out": torch.nn.functional.pad(_bodies(t, "pos"), (0, 1))},
            tolerance=1e-3,
        ),
        Problem(
            "cuda_spmv_64k",
            {
                "out": ("float32", (ROWS,), "poison"),
                "starts": ("int32", (ROWS + 1,), "starts"),
                "cols": ("int32", (NZ,), "cols"),
                "held": ("float32", (NZ,), "randn"),
                "x": ("float32", (ROWS,), "randn"),
            },
            ("out",),
            ("out", "starts", "cols", "held", "x", ROWS),
            {"BLOCK": [64, 128, 256, 512], "LANES": [1, 2, 4, 8, 16, 32]},
            lambda c: (ROWS * c["LANES"] // c["BLOCK"], c["BLOCK"], 0),
            lambda t: {"out": _spmv(t)},
            values=("starts",),
        ),
        Problem(
            "cuda_counts_50mb",
            {"out": ("int32", (256,), "zero"), "x": ("int32", (WORDS,), "bits")},
            ("out",),
            ("out", "x", WORDS),
            {"BLOCK": [128, 256, 512, 1024], "ITEMS": [1, 2, 4, 8], "COPIES": [1, 2, 4, 8, 16]},
            lambda c: (132 * 2048 // c["BLOCK"] // 2, c["BLOCK"], 0),
            lambda t: {"out": torch.bincount(t["x"].view(torch.uint8).long(), minlength=256)},
            lambda c: c["COPIES"] <= c["BLOCK"] // 32 and WORDS % (c["BLOCK"] * c["ITEMS"]) == 0,
        ),
        Problem(
            "cuda_hmma_3072x2048x2560",
            {
                "C": ("float16", (3072, 2048), "poison"),
                "A": ("float16", (3072, 2560), "randn"),
                "B": ("float16", (2048, 2560), "randn"),
            },
            ("C",),
            ("C", "A", "B", 3072, 2048, 2560),
            {
                "BM": [64, 128, 256],
                "BN": [64, 128, 256],
                "BK": [32, 64],
                "WM": [32, 64],
                "WN": [32, 64],
                "STAGES": [2, 3, 4],
            },
            lambda c: (
                (2048 // c["BN"], 3072 // c["BM"]),
                c["BM"] // c["WM"] * c["BN"] // c["WN"] * 32,
                c["STAGES"] * (c["BM"] + c["BN"]) * c["BK"] * 2,
            ),
            lambda t: {"C": t["A"] @ t["B"].T},
            lambda c: (
                2 <= c["BM"] // c["WM"] * (c["BN"] // c["WN"]) <= 16
                and c["STAGES"] * (c["BM"] + c["BN"]) * c["BK"] * 2 < 220_000
            ),
            tolerance=2e-3,
        ),
        Problem(
            "cuda_matvec_16384x7168",
            {
                "y": ("float32", (16_384,), "poison"),
                "A": ("float16", (16_384, 7168), "randn"),
                "x": ("float16", (7168,), "randn"),
            },
            ("y",),
            ("y", "A", "x", 7168),
            {"WARPS": [1, 2, 4, 8, 16], "ROWS": [1, 2, 4, 8], "VEC": [2, 4, 8]},
            lambda c: (16_384 // (c["WARPS"] * c["ROWS"]), c["WARPS"] * 32, 0),
            lambda t: {"y": t["A"] @ t["x"]},
            tolerance=1e-3,
        ),
        Problem(
            "cuda_softmax_6000x6144",
            {"out": ("float32", (6000, 6144), "poison"), "x": ("float32", (6000, 6144), "randn")},
            ("out",),
            ("out", "x"),
            {"BLOCK": [64, 128, 256, 512, 1024], "VEC": [1, 2, 4], "KEPT": [0, 1]},
            lambda c: (6000, c["BLOCK"], 0),
            lambda t: {"out": t["x"].softmax(-1)},
            lambda c: 6144 % (c["BLOCK"] * c["VEC"]) == 0,
            defines={"COLS": 6144},
        ),
        Problem(
            "cuda_bitonic_8m",
            {"out": ("int32", (SORT,), "poison"), "x": ("int32", (SORT,), "bits")},
            ("out",),
            ("out", "x"),
            {"BLOCK": [64, 128, 256, 512, 1024], "ITEMS": [2, 4, 8]},
            lambda c: (SORT // 2048, c["BLOCK"], 0),
            lambda t: {"out": t["x"].reshape(-1, 2048).sort(-1).values.reshape(-1)},
            lambda c: c["BLOCK"] * c["ITEMS"] == 2048,
        ),
        Problem(
            "cuda_normed_16000x3072",
            {
                "out": ("float16", (16_000, 3072), "poison"),
                "x": ("float16", (16_000, 3072), "randn"),
                "scale": ("float32", (3072,), "rand"),
            },
            ("out",),
            ("out", "x", "scale"),
            {"ROWS": [1, 2, 4, 8], "WARPS": [1, 2, 4, 8], "VEC": [2, 4, 8]},
            lambda c: (16_000 // c["ROWS"], c["ROWS"] * c["WARPS"] * 32, 0),
            lambda t: {"out": _normed(t)},
            lambda c: c["ROWS"] * c["WARPS"] <= 16,
            defines={"COLS": 3072},
            tolerance=2e-3,
        ),
        Problem(
            "cuda_columns_12288x3072",
            {"out": ("float32", (3072,), "zero"), "x": ("float32", (12_288, 3072), "rand")},
            ("out",),
            ("out", "x", 3072),
            {"BX": [8, 16, 32, 64, 128], "BY": [2, 4, 8, 16, 32], "VEC": [1, 2, 4], "DEEP": [96, 384, 1536]},
            lambda c: ((3072 // (c["BX"] * c["VEC"]), 12_288 // c["DEEP"]), (c["BX"], c["BY"]), 0),
            lambda t: {"out": t["x"].sum(0)},
            lambda c: 128 <= c["BX"] * c["BY"] <= 512,
        ),
        Problem(
            "cuda_heat_512x384x128",
            {"out": cube("zero"), "x": cube("randn")},
            ("out",),
            ("out", "x", 512, 384),
            {"BX": [32, 64, 128], "BY": [1, 2, 4, 8], "DEEP": [8, 32, 128], "UNROLL": [1, 4], "SHARED": [0, 1]},
            lambda c: ((512 // c["BX"], 384 // c["BY"], 128 // c["DEEP"]), (c["BX"], c["BY"]), 0),
            lambda t: {"out": _heat(t)},
            lambda c: 64 <= c["BX"] * c["BY"] <= 512,
        ),
        Problem(
            "cuda_rows_of_200k",
            {
                "out": ("float32", (200_000, 256), "poison"),
                "table": ("float32", (100_000, 256), "randn"),
                "which": ("int32", (200_000,), "which"),
            },
            ("out",),
            ("out", "table", "which"),
            {"BLOCK": [128, 256, 512], "LANES": [4, 8, 16, 32], "VEC": [1, 2, 4]},
            lambda c: (200_000 * c["LANES"] // c["BLOCK"], c["BLOCK"], 0),
            lambda t: {"out": t["table"][t["which"].long()]},
            lambda c: 200_000 * c["LANES"] % c["BLOCK"] == 0,
            defines={"COLS": 256},
        ),
        Problem(
            "cuda_bytes_product_2048x1536x4096",
            {
                "C": ("int32", (2048, 1536), "poison"),
                "A": ("int32", (2048, 1024), "bits"),
                "B": ("int32", (1536, 1024), "bits"),
            },
            ("C",),
            ("C", "A", "B", 1536, 1024),
            {"BM": [32, 64, 128], "BN": [32, 64, 128], "BK": [4, 8, 16], "TM": [2, 4, 8], "TN": [2, 4, 8]},
            lambda c: ((1536 // c["BN"], 2048 // c["BM"]), c["BM"] // c["TM"] * (c["BN"] // c["TN"]), 0),
            lambda t: {"C": t["A"].view(torch.int8).double() @ t["B"].view(torch.int8).double().T},
            lambda c: 64 <= c["BM"] // c["TM"] * (c["BN"] // c["TN"]) <= 256 and c["TM"] * c["TN"] >= 8,
        ),
        Problem(
            "numba_rowsums_20000x3000",
            {"x": ("float32", (20_000, 3000), "rand"), "out": ("float32", (20_000,), "poison")},
            ("out",),
            ("x", "out"),
            {"BLOCK": [32, 64, 128, 256, 512], "UNROLL": [1, 2, 4]},
            lambda c: (20_000, c["BLOCK"], 0),
            lambda t: {"out": t["x"].sum(1)},
            made="numba_rowsums",
        ),
        Problem(
            "numba_jacobi_5000",
            {"x": ("float32", (5000, 5000), "rand"), "y": ("float32", (5000, 5000), "zero")},
            ("y",),
            ("x", "y"),
            {"BX": [8, 16, 32, 64, 128], "BY": [1, 2, 4, 8, 16], "PER": [1, 2, 4]},
            lambda c: ((-(-4998 // c["BX"]), -(-4998 // (c["BY"] * c["PER"]))), (c["BX"], c["BY"]), 0),
            lambda t: {"y": _jacobi(t)},
            lambda c: 64 <= c["BX"] * c["BY"] <= 512,
            made="numba_jacobi",
        ),
        Problem(
            "numba_pairs_32k",
            {"x": ("float32", (32_768,), "randn"), "out": ("float32", (32_768,), "poison")},
            ("out",),
            ("x", "out"),
            {"BLOCK": [32, 64, 128, 256, 512], "TILED": [False, True]},
            lambda c: (32_768 // c["BLOCK"], c["BLOCK"], 0),
            lambda t: {"out": _pairs(t["x"])},
            made="numba_pairs",
            tolerance=1e-3,
        ),
        Problem(
            "warp_nbody_16k",
            {"pos": ("float32", (16_384, 4), "rand"), "acc": ("float32", (16_384, 4), "zero")},
            ("acc",),
            ("pos", "acc", 16_384),
            {"TILE": [1, 4, 16], "BLOCK": [32, 64, 128, 256]},
            lambda c: (16_384, c["BLOCK"], 0),
            lambda t: {"acc": _acc(t)},
            made="warp_nbody",
            tolerance=1e-3,
        ),
        Problem(
            "warp_rownorm_12000x2048",
            {"x": ("float32", (12_000, 2048), "randn"), "out": ("float32", (12_000, 2048), "poison")},
            ("out",),
            ("x", "out"),
            {"ROWS": [1, 4], "BLOCK": [32, 64, 128, 256, 512]},
            lambda c: ((12_000 // c["ROWS"], c["BLOCK"]), c["BLOCK"], 0),
            lambda t: {"out": t["x"] * ((t["x"] ** 2).mean(-1, keepdim=True) + 1e-5) ** -0.5},
            made="warp_rownorm",
            defines={"WIDTH": 2048},
        ),
        Problem(
            "warp_shifted_8192x6000",
            {"x": ("float32", (8192, 6000), "randn"), "y": ("float32", (8192, 6000), "zero")},
            ("y",),
            ("x", "y"),
            {"PER": [1, 2, 4, 8], "BLOCK": [64, 128, 256, 512]},
            lambda c: ((8192 // c["PER"], 6000), c["BLOCK"], 0),
            lambda t: {"y": _shifted(t)},
            made="warp_shifted",
        ),
        Problem(
            "gluon_softmax_20000x2048",
            {"x": ("float32", (20_000, 2048), "randn"), "out": ("float32", (20_000, 2048), "poison")},
            ("out",),
            ("x", "out"),
            {"ROWS": [1, 2, 4], "VEC": [1, 4], "ACROSS": [1, 2, 4], "num_warps": [1, 2, 4, 8]},
            lambda c: (20_000 // c["ROWS"], None, 0),
            lambda t: {"out": t["x"].softmax(-1)},
            lambda c: c["ACROSS"] <= c["num_warps"] and c["ROWS"] * c["ACROSS"] >= c["num_warps"] // 2,
            made="gluon_softmax",
            defines={"COLS": 2048},
        ),
        Problem(
            "gluon_transposed_6144x5120",
            {"x": ("float32", (6144, 5120), "randn"), "out": ("float32", (5120, 6144), "poison")},
            ("out",),
            ("x", "out", 6144, 5120),
            {"R": [32, 64, 128], "C": [32, 64, 128], "VEC": [1, 2, 4], "num_warps": [4, 8]},
            lambda c: ((5120 // c["C"], 6144 // c["R"]), None, 0),
            lambda t: {"out": t["x"].T},
            made="gluon_transposed",
        ),
    ]


# ------------------------------------------------------------------------------------------------------ with no GPU


def build(folder: Path, only: str, arch_name: str) -> None:
    import carver
    from carver.arch.devices import load

    arch = load(arch_name)
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, bytes] = {}
    out = []
    for problem in problems():
        if only not in problem.name:
            continue
        began = time.time()
        tensors = {name: carver.Tensor(dtype, shape) for name, (dtype, shape, _) in problem.tensors.items()}
        configs = []
        with ThreadPoolExecutor(2) as pool:
            many = problem.configs()
            found = pool.map if problem.language == "cuda" else map
            for config, binary in zip(many, found(partial(compiled, problem, tensors, arch), many), strict=True):
                if isinstance(binary, str):
                    print(f"{problem.name} {config}: {binary.strip().splitlines()[0][:200]}", flush=True)
                    continue
                key = hashlib.sha256(binary.code).hexdigest()[:24]
                made[key] = binary.code
                args = [argument(value, tensors) for value in binary.args]
                configs.append(
                    {
                        "config": config,
                        "cubin": key,
                        "symbol": binary.entry,
                        "grid": list(binary.grid),
                        "block": list(binary.block),
                        "shared_dynamic": binary.shared_bytes,
                        "args": args,
                    }
                )
        out.append({"problem": problem.name, "family": problem.language, "configs": configs,
                    "constants": problem.constants, "values": list(problem.values),
                    "tensors": {name: {"dtype": dtype, "shape": list(shape), "init": init, "out": name in problem.out}
                                for name, (dtype, shape, init) in problem.tensors.items()}})  # fmt: skip
        print(problem.name, len(configs), f"{time.time() - began:.1f} s", flush=True)
    with gzip.open(folder / "problems.json.gz", "wt") as file:
        json.dump(out, file)
    with tarfile.open(folder / "cubins.tar.xz", "w:xz") as archive:
        for key, code in made.items():
            entry = tarfile.TarInfo(f"{key}.cubin")
            entry.size = len(code)
            archive.addfile(entry, io.BytesIO(code))


def compiled(problem: Problem, tensors: dict[str, Any], arch: Any, config: dict[str, Any]) -> Any:
    """A `carver.Binary`, or why there is none."""
    import numpy as np

    import carver
    from carver.base.errors import CarverError
    from carver.run.spec import dim3

    grid, block, shared = problem.launch(config)
    args = [tensors[value] if isinstance(value, str) else value for value in problem.args]
    try:
        if problem.language != "cuda":
            return front_end(problem, config, args, grid, block, arch)
        name = problem.name.split("_", 1)[1].rsplit("_", 1)[0]
        defines = {**problem.defines, **config, f"KERNEL_{name}": 1}
        target = Path(f"/tmp/languages-{os.getpid()}-{hashlib.md5(repr(defines).encode()).hexdigest()}.cubin")
        command = ["nvcc", "-cubin", f"-arch={arch.isa}", "-o", str(target), str(SOURCE)]
        command += [f"-D{key}={value}" for key, value in defines.items()]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return ran.stderr
        code = target.read_bytes()
        target.unlink()
        given = [np.int32(value) if isinstance(value, int) else value for value in args]
        names = tuple(value if isinstance(value, str) else "" for value in problem.args)
        return carver.Binary(code, name, tuple(given), dim3("grid", grid), dim3("block", block), shared, names=names)
    except CarverError as error:
        return str(error)


def front_end(problem: Problem, config: dict[str, Any], args: list[Any], grid: Any, block: Any, arch: Any) -> Any:
    from importlib import import_module

    from kernels import languages

    front = import_module(f"carver.integrations.{problem.language}")
    kernel = getattr(languages, problem.made)(**problem.defines, **config)
    if problem.language == "gluon":
        names = [name if isinstance(name, str) else ("rows", "cols")[i - 2] for i, name in enumerate(problem.args)]
        named = dict(zip(names, args, strict=True))
        return front.binary(kernel, {**problem.defines, **config}, args=named, grid=grid, block=None, arch=arch)
    return front.binary(kernel, config, args=tuple(args), grid=grid, block=block, arch=arch)


def argument(value: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    import carver

    def named(tensor: Any) -> str:
        return next(name for name, each in tensors.items() if each is tensor)

    if value is None:
        return {"null": 1}
    if isinstance(value, carver.Struct):
        places = [[at, named(tensor), 0] for at, tensor in value.tensors.items()]
        return {"struct": {"size": len(value.data), "hex": value.data.hex(), "ptrs": places}}
    if isinstance(value, carver.Tensor):
        return {"t": named(value)}
    kind = value.dtype
    return {"s": value.item(), "type": f"{kind.kind}{8 * kind.itemsize}"}


def contents(spec: dict[str, Any], seed: int) -> Any:
    """What an integer tensor holds that others depend on, the same wherever it is made."""
    import numpy as np

    rng, init, (count,) = np.random.default_rng(seed), spec["init"], spec["shape"]
    if init == "starts":  # rows of 8 to 88 numbers
        lengths = rng.integers(8, 89, count - 1)
        return np.concatenate([[0], np.cumsum(lengths * (NZ / lengths.sum())).astype(np.int64)]).astype(np.int32)
    return rng.integers(0, ROWS if init == "cols" else 100_000, count).astype(np.int32)


def values(given: dict[str, Any]) -> dict[str, Any]:
    """What the evaluator is told of a problem's tensors."""
    seeds = {name: 100 + i for i, name in enumerate(given["tensors"])}
    return {name: contents(given["tensors"][name], seeds[name]) for name in given.get("values", ())}


# ------------------------------------------------------------------------------------------------------ with a GPU


def tensor_of(spec: dict[str, Any], seed: int) -> Any:
    import torch

    kind, shape, init = getattr(torch, spec["dtype"]), spec["shape"], spec["init"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    if init in ("starts", "cols", "which"):
        return torch.from_numpy(contents(spec, seed)).cuda()
    if init == "bits":
        return torch.randint(-(2**31), 2**31, shape, device="cuda", generator=generator, dtype=torch.int64).to(kind)
    if init == "small":
        return torch.randint(0, 100, shape, device="cuda", generator=generator, dtype=kind)
    if init in ("randn", "rand"):
        return getattr(torch, init)(shape, device="cuda", generator=generator).to(kind)
    return torch.zeros(shape, device="cuda", dtype=kind)


class Driver:
    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *args: Any) -> None:
        if code := getattr(self.library, name)(*args):
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")


class Loaded:
    """A configuration whose code is loaded and whose parameters are laid out."""

    def __init__(self, driver: Driver, code: bytes, config: dict[str, Any], tensors: dict[str, Any],
                 constants: dict[str, str]) -> None:  # fmt: skip
        self.driver, self.keep = driver, []
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuModuleLoadData", ctypes.byref(self.module), code)
        driver("cuModuleGetFunction", ctypes.byref(self.function), self.module, config["symbol"].encode())
        shared = config["shared_dynamic"]
        if shared > 48 << 10:
            driver("cuFuncSetAttribute", self.function, 8, shared)
        for symbol, name in constants.items():
            place, size = ctypes.c_uint64(), ctypes.c_size_t()
            driver("cuModuleGetGlobal_v2", ctypes.byref(place), ctypes.byref(size), self.module, symbol.encode())
            driver("cuMemcpyDtoD_v2", place, ctypes.c_uint64(tensors[name].data_ptr()), size)
        self.keep = [self._parameter(given, tensors) for given in config["args"]]
        self.params = (ctypes.c_void_p * max(1, len(self.keep)))(*map(ctypes.addressof, self.keep))
        self.dims = (*config["grid"], *config["block"], shared)

    def _parameter(self, given: dict[str, Any], tensors: dict[str, Any]) -> Any:
        if "struct" in given:
            raw = (ctypes.c_uint64 * -(-given["struct"]["size"] // 8))()
            ctypes.memmove(raw, bytes.fromhex(given["struct"]["hex"]), given["struct"]["size"])
            for at, name, _ in given["struct"]["ptrs"]:
                ctypes.c_uint64.from_address(ctypes.addressof(raw) + at).value = tensors[name].data_ptr()
            return raw
        if "t" in given:
            return ctypes.c_uint64(tensors[given["t"]].data_ptr())
        return ctypes.c_uint64(0) if "null" in given else CTYPES[given["type"]](given["s"])

    def __call__(self) -> None:
        if code := self.driver.library.cuLaunchKernel(self.function, *self.dims, None, self.params, None):
            raise RuntimeError(f"cuLaunchKernel: {code}")


def wrong(problem: Problem, given: dict[str, Any], tensors: dict[str, Any], expected: dict[str, Any],
          config: dict[str, Any]) -> float:  # fmt: skip
    """The relative error of what was written."""
    import torch

    if problem.name.startswith("cuda_scan"):
        tile = config["BLOCK"] * config["ITEMS"]
        expected = {"out": tensors["x"].reshape(-1, tile).cumsum(-1).reshape(-1)}
    worst = 0.0
    for name, right in expected.items():
        got, want = tensors[name].double().reshape(-1), right.double().reshape(-1)
        worst = max(worst, float((got - want).norm() / want.norm().clamp_min(1e-30)))
        if not given["tensors"][name]["dtype"].startswith("float") and not torch.equal(got, want):
            return math.inf
    return math.inf if math.isnan(worst) else worst


def doubled(tensors: dict[str, Any]) -> dict[str, Any]:
    return {name: each.double() if each.is_floating_point() else each for name, each in tensors.items()}


def emptied(given: dict[str, Any], tensors: dict[str, Any]) -> None:
    import torch

    for name, spec in given["tensors"].items():
        if spec["out"]:
            tensors[name].zero_() if spec["init"] == "zero" else tensors[name].view(torch.uint8).fill_(255)


def timing(folder: Path, out: Path, seconds: float, counters: int) -> None:
    import torch

    began = time.time()
    driver, buffer = Driver(), torch.zeros(32 << 20, device="cuda")
    held = codes(folder)
    by_name = {problem.name: problem for problem in problems()}
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    with out.open("a", encoding="utf-8") as file:

        def log(**row: Any) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()

        log(device=torch.cuda.get_device_name(), torch=torch.__version__)
        for given in every:
            problem = by_name[given["problem"]]
            if time.time() - began > seconds:
                log(problem=problem.name, error="not reached")
                continue
            torch.cuda.empty_cache()
            tensors = {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}
            try:
                expected = problem.right(doubled(tensors))
            except (RuntimeError, TypeError, ValueError) as error:  # of memory, say: the others are timed all the same
                log(problem=problem.name, error=str(error))
                continue
            ready: dict[int, Loaded] = {}
            for i, config in enumerate(given["configs"]):
                emptied(given, tensors)
                try:
                    one = Loaded(driver, held[config["cubin"]], config, tensors, given["constants"])
                    one()
                    driver("cuCtxSynchronize")
                except RuntimeError as error:
                    log(problem=problem.name, i=i, error=str(error))
                    if "ILLEGAL" in str(error) or "FAILED" in str(error):
                        return
                    continue
                off = wrong(problem, given, tensors, expected, config["config"])
                if off > problem.tolerance:
                    log(problem=problem.name, i=i, error=f"wrong: relative error {off}")
                else:
                    ready[i] = one
            del expected
            passes: dict[int, list[list[float]]] = {i: [] for i in ready}
            for turn in range(2):
                order = list(ready)
                random.Random(turn).shuffle(order)
                for i in order:
                    passes[i].append(measured(ready[i], buffer, 3 if not turn else 8, 25))
            for i, both in passes.items():
                medians = [statistics.median(each) for each in both]
                spread = max((sorted(each)[18] - sorted(each)[6]) / statistics.median(each) for each in both)
                log(
                    problem=problem.name,
                    i=i,
                    ms=math.exp(sum(map(math.log, medians)) / 2),
                    passes=medians,
                    spread=spread,
                )
            for one in ready.values():
                driver("cuModuleUnload", one.module)
            print(
                f"{problem.name}: {len(ready)} of {len(given['configs'])} right, {time.time() - began:.1f} s",
                flush=True,
            )
    if counters:
        counted(folder, out, counters, max(seconds + 40 - (time.time() - began), 20))


def measured(one: Loaded, buffer: Any, warm: int, count: int) -> list[float]:
    import torch

    events = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(count)]
    torch.cuda.set_stream(torch.cuda.default_stream())
    for _ in range(warm):
        one()
    for first, last in events:
        buffer.sum()
        first.record()
        one()
        last.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(last) for first, last in events]


METRICS = (
    "gpu__time_duration.sum",
    "smsp__inst_executed.sum",
    "sm__inst_executed_pipe_alu.sum",
    "sm__inst_executed_pipe_fma.sum",
    "sm__inst_executed_pipe_lsu.sum",
    "sm__inst_executed_pipe_xu.sum",
    "sm__inst_executed_pipe_fp64.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "lts__t_sectors.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_op_atom.sum",
    "lts__t_sectors_op_red.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__t_bytes.sum",
    "l1tex__t_sectors.sum",
    "l1tex__t_sector_hit_rate.pct",
    "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
)


def counted(folder: Path, out: Path, count: int, seconds: float) -> None:
    """Nsight Compute over a launch of `count` configurations a problem, spread over their times."""
    command = [
        "ncu",
        "--clock-control",
        "none",
        "--profile-from-start",
        "off",
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--log-file",
        f"{out}.ncu.csv",
        "--metrics",
        ",".join(METRICS),
        sys.executable,
        __file__,
        "launch",
        str(folder),
        str(out),
        str(count),
    ]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        print(ran.stdout[-500:], ran.stderr[-500:])
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"no counters: {error}")


def launch(folder: Path, out: Path, count: int) -> None:
    """What Nsight Compute looks at; writes what was launched, in order, beside `out`."""
    import torch

    runtime = torch.cuda.cudart()
    driver, held = Driver(), codes(folder)
    rows = [row for row in map(json.loads, out.read_text().splitlines()) if "ms" in row]
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    for given in every:
        mine = sorted((row["ms"], row["i"]) for row in rows if row["problem"] == given["problem"])
        if not mine:
            continue
        torch.cuda.empty_cache()
        tensors = {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}
        for place in sorted({round(k * (len(mine) - 1) / max(count - 1, 1)) for k in range(count)}):
            i = mine[place][1]
            one = Loaded(driver, held[given["configs"][i]["cubin"]], given["configs"][i], tensors, given["constants"])
            emptied(given, tensors)
            torch.cuda.synchronize()
            runtime.cudaProfilerStart()
            one()
            torch.cuda.synchronize()
            runtime.cudaProfilerStop()
            with Path(f"{out}.launched").open("a") as file:
                file.write(f"{given['problem']} {i}\n")


def codes(folder: Path) -> dict[str, bytes]:
    with tarfile.open(folder / "cubins.tar.xz") as archive:
        return {Path(each.name).stem: archive.extractfile(each).read() for each in archive if each.isfile()}  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------------ afterwards


def join(folder: Path, out: Path) -> None:
    """What `time` wrote, or a table of it by configuration, added to the problems of a folder."""
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    by_place = {(given["problem"], i): config for given in every for i, config in enumerate(given["configs"])}
    by_config = {(name, json.dumps(config["config"])): config for (name, _), config in by_place.items()}
    text = gzip.decompress(out.read_bytes()) if out.suffix == ".gz" else out.read_bytes()
    for row in map(json.loads, text.decode().splitlines()):
        if "i" in row:
            config = by_place[row["problem"], row["i"]]
        elif "config" in row:
            config = by_config[row["problem"], json.dumps(row["config"])]
        else:
            continue
        config |= {key: row[key] for key in ("ms", "error", "spread", "ncu") if key in row}
    for place, counters in launches_counted(out):
        by_place[place]["ncu"] = counters
    with gzip.open(folder / "problems.json.gz", "wt") as file:
        json.dump(every, file)


def launches_counted(out: Path) -> Iterator[tuple[tuple[str, int], dict[str, float]]]:
    import csv

    table, order = Path(f"{out}.ncu.csv"), Path(f"{out}.launched")
    if not (table.exists() and order.exists()):
        return
    lines = [line for line in table.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first line is of units
    for which, row in zip(order.read_text().splitlines(), rows, strict=False):
        name, i = which.split()
        yield (name, int(i)), {key: float(row[key].replace(",", "")) for key in METRICS if row.get(key, "").strip()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "time", "join", "launch"):
        each = commands.add_parser(name)
        each.add_argument("folder", type=Path)
        if name == "build":
            each.add_argument("--only", default="")
            each.add_argument("--arch", default="h100")
        elif name == "time":
            each.add_argument("--out", type=Path, required=True)
            each.add_argument("--seconds", type=float, default=90.0)
            each.add_argument("--counters", type=int, default=0)
        else:
            each.add_argument("out", type=Path)
        if name == "launch":
            each.add_argument("count", type=int)
    given = parser.parse_args()
    if given.command == "build":
        build(given.folder, given.only, given.arch)
    elif given.command == "time":
        timing(given.folder, given.out, given.seconds, given.counters)
    elif given.command == "launch":
        launch(given.folder, given.out, given.count)
    else:
        join(given.folder, given.out)


if __name__ == "__main__":
    main()
