"""Run one process, and let nothing that it started outlive it, or whoever asked for it.

    python -I -S warden.py PARENT COMMAND ARGUMENTS...     # PARENT is the process id of whoever starts it

On Linux the warden adopts what its process leaves behind, in whatever session or group that hides (a subreaper). When
the process ends, when the warden's own parent is gone, or at SIGTERM, all of it gets SIGKILL; then the warden ends as
the process did. It imports nothing of carver, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False  # what type checkers take for True; to import `typing` for it takes a fifth of a warden's start
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

FOLDER = "CARVER_TEMPORARY"
"""The environment variable that names the process's folder of temporary files, which goes with it."""
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_LOOK_S = 0.05
"""How often to look where the kernel cannot tell of a process's end."""
_HELD_S = 20.0
"""How long to wait for a process that the kernel does not let go of. [s]"""


class _Asked(BaseException):
    """SIGTERM."""


def guard(start: Callable[[], None], parent: int) -> NoReturn:
    """Fork, call `start` in the child, which must not return, and end as the child does."""
    folder = os.environ.pop(FOLDER, "")  # not for wardens that the child starts: they would remove it before its end
    _prctl(_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides

    def asked(_: int, __: FrameType | None) -> None:
        raise _Asked

    status, child = -signal.SIGKILL, 0
    try:
        signal.signal(signal.SIGTERM, asked)
        warden, child = os.getpid(), os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.setsid()  # what it sends to its group does not reach the warden
            if ends_with(warden):
                start()
            os._exit(os.EX_SOFTWARE)
        status = _ended(child, parent)
    except _Asked:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _kill_all(child)
        if folder:
            _remove(folder)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -status)
    os._exit(status)


def ends_with(parent: int) -> bool:
    """Whether the parent is there; this process gets SIGKILL once the thread that forked it ends."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _ended(child: int, parent: int) -> int:
    """The exit code of the child, negative for a signal; that of SIGKILL once the parent is gone."""
    watched = select.poll()
    with contextlib.suppress(AttributeError, OSError):  # no such call, or no such process any more
        for pid in (parent, child):
            watched.register(os.pidfd_open(pid), select.POLLIN)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if os.getppid() != parent:
            return -signal.SIGKILL
        watched.poll(1e3 * (_HELD_S if hasattr(os, "pidfd_open") else _LOOK_S))


def _kill_all(child: int) -> None:
    """Of a process that is killed the children come here, to be killed in their turn."""
    until = time.monotonic() + _HELD_S
    with contextlib.suppress(OSError):
        if child:
            os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            for pid in _children():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.002)


def _remove(folder: str) -> None:
    """The folder of temporary files, with what was left in it."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                _remove(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(folder)  # noqa: PTH106 (pathlib takes longer to import)


def _children() -> list[int]:
    own, found = os.getpid(), []
    with contextlib.suppress(OSError):
        for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (pathlib takes longer to import)
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                if int(file.read().rpartition(b")")[2].split()[1]) == own:
                    found.append(int(pid))
    return found


def _prctl(option: int, value: int) -> None:
    """Nothing where there is no such call."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def command() -> list[str]:
    """What to put before a command so that nothing of it outlives it or this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


def main(parent: int, wanted: list[str]) -> NoReturn:
    def start() -> None:
        try:
            os.execvp(wanted[0], wanted)
        except OSError as e:
            sys.stderr.write(f"{wanted[0]}: {e.strerror}\n")
            os._exit(127)

    guard(start, parent)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
