"""Kernel declarations: `templates/<operator>/<kernel>.toml` read into a frozen `Kernel`.

A declaration says what a problem and a device have to be (`requires`), which tunables a kernel has, what they
imply (threads, shared memory, registers, the tile of each axis), which combinations it cannot run (`rules`), which
are never worth recommending (`avoid`), and how it is launched. Kernels of other tools have a declaration without a
source: that is all the model needs to rank their configurations. A kernel that nobody has fitted can take the
constants of one that its compiler builds alike (`constants_of = "matmul/triton"`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..base.errors import ConfigError, KernelError, nearest
from ..base.shipped import folder
from . import expr
from .expr import Expression

_KEYS = {
    "backend", "model", "title", "source", "requires", "tunables", "defaults", "schedule", "rules", "launches",
    "avoid", "workspace", "constants", "fitted", "constants_of", "isa",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch of a declaration, its numbers still expressions."""

    entry: str
    grid: tuple[Expression, ...]
    block: Expression
    dynamic_smem_bytes: Expression
    args: tuple[str, ...]
    when: Expression


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel as the model and the device layer see it. One object a declaration: compared by identity."""

    name: str
    operator: str
    backend: str
    model: str
    title: str
    path: Path
    source: Path | None
    isa: str
    """What the source is compiled for, where that is more than the device's own: "sm_90a"."""
    requires: Mapping[str, Expression]
    """What a problem and a device have to be, by the sentence that says so."""
    tunables: Mapping[str, tuple[int, ...] | Expression]
    """Values that carver enumerates for each, or the expression that it derives one from."""
    defaults: Mapping[str, int]
    schedule: Mapping[str, Expression]
    rules: Mapping[str, Expression]
    avoid: Mapping[str, Expression]
    launches: tuple[Launch, ...]
    workspace_bytes: Expression
    constants: Mapping[str, float]
    fitted: Mapping[str, Any]
    constants_of: str
    """The kernel whose constants these are; empty where they are its own."""

    @property
    def device_kind(self) -> str:
        """What it runs on: "cpu", or "gpu"."""
        return "cpu" if self.model.startswith("cpu_") else "gpu"

    def unmet(self, scope: Mapping[str, Any]) -> list[str]:
        """The requirements that a problem and a device, as `space.static_scope` has them, do not meet."""
        return [why for why, need in self.requires.items() if not need(scope)]

    def __repr__(self) -> str:
        return f"Kernel({self.operator}/{self.name})"

    def __reduce__(self) -> tuple[Any, ...]:  # compiled expressions do not travel; a copy is the object itself
        return load, (self.path,)


@lru_cache(maxsize=256)
def load(path: Path) -> Kernel:
    """Read one declaration. Raises KernelError that names the file and what is wrong in it."""
    try:
        raw = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as e:
        raise KernelError(f"{path}: {e}") from None
    if unknown := raw.keys() - _KEYS:
        word = min(unknown)
        raise KernelError(f"{path}: unknown key {word!r}; {nearest(word, _KEYS)}")
    if missing := {"backend", "model", "tunables", "schedule"} - raw.keys():
        raise KernelError(f"{path}: missing {', '.join(sorted(missing))}")
    try:
        return _kernel(path, raw)
    except KernelError as e:
        raise KernelError(f"{path}: {e}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise KernelError(f"{path}: {type(e).__name__}: {e}") from None


def _kernel(path: Path, raw: Mapping[str, Any]) -> Kernel:
    tunables = {
        name: expr.parse(values) if isinstance(values, str) else tuple(int(v) for v in values)
        for name, values in raw["tunables"].items()
    }
    defaults = {name: int(v) for name, v in raw.get("defaults", {}).items()}
    if stray := defaults.keys() - tunables.keys():
        raise KernelError(f"default for {min(stray)!r}, which is no tunable; {nearest(min(stray), tunables)}")
    source = raw.get("source")
    relative = load(path.parent.parent / f"{raw['constants_of']}.toml") if "constants_of" in raw else None
    inherited = relative.constants if relative else {}
    return Kernel(
        name=path.stem,
        operator=path.parent.name,
        backend=raw["backend"],
        model=raw["model"],
        title=raw.get("title", f"{path.parent.name} {path.stem}"),
        path=path,
        source=path.parent / source if source else None,
        isa=str(raw.get("isa", "")),
        requires=MappingProxyType({why: expr.parse(text) for why, text in raw.get("requires", {}).items()}),
        tunables=MappingProxyType(tunables),
        defaults=MappingProxyType(defaults),
        schedule=MappingProxyType(_ordered({k: expr.parse(str(v)) for k, v in raw["schedule"].items()})),
        rules=MappingProxyType({why: expr.parse(text) for why, text in raw.get("rules", {}).items()}),
        avoid=MappingProxyType({why: expr.parse(text) for why, text in raw.get("avoid", {}).items()}),
        launches=tuple(map(_launch, raw.get("launches", ()))),
        workspace_bytes=expr.parse(str(raw.get("workspace", {}).get("bytes", 0))),
        constants=MappingProxyType({**inherited, **{k: float(v) for k, v in raw.get("constants", {}).items()}}),
        fitted=MappingProxyType(dict(raw.get("fitted", relative.fitted if relative else {}))),
        constants_of="" if "fitted" in raw else str(raw.get("constants_of", "")),
    )


def _launch(raw: Mapping[str, Any]) -> Launch:
    if unknown := raw.keys() - {"entry", "grid", "block", "dynamic_smem_bytes", "args", "when"}:
        raise KernelError(f"[[launches]] has unknown key {min(unknown)!r}")
    return Launch(
        raw["entry"],
        tuple(expr.parse(str(g)) for g in raw["grid"]),
        expr.parse(str(raw["block"])),
        expr.parse(str(raw.get("dynamic_smem_bytes", 0))),
        tuple(raw["args"]),
        expr.parse(str(raw.get("when", 1))),
    )


def _ordered(schedule: dict[str, Expression]) -> dict[str, Expression]:
    """The columns in an order that computes each after those it uses."""
    out: dict[str, Expression] = {}
    rest = dict(schedule)
    while rest:
        ready = [name for name, e in rest.items() if not (e.names & rest.keys())]
        if not ready:
            raise KernelError(f"schedule columns depend on each other in a circle: {', '.join(rest)}")
        for name in ready:
            out[name] = rest.pop(name)
    return out


@lru_cache(maxsize=1)
def operators() -> Mapping[str, str]:
    """Every shipped operator and its index notation, as `templates/<operator>/op.toml` declares it."""
    found = sorted(folder("templates").glob("*/op.toml"))
    return MappingProxyType({p.parent.name: tomllib.loads(p.read_text())["computes"] for p in found})


@lru_cache(maxsize=256)
def kernels(operator: str, backend: str) -> tuple[Kernel, ...]:
    """The kernels of one operator for one backend; KernelError lists the backends there are."""
    chosen = tuple(k for k in every(operator) if k.backend == backend)
    if not chosen:
        known = sorted({k.backend for k in every(operator)})
        raise KernelError(f"operator {operator!r} has no kernel for backend {backend!r}; it has {', '.join(known)}")
    return chosen


def named(operator: str, backend: str, name: str) -> Kernel:
    """The kernel that a hint is of; ConfigError where there is none."""
    known = {kernel.name: kernel for kernel in kernels(operator, backend)}
    if name not in known:
        raise ConfigError(f"{operator} has no {backend} kernel {name!r}; {nearest(name, known)}")
    return known[name]


@lru_cache(maxsize=256)
def every(operator: str) -> tuple[Kernel, ...]:
    """All kernels of one operator, of any backend."""
    home = folder("templates") / operator
    if not (home / "op.toml").is_file():
        raise KernelError(f"no operator {operator!r}; {nearest(operator, operators())}")
    return tuple(load(p) for p in sorted(home.glob("*.toml")) if p.name != "op.toml")
