"""What carver finds on this machine: device, compilers, caches, settings in effect, and what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

from .._version import __version__
from ..arch import detect
from ..arch import devices as arch
from ..base.errors import CarverError, KernelError, nearest
from ..base.folders import cache_folder, cores_available, existing, is_writable, shipped
from ..base.store import BLOBS
from ..base.table import screen_width
from ..kernels import declaration, trace
from ..problem.problem import operator_files
from ..run.bench import versions
from ..run.built import cpu_workers
from ..run.compile import Compiler, c_compiler, cuda_compiler, hip_compiler
from ..run.records import Records
from . import cache
from .cache import FOLDER

T = TypeVar("T")

SETTINGS, EXTRAS = shipped("settings")["environment"], shipped("settings")["packages"]


def examine() -> dict[str, Any]:
    """Everything that the report shows, in plain types. Runs no kernel."""
    missing: list[str] = []
    devices = [{"name": "cpu", "title": arch.CPU("auto").title, "cores": cores_available()}]
    try:
        devices += [{"name": f"cuda:{i}", "title": gpu.name} for i, gpu in enumerate(detect.nvidia())]
    except CarverError as e:
        missing.append(f"CUDA kernels can be ranked and compiled, not run: {str(e).partition(';')[0]}")
    compilers = {
        "C": _said(lambda: _describe(c_compiler()), missing),
        "CUDA": _said(lambda: _describe(cuda_compiler()), missing),
        "HIP": _said(lambda: _describe(hip_compiler()), missing),
    }
    packages = {each: _installed(each) for each in EXTRAS}
    missing += [f"{name}: {lost}" for name, lost in EXTRAS.items() if find_spec(name) is None]
    entries = list(cache.entries())
    bad = [f"{e.key[:12]}: {e.problem}" for e in entries if e.problem]
    return {
        "version": __version__,
        "extension": trace.loops is not None,
        "versions": versions(),
        "devices": devices,
        "compilers": compilers,
        "packages": packages,
        "caches": {
            "folder": str(cache_folder()),
            "writable": is_writable(cache_folder()),
            "free_bytes": shutil.disk_usage(existing(cache_folder())).free,
            "tuned": {"entries": len(entries), "bytes": sum(e.size_bytes for e in entries), "unusable": bad,
                      "off": cache.disk_off()},
            "files": _count(cache_folder() / BLOBS),
            "runs": _count(cache_folder() / FOLDER),
            "records": _said(_records, missing),
        },
        "descriptors": {"folder": str(arch.own_folder()), "names": arch.own_names()},
        "declarations": {"folder": str(declaration.own_folder()), "names": _said(_declared, missing) or []},
        "settings": {name: os.environ.get(name) for name in SETTINGS},
        "compilers_at_once": _said(cpu_workers, missing),
        "missing": missing,
    }  # fmt: skip


def report(found: dict[str, Any]) -> str:
    """The same as text."""
    caches = found["caches"]
    how = "run by the extension" if found["extension"] else "run in Python: faster if installed with a C compiler"
    lines = [f"carver {found['version']}, formulas {how}", "", "devices"]
    for d in found["devices"]:
        lines.append(f"  {d['name']:<8s}{d['title']}" + (f", {d['cores']} cores" if "cores" in d else ""))
    lines += ["", "compilers", *(f"  {name:<8s}{said}" for name, said in found["compilers"].items())]
    lines += ["", "packages", *(f"  {name:<13s}{said or '-'}" for name, said in found["packages"].items())]
    lines += ["", "caches", f"  folder    {caches['folder']}{'' if caches['writable'] else ' (cannot be written)'}"]
    tuned = caches["tuned"]
    off = ", switched off" if tuned["off"] else ""
    lines.append(f"  tuned     {tuned['entries']} entries, {tuned['bytes'] / 1e6:.3g} MB{off}")
    lines += [f"          unusable: {each}" for each in tuned["unusable"]]
    for name in ("files", "runs"):
        lines.append(f"  {name:<10s}{caches[name]['files']} files, {caches[name]['bytes'] / 1e6:.3g} MB")
    if records := caches["records"]:
        lines.append(f"  records   {records['path']}, {records['runs']} runs")
    for what in ("descriptors", "declarations"):
        own = found[what]
        lines += ["", f"{what} of your own", f"  folder    {own['folder']}"]
        lines.append(f"  names     {', '.join(own['names']) or 'none'}")
    lines += ["", "settings"]
    for name, value in found["settings"].items():
        lines += _hanging(f"{name:<26s}{'' if value is None else f'{value}: '}{SETTINGS[name]}", 26)
    lines.append(f"  {'compilers at once':<26s}{found['compilers_at_once'] or '-'}")
    lines += ["", "missing", *(line for each in found["missing"] or ["nothing"] for line in _hanging(each, 2))]
    return "\n".join(lines)


def _hanging(text: str, under: int) -> list[str]:
    """As wide as the screen, what goes on `under` letters in."""
    inner = " " * (under + 2)
    return wrap(text, screen_width(), initial_indent="  ", subsequent_indent=inner, break_on_hyphens=False)


def _said(ask: Callable[[], T], missing: list[str]) -> T | None:
    try:
        return ask()
    except CarverError as e:
        missing.append(str(e))
        return None


def _installed(package: str) -> str | None:
    try:
        return version(package) if find_spec(package) else None
    except PackageNotFoundError:
        return "of no version"  # on the path without being installed


def _declared() -> list[str]:
    """The user's declarations. Raises KernelError where one is of no operator, or cannot be read."""
    names, known = [], operator_files()
    for path in sorted(declaration.own_folder().glob("*/*.toml")):
        if (operator := path.parent.name) == declaration.COMMON:
            continue
        if operator not in known:
            raise KernelError(f"{path}: no operator {operator!r}; {nearest(operator, known)}")
        names.append(f"{operator}/{declaration.load(path).name}")
    return names


def _describe(compiler: Compiler) -> str:
    return f"{compiler.path} ({compiler.version})"


def _records() -> dict[str, Any]:
    with Records(new=False) as records:
        return {"path": str(records.path), "runs": len(records.runs())}


def _count(folder: Path) -> dict[str, int]:
    """Other processes write here and delete: what is gone by the time it is asked for is not counted."""
    sizes = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                sizes.append(Path(parent, name).stat().st_size)
    return {"files": len(sizes), "bytes": sum(sizes)}
