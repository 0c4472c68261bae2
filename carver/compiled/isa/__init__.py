"""Machine code of a kernel, read without a GPU: NVIDIA's SASS and AMD's GCN, CDNA and RDNA assembly.

* `sass.read(cubin)`, `amd.read(text)` -> `code.Code`: instructions, resources, the tree of loops
* `rates.table("sm_90")` -> what an instruction asks of which pipe (`arch/isa/*.toml`)
* `rates.demand(code, indices, table)` -> what a span of instructions asks of each pipe, in bytes and in matrix FLOPs
* `chain.chain(code, loop, table, ...)` -> clocks of a lone warp, and which wait waits for which load
"""
