"""CUDA sources, a user's and carver's own, compiled for GPUs that are not here and read."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from everyday import disassembles

import carver
from carver.base.errors import CarverError, ConfigError, NoCandidates
from carver.cli.main import main
from carver.integrations.kernels import evaluated
from carver.integrations.source import binary, ordered

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on the PATH"),
    pytest.mark.skipif(not disassembles(), reason="no nvdisasm: it comes with Triton, or the CUDA toolkit"),
]

AXPY = """extern "C" __global__ void axpy(const float* x, float* y, int n) {
  __shared__ float turned[256];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    turned[threadIdx.x] = x[i];
    __syncthreads();
    y[i] += ALPHA * turned[255 - threadIdx.x];
    __syncthreads();
  }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["a100", "h100", "rtx 5090"])
def test_a_source_of_the_users_is_inspected(arch: str, tmp_path: Path) -> None:
    """A pass loads two words a thread and stores one, and turns one over in shared memory between two barriers."""
    [facts] = carver.inspect(carver.Kernel(AXPY, "axpy", block=256, defines={"ALPHA": "2.0f"}), arch=arch)
    [loop] = facts.machine.loops
    assert (facts.shared_bytes, loop.span.barriers) == (1024, 2)
    assert loop.span.bytes == {"load global": 256, "store global": 128, "load shared": 128, "store shared": 128}
    assert facts.resident == carver.load_arch(arch).max_threads_per_sm // 256
    source = tmp_path / "axpy.cu"
    source.write_text(AXPY)
    said = CliRunner().invoke(main, ["inspect", f"{source}:axpy", "--config", "ALPHA=2.0f", "--arch", arch])
    assert said.exit_code == 0 and said.output.startswith("axpy: 1,024 bytes of shared memory"), said.output


@pytest.mark.slow
def test_words_of_the_launch_alone_are_no_macros_and_the_port_without_shared_memory_is_l1() -> None:
    source = """#include <cooperative_groups.h>
extern "C" __global__ void turned(const float* x, float* y) { y[32 * threadIdx.x] = x[32 * threadIdx.x] + ALPHA; }
"""
    x = carver.Tensor("float32", (1 << 15,))
    found = carver.rank_kernel(
        carver.Kernel(source, "turned"), {"size": [256, 512], "ALPHA": [1]}, args=[x, x], arch="h100",
        grid=1, block=lambda c: c["size"],
    )  # fmt: skip
    assert len(found) == 2 and "L1" in found[0].loop_ms and "shared memory" not in found[0].loop_ms


ROWS = """extern "C" __global__ void rows(const float* x, const int* at, float* y) {
  int own = blockIdx.x * 256 + threadIdx.x;
  y[own] = x[at[blockIdx.x] * 256 + threadIdx.x];
}
"""


@pytest.mark.slow
def test_rows_by_a_table_that_is_not_given_are_said_until_it_is() -> None:
    """What is kept of the launch without the table is not taken for the one with it."""
    n = 1 << 14
    x, at = carver.Tensor("float32", (n, 256)), carver.Tensor("int32", (n,))
    ask = partial(carver.rank_kernel, carver.Kernel(ROWS, "rows"), [{}], args={"x": x, "at": at, "y": x}, grid=n,
                  block=256, arch="h100")  # fmt: skip
    untold, told, one = ask(), ask(values={"at": np.arange(n)[::-1]}), ask(values={"at": 7})
    assert untold.notes[0].startswith("values of at are not given") and not told.notes
    assert untold[0].details["compulsory_bytes"] == told[0].details["compulsory_bytes"] == n * (2048 + 4)
    assert one[0].details["compulsory_bytes"] < n * 1100
    in_order = ask(args=[x, at, x], values={"at": 7})  # by the names of the source
    assert in_order[0].details["compulsory_bytes"] == one[0].details["compulsory_bytes"]
    with pytest.raises(ConfigError, match="tensors among the arguments, got 'ta'"):
        ask(values={"ta": 7})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "entry", "says"),
    [
        ("template<int BM> __global__ void f(float* y) { y[threadIdx.x] = BM; }", "f<BM>",
         "parameters of a template have the names of macros, .*: rename BM in one of the two"),
        ("__global__ void f(float* y) {\n#if OTHER\n y[threadIdx.x] = BM;\n#endif\n}", "f",
         "f has no load and no store that a thread reaches: is a size 0, or does an #if leave out"),
        ("""#include <cooperative_groups.h>
         __global__ void f(float* y) {
           for (int k = 0; k < BM; k++) { y[threadIdx.x] += k; cooperative_groups::this_grid().sync(); }
         }""", "f", r"waits for other blocks, as grid.sync\(\) of cooperative groups does, and is not followed"),
    ],
)  # fmt: skip
def test_what_a_source_cannot_be_ranked_for_is_named(source: str, entry: str, says: str) -> None:
    args = [carver.Tensor("float32", (256,))]
    with pytest.raises(CarverError, match=says):
        carver.rank_kernel(carver.Kernel(source, entry), [{"BM": 64}], args=args, grid=264, block=256, arch="h100")


@pytest.mark.slow
def test_a_grid_that_follows_the_configuration_is_given_to_rank_kernel() -> None:
    x, configs = carver.Tensor("float32", (1 << 20,)), [{"ALPHA": 1}, {"ALPHA": 2}]
    kernel = carver.Kernel(AXPY, "axpy", block=256, grid=lambda config: 8)
    with pytest.raises(ConfigError, match="got a function: one of the configuration is the grid= of rank_kernel"):
        carver.rank_kernel(kernel, configs, args=[x, x, 1 << 20], arch="h100")
    given = carver.Kernel(AXPY, "axpy", block=256)
    grid = lambda config: 8 * config["ALPHA"]  # noqa: E731
    assert len(carver.rank_kernel(given, configs, args=[x, x, 1 << 20], arch="h100", grid=grid)) == 2


TURNED = """extern "C" __global__ void turned(const float* x, float* y) {
  extern __shared__ float row[];
  for (int i = threadIdx.x; i < ROW; i += 128) row[i] = x[blockIdx.x * ROW + i];
  __syncthreads();
  for (int i = threadIdx.x; i < ROW; i += 128) y[blockIdx.x * ROW + i] = row[ROW - 1 - i];
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["a100", "h100"])
def test_shared_memory_of_the_launch_follows_the_tile_and_is_not_exceeded(arch: str, tmp_path: Path) -> None:
    """A row of floats lies in what the launch adds, to its last byte, wherever on a device a block's own begins."""
    n, rows = 1 << 20, {"ROW": [1024, 4096]}
    x = carver.Tensor("float32", (n,))
    how = {"configs": rows, "args": {"x": x, "y": x}, "grid": lambda c: n // c["ROW"], "block": 128, "arch": arch}
    ranking = carver.rank_kernel(carver.Kernel(TURNED, "turned", shared_bytes=lambda c: 4 * c["ROW"]), **how)
    assert {hint.launch.smem_bytes for hint in ranking} == {4096, 16384}
    ranking = carver.rank_kernel(carver.Kernel(TURNED, "turned", shared_bytes=4096), **how)
    assert [hint.config["ROW"] for hint in ranking] == [1024]
    assert ranking.reasons[1].startswith("it reaches byte 16,384 of shared memory, of which a block has 4,096: say by")
    (tmp_path / "turned.cu").write_text(TURNED)
    (tmp_path / "turned.toml").write_text(f"""grid = ["{n} // ROW"]
        block = 128
        shared_bytes = "4 * ROW"
        args = {{x = {{dtype = "float32", shape = [{n}]}}, y = {{dtype = "float32", shape = [{n}]}}}}
        [configs]
        ROW = [1024, 4096]""")
    asked = ["rank", "kernel", f"{tmp_path / 'turned.cu'}:turned", "--args", f"{tmp_path / 'turned.toml'}"]
    said = CliRunner().invoke(main, [*asked, "--arch", arch])
    assert said.exit_code == 0 and "2 of 2 configurations" in said.output, said.output


@pytest.mark.slow
def test_macros_may_have_names_of_the_headers_that_nvcc_includes_itself() -> None:
    """`depth` and `n` are members and parameters there; a tuner's sources have such names after these headers."""
    source = AXPY.replace("ALPHA", "depth").replace("int n)", "int count)").replace("i < n", "i < n * count")
    [facts] = carver.inspect(carver.Kernel(source, "axpy", block=256, defines={"depth": "2.0f", "n": 2}), arch="h100")
    assert facts.shared_bytes == 1024


@pytest.mark.slow
def test_a_struct_is_a_tuple_of_its_fields() -> None:
    """An element is read and written through pointers in a struct, which is one parameter; nested ones are aligned."""
    source = """struct Way { short odd; double by; };
    struct Task { const float *x; char first; struct Way way; float *y; int n; };
    __global__ void scale(Task task) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < task.n) task.y[i] = task.x[i] * (float)task.way.by;
    }"""
    n = 1 << 22
    x = carver.Tensor("float32", (n,))
    fields = (x, np.int8(1), (np.int16(3), np.float64(2)), x, n)
    assert carver.Struct.of(*fields).tensors.keys() == {0, 32}
    ask = partial(carver.rank_kernel, carver.Kernel(source, "scale"), [{}], arch="h100", grid=n // 256, block=256)
    [hint] = ask(args=[fields])
    assert hint.details["compulsory_bytes"] == 8 * n
    with pytest.raises(NoCandidates, match=r"of \[48\] bytes; 5 arguments were given, where a struct"):
        ask(args=fields)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "written"), [(2**40, 64), (-1, 0), (np.int64(32), 32)])
def test_a_whole_number_has_the_bits_that_it_needs(n: int, written: int) -> None:
    """A Python int for a parameter of 64 bits; negative ones stay negative."""
    source = "__global__ void f(float *x, long long n) { x[threadIdx.x < n ? threadIdx.x : 64] = 1; }"
    [facts] = evaluated([binary(carver.Kernel(source, "f"), {}, args=[carver.Tensor("float32", (128,)), n], grid=1,
                                block=64, arch=carver.load_arch("h100"))], carver.load_arch("h100"))  # fmt: skip
    assert facts.written_bytes == pytest.approx(4 * max(written, 1), abs=32 * (written < 64))
    with pytest.raises(ConfigError, match="at most 64 bits"):
        carver.Struct.of(2**64)


@pytest.mark.slow
def test_a_slot_waits_for_the_slowest_warp_of_its_block() -> None:
    """On an H200 a copy of 2^26 floats by blocks of 256, 512 and 1,024 threads takes 0.204, 0.221 and 0.244 ms."""
    copy = """__global__ void f(const float *x, float *y) {
      int i = blockIdx.x * SIZE + threadIdx.x;
      y[i] = 2 * x[i];
    }"""
    x = carver.Tensor("float32", (1 << 26,))
    sizes, grid = {"SIZE": [256, 512, 1024]}, lambda c: (1 << 26) // c["SIZE"]
    block = lambda c: c["SIZE"]  # noqa: E731
    found = carver.rank_kernel(carver.Kernel(copy, "f"), sizes, args=[x, x], arch="h200", grid=grid, block=block)
    assert [hint.config["SIZE"] for hint in found] == [256, 512, 1024]
    assert found[2].predicted_ms == pytest.approx(1.196 * found[0].predicted_ms, rel=0.1)


@pytest.mark.slow
def test_a_loop_that_waits_for_each_load_hides_less_of_what_dram_takes() -> None:
    """On an H200 a copy of 2^26 floats by one wave of threads, each with one load under way, takes 0.177 ms, where
    blocks with four times the bytes under way take 0.129."""
    copy = """__global__ void f(const float *x, float *y, int n) {
      for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) y[i] = 2 * x[i];
    }"""
    n = 1 << 26
    x = carver.Tensor("float32", (n,))
    [hint] = carver.rank_kernel(carver.Kernel(copy, "f"), [{}], args=[x, x, n], arch="h200", grid=132 * 8, block=256)
    assert hint.predicted_ms == pytest.approx(0.177, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["rtx 3080", "h100"])
def test_what_an_unrolled_loop_leaves_over_reads_what_it_has_read(arch: str) -> None:
    """Of seven taps the compiler reads four in one pass and three one by one."""
    source = """extern "C" __global__ void taps(const float* x, const float* m, float* y, int taps, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, first = i - taps / 2;
  float sum = 0;
  for (int j = 0; j < taps; ++j)
    if (first + j >= 0 && first + j < n) sum += x[first + j] * m[j];
  if (i < n) y[i] = sum;
}
"""
    n = 1 << 26
    x, m = carver.Tensor("float32", (n,)), carver.Tensor("float32", (7,))
    args = {"x": x, "m": m, "y": x, "taps": 7, "n": n}
    kernel = carver.Kernel(source, "taps", block=1024, grid=n // 1024)
    hint = carver.rank_kernel(kernel, [{}], args=args, arch=arch)[0]
    assert hint.details["dram_bytes"] == pytest.approx(8 * n, rel=0.01)


@pytest.mark.slow
def test_no_block_of_more_threads_than_a_block_may_have_is_resident() -> None:
    [facts] = carver.inspect(carver.Kernel(AXPY, "axpy", block=2048, defines={"ALPHA": "2.0f"}), arch="a100")
    assert facts.resident == 0


@pytest.mark.slow
def test_a_hint_is_inspected() -> None:
    op = carver.MatmulTemplate(1024, 1024, 1024).with_arch("h100")
    hint = op.recommend_hints(1, "cuda")[0]
    facts = carver.inspect(hint, arch="h100")
    spans = (span for each in facts for span in (each.machine.straight, *(loop.span for loop in each.machine.loops)))
    assert any(span.matrix for span in spans)
    with pytest.raises(ConfigError, match="args="):
        carver.inspect(hint, arch="h100", args={"a": 1})
    with pytest.raises(ConfigError, match="NVIDIA's GPUs alone, not AMD"):
        carver.inspect(hint, arch="mi300x")
    with pytest.raises(ConfigError, match="triton is a triton kernel; inspect takes CUDA sources"):
        carver.inspect(op.recommend_hints(1, "triton")[0], arch="h100")


@pytest.mark.parametrize(("head", "entry", "order"), [
    ("void f(const float* __restrict__ x, float *y, int n)", "f", "xyn"),
    ("void __launch_bounds__(256) f(int n, const float x[],\n float* const y)", "f", "nxy"),
    ("template <typename T, int B> __global__ void f(T* y, T* x, unsigned int n)", "f<float, 4>", "yxn"),
    ("void f(__half*y, const uint4*__restrict__ x, long long n)", "f", "yxn"),
    ("void f(float* a, float* b, int m)", "f", "nyx"),
    ("void g(float* y, float* x, int n)", "f", "nyx"),
])  # fmt: skip
def test_arguments_by_name_are_those_of_the_source(head: str, entry: str, order: str) -> None:
    given = {"n": 4, "y": 1, "x": 2}
    assert "".join(ordered(given, f"__global__ {head} {{ f(y, x, n); }}", entry)) == order


def test_one_name_of_several_that_is_no_parameter_is_an_error() -> None:
    source = "__global__ void f(float* out, const float* table, int rows) { }"
    with pytest.raises(ConfigError, match="f has no parameter 'row'; did you mean 'rows'"):
        ordered({"table": 1, "out": 2, "row": 3}, source, "f")


@pytest.mark.slow
def test_a_block_that_is_alone_on_its_sm_has_all_of_l1(tmp_path: Path) -> None:
    """Rows of 32 KiB, one a thread, of 16 blocks: 2.24 ms on an RTX 3060 Ti (nvbench, `published_times.csv`)."""
    path = tmp_path / "gemv.cu"
    path.write_text("""extern "C" __global__ void gemv(unsigned* out, const unsigned* a, const unsigned* x, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) sum += a[row * n + i] * x[i];
  out[row] = sum;
}
""")
    n = 8192
    tensors = [carver.Tensor("uint32", shape) for shape in ((n,), (n, n), (n,))]
    ranking = carver.rank_kernel(
        carver.Kernel(path, "gemv"), [{}], arch="rtx_3060_ti", args=[*tensors, n], grid=16, block=512
    )
    assert ranking[0].predicted_ms < 1.5 * 2.24
