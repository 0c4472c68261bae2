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

from carver.compiled.binary import Tensor

from .edges import LINE, TILE, floats, ints, line, plane
from .forms import MATMUL, drawn, starts, walks
from .subject import Arrays, Problem, Subject, cdiv, shapes, subject


def longs(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64)


def wide_ints(*shape: int) -> Tensor:
    return Tensor("int64", shape)


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
    subject("windows", zoo.depthwise_strided, shapes("images channels high wide side step pad",
        (32, 96, 112, 112, 3, 2, 1), (16, 192, 56, 56, 7, 1, 3)), "BLOCK_R=1..16 BLOCK_C=32..128 num_warps=1..4",
        depthwise_args,
        lambda p, c: (cdiv(outside(p)["wide"], c["BLOCK_C"]), cdiv(outside(p)["high"], c["BLOCK_R"]),
            p["images"] * p["channels"]), constants="side"),
    subject("windows", zoo.pool_3d, shapes("planes depth high wide side step pad dtype",
        (64, 32, 112, 112, 3, 2, 1, "float32"), (512, 16, 56, 56, 2, 2, 0, "float16")), LINE,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["planes"], p["depth"], p["high"], p["wide"])),
            "y_ptr": Tensor(p["dtype"], (p["planes"], *pool_out(p))), "depth": p["depth"], "high": p["high"],
            "wide": p["wide"], **dict(zip(("out_depth", "out_high", "out_wide"), pool_out(p), strict=True))},
        lambda p, c: (cdiv(math.prod(pool_out(p)), c["BLOCK"]), p["planes"]), constants="side step pad", most=8),
    subject("windows", zoo.conv3d_dense, shapes("images depth high wide side channels out_channels",
        (4, 18, 34, 34, 3, 64, 128), (2, 10, 34, 66, 3, 192, 256)), MATMUL, conv3d_args,
        lambda p, c: (p["images"] * math.prod(conv3d_out(p)) // c["BLOCK_M"], p["out_channels"] // c["BLOCK_N"]),
        constants="side", keep=lambda p, c: walks(p, c) and c["BLOCK_N"] <= p["out_channels"]),
    subject("windows", zoo.conv_update, shapes("batch dim width", (2048, 4096, 4)), "BLOCK=64..1024 num_warps=1..8",
        "x: float16[batch, dim]; state: float16[batch, dim, width - 1]; w: float16[dim, width]; bias: float16[dim]; "
        "y: float16[batch, dim]; out_state: float16[batch, dim, width - 1]; dim; stride_sb = dim * (width - 1); "
        "stride_sd = width - 1", "batch, cdiv(dim, BLOCK)", constants="width", output="y_ptr out_state_ptr",
        keep="elements(c, BLOCK, 16)"),
    subject("windows", zoo.upsample, shapes("planes high wide times dtype", (48, 540, 960, 2, "float16"),
        (256, 64, 64, 4, "float32")), LINE,
        "x: dtype[planes, high, wide]; y: dtype[planes, high * times, wide * times]; high wide; "
        "out_high = high * times; out_wide = wide * times; ratio_h = 1 / times; ratio_w = 1 / times",
        "cdiv(high * wide * times ** 2, BLOCK), planes", most=16),
]  # fmt: skip

# -- atomics


ATOMICS = [
    subject("atomics", zoo.split_k_half, shapes("M N K group", (16, 4096, 14336, 8), (200, 1536, 6144, 4)),
        "BLOCK_M=16..64 BLOCK_N=32..128 BLOCK_K=64,128 SPLIT=1..16 num_warps=4,8 num_stages=2,4",
        "a: float16[M, K]; b: float16[N, K]; c: float16[M, N]; M N K; stride_am = K; stride_ak = 1; stride_bk = 1; "
        "stride_bn = K; stride_cm = N; stride_cn = 1", "cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N), SPLIT", constants="group",
        output="c_ptr", keep="stages(c, 2 * (BLOCK_M + BLOCK_N) * BLOCK_K) and (BLOCK_M == 16 or M > 16)"),
    subject("atomics", zoo.norm_backward, shapes("rows cols dtype", (16384, 2048, "bfloat16"), (5000, 6000, "float32")),
        "EACH=4..128 num_warps=4..16",
        "x g: dtype[rows, cols]; w: dtype[cols]; mean rstd: float32[rows]; dx: dtype[rows, cols]; "
        "dw db: float32[cols]; stride = cols; rows cols; BLOCK = pow2_up(cols)", "cdiv(rows, EACH)",
        output="dx_ptr dw_ptr db_ptr", keep="True"),
    subject("atomics", zoo.scatter_dim, shapes("rows cols out_rows", (20_000, 512, 3000), (2000, 4096, 20_000)), TILE,
        "x: float32[rows, cols]; index: int64[rows, cols]; y: float32[out_rows, cols]; rows cols out_rows; "
        "stride_xr = cols; stride_xc = 1; stride_ir = cols; stride_ic = 1; stride_yr = cols; stride_yc = 1", plane,
        values=lambda p: {"index_ptr": drawn(41).integers(0, p["out_rows"], (p["rows"], p["cols"]))}),
    subject("atomics", zoo.histogram_bytes, shapes("images each", (48, 1 << 20), (1000, 3 * 224 * 224)),
        "BLOCK=512..4096 STEPS=1,4,16 num_warps=2..8", "x: uint8[images * each]; count: int32[images, 256]; each",
        "cdiv(each, BLOCK * STEPS), images", output="count_ptr", keep="elements(c, BLOCK, 32)", tolerance=0.0,
        values=lambda p: {"x_ptr": drawn(42).normal(120, 40, p["images"] * p["each"]).clip(0, 255).astype(np.uint8)}),
    subject("atomics", zoo.bag_backward, shapes("bags count words width", (16384, 20, 1_000_000, 128),
        (4096, 50, 5000, 768)), "BLOCK=32..1024 num_warps=1..8",
        "g: float32[bags, width]; key: int64[bags, count]; y: float32[words, width]; width", "bags, cdiv(width, BLOCK)",
        constants="count", keep="elements(c, BLOCK, 16) and BLOCK < 2 * width",
        values=lambda p: {"key_ptr": longs(drawn(43).random((p["bags"], p["count"])) ** 2 * p["words"])}),
    subject("atomics", zoo.voxels, shapes("n side channels", (4_000_000, 100, 4), (1 << 20, 32, 16)), LINE,
        "point: float32[n, 3]; value: float32[n, channels]; sum: float32[side ** 3, channels]; "
        "count: int32[side ** 3]; n side", line, constants="channels", output="sum_ptr count_ptr", most=8,
        values=lambda p: {"point_ptr": drawn(44).random((p["n"], 3)).astype(np.float32)}),
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
    subject("gathers", zoo.paged_split, shapes("batch kv group dim longest page parts", (64, 8, 4, 128, 4096, 16, 4),
        (8, 2, 8, 128, 20_000, 64, 16)), "BLOCK=16..128 num_warps=1..8 num_stages=1,2,3,4", paged_args,
        "batch, kv, parts", constants="page group dim parts", output="part_ptr lse_ptr", got=paged_got,
        keep="stages(c, 4 * BLOCK * dim, 2 * 16 * dim)",
        values=lambda p: {"length_ptr": paged_lengths(p),
            "table_ptr": drawn(47).permutation(p["batch"] * cdiv(p["longest"], p["page"]))
            .astype(np.int32).reshape(p["batch"], -1)}),
    subject("gathers", zoo.cache_write, shapes("tokens width page pages", (16384, 1024, 16, 4096),
        (60_000, 512, 64, 2000)), "BLOCK=64..1024 num_warps=1..8",
        "k v: float16[tokens, width]; slot: int64[tokens]; kc vc: float16[pages * page, width]; stride_k = width; "
        "stride_v = width; width", "tokens, cdiv(width, BLOCK)", constants="page", output="kc_ptr vc_ptr",
        keep="elements(c, BLOCK, 16) and BLOCK <= width", values=lambda p: {"slot_ptr": slots(p)}),
    subject("gathers", zoo.gather_dim, shapes("rows cols in_cols dtype", (2048, 4096, 32_000, "float32"),
        (30_000, 300, 500, "float16")), TILE,
        "x: dtype[rows, in_cols]; index: int64[rows, cols]; y: dtype[rows, cols]; rows cols in_cols; "
        "stride_xr = in_cols; stride_xc = 1; stride_ir = cols; stride_ic = 1", plane,
        values=lambda p: {"index_ptr": drawn(48).integers(0, p["in_cols"], (p["rows"], p["cols"]))}),
    subject("gathers", zoo.rope_pairs, shapes("tokens heads kv dim places", (16384, 32, 8, 128, 1 << 15),
        (50_000, 12, 2, 64, 1 << 13)), "BLOCK_H=1..32 num_warps=1..8",
        "q: float16[tokens, heads, dim]; k: float16[tokens, kv, dim]; cos sin: float32[places, dim // 2]; "
        "position: int64[tokens]; stride_q = heads * dim; stride_k = kv * dim; tokens", "tokens, cdiv(heads, BLOCK_H)",
        constants="heads kv dim", output="", got=lambda p, c, t: (t["q_ptr"], t["k_ptr"]),
        keep="elements(c, BLOCK_H * dim // 2, 32)",
        values=lambda p: {"position_ptr": longs(np.arange(p["tokens"]) % 3000)}, in_place=("q_ptr", "k_ptr")),
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
    subject("products", zoo.jagged_matmul, shapes("groups most N K", (64, 512, 1536, 2048), (8, 4000, 4096, 1024)),
        MATMUL,
        lambda p: {"a_ptr": Tensor("bfloat16", (int(places(p)[-1]), p["K"])),
            "b_ptr": Tensor("bfloat16", (p["groups"], p["N"], p["K"])),
            "c_ptr": Tensor("bfloat16", (int(places(p)[-1]), p["N"])), "start_ptr": ints(p["groups"] + 1),
            "N": p["N"], "K": p["K"], "stride_am": p["K"], "stride_be": p["N"] * p["K"], "stride_bn": p["K"],
            "stride_cm": p["N"]},
        lambda p, c: (cdiv(int(np.diff(places(p)).max()), c["BLOCK_M"]), cdiv(p["N"], c["BLOCK_N"]), p["groups"]),
        output="c_ptr", keep=walks, values=lambda p: {"start_ptr": places(p)}),
    subject("products", zoo.int4_zeros_split, shapes("M N K group", (8, 8192, 4096, 128), (64, 4096, 11008, 128)),
        "BLOCK_M=16..64 BLOCK_N=32..128 BLOCK_K=32..128 SPLIT=1,4,8 num_warps=2..8 num_stages=2,3",
        lambda p: {"a_ptr": Tensor("float16", (p["M"], p["K"])), **packed_args(p),
            "part_ptr": Tensor("float16", (8, p["M"], p["N"])), **{n: p[n] for n in "MNK"}},
        "cdiv(M, BLOCK_M), N // BLOCK_N, SPLIT", constants="group", output="part_ptr", keep="BLOCK_M == 16 or M > 16"),
    subject("products", zoo.window_gqa, shapes("batch length kv group dim window", (4, 4096, 8, 4, 128, 1024),
        (8, 3000, 4, 7, 64, 512)), "BLOCK_M=64,128 BLOCK_N=32..128 num_warps=4,8 num_stages=1,2,3,4", gqa_args,
        "cdiv(length, BLOCK_M), batch * kv * group", constants="group dim",
        keep="stages(c, 4 * BLOCK_N * dim, 2 * BLOCK_M * dim)"),
    subject("products", zoo.chunk_states, shapes("batch T heads chunk dim_k dim_v", (4, 4096, 16, 64, 128, 128),
        (2, 8192, 8, 256, 256, 512)), "BLOCK_K=32..128 BLOCK_V=32..128 BLOCK_T=16..64 num_warps=2..8 num_stages=2,3",
        "k: bfloat16[batch, T, heads, dim_k]; v: bfloat16[batch, T, heads, dim_v]; g: float32[batch, T, heads]; "
        "y: float32[batch, T // chunk, heads, dim_k, dim_v]; T heads",
        "dim_k // BLOCK_K * (dim_v // BLOCK_V), T // chunk, batch * heads", constants="chunk dim_k dim_v",
        keep="4 <= BLOCK_K * BLOCK_V / (32 * num_warps) <= 128",
        values=lambda p: {"g_ptr": (-0.01 * drawn(49).random((p["batch"], p["T"], p["heads"]))).astype(np.float32)}),
]  # fmt: skip
PRODUCTS[1] = replace(PRODUCTS[1], got=lambda p, c, t: t["part_ptr"][: c["SPLIT"]].float().sum(0))

# -- scans


def scan_values(p: Problem) -> dict[str, Any]:
    g = drawn(50)
    return {"a_ptr": (-g.random((p["dim"], p["state"]))).astype(np.float32),
            "delta_ptr": g.random((p["batch"], p["length"], p["dim"])).astype(np.float16)}  # fmt: skip


SCANS = [
    subject("scans", zoo.selective_scan, shapes("batch length dim state", (8, 512, 4096, 16), (2, 1000, 2048, 64)),
        "BLOCK=8..128 num_warps=1..8",
        "u delta: float16[batch, length, dim]; a: float32[dim, state]; b c: float16[batch, length, state]; "
        "d: float32[dim]; y: float16[batch, length, dim]; length dim", "dim // BLOCK, batch", constants="state",
        keep="elements(c, BLOCK * state, 32)", values=scan_values),
    subject("scans", zoo.chunk_cumsum, shapes("batch T heads chunk dtype", (16, 16384, 128, 64, "float32"),
        (8, 32768, 200, 256, "bfloat16")), "BLOCK_H=1..64 num_warps=1..8",
        "x: dtype[batch, T, heads]; y: float32[batch, T, heads]; T heads", "cdiv(heads, BLOCK_H), T // chunk, batch",
        constants="chunk", keep="elements(c, BLOCK_H * chunk, 64)"),
]  # fmt: skip

# -- rows


def sampled_got(p: Problem, c: Any, t: Arrays) -> Any:
    at = t["y_ptr"].long()[:, None]
    return t["x_ptr"].gather(1, at)[:, 0].float() / 0.7 + t["noise_ptr"].gather(1, at)[:, 0].float()


def groups_got(p: Problem, c: Any, t: Arrays) -> Any:
    q = t["q_ptr"].float().reshape(p["rows"], -1, p["group"])
    return q * t["scale_ptr"].T[:, :, None], t["scale_ptr"]


ROWS = [
    subject("rows", zoo.entropy_backward, shapes("rows cols dtype", (4096, 32_000, "bfloat16"),
        (1000, 151_936, "float32")), "BLOCK=1024..32768 num_warps=4..32",
        "x: dtype[rows, cols]; target: int64[rows]; loss: float32[rows]; y: dtype[rows, cols]; stride = cols; cols; "
        "ignored = -100; scale = 1.0", "rows", output="loss_ptr y_ptr", keep="elements(c, BLOCK, 64)",
        values=lambda p: {"target_ptr": drawn(51).integers(0, p["cols"], p["rows"])}),
    subject("rows", zoo.sample_rows, shapes("rows cols dtype", (512, 128_256, "float32"), (4000, 32_000, "bfloat16")),
        "BLOCK=512..8192 num_warps=2..16",
        "x: dtype[rows, cols]; noise: float32[rows, cols]; y: int32[rows]; cols; temperature = 0.7", "rows",
        got=sampled_got, keep="elements(c, BLOCK, 32)"),
    subject("rows", zoo.group_norm, shapes("images channels area groups dtype", (16, 512, 64 * 64, 32, "float16"),
        (64, 128, 28 * 28, 32, "float32")), "BLOCK=512..8192 num_warps=2..16",
        "x: dtype[images, channels, area]; w b: float32[channels]; y: dtype[images, channels, area]; "
        "each = channels // groups * area; area groups; per_group = channels // groups; eps = 1e-05", "images * groups",
        keep="elements(c, BLOCK, 32)"),
    subject("rows", zoo.batch_moments, shapes("images channels area dtype", (64, 256, 56 * 56, "float16"),
        (256, 512, 14 * 14, "float32")), "BLOCK_N=1..16 BLOCK_A=128..2048 num_warps=4..16",
        "x: dtype[images, channels, area]; mean var: float32[channels]; images channels area", "channels",
        output="mean_ptr var_ptr", most=16, tolerance=0.05),
    subject("rows", zoo.fp8_groups, shapes("rows cols group dtype", (8192, 7168, 128, "bfloat16"),
        (30_000, 1024, 32, "float32")), "BLOCK_R=1..16 BLOCK_G=1..16 num_warps=1..8",
        "x: dtype[rows, cols]; q: float8_e4m3[rows, cols]; scale: float32[cols // group, rows]; rows cols; "
        "stride_x = cols; stride_sr = 1; stride_sg = rows; eps = 0.0001",
        "cdiv(rows, BLOCK_R), cdiv(cols // group, BLOCK_G)", constants="group", output="q_ptr scale_ptr",
        got=groups_got, keep="elements(c, BLOCK_R * BLOCK_G * group, 32)", tolerance=0.05),
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
    subject("copies", zoo.dequantise_words, shapes("K N group", (8192, 8192, 128), (4096, 11008, 64)),
        "BLOCK_R=1..32 BLOCK_C=16..128 num_warps=1..8",
        lambda p: {**packed_args(p), "y_ptr": Tensor("float16", (p["K"], p["N"])), "K": p["K"], "N": p["N"]},
        "cdiv(N // 8, BLOCK_C), cdiv(K, BLOCK_R)", constants="group", keep="elements(c, 8 * BLOCK_R * BLOCK_C, 64)"),
    subject("copies", zoo.permute_heads, shapes("batch tokens heads dim dtype", (8, 4096, 32, 128, "float16"),
        (16, 1000, 20, 64, "float32")), "BLOCK_T=8..256 num_warps=1..8",
        lambda p: {"x_ptr": Tensor(p["dtype"], tuple(whole(p))),
            "y_ptr": Tensor(p["dtype"], (p["batch"], p["heads"], p["dim"], p["tokens"])), "tokens": p["tokens"],
            "stride_xb": p["tokens"] * p["heads"] * p["dim"], "stride_xt": p["heads"] * p["dim"],
            "stride_xh": p["dim"], "stride_yb": p["tokens"] * p["heads"] * p["dim"],
            "stride_yh": p["dim"] * p["tokens"], "stride_yt": p["tokens"], "heads": p["heads"]},
        "cdiv(tokens, BLOCK_T), batch * heads", constants="dim", keep="elements(c, BLOCK_T * dim, 128)"),
    subject("copies", zoo.copy_strided, shapes("shape order dtype", ((512, 300, 400), (1, 0, 2), "float16"),
        ((200, 512, 512), (2, 0, 1), "float32")), LINE, copied_args, "cdiv(prod(shape), BLOCK)"),
    subject("copies", zoo.adam_step, shapes("n", (50_000_000,), (1 << 20,)), LINE,
        "p g: bfloat16[n]; m v: float32[n]; n; rate = 0.001; beta_1 = 0.9; beta_2 = 0.99; eps = 0.01; decay = 0.1",
        line, output="", got=lambda p, c, t: (t["p_ptr"], t["m_ptr"], t["v_ptr"]),
        in_place=("p_ptr", "m_ptr", "v_ptr")),
    subject("copies", zoo.black_scholes, shapes("n", (1 << 25,), (1_000_000,)), LINE,
        "price strike years call put: float32[n]; n; rate = 0.02; volatility = 0.3", line, output="call_ptr put_ptr"),
]  # fmt: skip

LISTED: list[Subject] = [*WINDOWS, *ATOMICS, *GATHERS, *PRODUCTS, *SCANS, *ROWS, *FLAT]
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
