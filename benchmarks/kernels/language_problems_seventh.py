"""The problems of `languages_seventh.cu`: kernels of tuned codes and public samples, two shapes of each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .language_problems import Problem

F32, F64, I8, I32 = "float32", "float64", "int8", "int32"
MOST = 18
THREADS = [32, 64, 128, 256, 512]


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def seventh_problems() -> list[Problem]:
    problem = partial(Problem, source="languages_seventh.cu", most=MOST)

    def square(c: dict[str, Any]) -> int:
        return int(c["block_size_x"] * c["block_size_y"])

    def expdist(name: str, m: int, n: int) -> Problem:
        return problem(
            f"cuda_expdist_{name}",
            {"partial": (F64, (1 << 16,), "zero"), "a": (F64, (m, 2), "randn"), "b": (F64, (n, 2), "randn"),
             "sa": (F64, (m,), "rand"), "sb": (F64, (n,), "rand")},
            ("partial",), ("partial", "a", "b", "sa", "sb", m, n),
            {"block_size_x": [32, 64, 128, 256], "block_size_y": [1, 2, 4, 8], "tile_size_x": [1, 2, 4],
             "tile_size_y": [1, 2, 4, 8], "use_shared_mem": [0, 1]},
            lambda c: ((ceil(m, c["block_size_x"] * c["tile_size_x"]), ceil(n, c["block_size_y"] * c["tile_size_y"])),
                       (c["block_size_x"], c["block_size_y"]), 0),
            lambda c: 64 <= square(c) <= 512 and ceil(m, c["block_size_x"] * c["tile_size_x"])
            * ceil(n, c["block_size_y"] * c["tile_size_y"]) <= 1 << 16,
        )  # fmt: skip

    def hotspot(name: str, width: int, height: int) -> Problem:
        def shared(c: dict[str, Any]) -> int:
            k = c["temporal_tiling_factor"]
            each = (c["block_size_x"] * c["tile_size_x"] + 2 * k) * (c["block_size_y"] * c["tile_size_y"] + 2 * k)
            return int(4 * each * (2 + c["sh_power"]))

        return problem(
            f"cuda_hotspot_{name}",
            {"out": (F32, (height, width), "poison"), "temperature": (F32, (height, width), "rand"),
             "power": (F32, (height, width), "rand")},
            ("out",), ("out", "temperature", "power", width, height),
            {"block_size_x": [16, 32, 64], "block_size_y": [4, 8, 16], "tile_size_x": [1, 2], "tile_size_y": [1, 2, 4],
             "temporal_tiling_factor": [2], "sh_power": [0, 1]},
            lambda c: ((ceil(width, c["block_size_x"] * c["tile_size_x"]),
                        ceil(height, c["block_size_y"] * c["tile_size_y"])), (c["block_size_x"], c["block_size_y"]), 0),
            lambda c: 64 <= square(c) <= 1024 and shared(c) <= 48 << 10,
        )  # fmt: skip

    def dct(name: str, width: int, height: int) -> Problem:
        return problem(
            f"cuda_dct_{name}",
            {"out": (F32, (height, width), "poison"), "x": (F32, (height, width), "rand"),
             "cosines": (F32, (64,), "rand")},
            ("out",), ("out", "x", width, height),
            {"blocks_x": [2, 4, 8, 16], "blocks_y": [1, 2, 4], "per_block": [1, 2, 4], "padding": [0, 1],
             "through_shared": [0, 1]},
            lambda c: ((ceil(width, 8 * c["blocks_x"]), ceil(height, 8 * c["blocks_y"] * c["per_block"])),
                       (8 * c["blocks_x"], c["blocks_y"]), 0),
            lambda c: 8 * c["blocks_x"] * c["blocks_y"] >= 32,
            constants={"cosines": "cosines"},
        )  # fmt: skip

    def sepconv(name: str, width: int, height: int, radius: int) -> Problem:
        return problem(
            f"cuda_sepconv_{name}",
            {"out": (F32, (height, width), "poison"), "x": (F32, (height, width), "rand"),
             "weights": (F32, (2 * radius + 1,), "rand")},
            ("out",), ("out", "x", width, height),
            {"block_size_x": [16, 32, 64], "block_size_y": [2, 4, 8, 16], "tile_size_y": [1, 2, 4, 8],
             "padding": [0, 1], "contiguous_rows": [0, 1], "unroll_factor": [1, 2 * radius + 1]},
            lambda c: ((ceil(width, c["block_size_x"]), ceil(height, c["block_size_y"] * c["tile_size_y"])),
                       (c["block_size_x"], c["block_size_y"]), 0),
            lambda c: 64 <= square(c) <= 512
            and 4 * (c["block_size_x"] + 1) * (c["block_size_y"] * c["tile_size_y"] + 2 * radius) <= 48 << 10,
            defines={"RADIUS": radius}, constants={"weights": "weights"},
        )  # fmt: skip

    def binomial(name: str, options: int, steps: int) -> Problem:
        return problem(
            f"cuda_binomial_{name}",
            {"price": (F32, (options,), "poison"), **{each: (F32, (options,), "rand")
                                                      for each in ("spot", "strike", "years")}},
            ("price",), ("price", "spot", "strike", "years", steps),
            {"block_size_x": [32, 64, 128, 256, 512, 1024], "per_thread": [1, 2, 3, 4, 5, 8, 9, 16, 17, 33],
             "skip_done": [0, 1]},
            lambda c: (options, c["block_size_x"], 0),
            lambda c: steps < c["block_size_x"] * c["per_thread"] <= 3 * steps,
        )  # fmt: skip

    def minplus(name: str, n: int, depth: int) -> Problem:
        return problem(
            f"cuda_minplus_{name}",
            {"c": (F32, (n, n), "ones"), "a": (F32, (n, depth), "rand"), "b": (F32, (depth, n), "rand")},
            ("c",), ("c", "a", "b", n, depth),
            {"block_size_x": [16, 32], "block_size_y": [4, 8, 16], "tile_size_x": [1, 2, 4], "tile_size_y": [2, 4, 8],
             "tile_k": [16, 32], "padding": [0, 1], "unroll_factor": [1, 4, 16]},
            lambda c: ((n // (c["block_size_x"] * c["tile_size_x"]), n // (c["block_size_y"] * c["tile_size_y"])),
                       (c["block_size_x"], c["block_size_y"]), 0),
            lambda c: square(c) >= 64,
        )  # fmt: skip

    def pfb(name: str, channels: int, spectra: int, taps: int) -> Problem:
        return problem(
            f"cuda_pfb_{name}",
            {"out": (F32, (spectra, channels, 2), "poison"), "x": (I8, (spectra + taps - 1, channels, 2), "levels"),
             "taps": (F32, (taps, channels), "rand")},
            ("out",), ("out", "x", "taps", channels, spectra),
            {"block_size_x": THREADS, "samples_per_thread": [4, 8, 16, 32, 64], "sliding": [0, 1],
             "unroll_factor": [1, taps]},
            lambda c: ((ceil(channels, c["block_size_x"]), ceil(spectra, c["samples_per_thread"])),
                       c["block_size_x"], 0),
            defines={"TAPS": taps},
        )  # fmt: skip

    def lennard(name: str, count: int, most: int) -> Problem:
        def lists(c: dict[str, Any]) -> str:
            return "columns" if c["transposed"] else "lists"

        return problem(
            f"cuda_lennard_{name}",
            {"force": (F32, (count, 4), "poison"), "atoms": (F32, (count, 4), "randn"),
             "lists": (I32, (count, most), "near"), "columns": (I32, (most, count), "near")},
            ("force",), lambda c: ("force", "atoms", lists(c), count, most),
            {"block_size_x": [64, 128, 256, 512], "threads_per_atom": [1, 2, 4, 8, 16], "transposed": [0, 1],
             "unroll_factor": [1, 2, 4]},
            lambda c: (ceil(count * c["threads_per_atom"], c["block_size_x"]), c["block_size_x"], 0),
        )  # fmt: skip

    def hashed(name: str, count: int, words: int, rounds: int) -> Problem:
        def messages(c: dict[str, Any]) -> str:
            return "across" if c["interleaved"] else "along"

        return problem(
            f"cuda_hashed_{name}",
            {"digest": (I32, (count,), "poison"), "along": (I32, (count, words), "mixed"),
             "across": (I32, (words, count), "mixed")},
            ("digest",), lambda c: ("digest", messages(c), count, np.uint32(0x1234567)),
            {"block_size_x": THREADS, "per_thread": [1, 2, 4], "interleaved": [0, 1], "unroll_factor": [1, 2, 8]},
            lambda c: (ceil(count, c["block_size_x"] * c["per_thread"]), c["block_size_x"], 0),
            defines={"WORDS": words, "ROUNDS": rounds},
        )  # fmt: skip

    return [
        expdist("8kx6k", 8192, 6000), expdist("3000x20k", 3000, 20_000),
        hotspot("4096x4096", 4096, 4096), hotspot("1500x3000", 1500, 3000),
        dct("4096x4096", 4096, 4096), dct("1920x1080", 1920, 1080),
        sepconv("4096x4096x8", 4096, 4096, 8), sepconv("3000x2000x16", 3000, 2000, 16),
        binomial("1024x1023", 1024, 1023), binomial("8192x255", 8192, 255),
        minplus("2048x1024", 2048, 1024), minplus("4096x256", 4096, 256),
        pfb("1024x32k", 1024, 32_768, 8), pfb("4096x4096x16", 4096, 4096, 16),
        lennard("200kx64", 200_000, 64), lennard("40kx160", 40_000, 160),
        hashed("2mx16", 2_000_000, 16, 4), hashed("500kx32", 500_000, 32, 10),
    ]  # fmt: skip
