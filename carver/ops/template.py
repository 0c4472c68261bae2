"""A template: a problem under the name that people use, and the device to answer for.

MatmulTemplate(M=4096, N=4096, K=4096).with_arch(CUDA("h200")).recommend_hints(topk=10)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from ..arch.descriptor import ACCUMULATES_IN, Arch
from ..arch.devices import load
from ..base import dtypes
from ..base.errors import ConfigError, ProblemError
from ..base.given import shown, takes
from ..base.types import late
from ..kernels.foreign import listed
from ..problem.problem import Problem, counted, size
from ..ranking.hint import Hint
from ..ranking.rank import rank
from ..ranking.ranking import Ranking
from ..ranking.recommend import own_backend, recommend, recommend_problems

if TYPE_CHECKING:
    from ..ranking.kernel import Call
    from ..ranking.portfolio import Portfolio
    from ..ranking.profile import Given

TUNED_ON: ContextVar[Arch | None] = ContextVar("TUNED_ON", default=None)
"""The device that a tuner asks for, while it asks: a template that names none then answers for this one."""
ELSEWHERE = dict.fromkeys(("arch", "device"), "the device comes after: .with_arch('h200')")
"""What to say of arguments that another method takes."""


class Template:
    """A problem and, once `with_arch` has set it, the device for which it is ranked."""

    def __init_subclass__(cls) -> None:
        """What the constructor of an operator's template is given is checked by its annotations."""
        if "__init__" in vars(cls):
            cls.__init__ = takes(ProblemError, words="dtype$", instead=ELSEWHERE)(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, problem: Problem, arch: Arch | None = None) -> None:
        self.problem = problem
        self.arch = arch
        self._answers: dict[tuple[Any, ...], Ranking] = {}

    def with_arch(self, arch: Arch | str | os.PathLike[str]) -> Template:
        """The same operator for a device: an `Arch`, any name that `carver archs` lists, or the path of a TOML file."""
        return Template(self.problem, load(arch))

    @property
    def own_backend(self) -> str:
        """The backend of carver's own kernels for this operator and device."""
        return own_backend(self._device(), self.problem.operator)

    @takes(ConfigError, besides="topk")
    def recommend_hints(
        self, topk: int = 10, backend: str | None = None, kernel: str | None = None, profile: Given | None = None
    ) -> Ranking:
        """The `topk` configurations with the shortest predicted times, best first; all of them if there are fewer.

        `backend` is "cuda" or "cpu" (carver's own kernels), "triton", or another tool for which templates/ has a
        declaration. By default, it is carver's own kernels if they use the device's fastest unit, else Triton's tiles.
        `kernel` names one kernel of any backend, such as a declaration of your own. `profile` is what was learnt of the
        kernel before: the `profile` of a ranking, or a file of it.
        """
        topk, device = counted("topk", topk, 1), self._device()
        if profile is not None:
            return recommend(self.problem, device, topk, backend, kernel=kernel, profile=profile)
        key = topk, backend, kernel, device
        if key not in self._answers:
            self._answers[key] = recommend(self.problem, device, topk, backend, kernel=kernel)
        return self._answers[key]

    @takes(ConfigError, besides="configs|compiled|call")
    def rank(
        self, configs: Iterable[Mapping[str, Any] | Hint] | Mapping[str, Sequence[int]], backend: str = "triton", *,
        kernel: str | None = None, names: Mapping[str, str] | None = None, ignore: Collection[str] = (),
        compiled: int | None = None, call: Call | None = None, profile: Given | None = None,
    ) -> Ranking:  # fmt: skip
        """Your own configurations, with the keys of that backend, in the order of their predicted times.

        `configs` is a list, or a dict of lists: `{"BLOCK_M": [64, 128], ...}` is every combination. `names` maps
        carver's keys to yours. Keys in `ignore` are left out. `profile` is what was learnt of the kernel before. See
        `carver.ranking.rank.rank`.

        With `compiled`, the first so many are compiled for the device and ranked again by their machine code; `call` is
        the Triton kernel to which the configurations belong. Those that do not compile or fit are counted in
        `rejected`.
        """
        every, device = listed(configs), self._device()
        if compiled is not None:
            if call is None:
                raise ConfigError("compiled= needs the kernel: call=carver.Call(kernel, args={...}, grid=...)")
            every = [dict(config.config if isinstance(config, Hint) else config) for config in every]
        ranking = rank(
            self.problem, device, every, backend, kernel=kernel, names=names, ignore=ignore, profile=profile
        )
        if compiled is None or call is None:
            return ranking
        return call.rank(every, device, ranking.indices[: counted("compiled", compiled, 1)])

    def portfolio(
        self, k: int = 4, backend: str | None = None, **axis: Iterable[int] | Mapping[int, float]
    ) -> Portfolio:
        """The `k` configurations that together lose least while one axis varies, and which of them to use for a size.

        `op.portfolio(M=range(1, 8193), k=4)`; see `carver.ranking.portfolio.portfolio` for lists and weights.
        """
        from ..ranking.portfolio import portfolio

        if len(axis) != 1:
            given = ", ".join(axis) or "none"
            raise ProblemError(f"name the one axis that varies, such as M=range(1, 8193); got {given}")
        [(name, sizes)] = axis.items()
        return portfolio(self.problem, self._device(), name, sizes, k, backend)

    def tune(self, topk: int = 10, backend: str | None = None, **settings: Any) -> Any:
        """The fastest of the first `topk` hints, measured on the device here; `settings` as in `AutoTuner.run`."""
        return self._tuner(topk, backend).run(**settings)

    _tuner: ClassVar[Callable[..., Any]] = late("tune.tuner:AutoTuner.from_template")
    equivalent_function: ClassVar[Callable[..., Callable[..., Any]]] = late("export.tilelang:equivalent_function")

    def _device(self) -> Arch:
        arch = self.arch or TUNED_ON.get()
        if arch is None:
            raise ProblemError("no device named; call .with_arch(carver.CUDA('h200')) first")
        return arch

    def __getstate__(self) -> dict[str, Any]:  # answers can be asked for again where a copy goes
        return self.__dict__ | {"_answers": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.problem}{f' on {self.arch.name}' if self.arch else ''})"


def recommend_many(
    templates: Iterable[Template], arch: Arch | str | os.PathLike[str], topk: int = 10, backend: str | None = None,
    profile: Given | None = None,
) -> list[Ranking]:  # fmt: skip
    """`with_arch(arch).recommend_hints(topk, backend, profile=profile)` of every template, in the order given.

    Raises what a single query would raise, for one of the templates that have no answer.
    """
    if not isinstance(templates, Iterable):
        raise ProblemError(f"recommend_many takes a list of templates, got {shown(templates)}")
    given = list(templates)
    if odd := [t for t in given if not isinstance(t, Template)]:
        raise ProblemError(f"recommend_many takes a list of templates, got {shown(odd[0])}")
    return recommend_problems([template.problem for template in given], load(arch), topk, backend, profile)


def wide(dtype: str) -> str:
    """What a kernel that only streams computes in."""
    return "float64" if dtype == "float64" else "float32"


def accumulator(dtype: str, asked: str | None = None) -> str:
    """The type that sums of `dtype` are kept in, at least as wide as the products: the usual one unless asked."""
    usual = ACCUMULATES_IN.get(dtype, "float32")
    allowed = ("float16", "float32") if dtype == "float16" else (usual,)
    if (accumulate := dtypes.canonical(asked or usual)) not in allowed:
        raise ProblemError(f"{dtype} accumulates in {' or '.join(allowed)}, got accum_dtype={accumulate!r}")
    return accumulate


def output_type(dtype: str, asked: str | None) -> str:
    """The type of results of `dtype` operands: their own where it is wide enough, unless asked."""
    wide = {"tf32": "float32", "int8": "int32", "float8_e4m3": "float16", "float8_e5m2": "float16",
            "float8_e4m3fnuz": "float16", "float8_e5m2fnuz": "float16", "float4_e2m1": "float16"}  # fmt: skip
    return dtypes.canonical(asked or wide.get(dtype, dtype))


def flat_shape(shape: Sequence[int]) -> tuple[int, int]:
    """(rows, last dimension) of any shape."""
    if not shape:
        raise ProblemError(f"shape must be a sequence of sizes such as (4096, 4096), got {shape!r}")
    extents = [size(f"shape[{i}]", n) for i, n in enumerate(shape)]
    return prod(extents[:-1]), extents[-1]
