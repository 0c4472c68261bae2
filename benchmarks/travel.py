"""What was tuned, elsewhere: each row makes a cache in one process and uses it in others, as it would be in use.

    python benchmarks/travel.py --json travel.json
    python benchmarks/travel.py "read-only mount" "another user"      # these rows alone
    python benchmarks/travel.py --list

Mounts, users and hosts are real ones, in namespaces: those rows need root on Linux (`unshare`, `setpriv`), ranks need
torch, and where these are missing the row says so. Kernels are in C and run on the CPU. Exits with 1 if a row is not as
expected.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
TESTS = HOME / "tests"
NOBODY, SOMEBODY = 65534, 65533
RANKS = 4
Row = tuple[str, str, bool]


def consumer(given: Mapping[str, Any]) -> dict[str, Any]:
    """Tune a kernel of `tests/tuned.py` and use it: what came of it, and how many candidates were measured."""
    sys.path[:0] = [given.get("tests", str(TESTS))]
    import numpy as np
    import tuned

    import carver
    from carver.tune.sessions import Sessions

    measured: set[int] = set()  # a candidate once, however many rounds finalists got
    measure = Sessions.measure

    def counted(self: Any, ready: Any, *rest: Any) -> Any:
        measured.update(ready)
        if "fill" in given:
            with contextlib.suppress(OSError), Path(given["fill"]).open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        return measure(self, ready, *rest)

    Sessions.measure = counted  # type: ignore[method-assign]
    n, configs = given.get("n", 1000), [{"ways": 1, "delay": d} for d in given.get("delays", (1, 2))]
    result = carver.AutoTuner.from_kernel(tuned.scale, configs, (n,)).run(warmup=1, rep=5, retakes=0)
    x = np.arange(n, dtype=np.float32)
    return {
        "measured": len(measured), "config": dict(result.config), "notes": list(result.notes), "key": result.key,
        "right": bool((result.kernel(x) == 2 * x).all()), "numpy": np.__version__,
    }  # fmt: skip


def run(
    cache: Path, given: Mapping[str, Any] | None = None, before: str = "", unshare: str = "", user: int | None = None,
    **environment: str,
) -> dict[str, Any]:  # fmt: skip
    """A consumer in a process of its own: after the shell commands `before` in new namespaces, as another user."""
    whole = {**os.environ, "CARVER_CACHE_DIR": str(cache), "PYTHONPATH": str(HOME), "PYTHONWARNINGS": "ignore",
             **environment}  # fmt: skip
    command = [sys.executable, str(Path(__file__).resolve()), "--consume", json.dumps(dict(given or {}))]
    if user is not None:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        whole |= {"HOME": "/nonexistent"}
    if before or unshare:
        whole["TRAVEL"] = json.dumps(command)
        python = "import json, os; c = json.loads(os.environ['TRAVEL']); os.execvp(c[0], c)"
        command = ["unshare", unshare or "-m", "sh", "-ec", f"{before or ':'}; exec {sys.executable} -c \"{python}\""]
    done = subprocess.run(command, capture_output=True, text=True, env=whole, check=False, timeout=300, cwd="/")
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def hit(found: Mapping[str, Any]) -> bool:
    return found.get("measured") == 0 and bool(found.get("right")) and not found.get("notes")


def said(found: Mapping[str, Any]) -> str:
    if "error" in found:
        return f"refused: {found['error'].partition(': ')[2][:400]}"
    notes = f"; {'; '.join(found['notes'])}" if found["notes"] else ""
    return f"{found['measured']} measured, the kernel is {'right' if found['right'] else 'WRONG'}{notes}"


# rows


def read_only_mount(home: Path) -> Iterator[Row]:
    cache = home / "cache"
    run(cache)
    before = {p: p.stat().st_mtime_ns for p in cache.rglob("*")}
    mount = f"mount --bind {cache} {cache}; mount -o remount,ro,bind {cache}"
    found = run(cache, before=mount)
    yield "what is in it", said(found), hit(found)
    found = run(cache, {"delays": [3, 4]}, before=mount)
    told = any("cannot be written" in note for note in found.get("notes", ()))
    yield "what is not in it", said(found), found.get("measured") == 2 and bool(found["right"]) and told
    same = {p: p.stat().st_mtime_ns for p in cache.rglob("*")} == before
    yield "the cache afterwards", "no file changed" if same else "CHANGED", same


def another_user(home: Path) -> Iterator[Row]:
    cache, config = home / "cache", home / "config"
    run(cache)
    entered = _interpreter_for_all(home)
    home.chmod(0o755)
    for path in (cache, *cache.rglob("*")):  # what an image's layer looks like
        path.chmod(0o755 if path.is_dir() else 0o644)
    found = run(cache, before=entered, user=NOBODY)
    yield "of root, read by a user", said(found), hit(found)
    for path in (cache, *cache.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY)
    cache.chmod(0o700)
    found = run(cache, before=entered, user=NOBODY, CARVER_TRUST_CACHE=str(cache))
    yield "trusted, who lets nobody read it", said(found), "lets nobody read it" in found.get("error", "")
    cache.chmod(0o755)
    found = run(cache, before=entered, user=NOBODY)
    refused = "belongs to another user" in found.get("error", "") and "carver cache trust" in found["error"]
    yield "of one user, read by another", said(found), refused
    found = run(cache, before=entered, user=NOBODY, CARVER_TRUST_CACHE=str(cache))
    yield "with CARVER_TRUST_CACHE", said(found), hit(found)
    config.mkdir()
    os.chown(config, NOBODY, NOBODY)
    trust = f"{sys.executable} -m carver cache trust {cache}"
    become = f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    subprocess.run(
        ["unshare", "-m", "sh", "-ec", f"{entered}; {become} {trust}"], check=True, cwd="/", capture_output=True,
        env={**os.environ, "PYTHONPATH": str(HOME), "CARVER_CONFIG_DIR": str(config)},
    )  # fmt: skip
    found = run(cache, before=entered, user=NOBODY, CARVER_CONFIG_DIR=str(config))
    yield "after 'carver cache trust'", said(found), hit(found)


def _interpreter_for_all(home: Path) -> str:
    """Shell commands after which every user may run this Python, wherever below a private folder it is installed."""
    prefix = Path(sys.base_prefix).resolve()
    closed = next((p for p in reversed(prefix.parents) if not p.stat().st_mode & 0o001), None)
    if closed is None:
        return ":"
    (home / "python").mkdir()
    away = f"mount --bind {prefix} {home}/python; mount -t tmpfs -o mode=755 tmpfs {closed}"
    return f"{away}; mkdir -p {prefix}; mount --bind {home}/python {prefix}"


def full_disk(home: Path) -> Iterator[Row]:
    cache = home / "cache"
    cache.mkdir()
    disk = f"mount -t tmpfs -o size=2m,mode=700 tmpfs {cache}; head -c 9000000 /dev/zero > {cache}/rest || true"
    found = run(cache, before=disk)
    full = any("is full" in note for note in found.get("notes", ()))
    yield "no byte is left", said(found), bool(found.get("right")) and full
    found = run(cache, {"fill": str(cache / "rest")}, before=f"mount -t tmpfs -o size=2m,mode=700 tmpfs {cache}")
    told = any("not kept" in note for note in found.get("notes", ()))
    yield "it runs full while tuning", said(found), bool(found.get("right")) and told


def image_built_elsewhere(home: Path) -> Iterator[Row]:
    build, image, archive = home / "build", home / "image", home / "tuned.carver"
    first = run(build, unshare="-u", before="hostname builder")
    exported = carver(build, "cache", "export", str(archive))
    (home / "app").mkdir()
    shutil.copy(TESTS / "tuned.py", home / "app")  # the same source, at another path
    imported = carver(image, "cache", "import", str(archive))
    found = run(image, {"tests": str(home / "app")}, unshare="-u", before="hostname server")
    yield "export, import, another host", f"{exported.split(';')[0]}; {said(found)}", hit(found)
    yield "imported", imported.strip(), found.get("key") == first["key"]
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    refused = carver(home / "none", "cache", "import", str(archive)).strip()
    whole = "1 tuned" not in refused and not (home / "none").exists()
    yield "one bit of the archive flipped", f"refused: {refused[:160]}", whole


def patch_releases(home: Path) -> Iterator[Row]:
    cache, other = home / "cache", home / "numpy"
    import numpy

    series, _, patch = numpy.__version__.rpartition(".")
    wanted = f"{series}.{int(patch) - 1 if int(patch) else 1}"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(other), f"numpy=={wanted}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    first = run(cache)
    if done.returncode:
        yield "NumPy", f"not tried: numpy {wanted} cannot be installed here", True
    else:
        path = f"{other}{os.pathsep}{HOME}"
        found = run(cache, PYTHONPATH=path)
        yield f"NumPy {first['numpy']} to {found.get('numpy')}", said(found), hit(found) and found["numpy"] == wanted
        found = run(cache, PYTHONPATH=path, CARVER_KEY="strict")
        yield "with CARVER_KEY=strict", said(found), found.get("measured") == 2
    (home / "app").mkdir()
    text = (TESTS / "tuned.py").read_text().replace("def scale(n: int,", "def scale(  # a comment\n    n: int,")
    (home / "app" / "tuned.py").write_text(text.replace("Y = factor X in C.", "The same in other words."))
    found = run(cache, {"tests": str(home / "app")})
    yield "comments and layout of the function", said(found), hit(found)
    compiler = home / "cc"
    patched = 'cc --version | sed "s/\\([0-9]\\.[0-9]*\\)\\.[0-9]*/\\1.99/g"'
    compiler.write_text(f'#!/bin/sh\n[ "$*" = --version ] && {patched} && exit\nexec cc "$@"\n')
    compiler.chmod(0o755)
    found = run(cache, CC=str(compiler))
    yield "a patch release of the compiler", said(found), hit(found)


def ranks(home: Path) -> Iterator[Row]:
    for how, expected in (("one cache", [2, 0, 0, 0]), ("no cache in common", [2, 0, 0, 0]), ("off", [0] * RANKS)):
        found = together(home / how.replace(" ", "-"), how)
        configs = {json.dumps(each.get("config")) for each in found}
        measured = [each.get("measured", -1) for each in found]
        fine = len(configs) == 1 and measured == expected and all(each.get("right") for each in found)
        told = next((each["error"] for each in found if "error" in each), f"all chose {configs.pop()}")
        title = "CARVER_TUNING=off, no cache" if how == "off" else f"{how}, rank 0 tunes"
        yield title, f"{measured} measured by ranks 0 to {RANKS - 1}; {told}", fine


def together(home: Path, how: str) -> list[dict[str, Any]]:
    """Four processes of `torch.distributed` (gloo) that tune one kernel as `rank` does."""
    home.mkdir()
    every = []
    for i in range(RANKS):
        cache = home / ("cache" if how == "one cache" else f"cache{i}")
        whole = {**os.environ, "CARVER_CACHE_DIR": str(cache), "PYTHONPATH": str(HOME), "RANK": str(i),
                 "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577",
                 "CARVER_TUNING": "off" if how == "off" else "on"}  # fmt: skip
        command = [sys.executable, str(Path(__file__).resolve()), "--rank", how]
        every.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=whole))
    found = []
    for each in every:
        out, error = each.communicate(timeout=300)
        told = (error.strip().splitlines() or ["?"])[-1]
        found.append(json.loads(out.splitlines()[-1]) if each.returncode == 0 else {"error": told})
    return found


def rank(how: str) -> dict[str, Any]:
    """The recipe of docs/howto/caches.md: rank 0 tunes, the others wait, then all take what it found."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        found = consumer({}) if dist.get_rank() == 0 or how == "off" else {}
        if how == "no cache in common":
            with tempfile.TemporaryDirectory() as folder:
                archive = Path(folder) / "tuned.carver"
                parcel: list[bytes | None] = [None]
                if dist.get_rank() == 0:
                    carver(None, "cache", "export", str(archive))
                    parcel = [archive.read_bytes()]
                dist.broadcast_object_list(parcel, src=0)
                if dist.get_rank() != 0 and parcel[0] is not None:
                    archive.write_bytes(parcel[0])
                    carver(None, "cache", "import", str(archive))
        dist.barrier()
        return found or consumer({})
    finally:
        dist.destroy_process_group()


def containers(home: Path) -> Iterator[Row]:
    """Two processes with a mount namespace each tune at once; a candidate writes down when it ran."""
    for title, lock in (("one lock folder", ""), ("a lock folder each", "mount -t tmpfs tmpfs /run/lock")):
        logs = [home / f"{title.replace(' ', '-')}{i}" for i in range(2)]
        shared = home / "lock"
        shared.mkdir(exist_ok=True)
        before = lock or f"mount --bind {shared} /run/lock"
        every = []
        for i, log in enumerate(logs):
            whole = {**os.environ, "CARVER_CACHE_DIR": f"{log}-cache", "PYTHONPATH": f"{HOME}:{TESTS}",
                     "HOOK_LOG": str(log)}  # fmt: skip
            whole.pop("CARVER_LOCK_DIR", None)
            start = f"{before}; exec {sys.executable} {Path(__file__).resolve()} --contend {i}"
            every.append(subprocess.Popen(["unshare", "-m", "sh", "-ec", start], env=whole, text=True, cwd="/",
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))  # fmt: skip
        outs = [each.communicate(timeout=300)[0] for each in every]
        spans = [[tuple(map(float, line.split())) for line in log.read_text().splitlines()] for log in logs]
        first, second = ((min(s)[0], max(end for _, end in s)) for s in spans)
        overlap = max(0.0, min(first[1], second[1]) - max(first[0], second[0]))
        notes = [note for out in outs for note in json.loads(out.splitlines()[-1])["notes"]]
        told = f"; notes: {'; '.join(notes)}" if notes else ""
        apart = overlap == 0.0
        yield title, f"timed at once for {overlap:.2g} s{told}", apart if not lock else not apart


def contend(number: int) -> dict[str, Any]:
    import numpy as np
    import tuned

    import carver

    given = [np.ones(1 << 20, np.float32), np.zeros(1 << 20, np.float32)]
    with carver.set_autotune_inputs(*given):
        made = carver.AutoTuner.from_kernel(tuned.loud, [{"passes": 3 + i + 20 * number} for i in range(4)])
        result = made.set_compile_args(out_idx=[1]).run(warmup=1, rep=60, skip_check=True)
    return {"notes": list(result.notes)}


ROWS: Mapping[str, tuple[Callable[[Path], Iterator[Row]], str]] = {
    "read-only mount": (read_only_mount, "root"), "another user": (another_user, "root"),
    "full disk": (full_disk, "root"), "image built elsewhere": (image_built_elsewhere, "root"),
    "patch releases": (patch_releases, ""),
    "four ranks": (ranks, "torch"), "containers on one device": (containers, "root"),
}  # fmt: skip


def carver(cache: Path | None, *command: str) -> str:
    """The output of a command of carver's."""
    environment = {**os.environ, "PYTHONPATH": str(HOME), **({"CARVER_CACHE_DIR": str(cache)} if cache else {})}
    done = subprocess.run([sys.executable, "-m", "carver", *command], capture_output=True, text=True, env=environment,
                          check=False)  # fmt: skip
    return done.stdout + done.stderr


def lacks(need: str) -> str:
    if need == "root" and (sys.platform != "linux" or os.getuid() != 0 or shutil.which("unshare") is None):
        return "needs root on Linux, unshare and setpriv"
    return "needs torch" if need == "torch" and find_spec("torch") is None else ""


def table(wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name in wanted:
        part, need = ROWS[name]
        if why := lacks(need):
            yield {"row": name, "case": "", "found": f"not tried: {why}", "ok": None, "seconds": 0.0}
            continue
        with tempfile.TemporaryDirectory(prefix="travel-") as folder:
            began = time.monotonic()
            try:
                for case, found, fine in part(Path(folder)):
                    seconds = time.monotonic() - began
                    yield {"row": name, "case": case, "found": found.replace(folder, "..."), "ok": fine,
                           "seconds": round(seconds, 1)}  # fmt: skip
                    began = time.monotonic()
            except Exception as e:  # the rows that follow are tried all the same
                yield {"row": name, "case": "", "found": f"{type(e).__name__}: {e}", "ok": False, "seconds": 0.0}


def main() -> int:
    parser = argparse.ArgumentParser(description="what was tuned, elsewhere")
    parser.add_argument("rows", nargs="*", help="all unless named")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true")
    for hidden in ("--consume", "--rank", "--contend"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    for asked, answer in ((args.consume, lambda text: consumer(json.loads(text))), (args.rank, rank),
                          (args.contend, lambda text: contend(int(text)))):  # fmt: skip
        if asked is not None:
            print(json.dumps(answer(asked)))
            return 0
    if args.list:
        print("\n".join(ROWS))
        return 0
    if unknown := [name for name in args.rows if name not in ROWS]:
        parser.error(f"no row {unknown[0]!r}; --list names them")
    rows = []
    for row in table(args.rows or list(ROWS)):
        rows.append(row)
        mark = {True: "ok  ", False: "NO  ", None: "-   "}[row["ok"]]
        print(f"{mark} {row['row']:24} {row['case']:36} {row['found']}", flush=True)
        if args.json:
            args.json.write_text(json.dumps({"python": sys.version.split()[0], "rows": rows}, indent=1) + "\n")
    return 0 if all(row["ok"] is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
