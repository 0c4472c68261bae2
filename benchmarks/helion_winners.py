"""Where the price of Helion kernels has the winners that vLLM ships for an H100. No GPU is used.

    python benchmarks/helion_winners.py run FILE.jsonl [--kernels silu_mul_fp8] [--keys 2] [--random 100] [--budget 60]
    python benchmarks/helion_winners.py report FILE.jsonl

vLLM's wheel has a tuned configuration for each kernel, device and size (`vllm/kernels/helion`). For each kernel so many
sizes are drawn. `run` prices the winner, as many random draws of Helion's own as asked, and what `search` finds within
`--budget` seconds. `report` gives the share of draws that are predicted to be faster than the winner, and its predicted
time over that of the search's first. Needs vLLM's Python files (0.33.0; `pip install --no-deps vllm` and what they
import) and Helion 1.5.1. vLLM is told that the device is CUDA's, as its tuner would see it on the GPU. What FILE has is
not run again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import random
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

KERNELS = (
    "silu_mul_fp8", "rms_norm_per_block_quant", "per_token_group_fp8_quant", "dynamic_per_token_scaled_fp8_quant",
    "rms_norm_dynamic_per_token_quant",
)  # fmt: skip
TOGETHER = 10
"""Random draws that are compiled at a time."""


def run(options: argparse.Namespace) -> None:
    import carver
    from carver.integrations.helion import HelionKernels, _allocated, absent, flat, priced, search

    before = [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    done = {(row["kernel"], json.dumps(row["key"], sort_keys=True)) for row in before}
    arch = carver.load_arch(options.arch)
    with absent(arch) as tensor:
        import helion
        import torch
        from vllm import platforms
        from vllm.platforms.interface import Platform, PlatformEnum

        class Device(Platform):
            _enum, device_name, device_type = PlatformEnum.CUDA, "cuda", "cuda"

            @classmethod
            def get_device_name(cls, device_id: int = 0) -> str:
                return f"NVIDIA {options.arch.upper()}"

        platforms._current_platform = Device()
        for name in options.kernels:
            importlib.import_module(f"vllm.kernels.helion.ops.{name}")
            from vllm.kernels.helion.register import get_kernel_by_name

            wrapper = get_kernel_by_name(name)
            folder = Path(sys.modules["vllm.kernels.helion"].__path__[0], "configs", name)
            tuned = json.loads((folder / f"nvidia_{options.arch}.json").read_text())
            winners = {json.dumps(each["key"], sort_keys=True): each["config"] for each in tuned if each["key"]}
            with _allocated([tensor(1, dtype=torch.float32)]):
                inputs = {json.dumps(key.to_dict() if hasattr(key, "to_dict") else dict(key), sort_keys=True): args
                          for key, args in wrapper.get_inputs().items()}  # fmt: skip
            keys = sorted(set(inputs) & set(winners))
            for key in random.Random(0).sample(keys, min(options.keys, len(keys))):
                if (name, json.dumps(json.loads(key), sort_keys=True)) in done:
                    continue
                kernel = helion.kernel(**(wrapper.helion_settings.to_dict() if wrapper.helion_settings else {}) |
                                       {"static_shapes": False})(wrapper.raw_kernel_func)  # fmt: skip
                bound, args = kernel.bind(inputs[key]), inputs[key]
                kernels = HelionKernels(bound, args, arch)
                draws = bound.config_spec.create_config_generation()
                random.seed(1)
                said = {name: value for name, value in winners[key].items() if value != []}  # the default of any length
                try:
                    configs = [flat(draws.unflatten(draws.flatten(helion.Config(**said))))]
                except (AssertionError, helion.exc.InvalidConfig) as error:  # tuned with another version's fields
                    print(f"{name} {key}: this Helion does not take vLLM's configuration: {error!r}", flush=True)
                    continue
                configs += [flat(draws.random_config()) for _ in range(options.random)]
                seconds: list[float] = []
                for at in range(0, len(configs), TOGETHER):
                    seconds += priced(kernels, configs[at : at + TOGETHER], arch)
                began = time.monotonic()
                found = search(bound, args, arch=arch, budget_s=options.budget)
                row = {"kernel": name, "key": json.loads(key), "winner_ms": 1e3 * seconds[0],
                       "random_ms": [1e3 * s if math.isfinite(s) else None for s in seconds[1:]],
                       "search_ms": found[0].predicted_ms, "compiled": len(found.search.steps),
                       "search_s": time.monotonic() - began, "winner": winners[key],
                       "found": found[0].config}  # fmt: skip
                with options.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row, default=str) + "\n")
                print({k: v for k, v in row.items() if k not in ("random_ms", "winner", "found")}, flush=True)


def report(options: argparse.Namespace) -> None:
    rows = [json.loads(line) for line in options.file.read_text().splitlines()]
    print(f"{'kernel':36}{'key':44}{'faster draws':>13}{'winner':>9}{'search':>9}{'winner / search':>16}")
    shares, losses = [], []
    for row in rows:
        drawn = [ms if ms is not None else math.inf for ms in row["random_ms"]]
        shares.append(sum(ms < row["winner_ms"] * 0.995 for ms in drawn) / len(drawn))
        losses.append(row["winner_ms"] / row["search_ms"])
        key = ", ".join(f"{k} {v}" for k, v in row["key"].items())
        print(f"{row['kernel']:36}{key:44}{shares[-1]:13.1%}{row['winner_ms']:9.4f}{row['search_ms']:9.4f}"
              f"{losses[-1]:16.3f}")  # fmt: skip
    print(f"{len(rows)} winners: median {statistics.median(shares):.1%} of the draws are predicted to be faster; "
          f"the search's first is predicted as fast as the winner in {sum(x > 0.995 for x in losses)}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "report"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--kernels", nargs="+", default=KERNELS, choices=KERNELS)
    parser.add_argument("--keys", type=int, default=2, help="sizes of each kernel")
    parser.add_argument("--random", type=int, default=100)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--arch", default="h100")
    options = parser.parse_args()
    {"run": run, "report": report}[options.command](options)


if __name__ == "__main__":
    main()
