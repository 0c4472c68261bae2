"""CPU time of a query of ten configurations, in turns with NVIDIA's nvMatmulHeuristics, on matmuls of new sizes.

    pip install --target OTHER nvidia-matmul-heuristics && PYTHONPATH=OTHER:. python benchmarks/query_beside.py
"""

from __future__ import annotations

import statistics
import sys
import time

import nvMatmulHeuristics as nv  # type: ignore[import-not-found, unused-ignore]

from carver.arch.devices import load
from carver.cli.system import matmuls

COUNT = 10


def main(rounds: int) -> None:
    arch = load("h200")
    theirs = nv.NvMatmulHeuristicsInterfaceEx(
        nv.NvMatmulHeuristicsTarget.TRITON, gpu=nv.NvMatmulHeuristicsNvidiaGpu.H200_SXM
    )
    layout = nv.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR
    took: dict[str, list[float]] = {}

    def timed(name: str, run: object, *args: object) -> object:
        start = time.thread_time()
        found = run(*args)  # type: ignore[operator]
        took.setdefault(name, []).append((time.thread_time() - start) * 1e3)
        return found

    for template in matmuls(rounds + 30, 7):
        m, n, k = (template.problem.sizes[axis] for axis in "mnk")
        op = template.with_arch(arch)
        ranking = timed("carver, the ranking", op.recommend_hints, COUNT)
        timed("carver, its hints", list, ranking)
        problem = theirs.makeNvMatmulHeuristicsProblem(m, n, k, layout)
        found = timed("nvMatmulHeuristics", theirs.get, problem, COUNT, "HSH")
        assert found, (m, n, k)
    for name, each in took.items():
        every = each[30:]
        print(f"{name:22s} median {statistics.median(every):.3f} ms, least {min(every):.3f} ms")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
