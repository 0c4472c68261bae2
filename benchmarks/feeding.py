"""What carver saves inside Triton's and Inductor's own tuners on the GPU of this machine, and what a portfolio loses.

    python benchmarks/feeding.py [--arch auto] [--out feed.json] [--only triton inductor portfolio]

triton     A matmul tuned over a list of its own, all of it and the five that `triton_pruner` keeps, on ten shapes.
           A configuration is compiled once; the time of a cold tuning run is the sum of what its own configurations
           took to compile and to time, so that neither run profits from the other. The winners are then timed again,
           in turns.
inductor   torch.compile(mode="max-autotune") of a Llama-3-8B MLP at three batch sizes, with and without the handler.
portfolio  Four configurations for M from 1 to 8192, N = K = 4096, against the best of everything timed at 14 sizes.

Beside feed.json are feed_triton.csv and feed_portfolio.csv: every time that was taken, for `carver evaluate`.

Needs torch 2.10 or newer and Triton 3.4 or newer; takes about five minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from inductor_blocks import nothing_kept, start_compilers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import carver
from carver.base.errors import ConfigError
from carver.export import first, inductor
from carver.export.triton import configs as triton_configs
from carver.ranking.portfolio import at

KEYS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")
SHAPES = [
    (4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 2048), (1024, 1024, 8192), (16, 4096, 4096),
    (64, 14336, 4096), (256, 3584, 8192), (8192, 768, 3072), (512, 4096, 14336), (4096, 28672, 4096),
]  # fmt: skip
SHARES = {"triton": 0.4, "inductor": 0.35, "portfolio": 0.25}
"""Of the time, by section."""
Row = dict[str, Any]
Keep = Callable[[dict[str, Any], list[Row]], None]
"""Takes what a section has so far and every time that it took, and writes both."""
BATCHES = (16, 512, 4096)
SIZES = (1, 8, 16, 33, 64, 100, 128, 256, 500, 1024, 1536, 2048, 4096, 8192)


@triton.jit(do_not_specialize=["M"])  # else M = 1 and multiples of 16 compile every configuration anew
def matmul(  # type: ignore[no-untyped-def]
    a_at, b_at, c_at, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    panel = tile // (GROUP_M * cols)
    height = min(rows - panel * GROUP_M, GROUP_M)
    inside = tile % (GROUP_M * cols)
    row, col = panel * GROUP_M + inside % height, inside // height
    m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    n = col * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_at + (m % M)[:, None] * K + k[None, :]
    b = b_at + k[:, None] * N + (n % N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        x = tl.load(a, mask=k[None, :] < left, other=0.0)
        y = tl.load(b, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        a += BLOCK_K
        b += BLOCK_K * N
    at_c = c_at + m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(at_c, total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


def own_list() -> list[triton.Config]:
    """A list as kernels come with: every tile of a grid that is not absurd."""
    grid = itertools.product((64, 128, 256), (64, 128, 256), (32, 64, 128), (4, 8), (3, 4))
    chosen = [c for c in grid if c[0] * c[1] <= 128 * 256 and (c[3] == 8 or c[0] * c[1] <= 128 * 128)
              and (c[0] + c[1]) * c[2] <= 256 * 128]  # fmt: skip
    chosen += [c for c in itertools.product((16, 32), (64, 128), (64, 128), (4,), (3, 5))]
    return [
        triton.Config(dict(zip(KEYS, (*tile, 8), strict=True)), num_warps=warps, num_stages=stages)
        for *tile, warps, stages in chosen
    ]


def grid_of(config: dict[str, int], m: int, n: int) -> tuple[int]:
    return (triton.cdiv(m, config["BLOCK_M"]) * triton.cdiv(n, config["BLOCK_N"]),)


class Matmul:
    """The kernel on one shape's tensors."""

    def __init__(self, m: int, n: int, k: int) -> None:
        self.sizes = m, n, k
        self.a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        self.b = torch.randn(k, n, device="cuda", dtype=torch.float16)
        self.c = torch.empty(m, n, device="cuda", dtype=torch.float16)

    def launch(self, config: triton.Config) -> None:
        grid = grid_of(config.kwargs, *self.sizes[:2])
        matmul[grid](self.a, self.b, self.c, *self.sizes, **config.kwargs, num_warps=config.num_warps,
                     num_stages=config.num_stages)  # fmt: skip

    def ms(self, config: triton.Config, rep: int = 40) -> float:
        """Median with a cold L2; infinite where it does not run. [ms]"""
        try:
            return float(triton.testing.do_bench(lambda: self.launch(config), warmup=10, rep=rep, return_mode="median"))
        except (triton.TritonError, RuntimeError):
            return float("inf")


def timed(arch: carver.Arch, sizes: tuple[int, ...], config: triton.Config, ms: float) -> Row:
    """A row of the CSV form in docs/reference/tables.md."""
    tunables = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return {
        "operator": "matmul", "arch": arch.name, "backend": "triton", **dict(zip("MNK", sizes, strict=True)),
        "in_dtype": "float16", **{f"config.{name}": value for name, value in tunables.items()},
        "time_ms": f"{ms:.6g}" if math.isfinite(ms) else "", "valid": int(math.isfinite(ms)),
    }  # fmt: skip


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def compile_times(configs: list[triton.Config], deadline: float) -> list[float]:
    """Of as many as the time allows; at least one."""
    small = Matmul(512, 512, 512)

    def attempt(config: triton.Config) -> None:
        with contextlib.suppress(triton.TritonError, RuntimeError):
            small.launch(config)

    found: list[float] = []
    for config in configs:
        if not found or time.perf_counter() < deadline:
            found.append(seconds(partial(attempt, config)))
    return found


def attempts(items: Iterable[Any], one: Callable[[Any], None], deadline: float) -> Iterator[dict[str, str]]:
    """Do one thing with each item until the deadline; yields after each what has failed or was left out, and why."""
    lost: dict[str, str] = {}
    for item in items:
        if time.perf_counter() > deadline:
            lost[str(item)] = "out of time"
        else:
            try:
                one(item)
            except Exception as e:  # the next one may well work
                lost[str(item)] = f"{type(e).__name__}: {e}"
        if str(item) in lost:
            print(f"{item}: {lost[str(item)]}")
        yield lost


def triton_section(arch: carver.Arch, deadline: float, keep: Keep, topk: int = 5) -> None:
    configs = own_list()
    now = time.perf_counter()
    compile_s = compile_times(configs, now + 0.5 * (deadline - now))
    configs = configs[: len(compile_s)]
    place = {id(config): i for i, config in enumerate(configs)}
    prune = carver.triton_pruner(lambda M, N, K: carver.MatmulTemplate(M, N, K).with_arch(arch), topk=topk)
    prune(configs, dict(M=768, N=768, K=768))  # the first query of a process builds the space
    rows: list[dict[str, Any]] = []
    table: list[Row] = []

    def one(sizes: tuple[int, int, int]) -> None:
        run = Matmul(*sizes)
        run.launch(configs[0])
        error = (run.c - run.a @ run.b).abs().max().item()
        times, bench_s = [], []
        for config, compiling_s in zip(configs, compile_s, strict=True):
            start = time.perf_counter()
            times.append(run.ms(config))
            bench_s.append(time.perf_counter() - start)
            notes = {"note.compile_s": f"{compiling_s:.3f}", "note.bench_s": f"{bench_s[-1]:.3f}"}
            table.append(timed(arch, sizes, config, times[-1]) | notes)
        start = time.perf_counter()
        kept = [place[id(c)] for c in prune(configs, dict(zip(("M", "N", "K"), sizes, strict=True)))]
        model_s = time.perf_counter() - start
        full, pruned = min(range(len(configs)), key=times.__getitem__), min(kept, key=times.__getitem__)
        again: dict[int, list[float]] = {full: [], pruned: []}
        for _ in range(5):
            for i, repeated in again.items():
                repeated.append(run.ms(configs[i], rep=60))
        best = {i: statistics.median(t) for i, t in again.items()}
        full_s = sum(compile_s) + sum(bench_s)
        pruned_s = model_s + sum(compile_s[i] + bench_s[i] for i in kept)
        rows.append({
            "shape": sizes, "max_error": error, "full_ms": best[full], "pruned_ms": best[pruned],
            "speed_share": min(1.0, best[full] / best[pruned]), "full_tuning_s": full_s, "pruned_tuning_s": pruned_s,
            "time_share": pruned_s / full_s, "model_s": model_s, "kept": [configs[i].all_kwargs() for i in kept],
            "winner": configs[full].all_kwargs(), "failed": sum(t == float("inf") for t in times),
        })  # fmt: skip
        print(f"{sizes}: {rows[-1]['speed_share']:.3f} of the speed in {rows[-1]['time_share']:.3f} of the time")

    for lost in attempts(SHAPES, one, deadline):
        means = {
            "speed_share": statistics.geometric_mean(r["speed_share"] for r in rows),
            "time_share": sum(r["pruned_tuning_s"] for r in rows) / sum(r["full_tuning_s"] for r in rows),
        } if rows else {}  # fmt: skip
        keep({"configs": len(configs), "topk": topk, "rows": rows, "lost": lost, **means}, table)


class MLP(torch.nn.Module):
    """The gated MLP of Llama-3-8B."""

    def __init__(self, hidden: int = 4096, inner: int = 14336) -> None:
        super().__init__()
        like = {"bias": False, "device": "cuda", "dtype": torch.bfloat16}
        self.gate, self.up = torch.nn.Linear(hidden, inner, **like), torch.nn.Linear(hidden, inner, **like)
        self.down = torch.nn.Linear(inner, hidden, **like)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))
        return out


def inductor_section(arch: carver.Arch, deadline: float, keep: Keep, topk: int = 5) -> None:
    model = MLP().eval()
    start_compilers()
    rows = []

    def one(batch: int) -> None:
        x = torch.randn(batch, 4096, device="cuda", dtype=torch.bfloat16)
        row: dict[str, Any] = {"batch": batch}
        with torch.no_grad():
            for name in ("inductor", "carver"):
                handler = inductor.tuned(arch, topk) if name == "carver" else contextlib.nullcontext()
                with nothing_kept(), handler as log:
                    compiled = torch.compile(model, mode="max-autotune")
                    row[f"{name}_compile_s"] = seconds(partial(compiled, x))
                    for _ in range(3):
                        compiled(x)
                    times = [triton.testing.do_bench(partial(compiled, x), warmup=25, rep=100) for _ in range(3)]
                    row[f"{name}_ms"] = statistics.median(times)
                    error = (compiled(x).float() - model(x).float()).abs().max() / model(x).float().abs().max()
                    row[f"{name}_error"] = error.item()
                    if log is not None:
                        row["lists"] = [vars(r) for r in log.log]
        rows.append(row)
        print(f"batch {batch}: {row['inductor_ms']:.4f} ms after {row['inductor_compile_s']:.1f} s, with carver "
              f"{row['carver_ms']:.4f} ms after {row['carver_compile_s']:.1f} s")  # fmt: skip

    for lost in attempts(BATCHES, one, deadline):
        keep({"topk": topk, "torch": torch.__version__, "rows": rows, "lost": lost}, [])


def portfolio_section(arch: carver.Arch, deadline: float, keep: Keep) -> None:
    op = carver.MatmulTemplate(4096, 4096, 4096).with_arch(arch)
    found = op.portfolio(M=range(1, 8193), k=4, backend="triton")
    print(found)
    timings: list[tuple[int, dict[str, int], float]] = []
    table: list[Row] = []
    listed = own_list()
    now = time.perf_counter()
    listed = listed[: len(compile_times(listed, now + 0.5 * (deadline - now)))]

    def one(m: int) -> None:
        run = Matmul(m, 4096, 4096)
        problem = at(op.problem, "m", m)
        hints = [found.hint(m), *first([problem], arch, 10, "triton", lambda hint: hint.split_k == 1)[0]]
        every = [*triton_configs(hints, only=KEYS), *listed]
        for c in {tuple(sorted(c.all_kwargs().items())): c for c in every}.values():
            if time.perf_counter() < deadline:
                ms = run.ms(c, rep=20)
                config = {**c.kwargs, "num_warps": c.num_warps, "num_stages": c.num_stages, "SPLIT_K": 1}
                timings.append((m, config, ms * 1e-3))
                table.append(timed(arch, run.sizes, c, ms))

    for lost in attempts(SIZES, one, deadline):
        said: dict[str, Any] = {"portfolio": found.to_dict(), "predicted_loss": found.loss, "lost": lost}
        with contextlib.suppress(ConfigError):  # nothing was measured that the portfolio picks
            losses = found.measured(t for t in timings if t[2] < float("inf"))
            mean = statistics.geometric_mean(1 + loss for loss in losses.values()) - 1
            said |= {"measured_loss": losses, "mean": mean}
            print("measured loss", {m: round(loss, 3) for m, loss in losses.items()}, f"mean {mean:.3f}")
        keep(said, table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="auto")
    parser.add_argument("--out", type=Path, default=Path("feed.json"))
    parser.add_argument("--only", nargs="+", choices=["triton", "inductor", "portfolio"])
    parser.add_argument("--seconds", type=float, default=345.0)
    given = parser.parse_args()
    arch = carver.CUDA() if given.arch == "auto" else carver.load_arch(given.arch)
    start = time.perf_counter()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "arch": arch.name, "triton": triton.__version__}
    sections = {"triton": triton_section, "inductor": inductor_section, "portfolio": portfolio_section}
    chosen = [name for name in sections if given.only is None or name in given.only]
    used = 0.0
    for name in chosen:
        used += SHARES[name] / sum(SHARES[each] for each in chosen)

        def keep(so_far: dict[str, Any], table: list[Row], name: str = name) -> None:
            found[name] = {**so_far, "section_s": time.perf_counter() - start}
            given.out.write_text(json.dumps(found, indent=1))
            if table:
                with given.out.with_name(f"{given.out.stem}_{name}.csv").open("w", newline="") as file:
                    writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(table)

        try:
            sections[name](arch, start + used * given.seconds, keep)
        except Exception as e:  # the next section may well work
            keep({**found.get(name, {}), "failed": f"{type(e).__name__}: {e}"}, [])
        print(f"{name}: done {time.perf_counter() - start:.0f} s after the start")


if __name__ == "__main__":
    main()
