"""The cost models by the name that a declaration's key `model` gives them."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Model
from .attention import ATTENTION
from .contraction import CONTRACTION
from .cpu import CPU_CONTRACTION, CPU_STREAM
from .delayed import DELAYED_SUM
from .fused import GATED, MATMUL_SOFTMAX
from .stream import STREAM
from .window import WINDOW

MODELS: Mapping[str, Model] = {
    "attention": ATTENTION,
    "contraction": CONTRACTION,
    "stream": STREAM,
    "cpu_contraction": CPU_CONTRACTION,
    "cpu_stream": CPU_STREAM,
    "window": WINDOW,
    "delayed_sum": DELAYED_SUM,
    "gated": GATED,
    "matmul_softmax": MATMUL_SOFTMAX,
}
