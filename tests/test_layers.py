"""The structure of the package: heavy or optional packages load where they are used, and modules stay small.

That imports point one way is a contract in pyproject.toml, which `lint-imports` holds.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import carver
from benchmarks import house

PACKAGE = Path(carver.__file__).parent

MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported inside a function) of every import but those for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def walk(node: ast.AST, lazy: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, lazy) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = ["carver", *path.relative_to(PACKAGE).with_suffix("").parts][: -child.level or None]
                start = [*base, child.module] if child.level and child.module else base if child.level else []
                module = ".".join(start) if child.level else str(child.module)
                if module == "carver":
                    yield from ((f"carver.{alias.name}", lazy) for alias in child.names)
                else:
                    yield module, lazy
            elif not isinstance(child, ast.expr):
                yield from walk(child, lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    return walk(tree, False)


def test_packages_load_where_they_are_used() -> None:
    """Device packages in the layers of devices only, heavy ones inside functions only."""
    device = {"torch", "pycuda", "triton", "cupy"}
    heavy = {"torch", "pycuda", "matplotlib", "pandas", "networkx", "rich", "scipy"}
    for path in MODULES:
        room = path.relative_to(PACKAGE).parts[0]
        for module, lazy in imports(path):
            package = module.partition(".")[0]
            assert package not in device or room in ("compiled", "run", "export", "tune", "integrations"), path
            assert lazy or package not in heavy, f"{module} is imported at the top of {path}"


def test_modules_stay_readable_in_one_sitting() -> None:
    assert not [path for path in MODULES if len(path.read_text(encoding="utf-8").splitlines()) >= 600]


def test_import_is_light() -> None:
    code = "import sys, carver; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent, timeout=60
    )
    loaded = set(done.stdout.split())
    heavy = {"torch", "pycuda", "scipy", "networkx", "rich", "click", "pandas", "matplotlib", "sqlite3", "asyncio"}
    assert not heavy & loaded
    ours = {name for name in loaded if name.startswith("carver.")}
    late = ("run", "tune", "export", "calibrate", "cli")
    assert not [name for name in ours if name.count(".") > 1 and name.split(".")[1] in late]
    code = "import sys, numpy; print(*sys.modules, sep='\\n')"
    numpy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    beyond_numpy = loaded - ours - set(numpy.stdout.split())
    assert len(beyond_numpy) < 60, f"import carver pulls in {len(beyond_numpy)} modules besides numpy's"


def test_all_names_what_is_public() -> None:
    public = {
        name
        for name, value in vars(carver).items()
        if not name.startswith("_") and not isinstance(value, type(carver)) and name != "annotations"
    }
    assert public | set(carver._MODULE_OF) == set(carver.__all__)
    assert all(getattr(carver, name) for name in carver._MODULE_OF)
    assert carver.__version__.count(".") == 2


def test_no_modules_import_each_other() -> None:
    assert not house.circles(house.sources("carver", None))


def test_the_house_is_counted() -> None:
    stored = '"""What it is."""\n\nimport functools\n\n# why\n@functools.cache\ndef f(x):\n    return private("tune")\n'
    files = {
        "__init__.py": "from .run import a\n", "run/__init__.py": "", "run/a.py": stored,
        "run/b.py": "from . import c\nclass C:\n    def run(self):\n        import os\n        return os.fork()\n",
        "run/c.py": "def late():\n    from .b import C\n    return C\n",
    }  # fmt: skip
    counted = house.house(files)
    assert counted.figures() | {"lines": 17, "  code": 8, "  doc": 1, "  import": 5, "  comment": 1, "  blank": 2,
                                "files": 5, "rooms": 2, "functions": 3, "classes": 1, "caches": 1, "stores": 1,
                                "child processes": 1, "circles": 1} == counted.figures()  # fmt: skip
    assert (counted.stores, counted.child_processes) == (["run/a.py"], ["run/b.py"])
    assert counted.circles == [["run.b", "run.c"]] and counted.rooms["run"].files == 4
