"""What code asks of pipes, and what a lone warp waits for, on code short enough to count by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from machine_code import FROZEN, assembly, chain_of, code, control, frozen

from carver.base.errors import ArchError, CompileError
from carver.compiled.isa import amd, chain, rates
from carver.compiled.isa.code import Code, Loop
from carver.compiled.isa.rates import Matrix
from carver.compiled.machine import _laid_out

HOPPER = {Matrix("wgmma", "float16", "float32"): 4096.0}
FREE: dict[Matrix, float] = {}


def at_latencies(
    read: Code, where: Loop | Sequence[int], isa: str, rate: dict[Matrix, float], memory_clk: Sequence[float]
) -> list[chain.Chain]:  # fmt: skip
    table = rates.table(isa)
    return chain.chains(chain.ops(read, where, table, rate), isinstance(where, Loop), table.latency_clk, memory_clk)


def test_work_of_a_vector_addition() -> None:
    # 1,024 float32 by 4 warps: 256 a warp and array, 128 an access of 16 bytes a lane
    found = frozen("vadd.sm_90")
    work = rates.demand(found, found.straight, rates.table("sm_90"))
    assert work.accesses["load global 16"] == 4
    assert work.accesses["store global 16"] == 2
    assert work.bytes["load global"] == 2 * 1024
    assert work.bytes["store global"] == 1024
    assert work.unknown == {} and work.matrix == {} and work.barriers == 0
    assert work.pipe_clk["issue"] == len(found.straight) / 4


def test_work_of_a_vector_addition_on_amd() -> None:
    # a wave of 64 holds 256 of 1,024 elements as well: 4 a lane
    found = frozen("vadd.gfx942")
    work = rates.demand(found, found.straight, rates.table("gfx942"))
    assert work.bytes["load global"] == 2 * 1024
    assert work.bytes["store global"] == 1024
    assert work.unknown == {}


@pytest.mark.parametrize(
    ("name", "instruction"),
    [("matmul.sm_80", "mma"), ("matmul.sm_90", "wgmma"), ("tmamm.sm_90", "wgmma"), ("matmul.gfx942", "mfma")],
)
def test_flops_of_a_matmul_by_warp(name: str, instruction: str) -> None:
    found = frozen(name)
    work = rates.demand(found, found.loops[0].own, rates.table(found.isa))
    assert work.matrix == {f"{instruction} float16 float32": 2 * 128 * 128 * 64 / 8}
    assert work.unknown == {}
    if name.startswith("tmamm"):
        assert work.bulk == 2 and not any(kind.endswith("global") for kind in work.bytes)
    else:
        assert sum(n for kind, n in work.bytes.items() if kind.endswith("global")) == (128 * 64 + 64 * 128) * 2 / 8


def test_pipes_by_lanes_and_bytes() -> None:
    found = code(
        (control(), "FFMA R0, R1, R2, R3"),
        (control(), "MUFU.EX2 R0, R1"),
        (control(), "LDS.128 R4, [R8]"),
        (control(), "@!PT LDS RZ, [RZ]"),  # never runs, but issues
        (control(), "SHFL.BFLY PT, R1, R2, 0x1, 0x1f"),
    )
    work = rates.demand(found, range(5), rates.table("sm_90"))
    assert work.pipe_clk == {"issue": 5 / 4, "fma": 32 / 128, "xu": 32 / 16, "lsu": 512 / 128 + 32 / 32}


def test_what_no_table_lists_is_named() -> None:
    found = code((control(), "FROB.X R0, R1"), (control(), "FROB.X R2, R3"), (control(), "EXIT"))
    assert rates.demand(found, range(3), rates.table("sm_90")).unknown == {"FROB.X": 2}


def test_matrix_work_of_a_block_comes_from_the_instruction_descriptor() -> None:
    found = code(
        (control(), "UMOV UR26, 0x0"),
        (control(), "UMOV UR27, 0x8200010"),  # M 128, N 128, float16 to float32
        (control(), "UTCHMMA gdesc[UR6], gdesc[UR12], tmem[UR9], tmem[UR26], idesc[UR27], UPT"),
        (control(), "UIADD3 UR27, UPT, UPT, UR4, 0x1, URZ"),
        (control(), "UTCHMMA gdesc[UR6], gdesc[UR12], tmem[UR9], tmem[UR26], idesc[UR27], UPT"),
        isa="sm_100",
    )
    work = rates.demand(found, range(5), rates.table("sm_100"))
    assert work.block_matrix == {"tcgen05 float16 float32": 2 * 128 * 128 * 16}
    assert work.unknown == {"UTCHMMA of an unknown shape": 1}


def test_a_lone_warp_takes_its_stalls() -> None:
    found = code((control(4), "IADD3 R0, R1, R2, RZ"), (control(2), "IADD3 R3, R0, R2, RZ"), (control(5), "EXIT"))
    assert chain_of(found, [0, 1, 2], rates.table("sm_90"), FREE).clk == 11


@pytest.mark.parametrize(("passes", "clk"), [(1.0, 4.0), (2.0, 4.0), (8.0, 8.0), (32.0, 32.0)])
def test_lanes_that_meet_in_a_bank_take_passes_and_not_a_lone_warps_share(passes: float, clk: float) -> None:
    """A lone warp has a quarter of the port's lanes, four clocks for 32, and all of its banks, a pass a clock."""
    found = code((control(1), "STS [R4], R0"), (control(1), "STS [R5], R1"), (control(5), "EXIT"))
    table = rates.table("sm_90")
    alone = [chain_of(replace(found, conflicts=dict.fromkeys(range(n), passes)), range(3), table, FREE).clk
             for n in (0, 2)]  # fmt: skip
    assert alone[1] - alone[0] == clk - 4.0


def test_a_copy_reads_and_writes_in_the_same_passes() -> None:
    """32 lanes copy a word each, from rows of 128 bytes to rows of 128 bytes: they meet in one bank of either."""
    found = code((control(1), "S2R R0, SR_TID.X"), (control(1), "IMAD.SHL.U32 R20, R0, 0x80, RZ"),
                 (control(1), "IMAD.WIDE R4, R0, 0x80, R2"),
                 (control(1), "LDGSTS.E [R20], desc[UR6][R4.64]"))  # fmt: skip
    assert _laid_out(found).conflicts[3] == 32.0


def test_lanes_that_share_what_they_read_share_a_pass() -> None:
    """Half a warp reads one address: 16 bytes a lane in half of the four passes."""
    found = code((control(1), "S2R R0, SR_TID.X"), (control(1), "LOP3.LUT R1, R0, 0x10, RZ, 0xc0, !PT"),
                 (control(1), "LDS.128 R8, [R1]"))  # fmt: skip
    assert _laid_out(found).conflicts[2] == 0.5


def test_a_load_is_waited_for_where_its_scoreboard_is() -> None:
    found = code(
        (control(4, write=1), "LDG.E R2, [R4.64]"),
        (control(6), "IADD3 R0, R1, R2, RZ"),
        (control(2, wait=0b10), "FADD R3, R3, R2"),
    )
    read = chain_of(found, [0, 1, 2], rates.table("sm_90"), FREE, {"global": 500.0})
    assert read.clk == 500 + 2
    both = at_latencies(found, [0, 1, 2], "sm_90", FREE, (0.0, 500.0))
    assert [each.clk for each in both] == [4 + 6 + 2, 500 + 2]
    (wait,) = read.waits
    assert (wait.kind, wait.distance) == ("global", 0)
    assert read.exposed_loads == 1 and read.prefetch_distance is None


@pytest.mark.parametrize("left", [0, 1, 2, 5])
def test_groups_of_copies_tell_how_far_ahead_they_are(left: int) -> None:
    """One group an iteration, of which `left` may be on their way at the top of the next."""
    found = code(
        (control(4), f"DEPBAR.LE SB0, 0x{left:x}"),
        (control(1), "BAR.SYNC.DEFER_BLOCKING 0x0"),
        (control(4), "LDGSTS.E.BYPASS.128 [R5], [R6.64]"),
        (control(2, write=0), "LDGDEPBAR"),
        (control(5), "@P0 BRA 0x0"),
    )
    read = chain_of(found, found.loops[0], rates.table("sm_80"), FREE, {"copy": 0.0})
    assert read.prefetch_distance == left + 1
    slow = chain_of(found, found.loops[0], rates.table("sm_80"), FREE, {"copy": 6000.0})
    [body] = at_latencies(found, found.loops[0], "sm_80", FREE, [0.0])
    # a copy is issued 7 clocks before an iteration ends; left + 1 of them pass each other
    assert slow.clk == pytest.approx((6000 + body.clk) / (left + 1), rel=0.02)


@pytest.mark.parametrize(("inside", "waits"), [("LDGSTS.E.BYPASS.128 [R5], [R6.64]", 1), ("STS [R5], R6", 0)])
def test_a_loop_waits_for_what_loops_inside_it_copy(inside: str, waits: int) -> None:
    found = code(
        (control(4), "BAR.SYNC.DEFER_BLOCKING 0x0"),
        (control(4), inside),
        (control(5), "@P1 BRA 0x10"),
        (control(2, write=0), "LDGDEPBAR"),
        (control(4), "DEPBAR.LE SB0, 0x0"),
        (control(5), "@P0 BRA 0x0"),
    )
    near, far = at_latencies(found, found.loops[0], "sm_80", FREE, [0.0, 600.0])
    assert [(wait.kind, wait.distance) for wait in far.waits] == [("copy", 0)] * waits
    assert far.clk - near.clk == pytest.approx(600 * waits, abs=8)


@pytest.mark.parametrize("left,serial", [(0, 1), (1, 0)])
def test_groups_of_matrix_instructions(left: int, serial: int) -> None:
    found = code(
        (control(2), "WARPGROUP.ARRIVE"),
        (control(3), "HGMMA.64x128x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0"),
        (control(2), f"WARPGROUP.DEPBAR.LE gsb0, 0x{left}"),
        (control(5), "@P0 BRA 0x0"),
    )
    read = chain_of(found, found.loops[0], rates.table("sm_90"), HOPPER)
    assert read.serial_matrix_waits == serial
    assert [wait.distance for wait in read.waits] == [left]
    busy = 64 * 128 * 16 * 2 / 4096
    if left:  # the tensor cores never stand still
        assert read.clk == busy
    else:
        assert read.clk == 2 + busy + rates.table("sm_90").latency_clk["matrix"] + 2 + 5


def test_synchronous_matrix_instructions_hold_the_tensor_cores() -> None:
    found = code(*[(control(1), f"HMMA.16816.F32 R{24 + 4 * i}, R8, R4, R{24 + 4 * i}") for i in range(8)])
    read = chain_of(found, range(8), rates.table("sm_80"), {Matrix("mma", "float16", "float32"): 2048.0})
    assert read.clk == 7 * 4096 / (2048 / 4) + 1


ARRIVE = (control(2), "@P0 SYNCS.ARRIVE.TRANS64 RZ, [UR8+0x18000], R2")
COPY = (control(1), "@UP0 UTMALDG.2D [UR4], [UR6]")
COPIED = (control(2), "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR7+0x18000], R4")


def test_engine_copies_are_as_far_ahead_as_the_code_before_the_loop_issues() -> None:
    found = code(*[ARRIVE, COPY] * 3, COPIED, ARRIVE, COPY, (control(5), "@P1 BRA 0x60"))
    assert chain_of(found, found.loops[0], rates.table("sm_90"), FREE).prefetch_distance == 3


def test_waits_of_the_code_before_the_loop_take_copies_away() -> None:
    found = code(*[ARRIVE, COPY, COPY] * 3, COPIED, (control(5), "NOP"), COPIED, ARRIVE, COPY, COPY,
                 (control(5), "@P1 BRA 0xb0"))  # fmt: skip
    assert chain_of(found, found.loops[0], rates.table("sm_90"), FREE).prefetch_distance == 2


@pytest.mark.parametrize("ahead", [0, 1])
def test_matrix_instructions_of_a_block_run_beside_it(ahead: int) -> None:
    """Committed to a barrier without an offset; the loop copies as well, and waits for both."""
    multiply = [
        (control(1), "UMOV UR27, 0x8200010"),
        (control(1), "UTCHMMA gdesc[UR6], gdesc[UR12], tmem[UR9], tmem[UR26], idesc[UR27], UPT"),
        (control(1), "UTCBAR [UR4], URZ"),
    ]
    start = 16 * (2 + 3 * ahead)
    found = code(
        ARRIVE, COPY, *multiply * ahead, COPIED, *multiply,
        (control(2), "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR13], R5"),
        ARRIVE, COPY, (control(5), f"@P1 BRA 0x{start:x}"), isa="sm_100",
    )  # fmt: skip
    rate = {Matrix("tcgen05", "float16", "float32"): 8192.0}
    read = chain_of(found, found.loops[0], rates.table("sm_100"), rate, {"bulk": 0.0})
    assert [(wait.kind, wait.distance) for wait in read.waits] == [("bulk", 1), ("matrix", ahead)]
    busy = 2 * 128 * 128 * 16 / 8192
    assert read.clk == busy if ahead else read.clk > busy + rates.table("sm_100").latency_clk["matrix"]
    assert read.serial_matrix_waits == 1 - ahead


def test_real_loops_of_a_matmul() -> None:
    found = frozen("matmul.sm_90")
    read = chain_of(found, found.loops[0], rates.table("sm_90"), HOPPER)
    # DEPBAR.LE SB0, 0x2 with two groups an iteration; WARPGROUP.DEPBAR.LE gsb0, 0x1
    assert (read.prefetch_distance, read.exposed_loads, read.serial_matrix_waits) == (2, 0, 0)
    [alone] = at_latencies(found, found.loops[0], "sm_90", HOPPER, [0.0])
    assert alone.clk >= 2 * 128 * 128 * 64 / 2 / 4096  # two warp groups; a lone one has half of the work
    found = frozen("matmul.sm_80")
    rate = {Matrix("mma", "float16", "float32"): 2048.0}
    read = chain_of(found, found.loops[0], rates.table("sm_80"), rate)
    assert (read.prefetch_distance, read.exposed_loads) == (2, 0)
    [alone] = at_latencies(found, found.loops[0], "sm_80", rate, [0.0])
    assert 64 * 8 <= alone.clk <= 64 * 8 * 1.35  # 64 HMMA of 8 clocks
    found = frozen("tmamm.sm_90")
    read = chain_of(found, found.loops[0], rates.table("sm_90"), HOPPER)
    assert read.prefetch_distance == 2


def test_ptxas_unrolls_and_loads_are_exposed() -> None:
    found = frozen("rowsum.sm_80")  # a loop over blocks of 512, of which the compiler takes four at once
    read = chain_of(found, found.loops[0], rates.table("sm_80"), FREE)
    assert read.exposed_loads == 4
    [alone] = at_latencies(found, found.loops[0], "sm_80", FREE, [0.0])
    assert read.clk > rates.table("sm_80").latency_clk["global"] > alone.clk


@pytest.mark.parametrize("name,isa", [("rowsum.gfx942", "gfx942"), ("rowsum.gfx1201", "gfx1201")])
def test_a_load_of_each_iteration_on_amd(name: str, isa: str) -> None:
    found = frozen(name)
    read = chain_of(found, found.loops[0], rates.table(isa), FREE)
    assert read.exposed_loads == 1
    assert read.clk > rates.table(isa).latency_clk["global"]


def test_counters_leave_the_youngest_outstanding() -> None:
    found = assembly(
        """
        global_load_dwordx4 v[0:3], v[8:9], off
        .LBB0_1:
        global_load_dwordx4 v[4:7], v[8:9], off
        s_waitcnt vmcnt(1)
        v_add_f32_e32 v10, v0, v4
        s_cbranch_scc1 .LBB0_1
        s_endpgm
        """
    )
    read = chain_of(found, found.loops[0], rates.table("gfx942"), FREE)
    assert [(wait.kind, wait.distance) for wait in read.waits] == [("global", 1)]
    assert read.exposed_loads == 0


def test_stores_of_gfx9_count_with_loads() -> None:
    body = """
        global_load_dword v0, v[8:9], off
        global_store_dword v[8:9], v1, off
        s_waitcnt vmcnt(1)
        s_endpgm
        """
    for isa, waits in (("gfx942", 1), ("gfx1100", 0)):
        found = assembly(body, isa)
        assert len(chain_of(found, range(4), rates.table(isa), FREE).waits) == waits


def test_loads_to_shared_memory_are_copies() -> None:
    found = assembly(
        """
        buffer_load_dwordx4 v1, s[8:11], 0 offen lds
        .LBB0_1:
        global_load_lds_dwordx4 v[4:5], off
        s_waitcnt vmcnt(1)
        s_barrier
        ds_read_b128 v[8:11], v12
        s_waitcnt lgkmcnt(0)
        s_cbranch_scc1 .LBB0_1
        s_endpgm
        """,
        "gfx950",
    )
    work = rates.demand(found, found.loops[0].own, rates.table("gfx950"))
    assert work.accesses == {"copy global 16": 1, "load shared 16": 1}
    assert rates.demand(found, [0], rates.table("gfx950")).accesses == {"copy global 16": 1}
    read = chain_of(found, found.loops[0], rates.table("gfx950"), FREE)
    assert (read.prefetch_distance, read.exposed_loads) == (1, 0)


@pytest.mark.parametrize(
    ("isa", "store", "load", "other"),
    [
        ("gfx90a", "buffer_store_dword v1, off, s[28:31], 0", "buffer_load_dword a1, off, s[28:31], 0",
         "buffer_store_dword v1, v2, s[4:7], 0 offen"),
        ("gfx950", "scratch_store_dwordx4 off, v[6:9], off offset:8", "scratch_load_dwordx4 v[6:9], off, off offset:8",
         "scratch_store_dword v2, v1, off"),
        ("gfx1100", "scratch_store_b128 off, v[6:9], off offset:32", "scratch_load_b128 v[6:9], off, off offset:32",
         "scratch_store_b32 v2, v1, off"),
    ],
)  # fmt: skip
def test_spills_of_amd_are_told_from_arrays_and_buffers(isa: str, store: str, load: str, other: str) -> None:
    found = assembly(f"{store}\n{load}\n{other}\ns_endpgm", isa)
    assert [each.opcode.endswith(".spill") for each in found.instructions] == [True, True, False, False]
    width = 4 if isa == "gfx90a" else 16
    assert found.resources.spill_bytes == width
    work = rates.demand(found, [0, 1], rates.table(isa))
    assert work.accesses == {f"store local {width}": 1, f"load local {width}": 1}


def test_dependences_that_rdna_names() -> None:
    """s_delay_alu: the next depends on the last vector result, the one after the next on the last transcendental."""
    found = assembly(
        """
        v_exp_f32_e32 v1, v0
        v_add_f32_e32 v2, v0, v0
        s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(TRANS32_DEP_1)
        v_add_f32_e32 v3, v2, v2
        v_add_f32_e32 v4, v1, v2
        s_endpgm
        """,
        "gfx1100", 32,
    )  # fmt: skip
    # issued at 0, 1, 2; the second result at 6; the exponential at 10; then one clock each
    assert chain_of(found, range(6), rates.table("gfx1100"), FREE).clk == 10 + 1 + 1


@pytest.mark.parametrize(
    ("target", "isa"),
    [
        ("amdgcn-amd-amdhsa--gfx942", "gfx942"),
        ("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a"),
        ("amdgpu9.0a-amd-amdhsa-unknown-gfx90a", "gfx90a"),  # of LLVM as Triton 3.9 has it
    ],
)
def test_targets_as_llvm_spells_them(target: str, isa: str) -> None:
    text = (FROZEN / "vadd.gfx942.s").read_text(encoding="utf-8")
    assert amd.read(text.replace('target "amdgcn-amd-amdhsa--gfx942"', f'target "{target}"')).isa == isa


def test_arguments_with_names_are_no_kernels() -> None:
    """LLVM sorts what it says of a kernel, and tells its arguments first."""
    text = (FROZEN / "vadd.gfx942.s").read_text(encoding="utf-8")
    argument = "    .args:\n      - .name:           x\n        .offset:         0\n        .vgpr_count: 9\n"
    named = text.replace("amdhsa.kernels:\n  - ", "amdhsa.kernels:\n  - .agpr_count: 0\n" + argument + "    ", 1)
    assert named != text
    assert amd.read(named) == amd.read(text)


def test_what_is_no_kernel_of_amd_is_refused() -> None:
    with pytest.raises(CompileError, match="no AMD assembly"):
        amd.read("v_add_f32 v0, v1, v2")
    text = (FROZEN / "vadd.gfx942.s").read_text(encoding="utf-8")
    with pytest.raises(CompileError, match="no kernel 'vad', but: vadd"):
        amd.read(text, "vad")


def test_s_nop_and_issue_of_a_wave() -> None:
    found = assembly("v_add_f32_e32 v10, v0, v4\ns_nop 3\nv_exp_f32_e32 v1, v0\ns_endpgm")
    assert chain_of(found, range(4), rates.table("gfx942"), FREE).clk == 4 + 4 * 4 + 16 + 4


def test_unknown_instruction_sets_are_refused() -> None:
    with pytest.raises(ArchError, match="no rates of instructions for 'sm_91'; did you mean 'sm_90'"):
        rates.table("sm_91")


def test_an_atomic_that_acquires_and_releases_waits_twice_and_empties_l1() -> None:
    """As ptxas writes `atom.acq_rel.gpu` for an H100: a fence, the atomic, and L1 emptied when it is back. Its earlier
    value comes back; that of a relaxed one does not."""
    acquires = code(
        (control(), "MEMBAR.ALL.GPU"),
        (control(), "ERRBAR"),
        (control(write=2), "ATOMG.E.ADD.STRONG.GPU PT, RZ, desc[UR4][R2.64], R5"),
        (control(wait=1 << 2), "CCTL.IVALL"),
    )
    relaxed = code((control(), "REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R5"))
    table = rates.table("sm_90")
    work = [rates.demand(found, found.straight, table) for found in (acquires, relaxed)]
    assert [(each.invalidations, each.atomic_returned) for each in work] == [(1, 32), (0, 0)]
    taken = [chain_of(found, found.straight, table, FREE, {"atomic": 1000}).clk for found in (acquires, relaxed)]
    assert 2000 <= taken[0] < 2020 and taken[1] < 20


def test_a_lone_wave_waits_for_its_lanes_that_meet_in_a_bank() -> None:
    """The LDS takes 16 clocks for a wave's 16 bytes a lane, and so many for each pass: 8 passes, and 8 of each."""
    found = assembly("ds_read_b128 v[0:3], v4\nds_read_b128 v[4:7], v4\ns_waitcnt lgkmcnt(0)")
    table = rates.table("gfx942")
    lone = [chain_of(replace(found, conflicts=dict.fromkeys((0, 1), passes)), [0, 1, 2], table, FREE).clk
            for passes in (1.0, 8.0)]  # fmt: skip
    assert lone[1] - lone[0] >= 7 * 8
