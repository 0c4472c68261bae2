"""What the commands of the guides to declarations answer, written into them by

    python tests/docs_kernels.py

and the reference at the end of docs/reference/declarations.md and columns.md, which a hook of mkdocs adds to the site.

Columns are those of `templates/columns/`, constants those of `templates/constants.toml`, names in scope those
that `templates/names.toml` describes, what a compiler decides the formulas in `templates/common/compilers/`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from carver.base.folders import folder
from carver.cost import estimate
from carver.cost.model import CONSTANTS, MODELS, Column, Columns, Shown, model_named
from carver.kernels import declaration, expr
from carver.kernels.backends import BACKENDS
from carver.problem.problem import operator_files

DOCS = Path(__file__).resolve().parent.parent / "docs"
MEANINGS: dict[str, str] = tomllib.loads((folder("templates") / "names.toml").read_text(encoding="utf-8"))
PAGE, COLUMNS = "reference/declarations.md", "reference/columns.md"
GUIDES = [DOCS / "howto" / "kernels.md", DOCS / "howto" / "cuda_kernels.md"]
"""What has the examples, in the order in which a reader comes to them."""


def meaning(name: str) -> str | None:
    """What a name in scope is; None for axes and options."""
    if name in MEANINGS:
        return MEANINGS[name]
    if re.match(r"b_(converts|float8|e4m3|integer|unsigned|k_last|k_contiguous|run|gap|reuse)$", name):
        return MEANINGS["a" + name[1:]]
    for pattern, text in MEANINGS.items():
        if "<tensor>" in pattern and re.fullmatch(pattern.replace("<tensor>", r"\w+"), name):
            return text
    return None


def table(heads: str, rows: Iterable[Iterable[str]]) -> str:
    cells = heads.split(", ")
    lines = [f"| {' | '.join(cells)} |", "|" + "---|" * len(cells)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def default(column: Column) -> str:
    if column.required:
        return "required"
    return "none" if column.default is None else f"{float(column.default):g}"


def described(schema: type[Columns], from_problem: bool, known: Sequence[Column] = ()) -> list[tuple[str, ...]]:
    """Of the columns of a schema those that are not `known` already."""
    return [
        (f"`{each.name}`", each.unit, default(each), each.meaning)
        for each in schema.described if each.from_problem == from_problem and each not in known
    ]  # fmt: skip


def reference() -> Iterator[str]:
    yield "## Keys of a declaration\n"
    yield f"{', '.join(f'`{key}`' for key in sorted(declaration.KEYS))}.\n"
    yield f"Keys of a launch, in `[[launches]]`: {', '.join(f'`{key}`' for key in sorted(declaration.LAUNCH_KEYS))}.\n"
    yield (
        "Keys of a tensor map, in `[[launches.maps]]`: "
        f"{', '.join(f'`{key}`' for key in sorted(declaration.MAP_KEYS))}.\n"
    )
    yield "## Files to extend\n"
    yield table("file, what it says, its tables", (
        (f"`{path.stem}`", " ".join(line[2:] for line in text.partition("\n[")[0].splitlines()),
         ", ".join(f"`{name}`" for name in tomllib.loads(text)))
        for path in sorted((folder("templates") / declaration.COMMON).glob("*.toml"))
        for text in [path.read_text(encoding="utf-8")]
    ))  # fmt: skip
    yield "## Backends\n"
    yield table("backend, kernels, runs on, by default", (
        (f"`{b.name}`", b.title.removesuffix("'s"), ", ".join(b.vendors) or f"any {b.device_kind.upper()}",
         "yes" if b.by_default else "")
        for b in BACKENDS.values()
    ))  # fmt: skip
    yield "## Expressions\n"
    yield (
        "`+ - * // % **`, comparisons, `and or not`, `a if c else b`, "
        f"{', '.join(f'`{name}`' for name in expr.FUNCTIONS)}. An exponent is a number from 0 to {expr.MAX_POWER}. "
        f"An expression has at most {expr.MAX_LENGTH} characters and {expr.MAX_DEPTH} nested operations. "
        "True is 1 and false is 0.\n"
    )
    yield "### Names of the problem and the device\n"
    yield table("name, meaning", ((f"`{name}`", text) for name, text in MEANINGS.items()))
    yield "Each operator adds its axes and options:\n"
    yield table("operator, notation, axes, options", (
        (f"`{name}`", f"`{w.computes}`", ", ".join(f"`{axis}` {said}" for axis, said in w.axes.items()),
         ", ".join(f"`{option}`" for option in w.options))
        for name, w in operator_files().items()
    ))  # fmt: skip
    yield "### Fields of a device\n"
    yield ", ".join(f"`arch.{name}`" for name in sorted(expr.device_fields())) + ".\n"
    yield "## Columns\n"
    yield (
        "These are the keys of `[schedule]`, for each cost model (`model`). A tunable with the name of a column "
        "is that column. Columns of the problem have values already; `[schedule]` may replace them.\n"
    )
    models = {name: model_named(name) for name in MODELS}
    for name, model in models.items():
        yield f"### `{name}`\n"
        known: list[Column] = []
        for part in (*model.parts, model.optional):
            if part is None:
                continue
            if part is model.optional:
                yield "Kernels whose threads read their operands one by one need these columns as well:\n"
            shared = [other for other, m in models.items() if part in m.parts]
            if shared[:1] not in ([], [name]):
                if part is model.parts[0]:
                    yield f"The columns of `{shared[0]}`, and:\n"
                known += part.described
                continue
            if rows := described(part, False, known):
                yield table("column, unit, default, meaning", rows)
            if rows := described(part, True, known):
                yield "Columns of the problem:\n"
                yield table("column, unit, default, meaning", rows)
    yield "### Any model\n"
    yield "Any declaration may have these columns, which hints report:\n"
    yield table("column, unit, default, meaning", described(Shown, False))
    for compiler, path in declaration.compilers().items():
        said = tomllib.loads(path.read_text(encoding="utf-8"))
        yield f"## Columns that `compiler = \"{compiler}\"` fills in\n"
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, kind in said["models"].items():
            alike.setdefault(tuple(said[kind]), []).append(f"`{name}`")
        for names, models in alike.items():
            yield f"{', '.join(models)}: {', '.join(f'`{column}`' for column in names)}.\n"
        optional = ", ".join(f"`{name}`" for name in said["optional"])
        yield f"The derivation also reads these names from `[let]`: {optional}.\n"
    yield "## Constants\n"
    models = {name: model_named(name) for name in MODELS}
    parts = {name: [p for p in (*m.parts, m.optional) if p] for name, m in models.items()}
    read = {name: {constant for p in each for constant in p.constants} for name, each in parts.items()}
    yield table("constant, prior, bounds, meaning, read by", (
        (f"`{name}`", f"{c.prior:g}", f"{c.low:g} to {c.high:g}", c.meaning,
         "all" if name in estimate.READS else ", ".join(f"`{model}`" for model, names in read.items() if name in names))
        for name, c in CONSTANTS.items()
    ))  # fmt: skip


BLOCK = re.compile(r"(?<=```console\n)\$ ([^\n]*\|\n[^\n]*|[^\n]*)\n(.*?)(?=```)", re.DOTALL)
"""A command, on two lines where the first ends in a pipe, and its answer."""


END = "\f"  # of a page


def guides() -> str:
    """The pages with the examples, one after the other."""
    return END.join(guide.read_text(encoding="utf-8") for guide in GUIDES)


def answered(text: str) -> str:
    """The page with the answers of its commands made anew; the second is for a declaration with two faults."""
    declaration, tiled = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    [source] = re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)
    wrong = declaration.replace('tile_k = "BLOCK_SIZE_K"', 'tile_k = "BLOCK_SIZE_KK"\nserialised = "1"')
    asked = [command for command, _ in BLOCK.findall(text)]
    with TemporaryDirectory() as folder:
        path, transpose = (Path(folder) / "templates" / each for each in ("matmul/gelu.toml", "transpose"))
        for each in (path.parent, transpose):
            each.mkdir(parents=True)
        (transpose / "tiled.toml").write_text(tiled, encoding="utf-8")
        (transpose / "tiled.cu").write_text(source, encoding="utf-8")
        answers = []
        for place, command in enumerate(asked):
            path.write_text(wrong if place == 1 else declaration, encoding="utf-8")
            answers.append(answer(command, path.parents[1]))
    made = iter(answers)
    return BLOCK.sub(lambda found: f"$ {found[1]}\n{next(made)}\n", text)


def answer(command: str, where: Path) -> str:
    """What a command says to somebody whose own folder is the parent of `where`."""
    here = {"CARVER_CONFIG_DIR": str(where.parent), "COLUMNS": "100", "PYTHONPATH": str(DOCS.parent)}
    run = command.replace("carver ", f"{sys.executable} -m carver ", 1).replace("\n", " ")
    env = os.environ | here
    done = subprocess.run(run, shell=True, env=env, cwd=where, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).rstrip()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page as the site has it, with the reference at its end: a hook of mkdocs."""
    if page.file.src_uri not in (PAGE, COLUMNS):
        return markdown
    keys, heading, columns = "\n".join(reference()).partition("## Columns\n")
    return f"{markdown}\n{keys if page.file.src_uri == PAGE else heading + columns}"


if __name__ == "__main__":
    if sys.argv[1:] == ["reference"]:
        print("\n".join(reference()))
    else:
        for guide, text in zip(GUIDES, answered(guides()).split(END), strict=True):
            guide.write_text(text, encoding="utf-8")
