"""How large carver is, room by room, and how many ways it has to do the same thing.

    python benchmarks/house.py [--rev REV] [--against REV] [--json] [--tree carver] [--longest 0]

`--rev` counts an earlier commit out of git, `--against` prints a second one beside it. Lines are each of one kind:
blank, comment, docstring, import or code. A cache is a decorator or a call of functools' `cache`, `lru_cache` or
`cached_property`. A store is a module that writes below the cache folder, or opens a database; a child process is a
module that starts one. A circle is a set of modules that import each other, lazily and for type checkers included.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KINDS = ("blank", "comment", "doc", "import", "code")
LENGTHS = (5, 10, 20, 40, 80)
"""Upper ends of the classes of functions by their lines."""
MOST_LINES = 600
CACHES = {"cache", "lru_cache", "cached_property"}
STORING = {"private", "sqlite3.connect"}
STARTING = {
    "subprocess.Popen", "subprocess.run", "subprocess.check_output", "os.fork", "ProcessPoolExecutor", "get_context",
    "multiprocessing.Process",
}  # fmt: skip

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Count:
    """What files have, summed."""

    files: int = 0
    lines: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)
    """By class of length."""
    one_statement: int = 0
    classes: int = 0
    dataclasses: int = 0
    caches: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass
class House:
    """A package. Files by their path below it."""

    rev: str
    rooms: dict[str, Count]
    stores: list[str]
    child_processes: list[str]
    circles: list[list[str]]
    large: dict[str, int]
    """Lines of files that have more than `MOST_LINES`."""
    longest: list[tuple[int, str]]
    """Lines and name of each function, the longest first."""

    @property
    def all(self) -> Count:
        return reduce(Count.__add__, self.rooms.values())

    def figures(self) -> dict[str, Any]:
        """What the table shows, by its heading."""
        count = self.all
        return {
            "lines": count.lines, **{f"  {kind}": count.kinds[kind] for kind in reversed(KINDS)},
            "files": count.files, f"files above {MOST_LINES} lines": len(self.large), "rooms": len(self.rooms),
            "functions": count.functions.total(),
            **{f"  {name}": count.functions[name] for name in _lengths()},
            "  of one statement": count.one_statement, "classes": count.classes, "  dataclasses": count.dataclasses,
            "caches": count.caches, "stores": len(self.stores), "child processes": len(self.child_processes),
            "circles": len(self.circles),
        }  # fmt: skip


def _lengths() -> list[str]:
    below = [f"of {low + 1} to {high} lines" for low, high in zip((0, *LENGTHS), LENGTHS, strict=False)]
    return [*below, f"above {LENGTHS[-1]} lines"]


def sources(tree: str, rev: str | None) -> dict[str, str]:
    """The text of each Python file of a package, by its path below it; of a commit, or as it lies here."""
    top = HERE.parent
    if rev is None:
        return {str(p.relative_to(top / tree)): p.read_text("utf-8") for p in sorted((top / tree).rglob("*.py"))}
    packed = subprocess.run(["git", "archive", rev, tree], cwd=top, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = {m.name.removeprefix(f"{tree}/"): archive.extractfile(m) for m in archive if m.name.endswith(".py")}
    return {name: file.read().decode() for name, file in sorted(files.items()) if file is not None}


def called(node: ast.expr) -> str:
    """The name of what a decorator or a call names: `cache`, `os.fork`."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def count(source: str) -> Count:
    """What one file has."""
    tree, every = ast.parse(source), source.splitlines()
    of = {line: "code" for line in range(1, len(every) + 1)}
    blank_in_text = {line for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
                     for line in range(node.lineno, (node.end_lineno or 0) + 1)}  # fmt: skip
    for line, text in enumerate(every, 1):
        if not text.strip() and line not in blank_in_text:
            of[line] = "blank"
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            of[token.start[0]] = "comment"
    nodes, caches = list(ast.walk(tree)), 0
    for node in nodes:
        is_doc = isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
        if is_doc or isinstance(node, ast.Import | ast.ImportFrom):
            kind = "doc" if is_doc else "import"
            of |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), kind)
        named = [called(d) for d in getattr(node, "decorator_list", ())]
        named += [called(node.func)] if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) else []
        named += [called(node)] if isinstance(node, ast.Call) and node.args and called(node) in CACHES else []
        caches += sum(name.rpartition(".")[2] in CACHES for name in named)
    functions = [node for node in nodes if isinstance(node, Definition)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    bodies = [[s for s in f.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
              for f in functions]  # fmt: skip
    return Count(
        1, len(every), Counter(of.values()), Counter(_length(node) for node in functions),
        sum(len(body) <= 1 and not isinstance((body or [None])[0], ast.With | ast.For | ast.While | ast.Try | ast.If)
            for body in bodies),
        len(classes), sum(any("dataclass" in called(d) for d in node.decorator_list) for node in classes), caches,
    )  # fmt: skip


def _lines(node: ast.stmt) -> int:
    """From the first decorator to the last line."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return (node.end_lineno or node.lineno) - first + 1


def _length(node: ast.stmt) -> str:
    return _lengths()[sum(_lines(node) > high for high in LENGTHS)]


def calls(source: str) -> set[str]:
    """What a file calls, by the names that it writes."""
    return {called(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)}


def imports(name: str, source: str, modules: Mapping[str, str]) -> set[str]:
    """The modules of the package that one of them imports from, anywhere in it."""
    folder = name.split(".") if modules[name].endswith("__init__.py") else name.split(".")[:-1]
    package, found = [part for part in folder if part], set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                inner = ".".join([*base, alias.name])
                found.add(inner if inner in modules else ".".join(base))
    return (found & modules.keys()) - {name, ""}


def circles(files: Mapping[str, str]) -> list[list[str]]:
    """Sets of modules that reach each other: Tarjan's strongly connected components of more than one."""
    modules = {name.removesuffix(".py").removesuffix("__init__").rstrip("/").replace("/", "."): name for name in files}
    graph = {module: imports(module, files[name], modules) for module, name in modules.items()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for module in graph:
        if module not in index:
            visit(module)
    return [each for each in found if len(each) > 1]


def functions(name: str, source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Definition):
            yield _lines(node), f"{name}:{node.name}"


def house(files: Mapping[str, str], rev: str = "") -> House:
    rooms: dict[str, Count] = {}
    for name, source in files.items():
        room = name.partition("/")[0] if "/" in name else "top"
        rooms[room] = rooms.get(room, Count()) + count(source)
    doing = {name: calls(source) for name, source in files.items()}
    lengths = sorted((each for name, source in files.items() for each in functions(name, source)), reverse=True)
    return House(
        rev, dict(sorted(rooms.items(), key=lambda item: -item[1].lines)),
        [name for name, made in doing.items() if made & STORING and name != "base/folders.py"],
        [name for name, made in doing.items() if made & STARTING],
        circles(files), {name: n for name, source in files.items() if (n := len(source.splitlines())) > MOST_LINES},
        lengths,
    )  # fmt: skip


def show(houses: list[House], longest: int) -> None:
    here = houses[0]
    if len(houses) == 1:
        heads = ("files", "lines", *reversed(KINDS), "functions", "classes", "caches")
        print(f"{'room':14s}" + "".join(f"{head:>10s}" for head in heads))
        for room, c in {**here.rooms, "all": here.all}.items():
            cells = (c.files, c.lines, *(c.kinds[k] for k in reversed(KINDS)), c.functions.total(), c.classes, c.caches)
            print(f"{room:14s}" + "".join(f"{cell:10,d}" for cell in cells))
        print()
    figures = [each.figures() for each in houses]
    print(f"{'':28s}" + "".join(f"{each.rev or 'here':>12.12s}" for each in houses))
    for name in figures[0]:
        print(f"{name:28s}" + "".join(f"{each[name]:12,d}" for each in figures))
    print()
    for name, values in (("stores", here.stores), ("child processes", here.child_processes),
                         ("circles", [" <-> ".join(each) for each in here.circles]),
                         (f"above {MOST_LINES} lines", [f"{name} {n}" for name, n in here.large.items()])):  # fmt: skip
        print(f"{name}: {', '.join(values) or 'none'}")
    for lines, name in here.longest[:longest]:
        print(f"{lines:6d} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", default="carver", help="a folder of the repository: carver, benchmarks, tests")
    parser.add_argument("--rev", help="a commit, instead of the files that lie here")
    parser.add_argument("--against", help="a commit to print beside it")
    parser.add_argument("--longest", type=int, default=0, help="so many of the longest functions as well")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    houses = [house(sources(args.tree, rev), rev or "")
              for rev in (args.rev, *([args.against] if args.against else []))]  # fmt: skip
    if args.json:
        shown = [asdict(each) | {"longest": each.longest[: args.longest], "figures": each.figures()} for each in houses]
        print(json.dumps(shown[0] if len(shown) == 1 else shown, indent=1))
    else:
        show(houses, args.longest)


if __name__ == "__main__":
    main()
