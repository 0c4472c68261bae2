"""Time loads, stores and atomics of rows at places that a hash gives, by the length of a row and the size of a table.

    python benchmarks/words.py --out FILE.jsonl            # by length of a row and size of a table
    python benchmarks/words.py --out FILE.jsonl --blocks   # by how many SMs work

A lane has a word. `row` neighbours have words side by side, in a row that lies anywhere; it does so `times` times in
turn, a word on. Median of nine runs, L2 flushed before each. With `--blocks` one block of 32 warps runs on each of so
many SMs and goes through all words in strides: whether SMs or L2 set the rate. Needs a GPU, PyTorch and Triton.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl
from frame import median_ms, write

KIB, LANES = 1024, 1 << 22
TABLES = (256 * KIB, 4096 * KIB, 16384 * KIB, 262144 * KIB)


@triton.jit
def at_random(y_ptr, out_ptr, rows, steps, KIND: tl.constexpr, ROW: tl.constexpr, APART: tl.constexpr,
              TIMES: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    one = tl.full((BLOCK,), 1, y_ptr.dtype.element_ty)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(steps):
        i = (step * tl.num_programs(0) + tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
        h = (i // ROW).to(tl.uint32)
        h = (h ^ (h >> 16)) * 0x45D9F3B
        h = (h ^ (h >> 15)) * 0x2C1B3C6D
        at = y_ptr + (h ^ (h >> 16)) % rows.to(tl.uint32) * APART + i % ROW
        for t in tl.static_range(TIMES):
            if KIND == "atomic":
                tl.atomic_add(at + t, one, sem="relaxed")
            elif KIND == "store":
                tl.store(at + t, one)
            else:
                total += tl.load(at + t).to(tl.float32)
    if KIND == "load":
        tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))


def cases(blocks: bool, sms: int) -> Iterator[tuple[str, str, int, int, int, int]]:
    """Kind, type, row, times, bytes of the table, blocks (0: one for each 128 words, or 256 of two bytes)."""
    if blocks:
        for kind, row, count in itertools.product(("atomic", "load", "store"), (1, 4, 8), (1, 2, 3, 4, 5, 6, 8)):
            yield kind, "float32", row, 1, 4096 * KIB, count * sms // 8
        return
    by_row = [("atomic", dtype, row, 1) for dtype in ("float32", "int32") for row in (1, 2, 4, 8, 32, 128)]
    by_row += [("atomic", "float16", row, 1) for row in (1, 2, 8, 64)]
    by_row += [(kind, "float32", row, 1) for kind in ("load", "store") for row in (1, 2, 4, 8, 32, 128)]
    by_row += [(kind, "float32", 1, times) for kind in ("atomic", "load", "store") for times in (2, 4, 8)]
    yield from ((*case, table, 0) for case, table in itertools.product(by_row, TABLES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blocks", action="store_true")
    given = parser.parse_args()
    flush = torch.empty(2**30, dtype=torch.int8, device="cuda")
    write(given.out, {"device": torch.cuda.get_device_name()})
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for kind, dtype, row, times, table, blocks in cases(given.blocks, sms):
        y = torch.zeros(table // 4, dtype=torch.int32, device="cuda").view(getattr(torch, dtype))
        sums = torch.empty(LANES // 128, device="cuda")
        apart = max(row, 32 // y.element_size())
        block = 1024 if blocks else 256 if dtype == "float16" else 128
        programs = blocks or LANES // block
        steps = -(-LANES // (programs * block))
        words = steps * programs * block

        warps = 32 if blocks else 4
        parts = y, sums, len(y) // apart, steps, kind, row, apart, times, block
        run = partial(at_random[(programs,)], *parts, num_warps=warps)
        run()
        if kind == "atomic" and dtype != "float16" and int(y.double().sum()) != words * times:
            raise SystemExit(f"{kind} {dtype} {row}: sums are wrong")
        measured = {"kind": kind, "dtype": dtype, "row": row, "times": times, "table_bytes": table, "words": words}
        write(given.out, measured | ({"blocks": blocks} if blocks else {}) | {"time_ms": median_ms(run, flush, 9)})


if __name__ == "__main__":
    main()
