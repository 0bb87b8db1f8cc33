"""Find out whether a text answers a yes-or-no question with yes or with no."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from mirage.languages import Language
from mirage.text._candidates import Forms, locate, sentence_spans
from mirage.text._claim_signs import content_words
from mirage.text._cues import CUES, cues
from mirage.text._folding import fold
from mirage.text._unicode import any_of, nfc
from mirage.text.abstentions import ABSTAINS_AT, abstains
from mirage.text.lexicon import lexicon
from mirage.text.mentions import mentioned

__all__ = ["asserts_phrase", "implied_verdict", "mentions_plainly", "stated_verdict"]

_MARKS = r".,:;!?،؛。！？、，；：।()\[\]*–—\n"

REPEATED = 0.5
"""Minimum share of the question's content words in a sentence that implies yes."""

REPEATED_IN_NO = 0.2
"""The same for a sentence that implies no; it is lower, because few sentences have a negation."""

_NEGATING = frozenset({"negation", "exclusion", "prohibition"})
_REPORTING = frozenset({"attribution", "falsity", "retraction", "condition", "former", "truth"})
_REJECTING = frozenset({"falsity", "retraction"})
_SECTION_END = re.compile(r"[;:؛；：](?!\d)|\s[-–—]+\s|[—\n]")
_CLAUSE_END = re.compile(r"[,،、，()（）](?!\d)")


@lru_cache(maxsize=4096)
def stated_verdict(text: str, language: str) -> bool | None:
    """Return whether a text says yes (``True``) or no (``False``) as a clause of its own.

    A word for yes or no counts only between two pauses, such as the start of a sentence and a
    comma, and only if the sentence does not report what others say. If there are several, the first
    one decides; if there is none, the result is ``None``.

    Args:
        text: The text.
        language: ISO 639-1 code of the text.

    Example:
        >>> stated_verdict("Sorry, but no: dogs have to stay out.", "en")
        False
        >>> stated_verdict("Some say no, but dogs are allowed.", "en") is None
        True
    """
    entry, text = Language.of(language), nfc(text)
    pattern = _clause_pattern(entry)
    for start, end in sentence_spans(text, language):
        sentence = fold(text[start:end])
        match = pattern.search(sentence.text)
        if match and "attribution" not in _kinds(sentence.text[: match.start()], entry):
            return match.lastgroup == "yes"
    return None


@lru_cache(maxsize=64)
def _clause_pattern(entry: Language) -> re.Pattern[str]:
    """Return a pattern for a word for yes or no between two pauses."""
    words = lexicon(entry.code)
    yes, no = (any_of(fold(form).text for form in forms) for forms in (words.yes, words.no))
    # "Not true, ..." may deny only what follows: "It is not true that ...".
    judgment = any_of(fold(form).text for form in (*words.falsity, *words.truth))
    # In scripts without spaces between words, a space is a pause too. Elsewhere one word may stand
    # before the verdict: "Sadly no."
    unspaced = entry.tokens == "character"
    marks, filler = (rf"{_MARKS}\s", "") if unspaced else (_MARKS, r"(?:\w+\s)?")
    return re.compile(
        rf"(?:\A|[{marks}])[^\w{marks}]*{filler}(?!(?:{judgment})\s*[,،，])"
        rf"(?:(?P<yes>{yes})|(?P<no>{no}))"
        rf"\s*(?:[{marks}]|[^\w\s]*\Z)"
    )


@lru_cache(maxsize=4096)
def mentions_plainly(forms: Forms, text: str, language: str) -> bool:
    """Return whether a text contains a word for yes or no in a plain statement of its own.

    If a sentence has a word of contrast, such as "but", only the part after this word counts.
    Sentences do not count if they contain words that attribute a statement to others ("many people
    say"), state a condition ("if"), withdraw a statement ("correction"), refer to the past ("used
    to be"), or call something true or false ("it is a myth that").

    Args:
        forms: Words for yes or no.
        text: The text.
        language: ISO 639-1 code of the text.

    Example:
        >>> mentions_plainly(("yes",), "The answer is yes.", "en")
        True
        >>> mentions_plainly(("yes",), "Many people say yes.", "en")
        False
        >>> mentions_plainly(("no",), "Some say no, but dogs are allowed.", "en")
        False
    """
    entry, text = Language.of(language), nfc(text)
    return any(
        mentioned(forms, part, language) and not _kinds(part, entry) & _REPORTING
        for part in _final_parts(text, entry)
    )


@lru_cache(maxsize=4096)
def asserts_phrase(forms: Forms, text: str, language: str) -> bool | None:
    """Return whether a text asserts a phrase that stands for yes or no, such as "forbidden".

    The result is ``True`` if it does, and ``False`` if it only denies the phrase, as in "flash is
    not forbidden" and "it is a myth that flash is forbidden". It is ``None`` if the text only
    reports the phrase ("many think that flash is forbidden, but ...") or does not mention it.

    Args:
        forms: Spellings of the phrase.
        text: The text.
        language: ISO 639-1 code of the text.

    Example:
        >>> asserts_phrase(("forbidden",), "Flash is forbidden, without exception.", "en")
        True
        >>> asserts_phrase(("forbidden",), "Flash is not forbidden.", "en")
        False
        >>> asserts_phrase(("forbidden",), "Many think it is forbidden, but it is not.", "en")
    """
    entry, text = Language.of(language), nfc(text)
    readings = []
    for start, end in sentence_spans(text, language):
        sections = _SECTION_END.split(text[start:end])
        for number, section in enumerate(sections):
            part, is_last = nfc(_final_part(section, entry)), number == len(sections) - 1
            for occurrence in locate(forms, part, language):
                before, after = part[: occurrence.start], part[occurrence.end :]
                readings.append(_asserts_between(before, after, entry, is_last=is_last))
    if True in readings:
        return True
    return False if False in readings else None


def _asserts_between(before: str, after: str, entry: Language, *, is_last: bool) -> bool | None:
    """Return whether a text asserts or denies a phrase that stands between two parts of it.

    An attribution, such as "many think", counts only if the sentence continues. The text adopts
    "according to the rules, ...".
    """
    kinds = _kinds(f"{before} {after}", entry)
    if kinds & _REJECTING:
        return False
    if "former" in kinds or ("attribution" in kinds and not is_last):
        return None
    clause = f"{_CLAUSE_END.split(before)[-1]} {_CLAUSE_END.split(after)[0]}"
    return not _kinds(clause, entry) & _NEGATING


def _final_parts(text: str, entry: Language) -> Iterator[str]:
    """Yield the final part of each sentence."""
    for start, end in sentence_spans(text, entry.code):
        yield _final_part(text[start:end], entry)


def _final_part(sentence: str, entry: Language) -> str:
    """Return the part of a sentence after its last word of contrast, such as "but".

    A sentence without such a word is returned whole. The text's own claim comes after the word, as
    in "Some say no, but dogs are allowed".
    """
    folded = fold(sentence)
    ends = [cue.end for cue in cues(folded, sentence, entry) if CUES[cue.kind] == "contrast"]
    last = max(ends, default=0)
    return folded.text[last:] if last < len(folded.text.rstrip(" .!?।。！？")) else sentence


@lru_cache(maxsize=4096)
def implied_verdict(text: str, question: str, language: str) -> bool | None:
    """Return whether a text implies yes or no, because it repeats the question as a statement.

    A sentence with a negation implies no if it repeats a fifth of the question's content words. A
    sentence without one implies yes if it repeats half of them. A word for "forbidden" is a
    negation too, and "not forbidden" is none. Sentences that report what others say, correct
    something or state a condition do not count. The result is ``None`` if there is no such
    sentence, if several disagree, if the question is negated, or if the text abstains.

    Args:
        text: The text.
        question: The question.
        language: ISO 639-1 code of the text and the question.

    Example:
        >>> question = "Are dogs allowed in the park?"
        >>> implied_verdict("In the park, dogs are not allowed.", question, "en")
        False
        >>> implied_verdict("The passages do not mention dogs in parks.", question, "en") is None
        True
    """
    entry, text = Language.of(language), nfc(text)
    asked = content_words(question, entry)
    if not asked or _kinds(question, entry) & {*_NEGATING, "prohibition"}:
        return None
    if abstains(text, language, question=question) >= ABSTAINS_AT:
        return None
    verdicts = set()
    for part in _final_parts(text, entry):
        kinds = _kinds(part, entry)
        negated, forbidden = bool(kinds & _NEGATING), "prohibition" in kinds
        least = REPEATED_IN_NO if negated or forbidden else REPEATED
        if len(asked & content_words(part, entry)) >= least * len(asked):
            verdicts.add(None if kinds & _REPORTING else negated == forbidden)
    return verdicts.pop() if len(verdicts) == 1 else None


def _kinds(text: str, entry: Language) -> frozenset[str]:
    """Return the kinds of cue words, such as negations, in a text."""
    return frozenset(CUES[cue.kind] for cue in cues(fold(text), text, entry))
