"""The site as a browser shows it: no block of code is cut, lists are lists, no page is without end."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from browser import in_a_browser, said

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["index", "start/tutorial", "howto/any_kernel", "howto/serving", "reference/tables", "evidence/accuracy"]
TASKS = sorted(f"howto/{path.stem}" for path in (ROOT / "docs" / "howto").glob("*.md"))
TALLEST = 20_000
"""Pixels of a page on a desk."""
PROBE = """<script>
window.addEventListener("load", () => setTimeout(() => {
  document.body.setAttribute("data-md-color-scheme", "SCHEME");
  const blocks = [...document.querySelectorAll("pre code")];
  const width = document.documentElement.clientWidth;
  const outside = (each) => each.getBoundingClientRect().right > width + 1;
  document.title = JSON.stringify({
    blocks: blocks.length, cut: blocks.filter((each) => each.scrollWidth > each.clientWidth + 1)
      .map((each) => each.textContent.slice(0, 60)),
    outside: blocks.filter((each) => outside(each.closest("pre"))).length,
    scrolls: blocks.every((each) => ["auto", "scroll"].includes(getComputedStyle(each).overflowX)),
    marks: [...document.querySelectorAll("article p")].map((each) => each.innerText)
      .filter((text) => /(^|\\n)[-*] /.test(text)),
    window: innerWidth, page: document.documentElement.scrollWidth - width,
    height: document.documentElement.scrollHeight,
    ink: getComputedStyle(document.body).color,
  });
}, 200));
</script></head>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="needs the extra docs"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@in_a_browser
@pytest.mark.parametrize(
    ("width", "scheme", "pages"),
    [(1400, "default", PAGES), (390, "slate", PAGES),
     pytest.param(1400, "default", TASKS, marks=pytest.mark.exhaustive)],
)  # fmt: skip
def test_pages_fit_their_window(site: Path, tmp_path: Path, width: int, scheme: str, pages: Sequence[str]) -> None:
    inks = set()
    for page in pages:
        file = site / f"{page}.html"
        probed = file.with_name(f"{file.stem}_{width}_{scheme}.html")
        text = file.read_text(encoding="utf-8").replace("</head>", PROBE.replace("SCHEME", scheme), 1)
        probed.write_text(text, encoding="utf-8")
        found = said(probed, width, tmp_path / "profile")
        assert found["window"] == width
        assert found["blocks"] or page.startswith(("evidence/", "howto/")), page
        assert found["page"] <= 0 and not found["outside"] and found["scrolls"] and not found["marks"], (page, found)
        if width == 1400:
            assert found["cut"] == [] and found["height"] <= TALLEST, (page, found)
        inks.add(found["ink"])
    assert len(inks) == 1


@in_a_browser
def test_no_page_is_without_end(site: Path, tmp_path: Path) -> None:
    """Of the pages that are made from the code, those with most of it."""
    for page in ("reference/api/rankings", "reference/cli/recommend", "reference/columns", "reference/declarations"):
        probed = site / f"{page}_probed.html"
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        probed.write_text(text.replace("</head>", PROBE.replace("SCHEME", "default"), 1), encoding="utf-8")
        found = said(probed, 1400, tmp_path / "profile")
        assert found["page"] <= 0 and found["height"] <= TALLEST, (page, found)


def test_the_landing_page_shows_rankings_made_beforehand(site: Path) -> None:
    landing = (site / "index.html").read_text(encoding="utf-8")
    pages = {path.name: path.read_text(encoding="utf-8") for path in (site / "demo").glob("*.html")}
    assert len(pages) == 96 and sum(map(len, pages.values())) < 8e6
    assert all(f'value="{name[:-5].split("_", 2)[2]}"' in landing for name in pages)
    assert "no candidate can run" in pages["5_0_t4.html"], "8-bit floats, of which a T4 knows nothing"


@in_a_browser
def test_a_page_of_the_demo_fits_its_window(site: Path, tmp_path: Path) -> None:
    page = (site / "demo" / "0_0_h200.html").read_text(encoding="utf-8")
    for width in (1400, 390):
        probed = tmp_path / "demo.html"
        text = page.replace("</head>", PROBE.replace("SCHEME", "default"), 1)
        probed.write_text(text, encoding="utf-8")
        assert said(probed, width, tmp_path / "profile")["page"] == 0
