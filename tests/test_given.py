"""What comes from outside: bounded, checked once, refused with a sentence."""

from __future__ import annotations

import dataclasses
import gzip
import inspect
import itertools
import json
import os
import pickle
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from kernels import candidate

import carver
from benchmarks import adapters as tables
from benchmarks.adapters.words import read_csv
from carver.base import given
from carver.base.errors import (
    ArchError,
    CarverError,
    CompilerFailed,
    ConfigError,
    DeviceError,
    KernelError,
    ProblemError,
)
from carver.base.types import Record
from carver.calibrate.fitting import write
from carver.cli.main import main
from carver.kernels.declaration import backends, every
from carver.run.compile import c_compiler, compile_source
from carver.run.records import Measurement, Records, RecordsError
from carver.run.worker import Settings
from carver.tune.plan import names_of

H200 = carver.load_arch("h200")
M = carver.MatmulTemplate(512, 512, 512)


def refused(*words: str, file: Path | None = None) -> str:
    """What the program says where it ends with 2; whatever it raises is this test's failure."""
    done = CliRunner().invoke(main, [str(file) if word == "FILE" else word for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 2, done.output
    return " ".join(done.stderr.split())


# Bounds


def test_inputs_of_an_elementwise_operator_are_bounded() -> None:
    for more in (("--inputs", "1000000000"), ("--broadcast", "3000000")):
        said = refused("recommend", "elementwise", "64", "64", "--arch", "h200", *more)
        assert "inputs and broadcast are together at most 63" in said


def test_rounds_are_bounded() -> None:
    with pytest.raises(ConfigError, match="rounds must be a whole number of at least 1 and at most 10000"):
        Settings(rounds=1_000_000_000, budget_s=1)


@pytest.mark.parametrize("wrap", [carver.OpTemplate, carver.Chain])
def test_blanks_in_notation_take_no_time(wrap: Callable[..., Any]) -> None:
    with pytest.raises(carver.CarverError, match="a statement of 500"):
        wrap(f"C[m] +={' ' * 50_000}A[m,k] * B[k]", m=1, k=1)
    text = f"{' ' * 50_000}C[m,n] += A[m,k] * B[k,n]{' ' * 50_000}"  # around a statement they say nothing
    assert wrap(text, m=1, n=1, k=1)


def test_what_a_file_unpacks_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(given.content, "__defaults__", (1 << 20,))
    monkeypatch.setattr(given.text_of, "__defaults__", (1 << 20,))
    bomb = gzip.compress(bytes(4 << 20))
    assert len(bomb) < 10_000
    for name in ("a.json.gz", "a.csv.gz"):
        (tmp_path / name).write_bytes(bomb)
    for read in (lambda: list(tables.read(tmp_path / "a.json.gz")), lambda: read_csv(tmp_path, "a")):
        with pytest.raises(ConfigError, match="holds more than 1 MiB, unpacked"):
            read()
    (tmp_path / "b.toml").write_bytes(bytes(4 << 20))
    with pytest.raises(ArchError, match="holds more than 1 MiB"):
        carver.load_arch(tmp_path / "b.toml")


def test_experts_are_bounded() -> None:
    for rows in (lambda: carver.Routing(2**40, 2**40), lambda: carver.GroupedMatmulTemplate(1, 64, 64, 2**40)):
        with pytest.raises(carver.CarverError, match="at most 65536 experts"):
            rows()


# Errors of ours


@pytest.mark.parametrize("text", ["", "[", "null", "7", "[]", "{}", '{"hints": []}', "[" * 100_000, "9" * 5000,
                                  '{"rank": NaN}', "\x00", 3, None, b"\xff"])  # fmt: skip
def test_hints_of_any_text(text: Any) -> None:
    with pytest.raises(ConfigError):
        carver.Hint.from_json(text)


def test_a_hint_with_any_value_changed() -> None:
    hint = M.with_arch(H200).recommend_hints(1, "triton")[0].to_dict()
    for name in hint:
        for value in (None, "x", -1.5, [], {}, {"a": None}, float("nan"), "../../../etc"):
            try:
                carver.Hint.from_dict(hint | {name: value}).explain()
            except CarverError:
                continue


@pytest.mark.parametrize(
    "configs",
    [[{"tile_shape": 3}], [{"mma_tiler_mn": "x"}], [{"block_sizes": [1, 2, None]}],
     [{"predicted_ms": 1, "BLOCK_M": []}], 3, None, "x", np.array(3), [None], [[]], {"BLOCK_M": 64}, [{1: 2}]],
)  # fmt: skip
def test_any_configurations(configs: Any) -> None:
    with pytest.raises(CarverError):
        M.with_arch(H200).rank(configs)


@pytest.mark.parametrize("size", [np.array([1, 2]), np.zeros((2, 2)), [64], "64", 64.0, 1j, float("inf"), None, int])
def test_sizes_are_whole_numbers(size: Any) -> None:
    for make in (lambda: carver.MatmulTemplate(size, 64, 64), lambda: carver.ElementwiseTemplate((size, 64)),
                 lambda: carver.MoETemplate(64, 8, 2, size, 64), lambda: M.with_arch(H200).recommend_hints(size),
                 lambda: carver.Tensor("float16", (size,))):  # fmt: skip
        with pytest.raises(CarverError, match="whole number"):
            make()


def test_a_shape_is_not_negative() -> None:
    with pytest.raises(CarverError, match=r"each number of a shape is at least 0, got \(8, -3\)"):
        carver.Tensor("float16", (8, -3))
    assert carver.Tensor("float16", (8, 0)).numel() == 0


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "given.toml"
    for content in (b"\xff\xfe\x00", b"x = " + b"[" * 5000, b"x = " + b"9" * 5000, b"\x00", b"", b"[sm]\n[sm]"):
        path.write_bytes(content)
        with pytest.raises(ArchError):
            carver.load_arch(path)
        for words in (("check", "FILE", "--operator", "matmul"), ("explain", "hint", "FILE"),
                      ("inspect", "x.py:y", "--args", "FILE", "--arch", "h200"),
                      ("recommend", "matmul", "64", "64", "64", "--arch", "FILE")):  # fmt: skip
            assert refused(*words, file=path)


def test_an_operator_is_no_path() -> None:
    for name in ("../matmul", "9" * 5000, "", "/etc"):
        with pytest.raises(KernelError, match="no operator"):
            every(name)


def test_older_than_anything(tmp_path: Path) -> None:
    with Records(tmp_path / "records.sqlite") as db:
        for days in (1e300, float("nan"), -1.0, "x"):
            with pytest.raises(RecordsError, match="older_than_days must be a number from 0"):
                db.prune(older_than_days=days)  # type: ignore[arg-type]


def measurement(**changed: Any) -> Measurement:
    hint = M.with_arch(H200).recommend_hints(1, "triton")[0]
    known: dict[str, Any] = {
        "run_id": "r", "candidate": "c", "outcome": "ok", "operator": "matmul", "problem": hint.problem.to_dict(),
        "kernel": "triton", "backend": "triton", "config": dict(hint.config), "arch": "h200", "device": "d",
        "host": "h", "rounds_ms": ((1.0,),), "median_ms": 1.0,
    }  # fmt: skip
    return Measurement(**{**known, **changed})


def test_sizes_of_an_imported_row_are_numbers(tmp_path: Path) -> None:
    row = {"carver_record": 1, **measurement().to_dict()}
    with Records(tmp_path / "records.sqlite") as db:
        for odd in ("NaN", {"m": "NaN"}, None, 3):
            with pytest.raises(RecordsError, match="sizes of its problem are"):
                db.import_([json.dumps(row | {"problem": {"sizes": odd}})])
        for odd in ("NaN", "1e999", "Infinity"):
            with pytest.raises(RecordsError, match=r"not JSON: .* is no finite number"):
                db.import_([json.dumps(row).replace('"median_ms": 1.0', f'"median_ms": {odd}')])
        assert db.import_([json.dumps(row)]) == (1, 0)
    done = CliRunner().invoke(main, ["records", "--database", str(tmp_path / "records.sqlite"), "list"])
    assert done.exit_code == 0 and "1 of 1" in done.output


def test_what_was_imported_is_no_command_to_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    with Records(path) as db:
        db.put(measurement(device="\x1b[2J\x07red", message="\x1b]0;title\x07", uuid="abc"))
    for words in (["list"], ["show", "abc"]):
        done = CliRunner().invoke(main, ["records", "--database", str(path), *words])
        assert done.exit_code == 0 and "\\x1b[2J" in done.output
        assert not {"\x1b", "\x07"} & set(done.output)


def test_looking_makes_no_database(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    for words in (["list"], ["show", "a"], ["prune", "--older-than", "1"], ["export"]):
        assert "there is no database" in refused("records", "--database", str(path), *words)
        assert not path.exists()


@pytest.mark.parametrize("body", ["exit 0", "exit 1", "echo; exit 0", "kill -9 $$"])
def test_a_compiler_that_names_no_version(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cc"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(DeviceError, match="--version failed"):
        c_compiler()


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
    program = candidate(tmp_path, "ok").program
    assert program is not None
    compiler = c_compiler()

    def full(*_: Any) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("carver.base.store.publish", full)
    with pytest.raises(CompilerFailed, match="No space left on device; make room there"):
        compile_source(program.source, compiler)
    monkeypatch.undo()
    if Path("/dev/full").exists():
        words = ("export", "csv", "matmul", "64", "64", "64", "--arch", "h200", "-o", "/dev/full")
        assert "No space left on device" in refused(*words)


# Numbers


@pytest.mark.parametrize("line", ["smem_bytes_per_clk = 5e-324", "sfu_per_clk = 5e-324", "lsu_per_clk = 1e300",
                                  "l2_bytes_per_clk_per_sm = 5e-324", "sm_count = 99999999999999999999",
                                  "max_regs_per_thread = 99999999999999999999999",  # no integer of 64 bits
                                  "float32 = 5e-324", "flops_per_clk_per_sm = 5e-324"])  # fmt: skip
def test_rates_of_a_device_are_plausible(line: str, tmp_path: Path) -> None:
    name = line.partition(" ")[0]
    text, found = re.subn(rf"\b{name} = [\d.]+", line, carver.arch.devices.to_toml(H200), count=1)
    assert found  # on a line of its own, or in that of a matrix rate
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ArchError, match=f"{name}.*(outside|must lie between)"):
        carver.load_arch(path)


def test_a_replaced_number_leaves_predictions_numbers() -> None:
    for name in ("dram_bytes_per_s", "l2_bytes_per_s", "clock_hz", "sfu_per_clk"):
        for value in (5e-324, 1e300, float("nan"), float("inf")):
            with pytest.raises(ArchError):
                H200.replace(**{name: value})


TUNABLES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
HEADER = f"operator,arch,backend,M,N,K,{','.join(f'config.{name}' for name in TUNABLES)},time_ms\n"


@pytest.mark.parametrize("time", ["nan", "inf", "-inf", "1e999", "0", "-1", ""])
def test_a_time_that_is_none_is_said_with_its_line(time: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"{HEADER}matmul,h200,triton,64,64,64,64,64,32,4,3,1\nmatmul,h200,triton,64,64,64,32,64,32,4,3,{time}\n")
    with pytest.raises(ConfigError, match="line 3, column time_ms: takes milliseconds above 0"):
        list(tables.read(path))
    assert "line 3, column time_ms" in refused("evaluate", "FILE", "--workers", "1", file=path)


@pytest.mark.parametrize("time", ["NaN", "Infinity", "-1.0", "null", '"x"'])
def test_a_confirmed_time_that_is_none_is_said_with_its_row(time: str, tmp_path: Path) -> None:
    problem = M.problem.to_dict()
    config = dict(M.with_arch(H200).recommend_hints(1, "triton")[0].config)
    case = {"rows": [["triton", config, 1.0, 1.0, "ok"], ["triton", config, 1.0, "TIME", "ok"]], "library_ms": None,
            "problem": problem, "arch": "h200", "backend": "triton", "kind": ""}  # fmt: skip
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"cases": [case]}).replace('"TIME"', time).encode()))
    with pytest.raises(ConfigError, match="case 0, row 1: ok, so its time is milliseconds above 0"):
        list(tables.read(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_descriptor_takes_no_devices_place(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/null"), tmp_path):
        with pytest.raises(ConfigError, match="is no plain file"):
            write(H200, path)
    assert "is no plain file" in refused("calibrate", "--out", "FILE", file=fifo)
    assert stat.S_ISFIFO(fifo.stat().st_mode) and stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert write(H200, tmp_path / "mine.toml").is_file()


def test_more_parts_than_blocks_of_keys() -> None:
    template = carver.FlashAttentionTemplate(batch=1, heads=8, seq=128, head_dim=64, seq_kv=1024).with_arch(H200)
    config = dict(template.recommend_hints(1, "triton")[0].config)
    with pytest.raises(carver.base.errors.NoCandidates) as none:
        template.rank([config | {"SPLIT_KV": 1_741_390}])
    assert "each part of the keys has a block of them" in none.value.removed


def test_integers_of_json_have_64_bits() -> None:
    assert given.json_of(f"[{2**63 - 1}, {-(2**63)}]", "it", ConfigError) == [2**63 - 1, -(2**63)]
    for word in (str(2**63), "-" + "9" * 400):
        with pytest.raises(RecordsError, match="no integer of 64 bits"):
            given.json_of(f'{{"a": {word}}}', "it", RecordsError)


def test_a_key_stands_once_in_an_object() -> None:
    for read in (given.json_of, given.json_each):
        with pytest.raises(ConfigError, match="an object has the key 'a' twice"):
            read('[{"b": {"a": 1, "c": 2, "a": 1}}]', "it", ConfigError)
    assert given.json_of('[{"a": 1}, {"a": {"a": 2}}]', "it", ConfigError) == [{"a": 1}, {"a": {"a": 2}}]


def test_a_return_alone_ends_a_line_of_csv(tmp_path: Path) -> None:
    (tmp_path / "configs.csv").write_bytes(b"BLOCK_M,BLOCK_N,BLOCK_K,num_warps,num_stages\r64,64,64,4,3\r")
    asked = ("rank", "matmul", "512", "512", "512", "--arch", "h200", "--backend", "triton", "--json")
    done = CliRunner().invoke(main, [*asked, "--configs", str(tmp_path / "configs.csv")])
    assert done.exit_code == 0 and len(json.loads(done.output)["hints"]) == 1


def test_a_place_is_a_whole_number_of_any_library() -> None:
    assert names_of(np.int64(1)) == (1,) and names_of("a") == ("a",) and names_of([0, "b"]) == (0, "b")


def test_halves_of_a_surrogate_are_no_text() -> None:
    for text in ('"\\ud800"', b'"\\udfff"', '{"\\uD834": 1}', '"\ud800"'):
        with pytest.raises(ConfigError, match=r"is not JSON: .*surrogates not allowed"):
            given.json_of(text, "it", ConfigError)
    assert given.json_of('"\\ud834\\udd1e é"', "it", ConfigError) == "\U0001d11e é"


@pytest.mark.parametrize("word", ["nan", "-inf", "1e400"])
def test_numbers_of_toml_are_finite(word: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for line in ("sm_count", "dram_gb_per_s", "lanes"):  # of a section each, one that is checked by name among them
        path.write_text(re.sub(rf"(?m)^{line} = .*", f"{line} = {word}", carver.arch.devices.to_toml(H200)))
        with pytest.raises(ArchError, match="no finite number"):
            carver.load_arch(path)


# Files that do not end, and settings of others


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero here")
@pytest.mark.parametrize(
    "words",
    [
        ("recommend", "--many", "FILE", "--arch", "h200"), ("check", "FILE", "--operator", "matmul"),
        ("rank", "matmul", "64", "64", "64", "--arch", "h200", "--configs", "FILE"), ("explain", "hint", "FILE"),
        ("records", "import", "FILE"), ("inspect", f"{__file__}:M", "--args", "FILE", "--arch", "h200"),
    ],
)  # fmt: skip
def test_a_file_without_an_end(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(given, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(given.content, "__defaults__", (1 << 20,))
    monkeypatch.setattr(given.text_of, "__defaults__", (1 << 20,))
    said = "cannot be read twice" if "--args" in words else "holds more than 1 MiB"
    assert said in refused(*words, file=Path("/dev/zero"))


@pytest.mark.parametrize("what", ["dangling", "loop", "pipe", "folder", "device", "everybody's", "everybody's folder"])
@pytest.mark.parametrize("kind", ["arch", "templates/matmul"])
def test_settings_that_are_no_files_of_the_users(
    kind: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARVER_CONFIG_DIR", str(tmp_path))
    backends.cache_clear()
    path = tmp_path / kind / "x.toml"
    path.parent.mkdir(parents=True)
    match what:
        case "dangling":
            path.symlink_to("nothing")
        case "loop":
            path.symlink_to(path.name)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.touch()
            (path if what == "everybody's" else path.parent).chmod(0o777)
    try:
        with pytest.raises(ArchError if kind == "arch" else KernelError, match=str(path.parent)) as why:
            carver.load_arch("h200") if kind == "arch" else every("matmul")
    finally:
        backends.cache_clear()
    assert "cannot be read" in str(why.value) or "no plain file" in str(why.value) or "everybody" in str(why.value)


def test_a_range_of_values_is_counted_before_it_is_listed() -> None:
    with pytest.raises(ConfigError, match="1000000000000000 combinations of values are more than"):
        M.with_arch("h200").rank({"BLOCK_M": range(10**15), "num_warps": [4]})


def test_configurations_are_counted_as_they_come() -> None:
    for configs in (range(10**12), itertools.repeat({"BLOCK_M": 64})):
        with pytest.raises(ConfigError, match=r"at most 1000000 configurations"):
            M.with_arch("h200").rank(configs)  # type: ignore[arg-type]


def test_sizes_of_a_portfolio_are_no_number() -> None:
    for sizes in (3, np.array(3)):
        with pytest.raises(ProblemError, match="sizes are a range, a list, or a mapping"):
            M.with_arch("h200").portfolio(2, M=sizes)  # type: ignore[arg-type]


class Pair(Record):
    first: int
    second: list[int] = dataclasses.field(default_factory=list, compare=False)


def test_a_record_is_a_frozen_dataclass() -> None:
    one = Pair(1)
    assert str(inspect.signature(Pair)) == "(first: 'int', second: 'list[int]' = [])"
    assert one == Pair(first=1, second=[2]) != Pair(2) and hash(one) == hash(Pair(1))
    assert one.second is not Pair(1).second and repr(one) == "Pair(first=1, second=[])"
    assert dataclasses.replace(one, first=3) == pickle.loads(pickle.dumps(Pair(3))) == Pair(3, [4])
    for args, words in (((), {}), ((1, [], 2), {}), ((1,), {"first": 2}), ((1,), {"third": 2})):
        with pytest.raises(TypeError, match="Pair"):
            Pair(*args, **words)  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.first = 2  # type: ignore[misc]
