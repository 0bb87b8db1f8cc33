"""Rankings: models ordered by logit, with intervals, in one or several languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.ranking.entries import Entry, Evidence
    from mirage.ranking.multilingual import MultilingualRanking
    from mirage.ranking.ranking import Ranking

__all__ = ["Entry", "Evidence", "MultilingualRanking", "Ranking"]

_NAMES = {
    "mirage.ranking.entries": ("Entry", "Evidence"),
    "mirage.ranking.multilingual": ("MultilingualRanking",),
    "mirage.ranking.ranking": ("Ranking",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
