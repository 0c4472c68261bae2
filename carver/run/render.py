"""From a hint to the input of a compiler and a driver: source, macros and launches with all numbers filled in."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd, prod
from pathlib import Path
from typing import Any, TypeAlias

from ..arch.descriptor import Arch
from ..base import dtypes
from ..base.errors import ConfigError, KernelError, nearest
from ..base.folders import folder
from ..base.types import Record
from ..kernels import declaration as kernel
from ..kernels import expr
from ..kernels.backends import BACKENDS
from ..kernels.declaration import Kernel, Map
from ..kernels.expr import reduces_rows, size_scope, static_scope
from ..ops.operator import named as operator
from ..problem import notation
from ..problem.notation import Tensor
from ..problem.problem import Problem
from ..ranking.hint import Hint

CPU_FLAGS = (
    "-std=gnu11", "-O3", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC",
    "-Werror=implicit-function-declaration",  # an unknown function would fail later, when the binary is loaded
)  # fmt: skip
CUDA_FLAGS = ("--std=c++17",)
_FLAGS_FROM = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_FOLDERS_FROM = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Environment variables that compilers take flags and include folders from."""
_PATH_FLAG = re.compile(r"-(?:[IL]|iquote|isystem|idirafter|include|imacros)(.+)")
"""Flags that may have what they name in the same word, with nothing between."""
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*(?:include(?:_next)?|embed|define[ \t]+\w+)[ \t]*[\"<]([^\">\n]+)[\">]", re.M)
_MAX_GRID = (2**31 - 1, 65535, 65535)

_WIDEST_LOAD_BYTES = 16
"""Alignment beyond what one load moves changes no kernel."""

SWIZZLES = {32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle of cuda.h, by the bytes of a box's row."""
_MOST_AXES, _MOST_OF_A_BOX, _ROW_ALIGN_BYTES, _MOST_PLACES = 5, 256, 16, 2**31 - 1
"""Of cuTensorMapEncodeTiled: axes, elements of a box along an axis, and what the strides are multiples of. And elements
along an axis, since the copy engine takes places as numbers of 32 bits with a sign."""


class Source(Record):
    """What a compiler needs to know. `isa` is "sm_90" and the like, or "native" for this machine's CPU."""

    path: Path
    defines: Mapping[str, str]
    flags: tuple[str, ...]
    entries: tuple[str, ...]
    isa: str

    def key(self, compiler_version: str) -> str:
        """SHA-256 of everything that the binary depends on: files, macros, flags, compiler, environment."""
        digest = hashlib.sha256()
        for name, _, content in self.files():
            digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\0".encode())
        defines = (f"{name}={value}" for name, value in sorted(self.defines.items()))
        environment = (f"{name}={os.environ.get(name, '')}" for name in (*_FLAGS_FROM, *_FOLDERS_FROM, "NVCC_CCBIN"))
        for part in (*defines, *self.flags, compiler_version, self.isa, *environment):
            digest.update(f"{part}\0".encode())
        return digest.hexdigest()

    def files(self) -> Iterator[tuple[str, Path, bytes]]:
        """The source and every file that an #include may mean, by itself or through others: name there, path, content.

        The key also says which measurements are of this source, so it cannot wait for a compiler's list. Directives
        count whether or not a condition leaves them out, and in every folder that has the file: what is too many
        costs a compilation. What the folders lack is the compiler's own, which its version covers.
        """
        given = self._paths()
        named = given + [f"lib{flag[2:]}.a" for flag in self.flags if flag.startswith("-l")]
        named += [text for value in self.defines.values() for text in _INCLUDED.findall(f"#define X {value}")]
        folders = [text for text in given if Path(text).is_dir()]
        folders += [f for v in _FOLDERS_FROM for f in os.environ.get(v, "").split(os.pathsep) if f]
        common = (self.path.parent, folder("templates"), *map(Path, folders))

        def places(name: str, beside: Path) -> Iterator[Path]:
            for where in dict.fromkeys((beside, *common)):
                if (path := Path(os.path.normpath(where / name))).is_file():
                    yield path

        begin = (Path.cwd(), self.path.parent)  # a file that a flag names may lie in either
        todo = [(self.path.name, self.path), *((n, p) for n in named for where in begin for p in places(n, where))]
        seen = set()
        while todo:
            name, path = todo.pop()
            if (name, path) not in seen:
                seen.add((name, path))
                content = path.read_bytes()
                yield name, path, content
                todo += [(n, p) for n in _included(content) for p in places(n, path.parent)]

    def _paths(self) -> list[str]:
        """Whatever in the flags may name a folder or a file, whichever flag it belongs to."""
        flags = [flag for flag in self.flags if flag not in CPU_FLAGS]  # which name none
        flags += [f for v in _FLAGS_FROM for f in shlex.split(os.environ.get(v, ""))]
        words = dict.fromkeys(word for flag in flags for word in (flag, *parts_of(flag)))
        paths = (found[1] if (found := _PATH_FLAG.fullmatch(word)) else word for word in words)
        return [path.strip("\"<>") for path in paths if path and path[0] != "-"]


def parts_of(flag: str) -> list[str]:
    """The words that a flag hands on: `-Wp,-I,DIR`, `-Xcompiler=-O2,-IDIR`, `--include-path=DIR`."""
    return re.split("[,=]", flag)[1:]


@lru_cache(maxsize=4096)
def _included(content: bytes) -> tuple[str, ...]:
    """What a file names in #include, or in a macro that a computed one may use."""
    return tuple(_INCLUDED.findall(content.decode(errors="replace")))


class TensorSpec(Record):
    """A dense tensor that a kernel reads or writes; each row starts on a multiple of `align_bytes`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    align_bytes: int


class Scalar(Record):
    """An argument that is neither a pointer nor an int64; `kind` is its letter in Python's `struct`: "i", "f", ... A
    value that is a name is given by each call."""

    kind: str
    value: int | float | str


class TensorMap(Record):
    """How Hopper's copy engine reads a dense tensor: in boxes, whose rows it swizzles.

    `base` names a tensor or "workspace"; the elements begin `start_bytes` after it. `sizes` are its elements along each
    axis, the contiguous one first; `row_bytes` those from one row to the next. `box`: elements along the same axes.
    """

    base: str
    start_bytes: int
    dtype: str
    sizes: tuple[int, ...]
    row_bytes: int
    box: tuple[int, ...]


class Call(Record):
    """One kernel launch. Of `args`, a string names a tensor or "workspace", None is a null pointer, an int an int64.

    `maps` are parameters of the kernel before `args`.
    """

    entry: str
    grid: tuple[int, int, int]
    block: int | tuple[int, int, int]
    dynamic_smem_bytes: int
    args: tuple[str | int | Scalar | None, ...]
    maps: tuple[TensorMap, ...] = ()

    @property
    def threads(self) -> tuple[int, int, int]:
        """Of a block, along each axis."""
        return (self.block, 1, 1) if isinstance(self.block, int) else self.block


class Program(Record):
    """A kernel made concrete for one problem: what to compile, what to launch in which order, and on which tensors."""

    source: Source
    calls: tuple[Call, ...]
    workspace_bytes: int
    inputs: tuple[TensorSpec, ...]
    output: TensorSpec

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return (*self.inputs, self.output)

    @property
    def given(self) -> tuple[str, ...]:
        """What each launch is given by name: tensors, the workspace, numbers of the call."""
        values = (each.value if isinstance(each, Scalar) else each for call in self.calls for each in call.args)
        maps = (each.base for call in self.calls for each in call.maps)
        return tuple(dict.fromkeys((*maps, *(value for value in values if isinstance(value, str)))))


Launcher: TypeAlias = Callable[..., None]
"""`launch(values, stream)`: a program on pointers and numbers in a fixed order, in a stream (0: the default one)."""


def render(hint: Hint, arch: Arch, defines: Mapping[str, str] | None = None) -> Program:
    """The program of a hint. `defines` adds macros that a source documents, such as EXPRESSION."""
    chosen = kernel.kernel_named(hint.problem.operator, hint.kernel, hint.backend)
    return concrete(chosen, hint.problem, hint.config, arch, defines)


def concrete(
    chosen: Kernel, problem: Problem, config: Mapping[str, int], arch: Arch, defines: Mapping[str, str] | None = None
) -> Program:
    """The program of one configuration of a kernel. Raises ConfigError where the kernel cannot be launched so."""
    if chosen.source is None:
        raise KernelError(
            f"{chosen.operator}/{chosen.name} is a profile of {chosen.backend}'s kernel and has no source to compile; "
            "hints of the backends cuda and cpu have one"
        )
    names = scope(chosen, problem, config, arch)
    output, *inputs = (_spec(problem, t) for t in problem.statement.tensors)
    if problem.options.get("bias"):
        inputs.append(TensorSpec("bias", output.shape[-1:], output.dtype, dtypes.BYTES[output.dtype]))
    cuda = BACKENDS[chosen.backend].source == "cuda"
    macros = _macros(problem, config, (*inputs, output), cuda)
    if cuda and "smem_bytes" in names:
        macros["SMEM_BYTES"] = str(int(names["smem_bytes"]))  # a source asserts that it uses what the model was told
    pointers = {t.name for t in (*inputs, output)}
    calls = tuple(
        Call(
            launch.entry, _grid(chosen, tuple(int(g(names)) for g in launch.grid)), int(launch.block(names)),
            int(launch.dynamic_smem_bytes(names)),
            tuple(value for arg in launch.args for value in _argument(chosen, arg, pointers, inputs, names)),
            tuple(_map(each, problem, names) for each in launch.maps),
        )
        for launch in chosen.launches if launch.when(names)
    )  # fmt: skip
    source = Source(
        chosen.source, macros | dict(defines or {}), CUDA_FLAGS if cuda else CPU_FLAGS,
        tuple(dict.fromkeys(call.entry for call in calls)), (chosen.isa or arch.isa) if cuda else "native",
    )  # fmt: skip
    return Program(source, calls, int(chosen.workspace_bytes(names)), tuple(inputs), output)


def scope(chosen: Kernel, problem: Problem, config: Mapping[str, int], arch: Arch) -> dict[str, Any]:
    """Every name that a declaration's expression may use, for one configuration."""
    if chosen.tunables.keys() != config.keys():
        odd = sorted(chosen.tunables.keys() ^ config.keys())
        raise ConfigError(
            f"{chosen.operator}/{chosen.name} takes {', '.join(chosen.tunables)}; missing or unknown: {', '.join(odd)}"
        )
    names = {**static_scope(problem, arch), **size_scope(problem), **config}
    for tensor in problem.statement.tensors:
        names[f"ld{tensor.name.lower()}"] = storage_shape(problem, tensor)[-1]
    for column, expression in chosen.derived.items():
        if missing := expression.names - names.keys():
            raise ConfigError(f"{chosen.operator}/{chosen.name} needs {', '.join(sorted(missing))}; {problem} has none")
        names[column] = expression(names)
    return names


def storage_shape(problem: Problem, tensor: Tensor) -> tuple[int, ...]:
    """Extents in memory: those of `Problem.stored`, with one exception. With trans_a (trans_b) the last two dimensions
    of A (B) are exchanged, unless the statement spells storage order."""
    shape = problem.stored(tensor).shape(problem.sizes)
    if not problem.options.get(f"trans_{tensor.name.lower()}"):
        return shape
    declared = problem.operator_file.computes
    as_declared = bool(declared) and tensor in notation.parse(declared).inputs
    return (*shape[:-2], shape[-1], shape[-2]) if as_declared else shape


def _spec(problem: Problem, tensor: Tensor) -> TensorSpec:
    """One row is aligned wherever it ends; normalisations along it take its end for one that many rows have."""
    shape, align = storage_shape(problem, tensor), min(_WIDEST_LOAD_BYTES, problem.align_bytes[tensor.name])
    if prod(shape[:-1]) > 1 or (problem.options.get("keeps_shape") and reduces_rows(problem)):
        align = gcd(align, int(shape[-1] * problem.itemsize(tensor.name)))
    return TensorSpec(tensor.name, shape, problem.dtypes[tensor.name], align)


def _macros(
    problem: Problem, config: Mapping[str, int], tensors: tuple[TensorSpec, ...], aligned: bool
) -> dict[str, str]:
    """What the compiler is told: tunables, element types, alignments, and what the operator has to say. A CPU loads
    from anywhere, so its kernels are not built anew for each alignment."""
    numbers: dict[str, int | str] = {name.upper(): value for name, value in config.items()}
    for spec in tensors:
        numbers[f"{spec.name.upper()}_DTYPE"] = dtypes.CODES[spec.dtype]
        if aligned:
            numbers[f"ALIGN_{spec.name.upper()}"] = spec.align_bytes
    numbers["ACC_DTYPE"] = dtypes.CODES[problem.accumulate]
    numbers |= operator(problem.operator).macros(problem)
    return {name: str(value) for name, value in numbers.items()}


def _grid(chosen: Kernel, grid: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*grid, 1, 1, 1)[:3]
    if not all(0 < n <= most for n, most in zip((x, y, z), _MAX_GRID, strict=True)):
        raise ConfigError(f"{chosen.operator}/{chosen.name}: a grid of {(x, y, z)}; a device takes up to {_MAX_GRID}")
    return x, y, z


def _map(declared: Map, problem: Problem, names: Mapping[str, Any]) -> TensorMap:
    """Boxes have one element along axes that they lack. Raises ConfigError for what the copy engine cannot do."""
    copied, dtype = bool(declared.copied(names)), problem.dtypes[declared.tensor]
    sizes = tuple(int(size(names)) for size in declared.sizes)
    box = tuple(int(extent(names)) for extent in declared.box)
    row_bytes, item_bytes = int(declared.row_bytes(names)), dtypes.BYTES.get(dtype, 0)

    def refuse(rule: str, got: str) -> ConfigError:
        return ConfigError(f"tensor map of {declared.tensor}: {rule}, got {got}")

    if not item_bytes:
        raise refuse("elements have a whole number of bytes", dtype)
    if not 1 <= len(box) <= len(sizes) <= _MOST_AXES:
        raise refuse(f"1 to {_MOST_AXES} sizes, and a box of at most as many extents", f"{len(sizes)} and {len(box)}")
    if max(sizes) > _MOST_PLACES:
        raise refuse(f"an axis has at most {_MOST_PLACES:,} elements", f"{max(sizes):,}")
    if not all(1 <= extent <= _MOST_OF_A_BOX for extent in box):
        raise refuse(f"a box has 1 to {_MOST_OF_A_BOX} elements along an axis", " x ".join(map(str, box)))
    if box[0] * item_bytes not in SWIZZLES:
        *some, last = map(str, SWIZZLES)
        raise refuse(f"a row of a box has {', '.join(some)} or {last} bytes", f"{box[0]} elements of {item_bytes}")
    if row_bytes % _ROW_ALIGN_BYTES:
        raise refuse(f"rows start on multiples of {_ROW_ALIGN_BYTES} bytes", f"rows of {row_bytes}")
    base, start_bytes = ("workspace", int(declared.copied_at(names))) if copied else (declared.tensor, 0)
    return TensorMap(base, start_bytes, dtype, sizes, row_bytes, box + (1,) * (len(sizes) - len(box)))


def _argument(
    chosen: Kernel, arg: str, pointers: set[str], inputs: Sequence[TensorSpec], names: Mapping[str, Any]
) -> tuple[str | int | None, ...]:
    """One entry of a declaration's `args`. "X*" stands for every input whose name starts with X, in order."""
    if arg.endswith("*"):
        return tuple(t.name for t in inputs if t.name.startswith(arg[:-1]))
    if arg in pointers or arg == "workspace":
        return (arg,)
    if arg == "bias":
        return (None,)
    expression = expr.parse(arg)
    if unknown := expression.names - names.keys():
        word = min(unknown)
        raise KernelError(f"{chosen.path}: argument {arg!r}: no {word!r}; {nearest(word, {*names, *pointers})}")
    return (int(expression(names)),)
