"""The 23 kernels of `kernels/triton_zoo_windows.py` as `zoo.py` measures them, two problems each. All were predicted
before they were timed.
"""

from __future__ import annotations

import numpy as np
from kernels import triton_zoo_windows as zoo

from .blind import LINES
from .edges import LINE, PIXELS, line
from .eleventh import over
from .forms import drawn
from .subject import Config, Problem, cdiv, shapes, subject
from .thirteenth import WIDE

OUT = "high wide out_high out_wide"
SPACE = {"BLOCK_Z": (1, 2, 4), "BLOCK_R": (1, 2, 4, 8), "BLOCK_C": (32, 64, 128), "num_warps": (1, 2, 4, 8)}


def pixels(p: Problem, c: Config) -> tuple[int, ...]:
    """Of the outputs where there are fewer of them."""
    n = p.get("out_high", p["high"]) * p.get("out_wide", p["wide"])
    return cdiv(n, c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]), p["images"]


SUBJECTS = [
    subject("windows", zoo.guided_means, shapes("high wide small reach", (2160, 3840, 0.1, 2), (1000, 1400, 0.05, 4)),
        WIDE, "g x a b: float32[high, wide]; high wide small", over(), constants="reach", output="a_ptr b_ptr",
        most=16),
    subject("windows", zoo.bilateral_colour, shapes("high wide near alike reach", (1080, 1920, 0.1, 0.0003, 2),
        (2000, 3000, 0.2, 0.001, 1)), WIDE, "x y: uint8[high, wide, 3]; high wide near alike", over(),
        constants="reach", most=4),
    subject("windows", zoo.depthwise_volume, shapes("images channels deep high wide dtype",
        (4, 64, 16, 112, 112, "float16"), (2, 200, 32, 40, 50, "float32")), SPACE,
        "x: dtype[images, channels, deep, high, wide]; w: dtype[channels, 27]; "
        "y: dtype[images, channels, deep, high, wide]; channels deep high wide",
        "cdiv(wide, BLOCK_C) * cdiv(high, BLOCK_R), cdiv(deep, BLOCK_Z), images * channels", most=8),
    subject("windows", zoo.depthwise_grad_last, shapes(f"images {OUT} width side step dtype",
        (16, 56, 56, 56, 56, 256, 3, 1, "bfloat16"), (8, 112, 112, 56, 56, 96, 5, 2, "float16")), PIXELS,
        f"g: dtype[images, out_high, out_wide, width]; w: dtype[side ** 2, width]; "
        f"y: dtype[images, high, wide, width]; {OUT}",
        lambda p, c: (cdiv(p["high"] * p["wide"], c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]), p["images"]),
        constants="width side step", most=16),
    subject("windows", zoo.taps_grad, shapes("batch length channels taps dtype", (4, 4096, 2048, 4, "bfloat16"),
        (2, 20_000, 700, 9, "float32")), "BLOCK=32..1024 num_warps=1..8",
        "x g: dtype[batch, channels, length]; y: float32[channels, taps]; batch length channels", "channels",
        constants="taps; PADDED = pow2_up(taps)", keep="elements(c, BLOCK * pow2_up(taps), 64)"),
    subject("windows", zoo.taps_grad_last, shapes("length width each", (65_536, 1024, 8), (30_000, 200, 4)),
        "BLOCK_T=1..32 BLOCK_C=32..256 num_warps=1..8",
        "x g: float16[length, width]; y: float32[cdiv(length, each * BLOCK_T), 4, width]; length",
        "cdiv(length, each * BLOCK_T), cdiv(width, BLOCK_C)", constants="width each",
        got=lambda p, c, t: t["y_ptr"].sum(0)),
    subject("windows", zoo.mean_pool_counted, shapes(f"planes {OUT} side step pad dtype",
        (2048, 112, 112, 56, 56, 3, 2, 1, "float16"), (256, 150, 200, 150, 200, 5, 1, 2, "float32")), LINE,
        f"x: dtype[planes, high, wide]; y: dtype[planes, out_high, out_wide]; {OUT}",
        "cdiv(out_high * out_wide, BLOCK), planes", constants="side step pad", most=16),
    subject("windows", zoo.max_pool_apart, shapes(f"images {OUT} width side step apart dtype",
        (16, 64, 64, 60, 60, 256, 3, 1, 2, "float16"), (8, 100, 140, 49, 69, 192, 2, 2, 3, "bfloat16")), PIXELS,
        f"x: dtype[images, high, wide, width]; y: dtype[images, out_high, out_wide, width]; {OUT}", pixels,
        constants="width side step apart"),
    subject("windows", zoo.attend_around, shapes("high wide heads width reach scale", (128, 128, 8, 32, 3, 0.18),
        (64, 96, 4, 64, 2, 0.125)), "BLOCK=16..128 num_warps=1..8",
        "q k v y: bfloat16[high * wide, heads * width]; high wide scale", "cdiv(high * wide, BLOCK), heads",
        constants="heads width reach", keep="elements(c, BLOCK * width, 64)"),
    subject("windows", zoo.morph_gradient, shapes("planes high wide side", (8, 1080, 1920, 3), (64, 500, 300, 7)), WIDE,
        "x y: uint8[planes, high, wide]; high wide", lambda p, c: (*over()(p, c), p["planes"]), constants="side",
        tolerance=0.0, most=16),
    subject("windows", zoo.thin_edges, shapes("high wide", (4096, 6000), (1000, 1501)), WIDE,
        "gx gy y: float32[high, wide]; high wide", over(), got=lambda p, c, t: (t["y_ptr"].sum(0), t["y_ptr"].sum(1))),
    subject("windows", zoo.heat_flat, shapes("deep high wide", (256, 512, 512), (100, 300, 700)), LINE,
        "x y: float32[deep, high, wide]; deep high wide; rate = 0.1", "cdiv(deep * high * wide, BLOCK)", most=16),
    subject("windows", zoo.wave_padded, shapes("deep high wide reach", (128, 264, 264, 4), (64, 504, 380, 2)), SPACE,
        "now old speed next: float32[deep + 2 * reach, high, wide]; high wide",
        "cdiv(wide - 2 * reach, BLOCK_C), cdiv(high - 2 * reach, BLOCK_R), deep // BLOCK_Z", constants="reach",
        output="next_ptr", most=8),
    subject("windows", zoo.bicubic, shapes(f"planes {OUT} dtype", (12, 540, 960, 1080, 1920, "float16"),
        (16, 500, 700, 300, 420, "float32")), LINES,
        f"x: dtype[planes, high, wide]; y: dtype[planes, out_high, out_wide]; {OUT}; down = high / out_high; "
        "across = wide / out_wide", "cdiv(out_high * out_wide, BLOCK), planes", most=8),
    subject("windows", zoo.columns_last, shapes(f"images {OUT} width side step pad dtype",
        (8, 56, 56, 56, 56, 128, 3, 1, 1, "float16"), (4, 112, 112, 56, 56, 48, 5, 2, 2, "bfloat16")), PIXELS,
        f"x: dtype[images, high, wide, width]; y: dtype[images * out_high * out_wide, side ** 2 * width]; {OUT}",
        pixels, constants="width side step pad", tolerance=0.0, most=16),
    subject("windows", zoo.conv_with_state, shapes("batch channels length dtype", (8, 2048, 4096, "bfloat16"),
        (32, 768, 1000, "float16")), LINE, "x: dtype[batch * channels, length]; w: dtype[channels, 4]; "
        "state: dtype[batch * channels, 3]; y: dtype[batch * channels, length]; last: dtype[batch * channels, 3]; "
        "length channels", "cdiv(length, BLOCK), batch * channels", output="y_ptr last_ptr"),
    subject("windows", zoo.keep_peaks, shapes("planes high wide side dtype", (640, 128, 128, 3, "float16"),
        (1000, 96, 72, 5, "float32")), LINES, "x y: dtype[planes, high, wide]; high wide",
        "cdiv(high * wide, BLOCK), planes", constants="side", tolerance=0.0, most=8),
    subject("windows", zoo.sliding_match, shapes("signals length taps", (64, 1 << 18, 24), (500, 20_000, 11)), LINE,
        "x: float32[signals, length]; w: float32[taps]; y: float32[signals, length]; length taps",
        "cdiv(length, BLOCK), signals", most=16),
    subject("windows", zoo.shallow_water, shapes("high wide rest step", (4096, 4096, 4.0, 0.01),
        (1000, 3000, 4.0, 0.01)), WIDE, "x y: float32[3, high, wide]; high wide rest step", over(), most=8),
    subject("windows", zoo.cyclic_cells, shapes("high wide kinds least", (4000, 8000, 6, 2), (1000, 1500, 14, 1)), WIDE,
        "x: uint8[high + 2, wide + 2]; y: uint8[high, wide]; high wide", over(), constants="kinds least",
        tolerance=0.0, most=16, values=lambda p: {
            "x_ptr": drawn(617).integers(0, p["kinds"], (p["high"] + 2, p["wide"] + 2), np.uint8)}),
    subject("windows", zoo.fir_complex, shapes("n taps step dtype", (1 << 24, 16, 1, "float32"),
        (5_000_000, 9, 4, "float16")), LINE, "x: dtype[n * step + taps, 2]; w: float32[taps, 2]; y: float32[n, 2]; n",
        line, constants="taps step", most=16),
    subject("windows", zoo.bands, shapes("times wide taps dtype", (8192, 4096, 20, "float32"),
        (20_000, 500, 8, "float16")), WIDE, "x y: dtype[times, wide]; times wide",
        "cdiv(wide, BLOCK_C), cdiv(times, BLOCK_R)", constants="taps", most=16),
    subject("windows", zoo.sobel_volume, shapes("deep high wide dtype", (192, 256, 256, "float32"),
        (60, 300, 500, "float16")), WIDE, "x y: dtype[deep, high, wide]; deep high wide",
        lambda p, c: (*over()(p, c), p["deep"]), most=8),
]  # fmt: skip
