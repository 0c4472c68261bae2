"""Hints to programs: macros, launches and their arguments; every declaration against its source."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
from cases import KERNELS, used

from carver.arch import devices as arch
from carver.arch.descriptor import Arch
from carver.base.errors import CompileError, ConfigError, KernelError, NoCandidates
from carver.base.folders import folder
from carver.base.given import as_json, typed
from carver.kernels import declaration as kernel
from carver.kernels.declaration import Kernel
from carver.kernels.enumeration import enumerate_space
from carver.kernels.expr import static_scope
from carver.ops.elementwise import ElementwiseTemplate
from carver.ops.matmul import GEMVTemplate, MatmulTemplate
from carver.ops.reduction import ReductionTemplate
from carver.problem.problem import Problem
from carver.run import compile as compiling
from carver.run.compile import c_compiler, compile_source, cuda_compiler
from carver.run.render import CPU_FLAGS, Call, Program, Source, TensorMap, TensorSpec, concrete, render

H200, CPU = arch.load("h200"), arch.load("cpu_avx512")

DECLARATIONS = [k for k in KERNELS if k.source is not None]

PROBLEMS = {
    "matmul": [
        MatmulTemplate(512, 768, 256).problem,
        MatmulTemplate(17, 31, 1000, batch=3, trans_A=True, with_bias=True, activation="gelu").problem,
        MatmulTemplate(1, 4099, 77, trans_B=True, in_dtype="float32").problem,
    ],
    "gemv": [GEMVTemplate(4096, 1000).problem, GEMVTemplate(17, 31, batch=2, trans_A=True, in_dtype="float32").problem],
    "elementwise": [
        ElementwiseTemplate((1000, 77), inputs=2).problem,
        ElementwiseTemplate((64, 4096), dtype="float32", inputs=1, broadcast=1).problem,
    ],
    "reduction": [
        ReductionTemplate("sum", (1, 100_003), axis=1).problem,
        ReductionTemplate("max", (5000, 33), axis=0, in_dtype="float32").problem,
        ReductionTemplate("softmax", (77, 1000), axis=1).problem,
        ReductionTemplate("softmax", (3000, 77), axis=1).problem,
        ReductionTemplate("layer_norm", (300, 40), axis=0, in_dtype="float32").problem,
        ReductionTemplate("rms_norm", (8, 8192), axis=1, in_dtype="bfloat16").problem,
    ],
}


def device_for(declared: Kernel) -> Arch:
    return H200 if declared.backend == "cuda" else CPU


def samples(declared: Kernel, count: int = 5) -> list[tuple[Problem, dict[str, int], Program]]:
    """Configurations spread evenly over the candidates of each problem that the kernel can run."""
    out = []
    for problem in PROBLEMS[declared.operator]:
        scope = static_scope(problem, device_for(declared))
        if declared.unmet(scope):
            continue
        try:
            space = enumerate_space(problem, device_for(declared), declared)
        except NoCandidates:
            continue
        for i in range(count):
            config = space.config(i * (len(space) - 1) // (count - 1))
            out.append((problem, config, concrete(declared, problem, config, device_for(declared))))
    return out


def included(path: Path) -> str:
    """A source with the headers of templates/ that it includes, each once."""
    seen: dict[Path, str] = {}

    def visit(file: Path) -> None:
        if file not in seen:
            seen[file] = file.read_text()
            for name in re.findall(r'#\s*include "([^"]+)"', seen[file]):
                found = [p for p in (folder("templates") / name, file.parent / name) if p.is_file()]
                assert found, f"{file} includes {name}, which is not there"
                visit(found[0])

    visit(path)
    return "\n".join(seen.values())


@pytest.mark.parametrize("declared", DECLARATIONS, ids=repr)
def test_launches_are_consistent(declared: Kernel) -> None:
    device = device_for(declared)
    programs = samples(declared)
    assert programs, "no problem of this test suits the kernel"
    for problem, config, program in programs:
        pointers = {t.name for t in program.tensors} | {"workspace"}
        written = program.calls[-1].args
        assert program.output.name in written, "the last launch does not see the output"
        for call in program.calls:
            assert all(n >= 1 for n in call.grid) and prod(call.grid) < 2**31
            assert 1 <= call.block <= device.max_threads_per_block
            assert call.block % device.warp_size == 0
            assert 0 <= call.dynamic_smem_bytes <= device.smem_per_block_bytes
            assert {a for a in call.args if isinstance(a, str)} <= pointers
            uses_workspace = program.workspace_bytes > 0 or "workspace" in call.args
            assert uses_workspace or program.workspace_bytes == 0
        assert set(config) == {t.lower() for t in program.source.defines} & set(config)
        used = {a for call in program.calls for a in call.args if isinstance(a, str)}
        used |= {each.base for call in program.calls for each in call.maps}
        assert {t.name for t in program.inputs} <= used, f"{problem}: an input reaches no launch"


@pytest.mark.parametrize("declared", DECLARATIONS, ids=repr)
def test_source_has_every_entry_and_a_default_for_every_macro_of_a_tunable(declared: Kernel) -> None:
    assert declared.source is not None
    text = included(declared.source)
    for launch in declared.launches:
        assert re.search(rf"\b{launch.entry}\s*\(", text), f"no {launch.entry} in {declared.source.name}"
    for tunable in declared.tunables:
        name = tunable.upper()
        assert re.search(rf"#\s*ifndef {name}\b", text), f"{declared.source.name} has no default for {name}"
        assert len(re.findall(rf"\b{name}\b", text)) > 2, f"{declared.source.name} does not use {name}"


@pytest.mark.parametrize("declared", DECLARATIONS, ids=repr)
def test_number_of_arguments_is_the_number_of_parameters(declared: Kernel) -> None:
    assert declared.source is not None
    text = included(declared.source)
    for _, _, program in samples(declared, 2):
        for call in program.calls:
            found = re.search(rf"\b{call.entry}\s*\(([^)]*)\)", text, re.DOTALL)
            assert found is not None
            if "EACH(" in found[1] or "..." in found[1]:
                continue  # as many parameters as inputs, by the preprocessor
            assert len(found[1].split(",")) == len(call.maps) + len(call.args), f"{call.entry}: {call.args}"


@pytest.mark.parametrize("declared", [k for k in DECLARATIONS if k.backend == "cpu"], ids=repr)
def test_c_sources_compile_alone_without_warnings(declared: Kernel, tmp_path: Path) -> None:
    command = [str(c_compiler().path), *CPU_FLAGS, "-Wall", "-Wextra", "-Werror", f"-I{folder('templates')}"]
    done = subprocess.run(
        [*command, str(declared.source), "-o", str(tmp_path / "out.so"), "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_program_by_hand() -> None:
    problem = MatmulTemplate(
        1000, 500, 300, in_dtype="float16", out_dtype="float32", trans_B=True, with_bias=True
    ).problem
    (declared,) = (k for k in DECLARATIONS if (k.operator, k.name) == ("matmul", "cpu"))
    config = {"mc": 96, "kc": 128, "nc": 64, "mr": 6, "nr": 32}
    device = CPU.replace(sm_count=4)
    program = concrete(declared, problem, config, device, {"EXTRA": "7"})
    core_bytes = 26 * 4096  # a block of A, one of B, and C between steps: 4 * (96 * 128 + 64 * 128 + 96 * 64)
    assert program.calls == (
        Call(
            "carver_matmul", (11 * 8, 1, 1), 1, 0,
            ("A", "B", "bias", "C", "workspace", core_bytes, 1000, 500, 300, 1, 300, 300, 500, 4),
        ),
    )  # fmt: skip
    assert program.workspace_bytes == 4 * core_bytes
    assert program.inputs == (
        TensorSpec("A", (1, 1000, 300), "float16", 8),
        TensorSpec("B", (1, 500, 300), "float16", 8),
        TensorSpec("bias", (500,), "float32", 4),
    )
    assert program.output == TensorSpec("C", (1, 1000, 500), "float32", 16)
    assert program.source.isa == "native" and program.source.entries == ("carver_matmul",)
    assert dict(program.source.defines) == {
        "MC": "96", "KC": "128", "NC": "64", "MR": "6", "NR": "32", "A_DTYPE": "3", "B_DTYPE": "3", "C_DTYPE": "1",
        "BIAS_DTYPE": "1", "ACC_DTYPE": "1", "TRANS_A": "0", "TRANS_B": "1", "EPILOGUE_BIAS": "1",
        "EPILOGUE_ACTIVATION": "0", "EXTRA": "7",
    }  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
def test_transposition_may_be_spelt_or_flagged(transposed: bool) -> None:
    """A[b,k,m] is in storage order; A[b,m,k] with trans_a=1 is stored exchanged; both are one program."""
    sizes, types = {"b": 1, "m": 20, "n": 30, "k": 40}, dict.fromkeys("ABC", "float32")
    (declared,) = kernel.kernels("matmul", "cpu")
    config = {"mc": 24, "kc": 64, "nc": 32, "mr": 6, "nr": 16}
    index = "k,m" if transposed else "m,k"
    spelt = Problem("matmul", f"C[b,m,n] += A[b,{index}] * B[b,k,n]", sizes, types, options={"trans_a": transposed})
    flagged = Problem("matmul", "C[b,m,n] += A[b,m,k] * B[b,k,n]", sizes, types, options={"trans_a": transposed})
    a, b = (concrete(declared, p, config, arch.load("cpu_avx2")) for p in (spelt, flagged))
    assert a == b
    assert a.inputs[0].shape == ((1, 40, 20) if transposed else (1, 20, 40))
    lda = a.calls[0].args[10]
    assert lda == (20 if transposed else 40)


@pytest.mark.parametrize(
    ("problem", "a", "b"),
    [
        (  # rows along k
            MatmulTemplate(1000, 520, 304, batch=3, trans_B=True).problem,
            TensorMap("A", 0, "float16", (304, 1000, 3), 608, (64, 128, 1)),
            TensorMap("B", 0, "float16", (304, 520, 3), 608, (64, 64, 1)),
        ),
        (  # rows along m and along n
            MatmulTemplate(1000, 520, 304, trans_A=True).problem,
            TensorMap("A", 0, "float16", (1000, 304, 1), 2000, (64, 64, 1)),
            TensorMap("B", 0, "float16", (520, 304, 1), 1040, (64, 32, 1)),
        ),
        (  # copied: rows of A do not start on 16 bytes, columns of tf32 have to lie along k
            MatmulTemplate(100, 520, 301, in_dtype="tf32").problem,
            TensorMap("workspace", 0, "tf32", (301, 100, 1), 1216, (32, 128, 1)),
            TensorMap("workspace", 121600, "tf32", (301, 520, 1), 1216, (32, 64, 1)),
        ),
    ],
)
def test_tensor_maps_say_how_the_copy_engine_reads_each_operand(problem: Problem, a: TensorMap, b: TensorMap) -> None:
    declared = kernel.kernel_named("matmul", "tma", "cuda")
    config = {"block_m": 128, "block_n": 128, "block_k": 64, "groups": 2, "stages": 3, "group_m": 8, "split_k": 1,
              "alternate": 0, "cluster": 2}  # fmt: skip
    program = concrete(declared, problem, config, H200)
    assert program.calls[-1].entry == "carver_matmul" and program.calls[-1].maps == (a, b)
    assert typed(Program, json.loads(json.dumps(as_json(program)))) == program
    assert all(call.maps == () for call in program.calls[:-1])


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("box", '["24", "128"]', "a row of a box has 32, 64 or 128 bytes, got 24 elements of 2"),
        ("box", '["64", "512"]', "a box has 1 to 256 elements along an axis, got 64 x 512"),
        ("box", "[]", "1 to 5 sizes, and a box of at most as many extents, got 3 and 0"),
        ("sizes", '["k", "2147483648", "b"]', "an axis has at most 2,147,483,647 elements, got 2,147,483,648"),
        ("row_bytes", '"k + 3"', "rows start on multiples of 16 bytes, got rows of 307"),
    ],
)
def test_a_map_that_the_copy_engine_cannot_read_by_is_refused(tmp_path: Path, key: str, value: str, says: str) -> None:
    text = (folder("templates") / "matmul" / "tma.toml").read_text()
    (tmp_path / "tma.toml").write_text(re.sub(rf"^{key} +=.*$", f"{key} = {value}", text, count=1, flags=re.M))
    config = {"block_m": 128, "block_n": 128, "block_k": 64, "groups": 2, "stages": 3, "group_m": 8, "split_k": 1,
              "alternate": 0, "cluster": 1}  # fmt: skip
    with pytest.raises(ConfigError, match=re.escape(says)):
        concrete(kernel.load(tmp_path / "tma.toml", "matmul"), MatmulTemplate(1000, 520, 304).problem, config, H200)


def test_no_rows_go_to_the_copy_engine_whose_places_need_more_than_32_bits() -> None:
    for rows, with_maps in (((1 << 31) - 64, True), (1 << 31, False)):
        op = MatmulTemplate(rows, 16, 16, trans_B=True, in_dtype="float8_e4m3", out_dtype="float8_e4m3")
        assert any(hint.kernel == "tma" for hint in op.with_arch("h200").recommend_hints(4, "cuda")) is with_maps


@pytest.mark.parametrize(("op", "rows", "align"), [("softmax", 1, 2), ("softmax", 5, 2), ("sum", 1, 16)])
def test_a_row_that_ends_inside_a_vector(op: str, rows: int, align: int) -> None:
    """A normalisation of one row takes its end for one that many rows have: it wrote no last elements else."""
    hint = ReductionTemplate(op, (rows, 77)).with_arch("h200").recommend_hints(1, "cuda")[0]
    program = concrete(kernel.kernel_named("reduction", hint.kernel, "cuda"), hint.problem, hint.config, H200)
    assert program.inputs[0].align_bytes == align


def test_norms_keep_the_shape_of_their_input() -> None:
    (declared,) = kernel.kernels("reduction", "cpu")
    config = {"block_r": 1, "block_c": 16, "unroll": 1}
    shapes = {
        op: concrete(declared, ReductionTemplate(op, (6, 8)).problem, config, arch.load("cpu_avx2")).output.shape
        for op in ("sum", "softmax")
    }
    assert shapes == {"sum": (6,), "softmax": (6, 8)}


def test_broadcast_inputs_are_told_by_macros() -> None:
    (declared,) = kernel.kernels("elementwise", "cpu")
    problem = ElementwiseTemplate((6, 8), inputs=1, broadcast=1).problem
    program = concrete(declared, problem, {"block": 1024, "unroll": 1}, arch.load("cpu_avx2"))
    assert {k: v for k, v in program.source.defines.items() if re.fullmatch(r"INPUTS|X\d_[RC]", k)} == {
        "INPUTS": "2", "X0_R": "1", "X0_C": "1", "X1_R": "0", "X1_C": "1",
    }  # fmt: skip
    assert program.calls[0].args[:3] == ("X0", "X1", "Y")


def test_padded_rows_lower_the_alignment() -> None:
    problem = MatmulTemplate(64, 64, 63, in_dtype="float16").problem
    (declared,) = kernel.kernels("matmul", "cpu")
    config = {"mc": 24, "kc": 64, "nc": 32, "mr": 6, "nr": 16}
    assert [t.align_bytes for t in concrete(declared, problem, config, CPU).tensors] == [2, 16, 16]


def test_unknown_kernel_or_tunable_or_profile() -> None:
    (declared,) = kernel.kernels("matmul", "cpu")
    problem = MatmulTemplate(8, 8, 8).problem
    with pytest.raises(ConfigError, match="missing or unknown: block_m, mc"):
        concrete(declared, problem, {"block_m": 1, "kc": 64, "nc": 32, "mr": 6, "nr": 16}, CPU)
    profile = kernel.kernels("matmul", "triton")[0]
    with pytest.raises(KernelError, match="profile of triton's kernel"):
        concrete(profile, problem, {}, H200)
    hint = MatmulTemplate(64, 64, 64).with_arch(H200).recommend_hints(topk=1)[0]
    with pytest.raises(ConfigError, match="no cuda kernel 'mmma'; did you mean 'mma'"):
        render(replace(hint, kernel="mmma"), H200)


def test_grid_beyond_the_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    path.write_text(
        'backend = "cuda"\nmodel = "stream"\nsource = "huge.cu"\n[tunables]\nblock = [1]\n[schedule]\nthreads = "32"\n'
        '[[launches]]\nentry = "huge"\ngrid = [1, "m * n"]\nblock = 32\nargs = ["A", "B", "C", "mm"]\n'
    )
    declared = kernel.load(path)
    with pytest.raises(ConfigError, match=r"a grid of \(1, 1000000, 1\)"):
        concrete(declared, MatmulTemplate(1000, 1000, 8).problem, {"block": 1}, H200)
    with pytest.raises(KernelError, match=r"argument 'mm': no 'mm'; did you mean"):
        concrete(declared, MatmulTemplate(10, 10, 8).problem, {"block": 1}, H200)


NVCC = shutil.which("nvcc") is not None
NVRTC = compiling._find_nvrtc()


@pytest.mark.nvcc
@pytest.mark.skipif(NVRTC is None, reason="NVRTC is not installed")
def test_nvrtc_compiles_and_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert NVRTC is not None
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    (declared,) = (k for k in DECLARATIONS if (k.operator, k.name) == ("matmul", "mma"))
    source = samples(declared, 2)[0][2].source
    assert set(source.entries) <= set(used(compile_source(source, compiling._nvrtc(NVRTC)).log))
    broken = Source(source.path, {**source.defines, "STAGES": "1"}, source.flags, source.entries, source.isa)
    with pytest.raises(CompileError, match="NVRTC failed") as caught:
        compile_source(broken, compiling._nvrtc(NVRTC))
    assert "static assertion failed" in caught.value.log


@pytest.mark.skipif(sys.platform != "linux", reason="-soname is for ELF")
def test_nvrtc_finds_its_other_half_beside_it(tmp_path: Path) -> None:
    """Made as in NVIDIA's wheels: a library that asks the loader for a name where the loader does not search."""
    half = "libnvrtc-builtins.so.13.0"
    for name, text in (
        ("libnvrtc.so.13", f'#include <dlfcn.h>\nint found(void) {{ return dlopen("{half}", RTLD_NOW) != 0; }}'),
        (half, "int nothing;"),
    ):
        command = [str(c_compiler().path), "-shared", "-fPIC", f"-Wl,-soname,{name}", "-xc", "-", "-o", name]
        subprocess.run(command, input=text, cwd=tmp_path, text=True, check=True)
    assert compiling._nvrtc_library(tmp_path / "libnvrtc.so.13").found() == 1


@pytest.mark.nvcc
@pytest.mark.skipif(not NVCC, reason="nvcc is not on the PATH")
def test_nvcc_errors_carry_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "broken.cu"
    path.write_text('extern "C" __global__ void f() { missing(); }\n')
    with pytest.raises(CompileError) as caught:
        compile_source(Source(path, {}, ("--std=c++17",), ("f",), "sm_90"), cuda_compiler())
    assert "missing" in caught.value.log


def test_ptxas_log_is_read() -> None:
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    8 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 22 registers, used 0 barriers"""
    assert used(log) == {"first": (128, 1024, 32), "second": (22, 0, 0)}
