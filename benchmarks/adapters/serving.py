"""Tuned files of vLLM, SGLang and LightLLM for Triton's block-scaled linear layers and fused mixtures of experts.

`N=7168,K=2048,device_name=NVIDIA_H20,dtype=fp8_w8a8,block_shape=[128, 128].json` holds, by the number of tokens M, the
configuration of C[m,n] = A[m,k] B[n,k]. Linear layers without a block shape are of other kernels and passed over.

`E=8,N=14336,device_name=NVIDIA_H200,dtype=int4_w4a16.json` is of both matmuls of a mixture, of which the first, the
larger one, is ranked. How wide a token is and how many experts it goes to the name does not say: `layers.json` in the
folder may, as `{"E=8,N=14336": {"hidden": 4096, "topk": 2, "group_size": 128}}`, with `intermediate` where N is another
number. Others are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from carver.arch.descriptor import Arch
from carver.arch.devices import match
from carver.base.errors import ConfigError, ProblemError
from carver.base.given import json_of, text_of
from carver.calibrate.tables import tunables
from carver.export.vllm import DTYPES, KEYS
from carver.ops.grouped_matmul import MoETemplate
from carver.ops.matmul import MatmulTemplate
from carver.problem.problem import Problem

from .winners import Row, Winner, sorted_out
from .words import read_csv

_NAME = re.compile(
    r"(?:E=(?P<E>\d+),)?N=(?P<N>\d+),(?:K=(?P<K>\d+),)?device_name=(?P<device>[^,]+?)(?:,dtype=(?P<dtype>[^,]+?))?"
    r"(?:,per_channel_quant=\w+)?(?:,block_shape=\[(?P<block_shape>[\d, ]+)\])?(?:_down)?\.json"
)
_TYPES = {"fp8": "float8_e4m3", "fp8_w8a8": "float8_e4m3", "int8_w8a8": "int8"}
WORDS = {**KEYS, "matrix_instr_nonkdim": "matrix_instr_nonkdim"}
BLOCK = (128, 128)
"""Elements along N and K that share a scale."""
LAYERS = "layers.json"


def is_tuned_file(path: Path) -> bool:
    return _NAME.fullmatch(path.name) is not None


def folder(path: Path, name: str) -> Iterator[Winner | str]:
    """All tuned files of one folder, as one list."""
    rows: list[dict[str, Any]] = []
    more = path / LAYERS
    layers = json_of(text_of(more, ConfigError), LAYERS, ConfigError) if more.is_file() else {}
    if not isinstance(layers, Mapping) or not all(isinstance(layer, Mapping) for layer in layers.values()):
        raise ConfigError(f"{LAYERS} is no object of layers by E and N")
    for file in sorted(path.glob("*.json")):
        if named := _NAME.fullmatch(file.name):
            facts = {key: value for key, value in named.groupdict().items() if value}
            facts |= layers.get(f"E={facts.get('E')},N={facts['N']}", {})
            found = json_of(text_of(file, ConfigError), file.name, ConfigError)
            if not isinstance(found, Mapping):
                raise ConfigError(f"{file.name} is no object of configurations by number of tokens")
            rows += [
                facts | {"M": m} | {key.lower(): value for key, value in config.items()}
                for m, config in found.items()
                if m.isdigit() and isinstance(config, Mapping)
            ]
    yield from sorted_out(name, rows, _row)


def table(path: Path, name: str, facts: Mapping[str, Any]) -> Iterator[Winner | str]:
    """The same from a CSV with a row a winner: device, dtype, block_shape, E, N, K, M and the configuration; of
    mixtures also what `layers.json` says."""
    yield from sorted_out(name, read_csv(path, name), _row)


def _row(row: Mapping[str, Any]) -> Row | str:
    shape = tuple(int(n) for n in re.findall(r"\d+", str(row.get("block_shape", ""))))
    if row.get("E"):
        if not (row.get("hidden") and row.get("topk")):
            return f"fused mixtures of experts of which {LAYERS} says no hidden and topk"
    elif "K" not in row or shape != BLOCK or row.get("dtype") not in _TYPES:
        return f"no scales in blocks of {BLOCK[0]} x {BLOCK[1]}"
    if "block_size_m" not in row or "num_warps" not in row:
        return "no tile in them"
    arch = match(str(row["device"]).replace("_", " "))
    if arch is None:
        return f"no descriptor for {row['device']}"
    words = {ours: row[key] for ours, theirs in WORDS.items() if (key := theirs.lower()) in row}
    words["num_stages"] = max(int(words.get("num_stages", 2)), 1)  # Triton on AMD called one stage 0 once
    kind, problem, backend = _experts(row, shape, arch) if row.get("E") else _linear(row, arch)
    (config,), _ = tunables([words], problem.operator, backend)
    return Row(kind, problem, arch, backend, config)


def _linear(row: Mapping[str, Any], arch: Arch) -> tuple[str, Problem, str]:
    """The type of its operands, the layer, and the backend of its kernel."""
    m, n, k = (int(row[name]) for name in "MNK")
    kind = arch.own_float8(_TYPES[row["dtype"]])
    return kind, MatmulTemplate(m, n, k, trans_B=True, in_dtype=kind, out_dtype="bfloat16").problem, "triton_block_fp8"


def _experts(row: Mapping[str, Any], shape: tuple[int, ...], arch: Arch) -> tuple[str, Problem, str]:
    """The same of the first matmul of a mixture."""
    if (kind := row.get("dtype") or "") not in DTYPES:
        raise ProblemError(f"dtype is one of {', '.join(map(repr, DTYPES))}, got {kind!r}")
    tokens, experts, topk, hidden = (int(row[name]) for name in ("M", "E", "topk", "hidden"))
    activations, weights = map(arch.own_float8, DTYPES[kind])
    scaled = shape or ((1, int(row["group_size"])) if row.get("group_size") else None)
    width = int(row.get("intermediate") or row["N"])
    layer = MoETemplate(tokens, experts, topk, hidden, width, activations, scaled, weight_dtype=weights)
    return kind, layer.up.problem, "triton"
