"""Pins: the configuration that a kernel takes for given arguments, chosen with nothing timed, in a table that travels.

A pin depends on the source of the kernel, its arguments, the list of configurations, the device's descriptor, and on
the versions of carver and of the compiler: on nothing else, and not on the list's order. A table is one JSON file a
device, entries in a stable order. It is data: whatever it says, only a configuration of the kernel's list is taken, and
`verify` imports the kernels that it names from one folder alone.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..arch.descriptor import Arch
from ..arch.devices import load, to_toml
from ..base.errors import CarverError, CompileError, ConfigError, nearest
from ..base.folders import config_folder, lease, publish
from ..base.given import canonical, check_fields, json_of, number, shown, text_of
from ..base.modules import files
from ..base.types import Record
from ..compiled.binary import Descriptor, Tensor, handed
from ..compiled.inspect import candidate
from ..compiled.triton import function_of, plain_config, settings, source_of, version
from ..compiled.worker import decode, encode, find
from .kernel import rank_kernel
from .ranking import choose, size

FORMAT = 1
LIMIT_S = 1800.0
"""For one configuration: what was not compiled in time would be missing on a slow machine and not on a fast one."""


class PinsError(ConfigError):
    """A table of pins that cannot be read or merged, or an entry that is missing or stale where one is asked for."""


class Pin(Record):
    """What one kernel takes for one key, and all that this depends on."""

    kernel: str
    """Module and name."""
    key: Mapping[str, Any]
    """The arguments that the kernel's own key sees."""
    config: Mapping[str, Any]
    why: str
    predicted_ms: float
    tied: int
    """Number of candidates that the model does not tell from the fastest, with it."""
    depends: Mapping[str, str]
    """Hash of the source with all that it calls, hash of the device's descriptor, versions."""
    args: Mapping[str, Any]
    """All arguments of the call that it was chosen for."""
    candidates: Sequence[Mapping[str, Any]]
    """The configurations that it was chosen from, with the grid of each, smallest first."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Contents of tensors on which loops or branches depend, where they were given."""
    default: Mapping[str, Any] | None = None
    margin: float | None = None
    """`default` was to be left only for a predicted gain above it."""

    @property
    def place(self) -> tuple[str, str]:
        return self.kernel, canonical(self.key)

    @property
    def hash(self) -> str:
        """Of what it depends on."""
        listed = [each["config"] for each in self.candidates]
        return hashed([self.kernel, self.key, self.depends, listed, self.default, self.margin])

    def to_dict(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "hash": self.hash, "checksum": hashed(plain)}

    @classmethod
    def from_dict(cls, given: object, what: object) -> Pin:
        """Raises PinsError for what `to_dict` did not write, and for what was edited since."""
        if not isinstance(given, Mapping):
            raise PinsError(f"{what}: an entry is an object of keys and values, got {shown(given)}")
        plain = {name: value for name, value in given.items() if name not in ("hash", "checksum")}
        check_fields(cls, plain, f"pin ({what})", PinsError)
        if not all(isinstance(each.get("config"), Mapping) for each in plain["candidates"]):
            raise PinsError(f"{what}: the candidates of {shown(plain['kernel'])} have configurations")
        pin = cls(**plain)
        if (given.get("hash"), given.get("checksum")) != (pin.hash, hashed(plain)):
            raise PinsError(f"{what}: the entry of {pin.kernel} was edited or cut; record it again")
        return pin

    def __str__(self) -> str:
        key = ", ".join(f"{name}={_written(value)}" for name, value in self.key.items())
        config = ", ".join(f"{name}={value}" for name, value in self.config.items())
        return f"{self.kernel}({key}): {config}  [{self.predicted_ms:.4g} ms, {self.why}; of {len(self.candidates)}]"


def hashed(value: Any) -> str:
    return sha256(canonical(value).encode()).hexdigest()[:16]


def name_of(kernel: Any) -> str:
    """Module and name of a kernel. A script, and a file that was loaded by its path, has the name under which a program
    imports it from the packages that it lies in."""
    function = function_of(kernel)
    name: str = function.__module__
    if "." not in name:
        path = Path(getattr(sys.modules.get(name), "__file__", None) or name).absolute()
        packages = itertools.takewhile(lambda folder: (folder / "__init__.py").exists(), path.parents)
        name = ".".join([*reversed([folder.name for folder in packages]), path.stem])
    return f"{name}.{function.__name__}"


def depends_on(kernel: Any, arch: Arch) -> dict[str, str]:
    """What picks of a kernel depend on beside its arguments and its list."""
    state = settings()
    return {
        "source": source_of(function_of(kernel))[:16],
        "device": _described(arch),
        "carver": __version__,
        "compiler": f"triton {version()}" + (f" {hashed(state)}" if state else ""),
    }


@lru_cache(maxsize=64)
def _described(arch: Arch) -> str:
    return f"{arch.name} {hashed(to_toml(arch))}"


def listed(configs: Iterable[Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Configurations, smallest first and each once, and what a pin says of each."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for config in configs:
        plain = {name: encode(value) for name, value in plain_config(config).items()}
        found.setdefault(canonical(plain), (config, plain))
    order = sorted(found.values(), key=lambda each: size(each[1]))
    return [config for config, _ in order], [plain for _, plain in order]


def default_key(args: Mapping[str, Any]) -> dict[str, Any]:
    """The key of a call of a kernel that has none of its own: all that it is given."""
    return {name: argument(name, value) for name, value in args.items()}


def argument(name: str, value: Any) -> Any:
    """An argument of a call as JSON. Raises ConfigError for what JSON does not hold."""
    match found := handed(name, value):
        case Tensor():
            return {"dtype": found.dtype, "shape": list(found.shape), "strides": list(found.strides)}
        case Descriptor():
            return {**argument(name, found.tensor), "block_shape": list(found.block_shape)}
        case tuple():
            return {"tuple": [argument(name, part) for part in found]}
    return encode(found)


def _handed(value: Any, find: Callable[[Mapping[str, str]], Any]) -> Any:
    """The argument that `argument` wrote."""
    if isinstance(value, Mapping) and "shape" in value:
        tensor = Tensor(value["dtype"], tuple(value["shape"]), tuple(value["strides"]))
        return Descriptor(tensor, tuple(value["block_shape"])) if "block_shape" in value else tensor
    if isinstance(value, Mapping) and "tuple" in value:
        return tuple(_handed(part, find) for part in value["tuple"])
    return decode(value, find)


def _written(value: Any) -> str:
    """An argument of a key in a line for people: `float16[4096, 64]`, with the strides where rows have gaps."""
    if not (isinstance(value, Mapping) and "shape" in value):
        return f"{value}"
    dense = list(Tensor(value["dtype"], tuple(value["shape"])).strides) == value["strides"]
    return f"{value['dtype']}{value['shape']}" + ("" if dense else f" by {value['strides']}")


def pick(
    kernel: Any, configs: Iterable[Any], *, args: Mapping[str, Any], grid: Any, arch: Arch,
    key: Mapping[str, Any] | None = None, values: Mapping[str, Any] | None = None, default: Any = None,
    margin: float | None = None, pool: Callable[[Sequence[Any]], Any] | None = None, **bounds: Any,
) -> Pin:  # fmt: skip
    """Choose a configuration for these arguments by the model alone. `pool` makes one for the list as it is ranked.

    Raises PinsError where a configuration was neither compiled nor refused, so that another machine might choose
    otherwise, and CarverError for what cannot be ranked.
    """
    if margin is not None:
        number("margin", margin, ConfigError, 0.0, 10.0)
    ordered, plain = listed(configs)
    with pool(ordered) if pool else nullcontext() as compilers:
        ranking = rank_kernel(
            kernel, ordered, args=args, grid=grid, arch=arch, values=values, seconds=LIMIT_S, compile="all",
            pool=compilers, **bounds,
        )  # fmt: skip
    if lost := ranking.undecided:
        why = f"{len(lost)} of {len(ordered)} configurations: {ranking.reasons[lost[0]]}"
        raise PinsError(f"{name_of(kernel)} is not pinned: {why}")
    first = None if default is None or margin is None else {n: encode(v) for n, v in plain_config(default).items()}
    hints = [replace(hint, config=plain[hint.index]) for hint in ranking]
    same = {canonical(plain[i]): plain[hint.index] for hint in ranking for i in (hint.index, *hint.also)}
    choice = choose(hints, first and same.get(canonical(first), first), margin)
    grids = [_grid(kernel, config, args, grid, arch) for config in ordered]
    return Pin(
        name_of(kernel), dict(key) if key is not None else default_key(args), dict(choice.hint.config), choice.why,
        float(f"{choice.hint.predicted_ms:.6g}"), choice.tied, depends_on(kernel, arch),
        {name: argument(name, value) for name, value in args.items()},
        [{"config": config, "grid": place} for config, place in zip(plain, grids, strict=True)],
        {name: np.asarray(value).tolist() for name, value in (values or {}).items()}, first,
        None if first is None else margin,
    )  # fmt: skip


def _grid(kernel: Any, config: Any, args: Mapping[str, Any], grid: Any, arch: Arch) -> list[int] | None:
    try:
        return list(candidate(kernel, config, args, grid, arch).grid)
    except CompileError:  # an option of another vendor's compiler: it has none
        return None


def again(pin: Pin, source: Path, arch: Arch, **bounds: Any) -> Pin:
    """The pin as it would be chosen now, for the same call, from the same list, with functions from `source`."""
    kernel = kernel_of(pin, source)

    def plain(config: Mapping[str, Any]) -> dict[str, Any]:
        return {name: decode(value, inside) for name, value in config.items()}

    def inside(place: Mapping[str, str]) -> Any:
        _lies(pin, place["name"], [Path(place["path"])], source)
        return find(place)

    configs = [plain(each["config"]) for each in pin.candidates]
    grids = {canonical(each["config"]): each["grid"] for each in pin.candidates}
    names = {canonical(sorted(each["config"])): sorted(each["config"]) for each in pin.candidates}

    def grid(known: Mapping[str, Any]) -> tuple[int, ...]:
        for keys in names.values():
            if keys and all(name in known for name in keys):
                said = canonical({name: encode(known[name]) for name in keys})
                if grids.get(said) is not None:
                    return tuple(grids[said])
        raise PinsError(f"{pin.kernel}: the table has no grid for {dict(known)}")

    args = {name: _handed(value, inside) for name, value in pin.args.items()}
    return pick(
        kernel, configs, args=args, grid=grid, arch=arch, key=pin.key, values=pin.values,
        default=pin.default and plain(pin.default), margin=pin.margin, **bounds,
    )  # fmt: skip


def kernel_of(pin: Pin, source: Path) -> Any:
    """The kernel of a pin, imported by its module. Raises PinsError, before it loads anything from elsewhere."""
    module, _, name = pin.kernel.rpartition(".")
    _lies(pin, module, [path for _, path in files(module)], source)
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a module of the user's may raise anything
        raise PinsError(f"{pin.kernel}: module {module} cannot be imported: {error}") from None
    if not hasattr(found, name):
        raise PinsError(f"{pin.kernel}: {module} has no {name!r}; {nearest(name, vars(found))}")
    return getattr(found, name)


def _lies(pin: Pin, what: str, paths: Sequence[Path], source: Path) -> None:
    """Raises PinsError for what does not lie below `source`: a table may come from anybody."""
    if not paths or not all(path.resolve().is_relative_to(source.resolve()) for path in paths):
        raise PinsError(f"{pin.kernel}: {shown(what)} does not lie in {source}, and nothing else is imported")


# tables


def home(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder of tables: what is given, else `CARVER_PINS`, else `pins` in the user's configuration."""
    return Path(given or os.environ.get("CARVER_PINS") or config_folder() / "pins").expanduser()


def path_of(folder: str | os.PathLike[str] | None, arch: Arch) -> Path:
    """The file of a device in a folder of tables; a file is taken as it is."""
    place = home(folder)
    return place if place.suffix == ".json" else place / f"{arch.name}.json"


@dataclass
class Table:
    """The pins of one device, by kernel and key."""

    device: str
    pins: dict[tuple[str, str], Pin] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, device: str | None = None) -> Table:
        """Raises PinsError, which names the file, for one that is cut, edited, empty or of another device."""
        found = json_of(text_of(path, PinsError), path, PinsError)
        if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("pins"), list):
            raise PinsError(f"{path} is no table of pins of format {FORMAT}, as 'carver pins record' writes it")
        name = found.get("device")
        if not isinstance(name, str) or (device is not None and name != device):
            raise PinsError(f"{path} is a table for {shown(name)}, not for {device}")
        table = cls(name)
        for entry in found["pins"]:
            pin = Pin.from_dict(entry, path)
            if pin.place in table.pins:
                raise PinsError(f"{path} has two entries for {pin.kernel} with one key")
            table.pins[pin.place] = pin
        return table

    def text(self) -> str:
        """The file: one line a value, and one a candidate, so that a change is a short difference."""
        entries = []
        for _, pin in sorted(self.pins.items()):
            said = pin.to_dict()
            candidates = ",\n".join(f"    {json.dumps(each, sort_keys=True)}" for each in said.pop("candidates"))
            lines = [f"   {json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in said.items()]
            entries.append("  {\n" + ",\n".join(lines) + ',\n   "candidates": [\n' + candidates + "\n   ]\n  }")
        head = f'{{\n "format": {FORMAT},\n "device": {json.dumps(self.device)},\n "pins": [\n'
        return head + ",\n".join(entries) + "\n ]\n}\n"

    def __iter__(self) -> Iterator[Pin]:
        return iter([pin for _, pin in sorted(self.pins.items())])

    @property
    def hash(self) -> str:
        return picks_hash(self)


def picks_hash(pins: Iterable[Pin]) -> str:
    """Of which configuration each kernel takes for each key: equal on ranks that chose alike, in whatever order."""
    return hashed(sorted([pin.kernel, canonical(pin.key), canonical(pin.config)] for pin in pins))


def add(path: Path, device: str, pins: Iterable[Pin]) -> Table:
    """Put pins into a table, in the place of earlier ones for the same kernel and key; processes take turns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lease(f"pins {path.resolve()}", wait_s=60.0, beside=path):
        table = Table.read(path, device) if path.exists() else Table(device)
        table.pins |= {pin.place: pin for pin in pins}
        publish(path, table.text().encode(), 0o644, lasting=True)
    return table


def merged(paths: Sequence[Path]) -> Table:
    """All entries of several tables of a device. Raises PinsError where two differ, and names both files."""
    tables = [(path, Table.read(path)) for path in paths]
    out, origin = Table(tables[0][1].device), dict[tuple[str, str], Path]()
    for path, table in tables:
        if table.device != out.device:
            raise PinsError(f"{paths[0]} is for {out.device}, {path} for {table.device}")
        for place, pin in table.pins.items():
            other = out.pins.setdefault(place, pin)
            if other.to_dict() != pin.to_dict():
                what = "differs in what it depends on" if other.config == pin.config else "takes another configuration"
                raise PinsError(
                    f"{pin.kernel} {canonical(pin.key)} {what} in {origin[place]} ({canonical(other.config)}) and in "
                    f"{path} ({canonical(pin.config)})"
                )
            origin.setdefault(place, path)
    return out


def differences(one: Table, other: Table) -> list[str]:
    """Where two tables differ, one line each."""
    found = []
    for place in sorted({*one.pins, *other.pins}):
        a, b = one.pins.get(place), other.pins.get(place)
        what = f"{place[0]} {place[1]}"
        if a is None or b is None:
            found.append(f"{what}: only in the {'second' if a is None else 'first'}")
        elif a.config != b.config:
            found.append(f"{what}: {canonical(a.config)}, then {canonical(b.config)}")
        elif a.hash != b.hash:
            found.append(f"{what}: the same pick; {'; '.join(_moved(a, b))}")
    return found


def _moved(a: Pin, b: Pin) -> list[str]:
    """What of the things that a pin depends on differs between two."""
    moved = [f"{name} {a.depends.get(name)}, then {value}" for name, value in b.depends.items()
             if a.depends.get(name) != value]  # fmt: skip
    lists = [{canonical(each["config"]) for each in pin.candidates} for pin in (a, b)]
    moved += [] if lists[0] == lists[1] else [f"a list of {len(lists[0])}, then of {len(lists[1])}"]
    return moved + ([] if (a.default, a.margin) == (b.default, b.margin) else ["another default or margin"])


def stale(pin: Pin, kernel: Any, configs: Iterable[Any], arch: Arch) -> str:
    """In what an entry differs from what it would depend on now; empty where it holds."""
    _, plain = listed(configs)
    now = replace(pin, depends=depends_on(kernel, arch), candidates=[{"config": each} for each in plain])
    return "" if now.hash == pin.hash else "; ".join(_moved(pin, now))


def verify(table: Table, source: Path, arch: Arch | None = None, **bounds: Any) -> Iterator[tuple[Pin, str]]:
    """Compute every entry again, with no GPU: each with what is wrong with it, empty where the same comes out.

    Kernels are imported from the folder `source`, which `sys.path` has.
    """
    device = arch or load(table.device)
    for pin in table:
        try:
            now = again(pin, source, device, **bounds)
        except CarverError as error:
            yield pin, f"cannot be computed again: {error}"
            continue
        problem = ""
        if now.config != pin.config:
            problem = f"takes {canonical(now.config)} now, {canonical(pin.config)} in the table"
        if moved := _moved(pin, now):
            problem = f"{problem or 'the same pick, but stale'}: {'; '.join(moved)}"
        yield pin, problem
