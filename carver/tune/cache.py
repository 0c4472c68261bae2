"""The result of a tuning: the best configuration, ready to call, and everything that was tried; and what tuning keeps
in the store: results, profiles of kernels, and archives of both for other machines.

A tuned result is one entry, or a file of its own: JSON, verified when read. It names source and binary with their
SHA-256 and holds their contents, in base 64. What does not hold what it says, or another user owns, is no result: it is
made anew. Nothing is pickled.

An archive is a database of entries, checked before any is used. To import one is to trust its maker: its kernels run.
"""

from __future__ import annotations

import hmac
import json
import math
import os
import re
import secrets
import sys
import uuid
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from ..arch import devices as archs
from ..base import store
from ..base.errors import ConfigError, DeviceError, Foreign, StoreError, nearest
from ..base.folders import below, cache_folder, check_owner, kept, private, publish
from ..base.given import MOST_BYTES, as_json, check_fields, content, json_of, printable, shown, typed
from ..base.store import blob, unpack
from ..base.table import Column, drawn, in_all, screen_width, tunables, words, wrapped
from ..base.types import Record
from ..ranking.profile import Profile
from ..ranking.ranking import Ranking
from ..run import compile
from ..run.built import Built, elsewhere
from ..run.compile import Binary, bundle
from ..run.records import Measurement, RecordsError, now, tied
from ..run.render import Program
from ..run.session import compiler_of
from ..run.spec import Launch, Param, retargeted

SCHEMA = 2
KIND = "tuned"
"""Of entries of the store."""
CLEARED = "cleared"
"""What tells measurements after the entry of a key was last removed from those before."""


def is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def all_off() -> bool:
    """No cache at all, in process or on disk."""
    return is_set("CARVER_DISABLE_CACHE")


def disk_off() -> bool:
    """Tuned results stay in this process."""
    return all_off() or is_set("CARVER_DISABLE_TUNE_CACHE")


MODES = ("on", "cached", "off")


def mode() -> str:
    """CARVER_TUNING: "on" measures, "cached" takes what was tuned, else the nearest size, "off" the ranking's first."""
    chosen = os.environ.get("CARVER_TUNING") or "on"
    if chosen not in MODES:
        raise ConfigError(f"CARVER_TUNING must be on, cached or off, got {chosen!r}; {nearest(chosen, MODES)}")
    return chosen


class Saved(Record):
    """A verified result, by its key and where it was: what it says, and its files. `problem`: why it is none."""

    key: str
    where: str
    size_bytes: int
    found: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    signed: bool = False
    """Whether this user wrote it here."""
    problem: str = ""


def read(path: Path) -> Saved:
    """The result that `write` put into a file. Raises Foreign."""
    try:
        text = store.regular(path, MOST_BYTES)
    except OSError as e:
        raise Foreign(f"{path} is no saved result: {type(e).__name__}: {e}") from None
    return _verified(str(path), text)


def load(key: str) -> Saved | None:
    """The entry of a key, if any. Raises Foreign where it is damaged, DeviceError where others can write to it."""
    found = store.get(KIND, [key])
    return entry(key, found[key]) if key in found else None


def entry(key: str, body: bytes | None) -> Saved:
    """What an entry of the store, or of an archive, holds. Raises Foreign."""
    where = f"the entry {key[:12]}"
    if body is None:
        raise Foreign(f"{where} was changed after it was saved")
    saved = _verified(where, body)
    if saved.key != key:
        raise Foreign(f"{where} is that of another key")
    return saved


def _verified(where: str, text: bytes) -> Saved:
    """What the text says, with its files."""
    try:
        found = json_of(text, where, Foreign, finite=False)
        if found["schema"] != SCHEMA:
            raise Foreign(f"{where} has schema {found['schema']!r}; this carver reads {SCHEMA}")
        contents: dict[str, str] = found.pop("contents", {})
        files = {str(below(name)): b64decode(contents[name], validate=True) for name in dict(found["files"])}
        if strange := contents.keys() - files.keys():
            raise Foreign(f"{where}: {shown(min(strange))} is none of its files")
        if odd := next((name for name, held in files.items() if _digest(held) != found["files"][name]), None):
            raise Foreign(f"{where}: {odd} is not the file that was saved")
        if found["digest"] != _digest_of(found):
            raise Foreign(f"{where} was changed after it was saved")
        said = {name: found[name] for name in SAVED}
        check_fields(AutotuneResult, said, f"result: {where}", Foreign, left_out=NOT_SAVED)
        is_ours = False
        with suppress(OSError, DeviceError):  # a secret that cannot be read is another's
            if (kept() / "secret").is_file():
                is_ours = hmac.compare_digest(str(found.get("signature")), _signature(found["digest"]))
        return Saved(found["key"], where, len(text), found, files, is_ours)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Foreign(f"{where} is no saved result: {type(e).__name__}: {e}") from None


def _signature(digest: str) -> str:
    """Of an entry with that digest, by a secret of this user's cache."""
    path = kept() / "secret"
    if not path.is_file():
        path = private() / "secret"
        with suppress(FileExistsError), os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600),
                                                             "wb") as file:  # fmt: skip
            file.write(secrets.token_bytes(32))
    check_owner(path)
    return hmac.new(path.read_bytes(), digest.encode(), "sha256").hexdigest()


def _entry(result: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """A result with its files, their digests and this user's signature."""
    whole = {**result, "schema": SCHEMA, "files": {str(below(name)): _digest(held) for name, held in files.items()}}
    whole["digest"] = _digest_of(whole)
    contents = {str(below(name)): b64encode(held).decode() for name, held in files.items()}
    return json.dumps({**whole, "signature": _signature(whole["digest"]), "contents": contents}).encode()


def save(key: str, result: Mapping[str, Any], files: Mapping[str, bytes]) -> bool:
    """Put an entry into the store. The last writer stays. False where that cannot be written. Raises StoreError."""
    there = store.to_write()
    if there.path.parent != cache_folder():
        return False
    there.put(KIND, key, _entry(result, files))
    return True


def write(path: Path, result: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """An entry as a file of its own. The last writer stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    publish(path, _entry(result, files), lasting=True)


def entries() -> Iterator[Saved]:
    """Every entry, good or not, by name."""
    for key, body in sorted(store.get(KIND).items()):
        try:
            yield entry(key, body)
        except Foreign as e:
            yield Saved(key, f"the entry {key[:12]}", len(body or b""), problem=str(e))


def chosen(keys: Collection[str] = ()) -> list[Saved]:
    """The entries whose keys begin with one of these, all without any. Raises ConfigError for a key of none."""
    every = list(entries())
    if unknown := [key for key in keys if not any(e.key.startswith(key) for e in every)]:
        raise ConfigError(f"no entry {unknown[0]!r}; 'carver cache list' lists {len(every)}")
    return [e for e in every if not keys or e.key.startswith(tuple(keys))]


def remove(key: str) -> None:
    """Delete an entry in one step, and note that: it is tuned anew, from no measurement before."""
    with store.to_write().writing() as db:
        db.execute("DELETE FROM entries WHERE kind = ? AND key = ?", (KIND, key))
        store.insert(db, [(CLEARED, key, uuid.uuid4().hex.encode())])


def generation(key: str) -> str:
    """What tells measurements after the entry of that key was last removed from those before; empty if it never was."""
    return (store.get(CLEARED, [key]).get(key) or b"").decode(errors="replace")


def _digest_of(found: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in found.items() if name not in ("contents", "digest", "signature")}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


PROFILE = "profile"
"""Of entries of the store."""


def name_of(learnt_as: str, ranking: Ranking) -> str:
    """Of a kernel's profile: by its `Plan.learnt_as`, the operator and backend that rank it, and the device."""
    words = (learnt_as, *ranking.table.of.split("/"), ranking.arch.name)
    return ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", word) for word in words)


def load_profile(learnt_as: str, ranking: Ranking) -> Profile | None:
    """What was learnt before; None where nothing was, or where it is damaged: it is written anew after this tuning."""
    with suppress(ConfigError):
        return profile_named(name_of(learnt_as, ranking))
    return None


def save_profile(learnt_as: str, ranking: Ranking) -> None:
    """Keep what the ranking has learnt. Raises StoreError."""
    store.to_write().put(PROFILE, name_of(learnt_as, ranking), json.dumps(ranking.profile).encode())


def profiles() -> Iterator[tuple[str, Profile | str]]:
    """Every profile of the cache by name, or why it is none."""
    for name, body in sorted(store.get(PROFILE).items()):
        try:
            yield name, _profile(name, body)
        except ConfigError as why:
            yield name, str(why)


def profile_named(name: str) -> Profile:
    """The profile of that name. Raises ConfigError where there is none, or where it is damaged."""
    found = store.get(PROFILE, [name])
    if name not in found:
        raise ConfigError(f"no profile {name!r}; 'carver profile list' has those that there are")
    return _profile(name, found[name])


def drop_profiles(names: list[str]) -> None:
    """Delete them. Raises ConfigError where there is no profile of a name."""
    for name in sorted(set(names) - store.get(PROFILE, names).keys()):
        profile_named(name)  # says that there is none
    store.to_write().drop(PROFILE, names)


def _profile(name: str, body: bytes | None) -> Profile:
    if body is None:
        raise ConfigError(f"the profile {name!r} was changed after it was saved")
    return Profile.from_dict(json_of(body, f"the profile {name!r}", ConfigError))


BLOB = "blob"
"""Entries of an archive that are files of a store, by their names there."""
ARCHIVED = (KIND, PROFILE, compile.KIND, BLOB)
_MOST_ENTRIES = 1 << 16
_MOST_BYTES = 1 << 30
"""Of an archive."""


class Moved(Record):
    """What an archive holds, or what came out of one."""

    sha256: str
    """Of the archive."""
    entries: int
    profiles: int
    binaries: int
    kept: int = 0
    """Entries that were there already and were left alone."""


def export_archive(path: Path, keys: Collection[str] = (), binaries: bool = False) -> Moved:
    """Write the good entries of the cache, or those whose keys begin with one of `keys`, and all profiles; with
    `binaries` the compiled kernels of all candidates too. The same cache gives the same bytes.

    Raises ConfigError for a key that there is no entry of.
    """
    good = [entry.key for entry in chosen(keys) if not entry.problem]
    rows = [store.Row(kind, key, body) for kind, names in ((KIND, good), (PROFILE, None))
            for key, body in store.get(kind, names).items() if body is not None]  # fmt: skip
    for key, body in store.get(compile.KIND).items() if binaries else ():
        if body is not None and (binary := compile.binary_of(body)) is not None:
            rows += [store.Row(compile.KIND, key, body), store.Row(BLOB, binary.path.name, binary.path.read_bytes())]
    packed = store.pack(set(rows))
    publish(path, packed, 0o644, lasting=True)
    return _counted(packed, rows)


def import_archive(path: Path, digest: str | None = None, replace: bool = False) -> Moved:
    """Put what is in an archive into the cache; entries that are there already are left alone unless `replace`. Raises
    Foreign, before anything is written, where an entry, or the SHA-256 of all, is not what was exported."""
    packed = content(path, Foreign, _MOST_BYTES)
    if digest is not None and _digest(packed) != digest.lower():
        raise Foreign(f"{path} is not the archive with SHA-256 {digest}")
    rows = store.packed(packed, path, _MOST_ENTRIES, _MOST_BYTES)
    if odd := next((row for row in rows if row.kind not in ARCHIVED), None):
        raise Foreign(f"{path}: {shown(odd.kind)} is none of {', '.join(ARCHIVED)}")
    entries = {row.key: entry(row.key, row.body) for row in rows if row.kind == KIND}
    blobs = {row.key: row.body for row in rows if row.kind == BLOB}
    if odd_name := next((n for n, held in blobs.items() if n not in store.names_of(held)), None):
        raise Foreign(f"{path}: {shown(odd_name)} is not the file that was exported")
    try:
        already = set() if replace else store.get(KIND, entries).keys()
        for key in entries.keys() - already:
            found = {k: v for k, v in entries[key].found.items() if k not in ("schema", "files", "digest", "signature")}
            if not save(key, found, entries[key].files):
                raise DeviceError(f"the cache folder {cache_folder()} cannot be written, or its disk is full")
        for name, held in blobs.items():
            store.blob(held, Path(name).suffix)
        others = [row for row in rows if row.kind in (PROFILE, compile.KIND)]
        there = {kind: set() if replace else store.get(kind).keys() for kind in (PROFILE, compile.KIND)}
        with store.to_write().writing() as db:
            store.insert(db, [row for row in others if row.key not in there[row.kind]])
    except (OSError, StoreError) as e:
        raise DeviceError(f"the cache folder {cache_folder()} does not take what is in {path}: {e}") from None
    moved = _counted(packed, rows)
    return Moved(moved.sha256, moved.entries - len(already), moved.profiles, moved.binaries, len(already))


def _counted(packed: bytes, rows: Collection[store.Row]) -> Moved:
    count = Counter(row.kind for row in rows)
    return Moved(_digest(packed), count[KIND], count[PROFILE], count[compile.KIND])


class AutotuneResult(Record, eq=False):
    """The best configuration with its kernel, and the history: `table` has a measurement for every candidate tried.

    Times are medians, None without a measurement. `stopped`: why the search ended. `env`: device, versions, inputs.
    """

    name: str
    config: Mapping[str, Any]
    latency_ms: float | None
    table: tuple[Measurement, ...]
    env: Mapping[str, Any]
    stopped: str
    trials: int
    seconds: float
    key: str
    predicted_ms: float | None = None
    ref_latency_ms: float | None = None
    baseline_ms: float | None = None
    notes: tuple[str, ...] = ()
    built: Built | None = None
    make: Callable[[], Any] | None = None

    @cached_property
    def kernel(self) -> Any:
        """The winner, callable: `result.kernel(a, b)`."""
        if self.make is not None:
            return self.make()
        if self.built is None:
            raise ConfigError(
                f"{self.name} is Python code, of which only the configuration is kept: call the function with "
                f"{dict(self.config)}"
            )
        return self.built

    def __getattr__(self, name: str) -> Any:
        """Says what stands in place of what results of other tuners have."""
        raise AttributeError(f"a result has no {name!r}{elsewhere(name, 'result')}", name=name, obj=self)

    @property
    def failures(self) -> dict[str, int]:
        """The number of candidates by outcome, without those that worked."""
        return dict(Counter(m.outcome for m in self.table if not m.ok))

    @cached_property
    def tied(self) -> list[Measurement]:
        """The fastest and those that noise does not tell from it, the taken one first (`carver.run.records`)."""
        return tied(self.table) if "objective" not in self.env else []

    @property
    def speedup(self) -> float | None:
        """The time of the baseline over that of the best configuration."""
        return self.baseline_ms / self.latency_ms if self.baseline_ms and self.latency_ms else None

    def summary(self) -> str:
        """The findings in a few lines."""
        if self.latency_ms is None:
            return f"{self.name}: {words(self.config)}; {self.stopped}"
        gain = f", {self.speedup:.3g} x the baseline's speed" if self.speedup else ""
        best = f"{self.name}: {self.latency_ms:.4g} ms with {words(self.config)}{gain}"
        alike = f", {len(self.tied)} tied with the fastest" if len(self.tied) > 1 else ""
        return f"{best}\n{len(self.table)} tried: {outcomes(self.table)}{alike}; {self.stopped}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        plain: dict[str, Any] = as_json({name: getattr(self, name) for name in SAVED})
        return plain | {name: json.loads(json.dumps(plain[name], default=str)) for name in ("config", "env")}

    def save(self, path: Path | str) -> None:
        """Write a file of JSON, which holds a kernel's source, headers and binary."""
        write(Path(path), *self._files())

    def _files(self, parts: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What is saved, with what entered its key."""
        found, files = self.to_dict(), dict[str, bytes]()
        if parts is not None:
            found["parts"] = json.loads(json.dumps(parts, default=str))
        if self.built is None:
            return found, files
        program, binary = self.built.tuned(), self.built.compile()
        files |= bundle(program.source)
        files[f"kernel{binary.path.suffix}"] = binary.path.read_bytes()
        plain = as_json(program)
        plain["source"]["path"] = program.source.path.name
        found["kernel"] = {
            "program": plain, "sources": [name for name in files if not name.startswith("kernel" + binary.path.suffix)],
            "binary": f"kernel{binary.path.suffix}", "sha256": binary.sha256, "log": binary.log,
            "compiler": compiler_of(self.built.kind).identity, "device": self.built.device_name,
            "out": list(self.built.out),
            "params": as_json(self.built.params or ()),
        }  # fmt: skip
        if self.built.launch is not None:
            found["kernel"]["launch"] = as_json(self.built.launch.plain())
        return found, files

    @classmethod
    def load(cls, path: Path | str, device: str | None = None, *, trust: bool = False) -> AutotuneResult:
        """Read and verify what `save` wrote. The kernel is the saved binary if it fits `device`, else compiled again.

        If another user or another machine saved the result, its numbers can be read. Its kernel is code of whoever made
        it and would run with your rights, so it is there only with `trust`.
        """
        saved = read(Path(path))
        return cls.of(saved, device, trust or saved.signed)

    @classmethod
    def of(cls, saved: Saved, device: str | None = None, trust: bool = False) -> AutotuneResult:
        """The result of what was saved. Raises Foreign where it is not what `to_dict` gives."""
        d, make = saved.found, None
        try:
            built = _restore(d["kernel"], saved.files, device) if "kernel" in d and trust else None
            if "kernel" in d and not trust:
                make = partial(_untrusted, saved.where)
            own: dict[str, Any] = {name: d[name] for name in SAVED}
            own |= {"notes": tuple(d["notes"]), "table": tuple(Measurement.from_dict(m) for m in d["table"])}
            own["latency_ms"] = None if d["trials"] == 0 else float(d["latency_ms"])
            return cls(**own, built=built, make=make)
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecordsError) as e:
            raise Foreign(f"{saved.where} is no saved result: {type(e).__name__}: {e}") from None

    def __repr__(self) -> str:
        time = "not measured" if self.latency_ms is None else f"{self.latency_ms:.4g} ms"
        return f"<tuned {self.name}: {time} with {words(self.config)}, {len(self.table)} tried>"

    def __str__(self) -> str:
        width, rows = screen_width(), sorted(self.table, key=lambda m: m.median_ms or math.inf)
        own = [
            Column("ms", tuple(f"{m.median_ms:.4g}" if m.median_ms else "" for m in rows)),
            Column("predicted", tuple(f"{m.predicted_ms:.4g}" if m.predicted_ms else "" for m in rows), spare=99),
            Column("outcome", tuple(m.outcome if m.ok else f"{m.outcome}: {m.reason}" for m in rows), is_text=True,
                   may_shrink=True),
        ]  # fmt: skip
        differ, same = tunables([m.config for m in rows], own, width)
        said = printable(self.summary()).splitlines()
        return "\n".join([*wrapped(said, width), drawn([*differ, *own], width), *wrapped(in_all(same), width)])


NOT_SAVED = ("built", "make")
SAVED = [each.name for each in fields(AutotuneResult) if each.name not in NOT_SAVED]


def _restore(d: Mapping[str, Any], files: Mapping[str, bytes], device: str | None) -> Built:
    """The kernel of a saved result."""
    where = "cuda:0" if device == "cuda" else device or d["device"]
    kind = where.partition(":")[0]
    if kind != d["device"].partition(":")[0]:
        raise ConfigError(f"the saved kernel is for {d['device']}; it cannot run on {where}")
    program: Program = typed(Program, d["program"])
    contents = {name: files[name] for name in (program.source.path.name, *d["sources"])}
    source = replace(program.source, path=unpack(contents))
    if kind == "cuda":
        with suppress(DeviceError):  # which who calls the kernel gets; without it the result can be read
            source = retargeted(source, archs.load(where).isa)
    binary = None
    # a cubin runs wherever its ISA does; a CPU binary was made for the instruction set that its compiler saw
    if source.isa == program.source.isa and (kind == "cuda" or d["compiler"] == compiler_of(kind).identity):
        built = files[d["binary"]]
        if sha256(built).hexdigest() == d["sha256"]:
            binary = Binary(blob(built, Path(d["binary"]).suffix), d["sha256"], d["log"])
    params = typed(tuple[Param, ...], d["params"])
    launch = typed(Launch, d["launch"]) if "launch" in d else None
    program = replace(program, source=source)
    return Built(None, where, params, d["out"], program=program, binary=binary, launch=launch)


def _untrusted(where: str) -> Any:
    raise ConfigError(
        f"the kernel in {where} was saved by another user or on another machine, and its code would run with your "
        f"rights: if you trust whoever made it, load it with AutotuneResult.load({where!r}, trust=True)"
    )


def outcomes(table: Sequence[Measurement]) -> str:
    """How many ended how, in words."""
    counts = Counter(m.outcome.replace("_", " ") for m in table)
    return ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))


FOLDER = "tune-runs"  # of the cache


class RunLog:
    """Appends to `autotune.log` in the folder of one run. A context manager."""

    def __init__(self, run_id: str) -> None:
        self.path = private(FOLDER, run_id) / "autotune.log"
        self._shown = is_set("CARVER_PRINT_AUTOTUNING")
        self._file = self.path.open("a", encoding="utf-8")

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.say(f"ended by {type(error).__name__}: {error}")
        self._file.close()

    def say(self, text: str) -> None:
        with suppress(OSError):  # of a full disk: the log is read by people alone
            self._file.write(f"{now()} {text}\n")
            self._file.flush()
        if self._shown:
            print(f"carver: {text}", file=sys.stderr, flush=True)

    def candidate(self, place: int, count: int, m: Measurement, recorded: bool) -> None:
        time = f"{m.median_ms:.4g} ms" if m.ok and m.median_ms else f"{m.outcome}: {m.reason}"
        said = f", predicted {m.predicted_ms:.4g} ms" if m.predicted_ms else ""
        self.say(f"[{place}/{count}] {words(m.config)}: {time}{said}{' (recorded)' if recorded else ''}")
