"""Two models of the same Triton kernels, held against each other on devices that nobody measured, with no GPU.

    python benchmarks/witness.py compile RECORD.jsonl [--kernel NAME] [--device NAME] [--hints 20] [--random 12]
    python benchmarks/witness.py table RECORD.jsonl

carver prices a declared kernel by its declaration, whose constants were fitted on one or two GPUs, and any kernel by
its machine code (`carver.rank_kernel`), with no constant of its own. `compile` takes carver's first hints of each
problem and configurations drawn from the tunables, and writes both times of each. Compiled code is cached, so a second
run after a change of either model takes a fraction of the time. `table` prints, for each kernel and device, what the
first pick of one model costs by the other. The kernels and their arguments are those of `agreement.py`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import agreement
import frame
import numpy as np

import carver
from carver.base.errors import CarverError, NoCandidates
from carver.compiled.arguments import Tensor
from carver.compiled.pool import Pool
from carver.problem.problem import Problem

DEVICES = ("t4", "a100_sxm_80", "l40s", "rtx_4090", "b200", "rtx_5090", "mi250x_gcd", "mi300x", "mi355x",
           "rx_7900_xtx", "rx_9070_xt")  # fmt: skip
SECONDS = 60.0
"""That one compilation may take."""
MANY = 2000
"""Hints among which those with the values of `FIXED` are looked for."""
APART = 1.15
"""Predicted time of a pick over that of the other model's from which the two disagree."""

Config = Mapping[str, int]
Row = dict[str, Any]


def _matmul(m: int, n: int, k: int, dtype: str, **more: Any) -> Row:
    return {"M": m, "N": n, "K": k, "in_dtype": dtype, "trans_B": True} | more


def _scaled(m: int, n: int, k: int, dtype: str = "float8_e4m3") -> Row:
    return {"M": m, "N": n, "K": k, "in_dtype": dtype}


def _grouped(rows: int, experts: int, n: int, k: int, dtype: str) -> Row:
    return {"rows": [rows // experts] * experts, "N": n, "K": k, "experts": experts, "in_dtype": dtype}


PROBLEMS: dict[str, list[Row]] = {
    "matmul/triton": [
        _matmul(8192, 8192, 8192, "float16"), _matmul(4096, 4096, 4096, "float16", trans_B=False),
        _matmul(1, 8192, 8192, "bfloat16"), _matmul(16, 28672, 8192, "bfloat16"), _matmul(64, 4096, 14336, "bfloat16"),
        _matmul(512, 4096, 4096, "bfloat16"), _matmul(4096, 4096, 8192, "float8_e4m3"),
        _matmul(16, 8192, 8192, "float8_e4m3"), _matmul(4096, 4096, 4096, "int8"), _matmul(32, 8192, 8192, "int8"),
        _matmul(2048, 2048, 2048, "float32", trans_B=False), _matmul(4096, 4096, 4096, "float32"),
        _matmul(1500, 1000, 3000, "float16"),
    ],
    "attention/triton": [
        {"batch": 4, "heads": 32, "kv_heads": 8, "seq": 4096, "head_dim": 128, "causal": True},
        {"batch": 2, "heads": 16, "kv_heads": 16, "seq": 8192, "head_dim": 64, "causal": False},
        {"batch": 1, "heads": 8, "kv_heads": 8, "seq": 2048, "head_dim": 256, "causal": True},
        {"batch": 16, "heads": 32, "kv_heads": 4, "seq": 1024, "head_dim": 128, "causal": False},
    ],
    "scaled_matmul/triton": [
        _scaled(4096, 4096, 4096), _scaled(16, 7168, 4096), _scaled(1024, 4096, 7168, "int8"),
    ],
    "grouped_matmul/triton": [
        _grouped(512, 32, 4096, 4096, "bfloat16"), _grouped(8192, 16, 4096, 4096, "float16"),
        _grouped(64, 64, 2048, 7168, "bfloat16"),
    ],
    "reduction/triton": [
        {"op": "sum", "shape": (8192, 8192), "axis": 1, "in_dtype": "float16"},
        {"op": "sum", "shape": (16384, 2048), "axis": 0, "in_dtype": "float32"},
        {"op": "sum", "shape": (65536, 128), "axis": 1, "in_dtype": "float32"},
    ],
    "elementwise/triton": [
        {"shape": (8192, 8192), "dtype": "float16", "inputs": 2},
        {"shape": (1024, 1024), "dtype": "float32", "inputs": 1},
        {"shape": (4096, 16384), "dtype": "int8", "inputs": 1},
    ],
    "transpose/triton": [
        {"rows": 8192, "cols": 8192, "dtype": "float16"}, {"rows": 4096, "cols": 4096, "dtype": "float32"},
        {"rows": 4096, "cols": 4096, "dtype": "int8"},
    ],
}  # fmt: skip
"""By the declaration under templates/. Where the product would run on no matrix unit, 8-bit floats are left out."""
FIXED = {"attention/triton": {"SPLIT_KV": 1, "PACK_GQA": 0}}
"""Tunables that the kernels of `agreement.py` do not have, at the value that they stand for."""


def grid(kernel: str, p: Problem, config: Config, arguments: Row) -> tuple[int, ...]:
    """Of a launch of the kernel, as its source in `agreement.py` wants it."""
    s = p.sizes

    def tiles(axis: str, tunable: str) -> int:
        return -(-s[axis] // config[tunable])

    match kernel:
        case "matmul/triton":
            return tiles("m", "BLOCK_M") * tiles("n", "BLOCK_N"), config["SPLIT_K"], s["b"]
        case "attention/triton":
            return tiles("q", "BLOCK_M"), s["z"] * s["h"] * s["g"]
        case "scaled_matmul/triton":
            return (tiles("m", "BLOCK_M") * tiles("n", "BLOCK_N"),)
        case "grouped_matmul/triton":
            return (sum(-(-n // config["BLOCK_M"]) for n in arguments["rows"]) * tiles("n", "BLOCK_N"),)
        case "reduction/triton":
            return (tiles("r", "BLOCK_ROWS") if p.options["axis"] else tiles("c", "BLOCK_COLS"),)
        case "elementwise/triton":
            return (-(-s["r"] * s["c"] // config["BLOCK"]),)
        case "transpose/triton":
            return tiles("i", "BLOCK_R") * tiles("j", "BLOCK_C"), 1
    raise ValueError(f"no grid is known for {kernel}")


def _experts(p: Problem, arguments: Row, config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of groups with these rows, and the contents of the lists of rows and experts."""
    height, counts = config["BLOCK_M"], arguments["rows"]
    tokens, first = sum(counts), 0
    rows: list[int] = []
    experts: list[int] = []
    for expert, count in enumerate(counts):
        tiles = -(-count // height)
        rows += [*range(first, first + count), *[tokens] * (tiles * height - count)]
        experts += [expert] * tiles
        first += count
    lists = {"rows_at": np.array(rows), "experts_at": np.array(experts)}
    return {name: Tensor("int32", held.shape) for name, held in lists.items()} | {"tokens": tokens, "topk": 1}, lists


def offered(kernel: str, arch: carver.Arch) -> Iterator[Row]:
    """Problems that the kernel takes on the device."""
    for arguments in PROBLEMS[kernel]:
        operator = agreement.SUBJECTS[kernel].template(**arguments).with_arch(arch)
        try:
            operator.recommend_hints(1, "triton", kernel="triton")
        except NoCandidates:
            continue
        yield arguments


def drawn(kernel: str, arch: carver.Arch, arguments: Row, n: int) -> list[Row]:
    """Configurations of the tunables, the same for problems of one type."""
    declared, problem = agreement.declared(kernel), agreement.problem_of(kernel, arguments)
    draw = random.Random(f"{kernel} {sorted(problem.dtypes.items())}")
    values: dict[str, list[int]] = {}
    for name in (t for t in declared.tunables if t in declared.keys(arch.vendor)):
        given = declared.defaults.get(name)
        values[name] = [given] if given is not None else list(declared.tunables[name])  # type: ignore[arg-type]
    found: list[Row] = []
    for _ in range(400):
        config = {name: draw.choice(choices) for name, choices in values.items()}
        if len(found) < n and config not in found and agreement._compilable(declared, problem, arch, config):
            found.append(config)
    return found


def rows(kernel: str, device: str, arguments: Row, hints: int, more: int, pool: Pool) -> Iterator[Row]:
    """Both times of each configuration that both models take. [ms]"""
    arch = carver.load_arch(device)
    operator = agreement.SUBJECTS[kernel].template(**arguments).with_arch(arch)
    problem, function = operator.problem, agreement.source(kernel)
    fixed = FIXED.get(kernel, {})
    first = [dict(h.config) for h in operator.recommend_hints(MANY, "triton", kernel="triton")]
    first = [c for c in first if all(c.get(name, value) == value for name, value in fixed.items())][:hints]
    configs = first + [c for c in drawn(kernel, arch, arguments, more) if c not in first]
    declared = {h.index: h for h in operator.rank(configs, "triton")}
    launch = agreement.SUBJECTS[kernel].launch(problem, agreement._types(problem, arch.isa))
    taken = set(function.arg_names) | {"num_warps", "num_stages", "matrix_instr_nonkdim"}

    def args(config: Config) -> Mapping[str, Any]:
        if config.get("SPLIT_K", 1) == 1:
            return launch.args
        b, m, n = (problem.sizes[axis] for axis in "bmn")
        return {**launch.args, "c_at": Tensor(problem.accumulate, (config["SPLIT_K"], b, m, n))}

    def ranked(places: Sequence[int]) -> Iterator[tuple[int, Any]]:
        wanted = [{name: value for name, value in configs[i].items() if name in taken} for i in places]
        plain = [{name: value for name, value in c.items() if value or name != "matrix_instr_nonkdim"} for c in wanted]
        handed, values = {}, None
        if kernel == "grouped_matmul/triton":
            handed, values = _experts(problem, arguments, configs[places[0]])
        try:
            ranking = carver.rank_kernel(
                function, plain, args=lambda c: {**args(c), **handed}, arch=arch, constants=launch.constants, pool=pool,
                grid=lambda c: grid(kernel, problem, c, arguments), values=values, seconds=SECONDS, compile="all",
            )  # fmt: skip
        except CarverError as error:
            print(f"{kernel} {device} {tuple(arguments.values())}: {str(error)[:300]}", file=sys.stderr)
            return
        for hint in ranking:
            yield from ((places[i], hint) for i in (hint.index, *hint.also))

    parts: dict[Any, list[int]] = {}
    for i, config in enumerate(configs):
        if i in declared:
            parts.setdefault(config["BLOCK_M"] if kernel == "grouped_matmul/triton" else None, []).append(i)
    for places in parts.values():
        for i, hint in ranked(places):
            mine = declared[i]
            apart = mine.terms_ms.get("reduction", 0.0)
            yield {
                "kernel": kernel, "device": device, "problem": arguments, "config": configs[i], "hint": i < len(first),
                "declared_ms": mine.predicted_ms, "compiled_ms": hint.predicted_ms + apart,
                "declared_bound": mine.bound, "compiled_bound": hint.bound, "registers": hint.facts.registers,
                "spill_bytes": hint.facts.spill_bytes, "resident": hint.facts.resident,
                "declared_resident": mine.details.get("blocks_per_sm"),
            }  # fmt: skip


def problems(rows: Sequence[Row]) -> Iterator[tuple[Row, Row, float, Row, float]]:
    """Of each problem: the declared model's pick and what it costs by compiled code over the best, the pick by compiled
    code and what it costs by the declared model."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row["kernel"], row["device"], row["problem"]]), []).append(row)
    for group in groups.values():
        mine = min((row for row in group if row["hint"]), key=lambda row: row["declared_ms"])
        theirs = min(group, key=lambda row: row["compiled_ms"])
        loss = mine["compiled_ms"] / theirs["compiled_ms"]
        yield group[0], mine, loss, theirs, theirs["declared_ms"] / mine["declared_ms"]


def table(rows: Sequence[Row]) -> str:
    """What the declared model's pick costs by compiled code: mean, largest, problems above `APART`; and the reverse."""
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row, _, loss, _, back in problems(rows):
        groups.setdefault((row["kernel"], row["device"]), []).append((loss, back))
    lines = []
    for key, pairs in groups.items():
        losses, backs = zip(*pairs, strict=True)
        apart = sum(loss > APART for loss in losses)
        lines.append((*key, len(pairs), geometric_mean(losses), max(losses), apart, geometric_mean(backs)))
    heads = ("device", "problems", "declared pick by code", "worst", "apart", "pick by code, declared")
    return frame.table(("kernel", *heads), lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compile", "table"])
    parser.add_argument("record", type=Path)
    parser.add_argument("--kernel", action="append", choices=list(PROBLEMS), help="all, unless given")
    parser.add_argument("--device", action="append", choices=list(DEVICES), help="all, unless given")
    parser.add_argument("--hints", type=int, default=20)
    parser.add_argument("--random", type=int, default=12)
    options = parser.parse_args()
    if options.what == "table":
        print(table(agreement.read(options.record)))
        return
    with Pool() as pool:
        for kernel in options.kernel or PROBLEMS:
            for device in options.device or DEVICES:
                for arguments in offered(kernel, carver.load_arch(device)):
                    found = rows(kernel, device, arguments, options.hints, options.random, pool)
                    agreement.write(options.record, found)


if __name__ == "__main__":
    main()
