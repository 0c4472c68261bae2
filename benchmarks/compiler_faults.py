"""Compilers and disassemblers that are killed, hang, garble or lack room, at random moments.

    python benchmarks/compiler_faults.py --runs 300 --jobs 8 --json tests/data/h100/compiler_faults.json

Each run has caches of its own. In a first process one tool fails in one way while 1, 2 or 8 threads rank a kernel; in a
second process nothing fails, with the caches that the first one left. A run counts as good where every thread of
the first process ends with a ranking or with an error of carver's, the second process ranks as one that was never
disturbed, and no process or folder of the run is left. `triton`: a function of Triton; `source`: CUDA C++ by nvcc,
read as machine code. Exits with 1 if a run was not good. No GPU is used.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
WAYS = {"triton": ("ptxas", "nvdisasm"), "source": ("nvcc", "nvdisasm")}
"""The tools that each kind of kernel needs."""
FAULTS = ("killed", "killed midway", "hung", "garbled", "silent", "full disk", "missing")
THREADS = (1, 2, 8)
VARIABLES = {
    "ptxas": "TRITON_PTXAS_PATH", "nvdisasm": "TRITON_NVDISASM_PATH", "nvcc": "CARVER_NVCC",
}  # fmt: skip
LIMIT_S = 90.0
"""Of a process of a run; what hangs is given up by carver after HUNG_S."""
HUNG_S = 12.0

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def add(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 3 + 1, mask=at < n)
"""
CUDA = """
extern "C" __global__ void add(float *x, int n) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * PER;
    for (int i = 0; i < PER; i++) if (at + i < n) x[at + i] = x[at + i] * 3.0f + 1.0f;
}
"""
PROGRAM = '''
import json, sys, threading
import numpy as np
import carver
from carver.base.errors import CarverError

way, tool, threads, hung_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
x = carver.Tensor("float32", (1 << 16,))

def rank():
    configs = [{"BLOCK": 128}, {"BLOCK": 1024}]
    if way == "triton":
        from kernel_of_faults import add
    else:
        source = carver.Kernel(open("add.cu").read(), "add", block=256)
        return [(config["PER"], carver.rank_kernel(
            source, [config], args=(x, np.int32(1 << 16)), grid=(256 // config["PER"],), block=256, arch="h100",
            seconds=hung_s,
        )[0].predicted_ms) for config in ({"PER": 1}, {"PER": 4})]
    grid = lambda c: ((1 << 16) // c["BLOCK"],)
    found = carver.rank_kernel(add, configs, args={"x": x, "n": 1 << 16}, grid=grid, arch="h100", seconds=hung_s)
    return [(hint.config["BLOCK"], hint.predicted_ms) for hint in found]

said = [None] * threads

def work(i):
    try:
        said[i] = rank()
    except CarverError as error:
        said[i] = f"{type(error).__name__}: {error}"[:300]

if __name__ == "__main__":
    each = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    [thread.start() for thread in each]
    [thread.join() for thread in each]
    print(json.dumps(said))
'''


def real(tool: str) -> str:
    """The tool itself."""
    if tool in ("ptxas", "nvdisasm"):
        import triton

        return str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / tool)
    found = os.environ.get(VARIABLES[tool]) or shutil.which(tool)
    return found or (f"/usr/local/cuda/bin/{tool}" if tool == "nvcc" else "")


def failing(tool: str, fault: str, after_s: float, folder: Path) -> Path:
    """A program in place of the tool that fails so while the file `armed` is there."""
    own = {
        "killed": "kill -9 $$", "killed midway": f'"$real" "$@" & p=$!; sleep {after_s:.2f}; kill -9 $p $$',
        "hung": "sleep 600", "garbled": "head -c 4000 /dev/urandom; exit 0", "silent": "exit 1",
        "full disk": "echo 'fatal: No space left on device' >&2; exit 1", "missing": "exit 127",
    }[fault]  # fmt: skip
    path = folder / tool
    text = f'#!/bin/sh\nreal={real(tool)}\ncase "$*" in *--version*) exec "$real" "$@";; esac\n'
    path.write_text(f'{text}if [ -e {folder}/armed ]; then {own}; fi\nexec "$real" "$@"\n')
    path.chmod(0o755)
    return path


def started(folder: Path, way: str, tool: str, threads: int, more: Mapping[str, str]) -> tuple[int, Any, str, float]:
    """Exit code, what was said, the end of stderr and seconds of one process."""
    environment = {
        **os.environ, "TRITON_CACHE_DIR": str(folder / "triton"), "CARVER_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join([str(HOME), str(folder), os.environ.get("PYTHONPATH", "")]),
        "TMPDIR": str(folder / "tmp"), **more,
    }  # fmt: skip
    began = time.perf_counter()
    command = [sys.executable, "program.py", way, tool, str(threads), str(HUNG_S)]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=LIMIT_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, None, "still running", LIMIT_S
    line = done.stdout.strip().rpartition("\n")[2]
    said = json.loads(line) if done.returncode == 0 and line.startswith("[") else None
    return done.returncode, said, done.stderr[-400:], time.perf_counter() - began


def left(folder: Path) -> list[str]:
    """Processes that name the run's folder, and what they left in its folder of temporary files."""
    found = []
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(folder).encode() in process.read_bytes():
                found.append(process.parent.name)
        except OSError:
            continue
    return found + [path.name for path in (folder / "tmp").iterdir()]


def run(number: int, expected: Mapping[str, Any]) -> dict[str, Any]:
    chance = random.Random(number)
    way = chance.choice(list(WAYS))
    tool = chance.choice(WAYS[way])
    case = {
        "run": number, "way": way, "tool": tool, "fault": chance.choice(FAULTS), "threads": chance.choice(THREADS),
        "after_s": round(chance.uniform(0.0, 0.3), 3),
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = prepared(Path(name))
        path = failing(tool, str(case["fault"]), float(str(case["after_s"])), folder)
        (folder / "armed").touch()
        code, said, err, took = started(folder, way, tool, int(str(case["threads"])), {VARIABLES[tool]: str(path)})
        (folder / "armed").unlink()
        rest = left(folder)
        again, clean, err_again, _ = started(folder, way, tool, 1, {VARIABLES[tool]: str(path)})
    ended = code == 0 and isinstance(said, list) and all(each is not None for each in said)
    same = again == 0 and clean == expected[f"{way} {tool}"]
    case |= {"s": round(took, 1), "ended": ended, "same": same, "left": rest}
    if said:
        case["refused"] = sum(isinstance(each, str) for each in said)
        case["said"] = next((each for each in said if isinstance(each, str)), "")
    if not (ended and same):
        case |= {"stderr": err, "stderr_again": err_again, "again": clean}
    return case


def prepared(folder: Path) -> Path:
    (folder / "tmp").mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "kernel_of_faults.py").write_text(KERNEL)
    (folder / "add.cu").write_text(CUDA)
    return folder


def undisturbed(way: str, tool: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        code, said, err, _ = started(prepared(Path(name)), way, tool, 1, {})
    if code or isinstance(said[0], str):
        raise SystemExit(f"{way} with {tool} does not work here: {said} {err}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    for way in set(WAYS) - set(asked.ways.split(",")):
        del WAYS[way]
    if "source" in WAYS:  # without the compilers of sources, those that are there
        WAYS["source"] = tuple(tool for tool in WAYS["source"] if tool == "nvdisasm" or real(tool))
    with ThreadPoolExecutor(asked.jobs) as pool:
        pairs = [(way, tool) for way, tools in WAYS.items() for tool in tools]
        answers = pool.map(lambda pair: undisturbed(*pair), pairs)
        expected = {" ".join(pair): said for pair, said in zip(pairs, answers, strict=True)}
        rows = []
        for row in pool.map(lambda n: run(n, expected), range(asked.seed, asked.seed + asked.runs)):
            rows.append(row)
            good = row["ended"] and row["same"] and not row["left"]
            if not good:
                print(json.dumps(row), flush=True)
            if asked.json:
                asked.json.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    bad = [row for row in rows if not (row["ended"] and row["same"] and not row["left"])]
    print(f"{len(rows)} runs, {len(bad)} not good; by tool and fault:")
    for (tool, fault), n in sorted(Counter((row["tool"], row["fault"]) for row in rows).items()):
        print(f"  {tool:9} {fault:14} {n}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
