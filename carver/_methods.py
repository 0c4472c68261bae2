"""Methods of rankings, hints and templates that are implemented in higher layers.

A ranking is data and knows nothing of plots, exporters or devices. `ranking.plot()` is `carver.view.plots.plot_terms`;
this module, above all layers, attaches it as a method. METHODS lists what each class gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .arch.descriptor import Arch
from .base.errors import ConfigError
from .base.types import Late
from .ops.template import Template
from .ranking.hint import Hint
from .ranking.ranking import Ranking

if TYPE_CHECKING:
    from .tune import AutotuneResult

METHODS: Mapping[type, Mapping[str, str]] = {
    Hint: {"explain": "_methods.explain_hint", "_repr_html_": "view.table.hint_html"},
    Template: {"tune": "_methods.tune", "equivalent_function": "_methods.equivalent_function"},
    Ranking: {
        "explain": "_methods.explain", "learn": "ranking.learn.learn", "benchmark": "run.bench.benchmark",
        "plot": "view.plots.plot_terms", "plot_roofline": "view.plots.plot_roofline",
        "plot_heatmap": "view.plots.plot_heatmap", "to_frame": "view.table.ranking_frame",
        "to_triton": "export.triton.configs", "to_tilelang": "export.tilelang.configs",
        "to_kernel_tuner": "_methods.to_kernel_tuner", "to_helion": "export.helion.seed_configs",
        "to_optuna": "_methods.to_optuna", "to_cutlass": "export.cutlass.configs", "to_json": "export.plain.to_json",
        "to_csv": "export.plain.to_csv", "__repr__": "view.table.ranking_table",
        "_repr_html_": "view.table.ranking_html",
    },
}  # fmt: skip
"""By class: the name of a method, and the function that takes an object of the class first."""


for _class, _named in METHODS.items():
    for _name, _function in _named.items():
        setattr(_class, _name, Late(_function))


def explain(ranking: Ranking, i: int = 0) -> Any:
    """Why `ranking[i]` is predicted to take the time it takes, and what its nearest changes would do: an `Explanation`,
    or text for a compiled kernel or for several operators."""
    return explain_hint(ranking[i])


def explain_hint(hint: Hint, arch: Arch | str | None = None) -> Any:
    """The same of one hint, on its own device, or on another if it is of a declared operator."""
    if hint.layers:
        return "\n\n".join(str(explain_hint(layer, arch)) for layer in hint.layers.values())
    if hint.facts is None:
        from .ops.elsewise import explained

        return explained(hint, arch)
    if arch is not None:
        raise ConfigError("a compiled configuration is explained on the device that it was compiled for")
    from .ranking.kernel import explained as explained_code

    return explained_code(hint, hint.facts)


def to_kernel_tuner(
    ranking: Ranking, tune_params: Mapping[str, Sequence[Any]] | None = None,
    then: str | None = "genetic_algorithm", **how: Any,
) -> dict[str, Any]:  # fmt: skip
    """`tune_params` and `strategy` for `tune_kernel`: the hints in rank order, then another strategy."""
    from .export import kernel_tuner as to

    space = tune_params or to.tune_params(ranking, **how)
    return {"tune_params": dict(space), "strategy": to.strategy(ranking, space, then, **how)}


def to_optuna(ranking: Ranking, study: Any, names: Mapping[str, str] | None = None) -> int:
    """Queue every hint in an Optuna study; how many."""
    from .export.optuna import enqueue

    return enqueue(study, ranking, names)


def tune(template: Template, topk: int = 10, backend: str | None = None, **settings: Any) -> AutotuneResult:
    """The fastest of the first `topk` hints, measured on the device here; `settings` as in `AutoTuner.run`."""
    from .tune import AutoTuner

    return AutoTuner.from_template(template, topk, backend).run(**settings)


def equivalent_function(template: Template) -> Callable[..., Any]:
    """What the operator computes, as a function of NumPy arrays; for sums of products over plain axes."""
    from .export.tilelang import equivalent_function

    return equivalent_function(template.problem)
