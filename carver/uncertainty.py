"""How far a prediction is to be trusted: where its constants come from, and a band that says how far off it may be.

The band is the predicted time times exp(low) .. exp(high), made to hold the middle 80 % of measured times. On the
device that a kernel's constants were fitted on, low and high are quantiles of errors on problems held out of the
fit, which the kernel's `[fitted]` table states; elsewhere they are widened by what moving to another device was seen
to add. `carver evaluate` prints the share of measured times that fell inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from .arch import match
from .descriptor import Arch
from .kernel import Kernel
from .types import FloatArray

COVERAGE = 0.8
"""Share of measured times that a band is made to hold."""
NEAR = 1.5
"""Bands are for candidates that are shown: those predicted within this factor of the best."""

Kind = Literal["this device", "same kind", "family", "other device", "priors"]
WIDENED: dict[Kind, float] = {
    "this device": 0.0, "same kind": 0.0, "family": 0.15, "other device": 0.3, "priors": 0.55
}  # fmt: skip
"""Added to both sides of a band, in logarithms, for constants from elsewhere.

Other device: constants of Triton fitted on an H200 and used on an A100; priors: kernels of four GPUs that nobody
fitted. The family lies between by assumption: no table of a second sm_90 GPU was at hand."""
UNKNOWN = (-0.1, 0.15)
"""The band of a fitted kernel whose table does not state its own: the median of those that do."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Where a kernel's constants on a device come from. `low` and `high` are in logarithms of measured / predicted."""

    kind: Kind
    text: str
    low: float
    high: float

    def band_ms(self, predicted_ms: float) -> tuple[float, float]:
        return predicted_ms * float(np.exp(self.low)), predicted_ms * float(np.exp(self.high))


@lru_cache(maxsize=512)
def trust(kernel: Kernel, arch: Arch) -> Trust:
    """What is known of the constants that `kernel` is priced with on `arch`."""
    name, here = f"{kernel.operator}/{kernel.name}", dict(arch.fitted)
    low, high = arch.fitted_constants("error_low").get(name), arch.fitted_constants("error_high").get(name)
    if low is not None and high is not None:
        return _made("this device", f"calibrated for this kernel on this device, {here['date']}", low, high)
    said = kernel.fitted
    if "device" not in said:
        text = "calibrated on this device, but not for this kernel" if here else "priors; nobody measured this kernel"
        return _made("priors", text, 0.0, 0.0)
    low, high = float(said.get("error_low", UNKNOWN[0])), float(said.get("error_high", UNKNOWN[1]))
    there = match(said["device"])
    if there is not None and there.name == arch.name:
        return _made("same kind", f"fitted on {said['device']}, {said['date']}", low, high)
    if there is not None and (there.vendor, there.isa) == (arch.vendor, arch.isa):
        return _made("family", f"fitted on {said['device']}, of the same family ({arch.isa})", low, high)
    return _made("other device", f"fitted on {said['device']}, another kind of device", low, high)


def _made(kind: Kind, text: str, low: float, high: float) -> Trust:
    return Trust(kind, text, low - WIDENED[kind], high + WIDENED[kind])


def share_within(errors: FloatArray, band: tuple[float, float]) -> float:
    """Share of log errors inside a band; NaN of none."""
    return float(np.mean((errors >= band[0]) & (errors <= band[1]))) if len(errors) else float("nan")
