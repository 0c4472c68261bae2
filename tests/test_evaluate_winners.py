"""Lists of tuned winners: what is read of each form, and where carver's order has its winners."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.adapters import read, read_all
from benchmarks.adapters.lists import _tile_of
from benchmarks.adapters.winners import Pool, Winner, place, summarise
from carver.arch.devices import load
from carver.base.errors import ConfigError
from carver.calibrate.tables import Remark
from carver.ops.matmul import MatmulTemplate

ROOT = Path(__file__).parent.parent
GOOD = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
SMALL = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32, "num_warps": 2, "num_stages": 2}
LARGE = {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 256, "num_warps": 8, "num_stages": 5}  # shared memory refuses it


def winner(won: int, wins: tuple[int, ...] = (1, 3, 2)) -> Winner:
    problem = MatmulTemplate(4096, 4096, 4096).problem
    return Winner("list", problem, load("h200"), "triton", Pool([GOOD, SMALL, LARGE], wins), won)


def found(path: Path) -> tuple[list[Winner], list[str]]:
    remarks: list[Remark] = []
    made = [one for one in read_all(path, remarks.append) if isinstance(one, Winner)]
    assert not [remark for remark in remarks if remark.broken], remarks
    return made, [remark.text for remark in remarks]


class TestPlaces:
    def test_the_first_pick(self) -> None:
        at = place(winner(0))
        assert (at.percentile, at.loss, at.first, at.same_first_ten, at.refused) == (0.0, 1.0, True, True, False)
        assert (at.elsewhere, at.random) == (False, 1.0), "of the two that can run, ten draws take both"

    def test_a_slow_winner_costs_what_the_model_says(self) -> None:
        at = place(winner(1))
        assert at.percentile == pytest.approx(100 / 3) and at.loss > 2 and not at.first and at.first_ten

    def test_what_won_on_other_problems_leaves_this_one_out(self) -> None:
        assert place(winner(1, (0, 3, 1))).elsewhere
        assert not place(winner(1, (2, 2, 0))).elsewhere, "its own win does not count"

    def test_a_refused_winner_is_last(self) -> None:
        at = place(winner(2))
        assert (at.refused, at.percentile, at.first_ten) == (True, 100.0, False)

    def test_a_summary_is_by_list_and_device(self) -> None:
        (row,) = summarise([place(winner(i)) for i in range(3)])
        assert (row.device, row.problems, row.candidates) == ("h200_sxm", 3, 3.0)
        assert row.percentile == pytest.approx(100 / 3) and row.refused == pytest.approx(1 / 3)
        assert json.loads(json.dumps(row.to_dict()))["first"] == pytest.approx(1 / 3)


CONFIG = {
    "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 32, "num_warps": 4, "num_stages": 3,
}  # fmt: skip
LINEAR = "N=7168,K=2048,device_name=NVIDIA_H20,dtype=fp8_w8a8,block_shape=[128, 128].json"


def tuned(folder: Path, name: str = LINEAR, content: Any = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content or {"16": CONFIG, "1024": CONFIG | {"BLOCK_SIZE_M": 128}}))
    return folder


class TestServing:
    def test_a_folder_of_tuned_files_is_one_list(self, tmp_path: Path) -> None:
        tuned(tmp_path / "configs")
        tuned(tmp_path / "configs", LINEAR.replace("H20", "L40S").replace(", ", ","))
        made, remarks = found(tmp_path)
        assert [(one.table, one.arch.name, one.problem.sizes["m"]) for one in made] == [
            ("configs", "h20", 16), ("configs", "h20", 1024), ("configs", "l40s", 16), ("configs", "l40s", 1024),
        ]  # fmt: skip
        assert made[0].backend == "triton_block_fp8" and not remarks
        assert made[0].pool.configs[made[0].won] == {
            "BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 32, "num_warps": 4, "num_stages": 3,
        }  # fmt: skip
        assert made[0].pool.wins == [2, 2], "by configuration, on all devices"

    def test_what_is_passed_over_is_said(self, tmp_path: Path) -> None:
        tuned(tmp_path, "E=8,N=7168,device_name=NVIDIA_H20,dtype=fp8_w8a8.json")
        tuned(tmp_path, LINEAR.replace("H20", "H99"))
        made, remarks = found(tmp_path)
        assert not made
        assert remarks == [
            "2 of 4 winners passed over: fused mixtures of experts of which layers.json says no hidden and topk",
            "2 of 4 winners passed over: no descriptor for NVIDIA_H99",
        ]

    def test_experts_of_a_layer_that_is_described(self, tmp_path: Path) -> None:
        tuned(tmp_path, "E=8,N=7168,device_name=NVIDIA_H200.json")
        tuned(tmp_path, "E=384,N=128,device_name=NVIDIA_H200,dtype=int4_w4a16.json")
        (tmp_path / "layers.json").write_text(json.dumps({
            "E=8,N=7168": {"hidden": 4096, "topk": 2},
            "E=384,N=128": {"hidden": 7168, "topk": 8, "intermediate": 256, "group_size": 32},
        }))  # fmt: skip
        made, remarks = found(tmp_path)
        assert not remarks and {one.backend for one in made} == {"triton"}
        sizes = [(one.problem.sizes["n"], one.problem.sizes["k"], one.problem.dtypes["B"]) for one in made]
        assert sizes == [(512, 7168, "int4")] * 2 + [(14336, 4096, "bfloat16")] * 2
        assert made[0].problem.options["scale_k"] == 32 and made[0].problem.options["routed_rows"] == 16 * 8
        assert [place(one).refused for one in made] == [False] * 4
        (tmp_path / "layers.json").write_text("[]")
        with pytest.raises(AssertionError, match=r"layers\.json is no object of layers"):
            found(tmp_path)

    @pytest.mark.slow
    def test_an_installed_package(self, tmp_path: Path) -> None:
        tuned(tmp_path / "served" / "configs")
        (tmp_path / "served" / "__init__.py").write_text("raise RuntimeError('imported')")
        command = [sys.executable, "benchmarks/tables.py", "evaluate", "served", "--json", "--workers", "1"]
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=env, timeout=60)
        (row,) = json.loads(done.stdout)["winners"]
        assert (row["device"], row["problems"]) == ("h20", 2)


class TestLists:
    @pytest.mark.parametrize(
        ("kernel", "tile"),
        [
            ("a8w8_blockscale_1x128x128_256x16x64x256_16x16_16x16_1x16x1x16_4_1x1_intrawave_v1", (16, 64, 256)),
            ("flydsl_gemm5_abf16_wbf16_bf16_t16x64x128_split_k2_block_m_warp1", (16, 64, 128)),
            ("_ZN5aiter39bf16gemm_fp32bf16_tn_64x64_splitk_cleanE", ()),
        ],
    )
    def test_tiles_in_names_of_kernels(self, kernel: str, tile: tuple[int, ...]) -> None:
        assert tuple(_tile_of(kernel)[name] for name in ("block_m", "block_n", "block_k") if _tile_of(kernel)) == tile

    def test_aiter(self, tmp_path: Path) -> None:
        (tmp_path / "a8w8_blockscale_tuned_gemm.csv").write_text(
            "cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops\n"
            "304,16,1536,7168,8,0,19.3,a8w8_blockscale_1x128x128_256x16x64x256_16x16_16x16_4_1x1_intrawave_v1,18\n"
            "304,16,1536,7168,8,0,19.3,a8w8_asm_64x64,18\n"
        )
        made, remarks = found(tmp_path)
        assert [(one.arch.name, one.problem.dtypes["A"]) for one in made] == [("mi300x", "float8_e4m3fnuz")]
        assert made[0].pool.configs == [
            {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 256, "num_warps": 4, "num_stages": 2, "SPLIT_K": 1}
        ]
        assert remarks == ["1 of 2 winners passed over: no tile in their kernels' names"]

    def test_streamk(self, tmp_path: Path) -> None:
        pytest.importorskip("yaml")
        tile = "BLOCK_SIZE_M: 128, BLOCK_SIZE_N: 128, BLOCK_SIZE_K: 64, GROUP_SIZE_M: 4, NUM_SMS: 304, num_warps: 8"
        (tmp_path / "tuned.yaml").write_text(
            f"- {{M: 4096, N: 512, K: 1024, rowMajorA: T, rowMajorB: N, {tile}, num_stages: 0, waves_per_eu: 0}}\n"
        )
        (one,), _ = found(tmp_path)
        assert (one.arch.name, one.problem.sizes["m"], one.pool.configs[0]["num_stages"]) == ("mi300x", 4096, 1)

    @pytest.mark.parametrize(
        ("isa", "name"),
        [
            ("gfx908", "mi100"), ("gfx942", "mi300x"), ({"Architecture": "gfx942", "CUCount": 80}, "mi308x"),
            ({"Architecture": "gfx90a", "CUCount": 104}, "mi210"), ({"Architecture": "gfx942", "CUCount": 38}, ""),
        ],
    )  # fmt: skip
    def test_logic_files(self, tmp_path: Path, isa: object, name: str) -> None:
        yaml = pytest.importorskip("yaml")
        matrix = {
            "SolutionIndex": 7, "MatrixInstruction": [32, 32, 8, 1], "MIWaveTile": [1, 3], "MacroTile0": 64,
            "MacroTile1": 192, "DepthU": 32, "GlobalSplitU": 1, "WorkGroup": [64, 4, 1], "ThreadTile": [1, 96],
            "WorkGroupMapping": 8, "GlobalReadVectorWidth": 8, "PrefetchGlobalRead": 2, "StaggerU": 0, "1LDSBuffer": 1,
            "PrefetchLocalRead": 1,
        }  # fmt: skip
        kind = {"DataType": 4, "HighPrecisionAccumulate": True, "TransposeA": False, "TransposeB": True}
        sizes = [[[4096, 512, 1, 1024], [7, 90.0]], [[128, 128, 1, 128], [9, 1.0]]]
        logic = [{"MinimumRequiredVersion": "4.6.0"}, "arcturus", isa, [], kind, [matrix], [2, 3, 0, 1], sizes]
        (tmp_path / "arcturus_Cijk_Ailk_Bjlk_HHS_BH.yaml").write_text(yaml.safe_dump(logic))
        if not name:
            said: list[Remark] = []
            assert not list(read_all(tmp_path, said.append))
            assert [one.text for one in said if "no descriptor of a device of gfx942 with 38 compute units" in one.text]
            return
        (one,), remarks = found(tmp_path)
        assert one.arch.name == name and one.problem.sizes["n"] == 4096, "rows and columns change places"
        (config,) = one.pool.configs
        assert {name: config[name] for name in ("MIM", "TT0", "TT1", "MT0", "MT1", "ONEBUF")} == {
            "MIM": 32, "TT0": 1, "TT1": 96, "MT0": 64, "MT1": 192, "ONEBUF": 1,
        }  # fmt: skip
        assert not place(one).refused
        assert remarks == ["1 of 2 winners passed over, the first: a solution or a type that is not in the file"]

    @pytest.mark.parametrize(
        ("wide", "named", "layout"), [(True, {}, 2), (False, {}, 1), (True, {"LocalDotLayout": 1}, 1)]
    )
    def test_halves_added_in_float32_are_dot_products(
        self, tmp_path: Path, wide: bool, named: dict[str, int], layout: int
    ) -> None:
        yaml = pytest.importorskip("yaml")
        vector = {
            "SolutionIndex": 0, "MatrixInstruction": [], "MacroTile0": 128, "MacroTile1": 64, "DepthU": 16,
            "GlobalSplitU": 1, "WorkGroup": [16, 8, 1], "ThreadTile": [8, 8], "WorkGroupMapping": 8, "VectorWidth": 8,
            "GlobalReadVectorWidth": 8, "PrefetchGlobalRead": 1, "StaggerU": 0, "1LDSBuffer": 0,
        }  # fmt: skip
        kind = {"DataType": 4, "HighPrecisionAccumulate": wide, "TransposeA": False, "TransposeB": True}
        sizes = [[[4096, 512, 1, 1024], [0, 90.0]]]
        logic = [{}, "navi21", "gfx1030", [], kind, [vector | named], [2, 3, 0, 1], sizes]
        (tmp_path / "navi21_Cijk_Ailk_Bjlk_HHS_BH.yaml").write_text(yaml.safe_dump(logic))
        (one,), _ = found(tmp_path)
        assert one.pool.configs[0]["LDL"] == layout

    def test_a_list_is_no_measured_table(self, tmp_path: Path) -> None:
        assert list(read(tuned(tmp_path))) == []

    def test_one_tuned_file_alone_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="give the folder"):
            list(read_all(tuned(tmp_path) / LINEAR))
