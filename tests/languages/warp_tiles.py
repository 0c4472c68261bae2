"""Warp: row sums by tiles, and a kernel of threads."""

import warp as wp


def row_sums(WIDTH, **_):
    @wp.kernel(enable_backward=False, module="unique")
    def row_sums(a: wp.array2d(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
        row = wp.tid()
        total = wp.tile_zeros(shape=(1,), dtype=wp.float32)
        for i in range(a.shape[1] // WIDTH):
            total += wp.tile_sum(wp.tile_load(a[row], shape=WIDTH, offset=i * WIDTH))
        wp.tile_store(out, total, offset=row)

    return row_sums


@wp.kernel(enable_backward=False, module="unique")
def scaled(a: wp.array2d(dtype=wp.float32), b: wp.array2d(dtype=wp.float32), factor: wp.float32, by: wp.vec3):
    i, j = wp.tid()
    b[i, j] = a[i, j] * factor + by[0]
