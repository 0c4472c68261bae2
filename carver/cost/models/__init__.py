"""The cost model: seconds that a candidate should take, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...kernels.space import Space
from ..work import Work
from .attention import attention
from .contraction import contraction
from .cpu import cpu_contraction, cpu_stream
from .delayed import delayed_sum
from .fused import gated, matmul_softmax
from .stream import stream
from .window import window

MODELS: Mapping[str, Callable[[Space, Mapping[str, float]], Work]] = {
    "attention": attention,
    "contraction": contraction,
    "stream": stream,
    "cpu_contraction": cpu_contraction,
    "cpu_stream": cpu_stream,
    "window": window,
    "delayed_sum": delayed_sum,
    "gated": gated,
    "matmul_softmax": matmul_softmax,
}
"""What a declaration's `model` key may name: the function that turns a space into demands."""
