"""Devices by name: `load("H200")`, `CUDA("NVIDIA H100 80GB HBM3")`, `HIP("gfx942")`, `CPU("auto")`.

A descriptor answers to every usual name of its device. One descriptor of each ISA also answers to the ISA, as compilers
spell it. Searched in this order: a path to a TOML file; the user's own folder (`own_folder()`), where calibration
writes; the folder that ships with carver. No GPU is touched unless the name is "auto".

A file is checked as strictly as a program: a misspelt key, a wrong type or a slipped unit is an `ArchError` that names
file, section, key and what is allowed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.dtypes import BYTES, PACKED_BYTES
from ..base.errors import ArchError, DeviceError, nearest
from ..base.folders import config_folder, folder, own_files
from ..base.given import fits, is_number, shown, text_of, toml_of
from .descriptor import (
    IDENTITY,
    INSTRUCTIONS,
    OPTIONAL,
    PINS_SLACK,
    PLAUSIBLE,
    RATE,
    SECTIONS,
    VENDORS,
    Arch,
    Matrix,
    Pairs,
    one_of,
    plausible,
    scalar,
    section_of,
)

if TYPE_CHECKING:
    from .detect import Detected

__all__ = [
    "CPU", "CUDA", "GENERATIONS", "HIP", "Apple", "Arch", "Matrix", "from_device", "group", "isa_of", "load", "match",
    "names", "own_folder", "own_names", "to_toml",
]  # fmt: skip


def names() -> list[str]:
    """The names of all descriptors that ship with carver, as `load` takes them."""
    return sorted(path.stem for path in folder("arch").glob("*.toml"))


GENERATIONS = {
    "kepler": ("sm_3",), "maxwell": ("sm_5",), "pascal": ("sm_6",), "volta": ("sm_70", "sm_72"), "turing": ("sm_75",),
    "ampere": ("sm_80", "sm_86", "sm_87"), "ada": ("sm_89",), "hopper": ("sm_90",),
    "blackwell": ("sm_10", "sm_11", "sm_12"), "cdna2": ("gfx90a",), "cdna3": ("gfx942",), "cdna4": ("gfx950",),
    "rdna2": ("gfx103",), "rdna3": ("gfx11",), "rdna4": ("gfx12",),
}  # fmt: skip
"""Names of generations, and how the instruction sets of each begin."""


def group(word: str) -> list[Arch]:
    """The devices that a word means together: "all", a vendor, a generation or an instruction set; none for others."""
    word = word.strip().lower()
    begins = GENERATIONS.get(word, ())
    every = (load(name) for name in sorted({*names(), *own_names()}))
    return [
        arch for arch in every
        if word in ("all", arch.vendor, arch.isa) or any(arch.isa.startswith(isa) for isa in begins)
    ]  # fmt: skip


def own_folder() -> Path:
    """Where the user's descriptors are: $CARVER_CONFIG_DIR/arch, else in the platform's folder for settings."""
    return config_folder() / "arch"


def own_names() -> list[str]:
    """The user's descriptors. One that has the name of a shipped one is used in its place."""
    return [path.stem for path in own_files(own_folder(), ArchError)]


def load(name: Arch | str | os.PathLike[str]) -> Arch:
    """The descriptor of a device, by any of its names or the path of a TOML file; an `Arch` is returned unchanged.

    "cuda", "hip" and "cpu" (and "cuda:1" ...) are the device in this machine, as for the constructors, and "auto" is
    its GPU, of either vendor: DeviceError where there is none.
    """
    if isinstance(name, Arch):
        return name
    text = _text(name)
    if text.strip().lower() == "auto":
        return _gpu_here()
    if (word := text.strip().lower().partition(":")[0]) in _CONSTRUCTOR_OF:
        return _construct(_CONSTRUCTOR_OF[word], name, (word,))
    path = Path(text) if isinstance(name, os.PathLike) or text.endswith(".toml") else _known_as(text)
    if path is None:
        there = f"; there is a file {text}.toml: give it with its ending" if Path(f"{text}.toml").is_file() else ""
        there += "; of several devices each has an --arch of its own" if "," in text else ""
        raise ArchError(
            f"no arch named {text!r}; nearest: {', '.join(_near(text))}; "
            f"carver archs lists all {len(names())}, or give the path of a TOML file{there}"
        )
    if not path.is_file():
        raise ArchError(f"{text!r} is a folder, no TOML file" if path.is_dir() else f"there is no file {text!r}")
    arch, isa = read(path), isa_of(text)
    return _representative(arch, isa) if isa == arch.isa else arch


def _gpu_here() -> Arch:
    try:
        return CUDA()
    except DeviceError as nvidia:
        try:
            return HIP()
        except DeviceError as amd:
            raise DeviceError(f"{str(nvidia).partition('; name a device')[0]}; {amd}") from None


@lru_cache(maxsize=64)
def _representative(arch: Arch, isa: str) -> Arch:
    """The device that a bare ISA leads to, which says so."""
    return dataclasses.replace(arch, stands_for=isa)


def to_plain(arch: Arch) -> str | dict[str, Any]:
    """What stands for a device in JSON: its name where carver ships it as it is, else what its file would hold."""
    shipped = _shipped(arch.name)
    if shipped == arch and shipped.source == arch.source:
        return arch.name
    return toml_of(to_toml(arch), arch.name, ArchError)


def _shipped(name: str) -> Arch | None:
    path = folder("arch") / f"{name}.toml"
    return read(path) if re.fullmatch(r"\w{1,100}", name) and path.is_file() else None


def from_plain(given: str | Mapping[str, Any]) -> Arch:
    """The device that `to_plain` wrote. Raises ArchError for names and descriptors that are none."""
    if isinstance(given, str):
        return _shipped(given) or load(given)
    if not isinstance(given, Mapping):
        raise ArchError(f"a device is a name or what its file holds, got {shown(given)}")
    return build(dict(given))


def match(device_name: str) -> Arch | None:
    """The descriptor whose `device_names` or aliases hold what a driver prints."""
    path = _known_as(device_name)
    return read(path) if path else None


def CUDA(name: str | os.PathLike[str] = "auto") -> Arch:
    """An NVIDIA GPU: `CUDA("h200")`, `CUDA("sm_90")`, or the one in this machine: `CUDA("auto")`, `CUDA("cuda:1")`."""
    return _construct("CUDA", name, ("auto", "cuda", "gpu"))


def HIP(name: str | os.PathLike[str] = "auto") -> Arch:
    """An AMD GPU: `HIP("mi300x")`, `HIP("gfx1100")`, or the one in this machine: `HIP("auto")`, `HIP("hip:1")`."""
    return _construct("HIP", name, ("auto", "hip", "rocm", "gpu"))


def CPU(name: str | os.PathLike[str] = "auto") -> Arch:
    """A CPU: a generic descriptor, `CPU("avx2")`, or the one in this machine: `CPU("auto")`."""
    return _construct("CPU", name, ("auto", "cpu", "native", "host"))


def Apple(name: str | os.PathLike[str] = "auto") -> Arch:
    """An Apple GPU, for recommendations only: `Apple("m2_max")`."""
    return _construct("Apple", name, ("auto", "metal", "gpu"))


def from_device(device: Detected) -> Arch:
    """The descriptor of a detected device, with what its driver says written over the datasheet's numbers.

    A device without a descriptor starts from the one of its ISA (failing that, its vendor) with the nearest
    number of SMs; bandwidths that no driver reports are scaled with SMs and clock. Title and sources say so.
    """
    known = _same_device(device)
    if known and known.fitted:  # what was measured here outranks what a driver says
        return known
    base = known or _relative(device)
    said: dict[str, Any] = {name: value for name, value in device.fields if value is not None}
    notes = dict(base.source) | {f"{section_of[name]}.{name}": device.said_by for name in said}
    if known is None:
        notes.pop("datasheet", None)  # the relative's, like the numbers it is about
        ratio = said.get("sm_count", base.sm_count) * said.get("clock_hz", base.clock_hz)
        ratio /= base.sm_count * base.clock_hz
        scaled = {"l2_bytes_per_s": base.l2_bytes_per_s * ratio, "l3_bytes_per_s": base.l3_bytes_per_s * ratio}
        notes |= {f"memory.{name}": f"scaled from {base.name} with SMs x clock, an estimate" for name in scaled}
        if base.kind == "cpu":
            scaled["dram_bytes_per_s"] = _dram_bytes_per_s(base, said.get("sm_count", base.sm_count), ratio)
            notes["memory.dram_bytes_per_s"] = f"a share of {base.name}'s, or what the cores can draw, an estimate"
        said = scaled | said
        said |= {
            "name": re.sub(r"[^a-z0-9]+", "_", device.name.lower()).strip("_"),
            "title": f"{device.name} (no descriptor of its own: estimated from {base.name})",
            "isa": device.isa or base.isa, "aliases": (), "device_names": device.names, "fitted": (), "datasheet": (),
        }  # fmt: skip
    if said.get("l3_bytes") == 0:
        said["l3_bytes_per_s"] = 0.0
    if base.matrix_clock_hz != base.clock_hz and "clock_hz" in said:
        said["matrix_clock_hz"] = min(base.matrix_clock_hz, said["clock_hz"])
    return base.replace(**said, source=tuple(notes.items()))


LINES_IN_FLIGHT = 48
"""Cache lines that a core's L2 waits for at once, Golden Cove and Zen 4."""
CHANNEL_BITS = 64


def _dram_bytes_per_s(base: Arch, cores: int, ratio: float) -> float:
    """Memory bandwidth of a CPU with `cores`, from one whose rate of computing it has `ratio` of. [B/s]

    A part of a socket has a part of its bandwidth, and no less than its cores can draw (by Little's law) from the two
    channels that any socket has.
    """
    drawn = cores * LINES_IN_FLIGHT * base.line_bytes / base.dram_latency_s
    two_channels = 2 * CHANNEL_BITS / base.bus_bits * base.dram_bytes_per_s
    return max(base.dram_bytes_per_s * min(1.0, ratio), min(drawn, two_channels, base.dram_bytes_per_s))


_CONSTRUCTOR_OF = {"cuda": "CUDA", "hip": "HIP", "rocm": "HIP", "cpu": "CPU", "native": "CPU", "metal": "Apple"}


def _text(name: str | os.PathLike[str]) -> str:
    if not isinstance(name, (str, os.PathLike)):
        raise ArchError(f"a device is named by a string or a path, got {name!r}")
    return os.fspath(name)


def _construct(constructor: str, name: str | os.PathLike[str], here: tuple[str, ...]) -> Arch:
    asked = re.fullmatch(rf"({'|'.join(here)})(?::(\d+))?", _text(name).strip().lower())
    if asked:
        from . import detect

        looks: dict[str, Callable[[], list[Detected]]]
        looks = {"CUDA": detect.nvidia, "HIP": detect.amd, "CPU": detect.cpu, "Apple": detect.apple}
        devices, number = looks[constructor](), int(asked[2] or 0)
        if number >= len(devices):
            found = ", ".join(f"{i}: {device.name}" for i, device in enumerate(devices))
            raise ArchError(f"{constructor}({os.fspath(name)!r}): this machine has {len(devices)} device(s): {found}")
        return from_device(devices[number])
    arch = load(name)
    if VENDORS[arch.vendor] != constructor:
        right = VENDORS[arch.vendor]
        raise ArchError(
            f"{constructor}({os.fspath(name)!r}): {arch.title} is not a device of {constructor}; "
            f"write {right}({os.fspath(name)!r})"
        )
    return arch


def _same_device(device: Detected) -> Arch | None:
    """The descriptor that a driver's names lead to.

    AMD's driver prints the id of a chip, whose cards differ in compute units: their number decides, over the id.
    NVIDIA's prints the name of a Jetson's chip, whose modules differ in memory: its size decides, since modes of power
    switch SMs off.
    """
    said = dict(device.fields)
    found = next((arch for arch in map(match, device.names) if arch and device.isa in ("", arch.isa)), None)
    if device.vendor == "amd" and (found is None or found.sm_count != said.get("sm_count")):
        chip = device.isa, said.get("sm_count")
        found = next((arch for arch in _of_vendor("amd") if (arch.isa, arch.sm_count) == chip), None)
    elif device.vendor == "nvidia" and found and "bus_bits" not in said and (held := said.get("dram_bytes")):
        modules = [found, *(arch for arch in _of_vendor("nvidia") if arch.isa == found.isa)]
        found = min(modules, key=lambda arch: abs(arch.dram_bytes - held))
    return found


def _of_vendor(vendor: str) -> list[Arch]:
    """All that ship, or stand in the place of one. Those of other vendors are not parsed: that takes a second."""
    mine = {path.stem: path for path in own_files(own_folder(), ArchError)}
    files = [mine.get(path.stem, path) for path in sorted(folder("arch").glob("*.toml"))]
    its = re.compile(rf"^vendor *= *[\"']{vendor}[\"']", re.M)
    return [read(path) for path in files if its.search(_head(path)[0])]


def _relative(device: Detected) -> Arch:
    """The shipped descriptor most like a device that has none: same ISA, else the nearest ISA of the vendor."""
    count = int(dict(device.fields).get("sm_count") or 0)

    def number(isa: str) -> int:
        return int(re.sub(r"^\D*", "", isa) or "0", 16)

    family = [arch for arch in _of_vendor(device.vendor) if arch.kind == device.kind]
    if device.kind == "cpu":
        family = [arch for arch in family if arch.isa == device.isa and arch.name.startswith("cpu_")]
    if not family:
        raise ArchError(f"no descriptor for {device.name} ({device.isa}); give the path of a TOML file of your own")
    return min(family, key=lambda arch: (abs(number(arch.isa) - number(device.isa)), abs(arch.sm_count - count)))


_GENERIC_WORDS = {
    "nvidia", "amd", "ati", "apple", "geforce", "tesla", "radeon", "instinct", "quadro", "graphics", "gpu",
    "corporation",
}  # fmt: skip


def _key(text: str) -> str:
    """A device name without what people leave out: "NVIDIA GeForce RTX 4090", "rtx-4090" and "RTX4090" are one.

    Its series stays, since "GTX 480" and "RX 480" are two devices; "4090" alone is an alias.
    """
    return "".join(word for word in re.split(r"[^a-z0-9]+", text.lower()) if word and word not in _GENERIC_WORDS)


_TARGET = re.compile(
    r"(?:sm_?|compute_?)(\d{2,3})[af]?|(\d{2,3})[af]?|(\d{1,2})\.(\d)[af]?|(?:amdgcn-amd-amdhsa-?-)?(gfx[0-9a-f]+)(?::.*)?"
)
"""How compilers, drivers and frameworks write an ISA: "sm_90a", "compute_90", "90", "9.0", "gfx942:sramecc+:xnack-"."""


def isa_of(name: str) -> str:
    """The ISA that a name is a spelling of, without features: "sm_90", "gfx942"; "" if it is none."""
    found = _TARGET.fullmatch(name.strip().lower())
    if not found:
        return ""
    named, number, major, minor, gfx = found.groups()
    return gfx or f"sm_{named or number or major + minor}"


def _known_as(name: str) -> Path | None:
    """A file of that name, then other names of the user's own descriptors, then of those shipped.

    A device's name comes before an ISA's: "680" is a GTX 680. A copy of a descriptor that keeps its aliases answers to
    them, but not to the name of the one that it was copied from.
    """
    mine = own_files(own_folder(), ArchError)
    if re.fullmatch(r"\w{1,100}", name):
        named = (*(path for path in mine if path.stem == name), folder("arch") / f"{name}.toml")
        if found := next((path for path in named if path.is_file()), None):
            return found
    keys = (_key(name), _key(isa_of(name)))
    return next((path for key in keys if key and (path := _answering(mine, key) or _shipped_as(key))), None)


@lru_cache(maxsize=512)
def _shipped_as(key: str) -> Path | None:
    files = sorted(folder("arch").glob("*.toml"), key=lambda path: path.name)
    near = [path for path in files if path.stem.replace("_", "").startswith(key)]  # most names begin their file's
    return _answering((*near, *files), key)


def _answering(files: Iterable[Path], key: str) -> Path | None:
    """The first of these descriptors that answers to a name. Those whose lines do not have it are not parsed."""
    for path in files:
        head, words = _head(path)
        if key in words and any(_key(word) == key for word in _names(path, head)):
            return path
    return None


def _head(path: Path) -> tuple[str, str]:
    """The lines of a descriptor above its first section, and what a key of any name in them is part of."""
    head = text_of(path, ArchError).partition("\n[")[0]
    return head, f"{_key(path.stem)} {_key(head)}"


def _names(path: Path, head: str) -> tuple[str, ...]:
    """The names that a descriptor answers to."""
    said = toml_of(head, path, ArchError)
    words = (path.stem, said.get("name"), *said.get("aliases", ()), *said.get("device_names", ()))
    return tuple(word for word in words if isinstance(word, str))


def _near(text: str) -> list[str]:
    import difflib

    def likeness(word: str) -> tuple[float, bool]:
        """Of two that are as near, one whose characters are only in another order is nearer: 4900 is 4090, not 4060."""
        said, name = _key(text), _key(word)
        return difflib.SequenceMatcher(None, said, name).ratio(), sorted(said) == sorted(name)

    files = {path: _names(path, _head(path)[0]) for path in folder("arch").glob("*.toml")}
    nearest = {path.stem: max(map(likeness, words)) for path, words in files.items()}
    return sorted(sorted(nearest), key=nearest.__getitem__, reverse=True)[:4]


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
    sections = [section for section in SECTIONS if section != "cpu" or raw.get("kind") == "cpu"]
    _keys("the file", raw, (*IDENTITY, *sections, "vector", "source"), ("matrix", "datasheet", "fitted"))
    values: dict[str, Any] = {name: raw[name] for name in IDENTITY} | dict.fromkeys(SECTIONS["cpu"], 0)
    for section in sections:
        values |= _table(raw, section, [name for name in SECTIONS[section] if name not in OPTIONAL], SECTIONS[section])
    for name, default in OPTIONAL.items():
        values.setdefault(name, values[default] if isinstance(default, str) else default)
    values["vector"] = tuple(_table(raw, "vector").items())
    if not fits(matrix := raw.get("matrix", []), "Sequence[Mapping[str, Any]]", {}):
        raise ArchError(f"matrix must be a list of tables, got {matrix!r}")
    values["matrix"] = tuple(map(_matrix_row, matrix))
    values["datasheet"] = _frozen("datasheet", _table(raw, "datasheet", (), _DATASHEET))
    fitted = _table(raw, "fitted")
    missing = [name for name in ("date", "device", "command") if not isinstance(fitted.get(name), str)]
    if fitted and missing:
        raise ArchError(f"[fitted] must say when and how it was measured: {', '.join(missing)} missing (a string each)")
    values["fitted"] = _frozen("fitted", fitted)
    sourced = [section for section in (*sections, "vector", "matrix", "datasheet") if section in raw]
    values["source"] = _sources(_table(raw, "source"), sourced)
    arch = Arch(**values)
    for name, bounds in PLAUSIBLE.items():
        plausible(f"[{section_of[name]}] {name}", values[name], *bounds)
    pins = arch.bus_bits * arch.pin_bits_per_s / 8
    if arch.kind == "gpu" and arch.dram_bytes_per_s > pins * (1.0 + PINS_SLACK):
        raise ArchError(f"[memory] dram_bytes_per_s = {arch.dram_bytes_per_s:g} is more than bus_bits * pin_bits_per_s "
                        f"/ 8 = {pins:g}, what its pins move")  # fmt: skip
    return arch


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
    return Matrix(**row | {"shape": tuple(shape), "flops_per_clk_per_sm": rate})


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
    parts = {section: SECTIONS.get(section, tuple(BYTES)) for section in sections}
    known = [*sections, *(f"{section}.{name}" for section, names in parts.items() for name in names)]
    if unknown := [key for key in table if key not in known]:
        import difflib

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


def _table(
    raw: Mapping[str, Any], section: str, required: Iterable[str] = (), known: Iterable[str] | None = None
) -> dict[str, Any]:
    """A section of a file, empty where left out, with the keys that it must have and, if said, none but those known."""
    table = raw.get(section, {})
    if not isinstance(table, dict):
        raise ArchError(f"[{section}] must be a table, got {table!r}")
    _keys(f"[{section}]", table, required, table if known is None else known)
    return table


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
