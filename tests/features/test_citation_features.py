"""Citation recall and MAP against ir_measures (pytrec_eval)."""

from __future__ import annotations

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples

from mirage.features import NotComputed, answered, feature
from mirage.models import Passage, Query, Response

IDS = [f"{36897421 + i // 3}#{i % 3}" for i in range(15)]


def value(
    cited: list[str], relevant: list[str], name: str, passage_ids: list[str] = IDS
) -> float | NotComputed:
    query = Query(
        id="q",
        language="en",
        text="Where?",
        passages=tuple(Passage(id=id_, text=id_) for id_ in passage_ids),
        relevant=tuple(relevant),
    )
    text = "##Reason: as said\n##Answer: " + " ".join(f"So it is [{id_}]." for id_ in cited)
    return feature(name).compute([answered(query, Response(query_id="q", text=text))])[0]


@settings(max_examples=examples(120), deadline=None)
@given(
    cited=st.lists(st.sampled_from(IDS), max_size=20),
    relevant=st.lists(
        st.sampled_from([*IDS, "elsewhere#1", "elsewhere#2"]), min_size=1, max_size=8
    ),
    k=st.sampled_from([1, 2, 3, 5, 10]),
)
def test_agrees_with_ir_measures(cited: list[str], relevant: list[str], k: int) -> None:
    ranking = list(dict.fromkeys(cited))
    qrels = [ir_measures.Qrel("q", id_, 1) for id_ in set(relevant)]
    run = [ir_measures.ScoredDoc("q", id_, -rank) for rank, id_ in enumerate(ranking)]
    measures = [ir_measures.R @ k, ir_measures.AP @ k]
    expected = ir_measures.calc_aggregate(measures, qrels, run)
    assert value(cited, relevant, f"citation_recall@{k}") == pytest.approx(expected[measures[0]])
    assert value(cited, relevant, f"citation_map@{k}") == pytest.approx(expected[measures[1]])


def test_recall_and_map_worked_by_hand() -> None:
    # Relevant at ranks 1 and 3, a third one not cited: AP = (1/1 + 2/3) / 3.
    cited, relevant = [IDS[4], IDS[0], IDS[7]], [IDS[4], IDS[7], IDS[9]]
    assert value(cited, relevant, "citation_map@10") == pytest.approx((1 + 2 / 3) / 3)
    assert value(cited, relevant, "citation_recall@10") == pytest.approx(2 / 3)
    assert value(cited, relevant, "citation_recall@2") == pytest.approx(1 / 3)


def test_a_response_without_citations_has_recall_zero() -> None:
    assert value([], [IDS[0]], "citation_recall@10") == 0
    assert value([], [IDS[0]], "citation_map@10") == 0


@pytest.mark.parametrize("name", ["citation_recall@10", "citation_map@10"])
def test_nothing_relevant_or_nothing_shown_is_not_computed(name: str) -> None:
    nothing_relevant = value([IDS[0]], [], name)
    assert isinstance(nothing_relevant, NotComputed)
    assert "no relevant passage" in nothing_relevant.reason
    nothing_shown = value([IDS[0]], [IDS[0]], name, passage_ids=[])
    assert isinstance(nothing_shown, NotComputed)
    assert "shown" in nothing_shown.reason


def test_a_system_that_showed_nothing_cites_nothing() -> None:
    query = Query(id="q", language="en", text="Where?", relevant=("7#1",))
    response = Response(query_id="q", text="There [1].", shown=())
    assert feature("citation_recall@10").compute([answered(query, response)]) == [0.0]


@pytest.mark.parametrize(
    "cites", ["[Nile]", "(Passage 2)", "(2)", "².", "[^1].\n\n[^1]: Passage 2"]
)
def test_citations_in_other_styles_count(cites: str) -> None:
    passages = (
        Passage(id="7#1", text="a", title="Congo"),
        Passage(id="7#2", text="b", title="Nile"),
    )
    query = Query(id="q", language="en", text="Where?", passages=passages, relevant=("7#2",))
    response = Response(query_id="q", text=f"It is long{' ' * (cites[0] in '[(')}{cites}")
    assert feature("citation_map@10").compute([answered(query, response)]) == [1.0]


def test_citation_numbers_follow_the_order_of_the_prompt() -> None:
    passages = (Passage(id="7#1", text="a"), Passage(id="7#2", text="b"))
    query = Query(id="q", language="en", text="Where?", passages=passages, relevant=("7#2",))
    recall = feature("citation_recall@10")
    response = Response(query_id="q", text="There [1].")
    assert recall.compute([answered(query, response)]) == [0.0]
    turned = Response(query_id="q", text="There [1].", shown=("7#2", "7#1"))
    assert recall.compute([answered(query, turned)]) == [1.0]
