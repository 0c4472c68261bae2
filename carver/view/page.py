"""A ranking as one HTML file: no server, no network, light and dark, for a desk and a phone.

The file holds what the command prints with `--json`, and a script that draws it. Pictures are SVG and the script is
plain JavaScript of 20 KB, where a plotting library is some megabytes a file; SVG has all that bars and curves need.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from .._version import __version__
from ..arch.descriptor import Arch, blocks_by_limit, occupancy_limits
from ..base.table import words
from ..problem.problem import Problem
from ..ranking.compare import Fleet
from ..ranking.ranking import Ranking
from .plots import rates_of

ASSETS = Path(__file__).resolve().parent / "assets"
EXPLAINED = 40
POINTS = 64
"""Of a curve of occupancy."""


def page(document: Mapping[str, Any]) -> str:
    """The HTML of a document: `title`, `subtitle`, `command`, `provenance`, and what there is of `hints`, `rejected`,
    `reasons`, `roofline` (`flops_per_s`, `dram_bytes_per_s`), `measured` (predicted and measured ms, bound) and
    `tables` (`title`, `columns`, `rows`, `note`; `words`: which columns are text, `bars`: which are drawn, `ratios`:
    which have three places).

    A hint is the dict of `Hint.to_dict`, perhaps with `explanation` (of `explain --json`), `occupancy` and `loops`.
    """
    data = json.dumps(document, default=list, allow_nan=False).replace("<", "\\u003c")
    return Template((ASSETS / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(str(document["title"])), data=data,
        style=(ASSETS / "page.css").read_text(encoding="utf-8"),
        script=(ASSETS / "page.js").read_text(encoding="utf-8"),
    )  # fmt: skip


def tables(title: str, subtitle: str, *shown: Mapping[str, Any]) -> dict[str, Any]:
    """What `page` draws of tables alone. Those without rows are left out, and columns that are empty in all rows."""
    told = [_filled(each) for each in shown if each["rows"]]
    return {"title": title, "subtitle": subtitle, "tables": told, "provenance": [f"carver {__version__}"]}


def _filled(table: Mapping[str, Any]) -> dict[str, Any]:
    kept = [i for i in range(len(table["columns"])) if any(row[i] not in (None, "") for row in table["rows"])]
    places = {name: [kept.index(i) for i in table[name] if i in kept]
              for name in ("words", "bars", "ratios") if name in table}  # fmt: skip
    columns, *rows = ([row[i] for i in kept] for row in (table["columns"], *table["rows"]))
    return {**table, **places, "columns": columns, "rows": rows}


def devices(fleet: Fleet, title: str) -> dict[str, Any]:
    """What `page` draws of a fleet: a row a device, what one configuration for all loses, devices left out."""
    one = fleet.one
    rows = [
        [name, hint.predicted_ms, *(hint.band_ms or (None, None)),
         f"{hint.details['roofline_share']:.0%}" if "roofline_share" in hint.details else None, hint.bound,
         hint.backend, words(hint.config),
         *([] if one is None else [f"{one.losses[name]:+.1%}"])]
        for name, hint in zip(fleet.rankings, fleet.best, strict=True)
    ]  # fmt: skip
    heads = ["device", "ms", "80 % from", "to", "roof", "bound", "backend", "configuration"]
    note = "" if one is None else f"One for all ({one.backend}): {words(one.config)}"
    best = {"title": "Best configuration of each device", "columns": [*heads, *["one for all"] * bool(one)],
            "rows": rows, "words": [0, 5, 6, 7], "bars": [1], "note": note}  # fmt: skip
    refused = [list(each) for each in fleet.left_out.items()]
    out = {"title": "Left out", "columns": ["device", "why"], "rows": refused, "words": [0, 1]}
    return tables(title, "predicted, not measured", best, out)


def document(ranking: Ranking, explained: int = EXPLAINED) -> dict[str, Any]:
    """What `page` draws of a ranking. The first `explained` carry their nearest changes."""
    arch = ranking.arch
    hints: list[dict[str, Any]] = []
    for hint in ranking:
        drawn = hint.to_dict()
        drawn["occupancy"] = occupancy_curves(
            arch, hint.launch.threads / arch.warp_size, hint.launch.smem_bytes, hint.launch.registers
        )
        if hint.facts is not None:
            loops = [(f"{x.name} {x.where}".strip() or "loop", x.trips, x.span) for x in hint.facts.loops]
            drawn["loops"] = [
                {"name": name, "passes": passes, "instructions": span.instructions, "pipes": dict(span.pipe_clk),
                 "matrix_flop": dict(span.matrix)}
                for name, passes, span in (*loops, ("outside of loops", 1.0, hint.facts.straight))
            ]  # fmt: skip
        elif len(hints) < explained and isinstance(hint.subject, Problem):
            drawn["explanation"] = {n: v for n, v in hint.explain().to_dict().items() if n != "hint"}
        hints.append(drawn)
    peak = max(rates_of(ranking)[1].values(), default=0.0) if hints and ranking[0].flops else 0.0
    return {
        "title": f"{ranking.subject}", "subtitle": f"{arch.title}, backend {ranking.backend}",
        "backend": ranking.backend, "hints": hints, "rejected": dict(ranking.rejected),
        "reasons": {str(place): why for place, why in ranking.reasons.items()},
        "roofline": {"flops_per_s": peak, "dram_bytes_per_s": arch.dram_bytes_per_s},
        "provenance": provenance(arch, ranking.notes),
    }  # fmt: skip


def occupancy_curves(arch: Arch, warps: float, smem_bytes: float, registers: float) -> dict[str, Any]:
    """Blocks of a kernel that an SM holds, by each limit and for other registers, shared memory and warps."""
    now = {"registers a thread": registers, "shared memory of a block [bytes]": smem_bytes, "warps of a block": warps}
    most_warps = arch.max_threads_per_block / arch.warp_size
    most = (float(arch.max_regs_per_thread), float(arch.smem_per_block_bytes), most_warps)
    curves = {}
    for place, ((name, value), limit) in enumerate(zip(now.items(), most, strict=True)):
        values = np.unique(np.round(np.linspace(1.0 if place != 1 else 0.0, max(limit, value), POINTS)))
        columns = [np.full(len(values), float(n)) for n in (registers, smem_bytes, warps)]
        columns[place] = values
        blocks = np.minimum.reduce(occupancy_limits(arch, columns[2], columns[1], columns[0]))
        curves[name] = {"values": values.tolist(), "blocks": blocks.astype(int).tolist(), "now": float(value)}
    return {"limits": blocks_by_limit(arch, warps, smem_bytes, registers), "curves": curves}


def provenance(arch: Arch, lines: Sequence[str] = ()) -> list[str]:
    """Where the numbers come from, for the foot of a page."""
    return [*lines, f"{arch.title}; constants: {arch.provenance}", f"predicted by carver {__version__}, not measured"]
