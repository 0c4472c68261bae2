"""Kernels of several languages, ranked from their machine code, against their measured times and the chip's counters.

    python benchmarks/machine.py predict FOLDER --out FILE.jsonl [--arch h100] [--only NAME] [--every N] [--jobs N]
    python benchmarks/machine.py score FILE.jsonl [--half even|odd] [--measured TABLE.jsonl.gz]
    python benchmarks/machine.py triton --out FILE.jsonl [--arch h100] [--only NAME,...] [--configs 1] [--limit 540]

FOLDER has `problems.json.gz` and `cubins.tar.xz` (`adapters/machine_table.py`). `predict` prices every N-th
configuration, and those with counters, from the cubin and its launch alone, and writes a line for each as it is done; a
second call goes on where the first ended. `score` prints the slowdown of the first picks, a random pick beside them,
and what was counted by Nsight Compute beside what the evaluator says: instructions by pipe, bytes that are read from
DRAM (those written stay in L2 at the end of a launch, where they fit) and bytes of L2.
Rules of the evaluator may be changed after looking at problems of even place in the order of their names; the others
are only scored. `--half` gives one of the two.

`triton` holds facts by execution against those by Triton's IR, on each kernel of the zoos: passes of the loop that runs
most, bytes that a mean block asks for, bytes of DRAM, predicted times. It goes on where an earlier call ended, stops
after `--limit` seconds, and sums up what the file has.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from adapters.machine_table import binary, codes, problems  # noqa: E402
from languages import values  # noqa: E402

from carver.arch.devices import load  # noqa: E402
from carver.base.errors import CarverError  # noqa: E402
from carver.compiled.execution.facts import execution, facts_of_binary  # noqa: E402
from carver.compiled.isa import rates  # noqa: E402
from carver.cost.models.compiled import (  # noqa: E402
    _beyond_frames,
    lockstep,
    price_compiled,
    priors,
    read_anywhere,
    shape_of,
)
from carver.cost.models.l1 import l1_bytes, not_in_l1  # noqa: E402
from carver.cost.traffic import again_beyond, different, lost_share, reused_share  # noqa: E402

PIPES = ("alu", "fma", "lsu", "xu", "fp64", "tensor")
NEAR, FAR = 0.01, 0.15
PLACES = "SR_TID", "SR_LANEID"
"""Special registers that are read by `lsu`, which also has fences of memory, and no commands on descriptors of tensors.
Source: so counted, all of the 52 launches agree to the instruction."""
CROSSING = 1.5
"""Times that the counter of L2 counts a byte that is stored: half of them cross to the other half of the cache, which
counts them again. Source: 33 of the first 52 launches."""
PLAIN, BOXES, COPIED = 0.7, 0.6, 0.2
"""Of what neighbouring SMs ask for alike, and L2 could serve once for all, how much it does: of plain loads, which a
pass waits for, so that SMs stay in step where loops have barriers; of boxes by TMA; of `cp.async`, which runs ahead.
Without barriers plain loads share nothing, 0.00 to 0.11 by the counters of 20 launches. Source: the 52 launches
and 237 of other kernels (`languages*.jsonl.gz` in tests/data); none was held out. The model's time has 0.6 of all that
are in `lockstep` (`TOGETHER`)."""
FETCHED = 10_000
"""Bytes of instructions and constants that L2 reads for an SM. Source: launches that move few bytes otherwise."""


def executed(of: Any) -> dict[str, float]:
    """Warp instructions of the whole grid, by pipe."""
    table = rates.table(of.code.isa)
    scale, _ = of.shares()
    warps = (of.detail.passes.mean(axis=1) * scale[:, None]).sum(axis=1) * of.count
    out = dict.fromkeys(("all", *PIPES), 0.0)
    for i, each in enumerate(of.code.instructions):
        count = float(warps[of.program.block_of[i]])
        group = table.group(each.opcode)
        out["all"] += count
        tensor = group.role in ("matrix", "warpgroup matrix") or "half" in group.lanes
        lanes = {*group.lanes} - {"lsu"} if each.opcode.startswith("UTMACCTL") else {*group.lanes}
        if each.opcode.startswith(("MEMBAR", "FENCE")):
            lanes.add("lsu")
        for pipe in {*lanes, *(("tensor",) if tensor else ())} & {*PIPES}:
            if pipe == "lsu":  # of special registers it has the places of threads
                out[pipe] += count * ("S2" not in each.mnemonic or any(own in each.operands for own in PLACES))
            elif each.predicate not in ("!PT", "!UPT"):
                out[pipe] += count
    return out


def counted(ncu: dict[str, float]) -> dict[str, float]:
    """The same, and bytes, by the chip's counters."""
    pipes = {pipe: ncu.get(f"sm__inst_executed_pipe_{pipe}.sum", 0.0) for pipe in PIPES}
    bytes_ = {"dram read": ncu["dram__bytes_read.sum"], "l2": ncu["lts__t_bytes.sum"]}
    return {"all": ncu.get("smsp__inst_executed.sum", 0.0), **pipes, **bytes_}


def moved_bytes(facts: Any, arch: Any) -> dict[str, float]:
    """Bytes that are read from DRAM, and that L2's counter has: what SMs read and write, and what crosses to the other
    half of the cache, of what is read half for each SM that reads it."""
    shape, k, grid = shape_of(facts, arch), priors(arch), facts.programs
    usable = float(reused_share(arch, k)) * arch.l2_bytes
    again = facts.again_bytes * lost_share(facts.live_bytes, usable) + again_beyond(facts.reuse, usable)
    even = facts.read_bytes - sum(different(*each) for *each, _ in facts.anywhere) + again
    dram = max(even, 0.0) + sum(read_anywhere(facts, arch, k, usable))
    asked = facts.fetched_bytes("load") * grid
    alike = 1.0 - min(facts.near_bytes / asked, 1.0) if asked else 0.0
    frames = _beyond_frames(facts, facts.present(arch), l1_bytes(facts, arch))  # of the stack, beyond L1
    loaded, stored = (shape.total.bytes.get(f"{kind} local", 0.0) * facts.warps for kind in ("load", "store"))
    boxes = any(access.path != "pointer" for access in facts.accesses if access.kind == "load")
    merged = k["l2_merge"] * (COPIED if shape.total.bytes.get("copy global", 0.0) else BOXES if boxes else PLAIN)
    merged *= lockstep(facts, shape)
    read = shape.load_bytes * grid * not_in_l1(facts, shape.total, arch, shape.once) * (1.0 - merged * alike)
    readers = max((read - facts.again_bytes) / max(dram, 1.0), 1.0)
    written = (shape.store_bytes + stored + shape.atomic_sectors * arch.sector_bytes) * grid
    crossing = dram * (1.0 - 0.5**readers)
    read += loaded * frames * grid + FETCHED * arch.sm_count
    return {"dram read": dram, "l2": read + crossing + CROSSING * written}


def predict(folder: Path, out: Path, arch: Any, only: str, every: int, blind: bool, jobs: int) -> None:
    done = {(row["problem"], row["config"]) for row in read(out)} if out.exists() else set()
    held = codes(folder)
    wanted = []
    for place, problem in enumerate(problems(folder)):
        ran = [config for config in problem["configs"] if "ms" in config or blind]
        chosen = [c for i, c in enumerate(ran) if i % every == 0 or "ncu" in c]
        for config in chosen if only in problem["problem"] else []:
            if (problem["problem"], json.dumps(config["config"])) not in done:
                wanted.append((place, problem, config, held[config["cubin"]], arch))
    with ProcessPoolExecutor(jobs) as pool, out.open("a", encoding="utf-8") as file:
        for row in pool.map(predicted, *zip(*wanted, strict=True)) if wanted else []:
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(row["problem"], row["config"], row["ms"] or "", row.get("error") or row["predicted_ms"], flush=True)


def predicted(place: int, problem: dict[str, Any], config: dict[str, Any], code: bytes, arch: Any) -> dict[str, Any]:
    """One configuration's row."""
    begun = time.process_time()
    row = {"problem": problem["problem"], "place": place, "config": json.dumps(config["config"]),
           "ms": config.get("ms")}  # fmt: skip
    try:
        of = execution(binary(problem, config, code), arch, values(problem))
        facts = of.facts()
        row["cpu_s"] = time.process_time() - begun
        estimate = price_compiled([facts], arch)[1]
        row |= {"predicted_ms": float(estimate.seconds[0]) * 1e3, "assumed": facts.assumed,
                "notes": [n for n in facts.notes if "not known" in n]}  # fmt: skip
        if "ncu" in config:
            row["said"] = {**executed(of), **moved_bytes(facts, arch)}
            row["counted"] = counted(config["ncu"])
    except CarverError as error:
        row["error"] = str(error)
    return row


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def measured(rows: Sequence[Mapping[str, Any]], table: Path) -> list[dict[str, Any]]:
    """Predictions with the times of a table, of what ran."""
    times = {(row["problem"], json.dumps(row["config"])): row.get("ms") for row in read(table) if "problem" in row}
    places = {name: place for place, name in enumerate(sorted({row["problem"] for row in rows}))}
    keyed = [(row, times.get((row["problem"], json.dumps(row["config"])))) for row in rows]
    return [{**row, "place": places[row["problem"]], "ms": ms} for row, ms in keyed if ms]


def random_of(times: np.ndarray[Any, Any], picks: int) -> float:
    """Geometric mean of the slowdown of the best of so many random picks, exactly."""
    order, count = np.sort(times), len(times)
    chance = np.array([math.comb(count - 1 - i, picks - 1) for i in range(count)], float) / math.comb(count, picks)
    return float(np.exp((chance * np.log(order / order[0])).sum()))


def score(rows: list[dict[str, Any]], half: str) -> None:
    names = sorted({row["problem"] for row in rows})
    slow1, slow3, first, chance1, chance3, cpu = [], [], [], [], [], []
    print(f"{'problem':40} configs  k=1    k=3    random 1, 3  predicted/measured: first, quartiles")
    for name in names:
        mine = [row for row in rows if row["problem"] == name and "predicted_ms" in row]
        if half and (mine[0]["place"] % 2 == 0) != (half == "even"):
            continue
        ms, said = (np.array([row[key] for row in mine]) for key in ("ms", "predicted_ms"))
        order, ratio = np.argsort(said, kind="stable"), said / ms
        slow1.append(ms[order[0]] / ms.min())
        slow3.append(ms[order[:3]].min() / ms.min())
        first.append(ratio[order[0]])
        chance1.append(random_of(ms, 1))
        chance3.append(random_of(ms, 3))
        cpu += [row["cpu_s"] for row in mine if "cpu_s" in row]
        quartiles = " ".join(f"{q:.2f}" for q in np.quantile(ratio, [0.25, 0.5, 0.75]))
        lost = sum(bool(row.get("notes")) for row in mine)
        unknown = f"  ({lost} with something not known)" if lost else ""
        print(f"{name:40} {len(mine):5}  {slow1[-1]:.3f}  {slow3[-1]:.3f}  {chance1[-1]:.2f}, {chance3[-1]:.2f}    "
              f"{first[-1]:.2f}  {quartiles}{unknown}")  # fmt: skip

    def mean(of: list[float]) -> float:
        return float(np.exp(np.log(of).mean()))

    near = sum(0.8 <= ratio <= 1.25 for ratio in first)
    total = f"{mean(slow1):.3f}  {mean(slow3):.3f}  {mean(chance1):.2f}, {mean(chance3):.2f}"
    print(f"{'geometric mean':40} {'':5}  {total}")
    print(f"first picks within 0.8 to 1.25 of the measured time: {near} of {len(first)}")
    if cpu:
        print(f"seconds of CPU a configuration: median {np.median(cpu):.2f}, mean {np.mean(cpu):.2f}")
        counters(rows, half)


def counters(rows: list[dict[str, Any]], half: str) -> None:
    shown = [r for r in rows if "counted" in r and (not half or (r["place"] % 2 == 0) == (half == "even"))]
    print(f"\nagainst the counters of {len(shown)} launches: within, and quartiles of said / counted")
    for key in ("all", *PIPES, "dram read", "l2"):
        ratios = [r["said"][key] / r["counted"][key] for r in shown
                  if key in r["said"] and r["counted"][key] > 1e-3 * r["counted"]["all"]]  # fmt: skip
        if ratios:
            limit = FAR if key in ("dram read", "l2") else NEAR
            close = sum(abs(ratio - 1) <= limit for ratio in ratios)
            quartiles = " ".join(f"{q:.3f}" for q in np.quantile(ratios, [0, 0.25, 0.5, 0.75, 1]))
            print(f"{key:9} {close:3} of {len(ratios):3} within {limit:.0%}   {quartiles}")


def triton(out: Path, arch: Any, only: set[str], count: int, limit_s: float) -> None:
    import zoo

    import carver
    from carver.integrations.gluon import binary as of_triton

    begun = time.monotonic()
    done = {(row["kernel"], row["config"]) for row in read(out)} if out.exists() else set()
    for name in sorted(only or zoo.BY_NAME):
        subject = zoo.BY_NAME[name]
        problem = subject.problems[0]
        for config in subject.configs(problem, count):
            if (name, json.dumps(config)) in done or time.monotonic() - begun > limit_s:
                continue
            call = {"args": subject.args(problem, config), "grid": subject.grid(problem, config)}
            constants, values = subject.constants(problem), subject.values(problem)
            row: dict[str, Any] = {"kernel": name, "config": json.dumps(config), "arch": arch.name}
            try:
                code = of_triton(subject.kernel, {**constants, **config}, block=None, arch=arch, **call)
                began = time.process_time()
                ours = facts_of_binary(code, arch, values or {})
                row["cpu_s"] = time.process_time() - began
                theirs = carver.inspect(subject.kernel, config=config, constants=constants, arch=arch, values=values,
                                        **call)  # fmt: skip
                row |= {"code": moved(ours, arch), "ir": moved(theirs, arch), "assumed": [ours.assumed, theirs.assumed],
                        "notes": [note for note in ours.notes if "not known" in note]}  # fmt: skip
            except CarverError as error:
                row["error"] = str(error).splitlines()[0]
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(name, row.get("error") or {k: (row["ir"][k], v) for k, v in row["code"].items()}, flush=True)
    beside(read(out))


def moved(facts: Any, arch: Any) -> dict[str, float]:
    return {
        "passes": max((loop.trips for loop in facts.loops), default=1.0),
        "asked": facts.bytes_of("load", "store", "atomic"),
        "DRAM": facts.read_bytes + facts.written_bytes,
        "time": float(price_compiled([facts], arch)[1].seconds[0]) * 1e3,
    }


def beside(rows: list[dict[str, Any]]) -> None:
    """Where the evaluator of machine code stands beside that of Triton's IR."""
    both = [row for row in rows if "code" in row]
    print(f"\n{len(both)} of {len(rows)} configurations of {len({row['kernel'] for row in rows})} kernels by both")
    for key in ("passes", "asked", "DRAM", "time"):
        ratios = {(row["kernel"]): row["code"][key] / row["ir"][key] for row in both if row["ir"][key]}
        near = sum(abs(ratio - 1) <= 0.02 for ratio in ratios.values())
        close = sum(abs(ratio - 1) <= 0.1 for ratio in ratios.values())
        far = sorted(ratios, key=lambda name: -abs(math.log(max(ratios[name], 1e-9))))[:6]
        print(f"{key:7} code / IR: within 2 % {near}, within 10 % {close} of {len(ratios)}; farthest: "
              + ", ".join(f"{name} {ratios[name]:.2f}" for name in far))  # fmt: skip
    for row in rows:
        if "error" in row:
            print(f"{row['kernel']}: {row['error'][:100]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    each = commands.add_parser("predict")
    each.add_argument("folder", type=Path)
    each.add_argument("--out", type=Path, required=True)
    each.add_argument("--arch", default="h100")
    each.add_argument("--only", default="")
    each.add_argument("--every", type=int, default=1)
    each.add_argument("--jobs", type=int, default=1, help="processes")
    each.add_argument("--blind", action="store_true", help="configurations that were not timed as well")
    each = commands.add_parser("score")
    each.add_argument("file", type=Path)
    each.add_argument("--half", choices=("even", "odd"), default="")
    each.add_argument("--measured", type=Path, help="times of predictions that were made before")
    each = commands.add_parser("triton")
    each.add_argument("--out", type=Path, required=True)
    each.add_argument("--arch", default="h100")
    each.add_argument("--only", default="")
    each.add_argument("--configs", type=int, default=1)
    each.add_argument("--limit", type=float, default=540.0, metavar="SECONDS")
    given = parser.parse_args()
    if given.command == "predict":
        predict(given.folder, given.out, load(given.arch), given.only, given.every, given.blind, given.jobs)
    elif given.command == "triton":
        names = set(filter(None, given.only.split(",")))
        triton(given.out, load(given.arch), names, given.configs, given.limit)
    else:
        rows = read(given.file)
        score(measured(rows, given.measured) if given.measured else rows, given.half)


if __name__ == "__main__":
    main()
