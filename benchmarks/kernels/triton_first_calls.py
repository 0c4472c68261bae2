"""Five autotuned operators of 36 to 54 configurations each, timed by `benchmarks/first_calls_timed.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl


def grid_cfgs(block_m, block_n, block_k, warps, stages):
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w, num_stages=s)
        for m in block_m for n in block_n for k in block_k for w in warps for s in stages
        if m * n <= 128 * 256 and not (m * n <= 64 * 64 and w == 8) and not (m * n > 128 * 128 and w == 4)
    ]


@triton.autotune(grid_cfgs((64, 128), (64, 128, 256), (32, 64), (4, 8), (3, 4)), key=["M", "N", "K"])
@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    nm, nn = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    width = 8 * nn
    first = pid // width * 8
    size = min(nm - first, 8)
    pm, pn = first + (pid % width) % size, (pid % width) // size
    rm = (pm * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    rn = (pn * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    rk = tl.arange(0, BLOCK_K)
    a = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(a, mask=rk[None, :] < K - k * BLOCK_K, other=0.0)
        y = tl.load(b, mask=rk[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(x, y, acc)
        a += BLOCK_K * sak
        b += BLOCK_K * sbk
    om, on = pm * BLOCK_M + tl.arange(0, BLOCK_M), pn * BLOCK_N + tl.arange(0, BLOCK_N)
    ok = (om[:, None] < M) & (on[None, :] < N)
    tl.store(c_ptr + om[:, None] * scm + on[None, :] * scn, acc.to(tl.float16), mask=ok)


@triton.autotune(
    [triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
     for m in (64, 128) for n in (32, 64, 128) for w in (4, 8) for s in (2, 3, 4)], key=["T", "D"])
@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, T, H,
              D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    start, bh = tl.program_id(0), tl.program_id(1)
    base = bh.to(tl.int64) * T * D
    rm, rd, rn = start * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D), tl.arange(0, BLOCK_N)
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :], mask=rm[:, None] < T, other=0.0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    c = scale * 1.44269504
    end = tl.minimum((start + 1) * BLOCK_M, T) if CAUSAL else T
    for n in range(0, end, BLOCK_N):
        cols = n + rn
        k = tl.load(k_ptr + base + cols[None, :] * D + rd[:, None], mask=cols[None, :] < T, other=0.0)
        s = tl.dot(q, k) * c
        ok = cols[None, :] < T
        if CAUSAL:
            ok = ok & (rm[:, None] >= cols[None, :])
        s = tl.where(ok, s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        alpha = tl.math.exp2(m - new)
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + base + cols[:, None] * D + rd[None, :], mask=cols[:, None] < T, other=0.0)
        acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
        m = new
    acc = acc / total[:, None]
    tl.store(o_ptr + base + rm[:, None] * D + rd[None, :], acc.to(tl.float16), mask=rm[:, None] < T)
    tl.store(lse_ptr + bh * T + rm, m + tl.log2(total), mask=rm < T)


@triton.autotune(
    [triton.Config({"ROWS": r}, num_warps=w, num_stages=s)
     for r in (1, 2, 4, 8, 16) for w in (2, 4, 8, 16) for s in (1, 2)], key=["N"])
@triton.jit
def norm_backward(x_ptr, dy_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, M, N, PER,
                  BLOCK: tl.constexpr, ROWS: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    ok = cols < N
    w = tl.load(w_ptr + cols, mask=ok, other=0.0).to(tl.float32)
    dw, db = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for i in range(0, PER, ROWS):
        rows = pid * PER + i + tl.arange(0, ROWS)
        both = (rows[:, None] < M) & ok[None, :]
        at = rows[:, None].to(tl.int64) * N + cols[None, :]
        x = tl.load(x_ptr + at, mask=both, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at, mask=both, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < M, other=0.0)
        rstd = tl.load(rstd_ptr + rows, mask=rows < M, other=0.0)
        xhat = (x - mean[:, None]) * rstd[:, None]
        g = dy * w[None, :]
        c1 = tl.sum(xhat * g, 1) / N
        c2 = tl.sum(g, 1) / N
        dx = (g - (xhat * c1[:, None] + c2[:, None])) * rstd[:, None]
        tl.store(dx_ptr + at, dx.to(tl.float16), mask=both)
        dw += tl.sum(dy * xhat, 0)
        db += tl.sum(dy, 0)
    tl.store(dw_ptr + pid * N + cols, dw, mask=ok)
    tl.store(db_ptr + pid * N + cols, db, mask=ok)


@triton.autotune(
    [triton.Config({"BK": k, "BV": v}, num_warps=w, num_stages=s)
     for k in (32, 64) for v in (32, 64, 128) for w in (2, 4, 8) for s in (2, 3, 4)], key=["T", "K", "V"])
@triton.jit
def chunk_scan(q_ptr, k_ptr, v_ptr, g_ptr, h_ptr, o_ptr, scale, T, K, V, NT,
               BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    iv, it, bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rt, rv = it * BT + tl.arange(0, BT), iv * BV + tl.arange(0, BV)
    base = bh.to(tl.int64) * T
    acc, A = tl.zeros((BT, BV), tl.float32), tl.zeros((BT, BT), tl.float32)
    for ik in range(0, tl.cdiv(K, BK)):
        rk = ik * BK + tl.arange(0, BK)
        q = tl.load(
            q_ptr + (base + rt)[:, None] * K + rk[None, :], mask=(rt[:, None] < T) & (rk[None, :] < K), other=0.0
        )
        k = tl.load(
            k_ptr + (base + rt)[None, :] * K + rk[:, None], mask=(rt[None, :] < T) & (rk[:, None] < K), other=0.0
        )
        h = tl.load(h_ptr + (bh * NT + it).to(tl.int64) * K * V + rk[:, None] * V + rv[None, :],
                    mask=(rk[:, None] < K) & (rv[None, :] < V), other=0.0)
        acc = tl.dot(q, h, acc)
        A = tl.dot(q, k, A)
    g = tl.load(g_ptr + base + rt, mask=rt < T, other=0.0)
    acc = acc * tl.exp(g)[:, None]
    A = A * tl.exp(g[:, None] - g[None, :])
    A = tl.where(rt[:, None] >= rt[None, :], A, 0.0)
    v = tl.load(v_ptr + (base + rt)[:, None] * V + rv[None, :], mask=(rt[:, None] < T) & (rv[None, :] < V), other=0.0)
    acc = (acc + tl.dot(A.to(v.dtype), v)) * scale
    ok = (rt[:, None] < T) & (rv[None, :] < V)
    tl.store(o_ptr + (base + rt)[:, None] * V + rv[None, :], acc.to(v.dtype), mask=ok)


@triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w, num_stages=s)
     for b in (1024, 2048, 4096, 8192, 16384) for w in (4, 8, 16, 32) for s in (1, 3)], key=["V"])
@triton.jit
def cross_entropy(x_ptr, y_ptr, loss_ptr, dx_ptr, stride, V, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x, dx, y = x_ptr + row * stride, dx_ptr + row * stride, tl.load(y_ptr + row)
    m, d, total = -float("inf"), 0.0, 0.0
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        z = tl.load(x + cols, mask=cols < V, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(z))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(z - new))
        total += tl.sum(tl.where(cols < V, z, 0.0))
        m = new
    eps = smoothing / V
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        z = tl.load(x + cols, mask=cols < V, other=-float("inf")).to(tl.float32)
        p = tl.exp(z - m) / d - eps
        p = tl.where(cols == y, p - (1.0 - smoothing), p)
        tl.store(dx + cols, p.to(tl.bfloat16), mask=cols < V)
    own = tl.load(x + y).to(tl.float32)
    lse = m + tl.log(d)
    tl.store(loss_ptr + row, (lse - own) * (1.0 - smoothing) + smoothing * (lse - total / V))


Case = tuple[Any, Any, dict[str, Any]]


def cases(device: str = "cuda") -> Iterator[Case]:
    """Tuner, grid and arguments of each."""

    def new(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device).uniform_(-1, 1)

    f32, cdiv = torch.float32, triton.cdiv
    rows, cols, deep = 4096, 4096, 2048
    yield gemm, lambda meta: (cdiv(rows, meta["BLOCK_M"]) * cdiv(cols, meta["BLOCK_N"]),), {
        "a_ptr": new(rows, deep), "b_ptr": new(deep, cols), "c_ptr": new(rows, cols), "M": rows, "N": cols, "K": deep,
        "sam": deep, "sak": 1, "sbk": cols, "sbn": 1, "scm": cols, "scn": 1,
    }  # fmt: skip
    heads, length, width = 64, 4096, 64
    yield attention, lambda meta: (cdiv(length, meta["BLOCK_M"]), heads), {
        **{name: new(heads, length, width) for name in ("q_ptr", "k_ptr", "v_ptr", "o_ptr")},
        "lse_ptr": new(heads, length, dtype=f32), "scale": 0.125, "T": length, "H": 16, "D": width, "CAUSAL": True,
    }  # fmt: skip
    many, wide, parts = 16384, 2048, 128
    yield norm_backward, (parts,), {
        "x_ptr": new(many, wide), "dy_ptr": new(many, wide), "w_ptr": new(wide), "mean_ptr": new(many, dtype=f32),
        "rstd_ptr": new(many, dtype=f32), "dx_ptr": new(many, wide), "dw_ptr": new(parts, wide, dtype=f32),
        "db_ptr": new(parts, wide, dtype=f32), "M": many, "N": wide, "PER": many // parts, "BLOCK": wide,
    }  # fmt: skip
    keys, chunk = 128, 64
    chunks = length // chunk
    yield chunk_scan, lambda meta: (cdiv(keys, meta["BV"]), chunks, heads), {
        **{name: new(heads, length, keys) for name in ("q_ptr", "k_ptr", "v_ptr", "o_ptr")},
        "g_ptr": new(heads, length, dtype=f32), "h_ptr": new(heads, chunks, keys, keys), "scale": 0.1, "T": length,
        "K": keys, "V": keys, "NT": chunks, "BT": chunk,
    }  # fmt: skip
    tokens, words = 4096, 32000
    yield cross_entropy, (tokens,), {
        "x_ptr": new(tokens, words, dtype=torch.bfloat16), "y_ptr": torch.randint(0, words, (tokens,), device=device),
        "loss_ptr": new(tokens, dtype=f32), "dx_ptr": new(tokens, words, dtype=torch.bfloat16), "stride": words,
        "V": words, "smoothing": 0.1,
    }  # fmt: skip
