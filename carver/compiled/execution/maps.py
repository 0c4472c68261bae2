"""Maps of tensors that the driver adds behind a kernel's parameters: of which tensors they are, and their boxes."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, permutations

import numpy as np

from ..isa.code import Code
from .lanes import WORD, Array, signed, wide
from .launch import PARAMETERS, SPACE, Launch
from .program import Program
from .run import Run
from .tiles import spread_box

MOST_ORDERED = 6
"""Tensors of which all orders are tried."""
WORDS = re.compile(r"c\[0x0\]\[(0x[0-9a-f]+)\]")
"""A place in constant bank 0 that an instruction reads."""


def placed(launch: Launch, code: Code, detail: Run) -> None:
    """Give the maps to tensors whose addresses the code does not read, in their order, as far as copies begin within
    their tensors. A tensor of which boxes of several forms are copied has several."""
    if not launch.maps_at:
        return
    read = {int(at, 16) // 4 for each in code.instructions for at in WORDS.findall(each.operands)}
    known, words = launch.banks[0].known, np.append(launch.banks[0].bits, 0).astype(np.int64)
    unread = (int(words[at] | words[at + 1] << 32) for at in np.flatnonzero(known).tolist() if at not in read)
    addresses = [address for address in unread if address % SPACE == 0 and address // SPACE in launch.places]
    boxes = [event for event in detail.log if event.kind == "box" and event.values[0] is not None]
    opcodes = [code.instructions[detail.program.index[event.where]].opcode for event in boxes]
    issued = {int(event.values[0].bits[0]): (len(event.values) - 1, op)  # type: ignore[union-attr]
              for event, op in zip(boxes, opcodes, strict=True)}  # fmt: skip
    reach = defaultdict[int, list[int]](lambda: [0] * 5)
    for event in boxes:
        at = [int(signed(value.bits).max()) if value else 0 for value in event.values[1:]]
        most = reach[int(event.values[0].bits[0])]  # type: ignore[union-attr]
        most[: len(at)] = map(max, most, at)
    maps = [PARAMETERS + offset for offset in launch.maps_at]
    copies = [issued.get(at) for at in maps]
    shapes = [launch.places[address // SPACE].tensor.shape[::-1] for address in addresses]
    owners = shared_out(copies, shapes, [reach[at] for at in maps])
    for offset, owner in zip(launch.maps_at, owners, strict=False):
        launch.map(PARAMETERS + offset, addresses[owner])


def shared_out(
    copies: Sequence[tuple[int, str] | None], shapes: Sequence[Sequence[int]], reach: Sequence[Sequence[int]]
) -> list[int]:
    """The tensor of each map, where each tensor, of these shapes from the innermost axis on, has one or more in a row:
    the first way in which the ranks of their copies agree, no tensor is copied both ways, and copies begin within it,
    as they do in another order where the compiler has taken a tensor ahead of others. None are found of nothing that
    agrees. `copies`: by map, the rank and the opcode of those that were issued; `reach`: where the last begin."""
    orders = permutations(range(len(shapes))) if len(shapes) <= MOST_ORDERED else [tuple(range(len(shapes)))]
    for within, order in [*((True, order) for order in orders), (False, tuple(range(len(shapes))))]:
        for cuts in combinations(range(1, len(copies)), len(shapes) - 1):
            groups = [range(a, b) for a, b in pairwise([0, *cuts, len(copies)])]
            if all(_agree(copies, shapes[n], reach, group, within) for n, group in zip(order, groups, strict=True)):
                return [n for n, group in zip(order, groups, strict=True) for _ in group]
    return []


def _agree(copies: Sequence[tuple[int, str] | None], shape: Sequence[int], reach: Sequence[Sequence[int]],
           group: Sequence[int], within: bool) -> bool:  # fmt: skip
    issued = {copy for n in group if (copy := copies[n])}
    alike = issued <= {(len(shape), op) for _, op in [*issued][:1]}
    return alike and not (within and any(at >= size for n in group for at, size in zip(reach[n], shape, strict=False)))


def sized(launch: Launch, program: Program, detail: Run) -> None:
    """Set their boxes. Tiles of one tensor do not overlap: a box is as long as the coordinates of its copies lie apart,
    in neighbouring blocks and in later passes of loops, and as the tensor along an axis where they do not differ."""
    issues = {int(tid) for event in detail.log if event.kind == "box"
              for tid in detail.tid[spread_box(event)]}  # fmt: skip
    if not launch.unsized or not issues:
        return
    across, down, _ = launch.grid
    near = [n for n in (0, 1, 2, across, 2 * across, across * down) if n < math.prod(launch.grid)]
    run = Run(program, launch, np.unique(near), np.array(sorted(issues)), warp=detail.warp_size)
    found: defaultdict[int, list[set[int]]] = defaultdict(lambda: [set() for _ in range(5)])
    for base, coordinates in _copies(run):
        for values, at in zip(found[base], coordinates, strict=False):
            values |= set(at.tolist())
    for base in [base for base in launch.unsized if base in found]:
        apart = [math.gcd(*(value - min(values) for value in values)) for values in found[base] if values]
        launch.size(base, apart)


def _copies(run: Run) -> Iterator[tuple[int, list[Array]]]:
    """Of each copy of a box: the map's address and the coordinates, in this pass and in the next of loops around it."""
    for event in run.log:
        if event.kind != "box" or any(value is None for value in event.values):
            continue
        which = np.flatnonzero(wide(event.detail, len(event.lanes)))
        base, *at = [wide(v.bits, len(event.lanes))[which] for v in event.values if v is not None]
        yield int(base[0]), [signed(each) for each in at]
        for walk in event.walks:
            steps = [wide(step, len(event.lanes))[which] for step in walk.steps[1:]]
            yield int(base[0]), [signed((each + step) & WORD) for each, step in zip(at, steps, strict=True)]
