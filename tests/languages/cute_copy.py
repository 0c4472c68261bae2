"""CuTe DSL: a copy, each block of which gets its tile by TMA."""

import cutlass
from cutlass import cute, utils
from cutlass.cute.nvgpu import cpasync


@cute.kernel
def copied(
    atom: cute.CopyAtom,
    source: cute.Tensor,
    out: cute.Tensor,
    layout: cute.Layout,
    rows: cutlass.Constexpr,
    cols: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    memory = utils.SmemAllocator()
    filled = memory.allocate_array(cutlass.Int64, 1)
    tile = memory.allocate_tensor(cutlass.Float16, layout, byte_alignment=128)
    part = cute.local_tile(source, (rows, cols), (x, y))
    inside, outside = cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(part, 0, 2)
    )
    if thread == 0:
        cute.arch.mbarrier_init(filled, 1)
    cute.arch.sync_threads()
    if thread == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(filled, rows * cols * 2)
    if thread < 32:
        cute.copy(atom, outside, inside, tma_bar_ptr=filled)
    cute.arch.mbarrier_wait(filled, 0)
    result = cute.local_tile(out, (rows, cols), (x, y))
    for i in range(thread, rows * cols, 128):
        result[i // cols, i % cols] = tile[i // cols, i % cols]


@cute.jit
def copy(a: cute.Tensor, b: cute.Tensor, threads: cutlass.Int32, rows: cutlass.Constexpr, cols: cutlass.Constexpr):
    layout = cute.make_layout((rows, cols), stride=(cols, 1))
    atom, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), a, layout, (rows, cols))
    copied(atom, source, b, layout, rows, cols).launch(
        grid=[a.shape[0] // rows, a.shape[1] // cols, 1], block=[threads, 1, 1]
    )
