"""Conflicts of the LDS's banks in AMD's assembly, from the addresses of lanes: as `warp` has those of NVIDIA's code.

The instructions that addresses depend on are executed once, in the order of the code, for a kernel's first wave; where
only a branch leads, with its registers. What is the same in all lanes and not known is taken to be 0, since it moves
all addresses alike. An access whose address depends on loaded data is assumed to be free of conflicts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..isa.banks import mean_passes
from ..isa.code import Code
from .gcn import decoded
from .gcn_operands import EXEC
from .lanes import TRUE, ZERO, Array, Column, Op, Value, alike

PRODUCTS = re.compile(
    r"v_(?:dual_)?(?:(?:pk_)?(?:fma|mul|add)\w*_f(?:16|32)|\w*mfma|wmma)(?!.* :: v_dual_(?!fma|mul_f|add_f))"
)
"""Of floats and matrices, which no address is computed of: they are passed over."""


def lds_passes(code: Code) -> dict[int, float]:
    """Passes over the banks by the index of an access, over those that its bytes need, where they are not as many."""
    if code.isa == "gfx950" or not any(each.opcode.startswith("ds_") for each in code.instructions):
        return {}  # how lanes take turns over CDNA 4's 64 banks is not published
    kept = tuple(each._replace(opcode="s_nop") if PRODUCTS.match(f"{each.opcode} {each.operands}") else each
                 for each in code.instructions)  # fmt: skip
    ops, wave, found = decoded(replace(code, instructions=kept)), Wave(code.warp_size), dict[int, float]()
    held: dict[int | None, dict[str, Value]] = {}  # by where branches lead
    needed = set(_addressing(ops))
    for i, op in enumerate(ops):
        if i and not _falls(ops[i - 1]) and i in held:  # another way than the code right before
            wave.held = held[i]
        if op.kind == "branch":
            held[op.target] = dict(wave.held)
        if i not in needed:
            continue
        if op.kind == "shared" and op.access != "atomic":
            at = op.at(wave)
            if at is not None and at.known is None:
                lanes = np.flatnonzero(np.broadcast_to(wave.get(EXEC).bits, code.warp_size))  # type: ignore[union-attr]
                places = np.broadcast_to(at.bits, code.warp_size)[lanes]
                n = mean_passes(code.instructions[i], np.zeros(len(lanes), np.int64), lanes, places, 1, code.warp_size)
                if n != 1.0:
                    found[i] = n
        wave.execute(op)
    return found


def _falls(op: Op) -> bool:
    """Whether control may go on to the next instruction."""
    return op.kind != "exit" and (op.kind != "branch" or bool(op.conditions))


def _addressing(ops: Sequence[Op]) -> list[int]:
    """Indices of the accesses of LDS, and of the instructions that compute their addresses and masks."""
    needed, found = {EXEC}, []
    for i in reversed(range(len(ops))):
        op = ops[i]
        if op.kind == "shared":
            needed |= op.reads
        elif needed.isdisjoint(op.writes):
            continue
        else:
            needed |= op.reads
        found.append(i)
    return found[::-1]


class Wave:
    """Lanes of the first wave, as `lanes.Thread` has them. Where no lane is known to take part, all do."""

    notes = False

    def __init__(self, size: int) -> None:
        self.lanes = np.arange(size)
        self.held: dict[str, Value] = {"v0": Column(self.lanes)}
        self.under: dict[str, dict[str, Value]] = defaultdict(dict)

    def get(self, name: str) -> Value:
        found = self.held.get(name, ZERO)
        if not name.startswith("exec"):
            return found
        return found if found is not None and found.bits.dtype == bool and found.bits.any() else TRUE

    def set(self, name: str, value: Value) -> None:
        self.held[name] = value if value is not None and value.known is None else None

    def execute(self, op: Op) -> None:
        """Update what the registers that it writes hold."""
        same = all(alike(self.get(name)) for name in op.reads if not name.startswith("exec"))
        if op.run:
            op.run(self)
        for name in op.writes:
            if not op.run or self.held.get(name) is None:
                self.held[name] = ZERO if same and (op.run or op.kind == "global") else None

    def note(self, *_: object) -> None:
        """Outcomes are of no use."""

    lost = takes_columns = note

    def constant(self, bank: int, offsets: Column) -> Value:
        return ZERO

    def special(self, name: str) -> Value:
        return Column(self.lanes)

    def ballot(self, holds: Array) -> Array:
        return (np.broadcast_to(holds, len(self.lanes)).astype(np.int64) << self.lanes).sum(keepdims=True)

    def matched(self, values: Array) -> Array:
        return values == values[:1]

    def leader(self) -> Array:
        return self.lanes * 0

    def leads(self) -> Array:
        return self.lanes == 0

    def shuffled(self, values: Array, lanes: Array) -> Array:
        return np.broadcast_to(values, len(self.lanes))[lanes % len(self.lanes)]
