"""Words and values of other projects' tables, as carver has them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from carver.base import dtypes
from carver.base.errors import CarverError, ConfigError
from carver.base.given import text_of
from carver.calibrate.tables import Case, reason, seconds


def reference(milliseconds: Any) -> float | None:
    """A library's time where the table has one. [s]"""
    value = float(seconds(milliseconds))
    return value if np.isfinite(value) else None


def dtype(text: object) -> str:
    """The element type that a table's words start with: "fp32 (MFMA)", "torch.bfloat16", "uint8->fp32"."""
    name = re.split(r"[\s(,/>-]", str(text).strip())[0].lower()
    return dtypes.canonical({"uint8": "int8", "u8": "int8"}.get(name, name))


T = TypeVar("T")


def each(problems: Iterable[T], make: Callable[[T], Case]) -> Iterator[Case | str]:
    """A case of each problem, and at the end a remark on those that make none."""
    made, failed = 0, []
    for problem in problems:
        try:
            yield make(problem)
            made += 1
        except (CarverError, KeyError) as error:
            failed.append(reason(error))
    if failed:
        yield f"{len(failed)} of {made + len(failed)} problems passed over, the first: {failed[0]}"


def read_csv(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of `NAME.csv.gz` or `NAME.csv`, each with the cells that have a value."""
    try:
        import pandas
    except ImportError:
        raise ConfigError("this table is read with pandas: pip install pandas, or the extra 'frame'") from None
    for file in (folder / f"{name}.csv.gz", folder / f"{name}.csv"):
        if file.is_file():
            rows = pandas.read_csv(io.StringIO(text_of(file, ConfigError))).to_dict("records")
            return [{str(k): v for k, v in row.items() if not pandas.isna(v)} for row in rows]
    raise ConfigError(f"there is no {name}.csv.gz beside its description")
