"""Front ends of other languages: one kernel of each, compiled by its own compiler for a GPU that is not there, and its
launch held against numbers that were counted by hand.

Of each parameter's width the compiler says what it expects: the sizes in the binary's own table of parameters.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import languages  # noqa: F401  before that of benchmarks/ can be found
import numpy as np
import pytest

import carver
from carver.arch.devices import load
from carver.base.errors import CompileError, ConfigError
from carver.compiled.binary import Binary, Struct, TensorMap
from carver.compiled.execution.facts import facts_of_binary
from carver.compiled.isa import sass
from carver.integrations.kernels import Made, front_end, listed

T = carver.Tensor
H100, A100 = load("h100"), load("a100")
NVCC = pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
CLANG = pytest.mark.skipif(not any(map(shutil.which, ("clang++", "clang++-19"))), reason="no clang")


def language(name: str, package: str) -> Any:
    """The module with a language's kernel; the test is skipped where the language is not installed."""
    pytest.importorskip(package)
    return import_module(f"languages.{name}")


def make(kernel: Any, config: Any, args: Any, grid: Any = None, block: Any = None, arch: Any = H100) -> Binary:
    return Made(kernel, args, grid, block, arch).binary(config)


def parameter_bytes(binary: Binary) -> list[int]:
    """Size of each parameter of a cubin's kernel, from `.nv.info.KERNEL`: attribute 0x17, or 0x45 of newer devices."""
    code = binary.code
    (table,) = struct.unpack_from("<Q", code, 40)
    count, names_at = struct.unpack_from("<HH", code, 60)
    headers = [struct.unpack_from("<IIQQQQII", code, table + 64 * i) for i in range(count)]
    text = headers[names_at][4]
    [(start, size)] = [(h[4], h[5]) for h in headers if sass._text(code, text + h[0]) == f".nv.info.{binary.entry}"]
    found = {}
    for attribute, value in sass._attributes(code[start : start + size]):
        if attribute in (0x17, 0x45):
            _, ordinal, _, packed = struct.unpack("<IHHI", value)
            found[ordinal] = packed >> 18 if attribute == 0x17 else packed & 0xFFFF
    return [found[i] for i in range(len(found))]


def given_bytes(value: Any) -> int:
    match value:
        case TensorMap():
            return 128
        case Struct():
            return len(value.data)
        case np.generic():
            return int(value.dtype.itemsize)
    return 8


def check_parameters(binary: Binary) -> None:
    expected = parameter_bytes(binary)
    assert [given_bytes(value) for value in binary.args[: len(expected)]] == expected
    assert all(value is None for value in binary.args[len(expected) :])  # scratch that this kernel does without


def test_gluon_by_descriptors() -> None:
    module = language("gluon_matmul", "triton")
    a, b, c = T("float16", (2048, 4096)), T("float16", (1024, 4096)), T("float16", (2048, 1024))
    args = lambda config: {  # noqa: E731
        "a": carver.Descriptor(a, (config["BM"], config["BK"])), "c": c, "scale": 0.5, "K": 4096,
        "b": carver.Descriptor(b, (config["BN"], config["BK"])),
    }  # fmt: skip
    config = {"BM": 128, "BN": 64, "BK": 32, "num_warps": 8}
    binary = make(module.matmul, config, args, lambda meta: (2048 // meta["BM"], 1024 // meta["BN"]))
    assert (binary.entry, binary.grid, binary.block) == ("matmul", (16, 16, 1), (256, 1, 1))
    assert 12288 + 8 <= binary.shared_bytes < 12288 + 1024  # (128 + 64) x 32 halves, and a barrier after them
    # rows of 32 halves are 64 bytes, so both tiles are swizzled over 64
    assert binary.args[0] == TensorMap(a, (4096, 2048), (8192,), (32, 128), swizzle=2)
    assert binary.args[5] == TensorMap(b, (4096, 1024), (8192,), (32, 64), swizzle=2)
    assert binary.args[1:5] == (np.int32(2048), np.int32(4096), np.int64(4096), np.int64(1))
    assert binary.args[10:13] == (c, np.float32(0.5), np.int32(4096))
    assert [name for name in binary.names if name] == ["a", "b", "c", "scale", "K"]
    check_parameters(binary)
    [kernel] = sass.kernels(binary.code).values()
    assert kernel.sm == 90


def test_a_gluon_kernel_without_tensor_maps() -> None:
    module = language("gluon_matmul", "triton")
    args = {"a": carver.Descriptor(T("float16", (64, 64)), (64, 64))}
    with pytest.raises(ConfigError, match="needs 'b'"):
        make(module.matmul, {"BM": 64, "BN": 64, "BK": 64, "num_warps": 4}, args, (1, 1))
    with pytest.raises(ConfigError, match="num_warps"):
        make(module.matmul, {}, args, (1, 1), 128)


@pytest.fixture
def tilelang(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("tilelang")
    from tilelang import env

    monkeypatch.setattr(env, "TILELANG_CACHE_DIR", str(tmp_path_factory.mktemp("tilelang")), raising=False)
    return language("tilelang_gemm", "tilelang")


@NVCC
@pytest.mark.parametrize("kind", ["factory", "jit", "autotune"])
def test_tilelang_by_tma(tilelang: Any, kind: str) -> None:
    kernel = {"factory": tilelang.gemm, "jit": tilelang.lazy, "autotune": tilelang.tuned}[kind]
    sizes = {"M": 1024, "N": 768, "K": 512}
    binary = make(kernel, tilelang.LISTED[0], sizes)
    assert binary.grid == (768 // 128, 1024 // 128, 1)
    assert binary.block == (256, 1, 1)  # 128 threads that multiply, and as many for one that copies
    assert binary.shared_bytes == 3 * (128 + 128) * 64 * 2
    a, b = T("float16", (1024, 512)), T("float16", (768, 512))
    # rows of 64 halves are 128 bytes, which are swizzled
    assert binary.args[0] == TensorMap(a, (512, 1024), (1024,), (64, 128), swizzle=3)
    assert binary.args[1] == TensorMap(b, (512, 768), (1024,), (64, 128), swizzle=3)
    assert binary.args[2] == T("float16", (1024, 768))
    assert binary.names == ("A", "B", "C")
    check_parameters(binary)
    if kind == "autotune":
        assert listed(kernel, sizes) == tilelang.LISTED


@NVCC
def test_tilelang_before_tma_and_with_sizes_of_the_call(tilelang: Any) -> None:
    a = T("float32", (640, 1024))
    binary = make(tilelang.doubled, {"block": 512}, {"A": a, "B": a}, arch=A100)
    assert (binary.grid, binary.block, binary.shared_bytes) == ((2, 640, 1), (128, 1, 1), 0)
    assert binary.args == (a, a)
    binary = make(tilelang.open_sizes, {"block": 256}, {"A": T("float32", (96, 1024))}, arch=A100)
    assert binary.grid == (4, 96, 1)
    check_parameters(binary)
    with pytest.raises(ConfigError, match="not known before the launch"):
        make(tilelang.open_sizes, {"block": 256}, {}, arch=A100)
    with pytest.raises(CompileError, match="float21"):
        make(tilelang.gemm, {"block": ("float21", 1, 2), "stages": 0}, {"M": 64, "N": 64, "K": 64})


@pytest.fixture
def numba() -> Any:
    pytest.importorskip("numba_cuda")
    for library in ("libnvvm.so", "libnvJitLink.so"):
        if not any(Path(p).rglob(f"{library}*") for p in import_module("nvidia").__path__):
            pytest.skip(f"no {library}")
    return import_module("languages.numba_transpose")


def test_numba_functions_that_a_kernel_calls_need_no_driver(numba: Any) -> None:
    """Numba compiles these for the device that is there, when it types the call."""
    call = {"x": T("float32", (4096,)), "out": T("float32", (4096,))}
    for arch in (A100, H100):
        binary = make(numba.shaded, {}, call, grid=16, block=256, arch=arch)
        facts = facts_of_binary(binary, arch)
        assert facts.bytes_of("load") == facts.bytes_of("store") == 256 * 4


def test_numba_arrays_and_numbers(numba: Any) -> None:
    module = numba
    a, b = T("float32", (1000, 640)), T("float32", (640, 1000), (1, 640))
    binary = make(
        module.transpose, {"SIDE": 16}, {"a": a, "b": b, "factor": np.float32(2)},
        grid=lambda config: (640 // config["SIDE"], -(-1000 // config["SIDE"])), block=lambda c: (c["SIDE"], c["SIDE"]),
    )  # fmt: skip
    assert (binary.grid, binary.block) == ((40, 63, 1), (16, 16, 1))
    of_a = (None, None, 640_000, 4, a, 1000, 640, 2560, 4)
    of_b = (None, None, 640_000, 4, b, 640, 1000, 4, 2560)
    assert binary.args == (*of_a, *of_b, np.float32(2))
    assert {type(n) for n in binary.args if isinstance(n, np.integer)} == {np.int64}
    assert [binary.names[i] for i in (4, 13, 18)] == ["a", "b", "factor"]
    check_parameters(binary)
    assert sass.kernels(binary.code)[binary.entry].shared_bytes == 16 * 17 * 4


@pytest.fixture
def warp(tmp_path: Path) -> Any:
    pytest.importorskip("warp")
    import warp

    warp.config.quiet = True
    warp.config.kernel_cache_dir = str(tmp_path)
    warp.init()
    return import_module("languages.warp_tiles")


def test_warp_tiles_and_threads(warp: Any) -> None:
    a, out = T("float32", (512, 2048)), T("float32", (512,))
    config = {"WIDTH": 256, "BLOCK": 64}
    binary = make(warp.row_sums, config, (a, out), lambda c: (512, c["BLOCK"]), lambda c: c["BLOCK"])
    assert (binary.grid, binary.block) == ((512, 1, 1), (64, 1, 1))
    bounds, of_a, of_out = binary.args
    # one coordinate of 512, 512 x 64 threads, 64 of which share a coordinate
    assert struct.unpack_from("<I", bounds.data) == (512,)
    assert struct.unpack_from("<QI", bounds.data, 8) == (32768, 64)
    # address, gradient, shape and strides in bytes of up to four axes, rank
    assert struct.unpack("<QQ4i4iHHxxxx", of_a.data) == (0, 0, 512, 2048, 0, 0, 8192, 4, 0, 0, 2, 0)
    assert struct.unpack("<QQ4i4iHHxxxx", of_out.data)[2:] == (512, 0, 0, 0, 4, 0, 0, 0, 1, 0)
    assert (of_a.tensors, of_out.tensors) == ({0: a}, {0: out})
    check_parameters(binary)
    b = T("float32", (512, 2048))
    binary = make(warp.scaled, {}, {"a": a, "b": b, "factor": 3, "by": (1, 2, 4)}, (512, 2048))
    assert (binary.grid, binary.block, binary.shared_bytes) == ((4096, 1, 1), (256, 1, 1), 0)
    assert binary.args[3] == np.float32(3)
    assert binary.names == ("", "a", "b", "factor", "by")
    assert binary.args[4] == Struct(struct.pack("<3f", 1, 2, 4))
    check_parameters(binary)


def test_cute_dsl_by_tma() -> None:
    module = language("cute_copy", "cutlass.cute")
    a, b = T("float16", (4096, 2048)), T("float16", (4096, 2048))
    args = {"a": a, "b": b, "threads": 128}
    binary = make(module.copy, {"rows": 64, "cols": 32}, args)
    assert (binary.grid, binary.block) == ((64, 64, 1), (128, 1, 1))
    assert binary.shared_bytes == 128 + 64 * 32 * 2  # a barrier, and the tile at a multiple of 128 bytes
    assert binary.args == (TensorMap(a, (2048, 4096), (4096,), (32, 64)), b)
    assert binary.names == ("a", "b")
    check_parameters(binary)
    with pytest.raises(CompileError, match="at least sm_90"):
        make(module.copy, {"rows": 64, "cols": 32}, args, arch=A100)


@pytest.mark.parametrize(("arch", "ctas", "cluster"), [("h100", 2, 2), ("h100", 1, 1), ("a100", 2, 1)])
def test_cutile_blocks_and_clusters(arch: str, ctas: int, cluster: int) -> None:
    module = language("cutile_matmul", "cuda.tile")
    if not any((Path(p) / "cu13" / "bin" / "tileiras").is_file() for p in import_module("nvidia").__path__):
        pytest.skip("no tileiras")
    a, b, c = T("float16", (2048, 512)), T("float16", (512, 1024)), T("float32", (2048, 1024))
    config = {"rows": 128, "cols": 64, "depth": 32, "num_ctas": ctas}
    grid = lambda meta: (2048 // meta["rows"], 1024 // meta["cols"])  # noqa: E731
    binary = make(module.matmul, config, {"a": a, "b": b, "c": c, "shift": 1.5}, grid, arch=load(arch))
    assert binary.grid == (16 * cluster, 16, 1)
    of = [(t, *t.shape, *t.strides) for t in (a, b, c)]
    assert binary.args == (*of[0], *of[1], *of[2], np.float32(1.5))
    assert {type(n) for n in binary.args if isinstance(n, np.integer)} == {np.int32}
    assert [name for name in binary.names if name] == ["a", "b", "c", "shift"]
    check_parameters(binary)
    kernel = sass.kernels(binary.code)[binary.entry]
    assert binary.block == kernel.threads
    assert binary.block[0] % 32 == 0 < binary.block[0]


def test_cutile_maps_of_the_driver_have_the_boxes_of_their_tiles() -> None:
    """On Hopper the driver makes a kernel's tensor maps: no argument says what a copy moves."""
    module = language("cutile_matmul", "cuda.tile")
    if not any((Path(p) / "cu13" / "bin" / "tileiras").is_file() for p in import_module("nvidia").__path__):
        pytest.skip("no tileiras")
    rows, cols, depth = 128, 64, 64
    a, b, c = T("float16", (2048, 512)), T("float16", (512, 1024)), T("float32", (2048, 1024))
    config, grid = {"rows": rows, "cols": cols, "depth": depth}, (2048 // rows, 1024 // cols)
    binary = make(module.matmul, config, {"a": a, "b": b, "c": c, "shift": 1.5}, grid, arch=load("h100"))
    facts = facts_of_binary(binary, load("h100"))
    moved = {(each.argument, each.kind): 0.0 for each in facts.accesses}
    for each in facts.accesses:
        assert each.path == "descriptor"
        moved[each.argument, each.kind] += each.program_bytes
    by_hand = {("a", "load"): rows * 512 * 2, ("b", "load"): 512 * cols * 2, ("c", "store"): rows * cols * 4}
    assert moved == pytest.approx(by_hand)


SAXPY = r"""
#ifdef HALVED
#define FACTOR 0.5f
#else
#define FACTOR 1.0f
#endif
__global__ void __launch_bounds__(THREADS) saxpy(float4* y, const float4* __restrict__ x, float a, long n) {
    __shared__ __align__(16) float4 tile[THREADS];
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : make_float4(0, 0, 0, 0);
    __syncthreads();
    float4 v = tile[threadIdx.x ^ 1];
    if (i < n) y[i] = make_float4(fmaf(a, v.x, y[i].x), FACTOR * sqrtf(v.y), min(v.z, 2.0f), v.w);
}
"""


def saxpy(**more: Any) -> carver.Kernel:
    return carver.Kernel(SAXPY, "saxpy", **more)


@pytest.mark.slow
@NVCC
def test_cuda_sources_take_the_configuration_as_macros() -> None:
    y, n = T("float32", (1 << 20,)), np.int64(1 << 18)
    args = {"y": y, "x": y, "a": 2.0, "n": n}
    grid = lambda meta: int(meta["n"]) // meta["THREADS"]  # noqa: E731
    binary = make(saxpy(defines={"HALVED": 1}), {"THREADS": 256}, args, grid, lambda config: config["THREADS"])
    assert (binary.grid, binary.block) == ((1024, 1, 1), (256, 1, 1))
    assert binary.entry == "_Z5saxpyP6float4PKS_fl"  # no extern "C"
    assert binary.args == (y, y, np.float32(2), n)
    check_parameters(binary)
    assert sass.kernels(binary.code)[binary.entry].shared_bytes == 256 * 16
    made = make(lambda c: saxpy(defines={"HALVED": 1, **c}, grid=1024, block=256), {"THREADS": 256}, args)
    assert made == binary
    with pytest.raises(CompileError, match="THREADS"):
        make(saxpy(), {}, args, grid=1, block=32)
    with pytest.raises(CompileError, match="no_such"):
        make(carver.Kernel(SAXPY, "no_such"), {"THREADS": 32}, args, 1, 32)


@CLANG
@pytest.mark.parametrize(("device", "isa"), [("mi210", "gfx90a"), ("mi300x", "gfx942"), ("rx_7900_xtx", "gfx1100")])
def test_hip_sources_need_no_rocm(device: str, isa: str) -> None:
    args = (T("float32", (1 << 20,)),) * 2 + (2.0, np.int64(1 << 18))
    source = "#include <hip/hip_runtime.h>\n" + SAXPY
    binary = make(carver.Kernel(source, "saxpy"), {"THREADS": 128}, args, 2048, 128, load(device))
    text = binary.code.decode()
    assert re.search(rf'\.amdgcn_target "amdgcn-amd-amdhsa--{isa}', text)
    assert binary.entry in text
    assert "Z5saxpy" in binary.entry
    assert re.search(r"\.group_segment_fixed_size: 2048\b", text)
    assert len(re.findall(r"^\s+global_load_(?:dwordx4|b128)", text, re.M)) == 1


TEMPLATE = """
namespace scaling {
template <typename T, int N> __global__ void __launch_bounds__(N) scale(const T* x, T* y, int n) {
    int i = blockIdx.x * N + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
}
"""


@pytest.mark.parametrize("device", [pytest.param("h100", marks=NVCC), pytest.param("mi300x", marks=CLANG)])
def test_what_a_template_makes(device: str) -> None:
    x = T("float32", (4096,))
    kernel = carver.Kernel(TEMPLATE, "scaling::scale<float, BX>")
    args, launch = [x, x, 4096], {"grid": lambda c: 4096 // c["BX"], "block": lambda c: c["BX"], "arch": device}
    assert len(carver.rank_kernel(kernel, {"BX": [64, 256]}, args=args, **launch)) == 2
    with pytest.raises(carver.CarverError, match=r"named as in scaling::scale<float, 256>.$"):
        carver.rank_kernel(replace(kernel, entry="scaling::scale"), {"BX": [64]}, args=args, **launch)
    hidden = f"#define MINE 1\n#if defined(WITH_SCALE) && MINE && N_MAX > 4  // or OTHER\n{TEMPLATE}\n#endif"
    kernel = carver.Kernel(hidden, "scale", defines={"N_MAX": 8})
    with pytest.raises(carver.CarverError, match=r"macros that .* do not give: WITH_SCALE"):
        carver.rank_kernel(kernel, {"BX": [64]}, args=args, **launch)


def test_what_no_language_knows_is_an_error() -> None:
    assert front_end(object()) is None
    with pytest.raises(ConfigError, match="cannot compile"):
        make(lambda SIDE: SIDE, {"SIDE": 3}, {})
    with pytest.raises(CompileError, match="ZeroDivisionError"):
        make(lambda SIDE: 1 // SIDE, {"SIDE": 0}, {})
    with pytest.raises(ConfigError, match="no list"):
        listed(saxpy(), {})
    ready = Binary(b"code", "entry", (None,), grid=7)
    assert make(lambda config: ready, {"SIDE": 1}, {}) is ready


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Binary(b"", "k"), "bytes of a cubin"),
        (lambda: Binary(b"x", ""), "symbol"),
        (lambda: Binary("/no/such.cubin", "k"), "cannot be read"),
        (lambda: Binary(b"x", "k", (3,)), "NumPy"),
        (lambda: Binary(b"x", "k", grid=(0,)), "at least 1"),
        (lambda: Binary(b"x", "k", block=(1, 2, 3, 4)), "one to three"),
        (lambda: TensorMap(T("float16", (4, 8)), (8, 4), (16, 2), (8, 4)), "1 strides_bytes"),
        (lambda: TensorMap(T("float16", (4, 8)), (8, 4), (16,), (8,)), "2 box"),
        (lambda: TensorMap(T("float16", (4, 8)), (8, 4), (16,), (8, 4), swizzle=4), "swizzle"),
        (lambda: TensorMap(3, (8,), (), (8,)), "Tensor"),
        (lambda: Struct(b"1234", {0: T("int8", (1,))}), "offset"),
        (lambda: Struct("text"), "bytes"),
    ],
)
def test_values_say_what_they_take(wrong: Callable[[], Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        wrong()
