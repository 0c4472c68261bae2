"""Every Triton kernel that a library launches, ranked for several devices on a machine without a GPU.

    python benchmarks/captured.py [--arch h100,mi300x] [--only NAME] [--out FILE.jsonl]

Calls operators of flash-linear-attention (`fla-core`), Liger and Conch (`conch-triton-kernels`), forward and backward,
products with weights of few bits of GemLite (`gemlite`), FlagGems (`gems.py`) and twenty more (`packages.py`), with
tensors of the CPU. A launch of a Triton kernel is not done but noted; its first configurations are then compiled for
each device, read and priced, and the products that the machine's code does are held against those of the program.
Printed are refusals, and kernels whose code multiplies far less or more than the program: small tiles that several
warps repeat do more, a compiler that leaves out what is masked does less. Needs torch, and of the libraries those that
are installed.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import frame
import gems
import packages
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction, KernelInterface

import carver
from carver.base.errors import CarverError
from carver.compiled.pool import Pool
from carver.compiled.triton import function_of
from carver.integrations.autotune import MOST_VALUES, Values

B, T, H, D = 2, 2048, 4, 128
CONFIGS = 2
"""Of each list that are ranked, from its ends on."""


class Launched(NamedTuple):
    kernel: Any
    args: Mapping[str, Any]
    grid: Any
    configs: list[Any]


LAUNCHED: dict[str, Launched] = {}


def noted(kernel: Any, grid: Any) -> Callable[..., None]:
    """In place of `kernel[grid]`: the first launch of each kernel is kept, none is done."""

    def launch(*args: Any, **options: Any) -> None:
        function = function_of(kernel)
        given = dict(zip(function.arg_names, args, strict=False))
        keywords = dict(options)
        given |= {name: options.pop(name) for name in keywords if name in function.arg_names}
        tuner = kernel
        while not isinstance(tuner, Autotuner | JITFunction):
            tuner = tuner.fn
        configs = pruned(tuner, args, keywords) if isinstance(tuner, Autotuner) else [options]
        if isinstance(tuner, Autotuner):
            tuner.best_config = configs[0]  # which some libraries read
        LAUNCHED.setdefault(f"{function.__module__}.{function.__name__}", Launched(kernel, given, grid, configs))

    return launch


def pruned(tuner: Autotuner, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    """Of the tuner's list what a launch with these arguments would time."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    return list(tuner.prune_configs(keywords))


class Absent:
    """What libraries ask a GPU that is not there."""

    utils = SimpleNamespace(get_device_properties=lambda _: {"multiprocessor_count": 132, "max_shared_mem": 232448})

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        return torch.device("cpu")


def pretend() -> None:
    triton.runtime.driver.set_active(Absent())
    KernelInterface.__getitem__ = JITFunction.__getitem__ = noted  # type: ignore[method-assign]
    held = SimpleNamespace(multi_processor_count=132, name="NVIDIA H200", major=9, minor=0)
    for name, value in (("get_device_name", "NVIDIA H200"), ("get_device_capability", (9, 0)), ("current_device", 0),
                        ("get_device_properties", held), ("device", nullcontext())):  # fmt: skip
        setattr(torch.cuda, name, lambda *_, value=value: value)


def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype, requires_grad=dtype.is_floating_point)


def calls(
    zeros: Callable[..., torch.Tensor] = zeros, sizes: tuple[int, int, int, int] = (B, T, H, D)
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Operators by name, each with what calls it, with tensors that `zeros` makes."""
    B, T, H, D = sizes

    def of(path: str, *shapes: Any, **options: Any) -> tuple[str, Callable[[], Any]]:
        def call() -> Any:
            module, _, name = path.rpartition(".")
            given = (zeros(*s) if isinstance(s, tuple) else s() if callable(s) else s for s in shapes)
            return getattr(importlib.import_module(module), name)(*given, **options)

        return path, call

    heads, row = (B, T, H, D), (4096, 4096)
    gate = lambda *shape: lambda: zeros(*shape, dtype=torch.float32)  # noqa: E731
    labels, weight = (lambda: torch.zeros(4096, dtype=torch.long)), (4096,)
    g, g_d, beta = gate(B, T, H), gate(*heads), (B, T, H)
    narrow, small = (B, T, H, 64), (B, T, H, 16)
    yield of("fla.ops.gla.chunk_gla", heads, heads, heads, g_d)
    yield of("fla.ops.gla.fused_recurrent_gla", heads, heads, heads, gk=zeros(*heads, dtype=torch.float32))
    yield of("fla.ops.simple_gla.parallel_simple_gla", heads, heads, heads, g)
    yield of("fla.ops.simple_gla.chunk_simple_gla", heads, heads, heads, g)
    yield of("fla.ops.gated_delta_rule.chunk_gated_delta_rule", heads, heads, heads, g, beta)
    yield of("fla.ops.delta_rule.chunk_delta_rule", heads, heads, heads, beta)
    yield of("fla.ops.delta_rule.fused_recurrent_delta_rule", heads, heads, heads, beta)
    yield of("fla.ops.retention.chunk_retention", heads, heads, heads)
    yield of("fla.ops.linear_attn.fused_chunk_linear_attn", heads, heads, heads)
    yield of("fla.ops.hgrn.chunk_hgrn", (B, T, 512), (B, T, 512))
    yield of("fla.ops.hgrn.fused_recurrent_hgrn", (B, T, 512), (B, T, 512))
    yield of("fla.ops.rwkv6.chunk_rwkv6", heads, heads, heads, g_d, (H, D))
    yield of("fla.ops.rwkv7.chunk_rwkv7", *[narrow] * 6)
    yield of("fla.ops.gsa.chunk_gsa", heads, heads, heads, narrow, narrow)
    yield of("fla.ops.based.parallel_based", small, small, heads)
    yield of("fla.ops.kda.chunk_kda", heads, heads, heads, g_d, beta)
    yield of("fla.ops.attn.parallel_attn", heads, heads, heads)
    yield of("fla.ops.forgetting_attn.parallel_forgetting_attn", heads, heads, heads, g)
    yield of("fla.ops.generalized_delta_rule.chunk_dplr_delta_rule", *[heads] * 6)
    yield of("fla.ops.comba.chunk_comba", heads, heads, heads, heads, g, beta)
    yield of("fla.ops.path_attn.parallel_path_attn", heads, heads, heads, g_d, g, g)
    yield of("fla.ops.mesa_net.chunk_mesa_net", heads, heads, heads, g, beta, gate(H, D))
    yield of("fla.ops.lightning_attn.chunk_lightning_attn", heads, heads, heads, 0, 12)
    yield of("fla.ops.gated_oja_rule.chunk_gated_oja_rule", heads, heads, heads, g_d, beta)
    twice = (B, 2 * T, H, D)
    yield of("fla.ops.gated_delta_product.chunk_gated_delta_product", heads, twice, twice, g, (B, 2 * T, H), 2)
    yield of("fla.ops.log_linear_attn.chunk_log_linear_attn", narrow, (B, T, 1, 64), narrow, g, gate(B, T, H, 13))
    yield of("fla.ops.stickbreaking_attn.parallel_stickbreaking_attn", heads, heads, heads)
    yield of("fla.ops.wall_attn.parallel_wall_attn", heads, heads, heads, g_d)
    yield of("fla.ops.parallax.parallel_parallax", *[heads] * 4)
    yield of("fla.ops.momentum_delta_rule.chunk_momentum_delta_rule", heads, heads, heads, g, g, heads, beta)
    yield of("fla.ops.gdn2.chunk_gdn2", heads, heads, heads, g_d, heads, heads)
    yield of("fla.ops.ttt.chunk_ttt_linear", narrow, narrow, narrow, (H, 64), (H, 64), (B, T, H, 1), chunk_size=16)
    yield of("fla.ops.rebased.parallel_rebased", small, small, heads)
    yield of("fla.ops.lightnet.chunk_lightnet", heads, heads, heads)
    yield of("fla.ops.abc.chunk_abc", heads, heads, heads, narrow)
    wide = (B, T, 16 * H, 64)
    yield of("fla.ops.nsa.parallel_nsa", wide, narrow, narrow, (B, T, 16 * H), (B, T, 16 * H), None, None, 16)
    for name, size in (("RMSNorm", 2048), ("LayerNorm", 2048), ("ShortConvolution", 1024)):
        def module(name: str = name, size: int = size) -> Any:
            made = getattr(importlib.import_module("fla.modules"), name)(*((size, 4) if "Conv" in name else (size,)))
            return made.to(torch.bfloat16)(zeros(B, T, size))

        yield f"fla.modules.{name}", module
    liger = "liger_kernel.transformers.functional.liger_"
    for name in ("geglu", "swiglu", "kl_div", "jsd", "tvd"):
        yield of(liger + name, row, row)
    for name in ("softmax", "sparsemax", "relu_squared"):
        yield of(liger + name, row)
    yield of(f"{liger}rms_norm", row, weight, 1e-6)
    yield of(f"{liger}layer_norm", row, weight, weight, 1e-6)
    yield of(f"{liger}fused_add_rms_norm", row, row, weight, 1e-6)
    yield of(f"{liger}group_norm", (32, 512, 256), (512,), (512,), 512, 8, 1e-6)
    yield of(f"{liger}cross_entropy", (4096, 32000), labels)
    yield of(f"{liger}rope", (2, 8, T, D), (2, 8, T, D), (1, T, D), (1, T, D))
    yield of(f"{liger}fused_neighborhood_attention", *[(2, 8, 1024, 64)] * 3, 7, 1)
    conch = "conch.kernels."
    yield of(f"{conch}activation.silu_and_mul.silu_and_mul_launcher", row, (4096, 8192))
    yield of(f"{conch}normalization.rms_norm.rms_norm_launcher", row, row, weight, 1e-6)
    yield of(f"{conch}vision.nms.nms_launcher", (4096, 4), weight, lambda: torch.zeros(row, dtype=torch.bool),
             lambda: torch.zeros(4096, dtype=torch.bool), 0.5)  # fmt: skip
    yield from few_bits()
    yield from gems.calls(zeros)
    yield from packages.calls(zeros)


LAYERS = {"qkv": (6144, 4096), "o": (4096, 4096), "up": (28672, 4096), "down": (4096, 14336)}
"""Outputs and inputs of Llama-3-8B's layers, joined where they read the same."""


def few_bits() -> Iterator[tuple[str, Callable[[], Any]]]:
    """GemLite's products of 1 to 512 rows of float16 with weights of 4 bits, in groups of 128, and of 8 bits."""

    def product(bits: int, rows: int, outputs: int, inputs: int) -> Any:
        gemlite = importlib.import_module("gemlite")
        gemlite.reset_config()  # of what it ships for some GPUs, in place of its lists
        x = torch.randn(rows, inputs).half()
        if bits == 8:
            layer = gemlite.helper.A16W8_INT8(device=x.device).from_weights((torch.randn(outputs, inputs) / 20).half())
        else:
            weights = torch.randint(0, 16, (outputs, inputs), dtype=torch.uint8)
            scales, zeros = (torch.full((outputs * inputs // 128, 1), n).half() for n in (0.01, 8.0))
            layer = gemlite.helper.A16Wn(device=x.device).from_weights(weights, scales, zeros, bits, 128)
        return layer(x)

    for bits, (name, sizes), rows in itertools.product((4, 8), LAYERS.items(), (1, 8, 64, 512)):
        yield f"gemlite.W{bits}A16.{name}.{rows}", functools.partial(product, bits, rows, *sizes)


def emptied(values: Iterable[Any]) -> None:
    """Free the memory of tensors of which no element will be read; what computes a grid often holds them as well."""
    for value in values:
        tensor = value if isinstance(value, torch.Tensor) else getattr(value, "_base", None)  # of a view of FlagGems
        if isinstance(tensor, torch.Tensor) and tensor.numel() > MOST_VALUES:
            tensor.untyped_storage().resize_(0)


def capture() -> dict[str, str]:
    """Calls all operators. Returns which of them launched each kernel first."""
    operators: dict[str, str] = {}
    missing: set[str | None] = set()
    for path, call in calls():
        if path.partition(".")[0] in missing:
            continue
        try:
            if path.startswith("flag_gems."):
                gems.pretend()
            out = call()
            out = out[0] if isinstance(out, tuple) else out
            if isinstance(out, torch.Tensor) and out.requires_grad:
                out.backward(torch.zeros_like(out))
        except Exception as error:  # of a library, or of torch in it; what was launched before is noted
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"{path}: {type(error).__name__}: {str(error)[:120]} ({Path(where.filename).name}:{where.lineno})")
            missing |= {error.name} if isinstance(error, ModuleNotFoundError) else set()
        new = LAUNCHED.keys() - operators.keys()
        operators |= dict.fromkeys(new, path)
        emptied(value for name in new for value in LAUNCHED[name].args.values())
    return operators


def held(hint: Any) -> dict[str, float]:
    """Products and loaded bytes of the machine's code over the program's."""
    facts = hint.facts
    spans = [*((loop.trips, loop.span) for loop in facts.loops), *facts.asides, (facts.working, facts.straight)]
    flops = sum(n * (sum(s.matrix.values()) * facts.warps + sum(s.block_matrix.values())) for n, s in spans)
    loads = sum(n * s.bytes.get(f"{kind} global", 0) for n, s in spans for kind in ("load", "copy")) * facts.warps
    asked = sum(a.program_bytes for a in facts.accesses if a.kind == "load" and a.path == "pointer")
    return {"ms": hint.predicted_ms} | ({"flops": flops / facts.dot_flops} if facts.dot_flops and flops else {}) | (
        {"loads": loads / asked} if asked else {}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="h100,mi300x")
    parser.add_argument("--only", default="", help="part of the name of an operator or kernel")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    pretend()
    operators = capture()
    ranked = refused = 0
    with Pool() as pool:
        for name, each in LAUNCHED.items():
            values = Values(each.args)
            for arch in options.arch.split(",") if options.only in f"{operators[name]} {name}" else ():
                row: dict[str, Any] = {"kernel": name, "arch": arch}
                began = time.perf_counter()
                try:
                    configs = each.configs[:: max(1, len(each.configs) // CONFIGS)][:CONFIGS]
                    ranking = carver.rank_kernel(
                        each.kernel, configs, args=each.args, grid=each.grid, arch=arch, values=values, pool=pool,
                        seconds=60, compile="all",
                    )  # fmt: skip
                    row["configs"] = [held(hint) for hint in ranking]
                    ranked += 1
                    odd = [c for c in row["configs"] if not 0.5 <= c.get("flops", 1) <= 12]
                    print(*([f"{name} {arch}: {odd}"] if odd else []), sep="\n", end="\n" if odd else "")
                except CarverError as error:
                    row["refused"] = f"{type(error).__name__}: {error}"[:300]
                    refused += 1
                    print(f"{name} {arch}: {row['refused']}")
                if options.out:
                    frame.write(options.out, row | {"seconds": time.perf_counter() - began})
    print(f"{len(LAUNCHED)} kernels: {ranked} ranked, {refused} refused")


if __name__ == "__main__":
    main()
