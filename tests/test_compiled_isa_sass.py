"""NVIDIA machine code as records: control fields, registers, loops. No GPU, compiler or disassembler."""

from __future__ import annotations

import pytest
from machine_code import code, control, frozen

from carver.base.errors import CompileError
from carver.compiled.isa import sass
from carver.compiled.isa.code import advance


@pytest.mark.parametrize(
    ("upper", "fields"),
    [
        # as ptxas 12.8 wrote them for a matmul of sm_80
        (0x000E680000004200, (4, False, 1, None, 0b000000)),  # LDSM.16.MT88.4 R80, [R158+0x8000]
        (0x042FF00000001864, (8, False, None, None, 0b000010)),  # HMMA.16816.F32 R100, R120.reuse, R80, R100
        (0x000FC80000000000, (4, True, None, None, 0b000000)),  # DEPBAR.LE SB0, 0x2
        (0x0003E8000B901C4A, (4, False, None, 1, 0b000000)),  # LDGSTS.E.BYPASS.128 [R57], [R10.64], !P2
    ],
)
def test_control_fields_of_real_encodings(upper: int, fields: tuple[object, ...]) -> None:
    assert sass.control(upper >> 41 & 0x1FFFFF) == fields


def test_fields_of_an_instruction() -> None:
    each = code((control(5, write=2, wait=9), "@!P0 LDG.E.128 R4, desc[UR4][R2.64+0x10]")).instructions[0]
    assert (each.predicate, each.opcode, each.operands) == ("!P0", "LDG.E.128", "R4, desc[UR4][R2.64+0x10]")
    assert each.control == (5, False, 2, None, 9)
    assert (each.predicate, each.opcode, each.operands) == ("!P0", "LDG.E.128", "R4, desc[UR4][R2.64+0x10]")


def test_what_newer_disassemblers_write_behind_the_operands_is_left_out() -> None:
    (each,) = code((control(1, write=0), "LDC R1, c[0x0][0x37c]          &wr=0x0          ?trans1")).instructions
    assert each.operands == "R1, c[0x0][0x37c]"


@pytest.mark.parametrize(
    ("text", "read", "written"),
    [
        ("IADD3 R97, P0, R22, R28, RZ", {"R22", "R28"}, {"R97", "P0"}),
        ("IMAD.WIDE.U32 R18, R13, 0x2, R18", {"R13", "R18", "R19"}, {"R18", "R19"}),
        ("ISETP.GE.AND P0, PT, R0.reuse, UR4, PT", {"R0", "UR4"}, {"P0"}),
        ("SEL R5, R1, R2, !P0", {"R1", "R2", "P0"}, {"R5"}),
        ("LDG.E.128 R4, desc[UR6][R2.64]", {"UR6", "R2", "R3"}, {"R4", "R5", "R6", "R7"}),
        ("STG.E.64 desc[UR6][R2.64], R8", {"UR6", "R2", "R3", "R8", "R9"}, set()),
        ("SHFL.BFLY PT, R58, R44, 0x4, 0x1f", {"R44"}, {"R58"}),
        ("CS2R R38, SRZ", set(), {"R38", "R39"}),
        ("HMMA.16816.F32 R24, R28, R8, RZ", {"R28", "R8"}, {"R24"}),
    ],
)
def test_registers_read_and_written(text: str, read: set[str], written: set[str]) -> None:
    opcode, operands = text.split(" ", 1)
    found_read, found_written = sass.registers(opcode, operands)
    if ".WIDE" in opcode:  # the third factor is a pair, named by its first register
        read = read - {"R19"}
    assert (set(found_read), set(found_written)) == (read, written)


def test_loops_nest_and_what_spins_is_not_work() -> None:
    found = code(
        (control(), "MOV R1, c[0x0][0x28]"),  # 0
        (control(), "LDG.E R2, [R4.64]"),  # 1: outer
        (control(), "FADD R3, R3, R2"),  # 2: inner
        (control(), "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R5"),  # 3
        (control(), "@!P1 BRA 0xa0"),  # 4: to the slow path
        (control(), "FFMA R3, R3, R2, R2"),  # 5
        (control(), "@P0 BRA 0x20"),  # 6: end of the inner loop
        (control(), "STG.E [R4.64], R3"),  # 7
        (control(), "@P2 BRA 0x10"),  # 8: end of the outer loop
        (control(), "EXIT"),  # 9
        (control(), "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R5"),  # 10: spins
        (control(), "@!P1 BRA 0xa0"),  # 11
        (control(), "BRA 0x50"),  # 12: back into the inner loop
        (control(0), "BRA 0xd0"),  # 13: behind the end, never run
        (control(0), "NOP"),  # 14
    )
    (outer,) = found.loops
    (inner,) = outer.loops
    assert (outer.header, outer.own) == (1, (1, 7, 8))
    assert (inner.header, inner.own) == (2, (2, 3, 4, 5, 6, 12))
    assert found.straight == (0, 9)
    assert [loop.header for loop in found.all_loops()] == [1, 2]


def test_a_register_taken_to_the_uniform_ones_is_no_loop() -> None:
    found = code(
        (control(), "LDG.E R2, [R4.64]"),  # 0: the loop
        (control(), "PLOP3.LUT P0, PT, P0, P4, PT, 0xa2, 0x0"),  # 1: again for lanes that hold another number
        (control(), "@P4 R2UR P0, UR10, R4"),  # 2
        (control(), "@P4 PLOP3.LUT P4, PT, P0, PT, PT, 0x80, 0x0"),  # 3
        (control(), "@!UP3 SYNCS.EXCH.64 URZ, [UR10+0x1c100], UR8"),  # 4
        (control(), "@P4 BRA.U.ANY 0x10"),  # 5
        (control(), "@P2 BRA 0x0"),  # 6
        (control(), "EXIT"),  # 7
    )
    assert [(loop.own, loop.loops) for loop in found.loops] == [((0, 1, 2, 3, 4, 5, 6), ())]


def test_a_loop_that_is_entered_in_its_middle_is_found() -> None:
    found = code(
        (control(), "@P0 BRA 0x30"),
        (control(), "LDG.E R2, [R4.64]"),
        (control(), "FADD R3, R3, R2"),
        (control(), "FADD R3, R3, R3"),
        (control(), "@P1 BRA 0x10"),
        (control(), "EXIT"),
    )
    assert [loop.body for loop in found.loops] == [(1, 2, 3, 4)]


def test_partitions_of_warps_behind_an_indirect_branch() -> None:
    found = code(
        (control(), "BRA.U !UP0, 0x80"),  # 0: warps of the first partition leave
        (control(), "BAR.SYNC.DEFER_BLOCKING 0x1"),  # 1: the others wait for work
        (control(), "LDS.U8 R2, [R2]"),  # 2
        (control(), "@P0 BRA 0x10"),  # 3
        (control(), "BRX R2 -0x50"),  # 4
        (control(), "@UP2 UTMALDG.2D [UR12], [UR6]"),  # 5: a partition that loads
        (control(), "BRA.U !UP2, 0x50"),  # 6
        (control(), "BRA 0x10"),  # 7
        (control(), "FADD R3, R3, R2"),  # 8: the first partition
        (control(), "@P0 BRA 0x80"),  # 9
        (control(), "EXIT"),  # 10
    )
    assert [(loop.header, loop.own, loop.entry) for loop in found.loops] == [(5, (5, 6), 5), (8, (8, 9), 0)]


def test_a_loop_around_a_switch_takes_one_of_its_plain_cases() -> None:
    """What jumps back is behind the table. A case that touches memory stays, of the others the longest."""
    found = code(
        (control(), "LDG.E.U8 R2, [R4.64]"),  # 0
        (control(), "BRX R2 -0x50"),  # 1
        (control(), "MOV R3, 0x1"),  # 2
        (control(), "BRA 0xa0"),  # 3
        (control(), "MOV R3, 0x2"),  # 4
        (control(), "FADD R3, R3, R3"),  # 5
        (control(), "BRA 0xa0"),  # 6
        (control(), "LDG.E R3, [R6.64]"),  # 7
        (control(), "BRA 0xa0"),  # 8
        (control(), "EXIT"),  # 9
        (control(), "STG.E [R8.64], R3"),  # 10
        (control(), "@P0 BRA 0x0"),  # 11
        (control(), "EXIT"),  # 12
        (control(), "BRA 0xd0"),  # 13: padding
    )
    assert [loop.own for loop in found.loops] == [(0, 1, 4, 5, 6, 7, 8, 10, 11)]


def test_spills_are_slots_of_the_stack_pointer() -> None:
    found = code(
        (control(), "STL.64 [R1+0x8], R2"),
        (control(), "STL [R1], R2"),
        (control(), "STL [R1+0x8], R4"),  # the same slot again
        (control(), "STL [R1+0x20], R4"),  # an array, filled at a constant place
        (control(), "LDL R4, [R7]"),  # and indexed
        (control(), "LDL.LU.64 R2, [R1+0x8]"),
        (control(), "LDL R2, [R1]"),
        (control(), "EXIT"),
    )
    assert found.resources.spill_bytes == 12


@pytest.mark.parametrize("opcode,width", [("LDG.E", 4), ("LDG.E.U8.CONSTANT", 1), ("LDG.E.128", 16), ("LDS.U16", 2),
                                          ("LDL.LU.64", 8), ("LDGSTS.E.BYPASS.LTC128B.128", 16),
                                          ("REDG.E.ADD.F64.RN.STRONG.GPU", 8), ("F2F.F32.F64", 4)])  # fmt: skip
def test_width_of_an_access(opcode: str, width: int) -> None:
    assert sass.width_bytes(opcode) == width


def test_loop_of_a_matmul() -> None:
    found = frozen("matmul.sm_80")
    (loop,) = found.loops
    opcodes = [found.instructions[i].opcode for i in loop.own]
    assert (len(opcodes), opcodes[0], opcodes[-1]) == (150, "DEPBAR.LE", "BRA")
    assert opcodes.count("HMMA.16816.F32") == 64  # 2 * 128 * 128 * 64 FLOPs / 8 warps / 4096
    assert opcodes.count("LDGSTS.E.BYPASS.128") == 8  # 2 tiles * 16,384 bytes / 8 warps / 512
    assert opcodes.count("BAR.SYNC.DEFER_BLOCKING") == 2


@pytest.mark.parametrize("given", [b"", b"\x7fELF\x02" + bytes(60), b"no cubin at all, but some text of a length"])
def test_what_is_no_cubin_is_refused(given: bytes) -> None:
    with pytest.raises(CompileError, match="no cubin"):
        sass.kernels(given)


def test_a_loop_with_spills_is_no_sine() -> None:
    """Attention over keys of bytes, whose loads the compiler takes for constant, was priced without its loop of 128
    passes (`cuda_bytekeys_256x8192` in `languages_twelfth.jsonl.gz`, tests/data/h200)."""
    loads = ["STL", "LDG.E.128.CONSTANT", "IADD3", "FFMA", "BRA"]
    lanes = ["STL", "LDG.E.CONSTANT", "IDP.4A.S8.S8", "SHFL.BFLY", "MUFU.EX2", "BRA"]
    digits = ["LDG.E.CONSTANT", "IMAD.WIDE.U32", "STL", "ISETP.NE.AND", "BRA"]
    assert [sass.rare(each, within=True) for each in (loads, lanes, digits)] == [False, False, True]


@pytest.mark.parametrize(
    ("lines", "gained"),
    [
        (("IADD3 R13, R13, -0x4, RZ", "ISETP.GT.AND P1, PT, R13, 0x3, PT"), 4),
        (("UIADD3 UR4, UR4, -0x20, URZ", "UISETP.NE.AND UP0, UPT, UR4, URZ, UPT"), 32),
        (("VIADD R9, R4, 0x3", "VIADD R9, R4, 0x8", "ISETP.NE P0, PT, R9, R6, PT", "IMAD.MOV.U32 R4, RZ, RZ, R9"), 8),
        (("VIADD R2, R2, 0xffffffdb", "ISETP.NE.U32.AND P0, PT, R2, -0x3e8, PT"), 37),
        (("IADD3 R4, R4, 0x1, RZ", "VIADD R4, R4, 0x1", "ISETP.NE.AND P0, PT, R4, R6, PT"), 2),
        (("SHF.R.U32.HI R4, RZ, 0x1, R4", "ISETP.NE.AND P0, PT, R4, RZ, PT"), 0),
        (("@P2 IADD3 R4, R4, 0x1, RZ", "ISETP.NE.AND P0, PT, R4, R6, PT"), 0),
        (("IADD3 R4, R4, 0x1, RZ", "IADD3 R6, R6, 0x2, RZ", "ISETP.NE.AND P0, PT, R4, R6, PT"), 0),
    ],
)  # fmt: skip
def test_what_a_pass_adds_to_the_counter_of_a_loop(lines: tuple[str, ...], gained: int) -> None:
    read = code(*((control(4), line) for line in (*lines, "@P0 BRA 0x0", "EXIT")))
    [loop] = read.loops
    assert advance(read, loop) == gained
