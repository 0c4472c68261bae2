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

from carver.base.errors import ArchError, nearest
from carver.base.shipped import folder

ROLES = {
    "", "matrix", "warpgroup matrix", "block matrix", "matrix wait", "matrix commit", "barrier", "commit", "group wait",
    "memory wait", "bulk", "wait", "branch",
}  # fmt: skip
"""What an instruction is to the schedule of a warp. "matrix": runs in order like arithmetic; "warpgroup matrix" and
"block matrix": run beside the warp until a "matrix wait" or a "memory wait"; "commit" closes a group of asynchronous
copies, for which a "group wait" waits; "bulk": a copy that an engine makes for a whole block."""


@dataclass(frozen=True, slots=True)
class Group:
    """Opcodes that cost the same.

    `access`: what they do in which memory, as ("load", "global"), None where they touch none. `counter`: the AMD
    counter that they raise. `issue_clk`: clocks until the same warp may issue again, where the code itself does not
    say. An empty `source` marks what no table lists.
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

    `schedulers`: parts of an SM among which warps are dealt; together they issue `issue_per_clk` instructions a clock.
    Each has its share of the lanes of a pipe, but for those pipes that are `shared`: one unit that serves all in turn.
    `matrix_pipe`: the pipe that matrix instructions hold, which is the vector unit on RDNA.
    `latency_clk`: clocks until what a group names is complete.
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
        """The group with the longest pattern that matches, `UNKNOWN` where none does.

        A pattern matches the first parts of an opcode, split at dots; `*` stands for anything within a part.
        """
        group = self.found.get(opcode)
        if group is None:
            matches = [(len(text), group) for text, pattern, group in self.patterns if pattern.match(opcode)]
            group = self.found[opcode] = max(matches, key=lambda match: match[0])[1] if matches else UNKNOWN
        return group


def families() -> list[str]:
    return sorted(path.stem for path in folder("arch").joinpath("isa").glob("*.toml"))


def table(isa: str) -> Table:
    """The rates of an instruction set as device descriptors name it: "sm_90", "gfx942". Raises ArchError if unknown."""
    for name in families():
        if isa in (read := load(folder("arch") / "isa" / f"{name}.toml")).covers:
            return read
    known = [each for name in families() for each in load(folder("arch") / "isa" / f"{name}.toml").covers]
    raise ArchError(f"no rates of instructions for {isa!r}; {nearest(isa, known)}")


@cache
def load(path: Path) -> Table:
    """Read a table. Raises ArchError where a key, a latency or a role is none."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    latency = dict(data["latency_clk"])
    groups = tuple(_group(path, entry, latency) for entry in data["group"])
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
