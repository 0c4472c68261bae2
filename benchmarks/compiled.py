"""What carver's first picks of other projects' kernels lose, ranked by what Triton makes of them, with no GPU.

    python benchmarks/compiled.py TABLE [--attention FILE.py:NAME] [--block-fp8 FILE.py:NAME] [--arch h200]

TABLE is JSON, gzipped or not: `results`, each with `problem`, `configs` and `times` in ms (null: did not run), and
`kind` where it holds several kernels. Those of kind "tma" are `kernels/triton_zoo.py:matmul_persistent`; those of other
projects are named on the command line, and are not part of carver:

    --attention   SGLang's `_fwd_kernel` of prefill attention
    --block-fp8   SGLang's `_w8a8_block_fp8_matmul`
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import frame
import numpy as np

import carver
from carver.base.errors import ConfigError
from carver.base.given import text_of
from carver.compiled.worker import kernel_at

Config = dict[str, Any]


class Case(NamedTuple):
    """One problem of one kernel, with what was measured. [ms]"""

    name: str
    kernel: Any
    configs: Sequence[Config]
    times: Sequence[float | None]
    args: Any
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]
    constants: Mapping[str, Any] = {}
    values: Mapping[str, Any] = {}


def ranked(case: Case, arch: carver.Arch) -> carver.Ranking:
    return carver.rank_kernel(
        case.kernel, case.configs, args=case.args, grid=case.grid, arch=arch, constants=case.constants,
        values=case.values, progress=sys.stderr.isatty(), compile="all",
    )  # fmt: skip


def predicted_ms(ranking: carver.Ranking, count: int) -> list[float | None]:
    """By place in the list that was ranked."""
    ms = {place: hint.predicted_ms for hint in ranking for place in (hint.index, *hint.also)}
    return [ms.get(place) for place in range(count)]


def score(case: Case, arch: carver.Arch) -> frame.Score:
    """Rank all configurations; only those that ran are picks."""
    return frame.scored(case.name, predicted_ms(ranked(case, arch), len(case.configs)), case.times)


def attention(row: Mapping[str, Any], kernel: Any) -> Case:
    p = row["problem"]
    tokens, d = p["batch"] * p["seq"], p["head_dim"]
    q, kv = (carver.Tensor("float16", (tokens, heads, d)) for heads in (p["heads"], p["kv_heads"]))
    whole = carver.Tensor("int32", (p["batch"],))
    args = {
        "Q": q, "K": kv, "V": kv, "Out": q, "B_Start_Loc": whole, "B_Seqlen": whole, "sm_scale": d**-0.5,
        "stride_qbs": p["heads"] * d, "stride_qh": d, "stride_kbs": p["kv_heads"] * d, "stride_kh": d,
        "stride_vbs": p["kv_heads"] * d, "stride_vh": d, "stride_obs": p["heads"] * d, "stride_oh": d,
    }  # fmt: skip
    constants = {"kv_group_num": p["heads"] // p["kv_heads"], "BLOCK_DMODEL": d, "Lk": d, "IS_CAUSAL": p["causal"]}
    values = {"B_Seqlen": p["seq"], "B_Start_Loc": np.arange(p["batch"]) * p["seq"]}

    def grid(known: Mapping[str, Any]) -> tuple[int, ...]:
        return p["batch"], p["heads"], -(-p["seq"] // known["BLOCK_M"])

    name = f"attention {tuple(p.values())}"
    return Case(name, kernel, row["configs"], row["times"], args, grid, constants, values)


def descriptors(row: Mapping[str, Any], arch: carver.Arch) -> Case:
    dtype, m, n, k = row["problem"]
    a, b, c = (carver.Tensor(dtype, shape) for shape in ((m, k), (n, k), (m, n)))
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": m, "N": n, "K": k}
    name = f"tensor descriptors {(dtype, m, n, k)}"
    from kernels import triton_zoo  # needs Triton, which who scores what is recorded need not have

    kernel = triton_zoo.matmul_persistent
    return Case(name, kernel, row["configs"], row["times"], args, lambda known: (arch.sm_count,))


def block_fp8(row: Mapping[str, Any], kernel: Any, dtype: str = "float8_e4m3") -> Case:
    m, n, k = (row["problem"][name] for name in "MNK")
    args = {
        "A": carver.Tensor(dtype, (m, k)), "B": carver.Tensor(dtype, (n, k)),
        "C": carver.Tensor("bfloat16", (m, n)), "As": carver.Tensor("float32", (m, k // 128)),
        "Bs": carver.Tensor("float32", (-(-n // 128), k // 128)),
        "M": m, "N": n, "K": k, "group_n": 128, "group_k": 128,
        "stride_am": k, "stride_ak": 1, "stride_bk": 1, "stride_bn": k, "stride_cm": n, "stride_cn": 1,
        "stride_As_m": k // 128, "stride_As_k": 1, "stride_Bs_k": 1, "stride_Bs_n": k // 128,
    }  # fmt: skip
    longer = {"BLOCK_": "BLOCK_SIZE_", "GROUP_": "GROUP_SIZE_"}
    configs = []
    for config in row["configs"]:
        head = {name: next((new for old, new in longer.items() if name.startswith(old)), "") for name in config}
        configs.append({(head[name] + name.partition("_")[2] if head[name] else name): v for name, v in config.items()})

    def grid(known: Mapping[str, Any]) -> tuple[int, ...]:
        return (-(-m // known["BLOCK_SIZE_M"]) * -(-n // known["BLOCK_SIZE_N"]),)

    name, constants = f"block fp8 {(m, n, k)}", {"needs_masking": False}
    return Case(name, kernel, configs, row["times"], args, grid, constants)


def cases(table: Mapping[str, Any], options: argparse.Namespace, arch: carver.Arch) -> Iterator[Case]:
    for row in table["results"]:
        match row.get("kind", "block fp8"):
            case "attention" if options.attention:
                yield attention(row, kernel_at(options.attention))
            case "tma":
                yield descriptors(row, arch)
            case "block fp8" if options.block_fp8:
                yield block_fp8(row, kernel_at(options.block_fp8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--attention", help="FILE.py:NAME")
    parser.add_argument("--block-fp8", help="FILE.py:NAME")
    parser.add_argument("--arch", default="h200")
    options = parser.parse_args()
    arch = carver.load_arch(options.arch)
    table = json.loads(text_of(options.table, ConfigError))
    scores: dict[str, list[frame.Score]] = {}
    for case in cases(table, options, arch):
        scores.setdefault(case.name.partition(" (")[0], []).append(score(case, arch))
    for kind, found in scores.items():
        print(frame.report(found, kind))


if __name__ == "__main__":
    main()
