"""Every notebook runs from a clean kernel, and what is checked in shows its pictures and no trace of a machine."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
BOOKS = sorted(FOLDER.glob("[0-9]*.ipynb"))
NEEDED = ("ipykernel", "ipywidgets", "kernel_tuner", "matplotlib", "nbclient", "nbformat", "pandas", "triton")
ELSEWHERE = ("02_roofline", "04_what_if", "05_confirm", "08_calibrate", "09_any_kernel")
"""Those whose calls other tests make: test_plots.py, test_arch.py, test_bench.py, test_calibrate.py, and the page on
any kernel in test_compiled_rank.py."""
READER = "jupyterlab"
"""In the extra for whoever reads them; to run them takes no more than what they need."""


def pictures(book: dict[str, Any]) -> list[str]:
    return [
        output["data"]["image/png"]
        for cell in book["cells"]
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]


def test_there_are_nine() -> None:
    assert [path.stem[:2] for path in BOOKS] == [f"{i:02d}" for i in range(1, 10)]


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_outputs_are_checked_in(path: Path) -> None:
    assert path.stat().st_size < 400_000
    text = path.read_text(encoding="utf-8")
    book = json.loads(text)
    assert len(pictures(book)) >= 3
    for png in pictures(book):
        assert base64.b64decode(png).startswith(b"\x89PNG")
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])
    assert not re.search(r"/home/|/root/|/tmp/|site-packages|widget-view", text) and str(FOLDER.parent) not in text


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_each_step_has_a_few_lines_of_text(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"][0].startswith(f"# {int(path.stem[:2])}. ")
    for cell in cells:
        if cell["cell_type"] == "markdown":
            assert len("".join(cell["source"])) < 700


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_nothing_is_measured_on_the_machine_that_runs_it(path: Path) -> None:
    """Else each run has other pictures, and other work on the machine is in them."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert not re.search(r"\.benchmark\(|\bcalibrate\(|\.tune\(|[\"']auto[\"']", code)


@cache
def runner() -> ModuleType:
    """notebooks/run.py. It is loaded once: what it imports takes a second."""
    spec = importlib.util.spec_from_file_location("notebooks_run", FOLDER / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=pytest.mark.exhaustive if path.stem in ELSEWHERE else pytest.mark.slow)
    for path in BOOKS
])  # fmt: skip
def test_runs_from_a_clean_kernel_and_prints_what_it_shows(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{path.stem} needs {package}")
    assert runner().main([path.stem, "--check"]) == 0, capfd.readouterr()


def test_menus_become_pictures_without_ipywidgets(monkeypatch: pytest.MonkeyPatch) -> None:
    from carver.ranking.plots import explore

    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    drawn: list[dict[str, int]] = []
    explore(lambda **chosen: drawn.append(chosen), a=(3, 1), b=[2])
    assert drawn == [{"a": 3, "b": 2}]


@pytest.mark.packages
def test_menus_offer_every_choice_and_begin_with_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ipywidgets")
    from carver.ranking.plots import explore

    drawn: list[dict[str, int]] = []
    explore(lambda **chosen: drawn.append(chosen), a=(3, 1), b=[2])
    shown = capsys.readouterr().out
    assert drawn == [{"a": 3, "b": 2}]
    assert "description='a', options=(3, 1)" in shown and "description='b', options=(2,)" in shown


def test_the_extra_has_what_running_needs() -> None:
    setup = (FOLDER.parent / "setup.py").read_text(encoding="utf-8")
    [extra] = re.findall(r'"notebook": \[(.*?)\]', setup, re.DOTALL)
    named = {re.split("[>;]", name)[0].replace("-", "_") for name in re.findall(r'"([^"]+)"', extra)}
    assert named == {*NEEDED, READER}
