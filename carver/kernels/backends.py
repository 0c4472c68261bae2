"""Whose kernels a declaration describes, in the order of carver's preference, and other tools' configurations with the
keys of carver's declarations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from itertools import islice, product
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arch.descriptor import TRITON_LACKS, Arch
from ..base.errors import ConfigError
from ..base.folders import shipped
from ..base.given import shown, typed
from ..base.types import Record


class Backend(Record):
    """A tool that kernels are written in, and the devices that they run on."""

    name: str
    title: str
    """The possessive that messages begin with: "Triton's"."""
    device_kind: str = "gpu"
    """Kind of device that its kernels run on: "gpu" or "cpu"."""
    vendors: tuple[str, ...] = ()
    """Vendors of the devices that its kernels run on; empty: any. On other devices their tiles serve as advice."""
    least_cc: tuple[int, int] = (0, 0)
    """Oldest compute capability of NVIDIA that its compiler supports."""
    without_isas: tuple[str, ...] = ()
    """ISAs of these vendors that its compiler does not support."""
    source: str = ""
    """Language of carver's own sources for it, "cuda" or "c"; empty where the sources are another tool's."""
    by_default: bool = False
    """Whether its kernels may be recommended when the caller names no backend."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other spellings in use, for each key of a configuration."""
    options: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each vendor, the keys that a configuration may lack, with the tool's defaults."""
    unpriced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each vendor, the options that the model ignores; a ranking says that it did."""

    def runs_on(self, arch: Arch) -> bool:
        """Whether its kernels run on this device, rather than only advise on tiles."""
        known = self.device_kind == arch.kind and arch.vendor in (self.vendors or (arch.vendor,))
        return known and arch.isa not in self.without_isas and (arch.cc is None or arch.cc >= self.least_cc)


_COMMON = {"triton": {**shipped("backends")["written_in"]["triton"], "without_isas": TRITON_LACKS}}
"""What tools have in common that write kernels in a language."""
BACKENDS: Mapping[str, Backend] = MappingProxyType({
    name: typed(Backend, {"name": name, **_COMMON.get(said.get("written_in", ""), {}),
                          **{key: value for key, value in said.items() if key != "written_in"}})
    for name, said in shipped("backends")["tools"].items()
})  # fmt: skip
"""By name, as the file has them."""


def preferred(arch: Arch, there: Iterable[str]) -> Backend:
    """The backend to use when the caller names none: the first in `there` that runs on the device.

    If none does, the first for the device's vendor, else the first for its kind of device, so that an error can say
    what that backend needs.
    """
    names = set(there)
    kind = [backend for backend in BACKENDS.values() if backend.by_default and backend.device_kind == arch.kind]
    mine = [backend for backend in kind if backend.name in names]
    for_vendor = [backend for backend in mine if arch.vendor in backend.vendors]
    return next((backend for backend in mine if backend.runs_on(arch)), (for_vendor or mine or kind)[0])


_NEUTRAL = {"num_ctas": (None, 1), "maxnreg": (None,), "ir_override": (None,), "pre_hook": None}
"""Launch options that the model ignores, and the values for which it loses nothing by that."""

MOST_COMBINATIONS = 1_000_000
BLOCKS = {"m": "BLOCK_M", "n": "BLOCK_N", "k": "BLOCK_K"}
ROW_KEYS = ("rank", "kernel", "predicted_ms")
"""Keys of an exported row that do not belong to the configuration."""


def from_triton(config: Any, names: Mapping[str, str] | None = None, ignore: Collection[str] = ()) -> dict[str, int]:
    """Translate a `triton.Config`, or a dict as in vLLM and SGLang, to the keys that `rank(backend="triton")` takes.

    Common spellings are known (BLOCK_SIZE_M, GROUP_SIZE_M, ...); `names` maps carver's keys to others. `ignore` lists
    keys to leave out, such as compile-time switches that do not change the time.
    """
    ours = _ours("triton", names)
    return {ours.get(key, key): value for key, value in triton_options(config, ignore).items()}


def _ours(backend: str, names: Mapping[str, str] | None) -> dict[str, str]:
    """carver's keys by their common spellings, and by the caller's."""
    spelt = {alias: key for key, aliases in BACKENDS[backend].aliases.items() for alias in aliases}
    return spelt | {theirs: key for key, theirs in (names or {}).items()}


def triton_options(config: Any, ignore: Collection[str] = ()) -> dict[str, int]:
    """A `triton.Config` or dict under its own keys, without options whose value changes nothing (`_NEUTRAL`)."""
    if isinstance(config, Mapping):
        given = dict(config)
    else:
        options = {"num_ctas": getattr(config, "num_ctas", 1), "maxnreg": getattr(config, "maxnreg", None)}
        given = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages, **options}
    out: dict[str, int] = {}
    for key, value in given.items():
        if key in ignore:
            continue
        if key not in _NEUTRAL:
            out[key] = value
        elif (neutral := _NEUTRAL[key]) is not None and value not in neutral:
            raise ConfigError(f"{key}={value!r} is not in the model; ignore=[{key!r}] ranks as if it were not set")
    return out


ALL_ROWS = 1 << 20
"""GROUP_M of a walk down all rows of tiles before the next column: more than any matrix has."""


def from_helion(config: Any, tiles: str = "mnk") -> dict[str, int]:
    """Translate a Helion matmul configuration to the keys that `rank(backend="triton")` takes.

    Missing options get Helion's defaults: 4 warps, 1 stage, no grouping. `tiles` is the order in which the kernel opens
    its tiles. Helion walks along the axis that is opened first, or stands first in `loop_orders`, and groups its tiles.
    """
    given = dict(config) if isinstance(config, Mapping) else dict(config.config)
    sizes = given.get("block_sizes")
    if not sizes or len(sizes) != 3:
        raise ConfigError(f"a matmul has block_sizes of three tiles, got {sizes!r}")
    out = {BLOCKS[letter]: as_whole("block_sizes", size) for letter, size in zip(order_of(tiles), sizes, strict=True)}
    out["num_warps"] = as_whole("num_warps", given.get("num_warps") or 4)
    out["num_stages"] = as_whole("num_stages", given.get("num_stages") or 1)
    group = as_whole("l2_groupings", (given.get("l2_groupings") or [1])[0])
    turned = (given.get("loop_orders") or [[0, 1]])[0]
    if sorted(turned) != [0, 1]:
        raise ConfigError(f"a matmul has loop_orders of two tiles, [[0, 1]] or [[1, 0]], got {given['loop_orders']!r}")
    first = tiles.replace("k", "")[turned[0]]
    if first == "n" and group > 1:
        raise ConfigError(f"l2_groupings of {group} columns of tiles is not in the model, which groups rows")
    out["GROUP_M"] = 1 if first == "n" else group if group > 1 else ALL_ROWS
    return out


def as_whole(key: str, value: Any) -> int:
    """A whole number, also as text or as a float; a boolean as it is. Raises ConfigError for anything else."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    with suppress(TypeError, ValueError, OverflowError):
        if (number := int(value)) == float(value):
            return number
    raise ConfigError(f"{key} must be a whole number, got {shown(value)}")


def order_of(tiles: str) -> str:
    """Check that `tiles` is a permutation of the letters m, n and k. Raises ConfigError otherwise."""
    if sorted(tiles) != ["k", "m", "n"]:
        raise ConfigError(f"tiles is an order of the letters m, n and k, got {tiles!r}")
    return tiles


def from_optuna(trial: Any, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Translate the parameters of an Optuna trial to carver's keys."""
    ours = {theirs: key for key, theirs in (names or {}).items()}
    return {ours.get(key, key): value for key, value in trial.params.items()}


def from_inductor(config: Any) -> dict[str, int]:
    """Translate Inductor's `GemmConfig`, or the keyword arguments of a template choice, to the keys that
    `rank(backend="triton")` takes."""
    given = dict(config) if isinstance(config, Mapping) else vars(config)
    blocks = {"block_m": "BLOCK_M", "block_n": "BLOCK_N", "block_k": "BLOCK_K", "group_m": "GROUP_M"}
    known = {*blocks.values(), "num_warps", "num_stages"}
    return {ours: as_whole(key, value) for key, value in given.items() if (ours := blocks.get(key, key)) in known}


def from_row(config: Mapping[str, Any]) -> dict[str, int]:
    """The configuration in a row of `to_json` or `to_csv`; numbers may be text."""
    told = {key: value for key, value in config.items() if key not in ROW_KEYS and value not in ("", None)}
    return {key: as_whole(key, value) for key, value in told.items()}


def from_tilelang(config: Mapping[str, Any], names: Mapping[str, str] | None = None) -> dict[str, int]:
    """Translate a TileLang dict to the keys that `rank(backend="tilelang")` takes; options that the model ignores are
    left out."""
    ours, left_out = _ours("tilelang", names), {"pass_configs", *BACKENDS["tilelang"].unpriced["nvidia"]}
    return {ours.get(key, key): as_whole(key, value) for key, value in config.items() if key not in left_out}


def from_cutlass(config: Mapping[str, Any], num_stages: int = 3) -> dict[str, int]:
    """Translate a CUTLASS or CuTe DSL dict to the keys that `rank(backend="tilelang")` takes.

    The examples of CuTe DSL fix the depth at 128 bytes (64 elements of 16 bits) and choose the number of stages
    themselves. `num_stages` is the number to rank with.
    """
    try:
        if "tile_shape" in config:
            m, n, k = map(int, config["tile_shape"])
            m = m // 2 if "2Sm" in str(config.get("kernel_schedule", "")) else m
            stages, group = int(config.get("stages") or num_stages), int(config.get("raster_group") or 1)
            if int(config.get("split_k") or 1) != 1:
                raise ConfigError("the profile that ranks CUTLASS configurations has no split-K")
        elif "mma_tiler_mn" in config:
            m, n = map(int, config["mma_tiler_mn"])
            m, k, stages, group = (m // 2 if config.get("use_2cta_instrs") else m), 64, num_stages, 1
        else:
            raise ConfigError(f"a CUTLASS configuration has tile_shape or mma_tiler_mn, got {', '.join(config)}")
    except (TypeError, ValueError):
        asked = "tile_shape = (M, N, K) or mma_tiler_mn = (M, N), whole numbers"
        raise ConfigError(f"a CUTLASS configuration has {asked}; got {dict(config)}") from None
    return {"block_M": m, "block_N": n, "block_K": k, "num_stages": stages, "thread_num": 256 if m >= 128 else 128,
            "enable_rasteration": int(group > 1)}  # fmt: skip


def from_kernel_tuner(config: Mapping[str, Any], names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Translate a result or parameter dict of Kernel Tuner to carver's keys.

    `names` maps carver's keys to those of the kernel. If it is given, other keys (times, constants) are left out.
    """
    if names is None:
        return dict(config)
    return {ours: config[theirs] for ours, theirs in names.items() if theirs in config}


_BY_KEY: Mapping[str, Callable[..., dict[str, int]]] = {
    "block_sizes": from_helion, "tile_shape": from_cutlass, "mma_tiler_mn": from_cutlass, "predicted_ms": from_row,
}  # fmt: skip
"""The function that translates a dict, by a key that identifies its tool."""
_BY_PACKAGE: Mapping[str, Callable[..., dict[str, Any]]] = {
    "triton": triton_options, "helion": from_helion, "optuna": from_optuna, "torch": from_inductor,
}  # fmt: skip
"""The function that translates an object, by the package of its class."""


def adopt(config: Any, backend: str, ignore: Collection[str] = ()) -> Any:
    """Translate another tool's configuration to a dict; a configuration in no known form is returned unchanged.

    Known are triton.Config, helion.Config, Optuna trials, Inductor's GemmConfig, the dicts of vLLM, Helion and CUTLASS,
    and rows of `to_json` and `to_csv`. From a dict for Triton, ignored options whose value changes nothing are removed.
    """
    read = _BY_PACKAGE.get(type(config).__module__.partition(".")[0])
    if read is None and isinstance(config, Mapping):
        read = next((reader for key, reader in _BY_KEY.items() if key in config), None)
        if read is None and backend in BACKENDS and BACKENDS[backend].options:
            read = triton_options
    if read is None:
        return config
    try:
        return triton_options(config, ignore) if read is triton_options else read(config)
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as e:
        raise ConfigError(f"{shown(config)} has the keys of another tool's configuration, not its values: {e}") from e


def is_grid(config: Mapping[str, Any]) -> bool:
    """Whether a dict maps keys to lists of values to combine, rather than being one configuration with list values."""
    return any(isinstance(v, list | tuple | range) for v in config.values()) and not config.keys() & _BY_KEY.keys()


def renamed(config: Any, ours: Mapping[str, str], ignore: Collection[str] = ()) -> Any:
    """A configuration with its keys renamed and those in `ignore` removed. Other objects are returned unchanged."""
    if not isinstance(config, Mapping):
        return config
    out = {ours.get(key, key): value for key, value in config.items() if key not in ignore}
    if len(out) < len(config.keys() - set(ignore)):
        raise ConfigError(f"two keys of {', '.join(map(str, config))} are spellings of one")
    return out


def listed(configs: object) -> list[Any]:
    """A list of the given configurations; a dict of lists stands for every combination of their values.

    Raises ConfigError for anything else, and for more than MOST_COMBINATIONS.
    """
    if isinstance(configs, Mapping):
        return combinations(configs)
    if hasattr(configs, "to_dict") and hasattr(configs, "columns"):
        raise ConfigError("rank takes a list of configurations, got a data frame; give its to_dict('records')")
    if isinstance(configs, str) or not isinstance(configs, Iterable) or not getattr(configs, "ndim", 1):
        raise ConfigError(f"rank takes a list of configurations, got {shown(configs)}")
    if len(out := list(islice(configs, MOST_COMBINATIONS + 1))) > MOST_COMBINATIONS:
        raise ConfigError(f"rank takes at most {MOST_COMBINATIONS} configurations, got {shown(configs)}")
    return out


def combinations(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the values listed for each key. A single value counts as a list of one."""
    if not is_grid(lists):
        raise ConfigError(f"rank takes a list of configurations, or lists of values by key; got {shown(dict(lists))}")
    values = {
        key: v if isinstance(v, Collection) and not isinstance(v, str | bytes) and getattr(v, "ndim", 1) == 1 else [v]
        for key, v in lists.items()
    }
    if (count := prod(map(len, values.values()))) > MOST_COMBINATIONS:
        raise ConfigError(f"{count} combinations of values are more than {MOST_COMBINATIONS}")
    return [dict(zip(values, row, strict=True)) for row in product(*values.values())]
