"""CuTe DSL: a host function that launches one kernel, as machine code with that launch. Tried with nvidia-cutlass-dsl
4.8.

Its compiler needs no GPU. The launch is read from the host's part of the IR, which is text: sizes, the order of the
kernel's parameters, and for each copy by TMA the tensor, the box and the swizzle.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import CompileError, ConfigError
from ..compiled.binary import Binary, Tensor, TensorMap
from . import capability, compiling, in_order

_ELEMENTS = {
    "float64": "Float64", "float32": "Float32", "tf32": "TFloat32", "float16": "Float16", "bfloat16": "BFloat16",
    "float8_e4m3": "Float8E4M3FN", "float8_e5m2": "Float8E5M2", "int64": "Int64", "int32": "Int32", "int16": "Int16",
    "int8": "Int8", "bool": "Boolean", "uint64": "Uint64", "uint32": "Uint32", "uint16": "Uint16", "uint8": "Uint8",
}  # fmt: skip
_NUMBERS = {
    "i1": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_KNOWN_TO_THE_COMPILER = ("!cute.coord_tensor", "!cute.layout", "!cute.shape", "!cute.tile", "!cute.int_tuple")
"""Types of values that, if nothing in them is open ("?"), take no place among a kernel's parameters."""
_SUMS: Mapping[str, Callable[[int, int], int]] = {
    "addi": operator.add, "subi": operator.sub, "muli": operator.mul, "divsi": operator.floordiv, "maxsi": max,
    "minsi": min, "remsi": operator.mod, "floordivsi": operator.floordiv, "ceildivsi": lambda a, b: -(-a // b),
}  # fmt: skip
_ATOM = "!cute_nvgpu.atom.non_exec_tiled_tma"


def binary(kernel: Any, config: Mapping[str, Any], *, args: Any, grid: Any, block: Any, arch: Arch) -> Binary:
    """Compile one configuration of a `cute.jit` function, or of an object whose `__call__` is one.

    `args` and the configuration are its arguments by name; a `carver.Tensor` stands for a tensor whose layout is known
    when it is compiled. Grid and block are those of its launch. Raises CompileError.
    """
    from cutlass import cute

    if grid is not None or block is not None:
        raise ConfigError("a CuTe DSL function launches its kernel itself; give neither grid nor block")
    host = kernel if hasattr(kernel, "_dsl_cls") else type(kernel).__call__.__get__(kernel)
    values = in_order(host, args, config)
    environment = host._dsl_cls._get_dsl().envar
    before = {name: getattr(environment, name) for name in ("keep_ir", "keep_cubin", "dump_dir")}
    major, minor = capability(arch, "CuTe DSL's kernels")
    sm = f"sm_{major}{minor}{'a' * (major >= 9)}"
    with TemporaryDirectory() as folder:  # what is kept is written into files first
        environment.keep_ir, environment.keep_cubin, environment.dump_dir = True, True, folder
        try:
            with compiling():
                made = cute.compile(kernel, *map(_stand_in, values), options=f"--gpu-arch {sm} --keep-cubin")
                kept, lowered, code = str(made.__mlir__), str(made.ir_module), made.__cubin__
        finally:
            for name, value in before.items():
                setattr(environment, name, value)
    each = zip(values, signature(host).parameters.items(), strict=True)  # what the compiler knows is not in the IR
    passed = {n: v for v, (n, p) in each if v is not None and "Constexpr" not in str(p.annotation)}
    return _Host(kept, passed, lowered).binary(code)


def _stand_in(value: Any) -> Any:
    """A tensor without memory, of which the compiler knows what it would know of a real one."""
    if not isinstance(value, Tensor):
        return value
    import cutlass
    from cutlass.cute.runtime import make_fake_tensor

    element = getattr(cutlass, _ELEMENTS[value.dtype])
    return make_fake_tensor(element, value.shape, value.strides, assumed_align=16)


class _Host:
    """The host's function in the IR: what each name is assigned, and what its parameters are given."""

    def __init__(self, text: str, values: Mapping[str, Any], lowered: str) -> None:
        self.aliases = dict(re.findall(r"^(!\w+) = (!.*)$", text, re.M))
        head, _, self.body = text[text.index("func.func @") :].partition("\n")
        names = re.findall(r"%arg\d+", head)
        if len(names) != len(values):
            raise CompileError(f"the host function has {len(names)} parameters in its IR, and was given {len(values)}")
        self.given = dict(zip(names, values.values(), strict=True))
        self.names = dict(zip(names, values, strict=True))
        self.made: dict[str, str] = {}
        for results, what in re.findall(r"^ *(%[\w, %]+?)(?::\d+)? = (.*)$", self.body, re.M):
            self.made |= dict.fromkeys(re.findall(r"%\w+", results), what)
        self.lowered = lowered

    def binary(self, code: bytes) -> Binary:
        launches = re.findall(r"cuda\.launch_ex @\w+::@(\w+)<(%\w+)> \((.*?)\) \{.*?\} : .*?>, \((.*)\) -> ", self.body)
        if len(launches) != 1:
            raise CompileError(f"the function launches {len(launches)} kernels; carver ranks functions that launch one")
        [(symbol, settings, names, kinds)] = launches
        found = re.search(r"blockDim = \((.*?)\), dynamicSmemBytes = (%\w+), gridDim = \((.*?)\)", self.made[settings])
        assert found, "a launch has a block, shared memory and a grid"
        block, grid = (tuple(self.number(n) for n in found[i].split(", ")) for i in (1, 3))
        each = zip(names.split(", "), _parts(kinds), strict=True)
        every = [p for name, kind in each for p in self._parameters(name, self.aliases.get(kind, kind))]
        of, parameters = zip(*every, strict=True) if every else ((), ())
        return Binary(code, symbol, parameters, grid, block, shared_bytes=self.number(found[2]), names=of)

    def number(self, name: str) -> int:
        """The value of a name that is computed from constants and the numbers given."""
        if isinstance(value := self.given.get(name), int | np.integer):
            return int(value)
        words = self.made.get(name, "").replace(",", "").split()
        kind = words[0].removeprefix("arith.") if words else ""
        if kind == "constant":
            return int(words[1])
        if kind in ("extsi", "trunci", "index_cast"):
            return self.number(words[1])
        if kind in _SUMS:
            return _SUMS[kind](*(self.number(n) for n in words[1:3]))
        if kind == "cute.kernel_smem_size":
            return self._shared_bytes()
        raise ConfigError(f"{name} of the launch is {self.made.get(name)!r}: no number that is known before it")

    def _shared_bytes(self) -> int:
        """What the compiler counted, where the launch does not say: a constant that it stores as the launch's third."""
        kind = r".*!llvm\.struct<\(array<3 x i32>, array<3 x i32>, i64,"
        place = re.search(rf"(%\d+) = llvm\.getelementptr %\d+\[0, 2\] {kind}", self.lowered)
        stored = place and re.search(rf"llvm\.store (%\d+), {place[1]} : i64", self.lowered)
        constant = stored and re.search(rf"{stored[1]} = llvm\.mlir\.constant\((\d+) : i64\)", self.lowered)
        if not constant:
            raise ConfigError("the launch does not say how much shared memory it takes; give it smem=")
        return int(constant[1])

    def _parameters(self, name: str, kind: str) -> Iterator[tuple[str, Any]]:
        if kind in _NUMBERS:
            value = self.given[name] if name in self.given else self.number(name)
            yield self.names.get(name, ""), _NUMBERS[kind](value)
        elif kind.startswith(_ATOM):
            yield self._tensor_map(name, kind)
        elif kind.startswith(("!cute.memref", "!cute.ptr")) and "?" not in kind:
            yield self._tensor(name)
        elif not kind.startswith(_KNOWN_TO_THE_COMPILER) or "?" in kind:
            raise ConfigError(f"carver cannot lay out a kernel's parameter of type {kind}")

    def _tensor(self, name: str) -> tuple[str, Tensor]:
        """The tensor that a view, or an iterator over it, is of, and its name."""
        while name not in self.given:
            found = re.search(r"%\w+", self.made.get(name, ""))
            if not found:
                raise ConfigError(f"{name} is no view of a tensor that was given")
            name = found[0]
        return self.names[name], self.given[name]

    def _tensor_map(self, name: str, kind: str) -> tuple[str, TensorMap]:
        """The atom's basis is the box, fastest first, with the axis of the tensor that each of its sizes runs along."""
        source = re.findall(r"%\w+", self.made[name])[0]
        kinds = _parts(self.made[name].partition("> : (")[2].partition(") -> ")[0])
        view, shared = (self.aliases.get(each, each) for each in kinds[:2])
        shape, strides = (_flat(each) for each in _quoted(view).split(":"))
        box, axes = _quoted(kind.partition("tma_gbasis")[2]).split(":")
        along = [int(axis) for axis in re.findall(r"1@(\d+)", axes)]
        if axes.count("@") != len(along) or len(along) != len(shape):
            raise ConfigError(f"carver cannot read the basis of a copy by TMA: {kind}")
        of, tensor = self._tensor(source)
        swizzle = re.search(r"S<(\d),", shared)
        return of, TensorMap(
            tensor, tuple(shape[a] for a in along), tuple(strides[a] * tensor.item_bytes for a in along[1:]),
            tuple(_flat(box)), (1,) * len(along), swizzle=int(swizzle[1]) if swizzle else 0,
        )  # fmt: skip


def _quoted(text: str) -> str:
    return text.split('"')[1]


def _flat(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def _parts(types: str) -> list[str]:
    """Types that commas divide, which have commas inside of brackets and quotes as well."""
    found, depth, quoted = [""], 0, False
    for c in types:
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "<([") - (c in ">)]")
        if c == "," and not depth and not quoted:
            found.append("")
        else:
            found[-1] += c
    return [each.strip() for each in found]
