"""The tenth set of `languages.py` on a GPU: checks what each configuration writes, times it.

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
CTYPES = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "f32": ctypes.c_float,
          "f64": ctypes.c_double}  # fmt: skip


def tensor_of(spec: dict[str, Any], seed: int) -> Any:
    kind, shape, init = getattr(torch, spec["dtype"]), spec["shape"], spec["init"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    if init == "levels":
        return torch.randint(0, 256, shape, device="cuda", generator=generator, dtype=torch.int32).to(kind)
    if ":" in init or init == "pages":
        return torch.from_numpy(contents(spec, seed)).cuda()
    if init == "roots":
        turn = torch.arange(512, device="cuda", dtype=torch.float64) * (-2 * math.pi / 512)
        return torch.stack([turn.cos(), turn.sin()], 1).float()
    if init in ("small", "heavy"):
        made = torch.randn(shape, device="cuda", generator=generator)
        heavy = init == "heavy"
        return (made + 16 * torch.eye(shape[-1], device="cuda") if heavy else made * shape[-1] ** -0.25).to(kind)
    if init in ("randn", "rand"):
        return getattr(torch, init)(shape, device="cuda", generator=generator, dtype=torch.float32).to(kind)
    return torch.zeros(shape, device="cuda", dtype=kind)


def tensors_of(given: dict[str, Any]) -> dict[str, Any]:
    found = {name: tensor_of(spec, 100 + i) for i, (name, spec) in enumerate(given["tensors"].items())}
    if "by_rank" in found:
        found["rest_by_rank"] = found["rest"].T.contiguous()
    return found


# --------------------------------------------------------------------------- what is right, in double precision


def sampled(t: Any) -> Any:
    out = [(t["A"][r.long()].double() * t["B"][c.long()].double()).sum(1)
           for r, c in zip(t["rows"].split(1 << 17), t["cols"].split(1 << 17), strict=True)]  # fmt: skip
    return {"out": torch.cat(out)}


def byted(t: Any) -> Any:
    return {"y": t["scale"].double() * (t["W"].double() @ t["x"].double())}


def fft512(t: Any) -> Any:
    out = torch.fft.fft(torch.view_as_complex(t["x"]))
    return {"out": torch.view_as_real(out)}


def solved(t: Any) -> Any:
    return {"X": torch.linalg.solve_triangular(t["L"].double(), t["B"].double(), upper=False)}


def gated(t: Any) -> Any:
    a = t["A"].double()
    g = a @ t["G"].double().T
    return {"C": g * torch.sigmoid(g) * (a @ t["U"].double().T)}


def combined(t: Any) -> Any:
    tokens, dim = t["out"].shape
    made = t["made"][t["where"].long()].float() * t["weights"][:, None]
    return {"out": made.reshape(tokens, -1, dim).sum(1)}


CX = [0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0]
CY = [0, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 1, -1, 1, -1]
CZ = [0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, -1, -1, 1, 1, -1, -1, 1]
SIDES = {19 * 192 * 128 * 96: (96, 128, 192), 19 * 120 * 100 * 64: (64, 100, 120)}


def lattice19(t: Any) -> Any:
    """By planes; and as cells, whose numbers lie otherwise."""
    z, y, x = SIDES[len(t["x"])]

    def step(f: Any) -> Any:
        f = torch.stack([f[q].roll((CZ[q], CY[q], CX[q]), (0, 1, 2)) for q in range(19)])
        rho = f.sum(0)
        ux, uy, uz = (sum(c[q] * f[q] for q in range(19)) / rho for c in (CX, CY, CZ))
        rest = 1 - 1.5 * (ux * ux + uy * uy + uz * uz)
        for q in range(19):
            cu = CX[q] * ux + CY[q] * uy + CZ[q] * uz
            w = 1 / 3 if q == 0 else 1 / 18 if q < 7 else 1 / 36
            f[q] += 1.2 * (w * rho * (rest + 3 * cu + 4.5 * cu * cu) - f[q])
        return f

    planes = step(t["x"].reshape(19, z, y, x)).reshape(-1)
    cells = step(t["x"].reshape(z, y, x, 19).permute(3, 0, 1, 2)).permute(1, 2, 3, 0).reshape(-1)
    return {("to", 1): planes, ("to", 0): cells}


def elements(t: Any) -> Any:
    u, g, d = t["u"].double(), t["g"].double(), t["D"].double()
    r = torch.einsum("im,ekjm->ekji", d, u) * g[:, 0]
    s = torch.einsum("jm,ekmi->ekji", d, u) * g[:, 1]
    v = torch.einsum("km,emji->ekji", d, u) * g[:, 2]
    return {"out": torch.einsum("mi,ekjm->ekji", d, r) + torch.einsum("mj,ekmi->ekji", d, s)
            + torch.einsum("mk,emji->ekji", d, v)}  # fmt: skip


def disparity(t: Any) -> Any:
    height, width = t["left"].shape
    depth = 64 if width == 1920 else 128
    rows, cols = (torch.arange(-2, n + 2, device="cuda") for n in (height, width))
    rows = rows.clamp(0, height - 1)
    left = t["left"][rows][:, cols.clamp(0, width - 1)].int()
    best = torch.full(t["out"].shape, 1 << 30, device="cuda", dtype=torch.int32)
    for shift in range(depth):
        right = t["right"][rows][:, (cols - shift).clamp(0, width - 1)].int()
        off = (left - right).abs()
        cost = sum(off[i : i + height, j : j + width] for i in range(5) for j in range(5))
        best = torch.minimum(best, cost * depth + shift)
    return {"out": best}


def stepped(t: Any) -> Any:
    r = t["r"].double() - 0.01 * t["q"].double()
    return {"xo": t["x"].double() + 0.01 * t["p"].double(), "ro": r, "total": (r * r).sum()[None]}


def chunked(t: Any) -> Any:
    q, k, v = (t[n].float() for n in "QKV")
    dim = q.shape[2]
    out = torch.cat([((a @ b.T).tril() @ c)[None] for a, b, c in zip(q, k, v, strict=True)])
    return {"Out": out / dim}


def rolled(t: Any) -> Any:
    x, window = t["x"].double(), 64 if t["x"].shape[1] == 4096 else 20
    sums = [torch.cat([torch.zeros_like(v[:1]), v.cumsum(0)]) for v in (x, x * x)]
    m, s = ((v[1:] - torch.cat([v[:1].expand(window, -1), v])[1 : len(v)]) / window for v in sums)
    return {"mean": m, "deviation": (s - m * m).clamp_min(0).sqrt()}


def temporal(t: Any) -> Any:
    torch.backends.cudnn.allow_tf32 = False
    return {"out": torch.nn.functional.conv1d(t["x"], t["w"])}


def springs(t: Any) -> Any:
    p, v, to = t["pos"].double(), t["speed"].double(), t["to"].long()
    d = p[to] - p[:, None]
    far = d.norm(dim=2, keepdim=True) + 1e-6
    along = d / far
    pull = 100 * (far - t["rest"].double()[..., None]) + 0.5 * ((v[to] - v[:, None]) * along).sum(2, keepdim=True)
    total = (along * pull).sum(1)
    total[:, 1] -= 9.8
    return {"out": total}


def swished(t: Any) -> Any:
    a, b = t["x"].float().chunk(2, 1)
    return {"out": a * torch.sigmoid(a) * b}


def turned(t: Any) -> Any:
    return {"B": t["A"].T.contiguous()}


RIGHT = {each.__name__: each for each in (sampled, byted, fft512, solved, gated, combined, lattice19, elements,
                                          disparity, stepped, chunked, rolled, temporal, springs, swished,
                                          turned)}  # fmt: skip
TOLERANCE = {"sampled": 1e-5, "byted": 1e-5, "fft512": 1e-5, "solved": 1e-5, "gated": 2e-3, "combined": 2e-3,
             "lattice19": 1e-4, "elements": 1e-5, "stepped": 1e-4, "chunked": 3e-2, "rolled": 1e-2, "temporal": 1e-4,
             "springs": 1e-4, "swished": 2e-3}  # fmt: skip
"""Relative, in the norm of all; of others 0."""


def wrong(tensors: Any, expected: Any, config: Any) -> float:
    worst = 0.0
    for name, right in expected.items():
        if isinstance(name, tuple):  # of configurations in planes, or of others
            name, planes = name
            if planes != config["in_planes"]:
                continue
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
        launch(asked.folder, asked.out, asked.launch)
    else:
        timing(asked.folder, asked.out, asked.limit, asked.only)
        if asked.counters:
            counted(asked.folder, asked.out, asked.counters, max(10.0, asked.limit - (time.time() - BEGAN)))
        finished(asked.folder, asked.out)
