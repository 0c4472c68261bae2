"""What the pictures hold: data of the artists, labels with units, files. Not what they look like."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import carver
from carver.base.errors import CarverError, ConfigError
from carver.calibrate.summary import plot as plot_summary
from carver.calibrate.summary import score, summarise
from carver.calibrate.tables import Case
from carver.cli.main import main
from carver.ranking import plots
from carver.ranking.ranking import Ranking

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.collections import PathCollection  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

MATMUL = carver.MatmulTemplate(M=1024, N=1536, K=2048)
ARGUMENTS = ["matmul", "1024", "1536", "2048", "--arch", "h200"]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    return MATMUL.with_arch("h200").recommend_hints(6)


@pytest.fixture(scope="module")
def case() -> Case:
    """Measured times that are the predicted ones, but for three that did not run and one that took twice as long."""
    hints = MATMUL.with_arch("h200").recommend_hints(40, "triton")
    seconds = hints.seconds.copy()
    seconds[0] *= 2
    seconds[[5, 6, 7]] = np.nan
    return Case("t", hints.problem, hints.arch, "triton", [h.config for h in hints], seconds,
                reference_s=float(seconds[1]))  # fmt: skip


def bars(ax: Any) -> dict[int, list[tuple[float, float]]]:
    """(left end, length) of the bars of each row."""
    out: dict[int, list[tuple[float, float]]] = {}
    for patch in ax.patches:
        out.setdefault(round(patch.get_y() + patch.get_height() / 2), []).append((patch.get_x(), patch.get_width()))
    return out


def texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("op", [
    MATMUL.with_arch("h200"),
    carver.GEMVTemplate(N=4096, K=4096).with_arch("a100"),
    carver.ReductionTemplate("softmax", (512, 4096)).with_arch("l4"),
    carver.MatmulTemplate(M=64, N=64, K=64, in_dtype="float32").with_arch("cpu_avx2"),
], ids=["matmul", "gemv", "softmax", "cpu"])  # fmt: skip
def test_bars_of_terms_stand_end_to_end_and_add_up(op: Any) -> None:
    hints = op.recommend_hints(6)
    ax = hints.plot()
    rows = bars(ax)
    assert len(rows) == len(hints)
    for row, hint in zip(sorted(rows), hints, strict=True):
        ends = [left + width for left, width in rows[row]]
        assert [left for left, _ in rows[row]] == pytest.approx([0.0, *ends[:-1]])
        assert ends[-1] == pytest.approx(hint.predicted_ms)
        assert [w for _, w in rows[row] if w] == pytest.approx([ms for ms in hint.terms_ms.values() if ms])
    assert ax.get_xlabel() == "predicted time [ms]"
    assert ax.yaxis_inverted() and ax.get_xlim()[1] > max(h.predicted_ms for h in hints)


def test_terms_are_told_apart_and_rows_are_named(ranking: Ranking) -> None:
    ax = ranking.plot()
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == [name for name in ranking[0].terms_ms if any(h.terms_ms[name] for h in ranking)]
    colours = [to_hex(patch.get_facecolor()) for patch in ax.get_legend().get_patches()]
    assert len(set(colours)) == len(colours)
    for label, hint in zip(ax.get_yticklabels(), ranking, strict=True):
        place, *shown = label.get_text().split()
        assert place == str(hint.rank) and set(shown) <= {hint.kernel, *map(str, hint.config.values())}
    said = [t for t in texts(ax) if " ms, " in t]
    assert [t.partition(" ms, ")[2] for t in said] == [h.bound for h in ranking]
    assert [float(t.partition(" ms")[0]) for t in said] == pytest.approx([h.predicted_ms for h in ranking], rel=1e-3)


def test_roofline_has_the_device_s_roofs_and_every_hint(ranking: Ranking) -> None:
    hints, arch = MATMUL.with_arch("h200").recommend_hints(100), ranking.arch
    ax = hints.plot_roofline()
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert "[FLOP/byte" in ax.get_xlabel() and "[TFLOP/s]" in ax.get_ylabel()
    points = np.concatenate([c.get_offsets() for c in ax.collections])
    assert sorted(points[:, 1]) == pytest.approx(sorted(h.details["tflops"] for h in hints))
    lines = {line.get_label().partition(":")[0]: line.get_data() for line in ax.lines}
    assert lines["matrix units, float16"][1] == pytest.approx([arch.matrix_flops_per_s("float16") / 1e12] * 2)
    (x, *_), (y, *_) = lines["DRAM"]
    assert y / x == pytest.approx(arch.dram_bytes_per_s / 1e12)
    said = [t.get_text() for t in ax.get_legend().get_texts() if t.get_text().startswith("bound by")]
    assert sum(int(text.rpartition("(")[2][:-1]) for text in said) == len(hints)
    low, high = ax.get_ylim()
    assert low < points[:, 1].min() and points[:, 1].max() < high


@pytest.mark.parametrize("m", [16, 4096])
def test_every_line_of_a_roofline_is_named_once_and_none_on_the_plot(m: int) -> None:
    ax = carver.MatmulTemplate(m, 4096, 4096).with_arch("h200").recommend_hints(60).plot_roofline()
    named = [t.get_text() for t in ax.get_legend().get_texts()]
    assert sorted(named) == sorted(each.get_label() for each in (*ax.lines, *ax.collections))
    assert not texts(ax)


def test_units_of_one_rate_are_one_roof() -> None:
    ax = carver.MatmulTemplate(4096, 4096, 4096).with_arch("rx_7900_xtx").recommend_hints(9, "triton").plot_roofline()
    assert any(line.get_label().startswith("vector and matrix units") for line in ax.lines)


def test_forms_differ_as_well_as_colours() -> None:
    forms, colours = zip(*plots.MARKERS.values(), strict=True)
    assert len(set(forms)) == len(set(colours)) == len(plots.MARKERS)


def test_heat_map_of_the_best_holds_the_first_hint(ranking: Ranking) -> None:
    xs, ys, ms = plots.heatmap(ranking, "block_m", "block_n")
    best = ranking[0]
    assert np.nanmin(ms) == pytest.approx(best.predicted_ms)
    assert ms[ys.index(best.config["block_n"]), xs.index(best.config["block_m"])] == pytest.approx(best.predicted_ms)
    every = MATMUL.with_arch("h200").recommend_hints(10_000)
    chosen = [h.predicted_ms for h in every if h.config["block_m"] == xs[-1] and h.config["block_n"] == ys[1]]
    assert ms[1, -1] == pytest.approx(min(chosen))
    assert plots.heatmap(ranking, "block_m", "block_n", "median")[2][1, -1] == pytest.approx(np.median(chosen))


def test_heat_map_with_the_rest_kept(ranking: Ranking) -> None:
    best = ranking[0]
    xs, ys, ms = plots.heatmap(ranking, "stages", "block_k", "fixed")
    assert ms[ys.index(best.config["block_k"]), xs.index(best.config["stages"])] == pytest.approx(best.predicted_ms)
    for change in ranking.explain(0).changes:
        if change.tunable == "stages" and change.ms and change.new in xs:
            assert ms[ys.index(best.config["block_k"]), xs.index(change.new)] == pytest.approx(change.ms)


def test_heat_map_shows_what_it_computes(ranking: Ranking) -> None:
    xs, ys, ms = plots.heatmap(ranking, "block_m", "stages")
    ax = ranking.plot_heatmap("block_m", "stages")
    np.testing.assert_allclose(np.ma.filled(ax.images[0].get_array(), np.nan), ms)
    assert [t.get_text() for t in ax.get_xticklabels()] == list(map(str, xs))
    assert [t.get_text() for t in ax.get_yticklabels()] == list(map(str, ys))
    assert "block_m" in ax.get_xlabel() and "stages" in ax.get_ylabel()
    assert ax.figure.axes[1].get_ylabel() == "predicted time [ms]"
    cells = texts(ax)
    assert len(cells) == ms.size and cells.count("–") == int(np.isnan(ms).sum())
    assert [float(t) for t in cells if t != "–"] == pytest.approx(ms[np.isfinite(ms)].tolist(), rel=6e-3)
    (frame,) = ax.patches
    row, column = np.unravel_index(np.nanargmin(ms), ms.shape)
    assert (frame.get_x() + 0.5, frame.get_y() + 0.5) == (column, row)


def test_two_tunables_that_vary_need_no_names() -> None:
    given = {"BLOCK_M": [64, 128], "BLOCK_N": [64, 128, 256], "BLOCK_K": [64]}
    ax = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200").rank(given).plot_heatmap()
    assert "BLOCK_M" in ax.get_xlabel() and "BLOCK_N" in ax.get_ylabel()


def test_a_plot_of_no_hint_is_an_error(ranking: Ranking) -> None:
    with pytest.raises(CarverError, match="most must be a whole number of at least 1, got 0"):
        ranking.plot(most=0)


@pytest.mark.parametrize(("x", "y", "over", "message"), [
    ("block_q", "block_n", "best", r"no tunable 'block_q'.*block_"),
    ("block_m", "block_m", "best", "twice"),
    ("block_m", "", "best", "needs two tunables, x and y, of block_m, block_n"),
    ("block_m", "block_n", "worst", "'best', 'median' or 'fixed'"),
])  # fmt: skip
def test_heat_map_asked_wrongly(ranking: Ranking, x: str, y: str, over: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ranking.plot_heatmap(x, y, over)


def test_devices_side_by_side() -> None:
    names = ("h200", "a100", "mi300x")
    found = {name: MATMUL.with_arch(name).recommend_hints(1, "triton") for name in names}
    ax = plots.plot_devices(found)
    assert [sum(w for _, w in row) for row in bars(ax).values()] == pytest.approx(
        [found[name][0].predicted_ms for name in names]
    )
    assert [t.get_text() for t in ax.get_yticklabels()] == list(names)
    assert [t.get_text() for t in plots.plot_devices(found.values()).get_yticklabels()] == [
        found[name].arch.title for name in names
    ]
    assert "[ms]" in ax.get_xlabel() and all("TFLOP/s" in t for t in texts(ax))
    with pytest.raises(ConfigError, match="no rankings"):
        plots.plot_devices([])


def test_explanation_has_terms_resources_and_changes(ranking: Ranking) -> None:
    found = ranking.explain(0)
    top, bottom = found.plot().axes
    rows = bars(top)
    assert sum(w for _, w in rows.pop(0)) == pytest.approx(found.hint.predicted_ms)
    assert [row[0][1] for row in rows.values()] == pytest.approx([ms for ms in found.loop_ms.values() if ms])
    possible = [c for c in found.changes if c.ms is not None]
    percent = [100 * (c.ms / found.hint.predicted_ms - 1) for c in possible if c.ms]
    assert [row[0][1] for row in bars(bottom).values()] == pytest.approx(percent)
    assert [t.get_text().partition(" ")[0] for t in bottom.get_yticklabels()] == [c.tunable for c in possible]
    assert 0 < len(possible) < len(found.changes)
    assert f"left out: {len(found.changes) - len(possible)} steps that cannot run" in bottom.get_title(loc="left")
    assert "[ms]" in top.get_xlabel() and "[%]" in bottom.get_xlabel()


def test_report_of_a_case_and_its_points(case: Case) -> None:
    report = case.report()
    assert len(report.ok) == 37 and report.outcomes == {"ok": 37, "crash": 3}
    assert report.slowdown(1) == pytest.approx(2 * case.ranked().seconds[0] / case.seconds[1])  # type: ignore[union-attr]
    assert report.library_ratio == pytest.approx(1.0)
    ax = report.plot().axes[0]
    points = np.concatenate([np.column_stack(line.get_data()) for line in ax.lines[:-1]])
    expected = [(m.predicted_ms, m.median_ms) for m in report.ok]
    np.testing.assert_allclose(sorted(points.tolist()), sorted(expected))
    assert ax.get_xlim() == ax.get_ylim() and ax.get_xlabel() == "predicted time [ms]"
    assert ax.get_ylabel() == "measured time [ms]" and "library: " in str(
        [t.get_text() for t in ax.get_legend().get_texts()]
    )
    first, best = (c.get_offsets()[0] for c in ax.collections[:2])
    assert tuple(first) == pytest.approx(expected[0]) and best[1] == pytest.approx(report.best.median_ms)


def test_summary_has_a_pair_of_points_a_table_and_k(case: Case) -> None:
    rows = summarise([score(case)])
    ax = plot_summary(rows, (1, 5))
    xs = [c.get_offsets()[0][0] for c in ax.collections if isinstance(c, PathCollection)]
    assert xs == pytest.approx([v for k in (1, 5) for v in (rows[0].slowdown[k][0], rows[0].random[k])])
    assert "[×]" in ax.get_xlabel() and rows[0].name in ax.get_yticklabels()[0].get_text()


@pytest.mark.parametrize("command", [
    ["recommend", *ARGUMENTS],
    ["explain", *ARGUMENTS],
    ["rank", *ARGUMENTS, "--configs", "configs.json"],
    ["evaluate", "table.csv", "--workers", "1"],
], ids=["recommend", "explain", "rank", "evaluate"])  # fmt: skip
def test_command_line_saves_what_the_ending_names(command: list[str], case: Case, tmp_path: Path) -> None:
    configs = [{**c, "num_stages": 2} for c in case.configs[:4]]
    (tmp_path / "configs.json").write_text(json.dumps(configs))
    lines = ["operator,arch,backend,M,N,K,time_ms," + ",".join(f"config.{k}" for k in configs[0])]
    rows = [",".join(map(str, config.values())) for config in configs]
    lines += [f"matmul,h200,triton,1024,1536,2048,{i + 1},{row}" for i, row in enumerate(rows)]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    given = [str(tmp_path / word) if word.endswith((".json", ".csv")) else word for word in command]
    for ending, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        path = tmp_path / f"plot{ending}"
        result = CliRunner().invoke(main, [*given, "--plot", str(path)])
        assert result.exit_code == 0, result.output
        assert path.read_bytes().startswith(start) and path.stat().st_size > 5000
    result = CliRunner().invoke(main, [*given, "--plot", str(tmp_path / "plot.docx")])
    assert result.exit_code == 2 and ".png, .svg, .pdf" in result.output
    assert not pyplot.get_fignums()


def test_without_matplotlib_the_error_says_what_to_install(ranking: Ranking, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(CarverError, match="pip install matplotlib"):
        ranking.plot()


def test_ranking_loads_no_matplotlib() -> None:
    code = "import carver, sys; carver.GEMVTemplate(N=64, K=64).with_arch('h200').recommend_hints(1)\n"
    code += "import carver.ranking.plots; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_ticks_of_a_logarithmic_axis_stand_in_one_line(ranking: Ranking) -> None:
    ax = ranking.plot_roofline()
    for axis in (ax.xaxis, ax.yaxis):
        reach = {tick.get_pad() + tick._size for tick in (axis.get_major_ticks()[0], axis.get_minor_ticks()[0])}
        assert len(reach) == 1


def test_a_part_of_a_ranking_is_said_to_be_one() -> None:
    hints = MATMUL.with_arch("h200").recommend_hints(30)
    assert "first 20 of 30" in hints.plot().get_title("left") and "first" not in hints[:20].plot().get_title("left")
