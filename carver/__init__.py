"""carver: tile configurations for GPU kernels, from a model instead of a search.

    import carver
    op = carver.MatmulTemplate(M=4096, N=4096, K=4096).with_arch(carver.CUDA("h200"))
    print(op.recommend_hints(topk=10))
"""

import importlib
import typing

from . import _methods as _methods
from ._version import __version__ as __version__
from .arch.descriptor import Arch as Arch
from .arch.devices import CPU as CPU
from .arch.devices import CUDA as CUDA
from .arch.devices import HIP as HIP
from .arch.devices import Apple as Apple
from .arch.devices import load as load_arch
from .arch.devices import names as arch_names
from .base.errors import CarverError as CarverError
from .ops.matmul import MatmulTemplate as MatmulTemplate
from .ops.template import recommend_many as recommend_many
from .ranking.hint import Hint as Hint
from .ranking.hint import NoRasterization as NoRasterization
from .ranking.hint import Rasterization2DColumn as Rasterization2DColumn
from .ranking.ranking import Ranking as Ranking

if typing.TYPE_CHECKING:
    from .compiled.arguments import Descriptor as Descriptor
    from .compiled.arguments import Tensor as Tensor
    from .compiled.facts import Facts as Facts
    from .integrations.autotune import enable_triton as enable_triton
    from .integrations.triton import triton_perf_model as triton_perf_model
    from .integrations.triton import triton_pruner as triton_pruner
    from .ops.attention import FlashAttentionTemplate as FlashAttentionTemplate
    from .ops.conv import ConvTemplate as ConvTemplate
    from .ops.conv2d import Conv2DTemplate as Conv2DTemplate
    from .ops.dedispersion import DedispersionTemplate as DedispersionTemplate
    from .ops.elementwise import ElementwiseTemplate as ElementwiseTemplate
    from .ops.gated_mlp import GatedMLPTemplate as GatedMLPTemplate
    from .ops.gemv import GEMVTemplate as GEMVTemplate
    from .ops.graph import Chain as Chain
    from .ops.grouped_matmul import GroupedMatmulTemplate as GroupedMatmulTemplate
    from .ops.grouped_matmul import Routing as Routing
    from .ops.matmul_softmax import MatmulSoftmaxTemplate as MatmulSoftmaxTemplate
    from .ops.moe import MoETemplate as MoETemplate
    from .ops.op import OpTemplate as OpTemplate
    from .ops.reduction import GeneralReductionTemplate as GeneralReductionTemplate
    from .ops.reduction import ReductionTemplate as ReductionTemplate
    from .ranking.kernel import Call as Call
    from .ranking.kernel import KernelHint as KernelHint
    from .ranking.kernel import KernelRanking as KernelRanking
    from .ranking.kernel import rank_kernel as rank_kernel
    from .run.inspected import CodeFacts as CodeFacts
    from .run.inspected import inspect as inspect
    from .tune import JIT as JIT
    from .tune import AutoTuner as AutoTuner
    from .tune import AutotuneResult as AutotuneResult
    from .tune import Kernel as Kernel
    from .tune import Param as Param
    from .tune import SearchSpace as SearchSpace
    from .tune import TensorSupplyType as TensorSupplyType
    from .tune import autotune as autotune
    from .tune import check_bucket as check_bucket
    from .tune import jit as jit
    from .tune import set_autotune_inputs as set_autotune_inputs

_LATE = {
    "compiled.arguments": ("Descriptor", "Tensor"),
    "compiled.facts": ("Facts",),
    "integrations.autotune": ("enable_triton",),
    "integrations.triton": ("triton_perf_model", "triton_pruner"),
    "ops.attention": ("FlashAttentionTemplate",),
    "ops.conv": ("ConvTemplate",),
    "ops.conv2d": ("Conv2DTemplate",),
    "ops.dedispersion": ("DedispersionTemplate",),
    "ops.elementwise": ("ElementwiseTemplate",),
    "ops.gated_mlp": ("GatedMLPTemplate",),
    "ops.gemv": ("GEMVTemplate",),
    "ops.graph": ("Chain",),
    "ops.grouped_matmul": ("GroupedMatmulTemplate", "Routing"),
    "ops.matmul_softmax": ("MatmulSoftmaxTemplate",),
    "ops.moe": ("MoETemplate",),
    "ops.op": ("OpTemplate",),
    "ops.reduction": ("GeneralReductionTemplate", "ReductionTemplate"),
    "ranking.kernel": ("Call", "KernelHint", "KernelRanking", "rank_kernel"),
    "run.inspected": ("CodeFacts", "inspect"),
    "tune": (
        "AutoTuner", "AutotuneResult", "JIT", "Kernel", "Param", "SearchSpace",
        "TensorSupplyType", "autotune", "check_bucket", "jit", "set_autotune_inputs",
    ),
}  # fmt: skip
"""Modules that are imported when one of their names is first used."""
_MODULE_OF = {name: module for module, names in _LATE.items() for name in names}


def __getattr__(name: str) -> typing.Any:
    """The names of `_LATE`, and the template of any file in carver/ops."""
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
    "CPU", "CUDA", "HIP", "JIT", "Apple", "Arch", "AutoTuner", "AutotuneResult", "Call", "CarverError", "Chain",
    "CodeFacts", "Conv2DTemplate", "ConvTemplate", "DedispersionTemplate", "Descriptor", "ElementwiseTemplate", "Facts",
    "FlashAttentionTemplate", "GEMVTemplate", "GatedMLPTemplate", "GeneralReductionTemplate",
    "GroupedMatmulTemplate", "Hint", "Kernel", "KernelHint", "KernelRanking", "MatmulSoftmaxTemplate",
    "MatmulTemplate", "MoETemplate", "NoRasterization", "OpTemplate", "Param", "Ranking", "Rasterization2DColumn",
    "ReductionTemplate", "Routing", "SearchSpace", "Tensor", "TensorSupplyType", "arch_names", "autotune",
    "check_bucket", "enable_triton", "inspect", "jit", "load_arch", "rank_kernel", "recommend_many",
    "set_autotune_inputs", "triton_perf_model", "triton_pruner",
]  # fmt: skip
