"""Candidates for several operators that run one after another: one configuration for all, or one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray, FrozenDict, IntArray
from ..cost.constants import CONSTANTS, resolve
from ..cost.model import constants_of
from .declared import Declared
from .hint import Hint, Subject

if TYPE_CHECKING:
    from .profile import Part


@dataclass(frozen=True, eq=False)
class Layered:
    """Each row is a row of every operator's candidates; its time is the sum of theirs."""

    subject: Subject
    tables: Mapping[str, Declared]
    """The candidates of each operator, by name, in the order in which they run."""
    rows: IntArray
    """Rows of these, of shape (operators, candidates)."""
    index: IntArray
    """The place of each in the list that the user gave."""
    notes: tuple[str, ...] = ()

    @property
    def _first(self) -> Declared:
        return next(iter(self.tables.values()))

    @property
    def arch(self) -> Arch:
        return self._first.arch

    @property
    def backend(self) -> str:
        return self._first.backend

    @property
    def of(self) -> str:
        return f"{' and '.join(dict.fromkeys(table.of for table in self.tables.values()))}, {len(self.tables)} layers"

    @property
    def also(self) -> Mapping[int, tuple[int, ...]]:
        return {}

    @cached_property
    def seconds(self) -> FloatArray:
        each = [table.seconds[rows] for table, rows in zip(self.tables.values(), self.rows, strict=True)]
        out: FloatArray = np.sum(each, axis=0)
        return out

    @property
    def keys(self) -> list[str]:
        return self._first.keys

    def column(self, key: str) -> tuple[IntArray, Any]:
        rows, values = self._first.column(key)
        place = {int(row): i for i, row in enumerate(rows)}
        here = [i for i, row in enumerate(self.rows[0].tolist()) if row in place]
        return np.array(here, np.int64), values[[place[int(row)] for row in self.rows[0][here]]]

    def hints(self, rows: Sequence[int], ranks: Sequence[int]) -> list[Hint]:
        chosen = self.rows[:, list(rows)].tolist()
        made = [table.hints(own, ranks) for table, own in zip(self.tables.values(), chosen, strict=True)]
        return [
            self._hint(row, dict(zip(self.tables, layers, strict=True)))
            for row, layers in zip(rows, zip(*made, strict=True), strict=True)
        ]

    def _hint(self, row: int, layers: dict[str, Hint]) -> Hint:
        first, most = next(iter(layers.values())), max(layers.values(), key=lambda hint: hint.predicted_ms)
        terms: dict[str, float] = {}
        for name, hint in layers.items():
            terms |= {f"{name}: {term}": ms for term, ms in hint.terms_ms.items() if ms}
        flops, seconds = sum(hint.problem.flops for hint in layers.values()), float(self.seconds[row])
        least = float(sum(hint.compulsory_bytes for hint in layers.values()))
        moved = float(sum(hint.details.get("dram_bytes", hint.compulsory_bytes) for hint in layers.values()))
        ideal = sum(h.predicted_ms * h.details["roofline_share"] for h in layers.values()) / 1e3
        lows, highs = zip(*(hint.band_ms or (nan, nan) for hint in layers.values()), strict=True)
        return Hint(
            rank=first.rank, index=int(self.index[row]), backend=first.backend, kernel=first.kernel, arch=first.arch,
            subject=self.subject, config=first.config, predicted_ms=seconds * 1e3, bound=most.bound,
            terms_ms=FrozenDict(terms), launch=most.launch, block=first.block, num_warps=first.num_warps,
            pipeline_stage=first.pipeline_stage, use_tc=first.use_tc, layers=FrozenDict(layers),
            details=FrozenDict({
                "tflops": flops / seconds / 1e12, "roofline_share": ideal / seconds, "dram_bytes": moved,
                "compulsory_bytes": least,
            }),
            calibrated=first.calibrated, notes=self.notes,
            band_ms=None if isnan(sum(lows)) else (sum(lows), sum(highs)),
        )  # fmt: skip

    def learnable(self, rows: Sequence[int]) -> list[Part]:
        """Constants of one name move together in all operators."""
        chosen = self.rows[:, list(rows)]
        owners = [table.owner(own) for table, own in zip(self.tables.values(), chosen, strict=True)]
        by_kernels: dict[tuple[int, ...], list[int]] = {}
        for place, owner in enumerate(zip(*owners, strict=True)):
            by_kernels.setdefault(tuple(map(int, owner)), []).append(place)
        return [self._part([rows[place] for place in places], owner) for owner, places in by_kernels.items()]

    def _part(self, rows: Sequence[int], owner: Sequence[int]) -> Part:
        from ..cost.learn import predict
        from .profile import Part, described, started

        tables = list(self.tables.values())
        spaces = [
            table.parts[number].space.where(own[list(rows)] - table.starts[number])
            for table, own, number in zip(tables, self.rows, owner, strict=True)
        ]
        first = spaces[0].kernel
        constants = resolve(first, self.arch)
        others = [resolve(space.kernel, self.arch) for space in spaces]

        def seconds(k: Mapping[str, float]) -> FloatArray:
            each = [
                predict(space, {**own, **{name: k[name] for name in own if name in k}})
                for space, own in zip(spaces, others, strict=True)
            ]
            out: FloatArray = np.sum(each, axis=0)
            return out

        names = [name for name in CONSTANTS if name in constants_of(first)]
        configs = [
            {f"{layer} {key}": n for layer, hint in zip(self.tables, each, strict=True) for key, n in hint.items()}
            for each in zip(*([space.config(i) for i in range(len(rows))] for space in spaces), strict=True)
        ]
        sizes = {f"{name} {k}": v for name, table in self.tables.items() for k, v in described(table.subject).items()}
        kind = " and ".join(str(sizes.pop(f"{name} kind")) for name in self.tables)
        kernels = " and ".join(dict.fromkeys(space.kernel.name for space in spaces))
        return Part.made(
            rows, kernels, started(constants), configs, {**sizes, "kind": kind}, seconds, names, constants
        )
