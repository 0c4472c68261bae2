"""Pinned picks: the same whatever the order and the process, in tables that say when they no longer hold."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tuned
from click.testing import CliRunner

import carver
from carver.base.child import Reply
from carver.base.errors import ConfigError
from carver.cli.main import main
from carver.compiled.pool import own_fault, told, transient
from carver.compiled.worker import Forks
from carver.integrations.autotune import Race, enable_triton
from carver.ranking import pins, ranking
from carver.ranking.pins import PinsError, Table

triton = pytest.importorskip("triton")

from tests import compiled_kernels  # noqa: E402
from tests.test_enable_triton import Array, launch, launches  # noqa: E402, F401 (the fixture)

H100 = carver.load_arch("h100")
ROOT, N = Path(__file__).parents[1], 1 << 22
CONFIGS = [{"BLOCK": block, "num_warps": warps} for block in (256, 1024, 4096) for warps in (1, 4, 8)]
ARGS = {"x_ptr": carver.Tensor("float16", (N,)), "y_ptr": carver.Tensor("float16", (N,)), "n": N}


def pick(configs: Any = CONFIGS, n: int = N, **how: Any) -> pins.Pin:
    return pins.pick(
        compiled_kernels.copy, configs, args={**ARGS, "n": n}, grid=lambda meta: (-(-n // meta["BLOCK"]),), arch=H100,
        key={"n": n}, **how,
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARVER_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("CARVER_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "pins" / "h100_sxm.json"
    pins.add(path, H100.name, [pick(), pick(n=N // 2)])
    return path


# the choice


@dataclass(frozen=True)
class Hint:
    predicted_ms: float
    registers: int
    smem_bytes: int
    config: dict[str, Any]

    @property
    def launch(self) -> Any:
        return SimpleNamespace(registers=self.registers, smem_bytes=self.smem_bytes)


def hint(ms: float, registers: int = 32, shared: int = 0, **config: Any) -> Hint:
    return Hint(ms, registers, shared, config)


@pytest.mark.parametrize(
    ("hints", "taken"),
    [
        ([hint(1.0, B=64), hint(1.02, 16, B=32)], 64),  # 2 % is more than a tie
        ([hint(1.0, 64, B=64), hint(1.009, 40, B=32)], 32),
        ([hint(1.0, 40, 4096, B=64), hint(1.005, 40, 2048, B=128)], 128),
        ([hint(1.0, 40, 0, B=64), hint(1.005, 40, 0, B=16)], 16),
        ([hint(1.0, 40, 0, B=8, C=4), hint(1.0, 40, 0, B=4, C=8)], 4),
    ],
)
def test_ties_are_resolved_by_the_stated_order(hints: list[Hint], taken: int) -> None:
    for order in (hints, hints[::-1]):
        choice = ranking.choose(order)
        assert choice.hint.config["B"] == taken
    assert choice.tied == (1 if taken == 64 and hints[1].predicted_ms == 1.02 else 2)


def test_the_default_is_left_for_a_gain_above_the_margin_alone() -> None:
    hints, default = [hint(1.0, B=64), hint(1.08, B=32)], {"B": 32}
    assert ranking.choose(hints, default, 0.1).hint.config == {"B": 32}
    assert "no predicted gain above 10% (8.0%)" in ranking.choose(hints, default, 0.1).why
    assert ranking.choose(hints, default, 0.05).hint.config == {"B": 64}
    assert ranking.choose(hints, default).hint.config == {"B": 64}
    assert "the default does not run" in ranking.choose(hints, {"B": 1}, 0.1).why


@pytest.mark.slow
def test_the_pick_is_that_of_any_order() -> None:
    first = pick()
    for seed in range(5):
        again = pick(random.Random(seed).sample(CONFIGS, len(CONFIGS)))
        assert again.to_dict() == first.to_dict()
    assert pick([*CONFIGS, *CONFIGS]).to_dict() == first.to_dict(), "each counts once"
    assert [each["config"] for each in first.candidates] != CONFIGS and first.candidates[0]["grid"] == [16384, 1, 1]
    assert pick(default=CONFIGS[0], margin=10.0).config == CONFIGS[0]


def test_a_line_of_a_pin_writes_tensors_as_shapes() -> None:
    gaps = carver.Tensor("float32", (8, 64), (128, 1))
    pin = replace(pick(CONFIGS[:1]), key=pins.default_key({**ARGS, "gaps": gaps}))
    args = f"x_ptr=float16[{N}], y_ptr=float16[{N}], n={N}, gaps=float32[8, 64] by [128, 1]"
    assert str(pin).startswith(f"{pin.kernel}({args}): BLOCK=256, num_warps=1  [")


@pytest.mark.slow
def test_a_pin_is_computed_again_from_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments, list, grids, default and margin are those of the entry; nothing else of the first call is asked."""
    pin = pick(default=CONFIGS[-1], margin=0.5)
    again = pins.again(pins.Pin.from_dict(json.loads(json.dumps(pin.to_dict())), "it"), ROOT, H100)
    assert again.to_dict() == pin.to_dict() and pin.margin == 0.5 and pin.default == CONFIGS[-1]
    half = dataclasses.replace(pin, args={**pin.args, "n": N // 2})
    assert pins.again(half, ROOT, H100).predicted_ms < pin.predicted_ms
    lacking = [{**each, "grid": None} for each in pin.candidates]
    with pytest.raises(PinsError, match=r"copy: the table has no grid for .*BLOCK"):
        pins.again(dataclasses.replace(pin, candidates=lacking), ROOT, H100)


@pytest.mark.slow
def test_what_margins_and_ties_give_is_counted(tmp_path: Path) -> None:
    """Lists of two kernels, one of each half: one whose first is the fastest, one of which two are tied, and differ by
    10 % when timed, and the third is in the other order."""
    rows = [("a", [1.0, 2.0, 4.0], [1.0, 2.2, 4.84]), ("d", [3.0, 2.0, 2.01], [1.0, 2.0, 2.2])]
    same = {"configs": [{"B": 1}, {"B": 2}, {"B": 3}]}
    file = tmp_path / "again.jsonl"
    file.write_text("".join(
        json.dumps({"kernel": kernel, "predicted_ms": told, "measured_ms": took, **same}) + "\n"
        for kernel, told, took in rows
    ))  # fmt: skip
    program = Path(__file__).parent.parent / "benchmarks" / "pins.py"
    done = subprocess.run([sys.executable, program, "resolution", file], capture_output=True, text=True, check=True)
    assert "\n  margin    0%: 1 slower by 2 %, worst 2.000, over the best 1.4142\n" in done.stdout
    ties = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["1%"]]
    assert sorted(ties) == [["1%", "0", "nan", "0.000", "0.000"], ["1%", "1", "1.00", "1.000", "1.000"]]


OTHER = """
import json, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests"]
from tests.test_pins import CONFIGS, pick
import random
print(json.dumps(pick(random.Random(int(sys.argv[2])).sample(CONFIGS[:4], 4)).to_dict()))
"""


@pytest.mark.slow
def test_the_pick_is_that_of_any_process(tmp_path: Path) -> None:
    """With another seed of hashes, one thread or two, and an empty cache: all is compiled anew."""
    found = []
    for seed, threads in (("1", "1"), ("2", "2")):
        own = {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads, "CARVER_CACHE_DIR": str(tmp_path / seed)}
        command = [sys.executable, "-c", OTHER, str(Path(__file__).parent.parent), seed]
        done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == json.loads(json.dumps(pick(CONFIGS[:4]).to_dict()))


@pytest.mark.parametrize(
    "reply",
    [
        Reply("timeout", "not compiled within 1800 s"), Reply("out_of_memory", ""),
        Reply("crash", "the worker process was killed (SIGKILL), by hand or for want of memory"),
        Reply("crash", "the worker process died of SIGSEGV"), Reply("ok", data={"reply": "nonsense"}),
        Reply("ok", data={"reply": transient("the compiler could not run: [Errno 12] Cannot allocate memory")}),
        Reply("ok", data={"reply": transient(own_fault(KeyError("x")))}), Reply("crash", ""),
    ],
)  # fmt: skip
def test_what_another_machine_may_compile_is_not_pinned(reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    pick()
    said = [told(reply)]
    monkeypatch.setattr(Forks, "replies", lambda self, requests, _: ((k, dict(*said)) for k in requests))
    with pytest.raises(PinsError, match="copy is not pinned: 1 of 10 configurations: "):
        pick([*CONFIGS, {"BLOCK": 8192}])


# tables


def test_a_table_says_what_it_holds_and_reads_itself(table: Path) -> None:
    found = Table.read(table, "h100_sxm")
    assert [pin.key for pin in found] == [{"n": N // 2}, {"n": N}]
    assert found.text() == table.read_text() and json.loads(table.read_text())["format"] == 1
    assert pins.add(table, H100.name, [pick()]).text() == found.text()
    assert not any(problem for _, problem in pins.verify(found, ROOT))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("empty", "not JSON"), ("cut", "not JSON"), ("a list", "is no table of pins"), ("format", "no table of pins"),
        ("device", "is a table for 'h200_sxm', not for h100_sxm"), ("config", "was edited or cut"),
        ("candidate", "was edited or cut"), ("a key less", "keys missing"), ("twice", "two entries"),
        ("types", "must be"), ("a pipe", "is no plain file"),
    ],
)  # fmt: skip
def test_a_bad_table_is_an_error_that_names_the_file(how: str, said: str, table: Path) -> None:
    found = json.loads(table.read_text())
    entry = found["pins"][0]
    match how:
        case "empty" | "a pipe":
            found = ""
        case "cut":
            found = table.read_text()[:500]
        case "a list":
            found = [found]
        case "format":
            found["format"] = 2
        case "device":
            found["device"] = "h200_sxm"
        case "config":
            entry["config"]["num_warps"] += 1
        case "candidate":
            del entry["candidates"][0]
        case "a key less":
            del entry["why"]
        case "twice":
            found["pins"].append(entry)
        case "types":
            entry["key"] = 3
    table.write_text(found if isinstance(found, str) else json.dumps(found))
    if how == "a pipe":
        table.unlink()
        os.mkfifo(table)
    with pytest.raises(PinsError, match=said) as caught:
        Table.read(table, "h100_sxm")
    assert str(table) in str(caught.value)


def test_tables_of_several_ranks_are_one_or_an_error_that_names_both(table: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    pins.add(other, H100.name, [pick(), pick(n=N // 4)])
    merged = pins.merged([table, other])
    assert len(merged.pins) == 3 and pins.merged([other, table]).text() == merged.text()
    pins.add(other, H100.name, [pick(CONFIGS[:2], n=N // 2)])
    with pytest.raises(PinsError, match="takes another configuration") as caught:
        pins.merged([table, other])
    assert str(table) in str(caught.value) and str(other) in str(caught.value)
    first, last = pins.differences(Table.read(table), Table.read(other))
    assert "only in the second" in first and "then" in last


def test_what_changed_since_is_named(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Table.read(table)
    pin = next(iter(found))
    assert not pins.stale(pin, compiled_kernels.copy, CONFIGS[::-1], H100)
    assert "a list of 9, then of 8" in pins.stale(pin, compiled_kernels.copy, CONFIGS[1:], H100)
    assert "device h100_sxm" in pins.stale(pin, compiled_kernels.copy, CONFIGS, H100.replace(sm_count=7))
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    assert "compiler triton" in pins.stale(pin, compiled_kernels.copy, CONFIGS, H100)
    monkeypatch.delenv("DISABLE_LLVM_OPT")
    monkeypatch.setattr(pins, "__version__", "9.9")
    (problem, _) = [why for _, why in pins.verify(found, ROOT)]
    assert problem == "the same pick, but stale: carver 0.1.0, then 9.9"


@pytest.mark.parametrize(
    ("kernel", "path"),
    [(f"{name}.k", "") for name in ("forged", "json", "time", "", "held.forged")] + [("inside.k", "forged.py")],
)
def test_a_table_chooses_no_code_from_elsewhere(
    kernel: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hashes are anybody's to compute; neither a kernel nor a function among its arguments is loaded."""
    source = tmp_path / "source"
    (source / "held").mkdir(parents=True)
    (source / "inside.py").write_text("k = 1\n")
    for each in (tmp_path / "forged.py", tmp_path / "held" / "forged.py", tmp_path / "held" / "__init__.py"):
        each.parent.mkdir(exist_ok=True)
        each.write_text("raise SystemExit('it runs')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(source)
    place = {"kernel": {"path": str(tmp_path / path), "module": "forged", "name": "k"}}
    pin = pins.Pin(kernel, {}, {"B": 1}, "", 1.0, 1, {}, {"x": place}, [{"config": {"B": 1}, "grid": [1]}])
    forged = Table(H100.name, {pin.place: pin})
    (problem,) = [why for _, why in pins.verify(forged, source)]
    assert f"does not lie in {source}" in problem and "it runs" not in problem


def test_the_hash_is_of_the_picks_alone() -> None:
    one, two = pick(), pick(n=N // 2)
    assert pins.picks_hash([one, two]) == pins.picks_hash([two, one]) != pins.picks_hash([one])


# in a process


def tuner(configs: Any = CONFIGS) -> Any:
    made = [triton.Config({"BLOCK": each["BLOCK"]}, num_warps=each["num_warps"]) for each in configs]

    def bench(*_: Any, **__: Any) -> Any:
        raise AssertionError("timed")

    return triton.autotune(made, key=["n"], do_bench=bench)(compiled_kernels.copy)


@pytest.mark.slow
def test_a_process_takes_what_the_table_has_and_compiles_nothing_else(
    launches: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    with enable_triton(arch=H100, pinned=tmp_path, record=True) as log:
        launch(tuner(), N)
        launch(tuner(CONFIGS[::-1]), N)
    assert [entry.pin.partition(":")[0] for entry in log] == ["chosen", f"pinned in {tmp_path}/h100_sxm.json"]
    taken = {name: launches[0][name] for name in ("BLOCK", "num_warps")}
    assert taken == {name: launches[1][name] for name in taken} and len(log.pins) == 1 and 0 < log.hash < 1 << 62
    monkeypatch.setattr(pins, "rank_kernel", lambda *_, **__: pytest.fail("ranked"))
    with enable_triton(arch=H100, pinned=tmp_path, strict=True) as again:
        launch(tuner(random.Random(1).sample(CONFIGS, 9)), N)
        with pytest.raises(PinsError, match="has no entry; record it with 'carver pins record'"):
            launch(tuner(), N // 2)
        with pytest.raises(PinsError, match="stale: a list of 9, then of 8"):
            launch(tuner(CONFIGS[1:]), N)
    assert again.hash == log.hash
    assert {name: launches[2][name] for name in taken} == taken


@pytest.mark.slow
def test_a_table_that_cannot_be_written_changes_no_pick(
    launches: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture  # noqa: F811
) -> None:
    """Else ranks that can write it and ranks that cannot would take different ones."""
    (tmp_path / "file").touch()
    for table in (tmp_path / "pins", tmp_path / "file" / "pins"):
        with enable_triton(arch=H100, pinned=table, record=True):
            launch(tuner(), N)
    assert "is not recorded" in caplog.text
    assert {launched["BLOCK"] for launched in launches} == {launches[0]["BLOCK"]} != {CONFIGS[0]["BLOCK"]}


def test_a_stale_entry_is_logged_and_chosen_anew(
    launches: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture  # noqa: F811
) -> None:
    with enable_triton(arch=H100, pinned=tmp_path, record=True):
        launch(tuner(), N)
    with enable_triton(arch=H100, pinned=tmp_path) as log:
        launch(tuner(CONFIGS[1:]), N)
    assert "the entry is stale: a list of 9, then of 8; chosen anew" in caplog.text and log[0].pin.startswith("chosen")
    (tmp_path / "h100_sxm.json").write_text("{}")
    with enable_triton(arch=H100, pinned=tmp_path) as log:
        launch(tuner(), N)
    assert "is no table of pins" in caplog.text and log[0].pin.startswith("chosen")


def test_what_cannot_be_ranked_takes_the_first_and_says_so(
    launches: Any, caplog: pytest.LogCaptureFixture  # noqa: F811
) -> None:
    with enable_triton(arch=H100, pinned=True) as log:
        tuner()[lambda meta: (1,)](Array((64,), "torch.complex64"), Array((64,)), 64)
    assert "complex64" in log[0].why and launches[-1]["BLOCK"] == 256 and launches[-1]["num_warps"] == 1
    [said] = caplog.messages
    assert said.startswith("copy takes the first of its list, which is not ranked: ") and "complex64" in said


def test_a_package_that_is_missing_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not, for each kernel, a line in the log and the first of its list."""
    monkeypatch.delenv("CARVER_CACHE_DIR")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.setattr(sys, "platform", "darwin")  # on Linux its rule is followed without it
    with pytest.raises(ImportError, match="platformdirs"):
        enable_triton(arch=H100, pinned=True)


@pytest.mark.parametrize("how", [{"record": True}, {"margin": 0.1}, {"strict": True}])
def test_options_of_pins_go_with_pins(how: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="goes with pinned="):
        enable_triton(arch=H100, **how)
    with pytest.raises(ConfigError, match="pinned is True, or the file or folder"):
        enable_triton(arch=H100, pinned=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "taken"),
    [
        ([(1.0, 0.96), (0.97, 0.98)], 0),  # now the one is faster, now the other
        ([(1.0,), (0.995,)], 0),  # in each round, but by less than a tie
        ([(1.0,), (0.9,)], 1),
        ([(1.0,), (0.9,), (0.895,)], 1),
        ([(float("inf"),), (0.9,)], 1),
        ([(1.0,), (float("inf"),)], 0),
    ],
)
def test_the_first_is_left_for_a_gain_that_noise_does_not_explain(times: list[Any], taken: int) -> None:
    every = [itertools.cycle(each) for each in times]
    race = Race(every)
    told = [race.told(each, lambda one: [(ms := next(one)), 0.98 * ms, 1.02 * ms])[0] for each in every]
    assert told.index(min(told)) == taken


def test_rounds_go_on_until_the_order_is_sure_or_a_tie() -> None:
    """Clocks rise by 3 % a call, so that the second looks faster than the list's first, which is as fast. What is far
    slower is timed once; what is 20 % faster, by quantiles that overlap, until three rounds say so."""
    clock, took, seen = [1.0], {"first": 1.0, "alike": 1.0, "faster": 0.8, "slow": 3.0}, list[str]()

    def time(name: str) -> list[float]:
        seen.append(name)
        clock[0] *= 0.97
        ms = took[name] * clock[0]
        return [ms, 0.85 * ms, 1.15 * ms]

    race = Race(["first", "alike", "slow"], warm=True)
    told = {name: race.told(name, time)[0] for name in ("first", "alike", "slow")}
    assert min(told, key=told.__getitem__) == "first" and seen.count("slow") == 1
    assert seen[:4] == ["first", "first", "alike", "slow"] and seen.count("alike") == seen.count("first") - 1 == 9

    seen.clear()
    race = Race(["first", "faster"])
    told = {name: race.told(name, time)[0] for name in ("first", "faster")}
    assert min(told, key=told.__getitem__) == "faster"
    assert seen == ["first", "faster", "faster", "first", "first", "faster"]


# the command line


KERNELS = """
import triton, triton.language as tl
@triton.autotune([triton.Config({"B": b}, num_warps=w) for b in (256, 1024) for w in (2, 8)], key=["n"])
@triton.jit
def copied(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, o < n), o < n)
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["pinned_kernels", "pinned_package.inner.kernels"])
def test_commands(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a kernel in a file, and in one of a package, which has the name by which programs import it."""
    file = tmp_path / (module.replace(".", "/") + ".py")
    run = CliRunner().invoke
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in file.relative_to(tmp_path).parents[:-1]:
        (tmp_path / folder / "__init__.py").touch()
    file.write_text(KERNELS)
    for n in (1000, 4000000):
        x = f'{{dtype = "float16", shape = [{n}]}}'
        (tmp_path / f"{n}.toml").write_text(f'grid = ["ceil(n, B)"]\n[args]\nn = {n}\nx = {x}\ny = {x}\n')
    asked = ["pins", "record", f"{file.relative_to(tmp_path)}:copied", "--arch", "h100", "--table", "t"]
    done = run(main, [*asked, "--args", "1000.toml", "--args", "4000000.toml", "--margin", "0.1"])
    assert done.exit_code == 0 and "2 in t/h100_sxm.json" in done.output, done.output
    shown = run(main, ["pins", "show", "t"]).output
    assert f"{module}.copied(n=1000, x=float16, y=float16): B=" in shown
    assert run(main, ["pins", "verify", "t/h100_sxm.json", "--source", "."]).output.endswith("2 of 2 hold\n")
    assert run(main, ["pins", "merge", "t/h100_sxm.json", "t/h100_sxm.json", "-o", "m.json"]).exit_code == 0
    assert (tmp_path / "m.json").read_text() == (tmp_path / "t" / "h100_sxm.json").read_text()
    assert run(main, ["pins", "diff", "m.json", "t/h100_sxm.json"]).exit_code == 0
    run(main, [*asked, "--args", "1000.toml"])
    done = run(main, ["pins", "diff", "m.json", "t/h100_sxm.json"])
    assert done.exit_code == 1 and ", then {" in " ".join(done.output.split())
    assert "no table of pins in" in run(main, ["pins", "show"]).output
    file.write_text(KERNELS.replace("o < n)", "o < n - 1)"))
    sys.modules.pop(module, None)
    done = run(main, ["pins", "verify", "t/h100_sxm.json", "--source", "."])
    assert done.exit_code == 1 and "source" in done.output and "0 of 2 hold" in done.output


# carver's own tuner


@pytest.mark.slow
def test_a_tuned_function_takes_the_predicted_fastest_of_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from carver.tune.sessions import Sessions

    monkeypatch.setattr(Sessions, "measure", lambda *_: pytest.fail("measured"))
    hints = list(carver.MatmulTemplate(256, 256, 256, in_dtype="float32").with_arch("cpu").recommend_hints(12))

    def some(n: int, block_m: int) -> carver.Kernel:
        return tuned.scale.fn(n, 1)

    def chosen(listed: Any) -> Any:
        result = carver.autotune(configs=listed, pinned=True, **tuned.QUICK)(carver.jit(out_idx=-1)(some)).result(100)
        assert result.notes[-1].startswith("not measured (pinned): ") and result.latency_ms is None
        return dict(result.config)

    first = chosen(hints)
    assert chosen(hints[::-1]) == first == chosen(random.Random(3).sample(hints, len(hints)))


def test_a_list_that_nothing_predicts_cannot_be_pinned() -> None:
    work = carver.autotune(configs=[{"ways": 1}, {"ways": 2}], pinned=True, **tuned.QUICK)(tuned.scale)
    with pytest.raises(ConfigError, match="nothing predicts these configurations: give hints, or a template="):
        work.result(100)


def test_hints_say_that_they_are_tied() -> None:
    ranking = carver.rank_kernel(
        compiled_kernels.copy, CONFIGS, args=ARGS, grid=lambda meta: (-(-N // meta["BLOCK"]),), arch=H100
    )
    best = ranking.seconds[0]
    alike = [bool(each <= best * 1.01) for each in ranking.seconds]
    assert sum(alike) == ranking.tied > 1
    assert [hint.tied for hint in ranking] == alike == [hint.tied for hint in [*ranking[:2], *ranking[2:]]]
    assert ranking[0].to_dict()["tied"] is True and "tied" not in ranking[-1].to_dict()
    assert f"a tie: {ranking.tied} of these are within 1% of the fastest" in str(ranking)
    assert f"a tie: 1 of these is within 1% of the fastest, and {ranking.tied - 1} that are not" in str(ranking[:1])
    alone = carver.rank_kernel(
        compiled_kernels.copy, CONFIGS[:1], args=ARGS, grid=lambda meta: (-(-N // meta["BLOCK"]),), arch=H100
    )
    assert alone.tied == 0 and not alone[0].tied and "a tie" not in str(alone)


RANK = """
import sys, torch, triton
import torch.distributed as dist
from carver.integrations.autotune import enable_triton
from tests import compiled_kernels
from tests.test_enable_triton import Array
rank, run = int(sys.argv[1]), compiled_kernels.copy.run
compiled_kernels.copy.run = lambda *a, warmup=False, **k: run(*a, warmup=True, **k) if warmup else None
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
with enable_triton(arch="h100", pinned=True) as log:
    for n, blocks in ((1 << 20, (128, 1024)[::1 - 2 * rank]), (1 << 19, (128, 512 << rank))):
        configs = [triton.Config({"BLOCK": block}, num_warps=4) for block in blocks]
        tuner = triton.autotune(configs, key=["n"])(compiled_kernels.copy)
        tuner[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](Array((n,)), Array((n,)), n)
        mine = torch.tensor([log.hash, -log.hash])
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        print(bool(mine[0] == -mine[1]))
"""


@pytest.mark.slow
def test_ranks_that_took_another_configuration_are_found(tmp_path: Path) -> None:
    """Two processes of torch.distributed, compared as the page on pins does it: one list in two orders, then two."""
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    command = [sys.executable, "-c", RANK]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meeting")], env=environment, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for rank in range(2)
    ]  # fmt: skip
    said = [process.communicate(timeout=120) for process in ranks]
    assert [out.split() for out, _ in said] == [["True", "False"]] * 2, said
