"""Where the order by compiled code has the winners of tuned files, on GPUs of which carver has no times.

    python benchmarks/winners.py FOLDER --block-fp8 FILE.py:NAME [--devices l40s,mi300x] [--layers 16] [--pool 22]

FOLDER holds tuned files or a table of them, as `carver evaluate` takes it; FILE.py:NAME is SGLang's kernel
`_w8a8_block_fp8_matmul`, which is not part of carver. Each winner is ranked among the configurations that won most
often on its device, by the kernel's code for this device and by the declaration `triton_block_fp8`. Printed for each
device: the median share of candidates that are predicted to be more than 1 % faster than the winner, and the geometric
mean of the winner's predicted time over that of the first pick. No GPU is used.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from adapters import read_all
from adapters.winners import Winner
from compiled import block_fp8, ranked

from carver.base.errors import NoCandidates
from carver.compiled.worker import kernel_at
from carver.ranking.rank import rank

BACKEND = "triton_block_fp8"
FP8 = {"gfx942": "float8_e4m3fnuz"}
"""The 8-bit float that a chip multiplies, where it is not OCP's float8_e4m3."""
CLOSE = 1.01


def won(winner: Winner) -> dict[str, Any]:
    return dict(winner.pool.configs[winner.won])


def pool_of(winners: Sequence[Winner], count: int) -> list[dict[str, Any]]:
    """The configurations that won most often."""
    return [dict(items) for items, _ in Counter(tuple(sorted(won(w).items())) for w in winners).most_common(count)]


def place(seconds: Mapping[int, float], at: int, count: int) -> tuple[float, float]:
    """Share of the candidates that are clearly faster than the one at `at`, and its time over the least; the worst of
    all where it is missing."""
    if at not in seconds:
        return 1.0, max(seconds.values()) / min(seconds.values())
    own = seconds[at]
    return sum(s * CLOSE < own for s in seconds.values()) / count, own / min(seconds.values())


def placed(winner: Winner, pool: Sequence[dict[str, Any]], kernel: Any) -> dict[str, tuple[float, float]]:
    """The winner's place in the pool by the code of the kernel, and by its declaration."""
    sizes, at = winner.problem.sizes, pool.index(won(winner))
    m, n, k = (sizes[axis] for axis in "mnk")
    kind = winner.problem.dtypes["A"]
    dtype = FP8.get(winner.arch.isa, kind) if kind == "float8_e4m3" else kind
    row = {"problem": {"M": m, "N": n, "K": k}, "configs": pool, "times": ()}
    ranking = ranked(block_fp8(row, kernel, dtype), winner.arch)
    by_code = {i: hint.predicted_ms for hint in ranking for i in (hint.index, *hint.also)}
    declared = {hint.index: hint.predicted_ms for hint in rank(winner.problem, winner.arch, pool, BACKEND)}
    return {"code": place(by_code, at, len(pool)), "declaration": place(declared, at, len(pool))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--block-fp8", required=True, metavar="FILE.py:NAME")
    parser.add_argument("--devices", default="", help="names, with commas; all that the files name by default")
    parser.add_argument("--layers", type=int, default=16, help="winners of a device, drawn at random")
    parser.add_argument("--pool", type=int, default=22, help="configurations of a device")
    options = parser.parse_args()
    kernel = kernel_at(options.block_fp8)
    by_device: dict[str, list[Winner]] = defaultdict(list)
    for winner in read_all(options.folder):
        if isinstance(winner, Winner) and winner.backend == BACKEND:
            by_device[winner.arch.name].append(winner)
    print(f"{'':16} layers   clearly faster than the winner      winner's time over the first's")
    print(f"{'':16}          by the code  by the declaration    by the code  by the declaration")
    for name in options.devices.split(",") if options.devices else sorted(by_device):
        pool = pool_of(by_device[name], options.pool)
        known = [winner for winner in by_device[name] if won(winner) in pool]
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for winner in random.Random(0).sample(known, min(options.layers, len(known))):
            try:
                for how, where in placed(winner, pool, kernel).items():
                    found[how].append(where)
            except NoCandidates as none:
                print(f"{name}, {winner.problem}: {none}")
        if not found:
            continue
        (code, code_loss), (told, told_loss) = (
            (median(share for share, _ in found[how]), geometric_mean(loss for _, loss in found[how]))
            for how in ("code", "declaration")
        )
        count = len(found["code"])
        print(f"{name:16} {count:6} {code:12.0%} {told:19.0%} {code_loss:14.3f} {told_loss:19.3f}", flush=True)


if __name__ == "__main__":
    main()
