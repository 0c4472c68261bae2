"""What a tuned function gives back: a kernel in CUDA or C with its launch, and the arguments it takes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cache
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..arch.descriptor import Arch
from ..base import dtypes
from ..base.errors import ConfigError, KernelError, RunError
from ..base.given import fits, in_words, index, shown, whole
from ..base.store import unpack
from ..base.types import Record
from ..kernels import expr
from ..ranking.hint import Hint
from .buffers import STORAGE, is_gpuarray, is_torch
from .render import CPU_FLAGS, CUDA_FLAGS, Call, Program, Scalar, Source, TensorSpec, render

Dim3: TypeAlias = int | Sequence[int]
_ALIGN_BYTES = 1  # a user's arrays may start anywhere that their type allows
_NUMBERS = {
    "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "int16": "h", "uint16": "H", "int8": "b", "uint8": "B",
    "float32": "f", "float64": "d",
}  # fmt: skip
"""Types that are passed by value, and their letters in Python's `struct`."""
_TYPED = re.compile(r"(\w+)\((.*)\)", re.S)
LEFT_OUT = "pointer"
"""The type of an argument in the place of an array that is not given: a null pointer."""


class Param(Record):
    """An argument of a kernel: an array; or, if the shape is None, a number that each call gives, passed by value.

    A size that is known only at the call is a name in `shape`.
    """

    name: str
    shape: tuple[int | str, ...] | None
    dtype: str
    is_output: bool = False

    def __post_init__(self) -> None:
        if self.shape is not None:
            sizes = self.shape if fits(self.shape, "Sequence[int | str]", {}) else [-1]
            if any(not isinstance(n, str) and n < 0 for n in sizes):
                raise ConfigError(f"{self.name}: a shape is a list of sizes and of names of sizes, got {self.shape!r}")
            object.__setattr__(self, "shape", tuple(n if isinstance(n, str) else int(n) for n in self.shape))
        if self.dtype != LEFT_OUT:
            object.__setattr__(self, "dtype", dtypes.of_array(self.dtype))
        if self.shape is None and self.dtype != LEFT_OUT and self.dtype not in _NUMBERS:
            known = ", ".join(_NUMBERS)
            raise ConfigError(f"{self.name} is passed by value, which {self.dtype} cannot be; these can: {known}")

    @classmethod
    def of(cls, given: Param | Sequence[Any]) -> Param:
        """A description as it is, or from its parts."""
        if isinstance(given, Param):
            return given
        if not fits(given, "Sequence[Any]", {}) or not 3 <= len(given) <= 4:
            raise ConfigError(f"params are (name, shape, dtype) each, as ('A', (M, K), 'float16'); got {shown(given)}")
        return cls(*given)

    @property
    def by_value(self) -> bool:
        return self.shape is None

    @property
    def symbolic(self) -> tuple[str, ...]:
        return tuple(n for n in self.shape or () if isinstance(n, str))

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape in numbers. Raises ConfigError for symbolic sizes."""
        if self.symbolic:
            raise ConfigError(
                f"{self.name} has the symbolic size {', '.join(self.symbolic)}: give inputs with "
                "carver.set_autotune_inputs(...), or supply_prog=, which see real sizes"
            )
        return tuple(int(n) for n in self.shape or ())

    def at(self, sizes: Mapping[str, int]) -> Param:
        """The same with these symbolic sizes in numbers."""
        if self.shape is None:
            return self
        return replace(self, shape=tuple(sizes.get(n, n) if isinstance(n, str) else n for n in self.shape))

    @property
    def size_bytes(self) -> int:
        if self.shape is None:
            return 0
        return int(np.prod(self.extents, dtype=np.int64)) * dtypes.ARRAY_BYTES[self.dtype]

    def tensor(self) -> TensorSpec:
        return TensorSpec(self.name, self.extents, self.dtype, _ALIGN_BYTES)


def param_of(name: str, value: Any) -> Param | None:
    """The description of an array; None for anything else."""
    is_array = is_torch(value) or isinstance(value, np.ndarray) or is_gpuarray(value)
    return Param(name, tuple(value.shape), value.dtype) if is_array else None


def sizes_of(params: Sequence[Param], arrays: Sequence[Param | None], by: str) -> dict[str, int]:
    """What symbolic sizes are in these arrays, which come in the order of `params`; None is one that is not there.

    Raises ConfigError for one not as described `by` what. Axes of 1 may be left out; types that NumPy lacks are bits.
    """
    sizes: dict[str, int] = {}
    for p, given in zip(params, arrays, strict=True):
        if given is None or given.shape is None or p.shape is None:
            continue
        said, shape = p.shape, given.extents
        if len(said) != len(shape):
            said, shape = tuple(n for n in said if n != 1), tuple(n for n in shape if n != 1)
        fits = len(said) == len(shape) and all(
            n == (sizes.setdefault(m, n) if isinstance(m, str) else m) for m, n in zip(said, shape, strict=True)
        )
        if not fits or given.dtype not in (p.dtype, element(p.dtype).name):
            known = f", where {', '.join(f'{name} is {n}' for name, n in sizes.items())}" if sizes else ""
            raise ConfigError(
                f"{p.name} is {p.dtype}[{', '.join(map(str, p.shape))}] by {by}{known}; given is "
                f"{given.dtype}{list(given.shape)}"
            )
    return sizes


def places(out: Sequence[int], count: int) -> tuple[int, ...]:
    """Places of outputs among so many arrays, counted from the front. Raises ConfigError for one that there is not."""
    if beyond := [place for place in out if not -count <= place < count]:
        raise ConfigError(f"out_idx {beyond[0]} is none of the {count} arrays")
    return tuple(place % count for place in out)


def gpu_of(values: Iterable[Any]) -> str | None:
    """Where the first of the arrays is that is on a GPU: "cuda:1", or "cuda" for PyCUDA's, which do not say."""
    for value in values:
        device: Any = getattr(value, "device", None)
        if getattr(device, "type", "") == "cuda":
            return f"cuda:{device.index or 0}"
        if type(value).__name__ == "GPUArray":
            return "cuda"
    return None


class Launch(Record):
    """What of a launch depends on sizes: counts of blocks and scalars, as numbers or as expressions of them."""

    grid: tuple[Any, ...]
    scalars: tuple[str | Scalar | Any, ...] = ()

    def counts(self, sizes: Mapping[str, int]) -> tuple[int, int, int]:
        """Blocks for these sizes."""
        counts = [evaluate("grid", n, sizes) if isinstance(n, str) else n for n in self.grid]
        return dim3("grid", counts[0] if len(counts) == 1 else counts)

    def program(
        self, source: Source, entry: str, block: tuple[int, int, int], smem_bytes: int, params: Sequence[Param],
        sizes: Mapping[str, int],
    ) -> Program:  # fmt: skip
        """The program for these arguments and symbolic sizes, all in numbers."""
        grid = self.counts(sizes)
        tensors = [p.tensor() for p in params if not p.by_value]
        if not tensors:
            raise ConfigError(f"{entry} takes no array; a kernel needs one at least")
        letters = {**_NUMBERS, LEFT_OUT: "P"}
        given = (Scalar(letters[p.dtype], p.name) if p.by_value else p.name for p in params)
        scalars = (_sized(n, sizes) if isinstance(n, str) else n if isinstance(n, Scalar) else scalar(n)
                   for n in self.scalars)  # fmt: skip
        call = Call(entry, grid, block, smem_bytes, (*given, *scalars))
        return Program(source, (call,), 0, tuple(tensors[:-1]), tensors[-1])

    def plain(self) -> Launch:
        """The same with scalars that JSON takes."""
        return replace(self, scalars=tuple(n if isinstance(n, str | Scalar) else scalar(n) for n in self.scalars))


def evaluate(what: str, text: str, sizes: Mapping[str, int]) -> int:
    """The value of an expression of symbolic sizes. Raises ConfigError."""
    if not sizes:
        raise ConfigError(f"{what} {text!r} is an expression of symbolic sizes, of which params have none")
    try:
        return int(expr.parse(text)(sizes))
    except KernelError as e:
        raise ConfigError(f"{what} {text!r}: {e}") from None


def _sized(text: str, sizes: Mapping[str, int]) -> Scalar:
    typed = _TYPED.fullmatch(text.strip())
    if typed and typed[1] in _NUMBERS:
        return scalar(np.dtype(typed[1]).type(evaluate("scalar", typed[2], sizes)))
    return scalar(evaluate("scalar", text, sizes))


class Kernel(Record):
    """One concrete kernel of your own: source, macros and launch.

    - `source`: a file (`.c` runs on the CPU, anything else is CUDA), its text, or a Triton function.
    - `grid` and `block` are counts. `shared_bytes` is what the launch adds to the kernel's own shared memory: to rank,
      a function of arguments and configuration, too.
    - `scalars` follow the arguments of `params` in the call. A Python int is passed as a C `int`, a float as a `float`,
      a NumPy scalar as its own type. In `grid` and `scalars`, a string is an expression of the symbolic sizes of
      `params`, such as "ceil(n, 128)"; "int64(n)" passes a scalar in 64 bits.
    - `params` describes the arrays, and the numbers that each call gives. Without it, the arrays are those of the
      hints' problem, else those given as inputs.
    - `flags` are added to carver's own. `isa` is the target of a CUDA source if more than the device's own ("sm_90a").
    """

    source: Any
    entry: str = ""
    grid: Any = 1
    block: Dim3 = 1
    shared_bytes: int | Callable[..., Any] = 0
    defines: Mapping[str, Any] = field(default_factory=dict)
    scalars: Sequence[Any] = ()
    params: Sequence[Param | Sequence[Any]] | None = None
    flags: Sequence[str] = ()
    isa: str = ""

    def __post_init__(self) -> None:
        for each in fields(self):
            if not fits(given := getattr(self, each.name), str(each.type), globals()):
                raise ConfigError(f"{each.name} of a kernel must be {in_words(str(each.type))}, got {shown(given)}")
        if isinstance(self.grid, Mapping):
            raise ConfigError(f"grid of a kernel must be counts, got {shown(self.grid)}; macros are given as defines=")
        object.__setattr__(self, "defines", MappingProxyType(dict(self.defines)))
        if self.params is not None:
            object.__setattr__(self, "params", tuple(map(Param.of, self.params)))
        if self.is_triton:
            return
        if not isinstance(self.source, str | os.PathLike):
            raise KernelError(f"source must be a path, source text or a Triton function, got {self.source!r}")
        if not self.entry:
            raise KernelError("a kernel from source needs entry=, the name of the function to launch")

    @property
    def name(self) -> str:
        return self.entry or str(getattr(self.source, "__name__", type(self.source).__name__))

    @property
    def is_triton(self) -> bool:
        return hasattr(self.source, "__getitem__") and callable(getattr(self.source, "run", None))

    @property
    def kind(self) -> str:
        """The kind of device that it runs on: "cpu" or "cuda"."""
        if self.is_triton:
            return "cuda"
        if _is_text(self.source):
            return "cuda" if "__global__" in str(self.source) else "cpu"
        return "cpu" if Path(self.source).suffix.lower() == ".c" else "cuda"

    def program(self, params: Sequence[Param], arch: Arch) -> Program:
        """What the device layer compiles and launches, for these arrays."""
        block, added = dim3("block", self.block), whole("shared_bytes", self.shared_bytes, ConfigError)
        if self.kind == "cuda":
            for what, asked, most in (
                ("threads a block", prod(block), arch.max_threads_per_block),
                ("bytes of shared memory", added, arch.smem_per_block_bytes),
            ):
                if asked > most:
                    raise ConfigError(f"{self.entry} asks for {asked} {what}; {arch.title} has {most}")
        sizes = self.sizes(params)
        return self.launch.program(self.compiled_from(arch), self.entry, block, added, params, sizes)

    def sizes(self, params: Sequence[Param]) -> dict[str, int]:
        """What the symbolic sizes of `params` are for arguments in numbers."""
        known: Sequence[Param] = self.params or ()  # type: ignore[assignment]
        return sizes_of(known, params, "the kernel's params") if len(known) == len(params) else {}

    @property
    def launch(self) -> Launch:
        grid = self.grid if isinstance(self.grid, Iterable) and not isinstance(self.grid, str) else (self.grid,)
        return Launch(tuple(grid), tuple(self.scalars))

    def compiled_from(self, arch: Arch) -> Source:
        if _is_text(self.source):
            path = unpack({f"kernel.{'cu' if self.kind == 'cuda' else 'c'}": str(self.source).encode()})
        else:
            path = Path(self.source).resolve()
        if not path.is_file():
            raise KernelError(f"source {path} is no file; give the path of a .cu or .c file, or the text itself")
        own = CUDA_FLAGS if self.kind == "cuda" else CPU_FLAGS
        macros = {name: _macro(name, value) for name, value in self.defines.items()}
        target = self.isa or isa(self.kind, arch)
        return Source(path, macros, (*own, *self.flags), (self.entry,), target)

    def numbers(self, params: Sequence[Param]) -> tuple[Any, list[Any]]:
        """The grid, if it is no function, and the scalars for these arguments, in numbers."""
        own, sizes = self.launch, self.sizes(params)
        scalars = [_sized(n, sizes).value if isinstance(n, str) else n for n in own.scalars]
        return self.grid if callable(self.grid) else own.counts(sizes), scalars

    def launcher(self) -> Callable[..., Any]:
        """A Triton function with its grid and constants bound; takes the arrays."""
        constants = dict(self.defines)

        def run(*arrays: Any) -> None:
            grid, scalars = self.numbers([param_of(f"arg{i}", a) or Param(f"arg{i}", None, LEFT_OUT)
                                          for i, a in enumerate(arrays)])  # fmt: skip
            self.source[grid](*arrays, *scalars, **constants)

        return run


class HintKernel(Record):
    """carver's own kernel of a hint, where a user's function would return its `Kernel`."""

    hint: Hint
    defines: Mapping[str, str] | None = None
    """Macros that its source documents, such as EXPRESSION."""
    is_triton: ClassVar = False

    @property
    def name(self) -> str:
        return self.hint.kernel

    @property
    def kind(self) -> str:
        return self.hint.backend

    def program(self, params: Sequence[Param], arch: Arch) -> Program:
        return render(self.hint, arch, self.defines)

    def compiled_from(self, arch: Arch) -> Source:
        return self.program((), arch).source

    def params(self, arch: Arch) -> tuple[Param, ...]:
        program = self.program((), arch)
        return tuple(Param(t.name, t.shape, t.dtype, t is program.output) for t in program.tensors)


def hint_params(hint: Hint) -> tuple[Param, ...]:
    """The arrays of a hint's problem, inputs first; leading axes of extent 1 (a batch of one) are left out."""
    problem = hint.problem
    found = []
    for tensor in (*problem.statement.inputs, problem.statement.output):
        shape = problem.stored(tensor).shape(problem.sizes)
        while len(shape) > 1 and shape[0] == 1:
            shape = shape[1:]
        is_output = tensor is problem.statement.output
        found.append(Param(tensor.name, shape, problem.dtypes[tensor.name], is_output))
    return tuple(found)


def isa(kind: str, arch: Arch) -> str:
    return arch.isa if kind == "cuda" else "native"


def retargeted(source: Source, here: str) -> Source:
    """The source for the device that is here; sm_90a is sm_90 with more, and stays."""
    return source if here.rstrip("af") == source.isa.rstrip("af") else replace(source, isa=here)


def described(place: int, given: Any) -> Param:
    """An argument as it is given, where the kernel does not say what it takes."""
    name = f"arg{place}"
    if (param := param_of(name, given)) is not None:
        return param
    if given is None or isinstance(given, np.generic):
        dtype = LEFT_OUT if given is None else given.dtype.name
    else:
        dtype = "int32" if isinstance(given, int) else "float32" if isinstance(given, float) else ""
    if dtype != LEFT_OUT and dtype not in _NUMBERS:
        raise RunError(f"takes arrays and numbers; got a {type(given).__name__}")
    return Param(name, None, dtype)


def dim3(what: str, value: Any) -> tuple[int, int, int]:
    """A launch extent as three counts."""
    sizes = tuple(value) if isinstance(value, Iterable) else (value,)
    if not 1 <= len(sizes) <= 3 or not all((number := index(n)) is not None and number > 0 for n in sizes):
        said = f"a function: one of the configuration is the {what}= of rank_kernel" if callable(value) else repr(value)
        raise ConfigError(f"{what} must be one to three whole numbers above 0, got {said}")
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


@cache
def integers(dtype: str) -> range:
    """All that a type holds: ctypes and C cut others without a word. Empty for floats."""
    info = np.iinfo(dtype) if "int" in dtype else None
    return range(info.min, info.max + 1) if info else range(0)


def scalar(value: Any) -> Scalar:
    """A launch argument as C sees it."""
    if isinstance(value, np.generic) and value.dtype.name in _NUMBERS:
        return Scalar(_NUMBERS[value.dtype.name], value.item())
    if isinstance(value, bool | int) and value in integers("int32"):
        return Scalar("i", int(value))
    if isinstance(value, float):
        return Scalar("f", value)
    raise ConfigError(
        f"a scalar must be an int of 32 bits, a float or a NumPy scalar, got {value!r}; use numpy.int64(...)"
    )


def _macro(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float | str | np.generic):
        return str(value)
    raise ConfigError(f"macro {name} must be a number or text, got {value!r}")


def _is_text(source: Any) -> bool:
    return isinstance(source, str) and bool({"\n", "{"} & set(source))


def element(dtype: str) -> np.dtype[Any]:
    """What NumPy keeps an element in."""
    return np.dtype(STORAGE[dtype])
