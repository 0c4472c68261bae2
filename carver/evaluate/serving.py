"""Tuned files of vLLM, SGLang and LightLLM for Triton's block-scaled linear layers: one JSON a layer and device.

`N=7168,K=2048,device_name=NVIDIA_H20,dtype=fp8_w8a8,block_shape=[128, 128].json` holds, by the number of tokens M, the
configuration of C[m,n] = A[m,k] B[n,k]. Files of fused mixtures of experts do not say how wide a token is, and those
without a block shape are of other kernels: both are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..arch.devices import match
from ..base.errors import ConfigError
from ..base.given import json_of, text_of
from ..export.vllm import KEYS
from ..ops.matmul import MatmulTemplate
from .cases import read_csv, tunables
from .winners import Row, Winner, sorted_out

_NAME = re.compile(
    r"(?:E=(?P<E>\d+),)?N=(?P<N>\d+),(?:K=(?P<K>\d+),)?device_name=(?P<device>[^,]+?)(?:,dtype=(?P<dtype>[^,]+?))?"
    r"(?:,per_channel_quant=\w+)?(?:,block_shape=\[(?P<block_shape>[\d, ]+)\])?(?:_down)?\.json"
)
_TYPES = {"fp8": "float8_e4m3", "fp8_w8a8": "float8_e4m3", "int8_w8a8": "int8"}
WORDS = {**KEYS, "matrix_instr_nonkdim": "matrix_instr_nonkdim"}
BLOCK = (128, 128)
"""Elements along N and K that share a scale."""


def is_tuned_file(path: Path) -> bool:
    return _NAME.fullmatch(path.name) is not None


def folder(path: Path, name: str) -> Iterator[Winner | str]:
    """All tuned files of one folder, as one list."""
    rows: list[dict[str, Any]] = []
    for file in sorted(path.glob("*.json")):
        if named := _NAME.fullmatch(file.name):
            facts = {key: value for key, value in named.groupdict().items() if value}
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
    """The same from a CSV with a row a winner: device, dtype, block_shape, E, N, K, M and the configuration."""
    yield from sorted_out(name, read_csv(path, name), _row)


def _row(row: Mapping[str, Any]) -> Row | str:
    shape = tuple(int(n) for n in re.findall(r"\d+", str(row.get("block_shape", ""))))
    if row.get("E"):
        return "fused mixtures of experts, whose files name no hidden size"
    if "K" not in row or shape != BLOCK or row.get("dtype") not in _TYPES:
        return f"no scales in blocks of {BLOCK[0]} x {BLOCK[1]}"
    if "block_size_m" not in row or "num_warps" not in row:
        return "no tile in them"
    arch = match(str(row["device"]).replace("_", " "))
    if arch is None:
        return f"no descriptor for {row['device']}"
    kind = _TYPES[row["dtype"]]
    m, n, k = (int(row[name]) for name in "MNK")
    problem = MatmulTemplate(m, n, k, trans_B=True, in_dtype=kind, out_dtype="bfloat16").problem
    words = {ours: row[key] for ours, theirs in WORDS.items() if (key := theirs.lower()) in row}
    words["num_stages"] = max(int(words.get("num_stages", 2)), 1)  # Triton on AMD called one stage 0 once
    (config,), _ = tunables([words], "matmul", "triton_block_fp8")
    return Row(kind, problem, arch, "triton_block_fp8", config)
