"""Whose kernels a declaration describes: one record per backend, in the order of carver's preference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..arch.descriptor import TRITON_LACKS, TRITON_LEAST_CC, Arch

_TILES = {
    "BLOCK_M": ("BLOCK_SIZE_M", "block_m", "BM"),
    "BLOCK_N": ("BLOCK_SIZE_N", "block_n", "BN"),
    "BLOCK_K": ("BLOCK_SIZE_K", "block_k", "BK"),
    "GROUP_M": ("GROUP_SIZE_M", "group_m", "GROUP"),
    "SPLIT_K": ("split_k",),
}
_LAUNCH = {"nvidia": {"num_warps": 4, "num_stages": 3}, "amd": {"num_warps": 4, "num_stages": 2}}
"""Triton 3.6's default launch options for CUDA and for HIP."""
_UNPRICED = {"amd": ("waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint")}
_TILELANG = {"num_stages": 2, "thread_num": 128, "enable_rasteration": 0}


@dataclass(frozen=True)
class Backend:
    """A tool that kernels are written in, and the devices that they run on."""

    name: str
    title: str
    """The possessive that messages begin with: "Triton's"."""
    device_kind: str = "gpu"
    """Kind of device that its kernels run on: "gpu" or "cpu"."""
    vendors: tuple[str, ...] = ()
    """Vendors of the devices that its kernels run on; empty: any. On other devices their tiles serve as advice."""
    least_cc: tuple[int, int] = (0, 0)
    """Oldest compute capability of NVIDIA that its compiler supports."""
    without_isas: tuple[str, ...] = ()
    """ISAs of these vendors that its compiler does not support."""
    source: str = ""
    """Language of carver's own sources for it, "cuda" or "c"; empty where the sources are another tool's."""
    by_default: bool = False
    """Whether its kernels may be recommended when the caller names no backend."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other spellings in use, for each key of a configuration."""
    options: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each vendor, the keys that a configuration may lack, with the tool's defaults."""
    unpriced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each vendor, the options that the model ignores; a ranking says that it did."""

    def runs_on(self, arch: Arch) -> bool:
        """Whether its kernels run on this device, rather than only advise on tiles."""
        known = self.device_kind == arch.kind and arch.vendor in (self.vendors or (arch.vendor,))
        return known and arch.isa not in self.without_isas and (arch.cc is None or arch.cc >= self.least_cc)


def _triton(
    name: str, title: str, *, vendors: tuple[str, ...] = ("nvidia",), least_cc: tuple[int, int] = (8, 0), **more: Any
) -> Backend:
    """A tool that writes kernels in Triton, with the options of its launches and the usual names of tiles."""
    return Backend(
        name, title, vendors=vendors, least_cc=least_cc, without_isas=TRITON_LACKS, aliases=_TILES, options=_LAUNCH,
        **more,
    )  # fmt: skip


BACKENDS: Mapping[str, Backend] = MappingProxyType({
    backend.name: backend
    for backend in (
        Backend("cuda", "carver's CUDA", vendors=("nvidia",), source="cuda", by_default=True),
        _triton(
            "triton", "Triton's", vendors=("nvidia", "amd"), least_cc=TRITON_LEAST_CC, by_default=True,
            unpriced=_UNPRICED,
        ),
        Backend("kernel_tuner", "Kernel Tuner's CUDA", vendors=("nvidia",), by_default=True),
        Backend("kernel_tuner_hip", "Kernel Tuner's HIP", vendors=("amd",), by_default=True),
        Backend("cpu", "carver's CPU", device_kind="cpu", source="c", by_default=True),
        _triton(
            "triton_block_fp8", "vLLM's Triton", vendors=("nvidia", "amd"), least_cc=TRITON_LEAST_CC,
            unpriced=_UNPRICED,
        ),
        _triton("triton_tma", "Triton's with tensor descriptors", least_cc=(9, 0)),
        _triton("triton_walk", "Triton's in one launch"),
        _triton("triton_decode", "serving engines' Triton"),
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
    """The backend to use when the caller names none: the first in `there` that runs on the device.

    If none does, the first for the device's vendor, else the first for its kind of device, so that an error can say
    what that backend needs.
    """
    names = set(there)
    kind = [backend for backend in BACKENDS.values() if backend.by_default and backend.device_kind == arch.kind]
    mine = [backend for backend in kind if backend.name in names]
    for_vendor = [backend for backend in mine if arch.vendor in backend.vendors]
    return next((backend for backend in mine if backend.runs_on(arch)), (for_vendor or mine or kind)[0])
