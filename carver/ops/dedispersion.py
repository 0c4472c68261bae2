"""Sums over a radio signal's channels, each delayed by a different time."""

from __future__ import annotations

from dataclasses import replace

from ..base import dtypes
from ..problem.problem import Problem, counted
from .operator import DTYPE, Argument, Operator
from .template import Template


class DedispersionTemplate(Template):
    """Sums over channels for `trials` dispersion measures, each of which delays every channel by a different time.

    A delay grows with the trial and is longest in the lowest channel: `max_delay` samples in the last trial.
    """

    def __init__(self, trials: int, samples: int, channels: int, max_delay: int, dtype: str = "int8") -> None:
        sizes = {"d": trials, "t": samples, "h": channels}
        types = {"O": "float32", "I": dtypes.canonical(dtype), "S": "float32"}
        options = {"max_delay": counted("max_delay", max_delay), "flops_per_element": 1}
        super().__init__(Problem("dedispersion", "O[d,t] += I[h,t+d] * S[h]", sizes, types, "float32", options))


OPERATOR = Operator(
    "dedispersion",
    DedispersionTemplate,
    "Sums of CHANNELS delayed series, SAMPLES long, for each of TRIALS delays of at most MAX_DELAY samples.",
    (*map(Argument, ("trials", "samples", "channels", "max_delay")), replace(DTYPE, parameter="dtype")),
)
