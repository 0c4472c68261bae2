"""Tensile, the generator of rocBLAS's kernels: its tables, and the logic files that say what the libraries take.

Of a table, `NAME.npz` holds, for each layout, its sizes (M, N, batch, K) and GFLOP/s by size and solution;
`NAME_LAYOUT_solutions.csv.gz` the parameters of the solutions. Matrices are column-major: in row-major terms
C' = B' A' with N rows and M columns, and what Tensile calls transposed is not.

A logic file of rocBLAS or hipBLASLt is a YAML list: version, schedule, ISA, devices, the type of problem, solutions,
and further on the sizes, each `[[M, N, batch, K, ...], [solution, speed]]`. With its ISA it may give a number of
compute units; without, it is for all devices of the ISA, and the one that stands for them is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from carver.arch.descriptor import Arch
from carver.arch.devices import load
from carver.base.errors import CarverError, ConfigError
from carver.base.types import BoolArray
from carver.calibrate.tables import Case, device, seconds, tunables
from carver.kernels.declaration import kernels
from carver.ops.matmul import MatmulTemplate

from .lists import load_yaml, of_size
from .winners import Row, Winner, listed
from .words import dtype, each, read_csv

_TYPES = {0: "float32", 3: "float64", 4: "float16", 7: "bfloat16", 8: "int8"}
"""`DataType` of Tensile."""
_LETTERS = {"S": "float32", "D": "float64", "H": "float16", "B": "bfloat16"}
"""Names such as HHS_BH: inputs, output, sums; a letter more than that says that there are batches."""


def gemm(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """One case a size; the solutions of a layout are shared by its sizes."""
    said = str(facts["dtype"])
    wide = re.search(r"(\w+) accumulate", said)
    kind, accumulate = dtype(said), dtype(wide[1]) if wide else None
    with np.load(folder / f"{name}.npz") as z:
        data = {key: z[key] for key in z.files}
    for layout in sorted(key.removesuffix("_sizes") for key in data if key.endswith("_sizes")):
        rows = read_csv(folder, f"{name}_{layout}_solutions")
        ours = [solution(row, arch.warp_size) for row in rows]
        known = np.array([row is not None for row in ours])
        if not known.all():
            yield f"{layout}: {(~known).sum()} of {len(rows)} solutions passed over: no profile has their waves"
        configs, remark = tunables([row for row in ours if row is not None], "matmul", "tensile")
        yield f"{layout}: {remark}" if remark else ""

        def case(row: Any, layout: str = layout, configs: Any = configs, known: BoolArray = known) -> Case:
            (m, n, batch, k), gflops = row
            problem = MatmulTemplate(
                n, m, k, batch, layout[1] == "T", layout[0] == "T", in_dtype=kind, accum_dtype=accumulate
            ).problem
            times = seconds(2e-6 * m * n * batch * k / np.where(gflops > 0, gflops, np.nan)[known])
            return Case(name, problem, arch, "tensile", configs, times, layout)

        yield from each(zip(data[f"{layout}_sizes"].tolist(), data[f"{layout}_gflops"], strict=True), case)


def solution(given: Mapping[str, Any], wave: int = 64) -> dict[str, Any] | None:
    """A solution in the words of its profile, and what no profile has; None where neither describes it.

    One with an instruction (`MI`, M x N x K x blocks) is for the matrix units, any other for the vector units. The
    tiles of an instruction must make up the work-group: more blocks, or waves that share a reduction, do not.
    """
    profiles = {kernel.name: kernel.tunables.keys() for kernel in kernels("matmul", "tensile")}
    row = {k: v for k, v in given.items() if k not in ("sid", "MI", "LPA")} | {"PAD": given.get("LPA", 0)}
    shape = [int(extent) for extent in re.findall(r"\d+", str(given.get("MI", "")))]
    if shape:
        group = [given[k] for k in ("WG0", "WG1", "WG2") if k in given]
        waves = given["MT0"] // (shape[0] * given["TT0"]) * (given["MT1"] // given["TT1"])
        if shape[3:] not in ([], [1]) or (group and prod(group) != waves * wave):
            return None
        row["MIM"] = shape[0]
    else:
        for tile, macro, threads in (("TT0", "MT0", "WG0"), ("TT1", "MT1", "WG1")):
            if tile not in row:
                row[tile] = given[macro] // given[threads]
        row = {"VW": min(row["GRVW"], row["TT0"], row["TT1"])} | row
    other = profiles["tensile" if shape else "tensile_mfma"] - profiles["tensile_mfma" if shape else "tensile"]
    return {k: v for k, v in row.items() if k not in other}


def logic_file(path: Path, name: str) -> Iterator[Winner | str]:
    facts = load_yaml(path)
    if not isinstance(facts, list) or len(facts) < 8 or not isinstance(facts[4], Mapping):
        raise ConfigError("no logic file of Tensile: a list of version, schedule, ISA, devices, problem, solutions")
    stated = facts[2] if isinstance(facts[2], Mapping) else {"Architecture": str(facts[2])}
    isa, units = str(stated.get("Architecture", "")), stated.get("CUCount")
    arch = of_size(isa, int(units)) if isa and units else load(isa)
    if arch is None:
        raise ConfigError(f"no descriptor of a device of {isa} with {units} compute units")
    of = facts[4]
    if of.get("DataType") not in _TYPES:
        yield f"passed over: nothing multiplies its type {of.get('DataType')!r}"
        return
    kind, wide = _TYPES[of["DataType"]], bool(of.get("HighPrecisionAccumulate"))
    ours = {int(row.get("SolutionIndex", i)): row for i, row in enumerate(facts[5])}
    sizes = next((part for part in facts[6:] if isinstance(part, list) and part and _is_size(part[0])), [])
    rows = [(kind, wide, bool(of["TransposeA"]), bool(of["TransposeB"]), size[:4], ours.get(int(best[0])))
            for size, best in sizes]  # fmt: skip
    yield from _ranked(name, rows, arch)


def _is_size(part: Any) -> bool:
    return (
        isinstance(part, list) and len(part) == 2 and isinstance(part[0], list) and len(part[0]) >= 4
        and isinstance(part[1], list) and len(part[1]) == 2
    )  # fmt: skip


def table(path: Path, name: str, facts: Mapping[str, Any]) -> Iterator[Winner | str]:
    """The same from two CSVs: a row a winner, and a row a solution."""
    arch, remark = device(str(facts.get("gpu") or facts["files"][0]["arch"]))
    yield remark
    ours = {int(row["sid"]): facts.get("constants", {}) | row for row in read_csv(path, f"{name}_solutions")}
    rows = []
    for row in read_csv(path, f"{name}_winners"):
        letters = str(row["dtype"]).partition("_")[0]
        size = [int(row[axis]) for axis in ("M", "N", "batch", "K")]
        rows.append((_LETTERS.get(letters[0], ""), letters[-1] == "S" or letters[2:] == "S",
                     row["transA"] == "T", row["transB"] == "T", size, ours.get(int(row["sid"]))))  # fmt: skip
    yield from _ranked(name, rows, arch)


def _ranked(
    name: str, rows: Iterable[tuple[str, bool, bool, bool, Sequence[int], Mapping[str, Any] | None]], arch: Arch
) -> Iterator[Winner | str]:
    """One list a type and layout: the library chooses among the solutions of one file."""
    found, passed, first = [], 0, ""
    words: dict[tuple[int, bool], dict[str, int] | None] = {}
    for kind, wide, trans_a, trans_b, (m, n, batch, k), given in rows:
        try:
            if given is None or not kind:
                raise ConfigError("a solution or a type that is not in the file")
            halves = wide and kind == "float16"
            if (id(given), halves) not in words:
                words[id(given), halves] = _words(given, arch, halves)
            config = words[id(given), halves]
            if config is None:
                raise ConfigError("no declaration describes its waves")
            accumulate = "float32" if wide and kind in ("float16", "bfloat16") else None
            problem = MatmulTemplate(n, m, k, batch, trans_b, trans_a, kind, accum_dtype=accumulate).problem
            found.append(Row(f"{kind}{wide}{trans_a}{trans_b}", problem, arch, "tensile", config))
        except CarverError as why:
            passed, first = passed + 1, first or str(why)
    yield from listed(name, found)
    if passed:
        yield f"{passed} of {passed + len(found)} winners passed over, the first: {first}"


def _words(given: Mapping[str, Any], arch: Arch, halves: bool) -> dict[str, int] | None:
    """A solution of a library in the words of Tensile's own tables, and then of a declaration.

    `halves`: products of halves are added in float32. Where the library has no such layout named, it takes dot products
    of pairs: its kernels for gfx1030 reach 39 TFLOP/s, where single products end at 23.
    """
    instruction = _numbers(given.get("MatrixInstruction"))
    tile, group = _numbers(given["ThreadTile"]), _numbers(given["WorkGroup"])
    row: dict[str, Any] = {
        "MT0": int(given["MacroTile0"]), "MT1": int(given["MacroTile1"]), "DepthU": int(given["DepthU"]),
        "GSU": int(given["GlobalSplitU"]), "WGM": max(abs(int(given["WorkGroupMapping"])), 1),
        "TT0": tile[0], "TT1": tile[1], "GRVW": _number(given, "GlobalReadVectorWidth", "GlobalReadVectorWidthA"),
        "PGR": _number(given, "PrefetchGlobalRead"), "SU": _number(given, "StaggerU"),
        "ONEBUF": _number(given, "1LDSBuffer"),
    }  # fmt: skip
    if instruction:
        row |= {"MI": "x".join(map(str, instruction[:4])), "PLR": _number(given, "PrefetchLocalRead")}
        waves, shape = _numbers(given.get("MIWaveTile")), instruction
        if waves:
            row |= {"TT0": waves[0], "TT1": waves[1] * shape[1]}
    else:
        row |= {"WG0": group[0], "WG1": group[1], "WG2": group[2], "VW": max(_number(given, "VectorWidth"), 1)}
        row["LDL"] = _number(given, "LocalDotLayout") or (2 if halves else 1)
    made = solution(row, arch.warp_size)
    return tunables([made], "matmul", "tensile")[0][0] if made else None


def _numbers(value: Any) -> list[int]:
    """A list of numbers, or the text of one."""
    return [int(n) for n in (json.loads(value) if isinstance(value, str) and value else value or [])]


def _number(given: Mapping[str, Any], *names: str) -> int:
    value = next((given[name] for name in names if given.get(name) not in (None, "")), 0)
    return int({"true": 1, "false": 0}.get(str(value).lower(), value))
