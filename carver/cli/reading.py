"""Configurations and problems of the user's, read from JSON, JSON lines or CSV, told apart by the first character."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from ..base.errors import ConfigError
from ..base.given import json_each, json_of, shown
from ..kernels.foreign import ROW_KEYS, is_grid
from ..ops.template import Template


def read_configs(text: str) -> list[dict[str, Any]] | dict[str, Any]:
    """Configurations; lists of values as a dict."""
    given = _read(text, "configurations", "the list of configurations", _rows)
    if not given:
        raise ConfigError("no configurations: the list is empty")
    if text.lstrip()[0] == "{" and isinstance(given[0], dict):
        if "hints" in given[0]:
            raise ConfigError("this is a ranking; its configurations are what jq '[.hints[].config]' takes out of it")
        if len(given) == 1 and is_grid(given[0]):
            return dict(given[0])
    return list(given)


def read_problems(text: str) -> list[Template]:
    """Templates from objects, or rows of a CSV with a header, of an operator and its arguments."""
    what = "the list of problems, which is neither JSON, one a line, nor CSV with a header,"
    return [_template(row, place) for place, row in enumerate(_read(text, "problems", what, _cells), 1)]


def _template(row: Any, place: int) -> Template:
    from ..evaluate.tables import template_of

    if not isinstance(row, dict):
        raise ConfigError(f"problem {place} is an object of an operator and its arguments, got {shown(row)}")
    words = {str(name): str(value) for name, value in row.items() if value is not None}
    return template_of(words.pop("operator", "matmul"), words, f"problem {place}")


def _read(text: str, of: str, what: str, csv_rows: Callable[[str], list[Any]]) -> list[Any]:
    match text.lstrip()[:1]:
        case "":
            raise ConfigError(f"no {of}: the input is empty")
        case "[":
            return list(json_of(text, what, ConfigError))
        case "{":
            return json_each(text, what, ConfigError)
    return csv_rows(text)


def _cells(text: str) -> list[dict[str, str]]:
    """Rows by the names of the header; an empty cell is left out."""
    header, rows = _table(text)
    for place, row in enumerate(rows, 1):
        if any(row[len(header) :]):
            raise ConfigError(f"problem {place} has {len(row)} cells, the header {len(header)}: {shown(','.join(row))}")
    return [{name: cell for name, cell in zip(header, row, strict=False) if cell} for row in rows]


def _rows(text: str) -> list[dict[str, Any]]:
    """A CSV's header names tunables; a cell may be empty. What `carver export csv` says besides is left out."""
    names, rows = _table(text)
    if not all(name.isidentifier() for name in names):
        raise ConfigError(
            "the configurations are neither JSON nor CSV with a header of tunables, such as BLOCK_M,BLOCK_N; the first "
            f"line is {shown(text.strip().splitlines()[0])}"
        )
    out = []
    besides = ROW_KEYS if ROW_KEYS[-1] in names else ()
    for place, row in enumerate(rows):
        if len(row) != len(names):
            raise ConfigError(f"row {place} of the CSV has {len(row)} cells, its header has {len(names)}")
        cells = {name: cell for name, cell in zip(names, row, strict=True) if name not in besides}
        if bad := [f"{name} is {cell!r}" for name, cell in cells.items() if not _whole(cell)]:
            raise ConfigError(f"row {place} of the CSV must have whole numbers; {', '.join(bad)}")
        out.append({name: int(cell) for name, cell in cells.items() if cell})
    return out


def _table(text: str) -> tuple[list[str], list[list[str]]]:
    """The header of a CSV, and its rows without blank ones."""
    try:
        header, *rows = ([cell.strip() for cell in row] for row in csv.reader(io.StringIO(text.lstrip(), newline="")))
    except csv.Error as error:
        raise ConfigError(f"the CSV cannot be read: {error}") from None
    if twice := [name for place, name in enumerate(header) if name and name in header[:place]]:
        raise ConfigError(f"the header of the CSV has {shown(twice[0])} twice")
    return header, [row for row in rows if any(row)]


def _whole(cell: str) -> bool:
    return not cell or (len(cell) < 20 and cell.removeprefix("-").isdecimal())
