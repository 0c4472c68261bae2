"""Measure matmuls of serving engines, `kernels/triton_moe.py`: mixtures of experts, linear layers in scaled blocks.

    python benchmarks/serving.py plan --out plan.json                     what is measured; on any machine
    python benchmarks/serving.py measure plan.json --out FILE.jsonl       on a GPU, with PyTorch and Triton
    python benchmarks/serving.py table FILE.jsonl --out FILE.csv          as `carver evaluate` reads it

Of each matmul `plan` takes the first by carver's ranking and others at random among those that it does not predict to
be much slower, all from one pool a kind of operands, so that few kernels are compiled. `measure` compiles them side by
side, then compares a sample of each result with PyTorch's and times it: median of nine runs, L2 overwritten before
each.
"""

from __future__ import annotations

import argparse
import csv
import gc
import importlib
import itertools
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

Config = dict[str, int]
RUNS = 9
TOLERANCE = 0.02
SCALES = 128
"""Columns and depth of a block of scales."""


class Layer(NamedTuple):
    """Experts of `kind` "plain", "fp8", "block" or "int8", `topk` a token; or "linear", with neither."""

    kind: str
    experts: int
    topk: int
    hidden: int
    intermediate: int
    tokens: tuple[int, ...]
    skews: tuple[float, ...] = (0.0,)


class Matmul(NamedTuple):
    kind: str
    tokens: int
    experts: int
    topk: int
    """1 in the second matmul of a layer, whose rows are gathered already; 0 in a linear layer."""
    routed: int
    N: int
    K: int
    skew: float


FEW, MANY = (1, 16, 64, 256, 1024, 4096), (4, 32, 128, 512, 2048)
LAYERS = [
    Layer("plain", 8, 2, 6144, 4096, FEW),
    Layer("plain", 128, 8, 2048, 768, FEW, (0.0,)),
    Layer("plain", 64, 6, 2048, 1408, MANY),
    Layer("plain", 32, 4, 2880, 1440, MANY),
    Layer("plain", 384, 8, 3072, 256, FEW),
    Layer("block", 256, 8, 7168, 256, FEW),
    Layer("block", 128, 8, 2048, 768, MANY),
    Layer("block", 160, 8, 5120, 384, FEW),
    Layer("block", 16, 2, 5120, 2048, MANY),
    Layer("fp8", 128, 8, 4096, 1536, (16, 256, 4096)),
    Layer("int8", 64, 6, 2048, 1408, (16, 256, 4096)),
    Layer("plain", 64, 8, 4096, 1024, (1024,), (0.0, 0.5, 1.0, 1.5)),
    *(Layer("linear", 1, 1, k, n, tokens) for n, k, tokens in (
        (4608, 7168, FEW), (7168, 2048, MANY), (2112, 7168, FEW), (24576, 1536, FEW), (4096, 4096, MANY),
        (36864, 7168, (64, 1024)), (7168, 18432, (16, 256, 2048)),
    )),
]  # fmt: skip
EACH = (1, 16, 64, 256, 1024, 4096)
FITTED = [
    Layer("plain", 8, 2, 4096, 7168, EACH),
    Layer("plain", 16, 1, 5120, 1024, EACH),
    Layer("plain", 128, 8, 2048, 768, EACH),
    Layer("plain", 128, 8, 4096, 192, EACH),
    Layer("plain", 64, 8, 3584, 640, EACH),
    Layer("plain", 256, 8, 2048, 512, EACH),
    Layer("plain", 8, 2, 4096, 14336, EACH),
    Layer("plain", 128, 8, 4096, 1536, EACH),
    Layer("block", 256, 8, 7168, 256, EACH),
    Layer("block", 128, 8, 2048, 768, EACH),
    Layer("block", 384, 8, 7168, 128, EACH),
    Layer("block", 160, 8, 5120, 640, EACH),
    Layer("block", 64, 8, 2048, 512, EACH),
    *(Layer("linear", 1, 1, k, n, EACH) for n, k in (
        (576, 7168), (1536, 7168), (7168, 2048), (32768, 512), (4608, 7168), (36864, 7168),
    )),
]  # fmt: skip
HELD = [
    Layer("plain", 8, 2, 4096, 3584, EACH),
    Layer("plain", 64, 8, 3584, 1280, EACH),
    Layer("plain", 512, 10, 2048, 128, EACH),
    Layer("block", 128, 8, 4096, 384, EACH),
    Layer("block", 257, 9, 7168, 256, EACH),
    *(Layer("linear", 1, 1, k, n, EACH) for n, k in ((512, 7168), (7168, 16384), (3072, 1536), (24576, 7168))),
]  # fmt: skip
ENGINES = {"fitted": FITTED, "held": HELD}
"""Layers of which many have tuned files for an H200 in SGLang; no constant was fitted to the second list."""
ENGINES_DEFAULT: dict[bool, Config] = {
    False: {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "num_warps": 4, "num_stages": 3},
    True: {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 32, "num_warps": 4, "num_stages": 3},
}
"""What SGLang falls back to, without and with scales a block."""
TILES = {
    "BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (32, 64, 128, 256),
    "num_warps": (4, 8), "num_stages": (2, 3, 4, 5),
}  # fmt: skip
GROUPS = (1, 8, 16, 32, 64)
POOL = {"plain": 150, "block": 100, "linear": 80, "fp8": 32, "int8": 32}
"""Kernels that are compiled of each kind."""
FIRST, OTHERS, SLOWER = 24, 36, 4.0


def matmuls(layer: Layer) -> list[Matmul]:
    out = []
    for tokens, skew in itertools.product(layer.tokens, layer.skews):
        if layer.kind == "linear":
            out.append(Matmul("linear", tokens, 1, 0, tokens, layer.intermediate, layer.hidden, 0.0))
            continue
        routed = tokens * layer.topk
        up, down = (2 * layer.intermediate, layer.hidden), (layer.hidden, layer.intermediate)
        out.append(Matmul(layer.kind, tokens, layer.experts, layer.topk, routed, *up, skew))
        out.append(Matmul(layer.kind, tokens, layer.experts, 1, routed, *down, skew))
    return out


def template(p: Matmul, topk: int) -> Any:
    import carver

    if p.kind == "linear":
        return carver.ScaledMatmulTemplate(p.tokens, p.N, p.K)
    types = {"plain": ("bfloat16", None), "int8": ("bfloat16", "int8")}
    a, b = types.get(p.kind, ("float8_e4m3", None))
    block = (SCALES, SCALES) if p.kind == "block" else None
    routing = carver.Routing(p.tokens, p.experts, topk, p.skew)
    return carver.GroupedMatmulTemplate(routing, p.N, p.K, None, a, "bfloat16", b, block)


def tile(config: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(config[name] for name in TILES)


def plan(options: argparse.Namespace) -> None:
    import carver

    arch, rng = carver.load_arch(options.arch), random.Random(1)
    every = [dict(zip(TILES, values, strict=True)) for values in itertools.product(*TILES.values())]
    grouped = [config | {"GROUP_M": group} for config in every for group in GROUPS]
    work = [(p, layer.topk) for layer in LAYERS for p in matmuls(layer)]
    ranked = []
    for p, topk in work:
        hints = template(p, topk).with_arch(arch).rank(grouped, "triton")
        seconds, configs = hints.seconds, [grouped[i] for i in hints.indices]
        good = [c for c, s in zip(configs, seconds, strict=True) if s < SLOWER * seconds[0] and fits(p, c)]
        ranked.append(good)
    pools: dict[str, set[tuple[int, ...]]] = {kind: set() for kind in POOL}
    for depth in range(400):  # the first of every problem, then the second of every problem, ...
        for (p, _), good in zip(work, ranked, strict=True):
            if len(pools[p.kind]) < 0.6 * POOL[p.kind] and depth < len(good):
                pools[p.kind].add(tile(good[depth]))
    for kind, pool in pools.items():
        same = (good for (p, _), good in zip(work, ranked, strict=True) if p.kind == kind)
        left = sorted({tile(c) for good in same for c in good} - pool)
        pool.update(rng.sample(left, min(len(left), POOL[kind] - len(pool))))
    rows = []
    for (p, _), good in zip(work, ranked, strict=True):
        here = [c for c in good if tile(c) in pools[p.kind]]
        first, rest = here[:FIRST], here[FIRST:]
        chosen = first + rng.sample(rest, min(OTHERS, len(rest)))
        rows.append({"problem": p._asdict(), "configs": chosen})
    options.out.write_text(json.dumps(rows))
    print(len(rows), "matmuls", sum(len(r["configs"]) for r in rows), "runs")


TRIED = {"BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (64, 128, 256),
         "GROUP_M": (1, 16, 32, 64), "num_warps": (4, 8), "num_stages": (2, 3, 4, 5)}  # fmt: skip
"""What the engines' own tuning scripts try."""
DRAWN, BORROWED, NEXT = 22, 10, 22
"""Of each matmul's configurations: at random of `TRIED`, of those that carver names for others of its kind, and the
best of these by its ranking."""


def plan_engines(options: argparse.Namespace) -> None:
    """For each layer of a list: carver's file and first ten, the default, a shipped file if there is one, others."""
    import carver
    from carver.export import vllm

    arch, rng = carver.load_arch(options.arch), random.Random(1)
    every = [dict(zip(TRIED, values, strict=True)) for values in itertools.product(*TRIED.values())]
    rows: list[Any] = []
    layers = ENGINES[options.engines]
    named: dict[str, dict[tuple[int, ...], Config]] = {layer.kind: {} for layer in layers}
    for layer in layers:
        kind, sample = layer.kind, matmuls(layer)[0]
        space = [c for c in every if fits(sample, c) and c["BLOCK_M"] * c["BLOCK_N"] <= 1 << 16]
        block, dtype = (None, "") if kind == "plain" else ((SCALES, SCALES), "fp8_w8a8")
        shipped = tuned(options.tuned, layer, arch)
        for tokens in layer.tokens:
            if kind == "linear":
                file = vllm.block_fp8(arch, layer.intermediate, layer.hidden, batches=[tokens])
                ranking = carver.ScaledMatmulTemplate(tokens, layer.intermediate, layer.hidden).with_arch(arch).rank(
                    space, "triton")  # fmt: skip
                order = [space[i] for i in ranking.indices]
            else:
                sizes = (layer.experts, layer.topk, layer.hidden, layer.intermediate)
                file = vllm.moe(arch, *sizes, dtype, block, batches=[tokens])
                of = "float8_e4m3" if block else "bfloat16"
                both = carver.MoETemplate(tokens, *sizes, of, block).with_arch(arch)
                order = [dict(hint.config) for hint in both.rank(space)]
            lists = {"file": [ours_of(file.configs[tokens])], "ten": order[:10]}
            lists["default"] = [ENGINES_DEFAULT[kind != "plain"]]
            if shipped:
                lists["tuned"] = [ours_of(shipped[min(shipped, key=lambda m: abs(int(m) - tokens))])]
            rows.append((layer._replace(tokens=(tokens,)), lists, order))
            named[kind] |= {(*tile(c), c["GROUP_M"]): c for cs in lists.values() for c in cs}
    drawn = {
        kind: rng.sample([c for c in every if fits(Matmul(kind, 1, 1, 1, 1, 1, 1, 0.0), c)], DRAWN) for kind in named
    }
    out = []
    for layer, lists, order in rows:
        others = list(named[layer.kind].values())
        nearest = [c for c in order if (*tile(c), c["GROUP_M"]) in named[layer.kind]][:NEXT]
        borrowed = rng.sample(others, min(BORROWED, len(others)))
        taken = (*itertools.chain(*lists.values()), *nearest, *borrowed, *drawn[layer.kind])
        own = {tuple(sorted(c.items())): c for c in taken}
        chosen = [list(own.values())[-1], *own.values()]  # the first is timed on an idle GPU
        name = f"{layer.kind} {layer.experts} x {layer.intermediate} x {layer.hidden}, {layer.tokens[0]} tokens"
        out += [{"layer": name, "problem": p._asdict(), "configs": chosen, "lists": lists} for p in matmuls(layer)]
    options.out.write_text(json.dumps(out))
    print(len(out), "matmuls", sum(len(r["configs"]) for r in out), "runs")


def ours_of(config: Mapping[str, int]) -> Config:
    from carver.export.vllm import KEYS

    return {ours: config.get(theirs, 1) for ours, theirs in KEYS.items()}


def tuned(wheel: Path | None, layer: Layer, arch: Any) -> dict[str, Config]:
    """The file that SGLang ships for this layer and device, of the newest Triton, from its unpacked wheel."""
    if wheel is None:
        return {}
    blocks = "" if layer.kind == "plain" else ",dtype=fp8_w8a8,block_shape=[128, 128]"
    size = f"N={layer.intermediate},K={layer.hidden}" if layer.kind == "linear" else (
        f"E={layer.experts},N={layer.intermediate}")  # fmt: skip
    name = f"{size},device_name={arch.device_names[0].replace(' ', '_')}{blocks}.json"
    found = sorted(path for path in wheel.rglob("*.json") if path.name == name)
    return {m: c for m, c in json.loads(found[-1].read_text()).items() if m.isdigit()} if found else {}


def score(options: argparse.Namespace) -> None:
    """Of each layer and batch, both matmuls together: what carver's lists and the shipped file cost over the best."""
    times: dict[Matmul, dict[str, float]] = {}
    for line in itertools.chain.from_iterable(path.read_text().splitlines() for path in options.files):
        row = json.loads(line)
        if row["time_ms"] is not None:
            times.setdefault(Matmul(**row["problem"]), {})[json.dumps(row["config"], sort_keys=True)] = row["time_ms"]
    layers: dict[str, list[Any]] = {}
    for row in json.loads(options.plan.read_text()):
        layers.setdefault(row["layer"], []).append(row)
    total: dict[str, list[float]] = {}
    for name, rows in layers.items():
        parts, lists = [Matmul(**row["problem"]) for row in rows], rows[0]["lists"]

        def both(c: Config, parts: Sequence[Matmul] = parts) -> float:
            return sum(times.get(p, {}).get(json.dumps(c, sort_keys=True), math.inf) for p in parts)

        best = min(both(json.loads(c)) for c in times[parts[0]])
        said = {name: min(map(both, cs)) / best for name, cs in lists.items()}
        said["three"] = min(map(both, lists["ten"][:3])) / best
        for list_of, value in said.items():
            if value < math.inf:  # else what the list names was not measured
                total.setdefault(list_of, []).append(value)
        print(name, f"{best:.4f} ms", *(f"{of} {value:.3f}" for of, value in said.items()))
    for name, values in total.items():
        print(f"{name}: {statistics.geometric_mean(values):.3f}, worst {max(values):.2f}, of {len(values)}")


def fits(p: Matmul, c: Config) -> bool:
    """Within shared memory, of few enough sums a thread, and scales not deeper than a step."""
    a, b = {"plain": (2, 2), "int8": (2, 1)}.get(p.kind, (1, 1))
    held = (c["BLOCK_M"] * a + c["BLOCK_N"] * b) * c["BLOCK_K"] * max(1, c["num_stages"] - 1)
    sums = c["BLOCK_M"] * c["BLOCK_N"] // (32 * c["num_warps"])
    scaled = p.kind in ("block", "linear")
    return held <= 227 * 1024 and 2 <= sums <= (128 if scaled else 256) and (not scaled or SCALES % c["BLOCK_K"] == 0)


# on the GPU


class Call(NamedTuple):
    kernel: Any
    grid: tuple[int]
    given: tuple[Any, ...]
    words: dict[str, Any]

    def identity(self, kind: str) -> str:
        """Of the kernel that Triton compiles for it."""
        sizes = [v for of, v in zip(self.kernel.params, self.given, strict=False) if not of.do_not_specialize]
        seen = [str(v) if not isinstance(v, int) or v == 1 else v % 16 == 0 for v in sizes]
        return json.dumps([kind, seen, sorted((k, str(v)) for k, v in self.words.items())])


def ours(p: Matmul, c: Config, t: Mapping[str, Any]) -> Call:
    from kernels import triton_moe

    words: dict[str, Any] = {name: c[name] for name in TILES} | {"WHOLE_K": p.K % c["BLOCK_K"] == 0}
    columns, group, deep = -(-p.N // c["BLOCK_N"]), c["GROUP_M"], -(-p.K // SCALES)
    if p.kind == "linear":
        grid = (-(-p.tokens // c["BLOCK_M"]) * columns,)
        sizes = (p.tokens, p.N, p.K, group, p.K, p.K, p.N, deep, deep)
        given: tuple[Any, ...] = (t["x"], t["w"], t["out"], t["xs"], t["ws"], *sizes)
        return Call(triton_moe.scaled_matmul, grid, given, words | {"SCALE_N": SCALES, "SCALE_K": SCALES})
    row_tiles = -(-t["slots"] // c["BLOCK_M"])
    scales = {"block": (deep, -(-p.N // SCALES) * deep, deep), "int8": (1, p.N, 1)}
    given = (t["x"], t["w"], t["out"], t["xs"], t["ws"], t["gate"], t["slot"], t["expert"], t["used"], p.N, p.K,
             p.routed, p.topk, group, row_tiles, p.K, p.N * p.K, p.K, p.N,
             *scales.get(p.kind, (1, 1, 1)))  # fmt: skip
    kind = "plain" if p.kind == "fp8" else p.kind
    words |= {"KIND": kind, "SCALE_N": 0 if p.kind == "plain" else SCALES, "SCALE_K": SCALES}
    return Call(triton_moe.grouped_matmul, (row_tiles * columns,), given, words)


def sglang(folder: str, p: Matmul, c: Config, t: Mapping[str, Any]) -> Call:
    """The same with `fused_moe_kernel` and `_w8a8_block_fp8_matmul` of SGLang 0.5.23, from `kernels.py` in a folder."""
    import triton.language as tl

    if folder not in sys.path:
        sys.path.insert(0, folder)
    theirs, deep = importlib.import_module("sglang_kernels"), -(-p.K // SCALES)
    words: dict[str, Any] = {f"BLOCK_SIZE_{x}": c[f"BLOCK_{x}"] for x in "MNK"} | {"GROUP_SIZE_M": c["GROUP_M"]}
    words |= {name: c[name] for name in ("num_warps", "num_stages")}
    columns, whole = -(-p.N // c["BLOCK_N"]), p.K % c["BLOCK_K"] == 0
    if p.kind == "linear":
        grid = (-(-p.tokens // c["BLOCK_M"]) * columns,)
        sizes = (p.tokens, p.N, p.K, SCALES, SCALES, p.K, 1, 1, p.K, p.N, 1, deep, 1, 1, deep)
        given: tuple[Any, ...] = (t["x"], t["w"], t["out"], t["xs"], t["ws"], *sizes)
        return Call(theirs._w8a8_block_fp8_matmul, grid, given, words | {"needs_masking": not whole})
    block = p.kind == "block"
    scales = (deep, 1, -(-p.N // SCALES) * deep, 1, deep) if block else (0, 0, 0, 0, 0)
    xs, ws = (t["xs"], t["ws"]) if block else (None, None)
    given = (t["x"], None, t["w"], None, None, t["out"], xs, ws, t["gate"], t["slot"], t["expert"], t["used"], None,
             p.N, p.K, t["slots"], p.routed, p.K, 1, p.N * p.K, 1, p.K, 0, 0, p.N, 1, *scales)  # fmt: skip
    off = ("use_int8_w8a8", "use_int8_w8a16", "per_channel_quant", "c_sorted", "swap_ab", "FUSE_ADD_TO_OUTPUT",
           "MASK_OUTPUT", "FUSE_SUM_ALL_REDUCE")  # fmt: skip
    words |= dict.fromkeys(off, False) | dict.fromkeys(("group_n", "group_k"), SCALES if block else 0)
    words |= {"MUL_ROUTED_WEIGHT": p.topk == 1, "top_k": p.topk, "compute_type": tl.bfloat16, "even_Ks": whole,
              "use_fp8_w8a8": block, "ROUTER_TOPK": 1}  # fmt: skip
    return Call(theirs.fused_moe_kernel, (-(-t["slots"] // c["BLOCK_M"]) * columns,), given, words)


def called(folder: str, p: Matmul, c: Config, t: Mapping[str, Any]) -> Call:
    return sglang(folder, p, c, t) if folder else ours(p, c, t)


def compile_one(job: tuple[str, Matmul, Config]) -> str:
    import torch

    folder, p = job[0], Matmul(*job[1])
    try:
        call = called(folder, p, job[2], empty(p, torch))
        call.kernel.warmup(*call.given, grid=(1,), **call.words)
    except Exception as error:  # whatever the compiler raises, the launch raises again, and it is recorded there
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def empty(p: Matmul, torch: Any) -> dict[str, Any]:
    """Types in place of tensors, for a kernel that is only compiled."""
    x = torch.bfloat16 if p.kind in ("plain", "int8") else torch.float8_e4m3fn
    w = torch.int8 if p.kind == "int8" else x
    return {"x": x, "w": w, "out": torch.bfloat16, "xs": torch.float32, "ws": torch.float32, "gate": torch.float32,
            "slot": torch.int32, "expert": torch.int32, "used": torch.int32, "slots": 16}  # fmt: skip


def launch(folder: str, p: Matmul, c: Config, t: Mapping[str, Any]) -> Any:
    call = called(folder, p, c, t)
    return call.kernel[call.grid](*call.given, **call.words)


def routed(p: Matmul, topk: int) -> Any:
    """The experts of each token: without replacement, by Zipf's law."""
    import numpy as np

    rng = np.random.default_rng(p.tokens)
    weight = np.log(np.arange(1, p.experts + 1) ** -p.skew)
    return np.argsort(-(weight + rng.gumbel(size=(p.tokens, p.experts))), axis=1)[:, :topk].astype(np.int32)


def aligned(experts_of: Any, p: Matmul, height: int) -> dict[str, Any]:
    """`placed`, on the GPU."""
    import torch

    return {n: x if n == "slots" else torch.from_numpy(x).cuda() for n, x in placed(experts_of, p, height).items()}


def placed(experts_of: Any, p: Matmul, height: int) -> dict[str, Any]:
    """Slots by expert, those of each padded to whole tiles. As many as any routing may need, as engines have them."""
    import numpy as np

    flat = experts_of.reshape(-1)
    counts = np.bincount(flat, minlength=p.experts)
    order = np.argsort(flat, kind="stable")
    room = len(flat) * height if len(flat) < p.experts else len(flat) + p.experts * (height - 1)
    slots, owner = np.full(room + height, p.routed, np.int32), np.zeros(room // height + 1, np.int32)
    at = start = 0
    for expert, count in enumerate(counts):
        if count:
            tall = -(-count // height) * height
            slots[at : at + count] = order[start : start + count]
            owner[at // height : (at + tall) // height] = expert
            at, start = at + tall, start + count
    return {"slot": slots, "expert": owner, "used": np.array([at], np.int32), "slots": room}


def weights(kind: str, experts: int, n: int, k: int) -> dict[str, Any]:
    import torch

    g = torch.Generator(device="cuda").manual_seed(1)
    w = torch.empty(experts, n, k, device="cuda", dtype=empty(Matmul(kind, 1, 1, 1, 1, 1, 1, 0.0), torch)["w"])
    for e in range(experts):
        if w.dtype == torch.int8:
            w[e] = torch.randint(0, 255, (n, k), device="cuda", generator=g, dtype=torch.int16).to(w.dtype)
        else:
            w[e] = (torch.randn(n, k, device="cuda", generator=g, dtype=torch.bfloat16) * 0.5).to(w.dtype)
    deep = -(-k // SCALES)
    shape = {"block": (experts, -(-n // SCALES), deep), "linear": (experts, -(-n // SCALES), deep),
             "int8": (experts, n)}.get(kind, (experts,))  # fmt: skip
    return {"w": w, "ws": torch.rand(shape, device="cuda", generator=g) + 0.5}


def inputs(p: Matmul, held: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    g = torch.Generator(device="cuda").manual_seed(2)
    rows = p.tokens if p.topk != 1 else p.routed
    x = torch.randn(rows, p.K, device="cuda", generator=g, dtype=torch.bfloat16) * 0.5
    scale = torch.rand(rows, -(-p.K // SCALES), device="cuda", generator=g) + 0.5
    out = torch.zeros(p.routed, p.N, device="cuda", dtype=torch.bfloat16)
    gate = torch.rand(p.routed, device="cuda", generator=g) if p.topk == 1 else torch.ones(p.routed, device="cuda")
    return dict(held) | {"x": x.to(empty(p, torch)["x"]), "xs": scale, "out": out, "gate": gate}


def expected(p: Matmul, t: Mapping[str, Any], experts_of: Any) -> tuple[Any, Any, Any]:
    """Some rows and columns of the result."""
    import torch

    g = torch.Generator().manual_seed(3)
    rows = torch.randint(0, p.routed, (12,), generator=g).cuda()
    cols = torch.randint(0, p.N, (96,), generator=g).cuda()
    flat = torch.from_numpy(experts_of.reshape(-1)).cuda().long()
    source = rows // max(p.topk, 1)
    owner = torch.zeros_like(rows) if p.kind == "linear" else flat[rows]
    w = t["w"][owner[:, None], cols[None, :]]  # rows x cols x K
    x = t["x"][source].float()
    if p.kind in ("block", "linear"):
        x = x * t["xs"][source].repeat_interleave(SCALES, 1)[:, : p.K]
        w = w.float() * t["ws"][owner[:, None], cols[None, :] // SCALES].repeat_interleave(SCALES, 2)[:, :, : p.K]
    elif p.kind == "int8":
        w = w.float() * t["ws"][owner[:, None], cols[None, :]][:, :, None]
    elif p.kind == "fp8":
        x, w = x * t["xs"].view(-1)[0], w.float() * t["ws"][owner][:, None, None]
    want = torch.einsum("rk,rck->rc", x.double(), w.double())
    return rows, cols, want if p.kind == "linear" else want * t["gate"][rows][:, None]


def measure(options: argparse.Namespace) -> None:
    import torch

    began = time.monotonic()
    work = [(Matmul(**row["problem"]), row["configs"]) for row in json.loads(options.plan.read_text())]
    work.sort(key=lambda each: (each[0].kind, each[0].experts, each[0].N, each[0].K))  # weights are made once
    types, folder = {p.kind: empty(p, torch) for p, _ in work}, options.sglang
    jobs = {
        called(folder, p, c, types[p.kind]).identity(p.kind): (folder, tuple(p), c)
        for p, configs in work
        for c in configs
    }
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn")) as pool:
        said = list(pool.map(compile_one, jobs.values(), chunksize=4))
    failed = [why for why in said if why]
    print(f"{len(failed)} of {len(jobs)} not compiled", failed[:2], f"{time.monotonic() - began:.0f} s", flush=True)
    gc.disable()
    flush = torch.empty(2**29, dtype=torch.int8, device="cuda")
    for _ in range(5000):  # a GPU that idled runs at another clock
        flush.zero_()
    made: tuple[Any, dict[str, Any]] = (None, {})
    with options.out.open("a", encoding="utf-8") as file:
        for p, configs in work:
            if time.monotonic() - began > options.limit:
                print("left out:", p, flush=True)
                continue
            if made[0] != (p.kind, p.experts, p.N, p.K):
                made = None, {}
                torch.cuda.empty_cache()
                made = (p.kind, p.experts, p.N, p.K), weights(p.kind, p.experts, p.N, p.K)
            experts_of = routed(p, max(1, p.routed // p.tokens))
            t = inputs(p, made[1])
            rows, cols, want = expected(p, t, experts_of)
            heights = {c["BLOCK_M"] for c in configs} if p.kind != "linear" else ()
            slots = {height: aligned(experts_of, p, height) for height in heights}
            best = math.inf
            for c in configs:
                given = t | slots.get(c["BLOCK_M"], {})
                row = {"problem": p._asdict(), "config": c} | timed(folder, p, c, given, rows, cols, want, flush)
                best = min(best, row["time_ms"] or math.inf)
                file.write(json.dumps(row) + "\n")
            file.flush()
            print(*p, f"{best:.4f} ms {time.monotonic() - began:.0f} s", flush=True)


def timed(
    folder: str, p: Matmul, c: Config, t: Mapping[str, Any], rows: Any, cols: Any, want: Any, flush: Any
) -> dict[str, Any]:
    from gpu_time import median_ms

    try:
        compiled = launch(folder, p, c, t)
        got = t["out"][rows[:, None], cols[None, :]].double()
        error = float((got - want).abs().max() / want.abs().max())
        t["out"][rows] = 0
    except Exception as raised:  # a configuration that does not run is a result
        return {"time_ms": None, "why": f"{type(raised).__name__}: {raised}".splitlines()[0][:160]}
    said = {"registers": compiled.n_regs, "spills": compiled.n_spills, "smem_bytes": compiled.metadata.shared}
    ms = median_ms(lambda: launch(folder, p, c, t), flush, RUNS)
    return {"time_ms": ms, "error": error, "why": ""} | said


def table(options: argparse.Namespace) -> None:
    """The first of each matmul is left out: it was timed on a GPU that had idled."""
    types = {"plain": ("bfloat16", ""), "fp8": ("float8_e4m3", ""), "block": ("float8_e4m3", ""),
             "linear": ("float8_e4m3", ""), "int8": ("bfloat16", "int8")}  # fmt: skip
    rows, seen = [], set()
    for line in itertools.chain.from_iterable(path.read_text().splitlines() for path in options.files):
        found = json.loads(line)
        p, wrong = Matmul(**found["problem"]), found.get("error", 0) >= TOLERANCE
        first, grouped = p not in seen, p.kind != "linear"
        seen.add(p)
        if first or p.kind not in types or grouped == options.linear:
            continue
        size = {"N": p.N, "K": p.K, "in_dtype": types[p.kind][0], "out_dtype": "bfloat16"}
        of = {"operator": "scaled_matmul", "M": p.tokens} if p.kind == "linear" else {
            "operator": "grouped_matmul", "rows": p.tokens, "experts": p.experts, "chosen": p.routed // p.tokens,
            "skew": p.skew, "b_dtype": types[p.kind][1],
            "scale_block": f"{SCALES}x{SCALES}" if p.kind == "block" else "",
        }  # fmt: skip
        ran = found["time_ms"] is not None and not wrong
        time_ms = {"time_ms": f"{found['time_ms']:.6g}" if ran else "", "valid": int(ran)}
        notes = {f"note.{name}": found.get(name, "") for name in ("smem_bytes", "registers", "spills")}
        config = {f"config.{name}": value for name, value in found["config"].items()}
        rows.append({"arch": "h200_sxm", "backend": "triton"} | of | size | config | time_ms | notes)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    make = commands.add_parser("plan")
    make.add_argument("--arch", default="h200")
    make.add_argument("--engines", choices=list(ENGINES), help="layers and lists for `measure --sglang`")
    make.add_argument("--tuned", type=Path, help="an unpacked wheel of SGLang, for its tuned files")
    make.set_defaults(call=lambda options: (plan_engines if options.engines else plan)(options))
    run = commands.add_parser("measure")
    run.add_argument("plan", type=Path)
    run.add_argument("--sglang", default="", help="folder with SGLang's two kernels, which are timed in place of ours")
    run.add_argument("--limit", type=float, default=300.0, help="seconds after which no matmul is begun")
    run.set_defaults(call=measure)
    write = commands.add_parser("table")
    write.add_argument("files", type=Path, nargs="+")
    write.add_argument("--linear", action="store_true", help="the linear layers, else the mixtures")
    write.set_defaults(call=table)
    judge = commands.add_parser("score")
    judge.add_argument("plan", type=Path)
    judge.add_argument("files", type=Path, nargs="+")
    judge.set_defaults(call=score)
    for each in (make, run, write):
        each.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
