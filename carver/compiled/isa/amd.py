"""AMD's machine code as LLVM writes it: GCN, CDNA and RDNA assembly with its metadata (`asm["amdgcn"]` of Triton), how
its kernels are started and how their arguments lie in memory, and code objects: ELF files, as hipcc, Triton and others
make them, or clang's bundles of these, which LLVM's tools bring to assembly. Source: "AMDGPU backend" in LLVM's manual
(kernel descriptor, initial register state, metadata of code object 5) and "Clang offload bundler" in clang's.

Two things become modifiers of the opcode. A load to shared memory (`lds` after the operands) becomes
"global_load_dwordx4.lds". A store to a constant stack slot or a load from one, which is how registers are spilled,
becomes "scratch_store_b128.spill"; one of another place through a buffer, as on CDNA 2 and before, becomes an access of
scratch. Addresses are the indices of instructions, since the text has none. Waits are translated to the
counters of gfx12, which has one for each kind of operation: load, store, ds, km, exp, sample, bvh, async, tensor."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from ...base.children import finished
from ...base.errors import CompileError, CompilerFailed, DeviceError
from ...base.types import Record
from .code import MEMORY, Code, Instruction, Resources, Step, Waits, graph, loops, optional, usual

USER = (
    ("private_segment_buffer", 4), ("dispatch_ptr", 2), ("queue_ptr", 2), ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2), ("flat_scratch_init", 2), ("private_segment_size", 1),
)  # fmt: skip
"""What the first scalar registers hold where the descriptor asks for it, in this order, and how many registers each."""
DIRECTIVE = re.compile(r"^\s*\.amdhsa_(\w+)\s+(\S+)", re.M)
ENTRY = re.compile(r"\.(offset|size|value_kind): +(\S+)")
UNPACKED = re.compile(r"gfx(9(?!0a|4|5)|10)")
"""Targets that start with the three places of a thread in three registers; others have them in one."""

GRANULES = ((16, re.compile("gfx125")), (8, re.compile("gfx9(0a|4|5)")), (4, re.compile("")))
"""Vector registers that the descriptor counts in one, by target; 8 for all others where a wave has 32 lanes."""


class Argument(Record):
    """`kind` as metadata say it: global_buffer, by_value; hidden_block_count_x of one that the runtime gives."""

    offset: int
    size: int
    kind: str


class Header(Record):
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
    said = _said(text, kernel)
    if not said:
        raise CompileError(f"the code has no descriptor of kernel {kernel!r}")
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


def _said(text: str, kernel: str) -> dict[str, int]:
    """The numbers of a kernel's descriptor by their directives; none where it has no descriptor."""
    found = re.search(rf"^\s*\.amdhsa_kernel {re.escape(kernel)}$(.*?)^\s*\.end_amdhsa_kernel", text, re.M | re.S)
    listed = DIRECTIVE.findall(found[1]) if found else ()
    return {name: int(value, 0) for name, value in listed if value.lstrip("-").isdigit()}


def _entries(text: str) -> Iterator[str]:
    """The entries of `amdhsa.kernels`, whose own keys have four spaces before them, those of arguments more."""
    listed = text.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    yield from (f"    {part}" for part in re.split(r"^  - ", listed, flags=re.M)[1:])


def _arguments(text: str, kernel: str) -> tuple[Argument, ...]:
    for entry in _entries(text):
        if re.search(rf"^ *\.name: +'?{re.escape(kernel)}'?$", entry, re.M):
            inside = takewhile(lambda line: line.startswith("      "), entry.partition(".args:")[2].split("\n")[1:])
            found = [dict(ENTRY.findall(each)) for each in re.split(r"^ *- ", "\n".join(inside), flags=re.M)]
            return tuple(
                Argument(int(each["offset"]), int(each["size"]), each["value_kind"])
                for each in found if "value_kind" in each
            )  # fmt: skip
    return ()


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
        registers=max(facts["vgpr_count"], _said(text, name).get("next_free_vgpr", 0)),  # more keeps waves out
        shared_bytes=facts.get("group_segment_fixed_size", 0),
        stack_bytes=stack_bytes,
        spill_bytes=_spilled(instructions),
    )
    jumps = {i: s for i, s in steps.items() if instructions[i].opcode.startswith("s_cbranch")}
    aside = optional(jumps, roots, straight)
    return Code(family, name, facts["wavefront_size"], tuple(instructions), resources, roots, straight, aside)


def _metadata(text: str) -> dict[str, dict[str, int]]:
    """The numeric entries of `amdhsa.kernels`, by kernel name."""
    found = {}
    for entry in _entries(text):
        numbers = {key: int(value) for key, value in re.findall(r"^ {4}\.(\w+): +(\d+)$", entry, re.M)}
        if (name := re.search(r"^ {4}\.name: +'?([^'\s]+)'?$", entry, re.M)) and "vgpr_count" in numbers:
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


ELF, BUNDLE, COMPRESSED = b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
VERSIONS = range(30, 16, -1)
"""Of LLVM, as Debian names its tools."""
OLD = ("not yet supported", "unable to get target", "PLEASE submit a bug report")
"""What those that are too old for a target say, the last as they crash."""
TIMEOUT_S = 120.0
MOST_LISTED_BYTES = 1 << 30
LOAD = 1
"""Kind of a segment of ELF that lies in memory."""
SYMBOL = re.compile(r"^ *\d+: ([0-9a-f]+) +\d+ (\w+) +\w+ +\w+ +\w+ (\S+)$", re.M)
TARGET = re.compile(r"^amdhsa\.target: +'?([\w:+-]+)", re.M)
LISTED = re.compile(r"^(?:[0-9a-f]{16} <(?P<label>L\d+)>:|\t(?P<text>.*?)\s*// (?P<at>[0-9A-F]{12}):.*)$", re.M)
LOW = re.compile(r"(s_add_(?:co_)?u32) (s\d+), \2, (\S+)$")
HIGH = re.compile(r"(s_addc_u32|s_add_co_ci_u32) (s\d+), \2, \S+$")


def tool(name: str) -> str:
    """Path of one of LLVM's tools: in the folder that CARVER_LLVM_BIN names, in ROCm's, or the newest of the PATH.

    Raises DeviceError without it.
    """
    if chosen := os.environ.get("CARVER_LLVM_BIN"):
        found = [shutil.which(name, path=chosen)]
    else:
        rocm = Path(os.environ.get("ROCM_PATH", "/opt/rocm")) / "llvm" / "bin"
        names = (name, *(f"{name}-{version}" for version in VERSIONS))
        found = [shutil.which(name, path=rocm), *map(shutil.which, names[1:]), shutil.which(name)]
    if (path := next(filter(None, found), None)) is None:
        raise DeviceError(
            f"no {name} to read AMD's code objects with: it was found neither in $CARVER_LLVM_BIN nor in ROCm "
            "($ROCM_PATH, /opt/rocm) nor in the PATH; install LLVM, for example 'apt install llvm-19', or give the "
            'compiler\'s assembly instead (clang -S, asm["amdgcn"] of Triton)'
        )
    return path


def assembly(code: bytes, kernel: str, isa: str) -> str:
    """A kernel of a code object as assembly. Assembly is given back as it is. `isa`: which object of a bundle.

    Raises CompileError for what is no such object or has no such kernel, DeviceError without LLVM's tools.
    """
    if not code.startswith((ELF, BUNDLE, COMPRESSED)):
        return code.decode("utf-8", "replace")
    code = unbundled(code, isa)
    notes = _printed("llvm-readelf", code, "--notes", "--symbols", "--wide")
    target, described = TARGET.search(notes), re.search(r"^ *---$.*?^\.\.\.$", notes, re.M | re.S)
    if target is None or described is None:
        raise CompileError(f"{len(code)} bytes of ELF are no code object of AMD's: they have no metadata of kernels")
    symbols = {name: (int(at, 16), kind) for at, kind, name in SYMBOL.findall(notes)}
    if f"{kernel}.kd" not in symbols:
        names = sorted(name[:-3] for name in symbols if name.endswith(".kd"))
        raise CompileError(f"the code holds no kernel {kernel!r}, but: {', '.join(names) or 'none'}")
    listing = _printed("llvm-objdump", code, "-d", "--symbolize-operands")
    begins, ends = rf"^[0-9a-f]{{16}} <{re.escape(kernel)}>:\n", r"^[0-9a-f]{16} <(?!L\d+>)|\Z"  # labels stand so too
    listed = re.search(rf"{begins}(.*?)(?={ends})", listing, re.M | re.S)
    if listed is None:
        raise CompilerFailed(f"llvm-objdump shows no code of {kernel!r}", listing[:400])
    places = {at: name for name, (at, kind) in symbols.items() if kind == "OBJECT"}
    return "\n".join((
        f'\t.amdgcn_target "{target[1]}"', f"{kernel}:", *_lines(listed[1], places), ".Lfunc_end0:",
        f"\t.amdhsa_kernel {kernel}",
        *_descriptor(code, symbols[f"{kernel}.kd"][0], target[1]), "\t.end_amdhsa_kernel",
        "\t.amdgpu_metadata", described[0], "\t.end_amdgpu_metadata", "",
    ))  # fmt: skip


def unbundled(code: bytes, isa: str) -> bytes:
    """The object for a target out of a bundle. Raises CompileError."""
    if code.startswith(COMPRESSED):
        raise CompileError("the bundle of objects is compressed: take it apart by clang-offload-bundler --unbundle")
    if not code.startswith(BUNDLE):
        return code
    found = {}
    try:
        at = len(BUNDLE)
        (count,) = struct.unpack_from("<Q", code, at)
        at += 8
        for _ in range(count):
            start, size, length = struct.unpack_from("<QQQ", code, at)
            target = code[at + 24 : at + 24 + length].decode()
            at += 24 + length
            if size and "-gfx" in target:
                found[target.rpartition("-gfx")[2]] = code[start : start + size]
    except (struct.error, UnicodeDecodeError, MemoryError) as error:
        raise CompileError(f"a bundle of {len(code)} bytes is cut off or not as expected: {error}") from error
    mine = [held for target, held in found.items() if f"gfx{target.partition(':')[0]}" == isa]
    if len(mine) != 1:
        kinds = ", ".join(f"gfx{target}" for target in found) or "none"
        raise CompileError(f"the bundle holds {len(mine)} code objects for {isa}; it is for {kinds}")
    return mine[0]


def _lines(listing: str, places: Mapping[int, str]) -> Iterator[str]:
    """Instructions and labels, without what fills up between functions; a symbol where an address of data is made."""
    here, name, reached = 0, None, True
    for match in LISTED.finditer(listing):
        text = match["text"]
        if text is None:
            reached = True
            yield f"{match['label']}:"
            continue
        if not reached and text.startswith(("s_nop", "s_code_end")):
            continue
        if text.startswith("s_getpc_b64"):  # gives the address of the next instruction
            here = int(match["at"], 16) + 4
        elif here and (found := LOW.match(text)):
            name = places.get(here + int(found[3], 0) & 0xFFFFFFFF)
            text = text if name is None else f"{found[1]} {found[2]}, {found[2]}, {name}@rel32@lo"
        elif here and (found := HIGH.match(text)):
            text = text if name is None else f"{found[1]} {found[2]}, {found[2]}, {name}@rel32@hi"
            here = 0
        reached = not text.startswith(("s_branch", "s_endpgm", "s_setpc"))
        yield f"\t{text}"


def _descriptor(code: bytes, at: int, target: str) -> Iterator[str]:
    """A kernel's descriptor, which is at an address, as directives. Of its vector registers it has the granules, so
    that the fewest which need as many are said."""
    try:
        table, (size, count) = struct.unpack_from("<Q", code, 32)[0], struct.unpack_from("<HH", code, 54)
        segments = [struct.unpack_from("<IIQQQQ", code, table + size * i) for i in range(count)]
        here = next(file + at - start for kind, _, file, start, _, filled in segments
                    if kind == LOAD and start <= at < start + filled)  # fmt: skip
        (shared,) = struct.unpack_from("<I", code, here)
        kept, started, asked, preload = struct.unpack_from("<IIHH", code, here + 48)
    except (struct.error, StopIteration) as error:
        raise CompileError(f"a code object of {len(code)} bytes is cut off or not as expected: {error!r}") from error
    granule = next(size for size, of in GRANULES if of.search(target) or (size == 8 and asked >> 10 & 1))
    said = {"group_segment_fixed_size": shared, "user_sgpr_count": started >> 1 & 31}
    said |= {"next_free_vgpr": (kept & 63) * granule + 1}
    said |= {f"system_sgpr_workgroup_id_{axis}": started >> 7 + i & 1 for i, axis in enumerate("xyz")}
    said |= {"system_vgpr_workitem_id": started >> 11 & 3}
    said |= {f"user_sgpr_{name}": asked >> i & 1 for i, (name, _) in enumerate(USER)}
    said |= {"user_sgpr_kernarg_preload_length": preload & 127, "user_sgpr_kernarg_preload_offset": preload >> 7}
    for name, value in said.items():
        yield f"\t.amdhsa_{name} {value}"


def _printed(name: str, code: bytes, *options: str) -> str:
    """What one of LLVM's tools says of a code object. Raises CompileError if it cannot read it."""
    path, what = tool(name), f"a code object of {len(code)} bytes"
    with tempfile.TemporaryFile() as file:  # of no name: it goes with this process, however that ends
        file.write(code)
        file.flush()
        command = [path, *options, f"/proc/self/fd/{file.fileno()}"]
        try:
            done = finished(command, TIMEOUT_S, pass_fds=[file.fileno()], most_bytes=MOST_LISTED_BYTES)
        except subprocess.TimeoutExpired:
            raise CompilerFailed(f"{name} did not read {what} in {TIMEOUT_S:g} s") from None
    if done.returncode:
        if any(words in done.stderr for words in OLD):
            raise DeviceError(
                f"{path} is too old for the target of {what}: install a newer LLVM, or name its folder by "
                "CARVER_LLVM_BIN; the compiler's assembly needs no tool"
            )
        raise CompilerFailed(f"{name} cannot read {what}", done.stderr.strip()[-400:])
    return done.stdout
