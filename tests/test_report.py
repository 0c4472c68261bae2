"""The report on measurements whose right answers are known by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from carver.base.errors import ConfigError, NoCandidates
from carver.problem.problem import Problem
from carver.run.bench import LIBRARY
from carver.run.records import Measurement
from carver.run.report import Report

PROBLEM = Problem(
    "matmul", "C[b,m,n] += A[b,m,k] * B[b,k,n]", {"b": 1, "m": 100, "n": 200, "k": 300},
    {"A": "float16", "B": "float16", "C": "float16"},
)  # fmt: skip


def measured(i: int, predicted: float | None, ms: float | None, bound: str = "dram", **changes: Any) -> Measurement:
    given: dict[str, Any] = {
        "run_id": "r", "candidate": f"c{i}", "outcome": "ok" if ms else "crash", "operator": "matmul",
        "problem": PROBLEM.to_dict(), "kernel": "mma", "backend": "cuda", "config": {"block_m": 16 * (i + 1)},
        "arch": "h200", "device": "NVIDIA H200", "host": "h", "rank": i, "predicted_ms": predicted, "bound": bound,
        "message": "" if ms else "illegal address",
    }  # fmt: skip
    m = Measurement(**{**given, **changes})
    return m.with_round([ms] * 12, {}) if ms else m


TIMES = [(1.0, 2.0), (1.1, None), (1.2, 1.5), (1.3, 1.8), (1.4, 1.0), (1.5, 3.0)]


@pytest.fixture
def report() -> Report:
    rows = [measured(i, p, t, "dram" if i < 3 else "tensor") for i, (p, t) in enumerate(TIMES)]
    library = measured(9, None, 1.25, kernel="torch", backend=LIBRARY, rank=None, config={})
    return Report(PROBLEM, [*reversed(rows), library], grid_size=77)


@pytest.mark.parametrize(("k", "slowdown"), [(1, 2.0), (2, 2.0), (3, 1.5), (4, 1.5), (5, 1.0), (10, 1.0)])
def test_slowdown_counts_failed_picks(report: Report, k: int, slowdown: float) -> None:
    assert report.slowdown(k) == pytest.approx(slowdown)


def test_slowdown_where_none_of_the_first_ran() -> None:
    report = Report(PROBLEM, [measured(0, 1.0, None), measured(1, 2.0, 5.0)])
    assert report.slowdown(1) is None and report.slowdown(2) == 1
    assert "k=1 none ran" in " ".join(report.summary())
    with pytest.raises(ConfigError, match="at least 1"):
        report.slowdown(0)


def test_best_and_rates(report: Report) -> None:
    assert report.best.median_ms == 1.0 and report.best.config == {"block_m": 80}
    assert report.rates["flops_per_s"] == pytest.approx(2 * 100 * 200 * 300 / 1e-3)
    assert report.rates["bytes_per_s"] == pytest.approx(2 * (100 * 300 + 300 * 200 + 100 * 200) / 1e-3)
    assert report.library_ratio == pytest.approx(1.25)
    with pytest.raises(ConfigError, match="measured without a hint"):
        _ = report.best.hint


def test_correlations_by_hand() -> None:
    # ranks 1 2 3 4 against 1 3 2 4: one pair of six discordant, sum of squared differences 2
    times = [(1.0, 10.0), (2.0, 12.0), (3.0, 11.0), (4.0, 99.0)]
    report = Report(PROBLEM, [measured(i, p, t) for i, (p, t) in enumerate(times)])
    assert report.spearman == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert report.correlation["kendall"] == pytest.approx(4 / 6)
    # within 1.5x of the best: ranks 1 2 3 against 1 3 2
    assert report.correlation["spearman_near_best"] == pytest.approx(0.5)
    assert report.correlation["kendall_near_best"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("times", [[(1.0, 1.0), (2.0, 2.0)], [(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]])
def test_correlation_of_nothing_is_none(times: list[tuple[float, float]]) -> None:
    report = Report(PROBLEM, [measured(i, p, t) for i, (p, t) in enumerate(times)])
    assert report.spearman is None and report.correlation["kendall"] is None


def test_residuals_by_bound(report: Report) -> None:
    dram, tensor = sorted(report.residuals, key=lambda r: r.bound)
    assert (dram.bound, dram.count, tensor.bound, tensor.count) == ("dram", 2, "tensor", 3)
    assert dram.median_ratio == pytest.approx(math.sqrt(2.0 * 1.5 / 1.2))
    assert tensor.median_ratio == pytest.approx(1.8 / 1.3)
    assert tensor.spread == pytest.approx(abs(math.log(1.0 / 1.4)))


def test_summary_says_how_many_were_measured(report: Report) -> None:
    text = "\n".join(report.summary())
    assert "5 measured of 77 feasible" in text and "failed: 1 crash" in text
    assert "slowdown of the first k picks, against the best of the 5 measured: k=1 2.000, k=3 1.500, k=5 1.000" in text
    assert "torch: 1.25 ms, 1.25 x" in text


def test_predictions_for_another_device_are_told() -> None:
    for here, told in (("h200", False), ("a100_pcie_80", True)):
        report = Report(PROBLEM, [measured(0, 1.0, 2.0, device_info={"arch": here}, hint={"arch": "h200"})])
        assert ("predicted for h200, measured on a100_pcie_80" in report.summary()) == told


@pytest.mark.parametrize(("bytes_per_s", "told"), [(4.5e12, ""), (6.1e12, "1.2 times as fast as the datasheet's DRAM")])
def test_what_is_faster_than_dram_is_told(bytes_per_s: float, told: str) -> None:
    """Of what L2 does not hold: small tensors may be there still."""
    for n, beyond in ((1 << 14, told), (1 << 11, "")):
        problem = Problem("elementwise", "Y[m,n] = X[m,n]", {"m": n, "n": n}, {"X": "float32", "Y": "float32"})
        one = measured(0, 1.0, problem.compulsory_bytes / bytes_per_s * 1e3, hint={"arch": "h200"})
        said = " ".join(Report(problem, [one]).summary())
        assert (beyond or "not to be relied on") in said if beyond else "relied" not in said


def test_all_failed_is_an_error_with_the_first_cause() -> None:
    report = Report(PROBLEM, [measured(0, 1.0, None), measured(1, 2.0, None, outcome="timeout", message="hung")])
    with pytest.raises(NoCandidates, match=r"illegal address.*\n- 1 by 'crash'\n- 1 by 'timeout'"):
        _ = report.best
    assert report.to_dict()["best"] is None and "crash" in str(report) and report.to_html()
    assert report.summary()[1] == "failed: 1 crash (illegal address), 1 timeout (hung)"


def test_of_a_compilers_log_the_error_is_told() -> None:
    log = "k.cu: nvcc failed (nvcc -D A)\nk.cu(3): warning: odd\nk.cu(4): error: no such tile\n1 error"
    (_, failed) = Report(PROBLEM, [measured(0, 1.0, None, outcome="compile_error", message=log)]).summary()
    assert failed == "failed: 1 compile error (k.cu(4): error: no such tile)"


def test_json_holds_the_findings(report: Report) -> None:
    d = json.loads(report.to_json())
    assert d["slowdown"] == {"1": 2.0, "3": 1.5, "5": 1.0, "10": 1.0} and d["measured"] == 5 and d["feasible"] == 77
    assert [row["rank"] for row in d["candidates"]] == [0, 1, 2, 3, 4, 5]
    assert [row["over_best"] for row in d["candidates"]] == [2.0, None, 1.5, 1.8, 1.0, 3.0]
    assert d["library"]["over_best"] == 1.25 and Problem.from_dict(d["problem"]) == PROBLEM


def test_text_table(report: Report) -> None:
    lines = str(report).splitlines()
    head = next(i for i, line in enumerate(lines) if line.lstrip().startswith("#"))
    assert re.split(r"\s\s+", lines[head]) == [
        "#", "measured ms", "predicted ms", "x best", "± %", "runs", "bound", "outcome", "block_m"
    ]  # fmt: skip
    rows = [line.split() for line in lines[head + 1 :]]
    assert rows[4] == ["4", "1.000", "1.400", "1.000", "0", "12", "tensor", "ok", "80"]
    assert rows[1] == ["1", "1.100", "0", "dram", "crash", "32"]  # no time, so none of what follows from it


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_text_table_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    tiles = [{"block_m": 128, "block_n": n, "block_k": 64, "warps": 8, "stages": 4, "group_m": n} for n in (128, 256)]
    text = str(Report(PROBLEM, [measured(i, 0.09, 0.0123 + i, "shared memory", config=c) for i, c in enumerate(tiles)]))
    assert max(map(len, text.splitlines())) <= columns and "…" not in text
    assert "in all rows: block_m=128 block_k=64 warps=8 stages=4" in text and "0.0123" in text and "1.0123" in text


def test_a_busy_device_is_told(report: Report) -> None:
    assert "busy" not in " ".join(report.summary()) and report.to_dict()["unsteady"] == 0
    shaky = measured(0, 1.0, 2.0).with_round([0.5] * 5 + [9.0] * 8, {})
    report = Report(PROBLEM, [shaky, measured(1, 2.0, 5.0)])
    assert report.unsteady == (shaky,)
    assert "1 of 2 times are known to no better than ±25 %" in " ".join(report.summary())
    assert "busy with something else" in str(report).replace("\n", " ")


def test_cores_that_others_took_are_told() -> None:
    calm, lost = ({"disturbed_percent": percent} for percent in (0, 30))
    report = Report(PROBLEM, [measured(0, 1.0, 2.0).with_round([2.0] * 9, calm)])
    assert "cores away" not in " ".join(report.summary())
    report = Report(PROBLEM, [measured(0, 1.0, 2.0).with_round([2.0] * 9, calm).with_round([2.0] * 9, lost)])
    assert "took cores away during 15 % of the runs" in " ".join(report.summary())
    assert report.to_dict()["disturbed_percent"] == 15


def test_the_page_holds_findings_candidates_and_a_picture(report: Report, tmp_path: Path) -> None:
    bad = measured(1, 2.0, None, message='<script>"x"</script>', config={"<b>": 1})
    text = Report(PROBLEM, [measured(0, 1.0, 2.0, "DRAM"), bad]).to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text and "<script>&" not in text
    [data] = re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)
    held = json.loads(data)
    assert held["measured"] == [[1.0, 2.0, "DRAM"]]
    findings, candidates = (table["rows"] for table in held["tables"])
    assert ["slowdown of the first k picks, against the best of the 1 measured: k=1 1.000"] in findings
    assert candidates[1][7:] == ["crash", "mma", "<b>=1", '<script>"x"</script>']
    assert report._repr_html_().count("<tr") == 1 + 6 and "&lt;b&gt;" in Report(PROBLEM, [bad])._repr_html_()


def test_plot_on_logarithmic_axes(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = report.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    (axes,) = figure.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert sum(len(line.get_xdata()) for line in axes.lines[:-1]) == 5
    with pytest.raises(ConfigError, match="nothing to plot"):
        Report(PROBLEM, [measured(0, None, 1.0)]).plot()


def test_a_report_on_nothing() -> None:
    with pytest.raises(ConfigError, match="no measurements"):
        Report(PROBLEM, [])
