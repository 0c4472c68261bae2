"""Costs of instructions on the units of an SM (NVIDIA) or CU (AMD): tables in `arch/isa/*.toml`, one per family.

A table lists groups of opcodes. `lanes` are the results per clock and SM that each pipe gives for a group, as vendors
state throughputs: a warp of 32 occupies a pipe of 16 lanes for 2 clocks. If a group moves memory, `bytes_per_clk` is
the number of bytes that the pipe moves, and the longer of the two times counts. `latency` names the operation whose
completion time the code does not state; `[latency_clk]` has the clocks.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ...base.errors import ArchError, nearest
from ...base.host import folder

ROLES = {
    "", "matrix", "warpgroup matrix", "block matrix", "matrix wait", "matrix commit", "barrier", "commit", "group wait",
    "memory wait", "bulk", "wait", "branch",
}  # fmt: skip
"""Role of an instruction in the schedule of a warp. "matrix": runs in order like arithmetic; "warpgroup matrix" and
"block matrix": run asynchronously until a "matrix wait" or a "memory wait"; "commit": closes a group of asynchronous
copies, for which a "group wait" waits; "bulk": a copy that an engine makes for a whole block."""


@dataclass(frozen=True, slots=True)
class Group:
    """Opcodes that cost the same.

    `access`: kind of memory access and memory, as ("load", "global"); None if they access no memory. `counter`: the AMD
    counter that they increment. `issue_clk`: clocks until the same warp may issue again, if the code does not state it.
    An empty `source` marks the group of opcodes that no table lists.
    """

    opcodes: tuple[str, ...] = ()
    lanes: Mapping[str, float] = field(default_factory=dict)
    bytes_per_clk: Mapping[str, float] = field(default_factory=dict)
    latency: str | None = None
    access: tuple[str, str] | None = None
    counter: str | None = None
    role: str = ""
    issue_clk: float = 1.0
    source: str = ""


UNKNOWN = Group()


@dataclass(frozen=True, slots=True)
class Table:
    """Rates of a family of instruction sets.

    `schedulers`: parts of an SM that warps are distributed over; together they issue `issue_per_clk` instructions per
    clock. Each has an equal share of a pipe's lanes, except for the pipes in `shared`: one unit that serves them all.
    `matrix_pipe`: the pipe that matrix instructions occupy; on RDNA it is the vector unit.
    `latency_clk`: clocks until an operation is complete, by the name that groups give as their latency.
    """

    family: str
    covers: tuple[str, ...]
    schedulers: int
    issue_per_clk: float
    shared: frozenset[str]
    matrix_pipe: str
    latency_clk: Mapping[str, float]
    groups: tuple[Group, ...]
    sources: Mapping[str, str]
    patterns: tuple[tuple[str, re.Pattern[str], Group], ...] = field(repr=False)
    found: dict[str, Group] = field(default_factory=dict, repr=False, compare=False)

    def group(self, opcode: str) -> Group:
        """The group with the longest matching pattern; `UNKNOWN` if none matches.

        A pattern matches the first dot-separated parts of an opcode; `*` stands for anything within a part.
        """
        group = self.found.get(opcode)
        if group is None:
            matches = [(len(text), group) for text, pattern, group in self.patterns if pattern.match(opcode)]
            group = self.found[opcode] = max(matches, key=lambda match: match[0])[1] if matches else UNKNOWN
        return group


def families() -> list[str]:
    return sorted(path.stem for path in folder("arch").joinpath("isa").glob("*.toml"))


def table(isa: str) -> Table:
    """Rates of an instruction set, named as in device descriptors: "sm_90", "gfx942". Raises ArchError if unknown."""
    for name in families():
        if isa in (read := load(folder("arch") / "isa" / f"{name}.toml")).covers:
            return read
    if re.fullmatch(r"sm_[1-7]\d", isa):
        raise ArchError(f"machine code is read from compute capability 7.5 on, and {isa} is older")
    known = [each for name in families() for each in load(folder("arch") / "isa" / f"{name}.toml").covers]
    if old := re.fullmatch(r"sm_(\d+)(\d)", isa):
        least = min(int(each[3:]) for each in known if each.startswith("sm_"))
        if int(isa[3:]) < least:
            raise ArchError(
                f"machine code is read from compute capability {least // 10}.{least % 10} on, and this device has "
                f"{old[1]}.{old[2]} ({isa}); declared operators are ranked for it: carver recommend, carver rank"
            )
    raise ArchError(f"no rates of instructions for {isa!r}; {nearest(isa, known)}")


@cache
def load(path: Path) -> Table:
    """Read a table with the groups of the files in common/ that it extends, but for opcodes that it lists itself.

    Raises ArchError for an unknown key, latency, role or file.
    """
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    latency, entries = dict(data["latency_clk"]), [*data.get("group", ())]
    known = {file.stem: file for file in path.parent.joinpath("common").glob("*.toml")}
    own = {opcode for entry in entries for opcode in entry.get("opcodes", ())}
    for name in data.get("extends", ()):
        if name not in known:
            raise ArchError(f"{path.name} extends {name!r}, which is not in common/; {nearest(name, known)}")
        for entry in tomllib.loads(known[name].read_text(encoding="utf-8"))["group"]:
            if others := [opcode for opcode in entry["opcodes"] if opcode not in own]:
                entries.append({**entry, "opcodes": others})
    groups = tuple(_group(path, entry, latency) for entry in entries)
    compiled = tuple(
        (text, re.compile(re.escape(text).replace(r"\*", r"[^.]*") + r"(?:\.|$)"), group)
        for group in groups
        for text in group.opcodes
    )
    return Table(
        path.stem,
        tuple(data["covers"]),
        data["schedulers"],
        data.get("issue_per_clk", data["schedulers"]),
        frozenset(data.get("shared", ())),
        data.get("matrix_pipe", "tensor"),
        latency,
        groups,
        dict(data["source"]),
        compiled,
    )


def _group(path: Path, entry: Mapping[str, Any], latency: Mapping[str, float]) -> Group:
    unknown = set(entry) - set(Group.__slots__)
    if unknown or "source" not in entry or not entry.get("opcodes"):
        raise ArchError(f"{path.name}: a group has {sorted(entry)}; it needs opcodes and source, and may have "
                        f"{sorted(Group.__slots__)}")  # fmt: skip
    if entry.get("role", "") not in ROLES:
        raise ArchError(f"{path.name}: role {entry['role']!r}; {nearest(entry['role'], ROLES)}")
    if (name := entry.get("latency")) is not None and name not in latency:
        raise ArchError(f"{path.name}: latency {name!r} has no clocks; {nearest(name, latency)}")
    access = tuple(entry["access"].split(maxsplit=1)) if "access" in entry else None
    return Group(**{**entry, "opcodes": tuple(entry["opcodes"]), "access": access})
