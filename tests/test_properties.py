"""Random operators, sizes, types and devices: every hint is legal by the vendors' documents, not by carver's rules.

The limits here are written from the CUDA C++ Programming Guide (technical specifications per compute capability)
and the AMD CDNA and RDNA instruction-set documents. They are independent of arch/ on purpose.
"""

from __future__ import annotations

from math import ceil, prod

from cases import FACES, holds_for_each, offered
from hypothesis import assume, given
from hypothesis import strategies as st

import carver
from carver import Hint
from carver.base.errors import NoCandidates

SMEM_PER_BLOCK = {
    "sm_30": 48 << 10, "sm_35": 48 << 10, "sm_37": 48 << 10, "sm_50": 48 << 10, "sm_52": 48 << 10,
    "sm_60": 48 << 10, "sm_61": 48 << 10,
    "sm_70": 96 << 10, "sm_72": 96 << 10, "sm_75": 64 << 10, "sm_80": 163 << 10, "sm_86": 99 << 10, "sm_87": 163 << 10,
    "sm_89": 99 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "sm_103": 227 << 10, "sm_110": 227 << 10,
    "sm_120": 99 << 10, "sm_121": 99 << 10, "gfx950": 160 << 10,
}  # fmt: skip
"""Shared memory that a block may have, opted in. [bytes] LDS of other AMD devices is 64 KiB a work-group."""
AMD_LDS = 64 << 10
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_THREADS = 1024
REGISTERS_PER_BLOCK = 65536
"""Of 32 bits, on NVIDIA from compute capability 3.0."""
ITEMSIZE = {"float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3": 1, "float8_e5m2": 1,
            "int8": 1, "int32": 4}  # fmt: skip

GPUS = [name for name in carver.arch_names() if carver.load_arch(name).vendor in ("nvidia", "amd")]
DTYPES = ["float64", "float32", "tf32", "float16", "bfloat16", "float8_e4m3", "int8"]

size = st.one_of(
    st.integers(1, 64),
    st.integers(1, 20_000),
    st.integers(0, 14).map(lambda e: 1 << e),
    st.sampled_from([17, 127, 509, 1000, 4093, 8191, 65_537]),
)


@st.composite
def operators(draw: st.DrawFn) -> carver.ops.operator.Template:
    """A face with random sizes, types and options."""
    match draw(st.sampled_from(FACES)):
        case "matmul":
            return carver.MatmulTemplate(
                draw(size), draw(size), draw(size), batch=draw(st.sampled_from([1, 1, 1, 2, 7])),
                trans_A=draw(st.booleans()), trans_B=draw(st.booleans()), in_dtype=draw(st.sampled_from(DTYPES)),
                with_bias=draw(st.booleans()), activation=draw(st.sampled_from(["none", "gelu"])),
            )  # fmt: skip
        case "gemv":
            return carver.GEMVTemplate(
                draw(size), draw(size), trans_A=draw(st.booleans()), in_dtype=draw(st.sampled_from(DTYPES))
            )
        case "elementwise":
            shape = draw(st.lists(size, min_size=1, max_size=3))
            return carver.ElementwiseTemplate(
                shape, draw(st.sampled_from(DTYPES)), inputs=draw(st.integers(1, 3)), broadcast=draw(st.integers(0, 1))
            )
        case _:
            return carver.ReductionTemplate(
                draw(st.sampled_from(["sum", "max", "mean", "softmax", "layer_norm", "rms_norm"])),
                (draw(size), draw(size)), draw(st.sampled_from([0, 1])), draw(st.sampled_from(["float16", "float32"])),
            )  # fmt: skip


def check_legal(hint: Hint, arch: carver.Arch) -> None:
    """Raises AssertionError where the device could not launch the hint."""
    launch, isa = hint.launch, arch.isa
    warp = 32 if arch.vendor == "nvidia" or isa.startswith(("gfx10", "gfx11", "gfx12")) else 64
    assert 1 <= launch.threads <= MAX_THREADS
    assert launch.threads == hint.num_warps * warp or launch.threads % warp
    limit = SMEM_PER_BLOCK[isa] if arch.vendor == "nvidia" else SMEM_PER_BLOCK.get(isa, AMD_LDS)
    assert 0 <= launch.smem_bytes <= limit
    if arch.vendor == "nvidia":
        most = 63 if isa == "sm_30" else 255
        assert 1 <= min(launch.registers, most) * hint.num_warps * warp <= REGISTERS_PER_BLOCK
    assert all(1 <= extent <= most for extent, most in zip(launch.grid, MAX_GRID, strict=True))
    for name, elements in hint.vectorize.items():
        vector = elements * ITEMSIZE[hint.problem.dtypes[name]]
        assert vector <= 16
        assert vector & (vector - 1) == 0
    if hint.use_tc:
        assert any(row.dtype in hint.problem.dtypes.values() or row.dtype == "tf32" for row in arch.matrix)


def test_a_block_has_no_more_registers_than_its_limit_where_an_sm_has_twice_as_many() -> None:
    k80 = carver.load_arch("k80")
    assert k80.regs_per_sm == 2 * REGISTERS_PER_BLOCK
    for hint in carver.ReductionTemplate("softmax", (4096, 4096)).with_arch(k80).recommend_hints(1000, "cuda"):
        check_legal(hint, k80)


def check_covers(hint: Hint) -> None:
    """The blocks' tiles reach every element of the output, and the steps every element of the sum."""
    p = hint.problem
    if p.operator != "matmul":
        return
    tiles = ceil(p.sizes["m"] / hint.block[0]) * ceil(p.sizes["n"] / hint.block[1]) * p.sizes["b"]
    assert prod(hint.launch.grid) == tiles * hint.split_k
    assert hint.details["steps"] * hint.rstep[0] * hint.split_k >= p.sizes["k"]
    assert hint.details["padding"] >= 1


def check_alignment(hint: Hint) -> None:
    """Vector loads start on a multiple of their width in every row."""
    for tensor in hint.problem.statement.inputs:
        if tensor.name in hint.vectorize and len(tensor.index) > 1:
            shape = tensor.shape(hint.problem.sizes)
            if prod(shape[:-1]) > 1:
                assert shape[-1] % hint.vectorize[tensor.name] == 0


@given(operators(), st.sampled_from(GPUS), st.sampled_from(["cuda", "triton"]))
def test_every_hint_is_legal(op: carver.ops.operator.Template, name: str, backend: str) -> None:
    arch = carver.load_arch(name)
    assume(arch.vendor == "nvidia" or backend == "triton")
    assume(offered(op.problem, arch, backend))
    assume(op.problem.compulsory_bytes <= arch.dram_bytes)
    hints = op.with_arch(arch).recommend_hints(10, backend)
    assert len(hints) >= 1
    for hint in hints:
        check_legal(hint, arch)
        check_covers(hint)
        check_alignment(hint)
        assert Hint.from_json(hint.to_json()) == hint
        assert hint.predicted_ms > 0


@given(operators(), st.sampled_from(GPUS))
def test_the_answer_does_not_depend_on_what_was_asked_before(op: carver.ops.operator.Template, name: str) -> None:
    arch = carver.load_arch(name)
    assume(offered(op.problem, arch, "triton"))
    again = carver.ops.operator.Template(carver.problem.problem.Problem.from_dict(op.problem.to_dict()), arch)
    first, second = op.with_arch(arch).recommend_hints(10, "triton"), again.recommend_hints(10, "triton")
    assert [h.to_json() for h in first] == [h.to_json() for h in second]


powers = st.integers(0, 9).map(lambda e: 1 << e)
triton_config = st.fixed_dictionaries(
    {"BLOCK_M": powers, "BLOCK_N": powers, "BLOCK_K": powers, "num_warps": st.integers(1, 40),
     "num_stages": st.integers(1, 9)},
    optional={"GROUP_M": st.integers(1, 16), "SPLIT_K": st.integers(1, 64)},
)  # fmt: skip


@given(st.lists(triton_config, min_size=1, max_size=12), st.tuples(size, size, size), st.sampled_from(GPUS))
def test_given_configurations_are_ranked_or_rejected_and_none_is_lost(
    configs: list[dict[str, int]], sizes: tuple[int, int, int], name: str
) -> None:
    arch = carver.load_arch(name)
    op = carver.MatmulTemplate(*sizes).with_arch(arch)
    try:
        ranking = op.rank(configs, backend="triton")
    except NoCandidates as none:
        assert sum(none.removed.values()) == len(configs)
        return
    assert sorted([*ranking.indices, *ranking.reasons]) == list(range(len(configs)))
    for hint in ranking:
        given = configs[hint.index]
        assert {name: hint.config[name] for name in given} == given
        check_legal(hint, arch)
        check_covers(hint)


@holds_for_each(n for n in carver.arch_names() if carver.load_arch(n).kind == "gpu")
def test_descriptors_agree_with_the_limits_written_here(name: str) -> None:
    arch = carver.load_arch(name)
    if arch.vendor == "nvidia":
        assert arch.smem_per_block_bytes == SMEM_PER_BLOCK[arch.isa]
    elif arch.vendor == "amd":
        assert arch.smem_per_block_bytes == SMEM_PER_BLOCK.get(arch.isa, AMD_LDS)
    assert arch.max_threads_per_block == MAX_THREADS
