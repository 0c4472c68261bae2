"""Time loads, stores and atomics of rows at places that a hash gives, by the length of a row and the size of a table.

    python benchmarks/words.py --out FILE.jsonl

A lane has a word. `row` neighbours have words side by side, in a row that lies anywhere; it does so `times` times in
turn, a word on. Median of nine runs, L2 flushed before each. Needs a GPU, PyTorch and Triton.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import torch
import triton
import triton.language as tl
from gpu_time import median_ms

KIB, LANES = 1024, 1 << 22
TABLES = (256 * KIB, 4096 * KIB, 16384 * KIB, 262144 * KIB)


@triton.jit
def at_random(y_ptr, out_ptr, rows, KIND: tl.constexpr, ROW: tl.constexpr, APART: tl.constexpr, TIMES: tl.constexpr,
              BLOCK: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = (i // ROW).to(tl.uint32)
    h = (h ^ (h >> 16)) * 0x45D9F3B
    h = (h ^ (h >> 15)) * 0x2C1B3C6D
    at = y_ptr + (h ^ (h >> 16)) % rows.to(tl.uint32) * APART + i % ROW
    one = tl.full((BLOCK,), 1, y_ptr.dtype.element_ty)
    total = tl.zeros((BLOCK,), tl.float32)
    for t in tl.static_range(TIMES):
        if KIND == "atomic":
            tl.atomic_add(at + t, one, sem="relaxed")
        elif KIND == "store":
            tl.store(at + t, one)
        else:
            total += tl.load(at + t).to(tl.float32)
    if KIND == "load":
        tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    flush = torch.empty(2**30, dtype=torch.int8, device="cuda")
    cases = [("atomic", dtype, row, 1) for dtype in ("float32", "int32") for row in (1, 2, 4, 8, 32, 128)]
    cases += [("atomic", "float16", row, 1) for row in (1, 2, 8, 64)]
    cases += [(kind, "float32", row, 1) for kind in ("load", "store") for row in (1, 2, 4, 8, 32, 128)]
    cases += [(kind, "float32", 1, times) for kind in ("atomic", "load", "store") for times in (2, 4, 8)]
    with out.open("a", encoding="utf-8") as file:
        print(json.dumps({"device": torch.cuda.get_device_name()}), file=file)
        for (kind, dtype, row, times), table in itertools.product(cases, TABLES):
            y = torch.zeros(table // 4, dtype=torch.int32, device="cuda").view(getattr(torch, dtype))
            sums = torch.empty(LANES // 128, device="cuda")
            apart = max(row, 32 // y.element_size())
            given = y, sums, len(y) // apart, kind, row, apart, times, 256 if dtype == "float16" else 128

            def run(given: tuple = given) -> None:
                at_random[(LANES // given[-1],)](*given, num_warps=4)

            run()
            if kind == "atomic" and dtype != "float16" and int(y.double().sum()) != LANES * times:
                raise SystemExit(f"{kind} {dtype} {row}: sums are wrong")
            ms = median_ms(run, flush, 9)
            row_of = {"kind": kind, "dtype": dtype, "row": row, "times": times, "table_bytes": table, "time_ms": ms}
            print(json.dumps(row_of), file=file, flush=True)


if __name__ == "__main__":
    main()
