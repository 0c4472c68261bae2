"""Many problems on one command line."""

from __future__ import annotations

import json
from typing import Any

import click

from ..base.errors import ConfigError
from ..base.given import json_each, json_of, shown
from ..evaluate.tables import template_of
from ..ops.template import Template, recommend_many
from .operators import device
from .options import told


def read_problems(text: str) -> list[Template]:
    """Templates from JSON (a list of objects, or one a line) or CSV with a header."""
    start = text.lstrip()[:1]
    if not start:
        raise ConfigError("no problems: the input is empty")
    what = "the list of problems, which is neither JSON, one a line, nor CSV with a header,"
    if start == "[":
        rows = json_of(text, what, ConfigError)
    elif start == "{":
        rows = json_each(text, what, ConfigError)
    else:
        header, *lines = ([cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip())
        rows = [{name: cell for name, cell in zip(header, line, strict=False) if cell} for line in lines]
    return [_template(row, place) for place, row in enumerate(rows, 1)]


def _template(row: Any, place: int) -> Template:
    if not isinstance(row, dict):
        raise ConfigError(f"problem {place} is an object of an operator and its arguments, got {shown(row)}")
    words = {str(name): str(value) for name, value in row.items()}
    return template_of(words.pop("operator", "matmul"), words, f"problem {place}")


def answer_many(text: str, arch: str | None, topk: int, backend: str | None, as_json: bool) -> None:
    """A line for each problem: its first hint, or, as JSON, all that `--json` says of one."""
    if arch is None:
        raise ConfigError("--many needs the device: --arch NAME")
    for ranking in recommend_many(read_problems(text), device(arch), topk, backend):
        click.echo(json.dumps(told(ranking), ensure_ascii=False) if as_json else f"{ranking.problem}: {ranking[0]}")
