"""Times by CUDA's events, for the scripts beside it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch


def median_ms(run: Callable[[], Any], flush: torch.Tensor, runs: int) -> float:
    """Of so many runs, L2 overwritten with `flush` before each; nothing waits between them."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for start, end in events:
        flush.zero_()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return float(statistics.median(start.elapsed_time(end) for start, end in events))
