"""Which clock times a GPU: events around each run, the same in a CUDA graph, or the time stamps of the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

from ..base.errors import ConfigError, DeviceError, RunError, nearest

TIMERS = ("events", "graph", "cupti")
BUFFER_BYTES = 1 << 23
"""That CUPTI writes into at a time."""


def check_timer(timer: str, kind: str = "cuda") -> str:
    """`timer`, for a device of this kind. Raises ConfigError for one that it has not, DeviceError for one of a package
    that is not installed."""
    if timer not in TIMERS:
        raise ConfigError(f"no timer {timer!r}; {nearest(str(timer), TIMERS)}")
    if timer != "events" and kind != "cuda":
        raise ConfigError(f"timer={timer!r} is of NVIDIA GPUs; a device of the kind {kind!r} has one: leave it out")
    if timer == "cupti" and find_spec("cupti") is None:
        raise DeviceError("timer='cupti' needs NVIDIA's package, which is not here: pip install cupti-python")
    return timer


@contextmanager
def stamped() -> Iterator[list[tuple[int, int]]]:
    """Start and end [ns] of each kernel that runs inside, once it is left. What is launched must have ended by then."""
    from cupti import cupti

    found: list[tuple[int, int]] = []
    kind = cupti.ActivityKind.CONCURRENT_KERNEL
    cupti.activity_register_callbacks(
        lambda: (BUFFER_BYTES, 0), lambda records: found.extend((r.start, r.end) for r in records if r.kind == kind)
    )
    cupti.activity_enable(kind)
    try:
        yield found
        cupti.activity_flush_all(0)
    finally:
        cupti.activity_disable(kind)


def by_run(stamps: Sequence[tuple[int, int]], runs: int, others: int = 0) -> list[float]:
    """Of so many runs, one after another, the time from the start of the first kernel to the end of the last. [s]

    `others`: kernels before those of each run that are not its own. Raises RunError where not all runs launch as many.
    """
    each, left = divmod(len(stamps), runs)
    if left or each <= others:
        raise RunError(f"CUPTI saw {len(stamps)} kernels of {runs} runs, not as many of each: use timer='events'")
    ordered = sorted(stamps)
    own = [ordered[at + others : at + each] for at in range(0, len(ordered), each)]
    return [(max(end for _, end in some) - some[0][0]) * 1e-9 for some in own]
