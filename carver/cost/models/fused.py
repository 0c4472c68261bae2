"""Matmuls that do more before they store: a second product that shares an operand, a softmax over whole rows.

Both are `contraction` over the tiles that the kernel really multiplies, with another epilogue; they read the
columns that `contraction` reads. Left out: blocks of one cluster that share a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...base.types import FloatArray
from ...kernels.space import Space
from ..work import Work
from .attention import SCORE_OPS
from .contraction import contraction
from .stream import EXCHANGE_CLK

GATE_OPS, GATE_SFU = 4.0, 2.0
"""silu(x) * y = x * y / (1 + exp(-x)): negate and scale, add, two products; an exponential and a reciprocal."""


def gated(space: Space, k: Mapping[str, float]) -> Work:
    """silu(A W0) * (A W1): a contraction with twice the columns, of which half are stored."""
    n, scope = len(space), space.scope
    depth, products = scope["k"] // scope["u"], scope["u"]
    tile_n = np.asarray(space["tile_n"])
    inner = {"m": scope["m"], "n": products * scope["n"], "k": depth, "b": 1}
    columns = {**space.columns, **{axis: np.full(n, size) for axis, size in inner.items()}, "tile_n": products * tile_n}
    work = contraction(replace(space, columns=columns), k)
    elements = np.asarray(space["tile_m"] * tile_n, np.float64)
    out_bytes = float(scope["m"] * scope["n"] * scope["out_bytes"])
    return replace(
        work,
        store_bytes=work.store_bytes / products,
        store_clk=work.store_clk / products + _elementwise_clk(space, elements, GATE_OPS, GATE_SFU),
        facts=work.facts | {
            "dram_bytes": work.facts["dram_bytes"] - (products - 1) * out_bytes,
            "compulsory_bytes": float(space.problem.compulsory_bytes),
        },
    )  # fmt: skip


def matmul_softmax(space: Space, k: Mapping[str, float]) -> Work:
    """softmax over the rows of A B, by blocks that own `tile_m` whole rows.

    One pass keeps the rows in registers. Two passes walk the columns twice, and multiply everything twice:

        steps = passes * column tiles * ceil(k / tile_k)
    """
    arch, col = space.arch, space.broadcast
    work = contraction(space, k)
    m, n, depth, batch, passes, tm, tn = (col(c) for c in ("m", "n", "k", "b", "PASSES", "tile_m", "tile_n"))
    column_tiles = np.ceil(n / tn)
    trips = passes * column_tiles
    grid, steps = work.grid / column_tiles, work.steps * trips
    # every block reads all of B, in both passes; what L2 keeps of it, DRAM reads once
    a_bytes, b_bytes = batch * m * depth * col("a_bytes"), batch * n * depth * col("b_bytes")
    waves = np.maximum(grid / (arch.sm_count * work.resident), 1.0)
    hit = np.clip(k["l2_usable"] * arch.l2_bytes * batch / np.maximum(b_bytes, 1.0), 0.0, 1.0)
    reads = a_bytes * np.where(tm * depth * col("a_bytes") * arch.sm_count < arch.l2_bytes, 1.0, trips)
    reads = reads + b_bytes * (1 + (1 - hit) * (passes * waves - 1))
    softmax = trips * _elementwise_clk(space, tm * tn, SCORE_OPS, 1.0)
    exchange = np.where(col("warps_n") > 1, 2 * EXCHANGE_CLK, 0.0)
    dram = reads / (grid * steps)
    return replace(
        work,
        grid=grid,
        steps=steps,
        dram_bytes=dram,
        l3_bytes=dram,
        store_bytes=work.store_bytes * column_tiles,
        store_clk=work.store_clk * column_tiles + softmax,
        store_chain_clk=(work.store_chain_clk + exchange) * column_tiles,
        facts=work.facts | {
            "dram_bytes": reads + batch * m * n * col("out_bytes"),
            "compulsory_bytes": float(space.problem.compulsory_bytes),
            "l2_hit_rate": hit,
            "padding": work.facts["padding"] * passes,
        },
    )  # fmt: skip


def _elementwise_clk(space: Space, elements: FloatArray, vector_ops: float, special: float) -> FloatArray:
    """Clocks of an SM for a few operations on every element of a tile. [clk]"""
    out: FloatArray = elements * (vector_ops / space.arch.lanes_per_sm + special / space.arch.sfu_per_clk)
    return out
