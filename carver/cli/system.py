"""The commands about devices, caches and this installation."""

from __future__ import annotations

import dataclasses
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import click
import numpy as np

from ..arch import devices
from ..arch.descriptor import IDENTITY, SECTIONS, Arch
from ..base.child import PACKAGE
from ..base.errors import ConfigError
from ..base.folders import cache_folder, trust, trusted
from ..base.given import printable
from ..base.store import NAME, clear
from ..base.table import Column, drawn, in_style, said_left_out, screen_width, several, words
from ..ops.matmul import MatmulTemplate
from ..ops.operator import Template, recommend_many
from . import options as opts


@partial(opts.command, name="archs")
def list_archs(words: tuple[str, ...]) -> opts.Found:
    """List the devices that carver knows. With WORDS, only those of which all are said: parts of a name, a title or an
    ISA, or a generation such as hopper."""
    every = [devices.load(name) for name in sorted({*devices.names(), *devices.own_names()})]
    named = {w: {a.name for a in devices.group(w)} for w in words}  # as --arch takes it
    told_of = {a.name: f"{a.name} {a.title} {a.isa} {a.vendor}".lower() for a in every}
    kept = [a for a in every if all(a.name in named[w] or w.lower() in told_of[a.name] for w in words)]
    if not kept:
        raise ConfigError(f"no device has {' '.join(words)!r} in its name; `carver archs` lists all {len(every)}")
    told = [
        {name: getattr(a, name) for name in IDENTITY} | {
            "sm_count": a.sm_count, "float32_flops_per_s": a.vector_flops_per_s("float32"),
            "float16_flops_per_s": a.flops_per_s("float16"), "dram_bytes_per_s": a.dram_bytes_per_s,
            "l2_bytes": a.l2_bytes, "constants": a.provenance,
        }
        for a in kept
    ]  # fmt: skip
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
    width = screen_width()
    return opts.Found(told, "\n".join([drawn(shown, width, styled=True), *said_left_out(shown, width)]))


arch = opts.Group("arch", help="Show one device: `carver arch show NAME`.")


@partial(opts.command, name="show", group=arch)
def _show(name: str, toml: bool = False, as_json: bool = False) -> opts.Found:
    """Print every constant of a device, with its source."""
    arch = opts.device(name)
    if toml and as_json:
        raise ConfigError("--toml and --json are two forms of the same: give one of the two")
    told = dataclasses.asdict(arch) | {key: dict(getattr(arch, key)) for key in ("vector", "source")}
    return opts.Found(told, devices.to_toml(arch).rstrip("\n") if toml else "\n".join(_lines(arch)))


def _lines(arch: Arch) -> Iterator[str]:
    source, wide = dict(arch.source), screen_width()
    yield in_style(f"{arch.title}  ({arch.name}, {arch.isa})", "bold")
    yield in_style(f"also called {', '.join((*arch.aliases, *arch.device_names)) or 'nothing else'}", "dim")
    sections: dict[str, list[tuple[str, str]]] = {
        section: [(name, _quantity(name, getattr(arch, name))) for name in names]
        for section, names in SECTIONS.items()
        if section != "cpu" or arch.kind == "cpu"
    }
    sections["vector"] = [
        (dtype, f"{rate:g} FLOP/clk/{arch.sm_name}, {arch.vector_flops_per_s(dtype) / 1e12:.4g} TFLOP/s")
        for dtype, rate in arch.vector
    ]
    sections["matrix"] = [
        (f"{row.dtype}, sums {row.accumulate}",
         f"{row.instruction} {'x'.join(map(str, row.shape))}, {row.flops_per_clk_per_sm:g} FLOP/clk/{arch.sm_name}, "
         f"{row.flops_per_clk_per_sm * arch.sm_count * arch.matrix_clock_hz / 1e12:.4g} TFLOP/s")
        for row in arch.matrix
    ]  # fmt: skip
    for section, rows in sections.items():
        if not rows:
            continue
        yield in_style(f"\n{section}", "bold")
        width = max(len(key) for key, _ in rows)
        yield from (f"  {key:<{width}s}  {value}" for key, value in rows)
        for key, text in source.items():
            if key.partition(".")[0] == section:
                said = fill(f"source of {key}: {text}", wide, initial_indent="  ", subsequent_indent="    ")
                yield in_style(said, "dim")
    yield f"\nconstants: {arch.provenance}"


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


cache = opts.Group("cache", help="Manage tuned kernels on disk.")


@partial(opts.command, name="list", group=cache)
def _list_cache() -> opts.Found:
    """List the entries: key, kernel, device, best configuration and time."""
    from ..tune.cache import entries

    rows = [
        {
            "key": e.key, "kernel": e.found.get("name"), "device": e.found.get("env", {}).get("device"),
            "config": e.found.get("config"), "latency_ms": e.found.get("latency_ms"),
            "created_at": e.found.get("env", {}).get("created_at"), "bytes": e.size_bytes, "problem": e.problem,
        }
        for e in entries()
    ]  # fmt: skip
    lines = []
    for row in rows:
        when = str(row["created_at"])[:16].replace("T", " ")
        took = "not measured" if row["latency_ms"] is None else f"{row['latency_ms']:.4g} ms"
        told = f"{when}  {row['kernel']}  {took}  {words(row['config'] or {})}  ({row['device']})"
        lines.append(f"{row['key'][:12]}  {f'unusable: {problem}' if (problem := row['problem']) else told}")
    return opts.Found(rows, opts.folded("\n".join([*lines, f"{len(rows)} in {cache_folder() / NAME}"])))


@partial(opts.command, name="clear", group=cache)
def _clear_cache(keys: tuple[str, ...], binaries: bool = False) -> opts.Found:
    """Delete entries, which are then tuned again. KEYS are the first characters of their keys; without KEYS, all go."""
    from ..tune.cache import chosen, remove

    gone = chosen(keys)
    for entry in gone:
        remove(entry.key)
    if binaries:
        clear()
    return opts.Found({"deleted": len(gone)})


@partial(opts.command, name="export", group=cache)
def _export_cache(file: Path, keys: tuple[str, ...], binaries: bool = False) -> opts.Found:
    """Write tuned results with their kernels, and profiles, to one FILE: all, or those whose keys begin with KEYS."""
    from ..tune.cache import export_archive

    done = export_archive(file, keys, binaries)
    found = f"{several(done.profiles, 'profile')}, {several(done.binaries, 'binary', 'binaries')}"
    said = f"{done.entries} tuned, {found}; SHA-256 {done.sha256}"
    return opts.Found(dataclasses.asdict(done), said)


@partial(opts.command, name="import", group=cache)
def _import_cache(file: Path, sha256: str | None = None, replace: bool = False) -> opts.Found:
    """Put what 'carver cache export' wrote into the cache. Its kernels are code, which then runs with your rights."""
    from ..tune.cache import import_archive

    done = import_archive(file, sha256, replace)
    found = f"{several(done.profiles, 'profile')}, {several(done.binaries, 'binary', 'binaries')}"
    said = f"{done.entries} tuned, {found}; {done.kept} were there already"
    return opts.Found(dataclasses.asdict(done), said)


@partial(opts.command, name="trust", group=cache)
def _trust_cache(folder: Path | None = None, drop: bool = False) -> opts.Found:
    """Trust whoever can write to a cache FOLDER: its kernels run with your rights. Lists what is trusted."""
    if folder is not None:
        trust(folder, drop)
    return opts.Found([str(each) for each in trusted()])


@partial(opts.command, name="why", group=cache)
def _why(key: str, other: str | None = None) -> opts.Found:
    """Print what went into the KEY of an entry, or how two keys differ.

    A key is known by its first characters, as "carver cache list" prints them.
    """
    from ..tune.keys import differences, parts_of, rows

    whole, parts = parts_of(key)
    headings: tuple[str, ...] = ("part", whole[:12])
    found: list[tuple[str, ...]] = [*rows(parts)]
    if other is not None:
        second, others = parts_of(other)
        headings, found = ("part", whole[:12], second[:12]), [*differences(parts, others)]
    told = [dict(zip(headings, row, strict=True)) for row in found]
    return opts.Found(told, None if found else "nothing: it is the same key")


profile = opts.Group("profile", help="Manage what tuning taught about kernels, by kernel and device.")


@partial(opts.command, name="list", group=profile)
def _list_profiles() -> opts.Found:
    """List the profiles: name, device, and number of measurements."""
    from ..tune.cache import profiles

    found = list(profiles())
    rows = [{"name": name, "problem": what} if isinstance(what, str) else
            {"name": name, "of": what.of, "device": what.device, "measurements": len(what.measured),
             "problems": what.problems} for name, what in found]  # fmt: skip
    said = (f"{name}  {f'unusable: {what}' if isinstance(what, str) else what}" for name, what in found)
    return opts.Found(rows, "\n".join([*map(printable, said), f"{len(found)} in {cache_folder() / NAME}"]))


@partial(opts.command, name="show", group=profile)
def _show_profile(name: str) -> opts.Found:
    """Print the constants that measurements moved, as factors of their start; --json prints the whole profile."""
    from ..tune.cache import profile_named

    found = profile_named(name)
    lines = [
        f"  {constant:40s} x {moved['factor']:<8.4g} +/- {100 * moved['deviation']:.0f} %"
        for constant, moved in found.constants.items()
    ]
    return opts.Found(found.to_dict(), "\n".join([f"{found.of} on {found.device}: {found}", *lines]))


@partial(opts.command, name="drop", group=profile)
def _drop_profiles(names: tuple[str, ...]) -> opts.Found:
    """Delete profiles, by the NAMES that 'carver profile list' prints."""
    from ..tune.cache import drop_profiles

    drop_profiles(list(names))
    return opts.Found({"deleted": len(names)})


@opts.command
def doctor() -> opts.Found:
    """Print device, compilers, caches, settings in effect, and what is missing."""
    from ..tune.doctor import examine, report

    found = examine()
    return opts.Found(found, lambda: report(found))


def matmuls(count: int, seed: int = 0) -> list[Template]:
    """Matmuls of M, N and K from 16 to 8192 in multiples of 16, each octave as likely."""
    rng = random.Random(seed)
    sizes = [[16 * round(2 ** rng.uniform(0, 9)) for _ in range(3)] for _ in range(count)]
    return [MatmulTemplate(m, n, k) for m, n, k in sizes]


def timings(
    shapes: Callable[[int, int], list[Template]], arch: Arch, topk: int, backend: str | None, repeats: int, many: int
) -> dict[str, float]:
    """Medians of the thread's CPU time: a query has one and waits for nothing, and other work here adds little.

    `shapes` makes so many problems with a seed, none of which was asked for before.
    """
    warm = [template.with_arch(arch) for template in shapes(20, 1)]
    for template in warm:
        template.recommend_hints(topk, backend)
    new = [_timed(lambda t: t.with_arch(arch).recommend_hints(topk, backend), t) for t in shapes(repeats, 2)]
    rankings = [template.with_arch(arch).recommend_hints(topk, backend) for template in shapes(2 * repeats, 6)]
    made = [_timed(list, ranking) for ranking in rankings[::2]]
    printed = [_timed(repr, ranking) for ranking in rankings[1::2]]
    again = [_timed(warm[0].recommend_hints, topk, backend) for _ in range(repeats)]
    at_once = [_timed(recommend_many, shapes(many, seed), arch, topk, backend) for seed in (3, 4, 5)]
    return {
        "new_shape_ms": statistics.median(new) * 1e3, "repeated_us": statistics.median(again) * 1e6,
        "hints_ms": statistics.median(made) * 1e3, "print_ms": statistics.median(printed) * 1e3,
        "many_s": statistics.median(at_once),
    }  # fmt: skip


_FRESH = """
import time
start = time.thread_time()
import carver
imported = time.thread_time()
carver.MatmulTemplate(4096, 4096, 4096).with_arch({arch!r}).recommend_hints({topk}, {backend!r})
print(imported - start, time.thread_time() - imported)
"""


def fresh(arch: Arch, topk: int, backend: str | None, processes: int) -> dict[str, float]:
    """Medians over new processes: the import, and the first query. [ms]

    CPU time of the thread: that of the process counts NumPy's idle threads, which spin for a while after its import.
    """
    code = _FRESH.format(arch=arch.name, topk=topk, backend=backend)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    how: dict[str, Any] = {"capture_output": True, "text": True, "cwd": Path(PACKAGE).parent, "env": env}
    # the first one writes the bytecode that an installed package has
    asked = [sys.executable, "-c", code]
    runs = [subprocess.run(asked, check=True, **how).stdout.split() for _ in range(processes + 1)]
    imports, firsts = np.median(np.array(runs[1:], float), axis=0) * 1e3
    return {"import_ms": float(imports), "first_ms": float(firsts)}


@opts.command
def skill() -> None:
    """Print what a coding agent reads about carver: what to ask, what the JSON means, when not to."""
    text = (Path(__file__).resolve().parents[1] / "skill" / "SKILL.md").read_text(encoding="utf-8")
    click.echo(text, nl=False)


LINES = (
    ("import carver", "import_ms", "ms"), ("the first query of a process", "first_ms", "ms"),
    ("a new shape", "new_shape_ms", "ms"), ("the same shape again", "repeated_us", "us"),
    ("all of many new shapes at once", "many_s", "s"), ("making the hints of a ranking", "hints_ms", "ms"),
    ("print(ranking), hints made too", "print_ms", "ms"),
)  # fmt: skip


def _timed(run: Callable[..., object], *args: Any) -> float:
    start = time.thread_time()
    run(*args)
    return time.thread_time() - start


@opts.per_operator
def bench_query(
    template: Template, topk: int = 10, backend: str | None = None, repeats: int = 100, many: int = 1000
) -> opts.Found:
    """Measure the CPU time of queries. The shape is new, or the same again, or one of many in one call."""
    arch, problem = template.arch, template.problem
    assert arch is not None
    axis = problem.statement.axes[-1]

    def longer(count: int, seed: int) -> list[Template]:
        sizes = [dict(problem.sizes) | {axis: problem.sizes[axis] + 16 * (i + 1000 * seed)} for i in range(count)]
        return [Template(dataclasses.replace(problem, sizes=each, align_bytes={})) for each in sizes]

    ranking = template.recommend_hints(topk, backend)
    return _told(
        {"problem": str(problem), "arch": arch.name, "topk": topk, "candidates": ranking.candidates}
        | timings(longer, arch, topk, backend, repeats, many),
        f"{problem} and longer on {arch.title}: top {topk} of {ranking.candidates:,} candidates; at once {many:,}",
    )  # fmt: skip


def _told(found: dict[str, Any], title: str) -> opts.Found:
    lines = [f"  {what:<34s} {found[key]:9.3f} {unit}" for what, key, unit in LINES if key in found]
    return opts.Found(found, opts.folded("\n".join([title, *lines])))


@partial(opts.without_operator, bench_query)
def _query_matmuls(many: int = 1000, repeats: int = 200) -> opts.Found:
    """Without an operator, these are matmuls of all sizes on an H200."""
    arch = devices.load("h200")
    found = {"arch": arch.name, "topk": 10, "many": many, **fresh(arch, 10, None, 5)}
    found |= timings(matmuls, arch, 10, None, repeats, many)
    title = f"matmuls of 16 to 8192 each way on {arch.title}, top 10; CPU time; at once {many:,} shapes"
    return _told(found, title)
