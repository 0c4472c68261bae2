"""The result of a tuning: the best configuration, ready to call, and everything that was tried."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from ..arch import devices as archs
from ..base.errors import ConfigError, DeviceError, Foreign
from ..base.folders import private
from ..base.given import as_json, printable, typed
from ..base.store import blob, unpack
from ..base.table import Column, drawn, in_all, screen_width, tunables, words, wrapped
from ..run.built import Built, elsewhere
from ..run.compile import bundle
from ..run.device import Binary, Program
from ..run.records import Measurement, RecordsError, now, tied
from ..run.session import compiler_of
from ..run.spec import Launch, Param, retargeted
from . import cache

INSTEAD = {
    "latency": "latency_ms", "ref_latency": "ref_latency_ms", "libcode": "kernel.source", "func": "kernel",
    "best_config": "config", "configs_timings": "table", "get_kernel_source": "kernel.source",
    "save_to_disk": "save(folder)", "load_from_disk": "load(folder)", "cache": "table",
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class AutotuneResult:
    """The best configuration with its kernel, and the history: `table` has a measurement for every candidate tried.

    Times are medians, None without a measurement. `stopped`: why the search ended. `env`: device, versions, inputs.
    """

    name: str
    config: Mapping[str, Any]
    latency_ms: float | None
    table: tuple[Measurement, ...]
    env: Mapping[str, Any]
    stopped: str
    trials: int
    seconds: float
    key: str
    predicted_ms: float | None = None
    ref_latency_ms: float | None = None
    baseline_ms: float | None = None
    notes: tuple[str, ...] = ()
    built: Built | None = None
    make: Callable[[], Any] | None = None

    @cached_property
    def kernel(self) -> Any:
        """The winner, callable: `result.kernel(a, b)`."""
        if self.make is not None:
            return self.make()
        if self.built is None:
            raise ConfigError(
                f"{self.name} is Python code, of which only the configuration is kept: call the function with "
                f"{dict(self.config)}"
            )
        return self.built

    def __getattr__(self, name: str) -> Any:
        """Says what stands in place of what results of other tuners have."""
        raise AttributeError(f"a result has no {name!r}{elsewhere(name, INSTEAD)}", name=name, obj=self)

    @property
    def failures(self) -> dict[str, int]:
        """The number of candidates by outcome, without those that worked."""
        return dict(Counter(m.outcome for m in self.table if not m.ok))

    @cached_property
    def tied(self) -> list[Measurement]:
        """The fastest and those that noise does not tell from it, the taken one first (`carver.run.records`)."""
        return tied(self.table) if "objective" not in self.env else []

    @property
    def speedup(self) -> float | None:
        """The time of the baseline over that of the best configuration."""
        return self.baseline_ms / self.latency_ms if self.baseline_ms and self.latency_ms else None

    def summary(self) -> str:
        """The findings in a few lines."""
        if self.latency_ms is None:
            return f"{self.name}: {words(self.config)}; {self.stopped}"
        gain = f", {self.speedup:.3g} x the baseline's speed" if self.speedup else ""
        best = f"{self.name}: {self.latency_ms:.4g} ms with {words(self.config)}{gain}"
        alike = f", {len(self.tied)} tied with the fastest" if len(self.tied) > 1 else ""
        return f"{best}\n{len(self.table)} tried: {outcomes(self.table)}{alike}; {self.stopped}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        own = {"notes": list(self.notes), "table": [m.to_dict() for m in self.table]}
        own |= {name: json.loads(json.dumps(dict(getattr(self, name)), default=str)) for name in ("config", "env")}
        return {name: own[name] if name in own else getattr(self, name) for name in cache.KINDS}

    def save(self, path: Path | str) -> None:
        """Write a file of JSON, which holds a kernel's source, headers and binary."""
        cache.write(Path(path), *self._files())

    def _files(self, parts: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What is saved, with what entered its key."""
        found, files = self.to_dict(), dict[str, bytes]()
        if parts is not None:
            found["parts"] = json.loads(json.dumps(parts, default=str))
        if self.built is None:
            return found, files
        program, binary = self.built.tuned(), self.built.compile()
        files |= bundle(program.source)
        files[f"kernel{binary.path.suffix}"] = binary.path.read_bytes()
        plain = as_json(program)
        plain["source"]["path"] = program.source.path.name
        found["kernel"] = {
            "program": plain, "sources": [name for name in files if not name.startswith("kernel" + binary.path.suffix)],
            "binary": f"kernel{binary.path.suffix}", "sha256": binary.sha256, "log": binary.log,
            "compiler": compiler_of(self.built.kind).identity, "device": self.built.device_name,
            "out": list(self.built.out),
            "params": as_json(self.built.params or ()),
        }  # fmt: skip
        if self.built.launch is not None:
            found["kernel"]["launch"] = as_json(self.built.launch.plain())
        return found, files

    @classmethod
    def load(cls, path: Path | str, device: str | None = None, *, trust: bool = False) -> AutotuneResult:
        """Read and verify what `save` wrote. The kernel is the saved binary if it fits `device`, else compiled again.

        If another user or another machine saved the result, its numbers can be read. Its kernel is code of whoever made
        it and would run with your rights, so it is there only with `trust`.
        """
        saved = cache.read(Path(path))
        return cls.of(saved, device, trust or saved.signed)

    @classmethod
    def of(cls, saved: cache.Saved, device: str | None = None, trust: bool = False) -> AutotuneResult:
        """The result of what was saved. Raises Foreign where it is not what `to_dict` gives."""
        d, make = saved.found, None
        try:
            built = _restore(d["kernel"], saved.files, device) if "kernel" in d and trust else None
            if "kernel" in d and not trust:
                make = partial(_untrusted, saved.where)
            own: dict[str, Any] = {name: d[name] for name in cache.KINDS}
            own |= {"notes": tuple(d["notes"]), "table": tuple(Measurement.from_dict(m) for m in d["table"])}
            own["latency_ms"] = None if d["trials"] == 0 else float(d["latency_ms"])
            return cls(**own, built=built, make=make)
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecordsError) as e:
            raise Foreign(f"{saved.where} is no saved result: {type(e).__name__}: {e}") from None

    def __repr__(self) -> str:
        time = "not measured" if self.latency_ms is None else f"{self.latency_ms:.4g} ms"
        return f"<tuned {self.name}: {time} with {words(self.config)}, {len(self.table)} tried>"

    def __str__(self) -> str:
        width, rows = screen_width(), sorted(self.table, key=lambda m: m.median_ms or math.inf)
        own = [
            Column("ms", tuple(f"{m.median_ms:.4g}" if m.median_ms else "" for m in rows)),
            Column("predicted", tuple(f"{m.predicted_ms:.4g}" if m.predicted_ms else "" for m in rows), spare=99),
            Column("outcome", tuple(m.outcome if m.ok else f"{m.outcome}: {m.reason}" for m in rows), is_text=True,
                   may_shrink=True),
        ]  # fmt: skip
        differ, same = tunables([m.config for m in rows], own, width)
        said = printable(self.summary()).splitlines()
        return "\n".join([*wrapped(said, width), drawn([*differ, *own], width), *wrapped(in_all(same), width)])


def _restore(d: Mapping[str, Any], files: Mapping[str, bytes], device: str | None) -> Built:
    """The kernel of a saved result."""
    where = "cuda:0" if device == "cuda" else device or d["device"]
    kind = where.partition(":")[0]
    if kind != d["device"].partition(":")[0]:
        raise ConfigError(f"the saved kernel is for {d['device']}; it cannot run on {where}")
    program: Program = typed(Program, d["program"])
    contents = {name: files[name] for name in (program.source.path.name, *d["sources"])}
    source = replace(program.source, path=unpack(contents))
    if kind == "cuda":
        with suppress(DeviceError):  # which who calls the kernel gets; without it the result can be read
            source = retargeted(source, archs.load(where).isa)
    binary = None
    # a cubin runs wherever its ISA does; a CPU binary was made for the instruction set that its compiler saw
    if source.isa == program.source.isa and (kind == "cuda" or d["compiler"] == compiler_of(kind).identity):
        built = files[d["binary"]]
        if sha256(built).hexdigest() == d["sha256"]:
            binary = Binary(blob(built, Path(d["binary"]).suffix), d["sha256"], d["log"])
    params = typed(tuple[Param, ...], d["params"])
    launch = typed(Launch, d["launch"]) if "launch" in d else None
    program = replace(program, source=source)
    return Built(None, where, params, d["out"], program=program, binary=binary, launch=launch)


def _untrusted(where: str) -> Any:
    raise ConfigError(
        f"the kernel in {where} was saved by another user or on another machine, and its code would run with your "
        f"rights: if you trust whoever made it, load it with AutotuneResult.load({where!r}, trust=True)"
    )


def outcomes(table: Sequence[Measurement]) -> str:
    """How many ended how, in words."""
    counts = Counter(m.outcome.replace("_", " ") for m in table)
    return ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))


FOLDER = "tune-runs"  # of the cache


class RunLog:
    """Appends to `autotune.log` in the folder of one run. A context manager."""

    def __init__(self, run_id: str) -> None:
        self.path = private(FOLDER, run_id) / "autotune.log"
        self._shown = cache.is_set("CARVER_PRINT_AUTOTUNING")
        self._file = self.path.open("a", encoding="utf-8")

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.say(f"ended by {type(error).__name__}: {error}")
        self._file.close()

    def say(self, text: str) -> None:
        with suppress(OSError):  # of a full disk: the log is read by people alone
            self._file.write(f"{now()} {text}\n")
            self._file.flush()
        if self._shown:
            print(f"carver: {text}", file=sys.stderr, flush=True)

    def candidate(self, place: int, count: int, m: Measurement, recorded: bool) -> None:
        time = f"{m.median_ms:.4g} ms" if m.ok and m.median_ms else f"{m.outcome}: {m.reason}"
        said = f", predicted {m.predicted_ms:.4g} ms" if m.predicted_ms else ""
        self.say(f"[{place}/{count}] {words(m.config)}: {time}{said}{' (recorded)' if recorded else ''}")
