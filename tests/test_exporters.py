"""All exporters: entries that differ, as many as were asked for, complete, and taken by the real packages.

All problems and devices: `python benchmarks/exporters.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import exporters

SOME = (((8192, 8192, 8192), "bfloat16"), ((16, 4096, 14336), "float16"))


@pytest.mark.parametrize("target", [
    pytest.param(each, marks=pytest.mark.packages) if each in ("helion", "inductor", "kernel_tuner", "optuna") else each
    for each in (*exporters.TARGETS, "vllm")
])  # fmt: skip
def test_entries_differ_and_are_taken(target: str) -> None:
    found = list(exporters.cases([target], problems=SOME))
    if not found:
        pytest.skip(f"the package that {target} needs is not installed")
    assert not [(c.device, c.problem, fault) for c in found for fault in c.faults]
    made = [c for c in found if not c.refused]
    assert made and all(c.entries == c.asked or c.notes for c in made)
    devices = {c.device for c in made}
    if target == "cute_dsl":
        assert devices == {"b200", "b300"} and max(c.entries for c in made) == 10
    elif target == "cutlass":
        assert devices == {d for d in exporters.DEVICES if not d.startswith(("mi", "rx"))}
    else:
        assert devices == set(exporters.DEVICES)
        assert all(c.entries == c.asked for c in made)


def test_the_best_tile_of_a_pair_is_kept() -> None:
    """256 rows are what a pair of blocks has: PyTorch lost 5 to 15 % without on a B300 (pytorch/pytorch 196313)."""
    import carver
    from carver.export import cutlass

    op = carver.MatmulTemplate(8192, 8192, 8192, in_dtype="bfloat16", trans_B=True).with_arch("b300")
    found = cutlass.cute_dsl(op.recommend_hints(10, "triton"))
    assert len(found) == 10 and found[0]["mma_tiler_mn"][0] == 256 and found[0]["use_2cta_instrs"]
    assert any("only in what the CuTe DSL does not set" in note for note in found.notes)
    few = cutlass.cute_dsl(list(op.recommend_hints(10, "triton")))  # a list has no next ones
    assert 0 < len(few) < 10 and "no more differ" in few.notes[-1]
