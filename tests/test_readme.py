"""The README's Python runs, and its shell commands are ones that the command line has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import carver
from carver.cli import main

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_tour_runs() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(block, names)
    assert isinstance(names["hints"], carver.Ranking)
    assert len(names["hints"]) == 10
    assert sorted([*names["ranking"].indices, *names["ranking"].reasons]) == list(range(6))


def test_commands_exist() -> None:
    commands = re.findall(r"(?:^|[ `/])carver ((?:recommend|rank|explain|archs|arch|bench|records)\b[^`\n]*)", README)
    assert len(commands) >= 4
    for command in commands:
        words = [word for word in shlex.split(command) if not word.startswith("-")]
        assert words[0] in main.commands
        if words[0] in ("recommend", "rank") and len(words) > 1:
            assert words[1] in main.commands[words[0]].commands  # type: ignore[attr-defined]
