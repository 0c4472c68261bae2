"""Measure Triton's flash attention on the GPU of this machine: shared memory and best tile against the predicted.

    python benchmarks/attention.py --out attention.csv [--budget 20] [--device h200]

For each problem: carver's first ten, then every other tile that its rules allow, as far as `--budget` goes, each result
checked against PyTorch's attention; and a few tiles that the rules hold too large. All are compiled ahead into Triton's
cache, one process a core. Writes a table that `carver evaluate FILE` reads, with the shared memory, registers and
spills that the compiler reports, and prints what the first and the best of ten lose. Needs PyTorch and Triton.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import carver

TILES = list(itertools.product((32, 64, 128, 256), (16, 32, 64, 128), (4, 8), (2, 3, 4)))
PROBLEMS = [
    {"batch": b, "heads": 32, "kv_heads": kv, "seq": seq, "seq_kv": seq, "head_dim": d, "causal": causal}
    for (b, seq), kv, d, causal in itertools.product(((16, 1024), (2, 8192)), (8, 32), (64, 128, 256), (False, True))
    if kv == 8 or d == 128
]


@triton.jit
def forward(  # type: ignore[no-untyped-def]
    q_at, k_at, v_at, o_at, scale, group, seq, seq_kv,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    rows, cols, depth = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    own = rows[:, None] * HEAD + depth[None, :]
    inside = rows[:, None] < seq
    q_head = head.to(tl.int64) * seq * HEAD
    kv_head = (head // group).to(tl.int64) * seq_kv * HEAD
    q = tl.load(q_at + q_head + own, mask=inside, other=0.0)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
    last = seq_kv
    if CAUSAL:
        last = tl.minimum(seq_kv, (block + 1) * BLOCK_M + seq_kv - seq)
    for start in range(0, last, BLOCK_N):
        key = start + cols
        k = tl.load(k_at + kv_head + key[None, :] * HEAD + depth[:, None], mask=key[None, :] < seq_kv, other=0.0)
        s = tl.dot(q, k) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] + seq_kv - seq >= key[None, :], s, -1.0e6)
        else:
            s = tl.where(key[None, :] < seq_kv, s, -1.0e6)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        v = tl.load(v_at + kv_head + key[:, None] * HEAD + depth[None, :], mask=key[:, None] < seq_kv, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = higher
    tl.store(o_at + q_head + own, (acc / total[:, None]).to(q.dtype), mask=inside)


def tensors(p: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    def draw(heads: int, rows: int) -> torch.Tensor:
        return torch.randn(p["batch"], heads, rows, p["head_dim"], device="cuda", dtype=torch.float16)

    return draw(p["heads"], p["seq"]), draw(p["kv_heads"], p["seq_kv"]), draw(p["kv_heads"], p["seq_kv"])


def arguments(p: dict[str, Any], c: dict[str, int]) -> tuple[tuple[float, ...], dict[str, int]]:
    """What a launch takes beside the tensors: the numbers, and the constants."""
    numbers = (p["head_dim"] ** -0.5 * 1.44269504, p["heads"] // p["kv_heads"], p["seq"], p["seq_kv"])
    return numbers, {"HEAD": p["head_dim"], "CAUSAL": p["causal"], **c}


def compiles(p: dict[str, Any], c: dict[str, int]) -> bool:
    """Compile into Triton's cache, where a launch with such arguments finds it, or fails as it does here."""
    numbers, constants = arguments(p, c)
    try:
        forward.warmup(*[torch.float16] * 4, *numbers, grid=(1,), **constants)
    except Exception:  # whatever Triton raises, the launch raises again, and `measure` records it
        return False
    return True


def compile_all(jobs: list[tuple[dict[str, Any], dict[str, int]]]) -> None:
    """Every kernel once; problems that differ in batch or length alone share theirs."""
    own = {(p["heads"] // p["kv_heads"], p["head_dim"], p["causal"], *c.values()): (p, c) for p, c in jobs}
    began = time.monotonic()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn")) as pool:
        done = sum(pool.map(compiles, *zip(*own.values(), strict=True)))
    print(f"{done} of {len(own)} kernels compiled in {time.monotonic() - began:.0f} s")


def measure(p: dict[str, Any], c: dict[str, int], operands: Any, expected: torch.Tensor) -> dict[str, Any]:
    """One row of the table: time, or none where the tile does not run, and what the compiler reports."""
    q, k, v = operands
    out = torch.empty_like(q)
    grid = (triton.cdiv(p["seq"], c["BLOCK_M"]), p["batch"] * p["heads"])
    numbers, constants = arguments(p, c)

    def run() -> Any:
        return forward[grid](q, k, v, out, *numbers, **constants)

    try:
        compiled = run()
        torch.cuda.synchronize()
    except (triton.TritonError, RuntimeError) as e:
        return {"time_ms": 0, "valid": 0, "note.why": f"{type(e).__name__}: {e}".splitlines()[0][:200]}
    error = float((out.float() - expected.float()).abs().max())
    row = {
        "note.smem_bytes": compiled.metadata.shared,
        "note.registers": compiled.n_regs,
        "note.spills": compiled.n_spills,
    }
    if error > 2e-2:
        return row | {"time_ms": 0, "valid": 0, "note.why": f"wrong by {error:.3g}"}
    ms = triton.testing.do_bench(run, warmup=10, rep=50, return_mode="median")
    return row | {"time_ms": ms, "valid": 1, "note.why": ""}


def chosen(op: Any) -> list[dict[str, int]]:
    """The first ten, then all other tiles: allowed ones in a fixed shuffle, those held too large last."""
    every = [dict(zip(("BLOCK_M", "BLOCK_N", "num_warps", "num_stages"), tile, strict=True)) for tile in TILES]
    ranking = op.rank(every)
    order = ranking.indices
    rest = sorted(order[10:], key=lambda i: i * 7919 % 104729)
    return [every[i] for i in (*order[:10], *rest[:30], *list(ranking.reasons)[:6], *rest[30:])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds a problem")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds after which no problem is begun")
    parser.add_argument("--device", help="descriptor; the GPU of this machine where not given")
    options = parser.parse_args()
    arch = carver.load_arch(options.device) if options.device else carver.CUDA("auto")
    rows: list[dict[str, Any]] = []
    began = time.monotonic()
    tiles = [chosen(carver.FlashAttentionTemplate(**p).with_arch(arch)) for p in PROBLEMS]
    compile_all([(p, c) for p, every in zip(PROBLEMS, tiles, strict=True) for c in every])
    for p, every in zip(PROBLEMS, tiles, strict=True):
        if time.monotonic() - began > options.limit:
            print(p, f"left out: {options.limit:.0f} s are up")
            continue
        head = {"operator": "attention", "arch": arch.name, "backend": "triton", **p, "in_dtype": "float16"}
        try:
            for row in measured(p, every, time.monotonic() + options.budget):
                rows.append(head | row)
        except (carver.CarverError, RuntimeError) as e:  # the next problem may well work
            print(p, f"failed: {type(e).__name__}: {e}")
        if not rows:
            continue
        columns = list(dict.fromkeys(name for row in rows for name in row))
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
    print(summary(rows))


def summary(rows: list[dict[str, Any]]) -> str:
    """Time of the first that ran, and of the best among the first ten, over that of the best of all."""
    first, ten = [], []
    for _, group in itertools.groupby(rows, key=lambda row: [row[name] for name in PROBLEMS[0]]):
        times = [row["time_ms"] if row["valid"] else math.inf for row in group]
        ran = [t for t in times if t < math.inf]
        if ran:
            first.append(ran[0] / min(ran))
            ten.append(min(times[:10]) / min(ran))
    if not first:
        return "nothing ran"
    one, best = statistics.geometric_mean(first), statistics.geometric_mean(ten)
    return f"{len(first)} problems: first / best {one:.3f}, best of ten / best {best:.3f} in the geometric mean"


def measured(p: dict[str, Any], tiles: list[dict[str, int]], end: float) -> Iterator[dict[str, Any]]:
    """The rows of one problem, until the time is up."""
    operands = tensors(p)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *operands, is_causal=p["causal"], enable_gqa=p["kv_heads"] < p["heads"]
    )
    tried, times = 0, []
    for c in tiles:
        if time.monotonic() > end:
            break
        row = measure(p, c, operands, expected)
        tried, times = tried + 1, times + [row["time_ms"]] * row["valid"]
        yield {f"config.{k}": v for k, v in c.items()} | row
    best, first = (min(times), times[0]) if times else (float("nan"), float("nan"))
    print(p, f"{len(times)} of {tried} ran, best {best:.4f} ms, first {first:.4f} ms")


if __name__ == "__main__":
    main()
