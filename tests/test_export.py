"""Exports that need no other package: dicts, files, names, what is refused, and the commands."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import carver
from carver.base.errors import ConfigError, NoCandidates, ProblemError
from carver.cli.main import main
from carver.export import adopt, cutlass, helion, inductor, kernel_tuner, optuna, plain, tilelang, triton, vllm

H200 = carver.load_arch("h200")
OP = carver.MatmulTemplate(4096, 4096, 4096).with_arch(H200)
TRITON = OP.recommend_hints(8, backend="triton")
TILELANG = OP.recommend_hints(6, backend="tilelang")


def test_plain_forms_come_back() -> None:
    rows = json.loads(TRITON.to_json())
    assert [row["predicted_ms"] for row in rows] == [h.predicted_ms for h in TRITON]
    assert OP.rank(map(plain.from_config, rows)).indices == list(range(8))
    rows = list(csv.DictReader(io.StringIO(TRITON.to_csv(names={"BLOCK_M": "bm"}))))
    assert [int(row["rank"]) for row in rows] == list(range(1, 9)) and "bm" in rows[0]
    again = [plain.from_config(row) for row in csv.DictReader(io.StringIO(TRITON.to_csv()))]
    assert OP.rank(again).indices == list(range(8))
    source: dict[str, Any] = {}
    exec(plain.defaults({(4096, 4096, 4096): TRITON}, "TILES"), source)
    assert source["TILES"] == {(4096, 4096, 4096): dict(TRITON[0].config)}


@pytest.mark.parametrize(
    ("theirs", "names"),
    [
        (dict(BLOCK_SIZE_M=128, BLOCK_SIZE_N=256, BLOCK_SIZE_K=64, GROUP_SIZE_M=8, num_warps=8, num_stages=3), None),
        (dict(BM=128, BN=256, BK=64, GROUP=8, num_warps=8, num_stages=3), None),
        (dict(TM=128, TN=256, TK=64, GROUP_M=8, num_warps=8, num_stages=3),
         {"BLOCK_M": "TM", "BLOCK_N": "TN", "BLOCK_K": "TK"}),
        (dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=3, num_ctas=1, maxnreg=None),
         None),
    ],
)  # fmt: skip
def test_spellings_of_triton_keys(theirs: dict[str, Any], names: dict[str, str] | None) -> None:
    ours = dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=3)
    assert triton.from_config(theirs, names) == ours


def test_what_the_model_has_no_part_for_is_refused() -> None:
    config = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3)
    with pytest.raises(ConfigError, match="num_ctas=2 is not in the model"):
        triton.from_config(config | {"num_ctas": 2})
    assert triton.from_config(config | {"num_ctas": 2, "EVEN_K": True}, ignore=["num_ctas", "EVEN_K"]) == config


@pytest.mark.parametrize(
    ("config", "backend"),
    [
        (dict(BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=64, num_warps=4, num_stages=3), "triton"),
        (dict(block_sizes=[64, 64, 64], num_warps=4, num_stages=3, l2_groupings=[8]), "triton"),
        (dict(tile_shape=(128, 128, 64), cluster_shape=(1, 1, 1), stages=3), "tilelang"),
        (dict(mma_tiler_mn=(128, 128), cluster_shape_mn=(1, 1)), "tilelang"),
    ],
)
def test_rank_takes_the_dicts_of_other_tools(config: dict[str, Any], backend: str) -> None:
    [hint] = OP.rank([config], backend=backend)
    spelled = {"BLOCK_M": "BLOCK_SIZE_M", "BLOCK_N": "BLOCK_SIZE_N", "BLOCK_K": "BLOCK_SIZE_K"}
    read = adopt(config, backend)
    assert {ours: read[theirs] for ours, theirs in spelled.items() if theirs in read}.items() <= hint.config.items()
    assert {key: value for key, value in read.items() if key not in spelled.values()}.items() <= hint.config.items()
    assert adopt(dict(hint.config), backend) == dict(hint.config)


def test_helion_without_helion() -> None:
    given = dict(block_sizes=[64, 32, 128], num_warps=8, num_stages=2, l2_groupings=[4], loop_orders=[[1, 0]])
    assert helion.from_config(given, "nmk") == dict(
        BLOCK_N=64, BLOCK_M=32, BLOCK_K=128, num_warps=8, num_stages=2, GROUP_M=4
    )
    with pytest.raises(ConfigError, match="4 columns of tiles"):
        helion.from_config(given)
    for order in ([[0, 1, 2]], [[2, 0]], [[]]):
        with pytest.raises(ConfigError, match="loop_orders of two tiles"):
            helion.from_config(given | {"loop_orders": order})
    with pytest.raises(ConfigError, match="three tiles"):
        helion.from_config({"block_sizes": [64]})
    with pytest.raises(ConfigError, match="letters m, n and k"):
        helion.from_config(given, "mmk")


def test_helion_walks_down_the_columns_by_default() -> None:
    """Its generated code has `pid_0 = tl.program_id(0) % num_blocks_0`, of the axis that is opened first."""
    op = carver.MatmulTemplate(16384, 1024, 2048).with_arch("a100")
    given = dict(block_sizes=[128, 128, 64], num_warps=4, num_stages=3)
    down, along, grouped = (
        op.rank([given | more], backend="triton").seconds[0]
        for more in ({}, {"loop_orders": [[1, 0]]}, {"l2_groupings": [8]})
    )
    rows = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=4, num_stages=3)
    for seconds, group in ((down, 128), (along, 1), (grouped, 8)):
        assert seconds == op.rank([rows | {"GROUP_M": group}], backend="triton").seconds[0]
    assert down > along


@pytest.mark.parametrize("value", [64.5, "64.5", "x", None, float("nan"), float("inf"), [64]])
def test_configurations_of_other_tools_hold_whole_numbers(value: Any) -> None:
    for read, config in (
        (helion.from_config, {"block_sizes": [64, value, 32]}),
        (tilelang.from_config, {"block_M": value}),
        (inductor.from_config, {"block_m": value}),
    ):
        with pytest.raises(ConfigError, match=r"must be a whole number, got"):
            read(config)
    assert tilelang.from_config({"block_M": "64", "enable_rasteration": True}) == dict(block_M=64, enable_rasteration=1)


def test_no_target_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, pkgutil, importlib, carver.export as e\n"
    code += "for module in pkgutil.iter_modules(e.__path__): importlib.import_module(f'carver.export.{module.name}')\n"
    code += "assert len(list(pkgutil.iter_modules(e.__path__))) == 9\n"
    code += "targets = {'triton', 'tilelang', 'kernel_tuner', 'helion', 'optuna', 'torch', 'cutlass', 'vllm'}\n"
    code += "assert not targets & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_hint_of_another_kernel_is_refused() -> None:
    with pytest.raises(ConfigError, match="CUTLASS takes hints of backend 'tilelang' or 'triton' or 'cuda', got 'cpu'"):
        cutlass.configs(carver.MatmulTemplate(64, 64, 64, in_dtype="float32").with_arch("cpu_avx2").recommend_hints(2))
    with pytest.raises(ConfigError, match="no hints to export to CUTLASS"):
        cutlass.configs([])
    with pytest.raises(ConfigError, match="vector units"):
        op = carver.MatmulTemplate(512, 512, 512, in_dtype="float64").with_arch("rtx_4090")
        cutlass.configs(op.recommend_hints(1, backend="triton"))


def test_a_cluster_that_shares_what_it_loads_is_exported_to_cutlass() -> None:
    """Of carver's own kernel: two blocks, one below the other, as the first axis of CUTLASS's clusters has them."""
    hints = carver.MatmulTemplate(8192, 8192, 8192).with_arch("h100").recommend_hints(8, backend="cuda")
    found = {config["cluster_shape"] for config in cutlass.configs(hints)}
    assert found == {hint.cluster for hint in hints} and (2, 1, 1) in found


@pytest.mark.parametrize(
    ("arch", "schedule"),
    [("h200", "KernelTmaWarpSpecialized"), ("b200", "KernelTmaWarpSpecialized"), ("a100", "MainloopSm80CpAsync")],
)
def test_cutlass_schedules_follow_the_instruction_set(arch: str, schedule: str) -> None:
    op = carver.MatmulTemplate(8192, 8192, 8192).with_arch(arch)
    for config in cutlass.configs(op.recommend_hints(10, backend="triton")):
        assert config["kernel_schedule"].startswith(schedule)
        pair = "2Sm" in config["kernel_schedule"]
        assert config["cluster_shape"] == ((2, 1, 1) if pair else (1, 1, 1))
        cooperative = config["kernel_schedule"].endswith("Cooperative")
        assert not cooperative or config["tile_shape"][0] >= 128


@pytest.mark.parametrize(
    ("arch", "dtype", "schedule"),
    [
        ("b300", "float16", "KernelTmaWarpSpecialized"), ("jetson_agx_thor", "float16", "KernelTmaWarpSpecialized"),
        ("b300", "int8", "KernelScheduleAuto"), ("gb10", "float16", "MainloopSm80CpAsync"),
    ],
)  # fmt: skip
def test_cutlass_schedules_of_blackwell_follow_the_instruction_for_the_dtype(
    arch: str, dtype: str, schedule: str
) -> None:
    hints = carver.MatmulTemplate(8192, 8192, 8192, in_dtype=dtype).with_arch(arch).recommend_hints(20, "triton")
    for hint, config in zip(hints, cutlass.configs(hints), strict=False):
        assert config["kernel_schedule"].startswith(schedule)
        assert cutlass.use_2cta(hint) == ("2Sm" in config["kernel_schedule"])


@pytest.mark.parametrize("arch", ["mi300x", "v100", "gtx_1080_ti"])
def test_cutlass_has_nothing_for_devices_without_its_collectives(arch: str) -> None:
    with pytest.raises(ConfigError, match=r"CUTLASS has collectives .* compute capability 8\.0"):
        cutlass.closest(carver.load_arch(arch))


def test_cutlass_for_blackwell_follows_kernels_that_issue_tcgen05() -> None:
    assert [cutlass.closest(carver.load_arch(arch)) for arch in ("b200", "h200", "a100")] == [
        "triton", "tilelang", "tilelang",
    ]  # fmt: skip


@pytest.mark.parametrize(("arch", "rows"), [("h200", {64, 128, 192, 256}), ("b200", {64, 128, 256})])
def test_cutlass_gets_rows_that_its_collectives_take(arch: str, rows: set[int]) -> None:
    op = carver.MatmulTemplate(16, 4096, 4096).with_arch(arch)
    every = op.recommend_hints(200, backend="tilelang")
    configs = cutlass.configs(every)
    assert 0 < len(configs) <= len(every)
    assert {config["tile_shape"][0] for config in configs} <= rows
    assert all(config["tile_shape"][0] < 256 or "1Sm" not in config["kernel_schedule"] for config in configs)
    with pytest.raises(ConfigError, match="has tiles of 16 rows; exchange the operands"):
        cutlass.configs([hint for hint in every if hint.block[0] == 16])


def test_cutlass_comes_back_and_is_ranked() -> None:
    configs = TILELANG.to_cutlass()
    assert OP.rank(configs, backend="tilelang").indices == list(range(6))
    blackwell = carver.MatmulTemplate(8192, 8192, 8192).with_arch("b200").recommend_hints(10, backend="triton")
    exported = cutlass.cute_dsl(blackwell)
    assert len(exported) == 10 and exported[0] == {
        "mma_tiler_mn": (256, blackwell[0].block[1]), "cluster_shape_mn": (2, 1), "use_2cta_instrs": True,
        "use_tma_store": True,
    }  # fmt: skip
    for config in exported:
        rows, columns = config["mma_tiler_mn"]
        assert rows in ((256,) if config["use_2cta_instrs"] else (64, 128)) and columns in (32, 64, 128, 256)
        assert cutlass.from_config(config)["block_M"] == rows // (2 if config["use_2cta_instrs"] else 1)
    assert "one with it" in exported.notes[-1] and "tiles of 16 columns" in " ".join(exported.notes)


def test_a_pruner_takes_a_template_or_what_makes_one() -> None:
    for make in (carver.triton_pruner, carver.triton_perf_model):
        with pytest.raises(ConfigError, match="template must be a Template or a function, got 5"):
            make(5)
    hint = OP.recommend_hints(1)[0]
    assert hint.explain("gh200_96").arch.name == "gh200_96" and hint.explain().arch.name == hint.arch.name


def test_kernel_tuner_arguments() -> None:
    hints = OP.recommend_hints(5)
    params = kernel_tuner.tune_params(hints, fixed={"UNROLL": 4})
    assert params["UNROLL"] == [4] and next(iter(params)) == next(iter(hints[0].config))
    seeds = kernel_tuner.seeds(hints, params, fixed={"UNROLL": 4})
    assert seeds == [(*h.config.values(), 4) for h in hints]
    assert kernel_tuner.x0(hints, params, fixed={"UNROLL": 4}) == list(seeds[0])
    keep = kernel_tuner.restriction(hints)
    assert all(eval(keep, dict(h.config)) for h in hints)
    assert not eval(keep, dict(hints[0].config) | {"split_k": 99})
    other = carver.MatmulTemplate(64, 64, 64).with_arch("h200").recommend_hints(1, "triton")
    with pytest.raises(ConfigError, match="Kernel Tuner tunes one kernel, and of these hints some have 'BLOCK_K'"):
        kernel_tuner.tune_params([*hints, *other])
    with pytest.raises(ConfigError, match="Optuna tunes one kernel"):
        optuna.choices([*hints, *other])
    with pytest.raises(ConfigError, match="no hints for 64: each key needs one"):
        plain.defaults({64: []})
    with pytest.raises(ConfigError, match="the hints have no 'UNROLL'"):
        kernel_tuner.seeds(hints, params)
    with pytest.raises(ConfigError, match="no hint lies in the space"):
        kernel_tuner.seeds(hints, {**{k: [v] for k, v in hints[0].config.items()}, "block_m": [7]})


KEYS = {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        # names as they stand in the projects' folders
        (dict(experts=8, topk=2, hidden=4096, intermediate=7168), "E=8,N=7168,device_name=NVIDIA_H200.json"),
        (dict(experts=256, topk=8, hidden=7168, intermediate=128, dtype="fp8_w8a8", block_shape=(128, 128)),
         "E=256,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"),
        (dict(experts=256, topk=8, hidden=7168, intermediate=128, dtype="fp8_w8a8", block_shape=(128, 128),
              project="sglang"), "E=256,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"),
        (dict(experts=8, topk=2, hidden=4096, intermediate=7168, dtype="int8_w8a16",
              device_name="NVIDIA GeForce RTX 9090"),
         "E=8,N=7168,device_name=NVIDIA_GeForce_RTX_9090,dtype=int8_w8a16.json"),
        (dict(experts=8, topk=2, hidden=4096, intermediate=7168, dtype="int4_w4a16", group_size=64, zero_points=True),
         "E=8,N=7168,device_name=NVIDIA_H200,dtype=int4_w4a16.json"),
        (dict(experts=8, topk=2, hidden=4096, intermediate=7168, dtype="int4_w4a16", group_size=64, project="sglang"),
         "E=8,N=3584,device_name=NVIDIA_H200,dtype=int4_w4a16.json"),
        (dict(experts=8, topk=2, hidden=4096, intermediate=7168, dtype="int8_w8a16", group_size=128),
         "E=8,N=7168,device_name=NVIDIA_H200,dtype=int8_w8a16.json"),
        (dict(experts=256, topk=8, hidden=7168, intermediate=256, dtype="int8_w8a8", project="sglang"),
         "E=256,N=256,device_name=NVIDIA_H200,dtype=int8_w8a8,per_channel_quant=True.json"),
        (dict(experts=8, topk=2, hidden=4096, intermediate=7168, device_name="NVIDIA H200 NVL"),
         "E=8,N=7168,device_name=NVIDIA_H200.json"),
        (dict(experts=8, topk=2, hidden=4096, intermediate=7168, device_name="NVIDIA H200 NVL", project="sglang"),
         "E=8,N=7168,device_name=NVIDIA_H200_NVL.json"),
    ],
)  # fmt: skip
def test_moe_files_are_named_and_keyed_as_they_are_looked_up(arguments: dict[str, Any], name: str) -> None:
    file = vllm.moe(H200, batches=(1, 64, 4096), **arguments)
    assert file.name == name
    read = json.loads(file.to_json())
    split = {"SPLIT_K"} if "group_size" in arguments and "project" not in arguments else set()
    assert list(read) == ["1", "64", "4096"]
    assert all(set(c) == KEYS | split for m, c in read.items() if int(m) in file.hints) and 64 in file.hints
    assert all(type(v) is int for c in read.values() for v in c.values())


def test_a_device_and_its_twin_are_looked_up_by_either_name() -> None:
    a100 = carver.load_arch("a100_sxm_80")
    file = vllm.moe(a100, 8, 2, 4096, 7168, batches=(64,))
    assert file.names == tuple(f"E=8,N=7168,device_name=NVIDIA_A{n}00-SXM4-80GB.json" for n in "18")
    assert vllm.moe(a100, 8, 2, 4096, 7168, batches=(64,), device_name="NVIDIA A800-SXM4-80GB").names == file.names[1:]


def test_linear_layers_of_qwen() -> None:
    """A gate beside each query head, a shared expert of its own width, and experts in each layer."""
    qwen = {
        "model_type": "qwen3_next", "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2,
        "head_dim": 256, "intermediate_size": 5120, "shared_expert_intermediate_size": 512, "num_experts": 512,
        "mlp_only_layers": [], "decoder_sparse_step": 1,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }  # fmt: skip
    assert vllm.linears_of(qwen, 1) == [(9216, 2048), (2048, 4096), (1024, 2048), (2048, 512)]
    plain = qwen | {"model_type": "qwen2_moe", "mlp_only_layers": [0]}
    assert vllm.linears_of(plain, 1)[0] == (5120, 2048) and (10240, 2048) in vllm.linears_of(plain, 1)


def test_sglang_has_a_second_file_for_the_matmul_back() -> None:
    layer = dict(experts=128, topk=8, hidden=2048, intermediate=768, dtype="int4_w4a16", group_size=128)
    file = vllm.moe(H200, **layer, project="sglang", separate=True, batches=(64, 1024))
    assert file.down is not None and file.down.name == file.name.replace(".json", "_down.json")
    assert file.configs != file.down.configs and file.down.configs.keys() == {64, 1024}
    for tokens in (64, 1024):  # rows are sorted and padded once for both
        assert file.configs[tokens]["BLOCK_SIZE_M"] == file.down.configs[tokens]["BLOCK_SIZE_M"]
    one = vllm.moe(H200, **layer, project="sglang", batches=(64, 1024))
    assert one.down is None and one.name == file.name
    for tokens, both in one.predicted_ms.items():
        assert file.predicted_ms[tokens] + file.down.predicted_ms[tokens] <= both
    with pytest.raises(ConfigError, match="looked up by sglang only"):
        vllm.moe(H200, **layer, separate=True)


def test_moe_tiles_follow_the_tokens_of_an_expert() -> None:
    """Two of eight experts a token: 4096 tokens give each expert 1024 rows, one token gives two experts one row."""
    file = vllm.moe(H200, 8, 2, 4096, 7168, batches=(1, 128, 4096))
    rows = {m: c["BLOCK_SIZE_M"] for m, c in file.configs.items()}
    assert rows[1] == 16 <= rows[128] <= 64 < rows[4096]
    spread = vllm.moe(H200, 256, 2, 4096, 7168, batches=(128,))
    assert spread.configs[128]["BLOCK_SIZE_M"] == 16  # some 2 rows an expert


def test_vllm_gives_few_tokens_to_cuda() -> None:
    """96 tokens to 8 of 128 experts are 6 an expert. Of the last entry 65 tokens would look up the tile."""
    layer = dict(experts=128, topk=8, hidden=2048, intermediate=768, dtype="int4_w4a16")
    file = vllm.moe(H200, **layer, group_size=128, batches=(1, 96, 128, 4096))
    assert file.configs[1] == file.configs[96] == {"BLOCK_SIZE_M": 16, "GROUP_SIZE_M": 1, "SPLIT_K": 1}
    assert list(file.hints) == list(file.predicted_ms) == [128, 4096] and file.configs[128].keys() > KEYS
    for group in (64, 128):
        tile = vllm.moe(H200, **layer, group_size=group, batches=(1, 128)).configs[128]
        assert tile["BLOCK_SIZE_M"] <= 64 and 256 % tile["BLOCK_SIZE_K"] == 0 == tile["BLOCK_SIZE_K"] % group
    for free in (dict(project="sglang"), dict(dtype="int8_w8a16")):
        assert len(vllm.moe(H200, **(layer | free), group_size=128, batches=(1, 4096)).hints) == 2
    assert len(vllm.moe(carver.load_arch("mi300x"), **layer, group_size=128, batches=(1, 96)).hints) == 2


@pytest.mark.parametrize("arch", ["h200", "l4", "mi300x", "b200"])
def test_block_fp8_steps_stay_within_a_block_of_scales(arch: str) -> None:
    device = carver.load_arch(arch)
    file = vllm.block_fp8(device, 1536, 7168, batches=(1, 64, 1024))
    assert file.name.startswith(f"N=1536,K=7168,device_name={device.device_names[0].replace(' ', '_')},dtype=fp8_w8a8")
    assert all(128 % c["BLOCK_SIZE_K"] == 0 for c in file.configs.values())
    assert file.predicted_ms[1] < file.predicted_ms[1024]
    own = device.own_float8("float8_e4m3")
    op = carver.MatmulTemplate(64, 1536, 7168, trans_B=True, in_dtype=own).with_arch(device)
    ranked = op.rank([vllm.from_config(file.configs[64])], backend="triton_block_fp8")
    assert ranked[0].predicted_ms == pytest.approx(file.predicted_ms[64], rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(topk=9), "go to 9 of 8 experts"),
        (dict(hidden=0), "hidden must be a whole number of at least 1, got 0"),
        (dict(dtype="fp4"), "dtype is one of"),
        (dict(block_shape=(128, 128)), "block scales belong to fp8_w8a8"),
        (dict(dtype="fp8_w8a8", block_shape=(128, 256)), "at most 128 deep"),
        (dict(dtype="int4_w4a16"), "say group_size, such as 128"),
        (dict(dtype="int4_w4a16", group_size=96), "group_size must divide .* got 96, 512 and 512"),
        (dict(dtype="fp8_w8a8", group_size=128), "group_size belongs to int4_w4a16 and int8_w8a16"),
        (dict(dtype="int8_w8a16", group_size=128, zero_points=True), "zero points belong to int4_w4a16"),
        (dict(batches=[]), "batches are whole numbers"),
        (dict(project="trtllm"), "project is vllm or sglang"),
    ],
)
def test_bad_layers(arguments: dict[str, Any], message: str) -> None:
    layer = dict(experts=8, topk=2, hidden=512, intermediate=512) | arguments
    with pytest.raises((ConfigError, ProblemError), match=message):
        vllm.moe(H200, **layer)


def test_no_file_of_fp8_for_a_device_without() -> None:
    a100 = carver.CUDA("a100")
    with pytest.raises(ConfigError, match="A100 SXM 80 GB multiplies no 8-bit floats"):
        vllm.block_fp8(a100, 512, 512)
    with pytest.raises(ConfigError, match="multiplies no 8-bit floats"):
        vllm.moe(a100, 8, 2, 512, 512, dtype="fp8_w8a8")


def run(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


MATMUL = ("matmul", "512", "512", "512", "--arch", "h200")


@pytest.mark.parametrize("target", ["json", "triton", "tilelang", "cutlass", "cute-dsl"])
def test_export_writes_json(target: str, tmp_path: Path) -> None:
    arch = ("--arch", "b200") if target == "cute-dsl" else ()
    listed = json.loads(run("export", target, *MATMUL[:4], *(arch or MATMUL[4:]), "-k", "3"))
    assert len(listed) == 3 or (target == "cute-dsl" and listed)  # which leaves depth and stages open
    if target == "cute-dsl":  # though the model ranks tiles of 32 rows before all that tcgen05 takes
        assert {config["mma_tiler_mn"][0] for config in listed} <= {64, 128, 256}
    file = tmp_path / "out.json"
    assert run("export", target, *MATMUL[:4], *(arch or MATMUL[4:]), "-k", "3", "-o", str(file)) == ""
    assert json.loads(file.read_text()) == listed


def test_export_renames_and_chooses_the_backend() -> None:
    rows = list(csv.DictReader(io.StringIO(
        run("export", "csv", *MATMUL, "-k", "2", "--backend", "triton", "--name", "BLOCK_M=BLOCK_SIZE_M")
    )))  # fmt: skip
    assert len(rows) == 2 and {"BLOCK_SIZE_M", "num_warps"} <= rows[0].keys()
    done = CliRunner().invoke(main, ["export", "json", *MATMUL, "--name", "BLOCK_M"])
    assert done.exit_code == 2 and "--name takes KEY=YOURS" in done.output
    done = CliRunner().invoke(main, ["export", "triton", *MATMUL, "--name", "BLOCK_M=BLOCK_N"])
    assert done.exit_code == 2 and "one name" in done.output


def test_an_export_says_on_the_side_what_the_ranking_says() -> None:
    done = CliRunner().invoke(main, ["export", "triton", *MATMUL[:4], "--arch", "apple_m2_max", "-k", "1"])
    assert json.loads(done.stdout) and "note: Triton's kernels do not run on Apple M2 Max" in done.stderr


def test_serving_files_from_the_command_line(tmp_path: Path) -> None:
    where = ("--arch", "h200", "--folder", str(tmp_path))
    file = Path(run("export", "vllm-block-fp8", "1536", "7168", *where, "--batches", "1,64").strip())
    assert file == tmp_path / "N=1536,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    assert list(json.loads(file.read_text())) == ["1", "64"]
    said = json.loads(run(
        "export", "vllm-moe", "--experts", "8", "--topk", "2", "--hidden", "512", "--intermediate", "256",
        "--arch", "a100", "--batches", "16", "--json",
    ))  # fmt: skip
    assert said["name"].startswith("E=8,N=256,device_name=NVIDIA_A100")
    sizes = ("--experts", "8", "--topk", "2", "--hidden", "512", "--intermediate", "256", "--batches", "16")
    two = run("export", "vllm-moe", *sizes, *where, "--project", "sglang", "--separate").split()
    assert [Path(name).name for name in two] == [f"E=8,N=256,device_name=NVIDIA_H200{x}.json" for x in ("", "_down")]
    assert all(Path(name).exists() for name in two)
    done = CliRunner().invoke(main, ["export", "vllm-block-fp8", "64", "64", "--arch", "h200", "--batches", "few"])
    assert done.exit_code == 2 and "--batches takes numbers" in done.output


DEEPSEEK = {
    "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
"""Of DeepSeek-V3's config.json, what says its layers."""


def test_layers_of_a_model_are_those_that_its_engines_tune() -> None:
    """vLLM's benchmarks/kernels/benchmark_w8a8_block_fp8.py lists them, for 8 devices: 24576, 32768, 36864 and 4096 / 8
    columns, and 16384, 18432 and 2048 / 8 of depth."""
    linears = vllm.linears_of(DEEPSEEK, 8)
    assert {(3072, 1536), (4096, 512), (4608, 7168), (7168, 2304), (7168, 2048), (2112, 7168), (512, 7168)} < {*linears}
    assert vllm.layer_of(DEEPSEEK, 8) == {
        "experts": 256, "topk": 8, "hidden": 7168, "intermediate": 256, "dtype": "fp8_w8a8", "block_shape": (128, 128)
    }  # fmt: skip
    known = DEEPSEEK | {"architectures": ["DeepseekV3ForCausalLM"]}
    assert vllm.layer_of(known, 8) == vllm.layer_of(DEEPSEEK, 8, "sglang") == vllm.layer_of(DEEPSEEK, 8)
    fused = vllm.layer_of(known, 8, "sglang")  # SGLang ships E=257,N=256
    assert (fused["experts"], fused["topk"]) == (257, 9)
    assert {*linears} - {*vllm.linears_of(known, 8, "sglang")} == {(512, 7168), (7168, 256)}
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    mixtral = {"hidden_size": 4096, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2}
    said = vllm.layer_of(mixtral | {"quantization_config": awq}, 2)
    assert (said["intermediate"], said["dtype"], said["group_size"]) == (7168, "int4_w4a16", 128)
    assert said["zero_points"] is True and vllm.linears_of(mixtral, 2) == []
    for wrong, says in (({"hidden_size": 64}, "how many experts"), (mixtral | {"hidden_size": "64"}, "whole number")):
        with pytest.raises(ConfigError, match=says):
            vllm.layer_of(wrong, 1)
    with pytest.raises(ConfigError, match="quantization_config of 'mxfp4' is not read"):
        vllm.layer_of(mixtral | {"quantization_config": {"quant_method": "mxfp4"}}, 1)
    with pytest.raises(ConfigError, match="--tp must divide the width of an expert, got 3"):
        vllm.layer_of(mixtral, 3)


def test_files_of_a_model_and_of_several_devices(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(DEEPSEEK | {"hidden_size": 512, "intermediate_size": 1024, "q_lora_rank": 256}))
    where = ("--tp", "8", "--folder", str(tmp_path), "--batches", "16")
    listed = json.loads(run("export", "vllm-model", str(config), *where, "--arch", "h200", "--dry-run", "--json"))
    assert len(listed["linears"]) == 8 and listed["experts"]["experts"] == 256
    written = run("export", "vllm-model", str(config), *where, "--arch", "h200").split()
    assert len(written) == 9 and all(Path(name).exists() for name in written)
    again = CliRunner().invoke(main, ["export", "vllm-moe", "--model", str(config), *where, "--arch", "h200"])
    assert again.exit_code == 2 and "is there already; --force writes over it" in again.output
    two = ("--arch", "h200", "--arch", "mi300x", "--force")
    moe = run("export", "vllm-moe", "--model", str(config), *where, *two).split()
    assert [re.findall("device_name=(.*?),", name)[0] for name in moe] [:2] == ["NVIDIA_H200", "AMD_Instinct_MI300X"]
    done = CliRunner().invoke(main, ["export", "vllm-moe", "--experts", "8", "--arch", "h200"])
    assert done.exit_code == 2 and "missing --topk, --hidden, --intermediate" in done.output
    shaped = run("export", "vllm-block-fp8", "256", "256", *where[2:], "--arch", "h200", "--block-shape", "64,128")
    assert "block_shape=[64,128]" in shaped


def test_a_serving_file_says_how_sure_it_is_and_what_it_leaves_out() -> None:
    layer = ("--experts", "8", "--topk", "2", "--hidden", "512", "--intermediate", "512", "--batches", "1,512")
    int4 = ("--dtype", "int4_w4a16", "--group-size", "128", "--arch", "h200", "--json")
    sure, left, shared = json.loads(run("export", "vllm-moe", *layer, *int4))["notes"]
    assert sure.startswith("predicted, not timed; constants of the kernel: ")
    assert "80 % of measured times within -" in sure
    assert left.startswith("entries for 1 tokens") and "size of the groups" in shared


@pytest.mark.parametrize("file", ["json", "csv"])
def test_what_is_exported_is_ranked_again(file: str, tmp_path: Path) -> None:
    path = tmp_path / f"hints.{file}"
    run("export", file, *MATMUL, "-k", "4", "-o", str(path))
    said = json.loads(run("rank", *MATMUL, "--configs", str(path), "--backend", "cuda", "--json"))
    assert [hint["index"] for hint in said["hints"]] == [0, 1, 2, 3]


def test_a_matmul_s_exporters_take_no_other_operator() -> None:
    attention = carver.FlashAttentionTemplate(1, 8, 8, 512, 512, 64).with_arch("h200").recommend_hints(1)
    for export in (cutlass.configs, inductor.configs, helion.seed_configs):
        with pytest.raises(ConfigError, match=r"takes hints of a matmul, got attention|needs its package"):
            export(attention)


def test_no_kernel_without_split_k_is_said() -> None:
    with pytest.raises(NoCandidates):
        OP.rank([dict(BLOCK_SIZE_M=24, BLOCK_SIZE_N=64, BLOCK_SIZE_K=64, num_warps=4, num_stages=3)])


@pytest.mark.parametrize("arch", ["a100", "rtx_5090", "h100"])
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3", "int8"])
def test_what_a_collective_of_cutlass_cannot_be_is_left_out(arch: str, dtype: str) -> None:
    """Each asserts two stages or more, widths of swizzles are powers of two up to 8, and GeForce Blackwell's builder
    takes floats of 8 bits and fewer alone: all else runs sm_80's main loop there."""
    op = carver.MatmulTemplate(4096, 4096, 4096, in_dtype=dtype, trans_B=True).with_arch(arch)
    entries = op.recommend_hints(10, backend="tilelang").to_cutlass()
    assert entries and all(each["stages"] >= 2 and each["raster_group"] in (1, 2, 4, 8) for each in entries)
    schedules = {each["kernel_schedule"] for each in entries}
    if arch != "h100":
        own = arch == "rtx_5090" and dtype == "float8_e4m3"
        assert schedules == {"KernelScheduleAuto" if own else "MainloopSm80CpAsync"}


def test_arguments_of_the_cute_dsl_are_for_blackwell_and_listed_once() -> None:
    with pytest.raises(ConfigError, match="h200_sxm is sm_90"):
        cutlass.cute_dsl(TILELANG)
    listed = json.loads(run("export", "cute-dsl", "matmul", "8192", "8192", "8192", "--arch", "b200", "-k", "10"))
    assert len(listed) == len({json.dumps(config) for config in listed}) == 10


def test_the_kernel_of_scaled_blocks_takes_8_bit_floats() -> None:
    with pytest.raises(NoCandidates, match="requires that A and B are of 8 bits"):
        OP.recommend_hints(1, backend="triton_block_fp8")


def test_the_modules_of_exporters_are_there_after_import_carver() -> None:
    text = "import carver; print(carver.export.plain.to_json.__name__, carver.export.cutlass.closest.__name__)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["to_json", "closest"]
    with pytest.raises(AttributeError, match=r"'carver.export' has no attribute 'nosuch'"):
        carver.export.nosuch  # noqa: B018


def test_serving_entries_without_warps_are_ranked_with_a_word() -> None:
    """vLLM's files may leave `num_warps` and `num_stages` to Triton."""
    tile = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    op = carver.MatmulTemplate(512, 1024, 1024, trans_B=True).with_arch("h200")
    whole = {**tile, "num_warps": 8, "num_stages": 3}
    assert not op.rank([whole]).notes
    notes = op.rank([tile, whole]).notes
    assert "1 of 2 give no num_warps: ranked with 4, the tool's default" in notes
    assert "no configuration gives num_stages: ranked with 3, the tool's default" in op.rank([tile]).notes


@pytest.mark.parametrize(
    ("device", "names"),
    [
        ("rx_7900_xtx", ("AMD_Radeon_RX_7900_XTX", "AMD_Radeon_RX7900XTX", "AMD_Radeon_Graphics")),
        ("radeon_8060s", ("AMD_Radeon_8060S", "Radeon_8060S_Graphics", "AMD_Radeon_Graphics")),
        ("mi300x", ("AMD_Instinct_MI300X", "AMD_Instinct_MI300X_VF")), ("h100_sxm", ("NVIDIA_H100_80GB_HBM3",)),
    ],
)  # fmt: skip
def test_serving_files_of_devices_with_several_names(device: str, names: tuple[str, ...]) -> None:
    """vllm/platforms/rocm.py has names of its own for some cards, vllm-project/vllm 50436 those that drivers print."""
    file = vllm.moe(carver.load_arch(device), 8, 2, 1024, 512, batches=(1,))
    assert file.names == tuple(f"E=8,N=512,device_name={name}.json" for name in names)


@pytest.mark.parametrize(("tp", "columns"), [("8", 96), ("4", 192), ("6", 128)])
def test_a_split_of_experts_that_engines_do_not_load_is_said(tp: str, columns: int, tmp_path: Path) -> None:
    """Of Qwen3-30B-A3B: 768 columns in blocks of 128. vLLM asks for whole blocks on each device."""
    blocks = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    (tmp_path / "config.json").write_text(json.dumps({
        "hidden_size": 2048, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
        "num_attention_heads": 48, "quantization_config": blocks,
    }))  # fmt: skip
    asked = ("--model", str(tmp_path / "config.json"), "--tp", tp, "--batches", "16", "--arch", "h200", "--json")
    notes = json.loads(run("export", "vllm-moe", *asked))["notes"]
    said = f"experts of {columns} columns a device are no whole blocks of 128: vLLM and SGLang refuse such a split"
    assert any(note.startswith(said) for note in notes) == (columns % 128 != 0)
