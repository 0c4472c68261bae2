"""The 31 kernels of `kernels/triton_zoo_library.py` as `zoo.py` measures them: the forms of libraries, two problems
each but of one.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured or ranked.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_library as zoo
from zoo_edges import LINE, TILE, floats, ints, line, plane, subject
from zoo_forms import MATMUL, drawn, starts, walks
from zoo_more import elements, shapes
from zoo_subject import Arrays, Problem, Subject, cdiv, stages

from carver.compiled.binary import Tensor

WARPS = (1, 2, 4, 8)


def longs(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64)


def wide_ints(*shape: int) -> Tensor:
    return Tensor("int64", shape)


def power(n: int) -> int:
    return 1 << (n - 1).bit_length()


# -- windows


def outside(p: Problem) -> dict[str, int]:
    return {n: (p[n] + 2 * p["pad"] - p["side"]) // p["step"] + 1 for n in ("high", "wide")}


def depthwise_args(p: Problem) -> dict[str, Any]:
    out = outside(p)
    return {
        "x_ptr": Tensor("float16", (p["images"], p["channels"], p["high"], p["wide"])),
        "w_ptr": Tensor("float16", (p["channels"], p["side"] ** 2)),
        "y_ptr": Tensor("float16", (p["images"], p["channels"], *out.values())), "channels": p["channels"],
        "high": p["high"], "wide": p["wide"], "out_high": out["high"], "out_wide": out["wide"],
        "stride_xn": p["channels"] * p["high"] * p["wide"], "stride_xc": p["high"] * p["wide"], "stride_xh": p["wide"],
        "stride_yn": p["channels"] * math.prod(out.values()), "stride_yc": math.prod(out.values()),
        "stride_yh": out["wide"], "step": p["step"], "pad": p["pad"],
    }  # fmt: skip


def pool_out(p: Problem) -> list[int]:
    return [(p[n] + 2 * p["pad"] - p["side"]) // p["step"] + 1 for n in ("depth", "high", "wide")]


def conv3d_out(p: Problem) -> list[int]:
    return [p[n] - p["side"] + 1 for n in ("depth", "high", "wide")]


def conv3d_args(p: Problem) -> dict[str, Any]:
    out, names = conv3d_out(p), ("depth", "high", "wide")
    return {
        "x_ptr": Tensor("float16", (p["images"], *(p[n] for n in names), p["channels"])),
        "w_ptr": Tensor("float16", (p["side"] ** 3, p["channels"], p["out_channels"])),
        "y_ptr": Tensor("float16", (p["images"] * math.prod(out), p["out_channels"])), **{n: p[n] for n in names},
        **{f"out_{n}": size for n, size in zip(names, out, strict=True)}, "channels": p["channels"],
        "out_channels": p["out_channels"],
    }  # fmt: skip


WINDOWS = [
    subject(
        "windows", zoo.depthwise_strided,
        shapes("images channels high wide side step pad", (32, 96, 112, 112, 3, 2, 1), (16, 192, 56, 56, 7, 1, 3)),
        {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_C": (32, 64, 128), "num_warps": (1, 2, 4)}, depthwise_args,
        lambda p, c: (cdiv(outside(p)["wide"], c["BLOCK_C"]), cdiv(outside(p)["high"], c["BLOCK_R"]),
                      p["images"] * p["channels"]),
        constants="side",
    ),
    subject(
        "windows", zoo.pool_3d,
        shapes("planes depth high wide side step pad dtype", (64, 32, 112, 112, 3, 2, 1, "float32"),
               (512, 16, 56, 56, 2, 2, 0, "float16")),
        LINE,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["planes"], p["depth"], p["high"], p["wide"])),
                   "y_ptr": Tensor(p["dtype"], (p["planes"], *pool_out(p))), "depth": p["depth"], "high": p["high"],
                   "wide": p["wide"], **dict(zip(("out_depth", "out_high", "out_wide"), pool_out(p), strict=True))},
        lambda p, c: (cdiv(math.prod(pool_out(p)), c["BLOCK"]), p["planes"]), constants="side step pad",
        most=8,
    ),
    subject(
        "windows", zoo.conv3d_dense,
        shapes("images depth high wide side channels out_channels", (4, 18, 34, 34, 3, 64, 128),
               (2, 10, 34, 66, 3, 192, 256)),
        MATMUL, conv3d_args,
        lambda p, c: (p["images"] * math.prod(conv3d_out(p)) // c["BLOCK_M"], p["out_channels"] // c["BLOCK_N"]),
        constants="side", keep=lambda p, c: walks(p, c) and c["BLOCK_N"] <= p["out_channels"],
    ),
    replace(
        subject(
            "windows", zoo.conv_update, shapes("batch dim width", (2048, 4096, 4)),
            {"BLOCK": (64, 128, 256, 512, 1024), "num_warps": WARPS},
            lambda p: {**floats("x_ptr")("float16", p["batch"], p["dim"]),
                       **floats("state_ptr")("float16", p["batch"], p["dim"], p["width"] - 1),
                       "w_ptr": Tensor("float16", (p["dim"], p["width"])), "bias_ptr": Tensor("float16", (p["dim"],)),
                       **floats("y_ptr")("float16", p["batch"], p["dim"]),
                       **floats("out_state_ptr")("float16", p["batch"], p["dim"], p["width"] - 1), "dim": p["dim"],
                       "stride_sb": p["dim"] * (p["width"] - 1), "stride_sd": p["width"] - 1},
            lambda p, c: (p["batch"], cdiv(p["dim"], c["BLOCK"])), constants="width",
            keep=lambda p, c: elements(c, c["BLOCK"], 16),
        ),
        outputs=("y_ptr", "out_state_ptr"), got=lambda p, c, t: (t["y_ptr"], t["out_state_ptr"]),
    ),
    subject(
        "windows", zoo.upsample,
        shapes("planes high wide times dtype", (48, 540, 960, 2, "float16"), (256, 64, 64, 4, "float32")), LINE,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["planes"], p["high"], p["wide"])),
                   "y_ptr": Tensor(p["dtype"], (p["planes"], p["high"] * p["times"], p["wide"] * p["times"])),
                   "high": p["high"], "wide": p["wide"], "out_high": p["high"] * p["times"],
                   "out_wide": p["wide"] * p["times"], "ratio_h": 1 / p["times"], "ratio_w": 1 / p["times"]},
        lambda p, c: (cdiv(p["high"] * p["wide"] * p["times"] ** 2, c["BLOCK"]), p["planes"]), most=16,
    ),
]  # fmt: skip

# -- atomics


ATOMICS = [
    subject(
        "atomics", zoo.split_k_half, shapes("M N K group", (16, 4096, 14336, 8), (200, 1536, 6144, 4)),
        {"BLOCK_M": (16, 32, 64), "BLOCK_N": (32, 64, 128), "BLOCK_K": (64, 128), "SPLIT": (1, 2, 4, 8, 16),
         "num_warps": (4, 8), "num_stages": (2, 4)},
        lambda p: {"a_ptr": Tensor("float16", (p["M"], p["K"])), "b_ptr": Tensor("float16", (p["N"], p["K"])),
                   "c_ptr": Tensor("float16", (p["M"], p["N"])), **{n: p[n] for n in "MNK"}, "stride_am": p["K"],
                   "stride_ak": 1, "stride_bk": 1, "stride_bn": p["K"], "stride_cm": p["N"], "stride_cn": 1},
        lambda p, c: (cdiv(p["M"], c["BLOCK_M"]) * cdiv(p["N"], c["BLOCK_N"]), c["SPLIT"]),
        constants="group", output="c_ptr",
        keep=lambda p, c: stages(c, 2 * (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"])
        and (c["BLOCK_M"] == 16 or p["M"] > 16),
    ),
    replace(
        subject(
            "atomics", zoo.norm_backward, shapes("rows cols dtype", (16384, 2048, "bfloat16"), (5000, 6000, "float32")),
            {"EACH": (4, 8, 16, 32, 64, 128), "num_warps": (4, 8, 16)},
            lambda p: {**floats("x_ptr", "g_ptr")(p["dtype"], p["rows"], p["cols"]),
                       "w_ptr": Tensor(p["dtype"], (p["cols"],)),
                       **floats("mean_ptr", "rstd_ptr")("float32", p["rows"]),
                       "dx_ptr": Tensor(p["dtype"], (p["rows"], p["cols"])),
                       **floats("dw_ptr", "db_ptr")("float32", p["cols"]), "stride": p["cols"], "rows": p["rows"],
                       "cols": p["cols"], "BLOCK": power(p["cols"])},
            lambda p, c: (cdiv(p["rows"], c["EACH"]),), keep=lambda p, c: True,
        ),
        outputs=("dx_ptr", "dw_ptr", "db_ptr"), got=lambda p, c, t: (t["dx_ptr"], t["dw_ptr"], t["db_ptr"]),
    ),
    subject(
        "atomics", zoo.scatter_dim, shapes("rows cols out_rows", (20_000, 512, 3000), (2000, 4096, 20_000)),
        TILE,
        lambda p: {"x_ptr": Tensor("float32", (p["rows"], p["cols"])), "index_ptr": wide_ints(p["rows"], p["cols"]),
                   "y_ptr": Tensor("float32", (p["out_rows"], p["cols"])), "rows": p["rows"], "cols": p["cols"],
                   "out_rows": p["out_rows"], "stride_xr": p["cols"], "stride_xc": 1, "stride_ir": p["cols"],
                   "stride_ic": 1, "stride_yr": p["cols"], "stride_yc": 1},
        plane,
        values=lambda p: {"index_ptr": drawn(41).integers(0, p["out_rows"], (p["rows"], p["cols"]))},
    ),
    subject(
        "atomics", zoo.histogram_bytes, shapes("images each", (48, 1 << 20), (1000, 3 * 224 * 224)),
        {"BLOCK": (512, 1024, 2048, 4096), "STEPS": (1, 4, 16), "num_warps": (2, 4, 8)},
        lambda p: {"x_ptr": Tensor("uint8", (p["images"] * p["each"],)),
                   "count_ptr": Tensor("int32", (p["images"], 256)), "each": p["each"]},
        lambda p, c: (cdiv(p["each"], c["BLOCK"] * c["STEPS"]), p["images"]), output="count_ptr",
        tolerance=0.0, keep=lambda p, c: elements(c, c["BLOCK"], 32),
        values=lambda p: {"x_ptr": drawn(42).normal(120, 40, p["images"] * p["each"]).clip(0, 255).astype(np.uint8)},
    ),
    subject(
        "atomics", zoo.bag_backward,
        shapes("bags count words width", (16384, 20, 1_000_000, 128), (4096, 50, 5000, 768)),
        {"BLOCK": (32, 64, 128, 256, 512, 1024), "num_warps": WARPS},
        lambda p: {"g_ptr": Tensor("float32", (p["bags"], p["width"])), "key_ptr": wide_ints(p["bags"], p["count"]),
                   "y_ptr": Tensor("float32", (p["words"], p["width"])), "width": p["width"]},
        lambda p, c: (p["bags"], cdiv(p["width"], c["BLOCK"])), constants="count",
        keep=lambda p, c: elements(c, c["BLOCK"], 16) and c["BLOCK"] < 2 * p["width"],
        values=lambda p: {"key_ptr": longs(drawn(43).random((p["bags"], p["count"])) ** 2 * p["words"])},
    ),
    replace(
        subject(
            "atomics", zoo.voxels, shapes("n side channels", (4_000_000, 100, 4), (1 << 20, 32, 16)), LINE,
            lambda p: {"point_ptr": Tensor("float32", (p["n"], 3)),
                       "value_ptr": Tensor("float32", (p["n"], p["channels"])),
                       "sum_ptr": Tensor("float32", (p["side"] ** 3, p["channels"])), "count_ptr": ints(p["side"] ** 3),
                       "n": p["n"], "side": p["side"]},
            line, constants="channels", most=8,
            values=lambda p: {"point_ptr": drawn(44).random((p["n"], 3)).astype(np.float32)},
        ),
        outputs=("sum_ptr", "count_ptr"), got=lambda p, c, t: (t["sum_ptr"], t["count_ptr"]),
    ),
]  # fmt: skip

# -- gathers


def paged_lengths(p: Problem) -> np.ndarray:
    return (drawn(45).integers(p["longest"] // 8, p["longest"] + 1, p["batch"])).astype(np.int32)


def paged_args(p: Problem) -> dict[str, Any]:
    pages = cdiv(p["longest"], p["page"])
    heads = p["kv"] * p["group"]
    cache = (p["batch"] * pages, p["page"], p["kv"], p["dim"])
    return {
        "q_ptr": Tensor("float16", (p["batch"], heads, p["dim"])), **floats("k_ptr", "v_ptr")("float16", *cache),
        "table_ptr": Tensor("int32", (p["batch"], pages)), "length_ptr": ints(p["batch"]),
        "part_ptr": Tensor("float32", (p["batch"], heads, p["parts"], p["dim"])),
        "lse_ptr": Tensor("float32", (p["batch"], heads, p["parts"])), "scale": p["dim"] ** -0.5,
        "stride_qb": heads * p["dim"], "stride_qh": p["dim"], "stride_kp": math.prod(cache[1:]),
        "stride_kt": p["kv"] * p["dim"], "stride_kh": p["dim"], "stride_tb": pages, "heads": heads,
    }  # fmt: skip


def paged_got(p: Problem, c: Any, t: Arrays) -> Any:
    return (t["part_ptr"] * t["lse_ptr"].softmax(-1)[..., None]).sum(2)


def slots(p: Problem) -> np.ndarray:
    found = longs(drawn(46).permutation(p["pages"] * p["page"])[: p["tokens"]])
    found[::50] = -1
    return found


GATHERS = [
    replace(
        subject(
            "gathers", zoo.paged_split,
            shapes("batch kv group dim longest page parts", (64, 8, 4, 128, 4096, 16, 4),
                   (8, 2, 8, 128, 20_000, 64, 16)),
            {"BLOCK": (16, 32, 64, 128), "num_warps": (1, 2, 4, 8), "num_stages": (1, 2, 3, 4)}, paged_args,
            lambda p, c: (p["batch"], p["kv"], p["parts"]), constants="page group dim parts",
            keep=lambda p, c: stages(c, 4 * c["BLOCK"] * p["dim"], 2 * 16 * p["dim"]),
            values=lambda p: {"length_ptr": paged_lengths(p),
                              "table_ptr": drawn(47).permutation(p["batch"] * cdiv(p["longest"], p["page"]))
                              .astype(np.int32).reshape(p["batch"], -1)},
        ),
        outputs=("part_ptr", "lse_ptr"), got=paged_got,
    ),
    replace(
        subject(
            "gathers", zoo.cache_write,
            shapes("tokens width page pages", (16384, 1024, 16, 4096), (60_000, 512, 64, 2000)),
            {"BLOCK": (64, 128, 256, 512, 1024), "num_warps": WARPS},
            lambda p: {**floats("k_ptr", "v_ptr")("float16", p["tokens"], p["width"]),
                       "slot_ptr": wide_ints(p["tokens"]),
                       **floats("kc_ptr", "vc_ptr")("float16", p["pages"] * p["page"], p["width"]),
                       "stride_k": p["width"], "stride_v": p["width"], "width": p["width"]},
            lambda p, c: (p["tokens"], cdiv(p["width"], c["BLOCK"])), constants="page",
            values=lambda p: {"slot_ptr": slots(p)},
            keep=lambda p, c: elements(c, c["BLOCK"], 16) and c["BLOCK"] <= p["width"],
        ),
        outputs=("kc_ptr", "vc_ptr"), got=lambda p, c, t: (t["kc_ptr"], t["vc_ptr"]),
    ),
    subject(
        "gathers", zoo.gather_dim, shapes("rows cols in_cols dtype", (2048, 4096, 32_000, "float32"),
                                          (30_000, 300, 500, "float16")), TILE,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["rows"], p["in_cols"])), "index_ptr": wide_ints(p["rows"], p["cols"]),
                   "y_ptr": Tensor(p["dtype"], (p["rows"], p["cols"])), "rows": p["rows"], "cols": p["cols"],
                   "in_cols": p["in_cols"], "stride_xr": p["in_cols"], "stride_xc": 1, "stride_ir": p["cols"],
                   "stride_ic": 1},
        plane,
        values=lambda p: {"index_ptr": drawn(48).integers(0, p["in_cols"], (p["rows"], p["cols"]))},
    ),
    replace(
        subject(
            "gathers", zoo.rope_pairs,
            shapes("tokens heads kv dim places", (16384, 32, 8, 128, 1 << 15), (50_000, 12, 2, 64, 1 << 13)),
            {"BLOCK_H": (1, 2, 4, 8, 16, 32), "num_warps": WARPS},
            lambda p: {"q_ptr": Tensor("float16", (p["tokens"], p["heads"], p["dim"])),
                       "k_ptr": Tensor("float16", (p["tokens"], p["kv"], p["dim"])),
                       **floats("cos_ptr", "sin_ptr")("float32", p["places"], p["dim"] // 2),
                       "position_ptr": wide_ints(p["tokens"]), "stride_q": p["heads"] * p["dim"],
                       "stride_k": p["kv"] * p["dim"], "tokens": p["tokens"]},
            lambda p, c: (p["tokens"], cdiv(p["heads"], c["BLOCK_H"])), constants="heads kv dim",
            keep=lambda p, c: elements(c, c["BLOCK_H"] * p["dim"] // 2, 32),
            values=lambda p: {"position_ptr": longs(np.arange(p["tokens"]) % 3000)},
        ),
        outputs=(), in_place=("q_ptr", "k_ptr"), got=lambda p, c, t: (t["q_ptr"], t["k_ptr"]),
    ),
]  # fmt: skip

# -- products


def packed_args(p: Problem) -> dict[str, Tensor]:
    groups = p["K"] // p["group"]
    return {"b_ptr": Tensor("int32", (p["K"], p["N"] // 8)), "zero_ptr": Tensor("int32", (groups, p["N"] // 8)),
            "scale_ptr": Tensor("float16", (groups, p["N"]))}  # fmt: skip


def gqa_args(p: Problem) -> dict[str, Any]:
    heads = p["kv"] * p["group"]
    q, k = (p["batch"], p["length"], heads, p["dim"]), (p["batch"], p["length"], p["kv"], p["dim"])
    return {
        "q_ptr": Tensor("bfloat16", q), **floats("k_ptr", "v_ptr")("bfloat16", *k), "y_ptr": Tensor("bfloat16", q),
        "scale": p["dim"] ** -0.5, "stride_qb": math.prod(q[1:]), "stride_qt": heads * p["dim"], "stride_qh": p["dim"],
        "stride_kb": math.prod(k[1:]), "stride_kt": p["kv"] * p["dim"], "stride_kh": p["dim"], "heads": heads,
        "length": p["length"], "window": p["window"],
    }  # fmt: skip


def places(p: Problem) -> np.ndarray:
    return starts(p, "groups", "most")


PRODUCTS = [
    subject(
        "products", zoo.jagged_matmul, shapes("groups most N K", (64, 512, 1536, 2048), (8, 4000, 4096, 1024)), MATMUL,
        lambda p: {"a_ptr": Tensor("bfloat16", (int(places(p)[-1]), p["K"])),
                   "b_ptr": Tensor("bfloat16", (p["groups"], p["N"], p["K"])),
                   "c_ptr": Tensor("bfloat16", (int(places(p)[-1]), p["N"])), "start_ptr": ints(p["groups"] + 1),
                   "N": p["N"], "K": p["K"], "stride_am": p["K"], "stride_be": p["N"] * p["K"], "stride_bn": p["K"],
                   "stride_cm": p["N"]},
        lambda p, c: (cdiv(int(np.diff(places(p)).max()), c["BLOCK_M"]), cdiv(p["N"], c["BLOCK_N"]), p["groups"]),
        output="c_ptr", keep=walks, values=lambda p: {"start_ptr": places(p)},
    ),
    subject(
        "products", zoo.int4_zeros_split, shapes("M N K group", (8, 8192, 4096, 128), (64, 4096, 11008, 128)),
        {"BLOCK_M": (16, 32, 64), "BLOCK_N": (32, 64, 128), "BLOCK_K": (32, 64, 128), "SPLIT": (1, 4, 8),
         "num_warps": (2, 4, 8), "num_stages": (2, 3)},
        lambda p: {"a_ptr": Tensor("float16", (p["M"], p["K"])), **packed_args(p),
                   "part_ptr": Tensor("float16", (8, p["M"], p["N"])), **{n: p[n] for n in "MNK"}},
        lambda p, c: (cdiv(p["M"], c["BLOCK_M"]), p["N"] // c["BLOCK_N"], c["SPLIT"]),
        constants="group", output="part_ptr",
        keep=lambda p, c: (c["BLOCK_M"] == 16 or p["M"] > 16),
    ),
    subject(
        "products", zoo.window_gqa,
        shapes("batch length kv group dim window", (4, 4096, 8, 4, 128, 1024), (8, 3000, 4, 7, 64, 512)),
        {"BLOCK_M": (64, 128), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3, 4)}, gqa_args,
        lambda p, c: (cdiv(p["length"], c["BLOCK_M"]), p["batch"] * p["kv"] * p["group"]),
        constants="group dim",
        keep=lambda p, c: stages(c, 4 * c["BLOCK_N"] * p["dim"], 2 * c["BLOCK_M"] * p["dim"]),
    ),
    subject(
        "products", zoo.chunk_states,
        shapes("batch T heads chunk dim_k dim_v", (4, 4096, 16, 64, 128, 128), (2, 8192, 8, 256, 256, 512)),
        {"BLOCK_K": (32, 64, 128), "BLOCK_V": (32, 64, 128), "BLOCK_T": (16, 32, 64), "num_warps": (2, 4, 8),
         "num_stages": (2, 3)},
        lambda p: {"k_ptr": Tensor("bfloat16", (p["batch"], p["T"], p["heads"], p["dim_k"])),
                   "v_ptr": Tensor("bfloat16", (p["batch"], p["T"], p["heads"], p["dim_v"])),
                   "g_ptr": Tensor("float32", (p["batch"], p["T"], p["heads"])),
                   "y_ptr": Tensor("float32", (p["batch"], p["T"] // p["chunk"], p["heads"], p["dim_k"], p["dim_v"])),
                   "T": p["T"], "heads": p["heads"]},
        lambda p, c: (p["dim_k"] // c["BLOCK_K"] * (p["dim_v"] // c["BLOCK_V"]), p["T"] // p["chunk"],
                      p["batch"] * p["heads"]),
        constants="chunk dim_k dim_v",
        keep=lambda p, c: 4 <= c["BLOCK_K"] * c["BLOCK_V"] / (32 * c["num_warps"]) <= 128,
        values=lambda p: {"g_ptr": (-0.01 * drawn(49).random((p["batch"], p["T"], p["heads"]))).astype(np.float32)},
    ),
]  # fmt: skip
PRODUCTS[1] = replace(PRODUCTS[1], got=lambda p, c, t: t["part_ptr"][: c["SPLIT"]].float().sum(0))

# -- scans


def scan_values(p: Problem) -> dict[str, Any]:
    g = drawn(50)
    return {"a_ptr": (-g.random((p["dim"], p["state"]))).astype(np.float32),
            "delta_ptr": g.random((p["batch"], p["length"], p["dim"])).astype(np.float16)}  # fmt: skip


SCANS = [
    subject(
        "scans", zoo.selective_scan, shapes("batch length dim state", (8, 512, 4096, 16), (2, 1000, 2048, 64)),
        {"BLOCK": (8, 16, 32, 64, 128), "num_warps": WARPS},
        lambda p: {**floats("u_ptr", "delta_ptr")("float16", p["batch"], p["length"], p["dim"]),
                   "a_ptr": Tensor("float32", (p["dim"], p["state"])),
                   **floats("b_ptr", "c_ptr")("float16", p["batch"], p["length"], p["state"]),
                   "d_ptr": Tensor("float32", (p["dim"],)),
                   "y_ptr": Tensor("float16", (p["batch"], p["length"], p["dim"])), "length": p["length"],
                   "dim": p["dim"]},
        lambda p, c: (p["dim"] // c["BLOCK"], p["batch"]), constants="state", values=scan_values,
        keep=lambda p, c: elements(c, c["BLOCK"] * p["state"], 32),
    ),
    subject(
        "scans", zoo.chunk_cumsum, shapes("batch T heads chunk dtype", (16, 16384, 128, 64, "float32"),
                                          (8, 32768, 200, 256, "bfloat16")),
        {"BLOCK_H": (1, 2, 4, 8, 16, 32, 64), "num_warps": WARPS},
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["batch"], p["T"], p["heads"])),
                   "y_ptr": Tensor("float32", (p["batch"], p["T"], p["heads"])), "T": p["T"], "heads": p["heads"]},
        lambda p, c: (cdiv(p["heads"], c["BLOCK_H"]), p["T"] // p["chunk"], p["batch"]), constants="chunk",
        keep=lambda p, c: elements(c, c["BLOCK_H"] * p["chunk"], 64),
    ),
]  # fmt: skip

# -- rows


def sampled_got(p: Problem, c: Any, t: Arrays) -> Any:
    at = t["y_ptr"].long()[:, None]
    return t["x_ptr"].gather(1, at)[:, 0].float() / 0.7 + t["noise_ptr"].gather(1, at)[:, 0].float()


def groups_got(p: Problem, c: Any, t: Arrays) -> Any:
    q = t["q_ptr"].float().reshape(p["rows"], -1, p["group"])
    return q * t["scale_ptr"].T[:, :, None], t["scale_ptr"]


ROWS = [
    replace(
        subject(
            "rows", zoo.entropy_backward,
            shapes("rows cols dtype", (4096, 32_000, "bfloat16"), (1000, 151_936, "float32")),
            {"BLOCK": (1024, 2048, 4096, 8192, 16384, 32768), "num_warps": (4, 8, 16, 32)},
            lambda p: {"x_ptr": Tensor(p["dtype"], (p["rows"], p["cols"])), "target_ptr": wide_ints(p["rows"]),
                       "loss_ptr": Tensor("float32", (p["rows"],)), "y_ptr": Tensor(p["dtype"], (p["rows"], p["cols"])),
                       "stride": p["cols"], "cols": p["cols"], "ignored": -100, "scale": 1.0},
            lambda p, c: (p["rows"],), keep=lambda p, c: elements(c, c["BLOCK"], 64),
            values=lambda p: {"target_ptr": drawn(51).integers(0, p["cols"], p["rows"])},
        ),
        outputs=("loss_ptr", "y_ptr"), got=lambda p, c, t: (t["loss_ptr"], t["y_ptr"]),
    ),
    subject(
        "rows", zoo.sample_rows, shapes("rows cols dtype", (512, 128_256, "float32"), (4000, 32_000, "bfloat16")),
        {"BLOCK": (512, 1024, 2048, 4096, 8192), "num_warps": (2, 4, 8, 16)},
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["rows"], p["cols"])),
                   "noise_ptr": Tensor("float32", (p["rows"], p["cols"])), "y_ptr": ints(p["rows"]), "cols": p["cols"],
                   "temperature": 0.7},
        lambda p, c: (p["rows"],), keep=lambda p, c: elements(c, c["BLOCK"], 32), got=sampled_got,
    ),
    subject(
        "rows", zoo.group_norm, shapes("images channels area groups dtype", (16, 512, 64 * 64, 32, "float16"),
                                       (64, 128, 28 * 28, 32, "float32")),
        {"BLOCK": (512, 1024, 2048, 4096, 8192), "num_warps": (2, 4, 8, 16)},
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["images"], p["channels"], p["area"])),
                   **floats("w_ptr", "b_ptr")("float32", p["channels"]),
                   "y_ptr": Tensor(p["dtype"], (p["images"], p["channels"], p["area"])),
                   "each": p["channels"] // p["groups"] * p["area"], "area": p["area"], "groups": p["groups"],
                   "per_group": p["channels"] // p["groups"], "eps": 1e-5},
        lambda p, c: (p["images"] * p["groups"],), keep=lambda p, c: elements(c, c["BLOCK"], 32),
    ),
    replace(
        subject(
            "rows", zoo.batch_moments, shapes("images channels area dtype", (64, 256, 56 * 56, "float16"),
                                              (256, 512, 14 * 14, "float32")),
            {"BLOCK_N": (1, 2, 4, 8, 16), "BLOCK_A": (128, 256, 512, 1024, 2048), "num_warps": (4, 8, 16)},
            lambda p: {"x_ptr": Tensor(p["dtype"], (p["images"], p["channels"], p["area"])),
                       **floats("mean_ptr", "var_ptr")("float32", p["channels"]), "images": p["images"],
                       "channels": p["channels"], "area": p["area"]},
            lambda p, c: (p["channels"],), most=16,
        ),
        outputs=("mean_ptr", "var_ptr"), got=lambda p, c, t: (t["mean_ptr"], t["var_ptr"]), tolerance=0.05,
    ),
    replace(
        subject(
            "rows", zoo.fp8_groups, shapes("rows cols group dtype", (8192, 7168, 128, "bfloat16"),
                                           (30_000, 1024, 32, "float32")),
            {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_G": (1, 2, 4, 8, 16), "num_warps": WARPS},
            lambda p: {"x_ptr": Tensor(p["dtype"], (p["rows"], p["cols"])),
                       "q_ptr": Tensor("float8_e4m3", (p["rows"], p["cols"])),
                       "scale_ptr": Tensor("float32", (p["cols"] // p["group"], p["rows"])), "rows": p["rows"],
                       "cols": p["cols"], "stride_x": p["cols"], "stride_sr": 1, "stride_sg": p["rows"], "eps": 1e-4},
            lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]), cdiv(p["cols"] // p["group"], c["BLOCK_G"])),
            constants="group", keep=lambda p, c: elements(c, c["BLOCK_R"] * c["BLOCK_G"] * p["group"], 32),
        ),
        outputs=("q_ptr", "scale_ptr"), got=groups_got, tolerance=0.05,
    ),
]  # fmt: skip

# -- pointwise and copies


def whole(p: Problem) -> list[int]:
    return [p["batch"], p["tokens"], p["heads"], p["dim"]]


def copied_args(p: Problem) -> dict[str, Any]:
    """y is dense, x is read in another order of its dimensions."""
    strides = [math.prod(p["shape"][i + 1 :]) for i in range(3)]
    read = [strides[i] for i in p["order"]]
    out = [p["shape"][i] for i in p["order"]]
    return {"x_ptr": Tensor(p["dtype"], p["shape"]), "y_ptr": Tensor(p["dtype"], tuple(out)), "n": math.prod(out),
            "size_1": out[1], "size_2": out[2], **{f"stride_x{i}": read[i] for i in range(3)},
            "stride_y0": out[1] * out[2], "stride_y1": out[2], "stride_y2": 1}  # fmt: skip


FLAT = [
    subject(
        "copies", zoo.dequantise_words, shapes("K N group", (8192, 8192, 128), (4096, 11008, 64)),
        {"BLOCK_R": (1, 2, 4, 8, 16, 32), "BLOCK_C": (16, 32, 64, 128), "num_warps": WARPS},
        lambda p: {**packed_args(p), "y_ptr": Tensor("float16", (p["K"], p["N"])), "K": p["K"], "N": p["N"]},
        lambda p, c: (cdiv(p["N"] // 8, c["BLOCK_C"]), cdiv(p["K"], c["BLOCK_R"])), constants="group",
        keep=lambda p, c: elements(c, 8 * c["BLOCK_R"] * c["BLOCK_C"], 64),
    ),
    subject(
        "copies", zoo.permute_heads, shapes("batch tokens heads dim dtype", (8, 4096, 32, 128, "float16"),
                                            (16, 1000, 20, 64, "float32")),
        {"BLOCK_T": (8, 16, 32, 64, 128, 256), "num_warps": WARPS},
        lambda p: {"x_ptr": Tensor(p["dtype"], tuple(whole(p))),
                   "y_ptr": Tensor(p["dtype"], (p["batch"], p["heads"], p["dim"], p["tokens"])), "tokens": p["tokens"],
                   "stride_xb": p["tokens"] * p["heads"] * p["dim"], "stride_xt": p["heads"] * p["dim"],
                   "stride_xh": p["dim"], "stride_yb": p["tokens"] * p["heads"] * p["dim"],
                   "stride_yh": p["dim"] * p["tokens"], "stride_yt": p["tokens"], "heads": p["heads"]},
        lambda p, c: (cdiv(p["tokens"], c["BLOCK_T"]), p["batch"] * p["heads"]),
        constants="dim",
        keep=lambda p, c: elements(c, c["BLOCK_T"] * p["dim"], 128),
    ),
    subject(
        "copies", zoo.copy_strided, shapes("shape order dtype", ((512, 300, 400), (1, 0, 2), "float16"),
                                           ((200, 512, 512), (2, 0, 1), "float32")),
        LINE, copied_args, lambda p, c: (cdiv(math.prod(p["shape"]), c["BLOCK"]),),
    ),
    replace(
        subject(
            "copies", zoo.adam_step, shapes("n", (50_000_000,), (1 << 20,)), LINE,
            lambda p: {**floats("p_ptr", "g_ptr")("bfloat16", p["n"]), **floats("m_ptr", "v_ptr")("float32", p["n"]),
                       "n": p["n"], "rate": 1e-3, "beta_1": 0.9, "beta_2": 0.99, "eps": 1e-2, "decay": 0.1},
            line,
        ),
        outputs=(), in_place=("p_ptr", "m_ptr", "v_ptr"), got=lambda p, c, t: (t["p_ptr"], t["m_ptr"], t["v_ptr"]),
    ),
    replace(
        subject(
            "copies", zoo.black_scholes, shapes("n", (1 << 25,), (1_000_000,)), LINE,
            lambda p: {**floats("price_ptr", "strike_ptr", "years_ptr", "call_ptr", "put_ptr")("float32", p["n"]),
                       "n": p["n"], "rate": 0.02, "volatility": 0.3},
            line,
        ),
        outputs=("call_ptr", "put_ptr"), got=lambda p, c, t: (t["call_ptr"], t["put_ptr"]),
    ),
]  # fmt: skip

LISTED: list[Subject] = [*WINDOWS, *ATOMICS, *GATHERS, *PRODUCTS, *SCANS, *ROWS, *FLAT]
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
