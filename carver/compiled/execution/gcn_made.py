"""How AMD's register operations become an `Op`, and what is written where there is no rule for one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..isa.code import Instruction
from .gcn_arithmetic import doubts, kept
from .gcn_operands import EXEC, Operands, put, registers
from .lanes import WORD, Column, Value, known_in, number
from .ops import Op, Thread

MATRIX = re.compile(r"v_(mfma|smfmac|wmma|swmmac|dot\d)")
CARRIES = re.compile(r"(?:s|v(?=\w*_co_))_(add|sub)(c|b)?(rev)?(?:_co)?(_ci)?_u32")


def made(each: Instruction, o: Operands, run: Any, writes: Sequence[str], *, masked: bool = True, **more: Any) -> Op:
    """A register operation; `masked`: of the lanes that take part only."""
    guard = EXEC if masked else ""
    reads = frozenset(o.reads | ({EXEC} if masked else set()))
    return Op(each.address, "alu", run, reads, frozenset(writes), guard, frozenset({guard} - {""}), **more)


def poison(each: Instruction, o: Operands, masked: bool) -> Op:
    """Of an instruction for which there is no rule."""
    count = 2 if len(o.parts) > 1 and CARRIES.match(each.opcode) else 1
    writes = [name for part in o.parts[:count] for name in registers(part)]
    read = [name for part in o.parts[count:] for name in registers(part.strip("-|"))]
    o.reads.update(read)
    if each.opcode.startswith("s_"):
        writes.append("scc")

    def run(thread: Thread) -> None:
        # products of matrices are data, and so is what comes of data
        if not MATRIX.match(each.opcode) and all(thread.get(name) is not None for name in read):
            thread.lost(each.opcode, writes)
        for name in writes:
            thread.set(name, None)

    return made(each, o, run, writes, masked=masked, named=each.opcode)


def computed(
    thread: Thread, each: Instruction, stem: str, types: Sequence[str], compute: Any, values: Sequence[Value],
    names: Sequence[str], sets: bool,
) -> None:  # fmt: skip
    """Write what an instruction computes, and note what it depends on."""
    columns = [value for value in values if value is not None]
    if len(columns) < len(values) or compute is None:
        for name in (*names, *(["scc"] if sets else [])):
            thread.set(name, None)
        return
    bits, known = [column.bits for column in columns], known_in(columns)
    with np.errstate(all="ignore"):
        value = np.atleast_1d(compute(*bits))
        kind = types[-1] if types else "b32"
        for how, *what in doubts(stem, kind, bits, value, len(names) == 2):
            thread.note(each.address, how, *(Column(np.atleast_1d(x), known) for x in what))
        out = kept(value, types[0] if types else "b32")
    put(thread, names, out, known)
    if sets:
        if stem in ("min", "max"):
            thread.set("scc", Column(np.atleast_1d(value == bits[0]), known))
        elif types and types[-1] == "i32" and stem in ("add", "sub", "addk"):
            thread.set("scc", Column(np.atleast_1d(value != (value & WORD ^ 1 << 31) - (1 << 31)), known))
        else:
            word = out if len(names) == 2 else out & WORD
            thread.note(each.address, "NE", Column(word, known), number(0))
            thread.set("scc", Column(np.atleast_1d(word != 0), known))
