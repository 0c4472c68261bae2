"""The cost models by the name that a declaration's key `model` gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from ..model import Model

_PLACES = {
    "attention": "attention.ATTENTION", "contraction": "contraction.CONTRACTION", "stream": "stream.STREAM",
    "cpu_contraction": "cpu.CPU_CONTRACTION", "cpu_stream": "cpu.CPU_STREAM", "window": "window.WINDOW",
    "delayed_sum": "delayed.DELAYED_SUM", "gated": "fused.GATED", "matmul_softmax": "fused.MATMUL_SOFTMAX",
}  # fmt: skip


class _Models(Mapping[str, Model]):
    """Models by name. Each is imported on first use, since a query needs one or two."""

    def __getitem__(self, name: str) -> Model:
        module, model = _PLACES[name].split(".")
        found: Model = getattr(import_module(f"{__name__}.{module}"), model)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


MODELS: Mapping[str, Model] = _Models()
