"""What tuning and benchmarking say, and whether they choose right, beside a process that uses the same GPU.

    python benchmarks/contention.py [--device cuda:0] [--seconds 40] [--out contention.json]

carver's matmul of 4096 in float16: its first hints, tuned (each of them, and `carver bench`) with the device alone,
then beside a process that reads from DRAM on all SMs in bursts of a second in three, then beside one that never stops.
That process takes no lease, as programs of others do not. Prints what was chosen, what that takes when the device is
alone over the least that any takes then, how many timings were taken again, and the notes; stops after --seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import carver
from carver.run.bench import benchmark

HINTS = 6
BURSTS = {"alone": None, "bursts of 1 s in 3": (1.0, 2.0), "without a pause": (1.0, 0.0)}
"""Seconds that the other process works, and rests."""


def disturb(device: str, works_s: float, rests_s: float, for_s: float) -> None:
    """Use the device; a line on stdout when it begins."""
    if device == "cpu":
        import numpy as np

        square = np.ones((1024, 1024))

        def work() -> None:
            square @ square
    else:
        from carver.calibrate.cuda import Gpu
        from carver.run.device import open_device

        gpu = Gpu(open_device(device))
        size = 1 << 30
        data = gpu.device.empty((size,), "int8")
        run, _ = gpu.stream(gpu.source("stream"), data, data, size, 20, (2, 1024))

        def work() -> None:
            gpu.bench.seconds(run)

    work()
    print("at work", flush=True)
    ends = time.monotonic() + for_s
    while time.monotonic() < ends:
        until = time.monotonic() + works_s
        while time.monotonic() < until:
            work()
        time.sleep(rests_s)


@contextmanager
def beside(device: str, burst: tuple[float, float] | None, for_s: float) -> Iterator[None]:
    if burst is None:
        yield
        return
    command = [sys.executable, __file__, "--device", device, "--disturb", *map(str, (*burst, for_s))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise SystemExit("the other process did not start")
            yield
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--disturb", type=float, nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.disturb:
        disturb(asked.device, *asked.disturb)
        return
    began = time.monotonic()
    os.environ["CARVER_CACHE_DIR"] = tempfile.mkdtemp(prefix="carver-contention-")
    op = carver.MatmulTemplate(M=asked.size, N=asked.size, K=asked.size).with_arch(carver.load_arch(asked.device))
    hints = list(op.recommend_hints(HINTS))
    found: dict[str, Any] = {"command": "python benchmarks/contention.py", "device": op.arch.title, "rows": []}
    quiet: dict[str, dict[str, float]] = {}
    for name, burst in BURSTS.items():
        left_s = asked.seconds - (time.monotonic() - began)
        if left_s < 5.0:
            print(f"{name}: left out, no time", flush=True)
            continue
        with beside(asked.device, burst, left_s):
            for what in ("tune", "bench"):
                since = time.monotonic()
                if what == "tune":
                    result = op.tune(topk=HINTS, search="exhaustive", warmup=5, rep=30, fresh=True, seconds=left_s / 3)
                    times = {json.dumps(dict(m.config)): m.median_ms for m in result.table if m.median_ms}
                    chosen, said = json.dumps(dict(result.config)), list(result.notes)
                else:
                    report = benchmark(hints, asked.device, budget_s=min(4.0, left_s / 4), rounds=3, check=False,
                                       fresh=True, progress=False)  # fmt: skip
                    times = {json.dumps(dict(m.config)): m.median_ms for m in report.ok if m.median_ms}
                    chosen, said = min(times, key=lambda config: times[config]), report.summary()
                alone = quiet.setdefault(what, times)
                row = {
                    "beside": name, "what": what, "chosen": json.loads(chosen), "said_ms": times[chosen],
                    "alone_ms": alone.get(chosen), "best_alone_ms": min(alone.values()), "said": said,
                    "times_ms": times, "seconds": time.monotonic() - since,
                }  # fmt: skip
                found["rows"].append(row)
                right = alone[chosen] / min(alone.values()) if chosen in alone else float("nan")
                print(f"{name:20} {what:6} {row['said_ms']:.4g} ms said, {right:.3f} of the best alone, "
                      f"{row['seconds']:.1f} s; {' | '.join(said)}", flush=True)  # fmt: skip
                if asked.out:
                    asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
