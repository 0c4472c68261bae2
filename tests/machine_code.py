"""Machine code for tests: listings as the disassembler prints them, out of short ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from carver.compiled.isa import amd, chain, sass
from carver.compiled.isa.code import Code, Loop
from carver.compiled.isa.rates import Matrix, Table

FROZEN = Path(__file__).parent / "data" / "isa"
"""Code that Triton 3.6 made of small kernels: `NAME.sm_N.txt`, one instruction a line behind its control bits, and AMD
assembly `NAME.gfxN.s` without debug information. vadd: 1,024 float32, 4 warps. rowsum: blocks of 512 float32, 4 warps.
matmul and tmamm: float16, tiles of 128x128x64, 8 warps, 3 stages; tmamm loads through tensor descriptors."""


def control(stall: int = 1, write: int = 7, read: int = 7, wait: int = 0) -> int:
    """The 21 control bits of an instruction that does not yield; 7 is no scoreboard."""
    return stall | 1 << 4 | write << 5 | read << 8 | wait << 11


def listing(lines: list[tuple[int, str]]) -> str:
    """What nvdisasm prints, of (control bits, text)."""
    return "".join(
        f"        /*{16 * i:04x}*/                   {text} ;     /* 0x0000000000000000 */\n"
        f"                                                   /* 0x{bits << 41:016x} */\n"
        for i, (bits, text) in enumerate(lines)
    )


def code(*lines: tuple[int, str], isa: str = "sm_90") -> Code:
    return sass.parse(listing(list(lines)), isa)


def frozen(name: str) -> Code:
    if "gfx" in name:
        return amd.read((FROZEN / f"{name}.s").read_text(encoding="utf-8"))
    lines = [line.split(" ", 1) for line in (FROZEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()]
    return sass.parse(listing([(int(bits, 16), text) for bits, text in lines]), name.partition(".")[2])


def chain_of(
    read: Code, where: Loop | Sequence[int], table: Table, rate: Mapping[Matrix, float],
    latency_clk: Mapping[str, float] = MappingProxyType({}),
) -> chain.Chain:  # fmt: skip
    """The chain of a loop, or of instructions once, with some latencies in place of the table's."""
    assert latency_clk.keys() <= table.latency_clk.keys()
    found = chain.ops(read, where, table, rate)
    return chain.chain(found, isinstance(where, Loop), {**table.latency_clk, **latency_clk})


def assembly(body: str, isa: str = "gfx942", wave: int = 64) -> Code:
    """AMD assembly of a kernel `k` whose instructions and labels are in `body`."""
    lines = [line.strip() for line in body.strip().splitlines()]
    text = "\n".join(line if line.endswith(":") else f"\t{line}" for line in lines)
    facts = {"agpr_count": 4, "name": "k", "private_segment_fixed_size": 16, "sgpr_count": 20, "vgpr_count": 36,
             "wavefront_size": wave}  # fmt: skip
    described = "    ".join(f".{key}: {value}\n" for key, value in facts.items())
    return amd.read(
        f'\t.amdgcn_target "amdgcn-amd-amdhsa--{isa}"\nk:\n{text}\n.Lfunc_end0:\n'
        f"\t.amdgpu_metadata\n---\namdhsa.kernels:\n  - {described}...\n\t.end_amdgpu_metadata\n"
    )
