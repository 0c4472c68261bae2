"""From readings and fits to a descriptor: the fields and constants that follow from them, and the file that keeps them.

A datasheet value that a measurement replaces is kept in `[fitted.datasheet]` and in the source of its field. If a
kernel's constants were fitted against the datasheet's fields, their products with the fields are kept: a kernel that
predicts well is not changed by a measurement that its fit never saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from ..arch.descriptor import PLAUSIBLE, Arch, Pairs, section_of
from ..arch.devices import own_folder, to_toml
from ..base.errors import ConfigError
from ..base.folders import existing, is_writable, publish
from ..cost.constants import CONSTANTS, resolve
from ..kernels.declaration import Kernel, every
from ..problem.operator_file import operator_files
from .micro import Microbenchmarks, matrix_name, matrix_rows

DIFFERS = 0.03
"""A rate that is this close to the descriptor's confirms it."""
STRAY = 1.25
"""A constant this far outside its physical bounds was disturbed, and is not used; nearer ones are cut to the bound."""
MERGES = 1.2
"""An L2 that gives this much more to neighbours that read the same lines serves them together."""
MERGE_SMS = 16
"""How many of them: what the H200 was measured to do."""
STEADY = 0.25
"""A reading whose interval reaches further to both sides was disturbed."""
LEVELS = ("l1_bytes_per_s", "l2_bytes_per_s", "l3_bytes_per_s", "l2_read_bytes_per_s", "dram_read_bytes_per_s")
"""Readings of bandwidth, the nearest memory first: those of a CPU, then those of a GPU, and DRAM of both."""
RISE = 1.1
"""A bandwidth this much above that of a nearer memory was not measured on an idle device."""
DISTURBED_S = 5e-5
"""No parallel region takes this long on a CPU that has nothing else to do."""
PRODUCTS = {
    "dram_efficiency": "dram_bytes_per_s", "l2_efficiency": "l2_bytes_per_s", "l2_latency_load": "l2_latency_s",
    "dram_latency_load": "dram_latency_s",
}  # fmt: skip
"""Constants that multiply a field."""


@dataclass(frozen=True)
class Derived:
    """What the microbenchmarks say of a device."""

    fields: Mapping[str, Any]
    constants: Mapping[str, float]
    refused: tuple[str, ...]


def derive(arch: Arch, micro: Microbenchmarks) -> Derived:
    """Fields and constants of the model from the readings."""
    micro, refused = _steady(micro)
    found: dict[str, float | None] = {
        name: micro.get(name) for name in ("launch_s", "block_dispatch_clk", "warp_start_clk")
    }
    if arch.kind == "cpu":
        empty_s = found["launch_s"] or 0.0
        fields = _cpu_fields(arch, micro, empty_s < DISTURBED_S)
        if empty_s >= DISTURBED_S:
            refused.append(
                f"all that takes every core: a region of empty tasks took {1e3 * empty_s:.2g} ms, so the cores were "
                "busy with something else; calibrate again when they are not"
            )
            found = {}
    else:
        fields = _gpu_fields(arch, micro)
        found |= _gpu_constants(arch, micro)
    constants = {}
    for name, value in found.items():
        if value is None:
            continue
        bounds = CONSTANTS[name]
        if not bounds.low / STRAY <= value <= bounds.high * STRAY:
            refused.append(f"{name} = {value:.3g} is outside {bounds.low:g} to {bounds.high:g}: not used")
        else:
            constants[name] = float(f"{min(max(value, bounds.low), bounds.high):.4g}")
    for name, value in list(fields.items()):
        low, high = PLAUSIBLE.get(name, (0.0, float("inf")))
        if name != "matrix" and not low <= value <= high:
            refused.append(f"{name} = {value:.3g} is outside {low:g} to {high:g}: not used")
            del fields[name]
    short = {name: float(f"{v:.4g}") if isinstance(v, float) else v for name, v in fields.items()}
    return Derived(short, constants, tuple(refused))


def _steady(micro: Microbenchmarks) -> tuple[Microbenchmarks, list[str]]:
    """The readings of an idle device, and what is said of the others."""
    shaky = {name: r for name, r in micro.readings.items() if not r.error <= STEADY}
    refused = [
        f"{r.what}: " + (f"it varied by {100 * r.error:.0f} %" if r.value else f"0 to {r.high:.2g} {r.unit}")
        for r in shaky.values()
    ]
    steady = {name: r for name, r in micro.readings.items() if name not in shaky}
    for near, far in pairwise(steady[name] for name in LEVELS if name in steady):
        if far.value > RISE * near.value:
            refused.append(
                f"all bandwidths: {near.what}: {near.value:.3g} B/s, and {far.what}: {far.value:.3g} B/s, which is "
                "farther away and cannot be faster, so the device was busy with something else; calibrate again when "
                "it is not"
            )
            steady = {name: r for name, r in steady.items() if name not in LEVELS}
            break
    return replace(micro, readings=steady), refused


def _gpu_fields(arch: Arch, micro: Microbenchmarks) -> dict[str, Any]:
    read = {
        "l2_bytes_per_s": micro.get("l2_read_bytes_per_s"), "l2_latency_s": micro.get("l2_latency_s"),
        "dram_latency_s": micro.get("dram_latency_s"),
    }  # fmt: skip
    fields: dict[str, Any] = {name: value for name, value in read.items() if value}
    rows = matrix_rows(arch)
    measured = {name: value for name in rows if (value := micro.get(name))}
    moved = {n: v for n, v in measured.items() if abs(v / rows[n].flops_per_clk_per_sm - 1) > DIFFERS}
    if moved:
        fields["matrix"] = tuple(
            replace(row, flops_per_clk_per_sm=float(f"{moved[name]:.4g}")) if name in moved else row
            for name, row in rows.items()
        )
    l2, shared = micro.get("l2_read_bytes_per_s"), micro.get("l2_shared_bytes_per_s")
    if l2 and shared and (merges := shared > MERGES * l2) != (arch.l2_merge_sms > 1):
        fields["l2_merge_sms"] = MERGE_SMS if merges else 1
    return fields


def _gpu_constants(arch: Arch, micro: Microbenchmarks) -> dict[str, float | None]:
    get = micro.get
    l2, dram, shared = (get(f"{level}_bytes_per_s") for level in ("l2_read", "dram_read", "l2_shared"))
    smem, swap = get("smem_bytes_per_clk"), get("atomic_swap_bytes_per_s")
    loads = {}
    for level in ("dram", "l2"):
        busy, idle = get(f"{level}_busy_latency_s"), get(f"{level}_latency_s")
        loads[f"{level}_latency_load"] = busy and idle and busy / idle
    merged = {"l2_merge": max(2.0 * (1.0 - l2 / shared), 0.0)} if l2 and shared else {}  # cost.traffic.merged, for two
    return {
        "dram_efficiency": dram and dram / arch.dram_bytes_per_s, "l2_efficiency": l2 and 1.0, **merged,
        "split_s": get("second_launch_s"), **loads, "smem_efficiency": smem and smem / arch.smem_bytes_per_clk,
        "atomic_share": swap and l2 and swap / l2,
    }  # fmt: skip


def _cpu_fields(arch: Arch, micro: Microbenchmarks, idle: bool) -> dict[str, Any]:
    """Nobody prints a datasheet of a virtual machine: clock and bandwidths are replaced where they differ.

    Bandwidth of DRAM is stated before its efficiency, as a datasheet's is.
    """
    said = {name: micro.get(name) for name in ("clock_hz", "l2_latency_s", "dram_latency_s")}
    if idle:
        said |= {name: micro.get(name) for name in ("l2_bytes_per_s", "l3_bytes_per_s")}
        read = micro.get("dram_read_bytes_per_s")
        said["dram_bytes_per_s"] = read and read / CONSTANTS["dram_efficiency"].prior
    return {name: v for name, v in said.items() if v and abs(v / getattr(arch, name) - 1) > DIFFERS}


def uncalibrated(arch: Arch) -> Arch:
    """The device as its datasheet has it, from a descriptor that calibration wrote."""
    said = arch.fitted_constants("datasheet")
    rows = tuple(
        replace(row, flops_per_clk_per_sm=said.get(name, row.flops_per_clk_per_sm))
        for name, row in matrix_rows(arch).items()
    )
    plain = {name: value for name, value in said.items() if name in section_of}
    source = tuple((key, text.partition(MEASURED)[2] or text) for key, text in arch.source)
    return arch.replace(**plain, matrix=rows, fitted=(), source=tuple(pair for pair in source if pair[1] != NONE))


MEASURED = "measured by carver calibrate; before: "
NONE = "no source"


def with_fields(arch: Arch, fields: Mapping[str, Any]) -> Arch:
    """The measured fields, each with its source, which repeats the one that it replaces."""
    notes = dict(arch.source)
    for name in fields:
        key = f"{section_of[name]}.{name}" if section_of[name] != name else name
        notes[key] = MEASURED + notes.get(key, NONE)
    return arch.replace(**fields, source=tuple(notes.items()))


def datasheet(arch: Arch, fields: Mapping[str, Any]) -> dict[str, float]:
    """The values that `fields` replaces."""
    was = {name: float(getattr(arch, name)) for name in fields if name != "matrix"}
    if "clock_hz" in fields:
        was["matrix_clock_hz"] = arch.matrix_clock_hz
    rows = matrix_rows(arch)
    for row in fields.get("matrix", ()):
        if row != (old := rows[matrix_name(row)]):
            was[matrix_name(row)] = old.flops_per_clk_per_sm
    return was


def unmoved(
    kernel: Kernel, before: Arch, fields: Mapping[str, Any], constants: Mapping[str, float],
    fitted: Mapping[str, float] | None = None,
) -> dict[str, float]:  # fmt: skip
    """What a kernel's own table must say for its predictions to be, with the measured fields and constants, what they
    were `before` with its constants, or with those `fitted` to it then.

    But for fields that no constant multiplies: a measured clock, L3 or rate of matrix instructions holds for all.
    """
    was = {**resolve(kernel, before), **(fitted or {})}
    table = {name: was[name] for name in (*constants, *(fitted or {}))}
    for name, field in PRODUCTS.items():
        if field in fields:
            table[name] = float(f"{was[name] * getattr(before, field) / fields[field]:.4g}")
    return table


def fitted_elsewhere(arch: Arch, fields: Mapping[str, Any], constants: Mapping[str, float]) -> dict[str, Pairs]:
    """Tables of the kernels whose constants were fitted against the datasheet's fields."""
    kernels = [k for operator in operator_files() for k in every(operator) if k.constants]
    here = [k for k in kernels if k.device_kind == arch.kind]
    return {f"{k.operator}/{k.name}": tuple(unmoved(k, arch, fields, constants).items()) for k in here}


def fitted_pairs(about: Mapping[str, str], tables: Mapping[str, Mapping[str, float] | Pairs]) -> Pairs:
    """The `[fitted]` section: what was done, then its tables, without what is no number; empty ones are left out."""
    rows = {name: dict(table) for name, table in tables.items()}
    known = {name: tuple((k, v) for k, v in row.items() if isfinite(v)) for name, row in rows.items()}
    return (*about.items(), *((name, row) for name, row in known.items() if row))


def with_kernel(arch: Arch, name: str, constants: Mapping[str, float], band: tuple[float, float], command: str) -> Arch:
    """A descriptor with one more kernel's constants in `[fitted]`, as `carver calibrate --from --write` makes it."""
    tables: dict[str, Any] = dict(arch.fitted) or about(arch, command)
    tables[name] = tuple(constants.items())
    for side, value in (("error_low", band[0]), ("error_high", band[1])):
        tables[side] = tuple({**dict(tables.get(side, ())), name: float(f"{value:.4g}")}.items())
    return arch.replace(fitted=tuple(tables.items()))


def about(arch: Arch, command: str) -> dict[str, Any]:
    device = arch.device_names[0] if arch.device_names else arch.title
    return {"date": str(date.today()), "device": device, "command": command}


def check_target(path: Path) -> None:
    """Raises ConfigError where a descriptor would take the place of what is no plain file (a device, a pipe), or cannot
    be written."""
    if not (there := existing(path.parent)).is_dir() or not is_writable(there):
        raise ConfigError(f"{path.parent} cannot be written to, or its disk is full; name another file with --out")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no plain file, which a descriptor would replace; name another")


def write(arch: Arch, path: Path | None = None) -> Path:
    """The descriptor in the user's folder, where it is found before the shipped one; whole or not at all."""
    target = path or own_folder() / f"{arch.name}.toml"
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    publish(target, to_toml(arch).encode())
    return target
