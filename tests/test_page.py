"""The HTML page: what it holds, that it needs nothing else, and that a real browser draws it without an overflow."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from browser import in_a_browser, said

import carver
from carver.ranking.plots import document as ranked
from carver.ranking.plots import occupancy_curves, page, tables


def document(**more: Any) -> dict[str, Any]:
    hints = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200").recommend_hints(30, "triton")
    drawn = [
        {
            **hint.to_dict(),
            "occupancy": occupancy_curves(
                hint.arch, hint.launch.threads / 32, hint.launch.smem_bytes, hint.launch.registers
            ),
            "explanation": hint.explain().to_dict(),
        }
        for hint in hints
    ]
    return {
        "title": "matmul </script> & more", "hints": drawn, "rejected": dict(hints.rejected), "backend": "triton",
        "roofline": {"flops_per_s": 989e12, "dram_bytes_per_s": 4.8e12}, "command": "carver recommend", **more,
    }  # fmt: skip


def test_a_page_holds_the_data_and_asks_for_nothing_else() -> None:
    text = page(document())
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    held = json.loads(data)
    assert held["title"] == "matmul </script> & more" and len(held["hints"]) == 30
    assert "<title>matmul &lt;/script&gt; &amp; more</title>" in text
    outside = [url for url in re.findall(r"https?://[^\s\"'<>)]+", text) if url != "http://www.w3.org/2000/svg"]
    assert outside == [] and "@import" not in text and "src=" not in text


def test_numbers_that_json_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        page(document(seconds=float("nan")))


def test_curves_of_occupancy_are_those_of_the_calculator() -> None:
    """An H200 holds 65,536 registers, 2,048 threads and 228 KiB of shared memory an SM."""
    found = occupancy_curves(carver.CUDA("h200"), warps=8, smem_bytes=100 * 1024, registers=128)
    assert found["limits"] == {"shared memory": 2, "registers": 2, "threads": 8, "blocks": 32}
    registers = found["curves"]["registers a thread"]
    at = dict(zip(registers["values"], registers["blocks"], strict=True))
    assert at[min(at)] == 2  # shared memory holds back, whatever the registers
    assert at[max(at)] == 1  # 255 registers: 256 for each of 256 threads are all of the file
    assert np.all(np.diff(registers["blocks"]) <= 0) and registers["now"] == 128


PROBE = """
window.addEventListener("error", (event) => { document.title = "error: " + event.message; });
window.addEventListener("load", () => setTimeout(() => {
  document.querySelectorAll("tbody tr")[3].click();
  const outside = (each) => {
    const holder = each.closest("svg") ?? document.documentElement;
    const [box, held] = [each, holder].map((one) => one.getBoundingClientRect());
    return box.right > held.right + 1 || box.left < held.left - 1;
  };
  const wide = [...document.querySelectorAll("section, svg, svg text, pre, .bar, h2, p")].filter((each) =>
    outside(each) && !each.closest(".scroll"));
  document.title = JSON.stringify({
    rows: document.querySelectorAll("tr.chosen").length, sections: document.querySelectorAll("section").length,
    dots: document.querySelectorAll("circle").length, bars: document.querySelectorAll("svg rect").length,
    cells: [...document.querySelectorAll("td:nth-child(2)")].map((each) => each.innerText),
    wide: wide.map((each) => [each.tagName, each.textContent.slice(0, 40)]),
    ticks: [...document.querySelectorAll("svg:has(circle)")].map((each) => each.querySelectorAll(".grid").length),
    scrolls: [...document.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth + 1).length,
    page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  });
}, 50));
"""


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("width", [1400, 390])
def test_a_browser_draws_it_and_nothing_is_cut(tmp_path: Path, width: int) -> None:
    found = seen(page(document()), width, tmp_path)
    assert found["rows"] == 1 and found["sections"] == 5 and found["dots"] == 31
    assert found["wide"] == [] and found["page"] == 0
    rows = [[f"device_{i}", 0.0042 * i, "word " * 30] for i in range(4)]
    own = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200").recommend_hints(30)
    found = seen(page(ranked(own)), width, tmp_path)
    assert found["wide"] == [] and found["page"] == 0
    assert width < 1400 or not found["scrolls"], "all tunables of carver's own matmul fit a desk"
    times = {"title": "times", "columns": ["device", "ms", "why"], "rows": rows, "words": [0, 2], "bars": [1]}
    found = seen(page(tables("carver evaluate " + "long_name_" * 8, "", times)), width, tmp_path)
    assert found["rows"] == 0 and found["sections"] == 1 and found["wide"] == [] and found["page"] == 0
    assert found["cells"] == ["0.000000", "0.004200", "0.008400", "0.012600"] and found["bars"] == 3
    for factor in (1.0, 30.0):
        report = {**tables("report", "", times), "measured": [[0.28, 0.33, "DRAM"], [0.3 * factor, 0.34 * factor, ""]]}
        found = seen(page(report), width, tmp_path)
        assert found["sections"] == 2 and found["dots"] == 2 and found["wide"] == [] and found["page"] == 0
        assert [6 <= ticks <= 16 for ticks in found["ticks"]] == [True], "three on an axis, at the least"


def seen(text: str, width: int, tmp_path: Path) -> dict[str, Any]:
    """What a browser of this width says of a page."""
    file = tmp_path / "page.html"
    probed = text.replace("<script>\n", f"<script>{PROBE}</script>\n<script>\n", 1)
    file.write_text(probed, encoding="utf-8")
    return said(file, width, tmp_path / "profile")


@pytest.mark.parametrize(("words", "says"), [
    (("explain", "matmul", "512", "512", "512", "--arch", "h200"), "nearest"),
    (("evaluate", "tests/data/h100/triton_tma.csv", "--workers", "1"), "Slowdown of the first k picks"),
])  # fmt: skip
def test_other_commands_write_a_page_too(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    from click.testing import CliRunner

    from carver.cli.main import main

    done = CliRunner().invoke(main, [*words, "--html", str(tmp_path / "page.html")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    held = json.loads(data)
    assert len(held.get("hints", [])) == (words[0] == "explain")
    titles = [says, "Problems, the worst first pick first"] if words[0] == "evaluate" else []
    assert [table["title"] for table in held.get("tables", [])] == titles
    if titles:
        summary, problems = (table["rows"] for table in held["tables"])
        assert len(problems) == sum(row[2] for row in summary)
        assert [row[1] for row in problems] == sorted((row[1] for row in problems), reverse=True)


def held_by(file: Path) -> dict[str, Any]:
    [data] = re.findall(r'id="data">(.*?)</script>', file.read_text(encoding="utf-8"), re.DOTALL)
    held: dict[str, Any] = json.loads(data)
    return held


def test_devices_have_a_page_and_the_roofline_has_all_candidates(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from carver.cli.main import main

    asked = ["recommend", "matmul", "512", "512", "512", "--arch", "h200", "--topk", "2"]
    file = str(tmp_path / "page.html")
    assert CliRunner().invoke(main, [*asked, "--arch", "mi300x", "--html", file]).exit_code == 0
    [table] = held_by(tmp_path / "page.html")["tables"]
    assert sorted(row[0] for row in table["rows"]) == ["h200_sxm", "mi300x"]
    assert CliRunner().invoke(main, [*asked, "--html", file, "--roofline", str(tmp_path / "r.svg")]).exit_code == 0
    drawn = len(held_by(tmp_path / "page.html")["hints"])
    priced = carver.MatmulTemplate(512, 512, 512).with_arch("h200").recommend_hints(2).candidates
    assert drawn == min(priced, 300)
    assert f", first {priced} -->" in (tmp_path / "r.svg").read_text(encoding="utf-8")


def test_what_was_tuned_has_a_page() -> None:
    from carver.cli.measure import _tried
    from carver.tune import AutotuneResult

    def tried(rank: int, ms: float | None, outcome: str) -> Any:
        return SimpleNamespace(rank=rank, median_ms=ms, predicted_ms=1.0, outcome=outcome, config={"x": rank},
                               ok=ms is not None, bound="DRAM")  # fmt: skip

    rows = (tried(1, 2.0, "ok"), tried(2, None, "crash"), tried(3, 1.5, "ok"))
    found = AutotuneResult("copy", {"x": 3}, 1.5, rows, {"objective": 0}, "all tried", 3, 1.0, "key")
    [table] = _tried(found)["tables"]
    assert [row[0] for row in table["rows"]] == [3, 1, 2] and table["rows"][0][4] == "x=3"
    assert _tried(found)["measured"] == [(1.0, 1.5, "DRAM"), (1.0, 2.0, "DRAM")] and "crash" in page(_tried(found))


def test_a_column_that_holds_nothing_is_left_out() -> None:
    rows = [["a", None, 1.0, ""], ["b", None, 0, ""]]
    given = {"title": "t", "columns": ["device", "band", "ms", "why"], "rows": rows, "words": [0, 3], "bars": [2]}
    [table] = tables("", "", given)["tables"]
    assert table["columns"] == ["device", "ms"] and table["rows"] == [["a", 1.0], ["b", 0]]
    assert table["words"] == [0] and table["bars"] == [1]
