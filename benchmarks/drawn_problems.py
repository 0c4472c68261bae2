"""Problems drawn at random: what carver's own kernels say they compute, they compute, on the device of this machine.

    python benchmarks/drawn_problems.py --count 200 --seed 1 [--device auto] [--picks 3] [--out FILE.jsonl]

Each problem, a statement of index notation or a template with its options, is refused with an error of carver's own,
or the first hint and others that can run, well or badly, are built, run and checked against a reference. Exits with 1
where one failed or gave a wrong result.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import carver
from carver.base.errors import CarverError
from carver.ranking.recommend import recommend
from carver.run.bench import Bench, candidates, measure
from carver.run.records import Records
from carver.run.worker import Settings

AXES = "ijkl"
EXTENTS = (1, 2, 3, 5, 8, 16, 17, 32, 48, 64, 100, 128)
TYPES = ("float32", "float16", "bfloat16", "float64", "int8", "tf32", "float8_e4m3")


def some(draw: random.Random, axes: str) -> list[str]:
    """Of these axes most, mostly in order, and one at least."""
    found = [axis for axis in axes if draw.random() < 0.7] or [draw.choice(axes)]
    return draw.sample(found, len(found)) if draw.random() < 0.2 else found


def tensor(name: str, axes: list[str]) -> str:
    return f"{name}[{','.join(axes)}]"


def statement(draw: random.Random) -> tuple[str, dict[str, int]]:
    """A statement and the extents of its axes: element by element, a reduction, or a product."""
    axes = AXES[: draw.choice((1, 2, 2, 3, 3, 3, 4))]
    extents = {axis: draw.choice(EXTENTS) for axis in axes}
    a = [*axes] if draw.random() < 0.7 else some(draw, axes)
    match draw.choice(("each", "reduction", "product", "product")):
        case "each":
            out, right = some(draw, axes), tensor("A", a)
            for name in "BCD"[: draw.choice((0, 1, 1, 2))]:
                right += draw.choice((" + ", " * ")) + tensor(name, some(draw, axes))
            said = f"{tensor('Y', out)} = {right}"
        case "reduction":
            out = [axis for axis in a if draw.random() < 0.5]
            said = f"{tensor('Y', out)} {draw.choice(('+=', 'max='))} {tensor('A', a)}"
        case _:
            b = some(draw, axes)
            summed = {axis for axis in a if axis in b and draw.random() < 0.7}
            out = [axis for axis in axes if axis in {*a, *b} - summed]
            said = f"{tensor('Y', out)} += {tensor('A', a)} * {tensor('B', b)}"
    walked = "".join(said.split("[")[1:])
    return said, {axis: extent for axis, extent in extents.items() if axis in walked}


def templated(draw: random.Random, dtype: str) -> tuple[str, dict[str, Any]]:
    """A template by its name, and its arguments."""
    m, n, k = (draw.choice((1, 7, 16, 33, 64, 100, 128, 200, 256, 333)) for _ in "mnk")

    def flag() -> bool:
        return draw.random() < 0.5

    match draw.choice(("MatmulTemplate", "MatmulTemplate", "GEMVTemplate", "ReductionTemplate", "ElementwiseTemplate")):
        case "MatmulTemplate":
            options = {"batch": draw.choice((1, 1, 1, 3)), "trans_A": flag(), "trans_B": flag(), "with_bias": flag(),
                       "activation": draw.choice(("none", "relu", "gelu", "silu")), "in_dtype": dtype}  # fmt: skip
            return "MatmulTemplate", {"M": m, "N": n, "K": k} | options
        case "GEMVTemplate":
            options = {"batch": draw.choice((1, 5)), "trans_A": flag(), "with_bias": flag(), "in_dtype": dtype}
            return "GEMVTemplate", {"N": n, "K": k * 3} | options
        case "ReductionTemplate":
            op = draw.choice(("sum", "max", "mean", "softmax", "layer_norm", "rms_norm"))
            return "ReductionTemplate", {"op": op, "shape": (m, n * 5), "axis": int(flag()), "in_dtype": dtype}
    inputs, broadcast = draw.choice((1, 2, 4)), draw.choice((0, 1, 2))
    return "ElementwiseTemplate", {"shape": (m, n), "dtype": dtype, "inputs": inputs, "broadcast": broadcast}


def tried(bench: Bench, name: str, given: dict[str, Any], picks: int, draw: random.Random) -> list[Any]:
    """What became of the first hint and of others that can run: kernel, configuration, outcome, words."""
    op = getattr(carver, name)(**given).with_arch(bench.machine.arch)
    hints = list(recommend(op.problem, bench.machine.arch, 1_000_000, op.own_backend, advised=draw.random() < 0.5))
    chosen = [hints[0], *draw.sample(hints[1:], min(picks, len(hints)) - 1)]
    found = measure(bench, candidates(chosen, bench.machine.arch))
    return [(m.kernel, dict(m.config), m.outcome, m.message) for m in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--picks", type=int, default=3, help="candidates of a problem")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    draw, seen, bad = random.Random(args.seed), Counter[str](), 0
    settings = Settings(rounds=1, budget_s=0.5, timeout_s=20.0)
    with (
        tempfile.TemporaryDirectory() as folder,
        Records(Path(folder) / "records.sqlite") as store,
        Bench(args.device, store, settings) as bench,
    ):
        for _ in range(args.count):
            dtype, place = draw.choice(TYPES), draw.random()
            if draw.random() < 0.5:
                said, extents = statement(draw)
                name, given = "OpTemplate", {"computes": said, "in_dtype": dtype, **extents}
            else:
                name, given = templated(draw, dtype)
            row: dict[str, Any] = {"template": name, "given": given, "tried": []}
            try:
                row["tried"] = tried(bench, name, given, args.picks, random.Random(place))
            except CarverError as refused:
                row["refused"] = str(refused)
                seen[type(refused).__name__] += 1
            for kernel, config, outcome, message in row["tried"]:
                seen[outcome] += 1
                if outcome != "ok":
                    bad += 1
                    print(f"{name} {given}: {kernel} {config}: {outcome}: {message}", flush=True)
            if args.out:
                with args.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print(", ".join(f"{count} {what}" for what, count in seen.most_common()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
