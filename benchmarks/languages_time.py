"""The eleventh set of `languages.py` on a GPU: checks what each configuration writes, times it.

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
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from languages import contents  # noqa: E402

SCRATCH = Path(tempfile.mkdtemp())

# mypy: ignore-errors
# ruff: noqa: B023, PLW2901, RUF017

BEGAN = float(os.environ.setdefault("BEGAN", str(time.time())))
COUNTED_S = 35.0
"""Of the seconds that are allowed, those that are for Nsight Compute."""
CTYPES = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "f32": ctypes.c_float,
          "f64": ctypes.c_double}  # fmt: skip


def tensor_of(spec: dict[str, Any], seed: int) -> Any:
    kind, shape, init = getattr(torch, spec["dtype"]), spec["shape"], spec["init"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    if init in ("levels", "bits"):
        low, high = (0, 256) if init == "levels" else (-(1 << 31), 1 << 31)
        return torch.randint(low, high, shape, device="cuda", generator=generator, dtype=torch.int64).to(kind)
    if ":" in init:
        return torch.from_numpy(contents(spec, seed)).cuda()
    if init in ("randn", "rand"):
        return getattr(torch, init)(shape, device="cuda", generator=generator, dtype=torch.float32).to(kind)
    return torch.zeros(shape, device="cuda", dtype=kind)


def tensors_of(given: dict[str, Any]) -> dict[str, Any]:
    return {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}


# --------------------------------------------------------------------------- what is right, in double precision


def splitk(t: Any) -> Any:
    return {"C": t["A"].double() @ t["B"].double()}


def volumes(t: Any) -> Any:
    return {"out": torch.nn.functional.conv3d(t["x"][None], t["w"])[0]}


def netsort(t: Any) -> Any:
    return {"out": t["x"].sort(1).values}


def sliced(t: Any) -> Any:
    widths = t["starts"].diff().long()
    of = torch.repeat_interleave(torch.arange(len(widths), device="cuda"), widths)
    made = (t["held"].double() * t["x"][t["cols"].long()].double()).view(-1, 32)
    return {"y": torch.zeros((len(widths), 32), device="cuda", dtype=torch.float64).index_add_(0, of, made)}


def fftcols(t: Any) -> Any:
    return {"out": torch.view_as_real(torch.fft.fft(torch.view_as_complex(t["x"]), dim=1))}


def redblack(t: Any) -> Any:
    x, f = t["x"], t["f"]
    z, y, w = (torch.arange(n, device="cuda") for n in x.shape)
    inner = (slice(1, -1),) * 3
    around = sum(x.roll(far, axis) for axis in range(3) for far in (1, -1))
    made = x + 1.5 * ((around - f) / 6 - x)
    out = torch.zeros_like(x)
    mine = (z[:, None, None] + y[None, :, None] + w) % 2 == 0
    out[inner] = torch.where(mine, made, 0)[inner]
    return {"out": out}


def gram(t: Any) -> Any:
    x = t["X"].double()
    return {"G": x.T @ x}


def recurred(t: Any) -> Any:
    a, b = t["a"].double(), t["b"].double()
    far = 1
    while far < a.shape[1]:
        b = torch.cat([b[:, :far], b[:, far:] + a[:, far:] * b[:, :-far]], 1)
        a = torch.cat([a[:, :far], a[:, far:] * a[:, :-far]], 1)
        far *= 2
    return {"out": b}


def dilated(t: Any) -> Any:
    radius = 2 if t["x"].shape[1] == 8192 else 4
    return {"out": torch.nn.functional.max_pool2d(t["x"].float()[None], 2 * radius + 1, 1, radius)[0]}


def blockquant(t: Any) -> Any:
    rows, cols = t["x"].shape
    x = t["x"].float().view(rows // 128, 128, cols // 128, 128)
    scale = x.abs().amax((1, 3)) / 448
    return {"scale": scale, "out": (x / scale[:, None, :, None]).reshape(rows, cols)}


def normback(t: Any) -> Any:
    h = (t["x"].float() - t["mean"][:, None]) * t["over"][:, None]
    g = t["dy"].float() * t["gamma"]
    return {"dx": (g - g.mean(1, keepdim=True) - h * (g * h).mean(1, keepdim=True)) * t["over"][:, None]}


def windowed(t: Any) -> Any:
    _, seq, dim = t["Q"].shape
    window = 1024 if dim == 128 else 256
    at = torch.arange(seq, device="cuda")
    far = at[:, None] - at
    hidden = (far < 0) | (far >= window)
    made = [((q @ k.T).float() * dim**-0.5).masked_fill_(hidden, -math.inf).softmax(1).half() @ v
            for q, k, v in zip(*(t[n] for n in "QKV"), strict=True)]  # fmt: skip
    return {"Out": torch.stack(made)}


def outer(t: Any) -> Any:
    return {"C": t["A"].float().T @ t["B"].float()}


def masked(t: Any) -> Any:
    return {"out": torch.nn.functional.conv2d(t["x"][None, None], t["w"][None, None])[0, 0]}


def prefix(t: Any) -> Any:
    return {"out": t["x"].double().cumsum(1)}


def flowed(t: Any) -> Any:
    """By planes; and as cells, whose numbers lie otherwise."""

    def step(f: Any) -> Any:
        cx, cy = [q % 3 - 1 for q in range(9)], [q // 3 - 1 for q in range(9)]
        f = torch.stack([f[q].roll((cy[q], cx[q]), (0, 1)) for q in range(9)]).double()
        rho = f.sum(0)
        ux, uy = (sum(c[q] * f[q] for q in range(9)) / rho for c in (cx, cy))
        rest = 1 - 1.5 * (ux * ux + uy * uy)
        for q in range(9):
            cu = cx[q] * ux + cy[q] * uy
            w = 4 / 9 / 4 ** (cx[q] ** 2 + cy[q] ** 2)
            f[q] += 1.2 * (w * rho * (rest + 3 * cu + 4.5 * cu * cu) - f[q])
        return f

    return {("outp", 1): step(t["xp"]), ("outc", 0): step(t["xc"].permute(2, 0, 1)).permute(1, 2, 0)}


def deposited(t: Any) -> Any:
    side, at, c = t["grid"].shape[0], t["pos"].double(), t["cell"].long()
    cells = side - 1
    grid = torch.zeros(side**3, device="cuda", dtype=torch.float64)
    x, y, z = c % cells, c // cells % cells, c // cells // cells
    for u in range(2):
        for v in range(2):
            for w in range(2):
                by = (1 - u - at[:, 2]).abs() * (1 - v - at[:, 1]).abs() * (1 - w - at[:, 0]).abs()
                grid.index_add_(0, ((z + u) * side + y + v) * side + x + w, by)
    return {"grid": grid}


def summed(t: Any) -> Any:
    return {"out": torch.cat([part.float().logsumexp(1, keepdim=True) for part in t["x"].split(1024)])}


def smoothed(t: Any) -> Any:
    height, width = t["B"].shape
    return {"B": torch.nn.functional.avg_pool2d(t["A"][None, : height + 2, : width + 2], 3, 1)[0]}


torch.backends.cudnn.allow_tf32 = False
RIGHT = {each.__name__: each for each in (splitk, volumes, netsort, sliced, fftcols, redblack, gram, recurred, dilated,
                                          blockquant, normback, windowed, outer, masked, prefix, flowed, deposited,
                                          summed, smoothed)}  # fmt: skip
TOLERANCE = {"splitk": 1e-5, "volumes": 1e-4, "sliced": 1e-5, "fftcols": 1e-5, "redblack": 1e-5, "gram": 1e-5,
             "recurred": 1e-5, "blockquant": 4e-2, "normback": 2e-3, "windowed": 5e-3, "outer": 1e-3, "masked": 1e-4,
             "prefix": 1e-5, "flowed": 1e-4, "deposited": 1e-4, "summed": 1e-4, "smoothed": 1e-5}  # fmt: skip
"""Relative, in the norm of all; of others 0."""


def wrong(tensors: Any, expected: Any, config: Any) -> float:
    worst = 0.0
    for name, right in expected.items():
        if isinstance(name, tuple):  # of configurations in planes, or of others
            name, planes = name
            if planes != config["PLANES"]:
                continue
        got = tensors[name]
        if "scale" in expected and name == "out":  # bytes of a float, of what is scaled
            got = got.view(torch.float8_e4m3fn).float()
        got, want = got.double().reshape(-1), right.to("cuda").double().reshape(-1)
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
                off = wrong(tensors, expected, config["config"])
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
        f"{SCRATCH}/ncu.csv",
        "--metrics",
        ",".join(METRICS),
        sys.executable,
        __file__,
        str(folder),
        "--out",
        str(out),
        "--launch",
        str(count),
        "--limit",
        str(seconds - 8.0),
    ]
    try:
        left = max(12.0, seconds + 4.0 - (time.time() - BEGAN))
        ran = subprocess.run(command, capture_output=True, text=True, timeout=left, check=False)
        print(ran.stdout[-500:], ran.stderr[-500:])
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"no counters: {error}")


def launch(folder: Path, out: Path, count: int, seconds: float) -> None:
    """What Nsight Compute looks at, as far as time goes; writes what was launched, in order, beside `out`."""
    runtime = torch.cuda.cudart()
    driver, held = Driver(), codes(folder)
    rows = [row for row in map(json.loads, out.read_text().splitlines()) if "ms" in row]
    with gzip.open(folder / "problems.json.gz") as file:
        every = json.load(file)
    for given in every:
        mine = sorted((row["ms"], row["i"]) for row in rows if row["problem"] == given["problem"])
        if not mine or time.time() - BEGAN > seconds:
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
            with Path(f"{SCRATCH}/launched").open("a") as file:
                file.write(f"{given['problem']} {i}\n")


def launches_counted(out: Path) -> Any:
    import csv

    table, order = Path(f"{SCRATCH}/ncu.csv"), Path(f"{SCRATCH}/launched")
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
        launch(asked.folder, asked.out, asked.launch, asked.limit)
    else:
        timing(asked.folder, asked.out, asked.limit - (COUNTED_S if asked.counters else 0.0), asked.only)
        if asked.counters:
            counted(asked.folder, asked.out, asked.counters, asked.limit)
        finished(asked.folder, asked.out)
