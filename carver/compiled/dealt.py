"""Elements of a tile as the compiler deals them out to the lanes of a warp: what an instruction wants of L1."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .isa.banks import FEW_LINES
from .stretches import LINE_BYTES, neighbours, tile_elements, turned_places
from .trace import Access
from .values import SECTOR_BYTES

SECTORS, WIDEST, MOST_DEALT, WORD_BYTES, LINE_WORDS = 4, 16, 1 << 14, 4, 32
"""Of a line; bytes that an instruction loads for a thread at most; elements that are looked at, to tell how many lines
lanes want; a line has a word in each of L1's banks."""


Dealt = Sequence[Sequence[int]]
"""How a tile is dealt out: along each dimension elements of a thread, threads of a warp, warps."""

_LAYOUT = re.compile(
    r"^#(\w+) = #ttg\.blocked<\{sizePerThread = (.*?), threadsPerWarp = (.*?), warpsPerCTA = (.*?), order", re.MULTILINE
)
_TOUCHED = re.compile(
    r"(?:tt\.|amdg\.buffer_)(load|store|atomic)\w* .*?(%\w+).*: .?tensor<([x\d]+)x(?:!tt.ptr<)?\w+>?, #(\w+)>"
)
_MADE_OF = re.compile(r"(%\w+) = (?:[\w.]+ )?(%\w+)")


def dealt_of(ttgir: str) -> dict[str, list[list[int]]]:
    """`Compiled.dealt`, from IR with layouts; of what is dealt out in several ways, the first."""
    layouts = {name: [json.loads(numbers) for numbers in rest] for name, *rest in _LAYOUT.findall(ttgir)}
    made_of, out = dict(reversed(_MADE_OF.findall(ttgir))), dict[str, list[list[int]]]()
    for kind, pointer, shape, name in reversed(_TOUCHED.findall(ttgir)):
        left, argument = dict(made_of), pointer
        while argument in left:
            argument = left.pop(argument)
        if name in layouts:
            out[f"{kind} {shape}"] = out[f"{kind} {shape} {argument[1:]}"] = layouts[name]
    return out


def dealt_to(access: Access, dealt: Mapping[str, Dealt]) -> Dealt:
    """How its tiles are, of `triton.Compiled.dealt`; empty where that is not told."""
    name = f"{access.kind} {'x'.join(map(str, access.shape))}"
    return dealt.get(f"{name} {access.argument}", dealt.get(name, ()))


def instructions(access: Access, dealt: Sequence[Sequence[int]], widest: float = 0.0) -> Any:
    """Of each element of a tile, the instruction of a warp that it is of. `dealt`: along each dimension elements of a
    thread, threads of a warp, warps. An instruction takes one element of each thread, or as many as lie side by side:
    of `widest` bytes where the code has such; else as many as may be, where the program alone says that they do."""
    out: Any = 0
    dimensions = zip(access.shape, access.coef, access.pieces or (None,) * len(access.shape), *dealt[:2],
                     np.indices(access.shape, sparse=True), strict=True)  # fmt: skip
    for n, c, piece, size, threads, along in dimensions:
        beside = c == 1 or (widest and piece is not None and piece.step == 1 and piece.length >= size)
        wide = min(size, max(int((widest or WIDEST) // access.item_bytes), 1)) if beside else 1
        out = out * n + (along % size + along // (size * threads) * size) // wide
    return np.broadcast_to(out, access.shape).ravel()


class Lines(NamedTuple):
    """What lanes of a warp want of L1 at a time, each number for LINE_BYTES that they ask for; 0 where it is not known
    which elements they have."""

    lines: float = 0.0
    line_bytes: float = 0.0
    """Of the sectors that they want of each line."""
    banks: float = 0.0
    """Passes over the banks, in which lanes meet."""


def lines(access: Access, dealt: Sequence[Sequence[int]], placed: bool = False) -> Lines:
    """Of a load whose elements are known, though not affine, or where neighbours want one by a division: their words
    may lie further apart than there are banks. `placed`: of others too, as where the code does not tell the places of
    lanes."""
    divided = any(p is not None and p.step == 0 and 0 < c < 1 for p, c in zip(access.pieces, access.coef, strict=False))
    known = access.kind == "load" and (len(access.drawn) or access.turned or divided)
    affine = placed and access.kind != "atomic" and np.isfinite(access.coef).all() and np.isfinite(access.start).any()
    if not (known or affine) or not len(dealt):
        return Lines()
    instruction = instructions(access, dealt)
    places: Any = access.drawn.reshape(-1, math.prod(access.shape))
    many = max(MOST_DEALT // math.prod(access.shape), 1)
    if not len(access.drawn):
        starts = access.start[np.isfinite(access.start)]
        starts = starts[:: max(len(starts) // many, 1)]
        places = starts[:, None] + turned_places(access.shape, access.coef, access.floors).ravel()
    places = places[np.isfinite(places).any(axis=1)][:many]  # what masks hold back as a whole says nothing
    if not len(places):
        return Lines()
    own = np.arange(len(places))[:, None] * (int(np.max(instruction)) + 1) + instruction
    known, once = np.isfinite(places), tile_elements(access) / math.prod(access.shape)  # neighbours may ask for one
    word = np.floor(places[known] * (access.item_bytes / WORD_BYTES)).astype(np.int64)
    low, high = (int(end) // LINE_WORDS for end in (word.min(), word.max()))
    words = np.unique(own[known] * ((high - low + 1) * LINE_WORDS) + word - low * LINE_WORDS)
    each = np.unique(words // (LINE_WORDS // SECTORS))
    wanted = len(np.unique(each // SECTORS))
    bank, met = np.unique(words // LINE_WORDS // (high - low + 1) * LINE_WORDS + words % LINE_WORDS, return_counts=True)
    passes = np.maximum.reduceat(met, np.flatnonzero(np.diff(bank // LINE_WORDS, prepend=-1))).sum()
    asked = LINE_BYTES / (int(known.sum()) * once * access.item_bytes)
    return Lines(wanted * asked, len(each) / wanted * SECTOR_BYTES, float(passes) * asked)


def idle_elements(access: Access) -> float:
    """Of all tiles, elements in instructions of which masks let no lane through: what they hold back are ends of rows,
    so that all instructions but one of a row have either all lanes or none."""
    steps = [(abs(c), n) for c, n in zip(access.coef, access.shape, strict=True) if c != 0 and n > 1]
    each = max(min(steps)[1] / LINE_WORDS, 1.0) if steps and not np.isnan(access.coef).any() else 1.0
    kept = np.ceil(np.round(access.kept * each, 6)) / each
    return math.prod(access.shape) * float(((1.0 - kept) * access.count * access.times).sum())


def goes_on(access: Access) -> bool:
    """Whether what follows a row of its tiles is another row, or most often a row of the next program's."""
    covered = access.covered or (1.0,) * len(access.shape)
    dimensions = zip(map(abs, access.coef), access.shape, covered, strict=True)
    steps = sorted((c, round(n * part)) for c, n, part in dimensions if c != 0 and n > 1)
    if not steps or np.isnan([c for c, _ in steps]).any():
        return False
    (step, n), *rows = steps
    return any(c == step * n for c, _ in rows) or passed_to_next(access, step * n)


def passed_to_next(access: Access, length: float) -> bool:
    """Whether the next program's tiles most often begin where rows of such a length end."""
    order = np.argsort(access.program, kind="stable")
    next_ = np.diff(access.program[order]) == 1
    along = np.diff(access.start[order])[next_] == length
    return bool(len(along) and along.mean() >= 0.5)


def passed_on(access: Access, others: Sequence[Access], dealt: Sequence[Sequence[int]], behind: float) -> float:
    """Share of the sectors of a store that L1 passes on for it. Of stores one right behind another to the same sectors,
    as of the fields of a struct, it passes on one, as long as the lanes of a warp are in FEW_LINES of memory. `behind`:
    share of the code's stores that come so."""
    near = len(neighbours(access, others)) if access.kind == "store" and len(dealt) else 1
    if near < 2 or not np.isfinite(access.coef).all():
        return 1.0
    along = np.indices(access.shape, sparse=True)
    places: Any = sum(c * i for c, i in zip(access.coef, along, strict=True))
    line = np.floor(np.broadcast_to(places, access.shape).ravel() * (access.item_bytes / LINE_BYTES))
    each = np.unique(np.stack([instructions(access, dealt), line]), axis=1)[0]
    few = np.unique(each, return_counts=True)[1].mean() <= FEW_LINES
    return max(1.0 - behind, 1.0 / near) if few else 1.0
