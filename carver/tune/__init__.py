"""Tune kernels: candidates from a ranking, compiled in parallel, each run, checked and timed in a worker process.

    with carver.set_autotune_inputs(a, b):
        kernel = matmul(4096, 4096, 4096)      # a function under @carver.autotune(configs=...) and @carver.jit

`decorator` is what a call meets. `plan` gathers candidates (`candidates`), inputs and the key (`keys`) of a tuning;
`tuner` carries it out on `sessions`, and `cache` keeps the result. docs/howto/tuning.md is the guide.
"""

from ..ranking.search import SearchSpace
from ..run.built import JIT, jit
from ..run.inputs import TensorSupplyType, set_autotune_inputs
from ..run.spec import Kernel, Param
from .cache import AutotuneResult
from .candidates import GEMM_GRID_288
from .decorator import Autotuned, BucketCost, autotune, check_bucket
from .tuner import AutoTuner

__all__ = [
    "GEMM_GRID_288", "JIT", "AutoTuner", "AutotuneResult", "Autotuned", "BucketCost", "Kernel", "Param", "SearchSpace",
    "TensorSupplyType", "autotune", "check_bucket", "jit", "set_autotune_inputs",
]  # fmt: skip
