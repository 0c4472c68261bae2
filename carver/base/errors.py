"""What carver raises.

* CarverError
  x ArchError        a descriptor is unknown, misspelt or inconsistent
  x ProblemError     an operator, its sizes or its dtypes make no sense
  x NotationError    index notation that does not parse
  x KernelError      a kernel declaration that does not parse
  x ConfigError      a configuration with missing, unknown or impossible entries
  x NoCandidates     every candidate breaks some rule; carries how many each rule removed
  x DeviceError      no device, or no compiler, to run on
  x CompileError     the compiler refused a kernel; carries its log
    x CompileTimeout  it did not end in time
    x CompilerFailed  it could not do its work, which says nothing of the kernel
  x RunError         a kernel failed on the device
  x RecordsError     a database of measurements that cannot be read or written (carver.run.records)
  x Foreign          a folder that holds no saved result, or a changed one (carver.tune.cache)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class CarverError(Exception):
    """Base of everything carver raises on purpose."""


class ArchError(CarverError): ...


class ProblemError(CarverError): ...


class NotationError(ProblemError): ...


class KernelError(CarverError): ...


class ConfigError(CarverError): ...


class DeviceError(CarverError): ...


class RunError(CarverError): ...


class CompileError(CarverError):
    def __init__(self, message: str, log: str = "") -> None:
        self.log = log
        super().__init__(f"{message}\n{log}" if log else message)


class CompileTimeout(CompileError): ...


class CompilerFailed(CompileError): ...


class Foreign(CarverError):
    """A folder that is not what `save` writes; says what is wrong."""


class NoCandidates(CarverError):
    def __init__(self, what: str, removed: Mapping[str, int]) -> None:
        self.removed = dict(removed)
        worst = "; ".join(f"{n} by {rule!r}" for rule, n in self.removed.items() if n)
        super().__init__(f"no candidate can run {what}; removed: {worst or 'none were given'}")


def nearest(word: str, known: Iterable[str], n: int = 3) -> str:
    """The closest known spellings, as the tail of an error message."""
    import difflib  # and other modules that few processes need are imported where they are used: carver's own import
    # is a good part of a first answer

    choices = sorted(known)
    near = difflib.get_close_matches(word, choices, n, 0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(choices)}"
