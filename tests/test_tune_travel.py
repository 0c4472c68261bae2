"""What was tuned goes elsewhere: keys that outlive patch releases, archives, caches of others, tuning switched off."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_tune import X, cache, tuner  # noqa: F401 (the fixture)
from tuned import QUICK, scale, twice

from carver.base.errors import ConfigError
from carver.cli.main import main
from carver.run import bench
from carver.tune import keys
from carver.tune.keys import minor, normal, plain, software_key
from carver.tune.plan import Tuning

run = CliRunner().invoke


# keys


def test_comments_and_formatting_are_no_part_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(folder: str, text: str) -> Any:
        import importlib
        import sys

        home = tmp_path / folder
        home.mkdir()
        (home / "kernels.py").write_text(text)
        (home / "beside.py").write_text(f"X = 1{text[:1]}")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(home)
            fn = importlib.import_module("kernels").f
            del sys.modules["kernels"]
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
    versions = dict(bench.versions())
    monkeypatch.setenv("CARVER_KEY", level)
    monkeypatch.setattr(keys, "versions", lambda: versions)
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
    from carver.tune.why import differences

    a = {"f": "def f(n):\n    return n", "g": 1, "h": [1, {"x": "a"}]}
    b = {"f": "def f(n):\n    return n + 1", "g": 1, "h": [1, {"x": "b"}], "i": True}
    assert differences(a, b) == [("f", "    return n", "    return n + 1"), ("h[1].x", "a", "b"), ("i", "-", "true")]
    assert differences(a, a) == []
