"""cuTile: C = A B + shift, by tiles."""

import cuda.tile as ct


@ct.kernel
def matmul(a, b, c, shift, rows: ct.Constant[int], cols: ct.Constant[int], depth: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.full((rows, cols), 0.0, ct.float32)
    for k in range(ct.cdiv(a.shape[1], depth)):
        left = ct.load(a, index=(i, k), shape=(rows, depth))
        right = ct.load(b, index=(k, j), shape=(depth, cols))
        total = ct.mma(left, right, total)
    ct.store(c, index=(i, j), tile=(total + shift).astype(c.dtype))


@ct.kernel
def shifted(a, out, shift, width: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(a, index=(i,), shape=(width,)) + shift)
