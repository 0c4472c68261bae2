"""What device is in this machine, as its driver says. No third-party package, no GPU needed to import."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from .errors import ArchError

Fields: TypeAlias = tuple[tuple[str, int | float | None], ...]


@dataclass(frozen=True, slots=True)
class Device:
    """One device: names to look its descriptor up by, and fields of `Arch` as the system states them."""

    names: tuple[str, ...]
    vendor: str
    kind: str
    isa: str
    said_by: str
    fields: Fields  # None: the system does not say

    @property
    def name(self) -> str:
        return self.names[0]


def nvidia() -> list[Device]:
    return []


def amd() -> list[Device]:
    return []


def cpu() -> list[Device]:
    return []


def apple() -> list[Device]:
    return []
