"""Portfolios: the few configurations that together lose least over a range of sizes, and which to use when."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, ProblemError, nearest
from ..base.given import is_number, shown, takes
from ..base.table import Column, drawn, in_all, said_left_out, screen_width, several, tunables, wrapped
from ..base.types import FloatArray, FrozenDict, IntArray, Record
from ..cost.model import price
from ..kernels.space import given_space
from ..problem.problem import Problem, counted
from ..problem.problem import size as checked_size
from .declared import declared_in
from .hint import Hint
from .ranking import Ranking
from .recommend import offered_kernels, rank, recommend_problems

SAMPLES = 128
"""Number of sizes on which a portfolio is chosen. Its loss is computed on them and on as many sizes in between."""
FROM_EACH = 16
"""Number of candidates from each sampled size: its fastest."""
STARTS = 64
"""Number of candidates from which the search starts, besides the best one of each sampled size."""
NEVER = 1e6
"""Loss of a configuration that cannot run: large enough to exclude it, whatever the mean over other sizes."""
WORTH_A_CHANGE = 0.001
"""Mean loss that each further bucket of a table must save."""


Candidate: TypeAlias = tuple[str, Mapping[str, int]]
"""A kernel's name and a configuration of it."""


class Bucket(Record):
    """Sizes up to `upto`, and above the bucket before, use configuration number `config` of the portfolio."""

    upto: int
    config: int


class Portfolio(Record, eq=False):
    """Configurations, and a table from sizes of one axis to them.

    `loss` is the weighted geometric mean of predicted time, dispatched by the table, over that of the best
    configuration for that very size, less 1; of a range, half the sizes it is taken over had no part in the choice.
    `worst` is the largest.
    """

    problem: Problem
    arch: Arch
    backend: str
    axis: str
    configs: tuple[Candidate, ...]
    table: tuple[Bucket, ...]
    loss: float
    worst: float
    single_loss: float
    """Loss of the best single configuration."""
    least: int = 1
    """Smallest size that was looked at; smaller ones get its configuration."""

    def __len__(self) -> int:
        return len(self.configs)

    def __getitem__(self, size: int) -> Mapping[str, int]:
        """The configuration for a size. Raises ProblemError for what is no size."""
        return self.configs[self.place(checked_size(self.axis, size))][1]

    def place(self, size: int) -> int:
        """Index of the configuration for a size. The last bucket also takes all larger sizes."""
        return next((b.config for b in self.table if size <= b.upto), self.table[-1].config)

    def hints(self) -> Ranking:
        """The configurations as a ranking for the largest size, which every exporter accepts."""
        return self._ranked(self.configs, max(b.upto for b in self.table))

    def hint(self, size: int) -> Hint:
        """The hint of the configuration for a size, with the time predicted for that size."""
        return self._ranked([self.configs[self.place(checked_size(self.axis, size))]], size)[0]

    def _ranked(self, some: Sequence[Candidate], size: int) -> Ranking:
        configs = [{"kernel": name, **config} for name, config in some]
        return rank(at(self.problem, self.axis, size), self.arch, configs, self.backend)

    @takes(ConfigError)
    def measured(self, timings: Iterable[Any]) -> dict[int, float]:
        """Measured loss by size: the time of the table's pick over the best measured time, minus 1.

        `timings` are (size, configuration, seconds), or records (`carver.run.records.Measurement`); only those of this
        problem at some size, on this device and backend, count. A size where the pick was not measured is left out; if
        that is so for all sizes, ConfigError is raised.
        """
        rows: dict[int, list[tuple[bool, float]]] = {}
        for size, config, seconds in filter(None, (t if isinstance(t, tuple) else self._timing(t) for t in timings)):
            if not is_number(seconds) or not seconds > 0:
                raise ConfigError(f"a measured time is above 0 s, got {shown(seconds)} for size {size}")
            rows.setdefault(int(size), []).append((dict(config) == dict(self[size]), float(seconds)))
        picked = {size: [s for own, s in found if own] for size, found in sorted(rows.items())}
        if not rows:
            raise ConfigError("no size of this problem was measured with this backend and device; see carver bench")
        if not any(picked.values()):
            raise ConfigError(f"none of the {len(rows)} measured sizes has a timing of what the portfolio picks there")
        return {size: min(own) / min(s for _, s in rows[size]) - 1 for size, own in picked.items() if own}

    def _timing(self, m: Any) -> tuple[int, Mapping[str, int], float] | None:
        if not hasattr(m, "median_ms"):
            raise ConfigError(f"timings are (size, configuration, seconds), or records, got {shown(m)}")
        if not m.median_ms or not m.ok or (m.operator, m.arch, m.backend) != (
            self.problem.operator, self.arch.name, self.backend
        ):  # fmt: skip
            return None
        there = Problem.from_dict(m.problem)
        size = there.sizes.get(_varied(self.problem, self.axis)[0], 0)
        return (size, m.config, m.median_ms * 1e-3) if size and there == at(self.problem, self.axis, size) else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "problem": self.problem.to_dict(), "arch": self.arch.name, "backend": self.backend, "axis": self.axis,
            "configs": [{"kernel": kernel, **config} for kernel, config in self.configs],
            "table": [{"upto": b.upto, "config": b.config} for b in self.table],
            "predicted_loss": self.loss, "worst_loss": self.worst, "single_loss": self.single_loss,
        }  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def to_python(self, name: str = "choose") -> str:
        """Python source of a function that maps a size to its configuration, to copy into a kernel's repository."""
        lines = [f"def {name}({self.axis}):"]
        for bucket in self.table[:-1]:
            config = dict(self.configs[bucket.config][1])
            lines += [f"    if {self.axis} <= {bucket.upto}:", f"        return {config!r}"]
        lines += [f"    return {dict(self.configs[self.table[-1].config][1])!r}"]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        ends = [bucket.upto for bucket in self.table]
        axis = {**self.problem.operator_file.axes, **self.problem.names}.get(self.axis, self.axis)
        columns = [
            Column(f"{axis} from", tuple(str(n) for n in (self.least, *(end + 1 for end in ends[:-1])))),
            Column("to", tuple(map(str, ends))),
        ]
        width = screen_width()
        differ, same = tunables([self.configs[bucket.config][1] for bucket in self.table], columns, width)
        columns += differ
        many = several(len(self), "configuration")
        title = f"{many} for {self.problem} over {axis} on {self.arch.title}, backend {self.backend}"
        below = (
            *said_left_out(columns, width), *in_all(same),
            f"predicted loss {self.loss:.1%} in the mean, {self.worst:.1%} at worst; "
            f"the best configuration alone {self.single_loss:.1%} in the mean",
        )  # fmt: skip
        return "\n".join([*wrapped([title], width), drawn(columns, width), *wrapped(below, width)])


@takes(ProblemError, besides="^(k|sizes)$")
def portfolio(
    problem: Problem, arch: Arch, axis: str, sizes: Iterable[int] | Mapping[int, float], k: int = 4,
    backend: str | None = None,
) -> Portfolio:  # fmt: skip
    """The `k` configurations that together lose least over `sizes` of one axis, and the table between them.

    `sizes` is one of these: a range, which gives the same weight to each factor of size (1 to 2 counts as much as 4096
    to 8192); a list, which gives the same weight to each entry (a size that occurs twice counts twice); or a mapping
    from size to weight. Configurations are chosen greedily on a matrix of predicted times, then improved by exchanges.
    Each can run at every sampled size.
    """
    k = counted("k", k, 1)
    axis = _axis(problem, axis)
    chosen, weights, others, other_weights = _sampled(axis, sizes)
    rankings = recommend_problems([at(problem, axis, n) for n in chosen], arch, FROM_EACH, backend)
    union = {
        (name, tuple(config.items())): (name, FrozenDict(config))
        for each in rankings for name, config in declared_in(each).configs(each.rows)
    }
    candidates = list(union.values())
    times = _times(problem, arch, axis, chosen, candidates, rankings[0].backend)
    best = np.array([ranking.seconds[0] for ranking in rankings])
    loss = np.minimum(np.log(times / best), np.log(NEVER))
    order = _cover(loss, weights, k)
    table = _table(chosen, loss[order], weights)
    if isinstance(sizes, range):
        table = _refined(table, chosen, lambda ns, rows: _times(
            problem, arch, axis, ns, [candidates[order[i]] for i in rows], rankings[0].backend))  # fmt: skip
    used = sorted({b.config for b in table})
    table = tuple(Bucket(b.upto, used.index(b.config)) for b in table)
    kept = [candidates[order[i]] for i in used]
    found = Portfolio(problem, arch, rankings[0].backend, axis, tuple(kept), table, 0.0, 0.0, 0.0, chosen[0])

    bests = recommend_problems([at(problem, axis, n) for n in others], arch, 1, backend)
    ideal = np.array([ranking.seconds[0] for ranking in bests])
    alone = candidates[int(np.argmin(loss @ weights))]
    again = np.log(_times(problem, arch, axis, others, [*kept, alone], found.backend) / ideal)
    picked = np.maximum(again[[found.place(n) for n in others], np.arange(len(others))], 0.0)
    means = [float(np.expm1(other_weights @ row)) for row in (picked, np.maximum(again[-1], 0.0))]
    return replace(found, loss=means[0], worst=float(np.expm1(picked.max())), single_loss=means[1])


def _axis(problem: Problem, name: str) -> str:
    """The axis with this name, in any case. If both masked axes have one size, the name of either means both."""
    sizes, words, mask = problem.sizes, problem.operator_file.axes, problem.operator_file.mask
    ours = {word: axis for axis, word in words.items() if axis in sizes} | {a: a for a in sizes}
    ours |= {problem.names[axis]: axis for axis in sizes if axis in problem.names}
    if len({sizes[axis] for axis in mask}) == 1:  # self-attention: queries and keys are one sequence
        ours[words[mask[0]]] = words[mask[0]]
    for word in (name, name.lower()):
        if word in ours:
            return ours[word]
    raise ProblemError(f"no axis {name!r} to vary; {nearest(name.lower(), ours)}")


def _varied(problem: Problem, axis: str) -> tuple[str, ...]:
    return (axis,) if axis in problem.sizes else problem.operator_file.mask


def at(problem: Problem, axis: str, size: int) -> Problem:
    """The problem with another size of one axis, and dense rows along it."""
    axes = _varied(problem, axis)
    varies = {t.name for t in problem.statement.tensors if any(a in axes for a, _ in problem.stored(t).index[-1])}
    align = {name: n for name, n in problem.align_bytes.items() if name not in varies}
    return replace(problem, sizes={**problem.sizes, **dict.fromkeys(axes, size)}, align_bytes=align)


def _sampled(
    axis: str, sizes: Iterable[int] | Mapping[int, float]
) -> tuple[list[int], FloatArray, list[int], FloatArray]:
    """Sizes on which to choose, and sizes on which to compute the loss, each with weights that sum to 1."""
    if isinstance(sizes, range):
        low, high, step = (*sorted((sizes[0], sizes[-1])), abs(sizes.step)) if sizes else (0, 0, 1)
        if low < 1:
            raise ProblemError(f"a range of sizes starts at 1 or above and holds some, got {sizes!r}")
        checked_size(axis, high)
        wanted = np.geomspace(low, high, 2 * SAMPLES - 1)
        steps = np.unique(low + step * np.rint((wanted - low) / step).astype(np.int64))
        first = np.unique(np.append(steps[::2], steps[-1]))
        return first.tolist(), _octaves(first), steps.tolist(), _octaves(steps)
    if not isinstance(sizes, Iterable) or not getattr(sizes, "ndim", 1):
        raise ProblemError(f"sizes are a range, a list, or a mapping from size to weight, got {sizes!r}")
    weighed = sizes if isinstance(sizes, Mapping) else Counter(checked_size(axis, n) for n in sizes)
    given = {checked_size(axis, n): weight for n, weight in weighed.items()}
    if not all(is_number(weight) and weight >= 0 for weight in given.values()) or not sum(given.values()) > 0:
        raise ProblemError(f"sizes are whole numbers of at least 1 with weights of at least 0, got {given!r}")
    keys = sorted(given)
    weights = np.array([given[n] for n in keys], float)
    weights /= weights.sum()
    return (*_thinned(keys, weights, SAMPLES), *_thinned(keys, weights, 2 * SAMPLES))


def _thinned(keys: list[int], weights: FloatArray, most: int) -> tuple[list[int], FloatArray]:
    """At most `most` of the sizes, spread by weight, each with the weight of all sizes closest to it."""
    if len(keys) <= most:
        return keys, weights
    cuts = np.unique(np.searchsorted(np.cumsum(weights), (np.arange(most) + 0.5) / most))
    cuts[-1] = len(keys) - 1
    logs = np.log(np.array(keys, float))
    edges = (logs[cuts[1:]] + logs[cuts[:-1]]) / 2
    grouped: FloatArray = np.bincount(np.searchsorted(edges, logs), weights, len(cuts)).astype(np.float64)
    return [keys[i] for i in cuts], grouped


def _octaves(sizes: IntArray) -> FloatArray:
    """Weights of the sizes of a range: each one's share on a logarithmic scale."""
    logs = np.log(sizes.astype(float))
    edges = np.concatenate([logs[:1], (logs[1:] + logs[:-1]) / 2, logs[-1:]])
    width = np.diff(edges) if len(sizes) > 1 else np.ones(1)
    out: FloatArray = width / width.sum()
    return out


def _times(
    problem: Problem, arch: Arch, axis: str, sizes: Sequence[int], candidates: Sequence[Candidate], backend: str
) -> FloatArray:
    """Predicted times of every candidate (rows) at every size (columns); inf if it cannot run. [s]"""
    out = np.full((len(candidates), len(sizes)), np.inf)
    for column, n in enumerate(sizes):
        here = at(problem, axis, n)
        for kernel in offered_kernels(here, arch, backend)[0]:
            rows = np.array([i for i, (name, _) in enumerate(candidates) if name == kernel.name], int)
            if len(rows):
                space, _ = given_space(here, arch, kernel, [candidates[i][1] for i in rows])
                out[rows[space.index], column] = price(space).seconds if len(space) else np.inf
    return out


def _cover(loss: FloatArray, weights: FloatArray, k: int) -> list[int]:
    """`k` rows that minimise the mean over columns of the least entry: from each of several starts rows are added, and
    then exchanged, one at a time as long as that lowers the mean.

    From a single start the first that is added is a compromise that a good set does not contain, and exchanges do not
    always remove it.
    """
    starts = np.argsort(loss @ weights, kind="stable")[:STARTS].tolist()
    starts += [int(np.argmin(column)) for column in loss.T]

    def covered(order: list[int]) -> FloatArray:
        out: FloatArray = np.min(loss[order], axis=0) if order else np.full(loss.shape[1], np.log(NEVER))
        return out

    def from_start(first: int) -> list[int]:
        order, improved = [first], True
        while len(order) < min(k, len(loss)):
            order.append(int(np.argmin(np.minimum(loss, covered(order)) @ weights)))
        best = float(covered(order) @ weights)
        while improved:
            improved = False
            for i in range(len(order)):
                means = np.minimum(loss, covered(order[:i] + order[i + 1 :])) @ weights
                new = int(np.argmin(means))
                if means[new] < best - 1e-12:
                    order[i], best, improved = new, float(means[new]), True
        return order

    return min(map(from_start, dict.fromkeys(starts)), key=lambda order: float(covered(order) @ weights))


def _table(sizes: Sequence[int], loss: FloatArray, weights: FloatArray) -> tuple[Bucket, ...]:
    """The buckets with the least total loss, where each change of configuration costs `WORTH_A_CHANGE` (Viterbi).

    So single sizes that would gain a little, due to their alignment, get no bucket of their own.
    """
    spent, came = loss[:, 0] * weights[0], []
    for i in range(1, len(sizes)):
        best = int(np.argmin(spent))
        stays = spent <= spent[best] + WORTH_A_CHANGE
        came.append(np.where(stays, np.arange(len(spent)), best))
        spent = np.where(stays, spent, spent[best] + WORTH_A_CHANGE) + loss[:, i] * weights[i]
    path = [int(np.argmin(spent))]
    for origin in reversed(came):
        path.insert(0, int(origin[path[0]]))
    ends = [i for i in range(len(sizes)) if i + 1 == len(sizes) or path[i + 1] != path[i]]
    return tuple(Bucket(sizes[i], path[i]) for i in ends)


def _refined(
    table: tuple[Bucket, ...], sizes: Sequence[int], times: Callable[[Sequence[int], Sequence[int]], FloatArray]
) -> tuple[Bucket, ...]:
    """The same buckets with exact ends: where between two sampled sizes the next configuration becomes faster."""
    out = list(table)
    for i, (here, after) in enumerate(pairwise(table)):
        following = sizes[sizes.index(here.upto) + 1]
        between = [n for n in _steps(here.upto, following) if here.upto < n < following]
        if between:
            left, right = np.log(times(between, [here.config, after.config]))
            behind = np.concatenate([[0.0], np.cumsum(left - right)])
            cut = int(np.argmin(behind))
            out[i] = Bucket(between[cut - 1] if cut else here.upto, here.config)
    return tuple(out)


def _steps(low: int, high: int) -> list[int]:
    """About 16 sizes between `low` and `high`: multiples of a power of two, since tiles end there."""
    step = 1 << max(0, ((high - low) // 16).bit_length())
    return list(range((low // step + 1) * step, high, step))
