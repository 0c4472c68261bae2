"""PyTorch Inductor: a choices handler that replaces the candidate lists of mm, addmm, bmm, baddbmm and flex attention,
and which configuration runs of the kernels that Inductor writes itself.

Inductor gives a point-wise kernel, a reduction or a scan a short list by a hint of its size
(`torch._inductor.runtime.triton_heuristics`). All of it is compiled, and timed at the first launch; in deterministic
mode a reduction has one configuration, by a rule. Here the whole list is compiled as before, read and priced.

Private to PyTorch, read in 2.11 and run with 2.11 and 2.13: `CachingAutotuner.autotune_to_one_config`, `launchers`,
`_interpret_args_grid`, and `TritonKernel.inductor_meta_common`.

The hook is private to PyTorch. Read in 2.10 and 2.11, run with 2.13: `InductorChoices._finalize_template_configs` and
`KernelTemplateChoice` are the same in all of them. Before 2.10 there is none of that name, which is an error here.

    with inductor.tuned("h200"):
        compiled = torch.compile(model, mode="max-autotune")
        compiled(x)                                   # compilation happens in this call, so it belongs inside

What Inductor times of these candidates is learnt: lists made later in the process, those of the next graph that is
compiled say, are ranked by it, and the handler's `profile` keeps it for the next process."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from unittest import mock

from .._version import __version__
from ..arch.descriptor import Arch
from ..arch.devices import CUDA, load, to_toml
from ..base.errors import CompileError, ConfigError, ProblemError, told
from ..base.given import canonical, takes
from ..base.types import Record
from ..compiled.triton import Absent, Compiled, Target, out_of, plain_config, refusal
from ..compiled.worker import Forks
from ..kernels.backends import from_inductor
from ..ops.attention import FlashAttentionTemplate
from ..ops.matmul import MatmulTemplate
from ..ops.operator import Template
from ..problem.problem import Problem, counted
from ..ranking import pins
from ..ranking.hint import Hint
from ..ranking.pins import Pin
from ..ranking.profile import Given, profile_of
from ..ranking.ranking import choose
from ..ranking.recommend import rank
from . import Exported, checked, distinct, first_unsplit, imported, splits

if TYPE_CHECKING:
    from torch._inductor.choices import InductorChoices

log = logging.getLogger("carver.pins")

SETTINGS: Mapping[str, Any] = {
    "deterministic": True, "max_autotune_pointwise": True, "coordinate_descent_tuning": False,
    "autotune_local_cache": False, "autotune_remote_cache": False,
}  # fmt: skip
"""Of Inductor: nothing else is timed, lists are written whole, and no result of earlier timings takes their place."""
REDUCTIONS = ("REDUCTION", "PERSISTENT_REDUCTION")
AFTER = ("_release_static_launchers_except", "_prune_compile_results_to_launcher")
"""What later versions do with the launchers that are not taken."""


class _Taken(BaseException):
    """Ends the caller with what it had made. No Exception, so that none is logged or handled on its way."""

    def __init__(self, built: Any) -> None:
        super().__init__()
        self.built = built


def compile_within(call: Callable[[], Any], target: Target) -> Compiled:
    """What `call` has `triton.compile` make first, with Triton's caches, and without a GPU. For a process that compiles
    and ends, since it replaces Triton's driver and compiler. Raises CompileError."""
    import triton
    from triton.runtime import driver

    compile = triton.compile

    def taken(*args: Any, **options: Any) -> Any:
        raise _Taken(compile(*args, **options))

    driver.set_active(Absent(target))
    triton.compile = taken
    try:
        call()
    except _Taken as made:
        return out_of(made.built, target)
    except Exception as error:
        raise refusal(error) from error
    raise CompileError("nothing was compiled")


@dataclass
class Kernels:
    """What was taken for each kernel, and why the others took Inductor's own."""

    arch: Arch
    margin: float | None = None
    picks: dict[tuple[str, str], Pin] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def hash(self) -> int:
        """Of which configuration each kernel took, below 2^62: equal on ranks that chose alike."""
        return int(pins.picks_hash(self.picks.values()), 16) >> 2

    def take(self, tuner: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """One of the launchers of Inductor's tuner, for these arguments of a launch."""
        listed = [launcher.config for launcher in tuner.launchers]
        try:
            pin = self._pick(tuner, listed, args, named)
        except Exception as error:  # in the middle of somebody's training: what Inductor takes with no timing
            self.refused[tuner.fn.__name__] = why = next(iter(told(error).splitlines()), "")
            log.info("%s takes Inductor's own configuration: %s", tuner.fn.__name__, why)
            default = _default(tuner, listed)
            return next(launcher for launcher in tuner.launchers if launcher.config is default)
        self.picks[pin.place] = pin
        log.info("%s", pin)
        taken = canonical(pin.config)
        return next(launcher for launcher in tuner.launchers if canonical(plain_config(launcher.config)) == taken)

    def _pick(self, tuner: Any, listed: Sequence[Any], args: Sequence[Any], named: Mapping[str, Any]) -> Pin:
        from torch._inductor.runtime import triton_helpers

        helpers: Any = triton_helpers
        if tuner.fn.fn is None:  # it was compiled in another process
            tuner.fn = tuner._reload_kernel().fn
        target, given = Target.of(self.arch), dict(zip(_parameters(tuner), args, strict=False)) | dict(named)
        extra = tuner.inductor_meta.get("extra_launcher_args", ())

        def build(config: Any) -> Compiled:
            helpers.set_driver_to_gpu = lambda: None  # in a copy of this process, which has no GPU
            return compile_within(lambda: tuner._precompile_config(config), target)

        def grid(known: Mapping[str, Any]) -> tuple[int, ...]:
            config = next(c for c in listed if all(known.get(name) == value for name, value in c.kwargs.items()))
            return tuple(tuner._interpret_args_grid(tuple(args), config)[1])

        own = {name: value for name, value in given.items() if name not in extra}
        return pins.pick(
            tuner.fn, listed, args=own, grid=grid, arch=self.arch, default=_default(tuner, listed), margin=self.margin,
            key={**pins.default_key(own), "source": tuner.fn.cache_key[:16]},  # names of kernels are used again
            pool=lambda ordered: Forks(lambda place: build(ordered[place]), self.arch),
        )  # fmt: skip

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Inside, kernels that Inductor writes are chosen here."""
        from torch._inductor import config
        from torch._inductor.codegen import triton
        from torch._inductor.runtime import triton_heuristics

        writer: Any = triton.TritonKernel
        tuners: Any = triton_heuristics.CachingAutotuner
        common: Callable[[], dict[str, Any]] = writer.inductor_meta_common

        def autotune_to_one_config(tuner: Any, *args: Any, **named: Any) -> None:
            launcher = self.take(tuner, args, named)
            for name in AFTER:
                if (after := getattr(tuner, name, None)) is not None:
                    after(launcher)
            tuner.launchers = [launcher]

        def whole_lists() -> dict[str, Any]:
            """What is written beside a kernel: with these two, a reduction's list has one configuration."""
            return {**common(), "deterministic": False, "are_deterministic_algorithms_enabled": False}

        with (
            mock.patch.object(tuners, "autotune_to_one_config", autotune_to_one_config),
            mock.patch.object(writer, "inductor_meta_common", staticmethod(whole_lists)),
            config.patch(dict(SETTINGS)),
        ):
            yield


def _parameters(tuner: Any) -> list[str]:
    """Names of what a launch gives, in order: what the kernel declares to be constant is not among them."""
    constants = {name for name, p in zip(tuner.fn.arg_names, tuner.fn.params, strict=True) if p.is_constexpr}
    names = [name for name in tuner.triton_meta["signature"] if name not in constants]
    return [*names, *tuner.inductor_meta.get("extra_launcher_args", ())]


def _default(tuner: Any, listed: Sequence[Any]) -> Any:
    """What Inductor takes where it times nothing: the rule of its deterministic mode for reductions, else the first."""
    from torch._inductor.runtime import triton_heuristics

    if len(listed) > 1 and tuner.heuristic_type.name in REDUCTIONS and "XBLOCK" in listed[0].kwargs:
        meta = {**tuner.inductor_meta, "deterministic": True}
        [config] = triton_heuristics.filter_reduction_configs_for_determinism(meta, list(listed))
        return config
    return listed[0]


from_config = from_inductor

PACKAGE = ("PyTorch Inductor", "torch>=2.10")
TEMPLATES = ("triton::mm", "triton::bmm")
"""Inductor's templates of a plain Triton matmul. Others (persistent, decomposed) keep the lists they have."""
TRITON = "triton::"
OPERATORS = ("mm", "addmm", "bmm", "baddbmm")
OF = "matmul/triton"
"""What the handler's profile is of."""
FROM_ALL = 20
"""Of Inductor's exhaustive list those that are compiled and timed: as many as its default list has."""
TIES = 10
"""Hints among which a pinned choice is made: more are not tied with the first."""
HINT = "carver"
"""Among a choice's annotations, the hint that it was made from."""
FORWARD, BACKWARD = "flex_attention", "flex_attention_backward"
MASK = {FORWARD: 4, BACKWARD: 9}
"""Where the block mask is among a node's arguments. The sizes of its blocks are the entries before its last."""
TILE = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")


class Replaced(Record):
    """One candidate list that was replaced, or kept and why."""

    operator: str
    problem: str
    before: int
    after: int
    kept: str = ""


@takes(ConfigError)
def choices(
    arch: Arch | str = "auto", topk: int = 2, profile: Given | None = None, pinned: bool = False
) -> InductorChoices:
    """A handler for `torch._inductor.virtualized.V.set_choices_handler`. Its `log` says what it replaced.

    A matmul whose types carver does not know keeps Inductor's list; the log has the reason. While
    `max_autotune_gemm_search_space` is "EXHAUSTIVE", the first FROM_ALL of that list are tried; of flex attention
    the first `topk` of its exhaustive lists, FROM_ALL where `max_autotune_flex_search_space` says so. The handler's
    `measured` is for `torch._inductor.select_algorithm.add_feedback_saver`: with it the handler learns, from `profile`
    on, which is what an earlier one learnt (its `profile`, or a file of it). `pinned`: one candidate for each matmul,
    ties resolved by the stated order, and no list of another Triton template beside it.
    """
    device = CUDA() if arch == "auto" else load(arch)
    counted("topk", topk, 1)
    start = profile_of(profile, OF, device.name).to_dict() if profile is not None else None
    imported("torch._inductor.choices", *PACKAGE)
    from torch._inductor import config
    from torch._inductor.choices import InductorChoices
    from torch._inductor.virtualized import V

    if not hasattr(InductorChoices, "_finalize_template_configs"):
        import torch

        raise ConfigError(f"torch {torch.__version__} has no hook for candidate lists; it came with 2.10")

    class CarverChoices(InductorChoices):  # type: ignore[misc,unused-ignore]
        """Inductor's heuristics with the lists of plain matmuls replaced."""

        def __init__(self) -> None:
            super().__init__()
            self.log: list[Replaced] = []
            self.profile: Mapping[str, Any] | None = start

        def uuid(self) -> str:
            given = sha256(f"{to_toml(device)}{start or ''}".encode()).hexdigest()[:16]
            return f"carver {__version__} {given} {'pinned' if pinned else topk}"

        def measured(self, timings: Mapping[Any, float], *_: object) -> None:
            """Learn from the times, in ms, of those choices that are carver's; inf is one that did not run."""
            own = [(hint, ms) for choice, ms in timings.items() if (hint := choice.annotations.get(HINT))]
            if any(math.isfinite(ms) for _, ms in own):
                ranking = rank(own[0][0].problem, device, [hint for hint, _ in own], "triton", profile=self.profile)
                times = {i: ms if math.isfinite(ms) else None for i, (_, ms) in enumerate(own)}
                self.profile = ranking.learn(times).profile

        def _finalize_template_configs(
            self, template_choices: dict[str, Any], kernel_inputs: Any, templates: list[Any], op_name: str,
            kwarg_overrides: dict[str, dict[str, Any]] | None = None,
        ) -> list[Any]:  # fmt: skip
            lists = {uid: list(found) for uid, found in template_choices.items()}
            if pinned and op_name in OPERATORS and any(lists.get(uid) for uid in TEMPLATES):
                lists = {uid: found for uid, found in lists.items() if uid in TEMPLATES or not uid.startswith(TRITON)}
            for uid, theirs in lists.items():
                if op_name in OPERATORS and uid in TEMPLATES and theirs:
                    lists[uid] = self._own(theirs, kernel_inputs, op_name)
                elif uid.startswith(TRITON) and theirs:
                    why = f"{op_name} by {uid} is another kernel than a plain matmul"
                    self.log.append(Replaced(op_name, "", len(theirs), len(theirs), why))
            same: dict[str, Any] = {uid: iter(found) for uid, found in lists.items()}
            return list(super()._finalize_template_configs(same, kernel_inputs, templates, op_name, kwarg_overrides))

        def get_flex_attention_fwd_configs(self, *given: Any, **named: Any) -> list[Any]:
            return self._flex("fwd", super().get_flex_attention_fwd_configs, *given, **named)

        def get_flex_attention_bwd_configs(self, *given: Any, **named: Any) -> list[Any]:
            return self._flex("bwd", super().get_flex_attention_bwd_configs, *given, **named)

        def _flex(
            self, which: str, inductor: Callable[..., list[Any]], head_dim: int, dtype: Any, device_type: str = "cuda"
        ) -> list[Any]:
            """Of all that Inductor knows the first by price, and what it takes where it times nothing."""
            theirs = inductor(head_dim, dtype, device_type)
            every = getattr(self.get_config_heuristics(device_type), f"exhaustive_flex_attn_{which}_configs", [])
            if len(theirs) == 1 or pinned or not every:
                return theirs
            with config.patch(max_autotune=False):
                default = inductor(head_dim, dtype, device_type)
            most = FROM_ALL if config.max_autotune_flex_search_space == "EXHAUSTIVE" else topk
            operator = f"flex attention {which}"
            try:
                own, problem = _fastest(every, V.graph.current_node, device, most)
            except Exception as error:
                self.log.append(Replaced(operator, "", len(theirs), len(theirs), told(error)))
                return theirs
            own += [each for each in default if each not in own]
            self.log.append(Replaced(operator, str(problem), len(theirs), len(own)))
            return own

        def _own(self, theirs: list[Any], inputs: Any, op_name: str) -> list[Any]:
            try:
                op, depth = _problem(inputs).with_arch(device), inputs.mnk_symbolic()[2]
                if config.max_autotune_gemm_search_space == "EXHAUSTIVE":
                    listed = [from_inductor(each.params.to_kwargs()) for each in theirs]
                    kept = rank(op.problem, device, listed, "triton", profile=self.profile)[: 1 if pinned else FROM_ALL]
                    self.log.append(Replaced(op_name, str(op.problem), len(theirs), len(kept)))
                    for hint in kept:
                        theirs[hint.index].annotations[HINT] = hint
                    return [theirs[hint.index] for hint in kept]
                most = TIES if pinned else topk
                hints = first_unsplit(op.problem, device, most, self.profile)
                if pinned:
                    hints = [choose(hints).hint]
            except Exception as error:  # in the middle of somebody's compilation, by methods that PyTorch may change
                self.log.append(Replaced(op_name, "", len(theirs), len(theirs), told(error)))
                return theirs
            self.log.append(Replaced(op_name, str(op.problem), len(theirs), len(hints)))
            return [_choice(theirs[0], hint, depth) for hint in hints]

    return CarverChoices()


@contextmanager
@takes(ConfigError)
def tuned(arch: Arch | str = "auto", topk: int = 2, profile: Given | None = None) -> Iterator[InductorChoices]:
    """Inside, Inductor tries carver's `topk` Triton candidates for each matmul besides the library's kernel.

    Yields the handler, whose `log` lists what it did and whose `profile` is what it learnt, from the one given on.
    Code compiled outside stays as it was: the handler's `uuid` keeps Inductor's cache of compiled graphs apart.
    """
    handler: Any = choices(arch, topk, profile)
    from torch._inductor.select_algorithm import get_algorithm_selector_cache

    told = get_algorithm_selector_cache().feedback_saver_fns
    told.append(handler.measured)
    try:
        with _asked(handler):
            yield handler
    finally:
        if handler.measured in told:
            told.remove(handler.measured)


@contextmanager
@takes(ConfigError)
def pinned(arch: Arch | str = "auto", margin: float | None = None, library: bool = True) -> Iterator[Kernels]:
    """Inside, Inductor is in deterministic mode, and the kernels that it writes itself are chosen by their machine code
    from whole lists: nothing is timed, and every process chooses the same.

    Matmuls stay with the vendor's library, which Inductor takes in this mode where it has the choice; with
    `library=False` they are Triton's, with carver's configuration. `margin`: what Inductor takes with no timing is left
    only for a predicted gain above it. Yields what was taken: `picks`, their `hash`, and why others were `refused`.
    """
    handler: Any = choices(arch, pinned=True)
    kernels = Kernels(CUDA() if arch == "auto" else load(arch), margin)
    from torch._inductor import config

    own = {} if library else {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
    with _asked(handler), config.patch(own), kernels.chosen():
        yield kernels


@contextmanager
def _asked(handler: Any) -> Iterator[None]:
    """Inside, Inductor asks this handler, for the graph of the gradients too.

    Handler and settings are a thread's own, and autograd's threads compile a graph of gradients when it is first run:
    so it is compiled with the other. The class is part of the key of compiled graphs, the instance is what is asked; in
    this order, so that what was there before is put back.
    """
    from torch._functorch import config as functorch
    from torch._inductor import config
    from torch._inductor.virtualized import V

    with (
        V.set_choices_handler(handler), config.patch(inductor_choices_class=lambda: handler),
        functorch.patch(force_non_lazy_backward_lowering=True),
    ):  # fmt: skip
        yield


@takes(ConfigError)
def configs(hints: Iterable[Hint]) -> Exported[Any]:
    """`GemmConfig` of each hint without split-K, for a template heuristic's `mm_configs`."""
    make = imported("torch._inductor.template_heuristics.triton", *PACKAGE).GemmConfig

    def entry(hint: Hint) -> Any:
        c = hint.config
        return make(c["BLOCK_M"], c["BLOCK_N"], c["BLOCK_K"], c["num_stages"], c["num_warps"], group_m=c["GROUP_M"])

    return distinct(hints, "PyTorch Inductor", ("triton",), entry, "matmul", splits("Inductor's template"))


@takes(ConfigError)
def lookup_table(hints: Iterable[Hint]) -> dict[str, list[dict[str, Any]]]:
    """Hints as `torch._inductor.config.lookup_table.table`, for the class of choices that reads it
    (`torch._inductor.lookup_table.choices.LookupTableChoices`): one choice a matmul, nothing is timed.

    Keys are the inputs' types, shapes and strides and the operation, of any device; each entry has the hash of
    Inductor's template, which a changed template refuses, and the mask of depths that are no whole tiles: the key of a
    dynamic matmul has the sizes of its first call. Of several hints for one problem the fastest by prediction is
    taken, ties by the stated order. Hints with split-K are left out.
    """
    imported("torch._inductor.lookup_table.choices", *PACKAGE)
    import torch
    from torch._inductor.kernel.bmm import bmm_template
    from torch._inductor.kernel.mm import mm_template

    found: dict[str, list[Hint]] = {}
    for hint in checked(hints, "PyTorch Inductor", ("triton",), "matmul"):
        if hint.config["SPLIT_K"] == 1:
            found.setdefault(_lookup_key(hint.problem, torch), []).append(hint)
    table = {}
    for key, listed in found.items():
        hint = choose(listed).hint
        template = mm_template if key.endswith("+mm") else bmm_template
        table[key] = [{"template_id": template.uid, "template_hash": template.src_hash, "EVEN_K": False, **_tile(hint)}]
    return table


def _lookup_key(problem: Problem, torch: Any) -> str:
    """Types, shapes and strides of dense inputs, and the operation, as Inductor writes them. Raises ConfigError for a
    type that PyTorch has none of, and for a bias, an activation or an output of another type, which Inductor has in
    another operation."""
    dense = replace(problem, align_bytes={})
    if padded := [name for name in "AB" if problem.align_bytes[name] != dense.align_bytes[name]]:
        raise ConfigError(f"{problem}: Inductor's lookup table has an entry for each stride, and the problem has only "
                          f"the alignment of the rows of {' and '.join(padded)}: leave lda and ldb out, for dense rows")
    if problem.options.get("bias") or problem.options.get("activation"):
        raise ConfigError(f"{problem}: Inductor's lookup table has an entry for the plain product; leave the rest out")
    given = {problem.dtypes[name].replace("tf32", "float32") for name in "AC"}
    if len(given) > 1:
        raise ConfigError(f"{problem}: Inductor's lookup table has entries for products of their inputs' type")
    m, n, k, batch = (problem.sizes[axis] for axis in "mnkb")
    nodes = []
    for name, rows, cols in (("A", m, k), ("B", k, n)):
        dtype = getattr(torch, problem.dtypes[name].replace("tf32", "float32"), None)
        if dtype is None:
            raise ConfigError(f"PyTorch has no type {problem.dtypes[name]}")
        strides = [1, rows] if problem.options.get(f"trans_{name.lower()}") else [cols, 1]
        nodes.append((dtype, [rows, cols], strides) if batch == 1 else
                     (dtype, [batch, rows, cols], [rows * cols, *strides]))  # fmt: skip
    return f"{tuple(nodes)}+{'mm' if batch == 1 else 'bmm'}"


def _problem(inputs: Any) -> Template:
    """The matmul that Inductor asks about, transposed views and padded rows included."""
    (mat1, mat2), (dtype1, dtype2) = inputs.strides_hinted()[-2:], inputs.dtypes()[-2:]
    m, n, k = inputs.mnk_hinted()
    shape = inputs.shapes_hinted()[-2]
    trans = mat1[-1] != 1, mat2[-1] != 1
    rows = [max(int(s[-1] if t else s[-2]), 1) for s, t in zip((mat1, mat2), trans, strict=True)]
    import torch

    names = [str(d).removeprefix("torch.") for d in (dtype1, dtype2)]
    if names[0] == "float32" and torch.backends.cuda.matmul.fp32_precision == "tf32":
        names = ["tf32", "tf32"]
    out = str(inputs.out_dtype()).removeprefix("torch.")
    batch = int(shape[0]) if len(shape) == 3 else 1
    return MatmulTemplate(m, n, k, batch=batch, trans_A=trans[0], trans_B=trans[1], in_dtype=names[0], out_dtype=out,
                          b_dtype=names[1], lda=rows[0], ldb=rows[1], static_shapes=True)  # fmt: skip


def _tile(hint: Hint) -> dict[str, Any]:
    """What Inductor's template takes of a hint."""
    return {name: hint.config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")}


def _choice(like: Any, hint: Hint, k: Any) -> Any:
    """Inductor's own choice with the hint's tile: same template, layout and inputs. `k`: the depth, where it is dynamic
    an expression: one kernel serves all depths then, and goes without the mask if each of them is whole tiles."""
    tile = _tile(hint) | {"EVEN_K": k % hint.config["BLOCK_K"] == 0}
    params = type(like.params)(like.params.to_kwargs() | tile)
    choice = type(like)(like.template, params, like.extra_kwargs, like.layout, like.inputs)
    choice.annotations[HINT] = hint
    return choice


def _fastest(listed: Sequence[Any], node: Any, arch: Arch, topk: int) -> tuple[list[Any], Problem]:
    """The first `topk` of a list of flex attention's by predicted time, and what they were priced for.

    A mask of flex attention is a function, and how many of its blocks are empty is known when it runs. So attention is
    priced as if it had none, which changes the time of every tile alike. The pass back to the gradients is one kernel:
    some of its programs have a block of keys, the others a block of queries, and a configuration has tiles for both.

    `node` is the call in the graph that is being compiled, `listed` Inductor's `FlexConfig` or `FlexBwDConfig`. Those
    whose tiles do not divide the mask's blocks are left out, as Inductor leaves them out, and forward those of one
    stage, which copy nothing ahead as the declared kernel always does. Of each tile and number of warps one is taken,
    since a few that differ in stages alone are one bet. Raises ProblemError for types and for shared heads that no
    declared kernel has, NoCandidates if the device can run none.
    """
    name = getattr(node.target, "__name__", str(node.target))
    if name not in MASK:
        raise ProblemError(f"{name} is not {FORWARD} or {BACKWARD}, whose arguments are known")
    *_, of_queries, of_keys, _ = node.args[MASK[name]]
    query, key, value = (each.meta["val"] for each in node.args[:3])
    (batch, heads, seq, width), (_, kv_heads, seq_kv, _) = (tuple(map(_hint, x.shape)) for x in (query, key))
    sizes: dict[str, Any] = {
        "batch": batch, "heads": heads, "kv_heads": kv_heads, "seq": seq, "seq_kv": seq_kv, "head_dim": width,
        "value_dim": _hint(value.shape[-1]), "in_dtype": str(query.dtype).removeprefix("torch."),
    }  # fmt: skip
    if name == FORWARD:
        parts: list[tuple[str | None, str, str]] = [(None, "block_m", "block_n")]
    else:
        parts = [("keys", "block_m1", "block_n1"), ("queries", "block_m2", "block_n2")]
    fit = [c for c in listed if (name == BACKWARD or c.num_stages > 1) and all(
        of_queries % getattr(c, m) == 0 and of_keys % getattr(c, n) == 0 for _, m, n in parts
    )]  # fmt: skip
    seconds = [0.0] * len(fit)
    for backward, m, n in parts:
        op = FlashAttentionTemplate(**sizes, backward=backward).with_arch(arch)
        tiles = [(getattr(c, m), getattr(c, n), c.num_warps, c.num_stages) for c in fit]
        every = list(dict.fromkeys(tiles))
        ranking = op.rank([dict(zip(TILE, tile, strict=True)) for tile in every], backend="triton")
        priced = dict(zip((every[i] for i in ranking.indices), ranking.seconds.tolist(), strict=True))
        seconds = [before + priced.get(tile, math.inf) for before, tile in zip(seconds, tiles, strict=True)]
    order = sorted((i for i, s in enumerate(seconds) if math.isfinite(s)), key=seconds.__getitem__)
    first: dict[tuple[int, ...], Any] = {}
    for i in order:
        first.setdefault((*(getattr(fit[i], side) for _, *sides in parts for side in sides), fit[i].num_warps), fit[i])
    return list(first.values())[:topk], op.problem


def _hint(size: Any) -> int:
    """A size, of a dynamic one what it was where the graph was traced."""
    return size if isinstance(size, int) else int(size.node.hint)
