"""CUTLASS and CuTe DSL: tile, cluster, stages and the names of schedules, as plain dicts; neither package is imported.

The hints may be of any tensor-core kernel. `closest` names the profile nearest to CUTLASS's: on Hopper TileLang's, with
one producer warp group, one or two that multiply and TMA into every stage; on Blackwell Triton's, which issues tcgen05.
Schedules follow from the instruction set and the number of consumer groups. Source: CUTLASS 4,
include/cutlass/gemm/dispatch_policy.hpp, gemm/collective/builders/sm120_mma_builder.inl (on GeForce Blackwell of 8, 6
and 4 bits alone) and the CuTe DSL examples of dense GEMM for Hopper and Blackwell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..base.given import takes
from ..kernels.backends import from_cutlass
from ..kernels.expr import matrix_unit
from ..ranking.hint import Hint
from . import Exported, distinct

from_config = from_cutlass

BACKENDS = ("tilelang", "triton", "cuda")


def closest(arch: Arch) -> str:
    """The backend whose kernels are most like CUTLASS's on this device. ConfigError where it has no collective."""
    if arch.cc is None or arch.cc < (8, 0):
        raise ConfigError(
            "CUTLASS has collectives with asynchronous copies for NVIDIA GPUs of compute capability 8.0 and later, "
            f"and {arch.name} is {arch.isa or arch.vendor}"
        )
    return "triton" if arch.cc[0] == 10 else "tilelang"


@takes(ConfigError)
def configs(hints: Iterable[Hint]) -> list[dict[str, Any]]:
    """`{tile_shape, cluster_shape, stages, kernel_schedule, epilogue_schedule, split_k, raster_group}` of each hint.

    Names are those of the collective builder (sm_90, sm_100) and of the sm_80 main loop; elsewhere they are the
    builder's Auto. A pair of Blackwell SMs has one tile, and `tile_shape` is that of the pair. Hints whose rows no
    collective takes are left out, and the next ones take their place: Hopper's have multiples of 64, Blackwell's 64 or
    128 per SM. The number of warps is what a schedule implies.
    """
    return _exported(hints, "CUTLASS", _config, 8)


def _config(hint: Hint, pair: bool) -> dict[str, Any]:
    cc = hint.arch.cc or (0, 0)
    assert hint.num_warps is not None and hint.rstep is not None  # as of any matmul of a GPU
    block_m, block_n = hint.block[:2]
    groups = max(hint.num_warps // 4, 1)
    width = getattr(hint.rasterization_plan, "panel_width", 1)
    swizzle = max(size for size in (1, 2, 4, 8) if size <= width)  # get_log_swizzle_size of its tile scheduler
    narrow = any(dtype.startswith(("float8", "float4")) for dtype in hint.problem.dtypes.values())
    if cc[0] == 9:
        kind = "" if groups == 1 else "Cooperative" if block_m >= 128 else "Pingpong"
        schedule = f"KernelTmaWarpSpecialized{kind}"
        epilogue = "TmaWarpSpecializedCooperative" if kind == "Cooperative" else "TmaWarpSpecialized"
    elif _tcgen05(hint):
        schedule = f"KernelTmaWarpSpecialized{2 if pair else 1}SmSm100"
        epilogue = f"TmaWarpSpecialized{2 if pair else 1}Sm"
    elif cc[0] == 8 or (cc[0] == 12 and not narrow):
        schedule, epilogue = "MainloopSm80CpAsync", "DefaultEpilogue"
    else:
        schedule, epilogue = "KernelScheduleAuto", "EpilogueScheduleAuto"
    return {
        "tile_shape": (_rows(hint, pair), block_n, hint.rstep[0]),
        "cluster_shape": (max(1 + pair, hint.cluster[0]), 1, 1), "stages": hint.pipeline_stage,
        "kernel_schedule": schedule, "epilogue_schedule": epilogue, "split_k": hint.split_k, "raster_group": swizzle,
    }  # fmt: skip


@takes(ConfigError)
def cute_dsl(hints: Iterable[Hint]) -> list[dict[str, Any]]:
    """`{mma_tiler_mn, cluster_shape_mn, use_2cta_instrs, use_tma_store}` of each hint, for the Blackwell examples.

    A pair of blocks shares one tile there: `mma_tiler_mn` is the tile of the pair where `use_2cta_instrs` holds. These
    kernels choose the depth of a step, stages and warps themselves, so hints that differ in nothing else are one entry,
    and the next ones take their place. Raises ConfigError for another device.
    """
    return _exported(hints, "the CuTe DSL", _cute_dsl, 32)


def _cute_dsl(hint: Hint, pair: bool) -> dict[str, Any]:
    if (hint.arch.cc or (0, 0))[0] != 10:
        raise ConfigError(
            f"these are arguments of the CuTe DSL's GEMM for Blackwell (sm_100), and {hint.arch.name} is "
            f"{hint.arch.isa}; export to cutlass names its tile, cluster, stages and schedules"
        )
    aligned = hint.problem.align_bytes[hint.problem.statement.output.name] >= 16
    return {
        "mma_tiler_mn": (_rows(hint, pair), hint.block[1]), "cluster_shape_mn": (1 + pair, 1),
        "use_2cta_instrs": pair, "use_tma_store": bool(hint.arch.tma and aligned),
    }  # fmt: skip


def use_2cta(hint: Hint) -> bool:
    """Whether two blocks share one tcgen05 instruction: Blackwell, tiles of 256 rows, or an even number of 128."""
    rows = -(-hint.problem.sizes.get("m", 1) // hint.block[0])
    return _tcgen05(hint) and (hint.block[0] == 256 or (hint.block[0] == 128 and rows % 2 == 0))


def _rows(hint: Hint, pair: bool) -> int:
    """Rows of the tile, or of that of a pair, which has 256."""
    return 256 if pair else int(hint.block[0])


def _tcgen05(hint: Hint) -> bool:
    unit = matrix_unit(hint.problem, hint.arch)
    return unit is not None and unit.instruction == "tcgen05"


def _exported(
    hints: Iterable[Hint], target: str, make: Callable[[Hint, bool], dict[str, Any]], least_n: int
) -> Exported[dict[str, Any]]:
    """Entries of matmuls on matrix units; last, tiles of 128 rows that no pair shares. ConfigError if none is left."""

    def alone(hint: Hint) -> dict[str, Any] | None:
        return make(hint, False) if use_2cta(hint) and hint.block[0] == 128 else None

    entries = distinct(
        hints, target, BACKENDS, lambda hint: make(hint, use_2cta(hint)), "matmul",
        lambda hint: why_not(hint, least_n), alone,
    )  # fmt: skip
    if not entries:
        raise ConfigError(f"{target} can take none of these hints: {'; '.join(entries.notes[:-1])}")
    return entries


def why_not(hint: Hint, least_n: int = 8) -> str:
    """Why no collective takes a hint's tile; empty if one does. Raises ConfigError for devices that have none.

    Columns are multiples of `least_n`, those of a pair of blocks of 32. Source: CUTLASS 4, the CuTe DSL's dense GEMM
    for Blackwell, and PTX ISA, shapes of tcgen05.mma.
    """
    closest(hint.arch)
    of, (rows, columns) = f"no collective of CUTLASS for {hint.arch.isa}", hint.block[:2]
    if not hint.use_tc:
        return f"{of} runs on the vector units"
    if (hint.pipeline_stage or 0) < 2:
        return f"{of} has fewer than two stages"
    if rows not in (64, 128, 256) if _tcgen05(hint) else (hint.arch.cc or (0, 0))[0] == 9 and rows % 64:
        return f"{of} has tiles of {rows} rows; exchange the operands"
    least_n = max(least_n, 32) if use_2cta(hint) else least_n
    return f"{of} has tiles of {columns} columns; they are multiples of {least_n}" if columns % least_n else ""
