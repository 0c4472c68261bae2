"""The benchmark: order, budget, resumption, sampling of the grid; and real kernels on the CPU, checked and timed."""

from __future__ import annotations

import importlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from kernels import candidate, problem, upload

import carver
from carver.arch.detect import nvidia_names
from carver.base.child import Reply
from carver.base.errors import ConfigError, DeviceError, RunError, StoreError
from carver.base.given import as_json, typed
from carver.cli.main import main
from carver.kernels.declaration import kernels
from carver.kernels.enumeration import enumerate_space
from carver.ops.reduction import REDUCTIONS
from carver.problem.problem import Problem
from carver.ranking.hint import Hint
from carver.ranking.ranking import Ranking
from carver.run import bench
from carver.run import check as reference
from carver.run.bench import LIBRARY, Bench, Candidate, Runner, benchmark, candidates, measure, stratified
from carver.run.buffers import decode, encode
from carver.run.built import compile_hint
from carver.run.check import Differences
from carver.run.device import CpuDevice
from carver.run.records import Measurement, Records
from carver.run.render import concrete
from carver.run.worker import Settings, Worker


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


class Script:
    """In place of the worker process: answers each job from a table of times, and keeps what it was asked."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.asked: list[tuple[str, int]] = []
        self.colds: list[bool] = []
        self.samples: dict[int, list[float]] = {}
        self.replies: dict[tuple[str, int], Reply] = {}
        self.started, self.stopped, self.set_up = 1, False, None
        self.owners: set[str] = set()

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None: ...

    def start(self) -> None: ...

    def close(self) -> None: ...

    def call(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        if job["do"] == "describe":
            machine = {"kind": "cpu", "name": "scripted", "lease": "scripted", "arch": ARCH, "state": {"driver": "1"}}
            return Reply("ok", "", machine)
        if job["do"] == "setup":
            self.settings = job["settings"]
            return Reply("ok")
        nudge = int(job["trial"]["program"]["source"]["defines"]["NUDGE"])
        self.asked.append((job["do"], nudge))
        if (job["do"], nudge) in self.replies:
            return self.replies[job["do"], nudge]
        if job["do"] == "check":
            return Reply("ok", "", {"error": 0.1})
        self.colds.append(not self.settings["warm"])
        samples_ms = self.samples.get(nudge, [1.0] * 10)
        return Reply("ok", "", {"samples_ms": samples_ms, "outputs": None, "conditions": {"clock_hz": 1e9}})


HERE = CpuDevice().arch
ARCH = {name: getattr(HERE, name) for name in HERE.__dataclass_fields__} | {"matrix": []}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script()
    monkeypatch.setattr("carver.run.session.Child", lambda *_, **__: made)
    return made


def run(tmp_path: Path, count: int, fresh: bool = False, **settings: Any) -> list[Any]:
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(**settings)) as b:
        return measure(b, [candidate(tmp_path, "ok", i) for i in range(count)], fresh=fresh)


NOISY = [1.0, 1.5, 2.0, 2.5, 3.0, 1.0, 1.5, 2.0, 2.5, 3.0]


@pytest.mark.slow
def test_every_round_takes_all_in_another_order(script: Script, tmp_path: Path) -> None:
    script.samples = dict.fromkeys(range(6), NOISY)
    got = run(tmp_path, 6, rounds=4)
    sampled = [nudge for do, nudge in script.asked if do == "sample"]
    orders = [sampled[i : i + 6] for i in range(0, 24, 6)]
    assert all(sorted(order) == list(range(6)) for order in orders) and len({tuple(o) for o in orders}) > 1
    assert [do for do, _ in script.asked].count("check") == 6
    assert [len(m.rounds_ms) for m in got] == [4] * 6
    assert [m.config["nudge"] for m in got] == list(range(6)), "results stand in the order of the candidates"
    assert got[0].conditions == ({"clock_hz": 1e9},) * 4


def test_a_candidate_whose_median_is_known_drops_out(script: Script, tmp_path: Path) -> None:
    script.samples = {0: [1.0, 1.001] * 5, 1: NOISY, 2: [1.0] * 9}
    got = run(tmp_path, 3, rounds=3)
    # the third has an interval of width 0 from 9 samples, which is one too few
    assert [len(m.rounds_ms) for m in got] == [1, 3, 2]


@pytest.mark.parametrize("warm", [False, True])
def test_caches_are_cold_unless_asked_otherwise(script: Script, tmp_path: Path, warm: bool) -> None:
    run(tmp_path, 1, rounds=1, warm=warm)
    assert script.colds == [not warm]


def test_the_budget_ends_further_rounds_but_not_the_first(script: Script, tmp_path: Path) -> None:
    script.samples = dict.fromkeys(range(5), NOISY)
    got = run(tmp_path, 5, rounds=50, budget_s=1e-6)
    assert [len(m.rounds_ms) for m in got] == [1] * 5


def test_a_finished_run_is_reported_and_not_measured_again(script: Script, tmp_path: Path) -> None:
    first = run(tmp_path, 4, rounds=2)
    asked = len(script.asked)
    assert run(tmp_path, 4, rounds=2) == first
    assert len(script.asked) == asked
    again = run(tmp_path, 4, rounds=2, fresh=True)
    assert len(script.asked) == 2 * asked and not {m.uuid for m in first} & {m.uuid for m in again}
    run(tmp_path, 4, rounds=3)
    assert len(script.asked) == 3 * asked, "other settings are another run"


def test_a_disk_that_fills_costs_the_records_and_not_the_measurements(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="not recorded: the disk is full"):
        patch.setattr(Records, "put", full)
        assert [m.outcome for m in run(tmp_path, 2, rounds=1)] == ["ok", "ok"]
    assert [m.outcome for m in run(tmp_path, 2, rounds=1)] == ["ok", "ok"], "what is not recorded is measured again"


def test_more_time_goes_to_what_lacked_it(script: Script, tmp_path: Path) -> None:
    script.samples = dict.fromkeys(range(3), NOISY)
    script.replies = {("check", 2): Reply("timeout", "too slow")}
    first = run(tmp_path, 3, rounds=3, budget_s=1e-6, timeout_s=1.0)
    assert [len(m.rounds_ms) for m in first] == [1, 1, 0] and first[2].outcome == "timeout"
    script.replies = {}
    asked = len(script.asked)
    assert run(tmp_path, 3, rounds=3, budget_s=1e-6, timeout_s=0.5) == first and len(script.asked) == asked
    longer = run(tmp_path, 3, rounds=3, budget_s=1e-6, timeout_s=2.0)
    assert [len(m.rounds_ms) for m in longer] == [1, 1, 1] and longer[:2] == first[:2]
    whole = run(tmp_path, 3, rounds=3, budget_s=60.0, timeout_s=2.0)
    assert [len(m.rounds_ms) for m in whole] == [3, 3, 3] and whole[0].rounds_ms[0] == first[0].rounds_ms[0]
    with Records(tmp_path / "r.sqlite") as db:
        assert len(db.find()) == 3 and len(db.runs()) == 1


def test_what_is_reported_again_has_the_predictions_of_its_hint(
    script: Script, tmp_path: Path, grid: Ranking
) -> None:
    def report(predicted_ms: float, rank: int) -> Any:
        hint = replace(grid[0], subject=problem(), predicted_ms=predicted_ms, rank=rank)
        with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1)) as b:
            (m,) = measure(b, [replace(candidate(tmp_path, "ok"), hint=hint)])
        return m

    first, again = report(1.0, 0), report(2.0, 7)
    assert first.rounds_ms == again.rounds_ms and len(script.asked) == 2, "measured once"
    assert (again.predicted_ms, again.rank, again.hint["predicted_ms"]) == (2.0, 7, 2.0)


def test_an_interrupt_leaves_what_is_not_yet_compiled(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def interrupted(source: Any, *_: Any) -> None:
        begun.append(source)
        time.sleep(0.01)  # as a compiler would, or the pool is through before anybody hears of the first
        raise KeyboardInterrupt

    monkeypatch.setattr("carver.run.session.compile_source", interrupted)
    monkeypatch.setattr(bench, "cores_available", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 500)
    assert len(begun) < 500


def test_a_time_that_is_none_costs_only_its_candidate(script: Script, tmp_path: Path) -> None:
    script.samples = {0: [float("nan")] * 10}
    got = run(tmp_path, 2, rounds=1)
    assert [m.outcome for m in got] == ["crash", "ok"]
    assert run(tmp_path, 2, rounds=1) == got


@pytest.mark.parametrize(
    "settings", [{"reset_to_zero": ("Z",)}, {"restore_value": ("workspace",)}, {"restore_value": ("bias",)}]
)
def test_names_that_are_no_tensor_are_refused(script: Script, tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"known: |did you mean"):
        run(tmp_path, 1, **settings)


@pytest.mark.slow
def test_a_library_without_the_entry_is_one_candidates_crash(tmp_path: Path) -> None:
    good, bad = candidate(tmp_path, "ok"), candidate(tmp_path, "slower")
    assert bad.program is not None
    call = replace(bad.program.calls[0], entry="missing")
    bad = replace(bad, program=replace(bad.program, calls=(call,)))
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True)) as b:
        got = measure(b, [bad, good])
    assert [m.outcome for m in got] == ["crash", "ok"] and "no function 'missing'" in got[0].message


def test_memory_is_limited_for_whatever_device_is_found(tmp_path: Path) -> None:
    if nvidia_names():
        pytest.skip("auto is the GPU")
    with Records(tmp_path / "r.sqlite") as db, Bench("auto", db, Settings(rounds=1, warm=True)) as b:
        (m,) = measure(b, [candidate(tmp_path, "ok", workspace_bytes=1 << 40)])
    assert m.outcome == "out_of_memory"


@pytest.mark.parametrize("after", range(1, 18))
def test_a_run_that_breaks_off_anywhere_is_resumed_and_repeats_nothing(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """3 candidates, 3 rounds, 3 checks: 12 jobs, broken off after each; KeyboardInterrupt stands for any end."""
    script.samples = dict.fromkeys(range(3), NOISY)
    answer = Script.call

    def call(self: Script, job: Mapping[str, Any], timeout_s: float) -> Reply:
        if len(self.asked) == after:
            raise KeyboardInterrupt
        return answer(self, job, timeout_s)

    monkeypatch.setattr(Script, "call", call)
    broken = False
    try:
        run(tmp_path, 3, rounds=3)
    except KeyboardInterrupt:
        broken = True
    assert broken == (after < 12)
    monkeypatch.setattr(Script, "call", answer)
    with Records(tmp_path / "r.sqlite") as db:
        before = {m.uuid: m.rounds_ms for m in db.find()}
    got = run(tmp_path, 3, rounds=3)
    assert [len(m.rounds_ms) for m in got] == [3, 3, 3]
    kept = {m.uuid: m.rounds_ms for m in got}
    assert all(kept[uuid][: len(rounds)] == rounds for uuid, rounds in before.items())
    samples = Counter(nudge for do, nudge in script.asked if do == "sample")
    assert samples == dict.fromkeys(range(3), 3), "nothing finished is measured twice"


def test_failures_of_later_rounds_are_kept_with_the_samples(script: Script, tmp_path: Path) -> None:
    script.replies = {
        ("sample", 1): Reply("crash", "SIGBUS"),
        ("check", 0): Reply("wrong_result", "off", {"error": 7.0}),
    }
    got = run(tmp_path, 3, rounds=2)
    assert [m.outcome for m in got] == ["wrong_result", "crash", "ok"]
    assert (got[0].error, got[1].message) == (7.0, "in round 1: SIGBUS")
    assert ("sample", 0) not in script.asked, "what computes nonsense is not timed"


def test_what_a_round_makes_of_a_candidate(tmp_path: Path) -> None:
    """Recorded: rounds and failures, with the rounds before. Told alone: what a compiler could not do, and what was
    timed while the baseline took 1.6 times its least; 1.5 is still quiet."""
    p = problem()
    told = {"outcome": "ok", "message": "", "samples_ms": [2.0, 2.1, 2.2], "conditions": {"clock_hz": 1e9}}
    with Records(tmp_path / "r.sqlite") as db:
        run = db.begin("key", "cpu", {})
        runner = Runner(db)

        def new(key: str) -> Measurement:
            return Measurement(run.run_id, key, "ok", p.operator, p.to_dict(), "k", "cpu", {}, "cpu", "cpu", "here")

        first = runner.take(new("a"), {**told, "error": 0.5, "spent_s": {"check": 1.0, "measure": 2.0}})
        second = runner.take(first, {**told, "samples_ms": [4.0]})
        failed = runner.take(second, {"outcome": "crash", "message": "SIGBUS", "numbered": True})
        runner.take(new("lost"), {"outcome": "compile_error", "message": "no room", "transient": True})
        runner.take(new("busy"), {**told, "busy": 1.6, "retaken": 3, "worst": 2.5})
        runner.take(new("quiet"), {**told, "busy": 1.5})
        rows = {m.candidate: m for m in db.find()}
        assert db.runs()[0].spent_s == 3.0
    assert rows.keys() == {"a", "quiet"} and rows["a"] == failed
    assert (failed.outcome, failed.message, failed.error) == ("crash", "in round 3: SIGBUS", 0.5)
    assert failed.rounds_ms == ((2.0, 2.1, 2.2), (4.0,)) and failed.conditions == ({"clock_hz": 1e9},) * 2
    assert (runner.lost, runner.busy, runner.retaken, runner.worst) == ({"lost"}, {"busy"}, 3, 2.5)
    assert runner.known.keys() == {"a", "lost", "busy", "quiet"}


def test_killed_worker_is_tried_once_more(script: Script, tmp_path: Path) -> None:
    script.replies = {("check", 0): Reply("crash", "SIGKILL came", transient=True)}
    (m,) = run(tmp_path, 1, rounds=1)
    assert script.asked == [("check", 0)] * 2 and m.outcome == "crash" and m.message.count("SIGKILL came") == 2


def test_a_problem_that_cannot_be_set_up_is_an_error(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Script.call
    monkeypatch.setattr(
        Script, "call", lambda s, j, t: Reply("out_of_memory", "full") if j["do"] == "setup" else answer(s, j, t)
    )
    with pytest.raises(RunError, match=r"elementwise rows=1 cols=1000 .* set up on scripted: out_of_memory: full"):
        run(tmp_path, 1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"rounds": 0}, "rounds"), ({"budget_s": 0}, "budget_s"), ({"timeout_s": -1.0}, "timeout_s")],
)
def test_settings_are_checked(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Settings(**settings)


def test_key_of_a_candidate_covers_source_config_and_compiler(tmp_path: Path) -> None:
    one = candidate(tmp_path, "ok")
    key = one.key("cc 12")
    assert candidate(tmp_path, "ok").key("cc 12") == key
    assert candidate(tmp_path, "ok", 1).key("cc 12") != key
    assert candidate(tmp_path, "ok", n=999).key("cc 12") != key
    assert one.key("cc 13") != key
    (tmp_path / "ok.c").write_text((tmp_path / "ok.c").read_text() + "\n")
    assert one.key("cc 12") != key


def test_program_and_arch_survive_the_way_to_the_worker(tmp_path: Path) -> None:
    program = candidate(tmp_path, "ok").program
    assert program is not None
    assert typed(type(program), json.loads(json.dumps(as_json(program)))) == program
    for arch in (carver.CUDA("h200"), CpuDevice().arch):
        assert typed(type(arch), json.loads(json.dumps(as_json(arch)))) == arch


@pytest.fixture(scope="module")
def grid() -> Ranking:
    return carver.MatmulTemplate(M=512, N=512, K=512).with_arch(carver.CUDA("h200")).recommend_hints(topk=400)


def test_stratified_sample_spreads_over_time_and_tiles(grid: Ranking) -> None:
    every = list(grid)
    chosen = stratified(every, 64)
    places = sorted(h.rank - 1 for h in chosen)
    assert len(set(places)) == 64
    assert [sum(50 * i <= p < 50 * (i + 1) for p in places) for i in range(8)] == [8] * 8, "8 of each octile"
    tiles = lambda hints: {(h.kernel, h.block) for h in hints}  # noqa: E731
    at_random = np.mean([len(tiles(random.Random(seed).sample(every, 64))) for seed in range(50)])
    assert len(tiles(chosen)) > at_random
    assert stratified(every, 64) == chosen and stratified(every, 64, seed=1) != chosen
    assert stratified(every[:10], 64) == every[:10]
    with pytest.raises(ConfigError, match="at least 1"):
        stratified(every, 0)


def test_hints_that_repeat_are_one_candidate(grid: Ranking) -> None:
    assert len(candidates([grid[0], grid[1], grid[0]], carver.CUDA("h200"))) == 2


def test_hints_for_another_device_are_refused(grid: Ranking, tmp_path: Path, script: Script) -> None:
    with Records(tmp_path / "r.sqlite") as db:
        with pytest.raises(DeviceError, match="backend 'cuda' cannot run on scripted"):
            benchmark(grid[:2], "cpu", records=db, progress=False)
        with pytest.raises(ConfigError, match="no hints"):
            benchmark([], "cpu", records=db)
        fused = carver.FlashAttentionTemplate(heads=2, seq=64).with_arch("h200").recommend_hints(1)
        for device in ("cpu", "cuda"):  # said before a device is opened, which could not help
            with pytest.raises(DeviceError, match=r"of the backend 'triton' .* no source of; carver\.autotune times"):
                benchmark(list(fused), device, records=db, progress=False)
        other = replace(grid[0], subject=problem())
        with pytest.raises(ConfigError, match="one benchmark measures one problem"):
            benchmark([grid[0], other], "cpu", records=db)


def cpu_hints(grid: Ranking, template: carver.ranking.ranking.Ranking | Any, count: int) -> list[Hint]:
    """Hints for the first CPU kernel of a problem, without a prediction worth the name."""
    device = CpuDevice().arch
    kernel = kernels(template.problem.operator, "cpu")[0]
    space = enumerate_space(template.problem, device, kernel)
    rows = [i * (len(space) - 1) // max(count - 1, 1) for i in range(count)]
    return [
        replace(
            grid[0], rank=i, index=row, backend="cpu", kernel=kernel.name, arch=device, subject=template.problem,
            config=space.config(row), predicted_ms=1.0 + i,
        )
        for i, row in enumerate(rows)
    ]  # fmt: skip


OPERATORS = [
    carver.MatmulTemplate(M=65, N=70, K=90, in_dtype="float32", trans_A=True),
    carver.MatmulTemplate(
        M=33, N=70, K=90, batch=2, in_dtype="bfloat16", trans_B=True, with_bias=True, activation="gelu"
    ),
    carver.MatmulTemplate(M=33, N=70, K=90, in_dtype="int8"),
    carver.GEMVTemplate(N=100, K=77, in_dtype="float16"),
    carver.ElementwiseTemplate((30, 101), dtype="float32", inputs=2, broadcast=1),
    carver.OpTemplate("Z[i,j] = C[j] * A[i,j] + B[i,j]", in_dtype="float32", i=30, j=101),
    *(carver.ReductionTemplate(op, (30, 101), axis=i % 2) for i, op in enumerate(REDUCTIONS)),
    *(carver.ReductionTemplate(op, (30, 101), axis=axis) for op, axis in (("sum", 1), ("softmax", 0))),
]


@pytest.mark.slow
def test_every_cpu_operator_is_checked_and_timed(grid: Ranking, tmp_path: Path) -> None:
    """One worker for all; two configurations of each operator, the first and the last of its space."""
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, budget_s=0.1, warm=True)) as b:
        for op in OPERATORS:
            got = measure(b, candidates(cpu_hints(grid, op, 2), b.machine.arch))
            assert [m.outcome for m in got] == ["ok", "ok"], (op.problem, [m.message for m in got])
            assert all(m.error is not None and m.error <= 1 and m.samples_ms for m in got)
        assert b.session.worker.started == 1


@pytest.mark.slow
def test_benchmark_of_hints_against_grid_and_library(grid: Ranking, tmp_path: Path) -> None:
    op = carver.MatmulTemplate(M=64, N=64, K=64, in_dtype="float32")
    hints = cpu_hints(grid, op, 12)
    with Records(tmp_path / "r.sqlite") as db:
        report = benchmark(
            hints[:2], "cpu", budget_s=0.5, rounds=2, warm=True, library=True, grid=hints, grid_budget=4,
            progress=False, records=db,
        )  # fmt: skip
        stored = db.find()
    assert 4 <= len(report.ok) <= 6 and report.grid_size == 12
    assert report.library is not None and report.library.kernel == "numpy" and report.library_ratio
    assert {m.kernel for m in stored} == {"cpu", "numpy"} and len(stored) == len(report.measurements) + 1
    assert report.best.hint in hints
    a, b = (np.random.default_rng(i).random((1, 64, 64), np.float32) for i in range(2))
    np.testing.assert_allclose(report.best.kernel(a, b), a @ b, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "outcome"),
    [({}, "wrong_result"), ({"reset_to_zero": ("Y",)}, "ok"), ({"restore_value": ("Y",)}, "ok")],
)
def test_kernels_that_add_to_their_output(settings: dict[str, Any], outcome: str, tmp_path: Path) -> None:
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True, **settings)) as b:
        (m,) = measure(b, [candidate(tmp_path, "accumulate")])
    assert m.outcome == outcome, m.message


@pytest.mark.slow
def test_a_candidate_that_writes_to_the_inputs_harms_no_other(tmp_path: Path) -> None:
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True)) as b:
        got = measure(b, [candidate(tmp_path, name) for name in ("ok", "scribble", "slower", "wrong_result")])
    assert [m.outcome for m in got] == ["ok", "wrong_result", "ok", "wrong_result"]
    assert "it writes over X0" in got[1].message


def test_unchecked_candidates_are_timed_whatever_they_compute(tmp_path: Path) -> None:
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True, check=False)) as b:
        (m,) = measure(b, [candidate(tmp_path, "wrong_result")])
    assert m.ok and m.error is None and m.median_ms


@pytest.mark.slow
def test_slower_is_measured_slower(tmp_path: Path) -> None:
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=2, budget_s=1, warm=True)) as b:
        fast, slow = measure(b, [candidate(tmp_path, name, n=200_000) for name in ("ok", "slower")])
    assert fast.median_ms and slow.median_ms and slow.median_ms > 2 * fast.median_ms


def test_library_says_what_it_cannot_do(tmp_path: Path) -> None:
    p = carver.MatmulTemplate(M=16, N=16, K=16, in_dtype="float16").problem
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True)) as b:
        (m,) = measure(b, [Candidate(p, LIBRARY, LIBRARY, {}, None)])
    assert m.outcome == "does_not_fit" and "float16" in m.message


@pytest.mark.parametrize(
    "op",
    [
        carver.MatmulTemplate(M=5, N=6, K=7, batch=2, in_dtype="float32", trans_A=True, trans_B=True),
        carver.GEMVTemplate(N=5, K=7, in_dtype="float64", trans_A=True),
        carver.ElementwiseTemplate((5, 6), dtype="float32"),
        carver.ElementwiseTemplate((5, 6), dtype="float32", inputs=2, broadcast=1),
        carver.OpTemplate("Z[i,j] = C[j] * A[i,j] * B[i,j]", in_dtype="float32", i=5, j=6),
        carver.OpTemplate("Z[i,j] = A[i,j] + C[j] * B[i,j] + D[j]", in_dtype="float32", i=5, j=6),
        *(carver.ReductionTemplate(o, (5, 7), axis=a, in_dtype="float32") for o in REDUCTIONS[:3] for a in (0, 1)),
    ],
    ids=lambda op: str(op.problem),
)
def test_library_computes_the_same(op: Any) -> None:
    from carver.run.check import library_call

    device, p = CpuDevice(), op.problem
    inputs = {name: upload(device, x, p.dtypes[name]) for name, x in reference.draw(p, 0).items()}
    value, magnitude = reference.expected(p, {name: b.owner.astype(float) for name, b in inputs.items()})
    output = device.empty(p.stored(p.statement.output).shape(p.sizes), p.dtypes[p.statement.output.name])
    device.fill(output, 0xFF)
    name, call = library_call(p, "cpu", inputs, output)
    call()
    assert name == "numpy"
    assert Differences(output.owner.astype(float), value, reference.tolerance(p, value, magnitude)).error <= 1


@pytest.mark.slow
def test_an_expression_of_the_users_has_no_reference(grid: Ranking, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="check=False"):
        benchmark(grid[:1], "cpu", defines={"EXPRESSION": "x0 * 2"})
    hints = cpu_hints(grid, carver.ElementwiseTemplate((3, 4), dtype="float32"), 1)
    with Records(tmp_path / "r.sqlite") as db:
        report = benchmark(
            hints, rounds=1, warm=True, check=False, progress=False, records=db, defines={"EXPRESSION": "x0 * 2"}
        )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(report.best.kernel(x), 2 * x)


@pytest.mark.slow
@pytest.mark.parametrize(
    "operator",
    [
        "matmul 33 44 55 --trans-b",
        pytest.param("reduction softmax 30 101 --axis 0", marks=pytest.mark.exhaustive),
        pytest.param("op C[m,n]+=A[m,k]*B[k,n] m=16 n=17 k=18", marks=pytest.mark.exhaustive),
    ],
)
def test_bench_of_cpu_operators_on_the_command_line(operator: str, tmp_path: Path) -> None:
    """What `--arch cpu` recommends runs here: the whole way, from the descriptor of this machine to the report.

    The slow tier checks and times every operator.
    """
    options = "--dtype float32 --arch cpu --topk 2 --rounds 1 --warm --vs-grid --budget 1 --json"
    done = CliRunner().invoke(main, ["bench", *operator.split(), *options.split(), "--html", str(tmp_path / "r.html")])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["outcomes"] == {"ok": len(found["candidates"])} and 2 <= len(found["candidates"]) <= 3
    assert found["feasible"] >= 2 and found["best"]["ms"] > 0 and (tmp_path / "r.html").is_file()


def test_a_bench_that_learns_starts_from_what_the_one_before_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With times that are made up: the first choice is slow, the second was disturbed."""
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    asked: list[list[Hint]] = []

    def pretended(hints: list[Hint], *_: Any, **__: Any) -> Any:
        asked.append(hints)
        rows = [SimpleNamespace(kernel=h.kernel, config=h.config, ok=True, conditions=(), median_ms=1.0) for h in hints]
        rows[0].median_ms, rows[1].conditions = 9.0, ({"disturbed_percent": 80},)
        return SimpleNamespace(measurements=rows, ok=True, to_dict=dict, document=dict, plot=None)

    monkeypatch.setattr("carver.run.bench.benchmark", pretended)
    options = ["--dtype", "float32", "--arch", "cpu_avx2", "--device", "cpu", "--topk", "3", "--json", "--learn"]
    command = ["bench", "matmul", "65", "44", "55", *options]
    assert [CliRunner().invoke(main, command).exit_code for _ in range(2)] == [0, 0]
    [listed] = json.loads(CliRunner().invoke(main, ["profile", "list", "--json"]).stdout)
    assert listed["name"].startswith("bench.matmul.")
    before, after = ([h.config for h in hints] for hints in asked)
    assert before[0] not in after
    shown = json.loads(CliRunner().invoke(main, ["profile", "show", listed["name"], "--json"]).stdout)
    assert [row["ms"] for row in shown["measured"][:2]] == [9.0, 1.0]
    assert before[1] not in [row["config"] for row in shown["measured"][:2]]


@pytest.mark.slow
def test_a_bench_of_which_nothing_ran_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carver.run.session.Session.check", lambda *_: Reply("timeout", "still running check"))
    command = "bench elementwise 3 4 --arch cpu --topk 1 --no-check --fresh"
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 1 and "failed: 1 timeout (still running check" in done.stdout


@pytest.fixture
def worker() -> Worker:
    made = Worker("cpu")
    settings = Settings(warm=True, check=False, warmup=3, rep=10, timeout_s=30.0)
    made.setup(settings=as_json(settings), problem=problem(8).to_dict())
    return made


def test_a_candidate_warms_up_before_its_first_round_only(worker: Worker) -> None:
    runs = []
    for expected in (3 + 3, 3):
        samples = worker._timed("key", lambda: runs.append(1), None, 0.0)["samples_ms"]
        assert 1 <= len(samples) <= 3 and expected <= len(runs) <= expected + 1  # one more if it lost a core
        runs.clear()


def test_times_that_lost_a_core_are_told_of_the_candidate_that_they_are_of(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round says it, the last one too. A first run that lost a core is no sample."""
    def sample(taken: list[int]) -> Mapping[str, Any]:
        counts = iter([0, 0, *taken])  # before the first run caches are emptied once
        monkeypatch.setattr("carver.run.device.cores_taken", lambda: next(counts))
        return worker._timed("key", lambda: None, None, 0.0)

    worker._warm.add("key")
    calm, first, every = (sample(taken) for taken in ([0] * 6, [0, 1] + [1] * 6, [0, 1, 1, 2, 2, 3, 3, 4]))
    assert [len(s["samples_ms"]) for s in (calm, first, every)] == [3, 3, 3]
    assert [s["conditions"]["disturbed_percent"] for s in (calm, first, every)] == [0, 0, 100]
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True)) as b:
        (m,) = measure(b, [candidate(tmp_path, "ok")])
    assert "disturbed_percent" in m.conditions[0] and m.conditions[0]["threads"]


def test_a_config_that_the_kernel_lacks_does_not_fit(grid: Ranking, tmp_path: Path) -> None:
    (hint,) = cpu_hints(grid, OPERATORS[0], 1)
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True)) as b:
        (m,) = measure(b, candidates([replace(hint, config={"mc": 24})], b.machine.arch))
    assert m.outcome == "does_not_fit" and "kc" in m.message


# The reference itself, against answers worked out by hand.


def whole(computes: str, sizes: dict[str, int], operator: str = "matmul", **options: int) -> Problem:
    from carver.problem import notation

    names = [t.name for t in notation.parse(computes).tensors]
    return Problem(operator, computes, sizes, dict.fromkeys(names, "float32"), options=options)


@pytest.mark.parametrize(
    ("p", "inputs", "value", "magnitude"),
    [
        (whole("C[b,m,n] += A[b,k,m] * B[b,n,k]", {"b": 1, "m": 2, "n": 1, "k": 2}),
         {"A": [[[1, 2], [3, -4]]], "B": [[[5, 6]]]}, [[[23], [-14]]], [[[23], [34]]]),
        (whole("C[b,m,n] += A[b,m,k] * B[b,k,n]", {"b": 1, "m": 1, "n": 2, "k": 1}, bias=1, activation=1),
         {"A": [[[2]]], "B": [[[1, -3]]], "bias": [1, 4]}, [[[3, 0]]], [[[3, 10]]]),
        (whole("O[p] += I[2*p+r] * W[r]", {"p": 2, "r": 3}),
         {"I": [1, 2, 3, 4, 5], "W": [1, 10, 100]}, [321, 543], [321, 543]),
        (whole("Y[b,n] += X[b,k] * A[b,n,k]", {"b": 2, "n": 1, "k": 2}, "gemv"),
         {"X": [[1, 2], [3, 4]], "A": [[[5, 6]], [[7, 8]]]}, [[17], [53]], [[17], [53]]),
        (whole("Y[r] max= X[r,c]", {"r": 2, "c": 2}, "reduction", reduce_op=1, axis=1),
         {"X": [[1, -7], [-2, -3]]}, [1, -2], [1, 2]),
        (whole("Y[c] += X[r,c]", {"r": 2, "c": 2}, "reduction", reduce_op=2, axis=0),
         {"X": [[1, 2], [3, -4]]}, [2, -1], [2, 3]),
        (whole("Y[r] += X[r,c]", {"r": 1, "c": 2}, "reduction", reduce_op=3, keeps_shape=1, axis=1),
         {"X": [[0, np.log(3)]]}, [[0.25, 0.75]], [[0.25, 0.75]]),
        (whole("Y[r] += X[r,c]", {"r": 1, "c": 2}, "reduction", reduce_op=5, keeps_shape=1, axis=1),
         {"X": [[3, -4]]}, [[3 / 12.50001**0.5, -4 / 12.50001**0.5]], [[3 / 12.50001**0.5, 4 / 12.50001**0.5]]),
        (whole("Y[c] += X[r,c]", {"r": 2, "c": 1}, "reduction", reduce_op=4, keeps_shape=1, axis=0),
         {"X": [[1], [5]]}, [[-2 / 4.00001**0.5], [2 / 4.00001**0.5]], [[4 / 4.00001**0.5], [8 / 4.00001**0.5]]),
        (whole("Y[r,c] = X0[r,c] + X1[c]", {"r": 2, "c": 2}, "elementwise"),
         {"X0": [[1, 2], [3, 4]], "X1": [10, -20]}, [[11, -18], [13, -16]], [[11, 22], [13, 24]]),
        (whole("Y[r,c] = X0[r,c] * X1[c] + X2[r]", {"r": 2, "c": 2}, "elementwise"),
         {"X0": [[1, 2], [3, 4]], "X1": [10, -20], "X2": [-5, 7]}, [[5, -45], [37, -73]], [[15, 45], [37, 87]]),
    ],
)  # fmt: skip
def test_reference(p: Problem, inputs: dict[str, Any], value: Any, magnitude: Any) -> None:
    arrays = {name: np.array(x, np.float64) for name, x in inputs.items()}
    got, scale = reference.expected(p, arrays)
    np.testing.assert_allclose(got, value, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(scale, magnitude, rtol=1e-15)
    assert np.shape(got) == p.stored(p.statement.output).shape(p.sizes)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "tf32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2", "int8"]
)
def test_inputs_are_exact_random_and_not_zero(dtype: str) -> None:
    template = carver.MatmulTemplate(M=64, N=16, K=64, in_dtype=dtype)
    first, again, other = (reference.draw(template.problem, seed)["A"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5 and (first != 0).all() and 0.4 < (first > 0).mean() < 0.6
    np.testing.assert_array_equal(decode(encode(first, dtype), dtype), first)
    if dtype == "tf32":
        assert not (first.astype(np.float32).view(np.uint32) & 0x1FFF).any()


@pytest.mark.parametrize("k", [16, 256, 4096])
@pytest.mark.parametrize(("dtype", "out"), [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")])
def test_tolerance_holds_for_right_kernels_and_catches_a_lost_product(k: int, dtype: str, out: str) -> None:
    """Summing in order, pairwise, or truncated in float32 passes; leaving out one product of each sum does not."""
    p = carver.MatmulTemplate(M=24, N=24, K=k, in_dtype=dtype, out_dtype=out).problem
    x = {name: a.astype(np.float64) for name, a in reference.draw(p, 3).items()}
    value, magnitude = reference.expected(p, x)
    allowed = reference.tolerance(p, value, magnitude)
    a, b = (x[name][0].astype(np.float32) for name in "AB")
    in_order = np.zeros((24, 24), np.float32)
    truncated = np.zeros((24, 24), np.float32)
    for i in range(k):
        in_order += np.outer(a[:, i], b[i])
        exact = truncated.astype(np.float64) + np.outer(a[:, i], b[i]).astype(np.float64)
        near = exact.astype(np.float32)
        truncated = np.where(abs(near.astype(np.float64)) > abs(exact), np.nextafter(near, np.float32(0)), near)
    for right in (in_order, a @ b, truncated):
        rounded = right.astype(out) if out != "bfloat16" else right
        assert Differences(rounded[None].astype(np.float64), value, allowed).error <= 1
    lost = value - (x["A"][..., -1:] * x["B"][..., -1:, :])
    seen = Differences(lost, value, allowed)
    assert seen.error > 1 and str(seen).startswith("wrong at")


def sums(p: Problem, x: Mapping[str, np.ndarray]) -> np.ndarray:
    """The terms of each output of a matmul or a sum along rows. [outputs, terms]"""
    a = x[p.statement.inputs[0].name].astype(np.float64)
    if len(p.statement.inputs) == 1:
        return a
    return (a[0][:, None, :] * x["B"][0].T[None].astype(np.float64)).reshape(-1, a.shape[-1])


def passes(p: Problem, kernel: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether the check takes a kernel, a function from terms to sums, for right."""
    out = p.dtypes[p.statement.output.name]
    for x, exact in ((reference.draw(p, 0), False), (reference.draw_exact(p, 0), True)):
        assert x is not None
        value, magnitude = reference.expected(p, {name: v.astype(np.float64) for name, v in x.items()})
        value = reference.representable(p, value)
        allowed = reference.tolerance_exact(p, value) if exact else reference.tolerance(p, value, magnitude)
        got = decode(encode(kernel(sums(p, x)).reshape(value.shape), out), out).astype(np.float64)
        if Differences(got, value, allowed).wrong:
            return False
    return True


def truncating(terms: np.ndarray) -> np.ndarray:
    """Adds 32 products at a time and cuts the sum to 14 bits, as Hopper does with 8-bit floats."""
    total = np.zeros(terms.shape[0])
    for at in range(0, terms.shape[1], 32):
        mantissa, exponent = np.frexp(total + terms[:, at : at + 32].sum(1))
        total = np.ldexp(np.trunc(mantissa * 2**14) / 2**14, exponent)
    return total


SUMS = [
    *((carver.MatmulTemplate(3, 3, k, in_dtype=a, out_dtype=o, accum_dtype=acc).problem,
       max(64, k // 64) if o == "float8_e4m3" else 64)  # of which one digit in sixteen is left
      for k in (1, 2, 7, 64, 4096, 65536)
      for a, o, acc in (("float16", "float16", "float16"), ("float16", "float16", "float32"),
                        ("bfloat16", "bfloat16", "float32"), ("float32", "float32", "float32"),
                        ("float64", "float64", "float64"), ("float8_e4m3", "float8_e4m3", "float32"),
                        ("float8_e5m2", "float16", "float32"))),
    *((carver.ReductionTemplate("sum", (1, k), 1, dtype).problem, 4096)
      for k in (1 << 10, 1 << 20) for dtype in ("float16", "bfloat16", "float32")),
    pytest.param(carver.ReductionTemplate("sum", (1, 1 << 24), 1, "float32").problem, 4096,
                 marks=pytest.mark.exhaustive),
]  # fmt: skip


@pytest.mark.parametrize(("p", "tile"), SUMS, ids=str)
def test_any_order_of_a_sum_passes_and_a_lost_tile_does_not(p: Problem, tile: int) -> None:
    k, accumulate = p.sizes[p.statement.reduced[0]], np.dtype(p.accumulate)
    tile = min(tile, k)

    def in_order(terms: np.ndarray) -> np.ndarray:
        return np.cumsum(terms, 1, accumulate)[:, -1]

    def in_parts(terms: np.ndarray) -> np.ndarray:
        return sum((in_order(terms[:, i::5]) for i in range(min(5, k))), np.zeros(1, accumulate))

    def lost(at: int) -> Callable[[np.ndarray], np.ndarray]:
        return lambda terms: terms[:, :at].sum(1) + terms[:, at + tile :].sum(1)

    assert passes(p, in_order)
    if k <= 1 << 20:
        assert passes(p, in_parts)
        assert passes(p, lambda terms: in_order(terms[:, ::-1]))
    if p.dtypes[p.statement.inputs[0].name].startswith("float8"):
        assert passes(p, truncating)
    assert not passes(p, lambda terms: np.zeros(terms.shape[0]))
    for at in {0, (k - tile) // tile // 2 * tile, k - tile}:
        assert not passes(p, lost(at)), f"{tile} terms from {at}"


def test_sums_of_any_statement_can_be_exact() -> None:
    """Windows that overlap, axes of several tensors, a bias: integers, and some of every sum."""
    for p in (
        whole("O[p] += I[2*p+r] * W[r]", {"p": 40, "r": 9}, "conv2d"),
        whole("C[b,m,n] += A[b,m,k] * B[b,k,n]", {"b": 2, "m": 3, "n": 5, "k": 17}, bias=1, activation=3),
    ):
        x = reference.draw_exact(p, 0)
        assert x is not None and x.keys() == reference.draw(p, 0).keys()
        assert all(v.shape == reference.draw(p, 0)[name].shape and (v == np.rint(v)).all() for name, v in x.items())
        value, magnitude = reference.expected(p, {name: v.astype(np.float64) for name, v in x.items()})
        assert (magnitude > 0).all() and value.any()
    assert reference.draw_exact(carver.ReductionTemplate("max", (4, 4)).problem, 0) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_wrong(bad: float) -> None:
    value = np.ones((2, 2))
    got = value.copy()
    got[1, 0] = bad
    seen = Differences(got, value, value)
    assert seen.error == np.inf and "not finite at 1 of 4 elements (25 %), first at [1, 0]" in str(seen)


def test_fp8_and_int8_outputs_saturate() -> None:
    p = carver.MatmulTemplate(M=2, N=2, K=2, in_dtype="float8_e4m3", out_dtype="float8_e4m3").problem
    np.testing.assert_array_equal(reference.representable(p, np.array([-500.0, 3.0, 449.0])), [-448, 3, 448])


def test_concrete_programs_name_all_tensors() -> None:
    template = OPERATORS[1]
    arch = CpuDevice().arch
    kernel = kernels("matmul", "cpu")[0]
    config = enumerate_space(template.problem, arch, kernel).config(0)
    program = concrete(kernel, template.problem, config, arch)
    assert {t.name for t in program.tensors} == {"A", "B", "bias", "C"}
    problem = template.problem
    assert program.output.shape == problem.stored(problem.statement.output).shape(problem.sizes)


@pytest.mark.slow
def test_confirm_measures_what_the_rules_leave_out_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """benchmarks/confirm.py: configurations that are no hints count for the best of all, and not as picks."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    confirm = importlib.import_module("confirm")
    op = carver.ElementwiseTemplate((64, 64), dtype="float32")
    space = list(op.with_arch(carver.CPU("auto")).recommend_hints(1000))
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True, budget_s=0.1)) as b:
        case, report = confirm.confirm(b, "elementwise", op, len(space) + 2, "cpu")
    assert (len(case["rows"]), len(case["avoided"]), case["grid"]) == (len(space), 2, len(space))
    assert case["runnable"] > case["grid"] and len(report.ok) == len(space) + 2
    assert {m.rank for m in report.measurements[: len(space)]} == {h.rank for h in space}, "the avoided come last"
    assert case["library_ms"] and f"of {len(space):5d}" in capsys.readouterr().out


@pytest.mark.slow
def test_what_a_candidate_leaves_behind_is_no_fault_of_the_next(tmp_path: Path) -> None:
    names = ("ok", "alarm", "slow", "greedy limit", "slower")
    with Records(tmp_path / "r.sqlite") as db, Bench("cpu", db, Settings(rounds=1, warm=True)) as b:
        got = {m.kernel: m for m in measure(b, [candidate(tmp_path, name) for name in names])}
    told = [(m.kernel, m.outcome, m.message) for m in got.values()]
    assert {got[name].outcome for name in ("ok", "slow", "slower")} == {"ok"}, told


@pytest.mark.slow
def test_what_the_compiler_lacked_is_done_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command again compiles and measures what it could not before, and only that."""
    compiler = tmp_path / "cc"
    compiler.write_text(
        f"#!/bin/sh\ncase \"$*\" in *-o*) if test -e {tmp_path}/full; then\n"
        "echo 'ok.c:1: fatal error: error writing to /tmp/x.s: No space left on device' >&2; exit 1; fi;; esac\n"
        'exec gcc "$@"\n'
    )
    compiler.chmod(0o700)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "full").touch()
    first = run(tmp_path, 2, rounds=1, warm=True)
    assert [m.outcome for m in first] == ["crash", "crash"] and "No space left" in first[0].message
    (tmp_path / "full").unlink()
    assert [m.outcome for m in run(tmp_path, 2, rounds=1, warm=True)] == ["ok", "ok"]


def test_ten_thousand_rounds_end_with_the_last_that_says_something_new(script: Script, tmp_path: Path) -> None:
    script.samples = {0: [1.0] * 10}
    assert len(run(tmp_path, 1, rounds=10_000)[0].rounds_ms) == 1


def test_runs_are_told_apart_by_number_where_clocks_go_back(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(tmp_path, 1, rounds=1)
    monkeypatch.setattr("carver.run.records.now", lambda: "2001-01-01T00:00:00.000+00:00")
    fresh = run(tmp_path, 1, rounds=1, fresh=True)
    assert run(tmp_path, 1, rounds=1)[0].uuid == fresh[0].uuid != first[0].uuid


@pytest.mark.parametrize("mapped", [False, True])
def test_an_output_that_may_not_be_written_to_is_refused(grid: Ranking, tmp_path: Path, mapped: bool) -> None:
    template = carver.ElementwiseTemplate((4, 5), dtype="float32").with_arch(carver.CPU("auto"))
    kernel = compile_hint(template.recommend_hints(1)[0], "cpu")
    x, y = np.ones((4, 5), np.float32), np.zeros((4, 5), np.float32)
    y.tofile(tmp_path / "y")
    read_only: np.ndarray = np.memmap(tmp_path / "y", np.float32, "r", shape=(4, 5)) if mapped else y
    read_only.flags.writeable = False
    with pytest.raises(RunError, match="is an output, and this array may not be written to"):
        kernel(x, read_only)
    kernel(read_only, x)
