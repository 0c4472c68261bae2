"""Fused matmuls: a second product that shares an operand (`gated`), a softmax over whole rows (`matmul_softmax`).

Both are `contraction` over the tiles that the kernel actually multiplies, with another epilogue. Not modelled: blocks
of a cluster that share a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...base.types import FloatArray
from ...kernels.columns import column, given, read_columns
from ...kernels.space import Space
from ..model import Model, Part
from ..tile import Extent
from ..traffic import reused_share
from ..work import Work
from .attention import SCORE_OPS
from .contraction import CONTRACTED, contraction
from .stream import EXCHANGE_CLK

GATE_OPS, GATE_SFU = 4.0, 2.0
"""Instructions per element of silu(x) * y = x * y / (1 + exp(-x)): negate and scale, add, two products on vector units;
an exponential and a reciprocal on special-function units."""


@dataclass(frozen=True)
class Gated(Extent):
    """Columns that `gated` reads."""

    k: FloatArray = given("elements", "extent of the reduction, over all products")
    a_reuse: FloatArray = given("", "distinct elements of the first operand over rows x depth of all products")
    u: FloatArray = given("", "products that share the first operand")


def gated(space: Space, k: Mapping[str, float]) -> Work:
    """silu(A W0) * (A W1): a contraction with twice as many columns as it stores."""
    c = read_columns(Gated, space, arch=space.arch, problem=space.problem)
    # The statement sums over the axis `u` of the products as well. Here they are further columns instead, so k and the
    # first operand shrink by u.
    inner = {
        "m": c.m, "n": c.u * c.n, "k": c.k // c.u, "b": np.ones(()), "a_reuse": c.u * c.a_reuse,
        "tile_n": c.u * c.tile_n,
    }  # fmt: skip
    columns = {**space.columns, **{name: np.broadcast_to(value, len(space)) for name, value in inner.items()}}
    work = contraction(replace(space, columns=columns), k)
    out_bytes = c.m * c.n * c.out_bytes
    return replace(
        work,
        store_bytes=work.store_bytes / c.u,
        store_clk=work.store_clk / c.u + _elementwise_clk(space, c.tile_m * c.tile_n, GATE_OPS, GATE_SFU),
        facts=work.facts | {
            "dram_bytes": work.facts["dram_bytes"] - (c.u - 1) * out_bytes,
            "compulsory_bytes": float(space.problem.compulsory_bytes),
        },
    )  # fmt: skip


@dataclass(frozen=True)
class WholeRows(Extent):
    """Columns that `matmul_softmax` reads."""

    tile_m: FloatArray = column("elements", "whole rows of the output that a block owns")
    tile_n: FloatArray = column("elements", "columns of the output per iteration")
    warps_n: FloatArray = column("warps", "warps along the columns of the tile")
    passes: FloatArray = column("", "passes over the columns; the second repeats the products")


def matmul_softmax(space: Space, k: Mapping[str, float]) -> Work:
    """Softmax over the rows of A B; a block owns `tile_m` whole rows.

    With one pass the rows stay in registers. With two passes a block loops over the columns twice, and multiplies
    everything twice:

        steps = passes * column tiles * ceil(k / tile_k)
    """
    arch = space.arch
    c = read_columns(WholeRows, space, whole=True, arch=arch, problem=space.problem)
    work = contraction(space, k)
    m, n, depth, batch, passes, tm, tn = c.m, c.n, c.k, c.b, c.passes, c.tile_m, c.tile_n
    column_tiles = np.ceil(n / tn)
    trips = passes * column_tiles
    grid, steps = work.grid / column_tiles, work.steps * trips
    # every block reads all of B in each pass; the part that stays in L2 is read from DRAM only once
    a_bytes, b_bytes = batch * m * depth * c.a_bytes, batch * n * depth * c.b_bytes
    waves = np.maximum(grid / (arch.sm_count * work.resident), 1.0)
    hit = np.clip(reused_share(arch, k) * arch.l2_bytes * batch / np.maximum(b_bytes, 1.0), 0.0, 1.0)
    reads = a_bytes * np.where(tm * depth * c.a_bytes * arch.sm_count < arch.l2_bytes, 1.0, trips)
    reads = reads + b_bytes * (1 + (1 - hit) * (passes * waves - 1))
    softmax = trips * _elementwise_clk(space, tm * tn, SCORE_OPS, 1.0)
    exchange = np.where(c.warps_n > 1, 2 * EXCHANGE_CLK, 0.0)
    dram = reads / (grid * steps)
    return replace(
        work,
        grid=grid,
        steps=steps,
        dram_bytes=dram,
        missed=None,
        l3_bytes=dram,
        store_bytes=work.store_bytes * column_tiles,
        store_clk=work.store_clk * column_tiles + softmax,
        store_chain_clk=(work.store_chain_clk + exchange) * column_tiles,
        facts=work.facts | {
            "dram_bytes": reads + batch * m * n * c.out_bytes,
            "compulsory_bytes": float(space.problem.compulsory_bytes),
            "l2_hit_rate": hit,
            "padding": work.facts["padding"] * passes,
        },
    )  # fmt: skip


def _elementwise_clk(space: Space, elements: FloatArray, vector_ops: float, special: float) -> FloatArray:
    """Clocks of an SM for `vector_ops` and `special` operations on each element of a tile. [clk]"""
    return elements * (vector_ops / space.arch.lanes_per_sm + special / space.arch.sfu_per_clk)


GATED = Model(gated, (*CONTRACTED, Part(Gated)))
MATMUL_SOFTMAX = Model(matmul_softmax, (*CONTRACTED, Part(WholeRows)))
