"""Time the hints of a Triton kernel as its user launches it, in this process and with the user's tensors."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..base.child import outcome_of
from ..base.errors import ConfigError, DeviceError
from ..base.table import progress_bars, words
from ..compiled.triton import function_of, without_tuner
from ..ranking.hint import Hint
from .bench import done, predicted, versions
from .buffers import is_torch
from .records import Measurement, Records
from .report import Report
from .session import digest

WARMUP_MS, ROUND_MS = 5, 20
"""Of one candidate in one round."""
ROUNDINGS, SUMS = 4.0, 1e-3
"""Results of two configurations may differ by so many roundings of the type, and by so much for the order of sums, both
relative to the largest."""


def benchmark_kernel(
    hints: Sequence[Hint], kernel: Any, args: Mapping[str, Any], grid: Any, *,
    constants: Mapping[str, Any] | None = None, rounds: int = 5, budget_s: float = 60.0, check: bool = True,
    timer: str = "events", progress: bool = True, records: Records | None = None,
) -> Report:  # fmt: skip
    """Run each hint of a ranked Triton kernel, compare its results with those of the first that ran, and time all in
    turn. `kernel`, `args`, `grid` and `constants` are those of the launch, with the tensors on the GPU.

    The tensors, of which the GPU then holds three copies, are put back before each candidate's first run and after the
    last. What does not compile, run or agree is a candidate's recorded outcome; one that leaves the GPU's context
    broken ends the others too, since they run in this process. Caches are cold with the timer "events", and with
    "graph" as the launches leave them.

    Raises ConfigError for a kernel that is not Triton's, DeviceError without a tensor on a GPU.
    """
    function_of(kernel)  # raises for what is no kernel
    given = {**args, **(constants or {})}
    tensors = {name: each for name, each in given.items() if is_torch(each) and each.is_cuda}
    if not tensors:
        raise DeviceError("a Triton kernel is timed where its tensors are, and none of args is on a GPU")
    import torch

    launch, timed = without_tuner(kernel)[grid], _timer(timer)
    device = torch.cuda.get_device_name(next(iter(tensors.values())).device)
    subject, began = hints[0].subject, time.monotonic()
    sizes = {name: n for name, n in given.items() if isinstance(n, int) and not isinstance(n, bool)}
    before = {name: each.clone() for name, each in tensors.items()}
    runs: dict[int, Callable[[], Any]] = {h.rank: lambda c=dict(h.config): launch(**given, **c) for h in hints}  # type: ignore[misc]
    known: dict[int, Measurement] = {}

    def restored() -> None:
        for name, each in before.items():
            tensors[name].copy_(each)

    with (records or Records()) as store, progress_bars(progress) as shown:
        settings = {"rounds": rounds, "budget_s": budget_s, "check": check, "timer": timer}
        run = store.begin(digest([str(subject), sizes, settings, versions("triton")]), device, settings, fresh=True)

        def take(m: Measurement) -> None:
            known[m.rank or 0] = m
            store.put(m)

        bar, expected, first = shown.bar("check", len(hints)), dict[str, Any](), hints[0]
        for hint in hints:
            m = predicted(Measurement(
                run_id=run.run_id, candidate=digest([str(subject), sizes, dict(hint.config)]), outcome="ok",
                operator=str(subject), problem={"title": str(subject), "sizes": sizes}, kernel=hint.kernel,
                backend=hint.backend, config=dict(hint.config), arch=hint.arch.name, device=device,
                host=platform.node(), versions=versions("triton"), device_info={"arch": hint.arch.name},
            ), hint)  # fmt: skip
            try:
                restored()
                runs[hint.rank]()
                torch.cuda.synchronize()
                if check and not expected:
                    expected, first = {name: each.clone() for name, each in tensors.items()}, hint
                elif check and (error := max(_error(tensors[name], each) for name, each in expected.items())) > 1.0:
                    why = f"its results are not those of {words(first.config)}"
                    m = replace(m, outcome="wrong_result", message=why, error=min(error, 1e300))
            except Exception as error:  # of Triton, the driver or the kernel's author
                m = replace(m, outcome=outcome_of(error), message=f"{type(error).__name__}: {error}")
            take(m)
            bar()
        for place in range(rounds):
            left = [rank for rank, m in known.items() if m.ok and not done(m)]
            bar = shown.bar(f"round {place + 1}", len(left))
            for rank in left[:: 1 - 2 * (place % 2)]:  # there and back: a drift of the clocks favours none
                if place and time.monotonic() - began > budget_s:
                    break
                try:
                    take(known[rank].with_round(timed(runs[rank]), {}))
                except Exception as error:
                    take(replace(known[rank], outcome=outcome_of(error), message=f"{type(error).__name__}: {error}"))
                bar()
        restored()
        store.finish(run)
    return Report(subject, [known[hint.rank] for hint in hints], device=device)


def _timer(name: str) -> Callable[[Callable[[], Any]], list[float]]:
    """What gives the times of one round of a call. [ms]"""
    from triton.testing import do_bench, do_bench_cudagraph

    if name not in ("events", "graph"):
        raise ConfigError(f"timer is 'events' or 'graph' for a kernel of yours, got {name!r}")
    if name == "graph":
        return lambda call: list(do_bench_cudagraph(call, rep=ROUND_MS, return_mode="all"))
    return lambda call: list(do_bench(call, warmup=WARMUP_MS, rep=ROUND_MS, return_mode="all"))


def _error(found: Any, expected: Any) -> float:
    """The largest difference over what it may be."""
    import torch

    if not found.is_floating_point():
        return 0.0 if torch.equal(found, expected) else float("inf")
    same = (found == expected) | (found.isnan() & expected.isnan())
    size = expected.double().abs().nan_to_num(0.0, 0.0, 0.0).max()
    apart = torch.where(same, 0.0, (found.double() - expected.double()).abs()).max()
    allowed = (ROUNDINGS * torch.finfo(found.dtype).eps + SUMS) * size
    return float(apart / allowed) if apart else 0.0
