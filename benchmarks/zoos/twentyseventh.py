"""The 18 kernels of `kernels/triton_zoo_27th.py` as `zoo.py` measures them, in the forms of libraries, two problems
each: three of windows, three of atomics, four of gathers, two each that spill and that stay, four of strides and rows.
All were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_27th as zoo

from carver.compiled.binary import Tensor

from .blind import picked
from .eleventh import over
from .forms import drawn, starts
from .subject import Problem, cdiv, shapes, subject
from .thirteenth import WIDE
from .twentythird import PRODUCT, small

ROWS = "BLOCK_T=1..8 BLOCK_C=128..2048 num_warps=1..8"
PRODUCTS = small(1) + "stages(c, 2 * (BLOCK_M + BLOCK_N) * BLOCK_K)"


def edges(p: Problem) -> dict[str, Any]:
    """Of a graph some of whose nodes are more often joined; those that end together lie together."""
    return {"from_ptr": picked(2707, "nodes", "n", skew=1.5)(p), "to_ptr": np.sort(picked(2711, "nodes", "n")(p))}


def pages(p: Problem) -> dict[str, Any]:
    """Of sequences of uneven lengths, in no order."""
    draw, n = drawn(2713), p["seqs"] * p["most"]
    length = (draw.random(p["seqs"]) * 0.75 + 0.25) * p["most"] * p["page"]
    return {"table_ptr": draw.permutation(n).reshape(p["seqs"], p["most"]).astype(np.int32),
            "length_ptr": length.astype(np.int32)}  # fmt: skip


def slots(p: Problem) -> dict[str, Any]:
    return {"slot_ptr": drawn(2719).permutation(p["slots"])[: p["tokens"]].astype(np.int32)}


def adapters(p: Problem) -> dict[str, Any]:
    """Sequences of tokens, and which adapter each asks for."""
    lengths = (drawn(2729).random(p["seqs"]) ** 2 * p["longest"]).astype(np.int32) + 1
    return {"first_ptr": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            "adapter_ptr": picked(2731, "adapters", "seqs")(p)}  # fmt: skip


def adapter_args(p: Problem) -> dict[str, Any]:
    held, width = adapters(p), p["width"]
    tokens = int(held["first_ptr"][-1])
    return {"x_ptr": Tensor("bfloat16", (tokens, p["rank"])),
            "w_ptr": Tensor("bfloat16", (p["adapters"], width, p["rank"])),
            "adapter_ptr": Tensor("int32", (p["seqs"],)), "first_ptr": Tensor("int32", (p["seqs"] + 1,)),
            "y_ptr": Tensor("bfloat16", (tokens, width)), "width": width}  # fmt: skip


def graph(p: Problem) -> dict[str, Any]:
    start = starts(p, "nodes", "most")
    return {"start_ptr": start, "col_ptr": drawn(2741).integers(0, p["nodes"], start[-1], dtype=np.int32)}


def graph_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "nodes", "most")[-1])
    return {"start_ptr": Tensor("int32", (p["nodes"] + 1,)), "col_ptr": Tensor("int32", (n,)),
            "x_ptr": Tensor("float16", (p["nodes"], p["width"])),
            "y_ptr": Tensor("float16", (p["nodes"], 2 * p["width"])), "width": p["width"]}  # fmt: skip


def labels(p: Problem) -> dict[str, Any]:
    """Of streets of pixels; some are ignored."""
    label = np.repeat(picked(2749, "classes", "images", "parts")(p), p["area"] // p["parts"], 1)
    label[:, ::17] = 255
    return {"label_ptr": label.astype(np.int64)}


SUBJECTS = [
    subject("windows", zoo.structural_similarity, shapes("high wide side", (2160, 3840, 7), (600, 1000, 11)), WIDE,
        "a b: float32[high, wide]; y: float32[high - side + 1, wide - side + 1]; high wide",
        lambda p, c: over(p["side"] - 1)(p, c), constants="side", most=8),
    subject("windows", zoo.normed_depthwise, shapes("images high wide width side", (32, 56, 56, 96, 7),
        (4, 100, 60, 256, 3)), "BLOCK_P=1..32 num_warps=1..8",
        "x: bfloat16[images, high, wide, width]; w: bfloat16[side * side, width]; gain: float32[width]; "
        "y: bfloat16[images, high, wide, width]; high wide width", "cdiv(high * wide, BLOCK_P), images",
        constants="SIDE = side; WIDTH = pow2_up(width)", keep="elements(c, BLOCK_P * pow2_up(width), 32)"),
    subject("windows", zoo.total_variation, shapes("images high wide dtype", (64, 512, 512, "float32"),
        (16, 300, 500, "float16")), "BLOCK_R=1..32 BLOCK_C=32..512 num_warps=1..8",
        "x: dtype[images, high, wide]; y: float32[images]; high wide",
        lambda p, c: (*over()(p, c), p["images"]), most=32),
    subject("atomics", zoo.radial_profile, shapes("high wide", (2048, 2048), (500, 700)), WIDE,
        "x: float32[high, wide]; y: float32[high + wide]; count: int32[high + wide]; high wide", over(),
        output="y_ptr count_ptr", most=16, tolerance=0.1),
    subject("atomics", zoo.added_queries_grad, shapes("heads length width", (32, 1024, 64), (12, 1500, 128)),
        "BLOCK_M=16..128 BLOCK_N=32..128 num_warps=4,8 num_stages=1..2",
        "q k v g: bfloat16[heads, length, width]; lse delta: float32[heads, length]; "
        "y: float32[heads, length, width]; length; scale = 0.1", "cdiv(length, BLOCK_N), heads", constants="width",
        keep="(BLOCK_M * BLOCK_N * 2 + BLOCK_M * width) <= 200 * 32 * num_warps and BLOCK_M <= 16 * num_warps "
        "and (BLOCK_N + num_stages * BLOCK_M) * width * 4 <= 200_000"),
    subject("atomics", zoo.edge_messages, shapes("n nodes heads width", (1_000_000, 100_000, 8, 16),
        (300_000, 5000, 4, 64)), "BLOCK_E=1..64 num_warps=1..8",
        "from to: int32[n]; a: float32[n, heads]; x: float16[nodes, heads * width]; "
        "y: float32[nodes, heads * width]; n", "cdiv(n, BLOCK_E)", constants="heads width", values=edges,
        keep="elements(c, BLOCK_E * heads * width, 32)"),
    subject("gathers", zoo.paged_context, shapes("seqs asked most page heads kv_heads width",
        (16, 128, 64, 16, 32, 8, 128), (40, 50, 100, 32, 12, 12, 64)),
        "BLOCK_M=16..128 BLOCK_N=16..128 num_warps=2..8 num_stages=1..3",
        "q: bfloat16[seqs, asked, heads, width]; k v: bfloat16[seqs * most, page, kv_heads, width]; "
        "table: int32[seqs, most]; length: int32[seqs]; y: bfloat16[seqs, asked, heads, width]; "
        "asked most heads kv_heads; scale = 0.09", "cdiv(asked, BLOCK_M), heads, seqs", constants="page width",
        keep="BLOCK_M * (width + BLOCK_N) <= 200 * 32 * num_warps and BLOCK_M <= 32 * num_warps "
        "and BLOCK_M < 2 * asked and (BLOCK_M + 2 * num_stages * BLOCK_N) * width * 2 <= 200_000", values=pages),
    subject("gathers", zoo.update_states, shapes("tokens slots heads groups dim states",
        (256, 400, 64, 8, 64, 128), (60, 64, 80, 1, 64, 64)), "BLOCK_D=4..64 num_warps=1..8",
        "state: float32[slots, heads, dim, states]; slot: int32[tokens]; x: bfloat16[tokens, heads, dim]; "
        "step: bfloat16[tokens, heads]; a: float32[heads]; b c: bfloat16[tokens, groups, states]; "
        "y: bfloat16[tokens, heads, dim]; heads groups dim", "cdiv(dim, BLOCK_D), heads, tokens", constants="states",
        keep="elements(c, BLOCK_D * states, 128)", in_place=("state_ptr",),
        values=lambda p: {**slots(p), "a_ptr": (drawn(2753).random(p["heads"]) + 0.5).astype(np.float32)}),
    subject("gathers", zoo.grow_by_adapter, shapes("seqs longest adapters width rank", (64, 512, 16, 4096, 16),
        (200, 60, 200, 2048, 64)), "BLOCK_M=16..128 BLOCK_N=32..256 num_warps=2..8",
        adapter_args,
        lambda p, c: (cdiv(p["width"], c["BLOCK_N"]), cdiv(p["longest"], c["BLOCK_M"]), p["seqs"]),
        constants="rank", keep="per_thread(c, BLOCK_M * BLOCK_N, 128)", values=adapters),
    subject("gathers", zoo.mean_and_most, shapes("nodes most width", (100_000, 48, 128), (20_000, 200, 320)),
        "BLOCK_C=32..512 num_warps=1..8", graph_args, "nodes, cdiv(width, BLOCK_C)", values=graph,
        keep="elements(c, BLOCK_C, 16) and BLOCK_C < 2 * width"),
    subject("spills", zoo.divergence, shapes("rows cols", (8192, 4000), (2048, 32_000)),
        "BLOCK_T=1..4 num_warps=1..32", "x t: float16[rows, cols]; y: float32[rows]; rows cols",
        "cdiv(rows, BLOCK_T)", constants="WIDTH = pow2_up(cols)",
        keep="elements(c, BLOCK_T * pow2_up(cols), 256)"),
    subject("spills", zoo.sparsemax, shapes("rows cols dtype", (16_384, 2048, "float16"), (3000, 10_000, "float32")),
        "BLOCK_T=1..8 num_warps=1..32", "x y: dtype[rows, cols]; rows cols", "cdiv(rows, BLOCK_T)",
        constants="STEPS = 24; WIDTH = pow2_up(cols)", keep="elements(c, BLOCK_T * pow2_up(cols), 256)"),
    subject("persistent", zoo.staying_bytes, shapes("M N K", (4096, 4096, 4096), (256, 11_008, 4096)), PRODUCT,
        "a: bfloat16[M, K]; b: int8[K, N]; scale: float32[N]; y: bfloat16[M, N]; M N K", "SMS",
        constants="PROGRAMS = SMS", keep=PRODUCTS, tolerance=0.05,
        values=lambda p: {"scale_ptr": (drawn(2767).random(p["N"]) * 0.01).astype(np.float32)}),
    subject("persistent", zoo.staying_batches, shapes("batches M N K", (64, 512, 512, 1024), (200, 300, 200, 256)),
        PRODUCT, "a: float16[batches, K, M]; b: float16[batches, K, N]; y: float16[batches, M, N]; batches M N K",
        "SMS", constants="PROGRAMS = SMS", keep=PRODUCTS, tolerance=0.05),
    subject("strides", zoo.softmax_gradient, shapes("rows cols dtype", (32_768, 1024, "bfloat16"),
        (1000, 50_257, "float32")), ROWS, "y g d: dtype[rows, cols]; rows cols", "cdiv(rows, BLOCK_T)",
        output="d_ptr", most=32),
    subject("strides", zoo.gate_to_bytes, shapes("rows width", (8192, 14_336), (30_000, 1408)),
        "BLOCK=128..8192 num_warps=1..16",
        "x: bfloat16[rows, 2 * width]; y: int8[rows, width]; scale: float32[rows]; width", "rows",
        output="y_ptr scale_ptr", most=32, keep="elements(c, BLOCK, 32) and BLOCK < 2 * width"),
    subject("strides", zoo.welford_norm, shapes("rows cols dtype", (16_384, 4096, "float16"), (5000, 1000, "float32")),
        ROWS, "x: dtype[rows, cols]; w b: dtype[cols]; y: dtype[rows, cols]; rows cols", "cdiv(rows, BLOCK_T)",
        keep="elements(c, BLOCK_T * BLOCK_C, 32) and BLOCK_C < 2 * cols"),
    subject("strides", zoo.pixel_entropy, shapes("images classes area parts", (16, 19, 262_144, 512),
        (4, 150, 65_536, 64)), "BLOCK_K=1..32 BLOCK_P=32..512 num_warps=1..8",
        "x: float16[images, classes, area]; label: int64[images, area]; y: float32[images, area]; area classes",
        "cdiv(area, BLOCK_P), images", most=32, values=labels),
]  # fmt: skip
