"""The 21 kernels of `kernels/triton_zoo_eighteenth.py` as `zoo.py` measures them: ten of gathers, five of atomics, six
of windows, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_eighteenth as zoo
from zoo_blind import LINES, TOKENS, picked
from zoo_edges import line
from zoo_eleventh import over
from zoo_forms import drawn
from zoo_seventeenth import OVER, ROWS
from zoo_subject import Arrays, Problem, shapes, subject
from zoo_thirteenth import WIDE


def hashed(key: np.ndarray, seed: int, bits: int) -> np.ndarray:
    mixed = (key.astype(np.uint32) ^ np.uint32(seed)) * np.uint32(2654435769)
    return ((mixed ^ (mixed >> np.uint32(15))) * np.uint32(2246822519) >> np.uint32(32 - bits)).astype(np.int32)


def nests(p: Problem) -> dict[str, Any]:
    """Half as many keys as places, each in its first place, or its second, where that is left; half of what is looked
    up is there."""
    size = 1 << p["bits"]
    held, slot = drawn(1009).permutation(4 * size)[: size // 2].astype(np.int32), np.full(size, -1, np.int32)
    for seed in (0, 77):
        place, who = np.unique(hashed(held, seed, p["bits"]), return_index=True)
        place, who = place[slot[place] < 0], who[slot[place] < 0]
        slot[place] = held[who]
        held = np.delete(held, who)
    known = slot[slot >= 0]
    key = np.where(drawn(1013).random(p["n"]) < 0.5, known[picked(1019, "m", "n")({**p, "m": known.size})],
                   4 * size + picked(1021, "m", "n")({**p, "m": 4 * size}))  # fmt: skip
    return {"key_ptr": key.astype(np.int32), "slot_ptr": slot}


def picture(p: Problem) -> dict[str, Any]:
    """Noise, or waves with little of it."""
    noise = drawn(1031).random((p["planes"], p["area"]), np.float32)
    waves = 0.5 + 0.45 * np.sin(np.arange(p["area"], dtype=np.float32) / 700)
    x = noise if p["noise"] == 1 else waves + (noise - 0.5) * p["noise"]
    return {"x_ptr": (x * (p["levels"] - 1)).astype(np.int16)}


def lengths(p: Problem) -> dict[str, Any]:
    each = {n: drawn(seed).random(p["seqs"]) ** 2 for n, seed in (("a", 1033), ("b", 1039))}
    found = {}
    for n, share in each.items():
        ends = np.rint(np.cumsum(share) / share.sum() * p[n]).astype(np.int32)
        found[f"from_{n}_ptr"] = np.concatenate([[0], ends]).astype(np.int32)
    return found


def points(p: Problem) -> dict[str, Any]:
    """Points along rays."""
    draw, rays = drawn(1049), p["n"] // p["along"]
    first, last = draw.random((2, 3, rays, 1), np.float32)
    place = first + (last - first) * np.linspace(0, 1, p["along"], dtype=np.float32)
    return {"place_ptr": place.reshape(3, p["n"]) * np.float32(0.9999)}


def walked(p: Problem) -> dict[str, Any]:
    pages = p["roots"] * p["leaves"]
    return {"address_ptr": picked(1051, "m", "n", skew=p["skew"])({**p, "m": pages * p["page"]}),
            "root_ptr": drawn(1061).permutation(p["roots"]).astype(np.int32),
            "leaf_ptr": drawn(1063).permutation(pages).astype(np.int32)}  # fmt: skip


def pairs(p: Problem) -> dict[str, Any]:
    return {n: picked(seed, "side", "tokens", "each", skew=1.5)(p)
            for n, seed in (("row_ptr", 1069), ("col_ptr", 1087))}  # fmt: skip


def mesh(p: Problem) -> dict[str, Any]:
    """Triangles of two to a square of pixels, with those of a disc's outside not seen; in order, or not."""
    side, down, across = p["side"], p["high"] // p["side"], p["wide"] // p["side"]
    r, c = np.arange(p["high"])[:, None], np.arange(p["wide"])
    face = (r // side * across + c // side) * 2 + (r % side + c % side >= side)
    i, j = np.arange(down)[:, None], np.arange(across)
    a = i * (across + 1) + j
    two = [[a, a + 1, a + across + 1], [a + 1, a + across + 1, a + across + 2]]
    corner = np.stack([np.stack(t, -1) for t in two], 2).reshape(-1, 3)
    order = drawn(1091).permutation(corner.shape[0]) if p["mixed"] else np.arange(corner.shape[0])
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    seen = (r - p["high"] / 2) ** 2 + (c - p["wide"] / 2) ** 2 < (0.6 * p["wide"]) ** 2
    return {"face_ptr": np.where(seen, place[face], -1).astype(np.int32).ravel(),
            "corner_ptr": corner[order].astype(np.int32)}  # fmt: skip


def streams(p: Problem) -> dict[str, Any]:
    size, draw = 1 << p["bits"], drawn(1093)
    ends = np.unique(np.concatenate([[0, size], (draw.random(200) ** 2 * size).astype(int)]))
    share = np.diff(ends)
    slot = np.concatenate([np.arange(n) << 20 | n << 8 | s for s, n in enumerate(share)])
    return {"slot_ptr": slot.astype(np.int32), "state_ptr": draw.integers(1 << 16, 1 << 30, p["streams"], np.int32),
            "word_ptr": draw.integers(0, 1 << 15, (p["count"], p["streams"]), np.int16)}  # fmt: skip


def ordered(p: Problem) -> dict[str, Any]:
    return {"group_ptr": drawn(1097).permutation(np.arange(p["rows"]) * p["groups"] // p["rows"]).astype(np.int32)}


def largest_of(p: Problem) -> dict[str, Any]:
    part, draw = p["width"] // p["each"], drawn(1103)
    id = np.arange(p["each"]) * part + draw.integers(0, part, (p["n"], p["each"]))
    return {"id_ptr": (draw.permuted(id, axis=1) if p["mixed"] else id).astype(np.int32)}


def count_of(n: int, tap: int) -> int:
    return n * (tap * 7 % 5 + 1) // 5


def tap_pairs(p: Problem) -> dict[str, Any]:
    draw, count = drawn(1109), [count_of(p["n"], k) for k in range(27)]
    to, source = (np.concatenate([np.sort(draw.permutation(p["n"])[:m]) for m in count]) for _ in range(2))
    return {"in_ptr": source.astype(np.int32), "out_ptr": to.astype(np.int32),
            "first_ptr": np.cumsum([0, *count]).astype(np.int32)}  # fmt: skip


def words(p: Problem) -> dict[str, Any]:
    return {"word_ptr": picked(1117, "words", "n", skew=3.0)(p), "near_ptr": picked(1123, "words", "n", skew=2.0)(p),
            "sign_ptr": (drawn(1129).random(p["n"]) < 1 / 6).astype(np.int32)}  # fmt: skip


# -- what is right


def cuckoo_want(p: Problem, t: Arrays) -> Any:
    import torch

    key, slot = t["key_ptr"], t["slot_ptr"]
    a, b = (torch.from_numpy(hashed(key.cpu().numpy(), s, p["bits"])).to(key.device).long() for s in (0, 77))
    y = t["value_ptr"][torch.where(slot[a] == key, a, b)]
    return torch.where((slot[a] == key) | (slot[b] == key), y, -1)


def spline_place(p: Problem, x: Any) -> Any:
    u = (x * 0.25 + 0.5).clamp(0, 0.9999) * p["knots"]
    return u.long(), u - u.long()


def spline_want(p: Problem, t: Arrays) -> Any:
    import torch

    i, u = spline_place(p, t["x_ptr"].float())
    w, c, v = t["w_ptr"], torch.arange(p["width"], device=u.device), 1 - u
    basis = v**3, 3 * u**3 - 6 * u**2 + 4, 3 * v**3 - 6 * v**2 + 4, u**3
    return sum(b * w[c, i + k] for k, b in enumerate(basis)) / 6


def tone_want(p: Problem, t: Arrays) -> Any:
    import torch

    plane = torch.arange(p["planes"], device=t["x_ptr"].device)[:, None] % 3
    return t["table_ptr"][plane, t["x_ptr"].long()]


def concat_want(p: Problem, t: Arrays) -> Any:
    import torch

    a, b = t["from_a_ptr"].tolist(), t["from_b_ptr"].tolist()
    parts = ((t["a_ptr"][a[i] : a[i + 1]], t["b_ptr"][b[i] : b[i + 1]]) for i in range(p["seqs"]))
    return torch.cat([each for pair in parts for each in pair])


def volume_want(p: Problem, t: Arrays) -> Any:
    import torch

    u = t["place_ptr"] * (p["side"] - 1)
    i, y = u.long(), 0
    share = torch.stack([1 - (u - i), u - i])
    for k in range(8):
        corner = k // 4, k // 2 % 2, k % 2
        a, b, c = (i[axis] + corner[axis] for axis in range(3))
        x = t["x_ptr"][(a * p["side"] + b) * p["side"] + c].float()
        y = y + (share[corner[0], 0] * share[corner[1], 1] * share[corner[2], 2])[:, None] * x
    return y


def walk_want(p: Problem, t: Arrays) -> Any:
    at, each = t["address_ptr"].long(), p["leaves"]
    table = t["root_ptr"].long()[at // (each * p["page"])]
    page = t["leaf_ptr"].long()[table * each + at // p["page"] % each]
    return t["memory_ptr"][page * p["page"] + at % p["page"]]


def memory_want(p: Problem, t: Arrays) -> Any:
    row = t["row_ptr"].long() * p["side"] + t["col_ptr"].long()
    return sum(t["score_ptr"][:, i, None] * t["value_ptr"][row[:, i]].float() for i in range(p["each"]))


def shade_want(p: Problem, t: Arrays) -> Any:
    face = t["face_ptr"].long()
    colour = t["colour_ptr"][t["corner_ptr"].long()[face.clamp(min=0)]]
    return ((colour * t["share_ptr"].T[:, :, None]).sum(1) * (face >= 0)[:, None]).T


def decode_want(p: Problem, t: Arrays) -> Any:
    import torch

    state, y = t["state_ptr"].long(), []
    taken, s = torch.zeros_like(state), torch.arange(p["streams"], device=state.device)
    for _ in range(p["count"]):
        slot = t["slot_ptr"].long()[state & ((1 << p["bits"]) - 1)]
        y.append((slot & 255).to(torch.uint8))
        state = (state >> p["bits"]) * (slot >> 8 & 4095) + (slot >> 20)
        low = state < 65536
        word = t["word_ptr"][taken.clamp(max=p["count"] - 1), s].long()
        state, taken = torch.where(low, state << 15 | word, state), taken + low
    return torch.stack(y)


def order_want(p: Problem, t: Arrays) -> Any:
    import torch

    nibble = 4 * torch.arange(8, device=t["q_ptr"].device, dtype=torch.int32)
    q = (t["q_ptr"][:, None] >> nibble[:, None] & 15).flatten(0, 1)
    zero = (t["zero_ptr"][:, :, None] >> nibble & 15).flatten(1)
    group = t["group_ptr"].long()
    return (q - zero[group]).half() * t["scale_ptr"][group]


def top_want(p: Problem, t: Arrays) -> Any:
    return t["value_ptr"].new_zeros(p["n"], p["width"]).scatter_add_(1, t["id_ptr"].long(), t["value_ptr"])


def spline_grad_want(p: Problem, t: Arrays) -> Any:
    i, u = spline_place(p, t["x_ptr"])
    g, y = t["g_ptr"].double().T, t["g_ptr"].new_zeros(p["width"], p["knots"] + 1).double()
    return y.scatter_add_(1, i.T, g * (1 - u.T)).scatter_add_(1, i.T + 1, g * u.T)


def products_want(p: Problem, t: Arrays) -> Any:
    x = (t["x_ptr"].double() * 0.01 + 1).log()
    return x.new_zeros(p["groups"]).index_add_(0, t["group_ptr"].long(), x).exp() - 1


def scatter_conv_want(p: Problem, t: Arrays) -> Any:
    x, w, first = t["x_ptr"].float(), t["w_ptr"].float(), t["first_ptr"].tolist()
    y = x.new_zeros(p["n"], p["outs"])
    for k in range(27):
        part = slice(first[k], first[k + 1])
        y.index_add_(0, t["out_ptr"][part].long(), x[t["in_ptr"][part].long()] @ w[k])
    return y


def words_want(p: Problem, t: Arrays) -> Any:
    word, near, a, b = t["word_ptr"].long(), t["near_ptr"].long(), t["a_ptr"].double(), t["b_ptr"].double()
    g = (t["sign_ptr"] - (a[word] * b[near]).sum(1).sigmoid())[:, None]
    return a.new_zeros(a.shape).index_add_(0, word, g * b[near]), a.new_zeros(a.shape).index_add_(0, near, g * a[word])


def boxes_want(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as f

    x, side = t["x_ptr"].float()[None, None], 2 * p["reach"] + 1
    return f.avg_pool2d(f.pad(x, (0, 0, p["reach"], p["reach"])), (side, 1), 1)[0, 0] * side


def lattice_want(p: Problem, t: Arrays) -> Any:
    import torch

    steps = [(0, 0), (1, 3), (-1, 3), (1, 2), (-1, 2), (1, 1), (-1, 1)]
    x = torch.stack([t["x_ptr"][k].roll(by, axis - 1) for k, (by, axis) in enumerate(steps)])
    mean = x.sum(0) / 8
    return torch.stack([x[k] + 0.8 * (mean * (1 + (k == 0)) - x[k]) for k in range(7)])


def filtered_want(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as f

    return f.conv_transpose2d(t["x_ptr"].float()[:, None], t["w_ptr"].view(1, 1, 4, 4), stride=2, padding=1)[:, 0]


def rebuilt_want(p: Problem, t: Arrays) -> Any:
    import torch
    import torch.nn.functional as f

    return torch.minimum(f.max_pool2d(t["marker_ptr"].float(), 3, 1, 1), t["x_ptr"].float())


def red_black_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, b = t["x_ptr"], t["b_ptr"]
    y, r, c = x.clone(), torch.arange(p["high"])[1:-1, None], torch.arange(p["wide"])[1:-1]
    mid = x[1:-1, 1:-1]
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    turn = ((r + c) % 2 == 1).to(x.device)
    y[1:-1, 1:-1] = torch.where(turn, mid + 1.6 * ((around - b[1:-1, 1:-1]) / 4 - mid), mid)
    return y


def means_want(p: Problem, t: Arrays) -> Any:
    import torch

    r, c = torch.arange(p["high"])[:, None].to(t["table_ptr"].device), torch.arange(p["wide"]).to(t["table_ptr"].device)
    top, left = (r - p["reach"]).clamp(min=0), (c - p["reach"]).clamp(min=0)
    low, right = (r + p["reach"] + 1).clamp(max=p["high"]), (c + p["reach"] + 1).clamp(max=p["wide"])
    s = t["table_ptr"]
    return (s[:, low, right] - s[:, low, left] - s[:, top, right] + s[:, top, left]) / ((low - top) * (right - left))


SUBJECTS = [
    subject("gathers", zoo.cuckoo_lookup, shapes("n bits", (1 << 20, 20), (4_000_000, 12)), LINES,
        "key: int32[n]; slot value: int32[1 << bits]; y: int32[n]; n", line, want=cuckoo_want, constants="bits",
        most=8, tolerance=0.0, values=nests),
    subject("gathers", zoo.spline_edges, shapes("n width knots dtype", (200_000, 64, 16, "float32"),
        (65_536, 512, 60, "bfloat16")), TOKENS,
        "x: dtype[n, width]; w: float32[width, knots + 3]; y: dtype[n, width]; n width knots", OVER, want=spline_want,
        most=16),
    subject("gathers", zoo.tone_curves, shapes("planes area levels noise", (3, 4_000_000, 4096, 1.0),
        (12, 500_000, 1024, 0.05)), LINES, "x: int16[planes, area]; table: uint8[3, levels]; y: uint8[planes, area]; "
        "area levels", "cdiv(area, BLOCK), planes", want=tone_want, tolerance=0.0, values=picture),
    subject("gathers", zoo.concat_ragged, shapes("seqs a b width dtype", (512, 200_000, 60_000, 128, "float16"),
        (4000, 100_000, 150_000, 100, "float32")), "BLOCK_T=2..64 num_warps=1..8",
        "a: dtype[a, width]; b: dtype[b, width]; from_a from_b: int32[seqs + 1]; y: dtype[a + b, width]; width",
        "seqs", want=concat_want, constants="BLOCK_C = pow2_up(width)", tolerance=0.0,
        keep="elements(c, BLOCK_T * pow2_up(width), 32)", values=lengths),
    subject("gathers", zoo.sample_volume, shapes("n side width along dtype", (1 << 19, 64, 4, 1, "float32"),
        (1 << 18, 128, 16, 64, "float16")), "BLOCK_T=16..256 num_warps=1..8",
        "place: float32[3, n]; x: dtype[side ** 3, width]; y: dtype[n, width]; n", "cdiv(n, BLOCK_T)",
        want=volume_want, constants="side width", keep="elements(c, BLOCK_T * width, 16)", values=points),
    subject("gathers", zoo.page_walk, shapes("n roots leaves page skew", (1 << 21, 64, 64, 256, 1.0),
        (1 << 20, 256, 256, 1024, 3.0)), LINES,
        "address: int32[n]; root: int32[roots]; leaf: int32[roots * leaves]; memory: float32[roots * leaves * page]; "
        "y: float32[n]; n", line, want=walk_want, constants="leaves page", most=8, tolerance=0.0, values=walked),
    subject("gathers", zoo.memory_values, shapes("tokens each side width dtype", (4096, 32, 256, 512, "bfloat16"),
        (1000, 64, 500, 300, "float32")), "BLOCK_C=32..512 num_warps=1..8",
        "row col: int32[tokens, each]; score: float32[tokens, each]; value: dtype[side ** 2, width]; "
        "y: dtype[tokens, width]; side width", "tokens, cdiv(width, BLOCK_C)", want=memory_want, constants="each",
        most=16, values=pairs),
    subject("gathers", zoo.shade, shapes("high wide side mixed", (1080, 1920, 8, 0), (1600, 2400, 4, 1)), LINES,
        "face: int32[high * wide]; share y: float32[3, high * wide]; "
        "corner: int32[2 * (high // side) * (wide // side), 3]; "
        "colour: float32[(high // side + 1) * (wide // side + 1), 3]; n = high * wide",
        "cdiv(high * wide, BLOCK)", want=shade_want, most=8, values=mesh),
    subject("gathers", zoo.rans_decode, shapes("streams count bits", (65_536, 128, 11), (20_000, 300, 9)),
        "BLOCK=32..512 num_warps=1..8",
        "state: int32[streams]; word: int16[count, streams]; slot: int32[1 << bits]; y: uint8[count, streams]; "
        "streams count", "cdiv(streams, BLOCK)", want=decode_want, constants="bits", most=4, tolerance=0.0,
        values=streams),
    subject("gathers", zoo.act_order, shapes("rows cols groups", (4096, 11_008, 32), (3072, 5120, 96)),
        "BLOCK_R=8..64 BLOCK_C=32..256 num_warps=2..8",
        "q: int32[rows // 8, cols]; group: int32[rows]; scale: float16[groups, cols]; "
        "zero: int32[groups, cols // 8]; y: float16[rows, cols]; rows cols",
        "cdiv(cols, BLOCK_C), cdiv(rows, BLOCK_R)", want=order_want, values=ordered),
    subject("atomics", zoo.scatter_top, shapes("n width each mixed", (8192, 16_384, 32, 0), (3000, 24_576, 64, 1)),
        ROWS, "value: float32[n, each]; id: int32[n, each]; y: float32[n, width]; n width", "cdiv(n, BLOCK_T)",
        want=top_want, constants="each", tolerance=0.0, keep="elements(c, BLOCK_T * each, 16)", values=largest_of),
    subject("atomics", zoo.spline_grad, shapes("n width knots", (65_536, 64, 8), (20_000, 300, 64)), TOKENS,
        "x g: float32[n, width]; y: float32[width, knots + 1]; n width knots", OVER, want=spline_grad_want, most=16),
    subject("atomics", zoo.group_products, shapes("n groups", (1 << 19, 1 << 17), (200_000, 5000)), LINES,
        "x: float32[n]; group: int32[n]; y: int32[groups]; n", line, want=products_want, most=8,
        got=lambda p, c, t: t["y_ptr"].view(t["x_ptr"].dtype), values=lambda p: {
            "group_ptr": picked(1151, "groups", "n")(p), "y_ptr": 0}),
    subject("atomics", zoo.scatter_conv, shapes("n ins outs", (60_000, 64, 64), (30_000, 32, 128)),
        "BLOCK_M=16..128 num_warps=2..8",
        "x: float16[n, ins]; w: float16[27, ins, outs]; in out: int32[sum(n * (k * 7 % 5 + 1) // 5 for k in "
        "range(27))]; first: int32[28]; y: float32[n, outs]", "cdiv(n, BLOCK_M), 27", want=scatter_conv_want,
        constants="ins outs", keep="per_thread(c, BLOCK_M * outs, 64)", values=tap_pairs),
    subject("atomics", zoo.skip_gram, shapes("n words width", (1 << 18, 100_000, 128), (100_000, 5000, 64)), ROWS,
        "word near sign: int32[n]; a b ga gb: float32[words, width]; n", "cdiv(n, BLOCK_T)", want=words_want,
        constants="width", output="ga_ptr gb_ptr", keep="elements(c, BLOCK_T * width, 16)", values=words),
    subject("windows", zoo.running_boxes, shapes("high wide reach dtype", (4096, 8192, 4, "float32"),
        (2000, 3000, 15, "float16")), "EACH=16..128 BLOCK_C=64..512 num_warps=1..8",
        "x y: dtype[high, wide]; high wide", "cdiv(wide, BLOCK_C), cdiv(high, EACH)", want=boxes_want,
        constants="reach", most=8),
    subject("windows", zoo.lattice_volume, shapes("deep high wide", (128, 128, 256), (100, 90, 130)), LINES,
        "x y: float32[7, deep, high, wide]; deep high wide", "cdiv(deep * high * wide, BLOCK)", want=lattice_want,
        most=8),
    subject("windows", zoo.enlarge_filtered, shapes("planes high wide dtype", (256, 128, 128, "float16"),
        (64, 300, 200, "float32")), WIDE,
        "x: dtype[planes, high, wide]; w: float32[16]; y: dtype[planes, 2 * high, 2 * wide]; high wide",
        "cdiv(2 * wide, BLOCK_C), cdiv(2 * high, BLOCK_R), planes", want=filtered_want, most=16),
    subject("windows", zoo.rebuild, shapes("planes high wide", (16, 1080, 1920), (200, 300, 401)), WIDE,
        "marker x y: uint8[planes, high, wide]; high wide", lambda p, c: (*over()(p, c), p["planes"]),
        want=rebuilt_want, tolerance=0.0, most=16),
    subject("windows", zoo.red_black, shapes("high wide", (4096, 8192), (1500, 3001)), WIDE,
        "x b: float32[high, wide]; high wide; over = 1.6", "cdiv(wide // 2, BLOCK_C), cdiv(high - 2, BLOCK_R)",
        want=red_black_want, output="", got=lambda p, c, t: t["x_ptr"], in_place=("x_ptr",), most=16),
    subject("windows", zoo.table_means, shapes("planes high wide reach", (4, 2160, 3840, 7), (64, 500, 401, 31)), WIDE,
        "table: float32[planes, high + 1, wide + 1]; y: float32[planes, high, wide]; high wide",
        lambda p, c: (*over()(p, c), p["planes"]), want=means_want, constants="reach", most=16),
]  # fmt: skip
