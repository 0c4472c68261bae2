"""What carver's first picks of other projects' kernels lose, ranked by what Triton makes of them, with no GPU.

    python benchmarks/compiled.py TABLE [--attention FILE.py:NAME] [--block-fp8 FILE.py:NAME] [--arch h200]
                                        [--compiled 20] [--learn]

TABLE is JSON, gzipped or not: `results`, each with `problem`, `configs` and `times` in ms (null: did not run), and
`kind` where it holds several kernels. Those of kind "tma" are `kernels/triton_zoo.py:matmul_persistent`; those of other
projects are named on the command line, and are not part of carver:

    --attention   SGLang's `_fwd_kernel` of prefill attention
    --block-fp8   SGLang's `_w8a8_block_fp8_matmul`

Prints, for each problem, the time of the best of the first k picks over the best measured, the predicted over the
measured time of the first, and what k random configurations would lose. With --compiled N the operator's declaration
picks the N that are compiled, and what the declaration alone loses is printed as well. With --learn the problems of a
kernel are tuned one after another in batches of three, ranked by what was measured so far as well: columns are trials.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from kernels import triton_zoo  # noqa: E402
from learn import tuned  # noqa: E402

import carver  # noqa: E402
from carver.base.errors import ConfigError  # noqa: E402
from carver.base.given import text_of  # noqa: E402
from carver.compiled.worker import kernel_at  # noqa: E402

PICKS = (1, 3, 5, 6)
BATCH = 3

Config = dict[str, Any]


class Case(NamedTuple):
    """One problem of one kernel, with what was measured."""

    name: str
    kernel: Any
    configs: Sequence[Config]
    times: Sequence[float | None]
    args: Any
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]
    constants: Mapping[str, Any] = {}
    values: Mapping[str, Any] = {}
    op: Any = None
    """The operator whose declaration describes the kernel roughly."""
    declared: Sequence[Config] = ()
    """The configurations in the declaration's words."""


class Score(NamedTuple):
    name: str
    lost: tuple[float, ...]
    """Of the best of the first PICKS."""
    random: tuple[float, ...]
    """The mean of as many random picks."""
    ratio: float
    """Predicted over measured time of the first pick."""


def declared(case: Case, arch: carver.Arch) -> carver.Ranking:
    return case.op.with_arch(arch).rank(case.declared or case.configs)


def score(case: Case, arch: carver.Arch, compiled: int | None = None) -> Score:
    """Rank all configurations that ran, and some that did not; only those that ran are picks."""
    return scored(case, ranked(case, arch, screen=declared(case, arch).indices[:compiled] if compiled else None))


def ranked(case: Case, arch: carver.Arch, **more: Any) -> carver.Ranking:
    return carver.rank_kernel(
        case.kernel, case.configs, args=case.args, grid=case.grid, arch=arch, constants=case.constants,
        values=case.values, progress=sys.stderr.isatty(), **more, compile="all",
    )  # fmt: skip


def learnt(case: Case, arch: carver.Arch, profile: Any) -> tuple[Score, Any]:
    """What the best trials lose, and what they taught."""
    times = np.array([np.nan if t is None else t / 1e3 for t in case.times])
    predicted = ranked(case, arch, profile=profile)
    tried, _, profile, order = tuned(times, lambda known: ranked(case, arch, profile=known), profile, max(PICKS), BATCH)
    of_first = next(hint.predicted_ms for hint in predicted if hint.index == order[0])
    return _score(case, np.array(tried) * 1e3, of_first), profile


def scored(case: Case, ranking: carver.Ranking) -> Score:
    ran = [hint for hint in ranking if case.times[hint.index] is not None]
    return _score(case, np.array([case.times[hint.index] for hint in ran], float), ran[0].predicted_ms)


def of_times(case: Case, predicted_ms: Sequence[float | None]) -> Score:
    """The same from predictions that were written down; what was not predicted is no pick."""
    both = [(p, t) for p, t in zip(predicted_ms, case.times, strict=True) if p is not None and t is not None]
    order = sorted(both, key=lambda pair: pair[0])
    return _score(case, np.array([t for _, t in order]), order[0][0])


def _score(case: Case, taken: np.ndarray, predicted_ms: float) -> Score:
    """`taken`: measured times in the order of the picks. [ms]"""
    every = np.sort([t for t in case.times if t is not None])
    best = every[0]
    lost = tuple(float(taken[:k].min() / best) for k in PICKS)
    return Score(case.name, lost, tuple(drawn(every, k) / best for k in PICKS), predicted_ms / float(taken[0]))


def drawn(ascending: np.ndarray, k: int) -> float:
    """Mean of the least of k different times."""
    n = len(ascending)
    ways = [math.comb(n - i - 1, k - 1) for i in range(n)]
    return float(np.dot(ascending, ways) / sum(ways))


def report(scores: Sequence[Score]) -> str:
    lines = [f"{s.name:58} {' '.join(f'{x:6.3f}' for x in s.lost)}   {s.ratio:5.2f}" for s in scores]
    columns = range(len(PICKS))
    lost, random = (
        [geometric_mean(getattr(s, what)[i] for s in scores) for i in columns] for what in ("lost", "random")
    )
    near = sum(0.8 <= s.ratio <= 1.25 for s in scores)
    head = f"{'':58} {' '.join(f'   k={k}' for k in PICKS)}   predicted / measured"
    means = f"{'geometric mean':58} {' '.join(f'{x:6.3f}' for x in lost)}"
    return "\n".join(
        [
            head,
            *lines,
            means,
            f"{'random':58} {' '.join(f'{x:6.3f}' for x in random)}",
            f"first picks predicted within 0.8 and 1.25 of their time: {near} of {len(scores)}",
        ]
    )


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

    op = carver.FlashAttentionTemplate(**p)
    name = f"attention {tuple(p.values())}"
    return Case(name, kernel, row["configs"], row["times"], args, grid, constants, values, op)


def descriptors(row: Mapping[str, Any], arch: carver.Arch) -> Case:
    dtype, m, n, k = row["problem"]
    a, b, c = (carver.Tensor(dtype, shape) for shape in ((m, k), (n, k), (m, n)))
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": m, "N": n, "K": k}
    name = f"tensor descriptors {(dtype, m, n, k)}"
    op = carver.MatmulTemplate(m, n, k, in_dtype=dtype, trans_B=True)
    kernel = triton_zoo.matmul_persistent
    return Case(name, kernel, row["configs"], row["times"], args, lambda known: (arch.sm_count,), op=op)


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

    types = {"in_dtype": dtype, "out_dtype": "bfloat16"}
    op = carver.MatmulTemplate(m, n, k, **types, trans_B=True, scale_block=(128, 128))
    name, constants = f"block fp8 {(m, n, k)}", {"needs_masking": False}
    return Case(name, kernel, configs, row["times"], args, grid, constants, op=op, declared=row["configs"])


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
    parser.add_argument("--compiled", type=int, metavar="N", help="of the declaration's ranking, the first N")
    parser.add_argument("--learn", action="store_true", help="tune the problems one after another")
    options = parser.parse_args()
    arch = carver.load_arch(options.arch)
    table = json.loads(text_of(options.table, ConfigError))
    scores: dict[str, list[Score]] = {}
    profiles: dict[str, Any] = {}
    for case in cases(table, options, arch):
        kind = case.name.partition(" (")[0]
        if options.learn:
            found, profiles[kind] = learnt(case, arch, profiles.get(kind))
            scores.setdefault(f"{kind}, learning", []).append(found)
        else:
            scores.setdefault(kind, []).append(score(case, arch, options.compiled))
        if options.compiled:
            scores.setdefault(f"{kind}, the declaration alone", []).append(scored(case, declared(case, arch)))
    for kind, found_of_kind in scores.items():
        print(kind)
        print(report(found_of_kind))


if __name__ == "__main__":
    main()
