"""What is tuned: C, CUDA and Triton kernels, their launches and arguments. CPU only but where marked."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_tune import X, cache, tuner  # noqa: F401 (the fixture)
from tuned import QUICK, SCALE, scale

import carver
from carver.base.errors import CarverError, CompileError, ConfigError, RunError
from carver.base.given import as_json, typed
from carver.base.store import unpack
from carver.run.compile import bundle, c_compiler, compile_source
from carver.run.spec import Param


@pytest.mark.slow
def test_par_compile_keeps_the_order_and_names_the_config() -> None:
    kernels = scale.par_compile([{"n": 100, "factor": f} for f in (5, 3, 4)] + [(100, 1, 0, 7)], num_workers=2)
    assert [k(X)[1] for k in kernels] == [5, 3, 4, 7]
    with pytest.raises(CompileError, match=r"(?s)config 1 of scale, \{'n': 100, 'ways': 9\}.*no such way"):
        scale.par_compile([{"n": 100}, {"n": 100, "ways": 9}])
    assert scale.par_compile([{"n": 100, "ways": 9}, {"n": 100}], ignore_error=True)[0] is None


@pytest.mark.gpu
def test_a_cuda_kernel_by_its_text() -> None:
    source = """
extern "C" __global__ void scale(const float *X, float *Y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) Y[i] = 2.0f * X[i];
}
"""

    @carver.jit(out_idx=[-1])
    def double(n: int, threads: int = 128) -> carver.Kernel:
        return carver.Kernel(
            source, "scale", grid=-(-n // threads), block=(threads, 1), scalars=[n],
            params=[("X", (n,), "float32"), ("Y", (n,), "float32")],
        )  # fmt: skip

    made = carver.AutoTuner.from_kernel(double, [{"threads": t} for t in (32, 256, 2048)], (1 << 20,))
    result = made.run(ref_prog=lambda x: 2 * x, rep=20)
    assert [m.outcome for m in result.table] == ["ok", "ok", "does_not_fit"]


@pytest.mark.gpu
def test_carvers_own_cuda_kernels() -> None:
    op = carver.MatmulTemplate(M=512, N=512, K=512).with_arch("cuda")
    result = carver.AutoTuner.from_template(op, topk=4).run(rep=20)
    assert {m.outcome for m in result.table} == {"ok"}


GEMM = """
void gemm(const float *A, const float *B, float *C) {
    for (int m = 0; m < M; m += BLOCK_M)
        for (int i = m; i < M && i < m + BLOCK_M; i++)
            for (int j = 0; j < N; j++) {
                float sum = 0;
                for (int k = 0; k < K; k++) sum += A[i * K + k] * B[k * N + j];
                C[i * N + j] = sum;
            }
}
"""


@pytest.mark.slow
def test_hints_inputs_and_a_source_file_without_further_ado(tmp_path: Path) -> None:
    """The arrays are those of the hints' problem, so that the output can be made for the caller."""
    (tmp_path / "my_gemm.c").write_text(GEMM)

    @carver.autotune(
        configs=lambda M, N, K: carver.MatmulTemplate(M=M, N=N, K=K, in_dtype="float32").recommend_hints(topk=3),
        warmup=2, rep=5, timeout=60, ref_prog=lambda A, B: A @ B,
    )  # fmt: skip
    @carver.jit(out_idx=[-1], target="cpu")
    def matmul(
        M: int, N: int, K: int, block_M: int = 128, block_N: int = 128, block_K: int = 32, num_stages: int = 3,
        threads: int = 128,
    ) -> carver.Kernel:  # fmt: skip
        return carver.Kernel(
            source=tmp_path / "my_gemm.c", entry="gemm", grid=-(-M // block_M), block=threads, shared_bytes=0,
            defines={"M": M, "N": N, "K": K, "BLOCK_M": block_M},
        )  # fmt: skip

    a, b = (np.random.default_rng(i).random((40, 40), np.float32) for i in (0, 1))
    with carver.set_autotune_inputs(a, b):
        kernel = matmul(40, 40, 40)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    result = matmul.result(40, 40, 40)
    assert [p.name for p in kernel.params] == ["A", "B", "C"]
    assert result.config.keys() <= {"block_M", "block_N", "block_K", "num_stages", "threads"}
    assert all(m.predicted_ms for m in result.table) and result.env["checked"]
    with pytest.raises(RunError, match=r"takes A, B, C \(outputs, which may be left out: C\); got 1 arguments"):
        kernel(a)


@pytest.mark.slow
def test_inputs_of_another_type_than_the_hints_problem(tmp_path: Path) -> None:
    """The output, which is made by what the hints say, would be too small."""
    (tmp_path / "my_gemm.c").write_text(GEMM)

    @carver.jit(out_idx=[-1], target="cpu")
    def matmul(M: int, N: int, K: int, block_M: int = 128) -> carver.Kernel:
        defines = {"M": M, "N": N, "K": K, "BLOCK_M": block_M}
        return carver.Kernel(source=tmp_path / "my_gemm.c", entry="gemm", defines=defines)

    def hints(M: int, N: int, K: int) -> Any:
        return carver.MatmulTemplate(M=M, N=N, K=K).recommend_hints(topk=2)

    a, b, c = (np.random.default_rng(i).random((40, 40), np.float32) for i in (0, 1, 2))
    made = carver.AutoTuner.from_kernel(matmul, hints, (40, 40, 40)).set_profile_args(warmup=1, rep=3)
    with carver.set_autotune_inputs(a, b), pytest.raises(ConfigError, match=r"A is float16\[40, 40\] by the prob"):
        made.run()
    with carver.set_autotune_inputs(a, b, c):
        assert made.run(ref_prog=lambda A, B: A @ B).table[0].ok, "a kernel that is given all may take others"


def test_another_size_of_a_bucket_takes_the_arrays_of_its_own_hints(tmp_path: Path) -> None:
    (tmp_path / "my_gemm.c").write_text(GEMM)

    def hints(n: int) -> Any:
        return carver.MatmulTemplate(M=n, N=n, K=n, in_dtype="float32").recommend_hints(topk=2)

    @carver.autotune(configs=hints, bucket="pow2", **QUICK)
    @carver.jit(out_idx=[-1], target="cpu")
    def matmul(n: int, block_M: int = 128) -> carver.Kernel:
        defines = {"M": n, "N": n, "K": n, "BLOCK_M": block_M}
        return carver.Kernel(source=tmp_path / "my_gemm.c", entry="gemm", defines=defines)

    for n in (40, 50):
        kernel = matmul(n)
        assert repr(kernel) == f"<kernel gemm on cpu: A float32[{n}, {n}], B float32[{n}, {n}], C float32[{n}, {n}]>"
        a, b = (np.random.default_rng(i).random((n, n), np.float32) for i in (0, 1))
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    assert repr(matmul).endswith("1 tuned>")


@pytest.mark.slow
def test_a_kernel_that_takes_other_arrays_than_are_given() -> None:
    @carver.jit(out_idx=[-1])
    def double(n: int, ways: int = 5) -> carver.Kernel:
        return carver.Kernel(SCALE, "scale", defines={"WAYS": ways, "DELAY": 1, "FACTOR": 2}, scalars=[n])

    said = r"(?s)SIGSEGV.*called with arg0 float32\[100\] \(output\); if it takes others, .*Kernel\(params=...\)"
    with carver.set_autotune_inputs(X), pytest.raises(RunError, match=said):
        tuner(double, [{"ways": 5}]).run()


@pytest.mark.parametrize("place", [2, -3])
def test_outputs_are_among_the_arrays(place: int) -> None:
    made = tuner(scale, [{"ways": 1}]).set_compile_args(out_idx=[place])
    with pytest.raises(ConfigError, match=f"out_idx {place} is none of the 2 arrays"):
        made.run()
    with pytest.raises(ConfigError, match=f"out_idx {place} is none of the 2 arrays"):
        made.jit(100)(X)


def test_one_array_given_twice_does_not_stand_for_two() -> None:
    """A call with two arrays of that kind follows the same short path."""
    source = """
void add(const float *A, const float *B, float *C, int n) {
    for (int i = 0; i < n; i++) C[i] = A[i] + B[i];
}
"""

    @carver.autotune(configs=[{"ways": 1}])
    @carver.jit(out_idx=[-1])
    def add(a: Any, b: Any, c: Any, ways: int) -> carver.Kernel:
        return carver.Kernel(source, "add", defines={"WAYS": ways}, scalars=[a.shape[0]])

    one, two = np.ones(8, np.float32), np.full(8, 2, np.float32)
    assert [add(one, b, np.zeros(8, np.float32))[0] for b in (one, two)] == [2.0, 3.0]
    assert add(one, c=np.zeros(8, np.float32), b=two)[0] == add(one, c=np.zeros(8, np.float32), b=two)[0] == 3.0


@pytest.mark.parametrize(("how", "said"), [
    ({"executor": 5}, "executor must be an Executor or None, got 5"),
    ({"parallel": 0}, "parallel must be a whole number of at least 1, got 0"),
    ({"devices": "cpu"}, "devices must be a list of strings or None, got 'cpu'"),
    ({"baseline": {"wayz": 1}}, "baseline of scale has unknown key 'wayz'; did you mean 'ways'"),
    ({"supply_prog": lambda _: None}, "supply_prog returned None; it must return the inputs"),
    ({"manual_check_prog": lambda _: False}, "manual_check_prog returned False"),
])  # fmt: skip
def test_what_a_run_cannot_mean_is_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(CarverError, match=said):
        tuner(scale, [{"ways": 1}, {"ways": 2}]).run(**{**QUICK, **how}, fresh=True)


def test_buckets_are_checked_with_calls() -> None:
    with pytest.raises(ConfigError, match="each a tuple or a dict, got 5"):
        carver.autotune(scale, configs=[{"ways": 1}], bucket="pow2").check_bucket([5])


def test_a_decorator_takes_places_of_outputs() -> None:
    with pytest.raises(ConfigError, match="out_idx must be a list of whole numbers or a whole number or None, got 'Y'"):
        carver.jit(out_idx="Y")(scale.fn)


def test_arrays_are_no_sizes() -> None:
    """As many arrays as the function has arguments without a value."""

    @carver.jit(out_idx=[-1])
    def double(n: Any, ways: int) -> carver.Kernel:
        return carver.Kernel(SCALE, "scale", defines={"WAYS": ways}, scalars=[n])

    with carver.set_autotune_inputs(X), pytest.raises(RunError, match=r"taken for n, of which .* args=\(...\)"):
        carver.AutoTuner.from_kernel(double, [{"ways": 1}]).run(**QUICK)


def test_no_gpu_is_said_before_anything_is_compiled() -> None:
    from carver.run.cuda import device_count

    if device_count():
        pytest.skip("this machine has one")
    with pytest.raises(carver.CarverError, match="no NVIDIA GPU"):
        tuner(lambda n, threads: carver.Kernel("__global__\n", "f", block=threads), [{"threads": 32}]).run()
    with pytest.raises(ConfigError, match="target 'cuda' cannot run a kernel for 'cpu'"):
        tuner(scale, [{"ways": 1}]).set_compile_args(target="cuda").jit(100)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source": 3}, "source must be a path, source text or a Triton function, got 3"),
        ({"source": "x.cu"}, "needs entry="),
        ({"source": "none.c", "entry": "f"}, "is no file; give the path"),
        ({"entry": "f", "grid": 0}, "grid must be one to three whole numbers above 0, got 0"),
        ({"entry": "f", "grid": {"N": 4}}, r"grid of a kernel must be counts, got \{'N': 4\}; macros are given as def"),
        ({"entry": "f", "block": (1, 2, 3, 4)}, r"block must be one to three whole numbers above 0"),
        ({"entry": "f", "scalars": ["n"]}, "scalar 'n' is an expression of symbolic sizes, of which params have none"),
        ({"entry": "f", "scalars": [2**40]}, r"use numpy.int64"),
        ({"entry": "f", "defines": {"N": [1]}}, r"macro N must be a number or text, got \[1\]"),
        ({"entry": "f", "defines": 5}, "defines of a kernel must be a mapping, got 5"),
        ({"entry": "f", "flags": "-O3"}, "flags of a kernel must be a list of strings, got '-O3'"),
        ({"entry": "f", "shared_bytes": "48K"}, "shared_bytes .* must be a whole number or a function, got '48K'"),
        ({"entry": "f", "params": [("X",)]}, r"params are \(name, shape, dtype\) each.*got \('X',\)"),
        ({"entry": "f", "params": [("X", (1.5,), "float32")]}, r"X: a shape is a list of sizes.*got \(1.5,\)"),
        ({"entry": "f", "params": [("X", (-1,), "float32")]}, r"X: a shape is a list of sizes.*got \(-1,\)"),
    ],
)
def test_bad_kernels(options: dict[str, Any], said: str) -> None:
    with pytest.raises(carver.CarverError, match=said):
        carver.Kernel(**{"source": SCALE, **options}).program([Param("X", (1,), "float32")], carver.CPU("auto"))


def test_what_a_device_cannot_launch_does_not_fit() -> None:
    arch, params = carver.load_arch("h200"), [Param("X", (1,), "float32")]
    text = "__global__\n"
    call = carver.Kernel(text, "f", block=(32, 32), shared_bytes=232448).program(params, arch).calls[0]
    assert call.block == (32, 32, 1)
    with pytest.raises(ConfigError, match=r"f asks for 2048 threads a block; NVIDIA H200.* has 1024"):
        carver.Kernel(text, "f", block=(32, 64)).program(params, arch)
    with pytest.raises(ConfigError, match="f asks for 232449 bytes of shared memory"):
        carver.Kernel(text, "f", shared_bytes=232449).program(params, arch)


def test_a_source_travels_with_what_it_includes(tmp_path: Path) -> None:
    home = tmp_path / "kernels"
    (home / "below").mkdir(parents=True)
    (home / "k.c").write_text('#include "below/x.h"\n#include "../above.h"\nint k(void) { return X + ABOVE; }\n')
    (home / "below" / "x.h").write_text('#include "y.h"\n')
    (home / "below" / "y.h").write_text("#define X 40\n")
    (home / "unused.h").write_text("#error not of this kernel\n")
    (tmp_path / "above.h").write_text("#define ABOVE 2\n")
    source = carver.Kernel(home / "k.c", "k", flags=[f"-I{home}"]).compiled_from(carver.CPU("auto"))
    files = bundle(source)
    assert sorted(files) == ["below/x.h", "below/y.h", "k.c"] and next(iter(files)) == "k.c"
    shutil.rmtree(home / "below")
    found = replace(source, path=unpack(files))
    assert ctypes.CDLL(str(compile_source(found, c_compiler()).path)).k() == 42
    for name in ("../k.c", "/k.c", "a/../../k.c", ""):
        with pytest.raises(CarverError, match="no file below the folder"):
            unpack({name: b""})


def test_scalars_as_c_sees_them() -> None:
    source = """
#include <stdint.h>
void f(double *Y, int a, float b, int64_t c, double d, uint8_t e) { Y[0] = a; Y[1] = b; Y[2] = c; Y[3] = d; Y[4] = e;
}
"""
    given = [-3, 0.5, np.int64(2**40), np.float64(1 / 3), np.uint8(200)]
    kernel = carver.jit(out_idx=0)(
        lambda: carver.Kernel(source, "f", scalars=given, params=[("Y", (5,), "float64")])
    )()
    np.testing.assert_array_equal(kernel(), [-3, 0.5, 2**40, 1 / 3, 200])


class FakeTriton:
    """Launches as a Triton function does: `fn[grid](arrays, scalars, constants)`."""

    def run(self) -> None: ...

    def __getitem__(self, grid: Any) -> Any:
        def launch(x: Any, y: Any, n: int, *, BLOCK: int, num_warps: int) -> None:
            assert grid({"BLOCK": BLOCK}) == (-(-n // BLOCK),) and num_warps == 4
            y[:] = 2 * x

        return launch


def test_triton_functions_are_launched_with_their_constants() -> None:
    kernel = carver.Kernel(
        FakeTriton(), grid=lambda meta: (-(-100 // meta["BLOCK"]),), scalars=[100],
        defines={"BLOCK": 32, "num_warps": 4},
    )  # fmt: skip
    assert kernel.is_triton and kernel.kind == "cuda"
    y = np.zeros_like(X)
    kernel.launcher()(X, y)
    np.testing.assert_array_equal(y, 2 * X)


@pytest.mark.slow
def test_a_triton_function_under_its_interpreter(interpreted: Callable[[str, str], None]) -> None:
    """With `triton.Config`s, in a process of its own that knows of the interpreter before it imports Triton."""
    code = (
        "import carver, torch, triton, tuned_triton\n"
        "configs = [triton.Config({'BLOCK': b}, num_warps=w) for b, w in ((64, 2), (1024, 4))]\n"
        "x = torch.rand(3000); y = torch.zeros_like(x)\n"
        "t = carver.AutoTuner.from_kernel(tuned_triton.double, configs, (3000,)).set_compile_args(target='cpu')\n"
        "with carver.set_autotune_inputs(x, y):\n"
        "    r = t.run(ref_prog=lambda x: 2 * x, warmup=1, rep=3, retakes=0)\n"
        "r.kernel(x, y)\n"
        "print([m.outcome for m in r.table], r.config['BLOCK'], torch.equal(y, 2 * x))"
    )
    interpreted(code, "['ok', 'ok'] 1024 True\n")


def test_flags_may_depend_on_tunables() -> None:
    source = "void f(float *Y) {\n Y[0] = EXTRA;\n}\n"

    @carver.jit(out_idx=0)
    def kernel(extra: int = 1) -> carver.Kernel:
        return carver.Kernel(source, "f", params=[("Y", (1,), "float32")], flags=[f"-DEXTRA={extra}"])

    assert [kernel(extra=e)()[0] for e in (3, 4)] == [3, 4]


@pytest.mark.gpu
def test_a_triton_function() -> None:
    torch, tuned_triton = pytest.importorskip("torch"), pytest.importorskip("tuned_triton")
    x = torch.rand(1 << 20, device="cuda")
    y = torch.empty_like(x)
    made = carver.AutoTuner.from_kernel(
        tuned_triton.double, [{"BLOCK": b, "num_warps": w} for b in (256, 1024) for w in (2, 4)], (1 << 20,)
    )
    with carver.set_autotune_inputs(x, y):
        result = made.run(ref_prog=lambda x: 2 * x, rep=20)
    assert {m.outcome for m in result.table} == {"ok"}
    result.kernel(x, y)
    assert torch.equal(y, 2 * x)


def test_launches_travel_as_json_and_reach_the_driver_as_they_are() -> None:
    import json

    from carver.run.render import Scalar

    kernel = carver.Kernel(
        "__global__\n", "f", grid=(4, 2), block=(32, 2), shared_bytes=512, scalars=[7, 0.5, np.int64(9)],
        defines={"FAST": True, "N": 3}, isa="sm_90a",
    )  # fmt: skip
    program = kernel.program([Param(t, (8,), "float16") for t in "XY"], carver.load_arch("h200"))
    assert typed(type(program), json.loads(json.dumps(as_json(program)))) == program
    (call,) = program.calls
    assert (call.grid, call.block, call.dynamic_smem_bytes) == ((4, 2, 1), (32, 2, 1), 512)
    assert dict(program.source.defines) == {"FAST": "1", "N": "3"} and program.source.isa == "sm_90a"
    assert call.args == ("X", "Y", Scalar("i", 7), Scalar("f", 0.5), Scalar("q", 9)) and program.given == ("X", "Y")
