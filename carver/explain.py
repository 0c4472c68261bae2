"""Why a hint takes the time it is predicted to take."""

from __future__ import annotations

from .descriptor import Arch
from .hint import Hint


def explain(hint: Hint, arch: Arch) -> str:
    """The predicted time split into its terms."""
    lines = [f"{name:12s} {ms:9.4f} ms" for name, ms in hint.terms_ms.items() if ms]
    return "\n".join([f"{hint.problem} on {arch.title}: {hint.predicted_ms:.4f} ms, bound by {hint.bound}", *lines])
