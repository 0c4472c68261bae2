"""AMD's code objects as the assembly that `gcn` and `amdhsa` read: ELF files, as hipcc, Triton and others make them, or
clang's bundles of these. LLVM's tools take them apart. Source: "AMDGPU backend" in LLVM's manual (kernel descriptor)
and "Clang offload bundler" in clang's."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...base.children import finished
from ...base.errors import CompileError, CompilerFailed, DeviceError
from .amdhsa import USER

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
        *_descriptor(code, symbols[f"{kernel}.kd"][0]), "\t.end_amdhsa_kernel",
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


def _descriptor(code: bytes, at: int) -> Iterator[str]:
    """A kernel's descriptor, which is at an address, as directives."""
    try:
        table, (size, count) = struct.unpack_from("<Q", code, 32)[0], struct.unpack_from("<HH", code, 54)
        segments = [struct.unpack_from("<IIQQQQ", code, table + size * i) for i in range(count)]
        here = next(file + at - start for kind, _, file, start, _, filled in segments
                    if kind == LOAD and start <= at < start + filled)  # fmt: skip
        (shared,) = struct.unpack_from("<I", code, here)
        started, asked, preload = struct.unpack_from("<IHH", code, here + 52)
    except (struct.error, StopIteration) as error:
        raise CompileError(f"a code object of {len(code)} bytes is cut off or not as expected: {error!r}") from error
    said = {"group_segment_fixed_size": shared, "user_sgpr_count": started >> 1 & 31}
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
