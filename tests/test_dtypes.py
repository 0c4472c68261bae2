"""Names of element types, as frameworks and compilers write them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from carver.base.dtypes import BYTES, canonical
from carver.base.errors import ProblemError


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("fp16", "float16"), ("torch.float16", "float16"), ("half", "float16"), (np.float16, "float16"),
        ("tl.bfloat16", "bfloat16"), ("jnp.float32", "float32"), ("torch.float8_e4m3fnuz", "float8_e4m3fnuz"),
        ("float8_e4m3fn", "float8_e4m3"), ("float8_e5m2fnuz", "float8_e5m2fnuz"), ("float8e4nv", "float8_e4m3"),
        ("fp8e4b8", "float8_e4m3fnuz"), ("fp8e5b16", "float8_e5m2fnuz"),
        ("f8E4M3FN", "float8_e4m3"), ("e5m2", "float8_e5m2"),
    ],
)  # fmt: skip
def test_names(said: object, name: str) -> None:
    assert canonical(said) == name


def test_every_name_is_its_own_and_has_its_bits() -> None:
    """A name has its bits after its kind; TF32 is stored as float32."""
    for name, stored in BYTES.items():
        bits = 32 if name == "tf32" else int(re.findall(r"[a-z](\d+)", name)[0])
        assert canonical(name) == name and stored * 8 == bits, name


def test_an_unknown_name_has_the_nearest() -> None:
    with pytest.raises(ProblemError, match=r"unknown dtype 'flaot16'; did you mean 'float16'"):
        canonical("flaot16")
