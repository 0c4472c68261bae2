"""Kernels of any language through `carver.rank_kernel`, `carver.inspect` and `carver.enable`, with no GPU."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import carver
from carver.base.errors import ConfigError, DeviceError, NoCandidates
from carver.compiled.isa import sass
from carver.compiled.isa.sass import tool
from carver.export.kernel_tuner import restriction
from carver.integrations.enable import TOOLS, Enabled
from carver.integrations.kernels import made


def _disassembler() -> bool:
    try:
        return tool().is_file()
    except DeviceError:
        return False


pytestmark = pytest.mark.skipif(not shutil.which("nvcc") or not _disassembler(), reason="no nvcc or no nvdisasm")
T = carver.Tensor
N = 1 << 24

SCALE = r"""
extern "C" __global__ void __launch_bounds__(BX) scale(float* y, const float* x, int n) {
    #pragma unroll
    for (int k = 0; k < WORK; k++) {
        int i = (blockIdx.x * WORK + k) * BX + threadIdx.x;
        if (i < n) y[i] = 2 * x[i];
    }
}
"""
WALK = r"""
extern "C" __global__ void walk(float* y, const float* x, int n) {
    float total = 0;
    #pragma unroll 1
    for (int i = threadIdx.x; i < n; i += BX) total += x[(long)blockIdx.x * n + i];
    y[blockIdx.x * BX + threadIdx.x] = total;
}
"""
ARGS = [T("float32", (N,)), T("float32", (N,)), N]


def blocks(config: dict[str, Any]) -> int:
    return -(-N // (config["BX"] * config["WORK"]))


@pytest.mark.slow
def test_a_cuda_source_is_ranked_and_says_what_it_moves() -> None:
    ranking = carver.rank_kernel(
        carver.Kernel(SCALE, "scale"), {"BX": [32, 256], "WORK": [1, 4]}, args=ARGS, grid=blocks,
        block=lambda config: config["BX"], arch="h100",
    )  # fmt: skip
    assert len(ranking) == 4
    assert ranking[-1].config == {"BX": 32, "WORK": 1}  # 32 blocks of a warp on an SM, of the 64 warps that it holds
    facts = ranking[0].facts
    assert (facts.read_bytes, facts.written_bytes) == (4 * N, 4 * N)
    # 128 MiB at the 3.35 TB/s of the datasheet are 0.040 ms
    assert 0.040 < ranking[0].predicted_ms < 0.070
    # a kernel of the caller's own is the same to the model, whoever compiled it
    made = carver.rank_kernel(
        lambda BX, WORK: carver.Kernel(SCALE, "scale", N // BX // WORK, BX, defines={"BX": BX, "WORK": WORK}),
        [{"BX": 256, "WORK": 4}], args=ARGS, arch="h100",
    )  # fmt: skip
    [same] = [hint for hint in ranking if hint.config == made[0].config]
    assert made[0].predicted_ms == pytest.approx(same.predicted_ms)


@pytest.mark.slow
def test_passes_of_a_loop_follow_the_arguments() -> None:
    rows, cols = 512, 4096
    facts = carver.inspect(
        carver.Kernel(WALK, "walk"), config={"BX": 128}, grid=rows, block=128, arch="a100",
        args={"y": T("float32", (rows, 128)), "x": T("float32", (rows, cols)), "n": cols},
    )  # fmt: skip
    [loop] = [loop for loop in facts.loops if loop.trips > 1]
    assert loop.trips == cols // 128
    assert facts.read_bytes == rows * cols * 4
    assert any("x" in str(access.argument) for access in facts.accesses)


def test_binaries_keep_their_places() -> None:
    from carver.integrations.kernels import Made

    arch = carver.load_arch("h100")
    make = Made(carver.Kernel(SCALE, "scale"), ARGS, blocks, lambda config: config["BX"], arch).binary
    slow, fast = make({"BX": 32, "WORK": 1}), make({"BX": 256, "WORK": 4})
    ranking = carver.rank_kernel([slow, fast, slow], arch="h100")
    assert (ranking[0].index, ranking[1].index) == (1, 0)
    assert tuple(ranking[1].also) == (2,)
    assert carver.rank_kernel(fast, arch="h100")[0].predicted_ms == pytest.approx(ranking[0].predicted_ms)
    with pytest.raises(ConfigError, match="2 binaries, but 1"):
        carver.rank_kernel([slow, fast], [{}], arch="h100")


@pytest.mark.slow
def test_binaries_are_disassembled_in_one_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A disassembler takes as long to start as a binary to be evaluated. One that cannot be read refuses no other."""
    from carver.integrations.kernels import Made, evaluated

    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    arch, listings = carver.load_arch("h100"), list[bytes]()
    make = Made(carver.Kernel(SCALE, "scale"), ARGS, blocks, lambda config: config["BX"], arch).binary
    some = [make({"BX": width, "WORK": 1}) for width in (64, 128, 256)]
    broken = carver.Binary(some[0].code[:64], "scale", some[0].args, some[0].grid, some[0].block)
    ranking = carver.rank_kernel([*some, broken, some[1]], arch="h100", processes=1)
    assert sorted(hint.index for hint in ranking) == [0, 1, 2]
    assert len(ranking.reasons) == 1 and "3" in str(ranking.reasons)
    read = sass.disassemble
    monkeypatch.setattr(sass, "disassemble", lambda code, sm: listings.append(code) or read(code, sm))
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "empty"))
    together = evaluated(some, arch)
    assert len(listings) == 1
    assert [hint.facts for hint in sorted(ranking, key=lambda hint: hint.index)] == together
    assert evaluated(some, arch) == together and len(listings) == 1  # they are kept


@pytest.mark.slow
def test_each_option_works_or_is_refused() -> None:
    kernel, given = carver.Kernel(SCALE, "scale", defines={"BX": 64, "WORK": 1}), {"args": ARGS, "arch": "h100"}
    call = {**given, "grid": N // 64, "block": 64}
    with_launch, without = (carver.rank_kernel(kernel, [{}], **call, launch=each)[0] for each in (True, False))
    assert with_launch.predicted_ms - without.predicted_ms == pytest.approx(4.2e-3)  # what a launch takes
    with pytest.raises(ConfigError, match="is a share above 0"):
        carver.rank_kernel(kernel, [{}], **call, compile="some")
    with pytest.raises(TypeError, match="has no argument 'lunch'"):
        carver.rank_kernel(kernel, [{}], **call, lunch=False)
    binary = carver.Binary(b"\x7fELF", "scale")
    for name, value in (("args", ARGS), ("grid", 1), ("block", 64), ("constants", {"BX": 1})):
        with pytest.raises(ConfigError, match="are the binaries' own"):
            carver.rank_kernel([binary], arch="h100", **{name: value})


@pytest.mark.slow
def test_some_of_a_long_list_of_any_language_are_made() -> None:
    """Kernels that a function makes, of two codes: one of two tunables changes nothing, which four tell."""
    from carver.integrations.kernels import Made

    arch = carver.load_arch("h100")
    make = Made(carver.Kernel(SCALE, "scale"), ARGS, blocks, lambda config: config["BX"], arch).binary
    codes = {work: make({"BX": 256, "WORK": work}) for work in (1, 4)}
    configs = [{"tile": tile, "work": work} for tile in range(12) for work in codes]

    def of(tile: int, work: int) -> carver.Binary:
        return codes[work]

    ranking = carver.rank_kernel(of, configs, arch="h100")
    assert ranking.given == 24 and "4 of 24 were compiled" in str(ranking)
    assert sum("predicted from those that were" in why for why in ranking.reasons.values()) == 20
    every = carver.rank_kernel(of, configs, arch="h100", compile="all")
    assert not every.reasons and ranking[0].predicted_ms == every[0].predicted_ms


@pytest.mark.slow
def test_what_a_compiler_refuses_is_a_reason() -> None:
    configs = [{"BX": 256, "WORK": 1}, {"BX": "no_such", "WORK": 1}, {"BX": 4096, "WORK": 1}]
    ranking = carver.rank_kernel(
        carver.Kernel(SCALE, "scale"), configs, args=ARGS, grid=1, arch="h100",
        block=lambda config: 256 if config["BX"] == "no_such" else config["BX"],
    )  # fmt: skip
    assert ranking.indices[0] == 0 and 1 in ranking.reasons
    with pytest.raises(NoCandidates):
        carver.rank_kernel(carver.Kernel(SCALE, "scale"), configs[1:2], args=ARGS, grid=1, block=1, arch="h100")
    with pytest.raises(ConfigError, match="list"):
        carver.rank_kernel(carver.Kernel(SCALE, "scale"), args=ARGS, grid=1, block=1, arch="h100")


def test_a_tilelang_list_is_ranked() -> None:
    pytest.importorskip("tilelang")
    from languages import tilelang_gemm

    ranking = carver.rank_kernel(tilelang_gemm.tuned, args={"M": 4096, "N": 4096, "K": 1024}, arch="h100")
    assert (ranking.given, len(ranking)) == (2, 2)
    assert ranking[0].config["block"] == (128, 128, 64)  # a quarter of the passes, and fewer bytes a product
    assert ranking[0].facts.dot_flops * ranking[0].facts.programs == 2 * 4096 * 4096 * 1024


@pytest.fixture
def tilelang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """TileLang with an empty cache, and a benchmark that stands for the GPU: of two the second is the fastest."""
    pytest.importorskip("tilelang")
    from tilelang import env
    from tilelang.autotuner.tuner import AutoTuner
    from tilelang.contrib import nvcc

    seen = SimpleNamespace(timed=[], compiled=0)
    compile_cuda = nvcc.compile_cuda

    def compiled(*args: Any, **kwargs: Any) -> Any:
        seen.compiled += 1
        return compile_cuda(*args, **kwargs)

    def benchmark(self: Any, jit_kernel: Any, *args: Any, **kwargs: Any) -> tuple[float, None]:
        seen.timed.append(jit_kernel)
        return (1.0 if len(seen.timed) == 2 else 2.0), None

    monkeypatch.setattr(env, "TILELANG_CACHE_DIR", str(tmp_path), raising=False)
    monkeypatch.setattr(AutoTuner, "_memory_cache", {})
    monkeypatch.setattr(AutoTuner, "_benchmark_target", benchmark)
    monkeypatch.setattr(nvcc, "compile_cuda", compiled)
    monkeypatch.chdir(tmp_path)
    return seen


def test_tilelang_times_the_first_and_keeps_its_caches(tilelang: SimpleNamespace) -> None:
    import tilelang as tl
    from languages import tilelang_gemm

    configs = [{"block": (m, n, 32), "stages": 2} for m in (64, 128) for n in (64, 128)]
    target = {"kind": "cuda", "arch": "sm_90a"}

    def tuned() -> Any:
        return tl.autotune(configs=configs, warmup=1, rep=1)(tl.jit(target=target)(tilelang_gemm.gemm))

    with carver.enable("tilelang", topk=2, arch="h100") as log:
        kernel = tuned()(M=512, N=512, K=256)
    [entry] = log
    assert (entry.kernel, entry.listed, entry.kept, entry.why) == ("gemm", 4, 2, "")
    assert len(tilelang.timed) == 2
    assert tilelang.compiled == 0  # copies of the process filled the cache of cubins
    assert kernel.config in configs
    # without the line the same list finds the result in TileLang's own cache
    again = tuned()(M=512, N=512, K=256)
    assert len(tilelang.timed) == 2 and list(again.config["block"]) == list(kernel.config["block"])


VECTOR_ADD = """
__global__ void vector_add(float *c, const float *a, const float *b, int n) {
    #pragma unroll
    for (int k = 0; k < work; k++) {
        int i = (blockIdx.x * work + k) * block_size_x + threadIdx.x;
        if (i < n) c[i] = a[i] + b[i];
    }
}
"""
SPACE = {"block_size_x": [32, 128, 256], "work": [1, 4]}


@pytest.fixture
def tune(tmp_path: Path) -> Any:
    """`tune_kernel` over a cachefile in which every configuration has its time."""
    kernel_tuner = pytest.importorskip("kernel_tuner")
    rows = {}
    for place, values in enumerate(itertools.product(*SPACE.values())):
        ms = 10.0 - place
        row = dict(zip(SPACE, values, strict=True)) | {"time": ms, "times": [ms] * 7, "J": 1.0 + place}
        spent = ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time")
        rows[",".join(map(str, values))] = row | dict.fromkeys(spent, 0) | {"timestamp": "2026-11-27 00:00:00"}
    cache = {
        "device_name": "a GPU", "kernel_name": "vector_add", "problem_size": N, "tune_params_keys": list(SPACE),
        "tune_params": SPACE, "objective": "time", "cache": rows,
    }  # fmt: skip
    (tmp_path / "cache.json").write_text(json.dumps(cache))

    def run(**more: Any) -> list[tuple[int, ...]]:
        results, _ = kernel_tuner.tune_kernel(
            "vector_add", VECTOR_ADD, N, [np.zeros(N, np.float32)] * 3 + [np.int32(N)], SPACE,
            grid_div_x=["block_size_x", "work"], simulation_mode=True, cache=str(tmp_path / "cache.json"), quiet=True,
            **more,
        )  # fmt: skip
        return [tuple(each[name] for name in SPACE) for each in results]

    return run


@pytest.mark.slow
@pytest.mark.packages
def test_kernel_tuner_times_the_first_of_a_space(tune: Any) -> None:
    assert len(tune()) == 6
    with carver.enable("kernel_tuner", topk=2, arch="h100") as log:
        timed = tune()
    assert len(timed) == 2 and (32, 1) not in timed  # that fills half of an SM
    [entry] = log
    assert (entry.kernel, entry.listed, entry.kept, entry.why) == ("vector_add", 6, 2, "")
    assert len(tune()) == 6


@pytest.mark.packages
def test_a_budget_of_kernel_tuner_ends_among_the_first(tune: Any) -> None:
    from carver.integrations.kernel_tuner import RankedStrategy

    budget: dict[str, Any] = {"strategy_options": {"max_fevals": 1}}
    with carver.enable("kernel_tuner", topk=3, arch="h100"):
        assert len(tune(strategy="random_sample", **budget)) == 1
    assert len(tune(strategy=RankedStrategy(3, "h100"), **budget)) == 1


@pytest.mark.packages
@pytest.mark.parametrize(
    ("objective", "higher", "kept"),
    [("rate", True, 2), ("rate", False, 6), ("J", False, 6), ("per_J", True, 6), ("time", True, 6)],
)
def test_kernel_tuner_is_left_alone_where_time_is_not_the_objective(
    tune: Any, objective: str, higher: bool, kept: int
) -> None:
    metrics = {"rate": "1000 / time"} | ({"per_J": lambda found: 1 / found["J"]} if objective == "per_J" else {})
    with carver.enable("kernel_tuner", topk=2, arch="h100") as log:
        found = tune(metrics=metrics, objective=objective, objective_higher_is_better=higher)
    why = f"the objective is {objective}, and what carver predicts is time"
    assert len(found) == kept and log[0].why == (why if kept == 6 else "")


@pytest.mark.packages
def test_kernel_tuner_as_a_strategy_and_as_a_filter(tune: Any) -> None:
    from carver.integrations.kernel_tuner import RankedStrategy, rank_space

    ranking = rank_space(
        "vector_add", VECTOR_ADD, N, [np.zeros(N, np.float32)] * 3 + [np.int32(N)], SPACE, arch="h100",
        grid_div_x=["block_size_x", "work"], restrictions=["block_size_x > 32"],
    )  # fmt: skip
    assert ranking.given == 4
    first = [tuple(hint.config[name] for name in SPACE) for hint in ranking[:2]]
    assert set(tune(restrictions=[restriction(ranking[:2])])) == set(first)
    assert tune(strategy=RankedStrategy(2, "h100"))[:2] == first
    going_on = RankedStrategy(1, "h100", then="greedy_ils")
    assert tune(strategy=going_on, strategy_options={"max_fevals": 3})[0] == first[0]
    with pytest.raises(ConfigError, match="no_such"):
        rank_space("vector_add", VECTOR_ADD, N, [], SPACE, arch="h100", no_such=1)


@pytest.mark.packages
def test_a_large_space_of_kernel_tuner_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 6 configurations 4 are compiled; `ranking.search` says which."""
    pytest.importorskip("kernel_tuner")
    from carver.integrations import kernel_tuner as ours

    for name, few in (("WHOLE", 5), ("MOST", 4)):
        monkeypatch.setattr(ours, name, few)
    ranking = ours.rank_space(
        "vector_add", VECTOR_ADD, N, [np.zeros(N, np.float32)] * 3 + [np.int32(N)], SPACE, arch="h100",
        grid_div_x=["block_size_x", "work"],
    )  # fmt: skip
    assert ranking.search is not None and ranking.search.ended == "4 were compiled"
    assert all(step.config.keys() == SPACE.keys() for step in ranking.search.steps)


def test_cutile_searches_among_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ct = pytest.importorskip("cuda.tile")
    from cuda.tile.tune import _tune
    from languages import cutile_matmul

    timed: list[Any] = []
    monkeypatch.setattr(_tune, "_benchmark", lambda stream, grid, kernel, args, flush: timed.append(args[3:]) or 10.0)
    a = T("float32", (1 << 22,))
    space = [{"width": width} for width in (32, 256, 1024, 4096)]

    kept = ModuleType("kept")  # which imported the function before carver came
    kept.search = ct.tune.exhaustive_search  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kept", kept)

    def search() -> Any:
        return kept.search(
            space, None, lambda f: ((1 << 22) // f["width"],), cutile_matmul.shifted,
            lambda f: (a, a, 1.5, f["width"]), lambda f: {"occupancy": 1}, quiet=True,
        )  # fmt: skip

    assert len(search().successes) == 4
    with carver.enable("cuda.tile", topk=2, arch="a100") as log:
        found = search()
    assert log[0].why == "" and len(found.successes) == log[0].kept == 2
    assert len(search().successes) == 4
    first = carver.enable("cuda.tile", topk=2, arch="a100")
    with pytest.warns(UserWarning, match="enabled already"):
        second = carver.enable("cuda.tile", topk=3, arch="a100")
    assert len(search().successes) == 3 == second[0].kept and not first
    second.stop()
    with carver.enable("cuda.tile", topk=2, arch="h100") as log:  # since 9.0 its kernels make their tensor maps
        assert len(search().successes) == 2 == log[0].kept


def test_one_switch_for_all_tools() -> None:
    with pytest.raises(ConfigError, match="tilelang"):
        carver.enable("tilelnag", arch="h100")
    assert set(TOOLS) == {"triton", "tilelang", "cuda.tile", "kernel_tuner"}
    pytest.importorskip("kernel_tuner")
    from kernel_tuner.interface import strategy_map

    before = dict(strategy_map)
    first = carver.enable("kernel_tuner", arch="h100")
    with pytest.warns(UserWarning, match="Kernel Tuner was enabled already"):
        second = carver.enable("kernel_tuner", arch="h100")
    first.stop()
    assert all(each._log is second for each in strategy_map.values())
    second.stop()
    assert strategy_map == before


def test_a_tool_that_cannot_be_enabled_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of another version, which lacks a method that is replaced."""
    monkeypatch.setitem(TOOLS, "kernel_tuner", "cutile")
    monkeypatch.setitem(sys.modules, "cuda.tile.tune", ModuleType("cuda.tile.tune"))
    monkeypatch.setitem(sys.modules, "cuda.tile", ModuleType("cuda.tile"))
    monkeypatch.setattr("carver.integrations.enable._installed", lambda tool: tool in ("triton", "kernel_tuner"))
    with pytest.raises(ConfigError, match="kernel_tuner cannot be enabled"):
        carver.enable("kernel_tuner", arch="h100")
    from triton.runtime.autotuner import Autotuner

    own = Autotuner.prune_configs
    with pytest.warns(UserWarning, match="kernel_tuner cannot be enabled") as said:
        log = carver.enable(arch="h100")
    assert said[0].filename == __file__ and Autotuner.prune_configs is not own
    log.stop()
    assert Autotuner.prune_configs is own


def test_a_tool_goes_on_whatever_fails() -> None:
    log = Enabled(2, "h100")

    def fails() -> Any:
        raise ValueError("no such tile")

    assert log.first("kernel", [1, 2, 3], fails) == [1, 2, 3]
    assert (log[0].kept, log[0].why) == (3, "ValueError: no such tile")


@pytest.mark.slow
def test_a_launch_is_followed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Facts of a binary are kept until its code, its arguments or what tensors hold change."""
    from carver.integrations import kernels

    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    followed: list[Any] = []
    follow = kernels.facts_of_binary
    monkeypatch.setattr(kernels, "facts_of_binary", lambda *given: followed.append(given) or follow(*given))
    maker = kernels.Made(carver.Kernel(WALK, "walk"), [T("float32", (64,)), T("float32", (1, 64)), np.int32(64)], 1,
                         lambda config: config["BX"], kernels.load("h100"))  # fmt: skip
    binary = maker.binary({"BX": 32})
    first = carver.inspect(binary, arch="h100")
    assert carver.inspect(binary, arch="h100") == first
    assert len(followed) == 1
    longer = carver.Binary(binary.code, binary.entry, (*binary.args[:2], np.int32(32)), binary.grid, binary.block)
    assert carver.inspect(longer, arch="h100") != first
    carver.inspect(binary, arch="h200")
    assert len(followed) == 3


def test_a_function_of_a_configuration_may_call_it_as_a_tensor_is_called() -> None:
    """Its one parameter is the configuration, unless its name is one of an entry or of a size."""
    binary = object()
    tensor, config = carver.Tensor("float32", (8,)), {"block": 64}
    assert made(lambda c: (binary, c["block"]), {"c": tensor}, config) == ((binary, 64), {"c": tensor}, {})
    assert made(lambda n: (binary, n), {"c": tensor, "n": 8}, config) == ((binary, 8), {"c": tensor}, config)
    assert made(lambda block: (binary, block), {"c": tensor}, config) == ((binary, 64), {"c": tensor}, {})


def test_an_empty_list_of_binaries_is_told() -> None:
    with pytest.raises(ConfigError, match=r"kernel is an empty list; give a carver\.Binary"):
        carver.rank_kernel([], arch="h100")
