"""Tables of CLBlast and Tensile through their adapters, and what their profiles make of single configurations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import adapters as tables
from benchmarks.adapters import tensile
from carver.arch.devices import load
from carver.base.errors import ConfigError
from carver.calibrate.summary import geometric_mean, score
from carver.calibrate.tables import Case
from carver.cost import tile
from carver.cost.model import read_columns, resolve
from carver.cost.tile import Block, issue_per_clk
from carver.kernels.declaration import kernels
from carver.kernels.enumeration import enumerate_space
from carver.kernels.space import given_space
from carver.ops.matmul import MatmulTemplate
from carver.ranking.recommend import rank

pd = pytest.importorskip("pandas")

XGEMM = {
    "MWG": 64, "NWG": 32, "KWG": 16, "MDIMC": 16, "NDIMC": 8, "MDIMA": 16, "NDIMB": 8, "KWI": 2, "VWM": 4, "VWN": 2,
    "STRM": 0, "STRN": 1, "SA": 1, "SB": 0,
}  # fmt: skip
VECTOR = {"TT0": 4, "TT1": 8, "WG0": 16, "WG1": 8, "DepthU": 16, "GRVW": 2, "VW": 2}
MATRIX = {"MIM": 32, "TT0": 1, "TT1": 32, "MT0": 64, "MT1": 64, "DepthU": 16, "GRVW": 4, "SRVW": 2}


def columns(problem: Any, device: str, backend: str, config: dict[str, int]) -> dict[str, int]:
    """The schedule of one configuration."""
    ranking = rank(problem, load(device), [config], backend)
    space = ranking.table.parts[0].space
    return {name: int(np.asarray(value).reshape(-1)[0]) for name, value in space.columns.items()}


def seconds(problem: Any, device: str, backend: str, *configs: dict[str, int]) -> list[float]:
    """Predicted times in the order given."""
    ranking = rank(problem, load(device), configs, backend)
    by_place = dict(zip(ranking.indices, ranking.seconds, strict=True))
    return [float(by_place[i]) for i in range(len(configs))]


SQUARE = MatmulTemplate(1024, 1024, 1024, trans_A=True, in_dtype="float32").problem


# --- adapters --------------------------------------------------------------------------------------------------------


def write_clblast(folder: Path, **facts: Any) -> None:
    kept = [p for p in XGEMM if p not in ("KWG", "KWI", "STRM", "STRN")]
    rows = [XGEMM | {"VWM": v} for v in (1, 2, 4)]
    frame = pd.DataFrame(rows)[kept]
    frame["time_ms"], frame["time_med_ms"], frame["valid"] = [9.0, 4.0, 3.0], [5.0, 4.0, 3.0], [1, 1, 0]
    frame.to_csv(folder / "small.csv.gz", index=False)
    meta = {
        "op": "gemm", "gpu": "GeForce GTX TITAN X", "dtype": "fp32", "M": 64, "N": 128, "K": 256, "params": kept,
        "constants": {"KWG": 32, "KWI": 2, "STRM": 0, "STRN": 0, "PRECISION": 32},
    }  # fmt: skip
    (folder / "small.meta.json").write_text(json.dumps(meta | facts))


def test_clblast_csv(tmp_path: Path) -> None:
    write_clblast(tmp_path)
    (case,) = tables.read(tmp_path)
    assert case.arch.name == "titan_x_maxwell" and case.backend == "clblast" and case.table == "small"
    assert dict(case.problem.sizes) == {"b": 1, "m": 128, "n": 64, "k": 256}
    assert case.problem.options["trans_a"] == 1 and case.problem.options["trans_b"] == 0
    assert [c["VWM"] for c in case.configs] == [1, 2, 4]
    assert set(case.configs[0]) == set(XGEMM) and case.configs[0]["KWG"] == 32
    np.testing.assert_allclose(case.seconds, [5e-3, 4e-3, np.nan])


def test_clblast_packed(tmp_path: Path) -> None:
    params = np.array([list(XGEMM.values()), list((XGEMM | {"KWI": 8}).values())], np.int16)
    np.savez(tmp_path / "packed.npz", params=params, param_names=np.array(list(XGEMM)), time_ms=np.float32([2.0, 1.0]))
    meta = {"op": "gemm", "gpu": "NVIDIA GeForce GTX 680", "dtype": "fp32", "M": 512, "N": 512, "K": 512}
    (tmp_path / "packed.meta.json").write_text(json.dumps(meta))
    (case,) = tables.read(tmp_path)
    assert case.configs == [XGEMM, XGEMM | {"KWI": 8}] and case.arch.name == "gtx_680"
    assert case.best_s == pytest.approx(1e-3)
    assert score(case).runnable == (2, 0, 0, 0)


def test_clblast_without_data(tmp_path: Path) -> None:
    write_clblast(tmp_path)
    (tmp_path / "small.csv.gz").unlink()
    with pytest.raises(ConfigError, match=r"small\.csv\.gz"):
        list(tables.read(tmp_path))


def write_tensile(folder: Path, solutions: list[dict[str, Any]], gflops: list[list[float]], **facts: Any) -> None:
    sizes = np.array([[100, 8, 2, 16], [512, 256, 1, 1024]], np.int32)[: len(gflops)]
    np.savez(folder / "tiny.npz", TN_sizes=sizes, TN_gflops=np.array(gflops), TN_flops=sizes.prod(axis=1) * 2)
    pd.DataFrame(solutions).to_csv(folder / "tiny_TN_solutions.csv.gz", index_label="sid")
    meta = {"dataset": "Tensile log", "gpu": "AMD Instinct MI100 (gfx908)", "dtype": "fp32 (MFMA)", "arch": "gfx908"}
    (folder / "tiny.meta.json").write_text(json.dumps(meta | facts))


def test_tensile_matrix(tmp_path: Path) -> None:
    solution = {k: v for k, v in MATRIX.items() if k != "MIM"} | {"MI": "32x32x2x1", "GSU": 3, "LPA": 2, "LPB": 2}
    write_tensile(tmp_path, [solution, solution | {"MI": "16x16x4x1", "TT1": 16}], [[10.0, 0.0], [1000.0, 2000.0]])
    first, second = tables.read(tmp_path)
    assert dict(first.problem.sizes) == {"b": 2, "m": 8, "n": 100, "k": 16}
    assert first.problem.options["trans_a"] == 0 and first.problem.options["trans_b"] == 1
    np.testing.assert_allclose(first.seconds, [2 * 100 * 8 * 2 * 16 / 10e9, np.nan])
    np.testing.assert_allclose(second.seconds, np.array([1 / 1000e9, 1 / 2000e9]) * 2 * 512 * 256 * 1024)
    assert first.configs == [MATRIX | {"GSU": 3, "PAD": 2}, MATRIX | {"GSU": 3, "PAD": 2, "MIM": 16, "TT1": 16}]
    assert first.configs is second.configs
    assert [c.group for c in (first, second)] == ["TN", "TN"]


def test_tensile_vector_without_thread_tiles(tmp_path: Path) -> None:
    solution = {"MT0": 64, "MT1": 64, "WG0": 16, "WG1": 8, "DepthU": 16, "GRVW": 4, "GSU": None, "PGR": 0}
    vega = {"gpu": "AMD Vega20 (gfx906: MI50 class)", "arch": "gfx906"}
    write_tensile(tmp_path, [solution], [[5.0]], dtype="fp16 in/out", **vega)
    (case,) = tables.read(tmp_path)
    assert case.arch.isa == "gfx906" and case.problem.dtypes["A"] == "float16"
    assert case.configs == [
        {"TT0": 4, "TT1": 8, "WG0": 16, "WG1": 8, "DepthU": 16, "GRVW": 4, "VW": 4, "PGR": 0, "PAD": 0}
    ]
    assert score(case).runnable == (1, 0, 0, 0)


def test_solutions_at_defaults_are_left_out() -> None:
    row = {"TT0": 4, "TT1": 4, "WG0": 16, "WG1": 16, "DepthU": 8, "GRVW": 2, "VW": 2}
    assert tensile.solution(row) == row | {"PAD": 0}


# --- profiles: columns worked out by hand ----------------------------------------------------------------------------


def test_clblast_columns() -> None:
    got = columns(SQUARE, "gtx_680", "clblast", XGEMM)
    expected = {
        "tile_m": 32, "tile_n": 64, "tile_k": 16, "threads": 128, "warps": 4, "thread_m": 4, "thread_n": 4,
        "lanes_n": 16, "lanes_m": 2, "smem_bytes": 4 * 16 * 64, "registers": 48, "prefetched": 0,
    }  # fmt: skip
    assert {name: got[name] for name in expected} == expected


def test_tensile_vector_columns() -> None:
    got = columns(SQUARE, "mi50", "tensile", VECTOR)
    # 64 rows and 64 columns of 16 steps are 8 KiB; the second buffer starts at the next power of two
    expected = {
        "tile_m": 64, "tile_n": 64, "warps": 2, "lanes_n": 16, "lanes_m": 4, "smem_bytes": 16384, "fetched": 16,
        "registers": 12 + 32 + 16 + 24, "vector_m": 2, "vector_n": 2,
    }  # fmt: skip
    assert {name: got[name] for name in expected} == expected


def test_tensile_matrix_columns() -> None:
    got = columns(SQUARE, "mi100", "tensile", MATRIX)
    expected = {
        "tile_m": 64, "tile_n": 64, "warps_m": 2, "warps_n": 2, "threads": 256, "accumulators": 16, "fetched": 8,
        "smem_bytes": 16384, "fragment_conflicts": 1, "store_run_bytes": 128, "split": 1,
    }  # fmt: skip
    assert {name: got[name] for name in expected} == expected
    assert columns(SQUARE, "mi100", "tensile", MATRIX | {"SRVW": 0})["store_run_bytes"] == 16


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"KWI": 3}, "the unroll divides the step"),
        ({"VWM": 8}, "thread tiles are whole vectors"),
        ({"VWN": 4, "NDIMB": 16}, "fetches are whole vectors"),
        ({"KWG": 4, "MDIMA": 8, "KWI": 2}, "fetches divide the step"),
    ],
)
def test_clblast_rules(change: dict[str, int], reason: str) -> None:
    kernel = rank(SQUARE, load("gtx_680"), [XGEMM], "clblast").table.parts[0].space.kernel
    _, why = given_space(SQUARE, load("gtx_680"), kernel, [XGEMM | change])
    assert list(why) == [0] and why[0].rule == reason and "must be 0" in why[0]


def test_clblast_rules_leave_what_the_tuner_found_feasible() -> None:
    """CLTune's own count for this kernel on this device, as published with its measurements."""
    kernel = rank(SQUARE, load("gtx_680"), [XGEMM], "clblast").table.parts[0].space.kernel
    assert len(enumerate_space(SQUARE, load("gtx_680"), kernel)) == 241_600


def test_matrix_profile_needs_a_matrix_unit() -> None:
    kernels = {hint.kernel for hint in rank(SQUARE, load("mi100"), [VECTOR, MATRIX], "tensile")}
    assert kernels == {"tensile", "tensile_mfma"}
    with pytest.raises(ConfigError):
        rank(SQUARE, load("mi50"), [MATRIX], "tensile")


# --- the load/store port ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "lanes", "words", "stride", "clk"),
    [
        ("titan_x_maxwell", 32, 1, 1, 1.0),  # a row of words: one pass
        ("titan_x_maxwell", 8, 1, 8, 2.0),  # every eighth word: 8 lanes on 4 banks
        ("titan_x_maxwell", 8, 4, 8, 8.0),  # four passes of 8 lanes, two turns each
        ("titan_x_maxwell", 8, 4, 4, 4.0),  # vectors side by side: four passes
        ("rtx_2080_ti", 32, 1, 1, 2.0),  # 16 lanes a clock
        ("gtx_680", 8, 1, 8, 1.0),  # banks of 8 bytes: one turn
        ("gtx_680", 32, 2, 2, 1.0),  # and a whole warp of pairs in a pass
        ("mi50", 64, 1, 1, 2.0),  # 64 lanes, 32 a pass
    ],
)
def test_read_of_the_fastest_axis(device: str, lanes: int, words: int, stride: int, clk: float) -> None:
    arrays = [np.array([float(v)]) for v in (lanes, words, stride)]
    assert tile.read_clk(load(device), *arrays, fastest=True, merge=2.0)[0] == pytest.approx(clk)


def test_neighbours_with_one_address_are_merged() -> None:
    arch, one = load("titan_x_maxwell"), np.ones(1)
    assert tile.read_clk(arch, 2 * one, 4 * one, 8 * one, fastest=False, merge=2.0)[0] == pytest.approx(2.0)
    assert tile.read_clk(arch, 4 * one, 4 * one, 16 * one, fastest=False, merge=2.0)[0] == pytest.approx(4.0)


def delivered(template: MatmulTemplate, backend: str, *configs: dict[str, int]) -> tile.Delivery:
    arch = load("h200")
    (kernel,) = [k for k in kernels("matmul", backend) if set(configs[0]) == set(k.tunables)]
    space, _ = given_space(template.problem, arch, kernel, configs)
    assert len(space) == len(configs)
    block = read_columns(Block, space, arch=arch, problem=template.problem)
    own = read_columns(tile.ThreadTile, space, whole=True)
    return tile.delivery(block, own, resolve(kernel, arch), np.ones(len(space)))


def test_rows_of_k_are_written_down_shared_memory_with_conflicts() -> None:
    """16 bytes of padding keep eight rows apart: elements of 16 rows of k share banks in pairs, of 32 in fours."""
    tile = dict(block_m=64, block_n=64, thread_m=8, thread_n=4, stages=1, group_m=8, split_k=1)
    deep = [tile | {"block_k": depth} for depth in (8, 16, 32)]
    along_k, along_rows = (
        delivered(MatmulTemplate(4096, 4096, 4096, trans_A=trans, trans_B=not trans, in_dtype="float32"), "cuda", *deep)
        for trans in (False, True)
    )
    more_clk = (along_k.port_clk - along_rows.port_clk) / (8, 16, 32)  # a warp fetches a vector a lane for each k
    lines, turns = np.array([16, 8, 4]), np.array([1, 2, 4])
    assert more_clk == pytest.approx((lines - 4) + (4 * turns - 4))


def test_an_operand_that_is_not_staged_waits_for_l2_once_a_product() -> None:
    one, both = XGEMM | {"SA": 0, "SB": 1}, XGEMM | {"SA": 0, "SB": 0}
    got = delivered(MatmulTemplate(4096, 4096, 4096, trans_A=True, in_dtype="float32"), "clblast",
                    XGEMM | {"SA": 1, "SB": 1}, one, both)  # fmt: skip
    waits = resolve(next(iter(kernels("matmul", "clblast"))), load("h200"))["load_waits"]
    assert got.exposed.tolist() == pytest.approx([0.0, 16 * waits, 16 * waits])


def test_load_past_an_l1_that_keeps_nothing_takes_its_sectors() -> None:
    eight = [np.array([v]) for v in (8.0, 1.0, 8.0)]
    clk, moved = tile.cached_clk(load("gtx_680"), *eight, fastest=True)
    assert moved[0] == 8 * 32 and clk[0] == pytest.approx(8 * 32 / 32)
    assert tile.cached_clk(load("titan_x_maxwell"), *eight, fastest=True)[0][0] == pytest.approx(2.0)


def test_wave_of_64_keeps_its_simd_for_four_clocks() -> None:
    assert issue_per_clk(load("mi100")) == 1.0
    assert issue_per_clk(load("rtx_2080_ti")) == 4.0


# --- order of configurations -----------------------------------------------------------------------------------------

WIDE = XGEMM | {"MWG": 128, "NWG": 64, "SB": 1, "VWM": 2, "STRM": 1}


@pytest.mark.parametrize(
    ("device", "backend", "faster", "slower"),
    [
        ("titan_x_maxwell", "clblast", WIDE, XGEMM | {"MWG": 16, "NWG": 16, "VWM": 1, "SB": 1}),  # reuse in registers
        ("gtx_680", "clblast", WIDE, WIDE | {"SA": 0, "STRM": 0}),  # Kepler does not keep global loads in L1
        ("titan_x_maxwell", "clblast", WIDE, WIDE | {"STRM": 0, "VWM": 1}),  # bank conflicts
        ("mi100", "tensile", MATRIX, MATRIX | {"GSU": 2}),  # a full device gains nothing from a split
        ("mi100", "tensile", MATRIX, MATRIX | {"SRVW": 0}),  # stores of 16 bytes
    ],
)
def test_order(device: str, backend: str, faster: dict[str, int], slower: dict[str, int]) -> None:
    fast, slow = seconds(SQUARE, device, backend, faster, slower)
    assert fast < slow


def test_sums_beyond_the_registers_spill() -> None:
    fits = WIDE | {"NDIMC": 16, "NDIMB": 16}  # 32 sums of 63 registers
    spills = WIDE | {"NDIMC": 8, "NDIMB": 16}  # 64
    kepler, maxwell = (seconds(SQUARE, device, "clblast", fits, spills) for device in ("gtx_680", "titan_x_maxwell"))
    assert kepler[1] > 3 * kepler[0] and maxwell[1] < 1.5 * maxwell[0]


def test_split_pays_where_the_device_idles() -> None:
    deep = MatmulTemplate(64, 128, 16384, trans_B=True, in_dtype="float32").problem
    whole, split = seconds(deep, "mi100", "tensile", MATRIX, MATRIX | {"GSU": 15, "SRVW": 0})
    assert split < whole


def test_ranking_ten_thousand_is_quick(tmp_path: Path) -> None:
    import time

    many = [MATRIX | {"GSU": g, "WGM": w, "DepthU": d, "SU": s} for g in range(1, 26) for w in range(1, 26)
            for d in (8, 16) for s in range(8)]  # fmt: skip
    case = Case("many", SQUARE, load("mi100"), "tensile", many, np.ones(len(many)))
    case.ranked()
    start = time.process_time()
    ranking = case.ranked()
    assert ranking is not None and len(ranking) == 10_000
    assert time.process_time() - start < 2.0


HEADER = "operator,arch,backend,M,N,K,config.BLOCK_M,config.BLOCK_N,config.BLOCK_K,config.num_warps,config.num_stages,"
ROW = "matmul,h200,triton,4096,4096,4096,128,128,64.0,4,3,"


def test_a_csv_may_have_common_spellings_and_spaces(tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    text = f"{HEADER}time_ms\n{ROW}0.2\n"
    plain.write_text(text)
    other.write_text(text.replace("config.BLOCK_M", "config.BLOCK_SIZE_M").replace(",", ", "))
    [one], [two] = tables.read(plain), tables.read(other)
    assert (one.problem, one.arch, one.backend, one.configs) == (two.problem, two.arch, two.backend, two.configs)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{HEADER}time_ms\n{ROW}0.2\n{ROW}abc\n", "line 3, column time_ms: takes milliseconds above 0; got 'abc'"),
        (f"{HEADER}time_ms\n{ROW}\n", "line 2, column time_ms"),
        (f"{HEADER}time_ms\n{ROW}-1\n", "got '-1'"),
        (f"{HEADER}time_ms,valid\n{ROW}0.2,yes\n", "column valid: takes 1, or 0"),
        (f"{HEADER}time_ms\n{ROW.replace('64.0', 'x')}1\n", "column config.BLOCK_K: takes a whole number, got 'x'"),
        (f"{HEADER}time_ms\n{ROW.replace('64.0', '')}1\n", "has only config.BLOCK_M, config.BLOCK_N, config.num"),
        (f"{HEADER.replace('BLOCK_K', 'BLOCK_L')}time_ms\n{ROW}1\n", "column config.BLOCK_L: no tunable of Triton"),
        (f"{HEADER.replace('BLOCK_K', 'BLOCK_L')}time_ms\n{ROW}1\n", "or call it note.BLOCK_L if it does not matter"),
        (f"{HEADER.replace('BLOCK_K', 'BM')}time_ms\n{ROW}1\n", "line 2: two keys of BLOCK_M, BLOCK_N, BM"),
        (f"{HEADER.replace(',M,', ',Mm,')}time_ms\n{ROW}1\n", "column Mm: no argument of matmul"),
        (f"{HEADER}time_ms\n{ROW.replace('4096', '', 1)}1\n", "matmul needs a value in column M"),
        (f"{HEADER}time_ms\n{ROW.replace('4096', '-4', 1)}1\n", "line 2: size M must be a whole number"),
        (f"{HEADER}time_ms\n{ROW.replace('h200', 'h300')}1\n", "line 2: no arch named 'h300'"),
        (f"{HEADER}time_ms\n{ROW.replace('triton', 'tritn')}1\n", "no kernel for backend 'tritn'"),
        (f"{HEADER}time_ms\n{ROW.replace('matmul', 'matmull')}1\n", "column operator: no operator 'matmull'"),
        (f"{HEADER}time_ms\n{ROW}1,2,3\n", "line 2: the row must have a cell for each of the header's 12 columns"),
        (f"{HEADER}time_ms\n", "a header and no rows"),
        ("operator,M\nmatmul,2\n", "lacks arch, backend, time_ms and has operator, M"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_csv_is_named_by_line_and_column(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        list(tables.read(path))
    assert str(caught.value).startswith(str(path))


def test_a_csv_may_leave_the_time_of_what_did_not_run_empty(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"{HEADER}time_ms,valid\n{ROW}0.2,1\n{ROW},0\n{ROW.replace('4096', '64')},0\n")
    (case,) = tables.read(path)  # the second problem has no time at all
    assert case.seconds.tolist()[0] == 0.2e-3 and np.isnan(case.seconds[1])
    assert case.configs[0]["BLOCK_K"] == 64


@pytest.mark.parametrize(
    ("head", "row", "axes"),
    [
        ("height,width,filter_height,filter_width,config.block_size_x,config.block_size_y,config.tile_size_x,"
         "config.tile_size_y", "conv2d,rtx_a4000,kernel_tuner,512,256,5,3,32,4,1,2", "yxrs"),
        ("trials,samples,channels,max_delay,config.block_size_x,config.block_size_y,config.tile_size_x,"
         "config.tile_size_y,config.tile_stride_x,config.tile_stride_y",
         "dedispersion,mi250x_gcd,kernel_tuner_hip,64,2048,128,100,32,32,1,1,0,0", "dth"),
        ("N,C,H,W,F,KH,KW,stride,pad,config.BLOCK_M,config.BLOCK_N,config.BLOCK_K,config.num_warps,config.num_stages",
         "conv,h200,triton,8,64,28,28,128,3,3,2,1,128,128,64,4,3", "npqfrsc"),
    ],
)  # fmt: skip
def test_a_csv_of_windows_and_delays(head: str, row: str, axes: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"operator,arch,backend,{head},time_ms\n{row},0.2\n")
    (case,) = tables.read(path)
    assert "".join(case.problem.sizes) == axes
    assert score(case).slowdown[1] == 1.0


def test_a_table_brings_its_own_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # wherever it is read from
    cases = list(tables.read(Path(__file__).parent / "data" / "cpu" / "matmul.csv"))
    assert {case.arch.name for case in cases} == {"amd_epyc"} and len(cases) == 9
    first = [score(case).slowdown[1] for case in cases]
    assert geometric_mean(first) < 1.15
