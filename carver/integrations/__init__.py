"""Other tools' kernels as machine code, and callbacks in their tuners.

`kernels` has `rank_kernel`, `inspect` and `search`, which find the file of a kernel's language by `binary` in it.
`enable` has what a process's tuners rank before they time, by `patch` in the file of each tool.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import CarverError, CompileError, ConfigError
from ..compiled.binary import given


def capability(arch: Arch, what: str) -> tuple[int, int]:
    """The compute capability of a device. Raises ConfigError where it is not NVIDIA's, for which alone `what` is."""
    if not arch.cc:
        raise ConfigError(f"{what} are compiled for NVIDIA's GPUs here, not for {arch.title}")
    return arch.cc


@contextmanager
def compiling() -> Iterator[None]:
    """Whatever a language's compiler, or the kernel's author, raises in this block is one configuration's answer: a
    CompileError with the line that names an error, else the first. Errors of carver pass, and OSError and MemoryError:
    the machine lacked something, which says nothing of the configuration."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError | MemoryError | CarverError) and not isinstance(error, TimeoutError):
            raise
        said = re.sub(r"\x1b\[[\d;]*m", "", str(error)).strip()
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        line = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
        raise CompileError(f"{type(error).__name__}: {line[:300]}", said) from error


def in_order(function: Callable[..., Any], args: Any, more: Mapping[str, Any] | None = None) -> list[Any]:
    """Arguments in the order of a function's parameters, given so or by name, and `more` by name. Tensors of any
    library are ours then. Raises ConfigError for one that lacks."""
    parameters = inspect.signature(function).parameters
    named: dict[str, Any] = dict(args if isinstance(args, Mapping) else zip(parameters, args, strict=False))
    named |= more or {}
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    if missing := [name for name in parameters if name not in named and name not in defaults]:
        raise ConfigError(f"{getattr(function, '__name__', 'the kernel')} needs {missing[0]!r}: give it in args")
    values = (named.get(name, defaults.get(name)) for name in parameters)
    return [value if isinstance(value, np.generic) else given(value) for value in values]
