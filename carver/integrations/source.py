"""CUDA and HIP C++: a `carver.Kernel` as machine code with its launch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ..arch.descriptor import Arch, blocks_that_fit
from ..base.errors import CompileError, ConfigError, nearest
from ..base.given import whole
from ..base.store import unpack
from ..base.table import several
from ..base.types import Record
from ..compiled.binary import Binary, Tensor, passed
from ..compiled.facts import code_lines
from ..compiled.isa.sass import kernels
from ..compiled.machine import Machine, read_machines, unit_rates
from ..compiled.triton import called
from ..run.compile import compile_source, cuda_compiler, for_amd, hip_compiler
from ..run.render import Source
from ..run.spec import HintKernel, Kernel, dim3


def binary(kernel: Kernel, config: Mapping[str, Any], *, args: Any, grid: Any, block: Any, arch: Arch) -> Binary:
    """Compile a source with the configuration as further macros: by nvcc or NVRTC, for AMD by clang.

    `args`: tensors and numbers by name or in the order of the function's parameters; a Python int is passed as a C
    `int` if it fits one, a float as a `float`, a tuple as a struct (`Struct.of`). Without them the kernel's `params`
    and `scalars` say what it takes. Grid and block are the kernel's own unless given. Raises CompileError.
    """
    if kernel.is_triton or kernel.kind != "cuda":
        raise ConfigError(f"{kernel.name} is neither CUDA nor HIP C++: give a Triton function itself")
    given = replace(kernel, defines={**kernel.defines, **config})
    written = given.compiled_from(arch)
    text = written.path.read_text(encoding="utf-8", errors="replace")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    # what only the launch reads would be put into headers of the system that use the word; own headers may read it
    if not re.search(r'#\s*include\s*"', text) and not any(flag.startswith("-I") for flag in written.flags):
        unread = config.keys() - kernel.defines.keys() - set(re.findall(r"\w+", f"{text} {kernel.entry}"))
        written = replace(written, defines={k: v for k, v in written.defines.items() if k not in unread})
    source = instantiated(written, kernel.entry)
    if arch.vendor == "amd":
        compiler = hip_compiler()
        source = for_amd(source, compiler)
    elif arch.vendor == "nvidia":
        compiler = cuda_compiler()
    else:
        raise ConfigError(f"{kernel.name} is compiled for GPUs of NVIDIA and AMD, not for {arch.title}")
    try:
        code = compile_source(source, compiler).checked().read_bytes()
    except CompileError as error:
        parameters = re.findall(r"\w+", " ".join(re.findall(r"\btemplate\s*<([^>]*)>", text)))
        if hidden := sorted({*written.defines}.intersection(parameters)):
            raise CompileError(f"parameters of a template have the names of macros, which are put in their place: "
                               f"rename {', '.join(hidden)} in one of the two") from error  # fmt: skip
        if f"{arch.isa}'" not in error.log or "invalid target ID" not in error.log:
            raise
        raise CompileError(
            f"{compiler.version} does not know {arch.isa}: install a newer clang (gfx950 and gfx1250 came with 20 and "
            "22), and name it by CARVER_HIP_CLANG, or give carver.Binary what another compiler makes"
        ) from None
    if isinstance(args, Mapping):
        args = ordered(args, text, kernel.entry)
    added = given.shared_bytes
    if callable(added):
        added = called("shared_bytes", added, {**(args if isinstance(args, Mapping) else {}), **given.defines})
    if isinstance(args, Mapping):
        names, values = tuple(args), tuple(args.values())
    else:
        values = tuple(args)
        names = next((each for each in named(text, kernel.entry) if len(each) == len(values)), ())
    return Binary(
        code, symbol(code, kernel.entry, unset(text, written.defines)), tuple(map(passed, values or _declared(given))),
        kernel.launch.counts({}) if grid is None else dim3("grid", grid),
        dim3("block", kernel.block if block is None else block), added, names=names,
    )  # fmt: skip


def ordered(args: Mapping[str, Any], text: str, entry: str) -> Mapping[str, Any]:
    """Arguments in the order of the parameters of the same names in the source; of other names, as they are given.
    Raises ConfigError where some of as many have a parameter's name and others none.

    `text`: the source without its comments.
    """
    for names in named(text, entry):
        if sorted(names) == sorted(args):
            return {name: args[name] for name in names}
        other = args.keys() - set(names)
        if len(names) == len(args) > len(other):
            raise ConfigError(f"{entry} has no parameter {min(other)!r}; {nearest(min(other), names)}")
    return args


def named(text: str, entry: str) -> Iterator[tuple[str, ...]]:
    """The names of a function's parameters, of each of its definitions in a source without comments."""
    name = re.escape(entry.partition("<")[0].rpartition("::")[2].strip())
    for listed in re.findall(rf"\b{name}\s*\(([^()]*)\)\s*\{{", text):
        last = [re.findall(r"\w+", re.sub(r"[=\[].*", "", each))[-1:] for each in listed.split(",")]
        yield tuple(word for each in last for word in each)


def instantiated(source: Source, entry: str) -> Source:
    """The source with the function that a template makes of some arguments: `scale<float, BX>`."""
    if "<" not in entry:
        return source
    text = f'#include "{source.path}"\n[[maybe_unused]] static auto* const carver_entry = &{entry};\n'
    return replace(source, path=unpack({f"entry{source.path.suffix}": text.encode()}))


def unset(text: str, given: Iterable[str]) -> list[str]:
    """Macros by which a source leaves parts of itself out, and that it is neither given nor defines."""
    conditions = re.findall(r"^\s*#\s*(?:el)?if\w*(.*)", text, re.M)
    written = re.findall(r"^\s*#\s*define\s+(\w+)", text, re.M)
    return sorted({*re.findall(r"\b[A-Za-z]\w*", " ".join(conditions))}.difference(("defined",), given, written))


MANGLED = {
    "bool": "b", "char": "c", "signed char": "a", "int8_t": "a", "unsigned char": "h", "uint8_t": "h", "short": "s",
    "int16_t": "s", "unsigned short": "t", "uint16_t": "t", "int": "i", "int32_t": "i", "unsigned": "j",
    "unsigned int": "j", "uint32_t": "j", "long": "l", "int64_t": "l", "unsigned long": "m", "size_t": "m",
    "uint64_t": "m", "long long": "x", "unsigned long long": "y", "float": "f", "double": "d", "half": "6__half",
}  # fmt: skip
"""Types in names of C++ functions (Itanium C++ ABI, 5.1.5)."""


def arguments_of(entry: str) -> str:
    """A pattern of the arguments of a template in the name of what it makes, `ILi4EfE` of `<4, float>`; of a name that
    is no type above, a macro or a type of the source, anything."""
    listed = [" ".join(each.split()) for each in entry.partition("<")[2].rpartition(">")[0].split(",")]
    values = {"true": "1", "false": "0"}

    def pattern(text: str) -> str:
        text = values.get(text, text)
        if re.fullmatch(r"-?\d+", text):
            return f"L[a-z]{text.replace('-', 'n')}E"
        return MANGLED.get(text) or rf"(?:{len(text)}{re.escape(text)}|L?\w+?E?)"

    return f"I{''.join(map(pattern, listed))}E"


def symbol(code: bytes, entry: str, missing: Sequence[str]) -> str:
    """How the code names a function: as the source does, or with its types after it. Raises CompileError.

    `missing`: macros without which the source may have left it out.
    """
    if code.startswith(b"\x7fELF"):
        names = list(kernels(code))
    else:
        names = re.findall(r"^\s*\.amdhsa_kernel (\S+)", code.decode(), re.M)
    parts = entry.partition("<")[0].strip().split("::")
    mangled = f"_Z{'N' if len(parts) > 1 else ''}{''.join(f'{len(part)}{part}' for part in parts)}"
    found = [name for name in names if name == entry or name.startswith(mangled)]
    if len(found) > 1 and "<" in entry:
        found = [name for name in found if re.match(mangled + arguments_of(entry), name)] or found
    if len(found) != 1:
        names = found or names
        many = "no kernel" if not found else f"{len(found)} kernels"
        more = "" if names else f"; the arguments of a template are named as in {entry}<float, 256>"
        if missing and not found:
            more += f"; its source asks for macros that defines= and configurations do not give: {', '.join(missing)}"
        raise CompileError(f"the code holds {many} {entry!r}, but: {', '.join(names) or 'none'}{more}")
    return found[0]


def _declared(kernel: Kernel) -> list[Any]:
    params: Any = kernel.params or ()
    if any(p.by_value for p in params):
        raise ConfigError(f"{kernel.name} is given numbers at each call; give args")
    _, scalars = kernel.numbers(params)
    return [*(Tensor(p.dtype, p.extents) for p in params), *scalars]


class CodeFacts(Record):
    """What is known of one function of a CUDA source on one device. How often its loops run is not known."""

    name: str
    threads: int
    """Of a block."""
    shared_bytes: int
    """Of a block, those that its launch asks for among them."""
    resident: int
    """Blocks that an SM holds; 0 where a block does not fit."""
    machine: Machine

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def functions(kernel: Kernel | HintKernel, arch: Arch) -> tuple[CodeFacts, ...]:
    """What the machine code of a CUDA source says of each function that is launched."""
    if kernel.is_triton:
        raise ConfigError("give the Triton function of the carver.Kernel itself, with args=, config= and grid=")
    if kernel.kind != "cuda":
        raise ConfigError(
            f"{kernel.name} is a {kernel.kind} kernel; inspect takes CUDA sources, and Triton functions with args=, "
            "config= and grid="
        )
    if arch.vendor != "nvidia":
        raise ConfigError(f"without args, grid and block a source is read for NVIDIA's GPUs alone, not {arch.title}")
    if isinstance(kernel, HintKernel):
        program = kernel.program((), arch)
        calls = {call.entry: (prod(call.threads), call.dynamic_smem_bytes) for call in program.calls}
        return _read(program.source, calls, arch)
    calls = {kernel.entry: (prod(dim3("block", kernel.block)), whole("shared_bytes", kernel.shared_bytes, ConfigError))}
    return _read(kernel.compiled_from(arch), calls, arch)


def _read(source: Source, calls: Mapping[str, tuple[int, int]], arch: Arch) -> tuple[CodeFacts, ...]:
    """`calls`: threads of a block and bytes that the launch adds to its shared memory, by function."""
    cubin = compile_source(source, cuda_compiler()).checked().read_bytes()
    found = []
    for name, (threads, added) in calls.items():
        [machine] = read_machines([cubin], arch.isa, unit_rates(arch), name)
        shared_bytes = added + kernels(cubin)[name].shared_bytes
        fitting = blocks_that_fit(arch, -(-threads // arch.warp_size), shared_bytes, machine.registers)
        resident = fitting if threads <= arch.max_threads_per_block else 0
        found.append(CodeFacts(name, threads, shared_bytes, resident, machine))
    return tuple(found)


def _lines(facts: CodeFacts) -> Iterator[str]:
    machine = facts.machine
    spills = f", {machine.spill_bytes} bytes per thread spilled" if machine.spill_bytes else ""
    yield (
        f"{facts.name}: {facts.shared_bytes:,} bytes of shared memory, {machine.registers} registers per thread"
        f"{spills}, {several(facts.threads, 'thread')}, {several(facts.resident, 'block')} per SM"
    )
    loops = [(loop.parent, f"loop {i}, each pass", loop.span) for i, loop in enumerate(machine.loops)]
    asides = [("behind a branch", aside.span) for aside in machine.asides]
    yield from code_lines(loops, [*asides, ("outside of loops", machine.straight)])
