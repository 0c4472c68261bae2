"""Read AMD machine code as LLVM writes it: GCN, CDNA and RDNA assembly with its metadata (`asm["amdgcn"]` of Triton).

Two things become modifiers of the opcode. A load to shared memory (`lds` after the operands) becomes
"global_load_dwordx4.lds". A store to a constant stack slot or a load from one, which is how registers are spilled,
becomes "scratch_store_b128.spill"; one of another place through a buffer, as on CDNA 2 and before, becomes an access of
scratch. Addresses are the indices of instructions, since the text has none. Waits are translated to the
counters of gfx12, which has one for each kind of operation: load, store, ds, km, exp, sample, bvh, async, tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...base.errors import CompileError
from .code import Code, Instruction, Resources, Waits
from .flow import MEMORY, Step, graph, loops, optional, usual

LINE = re.compile(
    r"^(?:(?P<label>[.\w$]+):|\t(?P<opcode>[a-z]\w*)(?:[ \t]+(?P<operands>[^;\n]*?))?)[ \t]*(?:;.*)?$", re.M
)
SLOT = re.compile(
    r"^off, \S+ (?:off|s\d+)|^[av]\S+, off, (?:off|s\d+)|^[av]\S+, off, s\[\d+:\d+\], (?:0|s\d+)(?! (?:offen|idxen))"
)
"""Operands of a stack access whose address has no vector register: `off, v1, off offset:4`, `v1, off, s[0:3], 0`."""
VARIANT = re.compile(r"_(e32|e64|dpp|sdwa|e64_dpp)$")
ISA = re.compile(r'^\s*\.amdgcn_target +"[^"]*?-(gfx\w+)', re.M)
COUNTERS = {
    "vmcnt": ("load", "sample", "bvh"), "lgkmcnt": ("ds", "km"), "expcnt": ("exp",), "vscnt": ("store",),
    "loadcnt": ("load",), "storecnt": ("store",), "dscnt": ("ds",), "kmcnt": ("km",), "samplecnt": ("sample",),
    "bvhcnt": ("bvh",), "asynccnt": ("async",), "tensorcnt": ("tensor",), "xcnt": (),
}  # fmt: skip
SKIPS = {"SAME": 0, "NEXT": 1, "SKIP_1": 2, "SKIP_2": 3, "SKIP_3": 4, "SKIP_4": 5}
REDUCING_WORDS = 7
BRANCH = re.compile(r"^s_(branch|cbranch_\w+|setpc_b64|swappc_b64|call_b64|endpgm\w*|trap)$")


def read(text: str, kernel: str | None = None) -> Code:
    """Read the kernel named `kernel`, or the only one, from assembly text.

    Raises CompileError if the text has no such kernel, or has several and `kernel` is None.
    """
    described = _metadata(text)
    isa = ISA.search(text)
    if not isa or not described:
        raise CompileError("the text is no AMD assembly with metadata of its kernels", text[:400])
    if kernel is None and len(described) > 1:
        raise CompileError(f"the code holds several kernels, name one of: {', '.join(sorted(described))}")
    name = kernel or next(iter(described))
    if name not in described:
        raise CompileError(f"the code holds no kernel {name!r}, but: {', '.join(sorted(described))}")
    facts = described[name]
    found = re.search(rf"^{re.escape(name)}:.*?$(.*?)^\.Lfunc_end", text, re.M | re.S)
    if not found:
        raise CompileError(f"the text has no code of kernel {name!r}")
    family = isa[1]
    stack_bytes = facts.get("private_segment_fixed_size", 0)
    instructions, places = _instructions(found[1], family.startswith("gfx9"), stack_bytes > 0)
    opcodes = [each.opcode for each in instructions]
    steps = usual({i: s for i, each in enumerate(instructions) if (s := _step(each, places))}, opcodes, rare)
    roots, straight = loops(graph(len(instructions), steps), opcodes, _only_waits)
    resources = Resources(
        registers=facts["vgpr_count"],
        scalars=facts.get("sgpr_count", 0),
        shared_bytes=facts.get("group_segment_fixed_size", 0),
        stack_bytes=stack_bytes,
        spill_bytes=_spilled(instructions),
        barriers=int(any(each.opcode.startswith("s_barrier") for each in instructions)),
    )
    jumps = {i: s for i, s in steps.items() if instructions[i].opcode.startswith("s_cbranch")}
    aside = optional(jumps, roots, straight)
    return Code(family, name, facts["wavefront_size"], tuple(instructions), resources, roots, straight, aside)


def _metadata(text: str) -> dict[str, dict[str, int]]:
    """The numeric entries of `amdhsa.kernels`, by kernel name."""
    listed = text.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    found = {}
    for part in re.split(r"^  - ", listed, flags=re.M)[1:]:
        numbers = {key: int(value) for key, value in re.findall(r"^ *\.(\w+): +(\d+)$", f"    {part}", re.M)}
        if (name := re.search(r"^ *\.name: +(\S+)$", part, re.M)) and "vgpr_count" in numbers:
            found[name[1]] = numbers
    return found


def _instructions(
    listing: str, stores_count_as_loads: bool, has_stack: bool
) -> tuple[list[Instruction], dict[str, int]]:
    """The instructions, and the index of the instruction after each label."""
    found: list[Instruction] = []
    places: dict[str, int] = {}
    later: dict[int, list[tuple[frozenset[str], int]]] = {}
    for match in LINE.finditer(listing):
        if label := match["label"]:
            places[label] = len(found)
            continue
        opcode, operands = match["opcode"], (match["operands"] or "").strip()
        if not opcode:
            continue
        words = operands.rpartition("]")[2].split() if opcode[0] in "bgs" else ()
        opcode = VARIANT.sub("", opcode)
        if "lds" in words:
            opcode += ".lds"
        elif has_stack and opcode.startswith(("scratch_", "buffer_")) and SLOT.search(operands):
            opcode += ".spill"
        elif has_stack and opcode.startswith("buffer_") and ", s[0:3], " in operands:  # the stack's descriptor
            opcode = opcode.replace("buffer_", "scratch_", 1)
        waits: Waits | None = tuple(later.pop(len(found), ())) or None
        if opcode.startswith("s_wait"):
            waits = (*(waits or ()), *_waits(opcode, operands, stores_count_as_loads))
        elif opcode == "s_delay_alu":
            for after, wait in _delays(operands):
                later.setdefault(len(found) + after, []).append(wait)
        found.append(Instruction(len(found), "", opcode, operands, None, None, waits))
    return [each._replace(target=places.get(each.operands)) for each in found], places


def _waits(opcode: str, operands: str, stores_count_as_loads: bool) -> Iterator[tuple[frozenset[str], int]]:
    """What `s_waitcnt` or one of its successors waits for: sets of counters, each with how many operations may stay
    outstanding."""
    if opcode == "s_waitcnt":
        for name, n in re.findall(r"(\w+cnt)\((\d+)\)", operands):
            kinds = COUNTERS.get(name, ())
            yield frozenset((*kinds, "store") if name == "vmcnt" and stores_count_as_loads else kinds), int(n)
    elif opcode in ("s_waitcnt_depctr", "s_wait_alu"):
        return
    elif found := re.match(r"s_wait(?:cnt)?_(\w+?cnt)(?:_(\w+cnt))?$", opcode):
        n = int(re.split(r"[, ]+", operands)[-1], 0)
        first, second = found[1], found[2]
        if second:  # the upper byte is the limit of the first counter
            yield frozenset(COUNTERS.get(first, ())), n >> 8
        yield frozenset(COUNTERS.get(second or first, ())), n & 255


def _delays(operands: str) -> Iterator[tuple[int, tuple[frozenset[str], int]]]:
    """Dependences that `s_delay_alu` states: how many instructions later the dependent one comes, and what it waits
    for."""
    skip = re.search(r"instskip\((\w+)\)", operands)
    for place, kind, n in re.findall(r"instid(\d)\((VALU|TRANS32|SALU)_\w*?(\d)\)", operands):
        after = 1 + (SKIPS.get(skip[1], 0) if place == "1" and skip else 0)
        if kind != "SALU":
            yield after, (frozenset({"valu" if kind == "VALU" else "trans"}), int(n) - 1)


def _step(each: Instruction, places: dict[str, int]) -> Step | None:
    found = BRANCH.match(each.opcode)
    if not found:
        return None
    kind = found[1]
    target = (places[each.operands],) if each.operands in places else ()
    if kind == "branch":
        return Step(False, target)
    if kind.startswith("cbranch"):
        return Step(True, target)
    if kind in ("swappc_b64", "call_b64"):  # the callee returns here
        return Step()
    return Step(False, (), indirect=kind == "setpc_b64")


def _only_waits(opcodes: Sequence[str]) -> bool:
    """Whether a loop sleeps or synchronises with other waves, and has no vector instruction."""
    works = any(op[0] in "vdgbf" for op in opcodes)
    return not works and any(op.startswith(("s_sleep", "s_barrier")) for op in opcodes)


def rare(opcodes: Sequence[str]) -> bool:
    """Whether this is how a sine or a cosine reduces a large argument: it multiplies it with seven words of the digits
    of 2/pi and shifts the product into place."""
    words = opcodes.count("v_mad_u64_u32") == REDUCING_WORDS <= opcodes.count("v_alignbit_b32")
    return words and not any(map(MEMORY.match, opcodes))


def _spilled(instructions: list[Instruction]) -> int:
    """Bytes per lane of the stack slots that are both stored and loaded."""
    slots: dict[bool, set[int]] = {True: set(), False: set()}
    for each in instructions:
        if each.opcode.endswith(".spill"):
            start = int(found[1]) if (found := re.search(r"offset:(\d+)", each.operands)) else 0
            words = re.search(r"(?:dwordx|_b)(\d+)\.", each.opcode)
            size = 4 if not words else int(words[1]) // 8 if "_b" in words[0] else 4 * int(words[1])
            slots["_store_" in each.opcode].update(range(start, start + size))
    return len(slots[True] & slots[False])
