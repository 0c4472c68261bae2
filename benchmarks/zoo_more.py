"""The 26 kernels of `kernels/triton_zoo_more.py` as `zoo.py` measures them.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured or ranked. Neighbours are of a kind, so that both halves hold something of each.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_more as zoo
from zoo_subject import PIPE, SMS, TILE, Arrays, Config, Problem, Subject, cdiv, per_thread, stages, tiles

from carver.compiled.binary import Tensor


def pow2_up(n: int) -> int:
    return 1 << (n - 1).bit_length()


def lengths(p: Problem, key: str) -> np.ndarray:
    """Between a half and the whole of the longest, drawn for each sequence."""
    drawn = np.random.default_rng(11).integers(p[key] // 2, p[key] + 1, p["batch"])
    return drawn.astype(np.int32)


def sequence_starts(p: Problem) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths(p, "longest"))]).astype(np.int32)


def packed(p: Problem) -> int:
    return int(sequence_starts(p)[-1])


def sparse_blocks(p: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Where rows of blocks start, and the columns of their blocks: one block at least in each row."""
    rng = np.random.default_rng(12)
    present = rng.random((p["N"] // p["side"], p["K"] // p["side"])) < p["density"]
    present[np.arange(len(present)), rng.integers(0, present.shape[1], len(present))] = True
    starts = np.concatenate([[0], np.cumsum(present.sum(1))])
    return starts.astype(np.int32), np.nonzero(present)[1].astype(np.int32)


def token_ids(p: Problem, below: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng(13).integers(0, below, p["tokens"]).astype(dtype)


def expert_targets(p: Problem) -> np.ndarray:
    """The token of each row of the experts' results, which are sorted by expert."""
    return np.random.default_rng(14).permutation(np.repeat(np.arange(p["tokens"]), p["top"])).astype(np.int32)


def gelu_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["a_ptr"].T.float() @ t["w_ptr"].T.float() + t["bias_ptr"].float()
    return torch.nn.functional.gelu(x, approximate="tanh") + t["residual_ptr"].float()


def lora_want(p: Problem, t: Arrays) -> Any:
    low = (t["x_ptr"] @ t["down_ptr"].T).float() * p["scale"]
    return (t["x_ptr"] @ t["w_ptr"].T).float() + low @ t["up_ptr"].T.float()


def scaled_want(p: Problem, t: Arrays) -> Any:
    return (t["a_ptr"].float() @ t["b_ptr"].float().T) * t["scale_a_ptr"][:, None] * t["scale_b_ptr"][None, :]


def block_sparse_want(p: Problem, t: Arrays) -> Any:
    import torch

    side, x = p["side"], t["x_ptr"]
    w = x.new_zeros((p["N"] // side, p["K"] // side, side, side))
    rows = torch.repeat_interleave(t["start_ptr"].diff())
    w[rows.long(), t["column_ptr"].long()] = t["block_ptr"]
    return x @ w.transpose(1, 2).reshape(p["N"], p["K"]).T


def mla_got(p: Problem, c: Config, t: Arrays) -> Any:
    import torch

    parts, lse = t["out_ptr"], t["lse_ptr"][..., None]
    weight = torch.exp2(lse - lse.amax(1, keepdim=True))
    return (parts * weight).sum(1) / weight.sum(1)


def mla_want(p: Problem, t: Arrays) -> Any:
    import torch

    out = []
    for b, n in enumerate(lengths(p, "length")):
        kv = t["kv_ptr"][b, :n].float()
        scores = t["q_ptr"][b].float() @ kv.T * 576**-0.5
        out.append(scores.softmax(-1) @ kv[:, :512])
    return torch.cat(out)


def alibi_want(p: Problem, t: Arrays) -> Any:
    import torch

    out = []
    i = torch.arange(p["seq"], device=t["q_ptr"].device)
    distance = i[:, None] - i[None, :]
    for h in range(p["heads"]):
        scores = (t["q_ptr"][h] @ t["k_ptr"][h].T).float() * p["head"] ** -0.5
        scores -= 2.0 ** (-8 * (h + 1) / p["heads"]) * distance
        weights = scores.masked_fill_(distance < 0, -math.inf).softmax(-1)
        out.append(weights.to(t["v_ptr"].dtype) @ t["v_ptr"][h])
    return torch.stack(out)


def varlen_want(p: Problem, t: Arrays) -> Any:
    import torch

    out = []
    for a, b in itertools.pairwise(sequence_starts(p)):
        q, k, v = (t[name][a:b].transpose(0, 1)[None] for name in ("q_ptr", "k_ptr", "v_ptr"))
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=p["heads"] != p["kv_heads"])
        out.append(attended[0].transpose(0, 1))
    return torch.cat(out)


def dkdv_want(p: Problem, t: Arrays) -> Any:
    import torch

    dk, dv = [], []
    for h in range(p["heads"]):
        q, k, v, do = (t[name][h] for name in ("q_ptr", "k_ptr", "v_ptr", "do_ptr"))
        weights = torch.tril(torch.exp((q @ k.T).float() * p["head"] ** -0.5 - t["lse_ptr"][h][:, None]))
        dv.append(weights.to(q.dtype).T @ do)
        dscores = weights * ((do @ v.T).float() - t["delta_ptr"][h][:, None])
        dk.append((dscores.to(q.dtype).T @ q).float() * p["head"] ** -0.5)
    return torch.stack(dk), torch.stack(dv)


def scan_want(p: Problem, t: Arrays) -> Any:
    import torch

    a = torch.sigmoid(t["gate_ptr"].float())
    own = (1 - a) * t["x_ptr"].float()
    for i in range(1, p["seq"]):
        own[:, i].addcmul_(a[:, i], own[:, i - 1])
    return own


def rms_norm_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["x_ptr"].float() + t["residual_ptr"].float()
    return x, torch.nn.functional.rms_norm(x, (p["cols"],), t["weight_ptr"].float(), 1e-6)


def rms_backward_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, dy = t["x_ptr"].float(), t["dy_ptr"].float()
    normed = torch.nn.functional.rms_norm(x, (p["cols"],), eps=1e-6)
    scale = torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6)
    dnormed = dy * t["weight_ptr"].float()
    return (dnormed - normed * (dnormed * normed).mean(1, keepdim=True)) * scale, (dy * normed).sum(0)


def swiglu_want(p: Problem, t: Arrays) -> Any:
    import torch

    gate, up = t["x_ptr"].float().chunk(2, 1)
    return torch.nn.functional.silu(gate) * up


def rotary_want(p: Problem, t: Arrays) -> Any:
    import torch

    cos, sin = (t[name][t["position_ptr"].long()][:, None] for name in ("cos_ptr", "sin_ptr"))
    left, right = t["x_ptr"].float().chunk(2, -1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


def conv1d_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = torch.nn.functional.pad(t["x_ptr"].float(), (0, 0, p["taps"] - 1, 0))
    weight = t["weight_ptr"].float()
    y = t["bias_ptr"].float() + sum(x[:, i : i + p["seq"]] * weight[i] for i in range(p["taps"]))
    return torch.nn.functional.silu(y)


def gather_want(p: Problem, t: Arrays) -> Any:
    import torch

    places = torch.arange(p["tokens"], device=t["id_ptr"].device) % p["seq"]
    return t["table_ptr"][t["id_ptr"]].float() * p["cols"] ** 0.5 + t["place_ptr"][places].float()


def scatter_want(p: Problem, t: Arrays) -> Any:
    import torch

    added = t["x_ptr"].float() * t["weight_ptr"][:, None]
    return torch.zeros((p["tokens"], p["cols"]), device=added.device).index_add_(0, t["id_ptr"].long(), added)


def histogram_want(p: Problem, t: Arrays) -> Any:
    import torch

    digits = (t["key_ptr"] >> p["shift"]) & (p["bins"] - 1)
    return torch.bincount(digits.flatten(), minlength=p["bins"])


def moments_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"].float()
    return x.sum(0), (x * x).sum(0)


def transpose_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.nn.functional.pad(t["x_ptr"].transpose(1, 2), (0, p["padded"] - p["rows"]), value=-1.5)


def pool_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["x_ptr"].permute(0, 3, 1, 2)
    return torch.nn.functional.max_pool2d(x, p["side"], p["stride"], p["pad"]).permute(0, 2, 3, 1)


def pooled(p: Problem) -> tuple[int, int]:
    high, wide = ((p[n] + 2 * p["pad"] - p["side"]) // p["stride"] + 1 for n in ("height", "width"))
    return high, wide


def shapes(names: str, *rows: tuple[Any, ...]) -> tuple[Problem, ...]:
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


def matmul(p: Problem, dtype: str, b: tuple[int, int], out: str) -> dict[str, Any]:
    return {
        "a_ptr": Tensor(dtype, (p["M"], p["K"])), "b_ptr": Tensor(dtype, b), "c_ptr": Tensor(out, (p["M"], p["N"])),
        "M": p["M"], "N": p["N"], "K": p["K"],
    }  # fmt: skip


def scaled_matmul(p: Problem, dtype: str) -> dict[str, Any]:
    return matmul(p, dtype, (p["N"], p["K"]), "bfloat16") | {
        "scale_a_ptr": Tensor("float32", (p["M"],)), "scale_b_ptr": Tensor("float32", (p["N"],)),
        "stride_am": p["K"], "stride_bn": p["K"], "stride_cm": p["N"],
    }  # fmt: skip


def fits(c: Config, item_bytes: int, most: int = 256, extra: int = 0) -> bool:
    """Accumulators and the stages of both operands' blocks."""
    staged = (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * item_bytes
    return per_thread(c, c["BLOCK_M"] * c["BLOCK_N"], most) and stages(c, staged, extra)


def elements(c: Config, count: int, most: int = 64) -> bool:
    """From one to `most` elements a thread."""
    return 1 <= count / (32 * c["num_warps"]) <= most


FLAT = {"num_warps": (1, 2, 4, 8), "num_stages": (1,)}

LISTED = [
    Subject(
        "matmul_stream_k", zoo.matmul_stream_k,
        shapes("M N K", (1536, 1536, 8192), (384, 7168, 4096), (1000, 3072, 2048)),
        TILE | PIPE,
        args=lambda p, c: matmul(p, "float16", (p["K"], p["N"]), "float32") | {
            "stride_am": p["K"], "stride_bk": p["N"], "stride_cm": p["N"]},
        grid=lambda p, c: (SMS,),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"], want=lambda p, t: t["a_ptr"] @ t["b_ptr"],
        keep=lambda p, c: c["BLOCK_M"] >= 32 and fits(c, 2),
    ),
    Subject(
        "matmul_block_ptr", zoo.matmul_block_ptr,
        shapes("M N K", (4096, 4096, 2048), (512, 11008, 4096), (1000, 2064, 1040)),
        TILE | PIPE | {"GROUP_M": (1, 8)},
        args=lambda p, c: matmul(p, "float16", (p["K"], p["N"]), "float16") | {
            "stride_am": p["K"], "stride_bk": p["N"], "stride_cm": p["N"], "slope": 0.25},
        grid=lambda p, c: (tiles(p, c),),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"],
        want=lambda p, t: (y := (t["a_ptr"] @ t["b_ptr"]).float()).clamp(min=0) + y.clamp(max=0) * 0.25,
        keep=lambda p, c: c["BLOCK_M"] >= 32 and fits(c, 2),
    ),
    Subject(
        "matmul_gelu_residual", zoo.matmul_gelu_residual,
        shapes("M N K", (4096, 4096, 1024), (2048, 8192, 2048), (1520, 3056, 1536)),
        TILE | PIPE | {"GROUP_M": (8,)},
        args=lambda p, c: {
            "a_ptr": Tensor("bfloat16", (p["K"], p["M"])), "w_ptr": Tensor("bfloat16", (p["N"], p["K"])),
            "bias_ptr": Tensor("bfloat16", (p["N"],)), "residual_ptr": Tensor("bfloat16", (p["M"], p["N"])),
            "out_ptr": Tensor("bfloat16", (p["M"], p["N"])), "M": p["M"], "N": p["N"], "K": p["K"],
            "stride_ak": p["M"], "stride_wn": p["K"], "stride_out": p["N"]},
        grid=lambda p, c: (tiles(p, c),),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=gelu_want,
        keep=lambda p, c: c["BLOCK_M"] >= 32 and fits(c, 2),
    ),
    Subject(
        "matmul_lora", zoo.matmul_lora,
        shapes("M N K rank scale", (4096, 4096, 4096, 16, 2.0), (256, 14336, 4096, 64, 0.5),
               (1900, 5120, 5120, 32, 1.0)),
        {**TILE, "BLOCK_N": (32, 64, 128), **PIPE},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["M"], p["K"])), "w_ptr": Tensor("bfloat16", (p["N"], p["K"])),
            "down_ptr": Tensor("bfloat16", (p["rank"], p["K"])), "up_ptr": Tensor("bfloat16", (p["N"], p["rank"])),
            "out_ptr": Tensor("bfloat16", (p["M"], p["N"])), "scale": p["scale"], "M": p["M"], "N": p["N"],
            "K": p["K"], "stride_x": p["K"], "stride_w": p["K"], "stride_out": p["N"]},
        grid=lambda p, c: (p["N"] // c["BLOCK_N"], cdiv(p["M"], c["BLOCK_M"])),
        constants=lambda p: {"RANK": p["rank"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=lora_want,
        keep=lambda p, c: per_thread(c, c["BLOCK_M"] * (c["BLOCK_N"] + p["rank"]))
        and stages(c, (c["BLOCK_M"] + c["BLOCK_N"] + p["rank"]) * c["BLOCK_K"] * 2),
    ),
    Subject(
        "matmul_int8", zoo.matmul_int8,
        shapes("M N K", (4096, 4096, 4096), (32, 8192, 8192), (777, 3072, 4096)),
        TILE | {"BLOCK_K": (32, 64, 128, 256)} | PIPE | {"GROUP_M": (8,)},
        args=lambda p, c: scaled_matmul(p, "int8"),
        grid=lambda p, c: (tiles(p, c),),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"], want=scaled_want,
        keep=lambda p, c: fits(c, 1),
    ),
    Subject(
        "matmul_fp8_rows", zoo.matmul_fp8_rows,
        shapes("M N K", (4096, 4096, 4096), (64, 7168, 8192), (3000, 2048, 2048)),
        TILE | {"DOTS": (1, 2, 4)} | PIPE,
        args=lambda p, c: scaled_matmul(p, "float8_e4m3"),
        grid=lambda p, c: (tiles(p, c),),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"], want=scaled_want,
        keep=lambda p, c: fits(c, 1, 128),
    ),
    Subject(
        "batched_gemm", zoo.batched_gemm,
        shapes("batch M N K", (4096, 64, 64, 64), (1536, 128, 128, 128), (2500, 96, 80, 32)),
        {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (16, 32, 64, 128), "MATRICES": (1, 2, 4, 8, 16),
         "num_warps": (1, 2, 4, 8), "num_stages": (1, 2, 3, 4)},
        args=lambda p, c: {
            "a_ptr": Tensor("float16", (p["batch"], p["M"], p["K"])),
            "b_ptr": Tensor("float16", (p["batch"], p["K"], p["N"])),
            "c_ptr": Tensor("float16", (p["batch"], p["M"], p["N"])),
            "batch": p["batch"], "M": p["M"], "N": p["N"]},
        grid=lambda p, c: (tiles(p, c), cdiv(p["batch"], c["MATRICES"])), constants=lambda p: {"K": p["K"]},
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"], want=lambda p, t: t["a_ptr"] @ t["b_ptr"],
        keep=lambda p, c: c["BLOCK_M"] <= pow2_up(p["M"]) and c["BLOCK_N"] <= pow2_up(p["N"])
        and per_thread(c, c["BLOCK_M"] * c["BLOCK_N"], 128)
        and stages(c, (c["BLOCK_M"] + c["BLOCK_N"]) * p["K"] * 2),
    ),
    Subject(
        "matmul_block_sparse", zoo.matmul_block_sparse,
        shapes("tokens N K side density", (4096, 4096, 4096, 64, 0.2), (2048, 8192, 4096, 128, 0.1),
               (1000, 4096, 4096, 32, 0.3)),
        {"BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_K": (16, 32, 64, 128), "num_warps": (2, 4, 8),
         "num_stages": (1, 2, 3, 4)},
        args=lambda p, c: {
            "x_ptr": Tensor("float16", (p["tokens"], p["K"])),
            "block_ptr": Tensor("float16", (len(sparse_blocks(p)[1]), p["side"], p["side"])),
            "column_ptr": Tensor("int32", (len(sparse_blocks(p)[1]),)),
            "start_ptr": Tensor("int32", (p["N"] // p["side"] + 1,)),
            "out_ptr": Tensor("float16", (p["tokens"], p["N"])),
            "tokens": p["tokens"], "stride_x": p["K"], "stride_out": p["N"]},
        grid=lambda p, c: (p["N"] // p["side"], cdiv(p["tokens"], c["BLOCK_M"])),
        constants=lambda p: {"SIDE": p["side"]},
        values=lambda p: dict(zip(("start_ptr", "column_ptr"), sparse_blocks(p), strict=True)),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=block_sparse_want,
        keep=lambda p, c: c["BLOCK_K"] <= p["side"] <= 8 * c["BLOCK_K"]
        and per_thread(c, c["BLOCK_M"] * p["side"], 128)
        and stages(c, (c["BLOCK_M"] + p["side"]) * p["side"] * 2),
    ),
    Subject(
        "matmul_split_epilogue", zoo.matmul_split_epilogue,
        shapes("M N K", (4096, 4096, 4096), (8192, 2048, 1024), (1500, 3072, 3072)),
        {**TILE, "BLOCK_M": (64, 128, 256), **PIPE, "GROUP_M": (8,), "HALVES": (0, 1)},
        args=lambda p, c: matmul(p, "bfloat16", (p["K"], p["N"]), "bfloat16"),
        grid=lambda p, c: (min(SMS, tiles(p, c)),),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"], want=lambda p, t: t["a_ptr"] @ t["b_ptr"],
        keep=lambda p, c: fits(c, 2, 256, c["BLOCK_M"] * c["BLOCK_N"] * (2 - c["HALVES"])),
    ),
    Subject(
        "mla_decode", zoo.mla_decode,
        shapes("batch heads length", (32, 16, 4096), (4, 128, 8192), (96, 64, 1000)),
        {"BLOCK_H": (16, 32, 64), "BLOCK_N": (16, 32, 64), "splits": (1, 2, 4, 8, 16, 32), "num_warps": (4, 8),
         "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            "q_ptr": Tensor("bfloat16", (p["batch"], p["heads"], 576)),
            "kv_ptr": Tensor("bfloat16", (p["batch"], p["length"], 576)),
            "length_ptr": Tensor("int32", (p["batch"],)),
            "out_ptr": Tensor("float32", (p["batch"] * p["heads"], c["splits"], 512)),
            "lse_ptr": Tensor("float32", (p["batch"] * p["heads"], c["splits"])),
            "scale": 576**-0.5, "heads": p["heads"], "longest": p["length"], "splits": c["splits"]},
        grid=lambda p, c: (p["batch"], p["heads"] // c["BLOCK_H"], c["splits"]),
        constants=lambda p: {"LATENT": 512, "ROPE": 64},
        values=lambda p: {"length_ptr": lengths(p, "length")},
        outputs=("out_ptr", "lse_ptr"), got=mla_got, want=mla_want,
        keep=lambda p, c: c["BLOCK_H"] <= p["heads"] and per_thread(c, c["BLOCK_H"] * 512, 128)
        and stages(c, c["BLOCK_N"] * 1152, c["BLOCK_H"] * 1152),
    ),
    Subject(
        "alibi_attention", zoo.alibi_attention,
        shapes("heads seq head", (16, 4096, 256), (48, 2048, 256), (24, 1500, 256)),
        {"BLOCK_M": (32, 64, 128), "BLOCK_N": (16, 32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            **dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"),
                            Tensor("bfloat16", (p["heads"], p["seq"], p["head"]))),
            "scale": p["head"] ** -0.5, "seq": p["seq"], "heads": p["heads"], "stride_h": p["seq"] * p["head"],
            "stride_s": p["head"]},
        grid=lambda p, c: (cdiv(p["seq"], c["BLOCK_M"]), p["heads"]), constants=lambda p: {"HEAD": p["head"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=alibi_want,
        keep=lambda p, c: per_thread(c, c["BLOCK_M"] * p["head"], 128)
        and stages(c, c["BLOCK_N"] * p["head"] * 4, c["BLOCK_M"] * p["head"] * 2),
    ),
    Subject(
        "varlen_attention", zoo.varlen_attention,
        shapes("batch longest heads kv_heads head", (16, 1024, 16, 16, 64), (6, 4096, 16, 4, 128),
               (64, 300, 12, 12, 64)),
        {"BLOCK_M": (32, 64, 128), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3, 4)},
        args=lambda p, c: {
            **dict.fromkeys(("q_ptr", "out_ptr"), Tensor("float16", (packed(p), p["heads"], p["head"]))),
            **dict.fromkeys(("k_ptr", "v_ptr"), Tensor("float16", (packed(p), p["kv_heads"], p["head"]))),
            "start_ptr": Tensor("int32", (p["batch"] + 1,)), "scale": p["head"] ** -0.5,
            "stride_q": p["heads"] * p["head"], "stride_kv": p["kv_heads"] * p["head"]},
        grid=lambda p, c: (cdiv(int(lengths(p, "longest").max()), c["BLOCK_M"]), p["heads"], p["batch"]),
        constants=lambda p: {"GROUP": p["heads"] // p["kv_heads"], "HEAD": p["head"]},
        values=lambda p: {"start_ptr": sequence_starts(p)},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=varlen_want,
        keep=lambda p, c: stages(c, c["BLOCK_N"] * p["head"] * 4, c["BLOCK_M"] * p["head"] * 2),
    ),
    Subject(
        "attention_dkdv", zoo.attention_dkdv,
        shapes("heads seq head", (32, 2048, 64), (16, 4096, 128), (24, 1100, 64)),
        {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            **dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "do_ptr", "dk_ptr", "dv_ptr"),
                            Tensor("bfloat16", (p["heads"], p["seq"], p["head"]))),
            **dict.fromkeys(("lse_ptr", "delta_ptr"), Tensor("float32", (p["heads"], p["seq"]))),
            "scale": p["head"] ** -0.5, "seq": p["seq"], "stride_h": p["seq"] * p["head"], "stride_s": p["head"]},
        grid=lambda p, c: (cdiv(p["seq"], c["BLOCK_N"]), p["heads"]), constants=lambda p: {"HEAD": p["head"]},
        outputs=("dk_ptr", "dv_ptr"), got=lambda p, c, t: (t["dk_ptr"], t["dv_ptr"]), want=dkdv_want,
        keep=lambda p, c: per_thread(c, 2 * c["BLOCK_N"] * p["head"] + c["BLOCK_M"] * c["BLOCK_N"])
        and stages(c, c["BLOCK_M"] * p["head"] * 4, c["BLOCK_N"] * p["head"] * 4),
    ),
    Subject(
        "gated_scan", zoo.gated_scan,
        shapes("batch seq width", (8, 4096, 2560), (2, 8192, 4096), (16, 2000, 1000)),
        {"BLOCK_T": (16, 32, 64, 128, 256), "BLOCK_D": (8, 16, 32, 64, 128), "num_warps": (1, 2, 4, 8),
         "num_stages": (1, 3)},
        args=lambda p, c: {
            **dict.fromkeys(("x_ptr", "gate_ptr", "out_ptr"), Tensor("bfloat16", (p["batch"], p["seq"], p["width"]))),
            "seq": p["seq"], "width": p["width"]},
        grid=lambda p, c: (cdiv(p["width"], c["BLOCK_D"]), p["batch"]),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=scan_want,
        keep=lambda p, c: 2 <= c["BLOCK_T"] * c["BLOCK_D"] / (32 * c["num_warps"]) <= 64,
    ),
    Subject(
        "rms_norm_residual", zoo.rms_norm_residual,
        shapes("rows cols", (8192, 4096), (512, 8192), (20000, 1536)),
        {"ROWS": (1, 2, 4, 8), "programs": (132, 264, 528, 1056), "num_warps": (2, 4, 8, 16), "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            **dict.fromkeys(("x_ptr", "residual_ptr", "out_ptr"), Tensor("bfloat16", (p["rows"], p["cols"]))),
            "weight_ptr": Tensor("bfloat16", (p["cols"],)), "rows": p["rows"], "cols": p["cols"], "eps": 1e-6,
            "programs": c["programs"]},
        grid=lambda p, c: (c["programs"],), constants=lambda p: {"COLS": pow2_up(p["cols"])},
        outputs=("out_ptr",), in_place=("residual_ptr",), got=lambda p, c, t: (t["residual_ptr"], t["out_ptr"]),
        want=rms_norm_want, keep=lambda p, c: elements(c, c["ROWS"] * pow2_up(p["cols"])),
    ),
    Subject(
        "rms_norm_backward", zoo.rms_norm_backward,
        shapes("rows cols", (8192, 4096), (2048, 12288), (16384, 2000)),
        {"programs": (66, 132, 264, 528, 1056), "num_warps": (2, 4, 8, 16), "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            **dict.fromkeys(("x_ptr", "dy_ptr", "dx_ptr"), Tensor("bfloat16", (p["rows"], p["cols"]))),
            "weight_ptr": Tensor("bfloat16", (p["cols"],)),
            "partial_ptr": Tensor("float32", (c["programs"], p["cols"])), "rows": p["rows"], "cols": p["cols"],
            "eps": 1e-6, "programs": c["programs"]},
        grid=lambda p, c: (c["programs"],), constants=lambda p: {"COLS": pow2_up(p["cols"])},
        outputs=("dx_ptr", "partial_ptr"), got=lambda p, c, t: (t["dx_ptr"], t["partial_ptr"].sum(0)),
        want=rms_backward_want, keep=lambda p, c: elements(c, pow2_up(p["cols"])),
    ),
    Subject(
        "softmax_long", zoo.softmax_long,
        shapes("rows cols", (512, 131072), (2048, 32768), (100, 1000000)),
        {"BLOCK": (512, 1024, 2048, 4096, 8192, 16384), "num_warps": (2, 4, 8, 16, 32), "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            **dict.fromkeys(("x_ptr", "out_ptr"), Tensor("bfloat16", (p["rows"], p["cols"]))), "cols": p["cols"]},
        grid=lambda p, c: (p["rows"],),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=lambda p, t: t["x_ptr"].float().softmax(-1),
        keep=lambda p, c: elements(c, c["BLOCK"]),
    ),
    Subject(
        "swiglu_halves", zoo.swiglu_halves,
        shapes("tokens width", (4096, 11008), (300, 14336), (16384, 1400)),
        {"BLOCK_T": (1, 2, 4, 8, 16), "BLOCK_D": (64, 128, 256, 512, 1024, 2048), **FLAT},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["tokens"], 2 * p["width"])),
            "out_ptr": Tensor("bfloat16", (p["tokens"], p["width"])), "tokens": p["tokens"], "width": p["width"]},
        grid=lambda p, c: (cdiv(p["width"], c["BLOCK_D"]), cdiv(p["tokens"], c["BLOCK_T"])),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=swiglu_want,
        keep=lambda p, c: elements(c, c["BLOCK_T"] * c["BLOCK_D"]),
    ),
    Subject(
        "rotary_in_place", zoo.rotary_in_place,
        shapes("tokens heads half", (8192, 32, 64), (4096, 64, 32), (1000, 40, 64)),
        {"BLOCK_T": (1, 2, 4, 8, 16), "BLOCK_H": (1, 2, 4, 8, 16, 32), **FLAT},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["tokens"], p["heads"], 2 * p["half"])),
            **dict.fromkeys(("cos_ptr", "sin_ptr"), Tensor("float32", (4096, p["half"]))),
            "position_ptr": Tensor("int32", (p["tokens"],)), "tokens": p["tokens"], "heads": p["heads"]},
        grid=lambda p, c: (cdiv(p["tokens"], c["BLOCK_T"]), cdiv(p["heads"], c["BLOCK_H"])),
        constants=lambda p: {"HALF": p["half"]},
        values=lambda p: {"position_ptr": token_ids(p, 4096, np.int32)},
        outputs=(), in_place=("x_ptr",), got=lambda p, c, t: t["x_ptr"], want=rotary_want,
        keep=lambda p, c: elements(c, c["BLOCK_T"] * c["BLOCK_H"] * p["half"]),
    ),
    Subject(
        "causal_conv1d", zoo.causal_conv1d,
        shapes("batch seq width taps", (4, 4096, 5120, 4), (16, 1024, 2048, 4), (3, 5000, 1800, 4)),
        {"BLOCK_T": (1, 2, 4, 8, 16, 32, 64), "BLOCK_D": (32, 64, 128, 256, 512), **FLAT},
        args=lambda p, c: {
            **dict.fromkeys(("x_ptr", "out_ptr"), Tensor("bfloat16", (p["batch"], p["seq"], p["width"]))),
            "weight_ptr": Tensor("bfloat16", (p["taps"], p["width"])), "bias_ptr": Tensor("bfloat16", (p["width"],)),
            "seq": p["seq"], "width": p["width"]},
        grid=lambda p, c: (cdiv(p["width"], c["BLOCK_D"]), cdiv(p["seq"], c["BLOCK_T"]), p["batch"]),
        constants=lambda p: {"TAPS": p["taps"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=conv1d_want,
        keep=lambda p, c: elements(c, c["BLOCK_T"] * c["BLOCK_D"]),
    ),
    Subject(
        "gather_rows", zoo.gather_rows,
        shapes("tokens seq vocabulary cols", (8192, 2048, 32000, 4096), (32768, 4096, 128256, 1024),
               (5000, 1000, 50257, 1600)),
        {"ROWS": (1, 2, 4, 8, 16), "BLOCK": (64, 128, 256, 512, 1024, 2048), **FLAT},
        args=lambda p, c: {
            "id_ptr": Tensor("int64", (p["tokens"],)), "table_ptr": Tensor("bfloat16", (p["vocabulary"], p["cols"])),
            "place_ptr": Tensor("bfloat16", (p["seq"], p["cols"])),
            "out_ptr": Tensor("bfloat16", (p["tokens"], p["cols"])), "tokens": p["tokens"], "cols": p["cols"],
            "seq": p["seq"], "scale": p["cols"] ** 0.5},
        grid=lambda p, c: (cdiv(p["tokens"], c["ROWS"]), cdiv(p["cols"], c["BLOCK"])),
        values=lambda p: {"id_ptr": token_ids(p, p["vocabulary"], np.int64)},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=gather_want,
        keep=lambda p, c: elements(c, c["ROWS"] * c["BLOCK"]),
    ),
    Subject(
        "scatter_add_rows", zoo.scatter_add_rows,
        shapes("tokens top cols", (2048, 8, 2048), (4096, 2, 4096), (700, 6, 3000)),
        {"ROWS": (1, 2, 4, 8, 16), "BLOCK": (64, 128, 256, 512, 1024, 2048), **FLAT},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["tokens"] * p["top"], p["cols"])),
            "weight_ptr": Tensor("float32", (p["tokens"] * p["top"],)),
            "id_ptr": Tensor("int32", (p["tokens"] * p["top"],)),
            "out_ptr": Tensor("float32", (p["tokens"], p["cols"])), "rows": p["tokens"] * p["top"], "cols": p["cols"]},
        grid=lambda p, c: (cdiv(p["cols"], c["BLOCK"]), cdiv(p["tokens"] * p["top"], c["ROWS"])),
        values=lambda p: {"id_ptr": expert_targets(p)},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=scatter_want,
        keep=lambda p, c: elements(c, c["ROWS"] * c["BLOCK"]),
    ),
    Subject(
        "radix_histogram", zoo.radix_histogram,
        shapes("n bins shift", (1 << 25, 256, 24), (1 << 22, 16, 8), (30_000_001, 64, 10)),
        {"BLOCK": (256, 512, 1024, 2048, 4096), "STEPS": (1, 4, 16, 64), "num_warps": (1, 2, 4, 8, 16),
         "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            "key_ptr": Tensor("int32", (p["n"],)), "count_ptr": Tensor("int32", (p["bins"],)), "n": p["n"],
            "shift": p["shift"]},
        grid=lambda p, c: (cdiv(p["n"], c["BLOCK"] * c["STEPS"]),), constants=lambda p: {"BINS": p["bins"]},
        outputs=("count_ptr",), got=lambda p, c, t: t["count_ptr"], want=histogram_want,
        keep=lambda p, c: elements(c, c["BLOCK"]) and p["bins"] <= c["BLOCK"], tolerance=0.0,
    ),
    Subject(
        "column_moments", zoo.column_moments,
        shapes("rows cols", (16384, 4096), (200000, 256), (5000, 12000)),
        {"BLOCK_R": (4, 8, 16, 32, 64), "BLOCK_C": (32, 64, 128, 256), "STEPS": (1, 4, 16, 64),
         "num_warps": (2, 4, 8), "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["rows"], p["cols"])),
            **dict.fromkeys(("sum_ptr", "square_ptr"), Tensor("float32", (p["cols"],))), "rows": p["rows"],
            "cols": p["cols"]},
        grid=lambda p, c: (cdiv(p["cols"], c["BLOCK_C"]), cdiv(p["rows"], c["BLOCK_R"] * c["STEPS"])),
        outputs=("sum_ptr", "square_ptr"), got=lambda p, c, t: (t["sum_ptr"], t["square_ptr"]), want=moments_want,
        keep=lambda p, c: elements(c, c["BLOCK_R"] * c["BLOCK_C"]),
    ),
    Subject(
        "transpose_pad", zoo.transpose_pad,
        shapes("batch rows cols padded", (1, 8192, 8192, 8320), (64, 1000, 512, 1024), (12, 3000, 1300, 3072)),
        {"BLOCK_R": (8, 16, 32, 64, 128), "BLOCK_C": (8, 16, 32, 64, 128), **FLAT},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["batch"], p["rows"], p["cols"])),
            "out_ptr": Tensor("bfloat16", (p["batch"], p["cols"], p["padded"])), "rows": p["rows"], "cols": p["cols"],
            "padded": p["padded"], "fill": -1.5},
        grid=lambda p, c: (cdiv(p["padded"], c["BLOCK_R"]), cdiv(p["cols"], c["BLOCK_C"]), p["batch"]),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=transpose_want,
        keep=lambda p, c: elements(c, c["BLOCK_R"] * c["BLOCK_C"]),
    ),
    Subject(
        "max_pool", zoo.max_pool,
        shapes("images height width channels side stride pad", (64, 112, 112, 64, 3, 2, 1), (32, 56, 56, 256, 2, 2, 0),
               (8, 75, 99, 200, 3, 1, 1)),
        {"BLOCK_P": (1, 2, 4, 8, 16, 32, 64), "BLOCK_C": (16, 32, 64, 128, 256), **FLAT},
        args=lambda p, c: {
            "x_ptr": Tensor("float16", (p["images"], p["height"], p["width"], p["channels"])),
            "out_ptr": Tensor("float16", (p["images"], *pooled(p), p["channels"])), "images": p["images"],
            "height": p["height"], "width": p["width"], "channels": p["channels"], "high": pooled(p)[0],
            "wide": pooled(p)[1]},
        grid=lambda p, c: (cdiv(p["images"] * math.prod(pooled(p)), c["BLOCK_P"]), cdiv(p["channels"], c["BLOCK_C"])),
        constants=lambda p: {"SIDE": p["side"], "STRIDE": p["stride"], "PAD": p["pad"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=pool_want,
        keep=lambda p, c: elements(c, c["BLOCK_P"] * c["BLOCK_C"])
        and c["BLOCK_C"] <= pow2_up(p["channels"]),
    ),
]  # fmt: skip
SUBJECTS = [replace(subject, unseen=i % 2 == 1) for i, subject in enumerate(LISTED)]

SMALL = {
    "matmul_stream_k": shapes("M N K", (150, 320, 512)),
    "matmul_block_ptr": shapes("M N K", (150, 272, 144)),
    "matmul_gelu_residual": shapes("M N K", (150, 272, 256)),
    "matmul_lora": shapes("M N K rank scale", (150, 256, 256, 16, 2.0)),
    "matmul_int8": shapes("M N K", (150, 272, 512)),
    "matmul_fp8_rows": shapes("M N K", (150, 256, 512)),
    "batched_gemm": shapes("batch M N K", (5, 48, 40, 32)),
    "matmul_block_sparse": shapes("tokens N K side density", (150, 256, 512, 64, 0.3)),
    "matmul_split_epilogue": shapes("M N K", (300, 512, 256)),
    "mla_decode": shapes("batch heads length", (3, 64, 200)),
    "alibi_attention": shapes("heads seq head", (3, 200, 256)),
    "varlen_attention": shapes("batch longest heads kv_heads head", (3, 200, 4, 2, 64)),
    "attention_dkdv": shapes("heads seq head", (2, 200, 64)),
    "gated_scan": shapes("batch seq width", (2, 50, 24)),
    "rms_norm_residual": shapes("rows cols", (45, 4000)),
    "rms_norm_backward": shapes("rows cols", (600, 2000)),
    "softmax_long": shapes("rows cols", (3, 40000)),
    "swiglu_halves": shapes("tokens width", (11, 1400)),
    "rotary_in_place": shapes("tokens heads half", (30, 10, 64)),
    "causal_conv1d": shapes("batch seq width taps", (2, 37, 300, 4)),
    "gather_rows": shapes("tokens seq vocabulary cols", (21, 20, 100, 1600)),
    "scatter_add_rows": shapes("tokens top cols", (10, 3, 1000)),
    "radix_histogram": shapes("n bins shift", (70001, 64, 10)),
    "column_moments": shapes("rows cols", (500, 300)),
    "transpose_pad": shapes("batch rows cols padded", (2, 150, 140, 256)),
    "max_pool": shapes("images height width channels side stride pad", (2, 9, 13, 20, 3, 2, 1)),
}
"""A problem of each kernel for Triton's interpreter."""
