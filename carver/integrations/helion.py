"""Helion: its whole space searched by predicted times, and its own searches run at prices. Tried with Helion 1.5.1.

Each configuration of Helion is a Triton kernel of its own. It is generated in this process, compiled in a copy of it
(`compiled.worker`), and evaluated like any other; replies are in the store by their code. `search` is of a bound
kernel, and `absent` lets one be bound where there is no GPU. `helion_tuner` is what stands in Helion's own places.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import CarverError, CompileError, ConfigError
from ..base.given import takes
from ..compiled.facts import Facts
from ..compiled.inspect import Candidate, candidate, facts_of
from ..compiled.pool import SECONDS
from ..compiled.triton import Target
from ..export import imported
from ..ops.attention import FlashAttentionTemplate
from ..ops.matmul import MatmulTemplate
from ..ops.operator import Template
from ..ranking.kernel import described, price_of
from ..ranking.ranking import Ranking, Search
from ..ranking.search import BESIDE, DRAWN, MOST, MOVED, PATIENCE, Config, searched
from . import capability, compiling

PACKAGES = "helion==1.5.1 packaging"
BUDGET_S, HINTS = 60.0, 6
"""By default, seconds of a search, and hints of a known operator to begin with."""
MOST_A_THREAD, LEAST_A_THREAD = 256, 2
"""Elements of the largest tile for each thread. A thread has 255 registers: more are spilled, and compilers take
minutes for them; with fewer, threads repeat each other's work."""
SLOWER = 1.2
"""A configuration is not compiled where its bytes of L2 alone, or its launch on the host, take so many times as long as
the best so far."""
HOST_S, DESCRIPTOR_S, SCRATCH_S = 37e-6, 10e-6, 12e-6
"""What Helion's launcher keeps the host busy for; beside it each tensor descriptor that the host makes, or the memory
for those that the kernel makes. Launches that follow each other cannot be closer. Source: one product of 512 x 2048 x
8192 on the host of an H200; `tests/data/h200/host_launch.jsonl` has Triton's own launches."""
_OWN = ("_", "launch_cooperative_grid", "ptx_options")
"""Beginnings of what the launcher takes that is none of Triton's options."""


@contextmanager
def absent(arch: Arch | str) -> Iterator[Callable[..., Any]]:
    """Within it PyTorch and Helion see a GPU that is not there: kernels can be bound and searched, and none runs.

    Gives a function that makes a tensor of that GPU, which has a shape and a type and no contents:

        with absent("h100") as tensor:
            args = tensor(4096, 4096, dtype=torch.float16), tensor(4096, 4096, dtype=torch.float16)
            ranking = search(matmul.bind(args), args, arch="h100")

    For a process that runs nothing on a GPU: what PyTorch says of it is replaced for all threads.
    """
    import torch
    from torch._dynamo import device_interface
    from torch._subclasses import fake_tensor
    from triton.runtime import driver

    device, target = load(arch), Target.of(load(arch))
    major, minor = capability(device, "Helion's kernels")
    said = SimpleNamespace(
        name=device.title, major=major, minor=minor, multi_processor_count=device.sm_count, warp_size=device.warp_size,
        gcnArchName="", regs_per_multiprocessor=device.regs_per_sm, total_memory=80 << 30,
        shared_memory_per_block_optin=device.smem_per_block_bytes, L2_cache_size=device.l2_bytes,
        shared_memory_per_multiprocessor=device.smem_per_sm_bytes,
        max_threads_per_multi_processor=device.max_threads_per_sm,
    )  # fmt: skip
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_properties": said,
        "get_device_name": said.name, "get_device_capability": (major, minor),
    }  # fmt: skip
    gone = SimpleNamespace(
        get_current_target=lambda: target.gpu, get_current_device=lambda: 0,
        get_current_stream=lambda device=None: 0,
    )  # fmt: skip
    before = driver.__dict__.get("_active")

    from torch.overrides import TorchFunctionMode

    class Tensor(torch.Tensor):  # type: ignore[misc, unused-ignore]
        device = property(lambda self: torch.device("cuda:0"))

    class Indexed(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.Tensor.__getitem__ and args[0].device.type == "cuda":
                return _viewed(args[0], args[1] if isinstance(args[1], tuple) else (args[1],))
            return function(*args, **(kwargs or {}))

    def tensor(*shape: int, dtype: Any) -> Any:
        return torch.empty(shape, dtype=dtype).as_subclass(Tensor)

    patches: list[Any] = [
        *(mock.patch.object(torch.cuda, name, lambda *_, _said=value: _said) for name, value in answers.items()),
        mock.patch.object(device_interface.CudaInterface, "get_device_properties", staticmethod(lambda *_: said)),
        mock.patch.object(torch.version, "cuda", torch.version.cuda or "13.0"),
        mock.patch.object(fake_tensor, "init_gpu_context", lambda device: None),  # which PyTorch for CUDA would start
    ]
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        stack.callback(setattr, driver, "_active", before)
        driver.set_active(gone)
        stack.enter_context(Indexed())
        yield tensor


def _viewed(x: Any, places: tuple[Any, ...]) -> Any:
    """`x[places]` by PyTorch's views, which do not ask for the device as indexing in Python does."""
    import torch

    if any(isinstance(place, torch.Tensor | list) for place in places):
        return x.__getitem__(places)
    whole = [place for place in places if place is not None and place is not ...]
    at = places.index(...) if ... in places else len(places)
    filled = (*places[:at], *[slice(None)] * (x.dim() - len(whole)), *places[at + 1 :])
    axis = 0
    for place in filled:
        if place is None:
            x = x.unsqueeze(axis)
        elif isinstance(place, slice):
            if place != slice(None):
                x = torch.ops.aten.slice(x, axis, place.start, place.stop, place.step or 1)
        else:
            x = x.select(axis, place)
            continue
        axis += 1
    return x


@takes(ConfigError, besides="^(bound|args|told)$")
def search(
    bound: Any, args: Sequence[Any], *, arch: Arch | str = "auto", budget_s: float | None = BUDGET_S,
    most: int = MOST, patience: int = PATIENCE, seed: int = 0, processes: int | None = None, seconds: float = SECONDS,
    told: Callable[[Search], None] = lambda search: None, launch: bool = True,
) -> Ranking:  # fmt: skip
    """Search the space of a kernel that was bound, `kernel.bind(args)`, with its arguments. The rest is as
    `carver.search` takes it.

    `launch`: False for a kernel within a CUDA graph, where it costs nothing what the host does for tensor descriptors.
    Launched by itself, a short kernel waits for it.

    It begins with Helion's default, with what its compiler proposes, and with carver's hints where the kernel's
    products are a matmul or an attention. `config_of(hint.config)` is the `helion.Config` of a hint.
    """
    device = load(arch)
    space = HelionSpace(bound, device, launch)
    return searched(
        HelionKernels(bound, args, device, processes), space, device, seeds=space.seeds(), most=most,
        patience=patience, seed=seed, budget_s=math.inf if budget_s is None else budget_s, seconds=seconds, told=told,
    )  # fmt: skip


def config_of(config: Mapping[str, Any]) -> Any:
    """The `helion.Config` of a configuration of a search, whose lists have an entry for each place."""
    helion, found = imported("helion", "Helion", PACKAGES), dict[str, Any]()
    for name, value in config.items():
        key, _, place = name.partition(".")
        if place:
            found.setdefault(key, []).append(value)
        else:
            found[key] = list(value) if isinstance(value, tuple) else value
    return helion.Config(**found)


def flat(config: Any) -> Config:
    """A `helion.Config` with an entry for each place of its lists."""
    out: Config = {}
    for name, value in sorted(config.config.items()):
        if isinstance(value, list):
            out |= {f"{name}.{i}": each for i, each in enumerate(value)}
        else:
            out[name] = value
    return out


class HelionSpace:
    """What Helion's autotuner may choose from for a bound kernel, without what cannot be fast.

    Before anything is generated, a configuration is left out whose largest tile has too many or too few elements for
    each thread, whose products alone take longer than the best so far to read their operands through L2, or whose
    `launch` does on the host.
    """

    def __init__(self, bound: Any, arch: Arch, launch: bool = True) -> None:
        self._spec, self._arch, self._launch = bound.config_spec, arch, launch
        settings = bound.settings
        self._made = self._spec.create_config_generation(
            overrides=settings.autotune_config_overrides or None,
            advanced_controls_files=settings.autotune_search_acf or None,
            process_group_name=bound.env.process_group_name,
        )
        self._blocks = {block.block_id: i for i, block in enumerate(self._spec.block_sizes)}
        self._grid = [self._blocks[i] for i in self._spec.grid_block_ids if i in self._blocks]
        """Places in `block_sizes` of the axes that programs divide among them."""
        self._tiles = [_Tile(each, self._spec.reduction_loops) for each in self._spec.tensor_numel_constraints]
        self.kinds = _Kinds()

    def candidates(self, best: Sequence[Config], best_s: float, rng: random.Random) -> list[Config]:
        from helion.exc import InvalidConfig

        state = random.getstate()  # Helion draws from Python's own generator
        random.seed(rng.getrandbits(64))
        try:
            found = []
            for count, moved in ((DRAWN, False), (BESIDE, True)):
                for _ in range(count if best or not moved else 0):
                    try:
                        config = self._moved(config_of(rng.choice(best))) if moved else self._made.random_config()
                    except InvalidConfig:
                        continue
                    if not self.refused(config, best_s):
                        found.append(flat(config))
            return found
        finally:
            random.setstate(state)

    def _moved(self, config: Any) -> Any:
        """With one to three fields a step away, as Helion's own pattern search steps."""
        values = self._made.flatten(config)
        for i in random.sample(range(len(values)), min(random.randint(1, MOVED), len(values))):
            others = self._made.flat_spec[i].pattern_neighbors(values[i])
            values[i] = random.choice(others) if others else values[i]
        return self._made.unflatten(values)

    def member(self, config: Mapping[str, Any]) -> Config | None:
        """As Helion completes what a user gives it."""
        from helion.exc import InvalidConfig

        try:
            return flat(self._made.unflatten(self._made.flatten(config_of(config))))
        except InvalidConfig:
            return None

    def refused(self, config: Any, best_s: float = math.inf) -> str:
        """Why a configuration is not compiled; empty if nothing speaks against it."""
        threads = config.num_warps * self._arch.warp_size
        elements = max((tile.elements(config) for tile in self._tiles), default=threads * LEAST_A_THREAD)
        if elements > MOST_A_THREAD * threads:
            return f"a tile of {elements:,} elements for {threads} threads"
        if elements < LEAST_A_THREAD * threads:
            return f"{threads} threads for a tile of {elements:,} elements"
        if self.least_s(config) > SLOWER * best_s:
            return "bytes of L2"
        return "what the host does for tensor descriptors" if self.host_s(config) > SLOWER * best_s else ""

    def host_s(self, config: Any) -> float:
        """What a launch with tensor descriptors keeps the host busy for; 0 where there are none. [s]"""
        made = config.indexing if isinstance(config.indexing, list) else [config.indexing]
        count = made.count("tensor_descriptor") if self._launch else 0
        if not count:
            return 0.0
        return HOST_S + (count * DESCRIPTOR_S if config.config.get("host_tensor_descriptors") else SCRATCH_S)

    def least_s(self, config: Any) -> float:
        """That products need to read their operands through L2, once for each tile of the grid along the other. [s]"""
        moved, blocks = 0.0, self._spec.block_sizes
        every = math.prod(blocks[i].size_hint for i in self._grid)
        for fact in self._spec.matmul_facts:
            if None in (fact.static_m, fact.static_n, fact.static_k):
                continue
            elements = fact.static_m * fact.static_n * fact.static_k
            sides = ((fact.m_block_id, fact.rhs_dtype), (fact.n_block_id, fact.lhs_dtype))
            own = {self._blocks[i]: dtype for i, dtype in sides if self._blocks.get(i) in self._grid}
            batch = every / math.prod(blocks[i].size_hint for i in own)
            moved += sum(batch * elements / config.block_sizes[i] * dtype.itemsize for i, dtype in own.items())
        return moved / self._arch.l2_bytes_per_s

    def programs(self, config: Any) -> float:
        """Of the grid of a kernel that is not persistent."""
        sizes = self._spec.block_sizes
        return float(math.prod(-(-sizes[i].size_hint // config.block_sizes[i]) for i in self._grid))

    def seeds(self) -> list[Config]:
        """Hints of the operator that the kernel's products are, then Helion's default and its compiler's proposals."""
        own = [self._spec.default_config(), *self._spec.compiler_seed_configs]
        return [*self._hints(), *map(flat, own)]

    def _hints(self) -> list[Config]:
        """None where the products are neither one matmul nor the two of an attention."""
        facts, blocks = self._spec.matmul_facts, self._spec.block_sizes
        if not facts or None in (facts[0].static_m, facts[0].static_n, facts[0].static_k):
            return []
        first = facts[0]
        letters = {"BLOCK_M": first.m_block_id, "BLOCK_N": first.n_block_id, "BLOCK_K": first.k_block_id}
        places = {letter: self._blocks[i] for letter, i in letters.items() if i in self._blocks}
        columns = places.get("BLOCK_N")
        others = [i for i in self._grid if i not in (places.get("BLOCK_M"), columns)]
        dtype, batch = str(first.lhs_dtype).removeprefix("torch."), math.prod(blocks[i].size_hint for i in others)
        template: Template
        try:
            if len(facts) == 1 and columns in self._grid:
                template = MatmulTemplate(first.static_m, first.static_n, first.static_k, in_dtype=dtype, batch=batch)
            elif len(facts) == 2 and columns not in self._grid:
                template = FlashAttentionTemplate(
                    heads=batch, seq=first.static_m, seq_kv=first.static_n, head_dim=first.static_k, in_dtype=dtype
                )
            else:
                return []
            hints = template.with_arch(self._arch).recommend_hints(HINTS, backend="triton")
        except CarverError:  # a shape or a type that no operator declares: the others are seeds enough
            return []
        return [self._of_hint(places, hint.config) for hint in hints]

    def _of_hint(self, places: Mapping[str, int], config: Mapping[str, Any]) -> Config:
        """A hint's configuration, whose blocks lie at these places."""
        out = flat(self._spec.default_config())
        # what is neither rows nor columns of a product has one entry in a tile, as the hint's kernel has
        out |= {f"block_sizes.{i}": 1 for i in range(len(self._spec.block_sizes)) if i not in places.values()}
        out |= {f"block_sizes.{place}": config[letter] for letter, place in places.items() if letter in config}
        out |= {name: config[name] for name in ("num_warps", "num_stages")}
        return out | ({"l2_groupings.0": config["GROUP_M"]} if "GROUP_M" in config and "l2_groupings.0" in out else {})


class _Tile:
    """Elements of one tensor of a kernel's tile. Helion keeps them for Triton's largest tensor: "128*u0*u3 <= ..."."""

    def __init__(self, constraint: Any, loops: Any) -> None:
        from sympy import lambdify, sympify

        text = constraint.expr_str.partition("<")[0]
        names = sorted(set(re.findall(r"\bu\d+\b", text)), key=lambda name: int(name[1:]))
        self._of, self._places = lambdify(names, sympify(text), "math"), sorted(constraint.block_indices)
        self._loops = [loop.size_hint for loop in loops]

    def elements(self, config: Any) -> int:
        whole = int(self._of(*(config.block_sizes[i] for i in self._places)))
        for size, loop in zip(self._loops, config.config.get("reduction_loops", ()), strict=False):
            if loop and whole % size == 0:  # a reduction in a loop has so much of its axis at a time
                whole = whole // size * min(loop, size)
        return whole


class _Kinds(dict[str, str]):
    """Kinds of Helion's fields for `surrogate.axes_of`: what is no tile, warps or stages is a number or a word."""

    def get(self, name: str, default: Any = None) -> Any:
        field = name.partition(".")[0]
        known = {"block_sizes": "tile", "num_warps": "warps", "num_stages": "stages", "range_num_stages": "stages"}
        return known.get(field, "count")


class HelionKernels:
    """Facts of configurations of a bound kernel."""

    backend = "helion"

    def __init__(self, bound: Any, args: Sequence[Any], arch: Arch, processes: int | None = None) -> None:
        self._bound, self._args, self._arch = bound, list(args), arch
        self._space, self._processes = HelionSpace(bound, arch), processes
        self.name = bound.kernel.name
        self.source = sha256(bound.kernel.kernel_source().encode()).hexdigest()
        known = {str(i): each for i, each in enumerate(args) if hasattr(each, "shape") or isinstance(each, int | float)}
        self.arguments = described(known, {})

    def programs(self, config: Config) -> float:
        return self._space.programs(config_of(config))

    def facts(self, configs: Sequence[Config], seconds: float) -> list[Facts | CarverError]:
        found: dict[int, Facts | CarverError] = {}
        bound: dict[int, Candidate] = {}
        for place, config in enumerate(configs):
            try:
                bound[place] = self._launch(config)
            except CompileError as refused:
                found[place] = refused
        try:
            told: Sequence[Any] = facts_of(bound, self._arch, processes=self._processes, seconds=seconds)
        except CarverError as lost:  # of all of these, whose programs cannot be followed
            told = [lost] * len(bound)
        found |= dict(zip(bound, told, strict=True))
        return [found[place] for place in range(len(configs))]

    def _launch(self, config: Config) -> Candidate:
        """The kernel that Helion generates, and how its host function launches it. Raises CompileError."""
        launches: list[tuple[Any, Any, Sequence[Any], Mapping[str, Any]]] = []

        def record(kernel: Any, grid: Any, *given: Any, **how: Any) -> None:
            launches.append((kernel, grid, given, how))

        with compiling():
            host = self._bound.compile_config(config_of(config), allow_print=False)
            with _allocated(self._args):
                host(*self._args, _launcher=record)
        if len(launches) != 1:
            raise CompileError(f"it launches {len(launches)} kernels, of which carver prices one")
        [(kernel, grid, given, how)] = launches
        options = {name: value for name, value in how.items() if not name.startswith(_OWN) and value is not None}
        fixed = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
        named = dict(zip(kernel.arg_names, given, strict=True))
        args = {name: value for name, value in named.items() if name not in fixed}
        constants = {name: value for name, value in named.items() if name in fixed}
        return candidate(kernel, options, args, tuple(grid), self._arch, constants)


@contextmanager
def _allocated(args: Sequence[Any]) -> Iterator[None]:
    """Where the arguments are tensors of `absent`, what a host function allocates is one too."""
    import torch
    from torch.overrides import TorchFunctionMode

    kind = next((type(each) for each in args if isinstance(each, torch.Tensor)), torch.Tensor)

    class Allocated(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = dict(kwargs or {})
            if "device" in given:
                given["device"] = "cpu"
            made = function(*args, **given)
            return made.as_subclass(kind) if isinstance(made, torch.Tensor) else made

    if kind is torch.Tensor:
        yield
    else:
        with Allocated():
            yield


def priced(kernels: HelionKernels, configs: Sequence[Config], arch: Arch) -> list[float]:
    """Predicted times of configurations; infinite for those that do not compile or fit. [s]"""
    prices = (price_of(facts, arch).seconds for facts in kernels.facts(configs, SECONDS))
    return [math.inf if seconds is None else seconds for seconds in prices]
