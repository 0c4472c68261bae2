"""`CARVER_TRITON=3` for a whole process: a line in gpu_carver.pth, which any install adds, imports this at each start.

Triton is not imported here: once the process itself has imported Triton's autotuner, `carver.enable_triton` is called
with the number in the variable, or pinned. With `pinned`, CARVER_PINS may name a table.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

AUTOTUNER = "triton.runtime.autotuner"


class _Enabling(Loader):
    """Loads the autotuner as it would be loaded, then ranks its lists."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        asked = os.environ.get("CARVER_TRITON", "")
        if asked != "pinned" and not re.fullmatch("0*[1-9][0-9]{0,8}", asked):
            said = f"CARVER_TRITON={asked[:80]!r} is neither a count of configurations nor 'pinned'"
            sys.stderr.write(f"carver: {said}; nothing is ranked\n")
            return
        try:
            from .integrations.autotune import enable_triton

            enable_triton(pinned=True) if asked == "pinned" else enable_triton(int(asked))
        except Exception as error:  # a program that never names carver must run as it did
            sys.stderr.write(f"carver: {type(error).__name__}: {error}; nothing is ranked\n")


class _Finder(MetaPathFinder):
    """Finds the autotuner once, by the finders after it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != AUTOTUNER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Enabling(spec.loader)
        return spec


if os.environ.get("CARVER_TRITON") and AUTOTUNER not in sys.modules:
    sys.meta_path.insert(0, _Finder())
