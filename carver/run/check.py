"""Check a candidate's result: against a reference, or with the user's own function."""

from __future__ import annotations

import inspect
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.errors import ConfigError, RunError
from ..problem.problem import Problem
from . import reference
from .buffers import is_torch
from .inputs import Inputs, as_argument, beside, host, wide

REFERENCE_S = 0.5
"""How long the reference is timed for, beyond its first run. [s]"""

Verdict = tuple[str, str, float | None]
"""Outcome, what was seen, and the share of mismatched elements over what is allowed."""


class guarded:
    """Whatever the user's own function raises in this block leaves it as a RunError that says where from."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, AssertionError | RunError):
            raise RunError(f"{self.what} raised {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class OperatorReference:
    """The `ref_prog` of carver's own kernels: the operator in float64, and how far rounding may lead away from it."""

    problem: Problem

    def __call__(self, *inputs: Any) -> Any:
        return self.bounded(*inputs)[0]

    def bounded(self, *inputs: Any) -> tuple[Any, Any]:
        """The output, and what each of its elements may be off by; see `carver.run.reference.tolerance`.

        That takes inputs for exact. Of a tf32 operand with more than 10 bits of mantissa the matrix unit drops the
        rest, which is below 2^-10 of it.
        """
        p, xp = self.problem, sys.modules["torch"] if is_torch(inputs[0]) else np
        names = [*(t.name for t in p.statement.inputs), "bias"]
        wide = (x.double() if is_torch(x) else np.asarray(x, np.float64) for x in inputs)
        values = dict(zip(names, wide, strict=False))
        value, allowed, magnitude = reference.bounded(p, values, xp)
        for name, x in values.items():
            if p.dtypes.get(name) != "tf32":
                continue
            scaled = x * (2.0**42 + 1)  # less what that adds, x has 11 of its 53 bits left (Veltkamp's splitting)
            if (scaled - (scaled - x) != x).any():
                allowed = allowed + 2.0**-10 * magnitude
        return value, allowed


@dataclass
class Checker:
    """The reference, computed once, and the tolerances: `atol` + `rtol` x reference, beside what the reference says.

    Outputs are compared where the reference was computed: by torch on a GPU if it was, else by NumPy.
    """

    ref_prog: Callable[..., Any] | None = None
    manual_check_prog: Callable[..., Any] | None = None
    skip_check: bool = False
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    ref_latency_ms: float | None = None
    _inputs: Inputs | None = None
    _arguments: list[Any] = field(default_factory=list)
    _right: list[Any] | None = None
    _limits: list[Any] = field(default_factory=list)
    _judge: bool = False

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "max_mismatched_ratio"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must be 0 or more, got {getattr(self, name)!r}")

    @property
    def wanted(self) -> bool:
        return not self.skip_check and (self.ref_prog is not None or self.manual_check_prog is not None)

    def prepare(self, inputs: Inputs, device: str, outputs: int, hidden: Sequence[int] = ()) -> None:
        """Run and time the reference. One that takes the outputs as well is asked about each candidate instead.

        `hidden` are places of outputs among the inputs, which the reference does not see.
        """
        if not self.wanted:
            return
        ref = self.ref_prog
        self._inputs = inputs
        self._arguments = [as_argument(v, device) for i, v in enumerate(inputs.values) if i not in hidden]
        if ref is None:
            return
        if isinstance(ref, OperatorReference):
            with guarded("the reference"):
                value, allowed = ref.bounded(*self._arguments)
                self._expect(value, allowed)
            self._arguments = []
            return
        takes = _positional(ref)
        if takes is not None and takes == len(self._arguments) + outputs and outputs:
            self._judge = True
            return
        arguments = self._arguments
        with guarded("ref_prog"):
            returned, first_s = _timed(ref, arguments)
        if isinstance(returned, bool | np.bool_) or returned is None:
            raise ConfigError(
                f"ref_prog returned {returned!r} for the inputs alone: return the right outputs, or take the outputs "
                f"as {outputs} more arguments and return whether they are right"
            )
        with guarded("ref_prog"):
            self._expect(returned)
            samples, began = [first_s], time.perf_counter()
            while time.perf_counter() - began < REFERENCE_S - first_s and len(samples) < 5:
                samples.append(_timed(ref, arguments)[1])
        self.ref_latency_ms = statistics.median(samples) * 1e3

    def check(self, outputs: Sequence[Any]) -> Verdict:
        """The verdict on one candidate's outputs."""
        if not self.wanted:
            return "ok", "", None
        try:
            if self._judge and self.ref_prog is not None:
                with guarded("ref_prog"):
                    said = self.ref_prog(*self._arguments, *outputs)
                if said is not None and not isinstance(said, bool | np.bool_):
                    self._expect(said)
                elif said is not None and not said:
                    return "wrong_result", "ref_prog returned False", None
            if self.manual_check_prog is not None:
                with guarded("manual_check_prog"):
                    one = _positional(self.manual_check_prog) == 1
                    right = None if self._right is None else [host(x) for x in self._right]
                    said = self.manual_check_prog(outputs) if one else self.manual_check_prog(outputs, right)
                if isinstance(said, bool | np.bool_) and not said:
                    return "wrong_result", "manual_check_prog returned False", None
                return "ok", "", None
        except (AssertionError, RunError) as e:
            return "wrong_result", str(e) or "an assertion of the check failed", None
        return self._compare(outputs) if self._right is not None else ("ok", "", None)

    def _expect(self, returned: Any, allowed: Any = None) -> None:
        """Take what a reference returned for right; `allowed` comes with the single array of carver's own.

        A user's may write to it again, so it is copied.
        """
        every = returned if isinstance(returned, list | tuple) else [returned]
        self._right = [wide(x, copy=allowed is None) for x in every]
        own = 0.0 if allowed is None else allowed
        with np.errstate(invalid="ignore"):
            self._limits = [own + self.atol + self.rtol * abs(right) for right in self._right]

    def _compare(self, outputs: Sequence[Any]) -> Verdict:
        assert self._right is not None
        if len(outputs) != len(self._right):
            return "wrong_result", f"{len(outputs)} outputs where ref_prog returns {len(self._right)}", None
        worst, allowed = 0.0, self.max_mismatched_ratio
        for place, (output, right, limit) in enumerate(zip(outputs, self._right, self._limits, strict=True)):
            got, shape = beside(output, right), tuple(right.shape)
            if _squeezed(got.shape) != _squeezed(shape):
                return "wrong_result", f"output {place} has shape {tuple(got.shape)}, the reference {shape}", None
            seen = Differences(got, right, limit)
            share = seen.wrong / max(seen.size, 1)
            error = share / allowed if allowed and not seen.lost else seen.error
            if seen.lost or share > allowed:
                return "wrong_result", f"output {place}: {seen}; {100 * allowed:g} % of the elements may", error
            worst = max(worst, error)
        return "ok", "", worst


class Differences:
    """Of an output from the right one, element by element: how many are `lost`, not finite where they should be, how
    many are `wrong`, and the largest `error` over what is allowed, above 1 if one is wrong and infinite if one is lost.

    All three arrays are of one package; they are compared in pieces that a cache holds, or a GPU beside other things.
    """

    def __init__(self, got: Any, right: Any, allowed: Any) -> None:
        self.lost = self.wrong = 0
        self.error = 0.0
        self._shape, self._firsts = tuple(right.shape), dict[str, int]()
        self._got, self._right, self._allowed = (x.reshape(-1) for x in (got, right, allowed))
        self.size = len(self._right)
        xp = sys.modules["torch"] if is_torch(right) else np
        step = 1 << 24 if is_torch(right) and right.is_cuda else 1 << 16
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            for start in range(0, self.size, step):
                g, r, most = (x[start : start + step] for x in (self._got, self._right, self._allowed))
                g = wide(g)
                error = abs(g - r)
                largest = float((error / (most + (most == 0) * 1e-300)).max())
                if largest <= 1:  # in all others a difference may be no number: of infinities, or of NaN
                    self.error = max(self.error, largest)
                    continue
                error[(g == r) | (xp.isnan(g) & xp.isnan(r))] = 0
                largest = float((error / (most + (most == 0) * 1e-300)).max())
                self.lost += self._count("lost", xp.isfinite(r) & ~xp.isfinite(g), start)
                self.wrong += self._count("wrong", ~((error <= most) & (error < np.inf)), start)
                self.error = np.inf if self.lost or np.isnan(largest) else max(self.error, largest)

    def _count(self, name: str, marked: Any, start: int) -> int:
        if count := int(marked.sum()):
            self._firsts.setdefault(name, start + int(marked.nonzero()[0].reshape(-1)[0]))
        return count

    def __str__(self) -> str:
        if not self.wrong:
            return f"largest error {self.error:.2g} of what is allowed"
        count, kind = (self.lost, "not finite") if self.lost else (self.wrong, "wrong")
        first = self._firsts["lost" if self.lost else "wrong"]
        got, right, most = (host(x[first : first + 1])[0] for x in (self._got, self._right, self._allowed))
        where = [int(i) for i in np.unravel_index(first, self._shape)]
        of = f"{kind} at {count} of {self.size} elements ({100 * count / self.size:.3g} %), first at {where}"
        return f"{of}: {got:g} where {right:g} is right within {most:.2g}"


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _positional(fn: Callable[..., Any]) -> int | None:
    """How many positional arguments it must be given; None where it takes any number."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _timed(fn: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    returned = fn(*arguments)
    first = returned[0] if isinstance(returned, list | tuple) and returned else returned
    if is_torch(first) and first.is_cuda:
        import torch

        torch.cuda.synchronize()
    return returned, time.perf_counter() - began
