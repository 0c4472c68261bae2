"""What `carver.enable_triton` saves and costs in libraries as their wheels have them, on the GPU of this machine.

    python benchmarks/enable_triton.py --out FILE.jsonl [--only NAME,...] [--topk 0,1,3,5] [--shapes 3] [--limit 540]

Each case (an operator of flash-linear-attention, Liger-Kernel or SGLang, forward and backward, but for those that
have no backward pass or whose library refuses it with this Triton on a Hopper GPU) runs in its own process, caches
empty, and with --warm once more with the caches that it left: seconds of the first call of each shape, milliseconds
of later ones (median, CUDA events), peak memory of the GPU, and how far results are from those without carver. topk 0
is Triton's own tuner, and the rest are compared with it. A line of JSON is written for each as it ends. Needs
PyTorch, Triton, fla-core, liger-kernel and SGLang's wheel, of which the kernels named below are enough; inputs are
random.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

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


def mamba2(batch: int, seq: int, heads: int, dim: int) -> tuple[Call, list[Any]]:
    import torch
    from sglang.kernels.ops.mamba.triton_ops.ssd_combined import mamba_chunk_scan_combined

    x, dt = rand(batch, seq, heads, dim, grad=False), rand(batch, seq, heads, grad=False)
    b, c = rand(batch, seq, 1, 128, grad=False), rand(batch, seq, 1, 128, grad=False)
    a, bias = -torch.rand(heads, device="cuda"), torch.rand(heads, device="cuda")
    out = torch.empty_like(x)

    def call() -> Any:
        mamba_chunk_scan_combined(x, dt, a, b, c, 256, D=bias, dt_bias=bias, dt_softplus=True, out=out)
        return out

    return call, [x, dt, b, c]


def sparse_mla(tokens: int, heads: int, topk: int) -> tuple[Call, list[Any]]:
    import torch
    from sglang.kernels.ops.attention.dsa.triton_sparse_mla import _triton_sparse_mla_fwd_single as forward

    pages = 65536
    q, tail, kv = (rand(*s, grad=False) for s in ((tokens, heads, 512), (tokens, heads, 64), (pages, 1, 576)))
    chosen = torch.randint(0, pages, (tokens, topk), device="cuda", dtype=torch.int32)
    return lambda: forward(q, tail, kv, chosen, 576**-0.5), [q, tail, kv]


def rotary(tokens: int, heads: int, dim: int) -> tuple[Call, list[Any]]:
    from sglang.kernels.ops.diffusion.rope.rotary_triton import apply_rotary_embedding

    x, cos, sin = rand(tokens, heads, dim, grad=False), *(rand(tokens, dim // 2, grad=False) for _ in range(2))
    return lambda: apply_rotary_embedding(x, cos, sin), [x]


FORWARD = ("fla gated linear attention", "fla gated delta rule", "fla simple GLA", "SGLang Mamba-2",
           "SGLang sparse MLA", "SGLang rotary")  # fmt: skip
"""SGLang's have no backward pass, those of fla it refuses on Hopper with Triton 3.4 to 3.7.0."""
CASES: dict[str, tuple[Callable[..., tuple[Call, list[Any]]], tuple[tuple[int, ...], ...]]] = {
    "fla gated linear attention": (gla, ((2, 2048, 8, 128), (1, 8192, 4, 128), (8, 1024, 16, 64))),
    "fla gated delta rule": (gated_delta_rule, ((2, 2048, 8, 128), (1, 8192, 4, 128), (8, 1024, 16, 64))),
    "fla simple GLA": (simple_gla, ((2, 2048, 8, 128), (1, 8192, 4, 128), (8, 1024, 16, 64))),
    "fla gated RMS norm": (rms_norm_gated, ((65536, 128), (8192, 4096), (2048, 8192))),
    "fla layer norm": (layer_norm, ((65536, 512), (8192, 4096), (2048, 8192))),
    "liger DyT": (dyt, ((8192, 4096), (2048, 8192), (16384, 2048))),
    "liger SwiGLU MLP": (swiglu_mlp, ((2048, 2048, 5632), (4096, 4096, 4096), (1024, 4096, 1408))),
    "SGLang Mamba-2": (mamba2, ((1, 4096, 64, 64), (4, 2048, 32, 64), (1, 16384, 24, 64))),
    "SGLang sparse MLA": (sparse_mla, ((4096, 16, 2048), (1024, 64, 2048), (8192, 16, 512))),
    "SGLang rotary": (rotary, ((16384, 24, 128), (32768, 40, 128), (4096, 16, 64))),
}
MODULES = {
    "fla gated linear attention": "fla.ops.gla", "fla gated delta rule": "fla.ops.gated_delta_rule",
    "fla simple GLA": "fla.ops.simple_gla", "fla gated RMS norm": "fla.modules.norm.fused_norm_gate",
    "fla layer norm": "fla.modules.norm.layernorm", "liger DyT": "liger_kernel.ops.dyt",
    "liger SwiGLU MLP": "liger_kernel.ops.mlp",
    "SGLang Mamba-2": "sglang.kernels.ops.mamba.triton_ops.ssd_combined",
    "SGLang sparse MLA": "sglang.kernels.ops.attention.dsa.triton_sparse_mla",
    "SGLang rotary": "sglang.kernels.ops.diffusion.rope.rotary_triton",
}  # fmt: skip
"""Imported by all processes at once, before the first of them has its turn."""


def one(name: str, topk: int, count: int, warm: bool, out: Path) -> None:
    """One case in this process, so many of its shapes."""
    import torch
    import triton  # noqa: F401

    import carver

    make, shapes = CASES[name]
    importlib.import_module(MODULES[name])
    sys.stdin.readline()
    log = carver.enable_triton(topk) if topk else None
    torch.ones(1, device="cuda").sum().item()
    rows = []
    for shape in shapes[:count]:
        torch.manual_seed(0)
        call, inputs = make(*shape)
        seen = 0 if log is None else len(log)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        began = time.perf_counter()
        y = call()
        torch.manual_seed(1)
        grads = torch.randn_like(y)
        if name not in FORWARD:
            y.backward(grads)
        torch.cuda.synchronize()
        first_s = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() - before
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
        entries = [] if log is None else list(log)[seen:]
        rows.append({
            "case": name, "shape": shape, "topk": topk, "warm": warm, "first_s": first_s,
            "later_ms": statistics.median(times), "peak_bytes": peak,
            "ranked": sum(not e.why for e in entries), "rank_s": sum(e.seconds for e in entries),
            "log": [[e.kernel, e.listed, e.kept, round(e.seconds, 3), e.why] for e in entries],
        })  # fmt: skip
        reference = Path(os.environ["REFERENCE"]) / f"{'-'.join(map(str, (name, *shape)))}.pt"
        if topk == 0 and not warm:
            torch.save(result, reference)
        elif reference.exists():
            want = torch.load(reference)
            far = max(float((a - b).norm() / (b.norm() + 1e-9)) for a, b in zip(result, want, strict=True))
            rows[-1]["differs"] = far
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        title = f"{name} {shape} topk {topk}{' warm' * warm}"
        print(f"{title}: first {first_s:.1f} s, later {rows[-1]['later_ms']:.3f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="parts of names, with commas")
    parser.add_argument("--topk", default="0,1,3,5")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds for all")
    parser.add_argument("--shapes", type=int, default=3, help="of each case, the first ones")
    parser.add_argument("--warm", action="store_true", help="every case once more, with the caches that it left")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, int(options.topk), options.shapes, options.warm, options.out)
        return
    missing = [name for name in ("fla", "liger_kernel", "sglang") if importlib.util.find_spec(name) is None]
    print(f"not installed: {', '.join(missing)}" if missing else "all libraries are here", flush=True)
    until = time.monotonic() + options.limit
    wanted = [name for name in CASES if not options.only or any(word in name for word in options.only.split(","))]
    runs = [(name, topk, warm) for name in wanted for topk in options.topk.split(",")
            for warm in ((False, True) if options.warm else (False,))]  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        started = [start(*run, Path(home), options) for run in runs]
        for process, run in zip(started, runs, strict=True):
            try:
                process.communicate("go\n", timeout=max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                print(f"{run}: out of time", flush=True)
                process.kill()
            if process.returncode:
                print(f"{run}: ended with {process.returncode}", flush=True)


def start(name: str, topk: str, warm: bool, home: Path, options: argparse.Namespace) -> subprocess.Popen[str]:
    """A process that imports what it needs, and waits for its turn."""
    caches = home / f"{name}-{topk}"
    folders = {"TRITON_CACHE_DIR": f"{caches}/triton", "CARVER_CACHE_DIR": f"{caches}/carver", "REFERENCE": str(home)}
    command = [sys.executable, str(Path(__file__).resolve()), "--out", str(options.out.resolve()), "--one", name]
    command += ["--topk", topk, "--shapes", str(options.shapes), *(["--warm"] if warm else [])]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=os.environ | folders)


if __name__ == "__main__":
    main()
