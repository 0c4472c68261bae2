"""A ranking to look at: text for the terminal, HTML with bars for a notebook, a data frame; the colours of all that is
drawn, which most colour-blind readers can distinguish (Okabe and Ito, 2008). And why a configuration takes its
predicted time, with what its nearest changes would do."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from html import escape
from math import floor, log10, prod
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arch.descriptor import Arch, blocks_by_limit
from ..base.errors import NoCandidates, ProblemError
from ..base.table import (
    ROWS_SHOWN,
    WIDTH,
    Column,
    aligned,
    html_cells,
    in_all,
    line_width,
    scaled,
    screen_width,
    several,
    titled,
    tunables,
    words,
)
from ..base.types import Late, Record
from ..cost.model import price, roofline_seconds
from ..kernels.declaration import Kernel, kernel_named
from ..kernels.expr import Expression, flops_per_s
from ..kernels.space import Space, given_space
from ..problem.problem import Problem
from .compare import Fleet
from .declared import Declared, Layered
from .hint import NOT_MEASURED, Hint
from .ranking import TIED, Ranking

if TYPE_CHECKING:
    import pandas as pd

BLUE, ORANGE, GREEN, RED, PINK, SKY, YELLOW, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#777777",
)  # fmt: skip
MARKERS = {
    "math": ("o", BLUE),
    "shared memory": ("s", ORANGE),
    "L1": ("p", YELLOW),
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
        out.insert(-1, replace(rate(hints), spare=101))
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
        lines.append(f"a tie: {shown} of these {'is' if shown == 1 else 'are'} within {TIED:.0%} of the fastest{more}")
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
    for h in hints[:1]:
        if h.arch.kind == "gpu" and 8 * (blocks := prod(h.launch.grid)) <= h.arch.sm_count:
            cores = several(h.arch.sm_count, h.arch.sm_name)
            lines.append(f"{several(blocks, 'block')} for {cores}: most of the device has no part in #{h.rank}")
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
        if not sys.stdout.isatty() and "COLUMNS" not in os.environ:  # a file or a program reads it: nothing is cut
            width = max(width, line_width(columns_, 2))
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


BAR = 30
"""Length of the longest bar. [characters]"""


class Change(Record):
    """One tunable set to another value. If the result cannot run, `ms` is None and `why` is the broken rule."""

    tunable: str
    old: int
    new: int
    ms: float | None
    bound: str
    why: str = ""
    avoided: str = ""
    """The [avoid] rule that excludes it from carver's own candidates although it can run."""


class Explanation(Record):
    """What `explain` found. Prints as text; `to_dict` has the same as plain JSON types. Times are in ms."""

    hint: Hint
    arch: Arch
    kernel_title: str
    loop_ms: Mapping[str, float]
    """For each resource, the time of the main loop if it were the only bound. For DRAM, the time of all bytes."""
    limits: Mapping[str, int]
    """For each limit of occupancy, the resident blocks per SM if it were the only limit."""
    blocks: int
    """Tiles of the grid; a persistent kernel launches fewer blocks, which take one after another."""
    roofline_ms: float
    arithmetic_ms: float
    traffic_ms: float
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "hint": self.hint.to_dict(),
            "terms_ms": dict(self.hint.terms_ms),
            "main_loop_alone_ms": dict(self.loop_ms),
            "blocks_per_sm_by_limit": dict(self.limits),
            "roofline_ms": self.roofline_ms,
            "arithmetic_ms": self.arithmetic_ms,
            "compulsory_traffic_ms": self.traffic_ms,
            "changes": [asdict(change) for change in self.changes],
            "constants": self.arch.provenance,
            "notes": list(self.notes),
        }

    def renamed(self, names: Mapping[str, str]) -> Explanation:
        """The same with a reader's names for the kernel's tunables."""
        config = {names.get(name, name): value for name, value in self.hint.config.items()}
        moved = tuple(replace(each, tunable=names.get(each.tunable, each.tunable)) for each in self.changes)
        return replace(self, hint=replace(self.hint, config=config), changes=moved)

    def lines(self) -> Iterator[str]:
        """The lines of the text, which keeps to the width of the terminal, and to `WIDTH` where that is more."""
        h = self.hint
        yield from _wrapped(f"{h.problem} on {self.arch.title}", 4)
        yield from _wrapped(f"{self.kernel_title}: {words(h.config)}", 4)
        contraction = h.problem.contracts
        gigabytes = h.problem.compulsory_bytes / h.predicted_ms / 1e6
        rate = f"{h.details['tflops']:.4g} TFLOP/s" if contraction else f"{gigabytes:,.0f} GB/s"
        share = f"{h.details['roofline_share']:.0%} of the roofline; bound by {h.bound}"
        yield from _wrapped(f"{self._time(h.predicted_ms).strip()} predicted: {rate}, {share}", 4)
        yield ""
        yield "Where the time goes"
        whole = h.predicted_ms
        for name, ms in h.terms_ms.items():
            if ms > 0:
                yield f"  {name:<15s} {self._time(ms)} {ms / whole:6.1%}  {'█' * round(BAR * ms / whole)}".rstrip()
            if name == "main loop" and ms > 0:
                yield "    if only one resource limited it:"
                for resource, alone in self.loop_ms.items():
                    if not alone:
                        continue
                    bar = "░" * round(BAR * alone / whole)
                    yield f"    {resource:<13s} {self._time(alone)} {alone / whole:6.1%}  {bar}".rstrip()
                if self.loop_ms["DRAM"] > ms:
                    yield "    DRAM takes longer than the main loop: it works from the first load to the last store"
        yield ""
        yield "Use of the device"
        for name, text in self.facts():
            yield from _wrapped(f"  {name:<11s} {text}", 14)
        yield ""
        yield "Nearest changes"
        yield from self._change_lines()
        yield ""
        band = " to ".join(self._time(end).strip() for end in h.band_ms or ())
        sides = " to ".join(f"{100 * (end / h.predicted_ms - 1):+.0f} %" for end in h.band_ms or ())
        yield from _wrapped(f"80 % band: {band}, {sides}; constants: {h.calibrated}.", 4)
        yield from _wrapped(f"Constants of the device: {self.arch.provenance}.", 4)
        for note in self.notes:
            yield from _wrapped(note, 4)

    plot = Late("ranking.plots:plot_explanation")
    """Plot the terms of the time and the effect of changing each tunable. Needs matplotlib."""

    def facts(self) -> Iterator[tuple[str, str]]:
        """Occupancy, waves, waste, traffic and roofline as (name, text)."""
        h, d, arch = self.hint, self.hint.details, self.arch
        slots = self.blocks / d["waves"]
        if h.num_warps is not None:
            limits = ", ".join(f"{name} {count}" for name, count in self.limits.items())
            warps = -(-h.launch.threads // arch.warp_size)
            sms = arch.sm_name if arch.sms_per_block == 1 else f"{arch.sms_per_block} {arch.sm_name}s"
            yield (
                "occupancy",
                f"{d['occupancy']:.0%}: {several(d['blocks_per_sm'] * arch.sms_per_block, 'block')} of "
                f"{several(warps, 'warp')} on each {sms}; limited by {h.limited_by}",
            )
            yield "", f"blocks that would fit by each limit: {limits}"
            yield (
                "resources",
                f"{h.launch.smem_bytes:,} of {arch.smem_per_block_bytes:,} bytes of shared memory, "
                f"about {h.launch.registers} of {arch.max_regs_per_thread} registers per thread",
            )
        last = self.blocks - slots * np.floor(d["waves"])
        tail = "the last wave is full" if last < 0.5 else f"the last wave fills {last / slots:.0%} of the device"
        noun = "block" if arch.kind == "gpu" else "task"
        yield "waves", f"{d['waves']:.2f}: {several(self.blocks, noun)}, {slots:,.0f} fit at a time; {tail}"
        if "padding" in d:
            yield "padding", f"{1 - 1 / d['padding']:.1%} of the arithmetic falls outside the problem"
        if "dram_bytes" in d:
            yield (
                "DRAM",
                f"{scaled(d['dram_bytes'], 'B')}, {d['dram_bytes'] / d['compulsory_bytes']:.2f} x the compulsory "
                f"{scaled(d['compulsory_bytes'], 'B')}",
            )
        if d.get("l2_hit_rate"):
            yield "L2", f"{d['l2_hit_rate']:.0%} of the data that a wave reads again is still in L2"
        if d.get("l2_merged_share"):
            yield "", f"{d['l2_merged_share']:.0%} of the requests are merged with those of neighbouring blocks"
        limit = "arithmetic" if self.arithmetic_ms >= self.traffic_ms else "DRAM"
        computed = f"{scaled(h.problem.flops, 'FLOP')} take {_ms(self.arithmetic_ms)} at the peak rate"
        moved = f"{scaled(h.problem.compulsory_bytes, 'B')} {_ms(self.traffic_ms)}"
        yield "roofline", f"{_ms(self.roofline_ms)} by {limit}: {f'{computed}, {moved}' if h.problem.flops else moved}"

    def _change_lines(self) -> Iterator[str]:
        last = ""
        width = max((len(change.tunable) for change in self.changes), default=0)
        for c in self.changes:
            name, last = "" if c.tunable == last else c.tunable, c.tunable
            step = f"{c.old} -> {c.new}"
            if c.ms is None:
                text = f"  {name:<{width}s}  {step:<12s} cannot run, not met: {c.why}"
                yield from _wrapped(text, width + 6)
            else:
                change = c.ms / self.hint.predicted_ms - 1
                yield f"  {name:<{width}s}  {step:<12s} {self._time(c.ms)} {change:+8.1%}  {c.bound}"
                if c.avoided:
                    text = f"  {'':<{width}s}  not among the candidates: {c.avoided}"
                    yield from _wrapped(text, width + 6)
        if not self.changes:
            yield "  none: this kernel has nothing to tune"

    def _time(self, ms: float) -> str:
        """Format a time, with the unit and decimals that give the whole time four digits."""
        whole = self.hint.predicted_ms
        scale, unit = (1.0, "ms") if whole >= 0.1 else (1e3, "us")
        decimals = max(0, 3 - floor(log10(whole * scale)))
        return f"{ms * scale:10.{decimals}f} {unit}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.25">{escape(str(self))}</pre>'


def explain(hint: Hint, arch: Arch | None = None) -> Explanation:
    """Price the hint's configuration and its neighbours on its device, or on another, and say what the time is made of.

    Raises NoCandidates when the configuration cannot run there.
    """
    arch = arch or hint.arch
    kernel = kernel_named(hint.problem.operator, hint.kernel, hint.backend)
    space, why = given_space(hint.problem, arch, kernel, [hint.config])
    if why:
        raise NoCandidates(f"{dict(hint.config)} on {arch.title}", {str(why[0]): 1})
    priced = price(space)
    assert priced.made is not None  # of a configuration that is given
    work, est = priced.made
    [again] = Declared(hint.problem, arch, hint.backend, lambda: (priced,), hint.notes).hints([0], [hint.rank])
    again = replace(again, index=hint.index)
    notes = list(hint.notes)
    if abs(again.predicted_ms / hint.predicted_ms - 1) > 1e-6:
        notes.append(
            f"The hint itself says {_ms(hint.predicted_ms)}: it was priced on another descriptor or by another version."
        )
    loop = {name: float(alone[0]) * 1e3 for name, alone in est.alone_s.items()}
    launch = again.launch
    limits = blocks_by_limit(arch, -(-launch.threads // arch.warp_size), launch.smem_bytes, max(launch.registers, 1))
    problem = hint.problem
    return Explanation(
        hint=again, arch=arch, kernel_title=kernel.title, loop_ms=loop, limits=limits,
        blocks=round(float(np.broadcast_to(work.grid, 1)[0])),
        roofline_ms=roofline_seconds(problem, arch) * 1e3,
        arithmetic_ms=problem.flops / max(flops_per_s(problem, arch).values()) * 1e3,
        traffic_ms=problem.compulsory_bytes / arch.dram_bytes_per_s * 1e3,
        changes=tuple(changes(again, arch, kernel)), notes=tuple(notes),
    )  # fmt: skip


def changes(hint: Hint, arch: Arch, kernel: Kernel) -> Iterator[Change]:
    """Each tunable one step down and one step up among the declared values, everything else kept.

    Where that cannot run, tunables that a formula computes follow it. Their own steps are shown if they can run.
    """
    own = {name: values for name, values in kernel.tunables.items() if name in kernel.keys("")}
    moves = [(name, value) for name, values in own.items() for value in _around(hint.config[name], values)]
    if not moves:
        return
    configs = [{**hint.config, name: value} for name, value in moves]
    space, why = given_space(hint.problem, arch, kernel, configs)
    if why:
        configs = [_computed_again(c, moves[i][0], space) if i in why else c for i, c in enumerate(configs)]
        space, why = given_space(hint.problem, arch, kernel, configs)
    row_of = {int(place): row for row, place in enumerate(space.index)}
    env = {**space.scope, **space.columns}
    avoids = {rule: np.broadcast_to(holds(env), len(space)) for rule, holds in kernel.avoid.items()}
    runs = range(len(space))
    made = Declared(hint.problem, arch, hint.backend, lambda: (price(space),)).hints(runs, runs) if runs else []
    for i, (name, value) in enumerate(moves):
        old = hint.config[name]
        if i not in row_of:
            if isinstance(own[name], Expression):
                continue
            yield Change(name, old, value, None, "", str(why[i]))
        else:
            there = made[row_of[i]]
            avoided = next((rule for rule, holds in avoids.items() if not holds[row_of[i]]), "")
            yield Change(name, old, value, there.predicted_ms, there.bound, "", avoided)


def _computed_again(config: Mapping[str, int], moved: str, space: Space) -> dict[str, int]:
    """`config` with what formulas compute from tunables, but for the one that moved."""
    kernel = space.kernel
    computed = {name: e for name, e in kernel.tunables.items() if isinstance(e, Expression) and name != moved}
    formulas: dict[str, Expression] = {**kernel.derived, **computed}
    known: dict[str, Any] = {**space.scope, **{name: v for name, v in config.items() if name not in computed}}

    def value(name: str) -> Any:
        if name not in known:
            known[name] = formulas[name]({each: value(each) for each in formulas[name].names})
        return known[name]

    return {name: int(value(name)) for name in config}


def _around(value: int, values: tuple[int, ...] | Expression) -> list[int]:
    if isinstance(values, Expression):
        return [*([value // 2] if value > 1 else []), value * 2]
    below = [v for v in values if v < value]
    above = [v for v in values if v > value]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def _wrapped(text: str, indent: int) -> list[str]:
    return wrap(text, max(40, min(WIDTH, screen_width())), subsequent_indent=" " * indent)


def _ms(ms: float) -> str:
    return f"{ms:.4g} ms" if ms >= 0.1 or ms == 0 else f"{ms * 1e3:.4g} us"
