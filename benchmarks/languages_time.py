"""The ninth set of `languages.py` on a GPU: checks what each configuration writes, times it.

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

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from languages import contents  # noqa: E402

# mypy: ignore-errors
# ruff: noqa: B023, PLW2901, RUF017

BEGAN = float(os.environ.setdefault("BEGAN", str(time.time())))
CTYPES = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "f32": ctypes.c_float,
          "f64": ctypes.c_double}  # fmt: skip


def tensor_of(spec: dict[str, Any], seed: int) -> Any:
    kind, shape, init = getattr(torch, spec["dtype"]), spec["shape"], spec["init"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    if init == "levels":
        return torch.randint(0, 256, shape, device="cuda", generator=generator, dtype=torch.int32).to(kind)
    if ":" in init:
        return torch.from_numpy(contents(spec, seed)).cuda()
    if init in ("randn", "rand"):
        return getattr(torch, init)(shape, device="cuda", generator=generator, dtype=torch.float32).to(kind)
    return torch.zeros(shape, device="cuda", dtype=kind)


def tensors_of(given: dict[str, Any]) -> dict[str, Any]:
    found = {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}
    if "cell" in found:  # particles at places of their cells
        side = round((len(found["starts"]) - 1) ** (1 / 3))
        own = torch.stack([found["cell"] % side, found["cell"] // side % side, found["cell"] // side**2], 1)
        found["pos"] = own + torch.rand(own.shape, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    return found


# --------------------------------------------------------------------------- what is right, in double precision


def linear(t: Any) -> Any:
    c = t["A"].double() @ t["B"].double() + t["bias"].double()
    return {"C": c * torch.sigmoid(1.702 * c)}


def decoding(t: Any) -> Any:
    batch, seq, heads, dim = t["K"].shape
    parts, groups = t["parts"].shape[0], t["Q"].shape[1] // heads
    q = t["Q"].float().reshape(batch, heads, groups, dim)
    k, v = (t[n].float().reshape(batch, parts, seq // parts, heads, dim) for n in "KV")
    s = torch.einsum("bhgd,bpshd->pbhgs", q, k) * dim**-0.5
    out = torch.einsum("pbhgs,bpshd->pbhgd", s.softmax(-1), v).reshape(t["parts"].shape)
    return {"parts": out, "weights": s.logsumexp(-1).reshape(t["weights"].shape) * 1.44269504}


def rowsoft(t: Any) -> Any:
    return {"out": t["x"].float().softmax(1)}


def packed(t: Any) -> Any:
    b = torch.stack([t["B"] & 15, t["B"] >> 4], 2).reshape(t["B"].shape[0], -1).double() - 8
    return {"C": t["A"].double() @ b.T}


def heated(t: Any) -> Any:
    x, y = t["x"], torch.zeros_like(t["x"])
    here = x[1:-1, 1:-1, 1:-1]
    around = (x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1] + x[1:-1, :-2, 1:-1] + x[1:-1, 2:, 1:-1] + x[1:-1, 1:-1, :-2]
              + x[1:-1, 1:-1, 2:])  # fmt: skip
    y[1:-1, 1:-1, 1:-1] = here + 0.1 * (around - 6 * here)
    return {"y": y}


def dotted(t: Any) -> Any:
    return {"out": (t["x"].double() * t["y"].double()).sum()[None]}


def binned(t: Any) -> Any:
    return {"out": torch.bincount((t["x"] * len(t["out"])).int(), minlength=len(t["out"]))}


def tiled(t: Any) -> Any:
    return {"C": t["A"].double() @ t["B"].double()}


def means(t: Any) -> Any:
    far = [((part[:, None] - t["centres"].double()) ** 2).sum(-1).min(1).values
           for part in t["points"].T.double().split(1 << 16)]  # fmt: skip
    return {"apart": torch.cat(far)}


def near(t: Any) -> Any:
    """All pairs of neighbouring cells: the n-th of each, for as many as any has."""
    pos, cell, starts = t["pos"], t["cell"].long(), t["starts"].long()
    side = round((len(starts) - 1) ** (1 / 3))
    own = torch.stack([cell % side, cell // side % side, cell // side**2], 1)
    most, total = int((starts[1:] - starts[:-1]).max()), torch.zeros(len(pos), device="cuda", dtype=torch.float64)
    for step in range(27):
        to = own + torch.tensor([step % 3 - 1, step // 3 % 3 - 1, step // 9 - 1], device="cuda")
        inside = ((to >= 0) & (to < side)).all(1)
        to = torch.where(inside, to[:, 0] + side * (to[:, 1] + side * to[:, 2]), 0)
        for n in range(most):
            at = starts[to] + n
            there = inside & (at < starts[to + 1])
            apart = (pos[at.clamp_max(len(pos) - 1)] - pos).double().square().sum(1)
            total += torch.where(there, (1 - apart).clamp_min(0) ** 3, 0)
    return {"out": total}


def blocks(t: Any) -> Any:
    rows = torch.arange(len(t["y"]), device="cuda").repeat_interleave((t["starts"][1:] - t["starts"][:-1]).long())
    each = torch.einsum("krc,kc->kr", t["held"].double(), t["x"].double()[t["cols"].long()])
    return {"y": torch.zeros(t["y"].shape, device="cuda", dtype=torch.float64).index_add_(0, rows, each)}


def blurred(t: Any) -> Any:
    (h, w, _), radius = t["x"].shape, 2 if t["x"].shape[0] > 1024 else 4
    at = torch.arange(-radius, radius + 1, device="cuda", dtype=torch.float64)
    weight = torch.exp(-0.2 * (at[:, None] ** 2 + at[None] ** 2))
    rows, cols = (torch.arange(-radius, n + radius, device="cuda").clamp(0, n - 1) for n in (h, w))
    x = t["x"].double()[rows][:, cols].permute(2, 0, 1)[:, None]
    out = torch.nn.functional.conv2d(x, (weight / weight.sum())[None, None])
    return {"out": out[:, 0].permute(1, 2, 0)}


def affine(t: Any) -> Any:
    return {"C": (t["A"].double() @ t["B"].double() + t["bias"].double()).clamp_min(0)}


def marched(t: Any) -> Any:
    x, out = t["x"], t["out"]
    steps = 256 if x.shape[0] == 256 else 96
    r, c = (torch.arange(n, device="cuda").float() * 0.24 for n in out.shape)
    total = torch.zeros(out.shape, device="cuda", dtype=torch.float64)
    flat, side = x.reshape(-1), x.shape[0]
    for s in range(steps):
        p = [torch.full_like(total, s * 0.9, dtype=torch.float32), (r[:, None] + s * 0.18).expand(out.shape),
             (c[None] + s * 0.09).expand(out.shape)]  # fmt: skip
        low = [each.floor().int().clamp(0, side - 2).long() for each in p]
        a, b, d = (each - at for each, at in zip(p, low, strict=True))
        at = (low[0] * side + low[1]) * side + low[2]
        for u, i in ((1 - a, 0), (a, side * side)):
            for v, j in ((1 - b, 0), (b, side)):
                total += u * v * ((1 - d) * flat[at + i + j] + d * flat[at + i + j + 1])
    return {"out": total}


def attended(t: Any) -> Any:
    q, k, v = (t[n].float() for n in "QKV")
    return {"Out": torch.cat([(a @ b.T * 0.125).softmax(-1)[None] @ c for a, b, c in zip(q, k, v, strict=True)])}


def layered(t: Any) -> Any:
    return {"out": torch.nn.functional.layer_norm(t["x"].float(), t["w"].shape, t["w"].float())}


def matvec(t: Any) -> Any:
    return {"y": t["A"].double() @ t["x"].double()}


RIGHT = {each.__name__: each for each in (linear, decoding, rowsoft, packed, heated, dotted, binned, tiled, means, near,
                                          blocks, blurred, affine, marched, attended, layered, matvec)}  # fmt: skip
TOLERANCE = {"linear": 2e-3, "decoding": 3e-3, "rowsoft": 2e-3, "packed": 2e-3, "heated": 1e-6, "dotted": 1e-4,
             "tiled": 1e-5, "means": 1e-5, "near": 1e-5, "blocks": 1e-5, "blurred": 1e-5, "affine": 1e-5,
             "marched": 1e-4, "attended": 3e-3, "layered": 2e-3, "matvec": 1e-5}  # fmt: skip
"""Relative, in the norm of all; of others 0."""


def wrong(tensors: Any, expected: Any) -> float:
    worst = 0.0
    for name, right in expected.items():
        got, want = tensors[name].double().reshape(-1), right.to("cuda").double().reshape(-1)
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
            tensors = tensors_of(given)
            expected = RIGHT[kind](tensors)
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
                off = wrong(tensors, expected)
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
        tensors = tensors_of(given)
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
