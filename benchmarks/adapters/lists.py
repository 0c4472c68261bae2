"""Lists of tuned matmuls on AMD: AITER's CSVs, and the stream-K list of ROCm's fork of Triton.

Kernels of other tools are taken as tiles of Triton's matmul: a tile of 160 x 128 is none of its, and passed over.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from carver.arch.descriptor import Arch
from carver.arch.devices import load, names
from carver.base.errors import ConfigError
from carver.base.given import content, text_of
from carver.calibrate.tables import device, tunables
from carver.kernels.backends import from_triton
from carver.ops.matmul import MatmulTemplate

from .winners import Row, Winner, listed, sorted_out
from .words import read_csv

_HEADER = ("cu_num", "M", "N", "K", "kernelName")
_FAMILIES = {"a8w8": "float8_e4m3", "bf16": "bfloat16"}
_WARPS = {64: 1, 128: 2, 256: 4, 512: 8}


def is_aiter(path: Path) -> bool:
    """A CSV of AITER's, by its header."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return set(_HEADER) <= set(file.readline(10_000).strip().split(","))


def aiter_file(path: Path, name: str) -> Iterator[Winner | str]:
    """One of AITER's CSVs of tuned GEMMs. The kernel's name has its tile, the file's name the types."""
    rows = [dict(row) for row in csv.DictReader(io.StringIO(text_of(path, ConfigError), newline=""))]
    family = next((family for family in _FAMILIES if family in path.name), "")
    types = {"family": family}
    said = [types | {"variant": row.get("q_dtype_w") or row.get("dtype") or ""} for row in rows]
    rows = [row | more | _tile_of(row["kernelName"]) for row, more in zip(rows, said, strict=True)]
    yield from sorted_out(name, rows, _aiter_row)


def aiter_table(path: Path, name: str, facts: Mapping[str, Any]) -> Iterator[Winner | str]:
    """The same from a CSV with a row a winner: family, gfx, cu, M, N, K and the tile."""
    yield from sorted_out(name, read_csv(path, f"{name}_winners"), _aiter_row)


def _tile_of(kernel: str) -> dict[str, int]:
    """Block tile and threads in the name of one of CK's kernels, `256x16x64x256_`, or FlyDSL's, `t16x64x128_`.

    CK writes threads before the tile and the names of scales, `1x128x128_`, before both.
    """
    for part in kernel.split("_"):
        size = [int(n) for n in re.findall(r"\d+", part)]
        if re.fullmatch(r"\d+(x\d+){3}", part) and size[0] in _WARPS:
            return dict(zip(("threads", "block_m", "block_n", "block_k"), size, strict=True))
        if re.fullmatch(r"t\d+(x\d+){2}", part):
            return dict(zip(("block_m", "block_n", "block_k"), size, strict=True))
    return {}


def _aiter_row(row: Mapping[str, Any]) -> Row | str:
    family = next((kind for prefix, kind in _FAMILIES.items() if str(row.get("family", "")).startswith(prefix)), None)
    if family is None:
        return "element types that no problem of carver's has"
    tile = [int(row.get(f"block_{axis}") or 0) for axis in "mnk"]
    if not all(tile):
        return "no tile in their kernels' names"
    if any(n & (n - 1) for n in tile):
        return "tiles that are no powers of two"
    arch = of_size(str(row.get("gfx") or ""), int(row.get("cu") or row.get("cu_num") or 0))
    if arch is None:
        return f"no descriptor of a device with {row.get('cu') or row.get('cu_num')} compute units"
    kind = "int8" if "int8" in str(row.get("variant", "")) else arch.own_float8(family)
    m, n, k = (int(row[axis]) for axis in "MNK")
    problem = MatmulTemplate(m, n, k, trans_B=True, in_dtype=kind, out_dtype="bfloat16").problem
    words = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
    words |= {"num_warps": _WARPS.get(int(row.get("threads") or 256), 4), "num_stages": 2}
    words["SPLIT_K"] = 2 ** int(row.get("splitK") or row.get("splitk") or 0) if "ck" in str(row.get("lib", "ck")) else 1
    (config,), _ = tunables([words], "matmul", "triton")
    return Row(kind, problem, arch, "triton", config)


def of_size(isa: str, units: int) -> Arch | None:
    """The device of an ISA with so many compute units; lists of AMD's name no more."""
    there = [arch for arch in map(load, names()) if arch.vendor == "amd" and arch.isa.startswith(isa or "gfx9")]
    return next((arch for arch in there if arch.sm_count == units and "300a" not in arch.name), None)


def is_streamk(path: Path) -> bool:
    """A stream-K list, by its beginning."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return "BLOCK_SIZE_M" in file.read(2000)


def streamk_file(path: Path, name: str) -> Iterator[Winner | str]:
    """The YAML of ROCm's stream-K kernel: a list of sizes, storage orders and configurations."""
    rows = load_yaml(path)
    sms = {int(row["NUM_SMS"]) for row in rows}
    arch = of_size("gfx942" if 304 in sms else "", max(sms))
    if arch is None:
        raise ConfigError(f"no descriptor of a device with {max(sms)} compute units")
    named = [{key.lower() if key in "MNK" else key: value for key, value in row.items()} for row in rows]
    yield from _streamk(name, named, arch)


def streamk_table(path: Path, name: str, facts: Mapping[str, Any]) -> Iterator[Winner | str]:
    """The same from a CSV."""
    arch, remark = device(str(facts["gpu"]))
    yield remark
    yield from _streamk(name, read_csv(path, name), arch)


def _streamk(name: str, rows: Iterable[Mapping[str, Any]], arch: Arch) -> Iterator[Winner | str]:
    """As many blocks as compute units take the tiles in turn: ranked as the grid of tiles that it replaces."""
    found = []
    for row in rows:
        m, n, k = (int(row[axis]) for axis in "mnk")
        trans_a, trans_b = (str(row[f"rowMajor{operand}"]) in ("N", "False") for operand in "AB")
        problem = MatmulTemplate(m, n, k, trans_A=trans_a, trans_B=trans_b, in_dtype="float16").problem
        (config,), _ = tunables([from_triton(row)], "matmul", "triton")
        config["num_stages"] = max(config["num_stages"], 1)
        found.append(Row(f"{trans_a}{trans_b}", problem, arch, "triton", config))
    yield from listed(name, found)


def load_yaml(path: Path) -> Any:
    """The contents of a YAML file; no tag of it makes an object."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError("this list is read with PyYAML: pip install pyyaml") from None
    with io.BytesIO(content(path, ConfigError)) as file:
        return yaml.load(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
