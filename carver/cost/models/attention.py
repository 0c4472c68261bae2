"""Flash attention: two contractions with a softmax between them, in which the scores never leave the SM.

A block keeps `tile_m` queries and loops over the keys in tiles of `tile_k`. One step multiplies queries by keys,
exponentiates, rescales the accumulators and multiplies by the values. The backward pass recomputes the scores from the
sums that the forward pass stored. It has two kernels, one of which keeps keys and loops over queries (`PASSES`).
Not modelled: dropout, biases, the work of a score function, persistent blocks that balance a causal grid, warp
specialisation (FlashAttention 3 and 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...arch.descriptor import Arch, resident_blocks
from ...base.types import FloatArray, Record
from ...kernels.expr import MMA, VECTOR, WGMMA
from ...kernels.space import Space
from ...problem.problem import Problem
from .. import tile
from ..estimate import INDEPENDENT_OVERLAP, Work, joined
from ..model import Columns, Model, read_columns
from ..tile import Extent
from ..traffic import past_caches, reused_share, sector_waste
from .contraction import CONTRACTED, contraction
from .stream import EXCHANGE_CLK

SCORE_OPS = 3.5
"""Vector instructions per score besides its exponential: maximum, scale and subtract (one), sum, half a conversion."""

LOCKSTEP_OVERLAP = 1.1
"""INDEPENDENT_OVERLAP of products and softmax for the warps of a block, which a barrier keeps in step."""

COPY_BYTES = 16

WORD_BYTES = 4
"""Of shared memory, that a lane takes for a number of any smaller size."""
LSE_BYTES = 8
"""Maximum and sum of a row, in float32, that each part of split keys stores for the kernel that joins the parts."""

NAMED_REGISTERS = 256
"""Registers that vector instructions name. Those beyond, of CDNA's 512, are for matrix instructions, so other values
are moved there and back in every step. Source: CDNA 3 ISA, accumulation VGPRs; Triton 3.6's loop for gfx950 of 128 x
128 with 4 warps has 447 registers and 263 moves, and waits more often for what it reads from LDS."""

INDEX_LOADS = 2
"""Dependent loads before a block-sparse kernel knows its first block of keys: the count, then the index."""

TABLE_LOADS = 1
"""Dependent loads before a kernel for paged keys can copy the keys of a step."""
CAP_OPS = 5
"""Vector instructions to cap a score: tanh(x) = 1 - 2 / (exp(2x) + 1). The exponential and the reciprocal run on the
special-function units."""


class Pass(Record):
    """One pass of attention, forward or backward: what a block keeps in place, loops over and multiplies."""

    products: tuple[int, int]
    """Products per step: over the width of queries and keys, and over the width of values."""
    score_ops: float = SCORE_OPS
    rescales: bool = True
    keeps_both: bool = False
    """Each row that is kept in place has both widths: a query and the gradient of its output, or a key and a value."""
    stores: tuple[int, int] = (0, 1)
    """What is stored per kept row: multiples of the width of queries and keys, and of the width of values."""
    longest_first: bool = False
    """In a causal grid, the blocks with most steps come first."""


PASSES = (
    Pass((1, 1)),
    # 4 vector instructions per score: scale and subtract, difference, product, and the conversion of two values
    Pass((2, 2), 4.0, rescales=False, keeps_both=True, stores=(1, 1), longest_first=True),
    Pass((2, 1), 4.0, rescales=False, keeps_both=True, stores=(1, 0)),
)
"""Indexed by the option `backward`: forward, gradients of keys and values, gradients of queries."""
MASK_OPS = 2
"""Compare and select per score, in kernels that apply the causal mask in every step."""


class Attention(Columns, table="attention.attention"):
    """The columns of `attention`."""


def attention(space: Space, k: Mapping[str, float]) -> Work:
    """Demands of each candidate. One step is one tile of keys (of queries, where keys are kept)."""
    arch, problem, c = space.arch, space.problem, read_columns(Attention, space, whole=True)

    way = PASSES[problem.options.get("backward", 0)]
    queries, keys, heads_kv, group = c.q, c.s, c.z * c.h, c.g  # as many queries as keys where the pass is backward
    tm, tk, head, value = c.tile_m, c.tile_k, c.head, c.value
    eq, ek, ev, eo = c.q_bytes, c.k_bytes, c.v_bytes, c.o_bytes
    warps, wm, wn, split, kind = c.warps, c.warps_m, c.warps_n, c.split, c.instruction
    packed, p_bytes, registers = c.packed > 0, c.p_bytes, c.registers
    resident = resident_blocks(arch, warps, c.smem_bytes, registers, c.tmem_columns)

    # blocks, and the tiles of keys over which each of them loops
    own_queries = np.where(packed, np.maximum(tm // group, 1), tm)
    row_blocks = np.ceil(queries / own_queries) * np.where(packed, np.ceil(group / tm), 1.0)
    heads = np.where(packed, heads_kv, heads_kv * group)
    grid = heads * row_blocks * split
    mean, longest = key_tiles(problem, own_queries, tk)
    parts = np.maximum(np.minimum(split, np.ceil(longest)), 1.0)
    waves = grid / (arch.sm_count * resident)
    # the longest blocks of a causal grid run last, so their time beyond the mean is visible once
    last = np.where(waves > 1, mean, longest) if way.longest_first else longest
    trips = (mean + (last - mean) / np.maximum(waves, 1.0)) / parts
    steps = np.maximum(np.ceil(trips - 1e-9), 1.0)
    busy = np.minimum(trips / steps, 1.0)

    # arithmetic of the padded tile: warps without rows of their own repeat those of others
    inst_m = tile.instruction_rows(kind, c.mma_m)
    rows_at_once = inst_m * np.select([kind == WGMMA, kind == MMA], [np.maximum(wm // 4, 1), wm], 1)
    rows_padded = np.ceil(tm / rows_at_once) * rows_at_once
    rows_scored = rows_padded * c.score_copies
    of_head, of_value = way.products
    again = (of_head - 1) * rows_padded * head + (of_value - 1) * rows_padded * value
    tile_flops = 2 * tk * (rows_scored * head + rows_padded * value + again)
    # fitted to wgmma; those of single warps reach the rate of their instruction, as in matmuls (published_rates.csv)
    share = np.where(kind >= WGMMA, k["math_efficiency"], 1.0)
    products_clk = tile_flops / (tile.peaks(problem, arch, kind) * share)
    ops = way.score_ops + (CAP_OPS if "softcap" in problem.options else 0)
    ops = ops + (MASK_OPS if problem.options.get("causal") and not way.rescales else 0)
    special = 3 if "softcap" in problem.options else 1
    rescaled = rows_padded * value if way.rescales else np.zeros(())
    exp_clk, vector_clk, soft_instr = softmax_clk(arch, rows_scored * tk, rescaled, ops, special)
    moves = warps * 2 * np.maximum(registers - NAMED_REGISTERS, 0) * (arch.max_regs_per_thread > NAMED_REGISTERS)
    soft_clk = exp_clk + vector_clk + moves * arch.warp_size / arch.lanes_per_sm
    # a warp alternates between products and softmax, so only other warps can fill the pipe that it leaves idle
    per_scheduler = warps / arch.schedulers_per_sm
    filled = np.minimum(per_scheduler, arch.sms_per_block)
    of_warp = (products_clk + soft_clk) / per_scheduler
    in_lockstep = joined(products_clk, soft_clk, LOCKSTEP_OVERLAP) / filled
    chain_clk = np.where(per_scheduler > arch.sms_per_block, np.maximum(in_lockstep, of_warp), of_warp)
    chain_clk = chain_clk + sum(way.products) * np.where(kind >= WGMMA, k["group_chain_clk"], k["step_chain_clk"])
    chain_clk = chain_clk + np.where(wn > 1, 2 * EXCHANGE_CLK, 0.0) + np.where(p_bytes > 0, EXCHANGE_CLK, 0.0)
    math_clk = joined(products_clk, soft_clk, INDEPENDENT_OVERLAP)
    if arch.matrix_on_vector:
        summed = way.stores[0] * head + way.stores[1] * value  # each sum's product reads an operand of the step across
        lds_clk = across_read_clk(arch, c, summed) + along_read_clk(arch, c, head * ek * of_head, value * ev)
        between = np.maximum(vector_clk + lds_clk, exp_clk)
        math_clk = np.where(kind == MMA, products_clk + between, math_clk)
    power_clk = (math_clk + products_clk * (tile.held_back(problem, arch, kind) - 1.0)) * (kind > VECTOR)

    # shared-memory port: keys and values are written, fragments of all operands are read
    tile_q, tile_kv = tm * (head * eq + way.keeps_both * value * ev), tk * (head * ek + value * ev)
    walked = tk * (of_head * head * ek + of_value * value * ev)
    reads_kv = walked * np.where(kind >= WGMMA, np.maximum(tm / inst_m, 1), wm)
    fragments = reads_kv + tile_q * np.where(kind >= WGMMA, 1.0, wn) + p_bytes * wn
    by_lanes = warps * c.operand_passes
    moved = np.where(by_lanes > 0, 0.0, fragments) + tile_kv + p_bytes
    smem_clk = by_lanes + moved / arch.smem_bytes_per_clk / k["smem_efficiency"]
    if arch.matrix_on_vector:  # in the time of products
        smem_clk = np.where(kind == MMA, 0.0, smem_clk)

    # instruction issue
    lanes = warps * arch.warp_size
    copies = tile_kv / COPY_BYTES / lanes
    fma = np.where(kind == VECTOR, tile_flops / 2 / arch.warp_size / tile.products_an_instruction(problem, arch), 0.0)
    instructions = (
        warps * (k["step_instr"] + k["copy_instr"] * copies)
        + np.where(kind >= WGMMA, 0.0, k["fragment_instr"] * fragments / 512)
        + soft_instr
        + moves
        + fma
        + (kind == MMA) * c.widen_instr * tk * (of_head * head + of_value * value) * wm / arch.warp_size
    )
    # bytes: a block reads its queries once, and a tile of keys and values in each step
    rows = np.where(packed, np.minimum(tm, queries * group), np.minimum(tm, queries))
    taken = np.minimum(tk, keys)
    d, e = c.d, c.e
    kept = d * eq + way.keeps_both * e * ev
    fill_q = rows * kept * sector_waste(d * eq, c.row_align_q, arch.sector_bytes)
    fill_kv = taken * (d * ek + e * ev) * sector_waste(d * ek, c.row_align_k, arch.sector_bytes)
    read = fill_q / steps + fill_kv * busy
    read_q = heads_kv * group * queries * kept * np.where(packed, 1.0, split)
    read_kv, beyond_kv, hit = keys_read(space, k, grid, resident, split, heads_kv, mean * tk)

    # output: normalised rows, or partial rows that a second kernel joins
    partial = split > 1
    width = np.where(partial, 4.0, eo)
    stored = way.stores[0] * d + way.stores[1] * e
    store = rows * (stored * width * sector_waste(e * width, c.row_align_out, arch.sector_bytes) + partial * LSE_BYTES)
    accumulators = tm * (way.stores[0] * head + way.stores[1] * value) / lanes
    store_instr = accumulators * k["store_instr"]
    outputs = heads_kv * group * queries * stored
    partial_bytes = split * outputs * 4.0
    l2_bytes_per_s = arch.l2_bytes_per_s * k["l2_efficiency"]
    back = np.where(partial_bytes < arch.l2_bytes * 0.5, l2_bytes_per_s, arch.dram_bytes_per_s)
    join_s = k["split_s"] + k["split_each_s"] * split + (partial_bytes + outputs * eo) / back

    sparse = INDEX_LOADS if "visited" in problem.options else 0
    return Work(
        grid=grid,
        resident=resident,
        warps=warps,
        steps=steps,
        ahead=np.where(busy > 0, c.ahead, np.inf),
        exposed=(1.0 + sparse) / steps + c.exposed_loads,
        products_apart=c.products_apart,
        start_loads=c.start_loads + (TABLE_LOADS if "page" in problem.options else 0.0),
        math_clk=math_clk * busy,
        power_clk=power_clk * busy if arch.power_limited else None,
        chain_clk=np.maximum(chain_clk * busy, 1.0),
        smem_clk=smem_clk * busy + 2 * tile_q / steps / arch.smem_bytes_per_clk,
        issue_clk=instructions / tile.issue_per_clk(arch) * busy,
        fill_bytes=read,
        l2_bytes=read,
        l2_read_bytes=read,
        dram_bytes=(read_q + read_kv) / (grid * steps),
        l3_bytes=(read_q + beyond_kv) / (grid * steps),
        store_bytes=store,
        store_clk=store_instr * warps / tile.issue_per_clk(arch),
        store_chain_clk=store_instr * k["store_chain"] * 2 / arch.schedulers_per_sm,
        reduction_s=np.where(partial, join_s, 0.0),
        slowdown=tile.spill_slowdown(arch, warps, registers, np.maximum(math_clk, smem_clk), k),
        facts={
            "dram_bytes": read_q + read_kv + outputs * eo,
            "compulsory_bytes": float(problem.compulsory_bytes),
            "l2_hit_rate": hit,
            "padding": grid * parts * np.maximum(mean / parts, 1e-9) * tm * tk
            / np.maximum(heads_kv * group * problem.attended_pairs * split, 1.0),
        },
    )  # fmt: skip


def across_read_clk(arch: Arch, c: Attention, columns: FloatArray) -> FloatArray:
    """Clocks of the port of shared memory in which warps read so many columns of a step one number at a time, against
    the order of their rows. RDNA 3 has each in both halves of a wave; those of RDNA 4 read different keys, which lie in
    the same banks. Source: ds_load_u16 of Triton 3.6 for gfx1100 and gfx1201; why they add to the products:
    `models.compiled._on_vector_units`."""
    return 2 * c.warps_m * c.tile_k * columns * WORD_BYTES / arch.smem_bytes_per_clk


def along_read_clk(arch: Arch, c: Attention, keys_bytes: FloatArray, values_bytes: FloatArray) -> FloatArray:
    """The same of keys, of so many bytes each, that are read in the order of their rows, of keys and values as they are
    written, and of probabilities that pass through shared memory."""
    copies = 2 if arch.isa.startswith("gfx11") else 1  # RDNA 3 has each in both halves of a wave
    moved = c.tile_k * (keys_bytes * (1 + copies * c.warps_m) + values_bytes)
    return (moved + c.p_bytes * (1 + copies * c.warps_n)) / arch.smem_bytes_per_clk


def softmax_clk(
    arch: Arch, scores: FloatArray, accumulators: FloatArray, ops: float = SCORE_OPS, special: int = 1
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Clocks of an SM's special-function units, clocks of its vector units, and warp instructions, all per step.

    A score takes `ops` vector instructions and `special` instructions of the special-function units. An accumulator
    takes one vector instruction.
    """
    vector_ops, exponentials = scores * ops + accumulators, scores * special
    instructions = (vector_ops + exponentials) / arch.warp_size
    return exponentials / arch.sfu_per_clk, vector_ops / arch.lanes_per_sm, instructions


def key_tiles(problem: Problem, own_queries: FloatArray, tile_k: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Tiles of keys over which a block loops: the mean over the blocks, and the maximum. [tiles]

    With a causal mask, block i of `own_queries` queries sees ceil((last query + 1 + keys - queries) / tile_k) tiles,
    and the last query sees all keys. With a window, a block begins at the tile that holds the first key that its first
    query sees. Source: counting.
    """
    queries, keys = problem.sizes["q"], problem.sizes["s"]
    if "visited" in problem.options:
        every = np.ceil(min(problem.options["visited"], keys) / tile_k)
        return every, every
    most = np.ceil(keys / tile_k)
    if not problem.options.get("causal"):
        return most, most
    if "window" in problem.options:
        return _window_tiles(queries, keys, problem.options["window"], own_queries, tile_k)
    pairs, which = np.unique(np.stack([own_queries, tile_k]).astype(np.int64), axis=1, return_inverse=True)
    mean = np.array([causal_tiles(queries, keys, int(m), int(t)) / -(-queries // int(m)) for m, t in pairs.T])
    return mean[which.reshape(-1)], most


def _window_tiles(
    queries: int, keys: int, window: int, own_queries: FloatArray, tile_k: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`key_tiles` for a causal mask with a window: from the first key that a block's first query sees to the last key
    that its last query sees."""
    walked = {}
    for m, t in np.unique(np.stack([own_queries, tile_k]).astype(np.int64), axis=1).T:
        first = np.arange(0, queries, m) + keys - queries
        end = np.minimum(first + m, keys)
        tiles = np.ceil(np.maximum(end, 0) / t) - np.maximum(first - window + 1, 0) // t
        walked[int(m), int(t)] = float(tiles.mean()), float(tiles.max())
    found = np.array([walked[int(m), int(t)] for m, t in zip(own_queries, tile_k, strict=True)])
    return found[:, 0], found[:, 1]


def causal_tiles(queries: int, keys: int, own_queries: int, tile_k: int) -> int:
    """Tiles of keys over which all blocks of one head loop in total, with a causal mask. [tiles]"""
    blocks, ahead = -(-queries // own_queries), keys - queries
    blind = max(0, -ahead // own_queries)  # blocks whose last query sees no key yet
    full = max(blocks - 1 - blind, 0)
    first = (blind + 1) * own_queries + ahead
    ragged = _floor_sum(full, tile_k, own_queries, first + tile_k - 1)
    return ragged + -(-keys // tile_k)


def _floor_sum(n: int, m: int, a: int, b: int) -> int:
    """Sum of (a*i + b) // m for i in range(n), in O(log m) steps as in Euclid's algorithm."""
    total = 0
    while n > 0:
        total += (n - 1) * n // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        last = a * n + b
        if last < m:
            break
        n, m, a, b = last // m, a, m, last % m
    return total


def keys_read(
    space: Space, k: Mapping[str, float], grid: FloatArray, resident: FloatArray, split: FloatArray,
    heads_kv: FloatArray, walked: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Bytes of keys and values read from DRAM, those that miss L2, and the L2 hit rate of what later waves read again.
    [bytes], [bytes], [1]

    Blocks of one head run side by side and read the same keys at about the same time, so a wave reads the keys of each
    of its heads once. They stay for the next wave as far as the heads in flight fit the cache. Blocks go round robin to
    the partitions of L2, each of which reads the keys of its blocks for itself.

        once   = all keys, or the visited ones
        beyond = partitions * (once + (1 - hit) * (waves over one head - 1) * keys over which a block loops on average)
    """
    problem, arch = space.problem, space.arch
    keys = problem.sizes["s"]
    row_bytes = problem.sizes["d"] * problem.itemsize("K") + problem.sizes["e"] * problem.itemsize("V")
    per_head = grid / heads_kv / split
    at_once = np.maximum(np.minimum(arch.sm_count * resident, grid) / split, 1.0)
    beside = np.minimum(per_head, at_once)
    passes = per_head / beside
    seen = keys if problem.seen_keys is None else problem.seen_keys
    live = np.maximum(at_once / per_head, 1.0) * (seen if "window" in problem.options else keys) * row_bytes
    once = heads_kv * row_bytes * seen
    again = heads_kv * row_bytes * np.minimum(walked, keys) * (passes - 1)

    def beyond(parts: FloatArray | float, cache_bytes: float) -> tuple[FloatArray, FloatArray]:
        hit = np.clip(reused_share(arch, k) * cache_bytes / parts / live, 0.0, 1.0)
        return parts * (once + (1 - hit) * again), hit

    return past_caches(arch, np.minimum(beside, arch.l2_partitions), beyond)


ATTENTION = Model(attention, (Attention,))


GATE_OPS, GATE_SFU = 4.0, 2.0
"""Instructions per element of silu(x) * y = x * y / (1 + exp(-x)): negate and scale, add, two products on vector units;
an exponential and a reciprocal on special-function units."""


class Gated(Extent, table="attention.gated"):
    """Columns that `gated` reads."""


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


class WholeRows(Extent, table="attention.whole_rows"):
    """Columns that `matmul_softmax` reads."""


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
    # every block reads all of B in each pass; the part that stays in a cache is read from beyond it only once, by each
    # partition of L2 for itself
    a_bytes, b_bytes = batch * m * depth * c.a_bytes, batch * n * depth * c.b_bytes
    waves = np.maximum(grid / (arch.sm_count * work.resident), 1.0)

    def beyond(parts: FloatArray | float, cache_bytes: float) -> tuple[FloatArray, FloatArray]:
        kept = np.clip(reused_share(arch, k) * cache_bytes / parts * batch / np.maximum(b_bytes, 1.0), 0.0, 1.0)
        again = np.where(tm * depth * c.a_bytes * arch.sm_count < cache_bytes, 1.0, trips)
        return a_bytes * again + parts * b_bytes * (1 + (1 - kept) * (passes * waves - 1)), kept

    reads, missed, hit = past_caches(arch, np.minimum(grid, arch.l2_partitions), beyond)
    softmax = trips * _elementwise_clk(space, tm * tn, SCORE_OPS, 1.0)
    exchange = np.where(c.warps_n > 1, 2 * EXCHANGE_CLK, 0.0)
    return replace(
        work,
        grid=grid,
        steps=steps,
        dram_bytes=reads / (grid * steps),
        missed=None,
        l3_bytes=missed / (grid * steps),
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


GATED = Model(gated, (*CONTRACTED, Gated))
MATMUL_SOFTMAX = Model(matmul_softmax, (*CONTRACTED, WholeRows))
