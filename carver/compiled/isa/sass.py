"""NVIDIA's machine code (SASS) of compute capability 7.0 and later, read without a GPU, and the cubins that hold it.

NVIDIA's `nvdisasm` disassembles the code of a cubin; this module reads what it prints. The tool takes 0.2 seconds to
start and a few milliseconds per kernel, so many kernels go through one call. The upper 64 bits of each encoding hold
the control fields of an instruction: stall count in bits 105 to 108 of the whole, yield in 109, scoreboards in 110 to
112 (results) and 113 to 115 (operands), and the mask of scoreboards to wait for in 116 to 121 (Jia et al., "Dissecting
the NVIDIA Volta GPU Architecture via Microbenchmarking", arXiv 1804.06826, section 2.1)."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ...base.child import signal_name
from ...base.children import finished
from ...base.errors import CompileError, CompilerFailed, DeviceError
from .code import (
    MEMORY,
    Code,
    Control,
    Graph,
    Instruction,
    Loop,
    Resources,
    Step,
    components,
    graph,
    loops,
    optional,
    usual,
)

MACHINE_CUDA = 190
REGISTERS, STACK = 0x2F, 0x12
"""Attributes of `.nv.info`: registers per thread, least size of the stack. Each has a symbol's index and a number."""
PARAMETER, PARAMETER_AGAIN, PARAMETER_BANK, PARAMETERS_BYTES = 0x17, 0x45, 0x0A, 0x19
"""Attributes of `.nv.info.KERNEL`: one parameter (its number, offset and size), in either of two forms; where
parameters start in bank 0; how many bytes they have."""
MOST_THREADS, THREADS, CLUSTER = 0x05, 0x10, 0x3D
"""Attributes of `.nv.info.KERNEL`: the block that a launch must have, the blocks of a cluster. Three numbers each."""
RESERVED_BYTES = 1024
"""Reserved for the system at the start of shared memory since compute capability 9.0; device descriptors count these
bytes separately."""
CONSTANT = ".nv.constant"
"""How sections of constant memory are named, before the number of the bank."""
SIZED = 4
"""Format code of an attribute that states its length; attributes of other formats hold two bytes."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in a cubin. `sm`: compute capability, as 90. `shared_bytes` is static; a launch may add more."""

    name: str
    sm: int
    code: bytes
    registers: int
    stack_bytes: int
    shared_bytes: int
    threads: tuple[int, int, int] = (0, 0, 0)
    """Of the block that a launch must have; zeros where any will do."""
    most_threads: int = 0
    """Of a block, as `__launch_bounds__` says; 0 where it does not."""
    cluster: tuple[int, int, int] = (1, 1, 1)
    """Blocks of a cluster along each axis, where the code says it."""
    parameters_at: int = 0
    """Where its parameters start in constant bank 0."""
    parameters: tuple[tuple[int, int], ...] = ()
    """Offset and size of each, in bytes."""
    parameters_bytes: int = 0
    """Of all of them, with those that the driver adds."""
    banks: Mapping[int, bytes] = field(default_factory=dict)
    """Constant memory, by bank, without the launch's own."""
    constants: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Bank and offset of each symbol in constant memory."""

    def refuses(self, cc: tuple[int, int], threads: int) -> str:
        """Why a device of a compute capability does not run it with so many threads in a block; empty if it does."""
        major, minor = divmod(self.sm, 10)
        if major != cc[0] or minor > cc[1]:
            return f"the code is for compute capability {major}.{minor}, the device has {cc[0]}.{cc[1]}"
        if 0 < self.most_threads < threads:
            return f"its block has {threads} threads, its code is for {self.most_threads} at most (__launch_bounds__)"
        return ""


def kernels(cubin: bytes) -> dict[str, Kernel]:
    """Kernels of a cubin by name, in file order. Raises CompileError if `cubin` is not a cubin."""
    if cubin[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", cubin, 18)[0] != MACHINE_CUDA:
        raise CompileError(f"{len(cubin)} bytes that begin with {cubin[:8]!r} are no cubin")
    try:
        return _kernels(cubin)
    except (struct.error, IndexError, ValueError, KeyError) as error:
        raise CompileError(f"a cubin of {len(cubin)} bytes is cut off or not as expected: {error!r}") from error


def _kernels(cubin: bytes) -> dict[str, Kernel]:
    (table, flags) = struct.unpack_from("<QI", cubin, 40)
    count, names_at = struct.unpack_from("<HH", cubin, 60)
    headers = [struct.unpack_from("<IIQQQQII", cubin, table + 64 * i) for i in range(count)]
    names = headers[names_at][4]
    sections = {_text(cubin, names + h[0]): (h[4], h[5], h[6]) for h in headers}  # offset, size, link
    symbols, _, link = sections[".symtab"]
    strings = headers[link][4]

    def symbol(index: int) -> str:
        return _text(cubin, strings + struct.unpack_from("<I", cubin, symbols + 24 * index)[0])

    facts: dict[tuple[int, str], int] = {}
    start, size, _ = sections[".nv.info"]
    for attribute, value in _attributes(cubin[start : start + size]):
        if len(value) == 8 and attribute in (REGISTERS, STACK):
            index, number = struct.unpack("<II", value)
            facts[attribute, symbol(index)] = number
    order = [_text(cubin, names + h[0]) for h in headers]
    constants = {}
    for at in range(symbols, symbols + sections[".symtab"][1], 24):
        held = struct.unpack_from("<H", cubin, at + 6)[0]
        if held < count and order[held].startswith(CONSTANT) and order[held].removeprefix(CONSTANT).isdigit():
            value = struct.unpack_from("<Q", cubin, at + 8)[0]
            constants[_text(cubin, strings + struct.unpack_from("<I", cubin, at)[0])] = (
                int(order[held].removeprefix(CONSTANT)), value,
            )  # fmt: skip
    constants.pop("", None)
    found = {}
    for section, (start, size, _) in sections.items():
        if section.startswith(".text.") and size:
            name = section.removeprefix(".text.")
            sm = _sm(flags)
            shared = sections.get(f".nv.shared.{name}", (0, 0, 0))[1]
            at, length, _ = sections.get(f".nv.info.{name}", (0, 0, 0))
            threes = ((k, v) for k, v in _attributes(cubin[at : at + length]) if len(v) == 12)
            own: dict[int, tuple[int, int, int]] = {k: struct.unpack("<3I", v) for k, v in threes}
            mine = {number: (offset, packed >> 18 if k == PARAMETER else packed & 0xFFFF)
                    for k, v in _attributes(cubin[at : at + length]) if k in (PARAMETER, PARAMETER_AGAIN)
                    for _, number, offset, packed in [struct.unpack("<IHHI", v)]}  # fmt: skip
            base = [struct.unpack("<IHH", v)[1] for k, v in _attributes(cubin[at : at + length]) if k == PARAMETER_BANK]
            all_bytes = [struct.unpack("<H", v)[0] for k, v in _attributes(cubin[at : at + length])
                         if k == PARAMETERS_BYTES]  # fmt: skip
            found[name] = Kernel(
                name, sm, cubin[start : start + size], facts.get((REGISTERS, name), 0), facts.get((STACK, name), 0),
                max(0, shared - (RESERVED_BYTES if sm >= 90 else 0)), own.get(THREADS, (0, 0, 0)),
                math.prod(own.get(MOST_THREADS, (0,))),
                own.get(CLUSTER, (1, 1, 1)), base[0] if base else 0, tuple(mine[i] for i in sorted(mine)),
                all_bytes[0] if all_bytes else 0, _banks(cubin, sections, name), constants,
            )  # fmt: skip
    return found


def _banks(cubin: bytes, sections: Mapping[str, tuple[int, int, int]], kernel: str) -> dict[int, bytes]:
    """Constant memory that a kernel sees besides bank 0: its own, and that of the whole module."""
    out = {}
    for section, (start, size, _) in sections.items():
        bank, _, owner = section.removeprefix(CONSTANT).partition(".")
        if section.startswith(CONSTANT) and bank.isdigit() and int(bank) and owner in ("", kernel):
            out[int(bank)] = cubin[start : start + size]
    return out


def _sm(flags: int) -> int:
    """Compute capability from the header's flags: the lowest byte; since CUDA 13 the second lowest."""
    low, second = flags & 0xFF, flags >> 8 & 0xFF
    return low if low >= 50 else second


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == SIZED:
            yield attribute, info[at : at + size]
            at += size
        else:
            yield attribute, info[at - 2 : at]


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


INSTRUCTION_BYTES = 16
TIMEOUT_S = 120.0
MOST_LISTED_BYTES = 1 << 30
"""Of a listing: some 200 bytes an instruction."""
LINE = re.compile(
    r"/\*([0-9a-f]{4,})\*/ +(?:@(!?\w+) +)?([A-Z][\w.]*)([^;]*);[^\n]*?"
    r"/\* 0x[0-9a-f]{16} \*/\s+/\* 0x([0-9a-f]{16}) \*/"
)
SCHEDULING = re.compile(r"\s+[&?].*")  # newer disassemblers print the control fields after the operands
TARGET = re.compile(r"\b0x([0-9a-f]+)$")
BRANCHES = {"BRA", "JMP", "BRX", "JMX", "BRXU", "CALL", "RET", "EXIT", "KILL", "BPT", "RTT"}
ADDRESSED = {"BRA", "JMP", "CALL", "BSSY", "WARPSYNC", "RET", "LEPC"}
"""Instructions whose last operand is an address: a branch target, or the point where a warp reconverges."""
WAITING = re.compile(r"TRYWAIT|^NANOSLEEP|^USETMAXREG|^BAR\b")
"""Opcodes that mark a loop that only waits: for a barrier in memory or of the block, for time, or for registers."""
WORKING = re.compile(
    r"^(LDG|STG|STS|LDGSTS|LDTM|STTM|LDSM|STSM|MUFU|RED|REDG|ATOMG|UTMALDG|UTMASTG|UTMAREDG|UBLKCP|UTC\w*MMA|\w*MMA|[FHD](FMA|ADD|MUL)2?)\b"
)


def tool() -> Path:
    """Path of the disassembler: the one that TRITON_NVDISASM_PATH names, as for Triton, else in Triton's wheel, else on
    PATH, else in CUDA_HOME or CUDA_PATH.

    Raises DeviceError if there is none.
    """
    name, found = "nvdisasm", []
    if chosen := os.environ.get("TRITON_NVDISASM_PATH"):
        found.append(Path(chosen))
    if (spec := importlib.util.find_spec("triton")) and spec.origin:
        found.append(Path(spec.origin).parent / "backends" / "nvidia" / "bin" / name)
    if on_path := shutil.which(name):
        found.append(Path(on_path))
    found += [Path(os.environ[home]) / "bin" / name for home in ("CUDA_HOME", "CUDA_PATH") if home in os.environ]
    for path in found:
        if path.is_file():
            return path
    raise DeviceError(
        f"no {name} to read machine code with: looked in Triton's wheel, on PATH, and in CUDA_HOME and CUDA_PATH; "
        "install triton, or the CUDA toolkit"
    )


SAME_ENCODING = {87: 86, 101: 100, 103: 100, 110: 100, 121: 120}
"""Compute capability -> an older one with the same machine code, for disassemblers that do not know the newer one."""


def disassemble(code: bytes, sm: int) -> str:
    """nvdisasm's listing of machine code for compute capability `sm` (as 90), with encodings.

    Raises DeviceError without nvdisasm, CompileError if it cannot read the code.
    """
    target = SAME_ENCODING.get(sm, sm)
    what = f"{len(code)} bytes of machine code of sm_{sm}"
    with tempfile.TemporaryFile() as file:  # of no name: it goes with this process, however that ends
        file.write(code)
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        command = [str(tool()), "-hex", "-ndf", "-b", f"SM{target}{'a' if target >= 90 else ''}", path]
        try:
            done = finished(command, TIMEOUT_S, pass_fds=[file.fileno()], most_bytes=MOST_LISTED_BYTES)
        except subprocess.TimeoutExpired:
            raise CompilerFailed(f"nvdisasm did not read {what} in {TIMEOUT_S:g} s") from None
    if done.returncode:
        why = signal_name(-done.returncode) if done.returncode < 0 else f"exit code {done.returncode}"
        raise CompilerFailed(f"nvdisasm cannot read {what}: {why}", done.stderr.strip())
    return done.stdout


def read(cubin: bytes, kernel: str | None = None) -> Code:
    """Read the kernel named `kernel`, or the only one, from a cubin.

    Raises CompileError if this is not a cubin, or if it has no such kernel, or several and `kernel` is None;
    DeviceError without nvdisasm.
    """
    return read_many([cubin], kernel)[0]


def read_many(cubins: Sequence[bytes], kernel: str | Sequence[str] | None = None) -> list[Code]:
    """`read` for each cubin, with one call of the disassembler per compute capability; `kernel` in all, or in each.
    Raises as `read` does."""
    names = [kernel] * len(cubins) if kernel is None or isinstance(kernel, str) else kernel
    chosen = [_choose(kernels(cubin), name) for cubin, name in zip(cubins, names, strict=True)]
    codes: dict[int, Code] = {}
    for sm in {each.sm for each in chosen}:
        members = [(i, each) for i, each in enumerate(chosen) if each.sm == sm]
        lines = list(_instructions(disassemble(b"".join(each.code for _, each in members), sm)))
        start = 0
        for i, each in members:
            end = start + len(each.code) // INSTRUCTION_BYTES
            codes[i] = _code(each, [_moved(line, start * INSTRUCTION_BYTES) for line in lines[start:end]])
            start = end
        if start != len(lines):
            raise CompilerFailed(f"nvdisasm printed {len(lines)} instructions of {start} that there are")
    return [codes[i] for i in range(len(chosen))]


def _choose(found: dict[str, Kernel], kernel: str | None) -> Kernel:
    if kernel is None and len(found) > 1:
        raise CompileError(f"the code holds several kernels, name one of: {', '.join(sorted(found))}")
    name = kernel or next(iter(found), None)
    if name not in found:
        raise CompileError(f"the code holds no kernel {name or ''!r}, but: {', '.join(sorted(found)) or 'none'}")
    return found[name]


def _moved(each: Instruction, start: int) -> Instruction:
    """An instruction with addresses relative to its kernel, which starts `start` bytes into the disassembled code."""
    if not start:
        return each
    if each.target is None:
        return each._replace(address=each.address - start)
    target = each.target - start
    operands = each.operands.replace(f"0x{each.target:x}", f"0x{target:x}")
    return each._replace(address=each.address - start, operands=operands, target=target)


def parse(listing: str, isa: str) -> Code:
    """Read one kernel from a listing of nvdisasm or cuobjdump with encodings, which states no resources."""
    return _code(Kernel("kernel", int(isa.removeprefix("sm_")), b"", 0, 0, 0), list(_instructions(listing)))


def _code(kernel: Kernel, instructions: Sequence[Instruction]) -> Code:
    instructions = _described(instructions)
    roots, straight, steps = _flow(instructions)
    jumps = {i: s for i, s in steps.items() if instructions[i].mnemonic in ("BRA", "JMP", "EXIT")}
    resources = Resources(
        registers=kernel.registers,
        shared_bytes=kernel.shared_bytes,
        stack_bytes=kernel.stack_bytes,
        spill_bytes=_spilled(instructions),
    )
    aside = optional(jumps, roots, straight)
    places = tuple(kernel.parameters_at + offset for offset, _ in kernel.parameters)
    name = f"sm_{kernel.sm}"
    return Code(
        name, kernel.name, 32, tuple(instructions), resources, roots, straight, aside, parameters=places
    )  # fmt: skip


def _flow(
    instructions: Sequence[Instruction], went: Mapping[int, Collection[int]] | None = None
) -> tuple[tuple[Loop, ...], tuple[int, ...], dict[int, Step]]:
    """Loops, code outside of them, and steps; `went`: where indirect branches go to."""
    place = {each.address: i for i, each in enumerate(instructions)}
    opcodes = [each.opcode for each in instructions]
    steps = usual({i: s for i, each in enumerate(instructions) if (s := _step(each, place))}, opcodes, _reduces)
    for i, to in (went or {}).items():
        steps[i] = replace(steps[i], targets=tuple(sorted(to)), indirect=False)
    return *loops(_switched(steps, opcodes), opcodes, _only_waits), steps


def _switched(steps: Mapping[int, Step], opcodes: Sequence[str]) -> Graph:
    """The graph of code whose switches go to the blocks behind them that nothing else reaches, so that the loops around
    them are loops. A program takes one of them: of those that touch no memory the longest stands for all. Where warps
    wait at a barrier before they are sent there, these are partitions of warps."""
    known = dict(steps)
    found = graph(len(opcodes), known)
    for i in sorted((i for i, step in steps.items() if step.indirect), reverse=True):
        cases = [block for n in found.entries if (block := found.blocks[n])[0] > i]

        def sent(to: Sequence[range], i: int = i) -> Graph:
            known[i] = replace(steps[i], targets=tuple(block[0] for block in to))
            return graph(len(opcodes), known)

        every = sent(cases)
        parts = [[every.blocks[n] for n in part] for part in components(range(len(every.blocks)), every.after)]
        around = next((part for part in parts if any(i in block for block in part)), [])
        if any(opcodes[k].startswith(("BAR", "USETMAXREG")) for block in around for k in block):
            around = []
        cases = [block for block in cases if block in around]
        plain = [block for block in cases if not any(MEMORY.match(opcodes[k]) for k in block)]
        found = sent([each for each in cases if each not in plain or each == max(plain, key=len)])
    return found


def branching(code: Code, went: Mapping[int, Collection[int]]) -> Code:
    """The code with the loops that it has if its indirect branches go to these places."""
    return replace(code, loops=_flow(code.instructions, went)[0]) if went else code


@lru_cache(maxsize=4096)
def control(bits: int) -> Control:
    """Decode the 21 control bits of an instruction. A set yield bit means not to yield."""
    write, read_ = bits >> 5 & 7, bits >> 8 & 7
    return Control(
        bits & 15, not bits >> 4 & 1, None if write == 7 else write, None if read_ == 7 else read_, bits >> 11 & 63
    )


def _instructions(listing: str) -> Iterator[Instruction]:
    for address, predicate, opcode, operands, high in LINE.findall(listing):
        operands = operands.strip()  # noqa: PLW2901
        if "&" in operands or "?" in operands:
            operands = SCHEDULING.sub("", f" {operands}").strip()  # noqa: PLW2901
        target = None
        if opcode.partition(".")[0] in ADDRESSED and (found := TARGET.search(operands)):
            target = int(found[1], 16)
        bits = int(high, 16) >> 41 & 0x1FFFFF
        yield Instruction(int(address, 16), predicate, opcode, operands, control(bits), target)


def _described(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Add the descriptor of each tcgen05 instruction: the constant last moved to the uniform register that it names."""
    known: dict[str, int] = {}
    found = list(instructions)
    for i, each in enumerate(instructions):
        if not each.opcode.startswith("U"):
            continue
        target, _, value = each.operands.partition(", ")
        if each.opcode.startswith("UTC"):
            if named := re.search(r"idesc\[(UR\d+)\]", each.operands):
                found[i] = each._replace(descriptor=known.get(named[1]))
        elif each.opcode == "UMOV" and value.startswith("0x"):
            known[target] = int(value, 16)
        elif known:
            for name in registers(each.opcode, each.operands)[1]:
                known.pop(name, None)
    return found


def _step(each: Instruction, place: dict[int, int]) -> Step | None:
    """Successors of a branch; None for an instruction that only falls through."""
    kind = each.mnemonic
    if kind not in BRANCHES:
        return None
    target = (place[each.target],) if each.target in place else ()
    always = each.predicate in ("", "PT", "UPT")
    if kind in ("BRA", "JMP"):  # a second operand is a condition as well
        return Step(not always or "," in each.operands or ".DIV" in each.opcode, target)
    if kind in ("BRX", "JMX", "BRXU"):
        return Step(not always, (), indirect=True)
    if kind == "CALL":  # the callee returns to the next instruction
        return Step(True, () if ".ABS" in each.opcode else target)
    return Step(not always, ())


def _only_waits(opcodes: Sequence[str]) -> bool:
    if all(op.partition(".")[0] in ("BRA", "NOP") for op in opcodes):  # padding after the end, never executed
        return True
    return any(map(WAITING.search, opcodes)) and not any(map(WORKING.match, opcodes))


TABLE = re.compile(r"STL|LDL|LDC|LDG\S*\.CONSTANT")
ELSE = re.compile(r"[A-Z]+MMA|IDP|SHFL|LDG\S*\.128")
"""What large arguments of a sine take of memory: the stack, and a table of constants; and what they do not take."""


def _reduces(opcodes: Sequence[str]) -> bool:
    """Whether this is how a sine or a cosine reduces an argument above 105,615: a loop multiplies it with the digits of
    2/pi, from a table, into an array on the stack (Payne and Hanek, SIGNUM Newsletter 18, 1983)."""
    touched = [op for op in opcodes if MEMORY.match(op)]
    if "STL" not in touched and "I2F.F64.S64" not in opcodes:  # the array may be in registers
        return False
    if any(map(ELSE.match, opcodes)):  # of loads that the compiler takes for constant, or none, with spills
        return False
    return "BRA" in opcodes and bool(touched) and all(map(TABLE.match, touched))


def rare(opcodes: Sequence[str], within: bool) -> bool:
    """Whether code that a branch may pass by is for rare arguments: the slow path of a division or a root, which is a
    call of a function that touches no memory, or of a sine. `within`: that code has a loop, or a branch that passes by
    a slow path itself, so that it has the usual one as well."""
    calls = not within and any(op.startswith("CALL.") for op in opcodes)
    return _reduces(opcodes) or (calls and not any(map(MEMORY.match, opcodes)))


STACK_SLOT = re.compile(r"\[R1(?:\+(-?0x[0-9a-f]+))?\]")


def _spilled(instructions: Sequence[Instruction]) -> int:
    """Bytes per thread that are both stored and loaded at the stack pointer (R1) plus a constant. Local arrays are left
    out, since their addresses also have an index."""
    slots: dict[str, set[int]] = {"STL": set(), "LDL": set()}
    for each in instructions:
        if each.mnemonic in slots and (found := STACK_SLOT.search(each.operands)):
            start = int(found[1] or "0", 16)
            slots[each.mnemonic].update(range(start, start + width_bytes(each.opcode)))
    return len(slots["STL"] & slots["LDL"])


VECTOR = re.compile(r"\.B?F(16|32)x(\d)(?=\.|$)")
"""Elements of an atomic on several at once."""
DOUBLE = re.compile(r"^(RED|ATOM)\w*\.(\w+\.)*F64(?=\.|$)")
"""Atomics on doubles, whose code names no width besides; conversions name both of their kinds."""
WIDTH = re.compile(r"\.(?:[US]?(8|16|64|128)|ENL2\.(256))(?=\.|$)")


def width_bytes(opcode: str) -> int:
    """Bytes per thread of a memory access, from the opcode's modifiers; 4 if they state no width."""
    if found := VECTOR.search(opcode):
        return int(found[1]) * int(found[2]) // 8
    found = WIDTH.search(opcode)
    return int(found[1] or found[2]) // 8 if found else 8 if DOUBLE.match(opcode) else 4


NO_RESULT = re.compile(
    r"^(ST\w*|RED\w*|LDGSTS|UTMA\w*|UTC\w*|UBLK\w*|BAR|BRA|BRX|BRXU|JMP|JMX|CALL|RET|EXIT|BSYNC|BREAK|WARPSYNC|WARPGROUP|"
    r"NOP|DEPBAR|LDGDEPBAR|MEMBAR|ERRBAR|CCTL\w*|FENCE|NANOSLEEP|YIELD|BPT|KILL|USETMAXREG|ENDCOLLECTIVE|UVIRTCOUNT|PREEXIT|ACQBULK)$"
)
REGISTER = re.compile(r"\b(U?R|U?P|B)(\d+)((?:\.\w+)*)")
PREDICATE = re.compile(r"^!?U?P(\d|T)$")
FUNNEL = frozenset({"SHF", "USHF"})
"""Shifts of a pair of registers: one is the result, whatever the width that is shifted."""


@lru_cache(maxsize=65536)
def registers(opcode: str, operands: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the registers that an instruction reads, and of those that it writes, without RZ and PT.

    Pairs and quads are expanded if a modifier states the width. Operands of matrix instructions are named by their
    first register only. The predicate that guards the instruction is not included.
    """
    parts = [part.strip() for part in re.split(r",(?![^\[{]*[\]}])", operands)] if operands else []
    kind = opcode.partition(".")[0]
    results = 0
    if not NO_RESULT.match(kind) and parts:
        results = 1
        second = len(parts) > 1 and not parts[1].startswith("!")
        if second and (PREDICATE.match(parts[1]) or (PREDICATE.match(parts[0]) and re.match(r"^U?R\w+$", parts[1]))):
            results = 2
    wide = 2 if ".WIDE" in opcode or (kind == "CS2R" and ".32" not in opcode) else max(1, width_bytes(opcode) // 4)
    wide = 1 if kind in FUNNEL else wide
    written = [name for part in parts[:results] for name in _names(part, wide)]
    data = wide if kind.startswith("ST") else 1
    read_ = [name for part in parts[results:] for name in _names(part, 1 if "[" in part else data)]
    return tuple(dict.fromkeys(read_)), tuple(dict.fromkeys(written))


def _names(operand: str, wide: int) -> Iterator[str]:
    for found in REGISTER.finditer(operand):
        file, first = found[1], int(found[2])
        count = 1 if file in ("P", "UP", "B") else 2 if ".64" in found[3] else wide
        yield from (f"{file}{first + i}" for i in range(count))
