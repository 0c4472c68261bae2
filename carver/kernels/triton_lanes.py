"""How the lanes of a warp read operands from shared memory in Triton's products on vector units.

A lane multiplies rows of the first operand with columns of the second, 4 x 4 at a time. Source: IR and SASS of Triton
3.6 for compute capability 7.5 to 12.0, assembly for gfx1100.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..arch.descriptor import Arch
from .scope import VECTOR

Values: TypeAlias = Any
"""An integer array over candidates, or one integer for all. Flags are 0 or 1."""
WIDEST_COPY_BYTES = 16
BANKS_BYTES = 128
"""Bytes that shared memory moves in one pass: one word of each bank."""


def lane_extent(tile_m: Values, tile_n: Values, threads: Values) -> Values:
    """Contiguous rows and columns that a lane holds, on vector units: 4 x 4, or fewer in a small tile."""
    share = tile_m * tile_n // threads
    return np.select([share >= 16, share >= 4], [4, 2], 1)


def lanes_across(arch: Arch, tile_m: Values, tile_n: Values, threads: Values) -> Values:
    """Lanes of a warp along the columns, on vector units. Lanes fill a row first."""
    return np.minimum(arch.warp_size, np.maximum(1, tile_n // lane_extent(tile_m, tile_n, threads)))


def staged_wide(arch: Arch, instruction: Values, a_bytes: Values) -> Values:
    """Whether operands become float32 before they are written to shared memory: those of 16 bits on vector units.

    One buffer then serves both: a thread reads its share of the first operand into registers before the second is
    written. Source: Triton 3.6's IR and SASS for compute capability 7.5."""
    return (instruction == VECTOR) & (np.asarray(a_bytes) == 2) & (arch.vendor == "nvidia")


def staged_bytes_of(staged_wide: Values, element: Values) -> Values:
    """Size of an element in shared memory."""
    return np.where(staged_wide > 0, 4, element)


def _lane_width(k_contiguous: Values, element: Values, extent: Values) -> Values:
    """Bytes of one read: along K if it is contiguous, else along the lane's rows or columns."""
    return np.where(k_contiguous > 0, WIDEST_COPY_BYTES, np.minimum(extent * element, WIDEST_COPY_BYTES))


def lane_read_a_bytes(
    a_k_last: Values, a_bytes: Values, staged_wide: Values, tile_m: Values, tile_n: Values, threads: Values
) -> Values:  # fmt: skip
    return _lane_width(a_k_last, staged_bytes_of(staged_wide, a_bytes), lane_extent(tile_m, tile_n, threads))


def lane_read_b_bytes(
    b_k_last: Values, b_bytes: Values, staged_wide: Values, tile_m: Values, tile_n: Values, threads: Values
) -> Values:  # fmt: skip
    return _lane_width(b_k_last, staged_bytes_of(staged_wide, b_bytes), lane_extent(tile_m, tile_n, threads))


def lane_rows(tile_m: Values, tile_n: Values, threads: Values) -> Values:
    """Rows of the first operand that a lane multiplies. Of the columns of the second it has `lane_extent`."""
    return np.maximum(1, tile_m * tile_n // threads // lane_extent(tile_m, tile_n, threads))


def lane_reads_a(
    tile_m: Values, tile_n: Values, tile_k: Values, threads: Values, a_bytes: Values, staged_wide: Values,
    lane_read_a_bytes: Values,
) -> Values:  # fmt: skip
    """Reads per lane and step for all rows of its share of the tile."""
    rows = lane_rows(tile_m, tile_n, threads)
    return -(-rows * tile_k * staged_bytes_of(staged_wide, a_bytes) // lane_read_a_bytes)


def lane_reads_b(
    tile_m: Values, tile_n: Values, tile_k: Values, threads: Values, b_bytes: Values, staged_wide: Values,
    lane_read_b_bytes: Values,
) -> Values:  # fmt: skip
    columns = lane_extent(tile_m, tile_n, threads)
    return -(-columns * tile_k * staged_bytes_of(staged_wide, b_bytes) // lane_read_b_bytes)


def _passes(arch: Arch, k_contiguous: Values, width: Values, together: Values, distinct: Values) -> Values:
    """Passes of the port for one read of a warp, of which it serves `together` lanes at once, on `distinct` rows or
    columns. Shared memory is not swizzled for vector units. With K contiguous, rows start at the same bank, so lanes on
    different rows take turns; otherwise lanes read contiguous words."""
    return arch.warp_size // together * np.where(k_contiguous > 0, distinct, -(-distinct * width // BANKS_BYTES))


def lane_passes_a(arch: Arch, a_k_last: Values, lanes_across: Values, lane_read_a_bytes: Values) -> Values:
    """On NVIDIA, neighbouring lanes that read the same address count as one, which halves the passes of a wide read
    (`compiled.isa.banks`)."""
    pairs = 2 if arch.vendor == "nvidia" else 1
    together = np.minimum(arch.warp_size, pairs * BANKS_BYTES // lane_read_a_bytes)
    return _passes(arch, a_k_last, lane_read_a_bytes, together, np.maximum(1, together // lanes_across))


def lane_passes_b(arch: Arch, b_k_last: Values, lanes_across: Values, lane_read_b_bytes: Values) -> Values:
    together = np.minimum(arch.warp_size, BANKS_BYTES // lane_read_b_bytes)
    return _passes(arch, b_k_last, lane_read_b_bytes, together, np.minimum(together, lanes_across))
