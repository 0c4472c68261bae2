"""The tuners of a process and the timers on a GPU that is there: what is run with fakes elsewhere, run as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import carver
from carver.run.bench import benchmark_kernel
from carver.run.cuda import TIMERS

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from tests import compiled_kernels  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("own_cache")]
TIMER = pytest.mark.parametrize("timer", [
    pytest.param(each, marks=pytest.mark.skipif(each == "cupti" and find_spec("cupti") is None, reason="no cupti"))
    for each in TIMERS
])  # fmt: skip
ROWS, COLUMNS = 4096, 8192


@pytest.fixture(autouse=True)
def nothing_compiled(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    yield
    torch.cuda.synchronize()


def listed() -> list[Any]:
    return [triton.Config({"BLOCK": 1 << block}, num_warps=1 << warps) for block in range(7, 14) for warps in range(5)]


def tuner(configs: list[Any] | None = None) -> Any:
    return triton.autotune(configs or listed(), key=["n"])(compiled_kernels.copy)


def called(tuned: Any, n: int) -> None:
    """Call it on random values, and check what it computes."""
    x = torch.randn(n, device="cuda")
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    assert torch.equal(x, y)


@TIMER
def test_each_timer_chooses_from_what_was_ranked(timer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("compiled.worker", "integrations.autotune"):  # with more the list is timed whole
        monkeypatch.setattr(f"carver.{module}.cores_available", lambda: 8)
    tuned, n = tuner(), ROWS * COLUMNS
    with carver.enable_triton(3, timer=timer) as log:
        called(tuned, n)
    entry = log[0]
    assert (entry.listed, entry.kept, entry.why) == (35, len(tuned.configs_timings), "")
    times = {str(config): said[0] for config, said in tuned.configs_timings.items()}
    assert all(math.isfinite(ms) and 8 * n / ms < 1e10 for ms in times.values())  # read and written: below 10 TB/s
    assert str(tuned.best_config) in times and len(times) <= 4


def test_of_equal_configurations_the_first_stays() -> None:
    same = [triton.Config({"BLOCK": 1024}, num_warps=4, maxnreg=limit) for limit in (64, 72, 80, 88, 96)]
    taken = []
    for _ in range(3):
        tuned = tuner(list(same))
        with carver.enable_triton(3):
            called(tuned, ROWS * COLUMNS)
        taken.append(tuned.best_config.maxnreg)
    assert taken == [64, 64, 64]


def test_pinned_times_nothing_and_every_run_takes_the_same() -> None:
    taken = []
    for order in (1, -1):
        tuned = tuner(listed()[::order])
        with carver.enable_triton(pinned=True) as log:
            called(tuned, ROWS * COLUMNS)
        assert log.pins and not log[0].why
        taken.append((str(tuned.best_config), log.hash))
    assert taken[0] == taken[1]


@TIMER
def test_timers_agree_of_carvers_own_kernels(timer: str) -> None:
    matmul = carver.MatmulTemplate(2048, 2048, 2048, in_dtype="float16").with_arch(carver.CUDA("auto"))
    ranking: Any = matmul.recommend_hints(1, "cuda")
    events, other = (ranking.benchmark(rounds=3, timer=each, progress=False) for each in ("events", timer))
    ratio = other.measurements[0].median_ms / events.measurements[0].median_ms
    assert 0.8 < ratio < 1.25


@pytest.mark.parametrize("timer", ["events", "graph"])
@pytest.mark.parametrize("beforehand", ["random", "right"])
def test_hints_of_a_kernel_are_timed_as_it_is_launched(timer: str, beforehand: str) -> None:
    """Rows of blocks too few for 256 elements: half of the result is missing, whatever was there and whoever is most.
    Of two rankings each hint is a row. What is only read may be a parameter."""
    n, blocks = ROWS * COLUMNS, ROWS * COLUMNS // 512
    x = torch.nn.Parameter(torch.randn(n, device="cuda"))
    y = torch.randn(n, device="cuda") if beforehand == "random" else x.detach().clone()
    before = y.clone()
    given = {"args": {"x_ptr": x, "y_ptr": y, "n": n}, "grid": (blocks,)}
    warps = ((256, (1, 2, 4)), (512, (1, 4)))
    lists = [[{"BLOCK": block, "num_warps": each} for each in some] for block, some in warps]
    short, ranking = (carver.rank_kernel(compiled_kernels.copy, each, arch="cuda", **given) for each in lists)
    both: Any = [*short, *ranking]
    report: Any = benchmark_kernel(both, compiled_kernels.copy, rounds=2, timer=timer, progress=False, **given)
    assert report.outcomes == {"ok": 2, "wrong_result": len(short)} and torch.equal(y, before)
    assert {m.config["BLOCK"] for m in report.ok} == {512} and len(report.measurements) == len(both)
    assert all(0.5 < m.median_ms / m.predicted_ms < 5.0 for m in report.ok)  # other tests may share the GPU
    assert "copy" in str(report) and report.to_dict()["best"]["bytes_per_s"] < 1e13
    learnt = ranking.learn({m.hint["index"]: m.median_ms for m in report.ok})
    told = next(hint for hint in learnt if hint.config == report.best.config)
    assert told.predicted_ms == pytest.approx(report.best.median_ms, rel=0.1)


def test_one_element_as_many_is_read_and_what_is_expected_is_right() -> None:
    n = 1 << 20
    x, y = torch.randn(1, device="cuda").expand(n), torch.zeros(n, device="cuda")
    given = {"args": {"x_ptr": x, "y_ptr": y, "n": n}, "grid": (n // 512,)}
    ranking: Any = carver.rank_kernel(compiled_kernels.spread, [{"BLOCK": 512}, {"BLOCK": 256}], arch="cuda", **given)
    for expected, outcomes in ((x, {"ok": 1, "wrong_result": 1}), (y, {"wrong_result": 2})):
        report = ranking.benchmark_kernel(
            compiled_kernels.spread, expected={"y_ptr": expected}, rounds=1, progress=False, **given
        )
        assert report.outcomes == outcomes and not y.any()


def test_inductors_kernels_are_pinned() -> None:
    from carver.export import inductor

    def gated(x: Any, y: Any) -> Any:
        return torch.nn.functional.silu(x @ y).sum(-1)

    x, y = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in "xy")
    want, found = gated(x, y).float(), []
    for _ in range(2):
        torch._dynamo.reset()
        with torch._inductor.config.patch(force_disable_caches=True), inductor.pinned() as log:
            out = torch.compile(gated)(x, y)
        assert log.picks
        np.testing.assert_allclose(out.float().cpu(), want.cpu(), rtol=0.05, atol=2.0)
        found.append((log.hash, out.cpu()))
    assert found[0][0] == found[1][0] and torch.equal(found[0][1], found[1][1])
