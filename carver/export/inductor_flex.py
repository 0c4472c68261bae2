"""Lists of PyTorch's flex attention: what of Inductor's exhaustive ones is tried, by the prices of declared attention.

A mask of flex attention is a function, and how many of its blocks are empty is known when it runs. So attention is
priced as if it had none, which changes the time of every tile alike. The pass back to the gradients is one kernel: some
of its programs have a block of keys, the others a block of queries, and a configuration has tiles for both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import ProblemError
from ..ops.attention import FlashAttentionTemplate
from ..problem.problem import Problem

FORWARD, BACKWARD = "flex_attention", "flex_attention_backward"
MASK = {FORWARD: 4, BACKWARD: 9}
"""Where the block mask is among a node's arguments. The sizes of its blocks are the entries before its last."""
TILE = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")


def fastest(listed: Sequence[Any], node: Any, arch: Arch, topk: int) -> tuple[list[Any], Problem]:
    """The first `topk` of a list by predicted time, and what they were priced for.

    `node` is the call in the graph that is being compiled, `listed` Inductor's `FlexConfig` or `FlexBwDConfig`. Those
    whose tiles do not divide the mask's blocks are left out, as Inductor leaves them out, and forward those of one
    stage, which copy nothing ahead as the declared kernel always does. Of each tile and number of warps one is taken,
    since a few that differ in stages alone are one bet. Raises ProblemError for types and for shared heads that no
    declared kernel has, NoCandidates if the device can run none.
    """
    name = getattr(node.target, "__name__", str(node.target))
    if name not in MASK:
        raise ProblemError(f"{name} is not {FORWARD} or {BACKWARD}, whose arguments are known")
    *_, of_queries, of_keys, _ = node.args[MASK[name]]
    query, key, value = (each.meta["val"] for each in node.args[:3])
    (batch, heads, seq, width), (_, kv_heads, seq_kv, _) = (tuple(map(_hint, x.shape)) for x in (query, key))
    sizes: dict[str, Any] = {
        "batch": batch, "heads": heads, "kv_heads": kv_heads, "seq": seq, "seq_kv": seq_kv, "head_dim": width,
        "value_dim": _hint(value.shape[-1]), "in_dtype": str(query.dtype).removeprefix("torch."),
    }  # fmt: skip
    if name == FORWARD:
        parts: list[tuple[str | None, str, str]] = [(None, "block_m", "block_n")]
    else:
        parts = [("keys", "block_m1", "block_n1"), ("queries", "block_m2", "block_n2")]
    fit = [c for c in listed if (name == BACKWARD or c.num_stages > 1) and all(
        of_queries % getattr(c, m) == 0 and of_keys % getattr(c, n) == 0 for _, m, n in parts
    )]  # fmt: skip
    seconds = [0.0] * len(fit)
    for backward, m, n in parts:
        op = FlashAttentionTemplate(**sizes, backward=backward).with_arch(arch)
        tiles = [(getattr(c, m), getattr(c, n), c.num_warps, c.num_stages) for c in fit]
        every = list(dict.fromkeys(tiles))
        ranking = op.rank([dict(zip(TILE, tile, strict=True)) for tile in every], backend="triton")
        priced = dict(zip((every[i] for i in ranking.indices), ranking.seconds.tolist(), strict=True))
        seconds = [before + priced.get(tile, math.inf) for before, tile in zip(seconds, tiles, strict=True)]
    order = sorted((i for i, s in enumerate(seconds) if math.isfinite(s)), key=seconds.__getitem__)
    first: dict[tuple[int, ...], Any] = {}
    for i in order:
        first.setdefault((*(getattr(fit[i], side) for _, *sides in parts for side in sides), fit[i].num_warps), fit[i])
    return list(first.values())[:topk], op.problem


def _hint(size: Any) -> int:
    """A size, of a dynamic one what it was where the graph was traced."""
    return size if isinstance(size, int) else int(size.node.hint)
