"""Whose kernels a declaration describes: one record per backend, in the order of carver's preference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..arch.descriptor import Arch

_TILES = {
    "BLOCK_M": ("BLOCK_SIZE_M", "block_m", "BM"),
    "BLOCK_N": ("BLOCK_SIZE_N", "block_n", "BN"),
    "BLOCK_K": ("BLOCK_SIZE_K", "block_k", "BK"),
    "GROUP_M": ("GROUP_SIZE_M", "group_m", "GROUP"),
    "SPLIT_K": ("split_k",),
}
_LAUNCH = {"nvidia": {"num_warps": 4, "num_stages": 3}, "amd": {"num_warps": 4, "num_stages": 2}}
"""Defaults of Triton 3.6 for CUDA and for HIP."""
_UNPRICED = {"amd": ("waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint")}
_TILELANG = {"num_stages": 2, "thread_num": 128, "enable_rasteration": 0}


@dataclass(frozen=True)
class Backend:
    """A tool that kernels are written in, and where they run."""

    name: str
    title: str
    """Whose kernels these are, as a sentence begins with it."""
    device_kind: str = "gpu"
    """What they run on: "gpu" or "cpu"."""
    vendors: tuple[str, ...] = ()
    """Of the devices that they run on; empty: any. On others their tiles are advice."""
    least_cc: tuple[int, int] = (0, 0)
    """Compute capability of the oldest NVIDIA GPU that they are compiled for."""
    without_isas: tuple[str, ...] = ()
    """ISAs of those vendors that its compiler fails for."""
    source: str = ""
    """What carver's own sources of it are compiled as, "cuda" or "c"; empty where another tool has the sources."""
    by_default: bool = False
    """Whether they are recommended where no backend is named."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other spellings in use for the keys of a configuration."""
    options: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By the device's vendor: keys that a configuration may lack, with the tool's default for them."""
    unpriced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the device's vendor: options that the model has no part for; a ranking says that it left them out."""

    def runs_on(self, arch: Arch) -> bool:
        """Whether its kernels run on a device, rather than their tiles being advice for others."""
        known = self.device_kind == arch.kind and arch.vendor in (self.vendors or (arch.vendor,))
        return known and arch.isa not in self.without_isas and (arch.cc is None or arch.cc >= self.least_cc)


BACKENDS: Mapping[str, Backend] = MappingProxyType({
    backend.name: backend
    for backend in (
        Backend("cuda", "carver's CUDA", vendors=("nvidia",), source="cuda", by_default=True),
        Backend(
            "triton", "Triton's", vendors=("nvidia", "amd"), least_cc=(7, 0),
            without_isas=("gfx803", "gfx900", "gfx906"), by_default=True, aliases=_TILES, options=_LAUNCH,
            unpriced=_UNPRICED,
        ),
        Backend("kernel_tuner", "Kernel Tuner's CUDA", vendors=("nvidia",), by_default=True),
        Backend("kernel_tuner_hip", "Kernel Tuner's HIP", vendors=("amd",), by_default=True),
        Backend("cpu", "carver's CPU", device_kind="cpu", source="c", by_default=True),
        Backend(
            "triton_block_fp8", "vLLM's Triton", vendors=("nvidia", "amd"), least_cc=(7, 0), aliases=_TILES,
            options=_LAUNCH, unpriced=_UNPRICED,
        ),
        Backend(
            "triton_tma", "Triton's with tensor descriptors", vendors=("nvidia",), least_cc=(9, 0), aliases=_TILES,
            options=_LAUNCH,
        ),
        Backend(
            "triton_walk", "Triton's in one launch", vendors=("nvidia",), least_cc=(8, 0), aliases=_TILES,
            options=_LAUNCH,
        ),
        Backend(
            "triton_decode", "serving engines' Triton", vendors=("nvidia",), least_cc=(8, 0), aliases=_TILES,
            options=_LAUNCH,
        ),
        Backend(
            "tilelang", "TileLang's", vendors=("nvidia", "amd"), least_cc=(7, 0),
            aliases={"thread_num": ("threads",), "enable_rasteration": ("enable_rasterization",)},
            options={"nvidia": _TILELANG, "amd": _TILELANG},
            unpriced={vendor: ("k_pack", "policy") for vendor in ("nvidia", "amd")},
        ),
        Backend("clblast", "CLBlast's"),
        Backend("tensile", "Tensile's", vendors=("amd",)),
    )
})  # fmt: skip


def preferred(arch: Arch, there: Iterable[str]) -> Backend:
    """The backend that is recommended where none is named: of those that are `there`, one that runs on the device.

    Where none of them does, one for the vendor's devices or the first of the device's kind, so that what it lacks can
    be told.
    """
    names = set(there)
    kind = [backend for backend in BACKENDS.values() if backend.by_default and backend.device_kind == arch.kind]
    mine = [backend for backend in kind if backend.name in names]
    for_vendor = [backend for backend in mine if arch.vendor in backend.vendors]
    return next((backend for backend in mine if backend.runs_on(arch)), (for_vendor or mine or kind)[0])
