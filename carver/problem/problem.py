"""A problem: a statement of index notation bound to sizes, element types and options; and the contents of
`templates/<operator>/op.toml`, which names these.

computes = "Y[r] += X[r,c]"
title = "{reduce_op} along {axis}"      # default: the operator's name
mask = ["q", "s"]                       # axes of which a mask (`causal`, `visited`) excludes pairs
sized = ["tiles_16"]                    # options that change with the sizes
packed = ["B"]                          # tensors that may hold two elements per byte
[axes]                                  # the name of each axis
r = "rows"
[products]                              # a name for a product of axes, shown in place of the last one
heads = ["h", "g"]
[options]
axis = ["columns", "rows"]              # a word for each value; "" is not shown
max_delay = []                          # a count
[passes]                                # by an option's value, factors on the notation's arithmetic and bytes
backward = [[1.0, 1.0], [2.0, 1.5]]
[unsaid]                                # sizes and counts that are not shown: a number, or an axis or
b = 1                                   # product of equal size
s = "q"
[example]                               # sizes and options of a realistic problem
r = 4096"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field, fields
from functools import cache, cached_property, lru_cache
from math import ceil, gcd, prod
from typing import Any

from ..base import dtypes
from ..base.errors import KernelError, ProblemError, nearest
from ..base.folders import folder
from ..base.given import as_json, check_fields, index, shown, typed
from ..base.types import FrozenDict, Record
from . import notation
from .notation import Statement, Tensor


class OperatorFile(Record):
    """What a file of `templates/` says of an operator, with the keys that this module describes."""

    computes: str = ""
    title: str = ""
    mask: tuple[str, ...] = ()
    sized: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()
    axes: Mapping[str, str] = field(default_factory=FrozenDict)
    products: Mapping[str, tuple[str, ...]] = field(default_factory=FrozenDict)
    options: Mapping[str, tuple[str, ...]] = field(default_factory=FrozenDict)
    passes: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=FrozenDict)
    unsaid: Mapping[str, int | str] = field(default_factory=FrozenDict)
    example: Mapping[str, int] = field(default_factory=FrozenDict)

    def shown_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes to show, by axis or product: without those in [unsaid]. All, if the statement has other axes."""
        if not sizes.keys() <= self.axes.keys():
            return dict(sizes)
        replaced = {axes[-1]: word for word, axes in self.products.items()}
        products = {word: prod(sizes.get(axis, 1) for axis in axes) for word, axes in self.products.items()}
        said = {replaced.get(axis, axis): products.get(replaced.get(axis, ""), n) for axis, n in sizes.items()}
        known = {**sizes, **products}
        usual = {axis: known.get(n) if isinstance(n, str) else n for axis, n in self.unsaid.items()}
        return {axis: n for axis, n in said.items() if n != usual.get(axis)}

    def pass_factors(self, options: Mapping[str, int]) -> tuple[float, float]:
        """Factors of these options on the arithmetic and the bytes of the notation."""
        return next((each[options[name]] for name, each in self.passes.items() if name in options), (1.0, 1.0))

    def option_words(self, options: Mapping[str, int]) -> dict[str, str]:
        """For each option that has one, the word for its value."""
        return {name: words[options[name]] for name, words in self.options.items()
                if 0 <= options.get(name, -1) < len(words)}  # fmt: skip


@cache
def of(operator: str) -> OperatorFile:
    """That of an operator; an empty one if templates/ has no folder for it. Raises a KernelError that names the file
    and the error."""
    path = folder("templates").joinpath(operator, "op.toml")
    if not operator.isidentifier() or not path.is_file():
        return OperatorFile(title=operator)
    raw, known = tomllib.loads(path.read_text(encoding="utf-8")), {f.name for f in fields(OperatorFile)}
    if unknown := raw.keys() - known:
        raise KernelError(f"{path}: unknown key {min(unknown)!r}; {nearest(min(unknown), known)}")
    found: OperatorFile = typed(OperatorFile, {"title": operator, **raw})
    return found


@cache
def operator_files() -> Mapping[str, OperatorFile]:
    """Those of every shipped operator, by its name."""
    names = sorted(path.parent.name for path in folder("templates").glob("*/op.toml"))
    return FrozenDict({name: of(name) for name in names})


MAX_SIZE = 2**48
"""Largest extent of one axis."""
MAX_COUNT = 2**62
"""Limit on the points of an iteration space and on the bits of a tensor, so that columns of counts fit int64."""

MAX_ALIGN_BYTES = 128
"""A cache line: no copy is wider, so larger alignments do not matter."""

_NO_OPTIONS: Mapping[str, int] = FrozenDict()


class Problem(Record):
    """A complete description of a computation. Index order is storage order: the last index is contiguous.

    - `operator`: the folder in templates/ whose kernels can run it.
    - `computes`: the statement in index notation, and `sizes`, the extent of each of its axes.
    - `dtypes`: the element type of each tensor.
    - `options`: the operator's integer flags (trans_a, bias, activation, ...).
    - `align_bytes`: the known alignment of each tensor's rows.
    - `written`: the statement with the user's own names, if `computes` has other ones. It is only shown, neither
      compared nor saved.
    """

    operator: str
    computes: str
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]
    accumulate: str = "float32"
    options: Mapping[str, int] = field(default_factory=lambda: _NO_OPTIONS)
    align_bytes: Mapping[str, int] = field(default_factory=lambda: _NO_OPTIONS)
    written: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        s = self.statement
        called = self.operator_file.axes if self.sizes.keys() <= self.operator_file.axes.keys() else {}
        sizes = {axis: size(called.get(axis, axis), value) for axis, value in self.sizes.items()}
        if sizes.keys() != set(s.axes):
            raise ProblemError(f"{s} has axes {', '.join(s.axes)}; got sizes for {', '.join(sizes) or 'none'}")
        names = {t.name for t in s.tensors}
        if self.dtypes.keys() != names:
            raise ProblemError(f"{s} has tensors {', '.join(sorted(names))}; got dtypes for {', '.join(self.dtypes)}")
        if odd := self.align_bytes.keys() - names:
            raise ProblemError(f"align_bytes has no tensor {min(odd)!r}; {nearest(min(odd), names)}")
        if clash := self.options.keys() & (sizes.keys() | names):
            raise ProblemError(f"option {min(clash)!r} has the name of an axis or a tensor of {s}")
        freeze = object.__setattr__
        freeze(self, "sizes", FrozenDict(sizes))
        packed = self.operator_file.packed
        freeze(self, "dtypes", FrozenDict({t: dtypes.canonical(d, t in packed) for t, d in self.dtypes.items()}))
        freeze(self, "accumulate", dtypes.canonical(self.accumulate))
        freeze(self, "options", FrozenDict({k: int(v) for k, v in self.options.items()}))
        freeze(self, "align_bytes", FrozenDict({t.name: self._alignment(t) for t in s.tensors}))
        bits = 8 * max(n * self.itemsize(tensor) for tensor, n in self.elements.items())
        if max(prod(sizes.values()), bits) > MAX_COUNT:
            raise ProblemError(f"{self} is too large to count: at most 2^62 products, and 2^62 bits a tensor")

    def _alignment(self, tensor: Tensor) -> int:
        """Alignment of a tensor's rows, as given or else that of dense rows; at most MAX_ALIGN_BYTES. [bytes]"""
        itemsize = self.itemsize(tensor.name)
        said = self.align_bytes.get(tensor.name)
        if said is None:
            shape = self.stored(tensor).shape(self.sizes)
            row = shape[-1] * itemsize if shape and prod(shape[:-1]) > 1 else MAX_ALIGN_BYTES
            return gcd(MAX_ALIGN_BYTES, max(1, int(row)))
        if isinstance(said, bool) or said < 1 or said & (said - 1):
            raise ProblemError(f"alignment of {tensor.name} must be a power of two in bytes, got {said!r}")
        return min(MAX_ALIGN_BYTES, int(said))

    @cached_property
    def statement(self) -> Statement:
        return notation.parse(self.computes)

    @cached_property
    def sizeless(self) -> Problem:
        """The problem with every axis of length 1, but its own alignments: the cache key for what all shapes share."""
        options, sized = self.options, self.operator_file.sized
        if sized:
            options = {name: n for name, n in options.items() if name not in sized}
        return _sizeless(
            self.operator, self.computes, (*self.sizes,), (*self.dtypes,), (*self.dtypes.values(),), self.accumulate,
            (*options,), (*options.values(),), (*self.align_bytes.values(),),
        )  # fmt: skip

    @property
    def names(self) -> Mapping[str, str]:
        """The user's names of the tensors and axes in `computes`; empty if they are the same."""
        return notation.renaming(self.statement, notation.parse(self.written)) or {} if self.written else {}

    @property
    def contracts(self) -> bool:
        """Whether it is a contraction: a reduction over operands that have different indices."""
        return self.statement.contracts

    def stored(self, tensor: Tensor) -> Tensor:
        """The tensor with the index by which it is stored. The notation of a normalisation only says what it sums; its
        output has the shape of its input (`keeps_shape`).
        """
        keeps = tensor == self.statement.output and self.options.get("keeps_shape")
        return self.statement.inputs[0] if keeps else tensor

    def itemsize(self, tensor: str) -> float:
        return dtypes.element_bytes(self.dtypes[tensor])

    @cached_property
    def widths(self) -> Mapping[str, float]:
        """Storage of one element of each tensor. [bytes]"""
        return {name: dtypes.element_bytes(dtype) for name, dtype in self.dtypes.items()}

    @property
    def scale_bytes(self) -> Mapping[str, float]:
        """Of each operand in blocks with scales, bytes of these for each element.

        A scale is a byte in MX and NV formats (32 or 16 of K), a float32 in other blocks; of groups of weights it is of
        A's type, and unsigned weights have a zero point of their own type besides.
        """
        deep, wide = self.options.get("scale_k", 0), self.options.get("scale_n", 0)
        if not deep:
            return {}
        a, b = (tensor.name for tensor in self.statement.inputs[:2])
        if self.widths[b] < self.widths[a] or self.widths[a] > 1:
            zero = self.widths[b] if self.dtypes[b].startswith("uint") else 0.0
            return {b: (self.widths[a] + zero) / (max(wide, 1) * deep)}
        each = 1.0 if wide == 1 and deep <= 32 else 4.0
        return {a: each / deep, b: each / (max(wide, 1) * deep)}

    @cached_property
    def elements(self) -> Mapping[str, int]:
        """Number of distinct elements of each tensor."""
        return {t.name: int(self.stored(t).footprint(self.sizes)) for t in self.statement.tensors}

    @property
    def flops(self) -> int:
        """Arithmetic of the statement. A multiply-add counts 2; element-wise operators have the option
        `flops_per_element`. [FLOP]"""
        points = prod(self.sizes.values())
        if "flops_per_element" in self.options:
            return points * self.options["flops_per_element"]
        if len(self.statement.inputs) > 2:
            return round(self._chained_flops() * self.operator_file.pass_factors(self.options)[0])
        return points * (2 if len(self.statement.inputs) > 1 else 1)

    def _chained_flops(self) -> int:
        """Arithmetic of three or more operands contracted from left to right; each axis is summed as soon as no later
        operand needs it. [FLOP]"""
        out, inputs = self.statement.output, self.statement.inputs
        total, held = 0, set(inputs[0].axes)
        for i, tensor in enumerate(inputs[1:], 2):
            together = held | set(tensor.axes)
            total += 2 * prod(self.sizes[axis] for axis in together)
            held = together & {axis for t in (out, *inputs[i:]) for axis in t.axes}
        pairs = prod(self.sizes[axis] for axis in self.operator_file.mask)
        return total * self.attended_pairs // pairs if self.masked else total

    @cached_property
    def operator_file(self) -> OperatorFile:
        """What `templates/<operator>/op.toml` says of the operator."""
        return of(self.operator)

    @property
    def masked(self) -> bool:
        """Whether a mask excludes some pairs of the operator's masked axes, such as (query, key) of attention."""
        return bool(self.options.get("causal")) or "visited" in self.options

    @property
    def attended_pairs(self) -> int:
        """Number of pairs (query, key) of one head that the mask leaves.

        With a causal mask, the last query sees every key and each query before it one fewer, but only the last `window`
        of them. With a block-sparse mask, every query sees `visited` keys.
        """
        queries, keys = (self.sizes[axis] for axis in self.operator_file.mask)
        if "visited" in self.options:
            return queries * min(self.options["visited"], keys)
        if not self.options.get("causal"):
            return queries * keys
        rows = min(queries, keys)
        least, most = keys - rows + 1, min(self.options.get("window", keys), keys)
        short = max(0, most - least + 1)  # queries that see at most `most` keys without the window
        return short * (least + most) // 2 + (rows - short) * most

    @property
    def seen_keys(self) -> int | None:
        """Number of keys that some query sees, if a mask limits it; None if all keys are seen."""
        if "visited" in self.options:
            return min(self.options["visited"], self.sizes[self.operator_file.mask[1]])
        if "window" in self.options:
            queries, keys = (self.sizes[axis] for axis in self.operator_file.mask)
            return min(keys, queries + self.options["window"] - 1)
        return None

    @property
    def compulsory_bytes(self) -> int:
        """Bytes to read each input once and write the output once. Of masked keys only those that are seen count."""
        elements, seen_keys = self.elements, self.seen_keys
        if seen_keys is not None:
            keys = self.operator_file.mask[1]
            seen = seen_keys / self.sizes[keys]
            those = {t.name for t in self.statement.tensors if keys in t.axes}
            elements = {name: ceil(n * seen) if name in those else n for name, n in elements.items()}
        widths, scales = self.sizeless.widths, self.scale_bytes
        once = sum([ceil(n * (widths[name] + scales.get(name, 0.0))) for name, n in elements.items()])
        return round(once * self.operator_file.pass_factors(self.options)[1]) if self.operator_file.passes else once

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The problem's identity as a hashable tuple."""
        return (
            self.operator, self.computes, tuple(self.sizes.items()), tuple(self.dtypes.items()), self.accumulate,
            tuple(self.options.items()), tuple(self.align_bytes.items()),
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash(self.key)

    def to_dict(self) -> dict[str, Any]:
        return {f.name: as_json(getattr(self, f.name)) for f in fields(self) if f.name != "written"}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Problem:
        """The problem that `to_dict` wrote. Raises ProblemError if keys are missing, unknown or of the wrong type."""
        check_fields(cls, d, "problem", ProblemError)
        return cls(**d)

    def __str__(self) -> str:
        """Title, extents, types and options: "matmul M=64 N=64 K=64 (float16, trans_B)"."""
        file, spoken = self.operator_file, self.operator_file.option_words(self.options)
        usual = self.sizes.keys() <= file.axes.keys()
        called = {**file.axes, **self.names} if usual else self.names
        shown = {called.get(axis, axis): n for axis, n in file.shown_sizes(self.sizes).items()}
        shown |= {k: n for k, n in self.options.items() if file.options.get(k) == () and n != file.unsaid.get(k, 0)}
        types = (self.dtypes[t.name] for t in (*self.statement.inputs, self.statement.output))
        said = ["sums in float16"] if self.accumulate == "float16" else []
        said += [word for name, word in spoken.items() if word and f"{{{name}}}" not in file.title]
        title = file.title.format_map({name: name for name in file.options} | spoken)
        if self.contracts and not usual:
            sums = any(len(index) > 1 for tensor in self.statement.inputs for index in tensor.index)
            title = "convolution" if sums else "contraction"
        return f"{title} {' '.join(f'{k}={n}' for k, n in shown.items())} ({', '.join((*dict.fromkeys(types), *said))})"


@lru_cache(maxsize=1024)
def _sizeless(
    operator: str, computes: str, axes: tuple[str, ...], tensors: tuple[str, ...], types: tuple[str, ...],
    accumulate: str, options: tuple[str, ...], values: tuple[int, ...], align_bytes: tuple[int, ...],
) -> Problem:  # fmt: skip
    aligned = zip([tensor.name for tensor in notation.parse(computes).tensors], align_bytes, strict=True)
    return Problem(
        operator, computes, dict.fromkeys(axes, 1), dict(zip(tensors, types, strict=True)), accumulate,
        dict(zip(options, values, strict=True)), dict(aligned),
    )  # fmt: skip


def size(name: str, value: object) -> int:
    """Check the extent of an axis: a positive whole number. NumPy integers are accepted, floats and booleans not."""
    number = index(value)
    if number is None or not 1 <= number <= MAX_SIZE:
        raise ProblemError(f"size {name} must be a whole number from 1 to 2^48, got {shown(value)}")
    return number


def counted(name: str, value: object, least: int = 0) -> int:
    """Check a count that is no axis extent: a whole number from `least` to MAX_COUNT."""
    number = index(value)
    if number is None or not least <= number <= MAX_COUNT:
        most = " and at most 2^62" if number is not None and number > MAX_COUNT else ""
        raise ProblemError(f"{name} must be a whole number of at least {least}{most}, got {shown(value)}")
    return number
