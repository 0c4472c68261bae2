"""Explain the predicted time of a configuration, and what its nearest changes would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import floor, log10
from textwrap import wrap
from typing import Any

import numpy as np

from ..arch.descriptor import Arch, blocks_by_limit
from ..base.errors import NoCandidates
from ..base.table import WIDTH, scaled, screen_width, several, words
from ..base.types import Late
from ..cost.estimate import dram_seconds
from ..cost.model import resolve
from ..cost.pricing import price, roofline_seconds, shown
from ..kernels.declaration import Kernel, kernel_named
from ..kernels.expr import Expression
from ..kernels.scope import flops_per_s
from ..kernels.space import Space, given_space
from .declared import make_hints
from .hint import Hint

BAR = 30
"""Length of the longest bar. [characters]"""


@dataclass(frozen=True, slots=True)
class Change:
    """One tunable set to another value. If the result cannot run, `ms` is None and `why` is the broken rule."""

    tunable: str
    old: int
    new: int
    ms: float | None
    bound: str
    why: str = ""
    avoided: str = ""
    """The [avoid] rule that excludes it from carver's own candidates although it can run."""


@dataclass(frozen=True)
class Explanation:
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

    plot = Late("view.plots:plot_explanation")
    """Plot the terms of the time and the effect of changing each tunable. Needs matplotlib."""

    def facts(self) -> Iterator[tuple[str, str]]:
        """Occupancy, waves, waste, traffic and roofline as (name, text)."""
        h, d, arch = self.hint, self.hint.details, self.arch
        slots = self.blocks / d["waves"]
        if h.num_warps is not None:
            limits = ", ".join(f"{name} {count}" for name, count in self.limits.items())
            warps = -(-h.launch.threads // arch.warp_size)
            sms = "SM" if arch.sms_per_block == 1 else f"{arch.sms_per_block} SMs"
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
        from html import escape

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
    row, priced = np.zeros(1, np.int64), price(space)
    assert priced.made is not None  # of a configuration that is given
    work, est = priced.made
    [told] = shown([(priced, row)])
    [again] = make_hints(hint.problem, priced, lambda: told, row, [hint.rank], hint.backend, hint.notes)
    again = replace(again, index=hint.index)
    notes = list(hint.notes)
    if abs(again.predicted_ms / hint.predicted_ms - 1) > 1e-6:
        notes.append(
            f"The hint itself says {_ms(hint.predicted_ms)}: it was priced on another descriptor or by another version."
        )
    steps = float(max(est.waves[0], 1.0) * work.steps[0])
    loop = {name: steps * float(clk[0]) / arch.clock_hz * 1e3 for name, clk in est.rows.items()}
    loop["DRAM"] = float(np.broadcast_to(dram_seconds(work, arch, resolve(kernel, arch)), 1)[0]) * 1e3
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
    made: list[Hint] = []
    if len(space):
        rows = np.arange(len(space))
        priced = price(space)
        [told] = shown([(priced, rows)])
        made = make_hints(hint.problem, priced, lambda: told, rows, [0] * len(space), hint.backend)
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
