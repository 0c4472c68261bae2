"""Own reductions on a CPU: their sources run with threads, warps, barriers and clusters emulated (tests/emulated)."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import carver
from carver.base.folders import folder
from carver.kernels.declaration import kernel_named
from carver.kernels.space import given_space
from carver.ops.matmul import ACTIVATIONS
from carver.ops.reduction import NORMALISATIONS, REDUCTIONS, ReductionTemplate
from carver.run.buffers import decode, encode
from carver.run.render import Program, concrete

EMULATED = Path(__file__).parent / "emulated"
H200 = carver.load_arch("h200")
MARGIN = 4096
"""Bytes before and behind an output, which must stay as they are."""
CLOSE = {"float64": 1e-9, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


def built(program: Program, here: Path, edit: Callable[[str], str] = str) -> ctypes.CDLL:
    """The program's source as a library; `edit` changes it before."""
    [call] = program.calls
    source, library = here / program.source.path.name, here / f"{len(list(here.iterdir()))}.so"
    source.write_text(edit(program.source.path.read_text()))
    defines = {**program.source.defines, "KERNEL": f'"{source}"', "CALL": f"{call.entry}(in, out, r, c)"}
    command = ["g++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing", f"-I{EMULATED}",
               f"-I{folder('templates')}", *(f"-D{name}={value}" for name, value in defines.items())]  # fmt: skip
    command += [str(EMULATED / "emulate.cpp"), "-o", str(library)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not made.returncode, made.stderr
    return ctypes.CDLL(str(library))


def run(program: Program, library: ctypes.CDLL, x: np.ndarray, shift: tuple[int, int] = (0, 0)) -> np.ndarray:
    """The output for `x`. Input and output begin so many elements after a multiple of 128 bytes."""
    [given], out = program.inputs, program.output
    bits = encode(x, given.dtype)
    wide = encode(np.zeros(1), out.dtype).itemsize
    count = int(np.prod(out.shape))
    rooms = [np.full(size + 2 * MARGIN, 0xFF, np.uint8) for size in (bits.nbytes, count * wide)]
    starts = [-room.ctypes.data % 128 + MARGIN // 2 + by * width
              for room, by, width in zip(rooms, shift, (bits.itemsize, wide), strict=True)]  # fmt: skip
    rooms[0][starts[0] : starts[0] + bits.nbytes] = bits.reshape(-1).view(np.uint8)
    library.run.restype = ctypes.c_char_p
    pointers = (ctypes.c_void_p(room.ctypes.data + start) for room, start in zip(rooms, starts, strict=True))
    sizes = map(ctypes.c_longlong, given.shape)
    wrong = library.run(*pointers, *sizes, ctypes.c_uint(program.calls[0].grid[0]))
    assert not wrong, wrong.decode()
    end = starts[1] + count * wide
    beside = np.concatenate([rooms[1][: starts[1]], rooms[1][end:]])
    assert (beside == 0xFF).all(), "written beside the output"
    return decode(rooms[1][starts[1] : end].view(encode(np.zeros(1), out.dtype).dtype).reshape(out.shape), out.dtype)


def right(op: str, x: np.ndarray) -> np.ndarray:
    if op not in NORMALISATIONS:
        return np.asarray({"sum": x.sum, "max": x.max, "mean": x.mean}[op](1))
    if op == "softmax":
        powers = np.exp(x - x.max(1, keepdims=True))
        return np.asarray(powers / powers.sum(1, keepdims=True))
    x = x - x.mean(1, keepdims=True) if op == "layer_norm" else x
    return np.asarray(x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5))


def check(
    here: Path, kernel: str, op: str, dtype: str, config: Mapping[str, int], shapes: list[tuple[int, int]],
    shifts: Sequence[tuple[int, int]] = ((0, 0),), edit: Callable[[str], str] = str,
) -> None:  # fmt: skip
    """Shapes of one alignment, which one binary is for."""
    library = None
    for shape in shapes:
        problem = ReductionTemplate(op, shape, in_dtype=dtype).problem
        program = concrete(kernel_named("reduction", kernel, "cuda"), problem, config, H200)
        library = library or built(program, here, edit)
        x = np.random.default_rng(3).standard_normal(shape) * 2 + 1
        seen = decode(encode(x, dtype), dtype).astype(np.float64)
        for shift in shifts:
            out = run(program, library, x, shift)
            np.testing.assert_allclose(out, right(op, seen), CLOSE[dtype], CLOSE[dtype], err_msg=f"{shape} {shift}")


pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="no g++ on the PATH")]


def held(cluster: int, threads: int, block_c: int) -> dict[str, int]:
    return dict(threads=threads, cluster=cluster, block_c=block_c)


@pytest.mark.parametrize(
    ("op", "dtype", "config", "shapes"),
    [
        *(pytest.param(op, "float16", held(8, 64, 128), [(3, 1001), (2, 1023), (1, 967)],
                       marks=pytest.mark.exhaustive if op == "softmax" else ()) for op in NORMALISATIONS),
        pytest.param("rms_norm", "float32", held(4, 64, 1024), [(3, 4001), (1, 4096)], marks=pytest.mark.exhaustive),
        ("layer_norm", "bfloat16", held(2, 64, 64), [(3, 8), (5, 3), (1, 128)]),
        ("softmax", "float64", held(1, 128, 1008), [(2, 1001), (3, 1003)]),
    ],
)  # fmt: skip
def test_rows_held_in_shared_memory(
    tmp_path: Path, op: str, dtype: str, config: dict[str, int], shapes: list[tuple[int, int]]
) -> None:
    check(tmp_path, "held", op, dtype, config, shapes)


@pytest.mark.parametrize(
    "missing",
    ["    if constexpr (CLUSTER > 1) cluster_wait();", "        cluster_sync();\n", "        cluster_arrive();\n"],
)
def test_every_barrier_of_a_cluster_is_needed(tmp_path: Path, missing: str) -> None:
    def without(source: str) -> str:
        assert source.count(missing) == 1
        return source.replace(missing, "")

    with pytest.raises(AssertionError):
        check(tmp_path, "held", "softmax", "float16", held(8, 64, 256), [(3, 2001)], edit=without)


def test_a_row_that_ends_inside_a_vector(tmp_path: Path) -> None:
    """Alone it begins on a multiple of 16 bytes, which says nothing about its end."""
    config = dict(block_r=1, block_c=128, threads=32, vec=4, row_lanes=1024)
    check(tmp_path, "normalise", "softmax", "float16", config, [(1, 77), (5, 77)])


def run_of(block_r: int, threads: int, vec: int, lanes: int, block_c: int) -> dict[str, int]:
    return dict(block_r=block_r, threads=threads, vec=vec, lanes=lanes, block_c=block_c)


@pytest.mark.parametrize(
    ("op", "dtype", "config", "shapes"),
    [
        *(pytest.param(op, "float16", run_of(32, 64, 1, 4, 80), [(2, 77), (101, 77), (33, 79)],
                       marks=pytest.mark.exhaustive if op in ("rms_norm", "softmax", "sum") else ())
          for op in REDUCTIONS),
        ("rms_norm", "bfloat16", run_of(16, 64, 2, 8, 112), [(50, 102), (16, 98)]),
        ("layer_norm", "float32", run_of(8, 64, 1, 32, 352), [(9, 333), (101, 351)]),
        ("sum", "float32", run_of(8, 64, 1, 32, 352), [(9, 333), (101, 351)]),
        ("softmax", "float64", run_of(1, 32, 1, 32, 32), [(9, 17), (3, 1)]),
        ("softmax", "float16", run_of(128, 64, 1, 1, 3), [(300, 3), (127, 3)]),
        ("sum", "float32", run_of(64, 32, 2, 2, 8), [(150, 6)]),
    ],
)  # fmt: skip
def test_short_rows_as_one_run(
    tmp_path: Path, op: str, dtype: str, config: dict[str, int], shapes: list[tuple[int, int]]
) -> None:
    check(tmp_path, "rows", op, dtype, config, shapes)


def test_arrays_that_start_inside_a_vector(tmp_path: Path) -> None:
    shifts = [(0, 3), (5, 5), (1, 0)]
    check(tmp_path, "rows", "softmax", "float16", run_of(16, 32, 1, 8, 80), [(37, 77)], shifts)
    check(tmp_path, "held", "layer_norm", "float16", held(4, 64, 128), [(3, 333)], shifts)


@pytest.mark.parametrize("op", ["sum", "softmax"])
def test_a_single_short_row(tmp_path: Path, op: str) -> None:
    """It begins on a multiple of 16 bytes, but need not be whole vectors: what follows would be joined too."""
    config, rows = run_of(8, 32, 4, 4, 16), kernel_named("reduction", "rows", "cuda")
    problem = ReductionTemplate(op, (1, 9), in_dtype="float32").problem
    assert "whole vectors of a thread" in given_space(problem, H200, rows, [config])[1][0]
    check(tmp_path, "rows", op, "float32", config, [(1, 12)])


SMOOTH = """
#include "common/epilogue.cuh"
void emulated::fault(const char *) {}
extern "C" double of_double(double x) { return carver::finish<carver::Element<CARVER_F64>>(x, nullptr, 0); }
extern "C" float of_float(float x) { return carver::finish<carver::Element<CARVER_F32>>(x, nullptr, 0); }
"""


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_activations_of_doubles_are_computed_in_double(tmp_path: Path, activation: str) -> None:
    """As the kernels for CPUs compute them, and nothing that they are tested against: sums beyond float among them."""
    (tmp_path / "smooth.cpp").write_text(SMOOTH)
    macro = f"-DEPILOGUE_ACTIVATION={ACTIVATIONS[activation]}"
    includes = [f"-I{EMULATED}", f"-I{folder('templates')}"]
    command = ["g++", "-std=c++17", "-w", "-fPIC", "-shared", *includes, macro, "smooth.cpp", "-o", "smooth.so"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    library = ctypes.CDLL(str(tmp_path / "smooth.so"))
    for name, kind, close in (("of_double", ctypes.c_double, 1e-15), ("of_float", ctypes.c_float, 1e-6)):
        function = getattr(library, name)
        function.restype, function.argtypes = kind, [kind]
        for x in (-5.25, -0.3, 0.0, 1 / 3, 2.7, *([1e39] if kind is ctypes.c_double else [])):
            smooth = {"gelu": 0.5 * x * (1 + math.erf(x / math.sqrt(2))), "silu": x / (1 + math.exp(-x))}
            assert function(x) == pytest.approx(smooth.get(activation, max(x, 0.0)), close, close * abs(x))
