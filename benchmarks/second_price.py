"""First picks of declared kernels priced by their machine code, beside a dozen other configurations; no GPU is used.

    python benchmarks/second_price.py price PRICES.jsonl [--kernel NAME] [--arch DEVICE] [--jobs 16] [--minutes 8]
    python benchmarks/second_price.py prices PRICES.jsonl

`price` writes a line for each problem; `prices` says what the picks lose by machine code. What the declarations say of
the compiler is `agreement.py`'s, whose kernels these are.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import frame
import numpy as np
from agreement import (
    SPILL_BYTES,
    SUBJECTS,
    Config,
    Launch,
    Row,
    Subject,
    compilable,
    declared,
    on_device,
    read,
    source,
    types_of,
)

import carver
from carver.base.errors import CarverError
from carver.compiled.binary import Tensor
from carver.kernels.expr import Expression
from carver.problem.problem import Problem

DEVICES = (
    "rtx_4090", "mi300x", "a100_sxm_80", "rtx_5090", "rx_7900_xtx", "b200", "t4", "mi250x_gcd", "rtx_3090", "l40s",
    "mi355x", "h100_pcie", "gb10", "rx_9070_xt", "jetson_agx_orin", "h100_sxm",
)  # fmt: skip
LISTED, RANDOM, MANY = 9, 3, 400
"""Of a problem's list: hints of different tiles, and configurations drawn; of so many first hints."""
APART = 2.0
"""Declared time over the pick's up to which hints are listed."""
PRICE_S = 40.0
"""That one configuration may take."""
FIXED = {"attention/triton": {"SPLIT_KV": 1, "PACK_GQA": 0}}
"""Tunables that the sources do not have, at the value that they stand for."""


class Priced(NamedTuple):
    """A declared kernel and what it is priced for: problems, and the grid of the source's launch."""

    grid: Callable[[Problem, Mapping[str, int]], tuple[int, ...]]
    problems: Sequence[Mapping[str, Any]]
    subject: Subject | None = None
    """None: that of SUBJECTS."""
    backend: str = "triton"
    source: str = ""
    """File and function, where not those of SUBJECTS."""


def _tiles(p: Problem, config: Config, axis: str, tunable: str) -> int:
    return -(-p.sizes[axis] // config[tunable])


def _gemv(p: Problem, types: Mapping[str, str]) -> Launch:
    n, k = p.sizes["n"], p.sizes["k"]
    a_n, a_k = (1, n) if p.options["trans_a"] else (k, 1)
    tensors = {"a_at": Tensor(types["A"], (n, k)), "x_at": Tensor(types["X"], (k,)), "y_at": Tensor(types["Y"], (n,))}
    return Launch(tensors | {"N": n, "K": k, "a_n": a_n, "a_k": a_k})


def _normalise(p: Problem, types: Mapping[str, str]) -> Launch:
    r, c = p.sizes["r"], p.sizes["c"]
    tensors = {"x_at": Tensor(types["X"], (r, c)), "y_at": Tensor(types["Y"], (r, c))}
    return Launch(tensors | {"rows": r, "cols": c}, {"KIND": int(p.options["reduce_op"] != 3)})


def _decode(p: Problem, types: Mapping[str, str]) -> Launch:
    s, page = p.sizes, p.options.get("page", 0) or 16
    rows, pages = s["z"] * s["h"] * s["g"], -(-s["s"] // page)
    kv = (s["z"] * pages, page, s["h"], s["d"])
    args = {
        "q_ptr": Tensor(types["Q"], (rows, s["d"])), "k_ptr": Tensor(types["K"], kv), "v_ptr": Tensor(types["V"], kv),
        "table_ptr": Tensor("int32", (s["z"], pages)), "part_ptr": Tensor("float32", (rows, 64, s["d"])),
        "lse_ptr": Tensor("float32", (rows, 64)), "scale": s["d"] ** -0.5, "pages": pages, "keys": s["s"],
        "heads": s["h"], "group": s["g"],
    }  # fmt: skip
    return Launch(args, {"HEAD": s["d"], "PAGE": page})


def _backward(p: Problem, types: Mapping[str, str]) -> Launch:
    s = p.sizes
    heads = s["z"] * s["h"]
    like, row = Tensor(types["Q"], (heads, s["q"], s["d"])), Tensor("float32", (heads, s["q"]))
    made = ("dk_ptr", "dv_ptr") if p.options["backward"] == 1 else ("dq_ptr",)
    args = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "do_ptr", *made), like) | {"lse_ptr": row, "delta_ptr": row}
    constants = {"HEAD": s["d"], "CAUSAL": bool(p.options["causal"])}
    return Launch(args | {"scale": s["d"] ** -0.5, "seq": s["q"]}, constants)


def _mm(m: int, n: int, k: int, dtype: str = "float16", **more: Any) -> Row:
    return {"M": m, "N": n, "K": k, "in_dtype": dtype, "trans_B": True} | more


def _head(batch: int, heads: int, kv: int, seq: int, d: int, causal: bool = True, **more: Any) -> Row:
    return {"batch": batch, "heads": heads, "kv_heads": kv, "seq": seq, "head_dim": d, "causal": causal} | more


def _flat(p: Problem, c: Config) -> tuple[int, ...]:
    return (_tiles(p, c, "m", "BLOCK_M") * _tiles(p, c, "n", "BLOCK_N"),)


def _of_rows(p: Problem, c: Config) -> tuple[int, ...]:
    return (_tiles(p, c, "r", "BLOCK_ROWS") if p.options["axis"] else _tiles(p, c, "c", "BLOCK_COLS"),)


def _of_experts(p: Problem, c: Config) -> tuple[int, ...]:
    return (sum(-(-n // c["BLOCK_M"]) for n in _counts(p)) * _tiles(p, c, "n", "BLOCK_N"),)


def _counts(p: Problem) -> list[int]:
    experts = p.sizes["e"]
    return [p.options["routed_rows"] // experts] * experts


PRICED: dict[str, Priced] = {
    "matmul/triton": Priced(
        lambda p, c: (*_flat(p, c), c["SPLIT_K"], p.sizes["b"]),
        [_mm(8192, 8192, 8192), _mm(16, 28672, 8192, "bfloat16"), _mm(4096, 4096, 8192, "float8_e4m3"),
         _mm(2048, 2048, 2048, "float32", trans_B=False), _mm(4096, 4096, 4096, "int8"), _mm(512, 512, 16384),
         _mm(1500, 1000, 3000, trans_B=False), _mm(64, 4096, 14336, "bfloat16"), _mm(512, 512, 512, batch=64),
         _mm(4096, 11008, 4096, "bfloat16", trans_A=True, trans_B=False), _mm(4096, 4096, 4096, "tfloat32")],
    ),
    "attention/triton": Priced(
        lambda p, c: (_tiles(p, c, "q", "BLOCK_M"), p.sizes["z"] * p.sizes["h"] * p.sizes["g"]),
        [_head(4, 32, 8, 4096, 128), _head(2, 16, 16, 8192, 64, False), _head(1, 8, 8, 2048, 256),
         _head(16, 32, 4, 1024, 128, False)],
    ),
    "attention/triton_decode": Priced(
        lambda p, c: (p.sizes["z"], p.sizes["h"], c["SPLIT_KV"]),
        [_head(64, 32, 8, 1, 128, False, seq_kv=4096, page=16), _head(4, 32, 4, 1, 128, False, seq_kv=16384, page=16)],
        Subject(carver.FlashAttentionTemplate, _decode, ()), "triton_decode", "triton_more.py:decode",
    ),
    "attention/triton_backward": Priced(
        lambda p, c: (_tiles(p, c, "s", "BLOCK_N"), p.sizes["z"] * p.sizes["h"]),
        [_head(4, 16, 16, 2048, 64, True, backward="keys"), _head(2, 16, 16, 4096, 128, False, backward="keys")],
        Subject(carver.FlashAttentionTemplate, _backward, ()), "triton", "triton_more.py:keys_backward",
    ),
    "scaled_matmul/triton": Priced(
        _flat, [_mm(4096, 4096, 4096, "float8_e4m3"), _mm(16, 7168, 4096, "float8_e4m3"), _mm(1024, 4096, 7168, "int8")]
    ),
    "grouped_matmul/triton": Priced(
        _of_experts,
        [{"rows": rows, "N": n, "K": k, "experts": experts, "in_dtype": dtype}
         for rows, experts, n, k, dtype in ((512, 32, 4096, 4096, "bfloat16"), (8192, 16, 4096, 4096, "float16"),
                                            (64, 64, 2048, 7168, "bfloat16"))],
    ),
    "gated_mlp/triton": Priced(_flat, [_mm(4096, 11008, 4096), _mm(64, 14336, 4096, "bfloat16", trans_B=False)]),
    "matmul_softmax/triton": Priced(
        lambda p, c: (_tiles(p, c, "m", "BLOCK_M"),),
        [_mm(16384, 128, 1024), _mm(4096, 2048, 1024, "bfloat16", trans_B=False)],
    ),
    "reduction/triton": Priced(
        _of_rows,
        [{"op": "sum", "shape": shape, "axis": axis, "in_dtype": dtype}
         for shape, axis, dtype in (((8192, 8192), 1, "float16"), ((16384, 2048), 0, "float32"),
                                    ((65536, 128), 1, "float32"))],
    ),
    "reduction/normalise": Priced(
        _of_rows,
        [{"op": op, "shape": shape, "axis": 1, "in_dtype": "float16"}
         for op, shape in (("softmax", (16384, 1024)), ("rms_norm", (8192, 4096)), ("softmax", (2048, 32768)))],
        Subject(carver.ReductionTemplate, _normalise, ()), "triton", "triton_declared.py:normalise",
    ),
    "gemv/triton": Priced(
        lambda p, c: (_tiles(p, c, "n", "BLOCK_N"),),
        [{"N": n, "K": k, "in_dtype": dtype, "trans_A": trans}
         for n, k, dtype, trans in ((8192, 8192, "float16", False), (28672, 4096, "float16", False),
                                    (4096, 4096, "float32", True))],
        Subject(carver.GEMVTemplate, _gemv, ()), "triton", "triton_declared.py:gemv",
    ),
    "elementwise/triton": Priced(
        lambda p, c: (-(-p.sizes["r"] * p.sizes["c"] // c["BLOCK"]),),
        [{"shape": (8192, 8192), "dtype": "float16", "inputs": 2}, {"shape": (1024, 1024), "dtype": "float32"}],
    ),
    "transpose/triton": Priced(
        lambda p, c: (_tiles(p, c, "i", "BLOCK_R") * _tiles(p, c, "j", "BLOCK_C"), 1),
        [{"rows": 8192, "cols": 8192, "dtype": "float16"}, {"rows": 4096, "cols": 4096, "dtype": "float32"},
         {"rows": 4096, "cols": 4096, "dtype": "int8"}],
    ),
    "window/triton": Priced(
        lambda p, c: (-(-p.sizes["b"] * p.sizes["x"] // c["BLOCK"]),),
        [{"length": 65536, "taps": 7, "batch": 256, "in_dtype": "float32"}],
    ),
}  # fmt: skip
"""By the declaration under templates/; a normalisation is a `reduction/triton`."""


def _experts(p: Problem, config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of groups with these rows, and the contents of the lists of rows and experts."""
    height, counts = config["BLOCK_M"], _counts(p)
    tokens, first = sum(counts), 0
    listed: list[int] = []
    experts: list[int] = []
    for expert, count in enumerate(counts):
        tiles = -(-count // height)
        listed += [*range(first, first + count), *[tokens] * (tiles * height - count)]
        experts += [expert] * tiles
        first += count
    lists = {"rows_at": np.array(listed), "experts_at": np.array(experts)}
    return {name: Tensor("int32", held.shape) for name, held in lists.items()} | {"tokens": tokens, "topk": 1}, lists


def listed(hints: Sequence[Any], n: int) -> list[Row]:
    """The first and, of those not far behind, the first of each of n tiles; then every so many-th of the rest."""
    near = [hint for hint in hints if hint.predicted_ms <= APART * hints[0].predicted_ms]
    seen: dict[tuple[int, ...], Row] = {}
    for hint in near:
        tile = tuple(value for name, value in hint.config.items() if name.startswith("BLOCK") and name != "BLOCK_K")
        seen.setdefault(tile, dict(hint.config))
    first = [dict(hints[0].config), *[c for c in seen.values() if c != dict(hints[0].config)]][:n]
    rest = [dict(hint.config) for hint in hints if dict(hint.config) not in first]
    return first + rest[:: max(1, len(rest) // max(1, n - len(first)))][: n - len(first)]


def priced(name: str, device: str, arguments: Mapping[str, Any], pool: Any) -> Row | None:
    """Both times [ms] of each configuration of a problem's list, or why there is none; None: the kernel refuses it."""
    from carver.base.errors import NoCandidates

    entry, arch = PRICED[name], carver.load_arch(device)
    subject = entry.subject or SUBJECTS[name]
    kernel = declared("reduction/triton" if name == "reduction/normalise" else name)
    operator = subject.template(**arguments).with_arch(arch)
    problem = operator.problem
    try:
        hints = list(operator.recommend_hints(MANY, entry.backend, kernel=kernel.name))
    except NoCandidates:
        return None
    fixed = FIXED.get(name, {})
    hints = [h for h in hints if all(h.config.get(key, value) == value for key, value in fixed.items())]
    configs = listed(hints, LISTED)
    draw = random.Random(f"{name} {device} {sorted(arguments.items(), key=str)}")
    choices = {t: [fixed[t]] if t in fixed else list(values) for t, values in kernel.tunables.items()
               if t in configs[0] and not isinstance(values, Expression)}  # fmt: skip
    for _ in range(300):
        config = {**configs[0], **{t: draw.choice(values) for t, values in choices.items()}}
        if len(configs) < LISTED + RANDOM and config not in configs and compilable(kernel, problem, arch, config):
            configs.append(config)
    said = operator.rank(configs, entry.backend, kernel=kernel.name)
    mine = {hint.index: hint for hint in said}
    if entry.source:
        from carver.compiled.worker import kernel_at

        function = kernel_at(str(frame.HERE / "kernels" / entry.source))
    else:
        function = source(name)
    launch = subject.launch(problem, types_of(problem, arch.isa))
    taken = {*function.arg_names, "num_warps", "num_stages", "matrix_instr_nonkdim"}

    def args(config: Config, handed: Mapping[str, Any]) -> Mapping[str, Any]:
        if config.get("SPLIT_K", 1) == 1:
            return {**launch.args, **handed}
        b, m, n = (problem.sizes[axis] for axis in "bmn")
        return {**launch.args, "c_at": Tensor(problem.accumulate, (config["SPLIT_K"], b, m, n))}

    parts: dict[Any, list[int]] = {}
    for i, config in enumerate(configs):
        parts.setdefault(config["BLOCK_M"] if name == "grouped_matmul/triton" else None, []).append(i)
    code: dict[int, Row] = {}
    for places in parts.values():
        handed, values = _experts(problem, configs[places[0]]) if name == "grouped_matmul/triton" else ({}, None)
        plain = [{key: value for key, value in configs[i].items()
                  if key in taken and (value or key != "matrix_instr_nonkdim")} for i in places]  # fmt: skip
        try:
            ranking = carver.rank_kernel(
                function, plain, args=lambda c, handed=handed: args(c, handed), arch=arch, constants=launch.constants,
                grid=lambda c: entry.grid(problem, c), values=values, seconds=PRICE_S, compile="all", pool=pool,
            )  # fmt: skip
        except CarverError as error:
            code |= {i: {"refused": str(error)[:300]} for i in places}
            continue
        for number, reason in ranking.reasons.items():
            code[places[number]] = {"refused": str(reason)[:200]}
        for hint in ranking:
            facts = hint.facts
            for number in (hint.index, *hint.also):
                code[places[number]] = {
                    "ms": hint.predicted_ms, "bound": hint.bound, "registers": facts.registers,
                    "shared": facts.shared_bytes, "spill": facts.spill_bytes, "resident": facts.resident,
                    **_split(hint),
                }  # fmt: skip
    lines = []
    for i, config in enumerate(configs):
        line: Row = {"config": config, "code": code.get(i, {"refused": "not asked"})}
        if i in mine:
            apart = mine[i].terms_ms.get("reduction", 0.0)
            if "ms" in line["code"]:
                line["code"]["ms"] += apart
            line["declared"] = {
                "ms": mine[i].predicted_ms, "bound": mine[i].bound, "shared": mine[i].launch.smem_bytes,
                "registers": mine[i].launch.registers, "resident": mine[i].details.get("blocks_per_sm"),
                **_split(mine[i]),
            }  # fmt: skip
        else:
            line["declared"] = {"refused": str(said.reasons.get(i, "refused"))[:200]}
        lines.append(line)
    return {"kernel": name, "device": device, "problem": dict(arguments), "configs": lines}


def _split(hint: Any) -> Row:
    """A time by terms and its loop by what it waits for. [ms]"""
    return {what: {term: float(f"{ms:.4g}") for term, ms in parts.items() if ms}
            for what, parts in (("terms", hint.terms_ms), ("loop", hint.loop_ms))}  # fmt: skip


@cache
def _own() -> Any:
    """Of a process that prices: its compiler."""
    from carver.compiled.pool import Pool

    return Pool(1)


def _priced(task: tuple[str, str, Mapping[str, Any]]) -> Row | None:
    try:
        return priced(*task, _own())
    except Exception as error:  # one problem's fault must not end the run
        return {"kernel": task[0], "device": task[1], "problem": dict(task[2]), "error": f"{error!r}"[:500]}


def price(path: Path, names: Sequence[str], devices: Sequence[str], jobs: int, minutes: float, most: int) -> None:
    """Add a line for each problem, first problems first, until the time is over; what is there is not done again."""
    import multiprocessing
    import time

    end = time.monotonic() + 60 * minutes
    done = {json.dumps([r["kernel"], r["device"], r["problem"]]) for r in read(path) if "error" not in r}
    tasks = [
        (name, device, on_device(device, PRICED[name].problems[place]))
        for place in range(min(most, max(len(entry.problems) for entry in PRICED.values())))
        for device in devices
        for name in names
        if place < len(PRICED[name].problems)
    ]
    tasks = [t for t in tasks if json.dumps(json.loads(json.dumps(t))) not in done]
    with multiprocessing.get_context("spawn").Pool(jobs) as crew:
        found = crew.imap_unordered(_priced, tasks)
        try:
            for _ in tasks:
                if row := found.next(timeout=max(1.0, end - time.monotonic())):
                    frame.write(path, row)
        except multiprocessing.TimeoutError:
            print(f"stopped after {minutes} minutes")
        crew.terminate()


class Lost(NamedTuple):
    """A problem: the pick's time by machine code over the best of the list; declared over machine code's of the pick;
    configurations that only one side refuses (machine code: does not fit, or spills)."""

    lost: float
    ratio: float
    declared_refuses: int
    code_refuses: int


def lost(row: Row) -> Lost | None:
    """None: the pick was not priced."""
    lines = row.get("configs") or [{}]
    pick = lines[0].get("code", {})
    if "ms" not in pick:
        return None
    fine = [("ms" in x["code"] and x["code"]["spill"] <= SPILL_BYTES, "ms" in x["declared"]) for x in lines]
    return Lost(
        pick["ms"] / _best(row)["code"]["ms"], lines[0]["declared"]["ms"] / pick["ms"],
        sum(c and not d for c, d in fine), sum(d and not c for c, d in fine),
    )  # fmt: skip


def _best(row: Row) -> Row:
    """By machine code, of the configurations that both price."""
    both = (x for x in row["configs"] if "ms" in x["code"] and "ms" in x["declared"])
    return min(both, key=lambda x: x["code"]["ms"])


def prices(rows: Sequence[Row]) -> str:
    """By operator and by device, worst first; then the problems whose picks lose most."""
    each = [(row, found) for row in rows if (found := lost(row))]
    out = []
    for by in ("kernel", "device"):
        groups: dict[str, list[Lost]] = {}
        for row, found in each:
            groups.setdefault(row[by], []).append(found)
        lines = [
            (key, len(some), float(np.exp(np.mean([np.log(x.lost) for x in some]))), max(x.lost for x in some),
             *(f"{q:.2f}" for q in np.quantile([x.ratio for x in some], [0.1, 0.5, 0.9])),
             sum(x.declared_refuses for x in some), sum(x.code_refuses for x in some))
            for key, some in groups.items()
        ]  # fmt: skip
        heads = ("n", "pick by code", "worst", "ratio 10 %", "50 %", "90 %", "declared refuses", "code refuses")
        out.append(frame.table((by, *heads), sorted(lines, key=lambda line: -line[2])))
    worst = sorted(each, key=lambda pair: -pair[1].lost)[:60]
    out.append("\n".join(
        f"{found.lost:.2f} {found.ratio:.2f} {row['kernel']} {row['device']} {list(row['problem'].values())} "
        f"{list(row['configs'][0]['config'].values())} against "
        f"{list(_best(row)['config'].values())}"
        for row, found in worst
    ))  # fmt: skip
    out += [f"{row['kernel']} {row['device']} {row['problem']}: {row['error']}" for row in rows if "error" in row]
    for row in rows:
        if "configs" in row and not lost(row):
            config, code = (row["configs"][0][part] for part in ("config", "code"))
            named = f"{row['kernel']} {row['device']} {list(row['problem'].values())} {list(config.values())}"
            out.append(f"{named}: {code['refused']}")
    return "\n\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["price", "prices"])
    parser.add_argument("record", type=Path)
    parser.add_argument("--kernel", action="append", choices=list(PRICED), help="all, unless given")
    parser.add_argument("--arch", action="append", help=f"{', '.join(DEVICES)}, unless given")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--problems", type=int, default=99, help="of each kernel")
    options = parser.parse_args()
    if options.what == "price":
        names, devices = options.kernel or list(PRICED), options.arch or DEVICES
        price(options.record, names, devices, options.jobs, options.minutes, options.problems)
    print(prices(read(options.record)))


if __name__ == "__main__":
    main()
