"""TileLang: dicts for `@tilelang.autotune(configs=...)` in the keys of its examples.

TileLang 0.1.15 tries every configuration of the list and takes no ranking; a key that is no parameter of the kernel is
a ValueError, hence `names`. Stage 1 and stage 0 are two kernels there: one buffer filled by TMA, and no pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..base.errors import ConfigError, ProblemError
from ..base.given import takes
from ..kernels.backends import from_tilelang
from ..ops.operator import Template
from ..problem import notation
from ..problem.problem import Problem
from ..ranking.hint import Hint
from . import Exported, distinct, renamed

from_config = from_tilelang


@takes(ConfigError)
def configs(hints: Iterable[Hint], names: Mapping[str, str] | None = None) -> Exported[dict[str, Any]]:
    """The hints in rank order as `{block_M, block_N, block_K, num_stages, thread_num, enable_rasteration}`.

    `names` maps these keys to the kernel's own; a key mapped to "" is left out.
    """

    def entry(hint: Hint) -> dict[str, Any]:
        config = dict(hint.config) | {"enable_rasteration": bool(hint.config["enable_rasteration"])}
        return {key: value for key, value in renamed(config, names).items() if key}

    return distinct(hints, "TileLang", ("tilelang",), entry)


@takes(ConfigError)
def equivalent_function(problem: Problem | Template) -> Callable[..., Any]:
    """What the operator computes, on NumPy arrays in the order of its inputs, in float64. For plain indices only."""
    problem = problem.problem if isinstance(problem, Template) else problem
    s = notation.parse(problem.written or problem.computes)
    if not all(t.is_plain for t in s.tensors) or s.combine not in ("=", "+="):
        raise ProblemError(f"{s} is no sum of products over plain axes; carver.run.check computes it")
    place = {axis: i for i, axis in enumerate(s.axes)}
    subscripts = {t.name: [place[dim[0][0]] for dim in t.index] for t in s.tensors}
    out = subscripts[s.output.name]

    def function(*inputs: Any) -> Any:
        if len(inputs) != len(s.inputs):
            raise ConfigError(f"{s} takes {len(s.inputs)} arrays, got {len(inputs)}")
        given = {t.name: np.asarray(x, np.float64) for t, x in zip(s.inputs, inputs, strict=True)}
        extent = {axis: n for t in s.inputs for axis, n in zip(subscripts[t.name], given[t.name].shape, strict=True)}
        total: Any = 0.0
        for product in s.summands:
            operands: list[Any] = [part for t in product for part in (given[t.name], subscripts[t.name])]
            for axis in set(out).difference(*(subscripts[t.name] for t in product)):  # it is repeated along these
                operands += [np.ones(extent[axis]), [axis]]
            total = total + np.einsum(*operands, out)
        return total

    return function
