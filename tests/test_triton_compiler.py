"""`templates/common/compilers/triton.toml` against Triton's own compiler: instructions and shared memory of matmuls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import KERNELS

import carver
from carver.compiled.binary import Tensor
from carver.compiled.triton import Target, function_of, specialise
from carver.kernels import expr as rules
from carver.kernels.declaration import decided
from carver.kernels.space import given_space

SIZE = 4096
OPCODES = {rules.WGMMA: "wgmma.mma_async", rules.MMA: "mma.sync", rules.VECTOR: "fma.rn.f32"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("triton")
    patch = pytest.MonkeyPatch()
    patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    import triton_kernels

    yield triton_kernels
    patch.undo()


@pytest.mark.slow
@pytest.mark.parametrize("device", ["t4", "a100_sxm_80", "h200_sxm"])
@pytest.mark.parametrize(("name", "operator"), [("matmul", "matmul"), ("gated", "gated_mlp")])
@pytest.mark.parametrize("tile", [(64, 64, 32, 4, 3), (32, 64, 32, 4, 4)], ids=str)
def test_instruction_and_shared_memory(
    sources: Any, name: str, operator: str, device: str, tile: tuple[int, ...]
) -> None:
    config = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"), tile, strict=True))
    arch = carver.load_arch(device)
    kernel = next(k for k in KERNELS if (k.operator, k.name) == (operator, "triton"))
    template = (carver.MatmulTemplate if name == "matmul" else carver.GatedMLPTemplate)(SIZE, SIZE, SIZE)
    space, why = given_space(template.problem, arch, kernel, [config])
    assert not why
    found = compiled(getattr(sources, name), arch, config)
    kind = int(np.asarray(space["instruction"])[0])
    assert OPCODES[kind] in found.asm["ptx"]
    assert not any(OPCODES[other] in found.asm["ptx"] for other in range(kind + 1, rules.TCGEN05))
    if kind != rules.VECTOR:  # there conversions of its layouts take what is left
        assert space["smem_bytes"][0] == found.metadata.shared


@pytest.mark.parametrize(("name", "operator"), [("matmul", "matmul"), ("gated", "gated_mlp")])
@pytest.mark.parametrize(
    "tile", [(64, 64, 32, 8, 2), (32, 128, 32, 4, 2), (16, 64, 32, 8, 2), (128, 64, 32, 4, 3)], ids=str
)
def test_warps_stand_on_the_tile_and_beyond_it(sources: Any, name: str, operator: str, tile: tuple[int, ...]) -> None:
    """What warps beyond the tile multiply others do too: the code has the instructions of all of them."""
    config = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"), tile, strict=True))
    arch = carver.load_arch("a100_sxm_80")
    kernel = next(k for k in KERNELS if (k.operator, k.name) == (operator, "triton"))
    template = (carver.MatmulTemplate if name == "matmul" else carver.GatedMLPTemplate)(SIZE, SIZE, SIZE)
    space, why = given_space(template.problem, arch, kernel, [config])
    assert not why
    found = compiled(getattr(sources, name), arch, config)
    down, across, copies = (np.ravel(space.get(column, 1))[0] for column in ("warps_m", "warps_n", "product_copies"))
    assert f"warpsPerCTA = [{down}, {across}], instrShape = [16, 8]" in found.asm["ttgir"]
    products = 2 if name == "gated" else 1
    multiplied = found.asm["ptx"].count("mma.sync") * config["num_warps"] * 16 * 8 * 16
    assert multiplied == products * copies * config["BLOCK_M"] * config["BLOCK_N"] * config["BLOCK_K"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "rows", "tile"),
    [(device, rows, tile) for tile in ((32, 128, 64, 8), (64, 32, 64, 4))
     for device, rows in (("mi300x", 0), ("mi300x", 16), ("rx_7900_xtx", 0))],
    ids=str,
)  # fmt: skip
def test_what_warps_repeat_on_amd(sources: Any, device: str, rows: int, tile: tuple[int, ...]) -> None:
    """Eight warps on 32 x 128 multiply all of it each, where the instruction has 32 rows."""
    config = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps"), tile, strict=True))
    config |= {"num_stages": 2, "matrix_instr_nonkdim": rows}
    arch = carver.load_arch(device)
    [kernel] = [k for k in KERNELS if (k.operator, k.name) == ("matmul", "triton")]
    space, why = given_space(carver.MatmulTemplate(SIZE, SIZE, SIZE, trans_B=True).problem, arch, kernel, [config])
    assert not why and space.config(0).get("matrix_instr_nonkdim", 0) == rows
    args = {name: Tensor("float16", (SIZE, SIZE)) for name in "abc"} | dict.fromkeys("MNK", SIZE)
    facts = carver.inspect(
        sources.linear, args=args, config=config, arch=device, grid=(SIZE // tile[0], SIZE // tile[1])
    )
    multiplied = sum(facts.loops[0].span.matrix.values()) * config["num_warps"]
    assert multiplied == 2 * tile[0] * tile[1] * tile[2] * np.ravel(space.get("product_copies", 1))[0]


@pytest.mark.slow
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("tile", [(128, 256, 64, 8, 4), (128, 128, 64, 8, 4)], ids=str)
def test_products_wait_for_each_other_where_ptxas_says_so(sources: Any, tile: tuple[int, ...], static: bool) -> None:
    """A loop that may not run at all, since its bound is an argument, starts from sums that are copied."""
    config = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"), tile, strict=True))
    [kernel] = [k for k in KERNELS if (k.operator, k.name) == ("matmul", "triton")]
    op = carver.MatmulTemplate(SIZE, SIZE, SIZE, trans_B=True, in_dtype="float16", static_shapes=static)
    space, why = given_space(op.problem, carver.load_arch("h200_sxm"), kernel, [config])
    assert not why
    sizes = dict.fromkeys("MNK", SIZE)
    tensors = {name: Tensor("float16", (SIZE, SIZE)) for name in "abc"}
    facts = carver.inspect(
        sources.linear_of_constants if static else sources.linear, args=tensors if static else tensors | sizes,
        config=config, constants=sizes if static else {}, arch="h200", grid=(SIZE // tile[0], SIZE // tile[1]),
    )  # fmt: skip
    [loop] = facts.loops
    waited = loop.span.alone_clk[0] > 1.2 * loop.span.tensor_clk
    assert waited == bool(np.asarray(space["serialized"]).flat[0]) == (tile[1] == 256 and not static)


def compiled(kernel: Any, arch: carver.Arch, config: dict[str, int]) -> Any:
    names = function_of(kernel).arg_names
    tensors = {name: Tensor("float16", (SIZE, SIZE)) for name in names if name in ("a", "b", "b2", "c")}
    return built(kernel, arch, tensors | {n: SIZE for n in names if n in ("M", "N", "K", "lda", "ldb", "ldc")}, config)


def built(kernel: Any, arch: carver.Arch, arguments: dict[str, Any], config: dict[str, int]) -> Any:
    import triton

    from carver.compiled.triton import _source

    target = Target.of(arch)
    given = specialise(kernel, arguments, {}, config, target)
    options = {name: config[name] for name in ("num_warps", "num_stages") if name in config}
    return triton.compile(_source(function_of(kernel), given), target.gpu, options)


def test_triton_declarations_say_nothing_that_the_compiler_decides() -> None:
    """But what a kernel does otherwise than the plain one: both are listed here."""
    own = {k: set(k.schedule) & set(decided("triton", k.model, ())) for k in KERNELS if k.backend.startswith("triton")}
    assert {f"{k.operator}/{k.name}": names for k, names in own.items() if names} == {
        "gated_mlp/triton": {"serialized"}, "matmul/triton_block_fp8": {"products_apart", "serialized"},
        "matmul_softmax/triton": {"serialized"}, "scaled_matmul/triton": {"products_apart", "serialized"},
        "scaled_matmul/triton_mx": {"serialized", "exposed_loads", "smem_bytes", "tmem_columns"},
        "scaled_matmul/triton_weights": {"serialized", "converted_b", "copy_b_bytes", "exposed_loads"},
        "grouped_matmul/triton": {"serialized", "padded_loads"}, "grouped_matmul/triton_walk": {"padded_loads"},
        "grouped_matmul/triton_weights": {"serialized", "padded_loads", "converted_b", "copy_b_bytes", "exposed_loads",
                                          "registers"},
        "attention/triton_decode": {"ahead"},
        "attention/triton_backward": {"exposed_loads", "smem_bytes", "registers"},
        "matmul/triton_tma": {"copy_a_bytes", "copy_b_bytes", "async_copies", "padded_loads", "smem_bytes"},
        "transpose/triton": {"access_elements"}, "window/triton": {"access_elements"},
    }  # fmt: skip


DOTS = [kernel for kernel in KERNELS if kernel.backend == "triton" and "instruction" in kernel.derived]


@pytest.mark.parametrize("kernel", DOTS, ids=repr)
def test_before_compute_capability_8_triton_multiplies_on_the_vector_units(kernel: Any) -> None:
    scope = {"arch": carver.load_arch("t4"), "tcgen05": 0, "wgmma": 0, "mma": 1, "matrix": 1, "a_float8": 0}
    scope |= {"a_bytes": 2, "q_bytes": 2, "tile_m": np.array([64, 128]), "tile_k": 64, "head": 64, "num_warps": 4}
    assert kernel.derived["instruction"](scope).tolist() == [rules.VECTOR] * 2
    a100 = scope | {"arch": carver.load_arch("a100_sxm_80")}
    assert kernel.derived["instruction"](a100).tolist() == [rules.MMA] * 2
    mi300x = scope | {"arch": carver.load_arch("mi300x"), "mma": 0}
    assert kernel.derived["instruction"](mi300x).tolist() == [rules.MMA] * 2


def test_functions_take_columns_and_numbers_alike() -> None:
    """What they give for an array is what they give row by row."""
    kernel = next(k for k in KERNELS if (k.operator, k.name) == ("matmul", "triton"))
    problem = carver.MatmulTemplate(512, 1024, 768, in_dtype="int8").problem
    arch = carver.CUDA("h200")
    configs = [
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": w, "num_stages": s}
        for m in (16, 64, 128) for n in (32, 256) for k in (32, 128) for w in (2, 4, 8) for s in (2, 4)
    ]  # fmt: skip
    space, _ = given_space(problem, arch, kernel, configs)
    for row in range(len(space)):
        scope = {**space.scope, **{name: int(column[row]) for name, column in space.columns.items()}}
        for name in decided("triton", "contraction", ()):
            assert int(kernel.derived[name](scope)) == space[name][row], name


@pytest.mark.parametrize(("cols", "load"), [(1000, "ld.global.b16"), (1024, "ld.global.v4.b32")])
def test_of_a_size_that_16_does_not_divide_elements_are_loaded_one_by_one(sources: Any, cols: int, load: str) -> None:
    """Of an argument the compiler learns no more than that, so a mask may end anywhere."""
    arch = carver.load_arch("h200")
    config = {"BLOCK_ROWS": 4, "BLOCK_COLS": 1024, "num_warps": 4}
    kernel = next(k for k in KERNELS if (k.operator, k.name) == ("reduction", "triton"))
    space, why = given_space(carver.ReductionTemplate("sum", (8192, cols)).problem, arch, kernel, [config])
    assert not why
    ptx = built(sources.row_sums, arch, {"x_at": Tensor("float16", (8192, cols)), "y_at": Tensor("float32", (8192,)),
                                         "rows": 8192, "cols": cols}, config).asm["ptx"]  # fmt: skip
    assert ptx.count(load) == ptx.count("ld.global") > 0
    assert space["access_elements"][0] == (1 if cols % 16 else 8)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype", "group"), [
    ("e4m3", "float8_e4m3", 32), ("e2m1", "float4_e2m1", 32), ("e2m1", "float4_e2m1", 16),
])  # fmt: skip
def test_formats_with_scales_take_what_tcgen05_needs(sources: Any, kind: str, dtype: str, group: int) -> None:
    """What no device here can run is held against the compiler: shared memory to the byte, and what fits."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks" / "kernels"))
    import triton_low_bits

    size = 4096
    op = carver.MatmulTemplate(size, size, size, trans_B=True, in_dtype=dtype, out_dtype="bfloat16",
                               scale_block=(1, group)).with_arch("b200")  # fmt: skip
    stored, scale = ("uint8", size // 2) if kind == "e2m1" else (dtype, size), "uint8" if group == 32 else "float8_e4m3"
    args: dict[str, Any] = {name: Tensor(stored[0], (size, stored[1])) for name in ("a_ptr", "b_ptr")}
    args |= {name: Tensor(scale, (size, size // group)) for name in ("a_scale_ptr", "b_scale_ptr")}
    args |= {"c_ptr": Tensor("bfloat16", (size, size)), "M": size, "N": size, "K": size}
    for m, n, k, warps, stages in ((128, 128, 128, 4, 3), (256, 128, 128, 8, 2), (128, 256, 256, 8, 4)):
        config = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": warps, "num_stages": stages}
        constants = config | {"KIND": kind, "GROUP": group, "GROUP_M": 8}
        made = built(triton_low_bits.block_scaled, carver.load_arch("b200"), args, constants)
        assert "block_scale" in made.asm["ptx"]
        fits = made.metadata.shared <= op.arch.smem_per_block_bytes and made.metadata.tmem_size <= 512
        if not fits:
            with pytest.raises(carver.CarverError):
                op.rank([config])
            continue
        (hint,) = op.rank([config])
        assert hint.kernel == "triton_mx" and hint.launch.smem_bytes == made.metadata.shared
