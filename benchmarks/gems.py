"""Operators of FlagGems with sizes of real models, for `captured.py` and `lists.py`. Needs FlagGems and PyTorch."""

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
UNARY = (
    "abs acos angle atan ceil cos cosh erf exp exp2 expm1 gelu hardsigmoid i0 isfinite isinf isnan isneginf "
    "log log10 log_sigmoid logical_not logit nan_to_num neg reciprocal relu relu6 round rsqrt sigmoid signbit silu sin "
    "softplus softshrink special_i0e special_i1 square tan tanh celu elu selu arcsinh t_copy alias_copy "
    "zeros_like ones_like rand_like all any sum mean prod max min argmax argmin std var var_mean count_nonzero "
    "vector_norm trace nonzero amax aminmax diag glu cumsum normed_cumsum sort bernoulli_ uniform_"
)
"""Of one tensor, with a default for everything else."""
BINARY = (
    "add sub mul true_divide eq ne lt le gt ge greater fmin maximum minimum hypot atan2 copysign logaddexp "
    "logical_and logical_or logical_xor pow_tensor_tensor remainder floor_divide mse_loss soft_margin_loss "
    "silu_and_mul gelu_and_mul silu_backward gelu_backward sigmoid_backward tanh_backward isclose allclose equal"
)


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

    def masks(self, *shape: int) -> Made:
        return lambda: self.zeros(*shape, dtype=torch.int32) % 2 == 1

    def turned(self, *shape: int) -> Made:
        """The last two dimensions in the other order in memory."""
        return lambda: self.zeros(*shape[:-2], shape[-1], shape[-2]).detach().transpose(-1, -2)


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
    """Operators by name, each with what calls it, with tensors that `zeros` makes."""
    yield from tuned(Inputs(zeros))
    yield from untuned(Inputs(zeros))


def tuned(made: Inputs) -> Iterator[Call]:
    """Those with an autotuned list of three configurations at least."""
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


def untuned(made: Inputs) -> Iterator[Call]:
    """The others: one configuration or two, which heuristics choose or the code that is made for a call."""
    of, floats, integers, masks, cast = made.of, made.floats, made.integers, made.masks, made.cast
    for name in UNARY.split():
        yield of(name, SAME)
    for name in BINARY.split():
        yield of(name, SAME, SAME)
    for name in ("and_tensor", "or_tensor"):
        yield of(f"bitwise_{name}", *[integers(*SAME, dtype=torch.int32)] * 2)
    yield of("bitwise_not", integers(*SAME, dtype=torch.int32))
    yield of("add", SAME, (WIDE,), label="broadcast")
    yield of("add", (8, 1024, 1024), made.turned(8, 1024, 1024), label="transposed")
    yield of("div_mode", SAME, SAME, rounding_mode="floor")
    yield of("lerp_scalar", SAME, SAME, 0.5)
    for name in ("lerp_tensor", "addcmul", "addcdiv", "clamp_tensor"):
        yield of(name, SAME, SAME, SAME)
    yield of("clamp", SAME, 0.0, 1.0)
    yield of("where_self", masks(*SAME), SAME, SAME)
    yield of("masked_fill", SAME, masks(*SAME), 0.0)
    yield of("masked_select", SAME, masks(*SAME))
    yield of("masked_scatter", SAME, masks(*SAME), SAME)
    yield of("threshold", SAME, 0.5, 1.0)
    yield of("pow_scalar", 2.0, SAME)
    yield of("pow_tensor_scalar", SAME, 3.0)
    yield of("prelu", SAME, (1,))
    yield of("polar", floats(*SAME), floats(*SAME))
    yield of("to_copy", SAME, dtype=torch.float32)
    yield of("copy_", SAME, floats(*SAME))
    yield of("contiguous", made.turned(8, 1024, 1024))
    yield of("fill_scalar", SAME, 1.0)
    yield of("dropout", SAME, 0.5)
    yield of("dropout_backward", SAME, masks(*SAME), 2.0)
    yield of("elu_backward", SAME, 1.0, 1.0, 1.0, False, SAME)
    yield of("threshold_backward", SAME, SAME, 0.0)
    yield of("glu_backward", (ROWS, WIDE // 2), SAME)
    for name in ("swiglu", "geglu"):
        yield of(name, SAME)
        yield of(f"d{name}", (ROWS, WIDE // 2), SAME)
    whole = same(ROWS, WIDE)
    for name in ("zeros", "ones", "rand"):
        yield of(name, whole)
    yield of("full", whole, 2.0)
    yield of("eye", ROWS)
    yield of("eye_m", ROWS, WIDE)
    yield of("arange", 1 << 20)
    yield of("linspace", 0.0, 1.0, 1 << 20)
    yield of("logspace", 0.0, 1.0, 1 << 20)
    yield of("randperm", 1 << 12, label="small")

    e4m3 = torch.float8_e4m3fn
    for m, n, k in ((4096, 7168, 2048), (64, 4096, 7168)):
        scales = floats(m, k // 128), floats(n // 128, k // 128)
        yield of("w8a8_block_fp8_matmul", cast(e4m3, m, k), cast(e4m3, n, k), *scales, listed(128, 128),
                 torch.bfloat16, label=f"{m}x{n}x{k}")  # fmt: skip
    yield of("mm", (1, 4096), (4096, 14336), label="1x14336x4096")
    yield of("fp8_matmul", cast(e4m3, 4096, 2048), floats(4096, 16), cast(e4m3, 7168, 2048), floats(56, 16))
    yield of("outer", (4096,), (4096,))
    yield of("addr", SAME, (ROWS,), (WIDE,))
    yield of("dot", (1 << 24,), (1 << 24,))
    yield of("vdot", (1 << 24,), (1 << 24,))
    yield of("upsample_linear1d", (32, 64, 2048), same(4096), False)
    yield of("pixel_unshuffle", IMAGES, 2)
    for m, n in MATRICES:
        label, row, each = f"{m}x{n}", (n,), same(n)
        yield of("softmax", (m, n), -1, label=label)
        yield of("log_softmax", (m, n), -1, label=label)
        yield of("fused_add_rms_norm", (m, n), (m, n), each, row, label=label)
        yield of("skip_layer_norm", (m, n), (m, n), each, row, row, label=label)
        for name in ("sum_dim", "mean_dim"):
            yield of(name, (m, n), dim=listed(1), label=label)
        for name in ("argmax", "argmin", "cumsum", "cummax", "cummin", "sort"):
            yield of(name, (m, n), dim=1, label=label)
        yield of("topk", (m, n), 50, label=label)
    for name in ("softmax", "argmax", "cumsum", "log_softmax"):
        yield of(name, MIDDLE, dim=1, label="middle")
    for name in ("sum_dim", "mean_dim"):
        yield of(name, MIDDLE, dim=listed(1), label="middle")
    grouped, channels = (32, 512, 32, 32), (512,)
    yield of("group_norm", grouped, channels, channels, 32, 512, 1024, 32)
    yield of("group_norm_backward", grouped, grouped, floats(32, 32), floats(32, 32), channels, 32, 512, 1024, 32,
             listed(True, True, True))  # fmt: skip
    yield of("margin_ranking_loss", (1 << 20,), (1 << 20,), (1 << 20,))
    yield of("nll_loss_forward", (ROWS, VOCABULARY), integers(ROWS))
    yield of("nll_loss2d_forward", (8, 21, 512, 512), integers(8, 512, 512, below=21))
    yield of("quantile", floats(1024, 4096), 0.5, 1)
    yield of("multinomial", floats(64, VOCABULARY), 8)
    yield of("bincount", integers(1 << 20))
    yield of("unique_consecutive", integers(1 << 20), True, True)
    yield of("_unique2", integers(1 << 20), True, True, True)

    long = (VOCABULARY, ROWS)
    yield of("embedding", long, integers(8, 2048))
    yield of("embedding_backward", (8, 2048, ROWS), integers(8, 2048), VOCABULARY)
    yield of("index_select", long, 0, integers(ROWS))
    yield of("index_add", SAME, 0, integers(512), (512, WIDE))
    yield of("index_put", SAME, [integers(512)], (512, WIDE))
    yield of("gather", SAME, 1, integers(*SAME))
    yield of("scatter", SAME, 1, integers(*SAME), SAME)
    yield of("scatter", floats(*SAME), 1, integers(*SAME), floats(*SAME), "add", label="add")
    yield of("scatter_add_", floats(*SAME), 1, integers(*SAME), floats(*SAME))
    yield of("isin", integers(1 << 20), integers(512), label="short")
    yield of("isin", integers(1 << 20), integers(1 << 16), label="long")
    yield of("one_hot", integers(ROWS), 1000)
    yield of("repeat_interleave_self_int", SAME, 2, 1)
    yield of("repeat_interleave_self_tensor", (ROWS, 256), integers(ROWS, below=4), 0)
    yield of("repeat_interleave_tensor", integers(ROWS, below=4))
    yield of("select_scatter", SAME, (ROWS,), 1, 3)
    yield of("slice_scatter", SAME, (ROWS, 1024), 1, 0, 2048, 2)
    for name in ("cat", "stack", "hstack"):
        yield of(name, [SAME, SAME, SAME])
    yield of("cat", [SAME, SAME], 1, label="columns")
    yield of("flip", SAME, listed(0, 1))
    yield of("roll", SAME, listed(3, 5), listed(0, 1))
    yield of("tile", (1024, 1024), same(4, 4))
    yield of("repeat", (1024, 1024), same(4, 4))
    yield of("tril", SAME)
    yield of("diag", (4096,), label="vector")
    yield of("diag_embed", (64, 1024))
    yield of("pad", SAME, listed(1, 3, 2, 2))
    yield of("constant_pad_nd", SAME, listed(1, 3, 2, 2))
    yield of("reflection_pad1d", (32, 64, 4096), same(3, 3))
    yield of("reflection_pad2d", IMAGES, same(1, 1, 1, 1))
    yield of("replication_pad1d", (32, 64, 4096), same(3, 3))

    packed, paged = (8 * 1024, 16, 128), (2048, 16, 8, 128)
    yield of("flash_attn_varlen_func", packed, packed, packed, 1024, steps(9, 1024), 1024, steps(9, 1024), causal=True)
    yield of("flash_attn_varlen_func", (32, 32, 128), paged, paged, 1, steps(33, 1), 1024, seqused_k=filled(1024, 32),
             causal=True, block_table=lambda: steps(2048, 1)().reshape(32, 64), label="paged")  # fmt: skip
    yield of("flash_mla", (16, 1, 128, 576), lambda: steps(1024, 1)().reshape(16, 64), (1024, 64, 1, 576), 4096, 64, 16,
             1, filled(4096, 16), 128, 1, 576, 512, True)  # fmt: skip
    indices = integers(256, 1, 2048, dtype=torch.int32)
    yield of("flash_mla_sparse_fwd", (256, 128, 576), (8192, 1, 576), indices, 0.05)
    indices = integers(1, 256, 512, dtype=torch.int32)
    yield of("sparse_attn_triton", (1, 256, 64, 128), (1, 4096, 128), floats(64), indices, 0.1)
    tokens, experts = 1024, 64
    routed = integers(tokens, 8, below=experts, dtype=torch.int32)
    yield of("topk_softmax", floats(tokens, 8), routed, routed, floats(tokens, experts))
    yield of("grouped_topk", floats(tokens, 256), 8, 4, 8, True, 2.5, floats(256), 1)
    yield of("moe_align_block_size", routed, 64, experts)
    yield of("fused_experts_impl", (tokens, 2048), (experts, 2816, 2048), (experts, 2048, 1408), floats(tokens, 8),
             routed)  # fmt: skip
    yield of("apply_rotary_pos_emb", (2, 4096, 16, 128), (2, 4096, 4, 128), (4096, 64), (4096, 64))
    logits = 64, VOCABULARY
    yield of("apply_repetition_penalties", floats(*logits), masks(*logits), masks(*logits), floats(64))
    one, slots, heads = floats(1), integers(tokens), (tokens, 8, 128)
    yield of("concat_and_cache_mla", (tokens, 512), (tokens, 64), (256, 16, 576), slots, "auto", one)
    yield of("reshape_and_cache", heads, heads, (256, 8, 16, 16, 8), (256, 8, 128, 16), slots, "auto", one, one)
    yield of("reshape_and_cache_flash", heads, heads, *[(256, 16, 8, 128)] * 2, slots, "auto", one, one)
    yield of("act_quant_triton", SAME)
    yield of("per_token_group_quant_fp8", SAME, 128)
    yield of("hadamard_transform", (ROWS, 4096))
    one_each = (1, 64, 16)
    yield of("fused_recurrent_gated_delta_rule_fwd", *[(*one_each, 128)] * 3, floats(*one_each), one_each, 0.1,
             floats(64, 16, 128, 128), False, steps(65, 1, torch.long))  # fmt: skip
    yield of("mhc_bwd", floats(ROWS, 4, 4), floats(ROWS, 4, 4))
    yield of("sinkhorn_forward", floats(ROWS, 4, 4))
    yield of("rwkv_ka_fusion", (ROWS, 2048), (2048,), (ROWS, 2048), (2048,), 32, 64)
    yield of("rwkv_mm_sparsity", (8192,), (8192, 2048))
