"""Several children at work at a time; and single commands, under the same warden."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import warden
from .child import Child, Reply, ready
from .folders import cores_available

LOOK_S = 0.5
"""How often to look whether to stop, or for what takes too long."""
LOG_BYTES = 1 << 20
"""Of what a command prints, so much of the beginning is kept."""


class Crew:
    """Children that answer jobs, at most `processes` at a time.

    `start` makes one. It answers job after job until the crew is closed; one that dies, says what is no reply, or takes
    too long is replaced.
    """

    def __init__(self, start: Callable[[], Child], processes: int) -> None:
        self.start, self.processes = start, processes
        self._idle: list[Child] = []
        self._busy: dict[Child, str] = {}

    def close(self) -> None:
        """End all. What they were asked stays without a reply."""
        for child in (*self._idle, *self._busy):
            child.kill()
        self._idle, self._busy = [], {}

    def replies(
        self, jobs: Mapping[str, Mapping[str, Any]], seconds: float, doing: str,
        bound: Callable[[Sequence[float]], float] = lambda took: float("inf"), took: list[float] | None = None,
    ) -> Iterator[tuple[str, Reply, str]]:  # fmt: skip
        """Each reply as it comes, with what its child printed. A job may take `seconds`, on a busy machine longer
        (`crowding`), and what `bound` makes of the times that others took, which are added to `took`. [s]"""
        waiting, took = list(jobs)[::-1], [] if took is None else took

        def give() -> None:
            if waiting:
                child = self._idle.pop() if self._idle else self.start()
                self._busy[child] = key = waiting.pop()
                child.send(jobs[key])

        try:
            for _ in range(self.processes):
                give()
            while self._busy:
                limit = min(seconds * crowding(), bound(took))
                due = min(child.since for child in self._busy) + limit - time.monotonic()
                of = {pipe: child for child in self._busy for pipe in child.pipes}
                for pipe in ready(of, max(min(due, LOOK_S), 0.0)):
                    child = of[pipe]
                    if child not in self._busy or pipe.closed or (reply := child.read(pipe)) is None:
                        continue
                    said, key = child.printed(), self._busy.pop(child)
                    took.append(time.monotonic() - child.since)
                    if child.pid:
                        self._idle.append(child)
                    else:
                        child.kill()
                    give()  # the next is under way while the caller looks at this reply
                    yield key, reply, said
                for child in [each for each in self._busy if time.monotonic() - each.since >= limit]:
                    key, reply = self._busy.pop(child), child.late(doing)
                    give()
                    yield key, reply, ""
        finally:
            for child in self._busy:  # the caller stopped listening: what they would answer is of no use
                child.kill()
            self._busy = {}


MOST_CROWDED = 4.0
"""Times a limit on a busy machine, at most: what hangs is to end."""


def crowding() -> float:
    """How many processes share each core now, by the load of the last minute; 1 where cores are idle."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return min(max(load / cores_available(), 1.0), MOST_CROWDED)


def finished(
    command: Sequence[str], timeout_s: float, stop: threading.Event | None = None, pass_fds: Sequence[int] = (),
    most_bytes: int = LOG_BYTES,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a command to its end, like `subprocess.run`, of whose output the first `most_bytes` are kept. Its standard
    input is empty. Past the timeout or `stop` all that it started is killed: subprocess.TimeoutExpired."""
    began = time.monotonic()
    with subprocess.Popen(
        [*warden.command(), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, pass_fds=pass_fds,
    ) as child:  # fmt: skip
        said: dict[Any, bytearray] = {child.stdout: bytearray(), child.stderr: bytearray()}
        left = list(said)
        try:
            while left:
                passed_s = time.monotonic() - began
                if passed_s >= timeout_s or (stop is not None and stop.is_set()):
                    raise subprocess.TimeoutExpired(command, min(timeout_s, passed_s))
                left_s = timeout_s - passed_s
                for pipe in ready(left, left_s if stop is None else min(left_s, LOOK_S)):
                    if chunk := os.read(pipe.fileno(), 1 << 16):
                        said[pipe] += chunk[: most_bytes - len(said[pipe])]
                    else:
                        left.remove(pipe)
        except BaseException:
            child.terminate()
            raise
    out, err = (text.decode(errors="replace") for text in said.values())
    return subprocess.CompletedProcess(command, child.returncode, out, err)


_LACKS = "|".join(
    [re.escape(os.strerror(e)) for e in (errno.ENOSPC, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE,
                                         errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG)]
    + [r"\bkilled\b", r"(?<!compilation )\bterminated\b", "out of memory", "memory exhausted",
       "internal compiler error", "cannot allocate", "bus error",
       r"error code (-\d+|12[67])\b", r"\bsig(segv|kill|abrt|bus|term|xfsz)\b"]
)  # fmt: skip
_TRANSIENT = re.compile(_LACKS, re.IGNORECASE)


_DIAGNOSTIC = re.compile(
    r"^\S+(?:\(\d+\)|:\d+(?::\d+)?): (?:error|warning|note)\b[^\n]*(?:\n[ \t]+[^\n]*)*", re.MULTILINE
)
"""What a compiler says of a line of the source, which it quotes below."""


def lacked(log: str) -> bool:
    """Whether a compiler's log speaks of the machine, not the source: killed, no memory, disk or file this time."""
    return bool(_TRANSIENT.search(_DIAGNOSTIC.sub("", log)))
