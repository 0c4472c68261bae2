"""The commands around tuning: `carver cache`, `carver doctor`, `carver simulate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..base.errors import ConfigError, nearest
from ..base.folders import cache_folder
from ..base.given import number, printable
from ..base.store import NAME
from ..base.table import Column, console, rich_table, screen_width, words
from .evaluate import reading, tell_or_fail
from .options import OUTPUT, Group, as_json, print_json


@click.group(cls=Group)
def cache() -> None:
    """Manage tuned kernels on disk."""


@cache.command("list")
@as_json
def list_cache(as_json: bool) -> None:
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
    if as_json:
        print_json(rows)
        return
    for row in rows:
        if row["problem"]:
            click.echo(f"{row['key'][:12]}  unusable: {row['problem']}")
            continue
        when = str(row["created_at"])[:16].replace("T", " ")
        took = "not measured" if row["latency_ms"] is None else f"{row['latency_ms']:.4g} ms"
        said = f"{row['kernel']}  {took}  {words(row['config'])}  ({row['device']})"
        click.echo(f"{row['key'][:12]}  {when}  {said}")
    click.echo(f"{len(rows)} in {cache_folder() / NAME}")


@cache.command("clear")
@click.argument("keys", nargs=-1)
@click.option("--binaries", is_flag=True, help="Also delete what compilers made and unpacked sources.")
@as_json
def clear_cache(keys: tuple[str, ...], binaries: bool, as_json: bool) -> None:
    """Delete entries, which are then tuned again. KEYS are the first characters of their keys; without KEYS, all go."""
    from ..base.store import clear
    from ..tune.cache import chosen, remove

    gone = chosen(keys)
    for entry in gone:
        remove(entry)
    if binaries:
        clear()
    print_json({"deleted": len(gone)}) if as_json else click.echo(f"{len(gone)} deleted")


@cache.command("export")
@click.argument("file", type=OUTPUT)
@click.argument("keys", nargs=-1)
@click.option(
    "--binaries", is_flag=True, help="Also write the compiled kernels of all candidates, not only of the best."
)
@as_json
def export_cache(file: Path, keys: tuple[str, ...], binaries: bool, as_json: bool) -> None:
    """Write tuned results with their kernels, and profiles, to one FILE: all, or those whose keys begin with KEYS."""
    from ..tune.archive import export

    done = export(file, keys, binaries)
    said = f"{done.entries} tuned, {done.profiles} profiles, {done.binaries} binaries; SHA-256 {done.sha256}"
    print_json(asdict(done)) if as_json else click.echo(said)


@cache.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--sha256", help="SHA-256 of the archive, as 'carver cache export' printed it; another archive is refused."
)
@click.option("--replace", is_flag=True, help="Replace entries that are there already.")
@as_json
def import_cache(file: Path, sha256: str | None, replace: bool, as_json: bool) -> None:
    """Put what 'carver cache export' wrote into the cache. Its kernels are code, which then runs with your rights."""
    from ..tune.archive import load

    done = load(file, sha256, replace)
    said = f"{done.entries} tuned, {done.profiles} profiles, {done.binaries} binaries; {done.kept} were there already"
    print_json(asdict(done)) if as_json else click.echo(said)


@cache.command("trust")
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--drop", is_flag=True, help="Stop trusting it.")
@as_json
def trust_cache(folder: Path | None, drop: bool, as_json: bool) -> None:
    """Trust whoever can write to a cache FOLDER: its kernels run with your rights. Lists what is trusted."""
    from ..base.folders import trust, trusted

    if folder is not None:
        trust(folder, drop)
    if as_json:
        print_json([str(each) for each in trusted()])
        return
    for each in trusted():
        click.echo(each)


@cache.command("why")
@click.argument("key")
@click.argument("other", required=False)
@as_json
def why(key: str, other: str | None, as_json: bool) -> None:
    """Print what went into the KEY of an entry, or how two keys differ.

    A key is known by its first characters, as "carver cache list" prints them.
    """
    from rich.table import Table
    from rich.text import Text

    from ..tune.why import differences, parts_of, rows

    whole, parts = parts_of(key)
    headings: tuple[str, ...] = ("part", whole[:12])
    found: list[tuple[str, ...]] = [*rows(parts)]
    if other is not None:
        second, others = parts_of(other)
        headings, found = ("part", whole[:12], second[:12]), [*differences(parts, others)]
    if as_json:
        print_json([dict(zip(headings, row, strict=True)) for row in found])
    elif not found:
        click.echo("nothing: it is the same key")
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for row in found:
            table.add_row(*map(Text, row))
        console().print(table)


@click.group(cls=Group)
def profile() -> None:
    """Manage what tuning taught about kernels, by kernel and device."""


@profile.command("list")
@as_json
def list_profiles(as_json: bool) -> None:
    """List the profiles: name, device, and number of measurements."""
    from ..tune.profiles import every

    found = list(every())
    if as_json:
        rows = [{"name": name, "problem": what} if isinstance(what, str) else
                {"name": name, "of": what.of, "device": what.device, "measurements": len(what.measured),
                 "problems": what.problems} for name, what in found]  # fmt: skip
        print_json(rows)
        return
    for name, what in found:
        said = f"unusable: {what}" if isinstance(what, str) else str(what)
        click.echo(f"{printable(name)}  {said}")
    click.echo(f"{len(found)} in {cache_folder() / NAME}")


@profile.command("show")
@click.argument("name")
@as_json
def show_profile(name: str, as_json: bool) -> None:
    """Print the constants that measurements moved, as factors of their start; --json prints the whole profile."""
    from ..tune.profiles import named

    found = named(name)
    if as_json:
        print_json(found.to_dict())
        return
    click.echo(f"{found.of} on {found.device}: {found}")
    for constant, moved in found.constants.items():
        click.echo(f"  {constant:40s} x {moved['factor']:<8.4g} +/- {100 * moved['deviation']:.0f} %")


@profile.command("drop")
@click.argument("names", nargs=-1, required=True)
@as_json
def drop_profiles(names: tuple[str, ...], as_json: bool) -> None:
    """Delete profiles, by the NAMES that 'carver profile list' prints."""
    from ..tune.profiles import drop

    drop(list(names))
    print_json({"deleted": len(names)}) if as_json else click.echo(f"{len(names)} deleted")


@click.command("bench-call")
@click.option("--device", default="auto", help="cpu, cuda or cuda:1.")
@click.option("--rounds", type=click.IntRange(1), default=200, help="Number of rounds of 100 calls.")
@as_json
def bench_call(device: str, rounds: int, as_json: bool) -> None:
    """Measure the cost of calling a tuned kernel. It has three arrays. The launch of an empty kernel is subtracted."""
    from ..tune.callcost import costs

    name, found = costs(device, rounds)
    least = found[0].median_us
    if as_json:
        rows = [{**asdict(cost), "over_us": cost.median_us - least} for cost in found]
        print_json({"device": name, "rounds": rounds, "calls": rows})
        return
    columns = [
        Column("call", tuple(cost.what for cost in found), is_text=True),
        Column("us", tuple(f"{cost.median_us:.2f}" for cost in found)),
        Column("over the first", tuple(f"{cost.median_us - least:+.2f}" for cost in found)),
        Column("least", tuple(f"{cost.least_us:.2f}" for cost in found)),
    ]
    click.echo(f"{name}, medians of {rounds} rounds of 100 calls")
    console().print(rich_table(columns, screen_width()))


@click.command()
@as_json
def doctor(as_json: bool) -> None:
    """Print device, compilers, caches, settings in effect, and what is missing."""
    from ..tune.doctor import examine, report

    found = examine()
    print_json(found) if as_json else click.echo(report(found))


@click.command()
@click.argument("tables", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--most", type=click.IntRange(1), default=50, help="Most problems of a table to use, spread evenly.")
@click.option("--seeds", type=click.IntRange(1), default=5, help="Replays of a search that uses random numbers.")
@click.option("--compile-s", type=click.FloatRange(0), default=2.0, help="Assumed time to compile one candidate. [s]")
@click.option("--rep", type=click.IntRange(1), default=100, help="Timed runs of each candidate.")
@click.option("--search", "searches", multiple=True, metavar="NAME", help="Replay only this strategy; repeatable.")
@as_json
def simulate(
    tables: tuple[Path, ...], most: int, seeds: int, compile_s: float, rep: int, searches: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Replay search strategies on measured TABLES. Prints trials and seconds until within 1 % of the best."""
    from ..evaluate.simulate import SEARCHES, Cost, table, to_dict
    from ..evaluate.simulate import simulate as replay_all
    from ..evaluate.tables import read

    if unknown := [name for name in searches if name not in SEARCHES]:
        raise ConfigError(f"no search {unknown[0]!r}; {nearest(unknown[0], SEARCHES)}")
    cost = Cost(compile_s=number("--compile-s", compile_s, ConfigError), rep=rep)
    formats = reading().formats
    cases: list[Any] = []
    for path in tables:
        found = list(read(path, tell_or_fail, formats))
        cases += found[:: -(-len(found) // most)] if found else []
    if not cases:
        raise ConfigError(f"no measured problems in {', '.join(map(str, tables))}")
    traces = replay_all(cases, seeds, cost, searches or tuple(SEARCHES))
    if not traces:
        raise ConfigError(f"no problem of {', '.join(map(str, tables))} has two configurations to choose from")
    if as_json:
        print_json(to_dict(traces))
        return
    console().print(table(traces, screen_width()))
