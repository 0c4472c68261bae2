"""Measure the kernels of `kernels/triton_zoo.py` on the GPU of this machine, and score carver's ranking of each.

    python benchmarks/zoo.py measure --out FILE.jsonl [--only NAME,...] [--limit 540] [--configs 33]
    python benchmarks/zoo.py score FILE.jsonl [--only NAME,...] [--arch h200]

`measure` compiles all configurations side by side, each bounded in time, then checks every one against PyTorch and
times it: median of nine runs, L2 flushed before each, inputs drawn anew. A line of JSON is written for each
configuration as it is found out, so that nothing measured is lost; a second call goes on where the first ended. Needs
PyTorch and Triton. `score` ranks the same
configurations by what the compiler makes of them, with no GPU. Kernels marked `unseen` were not looked at while that
model was built; they are summed up apart.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from kernels import triton_zoo as zoo  # noqa: E402

from carver.base.errors import ConfigError  # noqa: E402
from carver.base.given import text_of  # noqa: E402
from carver.compiled.arguments import Tensor  # noqa: E402

Problem = Mapping[str, Any]
Config = Mapping[str, Any]
Arrays = dict[str, Any]

CONFIGS, RUNS, COMPILE_S = 33, 9, 60.0
SMS = 132
"""Programs of a persistent kernel on the GPU that is measured."""
QKVO = ("q_ptr", "k_ptr", "v_ptr", "out_ptr")
TORCH = {"float8_e4m3": "float8_e4m3fn"}


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def pow2(**of: int) -> dict[str, tuple[int, ...]]:
    return {name: tuple(1 << i for i in range(last.bit_length())) for name, last in of.items()}


@dataclass(frozen=True)
class Subject:
    """A kernel, its problems and tunables; `args` names every argument: tensors by type and shape, numbers by value."""

    name: str
    kernel: Any
    problems: tuple[Problem, ...]
    space: Mapping[str, tuple[int, ...]]
    args: Callable[[Problem, Config], dict[str, Any]]
    grid: Callable[[Problem, Config], tuple[int, ...]]
    outputs: tuple[str, ...]
    got: Callable[[Problem, Config, Arrays], Any]
    want: Callable[[Problem, Arrays], Any]
    constants: Callable[[Problem], dict[str, Any]] = lambda p: {}
    values: Callable[[Problem], dict[str, Any]] = lambda p: {}
    """What integer tensors hold."""
    keep: Callable[[Problem, Config], bool] = lambda p, c: True
    in_place: tuple[str, ...] = ()
    tolerance: float = 0.02
    """Of the largest magnitude of the result."""
    unseen: bool = False

    def configs(self, problem: Problem, count: int) -> list[dict[str, int]]:
        every = [dict(zip(self.space, v, strict=True)) for v in itertools.product(*self.space.values())]
        kept = [c for c in every if self.keep(problem, c)]
        return random.Random(self.name).sample(kept, min(count, len(kept)))


def stages(c: Config, bytes_each: int, extra: int = 0) -> bool:
    """Whether the buffers of all stages fit 227 KiB."""
    return bytes_each * c["num_stages"] + extra <= 227 * 1024


def per_thread(c: Config, accumulators: int, most: int = 256) -> bool:
    return 2 <= accumulators / (32 * c["num_warps"]) <= most


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


def attention_want(p: Problem, t: Arrays) -> Any:
    import torch

    grouped = p["heads"] != p["kv_heads"]
    return torch.nn.functional.scaled_dot_product_attention(
        t["q_ptr"], t["k_ptr"], t["v_ptr"], is_causal=True, enable_gqa=grouped
    )


def window_want(p: Problem, t: Arrays) -> Any:
    import torch

    i = torch.arange(p["seq"], device="cuda")
    seen = (i[:, None] >= i[None, :]) & (i[:, None] - i[None, :] < p["window"])
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k, v = (t[name][:, None, None] for name in ("q_ptr", "k_ptr", "v_ptr"))
    heads = [attend(q[h], k[h], v[h], seen) for h in range(p["heads"])]
    return torch.cat(heads)[:, 0]


def decode_got(p: Problem, c: Config, t: Arrays) -> Any:
    import torch

    parts = t["out_ptr"].view(p["batch"] * p["heads"], c["splits"], p["head"])
    lse = t["lse_ptr"].view(p["batch"] * p["heads"], c["splits"], 1)
    weight = torch.exp2(lse - lse.amax(1, keepdim=True))
    return (parts * weight).sum(1) / weight.sum(1)


def decode_want(p: Problem, t: Arrays) -> Any:
    import torch

    out = []
    group = p["heads"] // p["kv_heads"]
    for b, n in enumerate(seq_lengths(p)):
        rows = t["table_ptr"][b].long()
        paged = (t[name].view(-1, p["page"], p["kv_heads"], p["head"]) for name in ("k_ptr", "v_ptr"))
        k, v = (x[rows].flatten(0, 1)[:n] for x in paged)
        q = t["q_ptr"][b].view(p["kv_heads"], group, p["head"]).float()
        s = torch.einsum("hgd,nhd->hgn", q, k.float()) / p["head"] ** 0.5
        out.append(torch.einsum("hgn,nhd->hgd", s.softmax(-1), v.float()).flatten(0, 1))
    return torch.cat(out)


def int4_want(p: Problem, t: Arrays) -> Any:
    import torch

    shifts = torch.arange(8, device="cuda", dtype=torch.int32) * 4
    w = ((t["w_ptr"][:, None, :] >> shifts[None, :, None]) & 15) - 8
    w = w.reshape(p["K"], p["N"]).half() * t["scale_ptr"].repeat_interleave(p["quant"], 0)
    return t["x_ptr"] @ w


def grouped_want(p: Problem, t: Arrays) -> Any:
    import torch

    starts = group_starts(p)
    return torch.cat([t["x_ptr"][a:b] @ t["w_ptr"][e].T for e, (a, b) in enumerate(itertools.pairwise(starts))])


def linear_want(p: Problem, t: Arrays) -> Any:
    import torch

    out = []
    for h in range(p["heads"]):
        scores = torch.tril((t["q_ptr"][h].float() * p["head"] ** -0.5) @ t["k_ptr"][h].float().T)
        out.append(scores @ t["v_ptr"][h].float())
    return torch.stack(out)


def conv_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, w = t["x_ptr"].permute(0, 3, 1, 2), t["w_ptr"].permute(0, 3, 1, 2)
    return torch.nn.functional.conv2d(x, w, stride=p["stride"], padding=p["pad"]).permute(0, 2, 3, 1)


def layer_norm_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.nn.functional.layer_norm(
        t["x_ptr"].float(), (p["cols"],), t["weight_ptr"].float(), t["bias_ptr"].float(), 1e-5
    )


def entropy_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(t["logits_ptr"].float(), t["target_ptr"].long(), reduction="none")


def conv_out(p: Problem) -> tuple[int, int]:
    return tuple((p[n] + 2 * p["pad"] - p["r"]) // p["stride"] + 1 for n in ("h", "w"))  # type: ignore[return-value]


def matmul_args(p: Problem, b: tuple[int, int], out: str = "float16") -> dict[str, Any]:
    return {
        "a_ptr": Tensor("float16", (p["M"], p["K"])), "b_ptr": Tensor("float16", b),
        "c_ptr": Tensor(out, (p["M"], p["N"])), "M": p["M"], "N": p["N"], "K": p["K"],
    }  # fmt: skip


def tiles(p: Problem, c: Config) -> int:
    return cdiv(p["M"], c["BLOCK_M"]) * cdiv(p["N"], c["BLOCK_N"])


def qkv(p: Problem, kv_heads: int) -> dict[str, Any]:
    q, kv = (Tensor("float16", (p["batch"], heads, p["seq"], p["head"])) for heads in (p["heads"], kv_heads))
    return {"q_ptr": q, "k_ptr": kv, "v_ptr": kv, "out_ptr": q}


TILE = {"BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (32, 64, 128)}
PIPE = {"num_warps": (4, 8), "num_stages": (2, 3, 4)}

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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=attention_want,
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=window_want, unseen=True,
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
        outputs=("out_ptr", "lse_ptr"), got=decode_got, want=decode_want, unseen=True,
    ),
    Subject(
        "matmul_split_k", zoo.matmul_split_k,
        ({"M": 16, "N": 6144, "K": 4096}, {"M": 128, "N": 4096, "K": 11008}, {"M": 1024, "N": 1024, "K": 8192},
         {"M": 32, "N": 14336, "K": 4096}, {"M": 512, "N": 2048, "K": 4096}),
        TILE | PIPE | {"SPLIT_K": (1, 2, 4, 8)},
        args=lambda p, c: matmul_args(p, (p["K"], p["N"]), out="float32") | {
            "stride_am": p["K"], "stride_bk": p["N"], "stride_cm": p["N"]},
        grid=lambda p, c: (tiles(p, c), c["SPLIT_K"]),
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"], want=lambda p, t: t["a_ptr"] @ t["b_ptr"],
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
        outputs=("c_ptr",), got=lambda p, c, t: t["c_ptr"], want=lambda p, t: t["a_ptr"] @ t["b_ptr"].T,
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=int4_want,
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
        want=lambda p, t: __import__("torch").nn.functional.silu((t["x_ptr"] @ t["gate_ptr"].T).float())
        * (t["x_ptr"] @ t["up_ptr"].T).float(),
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=grouped_want,
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=layer_norm_want,
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
        want=lambda p, t: t["x_ptr"].float(), tolerance=0.07, unseen=True,
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
        outputs=("loss_ptr",), in_place=("logits_ptr",), got=lambda p, c, t: t["loss_ptr"], want=entropy_want,
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=linear_want,
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
        outputs=("out_ptr",), got=lambda p, c, t: t["out_ptr"], want=conv_want, unseen=True,
        keep=lambda p, c: per_thread(c, c["BLOCK_M"] * c["BLOCK_N"], 128),
    ),
]  # fmt: skip
BY_NAME = {subject.name: subject for subject in SUBJECTS}


def cases(only: str, count: int) -> Iterator[tuple[Subject, int, Config]]:
    for subject in SUBJECTS:
        if not only or subject.name in only.split(","):
            for i, problem in enumerate(subject.problems):
                for config in subject.configs(problem, count):
                    yield subject, i, config


def key(subject: str, problem: int, config: Config) -> str:
    return json.dumps([subject, problem, dict(sorted(config.items()))])


def recorded(out: Path) -> dict[str, dict[str, Any]]:
    if not out.exists():
        return {}
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {key(row["kernel"], row["problem"], row["config"]): row for row in rows}


def record(out: Path, subject: str, problem: int, config: Config, ms: float | None, why: str = "", **more: Any) -> None:
    row = {"kernel": subject, "problem": problem, "config": dict(config), "time_ms": ms, "why": why, **more}
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def launch_arguments(subject: Subject, problem: Problem, config: Config, tensors: Arrays) -> dict[str, Any]:
    """What `kernel[grid]` takes by name: tensors, or Triton's mock tensors in their place where nothing is launched."""
    names = set(subject.kernel.arg_names)
    options = {k: v for k, v in config.items() if k in names or k in ("num_warps", "num_stages")}
    return {**subject.args(problem, config), **tensors, **subject.constants(problem), **options}


def compile_one(name: str, problem: int, config: Config) -> None:
    import torch
    from triton.runtime.jit import MockTensor

    subject = BY_NAME[name]
    p = subject.problems[problem]
    tensors = {n: t.dtype for n, t in subject.args(p, config).items() if isinstance(t, Tensor)}
    mock = {n: MockTensor(getattr(torch, TORCH.get(dtype, dtype))) for n, dtype in tensors.items()}
    subject.kernel.warmup(grid=(1,), **launch_arguments(subject, p, config, mock))


def serve() -> None:
    """A compiling process: a line of JSON in, a line out."""
    import torch

    torch.cuda.init()
    replies, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        began = time.monotonic()
        try:
            compile_one(*json.loads(line))
            why = ""
        except Exception as error:  # whatever a compiler raises is the answer
            why = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
        replies.write(json.dumps([why, time.monotonic() - began]) + "\n")
        replies.flush()


def compile_all(jobs: list[tuple[str, int, Config]], processes: int, until: float, out: Path) -> dict[str, str]:
    """Why each of the jobs that do not compile does not, by `key`. One that takes longer than COMPILE_S is ended.

    What each took goes to a file beside `out`: no more than a look-up for what another problem's code is the same as.
    """
    import selectors

    command = [sys.executable, str(Path(__file__).resolve()), "serve"]
    waiting, failed = list(reversed(jobs)), {}
    selector = selectors.DefaultSelector()
    busy: dict[int, tuple[subprocess.Popen[str], tuple[str, int, Config], float]] = {}

    def start(process: subprocess.Popen[str] | None) -> None:
        if not waiting:
            if process:
                process.kill()
            return
        if process is None:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdout
            selector.register(process.stdout, selectors.EVENT_READ, process)
        job = waiting.pop()
        assert process.stdin
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        busy[process.pid] = process, job, time.monotonic()

    for _ in range(min(processes, len(jobs))):
        start(None)
    while busy:
        for ready, _ in selector.select(timeout=1.0):
            process = ready.data
            if process.pid not in busy:  # ended when nothing was left to do
                selector.unregister(process.stdout)
                continue
            _, job, _ = busy.pop(process.pid)
            line = process.stdout.readline()
            why, seconds = json.loads(line) if line else ("the compiler's process ended", None)
            if why:
                failed[key(*job)] = why
            record(out.with_suffix(".compiles.jsonl"), *job, None, why, compile_s=seconds)
            if line:
                start(process)
            else:
                selector.unregister(process.stdout)
                start(None)
        for pid, (process, job, since) in list(busy.items()):
            if time.monotonic() - since > COMPILE_S + 30 or time.monotonic() > until:
                process.kill()
                selector.unregister(process.stdout)
                failed[key(*job)] = f"not compiled within {COMPILE_S:.0f} s"
                del busy[pid]
                if time.monotonic() < until:
                    start(None)
    return failed | {key(*job): "no time left to compile" for job in waiting}


def draw(tensor: Tensor, seed: int) -> Any:
    import torch

    g = torch.Generator(device="cuda").manual_seed(seed)
    dtype = getattr(torch, TORCH.get(tensor.dtype, tensor.dtype))
    if not dtype.is_floating_point:
        return torch.randint(-(2**31), 2**31 - 1, tensor.shape, device="cuda", dtype=torch.int64, generator=g).to(dtype)
    return torch.randn(tensor.shape, device="cuda", generator=g, dtype=torch.float32).to(dtype) * 0.5


def measure_case(subject: Subject, index: int, configs: list[Config], out: Path, until: float) -> None:
    """The rows of one problem, until the time is up."""
    import torch
    from gpu_time import median_ms

    problem = subject.problems[index]
    specs = subject.args(problem, configs[0])
    held = {n: torch.from_numpy(np.asarray(v)).cuda() for n, v in subject.values(problem).items()}
    tensors = {
        n: held[n] if n in held else draw(t, i)
        for i, (n, t) in enumerate(specs.items())
        if isinstance(t, Tensor) and n not in subject.outputs
    }
    original = {n: tensors[n].clone() for n in subject.in_place}
    want = subject.want(problem, tensors).float()
    flush = torch.empty(2**30, dtype=torch.int8, device="cuda")
    for config in configs:
        if time.monotonic() > until:
            return
        outputs = {
            n: torch.zeros(t.shape, device="cuda", dtype=getattr(torch, TORCH.get(t.dtype, t.dtype)))
            for n, t in subject.args(problem, config).items()
            if n in subject.outputs
        }
        for n, value in original.items():
            tensors[n].copy_(value)
        given = tensors | outputs
        arguments = launch_arguments(subject, problem, config, given)
        grid = subject.grid(problem, config)

        def run(arguments: dict[str, Any] = arguments, grid: tuple[int, ...] = grid) -> Any:
            return subject.kernel[grid](**arguments)

        try:
            compiled = run()
            torch.cuda.synchronize()
            got = subject.got(problem, config, given).float()
            error = float((got - want).abs().max() / want.abs().max())
            said = {"shared": compiled.metadata.shared, "registers": compiled.n_regs, "spills": compiled.n_spills}
            if not error <= subject.tolerance:
                record(out, subject.name, index, config, None, f"wrong by {error:.3g} of the largest", **said)
                continue
            for _ in range(3):
                run()
            record(out, subject.name, index, config, median_ms(run, flush, RUNS), error=error, **said)
        except Exception as raised:  # a configuration that does not run is a result
            record(out, subject.name, index, config, None, f"{type(raised).__name__}: {raised}".splitlines()[0][:200])
            if "CUDA" in str(raised) or "illegal" in str(raised):
                raise


def triton_chooses(subject: Subject, index: int, configs: list[Config], out: Path) -> None:
    """One call of `triton.autotune` over the list, whose code is compiled already: what it takes and chooses."""
    import torch
    import triton

    problem = subject.problems[index]
    tensors = {n: draw(t, i) for i, (n, t) in enumerate(subject.args(problem, configs[0]).items())
               if isinstance(t, Tensor)}  # fmt: skip
    names = set(subject.kernel.arg_names)
    listed = [
        triton.Config({k: v for k, v in c.items() if k in names}, num_warps=c["num_warps"], num_stages=c["num_stages"])
        for c in configs
    ]
    tuned = triton.autotune(listed, key=[])(subject.kernel)
    given = {k: v for k, v in subject.args(problem, configs[0]).items() if k in names and k not in configs[0]}
    torch.cuda.synchronize()
    began = time.monotonic()

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return subject.grid(problem, {k: meta[k] for k in configs[0] if k in meta})

    tuned[grid](**{**given, **tensors, **subject.constants(problem)})
    torch.cuda.synchronize()
    best = {**tuned.best_config.kwargs, "num_warps": tuned.best_config.num_warps,
            "num_stages": tuned.best_config.num_stages}  # fmt: skip
    record(out.with_suffix(".autotuner.jsonl"), subject.name, index, best, None, seconds=time.monotonic() - began)


def measure_here(only: str, count: int, out: Path, limit: float, own: bool = False) -> None:
    """Measure what is not yet in the file, in this process: a fault of a kernel ends it."""
    import torch
    import triton

    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    until, done = time.monotonic() + limit, recorded(out)
    for (subject, i), group in itertools.groupby(cases(only, count), key=lambda case: (case[0], case[1])):
        left = [config for _, _, config in group if key(subject.name, i, config) not in done]
        if left and time.monotonic() < until:
            began = time.monotonic()
            measure_case(subject, i, left, out, until)
            if own and time.monotonic() < until:
                try:
                    triton_chooses(subject, i, left, out)
                except Exception as error:  # whatever Triton's tuner raises; the table is what matters
                    print(f"{subject.name} {i}: triton.autotune: {type(error).__name__}: {error}".splitlines()[0])
            print(f"{subject.name} {dict(subject.problems[i])}: {time.monotonic() - began:.1f} s", flush=True)
            torch.cuda.empty_cache()


def measure(options: argparse.Namespace) -> None:
    began, out = time.monotonic(), options.out
    until = began + options.limit
    done = recorded(out)
    jobs = [(s.name, i, c) for s, i, c in cases(options.only, options.configs) if key(s.name, i, c) not in done]
    processes = max(1, len(os.sched_getaffinity(0)) - 1)
    failed = compile_all(jobs, processes, began + 0.6 * options.limit, out)
    print(f"{len(jobs) - len(failed)} of {len(jobs)} compiled in {time.monotonic() - began:.0f} s", flush=True)
    for name, i, c in jobs:
        if (why := failed.get(key(name, i, c))) and not why.startswith("no time"):
            record(out, name, i, c, None, why)
    command = [sys.executable, str(Path(__file__).resolve()), "here", "--out", str(out)]
    while (left := until - time.monotonic()) > 5:
        more = ["--limit", str(left), "--only", options.only, "--configs", str(options.configs)]
        more += ["--own"] if options.own else []
        try:
            code = subprocess.run([*command, *more], check=False, timeout=left).returncode
        except subprocess.TimeoutExpired:
            code = -1
        if code == 0:
            break
        done = recorded(out)
        rest = [job for job in jobs if key(*job) not in done and key(*job) not in failed]
        if not rest:
            break
        if code not in (0, 1):  # the process died or hung on the first that has no line
            record(out, *rest[0], None, f"the measuring process ended with {code}")
    rows = recorded(out)
    print(f"{sum(r['time_ms'] is not None for r in rows.values())} of {len(rows)} configurations timed in all")


def score(options: argparse.Namespace) -> None:
    import compiled

    import carver

    arch = carver.load_arch(options.arch)
    rows = [json.loads(line) for line in text_of(options.table, ConfigError).splitlines()]
    scores: dict[bool, list[compiled.Score]] = {False: [], True: []}
    for subject in SUBJECTS:
        for i, problem in enumerate(subject.problems):
            own = [row for row in rows if (row["kernel"], row["problem"]) == (subject.name, i)]
            if own and (not options.only or subject.name in options.only.split(",")):
                case = compiled.Case(
                    f"{subject.name} {tuple(problem.values())}", subject.kernel, [row["config"] for row in own],
                    [row["time_ms"] for row in own], lambda c, s=subject, p=problem: s.args(p, c),
                    lambda c, s=subject, p=problem: s.grid(p, c), subject.constants(problem), subject.values(problem),
                )  # fmt: skip
                scores[subject.unseen].append(compiled.score(case, arch))
    for unseen, found in scores.items():
        if found:
            print("not looked at before" if unseen else "looked at while the model was built")
            print(compiled.report(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("measure", "here"):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--only", default="", help="names of kernels, with commas")
        command.add_argument("--limit", type=float, default=540.0, help="seconds for all")
        command.add_argument("--configs", type=int, default=CONFIGS)
        command.add_argument("--own", action="store_true", help="run Triton's own autotuner over each list, too")
    scoring = commands.add_parser("score")
    scoring.add_argument("table", type=Path)
    scoring.add_argument("--only", default="", help="names of kernels, with commas")
    scoring.add_argument("--arch", default="h200")
    commands.add_parser("serve")
    options = parser.parse_args()
    match options.command:
        case "serve":
            serve()
        case "here":
            measure_here(options.only, options.configs, options.out, options.limit, options.own)
        case "measure":
            measure(options)
        case "score":
            score(options)


if __name__ == "__main__":
    main()
