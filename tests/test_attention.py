"""Fused attention: tiles counted by hand, shared memory as Triton allocates it, causal masks, what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carver
from benchmarks import adapters as tables
from carver.base.errors import ConfigError, NoCandidates, ProblemError
from carver.cost.model import price
from carver.cost.models.attention import causal_tiles, key_tiles
from carver.kernels.declaration import kernels
from carver.kernels.space import Space, given_space
from carver.run import check as reference

TILE = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}


def space(arch: str, config: dict[str, int], **sizes: object) -> Space:
    problem = carver.FlashAttentionTemplate(**sizes).problem  # type: ignore[arg-type]
    kernel = next(k for k in kernels("attention", "triton") if k.name == "triton")
    return given_space(problem, carver.load_arch(arch), kernel, [config])[0]


@pytest.mark.parametrize(
    ("arch", "head_dim", "dtype", "m", "n", "warps", "stages", "expected"),
    [
        # Q 128x128x2; 2 buffers of K and V, 64x128x2 each; the tile of the second product is square: P in registers
        ("a100", 128, "float16", 128, 64, 4, 3, 32768 + 2 * 2 * 16384),
        # wgmma reads the last stage while the next lands: 3 buffers
        ("h200", 128, "float16", 128, 64, 4, 3, 32768 + 3 * 2 * 16384),
        # 64 rows of 256: the warps share rows, P passes shared memory: 160 KiB + 8 KiB, over the limit of 163 KiB
        ("rtx_3090", 32, "float16", 64, 64, 4, 2, 4096 + 2 * 4096),
        ("a100", 128, "float16", 64, 64, 4, 3, 16384 + 2 * 2 * 16384 + 8192),
        # 32-bit probabilities are converted through shared memory whatever the layout
        ("a100", 64, "tf32", 128, 64, 4, 3, 32768 + 2 * 2 * 16384 + 32768),
        # a head of 96 is padded to 128
        ("a100", 96, "bfloat16", 128, 32, 4, 2, 32768 + 2 * 8192),
    ],
)
def test_shared_memory(
    arch: str, head_dim: int, dtype: str, m: int, n: int, warps: int, stages: int, expected: int
) -> None:
    config = {"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}
    s = space(arch, config, seq=4096, head_dim=head_dim, in_dtype=dtype)
    assert s["smem_bytes"][0] == expected


def test_what_ran_and_what_did_not_on_an_a100() -> None:
    """Outcomes of one published set of candidates, by head dimension and element width."""
    tiles = [
        (32, 64, 4),
        (64, 16, 4),
        (64, 64, 4),
        (64, 128, 4),
        (128, 32, 4),
        (128, 64, 4),
        (128, 64, 8),
        (128, 128, 4),
    ]
    runs = {
        ("float16", 16): 8, ("float16", 128): 8, ("bfloat16", 256): {0, 1, 4}, ("tf32", 32): 8,
        ("tf32", 64): {0, 1, 2, 4, 5, 6}, ("tf32", 128): {0, 1, 4}, ("tf32", 256): {1},
    }  # fmt: skip
    configs = [{"BLOCK_M": m, "BLOCK_N": n, "num_warps": w, "num_stages": 3} for m, n, w in tiles]
    for (dtype, head_dim), expected in runs.items():
        op = carver.FlashAttentionTemplate(2, 8, seq=1024, head_dim=head_dim, in_dtype=dtype).with_arch("a100")
        fits = set(op.rank(configs).indices)
        assert fits == (set(range(8)) if expected == 8 else expected), (dtype, head_dim)


@pytest.mark.parametrize(
    ("queries", "keys", "own", "tile", "expected"),
    [
        (4, 4, 1, 1, 1 + 2 + 3 + 4),
        (256, 256, 128, 64, 2 + 4),
        (256, 256, 64, 128, 1 + 1 + 2 + 2),
        (128, 512, 64, 64, 7 + 8),  # the last query sees all 512 keys
        (512, 128, 128, 64, 0 + 0 + 0 + 2),  # three blocks of queries see nothing
        (200, 200, 128, 64, 2 + 4),
        (1, 4096, 16, 64, 64),
    ],
)
def test_causal_tiles_by_hand(queries: int, keys: int, own: int, tile: int, expected: int) -> None:
    assert causal_tiles(queries, keys, own, tile) == expected


@given(*(st.integers(1, 300) for _ in range(2)), *(st.integers(1, 64) for _ in range(2)))
def test_causal_tiles_are_counted_without_a_loop(queries: int, keys: int, own: int, tile: int) -> None:
    def visible(block: int) -> int:
        last = min((block + 1) * own, queries)
        return min(max(last + keys - queries, 0), keys)

    counted = sum(-(-visible(block) // tile) for block in range(-(-queries // own)))
    assert causal_tiles(queries, keys, own, tile) == counted


@given(st.integers(1, 500), st.integers(1, 500))
def test_attended_pairs(queries: int, keys: int) -> None:
    problem = carver.FlashAttentionTemplate(seq=queries, seq_kv=keys, causal=True).problem
    assert problem.attended_pairs == sum(min(max(i + 1 + keys - queries, 0), keys) for i in range(queries))


def test_flops_and_bytes_by_hand() -> None:
    full = carver.FlashAttentionTemplate(2, 8, 2, seq=1024, head_dim=64).problem
    assert full.flops == 2 * 2 * (2 * 8) * 1024 * 1024 * 64
    assert full.compulsory_bytes == 2 * (2 * 1024 * 64) * (8 + 8 + 2 + 2)  # Q and O of 8 heads, K and V of 2
    causal = carver.FlashAttentionTemplate(2, 8, 2, seq=1024, head_dim=64, causal=True).problem
    assert causal.flops / full.flops == pytest.approx((1024 + 1) / 2 / 1024)
    wide = carver.FlashAttentionTemplate(1, 1, seq=128, head_dim=192, value_dim=128).problem
    assert wide.flops == 2 * 128 * 128 * (192 + 128)


def test_grid_steps_and_traffic_by_hand() -> None:
    s = space("h200", TILE, batch=2, heads=32, kv_heads=8, seq=4096, head_dim=128)
    work = price(s).made[0]
    assert work.grid[0] == 2 * 32 * 32
    assert work.steps[0] == 64
    # one step brings 64 keys and values of 128 halves; the queries of a block come once
    assert work.fill_bytes[0] == pytest.approx(2 * 64 * 128 * 2 + 128 * 128 * 2 / 64)
    # 256 blocks in flight are two heads with 2 MiB of keys and values each: all of it stays in L2
    assert work.facts["l2_hit_rate"][0] == 1
    assert work.facts["dram_bytes"][0] == s.problem.compulsory_bytes


def test_causal_costs_about_half() -> None:
    full, causal = (
        carver.FlashAttentionTemplate(4, 32, seq=8192, head_dim=128, causal=c).with_arch("h200").recommend_hints(1)[0]
        for c in (False, True)
    )
    assert 0.5 < causal.predicted_ms / full.predicted_ms < 0.6


def test_a_packed_group_reads_shared_keys_once() -> None:
    sizes = {"batch": 4, "heads": 32, "kv_heads": 8, "seq": 1, "seq_kv": 16384, "head_dim": 128}
    apart = space("h200", {**TILE, "BLOCK_M": 16}, **sizes)
    packed = space("h200", {**TILE, "BLOCK_M": 16, "PACK_GQA": 1}, **sizes)
    work_apart, work_packed = price(apart).made[0], price(packed).made[0]
    assert work_apart.grid[0] == 4 * work_packed.grid[0] == 4 * 32
    once = work_packed.fill_bytes * work_packed.steps * work_packed.grid
    assert 3.9 < float((work_apart.fill_bytes * work_apart.steps * work_apart.grid / once)[0]) < 4


def test_decoding_splits_the_keys_until_the_device_is_busy() -> None:
    op = carver.FlashAttentionTemplate(1, 32, 8, seq=1, seq_kv=131072, head_dim=128).with_arch("h200")
    best = op.recommend_hints(1)[0]
    assert best.config["PACK_GQA"] == 1
    assert best.config["SPLIT_KV"] * 8 >= 0.9 * 132
    alone = op.rank([{**best.config, "SPLIT_KV": 1}])[0]
    assert alone.predicted_ms > 3 * best.predicted_ms


@pytest.mark.parametrize(
    ("arch", "head_dim", "tile", "tflops"),
    [
        ("a100", 64, (128, 64), (125, 200)),
        ("a100", 128, (128, 64), (140, 240)),
        ("h100", 128, (128, 64), (430, 620)),
        # 48 KiB of shared memory for two blocks on an SM
        ("rtx_4090", 128, (128, 32), (110, 170)),
    ],
)
def test_known_tiles_and_rates(arch: str, head_dim: int, tile: tuple[int, int], tflops: tuple[float, float]) -> None:
    """FlashAttention-2 or PyTorch takes these tiles, with 4 or 8 warps. The upper rates are theirs, in CUDA C++; the
    model is of the plain Triton kernel of tests/data/h200/attention.csv, a fifth slower. With 128
    wide heads and 4 warps Triton's spills: other tiles may be a tenth faster.
    """
    op = carver.FlashAttentionTemplate(4, 16, seq=8192, head_dim=head_dim).with_arch(arch)
    hints = op.recommend_hints(10)
    assert tflops[0] < hints[0].details["tflops"] < tflops[1]
    sized = {"BLOCK_M": tile[0], "BLOCK_N": tile[1]}
    known = op.rank([{**sized, "num_warps": w, "num_stages": s} for w in (4, 8) for s in (2, 3)])
    assert known[0].predicted_ms < (1.02 if head_dim == 64 else 1.1) * hints[0].predicted_ms


def test_large_heads_take_smaller_tiles() -> None:
    op = carver.FlashAttentionTemplate(4, 16, seq=8192, head_dim=256).with_arch("h200")
    assert all(h.config["BLOCK_M"] * h.config["BLOCK_N"] <= 128 * 64 for h in op.recommend_hints(5))


@pytest.mark.parametrize(
    ("arch", "head", "dtype", "tile"),
    [("rx_7900_xtx", 192, "float16", (64, 32)), ("rx_7900_xtx", 256, "float16", (64, 32)),
     ("rx_9070_xt", 256, "float16", (128, 64)), ("rx_7900_xtx", 512, "bfloat16", (32, 32)),
     ("rx_7900_xtx", 128, "float32", (64, 16)), ("rx_6900_xt", 128, "float16", (64, 16))],
)  # fmt: skip
def test_where_queries_fill_the_registers_tiles_that_spill_are_priced(
    arch: str, head: int, dtype: str, tile: tuple[int, int]
) -> None:
    """Triton's code of eight tiles for heads of 256 on an RX 7900 XTX: the two that spill nothing have 16 rows, and by
    their machine code take 2.3 and 3.8 times as long as 128 x 32, which spills 628 bytes of a thread. For heads of 512
    32 x 32 with one stage takes 0.7 of the time of 16 x 16, and in float32 no tile has room for two."""
    op = carver.FlashAttentionTemplate(batch=2, heads=16, seq=4096, head_dim=head, in_dtype=dtype).with_arch(arch)
    best = op.recommend_hints(1, "triton")[0].config
    assert (best["BLOCK_M"], best["BLOCK_N"]) == tile


def test_one_stage_is_for_keys_of_which_two_do_not_fit() -> None:
    op = carver.FlashAttentionTemplate(batch=1, heads=16, seq=2048, head_dim=512, in_dtype="float32")
    assert {hint.config["num_stages"] for hint in op.with_arch("rx_7900_xtx").recommend_hints(9, "triton")} == {1}


@pytest.mark.parametrize(
    ("arch", "head", "dtype", "found"),
    [("rx_7900_xtx", 128, "float32", {(16, 16, 8): 266, (16, 16, 4): 419, (32, 16, 8): 408, (64, 16, 8): 456,
                                      (32, 32, 8): 494, (64, 32, 8): 862, (128, 16, 8): 902, (128, 32, 8): 921}),
     ("rx_7900_xtx", 64, "float32", {(64, 16, 8): 276, (32, 32, 4): 500, (64, 32, 4): 610, (256, 16, 8): 640}),
     ("rx_6900_xt", 64, "float16", {(64, 32, 8): 279, (64, 32, 4): 327, (256, 64, 8): 916})],
)  # fmt: skip
def test_registers_on_vector_units_of_amd(
    arch: str, head: int, dtype: str, found: dict[tuple[int, int, int], int]
) -> None:
    """What Triton 3.6 compiled: 256 registers, and a fourth of the bytes that a thread spills."""
    told = []
    for (block_m, block_n, warps), most in found.items():
        config = {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": warps, "num_stages": 2}
        sizes = {"batch": 2, "heads": 16, "seq": 4096, "head_dim": head, "in_dtype": dtype}
        told.append(space(arch, config, **sizes).at(0, "registers", 0) / most)
    assert min(told) >= 0.6 and max(told) <= 1.4 and 0.8 <= np.median(told) <= 1.25


@given(
    st.integers(1, 4), st.sampled_from([1, 2, 4]), st.integers(1, 3), st.integers(1, 5000), st.integers(1, 5000),
    st.sampled_from([16, 40, 64, 96, 128, 256]), st.booleans(), st.sampled_from(["float16", "bfloat16", "tf32"]),
    st.sampled_from(["h200", "a100", "rtx_4090", "mi300x"]),
)  # fmt: skip
def test_any_size_is_answered(
    batch: int, group: int, kv: int, seq: int, seq_kv: int, head_dim: int, causal: bool, dtype: str, arch: str
) -> None:
    op = carver.FlashAttentionTemplate(batch, kv * group, kv, seq, seq_kv, head_dim, causal, dtype).with_arch(arch)
    hints = op.recommend_hints(5)
    device = carver.load_arch(arch)
    assert np.isfinite(hints.seconds).all()
    assert (np.diff(hints.seconds) >= 0).all()
    for h in hints:
        assert h.launch.smem_bytes <= device.smem_per_block_bytes
        assert h.details["padding"] >= 0.999 or causal
        assert h.predicted_ms > 0
    again = op.rank([h.config for h in hints])
    assert again.seconds == pytest.approx(hints.seconds)


def test_names_of_tilelang() -> None:
    theirs = carver.FlashAttentionTemplate.named(
        batch_size=4, num_heads=32, head_dim=128, seq_length=2048, seq_kv_length=4096, is_causal=True
    )
    ours = carver.FlashAttentionTemplate(4, 32, seq=2048, seq_kv=4096, head_dim=128, causal=True)
    assert theirs.problem == ours.problem


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heads": 32, "kv_heads": 5}, "multiple of kv_heads"),
        ({"heads": 0}, "heads"),
        ({"seq": 0}, "size seq"),
        ({"causal": 1}, "True or False"),
        ({"causal": True, "visited": 3}, "block-sparse"),
        ({"visited": -1}, "visited"),
        ({"seq": 16, "visited": 17}, "visited is at most the number of keys, 16, got 17"),
        ({"page": 0}, "page must be a whole number of at least 1, got 0"),
        ({"softcap": 30.5}, "softcap must be a whole number of at least 1, got 30.5"),
        ({"in_dtype": "int8"}, "floats"),
    ],
)
def test_what_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        carver.FlashAttentionTemplate(**arguments)  # type: ignore[arg-type]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ProblemError, match="num_heads"):
        carver.FlashAttentionTemplate.named(num_head=3)
    with pytest.raises(ProblemError, match="twice"):
        carver.FlashAttentionTemplate.named(heads=3, num_heads=3)


def test_a_configuration_says_why_it_cannot_run() -> None:
    op = carver.FlashAttentionTemplate(1, 8, seq=512, head_dim=256).with_arch("a100")
    ranking = op.rank([TILE, {**TILE, "BLOCK_M": 100}, {**TILE, "BLOCK_M": 32}, {**TILE, "BLOCK_M": 16, "PACK_GQA": 2}])
    assert ranking.indices == [2]
    assert "shared memory" in ranking.reasons[0]
    assert "powers of two" in ranking.reasons[1]
    assert "PACK_GQA" in ranking.reasons[3]
    with pytest.raises(ConfigError, match="BLOCK_N"):
        op.rank([{"BLOCK_M": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 2}])


def test_latent_attention_of_more_heads_than_a_tile_has_rows() -> None:
    """DeepSeek's: 128 heads share keys of 576 columns, the first 512 of which are the values."""
    op = carver.FlashAttentionTemplate(8, 128, 1, 1, 4096, head_dim=576, value_dim=512).with_arch("h200")
    with pytest.raises(NoCandidates, match="backend 'triton_decode' has some that can"):
        op.recommend_hints()
    config = {"BLOCK_N": 32, "num_warps": 4, "num_stages": 2, "SPLIT_KV": 1}
    ranking = op.rank([{"BLOCK_M": m, **config} for m in (16, 32)], backend="triton_decode")
    assert {h.config["BLOCK_M"]: h.launch.grid for h in ranking} == {16: (64, 1, 1), 32: (32, 1, 1)}
    assert not any("spill" in note for note in ranking.notes), "what spills is not the first"
    spills = op.rank([{"BLOCK_M": 64, **config, "SPLIT_KV": 4}], backend="triton_decode")
    said = "configuration 0, first by the model, needs 320 registers a thread and may have 255: the others spill"
    assert said in spills.notes[-1]
    assert said in " ".join(str(spills).split()) and said in " ".join(str(spills[0].explain()).split())


def test_a_table_of_flex_attention(tmp_path: Path) -> None:
    meta = {"op": "flex_attention", "gpu": "NVIDIA A100 (SKU not recorded)", "arch": "sm_80"}
    (tmp_path / "t.meta.json").write_text(json.dumps(meta))
    files = {
        "problems": "pid,b,h,m,n,kv_seq_length,dtype\n7,2,4,1024,64,1024,float32\n",
        "configs": "cid,block_m,block_n,block_k,num_stages,num_warps\n0,64,16,-1,3,4\n1,128,128,-1,3,4\n",
        "meas": "pid,cid,time_ms,reps,valid\n7,0,0.02,3,1\n7,1,,3,0\n",
    }
    for name, text in files.items():
        with gzip.open(tmp_path / f"t_{name}.csv.gz", "wt") as file:
            file.write(text)
    (case,) = tables.read(tmp_path)
    assert case.problem.sizes["d"] == 64
    assert case.problem.dtypes["Q"] == "tf32"
    assert case.problem.flops == 0, "these times were recorded with no key to visit"
    ranking = case.ranked()
    assert ranking is not None
    assert ranking.indices == [0]
    assert np.isnan(case.seconds[1])


def test_a_csv_of_attention(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "operator,arch,backend,heads,seq,head_dim,causal,config.BLOCK_M,config.BLOCK_N,config.num_warps,"
        "config.num_stages,note.registers,time_ms,valid\n"
        "attention,a100_sxm_80,triton,8,1024,128,True,128,64,4,3,255,0.3,1\n"
        "attention,a100_sxm_80,triton,8,1024,128,True,256,128,8,4,,0,0\n"
    )
    (case,) = tables.read(path)
    assert case.problem == carver.FlashAttentionTemplate(1, 8, seq=1024, head_dim=128, causal=True).problem
    assert case.configs[0] == TILE
    assert list(np.isfinite(case.seconds)) == [True, False]
    ranking = case.ranked()
    assert ranking is not None
    assert ranking.indices == [0]


def test_warps_without_rows_of_their_own_repeat_those_of_others() -> None:
    """Eight warps along 64 queries: both groups of four compute all 64, so the products cost what 128 rows do."""
    op = carver.FlashAttentionTemplate(batch=2, heads=32, kv_heads=8, seq=8192, seq_kv=8192, head_dim=64, causal=True)
    tiles = [{"BLOCK_M": 64, "BLOCK_N": 128, "num_warps": warps, "num_stages": 3} for warps in (4, 8)]
    ms = {h.config["num_warps"]: h.predicted_ms for h in op.with_arch(carver.CUDA("h200")).rank(tiles, "triton")}
    assert 1.5 < ms[8] / ms[4] < 2.5  # 1.88 and 3.92 ms in tests/data/h200/attention.csv


def test_a_part_of_the_keys_has_keys() -> None:
    op = carver.FlashAttentionTemplate(1, 8, 8, seq=1024, head_dim=64).with_arch("h200")
    config = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
    ranking = op.rank([config | {"SPLIT_KV": split} for split in (16, 17, 1741390)])
    assert ranking.indices == [0]
    assert ranking.rejected == {"each part of the keys has a block of them": 2}
    assert ranking.reasons[1].endswith("(SPLIT_KV is 17, at most 16)")


@given(
    st.integers(1, 300), st.integers(1, 300), st.integers(1, 400), st.sampled_from([16, 64, 128]),
    st.sampled_from([16, 32, 128]),
)  # fmt: skip
def test_a_window_is_counted(queries: int, keys: int, window: int, own: int, tile: int) -> None:
    keys = max(queries, keys)
    problem = carver.FlashAttentionTemplate(1, 1, seq=queries, seq_kv=keys, causal=True, window=window).problem
    last = np.arange(queries) + keys - queries
    first = np.maximum(last - window + 1, 0)
    assert problem.attended_pairs == (last - first + 1).sum()
    assert problem.seen_keys == last[-1] - first[0] + 1
    walked = [-(-(last[b : b + own][-1] + 1) // tile) - first[b] // tile for b in range(0, queries, own)]
    mean, most = key_tiles(problem, np.array([own]), np.array([tile]))
    assert mean[0] == pytest.approx(np.mean(walked)) and most[0] == max(walked)


def test_a_window_that_holds_every_key_is_none() -> None:
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    plain = carver.FlashAttentionTemplate(2, 8, seq=2048, head_dim=128, causal=True)
    wide, narrow = (
        carver.FlashAttentionTemplate(2, 8, seq=2048, head_dim=128, causal=True, window=keys) for keys in (2048, 256)
    )
    assert wide.problem.attended_pairs == plain.problem.attended_pairs
    ms = [op.with_arch("h200").rank([config])[0].predicted_ms for op in (plain, wide, narrow)]
    assert ms[1] == pytest.approx(ms[0], rel=1e-9) and ms[2] < 0.5 * ms[0]


def test_a_window_and_a_cap_against_sums_written_out() -> None:
    op = carver.FlashAttentionTemplate(1, 1, seq=3, head_dim=16, causal=True, window=2, softcap=2)
    x = {name: a.astype(np.float64) for name, a in reference.draw(op.problem, 1).items()}
    q, k, v = (x[name].reshape(3, 16) for name in "QKV")
    expected = []
    for i in range(3):
        seen = range(max(0, i - 1), i + 1)
        weights = np.exp([2 * np.tanh(q[i] @ k[j] / 2) for j in seen])
        expected.append(sum(w * v[j] for w, j in zip(weights / weights.sum(), seen, strict=True)))
    np.testing.assert_allclose(reference.expected(op.problem, x)[0].reshape(3, 16), expected)


def test_a_title_has_the_heads_that_people_count() -> None:
    of = carver.FlashAttentionTemplate
    assert str(of(2, 32, 8, seq=64).problem) == "attention batch=2 kv_heads=8 heads=32 seq=64 head_dim=64 (float16)"
    assert str(of(1, 32, seq=64).problem) == "attention heads=32 seq=64 head_dim=64 (float16)"


def test_a_capped_score_costs_more_and_a_page_a_load() -> None:
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    size = dict(batch=2, heads=8, seq=2048, head_dim=128)
    ms = [
        carver.FlashAttentionTemplate(**size, **more).with_arch("h200").rank([config])[0].predicted_ms
        for more in ({}, {"softcap": 50.0}, {"page": 16})
    ]
    assert 1.02 * ms[0] < ms[1] < 2 * ms[0] and ms[0] < ms[2] < 1.05 * ms[0]
    with pytest.raises(ProblemError, match="one of 64 keys needs a causal mask"):
        carver.FlashAttentionTemplate(**size, window=64)


def test_a_kernel_with_a_window_as_it_was_measured() -> None:
    """No constant was fitted on it, and its kernel was not looked at."""
    table = (Path(__file__).parent / "data" / "h200" / "zoo.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(table).splitlines()]
    for problem, (heads, seq, head, window) in enumerate(((32, 8192, 128, 1024), (64, 4096, 64, 512))):
        ran = [r for r in rows if (r["kernel"], r["problem"]) == ("window_attention", problem) and r["time_ms"]]
        op = carver.FlashAttentionTemplate(
            1, heads, seq=seq, head_dim=head, causal=True, window=window, in_dtype="bfloat16"
        )
        ranking = op.with_arch("h200").rank([row["config"] for row in ran], "triton")
        ms = np.array([row["time_ms"] for row in ran])
        assert ms[ranking.indices[:1]].min() <= 1.05 * ms.min()


@pytest.mark.parametrize(("way", "products", "moved"), [("keys", 2.0, 1.5), ("queries", 1.5, 1.25)])
def test_backward_multiplies_more_often_and_ranks(way: str, products: float, moved: float) -> None:
    size = dict(batch=4, heads=16, seq=1024, head_dim=128, causal=True)
    forward, backward = carver.FlashAttentionTemplate(**size), carver.FlashAttentionTemplate(**size, backward=way)
    assert backward.problem.flops == products * forward.problem.flops
    assert backward.problem.compulsory_bytes == moved * forward.problem.compulsory_bytes
    ranking = backward.with_arch("h200").recommend_hints(3)
    assert {hint.kernel for hint in ranking} == {"triton_backward"}
    assert ranking[0].predicted_ms > forward.with_arch("h200").recommend_hints(1)[0].predicted_ms
    with pytest.raises(carver.CarverError, match="a pass is forward"):
        backward.with_arch("h200").rank([{"BLOCK_M": 64, "BLOCK_N": 64}], "triton_tma")


def test_backward_says_what_it_takes() -> None:
    for wrong, says in (
        (dict(backward="both"), "whose gradients"), (dict(backward="keys", kv_heads=2), "no shared heads"),
        (dict(backward="queries", seq_kv=64), "as many keys as queries"),
    ):  # fmt: skip
        with pytest.raises(carver.CarverError, match=says):
            carver.FlashAttentionTemplate(**(dict(batch=1, heads=4, seq=128) | wrong))


def test_blocks_of_keys_that_walk_most_come_first() -> None:
    """So that the last wave of a causal grid is short."""
    config = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
    ratio = {}
    for way in ("keys", "queries"):
        whole, half = (
            carver.FlashAttentionTemplate(1, 16, seq=8192, head_dim=128, causal=causal, backward=way).with_arch("h200")
            .rank([config])[0].predicted_ms for causal in (False, True)
        )  # fmt: skip
        ratio[way] = half / whole
    assert ratio["keys"] < ratio["queries"]


def test_lanes_read_their_operands_on_vector_units() -> None:
    """Before compute capability 8.0 Triton multiplies on vector units: its code waits for shared memory. ptxas gives
    the threads of 32 x 32 with 4 warps 214 registers, and spills 1948 bytes of 32 x 128."""
    op = carver.FlashAttentionTemplate(2, 16, 16, 8192, head_dim=64).with_arch("t4")
    tile = {"BLOCK_M": 32, "BLOCK_N": 32, "num_stages": 2}
    [hint] = op.rank([tile | {"num_warps": 4}], "triton")
    assert hint.bound == "shared memory" and 180 <= hint.launch.registers <= 240
    [deeper] = op.rank([tile | {"BLOCK_N": 128, "num_warps": 4}], "triton")
    assert deeper.launch.registers == 255


def test_values_beyond_the_registers_that_instructions_name_are_moved() -> None:
    """Of heads of 64 on gfx942, Triton 3.6 gives 128 x 128 with 4 warps 352 registers, and 128 x 64 244."""
    tile = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 4, "num_stages": 2}
    many = space("mi300x", tile, batch=4, heads=16, kv_heads=16, seq=4096, head_dim=64)
    few = space("mi300x", tile | {"BLOCK_N": 64}, batch=4, heads=16, kv_heads=16, seq=4096, head_dim=64)
    assert many["registers"][0] > 256 >= few["registers"][0]
    of_many, of_few = (price(each).made[0].issue_clk[0] for each in (many, few))
    assert of_many / 128 > of_few / 64  # although more keys share the rest
