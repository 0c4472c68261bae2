"""Autotuned kernels of a process: ranked by what the compiler makes of them, then timed, or not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carver
from carver.base.errors import ConfigError
from carver.integrations.autotune import Enabled, Values, enable_triton

triton = pytest.importorskip("triton")
Autotuner: Any = pytest.importorskip("triton.runtime.autotuner").Autotuner

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
    monkeypatch.setattr(compiled_kernels.copy, "run", lambda *args, **kwargs: seen.append(kwargs))
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


def test_only_the_first_are_timed(enabled: Enabled, launches: Timed) -> None:
    kernel = tuner()
    launch(kernel)
    assert len(kernel.benched) == 2
    [entry] = enabled
    assert (entry.kernel, entry.listed, entry.kept, entry.why) == ("copy", 6, 2, "")
    assert entry.first["BLOCK"] > 128  # a block of 128 halves with one warp moves 8 bytes a lane
    assert "copy" in repr(enabled)
    launch(kernel)
    assert len(kernel.benched) == 2 and len(enabled) == 1  # the key is known


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


def test_own_pruning_comes_first(enabled: Enabled, launches: Timed) -> None:
    kernel = tuner(prune_configs_by={"early_config_prune": lambda configs, args, **_: configs[:2]})
    launch(kernel)
    assert len(kernel.benched) == 2
    assert "no more than 2" in enabled[0].why


def test_stopped_triton_is_itself_again() -> None:
    before = {name: vars(Autotuner)[name] for name in ("prune_configs", "_bench", "check_disk_cache")}
    enable_triton(3, H100).stop()
    assert {name: vars(Autotuner)[name] for name in before} == before


def test_enabled_once() -> None:
    with enable_triton(3, H100), pytest.raises(ConfigError, match="enabled already"):
        enable_triton(3, H100)


def test_integers_are_copied_only_when_asked() -> None:
    values = Values({"lengths": Array((8,), "torch.int32"), "x": Array((8,)), "n": 3})
    assert list(values) == ["lengths"]


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


@pytest.mark.parametrize(("asked", "ranks", "told"), [("3", "True", ""), ("many", "False", "no count")])
def test_a_variable_ranks_for_a_whole_process(asked: str, ranks: str, told: str) -> None:
    code = "import carver._startup, triton; from triton.runtime.autotuner import Autotuner as A; "
    code += "print(hasattr(A.prune_configs, '__wrapped__'))"
    environment = os.environ | {"CARVER_TRITON": asked}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    assert done.stdout.strip() == ranks
    assert told in done.stderr
