"""JSON, CSV and Python dicts: for any tool that has no module here."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.errors import ConfigError
from ..base.given import takes
from ..kernels.backends import from_row
from ..ranking.hint import Hint
from . import renamed

from_config = from_row


@takes(ConfigError)
def configs(hints: Iterable[Hint], names: Mapping[str, str] | None = None) -> list[dict[str, int]]:
    """Only the configurations, in rank order, in the keys of their backend or of `names`."""
    return [renamed(hint.config, names) for hint in hints]


@takes(ConfigError)
def to_json(hints: Iterable[Hint], names: Mapping[str, str] | None = None) -> str:
    """A list of objects: the configuration's keys and `predicted_ms`."""
    return json.dumps([{**renamed(h.config, names), "predicted_ms": h.predicted_ms} for h in hints], indent=1)


@takes(ConfigError)
def to_csv(hints: Iterable[Hint], names: Mapping[str, str] | None = None) -> str:
    """One row per hint. Kernels with other tunables leave columns empty."""
    rows = [
        {"rank": h.rank, "kernel": h.kernel, **renamed(h.config, names), "predicted_ms": f"{h.predicted_ms:.6g}"}
        for h in hints
    ]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


@takes(ConfigError)
def defaults(hints_by_problem: Mapping[Any, Sequence[Hint]], name: str = "DEFAULTS") -> str:
    """Python source of a dict from a key of one's own (a shape, a device) to the first hint's configuration."""
    if empty := [key for key, hints in hints_by_problem.items() if not hints]:
        raise ConfigError(f"no hints for {empty[0]!r}: each key needs one at least")
    lines = [f"    {key!r}: {dict(hints[0].config)!r},  # predicted {hints[0].predicted_ms:.4g} ms"
             for key, hints in hints_by_problem.items()]  # fmt: skip
    return "\n".join([f"{name} = {{", *lines, "}"]) + "\n"
