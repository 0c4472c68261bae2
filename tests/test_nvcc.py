"""What the declarations say of the CUDA kernels, against what nvcc and ptxas say. No GPU."""

from __future__ import annotations

import os
import shutil
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from carver import CUDA, ElementwiseTemplate, GEMVTemplate, MatmulTemplate, ReductionTemplate, kernel
from carver._shipped import folder
from carver.device.compile import compile_source, cuda_compiler
from carver.device.render import CUDA_FLAGS, Source, concrete, scope
from carver.errors import CompileError
from carver.kernel import Kernel
from carver.problem import Problem
from carver.space import given_space

pytestmark = [pytest.mark.nvcc, pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on the PATH")]

DEVICES = {"sm_75": "t4", "sm_80": "a100_sxm_80", "sm_90": "h200", "sm_120": "rtx_5090"}


def mma(bm: int, bn: int, bk: int, wm: int, wn: int, stages: int, split_k: int = 1) -> dict[str, int]:
    return dict(block_m=bm, block_n=bn, block_k=bk, warp_m=wm, warp_n=wn, stages=stages, group_m=8, split_k=split_k)


def simt(bm: int, bn: int, bk: int, tm: int, tn: int, stages: int, split_k: int = 1) -> dict[str, int]:
    return dict(block_m=bm, block_n=bn, block_k=bk, thread_m=tm, thread_n=tn, stages=stages, group_m=8, split_k=split_k)


def wgmma(bm: int, bn: int, bk: int, warps: int, stages: int, split_k: int = 1) -> dict[str, int]:
    return dict(block_m=bm, block_n=bn, block_k=bk, warps=warps, stages=stages, group_m=8, split_k=split_k)


def tile(block_r: int, block_c: int, threads: int, vec: int, **split: int) -> dict[str, int]:
    return dict(block_r=block_r, block_c=block_c, threads=threads, vec=vec, **split)


Config = dict[str, int]

SQUARE = MatmulTemplate(4096, 4096, 4096).problem
BOTH = MatmulTemplate(
    4096, 4096, 4096, trans_A=True, trans_B=True, in_dtype="bfloat16", with_bias=True, activation="gelu"
).problem
INT8 = MatmulTemplate(4096, 4096, 4096, trans_A=True, in_dtype="int8").problem
TF32 = MatmulTemplate(4096, 4096, 4096, trans_A=True, in_dtype="tf32").problem
RAGGED = MatmulTemplate(1000, 4097, 4097, in_dtype="float16", out_dtype="float32").problem
DECODE = MatmulTemplate(16, 8192, 8192, trans_B=True, in_dtype="bfloat16").problem
FP8 = MatmulTemplate(4096, 4096, 4096, trans_B=True, in_dtype="float8_e4m3").problem
WIDE_OUT = MatmulTemplate(4096, 4096, 4096, in_dtype="float16", out_dtype="float32").problem
FP8_ROWS_OF_K = MatmulTemplate(4096, 4096, 4096, in_dtype="float8_e4m3").problem
TF32_ROWS = MatmulTemplate(4096, 4096, 4096, trans_B=True, in_dtype="tf32").problem
INT8_ROWS = MatmulTemplate(4096, 4096, 4096, trans_B=True, in_dtype="int8").problem
FP32 = MatmulTemplate(4096, 4096, 4096, in_dtype="float32").problem
FP64 = MatmulTemplate(2048, 2048, 2048, trans_B=True, in_dtype="float64").problem
GEMV = GEMVTemplate(8192, 8192).problem
GEMV_DOWN = GEMVTemplate(8192, 8192, trans_A=True).problem
COPY = ElementwiseTemplate((4096, 4096)).problem
ADD3 = ElementwiseTemplate((4096, 4096), "float32", inputs=3).problem
SUM = ReductionTemplate("sum", (4096, 8192)).problem
MAX = ReductionTemplate("max", (65536, 1024), axis=0).problem
SOFTMAX = ReductionTemplate("softmax", (4096, 4096)).problem
LAYER_NORM = ReductionTemplate("layer_norm", (4096, 8192)).problem
RMS_NORM = ReductionTemplate("rms_norm", (8192, 4096), axis=0, in_dtype="float32").problem

CASES: list[tuple[str, str, Problem, Config]] = [
    ("mma", "sm_90", SQUARE, mma(128, 256, 64, 64, 64, 3)),
    ("mma", "sm_80", SQUARE, mma(128, 128, 32, 64, 64, 4)),
    ("mma", "sm_120", BOTH, mma(128, 128, 32, 64, 32, 3)),
    ("mma", "sm_80", BOTH, mma(64, 256, 32, 64, 64, 2)),
    ("mma", "sm_80", INT8, mma(128, 128, 64, 64, 64, 3)),
    ("mma", "sm_90", TF32, mma(128, 64, 32, 64, 32, 3)),
    ("mma", "sm_90", RAGGED, mma(64, 64, 64, 32, 32, 4, split_k=3)),
    ("mma", "sm_90", DECODE, mma(16, 128, 128, 16, 32, 4, split_k=4)),
    ("mma", "sm_120", FP8, mma(128, 128, 64, 64, 32, 3)),
    ("mma", "sm_90", FP8_ROWS_OF_K, mma(64, 64, 64, 32, 32, 3)),
    ("wgmma", "sm_90", SQUARE, wgmma(128, 256, 64, 8, 4)),
    ("wgmma", "sm_90", SQUARE, wgmma(256, 64, 32, 8, 6)),
    ("wgmma", "sm_90", BOTH, wgmma(128, 128, 64, 4, 3)),
    ("wgmma", "sm_90", DECODE, wgmma(64, 128, 128, 8, 4, split_k=4)),
    ("wgmma", "sm_90", TF32_ROWS, wgmma(256, 128, 32, 8, 3)),
    ("wgmma", "sm_90", FP8, wgmma(256, 192, 128, 8, 3)),
    ("wgmma", "sm_90", INT8_ROWS, wgmma(64, 64, 128, 4, 2)),
    ("wgmma", "sm_90", WIDE_OUT, wgmma(64, 128, 32, 8, 2)),
    ("simt", "sm_75", FP32, simt(128, 128, 16, 8, 8, 2)),
    ("simt", "sm_90", FP32, simt(64, 64, 16, 4, 4, 1)),
    ("simt", "sm_80", FP64, simt(64, 64, 8, 4, 4, 2)),
    ("simt", "sm_75", SQUARE, simt(128, 64, 16, 8, 4, 2, split_k=2)),
    ("cuda", "sm_90", GEMV, dict(block_n=8, block_k=1024, threads=128, vec=8, split_k=1)),
    ("cuda", "sm_80", GEMV_DOWN, dict(block_n=256, block_k=64, threads=256, vec=8, split_k=4)),
    ("cuda", "sm_90", COPY, dict(block=4096, threads=256, vec=8)),
    ("cuda", "sm_75", ADD3, dict(block=2048, threads=256, vec=4)),
    ("reduce", "sm_90", SUM, tile(4, 2048, 256, 8, split=1)),
    ("reduce", "sm_80", MAX, tile(64, 64, 128, 8, split=8)),
    ("normalise", "sm_90", SOFTMAX, tile(1, 4096, 256, 8)),
    ("normalise", "sm_80", LAYER_NORM, tile(1, 2048, 128, 8)),
    ("normalise", "sm_120", RMS_NORM, tile(32, 64, 256, 4)),
]


@dataclass(frozen=True)
class Compiled:
    label: str
    smem_bytes: int = 0
    registers: int = 0
    predicted_registers: int = 0
    spill_bytes: int = 0
    error: str = ""


def declared(name: str, operator: str) -> Kernel:
    return next(k for k in kernel.kernels(operator, "cuda") if k.name == name)


def compiled_case(case: tuple[str, str, Problem, Config]) -> Compiled:
    name, isa, problem, config = case
    chosen, arch = declared(name, problem.operator), CUDA(DEVICES[isa])
    names = scope(chosen, problem, config, arch)
    label = f"{name} {isa} {problem} {config}"
    # the source stops on a static_assert unless this is exactly what it asks for at launch
    program = concrete(chosen, problem, config, arch, {"SMEM_BYTES": str(names["smem_bytes"])})
    try:
        found = compile_source(program.source, cuda_compiler()).resources[chosen.launches[0].entry]
    except CompileError as e:
        return Compiled(label, error=str(e))
    return Compiled(label, found.static_smem_bytes, found.registers, int(names["registers"]), found.spill_bytes)


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARVER_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def compiled(_own_cache: None) -> list[Compiled]:
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(compiled_case, CASES))


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: f"{CASES[i][0]}-{CASES[i][1]}-{i}")
def test_shared_memory_is_exact_and_nothing_spills(compiled: list[Compiled], case: int) -> None:
    one = compiled[case]
    assert not one.error, f"{one.label}\n{one.error}"
    assert one.smem_bytes == 0, f"{one.label}: the kernels ask for all of their shared memory at launch"
    assert one.spill_bytes == 0, one.label


def test_registers_are_estimated_within_15_percent_on_the_median(compiled: list[Compiled]) -> None:
    errors = {c.label: abs(c.predicted_registers / c.registers - 1) for c in compiled}
    assert statistics.median(errors.values()) <= 0.15, errors
    tensor_core = [e for label, e in errors.items() if label.startswith(("mma", "wgmma"))]
    assert statistics.median(tensor_core) <= 0.10, errors


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: f"{CASES[i][0]}-{CASES[i][1]}-{i}")
def test_the_rules_allow_what_is_compiled_here(case: int) -> None:
    name, isa, problem, config = CASES[case]
    allowed, refused = given_space(problem, CUDA(DEVICES[isa]), declared(name, problem.operator), [config])
    assert not refused
    assert len(allowed) == 1


@pytest.mark.parametrize(
    ("name", "problem", "config", "why"),
    [
        ("mma", SQUARE, mma(128, 128, 16, 64, 64, 3), "block_k is an even number"),
        ("mma", SQUARE, mma(128, 96, 32, 64, 64, 3), "warp tiles divide"),
        ("mma", SQUARE, mma(128, 96, 32, 64, 48, 3), "power of two"),
        ("mma", SQUARE, mma(128, 128, 32, 64, 64, 1), "two stages"),
        ("wgmma", SQUARE, wgmma(128, 128, 64, 4, 1), "one step arrives"),
        ("wgmma", SQUARE, wgmma(128, 128, 48, 4, 3), "block_k is 64 bytes"),
        ("wgmma", SQUARE, wgmma(64, 64, 64, 8, 3), "64, 128, 192 or 256 columns"),
        ("wgmma", SQUARE, wgmma(96, 128, 64, 4, 3), "has 64 rows"),
        ("wgmma", SQUARE, wgmma(128, 128, 64, 6, 3), "one or two groups"),
        ("simt", FP32, simt(128, 128, 16, 8, 8, 3), "one or two buffers"),
        ("simt", FP32, simt(16, 16, 16, 4, 8, 1), "whole warps"),
        ("reduce", SUM, tile(1, 1024, 256, 8, split=1), "every thread has a vector"),
        ("normalise", SOFTMAX, tile(3, 1024, 128, 8), "powers of two"),
    ],
)
def test_what_a_rule_refuses_the_source_refuses(name: str, problem: Problem, config: Config, why: str) -> None:
    arch = CUDA("h200")
    chosen = declared(name, problem.operator)
    _, refused = given_space(problem, arch, chosen, [config])
    assert why in refused[0]
    with pytest.raises(CompileError, match="static assertion failed"):
        compile_source(concrete(chosen, problem, config, arch).source, cuda_compiler())


SOURCES = [p for p in sorted(folder("templates").glob("*/*.cu")) if (p.parent / "op.toml").is_file()]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_source_compiles_alone_without_a_warning(path: Path) -> None:
    isa = next((k.isa for k in kernel.kernels(path.parent.name, "cuda") if k.source == path and k.isa), "sm_80")
    source = Source(path, MappingProxyType({}), (*CUDA_FLAGS, "-Werror=all-warnings"), (), isa)
    entries = compile_source(source, cuda_compiler()).resources
    launches = {
        launch.entry
        for chosen in kernel.kernels(path.parent.name, "cuda")
        if chosen.source == path
        for launch in chosen.launches
    }
    assert launches == entries.keys(), "every entry is launched, and every launch has an entry"
