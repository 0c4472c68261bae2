"""What the README and the pages say is so: Python that runs, commands that exist, figures that were measured."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from docs_site import accuracy
from docs_tables import written

import carver
from carver.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


DOCS = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
PAGES = ["README.md", "carver/skill/SKILL.md", *(f"docs/{page}" for page in DOCS)]


def run(page: str, **names: Any) -> dict[str, Any]:
    """What the Python blocks of a page, one after the other, leave behind."""
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    return names


def printed(*command: str) -> str:
    """What `carver ...` prints on a screen of 100 columns."""
    env = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "carver", *command], capture_output=True, text=True, check=True, cwd=ROOT, env=env
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 92


def test_the_tour_runs() -> None:
    names = run("README.md")
    assert isinstance(names["hints"], carver.Ranking)
    assert len(names["hints"]) == 10
    assert sorted([*names["ranking"].indices, *names["ranking"].reasons]) == list(range(6))


def test_fused_chains_of_the_page_run() -> None:
    names = run("docs/howto/fusion.md", carver=carver)
    assert names["f"].saved_bytes.keys() == {"S", "P"}


def test_the_tutorial_runs() -> None:
    names = run("docs/start/tutorial.md")
    assert sorted([*names["ranking"].indices, *names["ranking"].reasons]) == list(range(18))
    assert names["fewer_sms"][0].predicted_ms > names["best"].predicted_ms


@pytest.mark.parametrize(("page", "samples"), [("README.md", 1), ("docs/start/tutorial.md", 2)])
def test_samples_are_what_the_command_prints(page: str, samples: int) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"carver ([^`\n]*)\n```\n\n```text\n(.*?)\n```", text, re.DOTALL)
    assert len(found) == samples == text.count("```text")
    for command, sample in found:
        assert sample == printed(*shlex.split(command))


def test_the_picture_of_the_first_page_is_what_its_command_draws() -> None:
    drawn = (ROOT / "docs" / "ranking.svg").read_text(encoding="utf-8")
    for hint in carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200").recommend_hints(10):
        assert f"<!-- {hint.predicted_ms:.4f} ms, {hint.bound} -->" in drawn  # each text, beside its outlines


def test_the_support_matrix_is_what_was_measured() -> None:
    page = (ROOT / "docs" / "howto" / "devices.md").read_text(encoding="utf-8")
    assert written(page) == page, "make it anew: python tests/docs_tables.py"


ACCURACY = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in README.splitlines()
    if line.startswith("|") and " evaluate " in line
]


def test_the_accuracy_table_has_three_rows_that_the_long_one_has() -> None:
    page = (ROOT / "docs" / "evidence" / "accuracy.md").read_text(encoding="utf-8")
    plain = [re.sub("[¹²³⁴⁵⁶⁷]", "", line) for line in page.splitlines()]
    assert len(ACCURACY) == 3
    for row in ACCURACY:
        [line] = [line for line in plain if line.startswith(f"| {row[0]} |")]
        assert line.startswith(f"| {' | '.join(row[:5])} | no |")


def test_the_page_of_accuracy_is_part_of_its_table() -> None:
    folder = ROOT / "docs" / "evidence"
    page, all_rows = (folder / "accuracy.md").read_text(encoding="utf-8"), accuracy().splitlines()
    heads, _, *rows = re.findall(r"^\| kernel, device.*?(?=\n\n)", page, re.DOTALL | re.MULTILINE)[0].splitlines()
    assert heads == all_rows[0] and len(rows) > 12 and set(rows) < set(all_rows)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ACCURACY if "tests/data" in row[5]], ids=lambda row: row[0])
def test_the_accuracy_table_is_what_its_commands_print(row: list[str]) -> None:
    path = re.findall(r"`carver evaluate (.*)`", row[5])[0]
    size = row[0].rpartition(", ")[2]
    summaries = json.loads(printed("evaluate", path, "--json"))["rows"]
    [found] = [s for s in summaries if f"{s['problems']} x {s['candidates']:.0f}" == size]
    for k, cell in zip((1, 3, 5, 10), row[1:5], strict=True):
        mean, drawn = re.fullmatch(r"([\d.]+)(?: \(([\d.]+)\))?", cell).groups()  # type: ignore[union-attr]
        assert f"{found['slowdown'][str(k)]['mean']:.3f}" == mean
        assert drawn is None or f"{found['random'][str(k)]:.2f}" == drawn


def test_the_skill_is_printed_as_it_is() -> None:
    page = (ROOT / "carver" / "skill" / "SKILL.md").read_text(encoding="utf-8")
    assert page.startswith("---\nname: carver\n") and printed("skill") == page.rstrip("\n")


def test_the_index_for_programs_names_every_page() -> None:
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(([\w/]+)\.html\)", text)) == [page.removesuffix(".md") for page in DOCS]


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: carver\.([^\W_]\w*)$", page, re.MULTILINE)) == sorted(carver.__all__)


def test_every_page_is_in_the_navigation() -> None:
    nav = re.findall(r"^ +- (?:.*: )?([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(nav) == DOCS


GUIDES = [page for page in DOCS if page.startswith("howto/")]


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide_is_one_task_and_short(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert lines[0].startswith("# ")


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page}" for page in DOCS if not page.startswith("evidence/"))])
def test_words_of_the_laboratory_are_in_the_evidence_alone(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"\b(?:zoos?|looked at|mended|witness)\b", text) == []


def test_links_lead_somewhere() -> None:
    """Those of the pages that are outside the site, which mkdocs does not see."""
    for page in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: str) -> None:
    """Every `carver ...` of a page is a command, and has the options that it is given."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    commands = [*re.findall(r"^carver (.*)", blocks, re.MULTILINE), *re.findall(r"`carver ([^`]+)`", text)]
    for line in commands:
        command: click.Command = main
        context = click.Context(main)
        words = shlex.split(re.split(r"[#|]", line)[0])
        while isinstance(command, click.Group) and words and (found := command.get_command(context, words[0])):
            command = found
            words.pop(0)
        assert command is not main, line
        known = {option for parameter in command.params for option in parameter.opts}
        if not isinstance(command, click.Group):
            assert {word for word in words if word.startswith("-")} <= known, line


def test_measuring_programs_are_indexed_and_those_that_are_named_exist() -> None:
    programs = {path.name for path in (ROOT / "benchmarks").glob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", (ROOT / "benchmarks" / "README.md").read_text())) == programs
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests" / "data").glob("*/README.md")]
    gone = r"benchmarks/(?:kernels/)?\w+\.py[^`|]*`?\s+(?:of|at)\s+commit\s+[0-9a-f]{7}"  # of an earlier commit
    texts = [re.sub(gone, "", page.read_text(encoding="utf-8")) for page in pages]
    named = {name for text in texts for name in re.findall(r"(?:benchmarks|benchmarks/kernels|tests)/\w+\.py", text)}
    assert len(named) > 40 and not [name for name in named if not (ROOT / name).is_file()]
