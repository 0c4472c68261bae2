"""What was tuned goes elsewhere: keys that outlive patch releases, archives, caches of others, tuning switched off."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tuned
from click.testing import CliRunner
from test_tune import X, cache, tuner  # noqa: F401 (the fixture)
from tuned import QUICK, scale, twice

import carver
from carver.base import store
from carver.base.child import Reply
from carver.base.errors import ConfigError, DeviceError, Foreign, RunError, StoreError
from carver.base.folders import cache_folder
from carver.cli.main import main
from carver.run.bench import versions as software_versions
from carver.run.device import CpuDevice
from carver.run.records import Records
from carver.run.session import Session
from carver.tune import cache as disk
from carver.tune import keys
from carver.tune.keys import minor, normal, plain, software_key
from carver.tune.plan import Tuning
from carver.tune.sessions import Sessions

run = CliRunner().invoke


# keys


def test_comments_and_formatting_are_no_part_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(folder: str, text: str) -> Any:
        import importlib

        home = tmp_path / folder
        home.mkdir()
        (home / "written_anew.py").write_text(text)
        (home / "beside.py").write_text(f"X = 1{text[:1]}")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(home)
            fn = importlib.import_module("written_anew").f
            del sys.modules["written_anew"]
            return plain(fn)

    first = "\ndef f(n, a=1):\n    import beside\n    return g(n) + a\ndef g(x):\n    return [x, 'a']\n"
    second = (
        "# a comment\ndef f(n,\n      a=1):\n    'What it does.'\n    import beside  # here\n\n    return (g(n)\n"
        "            + a)\ndef g(x): return [ x, \"a\" ]\n"
    )
    assert found("one", first) == found("two", second)
    assert found("three", first.replace("+ a", "- a")) != found("four", first)


def test_what_is_no_whole_statement_is_taken_as_it_is() -> None:
    assert normal("lambda: (") == "lambda: ("
    assert normal("    def f():\n        '''Only words.'''\n") == "def f():\n    pass"


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("3.11.7", "3.11"), ("2.13.0+cpu", "2.13"), ("V13.0.88", "V13.0"), ("9", "9"), ("", ""),
        ("cc (Debian 12.2.0-14+deb12u1) 12.2.0", "cc 12.2"),
        ("Ubuntu clang version 14.0.0-1ubuntu1.1", "Ubuntu clang version 14.0"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
         "NVRM version: NVIDIA UNIX x86_64 Kernel Module 550.54"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build  (root@x)",
         "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64 575.57"),
    ],
)  # fmt: skip
def test_minor_versions(said: str, known: str) -> None:
    assert minor(said) == known


def key(configs: Any = None, n: int = 100, fn: Callable[..., Any] = scale, **settings: Any) -> str:
    return tuner(fn, configs or [{"ways": 1}], n).plan(Tuning(**{**QUICK, **settings})).key


@pytest.mark.parametrize("level", ["loose", "strict", ""])
def test_patch_releases_do_not_retune_unless_keys_are_strict(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = dict(software_versions())
    monkeypatch.setenv("CARVER_KEY", level)
    monkeypatch.setattr(keys, "versions", lambda *_: versions)
    before = key()
    python, numpy = versions["python"], versions["numpy"]
    versions |= {"python": f"{python.rpartition('.')[0]}.99", "numpy": f"{numpy.rpartition('.')[0]}.99"}
    assert (key() == before) is (level != "strict")
    versions["python"] = "3.99.0"
    assert key() != before


def test_a_compiler_counts_by_its_minor_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"

    def is_version(version: str) -> str:
        said = f'[ "$*" = --version ] && echo "cc (Vendor {version}-1) {version}" && exit'
        compiler.write_text(f'#!/bin/sh\n{said}\nexec gcc "$@"\n')
        compiler.chmod(0o700)
        os.utime(compiler, ns=(hash(version) % 10**18,) * 2)
        monkeypatch.setenv("CC", str(compiler))
        return key()

    first = is_version("77.1.0")
    assert is_version("77.1.9") == first != is_version("77.2.0")
    monkeypatch.setenv("CARVER_KEY", "strict")
    assert is_version("77.1.0") != is_version("77.1.9")


def test_the_level_of_keys_has_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_KEY", "lose")
    with pytest.raises(ConfigError, match="CARVER_KEY must be 'strict' or 'loose', got 'lose'"):
        software_key("cpu")


@pytest.mark.slow
def test_why_tells_what_entered_a_key_and_what_differs() -> None:
    first = tuner(scale, [{"ways": 1}], 100, ref_prog=twice).run()
    second = tuner(scale, [{"ways": 1}], 200, ref_prog=twice).run(rep=6)
    rows = json.loads(run(main, ["cache", "why", first.key[:9], "--json"]).output)
    told = {row["part"]: row[first.key[:12]] for row in rows}
    assert json.loads(told["arguments"]) == {"n": 100} and "def scale" in told["function"]
    assert {"function", "device", "software", "candidates", "programs", "search", "timing", "checks"} <= told.keys()
    shown = run(main, ["cache", "why", first.key[:9], second.key[:9]], env={"COLUMNS": "100"}).output
    lines = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert lines["arguments.n"] == ["100", "200"] and lines["timing.rep"] == ["5", "6"]
    assert "function" not in lines and "software.python" not in lines
    assert "nothing" in run(main, ["cache", "why", first.key, first.key]).output
    unknown = run(main, ["cache", "why", "zz"])
    assert unknown.exit_code == 2 and "no entry 'zz'" in unknown.output + (unknown.stderr or "")


def test_of_functions_the_lines_that_differ_are_told() -> None:
    from carver.tune.keys import differences

    a = {"f": "def f(n):\n    return n", "g": 1, "h": [1, {"x": "a"}]}
    b = {"f": "def f(n):\n    return n + 1", "g": 1, "h": [1, {"x": "b"}], "i": True}
    assert differences(a, b) == [("f", "    return n", "    return n + 1"), ("h[1].x", "a", "b"), ("i", "-", "true")]
    assert differences(a, a) == []


# never a measurement


@pytest.fixture
def no_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sessions, "measure", lambda *_: pytest.fail("measured"))


WAYS = [{"ways": 2}, {"ways": 1}]


def test_tuning_switched_off_takes_the_first(no_measurements: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_TUNING", "off")
    work = carver.autotune(configs=WAYS, ref_prog=twice, **QUICK)(scale)
    np.testing.assert_array_equal(work(100)(X), 2 * X)
    result = work.result(100)
    assert result.config == {"ways": 2} and result.latency_ms is None and result.table == ()
    assert result.notes == ("not measured (CARVER_TUNING=off): the first candidate",)
    assert "not measured" in repr(result) and "not measured" in str(result) and result.speedup is None
    assert not list(disk.entries())


@pytest.mark.slow
def test_the_first_of_the_ranking_is_the_best_predicted_that_fits(
    no_measurements: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARVER_TUNING", "off")
    op = carver.MatmulTemplate(M=64, N=64, K=64, in_dtype="float32", out_dtype="float32").with_arch("cpu")
    hints = op.recommend_hints(5)
    result = carver.AutoTuner.from_template(op, 5).run()
    assert result.config == dict(hints[0].config) and result.predicted_ms == hints[0].predicted_ms
    assert result.notes == ("not measured (CARVER_TUNING=off): the first of the ranking",)
    a, b = np.ones((64, 64), np.float32), np.eye(64, dtype=np.float32)
    np.testing.assert_array_equal(result.kernel(a, b).reshape(64, 64), a)
    refused = [{"ways": 9}, {"ways": 1}]  # the first does not compile
    assert carver.AutoTuner.from_kernel(scale, refused, (100,)).run().config == {"ways": 1}
    with pytest.raises(RunError, match=r"no configuration of scale fits .* or compiles"):
        carver.AutoTuner.from_kernel(scale, [{"ways": 9}], (100,)).run()


@pytest.mark.slow
def test_cached_takes_what_was_tuned_else_the_nearest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned_at = {n: tuner(scale, WAYS, n, ref_prog=twice).run() for n in (100, 10000)}
    monkeypatch.setenv("CARVER_TUNING", "cached")
    monkeypatch.setattr(Sessions, "measure", lambda *_: pytest.fail("measured"))
    again = tuner(scale, WAYS, 100, ref_prog=twice).run()
    assert again.latency_ms == tuned_at[100].latency_ms and again.notes == ()
    for n, near in ((150, 100), (5000, 10000)):
        result = tuner(scale, WAYS, n, ref_prog=twice).run(rep=9)
        assert result.config == {"ways": 1} and result.latency_ms is None
        key = tuned_at[near].key[:12]
        assert result.notes == (f"not measured (CARVER_TUNING=cached): the best of the nearest tuned size, {key}",)
    entry = disk.load(tuned_at[100].key)
    assert entry is not None
    plain = {name: value for name, value in entry.found.items() if name in (*disk.SAVED, "kernel", "parts")}
    plain["table"][0].pop("message")  # as a version with other columns would write it
    disk.save(tuned_at[100].key, plain, entry.files)
    assert tuned_at[10000].key[:12] in tuner(scale, WAYS, 150, ref_prog=twice).run(rep=9).notes[0]
    other = tuner(tuned.sleeper, [{"pause_ms": 30.0}, {"pause_ms": 1.0}], 1, supply_prog=lambda _: X).run()
    assert other.config == {"pause_ms": 30.0} and "the first candidate" in other.notes[0]
    monkeypatch.setenv("CARVER_DISABLE_TUNE_CACHE", "1")
    assert tuner(scale, WAYS, 150, ref_prog=twice).run().config == {"ways": 2}


def test_times_of_the_nearest_size_are_scaled_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 100, `a` takes 2 ms and `b` 3; the model says that at 1000 `a` takes ten times as long and `b` two."""
    predicted = {(100, "a"): 1.0, (100, "b"): 1.0, (1000, "a"): 10.0, (1000, "b"): 2.0}

    def timed(n: int, which: str = "a") -> Any:
        return tuned.sleeper(n, {"a": 2.0, "b": 3.0}[which])

    def planned(n: int) -> Any:
        made = tuner(timed, [{"which": "a"}, {"which": "b"}], n)
        with carver.set_autotune_inputs(X):
            plan = made.plan(Tuning(**QUICK))
        plan.entries = [replace(e, predicted_ms=predicted[n, e.config["which"]]) for e in plan.entries]
        return made, plan

    made, plan = planned(100)
    assert made.tune(plan).config == {"which": "a"}
    monkeypatch.setenv("CARVER_TUNING", "cached")
    made, plan = planned(1000)
    result = made.tune(plan)
    assert result.config == {"which": "b"} and 5.5 < result.predicted_ms < 12
    assert "its times scaled by the model" in result.notes[0]


def test_modes_of_tuning_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_TUNING", "cache")
    with pytest.raises(ConfigError, match=r"CARVER_TUNING must be on, cached or off, got 'cache'.*cached"):
        tuner(scale, WAYS, 100).run()


@pytest.mark.slow
def test_one_candidate_is_not_measured_unless_something_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = carver.autotune(configs=[{"ways": 1}], ref_prog=twice, **QUICK)(scale)
    assert checked.result(100).table[0].ok
    monkeypatch.setattr(Sessions, "measure", lambda *_: pytest.fail("measured"))
    work = carver.autotune(configs=[{"ways": 1}], **QUICK)(scale)
    np.testing.assert_array_equal(work(100)(X), 2 * X)
    assert work.result(100).notes == ("not measured (one candidate): the first candidate",)


@pytest.mark.slow
def test_equal_times_are_told_apart_by_their_configs() -> None:
    """So that every rank chooses alike, in whatever order it lists them."""
    found = set()
    for configs in ([{"k": 1}, {"k": 2}], [{"k": 2}, {"k": 1}]):
        with carver.set_autotune_inputs(X):
            made = carver.AutoTuner.from_kernel(same, configs).run(**QUICK, bench=tuned.fixed_bench)
        found.add(made.config["k"])
    assert found == {1}


def same(k: int) -> Any:
    return tuned.sleeper(0, 0.1)


# others on the device


def busy_device(monkeypatch: pytest.MonkeyPatch, times_ms: Any) -> None:
    """The baseline takes these times after each timing, and 1 ms before."""
    left = iter(times_ms)
    sample = Session.sample

    def sampled(*args: Any, **kwargs: Any) -> Reply:
        reply = sample(*args, **kwargs)
        assert len(reply.data["conditions"]["baseline_ms"]) == 2
        reply.data["conditions"] = {"baseline_ms": [1.0, next(left)]}
        return reply

    monkeypatch.setattr(Session, "sample", sampled)
    monkeypatch.setattr("carver.run.session.REST_S", 0.0)


@pytest.mark.slow
def test_disturbed_timings_are_taken_again_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    busy_device(monkeypatch, [1.0, 7.0, 3.0, 1.1])
    result = tuner(scale, WAYS, ref_prog=twice, retakes=3).run()
    said = "2 timings were taken again, as others had the device: the baseline kernel took up to 7 x its time"
    assert result.notes == (said,)
    assert [e.found["notes"] for e in disk.entries()] == [list(result.notes)]
    with Records() as records:
        assert len(records.find()) == 2


@pytest.mark.slow
def test_what_stays_disturbed_is_not_kept_nor_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_is_quiet = [1.0, *[9.0] * 3]  # ways=2, then ways=1 three times
    busy_device(monkeypatch, slow_is_quiet)
    with pytest.warns(UserWarning, match="not kept: 1 of 2 candidates were timed while others had the device"):
        result = tuner(scale, WAYS, ref_prog=twice, retakes=2).run()
    assert result.config == {"ways": 2} and "2 timings were taken again" in result.notes[0]
    assert not list(disk.entries())
    with Records() as records:
        assert [m.config for m in records.find()] == [{"ways": 2}]
    monkeypatch.undo()


@pytest.mark.slow
def test_where_one_timing_stayed_disturbed_the_next_are_taken_again_less(monkeypatch: pytest.MonkeyPatch) -> None:
    busy_device(monkeypatch, [9.0] * 5 + [9.0] * 3)  # at once and four times again; then two times again
    with pytest.warns(UserWarning, match="not kept: 2 of 2"):
        result = tuner(scale, WAYS, ref_prog=twice, retakes=4).run()
    assert "6 timings were taken again" in result.notes[0]


@pytest.mark.slow
def test_all_disturbed_still_gives_the_best_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    busy_device(monkeypatch, [9.0] * 4)
    with pytest.warns(UserWarning, match="not kept: 2 of 2"):
        assert tuner(scale, WAYS, ref_prog=twice, retakes=1).run().config == {"ways": 1}


def test_a_run_that_always_loses_a_core_is_disturbed() -> None:
    lane = Session.__new__(Session)
    lane._quiet_ms = float("inf")

    def busy(**conditions: Any) -> float:
        return lane._busy(Reply("ok", data={"conditions": conditions}))

    assert busy(baseline_ms=[2.0, 2.0]) == 1.0 and busy(baseline_ms=[1.0, 1.0]) == 1.0
    assert busy(baseline_ms=[1.0, 2.5], disturbed_percent=40) == 2.5
    assert busy(baseline_ms=[1.0, 1.0], disturbed_percent=100) == float("inf")
    assert busy() == 0.0 == lane._busy(Reply("crash", "gone"))


def test_the_baseline_of_a_cpu_is_no_timing_of_a_candidate() -> None:
    device = CpuDevice()
    assert 0 < device.baseline_s() < 1
    assert device.disturbed_percent() is None


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_retakes_are_a_number(value: Any) -> None:
    with pytest.raises(ConfigError, match="retakes must be a whole number"):
        Tuning(retakes=value)


# archives


@pytest.mark.slow
def test_an_archive_is_the_cache_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tuner(scale, WAYS, ref_prog=twice).run()
    store.put(disk.PROFILE, "scale", b"{}")
    said = json.loads(run(main, ["cache", "export", "all.carver", "--binaries", "--json"]).output)
    assert said["entries"] == 1 and said["profiles"] == 1 and said["binaries"] >= 1
    same = run(main, ["cache", "export", "same.carver", "--binaries", "--json"]).output
    assert json.loads(same) == said, "byte for byte"
    made = tmp_path / "all.carver"
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert run(main, ["cache", "import", str(made), "--sha256", "0" * 64]).exit_code != 0
    assert not (tmp_path / "elsewhere").exists()
    moved = run(main, ["cache", "import", str(made), "--sha256", said["sha256"]])
    assert moved.output.startswith("1 tuned, 1 profile, ") and "0 were there already" in moved.output
    assert "0 tuned" in run(main, ["cache", "import", str(made)]).output, "what is there is left alone"
    monkeypatch.setattr(Sessions, "measure", lambda *_: pytest.fail("measured"))
    again = tuner(scale, WAYS, ref_prog=twice).run()
    assert again.table == first.table and again.key == first.key
    np.testing.assert_array_equal(again.kernel(X), 2 * X)
    assert store.get(disk.PROFILE) == {"scale": b"{}"}
    moved_entry = disk.load(first.key)
    assert moved_entry is not None and moved_entry.signed, "by who imported it"


@pytest.mark.slow
def test_keys_choose_what_is_exported(tmp_path: Path) -> None:
    first, second = (tuner(scale, WAYS, n, ref_prog=twice).run() for n in (100, 200))
    assert disk.export_archive(tmp_path / "one.carver", [second.key[:10]]).entries == 1
    for e in list(disk.entries()):
        disk.remove(e.key)
    assert disk.import_archive(tmp_path / "one.carver").entries == 1
    assert [e.key for e in disk.entries()] == [second.key]
    with pytest.raises(ConfigError, match="no entry 'zz'"):
        disk.export_archive(tmp_path / "none.carver", ["zz"])
    assert first.key != second.key and not (tmp_path / "none.carver").exists()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """The key of a tuning, and an archive of it."""
    home = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARVER_CACHE_DIR", str(home / "cache"))
        key = tuner(scale, WAYS, ref_prog=twice).run().key
        disk.export_archive(home / "good", binaries=True)
    return key, (home / "good").read_bytes()


EDITS = {
    "edited": "UPDATE entries SET body = CAST(body || x'0a' AS BLOB) WHERE kind = 'tuned'",
    "no text": "UPDATE entries SET key = CAST(x'ff00' AS TEXT) WHERE kind = 'tuned'",
    "another format": "PRAGMA user_version = 99",
    "another program": "PRAGMA application_id = 1",
    "a view": "ALTER TABLE entries RENAME TO others; CREATE VIEW entries AS SELECT * FROM others",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
    "a table more": "CREATE TABLE others (x)",
    "no table": "DROP TABLE entries",
}


@pytest.mark.parametrize(
    "how",
    [
        *EDITS, "left out", "added", "binary", "other key", "kind", "outside", "a long name", "many", "large", "cut",
        "no archive", "a device", "a pipe",
    ],
)  # fmt: skip
def test_an_archive_is_checked_before_anything_of_it_is_used(
    how: str, exported: tuple[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, good = exported
    bad = tmp_path / "bad"
    rows = {(kind, name): body for kind, name, body in store.packed(good, bad, 1 << 16, 1 << 30)}
    entry = json.loads(rows[disk.KIND, key])
    match how:
        case "left out":
            del entry["contents"]["kernel.c"]
        case "added":
            entry["contents"]["more"] = "bW9yZQ=="
        case "binary":
            entry["contents"]["kernel.so"] = "f0VMRiBvdGhlcg=="
        case "other key":
            rows = {(kind, name.replace(key, "f" * 64)): body for (kind, name), body in rows.items()}
        case "kind":
            rows["measurement", "x"] = b"{}"
        case "outside":
            rows[disk.BLOB, "../x.so"] = b"more"
        case "a long name":
            rows[disk.BLOB, "x" * 300] = b"more"
        case "many":
            monkeypatch.setattr(disk, "_MOST_ENTRIES", 2)
        case "large":
            monkeypatch.setattr(disk, "_MOST_BYTES", 1000)
    if how in ("left out", "added", "binary"):
        rows[disk.KIND, key] = json.dumps(entry).encode()
    content = store.pack(store.Row(*name, body) for name, body in rows.items())
    if how in EDITS:
        with closing(sqlite3.connect(":memory:")) as db:
            db.deserialize(content)
            db.executescript(EDITS[how])
            content = db.serialize()
    bad.write_bytes({"cut": content[: len(content) // 2], "no archive": b"PK nonsense"}.get(how, content))
    if how in ("a device", "a pipe"):
        monkeypatch.setattr(disk, "_MOST_BYTES", 1 << 20)
        bad.unlink()
        bad.symlink_to("/dev/zero") if how == "a device" else os.mkfifo(bad)
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "elsewhere"))
    with pytest.raises(Foreign):
        disk.import_archive(bad)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_trust_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CONFIG_DIR", str(tmp_path / "config"))
    key = tuner(scale, WAYS, ref_prog=twice).run().key
    shared = cache_folder()
    (shared / store.NAME).chmod(0o666)
    with pytest.raises(DeviceError, match=f"can be written to by others, .*run 'carver cache trust {shared}'"):
        disk.load(key)
    assert run(main, ["cache", "trust", str(shared)]).output == f"{shared}\n"
    monkeypatch.setattr(Sessions, "measure", lambda *_: pytest.fail("measured"))
    np.testing.assert_array_equal(tuner(scale, WAYS, ref_prog=twice).run().kernel(X), 2 * X)
    (tmp_path / "config" / "trusted_caches").chmod(0o666)
    assert run(main, ["cache", "trust"]).output == "none\n", "others could have written it"
    (tmp_path / "config" / "trusted_caches").chmod(0o600)
    assert run(main, ["cache", "trust", str(shared), "--drop"]).output == "none\n"


@pytest.mark.slow
def test_a_disk_that_runs_full_costs_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is full nothing is kept, neither measurement nor result; half an entry is not left."""

    def full(*_: Any, **__: Any) -> None:
        raise StoreError("database or disk is full")

    def no_space(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="not kept: .*No space left on device"):
        patch.setattr(Records, "put", full)
        patch.setattr(disk, "save", no_space)
        result = tuner(scale, WAYS, ref_prog=twice).run()
    assert result.config == {"ways": 1} and "measurements were not recorded: database or disk is full" in result.notes
    np.testing.assert_array_equal(result.kernel(X), 2 * X)
    assert not list(disk.entries())
    again = tuner(scale, WAYS, ref_prog=twice).run()
    assert again.notes == () and len(list(disk.entries())) == 1


@pytest.mark.slow
def test_a_full_disk_is_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tuner(scale, WAYS, ref_prog=twice).run()
    monkeypatch.setattr("carver.base.folders.ROOM_BYTES", 1 << 62)
    assert tuner(scale, WAYS, ref_prog=twice).run().table == kept.table
    with pytest.warns(UserWarning, match="not kept beyond this process: .* is full"):
        tuner(scale, [*WAYS, {"ways": 1, "delay": 1}], ref_prog=twice).run()
    assert len(list(disk.entries())) == 1


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="mounts and users need root on Linux")
@pytest.mark.parametrize("row", [
    pytest.param("another user", marks=pytest.mark.slow),
    *(pytest.param(row, marks=pytest.mark.exhaustive) for row in ("read-only mount", "full disk")),
])  # fmt: skip
def test_caches_travel_for_real(row: str) -> None:
    """With mounts, users and disks as they are; benchmarks/travel.py has the other rows."""
    home = Path(__file__).parent.parent
    if row == "another user" and not all(folder.stat().st_mode & 1 for folder in (home, *home.parents)):
        pytest.skip("another user cannot read this checkout")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CARVER_")}
    done = subprocess.run(
        [sys.executable, str(home / "benchmarks" / "travel.py"), row], capture_output=True, text=True, check=False,
        env=environment, timeout=300,
    )  # fmt: skip
    if "Operation not permitted" in done.stdout:
        pytest.skip("this container may not mount")
    assert done.returncode == 0 and done.stdout.count("ok  ") >= 2, done.stdout + done.stderr
