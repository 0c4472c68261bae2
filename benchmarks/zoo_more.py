"""The 26 kernels of `kernels/triton_zoo_more.py` as `zoo.py` measures them.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured or ranked. Neighbours are of a kind, so that both halves hold something of each.
"""

from __future__ import annotations

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


def mla_got(p: Problem, c: Config, t: Arrays) -> Any:
    import torch

    parts, lse = t["out_ptr"], t["lse_ptr"][..., None]
    weight = torch.exp2(lse - lse.amax(1, keepdim=True))
    return (parts * weight).sum(1) / weight.sum(1)


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
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
        keep=lambda p, c: per_thread(c, c["BLOCK_M"] * (c["BLOCK_N"] + p["rank"]))
        and stages(c, (c["BLOCK_M"] + c["BLOCK_N"] + p["rank"]) * c["BLOCK_K"] * 2),
    ),
    Subject(
        "matmul_int8", zoo.matmul_int8,
        shapes("M N K", (4096, 4096, 4096), (32, 8192, 8192), (777, 3072, 4096)),
        TILE | {"BLOCK_K": (32, 64, 128, 256)} | PIPE | {"GROUP_M": (8,)},
        args=lambda p, c: scaled_matmul(p, "int8"),
        grid=lambda p, c: (tiles(p, c),),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"],
        keep=lambda p, c: fits(c, 1),
    ),
    Subject(
        "matmul_fp8_rows", zoo.matmul_fp8_rows,
        shapes("M N K", (4096, 4096, 4096), (64, 7168, 8192), (3000, 2048, 2048)),
        TILE | {"DOTS": (1, 2, 4)} | PIPE,
        args=lambda p, c: scaled_matmul(p, "float8_e4m3"),
        grid=lambda p, c: (tiles(p, c),),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"],
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
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"],
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
        outputs=("out_ptr", "lse_ptr"), got=mla_got,
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("dk_ptr", "dv_ptr"), got=lambda p, c, t: (t["dk_ptr"], t["dv_ptr"]),
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        keep=lambda p, c: elements(c, c["ROWS"] * pow2_up(p["cols"])),
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
        keep=lambda p, c: elements(c, pow2_up(p["cols"])),
    ),
    Subject(
        "softmax_long", zoo.softmax_long,
        shapes("rows cols", (512, 131072), (2048, 32768), (100, 1000000)),
        {"BLOCK": (512, 1024, 2048, 4096, 8192, 16384), "num_warps": (2, 4, 8, 16, 32), "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            **dict.fromkeys(("x_ptr", "out_ptr"), Tensor("bfloat16", (p["rows"], p["cols"]))), "cols": p["cols"]},
        grid=lambda p, c: (p["rows"],),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=(), in_place=("x_ptr",), got=lambda p, c, t: t["x_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("count_ptr",), got=lambda p, c, t: t["count_ptr"],
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
        outputs=("sum_ptr", "square_ptr"), got=lambda p, c, t: (t["sum_ptr"], t["square_ptr"]),
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
        keep=lambda p, c: elements(c, c["BLOCK_P"] * c["BLOCK_C"])
        and c["BLOCK_C"] <= pow2_up(p["channels"]),
    ),
]  # fmt: skip
SUBJECTS = [replace(subject, unseen=i % 2 == 1) for i, subject in enumerate(LISTED)]
