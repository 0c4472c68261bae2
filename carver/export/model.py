"""What a model's `config.json` says of its layers: the experts and the block-scaled linear layers of one device.

Names of the keys: those of the models that vLLM and SGLang serve. Of the linear layers a column-parallel one is split
over the devices along N, a row-parallel one along K (Megatron-LM, arXiv 1909.08053).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import ConfigError

__all__ = ["block_of", "has_experts", "layer_of", "linears_of"]

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk")
WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")


def _first(config: Mapping[str, Any], keys: tuple[str, ...], what: str) -> int:
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


def layer_of(config: Mapping[str, Any], tp: int) -> dict[str, Any]:
    """What `carver.export.vllm.moe` takes of the model's mixture of experts, split over `tp` devices."""
    text = _text(config)
    experts = _first(text, EXPERTS, "how many experts it has (a dense model has no such file)")
    width = _first(text, WIDTH, "the width of an expert")
    return {
        "experts": experts, "topk": _first(text, CHOSEN, "how many experts a token goes to"),
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
    raise ConfigError(
        f"quantization_config of {method!r} with {how.get('bits', '?')} bits is not read (fp8, and gptq and awq of 4 "
        "or 8 bits are): say the layer by --experts, --topk, --hidden, --intermediate and --dtype"
    )  # fmt: skip


def block_of(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """The blocks of weights that share a scale, N x K, where the model's are of 8-bit floats."""
    block: tuple[int, int] | None = _quantised(_text(config)).get("block_shape")
    return block


def has_experts(config: Mapping[str, Any]) -> bool:
    return any(_text(config).get(key) for key in EXPERTS)


def linears_of(config: Mapping[str, Any], tp: int) -> list[tuple[int, int]]:
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
        found += [((mine + 2 * max(1, keys // tp)) * each, hidden), (hidden, mine * each)]
    widths = {_whole(text, "intermediate_size")} if text.get("intermediate_size") else set()
    if text.get("n_shared_experts"):
        widths.add(_whole(text, "n_shared_experts") * _first(text, WIDTH, "the width of an expert"))
    for width in sorted(widths, reverse=True):
        found += [(2 * _share(width, tp, "the width of the feed-forward layer"), hidden), (hidden, width // tp)]
    return list(dict.fromkeys(found))
