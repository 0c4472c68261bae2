"""Grouped matmuls and mixture-of-experts layers: how rows are dealt out, and what that costs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import carver
from carver.base.errors import NoCandidates, ProblemError
from carver.cli.main import main
from carver.cost.models.contraction import unpacking
from carver.run import check as reference

HEIGHTS = (16, 32, 64, 128, 256)
"""Rows of a tile that a grouped kernel may have."""


@pytest.fixture(autouse=True)
def _a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("topk", [1, 400, 4000, 4096])
@pytest.mark.parametrize("skew", [0.0, 20.0, 100.0])
def test_shares_of_a_steep_routing_add_up(topk: int, skew: float) -> None:
    """Weights of the last are below the smallest float: shares of what was left were 0 / 0, for ever."""
    shares = carver.Routing(64, 4096, topk, skew).shares
    assert shares.sum() == pytest.approx(topk) and shares.min() >= 0.0 and shares.max() <= 1.0
    assert (np.diff(shares) <= 0).all()


@pytest.mark.parametrize(("tokens", "experts", "topk", "skew"), [(64, 8, 2, 0.0), (300, 16, 4, 1.0), (5, 32, 3, 0.5)])
def test_tiles_of_a_routing_are_those_of_drawn_tokens(tokens: int, experts: int, topk: int, skew: float) -> None:
    routing = carver.Routing(tokens, experts, topk, skew)
    assert routing.shares.sum() == pytest.approx(topk) and routing.shares.max() <= 1.0
    rng = np.random.default_rng(0)
    counts = rng.binomial(tokens, routing.shares, (4000, experts))
    assert routing.groups == pytest.approx((counts > 0).sum(1).mean(), abs=0.6)
    for height in HEIGHTS:
        assert routing.row_tiles(height) == pytest.approx((-(-counts // height)).sum(1).mean(), abs=0.6)


def test_rows_as_a_number_a_list_and_a_routing() -> None:
    alike = carver.GroupedMatmulTemplate(48, 256, 512, experts=4).problem
    assert alike == carver.GroupedMatmulTemplate([48] * 4, 256, 512).problem
    assert alike.sizes == {"e": 4, "m": 48, "n": 256, "k": 512}
    assert [alike.options[f"tiles_{height}"] for height in HEIGHTS] == [12, 8, 4, 4, 4]
    uneven = carver.GroupedMatmulTemplate([0, 1, 17, 174], 256, 512).problem
    assert uneven.sizes["e"] == 3 and uneven.options["tiles_16"] == 1 + 2 + 11 and uneven.options["tiles_256"] == 3
    for wrong, says in (
        (dict(rows=4), "how many experts"), (dict(rows=[0, 0]), "no group has a row"),
        (dict(rows=[1, 2], experts=3), "counts of 2 experts"),
        (dict(rows=8, experts=2, scale_block=(128, 128)), "weights narrower than A, got bfloat16"),
        (dict(rows=8, experts=2, in_dtype="int8", scale_block=128), "scale_block must be a list of whole numbers"),
    ):  # fmt: skip
        with pytest.raises(ProblemError, match=says):
            carver.GroupedMatmulTemplate(**({"N": 64, "K": 64} | wrong))
    for wrong in (dict(topk=9), dict(tokens=0), dict(skew=-1.0)):
        with pytest.raises(ProblemError):
            carver.Routing(**({"tokens": 4, "experts": 8, "topk": 2} | wrong))


def test_reference_of_groups_of_one_size() -> None:
    op = carver.GroupedMatmulTemplate(4, 6, 8, experts=3)
    x = {name: a.astype(np.float64) for name, a in reference.draw(op.problem, 1).items()}
    np.testing.assert_allclose(reference.expected(op.problem, x)[0], x["A"] @ x["B"].transpose(0, 2, 1))
    uneven = carver.GroupedMatmulTemplate([1, 7], 6, 8)
    with pytest.raises(ProblemError, match="different numbers of rows have no reference"):
        reference.expected(uneven.problem, x)


def test_groups_of_one_size_move_what_a_batch_does() -> None:
    config = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 4, "GROUP_M": 8}
    [grouped] = carver.GroupedMatmulTemplate(256, 2560, 3584, experts=64).with_arch("h200").rank([config])
    [batched] = carver.MatmulTemplate(
        256, 2560, 3584, 64, trans_B=True, in_dtype="bfloat16"
    ).with_arch("h200").rank([config])  # fmt: skip
    for fact in ("padding", "compulsory_bytes"):
        assert grouped.details[fact] == pytest.approx(batched.details[fact])
    assert grouped.predicted_ms == pytest.approx(batched.predicted_ms, rel=0.3)


def test_tokens_that_choose_are_a_routing() -> None:
    routing = carver.Routing(300, 16, 4, 0.5)
    told = carver.GroupedMatmulTemplate(300, 256, 512, experts=16, chosen=4, skew=0.5)
    assert told.problem == carver.GroupedMatmulTemplate(routing, 256, 512).problem
    for wrong, says in (
        (dict(rows=4, experts=2, skew=1.0), "say with chosen"), (dict(rows=4, chosen=2), "experts=None"),
        (dict(rows=[1, 2], experts=2, chosen=2), "tokens go to chosen=2"),
    ):  # fmt: skip
        with pytest.raises(ProblemError, match=says):
            carver.GroupedMatmulTemplate(**({"N": 64, "K": 64} | wrong))


def test_a_block_of_scales_as_a_word() -> None:
    assert carver.ScaledMatmulTemplate(64, 256, 512).problem == carver.ScaledMatmulTemplate(
        64, 256, 512, scale_block=(128, 128)
    ).problem  # fmt: skip
    with pytest.raises(ProblemError, match="a block of scales is"):
        carver.ScaledMatmulTemplate(64, 256, 512, scale_block="128x128x2")


def test_weights_of_few_bits_are_half_a_byte_and_have_scales() -> None:
    size = dict(M=16, N=14336, K=4096)
    low = carver.MatmulTemplate(**size, b_dtype="u4", scale_block=(1, 128)).with_arch("h200")
    assert low.problem.dtypes["B"] == "uint4" and low.problem.options["scale_k"] == 128
    scales = 14336 * 4096 // 128 * 2.5  # of A's type, and a zero point
    assert low.problem.compulsory_bytes == 2 * 16 * 4096 + 14336 * 4096 // 2 + 2 * 16 * 14336 + scales
    wide = carver.MatmulTemplate(**size, b_dtype="int8", scale_block="row").with_arch("h200")
    config = {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128, "num_warps": 4, "num_stages": 3, "SPLIT_K": 2}
    one, other = (op.rank([config])[0] for op in (low, wide))
    less = other.details["dram_bytes"] - one.details["dram_bytes"]
    assert less == pytest.approx(14336 * 4096 // 2 - scales, rel=0.02)
    assert one.kernel == other.kernel == "triton_weights"
    assert len(low.rank([config, config | {"BLOCK_K": 256}])) == 1
    for wrong, says in (
        (dict(b_dtype="int4"), "say scale_block"), (dict(in_dtype="int4"), "unknown dtype|say scale_block"),
        (dict(scale_block="row"), "got float16 and float16"),
        (dict(b_dtype="int4", scale_block="rows"), '"row" or "tensor"'),
        (dict(b_dtype="int4", scale_block="row", activation="relu"), "no other epilogue"),
    ):  # fmt: skip
        with pytest.raises(ProblemError, match=says):
            carver.MatmulTemplate(**(size | wrong))


def test_experts_of_few_bits_run_the_kernel_of_engines() -> None:
    size = dict(rows=512, N=1536, K=2048, experts=128, chosen=8)
    made = {
        kind: carver.GroupedMatmulTemplate(**size, b_dtype=kind, scale_block=(1, 128)).with_arch("h200")
        for kind in ("int4", "uint4", "int8")
    }
    config = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3, "GROUP_M": 16}
    four, zeros, eight = (op.rank([config])[0] for op in made.values())
    assert four.kernel == zeros.kernel == eight.kernel == "triton_weights"
    assert eight.details["compulsory_bytes"] - four.details["compulsory_bytes"] == 128 * 1536 * 2048 // 2
    assert eight.predicted_ms < four.predicted_ms < zeros.predicted_ms  # which are loaded and unpacked one by one
    assert four.launch.registers < zeros.launch.registers  # pointers to zero points
    deep = [config | {"BLOCK_K": depth} for depth in (32, 64, 128, 256)]
    assert len(made["int4"].rank(deep)) == 4  # a step may be of several groups, or of a part of one
    columns = carver.GroupedMatmulTemplate(**size, b_dtype="int8", scale_block="row").with_arch("h200")
    assert columns.rank([config])[0].kernel == "triton"
    whole = carver.GroupedMatmulTemplate(**size, b_dtype="int4", scale_block="row").with_arch("h200")
    with pytest.raises(carver.CarverError, match="scales in groups of K"):
        whole.rank([config])
    with pytest.raises(ProblemError, match="say scale_block"):
        carver.GroupedMatmulTemplate(**size, b_dtype="int4")


def test_weights_deeper_in_k_than_the_threads_have_pointers_of_their_own() -> None:
    """Triton 3.6 for sm_90: 134 to 138 registers at 128 of K, 196 to 250 at 256, 255 with zero points, which spill."""
    size = dict(rows=1, N=1536, K=2048, experts=128, chosen=8)
    tile = {"BLOCK_M": 16, "BLOCK_N": 16, "num_warps": 4, "num_stages": 4, "GROUP_M": 1}
    held = {}
    for kind in ("int4", "uint4"):
        op = carver.GroupedMatmulTemplate(**size, b_dtype=kind, scale_block=(1, 128)).with_arch("h200")
        for depth in (128, 256):
            (hint,) = op.rank([tile | {"BLOCK_K": depth}])
            held[kind, depth] = hint.launch.registers, hint.details["blocks_per_sm"]
    assert held["int4", 128] == (136, 3) and held["int4", 256] == (200, 2)
    assert held["uint4", 256] == (255, 2)


def test_of_columns_whose_pointers_spill_fewer_are_better() -> None:
    op = carver.GroupedMatmulTemplate(512, 1536, 2048, 128, b_dtype="int4", scale_block=(1, 128), chosen=8)
    first = op.with_arch("h200").recommend_hints(10, "triton")
    assert all(hint.launch.registers <= 255 for hint in first)
    config = dict(first[0].config) | {"BLOCK_N": 256, "BLOCK_K": 128, "num_stages": 2}
    assert op.with_arch("h200").rank([config], "triton")[0].predicted_ms > 3 * first[0].predicted_ms


def test_a_layer_of_few_bits() -> None:
    layer = carver.MoETemplate(512, 128, 8, 2048, 768, block_shape=(1, 128), weight_dtype="int4").with_arch("mi300x")
    best = layer.recommend_hints(3)
    assert {hint.layers[name].kernel for hint in best for name in ("up", "down")} == {"triton_weights"}
    assert "(bfloat16, weights int4)" in str(best)
    asked = ["recommend", "moe", "512", "128", "8", "2048", "768", "--arch", "mi300x", "--weight-dtype", "int4"]
    shown = CliRunner().invoke(main, [*asked, "--scale-block", "1x128", "-k", "3"]).output
    assert shown.splitlines() == str(best).splitlines()


def test_each_matmul_of_a_layer_may_have_its_own_configuration() -> None:
    layer = carver.MoETemplate(512, 128, 8, 2048, 768).with_arch("h200")
    pairs, alike = layer.recommend_hints(5, separate=True), layer.recommend_hints(5)
    assert all(hint.config["BLOCK_M"] == hint.layers["down"].config["BLOCK_M"] for hint in pairs)
    assert any(hint.config != hint.layers["down"].config for hint in pairs)
    assert pairs[0].predicted_ms < alike[0].predicted_ms
    assert [hint.predicted_ms for hint in pairs] == sorted(hint.predicted_ms for hint in pairs)
    asked = ["recommend", "moe", "512", "128", "8", "2048", "768", "--arch", "h200", "-k", "5", "--separate"]
    shown = CliRunner().invoke(main, asked).output
    assert shown.splitlines() == str(pairs).splitlines() and "down BLOCK_K" in shown
    told = json.loads(CliRunner().invoke(main, [*asked, "--json"]).output)["hints"]
    assert [hint["down_config"] for hint in told] == [hint.layers["down"].config for hint in pairs]


def test_scales_outside_of_the_sum_cost_no_second_set_of_sums() -> None:
    config = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "num_warps": 8, "num_stages": 3, "GROUP_M": 8}
    within, row, tensor = (
        carver.ScaledMatmulTemplate(4096, 4096, 4096, scale_block=block).with_arch("h200").rank([config])[0]
        for block in ("128x128", "row", "tensor")
    )
    assert row.launch.registers < within.launch.registers and row.predicted_ms < within.predicted_ms
    assert row.predicted_ms == tensor.predicted_ms


def test_recommended_tiles_differ_where_their_order_does_not_matter() -> None:
    op = carver.GroupedMatmulTemplate(64, 256, 2048, experts=512, chosen=10).with_arch("h200")
    assert {hint.config["GROUP_M"] for hint in op.recommend_hints(10, "triton")} == {16}


def test_what_is_padded_costs() -> None:
    """Half of all groups have more than the mean, so tiles of the mean's height are half as many again."""
    mean = carver.GroupedMatmulTemplate(64, 2560, 3584, experts=64)
    drawn = carver.GroupedMatmulTemplate(carver.Routing(512, 64, 8), 2560, 3584)
    config = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 4, "GROUP_M": 8}
    one, other = (op.with_arch("h200").rank([config])[0] for op in (mean, drawn))
    assert 1.3 < other.details["padding"] / one.details["padding"] < 1.6


def test_a_layer_is_ranked_by_both_of_its_matmuls() -> None:
    layer = carver.MoETemplate(1024, 64, 8, 3584, 1280).with_arch("h200")
    hints = layer.recommend_hints(5)
    assert [h.predicted_ms for h in hints] == sorted(h.predicted_ms for h in hints)
    assert all(dict(h.layers["up"].config) == dict(h.layers["down"].config) == h.config for h in hints)
    theirs = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "num_warps": 4,
              "num_stages": 4}  # fmt: skip
    worse = theirs | {"BLOCK_SIZE_M": 16, "num_stages": 2}
    assert [h.config["BLOCK_M"] for h in layer.rank([worse, theirs])] == [64, 16]
    lines = str(hints[:2]).splitlines()
    assert lines[0] == "1024 tokens to 8 of 64 experts of 3584 x 1280 (bfloat16) on NVIDIA H200 SXM 141 GB"
    assert lines[1].split()[:6] == ["#", "ms", "up", "ms", "down", "ms"]
    assert [line.split()[0] for line in lines[2:4]] == ["1", "2"]
    assert hints[0].explain().count("Where the time goes") == 2
    assert "on h200_sxm" in repr(layer)


def test_a_layer_in_a_shell() -> None:
    scaled = ["--dtype", "fp8", "--scale-block", "128x128"]
    asked = ["recommend", "moe", "64", "8", "2", "1024", "512", "--arch", "h200", *scaled]
    layer = carver.MoETemplate(64, 8, 2, 1024, 512, "float8_e4m3", (128, 128), 1.5).with_arch("h200")
    best = layer.recommend_hints(2)
    shown = CliRunner().invoke(main, [*asked, "--routing", "1.5", "-k", "2"]).output
    assert len(shown.splitlines()) == len(str(best).splitlines()) and f"{best[0].predicted_ms:.4g}"[:5] in shown
    told = json.loads(CliRunner().invoke(main, [*asked, "--routing", "1.5", "--json"]).output)["hints"]
    assert told[0]["config"] == dict(best[0].config) and told[0]["predicted_ms"] == best[0].predicted_ms
    assert "Where the time goes" in CliRunner().invoke(main, [*asked, "--explain"]).output
    wrong = CliRunner().invoke(main, [*asked, "--routing", "round"])
    assert wrong.exit_code == 2 and "routing is 'uniform'" in wrong.output


def test_how_many_hints_of_a_layer_is_a_count() -> None:
    layer = carver.MoETemplate(64, 8, 2, 1024, 512).with_arch("h200")
    for topk in (0, -1, "x"):
        for separate in (False, True):
            with pytest.raises(ProblemError, match="topk must be a whole number of at least 1"):
                layer.recommend_hints(topk, separate=separate)  # type: ignore[arg-type]


def test_scales_of_a_layer_bound_its_steps() -> None:
    layer = carver.MoETemplate(64, 8, 2, 1024, 512, "float8_e4m3", (128, 128)).with_arch("h200")
    assert all(h.config["BLOCK_K"] <= 128 for h in layer.recommend_hints(50))


def test_skew_leaves_fewer_experts_with_more_rows_each() -> None:
    layers = [carver.MoETemplate(256, 64, 4, 1024, 512, routing=routing) for routing in ("uniform", 0.5, "zipf", 2.0)]
    tall = [layer.up.problem.options["tiles_128"] for layer in layers]
    active = [layer.up.problem.sizes["e"] for layer in layers]
    assert active == sorted(active, reverse=True) and active[0] == tall[0] and active[-1] < tall[-1]
    counted = carver.MoETemplate(2, 4, 2, 64, 64, routing=[2, 1, 1, 0])
    assert counted.up.problem.options["tiles_16"] == 3
    for routing, says in (("zipff", "routing is 'uniform'"), ([1, 1, 1, 0], "add up to 4; got 4 that add up to 3")):
        with pytest.raises(ProblemError, match=says):
            carver.MoETemplate(2, 4, 2, 64, 64, routing=routing)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["h100", "rtx_4090", "mi300x"])
def test_small_problems_of_8_bits_have_candidates(device: str) -> None:
    for scaled in (carver.ScaledMatmulTemplate(4096, 4096, 16), carver.ScaledMatmulTemplate(16, 16, 16)):
        assert scaled.with_arch(device).recommend_hints(1)
    op = carver.MatmulTemplate(16, 16, 16, in_dtype="float8_e4m3")
    assert op.with_arch(device).recommend_hints(1, "triton_block_fp8")


def test_blocks_of_scales_that_no_step_stays_within() -> None:
    for device in ("h100", "mi300x"):
        with pytest.raises(NoCandidates, match="a step stays within one block of scales"):
            carver.ScaledMatmulTemplate(64, 4096, 4096, scale_block="1x32").with_arch(device).recommend_hints(1)


def test_few_tokens_of_few_bits_take_few_warps_on_rdna() -> None:
    """vLLM's file of E=128, N=768 for a Radeon 8060S has 16 columns and one or two warps for 1 to 32 tokens; another
    sweep (vllm-project/vllm 44331) found one warp best, of 128 deep. Both agree that four are too many."""
    for tokens in (1, 4, 16):
        layer = carver.MoETemplate(tokens, 256, 8, 2048, 512, "bfloat16", (1, 128), weight_dtype="int4")
        first = layer.with_arch("radeon_8060s").recommend_hints(1)[0].config
        assert first["num_warps"] <= 2 and first["BLOCK_N"] == 16 and first["BLOCK_K"] == 128
        assert layer.with_arch("h200").recommend_hints(1)[0].config["num_warps"] >= 4


def test_what_a_kernel_says_of_unpacking_goes_before_what_compilers_do() -> None:
    compiled = np.array([0.0, 2.7])
    constants = {"convert_instr": 6.0}
    assert unpacking(SimpleNamespace(unpack_instr=5.0, convert_b_instr=compiled), constants) == 5.0  # type: ignore[arg-type]
    found = unpacking(SimpleNamespace(unpack_instr=None, convert_b_instr=compiled), constants)  # type: ignore[arg-type]
    assert found.tolist() == [6.0, 2.7]
