"""The support matrix, written into docs/howto/devices.md by

    python tests/docs_tables.py

It says on which devices, with which kernels, the model was compared with measured times. A row is an ISA of which a
device was measured; the others are gathered by what runs on them. What was measured is what
docs/evidence/tables.csv has a line of; what runs is what carver says of a device and a backend.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import carver
from carver.ranking.recommend import offered_kernels

ROOT = Path(__file__).resolve().parent.parent

CONV = carver.Conv2DTemplate(256, 256, 3, 3)
MATMUL = carver.MatmulTemplate(512, 512, 512, in_dtype="float32")
COLUMNS = {
    "carver's own": {"cuda": MATMUL, "cpu": MATMUL},
    "Triton": {"triton": MATMUL, "triton_tma": MATMUL},
    "TileLang": {"tilelang": MATMUL},
    "CLBlast, Kernel Tuner, Tensile": {
        "clblast": MATMUL, "kernel_tuner": CONV, "kernel_tuner_hip": CONV, "tensile": MATMUL
    },
}  # fmt: skip
"""Heading, and the backends that it stands for, each with a problem of it."""

ISAS = {
    "sm_90": "Hopper", "sm_80": "Ampere, A100", "sm_86": "Ampere, others", "sm_75": "Turing", "sm_52": "Maxwell",
    "sm_30": "Kepler", "gfx908": "CDNA", "gfx90a": "CDNA 2", "gfx906": "Vega 20", "gfx1032": "RDNA 2, Navi 23",
    "gfx1100": "RDNA 3, Navi 31", "avx512": "x86 CPU",
}  # fmt: skip
"""What the ISAs of measured devices are called."""
VENDORS = {"nvidia": "other NVIDIA", "amd": "other AMD", "apple": "Apple", "x86": "other x86 CPU", "arm": "Arm CPU"}


def measured() -> Iterator[tuple[str, str]]:
    """(backend, device) of every line of docs/evidence/tables.csv."""
    with (ROOT / "docs" / "evidence" / "tables.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield row["backend"], row["device"]


def device(name: str) -> carver.Arch:
    own = ROOT / "tests" / "data" / "cpu" / f"{name}.toml"
    return carver.load_arch(own if own.is_file() else name)


def runs(arch: carver.Arch, heading: str) -> bool:
    """Whether kernels of some backend of the column run on the device: no error, and no note that says otherwise."""
    for backend, template in COLUMNS[heading].items():
        try:
            notes = offered_kernels(template.problem, arch, backend)[1]
        except carver.CarverError:
            continue
        if not any("do not run on" in note for note in notes):
            return True
    return False


def short(title: str) -> str:
    """A device's title without its maker, its form and its memory."""
    return re.sub(r"^(NVIDIA|AMD)( GeForce| Instinct)? |,.*| (SXM|PCIe|\(|\d+ GB).*", "", title)


def support() -> str:
    seen: dict[tuple[str, str], dict[str, None]] = {}
    for backend, name in measured():
        arch = device(name)
        [heading] = [heading for heading, backends in COLUMNS.items() if backend in backends]
        seen.setdefault((arch.isa, heading), {})[short(arch.title)] = None
    rows: dict[tuple[str, ...], list[str]] = {}
    for arch in {arch.isa: arch for arch in map(carver.load_arch, carver.arch_names())}.values():
        cells = tuple(
            ", ".join(seen[arch.isa, heading]) if (arch.isa, heading) in seen
            else "datasheet" if runs(arch, heading) else "-"
            for heading in COLUMNS
        )  # fmt: skip
        known = any((arch.isa, heading) in seen for heading in COLUMNS)
        family = ISAS[arch.isa] if known else VENDORS[arch.vendor]
        rows.setdefault((family, *cells), []).append(arch.isa)
    order = [*ISAS.values(), *VENDORS.values()]
    lines = [
        f"| {family}: {_isas(isas)} | {' | '.join(cells)} |"
        for (family, *cells), isas in sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[1][0]))
    ]
    return "\n".join([f"| device family | {' | '.join(COLUMNS)} |", "|---" * (1 + len(COLUMNS)) + "|", *lines])


def _isas(isas: list[str]) -> str:
    return ", ".join(sorted(isas, key=lambda isa: (len(isa), isa)))


def written(page: str) -> str:
    """The page with its table made anew, behind the comment that says how."""
    before, comment, after = re.split(r"(<!-- .*python tests/docs_tables.py -->\n)", page)
    rest = re.sub(r"\A\n*(\|.*\n)*", "", after)
    return f"{before}{comment}\n{support()}\n{rest}"


if __name__ == "__main__":
    page = ROOT / "docs" / "howto" / "devices.md"
    page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
