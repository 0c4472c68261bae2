"""What tiles that overlap touch together, as rectangles of memory as rows of a pitch; and more than are looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.types import FloatArray, Record
from .walks import Walks

SHARE = np.geomspace(1e-4, 1.0 - 1e-9, 400)
"""Shares of a set that another has."""


class Part(NamedTuple):
    """A rectangle, from the place of its tile on. [rows, elements]"""

    top: float
    left: float
    height: float
    width: float


class Rectangles(Record):
    """What walks touch, in memory as rows of `pitch` elements. One row if there is no pitch."""

    walk: Any
    """Whose each rectangle is."""
    top: FloatArray
    left: FloatArray
    height: FloatArray
    width: FloatArray
    sector: float
    """Elements that are fetched at once."""
    kept: float
    """Share that masks let through; 1 where rectangles end where their masks do. Of a sample as many as it stands for.
    """

    def touched(self, group: Any, sector: float = 0.0) -> FloatArray:
        """Elements of whole sectors, or of pieces of so many elements, that the walks of each group touch together;
        groups are whole numbers from 0 on. Rows are cut where a rectangle begins or ends. Within a strip of rows each
        is an interval, and a union of intervals is what they add in order, each beyond those before it."""
        strips, rows, which = _strips(self.top, self.height)
        sector = sector or self.sector
        low: Any = np.floor(self.left / sector)[which]
        high: Any = np.ceil((self.left + self.width) / sector)[which]
        mine = group[self.walk][which]
        reach = float(high.max() - low.min()) + 1.0
        apart = (mine * (int(strips.max()) + 1) + strips) * reach - float(low.min())
        order: Any = np.argsort(low + apart)
        low, high = (low + apart)[order], (high + apart)[order]
        before = np.concatenate([[-np.inf], np.maximum.accumulate(high)[:-1]])
        fresh = np.maximum(high - np.maximum(low, before), 0.0) * rows[order]
        count = int(group.max(initial=0)) + 1
        return np.asarray(np.bincount(mine[order], fresh * sector * self.kept, count), np.float64)


def _strips(top: FloatArray, height: FloatArray) -> tuple[Any, FloatArray, Any]:
    """Of each piece of a rectangle: the strip that it is in, the rows of that, and its rectangle."""
    edges = np.unique(np.concatenate([top, top + height]))
    first, last = np.searchsorted(edges, top), np.searchsorted(edges, top + height)
    n = last - first
    which = np.repeat(np.arange(len(top)), n)
    strips = np.arange(len(which)) - np.repeat(np.cumsum(n) - n - first, n)
    return strips, np.diff(edges)[strips], which


def folded(parts: Sequence[Part], pitch: float) -> list[Part]:
    """Where rectangles together are wider than their pitch, as taps of a stride make them, what is beyond lies in the
    next rows. Rows are cut behind their widest gap."""
    least, out = min(part.left for part in parts), list[Part]()
    if not pitch or max(part.left + part.width for part in parts) - least <= pitch:
        return list(parts)
    turns = sorted((part.left % pitch, part.width) for part in parts)
    reach = max(left + width for left, width in turns) - pitch
    widest, low = -math.inf, 0.0
    for left, width in turns:
        widest, low = max((widest, low), (left - reach, left))
        reach = max(reach, left + width)
    low += pitch * round((least - low) / pitch)
    for part in parts:
        begin = part.left - low
        for down in range(int(begin // pitch), math.ceil((begin + part.width) / pitch)):
            first, last = max(begin, down * pitch), min(begin + part.width, (down + 1) * pitch)
            out.append(part._replace(top=part.top + down, left=low + first - down * pitch, width=last - first))
    return out


def joined(parts: Sequence[Part]) -> Iterator[Part]:
    """The same elements as rectangles that do not overlap."""
    top, left, height, width = (np.array(column) for column in zip(*parts, strict=True))
    strips, _, which = _strips(top, height)
    edges = np.unique(np.concatenate([top, top + height]))
    open_: dict[tuple[float, float], Part] = {}
    for strip in range(len(edges) - 1):
        inside = which[strips == strip]
        found: dict[tuple[float, float], Part] = {}
        ends = -np.inf
        spans: list[list[float]] = []
        for n in inside[np.argsort(left[inside])]:
            if left[n] > ends:
                spans.append([left[n], left[n] + width[n]])
            spans[-1][1] = ends = max(spans[-1][1], left[n] + width[n])
        for low, high in spans:
            above = open_.pop((low, high), None)
            begins = above.top if above else float(edges[strip])
            found[low, high] = Part(begins, low, float(edges[strip + 1]) - begins, high - low)
        yield from open_.values()
        open_ = found
    yield from open_.values()


def of_more(apart: FloatArray, together: FloatArray, parts: float, times: Any) -> FloatArray:
    """Distinct bytes of `times` as many parts as were looked at. Those have `together`, or `apart` where each counts
    for itself. Parts that share nothing add up. Others are taken for sets of a size that are drawn at random: k of them
    that have a share y of N bytes each have N (1 - (1 - y)^k), which gives N of those that were looked at."""
    shares = -np.expm1(parts * np.log1p(-SHARE)) / (parts * SHARE)
    found = together / np.maximum(apart, 1e-9)
    share = np.interp(-found, -shares, SHARE)
    grown: FloatArray = apart / (parts * share) * -np.expm1(parts * times * np.log1p(-share))
    return np.where(found < shares[0], grown, together * times)


def changes(*columns: Any) -> Any:
    """Whether a row differs from the one before it."""
    found = np.ones(len(columns[0]), bool)
    found[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return found


def nth(group: Any) -> Any:
    """Of each member of groups, how many of its group come before it."""
    order = np.argsort(group, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    return place


def mean_kept(walks: Walks) -> float:
    """The share of a mean tile that is inside of its mask; where tiles lie at one place, of the one that holds most."""
    if walks.kept.min() == walks.kept.max():
        return float(walks.kept[0])
    walks = walks.take(np.lexsort((-walks.kept, walks.count, walks.stride, walks.start)))
    first = changes(walks.start, walks.stride, walks.count)
    return float(np.average(walks.kept[first], weights=walks.count[first]))
