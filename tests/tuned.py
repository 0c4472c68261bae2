"""Kernels that the tuner's tests tune: C source, Python code, and what misbehaves. Importable by other processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

import carver

SCALE = """
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
void scale(const float *X, float *Y, int n) {
#if WAYS == 1
    for (int i = 0; i < n; i++) Y[i] = FACTOR * X[i];
#elif WAYS == 2
    usleep(DELAY);
    for (int i = 0; i < n; i++) Y[i] = FACTOR * X[i];
#elif WAYS == 3
    for (int i = 0; i < n; i++) Y[i] = FACTOR * X[i] + (i == 0);
    for (int i = 0; i < n / 2; i++) Y[i] = 0;
#elif WAYS == 4
    for (volatile int64_t i = 0;; i++) Y[0] = X[0];
#elif WAYS == 5
    *(volatile int *)8 = 1;
#else
#error no such way
#endif
}
"""
"""Ways: 1 is right and fast, 2 right and slow, 3 wrong, 4 hangs, 5 crashes, anything else does not compile."""

QUICK: dict[str, Any] = {"warmup": 1, "rep": 5, "timeout": 8.0, "warm_cache": True, "rtol": 1e-3,
                         "retakes": 0}  # fmt: skip

HANGS_S = 60.0
"""What hangs goes on for so long, and then is right."""


def twice(x: Any) -> Any:
    return 2 * np.asarray(x)


@carver.jit(out_idx=[-1])
def scale(n: int, ways: int = 1, delay: int = 3000, factor: int = 2) -> carver.Kernel:
    """Y = factor X in C."""
    return carver.Kernel(
        source=SCALE, entry="scale", defines={"WAYS": ways, "DELAY": delay, "FACTOR": factor}, scalars=[n],
        params=[("X", (n,), "float32"), ("Y", (n,), "float32")],
    )  # fmt: skip


def sleeper(n: int, pause_ms: float = 1.0) -> Any:
    """A callable of arrays whose time is its tunable."""

    def run(x: Any) -> Any:
        time.sleep(pause_ms * 1e-3)
        return 2 * x

    return run


def awaiting(n: int, awaits: str = "") -> Any:
    """A callable of arrays that hangs until the file that it awaits is there."""

    def run(x: Any) -> Any:
        if awaits and not Path(awaits).exists():
            time.sleep(HANGS_S)
        return 2 * x

    return run


def direct(x: Any, y: Any, *, pause_ms: float) -> None:
    """Does the work itself, in place."""
    time.sleep(pause_ms * 1e-3)
    y[:] = 2 * x


def trouble(kind: str) -> Any:
    """Python code that fails in the way that is asked for."""

    def run(x: Any) -> Any:
        match kind:
            case "raise":
                raise ZeroDivisionError("of course")
            case "hang":
                time.sleep(HANGS_S)
            case "exit":
                os._exit(3)
            case "kill":
                signal.raise_signal(signal.SIGSEGV)  # to this thread: it is gone before it can answer
            case "memory":
                raise MemoryError("too big")
            case "refuse":
                raise carver.CarverError("never")
            case "wrong":
                return 3 * x
        return 2 * x

    return run


def accumulate(x: Any, y: Any, *, pause_ms: float) -> None:
    """Adds to what it finds in y."""
    time.sleep(pause_ms * 1e-3)
    y += x


def logging_hook(arguments: dict[str, Any]) -> None:
    """Writes down what it was called with."""
    with Path(os.environ["HOOK_LOG"]).open("a") as file:
        file.write(f"{sorted(arguments)} {arguments['config']}\n")


def fixed_bench(run: Any) -> float:
    """A clock of one's own. [ms]"""
    run()
    return 7.0


def lazy(x: Any, y: Any, *, works: bool) -> None:
    """Writes its output, or nothing at all."""
    if works:
        y[:] = 2 * x


def scribble(over_inputs: bool) -> Any:
    """Right, but it may leave the inputs in ruins."""

    def run(x: Any) -> Any:
        out = 2 * x
        if over_inputs:
            x[:] = 0
        return out

    return run


def axpy(x: Any, alpha: float, y: Any, *, pause_ms: float) -> None:
    """y += alpha x, with a number between the arrays."""
    time.sleep(pause_ms * 1e-3)
    y += alpha * x


def broken_hook(arguments: dict[str, Any]) -> None:
    if arguments["config"]["pause_ms"] > 0.5:
        raise ValueError("the hook does not like it")


def broken_bench(run: Any) -> Any:
    """A clock that stands still for what takes long."""
    began = time.perf_counter()
    run()
    ms = 1e3 * (time.perf_counter() - began)
    return [ms] if ms < 20 else [float("nan")]


def marked(what: str, arguments: dict[str, Any]) -> None:
    with Path(os.environ["HOOK_LOG"]).open("a") as file:
        file.write(f"{what} {arguments['config']['pause_ms']} {arguments['pause_ms']} {float(arguments['y'][0]):g}\n")


def before_all(arguments: dict[str, Any]) -> None:
    marked("before all", arguments)


def after_all(arguments: dict[str, Any]) -> None:
    marked("after all", arguments)


def zeroing(arguments: dict[str, Any]) -> None:
    """Of one config alone: what it adds to is empty first."""
    arguments["y"][...] = 0
    marked("before one", arguments)


def after_one(arguments: dict[str, Any]) -> None:
    marked("after one", arguments)


def loud(x: Any, y: Any, *, passes: int) -> None:
    """Writes down when it ran, as `HOOK_LOG` says where."""
    began = time.monotonic()
    for _ in range(passes):
        np.multiply(x, 2, out=y)
    with Path(os.environ["HOOK_LOG"]).open("a") as file:
        file.write(f"{began} {time.monotonic()}\n")
