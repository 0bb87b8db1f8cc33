"""Language probabilities from trigrams, which equal those of lingua."""

from __future__ import annotations

import json
import math
from importlib import resources

import numpy as np
import pytest
from cases import each_case

from mirage.languages import ALL_LANGUAGES
from mirage.text._trigrams import languages_by_script, trigram_logs
from mirage.text.lexicon import lexicon

SCRIPTS = languages_by_script()
SIX = ("de", "en", "es", "fr", "yo", "ca")


def confidences(text: str, script: str, codes: tuple[str, ...]) -> list[float]:
    logs = trigram_logs(text, script, codes)
    return [math.exp(logs[code]) if logs else 0.0 for code in codes]


def test_the_file_has_the_tables_of_all_languages_and_no_other() -> None:
    source = resources.files("mirage") / "data" / "trigrams.npz"
    with source.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        tables = {name.rpartition(".")[0] for name in arrays.files}
    pairs = {f"{script}.{code}" for script, codes in SCRIPTS.items() for code in codes}
    assert tables == pairs | set(SCRIPTS)  # otherwise, run corpora/trigrams.py


# Confidences of lingua 2.1.1 in low accuracy mode, in the order of SIX.
@each_case(
    ("text", "expected"),
    [
        ("the language of this answer", (0.01878, 0.97416, 0, 0.00276, 0.00430, 0)),
        ("Straße", (1, 0, 0, 0, 0, 0)),  # no other candidate has an ß,
        ("ñandu", (0, 0, 1, 0, 0, 0)),  # or an ñ
        ("Straße ṣe", (0.32104, 0.00088, 0.00004, 0.00042, 0.67756, 0.00006)),  # one of each
        ("été", (0, 0, 0.00807, 0.79762, 0.16583, 0.02849)),  # German and English have no é
        ("language été sûr", (0, 0, 0, 1, 0, 0)),  # two of three words are French
    ],
)
def test_letters_and_trigrams(text: str, expected: tuple[float, ...]) -> None:
    assert confidences(text, "Latin", SIX) == pytest.approx(expected, abs=5e-6)


@each_case("text", ["", "- .", "12", "ab", "a b c", "жжж"])
def test_a_text_without_known_trigrams_has_no_probabilities(text: str) -> None:
    assert trigram_logs(text, "Latin", SIX) == {}


def test_a_language_that_its_letters_rule_out_has_probability_0() -> None:
    assert trigram_logs("Straße", "Latin", SIX)["en"] == -math.inf


def texts_of(code: str) -> list[str]:
    """Return texts of one to sixty letters: words, and beginnings of passages and answers."""
    texts = sorted(lexicon(code).function_words) if code in ALL_LANGUAGES else []
    if code in ALL_LANGUAGES and ALL_LANGUAGES[code].board:
        source = resources.files("mirage") / "data" / "mini" / f"{code}.jsonl"
        for line in source.read_text(encoding="utf-8").splitlines():
            query = json.loads(line)
            passages = [passage["text"] for passage in query["passages"]]
            texts += [text[start : start + 60] for text in passages for start in (0, 7, 31)]
    return texts


@pytest.mark.parametrize("script", SCRIPTS)
def test_confidences_are_those_of_lingua(script: str) -> None:
    lingua = pytest.importorskip("lingua")
    texts = [text for code in SCRIPTS[script] for text in texts_of(code)[::18]]
    for codes in (SCRIPTS[script], SCRIPTS[script][:2], SCRIPTS[script][-2:]):
        isos = [getattr(lingua.IsoCode639_1, code.upper()) for code in codes]
        builder = lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*isos)
        detector = builder.with_low_accuracy_mode().build()
        for text in texts:
            expected = {
                value.language.iso_code_639_1.name.lower(): value.value
                for value in detector.compute_language_confidence_values(text)
            }
            ours = dict(zip(codes, confidences(text, script, codes), strict=True))
            assert ours == pytest.approx(expected, abs=1e-12), text
