"""Tables of text that keep to a screen's width, for the terminal and without colour, and bars of progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from math import floor, log10
from textwrap import wrap
from typing import Any, TypeAlias

from .given import printable
from .types import Record

Tunables: TypeAlias = "tuple[list[Column], dict[str, object]]"
WIDTH = 100
"""Columns that a table may take where no terminal says how wide it is."""
ROWS_SHOWN = 20
"""Hints shown unless the caller asks for more: what fits on a screen."""


class Column(Record):
    """A column of a table, with the text of each row's cell."""

    heading: str
    cells: tuple[str, ...]
    is_text: bool = False
    style: str = ""
    may_shrink: bool = False
    """Whether cells may be cut, and then end in "…"."""
    spare: int = 0
    """Above 0: may be left out where a table is too wide; the highest goes first."""

    @cached_property
    def width(self) -> int:
        return self.wide(self.heading)

    def wide(self, heading: str) -> int:
        return max(map(len, (*self.cells, *heading.split("\n"))))


def screen_width() -> int:
    """$COLUMNS or the terminal's; `WIDTH` where the output goes to a file or a pipe."""
    from shutil import get_terminal_size

    return get_terminal_size((WIDTH, 0)).columns


def line_width(columns: Iterable[Column], gap: int) -> int:
    widths = [column.width for column in columns]
    return sum(widths) + gap * (len(widths) - 1)


def fitted(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns made to fit: headings on more lines, texts cut that may be, columns left out. No word of a heading is
    broken; a name is, at its underscores, before a column is left out. As few are broken as make the rest fit."""
    kept = list(columns)
    while line_width(shown := _narrowed(kept, width), 1) > width and (spare := max(kept, key=lambda c: c.spare)).spare:
        kept.remove(spare)
    return shown


def _narrowed(columns: Sequence[Column], width: int) -> list[Column]:
    """As many headings on more lines as make the columns fit, and then texts cut."""
    out = list(columns)
    widths = [column.width for column in out]
    excess = line_width(out, 1) - width
    for mark, broken in ((" ", "\n"), ("_", "_\n")):
        if excess <= 0:
            break
        gains = [0 if "\n" in c.heading else w - c.wide(c.heading.replace(mark, broken))
                 for c, w in zip(out, widths, strict=True)]  # fmt: skip
        while excess > 0 and (most := max(gains)):
            at = gains.index(most)
            out[at] = replace(out[at], heading=out[at].heading.replace(mark, broken))
            excess, widths[at], gains[at] = excess - most, widths[at] - most, 0
    for i, c in enumerate(out):
        if c.may_shrink and (excess := line_width(out, 1) - width) > 0:
            most = max(8, c.width - excess)
            out[i] = replace(c, cells=tuple(t if len(t) <= most else f"{t[: most - 1]}…" for t in c.cells))
    return out


def said_left_out(columns: Sequence[Column], width: int) -> list[str]:
    """The line below a table that names the columns that `fitted` leaves out, if any."""
    kept = {column.spare for column in fitted(columns, width)}
    left = [column.heading.replace("\n", " ") for column in columns if column.spare not in kept]
    return [f"left out for want of width: {', '.join(left)}"] if left else []


def tunables(configs: Sequence[Mapping[str, object]], rest: Sequence[Column] = (), width: int = WIDTH) -> Tunables:
    """A column for each key of some configurations, and what has one value in all of them and needs none. Those of a
    single configuration have a column each as long as that fits beside the `rest`."""
    values = {name: [config.get(name) for config in configs] for name in dict.fromkeys(n for c in configs for n in c)}
    columns = {
        name: Column(name, tuple("" if v is None else str(v) for v in cells), spare=place)
        for place, (name, cells) in enumerate(values.items(), 1)
    }
    if len(configs) > 1:
        same = [name for name, cells in values.items() if all(cell == cells[0] for cell in cells)]
    else:
        same = list(columns) if line_width([*rest, *columns.values()], 2) > width else []
    return [column for name, column in columns.items() if name not in same], {name: values[name][0] for name in same}


def in_all(same: Mapping[str, object]) -> list[str]:
    """The line below a table that says which tunables have one value in all rows, if any."""
    return [f"in all rows: {words(same)}"] if same else []


def words(config: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())


def drawn(columns: Sequence[Column], width: int, styled: bool = False) -> str:
    """What `fitted` gives as text, one line a row, so that nothing but a text that may be is ever cut. `styled`: with
    codes for a terminal's colours, which `click.echo` leaves out elsewhere."""
    shown = fitted(columns, width)
    gap = " " * (2 if line_width(shown, 2) <= width else 1)
    heads = [column.heading.split("\n") for column in shown]
    tall = max(map(len, heads), default=0)
    heads = [[""] * (tall - len(head)) + head for head in heads]
    widths = [column.width for column in shown]

    def line(cells: Iterable[str], styles: Iterable[str]) -> str:
        out = []
        for cell, column, room, style in zip(cells, shown, widths, styles, strict=True):
            text = in_style(cell, style) if styled and style and cell else cell  # spaces at the end of a row go
            rest = " " * (room - len(cell))
            out.append(text + rest if column.is_text else rest + text)
        return gap.join(out).rstrip()

    lines = [line((head[i] for head in heads), ["bold"] * len(shown)) for i in range(tall)]
    styles = [column.style for column in shown]
    rows = zip(*(column.cells for column in shown), strict=True)
    return "\n".join([*lines, *(line(map(printable, row), styles) for row in rows)])


_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}


def in_style(text: str, style: str) -> str:
    """The text between the codes of a terminal for these words, such as "bold cyan"."""
    return f"\x1b[{';'.join(str(_CODES[word]) for word in style.split())}m{text}\x1b[0m"


def titled(title: str, columns: Sequence[Column], width: int, remarks: Iterable[str], styled: bool = False) -> str:
    """A table below its title and above what is to be said of it, and of the columns that did not fit."""
    foot = "\n".join(wrapped([*said_left_out(columns, width), *remarks], width))
    head = "\n".join(wrapped([title], width))
    if styled:
        head, foot = in_style(head, "bold"), in_style(foot, "dim")
    return "\n".join([head, drawn(columns, width, styled), *([foot] if foot else [])])


def wrapped(lines: Iterable[str], width: int, indent: int = 0) -> list[str]:
    """Lines broken between words where they are longer than `width`; what goes on is indented by so much more."""
    out: list[str] = []
    for line in lines:
        deep = " " * (len(line) - len(line.lstrip()) + indent)
        out += wrap(line, width, subsequent_indent=deep, break_on_hyphens=False) or [""]
    return out


def html_cells(columns: Sequence[Column]) -> tuple[str, list[str]]:
    """The cells of the head as HTML, and those of each row."""
    from html import escape

    sides = ["left" if column.is_text else "right" for column in columns]
    head = "".join(f"<th>{escape(column.heading)}</th>" for column in columns)
    rows = zip(*(column.cells for column in columns), strict=True)
    return head, [
        "".join(f'<td style="text-align:{side}">{escape(cell)}</td>' for side, cell in zip(sides, row, strict=True))
        for row in rows
    ]


def several(n: float, one: str, many: str = "") -> str:
    """A number and what it counts: "1 pass", "1.5 passes"; by default "many" has an s more than "one"."""
    number = f"{n:,.0f}" if n == round(n) else f"{n:,.4g}"
    return f"{number} {one if n == 1 else many or f'{one}s'}"


def scaled(value: float, unit: str) -> str:
    """A quantity with the prefix that leaves one to three digits before the point: "708.1 TFLOP/s"."""
    sizes = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"))
    size, prefix = next((each for each in sizes if value >= each[0]), (1e-9, "n"))
    return f"{value / size:.4g} {prefix}{unit}"


def aligned(values: Sequence[float], significant: int = 4) -> tuple[str, ...]:
    """Numbers with the same decimals, enough for the smallest to keep its significant digits."""
    smallest = min((abs(v) for v in values if v), default=1.0)
    decimals = 0 if all(v == int(v) for v in values) else max(0, min(7, significant - 1 - floor(log10(smallest))))
    largest = max(map(abs, values), default=0.0)
    decimals = max(0, min(decimals, significant + 2 - len(str(int(largest)))))
    return tuple(f"{v:.{decimals}f}" for v in values)


class Bars(Record):
    """Bars on stderr; all calls do nothing where they are off."""

    shown: Any = None
    """rich's own; None where they are off."""

    def bar(self, what: str, total: int) -> Callable[[], None]:
        """A new one, and what moves it on by one."""
        if self.shown is None:
            return lambda: None
        task = self.shown.add_task(what, total=total)
        return lambda: self.shown.advance(task)

    def say(self, text: str) -> None:
        if self.shown is not None:
            self.shown.console.print(text, highlight=False, markup=False)


def is_watched() -> bool:
    """Whether somebody looks on: standard error is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextmanager
def progress_bars(wanted: bool, transient: bool = False) -> Iterator[Bars]:
    """Bars for the length of a block; gone after it if `transient`."""
    if not wanted:
        yield Bars()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    # in a notebook rich draws by ipywidgets; without them it warns and shows empty boxes, where plain text would do
    try:
        import ipywidgets  # noqa: F401 - what is installed may fail to import
    except ImportError:
        console = Console(stderr=True, force_jupyter=False)
    else:
        console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=transient) as shown:
        yield Bars(shown)
