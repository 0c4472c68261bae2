"""Rank Triton kernels of statements in index notation as the operators that carver declares, not by their code.

    python benchmarks/notation.py --out FILE.jsonl [--arch h200]

Each kernel of `kernels/triton_zoo_notation.py` says its statement. What is predicted for the configurations of
`zoo.py` is written as `zoo.py predict` does, for `zoo.py score TABLE --predicted FILE.jsonl`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import zoo
from zoos.notation import SUBJECTS
from zoos.subject import Config, Problem, Subject

import carver


def statement(subject: Subject, problem: Problem) -> str:
    """In carver's notation: names of numbers that are no axes are those of the problem."""
    said = re.sub(r"\b[A-Z]+\b", lambda name: str(problem[name[0].lower()]), subject.kernel.fn.__doc__)
    return said.replace("] w[", "] * w[")


def times_ms(subject: Subject, problem: Problem, arch: carver.Arch, configs: list[Config]) -> list[float | None]:
    """What the declared kernel is predicted to take with each; None where it is refused."""
    said = statement(subject, problem)
    axes = {name: n for name, n in problem.items() if re.search(rf"\b{name}\b", said)}
    made = subject.args(problem, configs[0])
    types = {"in_dtype": made["x_ptr"].dtype, "out_dtype": made["y_ptr"].dtype}
    ranking = carver.OpTemplate(said, **types, **axes).with_arch(arch).rank(configs, "triton")
    found = {hint.index: hint.predicted_ms for hint in ranking}
    return [found.get(place) for place in range(len(configs))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", default="h200")
    parser.add_argument("--configs", type=int, default=zoo.CONFIGS)
    options = parser.parse_args()
    arch = carver.load_arch(options.arch)
    for subject in SUBJECTS:
        for place, problem in enumerate(subject.problems):
            configs = subject.configs(problem, options.configs)
            found = times_ms(subject, problem, arch, configs)
            for config, ms in zip(configs, found, strict=True):
                zoo.record(options.out, subject.name, place, config, ms)
            print(f"{subject.name} {place}: {sum(ms is not None for ms in found)} of {len(configs)}", flush=True)


if __name__ == "__main__":
    main()
