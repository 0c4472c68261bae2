"""Kernels of our own in CUDA C++, TileLang, CuTe DSL, cuTile, Gluon, Numba and Warp, built with no GPU.

    python benchmarks/languages.py build FOLDER [--only NAME] [--arch h100]
    python benchmarks/languages.py join FOLDER TABLE.jsonl.gz

`build` compiles every configuration and writes `problems.json.gz` and `cubins.tar.xz` into FOLDER, as
`benchmarks/machine.py predict` reads them. `join` adds what was measured to the problems of FOLDER:
`tests/data/h100/languages.jsonl.gz`, say. `time` of commit c7394a82 measured these: it held what each configuration
writes against a result in double precision, timed it 25 times in two passes of random order, with a buffer of 128 MiB
read before each launch, and had Nsight Compute count some of the launches.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import math
import os
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import frame  # noqa: E402
from kernels.language_problems import NZ, ROWS, Problem  # noqa: E402
from kernels.language_problems import problems as first_problems  # noqa: E402
from kernels.language_problems_eighth import eighth_problems  # noqa: E402
from kernels.language_problems_eleventh import eleventh_problems  # noqa: E402
from kernels.language_problems_fifteenth import fifteenth_problems  # noqa: E402
from kernels.language_problems_fifth import fifth_problems  # noqa: E402
from kernels.language_problems_fourteenth import fourteenth_problems  # noqa: E402
from kernels.language_problems_fourth import fourth_problems  # noqa: E402
from kernels.language_problems_more import more_problems  # noqa: E402
from kernels.language_problems_ninth import ninth_problems  # noqa: E402
from kernels.language_problems_seventh import seventh_problems  # noqa: E402
from kernels.language_problems_sixteenth import sixteenth_problems  # noqa: E402
from kernels.language_problems_sixth import sixth_problems  # noqa: E402
from kernels.language_problems_tenth import tenth_problems  # noqa: E402
from kernels.language_problems_third import third_problems  # noqa: E402
from kernels.language_problems_thirteenth import thirteenth_problems  # noqa: E402
from kernels.language_problems_twelfth import twelfth_problems  # noqa: E402

MAP_TYPES = {"uint8": 0, "int8": 0, "float8_e4m3": 0, "int32": 3, "float16": 6, "float32": 7, "bfloat16": 9}
"""Of `cuTensorMapEncodeTiled`."""


def problems() -> list[Problem]:
    return [
        *first_problems(),
        *more_problems(),
        *third_problems(),
        *fourth_problems(),
        *fifth_problems(),
        *sixth_problems(),
        *seventh_problems(),
        *eighth_problems(),
        *ninth_problems(),
        *tenth_problems(),
        *eleventh_problems(),
        *twelfth_problems(),
        *thirteenth_problems(),
        *fourteenth_problems(),
        *fifteenth_problems(),
        *sixteenth_problems(),
    ]


def build(folder: Path, only: str, arch_name: str) -> None:
    import carver
    from carver.arch.devices import load

    arch = load(arch_name)
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, bytes] = {}
    out = []
    wanted = [problem for problem in problems() if any(part in problem.name for part in only.split(","))]
    tensors = [
        {name: carver.Tensor(dtype, shape) for name, (dtype, shape, _) in each.tensors.items()} for each in wanted
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [
            (pool.map if problem.language == "cuda" else map)(
                partial(compiled, problem, those, arch), problem.configs()
            )
            for problem, those in zip(wanted, tensors, strict=True)
        ]
        every = [list(binaries) for binaries in found]
    for problem, those, binaries in zip(wanted, tensors, every, strict=True):
        configs = []
        for config, binary in zip(problem.configs(), binaries, strict=True):
            if isinstance(binary, str):
                print(f"{problem.name} {config}: {binary.strip().splitlines()[0][:200]}", flush=True)
                continue
            key = hashlib.sha256(binary.code).hexdigest()[:24]
            made[key] = binary.code
            args = [argument(value, those, name) for value, name in zip(binary.args, binary.names, strict=True)]
            configs.append(
                {
                    "config": config,
                    "cubin": key,
                    "symbol": binary.entry,
                    "grid": list(binary.grid),
                    "block": list(binary.block),
                    "shared_dynamic": binary.shared_bytes,
                    "args": args,
                }
            )
        out.append({"problem": problem.name, "family": problem.language, "configs": configs,
                    "constants": problem.constants, "values": list(problem.values),
                    "tensors": {name: {"dtype": dtype, "shape": list(shape), "init": init, "out": name in problem.out}
                                for name, (dtype, shape, init) in problem.tensors.items()}})  # fmt: skip
        print(problem.name, len(configs), flush=True)
    with gzip.open(folder / "problems.json.gz", "wt") as file:
        json.dump(out, file)
    with tarfile.open(folder / "cubins.tar.xz", "w:xz") as archive:
        for key, code in made.items():
            entry = tarfile.TarInfo(f"{key}.cubin")
            entry.size = len(code)
            archive.addfile(entry, io.BytesIO(code))


def compiled(problem: Problem, tensors: dict[str, Any], arch: Any, config: dict[str, Any]) -> Any:
    """A `carver.Binary`, or why there is none."""
    import carver
    from carver.base.errors import CarverError
    from carver.integrations import source

    grid, block, shared = problem.said(problem.launch, config)
    given = problem.args(config) if callable(problem.args) else problem.args
    if isinstance(given, dict):
        args: Any = {name: tensors.get(name, value) if value is None else value for name, value in given.items()}
        args = {n: carver.Descriptor(tensors[n], v) if isinstance(v, list) else v for n, v in args.items()}
    else:
        args = [tensors[value] if isinstance(value, str) else value for value in given]
    try:
        if problem.language != "cuda":
            return front_end(problem, config, args, grid, block, arch)
        name = problem.name.split("_", 1)[1].rsplit("_", 1)[0]
        defines = {**problem.defines, **config, f"KERNEL_{name}": 1}
        path, entry = HERE / "kernels" / problem.source, problem.entry or name
        kernel = carver.Kernel(path, entry, defines=defines, shared_bytes=shared)
        binary = source.binary(kernel, {}, args=args, grid=grid, block=block, arch=arch)
        return replace(binary, names=tuple(value if isinstance(value, str) else "" for value in given))
    except CarverError as error:
        return str(error)


def front_end(problem: Problem, config: dict[str, Any], args: Any, grid: Any, block: Any, arch: Any) -> Any:
    from importlib import import_module

    from kernels import (
        languages,
        languages_eleventh,
        languages_fifteenth,
        languages_fourteenth,
        languages_ninth,
        languages_tenth,
        languages_third,
        languages_thirteenth,
        languages_twelfth,
    )

    front = import_module(f"carver.integrations.{problem.language}")
    files = (languages, languages_third, languages_ninth, languages_tenth, languages_eleventh, languages_twelfth,
             languages_thirteenth, languages_fourteenth, languages_fifteenth)  # fmt: skip
    made = next(getattr(file, problem.made) for file in files if hasattr(file, problem.made))
    if problem.language == "tilelang":
        return front.binary(made(**problem.defines, **config), {}, args={}, grid=None, block=None, arch=arch)
    kernel = made(**problem.defines, **config)
    if isinstance(args, dict):
        own = {name: value for name, value in config.items() if name != "GRID"}
        return front.binary(kernel, own, args=args, grid=grid, block=block, arch=arch)
    if problem.language == "gluon":
        names = [name if isinstance(name, str) else ("rows", "cols")[i - 2] for i, name in enumerate(problem.args)]
        named = dict(zip(names, args, strict=True))
        return front.binary(kernel, {**problem.defines, **config}, args=named, grid=grid, block=None, arch=arch)
    return front.binary(kernel, config, args=tuple(args), grid=grid, block=block, arch=arch)


def argument(value: Any, tensors: dict[str, Any], of: str) -> dict[str, Any]:
    import carver

    def named(tensor: Any) -> str:
        return of if of in tensors else next(name for name, each in tensors.items() if each is tensor)

    if value is None:
        return {"null": 1}
    if isinstance(value, carver.TensorMap):
        strides = (value.tensor.item_bytes, *value.strides_bytes)
        kind = MAP_TYPES[value.tensor.dtype]
        numbers = [*value.dims, *strides, *value.box, *value.element_strides, 0, value.swizzle, 2, 0]
        return {"map": ["tiled", kind, len(value.dims), named(value.tensor), *numbers], "t": named(value.tensor)}
    if isinstance(value, carver.Struct):
        places = [[at, named(tensor), 0] for at, tensor in value.tensors.items()]
        return {"struct": {"size": len(value.data), "hex": value.data.hex(), "ptrs": places}}
    if isinstance(value, carver.Tensor):
        return {"t": named(value)}
    kind = value.dtype
    return {"s": value.item(), "type": f"{kind.kind}{8 * kind.itemsize}"}


def contents(spec: dict[str, Any], seed: int) -> Any:
    """What an integer tensor holds that others depend on, the same wherever it is made."""
    import numpy as np

    rng, init, count = np.random.default_rng(seed), spec["init"], math.prod(spec["shape"])
    if init == "starts":  # rows of 8 to 88 numbers
        lengths = rng.integers(8, 89, count - 1)
        return np.concatenate([[0], np.cumsum(lengths * (NZ / lengths.sum())).astype(np.int64)]).astype(np.int32)
    if init == "pages":
        return rng.permutation(count).astype(np.int32)
    kind, _, number = init.partition(":")
    if kind == "cells":  # where each begins of so many that have `number` things together, by chance
        return np.concatenate([[0], np.cumsum(occupied(int(number), count - 1))]).astype(np.int32)
    if kind == "cell_of":
        return np.repeat(np.arange(int(number)), occupied(count, int(number))).astype(np.int32)
    if kind == "near":  # of each point, the places of others so near to its own; or these by their rank
        (many, points), most = sorted(spec["shape"]), int(number)
        to = np.arange(points)[:, None] + np.random.default_rng(9).integers(-most, most + 1, (points, many))
        to = to.clip(0, points - 1).astype(np.int32)
        return to if spec["shape"][0] == points else to.T.copy()
    if kind == "below":
        return rng.integers(0, int(number), count).astype(np.int32)
    return rng.integers(0, ROWS if init == "cols" else 100_000, count).astype(np.int32)


def occupied(things: int, cells: int) -> Any:
    """Of each cell, how many things are there."""
    import numpy as np

    return np.random.default_rng(9).multinomial(things, [1 / cells] * cells)


def values(given: dict[str, Any]) -> dict[str, Any]:
    """What the evaluator is told of a problem's tensors."""
    seeds = {name: 100 + i for i, name in enumerate(given["tensors"])}
    return {name: contents(given["tensors"][name], seeds[name]) for name in given.get("values", ())}


def join(folder: Path, table: Path) -> None:
    """What was measured, by configuration, added to the problems of a folder."""
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    by_config = {
        (given["problem"], json.dumps(config["config"])): config for given in every for config in given["configs"]
    }
    for row in frame.rows(table):
        if "config" in row:
            config = by_config[row["problem"], json.dumps(row["config"])]
            config |= {key: row[key] for key in ("ms", "error", "spread", "ncu") if key in row}
    with gzip.open(folder / "problems.json.gz", "wt") as file:
        json.dump(every, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    built = commands.add_parser("build")
    built.add_argument("folder", type=Path)
    built.add_argument("--only", default="")
    built.add_argument("--arch", default="h100")
    joined = commands.add_parser("join")
    joined.add_argument("folder", type=Path)
    joined.add_argument("table", type=Path)
    given = parser.parse_args()
    if given.command == "build":
        build(given.folder, given.only, given.arch)
    else:
        join(given.folder, given.table)


if __name__ == "__main__":
    main()
