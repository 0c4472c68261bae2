"""Helion's space, autotuner and searches at predicted times, against the package itself. No GPU is needed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import carver
from carver.compiled.triton import Target

pytest.importorskip("helion", reason="needs helion==1.5.1", exc_type=ImportError)

import helion
import helion.language as hl
import torch

from carver.integrations import helion as ours
from carver.integrations.helion_tuner import PricedSearch, at_prices, autotuner, priced_provider
from tests.helion_kernels import attention, layer_norm, matmul

pytestmark = [pytest.mark.packages, pytest.mark.usefixtures("own_cache")]
H100 = carver.load_arch("h100")
SIZE = 512


@pytest.fixture(scope="module")
def tensor() -> Iterator[Any]:
    with ours.absent("h100") as made:
        yield made


@pytest.fixture
def args(tensor: Any) -> tuple[Any, Any]:
    return tensor(SIZE, SIZE, dtype=torch.float16), tensor(SIZE, SIZE, dtype=torch.float16)


def test_pytorch_is_as_it_was_afterwards() -> None:
    from triton.runtime import driver

    before, cuda = torch.cuda.is_available(), driver.__dict__.get("_active")
    with ours.absent("h100") as made:
        assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
        assert made(3, dtype=torch.int8).device.type == "cuda"
        assert driver.active.get_current_target().arch == int(Target.of(H100).arch)
    assert torch.cuda.is_available() == before and driver.__dict__.get("_active") is cuda
    with pytest.raises(carver.CarverError, match="NVIDIA"), ours.absent("mi300x"):
        pass


@helion.kernel(static_shapes=True)
def gated(x: torch.Tensor) -> torch.Tensor:
    rows, both = x.size()
    left, right = x[:, : both // 2], x[:, both // 2 :]
    out = torch.empty([rows, both // 2], dtype=x.dtype, device=x.device)
    for m, n in hl.tile([rows, both // 2]):
        out[m, n] = left[m, n] * right[m, n]
    return out


def test_a_kernel_may_index_its_arguments_before_its_loops(tensor: Any) -> None:
    args = (tensor(SIZE, 2 * SIZE, dtype=torch.float16),)
    bound = gated.bind(args)
    default = ours.flat(bound.config_spec.default_config())
    [seconds] = ours.priced(ours.HelionKernels(bound, args, H100), [default], H100)
    assert 0 < seconds < 1e-3
    x = torch.arange(120).reshape(2, 3, 4, 5)
    for places in ((1,), (slice(1), ..., 2), (..., None, slice(1, 4, 2)), (None, 0, slice(None), -1), (...,)):
        assert torch.equal(ours._viewed(x, places), x[places])


def test_a_kernel_is_bound_though_no_cuda_device_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._subclasses import fake_tensor

    def started(device: torch.device) -> None:
        raise RuntimeError("No CUDA GPUs are available")  # as PyTorch built for CUDA says where there is none

    monkeypatch.setattr(fake_tensor, "init_gpu_context", started)
    with ours.absent("h100") as made:
        assert gated.bind((made(64, 256, dtype=torch.float16),)).config_spec.default_config()
    assert fake_tensor.init_gpu_context is started


@pytest.mark.slow
def test_a_search_beats_the_default_and_is_repeatable(args: Any) -> None:
    bound = matmul.bind(args)
    ranking = ours.search(bound, args, arch="h100", most=6, budget_s=None)
    again = ours.search(bound, args, arch="h100", most=6, budget_s=None)
    assert ranking.search is not None and again.search is not None and len(ranking.search.steps) == 6
    assert [s.config for s in ranking.search.steps] == [s.config for s in again.search.steps]
    assert again.search.steps[-1].seconds < ranking.search.steps[-1].seconds
    default = ours.flat(bound.config_spec.default_config())
    [default_s] = ours.priced(ours.HelionKernels(bound, args, H100), [default], H100)
    assert ranking.seconds[0] <= default_s
    assert "block_sizes.2" in ranking[0].config and ranking.backend == "helion"
    assert bound.to_triton_code(ours.config_of(ranking[0].config))


def test_candidates_are_members_that_can_be_fast(args: Any, tensor: Any) -> None:
    space = ours.HelionSpace(matmul.bind(args), H100)
    drawn = space.candidates([], math.inf, random.Random(0))
    assert drawn == space.candidates([], math.inf, random.Random(0)) and len(drawn) > 20
    threads = [(c["block_sizes.0"] * c["block_sizes.1"], 32 * c["num_warps"]) for c in drawn]
    assert all(2 * t <= mn or 2 * t <= c["block_sizes.2"] * max(c["block_sizes.0"], c["block_sizes.1"])
               for (mn, t), c in zip(threads, drawn, strict=True))  # fmt: skip
    assert all(mn <= 256 * t for mn, t in threads)
    near = space.candidates(drawn[:1], math.inf, random.Random(0))[len(drawn) :]
    assert near and all(space.member(config) == config for config in near)
    # 512^3 in tiles of 16 x 16: each operand is read 32 times, 2 x 32 x 512 KiB, from an L2 of 5.5 TB/s
    small = helion.Config(block_sizes=[16, 16, 64], num_warps=4, num_stages=2)
    assert space.least_s(small) == pytest.approx(2 * 32 * 512 * 512 * 2 / H100.l2_bytes_per_s)
    assert space.refused(small, best_s=1e-6) == "bytes of L2"
    assert "elements for 128 threads" in space.refused(helion.Config(block_sizes=[512, 512, 16], num_warps=4))
    # launches take 67 us with three descriptors made by the host and 49 with three of the kernel; a product of
    # 512 x 2048 x 8192 takes 26 us in a graph
    for host, fits_s in ((True, 6.0e-5), (False, 4.5e-5)):
        config = helion.Config(block_sizes=[64, 128, 64], num_warps=4, indexing=["tensor_descriptor"] * 3,
                               host_tensor_descriptors=host)  # fmt: skip
        assert space.refused(config, best_s=26e-6) == "what the host does for tensor descriptors"
        assert not space.refused(config, best_s=fits_s)
        assert not ours.HelionSpace(matmul.bind(args), H100, launch=False).refused(config, best_s=26e-6)


@pytest.mark.parametrize(
    ("kernel", "shapes", "hinted"),
    [(attention, [(4, 1024, 64)] * 3, True), (layer_norm, [(4096, 1024), (1024,), (1024,)], False)],
)
def test_it_begins_with_hints_of_a_known_operator(tensor: Any, kernel: Any, shapes: Any, hinted: bool) -> None:
    given = tuple(tensor(*shape, dtype=torch.float16) for shape in shapes)
    space = ours.HelionSpace(kernel.bind(given), H100)
    seeds = space.seeds()
    assert all(space.member(seed) for seed in seeds)
    if hinted:
        op = carver.FlashAttentionTemplate(heads=4, seq=1024, head_dim=64).with_arch("h100")
        first = op.recommend_hints(1, backend="triton")[0].config
        assert (seeds[0]["block_sizes.1"], seeds[0]["num_warps"]) == (first["BLOCK_M"], first["num_warps"])
        assert seeds[0]["block_sizes.0"] == 1
    [price] = ours.priced(ours.HelionKernels(kernel.bind(given), given, H100), seeds[:1], H100)
    assert 1e-6 < price < 1e-3


def test_its_autotuner_takes_the_first_and_leaves_the_cache_to_what_is_measured(
    args: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helion's cache knows no autotuner: what is in it answers whoever asks next, and is never searched again."""
    monkeypatch.setenv("HELION_CACHE_DIR", str(tmp_path))
    asked = {"arch": "h100", "most": 4, "budget_s": 60.0}
    kernel = helion.kernel(matmul.fn, static_shapes=True, autotuner_fn=autotuner(0, **asked))
    assert kernel.bind(args).autotune(args, force=False).block_sizes
    assert not list(tmp_path.rglob("*.best_config"))


def test_the_first_few_and_the_default_are_measured_by_a_provider_of_helions(args: Any) -> None:
    """Here by the one that says prices."""
    bound, asked = matmul.bind(args), list[Any]()

    class Provider(priced_provider("h100")):  # type: ignore[misc]
        def benchmark(self, configs: Any, **how: Any) -> Any:
            asked.extend(configs)
            return super().benchmark(configs, **how)

    how = {"arch": "h100", "budget_s": None, "most": 6, "processes": 2}
    best = PricedSearch(bound, args, 2, how, benchmark_provider_cls=Provider).autotune(skip_cache=True)
    assert len(asked) == 3 and asked[-1] == bound.config_spec.default_config() and best in asked


@pytest.mark.parametrize("own_process", [True, False])
def test_the_process_that_measures_begins_before_the_search(
    args: Any, own_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helion.autotuner.benchmark_provider import LocalBenchmarkProvider
    from helion.autotuner.benchmark_worker import BenchmarkWorker

    done = list[str]()
    monkeypatch.setattr(BenchmarkWorker, "_start", lambda self: done.append("start"))
    monkeypatch.setattr(LocalBenchmarkProvider, "_subprocess_benchmark_enabled", lambda self: own_process)
    tuner = PricedSearch(matmul.bind(args), args, 2, {"arch": "nothing"})
    tuner.benchmark_provider = object.__new__(LocalBenchmarkProvider)  # its own beginning runs the kernel
    tuner.benchmark_provider._benchmark_worker = None
    with pytest.raises(carver.CarverError, match="nothing"):
        tuner._autotune()
    assert done == ["start"] * own_process


@pytest.mark.exhaustive
def test_helions_own_search_runs_at_prices(args: Any) -> None:
    from helion.autotuner import LFBOTreeSearch

    bound = matmul.bind(args)
    own = at_prices(LFBOTreeSearch(bound, args, initial_population=5, copies=1, max_generations=1), "h100")
    best = own.autotune(skip_cache=True)
    kernels = ours.HelionKernels(bound, args, H100)
    default, found = ours.priced(kernels, [ours.flat(bound.config_spec.default_config()), ours.flat(best)], H100)
    assert found <= default and own._autotune_metrics.num_configs_tested >= 5
