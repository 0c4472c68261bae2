"""Find measured tables and read each through the adapter of its vocabulary.

A table is recognised by what its description says it holds, never by its name:

* `NAME.meta.json` beside its data, whose `op` and `dataset` say which kernel was tuned
* `*.json.gz` with `configs` and `results`, or with `cases`, as `benchmarks/confirm.py` writes them
* lists of tuned winners: folders of vLLM's and SGLang's JSON files, AITER's CSVs, logic files and stream-K's YAML
* a database of carver's own measurements (`*.sqlite`, `*.db`)
* `*.csv` with a header: `operator, arch, backend`, the arguments of that operator's template, one `config.NAME`
  column a tunable, `time_ms`, and optionally `valid` (0 or 1); columns `note.NAME` are passed over
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import ArchError, CarverError, ConfigError, ProblemError, nearest
from ..base.given import is_number, json_of, shown, text_of
from ..kernels.declaration import Kernel, kernels
from ..kernels.foreign import renamed
from ..ops.operator import operators
from ..ops.template import Template
from ..problem.problem import Problem
from ..ranking.hint import Hint
from ..ranking.rank import spellings
from ..run.records import Measurement, Records
from ..run.report import LIBRARY
from . import kernel_tuner, lists, serving, tensile, triton
from .cases import Case, Remark, device, insist, reason
from .winners import Winner

Adapter = Callable[[Path, str, Mapping[str, Any], Arch], Iterator[Case | str]]
"""Folder, name, description and device of a table, to its cases and remarks."""
ADAPTERS: Mapping[str, Adapter] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "mixed_mm"), triton.inductor),
    "flex_attention": triton.flex_attention,
    "conv2d_direct": kernel_tuner.convolution,
    "dedispersion": kernel_tuner.dedispersion,
    "gemm": kernel_tuner.xgemm,
    "Tensile": tensile.gemm,
}
"""Which adapter reads a table, by the `op` of its description, else by the first word of its `dataset`."""
LISTS: Mapping[str, Callable[[Path, str, Mapping[str, Any]], Iterator[Winner | str]]] = {
    "Tuned": serving.table,
    "AITER": lists.aiter_table,
    "ROCm/triton": lists.streamk_table,
    "ROCm/rocBLAS": tensile.table,
    "ROCm/hipBLASLt": tensile.table,
}
"""The same for lists of winners, which may be of many devices."""
ENDINGS = (".meta.json", ".json.gz", ".sqlite", ".db", ".csv", ".yaml", ".yml")


def read(path: Path, say: Callable[[Remark], None] = insist) -> Iterator[Case]:
    """Every measured problem of `read_all`."""
    return (found for found in read_all(path, say) if isinstance(found, Case))


def read_all(path: Path, say: Callable[[Remark], None] = insist) -> Iterator[Case | Winner]:
    """Every case and winner in a file, or in all files below a folder, in the order of their names.

    Files of one name in two folders are two tables, named with their folders. `say` is told of every table that is not
    read, or not as it stands, and why; the others are read all the same.
    """
    if not path.exists():
        raise ConfigError(
            f"{path} is no file and no folder; give a table, a folder of tables, or a database of records"
        )
    files = [path] if path.is_file() else sorted(_tables(path))
    alike = Counter(file.name for file in files)
    for file in files:
        table = str(path if file == path else file.relative_to(path))
        try:
            found = list(_read_file(file))
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
        won = [winner for winner in found if isinstance(winner, Winner)]
        if alike[file.name] > 1:
            timed = [replace(case, table=f"{file.parent.relative_to(path) / case.table}") for case in timed]
            won = [replace(winner, table=f"{file.parent.relative_to(path) / winner.table}") for winner in won]
        yield from timed
        yield from won


def _tables(folder: Path) -> set[Path]:
    """The files below a folder that may be tables; a folder of tuned files is one."""
    files = [p for p in folder.rglob("*") if p.name.endswith(ENDINGS)]
    return {*files, *(p.parent for p in folder.rglob("*.json") if serving.is_tuned_file(p))}


def _read_file(path: Path) -> Iterator[Case | Winner | str]:
    if path.is_dir():
        yield from serving.folder(path, path.name)
    elif serving.is_tuned_file(path):
        raise ConfigError("one of many tuned files: give the folder")
    elif path.suffix in (".yaml", ".yml"):
        reader = lists.streamk_file if lists.is_streamk(path) else tensile.logic_file
        yield from reader(path, path.name)
    elif path.name.endswith(".meta.json"):
        facts = json_of(text_of(path, ConfigError), "the description", ConfigError)
        if not isinstance(facts, dict):
            raise ConfigError("a description is a JSON object")
        said = facts.get("op") or str(facts.get("dataset", "")).partition(" ")[0]
        if said in LISTS:
            yield from LISTS[said](path.parent, path.name.removesuffix(".meta.json"), facts)
            return
        adapter = ADAPTERS.get(said)
        if adapter is None:
            named = f"op {facts['op']!r}" if facts.get("op") else f"dataset {facts.get('dataset')!r} without an op"
            raise ProblemError(f"no adapter reads {named}; there are {', '.join((*ADAPTERS, *LISTS))}")
        arch, remark = device(str(facts.get("gpu", "")), str(facts.get("arch", "")))
        yield remark
        yield from adapter(path.parent, path.name.removesuffix(".meta.json"), facts, arch)
    elif path.name.endswith(".json.gz"):
        data = json_of(text_of(path, ConfigError), "the table", ConfigError, finite=False)
        if isinstance(data, dict) and "cases" in data:
            yield from confirmed_cases(path.name, data)
            return
        results = data.get("results") if isinstance(data, dict) else None
        first = results[0] if isinstance(results, list) and results and isinstance(results[0], dict) else {}
        if "problem" in first:
            form = triton.memory
        elif "configs" in first:
            form = triton.tilelang
        elif "shape" in first:
            form = triton.gemm
        else:
            raise ProblemError("neither results by problem or shape, nor cases of benchmarks/confirm.py")
        arch, remark = device(str(data.get("device", "")), str(data.get("arch", "")))
        yield remark
        yield from form(path.name, data, arch)
    elif path.suffix in (".sqlite", ".db"):
        yield from records_cases(path)
    elif lists.is_aiter(path):
        yield from lists.aiter_file(path, path.name)
    elif not path.with_suffix(".meta.json").exists():  # else it is the data of that table
        yield from csv_cases(path)


def confirmed_cases(table: str, data: Mapping[str, Any]) -> Iterator[Case]:
    """What `benchmarks/confirm.py` writes: carver's own kernels, problem by problem."""
    for place, case in enumerate(data["cases"]):
        seconds = np.array([_confirmed_s(row, f"case {place}, row {i}") for i, row in enumerate(case["rows"])])
        configs = [{"kernel": row[0], **row[1]} for row in case["rows"]]
        library = case["library_ms"]
        yield Case(
            table, Problem.from_dict(case["problem"]), load(case["arch"]), case["backend"], configs, seconds,
            case["kind"], library * 1e-3 if library else None,
        )  # fmt: skip


def _confirmed_s(row: Sequence[Any], where: str) -> float:
    """The time of a row, NaN where its outcome is another than ok. [s]"""
    if row[4] != "ok":
        return float("nan")
    if not is_number(row[3]) or not row[3] > 0:
        raise ConfigError(f"{where}: ok, so its time is milliseconds above 0; got {shown(row[3])}")
    return float(row[3]) * 1e-3


_NEEDED = ("operator", "arch", "backend", "time_ms")
_TIMED = ("time_ms", "valid")


def csv_cases(path: Path) -> Iterator[Case]:
    """The documented CSV form; rows of one problem need not stand together, and some row of it must have a time.

    Raises ConfigError that names line and column for a cell that says nothing.
    """
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
            beside = path.parent / head["arch"]
            arch = load(str(beside) if beside.is_file() else head["arch"])
            offered = kernels(problem.operator, head["backend"])
        except CarverError as error:
            raise ConfigError(f"{where}: {error}") from None
        seconds = np.array([_seconds(row, at) for at, row in group])
        configs = [_config(row, offered, at) for at, row in group]
        yield Case(path.name, problem, arch, head["backend"], configs, seconds)


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


def _measured_on(name: str, found: Iterable[Measurement]) -> Arch:
    """The descriptor of this name, or, where it was made of a machine's own data, the one that the records hold."""
    try:
        return load(name)
    except ArchError:
        held = next((m.hint for m in found if m.hint), None)
        if held is None:
            raise
        return Hint.from_dict(held).arch


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
        measured_on = _measured_on(arch, newest.values())
        case = Case.of(path.name, Problem.from_dict(json.loads(problem)), measured_on, backend, newest.values())
        if np.isfinite(case.seconds).sum() > 1:
            yield case
