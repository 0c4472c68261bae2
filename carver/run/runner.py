"""One run over candidates: what is known of each, what a round of measuring makes of it, and what is kept.

A candidate is known by a key, which covers all that its result depends on. Who measures decides about the order:
`carver.run.bench` takes all in rounds, `carver.tune.tuner` asks a strategy. The states of a candidate, which are in
docs/developers/architecture.md: new, built, checked, round i, done; failed; lost or busy, told and not recorded.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from typing import Any

from ..base.errors import StoreError
from ..ranking.hint import Hint
from .records import Measurement, Records
from .session import BUSY

TARGET_CI_PERCENT = 1.0
"""A candidate is done when the confidence interval of its median is within this of the median on both sides."""

LEAST_SAMPLES = 10
"""Samples in all before a candidate may be done: fewer give no interval worth the name."""


class Runner:
    """The candidates of one run, by key. `width`: how many are measured at once."""

    def __init__(self, records: Records, width: int = 1) -> None:
        self.records, self.width = records, width
        self.known: dict[str, Measurement] = {}
        self.lost: set[str] = set()
        self.busy: set[str] = set()
        self.spent_s = dict.fromkeys(("compile", "check", "measure"), 0.0)
        self.unrecorded = ""
        """Why the records did not take everything, such as a full disk; what is measured counts all the same."""
        self.retaken = 0
        self.worst = 0.0
        """Of disturbed timings: how many were taken again, and the longest baseline over its least."""

    def take(self, m: Measurement, found: Mapping[str, Any]) -> Measurement:
        """The measurement after a round, which is recorded unless it is lost or busy.

        `m` is what is known of the candidate, before the first round a measurement without one; `found` is what a
        `Session` says of the round.
        """
        for name, seconds in found.get("spent_s", {}).items():
            self.spent_s[name] += seconds / self.width
        self.retaken += found.get("retaken", 0)
        self.worst = max(self.worst, found.get("worst", 0.0))
        m = _after(m, found)
        self.known[m.candidate] = m
        if found.get("transient"):
            self.lost.add(m.candidate)
        elif m.ok and found.get("busy", 0.0) > BUSY:
            self.busy.add(m.candidate)
        else:
            try:
                self.records.put(m, sum(found.get("spent_s", {}).values()))
            except StoreError as e:
                self.unrecorded = str(e)
        return m


def _after(m: Measurement, found: Mapping[str, Any]) -> Measurement:
    error = found.get("error")
    of_check = {name: found[name] for name in ("resources", "checked", "reference_ms", "smem_bytes") if name in found}
    after = replace(
        m, outcome=found["outcome"], message=found["message"] or m.message, device=found.get("device") or m.device,
        host=found.get("host") or m.host, error=m.error if error is None else min(float(error), 1e300),
        device_info={**m.device_info, **found.get("state", {}), **of_check},
    )  # fmt: skip
    if after.ok:
        return after.with_round(found["samples_ms"], found.get("conditions", {}))
    where = f"in round {len(m.rounds_ms) + 1}: " if found.get("numbered") else ""
    return replace(after, message=f"{where}{found['message']}")


def predicted(m: Measurement, hint: Hint | None) -> Measurement:
    """The measurement with what this hint says, which may have changed since it was measured."""
    return m if hint is None else replace(
        m, arch=hint.arch.name, rank=hint.rank, predicted_ms=hint.predicted_ms, bound=hint.bound,
        terms_ms=dict(hint.terms_ms), hint=hint.to_dict(),
    )  # fmt: skip


def done(m: Measurement) -> bool:
    """Whether more samples of it would tell nothing new."""
    percent = m.ci_percent
    return not m.ok or (len(m.samples_ms) >= LEAST_SAMPLES and percent is not None and percent < TARGET_CI_PERCENT)


def versions() -> dict[str, str]:
    """Of carver and what it measures with, where they are installed."""
    out = {"python": platform.python_version()}
    for name in ("gpu-carver", "numpy", "torch", "pycuda"):
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out
