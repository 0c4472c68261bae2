"""The descriptors prove themselves by arithmetic; every wrong file is refused with the reason."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from cases import holds_for_each

import carver
from carver.arch import devices as arches
from carver.arch.descriptor import SECTIONS
from carver.arch.devices import CPU, CUDA, HIP, Apple, Arch, load, names, to_toml
from carver.base.errors import ArchError
from carver.base.folders import cache_folder, folder
from carver.cost.model import resolve
from carver.cost.tile import issue_per_clk
from carver.kernels.declaration import kernels

REQUIRED = """
v100_sxm2 t4 a100_sxm_40 a100_sxm_80 a100_pcie_80 a10 a40 rtx_a4000 rtx_a6000 rtx_2080_ti titan_rtx
rtx_3060_laptop rtx_3090 rtx_4090 l4 l40s h100_sxm h100_pcie h200_sxm b200 rtx_5090 gtx_680 titan_x_maxwell gtx_1080_ti
p100_sxm2 mi50 radeon_vii mi100 mi210 mi250x_gcd mi300x mi355x rx_7900_xtx pro_w6600 pro_w7800 rx_6900_xt rx_6800
gtx_750_ti gtx_980 gtx_titan_black k20 k40 k80 m60 p40 titan_x_pascal titan_v rtx_2070_super quadro_rtx_8000 rtx_3070_ti
a2 rtx_5000_ada rx_480 r9_fury_x mi25 rx_5700_xt rx_6600_xt rx_7700_xt rx_7900_gre
mi308x rtx_4090_d rtx_4060_laptop rtx_5090_laptop rtx_pro_4500 gtx_1650 jetson_orin_nano_8 radeon_780m rx_7600_xt
b300 gb300 gb200 h200_nvl gb10 jetson_agx_thor rtx_pro_6000_server radeon_8060s r9700 rx_9060_xt rx_7600 p100_pcie
cpu_avx2 cpu_avx512 cpu_neon apple_m2_max
"""
SINGLE_FMA = ("gfx803", "gfx900", "gfx906", "gfx908", "gfx1010", "gfx1030", "gfx1031", "gfx1032", "gfx1034")


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CONFIG_DIR", str(tmp_path / "config"))


every_descriptor = holds_for_each(map(load, names()))


def sheet(device: Arch, table: str) -> dict[str, float]:
    return dict(dict(device.datasheet).get(table, ()))


# ---- what every descriptor must satisfy


@every_descriptor
def test_vector_rates_give_the_datasheet(device: Arch) -> None:
    for dtype, tflops in sheet(device, "vector_tflops").items():
        assert device.vector_flops_per_s(dtype) == pytest.approx(tflops * 1e12, rel=0.02), dtype


@every_descriptor
def test_matrix_rates_give_the_datasheet(device: Arch) -> None:
    for dtype, tflops in sheet(device, "matrix_tflops").items():
        assert device.matrix_flops_per_s(dtype) == pytest.approx(tflops * 1e12, rel=0.02), dtype


@every_descriptor
def test_float32_rate_is_two_flops_a_lane(device: Arch) -> None:
    of_cpu = device.fma_per_clk * device.simd_bytes // 4 * device.sm_count
    assert device.lanes_per_sm * device.sm_count == dict(device.datasheet).get("lanes", of_cpu)
    # RDNA from the third issues two FMA at once, CDNA from the second packed ones
    pairs = device.vendor == "amd" and device.isa not in SINGLE_FMA
    assert device.vector_flops_per_clk("float32") == (4 if pairs else 2) * device.lanes_per_sm


def test_lanes_and_the_float32_rate_agree() -> None:
    said = r"mi300x: \[vector\] float32 256 must be 2 FLOP a clock for each of lanes_per_sm 32, or 4 where"
    with pytest.raises(ArchError, match=said):
        load("mi300x").replace(lanes_per_sm=32)


def test_amd_schedulers_issue_to_sixteen_lanes_or_to_thirty_two() -> None:
    per_clk = {name: issue_per_clk(load(name)) for name in ("mi50", "mi250x_gcd", "mi300x", "rx_7900_xtx", "h200")}
    assert per_clk == {"mi50": 1, "mi250x_gcd": 1, "mi300x": 1, "rx_7900_xtx": 2, "h200": 4}


def test_vector_loads_of_a_cpu_core() -> None:
    cpus = [arch for arch in map(load, names()) if arch.kind == "cpu"]
    loads = {arch.name: arch.smem_bytes_per_clk / arch.simd_bytes for arch in cpus}
    assert loads == {"cpu_avx2": 2, "cpu_avx512": 2, "cpu_neon": 2, "ryzen_5950x": 2, "ryzen_7950x": 1}
    one, two = (
        carver.ReductionTemplate("softmax", (64, 64)).with_arch(arch).recommend_hints(1)[0].predicted_ms
        for arch in (load("ryzen_7950x"), load("ryzen_7950x").replace(smem_bytes_per_clk=128.0))
    )
    assert one > two


@every_descriptor
def test_capacity_is_counted_in_gib(device: Arch) -> None:
    assert device.dram_bytes % (1 << 30) == 0


def test_a_capped_card_is_capped_in_int8_too() -> None:
    for name in ("l20", "l40", "a10g"):
        assert load(name).matrix_flops_per_s("int8") == 2 * load(name).matrix_flops_per_s("float16")


@every_descriptor
def test_mma_sync_reaches_part_of_wgmma(device: Arch) -> None:
    for row in device.matrix:
        if row.instruction == "wgmma" and (mma := device.matrix_unit(row.dtype, row.accumulate, "mma")):
            assert mma.flops_per_clk_per_sm / row.flops_per_clk_per_sm == pytest.approx(0.63, abs=0.005), row


@every_descriptor
def test_dram_bandwidth_is_pins_times_rate(device: Arch) -> None:
    assert device.dram_bytes_per_s == pytest.approx(device.bus_bits * device.pin_bits_per_s / 8, rel=0.02)
    assert device.dram_bytes_per_s == pytest.approx(dict(device.datasheet)["dram_gb_per_s"] * 1e9, rel=0.02)


@every_descriptor
def test_caches_are_faster_and_smaller_the_nearer_they_are(device: Arch) -> None:
    levels = [device.l2_bytes_per_s, device.dram_bytes_per_s]
    sizes = [device.l2_bytes, device.dram_bytes]
    if device.l3_bytes:
        levels.insert(1, device.l3_bytes_per_s)
        sizes.insert(1, device.l3_bytes)
    assert levels == sorted(levels, reverse=True) and len(set(levels)) == len(levels)
    assert sizes == sorted(sizes)
    assert device.l2_latency_s < device.dram_latency_s
    assert device.smem_bytes_per_clk >= device.l2_bytes_per_clk_per_sm


@every_descriptor
def test_a_block_fits_an_sm(device: Arch) -> None:
    assert device.smem_per_block_bytes + device.smem_reserved_bytes <= device.smem_per_sm_bytes
    assert device.smem_per_block_bytes % device.smem_granule_bytes == 0
    assert device.max_threads_per_block % device.warp_size == 0 == device.max_threads_per_sm % device.warp_size
    warps = device.max_threads_per_block // device.warp_size
    assert warps * device.reg_granule <= device.regs_per_sm, "the largest block at the fewest registers"
    assert device.max_regs_per_thread * device.warp_size <= device.regs_per_sm


@every_descriptor
def test_matrix_units_are_not_slower_than_vector_units(device: Arch) -> None:
    for row in device.matrix:
        assert row.flops_per_clk_per_sm >= device.vector_flops_per_clk(row.dtype), row
    if device.vendor == "nvidia" and device.matrix:
        unit = device.matrix_unit("float16")
        assert unit and unit.flops_per_clk_per_sm >= 2 * device.vector_flops_per_clk("float16")


@every_descriptor
def test_matrix_rows_are_distinct(device: Arch) -> None:
    keys = [(row.dtype, row.accumulate, row.instruction) for row in device.matrix]
    assert len(keys) == len(set(keys))


@every_descriptor
def test_instructions_belong_to_the_isa(device: Arch) -> None:
    used = {row.instruction for row in device.matrix}
    if device.cc:
        assert used <= {"mma"} | {9: {"wgmma"}, 10: {"tcgen05"}, 11: {"tcgen05"}}.get(device.cc[0], set())
        assert device.async_copy == (device.cc >= (8, 0)) and device.tma == (device.cc >= (9, 0))
        assert bool(device.matrix) == (device.cc >= (7, 0) and not device.name.startswith(("gtx_", "t1000")))
    else:
        assert used <= ({"wmma"} if device.isa.startswith("gfx1") else {"mfma"})
        assert not device.tma


def test_half_rate_with_wide_accumulation_is_a_trait_of_geforce() -> None:
    def ratio(name: str) -> float:
        card = load(name)
        wide, narrow = card.matrix_unit("float16"), card.matrix_unit("float16", "float16")
        assert wide and narrow
        return wide.flops_per_clk_per_sm / narrow.flops_per_clk_per_sm

    assert [ratio(n) for n in ("rtx_2080_ti", "rtx_3090", "rtx_4090", "rtx_5090")] == [0.5] * 4
    assert [ratio(n) for n in ("titan_rtx", "rtx_a6000", "l40s", "h200_sxm")] == [1.0] * 4


@every_descriptor
def test_every_section_says_where_it_is_from(device: Arch) -> None:
    said = dict(device.source)
    assert {"sm", "block", "memory", "vector", "datasheet"} <= said.keys()
    assert not device.matrix or "matrix" in said
    assert "memory.l2_bytes_per_s" in said, "the least certain number names its origin"


@every_descriptor
def test_round_trip(device: Arch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "copy.toml"
        path.write_text(to_toml(device), encoding="utf-8")
        copy = load(path)
    assert copy == device and hash(copy) == hash(device)
    assert (copy.source, copy.datasheet) == (device.source, device.datasheet)


def test_the_file_is_named_as_the_device() -> None:
    assert [load(name).name for name in names()] == names()
    assert set(REQUIRED.split()) <= set(names())


@pytest.mark.slow
def test_no_two_files_answer_to_one_name() -> None:
    owner: dict[str, str] = {}
    for name in names():
        device = load(name)
        for word in (device.name, *device.aliases, *device.device_names):
            assert owner.setdefault(arches._key(word), name) == name, f"{word!r}"
            assert load(word).name == name


# ---- known answers


def test_h200_is_what_its_driver_says() -> None:
    h200 = load("h200_sxm")
    assert (h200.sm_count, h200.l2_bytes, h200.clock_hz) == (132, 62_914_560, 1.98e9)
    assert (h200.smem_per_block_bytes, h200.smem_per_sm_bytes, h200.smem_reserved_bytes) == (232_448, 233_472, 1024)
    assert (h200.cc, h200.max_warps_per_sm, h200.provenance) == ((9, 0), 64, "datasheet")
    assert h200.flops_per_s("float16") == pytest.approx(989.4e12, rel=1e-3)
    assert h200.flops_per_s("float32") == pytest.approx(66.9e12, rel=1e-3)
    unit = h200.matrix_unit("float16")
    assert unit and (unit.instruction, unit.shape) == ("wgmma", (64, 256, 16))
    plain = h200.matrix_unit("float16", instruction="mma")
    assert plain and plain.shape == (16, 8, 16)


def test_what_a_device_lacks() -> None:
    assert load("t4").matrix_unit("bfloat16") is None and load("t4").matrix_flops_per_s("bfloat16") == 0.0
    assert load("a100").matrix_unit("float8_e4m3") is None
    assert load("mi355x").matrix_unit("tf32") is None
    assert load("mi300x").cc is None
    # converted first, then computed in float32
    assert load("t4").vector_flops_per_clk("bfloat16") == load("t4").vector_flops_per_clk("float32") == 128
    with pytest.raises(ArchError, match=r"unknown dtype 'float17'; did you mean 'float16'\?"):
        load("t4").flops_per_s("float17")
    with pytest.raises(ArchError, match=r"apple_m1 has no float64 arithmetic: its vector units compute float32, fl"):
        load("m1").flops_per_s("float64")
    assert load("b300").matrix_flops_per_s("int8") < 0.1 * load("b200").matrix_flops_per_s("int8")


def test_partitions_of_the_chiplet_devices() -> None:
    assert {name: load(name).l2_partitions for name in ("mi300x", "mi355x", "mi300a", "mi210", "h200")} == {
        "mi300x": 8, "mi355x": 8, "mi300a": 6, "mi210": 1, "h200": 1,
    }  # fmt: skip


# ---- names


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("H200", "h200_sxm"), ("nvidia/h200", "h200_sxm"), ("NVIDIA H200", "h200_sxm"), ("sm_90", "h100_sxm"),
        ("NVIDIA H100 80GB HBM3", "h100_sxm"), ("H100 PCIe", "h100_pcie"), ("rtx 4090", "rtx_4090"),
        ("nvidia/geforce-rtx-4090", "rtx_4090"), ("RTX4090", "rtx_4090"), ("4090", "rtx_4090"), ("a100", "a100_sxm_80"),
        ("NVIDIA A100-SXM4-40GB", "a100_sxm_40"), ("NVIDIA GeForce RTX 3060 Laptop GPU", "rtx_3060_laptop"),
        ("Tesla T4", "t4"), ("V100", "v100_sxm2"), ("TITAN RTX", "titan_rtx"),
        ("GeForce GTX 980", "gtx_980"), ("Tesla K40m", "k40"), ("TITAN X (Pascal)", "titan_x_pascal"),
        ("GTX TITAN X", "titan_x_maxwell"), ("GeForce GTX 1060 6GB", "gtx_1060"), ("sm_35", "k40"),
        ("sm_52", "titan_x_maxwell"), ("Quadro RTX 8000", "quadro_rtx_8000"), ("4000 Ada", "rtx_4000_ada"),
        ("NVIDIA B300 SXM6 AC", "b300"), ("sm_103", "b300"), ("sm_110", "jetson_agx_thor"), ("DGX Spark", "gb10"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000_server"), ("RTX 5060", "rtx_5060"),
        ("NVIDIA_RTX_5880_Ada_Generation", "rtx_5880_ada"), ("NVIDIA A800 80GB PCIe", "a100_pcie_80"),
        ("NVIDIA GeForce RTX 4090 D", "rtx_4090_d"), ("GeForce RTX 4090 Laptop GPU", "rtx_4090_laptop"),
        ("RTX 5070 Ti Laptop", "rtx_5070_ti_laptop"), ("NVIDIA RTX PRO 4500 Blackwell", "rtx_pro_4500"),
        ("Tesla V100S-PCIE-32GB", "v100s_pcie"), ("GTX 1650 Super", "gtx_1650_super"), ("Xavier", "jetson_agx_xavier"),
        ("Jetson Orin NX", "jetson_orin_nx_16"), ("T1000 8GB", "t1000"), ("Quadro RTX 4000", "quadro_rtx_4000"),
    ],
)  # fmt: skip
def test_forgiving_names_of_nvidia(said: str, name: str) -> None:
    assert CUDA(said).name == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("mi300x", "mi300x"), ("gfx942", "mi300x"), ("AMD Instinct MI300X", "mi300x"), ("gfx90a", "mi250x_gcd"),
        ("gfx1100", "rx_7900_xtx"), ("W7800", "pro_w7800"), ("amd/radeon-vii", "radeon_vii"), ("gfx906", "mi50"),
        ("RX 6900 XT", "rx_6900_xt"), ("gfx1030", "rx_6900_xt"), ("gfx1151", "radeon_8060s"), ("gfx1200", "rx_9060_xt"),
        ("Ellesmere", "rx_480"), ("gfx803", "rx_480"), ("Fiji", "r9_fury_x"), ("gfx1010", "rx_5700_xt"),
        ("Strix Halo", "radeon_8060s"), ("gfx1102", "rx_7600"), ("AMD Instinct MI60 / MI50", "mi50"),
        ("AMD_Instinct_MI308X", "mi308x"), ("AMD_Instinct_MI325_OAM", "mi325x"), ("AMD_Instinct_MI350_OAM", "mi350x"),
        ("AMD_Instinct_MI355_OAM", "mi355x"), ("AMD Instinct MI300X VF", "mi300x"), ("Radeon 780M", "radeon_780m"),
        ("Radeon 890M Graphics", "radeon_890m"), ("RX 6600", "rx_6600"), ("gfx1034", "rx_6500_xt"),
        ("7900M", "rx_7900m"),
    ],
)  # fmt: skip
def test_forgiving_names_of_amd(said: str, name: str) -> None:
    assert HIP(said).name == name


def test_sustained_clocks_follow_peak_ones_where_nobody_said() -> None:
    h200, mi300x = load("h200"), load("mi300x")
    assert (h200.sustained_clock_hz, h200.sustained_matrix_clock_hz) == (h200.clock_hz, h200.matrix_clock_hz)
    assert mi300x.sustained_matrix_clock_hz == 1.31e9 and mi300x.matrix_flops_per_s("float16") > 1.3e15
    assert h200.replace(matrix_clock_hz=1.5e9).sustained_matrix_clock_hz == 1.5e9
    assert mi300x.replace(clock_hz=2.0e9).sustained_matrix_clock_hz == 1.31e9
    stated = [arch for arch in map(load, names()) if arch.sustained_matrix_clock_hz != arch.matrix_clock_hz]
    assert all("sm.sustained_matrix_clock_hz" in dict(arch.source) for arch in stated) and stated


def test_achieved_rates_are_taken_whole() -> None:
    triton = next(k for k in kernels("matmul", "triton") if k.name == "triton")
    assert resolve(triton, load("mi300x"))["l2_efficiency"] == 1.0
    assert resolve(triton, load("h100"))["l2_efficiency"] == triton.constants["l2_efficiency"] < 1.0


@pytest.mark.parametrize(
    ("said", "isa", "name"),
    [
        ("sm_90a", "sm_90", "h100_sxm"), ("sm90", "sm_90", "h100_sxm"), ("90", "sm_90", "h100_sxm"),
        ("9.0", "sm_90", "h100_sxm"), ("compute_90a", "sm_90", "h100_sxm"), ("sm_100a", "sm_100", "b200"),
        ("10.0", "sm_100", "b200"), ("sm_103f", "sm_103", "b300"), ("sm_120f", "sm_120", "rtx_5090"),
        ("8.9", "sm_89", "rtx_4090"), ("gfx942:sramecc+:xnack-", "gfx942", "mi300x"),
        ("gfx90a:sramecc+:xnack-", "gfx90a", "mi250x_gcd"), ("amdgcn-amd-amdhsa--gfx950", "gfx950", "mi355x"),
    ],
)  # fmt: skip
def test_an_isa_leads_to_a_device_that_says_so(said: str, isa: str, name: str) -> None:
    arch = load(said)
    assert (arch.name, arch.stands_for) == (name, isa)
    assert arch == load(name) and load(said) is arch
    assert arch.provenance.startswith(f"{isa} names no device: {arch.title} stands for it; ")
    assert "names no device" not in load(name).provenance


def test_a_number_of_a_card_is_a_card() -> None:
    assert (load("680").name, load("680").stands_for) == ("gtx_680", "")


def test_one_device_stands_for_each_isa_and_the_page_names_some() -> None:
    page = (Path(__file__).parents[1] / "docs" / "howto" / "devices.md").read_text()
    section = page.partition("## An ISA")[2].partition("## What")[0]
    stated = {isa: name for name, isa in re.findall(r"`(\w+)` for `(\w+)`", section)}
    assert len(stated) >= 5 and stated == {isa: load(isa).name for isa in stated}
    gpus = {arch.isa for arch in map(load, names()) if arch.vendor in ("nvidia", "amd")}
    assert all(load(isa).isa == isa for isa in gpus)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("A100_SXM_80GB", "a100_sxm_80"), ("A100_PCIE_80GB", "a100_pcie_80"), ("A30_PCIE", "a30"), ("A10_PCIE", "a10"),
        ("A40_PCIE", "a40"), ("RTX_3090", "rtx_3090"), ("RTX_A6000", "rtx_a6000"), ("L20", "l20"), ("L40S", "l40s"),
        ("RTX_6000_ADA", "rtx_6000_ada"), ("H100_SXM", "h100_sxm"), ("H100_PCIE", "h100_pcie"),
        ("H100_NVL", "h100_nvl"), ("H200_SXM", "h200_sxm"), ("H20_SXM", "h20"), ("B200", "b200"),
        ("GB200_NVL", "gb200"), ("GB300_NVL", "gb300"), ("RTX_5080", "rtx_5080"), ("RTX_PRO_6000", "rtx_pro_6000"),
    ],
)  # fmt: skip
def test_names_of_nvmatmulheuristics(said: str, name: str) -> None:
    assert load(said).name == name


def test_one_number_in_two_series_is_two_devices() -> None:
    assert arches.match("Radeon RX 580 Series") == load("rx_580")
    assert arches.match("GeForce GTX 580") is arches.match("GeForce GTX 480") is arches.match("580") is None


def test_cpu_and_apple_names() -> None:
    assert (CPU("AVX-512").name, CPU("aarch64").name) == ("cpu_avx512", "cpu_neon")
    assert Apple("M2 Max").name == "apple_m2_max"


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(ArchError, match=r"no arch named 'h300'; nearest: .*h200_sxm") as caught:
        CUDA("h300")
    assert str(len(names())) in str(caught.value)
    with pytest.raises(ArchError, match=r"nearest: .*rtx_4090"):
        CUDA("rtx 4900")


@pytest.mark.parametrize("name", [5, None, 3.14, ["h200"]])
@pytest.mark.parametrize("take", [load, CUDA, HIP, CPU])
def test_a_name_is_a_string_or_a_path(take: Callable[[Any], Arch], name: object) -> None:
    with pytest.raises(ArchError, match=r"a device is named by a string or a path, got "):
        take(name)


@pytest.mark.parametrize(
    ("constructor", "name", "right"),
    [
        (CUDA, "mi300x", "HIP"),
        (HIP, "h200", "CUDA"),
        (CPU, "h200", "CUDA"),
        (CUDA, "avx2", "CPU"),
        (CUDA, "m1", "Apple"),
    ],
)
def test_the_wrong_constructor_names_the_right_one(constructor: Callable[[str], Arch], name: str, right: str) -> None:
    with pytest.raises(ArchError, match=rf"is not a device of \w+; write {right}\('{name}'\)"):
        constructor(name)


def test_load_gives_the_same_object() -> None:
    assert load("h200") is load("NVIDIA H200") is CUDA("h200_sxm")


# ---- what-if


def test_replace() -> None:
    h200 = load("h200")
    more = h200.replace(l2_bytes=np.int64(100 << 20))
    assert more.l2_bytes == 100 << 20 and type(more.l2_bytes) is int
    assert (more != h200, more.provenance) == (True, "datasheet; l2_bytes replaced")
    assert dict(more.source)["memory.l2_bytes"] == "replaced by the caller; was 62914560"
    assert h200.replace(l2_bytes=h200.l2_bytes) == h200
    assert h200.replace(dram_bytes_per_s=1e20).dram_bytes_per_s == 1e20, "what if memory were free"


def test_a_matrix_clock_equal_to_the_clock_follows_it() -> None:
    assert load("a100").replace(clock_hz=1.0e9).matrix_clock_hz == 1.0e9
    assert load("h200").replace(clock_hz=1.5e9).matrix_clock_hz == 1.83e9


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("l2_byte", 1, r"h200_sxm has no field 'l2_byte'; did you mean 'l2_bytes'\?"),
        ("sm_count", 1.5, r"sm_count must be a whole number, got 1.5"),
        ("sm_count", 0, r"sm_count must be above 0"),
        ("sm_count", True, r"sm_count must be a whole number, got True"),
        ("clock_hz", "fast", r"clock_hz must be a number, got 'fast'"),
        ("clock_hz", float("nan"), r"clock_hz must be above 0 and finite, got nan"),
        ("tma", 1, r"tma must be true or false, got 1"),
        ("isa", "", r"isa must be a string, got ''"),
        ("vendor", "nvida", r"vendor 'nvida' is unknown; did you mean 'nvidia'\?"),
        ("smem_per_block_bytes", 233_472, r"smem_per_block_bytes 233472 \+ smem_reserved_bytes 1024 is more than"),
        ("max_threads_per_block", 4096, r"max_threads_per_block 4096 is more than max_threads_per_sm 2048"),
        ("l3_bytes", 1 << 20, r"l3_bytes 1048576 and l3_bytes_per_s 0 must be both 0"),
        ("vector", {"float16": 1.0}.items(), r"\[vector\] lacks float32"),
        ("vector", {"flaot32": 1.0}.items(), r"\[vector\] dtype 'flaot32' is unknown; did you mean 'float32'\?"),
        ("matrix", ("mma",), r"matrix must be a list of Matrix objects, got"),
        ("aliases", "h200", r"aliases must be a list of strings, got 'h200'"),
    ],
)
def test_replace_refuses(field: str, value: object, message: str) -> None:
    with pytest.raises(ArchError, match=message):
        load("h200").replace(**{field: value})


# ---- files


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clock_hz = 1.98e9", "clock_mhz = 1980", r"\[sm\] has unknown key 'clock_mhz'; did you mean 'clock_hz'\?"),
        ("max_blocks_per_sm = 32", "max_blocks_per_sm = 1000", "max_blocks_per_sm = 1000 is outside"),
        ("bus_bits = 6016", "bus_bits = 601", r"dram_bytes_per_s = 4\.\S+ is more than bus_bits \* pin_bits_per_s / 8"),
        ("dram_reach = 1.0", "dram_reach = 2.0", r"\[memory\] dram_reach = 2.0 is outside 0\.1 to 1"),
        ("clock_hz = 1.98e9\n", "clock_hz = 1980\n", r"\[sm\] clock_hz = 1980 is outside 1e\+08 to 1e\+10; its unit"),
        ("l2_latency_s = 1.5e-7", "l2_latency_s = 150", r"\[memory\] l2_latency_s = 150 is outside"),
        ("l2_bytes = 62_914_560", "l2_bytes = 60", r"\[memory\] l2_bytes = 60 is outside"),
        ("sm_count = 132\n", "", r"\[sm\] lacks sm_count"),
        ("sm_count = 132", "sm_count = 132.0", r"\[sm\] sm_count must be a whole number, got 132.0"),
        ("sm_count = 132", 'sm_count = "132"', r"\[sm\] sm_count must be a whole number, got '132'"),
        ("tma = true", "tma = 1", r"\[sm\] tma must be true or false, got 1"),
        ("[block]", "[blok]", r"the file has unknown key 'blok'; did you mean 'block'\?"),
        ('kind = "gpu"', 'kind = "cpu"', r"the file lacks cpu"),
        ('kind = "gpu"', 'kind = "npu"', r"kind 'npu' is unknown; "),
        ('isa = "sm_90"', 'isa = "sm90"', r"isa 'sm90' is none of nvidia's; write it as 'sm_89'"),
        ("warp_size = 32", "warp_size = 33", r"warp_size 33 is none of 1, 16, 32, 64"),
        ('vendor = "nvidia"', 'vendor = "nvida"', r"vendor 'nvida' is unknown; did you mean 'nvidia'\?"),
        ('dtype = "float16"', 'dtype = "fp16"', r"matrix dtype 'fp16' is unknown"),
        ('instruction = "mma"', 'instruction = "hmma"', r"instruction 'hmma' is unknown; did you mean 'mma'\?"),
        ("shape = [16, 8, 16]", "shape = [16, 8]", r"shape must be \[m, n, k\], .* integers, got \[16, 8\]"),
        ("flops_per_clk_per_sm = 4096.0", "flops_per_clk = 1", r"matrix has unknown key 'flops_per_clk'"),
        ("float32 = 256.0", "float32 = -1", r"\[vector\] float32 must be above 0"),
        ("\nmemory =", "\nmemry =", r"\[source\] has unknown key 'memry'; did you mean 'memory'\? allowed: sm, bl"),
        ('"memory.l2_latency_s" =', '"memory.l2_latency" =', r"\[source\] has unknown key 'memory.l2_latency'; did"),
        ("lanes = 16896", "lane = 16896", r"\[datasheet\] has unknown key 'lane'; did you mean 'lanes'\?"),
        ("lanes = 16896", "lanes = [1]", r"\[datasheet\] lanes must be a number, .* of them, got \[1\]"),
        ("[datasheet]", "[fitted]\ndate = ''\n[datasheet]", r"\[fitted\] must say when and how .* device, command"),
        ("[sm]", "[sm", r"not TOML: "),
        ("[vector]", "[[vector]]", r"\[vector\] must be a table, got "),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = to_toml(load("h200"))
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ArchError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_missing_source_is_refused(tmp_path: Path) -> None:
    text, path = to_toml(load("h200")), tmp_path / "mine.toml"
    line = next(line for line in text.splitlines() if line.startswith("vector = "))
    path.write_text(text.replace(line, ""), encoding="utf-8")
    with pytest.raises(ArchError, match=r"\[source\] lacks vector"):
        load(path)
    path.write_text(text.replace(line, 'vector = " "'), encoding="utf-8")
    with pytest.raises(ArchError, match=r"\[source\] 'vector' must say where the numbers are from"):
        load(path)


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"there is no file '.*none\.toml'"):
        load(tmp_path / "none.toml")


def test_optional_keys_have_the_stated_defaults(tmp_path: Path) -> None:
    text, path = to_toml(load("a100")), tmp_path / "mine.toml"
    for name in ("matrix_clock_hz", "l3_bytes", "l3_bytes_per_s"):
        line = next(line for line in text.splitlines() if line.startswith(f"{name} = "))
        text = text.replace(f"\n{line}\n", "\n")
    path.write_text(text, encoding="utf-8")
    assert load(path) == load("a100")


def test_text_with_quotes_survives(tmp_path: Path) -> None:
    odd = load("t4").replace(title='a "T4" \\ two\nlines\tand a tab', aliases=("x", "y"))
    path = tmp_path / "odd.toml"
    path.write_text(to_toml(odd), encoding="utf-8")
    assert load(path) == odd


# ---- the user's own folder


def own(tmp_path: Path, device: Arch, stem: str | None = None) -> Path:
    path = arches.own_folder() / f"{stem or device.name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_toml(device), encoding="utf-8")
    return path


FITTED = (
    ("date", "2026-11-20"),
    ("device", "NVIDIA H200"),
    ("command", "carver calibrate"),
    ("triton", (("launch_s", 4e-6),)),
)


def test_a_calibrated_descriptor_replaces_the_shipped_one(tmp_path: Path) -> None:
    assert arches.own_names() == []
    own(tmp_path, load("h200").replace(fitted=FITTED, l2_bytes_per_s=9e12, source=load("h200").source))
    assert arches.own_names() == ["h200_sxm"]
    mine = load("NVIDIA H200")
    assert (mine.l2_bytes_per_s, mine.provenance) == (9e12, "calibrated on NVIDIA H200, 2026-11-20")
    assert mine.fitted == FITTED and mine.fitted_constants("triton") == {"launch_s": 4e-6}
    assert mine.fitted_constants("cuda") == {} == mine.fitted_constants("date")
    assert arches.match("NVIDIA H200") == mine


def test_a_device_of_the_users_own(tmp_path: Path) -> None:
    device = load("h200").replace(name="dream", title="A dream", aliases=("h999",), device_names=())
    own(tmp_path, device)
    assert CUDA("h999").name == CUDA("dream").name == "dream"


def test_a_file_written_again_is_read_again(tmp_path: Path) -> None:
    path = own(tmp_path, load("h200"))
    assert load("h200").sm_count == 132
    path.write_text(to_toml(load("h200").replace(sm_count=66)), encoding="utf-8")
    assert load("h200").sm_count == 66


def test_a_copy_does_not_take_the_place_of_its_original(tmp_path: Path) -> None:
    own(tmp_path, load("rtx_4090").replace(name="mycard", sm_count=100))
    assert load("rtx_4090").name == "rtx_4090"
    assert load("mycard").sm_count == load("4090").sm_count == 100


@pytest.mark.parametrize("home", [None, "/elsewhere", " "])
def test_own_folder_of_the_platform(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CARVER_CONFIG_DIR")
    monkeypatch.delenv("CARVER_CACHE_DIR", raising=False)
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, home) if home else monkeypatch.delenv(variable, raising=False)
    assert arches.own_folder() == platformdirs.user_config_path("carver", appauthor=False, roaming=True) / "arch"
    assert cache_folder() == platformdirs.user_cache_path("carver", appauthor=False)
    monkeypatch.setenv("CARVER_CONFIG_DIR", "~/mine")
    assert arches.own_folder() == Path.home() / "mine" / "arch"


# ---- structure


def test_sections_hold_every_number_of_the_dataclass_once() -> None:
    written = [name for fields in SECTIONS.values() for name in fields]
    numbers = [f.name for f in dataclasses.fields(Arch) if f.type in ("int", "float", "bool")]
    assert written == numbers


def test_arch_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load("t4").sm_count = 1  # type: ignore[misc]


def test_import_reads_no_descriptor_and_no_heavy_module() -> None:
    """Nor does a first question: masked arrays of NumPy took a fifth of one."""
    heavy = "sorted({'torch', 'scipy', 'pycuda', 'numpy.ma', 'subprocess', 'carver.cost.learn'} & {*sys.modules} - own)"
    code = f"""
import sys, numpy
own = {{*sys.modules}}  # NumPy 1.26 loads its masked arrays itself
import carver, carver.arch.devices as a
print(a._read.cache_info().misses, {heavy})
parsed, toml_of = [], a.toml_of
a.toml_of = lambda *of: parsed.append(of) or toml_of(*of)
carver.MatmulTemplate(512, 512, 512).with_arch("h200").recommend_hints()
print(len(parsed), {heavy})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = done.stdout.splitlines()
    assert before == "0 []"
    assert after.endswith(" []") and int(after.split()[0]) < 8, "descriptors that cannot answer to a name are parsed"


# ---- what a family has alike


def test_a_descriptor_extends_files_of_its_own_family_and_shipped_ones(tmp_path: Path) -> None:
    text = (folder("arch") / "rtx_4090.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert load(path) == load("rtx_4090")
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "my-sizes.toml").write_text("[memory]\nl2_bytes = 1024000\n")
    mine = re.sub("^l2_bytes = .*$", "", text, flags=re.M).replace('"sm_89_geforce"', '"sm_89_geforce", "my-sizes"')
    path.write_text(mine)
    assert load(path) == load("rtx_4090").replace(l2_bytes=1_024_000, source=load("rtx_4090").source)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"sm_89_geforce"', '"sm_89_gforce"', "extends 'sm_89_gforce', which is not in family/; did you mean"),
        ('"sm_89_geforce"', '"../rtx_4090"', "which is not in family/"),
        ('"sm_89_geforce"', f'"{"x" * 300}"', "which is not in family/"),
        ('"sm_89_geforce"', "89", "extends 89, which is not in family/"),
        ('"sm_89_geforce"', '"sm_89_geforce", "sm_89_l40"', "[matrix] stands here and in family/sm_89_l40.toml"),
        ("[memory]", "[memory]\nline_bytes = 128", "[memory] line_bytes stands here and in family/sm_89.toml"),
        ('["sm_89", "sm_89_geforce"]', '"sm_89"', "extends is a list of files in family/, got 'sm_89'"),
    ],
)
def test_what_is_extended_is_there_and_says_what_nothing_else_says(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text((folder("arch") / "rtx_4090.toml").read_text().replace(old, new))
    with pytest.raises(ArchError, match=re.escape(says)):
        load(path)


def test_every_family_is_extended_by_several() -> None:
    heads = [path.read_text().partition("\n[")[0] for path in folder("arch").glob("*.toml")]
    for path in (folder("arch") / "family").glob("*.toml"):
        assert sum(f'"{path.stem}"' in head for head in heads) >= 2, path.stem


def test_a_clock_above_the_datasheets_is_said_with_its_roof() -> None:
    assert load("rtx_5090").provenance == (
        "datasheet, but for a clock of 2.9 GHz that its matrix units hold, at which its roof is"
    )
    assert load("rtx_4090").provenance == "datasheet"
