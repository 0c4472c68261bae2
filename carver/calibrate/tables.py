"""Find measured tables and read each as problems with configurations and times.

A table is recognised by its contents, never by its name:

* a database of carver's own measurements (`*.sqlite`, `*.db`)
* `*.json.gz` with `cases`, as `benchmarks/confirm.py` writes them
* `*.json` and `*.json.gz` that Kernel Tuner wrote: a cache file or results in the T4 format
* `*.csv` with a header: `operator, arch, backend`, the arguments of that operator's template, one `config.NAME`
  column a tunable, `time_ms`, and optionally `valid` (0 or 1); columns `note.NAME` are passed over
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import isa_of, load, match, names
from ..base.errors import ArchError, CarverError, ConfigError, NoCandidates, ProblemError, nearest, told, warn
from ..base.given import is_number, json_of, shown, text_of, toml_of
from ..base.types import FloatArray, Record
from ..kernels.backends import as_whole, renamed
from ..kernels.declaration import Kernel, kernels
from ..ops.operator import Template, operators
from ..problem.problem import Problem
from ..ranking.hint import Hint
from ..ranking.ranking import Ranking
from ..ranking.recommend import rank, spellings
from ..run.records import Measurement, Records
from ..run.report import LIBRARY, Report


class Case(Record):
    """One problem of a measured table. `seconds` is NaN where a configuration did not run."""

    table: str
    problem: Problem
    arch: Arch
    backend: str
    configs: Sequence[Mapping[str, Any]]
    seconds: FloatArray
    group: str = ""
    """Cases of one group share what `carver evaluate --by group` averages over."""
    reference_s: float | None = None
    """A vendor library's time for the same problem, where the table has one."""

    @classmethod
    def of(cls, table: str, problem: Problem, arch: Arch, backend: str, found: Iterable[Measurement]) -> Case:
        """The case of measurements of one problem."""
        rows = list(found)
        configs = [{"kernel": m.kernel, **m.config} for m in rows]
        return cls(table, problem, arch, backend, configs, seconds([m.median_ms if m.ok else None for m in rows]))

    @property
    def best_s(self) -> float:
        return float(np.nanmin(self.seconds))

    def ranked(self) -> Ranking | None:
        """The model's order of the candidates; None where it holds that none can run."""
        try:
            return rank(self.problem, self.arch, self.configs, self.backend)
        except NoCandidates:
            return None

    def report(self) -> Report:
        """Prediction against measurement, candidate by candidate; the model's refusals are left out."""
        shared = {
            "run_id": self.table, "operator": self.problem.operator, "problem": self.problem.to_dict(),
            "backend": self.backend, "arch": self.arch.name, "device": self.arch.title, "host": "",
        }  # fmt: skip
        rows = [
            self._measured(float(self.seconds[h.index]), candidate=str(h.index), kernel=h.kernel, config=dict(h.config),
                           rank=h.rank, predicted_ms=h.predicted_ms, bound=h.bound, hint=h.to_dict(), **shared)
            for h in self.ranked() or ()
        ]  # fmt: skip
        if self.reference_s:
            library = {**shared, "backend": LIBRARY}
            rows.append(self._measured(self.reference_s, candidate=LIBRARY, kernel=LIBRARY, config={}, **library))
        return Report(self.problem, rows, device=self.arch.title)

    @staticmethod
    def _measured(seconds: float, **what: Any) -> Measurement:
        ran = bool(np.isfinite(seconds))
        return Measurement(outcome="ok" if ran else "crash", median_ms=seconds * 1e3 if ran else None, **what)


def device(name: str, isa: str = "") -> tuple[Arch, str]:
    """The descriptor of the device that a table was measured on, and a remark where that took more than its name.

    Remarks and alternatives behind the name are left out. Then the ISA decides, stated as `isa` or a word of the
    name, if all that have it are of about one size: "AMD Vega20 (gfx906)". A descriptor of another ISA is no match.
    """
    word = re.search(r"\b(sm_\d+|gfx[0-9a-f]+)", f"{isa} {name}")
    stated = word[1] if word else ""
    for text in (name, re.split(r"[/(,;:]", name)[0], stated):
        whole = isa_of(text) in ("", text)  # an ISA with features behind it is tried without them
        arch = match(text) if text.strip() and whole else None
        if arch is None or stated not in ("", arch.isa):
            continue
        sizes = [other.sm_count for other in map(load, names()) if other.isa == stated] if text == stated else [1]
        if max(sizes) <= 1.5 * min(sizes):
            return arch, "" if text == name else f"measured on {name!r}, ranked for {arch.title}"
    raise ArchError(f"no descriptor for its device {name!r}{f', {stated}' if stated else ''}; carver archs lists all")


def seconds(milliseconds: Any, ran: Any = True) -> FloatArray:
    """Times that can be compared: NaN for what did not run, and for what is no time above 0. [s]"""
    ms = np.asarray(milliseconds, np.float64)  # of None, NaN
    return np.where(np.asarray(ran, bool) & np.isfinite(ms) & (ms > 0), ms * 1e-3, np.nan)


def tunables(rows: Sequence[Mapping[str, Any]], operator: str, backend: str) -> tuple[list[dict[str, int]], str]:
    """The rows as configurations of a backend, and a remark on what tells equal ones apart, because no kernel has it.
    What a row does not have is at the kernel's default."""
    names = {name for kernel in kernels(operator, backend) for name in kernel.tunables}
    configs = [{k: as_whole(k, v) for k, v in row.items() if k in names} for row in rows]
    unread: dict[str, None] = {}
    if any(row.keys() - names for row in rows):
        first: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for row, config in zip(rows, configs, strict=True):
            twin = first.setdefault(tuple(config.items()), row)
            unread |= {k: None for k in row if k not in names and str(row[k]) != str(twin.get(k))}
    return configs, f"configurations differ in {', '.join(unread)}, which nothing reads" if unread else ""


def reason(error: Exception) -> str:
    """What went wrong with foreign data, in words."""
    return f"it has no {error}" if isinstance(error, KeyError) else told(error)


class Remark(Record):
    """What is to be said of a table that was not read or ranked as it stands; `broken` where that is its fault."""

    table: str
    text: str
    broken: bool = False


def insist(remark: Remark) -> None:
    """A broken table is an error, any other remark a warning."""
    if remark.broken:
        raise ConfigError(f"{remark.table}: {remark.text}")
    warn(f"{remark.table}: {remark.text}")


ENDINGS = (".meta.json", ".json.gz", ".sqlite", ".db", ".csv")
ELSEWHERE = "`python benchmarks/tables.py` in a clone of carver reads tables of other projects"


class Formats(Record):
    """A vocabulary of tables: which files of a folder may be of it, and how one is read."""

    find: Callable[[Path], Iterable[Path]]
    read: Callable[[Path], Iterator[Any] | None]
    """Cases, remarks, and what else has a `table` and a `scored()`. None for a file that is of no form of these."""
    summarise: Callable[[Iterable[Any]], Sequence[Any]] = list
    """Rows of what `scored` gave, each with a `to_dict`."""
    table: Callable[..., str] | None = None
    """Those rows as text, by the width of the screen."""


def read(
    path: Path, say: Callable[[Remark], None] = insist, formats: Sequence[Formats] | None = None
) -> Iterator[Case]:
    """Every measured problem of `read_all`."""
    return (found for found in read_all(path, say, formats) if isinstance(found, Case))


def read_all(
    path: Path, say: Callable[[Remark], None] = insist, formats: Sequence[Formats] | None = None
) -> Iterator[Any]:
    """Every case in a file, or in all files below a folder by name; each file by the first of `formats` that knows it.

    Files of one name in two folders are two tables, named with their folders. `say` is told of every table that is not
    read, or not as it stands, and why; the others are read all the same.
    """
    known = formats or OWN
    if not path.exists():
        raise ConfigError(
            f"{path} is no file and no folder; give a table, a folder of tables, or a database of records"
        )
    files = [path] if path.is_file() else sorted({file for each in known for file in each.find(path)})
    alike = Counter(file.name for file in files)
    for file in files:
        table = str(path if file == path else file.relative_to(path))
        try:
            found = list(next((made for each in known if (made := each.read(file)) is not None), ()))
        except (ArchError, ProblemError) as why:  # nothing is wrong with it
            say(Remark(table, f"passed over: {why}"))
            continue
        except Exception as error:  # foreign data can be wrong in any way, and must not hide the other tables
            say(Remark(table, reason(error).removeprefix(f"{file}: "), broken=True))
            continue
        cases = [case for case in found if isinstance(case, Case) and len(case.configs)]
        timed = [case for case in cases if np.isfinite(case.seconds).any()]
        remarks = list(dict.fromkeys(text for text in found if isinstance(text, str) and text))
        if idle := len(cases) - len(timed):
            remarks.append(f"{idle} of {len(cases)} problems passed over: no configuration of them ran")
        for text in remarks:
            say(Remark(table, text))
        found = [*timed, *(one for one in found if not isinstance(one, Case | str))]
        if alike[file.name] > 1:
            found = [replace(one, table=f"{file.parent.relative_to(path) / one.table}") for one in found]
        yield from found


def _find(folder: Path) -> Iterator[Path]:
    """The files below a folder that may be tables of carver's own forms."""
    for path in folder.rglob("*"):
        if path.name.endswith(ENDINGS):
            yield path
        elif path.suffix == ".json":
            with path.open(encoding="utf-8", errors="replace") as file:
                if _BEGINS.match(file.read(10_000)):
                    yield path


def _read(path: Path) -> Iterator[Case | str] | None:
    if path.name.endswith(".meta.json"):
        raise ProblemError(f"it describes a table of another project; {ELSEWHERE}")
    if path.suffix == ".json":
        return kernel_tuner_cases(path)
    if path.name.endswith(".json.gz"):
        text = text_of(path, ConfigError)
        if _BEGINS.match(text[:10_000]):
            return kernel_tuner_cases(path)
        data = json_of(text, "the table", ConfigError, finite=False)
        if not isinstance(data, dict) or "cases" not in data:
            raise ProblemError(f"no cases of benchmarks/confirm.py; {ELSEWHERE}")
        return confirmed_cases(path.name, data)
    if path.suffix in (".sqlite", ".db"):
        return records_cases(path)
    if path.suffix == ".csv" and path.with_suffix(".meta.json").exists():
        return iter(())  # the data of that table
    return csv_cases(path)


def confirmed_cases(table: str, data: Mapping[str, Any]) -> Iterator[Case]:
    """What `benchmarks/confirm.py` writes: carver's own kernels, problem by problem."""

    def time_s(row: Sequence[Any], where: str) -> float:
        if row[4] != "ok":
            return float("nan")
        if not is_number(row[3]) or not row[3] > 0:
            raise ConfigError(f"{where}: ok, so its time is milliseconds above 0; got {shown(row[3])}")
        return float(row[3]) * 1e-3

    for place, case in enumerate(data["cases"]):
        times = np.array([time_s(row, f"case {place}, row {i}") for i, row in enumerate(case["rows"])])
        configs = [{"kernel": row[0], **row[1]} for row in case["rows"]]
        library = case["library_ms"]
        yield Case(
            table, Problem.from_dict(case["problem"]), load(case["arch"]), case["backend"], configs, times,
            case["kind"], library * 1e-3 if library else None,
        )  # fmt: skip


_NEEDED = ("operator", "arch", "backend", "time_ms")
_TIMED = ("time_ms", "valid")


def csv_cases(path: Path) -> Iterator[Case]:
    """The documented CSV form; rows of one problem need not stand together, and some row of it must have a time. Raises
    ConfigError that names line and column for a cell that says nothing."""
    problems: dict[tuple[tuple[str, str], ...], list[tuple[str, dict[str, str]]]] = {}
    with io.StringIO(text_of(path, ConfigError), newline="") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        header = reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        if lacking := [name for name in _NEEDED if name not in header]:
            given = ", ".join(header) or "nothing"
            if len(lacking) == len(_NEEDED):
                begins = shown(file.getvalue().partition("\n")[0])
                raise ProblemError(f"it has none of the columns {', '.join(_NEEDED)}; it begins with {begins}")
            raise ConfigError(f"a table of measurements has columns {', '.join(_NEEDED)}; "
                              f"this one lacks {', '.join(lacking)} and has {given}")  # fmt: skip
        for row in reader:
            where = f"line {reader.line_num}"
            if None in row or None in row.values():
                raise ConfigError(f"{where}: the row must have a cell for each of the header's {len(header)} columns")
            key = tuple((k, v) for k, v in row.items() if not k.startswith(("config.", "note.")) and k not in _TIMED)
            problems.setdefault(key, []).append((where, row))
    if not problems:
        raise ConfigError("a header and no rows; each row is a measured configuration")
    for key, group in problems.items():
        where, head = group[0][0], dict(key)
        arguments = {k: v for k, v in head.items() if k not in _NEEDED and v != ""}
        problem = template_of(head["operator"], arguments, where).problem
        try:
            arch = _arch(path, head["arch"])
            offered = kernels(problem.operator, head["backend"])
        except CarverError as error:
            raise ConfigError(f"{where}: {error}") from None
        times = np.array([_seconds(row, at) for at, row in group])
        configs = [_config(row, offered, at) for at, row in group]
        yield Case(path.name, problem, arch, head["backend"], configs, times)


def _arch(table: Path, name: str) -> Arch:
    """A device by name, or by a descriptor's file beside the table."""
    beside = table.parent / name
    return load(str(beside) if beside.is_file() else name)


def _seconds(row: Mapping[str, str], where: str) -> float:
    """The time of a row, NaN where its configuration did not run. [s]"""
    valid, text = row.get("valid", "1").strip() or "1", row["time_ms"].strip()
    if valid not in ("0", "1"):
        raise ConfigError(f"{where}, column valid: takes 1, or 0 where the configuration did not run; got {valid!r}")
    if valid == "0":
        return float("nan")
    try:
        ms = float(text)
    except ValueError:
        ms = float("nan")
    if not 0 < ms < float("inf"):
        raise ConfigError(f"{where}, column time_ms: takes milliseconds above 0; got {text!r}. A configuration that "
                          "did not run has valid = 0")  # fmt: skip
    return ms * 1e-3


def _config(row: Mapping[str, str], offered: Sequence[Kernel], where: str) -> dict[str, int]:
    """The tunables of a row, checked to be those of a kernel."""
    config: dict[str, int] = {}
    for column, text in row.items():
        if column.startswith("config.") and text.strip():
            value = _value(text)
            if not isinstance(value, int):
                raise ConfigError(f"{where}, column {column}: takes a whole number, got {text!r}")
            config[column.removeprefix("config.")] = value
    try:
        config = renamed(config, spellings(offered, None))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    known = {name for kernel in offered for name in kernel.tunables}
    if unknown := config.keys() - known:
        word = min(unknown)
        raise ConfigError(f"{where}, column config.{word}: no tunable of {offered[0].title}; {nearest(word, known)} "
                          f"Rename it, or call it note.{word} if it does not matter to the time")  # fmt: skip
    needed = [kernel.tunables.keys() - kernel.defaults.keys() for kernel in offered]
    if not any(names <= config.keys() <= k.tunables.keys() for names, k in zip(needed, offered, strict=True)):
        wanted = " or ".join(dict.fromkeys(", ".join(f"config.{name}" for name in sorted(names)) for names in needed))
        there = ", ".join(f"config.{name}" for name in sorted(config)) or "none of them"
        raise ConfigError(f"{where}: a configuration has {wanted}; this row has only {there}")
    return config


def template_of(operator: str, arguments: Mapping[str, str], where: str) -> Template:
    """The template of an operator from the text of its arguments; a shape is given as `rows` and `cols`."""
    if operator not in operators():
        raise ConfigError(f"{where}, column operator: no operator {operator!r}; {nearest(operator, operators())}")
    make: Callable[..., Template] = operators()[operator].template
    taken = dict(signature(make).parameters)
    shape = ("rows", "cols") if taken.pop("shape", None) else ()
    known = (*shape, *taken)
    any_axis = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    if not any_axis and (unknown := arguments.keys() - set(known)):
        word = min(unknown)
        raise ConfigError(f"{where}, column {word}: no argument of {operator}, whose tunables are columns config.NAME "
                          f"and remarks note.NAME; {nearest(word, known)}")  # fmt: skip
    needed = [*shape, *(name for name, p in taken.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD)]
    if lacking := [name for name in needed if name not in arguments]:
        raise ConfigError(f"{where}: {operator} needs a value in column {', '.join(lacking)}")
    typed = {name: _value(text) for name, text in arguments.items()}
    if shape:
        typed["shape"] = tuple(typed.pop(name) for name in shape)
    try:
        return make(**typed)
    except (CarverError, TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from None


LONGEST_INTEGER = 20
"""Digits of 64 bits and a sign."""


def _value(text: str) -> Any:
    """True, false, a whole number (also as a data frame with gaps writes it, 64.0), another one, or the text itself."""
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    whole = word.removesuffix(".0")
    if whole.removeprefix("-").isdecimal() and len(whole) < LONGEST_INTEGER:
        return int(whole)
    return float(word) if word.replace(".", "", 1).isdecimal() else text.strip()


def records_cases(path: Path) -> Iterator[Case]:
    """Carver's own measurements: one case a problem, device and backend, of each configuration the newest."""
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    with Records(path, new=False) as store:
        found = store.find()
    for m in found:
        if m.backend in ("user", LIBRARY):  # kernels that no declaration describes
            continue
        same = groups.setdefault((json.dumps(m.problem, sort_keys=True), m.arch, m.backend), {})
        same[json.dumps([m.kernel, dict(m.config)], sort_keys=True)] = m
    for (problem, arch, backend), newest in groups.items():
        try:
            measured_on = load(arch)
        except ArchError:  # where it was made of a machine's own data, the records hold it
            held = next((m.hint for m in newest.values() if m.hint), None)
            if held is None:
                raise
            measured_on = Hint.from_dict(held).arch
        case = Case.of(path.name, Problem.from_dict(json.loads(problem)), measured_on, backend, newest.values())
        if np.isfinite(case.seconds).sum() > 1:
            yield case


_BEGINS = re.compile(r'\s*\{\s*"(?:device_name"|schema_version"|results":\s*\[\s*\{[^{]*"configuration")')
"""How files of Kernel Tuner's do: a cache with its device, the T4 format with results that have configurations."""
_FAILED = {"InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig", "ErrorConfig"}
_MS = {"ms": 1.0, "milliseconds": 1.0, "s": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}


def kernel_tuner_cases(path: Path) -> Iterator[Case | str]:
    """A cache file of Kernel Tuner's, also of a run that was interrupted, or its results in the T4 format.

    Neither says which operator the kernel computes, nor its sizes and types: `NAME.toml` beside `NAME.json` does, with
    the columns of `csv_cases` as keys. Its `arch` is the cache's device and its `backend` Kernel Tuner's kernels where
    it has none; `[names]` has the user's names of carver's tunables.
    """
    beside = path.with_name(path.name.removesuffix(".gz").removesuffix(".json") + ".toml")
    if not beside.is_file():
        raise ProblemError(f"Kernel Tuner does not write which operator its kernel computes: {beside.name} beside it "
                           "says so; docs/reference/tables.md has an example")  # fmt: skip
    facts = toml_of(text_of(beside, ConfigError), beside.name, ConfigError)
    names = facts.pop("names", {})
    text = text_of(path, ConfigError).strip()
    try:
        data = json_of(text, "the results", ConfigError, finite=False)
    except ConfigError:
        if text.endswith("}}"):
            raise
        data = json_of(text.rstrip(",") + "}}", "the results", ConfigError, finite=False)  # it is still written to
    if "cache" in data:
        tuned, rows = data["tune_params_keys"], list(data["cache"].values())
        times = [None if _FAILED.intersection(map(str, row.values())) else row["time"] for row in rows]
    else:
        rows = [result["configuration"] for result in data["results"]]
        tuned, times = list(rows[0]) if rows else [], [_t4_ms(result) for result in data["results"]]
    said = facts.pop("arch", None)
    if not (said or data.get("device_name")):
        raise ConfigError(f"it does not say the device: write arch = NAME in {beside.name}; `carver archs` lists all")
    arch, remark = (_arch(path, said), "") if said else device(data["device_name"])
    yield remark
    backend = facts.pop("backend", "kernel_tuner_hip" if arch.vendor == "amd" else "kernel_tuner")
    if "operator" not in facts:
        raise ConfigError(f"{beside.name} has no operator; {nearest('', operators())}")
    operator, where = str(facts.pop("operator")), beside.name
    problem = template_of(operator, {key: str(value) for key, value in facts.items()}, where).problem
    ours = spellings(kernels(operator, backend), names)
    if absent := [name for name in names.values() if name not in tuned]:
        raise ConfigError(f"{where}: [names] has {absent[0]!r}, which the results lack; {nearest(absent[0], tuned)}")
    configs, remark = tunables([{ours.get(key, key): row[key] for key in tuned} for row in rows], operator, backend)
    yield remark
    yield Case(path.name, problem, arch, backend, configs, seconds(times))


def _t4_ms(result: Mapping[str, Any]) -> float | None:
    """The time of one result; None for a configuration that did not run."""
    if result["invalidity"] != "correct":
        return None
    [found] = [each for each in result["measurements"] if each["name"] == "time"] or [{"value": None, "unit": "none"}]
    if found.get("unit") not in _MS:
        raise ConfigError(f"a result has a time in one of {', '.join(_MS)}, got {shown(found)}")
    return float(found["value"]) * _MS[found["unit"]]


OWN = (Formats(_find, _read),)
"""What carver reads by itself."""
