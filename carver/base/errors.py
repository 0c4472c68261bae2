"""The errors that carver raises, and the nearest spellings that their messages suggest."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Mapping


class CarverError(Exception):
    """Base class of all errors that carver raises deliberately."""


class ArchError(CarverError):
    """A descriptor is unknown, misspelt or inconsistent."""


class ProblemError(CarverError):
    """An operator, its sizes or its element types make no sense."""


class NotationError(ProblemError):
    """Index notation that does not parse."""


class KernelError(CarverError):
    """A declaration of a kernel that does not parse."""


class ConfigError(CarverError):
    """A configuration with missing, unknown or impossible entries."""


class DeviceError(CarverError):
    """No device, or no compiler, to run on."""


class RunError(CarverError):
    """A kernel failed on the device."""


def warn(text: str) -> None:
    """A warning at the line of whoever is outside of carver, however deep the call."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "carver":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def told(error: BaseException) -> str:
    """What an error says; of one that is not carver's, its class as well."""
    return str(error) if isinstance(error, CarverError) else f"{type(error).__name__}: {error}"


def first_error(text: str) -> str:
    """The line that says most: of a compiler's log the first error, with its file's name, or that of an exception in
    Python; else the first line."""
    lines = text.strip().splitlines() or [""]
    return next((re.sub(r"^/\S*/", "", li) for li in lines if re.search(r"(error|fatal)\s*:", li, re.I)), lines[0])


class CompileError(CarverError):
    """The compiler refused a kernel; the message ends in its log."""

    def __init__(self, message: str, log: str = "") -> None:
        self.log = log
        super().__init__(f"{message}\n{log}" if log else message)


class CompileTimeout(CompileError):
    """It did not end in time."""


class CompilerFailed(CompileError):
    """It could not do its work, which says nothing of the kernel."""


class Foreign(CarverError):
    """A folder that is not what `save` writes; says what is wrong."""


class StoreError(CarverError):
    """The database of the cache, or one that was named, cannot be used; says what to do."""


class NoCandidates(CarverError):
    """Every candidate breaks some rule; carries how many each removed. `missed`: by how much, of the first of each.
    `able`: the backends that have candidates."""

    def __init__(
        self, what: str, removed: Mapping[str, int], missed: Mapping[str, str] | None = None, able: Iterable[str] = ()
    ) -> None:
        self.removed = dict(removed)
        by = {rule: f" ({said})" for rule, said in (missed or {}).items() if said}
        worst = [f"{n:,} by {rule!r}{by.get(rule, '')}" for rule, n in self.removed.items() if n] or ["none were given"]
        instead = [f"backend {' or '.join(map(repr, able))} has some that can"] if able else []
        listed = "\n- ".join(["", *worst, *instead]) if len(worst) > 1 else " " + "; ".join(worst + instead)
        super().__init__(f"no candidate can run {what}; removed:{listed}")


def nearest(word: str, known: Iterable[str], n: int = 3) -> str:
    """The closest known spellings, as the tail of an error message."""
    import difflib  # and other modules that few processes need are imported where they are used: carver's own import
    # is a good part of a first answer

    choices = sorted(known)
    near = difflib.get_close_matches(str(word), choices, n, 0.5)  # a word is anything that was given as one
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    between = "; " if any("," in choice for choice in choices) else ", "
    return f"known: {between.join(choices)}"
