"""Compile by a caller of Triton's compiler that gives it options of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import CompileError
from .triton import Absent, Compiled, Target, out_of, refusal


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
