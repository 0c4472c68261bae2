"""Dataclasses that are soon made do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass as library
from dataclasses import field
from typing import Any

import pytest

from carver.base.types import dataclass

Decorator = Callable[..., Any]


def made(kind: Decorator, **options: Any) -> Any:
    @kind(frozen=True, **options)
    class Point:
        """A class with every kind of field."""

        x: int
        y: list[int] = field(default_factory=list, compare=False)
        name: str = "p"
        hidden: int = field(default=3, repr=False)
        length: int = field(default=0, init=False)
        late: int = field(default=5, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", self.x + self.late)

    return Point


@dataclass(frozen=True, slots=True)
class Held:
    a: int
    b: tuple[int, ...] = ()


@dataclass(frozen=True)
class Base:
    a: int
    b: int = 2


@dataclass(frozen=True, repr=False)
class Derived(Base):
    b: int = 4
    c: int = 3

    def __hash__(self) -> int:
        return 7


@pytest.mark.parametrize("options", [{}, {"slots": True}, {"eq": False}, {"repr": False}])
def test_instances_are_those_of_the_library(options: dict[str, Any]) -> None:
    ours, theirs = made(dataclass, **options), made(library, **options)
    for given, named in (((1,), {}), ((1, [2], "q", 4), {"late": 6})):
        one, other = ours(*given, **named), theirs(*given, **named)
        assert dataclasses.asdict(one) == dataclasses.asdict(other)
        assert (one == ours(*given, **named)) is (other == theirs(*given, **named))
        assert (one != ours(9)) is (other != theirs(9)) is True
        assert one != other and isinstance(hash(one), int)
        if options.get("repr", True):
            assert repr(one) == repr(other)
        assert dataclasses.replace(one, x=8).length == dataclasses.replace(other, x=8).length
        for kind in (one, other):
            with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
                kind.x = 2
            with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
                del kind.x
    for wrong in ((), (1, [], "q", 4, 5)):
        with pytest.raises(TypeError) as said:
            ours(*wrong)
        with pytest.raises(TypeError) as says:
            theirs(*wrong)
        assert str(said.value) == str(says.value)


def test_copies_inherited_fields_and_methods_of_ones_own() -> None:
    held = Held(1, (2,))
    assert pickle.loads(pickle.dumps(held)) == copy.deepcopy(held) == held and hash(held) == hash(Held(1, (2,)))
    derived = Derived(1)
    assert (derived.a, derived.b, derived.c, hash(derived)) == (1, 4, 3, 7)
    assert "Derived" in repr(derived) and Base(1, 4) != derived
