"""Rankings: order, ties, places, slices, what was rejected and why, and how they look."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import carver
from carver.base.errors import ConfigError, NoCandidates, ProblemError
from carver.base.table import Column, aligned, fitted
from carver.kernels.declaration import kernels
from carver.ranking.table import joined, kibibytes

OP = carver.MatmulTemplate(1000, 504, 768).with_arch("h200")
GOOD = dict(BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, num_warps=4, num_stages=3)
SHARED = "shared memory of one block fits arch.smem_per_block_bytes"



def test_best_first(ranking: carver.Ranking) -> None:
    times = [h.predicted_ms for h in ranking]
    assert times == sorted(times)
    assert [h.rank for h in ranking] == list(range(1, len(ranking) + 1))
    assert np.allclose(ranking.seconds * 1e3, times)


def test_the_first_k_are_the_same_for_every_k(ranking: carver.Ranking) -> None:
    op = carver.ops.operator.Template(ranking.problem, ranking.arch)
    everything = op.recommend_hints(10**9, ranking.backend)
    assert len(everything) == everything.candidates
    for k in (1, 3, 7, len(ranking)):
        assert list(op.recommend_hints(k, ranking.backend)) == list(everything[:k])
    assert len(set(everything.rows)) == everything.candidates


def test_equal_times_have_one_order(ranking: carver.Ranking) -> None:
    keys = [
        (h.predicted_ms, h.launch.smem_bytes, h.num_warps) for h in ranking
    ]  # the kernel and its tunables decide what is left
    assert keys == sorted(keys)


def test_ranking_ones_own_configurations_gives_the_same_times(ranking: carver.Ranking) -> None:
    op = carver.ops.operator.Template(ranking.problem, ranking.arch)
    backwards = [h.config for h in ranking][::-1]
    again = op.rank(backwards, ranking.backend)
    assert [h.config for h in again] == [h.config for h in ranking]
    assert again.seconds.tolist() == ranking.seconds.tolist()
    assert [backwards[h.index] for h in again] == [h.config for h in again]
    assert again.indices == [h.index for h in again]
    assert op.rank(list(ranking), ranking.backend).seconds.tolist() == ranking.seconds.tolist()


def test_prints_within_a_screen(ranking: carver.Ranking) -> None:
    lines = repr(ranking).splitlines()
    assert max(map(len, lines[:23])) <= 100
    assert re.match(r" *1 ", next(line for line in lines if line.lstrip().startswith("1 ")))
    assert "\x1b" not in repr(ranking)
    assert f"{len(ranking) - 20} more below" in repr(ranking) if len(ranking) > 20 else True


def test_shows_as_html(ranking: carver.Ranking) -> None:
    html = ranking._repr_html_()
    assert html.count("<tr>") == min(len(ranking), 20) + 1
    assert "<script" not in html
    headings = re.findall(r"<th\b[^>]*>(.*?)</th>", html)
    assert headings[headings.index("ms") + 1] == "time", "the bars are on the screen"
    for tag in ("div", "table", "tr", "td", "th", "span"):
        assert len(re.findall(rf"<{tag}\b", html)) == html.count(f"</{tag}>"), tag


def test_to_frame(ranking: carver.Ranking) -> None:
    pytest.importorskip("pandas")
    frame = ranking.to_frame()
    assert len(frame) == len(ranking)
    assert frame["predicted_ms"].tolist() == [h.predicted_ms for h in ranking]
    assert frame["rank"].tolist() == list(range(1, len(ranking) + 1))


def test_slices_are_rankings() -> None:
    ranking = OP.recommend_hints(10)
    part = ranking[2:5]
    assert isinstance(part, carver.Ranking)
    assert [h.config for h in part] == [ranking[i].config for i in (2, 3, 4)]
    assert ranking[-1].config == ranking[9].config
    with pytest.raises(IndexError, match="this ranking has 10 hints; there is no hint 10"):
        ranking[10]


def test_reasons_that_differ_in_numbers_alone_are_one_line() -> None:
    needs = "it needs {} bytes of shared memory, a block may have 101,376".format
    assert joined({needs("126,976"): 1, "float8 is not float16": 2, needs("99"): 2, "float8 is not float32": 1}) == {
        needs("99 to 126,976"): 3, "float8 is not float16": 2, "float8 is not float32": 1,
    }  # fmt: skip
    assert kibibytes([16384, 4096]) == ("16", "4") and kibibytes([16384, 512]) == ("16.0", "0.5")
    assert kibibytes([]) == ()


def test_asking_again_gives_the_same_object() -> None:
    op = carver.MatmulTemplate(64, 64, 64).with_arch("h200")
    assert op.recommend_hints(5) is op.recommend_hints(5)


def test_what_cannot_run_is_told_by_place_and_rule() -> None:
    configs = [
        GOOD,
        GOOD | {"BLOCK_M": 48},
        GOOD | {"BLOCK_M": 256, "BLOCK_N": 256, "num_stages": 7, "BLOCK_K": 128},
        GOOD | {"num_warps": 3},
        GOOD | {"BLOCK_K": 8},
    ]
    ranking = OP.rank(configs)
    assert [h.index for h in ranking] == [0]
    assert ranking.reasons == {
        1: "Triton tiles are powers of two (tile_m is 48)",
        2: f"{SHARED} (it needs 524,288 bytes, a block may have 232,448)",
        3: "num_warps is a power of two (num_warps is 3)",
        4: "tl.dot needs at least 16 in K, 32 of 8-bit types (tile_k is 8, at least 16)",
    }
    assert ranking.rejected["num_warps is a power of two"] == 1, "counted by rule"
    with pytest.raises(NoCandidates, match=f"2 by '{SHARED}' .it needs 524,288 bytes, a block may have 232,448."):
        OP.rank([configs[2]] * 2)
    assert sum(ranking.rejected.values()) == 4
    assert ranking.given == 5
    assert "1 of 5 given configurations can run" in str(ranking)


def test_none_can_run() -> None:
    with pytest.raises(NoCandidates) as caught:
        OP.rank([GOOD | {"BLOCK_M": 48}, GOOD | {"BLOCK_N": 48}])
    assert caught.value.removed == {"Triton tiles are powers of two": 2}


@pytest.mark.parametrize("topk", [0, -1, 2.0, "3", None, True])
def test_topk_is_a_whole_number_above_zero(topk: object) -> None:
    with pytest.raises(ProblemError, match=re.escape(f"topk must be a whole number of at least 1, got {topk!r}")):
        OP.recommend_hints(topk)  # type: ignore[arg-type]


@pytest.mark.parametrize("topk", [np.int64(3), np.uint8(3)])
def test_topk_may_be_a_numpy_integer(topk: int) -> None:
    assert len(OP.recommend_hints(topk)) == 3


@pytest.mark.parametrize(("configs", "error", "says"), [
    ([], ConfigError, "no configurations given"),
    ({"BLOCK_M": 64}, ConfigError, "rank takes a list of configurations, or lists of values by key"),
    ("BLOCK_M", ConfigError, "rank takes a list of configurations, got 'BLOCK_M'"),
    (None, ConfigError, "rank takes a list of configurations, got None"),
    ([GOOD, {"BLOCK_M": 64}], ConfigError, "lacks BLOCK_K, BLOCK_N"),
    ([GOOD | {"BLOCK_L": 1}], ConfigError, "unknown key 'BLOCK_L'; did you mean"),
    ([GOOD | {"num_warps": 4.5}], ConfigError, "num_warps must be a whole number from 0 to 2^31, got 4.5"),
    ([GOOD | {"num_warps": None}], ConfigError, "got None"),
    ([7], ConfigError, "is 7; expected a dict"),
])  # fmt: skip
def test_wrong_configurations(configs: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        OP.rank(configs)  # type: ignore[arg-type]


def test_a_wrong_configuration_is_named_by_its_place() -> None:
    with pytest.raises(ConfigError, match="configuration 2 "):
        OP.rank([GOOD, GOOD, {"BLOCK_M": 1}])


def test_generators_and_numpy_integers_are_taken() -> None:
    configs = ({name: np.int32(value) for name, value in GOOD.items()} for _ in range(2))
    assert [h.config["BLOCK_M"] for h in OP.rank(configs)] == [64, 64]


def test_hints_of_another_kernel_are_refused() -> None:
    with pytest.raises(ConfigError, match="configuration 0 is for kernel"):
        OP.rank(OP.recommend_hints(1), backend="triton")


def test_explanation_adds_up() -> None:
    ranking = OP.recommend_hints(3, "triton")
    told = ranking.explain(1)
    assert told.hint == ranking[1]
    assert told.roofline_ms == pytest.approx(max(told.arithmetic_ms, told.traffic_ms))
    assert told.arithmetic_ms == pytest.approx(ranking.problem.flops / ranking.arch.matrix_flops_per_s("float16") * 1e3)
    assert min(told.limits.values()) == ranking[1].details["blocks_per_sm"]
    for change in told.changes:
        config = ranking[1].config | {change.tunable: change.new}
        if change.ms is None:
            assert change.why
            with pytest.raises(NoCandidates):
                OP.rank([config])
        else:
            assert OP.rank([config])[0].predicted_ms == pytest.approx(change.ms)
    moved = {(c.tunable, c.new > c.old) for c in told.changes}
    assert ("num_warps", False) in moved or ("num_warps", True) in moved
    assert json.loads(json.dumps(told.to_dict()))["hint"]["config"] == dict(ranking[1].config)


def test_explaining_on_another_device_says_so() -> None:
    hint = OP.rank([GOOD])[0]
    told = hint.explain(carver.CUDA("a100_sxm_40"))
    assert told.hint.arch.name == "a100_sxm_40"
    assert "The hint itself says" in str(told)


@pytest.mark.parametrize(("values", "expected"), [
    ([0.23673, 0.2388], ("0.2367", "0.2388")),
    ([12.0, 345.678], ("12.00", "345.68")),
    ([1.0, 2.0], ("1", "2")),
    ([123456.7], ("123457",)),
    ([0.0], ("0",)),
    ([], ()),
])  # fmt: skip
def test_numbers_of_a_column_have_the_same_decimals(values: list[float], expected: tuple[str, ...]) -> None:
    assert aligned(values) == expected


def test_plots(tmp_path) -> None:  # type: ignore[no-untyped-def]
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ranking = OP.recommend_hints(5, "triton")
    bars = ranking.plot()
    assert bars.get_xlabel() == "predicted time [ms]"
    widths = {rank: 0.0 for rank in range(5)}
    for patch in bars.patches:
        widths[round(patch.get_y() + patch.get_height() / 2)] += patch.get_width()
    assert list(widths.values()) == pytest.approx([h.predicted_ms for h in ranking])
    roof = ranking.plot_roofline()
    assert "FLOP/byte" in roof.get_xlabel()
    assert "TFLOP/s" in roof.get_ylabel()
    points = np.concatenate([c.get_offsets() for c in roof.collections])
    assert sorted(points[:, 1]) == pytest.approx(sorted(h.details["tflops"] for h in ranking))
    roof.figure.savefig(tmp_path / "roof.svg")
    matplotlib.pyplot.close("all")


def test_an_empty_slice_prints_and_has_nothing_to_plot() -> None:
    none = OP.recommend_hints(3)[0:0]
    assert "<table>" in none._repr_html_() and "backend cuda" in repr(none)
    pytest.importorskip("matplotlib")
    for draw in (none.plot, none.plot_roofline):
        with pytest.raises(ConfigError, match="nothing to plot"):
            draw()


def test_rules_are_told_before_what_is_only_avoided() -> None:
    op = carver.FlashAttentionTemplate(1, 8, seq=128, head_dim=7).with_arch("h200")
    with pytest.raises(NoCandidates) as caught:
        op.recommend_hints()
    told = list(caught.value.removed)
    assert told.index("tl.dot needs at least 16 in each axis") < min(
        told.index(why) for kernel in kernels("attention", "triton") for why in kernel.avoid if why in told
    )


def test_a_problem_beyond_the_memory_is_noted() -> None:
    hints = carver.MatmulTemplate(10**6, 10**6, 10**5).with_arch("rtx_3060").recommend_hints(1)
    assert any("the memory of NVIDIA GeForce RTX 3060 is 12.0 GiB" in note for note in hints.notes)
    assert not OP.recommend_hints(1).notes


def test_templates_of_one_tool_are_ranked_for_it() -> None:
    for arch, backend in (("a100", "kernel_tuner"), ("mi300x", "kernel_tuner_hip")):
        assert carver.Conv2DTemplate(64, 64, 3, 3).with_arch(arch).recommend_hints(1).backend == backend
        assert carver.DedispersionTemplate(64, 64, 3, 3).with_arch(arch).recommend_hints(1).backend == backend


@pytest.mark.parametrize(("backend", "device"), [("cpu", "h200"), ("cuda", "avx2"), ("triton", "avx2")])
def test_a_backend_of_another_kind_of_device(backend: str, device: str) -> None:
    for op in (carver.ElementwiseTemplate((64, 64)), carver.MatmulTemplate(64, 64, 64)):
        with pytest.raises(ConfigError, match=f"backend '{backend}' is for a .PU, .* is a .PU; for it, .* has '"):
            op.with_arch(device).recommend_hints(1, backend)


@pytest.mark.parametrize(
    ("device", "dtype", "kernel"),
    [
        ("t4", "float16", "mma"), ("rtx_2080_ti", "float16", "mma"), ("quadro_rtx_8000", "int8", "mma"),
        ("t4", "bfloat16", "simt"),  # which its tensor cores do not take
        ("gtx_1660", "float16", "simt"),  # without tensor cores
        ("v100", "float16", "simt"),  # whose only instruction is 8 x 8 x 4
        ("a100", "float16", "mma"),
    ],
)  # fmt: skip
def test_own_tensor_core_kernel_is_offered_from_compute_capability_7_5_on(device: str, dtype: str, kernel: str) -> None:
    hints = carver.MatmulTemplate(2048, 2048, 2048, in_dtype=dtype).with_arch(device).recommend_hints(5, "cuda")
    assert {hint.kernel for hint in hints} == {kernel}
    assert kernel == "simt" or not hints.notes


def test_options_of_amd_that_the_model_has_no_part_for_are_named() -> None:
    config = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "num_warps": 4,
              "num_stages": 2}  # fmt: skip
    op = carver.MatmulTemplate(4096, 4096, 4096)
    tuned = config | {"waves_per_eu": 2, "matrix_instr_nonkdim": 16, "kpack": 2}
    ranking = op.with_arch("mi300x").rank([tuned], "triton")
    assert "not in the model, ranked as if not set: waves_per_eu, kpack" in ranking.notes
    assert ranking[0].predicted_ms == op.with_arch("mi300x").rank([config], "triton")[0].predicted_ms
    with pytest.raises(ConfigError, match="unknown key"):
        op.with_arch("h200").rank([tuned], "triton")


def test_a_ranking_is_text_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """There rich shows what a console prints, wherever it is told to print it."""
    plain = str(carver.MatmulTemplate(512, 512, 512).with_arch("h200").recommend_hints(2))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(carver.MatmulTemplate(512, 512, 512).with_arch("h200").recommend_hints(2)) == plain
    assert plain.count("\n") > 3


def test_headings_are_broken_only_where_the_table_needs_it() -> None:
    columns = [Column("a_long_name", ("1",)), Column("b_c", ("2",)), Column("smem KiB", ("3",), spare=1)]
    whole, one, left = ([c.heading for c in fitted(columns, width)] for width in (24, 15, 10))
    assert whole == ["a_long_name", "b_c", "smem KiB"]
    assert one == ["a_\nlong_\nname", "b_c", "smem\nKiB"]
    assert left == ["a_\nlong_\nname", "b_c"]


def test_a_launch_that_leaves_most_of_a_device_idle_says_so() -> None:
    """A sum of products of three has no kernel that splits its one row."""
    ranking = carver.OpTemplate("s[] += x[i] * y[i] * z[i]", i=1 << 26).with_arch("h100").recommend_hints(1)
    assert "1 block for 132 SMs: most of the device has no part in #1" in str(ranking)
    assert "no part in" not in str(carver.MatmulTemplate(4096, 4096, 4096).with_arch("h100").recommend_hints(1))
