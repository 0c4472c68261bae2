"""What this process may use of its host."""

from __future__ import annotations

import os
from pathlib import Path


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
