"""Compile side by side in copies of this process, which need to import nothing: for kernels that are loaded already.

A copy is made for each request and ends with its reply, so that a compiler that hangs, dies or eats memory is one
refused candidate here too. Copies never touch the GPU. For kernels that are not loaded, and systems without fork,
there is `pool`.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import CarverError, CompileError
from .isa.rates import table
from .pool import MEMORY_BYTES, SECONDS, Reply, Request, cores, passing
from .triton import Target, warm
from .worker import answer


class Forks:
    """As `pool.Pool`, for one kernel of this process and one device."""

    def __init__(
        self, kernel: Any, arch: Arch, processes: int | None = None, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        warm(Target.of(arch))
        table(arch.isa)
        self.kernel = kernel
        self.processes = processes or cores()
        self.memory_bytes = memory_bytes

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]:
        """Each reply as it comes; a copy that dies or takes longer than `seconds` refuses what it was asked."""
        waiting = list(requests)[::-1]
        texts: dict[int, bytearray] = {}
        with selectors.DefaultSelector() as selector:
            try:
                while waiting or texts:
                    while waiting and len(texts) < self.processes:
                        key = waiting.pop()
                        child, pipe = self._fork(requests[key])
                        texts[pipe] = bytearray()
                        selector.register(pipe, selectors.EVENT_READ, (key, child, time.monotonic()))
                    for ready, _ in selector.select(timeout=0.5):
                        if piece := os.read(ready.fd, 1 << 20):
                            texts[ready.fd] += piece
                            continue
                        key, child, _ = ready.data
                        text = self._end(selector, ready.fd, child, texts)
                        why = "the compiler's process ended without an answer, out of memory perhaps"
                        yield key, json.loads(text) if text else passing(why)
                    for late in [k for k in selector.get_map().values() if time.monotonic() - k.data[2] > seconds]:
                        key, child, _ = late.data
                        self._end(selector, late.fd, child, texts)
                        yield key, passing(f"not compiled within {seconds:.0f} s")
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
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            limit = used + self.memory_bytes
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
            with os.fdopen(into, "w", encoding="utf-8") as pipe:
                pipe.write(json.dumps(_reply(request, self.kernel)))
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


def _reply(request: Request, kernel: Any) -> Reply:
    try:
        return answer(request, kernel)
    except CompileError as refused:
        return {"refused": str(refused).splitlines()[0]}
    except CarverError as error:
        return {"error": str(error)}
    except MemoryError:
        return passing("the compiler ran out of memory")
