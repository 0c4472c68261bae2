"""Kernels of several languages as binaries with measured times: `problems.json.gz` and `cubins.tar.xz` of a folder."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import carver

TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64,
         "f16": np.float16, "f32": np.float32, "f64": np.float64}  # fmt: skip


def problems(folder: Path) -> list[dict[str, Any]]:
    with gzip.open(folder / "problems.json.gz") as file:
        return sorted(json.load(file), key=lambda problem: problem["problem"])


def codes(folder: Path) -> dict[str, bytes]:
    """Cubins by hash."""
    with tarfile.open(folder / "cubins.tar.xz") as archive:
        return {Path(each.name).stem: archive.extractfile(each).read() for each in archive if each.isfile()}  # type: ignore[union-attr]


def tensor(given: dict[str, Any]) -> carver.Tensor:
    return carver.Tensor(given["dtype"], tuple(given["shape"]))


def argument(given: dict[str, Any], tensors: dict[str, carver.Tensor]) -> Any:
    if "map" in given:
        im2col = "im2col" in str(given["map"][0])
        _, _, rank, _, *numbers = given["map"]
        rows = iter(numbers)

        def take(count: int) -> tuple[int, ...]:
            return tuple(int(next(rows)) for _ in range(count))

        dims, strides = take(rank), take(rank)
        if im2col:
            element_strides, lower, upper = take(rank), take(rank - 2), take(rank - 2)
            pixels, channels, _, swizzle = take(4)
            corners = {"lower": lower, "upper": upper}
            box: tuple[int, ...] = (channels, pixels)
        else:
            box, element_strides, corners = take(rank), take(rank), {}
            _, swizzle = take(2)
        return carver.TensorMap(tensors[given["t"]], dims, strides[1:], box, element_strides, swizzle, **corners)
    if "t" in given:
        return tensors[given["t"]]
    if "s" in given:
        return TYPES[given["type"]](given["s"])
    if "struct" in given:
        made = given["struct"]
        return carver.Struct(bytes.fromhex(made["hex"]), {at: tensors[name] for at, name, _ in made["ptrs"]})
    return None


def _named(given: dict[str, Any]) -> str:
    """The tensor that an argument is, or the only one that a struct has the address of."""
    pointers = given["struct"]["ptrs"] if "struct" in given else []
    return str(pointers[0][1]) if len(pointers) == 1 else str(given.get("t") or "")


def content(given: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Of a tensor that stands in constant memory: delays that grow with the square of the channel, cosines and sines
    of a whole turn, else random numbers."""
    count = int(given["shape"][0])
    if given["init"] == "turns":
        return np.asarray(np.exp(2j * np.pi / count * np.arange(count)).view(float), given["dtype"])
    if given["init"] != "shifts":
        return np.asarray(np.random.default_rng(0).random(given["shape"]).ravel(), given["dtype"])
    return np.asarray(8.0 * (np.arange(count) / count) ** 2, given["dtype"])


def binary(problem: dict[str, Any], config: dict[str, Any], code: bytes) -> carver.Binary:
    tensors = {name: tensor(given) for name, given in problem["tensors"].items()}
    return carver.Binary(
        code, config["symbol"], tuple(argument(each, tensors) for each in config["args"]), tuple(config["grid"]),
        tuple(config["block"]), config["shared_dynamic"],
        constants={symbol: content(problem["tensors"][name]) for symbol, name in problem["constants"].items()},
        names=tuple(_named(each) or str(place) for place, each in enumerate(config["args"])),
    )  # fmt: skip


def launches(
    folder: Path, only: str = ""
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]], list[carver.Binary]]]:
    """Each problem with its configurations that were timed, and their binaries."""
    held = codes(folder)
    for problem in problems(folder):
        if only in problem["problem"]:
            ran = [config for config in problem["configs"] if "ms" in config]
            yield problem, ran, [binary(problem, config, held[config["cubin"]]) for config in ran]
