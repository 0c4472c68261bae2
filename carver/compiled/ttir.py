"""Triton's IR before layouts, from its text: operations with their regions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

from ..base.errors import KernelError
from ..base.types import Record

_LOC = re.compile(r'\s*\bloc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*"|\([^()]*\))*\))*\))*\)')
_DEFINED = re.compile(r"^(#loc\d*) = (loc\(.*\))$", re.MULTILINE)
_FILE = re.compile(r'"([^"]*)":(\d+):\d+')
_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULTS = re.compile(r"^((?:%[\w$.-]+(?::\d+)?(?:,\s*)?)+)\s*=\s*")
_OPCODE = re.compile(r'^"?([a-z_]+\.[\w.]+)"?')
_BITS = {"index": 64, "f8": 8}


@dataclass(frozen=True)
class Op:
    """One operation. `text` is what stands after its name, regions left out."""

    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    regions: tuple[Region, ...] = ()
    where: str = ""
    """Of one that has regions: the line of the source, as "kernels.py:12"; empty where the text does not say."""

    @property
    def types(self) -> str:
        """What stands after the last colon on its own: the types."""
        return self.text.rpartition(" : ")[2]

    @property
    def axis(self) -> int:
        return int(self.text.partition("axis = ")[2].split(" ")[0])

    @property
    def combines(self) -> frozenset[str]:
        """Of a reduction or scan: the operations that its region joins two elements by."""
        named = (op.name for op in walk(self.regions[0]))
        return frozenset(name.partition(".")[2] for name in named if not name.endswith(".return"))


class Block(Record):
    """Operations in a row; control leaves it after the last. The first block of a region has the label ""."""

    label: str
    args: tuple[str, ...]
    ops: tuple[Op, ...]


Region = tuple[Block, ...]


class Function(Record):
    """A function of the module; of one without a body the source is elsewhere."""

    name: str
    params: tuple[tuple[str, str], ...]
    """Names and types."""
    body: Region
    public: bool


@dataclass
class _Lines:
    lines: list[str]
    whole: list[str]
    """The same with their locations."""
    places: dict[str, str]
    """What the text says of the locations that it names."""
    at: int = 0

    def next(self) -> str:
        if self.at >= len(self.lines):
            raise KernelError("Triton's IR ends within a region")
        self.at += 1
        return self.lines[self.at - 1]

    def where(self) -> str:
        """The line of the source of what was read last; within a function that was called, its own line."""
        said = self.whole[self.at - 1].rpartition(" loc(")[2]
        for _ in range(len(self.places) + 1):
            if (found := _FILE.search(said)) is not None:
                file = PurePath(found[1])
                return f"{'cell' if file.parent.name.startswith('ipykernel_') else file.name}:{found[2]}"
            said = self.places.get("".join(re.findall(r"#loc\d*", said)[:1]), "")
        return ""


def parse(text: str) -> dict[str, Function]:
    """The functions of a module by name. Raises KernelError for text that is none."""
    cleaned = ((_LOC.sub("", line).strip(), line) for line in text.splitlines())
    kept = [pair for pair in cleaned if pair[0] and not pair[0].startswith(("#", "//"))]
    lines = _Lines([line for line, _ in kept], [line for _, line in kept], dict(_DEFINED.findall(text)))
    found: dict[str, Function] = {}
    while lines.at < len(lines.lines):
        line = lines.next()
        if line.startswith("tt.func"):
            head = re.match(r"tt\.func\s+(public|private)?\s*@\"?([\w.$-]+)\"?\((.*)\)", line)
            if head is None:
                raise KernelError(f"Triton's IR has a function that does not parse: {line[:120]}")
            body = _region(lines) if line.endswith("{") else ()
            found[head[2]] = Function(head[2], _params(head[3]), body, head[1] != "private")
    if not found:
        raise KernelError("Triton's IR holds no function")
    return found


def entry(functions: dict[str, Function]) -> Function:
    """The kernel among the functions."""
    return next((f for f in functions.values() if f.public), next(iter(functions.values())))


def _params(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(re.findall(r"(%[\w$.-]+): ((?:![\w.]+(?:<[^{}]*?>+)?|\w+))(?=[\s,{)]|$)", text))


def _region(lines: _Lines) -> Region:
    """Blocks up to the brace that closes them; that line stays to be read."""
    blocks: list[Block] = []
    label, args, ops = "", list[str](), list[Op]()
    while True:
        line = lines.next()
        if line.startswith("}"):
            lines.at -= 1
            break
        if line.startswith("^"):
            if ops or label:
                blocks.append(Block(label, tuple(args), tuple(ops)))
            head = line.partition("//")[0]
            label, args, ops = head.split("(")[0].rstrip(": "), names(head), []
            continue
        ops.append(_op(line, lines))
    blocks.append(Block(label, tuple(args), tuple(ops)))
    return tuple(blocks)


def _op(line: str, lines: _Lines) -> Op:
    results: tuple[str, ...] = ()
    if named := _RESULTS.match(line):
        results = tuple(_expanded(named[1]))
        line = line[named.end() :]
    opcode = _OPCODE.match(line)
    if opcode is None:
        raise KernelError(f"Triton's IR has a line that does not parse: {line[:120]}")
    name, text = opcode[1], line[opcode.end() :].strip()
    regions, where = [], ""
    while text.endswith("{"):
        regions.append(_region(lines))
        closing = lines.next()  # "}", "} else {", "} do {", "}) : (types) -> type", "} {attributes}"
        if re.match(r"\}\s*(else|do)\s*\{$", closing) or re.match(r"\},\s*\{$", closing):
            continue
        where = lines.where()
        text = text[:-1].rstrip() + " " + closing.lstrip("}").lstrip(")")
        break
    return Op(name, results, tuple(names(text)), text.strip(), tuple(regions), where)


def names(text: str) -> list[str]:
    """The names of values in a text: "%arg0", "%3#1"."""
    return _NAME.findall(text)


def targets(op: Op) -> list[tuple[str, list[str]]]:
    """Labels that a terminator branches to, with what it passes."""
    found = []
    for piece in op.text.split("^")[1:]:
        label, _, rest = piece.partition("(")
        found.append(("^" + label.strip(" ,"), names(rest.partition(":")[0])))
    return found


def following(blocks: Mapping[str, Block], label: str) -> Iterator[Op]:
    """Every operation that may run from a block of a function on."""
    seen: list[str] = []
    ahead = [label]
    while ahead:
        if (label := ahead.pop()) not in seen:
            seen.append(label)
            yield from walk((blocks[label],))
            ahead += [to for to, _ in targets(blocks[label].ops[-1])]


def _expanded(text: str) -> Iterator[str]:
    for name in text.split(","):
        word, _, count = name.strip().partition(":")
        yield from ((f"{word}#{i}" for i in range(int(count))) if count else (word,))


@dataclass(frozen=True)
class Type:
    """Shape (empty for a scalar), element as written ("f16", "ptr<f16>"), and the bits of what is stored."""

    shape: tuple[int, ...]
    element: str

    @property
    def pointer(self) -> bool:
        return "ptr<" in self.element

    @property
    def bits(self) -> int:
        """Of an element, or of what a pointer points to."""
        return element_bits(re.sub(r".*ptr<|[>\s].*|,.*", "", self.element))

    @property
    def integer(self) -> bool:
        """Whether the elements are integers or pointers."""
        return self.pointer or bool(re.fullmatch(r"[iu]?i?\d+|index", self.element))


def element_bits(element: str) -> int:
    if element in _BITS:
        return _BITS[element]
    if found := re.match(r"[a-z]*?(?:bf|tf|f|i|u)(\d+)", element):
        return int(found[1])
    return 32


@lru_cache(maxsize=4096)
def types_of(text: str) -> tuple[Type, ...]:
    """The types in a list of them, in order."""
    found = []
    for shape, element, scalar in re.findall(
        r"tensor<((?:\d+x)*)([^<>]*(?:<[^<>]*>)?)>|(![\w.]+<[^<>]*>|\b(?:[bt]?f|i|u)\d\w*|index)", text
    ):
        extents = tuple(int(n) for n in shape.split("x") if n)
        found.append(Type(extents, (element or scalar).replace("!tt.", "").partition(", #")[0]))
    return tuple(found)


def walk(region: Region) -> Iterator[Op]:
    """Every operation of a region, nested ones after the one that holds them."""
    for block in region:
        for op in block.ops:
            yield op
            for inner in op.regions:
                yield from walk(inner)


def loops(region: Region) -> bool:
    """Whether a region holds loops."""
    return any(op.name in ("scf.for", "scf.while") for op in walk(region))


def halved(body: Region) -> set[str]:
    """Pointers of largest or least floats: Triton has two atomics for these, one for those above zero, as if they were
    integers with a sign, and one for the others. Half of the numbers are taken to be of each."""
    found: dict[str, set[str]] = {}
    for op in walk(body):
        if op.name == "tt.atomic_rmw":
            found.setdefault(op.operands[0], set()).add(op.text.partition(",")[0].strip())
    return {name for name, kinds in found.items() if kinds in ({"max", "umin"}, {"min", "umax"})}
