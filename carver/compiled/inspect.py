"""From a Triton kernel and its arguments to facts: specialise, compile (or fetch from disk), evaluate, match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from hashlib import sha256
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import CarverError, CompileError, CompilerFailed, ConfigError, ProblemError
from ..base.given import typed, whole
from ..base.types import FrozenDict, Record
from . import pool
from .binary import Descriptor, Tensor, handed, leaves
from .facts import Facts, beyond, gathered
from .footprint import Touched
from .machine import Machine, unit_rates
from .program import evaluate
from .trace import Trace
from .triton import (
    Specialised,
    Target,
    cache_key,
    called,
    compile_triton,
    function_of,
    grid_of,
    hooked,
    plain_config,
    settings,
    specialise,
)
from .values import Exact
from .worker import Forks, request

PERIOD, SPACING = 1024, 1 << 16
"""Elements after which banks and sectors are the same, eight numbers to a word at most; what keeps rows apart."""
Grid = tuple[int, ...] | Callable[[dict[str, Any]], tuple[int, ...]]


Values = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] | None
"""What tensors hold, by name, or a function from a configuration to that."""
_UNSAID: Mapping[str, Any] = FrozenDict()


class Candidate(Record):
    """One configuration, bound to the kernel's parameters."""

    kernel: Any
    config: Mapping[str, Any]
    given: Specialised
    grid: tuple[int, int, int]
    args: tuple[tuple[str, Any], ...]
    """Arguments that are no constants, in order."""
    key: str
    """Equal for configurations that compile to the same code, and whose arguments keep lanes as far apart."""
    numbers: tuple[int | None, ...] = ()
    """As `apart` gives them."""
    values: Mapping[str, Any] = _UNSAID
    """What its tensors hold."""


def candidate(
    kernel: Any, config: Any, args: Mapping[str, Any], grid: Grid, arch: Arch,
    constants: Mapping[str, Any] | None = None, values: Values = None,
) -> Candidate:  # fmt: skip
    """Bind a configuration; `args` as the caller has them. Raises ConfigError for what does not fit the kernel's
    parameters, CompileError for a launch that the device refuses."""
    target, args = Target.of(arch), hooked(config, args)
    plain, taken = plain_config(config), {name: handed(name, value) for name, value in args.items()}
    check_once(args, constants or {}, {name: plain[name] for name in function_of(kernel).arg_names if name in plain})
    bound = specialise(kernel, taken, constants or {}, plain, target, args)
    known = {**(constants or {}), **plain, **bound.constants}
    given, kinds = {**taken, **known}, bound.kinds()
    names = (name for name in function_of(kernel).arg_names if bound.signature[name] != "constexpr")
    rest = tuple(leaf for name in names for leaf in leaves(name, given.get(name)) if kinds[leaf[0]] != "constexpr")
    numbers = tuple(apart(value) for _, value in rest) if arch.vendor == "nvidia" else ()
    key = sha256(f"{cache_key(kernel, bound, target)} {unit_rates(arch)} {numbers}".encode()).hexdigest()
    made = Candidate(kernel, plain, bound, grid_of(grid, {**args, **known}), rest, key, numbers, held(values, config))
    if why := unlaunchable(made, arch):
        raise CompileError(why)
    return made


def held(values: Values, config: Any) -> Mapping[str, Any]:
    """What tensors hold in a configuration."""
    return called("the function values", values, config) if callable(values) else values or _UNSAID


def check_once(args: Mapping[str, Any], constants: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raises ConfigError for a name that two of these have, of which one would go unread."""
    of = {"args": args, "constants": constants, "the configurations": config}
    for name in sorted((args.keys() & constants.keys()) | (args.keys() | constants.keys()) & config.keys()):
        where = " and ".join(what for what, names in of.items() if name in names)
        raise ConfigError(f"{name!r} stands in {where}: give it once")


def apart(value: Any) -> int | None:
    """Of a whole number, one that keeps the lanes of a warp as far apart in lines and banks, the same for many: a line
    and the banks of shared memory have 128 bytes, and of what is larger only the rest tells."""
    if not hasattr(value, "__index__"):
        return None
    number = int(value)
    return number if -PERIOD < number < PERIOD else SPACING + number % PERIOD


def unlaunchable(each: Candidate, arch: Arch) -> str:
    """Why the device, or the model, refuses a launch, whatever the compiler makes of the kernel; empty if not."""
    options, most = each.given.options, arch.max_threads_per_block
    least = {"num_warps": 1, "num_stages": 0, "num_ctas": 1, "maxnreg": 1}
    numbers = {name: whole(name, options[name], ConfigError, low, 2**31 - 1) for name, low in least.items()
               if options.get(name) is not None}  # fmt: skip
    threads, ctas = numbers.get("num_warps", 4) * arch.warp_size, numbers.get("num_ctas", 1)
    if ctas > 1:
        return f"num_ctas={ctas}: a program that is a cluster of blocks is not in the model; take num_ctas=1"
    return f"it has {threads} threads, a block may have {most}" if threads > most else ""


def facts_of(wanted: Mapping[int, Candidate], arch: Arch, **bounds: Any) -> list[Facts | CarverError]:
    """Facts of each configuration, or why it has none. `bounds`: as `_replies` takes them.

    Facts are kept on disk; what is not there is compiled. The keys of `wanted` are places in a list, that of `copies`
    where these are given. Raises ProblemError where the program of none of them can be followed.
    """
    if state := settings():
        hashed = {i: sha256(f"{each.key} {state}".encode()).hexdigest() for i, each in wanted.items()}
        wanted = {i: replace(each, key=hashed[i]) for i, each in wanted.items()}
    keys = {i: pool.facts_key(each.key, each.grid, each.args, arch) for i, each in wanted.items()}
    found = dict[int, Facts | CarverError]()
    for values in {id(each.values): each.values for each in wanted.values()}.values():
        kept = pool.load_facts(dict.fromkeys(keys[i] for i, each in wanted.items() if each.values is values), values)
        found |= {i: kept[keys[i]] for i, each in wanted.items() if each.values is values and keys[i] in kept}
    missing = {i: each for i, each in wanted.items() if i not in found}
    found |= _compiled(missing, keys, arch, bounds)
    Exact.recent.clear()  # what programs computed, and arrays of the caller's
    told = [found[i] for i in wanted if i in found]
    lost = [each for each in told if isinstance(each, ProblemError)]
    if lost and not any(isinstance(each, Facts) for each in told):
        raise lost[0]
    return told


def _compiled(
    wanted: Mapping[int, Candidate], keys: Mapping[int, str], arch: Arch, bounds: Mapping[str, Any]
) -> Iterator[tuple[int, Facts | CarverError]]:
    """Facts of configurations by their places, compiled; `keys`: under which they are kept."""
    sharing: dict[str, list[int]] = {}
    for i, each in wanted.items():
        sharing.setdefault(each.key, []).append(i)
    traces: dict[str, tuple[Trace, Touched, pool.Used] | Exception] = {}
    made: dict[int, tuple[Facts, pool.Used] | Exception] = {}

    def heard(key: str, reply: pool.Reply) -> None:
        """Follow a program while others are compiled, and gather its facts once its code is read."""
        for i in sharing[key] if "refused" not in reply else ():
            each = wanted[i]
            # configurations that differ in warps and stages alone are one program
            program = sha256(repr((reply["ttir"], each.grid, each.args, id(each.values))).encode()).hexdigest()
            if program not in traces:
                traces[program] = _caught(_followed, reply["ttir"], each, pool.Used(each.values))
            found = traces[program]
            if isinstance(found, Exception):
                made[i] = found
            elif "machine" in reply:
                made[i] = _caught(_gathered, reply, found, each, arch)

    replies = _replies(wanted, arch, **bounds, heard=heard)
    for i, each in wanted.items():
        reply = replies[each.key]
        if "refused" in reply:
            kind = CompilerFailed if reply.get("transient") else CompileError  # a verdict, or nothing
            yield i, kind(reply["refused"])
            continue
        if i not in made:  # it was on the disk
            heard(each.key, reply)
        match made[i]:
            case ProblemError() as lost:
                yield i, lost
            case ConfigError() as error:  # of what the caller gave, for every candidate alike
                raise error
            case Exception() as fault:
                yield i, CompileError(pool.own_fault(fault))
            case facts, used:
                pool.save_facts(keys[i], facts, used)
                yield i, facts


def _caught(make: Callable[..., Any], *args: Any) -> Any:
    """What it makes, or the exception that it raises."""
    try:
        return make(*args)
    except Exception as error:
        return error


def _followed(ttir: str, each: Candidate, used: pool.Used) -> tuple[Trace, Touched, pool.Used]:
    args = [(name, (v.tensor.shape, v.tensor.strides) if isinstance(v, Descriptor) else v) for name, v in each.args]
    trace = evaluate(ttir, args, each.grid, used)
    return trace, Touched.of(trace, sizes_of(each.args)), used


def _gathered(
    reply: pool.Reply, followed: tuple[Trace, Touched, pool.Used], each: Candidate, arch: Arch
) -> tuple[Facts, pool.Used]:  # fmt: skip
    trace, touched, used = followed
    shape = {name: reply[name] for name in ("warps", "ctas", "shared_bytes", "tensor_columns", "dealt")}
    facts = gathered(typed(Machine, reply["machine"]), trace, touched, arch, **shape)
    extents = {name: (0.0, float(arg.extent_bytes)) for name, arg in each.args
               if isinstance(arg, Tensor) and min(arg.strides, default=0) >= 0}  # fmt: skip
    return replace(facts, beyond=beyond(trace, extents)), used


def compilers(wanted: Mapping[int, Candidate], arch: Arch, processes: int | None = None) -> Forks:
    """Copies of this process that compile configurations by their places."""
    target = Target.of(arch)
    return Forks(lambda place: compile_triton(wanted[place].kernel, wanted[place].given, target), arch, processes)


def _replies(
    wanted: Mapping[int, Candidate], arch: Arch, copies: pool.Compilers | None = None, processes: int | None = None,
    **bounds: Any,
) -> dict[str, pool.Reply]:  # fmt: skip
    with nullcontext(copies) if copies else compilers(wanted, arch, processes) as shared:
        requests = {each.key: request(i, each.numbers) for i, each in wanted.items()}
        return pool.compiled(requests, arch.isa, unit_rates(arch), shared, **bounds)


def sizes_of(args: Sequence[tuple[str, Any]]) -> dict[str, float]:
    """Bytes of the tensors among named arguments."""
    tensors = ((name, getattr(value, "tensor", value)) for name, value in args)
    return {name: float(value.nbytes) for name, value in tensors if hasattr(value, "nbytes")}
