"""A ranking as text and as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ranking import Ranking


def ranking_text(ranking: Ranking) -> str:
    """One line a hint."""
    return "\n".join(f"{h.rank + 1:3d}  {h.predicted_ms:9.4f} ms  {h.bound:14s} {dict(h.config)}" for h in ranking)


def ranking_html(ranking: Ranking) -> str:
    """The same, for a notebook."""
    return f"<pre>{ranking_text(ranking)}</pre>"
