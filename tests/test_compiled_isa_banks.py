"""Conflicts of banks, from addresses that lanes compute; the figures are counted by hand."""

from __future__ import annotations

import pytest
from machine_code import assembly

from carver.compiled.execution.warp import BANKED, read_layout
from carver.compiled.execution.wave import lds_passes
from carver.compiled.isa.banks import behind
from carver.compiled.isa.code import Instruction

TID = ("S2R", "R0, SR_TID.X")


def code(*lines: tuple[str, str]) -> list[Instruction]:
    return [Instruction(16 * i, "", opcode, operands) for i, (opcode, operands) in enumerate(lines)]


def passes_of(lines: list[Instruction]) -> dict[int, float]:
    """Of shared memory."""
    return {i: passes for i, passes in read_layout(lines).passes.items() if lines[i].mnemonic in BANKED}


def sectors_of(lines: list[Instruction]) -> dict[int, float]:
    return read_layout(lines).sectors


@pytest.mark.parametrize(
    ("address", "access", "passes"),
    [
        (("IMAD.SHL.U32", "R1, R0, 0x4, RZ"), ("STS", "[R1+UR4], R9"), 1.0),
        (("IMAD.SHL.U32", "R1, R0, 0x8, RZ"), ("LDS", "R9, [R1+0x40]"), 2.0),
        (("IMAD.SHL.U32", "R1, R0, 0x80, RZ"), ("STS.U8", "[R1], R9"), 32.0),
        (("IMAD", "R1, R0, 0x84, RZ"), ("LDS", "R9, [R1]"), 1.0),  # a row of 33 words
        (("IMAD.SHL.U32", "R1, R0, 0x8, RZ"), ("LDS.128", "R8, [R1.X16+0x40]"), 8.0),  # rows of 128 bytes
        (("IMAD.SHL.U32", "R1, R0, 0x10, RZ"), ("LDS.128", "R8, [R1]"), 1.0),
        (("IMAD.SHL.U32", "R1, R0, 0x80, RZ"), ("LDSM.16.M88.4", "R8, [R1]"), 8.0),  # rows of 128 bytes, not swizzled
        (("LOP3.LUT", "R1, R0, 0x3, RZ, 0xc0, !PT"), ("LDS.U8", "R9, [R1]"), 1.0),  # one word for all
        (("LOP3.LUT", "R1, R0, 0x10, RZ, 0xc0, !PT"), ("LDS.128", "R8, [R1]"), 0.5),  # half a warp reads one address
        (("LOP3.LUT", "R1, R0, 0xd, RZ, 0xc0, !PT"), ("LDS.64", "R8, [R1]"), 0.5),  # lanes i and i^2 do
        (("LOP3.LUT", "R1, R0, 0xb, RZ, 0xc0, !PT"), ("LDS.64", "R8, [R1]"), 1.0),  # lanes i and i^4
        (("LOP3.LUT", "R1, R0, 0x10, RZ, 0xc0, !PT"), ("STS.128", "[R1], R8"), 1.0),
        (("IMAD.SHL.U32", "R1, R0, 0x20, RZ"), ("ATOMS.ADD", "RZ, [R1+UR4+0x4], R9"), 8.0),
    ],
)
def test_lanes_that_meet_in_a_bank_take_turns(
    address: tuple[str, str], access: tuple[str, str], passes: float
) -> None:
    assert passes_of(code(TID, address, access)).get(2, 1.0) == passes


def test_a_swizzle_is_seen() -> None:
    """Rows of 128 bytes whose 16-byte pieces are exchanged by the row: ldmatrix finds each in banks of its own."""
    lines = code(
        TID, ("LOP3.LUT", "R1, R0, 0x7, RZ, 0xc0, !PT"), ("IMAD.SHL.U32", "R2, R1, 0x80, RZ"),
        ("IMAD.SHL.U32", "R3, R1, 0x10, RZ"), ("LOP3.LUT", "R4, R2, R3, RZ, 0x3c, !PT"),
        ("LDSM.16.M88.4", "R8, [R4]"),
    )  # fmt: skip
    assert not passes_of(lines)


def test_what_is_loaded_is_not_known() -> None:
    assert not passes_of(code(TID, ("LDG.E", "R1, desc[UR4][R0.64]"), ("IMAD.SHL.U32", "R2, R1, 0x80, RZ"),
                              ("STS", "[R2], R9")))  # fmt: skip


@pytest.mark.parametrize(
    ("operands", "passes"),
    [
        ("R1, 0x3210, RZ", 1.0),  # its bytes as they are: words side by side
        ("RZ, 0x6540, R1", 32.0),  # one byte further up: rows of 1024 bytes
        ("R2, 0x3298, R1", 32.0),  # the signs of its low bytes, and its high ones: rows of 32 KiB
    ],
)
def test_bytes_of_two_words_are_permuted(operands: str, passes: float) -> None:
    words, signs = ("IMAD.SHL.U32", "R1, R0, 0x4, RZ"), ("IMAD.SHL.U32", "R2, R0, 0x8000, RZ")
    assert passes_of(code(TID, words, signs, ("PRMT", f"R4, {operands}"), ("STS", "[R4], R9"))).get(4, 1.0) == passes


def test_a_shift_of_two_registers_writes_one() -> None:
    """R3 holds the address meanwhile."""
    lines = code(TID, ("IMAD.SHL.U32", "R3, R0, 0x80, RZ"), ("SHF.L.U64.HI", "R2, R5, 0x2, R2"), ("STS", "[R3], R9"))
    assert passes_of(lines) == {3: 32.0}


def test_both_sides_of_a_branch_start_alike() -> None:
    """R1 is shifted on one side and on the other, not twice."""
    side = ("IMAD.SHL.U32", "R1, R1, 0x4, RZ")
    lines = code(TID, ("MOV", "R1, R0"), ("BRA", "0x50"), side, ("BRA", "0x60"), side, ("STS", "[R1], R9"))
    lines[2] = lines[2]._replace(predicate="P1", target=0x50)
    lines[4] = lines[4]._replace(target=0x60)
    assert not passes_of(lines)


def test_a_branch_on_a_uniform_predicate_may_fall_through() -> None:
    lines = code(TID, ("IMAD.SHL.U32", "R1, R0, 0x80, RZ"), ("BRA.U", "!UP0, 0x40"), ("STS", "[R1], R9"), ("EXIT", ""))
    lines[2] = lines[2]._replace(target=0x40)
    assert passes_of(lines)[3] == 32.0


def test_a_way_out_between_does_not_hide_what_an_address_is_made_of() -> None:
    """R1 is zeroed only on the way to the end; the access is reached by the branch over it."""
    lines = code(
        TID, ("IMAD.SHL.U32", "R1, R0, 0x8, RZ"), ("BRA", "0x50"), ("MOV", "R1, RZ"), ("BRA", "0x60"),
        ("LDS", "R9, [R1]"), ("EXIT", ""),
    )  # fmt: skip
    lines[2] = lines[2]._replace(predicate="P1", target=0x50)
    lines[4] = lines[4]._replace(target=0x60)
    assert passes_of(lines) == {5: 2.0}


def test_an_address_may_come_from_the_stack() -> None:
    lines = code(
        TID, ("IMAD.SHL.U32", "R2, R0, 0x8, RZ"), ("IMAD.SHL.U32", "R3, R0, 0x4, RZ"), ("STL.64", "[R1+0x10], R2"),
        ("MOV", "R2, RZ"), ("LDL", "R5, [R1+0x10]"), ("LDS", "R9, [R5]"), ("LDL", "R6, [R1+0x14]"), ("LDS", "R9, [R6]"),
        ("LDL", "R7, [R1+0x18]"), ("LDS", "R9, [R7]"),
    )  # fmt: skip
    assert passes_of(lines) == {6: 2.0}


def test_what_an_array_of_local_memory_holds_is_not_known() -> None:
    """R5 had an address whose lanes meet eight at a time."""
    lines = code(TID, ("IMAD.SHL.U32", "R5, R0, 0x20, RZ"), ("LDL", "R5, [R7]"), ("LDS", "R9, [R5]"))
    assert not passes_of(lines) and passes_of([*lines[:2], lines[3]]) == {2: 8.0}


def test_quotients_by_a_number_of_the_code_are_known() -> None:
    """By five, as a product's upper word: seven words for all lanes, each wanted by five or two."""
    lines = code(
        TID, ("IMAD.HI", "R1, R0, 0x66666667, RZ"), ("SHF.R.U32.HI", "R2, RZ, 0x1f, R1"),
        ("LEA.HI.SX32", "R2, R1, R2, 0x1f"), ("IMAD.SHL.U32", "R3, R2, 0x80, RZ"), ("LDS", "R9, [R3]"),
    )  # fmt: skip
    assert passes_of(lines) == {5: 7.0}


COPY = ("LDGSTS.E", "[R20], desc[UR6][R4.64]")
WORDS = ("IMAD.SHL.U32", "R20, R0, 0x4, RZ")


@pytest.mark.parametrize(
    ("address", "copy", "passes"),
    [
        ([("IMAD.WIDE", "R4, R0, 0x4, R2")], COPY, 1.0),
        ([("SHF.R.U32.HI", "R1, RZ, 0x1, R0"), ("IMAD.WIDE", "R4, R1, 0x4, R2")], COPY, 2.0),
        ([("MOV", "R4, R2")], COPY, 32.0),  # one word for all
        # eight lanes to a word of each of four rows, whose distance is an argument
        ([("SHF.R.U32.HI", "R1, RZ, 0x3, R0"), ("IMAD", "R1, R1, c[0x0][0x238], RZ"), ("IMAD.WIDE", "R4, R1, 0x4, R2")],
         COPY, 29.0),
        ([("SHF.R.U32.HI", "R1, RZ, 0x3, R0"), ("IMAD.WIDE", "R4, R1, 0x8, R2")],
         ("LDGSTS.E.64", "[R20], desc[UR6][R4.64]"), 8.0),
        ([("LOP3.LUT", "R1, R0, 0xf, RZ, 0xc0, !PT"), ("IMAD.WIDE", "R4, R1, 0x8, R2")],
         ("LDGSTS.E.64", "[R20], desc[UR6][R4.64]"), 1.0),  # half a warp goes after the other
        ([("MOV", "R4, R2")], ("LDGSTS.E.BYPASS.128", "[R20], desc[UR6][R4.64]"), 1.0),
        ([("LDG.E", "R4, desc[UR4][R0.64]")], COPY, 1.0),  # nobody knows where
        ([("SEL", "R4, R0, R2, UP0")], COPY, 1.0),
        ([("LDC", "R1, c[0x0][0x238]"), ("IMAD", "R4, R0, R1, RZ")], COPY, 32.0),  # rows that begin in one bank
    ],
)  # fmt: skip
def test_lanes_that_copy_the_same_word_take_turns(
    address: list[tuple[str, str]], copy: tuple[str, str], passes: float
) -> None:
    lines = code(TID, WORDS, *address, copy)
    if ".64" in copy[0]:
        lines[1] = lines[1]._replace(operands="R20, R0, 0x8, RZ")
    if "128" in copy[0]:
        lines[1] = lines[1]._replace(operands="R20, R0, 0x10, RZ")
    assert passes_of(lines).get(len(lines) - 1, 1.0) == passes


def test_what_an_unknown_condition_changes_is_not_known() -> None:
    lines = code(TID, WORDS, ("IMAD.WIDE", "R4, R0, 0x4, R2"), ("MOV", "R4, R2"), COPY)
    assert passes_of(lines) == {4: 32.0}
    lines[3] = lines[3]._replace(predicate="UP0")
    assert not passes_of(lines)


def test_one_copy_for_all_lanes_has_no_turns() -> None:
    """A number that every lane names, for one place: one lane copies it."""
    assert not passes_of(code(TID, ("MOV", "R20, R1"), ("MOV", "R4, R2"), COPY))


DIVIDED = """IABS R6, R5|I2F.RP R7, R6|MUFU.RCP R7, R7|VIADD R8, R7, 0xffffffe|F2I.FTZ.U32.TRUNC.NTZ R9, R8
IMAD.MOV R10, RZ, RZ, -R9|IMAD R10, R10, R6, RZ|MOV R8, RZ|IMAD.HI.U32 R9, R9, R10, R8|IABS R11, R0
IMAD.HI.U32 R12, R9, R11, RZ|IMAD.MOV R13, RZ, RZ, -R12|IMAD R14, R6, R13, R11|ISETP.GT.U32.AND P1, PT, R6, R14, PT
@!P1 IMAD.IADD R14, R14, 0x1, -R6|ISETP.GT.U32.AND P2, PT, R6, R14, PT|@!P2 IMAD.IADD R14, R14, 0x1, -R6
ISETP.NE.AND P3, PT, R5, RZ, PT|LOP3.LUT R15, RZ, R5, RZ, 0x33, !PT|SEL R16, R15, R14, !P3
IMAD.WIDE R4, R16, 0x4, R2"""
"""The rest of a division of the lane's number by R5, as ptxas writes it."""


@pytest.mark.parametrize(
    ("divisor", "passes"),
    [(("LDC", "R5, c[0x0][0x220]"), 1.0), (("MOV", "R5, 0x8"), 4.0), (("MOV", "R5, 0x5"), 7.0)],
)
def test_a_remainder_is_computed(divisor: tuple[str, str], passes: float) -> None:
    """By an argument it changes nothing: no tile is as wide. By 8 four lanes want each word, by 5 seven want two."""
    steps = [step.partition(" ") for step in DIVIDED.replace("\n", "|").split("|")]
    lines = code(TID, WORDS, divisor)
    for first, _, rest in steps:
        guard = first[1:] if first.startswith("@") else ""
        opcode, _, operands = rest.partition(" ") if guard else (first, "", rest)
        lines.append(Instruction(16 * len(lines), guard, opcode, operands))
    lines.append(Instruction(16 * len(lines), "", *COPY))
    assert passes_of(lines).get(len(lines) - 1, 1.0) == passes


@pytest.mark.parametrize(
    ("address", "access", "sectors"),
    [
        (("IMAD.WIDE", "R2, R0, 0x4, R2"), "desc[UR6][R2.64]", 4),
        (("LEA", "R2, P0, R0, UR4, 0x4"), "desc[UR6][R2.64+0x4]", 16),  # a thread owns 16 bytes, adds to 4 at a time
        (("IADD3", "R2, P0, R0, UR4, RZ"), "desc[UR6][R2.64]", 4),  # 4 lanes on each word of one
        (("LOP3.LUT", "R2, R0, 0x4, RZ, 0xc0, !PT"), "desc[UR6][R2.64]", 16),  # two words for all
        (("IMAD.WIDE.U32", "R2, R0, 0x80, R2"), "[R2.64]", 32),  # rows of 128 bytes
    ],
)
def test_atomics_touch_sectors(address: tuple[str, str], access: str, sectors: int) -> None:
    assert sectors_of(code(TID, address, ("REDG.E.ADD.STRONG.GPU", f"{access}, R9"))) == {2: sectors}


def test_atomics_of_four_words_a_lane() -> None:
    address, access = ("IMAD.WIDE", "R2, R0, 0x10, R2"), ("REDG.E.ADD.F32x4.FTZ.RN", "desc[UR6][R2.64], R8")
    assert sectors_of(code(TID, address, access)) == {2: 16}


def test_nothing_is_said_of_atomics_where_what_is_loaded_or_given_says() -> None:
    masked = ("LOP3.LUT", "R2, R0, UR4, RZ, 0xc0, !PT")
    assert sectors_of(code(TID, masked, ("RED.E.ADD", "desc[UR4][R2.64], R9"))) == {}
    bound = ("VIMNMX", "R4, R0, R5, PT"), ("IMAD.WIDE", "R2, R4, 0x4, R6"), ("RED.E.ADD", "desc[UR4][R2.64], R9")
    assert sectors_of(code(TID, *bound)) == {}  # lanes beyond it meet
    assert sectors_of(code(TID, ("LDG.E", "R2, desc[UR4][R0.64]"), ("RED.E.ADD", "desc[UR4][R2.64], R9"))) == {}


def test_a_number_is_written_beside_its_predicate() -> None:
    """The even lanes and the odd ones are a row of 128 bytes each, not each lane."""
    lines = code(TID, ("LOP3.LUT", "R1, R0, 0x1f, RZ, 0xc0, !PT"), ("LOP3.LUT", "P0, R1, R0, 0x1, RZ, 0xc0, !PT"),
                 ("IMAD.SHL.U32", "R2, R1, 0x80, RZ"), ("LDS", "R9, [R2]"))  # fmt: skip
    assert passes_of(lines) == {4: 2.0}


@pytest.mark.parametrize(
    ("address", "access", "lines"),
    [
        (("IMAD.WIDE", "R2, R0, 0x4, R4"), "desc[UR4][R2.64]", 0),  # words side by side
        (("IMAD.WIDE", "R2, R0, 0x8, R4"), "desc[UR4][R2.64]", 2),  # every second one
        (("IMAD.WIDE", "R2, R0, 0x4, R4"), "desc[UR4][R2.64+0x4]", 2),  # those at both ends
        (("IMAD.WIDE", "R2, R0, 0x20, R4"), "desc[UR4][R2.64]", 8),  # eight in a row, of as many lines
        (("IMAD.WIDE", "R2, R0, 0x40, R4"), "desc[UR4][R2.64]", 16),
        (("IMAD.WIDE", "R2, R0, 0x200, R4"), "desc[UR4][R2.64]", 32),  # a column
    ],
)
def test_stores_fill_sectors_of_lines_in_part(address: tuple[str, str], access: str, lines: float) -> None:
    found = sectors_of(code(TID, ("LDC.64", "R4, c[0x0][0x210]"), address, ("STG.E", f"{access}, R9")))
    assert found.get(3, 0) == lines


@pytest.mark.parametrize(
    ("second", "found"),
    [("[R2.64+0x4]", 1), ("[R2.64+-0x4]", 1), ("[R2.64+0x20]", 0), ("[R4.64+0x4]", 0)],
)
def test_a_store_behind_another_one_to_the_same_sectors(second: str, found: int) -> None:
    """By the same registers and less than 32 bytes away; not if two instructions stand between them."""
    first, next_ = ("STG.E", "desc[UR4][R2.64], R9"), ("STG.E", f"desc[UR4]{second}, R8")
    other = ("IADD3", "R6, R6, 0x1, RZ")
    assert behind(code(first, next_), [0, 1]) == found
    assert behind(code(first, other, next_), [0, 1, 2]) == found
    assert behind(code(first, other, other, next_), [0, 1, 2, 3]) == 0


@pytest.mark.parametrize(
    ("isa", "wave", "body", "passes"),
    [
        ("gfx1100", 32, "v_lshlrev_b32_e32 v1, 8, v0\nds_load_b128 v[2:5], v1", 8.0),  # rows of 256 bytes: one bank
        ("gfx1100", 32, "v_lshlrev_b32_e32 v1, 4, v0\nds_load_b128 v[2:5], v1", 1.0),
        ("gfx1100", 32, "v_mul_u32_u24_e32 v1, 0x110, v0\nds_load_b128 v[2:5], v1", 1.0),  # rows of 272 bytes
        ("gfx942", 64, "v_lshlrev_b32_e32 v1, 3, v0\nds_read_b32 v2, v1", 2.0),
        ("gfx942", 64, "v_lshlrev_b32_e32 v1, 4, v0\nds_read2st64_b64 v[2:5], v1 offset1:1", 2.0),
        ("gfx942", 64, "v_and_b32_e32 v1, 3, v0\nv_lshlrev_b32_e32 v1, 7, v1\nds_write_b32 v1, v2", 4.0),
        ("gfx942", 64, "v_lshlrev_b32_e32 v1, 7, v0\nv_cmp_gt_u32_e32 vcc, 2, v0\ns_and_saveexec_b64 s[0:1], vcc\n"
         "ds_write_b32 v1, v2", 1.5),  # two lanes of the first half, none of the second
        ("gfx942", 64, "global_load_dword v1, v0, s[0:1]\nv_lshlrev_b32_e32 v1, 7, v1\nds_read_b32 v2, v1", 1.0),
        ("gfx1201", 32, "v_lshlrev_b32 v1, 7, v0\ns_cbranch_scc1 .LBB0_1\nv_mov_b32 v1, 0\ns_branch .LBB0_2\n.LBB0_1:\n"
         "ds_load_b32 v2, v1\n.LBB0_2:", 32.0),  # v1 is 0 where nothing is loaded
        ("gfx950", 64, "v_lshlrev_b32_e32 v1, 7, v0\nds_read_b32 v2, v1", 1.0),  # its banks are others
    ],
)  # fmt: skip
def test_lanes_of_a_wave_meet_in_the_banks_of_lds(isa: str, wave: int, body: str, passes: float) -> None:
    found = lds_passes(assembly(body, isa, wave))
    assert list(found.values() or [1.0]) == [passes]
