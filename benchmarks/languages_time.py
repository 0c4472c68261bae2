"""The sixth set of `languages.py` on a GPU: checks what each configuration writes, times it.

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

# ruff: noqa: B023, B905, E741, PLW2901, RUF017

CTYPES = {"i32": ctypes.c_int32, "f32": ctypes.c_float, "f64": ctypes.c_double}


def tensor_of(spec: dict[str, Any], seed: int) -> Any:
    kind, shape, init = getattr(torch, spec["dtype"]), spec["shape"], spec["init"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    if init == "bits":
        return torch.randint(-(2**31), 2**31, shape, device="cuda", generator=generator, dtype=torch.int64).to(kind)
    if init == "levels":
        return torch.randint(0, 256, shape, device="cuda", generator=generator, dtype=torch.int32).to(kind)
    if init == "turns":
        angles = torch.arange(shape[0], device="cuda", dtype=torch.float64) * (2 * math.pi / shape[0])
        return torch.stack([angles.cos(), angles.sin()], 1).to(kind)
    if init in ("randn", "rand"):
        return getattr(torch, init)(shape, device="cuda", generator=generator, dtype=torch.float32).to(kind)
    return torch.zeros(shape, device="cuda", dtype=kind)


# --------------------------------------------------------------------------- what is right, in double precision


def pnpoly(t: Any, config: Any) -> Any:
    p, c = t["points"].double(), t["corners"].double()
    inside = torch.zeros(len(p), dtype=torch.bool, device=p.device)
    for j in range(len(c)):
        (xj, yj), (xk, yk) = c[j].tolist(), c[j - 1].tolist()
        inside ^= ((yj > p[:, 1]) != (yk > p[:, 1])) & (p[:, 0] < (xk - xj) / (yk - yj) * (p[:, 1] - yj) + xj)
    return {"inside": inside}


def gridder(t: Any, config: Any) -> Any:
    side, out = t["grids"].shape[1], []
    at = (torch.arange(side, device="cuda", dtype=torch.float64) - side // 2) / side
    m, l = (each.reshape(-1) for each in torch.meshgrid(at, at, indexing="ij"))
    n = 1 - (1 - 0.5 * (l * l + m * m)).sqrt()
    for v, w in zip(t["visibilities"].double().split(64), t["uvw"].double().split(64)):
        phase = w @ torch.stack([l, m, n])
        turned = torch.polar(torch.ones_like(phase), phase)
        out.append(torch.einsum("bcp,bc->bp", turned, torch.view_as_complex(v.contiguous())))
    return {"grids": torch.view_as_real(torch.cat(out))}


def thomas(t: Any, config: Any) -> Any:
    a, b, c, d = (t[name].double() for name in "abcd")
    b, n = b + 3, len(b)
    up, last = [c[0] / b[0]], [d[0] / b[0]]
    for i in range(1, n):
        scale = 1 / (b[i] - a[i] * up[-1])
        last.append((d[i] - a[i] * last[-1]) * scale)
        up.append(c[i] * scale)
    for i in range(n - 2, -1, -1):
        last[i] = last[i] - up[i] * last[i + 1]
    return {"x": torch.stack(last)}


def advec(t: Any, config: Any) -> Any:
    u, v, w = (t[name].double() for name in "uvw")
    dz = t["dzi"].double()[:, None, None]

    def at(f: Any, k: int = 0, j: int = 0, i: int = 0) -> Any:
        K, J, I = (size - 2 for size in f.shape)
        return f[1 + k : 1 + k + K, 1 + j : 1 + j + J, 1 + i : 1 + i + I]

    def flux(by: Any, of: Any, own: tuple[int, int, int], ahead: tuple[int, int, int]) -> Any:
        """Of `of`, carried by `by` along `ahead`, through the far face less that through the near one; `own`: where
        `by` has its neighbour."""
        far, near = ahead, (0, 0, 0)

        def face(shift: Any) -> Any:
            low = tuple(s - o for s, o in zip(shift, own))
            before = tuple(s - a for s, a in zip(shift, ahead))
            return 0.25 * (at(by, *low) + at(by, *shift)) * (at(of, *before) + at(of, *shift))

        return face(far) - face(near)

    x, y, z = (0, 0, 1), (0, 1, 0), (1, 0, 0)
    out = {}
    for name, of, own in (("ut", u, x), ("vt", v, y), ("wt", w, z)):
        total = -flux(u, of, own, x) * 0.5 - flux(v, of, own, y) * 0.25 - flux(w, of, own, z) * dz
        out[name] = torch.nn.functional.pad(total, (1,) * 6)
    return out


def compact(t: Any, config: Any) -> Any:
    kept = t["x"][t["x"] > (0.0 if len(t["x"]) == 1 << 25 else 1.5)]
    return {"out": kept.sort().values.double(), "count": torch.tensor([len(kept)])}


def matched(t: Any, config: Any) -> Any:
    bits = torch.arange(32, device="cuda")
    ours, theirs = (((t[n][..., None] >> bits & 1) * 2 - 1).reshape(len(t[n]), -1).half() for n in ("ours", "theirs"))
    two = [((256 - o @ theirs.T) / 2).topk(2, largest=False).values for o in ours.split(8192)]
    return dict(zip(("best", "second"), torch.cat(two).T))


def median(t: Any, config: Any) -> Any:
    x, r = t["x"], 1 if t["x"].shape[1] == 4096 else 2
    y = torch.nn.functional.pad(x[None], (r,) * 4, mode="replicate")[0]
    rows, cols, n = *x.shape, 2 * r + 1
    all_of = torch.stack([y[i : i + rows, j : j + cols] for i in range(n) for j in range(n)])
    return {"out": all_of.sort(0).values[n * n // 2]}


def attend(t: Any, config: Any) -> Any:
    q, k, v = (t[name].double() for name in "QKV")
    return {"O": torch.cat([(a @ b.mT * a.shape[-1] ** -0.5).softmax(-1) @ c
                            for a, b, c in zip(q.split(4), k.split(4), v.split(4))])}  # fmt: skip


def backproject(t: Any, config: Any) -> Any:
    x, turns = t["x"].double(), t["turns"].double().tolist()
    nz, ny, nx = t["volume"].shape
    _, height, width = x.shape
    z, y, xs = (torch.arange(n, device="cuda", dtype=torch.float64) - 0.5 * (n - 1) for n in (nz, ny, nx))
    y, xs, z = y[:, None], xs[None], z[:, None, None]
    sum_, far = torch.zeros(nz, ny, nx, device="cuda", dtype=torch.float64), 2.0 * width
    for a, (c, s) in enumerate(turns):
        near = far / (far + s * xs - c * y)
        u = (c * xs + s * y) * near + 0.5 * (width - 1)
        v = z * near + 0.5 * (height - 1)
        iu, iv = u.floor(), v.floor()
        du, dv = u - iu, v - iv
        ok = (iu >= 0) & (iu < width - 1) & (iv >= 0) & (iv < height - 1)
        at = iv.clamp(0, height - 2).long() * width + iu.clamp(0, width - 2).long()
        f = x[a].reshape(-1)
        low, high = (1 - du) * f[at] + du * f[at + 1], (1 - du) * f[at + width] + du * f[at + width + 1]
        sum_ += torch.where(ok, near * near * ((1 - dv) * low + dv * high), 0.0)
    return {"volume": sum_}


def correlate(t: Any, config: Any) -> Any:
    x = torch.view_as_complex(t["x"].double())
    return {"out": torch.view_as_real((x.mT @ x.conj()).tril())}


def yuv(t: Any, config: Any) -> Any:
    r, g, b = t["rgb"].int().T
    return {"planes": torch.stack([(66 * r + 129 * g + 25 * b + 128 >> 8) + 16,
                                   (-38 * r - 74 * g + 112 * b + 128 >> 8) + 128,
                                   (112 * r - 94 * g - 18 * b + 128 >> 8) + 128])}  # fmt: skip


RIGHT = {each.__name__: each for each in (pnpoly, gridder, thomas, advec, compact, matched, median, attend, backproject,
                                          correlate, yuv)}  # fmt: skip
TOLERANCE = {"pnpoly": 2e-2, "gridder": 1e-4, "thomas": 1e-5, "advec": 1e-5, "attend": 3e-3, "backproject": 2e-3,
             "correlate": 1e-5}  # fmt: skip
"""Relative, in the norm of all; of others 0."""


def seen(kind: str, tensors: Any) -> Any:
    """What was written, where order or place do not matter in the order of the right answer."""
    if kind == "compact":
        return {"out": tensors["out"][: int(tensors["count"])].sort().values, "count": tensors["count"]}
    if kind == "correlate":
        return {"out": torch.view_as_real(torch.view_as_complex(tensors["out"]).tril())}
    return tensors


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
            counted(asked.folder, asked.out, asked.counters, 150.0)
        finished(asked.folder, asked.out)
