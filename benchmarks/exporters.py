"""Every exporter on many devices and problems: as many entries as were asked for, none twice, complete, and taken by
the real package where it is installed.

    python benchmarks/exporters.py [TARGET ...] [--json FILE]

Prints a line a target: cases, entries, cases with fewer entries than asked for (the target says why), faults. Ends with
1 where there are faults. A case is a target, a device and a problem; no GPU is used.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import frame

import carver
from carver.export import cutlass, helion, inductor, kernel_tuner, optuna, plain, tilelang, triton, vllm

ASKED = 10
DEVICES = (
    "h200_sxm", "h100_pcie", "b200", "b300", "a100_sxm_80", "l40s", "rtx_4090", "rtx_5090", "gb10", "mi300x", "mi355x",
    "rx_7900_xtx",
)  # fmt: skip
SIZES = (
    (4096, 4096, 4096), (8192, 8192, 8192), (16, 4096, 14336), (1, 8192, 8192), (64, 1536, 7168), (2048, 2048, 512),
    (3000, 3000, 3000), (4096, 512, 16384), (256, 28672, 4096), (1000, 1024, 1024),
)  # fmt: skip
PROBLEMS = tuple((size, dtype) for size in SIZES for dtype in ("float16", "bfloat16"))


@dataclass(frozen=True)
class Case:
    """One export: how many entries came of how many asked for, what was said, and what is wrong with them."""

    target: str
    device: str
    problem: str
    entries: int
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    refused: str = ""
    asked: int = ASKED


def _integers(entries: Sequence[Mapping[str, Any]], keys: Iterable[str]) -> Iterator[str]:
    for entry in entries:
        if lacks := set(keys) - entry.keys():
            yield f"no {min(lacks)}"
        if odd := [key for key in keys if type(entry.get(key)) is not int]:
            yield f"{odd[0]} is no whole number"


def _triton(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    found = triton.configs(hints)
    every = [config.all_kwargs() for config in found]
    return found, _integers(every, ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"))


def _tilelang(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    found = tilelang.configs(hints)
    return found, _integers(found, ("block_M", "block_N", "block_K", "num_stages", "thread_num"))


def _cutlass(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    """Tiles of the collectives: 64 rows and more on Hopper and Blackwell, whole instructions of columns."""
    found = cutlass.configs(hints)
    least = 16 if hints.arch.cc_major in (8, 12) else 64
    wrong = [c for c in found if c["tile_shape"][0] % least or c["tile_shape"][1] % 8 or c["stages"] < 1]
    return found, [f"no collective has {c['tile_shape']}" for c in wrong]


def _cute_dsl(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    """What the example's `can_implement` asks: 64 or 128 rows of a block, 128 or 256 of a pair, 32 to 256 columns in
    steps of 32, clusters whose rows a pair divides."""
    found = cutlass.cute_dsl(hints)
    faults = []
    for entry in found:
        (m, n), pair, (across, _) = entry["mma_tiler_mn"], entry["use_2cta_instrs"], entry["cluster_shape_mn"]
        if m not in ((128, 256) if pair else (64, 128)) or n not in range(32, 257, 32) or (pair and across % 2):
            faults.append(f"the kernel does not take {entry}")
    return found, faults


def _helion(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    found = helion.seed_configs(hints)
    return found, [f"{config}" for config in found if len(config.block_sizes) != 3 or not config.num_warps]


def _kernel_tuner(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    """Restricted to the hints, the package's own search space holds those and no other."""
    from kernel_tuner.searchspace import Searchspace

    found, space = kernel_tuner.configs(hints), kernel_tuner.tune_params(hints)
    size = Searchspace(space, [kernel_tuner.restriction(hints)], 1024).size
    return found, [f"its space has {size} of {len(found)}"] if size != len(found) else []


def _optuna(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    import optuna as package

    package.logging.set_verbosity(package.logging.ERROR)
    study = package.create_study()
    queued = optuna.enqueue(study, hints)
    return [trial.system_attrs["fixed_params"] for trial in study.get_trials()], (
        [f"{queued} queued"] if queued != len(hints) else []
    )


def _inductor(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    found = inductor.configs(hints)
    return found, [f"{config}" for config in found if config.block_m * config.block_n * config.block_k <= 0]


def _json(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    found = json.loads(plain.to_json(hints))
    return [{k: v for k, v in entry.items() if k != "predicted_ms"} for entry in found], ()


def _csv(hints: carver.Ranking) -> tuple[Sequence[Any], Iterable[str]]:
    rows = list(csv.DictReader(io.StringIO(plain.to_csv(hints))))
    return [{k: v for k, v in row.items() if k not in ("rank", "predicted_ms")} for row in rows], ()


TARGETS: Mapping[str, tuple[str, str, Callable[[carver.Ranking], tuple[Sequence[Any], Iterable[str]]]]] = {
    "triton": ("triton", "triton", _triton), "tilelang": ("", "tilelang", _tilelang), "cutlass": ("", "", _cutlass),
    "cute_dsl": ("", "", _cute_dsl), "helion": ("helion", "triton", _helion),
    "kernel_tuner": ("kernel_tuner", "triton", _kernel_tuner), "optuna": ("optuna", "triton", _optuna),
    "inductor": ("torch", "triton", _inductor), "json": ("", "triton", _json), "csv": ("", "triton", _csv),
}  # fmt: skip
"""By target: the package that it needs, the backend of its hints (empty: the one nearest to CUTLASS), its check."""


@cache
def _hints(device: str, size: tuple[int, int, int], dtype: str, backend: str) -> carver.Ranking:
    op = carver.MatmulTemplate(*size, trans_B=True, in_dtype=dtype).with_arch(device)
    return op.recommend_hints(ASKED, backend)


def case(target: str, device: str, size: tuple[int, int, int], dtype: str) -> Case:
    """Export one ranking and look at every entry."""
    _, backend, export = TARGETS[target]
    title = f"{'x'.join(map(str, size))} {dtype}"
    try:
        hints = _hints(device, size, dtype, backend or cutlass.closest(carver.load_arch(device)))
        found, faults = export(hints)
    except carver.CarverError as error:
        return Case(target, device, title, 0, refused=str(error))
    wrong, notes = list(faults), tuple(getattr(found, "notes", ()))
    if len({str(entry) for entry in found}) != len(found):
        wrong.append("an entry twice")
    if len(found) < len(hints) and not notes:
        wrong.append(f"{len(found)} of {len(hints)} entries, without a word")
    return Case(target, device, title, len(found), notes, tuple(wrong))


def serving(device: str, tokens: Sequence[int] = (1, 64, 1024)) -> Case:
    """The file of a mixture of experts: an entry for each number of tokens, with all keys of the project."""
    try:
        file = vllm.moe(carver.load_arch(device), 8, 2, 1024, 768, batches=tokens)
    except carver.CarverError as error:
        return Case("vllm", device, "E=8,N=768", 0, refused=str(error))
    read = json.loads(file.to_json())
    keys = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages")
    faults = [*_integers(list(read.values()), keys)]
    if list(read) != [str(n) for n in tokens]:
        faults.append(f"entries for {', '.join(read)}")
    return Case("vllm", device, "E=8,N=768", len(read), faults=tuple(faults), asked=len(tokens))


def cases(targets: Iterable[str], devices: Sequence[str] = DEVICES, problems: Any = PROBLEMS) -> Iterator[Case]:
    for target in targets:
        if target == "vllm":
            yield from map(serving, devices)
        elif not (package := TARGETS[target][0]) or find_spec(package):
            yield from (case(target, device, *problem) for device in devices for problem in problems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)}, vllm; all by default")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    done, lines = list[Case](), []
    for target in options.targets or [*TARGETS, "vllm"]:
        found = list(cases([target]))
        done += found
        short, refused = sum(0 < c.entries < c.asked for c in found), sum(bool(c.refused) for c in found)
        entries, wrong = sum(c.entries for c in found), sum(len(c.faults) for c in found)
        lines.append((target, len(found), entries, short, refused, wrong))
    print(frame.table(("target", "cases", "entries", "fewer", "refused", "faults"), lines))
    faults = [f"{c.target} {c.device} {c.problem}: {fault}" for c in done for fault in c.faults]
    print(*faults, sep="\n", end="\n" * bool(faults))
    if options.json:
        options.json.write_text(json.dumps([asdict(c) for c in done], indent=1) + "\n", encoding="utf-8")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
