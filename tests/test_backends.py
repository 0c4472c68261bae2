"""Backends as records: what runs where, and which is recommended where none is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cases import KERNELS

import carver
from benchmarks.adapters import read
from carver.arch import devices
from carver.base.errors import ConfigError, KernelError
from carver.calibrate.fitting import predict_case
from carver.calibrate.tables import Case
from carver.compiled.triton import Target
from carver.kernels.backends import BACKENDS, preferred
from carver.kernels.declaration import Kernel


@pytest.mark.parametrize(
    ("device", "there", "name"),
    [
        ("h200", ("cuda", "triton", "cpu"), "cuda"),
        ("h200", ("triton", "kernel_tuner"), "triton"),
        ("mi300x", ("cuda", "triton", "cpu"), "triton"),
        ("mi300x", ("kernel_tuner", "kernel_tuner_hip"), "kernel_tuner_hip"),
        ("mi300x", ("cuda", "cpu"), "cuda"),  # tiles are advice
        ("gtx_1080_ti", ("triton",), "triton"),
        ("avx2", ("cuda", "triton", "cpu"), "cpu"),
        ("avx2", ("triton",), "cpu"),
    ],
)
def test_what_is_recommended_where_none_is_named(device: str, there: tuple[str, ...], name: str) -> None:
    assert preferred(carver.load_arch(device), there).name == name


@pytest.mark.parametrize(
    ("backend", "device", "runs"),
    [
        ("cuda", "h200", True), ("cuda", "mi300x", False), ("cuda", "avx2", False), ("cpu", "avx2", True),
        ("triton", "gtx_1080_ti", False), ("triton", "v100", True), ("triton", "mi300x", True), ("cpu", "h200", False),
        ("clblast", "m2_max", True), ("tensile", "h200", False),
    ],
)  # fmt: skip
def test_where_a_backend_runs(backend: str, device: str, runs: bool) -> None:
    assert BACKENDS[backend].runs_on(carver.load_arch(device)) is runs


def test_the_backend_and_the_compiler_agree_on_what_triton_compiles_for() -> None:
    compiled = []
    for name in devices.names():
        with suppress(ConfigError):
            Target.of(carver.load_arch(name))
            compiled.append(name)
    assert {"v100_sxm2", "t4", "mi100"} <= {*compiled}
    assert compiled == [name for name in devices.names() if BACKENDS["triton"].runs_on(carver.load_arch(name))]


def test_every_backend_has_a_kernel_and_every_source_a_backend() -> None:
    assert {kernel.backend for kernel in KERNELS} == set(BACKENDS)
    for kernel in KERNELS:
        assert (kernel.source is not None) == bool(BACKENDS[kernel.backend].source), kernel


def test_a_backend_that_is_not_there_is_told_by_name(declaration: Callable[..., Kernel]) -> None:
    with pytest.raises(KernelError, match="unknown backend 'tritn'; did you mean 'triton'"):
        declaration('backend = "tritn"\nmodel = "stream"\n[tunables]\nB = [1]\n[schedule]\nblocks = "B"\n')


def test_the_persistent_matmul_as_it_was_measured() -> None:
    """Shared memory to the byte, and the order of tiles."""
    table = (Path(__file__).parent / "data" / "h200" / "zoo.jsonl.gz").read_bytes()
    rows = [row for line in gzip.decompress(table).splitlines() if (row := json.loads(line)).get("shared")]
    for problem, (m, n, k) in enumerate(((4096, 4096, 4096), (2048, 8192, 2048), (8192, 1024, 1024))):
        ran = [row for row in rows if (row["kernel"], row["problem"]) == ("matmul_persistent", problem)]
        op = carver.MatmulTemplate(m, n, k, trans_B=True).with_arch("h200")
        ranking = op.rank([row["config"] for row in ran], "triton_tma")
        assert [hint.launch.smem_bytes for hint in ranking] == [ran[hint.index]["shared"] for hint in ranking]
        ms = np.array([row["time_ms"] for row in ran])
        assert ms[ranking.indices[:5]].min() <= 1.06 * ms.min()


@pytest.mark.parametrize(
    ("table", "first", "three"),
    [
        ("grouped_walk", 1.03, 1.01), ("attention_tma", 1.06, 1.02), ("decode", 1.05, 1.02), ("low_bits", 1.06, 1.02),
        ("rows_scaled", 1.06, 1.01), ("attention_backward", 1.05, 1.01), ("experts", 1.14, 1.03),
    ],
)  # fmt: skip
def test_other_kernels_of_triton_as_they_were_measured(table: str, first: float, three: float) -> None:
    """All that ran can run, in about the order of its times."""
    cases = [c for c in read(Path(__file__).parent / "data" / "h200" / f"{table}.csv") if isinstance(c, Case)]
    assert len(cases) >= 10
    lost = []
    for case in cases:
        predicted = predict_case(case, {})
        assert np.isfinite(predicted[np.isfinite(case.seconds)]).all()
        order = np.argsort(predicted, kind="stable")[:3]
        lost.append([np.nanmin(case.seconds[order[:k]]) / case.best_s for k in (1, 3)])
    assert (np.exp(np.log(lost).mean(axis=0)) <= (first, three)).all()
