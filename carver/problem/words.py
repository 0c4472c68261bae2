"""What `templates/<operator>/op.toml` says of an operator: its notation, and words for the numbers of a problem.

    computes = "Y[r] += X[r,c]"
    title = "{reduce_op} along {axis}"      # the operator's name without one
    mask = ["q", "s"]                       # axes of which a mask leaves pairs out: `causal`, `visited`
    sized = ["tiles_16"]                    # options that change with the sizes
    packed = ["B"]                          # tensors whose elements may lie two to a byte
    [axes]                                  # what people call an axis
    r = "rows"
    [products]                              # what people call the product of axes, which takes the last one's place
    heads = ["h", "g"]
    [options]
    axis = ["columns", "rows"]              # a word for each value; "" says nothing
    max_delay = []                          # a count
    [passes]                                # arithmetic and bytes over those of the notation, by an option's value
    backward = [[1.0, 1.0], [2.0, 1.5]]
    [unsaid]                                # sizes and counts that go without saying: a number, or as another axis
    b = 1
    s = "q"                                 # or a product
    [example]                               # sizes and options of a problem as people have it
    r = 4096
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from ..base.errors import KernelError, nearest
from ..base.shipped import folder
from ..base.types import FrozenDict

_KEYS = ("computes", "title", "mask", "sized", "packed", "axes", "products", "options", "passes", "unsaid", "example")


@dataclass(frozen=True)
class Words:
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

    def sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Those that do not go without saying, by axis or product; all where a statement has other axes than these."""
        if not sizes.keys() <= self.axes.keys():
            return dict(sizes)
        replaced = {axes[-1]: word for word, axes in self.products.items()}
        products = {word: prod(sizes.get(axis, 1) for axis in axes) for word, axes in self.products.items()}
        said = {replaced.get(axis, axis): products.get(replaced.get(axis, ""), n) for axis, n in sizes.items()}
        known = {**sizes, **products}
        usual = {axis: known.get(n) if isinstance(n, str) else n for axis, n in self.unsaid.items()}
        return {axis: n for axis, n in said.items() if n != usual.get(axis)}

    def pass_of(self, options: Mapping[str, int]) -> tuple[float, float]:
        """Arithmetic and bytes of these options over those that the notation says."""
        return next((each[options[name]] for name, each in self.passes.items() if name in options), (1.0, 1.0))

    def spoken(self, options: Mapping[str, int]) -> dict[str, str]:
        """The word for the value of each option that has one."""
        given = {name: (words, options[name]) for name, words in self.options.items() if name in options}
        return {name: words[value] for name, (words, value) in given.items() if 0 <= value < len(words)}


@lru_cache(maxsize=1)
def declared() -> Mapping[str, Words]:
    """Of every shipped operator. Raises KernelError that names the file and what is wrong in it."""
    found = {}
    for path in sorted(folder("templates").glob("*/op.toml")):
        raw = tomllib.loads(path.read_text())
        if unknown := raw.keys() - set(_KEYS):
            raise KernelError(f"{path}: unknown key {min(unknown)!r}; {nearest(min(unknown), _KEYS)}")
        options = {name: tuple(words) for name, words in raw.get("options", {}).items()}
        found[path.parent.name] = Words(
            raw["computes"], raw.get("title", path.parent.name), tuple(raw.get("mask", ())),
            tuple(raw.get("sized", ())), tuple(raw.get("packed", ())), FrozenDict(raw.get("axes", {})),
            FrozenDict({word: tuple(axes) for word, axes in raw.get("products", {}).items()}), FrozenDict(options),
            FrozenDict({name: tuple(map(tuple, each)) for name, each in raw.get("passes", {}).items()}),
            FrozenDict(raw.get("unsaid", {})), FrozenDict(raw.get("example", {})),
        )  # fmt: skip
    return FrozenDict(found)


def of(operator: str) -> Words:
    """Those of an operator; none where templates/ has no folder for it."""
    return declared().get(operator, Words(title=operator))
