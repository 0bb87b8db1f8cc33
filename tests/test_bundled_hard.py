"""The bundled hard set: whole, parallel and made from its sources in every language."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

import pytest
from cases import each_case
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.errors import UnknownNameError
from mirage.languages import LANGUAGES
from mirage.models import GOLD

CORPORA = Path(__file__).parents[1] / "corpora"
HELD_OUT = Path(__file__).parent / "data" / "truth_hard"
BUNDLED = resources.files("mirage") / "data"

every_language = each_case("code", LANGUAGES)


@cache
def corpus(code: str) -> MirageDataset:
    return MirageDataset.bundled(code, level="hard")


@every_language
def test_sixty_questions_on_twelve_dossiers(code: str) -> None:
    dataset = corpus(code)
    assert dataset.language == code
    assert dataset.query_ids == tuple(f"h{number:02}" for number in range(1, 61))
    assert [query.answerable for query in dataset].count(True) == 50
    clusters = [query.cluster for query in dataset]
    assert [clusters.count(name) for name in dict.fromkeys(clusters)] == [5] * 12
    for query in dataset:
        assert 12 <= len(query.passages) <= 15
        assert all(passage.title and passage.text for passage in query.passages)
        assert set(query.relevant) <= set(query.passage_ids)
        assert len(query.relevant) >= 2 or not query.answerable
        assert bool(query.answers) == query.answerable
        assert len(query.wrong_answers) >= 2
        assert query.reference
        assert set(query.metadata) == {"kind", "difficulty", "hops"}


@every_language
def test_the_languages_are_parallel(code: str) -> None:
    for query, english in zip(corpus(code), corpus("en"), strict=True):
        for field in ("id", "relevant", "answerable", "cluster", "metadata", "passage_ids"):
            assert getattr(query, field) == getattr(english, field)
        assert len(query.answers) == len(english.answers)
        assert len(query.wrong_answers) == len(english.wrong_answers)


def test_a_system_under_test_sees_no_gold() -> None:
    for query in corpus("en").without_gold():
        shown = query.model_dump(exclude_defaults=True)
        assert set(shown) == {"id", "language", "text", "passages"}
        assert not GOLD & set(shown)


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"'easy'.*quick"):
        MirageDataset.bundled("en", level="easy")


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_the_package_is_made_from_the_sources(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(CORPORA))
    __import__("build").write_hard(code, package=tmp_path, tests=tmp_path / "truth_hard")
    for folder in ("hard", "hard_responses"):
        rebuilt = (tmp_path / folder / f"{code}.jsonl").read_bytes()
        assert rebuilt == (BUNDLED / folder / f"{code}.jsonl").read_bytes()
    rebuilt = (tmp_path / "truth_hard" / f"{code}.jsonl").read_bytes()
    assert rebuilt == (HELD_OUT / f"{code}.jsonl").read_bytes()
