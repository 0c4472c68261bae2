"""Checks of everything that comes from outside, each done once and by what is declared: files by size and form, JSON by
the fields of a dataclass, arguments by the annotations of a function.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import operator
import re
import stat
import sys
import tomllib
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import IO, Any, ParamSpec, TextIO, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from .errors import nearest

MOST_BYTES = 64 << 20
"""Of a file that is read, unpacked: a thousand times the largest table that ships; as JSON it stays below 2 GB."""
PIECE_BYTES = 1 << 20
"""That are read at once: a read takes the memory that it may need beforehand."""
MOST_ITEMS = 1 << 24
"""Of a list that an argument is: a range can have any number of them."""
SHOWN = 100
"""Characters of what was given that an error repeats."""

Error = type[Exception]
P = ParamSpec("P")
R = TypeVar("R")


def shown(value: object) -> str:
    """Its repr, cut, without anything that a terminal would take for a command."""
    try:
        text = repr(value)
    except Exception:  # of any class, or an integer of more digits than Python writes
        text = f"a {type(value).__name__}"
    return printable(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def printable(text: str) -> str:
    """The text with control characters, an escape sequence's first above all, written out."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], text)


def content(path: Path, error: Error, most_bytes: int = MOST_BYTES) -> bytes:
    """What a file holds, unpacked if it ends in ".gz". Raises `error` where it cannot be read, or holds more."""
    found = bytearray()
    try:
        if not str(path).startswith(("/dev/", "/proc/")) and not stat.S_ISREG(path.stat().st_mode):
            raise error(f"{path}: is no plain file")  # to open a pipe that nobody writes to is to wait for ever
        if path.suffix == ".gz":
            import gzip
        with cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as file:
            while len(found) <= most_bytes and (piece := file.read(PIECE_BYTES)):
                found += piece
    except (OSError, EOFError, ValueError, zlib.error) as e:  # of a name that no file has: ValueError
        raise error(f"{printable(str(path))}: cannot be read: {getattr(e, 'strerror', None) or e}") from None
    if len(found) > most_bytes:
        unpacked = ", unpacked" if path.suffix == ".gz" else ""
        raise error(f"{path}: holds more than {most_bytes >> 20} MiB{unpacked}, which no file that carver reads does")
    return bytes(found)


def text_from(file: TextIO, error: Error) -> str:
    """The text of an open file, a pipe too, without the mark that spreadsheets begin one with."""
    return next(_pieces(file, file.read, error), "").removeprefix("\ufeff")


def lines_from(file: TextIO, error: Error) -> Iterator[str]:
    return _pieces(file, file.readline, error)


def _pieces(file: TextIO, read: Callable[[int], str], error: Error) -> Iterator[str]:
    """What `read` gives, until there is no more; none of it may be longer than a file may be."""
    name = printable(str(getattr(file, "name", "the input")))
    try:
        while piece := read(MOST_BYTES + 1):
            if len(piece) > MOST_BYTES:
                raise error(f"{name}: holds more than {MOST_BYTES >> 20} MiB, which nothing that carver reads does")
            yield piece
    except UnicodeDecodeError as e:
        raise error(f"{name}: no text in UTF-8: {e}") from None
    except OSError as e:
        raise error(f"{name}: cannot be read: {e.strerror}") from None


def text_of(path: Path, error: Error) -> str:
    """`content` as text in UTF-8, without the mark that spreadsheets begin a file with."""
    try:
        return content(path, error).decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise error(f"{path}: no text in UTF-8: {e}") from None


def toml_of(text: str, what: object, error: Error) -> dict[str, Any]:
    """A parsed TOML file. NaN and infinity are refused."""
    try:
        return tomllib.loads(text, parse_float=_finite)
    except (ValueError, RecursionError) as e:  # an integer of thousands of digits, too
        raise error(f"{what}: {'' if str(e).endswith('finite number') else 'not TOML: '}{e}") from None


def json_of(text: str | bytes, what: object, error: Error, *, finite: bool = True) -> Any:
    """A parsed JSON document. If `finite`, NaN, infinity and numbers that are too large (64 bits) are refused."""
    if not isinstance(text, str | bytes | bytearray):
        raise error(f"{what} is JSON text, got {shown(text)}")
    with _as_json(what, error):
        found = json.loads(text, object_pairs_hook=once, **(_FINITE if finite else {}))
        _check_halves(text, found)
    return found


def json_each(text: str, what: object, error: Error) -> list[Any]:
    """JSON documents one after the other, on one line each or on several."""
    decode, found, end = json.JSONDecoder(object_pairs_hook=once, **_FINITE).raw_decode, [], 0
    with _as_json(what, error):
        while at := re.compile(r"\S").search(text, end):
            value, end = decode(text, at.start())
            found.append(value)
        _check_halves(text, found)
    return found


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values. Raises ValueError for a key that stands there twice."""
    if len(found := dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"an object has the key {shown(max(names, key=names.count))} twice")
    return found


def _check_halves(text: str | bytes | bytearray, found: object) -> None:
    """Raises ValueError for halves of a surrogate pair, which JSON can spell, but no file and no database holds."""
    spelt = re.search(r"\\u[dD]", text) if isinstance(text, str) else re.search(rb"\\u[dD]", text)
    if spelt or (isinstance(text, str) and not text.isascii()):
        json.dumps(found, ensure_ascii=False).encode()


@contextmanager
def _as_json(what: object, error: Error) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise error(f"{what} is no JSON that can be read: it is nested too deep") from None
    except ValueError as e:  # JSONDecodeError, UnicodeDecodeError, an integer of thousands of digits
        raise error(f"{what} is not JSON: {printable(str(e))}") from None


def _finite(word: str) -> float:
    if not math.isfinite(value := float(word)):
        raise ValueError(f"{word[:SHOWN]} is no finite number")
    return value


def _integer(word: str) -> int:
    if not -(2**63) <= (value := int(word)) < 2**63:
        raise ValueError(f"{word[:SHOWN]} is no integer of 64 bits")
    return value


_FINITE: Mapping[str, Any] = {"parse_float": _finite, "parse_constant": _finite, "parse_int": _integer}


def index(value: object) -> int | None:
    """A whole number of any library, no boolean; None where it is something else."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return int(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        return None


def is_number(value: object) -> bool:
    """Whether it is a finite number, no boolean."""
    plain = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return plain and -math.inf < value < math.inf  # type: ignore[operator]


def whole(name: str, value: object, error: Error, low: int = 0, high: int = 2**63 - 1) -> int:
    """A whole number in this range."""
    number = index(value)
    if number is None or not low <= number <= high:
        most = f" and at most {high}" if high < 2**63 - 1 else ""
        raise error(f"{name} must be a whole number of at least {low}{most}, got {shown(value)}")
    return number


def number(name: str, value: object, error: Error, low: float = 0.0, high: float = 1e12) -> float:
    """A finite number in this range."""
    if not is_number(value) or not low <= value <= high:  # type: ignore[operator]
        raise error(f"{name} must be a number from {low:g} to {high:g}, got {shown(value)}")
    return float(value)  # type: ignore[arg-type]


def asked(function: Callable[..., Any], offered: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Of arguments that are offered those that a function takes by name, and the names that it needs besides."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(offered), []
    needed = [name for name, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    return {n: offered[n] for n in parameters if n in offered}, [n for n in needed if n not in offered]


def check_fields(
    cls: Any, given: object, what: str, error: Error, *, optional: Collection[str] | None = None,
    left_out: Collection[str] = (), called: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Raise `error` unless `given`, read from JSON, has the fields of a dataclass, with values of their types.

    `optional`: those that may be missing, by default those with a default. `left_out`: those that JSON does not have.
    `called`: other names that it has for some.
    """
    if not isinstance(given, Mapping):
        raise error(f"a {what} is an object of keys and values, got {type(given).__name__}")
    known = {(called or {}).get(f.name, f.name): f for f in fields(cls) if f.name not in left_out}
    if optional is None:
        optional = {n for n, f in known.items() if f.default is not MISSING or f.default_factory is not MISSING}
    keys = {"missing": known.keys() - set(optional) - given.keys(), "unknown": given.keys() - known.keys()}
    if odd := [f"keys {how}: {', '.join(sorted(map(str, which)))}" for how, which in keys.items() if which]:
        raise error(f"not a {what}: {printable('; '.join(odd))}")
    for name, f in known.items():
        kind = _plain(str(f.type))
        if name in given and not fits(given[name], kind, {}):
            raise error(f"not a {what}: {name} must be {in_words(kind)}, got {shown(given[name])}")


def read(
    kind: Callable[..., R], given: Any, what: str, error: Error, by: Mapping[str, Callable[[Any], Any]] | None = None,
    **rules: Any,
) -> R:  # fmt: skip
    """The dataclass that `as_json` wrote, with those in it, each checked by `check_fields`, this one by its `rules`.
    `by`: how fields are read that JSON has in another form, of which some are a name in place of an object."""
    by, found = by or {}, given
    if isinstance(given, Mapping):
        found = {name: {} if name in by and isinstance(value, str) else value for name, value in given.items()}
    check_fields(kind, found, what, error, **rules)
    names = {key: name for name, key in rules.get("called", {}).items()}
    return kind(**{
        name: by[name](value) if name in by else typed(_hint(kind, name), value, f"{what}'s {name}", error)
        for name, value in ((names.get(key, key), value) for key, value in given.items())
    })  # fmt: skip


def as_json(value: Any) -> Any:
    """Plain JSON types for dataclasses, mappings, sequences, paths in each other; `read` gives back an equal value, and
    so does `typed`."""
    if is_dataclass(value):
        return {f.name: as_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def canonical(value: Any) -> str:
    """JSON with sorted keys: equal for equal values."""

    def plain(each: Any) -> Any:
        return dict(each) if isinstance(each, Mapping) else str(each)

    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=plain)


def typed(kind: Any, value: Any, what: str = "", error: Error | None = None) -> Any:
    """A value of that annotation from JSON: objects become the dataclass among the kinds, lists tuples, text paths.
    Other values are taken as they are. Raises TypeError, KeyError or ValueError where fields or items do not fit; with
    `error`, dataclasses are checked as `read` does."""
    if not isinstance(value, Mapping | list | str):
        return value
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if isinstance(value, Mapping):
        made: Any = next(filter(is_dataclass, kinds), None)
        if made is None:
            of = next((get_args(each)[1] for each in kinds if len(get_args(each)) == 2), Any)
            return {name: typed(of, each, what, error) for name, each in value.items()}
        if error:
            return read(made, value, what, error)
        return made(**{name: typed(_hint(made, name), each) for name, each in value.items()})
    if isinstance(value, list):
        inner = next((get_args(each) for each in kinds if get_origin(each) is tuple), (Any, ...))
        each_is = inner[:1] * len(value) if inner[1:] == (...,) else inner
        return tuple(typed(is_, each, what, error) for is_, each in zip(each_is, value, strict=True))
    return Path(value) if Path in kinds else value


@functools.cache
def _hint(cls: Any, name: str) -> Any:
    """The annotation of one field: another may name a class that is imported for type checkers alone."""
    owner = {n: c for c in reversed(cls.__mro__) for n in vars(c).get("__annotations__", ())}[name]
    return eval(owner.__annotations__[name], vars(sys.modules[owner.__module__]))


def _plain(annotation: str) -> str:
    """The annotation of a field as JSON has it: a class other than these is an object or null."""
    known = r"(?:str|int|float|bool|None|Any|tuple|list|dict|Mapping|Sequence)\b"
    return re.sub(rf"(?<![\w.])(?!{known})[A-Za-z_][\w.]*", "Mapping | None", annotation)


def _lacking(function: Callable[..., Any], args: Sequence[object], lacks: Sequence[str]) -> str:
    """Which arguments a call lacks, and in a constructor what the class says of them."""
    owner, _, name = function.__qualname__.rpartition(".")
    if name != "__init__":
        return f"{function.__qualname__}() needs {', '.join(lacks)}"
    about = (type(args[0]).__doc__ or "").strip().partition("\n\n")[0] if args else ""
    return f"{owner} needs {', '.join(lacks)}: {' '.join(about.split())}"


def takes(
    error: Error, besides: str = "$^", words: str = "$^", instead: Mapping[str, str] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function raise `error` for an argument that is missing or not of its annotation. Parameters whose name
    matches `besides` are left to the function, of those that match `words` it is only seen to that they can be a key,
    as a string or any library's element type. Classes that are imported for annotations alone are not looked at.
    `instead`: what to say of arguments that there are none of."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        scope = sys.modules[function.__module__].__dict__
        right: set[tuple[Any, ...]] = set()  # types of arguments that are right, whatever the values

        @functools.cache
        def expected() -> tuple[tuple[str, ...], dict[str, str], list[tuple[int, str]], bool, set[str], int]:
            """Names, kinds, what is needed, whether any name fits, kinds that a type tells, how many arguments
            may go without a name; read at the first call."""
            parameters = inspect.signature(function).parameters
            kinds = {
                name: "Hashable" if re.search(words, name) else p.annotation
                for name, p in parameters.items()
                if isinstance(p.annotation, str) and not re.search(besides, name) and p.kind is not p.VAR_KEYWORD
            }
            needed = [(at, name) for at, (name, p) in enumerate(parameters.items()) if p.default is p.empty
                      and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and name != "self"]  # fmt: skip
            of_value = r"\[|bool|float|Any|Hashable|Iterable|Collection|Sequence|Mapping|list|tuple|dict"
            by_type = {name for name, kind in kinds.items() if not re.search(of_value, kind)}
            bare = sum(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters.values())
            if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
                bare = MOST_ITEMS
            any_word = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
            return (*parameters,), kinds, needed, any_word, by_type, bare

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given = (*map(type, args), *kwargs, *map(type, kwargs.values()))
            if given in right:
                return function(*args, **kwargs)
            places, kinds, needed, any_word, by_type, bare = expected()
            if len(args) > bare:
                taken = ", ".join(name for name in places[:bare] if name != "self") or "none"
                raise error(f"{function.__qualname__}() takes these arguments without a name: {taken}; name the others")
            if not any_word and (odd := kwargs.keys() - {*places}):
                near = (instead or {}).get(min(odd)) or nearest(min(odd), {*places} - {"self"})
                raise TypeError(f"{function.__qualname__}() has no argument {min(odd)!r}; {near}")
            if lacks := [name for at, name in needed if at >= len(args) and name not in kwargs]:
                raise error(_lacking(function, args, lacks))
            by_value = False
            for name, value in (*zip(places, args, strict=False), *kwargs.items()):
                if name not in kinds:
                    continue
                if not fits(value, kinds[name], scope):
                    raise error(f"{name} must be {in_words(kinds[name])}, got {shown(value)}")
                by_value |= name not in by_type or type(value).__module__ == "numpy"
            if not by_value:
                right.add(given)
            return function(*args, **kwargs)

        return checked

    return decorated


def fits(value: object, annotation: str, scope: Mapping[str, Any]) -> bool:
    """Whether a value is of an annotation; `scope` has the classes that it names."""
    return any(_is(value, *each, scope) for each in _alternatives(annotation))


@functools.cache
def _alternatives(annotation: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The kinds that an annotation joins by "|", each with what stands in its brackets."""
    out = []
    for part in _split(annotation, "|"):
        kind, _, inner = part.removesuffix("]").partition("[")
        out.append((kind.rpartition(".")[2], tuple(_split(inner, ","))))
    return tuple(out)


def _split(text: str, mark: str) -> list[str]:
    """The parts between marks that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == mark and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


_TEXT = (str, bytes, bytearray)


def _is(value: object, kind: str, inner: tuple[str, ...], scope: Mapping[str, Any]) -> bool:
    match kind:
        case "None":
            return value is None
        case "int":
            return index(value) is not None
        case "float":
            return is_number(value)
        case "bool":
            return isinstance(value, bool | np.bool_) or index(value) in (0, 1)
        case "str":
            return isinstance(value, str)
        case "Callable":
            return callable(value)
        case "Hashable":
            return getattr(type(value), "__hash__", None) is not None and not isinstance(value, tuple)
        case "Literal":
            return any(repr(value).strip("'\"") == word.strip("'\"") for word in inner)
        case "Mapping" | "dict":
            key, of = inner if len(inner) == 2 else ("Any", "Any")
            if not isinstance(value, Mapping) or not all(fits(k, key, scope) for k in value):
                return False
            return of == "Any" or all(fits(v, of, scope) for v in value.values())  # values may be made when asked for
        case "Sequence" | "tuple" | "list":
            if isinstance(value, _TEXT) or not isinstance(value, Sequence) or len(value) > MOST_ITEMS:
                return False
            if kind == "tuple" and inner[1:] not in ((), ("...",)):
                return len(value) == len(inner) and all(fits(v, k, scope) for v, k in zip(value, inner, strict=True))
            return not inner or all(fits(v, inner[0], scope) for v in value)
        case "Iterable" | "Collection":
            if isinstance(value, _TEXT) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) != 1:
                return False
            again = isinstance(value, Collection)  # others can be walked once, by who takes them
            if again and len(value) > MOST_ITEMS:  # type: ignore[arg-type]
                return False
            return not again or not inner or all(fits(v, inner[0], scope) for v in value)
    cls = scope.get(kind)
    plain = isinstance(cls, type) and cls is not Any and not getattr(cls, "_is_protocol", False)
    return not plain or isinstance(value, cls)  # type: ignore[arg-type]


_WORDS = {
    "int": ("a whole number", "whole numbers"), "float": ("a number", "numbers"), "str": ("a string", "strings"),
    "bool": ("true or false", "true or false"), "Mapping": ("a mapping", "mappings"), "dict": ("a mapping", "mappings"),
    "Callable": ("a function", "functions"), "Hashable": ("the name of a type", "names of types"),
    "None": ("None", "None"), "Any": ("anything", "anything"), "PathLike": ("a path", "paths"),
}  # fmt: skip


def in_words(annotation: str, *, plural: bool = False) -> str:
    """What an annotation allows."""
    out = []
    for kind, inner in _alternatives(annotation):
        if kind == "tuple" and inner[1:] not in ((), ("...",)):
            out.append(f"{'tuples' if plural else 'a tuple'} ({', '.join(map(in_words, inner))})")
        elif kind in ("Sequence", "tuple", "list", "Iterable", "Collection"):
            of = f" of {in_words(inner[0], plural=True)}" if inner else ""
            out.append(f"{'lists' if plural else 'a list'}{of}")
        elif kind == "Literal":
            out += inner
        else:
            out.append(_WORDS.get(kind, (f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}", f"{kind} objects"))[plural])
    return " or ".join(dict.fromkeys(out))
