"""Read NVIDIA machine code (SASS) of compute capability 7.0 and later, without a GPU.

NVIDIA's `cuobjdump` disassembles a cubin; this module reads what it prints. The upper 64 bits of each encoding hold the
control fields of an instruction: stall count in bits 105 to 108 of the whole, yield in 109, scoreboards in 110 to 112
(results) and 113 to 115 (operands), and the mask of scoreboards to wait for in 116 to 121 (Jia et al., "Dissecting the
NVIDIA Volta GPU Architecture via Microbenchmarking", arXiv 1804.06826, section 2.1).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from carver.base.errors import CompileError, DeviceError

from .code import Code, Control, Instruction, Resources
from .flow import Step, graph, loops

LINE = re.compile(
    r"/\*([0-9a-f]{4,})\*/ +(?:@(!?\w+) +)?([A-Z][\w.]*)([^;]*);[^\n]*?/\* 0x[0-9a-f]{16} \*/\s+/\* 0x([0-9a-f]{16}) \*/"
)
SCHEDULING = re.compile(r"\s+[&?].*")  # newer disassemblers write the control fields out behind the operands
TARGET = re.compile(r"\b0x([0-9a-f]+)$")
BRANCHES = {"BRA", "JMP", "BRX", "JMX", "BRXU", "CALL", "RET", "EXIT", "KILL", "BPT", "RTT"}
WAITING = re.compile(r"TRYWAIT|^NANOSLEEP|^USETMAXREG|^BAR\b")
"""Marks of a loop that only waits: for a barrier, in memory or of the block, for time, or for registers."""
WORKING = re.compile(
    r"^(LDG|STG|STS|LDGSTS|LDTM|STTM|LDSM|STSM|MUFU|RED|REDG|ATOMG|UTMALDG|UTMASTG|UTMAREDG|UBLKCP|UTC\w*MMA|\w*MMA|[FHD](FMA|ADD|MUL)2?)\b"
)


def tool(name: str = "cuobjdump") -> Path:
    """The disassembler: of Triton's wheel, else on PATH, else in CUDA_HOME or CUDA_PATH.

    Raises DeviceError where there is none.
    """
    found = []
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


def disassemble(cubin: bytes, timeout_s: float = 60.0) -> str:
    """What cuobjdump prints of a cubin: code with encodings, and resource usage.

    Raises DeviceError where there is no cuobjdump, CompileError where it cannot read `cubin`.
    """
    with tempfile.TemporaryDirectory(prefix="carver-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [tool(), "-sass", "-res-usage", path], capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise CompileError(f"cuobjdump did not read {len(cubin)} bytes of machine code in {timeout_s:g} s") from None
    if done.returncode:
        raise CompileError(f"cuobjdump cannot read {len(cubin)} bytes of machine code", done.stderr.strip())
    return done.stdout


def read(cubin: bytes, kernel: str | None = None) -> Code:
    """The kernel named `kernel`, or the only one, of a cubin. Raises what `disassemble` and `parse` do."""
    return parse(disassemble(cubin), kernel)


def parse(listing: str, kernel: str | None = None) -> Code:
    """The kernel named `kernel`, or the only one, of what `cuobjdump -sass -res-usage` printed.

    Raises CompileError where the listing holds no such kernel, or several and `kernel` is None.
    """
    arch = re.search(r"code for (sm_\d+)", listing)
    parts = re.split(r"^\s*Function : (\S+)\s*$", listing, flags=re.MULTILINE)
    named = dict(zip(parts[1::2], parts[2::2], strict=True))
    if not arch or not named:
        raise CompileError("cuobjdump printed no machine code", listing[:400])
    if kernel is None and len(named) > 1:
        raise CompileError(f"the code holds several kernels, name one of: {', '.join(sorted(named))}")
    name = kernel or next(iter(named))
    if name not in named:
        raise CompileError(f"the code holds no kernel {name!r}, but: {', '.join(sorted(named))}")
    instructions = tuple(_instructions(named[name]))
    place = {each.address: i for i, each in enumerate(instructions)}
    flow = graph(len(instructions), {i: s for i, each in enumerate(instructions) if (s := _step(each, place))})
    roots, straight = loops(flow, lambda body: _only_waits(instructions, body))
    usage = re.search(rf"Function {re.escape(name)}:\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", parts[0])
    registers, stack, shared = map(int, usage.groups()) if usage else (0, 0, 0)
    resources = Resources(
        registers=registers,
        shared_bytes=shared,
        stack_bytes=stack,
        spill_bytes=_spilled(instructions),
        barriers=_barriers(instructions),
    )
    return Code(arch[1], name, 32, instructions, resources, roots, straight)


@lru_cache(maxsize=4096)
def control(bits: int) -> Control:
    """Fields of the 21 control bits of an instruction; the yield bit says not to yield."""
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
        if opcode.partition(".")[0] in BRANCHES and (found := TARGET.search(operands)):
            target = int(found[1], 16)
        yield Instruction(int(address, 16), predicate, opcode, operands, control(int(high, 16) >> 41 & 0x1FFFFF), target)


def _step(each: Instruction, place: dict[int, int]) -> Step | None:
    """Where a branch leads; None of what only falls through."""
    kind = each.mnemonic
    if kind not in BRANCHES:
        return None
    target = (place[each.target],) if each.target in place else ()
    always = each.predicate in ("", "PT", "UPT")
    if kind in ("BRA", "JMP"):  # a second operand is a condition, too
        return Step(not always or "," in each.operands or ".DIV" in each.opcode, target)
    if kind in ("BRX", "JMX", "BRXU"):
        return Step(not always, (), indirect=True)
    if kind == "CALL":  # what is called returns to the next instruction
        return Step(True, () if ".ABS" in each.opcode else target)
    return Step(not always, ())


def _only_waits(instructions: Sequence[Instruction], body: Sequence[int]) -> bool:
    opcodes = [instructions[i].opcode for i in body]
    if all(op.partition(".")[0] in ("BRA", "NOP") for op in opcodes):  # behind the end: never run
        return True
    return any(map(WAITING.search, opcodes)) and not any(map(WORKING.match, opcodes))


def _spilled(instructions: Sequence[Instruction]) -> int:
    """Bytes a thread of the slots that the stack pointer (R1) and a constant address. Arrays are indexed by registers."""
    slots: set[int] = set()
    for each in instructions:
        if each.opcode.startswith("STL") and (found := re.match(r"\[R1(?:\+(-?0x[0-9a-f]+))?\]", each.operands)):
            start = int(found[1] or "0", 16)
            slots.update(range(start, start + width_bytes(each.opcode)))
    return len(slots)


def _barriers(instructions: Sequence[Instruction]) -> int:
    """One more than the highest barrier of the block that is named."""
    named = [int(found[1], 16) for each in instructions
             if each.mnemonic == "BAR" and (found := re.match(r"(?:0x)?([0-9a-f]+)\b", each.operands))]  # fmt: skip
    return max(named, default=-1) + 1


WIDTH = re.compile(r"\.(?:[US]?(8|16|64|128)|ENL2\.(256))(?=\.|$)")


@lru_cache(maxsize=4096)
def width_bytes(opcode: str) -> int:
    """Bytes a thread of a memory access, from the modifiers; 4 where they name no width."""
    found = WIDTH.search(opcode)
    return int(found[1] or found[2]) // 8 if found else 4


NO_RESULT = re.compile(
    r"^(ST\w*|RED\w*|LDGSTS|UTMA\w*|UTC\w*|UBLK\w*|BAR|BRA|BRX|BRXU|JMP|JMX|CALL|RET|EXIT|BSYNC|BREAK|WARPSYNC|WARPGROUP|"
    r"NOP|DEPBAR|LDGDEPBAR|MEMBAR|ERRBAR|CCTL\w*|FENCE|NANOSLEEP|YIELD|BPT|KILL|USETMAXREG|ENDCOLLECTIVE|UVIRTCOUNT|PREEXIT|ACQBULK)$"
)
REGISTER = re.compile(r"\b(U?R|U?P|B)(\d+)((?:\.\w+)*)")
PREDICATE = re.compile(r"^!?U?P(\d|T)$")


@lru_cache(maxsize=65536)
def registers(opcode: str, operands: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the registers that an instruction reads and of those that it writes, without zero and true ones.

    Pairs and quads are expanded where a modifier states the width; operands of matrix instructions are named by their
    first register only. A predicate that guards the instruction is not among them.
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
    written = [name for part in parts[:results] for name in _names(part, wide)]
    data = wide if kind.startswith("ST") else 1
    read_ = [name for part in parts[results:] for name in _names(part, 1 if "[" in part else data)]
    return tuple(dict.fromkeys(read_)), tuple(dict.fromkeys(written))


def _names(operand: str, wide: int) -> Iterator[str]:
    for found in REGISTER.finditer(operand):
        file, first = found[1], int(found[2])
        count = 1 if file in ("P", "UP", "B") else 2 if ".64" in found[3] else wide
        yield from (f"{file}{first + i}" for i in range(count))
