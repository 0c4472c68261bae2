"""Compilers that fail: no verdict, no hang, nothing lost, nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from carver.base.child import Child
from carver.base.children import Crew, finished, lacked
from carver.base.errors import CompileError, NoCandidates
from carver.compiled.worker import Copies

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


def started() -> Child:
    return Child("fault_targets:of_crew")


def left(command: str) -> list[str]:
    return [p.name for p in Path("/proc").glob("[0-9]*") if command in _words(p)]


def _words(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


FAULTS = {
    "die": ("crash", "status 3"), "kill": ("crash", "SIGKILL"), "fault": ("crash", "SIGSEGV"),
    "half": ("timeout", "not done within"), "sleep": ("timeout", "not done within"), "twice": ("crash", "is none"),
}  # fmt: skip


@pytest.mark.slow
def test_one_bad_job_costs_one_reply() -> None:
    """Of twelve jobs six end badly, each in its own way: the others get their own replies, by their tokens."""
    jobs = {f"{i}": {"n": i, "do": fault} for i, fault in enumerate(FAULTS)}
    jobs |= {f"{i}": {"n": i} for i in range(len(FAULTS), 12)}
    crew = Crew(started, 3)
    found = {key: reply for key, reply, _ in crew.replies(jobs, 2.0, "done")}
    crew.close()
    assert found.keys() == jobs.keys()
    for i, (outcome, said) in enumerate(FAULTS.values()):
        assert found[f"{i}"].outcome == outcome and said in found[f"{i}"].message
    assert all(found[f"{i}"].data == {"said": i} for i in range(len(FAULTS), 12))


def test_what_hides_in_a_session_of_its_own_ends_with_its_child() -> None:
    crew = Crew(started, 1)
    assert [reply.outcome for _, reply, _ in crew.replies({"0": {"n": 0, "do": "leave"}}, 10.0, "done")] == ["ok"]
    crew.close()
    deadline = time.monotonic() + 10
    while left("sleep 54321") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left("sleep 54321")


def test_what_a_child_prints_is_kept_at_both_ends() -> None:
    crew = Crew(started, 1)
    [(_, reply, said)] = crew.replies({"0": {"n": 0, "do": "print"}}, 10.0, "done")
    crew.close()
    assert reply.outcome == "ok" and said.startswith("error: first") and said.rstrip().endswith("last")


@pytest.mark.slow
def test_copies_answer_from_many_threads_at_once() -> None:
    """Threads that hold a lock all the time, while others make copies: a copy that took the lock along would hang."""
    busy, lock = threading.Event(), threading.Lock()

    def holds() -> None:
        while not busy.is_set():
            with lock:
                time.sleep(0.001)

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        return {"refused": f"{request['n']}"}

    def ask(n: int) -> None:
        found[n] = dict(Copies(answer, 2).replies({f"{i}": {"n": n * 10 + i} for i in range(4)}, 30.0))

    found: dict[int, dict[str, Any]] = {}
    holder = threading.Thread(target=holds)
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in (holder, *threads):
        thread.start()
    for thread in threads:
        thread.join(60)
    busy.set()
    holder.join()
    assert found == {n: {f"{i}": {"refused": f"{n * 10 + i}"} for i in range(4)} for n in range(4)}


def test_copies_of_a_block_answer_again() -> None:
    """Each takes request after request, and one that died is replaced."""
    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        if request["n"] == 1:
            os._exit(3)
        return {"refused": f"{os.getpid()}"}

    with Copies(answer, 1) as copies:
        one, two = (dict(copies.replies({f"{n}": {"n": n} for n in some}, 20.0)) for some in ((0, 2), (3, 1, 4)))
    assert one["0"] == one["2"] == two["3"] != two["4"]
    assert "status 3" in two["1"]["refused"]


@pytest.mark.parametrize(("load", "outcome"), [(0.0, "timeout"), (1e6, "ok")])
def test_a_job_may_take_as_much_longer_as_the_machine_is_busy(
    load: float, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second of work, for which a core of its own has 0.2 and one that all others want 0.8."""
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    crew = Crew(started, 1)
    list(crew.replies({"0": {"n": 0}}, 60.0, "done"))  # the child is there
    [(_, reply, _)] = crew.replies({"1": {"n": 1, "do": "nap"}}, 0.2, "done")
    crew.close()
    assert reply.outcome == outcome


PROCESSES = {
    "waits for no child": "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); main()",
    "waits for every child": "import os, signal\n"
    "signal.signal(signal.SIGCHLD, lambda *_: [os.waitpid(-1, os.WNOHANG) for _ in range(9)])\nmain()",
    "has no output": "sys.stdout = sys.stderr = None; main()",
    "has closed it": "os.close(0); os.close(1); os.close(2); main()",
    "is a thread's": "t = threading.Thread(target=main); t.start(); t.join()",
    "is a daemon": "import multiprocessing\n"
    "p = multiprocessing.get_context('fork').Process(target=main, daemon=True); p.start(); p.join()",
    "runs a loop of events": "import asyncio\n"
    "async def work():\n    await asyncio.gather(*(asyncio.to_thread(main) for _ in range(2)))\nasyncio.run(work())",
    "warns of forks": "import warnings; warnings.simplefilter('error')\n"
    "os.register_at_fork(before=lambda: warnings.warn('no forks', RuntimeWarning)); main()",
}


@pytest.mark.parametrize("kind", PROCESSES)
def test_copies_answer_in_a_process_that(kind: str, tmp_path: Path) -> None:
    """What a copy prints goes to carver, whatever stands for the output; what it reads is empty."""
    program = (
        "import os, sys, threading\n"
        "from carver.compiled.worker import Copies\n"
        "def answer(request):\n"
        "    print('said', request['n'])\n"
        "    sys.stdin.read() == '' and request['n'] or os._exit(3)\n"
        "    return {'refused': 'no'}\n"
        "def main():\n"
        "    with Copies(answer, 2) as copies:\n"
        "        found = dict(copies.replies({f'{n}': {'n': n} for n in range(3)}, 60.0))\n"
        "    with open('said', 'a') as file:\n"
        "        file.write(f'{found[\"0\"][\"refused\"]} {found[\"1\"]} {found[\"2\"]}')\n"
        f"{PROCESSES[kind]}\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=100, check=False)
    said = (tmp_path / "said").read_text() if (tmp_path / "said").exists() else done.stderr.decode()
    answers = "{'refused': 'no'} {'refused': 'no'}"
    assert said.count("ended with status 3: said 0") == said.count(answers) == (2 if "loop" in kind else 1), said
    assert b"said" not in done.stdout + done.stderr


def test_where_no_process_is_copied_each_is_answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        if request["n"]:
            raise CompileError("no")
        return {"refused": f"{os.getpid()}"}

    monkeypatch.setattr(sys, "platform", "darwin")
    with Copies(answer, 2) as copies:
        found = dict(copies.replies({f"{n}": {"n": n} for n in range(2)}))
    assert found == {"0": {"refused": f"{os.getpid()}"}, "1": {"refused": "no"}}


@pytest.mark.slow
def test_a_copy_that_hangs_is_one_refusal() -> None:
    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        if request["n"] == 1:
            time.sleep(60)
        return {"refused": "no"}

    began = time.monotonic()
    found = dict(Copies(answer, 2).replies({f"{i}": {"n": i} for i in range(3)}, 2.0))
    assert found["0"] == found["2"] == {"refused": "no"}
    assert found["1"]["transient"] and "not compiled within" in found["1"]["refused"]
    assert time.monotonic() - began < 20


def test_nothing_is_left_of_copies_when_their_caller_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys\n"
        "from carver.compiled.worker import Copies\n"
        "def answer(request):\n"
        "    subprocess.run(['sleep', '65432'])\n"
        "print('ready', flush=True)\n"
        "list(Copies(answer, 2).replies({'0': {'n': 0}, '1': {'n': 1}}, 60.0))\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while len(left("sleep 65432")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(left("sleep 65432")) >= 2
    caller.kill()
    caller.wait()
    while left("sleep 65432") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left("sleep 65432")


def test_a_command_is_ended_in_time_with_all_that_it_started() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        finished(["sh", "-c", "setsid sleep 76543 & sleep 76543"], 0.5)
    deadline = time.monotonic() + 10
    while left("sleep 76543") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left("sleep 76543")


def test_temporary_files_stay_while_the_child_works_and_go_with_it(tmp_path: Path) -> None:
    """A command that a child runs to its end takes none of the child's files along."""
    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp())
        (folder / "kept").touch()
        finished(["true"], 10.0)
        return {"refused": f"{folder} {(folder / 'kept').exists()}"}

    [(_, reply)] = Copies(answer, 1).replies({"0": {"n": 0}}, 20.0)
    folder, _, there = reply["refused"].partition(" ")
    assert there == "True" and not Path(folder).exists()


@pytest.mark.parametrize(
    ("log", "machine"),
    [
        ("`ptxas` failed with error code -9", True), ("`ptxas` raised SIGSEGV", True),
        ("No space left on device", True),
        ("clang: error: unable to execute command: Killed", True), ("ptxas fatal: Memory allocation failure", False),
        ("error: use of undeclared identifier 'x'", False), ("/usr/bin/ld terminated with signal 15", True),
        ("f.cu:1:10: fatal error: none.h: No such file or directory\ncompilation terminated.", False),
        ("100 errors detected in the compilation of \"f.cu\".\nCompilation terminated.", False),
        ("error: unterminated argument list invoking macro \"F\"", False),
        ("ptxas error : Entry function 'k' uses too much shared data (0x20000 bytes, 0xc000 max)", False),
        ('killed.cu(3): error: identifier "x" is undefined\n      int killed = x;\n                   ^\n', False),
        ('f.cu(3): error: identifier "x" is undefined\n      int y = x;\nnvcc error: cicc: Killed', True),
    ],
)  # fmt: skip
def test_a_compiler_that_lacked_something_says_nothing_of_the_kernel(log: str, machine: bool) -> None:
    assert lacked(log) is machine


KERNELS = """
import triton
import triton.language as tl

@triton.jit
def add(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of compilers in place of Triton's, and a kernel beside it."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "kernels_of_children.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("kernels_of_children", None)


@pytest.mark.slow
def test_an_assembler_that_is_killed_is_asked_again(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The out-of-memory killer takes ptxas in the first run; the second run has a time."""
    from kernels_of_children import add  # type: ignore[import-not-found]

    import carver

    fake = tools / "ptxas"
    real = Path(__import__("triton").__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) exec {real} "$@";; esac\n'
        f'[ -e {tools}/short_of_memory ] && kill -9 $$\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(fake))
    x = carver.Tensor("float32", (4096,))

    def rank() -> Any:
        return carver.rank_kernel(add, [{"BLOCK": 256}], args={"x": x, "n": 4096}, grid=(16,), arch="h100")

    (tools / "short_of_memory").touch()
    with pytest.raises(NoCandidates, match=r"-9|SIGKILL"):
        rank()
    (tools / "short_of_memory").unlink()
    assert rank()[0].predicted_ms > 0


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["h100", "mi300x"])
def test_a_cache_of_binaries_alone_changes_no_time(tools: Path, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRITON_STORE_BINARY_ONLY=1 leaves Triton's cache without IR, also for later runs that do not set it."""
    from kernels_of_children import add

    import carver

    x = carver.Tensor("float32", (4096,))

    def rank(name: str) -> float:
        monkeypatch.setenv("CARVER_CACHE_DIR", str(tools / name))
        found = carver.rank_kernel(add, [{"BLOCK": 256}], args={"x": x, "n": 4096}, grid=(16,), arch=arch)
        return float(found[0].predicted_ms)

    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    small = rank("small")
    assert not list((tools / "triton").rglob("add.ttir"))
    monkeypatch.delenv("TRITON_STORE_BINARY_ONLY")
    assert rank("later") == small
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tools / "whole"))
    assert rank("plain") == small
    assert not [path for path in tools.rglob("ir-*")]


@pytest.mark.slow
def test_configurations_that_are_written_many_times_are_compiled_once(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 400 configurations two are distinct: both are compiled, each once, and every place is told of."""
    from kernels_of_children import add

    import carver
    from carver.ranking import kernel

    asked: list[int] = []
    read = kernel.facts_of
    monkeypatch.setattr(kernel, "facts_of", lambda wanted, *a, **b: asked.extend(wanted) or read(wanted, *a, **b))
    configs = [{"BLOCK": 256 << i % 2} for i in range(400)]
    found = carver.rank_kernel(
        add, configs, args={"x": carver.Tensor("float32", (4096,)), "n": 4096}, grid=(16,),
        arch="h100",
    )  # fmt: skip
    assert sorted(asked) == [0, 1] and len(found) == 2 and not found.rejected
