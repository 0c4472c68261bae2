"""Walks of programs over tiles of a tensor, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..base.types import FloatArray, Record


class Walks(Record, eq=False):
    """Each of one program, over `count` tiles from `start` on, `stride` apart. Units: elements in a `trace.Access`,
    bytes in an `execution.tiles.Lying`."""

    start: FloatArray
    """NaN where not known."""
    stride: FloatArray
    count: FloatArray
    kept: FloatArray
    """Share of the tile that its mask lets through."""
    program: FloatArray
    round: FloatArray
    """Iteration of the outermost loop, where it is in an inner one."""
    times: FloatArray
    """How often the walk happens."""

    @classmethod
    def joined(cls, parts: Sequence[Walks]) -> Walks:
        """Those of all parts, one after another."""
        return Walks(*(np.concatenate([getattr(part, name) for part in parts]) for name in Walks._fields))

    def take(self, which: Any) -> Self:
        return replace(self, **{name: getattr(self, name)[which] for name in Walks._fields})

    @property
    def tiles(self) -> FloatArray:
        """Of each walk, as often as it happens."""
        return self.count * self.times

    @property
    def asked(self) -> float:
        """Tiles of all, as far as masks let them through."""
        return float((self.tiles * self.kept).sum())

    @property
    def pace(self) -> float | None:
        """From one tile to the next, in the mean of walks over several; None where there is none."""
        moving = self.stride[self.count > 1]
        return float(np.abs(moving).mean()) if len(moving) else None

    @property
    def last(self) -> FloatArray:
        """Where the last tile begins."""
        return self.start + self.stride * (self.count - 1)


def by_group(group: Any, which: Any, *columns: Any) -> tuple[Any, list[Any]]:
    """The group of each of some walks, and columns of these, group by group; their order is kept in each."""
    own = group[which]
    order = np.argsort(own, kind="stable")
    return own[order], [column[order] for column in columns]
