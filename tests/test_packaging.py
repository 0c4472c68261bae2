"""Wheel, sdist and editable install carry the data, and what is installed answers a question."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = (
    "import carver, json;"
    "op = carver.MatmulTemplate(64, 64, 64).with_arch('h200');"
    "print(carver.__file__, len(carver.arch_names()), op.recommend_hints(1)[0].kernel)"
)


def run(*args: object, cwd: Path) -> str:
    done = subprocess.run([str(a) for a in args], cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository without what git ignores: an old build/ folder would ship files that are gone."""
    where = tmp_path_factory.mktemp("clone") / "carver"
    ignored = shutil.ignore_patterns(
        ".git",
        ".venv",
        "build",
        "dist",
        "*.egg-info",
        "__pycache__",
        ".*_cache",
        ".hypothesis",
        "*.whl",
        ".whl",
        "*.so",
    )
    shutil.copytree(ROOT, where, ignore=ignored, symlinks=True)
    return where


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that sees this one's packages but carver, and has what builds: all is downloaded once.
    That pyproject.toml names what a build needs, the install of the checkout that runs the tests shows."""
    where = tmp_path_factory.mktemp("bare")
    venv.create(where, with_pip=True)
    purelib = run(where / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=where)
    here = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=where)
    Path(purelib.strip(), "borrowed.pth").write_text(here)
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    run(where / "bin" / "python", "-m", "pip", "install", "-q", *backend, cwd=where)
    return where


@pytest.fixture(scope="module")
def built(clone: Path, bare: Path) -> tuple[Path, Path]:
    """(wheel, sdist); the wheel is built from the sdist, as an index would get it."""
    pytest.importorskip("build")
    run(bare / "bin" / "python", "-m", "build", "--no-isolation", ".", cwd=clone)
    (wheel,), (sdist,) = (clone / "dist").glob("*.whl"), (clone / "dist").glob("*.tar.gz")
    return wheel, sdist


def data(root: Path) -> dict[str, bytes]:
    """Every file of arch/ and templates/ that belongs to the product."""
    kinds = {".toml", ".cu", ".cuh", ".c", ".h"}
    found = {}
    for folder in ("arch", "templates"):
        for path in (root / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.suffix in kinds, f"{path}: setup.py ships no *{path.suffix}"
                found[f"carver/_{path.relative_to(root).as_posix()}"] = path.read_bytes()
    return found


@pytest.mark.slow
def test_the_wheel_holds_all_data_and_nothing_else(built: tuple[Path, Path], clone: Path) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
    shipped = {name: text for name, text in files.items() if name.startswith(("carver/_arch/", "carver/_templates/"))}
    assert shipped == data(clone)
    assert "carver/py.typed" in files
    python = {f"carver/{p.relative_to(clone / 'carver').as_posix()}" for p in (clone / "carver").rglob("*.py")}
    drawn = {f"carver/ranking/assets/page.{kind}" for kind in ("html", "css", "js")} | {"carver/skill/SKILL.md"}
    extension = {name for name in files if re.fullmatch(r"carver/kernels/_loops\..*(so|pyd)", name)}
    assert len(extension) == (shutil.which("gcc") is not None)
    assert files.keys() == extension | python | shipped.keys() | drawn | {"carver/py.typed", "gpu_carver.pth"}
    assert b"CARVER_TRITON" in files["gpu_carver.pth"]


@pytest.mark.slow
def test_the_sdist_is_the_repository(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for wanted in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "docs/developers/model.md",
                   "arch/h200_sxm.toml", "templates/matmul/op.toml", "templates/common/carver.cuh",
                   "tests/test_packaging.py"):  # fmt: skip
        assert wanted in names
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_installs_answer_a_question(
    built: tuple[Path, Path], clone: Path, bare: Path, tmp_path: Path, kind: str
) -> None:
    what = {"wheel": [built[0]], "editable": ["--no-build-isolation", "-e", clone]}[kind]
    python = bare / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--no-deps", *what, cwd=tmp_path)
    place, archs, kernel = run(python, "-c", CODE, cwd=tmp_path).split()
    assert Path(place).is_relative_to(clone if kind == "editable" else bare)
    assert int(archs) == len(list((clone / "arch").glob("*.toml")))
    assert kernel == "mma"
    said = run(bare / "bin" / "carver", "recommend", "matmul", "64", "64", "64", "--arch", "h200", cwd=tmp_path)
    assert "NVIDIA H200" in said
    purelib = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    assert "CARVER_TRITON" in Path(purelib, "gpu_carver.pth").read_text(encoding="utf-8")
    run(python, "-m", "pip", "uninstall", "-q", "-y", "gpu-carver", cwd=tmp_path)
    assert not Path(purelib, "gpu_carver.pth").exists()


def test_the_checkout_answers_without_an_install(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "carver", tmp_path / "carver", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("arch", "templates"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    place, _, kernel = run(sys.executable, "-c", CODE, cwd=tmp_path).split()
    assert Path(place).is_relative_to(tmp_path)
    assert kernel == "mma"


def test_an_extension_of_other_sources_is_said_and_not_used() -> None:
    """As after a pull into an editable install."""
    older = "import sys, types; sys.modules['carver.kernels._loops'] = types.ModuleType('_loops'); "
    asked = f"{older}import warnings; warnings.simplefilter('error'); import carver.kernels.trace"
    env = {name: value for name, value in os.environ.items() if name != "CARVER_PURE"}
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install -e . builds it anew" in done.stderr


def test_ci_runs_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pattern = re.search(r"grep -E '([^']+)' README.md", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert pattern is not None
    commands = re.findall(pattern[1], readme, re.MULTILINE)
    assert len(commands) == 1
    assert commands[0].endswith("-m pytest")


def test_version_is_the_changelogs_newest() -> None:
    from carver import __version__

    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", text, re.MULTILINE)[1] == __version__  # type: ignore[index]
