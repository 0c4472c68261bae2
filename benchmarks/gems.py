"""Operators of FlagGems that have autotuned lists, with sizes of real models, for `captured.py` and `lists.py`.

Needs FlagGems and PyTorch.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

Call = tuple[str, Callable[[], Any]]
Made = Callable[[], Any]
"""What makes an argument when its operator is called."""

ROWS, WIDE, VOCABULARY, MIDDLE = 4096, 8192, 32000, (64, 1024, 512)
SAME, IMAGES = (ROWS, WIDE), (32, 64, 112, 112)
MATRICES = (4096, 4096), (8192, 1024), (256, VOCABULARY)
def pretend() -> None:
    """Have FlagGems take the tensors of the CPU for those of a Hopper GPU, and a fixed state for CUDA's generator."""
    os.environ |= {"GEMS_VENDOR": "nvidia", "ARCH": "sm_90"}
    import flag_gems

    state = torch.tensor([(1 << 40) + 1, 4]).view(torch.uint8)
    torch.cuda.default_generators = (SimpleNamespace(get_state=state.clone, set_state=lambda _: None),)
    torch.Tensor.is_cuda = True  # type: ignore[assignment]
    flag_gems.runtime.device.name = "cpu"
    for module in [m for name, m in sys.modules.items() if name.startswith("flag_gems")]:
        if getattr(module, "device", None) == "cuda":
            module.device = "cpu"  # type: ignore[attr-defined]


class Inputs(NamedTuple):
    """Calls of operators with tensors that `zeros` makes: of integers, those from 0 to 999."""

    zeros: Callable[..., torch.Tensor]

    def call(self, path: str, *given: Any, label: str = "", backward: bool = False, **options: Any) -> Call:
        """A call of a function. A tuple is the shape of a tensor, and a function makes what is to be given."""

        def call() -> Any:
            function = pkgutil.resolve_name(path)
            arguments = {key: self.made(value) for key, value in options.items()}
            with torch.set_grad_enabled(backward):
                return function(*(self.made(value, backward) for value in given), **arguments)

        return path + (f" {label}" if label else ""), call

    def of(self, name: str, *given: Any, **options: Any) -> Call:
        """One of FlagGems'."""
        return self.call(f"flag_gems.{name}", *given, **options)

    def made(self, value: Any, graph: bool = False) -> Any:
        match value:
            case tuple():
                return self.zeros(*value) if graph else self.zeros(*value).detach()
            case list():
                return [self.made(each) for each in value]
        return value() if callable(value) else value

    def floats(self, *shape: int) -> Made:
        return lambda: self.zeros(*shape, dtype=torch.float32).detach()

    def cast(self, dtype: torch.dtype, *shape: int) -> Made:
        return lambda: self.zeros(*shape).detach().to(dtype)

    def integers(self, *shape: int, below: int = 1000, dtype: torch.dtype = torch.long) -> Made:
        return lambda: self.zeros(*shape, dtype=dtype) % below


def same(*value: int | bool) -> Made:
    """Numbers that are no shape."""
    return lambda: value


def listed(*value: int | bool) -> Made:
    return lambda: [*value]


def steps(count: int, size: int, dtype: torch.dtype = torch.int32) -> Made:
    return lambda: torch.arange(count, dtype=dtype) * size


def filled(value: int, *shape: int) -> Made:
    return lambda: torch.full(shape, value, dtype=torch.int32)


def calls(zeros: Callable[..., torch.Tensor]) -> Iterator[Call]:
    """Operators with a list of three configurations at least, each with what calls it, with tensors of `zeros`."""
    made = Inputs(zeros)
    of, floats, integers, cast = made.of, made.floats, made.integers, made.cast
    for m, n, k in ((4096, 4096, 4096), (8192, 11008, 4096), (16, 14336, 4096), (1000, 6144, 2048)):
        yield of("mm", (m, k), (k, n), label=f"{m}x{n}x{k}")
        yield of("addmm", (n,), (m, k), (k, n), label=f"{m}x{n}x{k}")
    for m, n in ((4096, 4096), (VOCABULARY, 4096), (4096, 11008)):
        yield of("mv", (m, n), (n,), label=f"{m}x{n}")
        yield of("addmv", (m,), (m, n), (n,), label=f"{m}x{n}")
    for b, m, n, k in ((64, 2048, 2048, 128), (32, 1024, 128, 1024), (256, 64, 512, 64)):
        yield of("bmm", (b, m, k), (b, k, n), label=f"{b}x{m}x{n}x{k}")
        yield of("baddbmm", (b, m, n), (b, m, k), (b, k, n), label=f"{b}x{m}x{n}x{k}")
    e4m3 = torch.float8_e4m3fn
    for m, n, k in ((4096, 7168, 2048), (64, 4096, 7168)):
        label = f"{m}x{n}x{k}"
        turned = lambda n=n, k=k: cast(e4m3, n, k)().t()  # noqa: E731
        yield of("cutlass_scaled_mm", (m, n), cast(e4m3, m, k), turned, floats(m, 1), floats(1, n), label=label)
    yield of("group_mm", (4096, 2048), (8, 2048, 4096), lambda: torch.arange(512, 4097, 512, dtype=torch.int32))
    yield of("kron", (64, 64), (128, 64))

    for n, h, c, o, k, step in ((32, 56, 64, 64, 3, 1), (32, 28, 256, 512, 1, 1), (8, 224, 3, 64, 7, 2)):
        yield of("conv2d", (n, c, h, h), (o, c, k, k), None, step, k // 2, label=f"{n}x{h}x{c}x{o}x{k}",
                 backward=True)  # fmt: skip
    yield of("conv2d", (16, 256, 56, 56), (256, 1, 3, 3), None, 1, 1, 1, 256, label="depthwise")
    yield of("conv1d", (8, 512, 3000), (512, 512, 3), None, 1, 1)
    yield of("conv3d", (2, 64, 16, 56, 56), (64, 64, 3, 3, 3), None, 1, 1)
    pooled = (32, 64, 56, 56)
    yield of("max_pool2d_with_indices", IMAGES, same(3, 3), 2, 1)
    yield of("max_pool2d_backward", pooled, IMAGES, integers(*pooled), 3, 2, 1, 1, False)
    yield of("avg_pool2d", IMAGES, same(3, 3), 2, 1)
    yield of("avg_pool2d_backward", pooled, IMAGES, listed(3, 3), listed(2, 2), listed(1, 1), False, True, None)
    yield of("upsample_nearest1d", (32, 64, 2048), same(4096))
    yield of("upsample_nearest2d", IMAGES, same(224, 224))
    yield of("upsample_nearest3d", (2, 64, 16, 56, 56), same(32, 112, 112))
    yield of("upsample_bicubic2d", IMAGES, same(224, 224))

    for heads in ((2, 16, 4096, 128), (8, 32, 1024, 64)):
        label = "x".join(map(str, heads))
        for causal in (False, True):
            yield of("scaled_dot_product_attention", heads, heads, heads, is_causal=causal,
                     label=label + " causal" * causal)  # fmt: skip
        yield of("scaled_dot_product_attention_backward", heads, heads, heads, heads, heads, floats(*heads[:3]),
                 is_causal=True, label=label)  # fmt: skip
    tokens = (2, 4096, 16, 128)
    yield of("flash_attention_forward", tokens, tokens, tokens, None, None, 4096, 4096, 0.0, True, False)

    for m, n in MATRICES:
        label, row, each = f"{m}x{n}", (n,), same(n)
        yield of("softmax_backward", (m, n), (m, n), -1, torch.bfloat16, label=label)
        yield of("log_softmax_backward", (m, n), (m, n), -1, torch.bfloat16, label=label)
        yield of("layer_norm", (m, n), each, row, row, label=label)
        yield of("layer_norm_backward", (m, n), (m, n), each, floats(m), floats(m), row, row, listed(True, True, True),
                 label=label)  # fmt: skip
        yield of("rms_norm", (m, n), each, row, label=label)
        for name in ("amax", "std", "var_mean", "all_dims", "any_dims", "vector_norm"):
            yield of(name, (m, n), dim=listed(1), label=label)
        for name in ("prod_dim", "max_dim", "min_dim", "all_dim", "any_dim", "aminmax"):
            yield of(name, (m, n), dim=1, label=label)
        yield of("weight_norm", (m, n), (m, 1), label=label, backward=True)
        yield of("weight_norm", (m, n), (1, n), 1, label=f"{label} last", backward=True)
        yield of("triu", (m, n), label=label)
        yield of("cross_entropy_loss", (m, n), integers(m), label=label, backward=True)
    yield of("triu", (32, 1024, 1024), label="batch")
    yield of("min_dim", MIDDLE, dim=1, label="middle")
    yield of("amax", MIDDLE, dim=listed(1), label="middle")
    yield of("softmax_backward", MIDDLE, MIDDLE, 1, torch.bfloat16, label="middle")
    yield of("scaled_softmax_forward", (8, 16, 1024, 1024), 0.5)
    yield of("scaled_softmax_backward", (8, 16, 1024, 1024), (8, 16, 1024, 1024), 0.5)
    channels = (64,)
    yield of("batch_norm", IMAGES, *[channels] * 4, True)
    yield of("batch_norm_backward", IMAGES, IMAGES, *[channels] * 3, floats(64), floats(64), True, 1e-5,
             listed(True, True, True))  # fmt: skip
    yield of("instance_norm", IMAGES, channels, channels, backward=True)
    yield of("sqrt", SAME)
    yield of("conj_physical", lambda: torch.complex(floats(*SAME)(), floats(*SAME)()))
    yield of("exponential_", floats(*SAME))
    yield of("normal_", SAME)
    yield of("randperm", 1 << 20)
    yield of("reglu", SAME)
    yield of("dreglu", (ROWS, WIDE // 2), SAME)
    yield of("index", (VOCABULARY, ROWS), [integers(ROWS)])
    yield of("vstack", [SAME, SAME, SAME])
    yield of("replication_pad3d", (2, 64, 16, 56, 56), same(1, 1, 1, 1, 1, 1))
    yield of("moe_sum", (1024, 8, ROWS), (1024, ROWS))
    yield of("bucket_sort_topk", floats(64, VOCABULARY), filled(0, 64), filled(VOCABULARY, 64), 2048)
    heads = (1, 8192, 16, 128)
    yield of("chunk_gated_delta_rule_fwd", heads, heads, heads, floats(*heads[:3]), heads[:3], 0.1, None, True)
    yield of("mhc_pre", (ROWS, 4, 2048), floats(24, 8192), floats(3), floats(24), 1e-6, 1e-6, 1e-6, 1.0, 20)
    yield of("mhc_post", (ROWS, 2048), (ROWS, 4, 2048), floats(ROWS, 4, 1), floats(ROWS, 4, 4))
