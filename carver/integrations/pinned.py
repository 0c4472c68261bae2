"""Pinned picks for Triton's tuner: from a table of pins, else as a table would have them; nothing is timed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import CarverError, ConfigError
from ..base.folders import cache_folder
from ..compiled.triton import plain_config
from ..compiled.worker import encode
from ..ranking import pins
from ..ranking.pins import Pin, PinsError, Table
from ..ranking.ranking import canonical

log = logging.getLogger("carver.pins")

Copies = Callable[[Sequence[Any]], Any]
"""Makes the compilers of a list."""


@dataclass
class Pinned:
    """What a process takes for each key of each kernel. `table`: a folder or a file, as `pins.path_of` takes it.

    An entry that is missing or stale is logged and chosen anew, which `record` puts into the table; with `strict` it is
    a PinsError.
    """

    table: str | os.PathLike[str] | None = None
    record: bool = False
    margin: float | None = None
    strict: bool = False
    picks: dict[tuple[str, str], Pin] = field(default_factory=dict)
    _read: dict[Path, Table | str] = field(default_factory=dict)
    """Tables by path, or why one cannot be used."""

    def take(
        self, tuner: Any, configs: Sequence[Any], given: Mapping[str, Any], arch: Arch, args: Mapping[str, Any],
        copies: Copies,
    ) -> tuple[Any, str, Pin]:  # fmt: skip
        """One of the configurations, where it comes from, and its pin. `args`: what of `given` the kernel gets.

        Raises CarverError where there is none.
        """
        kernel, key = tuner.fn, tuner_key(tuner, given)
        path = pins.path_of(self.table, arch)
        pin, lacks = self._entry(path, arch, pins.name_of(kernel), key)
        if pin is not None and not (lacks := pins.stale(pin, kernel, configs, arch)):
            return self._taken(pin, configs), f"pinned in {path}", pin
        what = f"{pins.name_of(kernel)} {canonical(key)}: {'the entry is stale: ' if pin else ''}{lacks}"
        if self.strict:
            raise PinsError(f"{what}; record it with 'carver pins record'")
        if pin or (not self.record and (self.table is not None or path.exists())):
            log.warning("%s; chosen anew", what)
        made = pins.pick(
            kernel, configs, args=args, grid=given["grid"], arch=arch, key=key, default=configs[0],
            margin=self.margin, pool=copies,
        )  # fmt: skip
        if self.record:
            table = pins.add(path, arch.name, [made])
            self._read[path] = table
        return self._taken(made, configs), f"chosen: {made.why}", made

    def _entry(self, path: Path, arch: Arch, kernel: str, key: Mapping[str, Any]) -> tuple[Pin | None, str]:
        if path not in self._read:
            try:
                self._read[path] = Table.read(path, arch.name) if path.exists() else f"there is no table {path}"
            except CarverError as error:
                self._read[path] = str(error)
        table = self._read[path]
        if isinstance(table, str):
            return None, table
        pin = table.pins.get((kernel, canonical(key)))
        return pin, "" if pin else f"{path} has no entry"

    def _taken(self, pin: Pin, configs: Sequence[Any]) -> Any:
        found = next((c for c in configs if _plain(c) == canonical(pin.config)), None)
        if found is None:
            raise PinsError(f"{pin.kernel}: {canonical(pin.config)} is none of the kernel's configurations")
        self.picks[pin.place] = pin
        return found


def _plain(config: Any) -> str:
    return canonical({name: encode(value) for name, value in plain_config(config).items()})


def tuner_key(tuner: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the key of Triton's tuner sees them: those that it names, and the types of all tensors."""
    names = [name for name in tuner.arg_names if name in given]
    types = {name: str(given[name].dtype).removeprefix("torch.") for name in names if hasattr(given[name], "dtype")}
    return {name: encode(given[name]) for name in tuner.keys if name in given and name not in types} | types


def asked(pinned: bool | str | os.PathLike[str], **how: Any) -> Pinned | None:
    """What `pinned=` asks for: True, or a table. Raises ConfigError."""
    if not isinstance(pinned, bool | str | os.PathLike):
        raise ConfigError(f"pinned is True, or the file or folder of a table of pins, got {pinned!r}")
    if pinned is False:
        if used := [name for name, value in how.items() if value]:
            raise ConfigError(f"{used[0]}= goes with pinned=")
        return None
    cache_folder()  # what a pick needs beside Triton is missing now, or not at all: each kernel would take its first
    return Pinned(None if pinned is True else pinned, **how)
