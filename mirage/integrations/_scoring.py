"""One response at a time, as other harnesses hand them over, through a feature suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite
from mirage.models import Query, Response, Run

__all__ = ["Scores", "response_to", "score"]


class Scores(NamedTuple):
    """The features of one response: values of those computed, and why the others were not."""

    values: dict[str, float]
    reasons: dict[str, str]


def response_to(
    query: Query, text: str | None, *, error: str, shown: Sequence[str] | None = None
) -> Response:
    """The response to a query; ``error`` says why there is none, where ``text`` is ``None``.

    ``shown`` are the passage ids in the prompt's order, where that is not the query's.
    """
    return Response(
        query_id=query.id,
        text=text,
        error=error if text is None else None,
        shown=None if shown is None else tuple(shown),
    )


def score(suite: FeatureSuite, query: Query, response: Response) -> Scores:
    """Score one response exactly as :meth:`mirage.FeatureSuite.score` does."""
    run = Run(model="model", language=query.language, responses=(response,))
    dataset = MirageDataset([query], name=f"query {query.id!r}")
    table = suite.score(dataset, run, progress=False)
    reasons = {feature: why for (_, feature), why in table.reasons.items()}
    row = zip(table.features, table.values[0].tolist(), strict=True)
    return Scores({name: value for name, value in row if name not in reasons}, reasons)
