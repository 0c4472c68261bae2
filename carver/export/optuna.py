"""Optuna: hints as the first trials of a study, and known timings as finished ones. Tried with Optuna 5.0.0.

Queued trials run first, in the order they were queued. A value outside the objective's own choices fails that trial
with ValueError, which stops `optimize` unless it is in `catch`: suggest from `choices(hints)` or a superset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..base.errors import ConfigError
from ..base.given import shown, takes
from ..kernels.backends import from_optuna
from ..ranking.hint import Hint
from . import check_one_space, filled, imported, renamed, values_of

if TYPE_CHECKING:
    import optuna

from_config = from_optuna


@takes(ConfigError)
def enqueue(study: optuna.Study, hints: Iterable[Hint], names: Mapping[str, str] | None = None) -> int:
    """Queue every hint in rank order; how many. The predicted time goes along as a user attribute."""
    if not hasattr(study, "enqueue_trial"):
        raise ConfigError(f"study is one of Optuna's, got {shown(study)}")
    found = list(hints)
    rows = [renamed(config, names) for config in filled(found)]
    for params, predicted_ms in zip(rows, (hint.predicted_ms for hint in found), strict=True):
        study.enqueue_trial(params, user_attrs={"carver_predicted_ms": predicted_ms}, skip_if_exists=True)
    return len(rows)


def queued(hints: Iterable[Hint], study: optuna.Study, names: Mapping[str, str] | None = None) -> int:
    """`enqueue` as a method of rankings."""
    return enqueue(study, hints, names)


@takes(ConfigError)
def add_measured(
    study: optuna.Study, measured: Iterable[tuple[Hint | Mapping[str, Any], float]],
    distributions: Mapping[str, optuna.distributions.BaseDistribution] | None = None,
    names: Mapping[str, str] | None = None,
) -> int:
    """Known timings as finished trials, `value` in the study's own unit; how many.

    `distributions` are those of the objective; without them each key is a choice among the values that occur.
    """
    optuna = imported("optuna", "Optuna", "optuna==5.0.0")
    rows = [(renamed(c.config if isinstance(c, Hint) else c, names), float(value)) for c, value in measured]
    if not rows:
        raise ConfigError("no measured configurations to add")
    check_one_space([params for params, _ in rows], "Optuna")
    values = values_of([params for params, _ in rows])
    spaces = dict(distributions or {k: optuna.distributions.CategoricalDistribution(v) for k, v in values.items()})
    for params, value in rows:
        study.add_trial(optuna.trial.create_trial(params=params, distributions=spaces, value=value))
    return len(rows)


@takes(ConfigError)
def choices(hints: Iterable[Hint], names: Mapping[str, str] | None = None) -> dict[str, list[int]]:
    """Values by key, sorted, for `trial.suggest_categorical(key, values)`."""
    rows = [renamed(config, names) for config in filled(hints)]
    check_one_space(rows, "Optuna")
    return values_of(rows) if rows else {}
