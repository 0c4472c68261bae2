"""carver: tile configurations for GPU and CPU kernels, ranked by a cost model instead of a search.

    import carver
    op = carver.MatmulTemplate(M=4096, N=4096, K=4096).with_arch(carver.CUDA("h200"))
    print(op.recommend_hints(topk=10))
"""

import importlib
import typing

from ._version import __version__ as __version__
from .arch.descriptor import Arch
from .arch.devices import CPU, CUDA, HIP, Apple
from .arch.devices import load as load_arch
from .arch.devices import names as arch_names
from .base.errors import CarverError, DeviceError
from .ops.matmul import GatedMLPTemplate, GEMVTemplate, MatmulSoftmaxTemplate, MatmulTemplate
from .ops.operator import recommend_many
from .ranking.hint import Hint, NoRasterization, Rasterization2DColumn
from .ranking.ranking import Ranking

if typing.TYPE_CHECKING:
    from .compiled.binary import Binary, Descriptor, Struct, Tensor, TensorMap
    from .compiled.facts import Facts
    from .integrations.autotune import enable_triton, triton_perf_model, triton_pruner
    from .integrations.enable import enable
    from .integrations.kernels import inspect, rank_kernel, search
    from .integrations.source import CodeFacts
    from .ops.attention import FlashAttentionTemplate
    from .ops.conv import Conv2DTemplate, ConvTemplate, DedispersionTemplate
    from .ops.elementwise import ElementwiseTemplate
    from .ops.graph import Chain
    from .ops.grouped_matmul import GroupedMatmulTemplate, MoETemplate, Routing
    from .ops.operator import OpTemplate
    from .ops.reduction import GeneralReductionTemplate, ReductionTemplate
    from .ranking.kernel import Call
    from .ranking.search import SearchSpace
    from .tune import (
        JIT,
        AutoTuner,
        AutotuneResult,
        Kernel,
        Param,
        TensorSupplyType,
        autotune,
        check_bucket,
        jit,
        set_autotune_inputs,
    )

_LATE = {
    "compiled.binary": ("Binary", "Descriptor", "Struct", "Tensor", "TensorMap"),
    "compiled.facts": ("Facts",),
    "integrations.autotune": ("enable_triton", "triton_perf_model", "triton_pruner"),
    "integrations.enable": ("enable",),
    "integrations.kernels": ("inspect", "rank_kernel", "search"),
    "ops.attention": ("FlashAttentionTemplate",),
    "ops.conv": ("Conv2DTemplate", "ConvTemplate", "DedispersionTemplate"),
    "ops.elementwise": ("ElementwiseTemplate",),
    "ops.graph": ("Chain",),
    "ops.grouped_matmul": ("GroupedMatmulTemplate", "MoETemplate", "Routing"),
    "ops.operator": ("OpTemplate",),
    "ops.reduction": ("GeneralReductionTemplate", "ReductionTemplate"),
    "ranking.kernel": ("Call",),
    "ranking.search": ("SearchSpace",),
    "integrations.source": ("CodeFacts",),
    "tune": (
        "AutoTuner", "AutotuneResult", "JIT", "Kernel", "Param", "TensorSupplyType",
        "autotune", "check_bucket", "jit", "set_autotune_inputs",
    ),
}  # fmt: skip
"""Modules that are imported when one of their names is first used."""
_MODULE_OF = {name: module for module, names in _LATE.items() for name in names}
_PACKAGES = ("export", "roller", "template")
"""Of this folder, imported when they are first named: `carver.export.plain`."""


def __getattr__(name: str) -> typing.Any:
    """The names of `_LATE`, the packages of `_PACKAGES`, and the template of any file in carver/ops."""
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    from .ops.operator import operators

    for operator in operators().values():
        if operator.template.__name__ == name:
            return operator.template
    raise AttributeError(f"module 'carver' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})


__all__ = [
    "CPU", "CUDA", "HIP", "JIT", "Apple", "Arch", "AutoTuner", "AutotuneResult", "Binary", "Call", "CarverError",
    "Chain", "CodeFacts", "Conv2DTemplate", "ConvTemplate", "DedispersionTemplate", "Descriptor", "DeviceError",
    "ElementwiseTemplate", "Facts", "FlashAttentionTemplate", "GEMVTemplate", "GatedMLPTemplate",
    "GeneralReductionTemplate", "GroupedMatmulTemplate", "Hint", "Kernel", "MatmulSoftmaxTemplate", "MatmulTemplate",
    "MoETemplate", "NoRasterization", "OpTemplate", "Param", "Ranking", "Rasterization2DColumn", "ReductionTemplate",
    "Routing", "SearchSpace", "Struct", "Tensor", "TensorMap", "TensorSupplyType", "arch_names", "autotune",
    "check_bucket", "enable", "enable_triton", "inspect", "jit", "load_arch", "rank_kernel", "recommend_many",
    "search", "set_autotune_inputs", "triton_perf_model", "triton_pruner",
]  # fmt: skip
