"""The TOML file of a device: read into an `Arch`, and written.

A file is checked as strictly as a program: a misspelt key, a wrong type or a slipped unit is an `ArchError`
that names file, section, key and what is allowed.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..base.dtypes import BYTES, PACKED_BYTES
from ..base.errors import ArchError, nearest
from ..base.given import is_number, shown, text_of, toml_of
from ..base.shipped import folder
from .descriptor import (
    IDENTITY,
    INSTRUCTIONS,
    OPTIONAL,
    PLAUSIBLE,
    RATE,
    SCALARS,
    SECTIONS,
    Arch,
    Matrix,
    Pairs,
    one_of,
    plausible,
    scalar,
)

FAMILY = "family"
"""The folder beside descriptors with what those of one family say alike."""
_DATASHEET = ("lanes", "dram_gb_per_s", "vector_tflops", "matrix_tflops")


def read(path: Path) -> Arch:
    """The device of a descriptor file. Raises ArchError that names file, section, key and what is allowed."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=512)
def _read(path: Path, modified_ns: int) -> Arch:
    """`modified_ns` is in the key so that a file written meanwhile is read again."""
    raw = toml_of(text_of(path, ArchError), path, ArchError)
    try:
        return build(_extended(raw, path.parent))
    except ArchError as error:
        raise ArchError(f"{path}: {error}") from None


def _extended(raw: Mapping[str, Any], beside: Path) -> dict[str, Any]:
    """What a descriptor says, and what the files of family/ say that its `extends` names: beside it, else shipped ones.

    A key that stands in two of them is an error: nothing is replaced.
    """
    out = {key: value for key, value in raw.items() if key != "extends"}
    names = raw.get("extends", [])
    if not isinstance(names, list):
        raise ArchError(f"extends is a list of files in family/, got {names!r}")
    homes = (beside / FAMILY, folder("arch") / FAMILY)
    for name in names:
        named = isinstance(name, str) and re.fullmatch(r"[\w.-]{1,100}", name)
        path = next((path for home in homes if named and (path := home / f"{name}.toml").is_file()), None)
        if path is None:
            known = {path.stem for home in homes for path in home.glob("*.toml")}
            raise ArchError(f"extends {shown(name)}, which is not in family/; {nearest(str(name), sorted(known))}")
        for section, said in _family(path).items():
            own = out.get(section, {})
            if isinstance(own, dict) and isinstance(said, dict):
                twice = [f"[{section}] {key}" for key in sorted(own.keys() & said.keys())]
                out[section] = {**said, **own}
            else:
                twice = [f"[{section}]"] * (section in out)
                out[section] = said
            if twice:
                raise ArchError(f"{twice[0]} stands here and in family/{name}.toml, or in two such: leave one out")
    return out


@lru_cache(maxsize=128)
def _family(path: Path) -> Mapping[str, Any]:
    return toml_of(text_of(path, ArchError), path, ArchError)


def to_toml(arch: Arch) -> str:
    """The text of a descriptor file; `load` of it gives an equal Arch."""
    lines = [f"{name} = {_literal(getattr(arch, name))}" for name in IDENTITY]
    if arch.matrix:
        rates = [", ".join(f"{k} = {_literal(v)}" for k, v in dataclasses.asdict(row).items()) for row in arch.matrix]
        lines += ["matrix = [", *(f"    {{ {rate} }}," for rate in rates), "]"]
    for section, fields in SECTIONS.items():
        if section != "cpu" or arch.kind == "cpu":
            lines += ["", f"[{section}]", *(f"{name} = {_literal(getattr(arch, name))}" for name in fields)]
    lines += ["", "[vector]", *(f"{dtype} = {_literal(rate)}" for dtype, rate in arch.vector)]
    for section, pairs in (("datasheet", arch.datasheet), ("source", arch.source), ("fitted", arch.fitted)):
        if pairs:
            tables = [(key, value) for key, value in pairs if isinstance(value, tuple)]
            lines += ["", f"[{section}]"]
            lines += [f"{_toml_key(key)} = {_literal(v)}" for key, v in pairs if not isinstance(v, tuple)]
            for key, rows in tables:
                lines += ["", f"[{section}.{_toml_key(key)}]", *(f"{_toml_key(k)} = {_literal(v)}" for k, v in rows)]
    return "\n".join(lines) + "\n"


def build(raw: dict[str, Any]) -> Arch:
    """The device of a parsed descriptor file. Raises ArchError that names section, key and what is allowed."""
    kind = raw.get("kind")
    sections = [section for section in SECTIONS if section != "cpu" or kind == "cpu"]
    optional = ("matrix", "datasheet", "fitted")
    _keys("the file", raw, (*IDENTITY, *sections, "vector", "source"), optional)
    values: dict[str, Any] = {name: raw[name] for name in IDENTITY}
    values |= dict.fromkeys(SECTIONS["cpu"], 0)
    for section in sections:
        table = _table(section, raw[section])
        required = [name for name in SECTIONS[section] if name not in OPTIONAL]
        _keys(f"[{section}]", table, required, [name for name in SECTIONS[section] if name in OPTIONAL])
        for name, value in table.items():
            values[name] = scalar(f"[{section}] {name}", SCALARS[name], value, name)
            if name in PLAUSIBLE:
                plausible(f"[{section}] {name}", value, *PLAUSIBLE[name])
    for name, default in OPTIONAL.items():
        values.setdefault(name, values[default] if isinstance(default, str) else default)
    values["vector"] = tuple(_table("vector", raw["vector"]).items())
    values["matrix"] = tuple(_matrix_row(row) for row in _rows(raw.get("matrix", [])))
    datasheet = _table("datasheet", raw.get("datasheet", {}))
    _keys("[datasheet]", datasheet, (), _DATASHEET)
    values["datasheet"] = _frozen("datasheet", datasheet)
    values["fitted"] = _fitted(_table("fitted", raw.get("fitted", {})))
    sourced = [section for section in (*sections, "vector", "matrix", "datasheet") if section in raw]
    values["source"] = _sources(_table("source", raw["source"]), sourced)
    return Arch(**values)


def _matrix_row(row: dict[str, Any]) -> Matrix:
    _keys("matrix", row, [field.name for field in dataclasses.fields(Matrix)])
    shape = row["shape"]
    if not (isinstance(shape, list) and len(shape) == 3 and all(type(n) is int and n > 0 for n in shape)):
        raise ArchError(f"matrix shape must be [m, n, k], three positive integers, got {shape!r}")
    for name in ("dtype", "accumulate"):
        one_of(f"matrix {name}", row[name], BYTES | PACKED_BYTES)
    one_of("matrix instruction", row["instruction"], INSTRUCTIONS)
    rate = scalar("matrix flops_per_clk_per_sm", "float", row["flops_per_clk_per_sm"])
    plausible("matrix flops_per_clk_per_sm", rate, *RATE)
    return Matrix(row["dtype"], row["accumulate"], row["instruction"], (shape[0], shape[1], shape[2]), rate)


def _fitted(table: dict[str, Any]) -> Pairs:
    missing = [name for name in ("date", "device", "command") if not isinstance(table.get(name), str)]
    if table and missing:
        raise ArchError(f"[fitted] must say when and how it was measured: {', '.join(missing)} missing (a string each)")
    return _frozen("fitted", table)


def _frozen(section: str, table: dict[str, Any], depth: int = 1) -> Pairs:
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict) and depth:
            pairs.append((key, _frozen(f"{section}.{key}", value, 0)))
        elif isinstance(value, str) or is_number(value):
            pairs.append((key, value))
        else:
            raise ArchError(f"[{section}] {key} must be a number, a string or a table of them, got {value!r}")
    return tuple(pairs)


def _sources(table: dict[str, Any], sections: list[str]) -> tuple[tuple[str, str], ...]:
    import difflib

    parts = {section: SECTIONS.get(section, tuple(BYTES)) for section in sections}
    known = [*sections, *(f"{section}.{name}" for section, names in parts.items() for name in names)]
    if unknown := [key for key in table if key not in known]:
        near = difflib.get_close_matches(unknown[0], known, 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise ArchError(
            f"[source] has unknown key {unknown[0]!r}; {meant}allowed: {', '.join(sections)}, or one key of them as "
            '"memory.l2_bytes"'
        )
    _keys("[source]", table, sections, known)
    for key, text in table.items():
        if not isinstance(text, str) or not text.strip():
            raise ArchError(f"[source] {key!r} must say where the numbers are from, got {text!r}")
    return tuple(table.items())


def _keys(where: str, table: Mapping[str, object], required: Iterable[str], optional: Iterable[str] = ()) -> None:
    required, optional = tuple(required), tuple(optional)
    for key in table:
        if key not in required and key not in optional:
            raise ArchError(f"{where} has unknown key {key!r}; {nearest(key, (*required, *optional), 1)}")
    if missing := [key for key in required if key not in table]:
        raise ArchError(f"{where} lacks {', '.join(missing)}")


def _table(section: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ArchError(f"[{section}] must be a table, got {value!r}")
    return value


def _rows(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ArchError(f"matrix must be a list of tables, got {value!r}")
    return value


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _literal(key)


def _literal(value: object) -> str:
    """A TOML value: integers of five digits and more grouped, large and small floats as 1.98e9."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's escapes are JSON's
        case int():
            return f"{value:_}" if abs(value) >= 100_000 else str(value)
        case float():
            if value == 0 or 1e-3 <= abs(value) < 1e5:
                return repr(value)
            shortest = (f"{value:.{digits}e}" for digits in range(17))
            mantissa, _, exponent = next(text for text in shortest if float(text) == value).partition("e")
            return f"{mantissa}e{int(exponent)}"
        case tuple():
            return f"[{', '.join(map(_literal, value))}]"
        case _:
            raise ArchError(f"a descriptor cannot hold {value!r}")
