"""Everything that carver knows of an operator besides its kernels: one `Operator` in a file of this folder; templates,
each a problem under the name that people use with the device to answer for; index notation on arrays.

Arrays are NumPy's or torch's: a function that takes `xp` works in that namespace.

MatmulTemplate(M=4096, N=4096, K=4096).with_arch(CUDA("h200")).recommend_hints(topk=10)

Every `Operator` of a module here is found; nothing else lists operators. Its kernels are declared in the folder
of templates/ that the problems of its template name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from importlib import import_module
from inspect import signature
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from ..arch.descriptor import ACCUMULATES_IN, Arch
from ..arch.devices import load
from ..base import dtypes
from ..base.errors import ArchError, ConfigError, ProblemError, nearest
from ..base.folders import shipped
from ..base.given import shown, takes
from ..base.types import Record, late
from ..kernels.backends import listed
from ..problem import notation
from ..problem.notation import Tensor
from ..problem.problem import Problem, counted, size
from ..ranking.hint import Hint
from ..ranking.ranking import Ranking
from ..ranking.recommend import own_backend, rank, recommend, recommend_problems

if TYPE_CHECKING:
    from ..ranking.kernel import Call
    from ..ranking.portfolio import Portfolio
    from ..ranking.profile import Given

View = tuple[Any, tuple[str, ...]]
"""An array with one dimension for each of these axes."""


def value(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """What the notation says, and the sum of the magnitudes that were joined to get it.

    `inputs` are float64 arrays of `xp` by tensor name.
    """
    s = problem.statement
    views = [by_axis(inputs[t.name], problem, t, xp) for t in s.inputs]
    if s.combine in ("max=", "min="):
        over = tuple(range(len(s.spatial), len(s.axes)))
        found = (xp.amax if s.combine == "max=" else xp.amin)(einsum(views, s.axes, xp), over)
        return found, abs(found)
    return contract(views, s.spatial, xp), contract([(abs(x), axes) for x, axes in views], s.spatial, xp)


def by_axis(x: Any, problem: Problem, tensor: Tensor, xp: Any) -> View:
    """A view of an operand with one dimension for each of its axes: windows of a convolution overlap in it."""
    if all(len(dim) == 1 for dim in tensor.index):
        return x, tuple(dim[0][0] for dim in tensor.index)
    shape = tensor.shape(problem.sizes)
    pitch = [prod(shape[i + 1 :]) for i in range(len(shape))]
    terms = [(axis, stride * pitch[i]) for i, dim in enumerate(tensor.index) for axis, stride in dim]
    extents, strides = [problem.sizes[axis] for axis, _ in terms], [stride for _, stride in terms]
    if xp is np:
        x = np.lib.stride_tricks.as_strided(x, extents, [stride * x.itemsize for stride in strides], writeable=False)
    else:
        x = x.as_strided(extents, strides)
    return x, tuple(axis for axis, _ in terms)


def einsum(views: Sequence[View], out: tuple[str, ...], xp: Any) -> Any:
    """The sum of products of the views over the axes not in `out`."""
    letter = {axis: chr(ord("a") + i) for i, axis in enumerate(dict.fromkeys(a for _, axes in views for a in axes))}
    spelt = ["".join(letter[axis] for axis in axes) for axes in (*(axes for _, axes in views), out)]
    return xp.einsum(f"{','.join(spelt[:-1])}->{spelt[-1]}", *(x for x, _ in views))


def roles(in_x: Sequence[str], in_y: Sequence[str], out: Sequence[str]) -> tuple[Sequence[str], ...]:
    """The axes of a product of two operands: those of the output that both have (b), the first alone (m) or the second
    alone (n), and those that are summed (k)."""
    batch = [axis for axis in out if axis in in_x and axis in in_y]
    m, n = ([axis for axis in out if axis in axes and axis not in batch] for axes in (in_x, in_y))
    return batch, m, n, [axis for axis in in_x if axis in in_y and axis not in out]


def contract(views: Sequence[View], out: tuple[str, ...], xp: Any) -> Any:
    """As `einsum`, but as one batched matrix product where two operands share the axes that are summed."""
    if len(views) != 2:
        return einsum(views, out, xp)
    (x, in_x), (y, in_y) = views
    batch, m, n, k = roles(in_x, in_y, out)
    if not k or {*batch, *k, *m} != set(in_x) or {*batch, *k, *n} != set(in_y):
        return einsum(views, out, xp)
    extent = dict(zip((*in_x, *in_y), (*x.shape, *y.shape), strict=True))
    size = {name: prod(extent[a] for a in axes) for name, axes in (("b", batch), ("m", m), ("n", n), ("k", k))}
    left = einsum([(x, in_x)], (*batch, *m, *k), xp).reshape(size["b"], size["m"], size["k"])
    right = einsum([(y, in_y)], (*batch, *k, *n), xp).reshape(size["b"], size["k"], size["n"])
    product = xp.matmul(left, right).reshape([extent[a] for a in (*batch, *m, *n)])
    return einsum([(product, (*batch, *m, *n))], out, xp)


def softmax(x: Any, xp: Any, axis: int = -1) -> Any:
    raised = xp.exp(x - xp.amax(x, axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def silu(x: Any, xp: Any) -> Any:
    return x / (1 + xp.exp(-x))


def plain_axes(problem: Problem) -> list[tuple[str, ...]] | None:
    """The axes of each input, where each indexes a dimension alone."""
    inputs = problem.statement.inputs
    return [tuple(dim[0][0] for dim in t.index) for t in inputs] if all(t.is_plain for t in inputs) else None


def product_call(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """matmul on views [batch, m, k], [batch, k, n], [batch, m, n]; transposed operands are views too."""
    s, axes = problem.statement, plain_axes(problem)
    if axes is None or len(operands) != 2 or s.combine != "+=":
        return None
    (x, y), (in_x, in_y) = operands, axes
    groups = roles(in_x, in_y, s.spatial)
    if any(len(group) > 1 for group in groups) or not groups[3]:
        return None
    b, m, n, k = (group[0] if group else "" for group in groups)
    left, right = arranged(x, in_x, (b, m, k), xp), arranged(y, in_y, (b, k, n), xp)
    target = arranged(out, s.spatial, (b, m, n), xp)
    if xp is np or (left.dtype == target.dtype and b):
        return lambda: xp.matmul(left, right, out=target)
    if left.dtype == target.dtype:
        return lambda: xp.mm(left[0], right[0], out=target[0])
    return lambda: xp.matmul(left, right)


def arranged(x: Any, axes: tuple[str, ...], wanted: tuple[str, ...], xp: Any) -> Any:
    """A view of x with the wanted axes in order; a missing one has extent 1."""
    letter = {axis: chr(ord("a") + i) for i, axis in enumerate(axes)}
    view = xp.einsum(f"{''.join(letter.values())}->{''.join(letter[a] for a in wanted if a in letter)}", x)
    for i, axis in enumerate(wanted):
        if axis not in letter:
            view = view[(slice(None),) * i + (None,)]
    return view


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

    @takes(ArchError, besides="arch")
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
        `carver.ranking.recommend.rank`.

        With `compiled`, the first so many are compiled for the device and ranked again by their machine code; `call` is
        the Triton kernel to which the configurations belong. Those that do not compile or fit are counted in
        `rejected`.
        """
        every, device = listed(configs), self._device()
        if compiled is not None:
            if call is None:
                raise ConfigError("compiled= needs the kernel: call=carver.Call(kernel, args={...}, grid=...)")
            every = [dict(config.config if isinstance(config, Hint) else config) for config in every]
        ranking = rank(self.problem, device, every, backend, kernel=kernel, names=names, ignore=ignore, profile=profile)
        if compiled is None or call is None:
            return ranking
        return call.rank(every, device, ranking.indices[: counted("compiled", compiled, 1)])

    @takes(ProblemError, besides="k|backend")
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


@takes(ConfigError, besides="templates|arch|topk")
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
    problems, topk = [template.problem for template in given], counted("topk", topk, 1)
    return recommend_problems(problems, load(arch), topk, backend, profile=profile)


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


Reference: TypeAlias = Callable[[Problem, Mapping[str, Any], Any], tuple[Any, Any]]
"""Problem, float64 inputs by tensor name and their namespace (NumPy or torch), to the output and the sum of the
magnitudes that were added up to get it, which scales its rounding error."""
Library: TypeAlias = Callable[[Problem, Sequence[Any], Any, Any], Callable[[], object] | None]
"""Problem, inputs, output and their namespace, to a call that computes the one from the others; None without one."""


def option_macros(problem: Problem) -> dict[str, int | str]:
    """The options of a problem, in capitals."""
    return {name.upper(): value for name, value in problem.options.items()}


class Operator(Record):
    """One operator. What is not given is what its notation says."""

    name: str
    """On the command line, in tables of measurements, and of its folder in templates/ where it has one."""
    template: type[Template]
    summary: str = ""
    """One line for the command line."""
    reference: Reference = value
    library: Library = product_call
    macros: Callable[[Problem], Mapping[str, int | str]] = option_macros
    """What its sources are compiled with, besides tunables, element types and alignments."""
    approximates: Callable[[Problem], bool] = lambda _: False
    """Whether its kernels end in an exponential or a division that is not rounded correctly."""
    recognise: Callable[[Problem], Problem | None] = lambda _: None
    """A problem in someone's own notation as this operator spells it; None where it is something else."""

    @property
    def arguments(self) -> Mapping[str, str | Mapping[str, Any]]:
        """What `templates/arguments.toml` says of each parameter of the template that the command line has."""
        said = shipped("arguments")
        known: dict[str, Any] = said["shared"] | said.get(self.name, {})
        parameters = signature(self.template).parameters
        return {n: known.get(n, {}) for n, p in parameters.items() if n in known or p.default is p.empty}


@cache
def operators() -> Mapping[str, Operator]:
    """Every operator by its name."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    modules = (import_module(f"{__package__}.{name}") for name in names)
    found = {each.name: each for module in modules for each in vars(module).values() if isinstance(each, Operator)}
    return MappingProxyType(dict(sorted(found.items())))


def named(name: str) -> Operator:
    """The operator of this name. Raises ProblemError where there is none."""
    if name not in operators():
        raise ProblemError(f"no operator {name!r}; {nearest(name, operators())}")
    return operators()[name]


def respelt(problem: Problem, forms: Sequence[Problem]) -> Problem | None:
    """A problem under the names of that form which computes the same; rows are dense."""
    for form in forms:
        if names := notation.renaming(form.statement, problem.statement):
            return replace(
                form, sizes={axis: problem.sizes[names[axis]] if axis in names else 1 for axis in form.sizes},
                dtypes={name: problem.dtypes[names[name]] for name in form.dtypes}, accumulate=problem.accumulate,
                align_bytes={}, written=problem.computes,
            )  # fmt: skip
    return None


class OpTemplate(Template):
    """Any operator, as one line of index notation, with the size of each axis.

    A statement that is equivalent to one of carver's operators, under any names, becomes that operator
    (`Operator.recognise`), also where axes that lie in memory as one have two names. Any other statement that contracts
    two operands is ranked as the matmul it maps onto, and one without reduced axes as element-wise.
    """

    def __init__(
        self, computes: str, in_dtype: str = "float16", out_dtype: str | None = None, accum_dtype: str | None = None,
        **sizes: int,
    ) -> None:  # fmt: skip
        statement = notation.parse(computes)
        kind = dtypes.canonical(in_dtype)
        out, accumulate = output_type(kind, out_dtype), accumulator(kind, accum_dtype)
        _check_statement(statement)
        types = {t.name: kind for t in statement.inputs} | {statement.output.name: out}
        operator = "matmul" if statement.reduced else "elementwise"
        options = {} if statement.reduced else {"flops_per_element": max(len(statement.inputs) - 1, 1)}
        sizes = {axis: size(axis, extent) for axis, extent in sizes.items()}  # by the user's names in errors
        given = Problem(operator, computes, sizes, types, accumulate, options)
        super().__init__(_recognised(given) or _fused(given) or given)


def _recognised(given: Problem) -> Problem | None:
    found = (each.recognise(given) for each in operators().values())
    return next((problem for problem in found if problem), None)


def _fused(given: Problem) -> Problem | None:
    """A contraction that is one of carver's operators once axes which lie in memory as one are one."""
    statement, sizes = notation.fused(given.statement, given.sizes)
    if not statement.contracts or statement == given.statement:
        return None
    found = _recognised(replace(given, computes=str(statement), sizes=sizes))
    return found and replace(found, written=given.computes)


def _check_statement(s: notation.Statement) -> None:
    """Refuse what no kernel that carver knows computes in one go."""
    for tensor in s.inputs:
        walked = [axis for dim in tensor.index for axis, _ in dim]
        if len(set(walked)) < len(walked):
            raise ProblemError(f"{s}: an axis stands twice in {tensor}; no kernel walks a diagonal")
    if not s.reduced or len(s.inputs) == 1:
        return
    if s.combine != "+=":
        raise ProblemError(f"{s}: products are summed ('+='); no kernel joins them by {s.combine!r}")
    for axis in s.reduced:
        if lone := [str(t) for t in s.inputs[:2] if axis not in t.axes]:
            raise ProblemError(
                f"{s}: {axis!r} is summed, but does not occur in {lone[0]}; contract two operands at a time, each "
                "summed axis in both (carver.Chain takes several statements)"
            )


OPERATOR = Operator("op", OpTemplate, "Any operator in index notation: 'C[m,n] += A[m,k] * B[k,n]' m=64 n=64 k=64.")
