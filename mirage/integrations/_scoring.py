"""One response at a time, as other harnesses hand them over, through a feature suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite
from mirage.models import Query, Response, Run

__all__ = ["Scored", "score"]


class Scored(NamedTuple):
    """The features of one response: values of those computed, and why the others were not."""

    values: dict[str, float]
    reasons: dict[str, str]


def score(
    suite: FeatureSuite,
    query: Query,
    text: str | None,
    *,
    error: str | None = None,
    shown: Sequence[str] | None = None,
) -> Scored:
    """Score one response exactly as :meth:`mirage.FeatureSuite.score` does.

    ``text`` is ``None`` where the model failed, and ``error`` then says why. ``shown`` are the
    passage ids in the prompt's order, where that is not the query's.
    """
    response = Response(
        query_id=query.id, text=text, error=error, shown=None if shown is None else tuple(shown)
    )
    run = Run(model="model", language=query.language, responses=(response,))
    dataset = MirageDataset([query], name=f"query {query.id!r}")
    table = suite.score(dataset, run, progress=False)
    reasons = {feature: why for (_, feature), why in table.reasons.items()}
    row = zip(table.features, table.values[0].tolist(), strict=True)
    return Scored({name: value for name, value in row if name not in reasons}, reasons)
