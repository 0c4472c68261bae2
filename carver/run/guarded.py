"""The arrays that candidates run on, between margins that nobody has a reason to write to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .device import Device
from .spec import element

CANARY, MARGIN_BYTES = 0xA5, 4096
"""The byte before and behind every array, and how many of it."""


class Guarded:
    """An array on a device between two margins, which nobody has a reason to write to."""

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: str) -> None:
        self._device = device
        size = math.prod(shape) * element(dtype).itemsize
        self._whole = device.empty((size + 2 * MARGIN_BYTES,), "uint8")
        self.buffer = device.part(self._whole, MARGIN_BYTES, shape, dtype)
        margin = (MARGIN_BYTES,)
        self._margins = [device.part(self._whole, at, margin, "uint8") for at in (0, MARGIN_BYTES + size)]
        self.restore()

    def restore(self) -> None:
        for margin in self._margins:
            self._device.fill(margin, CANARY)

    def is_intact(self) -> bool:
        return all(bool((self._device.stored(m) == CANARY).all()) for m in self._margins)


@dataclass
class Set:
    """Inputs and outputs of a candidate, in order: as stored bits on the host, and where candidates find them."""

    stored: list[Any]
    """Of what is no array, the value."""
    arrays: list[Any] = field(default_factory=list)
    """`Guarded` ones for programs, arguments for Python code."""
    right: tuple[Any, Any] | None = None
    """The right output and what it may be off by, in float64."""
