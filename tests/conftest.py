"""Options and settings of the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("repeatable", derandomize=True, max_examples=150, **_SLOW_IS_FINE)
settings.register_profile("explore", max_examples=3000, **_SLOW_IS_FINE)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite tests/golden instead of comparing with it")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process a core. One on a machine with a GPU, where kernels that are timed side by side disturb each other."""
    from carver.run.cuda import device_count

    return 0 if device_count() and config.option.markexpr != "not gpu" else len(os.sched_getaffinity(0))


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
