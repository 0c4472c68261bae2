"""Pinned picks, ties and defaults: what holds, by measurement. No GPU is used.

    python benchmarks/pins.py agree [--problems 100] [--processes 8] [--configs 6] [--cold 20] [--folder FOLDER]
                                    [--pythons PATH...]
    python benchmarks/pins.py resolution tests/data/h200/zoos_priced.jsonl.gz

`agree` chooses for problems of the zoo's kernels (those of `zoo.py` whose arguments are the same for all
configurations) in several processes, with lists in another order, other seeds of hashes, 1, 2 and 8 threads, empty
caches and full ones, as another user, from a table, and with other interpreters; it prints how many picks are one and
the same. `resolution` says what margins cost and save in all lists, with their first as the default, and for each half
of the kernels how many of those that ties of a width call alike are not, and how many others are in the other order.
What tuning again and again gives on a GPU: `report.py` of the files that `tests/data/*/README.md` names.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import frame
import numpy as np
import zoo
from zoos.subject import Config, Subject

import carver
from carver.base.given import canonical
from carver.ranking import pins
from carver.ranking.ranking import TIED, size

NOBODY = 65534


def problems(count: int, configs: int) -> list[tuple[Subject, int, list[Config]]]:
    """Lists that are ranked without the contents of tensors, those of short kernels first: they compile fastest."""
    found = []
    for subject in zoo.named(""):
        for i, problem in enumerate(subject.problems):
            listed = subject.configs(problem, configs)
            args = [subject.args(problem, config) for config in listed]
            if len(listed) > 1 and not subject.values(problem) and all(each == args[0] for each in args):
                found.append((subject, i, listed))
    found.sort(key=lambda each: (not each[0].kind, len(each[0].kernel.src)))
    return found[:count]


def picks(options: argparse.Namespace) -> None:
    """One process of `agree`: its picks as JSON."""
    shuffled, out = random.Random(options.seed), {}
    arch = carver.load_arch(options.arch)
    table = pins.Table.read(options.table) if options.table else None
    for subject, i, listed in problems(options.problems, options.configs):
        problem = subject.problems[i]
        args = {**subject.args(problem, listed[0]), **subject.constants(problem)}
        order = shuffled.sample(listed, len(listed))
        name = f"{subject.name} {i}"
        try:
            if table is not None:
                pin = table.pins[pins.name_of(subject.kernel), canonical({"problem": name})]
                if why := pins.stale(pin, subject.kernel, order, arch):
                    raise pins.PinsError(why)
            else:
                names = list(listed[0])

                def grid(meta: Mapping[str, Any], s: Subject = subject, p: Any = problem, n: Any = names) -> Any:
                    return s.grid(p, {k: meta[k] for k in n})

                pin = pins.pick(subject.kernel, order, args=args, arch=arch, key={"problem": name}, grid=grid)
            out[name] = pin.to_dict() if options.whole else [dict(pin.config), pin.hash]
        except carver.CarverError as error:
            out[name] = f"{type(error).__name__}: {error}"[:300]
    json.dump(out, sys.stdout, sort_keys=True)


def agree(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(options.folder or temporary)
        home.mkdir(exist_ok=True)
        home.chmod(0o755)
        shared, table = home / "shared", home / "pins.json"
        table.unlink(missing_ok=True)
        answers: dict[str, dict[str, Any]] = {}
        ways = [
            ("first", 0, "1", shared, None, False), ("caches full", 1, "2", shared, None, False),
            ("caches full", 2, "8", shared, None, False), ("caches full, one core", 3, "1", shared, None, False),
            ("caches empty", 4, "2", home / "own", None, False),
            ("from the table", 5, "1", home / "none", None, True),
            ("another user, a copy of the caches", 6, "2", home / "user", NOBODY, False),
            ("another user, from the table", 7, "8", home / "user", NOBODY, True),
        ][: options.processes]  # fmt: skip
        ways += [(path, 8 + i, "2", home / f"python{i}", None, False) for i, path in enumerate(options.pythons)]
        for what, seed, threads, cache, user, from_table in ways:
            began = time.monotonic()
            environment = os.environ | {
                "PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads,
                "CARVER_CACHE_DIR": str(cache / "carver"), "TRITON_CACHE_DIR": str(cache / "triton"),
                "HOME": str(cache), "PYTHONDONTWRITEBYTECODE": "1",
            }  # fmt: skip
            cache.mkdir(exist_ok=True)
            if user is not None:
                shutil.copytree(shared, cache, dirs_exist_ok=True)
                for path in (cache, *cache.rglob("*")):
                    os.chown(path, user, user)
            command = [sys.executable, str(Path(__file__)), "picks", "--seed", str(seed), "--arch", options.arch,
                       "--problems", str(options.problems), "--configs", str(options.configs)]  # fmt: skip
            if what in options.pythons:
                command[0] = what
            if what == "caches empty" or what in options.pythons:
                command += ["--problems", str(options.cold)]
            command += ["--table", str(table)] if from_table else ["--whole"] if not seed else []
            if user is not None:
                command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
            if what.endswith("one core"):
                command = ["taskset", "-c", "0", *command]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{what}: {done.stderr.strip()[-500:]}")
                continue
            found = json.loads(done.stdout)
            if not seed:
                made = [pins.Pin.from_dict(each, "it") for each in found.values() if isinstance(each, dict)]
                pins.add(table, options.arch, made)
                table.chmod(0o644)
                found = {name: [e["config"], e["hash"]] if isinstance(e, dict) else e for name, e in found.items()}
            answers[f"{seed}: {what}"] = found
            same = sum(found[name] == first[name] for name in found) if (first := next(iter(answers.values()))) else 0
            refused = sum(isinstance(each, str) for each in found.values())
            print(f"{what:36s} threads {threads}  {same} of {len(found)} as the first, {refused} refused, "
                  f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
        first = next(iter(answers.values()))
        equal = sum(found[name] == first[name] for found in answers.values() for name in found)
        print(f"{equal} of {sum(map(len, answers.values()))} are one and the same pick")


Timed = tuple[float, float, Mapping[str, Any], Sequence[int]]
"""Predicted and measured ms, configuration, registers and shared memory."""


def taken(timed: Sequence[Timed]) -> Timed:
    """What a tie takes: the smaller configuration, where a table has no registers."""
    best = min(each[0] for each in timed)
    return min((each for each in timed if each[0] <= best * (1 + TIED)), key=lambda each: (each[3], size(each[2])))


def resolution(options: argparse.Namespace) -> None:
    """What margins give, and what ties hold."""
    halves: dict[int, list[list[Timed]]] = {0: [], 1: []}
    whole: list[list[Timed]] = []
    for path in options.files:
        for row in frame.rows(path):
            columns = [row[k] for k in ("predicted_ms", "measured_ms", "configs")]
            needs = row.get("registers_and_shared_bytes", [()] * len(columns[0]))
            timed = [each for each in zip(*columns, needs, strict=True) if each[0] and each[1]]
            halves[frame.half(row["kernel"])] += [timed] if len(timed) > 2 else []
            whole += [timed] if row["predicted_ms"][0] and row["measured_ms"][0] else []
    print(f"the first of each of {len(whole)} lists as its default")
    for margin in (0.0, TIED, 0.05, 0.1, 0.15):
        found = [(taken(timed), timed[0], min(each[1] for each in timed)) for timed in whole]
        kept = [(pick if first[0] / pick[0] - 1 > margin else first, first, least) for pick, first, least in found]
        slow = np.array([pick[1] / first[1] for pick, first, _ in kept])
        over = np.exp(np.mean([np.log(pick[1] / least) for pick, _, least in kept]))
        print(f"  margin {margin:5.0%}: {(slow > 1.02).sum()} slower by 2 %, worst {slow.max():.3f}, "
              f"over the best {over:.4f}")  # fmt: skip
    for half, ours in halves.items():
        print(f"half {half} of the kernels: {len(ours)} lists")
        print(f"    {'a tie':6s} {'pairs':>7s} {'apart by 3 %':>13s} {'called different, in the other order':>38s} "
              f"{'by 3 %':>7s}")  # fmt: skip
        for width in (TIED, 0.03):
            tied, apart = [], []
            for timed in ours:
                weight = 2 / (len(timed) * (len(timed) - 1))
                for a, b in itertools.combinations(timed, 2):
                    far = abs(np.log(a[1] / b[1])) > 0.03
                    wrong = (a[0] - b[0]) * (a[1] - b[1]) < 0
                    if max(a[0], b[0]) / min(a[0], b[0]) - 1 <= width:
                        tied.append((weight, far))
                    else:
                        apart.append((weight, wrong, wrong and far))
            print(f"    {width:6.0%} {len(tied):7d} {share_of(tied, 1):13.2f} {share_of(apart, 1):38.3f} "
                  f"{share_of(apart, 2):7.3f}")  # fmt: skip


def share_of(pairs: Sequence[Sequence[float]], which: int) -> float:
    """Of pairs with their weights first, the share of those of which this is so; NaN where there are none."""
    found = np.array(pairs, float)
    return float(np.average(found[:, which], weights=found[:, 0])) if pairs else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("resolution")
    command.set_defaults(run=resolution)
    command.add_argument("files", type=Path, nargs="+")
    for run in (agree, picks):
        command = commands.add_parser(run.__name__)
        command.set_defaults(run=run)
        command.add_argument("--problems", type=int, default=100)
        command.add_argument("--configs", type=int, default=6)
        command.add_argument("--arch", default="h100_sxm")
        if run is agree:
            command.add_argument("--processes", type=int, default=8)
            command.add_argument("--cold", type=int, default=20, help="problems of the process that compiles all anew")
            command.add_argument("--folder", type=Path)
            command.add_argument("--pythons", nargs="*", default=[], help="others that have Triton and carver's needs")
        else:
            command.add_argument("--seed", type=int, default=0)
            command.add_argument("--table", type=Path)
            command.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
