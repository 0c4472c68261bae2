"""Machine code of one kernel as records: instructions, what it holds, its loops.

The readers (`sass`, `gcn`) make these of a compiler's output. Indices count instructions from 0 in the order of the
code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Waits = tuple[tuple[frozenset[str], int], ...]
"""Of an AMD wait: sets of counters that share one limit, each with how many operations may stay outstanding."""


class Control(NamedTuple):
    """What the compiler tells the issue logic of an NVIDIA GPU beside the instruction itself (since Volta).

    `stall_clk`: clocks before the next instruction of this warp; `yields`: another warp is preferred then;
    `write_barrier`, `read_barrier`: the scoreboard (0 to 5) that is released when results are written and when operands
    are read, None for neither; `wait_mask`: bit i is set where scoreboard i must be free before this issues.
    """

    stall_clk: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int


class Instruction(NamedTuple):
    """`opcode` with its modifiers ("HMMA.16816.F32"), `target` the address that a branch names.

    `control` is None on AMD; `waits` is what an AMD wait instruction names, else None. `descriptor` is the constant
    that describes a matrix instruction of the fifth generation of tensor cores, None of others and where it is not
    known.
    """

    address: int
    predicate: str
    opcode: str
    operands: str
    control: Control | None = None
    target: int | None = None
    waits: Waits | None = None
    descriptor: int | None = None

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.predicate and f"@{self.predicate}", self.opcode, self.operands) if part)

    @property
    def mnemonic(self) -> str:
        return self.opcode.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread (registers) and one block (shared memory) of the kernel hold.

    On AMD `registers` are VGPRs of a lane, AGPRs among them where both are of one file (CDNA 2 and later), `scalars`
    SGPRs of a wave. `shared_bytes` is what the code object itself states; memory that a launch adds is not in it.
    `spill_bytes` are the bytes a thread of distinct stack slots that registers were spilled to; `stack_bytes` holds
    these and local arrays.
    """

    registers: int
    scalars: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_bytes: int = 0
    barriers: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of work. `body` are all its instructions, `own` those in none of the loops inside it (`loops`).

    Instructions that only spin until a barrier in memory flips are in `body` and not in `own`. `entry` is the index at
    which the code that holds the loop starts: 0, or where an indirect branch sends the warps of another partition.
    """

    header: int
    body: tuple[int, ...]
    own: tuple[int, ...]
    entry: int = 0
    loops: tuple[Loop, ...] = ()

    def walk(self) -> Iterable[Loop]:
        yield self
        for inner in self.loops:
            yield from inner.walk()


@dataclass(frozen=True, slots=True)
class Code:
    """One kernel. `isa` as device descriptors write it ("sm_90", "gfx942").

    straight: indices outside of loops
    optional: stretches outside of innermost loops that a branch forwards may pass by
    conflicts: passes over the banks of shared memory that accesses take over those that they need, by index, where that
        is known to be more
    """

    isa: str
    kernel: str
    warp_size: int
    instructions: tuple[Instruction, ...]
    resources: Resources
    loops: tuple[Loop, ...]
    straight: tuple[int, ...]
    optional: tuple[tuple[int, ...], ...] = ()
    conflicts: Mapping[int, float] = field(default_factory=dict)

    def all_loops(self) -> list[Loop]:
        """Every loop, outer ones before those inside them, in the order of the code."""
        return [loop for outer in self.loops for loop in outer.walk()]

    def text(self, indices: Iterable[int] | None = None) -> str:
        """A listing of the instructions at `indices`, of all where None."""
        chosen = range(len(self.instructions)) if indices is None else indices
        return "\n".join(f"{i:5d}  {self.instructions[i].text}" for i in chosen)
