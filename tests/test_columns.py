"""What a cost model reads is declared: unknown columns and constants are refused, missing ones are told at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases import KERNELS, offered
from test_golden import OPERATORS as GOLDEN

import carver
from carver.base.errors import KernelError, NoCandidates
from carver.cost import estimate, model
from carver.cost.model import (
    CONSTANTS,
    MODELS,
    Columns,
    Shown,
    columns_of,
    constants_of,
    model_faults,
    model_named,
    model_of,
    parts_of,
    price,
    read_columns,
    resolve,
)
from carver.kernels.declaration import DeclarationError, Kernel, load
from carver.kernels.enumeration import enumerate_space
from carver.kernels.space import Space

SHIPPED = Path(KERNELS[0].path).parents[1]


def test_every_shipped_declaration_fits_its_model() -> None:
    assert {kernel: model_faults(kernel) for kernel in KERNELS if model_faults(kernel)} == {}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[schedule]\n", "[schedule]\nserialised = '1'\n", "reads no column 'serialised'; did you mean 'serialized'"),
        ("[schedule]\n", "[schedule]\nscatterd_a = '1'\n", "reads no column 'scatterd_a'; did you mean 'scattered_a'"),
        ("[let]\n", "[let]\nhalf = 'BLOCK_M // 2'\n", "'half' is used nowhere"),
        ("[let]\n", "[let]\nBLOCK_M = '1'\n", "'BLOCK_M' is a tunable too"),
        ("[schedule]\n", "padded_loads = '1'\n[schedule]\nsplit = 'padded_loads'\n", "stands under .schedule"),
        ('tile_m = "BLOCK_M"\n', "", "also reads tile_m, which nothing gives"),
        ("[constants]", "[constants]\ndram_eficiency = 1", "unknown constant 'dram_eficiency'; did you mean 'dram_e"),
        ("[constants]", "[constants]\nelement_instr = 1", "does not read the constant 'element_instr'"),
    ],
)
def test_what_a_model_does_not_read_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = (SHIPPED / "matmul" / "tilelang.toml").read_text().replace("block_M", "BLOCK_M")
    assert old in text
    path = tmp_path / "matmul" / "mine.toml"
    path.parent.mkdir()
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(KernelError, match=says):
        priced(load(path))


def priced(kernel: Kernel) -> None:
    price(enumerate_space(carver.MatmulTemplate(512, 512, 512).problem, carver.CUDA("h200"), kernel))


def test_missing_columns_are_told_in_one_sentence(declaration: Callable[..., Kernel]) -> None:
    kernel = declaration(
        'backend = "triton"\nmodel = "attention"\n[tunables]\nBLOCK = [64]\n[schedule]\ntile_m = "BLOCK"\n'
    )
    (fault,) = model_faults(kernel)
    assert fault.says == (
        "model 'attention' also reads tile_k, head, value, warps, warps_m, warps_n, instruction, ahead, smem_bytes, "
        "registers, which nothing gives"
    )


def test_all_faults_are_told_at_once(declaration: Callable[..., Kernel]) -> None:
    with pytest.raises(DeclarationError) as caught:
        declaration('backend = 3\nmodel = "x"\n[tunables]\nB = ["x"]\n[schedule]\nblocks = "B +"\nsteps = "a[0]"\n')
    assert {(fault.table, fault.key) for fault in caught.value.faults} == {
        ("", "backend"), ("tunables", "B"), ("schedule", "blocks"), ("schedule", "steps"),
    }  # fmt: skip


class Noted(dict[str, float]):
    """Constants that remember which of them were asked for."""

    names: set[str]

    def __getitem__(self, name: str) -> float:
        self.names.add(name)
        return super().__getitem__(name)


@cache
def spaces() -> tuple[Space, ...]:
    """Of every kernel, for an operator's problem on a few devices."""
    devices = [carver.load_arch(name) for name in ("h200_sxm", "t4", "mi100", "cpu_avx2")]
    found = []
    for template in GOLDEN.values():
        problem = template.problem
        for kernel in (kernel for kernel in KERNELS if kernel.operator == problem.operator):
            for arch in devices:
                if arch.kind == kernel.device_kind and offered(problem, arch, kernel.backend):
                    with suppress(NoCandidates, KernelError):
                        space = enumerate_space(problem, arch, kernel)
                        some = space.where(np.arange(len(space)) % (1 + len(space) // 500) == 0)
                        found.append(replace(some, columns=dict(some.columns)))  # without those that it was taken from
    return tuple(found)


@pytest.mark.slow
def test_a_model_reads_the_constants_that_it_declares_and_no_others() -> None:
    read: set[str] = set()
    every = map(model_named, MODELS)
    unread = {part: part.constants for model in every for part in (*model.parts, model.optional) if part}
    for space in spaces():
        kernel = space.kernel
        k = Noted(resolve(kernel, space.arch))
        k.names = set()
        estimate.estimate(model_of(kernel).work(space, k), space.arch, k)
        assert k.names <= constants_of(kernel), (kernel, k.names - constants_of(kernel))
        read |= k.names
        for part in parts_of(kernel):
            unread[part] -= k.names
    assert {part: names for part, names in unread.items() if names} == {}
    assert read == set(CONSTANTS)


def test_a_model_reads_the_columns_that_it_declares() -> None:
    """A space without any of them fails, and what a hint is told beside changes no time."""
    for space in spaces():
        kernel = space.kernel
        known = columns_of(kernel)
        kept = {name: c for name, c in space.columns.items() if name in known and name not in hint_only(kernel)}
        bare = Space(space.problem, space.arch, kernel, space.scope, kept, space.index)
        assert np.array_equal(price(bare).seconds, price(space).seconds), kernel


def hint_only(kernel: Kernel) -> set[str]:
    own = {c.name for part in parts_of(kernel) for c in part.described}
    return {c.name for c in Shown.described} - own


def test_columns_come_typed_with_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {
        "toy": {
            "problem": {"m": ["elements", "rows"]},
            "schedule": {"BLOCK_M": ["elements", "of a tile"], "lacking": ["", "", 3], "absent": ["", "", "optional"]},
        },
        "more": {"schedule": {"BLOCK_N": ["elements", "of a tile"], "m": ["elements", "said anew"]}},
    }
    monkeypatch.setattr(model, "shipped", lambda file: tables)

    class Toy(Columns, table="file.toy"):
        pass

    class More(Toy, table="file.more"):
        pass

    assert [(c.name, c.required, c.from_problem) for c in More.described] == [
        ("m", True, False), ("BLOCK_M", True, False), ("lacking", False, False), ("absent", False, False),
        ("BLOCK_N", True, False),
    ]  # fmt: skip
    assert Toy.described[0].from_problem
    arch = carver.CUDA("h200")
    problem = carver.MatmulTemplate(512, 256, 128).problem
    kernel = next(k for k in KERNELS if (k.operator, k.name) == ("matmul", "triton"))
    space = enumerate_space(problem, arch, kernel)
    toy = read_columns(Toy, space)
    assert toy.m == 512.0
    assert toy.m.dtype == toy.BLOCK_M.dtype == np.float64
    assert toy.BLOCK_M.shape == (len(space),)
    assert toy.lacking == 3.0
    assert toy.absent is None
    assert read_columns(Toy, space, whole=True).lacking.shape == (len(space),)
