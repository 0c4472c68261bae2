"""Own kernels where time on the device is dear: compiled on any machine, then timed on the GPU in a few seconds.

    python benchmarks/ahead.py build DIR [--problems named gemm] [--configs 24] [--device h200]     # here: no GPU
    python benchmarks/ahead.py measure DIR --out ahead.json.gz [--seconds 60]                       # there

The problems are those of `confirm.py`; of each the first hints, and of those that differ in depth, stages and raster
alone the fastest by the model. Each whole result is checked against the operator in float64; L2 is overwritten before
each run, times are medians, PyTorch's and a copy of as many bytes beside them. `carver evaluate FILE` reads it. With
--turns, each time stands beside two others: with an L2 that holds nothing to be written back, and in turns on several
sets of data.
Kernels run in a process of their own: one that hangs or faults is recorded, and the next process goes on.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import itertools
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from carver.ranking.hint import Hint
    from carver.run.compile import Binary
    from carver.run.render import Program

MERGED, FEW = ("block_k", "stages", "group_m"), 2
WAYS = ("alternate", "cluster", "split", "split_k", "vec", "row_lanes", "lanes")
TORCH = {"tf32": "float32", "float8_e4m3": "float8_e4m3fn"}
REPEATS, FLUSH_BYTES = 7, 256 << 20
HANGS_S, STARTS_S = 8.0, 60.0
"""Seconds after which a process that said nothing is ended: while it measures, and while it starts."""
RESTARTS = 8
ALIGNED = 256
"""Bytes of which both places of a copy are a multiple."""
OTHERS = ("clean_ms", "turns_ms")
"""What --turns adds to a row, behind its outcome."""


def build(args: argparse.Namespace) -> None:
    """Write what is to be launched, and the binaries."""
    from confirm import problems

    import carver
    from carver.base.errors import CompileError
    from carver.run.compile import compile_source, cuda_compiler
    from carver.run.render import render
    from carver.run.travel import program_to_dict

    arch, compiler = carver.load_arch(args.device), cuda_compiler()

    def compiled(program: Program) -> Binary | CompileError:
        try:
            return compile_source(program.source, compiler)
        except CompileError as e:
            return e

    args.folder.mkdir(parents=True, exist_ok=True)
    cases = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for kind, template in problems(args.problems):
            if not re.search(args.only, str(template.problem)):
                continue
            here = template.with_arch(arch)
            hints = list(here.recommend_hints(1_000_000, here.own_backend))
            chosen = chosen_of(hints, args.configs)
            programs = [render(h, arch) for h in chosen]
            rows = []
            for hint, p, found in zip(chosen, programs, pool.map(compiled, programs), strict=True):
                if isinstance(found, CompileError):
                    print(f"{hint.kernel} {hint.config}: {found}", flush=True)
                    continue
                name = f"{found.sha256[:16]}.cubin"
                (args.folder / name).write_bytes(found.path.read_bytes())
                binary = [name, found.sha256, program_to_dict(p)]
                rows.append([hint.kernel, dict(hint.config), hint.predicted_ms, *binary])
            cases.append({"kind": kind, "problem": template.problem.to_dict(), "grid": len(hints), "arch": arch.name,
                          "backend": here.own_backend, "rows": rows})  # fmt: skip
            print(template.problem, len(rows), flush=True)
            (args.folder / "plan.json").write_text(json.dumps({"cases": cases, "compiler": compiler.version}))


def aligned_half(size_bytes: int) -> int:
    """What a copy that moves `size_bytes` reads, and what it writes behind that. [bytes]

    Rounded up to whole lines: a copy to a place inside a vector of 16 bytes takes half as long again.
    """
    return -(-size_bytes // (2 * ALIGNED)) * ALIGNED


def chosen_of(hints: list[Hint], configs: int) -> list[Hint]:
    """The first hints, and of those that differ in `MERGED` alone the first: so many, a few of every kernel's ways."""
    apart: dict[Any, Hint] = {}
    ways: dict[Any, list[Hint]] = {}
    for h in hints:
        apart.setdefault((h.kernel, *(v for name, v in h.config.items() if name not in MERGED)), h)
    for h in apart.values():
        ways.setdefault((h.kernel, *(h.config.get(name) for name in WAYS)), []).append(h)
    few = [h for way in ways.values() for h in way[:FEW]]
    return list({h.rank: h for h in (*hints[:FEW], *list(apart.values())[:configs], *few)}.values())


def work(args: argparse.Namespace) -> None:
    """Measure what `args.out` does not hold yet, a line each; a row that began there and did not end is passed over."""
    import torch
    from gpu_time import in_turns_ms, median_ms

    from carver.base.errors import RunError
    from carver.ops.operator import named
    from carver.problem.problem import Problem
    from carver.run.check import OperatorReference
    from carver.run.compile import Binary
    from carver.run.launch import launcher
    from carver.run.reference import output_shape
    from carver.run.travel import program_from_dict

    stream = torch.cuda.current_stream().cuda_stream
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    seen = {(line["case"], line.get("row")) for line in map(json.loads, args.out.read_text().splitlines())}

    def timed(runs: list[Callable[[], Any]]) -> dict[str, float]:
        for run in runs:
            run()
        found = {"ms": median_ms(runs[0], flush, REPEATS)}
        if len(runs) > 1:
            found["clean_ms"] = median_ms(runs[0], flush, REPEATS, clean=True)
            found["turns_ms"] = in_turns_ms(runs, flush, 1 + -(-2 * REPEATS // len(runs)))
        return found

    def tensor(shape: tuple[int, ...], dtype: str) -> Any:
        x = torch.randn(shape, device="cuda")
        return (16 * x if dtype == "int8" else x).to(getattr(torch, TORCH.get(dtype, dtype)))

    with args.out.open("a") as file:

        def say(case: int, **said: Any) -> None:
            file.write(json.dumps({"case": case, **said}) + "\n")
            file.flush()

        for i, case in enumerate(json.loads((args.folder / "plan.json").read_text())["cases"]):
            left = [j for j in range(len(case["rows"])) if (i, j) not in seen]
            if not left:
                continue
            problem = Problem.from_dict(case["problem"])
            inputs = {t.name: tensor(t.shape(problem.sizes), problem.dtypes[t.name]) for t in problem.statement.inputs}
            output = problem.statement.output.name
            out = tensor(output_shape(problem), problem.dtypes[output])
            right, allowed = OperatorReference(problem).bounded(*inputs.values())
            size_bytes = sum(x.nbytes for x in (*inputs.values(), out))
            sets = [(inputs, out)]
            for _ in range(1 + FLUSH_BYTES // size_bytes if args.turns else 0):
                sets.append(({name: x.clone() for name, x in inputs.items()}, out.clone()))
            if (i, None) not in seen:
                torch.backends.cuda.matmul.allow_tf32 = "tf32" in problem.dtypes.values()
                narrow = any(d.startswith(("float8", "int")) for d in problem.dtypes.values())
                library = None if narrow else named(problem.operator).library
                calls = [library(problem, list(x.values()), y, torch) for x, y in sets] if library else []
                half = aligned_half(size_bytes)
                rooms = [torch.empty((2, half), dtype=torch.int8, device="cuda") for _ in sets]
                say(i, library=timed([c for c in calls if c]) if all(calls) and calls else {},
                    copy=timed([functools.partial(room[0].copy_, room[1]) for room in rooms]))  # fmt: skip
                del rooms
            for j in left:
                *_, name, sha256, plain = case["rows"][j]
                say(i, row=j, ms=None, outcome="hangs")
                program = program_from_dict(plain)
                room = torch.empty(program.workspace_bytes, dtype=torch.int8, device="cuda")
                names = [*inputs, output, "workspace"]
                out.copy_(torch.full_like(right, 1e4))
                try:
                    binary = Binary(args.folder / name, sha256, "", 0.0, cached=True)
                    launch = launcher(binary, program, names, ordinal=0)
                    runs = [functools.partial(launch, [t.data_ptr() for t in (*x.values(), y, room)], stream)
                            for x, y in sets]  # fmt: skip
                    runs[0]()
                    torch.cuda.synchronize()
                except (RunError, RuntimeError) as e:  # what follows a fault in this process says nothing
                    say(i, row=j, ms=None, outcome=str(e).splitlines()[0])
                    return
                wrong = int(((out.double() - right).abs() <= allowed).logical_not_().sum())
                say(i, row=j, outcome=f"wrong: {wrong} elements" if wrong else "ok",
                    **{"ms": None} if wrong else timed(runs))  # fmt: skip
        say(-1)


def measure(args: argparse.Namespace) -> None:
    """Start workers until all is measured; end one that hangs."""
    plan, end = json.loads((args.folder / "plan.json").read_text()), time.monotonic() + args.seconds
    lines = args.out.with_suffix(".jsonl")
    lines.touch()
    for _ in range(RESTARTS):
        command = [sys.executable, __file__, "work", str(args.folder), "--out", str(lines)]
        worker = subprocess.Popen([*command, "--turns"] if args.turns else command)
        size, spoke, first = lines.stat().st_size, time.monotonic(), True
        while worker.poll() is None:
            time.sleep(0.2)
            if (now := lines.stat().st_size) != size:
                size, spoke, first = now, time.monotonic(), False
            if time.monotonic() - spoke > (STARTS_S if first else HANGS_S) or time.monotonic() > end:
                worker.kill()
                worker.wait()
        if time.monotonic() > end or '"case": -1' in lines.read_text():
            break
    said = [json.loads(line) for line in lines.read_text().splitlines()]
    cases = []
    for i, case in enumerate(plan["cases"]):
        head: dict[str, Any] = next((s for s in said if s["case"] == i and "row" not in s), {})
        rows = {s["row"]: s for s in said if s["case"] == i and "row" in s}
        case["rows"] = [[*case["rows"][j][:3], s["ms"], s["outcome"], *(s[name] for name in OTHERS if name in s)]
                        for j, s in sorted(rows.items())]  # fmt: skip
        if not case["rows"]:
            continue
        for which, name in itertools.product(("library", "copy"), ("ms", *OTHERS) if args.turns else ("ms",)):
            case[f"{which}_{name}"] = head.get(which, {}).get(name)
        cases.append(case)
        sizes = "x".join(str(n) for n in case["problem"]["sizes"].values())
        ran = sorted((r for r in case["rows"] if r[3]), key=lambda r: r[3])
        bad = [[*r[:2], r[4]] for r in case["rows"] if not r[3]]
        beside = {name: ms for name, ms in case.items() if name.endswith("ms")}
        print(f"{case['problem']['operator']} {sizes} {case['problem']['options']}: {beside} first {case['rows'][0]}")
        for kernel in dict.fromkeys(r[0] for r in ran):
            print("   ", *[r for r in ran if r[0] == kernel][:3], sep="\n      ")
        print("   ", len(ran), "ran;", bad[:4] or "", flush=True)
    found = {"command": shlex.join(["python", *sys.argv]), "compiler": plan["compiler"], "cases": cases, "failed": []}
    with gzip.open(args.out, "wt") as file:
        json.dump(found, file, separators=(",", ":"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("build", build), ("measure", measure), ("work", work)):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.set_defaults(run=run)
        if name == "build":
            command.add_argument("--problems", nargs="+", default=["named", "named_memory"])
            command.add_argument("--only", default="", help="a regular expression that a problem's name holds")
            command.add_argument("--device", default="h200")
            command.add_argument("--configs", type=int, default=24)
            command.add_argument("--jobs", type=int, default=2)
        else:
            command.add_argument("--out", type=Path, required=True)
            command.add_argument("--seconds", type=float, default=120.0)
            command.add_argument("--turns", action="store_true")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
