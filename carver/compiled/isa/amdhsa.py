"""How a kernel of AMD's is started: what its first registers hold and how its arguments lie in memory, as LLVM writes
it into assembly. Source: "AMDGPU backend" in LLVM's manual (amdhsa kernel descriptor, initial register state, metadata
of code object 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...base.errors import CompileError

USER = (
    ("private_segment_buffer", 4), ("dispatch_ptr", 2), ("queue_ptr", 2), ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2), ("flat_scratch_init", 2), ("private_segment_size", 1),
)  # fmt: skip
"""What the first scalar registers hold where the descriptor asks for it, in this order, and how many registers each."""
DIRECTIVE = re.compile(r"^\s*\.amdhsa_(\w+)\s+(\S+)", re.M)
ENTRY = re.compile(r"\.(offset|size|value_kind): +(\S+)")
UNPACKED = re.compile(r"gfx(9(?!0a|4|5)|10)")
"""Targets that start with the three places of a thread in three registers; others have them in one."""


@dataclass(frozen=True)
class Argument:
    """`kind` as metadata say it: global_buffer, by_value, hidden_block_count_x."""

    offset: int
    size: int
    kind: str

    @property
    def is_hidden(self) -> bool:
        """Whether the runtime gives it, and not the caller."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True)
class Header:
    """A kernel's descriptor and the metadata of its arguments.

    user: the first scalar register that holds each of `USER`
    preloaded: the register into which words of the arguments are put, the first of them, and how many
    system: the register after those, from which on places of the block are
    ids: of x, y and z of the block, which are asked for
    dims: how many places of the thread within its block
    """

    isa: str
    name: str
    arguments: tuple[Argument, ...]
    user: dict[str, int]
    preloaded: tuple[int, int, int]
    system: int
    ids: tuple[bool, bool, bool]
    dims: int
    shared_bytes: int

    @property
    def packed(self) -> bool:
        """Whether the places of a thread are fields of ten bits of one register."""
        return not UNPACKED.match(self.isa)


def header(text: str, isa: str, kernel: str) -> Header:
    """Raises CompileError where the text does not say it."""
    found = re.search(rf"^\s*\.amdhsa_kernel {re.escape(kernel)}$(.*?)^\s*\.end_amdhsa_kernel", text, re.M | re.S)
    if not found:
        raise CompileError(f"the code has no descriptor of kernel {kernel!r}")
    said = {name: int(value, 0) for name, value in DIRECTIVE.findall(found[1]) if value.lstrip("-").isdigit()}
    user, at = {}, 0
    for name, count in USER:
        if said.get(f"user_sgpr_{name}"):
            user[name] = at
            at += count
    loaded = said.get("user_sgpr_kernarg_preload_length", 0)
    return Header(
        isa, kernel, _arguments(text, kernel), user,
        (at, said.get("user_sgpr_kernarg_preload_offset", 0), loaded), said.get("user_sgpr_count", at + loaded),
        (bool(said.get("system_sgpr_workgroup_id_x", 1)), bool(said.get("system_sgpr_workgroup_id_y", 0)),
         bool(said.get("system_sgpr_workgroup_id_z", 0))),
        said.get("system_vgpr_workitem_id", 0) + 1, said.get("group_segment_fixed_size", 0),
    )  # fmt: skip


def _arguments(text: str, kernel: str) -> tuple[Argument, ...]:
    listed = text.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    for part in re.split(r"^  - ", listed, flags=re.M)[1:]:
        if re.search(rf"^ *\.name: +'?{re.escape(kernel)}'?$", f"    {part}", re.M):
            lines = f"    {part}".partition(".args:")[2].split("\n")
            inside = []
            for line in lines[1:]:
                if not line.startswith("      "):
                    break
                inside.append(line)
            entries = [dict(ENTRY.findall(each)) for each in re.split(r"^ *- ", "\n".join(inside), flags=re.M)]
            return tuple(
                Argument(int(each["offset"]), int(each["size"]), each["value_kind"])
                for each in entries if "value_kind" in each
            )  # fmt: skip
    return ()
