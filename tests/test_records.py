"""The database of measurements: nothing is lost, nothing foreign is touched, everything comes back as it went in."""

from __future__ import annotations

import functools
import io
import json
import math
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from carver.base import folders, store
from carver.base.errors import DeviceError, StoreError
from carver.base.folders import cache_folder, lease
from carver.cli.main import main
from carver.run import records
from carver.run.records import Measurement, Records, RecordsError, median_interval, without_outliers


def measurement(**changes: object) -> Measurement:
    given = {
        "run_id": "r1", "candidate": "c1", "outcome": "ok", "operator": "matmul", "problem": {"sizes": {"m": 8}},
        "kernel": "mma", "backend": "cuda", "config": {"block_m": 64}, "arch": "h200", "device": "NVIDIA H200",
        "host": "a", "rank": 1, "predicted_ms": 0.5, "bound": "dram", "terms_ms": {"dram": 0.4, "launch": 0.1},
        "device_info": {"driver": "580"}, "versions": {"carver": "1"}, "hint": {"config": {"block_m": 64}},
    }  # fmt: skip
    return Measurement(**{**given, **changes})  # type: ignore[arg-type]


@pytest.fixture
def db(tmp_path: Path) -> Records:
    return Records(tmp_path / "records.sqlite")


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([3.0], (3.0, 3.0, 3.0)),
        ([1.0, 2.0, 3.0], (2.0, 1.0, 3.0)),
        # Conover's table for n = 6 is (1st, 6th), for 10 (2nd, 9th), for 20 (6th, 15th)
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (3.5, 1.0, 6.0)),
        ([float(i) for i in range(1, 11)], (5.5, 2.0, 9.0)),
        ([float(i) for i in range(20, 0, -1)], (10.5, 6.0, 15.0)),
    ],
)
def test_interval_of_the_median(samples: list[float], expected: tuple[float, float, float]) -> None:
    assert median_interval(samples) == expected


@pytest.mark.parametrize("distribution", ["normal", "exponential", "two clocks", "one outlier in ten"])
@pytest.mark.parametrize("n", [12, 50, 100])
def test_interval_covers_the_median_as_often_as_it_says(distribution: str, n: int) -> None:
    rng = np.random.default_rng(n)
    draw = {
        "normal": lambda: (rng.normal(10, 1, n), 10.0),
        "exponential": lambda: (rng.exponential(1, n), math.log(2)),
        # of 60 % around 1.0 and 40 % around 1.2, half lie below the 5/6 quantile of the first
        "two clocks": lambda: (np.where(rng.random(n) < 0.6, rng.normal(1, 1e-3, n), rng.normal(1.2, 1e-3, n)),
                               1 + 1e-3 * statistics.NormalDist().inv_cdf(5 / 6)),
        "one outlier in ten": lambda: (np.where(rng.random(n) < 0.9, rng.normal(1, 0.01, n), 5.0),
                                       1 + 0.01 * statistics.NormalDist().inv_cdf(5 / 9)),
    }[distribution]  # fmt: skip
    hits = 0
    for _ in range(2000):
        samples, median = draw()
        _, low, high = median_interval(samples.tolist())
        hits += low <= median <= high
    assert hits / 2000 > 0.94


def test_one_sample_says_nothing_of_the_interval() -> None:
    m = measurement()
    assert m.with_round([1.0], {}).ci_percent is None
    assert m.with_round([1.0, 2.0], {}).ci_percent == pytest.approx(100 / 3)


def test_outliers_by_mad() -> None:
    # median 10, MAD 1: the modified z-score 3.5 lies at a distance of 5.19
    assert without_outliers([9, 10, 11, 8, 12, 15, 16]) == [9, 10, 11, 8, 12, 15, 16]  # median 11, MAD 2
    assert without_outliers([9, 10, 11, 9, 11, 10, 15, 16]) == [9, 10, 11, 9, 11, 10, 15]  # median 10.5, MAD 1
    assert without_outliers([5, 5, 5, 9]) == [5, 5, 5, 9], "MAD 0 says nothing about outliers"


def test_round_trip_through_rows_and_json(db: Records) -> None:
    m = measurement().with_round([0.5, 0.7, 0.6], {"clock_hz": 1.98e9, "temperature_c": 41})
    m = m.with_round([0.1, 0.9], {"clock_hz": 1.9e9})
    assert m.samples_ms == (0.5, 0.7, 0.6, 0.1, 0.9) and m.median_ms == 0.6
    assert m.ci_percent == pytest.approx(100 * (0.9 - 0.1) / 2 / 0.6)
    db.put(m)
    assert db.find() == [m]
    assert Measurement.from_dict(json.loads(json.dumps(m.to_dict()))) == m


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_a_time_that_is_none_is_a_crash_and_never_stored(db: Records, bad: float) -> None:
    m = measurement().with_round([0.5, 0.7], {})
    after = m.with_round([0.6, bad], {})
    assert (after.outcome, after.rounds_ms) == ("crash", m.rounds_ms) and repr(bad) in after.message
    with pytest.raises(RecordsError, match="rounds_ms"):
        measurement(rounds_ms=((bad,),))


def test_a_bad_row_is_left_out_and_told(db: Records) -> None:
    for name in ("bad", "good"):
        db.put(measurement(uuid=name, candidate=name))
    for column, value in (("rounds_ms", "[[NaN]]"), ("config", "{"), ("outcome", "fine")):
        with db._store.writing() as raw:
            raw.execute(f"UPDATE measurements SET {column} = ? WHERE uuid = 'bad'", (value,))
        with pytest.warns(UserWarning, match="left out bad"):
            assert [m.uuid for m in db.find()] == ["good"]
    db.put(measurement(uuid="again", candidate="bad"))
    assert sorted(m.uuid for m in db.find()) == ["again", "good"], "measured again, in its place"


def test_a_full_disk_is_said_to_be_full(db: Records) -> None:
    with db._store.reading() as raw:
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
        raw.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="full"):
        for i in range(100):
            db.put(measurement(candidate=str(i), message="x" * 4000))


def test_put_again_updates_and_keeps_one_row(db: Records) -> None:
    m = measurement()
    db.put(m)
    db.put(m.with_round([1.0], {}))
    assert [x.rounds_ms for x in db.find()] == [((1.0,),)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["1", "2", "3"]),
        ({"operator": "gemv"}, ["3"]),
        ({"outcome": "crash", "operator": "matmul"}, ["2"]),
        ({"device": "other"}, []),
        ({"problem": {"sizes": {"m": 9}}}, ["2"]),
        ({"since": "2030-01-01"}, ["3"]),
    ],
)
def test_find(db: Records, filters: dict[str, str], expected: list[str]) -> None:
    db.put(measurement(uuid="1", candidate="a"))
    db.put(measurement(uuid="2", candidate="b", outcome="crash", problem={"sizes": {"m": 9}}))
    db.put(measurement(uuid="3", candidate="c", operator="gemv", created_at="2031-05-05T00:00:00.000+00:00"))
    assert [m.uuid for m in db.find(**filters)] == expected  # type: ignore[arg-type]


def test_show_takes_an_unambiguous_prefix(db: Records) -> None:
    db.put(measurement(uuid="abc-1", candidate="a"))
    db.put(measurement(uuid="abd-2", candidate="b"))
    assert db.show("abd").candidate == "b"
    for bad, said in [("ab", "abc-1, abd-2"), ("x", "none"), ("%", "none")]:
        with pytest.raises(RecordsError, match=said):
            db.show(bad)


def test_export_import(db: Records, tmp_path: Path) -> None:
    for i in range(3):
        db.put(measurement(candidate=str(i), uuid=f"u{i}").with_round([0.1 * i + 0.1], {}))
    out = io.StringIO()
    assert db.export(out) == 3
    with Records(tmp_path / "other.sqlite") as other:
        other.put(measurement(candidate="1", uuid="u1", message="mine"))
        assert other.import_(out.getvalue().splitlines()) == (2, 1)
        assert {m.uuid: m.message for m in other.find()} == {"u0": "", "u1": "mine", "u2": ""}
        assert other.import_(out.getvalue().splitlines()) == (0, 3)


def _line(**changes: object) -> str:
    return json.dumps({"carver_record": 1, **measurement().to_dict(), **changes})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 is not a record of version 1"),
        (json.dumps({**json.loads(_line()), "carver_record": 2}), "line 2 is not a record of version 1"),
        (_line(outcome="fine"), "line 2: outcome 'fine'"),
        (_line(extra=1), "line 2: .*unknown: extra"),
        (_line(predicted_ms="fast"), "predicted_ms must be a number or None, got 'fast'"),
        (_line(rank=True), "rank must be a whole number or None, got True"),
        (_line(rounds_ms=[[-1.0]]), "rounds_ms"),
        (_line(problem=None), "problem must be a mapping, got None"),
    ],
)
def test_import_takes_all_or_nothing(db: Records, line: str, said: str) -> None:
    with pytest.raises(RecordsError, match=said):
        db.import_([_line(uuid="good"), line])
    assert db.find() == []


def test_prune(db: Records) -> None:
    db.put(measurement(uuid="old", candidate="a", created_at="2020-01-01T00:00:00.000+00:00"))
    db.put(measurement(uuid="bad", candidate="b", outcome="timeout"))
    db.put(measurement(uuid="new", candidate="c"))
    with pytest.raises(RecordsError, match="needs a filter"):
        db.prune()
    with pytest.raises(RecordsError, match="did you mean 'outcome'"):
        db.prune(outcom="ok")
    assert db.prune(older_than_days=30) == 1
    assert db.prune(outcome="timeout") == 1
    assert [m.uuid for m in db.find()] == ["new"]


def test_a_run_is_resumed_until_asked_for_a_fresh_one(db: Records) -> None:
    first = db.begin("key", "cpu", {"rounds": 3})
    db.put(measurement(run_id=first.run_id, candidate="a"), spent_s=1.5)
    db.put(measurement(run_id=first.run_id, candidate="b"), spent_s=2.0)
    db.finish(first)
    again = db.begin("key", "cpu", {"rounds": 3})
    assert (again.run_id, again.spent_s) == (first.run_id, 3.5) and again.finished_at is not None
    fresh = db.begin("key", "cpu", {"rounds": 3}, fresh=True)
    assert fresh.run_id != first.run_id
    assert db.begin("key", "cpu", {}).run_id == fresh.run_id, "the newest run of a key is the one resumed"
    assert db.begin("key", "gpu", {}).run_id not in (first.run_id, fresh.run_id)


def test_foreign_and_damaged_files_are_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as other:
        other.execute("CREATE TABLE photos (id)")
    text = tmp_path / "text.sqlite"
    text.write_text("this is no database, " * 100)
    newer = tmp_path / "newer.sqlite"
    Records(newer).close()
    with sqlite3.connect(newer) as other:
        other.execute("PRAGMA user_version = 99")
    for path, said in [(foreign, "'photos'"), (text, "not a database"), (newer, "format 99, this carver reads 1")]:
        before = path.read_bytes()
        with pytest.raises(StoreError, match=said):
            Records(path)
        assert path.read_bytes() == before


def test_damage_inside_is_an_error_that_says_what_to_do(db: Records) -> None:
    for i in range(200):
        db.put(measurement(candidate=str(i)))
    db.close()
    raw = bytearray(db.path.read_bytes())
    raw[8192:] = b"\x5a" * (len(raw) - 8192)
    db.path.write_bytes(raw)
    with pytest.raises(StoreError, match="move it away"), Records(db.path) as damaged:
        damaged.find()
    assert db.path.read_bytes() == raw


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="CARVER_CACHE_DIR"):
        Records(tmp_path / "file" / "records.sqlite")


_WRITER = """
import sys
sys.path.insert(0, {tests!r})
from test_records import measurement
from carver.run.records import Records
with Records(sys.argv[1]) as db:
    print("open", flush=True)
    for i in range(int(sys.argv[3])):
        db.put(measurement(candidate=sys.argv[2] + str(i)))
        print(i, flush=True)
"""


def _writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    code = _WRITER.format(tests=str(Path(__file__).parent))
    command = [sys.executable, "-c", code, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)


@pytest.mark.slow
def test_many_processes_write_at_once_and_create_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "records.sqlite"
    writers = [_writer(path, name, 20) for name in "abcd"]
    for w in writers:
        w.communicate(timeout=60)
    assert [w.returncode for w in writers] == [0] * 4
    with Records(path) as db:
        assert sorted(m.candidate for m in db.find()) == sorted(f"{name}{i}" for name in "abcd" for i in range(20))


def test_kill_loses_no_committed_row(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    w = _writer(path, "x", 100000)
    assert w.stdout is not None
    while w.stdout.readline().strip() != "25":
        pass
    os.kill(w.pid, signal.SIGKILL)
    said = [int(line) for line in w.communicate()[0].split()]
    with Records(path) as db:
        stored = {m.candidate for m in db.find()}
    assert {f"x{i}" for i in range(max(said, default=25) + 1)} <= stored


def test_lease_excludes_others_and_dies_with_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    code = (
        "import time; from carver.base.folders import lease\n"
        "with lease('gpu 0'):\n    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent)
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    with pytest.raises(DeviceError, match=f"gpu 0 is in use by process {holder.pid} on"), lease("gpu 0"):
        pass
    with lease("gpu 1"):
        pass
    killed = threading.Timer(0.3, holder.kill)
    killed.start()
    told: list[str] = []
    with lease("gpu 0", wait_s=20, waiting=told.append):
        assert told == [f"process {holder.pid} on {os.uname().nodename}"]
    holder.wait()
    assert not list((tmp_path / "leases").iterdir())


def test_a_lease_beside_a_file_excludes_who_has_another_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "h100.json"
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "one"))
    with lease("table", beside=table):
        monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "other"))
        with pytest.raises(DeviceError, match="table is in use by process"), lease("table", beside=table):
            pass
    with lease("table", beside=table):
        assert [each.name for each in tmp_path.iterdir()] == [".h100.json.lock"]
    assert not [*tmp_path.iterdir()]


def test_lease_of_many_takers_has_one_holder_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A taker that waited on the file which the last holder removed must not hold it beside the next one."""
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    inside, most = [0], [0]

    def take() -> None:
        for _ in range(20):
            with lease("gpu", wait_s=30):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    takers = [threading.Thread(target=take) for _ in range(4)]
    for t in takers:
        t.start()
    for t in takers:
        t.join()
    assert most == [1]


def test_a_lock_that_cannot_be_made_is_an_error_that_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARVER_LOCK_DIR", str(tmp_path / "none"))
    with pytest.raises(DeviceError, match=r"none/carver-.* cannot be opened: .*set CARVER_LOCK_DIR"):
        lease("gpu", shared=True).__enter__()


def test_files_where_folders_should_be_cost_only_what_would_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    (tmp_path / "leases").touch(0o600)
    with lease("gpu 0"):
        assert (tmp_path / "leases").is_file() and folders.private("leases") != tmp_path / "leases"


@pytest.mark.parametrize("variable", ["CARVER_CACHE_DIR", "CARVER_CONFIG_DIR", "CARVER_LOCK_DIR", "CARVER_TRUST_CACHE"])
def test_the_home_of_nobody_is_an_error_that_names_the_variable(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = {"CARVER_CONFIG_DIR": folders.config_folder, "CARVER_LOCK_DIR": folders.lock_folder,
             "CARVER_TRUST_CACHE": folders.trusted}  # fmt: skip
    monkeypatch.setenv(variable, "~nobody-of-this-name/x")
    with pytest.raises(DeviceError, match=f"{variable}=~nobody-of-this-name/x: there is no such user"):
        reads.get(variable, cache_folder)()


def test_folders_are_trusted_whatever_bytes_their_names_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CONFIG_DIR", str(tmp_path / "config"))
    odd, umlaut = tmp_path / os.fsdecode(b"\xff"), tmp_path / "caché"
    folders.trust(odd)
    folders.trust(umlaut)
    assert folders.trusted() == [odd.resolve(), umlaut.resolve()]
    folders.trust(odd, drop=True)
    assert folders.trusted() == [umlaut.resolve()]


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", "/somewhere/else")
    assert cache_folder() == Path("/somewhere/else")
    monkeypatch.delenv("CARVER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    if sys.platform == "linux":
        assert cache_folder() == Path("/xdg/carver")


def test_what_cannot_be_written_is_read_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another user, or on a read-only mount; also the records of this cache, of which nothing else may be told."""
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    with Records() as db:
        db.put(measurement())
        assert db.lasting
    for module in (records, folders, store):
        monkeypatch.setattr(module, "is_writable", lambda folder: False)
    monkeypatch.setattr(folders, "_own", functools.cache(folders._own.__wrapped__))  # of the next test's process, none
    for path in (None, tmp_path / "store.sqlite"):
        with Records(path, new=False) as db:
            assert len(db.find()) == 1
            assert [each.name for each in tmp_path.iterdir()] == ["store.sqlite"], "not even a log beside it"
            with pytest.raises(StoreError, match="readonly"):
                db.put(measurement(candidate="c2"))
    with Records() as db:  # for what is measured now
        assert not db.lasting and db.path.parent != tmp_path


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
def test_a_benchmark_says_that_nothing_of_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(folders, "is_writable", lambda folder: False)
    monkeypatch.setattr(folders, "_own", functools.cache(folders._own.__wrapped__))
    words = ["bench", "elementwise", "8", "8", "--dtype", "float32", "--arch", "cpu", "--topk", "1", "--seconds", "0.1"]
    result = CliRunner().invoke(main, [*words, "--rounds", "1", "--no-check"])
    assert f"note: not kept: {tmp_path / 'cache'} cannot be written" in result.stderr
    assert ".py:" not in result.stderr, "a warning is a line"
