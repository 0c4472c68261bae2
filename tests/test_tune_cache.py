"""Keys, buckets, both caches, saving and loading, and several processes that tune at once."""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tuned
from cases import holds_for_each
from click.testing import CliRunner
from test_tune import X, cache, tuner  # noqa: F401 (the fixture)
from tuned import QUICK, scale, twice

import carver
from carver.base import given, store
from carver.base.errors import ConfigError, Foreign
from carver.base.folders import cache_folder
from carver.cli.main import main
from carver.run.records import Records
from carver.tune import cache as disk
from carver.tune.keys import Unstable, call_key, device_key, plain, pow2


def kept_keys() -> list[str]:
    return sorted(store.get(disk.KIND))


def put(key: str, found: Any) -> None:
    """Whatever is found, with the digest that it then has, as whoever can write to the store could put it there."""
    if isinstance(found, dict):
        found = json.dumps(found | {"digest": disk._digest_of(found)}).encode()
    store.to_write().put(disk.KIND, key, found)


def held(key: str) -> Any:
    return json.loads(store.get(disk.KIND, [key])[key] or "")


def forget(key: str) -> None:
    store.to_write().drop(disk.KIND, [key])


# keys


def make(factor: int, text: str = "a") -> Callable[[int], int]:
    def fn(n: int) -> int:
        return n * factor + len(text)

    return fn


def test_a_function_is_known_by_its_source_and_what_it_closes_over() -> None:
    assert plain(make(2)) == plain(make(2))
    assert plain(make(2)) != plain(make(3))
    assert plain(make(2)) != plain(make(2, "ab"))
    assert plain(lambda n: n) != plain(lambda n: n + 1)
    defaults = [plain(eval(f"lambda n={k}: n")) for k in (1, 1, 2)]
    assert defaults[0] == defaults[1] != defaults[2]


def test_what_has_no_identity_is_refused_with_its_name() -> None:
    thing = object()

    def fn() -> object:
        return thing

    with pytest.raises(Unstable, match="fn closes over 'thing': a object has no identity"):
        plain(fn)


READS = {
    "an inner function": "def helper(x): return x + VALUE\ndef f(n):\n def run(x): return helper(x)\n return run",
    "a table": "TABLE = {'a': [1, (VALUE,)]}\ndef f(n): return TABLE['a']",
    "another module": "from other import g\ndef f(n): return g(n)",
    "a module's attribute": "import other\ndef f(n): return lambda: other.g(n)",
    "an import inside": "def f(n):\n import other\n return other.g(n)",
    "a wrapped kernel": "class Made:\n def __init__(self, fn): self.fn = fn\n"
    "@Made\ndef kernel(x): return x + VALUE\ndef f(n): return kernel",
    "a cached function": "import functools\n@functools.lru_cache\ndef g(x): return x + VALUE\ndef f(n): return g(n)",
    "a class": "class Shape:\n def area(self): return VALUE\ndef f(n): return Shape().area()",
    "what a method calls": "def g(): return VALUE\nclass Shape:\n def area(self): return g()\ndef f(n): return Shape()",
    "a base class": "class Base:\n SIDE = VALUE\nclass Shape(Base):\n pass\ndef f(n): return Shape.SIDE",
    "a number of a class": "SIDE = VALUE\nclass Shape:\n SIDE = SIDE\n LOCK = object()\ndef f(n): return Shape.SIDE",
    **{f"what a {how} calls": f"import functools\ndef g(): return VALUE\nclass Shape:\n @{how}\n def area(self):"
       "  return g()\ndef f(n): return Shape" for how in ("property", "functools.cached_property", "classmethod")},
    "a method of a member": "import enum\ndef g(): return VALUE\nclass Way(enum.Enum):\n ONE = 1\n"
    " def area(self): return g()\nway = Way.ONE\ndef f(n): return way.area()",
    "a method of a record": "from dataclasses import dataclass, field\ndef g(): return VALUE\n@dataclass\n"
    "class Shape:\n side: list = field(default_factory=list)\n def area(self): return g()\n"
    "shape = Shape()\ndef f(n): return shape.area()",
    "the class of a wrapper": "class Made:\n def __init__(self, fn): self.fn = fn\n def __call__(self): return VALUE\n"
    "@Made\ndef kernel(x): return x\ndef f(n): return kernel",
    "an import of an import": "def f(n):\n import between\n return between.g(n)",
    "a name taken of an import": "def f(n):\n from between import g\n return g(n)",
    "a module of a package": "def f(n):\n from package import inner\n return inner.g(n)",
}


@pytest.mark.parametrize("what", READS)
def test_what_a_function_reads_is_part_of_it(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(folder: str, value: int) -> Any:
        home = tmp_path / folder
        home.mkdir()
        (home / "user.py").write_text(READS[what].replace("VALUE", str(value)))
        (home / "other.py").write_text(f"def g(x): return x + {value}\n")
        (home / "between.py").write_text("import json\nfrom other import g\n")
        (home / "package").mkdir()
        (home / "package" / "inner.py").write_text("from . import deep\n")
        (home / "package" / "deep.py").write_text(f"from other import g\nVALUE = {value}\n")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(home)
            for name in ("user", "other"):
                patch.delitem(sys.modules, name, raising=False)
            found = plain(importlib.import_module("user").f)
            for name in ("user", "other"):
                sys.modules.pop(name, None)
        return found

    assert key("one", 1) == key("same", 1) != key("edited", 2)


@pytest.mark.slow
def test_the_order_of_a_set_is_no_part_of_a_key(tmp_path: Path) -> None:
    """What is met first is written out; hashes of text, so the order of a set, differ from process to process."""
    (tmp_path / "user.py").write_text(
        "import enum\nclass Way(enum.Enum):\n A = 1\n B = 2\n C = 3\nways = {*Way}\ndef f(): return ways\n"
        "from carver.tune.keys import plain\nimport json\nprint(json.dumps(plain(f)))"
    )
    said = {
        subprocess.run([sys.executable, tmp_path / "user.py"], env={**os.environ, "PYTHONHASHSEED": seed},
                       capture_output=True, check=True).stdout for seed in "1234"
    }  # fmt: skip
    assert len(said) == 1


def test_what_is_installed_is_known_by_its_name() -> None:
    log, flat, shape = logging.getLogger("here"), np.dtype("float16"), re.compile

    def fn(x: Any) -> Any:
        return np.exp(x), flat, log, shape, json.dumps, carver.MatmulTemplate, tuned.np.einsum, print, tuned.twice

    assert plain(fn) == plain(fn) and len(json.dumps(plain(fn))) < 3000
    assert plain(np.exp)[0] == plain(json.dumps)[0] == "name"


def test_a_global_without_identity_is_refused_with_its_name(tmp_path: Path) -> None:
    scope: dict[str, Any] = {"THING": object()}
    exec("def fn():\n return lambda: THING", scope)
    with pytest.raises(Unstable, match="fn reads 'THING': a object has no identity"):
        plain(scope["fn"])


def test_many_paths_to_one_function_are_walked_once() -> None:
    scope: dict[str, Any] = {}
    exec("def f0(): pass\n" + "".join(f"def f{i}(): f{i - 1}() or f{i - 1}() or g{i}()\ndef g{i}(): f{i - 1}()\n"
                                      for i in range(1, 60)), scope)  # fmt: skip
    assert len(json.dumps(plain(scope["f59"]))) < 60_000


def test_cores_are_part_of_the_key_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    arch = carver.CPU("auto")
    before = device_key("cpu", arch)
    monkeypatch.setattr("carver.tune.keys.cores_available", lambda: 77)
    assert device_key("cpu", arch) != before


@holds_for_each(range(1, 70))
def test_pow2(n: int) -> None:
    assert pow2(n) >= n and pow2(n) & (pow2(n) - 1) == 0 and (pow2(n) < 2 * n)


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({}, False), ({"bucket": "pow2"}, True), ({"bucket": lambda n: n // 1000}, True), ({"key": ["m"]}, False),
        ({"key": ["dtype"]}, True), ({"do_not_specialize": ["m"]}, True), ({"key": lambda m, dtype: m > 5}, True),
    ],
)  # fmt: skip
def test_keys_of_calls(options: dict[str, Any], same: bool) -> None:
    chosen = {"key": None, "bucket": None, "do_not_specialize": (), **options}
    keys = [call_key({"m": m, "dtype": "f16"}, what="f", **chosen) for m in (1500, 1600)]
    assert (keys[0] == keys[1]) is same
    other = call_key({"m": 1500, "dtype": "f32"}, what="f", **chosen)
    assert (other == keys[0]) is (options.get("key") == ["m"] or callable(options.get("key")))


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({}, 4), ({"key": "n"}, 2), ({"key": ["n", "delay"]}, 3), ({"key": lambda delay: delay}, 2),
        ({"do_not_specialize": "n"}, 3), ({"key": ["n", "delay"], "bucket": "pow2"}, 2),
    ],
)  # fmt: skip
def test_a_default_is_what_the_call_gives(options: dict[str, Any], groups: int) -> None:
    work = carver.autotune(configs=[{"ways": 1}], **options, **QUICK)(scale)
    calls: list[dict[str, int]] = [{"n": 100}, {"n": 100, "delay": 3000}, {"n": 120}, {"n": 120, "delay": 5}]
    assert len({json.dumps(work._keyed_on((), call)) for call in calls}) == groups


def test_arrays_are_keyed_by_type_and_shape() -> None:
    def key(x: Any, bucket: str | None = None) -> Any:
        return call_key({"x": x}, None, bucket, (), "f")

    assert key(X) == key(X + 1) == key(X[::-1]) != key(X[:50]) != key(X.astype(np.float64)[:50])
    assert key(X[:60], "pow2") == key(X[:64], "pow2") != key(X[:65], "pow2")


@pytest.mark.parametrize("options", [{"key": ["k"]}, {"do_not_specialize": ["k"]}])
def test_unknown_names_in_keys(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="f has no argument 'k' to key on; known: m"):
        call_key({"m": 1}, **{"key": None, "bucket": None, "do_not_specialize": (), **options}, what="f")
    with pytest.raises(ConfigError, match="bucket must be 'pow2' or a function"):
        carver.autotune(configs=[{}], bucket="pow3")(scale)


# buckets


@pytest.mark.slow
def test_sizes_of_a_bucket_share_a_tuning_but_not_a_kernel() -> None:
    configs = [{"ways": 2, "delay": 900}, {"ways": 1}]
    work = carver.autotune(configs=configs, bucket="pow2", ref_prog=twice, **QUICK)(scale)
    first, second = work(100), work(120)
    assert work.result(100) is work.result(120) is not work.result(200)
    np.testing.assert_array_equal(first(X), 2 * X)
    y = np.arange(120, dtype=np.float32)
    np.testing.assert_array_equal(second(y), 2 * y)
    assert second.params[0].shape == (120,)


def costly(n: int, small: bool = True) -> Any:
    """One tunable is right for small sizes, the other for large ones."""
    slow = (n > 100) == small
    return tuned.sleeper(n, 40.0 if slow else 0.5)


@pytest.mark.slow
def test_check_bucket_says_what_sharing_costs() -> None:
    configs = [{"small": True}, {"small": False}]
    work = carver.autotune(configs=configs, bucket=lambda n: n // 1000, **QUICK)(costly)
    with carver.set_autotune_inputs(X):
        rows = work.check_bucket([(10,), (50,), (500,), (2000,)])
    assert [r.config for r in rows] == [{"small": True}] * 3 + [{"small": False}]
    assert [r.best_config for r in rows] == [{"small": True}] * 2 + [{"small": False}] * 2
    assert rows[0].measured == rows[3].measured == 0
    assert rows[2].measured and rows[2].measured > 1, "far slower, however late a busy system wakes a sleeper"
    assert rows[0].predicted is None
    assert repr(rows[0]) == "<(10,) with small=True: +0 % measured; its best is small=True>"
    with pytest.raises(ConfigError, match="needs the argument sets"):
        carver.check_bucket(work, [])


def test_check_bucket_predicts_from_hints_without_measuring() -> None:
    def hints(m: int) -> Any:
        return carver.MatmulTemplate(M=m, N=4096, K=4096).with_arch("h200").recommend_hints(200, backend="triton")

    def kernel(m: int, BLOCK_M: int = 1, BLOCK_N: int = 1, BLOCK_K: int = 1, num_warps: int = 1) -> Any:
        return tuned.sleeper(m)

    work = carver.autotune(configs=hints, bucket=lambda n: 0, **QUICK)(kernel)
    with carver.set_autotune_inputs(X):
        rows = carver.check_bucket(work, [(4096,), (4000,), (16,)], measure=False)
    assert rows[0].predicted == 0 and rows[0].measured is None
    assert rows[1].predicted is not None and rows[1].predicted < 0.2
    assert rows[2].predicted is None or rows[2].predicted > rows[1].predicted


# on disk


@pytest.mark.slow
def test_a_second_process_finds_it_and_the_history() -> None:
    made = tuner(scale, [{"ways": 1}, {"ways": 6}], ref_prog=twice)
    first = made.run()
    code = (
        "import sys, json, numpy as np; sys.path.insert(0, sys.argv[1]); import carver, tuned\n"
        "t = carver.AutoTuner.from_kernel(tuned.scale, [{'ways': 1}, {'ways': 6}], (100,))\n"
        "r = t.set_profile_args(ref_prog=tuned.twice, **tuned.QUICK).run()\n"
        "two = float(r.kernel(np.ones(100, 'f4'))[0])\n"
        "print(json.dumps([r.key, r.latency_ms, len(r.table), r.env['run_id'], two]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == [first.key, first.latency_ms, 2, first.env["run_id"], 2.0]


def test_what_the_key_covers() -> None:
    def key(kernel: Any = scale, configs: Any = None, n: int = 100, **settings: Any) -> str:
        made = tuner(kernel, configs or [{"ways": 1}], n)
        from carver.tune.plan import Tuning

        return made.plan(Tuning(**{**QUICK, **settings})).key

    def other(n: int, ways: int = 1) -> carver.Kernel:
        return scale.fn(n, ways)

    base = key()
    assert base == key() == key(configs=[{"ways": 1}])
    different = [
        key(configs=[{"ways": 1}, {"ways": 2}]), key(n=101), key(rep=6), key(warmup=2), key(rtol=0.5), key(timeout=3),
        key(ref_prog=twice), key(ref_prog=lambda x: x), key(skip_check=True), key(supply_type="one"), key(seed=1),
        key(trials=1), key(carver.jit(out_idx=0)(scale.fn)), key(other), key(warm_cache=False),
    ]  # fmt: skip
    assert len({base, *different}) == len(different) + 1
    with carver.set_autotune_inputs(X):
        given = key()
    with carver.set_autotune_inputs(X + 1):
        assert given == key() != base, "contents of given inputs are no part of it"


@pytest.mark.slow
def test_one_more_candidate_measures_only_that_one(capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    tuner(scale, [{"ways": 1}, {"ways": 3}], ref_prog=twice).run()
    monkeypatch.setenv("CARVER_PRINT_AUTOTUNING", "1")
    result = tuner(scale, [{"ways": 1}, {"ways": 3}, {"ways": 2}], ref_prog=twice).run()
    said = capfd.readouterr().err
    assert said.count("(recorded)") == 2 and "ways=2: 3." in said
    assert [m.outcome for m in result.table] == ["ok", "wrong_result", "ok"]


def damage(how: str, key: str) -> None:
    files, found = store.to_write(), held(key)
    match how:
        case "truncated":
            put(key, store.get(disk.KIND, [key])[key][:200])
        case "no text":
            put(key, b"\xff\x00")
        case "edited":
            files.put(disk.KIND, key, json.dumps(found | {"config": {"ways": 7}}).encode())
        case "flipped":
            with files.writing() as db:
                db.execute("UPDATE entries SET body = CAST(body || x'20' AS BLOB) WHERE kind = ?", (disk.KIND,))
        case "binary":
            put(key, found | {"contents": found["contents"] | {"kernel.so": b64encode(b"\x7fELF nonsense").decode()}})
        case "source gone":
            put(key, found | {"contents": {"kernel.so": found["contents"]["kernel.so"]}})
        case "other key":
            put(key, held(key) | {"key": "f" * 64})
        case "schema":
            put(key, held(key) | {"schema": 99})
        case "types":
            put(key, held(key) | {"table": 7})
        case "no time":
            put(key, held(key) | {"latency_ms": None})


@pytest.fixture(scope="module")
def tuned_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with one entry."""
    folder = tmp_path_factory.mktemp("before")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARVER_CACHE_DIR", str(folder))
        tuner(scale, [{"ways": 1}], ref_prog=twice).run()
    return folder


@pytest.mark.parametrize(
    "how",
    [
        "truncated", "no text", "edited", "flipped", "binary", "source gone", "other key", "schema", "types", "no time",
    ],
)  # fmt: skip
def test_damaged_and_foreign_entries_are_rebuilt(how: str, tuned_before: Path) -> None:
    shutil.copytree(tuned_before, os.environ["CARVER_CACHE_DIR"], dirs_exist_ok=True)
    made = tuner(scale, [{"ways": 1}], ref_prog=twice)
    first = made.run()
    (key,) = kept_keys()
    damage(how, key)
    assert ([e.problem for e in disk.entries()] != [""]) is (how != "no time")
    with pytest.warns(UserWarning, match="is made anew"):
        again = made.run()
    assert again.config == {"ways": 1} and again.env["run_id"] == first.env["run_id"], "from the records, not measured"
    np.testing.assert_array_equal(again.kernel(X), 2 * X)
    assert [e.problem for e in disk.entries()] == [""]
    assert made.run().latency_ms == first.latency_ms


def test_nothing_is_pickled_and_everything_is_readable(tmp_path: Path) -> None:
    result = tuner(scale, [{"ways": 1}], ref_prog=twice).run()
    assert held(result.key)["config"] == {"ways": 1}
    result.save(tmp_path / "shipped")
    shipped = json.loads((tmp_path / "shipped").read_text())
    assert sorted(shipped["contents"]) == ["kernel.c", "kernel.so"] and shipped["config"] == {"ways": 1}
    assert b64decode(shipped["contents"]["kernel.c"]).decode() == tuned.SCALE
    assert not [p for p in Path(os.environ["CARVER_CACHE_DIR"]).rglob("*.pkl")]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")], "no staging is left"


def test_what_is_found_needs_no_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing them for a large problem takes seconds."""
    made = tuner(scale, [{"ways": 1}], ref_prog=twice)
    first = made.run()

    def draw(*_: Any) -> Any:
        raise AssertionError("drawn")

    monkeypatch.setattr("carver.run.inputs._draw", draw)
    assert made.run().env["inputs_sha256"] == first.env["inputs_sha256"]
    np.testing.assert_array_equal(made.run().kernel(X), 2 * X)


@pytest.mark.slow
def test_fresh_measures_again() -> None:
    made = tuner(scale, [{"ways": 1}])
    first, second = made.run(), made.run(fresh=True)
    assert first.env["run_id"] != second.env["run_id"]
    assert made.run().env["run_id"] == second.env["run_id"]


@pytest.mark.parametrize("name", ["CARVER_DISABLE_CACHE", "CARVER_DISABLE_TUNE_CACHE"])
def test_caches_can_be_switched_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    work = carver.autotune(configs=[{"ways": 1}], **QUICK)(scale)
    work(100)
    first = work.result(100)
    assert not kept_keys()
    assert (work.result(100) is first) is (name == "CARVER_DISABLE_TUNE_CACHE")


def test_what_cannot_be_keyed_stays_in_the_process_and_says_so() -> None:
    thing = object()

    def closure(pause_ms: float) -> Any:
        assert thing is not None
        return tuned.sleeper(0, pause_ms)

    with carver.set_autotune_inputs(X):
        result = carver.AutoTuner.from_kernel(closure, [{"pause_ms": 0.1}]).run(**QUICK)
    assert "not kept beyond this process" in result.notes[0] and "'thing'" in result.notes[0]
    assert not kept_keys()


def test_save_and_load(tmp_path: Path) -> None:
    result = tuner(scale, [{"ways": 1}, {"ways": 6}], ref_prog=twice).run()
    result.save(tmp_path / "shipped")
    forget(result.key)
    loaded = carver.AutotuneResult.load(tmp_path / "shipped")
    np.testing.assert_array_equal(loaded.kernel(X), 2 * X)
    assert loaded.to_dict() == result.to_dict()
    binary = loaded.kernel.compile()
    shipped = b64decode(json.loads((tmp_path / "shipped").read_text())["contents"]["kernel.so"])
    assert binary.cached and binary.path.read_bytes() == shipped, "the binary that was shipped"
    again = carver.AutotuneResult.load(tmp_path / "shipped")
    (tmp_path / "shipped").write_bytes(b"another result took the file's place")
    np.testing.assert_array_equal(again.kernel(X), 2 * X)


@pytest.mark.slow
def test_a_binary_of_another_machine_is_compiled_anew(tmp_path: Path) -> None:
    tuner(scale, [{"ways": 1}], ref_prog=twice).run().save(tmp_path / "shipped")
    path = tmp_path / "shipped"
    found = json.loads(path.read_text())
    found["kernel"]["compiler"] = "cc 1.0 of another machine"
    found["digest"] = disk._digest_of(found)
    path.write_text(json.dumps(found))
    with pytest.raises(ConfigError, match=r"saved by another user or on another machine.*trust=True"):
        carver.AutotuneResult.load(tmp_path / "shipped").kernel(X)
    loaded = carver.AutotuneResult.load(tmp_path / "shipped", trust=True)
    np.testing.assert_array_equal(loaded.kernel(X), 2 * X)
    assert not str(loaded.kernel.compile().path).startswith(str(tmp_path / "shipped"))


def test_loading_what_is_not_a_result(tmp_path: Path) -> None:
    with pytest.raises(carver.CarverError, match="is no plain file"):
        carver.AutotuneResult.load(tmp_path)
    with pytest.raises(carver.CarverError, match="is no saved result"):
        carver.AutotuneResult.load(tmp_path / "nothing")


def test_of_python_code_only_the_configuration_is_kept(tmp_path: Path) -> None:
    with carver.set_autotune_inputs(X):
        made = tuner()
        made.run().save(tmp_path / "shipped")
        assert made.run().kernel(X)[1] == 2, "in the tuner's own process it is built from the function"
    loaded = carver.AutotuneResult.load(tmp_path / "shipped")
    assert loaded.config == {"pause_ms": 0.2}
    with pytest.raises(ConfigError, match=r"call the function with \{'pause_ms': 0.2\}"):
        _ = loaded.kernel


@pytest.mark.slow
def test_commands() -> None:
    run = CliRunner().invoke
    tuner(scale, [{"ways": 1}], ref_prog=twice).run()
    tuner(scale, [{"ways": 1}], 50).run()
    good, broken = kept_keys()
    damage("truncated", broken)
    listed = json.loads(run(main, ["cache", "list", "--json"]).output)
    assert [bool(row["problem"]) for row in listed] == [False, True]
    assert listed[0]["config"] == {"ways": 1} and listed[0]["kernel"] == "scale"
    assert "unusable" in run(main, ["cache", "list"]).output
    kept = carver.AutotuneResult.of(disk.load(good), trust=True)
    chosen = replace(kept, latency_ms=None, table=(), key="0" * 64, built=None)
    disk.save(chosen.key, chosen.to_dict(), {})  # as another version might
    assert "scale  not measured  ways=1" in run(main, ["cache", "list"]).output
    forget(chosen.key)
    said = json.loads(run(main, ["doctor", "--json"]).output)
    assert said["caches"]["tuned"]["entries"] == 2 and len(said["caches"]["tuned"]["unusable"]) == 1
    assert said["compilers"]["C"] and "missing" in said and "CARVER_CPU_FRACTION" in said["settings"]
    assert said["compilers_at_once"] >= 1 and said["caches"]["records"]["runs"] >= 1
    assert said["descriptors"]["folder"].endswith("arch") and said["declarations"]["names"] == []
    assert said["packages"]["triton"] == (version("triton") if find_spec("triton") else None)
    assert "HIP" in said["compilers"]
    assert "devices\n  cpu " in run(main, ["doctor"]).output and "\npackages\n" in run(main, ["doctor"]).output
    assert run(main, ["cache", "clear", "zzz"]).exit_code == 2
    assert "1 deleted" in run(main, ["cache", "clear", broken[:10]]).output
    assert json.loads(run(main, ["cache", "clear", "--json"]).output) == {"deleted": 1}
    assert kept_keys() == []
    with Records() as records:
        left = records.find()
    assert len(left) == 2, "what was measured stays"
    made = tuner(scale, [{"ways": 1}], ref_prog=twice)
    anew = made.run()
    assert anew.table[0].uuid not in {m.uuid for m in left}, "but the cleared tuning is made anew"
    forget(kept_keys()[0])
    assert made.run().table == anew.table, "and its own measurements count again"


# several processes

TWO = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
import carver, tuned
from carver.run.records import Records
name, count, dies = sys.argv[2], int(sys.argv[3]), sys.argv[4]
configs = [{"ways": 2, "delay": 10000 + 6000 * i} for i in range(count)]
put, done = Records.put, []

def dying(records, *measured):
    put(records, *measured)
    done.append(measured)
    if dies and len(done) == 3:
        try:
            open(dies, "x").close()  # whichever of them comes here first
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

Records.put = dying
n = {"same": 100, "other": 200}[name]
tuner = carver.AutoTuner.from_kernel(tuned.scale, configs, (n,))
result = tuner.set_profile_args(ref_prog=tuned.twice, **{**tuned.QUICK, "rep": 3}).run()
print(json.dumps([result.key, result.config, len(result.table), sorted(m.uuid for m in result.table)]))
"""


def start(name: str, count: int, dies: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TWO, str(Path(__file__).parent), name, str(count), dies],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    return json.loads(out)


def leases() -> list[Path]:
    return list((cache_folder() / "leases").glob("*"))


@pytest.mark.slow
def test_processes_tune_at_once_and_one_is_killed_in_the_middle(tmp_path: Path) -> None:
    """Three processes, two of them at the same kernel; one of these dies once it has measured three."""
    count = 8
    pair, other = [start("same", count, str(tmp_path / "died")) for _ in range(2)], start("other", count)
    ended = {process.wait(90): process for process in pair}
    assert sorted(ended) == [-signal.SIGKILL, 0]
    key, config, tried, uuids = finish(ended[0])
    assert tried == count and config == {"ways": 2, "delay": 10000}
    assert finish(other)[0] != key
    again = finish(start("same", count))
    assert again == [key, config, count, uuids], "found on disk, the same measurements"
    with Records() as records:
        rows = records.find(kernel="scale")
    assert not leases()
    same = [m for m in rows if m.problem["sizes"] == {"n": 100}]
    assert len(same) == len({m.candidate for m in same}) == count, "nothing lost, nothing tuned twice"
    assert len(rows) == 2 * count and all(m.ok for m in rows)
    assert [e.problem for e in disk.entries()] == ["", ""], "no torn entry"


@pytest.mark.slow
def test_a_shipped_kernel_can_be_read_without_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of several devices of one kind a cached kernel is for the one that is asked for."""
    from carver.base.errors import DeviceError
    from carver.tune import cache as module

    def nothing(name: str) -> Any:
        raise DeviceError("no NVIDIA GPU here")

    program = {
        "source": {"path": "k.cu", "defines": {}, "flags": [], "entries": ["f"], "isa": "sm_90"},
        "calls": [{"entry": "f", "grid": [1, 1, 1], "block": 1, "dynamic_smem_bytes": 0, "args": ["Y"]}],
        "workspace_bytes": 0, "inputs": [], "output": {"name": "Y", "shape": [1], "dtype": "float32", "align_bytes": 1},
    }  # fmt: skip
    made = tuner(scale, [{"ways": 1}], ref_prog=twice)
    found, _ = made.run()._files()
    found["kernel"] |= {"program": program, "sources": ["k.cu"], "binary": "kernel.cubin", "device": "cuda:0"}
    disk.write(tmp_path / "shipped", found, {"k.cu": b"__global__ void f() {}\n", "kernel.cubin": b"cubin"})
    with monkeypatch.context() as patch:
        patch.setattr(module.archs, "load", nothing)
        patch.setattr("carver.run.built.device_of", nothing)
        loaded = carver.AutotuneResult.load(tmp_path / "shipped")
        assert loaded.config == {"ways": 1} and len(loaded.table) == 1
        with pytest.raises(DeviceError, match="no NVIDIA GPU here"):
            loaded.kernel(X, X)
    asked: list[str | None] = []
    monkeypatch.setattr(module, "_restore", lambda d, files, device: asked.append(device))
    made.run()
    assert asked == ["cpu"]


def test_many_keys_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carver.tune.decorator.MANY_KEYS", 2)
    work = carver.autotune(configs=[{"ways": 1}], **QUICK)(scale)
    work(10)
    with pytest.warns(UserWarning, match=r"scale was tuned for 2 different keys.*bucket='pow2'"):
        work(11)


def test_sources_are_unpacked_by_many_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    from carver.base.store import unpack

    texts = {"kernel.c": b"int x;\n" * 1000, "part.h": b"int y; // \xe9\n"}
    with ThreadPoolExecutor(16) as pool:
        paths = set(pool.map(lambda _: unpack(texts), range(200)))
    (path,) = paths
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == texts


@pytest.mark.parametrize(
    ("saved", "here", "kept"), [("sm_90a", "sm_90", True), ("sm_90", "sm_90", True), ("sm_80", "sm_90", False)]
)
def test_a_cubin_is_kept_where_its_isa_is_the_devices(
    saved: str, here: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: a saved CUDA kernel, restored on a machine with another GPU or the same."""
    from carver.tune.cache import _restore

    files = {"k.cu": b"__global__ void f() {}\n", "kernel.cubin": b"cubin"}
    arch = carver.load_arch("h200").replace(isa=here)
    monkeypatch.setattr("carver.tune.cache.archs.load", lambda name: arch)
    program = {
        "source": {"path": "k.cu", "defines": {}, "flags": [], "entries": ["f"], "isa": saved},
        "calls": [{"entry": "f", "grid": [1, 1, 1], "block": 1, "dynamic_smem_bytes": 0, "args": ["Y"]}],
        "workspace_bytes": 0, "inputs": [], "output": {"name": "Y", "shape": [1], "dtype": "float32", "align_bytes": 1},
    }  # fmt: skip
    entry = {
        "program": program, "sources": ["k.cu"], "binary": "kernel.cubin", "log": "", "compiler": "nvcc",
        "sha256": hashlib.sha256(b"cubin").hexdigest(), "device": "cuda:0", "out": [-1],
        "params": [{"name": "Y", "shape": [1], "dtype": "float32", "is_output": True}],
    }  # fmt: skip
    built = _restore(entry, files, None)
    assert (built._binary is not None) is kept
    assert built.source.isa == (saved if kept else here)
    with pytest.raises(ConfigError, match="the saved kernel is for cuda:0; it cannot run on cpu"):
        _restore(entry, files, "cpu")


def test_templates_and_devices_are_keyed_on_all_that_they_hold() -> None:
    h200 = carver.CUDA("h200")
    every = [
        carver.MatmulTemplate(16, 16, 16), carver.MatmulTemplate(16, 16, 16, trans_B=True),
        carver.MatmulTemplate(16, 16, 16, with_bias=True), carver.MatmulTemplate(16, 16, 16).with_arch("h200"),
        h200, h200.replace(clock_hz=1e9),
    ]  # fmt: skip
    keys = [json.dumps(plain(value)) for value in every]
    assert len(set(keys)) == len(every)
    assert json.dumps(plain(carver.MatmulTemplate(16, 16, 16))) == keys[0]


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives hits and takes nothing; what is tuned anew is returned with a note."""
    first = tuner(scale, [{"ways": 1}], ref_prog=twice).run()
    store.to_write().close()  # as the process that wrote it does when it ends
    before = {p: p.stat().st_mtime_ns for p in cache_folder().rglob("*")}
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not (
        mode == os.W_OK and Path(path).is_relative_to(cache_folder())) and allowed(path, mode))  # fmt: skip
    again = tuner(scale, [{"ways": 1}], ref_prog=twice).run()
    assert again.table == first.table and again.env == first.env
    np.testing.assert_array_equal(again.kernel(X), 2 * X)
    with pytest.warns(UserWarning, match="not kept beyond this process: .* cannot be written") as said:
        other = tuner(scale, [{"ways": 1, "delay": 7}], ref_prog=twice).run()
    assert said[0].filename == __file__, "the user's own line"
    assert other.table[0].ok and "cannot be written" in other.notes[-1]
    assert {p: p.stat().st_mtime_ns for p in cache_folder().rglob("*")} == before


@pytest.mark.slow
@pytest.mark.parametrize("how", ["link", "large", "types", "deep"])
def test_a_file_from_elsewhere_is_looked_at_before_it_is_read(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner(scale, [{"ways": 1}], ref_prog=twice).run().save(tmp_path / "shipped")
    path = tmp_path / "shipped"
    found = json.loads(path.read_text())
    if how == "link":
        path.rename(tmp_path / "elsewhere.json")
        path.symlink_to(tmp_path / "elsewhere.json")
    elif how == "large":
        path.write_text(path.read_text() + " " * given.MOST_BYTES)
    elif how == "types":
        found["table"] = 7
        found["digest"] = disk._digest_of(found)
        path.write_text(json.dumps(found))
    else:
        path.write_text("[" * 100_000)
    with pytest.raises(Foreign):
        carver.AutotuneResult.load(tmp_path / "shipped")


@pytest.mark.slow
def test_brackets_in_a_config_are_shown() -> None:
    def odd(n: int, name: str) -> carver.Kernel:
        return scale.fn(n, 1)

    result = tuner(odd, [{"name": "[/red] [bold]x"}]).set_compile_args(out_idx=[-1]).run()
    assert "name=[/red] [bold]x" in str(result)


@pytest.mark.slow
def test_what_the_compiler_lacked_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two candidates could not be compiled for want of disk: both are tried the next time."""
    compiler = tmp_path / "cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *DELAY=77*) if test -e {tmp_path}/full; then\n'
        "echo 'kernel.c:1: fatal error: error writing to /tmp/x.s: No space left on device' >&2; exit 1; fi;; esac\n"
        'exec gcc "$@"\n'
    )
    compiler.chmod(0o700)
    monkeypatch.setenv("CC", str(compiler))
    (tmp_path / "full").touch()
    made = tuner(scale, [{"ways": 1, "delay": 76}, {"ways": 1, "delay": 77}], ref_prog=twice, search="exhaustive")
    with pytest.warns(UserWarning, match="of 1 candidates the compiler could do nothing"):
        first = made.run()
    assert [m.outcome for m in first.table] == ["ok", "crash"] and not kept_keys()
    (tmp_path / "full").unlink()
    again = made.run()
    assert [m.outcome for m in again.table] == ["ok", "ok"] and again.table[0].uuid == first.table[0].uuid
