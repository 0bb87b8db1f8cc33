"""Which language an answer is written in.

MIRAGE-Bench (arXiv 2410.13716), section 4.1 and appendix A, "Language identification".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from mirage.features.base import Answered, Definition, Facts
from mirage.languages import Language

__all__ = ["english_language", "language_probabilities", "target_language"]


def target_language(item: Answered) -> float:
    """Probability that the answer is in the query's language; 0 for an empty answer."""
    return _probability(item, item.query.language)


def english_language(item: Answered) -> float:
    """Probability that the answer is in English; 0 for an empty answer.

    For English queries it equals :func:`target_language`.
    """
    return _probability(item, "en")


def _probability(item: Answered, code: str) -> float:
    if not item.parsed.answer_text.strip():
        return 0.0
    return language_probabilities(item.parsed.answer_text, item.query.language).get(code, 0.0)


def language_probabilities(text: str, language: str | Language) -> Mapping[str, float]:
    """Probability of each language, by ISO 639-1 code, that a text is written in it.

    langid decides over its 97 languages, with normalised probabilities. Where langid does not
    know ``language`` (Yoruba), lingua does over its 75, by trigrams. Either loads once in a
    process; langid takes one to two seconds for that.

    Raises:
        UnknownNameError: ``language`` is not one of the 18 languages.
    """
    return _IDENTIFIERS[Language.of(language).identifier](text)


# Both probabilities of a response come from one identification, and a suite asks for them feature
# by feature, so the last ones are kept.


@lru_cache(maxsize=1024)
def _by_langid(text: str) -> Mapping[str, float]:
    """What langid's ``rank`` gives, from the features that occur in the text only.

    langid multiplies its whole model by a vector that is nearly all zeros, which takes longer than
    all the other offline features together.
    """
    identifier = _langid()
    counts = identifier.instance2fv(text)
    present = np.flatnonzero(counts)
    logs = (counts[present, None] * identifier.nb_ptc[present]).sum(axis=0) + identifier.nb_pc
    odds = np.exp(logs - logs.max())
    return dict(zip(identifier.nb_classes, (odds / odds.sum()).tolist(), strict=True))


@lru_cache(maxsize=1024)
def _by_lingua(text: str) -> Mapping[str, float]:
    # lingua adds up in an order that differs from call to call; the rounding hides its last bits.
    return {
        value.language.iso_code_639_1.name.lower(): round(value.value, 9)
        for value in _lingua().compute_language_confidence_values(text)
    }


_IDENTIFIERS = {"langid": _by_langid, "lingua": _by_lingua}


@lru_cache(maxsize=1)
def _langid() -> Any:
    from langid.langid import LanguageIdentifier, model

    return LanguageIdentifier.from_modelstring(model, norm_probs=True)


@lru_cache(maxsize=1)
def _lingua() -> Any:
    from lingua import LanguageDetectorBuilder

    # Trigrams alone, which lingua calls low accuracy, load in a third of a second and 0.1 GB. All
    # its n-grams take seconds and 0.9 GB, and tell Yoruba from English no better.
    return LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode().build()


_ENGLISH = Facts("lower", 0, 1, direction_by_language={"en": "higher"})

DEFINITIONS = (
    Definition("target_language", target_language, Facts("higher", 0, 1)),
    Definition("english_language", english_language, _ENGLISH),
)
