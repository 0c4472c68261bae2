"""Kernels that Inductor writes, chosen with nothing timed: PyTorch and Triton as they are, for a GPU that is absent."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import carver
from carver.export import inductor
from carver.export.inductor import Kernels

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("torch._inductor.kernel_template_choice", reason="needs torch>=2.10")

from torch._inductor import config  # noqa: E402
from torch._inductor.codegen.triton import TritonKernel  # noqa: E402
from torch._inductor.runtime import triton_heuristics  # noqa: E402
from torch._inductor.runtime.hints import DeviceProperties, ReductionHint  # noqa: E402

from tests import inductor_kernels as written  # noqa: E402

pytestmark = pytest.mark.packages
H100 = carver.CUDA("h100")
GPU = DeviceProperties(
    type="cuda", index=0, multi_processor_count=132, cc=90, major=9, regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048, warp_size=32,
)  # fmt: skip
ROWS, COLUMNS = 4096, 8192


def tuner_of(heuristic: Callable[..., Any], kernel: Any, signature: dict[str, str], **given: Any) -> Any:
    """Inductor's tuner as the code that it writes makes it, with launchers that stand for the GPU's."""
    known = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind != "constexpr"}
    meta = {"grid_type": "Grid1D", "force_disable_caches": True, "num_load": 1, "num_store": 1, "num_reduction": 1}
    with config.patch(max_autotune_pointwise=True):
        tuner = heuristic(
            filename=__file__, inductor_meta={**TritonKernel.inductor_meta_common(), **meta}, **given,
            triton_meta={"signature": signature, "device": GPU, "constants": {}, "configs": [known]},
        )(kernel)  # fmt: skip
    tuner.launchers = [SimpleNamespace(config=each, cache_hash="none") for each in tuner.configs]
    return tuner


def gated() -> tuple[Any, tuple[Any, ...]]:
    names = {"in_ptr0": "*bf16", "in_ptr1": "*bf16", "out_ptr0": "*bf16", "xnumel": "i32", "XBLOCK": "constexpr"}
    tuner = tuner_of(
        triton_heuristics.pointwise, written.triton_poi_fused_mul_silu, names, size_hints={"x": ROWS * COLUMNS}
    )
    return tuner, (*(torch.empty(ROWS * COLUMNS, dtype=torch.bfloat16) for _ in range(3)), ROWS * COLUMNS)


def squares() -> tuple[Any, tuple[Any, ...]]:
    names = {"in_ptr0": "*bf16", "out_ptr0": "*fp32", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr",
             "R0_BLOCK": "constexpr"}  # fmt: skip
    sizes = {"x": ROWS, "r0_": COLUMNS}
    tuner = tuner_of(
        triton_heuristics.reduction, written.triton_red_fused_pow_sum, names, size_hints=sizes,
        reduction_hint=ReductionHint.INNER,
    )  # fmt: skip
    return tuner, (torch.empty(ROWS, COLUMNS, dtype=torch.bfloat16), torch.empty(ROWS), ROWS, COLUMNS)


@pytest.fixture(autouse=True)
def nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(*_: Any, **__: Any) -> float:
        raise AssertionError("timed")

    monkeypatch.setattr(triton_heuristics.CachingAutotuner, "bench", timed)
    monkeypatch.setattr(torch.utils._triton, "triton_hash_with_backend", lambda: "of a GPU that is absent")


@pytest.fixture
def deterministic() -> Any:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("made", [gated, squares])
def test_a_kernel_of_inductor_is_chosen_by_its_code(made: Any, deterministic: None) -> None:
    kernels = Kernels(H100)
    with kernels.chosen():
        tuner, args = made()
        listed = list(tuner.configs)
        assert len(listed) > 1, "the whole list, though algorithms are to be deterministic"
        tuner.autotune_to_one_config(*args)
    [launcher] = tuner.launchers
    [pin] = kernels.picks.values()
    assert launcher.config in listed and pin.config.items() >= launcher.config.kwargs.items() and not kernels.refused
    backwards = Kernels(H100)
    with backwards.chosen():
        again, args = made()
        again.launchers.reverse()
        again.autotune_to_one_config(*args)
    assert again.launchers[0].config.kwargs == launcher.config.kwargs and backwards.hash == kernels.hash != 0


def test_a_sum_over_contiguous_rows_is_not_read_by_columns() -> None:
    """Of the reduction's list, blocks of 64 rows by 4 columns read 8 bytes of each row at a time."""
    kernels = Kernels(H100)
    tuner, args = squares()
    [wasteful] = [c for c in tuner.configs if c.kwargs == {"XBLOCK": 64, "R0_BLOCK": 4}]
    taken = kernels.take(tuner, args, {}).config
    assert taken is not wasteful and taken.kwargs["R0_BLOCK"] >= 512, taken


def test_the_default_is_left_only_for_more_than_the_margin() -> None:
    """Of a reduction, the default is what the rule of Inductor's deterministic mode takes."""
    tuner, args = squares()
    rule = triton_heuristics.filter_reduction_configs_for_determinism
    [default] = rule({**tuner.inductor_meta, "deterministic": True}, list(tuner.configs))
    kernels = Kernels(H100, margin=10.0)
    assert kernels.take(tuner, args, {}).config is default and default is not tuner.configs[0]
    assert "no predicted gain above 1000%" in next(iter(kernels.picks.values())).why


def test_what_cannot_be_followed_takes_inductors_own() -> None:
    names = {"in_ptr0": "*fp32", "in_ptr1": "*i32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}
    tuner = tuner_of(triton_heuristics.pointwise, written.triton_poi_fused_jagged, names, size_hints={"x": 65536})
    kernels = Kernels(H100)
    args = torch.empty(64 * 65536), torch.empty(1, dtype=torch.int32), torch.empty(65536), 65536
    assert kernels.take(tuner, args, {}) is tuner.launchers[0] and not kernels.picks
    assert "in_ptr1" in kernels.refused["triton_poi_fused_jagged"]


def test_the_context_puts_back_what_was_there(deterministic: None) -> None:
    before, mode = triton_heuristics.CachingAutotuner.autotune_to_one_config, config.deterministic
    with inductor.pinned("h100", library=False):
        assert config.deterministic and not config.autotune_local_cache and not config.coordinate_descent_tuning
        assert config.max_autotune_gemm_backends == "TRITON"
        meta = TritonKernel.inductor_meta_common()
        assert not meta["deterministic"] and not meta["are_deterministic_algorithms_enabled"]
        assert meta["max_autotune_pointwise"]
    assert triton_heuristics.CachingAutotuner.autotune_to_one_config is before and config.deterministic == mode
    assert TritonKernel.inductor_meta_common()["are_deterministic_algorithms_enabled"]


@pytest.mark.slow
def test_a_compilation_on_the_cpu_passes_through() -> None:
    with config.patch(force_disable_caches=True), inductor.pinned("h100") as kernels:
        x = torch.randn(64, 96)
        assert torch.equal(torch.compile(lambda y: (y * 2).relu())(x), (x * 2).relu())
    assert not kernels.picks and not kernels.refused
