"""Plots of a ranking. They need matplotlib: the extra `plot`. Colours are told apart by colour-blind readers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from .errors import CarverError
from .hint import Hint
from .space import multiply_dtype
from .table import COLOURS, MOST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .ranking import Ranking

_MARKERS = {
    "math": ("o", "#0072B2"),
    "shared memory": ("s", "#E69F00"),
    "L2": ("^", "#009E73"),
    "DRAM": ("v", "#D55E00"),
    "issue": ("D", "#CC79A7"),
    "latency": ("P", "#56B4E9"),
}
"""Form and colour by what bounds a hint, so that neither has to be seen alone."""


def plot_terms(ranking: Ranking, ax: Axes | None = None, most: int = MOST) -> Axes:
    """The predicted time of each hint as a bar of its terms, best on top. [ms]"""
    ax = ax or _axes()
    hints = list(islice(ranking, most))
    rows = np.arange(len(hints))
    left = np.zeros(len(hints))
    for name in dict.fromkeys(name for h in hints for name in h.terms_ms):
        ms = np.array([h.terms_ms.get(name, 0.0) for h in hints])
        if ms.any():
            ax.barh(rows, ms, left=left, label=name, color=COLOURS.get(name, "#56B4E9"))
            left += ms
    ax.set_yticks(rows, [label(h, hints) for h in hints], family="monospace", fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("predicted time [ms]")
    ax.set_title(f"{ranking.problem}\n{ranking.arch.title}, backend {ranking.backend}", fontsize=10)
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_roofline(ranking: Ranking, ax: Axes | None = None, most: int = 500) -> Axes:
    """The hints under the device's roofs: arithmetic intensity of their DRAM traffic against predicted rate."""
    ax = ax or _axes()
    from matplotlib.ticker import LogFormatter

    hints = list(islice(ranking, most))
    arch, flops = ranking.arch, ranking.problem.flops
    dtype = multiply_dtype(ranking.problem)
    x = np.array([flops / h.details.get("dram_bytes", ranking.problem.compulsory_bytes) for h in hints])
    y = np.array([flops / h.predicted_ms * 1e-9 for h in hints])
    best = flops / ranking.problem.compulsory_bytes
    roofs = {f"vector units, {dtype}": arch.vector_flops_per_s(dtype)}
    if matrix := arch.matrix_flops_per_s(dtype):
        roofs[f"matrix units, {dtype}"] = matrix
    peak = max(roofs.values())
    low = min(x.min(), peak / arch.dram_bytes_per_s) / 4
    span = np.geomspace(low, max(best, peak / arch.dram_bytes_per_s) * 4, 200)
    for (name, roof), style in zip(roofs.items(), ("--", "-"), strict=False):
        ax.plot(span, np.minimum(roof, span * arch.dram_bytes_per_s) / 1e12, "k" + style, lw=1.2, label=name)
    ax.plot(span, np.minimum(peak, span * arch.l2_bytes_per_s) / 1e12, color="#999999", ls=":", lw=1.2, label="L2")
    ax.axvline(best, color="#999999", lw=0.8)
    ax.annotate(
        "compulsory traffic", (best, 0.98), xycoords=("data", "axes fraction"), rotation=90, fontsize=8,
        color="#666666", ha="right", va="top",
    )  # fmt: skip
    for bound in dict.fromkeys(h.bound for h in hints):
        chosen = np.array([h.bound == bound for h in hints])
        marker, colour = _MARKERS.get(bound, ("x", "#666666"))
        ax.scatter(x[chosen], y[chosen], marker=marker, color=colour, s=28, label=f"bound by {bound}", zorder=3)
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(LogFormatter())
        axis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    ax.set_xlabel("arithmetic intensity [FLOP/byte of DRAM traffic]")
    ax.set_ylabel("predicted rate [TFLOP/s]")
    ax.set_title(f"{ranking.problem}\n{arch.title}, backend {ranking.backend}", fontsize=10)
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.grid(True, which="major", color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
    return ax


def label(hint: Hint, among: Sequence[Hint]) -> str:
    """The tunables in which the hints differ, as one short text."""
    differ = [n for n in hint.config if len({h.config.get(n) for h in among}) > 1] or list(hint.config)
    return f"{hint.rank + 1}: " + " ".join(f"{name}={hint.config[name]}" for name in differ)


def _axes() -> Axes:
    try:
        from matplotlib.pyplot import subplots
    except ImportError:
        raise CarverError("plots need matplotlib: pip install 'gpu-carver[plot]'") from None
    ax: Axes = subplots(figsize=(9, 5), layout="constrained")[1]
    return ax
