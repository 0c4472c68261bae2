"""How far to trust a prediction: where its constants come from, and a band of its error.

The band is the predicted time times exp(low) .. exp(high), and should hold the middle 80 % of measured times. On the
device on which a kernel's constants were fitted, low and high are quantiles of the errors on held-out problems, which
the kernel's `[fitted]` table states. Elsewhere they are widened by the error that moving to another device was seen to
add. `carver evaluate` prints the share of measured times that fell inside.
"""

from __future__ import annotations

from functools import lru_cache
from math import hypot
from typing import Literal

import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import match
from ..base.types import FloatArray, Record
from ..kernels.declaration import Kernel

COVERAGE = 0.8
"""Share of measured times that a band is meant to contain."""
NEAR = 1.5
"""Bands are fitted to candidates predicted within this factor of the best, since these are the ones shown."""

Kind = Literal[
    "this device", "same kind", "other type", "family", "other device", "other vendor", "other kernel", "priors"
]
WIDENED: dict[Kind, float] = {
    "this device": 0.0, "same kind": 0.0, "other type": 0.2, "family": 0.1, "other device": 0.45, "other vendor": 0.9,
    "other kernel": 0.45, "priors": 0.7,
}  # fmt: skip
"""Error that is added to both sides of a band, as an independent error, if constants come from elsewhere. [ln]

For other devices, other vendors and priors it is the smallest value with which bands contain `COVERAGE` of the times of
every family left out (`benchmarks/heldout.py bands`). docs/howto/calibration.md lists the families, and the one table
for which no useful width is enough."""
MARKS: dict[Kind, str] = {
    "this device": "measured on this device", "same kind": "measured on this device", "other type": "same family",
    "family": "same family", "other device": "this device not measured", "other vendor": "this device not measured",
    "other kernel": "this kernel not measured", "priors": "datasheet only",
}  # fmt: skip
"""Basis of a ranking: times of this kernel on the device or one of its kind; times on its family or with other types;
times of another kernel, or on other devices; or only the device's datasheet."""
UNSTATED = 0.35
"""One side of the band of a fitted kernel whose `[fitted]` table does not state that side. [ln]"""


class Trust(Record):
    """Where a kernel's constants on a device come from, a mark first (`MARKS`).

    `low` and `high` are in logarithms of measured / predicted.
    """

    kind: Kind
    text: str
    low: float
    high: float

    def band_ms(self, predicted_ms: float) -> tuple[float, float]:
        return predicted_ms * float(np.exp(self.low)), predicted_ms * float(np.exp(self.high))


@lru_cache(maxsize=512)
def trust(kernel: Kernel, arch: Arch, dtype: str | None = None) -> Trust:
    """What is known of the constants that `kernel` is priced with on `arch`, for operands of `dtype`.

    A device with fields that the caller replaced is one of the same family.
    """
    name, here = f"{kernel.operator}/{kernel.name}", dict(arch.fitted)
    low, high = arch.fitted_constants("error_low").get(name), arch.fitted_constants("error_high").get(name)
    if low is not None and high is not None:
        return _made("this device", f"calibrated for this kernel on this device, {here['date']}", low, high)
    said = kernel.fitted
    if "device" not in said:
        text = "rates calibrated, this kernel not" if here else "nobody measured this kernel"
        return _made("priors", text, 0.0, 0.0)
    low, high = float(said.get("error_low", -UNSTATED)), float(said.get("error_high", UNSTATED))
    there = [found for name in said["device"].split(", ") if (found := match(name.partition(" (")[0]))]
    far = all(found.vendor != arch.vendor for found in there)
    if kernel.constants_of:
        text = f"constants of {kernel.constants_of}, fitted on {said['device']}"
        return _made("other vendor" if far else "other kernel", text, low, high)
    if any(found.name == arch.name for found in there) and not arch.replaced:
        if dtype and dtype not in said.get("dtypes", (dtype,)):
            return _made("other type", f"fitted on {said['device']}, but not with {dtype}", low, high)
        return _made("same kind", f"{said['device']}, {said['date']}", low, high)
    if any((found.vendor, found.isa) == (arch.vendor, arch.isa) for found in there):
        return _made("family", f"fitted on {said['device']}, also {arch.isa}", low, high)
    return _made("other vendor" if far else "other device", f"fitted on {said['device']}", low, high)


def _made(kind: Kind, text: str, low: float, high: float) -> Trust:
    low, high = widened((low, high), WIDENED[kind])
    return Trust(kind, f"{MARKS[kind]}: {text}", low, high)


def widened(band: tuple[float, float], more: float) -> tuple[float, float]:
    """Widen both sides of a band by an independent error of `more`, counted from the error in the band nearest to 0."""
    low, high = band
    middle = min(max(0.0, low), high)
    return middle - hypot(middle - low, more), middle + hypot(high - middle, more)


def share_within(errors: FloatArray, band: tuple[float, float]) -> float:
    """Share of log errors inside a band; NaN if there are no errors."""
    return float(np.mean((errors >= band[0]) & (errors <= band[1]))) if len(errors) else float("nan")
