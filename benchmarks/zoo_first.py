"""The 13 kernels of `kernels/triton_zoo.py` as `zoo.py` measures them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kernels import triton_zoo as zoo
from zoo_subject import PIPE, SMS, TILE, Arrays, Config, Problem, Subject, cdiv, per_thread, stages, tiles

from carver.compiled.binary import Tensor

QKVO = ("q_ptr", "k_ptr", "v_ptr", "out_ptr")


def seq_lengths(p: Problem) -> np.ndarray:
    drawn = np.random.default_rng(5).integers(p["length"] // 2, p["length"] + 1, p["batch"])
    return drawn.astype(np.int32)


def page_table(p: Problem) -> np.ndarray:
    pages = p["length"] // p["page"]
    return np.random.default_rng(6).permutation(p["batch"] * pages).astype(np.int32).reshape(p["batch"], pages)


def group_starts(p: Problem) -> np.ndarray:
    share = np.random.default_rng(7).dirichlet(np.full(p["groups"], 4.0))
    ends = np.round(np.cumsum(share) * p["M"]).astype(np.int32)
    ends[-1] = p["M"]
    return np.concatenate([[0], ends]).astype(np.int32)


def decode_got(p: Problem, c: Config, t: Arrays) -> Any:
    import torch

    parts = t["out_ptr"].view(p["batch"] * p["heads"], c["splits"], p["head"])
    lse = t["lse_ptr"].view(p["batch"] * p["heads"], c["splits"], 1)
    weight = torch.exp2(lse - lse.amax(1, keepdim=True))
    return (parts * weight).sum(1) / weight.sum(1)


def conv_out(p: Problem) -> tuple[int, int]:
    return tuple((p[n] + 2 * p["pad"] - p["r"]) // p["stride"] + 1 for n in ("h", "w"))  # type: ignore[return-value]


def matmul_args(p: Problem, b: tuple[int, int], out: str = "float16") -> dict[str, Any]:
    return {
        "a_ptr": Tensor("float16", (p["M"], p["K"])), "b_ptr": Tensor("float16", b),
        "c_ptr": Tensor(out, (p["M"], p["N"])), "M": p["M"], "N": p["N"], "K": p["K"],
    }  # fmt: skip


def qkv(p: Problem, kv_heads: int) -> dict[str, Any]:
    q, kv = (Tensor("float16", (p["batch"], heads, p["seq"], p["head"])) for heads in (p["heads"], kv_heads))
    return {"q_ptr": q, "k_ptr": kv, "v_ptr": kv, "out_ptr": q}


SUBJECTS = [
    Subject(
        "causal_attention", zoo.causal_attention,
        tuple({"batch": b, "heads": h, "kv_heads": kv, "seq": s, "head": d}
              for b, h, kv, s, d in ((2, 32, 8, 4096, 128), (8, 16, 16, 1024, 64), (1, 24, 24, 3000, 128),
                                     (1, 32, 8, 8192, 128), (16, 12, 12, 512, 64))),
        {"BLOCK_M": (32, 64, 128), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3, 4)},
        args=lambda p, c: qkv(p, p["kv_heads"]) | {
            "scale": p["head"] ** -0.5, "seq": p["seq"], "stride_z": p["heads"] * p["seq"] * p["head"],
            "stride_h": p["seq"] * p["head"], "stride_kz": p["kv_heads"] * p["seq"] * p["head"],
            "stride_kh": p["seq"] * p["head"], "stride_s": p["head"]},
        grid=lambda p, c: (cdiv(p["seq"], c["BLOCK_M"]), p["heads"], p["batch"]),
        constants=lambda p: {"GROUP": p["heads"] // p["kv_heads"], "HEAD": p["head"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
        keep=lambda p, c: c["BLOCK_N"] <= c["BLOCK_M"],
    ),
    Subject(
        "window_attention", zoo.window_attention,
        tuple({"batch": 1, "heads": h, "seq": s, "head": d, "window": w}
              for h, s, d, w in ((32, 8192, 128, 1024), (64, 4096, 64, 512))),
        {"BLOCK_M": (32, 64, 128), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3, 4)},
        args=lambda p, c: {
            **dict.fromkeys(QKVO, Tensor("bfloat16", (p["heads"], p["seq"], p["head"]))),
            "scale": p["head"] ** -0.5, "seq": p["seq"], "window": p["window"], "stride_h": p["seq"] * p["head"],
            "stride_s": p["head"]},
        grid=lambda p, c: (cdiv(p["seq"], c["BLOCK_M"]), p["heads"]),
        constants=lambda p: {"HEAD": p["head"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], unseen=True,
    ),
    Subject(
        "paged_decode", zoo.paged_decode,
        tuple({"batch": b, "heads": h, "kv_heads": kv, "length": n, "head": 128, "page": 16}
              for b, h, kv, n in ((16, 32, 8, 4096), (1, 64, 8, 32768), (64, 32, 8, 1024))),
        {"BLOCK_N": (16, 32, 64, 128), "splits": (1, 2, 4, 8, 16, 32), "num_warps": (1, 2, 4, 8),
         "num_stages": (1, 2, 3, 4)},
        args=lambda p, c: {
            "q_ptr": Tensor("float16", (p["batch"], p["heads"], p["head"])),
            **{n: Tensor("float16", (p["batch"] * p["length"], p["kv_heads"], p["head"])) for n in ("k_ptr", "v_ptr")},
            "table_ptr": Tensor("int32", (p["batch"], p["length"] // p["page"])),
            "length_ptr": Tensor("int32", (p["batch"],)),
            "out_ptr": Tensor("float32", (p["batch"] * p["heads"], c["splits"], p["head"])),
            "lse_ptr": Tensor("float32", (p["batch"] * p["heads"], c["splits"])),
            "scale": p["head"] ** -0.5, "pages": p["length"] // p["page"], "splits": c["splits"]},
        grid=lambda p, c: (p["batch"], p["kv_heads"], c["splits"]),
        constants=lambda p: {"GROUP": p["heads"] // p["kv_heads"], "HEADS": p["kv_heads"], "HEAD": p["head"],
                             "PAGE": p["page"], "ROWS": 16},
        values=lambda p: {"length_ptr": seq_lengths(p), "table_ptr": page_table(p)},
        outputs=("out_ptr", "lse_ptr"), got=decode_got, unseen=True,
    ),
    Subject(
        "matmul_split_k", zoo.matmul_split_k,
        ({"M": 16, "N": 6144, "K": 4096}, {"M": 128, "N": 4096, "K": 11008}, {"M": 1024, "N": 1024, "K": 8192},
         {"M": 32, "N": 14336, "K": 4096}, {"M": 512, "N": 2048, "K": 4096}),
        TILE | PIPE | {"SPLIT_K": (1, 2, 4, 8)},
        args=lambda p, c: matmul_args(p, (p["K"], p["N"]), out="float32") | {
            "stride_am": p["K"], "stride_bk": p["N"], "stride_cm": p["N"]},
        grid=lambda p, c: (tiles(p, c), c["SPLIT_K"]),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"],
        keep=lambda p, c: per_thread(c, c["BLOCK_M"] * c["BLOCK_N"])
        and stages(c, (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * 2),
    ),
    Subject(
        "matmul_persistent", zoo.matmul_persistent,
        ({"M": 4096, "N": 4096, "K": 4096}, {"M": 2048, "N": 8192, "K": 2048}, {"M": 8192, "N": 1024, "K": 1024},
         {"M": 8192, "N": 8192, "K": 4096}, {"M": 1024, "N": 14336, "K": 4096}),
        TILE | PIPE | {"GROUP_M": (8,)},
        args=lambda p, c: matmul_args(p, (p["N"], p["K"])),
        grid=lambda p, c: (min(SMS, tiles(p, c)),),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"],
        keep=lambda p, c: c["BLOCK_M"] >= 64 and per_thread(c, c["BLOCK_M"] * c["BLOCK_N"])
        and stages(c, (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * 2, c["BLOCK_M"] * c["BLOCK_N"] * 2),
    ),
    Subject(
        "matmul_int4", zoo.matmul_int4,
        tuple({"M": m, "N": n, "K": k, "quant": 128}
              for m, n, k in ((16, 8192, 8192), (256, 4096, 4096), (2048, 4096, 4096))),
        {**TILE, "BLOCK_N": (32, 64, 128), **PIPE},
        args=lambda p, c: {
            "x_ptr": Tensor("float16", (p["M"], p["K"])), "w_ptr": Tensor("int32", (p["K"] // 8, p["N"])),
            "scale_ptr": Tensor("float16", (p["K"] // p["quant"], p["N"])),
            "out_ptr": Tensor("float16", (p["M"], p["N"])),
            "M": p["M"], "N": p["N"], "K": p["K"], "stride_x": p["K"], "stride_w": p["N"], "stride_s": p["N"],
            "stride_o": p["N"]},
        grid=lambda p, c: (tiles(p, c),), constants=lambda p: {"QUANT": p["quant"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
        keep=lambda p, c: c["BLOCK_M"] <= 128 and c["BLOCK_K"] <= p["quant"]
        and per_thread(c, c["BLOCK_M"] * c["BLOCK_N"], 128),
    ),
    Subject(
        "gated_matmul", zoo.gated_matmul,
        tuple({"M": m, "N": n, "K": k, "dtype": "bfloat16"} for m, n, k in ((4096, 5632, 2048), (256, 14336, 4096))),
        TILE | PIPE | {"GROUP_M": (8,)},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["M"], p["K"])), "gate_ptr": Tensor("bfloat16", (p["N"], p["K"])),
            "up_ptr": Tensor("bfloat16", (p["N"], p["K"])), "out_ptr": Tensor("bfloat16", (p["M"], p["N"])),
            "M": p["M"], "N": p["N"], "K": p["K"], "stride_x": p["K"], "stride_w": p["K"], "stride_o": p["N"]},
        grid=lambda p, c: (tiles(p, c),),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
        keep=lambda p, c: c["BLOCK_M"] >= 32 and c["BLOCK_N"] <= 128 and per_thread(c, 2 * c["BLOCK_M"] * c["BLOCK_N"])
        and stages(c, (c["BLOCK_M"] + 2 * c["BLOCK_N"]) * c["BLOCK_K"] * 2), unseen=True,
    ),
    Subject(
        "grouped_gemm", zoo.grouped_gemm,
        tuple({"M": m, "N": n, "K": k, "groups": g} for m, n, k, g in ((4096, 2816, 2048, 16), (1024, 4096, 1536, 64))),
        {**TILE, **PIPE},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["M"], p["K"])), "w_ptr": Tensor("bfloat16", (p["groups"], p["N"], p["K"])),
            "out_ptr": Tensor("bfloat16", (p["M"], p["N"])), "start_ptr": Tensor("int32", (p["groups"] + 1,)),
            "N": p["N"], "K": p["K"], "stride_x": p["K"], "stride_e": p["N"] * p["K"], "stride_w": p["K"],
            "stride_o": p["N"]},
        grid=lambda p, c: (SMS * 2,), constants=lambda p: {"GROUPS": p["groups"]},
        values=lambda p: {"start_ptr": group_starts(p)},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
        keep=lambda p, c: c["BLOCK_M"] <= 128 and per_thread(c, c["BLOCK_M"] * c["BLOCK_N"])
        and stages(c, (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * 2),
    ),
    Subject(
        "layer_norm", zoo.layer_norm,
        tuple({"rows": r, "cols": n} for r, n in ((8192, 4096), (1024, 16384), (65536, 768))),
        {"BLOCK": (256, 512, 1024, 2048, 4096, 8192), "num_warps": (1, 2, 4, 8, 16), "num_stages": (1, 3)},
        args=lambda p, c: {
            "x_ptr": Tensor("float16", (p["rows"], p["cols"])), "weight_ptr": Tensor("float16", (p["cols"],)),
            "bias_ptr": Tensor("float16", (p["cols"],)), "out_ptr": Tensor("float16", (p["rows"], p["cols"])),
            "stride": p["cols"], "cols": p["cols"], "eps": 1e-5},
        grid=lambda p, c: (p["rows"],),
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
        keep=lambda p, c: 1 <= c["BLOCK"] / (32 * c["num_warps"]) <= 128,
    ),
    Subject(
        "quantise_groups", zoo.quantise_groups,
        tuple({"rows": r, "cols": n} for r, n in ((4096, 7168), (256, 4096), (32768, 2048))),
        {"ROWS": (1, 2, 4, 8, 16), "GROUPS": (1, 2, 4, 8, 16), "num_warps": (1, 2, 4, 8), "num_stages": (1,)},
        args=lambda p, c: {
            "x_ptr": Tensor("bfloat16", (p["rows"], p["cols"])), "q_ptr": Tensor("float8_e4m3", (p["rows"], p["cols"])),
            "scale_ptr": Tensor("float32", (p["rows"], p["cols"] // 128)), "rows": p["rows"], "cols": p["cols"]},
        grid=lambda p, c: (cdiv(p["rows"], c["ROWS"]), cdiv(p["cols"] // 128, c["GROUPS"])),
        constants=lambda p: {"GROUP": 128},
        outputs=("q_ptr", "scale_ptr"),
        got=lambda p, c, t: t["q_ptr"].float() * t["scale_ptr"].repeat_interleave(128, 1),
        tolerance=0.07, unseen=True,
        keep=lambda p, c: 4 <= c["ROWS"] * c["GROUPS"] * 128 / (32 * c["num_warps"]) <= 128,
    ),
    Subject(
        "cross_entropy", zoo.cross_entropy,
        tuple({"rows": r, "cols": n} for r, n in ((4096, 32000), (2048, 128256))),
        {"BLOCK": (512, 1024, 2048, 4096, 8192, 16384, 32768), "num_warps": (2, 4, 8, 16, 32), "num_stages": (1, 2, 3)},
        args=lambda p, c: {
            "logits_ptr": Tensor("bfloat16", (p["rows"], p["cols"])), "target_ptr": Tensor("int64", (p["rows"],)),
            "loss_ptr": Tensor("float32", (p["rows"],)), "vocabulary": p["cols"], "stride": p["cols"]},
        grid=lambda p, c: (p["rows"],),
        values=lambda p: {"target_ptr": np.random.default_rng(8).integers(0, p["cols"], p["rows"])},
        outputs=("loss_ptr",), in_place=("logits_ptr",), got=lambda p, c, t: t["loss_ptr"],
        unseen=True,
        keep=lambda p, c: 2 <= c["BLOCK"] / (32 * c["num_warps"]) <= 128,
    ),
    Subject(
        "linear_attention", zoo.linear_attention,
        tuple({"heads": h, "seq": s, "head": d} for h, s, d in ((64, 4096, 128), (256, 1024, 64))),
        {"CHUNK": (16, 32, 64, 128), "BLOCK_V": (16, 32, 64, 128), "num_warps": (2, 4, 8), "num_stages": (1, 2, 3, 4)},
        args=lambda p, c: {
            **dict.fromkeys(QKVO, Tensor("bfloat16", (p["heads"], p["seq"], p["head"]))),
            "seq": p["seq"], "stride_h": p["seq"] * p["head"], "stride_s": p["head"], "scale": p["head"] ** -0.5},
        grid=lambda p, c: (p["head"] // c["BLOCK_V"], p["heads"]),
        constants=lambda p: {"HEAD": p["head"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"],
        keep=lambda p, c: c["BLOCK_V"] <= p["head"] and per_thread(c, p["head"] * c["BLOCK_V"], 128),
    ),
    Subject(
        "conv2d", zoo.conv2d,
        tuple({"n": n, "h": h, "w": h, "c": c, "f": f, "r": r, "stride": s, "pad": r // 2}
              for n, h, c, f, r, s in ((32, 56, 64, 64, 3, 1), (32, 28, 128, 256, 3, 2), (16, 14, 512, 512, 3, 1))),
        {"BLOCK_M": (32, 64, 128, 256), "BLOCK_N": (32, 64, 128), "BLOCK_K": (32, 64), **PIPE},
        args=lambda p, c: {
            "x_ptr": Tensor("float16", (p["n"], p["h"], p["w"], p["c"])),
            "w_ptr": Tensor("float16", (p["f"], p["r"], p["r"], p["c"])),
            "out_ptr": Tensor("float16", (p["n"], *conv_out(p), p["f"])),
            "N": p["n"], "H": p["h"], "W": p["w"], "C": p["c"], "F": p["f"], "P": conv_out(p)[0], "Q": conv_out(p)[1]},
        grid=lambda p, c: (cdiv(p["n"] * math.prod(conv_out(p)), c["BLOCK_M"]), cdiv(p["f"], c["BLOCK_N"])),
        constants=lambda p: {"R": p["r"], "S": p["r"], "STRIDE": p["stride"], "PAD": p["pad"]},
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], unseen=True,
        keep=lambda p, c: per_thread(c, c["BLOCK_M"] * c["BLOCK_N"], 128),
    ),
]  # fmt: skip
