"""Score carver's ranking of the autotuned lists of libraries, every configuration of which was timed on a GPU.

    python benchmarks/lists.py score FILE.jsonl [--again] [--only NAME,...] [--worst 20]

FILE has a line for each list: arguments, grids, configurations, predicted and measured times. It was measured by this
program of commit 656919a, which called the operators of the libraries. Printed are, for each library and for the worst
lists, how much slower the first k picks are than the best of the list. With `--again` the lists are compiled and ranked
anew, with no GPU; the libraries are needed then. `--only flag_gems.` is all of FlagGems.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import frame
from compiled import predicted_ms

import carver
from carver.base.errors import CarverError

FEWEST = 3
"""Different predictions of configurations that ran, below which there is nothing to choose."""


def handed(value: Any) -> Any:
    """The argument that was noted so. Raises ValueError for what JSON does not hold."""
    if not isinstance(value, Mapping):
        return value
    if "other" in value:
        raise ValueError(value["other"])
    if "descriptor" in value:
        base = handed(value["descriptor"])  # the block, of any rank, may be one that the configuration's hook replaces
        return SimpleNamespace(base=base, shape=base.shape, strides=base.strides, block_shape=value["block"])
    if "type" in value:
        from triton.language import dtype

        return dtype(value["type"])
    return carver.Tensor(value["tensor"], tuple(value["shape"]), tuple(value["strides"]))


class Absent:
    """What libraries ask a GPU that is not there."""

    utils = SimpleNamespace(get_device_properties=lambda _: {"multiprocessor_count": 132, "max_shared_mem": 232448})

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


def pretend() -> None:
    """For libraries that ask the GPU when they are imported; FlagGems takes the CPU's tensors for a Hopper GPU's."""
    import torch
    import triton

    triton.runtime.driver.set_active(Absent())
    held = SimpleNamespace(multi_processor_count=132, name="NVIDIA H200", major=9, minor=0)
    for name, value in (("get_device_name", "NVIDIA H200"), ("get_device_capability", (9, 0)), ("current_device", 0),
                        ("get_device_properties", held), ("device", nullcontext())):  # fmt: skip
        setattr(torch.cuda, name, lambda *_, value=value: value)
    os.environ |= {"GEMS_VENDOR": "nvidia", "ARCH": "sm_90"}
    with suppress(ImportError):
        import flag_gems

        flag_gems.runtime.device.name = "cpu"


def kernel_of(row: Mapping[str, Any]) -> Any:
    """The list's kernel: with its tuner, where it has one, else as it is called."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    module, _, name = row["kernel"].rpartition(".")
    given = kernel = getattr(importlib.import_module(module), name)
    while not isinstance(kernel, Autotuner | JITFunction):
        kernel = kernel.fn
    return kernel if isinstance(kernel, Autotuner) else given


def grid_of(row: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
    grids = list(zip(row["configs"], row["grids"], strict=True))
    return lambda meta: tuple(next(grid for config, grid in grids if config.items() <= meta.items()))


def again(row: dict[str, Any]) -> None:
    """Rank the list anew, in place of what was predicted when it was measured."""
    kernel = kernel_of(row)
    listed, ranked = (kernel.configs, kernel.fn) if hasattr(kernel, "configs") else ([], kernel)
    values = {name: v["values"] for name, v in row["args"].items() if isinstance(v, dict) and "values" in v}
    args = {name: handed(value) for name, value in row["args"].items()}
    known = [(config.all_kwargs(), config) for config in listed]  # with hooks that set descriptors' blocks
    configs = [next((own for plain, own in known if plain == config), config) for config in row["configs"]]
    ranking = carver.rank_kernel(
        ranked, configs, args=args, grid=grid_of(row), arch=row["arch"], values=values, compile="all"
    )
    row["predicted_ms"] = predicted_ms(ranking, len(row["configs"]))


def score(options: argparse.Namespace) -> None:
    if options.again:
        import torch

        if not torch.cuda.is_available():
            pretend()
    found: dict[str, list[frame.Score]] = defaultdict(list)
    refused: list[str] = []
    for row in frame.rows(options.file):
        if options.only and not any(word in row["kernel"] for word in options.only.split(",")):
            continue
        if options.again:
            try:
                again(row)
            except (CarverError, ValueError, ImportError) as error:
                row["refused"] = f"{type(error).__name__}: {error}"
        both = zip(row.get("predicted_ms", ()), row["measured_ms"], strict=False)
        if "refused" in row:
            refused.append(f"{row['kernel']}: {row['refused'][:200]}")
        elif len({p for p, m in both if p is not None and m is not None}) >= FEWEST:
            name = f"{row['kernel'].rpartition('.')[2]} ({row['operator']}), {len(row['configs'])}"
            library = row["operator"].partition(".")[0]
            found[library].append(frame.scored(name, row["predicted_ms"], row["measured_ms"]))
    every = [score for scores in found.values() for score in scores]
    lines = [(name, len(scores), *frame.means(scores)) for name, scores in found.items()]
    print(frame.table(("library", "lists", *frame.HEADS), [*lines, ("all", len(every), *frame.means(every))]))
    worst = sorted(every, key=lambda score: -score.lost[0])[: options.worst]
    print("\n" + frame.report(worst, "the worst") if worst else "", *refused, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    scoring = parser.add_subparsers(dest="command", required=True).add_parser("score")
    scoring.add_argument("file", type=Path)
    scoring.add_argument("--only", default="", help="parts of the names of kernels, with commas")
    scoring.add_argument("--again", action="store_true")
    scoring.add_argument("--worst", type=int, default=20)
    score(parser.parse_args())


if __name__ == "__main__":
    main()
