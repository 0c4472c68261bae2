"""Lists of a library, tuned again and again in fresh processes on a GPU: does the pick stay, and what does it cost.

    python benchmarks/steady_gpu.py run --out FILE.jsonl [--lists 10] [--times 3] [--limit 110]
    python benchmarks/steady_gpu.py picks --out FILE.jsonl --arch h100_sxm [--lists 10]       # no GPU
    python benchmarks/report.py FILE.jsonl

The lists are those of flash-linear-attention (`fla-core` 0.6.0, einops) in `tests/data/h200/lists.jsonl.gz`, one for
each kernel, with the arguments written there and random values. Ways: Triton's own tuner, `enable_triton(3)`, pinned
(two runs that choose by themselves, and the others from the table of the first). All processes start at once, import
what they need and wait for their turn, so that one measures at a time; they share Triton's compiled code, which is
made before, four lists at a time. All configurations are also timed well: rounds in another order each, L2 cleared
before each run. Every line is written as it comes. `picks` adds what pinned mode takes, computed without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import frame  # noqa: E402
import lists  # noqa: E402

import carver  # noqa: E402

DATA = HERE.parent / "tests/data/h200/lists.jsonl.gz"
FEW, MANY = 5, 15
"""Configurations of a list: fewer leave little to choose, and more take Triton's own tuner too long."""
LONGEST_MS = 0.6
EMPTY = "carver, caches empty"
SIDE = 4
"""Processes that share the lists the first time, when everything is compiled: a list leaves most cores idle."""


def chosen(count: int) -> list[dict[str, Any]]:
    """One list of each kernel whose arguments the file has whole, in an order that is no one's choice."""
    found: dict[str, dict[str, Any]] = {}
    for row in frame.rows(DATA):
        times = [ms for ms in row["measured_ms"] if ms]
        if FEW <= len(row["configs"]) <= MANY and min(times, default=9.0) < LONGEST_MS and made(row["args"]):
            found.setdefault(row["kernel"], row)
    return sorted(found.values(), key=lambda row: sha256(row["kernel"].encode()).hexdigest())[:count]


def made(args: Mapping[str, Any]) -> bool:
    """Whether tensors can be made from what was noted: no descriptor, and integers with their values."""
    noted = [value for value in args.values() if isinstance(value, dict)]
    return all("tensor" in v and ("values" in v or "int" not in v["tensor"]) for v in noted)


def tensor(noted: Mapping[str, Any], device: str) -> Any:
    import torch

    dtype = getattr(torch, noted["tensor"])
    if "values" in noted:
        return torch.tensor(noted["values"], dtype=dtype, device=device)
    out = torch.empty_strided(noted["shape"], noted["strides"], dtype=dtype, device=device)
    return out.copy_(torch.randn(noted["shape"], device=device) * 0.1)


def tuner_of(row: Mapping[str, Any], shuffled: random.Random | None = None) -> tuple[Any, list[Any]]:
    """The library's kernel under a tuner with the list that was measured, and its configurations in that order."""
    import triton
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    module, _, name = row["kernel"].rpartition(".")
    kernel = getattr(importlib.import_module(module), name)
    while not isinstance(kernel, Autotuner | JITFunction):
        kernel = kernel.fn
    own = [(config.all_kwargs(), config) for config in kernel.configs] if isinstance(kernel, Autotuner) else []
    configs = []
    for said in row["configs"]:
        known = next((config for plain, config in own if plain == said), None)
        options = {k: said[k] for k in ("num_warps", "num_ctas", "num_stages") if k in said}
        configs.append(known or triton.Config({k: v for k, v in said.items() if k not in options}, **options))
    order = shuffled.sample(configs[1:], len(configs) - 1) if shuffled else configs[1:]
    keys = kernel.keys if isinstance(kernel, Autotuner) else []
    inner = kernel.fn if isinstance(kernel, Autotuner) else kernel
    return triton.autotune([configs[0], *order], key=list(keys))(inner), configs


def grid_of(row: Mapping[str, Any], configs: Sequence[Any]) -> Any:
    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return next(
            tuple(place) for config, place in zip(configs, row["grids"], strict=True)
            if all(meta.get(k) == v for k, v in config.kwargs.items())
        )  # fmt: skip

    return grid


def picks(options: argparse.Namespace) -> None:
    """What pinned mode takes, on a machine without a GPU, for the arguments that are written in the lists."""
    import torch

    from carver.ranking import pins

    if not torch.cuda.is_available():
        lists.pretend()  # the library asks the GPU when it is imported
    for row in chosen(options.lists):
        tuner, configs = tuner_of(row, random.Random(options.run))
        args = {name: lists.handed(value) for name, value in row["args"].items()}
        began = time.monotonic()
        try:
            pin = pins.pick(tuner.fn, tuner.configs, args=args, grid=grid_of(row, configs),
                            arch=carver.load_arch(options.arch), default=configs[0], margin=options.margin)  # fmt: skip
            place = next(i for i, c in enumerate(configs) if dict(pin.config).items() <= c.all_kwargs().items())
            found: dict[str, Any] = {"place": place, "why": "", "pin": pin.why, "predicted_ms": pin.predicted_ms}
        except carver.CarverError as error:
            found = {"place": 0, "why": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        found["seconds"] = time.monotonic() - began
        way = "pinned, without a GPU" + (f", margin {options.margin:g}" if options.margin is not None else "")
        write(options.out, {"way": way, "run": options.run, "list": row["kernel"], **found})
        print(row["kernel"], found, flush=True)


def waiting() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def write(out: Path, row: Mapping[str, Any]) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def one(options: argparse.Namespace) -> None:
    """One process: what a way of tuning chooses for each list, and seconds of its first call."""
    import torch

    wanted = chosen(options.lists)
    if options.way == EMPTY:
        wanted = wanted[options.run :: SIDE]
    for row in wanted:
        importlib.import_module(row["kernel"].rpartition(".")[0])
    torch.ones(1, device="cuda").sum().item()
    waiting()
    if options.way == "timed":
        timed(wanted, options)
        return
    log, shuffled = None, random.Random(options.run)
    if options.way.startswith("pinned"):
        log = carver.enable_triton(pinned=options.table, record=True, margin=options.margin)
    elif options.way != "triton":
        log = carver.enable_triton(3)
    for row in wanted:
        given = {k: tensor(v, "cuda") if isinstance(v, dict) else v for k, v in row["args"].items()}
        tuner, configs = tuner_of(row, shuffled)
        torch.cuda.synchronize()
        began = time.monotonic()
        try:
            tuner[grid_of(row, configs)](**given)
            torch.cuda.synchronize()
            seconds = time.monotonic() - began
            best = tuner.best_config.all_kwargs()
            place = next(i for i, config in enumerate(configs) if config.all_kwargs() == best)
            found = {"place": place, "seconds": seconds, "why": log[-1].why if log else ""}
            if log and log.pinned:
                found["pin"] = log[-1].pin
        except Exception as error:  # a list that does not run is a result
            found = {"place": None, "why": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        write(options.out, {"way": options.way, "run": options.run, "list": row["kernel"], **found})


def timed(wanted: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> None:
    """Whole lists: rounds over all configurations, in another order each, and the medians of these rounds."""
    import torch

    until, order = time.monotonic() + options.limit, random.Random(0)
    for row in wanted:
        given = {k: tensor(v, "cuda") if isinstance(v, dict) else v for k, v in row["args"].items()}
        tuner, configs = tuner_of(row)
        rounds: list[list[float]] = [[] for _ in configs]
        for _ in range(options.rounds):
            for i in order.sample(range(len(configs)), len(configs)):
                if time.monotonic() > until:
                    break
                launch, config = tuner.fn[tuple(row["grids"][i])], configs[i]

                launched = functools.partial(launch, **given, **config.all_kwargs())
                try:
                    rounds[i].append(frame.queued(launched)[0])
                except Exception as error:  # a configuration that does not run is a result
                    print(f"{row['kernel']} {config}: {type(error).__name__}", file=sys.stderr)
        write(options.out, {"timed": row["kernel"], "configs": row["configs"], "rounds_ms": rounds,
                            "gpu": torch.cuda.get_device_name()})  # fmt: skip


def run(options: argparse.Namespace) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        shared = os.environ | {"TRITON_CACHE_DIR": f"{home}/triton", "CARVER_CACHE_DIR": f"{home}/carver"}
        times = range(options.times)
        ways = [*((EMPTY, i, "") for i in range(SIDE)), ("timed", 0, "")]
        ways += [*(("triton", i, "") for i in times), *(("carver", i, "") for i in times)]
        ways += [("pinned", i, f"pins{i}") if i < 2 else ("pinned, table", i, "pins0") for i in times]
        ways = [way for way in ways if not options.ways or way[0] in (EMPTY, *options.ways)]
        started: list[Any] = []
        for way, i, table in ways:
            command = [sys.executable, str(Path(__file__)), "one", "--way", way, "--run", str(i), "--out",
                       str(options.out.resolve()), "--lists", str(options.lists), "--table", f"{home}/{table}",
                       "--rounds", str(options.rounds), "--limit", str(3 * options.lists)]  # fmt: skip
            command += ["--margin", str(options.margin)] if options.margin is not None else []
            pipe = subprocess.PIPE
            started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=shared))
        for process in started:
            process.stdout.readline()
        print(f"{len(started)} processes are ready after {time.monotonic() - began:.0f} s", flush=True)
        for together in (started[:SIDE], *([process] for process in started[SIDE:])):
            for process in together:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write("go\n")
                    process.stdin.flush()
            for process in together:
                try:
                    process.communicate(timeout=max(options.limit - (time.monotonic() - began), 0.1))
                except (subprocess.TimeoutExpired, BrokenPipeError):
                    process.kill()
                    process.wait()
                way, i, _ = ways[started.index(process)]
                print(f"{way} {i} ended with {process.returncode} after {time.monotonic() - began:.0f} s", flush=True)
        for path in Path(home).glob("pins0/*.json"):
            (options.out.parent / f"pins_{path.name}").write_bytes(path.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in {"run": run, "one": one, "picks": picks}.items():
        made = commands.add_parser(name)
        made.set_defaults(function=function)
        made.add_argument("--out", type=Path, required=True)
        made.add_argument("--lists", type=int, default=10)
        made.add_argument("--times", type=int, default=3)
        made.add_argument("--rounds", type=int, default=3)
        made.add_argument("--ways", nargs="+", default=[], help="triton, carver, pinned, timed; all of them by default")
        made.add_argument("--limit", type=float, default=110.0, help="seconds for all")
        made.add_argument("--margin", type=float)
        made.add_argument("--way", default="triton")
        made.add_argument("--run", type=int, default=0)
        made.add_argument("--table", default="")
        made.add_argument("--arch", default="h100_sxm")
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
