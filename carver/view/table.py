"""A ranking to look at: text for the terminal, HTML with bars for a notebook, a data frame; and the colours of all that
is drawn, which most colour-blind readers can distinguish (Okabe and Ito, 2008)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from ..base.errors import ProblemError
from ..base.table import ROWS_SHOWN, WIDTH, Column, aligned, html_cells, in_all, screen_width, titled, tunables, words
from ..problem.problem import Problem
from ..ranking.compare import Fleet
from ..ranking.declared import Layered
from ..ranking.hint import NOT_MEASURED, Hint
from ..ranking.ranking import TIED, Ranking

if TYPE_CHECKING:
    import pandas as pd

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


_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?!\w)")


def term_colour(name: str) -> str:
    """Of a term of a predicted time, also in HTML."""
    return _TERMS.get(name.rpartition(": ")[2], SKY)


def kibibytes(sizes: Sequence[int]) -> tuple[str, ...]:
    """Sizes in bytes, written in KiB without decimals that are 0 in all."""
    texts = aligned([size / 1024 for size in sizes], 3)
    while texts and all("." in text and text[-1] in "0." for text in texts):
        texts = tuple(text[:-1] for text in texts)
    return texts


def joined(rejected: Mapping[str, int]) -> dict[str, int]:
    """Counts of reasons; those that differ only in numbers are one, with the range of each number."""
    alike: dict[str, list[tuple[str, int]]] = {}
    for why, n in rejected.items():
        alike.setdefault(_NUMBER.sub("#", why), []).append((why, n))
    out: dict[str, int] = {}
    for group in alike.values():
        texts = zip(*(_NUMBER.findall(why) for why, _ in group), strict=True)
        ranges = [sorted(set(each), key=lambda text: int(text.replace(",", ""))) for each in texts]
        numbers = [" to ".join(dict.fromkeys((each[0], each[-1]))) for each in ranges]
        parts = (*_NUMBER.split(group[0][0]), "")
        said = "".join(part + number for part, number in zip(parts, [*numbers, ""], strict=False))
        out[said] = sum(n for _, n in group)
    return out


def columns(ranking: Ranking, hints: Sequence[Hint], width: int = WIDTH) -> tuple[list[Column], dict[str, object]]:
    """The columns of some hints, and the tunables with one value in all of them (of one hint: what does not fit)."""
    out = [
        Column("#", tuple(str(h.rank) for h in hints)),
        Column("ms", aligned([h.predicted_ms for h in hints]), style="bold cyan"),
    ]
    layers = {name: None for h in hints for name in h.layers}
    if ranking.given and not layers:
        out.insert(1, Column("given", tuple(str(h.index) for h in hints)))
    out += [Column(f"{name} ms", aligned([h.layers[name].predicted_ms for h in hints])) for name in layers]
    if isinstance(ranking.subject, Problem):
        roof = tuple(f"{h.details['roofline_share']:.0%}" for h in hints)
        out += [replace(rate(hints), spare=98), Column("roof", roof, spare=99)]
    out.append(Column("bound", tuple(h.bound for h in hints), True, "magenta"))
    if len({h.kernel for h in hints}) > 1:
        out.append(Column("kernel", tuple(h.kernel for h in hints), True))
    last = [Column("smem KiB", kibibytes([h.launch.smem_bytes for h in hints]), spare=100)]
    facts = [h.facts for h in hints if h.facts is not None]
    if facts:
        last.append(Column("registers", tuple(str(f.registers) for f in facts), spare=98))
        if any(spills := [f.spill_bytes for f in facts]):
            last.append(Column("spilled bytes", aligned(spills), spare=97))
        last[0] = replace(last[0], spare=99)
    elif layers or not any(h.launch.smem_bytes for h in hints):
        last = []
    alike = all(each.config == h.config for h in hints for each in h.layers.values())
    differ, same = tunables([h.config if alike else h.tunables for h in hints], [*out, *last], width)
    return [*out, *differ, *last], same


def rate(hints: Sequence[Hint]) -> Column:
    """What the time amounts to: arithmetic of a contraction, bytes of everything else."""
    if any(h.contracts for h in hints):
        return Column("TFLOP/s", aligned([h.details["tflops"] for h in hints]))
    return Column("GB/s", aligned([h.compulsory_bytes / h.predicted_ms / 1e6 for h in hints]))


def heading(ranking: Ranking) -> str:
    subject, on = ranking.subject, f"on {ranking.arch.title}"
    if isinstance(subject, Problem):
        return f"{subject} {on}, backend {ranking.backend}"
    if isinstance(ranking.table, Layered):
        return str(subject)
    return f"{subject} {on}: {len(ranking)} of {ranking.given} configurations"


def footing(ranking: Ranking, hints: Sequence[Hint], same: Mapping[str, object]) -> list[str]:
    """What a reader should know besides the rows of these hints."""
    lines = in_all(same)
    if len(ranking) > len(hints):
        lines.append(f"{len(ranking) - len(hints):,} more below these {len(hints)}")
    if shown := sum(hint.tied for hint in hints):
        more = f", and {ranking.tied - shown} that are not shown" if ranking.tied > shown else ""
        lines.append(f"a tie: {shown} of these are within {TIED:.0%} of the fastest{more}")
    ruled_out = sum(ranking.rejected.values())
    if isinstance(ranking.subject, Problem):
        if ranking.given:
            lines.append(f"{ranking.given - ruled_out:,} of {ranking.given:,} given configurations can run")
            lines += [f"{n:,} cannot, by the rule: {rule}" for rule, n in ranking.rejected.items()]
        else:
            lines.append(f"best of {ranking.candidates:,} candidates priced; {ruled_out:,} ruled out before")
    elif isinstance(ranking.table, Layered):
        lines += [f"{ruled_out} cannot run in one of the matmuls"] if ruled_out else []
    else:
        also = ranking.table.also
        alike = sum(len(also.get(row, ())) for row in ranking.rows)
        lines += [f"{alike} more compile to the same code as one of these"] if alike else []
        if any(hint.facts is not None and hint.facts.assumed for hint in ranking):
            from ..compiled.facts import TAKEN  # loaded with the facts, which most rankings have none of

            lines.append(TAKEN)
        lines += [f"{n:,} rejected: {why}" for why, n in joined(ranking.rejected).items()]
    lines += ranking.notes
    lines += _bands(hints)
    if isinstance(ranking.subject, Problem):
        lines.append(f"constants of the device: {ranking.arch.provenance}")
    return lines


def _bands(hints: Sequence[Hint]) -> list[str]:
    """The band of the first hint of each kernel, or that nothing was measured."""
    first = {h.kernel: h for h in reversed(hints)}
    lines = []
    for kernel, h in first.items():
        of = f" of {kernel}" if len(first) > 1 else ""
        if h.band_ms is not None:
            low, high = (100 * (t / h.predicted_ms - 1) for t in h.band_ms)
            least, most = aligned(h.band_ms)
            lines.append(f"80 % of measured times{of} within {low:+.0f} % and {high:+.0f} % (#{h.rank}: {least} to "
                         f"{most} ms): {h.calibrated}")  # fmt: skip
        elif h.calibrated == NOT_MEASURED:
            lines.append(f"no band{of}: no time was measured")
    return lines


def ranking_table(ranking: Ranking, most: int = ROWS_SHOWN, width: int | None = None, styled: bool = False) -> str:
    """One line a hint, at most `width` columns wide, by default the screen's. `styled`: in a terminal's colours."""
    width = width or screen_width()
    hints = list(ranking[:most])
    shown, same = columns(ranking, hints, width)
    return titled(heading(ranking), shown, width, footing(ranking, hints, same), styled)


WHOLE = 8
"""Devices whose configurations are lines below the table, so that none is cut."""


def fleet_table(fleet: Fleet, title: str, width: int, styled: bool = False) -> str:
    """One line a device: its best configuration, and what bounds it. Below it what one configuration for all loses."""
    hints, one = fleet.best, fleet.one
    columns_ = [
        Column("device", tuple(fleet.rankings), True),
        Column("ms", aligned([h.predicted_ms for h in hints]), style="bold cyan"),
        replace(rate(hints), spare=2),
    ]
    if all("roofline_share" in h.details for h in hints):
        columns_.append(Column("roof", tuple(f"{h.details['roofline_share']:.0%}" for h in hints), spare=3))
    columns_.append(Column("bound", tuple(h.bound for h in hints), True, "magenta"))
    if any(h.facts for h in hints):
        columns_.append(Column("registers", tuple(str(h.launch.registers) for h in hints), spare=4))
    if len({h.backend for h in hints}) > 1:
        columns_.append(Column("backend", tuple(h.backend for h in hints), True))
    if one is not None:
        columns_.append(Column("for all", tuple(f"{one.losses[name]:+.1%}" for name in fleet.rankings), spare=1))
    configurations = {name: words(h.config) for name, h in zip(fleet.rankings, hints, strict=True)}
    few = len(hints) <= WHOLE
    if not few:
        columns_.append(Column("configuration", tuple(configurations.values()), True, may_shrink=True))
    lines = [f"{name}: {config}" for name, config in configurations.items()] if few else []
    lines += [] if one is None else [
        f"one configuration for all ({one.backend}) loses {one.mean:.1%} in the mean, {one.losses[one.worst]:.1%} on "
        f"{one.worst}: {words(one.config)}"
    ]  # fmt: skip
    if one is None and len(hints) > 1:
        lines.append("no configuration runs on all of these devices")
    by_reason: dict[str, list[str]] = {}
    for name, why in fleet.left_out.items():
        short = re.split(" on |, not for ", why)[0]  # without the device, which the names say
        by_reason.setdefault(short if len(fleet.left_out) > 4 else why, []).append(name)
    whole = {why: fleet.left_out[names[0]] if len(names) == 1 else why for why, names in by_reason.items()}
    lines += [f"left out: {', '.join(names)}: {whole[why]}" for why, names in by_reason.items()]
    return titled(title, columns_, width, lines, styled)


def ranking_frame(ranking: Ranking) -> pd.DataFrame:
    """A pandas DataFrame with one row per hint."""
    try:
        import pandas as pd
    except ImportError:
        raise ProblemError("to_frame needs pandas; install it, or use [hint.to_dict() for hint in ranking]") from None
    rows = [
        {"rank": h.rank, "index": h.index, "kernel": h.kernel, **h.tunables, "predicted_ms": h.predicted_ms,
         "bound": h.bound, **{f"{name}_ms": t for name, t in h.terms_ms.items()}, **h.details}
        for h in ranking
    ]  # fmt: skip
    return pd.DataFrame(rows)


def ranking_html(ranking: Ranking) -> str:
    """The same for a notebook, with each predicted time as a bar of its terms, all on one scale."""
    hints = list(ranking[:ROWS_SHOWN])
    shown, same = columns(ranking, hints)
    longest = max((h.predicted_ms for h in hints), default=0.0)
    beside = 1 + next(i for i, column in enumerate(shown) if column.heading == "ms")
    (head, before), (heads, after) = html_cells(shown[:beside]), html_cells(shown[beside:])
    bar = '<td style="text-align:left;white-space:nowrap;line-height:1em">'
    bars = (f"{bar}{_bar(h, longest)}</td>" for h in hints)
    rows = "".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(before, bars, after, strict=True))
    foot = "<br>".join(map(escape, footing(ranking, hints, same)))
    return (
        f"<div><b>{escape(heading(ranking))}</b><table><thead><tr>{head}<th style='text-align:left'>time</th>"
        f"{heads}</tr></thead><tbody>{rows}</tbody></table>{_colour_key(hints)}<br><small>{foot}</small></div>"
    )


def hint_html(hint: Hint) -> str:
    """One hint for a notebook: what it is, and its predicted time as a bar of its terms."""
    bar, key = _bar(hint, hint.predicted_ms), _colour_key([hint])
    return f"<div><b>{escape(f'{hint.subject} on {hint.arch.name}')}</b><br>{escape(str(hint))}<br>{bar}<br>{key}</div>"


def _bar(hint: Hint, longest_ms: float) -> str:
    return "".join(
        f'<span title="{escape(name)}: {ms:.4g} ms" style="display:inline-block;height:1em;'
        f'background:{term_colour(name)};width:{8 * ms / longest_ms:.3f}em"></span>'
        for name, ms in hint.terms_ms.items()
        if ms > 0
    )


def _colour_key(hints: Sequence[Hint]) -> str:
    used = dict.fromkeys(name for h in hints for name, ms in h.terms_ms.items() if ms > 0)
    key = " ".join(
        f'<span style="white-space:nowrap"><span style="background:{term_colour(name)};'
        f'display:inline-block;width:0.8em;height:0.8em"></span> {escape(name)}</span>'
        for name in used
    )
    return f"<small>{key}</small>"
