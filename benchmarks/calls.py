"""What a call of a tuned kernel costs the thread that calls, beside the driver's launch of an empty kernel.

    python benchmarks/calls.py [--device auto] [--rounds 200] [--json]

Printed are medians over rounds of 100 calls of each way, what that is over the first, and the least. The kernels have
three arrays of floats, and a device may be cpu, cuda or cuda:1.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from carver import autotune
from carver.base.errors import DeviceError
from carver.base.table import Column, drawn, screen_width
from carver.base.types import Record
from carver.run import cuda
from carver.run.built import jit
from carver.run.check import namespace
from carver.run.device import Device, open_device
from carver.run.render import CPU_FLAGS, CUDA_FLAGS, Call, Program, Source, TensorSpec
from carver.run.spec import Kernel, isa

_CALLS = 100
"""Between two waits for the device: fewer than its queue takes, so that nothing else waits."""
_SIZE = 1024
_EMPTY = "{global_}void empty(void) {{}}\n{global_}void add(const float *A, const float *B, float *C, int n) {{}}\n"


class Cost(Record):
    """Of one way to call: the median over rounds, and the least and most. [us]"""

    what: str
    median_us: float
    least_us: float
    most_us: float


def costs(device: str = "auto", rounds: int = 200) -> tuple[str, list[Cost]]:
    """The device, and what each way to launch an empty kernel takes this thread, the device's own time left out.

    The first is the driver's launch of a kernel without arguments, the last a call of a tuned function with three
    arrays: key, lookup and launch. Each round calls every one of them `_CALLS` times.
    """
    opened = open_device(device)
    ways = _ways(opened)
    for call in ways.values():
        call()
    found: dict[str, list[float]] = {what: [] for what in ways}
    for _ in range(rounds):
        for what, call in ways.items():
            opened.synchronize()
            began = time.perf_counter_ns()
            for _ in range(_CALLS):
                call()
            found[what].append((time.perf_counter_ns() - began) * 1e-3 / _CALLS)
    opened.synchronize()
    return opened.name, [Cost(what, statistics.median(x), min(x), max(x)) for what, x in found.items()]


def _ways(opened: Device) -> Mapping[str, Callable[[], Any]]:
    gpu = opened.kind == "cuda"
    text = _EMPTY.format(global_='extern "C" __global__ ' if gpu else "")
    params = [(name, (_SIZE,), "float32") for name in "ABC"]

    def sized(n: int, ways: int) -> Kernel:
        return Kernel(text, "add", defines={"WAYS": ways}, scalars=[n], params=params)

    def eager(a: Any, b: Any, c: Any, ways: int) -> Kernel:
        return Kernel(text, "add", defines={"WAYS": ways}, scalars=[a.shape[0]])

    of_sizes, of_arrays = (autotune(configs=[{"ways": 1}])(jit(fn)) for fn in (sized, eager))
    a, b, c = arrays(opened)
    kernel = of_sizes(_SIZE)
    return {
        "the driver's launch, no arguments": _driver(opened, text),
        "kernel(a, b, c)": lambda: kernel(a, b, c),
        "tuned(n)(a, b, c)": lambda: of_sizes(_SIZE)(a, b, c),
        "tuned(a, b, c)": lambda: of_arrays(a, b, c),
    }


def arrays(opened: Device) -> list[Any]:
    """Three arrays of floats: torch's on a GPU where that is installed, PyCUDA's where not, NumPy's on a CPU."""
    if opened.kind == "cpu":
        return [np.zeros(_SIZE, np.float32) for _ in range(3)]
    if (xp := namespace("cuda")).__name__ == "torch":
        return [xp.zeros(_SIZE, dtype=xp.float32, device="cuda") for _ in range(3)]
    from pycuda import gpuarray

    return [gpuarray.zeros(_SIZE, np.float32) for _ in range(3)]


def _driver(opened: Device, text: str) -> Callable[[], Any]:
    """An empty kernel's launch with nothing between: `cuLaunchKernel`, or the C function, with all its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("empty.cu" if opened.kind == "cuda" else "empty.c")
        path.write_text(text, encoding="utf-8")
        flags = CUDA_FLAGS if opened.kind == "cuda" else CPU_FLAGS
        source = Source(path, {}, flags, ("empty",), isa(opened.kind, opened.arch))
        binary = opened.compile(source)
    if opened.kind == "cuda":
        program = Program(source, (Call("empty", (1, 1, 1), 1, 0, ()),), 0, (), TensorSpec("C", (1,), "float32", 1))
        ((function, extents, _),) = cuda._functions(binary, program, 0)
        return partial(cuda._library().cuLaunchKernel, function, *extents, ctypes.c_void_p(), None, None)
    try:
        function: Callable[[], Any] = ctypes.CDLL(str(binary.checked())).empty
    except OSError as e:
        raise DeviceError(f"{binary.path} does not load: {e}") from None
    return function


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    name, found = costs(args.device, args.rounds)
    least = found[0].median_us
    if args.json:
        calls = [{**asdict(cost), "over_us": cost.median_us - least} for cost in found]
        print(json.dumps({"device": name, "rounds": args.rounds, "calls": calls}, indent=1))
        return
    columns = [
        Column("call", tuple(cost.what for cost in found), is_text=True),
        Column("us", tuple(f"{cost.median_us:.2f}" for cost in found)),
        Column("over the first", tuple(f"{cost.median_us - least:+.2f}" for cost in found)),
        Column("least", tuple(f"{cost.least_us:.2f}" for cost in found)),
    ]
    print(f"{name}, medians of {args.rounds} rounds of {_CALLS} calls\n{drawn(columns, screen_width())}")


if __name__ == "__main__":
    main()
