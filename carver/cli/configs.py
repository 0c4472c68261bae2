"""Configurations of the user's, read from text."""

from __future__ import annotations

import csv
import io
from typing import Any

from ..base.errors import ConfigError
from ..base.given import json_each, json_of, shown
from ..kernels.foreign import SAID, is_grid


def read_configs(text: str) -> list[dict[str, Any]] | dict[str, Any]:
    """Configurations from JSON, JSON lines or CSV, told apart by their first character; lists of values as a dict."""
    start = text.lstrip()[:1]
    if not start:
        raise ConfigError("no configurations: the input is empty")
    if start == "[":
        given = json_of(text, "the list of configurations", ConfigError)
    else:
        given = _objects(text) if start == "{" else _rows(text)
    if not given:
        raise ConfigError("no configurations: the list is empty")
    if start == "{" and len(given) == 1 and isinstance(given[0], dict) and is_grid(given[0]):
        return dict(given[0])
    return list(given)


def _objects(text: str) -> list[Any]:
    """JSON objects one after the other, on one line each or on several."""
    found = json_each(text, "the list of configurations", ConfigError)
    if isinstance(found[0], dict) and "hints" in found[0]:
        raise ConfigError("this is a ranking; its configurations are what jq '[.hints[].config]' takes out of it")
    return found


def _rows(text: str) -> list[dict[str, Any]]:
    """A CSV's header names tunables; a cell may be empty. What `carver export csv` says besides is left out."""
    header, *rows = (row for row in csv.reader(io.StringIO(text, newline="")) if row)
    names = [name.strip() for name in header]
    if not all(name.isidentifier() for name in names):
        raise ConfigError(
            "the configurations are neither JSON nor CSV with a header of tunables, such as BLOCK_M,BLOCK_N; the first "
            f"line is {shown(text.strip().splitlines()[0])}"
        )
    out = []
    besides = SAID if SAID[-1] in names else ()
    for place, row in enumerate(rows):
        if len(row) != len(names):
            raise ConfigError(f"row {place} of the CSV has {len(row)} cells, its header has {len(names)}")
        cells = {name: cell for name, cell in zip(names, row, strict=True) if name not in besides}
        if bad := [f"{name} is {cell!r}" for name, cell in cells.items() if not _whole(cell)]:
            raise ConfigError(f"row {place} of the CSV must have whole numbers; {', '.join(bad)}")
        out.append({name: int(cell) for name, cell in cells.items() if cell})
    return out


def _whole(cell: str) -> bool:
    return not cell or (len(cell) < 20 and cell.strip().removeprefix("-").isdecimal())
