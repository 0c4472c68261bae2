"""Hints out of priced candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..arch.occupancy import blocks_by_limit
from ..base.types import FrozenDict
from ..cost.estimate import LIMITERS
from ..cost.pricing import Priced, roofline_seconds
from ..kernels.scope import multiply_dtype
from ..kernels.space import Space
from ..problem.problem import Problem
from .hint import Hint, Launch, NoRasterization, Rasterization2DColumn, RasterizationPlan
from .uncertainty import trust


def make_hint(
    problem: Problem, part: Priced, row: int, rank: int, backend: str, notes: tuple[str, ...] = ()
) -> Hint:
    """Build the hint of one priced candidate."""
    space, work, est = part.space, part.work, part.estimate
    arch, kernel = space.arch, space.kernel
    col = partial(space.at, row)
    warps = int(work.warps[row])
    smem_bytes, registers = col("smem_bytes", 0), col("registers", 0)
    threads = col("threads", warps * arch.warp_size)
    held = max(warps, -(-threads // arch.warp_size))  # includes warps that only copy
    limits = blocks_by_limit(arch, held, smem_bytes, registers)
    if arch.kind == "gpu":  # registers beyond these limits are spilled
        registers = min(registers, arch.max_regs_per_thread, arch.regs_per_block // threads)
    split, kind = col("split", 1), col("instruction", 0)
    group = col("group", 1)
    plan: RasterizationPlan = Rasterization2DColumn(group) if problem.contracts and group > 1 else NoRasterization
    inputs = [t.name for t in problem.statement.inputs]
    trusted = trust(kernel, arch, multiply_dtype(problem))
    terms = {name: float(t[row]) * 1e3 for name, t in est.terms.items()}
    seconds = float(est.seconds[row])
    details = {name: float(np.broadcast_to(v, len(work))[row]) for name, v in work.facts.items()}
    details |= {
        "waves": float(est.waves[row]),
        "blocks_per_sm": float(work.resident[row]),
        "occupancy": min(1.0, float(work.resident[row] * held / arch.max_warps_per_sm)),
        "steps": float(work.steps[row]),
        "tflops": problem.flops / seconds / 1e12,
        "roofline_share": roofline_seconds(problem, arch) / seconds,
    }
    return Hint(
        rank=rank, index=int(space.index[row]), backend=backend, kernel=kernel.name, arch=arch, problem=problem,
        config=space.config(row), predicted_ms=seconds * 1e3, terms_ms=terms,
        bound=_bound(terms, LIMITERS[int(est.limiter[row])]),
        launch=Launch(_grid(part, row, split), threads, smem_bytes, registers),
        **_tiles(space, row),
        num_warps=warps if arch.kind == "gpu" else None, pipeline_stage=_stages(space, row),
        use_async=bool(col("async_copies", 0)), use_tc=kind > 0, vectorize=_vectorize(problem, space, row),
        rasterization_plan=plan, split_k=split if problem.statement.reduced else None,
        cluster=(col("cluster", 1), 1, 1),
        cached_tensors=tuple(inputs[:2]) if problem.contracts and smem_bytes else (), details=details,
        limited_by=min(limits, key=limits.__getitem__), band_ms=trusted.band_ms(seconds * 1e3),
        calibrated=trusted.text, notes=notes,
    )  # fmt: skip


@dataclass(frozen=True)
class Told:
    """What was learnt of one candidate: its time [s], half of its band's width in logarithms, and the source."""

    seconds: float
    half_band: float
    text: str

    def fields(self, predicted_ms: float, terms_ms: Mapping[str, float]) -> dict[str, Any]:
        """The fields of a hint that it changes; the terms are scaled as the time is."""
        ms = self.seconds * 1e3
        factor, width = ms / predicted_ms, self.half_band
        return {
            "predicted_ms": ms, "terms_ms": FrozenDict({name: t * factor for name, t in terms_ms.items()}),
            "band_ms": (ms * float(np.exp(-width)), ms * float(np.exp(width))), "calibrated": self.text,
        }  # fmt: skip


def retold(hint: Hint, told: Told) -> Hint:
    """The hint with the time and band that measurements gave it."""
    factor = told.seconds * 1e3 / hint.predicted_ms
    details = dict(hint.details) | {name: hint.details[name] / factor for name in ("tflops", "roofline_share")}
    return replace(hint, details=details, **told.fields(hint.predicted_ms, hint.terms_ms))


def _tiles(space: Space, row: int) -> dict[str, Any]:
    """The fields of a hint for the tiles of a block, a warp, a thread and a step, from a declaration's columns.

    These are `tile_m tile_n tile_k` for a contraction; `tile_r tile_c` for a matrix as stored in memory;
    `tile_elements` for a tensor that is processed as one line. If a reduction has `axis` 1, it sums over the matrix's
    columns, with 0 over its rows.
    """

    def those(*names: str) -> tuple[int, ...] | None:
        return tuple(space.at(row, name, 1) for name in names if name in space.columns) or None

    block, rstep = those("tile_m", "tile_n"), those("tile_k")
    s = space.problem.statement
    if "tile_r" in space.columns and not s.reduced:
        turned = s.output.index[-1:] != s.inputs[0].index[-1:]
        block = those("tile_c", "tile_r") if turned else those("tile_r", "tile_c")
    elif "tile_r" in space.columns:
        kept, summed = ("tile_r", "tile_c") if space.scope["axis"] else ("tile_c", "tile_r")
        block, rstep = those(kept), those(summed)
    warp = None
    if space.at(row, "instruction", 0) and block is not None:
        warps = space.at(row, "warps_m", 1), space.at(row, "warps_n", 1)
        warp = tuple(max(1, size // count) for size, count in zip(block, warps, strict=True))
    return {
        "block": block or those("tile_elements") or (), "warp": warp, "thread": those("thread_m", "thread_n"),
        "rstep": rstep, "reduce_thread": those("reduce_threads"),
    }  # fmt: skip


def _stages(space: Space, row: int) -> int | None:
    """Pipeline stages as declared; otherwise, for a contraction, one more than the steps that its loads run ahead."""
    if "stages" in space.columns:
        return space.at(row, "stages", 1)
    looped = space.problem.contracts and {"tile_m", "tile_k", "ahead"} <= space.columns.keys()
    return space.at(row, "ahead", 1) + 1 if looped else None


def _bound(terms: Mapping[str, float], loop: str) -> str:
    """What bounds the time: the largest term, or the resource that bounds the loop (`loop`) if that is the main loop.
    The tail wave counts as part of the main loop."""
    largest = max(terms, key=terms.__getitem__)
    in_loop = terms["main loop"] + terms["tail wave"] >= 0.5 * sum(terms.values())
    return loop if in_loop or largest in ("main loop", "tail wave") else largest


def _vectorize(problem: Problem, space: Space, row: int) -> dict[str, int]:
    """For each input, the elements that one load moves; empty if the declaration does not say."""
    inputs = [t.name for t in problem.statement.inputs]
    copies: dict[str, int] = {}
    if "access_elements" in space.columns:
        copies = {name: space.at(row, "access_elements", 1) * int(problem.itemsize(name)) for name in inputs}
    elif "instruction" in space.columns:
        copies = {name: space.at(row, f"copy_{x}_bytes", 16) for name, x in zip(inputs, "ab", strict=False)}
    widths = {name: min(n, problem.align_bytes[name]) / problem.itemsize(name) for name, n in copies.items()}
    return {name: max(1, int(n)) for name, n in widths.items()}


def _grid(part: Priced, row: int, split: int) -> tuple[int, int, int]:
    """Grid of the launch that is made for every candidate, as declared. For another tool's kernel, which declares no
    launch: (tiles, parts of the reduction, 1)."""
    always = [launch.grid for launch in part.space.kernel.launches if not launch.when.names]
    if not always:
        return int(part.work.grid[row]) // max(split, 1), split, 1
    names = frozenset[str]().union(*(extent.names for extent in always[0]))
    env = {name: _of_row(part.space[name], row) for name in names}
    x, y, z = (*(int(extent(env)) for extent in always[0]), 1, 1)[:3]
    return x, y, z


def _of_row(value: Any, row: int) -> Any:
    return int(value[row]) if isinstance(value, np.ndarray) and value.ndim else value
