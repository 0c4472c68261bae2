"""Execute the notebooks from a clean kernel; an error in any cell fails.

    python notebooks/run.py [01_first_ranking ...] [--write | --check]

With --write the outputs are kept in the notebooks; with --check it is an error that what a cell prints is not what the
notebook shows. Menus are drawn as without ipywidgets, as the picture that they show first: where the notebooks are
read, nobody answers a menu. Needs the extra `notebook`.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from PIL import Image

FOLDER = Path(__file__).resolve().parent
MOST_BYTES = 400_000


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("[0-9]*.ipynb"))


def execute(name: str) -> Any:
    """The notebook with fresh outputs, run in a folder of its own: no cell may need the one where the notebook lies."""
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    quiet = ["--IPKernelApp.log_level=50"]
    # a busy machine hands over what one cell prints in several pieces, and is slow
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            book, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}, extra_arguments=quiet,
            coalesce_streams=True,
        )  # fmt: skip
        Path(folder, "ipywidgets.py").write_text("raise ImportError\n")
        # a descriptor of the user's own would change every number, and a terminal the width of tables
        own = {"CARVER_CONFIG_DIR": folder, "CARVER_CACHE_DIR": folder, "COLUMNS": "100"}
        paths = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
        client.execute(env={**os.environ, **own, "PYTHONPATH": paths})
    return book


def still(book: Any) -> Any:
    """The same with what differs from run to run left out."""
    book.metadata.pop("language_info", None)
    for cell in book.cells:
        cell.pop("id", None)
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type != "code":
            continue
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for data in (output.get("data", {}) for output in cell.outputs):
            if "image/png" in data:
                data.pop("text/plain", None)
    book.nbformat, book.nbformat_minor = 4, 4  # the last form without random identities of cells
    return book


def small(book: Any) -> Any:
    """The same with pictures of a palette: a third of the bytes."""
    for output in (output for cell in book.cells for output in cell.get("outputs", ())):
        if "image/png" in (data := output.get("data", {})):
            data["image/png"] = _fewer_colours(data["image/png"])
    return book


def _fewer_colours(png: str) -> str:
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def printed(book: Any) -> list[list[str]]:
    """What each cell prints or shows as text."""
    cells = [cell.outputs for cell in book.cells if cell.cell_type == "code"]
    return [[o["text"] if "text" in o else o["data"].get("text/plain", "") for o in outputs] for outputs in cells]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=names(), metavar="NAME")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(arguments)
    failed = 0
    for name in args.names:
        began = time.monotonic()
        try:
            book = execute(name)
        except CellExecutionError as error:
            print(f"{name}: failed\n{error}")
            failed += 1
            continue
        print(f"{name}: {time.monotonic() - began:.1f} s")
        if args.check:
            kept = printed(nbformat.read(FOLDER / f"{name}.ipynb", as_version=4))
            for i, (now, was) in enumerate(zip(printed(still(book)), kept, strict=True), 1):
                if now != was:
                    print(f"{name}: code cell {i} prints other text than is kept; see --write", now, was, sep="\n")
                    failed += 1
        if args.write:
            text = nbformat.writes(small(still(book))) + "\n"
            if len(text) > MOST_BYTES:
                print(f"{name}: {len(text):,} bytes, more than {MOST_BYTES:,}")
                failed += 1
            (FOLDER / f"{name}.ipynb").write_text(text, encoding="utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
