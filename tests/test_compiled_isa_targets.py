"""Small kernels compiled by Triton for every target, against counts made by hand. Needs Triton, no GPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

triton = pytest.importorskip("triton")
kernels = pytest.importorskip("isa_kernels")

from machine_code import chain_of  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from carver.compiled.isa import amd, rates, sass  # noqa: E402
from carver.compiled.isa.code import Code  # noqa: E402

NVIDIA = {"sm_80": "mma", "sm_86": "mma", "sm_90": "wgmma", "sm_100": "tcgen05", "sm_120": "mma"}
AMD = {"gfx90a": "mfma", "gfx942": "mfma", "gfx950": "mfma", "gfx1100": "wmma", "gfx1201": "wmma"}
LIKE_ANOTHER = ("sm_86", "gfx90a")
"""Whose code is that of sm_80 and of gfx942, as far as these kernels go."""
TARGETS = [pytest.param(t, marks=pytest.mark.exhaustive) if t in LIKE_ANOTHER else t for t in (*NVIDIA, *AMD)]
WAVES = {"gfx9": 64, "gfx1": 32}
WARPS = 4


EVERY = [("vadd", 2), ("exponential", 2), ("one_dot", 2), ("row_maximum", 2), ("matmul", 2), ("matmul", 4)]


@cache
def codes(target: str) -> dict[tuple[str, int], Code]:
    """Every kernel, by its stages. One call of the disassembler reads all of them."""
    asm = [made(name, target, stages) for name, stages in EVERY]
    nvidia = target in NVIDIA
    read = sass.read_many([a["cubin"] for a in asm]) if nvidia else [amd.read(a["amdgcn"]) for a in asm]
    return dict(zip(EVERY, read, strict=True))


def made(name: str, target: str, stages: int) -> dict[str, Any]:
    """What Triton makes of a kernel of `isa_kernels` with the sizes below, 4 warps."""
    kernel = getattr(kernels, name)
    half = {"a": "*fp16", "b": "*fp16", "c": "*fp16" if name == "matmul" else "*fp32"}
    constants = {"B": 1024, "M": 64, "K": 64} | ({"W": 64, "D": 32} if name == "matmul" else {"N": 64})
    if name == "matmul":
        del constants["K"]
    names = list(kernel.arg_names)
    signature = {n: "constexpr" if n in constants else half.get(n, "*fp32" if n in "xyz" else "i32") for n in names}
    given = {(names.index(n),): value for n, value in constants.items() if n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if n not in constants}
    amd = target in AMD
    backend = GPUTarget("hip", target, WAVES[target[:4]]) if amd else GPUTarget("cuda", int(target[3:]), 32)
    found = triton.compile(
        ASTSource(kernel, signature, constexprs=given, attrs=aligned),
        target=backend,
        options={"num_warps": WARPS, "num_stages": stages},
    )
    asm: dict[str, Any] = found.asm
    return asm


def count(code: Code, start: str) -> int:
    return sum(each.opcode.startswith(start) for each in code.instructions)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))


@pytest.mark.parametrize("target", TARGETS)
def test_vector_addition(target: str) -> None:
    code = codes(target)["vadd", 2]
    work = rates.demand(code, code.straight, rates.table(target))
    # 1,024 elements of 4 bytes in each of three arrays, dealt to 4 warps
    assert work.bytes["load global"] == 2 * 1024 * 4 / WARPS
    assert work.bytes["store global"] == 1024 * 4 / WARPS
    assert (work.matrix, work.barriers, work.unknown, code.loops) == ({}, 0, {}, ())
    assert code.resources.spill_bytes == 0 and 0 < code.resources.registers < 64


@pytest.mark.parametrize("target", TARGETS)
def test_exponentials(target: str) -> None:
    code = codes(target)["exponential", 2]
    work = rates.demand(code, code.straight, rates.table(target))
    a_lane = 1024 // (WARPS * code.warp_size)
    assert count(code, "MUFU.EX2" if target in NVIDIA else "v_exp_f32") == a_lane
    # at 16 results a clock
    pipe, rate = ("xu", 16) if target in NVIDIA else ("trans", 16) if target.startswith("gfx1") else ("valu", 16)
    if target == "gfx950":
        rate = 32
    assert work.pipe_clk[pipe] >= a_lane * code.warp_size / rate
    assert work.unknown == {}


@pytest.mark.parametrize("target", TARGETS)
def test_one_product(target: str) -> None:
    code = codes(target)["one_dot", 2]
    work = rates.demand(code, code.straight, rates.table(target))
    kind = f"{NVIDIA.get(target) or AMD[target]} float16 float32"
    flops = 2 * 64 * 64 * 64
    if "tcgen05" in kind:  # one thread issues for the block
        assert (work.matrix, work.block_matrix) == ({}, {kind: flops})
    else:
        assert (work.matrix, work.block_matrix) == ({kind: flops / WARPS}, {})
    assert work.bytes["load global"] == 2 * 64 * 64 * 2 / WARPS
    assert work.bytes["store global"] == 64 * 64 * 4 / WARPS
    assert work.barriers >= 1 and work.unknown == {}


@pytest.mark.parametrize("target", TARGETS)
def test_loop_with_two_loads(target: str) -> None:
    code = codes(target)["row_maximum", 2]
    (loop,) = code.loops
    work = rates.demand(code, loop.own, rates.table(target))
    assert work.bytes["load global"] == 2 * 1024 * 4 / WARPS
    assert "store global" not in work.bytes
    read = chain_of(code, loop, rates.table(target), {})
    assert read.exposed_loads >= 1  # nothing is prefetched: the address comes from the iteration before
    assert read.clk > rates.table(target).latency_clk["global"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("stages", [2, 4])
def test_loop_of_a_matmul(target: str, stages: int) -> None:
    code = codes(target)["matmul", stages]
    (loop,) = code.loops
    work = rates.demand(code, loop.own, rates.table(target))
    kind = f"{NVIDIA.get(target) or AMD[target]} float16 float32"
    flops = 2 * 64 * 64 * 32
    assert work.block_matrix == ({kind: flops} if "tcgen05" in kind else {})
    assert work.matrix == ({} if "tcgen05" in kind else {kind: flops / WARPS})
    assert work.bytes.get("load global", 0) + work.bytes.get("copy global", 0) == 2 * 64 * 32 * 2 / WARPS
    assert work.unknown == {} and work.barriers >= 1
    read = chain_of(code, loop, rates.table(target), {})
    if target in NVIDIA:  # cp.async: the stages less the one at work
        assert read.prefetch_distance == stages - 1
        assert read.exposed_loads == 0
    else:
        assert read.prefetch_distance is None
