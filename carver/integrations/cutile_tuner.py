"""cuTile's `exhaustive_search`: its list ranked, the first few timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..compiled.arguments import given
from ..compiled.binary import Binary
from . import cutile
from .enable import Chosen, Enabled, replaced
from .kernels import rank_made


def patch(log: Enabled) -> Callable[[], None]:
    """Replace the function where it is found and where it is made."""
    from cuda.tile import kernel as Kernel
    from cuda.tile import tune
    from cuda.tile.tune import _tune

    search = _tune.exhaustive_search

    def exhaustive_search(
        search_space: Any, stream: Any, grid_fn: Any, kernel: Any, args_fn: Any, hints_fn: Any = None, **more: Any
    ) -> Any:
        listed = list(search_space)

        def rank() -> Chosen[Any]:
            # copies of this process cannot make tensors on the GPU
            args = [tuple(map(given, args_fn(config))) for config in listed]
            every = [config if isinstance(config, Mapping) else {"config": config} for config in listed]
            ranking = rank_made(name, log.device(), every, make(args), backend="cutile")
            return Chosen([listed[place] for place in ranking.indices[: log.topk]], dict(ranking[0].config))

        def make(args: list[tuple[Any, ...]]) -> Callable[[int], Binary]:
            def one(place: int) -> Binary:
                config = listed[place]
                own = kernel if isinstance(kernel, Kernel) else kernel(config)
                hints = {} if hints_fn is None else hints_fn(config)
                return cutile.binary(own, hints, args=args[place], grid=grid_fn(config), block=None, arch=log.device())

            return one

        name = kernel._pyfunc.__name__ if isinstance(kernel, Kernel) else getattr(kernel, "__name__", "kernel")
        return search(log.first(name, listed, rank), stream, grid_fn, kernel, args_fn, hints_fn, **more)

    made = replaced(_tune, exhaustive_search=exhaustive_search)
    found = replaced(tune, exhaustive_search=exhaustive_search)

    def restore() -> None:
        found()
        made()

    return restore
