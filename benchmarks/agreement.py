"""What carver says of Triton's kernels held against what Triton's compiler makes of them, for ten targets, with no GPU.

    python benchmarks/agreement.py compile RECORD.jsonl.gz [--kernel NAME] [--target ISA] [--configs 60] [--seed 0]
    python benchmarks/agreement.py table RECORD.jsonl.gz
    python benchmarks/agreement.py picks RECORD.jsonl.gz [--kernel NAME] [--target ISA]
    python benchmarks/agreement.py spilled RECORD.jsonl.gz

`compile` draws configurations of each Triton kernel that carver declares, from its tunables, compiles them for each
target and adds a row each to the record; what is there already is not compiled again. `table` ranks nothing and
compiles nothing: it says for each target and kernel how carver's columns agree with the record. `picks` compiles
carver's first four of eight matmuls and four attentions on each target, in place of those recorded before, and
`spilled` says which of such a record did not fit or spilled. The kernels are `kernels/triton_declared.py`,
`triton_transpose.py`, `triton_moe.py` and `triton_more.py`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import frame
import numpy as np
import zoos.subject

import carver
from carver.arch.descriptor import TMEM_COLUMNS, Arch
from carver.base.errors import CarverError
from carver.base.folders import folder
from carver.kernels import expr as rules
from carver.kernels.declaration import Kernel, load
from carver.kernels.expr import matrix_unit
from carver.kernels.space import Space, device_rules, given_space
from carver.problem.problem import Problem

TARGETS = {
    "sm_80": "a100_sxm_80", "sm_89": "l40s", "sm_90": "h100_sxm", "sm_100": "b200", "sm_120": "rtx_5090",
    "gfx90a": "mi250x_gcd", "gfx942": "mi300x", "gfx950": "mi355x", "gfx1100": "rx_7900_xtx", "gfx1201": "rx_9070_xt",
}  # fmt: skip
"""A device of each."""
KINDS = {rules.VECTOR: "vector", rules.MMA: "mma", rules.WGMMA: "wgmma", rules.TCGEN05: "tcgen05"}
OPCODES = {
    "tcgen05": re.compile(r"\bUTC\w*MMA\b"), "wgmma": re.compile(r"\b[HQI]GMMA\b"),
    "mma": re.compile(r"\b[HQIDO]MMA\b|\bv_s?[mw](fma|mma)"),
}  # fmt: skip
"""Of the machine code; of several the first."""
SPILL_BYTES = 16
"""That a thread may spill before it counts."""
SECONDS = 180.0
"""That one compilation may take."""
MOST_SUMS = 256
"""A thread's, of what is compiled: more take minutes each."""

Row = dict[str, Any]
Config = Mapping[str, int]
Wanted = tuple[str, str, Mapping[str, Any], Config]
"""Declaration, target, arguments of the problem's template, configuration."""


class Subject(NamedTuple):
    """A declared kernel, and problems that it is compiled for, each as its template's arguments."""

    template: Callable[..., Any]
    problems: Sequence[Mapping[str, Any]]
    args: str
    """What it gets beside its configuration, as in the zoo's texts: of the sizes, options and types of a problem."""
    constants: str = ""


def types_of(problem: Problem, isa: str) -> dict[str, str]:
    """gfx942 multiplies 8-bit floats of its own."""
    own = isa == "gfx942"
    return {name: f"{dtype}fnuz" if own and dtype.startswith("float8") and not dtype.endswith("fnuz") else dtype
            for name, dtype in problem.dtypes.items()}  # fmt: skip


def launch(name: str, problem: Problem, types: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A kernel's arguments and constants, of tensors of these types. Of 4-bit weights two lie in each byte."""
    import triton.language as tl

    said = {
        **problem.options, **types, **problem.sizes, "each": 2 if "int4" in types.get("B", "") else 1,
        "SUM": getattr(tl, {"tf32": "float32"}.get(problem.accumulate, problem.accumulate)),
        "PRECISION": "tf32" if problem.dtypes.get("A") == "tf32" else "ieee",
    }  # fmt: skip
    subject = SUBJECTS[name]
    args = zoos.subject.arguments(subject.args, said, {}, ending="")
    return args, zoos.subject.fixed(subject.constants, said)


def _square(dtype: str, trans_a: bool = False, trans_b: bool = True, **more: Any) -> Row:
    return {"M": 4096, "N": 4096, "K": 4096, "in_dtype": dtype, "trans_A": trans_a, "trans_B": trans_b} | more


SUBJECTS = {
    "matmul/triton": Subject(
        carver.MatmulTemplate,
        [
            _square("float16"), _square("float16", trans_b=False),
            _square("bfloat16"), _square("bfloat16", True, False),
            _square("float8_e4m3"), _square("float8_e4m3", trans_b=False),
            _square("int8"), _square("int8", trans_b=False),
            _square("tfloat32"), _square("float16", b_dtype="int8"), _square("float16", trans_b=False, b_dtype="int8"),
            _square("float32", trans_b=False), _square("float64"), _square("float16", M=3000, N=3000, K=3000),
        ],
        "a_at: A[b, m, k]; b_at: B[b, k, n]; c_at: C[b, m, n]; M = m; N = n; K = k; a_b = m * k; "
        "a_m = 1 if trans_a else k; a_k = m if trans_a else 1; b_b = n * k; b_k = 1 if trans_b else n; "
        "b_n = k if trans_b else 1",
        "SUM PRECISION",
    ),
    "attention/triton": Subject(
        carver.FlashAttentionTemplate,
        [
            {"batch": 1, "heads": 16, "kv_heads": kv, "seq": 4096, "head_dim": d, "causal": causal, "in_dtype": dtype}
            for kv, d, causal, dtype in (
                (16, 64, False, "float16"), (4, 128, True, "bfloat16"), (16, 128, False, "float16"),
                (4, 64, True, "float16"), (16, 256, True, "float16"), (16, 32, False, "bfloat16"),
            )
        ],
        "q_at: Q[z * h * g, q, d]; k_at: K[z * h, s, d]; v_at: V[z * h, s, e]; o_at: O[z * h * g, q, e]; "
        "scale = d ** -0.5; group = g; seq = q; seq_kv = s",
        "HEAD = d; CAUSAL = bool(causal)",
    ),
    "scaled_matmul/triton": Subject(
        carver.ScaledMatmulTemplate,
        [{"M": 4096, "N": 4096, "K": 4096, "in_dtype": dtype} for dtype in ("float8_e4m3", "int8")],
        "a_at: A[m, k]; b_at: B[n, k]; c_at: C[m, n]; a_scale_at: float32[m, k // scale_k]; "
        "b_scale_at: float32[n // scale_n, k // scale_k]; M = m; N = n; K = k; a_m = k; a_k = 1; b_n = k; b_k = 1; "
        "as_m = k // scale_k; as_k = 1; bs_n = k // scale_k; bs_k = 1",
        "SUM scale_n scale_k",
    ),
    "grouped_matmul/triton": Subject(
        carver.GroupedMatmulTemplate,
        [{"rows": 512, "N": 4096, "K": 4096, "experts": 32, "in_dtype": dtype}
         for dtype in ("bfloat16", "float16", "float8_e4m3")],
        "a_at: A[routed_rows, k]; b_at: B[e, n, k]; c_at: C[routed_rows, n]; rows_at: int32[2 * routed_rows]; "
        "experts_at: int32[routed_rows]; N = n; K = k; tokens = routed_rows; topk = 8; a_m = k; a_k = 1; b_e = n * k; "
        "b_n = k; b_k = 1",
    ),
    "grouped_matmul/triton_weights": Subject(
        carver.GroupedMatmulTemplate,
        [{"rows": 512, "N": 4096, "K": 4096, "experts": 32, "in_dtype": a, "b_dtype": b, "scale_block": f"1x{group}"}
         for a, b, group in (("bfloat16", "int4", 128), ("float16", "uint4", 64), ("bfloat16", "int8", 128))],
        "x_ptr: A[routed_rows, k]; w_ptr: uint8[e, n, k // each]; out_ptr: C[routed_rows, n]; "
        "scale_ptr: A[e, n, k // scale_k]; zero_ptr: uint8[e, n // each, k // scale_k]; "
        "gate_ptr: float32[routed_rows]; slot_ptr: int32[2 * routed_rows]; expert_ptr: int32[routed_rows]; "
        "slots_used_ptr: int32[1]; real = routed_rows; topk = 8; group = 8; row_tiles = routed_rows; stride_x = k; "
        "stride_we = n * k // each; stride_wn = k // each; stride_out = n; stride_se = n * (k // scale_k); "
        "stride_sn = k // scale_k; stride_ze = n // each * (k // scale_k); stride_zn = k // scale_k",
        "n k; BITS = 8 // each; GROUP = scale_k; ZEROS = B == 'uint4'; GATED = False",
    ),
    "gated_mlp/triton": Subject(
        carver.GatedMLPTemplate,
        [{"M": 4096, "N": 4096, "K": 4096, "trans_B": t, "in_dtype": dtype}
         for t, dtype in ((True, "float16"), (False, "bfloat16"))],
        "a_at: A[m, k]; w_at: W[2, k, n]; c_at: C[m, n]; M = m; N = n; K = k; a_m = k; w_u = n * k; "
        "w_k = 1 if trans_b else n; w_n = k if trans_b else 1",
    ),
    "matmul_softmax/triton": Subject(
        carver.MatmulSoftmaxTemplate,
        [{"M": 4096, "N": n, "K": 1024, "trans_B": t, "in_dtype": dtype}
         for n, t, dtype in ((128, True, "float16"), (2048, False, "bfloat16"))],
        "a_at: A[m, k]; b_at: B[k, n]; p_at: P[m, n]; M = m; N = n; K = k; a_m = k; "
        "b_k = 1 if trans_b else n; b_n = k if trans_b else 1",
    ),
    "reduction/triton": Subject(
        carver.ReductionTemplate,
        [{"op": "sum", "shape": (4096, 4096), "axis": axis, "in_dtype": dtype}
         for axis, dtype in ((1, "float16"), (0, "float16"), (1, "float32"), (0, "float32"))],
        "x_at: X[r, p['c']]; y_at: Y[r if axis else p['c']]; rows = r; cols = p['c']",
        "axis",
    ),
    "elementwise/triton": Subject(
        carver.ElementwiseTemplate,
        [{"shape": (4096, 4096), "dtype": dtype, "inputs": n} for dtype, n in (("float16", 1), ("float32", 2))],
        "x0_at x1_at: X0[r * p['c']]; y_at: Y[r * p['c']]; elements = r * p['c']",
        "INPUTS = inputs",
    ),
    "window/triton": Subject(
        carver.WindowTemplate,
        [{"length": 65536, "taps": 7, "batch": 256, "in_dtype": "float32"}],
        "i_at: I[b, x + r - 1]; w_at: W[b, r]; o_at: O[b, x]; length = x; outputs = b * x",
        "TAPS = r",
    ),
    "transpose/triton": Subject(
        carver.TransposeTemplate,
        [{"rows": 4096, "cols": 4096, "dtype": dtype} for dtype in ("float16", "float32", "int8")],
        "x_ptr: X[i, j]; y_ptr: Y[j, i]; rows = i; cols = j",
    ),
}  # fmt: skip
"""By the declaration under templates/."""


def declared(name: str) -> Kernel:
    return load(folder("templates") / f"{name}.toml")


def source(name: str) -> Any:
    """The function that a declaration describes."""
    from carver.compiled.worker import kernel_at

    operator = name.partition("/")[0]
    own = {"transpose/triton": "triton_transpose.py:transpose",
           "grouped_matmul/triton_weights": "triton_moe.py:grouped_weights"}  # fmt: skip
    return kernel_at(str(frame.HERE / "kernels" / own.get(name, f"triton_declared.py:{operator}")))


def problem_of(name: str, arguments: Mapping[str, Any]) -> Problem:
    return SUBJECTS[name].template(**arguments).problem


# drawing


def problems(name: str, arch: carver.Arch) -> list[Mapping[str, Any]]:
    """Those that the kernel takes on a device, 8-bit floats, TF32 and float64 only where matrix units take them."""
    found = []
    for arguments in SUBJECTS[name].problems:
        problem = problem_of(name, arguments)
        special = {d for d in problem.dtypes.values() if d.startswith("float8") or d in ("tf32", "float64")}
        unit = matrix_unit(problem, arch) if problem.contracts else None
        if not special or (unit and unit.dtype in special):
            found.append(arguments)
    return found


def drawn(name: str, target: str, n: int, seed: int) -> Iterator[tuple[Mapping[str, Any], Row]]:
    """Problems with configurations, any of the tunables' values that the rules allow, too large for the device or not.

    Left out: what a compiler takes minutes for, and tiles of far more than the device's shared memory.
    """
    arch, kernel = carver.load_arch(TARGETS[target]), declared(name)
    draw = random.Random(f"{name} {target} {seed}")
    values = {}
    for tunable in (t for t in kernel.tunables if t in kernel.keys(arch.vendor)):
        listed = kernel.tunables[tunable]
        values[tunable] = [kernel.defaults[tunable]] if tunable in kernel.defaults else list(listed)  # type: ignore[arg-type]
    offered, seen = problems(name, arch), set()
    for _ in range(1000 * n):
        if len(seen) == n or not offered:
            return
        place = len(seen) % len(offered)
        config = {tunable: draw.choice(choices) for tunable, choices in values.items()}
        key = (place, *config.items())
        if key not in seen and compilable(kernel, problem_of(name, offered[place]), arch, config):
            seen.add(key)
            yield offered[place], config


def compilable(kernel: Kernel, problem: Problem, arch: carver.Arch, config: Config) -> bool:
    _, why = given_space(problem, arch, kernel, [config])
    if why and why[0] not in dict(device_rules(kernel)):
        return False
    threads = config["num_warps"] * arch.warp_size
    if threads > arch.max_threads_per_block:
        return False
    if "BLOCK_M" not in config:
        size = config.get("BLOCK") or np.prod([v for tunable, v in config.items() if tunable.startswith("BLOCK")])
        return bool(threads <= size * 4 and size <= 64 * threads)
    m, n, k = config["BLOCK_M"], config["BLOCK_N"], config.get("BLOCK_K", problem.sizes.get("d", 0))
    item = problem.itemsize(problem.statement.inputs[0].name)
    wide = max(m * n, m * k if "BLOCK_K" not in config else 0)
    loaded = (m + n) * k * item * max(config.get("num_stages", 1) - 1, 1)
    return wide <= MOST_SUMS * threads and loaded <= 2 * arch.smem_per_block_bytes


# compiling


def rows(wanted: Iterable[Wanted]) -> Iterator[Row]:
    """What is asked of each, as a row without facts."""
    from carver.compiled.triton import version

    for name, target, arguments, config in wanted:
        yield {"kernel": name, "target": target, "problem": dict(arguments), "config": config, "triton": version()}


def key(row: Mapping[str, Any]) -> str:
    """Equal for rows of the same kernel, target, problem and configuration."""
    return json.dumps([row[name] for name in ("kernel", "target", "problem", "config")], sort_keys=True)


def compiled(wanted: Iterable[Wanted], known: Iterable[Mapping[str, Any]] = ()) -> Iterator[Row]:
    """A row for each, as they are done, but for those that `known` has of this version of Triton."""
    from carver.compiled.triton import Target, compile_triton, specialise, version
    from carver.compiled.worker import Copies, answered

    here = {key(row) for row in known if row["triton"] == version()}
    asked = {key(row): row for row in rows(wanted)}
    makes = {}
    for each in asked.keys() - here:
        row = asked[each]
        arch, problem = carver.load_arch(TARGETS[row["target"]]), problem_of(row["kernel"], row["problem"])
        function = source(row["kernel"])
        args, constants = launch(row["kernel"], problem, types_of(problem, row["target"]))
        names = {*function.arg_names, "num_warps", "num_stages"}
        config = {name: value for name, value in row["config"].items() if name in names}
        given = specialise(function, args, constants, config, Target.of(arch))
        makes[each] = partial(compile_triton, function, given, Target.of(arch))
    copies = Copies(lambda request: answered(makes[request["row"]]()))
    for each, reply in copies.replies({each: {"row": each} for each in makes}, SECONDS):
        yield asked[each] | _facts(reply)


def _facts(reply: Mapping[str, Any]) -> Row:
    """Of one kernel: shared memory and columns of tensor memory, registers, spilled bytes a thread, instruction."""
    from carver.compiled.isa import amd, sass
    from carver.compiled.worker import unpacked

    if "error" in reply:
        raise CarverError(reply["error"])
    if "refused" in reply:
        return {"refused": reply["refused"]}
    code = unpacked(reply["code"])
    if isinstance(code, bytes):
        [kernel] = sass.kernels(code).values()
        text = sass.disassemble(kernel.code, kernel.sm)
        registers, spill_bytes = kernel.registers, kernel.stack_bytes
    else:
        text = code
        held = amd.read(code).resources
        registers, spill_bytes = held.registers, held.stack_bytes
    kind = next((kind for kind, opcode in OPCODES.items() if opcode.search(text)), "vector")
    return {
        "shared_bytes": reply["shared_bytes"], "tensor_columns": reply["tensor_columns"], "registers": registers,
        "spill_bytes": spill_bytes, "instruction": kind,
    }  # fmt: skip


# holding against each other


class Agreement(NamedTuple):
    """One configuration: what carver says and what came out."""

    fits: bool
    """That Triton compiles and launches it."""
    allowed: bool
    """That carver takes it."""
    shared: tuple[float, float] | None
    """carver's and the compiler's, and so on; None where it did not compile."""
    registers: tuple[float, float] | None
    spills: tuple[bool, bool] | None
    kind: tuple[str, str] | None


def held(rows: Sequence[Mapping[str, Any]]) -> list[Agreement]:
    """carver's columns for rows of the record, against them. Those of one problem and target are asked for together."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault((row["kernel"], row["target"], json.dumps(row["problem"], sort_keys=True)), []).append(place)
    out: dict[int, Agreement] = {}
    for (name, target, _), places in groups.items():
        arch, kernel = carver.load_arch(TARGETS[target]), declared(name)
        problem, configs = problem_of(name, rows[places[0]]["problem"]), [rows[place]["config"] for place in places]
        roomy = arch.replace(smem_per_block_bytes=2**30, smem_per_sm_bytes=2**31)
        _, why = given_space(problem, arch, kernel, configs)
        space, _ = given_space(problem, roomy, kernel, configs)
        at = {int(i): number for number, i in enumerate(space.index)}
        for i, place in enumerate(places):
            out[place] = _agreement(rows[place], i not in why, arch, space, at.get(i))
    return [out[place] for place in range(len(rows))]


def _agreement(row: Mapping[str, Any], allowed: bool, arch: Arch, space: Space, at: int | None) -> Agreement:
    """`at`: where the space has the row's configuration; None where carver knows no columns of it."""
    if "refused" in row:
        return Agreement(False, allowed, None, None, None, None)
    fits = row["shared_bytes"] <= arch.smem_per_block_bytes and row["tensor_columns"] <= TMEM_COLUMNS
    if at is None:
        return Agreement(fits, allowed, None, None, None, None)
    threads = row["config"]["num_warps"] * arch.warp_size
    most = min(arch.max_regs_per_thread, arch.regs_per_block // threads)
    need = space.at(at, "registers", 0)
    kind = (KINDS[space.at(at, "instruction", 0)], row["instruction"]) if "instruction" in space.columns else None
    return Agreement(
        fits, allowed, (space.at(at, "smem_bytes", 0), row["shared_bytes"]), (min(need, most), row["registers"]),
        (need > most, row["spill_bytes"] > SPILL_BYTES), kind,
    )  # fmt: skip


class Line(NamedTuple):
    """One kernel on one target: shares of what agrees, and carver's registers over the compiler's."""

    n: int
    fits: float
    wrongly_refused: int
    shared: float
    kind: float
    registers: tuple[float, float, float]
    """Quantiles of 5, 50 and 95 %, of what does not spill."""
    spills: float


def line(every: Sequence[Agreement]) -> Line:
    built = [a for a in every if a.shared]

    def share(pairs: Iterable[tuple[Any, Any] | None]) -> float:
        found = [mine == theirs for mine, theirs in filter(None, pairs)]
        return sum(found) / len(found) if found else float("nan")

    ratios = [a.registers[0] / a.registers[1] for a in built if a.registers and a.spills and not a.spills[1]]
    quantiles = np.quantile(ratios, [0.05, 0.5, 0.95]) if ratios else [float("nan")] * 3
    return Line(
        len(every), share((a.allowed, a.fits) for a in every), sum(a.fits and not a.allowed for a in every),
        share(a.shared for a in built), share(a.kind for a in built), tuple(map(float, quantiles)),  # type: ignore[arg-type]
        share(a.spills for a in built),
    )  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Line]:
    """By declaration and target."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kernel"], row["target"]), []).append(row)
    order = {target: i for i, target in enumerate(TARGETS)}
    names = list(SUBJECTS)
    ordered = sorted(groups, key=lambda k: (names.index(k[0]), order[k[1]]))
    return {key: line(held(groups[key])) for key in ordered}


def shown(lines: Mapping[tuple[str, str], Line]) -> str:
    heads = ("n", "fits", "wrongly refused", "shared memory", "instruction", "registers 5, 50, 95 %", "spills")
    return frame.table(("kernel", "target", *heads), (
        (*key, x.n, x.fits, x.wrongly_refused, x.shared, "-" if np.isnan(x.kind) else x.kind,
         ", ".join(f"{q:.2f}" for q in x.registers), x.spills)
        for key, x in lines.items()
    ))  # fmt: skip


# carver's first picks

PICKED: dict[str, list[Row]] = {
    "matmul/triton": [
        _square("float16", M=8192, N=8192, K=8192), _square("bfloat16", M=4096, N=14336, K=4096),
        _square("float8_e4m3", M=4096, N=4096, K=8192), _square("float16", M=16, N=4096, K=4096),
        _square("bfloat16", M=1, N=28672, K=8192), _square("float8_e4m3", M=64, N=8192, K=8192),
        _square("float16", M=512, N=512, K=16384, trans_b=False), _square("bfloat16", M=32768, N=128, K=1024),
    ],
    "attention/triton": [
        {"batch": 4, "heads": 32, "kv_heads": 8, "seq": 4096, "head_dim": 128, "causal": True},
        {"batch": 2, "heads": 16, "kv_heads": 16, "seq": 8192, "head_dim": 64, "causal": False, "in_dtype": "bfloat16"},
        {"batch": 1, "heads": 8, "kv_heads": 8, "seq": 2048, "head_dim": 256, "causal": True},
        {"batch": 16, "heads": 32, "kv_heads": 4, "seq": 1024, "head_dim": 128, "causal": False},
    ],
}  # fmt: skip
PICKS = 4


def picked(name: str, target: str) -> Iterator[tuple[Mapping[str, Any], Row]]:
    """carver's first PICKS; 8-bit floats are float16 where the device multiplies none."""
    arch = carver.load_arch(TARGETS[target])
    allowed = {dtype for dtype in ("float8_e4m3",) if arch.matrix_unit(dtype)}
    for given in PICKED[name]:
        dtype = given.get("in_dtype", "float16")
        arguments = given | {"in_dtype": "float16" if dtype.startswith("float8") and dtype not in allowed else dtype}
        for hint in SUBJECTS[name].template(**arguments).with_arch(arch).recommend_hints(PICKS, "triton"):
            yield arguments, dict(hint.config)


def faults(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Picks that do not compile, do not fit, or spill where carver says that they do not."""
    for row, said in zip(rows, held(rows), strict=True):
        arch = carver.load_arch(TARGETS[row["target"]])
        what = f"{row['kernel']} {row['target']} {tuple(row['problem'].values())} {tuple(row['config'].values())}"
        if "refused" in row:
            yield f"{what}: {row['refused']}"
        elif row["shared_bytes"] > arch.smem_per_block_bytes or row["tensor_columns"] > TMEM_COLUMNS:
            yield f"{what}: {row['shared_bytes']} bytes, {row['tensor_columns']} columns do not fit"
        elif said.spills == (False, True):
            yield f"{what}: {row['spill_bytes']} bytes a thread spilled, {row['registers']} registers"


# the record


def read(path: Path) -> list[Row]:
    return list(frame.rows(path)) if path.exists() else []


def write(path: Path, rows: Iterable[Row]) -> None:
    """Add rows, each as it comes."""
    for row in rows:
        frame.write(path, row)


def drop(path: Path, names: Sequence[str], targets: Sequence[str], still: Container[Any]) -> None:
    """Take out the rows of these kernels and targets whose keys are not among `still`: they are picks no more."""
    kept = [
        row for row in read(path) if row["kernel"] not in names or row["target"] not in targets or key(row) in still
    ]
    lines = "".join(json.dumps(row) + "\n" for row in kept)  # at once: row by row a gzip is ten times as large
    path.write_bytes(gzip.compress(lines.encode(), mtime=0) if path.suffix == ".gz" else lines.encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compile", "table", "picks", "spilled"])
    parser.add_argument("record", type=Path)
    parser.add_argument("--kernel", action="append", choices=list(SUBJECTS), help="all, unless given")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="all, unless given")
    parser.add_argument("--configs", type=int, default=60, help="of each kernel for each target")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    targets = options.target or list(TARGETS)
    known = read(options.record)
    if options.what in ("compile", "picks"):
        draws = options.what == "compile"
        names = options.kernel or list(SUBJECTS if draws else PICKED)
        wanted = [
            (name, target, arguments, config)
            for name in names
            for target in targets
            for arguments, config in (
                drawn(name, target, options.configs, options.seed) if draws else picked(name, target)
            )
        ]
        write(options.record, compiled(wanted, known))
        if not draws:
            drop(options.record, names, targets, {key(row) for row in rows(wanted)})
        return
    chosen = [r for r in known if r["target"] in targets and r["kernel"] in (options.kernel or SUBJECTS)]
    if options.what == "table":
        print(shown(table(chosen)))
    else:
        print("\n".join(faults(chosen)) or f"{len(chosen)} picks compile, fit and do not spill")


if __name__ == "__main__":
    main()
