"""What worker processes run in test_faults.py: `carver.base.child` imports it by name."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from carver.base.errors import CompileError, ConfigError, DeviceError, RunError


def handler(start: str = "", touch_mib: int = 0) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    if start == "raise":
        raise DeviceError("no such device here")
    if start == "exit":
        sys.exit(3)
    if start == "bug":
        raise KeyError("a bug")
    return work


def work(job: Mapping[str, Any]) -> Mapping[str, Any]:
    match job["do"]:
        case "pid":
            return {"pid": os.getpid(), "group": os.getpgrp()}
        case "print":
            print("noise on stdout", flush=True)
            os.write(1, b'{"outcome": "forged"}\n')
            return {"outcome": "wrong_result", "message": "told"}
        case "allocate":
            return {"bytes": len(bytearray(job["bytes"]))}
        case "sleep":
            time.sleep(job["seconds"])
        case "hold":  # as a candidate that never gives up the interpreter's lock
            ctypes.PyDLL(None).usleep(int(1e6 * job["seconds"]))
        case "flood":
            for _ in range(job["bytes"] >> 16):
                os.write(1, b"noise " * 10922)
        case "exit":
            os._exit(job["status"])
        case "bug":
            return {"x": {}["missing"]}
        case "fork":
            pid = os.fork()
            if pid == 0:
                time.sleep(600)
            return {"pid": pid}
        case "signal":
            os.kill(os.getpid(), job["number"])
        case "forge":  # as a kernel that writes to every descriptor
            for fd in range(1, 64):
                with contextlib.suppress(OSError):
                    os.write(fd, job["line"].encode() + b"\n")
        case "outcome":
            return {"outcome": job["outcome"]}
        case "alarm":
            signal.setitimer(signal.ITIMER_REAL, job["seconds"])
        case "daemon":
            read, write = os.pipe()
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.write(write, b"%d" % os.getpid())
                    time.sleep(600)
                os._exit(0)
            return {"pid": int(os.read(read, 20))}
        case "raise":
            raise {
                "compile": CompileError("no", "log line"),
                "config": ConfigError("no room"),
                "run": RunError("sticky"),
            }[job["kind"]]
    return {}


def of_crew() -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """What children of `test_children.py` do."""
    return _job


def _job(asked: Mapping[str, Any]) -> dict[str, Any]:
    match asked.get("do"):
        case "die":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "half":
            os.write(_replies(), b'{"token": "')
            time.sleep(60)
        case "twice":
            os.write(_replies(), b'{"token": "old", "outcome": "ok", "message": "", "data": {"reply": {}}}\n')
        case "sleep":
            time.sleep(60)
        case "nap":
            time.sleep(0.5)
        case "leave":
            subprocess.Popen(["sleep", "54321"], start_new_session=True)
        case "print":
            os.write(2, b"error: first\n" + b"noise\n" * 10_000 + b"last\n")
    return {"said": asked["n"]}


def _replies() -> int:
    """The pipe of replies: the only one beside what is printed that this process can write to."""
    pipes = [int(fd.name) for fd in Path("/proc/self/fd").iterdir() if "pipe:" in _target(fd)]
    [found] = [fd for fd in pipes if fd > 2 and _writable(fd)]
    return found


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:
        return ""


def _writable(fd: int) -> bool:
    text = Path(f"/proc/self/fdinfo/{fd}").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("flags")), 8) & 3 == os.O_WRONLY
