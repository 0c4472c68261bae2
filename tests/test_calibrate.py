"""Calibration: microbenchmarks on the CPU and on a GPU made of formulas, fits that must recover what a table was made
with, and the descriptor that comes out."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cases import used
from click.testing import CliRunner

import carver
from carver.arch import devices as archs
from carver.arch.descriptor import Arch
from carver.base.child import Reply
from carver.base.errors import ConfigError, RunError
from carver.base.given import as_json
from carver.calibrate import device as calibrating
from carver.calibrate import fitting as keep
from carver.calibrate.device import calibrate
from carver.calibrate.fitting import Fit, Group, Quality, fit_group, groups, predict_case, quantiles, samples
from carver.calibrate.micro import NOTHING, Cpu, Gpu, Microbenchmarks, reading, run_part
from carver.calibrate.tables import Case
from carver.cli.main import main
from carver.cost.learn import identified
from carver.cost.model import CONSTANTS, resolve
from carver.ranking.declared import share_within, trust, widened
from carver.run.buffers import Buffer
from carver.run.compile import compile_source, cuda_compiler
from carver.run.device import CpuDevice
from carver.run.render import Source
from carver.run.worker import Settings

H200 = carver.load_arch("h200")
SHAPES = [(64, 4096, 4096), (1024, 1024, 1024), (2048, 2048, 512), (4096, 4096, 4096), (8192, 8192, 128)]


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of the user's descriptors."""
    monkeypatch.setenv("CARVER_CONFIG_DIR", str(tmp_path))
    return tmp_path / "arch"


def table(truth: Mapping[str, float], noise: float = 0.0, arch: Arch = H200) -> list[Case]:
    """Triton matmuls timed by the model itself with these constants."""
    rng = np.random.default_rng(1)
    configs = [
        dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, num_warps=w, num_stages=s)
        for m in (32, 128) for n in (32, 128, 256) for k in (32, 64) for w in (4, 8) for s in (2, 4)
    ]  # fmt: skip
    cases = []
    for shape in SHAPES:
        problem = carver.MatmulTemplate(*shape, trans_B=True).problem
        case = Case("made", problem, arch, "triton", configs, np.ones(len(configs)))
        seconds = predict_case(case, truth) * np.exp(noise * rng.standard_normal(len(configs)))
        cases.append(replace(case, seconds=seconds))
    return cases


TRUTH = {"math_efficiency": 0.85, "l2_efficiency": 0.5, "launch_s": 2.5e-6, "dram_latency_load": 2.8}


@pytest.mark.slow
def test_a_fit_recovers_the_constants_that_a_table_was_made_with() -> None:
    (group,) = groups(table(TRUTH, noise=0.01))
    fit = fit_group(group)
    shipped = resolve(group.kernel, H200)
    for name, value in TRUTH.items():
        off, was = abs(np.log(fit.constants[name] / value)), abs(np.log(shipped[name] / value))
        assert off < max(0.35 * was, 0.05), (name, fit.constants[name], value)
    for name, value in fit.constants.items():
        assert CONSTANTS[name].low <= value <= CONSTANTS[name].high
    assert fit.helps
    assert fit.after is not None
    assert fit.after.log_error < 0.03 < fit.before.log_error
    assert "the fit helps" in fit.verdict


def test_only_what_the_data_identify_is_fitted() -> None:
    data = samples(table(TRUTH))
    names = identified(data)
    assert set(TRUTH) <= set(names)
    assert not {"convert_instr", "atomic_share", "read_merge", "copy_waits"} & set(names), (
        "no candidate depends on them"
    )


@pytest.mark.slow
def test_a_table_that_calibration_cannot_help_says_so() -> None:
    """Times that are the shipped prediction, and noise that drowns it."""
    (group,) = groups(table({}, noise=0.7))
    fit = fit_group(group)
    assert not fit.helps
    assert "does not help" in fit.verdict


def test_a_constant_that_is_held_stays_at_the_start() -> None:
    (group,) = groups(table(TRUTH)[:1])
    assert {"launch_s", "math_efficiency"} <= fit_group(group).constants.keys()
    assert "launch_s" not in fit_group(group, hold=["launch_s"]).constants
    with pytest.raises(ConfigError, match="no constant 'launch' to hold; did you mean 'launch_s'"):
        fit_group(group, hold=["launch"])


def test_one_problem_holds_nothing_out() -> None:
    (group,) = groups(table(TRUTH)[:1])
    fit = fit_group(group)
    assert fit.after is None
    assert not fit.helps
    assert "nothing can be held out" in fit.verdict


def quality_of(first: float, three: float, error: float, uneven: float = 0.0) -> Quality:
    """Of four problems: they cost the same, but for the first."""
    loss = float(np.log([first, three]).mean())
    return Quality({1: first, 3: three, 5: three}, first, error, (loss + 3 * uneven, *[loss - uneven] * 3))


@pytest.mark.parametrize("before, after, helps", [
    ((1.10, 1.05, 0.1), (1.04, 1.02, 0.1), True),
    ((1.06, 1.03, 0.1, 0.03), (1.04, 1.01, 0.1), False),
    ((1.04, 1.02, 0.05), (1.041, 1.0205, 0.048), False),
    ((1.04, 1.02, 0.1), (1.10, 1.05, 0.01), False),
    ((1.04, 1.02, 0.1), (1.041, 1.0205, 0.05), True),
    ((1.04, 1.02, 0.05), (1.041, 1.0205, 0.06), False),
    ((1.10, 1.02, 0.1), (1.05, 1.04, 0.1), False),
])  # fmt: skip
def test_what_counts_as_help(before: Any, after: Any, helps: bool) -> None:
    (group,) = groups(table({}))
    fit = Fit(group, "shipped", {}, quality_of(*before), quality_of(*after), 5, (0.0, 0.0), 0.8)
    assert bool(fit.helps) == helps


def test_bands_are_quantiles_over_problems() -> None:
    rng = np.random.default_rng(0)
    errors = [rng.normal(0, 0.1, n) for n in (50, 500, 5000)]
    low, high = quantiles(errors)
    inside = np.mean([share_within(e, (low, high)) for e in errors])
    assert inside == pytest.approx(0.8, abs=0.02), "the band says 80 %"
    assert low == pytest.approx(-0.128, abs=0.02)
    assert high == pytest.approx(0.128, abs=0.02)


@pytest.mark.parametrize("device, kind, mark", [
    ("h200", "same kind", "measured on this device"), ("h100_sxm", "family", "same family"),
    ("a100", "other device", "this device not measured"), ("mi300x", "other vendor", "this device not measured"),
])  # fmt: skip
def test_a_hint_says_where_its_constants_are_from(device: str, kind: str, mark: str) -> None:
    ranking = carver.MatmulTemplate(1024, 1024, 1024).with_arch(device).recommend_hints(1, "triton")
    hint = ranking[0]
    for said in (str(ranking), ranking._repr_html_(), hint.to_json()):
        assert f"{mark}: " in (plain := " ".join(said.split()))
        assert "NVIDIA H200" in plain.partition(mark)[2]
    kernel = next(k for k in carver.kernels.declaration.kernels("matmul", "triton") if k.name == "triton")
    known = trust(kernel, carver.load_arch(device))
    assert known.kind == kind
    assert hint.calibrated == known.text
    low, high = hint.band_ms
    assert low < hint.predicted_ms < high
    assert "80 % band" in str(hint.explain())


def test_bands_widen_with_distance() -> None:
    kernel = next(k for k in carver.kernels.declaration.kernels("matmul", "triton") if k.name == "triton")
    own = next(k for k in carver.kernels.declaration.kernels("reduction", "cuda") if k.name == "reduce")
    here, family, other, far = (trust(kernel, carver.load_arch(d)) for d in ("h200", "h100_sxm", "a100", "mi300x"))
    priors = trust(own, H200)
    assert priors.kind == "priors"
    widths = [t.high - t.low for t in (here, family, other, priors, far)]
    assert widths == sorted(widths)


def test_the_long_side_of_a_band_does_not_widen_the_short_one() -> None:
    low, high = widened((-0.3, 2.0), 0.4)
    assert (low, high) == pytest.approx((-0.5, 2.04), abs=0.001)
    assert widened((0.3, 0.7), 0.3) == pytest.approx((0.0, 0.8))


# ---- tables from the command line


@pytest.fixture
def measured_csv(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        names = ["BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"]
        writer.writerow(["operator", "arch", "backend", "M", "N", "K", "trans_B", *(f"config.{n}" for n in names),
                         "time_ms"])  # fmt: skip
        for (m, n, k), case in zip(SHAPES, table(TRUTH, noise=0.01), strict=True):
            for config, seconds in zip(case.configs, case.seconds, strict=True):
                if np.isfinite(seconds):
                    writer.writerow(
                        ["matmul", "h200", "triton", m, n, k, "true", *(config[c] for c in names), seconds * 1e3]
                    )
    return path


def run(*words: object) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
def test_from_a_csv_to_a_descriptor(measured_csv: Path, own_folder: Path) -> None:
    before = carver.MatmulTemplate(512, 512, 4096).with_arch("h200").recommend_hints(1, "triton")[0]
    (row,) = json.loads(run("calibrate", "--from", measured_csv, "--write", "--json"))
    assert (row["kernel"], row["arch"], row["helps"]) == ("matmul/triton", "h200_sxm", True)
    assert row["problems"] == len(SHAPES)
    assert Path(row["written"]) == own_folder / "h200_sxm.toml"
    mine = archs.load("h200")
    assert mine.fitted_constants("matmul/triton") == row["constants"]
    kernel = next(k for k in carver.kernels.declaration.kernels("matmul", "triton") if k.name == "triton")
    assert resolve(kernel, mine)["launch_s"] == row["constants"]["launch_s"]
    assert trust(kernel, mine).kind == "this device"
    after = carver.MatmulTemplate(512, 512, 4096).with_arch("h200").recommend_hints(1, "triton")[0]
    assert after.calibrated.startswith("measured on this device: calibrated for this kernel on this device")
    assert after.predicted_ms != before.predicted_ms
    assert archs.load("h100_sxm").fitted == ()
    (again,) = json.loads(run("calibrate", "--from", measured_csv, "--json"))
    assert not again["helps"]
    assert "the constants in your descriptor were fitted on this device, perhaps to these problems" in again["verdict"]


@pytest.mark.slow
def test_a_section_for_a_declaration(measured_csv: Path) -> None:
    words = ["calibrate", "--from", str(measured_csv), "--start", "priors", "--toml"]
    said = tomllib.loads(CliRunner().invoke(main, words, catch_exceptions=False).stdout)
    assert TRUTH.keys() - said["constants"].keys() == {"l2_efficiency"}, "by the priors the port of an SM is slower"
    assert said["fitted"]["device"] == "NVIDIA H200"
    assert said["fitted"]["error_low"] < 0 < said["fitted"]["error_high"]
    assert said["fitted"]["command"] == "carver calibrate --from mine.csv --start priors"


@pytest.mark.slow
def test_tables_given_one_by_one_count_together(measured_csv: Path) -> None:
    head, *rows = measured_csv.read_text().splitlines()
    measured_csv.write_text("\n".join([head, *rows[: len(rows) // len(SHAPES) : 4]]))
    other = measured_csv.with_name("other.csv")
    other.write_text(measured_csv.read_text())
    (apart,) = json.loads(run("calibrate", "--from", measured_csv, "--from", other, "--json"))
    (together,) = json.loads(run("calibrate", "--from", measured_csv, other, "--json"))
    assert apart["problems"] == together["problems"] == 2


@pytest.mark.slow
def test_the_text_says_whether_it_helped(measured_csv: Path) -> None:
    text = run("calibrate", "--from", measured_csv)
    assert "after, on held-out problems" in text
    assert "the fit helps" in text
    rows = measured_csv.read_text().splitlines()
    measured_csv.write_text("\n".join(row for row in rows if row.startswith(("operator", rows[1][:30]))))
    text = run("calibrate", "--from", measured_csv)
    assert "One problem" in text and "of the problem that was fitted" in text and "nan" not in text


@pytest.mark.parametrize("words, complaint", [
    (("--write",), "go with --from"),
    (("--from", "{csv}", "--out", "x.toml"), "--out are for the calibration of a device"),
    (("--device", "foo"), "no device 'foo'"),
    (("--seconds", "-5"), "-5"),
    (("--from", "{csv}", "--kernel", "matmul/none"), "no kernel 'matmul/none'"),
])  # fmt: skip
def test_asked_wrongly(measured_csv: Path, words: tuple[str, ...], complaint: str) -> None:
    done = CliRunner().invoke(main, ["calibrate", *(w.replace("{csv}", str(measured_csv)) for w in words)])
    assert done.exit_code == 2
    assert complaint in done.output


# ---- a CPU, for real


def every_part(bench: Cpu | Gpu) -> Microbenchmarks:
    return sum((run_part(bench, name) for name in bench.parts), NOTHING)


@pytest.fixture(scope="module")
def processor() -> Microbenchmarks:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler")
    return every_part(Cpu(CpuDevice(), most_bytes=1 << 26, effort=0.1))


def test_some_of_the_cores_say_what_all_have_of_their_own_and_nothing_of_what_they_share() -> None:
    """A descriptor of 32 cores on which 4 may run had an eighth of its L2's bandwidth after a reading that agreed."""
    device = CpuDevice(threads=1)
    device.arch = device.arch.replace(sm_count=32)
    bench = Cpu(device, most_bytes=1 << 26)
    bench.run = lambda _, *args, **__: args[2] * args[3] / 1e9  # type: ignore[method-assign]
    bench.counted = lambda make, least: (least, [make(least)])  # type: ignore[method-assign]
    found = {each.name: each.value for each in bench.bandwidth()}
    assert found == pytest.approx({"l1_bytes_per_s": 32e9, "l2_bytes_per_s": 32e9})
    assert "1 of 32 cores may run" in bench.left_out[0]


@pytest.mark.slow
def test_readings_of_the_processor(processor: Microbenchmarks) -> None:
    expected = {"clock_hz", "vector.float32", "launch_s", "block_dispatch_clk", "l1_bytes_per_s", "l2_bytes_per_s",
                "dram_read_bytes_per_s", "dram_write_bytes_per_s", "l2_latency_s", "dram_latency_s"}  # fmt: skip
    assert expected <= processor.readings.keys()
    for r in processor.readings.values():
        assert r.low <= r.value <= r.high
    assert 5e8 < processor.readings["clock_hz"].value < 1e10
    assert 1e-10 < processor.readings["l2_latency_s"].value < 1e-6
    assert processor.readings["dram_latency_s"].value > 0.5 * processor.readings["l2_latency_s"].value


@pytest.fixture(scope="module")
def whole() -> tuple[Any, ...]:
    """The microbenchmarks as `calibrate` runs them, in a process of their own, of this processor as it is shipped."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("CARVER_CONFIG_DIR", folder)
        return calibrating._microbenchmarks("cpu", lambda text: None)


@pytest.fixture
def measured_once(whole: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrating, "_microbenchmarks", lambda device, say: whole)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are timed for half a second, whatever time there is."""
    monkeypatch.setattr(calibrating, "Settings", lambda **given: Settings(**given | {"budget_s": 0.5}))


@pytest.mark.slow
@pytest.mark.usefixtures("measured_once")
def test_the_descriptor_of_this_processor_is_preferred(own_folder: Path) -> None:
    shipped = archs.CPU("auto")
    found = calibrate("cpu", 1.0, kernels=False, command="carver calibrate --device cpu --only-micro")
    path = keep.write(found.arch)
    assert path.parent == own_folder
    mine = archs.CPU("auto")
    assert mine == found.arch
    assert mine.fitted != ()
    assert mine.provenance.startswith("calibrated on ")
    assert mine.sm_count == shipped.sm_count
    assert dict(mine.fitted)["command"] == "carver calibrate --device cpu --only-micro"
    measured = mine.fitted_constants("measured")
    assert measured["clock_hz"] == pytest.approx(found.micro.readings["clock_hz"].value, rel=1e-3)
    assert keep.uncalibrated(mine).fitted == ()
    assert keep.uncalibrated(mine) == found.before, "what a datasheet or the system says comes back"
    assert not list(own_folder.glob(".writing*"))


@pytest.mark.slow
@pytest.mark.usefixtures("measured_once", "short")
def test_kernels_of_the_processor_are_measured_and_judged(own_folder: Path, tmp_path: Path) -> None:
    few = {
        "elementwise": [carver.ElementwiseTemplate((256, n), "float32") for n in (512, 1024, 2048)],
    }
    with carver.run.records.Records(tmp_path / "records.sqlite") as store:
        found = calibrate("cpu", 60.0, problems=few, counts=(2, 2, 1), records=store)
    assert len(found.cases) == 3
    (choice,) = found.choices
    assert choice.group.name == "elementwise/cpu"
    assert choice.kept in ("fit", "microbenchmarks", "shipped")
    assert choice.fit.after is not None
    if choice.kept == "fit":
        assert not choice.fit.after.worse_than(choice.shipped)
    text = json.dumps(found.to_dict())
    assert choice.verdict in json.loads(text)["kernels"][0]["verdict"]
    keep.write(found.arch)
    mine = archs.CPU("auto")
    kernel = carver.kernels.declaration.kernels("elementwise", "cpu")[0]
    assert trust(kernel, mine).kind == "this device"
    assert mine.fitted_constants("elementwise/cpu") == dict(choice.table)


def test_a_busy_machine_is_noticed() -> None:
    arch = carver.load_arch("avx2")
    samples = {"launch_s": 8e-3, "l2_bytes_per_s": 1e6, "clock_hz": 4.4e9, "dram_read_bytes_per_s": 1e6}
    derived = keep.derive(arch, made(samples))
    assert set(derived.fields) == {"clock_hz"}
    assert derived.constants == {}
    assert "busy with something else" in derived.refused[0]


@pytest.mark.parametrize("faster", ["l2_bytes_per_s", "l3_bytes_per_s", "dram_read_bytes_per_s"])
def test_a_bandwidth_that_rises_with_the_distance_is_not_used(faster: str) -> None:
    arch = carver.load_arch("avx2")
    rates = {"l1_bytes_per_s": 8e11, "l2_bytes_per_s": 4e11, "l3_bytes_per_s": 2e11, "dram_read_bytes_per_s": 4e10}
    samples = {"launch_s": 4e-6, "clock_hz": 4.4e9, **rates}
    assert "l2_bytes_per_s" in keep.derive(arch, made(samples)).fields
    derived = keep.derive(arch, made({**samples, faster: 1e12}))
    assert set(derived.fields) == {"clock_hz"}
    assert "cannot be faster" in derived.refused[0] and faster in derived.refused[0]


def test_a_reading_of_nothing_is_told_as_such() -> None:
    shaky = reading("block_dispatch_clk", "handing a core one task", "clk", [0.0] * 5 + [3.0] * 4)
    assert reading("x", "x", "clk", [0.0] * 9).error == 0.0
    derived = keep.derive(H200, Microbenchmarks({shaky.name: shaky}))
    assert derived.refused == ("handing a core one task: 0 to 3 clk",) and not derived.constants


def test_a_part_that_fails_costs_its_readings_alone(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is a job of a worker process, and its readings are on disk before the next one begins."""
    monkeypatch.setenv("CARVER_CACHE_DIR", str(own_folder / "cache"))

    class Half:
        def __init__(self, *_: Any) -> None: ...

        def __enter__(self) -> Half:
            return self

        def __exit__(self, *_: object) -> None: ...

        def call(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
            if job["do"] == "describe":
                found = {"arch": asdict(CpuDevice().arch), "parts": ["clock", "fma"], "lease": "x", "state": {}}
                return Reply("ok", "", json.loads(json.dumps(found)))
            if job["do"] == "clock":
                return Reply("timeout", "still running clock")
            assert (own_folder / "cache" / "calibrate.jsonl").read_text().count("\n") == 1
            r = reading("vector.float32", "fma", "FLOP/s", [1e9] * 9)
            return Reply("ok", "", {"micro": as_json(Microbenchmarks({r.name: r})), "hz": job["hz"], "state": {}})

    monkeypatch.setattr(calibrating, "Child", Half)
    found = calibrate("cpu", kernels=False)
    assert found.micro.left_out == ("clock: timeout: still running clock",)
    assert list(found.micro.readings) == ["vector.float32"]
    (own_folder / "cache" / "calibrate.jsonl").unlink()
    (own_folder / "cache" / "calibrate.jsonl").mkdir()
    monkeypatch.setattr(Half, "call", lambda self, job, timeout_s, call=Half.call: (
        Reply("timeout", "") if job["do"] != "describe" else call(self, job, timeout_s)))  # fmt: skip
    left_out = calibrate("cpu", kernels=False).micro.left_out
    assert "the log of fma, " in left_out[-1] and "Is a directory" in left_out[-1]


def test_a_kernel_of_which_too_few_ran_costs_its_fit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [replace(c, seconds=np.where(np.arange(len(c.seconds)) < 2, c.seconds, np.nan)) for c in table({})]
    monkeypatch.setattr(calibrating, "_microbenchmarks", lambda device, say: (H200, {}, Microbenchmarks({})))
    monkeypatch.setattr(calibrating, "measured", lambda *_, **__: (few, ["one: no time left"]))
    found = calibrate("cuda")
    assert found.choices == () and found.skipped[0] == "one: no time left"
    assert "matmul/triton on h200_sxm: no problem has three measured" in found.skipped[1]


# ---- a descriptor from readings


def made(values: Mapping[str, float]) -> Microbenchmarks:
    return Microbenchmarks({name: reading(name, name, "", [value] * 7) for name, value in values.items()})


READ = {
    "launch_s": 3.1e-6, "block_dispatch_clk": 120.0, "warp_start_clk": 20.0, "dram_read_bytes_per_s": 4.4e12,
    "l2_read_bytes_per_s": 6.0e12, "l2_latency_s": 1.4e-7, "dram_latency_s": 3.2e-7, "dram_busy_latency_s": 8e-7,
    "l2_busy_latency_s": 4e-7, "smem_bytes_per_clk": 127.0, "atomic_swap_bytes_per_s": 1.2e11,
    "matrix.mma.float16.float32": 2700.0, "matrix.wgmma.float16.float32": 4070.0,
    "second_launch_s": 1.1e-6,
}  # fmt: skip


def test_readings_become_fields_and_constants() -> None:
    derived = keep.derive(H200, made(READ))
    assert derived.fields["l2_bytes_per_s"] == 6.0e12
    assert derived.constants["dram_efficiency"] == pytest.approx(4.4e12 / H200.dram_bytes_per_s, rel=1e-3)
    assert derived.constants["dram_latency_load"] == pytest.approx(2.5)
    rates = {(r.instruction, r.dtype, r.accumulate): r.flops_per_clk_per_sm for r in derived.fields["matrix"]}
    assert rates["mma", "float16", "float32"] == 2700.0
    assert rates["wgmma", "float16", "float32"] == 4096.0, "1 % below the datasheet confirms it"
    for name, value in derived.constants.items():
        assert CONSTANTS[name].low <= value <= CONSTANTS[name].high


def test_readings_that_vary_are_not_used() -> None:
    micro = made(READ)
    shaky = {**micro.readings, "l2_latency_s": reading("l2_latency_s", "L2", "s", [1e-7, 9e-7, 2e-7, 8e-7, 1e-7, 5e-7])}
    derived = keep.derive(H200, replace(micro, readings=shaky))
    assert "l2_latency_s" not in derived.fields
    assert "l2_latency_load" not in derived.constants
    assert derived.refused[0].startswith("L2: it varied by")


def test_disturbed_readings_are_not_used() -> None:
    derived = keep.derive(H200, made(READ | {"launch_s": 5e-4, "dram_read_bytes_per_s": 4.75e12}))
    assert "launch_s" not in derived.constants
    assert "launch_s = 0.0005 is outside" in derived.refused[0]
    assert derived.constants["dram_efficiency"] == 0.97, "a little outside: cut to the bound"


def test_kernels_fitted_against_the_datasheet_predict_as_before() -> None:
    derived = keep.derive(H200, made(READ))
    fields = {name: value for name, value in derived.fields.items() if name != "matrix"}
    tables = keep.fitted_elsewhere(H200, fields, derived.constants)
    changed = keep.with_fields(H200, fields)
    changed = changed.replace(
        fitted=keep.fitted_pairs(keep.about(H200, "test"), {"constants": derived.constants, **tables})
    )
    case = table({})[0]
    before, after = predict_case(case, {}), predict_case(replace(case, arch=changed), {})
    assert after == pytest.approx(before, rel=2e-3, nan_ok=True)
    op = carver.MatmulTemplate(256, 256, 256, in_dtype="float32")
    with_prior = [op.with_arch(a).recommend_hints(1, "cuda")[0].predicted_ms for a in (H200, changed)]
    assert with_prior[0] != with_prior[1], "a kernel that nobody fitted takes what was measured"


def test_a_fit_against_the_datasheet_is_moved_to_the_measured_fields() -> None:
    """As the one above, with constants that were fitted before the fields changed."""
    derived = keep.derive(H200, made(READ))
    fields = {name: value for name, value in derived.fields.items() if name != "matrix"}
    case, fitted = table({})[0], {**TRUTH, "tail": 1.05}
    (kernel,) = {g.kernel for g in groups([case])}
    own = keep.unmoved(kernel, H200, fields, derived.constants, fitted)
    changed = keep.with_fields(H200, fields).replace(
        fitted=keep.fitted_pairs(keep.about(H200, "test"), {"constants": derived.constants, "matmul/triton": own})
    )
    after = predict_case(replace(case, arch=changed), {})
    assert after == pytest.approx(predict_case(case, fitted), rel=2e-3, nan_ok=True)


def test_a_written_descriptor_reads_back_and_keeps_the_datasheet(own_folder: Path) -> None:
    derived = keep.derive(H200, made(READ))
    arch = keep.with_fields(H200, derived.fields).replace(
        fitted=keep.fitted_pairs(keep.about(H200, "test"), {
            "constants": derived.constants, "datasheet": keep.datasheet(H200, derived.fields),
        })
    )  # fmt: skip
    keep.write(arch)
    again = archs.load("h200")
    assert again == arch
    assert again.fitted_constants("datasheet")["l2_bytes_per_s"] == H200.l2_bytes_per_s
    assert again.fitted_constants("datasheet")["matrix.mma.float16.float32"] == 2580.0
    assert dict(again.source)["memory.l2_bytes_per_s"].startswith("measured by carver calibrate; before: prior 5500")
    assert keep.uncalibrated(again) == H200
    assert dict(keep.uncalibrated(again).source) == dict(H200.source)


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_problem_that_cannot_be_measured_costs_its_times_alone(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = (carver.ElementwiseTemplate((64, n), "float32") for n in (64, 128))

    def measure(bench: Any, every: Any, **options: Any) -> Any:
        if every[0].problem == bad.problem:
            raise RunError(f"{bad.problem} cannot be set up")
        return bench_measure(bench, every, **options)

    bench_measure = calibrating.measure
    monkeypatch.setattr(calibrating, "measure", measure)
    with carver.run.records.Records(tmp_path / "records.sqlite") as store:
        here, problems = CpuDevice().arch, {"elementwise": [bad, good]}
        cases, skipped = calibrating.measured("cpu", here, 10.0, problems, (2, 1, 1), records=store)
    assert [case.problem for case in cases] == [good.problem]
    assert skipped == [f"{bad.problem} cannot be set up"]


# ---- a GPU made of formulas: the arithmetic of the microbenchmarks, without a GPU


class FormulaGpu:
    """Answers launches of templates/calibrate/*.cu as a device with these constants would."""

    kind = "cuda"
    name = "formulas"
    DRAM, L2, DRAM_LATENCY, L2_LATENCY, HZ = 4.2e12, 6.5e12, 5e-7, 1.5e-7, 1.9e9
    LAUNCH, GAP, BLOCK_CLK, WARP_CLK, MERGED = 3e-6, 1e-6, 150.0, 22.0, 1.6

    def __init__(self) -> None:
        self.arch = H200
        self.clocks = 0
        self.spent = 0.0
        self.where: dict[int, int] = {}

    def compile(self, source: Source) -> Source:
        assert source.path.is_file()
        return source

    def load(self, source: Source, program: Any) -> Any:
        (call,) = program.calls
        assert program.source is source
        return SimpleNamespace(launch=lambda pointers: self.launch(source, call, pointers))

    def empty(self, shape: tuple[int, ...], dtype: str) -> Buffer:
        owner = np.zeros(4)
        pointer = len(self.where) + 1
        self.where[pointer] = int(np.prod(shape))
        return Buffer(pointer, shape, dtype, owner)

    def fill(self, buffer: Buffer, byte: int) -> None: ...

    def synchronize(self) -> None: ...

    def download(self, buffer: Buffer) -> Any:
        return np.full(buffer.shape, self.clocks)

    def time(self, run: Callable[[], None], repeats: int = 1, *, cold: bool = True) -> list[float]:
        times = []
        for _ in range(repeats):
            self.spent = self.LAUNCH - self.GAP
            run()
            times.append(self.spent)
        return times

    def launch(self, source: Source, call: Any, pointers: Mapping[str, int]) -> None:
        self.spent += self.GAP + self.work(source, call, pointers)

    def work(self, source: Source, call: Any, pointers: Mapping[str, int]) -> float:
        d = {name: int(value) for name, value in source.defines.items()}
        sms, blocks = self.arch.sm_count, call.grid[0]
        numbers = [a for a in call.args if isinstance(a, int)]
        match source.path.stem:
            case "stream":
                vectors, rounds, sharers, _ = numbers
                asked = rounds * 4 * 16 * blocks * call.block
                small = 16 * vectors < self.arch.l2_bytes
                latency, peak = (self.L2_LATENCY, self.L2) if small else (self.DRAM_LATENCY, self.DRAM)
                rate = min(peak, blocks * call.block * 64 / latency)
                merged = self.MERGED if small and sharers == 2 else 1.0
                return asked * (1 + d.get("WRITE", 0)) / (rate * merged)
            case "chase":
                if source.entries[0] == "carver_chase":
                    warm, hops = numbers
                    self.clocks = int(hops * (self.L2_LATENCY if warm else self.DRAM_LATENCY) * self.HZ)
                return 1e-3
            case "shared" if source.entries[0] == "carver_fragment":
                clk = numbers[0] * 33
            case "shared":
                clk = numbers[0] * call.block * 128 / 128.0
            case "vector":
                rate = {0: 128, 1: 256, 8: 128, 7: 512}[d["KIND"]]
                clk = numbers[0] * call.block * 16 * (8 if d["KIND"] == 7 else 2) / rate
            case "mma":
                k = {0: 4, 2: 8, 3: 16, 4: 16}.get(d["KIND"], 32)
                rate = 2048 * k / 16 if d["KIND"] else 256
                clk = numbers[0] * call.block / 32 * 8 * (2 * 16 * 8 * k) / rate
            case "wgmma":
                assert source.isa == "sm_90a"
                k = {2: 8, 3: 16, 4: 16}.get(d["KIND"], 32)
                rate = 4000 * k / 16
                clk = numbers[0] * 2 * 4 * (2 * 64 * 256 * k) / rate
            case "empty":
                each = max(self.BLOCK_CLK, self.WARP_CLK * call.block / 32)
                return blocks / sms * each / self.HZ if blocks > 1 else 0.0
            case "atomic":
                slots, rounds = numbers
                return blocks * call.block * rounds / (1e9 if slots == 1 else 5e11)
        self.clocks = int(clk)
        return clk / self.HZ


@pytest.fixture(scope="module")
def gpu() -> Microbenchmarks:
    return every_part(Gpu(FormulaGpu()))  # type: ignore[arg-type]


@pytest.mark.parametrize("name, value, within", [
    ("clock_hz", FormulaGpu.HZ, 0.01), ("launch_s", FormulaGpu.LAUNCH, 1e-6), ("second_launch_s", FormulaGpu.GAP, 1e-6),
    ("block_dispatch_clk", FormulaGpu.BLOCK_CLK, 0.02), ("warp_start_clk", FormulaGpu.WARP_CLK, 0.02),
    ("dram_read_bytes_per_s", FormulaGpu.DRAM, 0.01), ("dram_copy_bytes_per_s", FormulaGpu.DRAM, 0.01),
    ("l2_read_bytes_per_s", FormulaGpu.L2, 0.01), ("l2_latency_s", FormulaGpu.L2_LATENCY, 0.01),
    ("l2_shared_bytes_per_s", FormulaGpu.L2 * FormulaGpu.MERGED, 0.01),
    ("dram_latency_s", FormulaGpu.DRAM_LATENCY, 0.01), ("dram_busy_latency_s", FormulaGpu.DRAM_LATENCY, 0.25),
    ("l2_busy_latency_s", FormulaGpu.L2_LATENCY, 0.25), ("smem_bytes_per_clk", 128.0, 1e-3),
    ("fragment_latency_clk", 33.0, 1e-3),
    ("vector.float32", 256.0, 1e-3),
    ("vector.float64", 128.0, 1e-3), ("vector.int8", 512.0, 1e-3), ("matrix.mma.float16.float32", 2048.0, 1e-3),
    ("matrix.mma.float16.float16", 2048.0, 1e-3), ("matrix.mma.tf32.float32", 1024.0, 1e-3),
    ("matrix.mma.int8.int32", 4096.0, 1e-3), ("matrix.mma.float64.float64", 256.0, 1e-3),
    ("matrix.wgmma.float16.float32", 4000.0, 1e-3),
    ("matrix.wgmma.tf32.float32", 2000.0, 1e-3), ("matrix.wgmma.float8_e4m3.float32", 8000.0, 1e-3),
    ("atomic_add_bytes_per_s", 2e12, 0.05), ("atomic_same_per_s", 1e9, 0.05),
])  # fmt: skip
def test_readings_of_a_known_gpu(gpu: Microbenchmarks, name: str, value: float, within: float) -> None:
    assert gpu.readings[name].value == pytest.approx(value, rel=within)


def test_a_known_gpu_becomes_its_descriptor(gpu: Microbenchmarks) -> None:
    derived = keep.derive(H200, gpu)
    assert derived.fields["l2_bytes_per_s"] == pytest.approx(FormulaGpu.L2, rel=0.01)
    assert derived.constants["l2_merge"] == pytest.approx(2 - 2 / FormulaGpu.MERGED, rel=0.01)
    assert "l2_merge_sms" not in derived.fields, "what the descriptor says"
    assert keep.derive(H200.replace(l2_merge_sms=1), gpu).fields["l2_merge_sms"] == 16
    assert derived.constants["dram_efficiency"] == pytest.approx(FormulaGpu.DRAM / H200.dram_bytes_per_s, rel=0.01)
    assert derived.constants["launch_s"] == pytest.approx(FormulaGpu.LAUNCH)
    assert [line.partition(" ")[0] for line in derived.refused] == ["dram_latency_load"], (
        "it has one latency, busy or not"
    )
    assert not gpu.left_out


# ---- the CUDA sources


def cuda_sources() -> Iterator[Any]:
    """Each on the oldest device that runs it: no source and no flag is for one device. The second tier compiles one of
    a file and instruction set."""
    seen, files = set(), set()
    for isa, name in (("sm_75", "t4"), ("sm_80", "a100"), ("sm_90", "h200")):
        probe = Gpu.__new__(Gpu)
        device = FormulaGpu()
        device.arch = carver.load_arch(name)
        Gpu.__init__(probe, device)  # type: ignore[arg-type]
        for source in probe.sources():
            if (key := (source.path, tuple(source.defines.items()), tuple(source.entries))) not in seen:
                seen.add(key)
                marks = [pytest.mark.exhaustive if (isa, source.path) in files else pytest.mark.slow]
                files.add((isa, source.path))
                label = f"{isa}-{source.path.stem}-{'-'.join(source.defines.values())}"
                yield pytest.param(source, id=label, marks=marks)


@pytest.mark.nvcc
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on the PATH")
@pytest.mark.parametrize("source", list(cuda_sources()))
def test_cuda_sources_compile(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    binary = compile_source(source, cuda_compiler())
    resources = used(binary.log)[source.entries[0]]
    assert resources.spill_bytes == 0
    assert resources.registers <= 168
    assert "serialized" not in binary.log, "wgmma would be timed one by one"
    assert source.flags == ("--std=c++17",), "nothing for this device alone"


def test_groups_of_a_case_by_kernel() -> None:
    op = carver.MatmulTemplate(512, 512, 512, in_dtype="float16").with_arch("a100")
    hints = [h for h in op.recommend_hints(2000, "cuda") if h.kernel in ("mma", "simt")]
    configs = [{"kernel": h.kernel, **h.config} for h in hints[:40]]
    case = Case("made", op.problem, carver.load_arch("a100"), "cuda", configs, np.arange(1, 41) * 1e-3)
    found = groups([case])
    assert {g.name for g in found} == {f"matmul/{c['kernel']}" for c in configs}
    assert sum(g.candidates for g in found) == 40
    assert all(isinstance(g, Group) for g in found)
