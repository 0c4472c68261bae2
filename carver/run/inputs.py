"""What candidates are called with, the same for each: inputs that are given, supplied or drawn; and Python code, which
goes between processes as the name to import it by, with the values of its arguments.
"""

from __future__ import annotations

import hashlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..base.dtypes import of_array
from ..base.errors import ConfigError, RunError, nearest
from ..base.given import as_json, typed
from ..base.types import Record
from ..ranking.hint import Hint
from .buffers import TORCH_NAMES, Array, as_tf32, decode, encode, is_gpuarray, is_torch
from .spec import LEFT_OUT, Param, element, param_of, scalar


class PythonCode(Record):
    """Python that runs in the worker process: the tuned function, and what the user hooks in."""

    function: Callable[..., Any] | None = None
    pre_hook: Callable[..., Any] | None = None
    bench: Callable[..., Any] | None = None
    post_hook: Callable[..., Any] | None = None
    hooks: tuple[Callable[..., Any], ...] = ()
    """Those of single candidates, which name them by their places here."""
    direct: bool = False
    """The function does the work itself on the arrays; else it returns a callable that does."""
    whole: bool = False
    """It takes the config as one argument, `config`."""

    @property
    def needed(self) -> bool:
        return any((self.function, self.pre_hook, self.bench, self.post_hook, self.hooks))

    def called_with(self, config: Mapping[str, Any], call: Mapping[str, Any], names: Sequence[str]) -> Any:
        """What the function makes of a config and the arguments of the `call`; of one that does the work itself, what
        calls it with arrays of these `names`, wherever among the other arguments they stand."""
        function, given = self.function, {**call, **({"config": config} if self.whole else config)}
        assert function is not None
        if not self.direct:
            return function(**given)
        parameters = inspect.signature(function).parameters.values()
        ordered = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]

        def run(*arrays: Any) -> Any:
            if len(arrays) != len(names):
                what = getattr(function, "__name__", type(function).__name__)
                raise RunError(f"{what} takes {', '.join(names)}; got {len(arrays)} arrays")
            every = {**dict(zip(names, arrays, strict=True)), **given}
            return function(*(every.pop(name) for name in ordered), **every)

        return run

    def references(self) -> dict[str, Any] | None:
        """The functions by module and name; None where one of them cannot be imported elsewhere."""
        given = {name: getattr(self, name) for name in ("function", "pre_hook", "bench", "post_hook")}
        paths = {name: import_path(fn) for name, fn in given.items() if fn is not None}
        hooks = [import_path(hook) for hook in self.hooks]
        known = None not in (*paths.values(), *hooks)
        return {"direct": self.direct, "whole": self.whole, **paths, "hooks": hooks} if known else None

    @classmethod
    def resolve(cls, references: Mapping[str, Any]) -> PythonCode:
        def function(where: str) -> Callable[..., Any]:
            fn: Callable[..., Any] = _undecorated(pkgutil.resolve_name(where))
            return fn

        functions: dict[str, Any] = {k: function(v) if isinstance(v, str) else v for k, v in references.items()}
        return cls(**functions | {"hooks": tuple(map(function, references.get("hooks", ())))})


def import_path(fn: Callable[..., Any]) -> str | None:
    """"module:name" if importing that gives the function, decorated or not."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not module or module == "__main__" or not name or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is not None and _undecorated(found) is fn else None


def _undecorated(found: Any) -> Any:
    """The user's function within what `jit` and `autotune` made of it."""
    while not callable(getattr(found, "__code__", None)) and hasattr(found, "fn"):
        found = found.fn
    return found


def serialized(value: Any) -> Any:
    """A value of a config as JSON that `deserialized` gives back. Raises ConfigError for what cannot travel."""
    if isinstance(value, Hint):
        return {"hint": value.to_dict()}
    if isinstance(value, Param):
        return {"param": as_json(value)}
    if isinstance(value, list | tuple):
        return [serialized(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise ConfigError(f"a config's value must be a number, text or a tuple of them, got {value!r}")


def deserialized(value: Any) -> Any:
    if isinstance(value, Mapping):
        return typed(Param, value["param"]) if "param" in value else Hint.from_dict(value["hint"])
    return tuple(deserialized(v) for v in value) if isinstance(value, list) else value


_PIECE = 1 << 16
"""Elements that are drawn at once."""
_TORCH_TYPES = ("float16", "float32", "float64", "bool", "int16", "int32", "int64")
_GIVEN: ContextVar[tuple[Any, ...] | None] = ContextVar("given inputs", default=None)


class TensorSupplyType(Enum):
    """How inputs are drawn if none are given. `Auto` depends on the element type.

    - Auto: floats uniform in [-1, 1); integers uniform in -2 to 2, as with Integer; unsigned ones in 0 to 2; booleans 0
      or 1.
    - Uniform: [-1, 1) too, and integers as with Auto.
    - Normal: mean 0, deviation 1; Randn is another name for it. Integers are rounded.
    - Zero, One: constants.

    8-bit floats saturate. Both parts of complex numbers are drawn.
    """

    Auto = "auto"
    Integer = "integer"
    Uniform = "uniform"
    Normal = "normal"
    Randn = "randn"
    Zero = "zero"
    One = "one"

    @classmethod
    def of(cls, given: TensorSupplyType | str) -> TensorSupplyType:
        names = {member.value: member for member in cls}
        if not isinstance(given, cls) and str(given).lower() not in names:
            raise ConfigError(f"no supply_type {given!r}; {nearest(str(given), [m.name for m in cls])}")
        return given if isinstance(given, cls) else names[str(given).lower()]


@contextmanager
def set_autotune_inputs(*inputs: Any) -> Iterator[None]:
    """Within it every tuning runs on these arrays (or on the one list of them), whatever else would supply some."""
    given = tuple(inputs[0]) if len(inputs) == 1 and isinstance(inputs[0], list | tuple) else inputs
    if not given:
        raise ConfigError("set_autotune_inputs takes at least one input")
    token = _GIVEN.set(given)
    try:
        yield
    finally:
        _GIVEN.reset(token)


given_inputs = _GIVEN.get


class Draw(Record):
    """An array that is drawn when it is first needed: what was tuned before is found without."""

    param: Param
    how: TensorSupplyType
    seed: tuple[int, int]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.param.extents

    def array(self) -> Array:
        """As stored bits; the same for the same seed. Drawn in pieces: memory that is new costs more than the draw."""
        p, rng = self.param, np.random.default_rng(self.seed)
        if self.how is TensorSupplyType.Zero:
            return np.zeros(p.extents, element(p.dtype))
        stored = np.empty(p.extents, element(p.dtype))
        flat = stored.reshape(-1)
        for start in range(0, flat.size, _PIECE):
            piece = flat[start : start + _PIECE]
            drawn = _draw(rng, piece.shape, p.dtype, self.how)
            piece[...] = encode(as_tf32(drawn) if p.dtype == "tf32" else drawn, p.dtype)
        return stored


class Value(Record):
    """One argument as it travels: an array on the host as stored bits, or a plain number or text. `form` is what the
    function gets it as: numpy, torch, or plain."""

    name: str
    form: str
    dtype: str
    given: Any

    @cached_property
    def content(self) -> Any:
        return self.given.array() if isinstance(self.given, Draw) else self.given

    @property
    def param(self) -> Param:
        """What a kernel takes for it. Raises ConfigError for what none can take."""
        if self.form != "plain":
            return Param(self.name, self.given.shape, self.dtype)
        if self.given is None:
            return Param(self.name, None, LEFT_OUT)
        if not isinstance(self.given, bool | int | float):
            raise ConfigError(f"{self.name} is {self.given!r}; a kernel takes arrays and numbers")
        if self.dtype == "int":
            scalar(self.given)  # raises for what 32 bits do not hold
        return Param(self.name, None, {"bool": "int32", "int": "int32", "float": "float32"}.get(self.dtype, self.dtype))


class Inputs(Record):
    """The arguments of every run, in order, and where they came from."""

    values: tuple[Value, ...]
    origin: str

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of all contents."""
        digest = hashlib.sha256()
        for value in self.values:
            digest.update(f"{value.name} {value.form} {value.dtype}\0".encode())
            if value.form == "plain":
                digest.update(repr(value.content).encode())
            else:
                digest.update(np.ascontiguousarray(value.content).data)
        return digest.hexdigest()

    def write(self, folder: Path) -> list[dict[str, Any]]:
        """Arrays as `.npy` files, without pickles; what `read` takes."""
        manifest: list[dict[str, Any]] = []
        for i, value in enumerate(self.values):
            said, path = {"name": value.name, "form": value.form, "dtype": value.dtype}, str(folder / f"in{i}.npy")
            if value.form != "plain":
                np.save(path, value.content, allow_pickle=False)
            manifest.append(said | ({"content": value.content} if value.form == "plain" else {"path": path}))
        return manifest


def from_user(given: Sequence[Any], names: Sequence[str], origin: str) -> Inputs:
    return Inputs(tuple(map(_value, given, names)), origin)


def _value(given: Any, name: str) -> Value:
    if given is None or isinstance(given, bool | int | float | str):
        return Value(name, "plain", type(given).__name__, given)
    if isinstance(given, np.generic):
        return Value(name, "plain", given.dtype.name, given.item())
    param = param_of(name, given)
    if param is None:
        raise ConfigError(f"input {name} is a {type(given).__name__}; give NumPy arrays, torch tensors or plain values")
    form = "torch" if is_torch(given) else "numpy"
    return Value(name, form, param.dtype, as_stored(given).view(element(param.dtype)))


def as_stored(given: Any) -> Any:
    """A copy on the host of an array's bits; anything else as it is."""
    if is_torch(given):
        import torch

        host, name = given.detach().cpu().contiguous(), of_array(given.dtype)
        bits = torch.int16 if name == "bfloat16" else torch.uint8 if name.startswith("float8") else host.dtype
        return np.array(host.view(bits).numpy())
    if is_gpuarray(given):
        return given.get()
    return np.array(given, order="C") if isinstance(given, np.ndarray) else given


def supply(params: Sequence[Param], supply_type: TensorSupplyType, seed: int, form: str) -> Inputs:
    """Inputs drawn by type, the same for the same seed; outputs are zeros. Needs sizes in numbers."""
    values = []
    for place, p in enumerate(params):
        if p.by_value:
            raise ConfigError(
                f"{p.name} is a number that each call gives, which cannot be drawn: give the inputs with "
                "carver.set_autotune_inputs(...), or supply_prog="
            )
        how = TensorSupplyType.Zero if p.is_output else supply_type
        values.append(Value(p.name, form, p.dtype, Draw(replace(p, shape=p.extents), how, (seed, place))))
    return Inputs(tuple(values), f"supply_type {supply_type.name}, seed {seed}")


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, how: TensorSupplyType) -> Array:
    whole = "int" in dtype or dtype == "bool"
    least, most = (0, 1) if dtype == "bool" else (0, 2) if dtype.startswith("uint") else (-2, 2)
    if dtype.startswith("complex") and how is not TensorSupplyType.One:
        real, imaginary = (_draw(rng, shape, "float32", how) for _ in range(2))
        return np.asarray(real + 1j * imaginary)
    match how:
        case TensorSupplyType.One:
            return np.ones(shape, np.float32)
        case TensorSupplyType.Normal | TensorSupplyType.Randn:
            return rng.standard_normal(shape, np.float32)
        case TensorSupplyType.Integer:
            whole = True
    return rng.integers(least, most + 1, shape).astype(np.float32) if whole else rng.random(shape, np.float32) * 2 - 1


def supplied(program: Callable[..., Any], params: Sequence[Param]) -> Inputs:
    """What the user's `supply_prog(signature)` returned; the signature is a list of `Param`."""
    returned = program(list(params))
    if returned is None:
        raise RunError("supply_prog returned None; it must return the inputs, in the order of the signature")
    given = list(returned) if isinstance(returned, list | tuple) else [returned]
    names = [p.name for p in params] if len(params) == len(given) else [f"arg{i}" for i in range(len(given))]
    return from_user(given, names, "supply_prog")


def as_argument(value: Mapping[str, Any] | Value, device: str) -> Any:
    """A fresh copy in the form that a function takes: NumPy, torch on the device ("cuda:1"), or the plain value."""
    v = value if isinstance(value, Value) else read(value)
    if v.form == "plain":
        return v.content
    if v.form == "numpy":
        return np.array(decode(v.content, v.dtype))
    import torch

    bits = torch.from_numpy(np.array(v.content.view(np.int16) if v.content.dtype == np.uint16 else v.content))
    return bits.view(getattr(torch, TORCH_NAMES.get(v.dtype, v.dtype))).to(device)


def read(entry: Mapping[str, Any]) -> Value:
    """What `Inputs.write` wrote of a value."""
    plain = entry["form"] == "plain"
    content = entry["content"] if plain else np.load(entry["path"], allow_pickle=False)
    return Value(entry["name"], entry["form"], entry["dtype"], content)


def wide(array: Any, *, copy: bool = False) -> Any:
    """Any array as float64 (complex128), to be compared: torch's where it lies, others on the host. Integers of 64
    bits, which float64 does not hold, as they are; booleans as bytes, which tell what was never written."""
    if is_torch(array):
        torch = sys.modules["torch"]
        tensor = array.detach().view(torch.uint8) if array.dtype is torch.bool else array.detach()
        kind = torch.complex128 if array.is_complex() else array.dtype if array.dtype is torch.int64 else torch.float64
        tensor = tensor.to(kind, copy=copy)
        return tensor.resolve_conj() if tensor.is_complex() else tensor
    values = np.asarray(array.get() if is_gpuarray(array) else array)
    values = values.view(np.uint8) if values.dtype == np.bool_ else values
    whole = values.dtype.kind in "iu" and values.itemsize == 8
    return values.astype(values.dtype if whole else np.result_type(values, np.float64), copy=copy)


def host(array: Any) -> Array:
    """The same on the host."""
    values = wide(array)
    return np.asarray(values.cpu().numpy() if is_torch(values) else values)


def beside(array: Any, other: Any) -> Any:
    """The array where `other` is, a NumPy array or torch tensor, in the type that it has if torch knows that."""
    if not is_torch(other):
        return host(array) if is_torch(array) else np.asarray(array.get() if is_gpuarray(array) else array)
    if not is_torch(array):
        import torch

        array = torch.from_numpy(array if str(getattr(array, "dtype", "")) in _TORCH_TYPES else host(array))
    return array.to(other.device)
