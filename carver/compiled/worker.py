"""Compile in parallel in copies of this process, which need to import nothing; and where a kernel lies, in words.

A compiler may hang, die, or use all memory: a copy that does is only one refused candidate, and another takes its
place. Copies never touch the GPU."""

from __future__ import annotations

import base64
import errno
import importlib
import importlib.util
import inspect
import math
import os
import re
import resource
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from ..arch.descriptor import Arch
from ..base.child import Child, Handler
from ..base.children import MOST_CROWDED, Crew
from ..base.errors import CarverError, CompileError, CompilerFailed, ConfigError, first_error, nearest
from ..base.folders import cores_available
from ..base.given import index
from .isa.rates import table
from .machine import read_machines
from .pool import MEMORY_BYTES, SECONDS, Reply, Request, own_fault, told, transient
from .triton import Compiled, Target, function_of, hashed, sentence, source_of

PRINTED_BYTES = 1 << 30
"""Of one file, what a compiler prints too."""


def where_is(kernel: Any) -> dict[str, str]:
    """Where another process finds a kernel. Raises ConfigError for one that no file holds."""
    function = function_of(kernel)
    plain = function.fn
    path = inspect.getsourcefile(plain) or ""
    name = plain.__qualname__
    if "<locals>" in name or not Path(path).is_file():
        where = "inside another function" if "<locals>" in name else "in an interactive session"
        raise ConfigError(
            f"{name} is defined {where}, where another process cannot find it: put it at the top level of a file "
            "and import it from there (in a notebook: %%writefile kernels.py)"
        )
    place = {"path": str(Path(path).resolve()), "module": plain.__module__, "name": name}
    return {**place, "source": source_of(function)}


def find(place: Mapping[str, str]) -> Any:
    """The kernel at a place. Raises ConfigError as `_named`, and for one that calls or names other things than the
    process that asks has there."""
    function = function_of(_named(place))
    if place.get("source", source := source_of(function)) != source:
        raise ConfigError(
            f"{place['name']} is another kernel where {place['path']} is imported again: put what it calls and names "
            "into that file, and change none of it afterwards"
        )
    return function


def _named(place: Mapping[str, str]) -> Any:
    """What has this name in a module. Raises ConfigError where the module does not load or holds no such name."""
    try:
        found: Any = _module(place["module"], Path(place["path"]))
    except (Exception, SystemExit) as error:  # a module of the user's may raise anything
        raise ConfigError(f"{place['path']} cannot be imported: {sentence(error)}") from error
    for part in place["name"].split("."):
        if not hasattr(found, part):
            there = [name for name, value in vars(found).items() if hasattr(value, "arg_names")]
            hint = f"; {nearest(part, there)}" if there else ", nor any other function of triton.jit"
            raise ConfigError(f"{place['path']} has no {place['name']!r}{hint}")
        found = getattr(found, part)
    return found


def _alone(name: str, path: Path) -> ModuleType:
    if name != "__main__":
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is not None and spec.origin and Path(spec.origin).resolve() == path:
            return importlib.import_module(name)
    alias = f"_carver_{path.stem}_{abs(hash(path)):x}"
    if alias in sys.modules:
        return sys.modules[alias]
    spec = importlib.util.spec_from_file_location(alias, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[alias] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[alias]
        sys.path.remove(str(path.parent))
        raise
    return module


def _module(name: str, path: Path) -> ModuleType:
    """The module; one that imports relatively as a part of its package."""
    try:
        return _alone(name, path)
    except ImportError as error:
        if not str(error).startswith("attempted relative import") or not (path.parent / "__init__.py").is_file():
            raise
    folder, name = path.parent, path.stem
    while (folder / "__init__.py").is_file():
        folder, name = folder.parent, f"{folder.name}.{name}"
    sys.path.insert(0, str(folder))
    return importlib.import_module(name)


def kernel_at(text: str) -> Any:
    """The kernel that FILE.py:NAME names, with its autotune and heuristics. Raises ConfigError."""
    found = object_at(text, "a function in it that triton.jit decorates")
    function_of(found)  # raises for what is no kernel
    return found


def object_at(text: str, what: str) -> Any:
    """What FILE.py:NAME names; `what` it should be, for the error. Raises ConfigError."""
    path, colon, name = text.rpartition(":")
    if not colon or not Path(path).is_file():
        why = f"there is no file {path!r}; " if colon else ""
        raise ConfigError(f"{text!r}: {why}write FILE.py:NAME, a file and {what}")
    return _named({"path": str(Path(path).resolve()), "module": Path(path).stem, "name": name})


def encode(value: Any) -> Any:
    """A constant as JSON. Raises ConfigError for a kind that cannot be handed to another process."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            if not hasattr(value, "_fields"):  # whose names would be lost
                return {"tuple": [encode(v) for v in value]}
    kind = type(value).__name__
    if kind == "dtype":
        return {"dtype": value.name} if hasattr(value, "name") else {"torch": str(value).removeprefix("torch.")}
    if kind == "constexpr":
        return encode(value.value)
    if hasattr(value, "fn"):
        return {"kernel": where_is(value)}
    if (number := index(value)) is not None:
        return number
    raise ConfigError(f"a constant is a number, a string, a Triton type or function, or a tuple of them, got {kind}")


def decode(value: Any, find: Callable[[Mapping[str, str]], Any] = find) -> Any:
    """The constant that `encode` wrote; `find` loads a function of Triton's from where it lies."""
    match value:
        case {"tuple": parts}:
            return tuple(decode(v, find) for v in parts)
        case {"dtype": name}:
            return importlib.import_module("triton.language").dtype(name)
        case {"torch": name}:
            return getattr(importlib.import_module("torch"), name)
        case {"kernel": place}:
            return find(place)
    return value


def request(place: int, numbers: Sequence[int | None] = ()) -> Request:
    """To compile what is at a place of a list; `numbers`: as `machine.read_machines` takes them."""
    return {"listed": place, "told": True, "numbers": list(numbers)}


def read(request: Request) -> Reply:
    """What the codes of a request say."""
    codes = [unpacked(code) for code in request["codes"]]
    return {"machines": read_machines(codes, request["isa"], request["units"], numbers=request.get("numbers", ()))}


def answered(made: Compiled, numbers: Sequence[int | None] = ()) -> Reply:
    """What came out, as JSON."""
    return {
        "ttir": made.ttir, "code": packed(made.code), "shared_bytes": made.shared_bytes, "warps": made.warps,
        "stages": made.stages, "ctas": made.ctas, "tensor_columns": made.tensor_columns, "dealt": made.dealt,
        "numbers": list(numbers),
    }  # fmt: skip


def replied(make: Callable[[Request], Reply], request: Request) -> Reply:
    """What `make` gives for a request, else why it gives nothing."""
    try:
        return make(request)
    except CompilerFailed as failed:
        why = str(failed).splitlines()[0]
        if "Cannot find ptxas" in why:
            from triton.knobs import NvidiaTool

            NvidiaTool.from_path.cache_clear()  # it would answer so until the process ends
            why = "Triton's ptxas did not tell its version: it is missing, or it was killed"
        return transient(why)
    except CompileError as refused:
        more = printed(lambda: make(request)) if MLIR.search(str(refused)) else ""
        return {"refused": first_error(more if "error:" in more else str(refused))}
    except CarverError as error:
        return {"error": str(error)}
    except MemoryError:
        return transient("the compiler ran out of memory")
    except OSError as error:  # of the machine: no memory for another process, no room on the disk
        if error.errno == errno.EFBIG:
            return transient("the compiler writes a file that is larger than a process may write here (ulimit -f)")
        return transient(f"the compiler could not run: {error}")
    except Exception as fault:
        return transient(own_fault(fault))


MLIR = re.compile(r"error encountered during parsing|PassManager::run failed")
"""How Triton passes on a refusal of MLIR's, which says why on descriptor 2 alone."""


def printed(again: Callable[[], object]) -> str:
    """What a process prints on descriptor 2 while something fails that failed before."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            with suppress(CarverError):
                again()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")


def packed(code: bytes | str) -> dict[str, str]:
    """Machine code as JSON: "cubin" or "text"."""
    kind, data = ("cubin", code) if isinstance(code, bytes) else ("text", code.encode())
    return {kind: base64.b64encode(zlib.compress(data)).decode()}


def unpacked(code: Mapping[str, str]) -> bytes | str:
    """The machine code that `packed` wrote."""
    [(kind, data)] = code.items()
    plain = zlib.decompress(base64.b64decode(data))
    return plain if kind == "cubin" else plain.decode()


def limited(memory_bytes: int) -> None:
    """Bound what this process writes to, in memory and in one file."""
    # of what it writes to: libraries that a kernel's module imports map gigabytes that nobody touches
    for kind, most in ((resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_FSIZE, PRINTED_BYTES)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


LATE, LATE_S = 3.0, 2.0
"""With `hurry` a copy is late that takes so many times as long as the middle one of the list, and so many seconds at
least. What takes longest by far is code of many instructions that spill. In 40 lists of fla-core that were timed on an
H200 a tenth of the entries takes twice as long, and none of these is faster than the rest by more than 0.2 %. Large
tiles of products do too, and may be the fastest: by five operators on that machine they take up to three times as long.
"""
BESIDE = "beside"
SLACK_S = 30.0
"""What the copy that makes the others may take beyond the time of a request. [s]"""


class Copies:
    """Has each request answered in a copy of this process: by `answer`, in so many at a time. One copy is made of this
    process, whose threads may hold locks that no copy of theirs would release; it has none of them, and makes the
    copies that answer, of which each takes request after request. `beside` does what else is needed, at the same time.
    `hurry`: of so many that will be compiled, what takes far longer than half of them is given up.

    Within a `with` block all copies stay for the next requests: of a process of a gigabyte each costs a tenth of a
    second.
    """

    def __init__(
        self, answer: Callable[[Request], Reply], processes: int | None = None, hurry: int = 0,
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
        if not left or sys.platform != "linux":  # a copy of a process elsewhere may not compile: one by one, here
            yield from ((key, replied(self._reply, request)) for key, request in left.items())
            return
        with nullcontext(self._kept) if self._kept else Child(self._relay) as relay:
            asked = {"requests": left, "beside": self.beside is not None, "seconds": seconds}
            for reply in relay.stream({"stream": asked}, seconds * MOST_CROWDED + SLACK_S):
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
        more = self.beside is not None
        crew = Crew(lambda: Child(self._one, guarded=False), self.processes + more)
        compiled_s, count = list[float](), self.hurry + more

        def bound(took: Sequence[float]) -> float:
            late = took is compiled_s and self.hurry and 2 * len(took) >= count
            return max(LATE_S, LATE * sorted(took)[(max(count, len(took)) - 1) // 2]) if late else math.inf

        def relayed(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
            """Replies of its copies, each as it comes."""
            asked = job["stream"]
            requests = {**({BESIDE: {}} if asked["beside"] else {}), **asked["requests"]}
            took = None if any("codes" in each for each in requests.values()) else compiled_s
            for key, reply, said in crew.replies(requests, asked["seconds"], "compiled", bound, took):
                yield {"key": key, "reply": told(reply, said)}

        return relayed

    def _one(self) -> Handler:
        """In a copy that answers requests."""
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        limited(_mapped_bytes() + MEMORY_BYTES)
        return lambda request: {"reply": replied(self._reply, request)}

    def _reply(self, request: Request) -> Reply:
        if request:
            return self.answer(request)
        with suppress(Exception):  # it is done later, then
            self.beside()  # type: ignore[misc]
        return {}


class Forks(Copies):
    """Compile one list of configurations. `build` compiles that of a place in the list; `beside` does what else a
    launch needs."""

    def __init__(
        self, build: Callable[[int], Compiled], arch: Arch, processes: int | None = None, hurry: int = 0,
        beside: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(self._compiled, processes, hurry, beside)
        self.build, self._arch = build, arch

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]:
        if requests:  # what all copies need
            hashed(Target.of(self._arch))
            table(self._arch.isa)
        yield from super().replies(requests, seconds)

    def _compiled(self, request: Request) -> Reply:
        if "codes" in request:
            return read(request)
        made = self.build(request["listed"])
        return answered(made, request["numbers"]) if request["told"] else {}

    def filled(self, places: Iterable[int]) -> list[int]:
        """Compile for Triton's own cache alone: places of what compiled in time, all of them where none did."""
        requests = {str(i): {"listed": i, "told": False} for i in places}
        made = sorted(int(key) for key, reply in self.replies(requests) if "refused" not in reply)
        return made or [int(key) for key in requests]


def _mapped_bytes() -> int:
    """That this process may write to, touched or not: what a limit of data counts."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except OSError:  # no Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
