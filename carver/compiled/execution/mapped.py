"""Tensor maps that no argument holds: the driver makes them of a kernel's other arguments, as for cuTile's kernels, and
puts them behind the kernel's parameters, where nothing says what is in them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ..isa.code import Code
from .lanes import WORD, Array, signed
from .launch import PARAMETERS, SPACE, Launch
from .program import Program
from .run import Run

WORDS = re.compile(r"c\[0x0\]\[(0x[0-9a-f]+)\]")
"""A place in constant bank 0 that an instruction reads."""


def placed(launch: Launch, code: Code) -> None:
    """Give the maps to tensors whose addresses the code does not read, in their order, where there are as many."""
    if not launch.maps_at:
        return
    read = {int(at, 16) // 4 for each in code.instructions for at in WORDS.findall(each.operands)}
    unread = (launch.words[at] + (launch.words.get(at + 1, 0) << 32) for at in sorted(launch.words.keys() - read))
    addresses = [address for address in unread if address % SPACE == 0 and address // SPACE in launch.places]
    if len(addresses) == len(launch.maps_at):
        for offset, address in zip(launch.maps_at, addresses, strict=True):
            launch.map(PARAMETERS + offset, address)


def sized(launch: Launch, program: Program, detail: Run) -> None:
    """Set their boxes. Tiles of one tensor do not overlap: a box is as long as the coordinates of its copies lie apart,
    in neighbouring blocks and in later passes of loops, and as the tensor along an axis where they do not differ."""
    issues = {int(tid) for event in detail.log if event.kind == "box"
              for tid in detail.tid[event.lanes[np.broadcast_to(event.detail, len(event.lanes))]]}  # fmt: skip
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
        which = np.flatnonzero(np.broadcast_to(event.detail, len(event.lanes)))
        base, *at = [np.broadcast_to(v.bits, len(event.lanes))[which] for v in event.values if v is not None]
        yield int(base[0]), [signed(each) for each in at]
        for walk in event.walks:
            steps = [np.broadcast_to(step, len(event.lanes))[which] for step in walk.steps[1:]]
            yield int(base[0]), [signed((each + step) & WORD) for each, step in zip(at, steps, strict=True)]
