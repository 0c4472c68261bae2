"""Exports against the packages they are for, at the versions of setup.py's extras "export-test" and "dev"."""

from __future__ import annotations

import gzip
import math
import random
import sys
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import carver
from carver.base.errors import ConfigError, NoCandidates
from carver.calibrate.tables import Remark, read
from carver.export import helion as to_helion
from carver.export import inductor as to_inductor
from carver.export import kernel_tuner as to_kernel_tuner
from carver.export import optuna as to_optuna
from carver.export import triton as to_triton

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

pytestmark = pytest.mark.packages
PINS = {"triton": "3.6.0", "kernel-tuner": "1.5.0", "optuna": "5.0.0", "helion": "1.5.1", "torch": "2.13.0"}
OP = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200")
HINTS = OP.recommend_hints(10, backend="triton")


def package(name: str, module: str = "") -> Any:
    """The package, or a skip that says which version to install."""
    reason = f"needs {name}=={PINS[name]}"
    found = pytest.importorskip(module or name.replace("-", "_"), reason=reason, exc_type=ImportError)
    version = metadata.version(name).partition("+")[0]
    if version != PINS[name]:
        pytest.skip(f"tried with {name} {PINS[name]}, here is {version}")
    return found


def test_the_pins_are_those_of_the_extra() -> None:
    setup = (Path(__file__).parent.parent / "setup.py").read_text()
    assert all(f'"{name}=={version}' in setup for name, version in PINS.items())


class TestTriton:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        package("triton")

    def _autotuner(self, configs: list[Any], prune: dict[str, Any]) -> Any:
        """A tuner as `triton.autotune` makes it, around a function that is never launched."""
        triton = package("triton")

        @triton.jit
        def kernel(a_ptr, M, N, K, BLOCK_SIZE_M: int, BLOCK_SIZE_N: int, BLOCK_SIZE_K: int):  # type: ignore[no-untyped-def]
            pass

        class Timed(triton.runtime.autotuner.Autotuner):  # type: ignore[misc,name-defined]
            """Launches nothing."""

            def __init__(self, fn: Any) -> None:
                self.fn, self.arg_names, self.configs, self.nargs = fn, fn.arg_names, configs, {}
                self.early_config_prune = prune.get("early_config_prune")
                self.perf_model, self.configs_top_k = prune.get("perf_model"), prune.get("top_k", 1.0)

        return Timed(kernel)

    def _list(self) -> list[Any]:
        Config = package("triton").Config
        return [
            Config(dict(BLOCK_SIZE_M=m, BLOCK_SIZE_N=n, BLOCK_SIZE_K=k, GROUP_SIZE_M=8), num_warps=w, num_stages=s)
            for m in (32, 64, 128, 256) for n in (64, 128, 256) for k in (32, 64) for w in (4, 8) for s in (3, 4)
        ]  # fmt: skip

    def _best(self, configs: list[Any], m: int, n: int, k: int) -> list[Any]:
        op = carver.MatmulTemplate(m, n, k).with_arch("h200")
        ranking = op.rank([to_triton.from_config(c) for c in configs])
        return [configs[i] for i in ranking.indices]

    def test_hints_are_configs_and_back(self) -> None:
        configs = HINTS.to_triton()
        assert all(isinstance(c, package("triton").Config) for c in configs)
        assert [c.num_warps for c in configs] == [h.config["num_warps"] for h in HINTS]
        assert OP.rank(configs).indices == list(range(10))

    def test_only_the_keys_that_the_kernel_has(self) -> None:
        keys = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K"]
        names = {k.replace("_SIZE", ""): k for k in keys}
        narrow = carver.MatmulTemplate(64, 1024, 4096).with_arch("h200")
        some = narrow.recommend_hints(200, backend="triton")
        whole = [h for h in some if h.config["SPLIT_K"] == 1]
        configs = some.to_triton(names, only=keys)
        assert 0 < len(whole) < 200 == len({str(c) for c in configs}) == len(configs)  # the next take others' places
        assert all(sorted(c.kwargs) == sorted(keys) for c in configs)
        proposed = carver.triton_pruner(narrow, topk=4, propose=True)(configs, {})
        assert [c.all_kwargs() for c in proposed] == [c.all_kwargs() for c in configs[:4]]
        with pytest.raises(ConfigError, match="every hint uses a key"):
            to_triton.configs([h for h in some if h.config["SPLIT_K"] > 1], names, keys)

    def test_a_kernel_without_groups_of_tiles_gets_each_tile_once(self) -> None:
        tiles = ["BLOCK_M", "BLOCK_N", "BLOCK_K"]
        configs = HINTS.to_triton(only=tiles)
        assert len({str(c) for c in configs}) == len(configs) == len(HINTS)
        launched = (*tiles, "num_warps", "num_stages")
        assert len({tuple(hint.config[key] for key in launched) for hint in HINTS}) < len(HINTS)
        proposed = carver.triton_pruner(OP, topk=10, propose=True)(configs, {})
        assert len({str(c) for c in proposed}) == len(proposed) == 10

    def test_early_config_prune_inside_the_tuner(self) -> None:
        configs = self._list()

        def template(M: int, N: int, K: int) -> Any:
            return carver.MatmulTemplate(M, N, K).with_arch("h200")

        tuner = self._autotuner(configs, {"early_config_prune": carver.triton_pruner(template, topk=5)})
        for sizes in ((4096, 4096, 4096), (64, 4096, 16384)):
            tuner.nargs = dict(zip(("M", "N", "K"), sizes, strict=True)) | {"a_ptr": object()}
            assert tuner.prune_configs({}) == self._best(configs, *sizes)[:5]

    def test_the_pruner_is_also_the_whole_of_prune_configs_by(self) -> None:
        triton, configs = package("triton"), self._list()
        pruner = carver.triton_pruner(OP, topk=5)

        @triton.autotune(configs, key=[], prune_configs_by=pruner)
        @triton.jit
        def kernel(a_ptr, BLOCK_SIZE_M: int, BLOCK_SIZE_N: int, BLOCK_SIZE_K: int):  # type: ignore[no-untyped-def]
            pass

        kernel.nargs = {}
        assert kernel.prune_configs({}) == pruner(configs, {}) == self._best(configs, 4096, 4096, 4096)[:5]

    def test_perf_model_inside_the_tuner(self) -> None:
        configs = self._list()
        too_big = package("triton").Config(
            dict(BLOCK_SIZE_M=256, BLOCK_SIZE_N=256, BLOCK_SIZE_K=128, GROUP_SIZE_M=8), num_warps=8, num_stages=4
        )

        def template(M: int, N: int, K: int) -> Any:
            return carver.MatmulTemplate(M, N, K).with_arch("h200")

        model = carver.triton_perf_model(template)
        tuner = self._autotuner([*configs, too_big], {"perf_model": model, "top_k": 6})
        tuner.nargs = dict(M=512, N=2048, K=4096)
        pruned = tuner.prune_configs({})
        assert [c in configs for c in pruned] == [True] * 6
        expected = self._best(configs, 512, 2048, 4096)[:6]
        times = [model(M=512, N=2048, K=4096, **c.all_kwargs()) for c in (*pruned, *expected)]
        assert times[:6] == pytest.approx(times[6:])
        assert model(M=512, N=2048, K=4096, **too_big.all_kwargs()) == float("inf")

    def test_proposals_have_the_keys_of_the_list(self) -> None:
        pruner = carver.triton_pruner(OP, topk=4, propose=True)
        proposed = pruner(self._list()[:1], {"M": 1})
        assert len(proposed) == 4 and set(proposed[0].kwargs) == set(self._list()[0].kwargs)
        best = next(h for h in HINTS if h.config["SPLIT_K"] == 1)
        assert proposed[0].kwargs["BLOCK_SIZE_M"] == best.config["BLOCK_M"]

    def test_proposals_have_what_all_of_the_list_have(self) -> None:
        """Without the hook that clears it a split kernel would add to what the output held before."""

        def clear(nargs: Any) -> None:
            nargs["c_ptr"].zero_()

        listed = self._list()[:3]
        for each in listed:
            each.kwargs["EVEN_K"], each.pre_hook = True, clear
        prune = carver.triton_pruner(OP, topk=4, propose=True)
        assert all(c.kwargs["EVEN_K"] is True and c.pre_hook is clear for c in prune(listed, {}))
        listed[1].kwargs["EVEN_K"] = False
        with pytest.raises(ConfigError, match="one value of EVEN_K in all"):
            prune(listed, {})
        listed[1].kwargs["EVEN_K"], listed[2].pre_hook = True, None
        with pytest.raises(ConfigError, match="one value of pre_hook in all"):
            prune(listed, {})

    def test_nothing_that_can_run_is_an_error_with_the_rule(self) -> None:
        Config = package("triton").Config
        huge = [Config(dict(BLOCK_M=256, BLOCK_N=256, BLOCK_K=256), num_warps=8, num_stages=5)]
        with pytest.raises(NoCandidates, match=r"smem_per_block_bytes"):
            carver.triton_pruner(OP)(huge, {})
        with pytest.raises(ConfigError, match="no argument 'M', which the template asks for"):
            carver.triton_pruner(lambda M: OP)(huge, {"m": 1})


class TestKernelTuner:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        package("kernel-tuner")

    @staticmethod
    @lru_cache(maxsize=1)
    def _space() -> tuple[list[dict[str, int]], dict[str, list[int]], list[float]]:
        """A synthetic exhaustive table: times are the model's with a rough surface on top."""
        op = carver.Conv2DTemplate(1024, 1024, 7, 7).with_arch("a100")
        ranking = op.recommend_hints(10**6, backend="kernel_tuner")
        rng = np.random.default_rng(0)
        picked = sorted(rng.choice(len(ranking), 400, replace=False))
        configs, seconds = [dict(ranking[int(i)].config) for i in picked], ranking.seconds
        times = [float(seconds[i] * np.exp(rng.normal(0, 0.15))) for i in picked]
        times[7] = float("nan")
        params = {key: sorted({c[key] for c in configs}) for key in configs[0]}
        return configs, params, times

    def _tune(self, folder: Path, seed: int, **how: Any) -> list[dict[str, Any]]:
        tuner = package("kernel-tuner")
        from strategies import write_cachefile

        configs, params, times = self._space()
        cache = folder / "cache.json"
        write_cachefile(cache, configs, times, "synthetic")
        known = {tuple(c.values()) for c in configs}
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 Kernel Tuner draws from it

        def measured(p: dict[str, Any]) -> bool:
            return tuple(p[k] for k in params) in known

        restrictions = how.pop("restrictions", measured)
        with pytest.warns(UserWarning, match="do not match in size"):
            results, _ = tuner.tune_kernel(
                "replayed", "__global__ void replayed() {}", 1, [], params, cache=str(cache), simulation_mode=True,
                lang="CUDA", quiet=True, restrictions=restrictions, **how,
            )  # fmt: skip
        return list(results)

    def _hints(self) -> carver.Ranking:
        configs, _, _ = self._space()
        return carver.Conv2DTemplate(1024, 1024, 7, 7).with_arch("a100").rank(configs, backend="kernel_tuner")

    @pytest.mark.slow
    def test_hints_first_then_another_strategy(self, tmp_path: Path) -> None:
        _, params, _ = self._space()
        hints = self._hints()[:6]
        for then in ("genetic_algorithm", "random_sample", "mls"):
            strategy = to_kernel_tuner.strategy(hints, params, then)
            rows = self._tune(tmp_path, 1, strategy=strategy, strategy_options={"max_fevals": 40})
            tried = list(dict.fromkeys(tuple(row[key] for key in params) for row in rows))
            assert tried[:6] == [tuple(h.config.values()) for h in hints]
            assert 6 < len(tried) <= 40

    def test_hints_alone(self, tmp_path: Path) -> None:
        given = self._hints()[:6].to_kernel_tuner(self._space()[1], then=None)
        assert len(self._tune(tmp_path, 0, strategy=given["strategy"])) == 6

    def test_an_unknown_strategy_is_named(self, tmp_path: Path) -> None:
        given = self._hints()[:2].to_kernel_tuner(self._space()[1], then="genetic")
        with pytest.raises(ConfigError, match="no strategy 'genetic'; did you mean 'genetic_algorithm'"):
            self._tune(tmp_path, 0, strategy=given["strategy"])

    def test_x0_is_evaluated_first(self, tmp_path: Path) -> None:
        _, params, _ = self._space()
        start = to_kernel_tuner.x0(self._hints(), params)
        for strategy in ("genetic_algorithm", "mls", "simulated_annealing"):
            options = {"x0": start, "max_fevals": 12}
            rows = self._tune(tmp_path, 0, strategy=strategy, strategy_options=options)
            assert [rows[0][key] for key in params] == start

    def test_restriction_keeps_the_hints(self, tmp_path: Path) -> None:
        keep = to_kernel_tuner.restriction(self._hints()[:5])
        rows = self._tune(tmp_path, 0, restrictions=[keep])
        assert len(rows) == 5

    def test_what_it_writes_is_a_measured_table(self, tmp_path: Path) -> None:
        """Times of a loop on this CPU, of which one configuration does not compile: its cache, its T4 results."""
        tuner, size = package("kernel-tuner"), 1 << 16
        source = """
            #include <omp.h>
            #if unroll == 4 && bytes == 4096
            #error uses too much shared data
            #endif
            float scale(float *y, const float *x, int n) {
                double start = omp_get_wtime();
                for (int i = 0; i < n; i += bytes)
                    for (int j = i; j < i + bytes; j += unroll)
                        for (int u = 0; u < unroll; u++) y[j + u] = 2.0f * x[j + u];
                return (float)((omp_get_wtime() - start) * 1e3);
            }"""
        params = {"bytes": [4096, 16384], "unroll": [1, 2, 4]}
        x = np.ones(size, np.float32)
        results, _ = tuner.tune_kernel(
            "scale", source, size, [np.zeros_like(x), x, np.int32(size)], params, lang="C", quiet=True, iterations=3,
            compiler_options=["-fopenmp"], cache=str(tmp_path / "cache.json"), answer=[2 * x, None, None],
        )  # fmt: skip
        tuner.file_utils.store_output_file(str(tmp_path / "t4"), results, params)
        whole = (tmp_path / "cache.json").read_text()
        rows_alone = whole[: whole.rindex("}}")].rpartition("\n")[0]
        (tmp_path / "cut.json").write_text(rows_alone)  # as one that goes on
        (tmp_path / "last.json").write_text(rows_alone.rstrip(",\n"))
        (tmp_path / "packed.json.gz").write_bytes(gzip.compress(whole.encode()))
        says = 'operator = "elementwise"\nrows = 1\ncols = 65536\narch = "epyc.toml"\nbackend = "cpu"\n'
        described = (Path(__file__).parent / "data/cpu/amd_epyc.toml").read_text()
        (tmp_path / "epyc.toml").write_text(described)
        remarks: list[Remark] = []
        assert not list(read(tmp_path, remarks.append))
        assert all("which operator its kernel computes" in remark.text for remark in remarks) and len(remarks) == 5
        for name in ("cache", "cut", "last", "packed", "t4"):
            (tmp_path / f"{name}.toml").write_text(f'{says}[names]\nblock = "bytes"\n')
        cache, cut, last, packed, t4 = read(tmp_path)
        times = {(row["bytes"], row["unroll"]): row.get("time", np.nan) * 1e-3 for row in results}
        assert len(times) == 6 and sum(np.isnan(list(times.values()))) == 1
        for case, count in ((cache, 6), (cut, 5), (last, 5), (packed, 6), (t4, 6)):
            found = {(c["block"], c["unroll"]): s for c, s in zip(case.configs, case.seconds, strict=True)}
            assert found == pytest.approx(dict(list(times.items())[:count]), nan_ok=True)
            assert (case.problem.operator, case.backend, case.arch.kind) == ("elementwise", "cpu", "cpu")
            assert case.ranked()
        (tmp_path / "t4.toml").write_text(f'{says}[names]\nblock = "byte"\n')
        assert len(list(read(tmp_path, remarks.append))) == 4
        assert "has 'byte', which the results lack; did you mean 'bytes'" in remarks[-1].text

    def test_seeding_saves_evaluations(self) -> None:
        from strategies import compare

        from carver.calibrate.tables import Case

        configs, _, times = self._space()
        problem = carver.Conv2DTemplate(1024, 1024, 7, 7).problem
        case = Case("synthetic", problem, carver.load_arch("a100"), "kernel_tuner", configs, np.array(times))
        found = compare(case, topk=10, repeats=4, then="genetic_algorithm", budget=200)
        assert found["seeded"]["median"] < found["alone"]["median"]


class TestOptuna:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        package("optuna")

    def test_hints_run_first_and_in_order(self) -> None:
        optuna = package("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        values = to_optuna.choices(HINTS)
        assert HINTS.to_optuna(study) == 10

        def objective(trial: Any) -> float:
            config = {key: trial.suggest_categorical(key, choices) for key, choices in values.items()}
            try:
                return float(OP.rank([config]).seconds[0])
            except NoCandidates:
                raise optuna.TrialPruned from None

        study.optimize(objective, n_trials=14)
        assert [to_optuna.from_config(t) for t in study.trials[:10]] == [dict(h.config) for h in HINTS]
        assert study.best_trial.number == 0
        assert study.trials[3].user_attrs["carver_predicted_ms"] == HINTS[3].predicted_ms
        assert OP.rank(study.trials[:10]).indices == list(range(10))

    def test_known_timings_are_finished_trials(self) -> None:
        optuna = package("optuna")
        study = optuna.create_study()
        assert to_optuna.add_measured(study, [(h, h.predicted_ms) for h in HINTS], names={"BLOCK_M": "bm"}) == 10
        assert len(study.get_trials(states=[optuna.trial.TrialState.COMPLETE])) == 10
        assert study.best_value == HINTS[0].predicted_ms and "bm" in study.best_params
        with pytest.raises(ConfigError, match="no measured"):
            to_optuna.add_measured(study, [])


class TestHelion:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        package("helion")

    def test_settings_take_the_seeds(self) -> None:
        helion = package("helion")
        seeds = HINTS.to_helion()
        settings = helion.Settings(
            autotune_seed_configs=seeds, autotune_config_filter=to_helion.config_filter(OP, within=1.2)
        )
        assert settings.autotune_seed_configs == seeds
        first = next(h for h in HINTS if h.config["SPLIT_K"] == 1)
        assert seeds[0].block_sizes == list(first.block) + list(first.rstep)
        assert OP.rank(seeds).indices == list(range(len(seeds)))
        for seed, hint in zip(seeds, (h for h in HINTS if h.config["SPLIT_K"] == 1), strict=False):
            assert to_helion.from_config(seed)["GROUP_M"] == hint.config["GROUP_M"]

    def test_the_filter_drops_what_is_slow_and_what_cannot_run(self) -> None:
        helion = package("helion")
        keep = to_helion.config_filter(OP, within=1.3)
        assert all(keep(seed) is seed for seed in HINTS.to_helion())
        assert keep(helion.Config(block_sizes=[16, 16, 16], num_warps=4, num_stages=2)) is None
        assert keep(helion.Config(block_sizes=[256, 256, 256], num_warps=8, num_stages=5)) is None
        columns = helion.Config(block_sizes=[16, 16, 16], num_warps=4, l2_groupings=[8], loop_orders=[[1, 0]])
        assert keep(columns) is columns
        with pytest.raises(ConfigError, match="factor of at least 1"):
            to_helion.config_filter(OP, within=0.5)


class TestInductor:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        package("torch")

    class Inputs:
        """What a handler reads of Inductor's own description of a matmul."""

        def __init__(self, shapes: list[tuple[int, ...]], strides: list[tuple[int, ...]], dtype: Any) -> None:
            self.shapes, self.strides, self.dtype = shapes, strides, dtype

        def shapes_hinted(self) -> list[tuple[int, ...]]:
            return self.shapes

        def strides_hinted(self) -> list[tuple[int, ...]]:
            return self.strides

        def mnk_hinted(self) -> tuple[int, int, int]:
            return self.shapes[-2][-2], self.shapes[-1][-1], self.shapes[-2][-1]

        def mnk_symbolic(self) -> tuple[Any, ...]:
            return self.mnk_hinted()

        def dtypes(self) -> list[Any]:
            return [self.dtype] * len(self.shapes)

        def out_dtype(self) -> Any:
            return self.dtype

    def _choices(self, handler: Any, inputs: Any, operator: str, uid: str, configs: Any = None) -> list[Any]:
        from torch._inductor.kernel_template_choice import KernelTemplateChoice
        from torch._inductor.template_heuristics.params import DictKernelTemplateParams

        tile = dict(BLOCK_M=16, BLOCK_N=16, BLOCK_K=16, GROUP_M=8, num_warps=1)

        def candidates(configs: Any) -> Any:
            for each in configs:
                kwargs = each | dict(EVEN_K=False, ACC_TYPE="tl.float32")
                yield KernelTemplateChoice(None, DictKernelTemplateParams(kwargs), {"ALLOW_TF32": False}, None, inputs)

        some = [tile | {"num_stages": 1 + i} for i in range(19)]
        lists = {"aten": candidates(some[:1]), uid: candidates(configs or some)}
        return list(handler._finalize_template_configs(lists, inputs, [], operator))

    @pytest.mark.parametrize(
        ("operator", "uid", "shapes", "strides", "template"),
        [
            ("mm", "triton::mm", [(512, 4096), (4096, 2048)], [(4096, 1), (2048, 1)], dict(M=512, N=2048, K=4096)),
            ("mm", "triton::mm", [(512, 4096), (4096, 2048)], [(4096, 1), (1, 4096)],
             dict(M=512, N=2048, K=4096, trans_B=True)),
            ("addmm", "triton::mm", [(2048,), (64, 1000), (1000, 2048)], [(1,), (1000, 1), (2048, 1)],
             dict(M=64, N=2048, K=1000)),
            ("bmm", "triton::bmm", [(8, 512, 128), (8, 128, 512)], [(65536, 128, 1), (65536, 512, 1)],
             dict(M=512, N=512, K=128, batch=8)),
        ],
    )  # fmt: skip
    def test_lists_become_the_first_hints(
        self, operator: str, uid: str, shapes: Any, strides: Any, template: dict[str, Any]
    ) -> None:
        torch = package("torch")
        handler = to_inductor.choices("h200", topk=5)
        choices = self._choices(handler, self.Inputs(shapes, strides, torch.float16), operator, uid)
        aten, *found = [choice.params.to_kwargs() for choice in choices]
        op = carver.MatmulTemplate(**template, static_shapes=True).with_arch("h200")
        hints = [h for h in op.recommend_hints(40, backend="triton") if h.config["SPLIT_K"] == 1][:5]
        assert aten["num_stages"] == 1 and len(found) == 5
        for kwargs, hint in zip(found, hints, strict=True):
            assert hint.config.items() - {("SPLIT_K", 1)} <= kwargs.items()
            assert kwargs["EVEN_K"] == (template["K"] % hint.config["BLOCK_K"] == 0)
            assert kwargs["ACC_TYPE"] == "tl.float32"
        assert [(r.operator, r.before, r.after) for r in handler.log] == [(operator, 19, 5)]

    @pytest.mark.parametrize(("rows", "even"), [(None, False), (4096, True)])
    def test_a_dynamic_depth_is_masked_unless_it_is_whole_tiles_always(self, rows: int | None, even: bool) -> None:
        torch, sympy = package("torch"), pytest.importorskip("sympy")
        inputs = self.Inputs([(512, 4096), (4096, 2048)], [(4096, 1), (2048, 1)], torch.float16)
        depth = sympy.Symbol("s0", integer=True, positive=True) * (rows or 1)
        inputs.mnk_symbolic = lambda: (512, 2048, depth)  # type: ignore[method-assign]
        _, *found = self._choices(to_inductor.choices("h200", topk=5), inputs, "mm", "triton::mm")
        assert len(found) == 5 and {choice.params.to_kwargs()["EVEN_K"] for choice in found} == {even}

    @pytest.mark.parametrize("newer", [True, False])
    def test_float32_is_tf32_by_either_setting(self, newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        torch = package("torch")
        matmul, inputs = torch.backends.cuda.matmul, self.Inputs([(512, 512)] * 2, [(512, 1)] * 2, torch.float32)
        handler, before = to_inductor.choices("h200", topk=5), matmul.fp32_precision
        try:
            self._choices(handler, inputs, "mm", "triton::mm")
            if newer:
                matmul.fp32_precision = "tf32"
            else:
                matmul.allow_tf32 = True
            self._choices(handler, inputs, "mm", "triton::mm")
        finally:
            matmul.fp32_precision = before
        assert [("tf32" in replaced.problem, replaced.after) for replaced in handler.log] == [(False, 5), (True, 5)]

    def test_what_it_has_no_answer_for_keeps_its_list(self) -> None:
        torch = package("torch")
        handler = to_inductor.choices("h200", topk=5)
        shapes, strides = [(512, 512), (512, 512)], [(512, 1), (512, 1)]
        other = self.Inputs(shapes, strides, torch.float16)
        other.mnk_hinted = None  # type: ignore[assignment, method-assign]
        assert len(self._choices(handler, other, "mm", "triton::mm")) == 20
        assert "TypeError" in handler.log.pop().kept
        assert len(self._choices(handler, self.Inputs(shapes, strides, torch.complex64), "mm", "triton::mm")) == 20
        assert "complex64" in handler.log[0].kept
        assert len(self._choices(handler, self.Inputs(shapes, strides, torch.float16), "int_mm", "triton::mm")) == 20
        other = self._choices(handler, self.Inputs(shapes, strides, torch.float16), "mm", "triton::mm_persistent_tma")
        assert len(other) == 20 and "triton::mm_persistent_tma is another kernel" in handler.log[-1].kept
        scaled = self._choices(handler, self.Inputs(shapes, strides, torch.float16), "scaled_mm", "triton::scaled_mm")
        assert len(scaled) == 20 and handler.log[-1].operator == "scaled_mm" and len(handler.log) == 4

    def test_of_the_exhaustive_list_as_many_are_tried_as_of_the_default(self) -> None:
        """Those that are predicted to be the fastest of Inductor's own 1,875, with its choices as they are."""
        torch = package("torch")
        from torch._inductor import config
        from torch._inductor.template_heuristics.triton import CUDAConfigHeuristic

        every = [
            dict(BLOCK_M=c.block_m, BLOCK_N=c.block_n, BLOCK_K=c.block_k, GROUP_M=c.group_m, num_warps=c.num_warps,
                 num_stages=c.num_stages) for c in CUDAConfigHeuristic().exhaustive_configs
        ]  # fmt: skip
        assert len(every) == 1875
        handler = to_inductor.choices("h200", topk=5)
        inputs = self.Inputs([(4096, 4096), (4096, 4096)], [(4096, 1), (4096, 1)], torch.float16)
        with config.patch(max_autotune_gemm_search_space="EXHAUSTIVE"):
            _, *found = self._choices(handler, inputs, "mm", "triton::mm", every)
        assert len(found) == 20 and (handler.log[0].before, handler.log[0].after) == (1875, 20)
        op = carver.MatmulTemplate(4096, 4096, 4096, static_shapes=True).with_arch("h200")
        ranked = op.rank(every, backend="triton")
        for each, place in zip(found, ranked.indices[:20], strict=True):
            assert every[place].items() <= each.params.to_kwargs().items()
        assert found[0].annotations["carver"].predicted_ms == pytest.approx(ranked[0].predicted_ms)
        assert len(self._choices(handler, inputs, "mm", "triton::mm")) == 6

    @pytest.mark.parametrize("way", ["fwd", "bwd"])
    def test_lists_of_flex_attention_become_the_first_of_its_exhaustive_ones(
        self, way: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of tiles that divide the mask's blocks; and what Inductor takes where it times nothing stays among them."""
        torch = package("torch")
        from torch._inductor import config
        from torch._inductor.virtualized import V

        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
        x = torch.empty(2, 16, 1024, 64, device="meta", dtype=torch.bfloat16)
        graph = torch.fx.Graph()
        node = graph.placeholder("x")
        node.meta["val"] = x
        mask = (1024, 1024, *[None] * 8, 64, 128, None)
        before = {"fwd": (None,), "bwd": (None,) * 6}[way]
        target = {"fwd": "flex_attention", "bwd": "flex_attention_backward"}[way]
        call = graph.call_function(getattr(torch.ops.higher_order, target), (node, node, node, *before, mask))
        handler = to_inductor.choices("h200", topk=3)
        ask = getattr(handler, f"get_flex_attention_{way}_configs")
        with config.patch(max_autotune=True), V.set_graph_handler(SimpleNamespace(current_node=call)):
            found = ask(64, torch.bfloat16, "cuda")
            with config.patch(max_autotune_flex_search_space="EXHAUSTIVE"):
                assert len(ask(64, torch.bfloat16, "cuda")) == 21
            node.meta["val"] = x.to(torch.float64)
            kept = ask(64, torch.bfloat16, "cuda")
        assert (handler.log[0].after, handler.log[1].after) == (len(found), 21) and len(found) == 4
        assert len(kept) == handler.log[-1].after > 4 and "float64" in handler.log[-1].kept
        own = [vars(each) for each in found[:3]]
        assert all(64 % each.get("block_m", each.get("block_m1")) == 0 for each in own)
        parts = {"fwd": [(None, "block_m", "block_n")],
                 "bwd": [("keys", "block_m1", "block_n1"), ("queries", "block_m2", "block_n2")]}[way]  # fmt: skip
        times = []
        for each in own:
            ms = 0.0
            for backward, m, n in parts:
                op = carver.FlashAttentionTemplate(2, 16, None, 1024, None, 64, in_dtype="bfloat16", backward=backward)
                tile = {"BLOCK_M": each[m], "BLOCK_N": each[n], "num_warps": each["num_warps"],
                        "num_stages": each["num_stages"]}  # fmt: skip
                ms += op.with_arch("h200").rank([tile], backend="triton")[0].predicted_ms
            times.append(ms)
        assert times == sorted(times)
        with config.patch(max_autotune=False):
            assert ask(64, torch.bfloat16, "cuda") == found[3:]

    def test_what_inductor_times_is_learnt(self) -> None:
        torch = package("torch")
        from torch._inductor.select_algorithm import get_algorithm_selector_cache

        def lists(handler: Any, m: int) -> list[Any]:
            inputs = self.Inputs([(m, 4096), (4096, 2048)], [(4096, 1), (2048, 1)], torch.float16)
            return self._choices(handler, inputs, "mm", "triton::mm")

        with to_inductor.tuned("h200", topk=5) as handler:
            [told] = get_algorithm_selector_cache().feedback_saver_fns
            aten, *ours = lists(handler, 512)
            first_ms = ours[0].annotations["carver"].predicted_ms
            times = {c: f * first_ms for c, f in zip(ours, (1.3, math.inf, 1.0, 1.1, 1.2), strict=True)} | {aten: 0.01}
            told(times, "mm", [], list(times), lambda: {}, {})
            again = lists(handler, 512)[1:]
        assert not get_algorithm_selector_cache().feedback_saver_fns
        order = [ours.index(o) for c in again for o in ours if o.params.to_kwargs() == c.params.to_kwargs()]
        assert order == sorted(order, key=[1.3, math.inf, 1.0, 1.1, 1.2].__getitem__) and 2 in order and 1 not in order
        assert [m["ms"] is None for m in handler.profile["measured"]] == [False, True, False, False, False]
        later = to_inductor.choices("h200", topk=5, profile=handler.profile)
        assert later.uuid() != handler.uuid()
        assert [c.params.to_kwargs() for c in lists(later, 512)[1:]] == [c.params.to_kwargs() for c in again]

    @pytest.mark.parametrize(
        ("op", "shapes", "strides", "given"),
        [
            ("mm", [(512, 4096), (4096, 2048)], [(4096, 1), (1, 4096)], dict(M=512, N=2048, K=4096, trans_B=True)),
            ("mm", [(512, 1000), (1000, 2048)], [(1, 512), (2048, 1)], dict(M=512, N=2048, K=1000, trans_A=True)),
            ("bmm", [(8, 512, 128), (8, 128, 512)], [(65536, 128, 1), (65536, 512, 1)],
             dict(M=512, N=512, K=128, batch=8)),
        ],
    )  # fmt: skip
    def test_a_lookup_table_is_read_by_inductor(self, op: str, shapes: Any, strides: Any, given: Any) -> None:
        torch = package("torch")
        choices = pytest.importorskip("torch._inductor.lookup_table.choices")
        from torch._inductor import config
        from torch._inductor.kernel.bmm import bmm_template
        from torch._inductor.kernel.mm import mm_template

        hints = carver.MatmulTemplate(**given).with_arch("h200").recommend_hints(10, "triton")
        wide = carver.MatmulTemplate(**given, out_dtype="float32").with_arch("h200").recommend_hints(10, "triton")
        with pytest.raises(ConfigError, match="products of their inputs' type"):
            to_inductor.lookup_table(wide)
        padded = carver.MatmulTemplate(**given, lda=8191).with_arch("h200").recommend_hints(10, "triton")
        with pytest.raises(ConfigError, match="the alignment of the rows of A: leave lda and ldb out"):
            to_inductor.lookup_table(padded)
        table = to_inductor.lookup_table(hints)
        assert to_inductor.lookup_table(list(hints)[::-1]) == table, "of any order"

        class Choices(choices.LookupTableChoices):  # type: ignore[misc,name-defined]
            _get_lookup_table = staticmethod(lambda: table)
            _get_device_key = staticmethod(lambda device: "some GPU")

        inputs = self.Inputs(shapes, strides, torch.float16)
        inputs.device, inputs._scalars = lambda: torch.device("cuda"), {}  # type: ignore[attr-defined]
        inputs.shapes_hinted = lambda: tuple(shapes)  # type: ignore[attr-defined, method-assign]
        template = mm_template if op == "mm" else bmm_template
        with config.patch({"lookup_table.check_src_hash": True}):
            found = Choices().lookup_template_configs(inputs, op, [template.uid], {template.uid: template.src_hash})
            [taken] = found[template.uid]
            assert not Choices().lookup_template_configs(inputs, op, [template.uid], {template.uid: "another"})
        said = [{k: h.config[k] for k in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")}
                for h in hints if h.config["SPLIT_K"] == 1]  # fmt: skip
        assert {k: v for k, v in taken.items() if k != "EVEN_K"} in said
        assert taken["EVEN_K"] is False, "a dynamic depth has the key of its first call"

    def test_gemm_configs_and_back(self) -> None:
        configs = to_inductor.configs(HINTS)
        assert OP.rank(configs).indices == list(range(len(configs)))

    def test_the_context_puts_back_what_was_there(self) -> None:
        from torch._inductor import config
        from torch._inductor.virtualized import V

        before = V.choices
        with to_inductor.tuned("h200", topk=3) as handler:
            assert V.choices is handler and config.inductor_choices_class() is handler
            assert handler.uuid() != to_inductor.choices("h200", topk=4).uuid()
            assert handler.uuid() == to_inductor.choices("h200", topk=3).uuid()
        assert V.choices is before and config.inductor_choices_class is None

    @pytest.mark.slow
    def test_a_compilation_on_the_cpu_asks_it(self) -> None:
        torch = package("torch")
        asked = []

        @torch.compile(mode="max-autotune")
        def product(a: Any, b: Any) -> Any:
            return a @ b

        a, b = torch.randn(64, 96, requires_grad=True), torch.randn(96, 32, requires_grad=True)
        fresh = torch._inductor.config.patch(force_disable_caches=True)
        with fresh, to_inductor.tuned("h200", topk=3) as handler:
            inner = handler._finalize_template_configs

            def watched(lists: Any, inputs: Any, templates: Any, operator: str, *rest: Any) -> Any:
                asked.append((operator, inputs.mnk_hinted()))
                return inner(lists, inputs, templates, operator, *rest)

            handler._finalize_template_configs = watched
            result = product(a, b)
        # with the products of the gradients, which autograd's own thread would compile without it
        assert sorted(asked) == [("mm", (64, 32, 96)), ("mm", (64, 96, 32)), ("mm", (96, 32, 64))]
        assert torch.allclose(result, a @ b, atol=1e-4)
