"""Facts that are kept on disk: read again for the same arguments, made again for others."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import carver
from carver.base import store as base_store
from carver.base.errors import ConfigError, DeviceError, NoCandidates, ProblemError
from carver.base.folders import folder
from carver.cli.main import main
from carver.compiled import inspect, pool, triton, worker
from carver.compiled.worker import Copies

pytest.importorskip("triton", reason="Triton is not installed")

from tests import compiled_kernels as kernels

H100 = carver.load_arch("h100")
ROWS = 64
CONFIGS = [{"BLOCK": block, "num_warps": warps} for block in (512, 1024) for warps in (1, 4)]


def rank(values: Any, arch: carver.Arch = H100, kind: str = "int32") -> carver.Ranking:
    tensors = {"x": carver.Tensor("float16", (ROWS, 4096)), "y": carver.Tensor("float16", (ROWS, 1024))}
    args = tensors | {"lengths": carver.Tensor(kind, (ROWS,))}
    return carver.rank_kernel(
        kernels.ragged, CONFIGS, args=args, grid=(ROWS,), arch=arch, values={"lengths": values}
    )


@pytest.fixture(scope="module")
def first(own_cache: None) -> Any:
    return rank(np.full(ROWS, 2048))


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("it was to be read from the disk")


@pytest.mark.slow
def test_the_table_says_what_the_time_amounts_to(first: Any) -> None:
    head, row = str(first).splitlines()[1:3]
    found = dict(zip(head.split(), row.split(), strict=False))
    best = first[0]
    rate = best.compulsory_bytes / best.predicted_ms / 1e6
    assert float(found["GB/s"].replace(",", "")) == pytest.approx(rate, rel=0.01)


@pytest.mark.slow
def test_facts_are_read_again_as_they_were(first: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "evaluate", refuse)
    monkeypatch.setattr(inspect.pool, "compiled", lambda requests, *_, **__: refuse() if requests else {})
    again = rank(np.full(ROWS, 2048))
    assert [repr(hint.facts) for hint in again] == [repr(hint.facts) for hint in first]
    assert (again.seconds == first.seconds).all()


def test_what_tensors_hold_counts(first: Any) -> None:
    longer = rank(np.full(ROWS, 4096))
    assert longer[0].facts.read_bytes > 1.9 * first[0].facts.read_bytes


@pytest.mark.parametrize("held", [None, "2048", [], [[1], [1, 2]], [None] * ROWS, {"a": 1}])
def test_tensors_hold_numbers(first: Any, held: Any) -> None:
    with pytest.raises(ConfigError, match=r"values\['lengths'\] is a number or an array of numbers, got"):
        rank(held)


@pytest.mark.parametrize("held", [float("nan"), float("inf"), 1e30, -(2**62)])
def test_tensors_hold_numbers_of_their_kind(held: float) -> None:
    with pytest.raises(ConfigError, match=r"values\['lengths'\] has \S+, the tensor of int32 has whole numbers from"):
        rank(held)


def test_loops_have_bounds_that_can_be_counted() -> None:
    with pytest.raises(ProblemError, match=r"the loop over start \(\S+:\d+\) runs cannot be counted: one of its"):
        rank(-(2**62), kind="int64")


def test_devices_have_facts_of_their_own(first: Any) -> None:
    few = {str(hint.config): hint.facts for hint in rank(np.full(ROWS, 2048), H100.replace(sm_count=2))}
    assert any(few[str(hint.config)].live_bytes != hint.facts.live_bytes for hint in first)


def test_readers_of_another_version_make_them_again(first: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    key = pool.facts_key("code", (1, 1, 1), (), H100)
    monkeypatch.setattr(pool, "readers", lambda: "of another version")
    assert pool.facts_key("code", (1, 1, 1), (), H100) != key


def test_other_rates_of_instructions_make_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pool.readers()
    shutil.copytree(folder("arch") / "isa", tmp_path / "isa")
    monkeypatch.setattr(pool, "folder", lambda _: tmp_path)
    assert pool.readers.__wrapped__() == before
    rates = tmp_path / "isa" / "sm_90.toml"
    rates.write_text(rates.read_text(encoding="utf-8").replace("schedulers = 4", "schedulers = 2"), encoding="utf-8")
    assert pool.readers.__wrapped__() != before


def test_a_cache_that_others_can_write_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    pool.save("ab12", {"ttir": "x"})
    tmp_path.chmod(0o777)
    with pytest.raises(DeviceError, match="can be written to by others"):
        pool.load("ab12")
    tmp_path.chmod(0o700)
    (tmp_path / base_store.NAME).chmod(0o666)
    with pytest.raises(DeviceError, match="can be written to by others"):
        pool.load("ab12")


def test_a_store_that_cannot_be_read_costs_no_ranking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    for how in ("a pipe", "no database", "a folder"):
        path = tmp_path / base_store.NAME
        {"a pipe": os.mkfifo, "no database": lambda p: p.write_text("nonsense " * 1000),
         "a folder": lambda p: p.mkdir()}[how](path)  # fmt: skip
        with pytest.warns(UserWarning, match="nothing is read from the store: .*move it away"):
            assert pool.load("ab12") is None
        pool.save("ab12", {"ttir": "x"})
        path.rmdir() if how == "a folder" else path.unlink()


@pytest.mark.slow
def test_facts_of_unknown_rows_do_not_answer_a_question_that_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {"codes": carver.Tensor("int32", (65536,)), "table": carver.Tensor("float32", (1 << 24,)),
            "y": carver.Tensor("float32", (65536,)), "sums": carver.Tensor("float32", (64,))}  # fmt: skip

    def read_bytes(**values: Any) -> float:
        config = {"BLOCK": 1024, "num_warps": 4}
        facts = carver.inspect(kernels.looked_up, args=args, config=config, grid=(64,), arch=H100, values=values)
        assert isinstance(facts, carver.Facts)
        return facts.read_bytes

    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    unknown, known = read_bytes(), read_bytes(codes=0)
    assert known < 2 * 65536 * 4 < unknown  # the codes and one number, else a sector of the table for each code
    assert read_bytes() == unknown


@pytest.mark.parametrize(
    ("where", "value"),
    [("read_bytes", -1.0), ("live_bytes", float("nan")), ("registers", -3), ("warps", -1), ("dot_flops", float("inf"))],
)
def test_forged_facts_are_none(
    where: str, value: float, first: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))  # what is forged answers no other test
    pool.save_facts("ab12", first[0].facts, pool.Used({}))
    entry = pool.load("ab12")
    assert entry is not None and pool.load_facts(["ab12"], {})
    for path in (where, "passes" if where == "warps" else "span"):
        forged = entry["facts"] | {where: value}
        if path == "span":
            forged = entry["facts"] | {"straight": entry["facts"]["straight"] | {"instructions": -5}}
        pool.save("ab12", entry | {"facts": forged})
        assert not pool.load_facts(["ab12"], {})


@pytest.mark.parametrize(
    ("name", "value"),
    [("DISABLE_PTXAS_OPT", "1"), ("AMDGCN_USE_BUFFER_OPS", "0"), ("AMDGCN_SCALARIZE_PACKED_FOPS", "1"),
     ("TRITON_HIP_USE_ASYNC_COPY", "1"), ("TRITON_PTXAS_PATH", "/bin/true"), ("TRITON_DEFAULT_FP_FUSION", "0")],
)  # fmt: skip
def test_what_changes_code_is_a_question_of_its_own(
    name: str, value: str, first: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def compiled(requests: Any, *_: Any, **__: Any) -> Any:
        asked.extend(requests)
        return {key: {"refused": "asked"} for key in requests}

    rank(np.full(ROWS, 2048))
    monkeypatch.setattr(inspect.pool, "compiled", compiled)
    rank(np.full(ROWS, 2048))
    assert not asked
    monkeypatch.setenv(name, value)
    with pytest.raises(NoCandidates, match="asked"):
        rank(np.full(ROWS, 2048))
    assert len(set(asked)) == len(CONFIGS)
    with pytest.raises(NoCandidates):
        rank(np.full(ROWS, 2048))
    assert len(set(asked)) == len(CONFIGS), "the same under the same variable"
    monkeypatch.delenv(name)
    assert rank(np.full(ROWS, 2048)).indices


def test_another_file_under_one_name_is_another_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ptxas").write_text("a")
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tmp_path / "ptxas"))
    before = triton.settings()
    (tmp_path / "ptxas").write_text("ab")
    assert triton.settings() != before


@pytest.mark.parametrize("name", ["TRITON_OVERRIDE_ARCH", "TRITON_KERNEL_OVERRIDE"])
def test_code_of_something_else_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "sm80")
    with pytest.raises(ConfigError, match=f"{name}=sm80 makes Triton compile .*: unset it"):
        rank(np.full(ROWS, 2048))


def test_a_config_with_a_file_in_place_of_its_code_is_refused(first: Any) -> None:
    tensors = {"x": carver.Tensor("float16", (ROWS, 4096)), "y": carver.Tensor("float16", (ROWS, 1024))}
    args = tensors | {"lengths": carver.Tensor("int32", (ROWS,))}
    ranking = carver.rank_kernel(
        kernels.ragged, [CONFIGS[0], CONFIGS[0] | {"ir_override": "mine.ttgir"}], args=args, grid=(ROWS,), arch=H100,
        values={"lengths": np.full(ROWS, 2048)},
    )  # fmt: skip
    assert ranking.indices == [0] and "ir_override=mine.ttgir: a file in place of the code" in ranking.reasons[1]


@pytest.mark.slow
def test_an_interrupted_ranking_says_what_it_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after two of four replies: both are on disk, and the same call compiles the other two alone."""
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    asked: list[int] = []
    answered = Copies.replies

    def stopped(self: Copies, requests: Any, seconds: float = 120.0) -> Any:
        asked.append(len(requests))
        for count, reply in enumerate(answered(self, requests, seconds)):
            if len(asked) == 1 and count == 2:
                raise KeyboardInterrupt
            yield reply

    monkeypatch.setattr(Copies, "replies", stopped)
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted: 2 of 4 configurations are "):
        rank(np.full(ROWS, 2048))
    assert rank(np.full(ROWS, 2048)).given == 4
    assert asked[:2] == [4, 2]


def test_on_the_command_line_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt("interrupted: 2 of 4 configurations are compiled and kept on disk")

    monkeypatch.setattr("carver.ops.operator.Template.recommend_hints", stopped)
    done = CliRunner().invoke(main, ["recommend", "matmul", "512", "512", "512", "--arch", "h100"])
    assert done.exit_code == 130
    assert done.stderr == "interrupted: 2 of 4 configurations are compiled and kept on disk\n"


@pytest.mark.slow
def test_what_was_over_its_time_limit_is_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another number of rows, for which the compiler's work is the same; with more time it is tried again."""
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("carver.compiled.pool._TOO_LONG", {})
    asked: list[int] = []
    answered = Copies.replies

    def counted(self: Copies, requests: Any, seconds: float = 120.0) -> Any:
        asked.append(len(requests))
        return answered(self, requests, seconds)

    monkeypatch.setattr(Copies, "replies", counted)

    def copied(rows: int, seconds: float) -> carver.Ranking:
        args = dict.fromkeys(("x_ptr", "y_ptr"), carver.Tensor("float16", (rows * 512,))) | {"n": rows * 512}
        return carver.rank_kernel(kernels.copy, [{"BLOCK": 512}], args=args, grid=(rows,), arch=H100, seconds=seconds)

    for rows in (64, 128):
        with pytest.raises(NoCandidates, match="not compiled within 0 s"):
            copied(rows, 0.0)
    assert asked == [1, 0]
    assert copied(64, 120.0).given == 1


def test_a_tool_that_does_not_tell_its_version_is_no_verdict() -> None:
    """Triton asks ptxas for it first, and says no more where that was killed; it remembers, too."""
    from triton.knobs import NvidiaTool

    assert NvidiaTool.from_path("/nowhere/ptxas") is None

    def lost(_: Any) -> Any:
        raise triton.refusal(RuntimeError("Cannot find ptxas"))

    told = worker.replied(lost, {})
    assert told["transient"] and "did not tell its version: it is missing, or it was killed" in told["refused"]
    assert not NvidiaTool.from_path.cache_info().currsize


def test_a_limit_on_files_is_named() -> None:
    def large(_: Any) -> Any:
        raise OSError(errno.EFBIG, "File too large")

    told = worker.replied(large, {})
    assert "larger than a process may write here (ulimit -f)" in str(told)
    assert told["transient"], "no verdict on the candidate"


def test_a_configuration_given_again_is_bound_once(first: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = []

    def counted(*given: Any) -> Any:
        bound.append(given)
        return inspect.candidate(*given)

    monkeypatch.setattr("carver.ranking.kernel.candidate", counted)
    args = {"x": carver.Tensor("float16", (ROWS, 4096)), "y": carver.Tensor("float16", (ROWS, 1024))}
    args["lengths"] = carver.Tensor("int32", (ROWS,))
    how: dict[str, Any] = {"grid": (ROWS,), "arch": H100, "values": {"lengths": np.full(ROWS, 2048)}}
    again = carver.rank_kernel(kernels.ragged, CONFIGS * 50, args=args, **how)
    assert len(bound) == len(CONFIGS) and len(again) == len(first)
