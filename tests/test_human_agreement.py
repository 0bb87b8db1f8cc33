"""Test the bundled agreement of judges with human labels, and how a ranking reports it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage import LLM, Leaderboard, PairwiseJudge
from mirage.errors import UnknownNameError
from mirage.human_agreement import known_agreement
from mirage.metaeval import LabelledSentences, evaluate
from mirage.models import HumanAgreement, Query

MEASURED = HumanAgreement(
    judge="ours", language="de", task="relevance", balanced_accuracy=0.75, source="our labels"
)


def cites_first(query: Query) -> str:
    return f"##Answer: {query.passages[0].text} [1]"


def test_the_published_figures_are_the_papers(data_dir: Path) -> None:
    paper = json.loads((data_dir / "published" / "memerag.json").read_text(encoding="utf-8"))
    rows = paper["balanced_accuracy_table5"].values()
    for model in ("gpt-4o-mini", "qwen2.5-32b", "llama3.2-90b", "llama3.2-11b"):
        shipped = [100 * figure.balanced_accuracy for figure in known_agreement(model)]
        assert shipped == pytest.approx([row[model] for row in rows])


@pytest.mark.slow
def test_bundled_figures_of_support_lexical_equal_a_new_measurement(data_dir: Path) -> None:
    labelled = LabelledSentences.memerag(data_dir / "memerag" / "memerag", ("en", "de", "es"))
    figures = evaluate(labelled, ["support_lexical"])["support_lexical"]
    shipped = known_agreement("support_lexical")
    assert figures.agreement(source=shipped[0].source) == shipped


def test_the_language_comes_before_the_mean_of_others() -> None:
    assert [figure.language for figure in known_agreement("support_lexical", "de")] == ["de"]
    assert known_agreement("support_lexical", "sw") == ()
    assert [figure.language for figure in known_agreement("gpt-4o-mini", "sw")] == [None] * 4
    assert known_agreement("nobody") == ()
    with pytest.raises(UnknownNameError, match="language"):
        known_agreement("gpt-4o-mini", "xx")


def test_a_judge_has_measured_and_published_figures() -> None:
    judge = PairwiseJudge(
        [LLM("gpt-4o-mini", base_url="http://x"), LLM("ours", base_url="http://x")],
        agreement=[MEASURED],
    )
    assert judge.agreement == (MEASURED, *known_agreement("gpt-4o-mini"))


def rankings() -> Iterator[tuple[str, tuple[HumanAgreement, ...]]]:
    for code in ("de", "sw"):
        bundled = Leaderboard.bundled(code)
        board = Leaderboard(bundled.dataset, bundled.suite, bundled.ranker, agreement=[MEASURED])
        ranking = board.rank(
            {query.id: cites_first(query) for query in board.dataset[10:15]}, "mine"
        )
        assert json.loads(ranking.to_json())["agreement"] == [
            figure.model_dump() | {"interval": figure.interval and list(figure.interval)}
            for figure in ranking.agreement
        ]
        yield code, ranking.agreement


def test_a_ranking_reports_the_agreement_of_its_judge_and_features() -> None:
    assert dict(rankings()) == {
        "de": (MEASURED, *known_agreement("support_lexical", "de")),
        "sw": (MEASURED,),
    }


def test_an_agreement_is_printed_as_a_sentence() -> None:
    assert str(MEASURED) == (
        "ours, relevance in German: 75.0 % balanced accuracy against people's labels (our labels)"
    )
    assert str(known_agreement("support_lexical", "de")[0]) == (
        "support_lexical, faithfulness in German: 67.2 % balanced accuracy against people's labels "
        "(95 % interval 60.3 to 72.9; 458 sentences; Mirage, on MEMERAG's labels; threshold by "
        "cross-validation)"
    )
