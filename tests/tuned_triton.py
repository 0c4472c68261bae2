"""A Triton kernel for the tuner's test on a GPU."""

# Triton reads the annotations of a kernel, so they are not postponed here.

from typing import Any

import triton
import triton.language as tl

import carver


@triton.jit
def _double(X, Y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, 2 * tl.load(X + at, mask=at < n), mask=at < n)


@carver.jit(out_idx=[-1])
def double(n: int, BLOCK: int = 256, num_warps: int = 4, num_stages: int = 3) -> Any:
    """Y = 2 X."""
    constants = {"BLOCK": BLOCK, "num_warps": num_warps, "num_stages": num_stages}
    return carver.Kernel(_double, grid=-(-n // BLOCK), scalars=[n], defines=constants)


@carver.jit
def sized(n: Any, BLOCK: int = 256, num_warps: int = 4, num_stages: int = 3) -> Any:
    """Y = 2 X for any n."""
    constants = {"BLOCK": BLOCK, "num_warps": num_warps, "num_stages": num_stages}
    params = [("X", (n,), "float32"), ("Y", (n,), "float32", True)]
    return carver.Kernel(_double, grid=f"ceil({n}, {BLOCK})", scalars=[n], defines=constants, params=params)
