"""What `zoo.py` measures: a Triton kernel with its problems and tunables."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

from carver.compiled.binary import Tensor

Problem = Mapping[str, Any]
Config = Mapping[str, Any]
Arrays = dict[str, Any]

SMS = 132
"""Programs of a persistent kernel on the GPU that is measured."""
TILE = {"BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (32, 64, 128)}
PIPE = {"num_warps": (4, 8), "num_stages": (2, 3, 4)}


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Subject:
    """A kernel, its problems and tunables; `args` names every argument: tensors by type and shape, numbers by value."""

    name: str
    kernel: Any
    problems: tuple[Problem, ...]
    space: Mapping[str, tuple[int, ...]]
    args: Callable[[Problem, Config], dict[str, Any]]
    grid: Callable[[Problem, Config], tuple[int, ...]]
    outputs: tuple[str, ...]
    got: Callable[[Problem, Config, Arrays], Any]
    want: Callable[[Problem, Arrays], Any] | None = None
    """What is right, by PyTorch. Kernels whose times ship were held against it: now configurations have to agree."""
    constants: Callable[[Problem], dict[str, Any]] = lambda p: {}
    values: Callable[[Problem], dict[str, Any]] = lambda p: {}
    """What integer tensors hold."""
    keep: Callable[[Problem, Config], bool] = lambda p, c: True
    in_place: tuple[str, ...] = ()
    tolerance: float = 0.02
    """Of the largest magnitude of the result."""
    unseen: bool = False
    kind: str = ""
    """Kernels of a kind are summed up together."""

    def configs(self, problem: Problem, count: int) -> list[dict[str, int]]:
        every = [dict(zip(self.space, v, strict=True)) for v in itertools.product(*self.space.values())]
        kept = [c for c in every if self.keep(problem, c)]
        return random.Random(self.name).sample(kept, min(count, len(kept)))


def stages(c: Config, bytes_each: int, extra: int = 0) -> bool:
    """Whether the buffers of all stages fit 227 KiB."""
    return bytes_each * c["num_stages"] + extra <= 227 * 1024


def per_thread(c: Config, accumulators: int, most: int = 256) -> bool:
    return 2 <= accumulators / (32 * c["num_warps"]) <= most


def tiles(p: Problem, c: Config) -> int:
    return cdiv(p["M"], c["BLOCK_M"]) * cdiv(p["N"], c["BLOCK_N"])


def elements(c: Config, count: int, most: int = 64) -> bool:
    """From one to `most` elements a thread."""
    return 1 <= count / (32 * c["num_warps"]) <= most


def fits(c: Config, item_bytes: int, most: int = 256, extra: int = 0) -> bool:
    """Accumulators and the stages of both operands' blocks."""
    staged = (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * item_bytes
    return per_thread(c, c["BLOCK_M"] * c["BLOCK_N"], most) and stages(c, staged, extra)


def pow2_up(n: int) -> int:
    return 1 << (n - 1).bit_length()


# A kernel in text: expressions are Python's, of the numbers of a problem `p` and a configuration `c` by their names.

KNOWN = {
    "cdiv": cdiv, "prod": math.prod, "tiles": tiles, "stages": stages, "per_thread": per_thread, "elements": elements,
    "fits": fits, "pow2_up": pow2_up, "SMS": SMS,
}  # fmt: skip


@cache
def _compiled(text: str) -> CodeType:
    return compile(text.strip(), text, "eval")


def value(text: str, p: Problem, c: Config) -> Any:
    return eval(_compiled(text), {**KNOWN, **p, **c, "p": p, "c": c})


def shapes(names: str, *rows: tuple[Any, ...]) -> tuple[Problem, ...]:
    """Problems: their numbers by name."""
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


def space(text: str) -> dict[str, tuple[int, ...]]:
    """`NAME=1..8` are the powers of two, `NAME=1,3` those numbers."""
    found = {}
    for axis in text.split():
        name, _, said = axis.partition("=")
        first, _, last = said.partition("..")
        values = [int(v) for v in said.split(",")] if not last else [int(first)]
        while last and values[-1] < int(last):
            values.append(2 * values[-1])
        found[name] = tuple(values)
    return found


def arguments(text: str, p: Problem, c: Config, ending: str = "_ptr") -> dict[str, Any]:
    """`x y: float16[rows, cols]` are the tensors x_ptr and y_ptr (or of the type that the problem's number of that name
    is), `size = rows * cols` is a number, and `rows cols` are those of the problem."""
    found: dict[str, Any] = {}
    for part in text.split(";"):
        names, said, shape = re.fullmatch(r"([^:=]*)(?:: *(\w+)\[(.*)\]|=.*)? *", part).groups()  # type: ignore[union-attr]
        if said:
            made = Tensor(p.get(said, said), value(f"({shape},)", p, c))
            found |= {name + ending: made for name in names.split()}
        elif "=" in part:
            found[names.strip()] = value(part.partition("=")[2], p, c)
        else:
            found |= {name: value(name, p, c) for name in names.split()}
    return found


def fixed(text: str, p: Problem) -> dict[str, Any]:
    """Compile-time constants: `NAME = expression`, or names of a problem's numbers, which are in capitals then."""
    found: dict[str, Any] = {}
    for part in filter(None, text.split(";")):
        name, is_, said = part.partition("=")
        found |= {name.strip(): value(said, p, {})} if is_ else {n.upper(): p[n] for n in part.split()}
    return found


def subject(
    kind: str, kernel: Any, problems: tuple[Problem, ...], axes: str | Mapping[str, tuple[int, ...]],
    args: str | Callable[[Problem], dict[str, Any]], grid: str | Callable[[Problem, Config], tuple[int, ...]], *,
    constants: str = "", output: str = "y_ptr", keep: str | Callable[[Problem, Config], bool] | None = None,
    name: str = "", most: int = 32, got: Callable[[Problem, Config, Arrays], Any] | None = None, **more: Any,
) -> Subject:  # fmt: skip
    """`output`: names of the tensors that it writes; `most`: elements a thread of the blocks, where `keep` is not
    given."""
    axes = space(axes) if isinstance(axes, str) else axes
    keep = keep or f"elements(c, prod(c[n] for n in c if n.startswith('BLOCK')), {most})"
    outputs = tuple(output.split())
    return Subject(
        name or kernel.fn.__name__, kernel, problems, axes,
        (lambda p, c: arguments(args, p, c)) if isinstance(args, str) else lambda p, c: args(p),
        (lambda p, c: value(f"({grid},)", p, c)) if isinstance(grid, str) else grid,
        outputs, got or (lambda p, c, t: tuple(t[n] for n in outputs)), constants=lambda p: fixed(constants, p),
        keep=(lambda p, c: value(keep, p, c)) if isinstance(keep, str) else keep, kind=kind, **more,
    )  # fmt: skip
