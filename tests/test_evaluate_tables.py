"""What of a folder of measured tables is read, what is passed over, and what is said of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.adapters import FORMATS, read
from benchmarks.adapters.tensile import solution
from benchmarks.adapters.words import dtype
from carver.arch.devices import load
from carver.calibrate.summary import Summary, best_fixed, evaluate, table
from carver.calibrate.tables import Case, Remark, device, seconds, tunables
from carver.cli.main import main
from carver.ops.matmul import MatmulTemplate

pd = pytest.importorskip("pandas")

CONV = {"block_size_x": 32, "block_size_y": 4, "tile_size_x": 1, "tile_size_y": 2}
XGEMM = {
    "MWG": 64, "NWG": 64, "KWG": 16, "MDIMC": 16, "NDIMC": 16, "MDIMA": 16, "NDIMB": 16, "VWM": 4, "VWN": 4,
    "SA": 1, "SB": 1,
}  # fmt: skip
MM = {
    "pid": 0, "m": 64, "k": 128, "n": 256, "mat1_dtype": "float16", "mat2_dtype": "float16", "mat1_stride_0": 128,
    "mat1_stride_1": 1, "mat2_stride_0": 256, "mat2_stride_1": 1, "extern_ms": 0.5,
}  # fmt: skip
TRITON = {"block_m": 64, "block_n": 64, "block_k": 32, "num_stages": 3, "num_warps": 4}
MATRIX = {"MI": "32x32x8x1", "TT0": 1, "TT1": 32, "MT0": 64, "MT1": 64, "WG0": 64, "WG1": 4, "DepthU": 16, "GRVW": 4}


def kernel_tuner(folder: Path, name: str, rows: Sequence[Mapping[str, Any]], **facts: Any) -> None:
    """A table of Kernel Tuner's convolution; a row without its own time took 1 ms."""
    frame = pd.DataFrame([{"time_ms": 1.0, "valid": 1, **row} for row in rows])
    frame.to_csv(folder / f"{name}.csv.gz", index=False)
    meta = {"op": "conv2d_direct", "image": [64, 64], "filter": [3, 3], "gpu": "NVIDIA RTX A4000"} | facts
    (folder / f"{name}.meta.json").write_text(json.dumps(meta))


def logged(
    folder: Path, problem: Mapping[str, Any], config: Mapping[str, Any] = TRITON, op: str = "mm", **row: Any
) -> None:
    """One problem of an Inductor log."""
    for what, one in (
        ("problems", problem), ("configs", {"cid": 7, **config}), ("meas", {"pid": 0, "cid": 7, "time_ms": 1.0, **row})
    ):  # fmt: skip
        pd.DataFrame([one]).to_csv(folder / f"log_{what}.csv.gz", index=False)
    meta = {"op": op, "gpu": "NVIDIA H100 80GB HBM3", "arch": "sm_90"}
    (folder / "log.meta.json").write_text(json.dumps(meta))


def packed(folder: Path, results: Sequence[Mapping[str, Any]], configs: Any = (), **facts: Any) -> None:
    with gzip.open(folder / "packed.json.gz", "wt") as file:
        json.dump({"device": "NVIDIA H200", "configs": configs, "results": list(results), **facts}, file)


def both(folder: Path) -> tuple[list[Case], list[Remark]]:
    remarks: list[Remark] = []
    return list(read(folder, remarks.append)), remarks


class TestWhatIsPassedOver:
    def test_a_table_that_cannot_be_read_is_said_to_be_and_hides_no_other(self, tmp_path: Path) -> None:
        kernel_tuner(tmp_path, "good", [CONV])
        kernel_tuner(tmp_path, "op", [CONV], op="hotspot")
        kernel_tuner(tmp_path, "gpu", [CONV], gpu="Voodoo 2")
        kernel_tuner(tmp_path, "dtype", [CONV], dtype="complex64")
        kernel_tuner(tmp_path, "facts", [CONV], image=None)
        kernel_tuner(tmp_path, "idle", [CONV | {"valid": 0}, CONV | {"time_ms": np.nan}, CONV | {"time_ms": -1.0}])
        kernel_tuner(tmp_path, "halves", [CONV | {"tile_size_x": 1.5}])
        kernel_tuner(tmp_path, "timeless", [CONV])
        pd.DataFrame([CONV]).to_csv(tmp_path / "timeless.csv.gz")
        kernel_tuner(tmp_path, "dataless", [CONV])
        (tmp_path / "dataless.csv.gz").unlink()
        kernel_tuner(tmp_path, "cut", [CONV])
        (tmp_path / "cut.csv.gz").write_bytes((tmp_path / "cut.csv.gz").read_bytes()[:40])
        (tmp_path / "text.meta.json").write_text("{")
        (tmp_path / "list.meta.json").write_text("[]")
        (tmp_path / "winners.meta.json").write_text('{"dataset": "Winners of 2024"}')
        (tmp_path / "other.csv").write_text("a,b\n1,2\n")
        packed(tmp_path, [])
        cases, remarks = both(tmp_path)
        assert [case.table for case in cases] == ["good"]
        said = {remark.table.split(".")[0]: remark for remark in remarks}
        assert {name for name, remark in said.items() if remark.broken} == {
            "facts", "halves", "timeless", "dataless", "cut", "text", "list",
        }  # fmt: skip
        for name, text in {
            "op": "no adapter reads op 'hotspot'; there are mm,", "gpu": "no descriptor for its device 'Voodoo 2'",
            "dtype": "unknown dtype 'complex64'", "idle": "1 of 1 problems passed over", "halves": "got 1.5",
            "timeless": "no row has a time_med_ms or a time_ms", "dataless": "there is no dataless.csv.gz",
            "winners": "dataset 'Winners of 2024' without an op", "other": "time_ms; it begins with",
            "packed": "neither results by problem",
        }.items():  # fmt: skip
            assert text in said[name].text

    def test_one_problem_does_not_hide_the_others(self, tmp_path: Path) -> None:
        results = [{"shape": {"M": 64, "N": 64, "K": 64, "dtype": kind}, "rows": [[0, 1.0]]} for kind in ("bf16", "q4")]
        packed(tmp_path, results, [{"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "num_stages": 2}])
        cases, remarks = both(tmp_path)
        assert [case.problem.dtypes["A"] for case in cases] == ["bfloat16"]
        assert remarks[0].text.startswith("1 of 2 problems passed over, the first: unknown dtype 'q4'")

    def test_files_of_one_name_are_two_tables(self, tmp_path: Path) -> None:
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            kernel_tuner(tmp_path / name, "same", [CONV])
        kernel_tuner(tmp_path, "alone", [CONV])
        cases, remarks = both(tmp_path)
        assert [case.table for case in cases] == ["alone", "one/same", "other/same"] and not remarks

    def test_what_cannot_be_ranked_is_said_by_table(self, tmp_path: Path) -> None:
        kernel_tuner(tmp_path, "good", [CONV, CONV | {"block_size_x": 64, "time_ms": 2.0}])
        kernel_tuner(tmp_path, "lacking", [{k: v for k, v in CONV.items() if k != "tile_size_x"}])
        remarks: list[Remark] = []
        rows, won = evaluate(tmp_path, workers=1, say=remarks.append, formats=FORMATS)
        assert ([row.name for row in rows], won) == (["good"], [])
        assert remarks[0].broken and "1 problems not ranked, the first: conv2d" in remarks[0].text
        assert "lacks tile_size_x" in remarks[0].text

    def test_command_line(self, tmp_path: Path) -> None:
        def run(*more: str) -> Any:
            return CliRunner().invoke(main, ["evaluate", str(tmp_path), "--workers", "1", *more], obj=FORMATS)

        kernel_tuner(tmp_path, "good", [CONV, CONV | {"block_size_x": 64, "time_ms": 2.0}])
        kernel_tuner(tmp_path, "op", [CONV], op="hotspot")
        result = run("--json")
        found = json.loads(result.stdout)
        assert result.exit_code == 0 and [row["name"] for row in found["rows"]] == ["good"]
        assert [remark["table"] for remark in found["remarks"]] == ["op.meta.json"]
        assert result.stderr.startswith("note: op.meta.json: passed over: no adapter reads op 'hotspot'")
        (tmp_path / "text.meta.json").write_text("{")
        result = run()
        assert result.exit_code == 2 and "good" in result.stdout and "error: text.meta.json: " in result.stderr
        for name in ("good", "text"):
            (tmp_path / f"{name}.meta.json").unlink()
        result = run()
        assert result.exit_code == 2 and "no measured table" in result.stderr and not result.stdout


def test_what_is_printed_of_a_table() -> None:
    row = Summary("mine", "h200_sxm", 3, 40.0, {1: (1.11, 1.22, 1.33)}, {1: 2.22}, 1.44, 0.55, 0.07, 0.81, 0.999, 0.998)
    text = table([row], ks=(1,), width=130)
    for printed in ("1.110", "(2.22)", "1.22", "1.33", "1.44", "0.55", "7 %", "81 %", "0.999", "0.998"):
        assert printed in text


class TestDevices:
    @pytest.mark.parametrize(
        ("name", "isa", "expected"),
        [
            ("NVIDIA GeForce RTX 3090", "sm_86 (Ampere GA102)", "rtx_3090"),
            ("AMD Instinct MI250X (one GCD)", "gfx90a (CDNA2)", "mi250x_gcd"),
            ("AMD Instinct MI50/MI60 (as reported)", "", "mi50"),
            ("AMD Navi21 (gfx1030)", "", "rx_6900_xt"),
            ("gfx1100 (RDNA3 Navi31)", "", "rx_7900_xtx"),
            ("AMD Vega10", "gfx900 (GCN5)", "rx_vega_64"),
            ("TITAN X (Pascal)", "sm_61 (Pascal GP102)", "titan_x_pascal"),
            ("gfx1010:xnack-", "", "rx_5700_xt"),
        ],
    )
    def test_found(self, name: str, isa: str, expected: str) -> None:
        arch, remark = device(name, isa)
        assert arch.name == expected
        assert bool(remark) == (name not in ("NVIDIA GeForce RTX 3090", "AMD Vega10", "TITAN X (Pascal)"))

    @pytest.mark.parametrize(
        ("name", "isa"),
        [
            ("Voodoo 2", ""), ("", ""), ("NVIDIA GeForce MX450", "sm_75"), ("Radeon R9 290X", "gfx701"),
            ("GTX TITAN X", "sm_61"),  # the Maxwell has that name
            ("AMD Tonga", "gfx803"),  # from 36 to 64 CUs
        ],
    )  # fmt: skip
    def test_none(self, name: str, isa: str) -> None:
        with pytest.raises(Exception, match="no descriptor"):
            device(name, isa)


class TestCells:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("fp32 (MFMA 16x16x4)", "float32"), ("torch.bfloat16", "bfloat16"), ("uint8->fp32", "int8"),
            ("bf16 in/out", "bfloat16"), ("i8", "int8"), ("float8_e4m3fnuz", "float8_e4m3fnuz"),
            ("fp16/fp32", "float16"),
        ],
    )  # fmt: skip
    def test_dtypes(self, text: str, expected: str) -> None:
        assert dtype(text) == expected

    def test_times(self) -> None:
        got = seconds([2.0, None, np.nan, np.inf, 0.0, -1.0, 3.0], [True] * 6 + [False])
        np.testing.assert_array_equal(got, [2e-3, *[np.nan] * 6])

    def test_what_tells_equal_configurations_apart_is_named(self) -> None:
        wide = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2.0}
        configs, remark = tunables([wide | {"kpack": 1, "cid": 0}, wide | {"kpack": 2, "cid": 0}], "matmul", "triton")
        assert configs == [wide, wide] and type(configs[0]["num_stages"]) is int
        assert remark == "configurations differ in kpack, which nothing reads"
        assert not tunables([wide | {"kpack": 1}, wide | {"BLOCK_M": 128, "kpack": 2}], "matmul", "triton")[1]

    def test_a_configuration_twice_in_a_table_is_one_in_hindsight(self) -> None:
        problem = MatmulTemplate(64, 64, 64).problem
        configs = [{"BLOCK_M": 64}, {"BLOCK_M": 64}, {"BLOCK_M": 32}]
        cases = [Case("t", problem, load("h200"), "triton", configs, np.array([1.0, 1.5, 2.0])) for _ in range(2)]
        assert best_fixed(cases) == pytest.approx(1.0)


class TestXgemm:
    def test_another_kernel_is_passed_over(self, tmp_path: Path) -> None:
        rows = [XGEMM | {"GEMMK": 0, "KREG": 1}, XGEMM | {"GEMMK": 1, "KREG": 4, "time_ms": 0.1}]
        size = {"M": 512, "N": 512, "K": 512, "dtype": "fp32"}
        kernel_tuner(tmp_path, "gemm", rows, op="gemm", gpu="AMD Radeon PRO W7800", **size)
        (case,), (remark,) = both(tmp_path)
        assert case.configs == [XGEMM] and case.best_s == pytest.approx(1e-3) and case.arch.name == "pro_w7800"
        assert remark.text == "1 of 2 configurations passed over: nothing describes the kernel GEMMK = 1"


class TestInductor:
    def case(self, folder: Path, op: str = "mm", **problem: Any) -> Case:
        logged(folder, MM | problem, op=op)
        (case,) = read(folder)
        return case

    @pytest.mark.parametrize(
        ("problem", "trans", "align"),
        [
            ({}, (0, 0), 128),
            ({"mat1_stride_0": 1, "mat1_stride_1": 64}, (1, 0), 128),
            ({"mat1_stride_0": 132}, (0, 0), 8),
            ({"m": 1, "mat1_stride_0": 1}, (0, 0), 128),  # a single row may have any stride
        ],
    )
    def test_layouts(self, problem: dict[str, int], trans: tuple[int, int], align: int, tmp_path: Path) -> None:
        got = self.case(tmp_path, **problem).problem
        assert (got.options["trans_a"], got.options["trans_b"]) == trans
        assert got.align_bytes["A"] == align

    @pytest.mark.parametrize(
        ("kind", "said", "expected"),
        [
            ("torch.bfloat16", {}, ("bfloat16", "bfloat16")),
            ("float32", {"using_tf32": True}, ("tf32", "float32")),
            ("float32", {"using_tf32": False}, ("float32", "float32")),
            ("int8", {}, ("int8", "int32")),
            ("float8_e4m3fn", {}, ("float8_e4m3", "float16")),
        ],
    )
    def test_types(self, kind: str, said: dict[str, Any], expected: tuple[str, str], tmp_path: Path) -> None:
        problem = self.case(tmp_path, mat1_dtype=kind, mat2_dtype=kind, **said).problem
        assert (problem.dtypes["A"], problem.dtypes["C"]) == expected

    def test_addmm_and_bmm(self, tmp_path: Path) -> None:
        assert self.case(tmp_path, "addmm").problem.options["bias"] == 1
        strides = {"mat1_stride_0": 8192, "mat1_stride_1": 128, "mat1_stride_2": 1}
        strides |= {"mat2_stride_0": 32768, "mat2_stride_1": 1, "mat2_stride_2": 128}
        problem = self.case(tmp_path, "bmm", b=4, **strides).problem
        assert dict(problem.sizes) == {"b": 4, "m": 64, "n": 256, "k": 128} and problem.options["trans_b"] == 1

    @pytest.mark.parametrize(
        ("problem", "why"),
        [
            ({"mat1_dtype": "float32"}, "float32 without using_tf32"),
            ({"mat1_stride_0": 256, "mat1_stride_1": 2}, "neither axis of an operand is contiguous"),
            ({"mat1_stride_0": 0}, "the rows of an operand overlap"),
            ({"m": np.nan}, "it has no 'm'"),
        ],
    )
    def test_a_problem_that_says_too_little(self, problem: dict[str, Any], why: str, tmp_path: Path) -> None:
        logged(tmp_path, MM | problem)
        cases, (remark,) = both(tmp_path)
        assert not cases and f"1 of 1 problems passed over, the first: {why}" in remark.text


class TestPacked:
    ROWS = ([[0, 1.0], [1, None, "failed"]],)
    CONFIGS = ({"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "num_stages": 2}, {"BM": 128, "BN": 64, "BK": 64,
               "num_warps": 4, "num_stages": 3})  # fmt: skip

    @pytest.mark.parametrize(
        ("shape", "kernel", "expected"),
        [
            ({"dtype": "float16"}, None, ("float16", 0, 1, 1)),
            ({"dtype": "fp8"}, "row-major A[M,K] times B stored as [N, K]", ("float8_e4m3", 0, 1, 1)),
            ({"dtype": "bf16", "batch": 3}, "A[B,K,M] times B[B,K,N]", ("bfloat16", 1, 0, 3)),
            ({"dtype": "float32"}, "A[M,K] B[K,N]", ("tf32", 0, 0, 1)),
            ({"dtype": "float32"}, "A[M,K] B[K,N], input_precision ieee", ("float32", 0, 0, 1)),
            ({"dtype": "int8", "trans_B": False}, None, ("int8", 0, 0, 1)),
        ],
    )
    def test_gemm(self, shape: dict[str, Any], kernel: str | None, expected: tuple[Any, ...], tmp_path: Path) -> None:
        result = {"shape": {"M": 64, "N": 128, "K": 256, **shape}, "rows": self.ROWS[0]}
        packed(tmp_path, [result], self.CONFIGS, **({"kernel": kernel} if kernel else {}))
        (case,) = read(tmp_path)
        p = case.problem
        assert (p.dtypes["A"], p.options["trans_a"], p.options["trans_b"], p.sizes["b"]) == expected
        assert case.reference_s is None and np.isnan(case.seconds[1])

    def test_memory(self, tmp_path: Path) -> None:
        tile = [{"BR": 1, "BC": 1024, "num_warps": 4}]
        operators = ("softmax", "layernorm", "rms_norm", "row_sum", "col_max", "welford")
        shape = {"R": 64, "C": 1024, "dtype": "bfloat16"}
        results = [{"problem": {"op": op, **shape}, "rows": [[0, 1.0]], "torch_ms": 2.0} for op in operators]
        results.append({"problem": {"op": "relu", "n": 4096, "dtype": "fp16"}, "rows": [[0, 1.0]]})
        configs = dict.fromkeys(operators, tile) | {"relu": [{"BLOCK": 1024, "num_warps": 4}]}
        packed(tmp_path, results, configs)
        cases, (remark,) = both(tmp_path)
        assert [(c.problem.operator, c.problem.options.get("reduce_op")) for c in cases] == [
            *(("reduction", op) for op in (3, 4, 5, 0, 1)), ("elementwise", None)
        ]  # fmt: skip
        assert "no operator 'welford'" in remark.text and all(case.ranked() for case in cases)

    def test_problems_of_other_programs_are_passed_over(self, tmp_path: Path) -> None:
        packed(tmp_path, [{"problem": [4096, 4096, 8192], "rows": [[0, 1.0]]}], {})
        cases, (remark,) = both(tmp_path)
        assert not cases and not remark.broken
        assert "its problem is an object with an op, got [4096, 4096, 8192]" in remark.text

    def test_a_word_of_a_problem_that_nothing_reads(self, tmp_path: Path) -> None:
        shape = {"M": 64, "N": 64, "K": 64, "dtype": "float16", "epilogue": "gelu"}
        packed(tmp_path, [{"shape": shape, "rows": self.ROWS[0]}], self.CONFIGS)
        assert "nothing reads epilogue of a problem" in both(tmp_path)[1][0].text


class TestSolutions:
    def test_matrix_and_vector_units_in_one_list(self) -> None:
        vector = {"MT0": 64, "MT1": 32, "WG0": 16, "WG1": 8, "DepthU": 8, "GRVW": 2, "SRVW": 4, "MI": ""}
        matrix = solution(MATRIX | {"VW": 4})
        assert matrix is not None and matrix["MIM"] == 32 and not matrix.keys() & {"VW", "WG0"}
        assert solution(vector) == {
            "VW": 2, "WG0": 16, "WG1": 8, "DepthU": 8, "GRVW": 2, "PAD": 0, "TT0": 4, "TT1": 4
        }  # fmt: skip

    @pytest.mark.parametrize("change", [{"MI": "32x32x4x2"}, {"WG1": 8}, {"WG2": 2}])
    def test_waves_that_no_profile_has(self, change: dict[str, Any]) -> None:
        assert solution(MATRIX | change) is None
