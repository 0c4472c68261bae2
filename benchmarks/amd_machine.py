"""AMD's machine code executed, beside what else carver knows of the same kernels. No GPU.

    python benchmarks/amd_machine.py triton [--arch mi300x,rx_7900_xtx] [--only NAME,...] [--configs N]
    python benchmarks/amd_machine.py hip [--arch mi210,mi300x,rx_7900_xtx]

`triton`: kernels of the zoos, each by its IR and assembly, and by executing the assembly alone. Prints, for each,
passes of the innermost loop, bytes that a mean block asks for, bytes of DRAM and predicted times, and the ratio of the
times. `hip`: sources of `kernels/tunable.hip` with the tunables of the declared convolution and dedispersion, ranked
with no declaration, beside the declarations' order (Spearman's rank correlation, and the place of the source's first
pick in the declared order).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import carver  # noqa: E402
from carver.arch.descriptor import Arch  # noqa: E402
from carver.base.errors import CarverError  # noqa: E402
from carver.compiled.facts import Facts  # noqa: E402
from carver.cost.models.compiled import price_compiled  # noqa: E402
from carver.integrations.gluon import binary  # noqa: E402
from carver.integrations.kernels import evaluated  # noqa: E402
from carver.run.spec import Kernel  # noqa: E402

TRITON = (
    "matmul_persistent", "matmul_split_k", "gated_matmul", "batched_gemm", "matmul_gelu_residual", "causal_attention",
    "window_attention", "layer_norm", "rms_norm_residual", "softmax_long", "cross_entropy", "gated_scan",
    "linear_attention", "transpose_pad", "stencil_box", "column_sum",
)  # fmt: skip


def milliseconds(facts: Facts, arch: Arch) -> float:
    return float(price_compiled([facts], arch)[1].seconds[0]) * 1e3


def said(facts: Facts, arch: Arch) -> tuple[float, float, float, float]:
    """Passes of the loop that runs most, bytes of a mean block, of DRAM, and the predicted time."""
    passes = max((loop.trips for loop in facts.loops), default=1.0)
    asked = facts.bytes_of("load", "store", "atomic")
    return passes, asked, facts.read_bytes + facts.written_bytes, milliseconds(facts, arch)


def triton(archs: list[Arch], only: set[str], count: int) -> None:
    import zoo

    for arch in archs:
        ratios = []
        print(f"\n{arch.title}\n{'kernel':22} {'passes':>15} {'KB of a block':>17} {'MB of DRAM':>17} "
              f"{'ms: IR':>8} {'code':>8} {'ratio':>6}  s")  # fmt: skip
        for name in only or TRITON:
            subject = zoo.BY_NAME[name]
            p = subject.problems[0]
            for config in subject.configs(p, count):
                call = {"args": subject.args(p, config), "grid": subject.grid(p, config)}
                plain = {**subject.constants(p), **config}
                begun = time.process_time()
                try:
                    ours = evaluated(binary(subject.kernel, plain, block=None, arch=arch, **call), arch,
                                     subject.values(p))  # fmt: skip
                    took = time.process_time() - begun
                    theirs = carver.inspect(subject.kernel, config=config, constants=subject.constants(p), arch=arch,
                                            values=subject.values(p), **call)  # fmt: skip
                except CarverError as error:
                    print(f"{name:22} {str(error).splitlines()[0][:90]}", flush=True)
                    continue
                assert isinstance(theirs, Facts)
                a, b = said(theirs, arch), said(ours, arch)
                ratios.append(b[3] / a[3])
                notes = "".join(" !" + note[:60] for note in ours.notes if "not known" in note)
                print(f"{name:22} {a[0]:7.5g} {b[0]:7.5g} {a[1] / 1e3:8.6g} {b[1] / 1e3:8.6g} {a[2] / 1e6:8.5g} "
                      f"{b[2] / 1e6:8.5g} {a[3]:8.4g} {b[3]:8.4g} {ratios[-1]:6.3f}  {took:.1f}{notes}", flush=True)
        if ratios:
            near = sum(0.9 <= ratio <= 1.1 for ratio in ratios)
            print(f"ratio of times: median {statistics.median(ratios):.3f}; within 10 %: {near} of {len(ratios)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["triton", "hip"])
    parser.add_argument("--arch", default="mi300x,rx_7900_xtx")
    parser.add_argument("--only", default="")
    parser.add_argument("--configs", type=int, default=2)
    options = parser.parse_args()
    archs = [carver.load_arch(name) for name in options.arch.split(",")]
    if options.what == "triton":
        triton(archs, set(filter(None, options.only.split(","))), options.configs)
    else:
        hip(archs)


if __name__ == "__main__":
    main()
