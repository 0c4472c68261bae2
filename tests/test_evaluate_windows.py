"""Direct convolution and dedispersion: adapters, declarations and models against numbers worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.adapters import read
from benchmarks.adapters.kernel_tuner import MAX_DELAY
from carver.arch.devices import load
from carver.base.errors import NotationError, ProblemError
from carver.cost.model import model_named, resolve
from carver.cost.models.stream import cached_request_clk, copy_rounds, shared_request_clk, spilled_values
from carver.kernels.declaration import kernels
from carver.kernels.expr import roles
from carver.kernels.space import Space, given_space
from carver.ops.conv import Conv2DTemplate, ConvTemplate, DedispersionTemplate
from carver.ranking.recommend import rank

CONV = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "read_only", "use_padding", "use_shmem")
DEDISP = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "tile_stride_x", "tile_stride_y")
IMAGE = Conv2DTemplate(4096, 4096, 15, 15).problem


def table(folder: Path, facts: Mapping[str, Any], columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Path:
    """A table of Kernel Tuner: each row the parameters, the median time [ms] and whether it ran."""
    frame = pd.DataFrame(rows, columns=[*columns, "time_med_ms", "valid"])
    frame.to_csv(folder / "made_up.csv.gz", index=False)
    (folder / "made_up.meta.json").write_text(json.dumps({"params": list(columns), "constants": {}, **facts}))
    return folder / "made_up.meta.json"


def convolution(gpu: str, **facts: Any) -> dict[str, Any]:
    return {"op": "conv2d_direct", "image": [64, 96], "filter": [3, 5], "gpu": gpu, **facts}


def conv(*values: int) -> dict[str, int]:
    return dict(zip(CONV, values, strict=True))


def space_of(arch: str, backend: str, *configs: dict[str, int]) -> tuple[Space, dict[int, str]]:
    return given_space(IMAGE, load(arch), kernels("conv2d", backend)[0], configs)


class TestAdapters:
    def test_convolution(self, tmp_path: Path) -> None:
        rows = [(32, 4, 1, 2, 0, 0, 1, 0.5, 1), (32, 4, 4, 4, 1, 0, 0, np.nan, 0)]
        (case,) = read(table(tmp_path, convolution("NVIDIA RTX A4000"), CONV, rows))
        assert (case.table, case.arch.name, case.backend, case.group) == ("made_up", "rtx_a4000", "kernel_tuner", "")
        assert dict(case.problem.sizes) == {"y": 64, "x": 96, "r": 3, "s": 5}
        assert case.configs[1] == conv(32, 4, 4, 4, 1, 0, 0)
        assert case.seconds[0] == pytest.approx(5e-4)
        assert np.isnan(case.seconds[1])

    def test_parameters_that_were_fixed(self, tmp_path: Path) -> None:
        columns = [c for c in CONV if c not in ("use_shmem", "use_padding")]
        facts = convolution("NVIDIA TITAN RTX", constants={"use_padding": 1, "use_cmem": 1})
        (case,) = read(table(tmp_path, facts, columns, [(16, 4, 1, 2, 0, 0.5, 1)]))
        assert case.configs[0] | {"use_shmem": 1} == conv(16, 4, 1, 2, 0, 1, 1)

    def test_amd_tiles_that_do_not_divide_stand_apart(self, tmp_path: Path) -> None:
        rows = [(32, 4, 1, 2, 0, 0, 1, 0.5, 1), (64, 4, 1, 2, 0, 0, 1, 9.0, 1), (32, 4, 3, 2, 0, 0, 1, 0.6, 1)]
        cases = list(read(table(tmp_path, convolution("AMD Instinct MI50/MI60 (as reported)"), CONV, rows)))
        assert [(c.group, len(c.configs), c.backend) for c in cases] == [
            ("dividing tiles", 2, "kernel_tuner_hip"),
            ("other tiles", 1, "kernel_tuner_hip"),
        ]
        assert cases[0].best_s == pytest.approx(5e-4)
        assert cases[1].configs[0]["block_size_x"] == 64

    def test_dedispersion(self, tmp_path: Path) -> None:
        facts = {
            "op": "dedispersion",
            "dms": 32,
            "samples": 900,
            "channels": 20,
            "gpu": "AMD Instinct MI250X (one GCD)",
        }
        (case,) = read(table(tmp_path, facts, DEDISP, [(8, 32, 1, 1, 0, 0, 50.0, 1), (1, 64, 2, 3, 1, 0, 90.0, 1)]))
        assert (case.arch.name, case.backend) == ("mi250x_gcd", "kernel_tuner_hip")
        assert dict(case.problem.sizes) == {"d": 32, "t": 900, "h": 20}
        assert case.problem.options["max_delay"] == MAX_DELAY
        ranking = case.ranked()
        assert ranking is not None
        assert sorted(ranking.indices) == [0, 1]

    def test_a_device_without_descriptor(self, tmp_path: Path) -> None:
        path = table(tmp_path, convolution("Voodoo 2"), CONV, [(32, 4, 1, 2, 0, 0, 1, 0.5, 1)])
        with pytest.warns(UserWarning, match="passed over: no descriptor for its device 'Voodoo 2'"):
            assert not list(read(path))


class TestConvolutionColumns:
    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            # 12 x 32 outputs, 14 more rows and columns of input; 15 + 2 * 4 rows of windows 4 apart
            (conv(32, 4, 1, 3, 0, 0, 1), {"halo_rows": 26, "halo_cols": 46, "smem_bytes": 26 * 46 * 4, "loads": 345}),
            # one block row: the windows of four outputs share all but three rows
            (conv(32, 1, 1, 4, 0, 0, 0), {"smem_bytes": 0, "loads": 18 * 15, "products": 900, "guarded": 0}),
            # rows 16 apart share nothing
            (conv(32, 16, 1, 4, 0, 0, 0), {"loads": 900}),
            # 3 does not divide 4096: every load is tested, so none is merged
            (conv(32, 1, 1, 3, 0, 0, 0), {"guarded": 1, "loads": 675}),
            # 62 columns of input and 48 of threads: 18 more make rows start one bank after the threads' end
            (conv(48, 2, 1, 1, 0, 1, 1), {"padding": 18, "pitch": 80, "smem_bytes": 16 * 80 * 4}),
            (conv(32, 2, 1, 1, 0, 1, 1), {"padding": 0, "pitch": 46}),
            # windows 2 columns apart: 15 + 7 * 2 columns shared by eight outputs
            (conv(2, 32, 8, 1, 0, 0, 1), {"loads": 15 * 29, "halo_cols": 30}),
        ],
    )
    def test_cuda(self, config: dict[str, int], expected: dict[str, int]) -> None:
        space, why = space_of("a100", "kernel_tuner", config)
        assert not why
        assert {name: int(np.broadcast_to(space[name], 1)[0]) for name in expected} == expected

    @pytest.mark.parametrize(
        ("config", "reason"),
        [
            (conv(128, 4, 4, 4, 0, 0, 1), "48 KiB"),  # 30 x 526 x 4 = 63,120 bytes
            (conv(176, 4, 3, 2, 0, 1, 1), "48 KiB"),  # 47,696 bytes fit, with padding 22 x 560 x 4 = 49,280 do not
            (conv(48, 8, 3, 4, 0, 0, 1), "registers"),  # 384 threads, and 945 inputs wait for a later output
            (conv(64, 8, 4, 1, 1, 0, 0), "registers"),  # a row of loads for each output, and its address
            (conv(256, 8, 1, 1, 0, 0, 1), "threads"),
            (conv(48, 2, 1, 1, 0, 1, 0), "padding"),
        ],
    )
    def test_cuda_cannot_run(self, config: dict[str, int], reason: str) -> None:
        space, why = space_of("a100", "kernel_tuner", config)
        assert len(space) == 0
        assert reason in why[0]

    @pytest.mark.parametrize(
        ("config", "before", "hopper"),
        [  # as ptxas of CUDA 13.0 says for compute capability 8.0 and 9.0
            (conv(64, 1, 1, 4, 0, 0, 0), 32, 56),
            (conv(64, 2, 1, 4, 0, 0, 1), 32, 88),
            (conv(64, 1, 3, 3, 0, 0, 1), 32, 128),
            (conv(32, 2, 3, 4, 0, 0, 1), 32, 255),
            (conv(48, 8, 3, 1, 0, 0, 1), 31, 32),
            (conv(64, 1, 3, 1, 0, 0, 0), 52, 52),  # behind a test
        ],
    )
    def test_ptxas_keeps_the_order_from_hopper_on(self, config: dict[str, int], before: int, hopper: int) -> None:
        for arch, registers in (("a100", before), ("rtx_3090", before), ("h200", hopper), ("rtx_5090", hopper)):
            space, _ = space_of(arch, "kernel_tuner", config)
            assert int(space["registers"][0]) == pytest.approx(registers, abs=25)

    @pytest.mark.parametrize(("arch", "budget"), [("mi50", 64), ("pro_w6600", 128), ("mi250x_gcd", 128)])
    def test_hip_budget_is_that_of_the_largest_block(self, arch: str, budget: int) -> None:
        space, _ = space_of(arch, "kernel_tuner_hip", conv(16, 4, 1, 4, 1, 0, 1))
        # (4 - 1) outputs x 4 rows x 15 inputs wait; 32 registers for the rest, 4 sums
        assert int(space["live"][0]) == 180 + 36
        assert int(np.broadcast_to(space["register_budget"], 1)[0]) == budget

    def test_hip_sinks_sums_behind_guarded_stores(self) -> None:
        space, _ = space_of("pro_w6600", "kernel_tuner_hip", conv(48, 4, 1, 2, 1, 0, 1), conv(48, 4, 1, 1, 1, 0, 1))
        assert space["waiting"].tolist() == [(15 + 4) * 15, 0]


class TestTerms:
    @pytest.mark.parametrize(
        ("arch", "threads_x", "pitch", "clk"),
        [
            ("a100", 32, 46, 1),
            ("a100", 16, 30, 2),  # the second row starts 30 banks on: 14 of its lanes meet the first row's
            ("a100", 16, 48, 1),
            ("rtx_a4000", 32, 46, 2),  # 16 load/store units
            ("rtx_a4000", 16, 30, 2),
            ("rtx_2080_ti", 32, 46, 2),  # 64 bytes a clock
            ("rtx_2080_ti", 16, 30, 4),
            ("mi50", 64, 78, 2),  # 64 lanes through 32 banks
            ("mi50", 16, 30, 4),
        ],
    )
    def test_shared_memory(self, arch: str, threads_x: int, pitch: int, clk: float) -> None:
        one = [np.array([float(v)]) for v in (threads_x, pitch, 4)]
        assert shared_request_clk(load(arch), *one)[0] == clk

    def test_a_row_that_crosses_warps_conflicts_in_some(self) -> None:
        # of 96 threads in rows of 48, the middle 32 lie in two rows whose banks overlap in 14 places
        clk = shared_request_clk(load("a100"), np.array([48.0]), np.array([62.0]), np.array([4.0]))
        assert clk[0] == pytest.approx((1 + 2 + 1) / 3)

    @pytest.mark.parametrize(
        ("arch", "threads_x", "clk"),
        [
            ("a100", 32, 1.0),  # two lines, looked up at once, and each bank holds one word
            ("a100", 16, 2.0),  # 4110 elements from row to row: 14 banks on, two lanes of a row meet the other's
            ("a100", 2, 16 * (1 + 4 / 128) / 4),  # 16 rows, four of their lines a clock
            ("rtx_a4000", 32, 2.0),  # 16 load/store units
            ("gtx_1080", 32, 1.5 * (1 + 124 / 128)),  # an L1 of its own
            ("mi50", 64, 1.5 * (1 + 252 / 64)),
        ],
    )
    def test_cached_load(self, arch: str, threads_x: int, clk: float) -> None:
        one = [np.array([float(v)]) for v in (threads_x, 4110, 4)]
        assert cached_request_clk(load(arch), *one, 1.5)[0] == pytest.approx(clk)

    def test_rounds_of_a_copy(self) -> None:
        # one or two single loads; a round of four, and one more for some; three singles, or a round of four
        assert copy_rounds(np.array([46.0, 78.0, 110.0]), np.array([32.0, 16.0, 32.0])).tolist() == [2, 2, 3]

    def test_spills(self) -> None:
        live, waiting, loads = np.array([60.0, 216.0, 900.0]), np.full(3, 180.0), np.full(3, 270.0)
        assert spilled_values(live, waiting, np.full(3, 126.0), loads).tolist() == [0, 135, 270]

    def test_halo_is_loaded_once_a_block(self) -> None:
        space, _ = space_of("a100", "kernel_tuner", conv(32, 4, 1, 1, 0, 0, 1), conv(32, 4, 2, 4, 0, 0, 1))
        work = model_named("window").work(space, resolve(space.kernel, space.arch))
        rows, cols = np.array([18, 30]), np.array([46, 78])
        assert work.l2_read_bytes.tolist() == (rows * cols * 4).tolist()
        assert work.grid.tolist() == [4096 * 4096 / 128, 4096 * 4096 / 1024]
        assert (work.fill_bytes >= work.l2_read_bytes).all()

    def test_padding_helps_where_banks_conflict(self) -> None:
        configs = [conv(16, 16, 1, 1, 0, pad, 1) for pad in (0, 1)]
        for arch, backend in (("a100", "kernel_tuner"), ("mi50", "kernel_tuner_hip")):
            assert rank(IMAGE, load(arch), configs, backend).indices == [1, 0]

    def test_a_tall_thread_reads_less(self) -> None:
        configs = [conv(64, 1, 1, tall, 0, 0, 0) for tall in (1, 2, 4)]
        assert rank(IMAGE, load("rtx_a4000"), configs, "kernel_tuner").indices == [2, 1, 0]

    def test_hip_pays_for_rows_that_wait(self) -> None:
        # 8 rows apart, 105 inputs of a pair wait: the MI50 has 64 registers a thread for them, CUDA reorders the body
        configs = [conv(16, 8, 1, 2, 0, 1, 1), conv(16, 16, 1, 2, 0, 1, 1)]
        assert rank(IMAGE, load("mi50"), configs, "kernel_tuner_hip").indices == [1, 0]
        assert rank(IMAGE, load("a100"), configs, "kernel_tuner").indices == [0, 1]


class TestDedispersion:
    problem = DedispersionTemplate(2048, 25000, 1536, 650).problem

    def work(self, arch: str, backend: str, *configs: tuple[int, ...]) -> Any:
        kernel = kernels("dedispersion", backend)[0]
        given = [dict(zip(DEDISP, c, strict=True)) for c in configs]
        space, why = given_space(self.problem, load(arch), kernel, given)
        assert not why
        return model_named("delayed_sum").work(space, resolve(kernel, space.arch))

    def test_counts_one_addition_a_sample(self) -> None:
        assert self.problem.flops == 2048 * 25000 * 1536
        assert self.problem.elements["I"] == 1536 * (25000 + 2047)

    def test_conversions_bound_a_step(self) -> None:
        work = self.work("a100", "kernel_tuner", (8, 32, 1, 1, 0, 0))
        assert work.math_clk.tolist() == [8 * 2 * 32 / 16]  # 8 warps, 2 conversions, 16 units
        assert work.steps.tolist() == [1536]
        assert work.grid.tolist() == [3125 * 64]

    def test_delays_become_vector_loads_after_the_first_store(self) -> None:
        one, four = self.work("mi250x_gcd", "kernel_tuner_hip", (8, 32, 1, 1, 0, 0), (8, 32, 1, 4, 0, 1)).smem_clk
        assert four / one == pytest.approx(1.75)

    def test_narrow_blocks_write_partial_sectors(self) -> None:
        work = self.work("a100", "kernel_tuner", (1, 64, 1, 1, 0, 0), (32, 32, 1, 1, 0, 0))
        assert (work.store_bytes / [64 * 4, 1024 * 4]).tolist() == pytest.approx([8.0, 156 / 128])

    def test_half_a_wave_is_a_whole_one(self) -> None:
        configs = [dict(zip(DEDISP, c, strict=True)) for c in ((1, 32, 1, 1, 0, 0), (1, 64, 1, 1, 0, 0))]
        ranking = rank(self.problem, load("mi250x_gcd"), configs, "kernel_tuner_hip")
        assert ranking.indices == [1, 0]
        assert ranking.seconds[1] / ranking.seconds[0] == pytest.approx(2.0, rel=0.1)


class TestConvTemplate:
    def test_first_layer_of_a_residual_network(self) -> None:
        problem = ConvTemplate(32, 3, 224, 224, 64, 7, 7, stride=2, pad=3).problem
        assert roles(problem) == {"b": 1, "m": 32 * 112 * 112, "n": 64, "k": 7 * 7 * 3}
        assert problem.elements["I"] == 32 * 229 * 229 * 3  # the last row of the padded 230 is never read
        assert problem.flops == 2 * 32 * 112 * 112 * 64 * 147
        assert dict(problem.align_bytes) == {"O": 128, "I": 2, "W": 128}

    @pytest.mark.parametrize(
        ("options", "out"),
        [({}, 54), ({"pad": 1}, 56), ({"stride": 2, "pad": 1}, 28), ({"dilation": 2, "pad": 2}, 56)],
    )
    def test_output_size(self, options: dict[str, Any], out: int) -> None:
        sizes = ConvTemplate(1, 64, 56, 56, 64, 3, 3, **options).problem.sizes
        assert (sizes["p"], sizes["q"]) == (out, out)

    def test_overlapping_windows_do_not_multiply_traffic(self) -> None:
        layer = ConvTemplate(8, 256, 56, 56, 256, 3, 3, pad=1).with_arch("a100")
        best = layer.recommend_hints(1, backend="triton")[0]
        copies = 8 * 56 * 56 * 9 * 256 * 2  # of the input, were it written out as a matrix
        assert best.details["compulsory_bytes"] < copies / 3
        assert best.details["dram_bytes"] < copies

    def test_a_filter_larger_than_its_image(self) -> None:
        with pytest.raises(ProblemError, match="spans 9 does not fit H=8"):
            ConvTemplate(1, 8, 8, 8, 8, 5, 5, dilation=2)

    @pytest.mark.parametrize("bad", [{"stride": 0}, {"pad": -1}, {"dilation": 1.5}])
    def test_bad_options(self, bad: dict[str, Any]) -> None:
        with pytest.raises((ProblemError, NotationError)):
            ConvTemplate(1, 8, 8, 8, 8, 3, 3, **bad)


def test_inputs_are_read_with_their_borders_delays_and_factors() -> None:
    conv = Conv2DTemplate(17, 5402, 9, 9).with_arch("rtx_a4000").recommend_hints(1)[0]
    assert conv.details["dram_bytes"] >= conv.problem.compulsory_bytes
    trials, samples, channels, delay = 1000, 16, 1024, 650
    delayed = DedispersionTemplate(trials, samples, channels, delay).with_arch("rtx_a4000").recommend_hints(1)[0]
    once = channels * (samples + delay / 2 + 4) + trials * samples * 4
    assert delayed.details["dram_bytes"] >= delayed.details["compulsory_bytes"] == once
