"""Measurements: rows of the store, each committed as soon as its number exists; those that noise does not tell apart.

Rounds are compared in pairs: what drifts from one round to the next, as clocks do, is the same for both candidates.
"""

from __future__ import annotations

import json
import platform
import sqlite3
import statistics
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import comb
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from ..base.child import OUTCOMES
from ..base.errors import StoreError, first_error, nearest, warn
from ..base.folders import is_writable, kept
from ..base.given import as_json, check_fields, fits, json_of, number, shown
from ..base.store import NAME, Store, to_read, to_write
from ..base.types import Record
from ..ranking.ranking import TIED, as_fast, size

MOST_DAYS = 365_000.0
"""Older than this is nothing."""

_EXPORT_VERSION = 1
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class RecordsError(StoreError):
    """What is no measurement, or no question that can be asked of them."""


def now() -> str:
    """UTC, ISO 8601: sorts as text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@lru_cache(maxsize=4096)
def _median_rank(n: int) -> int:
    """How many samples to leave off at each end for a 95 % interval of the median; 0 below 6 samples.

    The number of samples below the true median is binomial(n, 1/2), whatever their distribution:
    the interval from the (l+1)-th smallest to the (l+1)-th largest misses it with probability
    2 P(binomial <= l), which must stay at most 5 %.

    Source: Conover, Practical Nonparametric Statistics, 3.2 (confidence interval for a quantile).
    """
    tail, left = 0, -1
    while (tail := tail + comb(n, left + 1)) * 40 <= 1 << n:
        left += 1
    return max(left, 0)


def without_outliers(samples: Sequence[float]) -> list[float]:
    """The samples whose modified z-score 0.6745 |x - median| / MAD is at most 3.5; all where MAD is 0. Source: Iglewicz
    and Hoaglin, How to Detect and Handle Outliers (1993)."""
    middle = statistics.median(samples)
    mad = statistics.median(abs(x - middle) for x in samples)
    return [x for x in samples if 0.6745 * abs(x - middle) <= 3.5 * mad] if mad else list(samples)


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """Median of the samples without outliers, and a 95 % interval of the median; the range below 6 samples. The
    interval is of all samples: one of what an outlier test has left covers the median less often than it says."""
    ordered = sorted(samples)
    left = _median_rank(len(ordered))
    low, high = ordered[left], ordered[-1 - left]
    return min(max(statistics.median(without_outliers(ordered)), low), high), low, high


MOST_LETTERS = 160
"""Of a reason in a table."""


class Measurement(Record):
    """One candidate on one device: what was predicted, what happened, every sample.

    `candidate` identifies problem, kernel and config; `hint` is the whole hint where there is one (a library
    call or a user's own kernel has none). `rounds_ms` keeps the raw samples of each round, and
    `conditions` the clocks and the temperature seen at each. `error` and `tolerance` are of the result check:
    the largest error over what it may be, so above 1 is wrong.
    """

    run_id: str
    candidate: str
    outcome: str
    operator: str
    problem: Mapping[str, Any]
    kernel: str
    backend: str
    config: Mapping[str, Any]
    arch: str
    device: str
    host: str
    message: str = ""
    rank: int | None = None
    predicted_ms: float | None = None
    bound: str = ""
    terms_ms: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    rounds_ms: tuple[tuple[float, ...], ...] = ()
    median_ms: float | None = None
    ci_low_ms: float | None = None
    ci_high_ms: float | None = None
    error: float | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()
    device_info: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    versions: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    hint: Mapping[str, Any] | None = None
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    created_at: str = field(default_factory=now)
    updated_at: str = field(default_factory=now)

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise RecordsError(f"outcome {self.outcome!r} is not one; {nearest(self.outcome, OUTCOMES)}")
        if not all(map(_is_time, self.samples_ms)):
            raise RecordsError("not a measurement: rounds_ms is not a list of lists of times in ms")

    @property
    def reason(self) -> str:
        """The line of `message` that says most: of a compiler's log the first error, with its file's name."""
        error = first_error(self.message)
        return error if len(error) <= MOST_LETTERS else f"{error[: MOST_LETTERS - 1]}…"

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def samples_ms(self) -> tuple[float, ...]:
        return tuple(x for samples in self.rounds_ms for x in samples)

    @property
    def ci_percent(self) -> float | None:
        """Half the width of the median's 95 % confidence interval, relative to the median; None of one sample. [%]"""
        if not self.median_ms or self.ci_low_ms is None or self.ci_high_ms is None or len(self.samples_ms) < 2:
            return None
        return 50.0 * (self.ci_high_ms - self.ci_low_ms) / self.median_ms

    def with_round(self, samples_ms: Sequence[float], conditions: Mapping[str, Any]) -> Measurement:
        """This measurement after one more round, over the samples of all. A time that is none, as NaN, is a crash."""
        if odd := [x for x in samples_ms if not _is_time(x)]:
            return replace(self, outcome="crash", message=f"its timing gave {odd[0]!r} ms", updated_at=now())
        rounds = (*self.rounds_ms, tuple(map(float, samples_ms)))
        median, low, high = median_interval([x for samples in rounds for x in samples])
        return replace(
            self, rounds_ms=rounds, median_ms=median, ci_low_ms=low, ci_high_ms=high,
            conditions=(*self.conditions, dict(conditions)), updated_at=now(),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` gives back an equal measurement."""
        plain: dict[str, Any] = as_json(self)
        return plain

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Measurement:
        """The measurement that `to_dict` wrote. Raises RecordsError for what is missing, unknown or of a wrong type."""
        check_fields(cls, d, "measurement", RecordsError, optional=())
        if not fits(d["problem"].get("sizes"), "Mapping[str, int]", {}):
            raise RecordsError(f"not a measurement: sizes of its problem are {shown(d['problem'].get('sizes'))}")
        rounds = tuple(tuple(map(float, samples)) for samples in d["rounds_ms"])
        return cls(**{**d, "rounds_ms": rounds, "conditions": tuple(d["conditions"])})


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


PAIRED = 3
"""Rounds in common from which on rounds are compared, and not the intervals of two medians."""


def ratio(slow: Measurement, fast: Measurement) -> tuple[float, float, float]:
    """The time of one over that of another that ran, and its bounds. A median without an interval counts as exact."""
    rounds = [statistics.median(b) / statistics.median(a)
              for a, b in zip(fast.rounds_ms, slow.rounds_ms, strict=False) if a and b]  # fmt: skip
    if len(rounds) >= PAIRED:
        return median_interval(rounds)
    (own, low, high), (other, least, most) = (
        (m.median_ms or 0.0, m.ci_low_ms or m.median_ms or 0.0, m.ci_high_ms or m.median_ms or 0.0)
        for m in (slow, fast)
    )
    return own / other, low / most, high / least


def tied(measured: Sequence[Measurement]) -> list[Measurement]:
    """The fastest and those that noise does not tell from it, in the order in which ties are resolved: fewer registers,
    fewer bytes of shared memory, the smaller configuration. Empty where none ran."""
    ran = [m for m in measured if m.ok and m.median_ms]
    if not ran:
        return []
    best = min(ran, key=lambda m: m.median_ms or 0.0)
    return sorted((m for m in ran if m is best or as_fast(ratio(m, best))), key=_least)


def undecided(measured: Sequence[Measurement]) -> list[Measurement]:
    """The fastest and those of which more rounds may say whether they are slower; empty where all is decided."""
    ran = tied(measured)
    if not ran:
        return []
    best = min(ran, key=lambda m: m.median_ms or 0.0)
    left = [m for m in ran if m is not best and ratio(m, best)[2] > 1 + TIED]
    return [best, *sorted(left, key=lambda m: m.median_ms or 0.0)] if left else []


def _least(m: Measurement) -> tuple[Any, ...]:
    resources = m.device_info.get("resources") or {}
    launch = (m.hint or {}).get("launch") or {}
    registers = max((used[0] for used in resources.values()), default=launch.get("registers") or 0)
    shared = m.device_info.get("smem_bytes") or launch.get("smem_bytes") or 0
    return registers, shared, size(m.config)


_JSON = {f.name for f in fields(Measurement) if str(f.type).startswith(("Mapping", "tuple"))}
_COLUMNS = tuple(f.name for f in fields(Measurement))
_FILTERS = ("uuid", "run_id", "candidate", "outcome", "operator", "kernel", "backend", "arch", "device", "host")


class Run(Record):
    """One benchmark of one set of candidates on one device: what a rerun of the same command resumes."""

    run_id: str
    run_key: str
    host: str
    device: str
    settings: Mapping[str, Any]
    spent_s: float
    started_at: str
    finished_at: str | None


class Records(ExitStack):
    """The measurements in the store of the cache, or in a database of its own.

    Without `new` it is for reading: one that cannot be written, as in a cache of another user, is read as it stands.
    """

    def __init__(self, path: Path | str | None = None, *, new: bool = True) -> None:
        super().__init__()
        if path is None:
            there = kept() / NAME
            found = [] if new else to_read()
            self._store = found[0] if found else to_write()
        else:
            there = Path(path)
            if not new and not (there.is_file() and there.stat().st_size):
                lacks = f"{there} is empty" if there.is_file() else f"there is no database {there}"
                raise RecordsError(f"{lacks}; 'carver bench' and 'carver records import' make one")
            self._store = Store(there, fixed=not new and not is_writable(there.parent))
            self.callback(self._store.close)
        self.path = self._store.path
        self.lasting = self.path == there
        """Whether it stays when this process ends: where the cache cannot be written, it does not."""
        with self._store.reading():
            pass

    def put(self, m: Measurement, spent_s: float = 0.0) -> None:
        """Insert the measurement, or put it in the place of its run's for the same candidate. Committed on return.
        `spent_s` is added to the time its run has taken, over all the processes that worked on it."""
        with self._store.writing() as db:
            db.execute("UPDATE runs SET spent_s = spent_s + ? WHERE run_id = ?", (spent_s, m.run_id))
            _insert(db, m, "ON CONFLICT DO UPDATE SET " + ", ".join(f"{c} = excluded.{c}" for c in _COLUMNS))

    def begin(self, run_key: str, device: str, settings: Mapping[str, Any], *, fresh: bool = False) -> Run:
        """The last run of that key on this host and device, else (or with `fresh`) a new one."""
        host = platform.node()
        with self._store.writing() as db:
            row = db.execute(
                "SELECT * FROM runs WHERE run_key = ? AND host = ? AND device = ? ORDER BY rowid DESC",
                (run_key, host, device),
            ).fetchone()
            if row and not fresh:
                return _run(row)
            run = Run(str(uuid.uuid4()), run_key, host, device, dict(settings), 0.0, now(), None)
            db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (run.run_id, run_key, host, device, json.dumps(run.settings), 0.0, run.started_at, None),
            )
        return run

    def extend(self, run: Run, settings: Mapping[str, Any]) -> Run:
        """The run, open again, with settings that allow more."""
        with self._store.writing() as db:
            kept = "UPDATE runs SET settings = ?, finished_at = NULL WHERE run_id = ?"
            db.execute(kept, (_dumps(dict(settings)), run.run_id))
        return replace(run, settings=dict(settings), finished_at=None)

    def finish(self, run: Run) -> None:
        """Mark the run as complete: a rerun of the same command reports it and measures nothing."""
        with self._store.writing() as db:
            db.execute("UPDATE runs SET finished_at = ? WHERE run_id = ?", (now(), run.run_id))

    def runs(self) -> list[Run]:
        """Every run, the last that began first: by number, since clocks may go back."""
        with self._store.reading() as db:
            return [_run(row) for row in db.execute("SELECT * FROM runs ORDER BY rowid DESC")]

    def find(
        self, *, since: str | None = None, problem: Mapping[str, Any] | None = None, **equal: str | None
    ) -> list[Measurement]:
        """Measurements in the order they were first stored, whose columns equal what is given.

        Columns: uuid, run_id, candidate, outcome, operator, kernel, backend, arch, device, host; None is any value.
        `since` is an ISO time, `problem` a whole problem as a dict. What is no measurement is left out, with a warning.
        """
        where, values = _where(equal, since=since)
        if problem is not None:
            where, values = f"{where} AND problem = ?", [*values, _dumps(problem)]
        with self._store.reading() as db:
            query = f"SELECT * FROM measurements WHERE {where} ORDER BY rowid"
            rows = db.execute(query, values).fetchall()
        found = []
        for row in rows:
            try:
                found.append(_measurement(row))
            except RecordsError as e:
                warn(f"{self.path}: left out {row['uuid']}: {e}")
        return found

    def show(self, prefix: str) -> Measurement:
        """The one measurement whose uuid begins so. Raises RecordsError if there is none, or several."""
        with self._store.reading() as db:
            found = db.execute(
                "SELECT * FROM measurements WHERE substr(uuid, 1, ?) = ? LIMIT 3", (len(prefix), prefix)
            ).fetchall()
        if len(found) != 1:
            said = ", ".join(row["uuid"] for row in found) if found else "none; 'carver records list' names them"
            raise RecordsError(f"measurement {prefix!r} must name one record; it matches {said}")
        return _measurement(found[0])

    def export(self, to: TextIO, **equal: str | None) -> int:
        """Write the measurements as JSON lines, oldest first; `equal` as in `find`. Returns how many."""
        measurements = self.find(**equal)  # type: ignore[arg-type]
        lines = (json.dumps({"carver_record": _EXPORT_VERSION, **m.to_dict()}) + "\n" for m in measurements)
        to.write("".join(lines))  # of none too: a file that opens when it is written is there then
        return len(measurements)

    def import_(self, lines: Iterable[str]) -> tuple[int, int]:
        """Read what `export` wrote: all lines or, if one is bad, none. Returns how many were added and skipped.

        A record is skipped if it is here already, or another of the same candidate in the same run.
        """
        parsed = [_parsed(f"line {i}", line) for i, line in enumerate(lines, 1) if line.strip()]
        with self._store.writing() as db:
            added = sum(_insert(db, m, "ON CONFLICT DO NOTHING") for m in parsed)
        return added, len(parsed) - added

    def prune(self, *, older_than_days: float | None = None, **equal: str | None) -> int:
        """Delete the measurements that fit all filters (as in `find`), and runs left empty. Returns how many."""
        if not any(equal.values()) and older_than_days is None:
            raise RecordsError(f"prune needs a filter: older_than_days, or one of {', '.join(_FILTERS)}")
        before = None
        if older_than_days is not None:
            days = number("older_than_days", older_than_days, RecordsError, 0.0, MOST_DAYS)
            before = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
        where, values = _where(equal, before=before)
        with self._store.writing() as db:
            touched = db.execute(f"SELECT DISTINCT run_id FROM measurements WHERE {where}", values).fetchall()
            deleted = db.execute(f"DELETE FROM measurements WHERE {where}", values).rowcount
            db.executemany(
                "DELETE FROM runs WHERE run_id = :run AND NOT EXISTS (SELECT 1 FROM measurements WHERE run_id = :run)",
                [{"run": row["run_id"]} for row in touched],
            )
        return deleted


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _insert(db: sqlite3.Connection, m: Measurement, conflict: str) -> int:
    d = m.to_dict()
    values = [_dumps(d[c]) if c in _JSON and d[c] is not None else d[c] for c in _COLUMNS]
    marks = ", ".join("?" * len(_COLUMNS))
    return db.execute(f"INSERT INTO measurements ({', '.join(_COLUMNS)}) VALUES ({marks}) {conflict}", values).rowcount


def _measurement(row: sqlite3.Row) -> Measurement:
    return Measurement.from_dict({
        c: json_of(row[c], c, RecordsError) if c in _JSON and row[c] is not None else row[c] for c in _COLUMNS
    })  # fmt: skip


def _run(row: sqlite3.Row) -> Run:
    return Run(**{**dict(row), "settings": json_of(row["settings"], "settings", RecordsError, finite=False)})


def _where(
    equal: Mapping[str, str | None], *, since: str | None = None, before: str | None = None
) -> tuple[str, list[str]]:
    if unknown := equal.keys() - set(_FILTERS):
        raise RecordsError(f"no filter {min(unknown)!r}; {nearest(min(unknown), (*_FILTERS, 'since'))}")
    terms = [(f"{name} = ?", value) for name, value in equal.items() if value is not None]
    terms += [("created_at >= ?", since)] if since else []
    terms += [("created_at < ?", before)] if before else []
    return " AND ".join(t for t, _ in terms) or "1", [v for _, v in terms]


def _parsed(where: str, line: str) -> Measurement:
    before = ""
    try:
        d = json_of(line, where, RecordsError)
        if not isinstance(d, dict) or d.pop("carver_record", None) != _EXPORT_VERSION:
            version = f"of version {_EXPORT_VERSION} as 'carver records export' writes"
            raise RecordsError(f"{where} is not a record {version}")
        before = f"{where}: "
        return Measurement.from_dict(d)
    except RecordsError as e:
        raise RecordsError(f"{before}{e}; nothing was imported") from None
