"""Helion: seed configurations and a filter for its autotuner. Tried with 1.5.1, which needs `packaging` beside it.

Seeds enter the first population after the default, which must be larger. One that does not fit is only logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..base.errors import ConfigError, NoCandidates
from ..base.given import takes
from ..kernels.backends import BLOCKS, from_helion, order_of
from ..ops.operator import Template
from ..ranking.hint import Hint
from . import Exported, distinct, imported, splits

if TYPE_CHECKING:
    import helion

from_config = from_helion


@takes(ConfigError)
def seed_configs(hints: Iterable[Hint], tiles: str = "mnk") -> Exported[helion.Config]:
    """`helion.Config` of each hint, for `@helion.kernel(autotune_seed_configs=...)` or `configs=`.

    `tiles` is the order in which the kernel opens its tiles: "mnk" for `hl.tile([m, n])` then `hl.tile(k)`. Hints with
    split-K are left out, because a plain Helion loop has none, and the next ones take their place. `loop_orders` make
    it walk along rows where a hint groups none, else down the columns of a group.
    """
    helion = imported("helion", "Helion", "helion==1.5.1 packaging")
    order = order_of(tiles)
    opened = order.replace("k", "")

    def entry(hint: Hint) -> Any:
        c = hint.config
        first = opened.index("n" if c["GROUP_M"] == 1 else "m")
        return helion.Config(
            block_sizes=[c[BLOCKS[letter]] for letter in order], num_warps=c["num_warps"],
            num_stages=c["num_stages"], l2_groupings=[c["GROUP_M"]], loop_orders=[[first, 1 - first]],
        )  # fmt: skip

    found = distinct(hints, "Helion", ("triton",), entry, "matmul", splits("a Helion loop"))
    if not found:
        raise ConfigError("every hint splits K, which a Helion loop does not")
    return found


@takes(ConfigError)
def config_filter(
    template: Template, within: float = 1.5, tiles: str = "mnk"
) -> Callable[[helion.Config], helion.Config | None]:
    """An `autotune_config_filter`: drops what is predicted to take over `within` times the best hint, or not to run.
    What the model does not have, such as groups of columns, stays."""
    if not within >= 1:
        raise ConfigError(f"within is a factor of at least 1, got {within!r}")
    limit = within * float(template.recommend_hints(1, backend="triton").seconds[0])

    def keep(config: helion.Config) -> helion.Config | None:
        try:
            ours = from_config(config, tiles)
        except ConfigError:
            return config
        try:
            ranking = template.rank([ours], backend="triton")
        except NoCandidates:
            return None
        return config if ranking.seconds[0] <= limit else None

    return keep
