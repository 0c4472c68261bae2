"""The problems of `languages_seventh.cu`: kernels of tuned codes and public samples, two shapes of each."""

from __future__ import annotations

from functools import partial

import numpy as np

from .language_problems import Problem

F32, F64, I8, I32 = "float32", "float64", "int8", "int32"
MOST = 18
BLOCK = "(block_size_x, block_size_y), 0"


def seventh_problems() -> list[Problem]:
    problem = partial(Problem, source="languages_seventh.cu", most=MOST)

    def expdist(name: str, m: int, n: int) -> Problem:
        across = f"cdiv({m}, block_size_x * tile_size_x)", f"cdiv({n}, block_size_y * tile_size_y)"
        return problem(f"cuda_expdist_{name}",
            {"partial": (F64, (1 << 16,), "zero"), "a": (F64, (m, 2), "randn"), "b": (F64, (n, 2), "randn"),
             "sa": (F64, (m,), "rand"), "sb": (F64, (n,), "rand")}, ("partial",),
            ("partial", "a", "b", "sa", "sb", m, n),
            "block_size_x=32..256 block_size_y=1..8 tile_size_x=1..4 tile_size_y=1..8 use_shared_mem=0,1",
            f"({', '.join(across)}), {BLOCK}",
            f"64 <= block_size_x * block_size_y <= 512 and {' * '.join(across)} <= 1 << 16")  # fmt: skip

    def hotspot(name: str, width: int, height: int) -> Problem:
        return problem(f"cuda_hotspot_{name}",
            {"out": (F32, (height, width), "poison"), "temperature": (F32, (height, width), "rand"),
             "power": (F32, (height, width), "rand")}, ("out",), ("out", "temperature", "power", width, height),
            "block_size_x=16..64 block_size_y=4..16 tile_size_x=1,2 tile_size_y=1..4 temporal_tiling_factor=2 "
            "sh_power=0,1",
            f"(cdiv({width}, block_size_x * tile_size_x), cdiv({height}, block_size_y * tile_size_y)), {BLOCK}",
            "64 <= block_size_x * block_size_y <= 1024 and "
            "4 * (block_size_x * tile_size_x + 2 * temporal_tiling_factor) "
            "* (block_size_y * tile_size_y + 2 * temporal_tiling_factor) * (2 + sh_power) <= 48 << 10")  # fmt: skip

    def dct(name: str, width: int, height: int) -> Problem:
        return problem(f"cuda_dct_{name}",
            {"out": (F32, (height, width), "poison"), "x": (F32, (height, width), "rand"),
             "cosines": (F32, (64,), "rand")}, ("out",), ("out", "x", width, height),
            "blocks_x=2..16 blocks_y=1..4 per_block=1..4 padding=0,1 through_shared=0,1",
            f"(cdiv({width}, 8 * blocks_x), cdiv({height}, 8 * blocks_y * per_block)), (8 * blocks_x, blocks_y), 0",
            "8 * blocks_x * blocks_y >= 32", constants={"cosines": "cosines"})  # fmt: skip

    def sepconv(name: str, width: int, height: int, radius: int) -> Problem:
        return problem(f"cuda_sepconv_{name}",
            {"out": (F32, (height, width), "poison"), "x": (F32, (height, width), "rand"),
             "weights": (F32, (2 * radius + 1,), "rand")}, ("out",), ("out", "x", width, height),
            "block_size_x=16..64 block_size_y=2..16 tile_size_y=1..8 padding=0,1 contiguous_rows=0,1 "
            f"unroll_factor=1,{2 * radius + 1}",
            f"(cdiv({width}, block_size_x), cdiv({height}, block_size_y * tile_size_y)), {BLOCK}",
            "64 <= block_size_x * block_size_y <= 512 and "
            f"4 * (block_size_x + 1) * (block_size_y * tile_size_y + {2 * radius}) <= 48 << 10",
            defines={"RADIUS": radius}, constants={"weights": "weights"})  # fmt: skip

    def binomial(name: str, options: int, steps: int) -> Problem:
        return problem(f"cuda_binomial_{name}",
            {"price": (F32, (options,), "poison"), "spot": (F32, (options,), "rand"),
             "strike": (F32, (options,), "rand"), "years": (F32, (options,), "rand")},
            ("price",), ("price", "spot", "strike", "years", steps),
            "block_size_x=32..1024 per_thread=1,2,3,4,5,8,9,16,17,33 skip_done=0,1", f"{options}, block_size_x, 0",
            f"{steps} < block_size_x * per_thread <= {3 * steps}")  # fmt: skip

    def minplus(name: str, n: int, depth: int) -> Problem:
        return problem(f"cuda_minplus_{name}",
            {"c": (F32, (n, n), "ones"), "a": (F32, (n, depth), "rand"), "b": (F32, (depth, n), "rand")}, ("c",),
            ("c", "a", "b", n, depth),
            "block_size_x=16,32 block_size_y=4..16 tile_size_x=1..4 tile_size_y=2..8 tile_k=16,32 padding=0,1 "
            "unroll_factor=1,4,16",
            f"({n} // (block_size_x * tile_size_x), {n} // (block_size_y * tile_size_y)), {BLOCK}",
            "block_size_x * block_size_y >= 64")  # fmt: skip

    def pfb(name: str, channels: int, spectra: int, taps: int) -> Problem:
        return problem(f"cuda_pfb_{name}",
            {"out": (F32, (spectra, channels, 2), "poison"), "x": (I8, (spectra + taps - 1, channels, 2), "levels"),
             "taps": (F32, (taps, channels), "rand")}, ("out",), ("out", "x", "taps", channels, spectra),
            f"block_size_x=32..512 samples_per_thread=4..64 sliding=0,1 unroll_factor=1,{taps}",
            f"(cdiv({channels}, block_size_x), cdiv({spectra}, samples_per_thread)), block_size_x, 0",
            defines={"TAPS": taps})  # fmt: skip

    def lennard(name: str, count: int, most: int) -> Problem:
        return problem(f"cuda_lennard_{name}",
            {"force": (F32, (count, 4), "poison"), "atoms": (F32, (count, 4), "randn"),
             "lists": (I32, (count, most), "near"), "columns": (I32, (most, count), "near")}, ("force",),
            lambda c: ("force", "atoms", "columns" if c["transposed"] else "lists", count, most),
            "block_size_x=64..512 threads_per_atom=1..16 transposed=0,1 unroll_factor=1..4",
            f"cdiv({count} * threads_per_atom, block_size_x), block_size_x, 0")  # fmt: skip

    def hashed(name: str, count: int, words: int, rounds: int) -> Problem:
        return problem(f"cuda_hashed_{name}",
            {"digest": (I32, (count,), "poison"), "along": (I32, (count, words), "mixed"),
             "across": (I32, (words, count), "mixed")}, ("digest",),
            lambda c: ("digest", "across" if c["interleaved"] else "along", count, np.uint32(0x1234567)),
            "block_size_x=32..512 per_thread=1..4 interleaved=0,1 unroll_factor=1,2,8",
            f"cdiv({count}, block_size_x * per_thread), block_size_x, 0",
            defines={"WORDS": words, "ROUNDS": rounds})  # fmt: skip

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
