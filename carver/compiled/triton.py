"""Compile a Triton function for a GPU that need not be in the machine, as `function[grid](...)` would."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from types import SimpleNamespace
from typing import Any

from ..arch.descriptor import TRITON_LACKS, TRITON_LEAST_CC, Arch
from ..base.child import forking
from ..base.children import lacked
from ..base.errors import CompileError, CompilerFailed, ConfigError, DeviceError, nearest
from ..base.folders import private, scratch
from ..base.given import index, shown, whole
from ..base.types import Record
from .binary import TRITON_TYPE, Descriptor, Tensor, by_part, changeable, leaves
from .dealt import dealt_of

ALIGNED = 16
"""Triton compiles another version for integers and addresses that this divides."""
WITHIN_2_GB = 2**31 - 1
CONFIG_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")
"""Options that a `triton.Config` holds beside its constants."""


class Target(Record):
    """What Triton compiles for: ("cuda", 90, 32) or ("hip", "gfx942", 64), and what a block and a thread may have."""

    backend: str
    arch: int | str
    warp_size: int
    shared_bytes: int = 1 << 40
    registers: int = 512

    @classmethod
    def of(cls, arch: Arch) -> Target:
        """Raises ConfigError for devices that Triton has no compiler for."""
        most = arch.smem_per_block_bytes, arch.max_regs_per_thread
        if arch.cc and arch.cc >= TRITON_LEAST_CC:
            return cls("cuda", arch.cc[0] * 10 + arch.cc[1], arch.warp_size, *most)
        if arch.vendor == "amd" and arch.isa not in TRITON_LACKS:
            return cls("hip", arch.isa, arch.warp_size, *most)
        raise ConfigError(
            f"Triton compiles for NVIDIA from compute capability {'.'.join(map(str, TRITON_LEAST_CC))} on, and for AMD "
            f"but {', '.join(TRITON_LACKS)}, not for {arch.title} ({arch.isa})"
        )

    @property
    def gpu(self) -> Any:
        """Triton's own record of it."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget(self.backend, self.arch, self.warp_size)


VENDORS = Target("cuda", 90, 32), Target("hip", "gfx942", 64)
"""One target of each compiler."""


class Specialised(Record):
    """What Triton compiles: types of the arguments, constants, what is known of the others, and options."""

    signature: Mapping[str, Any]
    """By argument: "*fp16", "i32", "constexpr", or a tuple of them; its parts are `sizes.0`, `sizes.1` elsewhere."""
    constants: Mapping[str, Any]
    divisible: tuple[str, ...]
    """Arguments that 16 divides."""
    near: tuple[str, ...]
    """Pointers to tensors within 2 GB, which AMD's buffer instructions reach."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def kinds(self) -> dict[str, str]:
        """The signature with the parts of tuples one by one."""
        return dict(leaf for name, kind in self.signature.items() for leaf in leaves(name, kind))


class Compiled(Record):
    """What came out: IR before layouts, machine code, and what Triton says about it."""

    ttir: str
    code: bytes | str
    """A cubin, or AMD's assembly."""
    shared_bytes: int
    warps: int
    stages: int
    ctas: int
    tensor_columns: int
    """Of tensor memory, which compute capability 10.0 has."""
    dealt: Mapping[str, Sequence[Sequence[int]]]
    """How tiles are dealt out, by what is done, shape and argument ("load 32x64 x_ptr"), and where that is not told
    without it: along each dimension elements of a thread, threads of a warp, warps."""


def function_of(kernel: Any) -> Any:
    """The `triton.jit` function under autotune and heuristics. Raises ConfigError where there is none."""
    inner = kernel
    while not hasattr(inner, "arg_names") or not hasattr(inner, "params"):
        if not hasattr(inner, "fn"):
            given = f"{kernel!r}: FILE:NAME is for a shell" if isinstance(kernel, str) else type(kernel).__name__
            raise ConfigError(f"a kernel is a function decorated with triton.jit, got {given}")
        inner = inner.fn
    return getattr(getattr(inner, "warmup", None), "__self__", inner)  # what a wrapper of all its attributes wraps


def autotuned(kernel: Any, given: Mapping[str, Any] | None) -> Sequence[Any]:
    """The configurations of a kernel's `triton.autotune`, after its own `early_config_prune` for these arguments, which
    may write them anew. None for `given`: all of them. Raises ConfigError where it has none, and where that fails.
    """
    inner = kernel
    while not hasattr(inner, "params"):
        if hasattr(inner, "configs"):
            prune: Any = getattr(inner, "early_config_prune", None)
            whole = getattr(prune, "by_code", prune is None)  # carver's own pruner ranks the list, too
            return tuple(inner.configs) if whole or given is None else _pruned(prune, inner.configs, given)
        inner = inner.fn
    raise ConfigError(f"{inner.__name__} has no triton.autotune list to rank: give a list, in a shell --configs FILE")


def _pruned(prune: Callable[..., Any], configs: Sequence[Any], given: Mapping[str, Any]) -> Sequence[Any]:
    """Triton gives it arguments by position in a mapping, and others by keyword; here it gets all of them as both."""

    def left(known: Mapping[str, Any]) -> tuple[Any, ...]:
        _, _, *more = inspect.signature(prune).parameters.values()
        every, names = any(p.kind is p.VAR_KEYWORD for p in more), {p.name for p in more}
        keywords = {name: value for name, value in known.items() if every or name in names}
        return tuple(prune(list(configs), dict(known), **keywords))

    what = "the kernel's early_config_prune (give a list of configurations to rank without it)"
    found: tuple[Any, ...] = called(what, left, given)
    return found


def heuristics(kernel: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Constants and options that `triton.heuristics` computes from the other arguments, as the caller has them. Raises
    ConfigError where one of its functions fails."""
    found: dict[str, Any] = {}
    inner = kernel
    while hasattr(inner, "fn") and not hasattr(inner, "params"):
        if type(inner).__name__ == "Heuristics":
            for name, compute in inner.values.items():
                found[name] = called(f"the heuristic of {name}", compute, {**known, **found})
        inner = inner.fn
    return found


def called(what: str, function: Callable[[Any], Any], known: Any) -> Any:
    """What a function of the kernel's author gives. Raises ConfigError, which names it, where it fails."""
    try:
        return function(known)
    except ConfigError:  # that says itself what is wrong
        raise
    except Exception as error:  # of the kernel's author
        lacks = isinstance(error, KeyError) and isinstance(known, Mapping)
        has = f"; it is given {', '.join(map(str, known)) or 'nothing'}" if lacks else ""
        raise ConfigError(f"{what} fails for these arguments: {type(error).__name__}: {error}{has}") from error


def hooked(config: Any, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments after the hook of a `triton.Config`, where that sets the blocks of tensor descriptors. The hook
    gets copies of the descriptors, and is not called where there are none: it may do anything else. Raises ConfigError
    where it fails."""
    described = {name: changeable(value) for name, value in args.items() if hasattr(value, "block_shape")}
    if not described or getattr(config, "pre_hook", None) is None:
        return args
    changed = {**args, **described, **config.all_kwargs()}
    called("the configuration's pre_hook", config.pre_hook, changed)
    return {name: changed[name] for name in args}


def plain_config(config: Any) -> dict[str, Any]:
    """A dict, or a `triton.Config` as one."""
    if isinstance(config, Mapping):
        if odd := next((key for key in config if not isinstance(key, str)), None):
            raise ConfigError(f"a configuration's keys are names, got {shown(odd)}")
        return dict(config)
    if not isinstance(getattr(config, "kwargs", None), Mapping):
        raise ConfigError(f"a configuration is a dict or a triton.Config, got {type(config).__name__}")
    options = {name: getattr(config, name, None) for name in CONFIG_OPTIONS}
    return {**config.kwargs, **{name: value for name, value in options.items() if value is not None}}


def specialise(
    kernel: Any, args: Mapping[str, Any], constants: Mapping[str, Any], config: Mapping[str, Any], target: Target,
    handed: Mapping[str, Any] | None = None,
) -> Specialised:  # fmt: skip
    """Bind what was given to the function's parameters, as Triton's launcher does it. A configuration's keys are
    parameters, else options of the compiler, of which `args` and `constants` may have some too, as a launch may.
    `handed`: the arguments as the caller has them, which the kernel's heuristics get. Integers that are 1 become
    constants, of others Triton learns whether 16 divides them; pointers are taken to be aligned. Raises ConfigError for
    what is missing, unknown or of a kind that no kernel takes, CompileError for an option that another vendor's
    compiler has."""
    function = function_of(kernel)
    names = list(function.arg_names)
    given = {**args, **constants}
    apart = sorted(given.keys() - set(names))
    options = {name: given.pop(name) for name in apart if any(name in _options(each) for each in VENDORS)}
    options |= {name: value for name, value in config.items() if name not in names}
    given |= {name: value for name, value in config.items() if name in names}
    computed = heuristics(kernel, {**given, **(handed or {}), **options})
    options |= {name: value for name, value in computed.items() if name not in names}
    given |= {name: value for name, value in computed.items() if name in names}
    _check_options(options, target, names)
    if override := options.get("ir_override"):
        raise CompileError(f"ir_override={override}: a file in place of the code that Triton makes of this kernel")
    if unknown := sorted(given.keys() - set(names)):
        raise ConfigError(f"{function.__name__} has no parameter {unknown[0]!r}: {nearest(unknown[0], names)}")
    signature: dict[str, Any] = {}
    fixed: dict[str, Any] = {}
    divisible, near = [], []

    def bind(param: Any, name: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return by_part(partial(bind, param), name, value)
        kind, known = ("constexpr", False) if value is None else _type_of(param, name, value)
        if kind == "constexpr":
            fixed[name] = value
        if known:
            divisible.append(name)
        if isinstance(value, Tensor) and target.backend == "hip" and value.nbytes <= WITHIN_2_GB:
            near.append(name)
        return kind

    for param in function.params:
        if param.name not in given and param.default is inspect.Parameter.empty:
            where = "in args, constants or the configuration"
            raise ConfigError(f"{function.__name__} needs {param.name!r}: give it {where}")
        value = given.get(param.name, param.default)
        if hasattr(value, "value") and type(value).__name__ == "constexpr":
            value = value.value
        if param.is_constexpr:
            signature[param.name], fixed[param.name] = "constexpr", value
        else:
            signature[param.name] = bind(param, param.name, value)
    return Specialised(signature, fixed, tuple(divisible), tuple(near), options)


def _type_of(param: Any, name: str, value: Any) -> tuple[str, bool]:
    """Triton's type of an argument, and whether it may take it to be a multiple of 16."""
    special, aligned = not param.do_not_specialize, not param.do_not_specialize_on_alignment
    match value:
        case Tensor():
            const = "k" if getattr(param, "is_const", False) else ""
            return f"*{const}{TRITON_TYPE[value.dtype]}", special and aligned
        case Descriptor():
            block = ",".join(map(str, value.block_shape))
            return f"tensordesc<{TRITON_TYPE[value.tensor.dtype]}[{block}]>", False
        case bool():
            return param.annotation_type or "u1", False
        case int():
            if value == 1 and special and not param.annotation_type:
                return "constexpr", False
            if not -(2**63) <= value < 2**64:
                raise ConfigError(f"argument {name!r} is an integer of at most 64 bits, got {shown(value)}")
            kind = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
            kind = param.annotation_type or kind
            return kind, special and aligned and kind[0] in "iu" and kind != "u1" and value % ALIGNED == 0
        case float():
            return param.annotation_type or "fp32", False
    if (number := index(value)) is not None:
        return _type_of(param, name, number)
    raise ConfigError(
        f"argument {name!r} is a {type(value).__name__}; a tensor is given as carver.Tensor(dtype, shape), a "
        "descriptor as carver.Descriptor(tensor, block_shape), a number by its value, several as a tuple"
    )


def _check_options(options: Mapping[str, Any], target: Target, parameters: Sequence[str]) -> None:
    known = _options(target)
    if unknown := sorted(options.keys() - known):
        others = {name: each.backend for each in VENDORS if each.backend != target.backend for name in _options(each)}
        for name in unknown:
            if name not in others:
                what = f"{name!r} is neither a parameter of the kernel nor an option of Triton's compiler"
                raise ConfigError(f"{what} for {target.backend}: {nearest(name, {*known, *parameters})}")
        what = f"{unknown[0]!r} is an option of Triton's compiler for {others[unknown[0]]}, not for {target.backend}"
        raise CompileError(what)


@lru_cache(maxsize=4)
def _options(target: Target) -> frozenset[str]:
    return frozenset(_backend(target).parse_options({}).__dict__)


def cache_key(kernel: Any, given: Specialised, target: Target) -> str:
    """Equal where Triton would compile the same: source with all that it calls, types, constants, target, version."""
    source = source_of(function_of(kernel))
    known = [given.signature, given.constants, given.divisible, given.near, given.options]
    limits = target.shared_bytes, target.registers  # by which `_stopping` refuses
    identity = [version(), source, *known, target.backend, target.arch, *limits]
    text = json.dumps(identity, sort_keys=True, default=lambda value: str(getattr(value, "cache_key", value)))
    return sha256(text.encode()).hexdigest()


_MORE = re.compile(r"AMDGCN_|TRITON_(HIP_|PTXAS|LIBDEVICE|DEFAULT_|PLUGIN)|DISABLE_PTXAS_OPT|LLVM_PASS_PLUGIN_PATH")
"""Variables that change code and that not every version has in its own list: of backends, of paths, of plugins."""
_REPLACING = {
    "TRITON_OVERRIDE_ARCH": "for another device than the one asked for; 'arch' says for which",
    "TRITON_KERNEL_OVERRIDE": "files of code in place of its own, which are not what is ranked",
}


def settings() -> str:
    """What of the environment changes the code that Triton makes, empty where nothing does. The variables of Triton's
    own list, as it says itself, and those that a list may lack; programs and libraries by size and time of change.
    Raises ConfigError for variables that put other code, or another device, in the place of what is asked for."""
    from triton._C import libtriton

    for name, what in _REPLACING.items():
        if os.environ.get(name, "").lower() not in ("", "0", "false", "off", "no", "n"):
            raise ConfigError(f"{name}={os.environ[name]} makes Triton compile {what}: unset it")
    listed: dict[str, str] = getattr(libtriton, "get_cache_invalidating_env_vars", dict)()
    found = {name: value for name, value in os.environ.items() if value and _MORE.match(name)} | listed
    files = {}
    for name in (name for name in found if name.endswith(("_PATH", "_PATHS"))):
        with suppress(OSError):
            there = Path(found[name]).stat()
            files[name] = there.st_size, there.st_mtime_ns
    return json.dumps([found, files], sort_keys=True) if found else ""


def source_of(function: Any) -> str:
    """A hash of the source of a function, of all that it calls and of the constants that it names."""
    try:
        return str(function.cache_key)
    except Exception as error:  # it looks up all that the source names, which this Triton may not have
        raise ConfigError(f"Triton {version()} cannot read {function.__name__}: {sentence(error)}") from error


def version() -> str:
    """Of Triton. Raises DeviceError where it is not installed."""
    try:
        import triton
    except ImportError:
        raise DeviceError("Triton is not installed: pip install triton==3.6.0") from None
    return str(triton.__version__)


def compile_triton(kernel: Any, given: Specialised, target: Target) -> Compiled:
    """Run Triton's compiler. Raises CompileError with its sentence, and the whole of its message as the log."""
    return out_of(built_by_triton(kernel, given, target), target)


def built_by_triton(kernel: Any, given: Specialised, target: Target) -> Any:
    """Triton's own record of a function of Triton or of Gluon, compiled. Raises CompileError."""
    import triton

    try:
        with _stopping(target):
            return triton.compile(_source(function_of(kernel), given), target.gpu, dict(given.options))
    except CompileError:
        raise
    except Exception as error:  # whatever stage refuses a kernel, in Python or in LLVM, it is this candidate's answer
        raise refusal(error) from error


SPILLED = 4
"""Numbers of a product that a thread holds, over its registers: of more, compilers take minutes, for code that spills
them in each step. 256 x 256 x 64 by four warps on sm_90, twice the registers, is compiled in 12 s, by two in 285."""
_PRODUCT = re.compile(r"\btt\.dot(?:_scaled)? .*-> tensor<((?:\d+x)+)")


@contextmanager
def _stopping(target: Target) -> Iterator[None]:
    """Inside, Triton's compilers stop before LLVM generates code of a kernel that needs more shared memory than a block
    may have, or whose threads hold too much of a product; on Blackwell these do not. Raises CompileError there."""
    kind, last = type(_backend(target)), "ptx" if target.backend == "cuda" else "amdgcn"
    add, elsewhere = kind.add_stages, target.backend == "cuda" and 100 <= int(target.arch) < 120

    def add_stages(backend: Any, stages: dict[str, Any], *rest: Any) -> None:
        add(backend, stages, *rest)
        tiled, generate = stages["ttgir"], stages[last]

        def product(source: Any, metadata: dict[str, Any]) -> Any:
            tiles = (map(int, tile.split("x")[:-1]) for tile in _PRODUCT.findall(str(source)))
            held = max(map(math.prod, tiles), default=0) // (metadata["num_warps"] * target.warp_size)
            if held > SPILLED * target.registers and not elsewhere:
                raise CompileError(f"a thread holds {held:,} numbers of a product, it has {target.registers} registers")
            return tiled(source, metadata)

        def shared(source: Any, metadata: dict[str, Any]) -> Any:
            if (needed := metadata.get("shared") or 0) > (most := target.shared_bytes):
                raise CompileError(f"it needs {needed:,} bytes of shared memory, a block may have {most:,}")
            return generate(source, metadata)

        stages |= {"ttgir": product, last: shared}

    kind.add_stages = add_stages
    try:
        yield
    finally:
        kind.add_stages = add


def refusal(error: Exception) -> CompileError:
    """The answer of a compiler that raised this: CompilerFailed where it was killed, or where the machine lacked
    something, which says nothing of the candidate. Raises OSError and MemoryError, from whatever depth."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError | MemoryError):
            raise inner
        inner = inner.__cause__
    log = str(error).strip()
    kind = CompilerFailed if lacked(log) or _SILENT.search(log) else CompileError
    return kind(sentence(error), log)


_SILENT = re.compile(r"^Cannot find ptxas|`ptxas` stderr:\s*\n\s*(Repro|$)")
"""How Triton tells of an assembler that failed and said nothing, perhaps when it was asked for its version."""


def out_of(built: Any, target: Target) -> Compiled:
    """Triton's own record of a compiled kernel as ours. Raises CompileError."""
    if "ttir" not in built.asm:
        built = _with_ir(built, target)
    meta = built.metadata
    code = built.asm["cubin"] if target.backend == "cuda" else built.asm["amdgcn"]
    columns = getattr(meta, "tmem_size", None) or 0
    own = meta.shared, meta.num_warps, meta.num_stages, meta.num_ctas, columns
    return Compiled(built.asm["ttir"], code, *own, dealt_of(built.asm.get("ttgir", "")))


def _with_ir(built: Any, target: Target) -> Any:
    """The same compiled again, where Triton's cache holds the binary alone, as under TRITON_STORE_BINARY_ONLY: in a
    folder that is gone afterwards, since Triton takes what its own holds, and the user wants that small."""
    import triton
    from triton import knobs

    options = {name: _hashable(v) for name, v in built.metadata._asdict().items()}
    with scratch(private("triton"), "ir-") as folder, knobs.compilation.scope(), knobs.cache.scope():
        knobs.compilation.store_binary_only, knobs.cache.dir = False, str(folder)
        try:
            return triton.compile(built.src, target.gpu, options)
        except Exception as error:
            raise refusal(error) from error


def _hashable(value: Any) -> Any:
    """An option that was read from JSON as it was."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def compile_launched(run: Callable[..., Any], target: Target, given: Mapping[str, Any]) -> Compiled:
    """Have Triton compile what a launch with these arguments would, its own caches filled, without a GPU. For a copy of
    a process, which cannot ask the GPU: Triton's driver is replaced. Raises CompileError."""
    from triton.runtime import driver

    driver.set_active(Absent(target))
    try:
        with _stopping(target):
            return out_of(run(**given, grid=(1,), warmup=True), target)
    except Exception as error:
        raise refusal(error) from error


def build_launcher(kernel: Any, target: Target, given: Mapping[str, Any]) -> None:
    """Have the C code that launches a kernel with such arguments built, into Triton's cache. For a process without a
    GPU, as `compile_launched`. Where Triton does it in another way than it does since 3.0, the launch builds it."""
    from triton.runtime import driver

    launcher, function = driver.active.launcher_cls, function_of(kernel)
    driver.set_active(Absent(target))
    function.device_caches[0]  # the first look makes them, and sets what compiles
    function.compile = lambda source, **_: launcher(source, SimpleNamespace(metadata=None))
    try:
        kernel.run(**given, grid=(1,), warmup=True)
    finally:
        function.device_caches.clear()  # and the next look makes them anew


class Absent:
    """What Triton asks a driver before it compiles, of a GPU that is not there."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def get_current_target(self) -> Any:
        return self.target.gpu

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0


def sentence(error: BaseException) -> str:
    """What a compiler says, in one line: the innermost message, the last line of it, and what Triton says it about."""
    inner, about = error, _quoted(error)
    while inner.__cause__ is not None:
        inner = inner.__cause__
        about = _quoted(inner) or about
    told = getattr(inner, "error_message", None) or inner  # without the source that Triton quotes before it
    lines = [line.strip() for line in str(told).splitlines() if line.strip(" ^\t")]
    of_line = (re.search(r", line \d+; (error\b.*)|^ptxas\S*\s+\w+\s*: (.*)", line) for line in lines)
    said = (*(m[1] or m[2] for m in of_line if m), *(x for x in lines if "error" in x.lower()), *lines[-1:], "")[0]
    said = re.sub(rf"{re.escape(gettempdir())}/\S+", "FILE", said)  # so that configurations refused alike say the same
    said = re.sub(r"Value '(\w+)' is not defined.*", r"no \1; TRITON_PTXAS_BLACKWELL_PATH may name a newer ptxas", said)
    kind = "" if isinstance(inner, AssertionError) and said else f"{type(inner).__name__}: "  # a rule, in words
    told = f"{kind}{said}{about}".removesuffix(": ")
    return told if len(told) <= 300 else f"{told[:147]} ... {told[-148:]}"  # why stands at the end


def _quoted(error: BaseException) -> str:
    """The line of the kernel, or of a function that it calls, at which Triton stopped; empty where it names none."""
    source, line = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", 0)
    lines = source.splitlines() if isinstance(source, str) else []
    return f", at {lines[line - 1].strip()!r}" if 0 < line <= len(lines) else ""


def _source(function: Any, given: Specialised) -> Any:
    """Triton's own record of what to compile; its shape changed after 3.2."""
    from triton.compiler import ASTSource

    if getattr(function, "is_gluon", bool)():
        from triton.experimental.gluon._runtime import GluonASTSource as ASTSource
    names = list(function.arg_names)
    if "constexprs" in inspect.signature(ASTSource.__init__).parameters:

        def place(name: str) -> tuple[int, ...]:
            head, *parts = name.split(".")
            return names.index(head), *map(int, parts)

        attrs: dict[tuple[int, ...], list[list[Any]]] = {}
        for which, (attribute, value) in (
            (given.divisible, ("tt.divisibility", 16)),
            (given.near, ("tt.pointer_range", 32)),
        ):
            for name in which:
                attrs.setdefault(place(name), []).append([attribute, value])
        constexprs = {place(name): value for name, value in given.constants.items()}
        return ASTSource(function, dict(given.signature), constexprs=constexprs, attrs=attrs)
    from triton.backends.compiler import AttrsDescriptor

    if taken := next((name for name, kind in given.signature.items() if isinstance(kind, tuple)), None):
        raise CompileError(f"argument {taken!r} is a tuple, which Triton {version()} does not take: 3.3 does")
    known = {"tt.divisibility": tuple(names.index(name) for name in given.divisible)}
    declared = {param.name for param in function.params if param.is_constexpr}
    ones = [name for name, value in given.constants.items() if value == 1 and name not in declared]
    known["tt.equal_to"] = tuple(names.index(name) for name in ones)
    attrs_descriptor = AttrsDescriptor.from_dict({"arg_properties": known, "cls": "AttrsDescriptor"})
    signature = {
        n: "i32" if n in ones else kind for n, kind in given.signature.items() if n in ones or kind != "constexpr"
    }
    return ASTSource(function, signature, constants=dict(given.constants), attrs=attrs_descriptor)


def _backend(target: Target) -> Any:
    from triton.compiler.compiler import make_backend

    return make_backend(target.gpu)


def without_tuner(kernel: Any) -> Any:
    """The kernel with its heuristics, within Triton's tuner, which would choose for itself."""
    while hasattr(kernel, "prune_configs"):
        kernel = kernel.fn
    return kernel


def hashed(target: Target | None = None) -> None:
    """Have the hash of Triton's files, made once a process, the modules that it compiles by, and the target's tools':
    copies of this process need not. A thread may have it ahead, for which who needs it and who forks wait."""
    from triton.compiler import code_generator, compiler  # noqa: F401
    from triton.runtime import cache

    with forking:
        (getattr(cache, "triton_key", None) or compiler.triton_key)()
    with suppress(Exception):  # of tools that are missing, which each compilation says
        target and _backend(target).hash()


def grid_of(grid: Any, known: Mapping[str, Any]) -> tuple[int, int, int]:
    """The launch grid as three numbers; given as for Triton, a tuple or a function of arguments and configuration. Of
    more than three Triton takes the first: the others may be 1."""
    if grid is None:
        raise ConfigError("a Triton kernel needs a grid: a tuple, or a function of the configuration")
    sizes = called("the grid", grid, dict(known)) if callable(grid) else grid
    sizes = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    if all(isinstance(n, int) and n == 1 for n in sizes[3:]):
        sizes = sizes[:3]
    if not 1 <= len(sizes) <= 3:
        raise ConfigError(f"a grid is one to three whole numbers, got {shown(sizes)}")
    x, y, z = (*(whole("each number of a grid", n, ConfigError, 0, 2**31 - 1) for n in sizes), 1, 1)[:3]
    if math.prod((x, y, z)) == 0:
        raise ConfigError(f"the grid {sizes!r} has no program")
    return x, y, z
