"""All element types of a product on all targets: what carver's declaration says of each, against the machine code.

    python benchmarks/dtypes.py compile RECORD.json     # 0.3 to 2 s for each type, target and core, no GPU
    python benchmarks/dtypes.py table RECORD.json

A type that no matrix instruction of a device takes is converted by the compiler, multiplied on vector units, or
refused. `compile` asks Triton's compiler which, and prices the machine code; `table` compares it with the declared
matmul, which asks no compiler.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import agreement
import frame

import carver
from carver.base.errors import CarverError
from carver.kernels.space import given_space

DEVICES = {
    "sm_75": "t4", **agreement.TARGETS, "sm_86": "rtx_3090", "gfx908": "mi100", "gfx1030": "rx_6900_xt",
}  # fmt: skip
TYPES = (
    "float64", "float32", "tf32", "float16", "bfloat16", "int8", "float8_e4m3", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz",
)  # fmt: skip
SIZE = 4096
TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 2, "GROUP_M": 8, "SPLIT_K": 1}
SECONDS = 180.0

Row = dict[str, Any]


def operator(dtype: str, target: str) -> Any:
    made = carver.MatmulTemplate(SIZE, SIZE, SIZE, in_dtype=dtype, trans_B=True)
    return made.with_arch(DEVICES[target])


def by_code(dtype: str, target: str) -> Row:
    """Time, and what multiplies: kinds of matrix instruction, "vector" without one, or why nothing was compiled."""
    problem = operator(dtype, target).problem
    args, constants = agreement.launch("matmul/triton", problem, {**problem.dtypes, **_stored(dtype)})
    try:
        ranking = carver.rank_kernel(
            agreement.source("matmul/triton"), [TILE], args=args, constants=constants,
            arch=DEVICES[target], grid=lambda c: ((SIZE // c["BLOCK_M"]) * (SIZE // c["BLOCK_N"]), c["SPLIT_K"], 1),
            seconds=SECONDS,
        )  # fmt: skip
    except CarverError as error:
        return {"refused": str(error).partition("\n")[0]}
    facts = ranking[0].facts
    spans = [facts.straight, *(loop.span for loop in facts.loops), *(span for _, span in facts.asides)]
    kinds = sorted({kind for span in spans for kind in (*span.matrix, *span.block_matrix)})
    return {"multiplies": kinds or ["vector"], "ms": ranking[0].predicted_ms}


def _stored(dtype: str) -> dict[str, str]:
    """TF32 is stored as float32."""
    return {"A": "float32", "B": "float32"} if dtype == "tf32" else {}


def declared(dtype: str, target: str) -> Row:
    """The same of the declaration."""
    made = operator(dtype, target)
    arch, kernel = carver.load_arch(DEVICES[target]), agreement.declared("matmul/triton")
    try:
        ranking = made.rank([TILE], backend="triton")
        space, _ = given_space(made.problem, arch, kernel, [TILE])
    except CarverError as error:
        return {"refused": str(error).partition("\n")[0]}
    return {"instruction": agreement.KINDS[space.at(0, "instruction", 0)], "ms": ranking[0].predicted_ms}


def rows(found: Mapping[str, Row]) -> Iterator[tuple[str, str, Row, Row]]:
    """Target, type, by code, declared."""
    for target in DEVICES:
        for dtype in TYPES:
            if (known := found.get(f"{target} {dtype}")) is not None:
                yield target, dtype, known, declared(dtype, target)


def kind(code: Row) -> str:
    """The kind of instruction, as declarations name it."""
    first = code["multiplies"][0].split()[0]
    return {"mfma": "mma", "wmma": "mma"}.get(first, first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compile", "table"])
    parser.add_argument("record", type=Path)
    options = parser.parse_args()
    path = options.record
    found = json.loads(path.read_text()) if path.exists() else {}
    if options.what == "compile":
        for target in DEVICES:
            for dtype in TYPES:
                if (key := f"{target} {dtype}") not in found:
                    found[key] = by_code(dtype, target)
                    path.write_text(json.dumps(found, indent=1) + "\n")
                    print(key, found[key], flush=True)
        return
    lines = []
    for target, dtype, code, said in rows(found):
        of_code = code.get("refused", "")[:40] or ", ".join(code["multiplies"])
        ratio = said["ms"] / code["ms"] if "ms" in said and "ms" in code else "-"
        lines.append((target, dtype, of_code, said.get("refused", "")[:40] or said["instruction"], ratio))
    print(frame.table(("target", "type", "the code multiplies", "declared", "declared over code"), lines))


if __name__ == "__main__":
    main()
