"""Measure 28 zoos of Triton kernels on the GPU of this machine, and score carver's ranking of each kernel.

    python benchmarks/zoo.py measure --out FILE.jsonl [--only NAME,...] [--limit 540] [--configs 33]
    python benchmarks/zoo.py predict --out FILE.jsonl [--only NAME,...] [--configs 33] [--arch h200]
    python benchmarks/zoo.py again --out FOLDER [--only NAME,...] [--processes 2]
    python benchmarks/zoo.py score FILE.jsonl [--only NAME,...] [--arch h200] [--predicted FILE.jsonl]

NAME is a kernel, or a file of `kernels/` for all that are in it: `triton_zoo`, and `triton_zoo_more` and so on, by the
names in `zoos/`.

`measure` compiles all configurations side by side, each bounded in time, then checks every one against PyTorch, or
against the first that ran where the reference is gone, and times it: median of nine runs, L2 flushed before each,
inputs drawn anew. A line of JSON is written for each configuration as it is found out, so that nothing measured is
lost; a second call goes on where the first ended. Needs PyTorch and Triton. `score` ranks the same configurations by
what the compiler makes of them, with no GPU; or scores what `predict` wrote down before they were measured, or `again`
of the tables in `tests/data`, many at a time. Kernels marked `unseen` are only scored: neither their times nor their
rankings are looked at while the model is built. They are summed up apart, and so are kinds. The references of what was
measured, and a check of them in Triton's interpreter, stand at commits c7394a82, of the twelfth 4402e36f, of the
thirteenth e9ec61cc, of the fourteenth 7c41c7d2, of the fifteenth 3ecdb63f, of the sixteenth
22181fe9, of the seventeenth ff70057a, of the eighteenth 074905aa, of the nineteenth 711c99f8, of the
twentieth 79fc9afa, of the 21st 6cdffb5e, of the 22nd 666fdbe6, of
the 24th 68398daf, of the 25th 1e40149f, of the 26th 06a80c5d,
of the 27th 218e30c3, and of windows f995a324.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from zoos import ORDER  # noqa: E402
from zoos.subject import Arrays, Config, Problem, Subject  # noqa: E402

from carver.base.errors import ConfigError, nearest  # noqa: E402
from carver.base.given import text_of  # noqa: E402
from carver.compiled.binary import Tensor  # noqa: E402

CONFIGS, RUNS, COMPILE_S = 33, 9, 60.0
TORCH = {"float8_e4m3": "float8_e4m3fn"}

SUBJECTS = [subject for name in ORDER for subject in import_module(f"zoos.{name}").SUBJECTS]
BY_NAME = {subject.name: subject for subject in SUBJECTS}
TABLES = ("h200/zoo", "h100/zoo_more", "h100/edges", "h100/forms", "h200/library", "h100/places", "h100/blind")
"""Of times, in `tests/data`."""


def named(only: str) -> list[Subject]:
    """The subjects of these names, or of the files of `kernels/` of these names. Raises ConfigError for an unknown."""
    names = set(filter(None, only.split(",")))
    homes = {subject.name: subject.kernel.fn.__module__.rpartition(".")[2] for subject in SUBJECTS}
    if unknown := names - homes.keys() - set(homes.values()):
        raise ConfigError(f"no kernel is called {min(unknown)!r}: {nearest(min(unknown), [*homes, *homes.values()])}")
    return [s for s in SUBJECTS if not names or not names.isdisjoint((s.name, homes[s.name]))]


def cases(only: str, count: int) -> Iterator[tuple[Subject, int, Config]]:
    for subject in named(only):
        for i, problem in enumerate(subject.problems):
            for config in subject.configs(problem, count):
                yield subject, i, config


def key(subject: str, problem: int, config: Config) -> str:
    return json.dumps([subject, problem, dict(sorted(config.items()))])


def recorded(out: Path) -> dict[str, dict[str, Any]]:
    if not out.exists():
        return {}
    rows = [json.loads(line) for line in text_of(out, ConfigError).splitlines()]
    return {key(row["kernel"], row["problem"], row["config"]): row for row in rows}


def record(out: Path, subject: str, problem: int, config: Config, ms: float | None, why: str = "", **more: Any) -> None:
    row = {"kernel": subject, "problem": problem, "config": dict(config), "time_ms": ms, "why": why, **more}
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def launch_arguments(subject: Subject, problem: Problem, config: Config, tensors: Arrays) -> dict[str, Any]:
    """What `kernel[grid]` takes by name: tensors, or Triton's mock tensors in their place where nothing is launched."""
    names = set(subject.kernel.arg_names)
    options = {k: v for k, v in config.items() if k in names or k in ("num_warps", "num_stages")}
    return {**subject.args(problem, config), **tensors, **subject.constants(problem), **options}


def compile_one(name: str, problem: int, config: Config) -> None:
    import torch
    from triton.runtime.jit import MockTensor

    subject = BY_NAME[name]
    p = subject.problems[problem]
    tensors = {n: t.dtype for n, t in subject.args(p, config).items() if isinstance(t, Tensor)}
    mock = {n: MockTensor(getattr(torch, TORCH.get(dtype, dtype))) for n, dtype in tensors.items()}
    subject.kernel.warmup(grid=(1,), **launch_arguments(subject, p, config, mock))


def serve() -> None:
    """A compiling process: a line of JSON in, a line out."""
    import torch

    torch.cuda.init()
    replies, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        began = time.monotonic()
        try:
            compile_one(*json.loads(line))
            why = ""
        except Exception as error:  # whatever a compiler raises is the answer
            why = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
        replies.write(json.dumps([why, time.monotonic() - began]) + "\n")
        replies.flush()


def compile_all(jobs: list[tuple[str, int, Config]], processes: int, until: float, out: Path) -> dict[str, str]:
    """Why each of the jobs that do not compile does not, by `key`. One that takes longer than COMPILE_S is ended.

    What each took goes to a file beside `out`: no more than a look-up for what another problem's code is the same as.
    """
    import selectors

    command = [sys.executable, str(Path(__file__).resolve()), "serve"]
    waiting, failed = list(reversed(jobs)), {}
    selector = selectors.DefaultSelector()
    busy: dict[int, tuple[subprocess.Popen[str], tuple[str, int, Config], float]] = {}

    def start(process: subprocess.Popen[str] | None) -> None:
        if not waiting:
            if process:
                process.kill()
            return
        if process is None:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdout
            selector.register(process.stdout, selectors.EVENT_READ, process)
        job = waiting.pop()
        assert process.stdin
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        busy[process.pid] = process, job, time.monotonic()

    for _ in range(min(processes, len(jobs))):
        start(None)
    while busy:
        for ready, _ in selector.select(timeout=1.0):
            process = ready.data
            if process.pid not in busy:  # ended when nothing was left to do
                selector.unregister(process.stdout)
                continue
            _, job, _ = busy.pop(process.pid)
            line = process.stdout.readline()
            why, seconds = json.loads(line) if line else ("the compiler's process ended", None)
            if why:
                failed[key(*job)] = why
            record(out.with_suffix(".compiles.jsonl"), *job, None, why, compile_s=seconds)
            if line:
                start(process)
            else:
                selector.unregister(process.stdout)
                start(None)
        for pid, (process, job, since) in list(busy.items()):
            if time.monotonic() - since > COMPILE_S + 30 or time.monotonic() > until:
                process.kill()
                selector.unregister(process.stdout)
                failed[key(*job)] = f"not compiled within {COMPILE_S:.0f} s"
                del busy[pid]
                if time.monotonic() < until:
                    start(None)
    return failed | {key(*job): "no time left to compile" for job in waiting}


def torch_type(tensor: Tensor) -> Any:
    import torch

    return getattr(torch, TORCH.get(tensor.dtype, tensor.dtype))


def draw(tensor: Tensor, seed: int) -> Any:
    import torch

    g = torch.Generator(device="cuda").manual_seed(seed)
    dtype = torch_type(tensor)
    if not dtype.is_floating_point:
        return torch.randint(-(2**31), 2**31 - 1, tensor.shape, device="cuda", dtype=torch.int64, generator=g).to(dtype)
    return (torch.randn(tensor.shape, device="cuda", generator=g, dtype=torch.float32) * 0.5).to(dtype)


def inputs(subject: Subject, problem: Problem, config: Config) -> Arrays:
    import torch

    held = {n: torch.from_numpy(np.asarray(v)).cuda() for n, v in subject.values(problem).items()}
    return {
        n: held[n] if n in held else draw(t, i)
        for i, (n, t) in enumerate(subject.args(problem, config).items())
        if isinstance(t, Tensor) and n not in subject.outputs
    }


def zeroed(subject: Subject, problem: Problem, config: Config) -> Arrays:
    """The outputs, to which some kernels add."""
    import torch

    return {
        n: torch.zeros(t.shape, device="cuda", dtype=torch_type(t))
        for n, t in subject.args(problem, config).items()
        if n in subject.outputs
    }


def results(found: Any) -> Sequence[Any]:
    """A result, or several."""
    return [part.float() for part in (found if isinstance(found, tuple) else (found,))]


def error_of(got: Any, want: Sequence[Any]) -> float:
    """The largest error over the largest magnitude, of the result that has most of it; nan if one has a nan."""
    pairs = zip(results(got), want, strict=True)
    errors = [float((a - b).abs().max() / b.abs().max()) for a, b in pairs]
    return float(np.max(errors))


def measure_case(subject: Subject, index: int, configs: list[Config], out: Path, until: float) -> None:
    """The rows of one problem, until the time is up."""
    import torch
    from frame import median_ms

    problem = subject.problems[index]
    tensors = inputs(subject, problem, configs[0])
    original = {n: tensors[n].clone() for n in subject.in_place}
    want = results(subject.want(problem, tensors)) if subject.want else []
    flush = torch.empty(2**30, dtype=torch.int8, device="cuda")
    for config in configs:
        if time.monotonic() > until:
            return
        for n, value in original.items():
            tensors[n].copy_(value)
        given = tensors | zeroed(subject, problem, config)
        arguments = launch_arguments(subject, problem, config, given)
        grid = subject.grid(problem, config)

        def run(arguments: dict[str, Any] = arguments, grid: tuple[int, ...] = grid) -> Any:
            return subject.kernel[grid](**arguments)

        try:
            compiled = run()
            torch.cuda.synchronize()
            got = subject.got(problem, config, given)
            want = want or [part.clone() for part in results(got)]
            error = error_of(got, want)
            said = {"shared": compiled.metadata.shared, "registers": compiled.n_regs, "spills": compiled.n_spills}
            if not error <= subject.tolerance:
                record(out, subject.name, index, config, None, f"wrong by {error:.3g} of the largest", **said)
                continue
            for _ in range(3):
                run()
            record(out, subject.name, index, config, median_ms(run, flush, RUNS), error=error, **said)
        except Exception as raised:  # a configuration that does not run is a result
            record(out, subject.name, index, config, None, f"{type(raised).__name__}: {raised}".splitlines()[0][:200])
            if "CUDA" in str(raised) or "illegal" in str(raised):
                raise


def measure_here(only: str, count: int, out: Path, limit: float) -> None:
    """Measure what is not yet in the file, in this process: a fault of a kernel ends it."""
    import torch
    import triton

    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    until, done = time.monotonic() + limit, recorded(out)
    for (subject, i), group in itertools.groupby(cases(only, count), key=lambda case: (case[0], case[1])):
        left = [config for _, _, config in group if key(subject.name, i, config) not in done]
        if left and time.monotonic() < until:
            began = time.monotonic()
            measure_case(subject, i, left, out, until)
            print(f"{subject.name} {dict(subject.problems[i])}: {time.monotonic() - began:.1f} s", flush=True)
            torch.cuda.empty_cache()


def measure(options: argparse.Namespace) -> None:
    began, out = time.monotonic(), options.out
    until = began + options.limit
    done = recorded(out)
    jobs = [(s.name, i, c) for s, i, c in cases(options.only, options.configs) if key(s.name, i, c) not in done]
    processes = max(1, len(os.sched_getaffinity(0)) - 1)
    failed = compile_all(jobs, processes, began + 0.6 * options.limit, out)
    print(f"{len(jobs) - len(failed)} of {len(jobs)} compiled in {time.monotonic() - began:.0f} s", flush=True)
    for name, i, c in jobs:
        if (why := failed.get(key(name, i, c))) and not why.startswith("no time"):
            record(out, name, i, c, None, why)
    command = [sys.executable, str(Path(__file__).resolve()), "here", "--out", str(out)]
    while (left := until - time.monotonic()) > 5:
        more = ["--limit", str(left), "--only", options.only, "--configs", str(options.configs)]
        try:
            code = subprocess.run([*command, *more], check=False, timeout=left).returncode
        except subprocess.TimeoutExpired:
            code = -1
        if code == 0:
            break
        done = recorded(out)
        rest = [job for job in jobs if key(*job) not in done and key(*job) not in failed]
        if not rest:
            break
        if code not in (0, 1):  # the process died or hung on the first that has no line
            record(out, *rest[0], None, f"the measuring process ended with {code}")
    rows = recorded(out)
    print(f"{sum(r['time_ms'] is not None for r in rows.values())} of {len(rows)} configurations timed in all")


def case_of(subject: Subject, index: int, configs: list[Config], times: list[float | None]) -> Any:
    import compiled

    p = subject.problems[index]
    return compiled.Case(
        f"{subject.name} {tuple(p.values())}", subject.kernel, configs, times, lambda c: subject.args(p, c),
        lambda c: subject.grid(p, c), subject.constants(p), subject.values(p),
    )  # fmt: skip


def predict(options: argparse.Namespace) -> None:
    """Write what carver predicts for every configuration, problem by problem; those in the file are left out."""
    import compiled

    import carver

    arch, done = carver.load_arch(options.arch), recorded(options.out)
    for (subject, i), group in itertools.groupby(cases(options.only, options.configs), key=lambda case: case[:2]):
        configs = [config for _, _, config in group if key(subject.name, i, config) not in done]
        if not configs:
            continue
        ranking = compiled.ranked(case_of(subject, i, configs, [None] * len(configs)), arch)
        ms = {index: hint.predicted_ms for hint in ranking for index in (hint.index, *hint.also)}
        for n, config in enumerate(configs):
            record(options.out, subject.name, i, config, ms.get(n), ranking.reasons.get(n, ""))
        print(f"{subject.name} {i}: {len(ms)} of {len(configs)}", flush=True)


def priced(job: tuple[str, str, int, list[Config]]) -> list[tuple[float | None, str]]:
    """What carver predicts for configurations of one problem on a device, or why it does not."""
    import compiled

    import carver

    arch, name, i, configs = job
    case = case_of(BY_NAME[name], i, configs, [None] * len(configs))
    try:
        ranking = compiled.ranked(case, carver.load_arch(arch), 1)
    except carver.CarverError as error:
        return [(None, str(error))] * len(configs)
    every = enumerate(compiled.predicted_ms(ranking, len(configs)))
    return [(ms, ranking.reasons.get(n, "")) for n, ms in every]


def again(options: argparse.Namespace) -> None:
    """A file for each table of TABLES; problems that are in it are left out."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    jobs: list[tuple[Path, tuple[str, str, int, list[Config]]]] = []
    wanted = {subject.name for subject in named(options.only)}
    for path in TABLES:
        out, lists = options.out / f"{Path(path).name}.jsonl", dict[tuple[str, int], list[Config]]()
        done = recorded(out)
        for row in recorded(HERE.parent / f"tests/data/{path}.jsonl.gz").values():
            lists.setdefault((row["kernel"], row["problem"]), []).append(row["config"])
        jobs += [(out, (path.partition("/")[0], name, i, configs)) for (name, i), configs in lists.items()
                 if name in wanted & BY_NAME.keys() and key(name, i, configs[0]) not in done]  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        running = {pool.submit(priced, job): (out, job) for out, job in jobs}
        for n, future in enumerate(as_completed(running), 1):
            out, (_, name, i, configs) = running[future]
            for config, (ms, why) in zip(configs, future.result(), strict=True):
                record(out, name, i, config, ms, why)
            print(f"{n} of {len(jobs)}: {name} {i}", flush=True)


def score(options: argparse.Namespace) -> None:
    import compiled
    import frame

    import carver

    arch = carver.load_arch(options.arch)
    rows = [json.loads(line) for line in text_of(options.table, ConfigError).splitlines()]
    said = options.predicted and recorded(options.predicted)
    scores: dict[tuple[bool, str], list[frame.Score]] = {}
    for subject in named(options.only):
        if options.half and subject.unseen != (options.half == "unseen"):
            continue
        for i in range(len(subject.problems)):
            own = [row for row in rows if (row["kernel"], row["problem"]) == (subject.name, i)
                   and (said is None or key(subject.name, i, row["config"]) in said)]
            if not any(row["time_ms"] for row in own):
                continue
            case = case_of(subject, i, [row["config"] for row in own], [row["time_ms"] for row in own])
            if said is None:
                found = compiled.score(case, arch)
            else:
                ms = [said[key(subject.name, i, c)]["time_ms"] for c in case.configs]
                if not any(ms):
                    print(f"{case.name} refused", file=sys.stderr)
                    continue
                found = frame.scored(case.name, ms, case.times)
            scores.setdefault((subject.unseen, subject.kind), []).append(found)
            print(f"{found.name} {found.ratio:.2f}", file=sys.stderr)
    for (unseen, kind), every in scores.items():
        print(f"{kind or 'all kinds'}, {'only scored' if unseen else 'looked at, or open to it'}")
        print(frame.report(every))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("measure", "here"):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--only", default="", help="names of kernels, with commas")
        command.add_argument("--limit", type=float, default=540.0, help="seconds for all")
        command.add_argument("--configs", type=int, default=CONFIGS)
    scoring = commands.add_parser("score")
    scoring.add_argument("table", type=Path)
    scoring.add_argument("--only", default="", help="names of kernels, with commas")
    scoring.add_argument("--arch", default="h200")
    scoring.add_argument("--predicted", type=Path, help="what `predict` wrote, instead of ranking anew")
    scoring.add_argument("--half", choices=("seen", "unseen"), help="kernels that were looked at, or the others")
    predicting = commands.add_parser("predict")
    predicting.add_argument("--out", type=Path, required=True)
    predicting.add_argument("--only", default="", help="names of kernels, with commas")
    predicting.add_argument("--configs", type=int, default=CONFIGS)
    predicting.add_argument("--arch", default="h200")
    pricing = commands.add_parser("again")
    pricing.add_argument("--out", type=Path, required=True, help="a folder")
    pricing.add_argument("--only", default="", help="names of kernels, with commas")
    pricing.add_argument("--processes", type=int, default=2)
    commands.add_parser("serve")
    options = parser.parse_args()
    match options.command:
        case "serve":
            serve()
        case "here":
            measure_here(options.only, options.configs, options.out, options.limit)
        case "measure":
            measure(options)
        case "predict":
            predict(options)
        case "again":
            again(options)
        case "score":
            score(options)


if __name__ == "__main__":
    main()
