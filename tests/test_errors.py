"""Every bad input is answered with one of carver's errors, which says what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import carver
from carver.arch import detect
from carver.base.errors import (
    ArchError,
    CarverError,
    CompileError,
    ConfigError,
    DeviceError,
    KernelError,
    NoCandidates,
    NotationError,
    ProblemError,
    first_error,
    nearest,
)
from carver.ranking.compare import compare

M, E, G, R, S, OP = (
    carver.MatmulTemplate, carver.ElementwiseTemplate, carver.GEMVTemplate, carver.ReductionTemplate,
    carver.GeneralReductionTemplate, carver.OpTemplate,
)  # fmt: skip
H200 = carver.CUDA("h200")

WRONG: list[tuple[Callable[[], Any], type[CarverError], tuple[str, ...]]] = [
    # sizes
    (lambda: M(0, 1, 1), ProblemError, ("size M", "from 1 to 2^48", "got 0")),
    (lambda: M(1, -5, 1), ProblemError, ("size N", "got -5")),
    (lambda: M(1, 1, 2.0), ProblemError, ("K must be a whole number", "got 2.0")),
    (lambda: M(1, 1, "64"), ProblemError, ("got '64'",)),
    (lambda: M(1, 1, None), ProblemError, ("got None",)),
    (lambda: M(True, 1, 1), ProblemError, ("got True",)),
    (lambda: M(1, 1, np.float32(3)), ProblemError, ("K must be a whole number", "got np.float32(3.0)")),
    (lambda: M(2**48 + 1, 1, 1), ProblemError, ("2^48",)),
    (lambda: M(1, 1, 1, batch=0), ProblemError, ("size batch", "got 0")),
    (lambda: M(8, 8, 8, lda=0), ProblemError, ("lda", "got 0")),
    (lambda: G(0, 5), ProblemError, ("size N", "got 0")),
    (lambda: E(()), ProblemError, ("shape must be a sequence of sizes", "got ()")),
    (lambda: E("64"), ProblemError, ("shape must be a list of whole numbers", "got '64'")),
    (lambda: E(64), ProblemError, ("shape must be a list of whole numbers", "got 64")),
    (lambda: E((4, 0)), ProblemError, ("shape[1]", "got 0")),
    (lambda: E((4,), inputs=0), ProblemError, ("inputs", "got 0")),
    (lambda: E((4,), broadcast=-1), ProblemError, ("broadcast", "at least 0", "got -1")),
    (lambda: E((4,), flops_per_element=1.5), ProblemError, ("flops_per_element", "got 1.5")),
    (lambda: R("sum", (4,)), ProblemError, ("shape must be (rows, columns)", "got (4,)", "GeneralReductionTemplate")),
    (lambda: R("sum", 4), ProblemError, ("shape must be a list of whole numbers", "got 4")),
    (lambda: R("sum", (4, -4)), ProblemError, ("size columns", "got -4")),
    (lambda: R("sum", (4, 4), axis=2), ProblemError, ("axis must be 1", "got 2")),
    (lambda: R("sum", (4, 4), axis=True), ProblemError, ("axis must be a whole number", "got True")),
    (lambda: R("summ", (4, 4)), ProblemError, ("unknown reduction 'summ'", "did you mean 'sum'", "softmax")),
    (lambda: S("SST", (1, 2, 3)), ProblemError, ("letters S (kept) and R (reduced)", "got 'SST'")),
    (lambda: S("SS", (1, 2)), ProblemError, ("at least one R", "got 'SS'")),
    (lambda: S("SR", (1, 2, 3)), ProblemError, ("'SR' has 2 axes", "has 3")),
    (lambda: S("RSR", (1, 2, 3)), ProblemError, ("axes that do not lie side by side", "reduce the last of them first")),
    # types
    (lambda: M(8, 8, 8, in_dtype="float15"), ProblemError, ("unknown dtype 'float15'", "did you mean", "bfloat16")),
    (lambda: M(8, 8, 8, in_dtype=None), ProblemError, ("unknown dtype None",)),
    (lambda: M(8, 8, 8, out_dtype="quad"), ProblemError, ("unknown dtype 'quad'; known: bfloat16, ",)),
    (lambda: M(8, 8, 8, accum_dtype="int32"), ProblemError, ("float16 accumulates in float16 or float32", "'int32'")),
    (lambda: M(8, 8, 8, in_dtype="int8", accum_dtype="float32"), ProblemError, ("int8 accumulates in int32",)),
    (lambda: M(8, 8, 8, activation="reluu"), ProblemError, ("unknown activation 'reluu'", "did you mean 'relu'")),
    # notation
    (lambda: OP("C[m,n] += A[m,k] * ", m=1, n=1, k=1), NotationError, ("ends where a tensor should stand",)),
    (lambda: OP("C[m,n] = A[m,k] * B[k,n]", m=1, n=1, k=1), NotationError, ("axis 'k' is reduced", "'+='")),
    (lambda: OP("C[m,n] += A[m,k] * B[k,n]", m=1, n=1), ProblemError, ("has axes m, n, k", "got sizes for m, n")),
    (lambda: OP("C[m,n] += A[m,k] * B[k,n]", m=1, n=1, k=1, j=1), ProblemError, ("got sizes for m, n, k, j",)),
    # devices
    (lambda: carver.CUDA("h300"), ArchError, ("no arch named 'h300'", "h200_sxm", "carver archs")),
    (lambda: carver.CUDA("h200,mi300x"), ArchError, ("each has an --arch of its own",)),
    (lambda: carver.CUDA("mi300x"), ArchError, ("not a device of CUDA", "HIP('mi300x')")),
    (lambda: carver.CUDA("nowhere.toml"), ArchError, ("there is no file 'nowhere.toml'",)),
    (lambda: carver.CUDA(Path(__file__).parent), ArchError, ("is a folder, no TOML file",)),
    (lambda: H200.replace(l2_byte=1), ArchError, ("no field 'l2_byte'", "did you mean 'l2_bytes'")),
    (lambda: H200.replace(l2_bytes="50 MB"), ArchError, ("l2_bytes must be a whole number", "got '50 MB'")),
    (lambda: H200.replace(sm_count=0), ArchError, ("sm_count must be above 0", "got 0")),
    (lambda: M(8, 8, 8).with_arch("h300"), ArchError, ("no arch named 'h300'",)),
    (lambda: M(8, 8, 8).recommend_hints(), ProblemError, ("no device named", "with_arch")),
    # questions
    (lambda: M(8, 8, 8).with_arch(H200).recommend_hints(0), ProblemError, ("topk", "at least 1", "got 0")),
    (lambda: M(8, 8, 8).with_arch(H200).recommend_hints(3, "tritn"), KernelError,
     ("no kernel for backend 'tritn'", "triton")),
    (lambda: M(8, 8, 8).with_arch(H200).rank([{"BLOCK": 1}]), ConfigError,
     ("unknown key 'BLOCK'", "did you mean", "--name KEY=BLOCK", "names={'KEY': 'BLOCK'}", "--ignore BLOCK")),
    (lambda: M(8, 8, 8).with_arch(H200).rank([{"BM": 16}], names={"BM": "BLOCK_M"}), ConfigError,
     ("names maps 'BLOCK_M' the wrong way round",)),
    (lambda: M(8, 8, 8).with_arch(H200).rank(pandas.DataFrame([{"BLOCK_M": 64}])), ConfigError,
     ("got a data frame; give its to_dict('records')",)),
    (lambda: M(8, 8, 8).with_arch(H200).rank([{"BLOCK_M": True, "BLOCK_N": 16, "BLOCK_K": 16}]), ConfigError,
     ("BLOCK_M must be a whole number", "got True")),
    (lambda: M(8, 8, 8).with_arch(H200).rank([{"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": np.True_}], "triton"),
     ConfigError, ("BLOCK_K must be a whole number",)),
    (lambda: carver.Binary(b"code", "k", constants=3), ConfigError, ("constants must be a mapping, got 3",)),
    (lambda: carver.Binary(b"code", "k", names=None), ConfigError, ("names must be a list of strings, got None",)),
    (lambda: carver.Struct(bytes(8), 3), ConfigError, ("tensors must be a mapping, got 3",)),
    (lambda: carver.SearchSpace(a=[1]).where(3), ConfigError, ("allowed must be a function or a string, got 3",)),
    (lambda: M(8, 8, 8).with_arch(H200).recommend_hints(1).plot("x.png"), ConfigError, ("got 'x.png'", "savefig")),
    (lambda: compare([], []), ConfigError, ("rankings with a hint at least, got 0 and 0",)),
    (lambda: compare(None, []), ConfigError, ("before must be a list of Hint objects, got None",)),
    (lambda: carver.enable([]), ConfigError, ("carver knows no tuner []",)),
    (lambda: M(64, 64, 64).with_arch(H200).portfolio(1, M=[64]).hint("64"), ProblemError, ("got '64'",)),
    (lambda: M(64, 64, 64).with_arch(H200).portfolio(1, M=[64]).measured([3]), ConfigError,
     ("timings are (size, configuration, seconds), or records, got 3",)),
    (lambda: H200.replace(matrix=np.array(3)), ArchError, ("matrix must be a list", "got array(3)")),
    (lambda: M(8, 8, 8).with_arch(H200).rank([]), ConfigError, ("no configurations given",)),
    (lambda: M(64, 64, 64).with_arch(H200).portfolio("M", [64], 4), ProblemError,
     ("portfolio() takes these arguments without a name: k, backend; name the others",)),
    (lambda: M(8, 8, 8).with_arch(), ArchError, ("with_arch() needs arch",)),
    (lambda: H200.flops_per_s(["float16"]), ArchError, ("unknown dtype ['float16']",)),
    (lambda: H200.matrix_unit({}), ArchError, ("unknown dtype {}",)),
    (lambda: H200.own_float8(None), ArchError, ("dtype must be a string, got None",)),
    (lambda: M(8, 8, 8).with_arch(H200).recommend_hints(1, "triton").benchmark_kernel(), ConfigError,
     ("benchmark_kernel() needs kernel, args, grid",)),
    (lambda: M(8, 8, 8).with_arch(H200.replace(smem_per_block_bytes=512)).recommend_hints(1, "triton"), NoCandidates,
     ("no candidate can run matmul M=8 N=8 K=8", "shared memory of one block fits")),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "error", "says"), WRONG, ids=lambda v: v[0] if isinstance(v, tuple) else "")
def test_bad_input(ask: Callable[[], Any], error: type[CarverError], says: tuple[str, ...]) -> None:
    with pytest.raises(CarverError) as caught:
        ask()
    assert type(caught.value) is error
    for words in says:
        assert words in str(caught.value)


def test_numpy_integers_are_accepted_everywhere() -> None:
    n = np.int64(64)
    for op in (M(n, n, n, batch=n, lda=n), G(n, n), E((n, n), inputs=np.int8(2)), R("sum", (n, n)), S("SR", (n, n))):
        assert all(type(extent) is int for extent in op.problem.sizes.values())
    hints = M(n, n, n).with_arch(H200).recommend_hints(np.int32(2), "triton")
    config = {name: np.int64(value) for name, value in hints[0].config.items()}
    assert M(n, n, n).with_arch(H200).rank([config])[0].config == hints[0].config


def test_an_argument_that_is_not_there_has_a_nearest() -> None:
    with pytest.raises(TypeError, match=r"MatmulTemplate\S+ has no argument 'dtype'; did you mean .*'in_dtype'"):
        M(8, 8, 8, dtype="float32")
    with pytest.raises(TypeError, match=r"has no argument 'arch'; .*\.with_arch\("):
        carver.MatmulTemplate(8, 8, 8, arch="h100")
    with pytest.raises(TypeError, match="has no argument 'top_k'; did you mean 'topk'"):
        M(8, 8, 8).with_arch(H200).recommend_hints(top_k=3)
    assert OP("C[m,n] += A[m,k] * B[k,n]", m=8, n=8, k=8).problem.contracts  # sizes may have any name


def test_a_place_in_a_ranking_is_a_whole_number() -> None:
    ranking = M(8, 8, 8).with_arch(H200).recommend_hints(2)
    assert ranking[np.int64(1)].rank == 2
    for place in ("0", 0.0, None, np.array([0, 1])):
        with pytest.raises(TypeError, match="integer"):
            ranking[place]


def test_a_device_s_file_without_its_ending_is_pointed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mycard.toml").touch()
    with pytest.raises(ArchError, match=r"there is a file mycard\.toml: give it with its ending"):
        carver.load_arch("mycard")


def test_a_type_that_the_matrix_unit_lacks_runs_on_the_vector_units_and_says_so() -> None:
    hint = M(256, 256, 256, in_dtype="float32").with_arch("a100").recommend_hints(1, "triton")[0]
    assert not hint.use_tc
    assert hint.notes == ("NVIDIA A100 SXM 80 GB has no matrix instruction for float32: vector units are used",)


def test_kernels_that_leave_the_fastest_unit_idle_say_so_and_are_not_the_default() -> None:
    op = M(4096, 4096, 4096).with_arch("b200")
    assert op.recommend_hints(1).backend == "triton"
    [note] = op.recommend_hints(1, "cuda")[0].notes
    assert note.startswith("at most 25% of NVIDIA B200 180 GB's rate for float16")


def test_where_no_kernel_uses_the_fastest_unit_the_own_one_is_the_default_and_says_so() -> None:
    hint = M(4096, 4096, 4096).with_arch("v100").recommend_hints(1)[0]
    assert hint.backend == "cuda"
    assert hint.notes[0].startswith("at most 12% of NVIDIA V100 SXM2's rate for float16")


def test_errors_are_one_family() -> None:
    for error in (ArchError, ProblemError, NotationError, KernelError, ConfigError, NoCandidates, CompileError):
        assert issubclass(error, CarverError)
    assert issubclass(NotationError, ProblemError)


@pytest.mark.skipif(bool(detect.nvidia_names()), reason="a GPU is here")
def test_auto_is_the_gpu_of_this_machine_or_an_error_that_says_so() -> None:
    with pytest.raises(DeviceError, match="NVIDIA"):
        carver.MatmulTemplate(64, 64, 64).with_arch("auto")


def test_a_compiler_s_log_is_its_first_error() -> None:
    assert first_error("k.hip: nvcc failed (nvcc)\nnvcc fatal   : no option") == "nvcc fatal   : no option"
    assert first_error("failed\n/tmp/k.cu(2): error: no B\n/tmp/k.cu(3): error: no C") == "k.cu(2): error: no B"
    assert first_error("PTXASError: no B\nPTXAS error: Internal\nptxas fatal : no B") == "PTXASError: no B"


def test_no_candidates_carries_what_each_rule_removed() -> None:
    error = NoCandidates("it", {"too wide": 3, "too deep": 0})
    assert error.removed == {"too wide": 3, "too deep": 0}
    assert str(error) == "no candidate can run it; removed: 3 by 'too wide'"
    several = NoCandidates("it", {"too wide": 3000, "too deep": 1}, {"too deep": "9, at most 8"}, ["triton"])
    assert str(several).splitlines() == [
        "no candidate can run it; removed:", "- 3,000 by 'too wide'", "- 1 by 'too deep' (9, at most 8)",
        "- backend 'triton' has some that can",
    ]  # fmt: skip


def test_kernels_that_lack_the_same_are_one_line() -> None:
    op = carver.OpTemplate("Y[m,n,b] += A[m,k,b] * B[k,n,b]", b=4, m=64, n=64, k=64)
    with pytest.raises(NoCandidates) as told:
        op.with_arch("h200").recommend_hints(1, "cuda")
    assert "4 by 'its kernel requires that operands lie in memory as a matmul" in str(told.value)


def test_nearest_spellings() -> None:
    assert nearest("blok_m", ["block_m", "block_n", "stages"], 1) == "did you mean 'block_m'?"
    assert nearest("zzz", ["b", "a"]) == "known: a, b"


def test_refusals_say_by_how_much() -> None:
    """Of carver's own candidates too: the smallest that breaks each rule."""
    with pytest.raises(NoCandidates) as told:
        op = carver.FlashAttentionTemplate(heads=8, seq=1024, head_dim=512, in_dtype="float32")
        op.with_arch("rx_580").recommend_hints(1)
    assert "'accumulators spill registers' (registers is 1,768, at most 1,621)" in str(told.value)
    assert "(SPLIT_KV is 64, at most 32)" in str(told.value)


def test_a_grid_of_2_to_31_blocks_is_refused() -> None:
    op = carver.ElementwiseTemplate((1 << 20, 1 << 18), "int8").with_arch("b300")
    with pytest.raises(NoCandidates, match="it has 2,147,483,648 blocks"):
        op.rank([{"block": 128, "threads": 32, "vec": 4}], "cuda")


def test_what_is_not_met_does_not_read_as_its_opposite() -> None:
    hint = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h100").recommend_hints(1, "cuda")[0]
    said = " ".join(str(hint.explain()).split())
    assert "cannot run, not met: sums fit the registers of a thread (accumulators is 256, at most 192)" in said


@pytest.mark.parametrize(
    ("device", "dtype", "said"),
    [
        ("a100", "float8_e5m2", "no matrix instruction for float8_e5m2: elements are converted to float16"),
        ("mi250x", "float8_e4m3", "no matrix instruction for float8_e4m3: each element is converted to"),
        ("gtx_1080", "float16", "no matrix instruction for float16: vector units are used"),
    ],
)  # fmt: skip
def test_a_type_without_a_unit_is_said_so(device: str, dtype: str, said: str) -> None:
    ranking = carver.MatmulTemplate(1024, 1024, 1024, in_dtype=dtype).with_arch(device).recommend_hints(1, "triton")
    assert said in " ".join(str(ranking).split())


def test_a_device_of_another_kernel_is_not_a_datasheet() -> None:
    ranking = carver.TransposeTemplate(rows=4096, cols=4096).with_arch("h200").recommend_hints(1)
    said = " ".join(str(ranking).split())
    assert "this kernel not measured: constants of elementwise/triton, fitted on NVIDIA H200" in said


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("l2_size", "l2_bytes"), ("sms", "sm_count"), ("memory_bandwidth", "dram_bytes_per_s"), ("vram", "dram_bytes"),
        ("bandwidth", "dram_bytes_per_s"), ("shared_memory", "smem_per_block_bytes"),
        ("l2_bandwidth", "l2_bytes_per_s"),
        ("boost_clock_mhz", "clock_hz"), ("warpsize", "warp_size"), ("dram_latency", "dram_latency_s"),
    ],
)  # fmt: skip
def test_a_field_by_what_others_call_it(said: str, meant: str) -> None:
    with pytest.raises(ArchError, match=f"did you mean '{meant}'"):
        carver.load_arch("h200").replace(**{said: 1})


def test_a_shape_is_of_whole_numbers() -> None:
    with pytest.raises(ConfigError, match=r"^shape is a sequence of whole numbers, got \(4\.5, 3\)$"):
        carver.Tensor("float16", (4.5, 3))  # type: ignore[arg-type]


def test_arguments_that_are_missing_are_said_with_what_they_are() -> None:
    with pytest.raises(ProblemError, match=r"MatmulTemplate needs N, K: .*A is M x K, B K x N"):
        carver.MatmulTemplate(4096)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"Tensor needs shape: A tensor argument of a kernel: element type"):
        carver.Tensor("float16")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("statement", "operator"),
    [
        ("C[m,n] = exp(A[m,n])", "exp; take carver.ElementwiseTemplate"),
        ("C[m] = max(A[m,k])", r"'Y\[i\] max= X\[i,j\]'"),
        ("C[m,n] += relu(A[m,k] * B[k,n])", "activation='relu'"),
        ("P[m,n] = softmax(A[m,n])", r"ReductionTemplate\('softmax'"),
    ],
)  # fmt: skip
def test_a_function_in_a_statement_leads_to_its_operator(statement: str, operator: str) -> None:
    with pytest.raises(NotationError, match=operator):
        carver.OpTemplate(statement, m=4, n=4, k=4)
