"""PTX as a graph of blocks: registers that an instruction reads and some way from the kernel's start has not set."""

from __future__ import annotations

import re
from collections.abc import Iterator

REGISTER = re.compile(r"%[a-z]+\d+\b")
NO_RESULT = {
    "st", "bra", "bar", "barrier", "cp", "red", "ret", "exit", "trap", "call", "mbarrier", "fence", "membar", "prefetch"
}  # fmt: skip


def blocks(body: str) -> tuple[list[list[str]], list[list[int]]]:
    """The instructions of each basic block, and the blocks that follow it."""
    found: list[list[str]] = [[]]
    labels = {}
    for line in re.findall(r"^\s*(?!//|\.)(\$?\w+:|[^\n]*?;)", body, re.MULTILINE):
        if line.endswith(":"):
            found.append([])
            labels[line[:-1]] = len(found) - 1
            continue
        found[-1].append(line.strip())
        if re.match(r"\s*(@!?%p\d+\s+)?(bra|ret|exit|trap)\b", line):
            found.append([])
    after = []
    for place, block in enumerate(found):
        jump = re.match(r"(@!?%p\d+\s+)?(bra|ret|exit|trap)\S*\s*(\$?\w+)?", block[-1] if block else "")
        goes = [labels[jump[3]]] if jump and jump[2] == "bra" else []
        after.append(goes + [place + 1] * ((not jump or bool(jump[1])) and place + 1 < len(found)))
    return found, after


def reads_and_sets(instruction: str) -> tuple[list[str], list[str]]:
    guard, rest = re.fullmatch(r"(?:@!?(%p\d+)\s+)?(.*);", instruction, re.DOTALL).groups()  # type: ignore[union-attr]
    name, operands = [*rest.split(None, 1), ""][:2]
    result, _, given = operands.partition("}" if operands.startswith("{") else ",")
    if name.split(".")[0] in NO_RESULT:
        result, given = "", operands
    return REGISTER.findall(given) + ([guard] if guard else []), REGISTER.findall(result)


def unset(ptx: str) -> Iterator[tuple[str, str]]:
    """Each register of 64 bits, as addresses are, that some path to its use leaves unset, with the instruction. Others
    may well be: elements of a vector that a condition leaves out."""
    for body in re.findall(r"\.entry.*?\n\{(.*?)\n\}", ptx, re.DOTALL):
        found, after = blocks(body)
        known: dict[int, set[str]] = {0: set()}
        todo = [0]
        while todo:
            place = todo.pop()
            held = known[place].union(*(reads_and_sets(each)[1] for each in found[place]))
            for follower in after[place]:
                now = held if follower not in known else known[follower] & held
                if known.get(follower) != now:
                    known[follower] = now
                    todo.append(follower)
        for place, before in known.items():
            held = set(before)
            for each in found[place]:
                reads, sets = reads_and_sets(each)
                yield from ((name, each) for name in reads if name.startswith("%rd") and name not in held)
                held |= set(sets)
