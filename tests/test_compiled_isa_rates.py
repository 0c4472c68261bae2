"""Tables of instruction rates, and matrix instructions by their names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from carver.base.errors import ArchError
from carver.compiled.isa import rates
from carver.compiled.isa.rates import Matrix, load

FOLDER = rates.folder("arch") / "isa"


@pytest.mark.parametrize("name", rates.families())
def test_each_table_is_whole(name: str) -> None:
    table = load(FOLDER / f"{name}.toml")
    assert table.covers and table.sources.keys() >= {"latency_clk"}
    listed = Counter(pattern for group in table.groups for pattern in group.opcodes)
    assert [pattern for pattern, n in listed.items() if n > 1] == []
    assert all(group.source for group in table.groups)
    assert all(value > 0 for group in table.groups for value in (*group.lanes.values(), *group.bytes_per_clk.values()))


def test_a_table_extends_a_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('covers = ["x"]\nextends = ["more"]\nschedulers = 4\n[latency_clk]\n[source]\n')
    with pytest.raises(ArchError, match=r"x\.toml extends 'more', which is not in common/"):
        load(path)
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "more.toml").write_text('[[group]]\nopcodes = ["X"]\nsource = "s"\n')
    assert load(path).group("X.E").source == "s"
    own = tmp_path / "own.toml"
    own.write_text(path.read_text() + '[[group]]\nopcodes = ["X"]\nsource = "its own"\n')
    assert load(own).group("X.E").source == "its own"


def test_an_instruction_set_is_in_one_table() -> None:
    covered = Counter(isa for name in rates.families() for isa in load(FOLDER / f"{name}.toml").covers)
    assert max(covered.values()) == 1
    assert covered.keys() >= {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"}
    assert covered.keys() >= {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201"}


def test_the_longest_pattern_wins() -> None:
    table = rates.table("sm_90")
    assert table.group("IMAD.WIDE.U32").lanes == {"fma": 64, "fma_heavy": 32}
    assert table.group("IMAD.U32").lanes == {"fma": 128, "fma_heavy": 64}
    assert table.group("IMADSP").lanes == table.group("IMAD").lanes
    assert table.group("IMAGINARY") is rates.UNKNOWN
    table = rates.table("gfx942")
    assert table.group("buffer_load_dwordx4").access == ("load", "global")
    assert table.group("buffer_load_dwordx4.lds").access == ("copy", "global")
    assert table.group("buffer_load_dword.spill").access == ("load", "local")


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ('opcodes = ["X"]', "it needs opcodes and source"),
        ('opcodes = ["X"]\nsource = "s"\nlane = { a = 1 }', "it needs opcodes and source"),
        ('opcodes = ["X"]\nsource = "s"\nlatency = "globel"', "latency 'globel' has no clocks; did you mean 'global'"),
        ('opcodes = ["X"]\nsource = "s"\nrole = "barier"', "role 'barier'; did you mean 'barrier'"),
    ],
)
def test_a_fault_in_a_table_is_named(tmp_path: Path, group: str, message: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'covers = ["x"]\nschedulers = 4\n[latency_clk]\nglobal = 1.0\n[source]\n[[group]]\n{group}\n')
    with pytest.raises(ArchError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("opcode", "kind", "flops"),
    [
        ("HMMA.1688.F16", ("mma", "float16", "float16"), 2048),
        ("HMMA.16816.F32", ("mma", "float16", "float32"), 4096),
        ("HMMA.16816.F32.BF16", ("mma", "bfloat16", "float32"), 4096),
        ("HMMA.1684.F32.TF32", ("mma", "tf32", "float32"), 1024),
        ("IMMA.8816.S8.S8", ("mma", "int8", "int32"), 2048),
        ("IMMA.16832.U8.S8", ("mma", "int8", "int32"), 8192),
        ("DMMA.884", ("mma", "float64", "float64"), 512),
        ("DMMA.16x8x16", ("mma", "float64", "float64"), 4096),
        ("QMMA.16832.F32.E5M2.E4M3", ("mma", "float8_e5m2", "float32"), 8192),
        ("HMMA.SP.16832.F32", ("mma", "float16", "float32"), 4096),
        ("IMMA.SP.16864.S8.S8", ("mma", "int8", "int32"), 8192),
        ("HGMMA.SP.64x128x32.F32", ("wgmma", "float16", "float32"), 2 * 64 * 128 * 16 / 4),
        ("HGMMA.64x128x16.F32.BF16", ("wgmma", "bfloat16", "float32"), 2 * 64 * 128 * 16 / 4),
        ("HGMMA.64x256x8.F32.TF32", ("wgmma", "tf32", "float32"), 2 * 64 * 256 * 8 / 4),
        ("HGMMA.64x64x16.F16", ("wgmma", "float16", "float16"), 2 * 64 * 64 * 16 / 4),
        ("IGMMA.64x128x32.S8.S8", ("wgmma", "int8", "int32"), 2 * 64 * 128 * 32 / 4),
        ("QGMMA.64x128x32.F32.E4M3.E4M3", ("wgmma", "float8_e4m3", "float32"), 2 * 64 * 128 * 32 / 4),
    ],
)
def test_matrix_instructions_of_nvidia(opcode: str, kind: tuple[str, str, str], flops: float) -> None:
    assert rates.sass_matrix(opcode) == (Matrix(*kind), flops)


@pytest.mark.parametrize(
    ("opcode", "kind", "flops"),
    [
        ("v_mfma_f32_32x32x8f16", ("mfma", "float16", "float32"), 2 * 32 * 32 * 8),
        ("v_mfma_f32_32x32x4f16", ("mfma", "float16", "float32"), 2 * 32 * 32 * 4 * 2),
        ("v_mfma_f32_4x4x4f16", ("mfma", "float16", "float32"), 2 * 4 * 4 * 4 * 16),
        ("v_mfma_f32_16x16x16bf16_1k", ("mfma", "bfloat16", "float32"), 2 * 16**3),
        ("v_mfma_f32_32x32x4bf16_1k", ("mfma", "bfloat16", "float32"), 2 * 32 * 32 * 4 * 2),
        ("v_mfma_f32_32x32x4bf16", ("mfma", "bfloat16", "float32"), 2 * 32 * 32 * 4),
        ("v_mfma_f32_32x32x2bf16", ("mfma", "bfloat16", "float32"), 2 * 32 * 32 * 2 * 2),
        ("v_mfma_f32_16x16x16_bf16", ("mfma", "bfloat16", "float32"), 2 * 16**3),
        ("v_mfma_f32_32x32x4_2b_f16", ("mfma", "float16", "float32"), 2 * 32 * 32 * 4 * 2),
        ("v_mfma_i32_32x32x16_i8", ("mfma", "int8", "int32"), 2 * 32 * 32 * 16),
        ("v_mfma_f64_16x16x4_f64", ("mfma", "float64", "float64"), 2 * 16 * 16 * 4),
        ("v_mfma_f32_16x16x8_xf32", ("mfma", "tf32", "float32"), 2 * 16 * 16 * 8),
        ("v_mfma_f32_16x16x32_bf8_fp8", ("mfma", "float8_e5m2", "float32"), 2 * 16 * 16 * 32),
        ("v_mfma_f32_32x32x64_f8f6f4", ("mfma", "float8_e4m3", "float32"), 2 * 32 * 32 * 64),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", ("mfma", "float8_e4m3", "float32"), 2 * 16 * 16 * 128),
        ("v_wmma_f32_16x16x16_f16", ("wmma", "float16", "float32"), 2 * 16**3),
        ("v_wmma_f16_16x16x16_f16", ("wmma", "float16", "float16"), 2 * 16**3),
        ("v_wmma_i32_16x16x16_iu8", ("wmma", "int8", "int32"), 2 * 16**3),
        ("v_mfma_f64_4x4x4f64", ("mfma", "float64", "float64"), 2 * 4 * 4 * 4 * 4),
        ("v_mfma_f64_4x4x4_4b_f64", ("mfma", "float64", "float64"), 2 * 4 * 4 * 4 * 4),
        ("v_smfmac_f32_32x32x16_f16", ("mfma", "float16", "float32"), 2 * 32 * 32 * 8),
        ("v_swmmac_f32_16x16x32_f16", ("wmma", "float16", "float32"), 2 * 16**3),
    ],
)
def test_matrix_instructions_of_amd(opcode: str, kind: tuple[str, str, str], flops: float) -> None:
    assert rates.amd_matrix(opcode) == (Matrix(*kind), flops)


@pytest.mark.parametrize(
    ("opcode", "operands", "size"),
    [
        ("HGMMA.64x128x16.F32", "R24, gdesc[UR8].tnspB, R24", (64 + 128) * 16 * 2 / 4),
        ("HGMMA.64x128x16.F32", "R24, R4, gdesc[UR8].tnspB, R24", 128 * 16 * 2 / 4),
        ("HGMMA.64x64x8.F32.TF32", "R24, gdesc[UR8], RZ, !UPT", (64 + 64) * 8 * 4 / 4),
        ("QGMMA.64x64x32.F32.E4M3.E4M3", "R24, gdesc[UR8], R24", (64 + 64) * 32 / 4),
        ("HGMMA.SP.64x128x32.F32", "R24, gdesc[UR8], R24", (64 / 2 + 128) * 32 * 2 / 4),
        ("HMMA.16816.F32", "R24, R8, R4, R24", 0),
    ],
)
def test_factors_in_shared_memory(opcode: str, operands: str, size: float) -> None:
    assert rates.sass_shared_bytes(opcode, operands) == size


@pytest.mark.parametrize(("first", "size"), [("gdesc[UR6]", (128 + 128) * 32), ("tmem[UR6]", 128 * 32)])
def test_factors_of_a_block(first: str, size: float) -> None:
    operands = f"{first}, gdesc[UR12], tmem[UR9], tmem[UR26], idesc[UR27], UPT"
    assert rates.block_of("UTCHMMA", 0x8200010) == (Matrix("tcgen05", "float16", "float32"), 2 * 128 * 128 * 16)
    assert rates.block_shared_bytes(operands, 0x8200010) == size


@pytest.mark.parametrize("which", range(4))
def test_blocks_with_scales_add_in_32_bits(which: int) -> None:
    """Two bits of the descriptor say which of the scales belong to an instruction."""
    operands = "gdesc[UR12], gdesc[UR14], tmem[UR19], tmem[UR26], idesc[UR27], tmem[UR24], UP0"
    kind, flops = Matrix("tcgen05", "float8_e4m3", "float32"), 2 * 128 * 128 * 32
    assert rates.block_of("UTCQMMA", 0x8200000 | which << 4, operands) == (kind, flops)


@pytest.mark.parametrize(
    ("found", "dtype"),
    [
        (rates.block_of("UTCQMMA", 0x8200010 | 5 << 7), "float8_e4m3"),
        (rates.sass_matrix("QMMA.SF.16832.F32.E2M1.E2M1.E8"), "float8_e4m3"),
        (rates.sass_matrix("OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X"), "float4_e2m1"),
        (
            rates.amd_matrix("v_mfma_scale_f32_32x32x64_f8f6f4", "a[0:15], v[0:3], v[8:15], a[0:15], v1, v2 cbsz:4"),
            "float8_e4m3",
        ),
        (
            rates.amd_matrix("v_mfma_f32_32x32x64_f8f6f4", "a[0:15], v[0:3], v[8:11], a[0:15] cbsz:4 blgp:2"),
            "float4_e2m1",
        ),
        (rates.amd_matrix("v_mfma_f32_32x32x64_f8f6f4", "a[0:15], v[0:7], v[8:15], a[0:15] cbsz:1"), "float8_e5m2"),
    ],
)
def test_narrow_types_are_multiplied_at_the_rate_of_the_widest(found: Any, dtype: str) -> None:
    assert found[0].dtype == dtype


def test_a_kind_that_is_not_listed_has_the_rate_of_the_next_wider_type() -> None:
    held = {Matrix("mma", "float64", "float64"): 2.0, Matrix("mma", "float16", "float32"): 512.0,
            Matrix("mma", "float8_e4m3", "float16"): 2048.0, Matrix("mma", "float8_e4m3", "float32"): 1024.0,
            Matrix("wgmma", "float8_e4m3", "float32"): 8192.0}  # fmt: skip
    assert rates.rate(Matrix("mma", "float16", "float32"), held) == 512.0
    assert rates.rate(Matrix("mma", "float4_e2m1", "float32"), held) == 1024.0
    assert rates.rate(Matrix("mma", "bfloat16", "float16"), held) == 512.0
    assert rates.rate(Matrix("tcgen05", "float16", "float32"), held) == 2.0


@pytest.mark.parametrize("opcode", ["FFMA", "IMMAX.16816", "v_add_f32", "MUFU.EX2", "HADD2.F32"])
def test_other_instructions_multiply_no_matrices(opcode: str) -> None:
    assert rates.sass_matrix(opcode) is None and rates.amd_matrix(opcode) is None


@pytest.mark.parametrize(("opcode", "size"), [
    ("global_load_d16_u8", 1), ("global_load_d16_hi_i8", 1), ("ds_read_u8_d16", 1), ("global_load_ubyte_d16_hi", 1),
    ("global_load_d16_b16", 2), ("global_load_short_d16", 2), ("ds_write_b16_d16_hi", 2), ("global_load_dwordx3", 12),
    ("global_atomic_pk_add_f16", 4), ("global_atomic_pk_add_bf16", 4), ("flat_atomic_add_x2", 8), ("ds_read2_b32", 8),
    ("global_atomic_cmpswap_x2", 8), ("global_atomic_add_f32", 4), ("global_atomic_add_u64", 8),
    ("buffer_load_dword", 4),
])  # fmt: skip
def test_widths_of_amds_accesses(opcode: str, size: int) -> None:
    assert rates.width_bytes(opcode) == size


def test_conversions_of_uniform_numbers_have_a_rate() -> None:
    """Of every product with a division of whole numbers on an RTX 5090."""
    assert all(rates.table(isa).group("UF2I.U32.TRUNC.NTZ").source for isa in ("sm_100", "sm_120"))


@pytest.mark.parametrize(("isa", "clk"), [("sm_75", 2.0), ("sm_86", 2.0), ("sm_90", 0.0), ("sm_120", 2.0)])
def test_addresses_take_their_own_time(isa: str, clk: float) -> None:
    """An SM of workstations has 16 load/store units, whatever the width of what its warps load, from either memory."""
    found = rates.table(isa)
    for opcode in ("LDG.E.U8", "LDG.E", "LDG.E.128", "LDS", "LDS.128", "STS", "STG.E"):
        assert dict(rates.pipe_clk(found.group(opcode), opcode, 32)).get("agu", 0.0) == clk
