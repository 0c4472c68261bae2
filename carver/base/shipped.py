"""Find the data folders that ship with carver.

In a checkout `arch/` and `templates/` stand beside the package. In a wheel they stand inside
it, as `carver/_arch/` and `carver/_templates/` (see `package_dir` in setup.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parents[1]


def folder(name: Literal["arch", "templates"]) -> Path:
    """The real directory of a shipped data folder; compilers get it as an include path."""
    installed, checkout = _PACKAGE / f"_{name}", _PACKAGE.parent / name
    for path in (installed, checkout):
        if path.is_dir():
            return path
    raise FileNotFoundError(
        f"carver's {name}/ folder is missing: looked for {installed} (wheel) and {checkout} (checkout)"
    )
