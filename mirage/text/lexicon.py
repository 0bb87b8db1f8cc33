"""Word lists for each language, read from one file per language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from mirage.languages import LANGUAGES, Language

__all__ = ["Lexicon", "lexicon"]


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """The word lists of one language; every word is in NFC and lower case.

    A language without a bundled leaderboard (:attr:`mirage.languages.Language.board`) has only the
    lists that parsing and language identification need: contrast, negation, numbers, months,
    function words, titles, yes and no.

    In the phrases, ``*`` at an end matches any letters, and `` ... `` matches a few words.

    Attributes:
        abstention: Phrases that state that a question is not answered.
        contrast: Words such as "but" and "instead".
        negation: Words and affixes that negate a statement.
        absence: Words that negate a noun only, such as "without" and "lack".
        prohibition: Words that forbid, if they are used like a negation.
        numbers: The value of each number word.
        months: The number of the month, 1 to 12, by its name or abbreviation.
        function_words: The most frequent words, which carry little meaning.
        titles: Words before names, such as "Dr".
        yes: Words that affirm.
        no: Words that deny.
        attribution: Words that report the belief of someone else, such as "many say".
        falsity: Words that call something false, such as "wrong" and "myth".
        truth: Words that call something true, such as "in fact".
        exclusion: Words that exclude something, such as "instead of" and "unlike".
        alternative: Words that leave a choice open, such as "or" and "possibly".
        retraction: Words that withdraw an earlier statement, such as "sorry" and "correction".
        comparison: Words that compare, such as "than".
        answer_words: Words that introduce an answer, such as "the answer is".
        inferiority: Words that rank something below the next name, such as "second only to".
        condition: Words that introduce a hypothetical case, such as "if".
        former: Words that call something outdated, such as "formerly" and "until last year".
        current: Words that call something current, such as "now" and "under the new rules".
        cue_free: Phrases in which the words above do not count, such as "according to the text".
    """

    abstention: tuple[str, ...]
    contrast: tuple[str, ...]
    negation: tuple[str, ...]
    absence: tuple[str, ...]
    prohibition: tuple[str, ...]
    numbers: Mapping[str, int]
    months: Mapping[str, int]
    function_words: frozenset[str]
    titles: tuple[str, ...]
    yes: tuple[str, ...]
    no: tuple[str, ...]
    attribution: tuple[str, ...]
    falsity: tuple[str, ...]
    truth: tuple[str, ...]
    exclusion: tuple[str, ...]
    alternative: tuple[str, ...]
    retraction: tuple[str, ...]
    comparison: tuple[str, ...]
    answer_words: tuple[str, ...]
    inferiority: tuple[str, ...]
    condition: tuple[str, ...]
    former: tuple[str, ...]
    current: tuple[str, ...]
    cue_free: tuple[str, ...]


@cache
def lexicon(code: str) -> Lexicon:
    """Return the lexicon of a language.

    Args:
        code: ISO 639-1 code of the language.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> lexicon("en").months["april"]
        4
    """
    code = Language.of(code).code
    entries = json.loads(_file(code).read_text(encoding="utf-8"))
    special = {"numbers", "months", "function_words"}
    lists = (field.name for field in fields(Lexicon) if field.name not in special)
    return Lexicon(
        # A list that is missing in the file of a language is empty.
        **{name: tuple(entries.get(name, ())) for name in lists},
        numbers=entries["numbers"],
        months=entries["months"],
        function_words=frozenset(entries["function_words"]),
    )


@cache
def codes_with_lexicon() -> tuple[str, ...]:
    """Return the codes of the languages with a board whose lexicon exists.

    The lexicon is missing while a language is being added. Until then, texts in other languages
    must not be compared with it.
    """
    return tuple(code for code in LANGUAGES if _file(code).is_file())


def _file(code: str) -> Traversable:
    return resources.files("mirage") / "data" / "lexicon" / f"{code}.json"
