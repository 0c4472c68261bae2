"""AMD's machine code of HIP sources executed, beside what else carver knows of the same kernels. No GPU.

    python benchmarks/amd_machine.py hip [--arch mi210,mi300x,rx_7900_xtx] [--configs N]
    python benchmarks/amd_machine.py measured --table TABLE.csv.gz --arch mi50 [--configs N]

`hip`: sources of `kernels/tunable.hip` with the tunables of the declared convolution and dedispersion, ranked with no
declaration, beside the declarations' order (Spearman's rank correlation, and the place of the source's first pick in
the declared order). `measured`: `kernels/unrolled.hip`, written with the loops of the convolution and dedispersion of
Kernel Tuner's benchmark hub, beside a table of their times there: one column a tunable, and `time_med_ms`. Of the
convolution those tiles that divide the image are taken; the hub's code has another path for others. Triton's kernels on
AMD: `machine.py triton --arch mi300x`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import frame
import numpy as np

import carver
from carver.arch.descriptor import Arch
from carver.compiled.binary import Binary
from carver.integrations.source import binary as from_source
from carver.run.spec import Kernel

SOURCE = frame.HERE / "kernels" / "tunable.hip"
IMAGE = {"HEIGHT": 4096, "WIDTH": 4096, "FILTER_HEIGHT": 15, "FILTER_WIDTH": 15}
SIGNAL = {"TRIALS": 2048, "SAMPLES": 24576, "CHANNELS": 384, "MAX_DELAY": 650}


def convolution(config: Mapping[str, int], arch: Arch, sizes: Mapping[str, int] = IMAGE) -> Binary:
    height, width = sizes["HEIGHT"], sizes["WIDTH"]
    rows, columns = height + sizes["FILTER_HEIGHT"] - 1, width + sizes["FILTER_WIDTH"] - 1
    args = [carver.Tensor("float32", (rows, columns)), carver.Tensor("float32", (height, width))]
    return compiled("convolve", {**sizes, **config}, args, (width, height), config, arch)


def dedispersion(config: Mapping[str, int], arch: Arch, sizes: Mapping[str, int] = SIGNAL) -> Binary:
    trials, samples, channels, delay = sizes.values()
    args = [carver.Tensor("uint8", (channels, samples + delay)), carver.Tensor("float32", (trials, samples))]
    made = compiled("dedisperse", {**sizes, **config}, args, (samples, trials), config, arch)
    # a delay grows with the square of the wavelength: nothing at the highest frequency, all of it at the lowest
    wave = (1.0 / np.linspace(1.0, 0.75, channels)) ** 2
    shifts = (wave - wave[0]) / (wave[-1] - wave[0]) * delay / trials
    return replace(made, constants={"shifts": shifts.astype(np.float32)})


def compiled(
    entry: str, macros: Mapping[str, int], args: Sequence[Any], over: tuple[int, int], config: Mapping[str, int],
    arch: Arch,
) -> Binary:  # fmt: skip
    tile = [config[f"block_size_{axis}"] * config[f"tile_size_{axis}"] for axis in "xy"]
    grid = tuple(-(-size // each) for size, each in zip(over, tile, strict=True))
    block = (config["block_size_x"], config["block_size_y"])
    return from_source(Kernel(SOURCE, entry), macros, args=args, grid=grid, block=block, arch=arch)


CONVOLUTIONS = [
    {"block_size_x": bx, "block_size_y": by, "tile_size_x": tx, "tile_size_y": ty, "use_shmem": held, "use_padding": 0,
     "read_only": 0}
    for bx, by, tx, ty, held in itertools.product((16, 32, 64, 128), (2, 4, 8), (1, 2, 4), (1, 4), (0, 1))
    if 64 <= bx * by <= 512
]  # fmt: skip
DEDISPERSIONS = [
    {"block_size_x": bx, "block_size_y": by, "tile_size_x": tx, "tile_size_y": ty, "tile_stride_x": sx,
     "tile_stride_y": 0}
    for bx, by, tx, ty, sx in itertools.product((8, 16, 32), (32, 64), (1, 2, 4), (1, 2, 4), (0, 1))
    if bx * by <= 1024 and (tx > 1 or not sx)
]  # fmt: skip


def hip(archs: list[Arch], count: int) -> None:
    image, signal = carver.Conv2DTemplate, carver.DedispersionTemplate
    cases = [
        ("convolution", convolution, CONVOLUTIONS, image(*IMAGE.values())),
        ("dedispersion", dedispersion, DEDISPERSIONS, signal(*SIGNAL.values())),
    ]  # fmt: skip
    for arch, (name, make, space, template) in itertools.product(archs, cases):
        configs = random.Random(name).sample(space, min(count, len(space)))
        begun = time.monotonic()
        found = carver.rank_kernel(lambda config: make(config, arch), configs, arch=arch, compile="all")  # noqa: B023
        took = time.monotonic() - begun
        said = template.with_arch(arch).rank(configs, "kernel_tuner_hip")
        ours, declared = ({hint.index: hint.predicted_ms for hint in each} for each in (found, said))
        both = sorted(ours.keys() & declared.keys())
        rho = correlation(*([each[i] for i in both] for each in (ours, declared)))
        first = min(both, key=ours.__getitem__)
        place = sorted(declared[i] for i in both).index(declared[first]) + 1
        loss = declared[first] / min(declared[i] for i in both)
        print(f"{arch.title:26} {name:13} {len(both):3} of {len(configs)}: rank correlation {rho:.2f}; the first "
              f"is {place}. of the declared ({loss:.3f} of its best); {ours[first]:.4g} ms, declared "
              f"{declared[first]:.4g}; "
              f"{took / len(configs):.1f} s each", flush=True)  # fmt: skip
        notes = {note for hint in found for note in hint.facts.notes if "not known" in note}
        for note in sorted(notes)[:3]:
            print(f"    {note}")


UNROLLED = frame.HERE / "kernels" / "unrolled.hip"
HUB = {"TRIALS": 2048, "SAMPLES": 25_000, "CHANNELS": 1536, "MAX_DELAY": 650}


def hub(config: Mapping[str, int], arch: Arch) -> Binary:
    """A row of a table as the hub launches it: of the dedispersion tiles do not divide the grid, so that many blocks
    have nothing to do."""
    bx, by, tx, ty = (config[f"{what}_size_{axis}"] for what in ("block", "tile") for axis in "xy")
    if "use_padding" in config:
        height, width, *_ = IMAGE.values()
        args = [carver.Tensor("float32", (height, width)), carver.Tensor("float32", (height + 14, width + 14))]
        entry, macros, grid = "convolve", {**IMAGE, **config}, (width // (bx * tx), height // (by * ty))
    else:
        trials, samples, channels, delay = HUB.values()
        args = [carver.Tensor("uint8", (channels, samples + delay)), carver.Tensor("float32", (trials, samples)),
                carver.Tensor("float32", (channels,))]  # fmt: skip
        entry, macros, grid = "dedisperse", {**HUB, **config}, (-(-samples // bx), -(-trials // by))
    return from_source(Kernel(UNROLLED, entry), macros, args=args, grid=grid, block=(bx, by), arch=arch)


def measured(table: Path, arch: Arch, count: int) -> None:
    with gzip.open(table, "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["valid"] == "1" and row.get("read_only", "0") == "0"]
    tunables = [name for name in rows[0] if name.startswith(("block_", "tile_", "use_"))]
    listed = [({name: int(row[name]) for name in tunables}, float(row["time_med_ms"])) for row in rows]
    if "use_padding" in tunables:
        listed = [
            ({"use_shmem": 1, **c}, ms) for c, ms in listed
            if not any(4096 % (c[f"block_size_{axis}"] * c[f"tile_size_{axis}"]) for axis in "xy")
        ]  # fmt: skip
    picked = random.Random(table.name).sample(listed, min(count, len(listed)))
    begun = time.monotonic()
    ranking = carver.rank_kernel(lambda config: hub(config, arch), [c for c, _ in picked], arch=arch, seconds=300,
                                 compile="all")  # fmt: skip
    ms = {hint.index: picked[hint.index][1] for hint in ranking}
    ours, theirs = [hint.predicted_ms for hint in ranking], list(ms.values())
    score = frame.scored(table.name, ours, theirs)
    ratio = np.percentile(np.divide(ours, theirs), [10, 50, 90])
    print(f"{arch.title}, {table.name}: {len(ms)} of {len(picked)}: rank correlation {correlation(ours, theirs):.3f}; "
          f"first pick {score.lost[0]:.3f} of the best, best of three {score.lost[1]:.3f}, geometric mean "
          f"{geometric_mean(theirs) / min(theirs):.2f}; predicted over measured {ratio[0]:.2f}, {ratio[1]:.2f}, "
          f"{ratio[2]:.2f} (10, 50, 90 %); {(time.monotonic() - begun) / len(picked):.1f} s each")  # fmt: skip


def correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Spearman's, of ranks."""
    return float(np.corrcoef(*(np.argsort(np.argsort(each)) for each in (ours, theirs)))[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["hip", "measured"])
    parser.add_argument("--arch", default="mi300x,rx_7900_xtx")
    parser.add_argument("--configs", type=int, default=2)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    archs = [carver.load_arch(name) for name in options.arch.split(",")]
    if options.what == "hip":
        hip(archs, options.configs)
    else:
        measured(options.table, archs[0], options.configs)


if __name__ == "__main__":
    main()
