"""Tests of the selection of responses, their order, and their citations."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each_case
from hostile import STRINGS
from hypothesis import given
from hypothesis import strategies as st
from rankings import FEATURES, ranker, ranking

from mirage import FeatureTable
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response, Run
from mirage.report import _responses as responses
from mirage.report._responses import (
    SAMPLINGS,
    Excerpt,
    _scores,
    _Weights,
    plain_response,
    sample,
    whole_query,
)
from mirage.report._segments import Cited, blocks, direction, marked, segments
from mirage.text import parse

SHOWN = ("a#0", "b#1", "c#2")


def test_better_features_come_first() -> None:
    data = ranker("en").data["en"]
    middle = np.nanmean(data.values.reshape(-1, len(FEATURES)), axis=0)
    values = np.array([middle, middle + 1, middle - 1, [np.nan] * 3])
    table = FeatureTable("m", "en", ("q0", "q1", "q2", "q3"), FEATURES, values)
    scores = _scores(table, _Weights.of(data))
    assert scores[1] > scores[0] > scores[2]
    assert scores[0] == pytest.approx(0)
    assert np.isnan(scores[3])


def test_a_missing_feature_does_not_count() -> None:
    data = ranker("en").data["en"]
    above = np.nanmean(data.values.reshape(-1, len(FEATURES)), axis=0) + 0.5
    values = np.array([above, [above[0], np.nan, np.nan]])
    table = FeatureTable("m", "en", ("q0", "q1"), FEATURES, values)
    full, partial = _scores(table, _Weights.of(data))
    assert partial > 0
    assert partial != full


def test_best_worst_and_failed_are_different_responses() -> None:
    kinds = sample({"en": ranking()}).pages["en"]["mine"]
    ids = [row["query"] for rows in kinds.values() for row in rows]
    assert len(ids) == len(set(ids)) == 12
    assert [row["query"] for row in kinds["failed"]] == ["q4", "q9"]
    assert kinds["failed"][0]["error"] == "TimeoutError: Text 4"
    assert len(kinds["best"]) == len(kinds["worst"]) == 5


def test_the_order_is_that_of_the_scores() -> None:
    sample_ranking = ranking()
    assert sample_ranking.evidence is not None
    table = sample_ranking.evidence.tables["mine"]
    scores = dict(
        zip(table.query_ids, _scores(table, _Weights.of(ranker("en").data["en"])), strict=True)
    )
    kinds = sample({"en": sample_ranking}).pages["en"]["mine"]
    best = [scores[row["query"]] for row in kinds["best"]]
    worst = [scores[row["query"]] for row in kinds["worst"]]
    assert best == sorted(best, reverse=True)
    assert worst == sorted(worst)
    assert max(worst) <= min(best)


# Facts that neither the passages of the query nor its question contain.
UNKNOWN = [f"##Answer: It is 6,6{n} km long, I know from a book [2]." for n in range(10, 22)]


def test_responses_that_findings_name_are_shown_with_the_finding() -> None:
    sample_ranking = ranking(models=[*"abcde", "mine"], texts=UNKNOWN)
    selection = sample({"en": sample_ranking})
    rows = [row for rows_of_kind in selection.pages["en"]["mine"].values() for row in rows_of_kind]
    words = "states a number, date or name that no shown passage holds"
    (finding,) = (finding for finding in sample_ranking.findings["mine"] if finding.words == words)
    assert {row["query"] for row in rows if words in row.get("faults", ())} == {*finding.query_ids}
    assert selection.places("en", "mine") == {f"q{n}": n for n in range(12)}
    (block,) = (block for block in rows[0]["blocks"] if block["kind"] == "answer")
    assert block["text"] == [
        "It is ",
        [block["text"][1][0], None, "number"],
        " km long, I know from a book ",
        ["[2]", [1]],
        ".",
    ]


def test_the_first_query_of_each_finding_is_shown_before_second_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses, "SAMPLINGS", (responses.Sampling(0, 3, 2000, 600),))
    sample_ranking = ranking(models=[*"abcde", "mine"], texts=UNKNOWN)
    firsts = list(
        dict.fromkeys(finding.query_ids[0] for finding in sample_ranking.findings["mine"])
    )
    selected_ids = [
        row["query"] for row in sample({"en": sample_ranking}).pages["en"]["mine"]["found"]
    ]
    ids = [id_ for id_ in firsts if id_ not in ("q4", "q9")][:3]  # these failed
    assert len(selected_ids) == 3
    assert set(ids) <= {*selected_ids, "q4", "q9"}


@given(st.lists(st.text("ab[1] ", max_size=8), max_size=6), st.data())
def test_marked_splits_pieces_only_at_the_ends_of_faults(
    texts: list[str], data: st.DataObject
) -> None:
    pieces = [Cited(t, ()) if t.startswith("[") else t for t in texts if t]
    whole = "".join(texts)
    ends = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6, unique=True)))
    faults = [(a, b, "name") for a, b in zip(ends[::2], ends[1::2], strict=False)]
    split_pieces = list(marked(pieces, faults))
    assert "".join(p if isinstance(p, str) else p.text for p, _ in split_pieces) == whole
    at, types = 0, []
    for piece, type_ in split_pieces:
        text = piece if isinstance(piece, str) else piece.text
        inside = [any(a <= i < b for a, b, _ in faults) for i in range(at, at + len(text))]
        assert any(inside) == bool(type_)
        assert isinstance(piece, Cited) or all(inside) == any(inside)
        at += len(text)
        types.append(type_)


NILE, ZAIRE = "The Nile is the longest river of Africa.", "The Congo was once called the Zaire."
JUDGED = Query(
    id="q",
    language="en",
    text="Which is the longest river of Africa?",
    passages=(Passage(id="a#0", text=NILE), Passage(id="b#0", text=ZAIRE)),
    relevant=("a#0",),
)


@each_case(
    ("own_passages", "relevant"),
    [
        ((), [0]),
        # A system may have other ids, and may cut the documents elsewhere.
        ((Passage(id="x", text=f"**{NILE}**"), Passage(id="y", text=ZAIRE)), [0]),
        ((Passage(id="b#7", text=f"{ZAIRE} {NILE}"), Passage(id="a#7", text=f"{NILE} Yes.")), [1]),
        # The same id may name another text.
        ((Passage(id="a#0", text="Lake Victoria has three thousand islands."),), []),
    ],
)
@each_case("failed", [False, True])
def test_passages_are_relevant_by_id_text_and_document(
    own_passages: tuple[Passage, ...], relevant: list[int], failed: bool
) -> None:
    answer = {"text": None, "error": "timeout"} if failed else {"text": "The Nile [1]."}
    shown_ids = tuple(passage.id for passage in own_passages) or None
    response = Response(query_id="q", passages=own_passages, shown=shown_ids, **answer)
    whole = whole_query(JUDGED, [Run(model="m", language="en", responses=(response,))])
    item = Excerpt("en", "m", "best", JUDGED, whole, response)
    assert plain_response(item, SAMPLINGS[0]).get("relevant", []) == relevant


def test_a_relevant_passage_with_another_id_keeps_its_text_in_a_short_report() -> None:
    passage = Passage(id="x", text=NILE)
    response = Response(query_id="q", text="The Nile.", passages=(passage,), shown=("x",))
    whole = whole_query(JUDGED, [Run(model="m", language="en", responses=(response,))])
    item = Excerpt("en", "m", "best", JUDGED, whole, response)
    assert "x" in responses._with_text(item, SAMPLINGS[-1])


def test_without_evidence_nothing_is_shown() -> None:
    selection = sample({"en": ranking(evidence=False)})
    assert not selection.pages
    assert selection.notes == ()


def test_a_smaller_size_limit_shows_fewer_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"##Reason: [1]\n##Answer: {number} " + "word " * 300 for number in range(9)]
    rankings = {"en": ranking(texts=texts)}
    full = sample(rankings)
    monkeypatch.setattr(responses, "MOST_BYTES", 40_000)
    limited = sample(rankings)
    assert limited == sample(rankings)
    assert len(limited.pages["en"]["mine"]["best"]) < len(full.pages["en"]["mine"]["best"])
    assert any("at most" in note for note in limited.notes)
    assert any("without their text" in note for note in limited.notes)
    cited = limited.queries["en"]["q0"]["passages"]
    assert ["text" in passage for passage in cited] == [True, False, False]


def test_responses_that_do_not_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MOST_BYTES", 8_000)
    selection = sample({"en": ranking(texts=["word " * 300])})
    row_count = sum(
        len(rows) for kinds in selection.pages["en"].values() for rows in kinds.values()
    )
    (note,) = [note for note in selection.notes if "left out" in note]
    assert 0 < row_count < 6
    assert note.startswith(f"{2 * 3 - row_count} more responses")


def test_long_texts_are_cut_and_say_so() -> None:
    selection = sample({"en": ranking(texts=["x" * 50_000])})
    row = selection.pages["en"]["mine"]["best"][0]
    assert row["cut"] == 50_000
    assert sum(len(text) for block in row["blocks"] for text in block["text"]) == 6000
    assert selection.queries["en"][row["query"]]["passages"][0]["cut"] == 50_000


# Sections and citations ---------------------------------------------------------------------------


def test_citations_are_those_that_the_parser_reads() -> None:
    text = "The Nile [1]. Long [b#1, 3]; see [99], [sic] and [1969]."
    assert segments(text, "en", SHOWN) == [
        "The Nile ",
        Cited("[1]", ("a#0",)),
        ". Long ",
        Cited("[b#1, 3]", ("b#1", "c#2")),
        "; see ",
        Cited("[99]", ()),
        ", [sic] and [1969].",
    ]


@each_case("code", LANGUAGES)
def test_every_language_has_its_brackets_and_digits(code: str) -> None:
    digits = LANGUAGES[code].digits or "0123456789"
    for pair in LANGUAGES[code].brackets:
        bracket = f"{pair[0]}{digits[2]}{pair[1]}"
        assert segments(f"a {bracket} b", code, SHOWN)[1] == Cited(bracket, ("b#1",))


def test_a_heading_in_brackets_is_no_citation() -> None:
    assert segments("【Answer】 x [1]", "ja", SHOWN)[0] == "【Answer】 x "


@given(st.text(alphabet="[]【】1 2,#ab.\n:-", max_size=80))
def test_pieces_are_the_text_and_cite_what_the_whole_cites(text: str) -> None:
    pieces = segments(text, "ja", SHOWN)
    assert "".join(p if isinstance(p, str) else p.text for p in pieces) == text
    cited = {id_ for piece in pieces if isinstance(piece, Cited) for id_ in piece.ids}
    assert cited == set(parse(text, "ja", SHOWN).citations)


def test_a_response_is_shown_in_its_sections() -> None:
    parts = blocks("##Reason: since [1]\n##Answer: yes [2].", "en", SHOWN)
    assert parts == [
        ("heading", "##Reason:"),
        ("reason", "since [1]"),
        ("heading", "##Answer:"),
        ("answer", "yes [2]."),
    ]
    assert blocks("no sections", "en", SHOWN) == [("text", "no sections")]
    assert blocks("", "en", SHOWN) == [("text", "")]


@given(
    st.lists(st.sampled_from(["##Reason:", "##Answer:", "\n", "yes", "no [1]", " "]), max_size=9)
)
def test_sections_lose_nothing(parts: list[str]) -> None:
    text = "".join(parts)
    joined = "".join(block.text for block in blocks(text, "en", SHOWN))
    assert "".join(joined.split()) == "".join(text.split())


@each_case("text", STRINGS)
def test_hostile_text_comes_out_in_pieces(text: str) -> None:
    text = text[:6000]
    assert "".join(p if isinstance(p, str) else p.text for p in segments(text, "ar", SHOWN)) == text


def test_direction_is_that_of_most_letters() -> None:
    assert direction("نهر النيل Nile", "ar") == "rtl"
    assert direction("The Nile نهر", "ar") == "ltr"
    assert direction("[1] 1969", "ar") == "rtl"
    assert direction("[1] 1969", "en") == "ltr"
