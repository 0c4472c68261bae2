"""Compile many kernels in parallel, each limited in time and memory; earlier results come from disk."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..base import child
from ..base.child import Child
from ..base.children import Crew
from ..base.errors import CompileError, ConfigError
from ..base.given import fits, printable, shown
from ..base.host import cores_available
from ..base.table import progress_bars
from . import store

COMPILES = "CARVER_COMPILES"
"""The environment variable that is set in the processes of a pool."""
MOST_LETTERS = 300
"""Of a refusal's reason."""
SECONDS = 120.0
BATCH, BATCH_BYTES = 24, 25_000
"""Codes that one process disassembles at once, at most; and their packed bytes that take half as long to read as a
disassembler to start, half a second. Of 18 codes of 17,000 bytes, nine take a process a second and a half to read."""
MEMORY_BYTES = 8 * 2**30
"""That a compiler may write to."""

_TOO_LONG: dict[str, tuple[float, dict[str, Any]]] = {}
"""What took longer than so many seconds in this process, by key, with its reply: another size may ask for it again."""

Request = Mapping[str, Any]
Reply = dict[str, Any]
"""What `worker.answer` gives, or {"refused": sentence}."""


class Pool:
    """Compiling processes, started when there is work and kept until the pool is closed: one `with` block, or longer.
    At most `processes` at a time (as many as there are cores, unless given), each with `memory_bytes` to write to."""

    def __init__(self, processes: int | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self.processes = processes or cores_available()
        self.memory_bytes = memory_bytes
        self._crew = Crew(self._started, self.processes)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes. What they were asked stays without a reply."""
        self._crew.close()

    def _started(self) -> Child:
        if COMPILES in os.environ:
            raise SystemExit(
                "a process that compiles imports this file to find a kernel, and the file ranks kernels when it is "
                'imported: put that below `if __name__ == "__main__":`'
            )
        path = [p for p in sys.path if p]
        # no GPU: a kernel's module that looks for one at import would take memory of it in each of these processes
        hidden = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CARVER_TRITON"), "")
        environment = {"PYTHONPATH": os.pathsep.join(path), COMPILES: "1", **hidden}
        limits = {"memory_bytes": self.memory_bytes, "path": path}
        return Child("carver.compiled.worker:compiler", limits, environment=environment)

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]:
        """Each reply as it comes; a process that dies or takes longer than `seconds` refuses what it was asked."""
        for key, reply, said in self._crew.replies(requests, seconds, "compiled"):
            yield key, told(reply, said)


def told(reply: child.Reply, said: str = "") -> Reply:
    """What a child's reply comes to; `said`: what the child printed."""
    if reply.outcome != "ok":
        why, _, tail = reply.message.partition("; it said: ")
        more = last_words(said or tail)
        why = why.replace("the worker process", "the compiler's process")[:MOST_LETTERS]
        refused = transient(printable(f"{why}: {more}" if more not in ("", "nothing") else why))
        return refused | ({"late": True} if reply.outcome == "timeout" else {})
    found = reply.data.get("reply")
    known = {"machines", "facts", "lost", "error"}
    if not isinstance(found, dict) or (found and not known & set(found) and not _is_whole(found)):
        return transient(f"the compiler's process answered {shown(found)}")
    if found.get("refused", "").endswith("PassManager::run failed"):  # it printed why
        found["refused"] = f"{found['refused']}: {last_words(said)}"
    if "refused" in found:
        found["refused"] = printable(found["refused"])
    return dict(found)


def last_words(said: str) -> str:
    """The first error that a compiler printed, else its last line."""
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    errors = [parts[1] for line in lines if len(parts := re.split("error: ", line, maxsplit=1, flags=re.I)) > 1]
    return (errors or lines[-1:] or [""])[0][:MOST_LETTERS]


class Compilers(Protocol):
    """A `Pool`, or `forks.Forks`."""

    processes: int

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]: ...


def compiled(
    requests: Mapping[str, Request], isa: str, matrix: Sequence[Sequence[Any]], *, pool: Compilers | None = None,
    processes: int | None = None, seconds: float = SECONDS, progress: bool = False,
    heard: Callable[[str, Reply], None] = lambda key, reply: None,
) -> dict[str, Reply]:  # fmt: skip
    """Replies by key, each with what was read off the code, or why there is none. Replies are kept on disk by key as
    they come, those of a compiler that was ended excepted. What took longer than `seconds` is refused for the rest of
    the process, unless more is allowed. `isa` and `matrix`: as `machine.read_machines` takes them. Without a `pool` its
    processes, `processes` at most, end with this call. `heard` is given each reply as it comes, compiled and once more
    read, while the processes are at work. Raises ConfigError where a kernel cannot be imported in another
    process, and a KeyboardInterrupt that says what is kept."""
    if pool is None:
        with Pool(processes) as own:
            return compiled(requests, isa, matrix, pool=own, seconds=seconds, progress=progress, heard=heard)
    found = {key: reply for key, reply in store.load_each(requests).items() if _is_whole(reply)}
    found |= {key: _TOO_LONG[key][1] for key in requests if key in _TOO_LONG and seconds <= _TOO_LONG[key][0]}
    missing = {key: requests[key] for key in requests if key not in found}
    try:
        return _completed(found, missing, isa, matrix, pool, seconds, progress, heard)
    except KeyboardInterrupt:
        done = len(store.load_each(requests))
        raise KeyboardInterrupt(
            f"interrupted: {done} of {len(requests)} configurations are compiled and kept on disk; the same call goes "
            "on from there" if done else "interrupted: nothing is kept"
        ) from None


def _completed(
    found: dict[str, Reply], missing: Mapping[str, Request], isa: str, matrix: Sequence[Sequence[Any]],
    pool: Compilers, seconds: float, progress: bool, heard: Callable[[str, Reply], None],
) -> dict[str, Reply]:  # fmt: skip
    with progress_bars(progress and bool(missing), transient=True) as bars:
        step = bars.bar("compiling", len(missing))
        for key, reply in pool.replies(missing, seconds):
            if "error" in reply:
                raise ConfigError(reply["error"])
            found[key] = reply
            _kept(key, found[key])
            if reply.get("late"):
                _TOO_LONG[key] = seconds, reply
            step()
            heard(key, reply)
    unread = [key for key, reply in found.items() if "refused" not in reply and reply.get("reader") != store.readers()]
    return found | _read({key: found[key] for key in unread}, isa, matrix, pool, seconds, heard)


def _kept(key: str, reply: Reply) -> None:
    """Save what another run would get as well."""
    if not reply.get("transient", False):
        store.save(key, reply)


def _read(
    replies: Mapping[str, Reply], isa: str, matrix: Sequence[Sequence[Any]], pool: Compilers, seconds: float,
    heard: Callable[[str, Reply], None],
) -> dict[str, Reply]:  # fmt: skip
    """Replies with what is read off their codes, as many at once as keep all processes busy, but for less than a
    disassembler's start. Where one of several cannot be read, or takes too long, each is read by itself: the others
    still can be."""
    keys, read = list(replies), dict[str, Reply]()
    packed_bytes = sum(len(code) for reply in replies.values() for code in reply["code"].values())
    batches_most = max(1, min(pool.processes, -(-packed_bytes // BATCH_BYTES)))
    size = max(1, min(BATCH, -(-len(keys) // batches_most)))
    batches = {str(i): keys[i : i + size] for i in range(0, len(keys), size)}
    while batches:
        asked = {
            i: {
                "codes": [replies[key]["code"] for key in batch], "isa": isa, "matrix": matrix,
                "numbers": [replies[key].get("numbers", []) for key in batch],
            }
            for i, batch in batches.items()
        }
        alone: dict[str, list[str]] = {}
        for i, reply in pool.replies(asked, seconds):
            if "error" in reply:
                raise CompileError(reply["error"])
            if "machines" in reply:
                for key, machine in zip(batches[i], reply["machines"], strict=True):
                    read[key] = replies[key] | {"machine": machine, "reader": store.readers()}
                    _kept(key, read[key])
                    heard(key, read[key])
            elif len(batches[i]) > 1:
                alone |= {key: [key] for key in batches[i]}
            else:
                read[batches[i][0]] = transient(reply["refused"])
        batches = alone
    return read


_KINDS = {
    "ttir": "str", "code": "Mapping[str, str]", "shared_bytes": "int", "warps": "int", "stages": "int", "ctas": "int",
    "machine": "Mapping[str, Any] | None", "threads": "Mapping[str, Any]",
}  # fmt: skip
"""What a reply with code says, by annotation."""


def _is_whole(reply: Reply) -> bool:
    """Whether what was kept is a reply; else it is made anew."""
    if "refused" in reply:
        return isinstance(reply["refused"], str)
    return all(fits(reply.get(name), kind, {}) for name, kind in _KINDS.items())


def transient(sentence: str) -> Reply:
    """A refusal that another run need not meet."""
    return {"refused": sentence, "transient": True}


def own_fault(fault: Exception) -> str:
    """What to tell of a candidate whose code or program carver fails at: the fault is carver's, not the kernel's."""
    return f"carver fails to read what was compiled: {type(fault).__name__}: {fault}"[:300]
