"""Autotuned kernels of a process: ranked by what the compiler makes of them, then timed, or not."""

from __future__ import annotations

import errno
import functools
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import carver
from carver.arch import devices
from carver.base.errors import CompileError, ConfigError, DeviceError
from carver.compiled import worker
from carver.compiled.triton import Compiled, Target, compile_launched, hashed
from carver.compiled.worker import Forks
from carver.integrations.autotune import (
    Enabled,
    Race,
    Values,
    _timed_shortly,
    by_stamps,
    copies,
    enable_triton,
    fastest,
)
from carver.ranking.kernel import in_turns, most_compiled

triton = pytest.importorskip("triton")
Autotuner: Any = pytest.importorskip("triton.runtime.autotuner").Autotuner

from triton.runtime import driver  # noqa: E402

from tests import compiled_kernels  # noqa: E402

H100 = carver.CUDA("h100")


class Array:
    """What a launch passes on: type, shape, strides, an address."""

    def __init__(self, shape: tuple[int, ...], dtype: str = "torch.float16") -> None:
        self.shape, self.dtype = shape, dtype

    def stride(self) -> tuple[int, ...]:
        return (*(int(np.prod(self.shape[i + 1 :])) for i in range(len(self.shape))),)

    def data_ptr(self) -> int:
        return 256

    def is_floating_point(self) -> bool:
        return "float" in self.dtype

    def numel(self) -> int:
        return int(np.prod(self.shape))


class Timed(list[dict[str, Any]]):
    """Stands for the GPU: each launch and what it took, by the warps, which is no order that a model would give."""


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Timed:
    seen = Timed()
    run = compiled_kernels.copy.run

    def launched(*args: Any, warmup: bool = False, **kwargs: Any) -> Any:
        return run(*args, warmup=True, **kwargs) if warmup else seen.append(kwargs)

    monkeypatch.setattr(compiled_kernels.copy, "run", launched)
    return seen


@pytest.fixture
def enabled() -> Iterator[Enabled]:
    with enable_triton(2, H100) as log:
        yield log


def tuner(**options: Any) -> Any:
    configs = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (128, 1024, 4096) for warps in (1, 4)]
    benched: list[int] = []

    def bench(call: Any, quantiles: Any) -> list[float]:
        call()
        benched.append(1)
        return [float(len(benched))] * 3

    made = triton.autotune(configs, key=["n"], do_bench=bench, **options)(compiled_kernels.copy)
    made.benched = benched
    return made


def launch(kernel: Any, n: int = 1 << 24) -> None:
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](Array((n,)), Array((n,)), n)


@pytest.mark.slow
def test_only_the_first_are_timed(enabled: Enabled, launches: Timed) -> None:
    kernel = tuner()
    launch(kernel)
    assert len(kernel.benched) == 3, "the two, and the first of the list"
    [entry] = enabled
    assert (entry.kernel, entry.listed, entry.kept, entry.why) == ("copy", 6, 3, "")
    assert entry.first["BLOCK"] > 128  # a block of 128 halves with one warp moves 8 bytes a lane
    assert "copy" in repr(enabled)
    launch(kernel)
    assert len(kernel.benched) == 3 and len(enabled) == 1  # the key is known


@pytest.mark.slow
def test_what_was_timed_for_some_keys_ranks_the_next(launches: Timed) -> None:
    configs = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (512, 1024, 2048) for warps in (1, 4)]

    def bench(call: Any, quantiles: Any) -> list[float]:
        call()
        return [30.0 if launches[-1]["BLOCK"] == slow else 10.0] * 3

    with enable_triton(2, H100) as log:
        kernel = triton.autotune(configs, key=["n"], do_bench=bench)(compiled_kernels.copy)
        slow = carver.rank_kernel(
            compiled_kernels.copy, configs, args={"x_ptr": Array((1 << 24,)), "y_ptr": Array((1 << 24,)), "n": 1 << 24},
            grid=lambda meta: (triton.cdiv(1 << 24, meta["BLOCK"]),), arch=H100,
        )[0].config["BLOCK"]  # fmt: skip
        for n in (1 << 24, 1 << 25, 1 << 26):
            launch(kernel, n)
    assert [entry.why for entry in log] == [""] * 3
    assert log[0].first["BLOCK"] == slow and log[-1].first["BLOCK"] != slow


def test_with_one_nothing_is_timed(launches: Timed) -> None:
    with enable_triton(1, H100) as log:
        kernel = tuner()
        launch(kernel)
    assert not kernel.benched
    assert launches[-1]["BLOCK"] == log[0].first["BLOCK"]


def test_off_is_one(launches: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_TUNING", "off")
    with enable_triton(5, H100) as log:
        launch(tuner())
    assert log.topk == log[0].kept == 1


def test_what_cannot_be_ranked_is_tuned_as_before(enabled: Enabled, launches: Timed) -> None:
    kernel = tuner()
    kernel[lambda meta: (1,)](Array((64,), "torch.complex64"), Array((64,)), 64)
    assert len(kernel.benched) == 6
    assert "complex64" in enabled[0].why


def test_what_cannot_be_ranked_is_timed_as_long_as_before(enabled: Enabled, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def do_bench(call: Any, warmup: int = 25, rep: int = 100, **_: Any) -> list[float]:
        asked.append((warmup, rep))
        return [1.0, 1.0, 1.0]

    def lost(*_: Any) -> Any:
        raise CompileError("cannot be followed")

    monkeypatch.setattr("carver.integrations.autotune.fastest", lost)
    monkeypatch.setattr("triton.testing.do_bench", do_bench)
    monkeypatch.setattr(compiled_kernels.copy, "run", lambda *_, **__: None)
    configs = [triton.Config({"BLOCK": 128}, num_warps=warps) for warps in (1, 2, 4, 8)]
    kernel = triton.autotune(configs, key=["n"])(compiled_kernels.copy)
    monkeypatch.setitem(vars(kernel), "do_bench", do_bench)  # as Triton's driver gives it on a GPU
    kernel[lambda meta: (1,)](Array((64,)), Array((64,)), 64)
    assert enabled[0].why == "cannot be followed" and set(asked) == {(25, 100)}


@pytest.mark.slow
def test_own_pruning_comes_first(enabled: Enabled, launches: Timed) -> None:
    kernel = tuner(prune_configs_by={"early_config_prune": lambda configs, args, **_: configs[:2]})
    launch(kernel)
    assert len(kernel.benched) == 2
    assert "side by side" in enabled[0].why


@pytest.mark.slow
def test_what_is_launched_is_in_tritons_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    configs = [triton.Config({"BLOCK": 1024}, num_warps=warps) for warps in (1, 4)]
    n = 1 << 20
    given = {"x": Array((n,)), "y": Array((n,)), "n": n, "KIND": "DOUBLED", "grid": (n // 1024,)}

    def launcher(source: Any, metadata: Any) -> None:
        (tmp_path / "launcher").write_text(f"{source.signature['x']} {source.signature['KIND']}")

    monkeypatch.setattr(driver, "_active", SimpleNamespace(launcher_cls=launcher))
    assert copies(compiled_kernels.kind, configs, given, H100).filled(range(2)) == [0, 1]
    assert (tmp_path / "launcher").read_text() == "*fp16 constexpr"
    filled = {path for path in tmp_path.rglob("kind.cubin")}
    assert len(filled) == 2
    for config in configs:
        asked = {name: value for name, value in given.items() if name != "grid"} | config.all_kwargs()
        compile_launched(compiled_kernels.kind.run, Target.of(H100), asked)
    assert {path for path in tmp_path.rglob("kind.cubin")} == filled


@pytest.mark.slow
def test_what_takes_far_longer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carver.compiled.worker.LATE_S", 0.5)

    def build(place: int) -> Compiled:
        time.sleep(30 if place == 3 else 0.01)
        raise CompileError(f"no {place}")

    began = time.monotonic()
    pool = Forks(build, H100, processes=4, hurry=4)
    said = {key: reply["refused"] for key, reply in pool.replies({str(i): worker.request(i) for i in range(4)})}
    assert time.monotonic() - began < 20
    assert said["0"] == "no 0" and "not compiled within" in said["3"]
    assert Forks(lambda place: time.sleep(30 * (place == 3)), H100, 4, hurry=4).filled(range(4)) == [0, 1, 2]
    with Forks(lambda place: time.sleep(4 if place == 3 else 0.01), H100, 4, hurry=40) as part:  # of a long list
        assert part.filled(range(4)) == [0, 1, 2, 3]
    # of three times the middle one, 6 s or, where processes start late, more
    assert Forks(lambda place: time.sleep(30 if place == 3 else 2), H100, 4, hurry=4).filled(range(4)) == [0, 1, 2]
    assert Forks(lambda place: time.sleep(3 if place == 3 else 2), H100, 4, hurry=4).filled(range(4)) == [0, 1, 2, 3]


@pytest.mark.slow
def test_what_the_machine_lacked_is_asked_again() -> None:
    """No memory for an assembler, say: that is said as it is, and not kept as the compiler's answer."""
    raised = [OSError(errno.ENOMEM, "Cannot allocate memory", "ptxas"), MemoryError(), ValueError("no such tile")]

    def run(place: int, **_: Any) -> Any:
        raise RuntimeError("at 3:4") from raised[place]

    target = Target.of(H100)
    pool = Forks(lambda place: compile_launched(functools.partial(run, place), target, {}), H100, processes=2)
    said = dict(pool.replies({str(i): worker.request(i) for i in range(3)}))
    assert said["0"]["transient"] and "could not run" in said["0"]["refused"] and "ptxas" in said["0"]["refused"]
    assert said["1"]["transient"] and "memory" in said["1"]["refused"]
    assert said["2"] == {"refused": "ValueError: no such tile"}


@pytest.mark.slow
def test_a_copy_may_write_as_much_as_it_may_however_much_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that nobody has touched yet counts against a limit of what may be written to."""
    monkeypatch.setattr(worker, "MEMORY_BYTES", 1 << 28)
    mapped = np.empty(1 << 30, np.int8)

    def build(place: int) -> Any:
        np.ones(1 << (27 + 2 * place), np.int8)
        raise CompileError("had it")

    pool = Forks(build, H100, processes=2)
    said = dict(pool.replies({str(i): worker.request(i) for i in range(2)}))
    assert said["0"]["refused"] == "had it" and "memory" in said["1"]["refused"]
    assert mapped.size == 1 << 30


def test_short_lists_are_compiled_whole_while_somebody_waits_and_of_long_ones_a_part() -> None:
    assert [in_turns(14, 1), in_turns(15, 8), in_turns(32, 16)] == ["all"] * 3
    assert [most_compiled(in_turns(count, 2), count) for count in (15, 40, 100)] == [9, 15, 23]
    assert most_compiled(in_turns(33, 16), 33) == 13


@pytest.mark.slow
def test_of_a_long_list_what_is_compiled_is_timed_and_the_fastest_taken(
    launches: Timed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two cores compile ten of 18, and the list's first, and time each as it comes: nothing is read, and what was not
    compiled is not timed."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("carver.compiled.worker.cores_available", lambda: 2)
    monkeypatch.setattr("carver.integrations.autotune._default_timer", lambda tuner: True)
    monkeypatch.setattr("carver.integrations.autotune.rank_kernel", None)
    blocks, warps = (64, 128, 256, 512, 1024, 2048), (1, 2, 4)
    configs = [triton.Config({"BLOCK": block}, num_warps=each) for block in blocks for each in warps]

    def bench(call: Any, quantiles: Any) -> list[float]:
        call()
        took = 1.0 + abs(np.log2(launches[-1]["BLOCK"] / 512)) + abs(np.log2(launches[-1]["num_warps"] / 2))
        return [float(took)] * 3

    kernel = triton.autotune(configs, key=["n"], do_bench=bench)(compiled_kernels.copy)
    with enable_triton(2, H100) as log:
        launch(kernel)
    compiled = {path.parent for path in tmp_path.rglob("copy.cubin")}
    timed = {(each["BLOCK"], each["num_warps"]) for each in launches}
    assert (log[0].listed, log[0].kept, log[0].why) == (18, 3, "")
    assert 10 <= len(timed) <= 11 and len(compiled) == len(timed) and (64, 1) in timed
    assert (kernel.best_config.kwargs["BLOCK"], kernel.best_config.num_warps) == (512, 2)


def test_what_is_not_compiled_in_time_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [{"BLOCK": 16 << i // 8, "K": i % 8, "num_warps": 1 << i % 4} for i in range(40)]
    configs = [SimpleNamespace(kwargs=each, all_kwargs=each.copy) for each in every]
    timed: list[int] = []

    def time(config: Any) -> list[float]:
        timed.append(configs.index(config))
        return [math.inf if timed[-1] % 5 == 1 else 1.0 + timed[-1]] * 3

    compilers = SimpleNamespace(processes=2, filled=lambda places: sorted(each for each in places if each % 5 != 2))
    monkeypatch.setattr("carver.integrations.autotune.copies", lambda *_: nullcontext(compilers))
    kept, best = fastest(compiled_kernels.copy, configs, {"grid": (64,)}, H100, 3, time)
    places = [configs.index(each) for each in kept]
    assert places[0] == 0 and best == every[0] and places == sorted(places) and len(places) == 3
    assert not {place % 5 for place in places} & {1, 2} and not {place % 5 for place in timed} & {2}
    assert len(set(timed)) <= 2 * 15


def race_of(times_ms: Sequence[float], noise: float) -> tuple[int, int]:
    """The place that is taken, and how many timings it took: each is its median with so much noise."""
    drawn, every, taken = np.random.default_rng(0), [object() for _ in times_ms], list[int]()

    def time(config: object) -> list[float]:
        taken.append(place := next(i for i, each in enumerate(every) if each is config))
        median = times_ms[place] * drawn.normal(1.0, noise)
        return [median, median * (1 - noise), median * (1 + noise)]

    race = Race(every)
    said = [race.told(config, time)[0] for config in every]
    return int(np.argmin(said)), len(taken)


def test_a_race_of_many_that_are_alike_ends_soon_and_keeps_the_first() -> None:
    place, timings = race_of([1.0] * 20, 0.01)
    assert place == 0 and timings <= 20 + 8 * 6
    assert race_of([1.0, *[0.9] * 19], 0.003)[0] != 0
    assert race_of([1.0, 0.9, 1.0], 0.003) == (1, 3)  # sure at once


def test_only_tritons_own_timer_is_shortened(launches: Timed) -> None:
    from triton.testing import do_bench, do_bench_cudagraph

    kernel = tuner()
    with _timed_shortly(kernel):
        assert kernel.do_bench is kernel._do_bench
    kernel._do_bench, kernel.do_bench = None, do_bench
    with _timed_shortly(kernel):
        assert kernel.do_bench.keywords == {"warmup": 1, "rep": 2}
    assert kernel.do_bench is do_bench
    with _timed_shortly(kernel, "graph"):
        assert kernel.do_bench.func is do_bench_cudagraph
    with pytest.raises(ConfigError, match="no timer 'clock'"):
        enable_triton(2, H100, timer="clock")


def test_cupti_times_the_kernels_of_a_call_and_not_those_that_clear_l2(monkeypatch: pytest.MonkeyPatch) -> None:
    """To clear L2 takes one kernel of 5 us, a call two of 2 us with 1 us between them."""
    ran: list[tuple[int, int]] = []

    def kernel(ns: int, gap: int = 1000) -> None:
        began = (ran[-1][1] if ran else 0) + gap
        ran.append((began, began + ns))

    @contextmanager
    def stamped() -> Iterator[list[tuple[int, int]]]:
        found, before = list[tuple[int, int]](), len(ran)
        yield found
        found += ran[before:]

    active = SimpleNamespace(
        get_empty_cache_for_benchmark=lambda: None, clear_cache=lambda room: kernel(5000),
        get_device_interface=lambda: SimpleNamespace(synchronize=lambda: None),
    )  # fmt: skip
    monkeypatch.setattr(driver, "_active", active)
    monkeypatch.setattr("carver.integrations.autotune.stamped", stamped)
    monkeypatch.setattr("carver.integrations.autotune.check_timer", lambda timer: timer)
    assert by_stamps(lambda: (kernel(2000), kernel(2000)), (0.5, 0.2, 0.8)) == pytest.approx([5e-3] * 3)


def test_tritons_own_hash_is_made_while_a_kernel_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads 400 MB, once a process: by a thread from the start, and who needs it, or forks, waits for that one."""
    from triton.runtime import cache

    made: list[threading.Thread] = []
    begun, may_end = threading.Event(), threading.Event()

    @functools.lru_cache
    def triton_key() -> str:
        made.append(threading.current_thread())
        begun.set()
        may_end.wait(10)
        return "key"

    monkeypatch.setattr(cache, "triton_key", triton_key)
    with enable_triton(arch="h100"):
        assert begun.wait(10)
        threading.Timer(0.1, may_end.set).start()
        hashed()
        assert triton_key.cache_info().currsize == 1 and made != [threading.current_thread()]


def test_stopped_triton_is_itself_again() -> None:
    before = {name: vars(Autotuner)[name] for name in ("prune_configs", "_bench", "check_disk_cache")}
    enable_triton(3, H100).stop()
    assert {name: vars(Autotuner)[name] for name in before} == before


def test_enabled_twice() -> None:
    """As by a cell that runs again: the later settings hold, and neither stop() undoes too much."""
    before = {name: vars(Autotuner)[name] for name in ("prune_configs", "_bench", "check_disk_cache")}
    first = enable_triton(3, H100)
    with pytest.warns(UserWarning, match="Autotuner was enabled already") as said:
        second = enable_triton(1, H100)
    assert said[0].filename == __file__, "the user's own line, as of any warning"
    assert all(vars(Autotuner)[name].__wrapped__ is method for name, method in before.items()), "and not the first's"
    first.stop()
    assert vars(Autotuner)["prune_configs"] is not before["prune_configs"], "the second call's"
    second.stop()
    assert {name: vars(Autotuner)[name] for name in before} == before


def test_enabled_once_more_after_all() -> None:
    with enable_triton(3, H100), pytest.warns(UserWarning, match="enabled already"):
        second = enable_triton(3, H100)
    second.stop()


def test_the_end_of_an_inner_block_leaves_the_outer_one_in_place() -> None:
    before = vars(Autotuner)["prune_configs"]
    with enable_triton(3, H100) as outer:
        with pytest.warns(UserWarning, match="enabled already"), enable_triton(1, H100):
            pass
        assert vars(Autotuner)["prune_configs"].__wrapped__ is before and outer.restore
    assert vars(Autotuner)["prune_configs"] is before
    with enable_triton(3, H100) as outer, pytest.warns(UserWarning, match="enabled already"):
        with enable_triton(1, H100):
            outer.stop()
        assert vars(Autotuner)["prune_configs"] is before, "stopped is stopped"


def test_integers_and_single_numbers_are_copied_only_when_asked() -> None:
    wrapped = SimpleNamespace(data_ptr=lambda: 0, numel=lambda: 1)  # what a library passes in place of a tensor
    given = {"lengths": Array((8,), "torch.int32"), "x": Array((32,)), "g": Array((1,)), "n": 3, "buffer": wrapped}
    given["empty"] = Array((0,), "torch.int32")
    given["dtype"] = SimpleNamespace(is_floating_point=True)  # as torch.dtype has it
    values = Values(given)
    assert list(values) == ["lengths", "g"]


@pytest.mark.slow
def test_a_script_runs_with_it(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 7\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, helper\nfrom triton.runtime.autotuner import Autotuner\n"
        "print(sys.argv[1:], helper.VALUE, hasattr(Autotuner.prune_configs, '__wrapped__'))\n"
    )
    command = [sys.executable, "-m", "carver.triton", "--topk", "2", "--arch", "h100", str(script), "--lr", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "['--lr', '3'] 7 True"
    done = subprocess.run([*command[:7], "nowhere.py"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2 and done.stderr.endswith("there is no script 'nowhere.py'\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "ranks", "told"),
    [("3", "True", ""), ("pinned", "True", ""), ("many", "False", "neither a count"), ("9" * 5000, "False", "neither")],
)
def test_a_variable_ranks_for_a_whole_process(asked: str, ranks: str, told: str) -> None:
    code = "import carver._startup, triton; from triton.runtime.autotuner import Autotuner as A; "
    code += "print(hasattr(A.prune_configs, '__wrapped__'))"
    environment = os.environ | {"CARVER_TRITON": asked}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    assert done.stdout.strip() == ranks
    assert told in done.stderr


def test_the_readme_ranks_any_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    text = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
    block = "\n".join(re.findall(r"```py\n(.*?)```", text, re.DOTALL))
    monkeypatch.setitem(sys.modules, "mykernels", SimpleNamespace(my_kernel=compiled_kernels.rows))
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["ranking"].given == 9
    assert names["ranking"].arch.name == "rtx_4090"


def test_without_a_gpu_both_vendors_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on this machine: no driver of NVIDIA's, no folder of AMD's."""

    def missing(text: str) -> Callable[[str], Any]:
        def raises(name: str = "auto") -> Any:
            raise DeviceError(f"no {text} GPU here: why; name a device to get recommendations without it")

        return raises

    monkeypatch.setattr(devices, "CUDA", missing("NVIDIA"))
    monkeypatch.setattr(devices, "HIP", missing("AMD"))
    with pytest.raises(DeviceError, match=r"^no NVIDIA GPU here: why; no AMD GPU here: why; name a device"):
        devices.load("auto")
