"""Check a declaration for its author: every mistake at once with its line, and what it would recommend."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..arch.descriptor import ACCUMULATES_IN, Arch
from ..arch.devices import load as load_arch
from ..base.dtypes import canonical
from ..base.errors import CarverError, NoCandidates, nearest
from ..cost.model import model_faults
from ..cost.pricing import price
from ..kernels import expr
from ..kernels.backends import BACKENDS
from ..kernels.declaration import DeclarationError, Fault, Kernel, load, read
from ..kernels.enumeration import enumerate_space
from ..kernels.scope import size_scope, static_scope
from ..problem import notation, problem
from ..problem.problem import Problem

DEVICES = ("h200_sxm", "a100_sxm_80", "rtx_4090", "t4", "mi300x", "cpu_avx512", "cpu_avx2")
"""Devices on which a declaration is tried, if its backend runs there."""
EXTENT = 512
"""Extent of an axis that is not in the operator's [example]."""


@dataclass(frozen=True)
class Trial:
    """Result of ranking a declaration's candidates for its operator's example on one device."""

    arch: Arch
    candidates: int
    config: Mapping[str, int]
    """The best configuration; empty if there is no candidate."""
    predicted_ms: float | None
    """Its time; None if there is no candidate."""
    why: str
    """If there is no candidate, how many each rule removed."""


def example(operator: str, dtype: str = "float16") -> Problem:
    """A problem of realistic size: [example] of `op.toml`, with `EXTENT` for axes that it does not give."""
    dtype = canonical(dtype)
    declared = problem.of(operator)
    statement = notation.parse(declared.computes)
    sizes = {axis: int(declared.example.get(axis, EXTENT)) for axis in statement.axes}
    options = {name: int(n) for name, n in declared.example.items() if name not in sizes}
    dtypes = {tensor.name: dtype for tensor in statement.tensors}
    return Problem(operator, str(statement), sizes, dtypes, ACCUMULATES_IN.get(dtype, "float32"), options)


def checked(path: Path, operator: str = "") -> Kernel:
    """Read and check a declaration. Raises DeclarationError with all its faults."""
    kernel, faults = read(path, operator)
    names = problem.operator_files()
    if kernel.operator in names:
        faults += [
            *model_faults(kernel), *source_faults(kernel), *unknown_names(kernel, example(kernel.operator)),
        ]  # fmt: skip
    else:
        says = f"no operator {kernel.operator!r}, which its folder is named after; {nearest(kernel.operator, names)}"
        faults.append(Fault("", "", says))
    if faults:
        raise DeclarationError(path, faults)
    return load(path, operator)


def source_faults(kernel: Kernel) -> list[Fault]:
    """Why the kernel's source, if it has one, cannot be run."""
    if kernel.source is None:
        return []
    if not kernel.source.is_file():
        return [Fault("", "source", f"there is no file {str(kernel.source)!r}")]
    return [] if kernel.launches else [Fault("", "source", "nothing says how it is launched: [[launches]] is missing")]


def unknown_names(kernel: Kernel, problem: Problem) -> list[Fault]:
    """Names in a declaration's expressions that neither it nor its operator defines."""
    static = {*static_scope(problem, load_arch(DEVICES[0]))}
    known = {*static, *size_scope(problem), *kernel.tunables, *kernel.derived}
    tensors = {tensor.name for tensor in problem.statement.tensors}
    rows = {f"ld{name.lower()}" for name in tensors}
    out: dict[Fault, None] = {}
    for table, key, formula in kernel.formulas():
        before = static if table == "requires" else known | rows if table == "launches.maps" else known
        for name in sorted(formula.names - before):
            what = "the compiler's columns need" if key == "compiler" else "there is no"
            says = f"{what} {name!r}; {nearest(name, before)}"
            if name in known:
                says = f"{name!r} is a size, a tunable or a column: a condition on one stands under [rules]"
            out[Fault(table, key, says)] = None
    passed = known | tensors | rows | {"bias", "workspace"}
    for arg in (arg for launch in kernel.launches for arg in launch.args if not arg.endswith("*")):
        for name in sorted(expr.parse(arg).names - passed):
            out[Fault("launches", "args", f"there is no {name!r}; {nearest(name, passed)}")] = None
    for name in sorted({each.tensor for launch in kernel.launches for each in launch.maps} - tensors):
        says = f"{problem.operator} has no tensor {name!r}; {nearest(name, tensors)}"
        out[Fault("launches.maps", "tensor", says)] = None
    return list(out)


def trials(kernel: Kernel, problem: Problem) -> Iterator[Trial]:
    """Try the kernel on each of DEVICES that its backend runs on."""
    for arch in map(load_arch, DEVICES):
        if BACKENDS[kernel.backend].runs_on(arch):
            yield trial(kernel, problem, arch)


def trial(kernel: Kernel, problem: Problem, arch: Arch) -> Trial:
    if unmet := kernel.unmet(static_scope(problem, arch)):
        return Trial(arch, 0, {}, None, f"it requires that {'; '.join(unmet)}")
    try:
        space = enumerate_space(problem, arch, kernel)
        seconds = price(space).seconds
    except NoCandidates as none:
        told = (f"{count} by {rule!r}" for rule, count in none.removed.items())
        return Trial(arch, 0, {}, None, f"of its candidates are left out {', '.join(told)}")
    except CarverError as error:
        return Trial(arch, 0, {}, None, str(error))
    best = int(np.argmin(seconds))
    return Trial(arch, len(space), space.config(best), float(seconds[best]) * 1e3, "")


def line_of(text: str, fault: Fault) -> int | None:
    """The line of a fault in a TOML file, from 1: that of its key, else that of its table; None for the whole file."""
    if broken := re.search(r"\(at line (\d+)", fault.says):
        return int(broken[1])
    table, header = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            table = found[1]
            if table == (fault.table or fault.key):
                header = header or number
        key: Any = re.match(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+))\s*=""", line)
        if key and table == fault.table and fault.key and next(filter(None, key.groups())) == fault.key:
            return number
    return header
