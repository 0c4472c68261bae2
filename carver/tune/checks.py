"""Whether a candidate computed the right thing: against a reference, or by the user's own word."""

from __future__ import annotations

import inspect
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import reference
from ..device.buffers import is_torch
from ..errors import ConfigError, RunError
from ..problem import Problem
from .inputs import Inputs, as_argument, host

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
        """The output, and what each of its elements may be off by; see `carver.reference.tolerance`.

        That takes inputs for exact. Of a tf32 operand with more than 10 bits of mantissa the matrix unit drops the
        rest, which is below 2^-10 of it.
        """
        p, xp = self.problem, sys.modules["torch"] if is_torch(inputs[0]) else np
        names = [*(t.name for t in p.statement.inputs), "bias"]
        wide = (x.double() if is_torch(x) else np.asarray(x, np.float64) for x in inputs)
        values = dict(zip(names, wide, strict=False))
        value, magnitude = reference.expected(p, values, xp)
        allowed = reference.tolerance(p, value := reference.representable(p, value, xp), magnitude)
        for name, x in values.items():
            scaled = x * (2.0**42 + 1)  # less what that adds, x has 11 of its 53 bits left (Veltkamp's splitting)
            if p.dtypes.get(name) == "tf32" and (scaled - (scaled - x) != x).any():
                allowed = allowed + 2.0**-10 * magnitude
        return value, allowed


@dataclass
class Checker:
    """The reference, computed once, and the tolerances: `atol` + `rtol` x reference, beside what the reference says."""

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
    _allowed: list[Any] | None = None
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
                self._right, self._allowed = map(_arrays, ref.bounded(*self._arguments))
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
            self._right = _arrays(returned)
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
                    self._right = _arrays(said)
                elif said is not None and not said:
                    return "wrong_result", "ref_prog returned False", None
            if self.manual_check_prog is not None:
                with guarded("manual_check_prog"):
                    one = _positional(self.manual_check_prog) == 1
                    self.manual_check_prog(outputs) if one else self.manual_check_prog(outputs, self._right)
                return "ok", "", None
        except (AssertionError, RunError) as e:
            return "wrong_result", str(e) or "an assertion of the check failed", None
        return self._compare(outputs) if self._right is not None else ("ok", "", None)

    def _compare(self, outputs: Sequence[Any]) -> Verdict:
        assert self._right is not None
        if len(outputs) != len(self._right):
            return "wrong_result", f"{len(outputs)} outputs where ref_prog returns {len(self._right)}", None
        worst = 0.0
        for place, (output, right) in enumerate(zip(outputs, self._right, strict=True)):
            got = host(output)
            if got.size == right.size and _squeezed(got) == _squeezed(right):
                got = got.reshape(right.shape)
            if got.shape != right.shape:
                return "wrong_result", f"output {place} has shape {got.shape}, the reference {right.shape}", None
            if (lost := np.isfinite(right) & ~np.isfinite(got)).any():
                first = _first(lost)
                return "wrong_result", (
                    f"output {place}: {int(lost.sum())} of {lost.size} elements are not finite, first at {first}: "
                    f"{got[first]:g} where {right[first]:g} is right"
                ), float("inf")
            own = self._allowed[place] if self._allowed else 0.0
            with np.errstate(invalid="ignore"):
                close = np.abs(got - right) <= own + self.atol + self.rtol * np.abs(right)
            wrong = ~(close | (got == right) | (np.isnan(got) & np.isnan(right)))
            ratio = float(wrong.mean()) if wrong.size else 0.0
            if ratio > self.max_mismatched_ratio:
                first = _first(wrong)
                beyond = "rounding explains + " if self._allowed else ""
                return "wrong_result", (
                    f"output {place}: {100 * ratio:.3g} % of {wrong.size} elements differ by more than {beyond}atol "
                    f"{self.atol:g} + rtol {self.rtol:g} x reference ({100 * self.max_mismatched_ratio:g} % may), "
                    f"first at {first}: {got[first]:g} where {right[first]:g} is right"
                ), ratio / self.max_mismatched_ratio if self.max_mismatched_ratio else float("inf")
            worst = max(worst, ratio)
        return "ok", "", worst / self.max_mismatched_ratio if self.max_mismatched_ratio else 0.0


def _arrays(returned: Any) -> list[Any]:
    return [host(x) for x in (returned if isinstance(returned, list | tuple) else [returned])]


def _first(marked: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(marked)[0])


def _squeezed(array: Any) -> tuple[int, ...]:
    return tuple(n for n in array.shape if n != 1)


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
