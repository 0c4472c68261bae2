"""Triton kernels of every construct that `carver.rank_kernel` follows, ranked for GPUs that need not be there.

    python tests/any_kernels.py [--arch h100,mi300x] [--only NAME,...]

prints, for each kernel and device, how many of its configurations are ranked, or the sentence that says why none is. A
kernel that this Triton does not have the words for is one such sentence. Ends with 1 if anything but carver's own
errors was raised.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import carver
from carver.base.errors import CarverError


@triton.jit
def double(a):
    return a + a


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def constants(
    x_ptr, y_ptr, n, BLOCK: tl.constexpr, APPLY: tl.constexpr, TYPE: tl.constexpr, KIND: tl.constexpr,
    FLAG: tl.constexpr, NOTHING: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(TYPE)
    if FLAG:
        x = APPLY(x)
    if KIND == "negative":
        x = -x
    if NOTHING is None:
        x = x * 3
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def block_pointers(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (m, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, n), (BLOCK_K, BLOCK_N), (1, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (m, n), (BLOCK_M, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc += tl.dot(tl.load(a, boundary_check=(0, 1)), tl.load(b, boundary_check=(0, 1)))
        a = tl.advance(a, (0, BLOCK_K))
        b = tl.advance(b, (BLOCK_K, 0))
    tl.store(c, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def persistent(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    columns = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * columns, tl.num_programs(0), flatten=True):
        m, n = tile // columns * BLOCK_M, tile % columns * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
        c.store([m, n], acc.to(tl.float16))


@triton.jit
def filtered(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Blocks whose products are small are not stored."""
    m, n, k = (tl.arange(0, BLOCK_M) + tl.program_id(0) * BLOCK_M, tl.arange(0, BLOCK_N) + tl.program_id(1) * BLOCK_N,
               tl.arange(0, BLOCK_K))  # fmt: skip
    products = tl.dot(tl.load(a_ptr + m[:, None] * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + n[None, :]))
    if tl.max(tl.max(products, 1), 0) > 1e-4:
        tl.store(c_ptr + m[:, None] * N + n[None, :], products.to(tl.float16))


@triton.jit
def host_descriptor(x_desc, y_ptr, K, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        acc += x_desc.load([tl.program_id(0) * BLOCK, k]).to(tl.float32)
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i[:, None] * BLOCK + i[None, :], acc)


@triton.jit
def reduced_in_place(x_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    n = tl.program_id(0) * BLOCK_N
    y.atomic_add([0, n], x.load([0, n]))


@triton.jit
def counted(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(bins_ptr + x, 1, mask=i < n)
    tl.atomic_max(bins_ptr + x, x, mask=i < n)


@triton.jit
def locked(x_ptr, y_ptr, lock_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr + i, tl.load(y_ptr + i) + tl.load(x_ptr + i))
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def scaled_by_addresses(from_ptr, to_ptr, n, BLOCK: tl.constexpr):
    source = tl.load(from_ptr + tl.program_id(1)).to(tl.pointer_type(tl.float16))
    out = tl.load(to_ptr + tl.program_id(1)).to(tl.pointer_type(tl.float16))
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(source + at, mask=at < n), mask=at < n)


@triton.jit
def tiles_in_turn(x_ptr, y_ptr, next_ptr, n, BLOCK: tl.constexpr):
    tile = tl.atomic_add(next_ptr, 1)
    while tile * BLOCK < n:
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        tile = tl.atomic_add(next_ptr, 1)


@triton.jit
def summed_under_a_lock(x_ptr, y_ptr, lock_ptr, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """As the sums of a layer norm's gradient: the first program of a group stores, the others add to what is there."""
    group, i = tl.program_id(0) % GROUPS, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + i)
    while tl.atomic_cas(lock_ptr + group, 0, 1) == 1:
        pass
    if tl.load(lock_ptr + GROUPS + group) == 0:
        tl.atomic_xchg(lock_ptr + GROUPS + group, 1)
    else:
        x += tl.load(y_ptr + group * BLOCK + i)
    tl.store(y_ptr + group * BLOCK + i, x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + group, 0)


@triton.jit
def in_turn(x_ptr, y_ptr, lock_ptr, seen_ptr, rows, BLOCK: tl.constexpr):
    """Waits for a flag that another kernel sets, and adds row after row to one that other programs add to as well."""
    i = tl.arange(0, BLOCK)
    seen = tl.load(seen_ptr)
    while seen == 0:
        seen = tl.load(seen_ptr, volatile=True)
    for row in range(rows):
        x = tl.load(x_ptr + row * BLOCK + i)
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        tl.store(y_ptr + i, tl.load(y_ptr + i) + x)
        tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def one_by_one(x_ptr, y_ptr, flag_ptr, SOONER: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of a row up to each tile: a tile waits for the one before it, which may say that it is there at once."""
    tile = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    i = tile * BLOCK + tl.arange(0, BLOCK)
    x, before = tl.cumsum(tl.load(x_ptr + i), 0), 0.0
    if SOONER:
        tl.atomic_xchg(flag_ptr + tile, 1)
    if tl.program_id(0) > 0:
        while tl.atomic_add(flag_ptr + tile - 1, 0) == 0:
            pass
        before = tl.load(y_ptr + tile * BLOCK - 1)
    tl.store(y_ptr + i, x + before)
    if not SOONER:
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr + tile, 1)


@triton.jit
def strided(x_ptr, y_ptr, rows, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    while row < rows:
        acc += tl.load(x_ptr + row * BLOCK + i)
        row += tl.num_programs(0)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + i, acc)


@triton.jit
def unrolled(x_ptr, y_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for row in tl.static_range(ROWS):
        acc += tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
    tl.store(y_ptr + tl.arange(0, BLOCK), acc)


@triton.jit
def recurrent(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def scanned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    _, y = tl.associative_scan((x, x), 0, recurrent)
    top, place = tl.max(x, 0, return_indices=True)
    tl.store(y_ptr + i, y + tl.cumsum(x, 0) + tl.reduce(x, 0, plus) + top + place, mask=i < n)


@triton.jit
def ordered(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.sort(tl.load(x_ptr + i)))


@triton.jit
def histogram(x_ptr, y_ptr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(y_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))


@triton.jit
def gathered(x_ptr, index_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.gather(tl.load(x_ptr + i), tl.load(index_ptr + i), 0))


@triton.jit
def indirect(x_ptr, index_ptr, y_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    x = tl.load(x_ptr + tl.load(index_ptr + row)[:, None] * WIDTH + d[None, :])
    tl.store(y_ptr + row[:, None] * WIDTH + d[None, :], x)


@triton.jit
def ragged(x_ptr, start_ptr, y_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    group, d = tl.program_id(0), tl.arange(0, WIDTH)
    end = tl.load(start_ptr + group + 1)
    acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    for first in range(tl.load(start_ptr + group), end, BLOCK):
        row = first + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row[:, None] * WIDTH + d[None, :], mask=row[:, None] < end, other=0.0)
    tl.store(y_ptr + group * WIDTH + d, tl.sum(acc, 0))


@triton.jit
def narrow(a_ptr, b_ptr, c_ptr, N, K, SUMS: tl.constexpr, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), SUMS)
    for first in range(0, K, BLOCK):
        a = tl.load(a_ptr + m[:, None] * K + (first + k)[None, :])
        b = tl.load(b_ptr + n[None, :] * K + (first + k)[:, None])
        acc += tl.dot(a, b, out_dtype=SUMS)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def microscaled(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, N, K, KIND: tl.constexpr, PACKED: tl.constexpr, BLOCK: tl.constexpr
):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k, s = tl.arange(0, BLOCK // PACKED), tl.arange(0, BLOCK // 32)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for step in range(0, K // BLOCK):
        at, scale = step * (BLOCK // PACKED) + k, step * (BLOCK // 32) + s
        a = tl.load(a_ptr + m[:, None] * (K // PACKED) + at[None, :])
        b = tl.load(b_ptr + n[None, :] * (K // PACKED) + at[:, None])
        a_scale = tl.load(a_scale_ptr + m[:, None] * (K // 32) + scale[None, :])
        b_scale = tl.load(b_scale_ptr + n[:, None] * (K // 32) + scale[None, :])
        acc = tl.dot_scaled(a, a_scale, KIND, b, b_scale, KIND, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def three_axes(x_ptr, y_ptr, B, C, BLOCK: tl.constexpr):
    i = (tl.program_id(2) * B + tl.program_id(1)) * C + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i))


@triton.jit
def assembly(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    add: tl.constexpr = "add.f32 $0, $1, $1;"
    tl.store(y_ptr + i, tl.inline_asm_elementwise(add, "=r,r", [tl.load(x_ptr + i)], tl.float32, True, 1))


@triton.jit
def batched(a_ptr, b_ptr, c_ptr, B: tl.constexpr, N: tl.constexpr):
    b, m, n = tl.arange(0, B)[:, None, None], tl.arange(0, N)[None, :, None], tl.arange(0, N)[None, None, :]
    i = b * N * N + m * N + n
    tl.store(c_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i)).to(tl.float16))


@triton.jit
def rearranged(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    r, c = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 4)
    i = r * BLOCK + tl.arange(0, BLOCK)
    j = c * BLOCK + tl.arange(0, BLOCK)
    x = tl.reshape(tl.trans(tl.load(x_ptr + i[:, None] * N + j[None, :])), (BLOCK * BLOCK // 2, 2))
    even, odd = tl.split(x)
    tl.store(y_ptr + j[:, None] * N + i[None, :], tl.reshape(tl.join(odd, even), (BLOCK, BLOCK)))


@triton.jit
def pointers(pointers_ptr, y_ptr, n, BLOCK: tl.constexpr):
    x_ptr = tl.load(pointers_ptr + tl.program_id(1)).to(tl.pointer_type(tl.float16))
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) + tl.rand(3, i), mask=i < n)


@triton.jit
def early(x_ptr, y_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) * BLOCK >= n:
        return
    if tl.load(flag_ptr) > 0:
        for first in range(0, n, BLOCK):
            i = first + tl.arange(0, BLOCK)
            tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def summed(sources, counts, y_ptr, BLOCK: tl.constexpr):
    """Arguments that are tuples, one of them with a number that Triton takes for a constant."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(len(sources)):
        total += tl.load(sources[k] + i * counts[1], mask=i < counts[0]).to(tl.float32)
    tl.store(y_ptr + i, total)


class Case(NamedTuple):
    kernel: Any
    args: dict[str, Any]
    configs: list[dict[str, Any]]
    grid: tuple[int, ...] | Callable[[dict[str, Any]], tuple[int, ...]]
    values: Mapping[str, Any] = MappingProxyType({})


def tensors(dtype: str, **shapes: Any) -> dict[str, carver.Tensor]:
    every = {name: shape if isinstance(shape, tuple) else (shape,) for name, shape in shapes.items()}
    return {name: carver.Tensor(dtype, shape) for name, shape in every.items()}


def floats(**shapes: Any) -> dict[str, carver.Tensor]:
    return tensors("float32", **shapes)


def halves(**shapes: Any) -> dict[str, carver.Tensor]:
    return tensors("float16", **shapes)


SQUARE, TILE = (512, 512), {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
MATRICES = {**halves(a_ptr=SQUARE, b_ptr=SQUARE, c_ptr=SQUARE), "M": 512, "N": 512, "K": 512}
PAIR = floats(x_ptr=4096, y_ptr=4096)
FLAGS = {"APPLY": double, "TYPE": tl.float32, "KIND": "negative", "FLAG": True, "NOTHING": None}


def scaled(kind: str, dtype: str, packed: int) -> Case:
    args = {**tensors(dtype, a_ptr=(512, 512 // packed), b_ptr=(512, 512 // packed)), **floats(c_ptr=SQUARE)}
    args |= {**tensors("uint8", a_scale_ptr=(512, 16), b_scale_ptr=(512, 16)), "N": 512, "K": 512}
    return Case(microscaled, args, [{"BLOCK": 128, "KIND": kind, "PACKED": packed}], (4, 4))


def narrow_case(dtype: str, out: str, sums: Any) -> Case:
    args = {**tensors(dtype, a_ptr=SQUARE, b_ptr=SQUARE), **tensors(out, c_ptr=SQUARE), "N": 512, "K": 512}
    return Case(narrow, args, [{"BLOCK": 64, "SUMS": sums}], (8, 8))


CASES = {
    "constants": Case(constants, {**PAIR, "n": 4000}, [{"BLOCK": b, **FLAGS} for b in (256, 512)],
                      lambda known: (4096 // known["BLOCK"],)),
    "block pointers": Case(block_pointers, MATRICES, [TILE, {**TILE, "BLOCK_M": 100}], lambda known: (8, 8)),
    "persistent": Case(persistent, MATRICES, [{**TILE, "num_stages": stages} for stages in (2, 3)], (20,)),
    "host descriptor": Case(host_descriptor, {"x_desc": carver.Descriptor(carver.Tensor("float16", SQUARE), (64, 64)),
                                              **floats(y_ptr=(64, 64)), "K": 512}, [{"BLOCK": 64}], (8,)),
    "reduced in place": Case(reduced_in_place, {**floats(x_ptr=(64, 256), y_ptr=(64, 256)), "M": 64, "N": 256},
                             [{"BLOCK_M": 64, "BLOCK_N": 32}], (8,)),
    "atomics": Case(counted, {**tensors("int32", x_ptr=4096, bins_ptr=256), "n": 4096}, [{"BLOCK": 256}], (16,)),
    "a lock": Case(locked, {**floats(x_ptr=256, y_ptr=256), **tensors("int32", lock_ptr=1)}, [{"BLOCK": 256}], (16,)),
    "while": Case(strided, {**floats(x_ptr=(100, 256), y_ptr=(16, 256)), "rows": 100}, [{"BLOCK": 256}], (16,)),
    "static range": Case(unrolled, floats(x_ptr=(8, 256), y_ptr=256), [{"BLOCK": 256, "ROWS": 8}], (1,)),
    "scan": Case(scanned, {**PAIR, "n": 4096}, [{"BLOCK": 256}], (16,)),
    "sort": Case(ordered, PAIR, [{"BLOCK": 256}], (16,)),
    "histogram": Case(histogram, tensors("int32", x_ptr=4096, y_ptr=64), [{"BLOCK": 256, "BINS": 64}], (16,)),
    "gather": Case(gathered, {**floats(x_ptr=256, y_ptr=256), **tensors("int32", index_ptr=256)}, [{"BLOCK": 256}],
                   (1,)),
    "indirect": Case(indirect, {**floats(x_ptr=(999, 64), y_ptr=(512, 64)), **tensors("int32", index_ptr=512)},
                     [{"BLOCK": 16, "WIDTH": 64}], (32,)),
    "ragged": Case(ragged, {**floats(x_ptr=(960, 64), y_ptr=(8, 64)), **tensors("int32", start_ptr=9)},
                   [{"BLOCK": 16, "WIDTH": 64}], (8,), {"start_ptr": np.arange(9) * 120}),
    "int8": narrow_case("int8", "int32", tl.int32),
    "fp8": narrow_case("float8_e5m2", "float32", tl.float32),
    "mxfp8": scaled("e5m2", "float8_e5m2", 1),
    "mxfp4": scaled("e2m1", "uint8", 2),
    "three axes": Case(three_axes, {**floats(x_ptr=(4, 8, 1024), y_ptr=(4, 8, 1024)), "B": 8, "C": 1024},
                       [{"BLOCK": b} for b in (256, 512)], lambda known: (1024 // known["BLOCK"], 8, 4)),
    "assembly": Case(assembly, PAIR, [{"BLOCK": 256}], (16,)),
    "batched": Case(batched, halves(a_ptr=(4, 32, 32), b_ptr=(4, 32, 32), c_ptr=(4, 32, 32)), [{"B": 4, "N": 32}],
                    (1,)),
    "rearranged": Case(rearranged, {**floats(x_ptr=(256, 256), y_ptr=(256, 256)), "N": 256}, [{"BLOCK": 32}], (8, 8)),
    "tuples": Case(summed, {"sources": (carver.Tensor("float16", (4096,)), carver.Tensor("float32", (4096,))),
                            "counts": (4000, 1), **floats(y_ptr=4096)}, [{"BLOCK": 256}], (16,)),
    "pointers": Case(pointers, {**tensors("int64", pointers_ptr=4), **halves(y_ptr=4096), "n": 4096}, [{"BLOCK": 256}],
                     (16, 4)),
    "early return": Case(early, {**PAIR, **tensors("int32", flag_ptr=1), "n": 2000}, [{"BLOCK": 256}], (16,),
                         {"flag_ptr": 1}),
}  # fmt: skip


IN_TURN = Case(in_turn, {**floats(x_ptr=(9, 256), y_ptr=256), **tensors("int32", lock_ptr=1, seen_ptr=1), "rows": 9},
               [{"BLOCK": 256}], (16,))  # fmt: skip


def outcome(case: Case, arch: carver.Arch) -> str:
    """What the ranking says, in a line. Raises what is none of carver's errors."""
    try:
        ranking = carver.rank_kernel(
            case.kernel, case.configs, args=case.args, grid=case.grid, arch=arch, values=case.values
        )
    except CarverError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    first = ranking[0]
    assert 0.0 < first.predicted_ms < 1e3 and ranking.explain()
    return f"{len(ranking)} of {len(case.configs)}, {1e3 * first.predicted_ms:.3g} us, {first.bound}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="h100,mi300x", help="devices, with commas")
    parser.add_argument("--only", default="", help="names of kernels, with commas")
    options = parser.parse_args()
    faults = 0
    print(f"Triton {triton.__version__}")
    for name in options.arch.split(","):
        arch = carver.load_arch(name)
        for title, case in CASES.items():
            if not options.only or title in options.only.split(","):
                try:
                    said = outcome(case, arch)
                except Exception:  # what the table is for: to find these
                    said, faults = traceback.format_exc(), faults + 1
                print(f"{name:12} {title:17} {said[:240]}", flush=True)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
