"""The 31 kernels of `kernels/triton_zoo_forms.py` as `zoo.py` measures them: other forms of six kinds, two problems
each.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured or ranked.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_forms as zoo
from zoo_edges import LINE, TILE, TOKENS, floats, framed, image, ints, line, plane, subject
from zoo_more import elements, shapes
from zoo_subject import SMS, Arrays, Problem, Subject, cdiv, per_thread, stages, tiles

from carver.compiled.binary import Tensor

MATMUL = {
    "BLOCK_M": (64, 128), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (32, 64), "num_warps": (4, 8),
    "num_stages": (2, 3, 4),
}  # fmt: skip
ROW = {"num_warps": (1, 2, 4, 8, 16), "num_stages": (1,)}


def drawn(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def starts(p: Problem, name: str, most: str) -> np.ndarray:
    """Where each of p[name] parts begins and the last ends: lengths from none to p[most], drawn unevenly."""
    lengths = (drawn(31).random(p[name]) ** 2 * (p[most] + 1)).astype(np.int32)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


# -- references


def diffuse_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = torch.nn.functional.pad(t["x_ptr"].float(), (1, 1, 1, 1))
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return 0.6 * x[1:-1, 1:-1] + 0.1 * around


def walk_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"].clone()
    edge = x.clone()
    edge[:, 1:-1, 1:-1] = 0.0
    inner = x[1:-1, 1:-1, 1:-1]
    acc = x[1:-1, 1:-1, 2:] + x[1:-1, 1:-1, :-2] + x[1:-1, 2:, 1:-1] + x[1:-1, :-2, 1:-1]
    acc += x[2:, 1:-1, 1:-1] + x[:-2, 1:-1, 1:-1]
    return framed(acc - 6.0 * inner, x.shape, (1, 1, 1))


def im2col_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.nn.functional.unfold(t["x_ptr"], p["side"]).transpose(1, 2)


def rolling_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = torch.nn.functional.pad(t["x_ptr"].float(), (p["window"] - 1, 0))
    total, square = (sum(v[:, k : k + p["length"]] for k in range(p["window"])) for v in (x, x * x))
    mean = total / p["window"]
    return mean, (square / p["window"] - mean**2).clamp(min=0.0).sqrt()


def dense_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = torch.nn.functional.pad(t["x_ptr"].float(), (0, 0, 0, p["taps"] - 1))
    return sum(x[:, k : k + p["length"]] @ t["w_ptr"][k].float() for k in range(p["taps"]))


def near_want(p: Problem, t: Arrays) -> Any:
    import torch

    q, k, v = (t[n].float() for n in ("q_ptr", "k_ptr", "v_ptr"))
    window, length = p["window"], p["length"]
    pad = torch.nn.functional.pad
    k, v = (pad(each, (0, 0, window - 1, 0)) for each in (k, v))
    backs = range(window)
    s = torch.stack([(q * k[:, window - 1 - b : window - 1 - b + length]).sum(-1) for b in backs], -1)
    seen = torch.arange(length, device=q.device)[:, None] >= torch.arange(window, device=q.device)[None, :]
    s = torch.softmax(s.masked_fill(~seen, float("-inf")), -1)
    return sum(s[..., b, None] * v[:, window - 1 - b : window - 1 - b + length] for b in backs)


def held_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.bincount(t["key_ptr"] & (p["bins"] - 1), minlength=p["bins"])


def sorted_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"][(t["col_ptr"] & (p["cols"] - 1)).long()] * t["v_ptr"]
    return x.new_zeros(p["rows"]).index_add_(0, t["row_ptr"], x)


def embed_want(p: Problem, t: Arrays) -> Any:
    g = t["g_ptr"].float()
    return g.new_zeros(p["words"], p["width"]).index_add_(0, t["word_ptr"], g)


def route_want(p: Problem, t: Arrays) -> Any:
    import torch

    best, chosen = t["score_ptr"].float().topk(2, 1)
    return torch.softmax(best, 1), torch.bincount(chosen.flatten(), minlength=p["experts"])


def group_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"].float()
    return x.new_zeros(p["groups"], p["width"]).index_add_(0, t["group_ptr"], x)


def bent(p: Problem) -> dict[str, Any]:
    """Places of a gentle wave over the image in 1/256 of a pixel."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    v = r + p["bend"] * np.sin(c / 40)
    u = c + p["bend"] * np.cos(r / 30)
    held = {"v_ptr": (v, p["high"]), "u_ptr": (u, p["wide"])}
    return {n: (np.clip(x, 0, most - 1.01) * 256).astype(np.int32) for n, (x, most) in held.items()}


def warp_want(p: Problem, t: Arrays) -> Any:
    v, u = t["v_ptr"].long().flatten(), t["u_ptr"].long().flatten()
    fv, fu = (v & 255) / 256.0, (u & 255) / 256.0
    at, flat, wide = (v >> 8) * p["wide"] + (u >> 8), t["x_ptr"].reshape(p["channels"], -1), p["wide"]
    upper, lower = (flat[:, at + d] * (1 - fu) + flat[:, at + d + 1] * fu for d in (0, wide))
    return (upper * (1 - fv) + lower * fv).reshape(t["x_ptr"].shape)


def levels_want(p: Problem, t: Arrays) -> Any:
    slot = (t["key_ptr"] & (p["slots"] - 1)).long()
    return t["x_ptr"][(t["table_ptr"][slot] & (p["places"] - 1)).long()]


def csr_want(p: Problem, t: Arrays) -> Any:
    import torch

    product = t["v_ptr"] * t["x_ptr"][(t["col_ptr"] & (p["cols"] - 1)).long()]
    row = torch.repeat_interleave(torch.arange(p["rows"], device=product.device), t["start_ptr"].diff().long())
    return product.new_zeros(p["rows"]).index_add_(0, row, product[: len(row)])


def csr_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "rows", "most")[-1])
    return {"start_ptr": ints(p["rows"] + 1), "col_ptr": ints(n), "v_ptr": Tensor("float32", (n,)),
            "x_ptr": Tensor("float32", (p["cols"],)), "y_ptr": Tensor("float32", (p["rows"],)),
            "cols": p["cols"]}  # fmt: skip


def rope_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, half = t["x_ptr"].float(), p["dim"] // 2
    cosine, sine = t["angle_ptr"][t["position_ptr"].long()][:, None].split(half, -1)
    a, b = x.split(half, -1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)


def combine_want(p: Problem, t: Arrays) -> Any:
    return sum(t["weight_ptr"][:, k, None] * t["x_ptr"][t["place_ptr"][:, k].long()].float() for k in range(p["each"]))


def pad_want(p: Problem, t: Arrays) -> Any:
    out = t["x_ptr"].new_zeros(p["batch"], p["most"], p["width"])
    start = t["start_ptr"].tolist()
    for i in range(p["batch"]):
        out[i, : start[i + 1] - start[i]] = t["x_ptr"][start[i] : start[i + 1]]
    return out


def three_want(p: Problem, t: Arrays) -> Any:
    import torch

    a = t["a_ptr"].float()
    return torch.cat([a @ t[n].float() for n in ("q_ptr", "k_ptr", "v_ptr")], 1)


def score_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.nn.functional.layer_norm(t["x_ptr"].float(), (p["cols"],), t["g_ptr"].float())


def distance_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.cdist(t["x_ptr"].T.contiguous(), t["y_ptr"].T.contiguous(), 1)


def wide_want(p: Problem, t: Arrays) -> Any:
    import torch

    q, k, v = (t[n].float() for n in ("q_ptr", "k_ptr", "v_ptr"))
    return torch.stack(
        [torch.softmax(20.0 * torch.tanh(a @ b.T * p["scale"] / 20), 1) @ c for a, b, c in zip(q, k, v, strict=True)]
    )


def product_want(p: Problem, t: Arrays) -> Any:
    import torch

    a, b = (torch.view_as_complex(t[n].float()) for n in ("a_ptr", "b_ptr"))
    return torch.view_as_real(a * b)


def jagged_want(p: Problem, t: Arrays) -> Any:
    import torch

    start = t["start_ptr"].tolist()
    return torch.cat([torch.softmax(t["x_ptr"][a:b], 0) for a, b in itertools.pairwise(start)])


# -- the kernels


def volume(p: Problem) -> dict[str, Any]:
    sizes = {n: p[n] for n in ("planes", "rows", "cols")}
    return {**floats("x_ptr", "y_ptr")("float32", *sizes.values()), **sizes}


def outside(p: Problem) -> dict[str, Any]:
    return {n: p[n] - p["side"] + 1 for n in ("high", "wide")}


def walks(p: Problem, c: Any) -> bool:
    return stages(c, 2 * (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"], 2 * c["BLOCK_M"] * c["BLOCK_N"]) and per_thread(
        c, c["BLOCK_M"] * c["BLOCK_N"], 128
    )


OVERLAPS = [
    subject(
        "overlap", zoo.diffuse, shapes("rows cols dtype", (8192, 8192, "float32"), (4000, 12000, "float16")), TILE,
        image, plane, diffuse_want,
    ),
    subject(
        "overlap", zoo.planes_walk, shapes("planes rows cols", (64, 1024, 2048), (200, 500, 1000)), TILE, volume,
        plane, walk_want, most=8,
    ),
    subject(
        "overlap", zoo.im2col, shapes("images channels high wide side", (8, 64, 56, 56, 3), (16, 16, 100, 100, 5)),
        {"BLOCK_P": (4, 16, 32, 64, 128), "BLOCK_K": (16, 32, 64, 128), "num_warps": (2, 4, 8)},
        lambda p: {
            "x_ptr": Tensor("float16", (p["images"], p["channels"], p["high"], p["wide"])),
            "y_ptr": Tensor("float16", (p["images"], math.prod(outside(p).values()), p["channels"] * p["side"] ** 2)),
            "channels": p["channels"], "high": p["high"], "wide": p["wide"],
            **{f"out_{n}": size for n, size in outside(p).items()},
        },
        lambda p, c: (cdiv(math.prod(outside(p).values()), c["BLOCK_P"]),
                      cdiv(p["channels"] * p["side"] ** 2, c["BLOCK_K"]), p["images"]),
        im2col_want, constants="side",
    ),
    replace(
        subject(
            "overlap", zoo.rolling, shapes("series length window", (512, 16384, 20), (3000, 5000, 7)), LINE,
            lambda p: {**floats("x_ptr", "mean_ptr", "deviation_ptr")("float32", p["series"], p["length"]),
                       "length": p["length"], "window": p["window"]},
            lambda p, c: (cdiv(p["length"], c["BLOCK"]), p["series"]), rolling_want,
        ),
        outputs=("mean_ptr", "deviation_ptr"), got=lambda p, c, t: (t["mean_ptr"], t["deviation_ptr"]),
    ),
    subject(
        "overlap", zoo.conv1d_dense,
        shapes("batch length width out_width taps", (8, 4096, 256, 512, 5), (16, 1500, 768, 768, 3)), MATMUL,
        lambda p: {"x_ptr": Tensor("float16", (p["batch"], p["length"], p["width"])),
                   "w_ptr": Tensor("float16", (p["taps"], p["width"], p["out_width"])),
                   "y_ptr": Tensor("float16", (p["batch"], p["length"], p["out_width"])),
                   "length": p["length"], "width": p["width"], "out_width": p["out_width"]},
        lambda p, c: (cdiv(p["length"], c["BLOCK_M"]), p["out_width"] // c["BLOCK_N"], p["batch"]), dense_want,
        constants="taps", keep=walks,
    ),
    subject(
        "overlap", zoo.near_attention, shapes("heads length window width", (64, 8192, 16, 64), (128, 3000, 9, 128)),
        {"BLOCK": (4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("q_ptr", "k_ptr", "v_ptr", "y_ptr")("float16", p["heads"], p["length"], p["width"]),
                   "length": p["length"]},
        lambda p, c: (cdiv(p["length"], c["BLOCK"]), p["heads"]), near_want, constants="window width",
        keep=lambda p, c: elements(c, c["BLOCK"] * p["width"], 32),
    ),
]  # fmt: skip

ATOMICS = [
    subject(
        "atomics", zoo.histogram_held, shapes("n bins parts", (1 << 25, 256, 8), (30_000_000, 2048, 16)),
        {"BLOCK": (512, 1024, 2048, 4096), "num_warps": (2, 4, 8)},
        lambda p: {"key_ptr": ints(p["n"]), "count_ptr": ints(p["bins"]), "n": p["n"]},
        lambda p, c: (cdiv(p["n"], c["BLOCK"] * p["parts"]),), held_want, constants="bins parts",
        output="count_ptr", tolerance=0.0, keep=lambda p, c: elements(c, max(c["BLOCK"], p["bins"]), 64),
    ),
    subject(
        "atomics", zoo.sparse_sorted, shapes("n rows cols", (1 << 23, 1 << 19, 1 << 20), (1 << 22, 4000, 1 << 14)),
        LINE,
        lambda p: {"v_ptr": Tensor("float32", (p["n"],)), "row_ptr": ints(p["n"]), "col_ptr": ints(p["n"]),
                   "x_ptr": Tensor("float32", (p["cols"],)), "y_ptr": Tensor("float32", (p["rows"],)), "n": p["n"],
                   "cols": p["cols"]},
        line, sorted_want,
        values=lambda p: {"row_ptr": np.sort(drawn(32).integers(0, p["rows"], p["n"])).astype(np.int32)},
    ),
    subject(
        "atomics", zoo.embed_backward, shapes("tokens words width", (16384, 32000, 1024), (8192, 100_000, 2048)),
        TOKENS,
        lambda p: {"g_ptr": Tensor("float16", (p["tokens"], p["width"])), "word_ptr": ints(p["tokens"]),
                   "y_ptr": Tensor("float16", (p["words"], p["width"])), "tokens": p["tokens"], "width": p["width"]},
        lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["tokens"], c["BLOCK_T"])), embed_want, tolerance=0.05,
        values=lambda p: {"word_ptr": (drawn(33).random(p["tokens"]) ** 3 * p["words"]).astype(np.int32)},
    ),
    replace(
        subject(
            "atomics", zoo.route, shapes("tokens experts", (1 << 18, 64), (1 << 17, 256)),
            {"BLOCK": (4, 8, 16, 32, 64, 128), "num_warps": (1, 2, 4, 8)},
            lambda p: {"score_ptr": Tensor("float32", (p["tokens"], p["experts"])),
                       "weight_ptr": Tensor("float32", (p["tokens"], 2)), "place_ptr": ints(2 * p["tokens"]),
                       "count_ptr": ints(p["experts"]), "tokens": p["tokens"]},
            lambda p, c: (cdiv(p["tokens"], c["BLOCK"]),), route_want, constants="experts",
            keep=lambda p, c: elements(c, c["BLOCK"] * p["experts"], 64),
        ),
        outputs=("weight_ptr", "place_ptr", "count_ptr"), got=lambda p, c, t: (t["weight_ptr"], t["count_ptr"]),
    ),
    subject(
        "atomics", zoo.segment_rows, shapes("rows width groups each", (1 << 18, 256, 10_000, 32),
                                            (1 << 15, 2048, 1000, 16)),
        {"BLOCK": (64, 128, 256, 512, 1024), "num_warps": (1, 2, 4, 8)},
        lambda p: {"x_ptr": Tensor("float16", (p["rows"], p["width"])), "group_ptr": ints(p["rows"]),
                   "y_ptr": Tensor("float32", (p["groups"], p["width"])), "rows": p["rows"], "width": p["width"]},
        lambda p, c: (cdiv(p["rows"], p["each"]), cdiv(p["width"], c["BLOCK"])), group_want, constants="each",
        values=lambda p: {"group_ptr": np.sort(drawn(34).integers(0, p["groups"], p["rows"])).astype(np.int32)},
        keep=lambda p, c: elements(c, c["BLOCK"], 16) and c["BLOCK"] <= p["width"],
    ),
]  # fmt: skip

GATHERS = [
    subject(
        "gathers", zoo.warp_image, shapes("channels high wide bend", (3, 2160, 3840, 12.0), (64, 512, 640, 40.0)),
        LINE,
        lambda p: {**floats("x_ptr", "y_ptr")("float32", p["channels"], p["high"], p["wide"]),
                   "v_ptr": Tensor("int32", (p["high"], p["wide"])), "u_ptr": Tensor("int32", (p["high"], p["wide"])),
                   "channels": p["channels"], "high": p["high"], "wide": p["wide"]},
        lambda p, c: (cdiv(p["high"] * p["wide"], c["BLOCK"]),), warp_want, values=bent, most=16,
    ),
    subject(
        "gathers", zoo.two_levels, shapes("n slots places", (1 << 23, 1 << 16, 1 << 25), (1 << 22, 1 << 24, 1 << 22)),
        LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["places"],)), "table_ptr": ints(p["slots"]),
                   "key_ptr": ints(p["n"]), "y_ptr": Tensor("float32", (p["n"],)), "n": p["n"], "slots": p["slots"],
                   "places": p["places"]},
        line, levels_want,
    ),
    subject(
        "gathers", zoo.sparse_csr, shapes("rows most cols", (1 << 16, 300, 1 << 18), (10_000, 4000, 1 << 22)),
        {"BLOCK": (32, 64, 128, 256, 512, 1024), "num_warps": (1, 2, 4)}, csr_args, lambda p, c: (p["rows"],),
        csr_want, values=lambda p: {"start_ptr": starts(p, "rows", "most")}, most=16,
    ),
    subject(
        "gathers", zoo.rope_at, shapes("tokens heads dim places", (16384, 32, 128, 1 << 15), (40_000, 20, 64, 1 << 12)),
        {"BLOCK_H": (1, 2, 4, 8, 16, 32), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float16", p["tokens"], p["heads"], p["dim"]),
                   "position_ptr": ints(p["tokens"]), "angle_ptr": Tensor("float32", (p["places"], p["dim"])),
                   "heads": p["heads"]},
        lambda p, c: (p["tokens"], cdiv(p["heads"], c["BLOCK_H"])), rope_want, constants="dim",
        values=lambda p: {"position_ptr": drawn(35).integers(0, p["places"], p["tokens"]).astype(np.int32)},
        keep=lambda p, c: elements(c, c["BLOCK_H"] * p["dim"] // 2, 32),
    ),
    subject(
        "gathers", zoo.combine, shapes("tokens width each", (8192, 4096, 4), (16384, 1536, 8)),
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8)},
        lambda p: {"x_ptr": Tensor("float16", (p["tokens"] * p["each"], p["width"])),
                   "place_ptr": Tensor("int32", (p["tokens"], p["each"])),
                   "weight_ptr": Tensor("float32", (p["tokens"], p["each"])),
                   "y_ptr": Tensor("float16", (p["tokens"], p["width"])), "width": p["width"]},
        lambda p, c: (p["tokens"], cdiv(p["width"], c["BLOCK"])), combine_want, constants="each",
        values=lambda p: {"place_ptr": drawn(36).permutation(p["tokens"] * p["each"]).astype(np.int32)
                          .reshape(p["tokens"], p["each"])},
    ),
    subject(
        "gathers", zoo.pad_jagged, shapes("batch most width", (64, 2048, 512), (2000, 100, 300)), TOKENS,
        lambda p: {"x_ptr": Tensor("float16", (int(starts(p, "batch", "most")[-1]), p["width"])),
                   "start_ptr": ints(p["batch"] + 1), "y_ptr": Tensor("float16", (p["batch"], p["most"], p["width"])),
                   "most": p["most"], "width": p["width"]},
        lambda p, c: (cdiv(p["most"], c["BLOCK_T"]), cdiv(p["width"], c["BLOCK_C"]), p["batch"]), pad_want,
        values=lambda p: {"start_ptr": starts(p, "batch", "most")},
    ),
]  # fmt: skip

SPILLS = [
    subject(
        "spills", zoo.three_matmuls, shapes("M N K", (4096, 2048, 1024), (1000, 1024, 4096)),
        {"BLOCK_M": (64, 128), "BLOCK_N": (64, 128), "BLOCK_K": (32, 64), "num_warps": (4, 8), "num_stages": (2, 3)},
        lambda p: {"a_ptr": Tensor("float16", (p["M"], p["K"])),
                   **{n: Tensor("float16", (p["K"], p["N"])) for n in ("q_ptr", "k_ptr", "v_ptr")},
                   "y_ptr": Tensor("float16", (p["M"], 3 * p["N"])), **{n: p[n] for n in "MNK"}},
        lambda p, c: (cdiv(p["M"], c["BLOCK_M"]), p["N"] // c["BLOCK_N"]), three_want,
        keep=lambda p, c: stages(c, 2 * (c["BLOCK_M"] + 3 * c["BLOCK_N"]) * c["BLOCK_K"]),
    ),
    subject(
        "spills", zoo.standard_score, shapes("rows cols", (4096, 16384), (1000, 50_000)), ROW,
        lambda p: {**floats("x_ptr", "y_ptr")("float16", p["rows"], p["cols"]),
                   "g_ptr": Tensor("float16", (p["cols"],)), "cols": p["cols"],
                   "BLOCK": 1 << (p["cols"] - 1).bit_length()},
        lambda p, c: (p["rows"],), score_want,
        keep=lambda p, c: (1 << (p["cols"] - 1).bit_length()) // 32 // c["num_warps"] <= 256,
    ),
    subject(
        "spills", zoo.distances, shapes("M N K", (4096, 4096, 128), (2048, 8192, 64)),
        {"BLOCK_M": (32, 64, 128), "BLOCK_N": (64, 128, 256), "BLOCK_K": (4, 16), "num_warps": (2, 4, 8)},
        lambda p: {"x_ptr": Tensor("float32", (p["K"], p["M"])), "y_ptr": Tensor("float32", (p["K"], p["N"])),
                   "out_ptr": Tensor("float32", (p["M"], p["N"])), **{n: p[n] for n in "MNK"}},
        lambda p, c: (p["M"] // c["BLOCK_M"], p["N"] // c["BLOCK_N"]), distance_want, output="out_ptr",
        keep=lambda p, c: 16 <= c["BLOCK_M"] * c["BLOCK_N"] / (32 * c["num_warps"]) <= 256,
    ),
    subject(
        "spills", zoo.wide_attention, shapes("heads length scale width", (32, 2048, 0.1, 128), (16, 2048, 0.06, 256)),
        {"BLOCK_M": (64, 128), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3)},
        lambda p: {**floats("q_ptr", "k_ptr", "v_ptr", "y_ptr")("float16", p["heads"], p["length"], p["width"]),
                   "length": p["length"], "scale": p["scale"]},
        lambda p, c: (p["length"] // c["BLOCK_M"], p["heads"]), wide_want, constants="width",
        keep=lambda p, c: stages(c, 4 * c["BLOCK_N"] * p["width"], 2 * c["BLOCK_M"] * p["width"]),
    ),
]  # fmt: skip

PERSISTENT = [
    subject(
        "persistent", zoo.matmul_one_loop,
        shapes("M N K flatten", (4096, 4096, 1024, True), (3000, 5120, 2048, False)), MATMUL,
        lambda p: {"a_ptr": Tensor("float16", (p["M"], p["K"])), "b_ptr": Tensor("float16", (p["N"], p["K"])),
                   "bias_ptr": Tensor("float32", (p["N"],)), "c_ptr": Tensor("float16", (p["M"], p["N"])),
                   **{n: p[n] for n in "MNK"}},
        lambda p, c: (min(SMS, tiles(p, c)),), lambda p, t: t["a_ptr"].float() @ t["b_ptr"].T.float() + t["bias_ptr"],
        constants="flatten", output="c_ptr", keep=walks,
    ),
    subject(
        "persistent", zoo.batched_walk, shapes("batch M N K", (16, 1024, 1024, 512), (64, 256, 2048, 256)), MATMUL,
        lambda p: {"a_ptr": Tensor("float16", (p["batch"], p["M"], p["K"])),
                   "b_ptr": Tensor("float16", (p["batch"], p["K"], p["N"])),
                   "c_ptr": Tensor("float16", (p["batch"], p["M"], p["N"])), **{n: p[n] for n in ("batch", *"MNK")}},
        lambda p, c: (min(SMS, p["batch"] * tiles(p, c)),), lambda p, t: t["a_ptr"].float() @ t["b_ptr"].float(),
        output="c_ptr", keep=walks,
    ),
    subject(
        "persistent", zoo.rows_in_turn, shapes("rows cols dtype", (32768, 2048, "float16"), (20_000, 5000, "float32")),
        {"PROGRAMS": (1, 2, 4, 8), "num_warps": (2, 4, 8, 16), "num_stages": (1, 2, 3)},
        lambda p: {**floats("x_ptr", "r_ptr", "y_ptr")(p["dtype"], p["rows"], p["cols"]), "rows": p["rows"],
                   "cols": p["cols"], "BLOCK": 1 << (p["cols"] - 1).bit_length()},
        lambda p, c: (SMS * c["PROGRAMS"],),
        lambda p, t: (t["x_ptr"].float() + t["r_ptr"].float()).softmax(1), keep=lambda p, c: True,
    ),
]  # fmt: skip

ROWS = [
    subject(
        "rows", zoo.transposed_tile, shapes("rows cols dtype", (8000, 6000, "float32"), (4096, 16384, "float16")),
        {"BLOCK_R": (16, 32, 64, 128), "BLOCK_C": (16, 32, 64, 128), "num_warps": (1, 2, 4, 8)},
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["rows"], p["cols"] + 7)),
                   "y_ptr": Tensor(p["dtype"], (p["cols"], p["rows"] + 5)), "rows": p["rows"], "cols": p["cols"],
                   "stride_x": p["cols"] + 7, "stride_y": p["rows"] + 5},
        plane, lambda p, t: framed(t["x_ptr"][:, : p["cols"]].T, (p["cols"], p["rows"] + 5), (0, 0)),
    ),
    subject(
        "rows", zoo.complex_product, shapes("n dtype", (1 << 25, "float32"), (1 << 25, "float16")), LINE,
        lambda p: {**floats("a_ptr", "b_ptr", "y_ptr")(p["dtype"], p["n"], 2), "n": p["n"]}, line,
        product_want,
    ),
    subject(
        "rows", zoo.softmax_columns, shapes("rows cols dtype", (2048, 32768, "float16"), (1000, 20_000, "float32")),
        {"BLOCK_R": (8, 16, 32, 64, 128), "BLOCK_C": (16, 32, 64, 128), "num_warps": (2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")(p["dtype"], p["rows"], p["cols"]), "rows": p["rows"],
                   "cols": p["cols"]},
        lambda p, c: (cdiv(p["cols"], c["BLOCK_C"]),), lambda p, t: t["x_ptr"].float().softmax(0),
    ),
    subject(
        "rows", zoo.softmax_jagged, shapes("segments most", (20_000, 5000), (4000, 30_000)),
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float32", int(starts(p, "segments", "most")[-1])),
                   "start_ptr": ints(p["segments"] + 1)},
        lambda p, c: (p["segments"],), jagged_want, values=lambda p: {"start_ptr": starts(p, "segments", "most")},
    ),
    subject(
        "rows", zoo.every_third, shapes("n step dtype", (1 << 25, 3, "float16"), (1 << 24, 4, "bfloat16")), LINE,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["n"], p["step"])), "y_ptr": Tensor(p["dtype"], (p["n"],)),
                   "n": p["n"]},
        line, lambda p, t: t["x_ptr"].float().mean(1), constants="step",
    ),
    replace(
        subject(
            "rows", zoo.middle_max, shapes("outer middle inner", (64, 1000, 1024), (2000, 64, 300)),
            {"BLOCK_M": (4, 8, 16, 32, 64), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
            lambda p: {"x_ptr": Tensor("float32", (p["outer"], p["middle"], p["inner"])),
                       "y_ptr": Tensor("float32", (p["outer"], p["inner"])),
                       "i_ptr": ints(p["outer"] * p["inner"]), "middle": p["middle"], "inner": p["inner"]},
            lambda p, c: (cdiv(p["inner"], c["BLOCK_C"]), p["outer"]),
            lambda p, t: tuple(t["x_ptr"].max(1)),
        ),
        outputs=("y_ptr", "i_ptr"),
        got=lambda p, c, t: (t["y_ptr"], t["i_ptr"].reshape(p["outer"], p["inner"])),
    ),
    subject(
        "rows", zoo.running_sum, shapes("rows cols", (8192, 8192), (20_000, 3000)),
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float32", p["rows"], p["cols"]), "cols": p["cols"]},
        lambda p, c: (p["rows"],), lambda p, t: t["x_ptr"].cumsum(1),
    ),
]  # fmt: skip

LISTED: list[Subject] = [*OVERLAPS, *ATOMICS, *GATHERS, *SPILLS, *PERSISTENT, *ROWS]
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]

SMALL = {
    "diffuse": shapes("rows cols dtype", (30, 50, "float32")),
    "planes_walk": shapes("planes rows cols", (5, 20, 30)),
    "im2col": shapes("images channels high wide side", (2, 3, 8, 9, 3)),
    "rolling": shapes("series length window", (3, 300, 7)),
    "conv1d_dense": shapes("batch length width out_width taps", (2, 70, 64, 256, 3)),
    "near_attention": shapes("heads length window width", (2, 50, 5, 64)),
    "histogram_held": shapes("n bins parts", (10_000, 256, 2)),
    "sparse_sorted": shapes("n rows cols", (1000, 60, 64)),
    "embed_backward": shapes("tokens words width", (50, 20, 64)),
    "route": shapes("tokens experts", (100, 64)),
    "segment_rows": shapes("rows width groups each", (100, 256, 10, 16)),
    "warp_image": shapes("channels high wide bend", (2, 20, 30, 3.0)),
    "two_levels": shapes("n slots places", (1000, 64, 128)),
    "sparse_csr": shapes("rows most cols", (20, 100, 64)),
    "rope_at": shapes("tokens heads dim places", (10, 5, 64, 16)),
    "combine": shapes("tokens width each", (10, 300, 4)),
    "pad_jagged": shapes("batch most width", (5, 20, 50)),
    "three_matmuls": shapes("M N K", (150, 128, 128)),
    "standard_score": shapes("rows cols", (5, 3000)),
    "distances": shapes("M N K", (128, 256, 32)),
    "wide_attention": shapes("heads length scale width", (2, 256, 0.1, 128)),
    "matmul_one_loop": shapes("M N K flatten", (150, 200, 128, True)),
    "batched_walk": shapes("batch M N K", (2, 128, 256, 128)),
    "rows_in_turn": shapes("rows cols dtype", (300, 200, "float16")),
    "transposed_tile": shapes("rows cols dtype", (50, 70, "float32")),
    "complex_product": shapes("n dtype", (1000, "float32")),
    "softmax_columns": shapes("rows cols dtype", (50, 70, "float32")),
    "softmax_jagged": shapes("segments most", (10, 300)),
    "every_third": shapes("n step dtype", (1000, 3, "float16")),
    "middle_max": shapes("outer middle inner", (3, 20, 50)),
    "running_sum": shapes("rows cols", (5, 300)),
}
"""A problem of each kernel for Triton's interpreter."""
