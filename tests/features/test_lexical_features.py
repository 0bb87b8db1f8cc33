"""Support and relevance: worked by hand, as properties, and against real labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.dataset import MirageDataset
from mirage.features import SUPPORTED_AT, NotComputed, answered, feature, sentence_support
from mirage.features.lexical import _run_ends
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response

NILE = Query(
    id="q",
    language="en",
    text="Which river is the longest in Africa?",
    passages=(
        Passage(
            id="1#0", title="Nile", text="The Nile is the longest river in Africa, 6,650 km long."
        ),
        Passage(
            id="2#0", title="Congo", text="The Congo crosses the equator twice on its way west."
        ),
        Passage(id="3#0", title="Oslo", text="Oslo lies at a fjord and has many museums."),
    ),
    relevant=("1#0",),
)


def value(name: str, text: str, query: Query = NILE) -> float:
    computed = feature(name).compute([answered(query, Response(query_id=query.id, text=text))])[0]
    assert isinstance(computed, float)
    return computed


# Support ------------------------------------------------------------------------------------------


def test_support_by_hand() -> None:
    # Folded, the sentence is " ab " and so is the passage: 4 characters of 3 kinds. With one added
    # to each count and to the total, a space has (2 + 1) / 8 and each letter (1 + 1) / 8. All of
    # it is one run.
    bits = 2 * math.log2(8 / 3) + 2 * math.log2(8 / 2)
    assert sentence_support("Ab.", ["ab!"], "en") == pytest.approx(bits / (bits + 50))
    # Half of "abxy" is shared with either of two passages: "ab" and "xy", each with its space.
    # Counts: 4 spaces and one of each letter, in 8 characters of 5 kinds.
    space, letter = math.log2(14 / 5), math.log2(14 / 2)
    run = space + 2 * letter
    half = run * run / (run + 50)
    best = half + space * space / (space + 50)  # one passage has " ab" and, apart from it, " "
    expected = (best + 2 * half) / 2 / (2 * run)
    assert sentence_support("abxy", ["ab", "xy"], "en") == pytest.approx(expected)


def test_a_passage_beside_the_point_costs_no_support() -> None:
    # " ab " stands whole in the first passage, and the second has its spaces alone: what the best
    # passage says is what counts. 4 spaces and one of each letter in 8 characters of 5 kinds.
    bits = 2 * math.log2(14 / 5) + 2 * math.log2(14 / 2)
    for passages in (["ab", "cd"], ["cd", "ab"]):
        assert sentence_support("ab", passages, "en") == pytest.approx(bits / (bits + 50))


def test_an_unknown_number_halves_support(monkeypatch: pytest.MonkeyPatch) -> None:
    passage = ["The tower was opened in the year 1889 and is 330 metres high."]
    known, unknown = (
        sentence_support(f"The tower was opened in the year {year}.", passage, "en")
        for year in (1889, 1898)
    )
    assert known > SUPPORTED_AT > unknown
    monkeypatch.setattr("mirage.features.lexical.UNKNOWN_NUMBER_FACTOR", 1.0)
    as_if_known = sentence_support("The tower was opened in the year 1898.", passage, "en")
    assert unknown == as_if_known / 2
    assert sentence_support("The tower was opened in the year 1889.", passage, "en") == known


@settings(max_examples=100, deadline=None)
@given(st.text("ab ", max_size=20), st.text("abc ", max_size=30))
def test_runs_are_the_longest(text: str, source: str) -> None:
    longest = [
        max(end for end in range(i, len(text) + 1) if end == i or text[i:end] in source)
        for i in range(len(text))
    ]
    assert _run_ends(text, source).tolist() == longest


@settings(max_examples=50, deadline=None)
@given(
    sentence=st.text(max_size=60),
    passages=st.lists(st.text(max_size=80), max_size=4),
    code=st.sampled_from(sorted(LANGUAGES)),
)
def test_support_is_between_0_and_1(sentence: str, passages: list[str], code: str) -> None:
    support = sentence_support(sentence, passages, code)
    assert 0 <= support <= 1
    assert sentence_support(sentence, passages, code) == support
    assert sentence_support(sentence, [], code) == 0


def test_support_counts_cited_passages_only() -> None:
    said = "The Nile is the longest river in Africa"
    right, wrong, none = (value("support_lexical", f"{said}{c}.") for c in (" [1]", " [3]", ""))
    assert right > SUPPORTED_AT > wrong > none == 0
    everything = value("support_lexical_all", f"{said}.")
    assert everything == value("support_lexical_all", f"{said} [3].") > SUPPORTED_AT


def test_support_is_the_mean_over_sentences() -> None:
    first = value("support_lexical", "The Nile is the longest river in Africa [1].")
    both = value("support_lexical", "The Nile is the longest river in Africa [1]. It is blue.")
    assert both == pytest.approx(first / 2)


@pytest.mark.parametrize("name", ["support_lexical", "support_lexical_all", "relevance_lexical"])
def test_empty_answers_and_unknown_passages(name: str) -> None:
    assert value(name, "") == 0
    response = Response(query_id="q", text="It is the Nile [1].")
    bare = NILE.model_copy(update={"passages": (), "id": "bare"})
    unknown = feature(name).compute([answered(Query(**bare.model_dump()), response)])[0]
    assert isinstance(unknown, NotComputed)
    elsewhere = response.model_copy(update={"shown": ("9#9",)})
    missing = feature(name).compute([answered(NILE, elsewhere)])[0]
    assert isinstance(missing, NotComputed)
    assert "'9#9'" in missing.reason


def test_titles_are_read() -> None:
    titled = Passage(id="1#0", title="Kilimanjaro National Park", text="It lies in Tanzania.")
    query = Query(id="t", language="en", text="Where?", passages=(titled,))
    bare = Query(
        id="b",
        language="en",
        text="Where?",
        passages=(titled.model_copy(update={"title": ""}),),
    )
    answer = "Kilimanjaro National Park lies in Tanzania [1]."
    assert value("support_lexical", answer, query) > value("support_lexical", answer, bare)


@pytest.mark.parametrize("code", LANGUAGES)
def test_references_are_supported_by_what_they_cite(code: str) -> None:
    right, wrong = [], []
    for query in MirageDataset.bundled(code):
        for sentence in answered(
            query, Response(query_id="r", text=query.reference)
        ).parsed.sentences:
            others = [
                p for p in query.passages if p.id not in {*sentence.citations, *query.relevant}
            ]
            if not sentence.citations:
                continue
            cited = [query[passage].text for passage in sentence.citations]
            right.append(sentence_support(sentence.text, cited, code))
            wrong.append(max(sentence_support(sentence.text, [p.text], code) for p in others))
    assert len(right) >= 12
    assert np.mean(right) > 1.5 * np.mean(wrong)


# Relevance ----------------------------------------------------------------------------------------


def test_relevance_by_hand() -> None:
    # "xyz" folds to " xyz ". Of its n-grams the first passage (" xy ") holds " x", "xy" and " xy",
    # the second (" z ") holds "z " only; each is held by one of two passages and weighs the same.
    passages = (Passage(id="1#0", text="xy"), Passage(id="2#0", text="z"))
    query = Query(id="q", language="en", text="xyz", passages=passages)
    assert value("relevance_lexical", "So [1].", query) == 1
    assert value("relevance_lexical", "So [2].", query) == pytest.approx(1 / 3)
    assert value("relevance_lexical", "So [1][2].", query) == pytest.approx(2 / 3)
    assert value("relevance_lexical", "So.", query) == 0


def test_relevance_counts_grams_of_two_to_five_characters() -> None:
    # " abc " has 4, 3, 2 and 1 grams of 2, 3, 4 and 5 characters. Of these ten " xabcx " holds
    # "ab", "bc" and "abc", which both passages hold; the other seven one of them holds.
    passages = (Passage(id="1#0", text="abc"), Passage(id="2#0", text="xabcx"))
    query = Query(id="q", language="en", text="abc", passages=passages)
    rare, common = math.log(1 + 1.5 / 1.5), math.log(1 + 0.5 / 2.5)
    expected = 3 * common / (7 * rare + 3 * common)
    assert value("relevance_lexical", "So [2].", query) == pytest.approx(expected)


def test_the_best_shown_passage_has_relevance_one() -> None:
    assert value("relevance_lexical", "The Nile [1].") == 1
    assert value("relevance_lexical", "The Congo [2].") < 1


def test_nothing_in_common_is_zero() -> None:
    assert value("relevance_lexical", "So [1].", NILE.model_copy(update={"text": "何ですか"})) == 0
    assert value("relevance_lexical", "So [1].", NILE.model_copy(update={"text": "?!"})) == 0


@pytest.mark.parametrize("code", LANGUAGES)
def test_relevant_passages_are_nearer(code: str) -> None:
    near: dict[bool, list[float]] = {True: [], False: []}
    for query in MirageDataset.bundled(code):
        if not query.relevant:
            continue
        for passage in query.passages:
            nearness = value("relevance_lexical", f"So [{passage.id}].", query)
            near[passage.id in query.relevant].append(nearness)
    assert np.mean(near[True]) > np.mean(near[False]) + 0.1
    assert max(near[True] + near[False]) == 1
