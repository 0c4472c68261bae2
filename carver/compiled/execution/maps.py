"""Maps of tensors that the driver adds behind a kernel's parameters: of which tensors they are, and their boxes."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np

from ..isa.code import Code
from .lanes import WORD, Array, signed, wide
from .launch import PARAMETERS, SPACE, Launch
from .program import Program
from .run import Run

WORDS = re.compile(r"c\[0x0\]\[(0x[0-9a-f]+)\]")
"""A place in constant bank 0 that an instruction reads."""


def placed(launch: Launch, code: Code, detail: Run) -> None:
    """Give the maps to tensors whose addresses the code does not read, in their order. A tensor of which boxes of
    several forms are copied has several."""
    if not launch.maps_at:
        return
    read = {int(at, 16) // 4 for each in code.instructions for at in WORDS.findall(each.operands)}
    unread = (launch.words[at] + (launch.words.get(at + 1, 0) << 32) for at in sorted(launch.words.keys() - read))
    addresses = [address for address in unread if address % SPACE == 0 and address // SPACE in launch.places]
    boxes = [event for event in detail.log if event.kind == "box" and event.values[0] is not None]
    opcodes = [code.instructions[detail.program.index[event.where]].opcode for event in boxes]
    issued = {int(event.values[0].bits[0]): (len(event.values) - 1, op)  # type: ignore[union-attr]
              for event, op in zip(boxes, opcodes, strict=True)}  # fmt: skip
    copies = [issued.get(PARAMETERS + offset) for offset in launch.maps_at]
    owners = shared_out(copies, [launch.places[address // SPACE].tensor.dim() for address in addresses])
    for offset, owner in zip(launch.maps_at, owners, strict=False):
        launch.map(PARAMETERS + offset, addresses[owner])


def shared_out(copies: Sequence[tuple[int, str] | None], ranks: Sequence[int]) -> list[int]:
    """The tensor of each map, where each tensor, of these ranks, has one or more in a row: the first way in which the
    ranks of their copies agree, and no tensor is copied both ways. None are found of nothing that agrees. `copies`: by
    map, the rank and the opcode of those that were issued."""
    for cuts in combinations(range(1, len(copies)), len(ranks) - 1):
        groups = [{copy for copy in copies[a:b] if copy} for a, b in pairwise([0, *cuts, len(copies)])]
        if all(group <= {(rank, op) for _, op in [*group][:1]} for group, rank in zip(groups, ranks, strict=True)):
            return [n for n, (a, b) in enumerate(pairwise([0, *cuts, len(copies)])) for _ in range(a, b)]
    return []


def sized(launch: Launch, program: Program, detail: Run) -> None:
    """Set their boxes. Tiles of one tensor do not overlap: a box is as long as the coordinates of its copies lie apart,
    in neighbouring blocks and in later passes of loops, and as the tensor along an axis where they do not differ."""
    issues = {int(tid) for event in detail.log if event.kind == "box"
              for tid in detail.tid[event.lanes[wide(event.detail, len(event.lanes))]]}  # fmt: skip
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
