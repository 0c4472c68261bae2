"""The Python of the README runs, and the commands of all pages are ones that the command line has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

import carver
from carver.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tour_runs() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(block, names)
    assert isinstance(names["hints"], carver.Ranking)
    assert len(names["hints"]) == 10
    assert sorted([*names["ranking"].indices, *names["ranking"].reasons]) == list(range(6))


def test_fused_chains_of_the_page_run() -> None:
    names: dict[str, Any] = {"carver": carver}
    page = (ROOT / "docs" / "fusion.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    assert names["f"].saved_bytes.keys() == {"S", "P"}


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_commands_exist(page: str) -> None:
    """Every `carver ...` of a page is a command, and has the options that it is given."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    commands = [*re.findall(r"^carver (.*)", blocks, re.MULTILINE), *re.findall(r"`carver ([^`]+)`", text)]
    assert commands or page == "docs/fusion.md"
    for line in commands:
        command: click.Command = main
        words = shlex.split(re.split(r"[#|]", line)[0])
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        assert command is not main, line
        known = {option for parameter in command.params for option in parameter.opts}
        if not isinstance(command, click.Group):
            assert {word for word in words if word.startswith("-")} <= known, line
