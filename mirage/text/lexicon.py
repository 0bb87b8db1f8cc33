"""The words of a language that simple rules have to know, from a file a language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

from mirage.languages import Language

__all__ = ["Lexicon", "lexicon"]


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """What rules know of one language; every word is in NFC and lower case.

    In the phrases a ``*`` at an end stands for any letters, and `` ... `` for a few words.

    Attributes:
        abstention: phrases that say that a question is not answered.
        contrast: words such as "but" and "instead".
        negation: words and affixes that negate.
        numbers: words for numbers, and what they count.
        months: names of months and their abbreviations, 1 to 12.
        function_words: the commonest words, which say nothing of the matter.
        titles: what stands before names, such as "Dr".
        yes: words that affirm.
        no: words that deny.
        attribution: words that report a belief as that of others, such as "many say".
        falsity: words that call something false, such as "wrong" and "myth".
        truth: words that call something true, such as "in fact".
        exclusion: words that set something apart, such as "instead of" and "unlike".
        alternative: words that leave a choice open, such as "or" and "possibly".
        retraction: words that take back what was said, such as "sorry" and "correction".
        comparison: words that compare, such as "than".
        answer_words: words that introduce an answer, such as "the answer is".
        inferiority: words that put something below what they name, such as "second only to".
        condition: words that introduce a case that need not be real, such as "if".
        cue_free: words that contain one of the words above by chance.
    """

    abstention: tuple[str, ...]
    contrast: tuple[str, ...]
    negation: tuple[str, ...]
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
    cue_free: tuple[str, ...]


@cache
def lexicon(code: str) -> Lexicon:
    """The lexicon of a language, by its ISO 639-1 code.

    Raises:
        UnknownNameError: no such language.
    """
    code = Language.of(code).code
    source = resources.files("mirage") / "data" / "lexicon" / f"{code}.json"
    entries = json.loads(source.read_text(encoding="utf-8"))
    special = {"numbers", "months", "function_words"}
    lists = (field.name for field in fields(Lexicon) if field.name not in special)
    return Lexicon(
        # A list that a language does not have yet is empty.
        **{name: tuple(entries.get(name, ())) for name in lists},
        numbers=entries["numbers"],
        months=entries["months"],
        function_words=frozenset(entries["function_words"]),
    )
