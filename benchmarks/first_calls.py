"""Where the CPU time of a first call of `enable_triton` goes: lists of fla-core of 20 and more, nothing timed, no GPU.

    python benchmarks/first_calls.py measure --out FILE.jsonl [--only 0,9,34] [--processes 2]
    python benchmarks/first_calls.py show FILE.jsonl

Each list is ranked with empty caches in a process of its own, by the copies of it that compile what Triton would. The
library is needed.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import resource
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frame
import lists
from few_compiles import FITTED, LEAST_ENTRIES, TABLES

OTHER = "processes, Triton's cache, and the rest"


def cpu_s() -> float:
    """Of this process and of those that it started and that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def noted(owner: Any, name: str, part: str, out: int, within: list[float]) -> None:
    """From now on each call adds a line to the file: its part, and its seconds without those of noted calls in it."""
    call: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = cpu_s()
        within.append(0.0)
        try:
            return call(*args, **kwargs)
        finally:
            took = cpu_s() - began
            os.write(out, f"{json.dumps([part, took - within.pop()])}\n".encode())
            if within:
                within[-1] += took

    setattr(owner, name, staticmethod(timed) if isinstance(owner, type) and "self" not in _names(call) else timed)


def _names(call: Callable[..., Any]) -> tuple[str, ...]:
    return call.__code__.co_varnames[: call.__code__.co_argcount]


def parts_of(place: int, processes: int, folder: str) -> dict[str, Any]:
    """CPU seconds of a list by part, and what was compiled. In a process that ranked nothing before."""
    os.environ |= {"CARVER_CACHE_DIR": f"{folder}/carver", "TRITON_CACHE_DIR": f"{folder}/triton"}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processes])
    lists.pretend()
    import torch
    import triton
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler.compiler import ASTSource

    from carver.arch.devices import load
    from carver.compiled import inspect, worker
    from carver.compiled.isa import sass
    from carver.integrations import autotune

    row = listed()[place]
    kernel, out, within = lists.kernel_of(row), Path(folder, "parts"), list[float]()
    args = {name: lists.handed(value) for name, value in row["args"].items()}
    given = {
        name: torch.empty_strided(v.shape, v.strides, dtype=getattr(torch, v.dtype)) if hasattr(v, "strides") else v
        for name, v in args.items()
    }
    own = ("num_warps", "num_stages", "num_ctas")
    configs = [
        triton.Config({n: v for n, v in each.items() if n not in own}, **{n: each[n] for n in own if n in each})
        for each in row["configs"]
    ]
    file = os.open(out, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    for owner, names, part in (
        (ASTSource, ("make_ir",), "front end"), (CUDABackend, ("make_ttir", "make_ttgir"), "front end"),
        (CUDABackend, ("make_llir", "make_ptx", "make_cubin"), "back end"), (sass, ("disassemble",), "disassembler"),
        (worker, ("read_machines",), "reading"), (inspect, ("_followed", "_gathered"), "facts"),
        (worker, ("hashed", "table"), "once a process"),
    ):  # fmt: skip
        for name in names:
            noted(owner, name, part, file, within)
    began = cpu_s()
    autotune.ranked(kernel.fn, configs, {**given, "grid": lists.grid_of(row)}, load(row["arch"]), 3)
    for thread in threading.enumerate():  # which end the copies
        if thread is not threading.current_thread():
            thread.join()
    spent, found, counts = cpu_s() - began, Counter[str](), Counter[str]()
    for part, seconds in map(json.loads, out.read_text().splitlines()):
        found[part] += seconds
        counts[part] += 1
    return {
        "kernel": row["kernel"], "listed": len(configs), "compiled": counts["back end"] // 3,
        "disassemblers": counts["disassembler"], "cpu_s": round(spent, 2),
        "parts_s": {part: round(seconds, 2) for part, seconds in found.items()},
    }  # fmt: skip


def listed() -> list[dict[str, Any]]:
    return [row for row in frame.rows(frame.DATA / TABLES[FITTED]) if len(row["configs"]) >= LEAST_ENTRIES]


def show(file: Path) -> str:
    rows = list(frame.rows(file))
    parts = list(dict.fromkeys(part for row in rows for part in row["parts_s"]))
    lines = [
        (row["kernel"].rpartition(".")[2], row["listed"], row["compiled"], row["disassemblers"], row["cpu_s"],
         *(row["parts_s"].get(part, 0.0) for part in parts), round(row["cpu_s"] - sum(row["parts_s"].values()), 2))
        for row in rows
    ]  # fmt: skip
    return frame.table(("kernel", "listed", "compiled", "disassemblers", "CPU s", *parts, OTHER), lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    measuring = what.add_parser("measure")
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--only", default="0,9,34")
    measuring.add_argument("--processes", type=int, default=2)
    what.add_parser("show").add_argument("file", type=Path)
    asked = parser.parse_args()
    if asked.what == "show":
        print(show(asked.file))
        return
    for place in map(int, asked.only.split(",")):
        with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as fresh:
            frame.write(asked.out, fresh.apply(parts_of, (place, asked.processes, folder)))


if __name__ == "__main__":
    main()
