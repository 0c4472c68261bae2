"""Kernel declarations: files `templates/<operator>/<kernel>.toml`, which are read into a frozen `Kernel`.

A declaration says

- what it needs of the problem and the device (`requires`);
- which tunables the kernel has, and the columns that its cost model computes from them (`schedule`, with helpers under
  `let`);
- which combinations cannot run (`rules`), and which are never worth recommending (`avoid`);
- how the kernel is launched.

What several declarations say alike stands once, in `templates/common/<name>.toml`: `extends = ["triton_dot"]` adds it.

Kernels of other tools have a declaration without a source, which is enough to rank their configurations. A kernel that
was never fitted can borrow the constants of a similar one of the same compiler (`constants_of = "matmul/triton"`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

from ..base.errors import ConfigError, KernelError, nearest
from ..base.folders import config_folder, folder, own_files
from ..base.given import fits, in_words, shown, text_of, toml_of
from ..base.types import Record
from ..problem.problem import of, operator_files
from . import expr
from .backends import BACKENDS
from .expr import Expression

MAX_TUNABLE = 2**31
"""Largest value of a tunable, so that products of a few of them fit int64."""
FITTED_KEYS = {"device": "str", "date": "str", "dtypes": "list[str]", "error_low": "float", "error_high": "float"}
"""Types of the keys of [fitted] that predictions read, as annotations; other keys are for people."""
KEYS = {
    "backend", "model", "title", "source", "requires", "tunables", "defaults", "options", "let", "schedule", "rules",
    "launches", "avoid", "workspace", "constants", "fitted", "constants_of", "isa", "compiler", "extends",
}  # fmt: skip
COMMON = "common"
"""The folder of what declarations extend, beside those of the operators."""
COMMON_TABLES = ("requires", "tunables", "defaults", "options", "let", "schedule", "rules", "avoid")
"""Those that a file may have which declarations extend; it has no other keys."""
COMPILERS = "compilers"
"""The folder there of what compilers decide."""
LAUNCH_KEYS = {"entry", "grid", "block", "dynamic_smem_bytes", "maps", "args", "when"}
MAP_KEYS = {"tensor", "copied", "copied_at", "sizes", "row_bytes", "box"}


EARLY_E4M3 = "for float8_e4m3 the compute capability is 8.9 or higher, as Triton has it"
"""Source: Triton 3.6 refuses fp8e4nv for 7.5 and 8.0, whatever a kernel does with it."""
AMD_TF32 = "of AMD's devices CDNA 3 alone multiplies TF32, and Triton takes it for no other"
"""Source: Triton 3.6 for gfx908 to gfx1201 refuses input_precision "tf32" but for gfx942."""
AMD_FLOAT8 = "elements of the 8-bit floats of AMD (fnuz) are multiplied by Triton on its GPUs"


class Fault(Record):
    """An error in a declaration, with its table and key; both are empty for an error of the whole file."""

    table: str
    key: str
    says: str

    def __str__(self) -> str:
        place = f"[{self.table}] {self.key}".rstrip()
        return f"{place}: {self.says}" if self.table else self.says


class DeclarationError(KernelError):
    """Raised with all faults of a declaration."""

    def __init__(self, path: Path, faults: Iterable[Fault]) -> None:
        self.path, self.faults = path, tuple(faults)
        super().__init__(f"{path}: {'; '.join(map(str, self.faults))}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.faults)


class Map(Record):
    """How Hopper's copy engine reads a tensor, as expressions; `run.render.TensorMap` has their values.

    Where `copied` holds, it reads the copy that a launch before wrote to the workspace, `copied_at` bytes from there.
    """

    tensor: str
    copied: Expression
    copied_at: Expression
    sizes: tuple[Expression, ...]
    row_bytes: Expression
    box: tuple[Expression, ...]

    def formulas(self) -> Iterator[tuple[str, Expression]]:
        """Every expression, with its key."""
        yield from (("sizes", e) for e in self.sizes)
        yield from (("box", e) for e in self.box)
        yield from (("copied", self.copied), ("copied_at", self.copied_at), ("row_bytes", self.row_bytes))


class Launch(Record):
    """One kernel launch of a declaration, with its grid, block and arguments as expressions."""

    entry: str
    grid: tuple[Expression, ...]
    block: Expression
    dynamic_smem_bytes: Expression
    maps: tuple[Map, ...]
    """Parameters of the kernel before `args`."""
    args: tuple[str, ...]
    when: Expression


class Kernel(Record, eq=False):
    """A declared kernel. There is one object per declaration, so kernels are compared by identity."""

    name: str
    operator: str
    backend: str
    model: str
    title: str
    path: Path
    source: Path | None
    isa: str
    """Target to compile the source for, if it differs from the device's own: "sm_90a"."""
    requires: Mapping[str, Expression]
    """Conditions on the problem and the device, by the sentence that explains each."""
    tunables: Mapping[str, tuple[int, ...] | Expression]
    """For each tunable, the values to enumerate, or an expression that computes its value from others."""
    defaults: Mapping[str, int]
    options: Mapping[str, tuple[str, ...]]
    """By vendor: tunables that only devices of that vendor have. Where one has its default, it is not named."""
    let: Mapping[str, Expression]
    """Named expressions that other expressions use."""
    schedule: Mapping[str, Expression]
    """The columns for the cost model."""
    derived: Mapping[str, Expression]
    """`schedule`, `let` and the columns that the compiler decides, ordered so that each comes after those it uses."""
    rules: Mapping[str, Expression]
    avoid: Mapping[str, Expression]
    launches: tuple[Launch, ...]
    workspace_bytes: Expression
    constants: Mapping[str, float]
    fitted: Mapping[str, Any]
    constants_of: str
    """The kernel whose constants are borrowed; empty if they are its own."""

    @property
    def device_kind(self) -> str:
        """Kind of device that the kernel runs on: "cpu" or "gpu"."""
        return BACKENDS[self.backend].device_kind

    def formulas(self) -> Iterator[tuple[str, str, Expression]]:
        """Every expression of the declaration except launch arguments, with its table and key."""
        yield from (("tunables", name, e) for name, e in self.tunables.items() if isinstance(e, Expression))
        for name, formula in self.derived.items():
            table = "let" if name in self.let else "schedule" if name in self.schedule else ""
            yield table, name if table else "compiler", formula
        for table in ("requires", "rules", "avoid"):
            yield from ((table, why, e) for why, e in getattr(self, table).items())
        for launch in self.launches:
            parts = {"block": launch.block, "dynamic_smem_bytes": launch.dynamic_smem_bytes, "when": launch.when}
            yield from (("launches", "grid", extent) for extent in launch.grid)
            yield from (("launches", key, e) for key, e in parts.items())
            yield from (("launches.maps", key, e) for each in launch.maps for key, e in each.formulas())
        yield "workspace", "bytes", self.workspace_bytes

    def keys(self, vendor: str) -> set[str]:
        """What a configuration may name on devices of that vendor; of no vendor: on those of all."""
        return self.tunables.keys() - {n for other, names in self.options.items() if other != vendor for n in names}

    def unmet(self, scope: Mapping[str, Any]) -> list[str]:
        """The requirements that a problem and a device do not meet; `scope` is their `expr.static_scope`.

        Raises DeclarationError for one that cannot be computed.
        """
        by_triton, arch = self.backend.startswith("triton"), scope["arch"]
        foreign = scope["amd_float8"] and not (by_triton and arch.vendor == "amd")
        early = scope["e4m3"] and by_triton and arch.cc is not None and arch.cc < (8, 9)
        rounded = scope["tf32"] and by_triton and arch.vendor == "amd" and not arch.matrix_unit("tf32")
        out = [why for why, holds in ((AMD_FLOAT8, foreign), (EARLY_E4M3, early), (AMD_TF32, rounded)) if holds]
        for why, need in self.requires.items():
            try:
                met = need(scope)
            except KernelError as error:
                raise DeclarationError(self.path, [Fault("requires", why, str(error))]) from None
            out += [] if met else [why]
        return out

    def __repr__(self) -> str:
        return f"Kernel({self.operator}/{self.name})"

    def __reduce__(self) -> tuple[Any, ...]:  # functions of expressions cannot be pickled: load by name
        return load, (self.path, self.operator)


def load(path: Path, operator: str = "") -> Kernel:
    """Read one declaration. Its operator is the name of its folder unless one is given.

    Raises DeclarationError with all its faults.
    """
    return _load(path, operator or path.parent.name)


@lru_cache(maxsize=256)
def _load(path: Path, operator: str) -> Kernel:
    kernel, faults = read(path, operator)
    if faults:
        raise DeclarationError(path, faults)
    return kernel


def read(path: Path, operator: str = "") -> tuple[Kernel, list[Fault]]:
    """Read a declaration as far as possible, with a list of its faults. Raises DeclarationError if it is not TOML."""
    try:
        raw = _said(text_of(path, KernelError), path)
    except KernelError as e:
        raise DeclarationError(path, [Fault("", "", str(e).removeprefix(f"{path}: "))]) from None
    reader = _Reader(path, raw, operator or path.parent.name)
    reader.extend()
    return reader.kernel(), reader.faults


@lru_cache(maxsize=64)
def _said(text: str, path: Path) -> Mapping[str, Any]:
    """A file's tables: kernels of an operator extend the same file, and borrow constants of each other."""
    return toml_of(text, path, KernelError)


def compilers() -> dict[str, Path]:
    """What declarations may name as their compiler, and the file that says what it decides."""
    return {path.stem: path for path in sorted((folder("templates") / COMMON / COMPILERS).glob("*.toml"))}


def decided(compiler: str, model: str, declared: Collection[str]) -> dict[str, Expression]:
    """The columns of a model that a compiler decides, without those that the declaration gives itself."""
    path = compilers()[compiler]
    said = _said(text_of(path, KernelError), path)
    known = tuple((name, number) for name, number in said["optional"].items() if name not in declared)
    columns = said.get(said["models"].get(model), {})
    return {
        name: expr.steps(f"{compiler}.{name}", text, known) for name, text in columns.items() if name not in declared
    }


class _Reader:
    """Reads one declaration. It collects faults and goes on, so that all are reported at once."""

    def __init__(self, path: Path, raw: Mapping[str, Any], operator: str) -> None:
        self.path, self.raw, self.operator = path, dict(raw), operator
        self.faults: list[Fault] = []

    def extend(self) -> None:
        """Add to each table, after its own keys, those of the files that `extends` names."""
        folders = self.path.parent.parent / COMMON, folder("templates") / COMMON
        known = {path.stem: path for home in reversed(folders) for path in sorted(home.glob("*.toml"))}
        for name in map(str, self.listed("", "extends", self.raw)):
            if name not in known:
                self.fault("", "extends", f"there is no {shown(name)} in {COMMON}/ to extend; {nearest(name, known)}")
                continue
            try:
                raw = _said(text_of(known[name], KernelError), known[name])
            except KernelError as error:
                self.fault("", "extends", f"extends {name!r}: {error}")
                continue
            common = _Reader(known[name], raw, self.operator)
            for word in sorted(raw.keys() - {*COMMON_TABLES}):
                common.fault("", word, f"unknown key {word!r}; {nearest(word, COMMON_TABLES)}")
            for table in (table for table in COMMON_TABLES if table in raw):
                own, its = self.table(table), common.table(table)
                for key in sorted(own.keys() & its.keys()):
                    common.fault(table, key, "stands here already, or in another file that is extended: leave one out")
                self.raw[table] = {**own, **its}
            for fault in common.faults:
                self.fault(fault.table, fault.key, f"of {name!r}, which is extended: {fault.says}")

    def fault(self, table: str, key: str, says: str) -> None:
        if (fault := Fault(table, key, says)) not in self.faults:  # some keys are read twice
            self.faults.append(fault)

    def kernel(self) -> Kernel:
        path, raw = self.path, self.raw
        for word in sorted(raw.keys() - KEYS):
            self.fault("", word, f"unknown key {word!r}; {nearest(word, KEYS)}")
        if missing := {"backend", "model", "tunables", "schedule"} - raw.keys():
            self.fault("", "", f"missing {', '.join(sorted(missing))}")
        tunables = {name: self.tunable(name, values) for name, values in self.table("tunables").items()}
        defaults = dict(self.table("defaults"))
        for name, value in defaults.items():
            if not is_tunable(value):
                self.fault("defaults", name, f"a whole number from 0 to 2^31 is wanted, got {shown(value)}")
                defaults[name] = 0
        options = {vendor: self.named(vendor, names, defaults) for vendor, names in self.table("options").items()}
        for word in self.table("workspace").keys() - {"bytes"}:
            self.fault("workspace", word, f"[workspace] has unknown key {word!r}; it has bytes")
        for name in defaults.keys() - tunables.keys():
            self.fault("defaults", name, f"default for {name!r}, which is no tunable; {nearest(name, tunables)}")
        if (backend := self.text("backend")) not in BACKENDS:
            self.fault("", "backend", f"unknown backend {backend!r}; {nearest(backend, BACKENDS)}")
        lent, fitted = self.relative()
        launches = tuple(self.launch(each) for each in self.tables("launches", raw.get("launches", [])))
        let, schedule = self.expressions("let"), self.expressions("schedule")
        tables: dict[str, Any] = {
            "tunables": tunables, "defaults": defaults, "options": options, "let": let, "schedule": schedule,
            "requires": self.expressions("requires"), "derived": self.ordered({**let, **schedule}),
            "rules": self.expressions("rules"), "avoid": self.expressions("avoid"),
            "constants": {name: float(self.checked("constants", name, value, "float", "a number is wanted", 0.0))
                          for name, value in {**lent, **self.table("constants")}.items()},
            "fitted": self.fitted(self.table("fitted") or fitted),
        }  # fmt: skip
        kernel = Kernel(
            name=path.stem, operator=self.operator, backend=backend, model=self.text("model"),
            title=self.text("title", f"{self.operator} {path.stem}"), path=path,
            source=path.parent / self.text("source") if raw.get("source") else None, isa=self.text("isa"),
            launches=launches,
            workspace_bytes=self.expression("workspace", "bytes", self.table("workspace").get("bytes", 0)),
            constants_of="" if "fitted" in raw else self.text("constants_of"),
            **{name: MappingProxyType(table) for name, table in tables.items()},
        )  # fmt: skip
        self.helpers(kernel)
        return kernel

    def checked(self, table: str, key: str, value: Any, kind: str, wanted: str, otherwise: Any) -> Any:
        """The value if it is of an annotation; else a fault, and what to go on with."""
        if fits(value, kind, {}):
            return value
        self.fault(table, key, f"{wanted}, got {shown(value)}")
        return otherwise

    def text(self, key: str, default: str = "") -> str:
        value = self.raw.get(key, default)
        return str(self.checked("", key, value, "str", f"{key} is a string", value))

    def table(self, name: str) -> Mapping[str, Any]:
        wanted, none = f"[{name}] is a table of keys and values", dict[str, Any]()
        found: Mapping[str, Any] = self.checked("", name, self.raw.get(name, none), "Mapping", wanted, none)
        return found

    def expression(self, table: str, key: str, text: object) -> Expression:
        try:
            return expr.parse(str(text))
        except KernelError as error:
            self.fault(table, key, str(error))
            return expr.parse("0")

    def expressions(self, table: str) -> dict[str, Expression]:
        return {key: self.expression(table, key, text) for key, text in self.table(table).items()}

    def tunable(self, name: str, values: object) -> tuple[int, ...] | Expression:
        if isinstance(values, str):
            return self.expression("tunables", name, values)
        if isinstance(values, list) and values and all(map(is_tunable, values)):
            return tuple(values)
        wanted = "a list of whole numbers or an expression is wanted"
        self.fault("tunables", name, f"{wanted}, each number from 0 to 2^31, got {shown(values)}")
        return (1,)

    def fitted(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        for key, kind in FITTED_KEYS.items():
            self.checked("fitted", key, said.get(key), f"{kind} | None", f"{key} must be {in_words(kind)}", None)
        if "device" in said and "date" not in said:
            self.fault("fitted", "date", "[fitted] names a device, but lacks the date")
        return said

    def named(self, vendor: str, names: object, defaults: Mapping[str, int]) -> tuple[str, ...]:
        if isinstance(names, list) and all(isinstance(name, str) and name in defaults for name in names):
            return tuple(names)
        self.fault("options", vendor, f"a list of tunables that have a default is wanted, got {names!r}")
        return ()

    def relative(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Constants of the kernel that `constants_of` names, if any, and its [fitted]; it may borrow in its turn."""
        name, constants, borrowers = self.text("constants_of"), dict[str, Any](), {self.path}
        while name:
            beside = self.path.parent.parent / f"{name}.toml"
            path = beside if beside.is_file() else folder("templates") / f"{name}.toml"
            if path in borrowers:
                self.fault("", "constants_of", f"constants_of = {name!r} leads back to this kernel")
                break
            borrowers.add(path)
            try:
                other = _Reader(path, _said(text_of(path, KernelError), path), self.operator)
            except KernelError as error:
                self.fault("", "constants_of", f"constants_of = {name!r}: {error}")
                break
            constants = {**other.table("constants"), **constants}
            if "fitted" in other.raw:
                return constants, other.table("fitted")
            name = other.text("constants_of")
        return constants, {}

    def tables(self, name: str, value: object) -> list[Mapping[str, Any]]:
        table, _, key = name.rpartition(".")
        wanted, none = f"{key} are tables, each under [[{name}]]", list[Mapping[str, Any]]()
        return list(self.checked(table, key, value, "list[Mapping]", wanted, none))

    def listed(self, table: str, key: str, raw: Mapping[str, Any]) -> list[Any]:
        return list(self.checked(table, key, raw.get(key, []), "list", f"{key} is a list", []))

    def part(self, table: str, key: str, raw: Mapping[str, Any], default: object = 0) -> Expression:
        return self.expression(table, key, raw.get(key, default))

    def parts(self, table: str, key: str, raw: Mapping[str, Any]) -> tuple[Expression, ...]:
        return tuple(self.expression(table, key, each) for each in self.listed(table, key, raw))

    def keys(self, table: str, raw: Mapping[str, Any], known: Collection[str], *needed: str) -> None:
        for word in sorted(raw.keys() - known):
            self.fault(table, word, f"[[{table}]] has unknown key {word!r}; {nearest(word, known)}")
        if missing := sorted({*needed} - raw.keys()):
            self.fault(table, needed[0], f"[[{table}]] lacks {', '.join(missing)}")

    def launch(self, raw: Mapping[str, Any]) -> Launch:
        table = "launches"
        self.keys(table, raw, LAUNCH_KEYS, "entry", "grid", "block", "args")
        args = map(str, self.listed(table, "args", raw))
        if len(grid := self.parts(table, "grid", raw)) > 3:
            self.fault(table, "grid", f"grid has at most three extents, got {raw['grid']}")
        return Launch(
            str(raw.get("entry", "")), grid, self.part(table, "block", raw, 1),
            self.part(table, "dynamic_smem_bytes", raw),
            tuple(map(self.map, self.tables("launches.maps", raw.get("maps", [])))),
            tuple(arg if arg.endswith("*") else self.expression(table, "args", arg).text for arg in args),
            self.part(table, "when", raw, 1),
        )  # fmt: skip

    def map(self, raw: Mapping[str, Any]) -> Map:
        table = "launches.maps"
        self.keys(table, raw, MAP_KEYS, "tensor", "sizes", "row_bytes", "box")
        return Map(
            str(raw.get("tensor", "")), self.part(table, "copied", raw), self.part(table, "copied_at", raw),
            self.parts(table, "sizes", raw), self.part(table, "row_bytes", raw), self.parts(table, "box", raw),
        )  # fmt: skip

    def ordered(self, declared: Mapping[str, Expression]) -> dict[str, Expression]:
        """`declared` and the columns that the compiler decides, ordered so that each comes after those it uses."""
        out: dict[str, Expression] = {}
        rest = dict(declared)
        if compiler := self.text("compiler"):
            if compiler in compilers():
                rest = {**decided(compiler, self.text("model"), {*self.table("tunables"), *rest}), **rest}
            else:
                self.fault("", "compiler", f"unknown compiler {compiler!r}; {nearest(compiler, compilers())}")
        while rest:
            ready = [name for name, e in rest.items() if not (e.names & rest.keys())]
            if not ready:
                self.fault("", "", f"columns depend on each other in a circle: {', '.join(rest)}")
                break
            for name in ready:
                out[name] = rest.pop(name)
        return out

    def helpers(self, kernel: Kernel) -> None:
        """Check that each name under [let] is new, and that some expression uses it."""
        for name in kernel.let:
            if name in kernel.schedule or name in kernel.tunables:
                self.fault("let", name, f"{name!r} is a {'column' if name in kernel.schedule else 'tunable'} too")
        args = (expr.parse(arg) for launch in kernel.launches for arg in launch.args if not arg.endswith("*"))
        used = {name for e in (*args, *(formula for *_, formula in kernel.formulas())) for name in e.names}
        for name in sorted(kernel.let.keys() - used):
            self.fault("let", name, f"{name!r} is used nowhere; a column that the model reads stands under [schedule]")


def is_tunable(value: object) -> TypeGuard[int]:
    """Whether it is a whole number that a tunable may have."""
    return type(value) is int and 0 <= value <= MAX_TUNABLE


@lru_cache(maxsize=256)
def kernels(operator: str, backend: str) -> tuple[Kernel, ...]:
    """The kernels of an operator for a backend. Raises KernelError, which lists the backends that it has."""
    there = backends(operator)
    if backend not in there.values():
        known = ", ".join(sorted(set(there.values())))
        raise KernelError(f"operator {operator!r} has no kernel for backend {backend!r}; it has {known}")
    return tuple(load(path) for path, its in there.items() if its == backend)


def every(operator: str) -> tuple[Kernel, ...]:
    """All kernels of an operator, of any backend: first those shipped with carver, then those in the user's folder."""
    return tuple(map(load, backends(operator)))


@lru_cache(maxsize=256)
def backends(operator: str) -> Mapping[Path, str]:
    """The backend of each declaration of an operator, by path. Only the lines above the first section are parsed.

    A user's declaration replaces a shipped one of the same name. Folders are read once per process.
    """
    home = folder("templates") / operator
    if not of(operator).computes:
        raise KernelError(f"no operator {operator!r}; {nearest(operator, operator_files())}")
    own = {path.name: path for path in own_files(own_folder() / operator, KernelError) if path.name != "op.toml"}
    shipped = {path.name: path for path in sorted(home.glob("*.toml")) if path.name != "op.toml"}
    return {path: _backend(path) for path in (shipped | own).values()}


def _backend(path: Path) -> str:
    with suppress(KernelError):
        head = toml_of(text_of(path, KernelError).partition("\n[")[0], path, KernelError)
        if isinstance(backend := head.get("backend"), str):
            return backend
    return load(path).backend  # raises with all that is wrong


def own_folder() -> Path:
    """Folder of the user's declarations, each in `<operator>/<kernel>.toml`."""
    return config_folder() / "templates"


def kernel_named(operator: str, name: str, backend: str = "") -> Kernel:
    """The kernel of this name, of the backend or of any. Raises ConfigError if there is none."""
    known = {kernel.name: kernel for kernel in (kernels(operator, backend) if backend else every(operator))}
    if name not in known:
        kind = f"{backend} kernel" if backend else "kernel"
        raise ConfigError(f"{operator} has no {kind} {name!r}; {nearest(name, known)}")
    return known[name]
