"""Find measured tables and read each through the adapter of its vocabulary.

A table is recognised by what its description says it holds, never by its name:

* `NAME.meta.json` beside its data, whose `op` and `dataset` say which kernel was tuned
* `*.json.gz` with `configs` and `results`, or with `cases`, as `benchmarks/confirm.py` writes them
* a database of carver's own measurements (`*.sqlite`, `*.db`)
* `*.csv` with a header: `operator, arch, backend`, the arguments of that operator's template, one `config.NAME`
  column a tunable, `time_ms`, and optionally `valid` (0 or 1); columns `note.NAME` are passed over
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..arch import load
from ..attention import FlashAttentionTemplate
from ..errors import ConfigError, nearest
from ..problem import Problem
from ..templates import ElementwiseTemplate, GEMVTemplate, MatmulTemplate, OpTemplate, ReductionTemplate, Template
from . import attention, clblast, kernel_tuner, tensile, tilelang, triton
from .cases import Case

Adapter = Callable[[Path, str, Mapping[str, Any]], Iterator[Case]]
ADAPTERS: Mapping[str, Adapter] = {
    "mm": triton.inductor,
    "mixed_mm": triton.inductor,
    "flex_attention": attention.flex_attention,
    "conv2d_direct": kernel_tuner.convolution,
    "dedispersion": kernel_tuner.dedispersion,
    "gemm": clblast.gemm,
    "Tensile": tensile.gemm,
}
"""Which adapter reads a table, by the `op` of its description, else by the first word of its `dataset`."""


def read(path: Path) -> Iterator[Case]:
    """Every case in a file, or in all files below a folder, in the order of their names."""
    if path.is_file():
        yield from _read_file(path)
        return
    if not path.is_dir():
        raise ConfigError(
            f"{path} is no file and no folder; give a table, a folder of tables, or a database of records"
        )
    found = sorted(p for p in path.rglob("*") if p.name.endswith((".meta.json", ".json.gz", ".sqlite", ".db", ".csv")))
    for file in found:
        yield from _read_file(file)


def _read_file(path: Path) -> Iterator[Case]:
    if path.name.endswith(".meta.json"):
        meta = json.loads(path.read_text())
        adapter = ADAPTERS.get(meta.get("op") or str(meta.get("dataset", "")).partition(" ")[0])
        if adapter:
            yield from adapter(path.parent, path.name.removesuffix(".meta.json"), meta)
    elif path.name.endswith(".json.gz"):
        with gzip.open(path, "rt") as file:
            data = json.load(file)
        if isinstance(data, dict) and {"results", "configs"} <= data.keys():
            yield from (triton.memory if isinstance(data["configs"], dict) else triton.gemm)(path.name, data)
        elif isinstance(data, dict) and "cases" in data:
            yield from confirmed_cases(path.name, data)
        elif isinstance(data, dict) and "results" in data and "block_M" in data["results"][0]["configs"][0]:
            yield from tilelang.gemm(path.name, data)
    elif path.suffix in (".sqlite", ".db"):
        yield from records_cases(path)
    elif path.suffix == ".csv":
        yield from csv_cases(path)


def confirmed_cases(table: str, data: Mapping[str, Any]) -> Iterator[Case]:
    """What `benchmarks/confirm.py` writes: carver's own kernels, problem by problem."""
    for case in data["cases"]:
        seconds = np.array([row[3] * 1e-3 if row[4] == "ok" else np.nan for row in case["rows"]])
        configs = [{"kernel": row[0], **row[1]} for row in case["rows"]]
        library = case["library_ms"]
        yield Case(
            table, Problem.from_dict(case["problem"]), load(case["arch"]), case["backend"], configs, seconds,
            case["kind"], library * 1e-3 if library else None,
        )  # fmt: skip


_TIMED = ("time_ms", "valid")


def csv_cases(path: Path) -> Iterator[Case]:
    """The documented CSV form; rows of one problem need not stand together."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    needed = {"operator", "arch", "backend", "time_ms"}
    if not rows or not needed <= rows[0].keys():
        given = ", ".join(rows[0]) if rows else "no rows"
        raise ConfigError(f"{path}: a table of measurements has columns {', '.join(sorted(needed))}; got {given}")
    fixed = needed | {*_TIMED}
    problems: dict[tuple[tuple[str, str], ...], list[dict[str, str]]] = {}
    for row in rows:
        key = tuple((k, v) for k, v in row.items() if not k.startswith(("config.", "note.")) and k not in _TIMED)
        problems.setdefault(key, []).append(row)
    for key, group in problems.items():
        head = dict(key)
        arguments = {k: v for k, v in head.items() if k not in fixed and v != ""}
        seconds = np.array([float(r["time_ms"]) * 1e-3 if r.get("valid", "1") != "0" else np.nan for r in group])
        configs = [{k[7:]: int(v) for k, v in r.items() if k.startswith("config.") and v != ""} for r in group]
        problem = _template(head["operator"], arguments).problem
        yield Case(path.name, problem, load(head["arch"]), head["backend"], configs, seconds)


_FACES: Mapping[str, Callable[..., Template]] = {
    "matmul": MatmulTemplate,
    "gemv": GEMVTemplate,
    "elementwise": lambda rows=1, cols=1, **rest: ElementwiseTemplate((rows, cols), **rest),
    "reduction": lambda rows, cols, **rest: ReductionTemplate(shape=(rows, cols), **rest),
    "attention": FlashAttentionTemplate,
    "op": OpTemplate,
}


def _template(operator: str, arguments: Mapping[str, str]) -> Template:
    """The template of an operator from the text of its arguments."""
    if operator not in _FACES:
        raise ConfigError(f"a table names the operator {operator!r}; {nearest(operator, _FACES)}")
    words = {"true": True, "false": False}
    typed = {k: words.get(v.lower(), int(v) if v.lstrip("-").isdigit() else v) for k, v in arguments.items()}
    return _FACES[operator](**typed)


def records_cases(path: Path) -> Iterator[Case]:
    """Carver's own measurements: one case a problem, device and backend, of each configuration the newest."""
    from ..records import Records
    from ..report import LIBRARY

    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for m in Records(path).find():
        if m.backend in ("user", LIBRARY):  # kernels that no declaration describes
            continue
        same = groups.setdefault((json.dumps(m.problem, sort_keys=True), m.arch, m.backend), {})
        same[json.dumps([m.kernel, dict(m.config)], sort_keys=True)] = m
    for (problem, arch, backend), newest in groups.items():
        rows = list(newest.values())
        seconds = np.array([m.median_ms * 1e-3 if m.outcome == "ok" and m.median_ms else np.nan for m in rows])
        if np.isfinite(seconds).sum() > 1:
            configs = [{"kernel": m.kernel, **m.config} for m in rows]
            yield Case(path.name, Problem.from_dict(json.loads(problem)), load(arch), backend, configs, seconds)
