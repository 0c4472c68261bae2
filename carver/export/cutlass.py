"""CUTLASS and CuTe DSL: tile, cluster, stages and the names of schedules, as plain dicts; neither package is imported.

The hints may be of any tensor-core kernel. `closest` names the profile nearest to CUTLASS's: on Hopper TileLang's, with
one producer warp group, one or two that multiply and TMA into every stage; on Blackwell Triton's, which issues tcgen05.
Schedules follow from the instruction set and the number of consumer groups. Source: CUTLASS 4,
include/cutlass/gemm/dispatch_policy.hpp and the CuTe DSL examples of dense GEMM for Hopper and Blackwell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..base.given import takes
from ..kernels.foreign import from_cutlass
from ..kernels.scope import matrix_unit
from ..ranking.hint import Hint
from . import chosen

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
    collective takes are left out: Hopper's have multiples of 64, Blackwell's 64 or 128 per SM.
    """
    return [_config(hint) for hint in _matrix(hints)]


def _config(hint: Hint) -> dict[str, Any]:
    cc = hint.arch.cc or (0, 0)
    assert hint.num_warps is not None and hint.rstep is not None  # as of any matmul of a GPU
    block_m, block_n = hint.block[:2]
    pair, groups = use_2cta(hint), max(hint.num_warps // 4, 1)
    width = getattr(hint.rasterization_plan, "panel_width", 1)
    if cc[0] == 9:
        kind = "" if groups == 1 else "Cooperative" if block_m >= 128 else "Pingpong"
        schedule = f"KernelTmaWarpSpecialized{kind}"
        epilogue = "TmaWarpSpecializedCooperative" if kind == "Cooperative" else "TmaWarpSpecialized"
    elif _tcgen05(hint):
        schedule = f"KernelTmaWarpSpecialized{2 if pair else 1}SmSm100"
        epilogue = f"TmaWarpSpecialized{2 if pair else 1}Sm"
    elif cc[0] == 8:
        schedule, epilogue = "MainloopSm80CpAsync", "DefaultEpilogue"
    else:
        schedule, epilogue = "KernelScheduleAuto", "EpilogueScheduleAuto"
    return {
        "tile_shape": (2 * block_m if pair else block_m, block_n, hint.rstep[0]),
        "cluster_shape": _cluster(hint), "stages": hint.pipeline_stage,
        "kernel_schedule": schedule, "epilogue_schedule": epilogue, "split_k": hint.split_k, "raster_group": width,
    }  # fmt: skip


@takes(ConfigError)
def cute_dsl(hints: Iterable[Hint]) -> list[dict[str, Any]]:
    """`{mma_tiler_mn, cluster_shape_mn, use_2cta_instrs, use_tma_store}` of each hint, for the Blackwell examples.

    A pair of blocks shares one tile there: `mma_tiler_mn` is the tile of the pair where `use_2cta_instrs` holds. Raises
    ConfigError for another device.
    """
    out = []
    for hint in _matrix(hints):
        if (hint.arch.cc or (0, 0))[0] != 10:
            raise ConfigError(
                f"these are arguments of the CuTe DSL's GEMM for Blackwell (sm_100), and {hint.arch.name} is "
                f"{hint.arch.isa}; export to cutlass names its tile, cluster, stages and schedules"
            )
        pair, (m, n) = use_2cta(hint), hint.block[:2]
        aligned = hint.problem.align_bytes[hint.problem.statement.output.name] >= 16
        out.append({
            "mma_tiler_mn": (2 * m if pair else m, n), "cluster_shape_mn": _cluster(hint)[:2], "use_2cta_instrs": pair,
            "use_tma_store": bool(hint.arch.tma and aligned),
        })  # fmt: skip
    return out


def use_2cta(hint: Hint) -> bool:
    """Whether two blocks share one tcgen05 instruction: Blackwell, rows of 128, and an even number of row tiles."""
    rows = -(-hint.problem.sizes.get("m", 1) // hint.block[0])
    return _tcgen05(hint) and hint.block[0] == 128 and rows % 2 == 0


def _tcgen05(hint: Hint) -> bool:
    unit = matrix_unit(hint.problem, hint.arch)
    return unit is not None and unit.instruction == "tcgen05"


def _cluster(hint: Hint) -> tuple[int, int, int]:
    return (2, 1, 1) if use_2cta(hint) else (1, 1, 1)


def _matrix(hints: Iterable[Hint]) -> list[Hint]:
    found = chosen(hints, "CUTLASS", BACKENDS, "matmul")
    for hint in found:
        closest(hint.arch)
    if any(not hint.use_tc for hint in found):
        raise ConfigError("these hints run on the vector units, for which CUTLASS has no collective to name")
    if not (fit := [hint for hint in found if rows_fit(hint)]):
        rows = ", ".join(map(str, sorted({hint.block[0] for hint in found})))
        raise ConfigError(
            f"no collective of CUTLASS for {found[0].arch.name} has tiles of {rows} rows: ask for more hints, or "
            "exchange the operands, so that the short side is that of the columns"
        )
    return fit


def rows_fit(hint: Hint) -> bool:
    """Whether an instruction of the device's collectives has the tile's rows."""
    if _tcgen05(hint):
        return hint.block[0] in (64, 128)
    return (hint.arch.cc or (0, 0))[0] != 9 or hint.block[0] % 64 == 0
