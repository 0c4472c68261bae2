"""torch.compile(mode="max-autotune") of whole decoder blocks on the GPU of this machine, with carver's handler or not.

    python benchmarks/inductor_blocks.py --out blocks.jsonl [--tokens 16 1024 4096] [--topk 5] [--arms library]

One row for each block and number of tokens: seconds of the first call and milliseconds of one run of both, replayed as
a CUDA graph, which that mode does by itself; the error against the block that is not compiled; for each list of
candidates what Inductor's own timing said of the fastest. Nothing that either keeps on disk is used. `--products 10`
compiles single products by Triton's kernels alone; `--arms` may then name Inductor's exhaustive list, whole
("exhaustive") or the first 20 of it by carver ("carver of all"). `--attentions 16` does so for flex attention with four
masks; three of them are timed together with their gradients. Needs PyTorch 2.10 or newer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor.config
import triton
from torch import Tensor, nn
from torch._inductor import select_algorithm
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from lists import queued  # noqa: E402

import carver  # noqa: E402
from carver.arch.descriptor import Arch  # noqa: E402
from carver.export import inductor  # noqa: E402

BLOCKS: dict[str, dict[str, Any]] = {
    "llama_3_8b": {"hidden": 4096, "inner": 14336, "heads": 32, "kv_heads": 8, "bias": False},
    "qwen_2_5_7b": {"hidden": 3584, "inner": 18944, "heads": 28, "kv_heads": 4, "bias": True},
}
HEAD = 128
FASTEST = 5
"""Candidates of a list that are written down."""


class Block(nn.Module):
    """Attention and a gated MLP, each behind an RMS norm; rotary positions, grouped key and value heads."""

    def __init__(self, hidden: int, inner: int, heads: int, kv_heads: int, bias: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.q = nn.Linear(hidden, heads * HEAD, bias)
        self.k, self.v = (nn.Linear(hidden, kv_heads * HEAD, bias) for _ in range(2))
        self.o = nn.Linear(heads * HEAD, hidden, False)
        self.gate, self.up = (nn.Linear(hidden, inner, False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, False)
        self.before, self.between = nn.RMSNorm(hidden, 1e-5), nn.RMSNorm(hidden, 1e-5)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = self.before(x)
        q, k, v = (f(y).view(len(x), -1, HEAD).transpose(0, 1) for f in (self.q, self.k, self.v))
        q, k = (z * cos + torch.cat((-z[..., HEAD // 2 :], z[..., : HEAD // 2]), -1) * sin for z in (q, k))
        a = functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)
        x = x + self.o(a[0].transpose(0, 1).reshape(len(x), -1))
        y = self.between(x)
        out: Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return out


PRODUCTS = [
    (8192, 1024, 4096), (256, 4096, 4096), (4096, 4096, 4096), (16, 8192, 2048), (2048, 11008, 2048),
    (1024, 1000, 3000), (64, 28672, 4096), (8192, 512, 512), (512, 2048, 16384), (3000, 3000, 3000),
]  # fmt: skip
"""M, N, K of `--products`, in bf16."""


ATTENTIONS = [
    (1, 32, 4096, 128, "causal", False), (4, 16, 1024, 64, "full", False), (1, 32, 8192, 128, "window", False),
    (2, 16, 2048, 128, "causal", True), (8, 16, 512, 128, "alibi", False), (2, 12, 3000, 64, "causal", False),
    (16, 12, 1024, 64, "alibi", True), (1, 16, 4096, 256, "full", False), (1, 24, 16384, 64, "window", False),
    (1, 32, 4096, 64, "window", True), (4, 8, 4096, 128, "alibi", False), (8, 32, 1024, 128, "window", False),
    (1, 8, 32768, 128, "window", False), (32, 8, 256, 64, "full", False), (2, 20, 5000, 64, "window", False),
    (1, 16, 8192, 256, "causal", False),
]  # fmt: skip
"""Batch, heads, length, width and mask of `--attentions`, in bf16; and whether gradients are timed too."""
WINDOW = 1024


class Attention(nn.Module):
    def __init__(self, mask: str, heads: int, length: int) -> None:
        super().__init__()
        slopes = torch.exp2(-8 * (torch.arange(heads, device="cuda") + 1) / heads)
        kept = {"causal": lambda b, h, q, k: q >= k, "window": lambda b, h, q, k: (q >= k) & (q - k < WINDOW)}
        self.mask = create_block_mask(kept[mask], None, None, length, length) if mask in kept else None
        self.score = (lambda s, b, h, q, k: s + slopes[h] * (k - q)) if mask == "alibi" else None

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = flex_attention(q, k, v, score_mod=self.score, block_mask=self.mask)
        return out


class Product(nn.Module):
    def __init__(self, columns: int, depth: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(depth, columns) * depth**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


@contextlib.contextmanager
def nothing_kept() -> Iterator[None]:
    """Neither a compiled graph nor a tuning result of before."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,  # compilers may still write there
        torch._inductor.config.patch(force_disable_caches=True),
        mock.patch.dict("os.environ", TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=f"{folder}/triton"),
    ):
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()


def start_compilers() -> None:
    """Inductor's pool of them, which the first arm would pay for."""
    with nothing_kept():
        torch.compile(lambda x: x @ x.T + 1, mode="max-autotune")(torch.randn(256, 256, device="cuda"))


def seen(into: list[Any]) -> Any:
    """Takes what Inductor's timing of a list says."""

    def save(timings: dict[Any, float], name: str, nodes: Any, *_: Any) -> None:
        fastest = sorted(timings.items(), key=lambda item: item[1])[:FASTEST]
        sizes = [[str(n) for n in node.get_size()] for node in nodes]
        said = [[ms, str(getattr(c, "description", "") or c.name)] for c, ms in fastest]
        into.append([name, sizes, len(timings), said])

    return save


def called(model: Any, inputs: tuple[Tensor, ...]) -> Tensor:
    """What a model gives, or the gradients of inputs that ask for them."""
    with torch.set_grad_enabled(inputs[0].requires_grad):
        out: Tensor = model(*inputs)
        return torch.stack(torch.autograd.grad(out, inputs, out.detach())) if inputs[0].requires_grad else out


def arm(model: nn.Module, inputs: tuple[Tensor, ...], handler: Any) -> dict[str, Any]:
    lists: list[Any] = []
    select_algorithm.clear_feedback_savers()
    select_algorithm.add_feedback_saver(seen(lists))
    mode = "max-autotune" if isinstance(model, Block) else "max-autotune-no-cudagraphs"  # which would copy the input
    with nothing_kept(), handler as log:
        compiled = torch.compile(model, mode=mode)
        began = time.perf_counter()
        called(compiled, inputs)
        torch.cuda.synchronize()
        compile_s = time.perf_counter() - began
        for _ in range(4):
            called(compiled, inputs)
        if isinstance(model, Block):
            times = [triton.testing.do_bench(lambda: called(compiled, inputs), warmup=20, rep=80) for _ in range(5)]
        else:
            times = [queued(lambda: called(compiled, inputs), [0.5])[0] for _ in range(7)]
        plain = torch.compile(model) if isinstance(model, Attention) else model  # it has no other fused kernel
        right, found = called(plain, inputs).float(), called(compiled, inputs).float()
        error = ((found - right).abs().max() / right.abs().max()).item()
        kept = [each.kept for each in getattr(log, "log", ()) if each.kept]
    return {"compile_s": compile_s, "ms": statistics.median(times), "times_ms": times, "error": error, "lists": lists,
            "kept": kept}  # fmt: skip


def settings(**own: str) -> Any:
    return torch._inductor.config.patch(**{f"max_autotune_gemm_{name}": value for name, value in own.items()})


@contextlib.contextmanager
def of_all(arch: Arch, topk: int) -> Iterator[Any]:
    with inductor.tuned(arch, topk) as handler, everything():
        yield handler


def everything() -> Any:
    """Inductor's exhaustive lists."""
    both = {"max_autotune_gemm_search_space": "EXHAUSTIVE", "max_autotune_flex_search_space": "EXHAUSTIVE"}
    return torch._inductor.config.patch(both)


ARMS: dict[str, Callable[[Arch, int], Any]] = {
    "inductor": lambda arch, topk: contextlib.nullcontext(),
    "carver": inductor.tuned,
    "library": lambda arch, topk: settings(backends="ATEN"),
    "carver of all": of_all,
    "exhaustive": lambda arch, topk: everything(),
}
"""How lists are made; "library" has none, which shows what compiling takes without them."""


def subjects(args: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Any, tuple[Tensor, ...]]]:
    """What is compiled, with the entries of its row, and its inputs."""
    for rows, columns, depth in PRODUCTS[args.skip : args.products]:
        x = torch.randn(rows, depth, device="cuda", dtype=torch.bfloat16)
        yield {"product": [rows, columns, depth]}, Product(columns, depth).to("cuda", torch.bfloat16), (x,)
    for batch, heads, length, width, mask, gradients in ATTENTIONS[args.skip : args.attentions]:
        q, k, v = (
            torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16, requires_grad=gradients)
            for _ in range(3)
        )
        what = {"attention": [batch, heads, length, width], "mask": mask, "gradients": gradients}
        yield what, Attention(mask, heads, length), (q, k, v)
    for tokens in [] if args.products or args.attentions else args.tokens:
        for name in args.blocks:
            torch.manual_seed(0)
            model = Block(**BLOCKS[name]).to("cuda", torch.bfloat16).eval()
            x = torch.randn(tokens, BLOCKS[name]["hidden"], device="cuda", dtype=torch.bfloat16)
            angles = torch.outer(torch.arange(tokens), 10000.0 ** -(torch.arange(HEAD) % (HEAD // 2) * 2 / HEAD)).cuda()
            yield {"block": name, "tokens": tokens}, model, (x, angles.cos().bfloat16(), angles.sin().bfloat16())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 1024, 4096])
    parser.add_argument("--blocks", nargs="+", default=list(BLOCKS), choices=list(BLOCKS))
    parser.add_argument("--products", type=int, default=0, help="so many, in place of blocks")
    parser.add_argument("--attentions", type=int, default=0, help="so many, in place of blocks")
    parser.add_argument("--skip", type=int, default=0, help="so many of these, which another process does")
    parser.add_argument("--topk", type=int, default=2)
    parser.add_argument("--arms", nargs="+", default=["inductor", "carver"], choices=list(ARMS))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which nothing is compiled")
    args = parser.parse_args()
    began, arch = time.monotonic(), carver.CUDA()
    start_compilers()
    print(f"compilers start {time.monotonic() - began:.1f} s", flush=True)
    with settings(backends="TRITON") if args.products else contextlib.nullcontext():
        for what, model, inputs in subjects(args):
            row: dict[str, Any] = {**what, "torch": torch.__version__, "topk": args.topk}
            for which in args.arms:
                if time.monotonic() - began > args.limit:
                    print(f"{what}: {which} left out, {args.limit:.0f} s are up", flush=True)
                    break
                row[which] = found = arm(model, inputs, ARMS[which](arch, args.topk))
                print(f"{what} {which}: {found['compile_s']:.1f} s, {found['ms']:.4f} ms, error {found['error']:.1e}",
                      flush=True)  # fmt: skip
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
