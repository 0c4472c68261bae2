"""TileLang: its kernel as the compiler builds it, its measured times, and its tuning example with carver in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import carver
from benchmarks.adapters import read
from carver.base.errors import ConfigError, ProblemError
from carver.export import tilelang

OP = carver.MatmulTemplate(256, 3584, 8192, trans_B=True).with_arch("h200")
KEYS = ("block_M", "block_N", "block_K", "num_stages", "thread_num", "enable_rasteration")


def config(*values: int) -> dict[str, int]:
    return dict(zip(KEYS, values, strict=False)) | ({"enable_rasteration": False} if len(values) < 6 else {})


@pytest.mark.parametrize(
    ("values", "registers", "threads"),
    [
        # what ptxas of CUDA 13 reports of the code that TileLang 0.1.15 generates for sm_90a
        ((64, 128, 64, 3, 128), 240, 256),
        ((64, 64, 32, 2, 128), 240, 256),
        ((128, 128, 64, 3, 256), 168, 384),
        ((192, 128, 64, 3, 384), 128, 512),
    ],
)
def test_a_block_with_a_producer_takes_the_whole_register_file(
    values: tuple[int, ...], registers: int, threads: int
) -> None:
    hint = OP.rank([config(*values)], backend="tilelang")[0]
    assert (hint.launch.registers, hint.launch.threads) == (registers, threads)
    assert hint.details["blocks_per_sm"] == 1


@pytest.mark.parametrize(
    ("values", "registers"),
    [
        ((64, 64, 32, 0, 128), 96), ((128, 128, 64, 0, 128), 214), ((64, 64, 64, 0, 256), 78),
        ((64, 256, 64, 0, 128), 228),
    ],
)
def test_registers_without_a_pipeline_are_near_the_compilers(values: tuple[int, ...], registers: int) -> None:
    hint = OP.rank([config(*values)], backend="tilelang")[0]
    assert hint.launch.registers == pytest.approx(registers, rel=0.25)
    assert hint.launch.threads == values[4]


@pytest.mark.parametrize(("stages", "buffers"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_every_stage_has_its_buffer(stages: int, buffers: int) -> None:
    hint = OP.rank([config(128, 128, 64, stages, 256)], backend="tilelang")[0]
    barriers = 1024 if stages else 0
    assert hint.launch.smem_bytes == buffers * 64 * (128 + 128) * 2 + barriers


def test_the_result_passes_through_the_same_shared_memory() -> None:
    hint = OP.rank([config(256, 128, 32, 0, 256)], backend="tilelang")[0]
    assert hint.launch.smem_bytes == 256 * 128 * 2 > 32 * (256 + 128) * 2


def test_what_its_compiler_refuses_is_refused() -> None:
    ranking = OP.rank([config(64, 28, 128, 2, 128), config(64, 32, 128, 2, 128)], backend="tilelang")
    assert ranking.reasons == {0: "a warp multiplies 8 columns at a time (block_N % 8 is 4, must be 0)"}


MEASURED_US = {
    # C[256,3584] over K=8192 in float16 on an H200, TileLang 0.1.15, median with a cold L2
    (64, 128, 64, 3, 128): 56.5, (64, 128, 64, 2, 128): 74.9, (64, 128, 64, 1, 128): 130.8,
    (64, 128, 64, 0, 128): 136.5, (128, 128, 64, 3, 128): 64.6, (128, 128, 64, 3, 256): 66.2,
    (256, 128, 64, 3, 256): 84.8,
    (64, 64, 64, 3, 128): 90.8, (64, 64, 32, 3, 128): 136.4, (64, 64, 32, 1, 128): 311.8, (256, 256, 64, 3, 256): 546.6,
    (256, 128, 64, 3, 128): 339.5, (128, 256, 32, 2, 128): 779.9,
}  # fmt: skip


def test_the_order_is_the_measured_one() -> None:
    from scipy.stats import spearmanr

    ranking = OP.rank([config(*c) for c in MEASURED_US], backend="tilelang")
    measured = np.array(list(MEASURED_US.values()))[ranking.indices]
    assert ranking.indices[0] == 0
    assert spearmanr(ranking.seconds, measured).statistic > 0.9
    assert np.median(np.abs(np.log(ranking.seconds * 1e6 / measured))) < 0.15


def test_a_table_of_its_example_is_read(tmp_path: Path) -> None:
    rows = [[i, t * 1e-3] for i, t in enumerate(MEASURED_US.values())] + [[len(MEASURED_US), None, "InternalError"]]
    table = {
        "device": "NVIDIA H200",
        "results": [{
            "shape": [256, 3584, 8192], "rows": rows, "cublas_ms": 0.0357,
            "configs": [config(*c) for c in MEASURED_US] + [config(64, 28, 128, 2, 128)],
        }],
    }  # fmt: skip
    with gzip.open(tmp_path / "any.json.gz", "wt") as file:
        json.dump(table, file)
    [case] = read(tmp_path)
    assert case.backend == "tilelang" and case.arch.name == "h200_sxm"
    assert case.best_s == pytest.approx(56.5e-6) and np.isnan(case.seconds[-1])
    assert case.problem == OP.problem


def get_configs(M: int, N: int, K: int, topk: int, backend: str | None) -> list[dict[str, object]]:
    """The shape of the function that TileLang's example builds its candidate list with."""
    from carver.arch import CUDA
    from carver.roller.rasterization import NoRasterization
    from carver.template import MatmulTemplate

    arch = CUDA("h200")
    carve_template = MatmulTemplate(
        M=M, N=N, K=K, in_dtype="float16", out_dtype="float16", accum_dtype="float32"
    ).with_arch(arch)
    func = carve_template.equivalent_function()
    assert func is not None, "Function is None"
    asked = {} if backend is None else {"backend": backend}
    roller_hints = carve_template.recommend_hints(topk=topk, **asked)  # type: ignore[arg-type]
    if roller_hints is None:
        raise ValueError("No Roller Hints Found for TensorCore Scheduling")
    configs = []
    for hint in roller_hints:
        block_m, block_n = hint.block
        warp_m, warp_n = hint.warp
        block_rows, block_cols = block_m // warp_m, block_n // warp_n
        configs.append({
            "block_M": block_m, "block_N": block_n, "block_K": hint.rstep[0],
            "num_stages": hint.pipeline_stage if hint.pipeline_stage > 1 else 0,
            "thread_num": block_rows * block_cols * 32,
            "enable_rasteration": hint.rasterization_plan is not NoRasterization,
        })  # fmt: skip
    return configs


@pytest.mark.parametrize("backend", [None, "tilelang"])
@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (1000, 1000, 4096), (64, 4096, 16384)])
def test_its_example_builds_a_list_that_its_kernel_takes(sizes: tuple[int, int, int], backend: str | None) -> None:
    configs = get_configs(*sizes, topk=10, backend=backend)
    assert len(configs) == 10
    op = carver.MatmulTemplate(*sizes).with_arch("h200")
    assert len(op.rank(configs, backend="tilelang")) == 10
    if backend:  # what the example derives is what the exporter gives
        assert configs == op.recommend_hints(10, backend="tilelang").to_tilelang()


def test_equivalent_function_is_the_operator() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((1, 5, 7)), rng.standard_normal((1, 3, 7))
    f = carver.MatmulTemplate(5, 3, 7, trans_B=True).equivalent_function()
    assert np.allclose(f(a, b)[0], a[0] @ b[0].T)
    with pytest.raises(ConfigError, match="takes 2 arrays, got 1"):
        f(a)
    with pytest.raises(ProblemError, match="plain axes"):
        carver.Conv2DTemplate(8, 8, 3, 3).equivalent_function()


def test_to_tilelang_renames_drops_and_comes_back() -> None:
    hints = OP.recommend_hints(5, backend="tilelang")
    names = {"block_M": "BM", "enable_rasteration": ""}
    configs = hints.to_tilelang(names=names)
    assert set(configs[0]) == {"BM", "block_N", "block_K", "num_stages", "thread_num"}
    assert isinstance(hints.to_tilelang()[0]["enable_rasteration"], bool)
    back = [tilelang.from_config(c, {"block_M": "BM"}) for c in hints.to_tilelang(names={"block_M": "BM"})]
    assert OP.rank(back, backend="tilelang").indices == [0, 1, 2, 3, 4]
    with pytest.raises(ConfigError, match="names maps 'BLOCK_M'"):
        hints.to_tilelang(names={"BLOCK_M": "bm"})
    with pytest.raises(ConfigError, match="recommend_hints\\(backend='tilelang'\\)"):
        OP.recommend_hints(2, backend="triton").to_tilelang()


def test_tilelangs_own_spellings_are_read() -> None:
    op = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200")
    ours = {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": 3, "thread_num": 256, "enable_rasteration": 1}
    theirs = {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": 3, "threads": 256,
              "enable_rasterization": True, "policy": "Square", "k_pack": 1}  # fmt: skip
    ranking = op.rank([theirs], "tilelang")
    assert ranking[0].config == op.rank([ours], "tilelang")[0].config
    assert "not in the model, ranked as if not set: k_pack, policy" in ranking.notes
    short = op.rank([{"block_M": 128, "block_N": 128, "block_K": 64}], "tilelang")[0].config
    assert {short[key] for key in ("num_stages", "thread_num", "enable_rasteration")} == {2, 128, 0}
    assert tilelang.from_config(theirs) == {key: int(value) for key, value in ours.items()}
