"""Compile in parallel in copies of this process, which need to import nothing: for kernels that are loaded already.

A copy is made for each request and ends with its reply. A compiler that hangs, dies or uses too much memory is
therefore only one refused candidate. Copies never touch the GPU. For kernels that are not loaded, and for systems
without fork, there is `pool`.

The first compilation of a process takes some tenths of a second longer than others: it is done once (`warm`), and
copies inherit the result.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ..arch.descriptor import Arch
from ..base.child import Child, Handler
from ..base.children import Crew
from ..base.host import cores_available
from .isa.rates import table
from .machine import matrix_rates
from .pool import MEMORY_BYTES, SECONDS, Reply, Request, told, transient
from .triton import Compiled, Target, hashed, warm
from .worker import answer, limited, replied

LATE, LATE_S = 4.0, 4.0
"""With `hurry` a copy is late that takes so many times as long as the middle one of the list, and so many seconds at
least. What takes longest by far is code of many instructions that spill."""
BESIDE = "beside"
SLACK_S = 30.0
"""What the copy that makes the others may take beyond the time of a request. [s]"""


class Copies:
    """Has each request answered in a copy of this process: by `answer`, so many at a time. One copy is made of this
    process, whose threads may hold locks that no copy of theirs would release; it has none of them, and makes a copy of
    its own for each request. `warm` is done in it once a request was answered well, for later copies to inherit.
    `beside` does what else is needed, in a copy of its own. With `hurry`, what takes far longer than the rest of the
    requests is given up."""

    def __init__(
        self, answer: Callable[[Request], Reply], processes: int | None = None, hurry: bool = False,
        beside: Callable[[], None] | None = None, warm: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.answer = answer
        self.processes = processes or cores_available()
        self.hurry = hurry
        self.beside = beside
        self.warm = warm

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]:
        """Each reply as it comes; a copy that dies or takes longer than `seconds` refuses what it was asked."""
        left = dict(requests)
        if not left:
            return
        with Child(lambda: self._relayed) as copy:
            for reply in copy.stream({"stream": {"requests": left, "seconds": seconds}}, seconds + SLACK_S):
                if reply.outcome != "ok":
                    for key in left:
                        yield key, told(reply)
                    return
                key = reply.data["key"]
                if key != BESIDE:
                    del left[key]
                    yield key, reply.data["reply"]
            self.beside = None  # it is done

    def _relayed(self, job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """In the one copy: replies of its copies, each as it comes."""
        requests = {**({BESIDE: {}} if self.beside else {}), **job["stream"]["requests"]}
        crew = Crew(lambda: Child(self._one), self.processes + (self.beside is not None), keep=False)
        count = len(job["stream"]["requests"])

        def bound(took: Sequence[float]) -> float:
            done = sorted(took)
            late = self.hurry and 2 * len(done) >= count
            return max(LATE_S, LATE * done[(count - 1) // 2]) if late else math.inf

        for key, reply, said in crew.replies(requests, job["stream"]["seconds"], "compiled", bound, self.warm):
            yield {"key": key, "reply": told(reply, said)}

    def _one(self) -> Handler:
        """In a copy that answers one request."""
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        limited(_mapped_bytes() + MEMORY_BYTES)
        lacking = transient("the compiler ran out of memory")
        return lambda request: {"reply": replied(self._reply, request, lacking)}

    def _reply(self, request: Request) -> Reply:
        if request:
            return self.answer(request)
        with suppress(Exception):  # it is done later, then
            self.beside()  # type: ignore[misc]
        return {}


class Forks(Copies):
    """As `pool.Pool`, for one list of configurations of one kernel of this process. `build` compiles the configuration
    of a place in the list; `beside` does what else a launch needs."""

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

    def request(self, place: int, count: int, arch: Arch, numbers: Sequence[int | None] = ()) -> Request:
        """To compile what is at a place of a list of so many. Where there is a process for each, it reads the code at
        once; where there are fewer, codes are read together, since a disassembler takes longer to start than to read.
        """
        read = {"isa": arch.isa, "matrix": matrix_rates(arch)} if count <= self.processes else {}
        return {"listed": place, "told": True, "numbers": list(numbers), **read}


def _mapped_bytes() -> int:
    """That this process may write to, touched or not: what a limit of data counts."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except OSError:  # no Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
