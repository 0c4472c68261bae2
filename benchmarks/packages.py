"""Operators of twenty packages, for `captured.py` and `lists.py`, and lists for kernels that have none.

moe-ops 0.1.0, LightLLM 0.0.1, flash-attn 2.8.3.post2, mamba-ssm 2.3.2.post1, xformers 0.0.35, torchao 0.18.0, lmdeploy
0.18.0, flashlib 0.4.0, spconv-triton 1.0.0, flash-swiglu-mlp 0.4.3, siglip-kernel 0.1.2, sageattention 1.0.6, Liger
0.8.5, lanczos-triton 0.1.0, localcorr 0.1.1, flash-colsum 0.1.0, triton-augment 0.3.0, Unsloth 2026.10.9, DeepSpeed
0.19.8 and memeff 0.3.1; those that are installed, or whose source is on the path. Packages whose own import needs CUDA
or much else are imported without it (`bare`). The operators and lists were chosen before any of them was timed.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import itertools
import logging
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from gems import Call, Inputs, filled, same, steps
from triton.runtime.jit import JITFunction

BARE = (
    "mamba_ssm mamba_ssm.ops flash_attn causal_conv1d lmdeploy lmdeploy.pytorch lmdeploy.pytorch.kernels "
    "lmdeploy.pytorch.kernels.cuda lmdeploy.pytorch.kernels.cuda.moe deepspeed deepspeed.ops deepspeed.moe "
    "deepspeed.runtime deepspeed.ops.transformer deepspeed.ops.transformer.inference unsloth unsloth.kernels "
    "unsloth.kernels.moe xformers xformers.ops siglip_kernel spconv_triton spconv_triton.pytorch "
    "spconv_triton.pytorch._impl lightllm lightllm.common lightllm.common.basemodel"
)


STAND_INS: dict[str, Mapping[str, Any]] = {
    "lmdeploy.utils": {"get_logger": logging.getLogger},
    "xformers": {"_is_triton_available": lambda: True},
}


def bare() -> None:
    """Stand-ins for packages of which only the modules below are needed."""
    for name in BARE.split():
        parent, _, last = name.rpartition(".")
        if name in sys.modules or (parent and parent not in sys.modules):
            continue
        if parent:
            places = [str(folder / last) for folder in map(Path, sys.modules[parent].__path__)]
        elif spec := importlib.util.find_spec(name):
            places = list(spec.submodule_search_locations or ())
        else:
            continue
        module = ModuleType(name)
        module.__path__ = places
        module.__spec__ = ModuleSpec(name, None, is_package=True)  # others look whether a package is there
        sys.modules[name] = module
    for name, held in STAND_INS.items():
        vars(sys.modules.setdefault(name, ModuleType(name))).update(held)


WARPS = {"num_warps": [1, 2, 4, 8, 16, 32]}
PIPE = {"num_warps": [4, 8], "num_stages": [2, 3, 4, 5]}


def rows(*blocks: int, warps: Sequence[int] = (2, 4, 8, 16)) -> dict[str, list[int]]:
    return {"BLOCK_SIZE": [*blocks], "num_warps": [*warps]}


Space = Mapping[str, Sequence[int]]
LIGER, LMDEPLOY, DEEPSPEED = "liger_kernel.ops.", "lmdeploy.pytorch.kernels.cuda.", "deepspeed.ops.triton_ops."
LISTS: dict[str, Space] = {
    "flash_attn.ops.triton.rotary.rotary_kernel": {
        "BLOCK_M": [4, 8, 16, 32], "BLOCK_H": [1, 2, 4], "num_warps": [2, 4, 8]},
    "flash_attn.ops.triton.cross_entropy.cross_entropy_fwd_kernel": rows(2048, 4096, 8192, 16384, warps=(4, 8, 16, 32)),
    "flash_attn.ops.triton.cross_entropy.cross_entropy_bwd_kernel": rows(512, 1024, 2048, 4096, 8192),
    "mamba_ssm.ops.triton.layernorm_gated._layer_norm_fwd_1pass_kernel": WARPS,
    "mamba_ssm.ops.triton.layernorm_gated._layer_norm_bwd_kernel": WARPS,
    "mamba_ssm.ops.triton.selective_state_update._selective_scan_update_kernel": {
        "BLOCK_SIZE_M": [4, 8, 16, 32, 64], "num_warps": [1, 2, 4, 8]},
    "xformers.ops._triton.rmsnorm_kernels._rms_norm_kernel": rows(512, 1024, 2048, 4096, 8192),
    "xformers.ops._triton.rmsnorm_kernels._rms_norm_add_kernel": rows(512, 1024, 2048, 4096, 8192),
    "xformers.ops._triton.k_index_select_cat.index_select_cat_fwd_kernel": {
        "BLOCK_SIZE_INDEX": [1, 4], "BLOCK_SIZE_COL": [256, 512, 1024, 2048], "num_warps": [2, 4, 8]},
    f"{LMDEPLOY}rms_norm.add_rms_norm_kernel": WARPS,
    f"{LMDEPLOY}apply_rotary_pos_emb.apply_rotary_pos_emb_qk_kernel": WARPS,
    f"{LMDEPLOY}w8a8_triton_kernels._per_token_quant_int8": WARPS,
    f"{LMDEPLOY}flashattention._flash_prefill_fwd_kernel": {
        "BLOCK_M": [64, 128], "BLOCK_N": [32, 64, 128], **PIPE},
    f"{LMDEPLOY}moe.fused_moe.fused_moe_compact_kernel": {
        "BLOCK_SIZE_K": [32, 64, 128], "num_warps": [4, 8], "num_stages": [2, 3, 4]},
    "sageattention.attn_qk_int8_per_block._attn_fwd": PIPE,
    "sageattention.attn_qk_int8_per_block_causal._attn_fwd": PIPE,
    "flashlib.primitives.kmeans.triton.assign._euclid_assign_kernel": {
        "BLOCK_N": [64, 128], "BLOCK_K": [32, 64, 128], "num_warps": [4, 8], "num_stages": [1, 2, 3]},
    "flashlib.primitives.kmeans.triton.assign._euclid_assign_kernel_split_d": {
        "BLOCK_N": [64, 128], "BLOCK_K": [64, 128], "BLOCK_D": [32, 64], "num_warps": [4, 8], "num_stages": [1, 2, 3]},
    "memeff.clip_loss.clip_fa_grad_kernel": {
        "BLOCK_SIZE_I": [32, 64, 128], "BLOCK_SIZE_J": [32, 64], "num_warps": [4, 8], "num_stages": [1, 2, 3]},
    f"{DEEPSPEED}swiglu_triton._swiglu_fwd_kernel": rows(256, 512, 1024, 2048, 4096, 8192),
    f"{DEEPSPEED}swiglu_triton._swiglu_bwd_kernel": rows(256, 512, 1024, 2048, 4096, 8192),
    f"{LIGER}cross_entropy.liger_cross_entropy_kernel": rows(2048, 4096, 8192, 16384, 32768, warps=(8, 16, 32)),
    f"{LIGER}kl_div._kldiv_kernel_forward": rows(1024, 2048, 4096, 8192, 16384, warps=(4, 8, 16, 32)),
    f"{LIGER}jsd._jsd_kernel": rows(1024, 2048, 4096, 8192, 16384, warps=(4, 8, 16, 32)),
    f"{LIGER}rms_norm._rms_norm_forward_kernel": WARPS,
    f"{LIGER}rms_norm._rms_norm_backward_kernel": WARPS,
    f"{LIGER}geglu._geglu_tanh_forward_kernel": WARPS,
    f"{LIGER}geglu._geglu_tanh_backward_kernel": WARPS,
    f"{LIGER}softmax._softmax_single_block_forward_kernel": WARPS,
    f"{LIGER}layer_norm._layer_norm_backward_kernel": WARPS,
}  # fmt: skip
"""For kernels that their package launches in one way only: what a user would try."""


def per(count: str, block: str, second: str = "") -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
    """A program for each block of so many, and for each of a second argument."""
    return lambda meta: (triton.cdiv(meta[count], meta[block]), *([meta[second]] if second else []))


GRIDS = {
    "memeff.clip_loss.clip_fa_grad_kernel": per("n_own", "BLOCK_SIZE_I"),
    f"{DEEPSPEED}swiglu_triton._swiglu_fwd_kernel": per("n_elements", "BLOCK_SIZE"),
    f"{DEEPSPEED}swiglu_triton._swiglu_bwd_kernel": per("n_elements", "BLOCK_SIZE"),
    "flashlib.primitives.kmeans.triton.assign._euclid_assign_kernel": per("N", "BLOCK_N", "B"),
    "flashlib.primitives.kmeans.triton.assign._euclid_assign_kernel_split_d": per("N", "BLOCK_N", "B"),
}
"""Of those whose grid is made for one block."""


class Tuned:
    """In place of a kernel's `run`: the list of LISTS is tuned once for each set of shapes and numbers."""

    def __init__(self, path: str, kernel: Any, space: Space) -> None:
        self.grid, self.space, self.kernel = GRIDS.get(path), space, copy.copy(kernel)
        self.tuners: dict[str, Any] = {}
        if isinstance(kernel, JITFunction):
            self.kernel.device_caches = defaultdict(self.kernel.create_binder)  # not the one that was copied

    def configs(self, launched: Mapping[str, Any]) -> list[triton.Config]:
        asked = ({**launched, **dict(zip(self.space, v, strict=True))} for v in itertools.product(*self.space.values()))
        options = ("num_warps", "num_stages")
        return [
            triton.Config({k: v for k, v in each.items() if k in self.space and k not in options},
                          **{k: each[k] for k in options if k in each})
            for each in asked
        ]  # fmt: skip

    def __call__(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        given = {**dict(zip(self.kernel.arg_names, args, strict=False)), **kwargs}
        key = repr([(v.dtype, v.shape) if isinstance(v, torch.Tensor) else v for v in given.values()])
        if key not in self.tuners:
            options = {k: given[k] for k in ("num_warps", "num_stages") if k in given}
            self.tuners[key] = triton.autotune(self.configs(options), key=[])(self.kernel)
        left = {k: v for k, v in given.items() if k not in self.space and k not in ("num_warps", "num_stages")}
        return self.tuners[key].run(grid=self.grid or grid, warmup=warmup, **left)


def give_lists(operators: Sequence[str]) -> None:
    """From now on the kernels of LISTS are tuned, of the packages of these operators."""
    packages = {name.partition(".")[0] for name in operators}
    for path, space in LISTS.items():
        if path.partition(".")[0] not in packages:
            continue
        with suppress(ImportError, AttributeError):  # of the second, where the package that is found lacks the module
            kernel = pkgutil.resolve_name(path)
            kernel.run = Tuned(path, kernel, space)


def calls(zeros: Callable[..., torch.Tensor]) -> Iterator[Call]:
    """Operators by name, each with what calls it, with tensors that `zeros` makes."""
    bare()
    made = Inputs(zeros)
    of, floats, cast = made.call, made.floats, made.cast
    e4m3, half = torch.float8_e4m3fn, torch.float16

    def integers(*shape: int, below: int = 1000, dtype: torch.dtype = torch.long) -> Callable[[], torch.Tensor]:
        """Up to a million."""
        high, low = (functools.partial(made.zeros, *shape, dtype=torch.int32) for _ in range(2))
        return lambda: ((high() * 1000 + low()) % below).to(dtype)

    def turned(dtype: torch.dtype, *shape: int) -> Callable[[], torch.Tensor]:
        return lambda: cast(dtype, *shape[:-2], shape[-1], shape[-2])().transpose(-1, -2)

    def shares(count: int, each: int, dtype: torch.dtype = torch.int32) -> Callable[[], torch.Tensor]:
        """Ends of equal parts."""
        return lambda: torch.arange(1, count + 1, dtype=dtype) * each

    # moe-ops
    yield of("moe_ops.grouped_gemm_ops.grouped_gemm", (8192, 2048), (16, 4096, 2048), steps(17, 512), backward=True)
    yield of("moe_ops.grouped_gemm_ops_sm90.gmm_tma_fwd_raw", (8192, 2048), (16, 4096, 2048), steps(17, 512))
    yield of("moe_ops.fused_topk_softmax_ops.fused_topk_softmax", (8192, 128), 8, backward=True)
    yield of("moe_ops.unpermute_ops.unpermute", (65536, 2048), integers(65536, below=65536, dtype=torch.int32),
             floats(8192, 8), 8192, 8)  # fmt: skip
    # LightLLM
    light = "lightllm.common.basemodel.triton_kernel."
    for m, n, k in ((1024, 4096, 4096), (16, 11008, 4096)):
        label = f"{m}x{n}x{k}"
        int8, packed = (functools.partial(integers, dtype=dtype) for dtype in (torch.int8, torch.int32))
        yield of(f"{light}quantize_gemm_int8.matmul_int8", int8(m, k, below=100), cast(half, m), int8(k, n, below=100),
                 cast(half, n), cast(half, m, n), label=label)  # fmt: skip
        weight = packed(k // 8, n), cast(half, k // 128, n), packed(k // 128, n // 8)
        for name in ("s2", "gptq"):
            yield of(f"{light}dequantize_gemm_int4.matmul_dequantize_int4_{name}", cast(half, m, k), *weight, 128,
                     label=label)  # fmt: skip
    yield of(f"{light}dequantize_gemm_int4.dequantize_int4", *weight, lambda: made.zeros(1).device, lambda: half, 128)
    yield of(f"{light}quantize_gemm_int8.quantize_int8_perrow", cast(half, 1024, 4096))
    # flash-attn and mamba-ssm
    row, wide = (8192, 4096), (4096,)
    yield of("flash_attn.ops.triton.layer_norm.layer_norm_fn", row, wide, wide, backward=True)
    yield of("flash_attn.ops.triton.layer_norm.rms_norm_fn", row, wide, None, backward=True)
    yield of("flash_attn.ops.triton.rotary.apply_rotary", (4, 4096, 32, 128), (4096, 64), (4096, 64))
    yield of("flash_attn.ops.triton.cross_entropy.cross_entropy_loss", (4096, 32000), integers(4096), backward=True)
    b, t, h, p, n = 4, 4096, 32, 64, 128
    yield of("mamba_ssm.ops.triton.ssd_combined.mamba_chunk_scan_combined", (b, t, h, p), (b, t, h), floats(h),
             (b, t, 1, n), (b, t, 1, n), 256, floats(h), (b, t, h, p), backward=True)  # fmt: skip
    yield of("mamba_ssm.ops.triton.layer_norm.rms_norm_fn", row, wide, None, backward=True)
    yield of("mamba_ssm.ops.triton.k_activations._swiglu_fwd", (8192, 8192))
    yield of("mamba_ssm.ops.triton.k_activations._swiglu_bwd", (8192, 8192), (8192, 4096))
    yield of("mamba_ssm.ops.triton.layernorm_gated.rmsnorm_fn", row, wide, None, row, backward=True)
    one = (128, h, p)
    yield of("mamba_ssm.ops.triton.selective_state_update.selective_state_update", (128, h, p, n), one, one,
             floats(h, p, n), (128, 1, n), (128, 1, n), (h, p), one, (h, p))  # fmt: skip
    # xformers
    yield of("xformers.ops._triton.rmsnorm_kernels._rms_norm_forward", row, wide, 1e-6)
    yield of("xformers.ops._triton.rmsnorm_kernels._rms_norm_add_forward", row, row, wide, 1e-6)
    yield of("xformers.ops._triton.k_index_select_cat.index_select_cat_fwd", row, (32000, 4096), integers(8192))
    # torchao
    ao = "torchao."
    for m, n, k in ((4096, 8192, 4096), (64, 4096, 8192)):
        label = f"{m}x{n}x{k}"
        yield of(f"{ao}kernel.blockwise_quantization.blockwise_fp8_gemm", cast(e4m3, m, k), floats(m, k // 128),
                 cast(e4m3, n, k), floats(n // 128, k // 128), label=label)  # fmt: skip
        fp8 = f"{ao}prototype.blockwise_fp8_training.kernels."
        turned_scales = lambda m=m, k=k: made.zeros(k // 128, m, dtype=torch.float32).detach().t()  # noqa: E731
        yield of(f"{fp8}triton_fp8_gemm_1x128_128x128", cast(e4m3, m, k), turned(e4m3, k, n), turned_scales,
                 lambda n=n, k=k: made.zeros(n // 128, k // 128, dtype=torch.float32).detach().t(), label=label)
        yield of(f"{ao}prototype.quantized_training.int8_mm.scaled_int8_mm_cuda", integers(m, k, below=100,
                 dtype=torch.int8), lambda n=n, k=k: integers(n, k, below=100, dtype=torch.int8)().t(), floats(m),
                 floats(n), label=label)  # fmt: skip
    for name in ("act_quant_lhs", "act_quant_rhs", "act_quant_transposed_lhs", "weight_quant_rhs",
                 "weight_quant_transposed_rhs"):  # fmt: skip
        yield of(f"{fp8}triton_fp8_blockwise_{name}", row)
    yield of(f"{ao}prototype.mx_formats.kernels.triton_mxfp8_dequant_dim0", cast(e4m3, *row),
             lambda: integers(8192, 128, below=120, dtype=torch.uint8)().view(torch.float8_e8m0fnu), torch.bfloat16)
    moe = f"{ao}prototype.moe_training.kernels."
    yield of(f"{moe}float8_rowwise.triton_fp8_rowwise_3d_transpose_rhs", (8, 4096, 2048))
    yield of(f"{moe}float8_rowwise.triton_fp8_rowwise_3d_transpose_rhs_fused_reduction", (8, 4096, 2048))
    # lmdeploy
    lm = "lmdeploy.pytorch.kernels.cuda."
    for m, n, k in ((4096, 4096, 4096), (64, 4096, 8192)):
        yield of(f"{lm}blocked_gemm_fp8.blocked_gemm_fp8", cast(e4m3, m, k), floats(m, k // 128), turned(e4m3, k, n),
                 floats(k // 128, n // 128), label=f"{m}x{n}x{k}")  # fmt: skip
    yield of(f"{lm}awq_kernels.awq_linear", cast(half, 16, 4096), integers(4096, 512, dtype=torch.int32),
             cast(half, 32, 4096), integers(32, 512, dtype=torch.int32))  # fmt: skip
    yield of(f"{lm}rms_norm.rms_norm", row, wide)
    yield of(f"{lm}activation.silu_and_mul", (8192, 8192))
    yield of(f"{lm}apply_rotary_pos_emb.apply_rotary_pos_emb", (8192, 32, 128), (8192, 8, 128), *[(8192, 128)] * 2)
    yield of(f"{lm}blocked_gemm_fp8.quant_fp8", row, 128)
    yield of(f"{lm}flashattention.flash_attn_varlen_func", (8192, 32, 128), (8192, 8, 128), (8192, 8, 128),
             steps(9, 1024), steps(9, 1024), 1024, 1024, causal=True)  # fmt: skip
    yield of(f"{lm}moe.fused_moe.fused_moe", (1024, 2048), (32, 2048, 2048), (32, 2048, 1024), floats(1024, 4),
             integers(1024, 4, below=32), 4)  # fmt: skip
    yield of(f"{lm}moe.route_noaux_tc.fused_noaux_tc_routing", floats(8192, 256), floats(256))
    yield of(f"{lm}w8a8_triton_kernels.per_token_quant_int8", row, 1e-6)
    yield of(f"{lm}w8a8_triton_kernels.rms_norm_dynamic_quant", row, wide, 1e-6)
    # flashlib
    points = floats(8192, 64)
    distance, linalg, fit = "flashlib.kernels.distance.triton.", "flashlib.linalg.", "flashlib.primitives."
    yield of(f"{distance}pairwise.pairwise_l2sq", points)
    yield of(f"{distance}affinity.triton_affinity_with_degree", points, 0.5)
    yield of(f"{distance}mrd.triton_pairwise_mrd", points, floats(8192))
    yield of(f"{linalg}cov_gemm.triton.cov_gemm.cov_gemm", floats(1 << 18, 128))
    yield of(f"{linalg}gram_gemm.triton.gram_gemm.gram_gemm", floats(256, 1 << 17))
    yield of(f"{linalg}ab_gemm.triton.ab_gemm.ab_gemm", floats(1 << 18, 128), floats(1 << 18, 64))
    yield of(f"{linalg}gemm.triton.triton_mm.bf16_mm_fp32", (4096, 4096), (4096, 4096))
    for name in ("fused_ozaki_matmul", "fused_tf32_matmul"):
        yield of(f"{linalg}gemm.triton.fused_kernels.{name}", floats(4096, 4096), floats(4096, 4096))
    yield of(f"{linalg}gemm.triton.fused_kernels.fused_axpby", floats(8192, 8192), floats(8192, 8192), 0.5, 2.0)
    yield of(f"{linalg}gemm.triton.fused_kernels.fused_sym", floats(8192, 8192))
    yield of(f"{linalg}gemm.triton.fused_kernels.fused_kl_poly", floats(4096, 4096), floats(4096, 4096))
    yield of(f"{fit}standard_scaler.triton.scaler.flash_standard_scaler_fit", floats(1 << 20, 64))
    yield of(f"{fit}standard_scaler.triton.scaler.flash_standard_scaler_transform", floats(1 << 20, 64), floats(64),
             floats(64))  # fmt: skip
    yield of(f"{fit}tsne.triton.grad.triton_tsne_qsum", floats(16384, 2))
    yield of(f"{fit}tsne.triton.grad.triton_tsne_grad", floats(8192, 2), floats(8192, 8192), floats(1))
    yield of(f"{fit}logistic_regression.triton.logistic_regression.triton_logreg_fwd_bwd", floats(1 << 18, 128),
             floats(128), floats(1), floats(1 << 18))  # fmt: skip
    yield of(f"{fit}pca.triton.fused_kernels.triton_cov_gemm_fused", floats(1 << 17, 256))
    yield of(f"{fit}kmeans.triton.assign.euclid_assign_triton", cast(half, 1, 1 << 18, 128), cast(half, 1, 1024, 128))
    yield of(f"{fit}multinomial_nb.triton.nb_core.nb_count_features", floats(1 << 17, 256),
             integers(1 << 17, below=10), 10)  # fmt: skip
    # others
    sparse = integers(27, 200000, below=200000, dtype=torch.int32)
    yield of("spconv_triton.pytorch._impl.gemm.conv_forward", (200000, 64), (64, 27, 64), sparse, 200000)
    yield of("spconv_triton.pytorch._impl.gemm.conv_backward_weight", (200000, 64), (200000, 64), sparse,
             same(64, 27, 64))  # fmt: skip
    yield of("spconv_triton.pytorch._impl.pool.maxpool_forward", (200000, 64), sparse, 200000)
    yield of("spconv_triton.pytorch._impl.pool.avgpool_forward", (200000, 64), sparse, 200000)
    weights = (11008, 4096), (11008, 4096), (4096, 11008)
    yield of("flash_swiglu_mlp.ops.flash_swiglu", (1, 4096, 4096), *weights, backward=True)
    yield of("siglip_kernel.fused_siglip_v2._fused_v2_pass", (4096, 768), (4096, 768), 10.0, -10.0)
    yield of("siglip_kernel.fused_siglip_kernel._fused_siglip_pass", (4096, 768), (4096, 768), 10.0, -10.0)
    yield of("siglip_kernel.triton_sigmoid_bce.sigmoid_bce_forward", (4096, 4096), 0, 4096)
    yield of("sageattention.core.sageattn", cast(half, 2, 16, 4096, 128), cast(half, 2, 16, 4096, 128),
             cast(half, 2, 16, 4096, 128))  # fmt: skip
    yield of("sageattention.core.sageattn", cast(half, 2, 16, 4096, 64), cast(half, 2, 16, 4096, 64),
             cast(half, 2, 16, 4096, 64), is_causal=True, label="causal")  # fmt: skip
    liger = "liger_kernel.ops."
    for name, more in (("rms_norm.LigerRMSNorm", (wide, 1e-6)), ("geglu.LigerGELUMul", (row,)),
                       ("layer_norm.LigerLayerNorm", (wide, wide, 1e-6)), ("softmax.LigerSoftmax", ())):
        yield of(f"{liger}{name}Function.apply", row, *more, backward=True)
    logits = (4096, 32000)
    yield of(f"{liger}cross_entropy.cross_entropy_forward", logits, integers(4096), None, -100, 0.0, 0.0, "mean", None,
             False)  # fmt: skip
    yield of(f"{liger}kl_div.LigerKLDivLossFunction.apply", logits, logits, backward=True)
    yield of(f"{liger}jsd.LigerJSDFunction.apply", logits, logits, backward=True)
    yield of("lanczos_triton.resize.resize", floats(8, 3, 1080, 1920), same(540, 960))
    yield of("localcorr.triton.spatial_corr.TritonSpatialCorrelationFunction.apply", floats(4, 128, 128, 128),
             floats(4, 128, 128, 128), 4)  # fmt: skip
    yield of("flash_colsum.ops.flash_colsum", (4, 16, 2048, 64), (4, 16, 2048, 64))
    yield of("triton_augment.functional.fused_augment", floats(64, 3, 256, 256), 16, 16, 224, 224)
    yield of("unsloth.kernels.large_head_attention.large_head_attention", (1, 8, 2048, 256), (1, 8, 2048, 256),
             (1, 8, 2048, 256), filled(0, 1, 2048), lambda: steps(2049, 1)()[1:].reshape(1, 2048), backward=True)
    deep = "deepspeed.ops.triton_ops."
    yield of(f"{deep}group_gemm_triton.group_gemm_triton", (8192, 2048), (16, 2048, 4096), shares(16, 512),
             backward=True)  # fmt: skip
    yield of(f"{deep}swiglu_triton.swiglu", row, row, backward=True)
    yield of("memeff.clip_loss.fa_backward_one", (4096, 512), (4096, 512), *[floats(4096)] * 2, 10.0, 1.0, bidir=True)
