"""Tune a matmul scaled in blocks twice as vLLM and SGLang do it, and time it once with cold caches, on this GPU.

    python benchmarks/retune.py measure --out FILE.jsonl
    python benchmarks/retune.py score FILE.jsonl --arch h100

These tuners (vLLM, benchmarks/kernels/benchmark_w8a8_block_fp8.py) launch a configuration ten times on the same
tensors. The host waits for each launch, no cache is cleared, and the time between two events around a launch includes
what the host takes to launch it. `measure` does so twice, one whole list after the other, and a third time with the
launches queued behind writes that overwrite L2. It needs PyTorch and Triton.

`score` prints, for up to 64 rows and for more, where the fastest configuration of the first tuning stands in the second
and in the cold times, whether two tunings choose one tile, and where carver has the fastest of each. Places in percent
are medians of the share of configurations that are faster; carver prices problems for the tuner as `tuner_space.py`
does. Where a matrix is one row of tiles, the order of tiles changes nothing, and the shorter of both cold times counts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from tuner_space import warm  # noqa: E402

import carver  # noqa: E402
from carver.base.errors import ConfigError  # noqa: E402
from carver.base.given import text_of  # noqa: E402
from carver.ranking.rank import rank  # noqa: E402
from carver.ranking.recommend import recommend  # noqa: E402

Config = dict[str, int]
SPACE = {
    "num_stages": (2, 3, 4, 5), "BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_K": (64, 128), "BLOCK_N": (32, 64, 128, 256),
    "num_warps": (4, 8), "GROUP_M": (1, 32),
}  # fmt: skip
LAYERS = ((2048, 4096), (5120, 2048))
"""N and K of the files for an L40."""
ROWS = (1, 8, 32, 64, 128, 512, 1024, 4096)
FEW_ROWS = 64
SCALED = 128
"""Columns and depth of a block of scales."""
WARMED, LAUNCHES = 5, 10
CLEARED_BYTES = 1 << 28
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K")


def launch(config: Mapping[str, int], tensors: Sequence[Any], m: int, n: int, k: int) -> None:
    from kernels.triton_moe import scaled_matmul

    blocks = -(-m // config["BLOCK_M"]) * -(-n // config["BLOCK_N"])
    options = {name: value for name, value in config.items() if name != "GROUP_M"}
    scaled_matmul[(blocks,)](
        *tensors, m, n, k, config["GROUP_M"], k, k, n, k // SCALED, k // SCALED, WHOLE_K=True, SCALE_N=SCALED,
        SCALE_K=SCALED, **options,
    )  # fmt: skip


def tensors_of(m: int, n: int, k: int) -> tuple[Any, ...]:
    import torch

    def drawn(*shape: int) -> Any:
        return torch.rand(shape, device="cuda")

    a, b = (drawn(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return a, b, c, drawn(m, k // SCALED), drawn(n // SCALED, k // SCALED)


def compiles(config: Config) -> bool:
    from triton.runtime.errors import OutOfResources

    try:
        launch(config, tensors_of(16, 2048, 2048), 16, 2048, 2048)
    except OutOfResources:
        return False
    return True


def mean_ms(config: Config, problem: tuple[int, int, int], tensors: Sequence[Any], cleared: Any = None) -> float:
    """Mean time of launches: as the tuners take it, or with cold caches where there is a tensor to overwrite."""
    import torch

    for _ in range(WARMED):
        launch(config, tensors, *problem)
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    taken = []
    for _ in range(LAUNCHES):
        if cleared is None:
            torch.cuda.synchronize()
        else:
            cleared.zero_()
        begin.record()
        launch(config, tensors, *problem)
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    return sum(taken) / len(taken)


def measure(out: Path) -> None:
    import torch

    every = [dict(zip(SPACE, values, strict=True)) for values in itertools.product(*SPACE.values())]
    with multiprocessing.get_context("spawn").Pool() as pool:  # Triton's cache on disk hands their code on
        configs = [config for config, ran in zip(every, pool.map(compiles, every, 8), strict=True) if ran]
    cleared = torch.empty(CLEARED_BYTES, dtype=torch.int8, device="cuda")
    with out.open("w") as file:
        file.write(json.dumps({"device": torch.cuda.get_device_name(), "configs": configs}) + "\n")
        for (n, k), m in itertools.product(LAYERS, ROWS):
            tensors, problem = tensors_of(m, n, k), (m, n, k)
            times = {
                name: [round(mean_ms(config, problem, tensors, empty) * 1e3, 2) for config in configs]
                for name, empty in (("tuned_us", None), ("again_us", None), ("cold_us", cleared))
            }
            file.write(json.dumps({"problem": problem, **times}) + "\n")
            file.flush()


def faster(times: np.ndarray, place: int) -> float:
    """Share of the configurations that are faster. [%]"""
    return 100.0 * float(np.mean(times < times[place]))


def distinct(order: Sequence[int], tiles: Sequence[tuple[int, ...]], count: int) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(tiles[i] for i in order))[:count]


def scored(row: Mapping[str, Any], configs: Sequence[Config], arch: carver.Arch) -> dict[str, float]:
    m, n, k = row["problem"]
    tuned, again, cold = (np.array(row[name]) for name in ("tuned_us", "again_us", "cold_us"))
    tiles = [tuple(config[axis] for axis in TILE) for config in configs]
    same: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, config in enumerate(configs):
        order = config["GROUP_M"] if m > config["BLOCK_M"] else 1
        same[*tiles[i], config["num_warps"], config["num_stages"], order].append(i)
    for places in same.values():
        cold[places] = cold[places].min()
    first, second, best = (int(times.argmin()) for times in (tuned, again, cold))
    op = carver.MatmulTemplate(m, n, k, trans_B=True, in_dtype="float8_e4m3", out_dtype="bfloat16")
    out = {
        "first tuning's winner in the second": faster(again, first),
        "first tuning's winner in the cold times": faster(cold, first),
        "its cold time over the least": float(cold[first] / cold[best]),
        "two tunings choose one tile [share]": float(tiles[first] == tiles[second]),
        "the tile of the first is among the ten fastest of the second [share]": float(
            tiles[first] in distinct(np.argsort(again, kind="stable").tolist(), tiles, 10)
        ),
        "a configuration's two times differ by [us]": float(np.std(tuned - again)),
    }  # fmt: skip
    for name, where, won in (("tuner's", warm(arch, op.problem), first), ("cold", arch, best)):
        order = rank(op.problem, where, configs, "triton_block_fp8").indices
        hints = recommend(op.problem, where, 10, "triton_block_fp8")
        ten = [tuple(hint.config[axis] for axis in TILE) for hint in hints]
        out[f"carver's place of the {name} winner"] = 100.0 * order.index(won) / len(configs) if won in order else 100.0
        out[f"its tile is among carver's first ten hints, {name} [share]"] = float(tiles[won] in ten)
    out["carver's first, its cold time over the least"] = float(cold[order[0]] / cold[best])
    return out


def score(file: Path, arch: carver.Arch) -> None:
    head, *rows = (json.loads(line) for line in text_of(file, ConfigError).splitlines())
    for low, high in ((0, FEW_ROWS), (FEW_ROWS, max(ROWS))):
        found = [scored(row, head["configs"], arch) for row in rows if low < row["problem"][0] <= high]
        print(f"{len(found)} problems with more than {low} rows")
        for name in found[0]:
            values = [one[name] for one in found]
            if "[share]" in name:
                print(f"    {name.removesuffix(' [share]')}: {np.mean(values):.0%}")
            elif "over the least" in name:
                print(f"    {name}: {np.exp(np.mean(np.log(values))):.3f}, at most {max(values):.3f}")
            else:
                print(f"    {name}: {np.median(values):.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("measure").add_argument("--out", type=Path, required=True)
    scoring = commands.add_parser("score")
    scoring.add_argument("file", type=Path)
    scoring.add_argument("--arch", default="h100_sxm")
    options = parser.parse_args()
    if options.command == "measure":
        measure(options.out)
    else:
        score(options.file, carver.load_arch(options.arch))


if __name__ == "__main__":
    main()
