"""Operators on the command line: `matmul M N K`, `gemv N K`, `op "C[m,n] += ..." m=..`; each makes a `Template`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ..arch import devices as archs
from ..arch.descriptor import Arch
from ..base.dtypes import BYTES
from ..base.errors import ProblemError
from ..ops.attention import FlashAttentionTemplate
from ..ops.templates import ElementwiseTemplate, GEMVTemplate, MatmulTemplate, OpTemplate, ReductionTemplate, Template
from ..problem.problem import ACTIVATIONS, REDUCTIONS


@dataclass(frozen=True)
class Face:
    """A sub-command: what it takes, and the template that this makes."""

    help: str
    params: tuple[click.Parameter, ...]
    make: Callable[..., Template]


def device(name: str) -> Arch:
    """A descriptor by any of its names; "auto" is the GPU in this machine, "cpu" its processor."""
    return archs.CUDA() if name.strip().lower() == "auto" else archs.load(name)


def per_operator(command: Callable[..., None]) -> click.Group:
    """A group with one sub-command an operator. `command` is called with the template and with its own options.

    Its options are those that `click.option` put on it; every sub-command has `--arch` besides.
    """
    own = tuple(reversed(getattr(command, "__click_params__", [])))
    group = click.Group(command.__name__.replace("_", "-"), help=command.__doc__)
    for name, face in FACES.items():
        taken = {p.name for p in face.params}
        group.add_command(
            _Operator(
                name,
                callback=functools.partial(_call, command, face, taken),
                params=[*face.params, _ARCH, *own],
                help=f"{face.help}\n\n{command.__doc__}",
                short_help=face.help,
            )
        )
    return group


class _Operator(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            word = next((w for w in given if w.startswith(error.option_name)), "")
            if word.removeprefix("-")[:1].isdigit():
                raise click.UsageError(f"{word}: a size is a whole number of at least 1", ctx) from None
            raise


def _call(command: Callable[..., None], face: Face, taken: set[str], /, arch: str, **given: Any) -> None:
    template = face.make(**{name: value for name, value in given.items() if name in taken})
    rest = {name: value for name, value in given.items() if name not in taken}
    command(template.with_arch(device(arch)), **rest)


def _option(*names: str, **settings: Any) -> click.Option:
    return click.Option(names, **settings)


def _sizes(*names: str) -> tuple[click.Argument, ...]:
    return tuple(click.Argument([name], type=int, metavar=name.upper()) for name in names)


_ARCH = _option("--arch", required=True, metavar="NAME", help="device, see `carver archs`; or auto, cpu, a TOML file")
_DTYPE = _option("--dtype", default="float16", show_default=True, metavar="TYPE", help=f"inputs: {', '.join(BYTES)}")
_OUT = _option("--out-dtype", metavar="TYPE", help="output; as the inputs where they are wide enough")
_ACCUM = _option("--accum-dtype", metavar="TYPE", help="sums; float32, int32 or float64 by the inputs")
_BATCH = _option("--batch", type=int, default=1, show_default=True)
_BIAS = _option("--bias", is_flag=True, help="add a bias")


def _matmul(dtype: str, bias: bool, trans_a: bool, trans_b: bool, m: int, n: int, k: int, **rest: Any) -> Template:
    return MatmulTemplate(m, n, k, in_dtype=dtype, with_bias=bias, trans_A=trans_a, trans_B=trans_b, **rest)


def _gemv(dtype: str, bias: bool, trans_a: bool, n: int, k: int, **rest: Any) -> Template:
    return GEMVTemplate(n, k, in_dtype=dtype, with_bias=bias, trans_A=trans_a, **rest)


def _reduction(op: str, rows: int, cols: int, axis: int, dtype: str, out_dtype: str | None) -> Template:
    return ReductionTemplate(op, (rows, cols), axis, in_dtype=dtype, out_dtype=out_dtype)


def _attention(batch: int, heads: int, seq: int, head_dim: int, dtype: str, **rest: Any) -> Template:
    return FlashAttentionTemplate(batch, heads, seq=seq, head_dim=head_dim, in_dtype=dtype, **rest)


def _op(computes: str, sizes: Sequence[str], dtype: str, **rest: Any) -> Template:
    extents: dict[str, Any] = {}
    for word in sizes:
        axis, equals, value = word.partition("=")
        if not equals or not value.strip().isdigit():
            raise ProblemError(f"{word!r} is not the size of an axis; write for example m=4096")
        if extents.setdefault(axis.strip(), int(value)) != int(value):
            raise ProblemError(f"axis {axis.strip()!r} has two sizes, {extents[axis.strip()]} and {value}")
    return OpTemplate(computes, in_dtype=dtype, **rest, **extents)


FACES = {
    "matmul": Face(
        "C = A B: M x K times K x N.",
        (
            *_sizes("m", "n", "k"), _BATCH, _DTYPE,
            _option("--b-dtype", metavar="TYPE", help="B where it differs from A"), _OUT, _ACCUM,
            _option("--trans-a", is_flag=True, help="A is stored K x M"),
            _option("--trans-b", is_flag=True, help="B is stored N x K"),
            _BIAS, _option("--activation", type=click.Choice(list(ACTIVATIONS)), default="none", show_default=True),
            *(_option(f"--ld{x}", type=int, help=f"leading dimension of {x.upper()}, elements") for x in "abc"),
            _option("--static-shapes", is_flag=True, help="sizes are constants of the kernel, as Inductor's are"),
        ),
        _matmul,
    ),
    "gemv": Face(
        "y = A x: N x K times K.",
        (
            *_sizes("n", "k"), _BATCH, _DTYPE, _OUT, _ACCUM,
            _option("--trans-a", is_flag=True, help="A is stored K x N"), _BIAS,
        ),
        _gemv,
    ),
    "elementwise": Face(
        "Y = f(X0, X1, ...), element by element.",
        (
            click.Argument(["shape"], type=int, nargs=-1, required=True, metavar="SIZE..."), _DTYPE, _OUT,
            _option("--inputs", type=int, default=1, show_default=True, help="full-size inputs"),
            _option("--broadcast", type=int, default=0, show_default=True, help="inputs along the last axis only"),
            _option("--flops-per-element", type=int, default=1, show_default=True),
        ),
        ElementwiseTemplate,
    ),
    "reduction": Face(
        f"{', '.join(REDUCTIONS)} of a matrix.",
        (
            click.Argument(["op"], type=click.Choice(REDUCTIONS), metavar="OP"), *_sizes("rows", "cols"), _DTYPE, _OUT,
            _option("--axis", type=click.Choice([0, 1]), default=1, show_default=True,
                    help="1 along each row, 0 down each column"),
        ),
        _reduction,
    ),
    "attention": Face(
        "softmax(Q K^T) V for BATCH sequences of SEQ queries, HEADS heads of HEAD_DIM.",
        (
            *_sizes("batch", "heads", "seq", "head_dim"), _DTYPE, _OUT,
            _option("--kv-heads", type=int, help="heads of keys and values; as many as HEADS"),
            _option("--seq-kv", type=int, help="keys; as many as queries"),
            _option("--causal", is_flag=True, help="a query sees the keys up to its own"),
        ),
        _attention,
    ),
    "op": Face(
        "Any operator in index notation: 'C[m,n] += A[m,k] * B[k,n]' m=64 n=64 k=64.",
        (
            click.Argument(["computes"], metavar="NOTATION"),
            click.Argument(["sizes"], nargs=-1, metavar="AXIS=SIZE..."), _DTYPE, _OUT, _ACCUM,
        ),
        _op,
    ),
}  # fmt: skip
