"""carver with the tables of other projects, which `adapters/` reads: their commands take FOLDERs of them.

    python benchmarks/tables.py evaluate FOLDER [--k 1 --k 3] [--by gpu] [--json] ...
    python benchmarks/tables.py evaluate sglang
    python benchmarks/tables.py calibrate --from FOLDER --kernel matmul/triton ...

The commands are those of `carver`, with the same options. Of an installed package, such as sglang, the tuned files are
read. For lists that name only winners, `evaluate` prints where they stand in carver's ranking.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from adapters import FORMATS  # noqa: E402

from carver.cli.main import main as carver  # noqa: E402


def folder_of(word: str) -> str:
    """The folder of an installed package, which is not imported, where the word is no path that is there."""
    spec = importlib.util.find_spec(word) if word.isidentifier() and not Path(word).exists() else None
    return next(iter(spec.submodule_search_locations or [word])) if spec else word


if __name__ == "__main__":
    command, *words = sys.argv[1:] or ["--help"]
    carver([command, *map(folder_of, words)], prog_name="tables.py", obj=FORMATS)
