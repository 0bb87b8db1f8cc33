"""Tests of retrieval in a report: passages, scores and quality."""

from __future__ import annotations

import json
import re

import pytest

from mirage import Leaderboard, MirageDataset, Pipeline
from mirage.errors import SettingError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.ranking import MultilingualRanking, Ranking
from mirage.report._page import render
from mirage.retrieval import BM25, RetrievalRun, evaluate


@pytest.fixture(scope="module")
def pipeline() -> tuple[Pipeline, RetrievalRun, Ranking]:
    board = Leaderboard.bundled("en")
    dataset = MirageDataset.bundled("en")
    passages = {p.id: p for query in dataset for p in query.passages}
    index = BM25.build(passages.values(), language="en", progress=False)
    rag = Pipeline(index, generator=lambda q: f"##Answer: {q.passages[0].text} [1]", show_k=3)
    return rag, rag.retrieve(dataset), board.rank(rag, model="rag", progress=False)


def data_of(page: str) -> dict[str, object]:
    (text,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
    data: dict[str, object] = json.loads(text)
    return data


def test_retrieved_passages_are_shown_with_their_texts_and_scores(
    pipeline: tuple[Pipeline, RetrievalRun, Ranking],
) -> None:
    _, run, ranking = pipeline
    data = data_of(render(ranking, retrieval={"rag": run}))
    english = data["languages"]["en"]  # type: ignore[index]
    queries = english["queries"]
    (page,) = (page for page in english["pages"].values() if page)
    rows = [row for rows in page.values() for row in rows]
    added = 0
    for row in rows:
        hits = run[row["query"]]
        passages = [queries[row["query"]]["passages"][position] for position in row["shown"]]
        assert [passage["id"] for passage in passages] == list(hits.passage_ids[:3])
        assert all(passage["text"] for passage in passages)
        assert row["scores"] == pytest.approx(hits.scores[:3].tolist(), abs=1e-3)
        added += max(row["shown"]) >= 5  # a passage that the query itself lacks
    assert added > 0


def test_retrieval_quality_is_shown_for_each_model(
    pipeline: tuple[Pipeline, RetrievalRun, Ranking],
) -> None:
    _, run, ranking = pipeline
    assert ranking.evidence is not None
    dataset = MirageDataset.bundled("en")
    page = render(ranking, retrieval={"rag": run})
    section = page.partition('id="en-retrieval"')[2].partition("</section>")[0]
    table = FeatureSuite(["context_precision", "context_recall"]).score(
        dataset, ranking.evidence.runs["rag"]
    )
    results = evaluate(run, dataset, ["nDCG@10", "R@10"], query_ids=dataset.query_ids)
    for mean in (*table.mean().tolist(), *(row.mean for row in results)):
        assert f">{mean:.3f}<" in section
    assert f" {results['R@10'].interval[0]:.3f} to " in section
    assert section.count("<tr") == 2  # anchors have no retrieval
    without = render(ranking)
    section = without.partition('id="en-retrieval"')[2].partition("</section>")[0]
    assert "context_recall" in section
    assert "nDCG@10" not in section


def test_each_language_has_its_own_retrieval_runs(
    pipeline: tuple[Pipeline, RetrievalRun, Ranking],
) -> None:
    _, english, ranking = pipeline
    dataset = MirageDataset.bundled("sw")
    passages = {p.id: p for query in dataset for p in query.passages}
    index = BM25.build(passages.values(), language="sw", progress=False)
    rag = Pipeline(index, generator=lambda q: f"##Answer: {q.passages[0].text} [1]", show_k=3)
    swahili = rag.retrieve(dataset)
    board = Leaderboard.bundled("sw")
    rankings = {"en": ranking, "sw": board.rank(rag, model="rag", progress=False)}
    both = MultilingualRanking(rankings, {"fi": "no route"})
    runs = {"en": english, "sw": swahili, "fi": swahili}  # languages that are left out have no page
    page = render(both, retrieval={"rag": runs})
    for code, run in (("en", english), ("sw", swahili)):
        section = page.partition(f'id="{code}-retrieval"')[2].partition("</section>")[0]
        queries = MirageDataset.bundled(code)
        results = evaluate(run, queries, ["nDCG@10", "R@10"], query_ids=queries.query_ids)
        assert all(f">{row.mean:.3f}<" in section for row in results)
        language = data_of(page)["languages"][code]  # type: ignore[index]
        (kinds,) = (kinds for kinds in language["pages"].values() if kinds)
        for row in (row for rows in kinds.values() for row in rows):
            assert row["scores"] == pytest.approx(run[row["query"]].scores[:3].tolist(), abs=1e-3)
    section = render(both, retrieval={"rag": {"sw": swahili}}).partition('id="en-retrieval"')[2]
    assert "nDCG@10" not in section.partition("</section>")[0]


def test_runs_of_other_models_or_languages_are_errors(
    pipeline: tuple[Pipeline, RetrievalRun, Ranking],
) -> None:
    _, run, ranking = pipeline
    with pytest.raises(UnknownNameError, match="did you mean 'rag'"):
        render(ranking, retrieval={"rga": run})
    swahili = Ranking(ranking.entries, language="sw")
    both = MultilingualRanking({"en": ranking, "sw": swahili})
    with pytest.raises(SettingError, match="give the runs of 'rag' by language"):
        render(both, retrieval={"rag": run})
    with pytest.raises(UnknownNameError, match=r"unknown language 'fi' in the ranking"):
        render(both, retrieval={"rag": {"fi": run}})
