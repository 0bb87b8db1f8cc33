"""Language probabilities against langid and lingua themselves."""

from __future__ import annotations

from typing import Any

import pytest

from mirage.dataset import MirageDataset
from mirage.features import answered, feature
from mirage.features.language import language_probabilities
from mirage.languages import LANGUAGES
from mirage.models import Query, Response


@pytest.fixture(scope="module")
def langid() -> Any:
    from langid.langid import LanguageIdentifier, model

    return LanguageIdentifier.from_modelstring(model, norm_probs=True)


def value(name: str, code: str, text: str) -> float:
    query = Query(id="q", language=code, text="?")
    computed = feature(name).compute([answered(query, Response(query_id="q", text=text))])[0]
    assert isinstance(computed, float)
    return computed


@pytest.mark.parametrize(
    "code", [c for c, entry in LANGUAGES.items() if entry.identifier == "langid"]
)
def test_equals_langid_over_all_its_languages(code: str, langid: Any) -> None:
    texts = [query.text for query in MirageDataset.bundled(code)[:6]]
    texts += [f"{texts[0]} In fact, this is English.", "12345", "a"]
    for text in texts:
        expected = dict(langid.rank(text))
        assert len(expected) == 97
        assert language_probabilities(text, code) == pytest.approx(expected, abs=1e-9)


def test_yoruba_is_identified_by_lingua() -> None:
    from lingua import Language, LanguageDetectorBuilder

    text = "Odò Náílì ni odò tó gùn jù lọ ní Áfíríkà, ó sì ṣàn lọ sí àríwá."
    detector = LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode().build()
    yoruba = detector.compute_language_confidence(text, Language.YORUBA)
    english = detector.compute_language_confidence(text, Language.ENGLISH)
    assert value("target_language", "yo", text) == pytest.approx(yoruba, abs=1e-8)
    assert value("english_language", "yo", text) == pytest.approx(english, abs=1e-8)
    assert value("target_language", "yo", text) > 0.9
    english_text = (
        "The Nile is the longest river in Africa, and it flows to the north through Egypt."
    )
    assert value("english_language", "yo", english_text) > 0.9
    assert value("target_language", "yo", english_text) < 0.1


def test_lingua_gives_the_same_bits_every_time() -> None:
    from mirage.features.language import _by_lingua

    text = "Odò Náílì ni odò tó gùn jù lọ ní Áfíríkà. The Nile is a long river."
    assert len({tuple(_by_lingua.__wrapped__(text).items()) for _ in range(20)}) == 1


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("name", ["target_language", "english_language"])
def test_an_empty_answer_is_in_no_language(name: str, code: str) -> None:
    assert value(name, code, "") == 0
    assert value(name, code, "##Reason: because\n##Answer:  ") == 0


def test_in_english_both_are_the_same() -> None:
    for text in ("The river flows north.", "Der Fluss fließt nach Norden."):
        assert value("english_language", "en", text) == value("target_language", "en", text)


def test_an_english_answer_to_a_swahili_question() -> None:
    text = "The Nile is the longest river in Africa and it flows north."
    assert value("target_language", "sw", text) < 0.1
    assert value("english_language", "sw", text) > 0.9


def test_citations_are_no_words() -> None:
    passage_free = value("target_language", "de", "Der Nil ist der längste Fluss.")
    assert (
        value("target_language", "de", "Der Nil [1] ist der längste Fluss [12#3].") == passage_free
    )
