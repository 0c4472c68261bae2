"""The seventh set of `languages.py` on a GPU: checks what each configuration writes, times it.

    python benchmarks/languages_time.py FOLDER --out FILE.jsonl [--seconds 200]

Needs PyTorch and the driver alone. Each is timed 25 times in two passes of random order; before each launch,
outputs that add up are emptied, and a buffer of 128 MiB is read.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import math
import random
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import torch

# ruff: noqa: B023, B905, PLW2901, RUF017

CTYPES = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "f32": ctypes.c_float, "f64": ctypes.c_double}


def tensor_of(spec: dict[str, Any], seed: int) -> Any:
    kind, shape, init = getattr(torch, spec["dtype"]), spec["shape"], spec["init"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    if init == "bits":
        return torch.randint(-(2**31), 2**31, shape, device="cuda", generator=generator, dtype=torch.int64).to(kind)
    if init == "levels":
        return torch.randint(0, 256, shape, device="cuda", generator=generator, dtype=torch.int32).to(kind)
    if init in ("near", "mixed"):  # the same where rows and columns change places
        rows = torch.arange(max(shape), device="cuda")[:, None]
        columns = torch.arange(min(shape), device="cuda")[None]
        found = (rows * 2654435761 + columns * 40503 * 65537) % (1 << 32) - (1 << 31)
        if init == "near":
            found = (rows + (rows * 7919 + columns * 104729) % 1024 - 512) % max(shape)
        return (found if shape[0] > shape[1] else found.T).to(kind).contiguous()
    if init == "ones":
        return torch.ones(shape, device="cuda", dtype=kind)
    if init in ("randn", "rand"):
        return getattr(torch, init)(shape, device="cuda", generator=generator, dtype=torch.float32).to(kind)
    return torch.zeros(shape, device="cuda", dtype=kind)


# --------------------------------------------------------------------------- what is right, in double precision


def expdist(t: Any, config: Any) -> Any:
    total = torch.zeros((), device="cuda", dtype=torch.float64)
    for a, s in zip(t["a"].split(512), t["sa"].split(512)):
        apart = ((a[:, None] - t["b"][None]) ** 2).sum(-1)
        total += torch.exp(-apart / (s[:, None] + t["sb"][None])).sum()
    return {"partial": total[None]}


def hotspot(t: Any, config: Any) -> Any:
    x, power = t["temperature"].double(), t["power"].double()
    for _ in range(2):
        y = torch.nn.functional.pad(x[None, None], (1,) * 4, mode="replicate")[0, 0]
        x = (x + 0.1 * (y[:-2, 1:-1] + y[2:, 1:-1] - 2 * x) + 0.1 * (y[1:-1, :-2] + y[1:-1, 2:] - 2 * x) + 0.05 * power)
    return {"out": x}


def dct(t: Any, config: Any) -> Any:
    c, (h, w) = t["cosines"].double().reshape(8, 8), t["x"].shape
    x = t["x"].double().reshape(h // 8, 8, w // 8, 8)
    return {"out": torch.einsum("ki,aibj,lj->akbl", c, x, c).reshape(h, w)}


def sepconv(t: Any, config: Any) -> Any:
    x, weights = t["x"].double(), t["weights"].double()
    r = len(weights) // 2
    y = torch.nn.functional.pad(x, (0, 0, r, r))
    return {"out": sum(weights[i] * y[i : i + len(x)] for i in range(2 * r + 1))}


def binomial(t: Any, config: Any) -> Any:
    s, k, years = (t[n].double() for n in ("spot", "strike", "years"))
    s, k, years, steps = 30 * s + 5, 30 * k + 5, 2 * years + 0.25, 1023 if len(s) == 1024 else 255
    dt = years / steps
    up, grow = torch.exp(0.3 * dt.sqrt()), torch.exp(0.02 * dt)
    p = (grow - 1 / up) / (up - 1 / up)
    pu, pd = (p / grow)[:, None], ((1 - p) / grow)[:, None]
    at = 2.0 * torch.arange(steps + 1, device="cuda", dtype=torch.float64) - steps
    v = (s[:, None] * torch.exp(0.3 * dt.sqrt()[:, None] * at) - k[:, None]).clamp_min(0)
    for _ in range(steps):
        v = pu * v[:, 1:] + pd * v[:, :-1]
    return {"price": v[:, 0]}


def minplus(t: Any, config: Any) -> Any:
    a, b = t["a"], t["b"]
    out = torch.ones(len(a), b.shape[1], device="cuda")
    for i in range(a.shape[1]):
        out = torch.minimum(out, a[:, i : i + 1] + b[i])
    return {"c": out}


def pfb(t: Any, config: Any) -> Any:
    x, w = t["x"].double(), t["taps"].double()
    rows = len(x) - len(w) + 1
    return {"out": sum(w[i][None, :, None] * x[i : i + rows] for i in range(len(w)))}


def lennard(t: Any, config: Any) -> Any:
    atoms, out = t["atoms"].double()[:, :3], []
    for me, lists in zip(atoms.split(20_000), t["lists"].split(20_000)):
        d = me[:, None] - atoms[lists.long()]
        r2 = (d * d).sum(-1) + 0.5
        r6 = r2**-3
        pull = torch.where(r2 < 40.0, r6 / r2 * (1.5 * r6 - 2), 0.0)
        out.append((d * pull[..., None]).sum(1))
    return {"force": torch.nn.functional.pad(torch.cat(out), (0, 1))}


def hashed(t: Any, config: Any) -> Any:
    low = (1 << 32) - 1
    words = t["along"].long() & low
    count, length = words.shape
    a = torch.full((count,), 0x1234567, device="cuda", dtype=torch.int64)
    b, c = torch.full_like(a, 0x9E3779B9), torch.full_like(a, 0x85EBCA6B)
    d = torch.arange(count, device="cuda")

    def turn(x: Any, by: int) -> Any:
        return (x << by | x >> 32 - by) & low

    for w in range(length):
        a = a ^ words[:, w]
        for _ in range(4 if length == 16 else 10):
            a = a + b & low
            d = turn(d ^ a, 16)
            c = c + d & low
            b = turn(b ^ c, 12)
            a = a + b & low
            d = turn(d ^ a, 8)
            c = c + d & low
            b = turn(b ^ c, 7)
    return {"digest": (a ^ b ^ c ^ d).to(torch.int32)}


RIGHT = {each.__name__: each for each in (expdist, hotspot, dct, sepconv, binomial, minplus, pfb, lennard, hashed)}
TOLERANCE = {"expdist": 1e-9, "hotspot": 1e-5, "dct": 1e-5, "sepconv": 1e-5, "binomial": 2e-3, "minplus": 1e-6,
             "pfb": 1e-5, "lennard": 1e-4}  # fmt: skip
"""Relative, in the norm of all; of others 0."""


def seen(kind: str, tensors: Any) -> Any:
    """What was written, of partial sums their sum."""
    return {"partial": tensors["partial"].sum()[None]} if kind == "expdist" else tensors


def wrong(kind: str, tensors: Any, expected: Any) -> float:
    worst, found = 0.0, seen(kind, tensors)
    for name, right in expected.items():
        got, want = found[name].double().reshape(-1), right.to("cuda").double().reshape(-1)
        if got.shape != want.shape:
            return math.inf
        worst = max(worst, float((got - want).norm() / want.norm().clamp_min(1e-30)))
    return math.inf if math.isnan(worst) else worst


def emptied(given: dict[str, Any], tensors: dict[str, Any], poison: bool) -> None:
    for name, spec in given["tensors"].items():
        if spec["out"] and spec["init"] == "zero":
            tensors[name].zero_()
        elif spec["out"] and poison:
            tensors[name].view(torch.uint8).fill_(255)


# --------------------------------------------------------------------------- launches


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
        if "t" in given:
            return ctypes.c_uint64(tensors[given["t"]].data_ptr())
        return ctypes.c_uint64(0) if "null" in given else CTYPES[given["type"]](given["s"])

    def __call__(self) -> None:
        if code := self.driver.library.cuLaunchKernel(self.function, *self.dims, None, self.params, None):
            raise RuntimeError(f"cuLaunchKernel: {code}")


def timing(folder: Path, out: Path, seconds: float, only: str) -> None:
    began = time.time()
    driver, buffer = Driver(), torch.zeros(32 << 20, device="cuda")
    held = codes(folder)
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    with out.open("a", encoding="utf-8") as file:

        def log(**row: Any) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()

        log(device=torch.cuda.get_device_name(), torch=torch.__version__)
        for given in every:
            name = given["problem"]
            kind = name.split("_")[1]
            if only not in name:
                continue
            if time.time() - began > seconds:
                log(problem=name, error="not reached")
                continue
            torch.cuda.empty_cache()
            tensors = {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}
            expected: dict[str, Any] = {}
            try:
                expected = RIGHT[kind](tensors, None)
            except (RuntimeError, TypeError, ValueError) as error:  # of memory, say: all are timed all the same
                log(problem=name, error=f"no answer to check by: {error}")
            ready: dict[int, Loaded] = {}
            for i, config in enumerate(given["configs"]):
                emptied(given, tensors, True)
                try:
                    one = Loaded(driver, held[config["cubin"]], config, tensors, given["constants"])
                    one()
                    driver("cuCtxSynchronize")
                except RuntimeError as error:
                    log(problem=name, i=i, config=config["config"], error=str(error))
                    if "ILLEGAL" in str(error) or "FAILED" in str(error):
                        return
                    continue
                off = wrong(kind, tensors, expected)
                checked = off <= TOLERANCE.get(kind, 0.0)
                if not checked:
                    log(problem=name, i=i, config=config["config"], error=f"wrong: relative error {off}")
                ready[i] = one
            del expected
            passes: dict[int, list[list[float]]] = {i: [] for i in ready}
            for turn in range(2):
                order = list(ready)
                random.Random(turn).shuffle(order)
                for i in order:
                    passes[i].append(measured(ready[i], buffer, 3, 25, lambda: emptied(given, tensors, False)))
            for i, both in passes.items():
                medians = [statistics.median(each) for each in both]
                spread = max((sorted(each)[18] - sorted(each)[6]) / statistics.median(each) for each in both)
                ms = math.exp(sum(map(math.log, medians)) / 2)
                log(problem=name, i=i, config=given["configs"][i]["config"], ms=ms, passes=medians, spread=spread)
            for one in ready.values():
                driver("cuModuleUnload", one.module)
            best = min((statistics.median(sum(both, [])) for both in passes.values()), default=0.0)
            print(
                f"{name}: {len(ready)} of {len(given['configs'])}, best {best:.4f} ms, {time.time() - began:.1f} s",
                flush=True,
            )


def measured(one: Loaded, buffer: Any, warm: int, count: int, before: Any) -> list[float]:
    events = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(count)]
    for _ in range(warm):
        before()
        one()
    for first, last in events:
        before()
        buffer.sum()
        first.record()
        one()
        last.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(last) for first, last in events]


def codes(folder: Path) -> dict[str, bytes]:
    with tarfile.open(folder / "cubins.tar.xz") as archive:
        return {Path(each.name).stem: archive.extractfile(each).read() for each in archive if each.isfile()}  # type: ignore[union-attr]


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
        str(folder),
        "--out",
        str(out),
        "--launch",
        str(count),
    ]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        print(ran.stdout[-500:], ran.stderr[-500:])
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"no counters: {error}")


def launch(folder: Path, out: Path, count: int) -> None:
    """What Nsight Compute looks at; writes what was launched, in order, beside `out`."""
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
            emptied(given, tensors, True)
            torch.cuda.synchronize()
            runtime.cudaProfilerStart()
            one()
            torch.cuda.synchronize()
            runtime.cudaProfilerStop()
            with Path(f"{out}.launched").open("a") as file:
                file.write(f"{given['problem']} {i}\n")


def launches_counted(out: Path) -> Any:
    import csv

    table, order = Path(f"{out}.ncu.csv"), Path(f"{out}.launched")
    if not (table.exists() and order.exists()):
        return
    lines = [line for line in table.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first line is of units
    for which, row in zip(order.read_text().splitlines(), rows, strict=False):
        name, i = which.split()
        yield (name, int(i)), {key: float(row[key].replace(",", "")) for key in METRICS if row.get(key, "").strip()}


def finished(folder: Path, out: Path) -> None:
    """The table that ships: what was timed, by configuration, with counters."""
    import gzip

    with gzip.open(folder / "problems.json.gz") as file:
        every = {given["problem"]: given["configs"] for given in json.load(file)}
    counters = dict(launches_counted(out))
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for row in map(json.loads, out.read_text().splitlines()):
        if "i" in row:
            rows[row["problem"], row["i"]] = {**rows.get((row["problem"], row["i"]), {}), **row}
    with gzip.open(f"{out}.gz", "wt") as file:
        for (name, i), row in rows.items():
            row = {"problem": name, "config": every[name][i]["config"], **row}
            row |= {"ncu": counters[name, i]} if (name, i) in counters else {}
            del row["i"]
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--counters", type=int, default=0, help="launches a problem that Nsight Compute counts")
    parser.add_argument("--launch", type=int, default=0, help="for Nsight Compute itself")
    asked = parser.parse_args()
    if asked.launch:
        launch(asked.folder, asked.out, asked.launch)
    else:
        timing(asked.folder, asked.out, asked.seconds, asked.only)
        if asked.counters:
            counted(asked.folder, asked.out, asked.counters, 80.0)
        finished(asked.folder, asked.out)
