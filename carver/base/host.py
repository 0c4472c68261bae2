"""What this process may use of its host, and where carver's own data folders are.

In a checkout `arch/` and `templates/` stand beside the package. In a wheel they stand inside it, as `carver/_arch/` and
`carver/_templates/` (see `package_dir` in setup.py).
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Literal


def memory_bytes() -> int:
    """Memory of the whole host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cores_available() -> int:
    """Number of cores that this process may use: those of its affinity, or fewer where its container has a quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return min(cores, max(1, int(quota) // int(period))) if quota.isdigit() else cores


_PACKAGE = Path(__file__).resolve().parents[1]


@lru_cache(maxsize=2)
def folder(name: Literal["arch", "templates"]) -> Path:
    """The real directory of a shipped data folder; compilers get it as an include path."""
    installed, checkout = _PACKAGE / f"_{name}", _PACKAGE.parent / name
    for path in (installed, checkout):
        if path.is_dir():
            return path
    raise FileNotFoundError(
        f"carver's {name}/ folder is missing: looked for {installed} (wheel) and {checkout} (checkout)"
    )
