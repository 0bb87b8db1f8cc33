"""Context precision and recall: the passages that a response was made from."""

from __future__ import annotations

import pytest

from mirage.features import NotComputed, answered, feature
from mirage.models import Passage, Query, Response

QUERY = Query(
    id="q",
    language="en",
    text="?",
    passages=tuple(Passage(id=id_, text=".") for id_ in "abcd"),
    relevant=("b", "x"),
)


def values(query: Query, passage_ids: tuple[str, ...] | None) -> list[float | NotComputed]:
    item = answered(query, Response(query_id="q", text="It.", shown=passage_ids))
    names = ("context_precision", "context_recall")
    return [feature(name).compute([item])[0] for name in names]


@pytest.mark.parametrize(
    ("passage_ids", "precision", "recall"),
    [(None, 0.25, 0.5), (("a", "b"), 0.5, 0.5), (("x", "b"), 1.0, 1.0), (("a",), 0.0, 0.0)],
)
def test_shares_worked_by_hand(
    passage_ids: tuple[str, ...] | None, precision: float, recall: float
) -> None:
    assert values(QUERY, passage_ids) == [precision, recall]


def test_closed_book_recalls_nothing_and_has_no_precision() -> None:
    precision, recall = values(QUERY, ())
    assert precision == NotComputed("no passage was shown")
    assert recall == 0


def test_unknown_passages_or_relevance_are_not_computed() -> None:
    for update, why in (
        ({"relevant": ()}, "no relevant passage"),
        ({"passages": ()}, "neither the query nor the response"),
    ):
        for value in values(QUERY.model_copy(update=update), None):
            assert isinstance(value, NotComputed)
            assert why in value.reason
