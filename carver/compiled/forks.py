"""Compile in parallel in copies of this process, which need to import nothing: for kernels that are loaded already.

A copy is made for each request and ends with its reply. A compiler that hangs, dies or uses too much memory is
therefore only one refused candidate. Copies never touch the GPU. For kernels that are not loaded, and for systems
without fork, there is `pool`.

The first compilation of a process takes some tenths of a second longer than others. This process does one while the
first copies of its first list are at work; later copies inherit the result.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from ..arch.descriptor import Arch
from ..base import warden
from ..base.host import cores_available
from .isa.rates import table
from .machine import matrix_rates
from .pool import MEMORY_BYTES, SECONDS, Reply, Request, transient
from .triton import Compiled, Target, hashed, warm
from .worker import answer, replied

LATE, LATE_S = 4.0, 4.0
"""With `hurry` a copy is late that takes so many times as long as the middle one of the list, and so many seconds at
least. What takes longest by far is code of many instructions that spill."""
BESIDE = "beside"


class Copies:
    """Has each request answered in a copy of this process: by `answer`, so many at a time.

    `beside` does what else is needed, in a copy of its own. With `hurry`, what takes far longer than the rest of the
    requests is given up.
    """

    def __init__(
        self, answer: Callable[[Request], Reply], processes: int | None = None, hurry: bool = False,
        beside: Callable[[], None] | None = None, meanwhile: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.answer = answer
        self.processes = processes or cores_available()
        self.hurry = hurry
        self.beside = beside
        self.meanwhile = meanwhile

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]:
        """Each reply as it comes; a copy that dies or takes longer than `seconds` refuses what it was asked."""
        waiting = list(requests)[::-1]
        texts: dict[int, bytearray] = {}
        took: list[float] = []
        with selectors.DefaultSelector() as selector:

            def start(key: str, request: Request) -> None:
                child, pipe = self._fork(request)
                texts[pipe] = bytearray()
                selector.register(pipe, selectors.EVENT_READ, (key, child, time.monotonic()))

            try:
                if self.beside and waiting:
                    start(BESIDE, {})
                while waiting or texts:
                    while waiting and len(texts) < self.processes + (self.beside is not None):
                        key = waiting.pop()
                        start(key, requests[key])
                    self.meanwhile()
                    for ready, _ in selector.select(timeout=0.5):
                        if piece := os.read(ready.fd, 1 << 20):
                            texts[ready.fd] += piece
                            continue
                        key, child, since = ready.data
                        text = self._end(selector, ready.fd, child, texts)
                        if key == BESIDE:
                            continue
                        took.append(time.monotonic() - since)
                        why = "the compiler's process ended without an answer, out of memory perhaps"
                        yield key, json.loads(text) if text else transient(why)
                    bound = seconds
                    if self.hurry and 2 * len(took) >= len(requests):
                        bound = min(seconds, max(LATE_S, LATE * took[(len(requests) - 1) // 2]))
                    for late in [k for k in selector.get_map().values() if time.monotonic() - k.data[2] > bound]:
                        key, child, _ = late.data
                        self._end(selector, late.fd, child, texts)
                        if key != BESIDE:
                            yield key, transient(f"not compiled within {bound:.0f} s")
            finally:
                for left in list(selector.get_map().values()):
                    self._end(selector, left.fd, left.data[1], texts)

    def _fork(self, request: Request) -> tuple[int, int]:
        """A copy that answers, and the end of a pipe that its reply comes out of."""
        out, into = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: a copy takes none of their locks
            child = os.fork()
        if child:
            os.close(into)
            return child, out
        try:
            os.close(out)
            os.setpgid(0, 0)
            warden.follow_parent()
            for printed in (1, 2):  # what compilers warn of, for each configuration again
                os.dup2(os.open(os.devnull, os.O_WRONLY), printed)
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
            limit = _mapped_bytes() + MEMORY_BYTES
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
            with os.fdopen(into, "w", encoding="utf-8") as pipe:
                lacking = transient("the compiler ran out of memory")
                pipe.write(json.dumps(replied(self._reply, request, lacking), default=vars))
        finally:
            os._exit(0)

    @staticmethod
    def _end(selector: selectors.BaseSelector, pipe: int, child: int, texts: dict[int, bytearray]) -> bytes:
        """What the copy said; it and what it started are gone then."""
        selector.unregister(pipe)
        os.close(pipe)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return bytes(texts.pop(pipe))

    def _reply(self, request: Request) -> Reply:
        if request:
            return self.answer(request)
        with suppress(Exception):  # it is done later, then
            self.beside()  # type: ignore[misc]
        return {}


class Forks(Copies):
    """As `pool.Pool`, for one list of configurations of one kernel of this process.

    `build` compiles the configuration of a place in the list; `beside` does what else a launch needs.
    """

    def __init__(
        self, build: Callable[[int], Compiled], arch: Arch, processes: int | None = None, hurry: bool = False,
        beside: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        target = Target.of(arch)
        super().__init__(self._compiled, processes, hurry, beside, partial(warm, target))
        hashed(target)
        table(arch.isa)
        self.build = build

    def _compiled(self, request: Request) -> Reply:
        if "codes" in request:
            return answer(request)
        made = self.build(request["listed"])
        return answer(request, made) if request["told"] else {}

    def filled(self, count: int) -> list[int]:
        """Compile a list for Triton's own cache alone: places of what compiled in time, all of them where none did."""
        requests = {str(i): {"listed": i, "told": False} for i in range(count)}
        made = sorted(int(key) for key, reply in self.replies(requests) if "refused" not in reply)
        return made or list(range(count))

    def request(self, place: int, count: int, arch: Arch) -> Request:
        """To compile what is at a place of a list of so many. Where there is a process for each, it reads the code at
        once; where there are fewer, codes are read together, since a disassembler takes longer to start than to read.
        """
        read = {"isa": arch.isa, "matrix": matrix_rates(arch)} if count <= self.processes else {}
        return {"listed": place, "told": True, **read}


def _mapped_bytes() -> int:
    """That this process may write to, touched or not: what a limit of data counts."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except OSError:  # no Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
