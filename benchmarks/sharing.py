"""What an SM gets of L2 while others read the same lines: neighbours, in the order that blocks are handed out, or not.

    python benchmarks/sharing.py --out sharing.json [--device cuda]

One block of 1024 threads an SM walks a quarter of L2, again and again; groups of 1, 2, 4, ... blocks read the same,
next to each other, and pairs of blocks 1, 2, 4, ... apart. Writes and prints the bytes that an SM gets in a clock.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from carver.calibrate.cuda import Gpu
from carver.run.device import open_device

PASSES = 256


def ways(sms: int) -> Iterator[tuple[int, int]]:
    """(blocks that share, how far they are apart)"""
    powers = [1 << i for i in range(sms.bit_length())]
    yield from ((n, 1) for n in powers if n <= sms)
    yield from ((2, n) for n in powers if 1 < n <= sms // 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    gpu = Gpu(open_device(args.device))
    (clock,) = gpu.clock()  # leaves the SMs at their highest clock, and says which that is
    arch, source = gpu.arch, gpu.source("stream")
    size = arch.l2_bytes // 4 & -(1 << 16)
    data = gpu.device.empty((size,), "int8")
    gpu.device.fill(data, 1)
    found = []
    for sharers, apart in ways(arch.sm_count):
        run, moved = gpu.stream(source, data, data, size, PASSES, (1, 1024), sharers, apart)
        times = gpu.bench.seconds(run)
        each = moved / arch.sm_count / clock.value
        found.append({"sharers": sharers, "apart": apart, "bytes_per_clk_per_sm": each / float(np.median(times)),
                      "seconds": times})  # fmt: skip
        print(f"{sharers:4} blocks, {apart:3} apart: {found[-1]['bytes_per_clk_per_sm']:6.1f} bytes a clock and SM")
    about = {"device": arch.title, "sm_count": arch.sm_count, "clock_hz": clock.value, "bytes": size,
             "passes": PASSES, "command": f"python {' '.join(sys.argv)}"}  # fmt: skip
    args.out.write_text(json.dumps(about | {"rows": found}, indent=0) + "\n")


if __name__ == "__main__":
    main()
