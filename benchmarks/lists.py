"""Time every configuration of the autotuned lists of libraries on this GPU, and score carver's ranking of each.

    python benchmarks/lists.py measure --out FILE.jsonl [--only NAME,...] [--limit 540] [--resume]
                                       [--sizes 2,4096,16,128]
    python benchmarks/lists.py score FILE.jsonl [--again] [--only NAME,...] [--worst 20]

`measure` calls the operators of `captured.py`, `gems.py` and `packages.py`, forward and backward, one after another.
At the first call of an autotuned kernel its whole list is compiled side by side and ranked with no measurement, as
`carver.enable_triton` does it, and then timed: medians of runs that are queued at once, the L2 cleared before each. A
line of JSON is written for each call, with the arguments as they were. Inputs are random. Needs PyTorch, Triton and
the libraries; what one of them refuses is printed. `score` prints, for each library and for the worst lists, how much
slower the first k picks are than the best of the list. With `--again` the lists are compiled and ranked anew, with no
GPU; the libraries are needed then as well. `--only flag_gems.` is all of FlagGems, which GEMS_VENDOR=nvidia spares the
question whose GPU it is.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import frame
from compiled import predicted_ms

import carver
from carver.base.errors import CarverError
from carver.compiled.triton import function_of, heuristics

SIZES = "2,4096,16,128"
MOST_S = 120.0
"""For one operator, the compilation of all its lists included."""
LATE = "not compiled within"
"""How the reason begins for what `carver.compiled.forks` gave up."""
FEWEST = 3
"""Different predictions of configurations that ran, below which there is nothing to choose."""
KEPT_VALUES = 4096
"""Integers of one tensor that are written beside its shape, for bounds of loops that are loaded from it."""


def noted(value: Any) -> Any:
    """An argument of a launch as JSON."""
    import torch

    if isinstance(value, torch.Tensor):
        out = {"tensor": str(value.dtype).removeprefix("torch."), "shape": [*value.shape], "strides": [*value.stride()]}
        if not value.dtype.is_floating_point and value.numel() <= KEPT_VALUES:
            out["values"] = value.cpu().tolist()
        return out
    if hasattr(value, "block_shape"):
        laid = {"shape": [*value.shape], "strides": [*value.strides]}
        return {"descriptor": noted(value.base) | laid, "block": [*value.block_shape]}
    if type(value).__module__ == "triton.language.core" and hasattr(value, "name"):
        return {"type": value.name}
    return value if isinstance(value, int | float | str | None) else {"other": repr(value)}


def handed(value: Any) -> Any:
    """The argument that was noted so. Raises ValueError for what JSON does not hold."""
    if not isinstance(value, Mapping):
        return value
    if "other" in value:
        raise ValueError(value["other"])
    if "descriptor" in value:
        base = handed(value["descriptor"])  # the block, of any rank, may be one that the configuration's hook replaces
        return SimpleNamespace(base=base, shape=base.shape, strides=base.strides, block_shape=value["block"])
    if "type" in value:
        from triton.language import dtype

        return dtype(value["type"])
    return carver.Tensor(value["tensor"], tuple(value["shape"]), tuple(value["strides"]))


def meta(kernel: Any, launched: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """What a launch's grid is computed from: arguments, the configuration, and what heuristics make of both."""
    known = {**launched, **config.all_kwargs()}
    return known | heuristics(kernel, known)


def record(out: Path) -> list[str]:
    """From now on every list that Triton tunes is ranked, timed as a whole, and written down.

    The caller keeps the name of the operator that runs in the list that is returned.
    """
    from triton.runtime.autotuner import Autotuner

    from carver.integrations import autotune

    running: list[str] = []
    prune, bench, arch = Autotuner.prune_configs, Autotuner._bench, carver.CUDA("auto")

    def prune_configs(self: Any, kwargs: dict[str, Any], *rest: Any) -> list[Any]:
        configs = list(prune(self, kwargs, *rest))
        given = {**self.nargs, **kwargs}
        launched = {name: value for name, value in given.items() if name not in autotune.LAUNCH_ONLY}
        function, grid = function_of(self.fn), given["grid"]
        row: dict[str, Any] = {
            "operator": "".join(running), "kernel": f"{function.__module__}.{function.__name__}", "arch": arch.name,
            "args": {name: noted(value) for name, value in launched.items()},
            "configs": [dict(config.all_kwargs()) for config in configs],
            "grids": [list(grid(meta(self.fn, launched, c)) if callable(grid) else grid) for c in configs],
        }  # fmt: skip
        began = time.perf_counter()
        try:
            ranking = carver.rank_kernel(
                self.fn, configs, args=launched, grid=grid, arch=arch, values=autotune.Values(launched),
                pool=autotune.copies(self.fn, configs, given, arch), compile="all",
            )  # fmt: skip
            row["predicted_ms"], row["reasons"] = predicted_ms(ranking, len(configs)), dict(ranking.reasons)
        except CarverError as error:
            row["refused"] = f"{type(error).__name__}: {error}"
        row["rank_s"] = time.perf_counter() - began
        self._row, self._listed, self._times = row, configs, {}
        return configs

    def timed(self: Any, *args: Any, config: Any, **kwargs: Any) -> Any:
        """Of the kernel alone: what the configuration's or the tuner's hook clears is cleared once, or not at all.

        What was not compiled in time is not timed. The line is written with the last time of a list, whichever way a
        library's own tuner calls this.
        """
        why = self._row.get("reasons", {}).get(self._listed.index(config), "")
        self.do_bench, hook = frame.queued, config.pre_hook
        if hook is not None:
            hook({**self.nargs, **kwargs, **config.all_kwargs()})
        config.pre_hook = None
        if not getattr(self, "user_defined_pre_hook", False):
            self.pre_hook = self.post_hook = lambda *_, **__: None
        try:
            found = [math.inf] * 3 if why.startswith(LATE) else bench(self, *args, config=config, **kwargs)
        finally:
            config.pre_hook = hook
        self._times[config] = found[0] if math.isfinite(found[0]) else None
        if self._times.keys() >= set(self._listed) and "measured_ms" not in self._row:  # some list one twice
            self._row["measured_ms"] = [self._times[each] for each in self._listed]
            frame.write(out, self._row)
        return found

    Autotuner.prune_configs, Autotuner._bench = prune_configs, timed
    return running


def work(operators: Sequence[str], sizes: str, out: Path) -> None:
    """One operator after another in this process, until one of them breaks what the others need."""
    import captured
    import packages
    import torch

    def filled(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        if not dtype.is_floating_point:
            return torch.randint(0, min(1000, torch.iinfo(dtype).max), shape, dtype=dtype)
        return (torch.randn(shape) * 0.1).to(dtype).requires_grad_(True)

    torch.set_default_device("cuda")
    running = record(out)
    packages.bare()
    packages.give_lists(operators)
    for name, call in captured.calls(filled, tuple(map(int, sizes.split(",")))):  # type: ignore[arg-type]
        if name not in operators:
            continue
        running[:], began, why = [name], time.monotonic(), ""
        try:
            result = call()
            result = result[0] if isinstance(result, tuple) else result
            torch.cuda.synchronize()
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.backward(torch.randn_like(result))
                torch.cuda.synchronize()
        except Exception as error:  # a library's own, or PyTorch's; what was timed before is written
            why = f"{type(error).__name__}: {error}".splitlines()[0][:150]
        print(f"{name}: {time.monotonic() - began:.0f} s {why}", flush=True)
        result = None
        torch.cuda.synchronize()  # raises where the GPU's context is lost: the next process goes on


def watched(worker: subprocess.Popen[str], until: float) -> threading.Timer:
    """Ends a worker that takes too long over one operator."""
    watch = threading.Timer(max(min(MOST_S, until - time.monotonic()), 0), worker.kill)
    watch.start()
    return watch


def measure(options: argparse.Namespace) -> None:
    """Workers one after another, each with the operators that are left."""
    import captured

    until = time.monotonic() + options.limit
    nothing: Callable[..., Any] = lambda *_, **__: None  # noqa: E731
    names = [name for name, _ in captured.calls(nothing, (1, 1, 1, 1))]
    done = {row["operator"] for row in frame.rows(options.out)} if options.resume and options.out.exists() else set()
    left = [name for name in names if not options.only or any(word in name for word in options.only.split(","))]
    left = [name for name in left if name not in done]
    while left and time.monotonic() < until - 5:
        command = [sys.executable, __file__, "measure", "--out", str(options.out), "--sizes", options.sizes]
        worker = subprocess.Popen([*command, "--operators", *left], stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        watch = watched(worker, until)
        for line in worker.stdout:
            watch.cancel()
            print(line, end="", flush=True)
            if line.partition(": ")[0] in left:
                left = left[left.index(line.partition(": ")[0]) + 1 :]
            watch = watched(worker, until)
        watch.cancel()
        if left:
            print(f"{left[0]}: given up", flush=True)
            left = left[1:]


def again(row: dict[str, Any], pool: Any) -> None:
    """Rank the list anew, in place of what was predicted when it was measured."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    module, _, name = row["kernel"].rpartition(".")
    given = kernel = getattr(importlib.import_module(module), name)
    while not isinstance(kernel, Autotuner | JITFunction):
        kernel = kernel.fn
    listed, ranked = (kernel.configs, kernel.fn) if isinstance(kernel, Autotuner) else ([], given)
    grids = list(zip(row["configs"], row["grids"], strict=True))

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(next(grid for config, grid in grids if config.items() <= meta.items()))

    values = {name: v["values"] for name, v in row["args"].items() if isinstance(v, dict) and "values" in v}
    args = {name: handed(value) for name, value in row["args"].items()}
    known = [(config.all_kwargs(), config) for config in listed]  # with hooks that set descriptors' blocks
    configs = [next((own for plain, own in known if plain == config), config) for config in row["configs"]]
    ranking = carver.rank_kernel(
        ranked, configs, args=args, grid=grid, arch=row["arch"], values=values, pool=pool, compile="all"
    )
    row["predicted_ms"] = predicted_ms(ranking, len(row["configs"]))


def score(options: argparse.Namespace) -> None:
    from carver.compiled.pool import Pool

    if options.again:
        import captured
        import torch

        if not torch.cuda.is_available():
            captured.pretend()  # for libraries that ask the GPU when they are imported
        captured.packages.bare()
        with suppress(ImportError):
            captured.gems.pretend()  # which finds the modules of its kernels
    found: dict[str, list[frame.Score]] = defaultdict(list)
    refused: list[str] = []
    with Pool() as pool:
        for row in frame.rows(options.file):
            if options.only and not any(word in row["kernel"] for word in options.only.split(",")):
                continue
            if options.again:
                try:
                    again(row, pool)
                except (CarverError, ValueError, ImportError) as error:
                    row["refused"] = f"{type(error).__name__}: {error}"
            both = zip(row.get("predicted_ms", ()), row["measured_ms"], strict=False)
            if "refused" in row:
                refused.append(f"{row['kernel']}: {row['refused'][:200]}")
            elif len({p for p, m in both if p is not None and m is not None}) >= FEWEST:
                name = f"{row['kernel'].rpartition('.')[2]} ({row['operator']}), {len(row['configs'])}"
                library = row["operator"].partition(".")[0]
                found[library].append(frame.scored(name, row["predicted_ms"], row["measured_ms"]))
    every = [score for scores in found.values() for score in scores]
    lines = [(name, len(scores), *frame.means(scores)) for name, scores in found.items()]
    print(frame.table(("library", "lists", *frame.HEADS), [*lines, ("all", len(every), *frame.means(every))]))
    worst = sorted(every, key=lambda score: -score.lost[0])[: options.worst]
    print("\n" + frame.report(worst, "the worst") if worst else "", *refused, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--only", default="", help="parts of names, with commas")
    measuring.add_argument("--limit", type=float, default=540.0, help="seconds for all")
    measuring.add_argument("--resume", action="store_true", help="leave out operators of which the file has a list")
    measuring.add_argument("--sizes", default=SIZES, help="batch, sequence, heads, width of a head")
    measuring.add_argument("--operators", nargs="*", help=argparse.SUPPRESS)
    scoring = commands.add_parser("score")
    scoring.add_argument("file", type=Path)
    scoring.add_argument("--only", default="", help="parts of the names of kernels, with commas")
    scoring.add_argument("--again", action="store_true")
    scoring.add_argument("--worst", type=int, default=20)
    options = parser.parse_args()
    if options.command == "score":
        score(options)
    elif options.operators:
        work(options.operators, options.sizes, options.out)
    else:
        with tempfile.TemporaryDirectory() as empty:
            os.environ["FLAGGEMS_CACHE_DIR"] = empty  # FlagGems times nothing of which it has kept a time
            measure(options)


if __name__ == "__main__":
    main()
