"""The 20 kernels of `kernels/triton_zoo_seventeenth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_seventeenth as zoo

from .blind import LINES, TOKENS, picked
from .edges import line
from .forms import drawn
from .subject import Problem, shapes, subject

ROWS = "BLOCK_T=1..64 num_warps=1..8"
OVER = "cdiv(n, BLOCK_T), cdiv(width, BLOCK_C)"


def largest(p: Problem) -> dict[str, Any]:
    """Where the largest of each window of three by three is, two cells from the next."""
    r, c = np.arange(p["high"])[:, None] * 2, np.arange(p["wide"]) * 2
    down, right = drawn(853).integers(0, 3, (2, p["planes"], p["high"], p["wide"]))
    return {"place_ptr": ((r + down) * (2 * p["wide"] + 1) + c + right).astype(np.int32)}


def boxes(p: Problem) -> dict[str, Any]:
    draw, room = drawn(857), np.array([p["high"], p["wide"]]) - 1
    corner = np.sort(draw.random((2, p["boxes"], 2)) ** 1.5, 0) * room * 0.999
    return {"box_ptr": np.concatenate([corner[0], corner[1]], 1).astype(np.float32)}


def sorted_kinds(p: Problem) -> dict[str, Any]:
    key = picked(859, "kinds", "n", skew=p["skew"])(p)
    count = np.bincount(key, minlength=p["kinds"])
    return {"key_ptr": key, "first_ptr": (np.cumsum(count) - count).astype(np.int32)}


def ends(p: Problem) -> dict[str, Any]:
    to = picked(863, "nodes", "n", skew=p["skew"])(p)
    return {"from_ptr": picked(877, "nodes", "n")(p), "to_ptr": to,
            "degree_ptr": (np.bincount(to, minlength=p["nodes"]) + 1).astype(np.int32)}  # fmt: skip


def cells(p: Problem) -> dict[str, Any]:
    return {"row_ptr": picked(881, "rows", "n", skew=1.5)(p), "col_ptr": picked(883, "rows", "n")(p)}


def places(p: Problem) -> dict[str, Any]:
    """Images of side by side tokens, one after another in time; angles of both tables."""
    t, side = np.arange(p["tokens"]), p["side"]
    angle = np.arange(p["most"])[:, None] * 10_000.0 ** -(np.arange(p["half"]) / p["half"])
    return {"place_ptr": np.stack([t // side**2, t // side % side, t % side]).astype(np.int32),
            "cos_ptr": np.cos(angle).astype(np.float32), "sin_ptr": np.sin(angle).astype(np.float32)}  # fmt: skip


def rules(p: Problem) -> dict[str, Any]:
    """Voxels in order of their cells: where each one's 27 neighbours are in that order, -1 where none is."""
    side = p["side"]
    cell = np.sort(drawn(887).permutation((side - 2) ** 3)[: p["n"]])
    place = np.ravel_multi_index(np.array(np.unravel_index(cell, (side - 2,) * 3)) + 1, (side,) * 3)
    table = np.full(side**3, -1, np.int32)
    table[place] = np.arange(p["n"])
    step = [(k // 9 - 1) * side**2 + (k // 3 % 3 - 1) * side + k % 3 - 1 for k in range(27)]
    return {"rule_ptr": table[place + np.array(step)[:, None]]}


def asked(p: Problem) -> dict[str, Any]:
    draw, shape = drawn(907), (p["trees"], p["depth"])
    return {"x_ptr": picked(911, "bins", "n", "features", dtype=np.uint8)({**p, "bins": 256}),
            "feature_ptr": draw.integers(0, p["features"], shape, np.int32),
            "border_ptr": draw.integers(20, 235, shape, np.uint8)}  # fmt: skip


SUBJECTS = [
    subject("atomics", zoo.argmax_pool_grad, shapes("planes high wide dtype", (512, 56, 56, "float32"),
        (64, 150, 100, "float16")), LINES,
        "g: dtype[planes, high, wide]; place: int32[planes, high, wide]; "
        "y: dtype[planes, (2 * high + 1) * (2 * wide + 1)]; outs = high * wide; ins = (2 * high + 1) * (2 * wide + 1)",
        "cdiv(high * wide, BLOCK), planes", most=8, values=largest),
    subject("atomics", zoo.roi_align_grad, shapes("boxes bins high wide width", (1000, 7, 64, 64, 256),
        (300, 14, 100, 150, 100)), "BLOCK_C=32..256 num_warps=1..4",
        "g: float32[boxes, bins, bins, width]; box: float32[boxes, 4]; y: float32[high, wide, width]; wide width",
        "boxes * bins * bins, cdiv(width, BLOCK_C)", constants="bins", values=boxes),
    subject("atomics", zoo.counting_sort, shapes("n kinds skew", (1 << 20, 4096, 1.0), (500_000, 200, 2.0)), LINES,
        "key: int32[n]; first count: int32[kinds]; y: int32[n]; n", line, output="y_ptr count_ptr", most=8,
        tolerance=0.0, got=lambda p, c, t: t["y_ptr"], values=sorted_kinds),
    subject("atomics", zoo.bucket_softmax, shapes("n heads buckets skew", (1 << 18, 8, 1000, 1.0),
        (100_000, 16, 64, 1.5)), ROWS,
        "x: float32[n, heads]; top y: float32[buckets, heads]; bucket: int32[n]; n", "cdiv(n, BLOCK_T)",
        constants="heads", keep="elements(c, BLOCK_T * heads, 16)",
        values=lambda p: {"bucket_ptr": picked(919, "buckets", "n", skew=p["skew"])(p)}),
    subject("atomics", zoo.convolve_graph, shapes("n nodes width skew dtype", (200_000, 50_000, 64, 1.0, "bfloat16"),
        (150_000, 100_000, 100, 2.0, "float32")), TOKENS,
        "from to: int32[n]; degree: int32[nodes]; x y: dtype[nodes, width]; n width", OVER,
        tolerance=0.05, values=ends),
    subject("atomics", zoo.voxel_peaks, shapes("n side width", (1 << 18, 64, 16), (100_000, 16, 32)), ROWS,
        "place: float32[n, 3]; x: float32[n, width]; y: float32[side ** 3, width]; n", "cdiv(n, BLOCK_T)",
        constants="side width", keep="elements(c, BLOCK_T * width, 16)",
        values=lambda p: {"place_ptr": drawn(929).random((p["n"], 3), np.float32)}),
    subject("atomics", zoo.row_adagrad, shapes("n rows width dtype", (65_536, 1_000_000, 64, "float16"),
        (20_000, 100_000, 128, "float32")), ROWS,
        "row: int32[n]; g: dtype[n, width]; state: float32[rows]; w: dtype[rows, width]; n", "cdiv(n, BLOCK_T)",
        constants="width", output="state_ptr w_ptr", keep="elements(c, BLOCK_T * width, 16)",
        values=lambda p: {"row_ptr": drawn(937).permutation(p["rows"])[: p["n"]].astype(np.int32)}),
    subject("atomics", zoo.block_sparse_add, shapes("n size rows width dtype", (2000, 32, 128, 512, "float16"),
        (500, 64, 100, 200, "bfloat16")), "BLOCK_C=32..256 num_warps=1..8",
        "block: dtype[n, size, size]; row col: int32[n]; x y: dtype[rows * size, width]; width",
        "n, cdiv(width, BLOCK_C)", constants="size", tolerance=0.05, values=cells,
        keep="per_thread(c, size * BLOCK_C, 64)"),
    subject("atomics", zoo.first_and_last, shapes("n users skew", (1 << 21, 100_000, 1.0), (600_000, 3000, 3.0)), LINES,
        "user time: int32[n]; first last: int32[users]; n", line, output="first_ptr last_ptr", most=8,
        values=lambda p: {"user_ptr": picked(941, "users", "n", skew=p["skew"])(p)}),
    subject("atomics", zoo.run_lengths, shapes("n groups skew", (1 << 22, 500_000, 1.0), (3_000_000, 2000, 2.0)), LINES,
        "id: int32[n]; y: int32[groups]; n", line, tolerance=0.0,
        values=lambda p: {"id_ptr": np.sort(picked(947, "groups", "n", skew=p["skew"])(p))}),
    subject("gathers", zoo.rope_of_sections, shapes("tokens heads half side most dtype",
        (8192, 32, 64, 32, 4096, "bfloat16"), (3000, 8, 32, 14, 1000, "float32")), ROWS,
        "x y: dtype[tokens, heads, 2 * half]; place: int32[3, tokens]; cos sin: float32[most, half]; tokens",
        "cdiv(tokens, BLOCK_T), heads", constants="half", values=places,
        keep="elements(c, BLOCK_T * half, 16)"),
    subject("gathers", zoo.label_logprobs, shapes("n words dtype", (8192, 32_000, "float32"),
        (65_536, 5000, "bfloat16")), LINES,
        "logit: dtype[n, words]; label: int32[n]; lse y: float32[n]; n words", line, most=8,
        values=lambda p: {"label_ptr": picked(953, "words", "n", skew=2.0)(p)}),
    subject("gathers", zoo.page_bounds, shapes("seqs pages page heads width dtype", (32, 128, 16, 8, 128, "float16"),
        (8, 300, 64, 4, 64, "float32")), "EACH=1..16 num_warps=1..8",
        "k: dtype[seqs * pages * page, heads, width]; table: int32[seqs, pages]; "
        "low high: dtype[seqs * pages, heads, width]; n = seqs * pages", "cdiv(seqs * pages, EACH), heads",
        constants="page width", output="low_ptr high_ptr", tolerance=0.0,
        keep="elements(c, page * width, 64)", values=lambda p: {"table_ptr":
            drawn(967).permutation(p["seqs"] * p["pages"]).reshape(p["seqs"], p["pages"]).astype(np.int32)}),
    subject("gathers", zoo.beam_backtrack, shapes("seqs beams steps", (50_000, 4, 16), (1000, 64, 24)), LINES,
        "token parent y: int32[steps, seqs * beams]; n = seqs * beams; beams steps", "cdiv(seqs * beams, BLOCK)",
        most=8, tolerance=0.0, values=lambda p: {"parent_ptr":
            picked(971, "beams", "steps", "n", skew=1.5)({**p, "n": p["seqs"] * p["beams"]})}),
    subject("gathers", zoo.residual_codes, shapes("n books width dtype", (200_000, 8, 128, "float16"),
        (50_000, 4, 300, "float32")), TOKENS,
        "code: uint8[n, books]; book: dtype[books, 256, width]; y: dtype[n, width]; n width", OVER, constants="books",
        values=lambda p: {"code_ptr": picked(977, "rows", "n", "books", dtype=np.uint8)({**p, "rows": 256})}),
    subject("gathers", zoo.bit_reverse, shapes("rows bits dtype", (256, 16, "float32"), (8000, 11, "float16")), LINES,
        "x y: dtype[rows, 1 << bits]", "cdiv(1 << bits, BLOCK), rows", constants="bits",
        tolerance=0.0),
    subject("gathers", zoo.conv_by_rules, shapes("n side ins outs", (60_000, 64, 32, 64), (30_000, 96, 64, 32)),
        "BLOCK_M=16..128 num_warps=2..8 num_stages=2,3",
        "x: float16[n, ins]; w: float16[27, ins, outs]; rule: int32[27, n]; y: float16[n, outs]; n", "cdiv(n, BLOCK_M)",
        constants="ins outs", values=rules, keep="per_thread(c, BLOCK_M * outs, 64)"),
    subject("gathers", zoo.grammar_mask, shapes("rows words grammars dtype", (256, 128_256, 64, "bfloat16"),
        (2000, 5024, 7, "float32")), LINES,
        "logit y: dtype[rows, words]; grammar: int32[rows]; bit: int32[grammars, words // 32]; words",
        "cdiv(words, BLOCK), rows", tolerance=0.0,
        values=lambda p: {"grammar_ptr": picked(983, "grammars", "rows")(p)}),
    subject("gathers", zoo.inverse_cdf, shapes("n width most", (200_000, 64, 1000), (1_000_000, 16, 10_000)), TOKENS,
        "u y: float32[n, width]; table: float32[width, most + 1]; n width most", OVER,
        values=lambda p: {"u_ptr": drawn(991).random((p["n"], p["width"]), np.float32)}),
    subject("gathers", zoo.oblivious_trees, shapes("n features trees depth", (100_000, 50, 100, 6),
        (400_000, 20, 30, 8)), LINES,
        "x: uint8[n, features]; feature: int32[trees, depth]; border: uint8[trees, depth]; "
        "leaf: float32[trees, 1 << depth]; y: float32[n]; n features trees", line,
        constants="depth", most=8, values=asked),
]  # fmt: skip
