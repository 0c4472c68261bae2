"""Lists of a library, tuned again and again in fresh processes on a GPU: does the pick stay, and what does it cost.

    python benchmarks/steady_gpu.py run --out FILE.jsonl [--lists 10] [--times 3] [--limit 110]
    python benchmarks/steady_gpu.py picks --out FILE.jsonl --arch h100_sxm [--lists 10]       # no GPU
    python benchmarks/report.py FILE.jsonl

The lists are those of flash-linear-attention (`fla-core` 0.6.0, einops) in `tests/data/h200/lists.jsonl.gz`, one for
each kernel, with the arguments written there and random values. Ways: Triton's own tuner, `enable_triton(3)`, pinned
(two runs that choose by themselves, and the others from the table of the first). All processes start at once, import
what they need and wait for their turn, so that one measures at a time; they share Triton's compiled code, which is
made before, four lists at a time. With `--gpus 4` as many measure at a time, each on its own GPU, as the ranks of a
distributed program do. All configurations are also timed well: rounds in another order each, L2 cleared before each
run. Every line is written as it comes. `picks` adds what pinned mode takes, computed without a GPU.

With `--layers 20` there follow decoders of so many layers, compiled by PyTorch: in deterministic mode, with
`carver.export.inductor.pinned` (two processes), and with max-autotune. They are compiled side by side, and measured one
after another: milliseconds of a replayed CUDA graph, a hash of the output's bits in two runs, and of what was taken.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

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


ARMS = ("deterministic", "pinned", "pinned again", "max-autotune", "pinned, Triton's matmuls")
LAYERS = "layers, "
TOKENS = 1024


def compiled(options: argparse.Namespace) -> None:
    """One process: a decoder compiled by Inductor in one of its ways."""
    import torch
    from kernels.decoder import HEAD, Block

    from carver.export import inductor

    config, arm = torch._inductor.config, options.way.removeprefix(LAYERS)
    torch.manual_seed(0)
    sizes = {"hidden": 2048, "inner": 5632, "heads": 16, "kv_heads": 4}
    layers = torch.nn.ModuleList(Block(**sizes) for _ in range(options.layers)).to("cuda", torch.bfloat16).eval()
    x = torch.randn(TOKENS, sizes["hidden"], device="cuda", dtype=torch.bfloat16)
    angles = torch.outer(torch.arange(TOKENS), 10000.0 ** -(torch.arange(HEAD) % (HEAD // 2) * 2 / HEAD)).cuda()
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()

    def decoder(y: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            y = layer(y, cos, sin)
        return y

    waiting()
    if arm.startswith("pinned"):
        ways: Any = inductor.pinned(library="Triton" not in arm)
    elif arm == "deterministic":
        ways = config.patch(deterministic=True)
    else:
        ways = config.patch(max_autotune=True)
    with torch.no_grad(), nothing_kept(), ways as log:
        began = time.monotonic()
        run = torch.compile(decoder)
        first = run(x)
        torch.cuda.synchronize()
        row: dict[str, Any] = {"arm": arm, "layers": options.layers, "compile_s": time.monotonic() - began}
        if arm.startswith("pinned"):
            row |= {"hash": log.hash, "refused": log.refused, "taken": [str(pin) for pin in log.picks.values()]}
            row["lists"] = [len(pin.candidates) for pin in log.picks.values()]
        write(options.out, row)
        waiting()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = run(x)
        times = [frame.queued(graph.replay)[0] for _ in range(5)]
        bits = [sha256(y.view(torch.int16).cpu().numpy().tobytes()).hexdigest()[:16] for y in (first, found)]
        write(options.out, {"arm": arm, "ms": sorted(times)[2], "times_ms": times, "bits": bits,
                            "torch": torch.__version__, "gpu": torch.cuda.get_device_name()})  # fmt: skip


@contextlib.contextmanager
def nothing_kept() -> Iterator[None]:
    """Neither a compiled graph nor a tuning result of before."""
    import torch

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,  # compilers may still write there
        torch._inductor.config.patch(force_disable_caches=True),
        mock.patch.dict("os.environ", TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=f"{folder}/triton"),
    ):
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()


def waiting() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def write(out: Path, row: Mapping[str, Any]) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def one(options: argparse.Namespace) -> None:
    """One process: what a way of tuning chooses for each list, and seconds of its first call."""
    if options.way.startswith(LAYERS):
        compiled(options)
        return
    import torch

    parts = {EMPTY: SIDE, "timed": options.gpus}.get(options.way, 0)
    wanted = chosen(options.lists)[options.run :: parts] if parts else chosen(options.lists)
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


def go(process: Any) -> None:
    process.done = False
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write("go\n")
        process.stdin.flush()


def run(options: argparse.Namespace) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        shared = os.environ | {"TRITON_CACHE_DIR": f"{home}/triton", "CARVER_CACHE_DIR": f"{home}/carver"}
        times = range(options.times)
        ways = [*((EMPTY, i, "") for i in range(SIDE)), *(("timed", i, "") for i in range(options.gpus))]
        ways += [*(("triton", i, "") for i in times), *(("carver", i, "") for i in times)]
        ways += [("pinned", i, f"pins{i}") if i < 2 else ("pinned, table", i, "pins0") for i in times]
        ways = [way for way in ways if not options.ways or way[0] in (EMPTY, *options.ways)]
        arms = [(LAYERS + arm, 0, "") for arm in ARMS] if options.layers else []
        started = []
        for way, i, table in ways + arms:
            command = [sys.executable, str(Path(__file__)), "one", "--way", way, "--run", str(i), "--out",
                       str(options.out.resolve()), "--lists", str(options.lists), "--table", f"{home}/{table}",
                       "--rounds", str(options.rounds), "--limit", str(3 * options.lists),
                       "--layers", str(options.layers), "--gpus", str(options.gpus)]  # fmt: skip
            command += ["--margin", str(options.margin)] if options.margin is not None else []
            pipe, env = subprocess.PIPE, dict(shared)
            if options.gpus > 1:
                env["CUDA_VISIBLE_DEVICES"] = str(i % options.gpus)
            started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env))
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        print(f"{len(started)} processes are ready after {time.monotonic() - began:.0f} s", flush=True)
        decoders = started[len(ways) :]

        def ended(process: Any, what: str, until: float) -> None:
            try:
                process.communicate("go\n", timeout=max(until - (time.monotonic() - began), 0.1))
            except (subprocess.TimeoutExpired, BrokenPipeError):
                process.kill()
                process.wait()
            print(what, "ended with", process.returncode, f"after {time.monotonic() - began:.0f} s", flush=True)

        turns = [list(turn) for _, turn in itertools.groupby(range(len(ways)), key=lambda at: ways[at][0])]
        for turn in turns:
            side = SIDE if ways[turn[0]][0] == EMPTY else options.gpus
            for together in (turn[at : at + side] for at in range(0, len(turn), side)):
                for at in together:
                    go(started[at])
                for at in together:
                    left = options.limit - (options.kept if decoders else 0.0)
                    ended(started[at], f"{ways[at][0]} {ways[at][1]}", left)
        for process in decoders:
            go(process)
        late = threading.Timer(
            max(options.limit - 10 - (time.monotonic() - began), 1), lambda: [p.kill() for p in decoders if not p.done]
        )
        late.start()
        for process in decoders:
            process.done = bool(process.stdout.readline())  # it is compiled, or was ended
        late.cancel()
        for process, arm in zip(decoders, ARMS, strict=False):
            ended(process, arm, options.limit)
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
        made.add_argument("--gpus", type=int, default=1, help="processes that measure at a time, each on its own GPU")
        made.add_argument("--margin", type=float)
        made.add_argument("--layers", type=int, default=0, help="of decoders that are compiled; 0 is none")
        made.add_argument("--kept", type=float, default=50.0, help="seconds of all that are kept for them")
        made.add_argument("--way", default="triton")
        made.add_argument("--run", type=int, default=0)
        made.add_argument("--table", default="")
        made.add_argument("--arch", default="h100_sxm")
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
