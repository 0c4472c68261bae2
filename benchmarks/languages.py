"""Kernels of our own in CUDA C++, TileLang, CuTe DSL, cuTile, Gluon, Numba and Warp: built with no GPU, then checked
and timed on one.

    python benchmarks/languages.py build FOLDER [--only NAME] [--arch h100]
    python benchmarks/languages.py time FOLDER --out FILE.jsonl [--seconds 90] [--counters 0]
    python benchmarks/languages.py join FOLDER FILE.jsonl

`build` compiles every configuration and writes `problems.json.gz` and `cubins.tar.xz` into FOLDER, as
`benchmarks/machine.py predict` reads them. `time` runs on a machine with an NVIDIA GPU, PyTorch and its driver alone:
it launches the cubins, compares what they write with a result in double precision on random inputs, or with what the
first writes where that is gone (those whose times ship have it at commit c7394a82), and times each 25 times in two
passes of random order, with a buffer of 128 MiB read before each launch. It writes a line for each configuration as it
is done. With `--counters N` Nsight Compute counts N launches a problem after that, if it is there.
`join` adds what was measured to the problems of FOLDER: `tests/data/h100/languages.jsonl.gz`, say.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import hashlib
import io
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from kernels.language_problems import NZ, ROWS, Problem  # noqa: E402
from kernels.language_problems import problems as first_problems  # noqa: E402
from kernels.language_problems_fifth import fifth_problems  # noqa: E402
from kernels.language_problems_fourth import fourth_problems  # noqa: E402
from kernels.language_problems_more import more_problems  # noqa: E402
from kernels.language_problems_third import third_problems  # noqa: E402

EXACT = 2e-4
"""Integers have to be equal where no larger error is allowed, as where places are rounded to whole numbers."""
CTYPES = {"i8": ctypes.c_int8, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u32": ctypes.c_uint32,
          "f32": ctypes.c_float, "f64": ctypes.c_double}  # fmt: skip
MAP_TYPES = {"uint8": 0, "int8": 0, "int32": 3, "float16": 6, "float32": 7, "bfloat16": 9}
"""Of `cuTensorMapEncodeTiled`."""


def problems() -> list[Problem]:
    return [*first_problems(), *more_problems(), *third_problems(), *fourth_problems(), *fifth_problems()]


# ------------------------------------------------------------------------------------------------------ with no GPU


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
    import numpy as np

    import carver
    from carver.base.errors import CarverError
    from carver.run.spec import dim3

    grid, block, shared = problem.launch(config)
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
        name_of = hashlib.md5(repr((problem.name, defines)).encode()).hexdigest()
        target = Path(f"/tmp/languages-{os.getpid()}-{name_of}.cubin")
        command = ["nvcc", "-cubin", f"-arch={arch.isa}", "-o", str(target), str(HERE / "kernels" / problem.source)]
        command += [f"-D{key}={value}" for key, value in defines.items()]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return ran.stderr
        code = target.read_bytes()
        target.unlink()
        values = [np.int32(value) if isinstance(value, int) else value for value in args]
        names = tuple(value if isinstance(value, str) else "" for value in given)
        return carver.Binary(code, name, tuple(values), dim3("grid", grid), dim3("block", block), shared, names=names)
    except CarverError as error:
        return str(error)


def front_end(problem: Problem, config: dict[str, Any], args: Any, grid: Any, block: Any, arch: Any) -> Any:
    from importlib import import_module

    from kernels import languages, languages_third

    front = import_module(f"carver.integrations.{problem.language}")
    made = getattr(languages, problem.made, None) or getattr(languages_third, problem.made)
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

    rng, init, (count,) = np.random.default_rng(seed), spec["init"], spec["shape"]
    if init == "starts":  # rows of 8 to 88 numbers
        lengths = rng.integers(8, 89, count - 1)
        return np.concatenate([[0], np.cumsum(lengths * (NZ / lengths.sum())).astype(np.int64)]).astype(np.int32)
    if init == "pages":
        return rng.permutation(count).astype(np.int32)
    return rng.integers(0, ROWS if init == "cols" else 100_000, count).astype(np.int32)


def values(given: dict[str, Any]) -> dict[str, Any]:
    """What the evaluator is told of a problem's tensors."""
    seeds = {name: 100 + i for i, name in enumerate(given["tensors"])}
    return {name: contents(given["tensors"][name], seeds[name]) for name in given.get("values", ())}


# ------------------------------------------------------------------------------------------------------ with a GPU


def tensor_of(spec: dict[str, Any], seed: int) -> Any:
    import torch

    kind, shape, init = getattr(torch, spec["dtype"]), spec["shape"], spec["init"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    if init in ("starts", "cols", "which", "pages"):
        return torch.from_numpy(contents(spec, seed)).cuda()
    if init == "bits":
        return torch.randint(-(2**31), 2**31, shape, device="cuda", generator=generator, dtype=torch.int64).to(kind)
    if init in ("small", "cells", "low"):
        most = {"small": 100, "cells": 2, "low": 1 << 16}[init]
        return torch.randint(0, most, shape, device="cuda", generator=generator, dtype=kind)
    if init == "less":
        return -torch.rand(shape, device="cuda", generator=generator)
    if init in ("randn", "rand"):
        return getattr(torch, init)(shape, device="cuda", generator=generator).to(kind)
    return torch.zeros(shape, device="cuda", dtype=kind)


class Driver:
    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *args: Any) -> None:
        if code := getattr(self.library, name)(*args):
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")


class Loaded:
    """A configuration whose code is loaded and whose parameters are laid out."""

    def __init__(self, driver: Driver, code: bytes, config: dict[str, Any], tensors: dict[str, Any],
                 constants: dict[str, str]) -> None:  # fmt: skip
        self.driver, self.keep, self.held = driver, [], []
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuModuleLoadData", ctypes.byref(self.module), code)
        driver("cuModuleGetFunction", ctypes.byref(self.function), self.module, config["symbol"].encode())
        shared = config["shared_dynamic"]
        if shared >= 48 << 10:  # beside what the code itself has
            driver("cuFuncSetAttribute", self.function, 8, shared)
        for symbol, name in constants.items():
            place, size = ctypes.c_uint64(), ctypes.c_size_t()
            driver("cuModuleGetGlobal_v2", ctypes.byref(place), ctypes.byref(size), self.module, symbol.encode())
            driver("cuMemcpyDtoD_v2", place, ctypes.c_uint64(tensors[name].data_ptr()), size)
        self.keep = [self._parameter(given, tensors) for given in config["args"]]
        self.params = (ctypes.c_void_p * max(1, len(self.keep)))(*map(ctypes.addressof, self.keep))
        self.dims = (*config["grid"], *config["block"], shared)

    def _parameter(self, given: dict[str, Any], tensors: dict[str, Any]) -> Any:
        if "struct" in given:
            raw = (ctypes.c_uint64 * -(-given["struct"]["size"] // 8))()
            ctypes.memmove(raw, bytes.fromhex(given["struct"]["hex"]), given["struct"]["size"])
            for at, name, _ in given["struct"]["ptrs"]:
                ctypes.c_uint64.from_address(ctypes.addressof(raw) + at).value = tensors[name].data_ptr()
            return raw
        if "map" in given:
            return self._tensor_map(*given["map"][1:], tensors=tensors)
        if "t" in given:
            return ctypes.c_uint64(tensors[given["t"]].data_ptr())
        return ctypes.c_uint64(0) if "null" in given else CTYPES[given["type"]](given["s"])

    def _tensor_map(self, kind: int, rank: int, name: str, *numbers: int, tensors: dict[str, Any]) -> Any:
        room = (ctypes.c_uint8 * 192)()
        at = -ctypes.addressof(room) % 64
        dims, strides, box, steps = (numbers[i * rank : (i + 1) * rank] for i in range(4))
        interleave, swizzle, promotion, fill = numbers[4 * rank :]
        u64, u32 = ctypes.c_uint64, ctypes.c_uint32
        self.driver(
            "cuTensorMapEncodeTiled", ctypes.byref(room, at), kind, rank, u64(tensors[name].data_ptr()),
            (u64 * rank)(*dims), (u64 * rank)(*strides[1:]), (u32 * rank)(*box), (u32 * rank)(*steps),
            interleave, swizzle, promotion, fill,
        )  # fmt: skip
        self.held.append(room)
        return (ctypes.c_uint8 * 128).from_buffer(room, at)

    def __call__(self) -> None:
        if code := self.driver.library.cuLaunchKernel(self.function, *self.dims, None, self.params, None):
            raise RuntimeError(f"cuLaunchKernel: {code}")


def wrong(problem: Problem, given: dict[str, Any], tensors: dict[str, Any], expected: dict[str, Any],
          config: dict[str, Any]) -> float:  # fmt: skip
    """The relative error of what was written."""
    import torch

    if problem.name.startswith("cuda_scan_"):
        tile = config["BLOCK"] * config["ITEMS"]
        expected = {"out": tensors["x"].reshape(-1, tile).cumsum(-1).reshape(-1)}
    if problem.name.startswith("cuda_ranked_"):
        expected = {"out": tensors["x"].reshape(-1, config["BLOCK"] * config["ITEMS"]).sort(-1).values}
    worst = 0.0
    for name, right in expected.items():
        got, want = tensors[name].double().reshape(-1), right.double().reshape(-1)
        worst = max(worst, float((got - want).norm() / want.norm().clamp_min(1e-30)))
        if problem.tolerance <= EXACT and "float" not in given["tensors"][name]["dtype"] and not torch.equal(got, want):
            return math.inf
    return math.inf if math.isnan(worst) else worst


def doubled(tensors: dict[str, Any]) -> dict[str, Any]:
    return {name: each.double() if each.is_floating_point() else each for name, each in tensors.items()}


def emptied(given: dict[str, Any], tensors: dict[str, Any]) -> None:
    import torch

    for name, spec in given["tensors"].items():
        if spec["out"]:
            tensors[name].zero_() if spec["init"] == "zero" else tensors[name].view(torch.uint8).fill_(255)


def timing(folder: Path, out: Path, seconds: float, counters: int) -> None:
    import torch

    began = time.time()
    driver, buffer = Driver(), torch.zeros(32 << 20, device="cuda")
    held = codes(folder)
    by_name = {problem.name: problem for problem in problems()}
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    with out.open("a", encoding="utf-8") as file:

        def log(**row: Any) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()

        log(device=torch.cuda.get_device_name(), torch=torch.__version__)
        for given in every:
            problem = by_name[given["problem"]]
            if time.time() - began > seconds:
                log(problem=problem.name, error="not reached")
                continue
            torch.cuda.empty_cache()
            tensors = {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}
            try:
                expected = problem.right(doubled(tensors)) if problem.right else {}
            except (RuntimeError, TypeError, ValueError) as error:  # of memory, say: the others are timed all the same
                log(problem=problem.name, error=str(error))
                continue
            ready: dict[int, Loaded] = {}
            for i, config in enumerate(given["configs"]):
                emptied(given, tensors)
                try:
                    one = Loaded(driver, held[config["cubin"]], config, tensors, given["constants"])
                    one()
                    driver("cuCtxSynchronize")
                except RuntimeError as error:
                    log(problem=problem.name, i=i, error=str(error))
                    if "ILLEGAL" in str(error) or "FAILED" in str(error):
                        return
                    continue
                expected = expected or {name: tensors[name].clone() for name in problem.out}
                off = wrong(problem, given, tensors, expected, config["config"])
                if off > problem.tolerance:
                    log(problem=problem.name, i=i, error=f"wrong: relative error {off}")
                else:
                    ready[i] = one
            del expected
            passes: dict[int, list[list[float]]] = {i: [] for i in ready}
            for turn in range(2):
                order = list(ready)
                random.Random(turn).shuffle(order)
                for i in order:
                    passes[i].append(measured(ready[i], buffer, 3 if not turn else 8, 25))
            for i, both in passes.items():
                medians = [statistics.median(each) for each in both]
                spread = max((sorted(each)[18] - sorted(each)[6]) / statistics.median(each) for each in both)
                log(
                    problem=problem.name,
                    i=i,
                    ms=math.exp(sum(map(math.log, medians)) / 2),
                    passes=medians,
                    spread=spread,
                )
            for one in ready.values():
                driver("cuModuleUnload", one.module)
            print(
                f"{problem.name}: {len(ready)} of {len(given['configs'])} right, {time.time() - began:.1f} s",
                flush=True,
            )
    if counters:
        counted(folder, out, counters, max(seconds + 40 - (time.time() - began), 20))


def measured(one: Loaded, buffer: Any, warm: int, count: int) -> list[float]:
    import torch

    events = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(count)]
    torch.cuda.set_stream(torch.cuda.default_stream())
    for _ in range(warm):
        one()
    for first, last in events:
        buffer.sum()
        first.record()
        one()
        last.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(last) for first, last in events]


METRICS = (
    "gpu__time_duration.sum",
    "smsp__inst_executed.sum",
    "sm__inst_executed_pipe_alu.sum",
    "sm__inst_executed_pipe_fma.sum",
    "sm__inst_executed_pipe_lsu.sum",
    "sm__inst_executed_pipe_xu.sum",
    "sm__inst_executed_pipe_fp64.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "lts__t_sectors.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_op_atom.sum",
    "lts__t_sectors_op_red.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__t_bytes.sum",
    "l1tex__t_sectors.sum",
    "l1tex__t_sector_hit_rate.pct",
    "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
)


def counted(folder: Path, out: Path, count: int, seconds: float) -> None:
    """Nsight Compute over a launch of `count` configurations a problem, spread over their times."""
    command = [
        "ncu",
        "--clock-control",
        "none",
        "--profile-from-start",
        "off",
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--log-file",
        f"{out}.ncu.csv",
        "--metrics",
        ",".join(METRICS),
        sys.executable,
        __file__,
        "launch",
        str(folder),
        str(out),
        str(count),
    ]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        print(ran.stdout[-500:], ran.stderr[-500:])
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"no counters: {error}")


def launch(folder: Path, out: Path, count: int) -> None:
    """What Nsight Compute looks at; writes what was launched, in order, beside `out`."""
    import torch

    runtime = torch.cuda.cudart()
    driver, held = Driver(), codes(folder)
    rows = [row for row in map(json.loads, out.read_text().splitlines()) if "ms" in row]
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    for given in every:
        mine = sorted((row["ms"], row["i"]) for row in rows if row["problem"] == given["problem"])
        if not mine:
            continue
        torch.cuda.empty_cache()
        tensors = {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}
        for place in sorted({round(k * (len(mine) - 1) / max(count - 1, 1)) for k in range(count)}):
            i = mine[place][1]
            one = Loaded(driver, held[given["configs"][i]["cubin"]], given["configs"][i], tensors, given["constants"])
            emptied(given, tensors)
            torch.cuda.synchronize()
            runtime.cudaProfilerStart()
            one()
            torch.cuda.synchronize()
            runtime.cudaProfilerStop()
            with Path(f"{out}.launched").open("a") as file:
                file.write(f"{given['problem']} {i}\n")


def codes(folder: Path) -> dict[str, bytes]:
    with tarfile.open(folder / "cubins.tar.xz") as archive:
        return {Path(each.name).stem: archive.extractfile(each).read() for each in archive if each.isfile()}  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------------ afterwards


def join(folder: Path, out: Path) -> None:
    """What `time` wrote, or a table of it by configuration, added to the problems of a folder."""
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    by_place = {(given["problem"], i): config for given in every for i, config in enumerate(given["configs"])}
    by_config = {(name, json.dumps(config["config"])): config for (name, _), config in by_place.items()}
    text = gzip.decompress(out.read_bytes()) if out.suffix == ".gz" else out.read_bytes()
    for row in map(json.loads, text.decode().splitlines()):
        if "i" in row:
            config = by_place[row["problem"], row["i"]]
        elif "config" in row:
            config = by_config[row["problem"], json.dumps(row["config"])]
        else:
            continue
        config |= {key: row[key] for key in ("ms", "error", "spread", "ncu") if key in row}
    for place, counters in launches_counted(out):
        by_place[place]["ncu"] = counters
    with gzip.open(folder / "problems.json.gz", "wt") as file:
        json.dump(every, file)


def launches_counted(out: Path) -> Iterator[tuple[tuple[str, int], dict[str, float]]]:
    import csv

    table, order = Path(f"{out}.ncu.csv"), Path(f"{out}.launched")
    if not (table.exists() and order.exists()):
        return
    lines = [line for line in table.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first line is of units
    for which, row in zip(order.read_text().splitlines(), rows, strict=False):
        name, i = which.split()
        yield (name, int(i)), {key: float(row[key].replace(",", "")) for key in METRICS if row.get(key, "").strip()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "time", "join", "launch"):
        each = commands.add_parser(name)
        each.add_argument("folder", type=Path)
        if name == "build":
            each.add_argument("--only", default="")
            each.add_argument("--arch", default="h100")
        elif name == "time":
            each.add_argument("--out", type=Path, required=True)
            each.add_argument("--seconds", type=float, default=90.0)
            each.add_argument("--counters", type=int, default=0)
        else:
            each.add_argument("out", type=Path)
        if name == "launch":
            each.add_argument("count", type=int)
    given = parser.parse_args()
    if given.command == "build":
        build(given.folder, given.only, given.arch)
    elif given.command == "time":
        timing(given.folder, given.out, given.seconds, given.counters)
    elif given.command == "launch":
        launch(given.folder, given.out, given.count)
    else:
        join(given.folder, given.out)


if __name__ == "__main__":
    main()
