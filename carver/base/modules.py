"""Where Python's modules lie, found without loading them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path


def files(name: str) -> Iterator[tuple[str, Path]]:
    """The files that importing a module runs, by name: those of the packages that it lies in, then its own."""
    module, *rest = name.split(".")
    if not module:
        return
    try:
        spec = find_spec(module)
    except ValueError:  # a script, and what was loaded from a file: it has none
        spec = spec_from_file_location(module, getattr(sys.modules[module], "__file__", None))
    while spec is not None:
        if spec.has_location and spec.origin:  # Python's own built-in modules are nowhere
            yield module, Path(spec.origin)
        if not rest or spec.submodule_search_locations is None:
            return
        module = f"{module}.{rest.pop(0)}"
        spec = PathFinder.find_spec(module, spec.submodule_search_locations)
