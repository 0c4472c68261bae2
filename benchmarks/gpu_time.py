"""Times by CUDA's events, for the scripts beside it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch


def median_ms(run: Callable[[], Any], flush: torch.Tensor, runs: int, *, clean: bool = False) -> float:
    """Of so many runs, L2 overwritten with `flush` before each; nothing waits between them.

    What overwrites L2 stays there until the run evicts it, which writes it to memory. `clean`: it is written before.
    """
    events = _events(runs)
    for start, end in events:
        flush.zero_()
        if clean:
            flush.view(torch.int64).sum()
        start.record()
        run()
        end.record()
    return _median_ms(events)


def in_turns_ms(runs: Sequence[Callable[[], Any]], flush: torch.Tensor, rounds: int) -> float:
    """Of `runs`, which do the same on data of their own, one after the other and `rounds` times; the first round is not
    counted. Together their data exceeds L2: each finds there what its like left."""
    events = _events(rounds * len(runs))
    for _ in events:  # what keeps the GPU busy while all of this is queued
        flush.zero_()
    for index, (start, end) in enumerate(events):
        start.record()
        runs[index % len(runs)]()
        end.record()
    return _median_ms(events[len(runs) :])


def _events(runs: int) -> list[list[torch.cuda.Event]]:
    return [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]


def _median_ms(events: Sequence[Sequence[torch.cuda.Event]]) -> float:
    torch.cuda.synchronize()
    return float(statistics.median(start.elapsed_time(end) for start, end in events))
