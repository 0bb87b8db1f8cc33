"""Matching passages that a system cut or named in its own way with those of a dataset."""

from __future__ import annotations

import math

import pytest
from cases import each_case

from mirage._base.passages import NOTHING_JUDGED, is_other_text
from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite, FeatureTable
from mirage.features._scoring import _warn_once
from mirage.models import Passage, Query, Response, Run
from mirage.passages import relevant_matches, same_passage

TEXTS = (
    "The server starts with the command run, and reads its settings from a file.",
    "Workers are as many as the machine has cores, and each keeps one connection open.",
    "A deployment is rolled back by naming the release that came before it.",
)
FEATURES = (
    "citation_recall@10",
    "citation_map@10",
    "context_precision",
    "context_recall",
    "support_lexical",
)
CITATIONS = FEATURES[:4]


def dataset(number: int = 4) -> MirageDataset:
    passages = tuple(Passage(id=f"deploy.rst#{i}", text=text) for i, text in enumerate(TEXTS, 1))
    return MirageDataset(
        Query(
            id=f"q{n}",
            language="en",
            text="How is a deployment rolled back?",
            passages=passages,
            relevant=("deploy.rst#3",),
        )
        for n in range(number)
    )


def run(*passages: Passage, cites: str, shown_ids: tuple[str, ...] | None = None) -> Run:
    """Return four responses made from these passages that all have the same citations."""
    text = f"It is rolled back by naming the release that came before it {cites}."
    responses = (
        Response(query_id=f"q{n}", text=text, shown=shown_ids, passages=passages) for n in range(4)
    )
    return Run(model="bot", language="en", responses=tuple(responses))


def score(of: Run, queries: MirageDataset | None = None) -> FeatureTable:
    return FeatureSuite(FEATURES).score(queries or dataset(), of, progress=False)


def means(of: Run, queries: MirageDataset | None = None) -> dict[str, float]:
    table = score(of, queries)
    return dict(zip(table.features, table.mean().tolist(), strict=True))


def chunk(number: int, id_: str = "deploy.rst:{}", text: str = "") -> Passage:
    return Passage(id=id_.format(number), text=text or TEXTS[number - 1])


@each_case("id_", ["deploy.rst:{}", "docs/deploy.rst:{}", "{}", "chunk-{}"])
@each_case("cites", ["by id", "by position"])
def test_a_passage_of_the_same_text_counts_whatever_its_id(id_: str, cites: str) -> None:
    chunks = (chunk(2, id_), chunk(3, id_))
    cited = means(run(*chunks, cites=f"[{chunks[1].id}]" if cites == "by id" else "[2]"))
    if id_ == "{}" and cites == "by position":  # what equals an id is that id
        assert cited["citation_recall@10"] == 0
        return
    assert cited["citation_recall@10"] == cited["citation_map@10"] == 1
    assert (cited["context_precision"], cited["context_recall"]) == (0.5, 1)
    assert cited["support_lexical"] > 0.8


def test_wrong_citations_score_low_if_ids_differ() -> None:
    chunks = (chunk(1), chunk(2), chunk(3))
    right, rotated = (means(run(*chunks, cites=f"[{n}]")) for n in (3, 1))
    assert right["citation_recall@10"] == 1
    assert rotated["citation_recall@10"] == 0
    assert rotated["support_lexical"] < right["support_lexical"]


def test_citations_are_not_computed_if_no_passage_is_known() -> None:
    strange = Passage(id="other:1", text="Cats sleep for most of the day, and hunt at night.")
    table = score(run(strange, cites="[1]"))
    for name in CITATIONS:
        assert math.isnan(table.mean()[table.features.index(name)])
        assert NOTHING_JUDGED in table.reasons["q0", name]
        assert "'other:1' was found, 'deploy.rst#3' is in the dataset" in table.reasons["q0", name]
    # Its own texts say whether it made up what it says.
    assert table["support_lexical"].mean() < 0.2


def test_citations_are_not_computed_if_no_relevant_id_is_that_of_a_passage() -> None:
    queries = MirageDataset(
        query.model_copy(update={"relevant": ("KB-deploy.rst#3",)}) for query in dataset()
    )
    table = score(run(cites="[3]"), queries)
    for name in CITATIONS:
        assert NOTHING_JUDGED in table.reasons["q0", name]
    reason = table.reasons["q0", "citation_recall@10"]
    assert "'deploy.rst#1' is in the dataset, 'KB-deploy.rst#3' is relevant" in reason


def test_citations_are_not_computed_if_they_have_ids_of_another_form() -> None:
    table = score(run(cites="[deploy.rst:3]"))
    assert table.mean().tolist() == pytest.approx([math.nan] * 5, nan_ok=True)
    reason = table.reasons["q0", "citation_recall@10"]
    assert reason == table.reasons["q0", "support_lexical"]
    assert reason.startswith(NOTHING_JUDGED)
    assert "'deploy.rst:3' is cited, 'deploy.rst#1' was shown" in reason


@pytest.mark.parametrize("cites", ["[Source A]", "{3}", "<doc 3>", "(Source A)", "【4:0†source】"])
def test_citations_are_not_computed_if_their_style_is_not_read(
    cites: str, caplog: pytest.LogCaptureFixture
) -> None:
    _warn_once.cache_clear()
    for _ in range(2):
        table = score(run(cites=cites))
    reason = table.reasons["q0", "citation_recall@10"]
    assert f"the style of the citations was not recognised: {cites!r}" in reason
    assert math.isnan(means(run(cites=cites))["citation_map@10"])
    assert [record.message for record in caplog.records] == [
        f"bot: citation features are not computed: {reason}"
    ]


@pytest.mark.parametrize("markup", ["<h2>It is so</h2>", "<font size=3>", "<question 70ff9e>"])
def test_markup_is_not_taken_for_a_citation_style(markup: str) -> None:
    assert means(run(cites=markup))["citation_recall@10"] == 0


@pytest.mark.parametrize(
    ("odd", "cited", "plain", "is_measured"),
    [(3, 0, 1, False), (2, 0, 2, True), (3, 1, 0, True), (11, 1, 0, False)],
)
def test_the_style_is_not_read_if_most_answers_have_it_and_hardly_any_other(
    odd: int, cited: int, plain: int, is_measured: bool
) -> None:
    texts = ["It is so [Source A]."] * odd + ["It is so [3]."] * cited + ["It is so."] * plain
    responses = [Response(query_id=f"q{n}", text=text) for n, text in enumerate(texts)]
    mixed = Run(model="bot", language="en", responses=tuple(responses))
    values = score(mixed, dataset(len(texts)))["citation_recall@10"]
    assert math.isnan(values[0]) != is_measured


@pytest.mark.parametrize("cites", ["[deploy.rst#9]", "[17]", "", "[sic]", "[1969]"])
def test_false_and_missing_citations_count_zero(cites: str) -> None:
    assert means(run(cites=cites))["citation_recall@10"] == 0
    assert means(run(cites=cites))["support_lexical"] == 0


def test_one_known_passage_makes_the_others_wrong_ones() -> None:
    strange = Passage(id="faq-7", text="Cats sleep for most of the day, and hunt at night.")
    partly = means(run(strange, chunk(3), cites="[1]"))
    assert (partly["citation_recall@10"], partly["context_precision"]) == (0, 0.5)


def test_a_passage_that_holds_the_relevant_one_counts_as_it() -> None:
    whole = Passage(id="deploy.rst", text=" ".join(TEXTS))
    cited = means(run(whole, cites="[1]"))
    assert cited["citation_recall@10"] == cited["citation_map@10"] == cited["context_recall"] == 1


def test_parts_of_a_relevant_passage_count_as_it_once() -> None:
    first, second = TEXTS[2][:40], TEXTS[2][40:]
    parts = (chunk(1, text=first), chunk(2, text=second), chunk(3, text=TEXTS[0]))
    cited = means(run(*parts, cites="[1][2]"))
    assert cited["citation_recall@10"] == cited["citation_map@10"] == 1
    assert cited["context_precision"] == pytest.approx(2 / 3)
    elsewhere = [part.model_copy(update={"id": f"faq-{part.id}"}) for part in parts[:1]]
    assert not relevant_matches(dataset()[0], run(*elsewhere, cites="").responses[0])


def test_a_long_passage_holds_several_relevant_ones() -> None:
    queries = MirageDataset(
        query.model_copy(update={"relevant": ("deploy.rst#1", "deploy.rst#3")})
        for query in dataset()
    )
    whole = Passage(id="deploy.rst", text=" ".join(TEXTS))
    cited = means(run(whole, cites="[1]"), queries)
    assert cited["citation_recall@10"] == cited["citation_map@10"] == 1


def test_an_id_that_collides_with_another_text_is_another_passage() -> None:
    # Its third passage is the dataset's first, and no text of its is the dataset's third.
    other = (chunk(3, "deploy.rst#1"), chunk(2, "deploy.rst#2"), chunk(1, "deploy.rst#3"))
    cited = means(run(*other, cites="[deploy.rst#3]"))
    assert cited["citation_recall@10"] == 0
    assert means(run(*other, cites="[deploy.rst#1]"))["citation_recall@10"] == 1
    # What is compared with the relevant passage is the dataset's text of it.
    query = dataset()[0]
    full_query = query.knowing(run(*other, cites="").responses[0])
    texts = [p.text for p in full_query.passages if p.id in full_query.relevant]
    assert texts == [TEXTS[2]]


def test_passages_without_texts_are_matched_by_id() -> None:
    cited = means(run(cites="[2]", shown_ids=("deploy.rst#1", "deploy.rst#3")))
    assert cited["citation_recall@10"] == 1
    table = score(run(cites="[2]", shown_ids=("x:1", "x:3")))
    assert math.isnan(table.mean()[0])
    assert NOTHING_JUDGED in table.reasons["q0", "context_recall"]


def test_qrels_of_a_document_match_its_passages() -> None:
    queries = MirageDataset(
        Query(id=f"q{n}", language="en", text="How?", relevant=("deploy.rst",)) for n in range(4)
    )
    passages = (chunk(1, "deploy.rst#{}"), Passage(id="x", text="Y", document="other.rst"))
    cited = means(run(*passages, cites="[1]"), queries)
    assert (cited["citation_recall@10"], cited["context_precision"]) == (1, 0.5)


def test_missing_qrels_are_the_reason() -> None:
    queries = MirageDataset(query.model_copy(update={"relevant": ()}) for query in dataset())
    table = score(run(chunk(3), cites="[1]"), queries)
    assert table.reasons["q0", "citation_recall@10"] == "the query has no relevant passage"
    assert table["support_lexical"].mean() > 0.8


def test_same_passage() -> None:
    long = Passage(id="a/b.md#1", text="One two three four. Five six seven eight.")
    assert same_passage(long, Passage(id="9", text="One  two three four. Five six seven eight."))
    assert same_passage(long, Passage(id="b.md:0", text="Five six seven", document="b.md"))
    assert same_passage(long, Passage(id="a/b.md-0", text="Five six seven"))
    assert not same_passage(long, Passage(id="c.md", text="Five six seven"))
    assert not same_passage(long, Passage(id="a/b.md#2", text=""))
    assert same_passage(long, Passage(id="a/b.md#1", text=""))


def test_versions_of_a_text_are_the_same_passage() -> None:
    assert not is_other_text(TEXTS[0], TEXTS[0].replace("settings", "configuration"))
    assert not is_other_text(TEXTS[0], TEXTS[0][:30])
    assert is_other_text(TEXTS[0], TEXTS[1])
