"""Helion: seed configurations and a filter for its autotuner. Tried with Helion 1.5.1, which imports `packaging`
without asking for it.

Seeds do not narrow the space: they enter the first population after the default, so it must be larger than their
number. Helion only logs a seed that does not fit the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..base.errors import ConfigError, NoCandidates
from ..ops.templates import Template
from ..ranking.hint import Hint
from . import chosen, needs

if TYPE_CHECKING:
    import helion

_BLOCKS = ("BLOCK_M", "BLOCK_N", "BLOCK_K")


def seed_configs(hints: Iterable[Hint], tiles: str = "mnk") -> list[helion.Config]:
    """`helion.Config` of each hint, for `@helion.kernel(autotune_seed_configs=...)` or `configs=`.

    `tiles` is the order in which the kernel opens its tiles: "mnk" for `hl.tile([m, n])` then `hl.tile(k)`. Hints
    with split-K are left out: a plain Helion loop has none.
    """
    try:
        from helion import Config
    except ImportError:
        raise needs("Helion", "helion==1.5.1 packaging") from None
    order = _order(tiles)
    found = [h.config for h in chosen(hints, "Helion", ("triton",), "matmul") if h.config["SPLIT_K"] == 1]
    if not found:
        raise ConfigError("every hint splits K, which a Helion loop does not; ask for more hints")
    return [
        Config(block_sizes=[c[_BLOCKS[i]] for i in order], num_warps=c["num_warps"], num_stages=c["num_stages"],
               l2_groupings=[c["GROUP_M"]])
        for c in found
    ]  # fmt: skip


def from_config(config: helion.Config | Mapping[str, Any], tiles: str = "mnk") -> dict[str, int]:
    """A Helion matmul configuration in the keys that `rank(backend="triton")` takes; what it leaves open is as in
    Helion's default: 4 warps, 1 stage, no grouping.
    """
    given = dict(config) if isinstance(config, Mapping) else dict(config.config)
    sizes = given.get("block_sizes")
    if not sizes or len(sizes) != 3:
        raise ConfigError(f"a matmul has block_sizes of three tiles, got {sizes!r}")
    out = {_BLOCKS[i]: int(size) for i, size in zip(_order(tiles), sizes, strict=True)}
    out["num_warps"] = int(given.get("num_warps") or 4)
    out["num_stages"] = int(given.get("num_stages") or 1)
    out["GROUP_M"] = int((given.get("l2_groupings") or [1])[0])
    return out


def config_filter(
    template: Template, within: float = 1.5, tiles: str = "mnk"
) -> Callable[[helion.Config], helion.Config | None]:
    """An `autotune_config_filter`: drops each candidate that is predicted to take more than `within` times as long as
    the best hint, or not to run at all.
    """
    if not within >= 1:
        raise ConfigError(f"within is a factor of at least 1, got {within!r}")
    limit = within * float(template.recommend_hints(1, backend="triton").seconds[0])

    def keep(config: helion.Config) -> helion.Config | None:
        try:
            ranking = template.rank([from_config(config, tiles)], backend="triton")
        except NoCandidates:
            return None
        return config if ranking.seconds[0] <= limit else None

    return keep


def _order(tiles: str) -> list[int]:
    if sorted(tiles) != ["k", "m", "n"]:
        raise ConfigError(f"tiles is an order of the letters m, n and k, got {tiles!r}")
    return ["mnk".index(letter) for letter in tiles]
