"""What tests of everyday kernels in CUDA and HIP share: facts of a kernel from its binary, and bytes that it moves."""

from __future__ import annotations

from typing import Any

import numpy as np

import carver
from carver.arch.descriptor import Arch
from carver.base.errors import DeviceError
from carver.compiled.binary import Binary
from carver.compiled.execution.facts import execution
from carver.compiled.facts import Facts
from carver.compiled.isa.sass import tool
from carver.run.compile import hip_compiler


def disassembles() -> bool:
    """Whether there is a tool that reads NVIDIA's machine code."""
    try:
        return tool().is_file()
    except DeviceError:
        return False


def clang() -> bool:
    """Whether there is one that compiles HIP."""
    try:
        return hip_compiler().path.is_file()
    except DeviceError:
        return False


def ints(*shape: int) -> carver.Tensor:
    return carver.Tensor("int32", shape)


def halves(*shape: int) -> carver.Tensor:
    return carver.Tensor("float16", shape)


def facts_of(
    code: Any, arch: Arch, entry: str, grid: Any, block: Any, args: Any, shared_bytes: int = 0, values: Any = None
) -> Facts:
    """Of a kernel of which every instruction is known. `args`: in the order of its parameters, by any names or none."""
    names = tuple(args) if isinstance(args, dict) else ()
    given = tuple(args.values() if names else args)
    dims = [tuple((*np.atleast_1d(each).tolist(), 1, 1))[:3] for each in (grid, block)]
    of = execution(Binary(code, entry, given, *dims, shared_bytes, names=names), arch, values)  # type: ignore[arg-type]
    assert not of.detail.unknown
    return of.facts()


def moved(of: Facts) -> dict[str, float]:
    """Bytes of the grid by kind and argument, with its first letter: l0 are loads of argument 0."""
    found: dict[str, float] = {}
    for access in of.accesses:
        key = access.kind[0] + access.argument.removeprefix("arg")
        found[key] = found.get(key, 0.0) + access.program_bytes * of.programs
    return {key: bytes_ for key, bytes_ in found.items() if bytes_}
