"""Hints: frozen values that survive JSON, pickle and copy."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from functools import cache
from math import prod

import pytest
from test_golden import OPERATORS
from test_golden import cases as golden_cases

import carver
from carver import Hint, NoRasterization, Rasterization2DColumn
from carver.base.errors import ConfigError


def test_json_round_trip_is_exact(ranking: carver.Ranking) -> None:
    for hint in ranking:
        again = Hint.from_json(hint.to_json())
        assert again == hint
        assert hash(again) == hash(hint)
        assert again.to_json() == hint.to_json()


def test_dicts_hold_plain_types_only(ranking: carver.Ranking) -> None:
    def plain(value: object) -> bool:
        if isinstance(value, dict):
            return all(type(k) is str and plain(v) for k, v in value.items())
        if isinstance(value, list):
            return all(map(plain, value))
        return type(value) in (str, int, float, bool, type(None))

    for hint in ranking:
        assert plain(hint.to_dict())
        assert json.loads(json.dumps(hint.to_dict())) == hint.to_dict()


def test_terms_add_up(ranking: carver.Ranking) -> None:
    for hint in ranking:
        assert sum(hint.terms_ms.values()) == pytest.approx(hint.predicted_ms, rel=1e-9)
        assert hint.terms == hint.terms_ms


def test_hints_cannot_be_changed(ranking: carver.Ranking) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ranking[0].rank = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        ranking[0].config["x"] = 3  # type: ignore[index]


def test_explains_itself(ranking: carver.Ranking) -> None:
    told = ranking[0].explain()
    assert told.hint.predicted_ms == pytest.approx(ranking[0].predicted_ms)
    assert max(map(len, str(told).splitlines())) <= 110
    assert json.loads(json.dumps(told.to_dict()))["constants"] == ranking.arch.provenance


@pytest.mark.parametrize("same", [
    copy.copy, copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan)), lambda plan: type(plan)(plan.value),
])  # fmt: skip
def test_no_rasterization_is_one_object(same) -> None:  # type: ignore[no-untyped-def]
    assert same(NoRasterization) is NoRasterization


def test_plans_survive_json_by_identity() -> None:
    op = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200")
    config = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3)
    plans = [Hint.from_json(op.rank([config | {"GROUP_M": g}])[0].to_json()).rasterization_plan for g in (1, 8)]
    assert plans[0] is NoRasterization
    assert plans[1] == Rasterization2DColumn(8)


@pytest.mark.parametrize("spoil", [lambda d: d.pop("config"), lambda d: d.update(blok=1)])
def test_a_dict_that_is_no_hint(spoil) -> None:  # type: ignore[no-untyped-def]
    d = carver.MatmulTemplate(64, 64, 64).with_arch("h200").recommend_hints(1)[0].to_dict()
    spoil(d)
    with pytest.raises(ConfigError, match=r"not a hint: keys (missing: config|unknown: blok)"):
        Hint.from_dict(d)


def test_fields_of_a_triton_matmul_by_hand() -> None:
    op = carver.MatmulTemplate(4096, 2048, 1024, trans_B=True).with_arch("h200")
    config = dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8, SPLIT_K=2, num_warps=8, num_stages=3)
    (h,) = op.rank([config], backend="triton")
    assert h.block == (128, 256)
    assert h.rstep == (64,)
    assert h.num_warps == 8
    assert h.launch.threads == 256
    assert h.pipeline_stage == 3
    assert h.split_k == 2
    assert h.launch.grid[0] * h.launch.grid[1] * h.launch.grid[2] == 32 * 8 * 2
    assert h.use_tc
    assert h.use_async
    assert h.vectorize == {"A": 8, "B": 8}
    assert h.rasterization_plan == Rasterization2DColumn(8)
    assert h.details["steps"] == 1024 / 64 / 2
    assert h.launch.smem_bytes == 3 * 64 * (128 + 256) * 2


def test_what_a_hint_was_not_asked_for_is_made_when_it_is() -> None:
    made, asked = (list(carver.MatmulTemplate(512, 512, 512).with_arch("h200").recommend_hints(3)) for _ in range(2))
    assert "bound" not in vars(asked[0]) and {"config", "predicted_ms"} <= vars(asked[0]).keys()
    assert [hint.bound for hint in made] and made == asked and vars(asked[1]).keys() == vars(made[1]).keys()
    assert {field.name for field in dataclasses.fields(Hint)} == vars(asked[1]).keys()
    with pytest.raises(AttributeError, match="'Hint' object has no attribute 'speed'"):
        asked[2].speed  # noqa: B018


@pytest.mark.parametrize("same", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_hints_rankings_and_operators_can_be_copied_and_pickled(ranking: carver.Ranking, same) -> None:  # type: ignore[no-untyped-def]
    again = same(ranking)
    assert list(again) == list(ranking) and same(ranking[0]) == ranking[0] and repr(again) == repr(ranking)
    op = same(carver.ops.operator.Template(ranking.problem, ranking.arch))
    assert op.recommend_hints(3, ranking.backend).seconds.tolist() == ranking[:3].seconds.tolist()
    with pytest.raises(TypeError, match="cannot be changed"):
        again[0].config.update(x=1)  # type: ignore[attr-defined]


def test_what_maps_in_a_hint_goes_into_json(ranking: carver.Ranking) -> None:
    hint = ranking[0]
    for name in ("config", "terms_ms", "vectorize", "details"):
        assert json.loads(json.dumps(getattr(hint, name))) == getattr(hint, name)


def test_a_hint_prints_on_one_line(ranking: carver.Ranking) -> None:
    hint = ranking[0]
    assert "\n" not in repr(hint) and f"{hint.predicted_ms:.4g} ms predicted, bound by {hint.bound}" in repr(hint)
    assert len(repr(hint)) < 300 and str(hint) in repr(hint) and repr(hint).startswith("Hint(#1 ")
    assert hint._repr_html_().count("<span") == hint._repr_html_().count("</span>") > 0


@pytest.mark.parametrize(("name", "value", "says"), [
    ("problem", [1], "problem must be a mapping"),
    ("problem", {"operator": 1}, "not a problem: keys missing: computes, dtypes, sizes"),
    ("launch", 5, "launch must be a mapping"),
    ("launch", {}, "not a hint's launch: keys missing: grid"),
    ("config", [1], "config must be a mapping"),
    ("config", {"BLOCK_M": "x"}, "config must be a mapping"),
    ("rasterization_plan", {"x": 1}, "not a hint's rasterization_plan"),
    ("rank", True, "rank must be a whole number"),
    ("predicted_ms", None, "predicted_ms must be a number"),
    ("predicted_ms", 0, "predicted_ms is above 0, got 0"),
])  # fmt: skip
def test_a_damaged_hint_says_where(name: str, value: object, says: str) -> None:
    d = carver.MatmulTemplate(64, 64, 64).with_arch("h200").recommend_hints(1)[0].to_dict()
    with pytest.raises(carver.CarverError, match=says):
        Hint.from_dict(d | {name: value})


def test_a_ranking_is_told_from_a_hint() -> None:
    d = carver.MatmulTemplate(64, 64, 64).with_arch("h200").recommend_hints(1)[0].to_dict()
    for many in ([d], {"hints": [d]}, 7):
        with pytest.raises(ConfigError, match=r"jq '(\.hints|\.)\[0\]'|got 7"):
            Hint.from_dict(many)  # type: ignore[arg-type]


def test_a_ranking_keeps_the_hints_it_made(ranking: carver.Ranking) -> None:
    assert ranking[0] is ranking[0] and ranking[-1] is ranking[len(ranking) - 1] and list(ranking)[3] is ranking[3]


def test_what_is_computed_follows_where_it_must() -> None:
    """A cluster of half as many blocks needs shares twice as long, which a formula computes."""
    hint = carver.ReductionTemplate("softmax", (300, 100_003)).with_arch("h200").recommend_hints(1, "cuda")[0]
    assert (hint.kernel, hint.config["cluster"]) == ("held", 8)
    made = hint.explain()
    (change,) = (c for c in made.changes if c.tunable == "cluster")
    half = {**hint.config, "cluster": 4, "block_c": 25_024}
    again = carver.ReductionTemplate("softmax", (300, 100_003)).with_arch("h200").rank([half], "cuda", kernel="held")
    assert change.ms == pytest.approx(again[0].predicted_ms)
    assert "block_c" not in {c.tunable for c in made.changes}, "no other value can run"


def test_blocks_of_clusters_are_counted_once() -> None:
    """Clusters of eight reach 120 of the 132 SMs, which makes the waves more and not the blocks."""
    hint = carver.ReductionTemplate("softmax", (300, 100_003)).with_arch("h200").recommend_hints(1, "cuda")[0]
    assert hint.explain().blocks == hint.launch.grid[0] == 300 * 8
    assert "2,400 blocks, 960 fit at a time" in str(hint.explain())


def test_a_hint_of_a_what_if_device_is_explained_on_that_device() -> None:
    shipped = carver.CUDA("h200")
    starved = shipped.replace(dram_bytes_per_s=shipped.dram_bytes_per_s / 4)
    hint = carver.MatmulTemplate(8, 8192, 8192).with_arch(starved).recommend_hints(1)[0]
    again = Hint.from_json(hint.to_json())
    assert again == hint and again.arch == starved and again.arch.replaced == ("dram_bytes_per_s",)
    for told in (hint.explain(), again.explain()):
        assert told.arch is told.hint.arch and told.hint.predicted_ms == hint.predicted_ms
        assert not any("The hint itself says" in note for note in told.notes)
    elsewhere = hint.explain(shipped)
    assert elsewhere.hint.arch == shipped and elsewhere.hint.predicted_ms < 0.5 * hint.predicted_ms


def test_a_shipped_device_is_its_name_in_json() -> None:
    hint = carver.MatmulTemplate(64, 64, 64).with_arch("h200").recommend_hints(1)[0]
    assert hint.to_dict()["arch"] == "h200_sxm" and Hint.from_json(hint.to_json()).arch == hint.arch
    with pytest.raises(carver.CarverError, match="no arch named 'h2000'"):
        Hint.from_dict(hint.to_dict() | {"arch": "h2000"})
    with pytest.raises(carver.CarverError, match="lacks name"):
        Hint.from_dict(hint.to_dict() | {"arch": {}})


@cache
def _hints_of_every_kernel() -> list[Hint]:
    each = {(OPERATORS[name].problem.operator, backend): (name, device) for name, backend, device in golden_cases()}
    cases = [(OPERATORS[name].with_arch(device), backend) for (_, backend), (name, device) in each.items()]
    return [hint for op, backend in cases for hint in op.recommend_hints(12, backend)]


def test_fields_say_what_the_configuration_says() -> None:
    """Of every operator and backend: tunables that are called as a field are that field, in any spelling."""
    words = {
        "block_m": lambda h: h.block[0], "block_n": lambda h: h.block[-1], "block_k": lambda h: h.rstep[0],
        "block": lambda h: h.block[0], "stages": lambda h: h.pipeline_stage, "split_k": lambda h: h.split_k,
        "split": lambda h: h.split_k, "threads": lambda h: h.launch.threads, "warps": lambda h: h.num_warps,
        "num_warps": lambda h: h.num_warps, "warp_m": lambda h: h.warp[0], "warp_n": lambda h: h.warp[1],
        "thread_m": lambda h: h.thread[0], "thread_n": lambda h: h.thread[1], "split_kv": lambda h: h.split_k,
        "mc": lambda h: h.block[0], "nc": lambda h: h.block[1], "kc": lambda h: h.rstep[0],
        "depthu": lambda h: h.rstep[0],
    }  # fmt: skip
    compared = set()
    for h in _hints_of_every_kernel():
        attention = h.problem.operator == "attention"  # BLOCK_N walks the keys there, and keys are summed over
        for tunable, value in h.config.items():
            if (word := tunable.lower()) in words:
                said = h.rstep[0] if attention and word == "block_n" else words[word](h)
                assert said == value, (h.kernel, tunable, h)
                compared.add((h.problem.operator, h.backend, word))
    assert len(compared) > 40


def test_blocks_cover_the_output_and_steps_the_sum() -> None:
    """Of every operator and backend, as far as grids are one dimension of blocks."""
    kinds = set()
    for h in _hints_of_every_kernel():
        p, blocks = h.problem, prod(h.launch.grid)
        kinds.add((p.operator, h.backend))
        kept = prod(p.sizes[axis] for axis in p.statement.spatial)
        assert h.block and min(h.block) >= 1 and all(min(t) >= 1 for t in (h.warp, h.thread, h.rstep) if t)
        # a block of these has several tiles, in turn
        walks = h.backend == "cpu" or p.operator == "matmul_softmax" or h.kernel == "tma"
        assert blocks * prod(h.block) >= kept or walks, (h, h.block, h.launch.grid)
        if h.thread is not None:
            assert prod(h.thread) * h.launch.threads >= prod(h.block)
        if h.warp is not None and h.problem.operator != "attention":
            assert all(block % warp == 0 for block, warp in zip(h.block, h.warp, strict=True))
        assert (h.rstep is None) or p.statement.reduced
        assert (h.split_k is None) == (not p.statement.reduced)
        if h.reduce_thread is not None:
            assert 1 <= h.reduce_thread[0] <= h.launch.threads
        if h.rstep and p.operator in ("matmul", "gemv", "reduction") and h.backend != "cpu":
            summed = prod(p.sizes[axis] for axis in p.statement.reduced)
            assert h.details["steps"] * h.rstep[0] * h.split_k >= summed
    assert {operator for operator, _ in kinds} == {op.problem.operator for op in OPERATORS.values()}


def test_the_launch_is_that_of_the_kernel_itself() -> None:
    """B stored K x N is packed first, by blocks of another launch; each block walks several tiles."""
    h = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200").recommend_hints(1)[0]
    assert (h.kernel, h.config["groups"], h.config["cluster"]) == ("tma", 2, 2)
    assert h.launch.grid == (132, 1, 1) and h.cluster == (2, 1, 1)
    assert h.launch.threads == 384 and h.num_warps == 8  # four warps more that copy
    assert h.details["occupancy"] == 12 / 64 and "1 block of 12 warps" in str(h.explain())
    for device, core in (("rx_7900_xtx", "each 2 CUs;"), ("mi300x", "each CU;"), ("h100", "each SM;")):
        assert core in str(carver.MatmulTemplate(512, 512, 512).with_arch(device).recommend_hints(1)[0].explain())
    op = carver.MatmulTemplate(256, 256, 4096, trans_B=True).with_arch("h200")
    small = op.rank([{"kernel": "tma", **h.config}], backend="cuda")[0]
    assert small.launch.grid == (2, 1, 1)  # one cluster has both tiles


@pytest.mark.parametrize(("op", "device", "backend", "absent"), [
    (carver.ElementwiseTemplate((64, 4096)), "h200", "cuda", "warp thread rstep reduce_thread pipeline_stage split_k"),
    (carver.GEMVTemplate(8192, 8192), "h200", "cuda", "warp thread pipeline_stage"),
    (carver.ReductionTemplate("sum", (4096, 4096)), "h200", "triton", "warp thread pipeline_stage"),
    (carver.MatmulTemplate(512, 512, 512), "h200", "cuda", "thread reduce_thread"),
    (carver.MatmulTemplate(512, 512, 512), "cpu_avx2", "cpu", "warp thread reduce_thread num_warps pipeline_stage"),
    (carver.Conv2DTemplate(512, 512, 5, 5), "rtx_a4000", "kernel_tuner", "warp rstep reduce_thread pipeline_stage"),
])  # fmt: skip
def test_what_a_kernel_does_not_have_is_none(op, device: str, backend: str, absent: str) -> None:  # type: ignore[no-untyped-def]
    hint = op.with_arch(device).recommend_hints(1, backend)[0]
    fields = ("warp", "thread", "rstep", "reduce_thread", "num_warps", "pipeline_stage", "split_k")
    assert " ".join(name for name in fields if getattr(hint, name) is None) == absent
    assert Hint.from_json(hint.to_json()) == hint


def test_lists_have_an_entry_for_each_axis_that_is_tiled() -> None:
    flat = carver.ElementwiseTemplate((8192, 4096), inputs=2).with_arch("h200").recommend_hints(1)[0]
    assert flat.block == (flat.config["block"],)
    vector = carver.GEMVTemplate(8192, 8192).with_arch("h200").recommend_hints(1)[0]
    assert vector.block == (vector.config["block_n"],) and vector.rstep == (vector.config["block_k"],)
    for axis, kept, summed in ((1, "block_r", "block_c"), (0, "block_c", "block_r")):
        hint = carver.ReductionTemplate("sum", (4096, 4096), axis).with_arch("h200").recommend_hints(1, "cuda")[0]
        assert (hint.block, hint.rstep) == ((hint.config[kept],), (hint.config[summed],))
        assert hint.reduce_thread is not None and hint.reduce_thread[0] * hint.block[0] >= hint.launch.threads
    rows = carver.ReductionTemplate("softmax", (4096, 4096)).with_arch("h200").recommend_hints(1, "cuda")[0]
    assert (rows.block, rows.rstep) == ((rows.config["block_r"],), (rows.config["block_c"],))


def test_equal_hints_have_one_hash_in_any_order_of_their_keys() -> None:
    hint = carver.MatmulTemplate(64, 64, 64).with_arch("h200").recommend_hints(1)[0]
    turned = dataclasses.replace(hint, config=dict(reversed(hint.config.items())))
    assert list(turned.config) != list(hint.config)
    assert turned == hint and hash(turned) == hash(hint) and {turned: 1}[hint] == 1


def test_a_slice_keeps_ranks_and_hints(ranking: carver.Ranking) -> None:
    first = ranking[6]
    part = ranking[5:][1:]
    assert part[0] is first and part[0].rank == 7 and [hint.rank for hint in ranking[::3]][:3] == [1, 4, 7]
    assert list(part) == list(ranking)[6:] and part.rows == ranking.rows[6:]
    assert part.seconds.tolist() == ranking.seconds[6:].tolist()
