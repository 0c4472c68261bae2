"""Two stages: a declaration's ranking picks what is compiled, and what came out ranks these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import carver
from carver.base.errors import ConfigError
from carver.cli.main import main

triton = pytest.importorskip("triton", reason="Triton is not installed")

from tests import compiled_kernels as kernels  # noqa: E402
from tests.test_enable_triton import Array, Timed  # noqa: E402

pytestmark = pytest.mark.usefixtures("own_cache")
H100 = carver.load_arch("h100")
SIZE = 2048
NAMES = {"BLOCK_M": "BM", "BLOCK_N": "BN", "BLOCK_K": "BK"}
CONFIGS = [
    {"BM": m, "BN": n, "BK": k, "num_warps": w, "num_stages": 3}
    for m, n, k, w in ((16, 16, 16, 4), (128, 128, 64, 4), (128, 256, 64, 4), (128, 256, 64, 8), (256, 256, 128, 8))
]
OP = carver.MatmulTemplate(SIZE, SIZE, SIZE).with_arch(H100)
TENSORS = {name: carver.Tensor("float16", (SIZE, SIZE)) for name in ("a_ptr", "b_ptr", "c_ptr")}


def grid(known: Any) -> tuple[int]:
    return (-(-known["M"] // known["BM"]) * -(-known["N"] // known["BN"]),)


CALL = carver.Call(kernels.matmul, {**TENSORS, "M": SIZE, "N": SIZE, "K": SIZE}, grid)


@pytest.mark.slow
def test_the_first_are_ranked_by_what_the_compiler_made() -> None:
    declared = OP.rank(CONFIGS[:-1], names=NAMES)
    ranking = OP.rank(CONFIGS[:-1], names=NAMES, compiled=3, call=CALL)
    assert isinstance(ranking, carver.Ranking)
    assert set(ranking.indices) == set(declared.indices[:3])
    assert ranking[0].facts.shared_bytes > 0
    whole = carver.rank_kernel(kernels.matmul, CONFIGS[:-1], args=CALL.args, grid=grid, arch=H100)
    assert [i for i in whole.indices if i in set(ranking.indices)] == ranking.indices


@pytest.mark.slow
def test_what_does_not_fit_falls_out() -> None:
    whole = CALL.rank(CONFIGS, H100, [1, 4])
    assert whole.indices == [1]
    assert "shared memory" in whole.reasons[4]


@pytest.mark.slow
def test_a_template_screens_as_many_as_are_asked_for() -> None:
    spelled = [{ours: config[theirs] for ours, theirs in NAMES.items()} | {"num_warps": 4} for config in CONFIGS[1:3]]
    kernel = kernels.declared
    ranking = carver.rank_kernel(
        kernel, spelled, args=CALL.args, grid=lambda known: (64,), arch=H100, screen=OP, compiled=1
    )
    assert len(ranking) == 1 and ranking.given == 2


def test_the_kernel_must_be_given() -> None:
    with pytest.raises(ConfigError, match="call="):
        OP.rank(CONFIGS, names=NAMES, compiled=3)
    with pytest.raises(ConfigError, match="kernel="):
        carver.triton_pruner(OP, compiled=3)


@pytest.mark.slow
def test_triton_prunes_by_what_the_compiler_made(monkeypatch: pytest.MonkeyPatch) -> None:
    launches, run = Timed(), kernels.matmul.run

    def launched(*args: Any, warmup: bool = False, **kwargs: Any) -> Any:
        return run(*args, warmup=True, **kwargs) if warmup else launches.append(kwargs)

    monkeypatch.setattr(kernels.matmul, "run", launched)
    configs = [triton.Config({k: c[k] for k in ("BM", "BN", "BK")}, num_warps=c["num_warps"]) for c in CONFIGS[:4]]
    prune = carver.triton_pruner(OP, topk=1, names=NAMES, compiled=3, kernel=lambda: tuned)
    tuned = triton.autotune(configs, key=["M"], prune_configs_by=prune, do_bench=lambda call, quantiles: [1.0] * 3)(
        kernels.matmul
    )
    arrays = [Array((SIZE, SIZE)) for _ in range(3)]
    tuned[grid](*arrays, SIZE, SIZE, SIZE)
    best = OP.rank(CONFIGS[:4], names=NAMES, compiled=3, call=CALL)[0].config
    assert {name: launches[-1][name] for name in ("BM", "BN", "BK", "num_warps")} == {
        name: best[name] for name in ("BM", "BN", "BK", "num_warps")
    }


def test_the_command_line_compiles_the_first(tmp_path: Path) -> None:
    given, listed = tmp_path / "args.toml", tmp_path / "configs.json"
    tensor = f'{{dtype = "float16", shape = [{SIZE}, {SIZE}]}}'
    given.write_text(
        'grid = ["ceil(M, BM) * ceil(N, BN)"]\n[args]\n'
        + "".join(f"{name} = {SIZE}\n" for name in "MNK")
        + "".join(f"{name} = {tensor}\n" for name in TENSORS)
    )
    listed.write_text(json.dumps(CONFIGS[:4]))
    command = ["rank", "matmul", *[str(SIZE)] * 3, "--arch", "h100", "--configs", str(listed), "--compiled", "2"]
    command += [part for ours, theirs in NAMES.items() for part in ("--name", f"{ours}={theirs}")]
    done = CliRunner().invoke(main, [*command, "--source", f"{kernels.__file__}:matmul", "--args", str(given)])
    assert done.exit_code == 0, done.output
    assert "2 of 4 configurations" in done.output
    lacking = CliRunner().invoke(main, command)
    assert lacking.exit_code and "go together" in lacking.output


@pytest.mark.slow
@pytest.mark.parametrize("tuned", ["double", "sized"])
def test_the_tuner_measures_what_compiles_and_fits(tuned: str) -> None:
    """64 warps do not fit; of the rest the first are those that are predicted fastest, here the order given."""
    from carver.run.inputs import Value
    from carver.tune.candidates import Entry
    from carver.tune.plan import ranked_by_code
    from tests import tuned_triton

    configs = [{"BLOCK": b, "num_warps": w} for b in (256, 1024, 4096) for w in (2, 64)]
    size = 1 << 20 if tuned == "double" else "n"
    made = [getattr(tuned_triton, tuned).fn(n=size, **config) for config in configs]
    values = [Value(name, "numpy", "float32", np.zeros(1 << 20, np.float32)) for name in "XY"]
    entries = [Entry(i, config, made=each) for i, (config, each) in enumerate(zip(configs, made, strict=True))]
    kept, rejected = ranked_by_code(entries, values, H100, 4)
    assert {entry.index for entry in kept} == {0, 2} and sum(rejected.values()) == 2
    assert all(entry.predicted_ms for entry in kept)
    with carver.set_autotune_inputs(np.zeros(8)), pytest.raises(ConfigError, match="compiled="):
        carver.AutoTuner.from_kernel(lambda n, BLOCK, num_warps: None, configs[:1], (8,)).run(compiled=2)


@pytest.mark.slow
def test_a_list_is_pruned_by_machine_code_without_a_template() -> None:
    """The pruner finds the tuner that asks; the first of the list stays, and the best by code is there."""
    configs = [
        triton.Config({"BM": m, "BN": 64, "BK": 32}, num_warps=4, num_stages=s) for m in (16, 64, 128) for s in (2, 3)
    ]
    pruner = carver.triton_pruner(topk=2, arch=H100)
    tuner: Any = triton.autotune(configs, key=["M"], prune_configs_by={"early_config_prune": pruner})(kernels.matmul)
    args = {**dict.fromkeys(TENSORS, Array((SIZE, SIZE))), "M": SIZE, "N": SIZE, "K": SIZE}
    tuner.nargs = args
    kept = tuner.prune_configs({"grid": CALL.grid})
    best = carver.rank_kernel(kernels.matmul, configs, args=CALL.args, grid=CALL.grid, arch=H100)
    assert configs[0] in kept and configs[best.indices[0]] in kept and len(kept) <= 3
    whole = carver.rank_kernel(tuner, args=CALL.args, grid=CALL.grid, arch="mi300x")  # not what it keeps for the H100
    assert whole.given == len(configs)
    with pytest.raises(ConfigError, match=r"no triton\.autotune asks"):
        carver.triton_pruner(topk=2, arch=H100)(configs, args, grid=CALL.grid)
    with pytest.raises(ConfigError, match="go with a template"):
        carver.triton_pruner(topk=2, propose=True)
