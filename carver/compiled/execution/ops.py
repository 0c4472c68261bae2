"""What the executor needs to know of an instruction, whatever the vendor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .lanes import Array, Column, Value

HERE = -1
"""The address of the instruction that is run, for what does not know it."""


class Thread(Protocol):
    """Lanes at one place of the code, as instructions see them.

    notes: whether what outcomes depend on is of use, as in loops
    under: by guards that are not sure, what registers hold in lanes that took part
    """

    notes: bool
    under: dict[str, dict[str, Value]]

    def get(self, name: str) -> Value: ...
    def set(self, name: str, value: Value) -> None: ...
    def constant(self, bank: int, offsets: Column) -> Value:
        """Words of constant memory."""

    def special(self, name: str) -> Value:
        """A special register: places of the thread and its block."""

    def note(self, address: int, how: str, *values: Column) -> None:
        """What an outcome depends on: `how` is a comparison of two values (EQ, NE, LT, LE, GT, GE), "cut" where the low
        bits of the first are dropped, the second says how many, "low" where all above so many may be, "masked" where
        bits of any place may be, "still" where nothing is known of the result once a value changes."""

    def lost(self, opcode: str, names: Sequence[str]) -> None:
        """That an instruction is not known: what it writes is unknown, and it is counted."""

    def takes_columns(self, runs: Value) -> None:
        """Of tensor memory, in runs of 32."""

    def ballot(self, holds: Array) -> Array: ...
    def matched(self, values: Array) -> Array: ...
    def leader(self) -> Array: ...
    def leads(self) -> Array: ...
    def shuffled(self, values: Array, lanes: Array) -> Array: ...


@dataclass(frozen=True, slots=True)
class Op:
    """One instruction.

    `kind`: "alu", "global", "shared" and "local" for accesses of lanes, "box" and "bulk" for copies that one thread
    issues, "barrier" for a wait on a barrier in memory, "branch", "exit", "call", "return", "indirect", "turns" at the
    end of code that lanes of a warp go through one by one, or "none" for what concerns neither addresses nor control.
    """

    address: int
    kind: str
    run: Callable[[Any], Any] | None = None
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    guard: str = ""
    """A predicate, with "!" before it where it must fail."""
    asks: frozenset[str] = frozenset()
    """Predicates, the guard among them, that say which lanes take part."""
    only: str = ""
    """A predicate without which what else the instruction reads does not matter."""
    target: int | None = None
    conditions: Sequence[Callable[[Any], Value]] = ()
    """Predicates that must hold as well."""
    back: Callable[[Any], Value] | None = None
    """Where a return goes to."""
    at: Any = None
    width_bytes: int = 4
    """Of one lane."""
    mask: Sequence[Callable[[Any], Value]] = ()
    inner: Callable[[Any], Value] | None = None
    """The place in shared memory of a copy."""
    access: str = ""
    """load, store, copy, atomic."""
    loads: Sequence[str] = ()
    """Registers that get words of global memory."""
    stored: Sequence[Callable[[Any], Value]] = ()
    """Words that go to shared memory, and in `stored_names` their registers."""
    stored_names: frozenset[str] = frozenset()
    deals: Callable[[Any], Value] | None = None
    """What an atomic adds to a number of which it loads what was there before."""
    strong: bool = False
    """Whether it accesses what other blocks write meanwhile."""
    matrices: int = 0
    """That a load of matrices from shared memory takes."""
    map: tuple[Callable[[Any], Value], Callable[[Any], Value]] | None = None
    coordinates: Sequence[Callable[[Any], Value]] = ()
    barrier: Callable[[Any], Value] | None = None
    size: Any = None
    """Of a copy of a run of bytes, in units of 16."""
    terms: Sequence[Callable[[Any], Value]] = field(default_factory=list)
    """Of the address of a barrier, with `offset`."""
    offset: int = 0
    rare: bool = False
    """Of a branch: what it passes by is for arguments that are rare, so that it is taken where it is not known."""
    waits: bool = False
    """For all warps of its block."""
    named: str = ""
    """The opcode of an instruction that is not known."""
    within: str = ""
    """A mask of the lanes whose results it writes, where it is no guard: other lanes get something as well."""

    def placed(self, address: int) -> Op:
        """The same at an address; `replace` takes ten times as long."""
        new = object.__new__(Op)
        for name in self.__slots__:
            object.__setattr__(new, name, address if name == "address" else getattr(self, name))
        return new
