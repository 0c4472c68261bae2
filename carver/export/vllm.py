"""Configuration files of vLLM and SGLang for Triton kernels: fused mixture-of-experts layers, block-scaled fp8 matmuls.

Both look a file up by device and sizes and, in it, the number of tokens nearest to the batch. Neither has a file for a
device that nobody has tuned, and then uses one default for all. The files are written from the ranking alone.
Source: vLLM, fused_moe/configs/README and get_config_file_name; SGLang, the functions of the same names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates, ProblemError
from ..kernels.foreign import from_triton
from ..ops.matmul import MatmulTemplate
from ..problem.problem import Problem, counted
from ..ranking.rank import rank
from . import unsplit

from_config = from_triton

__all__ = ["BATCHES", "DTYPES", "ConfigFile", "block_fp8", "from_config", "moe"]

BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)
"""Tokens of a batch that the projects' own tuning scripts cover."""
GROUPS = (1, 8, 16, 32, 64)
"""Values of GROUP_SIZE_M in use."""
_CONSIDERED = 64
"""Candidates that each matmul of a layer contributes."""
_KEYS = {"BLOCK_M": "BLOCK_SIZE_M", "BLOCK_N": "BLOCK_SIZE_N", "BLOCK_K": "BLOCK_SIZE_K", "GROUP_M": "GROUP_SIZE_M",
         "num_warps": "num_warps", "num_stages": "num_stages"}  # fmt: skip
DTYPES = {
    "": ("bfloat16", "bfloat16"), "fp8_w8a8": ("float8_e4m3", "float8_e4m3"), "int8_w8a16": ("bfloat16", "int8"),
    "int8_w8a8": ("int8", "int8"),
}  # fmt: skip
"""Element types of activations and weights by the `dtype=` part of a file's name; without one, 16 bits."""


@dataclass(frozen=True)
class ConfigFile:
    """One file: its name and what is in it, a configuration by number of tokens."""

    name: str
    configs: Mapping[int, Mapping[str, int]]
    predicted_ms: Mapping[int, float]

    def to_json(self) -> str:
        return json.dumps({str(m): dict(config) for m, config in self.configs.items()}, indent=4) + "\n"


def moe(
    arch: Arch, experts: int, topk: int, hidden: int, intermediate: int, dtype: str = "",
    block_shape: tuple[int, int] | None = None, batches: Sequence[int] = BATCHES, device_name: str = "",
    project: str = "vllm",
) -> ConfigFile:  # fmt: skip
    """The file of a gated mixture-of-experts layer with `experts` experts on this device, `topk` of them a token.

    `intermediate` is the width of one expert after it was split over GPUs, the N of the file's name. Of M tokens each
    expert that has any gets `tokens`; both matmuls of the layer run with one configuration:

        active = experts (1 - (1 - topk / experts)^M)      tokens = M topk / active
        time   = matmul(tokens x 2N x hidden) + matmul(tokens x hidden x N), active of each
    """
    _positive(experts=experts, topk=topk, hidden=hidden, intermediate=intermediate)
    if topk > experts:
        raise ProblemError(f"a token cannot go to topk={topk} of {experts} experts")
    types, shape = _types(dtype, arch), _block_shape(dtype, block_shape)
    backend = "triton_block_fp8" if shape else "triton"

    def layer(batch: int) -> list[Problem]:
        active = experts * (1.0 - (1.0 - topk / experts) ** batch)
        count = max(1, round(active))
        tokens = max(1, round(batch * topk / active))
        return [_matmul(tokens, n, k, types, count) for n, k in ((2 * intermediate, hidden), (hidden, intermediate))]

    name = f"E={experts},N={intermediate},device_name={_device(arch, device_name)}"
    return _file(name + _suffix(dtype, shape, project), arch, {m: layer(m) for m in batches}, backend, shape)


def block_fp8(
    arch: Arch, n: int, k: int, block_shape: tuple[int, int] = (128, 128), batches: Sequence[int] = BATCHES,
    device_name: str = "", project: str = "vllm",
) -> ConfigFile:  # fmt: skip
    """The file of a linear layer of N x K weights in fp8 with one scale a block: C[m,n] = A[m,k] B[n,k]."""
    _positive(n=n, k=k)
    shape = _block_shape("fp8_w8a8", block_shape)
    name = f"N={n},K={k},device_name={_device(arch, device_name)}{_suffix('fp8_w8a8', shape, project)}"
    problems = {m: [_matmul(m, n, k, _types("fp8_w8a8", arch), 1)] for m in batches}
    return _file(name, arch, problems, "triton_block_fp8", shape)


def _file(
    name: str, arch: Arch, layers: Mapping[int, Sequence[Problem]], backend: str, shape: tuple[int, int] | None
) -> ConfigFile:
    configs: dict[int, Mapping[str, int]] = {}
    predicted: dict[int, float] = {}
    if not layers or min(layers) < 1:
        raise ProblemError(f"batches are whole numbers of at least 1, got {sorted(layers)}")
    for batch, problems in sorted(layers.items()):
        union: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
        for problem in problems:
            for hint in unsplit(problem, arch, _CONSIDERED, backend):
                if shape is None or shape[1] % hint.config["BLOCK_K"] == 0:
                    base = {key: value for key, value in hint.config.items() if key != "SPLIT_K"}
                    rows = -(-problem.sizes["m"] // base["BLOCK_M"])
                    for group in GROUPS if rows > 1 else GROUPS[:1]:
                        config = base | {"GROUP_M": group}
                        union[tuple(config.items())] = config
        candidates = list(union.values())
        if not candidates:
            raise NoCandidates(f"{problems[0]} in blocks of scales {shape} on {arch.name}", {})
        seconds = sum(_seconds(problem, arch, candidates, backend) for problem in problems)
        best = int(np.argmin(seconds))
        configs[batch] = {theirs: candidates[best][ours] for ours, theirs in _KEYS.items()}
        predicted[batch] = float(np.asarray(seconds)[best]) * 1e3
    return ConfigFile(name, configs, predicted)


def _seconds(problem: Problem, arch: Arch, candidates: Sequence[Mapping[str, int]], backend: str) -> Any:
    ranking = rank(problem, arch, candidates, backend)
    out = np.full(len(candidates), np.inf)
    out[ranking.indices] = ranking.seconds
    return out


def _matmul(m: int, n: int, k: int, types: tuple[str, str], batch: int) -> Problem:
    op = MatmulTemplate(m, n, k, batch, trans_B=True, in_dtype=types[0], b_dtype=types[1], out_dtype="bfloat16")
    return op.problem


def _types(dtype: str, arch: Arch) -> tuple[str, str]:
    if dtype not in DTYPES:
        raise ConfigError(f"dtype is one of {', '.join(map(repr, DTYPES))}, got {dtype!r}")
    if dtype == "fp8_w8a8" and arch.matrix_unit(DTYPES[dtype][0]) is None:
        raise ConfigError(f"{arch.title} multiplies no 8-bit floats, and Triton compiles no kernel of them for it")
    return DTYPES[dtype]


def _block_shape(dtype: str, block_shape: tuple[int, int] | None) -> tuple[int, int] | None:
    if block_shape is None:
        return None
    if dtype != "fp8_w8a8" or len(block_shape) != 2 or min(block_shape) < 1 or 128 % block_shape[1]:
        raise ConfigError(f"block scales belong to fp8_w8a8 and are at most 128 deep, got {block_shape} with {dtype!r}")
    return block_shape[0], block_shape[1]


def _suffix(dtype: str, shape: tuple[int, int] | None, project: str) -> str:
    """SGLang leaves the space in the block shape, vLLM takes it out."""
    if project not in ("vllm", "sglang"):
        raise ConfigError(f"project is vllm or sglang, got {project!r}")
    comma = ", " if project == "sglang" else ","
    blocks = f",block_shape=[{shape[0]}{comma}{shape[1]}]" if shape else ""
    return (f",dtype={dtype}" if dtype else "") + blocks + ".json"


def _device(arch: Arch, device_name: str) -> str:
    """As the driver prints it, with underscores."""
    name = device_name or (arch.device_names[0] if arch.device_names else "")
    if not name:
        raise ConfigError(f"{arch.name} has no name that a driver prints; say which with device_name")
    return name.replace(" ", "_")


def _positive(**sizes: int) -> None:
    for name, value in sizes.items():
        counted(name, value, 1)
