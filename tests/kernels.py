"""C and CUDA kernels that misbehave, one a way, and what to measure them with."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import numpy.typing as npt

from carver.problem.problem import Problem
from carver.run.bench import Candidate
from carver.run.buffers import Buffer, encode
from carver.run.device import Device
from carver.run.render import CPU_FLAGS, CUDA_FLAGS, Call, Program, Source, TensorSpec

CPU = {
    "ok": "for (int64_t i = 0; i < n; i++) Y[i] = X[i];",
    "slower": "for (int k = 0; k < 9; k++) for (int64_t i = 0; i < n; i++) ((volatile float *)Y)[i] = X[i];",
    "wrong_result": "for (int64_t i = 0; i < n; i++) Y[i] = i == n - 1 ? X[i] + 1e-3f : X[i];",
    "unwritten": "for (int64_t i = 0; i < n - 1; i++) Y[i] = X[i];",
    "crash": "for (int64_t i = 0; i < n; i++) Y[i] = X[i]; *(volatile int *)8 = 1;",
    "abort": "abort();",
    "hang": "for (volatile int64_t i = 0;; i++) Y[0] = X[0];",
    "compile_error": "#error no such thing",
    "accumulate": "for (int64_t i = 0; i < n; i++) Y[i] += X[i];",
    "scribble": "for (int64_t i = 0; i < n; i++) { Y[i] = X[i]; ((float *)X)[i] = 0; }",
    "killed": "raise(SIGKILL);",
    "beyond": "for (int64_t i = 0; i <= n; i++) Y[i] = i < n ? X[i] : 0;",
    "before": "for (int64_t i = 0; i < n; i++) Y[i] = X[i]; ((volatile char *)X)[-1] = 1;",
    "once": "static int calls; for (int64_t i = 0; i < n; i++) Y[i] = calls ? 0 : X[i]; calls++;",
    "leaves": "_exit(70);",
    "raises 35": "raise(35);",
    "forges": "for (int fd = 1; fd < 32; fd++) (void)!write(fd, \"{}\\n\", 3);",
    "alarm": "for (int64_t i = 0; i < n; i++) Y[i] = X[i]; ualarm(1, 0);",
    "greedy limit": "for (int64_t i = 0; i < n; i++) Y[i] = X[i];"
        "struct rlimit none = {0, 0}; setrlimit(RLIMIT_NOFILE, &none); setrlimit(RLIMIT_AS, &none);",
    "stubborn": "signal(SIGTERM, SIG_IGN); signal(SIGINT, SIG_IGN); for (volatile int64_t i = 0;; i++) Y[0] = X[0];",
    "stale": "static float *kept; if (kept) *kept = 7; kept = (float *)X;"
        "for (int64_t i = 0; i < n; i++) Y[i] = X[i];",
    "slow": "usleep(20000); for (int64_t i = 0; i < n; i++) Y[i] = X[i];",
}
"""Bodies of `void run(const float *X, float *Y, char *workspace, int64_t n)`, which should copy X to Y."""

CUDA = {
    "ok": "if (i < n) Y[i] = X[i];",
    "wrong_result": "if (i < n) Y[i] = i == n - 1 ? X[i] + 1e-3f : X[i];",
    "unwritten": "if (i < n - 1) Y[i] = X[i];",
    "crash": "if (i < n) Y[i] = X[i]; if (i == 0) *(volatile int *)8 = 1;",
    "hang": "for (;;) ((volatile float *)Y)[0] = X[0];",
    "compile_error": "#error no such thing",
    "trap": "if (i == 0) __trap();",
    "beyond": "if (i < n) Y[i] = X[i]; if (i == 0) Y[n] = 0;",
    "scribble": "if (i < n) { Y[i] = X[i]; ((float *)X)[i] = 0; }",
    "stale": "if (i < n) Y[i] = X[i]; if (i == 0) { if (kept) *kept = 7; kept = (float *)X; }",
    "slow": "if (i == 0) for (long long t = clock64(); clock64() - t < 40000000;) {} if (i < n) Y[i] = X[i];",
}
"""Bodies of a kernel with the same parameters and the index i."""

_C_FILE = """#include <omp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
void run(const float *X, float *Y, char *workspace, int64_t n) {{
    omp_set_dynamic(NUDGE < 0);
    {body}
}}
"""
_CUDA_FILE = """__device__ float *kept;
extern "C" __global__ void run(const float *X, float *Y, char *workspace, long long n) {{
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    {body}
}}
"""


def upload(device: Device, values: npt.ArrayLike, dtype: str) -> Buffer:
    """The values, rounded to the dtype, in new memory."""
    stored = encode(values, dtype)
    buffer = device.empty(stored.shape, dtype)
    device.write(buffer, stored)
    return buffer


def problem(n: int = 1000) -> Problem:
    return Problem("elementwise", "Y[r,c] = X0[r,c]", {"r": 1, "c": n}, {"X0": "float32", "Y": "float32"})


def candidate(
    folder: Path, name: str, nudge: int = 0, *, n: int = 1000, workspace_bytes: int = 0, isa: str = "native"
) -> Candidate:
    """A kernel of the tables above as a candidate; `nudge` makes several of the same one."""
    cuda = isa != "native"
    body = (CUDA if cuda else CPU)[name]
    path = folder / f"{name}.{'cu' if cuda else 'c'}"
    text = (_CUDA_FILE if cuda else _C_FILE).format(body=f"\n{body}\n")
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    source = Source(path, MappingProxyType({"NUDGE": str(nudge)}), CUDA_FLAGS if cuda else CPU_FLAGS, ("run",), isa)
    p = problem(n)
    call = Call("run", ((n + 255) // 256 if cuda else 1, 1, 1), 256 if cuda else 1, 0, ("X0", "Y", "workspace", n))
    tensors = [TensorSpec(t, (1, n), "float32", 4) for t in ("X0", "Y")]
    program = Program(source, (call,), workspace_bytes, (tensors[0],), tensors[1])
    config = {"nudge": nudge, "workspace_bytes": workspace_bytes}
    return Candidate(p, name, "cuda" if cuda else "cpu", config, program)
