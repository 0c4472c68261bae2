"""Machine code of one kernel as records: instructions, what it holds, its loops.

The readers (`sass`, `gcn`) make these of a compiler's output. Indices count instructions from 0 in the order of the
code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

Waits = tuple[tuple[frozenset[str], int], ...]
"""What an AMD wait instruction waits for: sets of counters, each set with the number of its operations that may stay
outstanding."""


class Control(NamedTuple):
    """Scheduling fields that the compiler encodes with each instruction of an NVIDIA GPU (since Volta).

    `stall_clk`: clocks before the next instruction of this warp; `yields`: the scheduler then prefers another warp;
    `write_barrier`, `read_barrier`: the scoreboard (0 to 5) that is released when results are written and when operands
    are read, None if there is none; `wait_mask`: bit i is set if the instruction waits for scoreboard i.
    """

    stall_clk: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int


class Instruction(NamedTuple):
    """`opcode` with its modifiers ("HMMA.16816.F32"), `target` the address that a branch names.

    `control` is None on AMD. `waits` is None unless this is an AMD wait instruction. `descriptor` is the constant that
    describes a matrix instruction of the fifth generation of tensor cores; None for others, or if it is not known.
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
    def mnemonic(self) -> str:
        return self.opcode.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers of one thread, and shared memory and barriers of one block.

    On AMD `registers` are the VGPRs of a lane, with the AGPRs if both share one file (CDNA 2 and later), and `scalars`
    the SGPRs of a wave. `shared_bytes` is what the code object states, without memory that a launch adds.
    `spill_bytes` counts the distinct stack slots that registers are spilled to, in bytes per thread. `stack_bytes`
    includes them and local arrays.
    """

    registers: int
    scalars: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_bytes: int = 0
    barriers: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that does work, as opposed to one that only waits.

    `body` holds all its instructions, `own` those outside of its inner loops (`loops`). Instructions that only spin on
    a barrier in memory are in `body` but not in `own`. `entry` is the index at which the code around the loop starts:
    0, or the target of the indirect branch that starts another partition of warps.
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
    """The machine code of one kernel. `isa` as device descriptors write it ("sm_90", "gfx942").

    straight: indices outside of loops
    optional: stretches that a forward branch may skip
    conflicts: index of an access of shared or global memory -> passes over the banks, relative to those it needs
        without conflicts; only where it is known not to be 1
    unplaced: indices of accesses of global memory whose addresses are not known
    parameters: where each starts in constant bank 0
    sectors: index of an atomic on global memory -> sectors that a warp touches, only where they are known; and of a
        store to an array on the stack, where they are more than of one word of each lane
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
    sectors: Mapping[int, float] = field(default_factory=dict)
    unplaced: frozenset[int] = frozenset()
    parameters: tuple[int, ...] = ()

    @property
    def digest(self) -> str:
        """A hash of the instructions and of what they hold, without where and when their source was written: files of
        the compiler name it for debuggers."""
        lines = [(each.predicate, each.opcode, each.operands, each.control) for each in self.instructions]
        return sha256(repr((self.resources, lines)).encode()).hexdigest()

    def all_loops(self) -> list[Loop]:
        """All loops in the order of the code, outer loops before their inner loops."""
        return [loop for outer in self.loops for loop in outer.walk()]
