"""How long ranking the configurations of an undeclared Triton kernel takes, with empty caches and from the disk.

    python benchmarks/rank_time.py [--configs 60] [--arch h100] [--processes 2]

The kernel is `kernels/triton_zoo.py:matmul_persistent`, with tensor descriptors. Each ranking has a process of its own,
the first with empty caches. Prints seconds, and the processors' seconds of the process and the compilers that it
started: on a machine that does other work, the least that so many cores would take is the second over their number.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time

import frame

M, N, K = 4096, 8192, 4096
TILES = [(m, n, k) for m in (64, 128, 256) for n in (64, 128, 256) for k in (32, 64, 128)]


def once(count: int, arch: str, processes: int) -> None:
    from kernels import triton_zoo

    import carver

    tensors = {"a_ptr": (M, K), "b_ptr": (N, K), "c_ptr": (M, N)}
    args = {name: carver.Tensor("bfloat16", shape) for name, shape in tensors.items()} | {"M": M, "N": N, "K": K}
    configs = [
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8, "num_warps": warps, "num_stages": stages}
        for stages in (3, 4) for m, n, k in TILES for warps in (4, 8) if m * n <= 128 * 256
    ][:count]  # fmt: skip
    device = carver.load_arch(arch)
    began = time.perf_counter()
    ranking = carver.rank_kernel(
        triton_zoo.matmul_persistent, configs, args=args, grid=(device.sm_count,), arch=device, processes=processes,
        compile="all"
    )
    seconds = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps([len(configs), len(ranking), seconds, sum(u.ru_utime + u.ru_stime for u in used)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=int, default=60)
    parser.add_argument("--arch", default="h100")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        once(options.configs, options.arch, options.processes)
        return
    words = ("--configs", options.configs, "--arch", options.arch, "--processes", options.processes, "--once")
    with tempfile.TemporaryDirectory() as folder:
        for what in ("empty caches", "from the disk"):
            said = frame.child(__file__, *words, **frame.empty_caches(folder))
            asked, ranked, seconds, cpu_seconds = json.loads(said)
            print(f"{what}: {asked} configurations, {ranked} that fit and differ: {seconds:.2f} s, "
                  f"{cpu_seconds:.1f} s of processors", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
