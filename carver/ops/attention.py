"""Attention: softmax(Q K^T) V, one kernel, heads that share keys or not, causal or not.

FlashAttentionTemplate(batch=4, heads=32, kv_heads=8, seq=4096, head_dim=128, causal=True).with_arch("h200")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import ProblemError, nearest
from ..problem.problem import Problem, counted, size
from . import operator
from .operator import Operator, Template, output_type

NAMES = {
    "batch_size": "batch", "num_heads": "heads", "num_kv_heads": "kv_heads", "seq_length": "seq",
    "seq_kv_length": "seq_kv", "is_causal": "causal",
}  # fmt: skip
"""What TileLang calls the same."""

BACKWARD = {"keys": 1, "queries": 2}
"""What the option `backward` holds: one of the two kernels of the backward pass, by whose gradients it makes."""


class FlashAttentionTemplate(Template):
    """O = softmax(Q K^T) V for `batch` sequences of `seq` queries and `seq_kv` keys (by default as many as queries).

    Q is batch x heads x seq x head_dim. K and V have `kv_heads` heads (by default all), each shared by heads / kv_heads
    query heads. `value_dim` is V's width, if it differs.

    - `causal`: the last query sees every key; with a `window`, each query sees that many keys up to its own.
    - `visited`, for block-sparse masks: the number of keys that the block of each query visits, at most all.
    - `softcap`, a whole number such as 50 or 50.0: scores s become softcap * tanh(s / softcap).
    - `page`: keys lie in pages of this size, which a table of each sequence lists.
    - `backward`: the kernel of the backward pass that computes the gradients of "keys" (and values), or of "queries",
      from the sums that the forward pass left.
    """

    def __init__(
        self, batch: int = 1, heads: int = 1, kv_heads: int | None = None, seq: int = 1, seq_kv: int | None = None,
        head_dim: int = 64, causal: bool = False, in_dtype: str = "float16", out_dtype: str | None = None,
        value_dim: int | None = None, visited: int | None = None, window: int | None = None,
        softcap: float | None = None, page: int | None = None, backward: str | None = None,
    ) -> None:  # fmt: skip
        heads, head_dim = size("heads", heads), size("head_dim", head_dim)
        shared = size("kv_heads", heads if kv_heads is None else kv_heads)
        if heads % shared:
            raise ProblemError(f"heads must be a multiple of kv_heads, got {heads} and {shared}")
        if not isinstance(causal, bool):
            raise ProblemError(f"causal must be True or False, got {causal!r}")
        if causal and visited is not None:
            raise ProblemError(f"a block-sparse mask says itself what is visited; give causal or visited={visited}")
        if window is not None and not causal:
            raise ProblemError(f"a window ends with the query's own key: one of {window} keys needs a causal mask")
        kind = dtypes.canonical(in_dtype)
        if kind in ("int8", "int32", "float64"):
            raise ProblemError(f"attention takes floats of at most 32 bits, got in_dtype={in_dtype!r}")
        sizes = {
            "z": batch, "h": shared, "g": heads // shared, "q": seq,
            "e": head_dim if value_dim is None else value_dim, "d": head_dim,
            "s": seq if seq_kv is None else seq_kv,
        }  # fmt: skip
        if visited is not None and counted("visited", visited) > size("seq_kv", sizes["s"]):
            raise ProblemError(f"visited is at most the number of keys, {sizes['s']}, got {visited}")
        options = {"causal": int(causal)} | ({} if visited is None else {"visited": visited})
        cap = int(softcap) if isinstance(softcap, float) and softcap.is_integer() else softcap
        if backward is not None and backward not in BACKWARD:
            raise ProblemError(f"backward is 'keys' (and values) or 'queries': whose gradients; got {backward!r}")
        if backward and (shared != heads or sizes["q"] != sizes["s"] or sizes["d"] != sizes["e"]):
            raise ProblemError("backward attention has as many keys as queries, of one width, and no shared heads")
        more = {"window": window, "softcap": cap, "page": page, "backward": BACKWARD.get(backward or "")}
        options |= {name: counted(name, value, 1) for name, value in more.items() if value is not None}
        types = dict.fromkeys("QKV", kind) | {"O": output_type(kind, out_dtype)}
        computes = "O[z,h,g,q,e] += Q[z,h,g,q,d] * K[z,h,s,d] * V[z,h,s,e]"
        super().__init__(Problem("attention", computes, sizes, types, "float32", options))

    @classmethod
    def named(cls, **arguments: Any) -> FlashAttentionTemplate:
        """The same from TileLang's names: batch_size, num_heads, head_dim, seq_length, seq_kv_length, is_causal."""
        known = set(cls.__init__.__annotations__) - {"return"}
        ours: dict[str, Any] = {}
        for name, value in arguments.items():
            word = NAMES.get(name, name)
            if word not in known:
                raise ProblemError(f"attention has no argument {name!r}; {nearest(name, known | NAMES.keys())}")
            if word in ours:
                raise ProblemError(f"{word!r} is given twice: {name!r} is its other name")
            ours[word] = value
        return cls(**ours)


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """softmax(Q K^T) V over the keys that each query sees. An error of a score scales its weight by e^error."""
    q, k, v = (inputs[name] for name in "QKV")
    if "backward" in problem.options:
        raise ProblemError("backward attention has no reference: its gradients are no tensors of its notation")
    scores, size_of = (xp.einsum("zhgqd,zhsd->zhgqs", x, y) for x, y in ((q, k), (abs(q), abs(k))))
    queries, keys = scores.shape[-2:]
    seen = xp.ones((queries, keys), dtype=bool)
    if problem.options.get("causal"):
        seen = xp.tril(seen, keys - queries)
    if "window" in problem.options:
        seen = xp.triu(seen, keys - queries - problem.options["window"] + 1)
    if cap := problem.options.get("softcap"):
        scores = cap * xp.tanh(scores / cap)
    if "visited" in problem.options:
        raise ProblemError("a block-sparse mask says how many keys are visited and not which: it has no reference")
    weights = operator.softmax(xp.where(seen, scores, -xp.inf), xp)
    spread = 1 + xp.amax(xp.where(seen, size_of, 0.0), -1)[..., None]
    value, magnitude = (xp.einsum("zhgqs,zhse->zhgqe", weights, each) for each in (v, abs(v)))
    return value, magnitude * spread


def library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """torch's fused attention; its causal mask starts at the first key, so it needs as many keys as queries."""
    q, k, v = operands
    causal = bool(problem.options.get("causal"))
    own = {"visited", "window", "softcap", "page", "backward"} & problem.options.keys()
    if xp is np or own or (causal and q.shape[-2] != k.shape[-2]):
        return None
    shared = (q.reshape(q.shape[0], -1, *q.shape[-2:]), k, v)
    attend = xp.nn.functional.scaled_dot_product_attention
    return lambda: attend(*shared, is_causal=causal, scale=1.0, enable_gqa=q.shape[2] > 1)


OPERATOR = Operator(
    "attention",
    FlashAttentionTemplate,
    "softmax(Q K^T) V for BATCH sequences of SEQ queries, HEADS heads of HEAD_DIM.",
    reference=reference,
    library=library,
    approximates=lambda _: True,
)  # fmt: skip
