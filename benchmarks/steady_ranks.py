"""Ranks of torch.distributed that tune the same lists, each on its own GPU: do they choose alike, and at what cost.

    python benchmarks/steady_ranks.py --out FILE.jsonl [--ranks 2] [--lists 4] [--limit 150]
    python benchmarks/steady_ranks.py --report FILE.jsonl

Lists of flash-linear-attention as `steady_gpu.py` takes them, and of kernels of this repository. Ways, the cheap first:
pinned without a table, with the table that rank 0 recorded, with one entry of rank 1's edited, which ranks must find by
the hash; `enable_triton(3)`; Triton's own tuner. Ranks of a way start together with empty caches that they share, as on
one host, meet before each list by NCCL, and exchange their picks afterwards. Without GPUs, `--gloo` runs the pinned
ways alone, for a device of `--arch`, with `--lists 0`, and launches nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import steady_gpu
import zoo

import carver
from carver.ranking import pins

OWN = ("layer_norm", "cross_entropy", "gated_matmul")
CONFIGS = 12
"""Of a list of the repository's own kernels."""
WAYS = ("pinned", "pinned, table", "pinned, edited", "timed", "triton")
MOST_S = 60.0
"""For one way."""


def calls(count: int, device: str) -> Iterator[tuple[str, Any, Callable[[], Any]]]:
    """A name, a tuner and a launch of it, of each list."""
    import triton

    for row in steady_gpu.chosen(count):
        given = {k: steady_gpu.tensor(v, device) if isinstance(v, dict) else v for k, v in row["args"].items()}
        tuner, configs = steady_gpu.tuner_of(row)
        launch = functools.partial(tuner.run, grid=steady_gpu.grid_of(row, configs), warmup=False, **given)
        yield row["kernel"].rpartition(".")[2], tuner, launch
    for name in OWN:
        subject = zoo.BY_NAME[name]
        problem = subject.problems[0]
        listed = subject.configs(problem, CONFIGS)
        tensors = zoo.inputs(subject, problem, listed[0], device) | zoo.zeroed(subject, problem, listed[0], device)
        names = set(subject.kernel.arg_names)
        options = [{k: v for k, v in each.items() if k not in names} for each in listed]
        configs = [
            triton.Config({k: v for k, v in each.items() if k in names}, **more)
            for each, more in zip(listed, options, strict=True)
        ]
        plain = {k: v for k, v in subject.args(problem, listed[0]).items() if k in names and k not in listed[0]}
        given = {**plain, **tensors, **subject.constants(problem)}
        tuner = triton.autotune(configs, key=[])(subject.kernel)

        def grid(meta: Mapping[str, Any], s: Any = subject, p: Any = problem, keys: Any = tuple(listed[0])) -> Any:
            return s.grid(p, {k: meta[k] for k in keys if k in meta})

        yield name, tuner, functools.partial(tuner.run, grid=grid, warmup=False, **given)


def rank(options: argparse.Namespace) -> None:
    """One rank of one way."""
    import torch
    from torch import distributed

    me, way = int(os.environ["RANK"]), options.way
    device = "cpu" if options.gloo else f"cuda:{me}"
    if not options.gloo:
        torch.cuda.set_device(me)
    every = list(calls(options.lists, device))
    steady_gpu.waiting()
    distributed.init_process_group(
        "gloo" if options.gloo else "nccl", device_id=None if options.gloo else torch.device(device)
    )
    log: Any = None
    if way == "timed":
        log = carver.enable_triton(3, options.arch)
    elif way.startswith("pinned"):
        log = carver.enable_triton(
            arch=options.arch, pinned=options.table or True, record=way == "pinned" and me == 0 and bool(options.table)
        )
    for at, (name, tuner, launch) in enumerate(every):
        distributed.barrier()
        began, place, why = time.monotonic(), -1, ""
        try:
            launch()
            if not options.gloo:
                torch.cuda.synchronize()
        except Exception as error:  # a list that does not run is a result
            why = "" if options.gloo else f"{type(error).__name__}: {error}".splitlines()[0][:200]
        if not why and hasattr(tuner, "best_config"):
            place = next(i for i, each in enumerate(tuner.configs) if each is tuner.best_config)
        seconds = time.monotonic() - began
        mine = torch.tensor([place, log.hash if log and log.pinned else 0], device=device)
        theirs = [torch.empty_like(mine) for _ in range(distributed.get_world_size())]
        distributed.all_gather(theirs, mine)
        places, hashes = zip(*(each.tolist() for each in theirs), strict=True)
        steady_gpu.write(options.out, {
            "way": way, "rank": me, "at": at, "list": name, "listed": len(tuner.configs), "places": places,
            "hashes_agree": len(set(hashes)) == 1, "seconds": seconds, "why": why or (log[-1].why if log else ""),
        })  # fmt: skip
    distributed.destroy_process_group()


def edited(table: Path, arch: str) -> Path:
    """A copy of a table in which one kernel's pick is another of its candidates."""
    pin, *rest = pins.Table.read(table, arch).pins.values()
    other = next(each["config"] for each in pin.candidates if each["config"] != pin.config)
    out = table.parent.with_name("edited") / table.name
    pins.add(out, arch, [replace(pin, config=other), *rest])
    return out


def run(options: argparse.Namespace) -> None:
    until = time.monotonic() + options.limit
    options.out.touch()
    ways = [way for way in WAYS if way in (options.ways or WAYS) and (way.startswith("pinned") or not options.gloo)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        started: dict[str, list[subprocess.Popen[str]]] = {}
        for way in ways:
            caches = Path(home) / way.replace(", ", "-")
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = str(free.getsockname()[1])
            shared = os.environ | {
                "TRITON_CACHE_DIR": f"{caches}/triton", "CARVER_CACHE_DIR": f"{caches}/carver", "MASTER_PORT": port,
                "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": str(options.ranks),
            }  # fmt: skip
            command = [sys.executable, __file__, "--out", str(options.out.resolve()), "--lists", str(options.lists)]
            command += ["--arch", options.arch, "--way", way, *(["--gloo"] if options.gloo else [])]
            started[way] = []
            for me in range(options.ranks):
                # the table of rank 0 is one of its own while it is written
                table = f"{home}/{'edited' if me == 1 and way == 'pinned, edited' else 'pins'}"
                mine = ["--table", table] if way.startswith("pinned,") or me == 0 else []
                started[way].append(subprocess.Popen(
                    [*command, *mine], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    env=shared | {"RANK": str(me)},
                ))  # fmt: skip
        for process in (each for pair in started.values() for each in pair):
            assert process.stdout is not None
            process.stdout.readline()
        print(f"all are ready, {until - time.monotonic():.0f} s are left", flush=True)
        for way, pair in started.items():
            if way == "pinned, edited":
                with contextlib.suppress(StopIteration):  # nothing was recorded
                    table = next((Path(home) / "pins").glob("*.json"))
                    two = [str(table), str(edited(table, table.stem))]
                    merge = [sys.executable, "-m", "carver", "pins", "merge", *two, "-o", f"{home}/merged.json"]
                    done = subprocess.run(merge, capture_output=True, text=True, check=False)
                    said = {"merge of the edited table": done.returncode, "says": done.stderr.strip()[:300]}
                    steady_gpu.write(options.out, said)
            began = time.monotonic()
            for process in pair:
                steady_gpu.go(process)
            for process in pair:
                try:
                    process.wait(max(min(until, began + MOST_S) - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    process.kill()
            print(f"{way}: {[process.wait() for process in pair]} after {time.monotonic() - began:.0f} s", flush=True)
    report(options.out)


def report(path: Path) -> None:
    """A line for each way."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    own: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if "way" in row and -1 not in row["places"]:
            own[row["way"], row["at"]][row["rank"]] = row["seconds"]
    for way in dict.fromkeys(row["way"] for row in rows if "way" in row):
        some = [row for row in rows if row.get("way") == way and row["rank"] == 0 and -1 not in row["places"]]
        alike = sum(len(set(row["places"])) == 1 for row in some)
        seconds = [f"{sum(each.get(me, 0.0) for (w, _), each in own.items() if w == way):.1f} s" for me in (0, 1)]
        both = [at for at in range(len(own)) if own.get((way, at)) and own.get(("triton", at))]
        over = [max(own[way, at].values()) / max(own["triton", at].values()) for at in both]
        agree = f", hashes after {sum(row['hashes_agree'] for row in some)}" * way.startswith("pinned")
        print(f"{way}: {alike} of {len(some)} lists alike on all ranks{agree}; ranks' first calls {', '.join(seconds)}"
              + (f", {geometric_mean(over):.2f} of Triton's" if over else ""))  # fmt: skip
    for row in rows:
        if "way" not in row:
            print(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--lists", type=int, default=4, help="of flash-linear-attention")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds for all")
    parser.add_argument("--ways", nargs="+", choices=WAYS)
    parser.add_argument("--arch", default="auto")
    parser.add_argument("--gloo", action="store_true", help="no GPU")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--table", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report:
        report(options.report)
    else:
        (rank if options.way else run)(options)


if __name__ == "__main__":
    main()
