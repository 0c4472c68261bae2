"""What slices of L2 take of atomics, and what is passed on between its halves."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...arch.descriptor import Arch
from ...compiled.atomics import WORD_BYTES
from ...compiled.facts import Facts
from ...compiled.machine import Span

ATOMIC_CLK, LOOKUP_CLK = 1.25, 1.15
"""Clocks of an SM in which a slice of L2 works off the atomics of one warp instruction on one sector, however many
words of it they are on; and in which it looks up one request. Sources: one operation a clock on one address (NVIDIA's
Kepler GK110 whitepaper, 2012); on an H100 1.25 where counters are in one slice (`atomics.txt` in `tests/data/h100`); at
most 0.81 requests a clock and slice by an H200's counters of 323 launches."""
BEFORE_HOPPER = 0.8
"""Share of these clocks, and of those of stores that fill sectors in part, that a slice takes where L2 is as fast as
the SMs, one an operation: before Hopper. Source: the same word counted by all threads, 1.86 billion times a second on
an RTX 3080 and 1.78 on an RTX 2060 (github.com/R100001/Programming-Massively-Parallel-Processors)."""
CROSS_PARTITION = 1.5
"""Sectors that slices of an L2 of two halves work on for each that is stored or added to: half of them belong to the
other half, which gets them passed on. What is read from beyond L2 crosses as often, but once for all SMs of a half.
Source: an H200's counters of 323 launches, 1.50 sectors for each that is stored or that an atomic works on."""
CHAIN_CLK = 3.7
"""Clocks until the next sum of floating-point numbers in the same sector begins. Source: one addition of float32 a
program to one number on an H100, 1.87 ns each (`grand_total` in `edges.jsonl.gz`, tests/data/h100)."""
SWAP_CLK, SWAP_SLICES, TURN_CLK, HANDED_CLK = 770.0, 2.0, 3000.0, 1900.0
"""Clocks from one addition to the next that compares and swaps the same word, at least; slices more than counters have
that work off those which others came before; clocks from one program to the next that takes the same lock, and to one
that waits for what it stores. Source: an H200 (`swaps.jsonl` and `chains.jsonl` in tests/data/h200). 16,384 additions
of float16 to one word take 390 ns each; a million to 16 to 16,384 words by 131,072 lanes are tried as often as lanes
have a word in common; a program adds a row under a lock in 1.2 to 2.8 us, 1.5 in the median; of sums up to each tile
one goes on 0.85 to 1.35 us after the one before it, 0.96 in the median."""
SLICE_RUN_BYTES = 512
"""Counters of so many bytes keep one more slice of L2 busy. Source: `atomics.txt` in `tests/data/h100`. Counters of 2
to 16 KiB keep 0.7 to 1.1 slices busy for each 512 bytes. Runs of 256 bytes lie in one slice, and 1 KiB in four (twice
what this says); where there are more runs, they meet in the same slices. Those of 16 to 64 KiB keep 0.71 to 0.32 busy
there, and 0.40 to 0.23 on an H200 (`atomics.jsonl`), where they lay in other places."""


def slice_clk(arch: Arch) -> float:
    """Factor on the clocks that a slice of L2 takes for an atomic or a part of a sector."""
    return BEFORE_HOPPER if 0 < arch.cc_major < 9 else 1.0


def cross_partition(arch: Arch) -> float:
    """Factor on the sectors that are stored or added to in L2."""
    return CROSS_PARTITION if arch.l2_copies > 1 else 1.0


def atomic_sectors(f: Facts, total: Span, moved: Mapping[str, float], arch: Arch) -> float:
    """Of the sectors that the code touches, the share that masks let through; the program knows the runs of addresses
    that the code computes from loaded numbers. Where each lane's word lies anywhere, `Facts.atomic_turns` are asked."""
    coded = total.bytes.get("atomic global", 0.0)
    asked = f.bytes_of("atomic") * (2.0 if f.atomic_swaps else 1.0)  # a whole word for half of one
    if not coded:
        return moved["atomic"] / arch.sector_bytes
    masked = asked / coded
    spread = total.atomic_sectors * masked
    lost = moved["atomic"] / arch.sector_bytes * (1.0 if not total.atomic_sectors else 0.0)
    turns = total.atomic_words * masked * f.atomic_turns
    return max(spread + turns, lost if not f.atomic_turns else 0.0)


def atomic_bytes(f: Facts, arch: Arch, rate: float, slices: float) -> float:
    """Bytes that L2 moves in the time for which the atomics of a warp instruction on one sector hold it up. It is long
    where they meet on few addresses, which few slices have. Runs of addresses are dealt out to slices as if at random:
    the fullest slice decides, so that as many runs as slices keep half of them busy. No warp waits for them. `rate`: of
    L2, in bytes per clock of an SM."""
    asked = dict[str, float]()
    for a in f.accesses:
        asked[a.argument] = asked.get(a.argument, 0.0) + (a.program_bytes if a.kind == "atomic" else 0.0)
    apart = sum(asked.values()) / (max(asked.values(), default=0.0) or math.inf)
    runs = max(f.atomic_bytes / SLICE_RUN_BYTES, apart, 1.0)  # none is of two tensors
    turn, adds = ATOMIC_CLK * slice_clk(arch), any(span.atomic_floats for span in f.spans)
    alike = arch.sector_bytes / max(f.atomic_bytes, arch.sector_bytes) if f.atomic_turns == 1.0 else 0.0
    chain = CHAIN_CLK * max(f.atomic_crowd, alike) if adds else 0.0
    if f.atomic_swaps:  # those that others came before are tried again
        lanes = min(f.resident * arch.sm_count, f.programs) * f.warps * arch.warp_size
        words = max(f.atomic_bytes / WORD_BYTES, 1.0)
        tried = max(lanes / words, 1.0)
        taken = turn * tried * (1 / (runs + SWAP_SLICES) + cross_partition(arch) / slices)
        return max(taken + LOOKUP_CLK / slices, SWAP_CLK / words) * rate  # what is swapped was loaded
    return max(turn * (1 / runs + cross_partition(arch) / slices), chain) * rate
