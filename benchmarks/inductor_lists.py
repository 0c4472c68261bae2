"""Inductor's exhaustive list of a product, whole, and gradients of flex attention, on the GPU of this machine.

    python benchmarks/inductor_lists.py products|gradients --out FILE.jsonl [--only 0 1] [--limit 240]

Each product by Triton's kernels alone: by Inductor's default list, carver's two, the first 20 by carver of its
exhaustive list, and that list whole. Each attention, timed with its gradients: by Inductor's default lists and by the
first two that carver takes of its exhaustive ones. A row for each way: seconds of the first call with nothing kept on
disk, and of later ones the median of seven timings with L2 cleared. Each problem has a process of its own, which ends
when `--limit` seconds are up; what it had measured stays. Needs PyTorch 2.10 or newer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

PRODUCTS = [(16, 8192, 2048), (64, 28672, 4096), (512, 2048, 16384)]
"""M, N, K in bf16: 375, 1,125 and 1,875 entries of the exhaustive list, whose tiles have at most M rows."""
GRADIENTS = [
    (2, 16, 2048, 128, "causal"), (1, 32, 4096, 64, "window"), (4, 8, 4096, 128, "alibi"), (2, 12, 3000, 64, "causal"),
    (1, 16, 8192, 64, "full"),
]  # fmt: skip
"""Batch, heads, length, width and mask, in bf16."""
WINDOW = 1024


def attention(batch: int, heads: int, length: int, width: int, mask: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    slopes = torch.exp2(-8 * (torch.arange(heads, device="cuda") + 1) / heads)
    kept = {"causal": lambda b, h, q, k: q >= k, "window": lambda b, h, q, k: (q >= k) & (q - k < WINDOW)}
    blocks = create_block_mask(kept[mask], None, None, length, length) if mask in kept else None
    score = (lambda s, b, h, q, k: s + slopes[h] * (k - q)) if mask == "alibi" else None
    qkv = tuple(
        torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    return lambda q, k, v: flex_attention(q, k, v, score_mod=score, block_mask=blocks), qkv


def product(rows: int, columns: int, depth: int) -> tuple[Any, tuple[Any, ...]]:
    import torch

    x, y = (torch.randn(*s, device="cuda", dtype=torch.bfloat16) for s in ((rows, depth), (depth, columns)))
    return lambda x, y: x @ y, (x, y * depth**-0.5)


def called(model: Any, inputs: tuple[Any, ...]) -> Any:
    """What a model gives, or the gradients of inputs that ask for them."""
    import torch

    with torch.set_grad_enabled(inputs[0].requires_grad):
        out = model(*inputs)
        return torch.stack(torch.autograd.grad(out, inputs, out.detach())) if inputs[0].requires_grad else out


def ways(kind: str) -> dict[str, Callable[[], Any]]:
    from torch._inductor import config

    import carver
    from carver.export import inductor

    arch = carver.CUDA()

    @contextlib.contextmanager
    def of_all() -> Any:
        with inductor.tuned(arch), everything():
            yield

    def everything() -> Any:
        return config.patch(max_autotune_gemm_search_space="EXHAUSTIVE")

    short = {"inductor": contextlib.nullcontext, "carver": lambda: inductor.tuned(arch)}
    return short if kind == "gradients" else {**short, "carver of all": of_all, "exhaustive": everything}


def one(kind: str, place: int, out: Path) -> None:
    import torch
    from frame import queued
    from torch._inductor import config, select_algorithm

    what = (PRODUCTS if kind == "products" else GRADIENTS)[place]
    torch.manual_seed(0)
    model, inputs = product(*what) if kind == "products" else attention(*what)  # type: ignore[arg-type,call-arg]
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(
        "os.environ", TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=f"{folder}/triton"
    ):  # fmt: skip
        with config.patch(force_disable_caches=True):  # the pool of compilers starts, which the first way would pay for
            torch.compile(lambda x: x @ x.T + 1, mode="max-autotune-no-cudagraphs")(torch.randn(256, 256).cuda())
        right = called(model if kind == "products" else torch.compile(model), inputs).float()
        for way, settings in ways(kind).items():
            lists: list[Any] = []
            select_algorithm.clear_feedback_savers()
            select_algorithm.add_feedback_saver(lambda timings, name, *_, told=lists: told.append(
                [name, len(timings), min(timings.values(), default=None)]))  # fmt: skip
            torch._dynamo.reset()
            row: dict[str, Any] = {kind: what, "way": way, "torch": torch.__version__}
            gemm = {"max_autotune_gemm_backends": "TRITON"} if kind == "products" else {}
            with config.patch(force_disable_caches=True, **gemm), settings():
                compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")
                began = time.perf_counter()
                found = called(compiled, inputs).float()
                torch.cuda.synchronize()
                row["compile_s"] = time.perf_counter() - began
                times = [queued(lambda: called(compiled, inputs))[0] for _ in range(7)]  # noqa: B023
            row |= {"ms": statistics.median(times), "times_ms": times, "lists": lists,
                    "error": ((found - right).abs().max() / right.abs().max()).item(),
                    "gpu": torch.cuda.get_device_name()}  # fmt: skip
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{what} {way}: {row['compile_s']:.1f} s, {row['ms']:.4f} ms, {[each[:2] for each in lists]}",
                  flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["products", "gradients"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", type=int, nargs="+", default=[], help="places in their list; all by default")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for all")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        one(asked.kind, asked.one, asked.out)
        return
    until = time.monotonic() + asked.limit
    for place in asked.only or range(len(PRODUCTS if asked.kind == "products" else GRADIENTS)):
        command = [sys.executable, __file__, asked.kind, "--out", str(asked.out), "--one", str(place)]
        try:
            subprocess.run(command, timeout=max(until - time.monotonic(), 1.0), check=False)
        except subprocess.TimeoutExpired:
            print(f"{asked.kind} {place}: not ended in time", flush=True)
            return


if __name__ == "__main__":
    main()
