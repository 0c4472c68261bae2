"""Short ways: methods of rankings, hints, explanations, reports and templates that are functions of higher layers.

A ranking is data and knows nothing of plots, exporters or devices. `ranking.plot()` is `carver.view.plots.plot_terms`;
this module, above all layers, makes it a method. Each class lists what it is given here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .arch.descriptor import Arch
from .base.errors import ProblemError
from .ops.template import Template
from .ranking.explain import Explanation
from .ranking.hint import Hint
from .ranking.ranking import Ranking

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, Group

    from .ranking.learn import Times
    from .run.report import Report
    from .tune import AutotuneResult
    from .view.plots import Over

Function = TypeVar("Function", bound=Callable[..., Any])


def method(owner: type, name: str = "") -> Callable[[Function], Function]:
    """Make the function a method of `owner`, under its own name unless another is given."""

    def add(function: Function) -> Function:
        setattr(owner, name or function.__name__, function)
        return function

    return add


@method(Hint, "explain")
def explain_hint(hint: Hint, arch: Arch | None = None) -> Explanation:
    """Why it is predicted to take this time; with `arch`, what it would take on that device."""
    from .ops.elsewise import explained

    return explained(hint, arch)


@method(Hint, "_repr_html_")
def _hint_html(hint: Hint) -> str:
    from .view.table import hint_html

    return hint_html(hint)


@method(Ranking)
def explain(ranking: Ranking, i: int = 0) -> Explanation:
    """Why `ranking[i]` is predicted to take the time it takes, and what its nearest changes would do."""
    from .ops.elsewise import explained

    return explained(ranking[i])


@method(Ranking)
def learn(ranking: Ranking, times: Times) -> Ranking:
    """The same candidates, ranked by what measurements of them taught: `carver.ranking.learn.learn`.

    `times`: milliseconds by place in the ranking, or by hint; None for what did not run.
    """
    from .ranking.learn import learn

    return learn(ranking, times)


@method(Ranking)
def benchmark(ranking: Ranking, device: str = "auto", **settings: Any) -> Report:
    """Compile, check and time these hints on a device of this machine; `settings` as in `carver.run.bench`."""
    from .run.bench import benchmark

    return benchmark(list(ranking), device, **settings)


@method(Ranking)
def plot(ranking: Ranking, ax: Axes | None = None) -> Axes:
    """The predicted times as bars of their terms; this and the other plots need matplotlib."""
    from .view.plots import plot_terms

    return plot_terms(ranking, ax)


@method(Ranking)
def plot_roofline(ranking: Ranking, ax: Axes | None = None) -> Axes:
    """The hints under the device's roofs."""
    from .view.plots import plot_roofline

    return plot_roofline(ranking, ax)


@method(Ranking)
def plot_heatmap(ranking: Ranking, x: str, y: str, over: Over = "best", ax: Axes | None = None) -> Axes:
    """Predicted time of all priced candidates over two tunables; `over`: "best", "median" or "fixed"."""
    from .view.plots import plot_heatmap

    return plot_heatmap(ranking, x, y, over, ax)


@method(Ranking)
def to_frame(ranking: Ranking) -> pd.DataFrame:
    """One row a hint, as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError:
        raise ProblemError("to_frame needs pandas; install it, or use [hint.to_dict() for hint in ranking]") from None
    rows = [
        {"rank": h.rank, "index": h.index, "kernel": h.kernel, **h.config, "predicted_ms": h.predicted_ms,
         "bound": h.bound, **{f"{name}_ms": t for name, t in h.terms_ms.items()}, **h.details}
        for h in ranking
    ]  # fmt: skip
    return pd.DataFrame(rows)


@method(Ranking)
def to_triton(ranking: Ranking, names: Mapping[str, str] | None = None, only: Sequence[str] | None = None) -> list[Any]:
    """`triton.Config` of each hint for `triton.autotune`; see `carver.export.triton.configs`."""
    from .export.triton import configs

    return configs(ranking, names, only)


@method(Ranking)
def to_tilelang(ranking: Ranking, names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Dicts for `tilelang.autotune`; see `carver.export.tilelang.configs`."""
    from .export.tilelang import configs

    return configs(ranking, names)


@method(Ranking)
def to_kernel_tuner(
    ranking: Ranking,
    tune_params: Mapping[str, Sequence[Any]] | None = None,
    then: str | None = "genetic_algorithm",
    **how: Any,
) -> dict[str, Any]:
    """`tune_params` and `strategy` for `tune_kernel`: the hints in rank order, then another strategy."""
    from .export import kernel_tuner as to

    space = tune_params or to.tune_params(ranking, **how)
    return {"tune_params": dict(space), "strategy": to.strategy(ranking, space, then, **how)}


@method(Ranking)
def to_helion(ranking: Ranking, tiles: str = "mnk") -> list[Any]:
    """`helion.Config` of each hint; see `carver.export.helion.seed_configs`."""
    from .export.helion import seed_configs

    return seed_configs(ranking, tiles)


@method(Ranking)
def to_optuna(ranking: Ranking, study: Any, names: Mapping[str, str] | None = None) -> int:
    """Queue every hint in an Optuna study; how many."""
    from .export.optuna import enqueue

    return enqueue(study, ranking, names)


@method(Ranking)
def to_cutlass(ranking: Ranking) -> list[dict[str, Any]]:
    """Tile, cluster, stages and schedules of each hint; see `carver.export.cutlass`."""
    from .export.cutlass import configs

    return configs(ranking)


@method(Ranking)
def to_json(ranking: Ranking, names: Mapping[str, str] | None = None) -> str:
    """Configurations and predicted times as JSON."""
    from .export.plain import to_json

    return to_json(ranking, names)


@method(Ranking)
def to_csv(ranking: Ranking, names: Mapping[str, str] | None = None) -> str:
    """The same as CSV."""
    from .export.plain import to_csv

    return to_csv(ranking, names)


@method(Ranking, "__repr__")
def _ranking_text(ranking: Ranking) -> str:
    from .view.table import ranking_text

    return ranking_text(ranking)


@method(Ranking, "__rich_console__")
def _ranking_console(ranking: Ranking, _: Console, options: ConsoleOptions) -> Iterator[Group]:
    from .view.table import ranking_table

    yield ranking_table(ranking, width=options.max_width)


@method(Ranking, "_repr_html_")
def _ranking_html(ranking: Ranking) -> str:
    from .view.table import ranking_html

    return ranking_html(ranking)


@method(Explanation, "plot")
def _plot_explanation(explanation: Explanation) -> Figure:
    """Where the time goes, and what the nearest changes would do. Needs matplotlib."""
    from .view.plots import plot_explanation

    return plot_explanation(explanation)


@method(Template)
def tune(template: Template, topk: int = 10, backend: str | None = None, **settings: Any) -> AutotuneResult:
    """The fastest of the first `topk` hints, measured on the device here; `settings` as in `AutoTuner.run`."""
    from .tune import AutoTuner

    return AutoTuner.from_template(template, topk, backend).run(**settings)


@method(Template)
def equivalent_function(template: Template) -> Callable[..., Any]:
    """What the operator computes, as a function of NumPy arrays; for sums of products over plain axes."""
    from .export.tilelang import equivalent_function

    return equivalent_function(template.problem)
