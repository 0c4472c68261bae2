"""Whether a result is right: inputs, the operator's reference in float64 or the user's own, tolerances; the library.

Arrays are NumPy's or torch's: a function that takes `xp` works in that namespace.
"""

from __future__ import annotations

import inspect
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import exp2, isqrt, log2, prod, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base.child import outcome_of
from ..base.errors import ConfigError, DeviceError, RunError
from ..base.given import shown
from ..base.types import Record
from ..ops.operator import named as operator
from ..problem.problem import Problem
from .buffers import (
    POISON,
    STORAGE,
    TORCH_NAMES,
    Array,
    Buffer,
    as_tf32,
    decode,
    encode,
    fill,
    is_torch,
    limits,
    precision,
    put,
    same_bits,
)
from .device import Device
from .inputs import Inputs, as_argument, beside, host, wide

ATOL = 1e-2
REFERENCE_S = 0.5
"""How long the reference is timed for, beyond its first run. [s]"""

Verdict = tuple[str, str, float | None]
"""Outcome, what was seen, and the share of mismatched elements over what is allowed."""
ROUNDINGS, SUMS = 4.0, 1e-3
"""Results of two configurations may differ by so many roundings of the type, and by so much for the order of sums, both
relative to the largest."""


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Whatever the user's own function raises in this block leaves it as a RunError that says where from."""
    try:
        yield
    except (AssertionError, RunError):
        raise
    except Exception as error:
        raise RunError(f"{what} raised {type(error).__name__}: {error}") from error


class OperatorReference(Record):
    """The `ref_prog` of carver's own kernels: the operator in float64, and how far rounding may lead away from it."""

    problem: Problem

    def __call__(self, *inputs: Any) -> Any:
        return self.bounded(*inputs)[0]

    def bounded(self, *inputs: Any) -> tuple[Any, Any]:
        """The output, and what each of its elements may be off by; see `carver.run.check.tolerance`.

        That takes inputs for exact. Of a tf32 operand with more than 10 bits of mantissa the matrix unit drops the
        rest, which is below 2^-10 of it.
        """
        p, xp = self.problem, sys.modules["torch"] if is_torch(inputs[0]) else np
        names = [*(t.name for t in p.statement.inputs), "bias"]
        wide = (x.double() if is_torch(x) else np.asarray(x, np.float64) for x in inputs)
        values = dict(zip(names, wide, strict=False))
        value, allowed, magnitude = bounded(p, values, xp)
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
    `atol` is, unless it is given, `ATOL` of the reference's root mean square: whatever its unit, zeros are not right.
    Outputs are compared where the reference was computed: by torch on a GPU if it was, else by NumPy."""

    ref_prog: Callable[..., Any] | None = None
    manual_check_prog: Callable[..., Any] | None = None
    skip_check: bool = False
    rtol: float = 1e-2
    atol: float | None = None
    max_mismatched_ratio: float = 0.01
    ref_latency_ms: float | None = None
    _inputs: Inputs | None = None
    _arguments: list[Any] = field(default_factory=list)
    _right: list[Any] | None = None
    _limits: list[Any] = field(default_factory=list)
    _judge: bool = False

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "max_mismatched_ratio"):
            if not (getattr(self, name) or 0.0) >= 0:
                raise ConfigError(f"{name} must be 0 or more, got {getattr(self, name)!r}")

    @property
    def wanted(self) -> bool:
        return not self.skip_check and (self.ref_prog is not None or self.manual_check_prog is not None)

    def prepare(self, inputs: Inputs, device: str, outputs: int, hidden: Sequence[int] = ()) -> None:
        """Run and time the reference. One that takes the outputs as well is asked about each candidate instead.
        `hidden` are places of outputs among the inputs, which the reference does not see."""
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
                one = prod(getattr(said, "shape", ())) == 1
                if one and str(getattr(said, "dtype", type(said).__name__)).endswith(("bool", "NoneType")):
                    if not _says_yes(said, "ref_prog"):
                        return "wrong_result", f"ref_prog returned {said}", None
                else:
                    self._expect(said)
            if self.manual_check_prog is not None:
                with guarded("manual_check_prog"):
                    one = _positional(self.manual_check_prog) == 1
                    right = None if self._right is None else [host(x) for x in self._right]
                    said = self.manual_check_prog(outputs) if one else self.manual_check_prog(outputs, right)
                if not _says_yes(said, "manual_check_prog"):
                    return "wrong_result", f"manual_check_prog returned {said}", None
                return "ok", "", None
        except (AssertionError, RunError) as e:
            return "wrong_result", str(e) or "an assertion of the check failed", None
        return self._compare(outputs) if self._right is not None else ("ok", "", None)

    def _expect(self, returned: Any, allowed: Any = None) -> None:
        """Take what a reference returned for right; carver's own comes with `allowed`, a user's is copied."""
        every = returned if isinstance(returned, list | tuple) else [returned]
        self._right = [wide(x, copy=allowed is None) for x in every]
        own = 0.0 if allowed is None else allowed
        with np.errstate(invalid="ignore"):
            sizes = (_float64(abs(right)) for right in self._right)
            self._limits = [own + self._floor(size) + self.rtol * size for size in sizes]

    def _floor(self, size: Any) -> float:
        """What elements may be off by however small they are; `size`: magnitudes of the reference."""
        if self.atol is not None:
            return self.atol
        finite = size[size < np.inf]
        largest = float(finite.max()) if len(finite) else 0.0
        return ATOL * largest * sqrt(float(((finite / largest) ** 2).mean())) if largest else 0.0

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
    """Of an output from the right one, element by element: how many are `lost`, not finite where they should be or left
    as `fill` made them; how many are `wrong`; and the largest `error` over what is allowed, above 1 if one is wrong and
    infinite if one is lost.

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
                g, r = wide(g), wide(r)
                error, allowance = _apart(g, r), most + (most == 0) * 1e-300
                largest = float((error / allowance).max())
                if largest <= 1:  # in all others a difference may be no number: of infinities, or of NaN
                    self.error = max(self.error, largest)
                    continue
                error[(g == r) | (xp.isnan(g) & xp.isnan(r))] = 0
                largest = float((error / allowance).max())
                wrong = ~((error <= most) & (error < np.inf))
                lost = (xp.isfinite(r) & ~xp.isfinite(g)) | (wrong & (g == self._left))
                self.lost += self._count("lost", lost, start)
                self.wrong += self._count("wrong", wrong, start)
                self.error = np.inf if self.lost or np.isnan(largest) else max(self.error, largest)

    @property
    def _left(self) -> float:
        """What `fill` makes of an integer; NaN of other types, and of 8 bits, in which it is a number like others."""
        kind, item_bytes = str(self._got.dtype).rpartition(".")[2], self._got.dtype.itemsize
        return int("7f" * item_bytes, 16) if kind == "bool" or ("int" in kind and item_bytes > 1) else np.nan

    def _count(self, name: str, marked: Any, start: int) -> int:
        if count := int(marked.sum()):
            self._firsts.setdefault(name, start + int(marked.nonzero()[0].reshape(-1)[0]))
        return count

    def __str__(self) -> str:
        if not self.wrong:
            return f"largest error {self.error:.2g} of what is allowed"
        count, first = (self.lost, self._firsts["lost"]) if self.lost else (self.wrong, self._firsts["wrong"])
        got, right, most = (host(x[first : first + 1])[0] for x in (self._got, self._right, self._allowed))
        kind = "wrong" if not self.lost else "never written" if np.isfinite(got) else "not finite"
        got, right = (str(x) if isinstance(x, np.integer) else f"{x:g}" for x in (got, right))
        where = [int(i) for i in np.unravel_index(first, self._shape)]
        of = f"{kind} at {count} of {self.size} elements ({100 * count / self.size:.3g} %), first at {where}"
        return f"{of}: {got} where {right} is right within {most:.2g}"


def _float64(x: Any) -> Any:
    return x.double() if is_torch(x) else x.astype(np.float64, copy=False)


def _apart(a: Any, b: Any) -> Any:
    """How far values are apart; integers of 64 bits by their halves, since float64 does not hold all of them."""
    if "int" not in str(a.dtype) or "int" not in str(b.dtype):
        return abs(a - b)
    high, low = _float64(a >> 32) - _float64(b >> 32), _float64(a & 0xFFFFFFFF) - _float64(b & 0xFFFFFFFF)
    return abs(high * 2.0**32 + low)


def agreement(
    runs: Sequence[tuple[str, Callable[[], object]]], tensors: Mapping[str, Any], given: Mapping[str, Any],
    written: Collection[str] = (), read: Collection[str] = (), expected: Mapping[str, Any] | None = None,
    each: Callable[[], None] = lambda: None,
) -> list[Verdict]:  # fmt: skip
    """Which of several ways to compute the same on the same torch tensors, each with its name, do so. `given`: copies
    of the tensors.

    Each runs from two starts: what the tensors hold; and poison in those that are written, or other numbers in floats
    that are `read` too. So what it leaves alone shows, though it may have been right beforehand. Integers that are read
    stay, as they may be places or locks. What the first run changes is `written`, whatever was known.

    Right is what is `expected`, by name. Without it, what leaves fewest elements poisoned, and of that what most
    compute: a grid that is too small for one block size is so for all configurations of that size, be they most.
    """
    verdicts: list[Verdict] = [("ok", "", None)] * len(runs)
    kinds = dict.fromkeys(range(len(runs)), tuple[int, ...]())
    results: tuple[list[dict[str, Any]], ...] = ([], [])
    start, wanted = given, dict(expected or {})
    changed: set[str] | None = None
    for different in results:
        for i in list(kinds):
            try:
                put(tensors, start)
                runs[i][1]()
                if changed is None:
                    changed = {*written, *(name for name in tensors if not same_bits(tensors[name], given[name]))}
                made = {name: tensors[name].clone() for name in expected or changed}
                if unlike := _unlike(made, wanted):
                    verdicts[i] = "wrong_result", *unlike
                    del kinds[i]
                else:
                    alike = (k for k, other in enumerate(different) if not _unlike(made, other))
                    kinds[i] += (next(alike, len(different)),)
                    if kinds[i][-1] == len(different):
                        different.append(made)
            except Exception as error:  # of the compiler, the driver or the kernel's author
                verdicts[i] = outcome_of(error), f"{type(error).__name__}: {error}", None
                del kinds[i]
            each()
        start = {**given} | {name: _otherwise(given[name], name in read) for name in changed or ()}
        wanted = {name: value for name, value in wanted.items() if name not in read}
    count = Counter(kinds.values())
    if count:
        left = {kind: sum(map(_poisoned, results[1][kind[1]].values())) for kind in count}
        right = min(count, key=lambda kind: (left[kind], -count[kind]))
        first = next(i for i, kind in kinds.items() if kind == right)
        for i, kind in kinds.items():
            pairs = ((every[k], every[r]) for every, k, r in zip(results, kind, right, strict=True) if k != r)
            if unlike := next(filter(None, (_unlike(*pair) for pair in pairs)), None):
                verdicts[i] = "wrong_result", f"its results are not those of {runs[first][0]}: {unlike[0]}", unlike[1]
    return verdicts


def _otherwise(given: Any, read: bool) -> Any:
    if not read:
        given = given.clone(memory_format=sys.modules["torch"].contiguous_format)
        fill(given)
    elif given.is_floating_point():  # of the other sign, which limits and clamps tell
        given = (-given.double() - given.double().sign().add(0.5).sign()).to(given.dtype)
    return given


def _poisoned(made: Any) -> int:
    """Elements that hold what `fill` writes, or are no numbers otherwise."""
    torch = sys.modules["torch"]
    if made.is_floating_point() or made.is_complex():
        return int((made.half() if made.itemsize == 1 else made).isnan().sum())
    bytes_ = made.contiguous().reshape(-1).view(torch.uint8).reshape(-1, made.itemsize)
    return int((bytes_ == POISON["int8"]).all(1).sum())


def _unlike(made: Mapping[str, Any], right: Mapping[str, Any]) -> tuple[str, float] | None:
    """How results differ beyond rounding, and the error over what is allowed."""
    torch = sys.modules["torch"]
    for name, value in right.items():
        allowed = torch.zeros((), dtype=torch.float64, device=value.device)
        if made[name].is_floating_point() and value.numel():
            size = wide(value).abs().nan_to_num(0.0, 0.0, 0.0).max()
            allowed = (ROUNDINGS * torch.finfo(made[name].dtype).eps + SUMS) * size
        seen = Differences(made[name], value, allowed.expand(value.shape))
        if seen.wrong:
            return f"{name} is {seen}", min(seen.error, 1e300)
    return None


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _says_yes(said: Any, what: str) -> bool:
    """Of what a check returned: None, or one truth value, of whichever package."""
    shape = () if isinstance(said, int | float | None) else getattr(said, "shape", (0,))
    if prod(shape) != 1:
        raise RunError(f"{what} returned {shown(said)}, which is neither None nor one truth value")
    return said is None or bool(said)


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


SMALLEST = exp2(-30)
"""A subnormal below this is too small to matter: it is left out of what an element may be off by."""
_PATTERN = (1 << 22) + 15
"""Random values drawn for one tensor; a larger one repeats them at this odd period."""

_CONFIDENCE = 4.0
_ONES = 0.75
"""Share of ones among zeros and ones: few enough that two parts of a sum differ, enough that none is 0."""
_FLOAT8_SUM_BITS = 13
"""Integers up to 2^13 are exact in the sums of 8-bit products, of which Hopper keeps 14 bits."""


def draw(problem: Problem, seed: int) -> dict[str, Array]:
    """Random non-zero inputs by tensor name, the bias among them; the same for the same seed.

    Magnitudes lie in [1/16, 1), signs are random, and every value is exact in its type, so that the check sees
    the kernel's own rounding and nothing else. Integers are uniform in -127 to 127 without 0.
    """
    rng = np.random.default_rng(seed)
    shapes = {t.name: t.shape(problem.sizes) for t in problem.statement.inputs}
    types = {name: problem.dtypes[name] for name in shapes}
    if problem.options.get("bias"):
        output = problem.statement.output
        shapes["bias"], types["bias"] = output.shape(problem.sizes)[-1:], problem.dtypes[output.name]
    return {name: _random(rng, shape, types[name]) for name, shape in shapes.items()}


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    count = min(prod(shape), _PATTERN)
    if dtype in ("int8", "int32"):
        values = (rng.integers(1, 128, count) * rng.choice([-1, 1], count)).astype(np.float32)
    else:
        magnitude = rng.random(count, dtype=np.float32) * np.float32(15 / 16) + np.float32(1 / 16)
        values = np.copysign(magnitude, rng.random(count, dtype=np.float32) - np.float32(0.5))
    return np.resize(decode(encode(as_tf32(values) if dtype == "tf32" else values, dtype), dtype), shape)


def draw_exact(problem: Problem, seed: int) -> dict[str, Array] | None:
    """Inputs of which every partial sum is exact in the accumulator, in whatever order; None where nothing is added up.

    The rounding errors of a long sum may exceed what a lost tile adds to it. Here nothing rounds but the result, so
    the check sees a lost term. All values are integers: 0 or 1, in one operand 1 or 2 where there is room, and there
    negative in the second half of the longest reduced axis. So a part of the sum is far from 0 and the whole is small,
    where the output's type tells neighbours apart, but not 0: the halves differ by twice the root of the axis. Where
    the accumulator holds fewer integers than there are terms, zeros take the place of what it has no room for.
    """
    s, (roundoff, _) = problem.statement, precision(problem.accumulate)
    if s.combine != "+=" or not s.reduced or not roundoff or problem.options.get("keeps_shape"):
        return None
    bits = -log2(roundoff)
    if any(problem.dtypes[t.name].startswith("float8") for t in s.inputs):
        bits = min(bits, _FLOAT8_SUM_BITS)
    room = exp2(bits) / prod(problem.sizes[axis] for axis in s.reduced)
    longest = max(s.reduced, key=lambda axis: problem.sizes[axis])
    signed = next((t for t in reversed(s.inputs) if ((longest, 1),) in t.index), s.inputs[-1])
    rng = np.random.default_rng([seed, 1])
    out = {}
    for t in s.inputs:
        shape = t.shape(problem.sizes)
        count = min(prod(shape), _PATTERN)
        if t is signed and room >= 2:
            values = rng.integers(1, 3, count).astype(np.float32)
        else:
            values = (rng.random(count) < (min(_ONES, room) if t is signed else _ONES)).astype(np.float32)
        values = np.resize(values, shape)
        if ((longest, 1),) in t.index and t is signed:
            n, place = problem.sizes[longest], t.index.index(((longest, 1),))
            half = np.where(np.arange(n) < (n + 1) // 2 + isqrt(int(n / min(room, 1.0))), np.float32(1), np.float32(-1))
            values *= half.reshape([-1 if i == place else 1 for i in range(len(shape))])
        out[t.name] = values
    if problem.options.get("bias"):
        out["bias"] = (2 * rng.integers(0, 2, s.output.shape(problem.sizes)[-1]) - 1).astype(np.float32)
    return out


def expected(problem: Problem, inputs: Mapping[str, Any], xp: Any = np) -> tuple[Any, Any]:
    """The output, and the sum of the magnitudes added up for it, which scales the rounding error; of float64 arrays."""
    return operator(problem.operator).reference(problem, inputs, xp)


def bounded(problem: Problem, inputs: Mapping[str, Any], xp: Any = np, exact: bool = False) -> tuple[Any, Any, Any]:
    """The output as its type holds it, what each element may be off by, and magnitudes; `exact`: of `draw_exact`."""
    value, magnitude = expected(problem, inputs, xp)
    value = representable(problem, value, xp)
    return value, tolerance_exact(problem, value) if exact else tolerance(problem, value, magnitude), magnitude


def tolerance(problem: Problem, value: Any, magnitude: Any) -> Any:
    """How far each element may be from the float64 reference, whatever the order of the additions.

        K = extent of the reduction, u = unit roundoff of the type
        |error| <= u_out |value| + 4 sqrt(K) u_accumulate sum |a_k b_k|

    Inputs are exact in their types, so only additions and the last rounding err. K rounding errors of random
    sign grow with sqrt(K); the factor 4 covers the units that truncate instead of rounding, whose errors have
    one sign: 2 u at each partial sum, and partial sums of random signs are themselves about sqrt(K) terms.
    Of 8-bit floats Hopper adds 32 products at a time and keeps 14 bits: sqrt(K / 32) 2^-14 more. Integers are
    exact. A kernel that ends in an exponential or a division adds 2^-20 for the fast one, 2^-50 in float64.

    Source: Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis (2019), theorem 2.4; Fasi et
    al., Numerical behavior of NVIDIA tensor cores (2021), for truncation.
    """
    terms = prod(problem.sizes[axis] for axis in problem.statement.reduced)
    if problem.statement.combine in ("max=", "min="):
        terms = 1
    allowed = _CONFIDENCE * sqrt(terms) * precision(problem.accumulate)[0] * magnitude
    if terms > 1 and any(problem.dtypes[t.name].startswith("float8") for t in problem.statement.inputs):
        allowed = allowed + sqrt(terms / 32) * exp2(-14) * magnitude
    allowed = allowed + _rounding(problem, value)
    if operator(problem.operator).approximates(problem):
        allowed = 1.2 * allowed + _fast(problem) * magnitude
    return allowed


def tolerance_exact(problem: Problem, value: Any) -> Any:
    """The same where the sums are exact (`draw_exact`): the rounding of the result, and that of an epilogue."""
    activation = bool(problem.options.get("activation"))
    allowed = _rounding(problem, value)
    if operator(problem.operator).approximates(problem):
        allowed = allowed + _fast(problem) * (abs(value) + activation)
    return allowed


def _fast(problem: Problem) -> float:
    """What an exponential or a division is off by; of doubles no machine has a fast one."""
    return exp2(-50) if problem.accumulate == "float64" else exp2(-20)


def _rounding(problem: Problem, value: Any) -> Any:
    out = problem.dtypes[problem.statement.output.name]
    roundoff, smallest = precision(out)
    allowed = 1.01 * roundoff * abs(value) + (smallest if smallest > SMALLEST else 0.0)
    exact = problem.accumulate == "int32" and not operator(problem.operator).approximates(problem)
    return allowed if exact or out not in ("int8", "int32") else allowed + 0.5 + 1e-6


def representable(problem: Problem, value: Any, xp: Any = np) -> Any:
    """The reference as far as the output's type reaches: integers and 8-bit floats saturate, halves overflow."""
    out = problem.dtypes[problem.statement.output.name]
    if out == "float16":
        return value * xp.where(abs(value) < 65520, 1.0, float("inf"))  # what rounds to more than 65504
    return xp.clip(value, *limits(out)) if out.startswith(("int", "float8")) else value


def namespace(kind: str) -> Any:
    """torch for a GPU if it is here and sees one, else NumPy."""
    if kind == "cuda":
        try:
            import torch
        except ImportError:
            return np
        if torch.cuda.is_available():
            return torch
    return np


def float64(device: Device, buffer: Buffer, xp: Any) -> Any:
    """The values of a buffer as a float64 array of `xp`, on the GPU for torch."""
    return device.download(buffer).astype(np.float64) if xp is np else as_torch(buffer, xp).to(xp.float64)


def as_torch(buffer: Buffer, torch: Any) -> Any:
    """A tensor on the same memory, by CUDA's array interface, version 3."""
    bits = "<i2" if buffer.dtype == "bfloat16" else np.dtype(STORAGE[buffer.dtype]).str
    said = {"shape": buffer.shape, "typestr": bits, "data": (buffer.pointer, False), "version": 3}
    stored = torch.as_tensor(SimpleNamespace(__cuda_array_interface__=said, buffer=buffer), device="cuda")
    return stored.view(getattr(torch, TORCH_NAMES.get(buffer.dtype, buffer.dtype)))


def library_call(
    problem: Problem, kind: str, inputs: Mapping[str, Buffer], output: Buffer
) -> tuple[str, Callable[[], object]]:
    """The library's name and a call that computes the problem from the same buffers. torch on a GPU, which takes cuBLAS
    for products; NumPy on the CPU. Raises DeviceError where it has no fast way."""
    xp = namespace(kind)
    if xp is np and kind == "cuda":
        raise DeviceError("no library to compare with on the GPU: install torch")
    narrow = {t: d for t, d in problem.dtypes.items() if d not in ("float32", "float64")}
    if xp is np and narrow:
        raise DeviceError(f"NumPy has no fast operations on {', '.join(sorted(set(narrow.values())))}")
    if xp is not np and (odd := {d for d in problem.dtypes.values() if d.startswith("float8") or d.startswith("int")}):
        raise DeviceError(f"torch has no plain operations on {', '.join(sorted(odd))}")
    arrays = {name: b.owner if xp is np else as_torch(b, xp) for name, b in inputs.items()}
    out = output.owner if xp is np else as_torch(output, xp)
    if xp is not np:
        xp.backends.cuda.matmul.allow_tf32 = "tf32" in problem.dtypes.values()
    call = operator(problem.operator).library(problem, [arrays[t.name] for t in problem.statement.inputs], out, xp)
    if call is None:
        raise DeviceError(f"the library has no fast call for {problem}")
    return ("numpy" if xp is np else "torch"), call
