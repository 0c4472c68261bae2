"""Chains: tiles propagated by hand, what fusing saves, which chains have a kernel, what is refused."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carver
from carver.base.errors import NotationError, ProblemError

ATTENTION = (
    "S[b,q,s] += Q[b,q,d] * K[b,s,d]",
    "P[b,q,s] = softmax(S[b,q,s])",
    "O[b,q,e] += P[b,q,s] * V[b,s,e]",
)
GATED = (
    "G[m,n] += A[m,k] * W[k,n]",
    "U[m,n] += A[m,k] * X[k,n]",
    "C[m,n] = silu_mul(G[m,n], U[m,n])",
)


def attention(**sizes: int) -> carver.Chain:
    return carver.Chain(*ATTENTION, **({"b": 64, "q": 4096, "s": 4096, "d": 128, "e": 128} | sizes))


def gated(m: int = 4096, n: int = 14336, k: int = 4096) -> carver.Chain:
    return carver.Chain(*GATED, m=m, n=n, k=k, in_dtype="bfloat16")


def test_the_graph_is_a_graph_of_tensors() -> None:
    graph = attention().graph
    assert isinstance(graph, nx.DiGraph)
    assert set(graph.edges) == {("Q", "S"), ("K", "S"), ("S", "P"), ("P", "O"), ("V", "O")}
    assert str(graph.nodes["P"]["statement"]) == ATTENTION[1]
    assert "statement" not in graph.nodes["Q"]


def test_the_tile_of_an_attention_by_hand() -> None:
    tiles = attention().tiles({"b": 1, "q": 128}, {"s": 64})
    assert tiles == {
        "O": (1, 128, 128), "P": (1, 128, 64), "V": (1, 64, 128),
        "S": (1, 128, 64), "Q": (1, 128, 128), "K": (1, 64, 128),
    }  # fmt: skip


def test_windows_grow_backwards() -> None:
    """16 outputs of a filter of 3 need 18 inputs, those 36 + 4 - 1 of the inputs of a filter of 4 with stride 2."""
    chain = carver.Chain("Y[c,p] += X[c,2*p+r] * F[c,r]", "Z[c,i] += Y[c,i+t] * H[c,t]", c=8, p=130, r=4, i=128, t=3)
    assert chain.tiles({"i": 16}) == {"Z": (8, 16), "Y": (8, 18), "H": (8, 3), "X": (8, 2 * 17 + 3 + 1), "F": (8, 4)}
    fusion = chain.fused({"i": 16}, "a100")
    # blocks overlap: 8 blocks compute 18 of Y each, 144 where 130 are enough
    assert fusion.blocks == 8
    assert fusion.flops == 8 * (2 * 8 * 18 * 4 + 2 * 8 * 16 * 3)
    assert fusion.separate_flops == 2 * 8 * 130 * 4 + 2 * 8 * 128 * 3


def test_what_attention_saves_by_hand() -> None:
    f = attention().fused({"b": 1, "q": 128}, "h200", {"s": 64}, stages=2)
    scores = 64 * 4096 * 4096 * 2
    assert f.blocks == 64 * 32
    assert f.smem_bytes == 128 * 128 * 2 + 2 * (64 * 128 * 2) * 2
    assert f.registers == 128 * 64 + 128 * 64 // 2 + 128 * 128
    assert f.saved_bytes == {"S": 2 * scores, "P": 2 * scores}
    assert f.dram_bytes == 4 * 64 * 4096 * 128 * 2
    assert f.separate_dram_bytes == f.dram_bytes + 4 * scores
    assert f.flops == f.separate_flops
    assert f.saved_s["S"] == pytest.approx(2 * scores / (carver.load_arch("h200").dram_bytes_per_s * 0.88) + 4e-6)
    # 4 operands of 1 MiB a head; every block reads its queries, all keys and values, and writes its output
    assert f.l2_bytes == 64 * 32 * (2 * 128 * 128 + 2 * 4096 * 128) * 2


def test_recomputing_shows() -> None:
    """Half of the value columns a block: the scores are computed twice."""
    f = attention().fused({"b": 1, "q": 128, "e": 64}, "h200", {"s": 64})
    product = 2 * 64 * 4096 * 4096 * 128
    assert f.flops - f.separate_flops == product + 64 * 4096 * 4096


@pytest.mark.parametrize("chain", [attention(), gated()])
def test_external_and_saved_bytes_add_up(chain: carver.Chain) -> None:
    f = chain.fused({}, "a100")
    once = {t.name: chain._bytes(t) for t in (*chain.external, chain.output)}
    again = sum(chain._bytes(t) for node in chain.nodes for t in node.inputs if t.name in once) - sum(
        once[t.name] for t in chain.external
    )
    assert f.separate_dram_bytes == f.dram_bytes + sum(f.saved_bytes.values()) + again


@given(*(st.integers(1, 400) for _ in range(5)), *(st.integers(1, 64) for _ in range(3)))
def test_tiles_stay_within_the_tensors(b: int, q: int, s: int, d: int, e: int, tq: int, te: int, ts: int) -> None:
    chain = attention(b=b, q=q, s=s, d=d, e=e)
    for name, tile in chain.tiles({"b": 1, "q": tq, "e": te}, {"s": ts}).items():
        tensor = next(t for node in chain.nodes for t in (node.output, *node.inputs) if t.name == name)
        assert all(1 <= part <= whole for part, whole in zip(tile, tensor.shape(chain.sizes), strict=True))
    f = chain.fused({"b": 1, "q": tq, "e": te}, "h200", {"s": ts})
    assert f.flops >= f.separate_flops
    assert f.dram_bytes < f.separate_dram_bytes
    assert f.l2_bytes >= f.dram_bytes


def test_attention_recommends_through_its_template() -> None:
    chain = attention()
    direct = carver.FlashAttentionTemplate(1, 64, seq=4096, head_dim=128).with_arch("h200").recommend_hints(3)
    assert chain.recommend_hints("h200", 3).seconds == pytest.approx(direct.seconds)
    assert chain.with_arch("h200").recommend_hints(3).seconds == pytest.approx(direct.seconds)
    shared = carver.Chain(
        "S[h,g,q,s] += Q[h,g,q,d] * K[h,s,d]", "P[h,g,q,s] = softmax(S[h,g,q,s])",
        "O[h,g,q,e] += P[h,g,q,s] * V[h,s,e]", h=8, g=4, q=256, s=512, d=64, e=64,
    )  # fmt: skip
    assert shared.template.problem == carver.FlashAttentionTemplate(1, 32, 8, 256, 512, 64).problem


def test_attention_as_one_kernel_is_much_faster() -> None:
    comparison = attention().compare("h200")
    assert comparison.fused_s < 0.5 * sum(comparison.separate_s.values())
    assert comparison.saved_s == pytest.approx(sum(comparison.separate_s.values()) - comparison.fused_s)


def test_a_gated_mlp_costs_what_one_matmul_twice_as_wide_costs() -> None:
    """And a little more: all of its warps stand along one side of the tile."""
    fused = carver.GatedMLPTemplate(4096, 14336, 4096, in_dtype="bfloat16").with_arch("a100").recommend_hints(1)
    wide = carver.MatmulTemplate(4096, 28672, 4096, in_dtype="bfloat16").with_arch("a100").recommend_hints(1, "triton")
    assert fused.seconds[0] == pytest.approx(wide.seconds[0], rel=0.05)
    problem = fused[0].problem
    assert problem.flops == 2 * 2 * 4096 * 14336 * 4096
    assert problem.compulsory_bytes == 2 * (4096 * 4096 + 2 * 4096 * 14336 + 4096 * 14336)
    assert fused[0].launch.smem_bytes <= 166_912
    assert gated().recommend_hints("a100", 1).seconds == pytest.approx(fused.seconds)


def test_silu_and_a_product_are_the_same_gated_mlp() -> None:
    gate, up, _ = GATED
    sizes = dict(m=64, n=512, k=512, in_dtype="bfloat16")
    one = gated(64, 512, 512).template.problem
    silu, product = "H[m,n] = silu(G[m,n])", "C[m,n] = mul(U[m,n], H[m,n])"
    for statements in ((gate, up, silu, product), (gate, silu, up, product)):
        assert carver.Chain(*statements, **sizes).template.problem == one
    with pytest.raises(ProblemError, match="no gated MLP"):
        carver.Chain(gate, "U[m,n] += B[m,k] * X[k,n]", silu, product, **sizes).recommend_hints("h200")


def test_a_gated_mlp_of_few_rows_reads_its_weights_once() -> None:
    h = carver.GatedMLPTemplate(16, 14336, 4096, in_dtype="bfloat16").with_arch("h200").recommend_hints(1)[0]
    assert h.bound == "DRAM"
    assert h.details["dram_bytes"] == pytest.approx(h.details["compulsory_bytes"], rel=0.3)
    assert gated(16).compare("h200").saved_s > 0


def test_whole_rows_or_two_passes() -> None:
    op = carver.MatmulSoftmaxTemplate(4096, 512, 256).with_arch("h200")
    best = op.recommend_hints(1)[0]
    assert best.config["PASSES"] == 1
    assert best.config["BLOCK_N"] == 512
    tile = {"BLOCK_M": 64, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 2}
    ranking = op.rank([{**tile, "PASSES": 1}, {**tile, "PASSES": 2}])
    assert ranking.indices == [1]
    assert "as wide as the rows" in ranking.reasons[0]
    two = ranking[0]
    assert two.details["steps"] == 2 * 2 * 4  # passes, column tiles, steps of K
    long = carver.MatmulSoftmaxTemplate(4096, 50000, 256).with_arch("h200").recommend_hints(5)
    assert all(h.config["PASSES"] == 2 for h in long)


def test_a_softmax_after_a_matmul_saves_little_where_it_multiplies_twice() -> None:
    sizes = {"m": 8192, "n": 8192, "k": 1024}
    chain = carver.Chain("C[m,n] += A[m,k] * B[k,n]", "P[m,n] = softmax(C[m,n])", **sizes)
    comparison = chain.compare("h200")
    assert comparison.fused_s > comparison.separate_s["C"]
    assert comparison.saved_s < 0


def test_an_epilogue_saves_kernels_and_takes_its_instructions() -> None:
    chain = carver.Chain(
        "C[m,n] += A[m,k] * B[k,n]", "D[m,n] = add(C[m,n], z[n])", "E[m,n] = gelu(D[m,n])", m=4096, n=4096, k=4096
    )
    matmul = carver.MatmulTemplate(4096, 4096, 4096, with_bias=True, activation="gelu")
    assert dict(chain.template.problem.options) == {
        k: v for k, v in matmul.problem.options.items() if not k.startswith("trans")
    }
    comparison = chain.compare("h200")
    assert comparison.saved_s > 0.00002
    assert comparison.fused_s > comparison.separate_s["C"] + 25 * 4096**2 / (132 * 128 * 1.98e9)


def test_a_chain_adds_and_multiplies_in_index_notation_too() -> None:
    sizes = {"m": 64, "n": 64, "k": 64}
    product = "C[m,n] += A[m,k] * B[k,n]"
    said = carver.Chain(product, "D[m,n] = add(C[m,n], z[n])", "E[m,n] = mul(D[m,n], w[m,n])", **sizes)
    spelt = carver.Chain(product, "D[m,n] = z[n] + C[m,n]", "E[m,n] = D[m,n] * w[m,n]", **sizes)
    assert str(spelt) == str(said)
    with pytest.raises(NotationError, match="adds or multiplies two tensors with '='"):
        carver.Chain(product, "D[m,n] = C[m,n] + z[n] + w[n]", **sizes)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ((), "at least one"),
        (("S[m,n] = softmx(A[m,n])",), "softmax"),
        (("C[m,n] = add(A[m,n])",), "takes 2 tensors"),
        (("C[m,n] = relu(A[m,n] + 3)",), "takes 1 tensor"),
        (("C[m] = relu(A[m,n])",), "reduced"),
        (("C[m,n] = relu(A[n,m])",), "keeps the shape"),
        (("C[m,n] max= A[m,n]",), "contracts with"),
        (("C[m,n] += A[m,k] * B[k,n]", "C[m,n] = relu(D[m,n])"), "exists already"),
        (("C[m,n] += A[m,k] * B[k,n]", "D[m,n] = relu(E[m,n])"), "never used"),
        (("C[m,n] += A[m,k] * B[k,n]", "D[m,k] = relu(C[m,k])"), "is made as"),
    ],
)
def test_what_is_no_chain(statements: tuple[str, ...], message: str) -> None:
    axes = {"m": 4, "n": 8, "k": 16}
    used = {a: n for a, n in axes.items() if any(a in s.split("[", 1)[1] for s in statements)}
    with pytest.raises((ProblemError, NotationError), match=message):
        carver.Chain(*statements, **used)


def test_sizes_are_checked() -> None:
    with pytest.raises(ProblemError, match="axes b, d, e, q, s"):
        carver.Chain(*ATTENTION, b=1, q=2, s=3)
    with pytest.raises(ProblemError, match="size q"):
        attention(q=0)


def test_half_a_row_is_refused_unless_it_is_rescaled() -> None:
    rows = carver.Chain("C[m,n] += A[m,k] * B[k,n]", "P[m,n] = softmax(C[m,n])", m=64, n=64, k=64)
    with pytest.raises(ProblemError, match="whole rows"):
        rows.tiles({"m": 16, "n": 32})
    norm = carver.Chain(
        "S[q,s] += Q[q,d] * K[s,d]", "P[q,s] = rms_norm(S[q,s])", "O[q,e] += P[q,s] * V[s,e]", q=64, s=64, d=64, e=64
    )
    with pytest.raises(ProblemError, match="whole rows"):
        norm.tiles({"q": 16}, {"s": 16})


@pytest.mark.parametrize(
    "statements",
    [
        ("C[m,n] += A[m,k] * B[k,n]", "D[m,n] = mul(C[m,n], z[m,n])"),
        ("C[m,n] += A[m,k] * B[k,n]", "D[m,n] = layer_norm(C[m,n])"),
        ("C[m,n] += A[m,k] * B[k,n]", "D[m,n] = relu(C[m,n])", "E[m,n] = add(D[m,n], z[n])"),
        ("C[m,n] += A[m,k] * B[k,n]", "D[m,n] = add(C[m,n], z[m,n])"),
    ],
)
def test_chains_without_a_kernel_say_so(statements: tuple[str, ...]) -> None:
    chain = carver.Chain(*statements, m=64, n=64, k=64)
    assert chain.fused({"m": 16}, "h200").dram_bytes > 0
    with pytest.raises(ProblemError, match=r"kernel|epilogue"):
        chain.recommend_hints("h200")


def test_tile_and_step_are_told_apart() -> None:
    with pytest.raises(ProblemError, match="goes into step"):
        attention().fused({"q": 128, "s": 64}, "h200")
    with pytest.raises(ProblemError, match="no axis 'z'"):
        attention().tiles({"z": 3})
