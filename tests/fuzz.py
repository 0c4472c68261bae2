"""Every public entry, and strategies for what it may be given: arguments of any type, and files with edits in them.

`ENTRIES` is what tests/test_fuzz.py and benchmarks/fuzz.py draw from. Whatever is given, a call gives back a result or
raises a CarverError.
"""

from __future__ import annotations

import copy
import gzip
import inspect
import json
import math
import os
import string
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

import carver
from benchmarks import adapters as tables
from carver.arch import devices
from carver.base import store as base_store
from carver.base.errors import CarverError
from carver.cli.export import checked, example, trial
from carver.cli.main import main
from carver.cli.rankings import read_configs, read_problems
from carver.compiled import pool
from carver.compiled.inspect import candidate, compilers, facts_of
from carver.compiled.worker import read, request
from carver.cost.models.compiled import price_compiled
from carver.export import cutlass, helion, inductor, kernel_tuner, optuna, plain, tilelang, triton, vllm
from carver.kernels import declaration, expr
from carver.ops.operator import operators
from carver.problem import notation
from carver.problem.problem import Problem
from carver.ranking.kernel import rank_kernel
from carver.run.records import Measurement, Records
from carver.tune import cache as archive
from carver.tune import cache as tuned
from carver.tune.cache import PROFILE as profiles_kind
from carver.tune.cache import profiles as every_profile
from carver.tune.plan import Tuning

ARCHS = ("h200", "a100", "t4", "mi300x", "m2_max", "cpu_avx2", "cpu_avx512")
DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "float8_e4m3", "int8", "int32")


class Odd:
    """An object that is nothing in particular."""

    shape = "no shape"
    dtype = None
    __module__ = "triton.odd"

    def __repr__(self) -> str:
        return "Odd()"


ODD = (
    None, True, False, 0, 1, -1, 2, 3, 7, 8, 16, 64, 100, 128, 2**16, 2**31, 2**53 + 1, 2**63, 2**64, 10**40,
    -(2**70), 0.0, 1.5, -0.0, 5e-324, 1e-30, 1e300, math.inf, -math.inf, math.nan, 1j, "", " ", "a", "16", "-1",
    "1.5", "NaN", "1e999", "0x10", "float16", "auto", "none", "\x1b[31mred\x07", "\0", "\ud800", "ü" * 3, "9" * 5000,
    "x" * 10000, "../../etc/passwd", "/dev/null", "a b", "[b]bold[/b]", b"bytes", (), [], {}, (1, 2), [1, 2, 3], [0],
    ["a", None], [[1], [2, 3]], {"a": 1}, {"a": {"b": []}}, {1: 2}, {1, 2}, range(4), range(10**12), np.int64(4),
    np.float32(2.5), np.bool_(True), np.array(3), np.array([1, 2]), np.array([]), np.zeros((2, 2)), Fraction(3, 2),
    np.float16, int, len, Odd(), object(),
)  # fmt: skip
PLAIN = (*tuple(x for x in ODD if x is None or isinstance(x, bool | int | float | str | list)), {}, {"a": 1})
"""Those that JSON has."""
LITERALS = (
    "0", "1", "-1", "1.5", "1e400", "5e-324", "nan", "inf", "-inf", "true", '""', '"x"', "[]", "[1, 'a']", "{}",
    "{a = 1}", "99999999999999999999999", "1979-05-27", "'9**9**9'", "'m*'", "'" + "(" * 200 + "'", "[" * 3000,
    "'\\u001b'", "\x00", "'arch.__class__'", "'min()'", "'1 // 0'", "'2**63'", "'m // 0'", "['m', 'n']", "[0]",
    "[-1]",
)  # fmt: skip
"""Values in a TOML file."""

odd = st.sampled_from(ODD)
plain_odd = st.sampled_from(PLAIN)
whole = st.one_of(st.sampled_from([1, 2, 3, 16, 64, 100, 127, 1024, 4096]), st.integers(-3, 2**48 + 1))
word = st.one_of(
    st.sampled_from(["m", "n", "k", "b", "BLOCK_M", "num_warps", "kernel"]), st.text(string.printable, max_size=8)
)


LITTLE = st.one_of(st.sampled_from([1, 2, 3, 8, 16, 64, 100, 127, 1024, 4096]), st.integers(1, 5000))
SMALL = {"batch", "axis", "groups", "stride", "dilation", "padding", "inputs", "broadcast", "topk", "experts", "heads"}
TYPES = st.sampled_from(["float16", "bfloat16", "float32", "int8", "float8_e4m3"])


def given_for(name: str, annotation: str) -> st.SearchStrategy[Any]:
    """Values of a parameter's kind, most of which make sense."""
    if "dtype" in name:
        return TYPES
    if "shape" in name or "block" in name or "Sequence[int]" in annotation:
        return st.lists(LITTLE, min_size=2, max_size=2).map(tuple)
    if "bool" in annotation:
        return st.booleans()
    if "int" in annotation:
        return st.integers(0, 8) if name in SMALL else LITTLE
    if "float" in annotation:
        return st.floats(0, 10)
    words = {
        "op": ["sum", "softmax", "max"], "structure": ["SR", "RS", "SSR"], "activation": ["gelu", "none"],
        "epilogue": ["bias", "gelu"], "computes": list(SPELT),
    }  # fmt: skip
    return st.sampled_from(words.get(name, ["float16", "none", "uniform", "vllm", ""]))


def odd_for(annotation: str) -> st.SearchStrategy[Any]:
    """Any value, or for a number any of any size."""
    return st.one_of(odd, whole) if "int" in annotation else odd


@st.composite
def arguments(draw: st.DrawFn, function: Callable[..., Any], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """For each parameter without a default, and for some of the others: in a third of the cases all of their kind, in
    another one of them any value, in the rest many."""
    out: dict[str, Any] = {}
    parameters = {
        n: p
        for n, p in inspect.signature(function).parameters.items()
        if n != "self" and p.kind is not p.VAR_POSITIONAL
    }
    noise = draw(st.integers(0, 2))
    for name, p in parameters.items():
        text = str(p.annotation)
        if p.kind is p.VAR_KEYWORD:
            out |= draw(st.dictionaries(st.sampled_from("mnkbrcij"), LITTLE, max_size=5)) if not given else {}
        elif p.default is p.empty or draw(st.integers(0, 4)) == 0:
            strange = noise == 2 and draw(st.integers(0, 2)) == 0
            fit = (given or {}).get(name) or given_for(name, text)
            out[name] = draw(odd_for(text)) if strange else draw(fit)
    if noise == 1 and out:
        name = draw(st.sampled_from(sorted(out)))
        out[name] = draw(odd_for(str(parameters[name].annotation) if name in parameters else "int"))
    return out


@st.composite
def edited(draw: st.DrawFn, base: Callable[[], Any], values: st.SearchStrategy[Any] = plain_odd) -> Any:
    """A document of dicts and lists with up to three values replaced, removed, moved or added."""
    out = copy.deepcopy(base())
    for _ in range(draw(st.integers(0, 3))):
        at: Any = out
        path: list[tuple[Any, Any]] = []
        for _ in range(draw(st.integers(1, 6))):
            keys = list(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            path.append((at, key))
            at = at[key]
        if not path:
            return copy.deepcopy(draw(values))
        parent, key = path[-1]
        match draw(st.integers(0, 5)):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[draw(word)] = parent.pop(key)
            case 2 if isinstance(parent, dict):
                parent[draw(word)] = copy.deepcopy(draw(values))
            case 3 if isinstance(parent, list):
                parent.insert(key, copy.deepcopy(draw(values)))
            case _:
                parent[key] = copy.deepcopy(draw(values))
    return out


@st.composite
def edited_text(draw: st.DrawFn, base: Callable[[], str], values: tuple[str, ...] = LITERALS) -> bytes:
    """A file with up to four lines changed, and now and then bytes that are no text."""
    lines = base().splitlines()
    for _ in range(draw(st.integers(0, 4))):
        i = draw(st.integers(0, len(lines) - 1)) if lines else 0
        match draw(st.integers(0, 5)):
            case 0:
                lines[i : i + 1] = []
            case 1:
                lines.insert(i, draw(st.text(string.printable, max_size=30)))
            case 2:
                lines[i : i + 1] = [*lines[i : i + 1]] * 2
            case _ if lines and "=" in lines[i]:
                lines[i] = f"{lines[i].partition('=')[0]}= {draw(st.sampled_from(values))}"
            case _ if lines:
                cut = draw(st.integers(0, len(lines[i])))
                lines[i] = lines[i][:cut] + draw(st.sampled_from(values)) + lines[i][cut + 1 :]
    out = "\n".join(lines).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(out)))
        out = out[:at] + draw(st.binary(max_size=4)) + out[at + 1 :]
    return out


@dataclass(frozen=True)
class Entry:
    """One entry: what it may be given, the call, which may use a folder of its own, and what is made before the first
    case."""

    name: str
    given: st.SearchStrategy[Any]
    call: Callable[[Any, Path], object]
    ready: Callable[[], object] = dict


def text_of(document: object) -> str:
    """As JSON, with NaN and infinity as Python writes them."""
    return json.dumps(document)


@cache
def matmul() -> carver.Ranking:
    return carver.MatmulTemplate(512, 512, 512).with_arch("h200").recommend_hints(5, "triton")


def templates(drawn: tuple[type, dict[str, Any], str, Any, Any], _: Path) -> object:
    make, given, arch, topk, backend = drawn
    template = make(**given)
    if isinstance(template, carver.Chain):
        return template.recommend_hints(arch, topk), template.fused({}, arch)
    return template.with_arch(arch).recommend_hints(topk, backend)


@st.composite
def template_cases(draw: st.DrawFn) -> Any:
    made = [each.template for each in operators().values()]
    make = draw(st.sampled_from([*made, carver.MoETemplate, carver.GeneralReductionTemplate]))
    strange = draw(st.integers(0, 9)) == 0
    backend = odd if strange else st.sampled_from([None, None, "triton"])
    topk = odd if strange else st.integers(1, 20)
    return make, draw(arguments(make.__init__)), draw(st.sampled_from(ARCHS)), draw(topk), draw(backend)


SPELT = (
    "C[m,n] += A[m,k] * B[k,n]", "Y[r] max= X[r,c]", "O[n,p,f] += I[n,2*p+r,c] * W[r,c,f]", "Y[] += X[i]",
    "Z[i,j] = A[i,j] * B[i,j] + C[j]", "Y[i] = X[i]",
)  # fmt: skip


@st.composite
def statements(draw: st.DrawFn) -> Any:
    text = draw(st.sampled_from(SPELT))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        new = draw(
            st.one_of(
                st.sampled_from([" ", "  ", "[", "]", "+", "*", ",", "=", " " * 3000, "2*", "0*", "m", "max=", "é"]),
                st.text(string.printable, max_size=3),
            )
        )
        text = text[:at] + new + text[at + draw(st.integers(0, 2)) :]
    value = st.one_of(LITTLE, LITTLE, whole, odd) if draw(st.booleans()) else LITTLE
    sizes = draw(st.dictionaries(st.sampled_from("mnkrcpfij"), value, max_size=4))
    return draw(odd) if draw(st.integers(0, 9)) == 0 else text, sizes


def notations(drawn: tuple[Any, dict[str, Any]], _: Path) -> object:
    text, sizes = drawn
    parsed = notation.parse(text)
    known = {axis: sizes.get(axis, 64) for axis in parsed.axes}
    carver.Chain(text, **known)
    return carver.OpTemplate(text, **known).with_arch("h200").recommend_hints(3)


CONFIG = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
FOREIGN = (
    CONFIG, {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8},
    {"tile_shape": [128, 128, 64], "stages": 3}, {"mma_tiler_mn": [128, 128]},
    {"block_sizes": [64, 64, 32], "num_warps": 4, "num_stages": 2, "l2_groupings": [8]},
    {"predicted_ms": 1.0, "rank": 1, "kernel": "triton", **CONFIG},
    {"BLOCK_M": [64, 128], "BLOCK_N": [64], "BLOCK_K": 32},
)  # fmt: skip


@st.composite
def config_cases(draw: st.DrawFn) -> Any:
    def mostly(fit: st.SearchStrategy[Any], *others: st.SearchStrategy[Any]) -> Any:
        return draw(st.one_of(odd, *others)) if draw(st.integers(0, 6)) == 0 else draw(fit)

    one = edited(lambda: draw(st.sampled_from(FOREIGN)), st.one_of(odd, whole, LITTLE))
    configs = mostly(st.lists(one, min_size=1, max_size=3), one)
    backend = mostly(st.sampled_from(["triton", "triton", "triton", "tilelang"]))
    names = mostly(st.none(), st.dictionaries(word, word, max_size=2))
    ignore = mostly(st.just(()), st.lists(word, max_size=2))
    return configs, backend, mostly(st.none(), word), names, ignore, draw(st.sampled_from(ARCHS[:4]))


def rankings(drawn: Any, _: Path) -> object:
    configs, backend, kernel, names, ignore, arch = drawn
    template = carver.MatmulTemplate(500, 512, 512).with_arch(arch)
    found = template.rank(configs, backend, kernel=kernel, names=names, ignore=ignore)
    return found[0], repr(found), found.explain(0)


def hint_json() -> Any:
    return matmul()[0].to_dict()


def own_hint() -> Any:
    """Of a device that is no shipped one: its whole descriptor is in it."""
    arch = carver.load_arch("h200").replace(l2_bytes=1 << 24)
    return carver.MatmulTemplate(64, 64, 64).with_arch(arch).recommend_hints(1, "triton")[0].to_dict()


def hints(drawn: Any, _: Path) -> object:
    text = drawn if isinstance(drawn, bytes) else text_of(drawn)
    hint = carver.Hint.from_json(text)  # type: ignore[arg-type]
    carver.Hint.from_dict(hint.to_dict())
    return hint.explain(), str(hint), hash(hint)


def descriptors(drawn: Any, folder: Path) -> object:
    content, fields = drawn
    path = folder / "device.toml"
    path.write_bytes(content)
    arch = carver.load_arch(path).replace(**fields)
    devices.to_toml(arch)
    return carver.MatmulTemplate(512, 512, 512).with_arch(arch).recommend_hints(3)


@cache
def descriptor(name: str) -> str:
    return devices.to_toml(carver.load_arch(name))


FIELDS = tuple(carver.Arch.__dataclass_fields__)


@st.composite
def descriptor_cases(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(ARCHS))
    return draw(edited_text(lambda: descriptor(name))), draw(st.dictionaries(st.sampled_from(FIELDS), odd, max_size=1))


DECLARED = ("matmul/triton", "matmul/tilelang", "reduction/cuda_rows", "elementwise/triton", "attention/triton")


@cache
def declared(name: str) -> str:
    path = declaration.folder("templates") / f"{name}.toml"
    return path.read_text() if path.is_file() else ""


@st.composite
def declaration_cases(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from([n for n in DECLARED if declared(n)]))
    return name.partition("/")[0], draw(edited_text(lambda: declared(name)))


def declarations(drawn: tuple[str, bytes], folder: Path) -> object:
    operator, content = drawn
    path = folder / "mine.toml"
    path.write_bytes(content)
    kernel = checked(path, operator)
    arch = carver.load_arch("h200" if kernel.device_kind == "gpu" else "cpu_avx2")
    return trial(kernel, example(kernel.operator), arch)


def expressions(text: Any, _: Path) -> object:
    parsed = expr.parse(text)
    scope = {"m": np.array([1, 2, 4096]), "n": 3, "k": np.int64(2**40), "arch": carver.load_arch("h200")}
    return parsed({name: scope.get(name, 5) for name in parsed.names})


@st.composite
def expression_cases(draw: st.DrawFn) -> Any:
    atoms = st.sampled_from(["m", "n", "k", "1", "0", "2", "1.5", "arch.sm_count", "arch.title", "1e308", "2**53", "x"])
    text = draw(atoms)
    for _ in range(draw(st.integers(0, 6))):
        form = draw(
            st.sampled_from(
                [
                    "({0}) + {1}", "({0}) * ({0})", "({0}) // {1}", "({0}) % {1}", "({0})**{1}", "min({0}, {1})",
                    "pow2({0})", "log2({0})", "{1} if {0} else {1}", "not {0}", "ceil({0}, {1})", "({0}) / {1}",
                    "{0}[{1}]", "-({0})", "{0} < {1} < {0}", "{0} and {1}",
                ]
            )
        )
        text = form.format(text, draw(atoms))
    return draw(st.one_of(st.just(text), st.just(text), st.just(text), st.text(max_size=20), odd))


def record() -> Any:
    hint = matmul()[0]
    made = Measurement(
        "run", "candidate", "ok", "matmul", hint.problem.to_dict(), "triton", "triton", dict(hint.config), "h200",
        "NVIDIA H200", "host", predicted_ms=1.0, rounds_ms=((1.0, 1.1), (1.2,)), median_ms=1.1, ci_low_ms=1.0,
        ci_high_ms=1.2, hint=hint.to_dict(), conditions=({"clock": 1.0},), created_at="2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip
    return {"carver_record": 1, **made.to_dict()}


def records(drawn: Any, folder: Path) -> object:
    path = folder / "records.sqlite"
    with Records(path) as db:
        db.import_(line if isinstance(line, str) else text_of(line) for line in drawn)
    asked = [["records", "--database", str(path), *words] for words in (["list"], ["show", ""], ["list", "--json"])]
    return [commands([], [], words) for words in asked], list(tables.read(path, lambda _: None))


TABLE = (
    "operator,arch,backend,M,N,K,in_dtype,config.BLOCK_M,config.BLOCK_N,config.BLOCK_K,config.num_warps,config.num_stages,time_ms,valid\n"
    + "".join(f"matmul,h200,triton,512,512,512,float16,{m},64,32,4,3,{m / 100},1\n" for m in (32, 64, 128))
)
META = {"op": "mm", "gpu": "NVIDIA H200", "dataset": "Tuned configs", "arch": "sm_90", "configs": []}


def confirmed() -> Any:
    hint = matmul()[0]
    rows = [["triton", dict(h.config), 1.0, 1.0 + i, "ok"] for i, h in enumerate(matmul())]
    case = {
        "rows": rows, "library_ms": 1.0, "problem": hint.problem.to_dict(), "arch": "h200", "backend": "triton",
        "kind": "x",
    }  # fmt: skip
    return {"cases": [case], "device": "NVIDIA H200"}


CELLS = ("nan", "inf", "-1", "", "0", "1e999", "x", "99999999999999999999", '"', "\x1b[2J", "float99", "1.5", "64.0")


@st.composite
def table_cases(draw: st.DrawFn) -> Any:
    def cut(text: bytes) -> bytes:
        cells = text.split(b",")
        for _ in range(draw(st.integers(0, 2))):
            cells[draw(st.integers(0, len(cells) - 1))] = draw(st.sampled_from(CELLS)).encode()
        return b",".join(cells)

    csv = edited_text(lambda: TABLE, CELLS).map(cut)
    name, content = draw(
        st.one_of(
            st.tuples(st.just("mine.csv"), csv),
            st.tuples(st.just("mine.csv"), csv),
            st.tuples(
                st.just("confirm.json.gz"), edited(confirmed).map(lambda d: gzip.compress(text_of(d).encode(), 1))
            ),
            st.tuples(st.just("some.meta.json"), edited(lambda: META).map(lambda d: text_of(d).encode())),
            st.tuples(st.just("odd.json.gz"), st.binary(max_size=40)),
            st.tuples(st.just("odd.yaml"), st.binary(max_size=40)),
            st.tuples(st.just("odd.sqlite"), st.binary(max_size=40)),
            st.tuples(
                st.just("E=8,N=64,device_name=NVIDIA_H200.json"),
                edited(
                    lambda: {
                        "1": {
                            "BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1,
                            "num_warps": 4, "num_stages": 3,
                        }
                    }
                ).map(lambda d: text_of(d).encode()),
            ),
        )
    )
    return name, content


def measured(drawn: tuple[str, bytes], folder: Path) -> object:
    name, content = drawn
    (folder / name).write_bytes(content)
    found = list(tables.read_all(folder, lambda _: None))
    return [case.ranked() for case in found if isinstance(case, tables.Case)]


def saved_files() -> tuple[dict[str, Any], dict[str, bytes]]:
    """A tuned result without a kernel, as `AutotuneResult.save` writes it."""
    m = {k: v for k, v in record().items() if k != "carver_record"}
    found = {
        "name": "k", "config": {"a": 1}, "latency_ms": 1.0, "predicted_ms": None, "ref_latency_ms": None,
        "baseline_ms": 2.0, "stopped": "done", "trials": 1, "seconds": 1.0, "notes": [], "key": "k",
        "env": {"device": "cpu"}, "table": [m],
    }  # fmt: skip
    return found, {}


def saved(drawn: tuple[Any, bool], folder: Path) -> object:
    document, sealed = drawn
    home = folder / "tuned"
    if sealed and isinstance(document, dict):
        tuned.write(home, document, {})
    else:
        home.write_text(text_of(document))
    found = carver.AutotuneResult.load(home)
    return str(found), found.summary(), found.failures, found.speedup


WORDS = (
    "recommend", "rank", "explain", "records", "evaluate", "export", "portfolio", "check", "archs", "arch", "cache",
    "list", "show", "prune", "import", "matmul", "reduction", "elementwise", "op", "sum", "softmax", "64", "128",
    "4096", "0", "-5", "1e9", "nan", "inf", "--arch", "h200", "auto", "--json", "--topk", "-k", "--backend", "triton",
    "--configs", "FILE", "--dtype", "float16", "--over", "m=1:64", "m=1", "--uniform", "--older-than", "1e300",
    "--database", "hint", "vllm-moe", "--kernel", "-o", "/dev/full", "--name", "A=B", "inspect", "--args",
    "--config", "BLOCK_M=1", "--many", "-", "C[m,n] += A[m,k] * B[k,n]", "n=4", "k=8", "\x1b[31m", "", "--batches",
    "1,2", "--experts", "8", "--toml", "--inputs", "--broadcast", "csv", "json", "doctor", "--since",
)  # fmt: skip
FORMS = (
    ("recommend", "matmul", "64", "64", "64", "--arch", "h200"),
    ("rank", "matmul", "64", "64", "64", "--arch", "h200", "--configs", "FILE"), ("explain", "hint", "FILE"),
    ("check", "FILE", "--operator", "matmul"), ("evaluate", "FILE", "--workers", "1"),
    ("records", "--database", "FILE", "list"), ("records", "import", "FILE"),
    ("recommend", "--many", "FILE", "--arch", "h200"), ("arch", "show", "FILE"), ("cache", "list"),
    ("portfolio", "matmul", "64", "64", "64", "--arch", "h200", "--over", "m=1:9"),
    ("records", "prune", "--older-than", "3"), ("export", "triton", "matmul", "64", "64", "64", "--arch", "h200"),
    ("archs", "a100"), ("inspect", "FILE", "--args", "FILE", "--arch", "h200"),
    ("explain", "matmul", "64", "64", "64", "--arch", "h200"),
    ("recommend", "elementwise", "64", "64", "--arch", "h200", "--inputs", "2"), ("calibrate", "--from", "FILE"),
)  # fmt: skip
CONTENTS = (
    lambda: json.dumps(hint_json()), lambda: json.dumps([CONFIG]), lambda: TABLE, lambda: descriptor("h200"),
    lambda: declared("matmul/triton"), lambda: json.dumps(record()), lambda: "M,N,K\n64,64,64\n", lambda: "",
    lambda: "[args]\nM = 4096\na = {dtype = 'float16', shape = [4, 4]}\n[constants]\nB = 8\n",
)  # fmt: skip
NEVER = {"bench", "calibrate", "doctor", "bench-query"}
"""Commands that would measure something."""


spoken = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
"""Arguments that a system can hand to a program."""


@st.composite
def command_cases(draw: st.DrawFn) -> Any:
    words = list(draw(st.sampled_from(FORMS)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(words)))
        new = draw(st.one_of(st.sampled_from(WORDS), st.sampled_from(WORDS), spoken))
        words[at : at + draw(st.integers(0, 1))] = [new]
    content = draw(edited_text(draw(st.sampled_from(CONTENTS))))
    return words, content


def commands(_: Any, content: Any, words: list[str]) -> object:
    """The program with these words; what it ends with is an exit code of its own."""
    if (words and words[0] in NEVER and words[:2] != ["calibrate", "--from"]) or "cuda" in words:
        return None
    done = CliRunner().invoke(main, words, input=content or b"")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code not in (0, 1, 2):
        raise AssertionError(f"exit code {done.exit_code}: {done.output[-300:]}")
    if "\x1b[2J" in done.output or "\x07" in done.output:
        raise AssertionError(f"escape sequences on the terminal: {done.output[-300:]!r}")
    return done.exit_code


def command_line(drawn: tuple[list[str], bytes], folder: Path) -> object:
    words, content = drawn
    (folder / "given.toml").write_bytes(content)
    (folder / "given.csv").write_bytes(content)
    named = "given.csv" if "evaluate" in words or "--from" in words else "given.toml"
    with chdir(folder):
        return commands(None, content, [named if word == "FILE" else word for word in words])


def problems(drawn: Any, _: Path) -> object:
    problem = Problem.from_dict(drawn)
    return (
        str(problem),
        problem.flops,
        problem.compulsory_bytes,
        carver.ops.operator.Template(problem).with_arch("a100").recommend_hints(2),
    )


def texts(drawn: tuple[str, bytes], _: Path) -> object:
    """Files of configurations and of problems."""
    text = drawn[1].decode("utf-8", "replace")
    if drawn[0] == "configs":
        return carver.MatmulTemplate(64, 64, 64).with_arch("h200").rank(read_configs(text))
    return carver.recommend_many(read_problems(text), "h200", 2)


@st.composite
def text_cases(draw: st.DrawFn) -> Any:
    base = draw(
        st.sampled_from(
            [
                "M,N,K,in_dtype\n64,64,64,float16\n8,8,8,int8\n", json.dumps([CONFIG, CONFIG]),
                json.dumps({"M": 64, "N": 64, "K": 64}), json.dumps(CONFIG) + "\n" + json.dumps(CONFIG),
                "BLOCK_M,BLOCK_N,BLOCK_K,num_warps,num_stages\n64,64,32,4,3\n", "[" * 2000,
            ]
        )
    )
    return draw(st.sampled_from(["configs", "problems"])), draw(edited_text(lambda: base, CELLS + LITERALS))


EXPORTS: Mapping[str, Callable[..., object]] = {
    f"{module.__name__}.{name}": function
    for module in (plain, triton, tilelang, cutlass, helion, inductor, kernel_tuner, optuna, vllm)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and hasattr(function, "__wrapped__")
}
"""What carver.export has for users: functions whose arguments are checked."""


@st.composite
def export_cases(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(sorted(EXPORTS)))
    fitting: Mapping[str, st.SearchStrategy[Any]] = {
        "hints": st.just("HINTS"), "hint": st.just("HINT"), "arch": st.just("ARCH"), "problem": st.just("PROBLEM"),
        "names": st.one_of(st.none(), st.dictionaries(word, word, max_size=2)), "template": st.just("TEMPLATE"),
        "ranking": st.just("HINTS"), "problems": st.just(["PROBLEM"]),
    }  # fmt: skip
    return name, draw(arguments(EXPORTS[name], fitting))


def exports(drawn: tuple[str, dict[str, Any]], _: Path) -> object:
    name, given = drawn
    stand = {
        "HINTS": matmul(), "HINT": matmul()[0], "ARCH": carver.load_arch("h200"), "PROBLEM": matmul().problem,
        "TEMPLATE": carver.MatmulTemplate(64, 64, 64).with_arch("h200"),
    }  # fmt: skip
    made = {
        k: stand.get(v, v) if isinstance(v, str) else [stand["PROBLEM"]] if repr(v) == "['PROBLEM']" else v
        for k, v in given.items()
    }
    return EXPORTS[name](**made)


@st.composite
def portfolio_cases(draw: st.DrawFn) -> Any:
    sizes = st.one_of(
        st.lists(whole, max_size=4), st.just(range(1, 64)), st.dictionaries(whole, st.floats(), max_size=3)
    )
    axis = st.one_of(st.sampled_from("MNKmnb"), word.filter(lambda text: text not in ("k", "backend", "self")))
    strange = draw(st.integers(0, 3)) == 0
    return (
        draw(odd if strange else st.integers(1, 4)),
        draw(axis if strange else st.sampled_from("MNmn")),
        draw(st.one_of(sizes, odd) if strange else sizes),
        draw(st.one_of(st.none(), odd) if strange else st.none()),
    )


def portfolios(drawn: Any, _: Path) -> object:
    k, axis, sizes, backend = drawn
    found = carver.MatmulTemplate(64, 64, 64).with_arch("h200").portfolio(k, backend, **{axis: sizes})
    return repr(found), found.to_json(), found.to_python()


class Recorded:
    """In the place of compilers: one reply to whatever is asked."""

    processes = 1

    def __init__(self, kernel: Any, config: Mapping[str, Any], args: Mapping[str, Any]) -> None:
        arch = carver.load_arch("h200")
        copies = compilers({0: candidate(kernel, config, args, (1,), arch)}, arch)
        [(_, self.reply)] = copies.replies({"": request(0)})

    def replies(self, requests: Mapping[str, Any], seconds: float = 0) -> Iterator[tuple[str, Any]]:
        for key, given in requests.items():
            yield key, json.loads(json.dumps(read(given), default=vars)) if "codes" in given else dict(self.reply)


def square(size: int) -> dict[str, Any]:
    tensors = {name: carver.Tensor("float16", (size, size)) for name in ("a_ptr", "b_ptr", "c_ptr")}
    return {**tensors, "M": size, "N": size, "K": size}


CALLS: Mapping[str, tuple[Mapping[str, Any], Callable[[], Mapping[str, Any]]]] = {
    "copy": (
        {"BLOCK": 512, "num_warps": 4},
        lambda: {"x_ptr": carver.Tensor("float16", (4096,)), "y_ptr": carver.Tensor("float16", (4096,)), "n": 4096},
    ),
    "matmul": ({"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "num_stages": 3}, lambda: square(1024)),
}
"""Kernels that are compiled once, for one configuration and arguments of these types."""


@cache
def compiled_once(name: str) -> Recorded:
    import compiled_kernels as kernels

    config, args = CALLS[name]
    return Recorded(getattr(kernels, name), config, args())


@st.composite
def kernel_cases(draw: st.DrawFn) -> Any:
    """Arguments of `rank_kernel`: in half of the cases what can be, with any sizes; in the others what cannot."""
    tensor = st.one_of(st.builds(lambda d, s: ("tensor", d, s), odd, odd), odd)
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(CALLS)))
        args = {
            key: ("float16", tuple(draw(st.lists(whole, min_size=1, max_size=3)))) if hasattr(value, "dtype")
            else draw(whole)
            for key, value in CALLS[name][1]().items() if draw(st.integers(0, 2))
        }  # fmt: skip
        return name, args, draw(st.lists(st.integers(0, 2**20), min_size=1, max_size=3))
    what = draw(st.sampled_from(["kernel", "configs", "args", "grid", "constants", "tensor"]))
    return what, draw(st.one_of(odd, tensor)), draw(st.dictionaries(word, odd, max_size=2))


def compiled_kernels(drawn: Any, _: Path) -> object:
    what, value, more = drawn
    arch = carver.load_arch("h200")
    if what in CALLS:
        import compiled_kernels as kernels

        config, args = CALLS[what]
        given = {k: carver.Tensor(*v) if isinstance(v, tuple) else v for k, v in value.items()}
        found = rank_kernel(
            getattr(kernels, what), [config], args=args() | given, grid=tuple(more), arch=arch,
            pool=compiled_once(what),
        )  # fmt: skip
        return found.explain(), found.to_json(), repr(found)
    if what == "tensor" or (isinstance(value, tuple) and value[:1] == ("tensor",)):
        _, dtype, shape = value if isinstance(value, tuple) and len(value) == 3 else ("", value, value)
        return carver.Tensor(dtype, shape), carver.Descriptor(carver.Tensor("float16", (4, 4)), shape)
    odd_call: dict[str, Any] = {
        "kernel": Odd(), "configs": [{"num_warps": 4}], "args": {}, "grid": (1,), "constants": None,
    }  # fmt: skip
    odd_call |= {what: value}
    if what == "args":
        odd_call["args"] = more
    return rank_kernel(odd_call.pop("kernel"), odd_call.pop("configs"), arch=arch, **odd_call)


@cache
def facts() -> dict[str, Any]:
    """What is kept on disk of one configuration."""
    from compiled_kernels import matmul

    config, args = CALLS["matmul"]
    arch = carver.load_arch("h200")
    one = candidate(matmul, config, args(), (256,), arch)
    [made] = facts_of({0: one}, arch, copies=compiled_once("matmul"))
    pool.save_facts("ab" * 20, made, pool.Used({}))  # type: ignore[arg-type]
    found = pool.load("ab" * 20)
    assert found is not None
    return found


def kept_facts(drawn: Any, _: Path) -> object:
    """Facts as they are kept, edited; whoever can write them can write their hash as well."""
    if isinstance(drawn, bytes):
        base_store.put(pool.KIND, "ab" * 20, drawn)
    elif isinstance(drawn, dict):
        pool.save("ab" * 20, drawn)
    found = pool.load_facts(["ab" * 20], {})
    return found and price_compiled(list(found.values()), carver.load_arch("h200"))


@cache
def profile() -> dict[str, Any]:
    ranking = matmul()
    return ranking.learn({ranking[0]: 0.1, ranking[1]: 0.2, ranking[2]: None}).profile


def profiles(drawn: Any, folder: Path) -> object:
    """A profile as a value and as a file, given to a ranking."""
    (folder / "profile.json").write_text(text_of(drawn))
    template = carver.MatmulTemplate(256, 512, 512).with_arch("h200")
    hints = template.recommend_hints(2, "triton", profile=folder / "profile.json")
    return template.recommend_hints(2, "triton", profile=drawn), hints.profile, hints.explain(0)


@cache
def exported() -> bytes:
    """An archive of a tuned result and a profile."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARVER_CACHE_DIR", str(Path(folder, "cache")))
        tuned.save("k", saved_files()[0] | {"key": "k"}, {"kernel.py": b"pass"})
        base_store.put(profiles_kind, "k", text_of(profile()).encode())
        archive.export_archive(Path(folder, "a"))
        return Path(folder, "a").read_bytes()


@st.composite
def archive_cases(draw: st.DrawFn) -> bytes:
    """Archives with entries changed, renamed, added or left out, and with bytes of the database changed or cut."""
    rows = {row[:2]: row.body for row in base_store.packed(exported(), "it", 1 << 16, 1 << 30)}
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(rows)))
        match draw(st.integers(0, 3)):
            case 0:
                del rows[name]
            case 1:
                rows[draw(NAMES)] = rows.pop(name)
            case 2:
                rows[name] = draw(edited_text(lambda name=name: rows[name].decode("utf-8", "replace")))  # type: ignore[misc]
            case _:
                rows[draw(NAMES)] = draw(st.binary(max_size=20))
        if not rows:
            break
    content = bytearray(base_store.pack(base_store.Row(*name, body) for name, body in rows.items()))
    for _ in range(draw(st.integers(0, 6)) if draw(st.booleans()) else 0):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))] if draw(st.integers(0, 4)) == 0 else content)


NAMES = st.tuples(
    st.sampled_from([*archive.ARCHIVED, "measurement", ""]),
    st.one_of(
        st.sampled_from(["../out", "/tmp/out", "k", "k/kernel.py", "k/../../../out", "..", "", "x" * 300, "C:x.so"]),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    ),
)


def archives(drawn: bytes, folder: Path) -> object:
    path = folder / "a"
    path.write_bytes(drawn)
    before = {p.name for p in folder.parent.iterdir()}
    try:
        found = archive.import_archive(path, replace=True)
    finally:
        assert not Path("/tmp/out").exists() and "out" not in {p.name for p in folder.parent.iterdir()} - before
    return found, list(tuned.entries()), list(every_profile())


def tunings(drawn: dict[str, Any], _: Path) -> object:
    made = Tuning.of(drawn)
    return made.settings(), made.checker()


ENTRIES = {
    entry.name: entry
    for entry in (
        Entry("templates", template_cases(), templates),
        Entry("notation", statements(), notations),
        Entry("rank", config_cases(), rankings),
        Entry(
            "hints",
            st.one_of(edited(hint_json), edited(own_hint), edited_text(lambda: json.dumps(hint_json(), indent=1))),
            hints,
        ),
        Entry("descriptors", descriptor_cases(), descriptors),
        Entry("declarations", declaration_cases(), declarations),
        Entry("expressions", expression_cases(), expressions),
        Entry("problems", st.one_of(edited(matmul().problem.to_dict, odd), odd), problems),
        Entry("records", st.lists(st.one_of(edited(record), st.text(max_size=10)), min_size=1, max_size=2), records),
        Entry("tables", table_cases(), measured),
        Entry("saved results", st.tuples(edited(lambda: saved_files()[0]), st.booleans()), saved),
        Entry("command line", command_cases(), command_line),
        Entry("texts", text_cases(), texts),
        Entry("exports", export_cases(), exports),
        Entry("portfolios", portfolio_cases(), portfolios),
        Entry("settings", arguments(Tuning), tunings),
        Entry("rank_kernel", kernel_cases(), compiled_kernels, lambda: [compiled_once(name) for name in CALLS]),
        Entry("kept facts", st.one_of(edited(facts), edited_text(lambda: "{}")), kept_facts, facts),
        Entry("profiles", edited(profile), profiles),
        Entry("archives", archive_cases(), archives),
    )
}


def run(entry: Entry, case: Any) -> bool:
    """Whether a case ends with a result, and not with a CarverError; whatever else it raises is its failure."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            entry.call(case, Path(folder))
        except CarverError:
            return False
    return True


def fresh_home(folder: Path) -> None:
    """Cache, settings and records of these cases."""
    os.environ |= {"CARVER_CACHE_DIR": str(folder / "cache"), "CARVER_CONFIG_DIR": str(folder / "config")}
