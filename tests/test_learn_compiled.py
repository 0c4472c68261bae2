"""Learning with rankings of compiled kernels: on a GPU whose constants are others than those that are priced with."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

import carver
from carver.base.errors import ConfigError, NoCandidates
from carver.cost.models.compiled import MOVABLE, PRIORS, price_compiled
from carver.ranking.surrogate import to_measure

triton = pytest.importorskip("triton", reason="Triton is not installed")

from tests import compiled_kernels as kernels  # noqa: E402

H100 = carver.load_arch("h100")
CONFIGS = [
    {"BM": m, "BN": n, "BK": 64, "num_warps": 4, "num_stages": s} for m, n, s in product((64, 128), (64, 128), (2, 3))
]
OTHERWISE = {"l2_efficiency": 0.6, "smem_efficiency": 0.7, "pipeline_overlap": 0.6}
"""Factors on constants of the GPU that the tests pretend to measure."""


pytestmark = pytest.mark.usefixtures("own_cache")


def ranked(size: int = 2048, kernel: Any = kernels.matmul, **given: Any) -> carver.Ranking:
    tensors = {name: carver.Tensor("float16", (size, size)) for name in ("a_ptr", "b_ptr", "c_ptr")}

    def grid(known: Any) -> tuple[int]:
        return (-(-size // known["BM"]) * -(-size // known["BN"]),)

    args = {**tensors, "M": size, "N": size, "K": size}
    return carver.rank_kernel(kernel, CONFIGS, args=args, grid=grid, arch=H100, **given)


def truth(ranking: carver.Ranking) -> dict[int, float]:
    """Times of all candidates, were the constants others. [ms]"""
    constants = {**PRIORS, **{name: PRIORS[name] * factor for name, factor in OTHERWISE.items()}}
    seconds = price_compiled([hint.facts for hint in ranking], H100, constants)[1].seconds
    return {hint.index: float(t) * 1e3 for hint, t in zip(ranking, seconds, strict=True)}


@pytest.mark.slow
def test_what_was_measured_moves_the_rest() -> None:
    start = ranked()
    times = truth(start)
    ranking = start.learn({i: times[i] for i in start.indices[:4]})
    rest = [hint for hint in ranking if hint.calibrated != "measured here"]

    def error(of: carver.Ranking) -> float:
        left = [hint for hint in of if hint.index in start.indices[4:]]
        return float(np.mean([abs(np.log(hint.predicted_ms / times[hint.index])) for hint in left]))

    assert len(rest) == len(start) - 4
    assert error(ranking) < 0.4 * error(start)
    assert rest[0].band_ms is not None and rest[0].band_ms[0] < rest[0].predicted_ms < rest[0].band_ms[1]
    assert "learnt from 4 measurements" in rest[0].explain()
    assert sum(rest[0].terms_ms.values()) == pytest.approx(rest[0].predicted_ms)
    assert [hint.rank for hint in ranking] == list(range(1, len(ranking) + 1))
    moved = {name.rpartition(".")[2] for name in ranking.profile["constants"]}
    assert moved and moved <= set(MOVABLE)


@pytest.mark.slow
def test_a_profile_starts_the_next_arguments() -> None:
    start = ranked()
    profile = json.loads(json.dumps(start.learn({i: t for i, t in truth(start).items() if i < 6}).profile))
    assert (profile["of"], profile["device"], len(profile["measured"])) == ("matmul/compiled", "h100_sxm", 6)
    plain, carried = ranked(4096), ranked(4096, profile=profile)
    times = truth(plain)

    def error(of: carver.Ranking) -> float:
        return float(np.mean([abs(np.log(h.predicted_ms / times[h.index])) for h in of]))

    assert error(carried) < 0.5 * error(plain)
    assert times[carried.indices[0]] <= times[plain.indices[0]]
    assert all(hint.calibrated.startswith("this kernel not measured") for hint in plain)
    assert not any("this kernel not measured" in hint.calibrated for hint in carried)


@pytest.mark.slow
def test_what_did_not_run_is_taken_off_for_good() -> None:
    start = ranked()
    ranking = start.learn({start.indices[0]: None})
    assert start.indices[0] not in ranking.indices
    assert ranking.reasons[start.indices[0]] == "it was measured and did not run"
    assert len(ranked(profile=ranking.profile)) == len(start) - 1
    assert len(ranked(4096, profile=ranking.profile)) == len(start)
    with pytest.raises(NoCandidates, match="did not run"):
        start.learn(dict.fromkeys(start.indices))


def test_one_code_has_one_time_by_any_of_its_places() -> None:
    args = {"x_ptr": carver.Tensor("float16", (4096,)), "y_ptr": carver.Tensor("float16", (4096,)), "n": 4096}
    configs = [{"BLOCK": 256, "num_stages": stages} for stages in (1, 2, 3)]
    ranking = carver.rank_kernel(kernels.copy, configs, args=args, grid=(16,), arch=H100)
    assert ranking.learn({2: 0.5})[0].predicted_ms == pytest.approx(0.5)


@pytest.mark.slow
def test_what_is_not_this_rankings_is_an_error() -> None:
    start = ranked()
    with pytest.raises(ConfigError, match="999 is none of them"):
        start.learn({999: 1.0})
    assert start.learnt is None and set(to_measure(start, (), start.seconds[0], 2)) <= set(start.indices)
    with pytest.raises(ConfigError, match="above 0 ms"):
        start.learn({0: 0.0})
    with pytest.raises(ConfigError, match=r"of other/compiled on h100_sxm; asked for is matmul/compiled"):
        ranked(profile=start.profile | {"of": "other/compiled"})


@pytest.mark.slow
def test_measurements_of_another_source_teach_nothing() -> None:
    profile = ranked().learn({0: 5.0}).profile
    for row in profile["measured"]:
        row["kernel"] = "matmul 0123456789ab"
    assert [h.predicted_ms for h in ranked(profile=profile)] == [h.predicted_ms for h in ranked()]


def test_what_tritons_tuner_timed_for_some_keys_ranks_the_next() -> None:
    configs = [
        triton.Config({"BM": m, "BN": n, "BK": k}, num_warps=4, num_stages=s)
        for m, n, k, s in product((64, 128), (64, 128, 256), (32, 64), (3, 4))
    ]

    def template(M: int) -> Any:
        return carver.MatmulTemplate(M, 4096, 4096).with_arch("h100")

    names = {"BLOCK_M": "BM", "BLOCK_N": "BN", "BLOCK_K": "BK"}
    pruner = carver.triton_pruner(template, topk=6, names=names, kernel=lambda: tuner)
    tuner: Any = triton.autotune(configs, key=["M"], prune_configs_by=pruner)(kernels.matmul)
    picks: list[list[Any]] = []
    for size in (4096, 2048, 8192, 1024):
        tuner.nargs = {"M": size}
        picks.append(tuner.prune_configs({}))
        first = picks[0][0].kwargs["BK"]
        tuner.configs_timings = {c: [3.0 if c.kwargs["BK"] == first else 1.0] * 3 for c in picks[-1]}
    assert {c.kwargs["BK"] for c in picks[0]} == {32, 64}, "some of each are timed"
    assert all(c.kwargs["BK"] != first for c in picks[-1])


def test_a_time_does_not_depend_on_the_list_that_it_stands_in() -> None:
    """Those with a matrix product are priced at the clock under matrix load (1.755 of 1.98 GHz), others not."""
    args = {"x_ptr": carver.Tensor("float16", (1 << 24,)), "y_ptr": carver.Tensor("float16", (1 << 24,)), "n": 1 << 24}
    configs = [{"BLOCK": block} for block in (1024, 2048)]
    copies = carver.rank_kernel(kernels.copy, configs, args=args, grid=lambda c: ((1 << 24) // c["BLOCK"],), arch=H100)
    alone, products = [hint.facts for hint in copies], [hint.facts for hint in ranked()[:3]]
    mixed = [products[0], alone[0], products[1], alone[1], products[2]]
    work, estimate = price_compiled(mixed, H100)
    for rows, facts in (([1, 3], alone), ([0, 2, 4], products)):
        own = price_compiled(facts, H100)
        assert estimate.seconds[rows] == pytest.approx(own[1].seconds, rel=1e-12)
        for term, column in own[1].terms.items():
            assert estimate.terms[term][rows] == pytest.approx(column, rel=1e-12, abs=1e-15)
        for resource, alone in own[1].alone_s.items():
            assert estimate.alone_s[resource][rows] == pytest.approx(alone, rel=1e-12)
        assert work.facts["dram_bytes"][rows] == pytest.approx(own[0].facts["dram_bytes"])
    assert H100.matrix_clock_hz < H100.clock_hz


@pytest.mark.slow
def test_the_launch_can_be_left_out() -> None:
    """4.2 us of each time, and of no other term; what is learnt then is not mixed with times that have it."""
    whole, bare = ranked(512), ranked(512, launch=False)
    by = {hint.index: hint for hint in whole}
    for hint in bare:
        assert by[hint.index].predicted_ms - hint.predicted_ms == pytest.approx(4.2e-3, rel=1e-6)
        assert hint.terms_ms["launch"] == 0.0
        assert hint.terms_ms["main loop"] == pytest.approx(by[hint.index].terms_ms["main loop"])
    learnt = bare.learn({bare[0]: 0.01})
    assert learnt[0].terms_ms["launch"] == 0.0 and "launch_s" not in str(learnt.profile["constants"])
    starts = {ranking.learn({ranking[0]: 1.0}).profile["measured"][0]["start"] for ranking in (whole, bare)}
    assert len(starts) == 2
