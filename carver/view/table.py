"""A ranking to look at: a table for the terminal, plain text for `repr`, HTML with bars for a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from ..base.errors import ProblemError
from ..base.table import (
    ROWS_SHOWN,
    WIDTH,
    Column,
    Tunables,
    aligned,
    html_cells,
    in_all,
    screen_width,
    titled,
    tunables,
    without_colour,
)
from ..ranking.hint import Hint
from ..ranking.ranking import Ranking
from .canvas import term_colour

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, Group


def columns(ranking: Ranking, most: int, width: int = WIDTH) -> Tunables:
    """The columns of the first hints, and the tunables that need none: they have one value in all of them. Those of a
    single hint have a column each as long as that fits.
    """
    hints = list(islice(ranking, most))
    out = [
        Column("#", tuple(str(h.rank) for h in hints)),
        Column("ms", aligned([h.predicted_ms for h in hints]), style="bold cyan"),
        replace(rate(hints), spare=98),
        Column("roof", tuple(f"{h.details['roofline_share']:.0%}" for h in hints), spare=99),
        Column("bound", tuple(h.bound for h in hints), True, "magenta"),
    ]
    if ranking.given:
        out.insert(1, Column("given", tuple(str(h.index) for h in hints)))
    if len({h.kernel for h in hints}) > 1:
        out.append(Column("kernel", tuple(h.kernel for h in hints), True))
    smem = [Column("smem KiB", aligned([h.launch.smem_bytes / 1024 for h in hints], 3), spare=100)]
    if not any(h.launch.smem_bytes for h in hints):
        smem = []
    differ, same = tunables([h.config for h in hints], [*out, *smem], width)
    return [*out, *differ, *smem], same


def rate(hints: Sequence[Hint]) -> Column:
    """What the time amounts to: arithmetic of a contraction, bytes of everything else."""
    if any(h.problem.contracts for h in hints):
        return Column("TFLOP/s", aligned([h.details["tflops"] for h in hints]))
    gigabytes = [h.problem.compulsory_bytes / h.predicted_ms / 1e6 for h in hints]
    return Column("GB/s", aligned(gigabytes))


def heading(ranking: Ranking) -> str:
    return f"{ranking.problem} on {ranking.arch.title}, backend {ranking.backend}"


def footing(ranking: Ranking, same: Mapping[str, object], most: int) -> list[str]:
    """What a reader should know besides the rows."""
    lines = in_all(same)
    if len(ranking) > most:
        lines.append(f"{len(ranking) - most:,} more below these {most}")
    ruled_out = sum(ranking.rejected.values())
    if ranking.given:
        lines.append(f"{ranking.given - ruled_out:,} of {ranking.given:,} given configurations can run")
        lines += [f"{n:,} cannot, by the rule: {rule}" for rule, n in ranking.rejected.items()]
    else:
        lines.append(f"best of {ranking.candidates:,} candidates priced; {ruled_out:,} ruled out before")
    lines += ranking.notes
    for kernel, h in {h.kernel: h for h in reversed(ranking[:most])}.items():
        low, high = (100 * (t / h.predicted_ms - 1) for t in h.band_ms)
        of = f" of {kernel}" if len({h.kernel for h in ranking[:most]}) > 1 else ""
        lines.append(f"80 % of measured times{of} within {low:+.0f} % and {high:+.0f} %: {h.calibrated}")
    lines.append(f"constants of the device: {ranking.arch.provenance}")
    return lines


def ranking_table(ranking: Ranking, most: int = ROWS_SHOWN, *, width: int) -> Group:
    """For rich: one line a hint, at most `width` columns wide."""
    shown, same = columns(ranking, most, width)
    foot = footing(ranking, same, most)
    return titled(heading(ranking), shown, width, "\n".join(foot))


def ranking_console(ranking: Ranking, _: Console, options: ConsoleOptions) -> Iterator[Group]:
    """What rich prints of it."""
    yield ranking_table(ranking, width=options.max_width)


def ranking_frame(ranking: Ranking) -> pd.DataFrame:
    """A pandas DataFrame with one row per hint."""
    try:
        import pandas as pd
    except ImportError:
        raise ProblemError("to_frame needs pandas; install it, or use [hint.to_dict() for hint in ranking]") from None
    rows = [
        {"rank": h.rank, "index": h.index, "kernel": h.kernel, **h.config, "predicted_ms": h.predicted_ms,
         "bound": h.bound, **{f"{name}_ms": t for name, t in h.terms_ms.items()}, **h.details}
        for h in ranking
    ]  # fmt: skip
    return pd.DataFrame(rows)


def ranking_text(ranking: Ranking) -> str:
    """The same without colour."""
    width = screen_width()
    return without_colour(ranking_table(ranking, width=width), width)


def ranking_html(ranking: Ranking) -> str:
    """The same for a notebook, with each predicted time as a bar of its terms, all on one scale."""
    shown, same = columns(ranking, ROWS_SHOWN)
    hints = list(islice(ranking, ROWS_SHOWN))
    longest = max((h.predicted_ms for h in hints), default=0.0)
    head, cells = html_cells(shown)
    rows = [
        f'<tr>{row}<td style="text-align:left;white-space:nowrap;line-height:1em">{_bar(h, longest)}</td></tr>'
        for row, h in zip(cells, hints, strict=True)
    ]
    foot = "<br>".join(map(escape, footing(ranking, same, ROWS_SHOWN)))
    return (
        f"<div><b>{escape(heading(ranking))}</b><table><thead><tr>{head}<th style='text-align:left'>time</th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table>{_colour_key(hints)}<br><small>{foot}</small></div>"
    )


def hint_html(hint: Hint) -> str:
    """One hint for a notebook: what it is, and its predicted time as a bar of its terms."""
    bar, key = _bar(hint, hint.predicted_ms), _colour_key([hint])
    return f"<div><b>{escape(f'{hint.problem} on {hint.arch.name}')}</b><br>{escape(str(hint))}<br>{bar}<br>{key}</div>"


def _bar(hint: Hint, longest_ms: float) -> str:
    return "".join(
        f'<span title="{escape(name)}: {ms:.4g} ms" style="display:inline-block;height:1em;'
        f'background:{term_colour(name)};width:{12 * ms / longest_ms:.3f}em"></span>'
        for name, ms in hint.terms_ms.items()
        if ms > 0
    )


def _colour_key(hints: Sequence[Hint]) -> str:
    used = dict.fromkeys(name for h in hints for name, ms in h.terms_ms.items() if ms > 0)
    words = " ".join(
        f'<span style="white-space:nowrap"><span style="background:{term_colour(name)};'
        f'display:inline-block;width:0.8em;height:0.8em"></span> {escape(name)}</span>'
        for name in used
    )
    return f"<small>{words}</small>"
