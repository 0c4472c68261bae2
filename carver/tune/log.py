"""What is tried and chosen: to a file in the run's folder, and to the terminal if CARVER_PRINT_AUTOTUNING is set."""

from __future__ import annotations

import sys
from contextlib import suppress
from types import TracebackType

from ..base.folders import private
from ..base.table import words
from ..run.records import Measurement, now
from .cache import is_set

FOLDER = "tune-runs"  # of the cache


class RunLog:
    """Appends to `autotune.log` in the folder of one run. A context manager."""

    def __init__(self, run_id: str) -> None:
        self.path = private(FOLDER, run_id) / "autotune.log"
        self._shown = is_set("CARVER_PRINT_AUTOTUNING")
        self._file = self.path.open("a", encoding="utf-8")

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.say(f"ended by {type(error).__name__}: {error}")
        self._file.close()

    def say(self, text: str) -> None:
        with suppress(OSError):  # of a full disk: the log is read by people alone
            self._file.write(f"{now()} {text}\n")
            self._file.flush()
        if self._shown:
            print(f"carver: {text}", file=sys.stderr, flush=True)

    def candidate(self, place: int, count: int, m: Measurement, recorded: bool) -> None:
        time = f"{m.median_ms:.4g} ms" if m.ok and m.median_ms else f"{m.outcome}: {m.reason}"
        said = f", predicted {m.predicted_ms:.4g} ms" if m.predicted_ms else ""
        self.say(f"[{place}/{count}] {words(m.config)}: {time}{said}{' (recorded)' if recorded else ''}")
