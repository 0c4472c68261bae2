"""The eighth set of `languages.py` on a GPU: checks what each configuration writes, times it.

    python benchmarks/languages_time.py FOLDER --out FILE.jsonl [--limit 170] [--counters 3]

Needs PyTorch and the driver alone. Each is timed 25 times in two passes of random order; before each launch,
outputs that add up are emptied, and a buffer of 128 MiB is read.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import torch

# mypy: ignore-errors
# ruff: noqa: B023, PLW2901, RUF017

BEGAN = float(os.environ.setdefault("BEGAN", str(time.time())))
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


def product(t: Any, config: Any) -> Any:
    return {"c": t["a"].double() @ t["b"].double()}


def coulomb(t: Any, config: Any) -> Any:
    (h, w), atoms = t["out"].shape, t["atoms"].double().cpu().tolist()
    x, y = (torch.arange(n, device="cuda", dtype=torch.float64) * 0.001 for n in (w, h))
    total = torch.zeros(h, w, device="cuda", dtype=torch.float64)
    for ax, ay, az, q in atoms:
        total += q * torch.rsqrt(((x - ax) ** 2)[None] + ((y - ay) ** 2)[:, None] + az * az + 0.01)
    return {"out": total}


def sobel(t: Any, config: Any) -> Any:
    h, w = t["x"].shape
    rows = torch.arange(-1, h + 1, device="cuda").clamp(0, h - 1)
    cols = torch.arange(-1, w + 1, device="cuda").clamp(0, w - 1)
    x = t["x"].to(torch.int16)[rows][:, cols]
    across, down = x[:, 2:] - x[:, :-2], x[2:] - x[:-2]
    gx = across[:-2] + 2 * across[1:-1] + across[2:]
    gy = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    return {"out": (gx.abs() + gy.abs()).clamp_max(255)}


def cumsum(t: Any, config: Any) -> Any:
    return {"out": t["x"].double().cumsum(1)}


def winograd(t: Any, config: Any) -> Any:
    x = torch.nn.functional.pad(t["x"], (1, 1, 1, 1)).unfold(1, 4, 2).unfold(2, 4, 2).reshape(-1, 4, 4)
    b = torch.tensor([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], device="cuda", dtype=torch.float32)
    out = torch.cat([torch.einsum("ki,tij,lj->tkl", b, part, b).reshape(-1, 16) for part in x.split(1 << 18)])
    return {"out": out.T.contiguous() if config["in_planes"] else out}


def fdtd(t: Any, config: Any) -> Any:
    hx, hy, hz = t["hx"], t["hy"], t["hz"]

    def less(field: Any, axis: int) -> Any:
        """Less the one before, where there is one."""
        before = torch.cat([field.narrow(axis, 0, 1), field.narrow(axis, 0, field.shape[axis] - 1)], axis)
        return field - before

    return {"oex": t["ex"] + 0.5 * (less(hz, 1) - less(hy, 0)), "oey": t["ey"] + 0.5 * (less(hx, 0) - less(hz, 2)),
            "oez": t["ez"] + 0.5 * (less(hy, 2) - less(hx, 1))}  # fmt: skip


def asian(t: Any, config: Any) -> Any:
    low, (paths, steps) = (1 << 32) - 1, t["sizes"]
    state = (torch.arange(paths, device="cuda") * 2654435761 + 12345) & low
    s = torch.ones(paths, device="cuda", dtype=torch.float64)
    mean = torch.zeros_like(s)
    for _ in range(0, steps, 2):
        drawn = []
        for _ in "uv":
            state = (state * 1664525 + 1013904223) & low
            drawn.append(((state >> 8).double() + 0.5) * 2.0**-24)
        r, turn = (-2 * drawn[0].log()).sqrt(), 6.2831853 * drawn[1]
        for by in (turn.sin(), turn.cos()):
            s = s * torch.exp(0.0005 + 0.02 * r * by)
            mean += s
    return {"partial": (mean / steps - 1).clamp_min(0).sum()[None]}


def tables(t: Any, config: Any) -> Any:
    low, rounds = (1 << 32) - 1, t["sizes"][0]
    table, keys = t["table"].long() & low, (t["keys"].long() & low).cpu().tolist()
    turned = [(table << 8 * n | table >> 32 - 8 * n) & low for n in range(4)]
    state = list((t["x"].long() & low).unbind(1))
    for r in range(rounds):
        state = [
            turned[0][state[i] & 255] ^ turned[1][state[(i + 1) % 4] >> 8 & 255]
            ^ turned[2][state[(i + 2) % 4] >> 16 & 255] ^ turned[3][state[(i + 3) % 4] >> 24] ^ keys[4 * r + i]
            for i in range(4)
        ]  # fmt: skip
    return {"out": torch.stack(state, 1).to(torch.int32)}


def stats(t: Any, config: Any) -> Any:
    x = t["x"].double()
    return {"out": torch.stack([x.mean((0, 2)), x.var((0, 2), correction=0)], 1)}


def closest(t: Any, config: Any) -> Any:
    found = []
    for part in t["points"][:, :3].split(2048):
        apart = ((part[:, None] - t["others"][None, :, :3]) ** 2).sum(-1)
        found.append(apart.topk(8, largest=False).values.sort(1).values)
    return {"out": torch.cat(found)}


def standard(t: Any, config: Any) -> Any:
    x = t["x"].float()
    x = x - x.mean(1, keepdim=True)
    return {"out": x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * t["w"].float()}


def summed(t: Any, config: Any) -> Any:
    return {"out": t["x"].double().sum(0)}


RIGHT = {each.__name__: each for each in (coulomb, sobel, cumsum, winograd, fdtd, asian, tables, stats, closest,
                                          standard, summed)}  # fmt: skip
RIGHT |= dict.fromkeys(("buffered", "tf32", "mma"), product)
TOLERANCE = {"buffered": 1e-5, "tf32": 2e-3, "mma": 2e-3, "coulomb": 1e-5, "cumsum": 1e-5, "winograd": 1e-6,
             "fdtd": 1e-6, "asian": 2e-3, "stats": 1e-4, "closest": 1e-5, "standard": 2e-3, "summed": 1e-4}  # fmt: skip
"""Relative, in the norm of all; of others 0."""


SIZES = {"cuda_asian_1mx64": (1 << 20, 64), "cuda_asian_200kx252": (200_000, 252), "cuda_tables_4mx10": (10,),
         "cuda_tables_1mx14": (14,)}  # fmt: skip


def seen(kind: str, tensors: Any) -> Any:
    """What was written, of partial sums their sum."""
    return {"partial": tensors["partial"].double().sum()[None]} if kind == "asian" else tensors


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
    began = BEGAN
    done = {json.loads(row).get("problem") for row in out.read_text().splitlines()} if out.exists() else set()
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
            if only not in name or name in done:
                continue
            if time.time() - began > seconds:
                log(problem=name, error="not reached")
                continue
            torch.cuda.empty_cache()
            tensors = {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}
            expected: dict[int, Any] = {}
            known = {**tensors, "sizes": SIZES.get(name)}
            ready: dict[int, Loaded] = {}
            for i, config in enumerate(given["configs"]):
                emptied(given, tensors, True)
                try:
                    one = Loaded(driver, held[config["cubin"]], config, tensors, given["constants"])
                    one()
                    driver("cuCtxSynchronize")
                except RuntimeError as error:
                    log(problem=name, i=i, config=config["config"], error=str(error))
                    if "cuCtxSynchronize" in str(error):  # on with the next problem, in a new process
                        os.execv(sys.executable, [sys.executable, *sys.argv])
                    continue
                form = config["config"].get("in_planes", 0)
                if form not in expected:
                    expected = {form: RIGHT[kind](known, config["config"])}
                off = wrong(kind, tensors, expected[form])
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
    parser.add_argument("--limit", type=float, default=170.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--counters", type=int, default=0, help="launches a problem that Nsight Compute counts")
    parser.add_argument("--launch", type=int, default=0, help="for Nsight Compute itself")
    asked = parser.parse_args()
    if asked.launch:
        launch(asked.folder, asked.out, asked.launch)
    else:
        timing(asked.folder, asked.out, asked.limit, asked.only)
        if asked.counters:
            counted(asked.folder, asked.out, asked.counters, max(10.0, asked.limit - (time.time() - BEGAN)))
        finished(asked.folder, asked.out)
