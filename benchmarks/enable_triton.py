"""What `carver.enable_triton` saves and costs in libraries as their wheels have them, on the GPU of this machine.

    python benchmarks/enable_triton.py --out FILE.jsonl [--limit 280] [--runs "SwiGLU:0,1,3 RMS:0,1,3 SwiGLU:1,3@2 ..."]
    python benchmarks/enable_triton.py --show FILE.jsonl

Each run is of the operators that have this word in their names (of flash-linear-attention and Liger-Kernel, forward and
backward, but for those that the library refuses on a Hopper GPU), once for each topk, where "@2" leaves the process two
cores. It has its own process and empty caches: seconds of the first call, milliseconds of later ones (median, CUDA
events), and how far results are from those without carver. topk 0 is Triton's own tuner, which the rest are compared
with. A line of JSON is written for each as it ends, the runs in their order. Needs PyTorch, Triton, fla-core and
liger-kernel; inputs are random.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import frame  # noqa: E402

Call = Callable[[], Any]
LATER = 15


def rand(*shape: int, scale: float = 1.0, grad: bool = True) -> Any:
    import torch

    x = (torch.randn(*shape, device="cuda", dtype=torch.float32) * scale).to(torch.bfloat16)
    return x.requires_grad_(grad)


def gates(*shape: int) -> Any:
    import torch

    return torch.nn.functional.logsigmoid(torch.randn(*shape, device="cuda")).requires_grad_(True)


def attention_like(batch: int, seq: int, heads: int, dim: int) -> list[Any]:
    import torch

    q, k, v = (rand(batch, seq, heads, dim) for _ in range(3))
    return [q, torch.nn.functional.normalize(k.float(), dim=-1).bfloat16().detach().requires_grad_(True), v]


def gla(batch: int, seq: int, heads: int, dim: int) -> tuple[Call, list[Any]]:
    from fla.ops.gla import chunk_gla

    inputs = [*attention_like(batch, seq, heads, dim), gates(batch, seq, heads, dim)]
    return lambda: chunk_gla(*inputs)[0], inputs


def simple_gla(batch: int, seq: int, heads: int, dim: int) -> tuple[Call, list[Any]]:
    from fla.ops.simple_gla import chunk_simple_gla

    inputs = [*attention_like(batch, seq, heads, dim), gates(batch, seq, heads)]
    return lambda: chunk_simple_gla(*inputs)[0], inputs


def gated_delta_rule(batch: int, seq: int, heads: int, dim: int) -> tuple[Call, list[Any]]:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    beta = rand(batch, seq, heads).detach().sigmoid().requires_grad_(True)
    inputs = [*attention_like(batch, seq, heads, dim), gates(batch, seq, heads), beta]
    return lambda: chunk_gated_delta_rule(*inputs)[0], inputs


def rms_norm_gated(rows: int, cols: int) -> tuple[Call, list[Any]]:
    from fla.modules.norm.fused_norm_gate import rms_norm_gated as norm

    inputs = [rand(rows, cols), rand(rows, cols), rand(cols)]
    return lambda: norm(*inputs, None), inputs


def layer_norm(rows: int, cols: int) -> tuple[Call, list[Any]]:
    from fla.modules.norm.layernorm import layer_norm as norm

    inputs = [rand(rows, cols), rand(cols), rand(cols)]
    return lambda: norm(*inputs), inputs


def dyt(rows: int, cols: int) -> tuple[Call, list[Any]]:
    import torch
    from liger_kernel.ops.dyt import LigerDyTFunction

    alpha = torch.tensor([0.5], device="cuda", dtype=torch.bfloat16, requires_grad=True)
    inputs = [rand(rows, cols), alpha, rand(cols), rand(cols)]
    return lambda: LigerDyTFunction.apply(*inputs), inputs


def swiglu_mlp(tokens: int, hidden: int, inner: int) -> tuple[Call, list[Any]]:
    from liger_kernel.ops.mlp import LigerMLPFunction

    inputs = [rand(1, tokens, hidden), rand(inner, hidden, scale=0.02), rand(inner, hidden, scale=0.02),
              rand(hidden, inner, scale=0.02)]  # fmt: skip
    return lambda: LigerMLPFunction.apply(*inputs), inputs


FORWARD = ("fla gated linear attention", "fla gated delta rule", "fla simple GLA")
"""Their backward passes the library refuses on Hopper with Triton 3.4 to 3.7.0."""
CASES: dict[str, tuple[Callable[..., tuple[Call, list[Any]]], str, tuple[int, ...]]] = {
    "fla gated linear attention": (gla, "fla.ops.gla", (2, 2048, 8, 128)),
    "fla gated delta rule": (gated_delta_rule, "fla.ops.gated_delta_rule", (2, 2048, 8, 128)),
    "fla simple GLA": (simple_gla, "fla.ops.simple_gla", (2, 2048, 8, 128)),
    "fla gated RMS norm": (rms_norm_gated, "fla.modules.norm.fused_norm_gate", (65536, 128)),
    "fla layer norm": (layer_norm, "fla.modules.norm.layernorm", (65536, 512)),
    "liger DyT": (dyt, "liger_kernel.ops.dyt", (8192, 4096)),
    "liger SwiGLU MLP": (swiglu_mlp, "liger_kernel.ops.mlp", (2048, 2048, 5632)),
}
RUNS = "SwiGLU:0,1,3 DyT:0,1,3 simple:0,1,3 RMS:0,1,3 delta:0,1,3 DyT:1,3@2 SwiGLU:1,3@2 layer:1,3,0"
READY, GO = "ready", "go"


def one(name: str, topk: int, cores: int, out: Path, home: Path) -> None:
    """One case in this process: it imports what it needs, says so, and waits for its turn."""
    import torch
    import triton  # noqa: F401

    import carver

    make, module, shape = CASES[name]
    log = carver.enable_triton(topk) if topk else []
    importlib.import_module(module)
    torch.manual_seed(0)
    call, inputs = make(*shape)
    warm = rand(64, 64)
    (warm @ warm).sum().backward()  # what PyTorch loads at its first matmul and its first backward pass is no tuner's
    torch.cuda.synchronize()
    print(READY, flush=True)
    sys.stdin.readline()
    left = sorted(os.sched_getaffinity(0))[:cores]
    for thread in Path("/proc/self/task").iterdir():  # PyTorch's of backward passes, too: it calls kernels
        os.sched_setaffinity(int(thread.name), left)
    began = time.perf_counter()
    y = call()
    torch.manual_seed(1)
    grads = torch.randn_like(y)
    if name not in FORWARD:
        y.backward(grads)
    torch.cuda.synchronize()
    first_s = time.perf_counter() - began
    result = [y.detach().float().cpu(), *(x.grad.float().cpu() for x in inputs if x.grad is not None)]
    times = []
    for _ in range(LATER):
        for x in inputs:
            x.grad = None
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(8_000_000)  # the queue is full before the first kernel starts: times are the GPU's
        start.record()
        again = call()
        if name not in FORWARD:
            again.backward(grads)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    row = {
        "case": name, "shape": shape, "topk": topk, "cores": len(left), "first_s": first_s,
        "later_ms": statistics.median(times), "rank_s": sum(e.seconds for e in log),
        "log": [[e.kernel, e.listed, e.kept, round(e.seconds, 3), e.why, str(dict(e.first))] for e in log],
    }  # fmt: skip
    reference = home / f"{name}.pt"
    if topk == 0:
        torch.save(result, reference)
    elif reference.exists():
        want = torch.load(reference)
        row["differs"] = max(float((a - b).norm() / (b.norm() + 1e-9)) for a, b in zip(result, want, strict=True))
    frame.write(out, row)
    print(f"{name} topk {topk} cores {row['cores']}: first {first_s:.1f} s, later {row['later_ms']:.3f} ms", flush=True)


def runs_of(text: str) -> list[tuple[str, int, int]]:
    """The case, the topk and the most cores of each run."""
    found = []
    for each in text.split():
        word, _, rest = each.partition(":")
        topks, _, cores = rest.partition("@")
        names = [name for name in CASES if word in name]
        found += [(name, int(topk), int(cores or 1 << 10)) for name in names for topk in topks.split(",")]
    return found


def measure(runs: list[tuple[str, int, int]], out: Path, until: float) -> None:
    with tempfile.TemporaryDirectory() as home:
        started = [start(*run, out, Path(home, str(i)), Path(home)) for i, run in enumerate(runs)]
        for process in started:  # nobody imports while another is timed
            process.stdout.readline()  # type: ignore[union-attr]
        for process, run in zip(started, runs, strict=True):
            try:
                said, _ = process.communicate(f"{GO}\n", timeout=max(until - time.monotonic(), 0.1))
                print(said, end="", flush=True)
            except subprocess.TimeoutExpired:
                print(f"{run}: out of time", flush=True)
                process.kill()
            if process.returncode:
                print(f"{run}: ended with {process.returncode}", flush=True)


def start(name: str, topk: int, cores: int, out: Path, caches: Path, home: Path) -> subprocess.Popen[str]:
    folders = {"TRITON_CACHE_DIR": f"{caches}/triton", "CARVER_CACHE_DIR": f"{caches}/carver"}
    command = [sys.executable, str(Path(__file__).resolve()), "--out", str(out.resolve())]
    return subprocess.Popen(
        [*command, "--one", json.dumps([name, topk, cores, str(home)])], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env=os.environ | folders,
    )  # fmt: skip


def show(file: Path) -> str:
    """Seconds and milliseconds, and over those of Triton's own tuner, whose compiler works on one core."""
    rows = list(frame.rows(file))
    own = {row["case"]: row for row in rows if row["topk"] == 0}
    lines: list[tuple[Any, ...]] = []
    for case in dict.fromkeys(row["case"] for row in rows):
        for row in (row for row in rows if row["case"] == case):
            over = [row[key] / own[case][key] if case in own else math.nan for key in ("first_s", "later_ms")]
            lines.append((case, row["topk"], row["cores"], row["first_s"], over[0], row["later_ms"], over[1]))
    alike: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for row in rows:
        if row["case"] in own:
            alike[row["topk"], row["cores"]].append((row, own[row["case"]]))
    for (topk, cores), each in alike.items():
        first_s, own_s = (sum(row["first_s"] for row in some) for some in zip(*each, strict=True))
        later = statistics.geometric_mean(row["later_ms"] / other["later_ms"] for row, other in each)
        lines.append((f"all {len(each)}", topk, cores, first_s, first_s / own_s, "", later))
    return frame.table(("case", "topk", "cores", "first s", "of Triton's", "later ms", "of Triton's"), lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--limit", type=float, default=280.0, help="seconds for all")
    parser.add_argument("--show", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.show:
        print(show(options.show))
    elif options.one:
        name, topk, cores, home = json.loads(options.one)
        one(name, topk, cores, options.out, Path(home))
    else:
        until = time.monotonic() + options.limit
        measure(runs_of(options.runs), options.out, until)
        print(show(options.out))


if __name__ == "__main__":
    main()
