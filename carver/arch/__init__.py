"""Devices: what a descriptor holds (`descriptor`), its file and all names that it answers to (`devices`), and what the
drivers of this machine say (`detect`). CDNA is what TileLang calls AMD's devices."""

from .devices import CPU as CPU
from .devices import CUDA as CUDA
from .devices import HIP as CDNA

__all__ = ["CDNA", "CPU", "CUDA"]
