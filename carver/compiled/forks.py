"""Compile in parallel in copies of this process, which need to import nothing: for kernels that are loaded already.

A copy that hangs, dies or uses too much memory is only one refused candidate: another takes its place. Copies never
touch the GPU. For kernels that are not loaded, and for systems without fork, there is `pool`.
"""

from __future__ import annotations

import math
import os
import resource
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Self

from ..arch.descriptor import Arch
from ..base.child import Child, Handler
from ..base.children import Crew
from ..base.host import cores_available
from .isa.rates import table
from .pool import MEMORY_BYTES, SECONDS, Reply, Request, told, transient
from .triton import Compiled, Target, hashed
from .worker import answer, limited, replied

LATE, LATE_S = 4.0, 4.0
"""With `hurry` a copy is late that takes so many times as long as the middle one of the list, and so many seconds at
least. What takes longest by far is code of many instructions that spill."""
BESIDE = "beside"
SLACK_S = 30.0
"""What the copy that makes the others may take beyond the time of a request. [s]"""


class Copies:
    """Has each request answered in a copy of this process: by `answer`, in so many at a time. One copy is made of this
    process, whose threads may hold locks that no copy of theirs would release; it has none of them, and makes the
    copies that answer, of which each takes request after request. `beside` does what else is needed, at the same time.
    With `hurry`, what takes far longer than the rest of the requests is given up.

    Within a `with` block all copies stay for the next requests: of a process of a gigabyte each costs a tenth of a
    second.
    """

    def __init__(
        self, answer: Callable[[Request], Reply], processes: int | None = None, hurry: bool = False,
        beside: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.answer = answer
        self.processes = processes or cores_available()
        self.hurry = hurry
        self.beside = beside
        self._kept: Child | None = None

    def __enter__(self) -> Self:
        self._kept = Child(self._relay)
        return self

    def __exit__(self, *_: object) -> None:
        kept, self._kept = self._kept, None
        if kept:  # copies of a gigabyte take half a second to end, for which nobody need wait
            threading.Thread(target=kept.close).start()

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]:
        """Each reply as it comes; a copy that dies or takes longer than `seconds` refuses what it was asked."""
        left = dict(requests)
        if not left:
            return
        with nullcontext(self._kept) if self._kept else Child(self._relay) as relay:
            asked = {"requests": left, "beside": self.beside is not None, "seconds": seconds}
            for reply in relay.stream({"stream": asked}, seconds + SLACK_S):
                if reply.outcome != "ok":
                    for key in left:
                        yield key, told(reply)
                    return
                key = reply.data["key"]
                if key != BESIDE:
                    del left[key]
                    yield key, reply.data["reply"]
            self.beside = None  # it is done

    def _relay(self) -> Handler:
        """In the one copy."""
        crew = Crew(lambda: Child(self._one), self.processes + (self.beside is not None))

        def relayed(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
            """Replies of its copies, each as it comes."""
            asked = job["stream"]
            count = len(asked["requests"])

            def bound(took: Sequence[float]) -> float:
                done = sorted(took)
                late = self.hurry and 2 * len(done) >= count
                return max(LATE_S, LATE * done[(count - 1) // 2]) if late else math.inf

            requests = {**({BESIDE: {}} if asked["beside"] else {}), **asked["requests"]}
            for key, reply, said in crew.replies(requests, asked["seconds"], "compiled", bound):
                yield {"key": key, "reply": told(reply, said)}

        return relayed

    def _one(self) -> Handler:
        """In a copy that answers requests."""
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
        super().__init__(self._compiled, processes, hurry, beside)
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

    def request(self, place: int, numbers: Sequence[int | None] = ()) -> Request:
        """To compile what is at a place of the list."""
        return {"listed": place, "told": True, "numbers": list(numbers)}


def _mapped_bytes() -> int:
    """That this process may write to, touched or not: what a limit of data counts."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except OSError:  # no Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
