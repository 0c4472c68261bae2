"""Check that a declaration's columns and constants are those that its cost model reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ..base.errors import nearest
from ..kernels.columns import Column, Shown, by_name
from ..kernels.declaration import DeclarationError, Fault, Kernel
from . import estimate
from .constants import CONSTANTS
from .model import Model
from .models import MODELS


@lru_cache(maxsize=256)
def model_of(kernel: Kernel) -> Model:
    """The cost model that a declaration names. Raises DeclarationError where the two do not fit."""
    if faults := model_faults(kernel):
        raise DeclarationError(kernel.path, faults)
    return MODELS[kernel.model]


def columns_of(kernel: Kernel) -> Mapping[str, Column]:
    """The columns that a declaration may give, by name."""
    parts = MODELS[kernel.model].in_force({*kernel.tunables, *kernel.derived})
    return by_name((*(part.columns for part in parts), Shown))


def constants_of(kernel: Kernel) -> frozenset[str]:
    """The names of the constants on which a kernel's predicted times depend."""
    parts = MODELS[kernel.model].in_force({*kernel.tunables, *kernel.derived})
    return estimate.READS.union(*(part.constants for part in parts))


def model_faults(kernel: Kernel) -> list[Fault]:
    """Every reason why the model cannot price this kernel; empty where it can."""
    if kernel.model not in MODELS:
        return [Fault("", "model", f"unknown model {kernel.model!r}; {nearest(kernel.model, MODELS)}")]
    model, known, out = kernel.model, columns_of(kernel), []
    for name in kernel.schedule:
        if name not in known:
            near = nearest(name, known)
            says = f"model {model!r} reads no column {name!r}; {near} A helper of other expressions stands under [let]"
            out.append(Fault("schedule", name, says))
    for name in kernel.let:
        if name in known:
            says = f"{name!r} is a column that model {model!r} reads: it stands under [schedule]"
            out.append(Fault("let", name, says))
    there = {*kernel.tunables, *kernel.derived}
    if missing := [c.name for c in known.values() if c.required and not c.from_problem and c.name not in there]:
        out.append(Fault("schedule", "", f"model {model!r} also reads {', '.join(missing)}, which nothing gives"))
    read = constants_of(kernel)
    for name in kernel.constants:
        if name not in CONSTANTS:
            out.append(Fault("constants", name, f"unknown constant {name!r}; {nearest(name, CONSTANTS)}"))
        elif name not in read:
            out.append(Fault("constants", name, f"model {model!r} does not read the constant {name!r}"))
    return out
