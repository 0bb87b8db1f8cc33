"""The hard set has no faults in any language, and its checks notice the faults that they name."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from subsets import FEW_LANGUAGES, slow_except

CORPORA = Path(__file__).parents[1] / "corpora"


def _module() -> Any:
    sys.path.insert(0, str(CORPORA))
    try:
        return __import__("hard")
    finally:
        sys.path.remove(str(CORPORA))


hard = _module()
every_language = pytest.mark.parametrize("code", slow_except(FEW_LANGUAGES, hard.languages()))


@pytest.mark.parametrize("code", slow_except(["th"], hard.languages()))
def test_a_language_has_no_faults(code: str) -> None:
    assert hard.check(code) == []


@every_language
def test_questions_become_records(code: str) -> None:
    for question in hard.read(code):
        query = hard.query(question, code)
        assert query.answerable == bool(query.answers) == bool(query.relevant)
        assert query.cluster == question.dossier
        assert query.metadata["kind"] == question.kind
        assert set(query.relevant) <= set(query.passage_ids)
        assert all(f"[{id}]" in (query.reference or "") for id in query.relevant)


def test_a_record_cites_by_passage_id() -> None:
    question = hard.read("en")[0]
    query = hard.query(question, "en")
    assert question.relevant == [2, 4]
    assert query.relevant == ("2001#1", "2001#3")
    assert "[2001#1]" in (query.reference or "")


# Faults -------------------------------------------------------------------------------------------


@pytest.fixture
def dossier(tmp_path: Path) -> Path:
    """Return a copy of one dossier, alone in a set that a test may damage."""
    (tmp_path / "en").mkdir()
    return Path(shutil.copy(hard.FOLDER / "en" / "01-council.txt", tmp_path / "en"))


def faults_of(dossier: Path) -> list[str]:
    return list(hard.check("en", dossier.parents[1], partial=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the English set that a test may damage."""
    shutil.copytree(hard.FOLDER / "en", tmp_path / "en")
    shutil.copy(hard.FOLDER / "without.txt", tmp_path)
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("# h01 update", "# h01 riddle", "h01: unknown kind riddle"),
        ("REL: 2 4\n", "REL: 2 14\n", "h01: REL [2, 14] are not two or more positions"),
        ("REL: 2 4\n", "REL: 4\n", "h01: REL [4] are not two or more positions"),
        ("medium; 2 hops", "tricky; 2 hops", "h01: DIFFICULTY is not"),
        ("medium; 2 hops", "medium; 1 hop", "h01: an answerable question needs at least 2 hops"),
        ("in May 2031?", "in May 2031, 60 crowns?", "h01: the question holds the answer"),
        ("12 crowns per metre [2] plus", "12 crowns per metre plus", "h01: REF cites [4]"),
        ("Passage [2] fixes", "A passage fixes", "h01: REASON does not cite [2]"),
        ("ANS*: 60 crowns", "ANS: 60 crowns", "h01: no relevant passage holds"),
        ("| 60 | sixty", "| 60 | 48 | sixty", "h01: right and wrong: ['48']"),
        (
            " # multiplies the fee of January and ignores the rise",
            "",
            "h01: a wrong answer without",
        ),
        ("TERSE: 60 crowns [2][4].", "TERSE: It rose [2][4].", "h01: TERSE: an answer of [["),
        ("TERSE: 60 crowns [2][4].", "TERSE: 60 crowns.", "h01: TERSE: cites no relevant passage"),
        ("TERSE: 60 crowns [2][4].", "TERSE: 60 crowns [2][40].", "h01: TERSE: odd citations"),
        ("TERSE: 60 crowns", "TERSE: 60, not 52 crowns", "h01: TERSE: wrong forms ['52"),
        ("the couple pay 45 crowns", "the couple pay 46 crowns", "h03: FALSE2: no wrong form"),
        ("handed over 48 crowns", "handed over 48, not 60 crowns", "h01: FALSE: right forms"),
        ("the couple pay 45 crowns", "the couple park free", "h03: FALSE and FALSE2 give the same"),
        (
            "Please leave the square clean and take your waste with you, because the containers "
            "behind the old school are meant for residents only.",
            "",
            "words, not 60 to 120",
        ),
        ("84,000 crowns altogether", "84,000 or 91,000 crowns", "h04: FALSE: names both sides"),
        ("WRONG: four | 4 # takes", "ANS: four\nWRONG: 4 # takes", "h05: unanswerable, but has"),
        ("TESTABST: No figure is", "TESTABST: No figure but none is", "h05: TESTABST: wrong forms"),
    ],
)
def test_a_fault_is_noticed(dossier: Path, old: str, new: str, fault: str) -> None:
    replace(dossier, old, new)
    assert any(fault in message for message in faults_of(dossier))


def test_without_a_change_there_is_no_fault(dossier: Path) -> None:
    assert faults_of(dossier) == []


def test_a_response_may_not_repeat_another(dossier: Path) -> None:
    texts = hard.read_dossier(dossier)[0].texts
    replace(dossier, texts["TESTTRUE"], texts["TRUE1"])
    assert "h01: TRUE1 and TESTTRUE: overlap 1.00" in faults_of(dossier)


def test_a_missing_dossier_is_noticed(folder: Path) -> None:
    (folder / "en" / "05-hospital.txt").unlink()
    assert "ids are not h01 .. h60 in order" in hard.check("en", folder)
    assert hard.check("en", folder, partial=True) == []


def test_the_effect_of_every_relevant_passage_is_described() -> None:
    questions, ablations = hard.read("en"), hard.read_ablations()
    assert hard._check_ablations(questions, ablations) == []
    surplus = {**ablations, ("h01", 9): "52 crowns"}
    assert hard._check_ablations(questions, surplus) == ["h01: without.txt has P9"]
    answered = {**ablations, ("h01", 4): "60 crowns"}
    assert hard._check_ablations(questions, answered) == ["h01: answered without P4"]
    del ablations["h01", 2]
    assert hard._check_ablations(questions, ablations) == ["h01: without.txt lacks P2"]


def test_a_passage_that_answers_alone_is_noticed(dossier: Path) -> None:
    question = hard.read_dossier(dossier)[0]
    first = question.passages[12].text.split(". ")[0]
    replace(dossier, first, f"{question.text.removesuffix('?')}: 60 crowns")
    assert "h01: P13 holds the answer and all words of the question" in faults_of(dossier)


def test_a_set_that_needs_no_reading_is_noticed(dossier: Path) -> None:
    question = hard.read_dossier(dossier)[3]
    first = question.passages[11].text.split(". ")[0]
    replace(dossier, first, f"{question.text.removesuffix('?')}: 84,000 or 91,000 crowns. {first}")
    assert hard.baselines(hard.read_dossier(dossier), "en").first_sentence == 1 / 5
    assert "the baseline first_sentence answers 20.0%, more than 15%" in faults_of(dossier)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("P13: Committees", "P15: Committees", "expected P13, got P15"),
        ("TERSE: 60 crowns", "TRUE2: 60 crowns", "TRUE2 a second time"),
        ("TERSE: 60 crowns [2][4].\n", "", "01-council h01: missing TERSE"),
        ("TERSE: 60 crowns", "INVENT: none\nTERSE: 60 crowns", "INVENT in a question of kind"),
    ],
)
def test_a_file_without_the_form_is_refused(
    dossier: Path, old: str, new: str, message: str
) -> None:
    replace(dossier, old, new)
    with pytest.raises(hard.FormatError, match=message):
        hard.read_dossier(dossier)


# Translations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("REL: 2 4\n", "REL: 2 5\n", "h01: relevant differs from English"),
        ("# h01 update", "# h01 unit", "h01: kind differs from English"),
        ("17, and 6 of them", "many, and 6 of them", "h01: P3: lacks the numbers ['17']"),
        ("WRONG: 52 crowns", "WRONG: 5 krone # x\nWRONG: 52 crowns", "h01: wrong answers differ"),
    ],
)
def test_a_translation_is_compared_with_english(
    dossier: Path, old: str, new: str, fault: str
) -> None:
    folder = dossier.parents[1]
    shutil.copytree(folder / "en", folder / "es")
    assert hard.check("es", folder, partial=True) == []
    replace(folder / "es" / dossier.name, old, new)
    faults = hard.check("es", folder, partial=True)
    assert any(fault in message for message in faults)
