"""Numba: a transpose through shared memory, made for a tile's side, and a kernel that calls a function."""

from numba import cuda, float32


def transpose(SIDE):
    PITCH = SIDE + 1

    @cuda.jit(fastmath=True)
    def kernel(a, b, factor):
        tile = cuda.shared.array((SIDE, PITCH), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        row, col = cuda.blockIdx.y * SIDE, cuda.blockIdx.x * SIDE
        if row + y < a.shape[0] and col + x < a.shape[1]:
            tile[y, x] = a[row + y, col + x] * factor
        cuda.syncthreads()
        if col + y < b.shape[0] and row + x < b.shape[1]:
            b[col + y, row + x] = tile[x, y]

    return kernel


@cuda.jit(device=True)
def shade(value):
    return value ** float32(2.4)


@cuda.jit
def shaded(x, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = shade(x[i])
