"""Options and settings of the whole suite."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy loads: a test process has one core for itself
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # threads of a process that starts do not spin for 0.04 s first
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of a thousand processes compiles carver's modules anew

import gc
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from cases import answerable, device_for, template
from hypothesis import HealthCheck, settings

import carver

_SLOW_IS_FINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("repeatable", derandomize=True, max_examples=80, **_SLOW_IS_FINE)
settings.register_profile("explore", max_examples=3000, **_SLOW_IS_FINE)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite tests/golden instead of comparing with it")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process a core. One on a machine with a GPU, where kernels that are timed side by side disturb each other."""
    from carver.run.cuda import device_count

    return 0 if device_count() and config.option.markexpr != "not gpu" else len(os.sched_getaffinity(0))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Modules and tests last until the end: Python's collector walks through none of them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from carver.run.cuda import device_count

    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not device_count():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU and PyCUDA"))


@pytest.fixture(autouse=True, scope="session")
def _no_descriptors_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A calibrated descriptor in the user's own folder would change every number."""
    patch = pytest.MonkeyPatch()
    patch.setenv("CARVER_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
    patch.setenv("CARVER_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))  # else runs of the suite wait for each other


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache folder for the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARVER_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", params=list(answerable()), ids="-".join)
def ranking(request: pytest.FixtureRequest) -> carver.Ranking:
    """Of every operator that carver answers for, by every backend of it."""
    operator, backend = request.param
    return template(operator, 1000, 504, 768).with_arch(device_for(backend)).recommend_hints(30, backend)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], ModuleType]:
    """Writes a module of that name and text and imports it, with a cache folder of its own."""

    def make(name: str, text: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return make


@pytest.fixture
def interpreted() -> Callable[[str, str], None]:
    """Runs lines in a process that knows of Triton's interpreter before it imports Triton: they say that."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")

    def run(lines: str, says: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, sys.argv[1])\n{lines}", str(Path(__file__).parent)],
            capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "TRITON_INTERPRET": "1"},
        )  # fmt: skip
        assert done.stdout == says, done.stderr

    return run


@pytest.fixture
def declaration(tmp_path: Path):  # type: ignore[no-untyped-def]
    """A kernel declaration of one's own: `declaration(text)` loads it from a file."""
    from carver.kernels import declaration as kernel

    def write(text: str, name: str = "toy", operator: str = "matmul") -> kernel.Kernel:
        path = tmp_path / operator / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return kernel.load(path)

    return write
