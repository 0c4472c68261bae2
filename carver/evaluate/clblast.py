"""Tables of CLBlast's and CLTune's Xgemm: exhaustive runs of one square SGEMM, all of its parameters a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..templates import MatmulTemplate
from ..types import FloatArray
from .cases import Case, device, frames

PARAMETERS = (
    "MWG", "NWG", "KWG", "MDIMC", "NDIMC", "MDIMA", "NDIMB", "KWI", "VWM", "VWN", "STRM", "STRN", "SA", "SB",
)  # fmt: skip
_DTYPES = {"fp16": "float16", "fp32": "float32", "fp64": "float64"}


def gemm(folder: Path, name: str, facts: Mapping[str, Any]) -> Iterator[Case]:
    """C[n*M + m] += A[k*M + m] * B[k*N + n]: in row-major terms C' = B' A', with N rows and M columns."""
    problem = MatmulTemplate(
        int(facts["N"]), int(facts["M"]), int(facts["K"]), trans_A=True, in_dtype=_DTYPES[facts["dtype"]]
    ).problem
    columns, seconds = _rows(folder, name, facts)
    names = list(columns)
    configs = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    yield Case(name, problem, device(facts), "clblast", configs, seconds)


def _rows(folder: Path, name: str, facts: Mapping[str, Any]) -> tuple[dict[str, list[int]], FloatArray]:
    """The parameters that the kernel has, and medians over the runs of each configuration. [s]"""
    if (packed := folder / f"{name}.npz").is_file():
        with np.load(packed) as z:
            table = {str(p): z["params"][:, i] for i, p in enumerate(z["param_names"])}
            seconds = np.asarray(z["time_ms"], np.float64) * 1e-3
    elif (text := folder / f"{name}.csv.gz").is_file():
        pd = frames()

        frame = pd.read_csv(text)
        fixed = {p: np.full(len(frame), int(v)) for p, v in facts.get("constants", {}).items()}
        table = fixed | {str(p): frame[p].to_numpy() for p in facts["params"]}
        milliseconds = frame["time_med_ms"] if "time_med_ms" in frame else frame["time_ms"]
        ran = frame["valid"].to_numpy() == 1 if "valid" in frame else np.ones(len(frame), bool)
        seconds = np.where(ran, milliseconds.to_numpy(np.float64) * 1e-3, np.nan)
    else:
        raise ConfigError(f"{folder / name}.meta.json has neither {name}.csv.gz nor {name}.npz beside it")
    return {p: table[p].astype(np.int64).tolist() for p in PARAMETERS if p in table}, seconds
