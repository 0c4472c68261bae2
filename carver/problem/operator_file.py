"""Contents of `templates/<operator>/op.toml`: an operator's notation, and words for the sizes and options of problems.

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
    r = 4096
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from math import prod

from ..base.errors import KernelError, nearest
from ..base.given import typed
from ..base.host import folder
from ..base.types import FrozenDict


@dataclass(frozen=True)
class OperatorFile:
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
        given = {name: (words, options[name]) for name, words in self.options.items() if name in options}
        return {name: words[value] for name, (words, value) in given.items() if 0 <= value < len(words)}


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
