"""The common parts of all plots: figures and axes of one width, shapes and colours, titles, legends, ticks, saving.

Needs matplotlib: the extra `plot`. Most colour-blind readers can distinguish the colours (Okabe and Ito, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ..base.errors import CarverError, ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, PINK, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#777777",
)  # fmt: skip
MARKERS = {
    "math": ("o", BLUE),
    "shared memory": ("s", ORANGE),
    "L2": ("^", GREEN),
    "DRAM": ("v", RED),
    "issue": ("D", PINK),
    "latency": ("P", SKY),
}
"""Form and colour by what bounds a candidate."""
OTHER = ("X", GREY)
_TERMS = {
    "launch": "#999999", "prologue": ORANGE, "main loop": BLUE, "epilogue": GREEN, "tail wave": RED, "reduction": PINK,
}  # fmt: skip
FORMATS = (".png", ".svg", ".pdf")
WIDTH = 9.0
"""Of a figure. [inch]"""


def term_colour(name: str) -> str:
    """Of a term of a predicted time, also in HTML."""
    return _TERMS.get(name.rpartition(": ")[2], SKY)


def save(path: Path, drawn: Axes | Figure) -> None:
    """Write a picture in the format that the file's ending names, and forget it."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"a plot is saved as {', '.join(FORMATS)}; got {str(path)!r}")
    figure = figure_of(drawn)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot().close(figure)


def figure_of(drawn: Axes | Figure) -> Figure:
    """The whole picture that axes are part of."""
    whole: Any = drawn if hasattr(drawn, "savefig") else drawn.get_figure(root=True)
    figure: Figure = whole
    return figure


def pyplot() -> Any:
    """matplotlib's state of open figures. Raises CarverError where it is not installed."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise CarverError("plots need matplotlib: pip install matplotlib") from None
    return plt


def legend_beside(ax: Axes, title: str) -> None:
    """Where it covers no data."""
    ax.legend(title=title, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), alignment="left", fontsize=9,
              labelspacing=0.7)  # fmt: skip


def room(texts: Sequence[str]) -> float:
    """How much longer than the longest bar an axis must be for the texts behind the bars."""
    return 1.08 + 0.019 * max(map(len, texts), default=0)


def log_ticks(ax: Axes, which: str = "xy") -> None:
    """Plain numbers on logarithmic axes; between the powers of ten too where an axis is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (getattr(ax, f"{name}axis") for name in which):
        low, high = axis.get_view_interval()
        span = high / low
        between = (1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if span < 5 else (2, 3, 5) if span < 40 else (2, 5)
        major = axis.get_tick_params("major")
        axis.set_tick_params("minor", length=major.get("length", 3.5), pad=major.get("pad", 3.5))  # labels in one line
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(LogLocator(subs=between))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}") if span < 400 else NullFormatter())


def beside(ax: Axes, x: float, y: float, text: str) -> None:
    """A text to the right of a point, such as the end of a bar."""
    ax.annotate(text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)


def title(ax: Axes, *lines: str) -> None:
    """Lines above the axes, broken where they are long; empty ones are left out."""
    ax.set_title("\n".join(fill(line, 80) for line in "\n".join(lines).split("\n") if line), loc="left", fontsize=10)


def new_axes(height: float, width: float = WIDTH, rows: int = 1, **how: Any) -> Any:
    """The axes of a picture that has no others, or those of several rows. [inch]"""
    return pyplot().figure(figsize=(width, height), layout="constrained").subplots(rows, 1, **how)
