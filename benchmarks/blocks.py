"""How long copies of floats, one or four a thread, take by blocks of 32 to 1,024 threads: GPU, CUDA driver and nvcc.

    python benchmarks/blocks.py OUT.jsonl

Medians of 11, after a buffer of 256 MB was changed. `empty` does nothing; `strided` walks the grid in one wave; in
`turned` a block turns its part over in shared memory.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import frame

HEAD = "#include <cuda_fp16.h>\n"
OWN = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
KERNELS = {
    "copied": f"(const float *x, float *y, int n) {{ {OWN} if (i < n) y[i] = 2 * x[i]; }}",
    "added": f"(const float *x, float *y, int n) {{ {OWN} if (i < n) y[i] = 2 * x[i] + y[i]; }}",
    "wide": f"(const float4 *x, float4 *y, int n) {{ {OWN} if (i < n / 4) {{ float4 v = x[i]; v.x *= 2; y[i] = v; }}}}",
    "strided": f"(const float *x, float *y, int n) {{ {OWN} int all = gridDim.x * blockDim.x;"
    " for (; i < n; i += all) y[i] = 2 * x[i]; }",
    "turned": f"(const float *x, float *y, int n) {{ __shared__ float kept[1024]; {OWN} kept[threadIdx.x] = x[i];"
    " __syncthreads(); y[i] = kept[blockDim.x - 1 - threadIdx.x]; }",
    "halves": f"(const __half *x, __half *y, int n) {{ {OWN} if (i < n) y[i] = __hmul(x[i], x[i]); }}",
    "empty": "(const float *x, float *y, int n) { if (!n) y[0] = x[0]; }",
}
THREADS = 32, 64, 128, 256, 512, 1024
"""Of a block."""


def loaded(driver: ctypes.CDLL, folder: Path, arch: str) -> dict[str, ctypes.c_void_p]:
    """Functions by name, all compiled side by side."""
    made = {}
    for name, body in KERNELS.items():
        source = folder / f"{name}.cu"
        source.write_text(f'{HEAD}extern "C" __global__ void f{body}')
        command = ["nvcc", "-cubin", "-O3", f"-arch={arch}", str(source), "-o", str(source.with_suffix(".cubin"))]
        made[name] = subprocess.Popen(command)
    functions = {}
    for name, compiler in made.items():
        assert not compiler.wait(timeout=120)
        module, functions[name] = ctypes.c_void_p(), ctypes.c_void_p()
        assert not driver.cuModuleLoad(ctypes.byref(module), str(folder / f"{name}.cubin").encode())
        assert not driver.cuModuleGetFunction(ctypes.byref(functions[name]), module, b"f")
    return functions


def launched(driver: ctypes.CDLL, function: ctypes.c_void_p, sizes: tuple[int, ...], passed: Any) -> None:
    import torch

    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    assert not driver.cuLaunchKernel(function, *sizes, stream, passed, None)


def main() -> None:
    import torch

    driver = ctypes.CDLL("libcuda.so.1")
    major, minor = torch.cuda.get_device_capability()
    changed = torch.zeros(1 << 26, dtype=torch.int32, device="cuda")
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    with tempfile.TemporaryDirectory() as folder:
        functions = loaded(driver, Path(folder), f"sm_{major}{minor}")
        for n in (1 << 20, 1 << 22, 1 << 24, 1 << 26):
            x, y = torch.randn(n, device="cuda"), torch.zeros(n, device="cuda")
            values = [ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int(n)]
            passed = (ctypes.c_void_p * 3)(*(ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in values))
            for name, function in functions.items():
                for threads in THREADS:
                    blocks = n // threads // (4 if name == "wide" else 1)
                    blocks = min(blocks, processors * 2048 // threads) if name == "strided" else blocks
                    sizes = (blocks, 1, 1, threads, 1, 1, 0)
                    run = partial(launched, driver, function, sizes, passed)
                    row = {"kernel": name, "elements": n, "threads": threads, "blocks": blocks}
                    frame.write(Path(sys.argv[1]), row | {"ms": round(frame.median_ms(run, changed, 11), 6)})


if __name__ == "__main__":
    main()
