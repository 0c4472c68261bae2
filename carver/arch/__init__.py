"""Devices: what a descriptor holds, the shipped ones by name, the one in this machine."""

from .devices import CPU as CPU
from .devices import CUDA as CUDA
from .devices import HIP as CDNA

__all__ = ["CDNA", "CPU", "CUDA"]
