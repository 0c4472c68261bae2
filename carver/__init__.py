"""carver: tile configurations for GPU kernels, from a model instead of a search.

    import carver
    op = carver.MatmulTemplate(M=4096, N=4096, K=4096).with_arch(carver.CUDA("h200"))
    print(op.recommend_hints(topk=10))
"""

import typing

from ._version import __version__ as __version__
from .arch import CPU as CPU
from .arch import CUDA as CUDA
from .arch import HIP as HIP
from .arch import Apple as Apple
from .arch import load as load_arch
from .arch import names as arch_names
from .attention import FlashAttentionTemplate as FlashAttentionTemplate
from .descriptor import Arch as Arch
from .errors import CarverError as CarverError
from .feed import triton_perf_model as triton_perf_model
from .feed import triton_pruner as triton_pruner
from .fused import GatedMLPTemplate as GatedMLPTemplate
from .fused import MatmulSoftmaxTemplate as MatmulSoftmaxTemplate
from .graph import Chain as Chain
from .hint import Hint as Hint
from .hint import NoRasterization as NoRasterization
from .hint import Rasterization2DColumn as Rasterization2DColumn
from .ranking import Ranking as Ranking
from .templates import Conv2DTemplate as Conv2DTemplate
from .templates import ConvTemplate as ConvTemplate
from .templates import DedispersionTemplate as DedispersionTemplate
from .templates import ElementwiseTemplate as ElementwiseTemplate
from .templates import GEMVTemplate as GEMVTemplate
from .templates import GeneralReductionTemplate as GeneralReductionTemplate
from .templates import MatmulTemplate as MatmulTemplate
from .templates import OpTemplate as OpTemplate
from .templates import ReductionTemplate as ReductionTemplate

if typing.TYPE_CHECKING:
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

_LATE = (
    "AutoTuner", "AutotuneResult", "JIT", "Kernel", "Param", "SearchSpace",
    "TensorSupplyType", "autotune", "check_bucket", "jit", "set_autotune_inputs",
)
"""Names of the tuner, which is imported when one of them is first used."""


def __getattr__(name: str) -> typing.Any:
    if name not in _LATE:
        raise AttributeError(f"module 'carver' has no attribute {name!r}")
    from . import tune

    return getattr(tune, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


__all__ = [
    "CPU", "CUDA", "HIP", "JIT", "Apple", "Arch", "AutoTuner", "AutotuneResult", "CarverError", "Chain",
    "Conv2DTemplate", "ConvTemplate", "DedispersionTemplate", "ElementwiseTemplate", "FlashAttentionTemplate",
    "GEMVTemplate", "GatedMLPTemplate", "GeneralReductionTemplate", "Hint", "Kernel", "MatmulSoftmaxTemplate",
    "MatmulTemplate", "NoRasterization", "OpTemplate", "Param", "Ranking", "Rasterization2DColumn",
    "ReductionTemplate", "SearchSpace", "TensorSupplyType", "arch_names", "autotune", "check_bucket", "jit",
    "load_arch", "set_autotune_inputs", "triton_perf_model", "triton_pruner",
]  # fmt: skip
