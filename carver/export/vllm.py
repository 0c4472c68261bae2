"""Configuration files of vLLM and SGLang for Triton kernels: fused mixture-of-experts layers, block-scaled fp8 matmuls.

Both look a file up by device and sizes and, in it, the number of tokens nearest to the batch. Neither has a file for a
device that nobody has tuned, and then uses one default for all. The files are written from the ranking alone.
Source: vLLM, fused_moe/configs/README and get_config_file_name; SGLang, the functions of the same names.

What a model's `config.json` says of its layers is read too: names of the keys are those of the models that both serve.
Of the linear layers a column-parallel one is split over the devices along N, a row-parallel one along K (Megatron-LM,
arXiv 1909.08053).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, ProblemError
from ..base.given import takes
from ..base.types import Record
from ..kernels.backends import from_triton
from ..ops.grouped_matmul import CONSIDERED, MoETemplate
from ..ops.matmul import MatmulTemplate
from ..ops.operator import recommend_many
from ..problem.problem import counted
from ..ranking.hint import Hint

from_config = from_triton

__all__ = [
    "BATCHES", "DTYPES", "KEYS", "ConfigFile", "block_fp8", "block_of", "from_config", "has_experts", "layer_of",
    "linears_of", "moe",
]  # fmt: skip

BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)
"""Tokens of a batch that the projects' own tuning scripts cover."""
KEYS = {"BLOCK_M": "BLOCK_SIZE_M", "BLOCK_N": "BLOCK_SIZE_N", "BLOCK_K": "BLOCK_SIZE_K", "GROUP_M": "GROUP_SIZE_M",
        "num_warps": "num_warps", "num_stages": "num_stages"}  # fmt: skip
"""carver's keys, and what the files call them."""
DTYPES = {
    "": ("bfloat16", "bfloat16"), "fp8_w8a8": ("float8_e4m3", "float8_e4m3"), "int8_w8a16": ("bfloat16", "int8"),
    "int8_w8a8": ("int8", "int8"), "int4_w4a16": ("bfloat16", "int4"),
}  # fmt: skip
"""Element types of activations and weights by the `dtype=` part of a file's name; without one, 16 bits."""
IN_GROUPS = ("int4_w4a16", "int8_w8a16")
"""Of those, weights that may have a scale for each column and group of K; of 4 bits they must. Files do not name it."""
CUDA_GROUPS, CUDA_TOKENS, CUDA_ROWS, CUDA_DEPTHS = (32, 64, 128), 6, 64, (1, 2, 4, 8)
"""vLLM on NVIDIA runs a kernel of its own in CUDA, with the same file, on weights of 4 bits in such groups while an
expert has so few tokens in the mean. It takes tiles of so many rows at most and of so many groups. Source: vLLM,
should_moe_wna16_use_cuda, moe_wna16.cu."""
CUDA_CONFIG = {"BLOCK_SIZE_M": 16, "GROUP_SIZE_M": 1, "SPLIT_K": 1}
"""With this vLLM chooses the rest of a tile, for either kernel. Source: vLLM, get_moe_wna16_block_config."""


UNKNOWN_RADEON = "AMD_Radeon_Graphics"
"""Name of a card that is not in the driver's table, amdgpu.ids. Source: vLLM on a Radeon PRO W7900."""
IN_VLLM = {
    "AMD_Radeon_RX_7900_XTX": "AMD_Radeon_RX7900XTX", "AMD_Radeon_RX_9070_XT": "AMD_Radeon_RX9070XT",
    "AMD_Radeon_AI_PRO_R9700": "AMD_Radeon_R9700",
}  # fmt: skip
"""vLLM's own names of cards, by PCI id. Source: vllm/platforms/rocm.py."""
BLOCKS_OF_EXPERTS = re.compile(r"E=\d+,N=(\d+),.*block_shape=\[(\d+)")
"""Source: create_weights of vllm/model_executor/layers/quantization/fp8.py."""


class ConfigFile(Record):
    """One file: its name and what is in it, a configuration by number of tokens."""

    name: str
    configs: Mapping[int, Mapping[str, int]]
    predicted_ms: Mapping[int, float]
    hints: Mapping[int, tuple[Hint, ...]]
    """What each configuration was chosen for: one matmul, or both of a layer. Those left to vLLM have none."""
    down: ConfigFile | None = None
    """The second file, where a layer's matmul back has configurations of its own."""
    also: tuple[str, ...] = ()
    """Further names of the device."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which the project may look for the file, that of `name` first. A device of AMD has several:
        vLLM's, its driver's (virtual functions end in VF), and "AMD Radeon Graphics" of cards that the driver lacks."""
        known = re.search(r"device_name=.+?(?=,|_down|\.json)", self.name)
        others = [self.name.replace(known[0], f"device_name={each}") for each in self.also] if known else []
        return tuple(dict.fromkeys((self.name, *others)))

    @property
    def notes(self) -> tuple[str, ...]:
        """How sure the choice is, and what the file leaves to the engine."""
        first = next((each[0] for each in self.hints.values() if each), None)
        said = [] if first is None else [_sure(first)]
        if left := [str(tokens) for tokens in self.configs if tokens not in self.hints]:
            said.append(f"entries for {', '.join(left)} tokens leave the tile to vLLM, which runs a CUDA kernel there")
        if any(f"dtype={kind}" in self.name for kind in IN_GROUPS):
            said.append("the name of the file does not say the size of the groups, nor whether there are zero points: "
                        "layers that differ only in these share it")  # fmt: skip
        if (split := BLOCKS_OF_EXPERTS.match(self.name)) and int(split[1]) % int(split[2]):
            said.append(f"experts of {split[1]} columns a device are no whole blocks of {split[2]}: vLLM and SGLang "
                        "refuse such a split, or fill it up and look up another file; take another --tp")  # fmt: skip
        return tuple(said)

    def to_json(self) -> str:
        return json.dumps({str(m): dict(config) for m, config in self.configs.items()}, indent=4) + "\n"


@takes(ConfigError)
def moe(
    arch: Arch, experts: int, topk: int, hidden: int, intermediate: int, dtype: str = "",
    block_shape: tuple[int, int] | None = None, batches: Sequence[int] = BATCHES, device_name: str = "",
    project: str = "vllm", group_size: int | None = None, zero_points: bool = False, separate: bool = False,
) -> ConfigFile:  # fmt: skip
    """The file of a gated mixture-of-experts layer with `experts` experts on this device, `topk` of them a token.

    `intermediate` is the width of one expert after it was split over GPUs, the N of the file's name (for SGLang the
    bytes of so many weights). Both matmuls of the layer run with one configuration: the one with which they are
    predicted to take least together, where tokens choose their experts alike and independently
    (`carver.MoETemplate`). `group_size`: int4_w4a16, or int8_w8a16, with a scale for each column and so many elements
    of its depth, and with `zero_points` (of 4 bits) a zero point beside it. `separate`: SGLang looks up a second file
    for the matmul back, `down` of the first; at each number of tokens both have tiles of the same height.
    """
    if separate and project != "sglang":
        raise ConfigError(f"files for each of the two matmuls are looked up by sglang only, got project {project!r}")
    sizes = {"experts": experts, "topk": topk, "hidden": hidden, "intermediate": intermediate}
    for size, value in sizes.items():
        counted(size, value, 1)
    types, shape = _types(dtype, arch), _block_shape(dtype, block_shape)
    groups = _groups(dtype, group_size, zero_points, hidden, intermediate)
    packed = 2 if dtype == "int4_w4a16" and project == "sglang" else 1
    device = _device(arch, device_name)
    if project == "vllm" and "H200" in device.split("_"):
        device = "NVIDIA_H200"  # where vLLM looks up the experts of each of them, as of an H200 NVL
    name = f"E={experts},N={intermediate // packed},device_name={device}"
    ordered = _ordered(batches)
    in_cuda = project == "vllm" and arch.vendor == "nvidia" and dtype == "int4_w4a16" and group_size in CUDA_GROUPS
    most = CUDA_TOKENS * experts // topk if in_cuda else 0
    best = {}
    for before, tokens in pairwise((-ordered[0], *ordered)):
        if tokens > most:
            layer = MoETemplate(
                tokens, experts, topk, hidden, intermediate, types[0], shape or groups,
                weight_dtype="uint4" if zero_points else types[1],
            )  # fmt: skip
            fewest = (before + tokens) // 2 + 1  # that look this entry up
            depth = gcd(hidden, intermediate) if fewest <= most else 0
            best[tokens] = _first(layer.with_arch(arch), depth, group_size or 0, separate)
    if separate:
        up, down = ({tokens: hint.layers[name] for tokens, hint in best.items()} for name in ("up", "down"))
        second = _file(name + _suffix(dtype, shape, project, "_down"), down, _also(arch, device_name))
        return replace(_file(name + _suffix(dtype, shape, project), up, second.also), down=second)
    more = {"SPLIT_K": 1} if groups and project == "vllm" else {}
    file = _file(name + _suffix(dtype, shape, project), best, _also(arch, device_name), more)
    return replace(file, configs={tokens: file.configs.get(tokens, CUDA_CONFIG) for tokens in ordered})


def _first(layer: MoETemplate, depth: int, group: int, separate: bool) -> Hint:
    """The best hint; with `depth`, of which K is a multiple, the best of tiles that vLLM's CUDA kernel takes too."""
    if not depth:
        return layer.recommend_hints(1, separate=separate)[0]
    for hint in layer.recommend_hints(2 * CONSIDERED):
        rows, deep = hint.config["BLOCK_M"], hint.config["BLOCK_K"]
        if rows <= CUDA_ROWS and depth % deep == 0 and deep / group in CUDA_DEPTHS:
            return hint
    raise ConfigError(f"vLLM's CUDA kernel takes no tile recommended for {layer}: its steps are of whole groups")


@takes(ConfigError)
def block_fp8(
    arch: Arch, n: int, k: int, block_shape: tuple[int, int] = (128, 128), batches: Sequence[int] = BATCHES,
    device_name: str = "", project: str = "vllm",
) -> ConfigFile:  # fmt: skip
    """The file of a linear layer of N x K weights in fp8 with one scale a block: C[m,n] = A[m,k] B[n,k]."""
    counted("n", n, 1)
    counted("k", k, 1)
    shape = _block_shape("fp8_w8a8", block_shape)
    name = f"N={n},K={k},device_name={_device(arch, device_name)}{_suffix('fp8_w8a8', shape, project)}"
    kind, _ = _types("fp8_w8a8", arch)
    ordered = _ordered(batches)
    layers = [
        MatmulTemplate(batch, n, k, trans_B=True, in_dtype=kind, out_dtype="bfloat16", scale_block=shape)
        for batch in ordered
    ]
    rankings = recommend_many(layers, arch, 1, "triton")
    best = {batch: ranking[0] for batch, ranking in zip(ordered, rankings, strict=True)}
    return _file(name, best, _also(arch, device_name))


def _file(name: str, best: Mapping[int, Hint], also: tuple[str, ...], more: Mapping[str, int] = {}) -> ConfigFile:
    """Of the best hint of each batch, with `more` in each configuration."""
    configs = {
        batch: {theirs: hint.config[ours] for ours, theirs in KEYS.items()} | dict(more) for batch, hint in best.items()
    }
    of = {batch: tuple(hint.layers.values()) or (hint,) for batch, hint in best.items()}
    return ConfigFile(name, configs, {batch: hint.predicted_ms for batch, hint in best.items()}, of, also=also)


def _sure(hint: Hint) -> str:
    """Where the constants behind a choice come from, and how far times are from predictions."""
    edges = [edge / hint.predicted_ms - 1 for edge in hint.band_ms or ()]
    band = f"; 80 % of measured times within {100 * edges[0]:+.0f} % and {100 * edges[1]:+.0f} %" if edges else ""
    return f"predicted, not timed; constants of the kernel: {hint.calibrated}{band}"


def _ordered(batches: Sequence[int]) -> list[int]:
    if not batches or min(batches) < 1:
        raise ProblemError(f"batches are whole numbers of at least 1, got {sorted(batches)}")
    return sorted(batches)


def _types(dtype: str, arch: Arch) -> tuple[str, str]:
    if dtype not in DTYPES:
        raise ConfigError(f"dtype is one of {', '.join(map(repr, DTYPES))}, got {dtype!r}")
    activations, weights = DTYPES[dtype]
    activations, weights = arch.own_float8(activations), arch.own_float8(weights)
    if dtype == "fp8_w8a8" and arch.vendor != "amd" and arch.matrix_unit(activations) is None:
        raise ConfigError(f"{arch.title} multiplies no 8-bit floats, and Triton compiles no kernel of them for it")
    return activations, weights


def _block_shape(dtype: str, block_shape: tuple[int, int] | None) -> tuple[int, int] | None:
    if block_shape is None:
        return None
    if dtype != "fp8_w8a8" or len(block_shape) != 2 or min(block_shape) < 1 or 128 % block_shape[1]:
        raise ConfigError(f"block scales belong to fp8_w8a8 and are at most 128 deep, got {block_shape} with {dtype!r}")
    return block_shape[0], block_shape[1]


def _groups(
    dtype: str, group_size: int | None, zero_points: bool, hidden: int, intermediate: int
) -> tuple[int, int] | None:  # fmt: skip
    """Columns and depth that share a scale of weights narrower than activations; None without groups."""
    if zero_points and dtype != "int4_w4a16":
        raise ConfigError(f"zero points belong to int4_w4a16, got {dtype!r}")
    if group_size is None:
        if dtype == "int4_w4a16":
            raise ConfigError("int4_w4a16 has a scale for each group of K: say group_size, such as 128")
        return None
    if dtype not in IN_GROUPS:
        raise ConfigError(f"group_size belongs to {' and '.join(IN_GROUPS)}, got {dtype!r}")
    if hidden % counted("group_size", group_size, 1) or intermediate % group_size:
        sizes = f"{group_size}, {hidden} and {intermediate}"
        raise ConfigError(f"group_size must divide hidden and intermediate, got {sizes}")
    return 1, group_size


def _suffix(dtype: str, shape: tuple[int, int] | None, project: str, matmul: str = "") -> str:
    """SGLang leaves the space in the block shape, vLLM takes it out."""
    if project not in ("vllm", "sglang"):
        raise ConfigError(f"project is vllm or sglang, got {project!r}")
    comma = ", " if project == "sglang" else ","
    blocks = f",block_shape=[{shape[0]}{comma}{shape[1]}]" if shape else ""
    # SGLang scales int8 by channel, and says so in the name (w8a8_int8.py)
    channel = ",per_channel_quant=True" if project == "sglang" and dtype == "int8_w8a8" else ""
    return (f",dtype={dtype}" if dtype else "") + blocks + channel + matmul + ".json"


def _device(arch: Arch, device_name: str) -> str:
    """As the driver prints it, with underscores."""
    name = device_name or (arch.device_names[0] if arch.device_names else "")
    if not name:
        raise ConfigError(f"{arch.name} has no name that a driver prints; say which with device_name")
    return name.replace(" ", "_")


def _also(arch: Arch, device_name: str) -> tuple[str, ...]:
    """Further names of a device, unless the caller said its name: of NVIDIA those of its twins, such as an A800's of an
    A100. Both projects leave AMD's " OAM" out."""
    if device_name:
        return ()
    if arch.vendor != "amd":
        return tuple(name.replace(" ", "_") for name in arch.device_names if name.startswith("NVIDIA "))
    named = [name.replace(" ", "_") for name in arch.device_names if re.fullmatch(r"(?!.* OAM$)[\w ]+", name)]
    own = [IN_VLLM[name] for name in named if name in IN_VLLM]
    return (*own, *named, *[UNKNOWN_RADEON] * any("Radeon" in name for name in named))


EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk")
WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")


def _of_first(config: Mapping[str, Any], keys: tuple[str, ...], what: str) -> int:
    for key in keys:
        if config.get(key) is not None:
            return _whole(config, key)
    raise ConfigError(f"config.json does not say {what}: it has none of {', '.join(keys)}")


def _whole(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise ConfigError(f"config.json: {key} is a whole number of at least 1, got {value!r}")
    return value


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part for text, where a model reads pictures too."""
    inner = config.get("text_config")
    return {"quantization_config": config.get("quantization_config"), **inner} if isinstance(inner, dict) else config


def _share(size: int, tp: int, what: str) -> int:
    if tp < 1 or size % tp:
        raise ConfigError(f"--tp must divide {what}, got {tp} and {size}")
    return size // tp


SHARED_IS_ONE_MORE = frozenset(
    f"{name}For{kind}" for kind, names in {
        "CausalLM": ("DeepseekV3", "DeepseekV32", "Glm4Moe", "Glm4MoeLite", "GlmMoeDsa", "MistralLarge3"),
        "ConditionalGeneration": ("Llama4", "MiniMaxM3Sparse"),
    }.items() for name in names
)  # fmt: skip
"""Architectures whose shared expert SGLang multiplies as one more of the routed ones, unless it is told not to
(--disable-shared-experts-fusion). Source: its benchmark/kernels/fused_moe_triton/common_utils.py."""


def _fused(config: Mapping[str, Any], project: str) -> bool:
    return project == "sglang" and not SHARED_IS_ONE_MORE.isdisjoint(config.get("architectures") or ())


def layer_of(config: Mapping[str, Any], tp: int, project: str = "vllm") -> dict[str, Any]:
    """What `carver.export.vllm.moe` takes of the model's mixture of experts, split over `tp` devices."""
    text, more = _text(config), int(_fused(config, project))
    experts = _of_first(text, EXPERTS, "how many experts it has (a dense model has no such file)")
    width = _of_first(text, WIDTH, "the width of an expert")
    return {
        "experts": experts + more, "topk": _of_first(text, CHOSEN, "how many experts a token goes to") + more,
        "hidden": _whole(text, "hidden_size"), "intermediate": _share(width, tp, "the width of an expert"),
        **_quantised(text),
    }  # fmt: skip


def _quantised(text: Mapping[str, Any]) -> dict[str, Any]:
    how = text.get("quantization_config")
    if not how:
        return {}
    if not isinstance(how, Mapping):
        raise ConfigError(f"config.json: quantization_config is an object, got {how!r}")
    method = how.get("quant_method")
    if method == "fp8":
        block = how.get("weight_block_size")
        if block is None:
            return {"dtype": "fp8_w8a8"}
        if not isinstance(block, list) or len(block) != 2 or not all(type(x) is int and x > 0 for x in block):
            raise ConfigError(f"config.json: weight_block_size is two sizes such as [128, 128], got {block!r}")
        return {"dtype": "fp8_w8a8", "block_shape": tuple(block)}
    if method in ("gptq", "awq") and how.get("bits") in (4, 8):
        zeros = bool(how.get("zero_point", True)) if method == "awq" else how.get("sym") is False
        said = {"dtype": "int4_w4a16" if how["bits"] == 4 else "int8_w8a16", "group_size": _whole(how, "group_size")}
        return said | ({"zero_points": True} if zeros and how["bits"] == 4 else {})
    bits = f" with {how['bits']} bits" if how.get("bits") else ""
    raise ConfigError(
        f"quantization_config of {method!r}{bits} is not read (fp8, and gptq and awq of 4 or 8 bits are): say the "
        "layer by --experts, --topk, --hidden, --intermediate and --dtype"
    )  # fmt: skip


def block_of(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """The blocks of weights that share a scale, N x K, where the model's are of 8-bit floats."""
    block: tuple[int, int] | None = _quantised(_text(config)).get("block_shape")
    return block


def has_experts(config: Mapping[str, Any]) -> bool:
    return any(_text(config).get(key) for key in EXPERTS)


def linears_of(config: Mapping[str, Any], tp: int, project: str = "vllm") -> list[tuple[int, int]]:
    """(N, K) of the block-scaled linear layers of one device, each once; none where the model is not of that kind."""
    text = _text(config)
    if block_of(config) is None:
        return []
    hidden, heads = _whole(text, "hidden_size"), _whole(text, "num_attention_heads")
    found: list[tuple[int, int]] = []
    if text.get("kv_lora_rank"):
        latent, rope, plain, wide = (
            _whole(text, key) for key in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
        )
        mine, queries = _share(heads, tp, "the heads"), text.get("q_lora_rank")
        if queries:
            found += [(_whole(text, "q_lora_rank") + latent + rope, hidden), (mine * (plain + rope), queries)]
        else:
            found += [(mine * (plain + rope), hidden), (latent + rope, hidden)]
        found += [(mine * (plain + wide), latent), (hidden, mine * wide)]
    else:
        keys = _whole(text, "num_key_value_heads") if text.get("num_key_value_heads") else heads
        each = _whole(text, "head_dim") if text.get("head_dim") else _share(hidden, heads, "hidden_size by the heads")
        mine = _share(heads, tp, "the heads")
        gated = 1 + bool(text.get("attn_output_gate", str(text.get("model_type")).startswith("qwen3_next")))
        found += [((gated * mine + 2 * max(1, keys // tp)) * each, hidden), (hidden, mine * each)]
    # Qwen's configurations have a width of dense layers though each layer has experts
    none_dense = text.get("mlp_only_layers") == [] and text.get("decoder_sparse_step", 1) == 1
    widths = {_whole(text, "intermediate_size")} if text.get("intermediate_size") and not none_dense else set()
    if text.get("shared_expert_intermediate_size"):
        widths.add(_whole(text, "shared_expert_intermediate_size"))
    if text.get("n_shared_experts") and not _fused(config, project):
        widths.add(_whole(text, "n_shared_experts") * _of_first(text, WIDTH, "the width of an expert"))
    for width in sorted(widths, reverse=True):
        found += [(2 * _share(width, tp, "the width of the feed-forward layer"), hidden), (hidden, width // tp)]
    return list(dict.fromkeys(found))
