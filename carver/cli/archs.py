"""`carver archs` and `carver arch show`: the devices, and all that is known of one."""

from __future__ import annotations

import dataclasses
from textwrap import fill
from typing import Any

import click

from ..arch import devices
from ..arch.descriptor import IDENTITY, SECTIONS, Arch
from ..base.errors import ConfigError
from ..base.table import Column, console, rich_table, said_left_out, screen_width
from .operators import device
from .options import Group, as_json, print_json


@click.command("archs")
@click.argument("words", nargs=-1)
@as_json
def list_archs(words: tuple[str, ...], as_json: bool) -> None:
    """List the devices that carver knows. With WORDS, only those whose name, title or ISA contain all of them."""
    every = [devices.load(name) for name in sorted({*devices.names(), *devices.own_names()})]
    kept = [a for a in every if all(w.lower() in f"{a.name} {a.title} {a.isa} {a.vendor}".lower() for w in words)]
    if not kept:
        raise ConfigError(f"no device has {' '.join(words)!r} in its name; `carver archs` lists all {len(every)}")
    if as_json:
        print_json([{name: getattr(a, name) for name in IDENTITY} | _rates(a) for a in kept])
        return
    shown = [
        Column("name", tuple(a.name for a in kept), is_text=True),
        Column("device", tuple(a.title.removeprefix("NVIDIA ").removeprefix("AMD ") for a in kept), True, "", True),
        Column("ISA", tuple(a.isa for a in kept), is_text=True),
        Column("SMs", tuple(str(a.sm_count) for a in kept)),
        Column("TFLOP/s\nfloat32", tuple(f"{a.vector_flops_per_s('float32') / 1e12:.1f}" for a in kept), spare=1),
        Column("TFLOP/s\nfloat16", tuple(f"{a.flops_per_s('float16') / 1e12:.1f}" for a in kept), spare=2),
        Column("DRAM\nGB/s", tuple(f"{a.dram_bytes_per_s / 1e9:.0f}" for a in kept), spare=3),
        Column("L2\nMB", tuple(f"{a.l2_bytes / 1e6:.1f}" for a in kept), spare=4),
    ]
    console().print(rich_table(shown, width := screen_width()))
    for line in said_left_out(shown, width):
        click.echo(line)


@click.group("arch", cls=Group)
def one_arch() -> None:
    """One device: `carver arch show NAME`."""


@one_arch.command("show")
@click.argument("name")
@click.option("--toml", is_flag=True, help="Print a descriptor file, from which you can write your own.")
@as_json
def show_arch(name: str, toml: bool, as_json: bool) -> None:
    """Print every constant of a device, with its source."""
    arch = device(name)
    if toml and as_json:
        raise ConfigError("--toml and --json are two forms of the same: give one of the two")
    if toml:
        click.echo(devices.to_toml(arch), nl=False)
    elif as_json:
        print_json(dataclasses.asdict(arch) | {key: dict(getattr(arch, key)) for key in ("vector", "source")})
    else:
        _show_arch(arch)


def _show_arch(arch: Arch) -> None:
    from rich.text import Text

    screen, source, wide = console(), dict(arch.source), screen_width()
    screen.print(Text(f"{arch.title}  ({arch.name}, {arch.isa})", "bold"))
    screen.print(Text(f"also called {', '.join((*arch.aliases, *arch.device_names)) or 'nothing else'}", "dim"))
    sections: dict[str, list[tuple[str, str]]] = {
        section: [(name, _quantity(name, getattr(arch, name))) for name in names]
        for section, names in SECTIONS.items()
        if section != "cpu" or arch.kind == "cpu"
    }
    sections["vector"] = [
        (dtype, f"{rate:g} FLOP/clk/SM, {arch.vector_flops_per_s(dtype) / 1e12:.4g} TFLOP/s")
        for dtype, rate in arch.vector
    ]
    sections["matrix"] = [
        (f"{row.dtype}, sums {row.accumulate}",
         f"{row.instruction} {'x'.join(map(str, row.shape))}, {row.flops_per_clk_per_sm:g} FLOP/clk/SM, "
         f"{row.flops_per_clk_per_sm * arch.sm_count * arch.matrix_clock_hz / 1e12:.4g} TFLOP/s")
        for row in arch.matrix
    ]  # fmt: skip
    for section, rows in sections.items():
        if not rows:
            continue
        screen.print(Text(f"\n{section}", "bold"))
        width = max(len(key) for key, _ in rows)
        for key, value in rows:
            screen.print(Text(f"  {key:<{width}s}  {value}"))
        for key, text in source.items():
            if key.partition(".")[0] == section:
                said = fill(f"source of {key}: {text}", wide, initial_indent="  ", subsequent_indent="    ")
                screen.print(Text(said, "dim"))
    screen.print(Text(f"\nconstants: {arch.provenance}"))


def _quantity(name: str, value: object) -> str:
    """A field in a unit that people read."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        for ending, size, unit in (
            ("_hz", 1e9, "GHz"), ("bytes_per_s", 1e9, "GB/s"), ("bits_per_s", 1e9, "Gbit/s"), ("_s", 1e-9, "ns"),
        ):  # fmt: skip
            if name.endswith(ending):
                return f"{value / size:,.5g} {unit}" if value < 1e6 * size else f"{value / size:,.0f} {unit}"
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return str(value)


def _rates(arch: Arch) -> dict[str, Any]:
    return {
        "sm_count": arch.sm_count,
        "float32_flops_per_s": arch.vector_flops_per_s("float32"),
        "float16_flops_per_s": arch.flops_per_s("float16"),
        "dram_bytes_per_s": arch.dram_bytes_per_s,
        "l2_bytes": arch.l2_bytes,
        "constants": arch.provenance,
    }
