"""Operators under the names people use. Each is a thin face on index notation.

MatmulTemplate(M=4096, N=4096, K=4096).with_arch(CUDA("h200")).recommend_hints(topk=10)
OpTemplate("C[m,n] += A[m,k] * B[k,n]", m=4096, n=4096, k=4096).with_arch(...)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any, ClassVar

from ..arch.descriptor import ACCUMULATES_IN, Arch
from ..arch.devices import load
from ..base import dtypes
from ..base.errors import ProblemError, nearest
from ..problem import notation
from ..problem.problem import ACTIVATIONS, MAX_ALIGN_BYTES, NORMALISATIONS, REDUCTIONS, Problem, counted, size
from ..ranking.hint import Hint
from ..ranking.offers import own_backend
from ..ranking.ranking import Ranking
from ..ranking.recommend import rank, recommend

if TYPE_CHECKING:
    from ..ranking.portfolio import Portfolio

TUNED_ON: ContextVar[Arch | None] = ContextVar("TUNED_ON", default=None)
"""The device that a tuner asks for, while it asks: a template that names none then answers for this one."""


class Template:
    """A problem and, once `with_arch` has named it, the device to answer for."""

    def __init__(self, problem: Problem, arch: Arch | None = None) -> None:
        self.problem = problem
        self.arch = arch
        self._answers: dict[tuple[Any, ...], Ranking] = {}

    def with_arch(self, arch: Arch | str | os.PathLike[str]) -> Template:
        """The same operator for a device: an `Arch`, any name that `carver archs` lists, or the path of a TOML file."""
        return Template(self.problem, arch if isinstance(arch, Arch) else load(arch))

    @property
    def own_backend(self) -> str:
        """The backend of carver's own kernels for this operator and device, of a `recommend`."""
        return own_backend(self._device(), self.problem.operator)

    def recommend_hints(self, topk: int = 10, backend: str | None = None) -> Ranking:
        """The `topk` configurations with the shortest predicted times, best first; all of them where fewer exist.

        `backend` is "cuda" or "cpu" (carver's own kernels), "triton" or another tool that templates/ has a declaration
        for. Without one, carver's own where they use the device's fastest unit, else Triton's tiles.
        """
        key = (topk, backend) if self.arch else (topk, backend, TUNED_ON.get())
        if key not in self._answers:
            self._answers[key] = recommend(self.problem, self._device(), topk, backend)
        return self._answers[key]

    def rank(self, configs: Iterable[Mapping[str, Any] | Hint], backend: str = "triton") -> Ranking:
        """Your own configurations, in that backend's vocabulary, in the order of their predicted times."""
        return rank(self.problem, self._device(), configs, backend)

    def portfolio(
        self, k: int = 4, backend: str | None = None, **axis: Iterable[int] | Mapping[int, float]
    ) -> Portfolio:
        """The `k` configurations that together lose least while one axis varies, and a table between them.

        `op.portfolio(M=range(1, 8193), k=4)`; see `carver.ranking.portfolio.portfolio` for lists and weights.
        """
        from ..ranking.portfolio import portfolio

        if len(axis) != 1:
            given = ", ".join(axis) or "none"
            raise ProblemError(f"name the one axis that varies, such as M=range(1, 8193); got {given}")
        [(name, sizes)] = axis.items()
        return portfolio(self.problem, self._device(), name, sizes, k, backend)

    tune: ClassVar[Callable[..., Any]]
    """`carver.tune.AutoTuner` on the first hints; see `carver._methods`."""
    equivalent_function: ClassVar[Callable[..., Callable[..., Any]]]
    """What the operator computes, as a function of NumPy arrays; see `carver._methods`."""

    def _device(self) -> Arch:
        arch = self.arch or TUNED_ON.get()
        if arch is None:
            raise ProblemError("no device named; call .with_arch(carver.CUDA('h200')) first")
        return arch

    def __getstate__(self) -> dict[str, Any]:  # answers can be asked for again where a copy goes
        return self.__dict__ | {"_answers": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.problem}{f' on {self.arch.name}' if self.arch else ''})"


class MatmulTemplate(Template):
    """C = activation(A @ B + bias), batched and row-major; `trans_A`, `trans_B` say which operands are transposed.

    `lda`, `ldb`, `ldc` are leading dimensions in elements where rows are padded or views; they decide how wide
    a copy may be. `b_dtype` is the type of B where it differs (weights in int8, say). `epilogue` is another way to say
    what is done to A @ B before it is stored: "bias", an activation, or ("bias", "gelu"), in this order. Triton sees
    how rows are aligned only where sizes and strides are constants of the kernel, as Inductor's are: `static_shapes`.
    Of arguments it knows whether 16 divides them, and where it does not, copies element by element.
    """

    def __init__(
        self,
        M: int,
        N: int,
        K: int,
        batch: int = 1,
        trans_A: bool = False,
        trans_B: bool = False,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
        accum_dtype: str | None = None,
        b_dtype: str | None = None,
        with_bias: bool = False,
        activation: str = "none",
        lda: int | None = None,
        ldb: int | None = None,
        ldc: int | None = None,
        epilogue: str | Sequence[str] = (),
        static_shapes: bool = False,
    ) -> None:
        if words := (epilogue,) if isinstance(epilogue, str) else tuple(epilogue):
            if with_bias or activation != "none":
                raise ProblemError(f"the epilogue is given twice: {words} and with_bias or activation")
            with_bias, rest = words[0] == "bias", words[words[0] == "bias" :]
            if len(rest) > 1 or "bias" in rest:
                raise ProblemError(f"an epilogue is a bias, an activation, or one after the other; got {words}")
            activation = rest[0] if rest else "none"
        a, b = dtypes.canonical(in_dtype), dtypes.canonical(b_dtype or in_dtype)
        accumulate, out = accumulator(a, accum_dtype), output_type(a, out_dtype)
        if activation not in ACTIVATIONS:
            raise ProblemError(f"unknown activation {activation!r}; {nearest(str(activation), ACTIVATIONS)}")
        left = "A[b,k,m]" if trans_A else "A[b,m,k]"
        right = "B[b,n,k]" if trans_B else "B[b,k,n]"
        rows = {"A": lda, "B": ldb, "C": ldc}
        long = {"A": M if trans_A else K, "B": K if trans_B else N, "C": N}
        for name, ld in rows.items():
            if ld is not None and size(f"ld{name.lower()}", ld) < size(name, long[name]):
                raise ProblemError(
                    f"ld{name.lower()} is {ld}, but a row of {name} has {long[name]} elements; "
                    "a leading dimension counts the elements from one row to the next"
                )
        types = {"C": out, "A": a, "B": b}
        align = {
            name: gcd(MAX_ALIGN_BYTES, size(f"ld{name.lower()}", ld) * dtypes.BYTES[types[name]])
            for name, ld in rows.items()
            if ld is not None
        }
        super().__init__(
            Problem(
                "matmul",
                f"C[b,m,n] += {left} * {right}",
                {"b": batch, "m": M, "n": N, "k": K},
                types,
                accumulate,
                {"trans_a": trans_A, "trans_b": trans_B, "bias": with_bias, "activation": ACTIVATIONS[activation]}
                | ({"static_shapes": True} if static_shapes else {}),
                align,
            )
        )


class GEMVTemplate(Template):
    """y = A x, batched: A is N x K, or K x N with `trans_A`."""

    def __init__(
        self,
        N: int,
        K: int,
        batch: int = 1,
        trans_A: bool = False,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
        accum_dtype: str | None = None,
        with_bias: bool = False,
    ) -> None:
        a = dtypes.canonical(in_dtype)
        types = {"Y": output_type(a, out_dtype), "X": a, "A": a}
        matrix = "A[b,k,n]" if trans_A else "A[b,n,k]"
        sizes = {"b": batch, "n": N, "k": K}
        accumulate, options = accumulator(a, accum_dtype), {"trans_a": trans_A, "bias": with_bias}
        super().__init__(Problem("gemv", f"Y[b,n] += X[b,k] * {matrix}", sizes, types, accumulate, options))


class ElementwiseTemplate(Template):
    """Y = f(X0, X1, ...), element by element; their sum, unless a kernel is compiled with an EXPRESSION of one's own.

    `inputs` is how many full-size inputs there are; `broadcast` how many more are read along the last
    dimension only (a bias, a scale).
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: str = "float16",
        inputs: int = 1,
        flops_per_element: int = 1,
        broadcast: int = 0,
        out_dtype: str | None = None,
    ) -> None:
        rows, cols = flat_shape(shape)
        full, short = size("inputs", inputs), counted("broadcast", broadcast)
        names = [f"X{i}" for i in range(full + short)]
        terms = [f"{x}[r,c]" for x in names[:full]] + [f"{x}[c]" for x in names[full:]]
        kind = dtypes.canonical(dtype)
        types = dict.fromkeys(names, kind) | {"Y": dtypes.canonical(out_dtype or kind)}
        options = {
            "flops_per_element": counted("flops_per_element", flops_per_element),
            "inputs": full,
            "broadcast": short,
        }
        computes = f"Y[r,c] = {' + '.join(terms)}"
        super().__init__(Problem("elementwise", computes, {"r": rows, "c": cols}, types, _wide(kind), options))


class ReductionTemplate(Template):
    """sum, max, mean, softmax, layer_norm or rms_norm over the rows (`axis=1`) or columns (`axis=0`) of a matrix."""

    def __init__(
        self,
        op: str = "sum",
        shape: Sequence[int] = (),
        axis: int = 1,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
    ) -> None:
        if op not in REDUCTIONS:
            raise ProblemError(
                f"unknown reduction {op!r}; {nearest(str(op), REDUCTIONS)}; carver has {', '.join(REDUCTIONS)}"
            )
        if not isinstance(shape, Sequence) or isinstance(shape, str) or len(shape) != 2:
            raise ProblemError(f"shape must be (rows, columns), got {shape!r}; flatten the axes that are kept together")
        if axis not in (0, 1, -1) or isinstance(axis, bool):
            raise ProblemError(f"axis must be 1 (along a row) or 0 (down a column), got {axis!r}")
        kind = dtypes.canonical(in_dtype)
        keeps = op in NORMALISATIONS
        out = dtypes.canonical(out_dtype or (kind if keeps or op == "max" else _wide(kind)))
        down = axis == 0
        sign = "max=" if op == "max" else "+="
        options = {"reduce_op": REDUCTIONS.index(op), "axis": 0 if down else 1, "keeps_shape": keeps}
        super().__init__(
            Problem(
                "reduction",
                f"Y[{'c' if down else 'r'}] {sign} X[r,c]",
                {"r": size("rows", shape[0]), "c": size("columns", shape[1])},
                {"Y": out, "X": kind},
                _wide(kind),
                options,
            )
        )


class GeneralReductionTemplate(Template):
    """A sum over the axes that `structure` marks with R, kept over those marked S: "SSR" sums the last of three."""

    def __init__(
        self, structure: str, shape: Sequence[int], dtype: str = "float16", out_dtype: str | None = None
    ) -> None:
        if not isinstance(structure, str) or not structure or set(structure) - {"S", "R"} or "R" not in structure:
            raise ProblemError(
                f"structure must be letters S (kept) and R (reduced) with at least one R, got {structure!r}"
            )
        if len(structure) != len(shape):
            raise ProblemError(
                f"structure {structure!r} has {len(structure)} axes, shape {tuple(shape)} has {len(shape)}"
            )
        kind = dtypes.canonical(dtype)
        super().__init__(flat_reduction(structure, shape, "+=", kind, dtypes.canonical(out_dtype or kind)))


class Conv2DTemplate(Template):
    """A single-channel image under one filter, summed directly: `height` x `width` outputs of an input with border."""

    def __init__(self, height: int, width: int, filter_height: int, filter_width: int, dtype: str = "float32") -> None:
        kind = dtypes.canonical(dtype)
        sizes = {"y": height, "x": width, "r": filter_height, "s": filter_width}
        types = dict.fromkeys(("O", "I", "F"), kind)
        computes = "O[y,x] += I[y+r,x+s] * F[r,s]"
        super().__init__(Problem("conv2d", computes, sizes, types, accumulator(kind)))


class ConvTemplate(Template):
    """A layer's convolution as the matmul it maps onto (implicit GEMM), channels last.

    N images of H x W x C under F filters of KH x KW: rows are the N x P x Q output pixels, columns the F
    filters, and C x KH x KW products are summed. The input counts with its padding of `pad` on every side.
    """

    def __init__(
        self,
        N: int,
        C: int,
        H: int,
        W: int,
        F: int,
        KH: int,
        KW: int,
        stride: int = 1,
        pad: int = 0,
        dilation: int = 1,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
        accum_dtype: str | None = None,
    ) -> None:
        step, apart, border = size("stride", stride), size("dilation", dilation), counted("pad", pad)
        out = {}
        for name, image, taps in (("H", H, KH), ("W", W, KW)):
            reach = apart * (size(f"K{name}", taps) - 1) + 1
            padded = size(name, image) + 2 * border
            if reach > padded:
                raise ProblemError(f"a filter that spans {reach} does not fit {name}={image} with pad={border}")
            out[name] = (padded - reach) // step + 1
        kind = dtypes.canonical(in_dtype)
        types = {"O": output_type(kind, out_dtype), "I": kind, "W": kind}
        sizes = {"n": N, "p": out["H"], "q": out["W"], "f": F, "r": KH, "s": KW, "c": C}
        computes = f"O[n,p,q,f] += I[n,{step}*p+{apart}*r,{step}*q+{apart}*s,c] * W[r,s,c,f]"
        super().__init__(Problem("matmul", computes, sizes, types, accumulator(kind, accum_dtype)))


class DedispersionTemplate(Template):
    """Sums over channels for `trials` dispersion measures, each of which delays every channel by its own time.

    A delay grows with the trial and is longest in the lowest channel: `max_delay` samples in the last trial.
    """

    def __init__(self, trials: int, samples: int, channels: int, max_delay: int, dtype: str = "int8") -> None:
        sizes = {"d": trials, "t": samples, "h": channels}
        types = {"O": "float32", "I": dtypes.canonical(dtype), "S": "float32"}
        options = {"max_delay": counted("max_delay", max_delay), "flops_per_element": 1}
        super().__init__(Problem("dedispersion", "O[d,t] += I[h,t+d] * S[h]", sizes, types, "float32", options))


class OpTemplate(Template):
    """Any operator, as one line of index notation, with the size of each axis.

    A statement that says what a matmul or a matrix-vector product says, under any names, is that operator; any other
    that contracts two operands is ranked as the matmul it maps onto, a one-operand reduction as a reduction, anything
    without reduced axes as element-wise.
    """

    def __init__(
        self,
        computes: str,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
        accum_dtype: str | None = None,
        **sizes: int,
    ) -> None:
        statement = notation.parse(computes)
        kind = dtypes.canonical(in_dtype)
        out, accumulate = output_type(kind, out_dtype), accumulator(kind, accum_dtype)
        _check_statement(statement)
        types = {t.name: kind for t in statement.inputs} | {statement.output.name: out}
        operator = "matmul" if statement.reduced else "elementwise"
        options = {} if statement.reduced else {"flops_per_element": max(len(statement.inputs) - 1, 1)}
        problem = Problem(operator, computes, sizes, types, accumulate, options)
        if statement.reduced and len({t.index for t in statement.inputs}) == 1:
            problem = _own_reduction(problem, kind, out)
        super().__init__(_declared(problem))


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


@cache
def _forms() -> tuple[Problem, ...]:
    """The contractions that have kernels of their own, in each layout of their operands."""
    matmuls = (MatmulTemplate(1, 1, 1, trans_A=a, trans_B=b) for a in (False, True) for b in (False, True))
    gemvs = (GEMVTemplate(1, 1, trans_A=a) for a in (False, True))
    return tuple(template.problem for template in (*matmuls, *gemvs))


def _declared(problem: Problem) -> Problem:
    """A contraction or an element-wise operator under the names by which kernels know it, where it is one of theirs."""
    if problem.operator == "elementwise":
        out, *inputs = problem.statement.tensors
        full = [t for t in inputs if t.index == out.index]
        short = [t for t in inputs if t.index == out.index[-1:] != out.index]
        if not full or len(full) + len(short) < len(inputs):
            return problem
        kind, shape = problem.dtypes[inputs[0].name], out.shape(problem.sizes)
        flops, kept = problem.options["flops_per_element"], problem.dtypes[out.name]
        form = ElementwiseTemplate(shape, kind, len(full), flops, len(short), kept).problem
        # what has all axes comes first among factors, and among summands; a kernel takes the tensors in this order
        products = [tuple(sorted(product, key=short.__contains__)) for product in problem.statement.summands]
        ordered = replace(problem.statement, summands=tuple(sorted(products, key=lambda product: product[0] in short)))
        ours = {t: f"X{i}[{'c' if t in short else 'r,c'}]" for i, t in enumerate(ordered.inputs)}
        return replace(form, computes=f"Y[r,c] = {ordered.spelt(ours.__getitem__)}", written=problem.computes)
    for form in _forms():
        if problem.operator == "matmul" and (names := notation.renaming(form.statement, problem.statement)):
            return replace(
                form, sizes={axis: problem.sizes[names[axis]] if axis in names else 1 for axis in form.sizes},
                dtypes={name: problem.dtypes[names[name]] for name in form.dtypes}, accumulate=problem.accumulate,
                align_bytes={}, written=problem.computes,
            )  # fmt: skip
    return problem


def _own_reduction(problem: Problem, kind: str, out: str) -> Problem:
    """A statement whose operands are walked alike as the reduction of a matrix that it is."""
    s = problem.statement
    index = s.inputs[0].index
    axes = [dim[0][0] for dim in index]
    kept = tuple(axis for axis in axes if axis in s.spatial)
    if s.combine == "min=" or any(len(dim) > 1 or dim[0][1] != 1 for dim in index) or kept != s.spatial:
        raise ProblemError(
            f"{s} is no reduction that carver has a kernel for: it takes '+=' and 'max=' over plain axes, those of "
            f"the output in the order of the input"
        )
    structure = "".join("S" if axis in s.spatial else "R" for axis in axes)
    flat = flat_reduction(structure, [problem.sizes[axis] for axis in axes], s.combine, kind, out, len(s.inputs))
    return replace(flat, written=problem.computes)


def flat_reduction(
    structure: str, shape: Sequence[int], combine: str, kind: str, out: str, operands: int = 1
) -> Problem:
    """A reduction of any shape, of the product of its operands, as one over the rows or the columns of a matrix."""
    runs = structure.replace("SR", "S R").replace("RS", "R S").split()
    if len(runs) > 2:
        raise ProblemError(
            f"structure {structure!r} alternates more than once; transpose so that the reduced axes stand together"
        )
    extents, start = [], 0
    for run in runs:
        extents.append(prod(size("shape", n) for n in shape[start : start + len(run)]))
        start += len(run)
    rows, cols = (1, extents[0]) if len(runs) == 1 else extents
    down = runs[-1][0] == "S"
    names = ["X", *(f"X{i}" for i in range(1, operands))]
    computes = f"Y[{'c' if down else 'r'}] {combine} {' * '.join(f'{name}[r,c]' for name in names)}"
    options = {"reduce_op": REDUCTIONS.index("max" if combine == "max=" else "sum"), "axis": 1 - down, "keeps_shape": 0}
    types = {"Y": out} | dict.fromkeys(names, kind)
    return Problem("reduction", computes, {"r": rows, "c": cols}, types, _wide(kind), options)


def _wide(dtype: str) -> str:
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
    wide = {"tf32": "float32", "int8": "int32", "float8_e4m3": "float16", "float8_e5m2": "float16"}
    return dtypes.canonical(asked or wide.get(dtype, dtype))


def flat_shape(shape: Sequence[int]) -> tuple[int, int]:
    """(rows, last dimension) of any shape."""
    if isinstance(shape, str) or not isinstance(shape, Sequence) or not len(shape):
        raise ProblemError(f"shape must be a sequence of sizes such as (4096, 4096), got {shape!r}")
    extents = [size(f"shape[{i}]", n) for i, n in enumerate(shape)]
    return prod(extents[:-1]), extents[-1]
