"""Analyzers: how lexical search splits a text into terms, such as words, stems or bigrams."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

from mirage._base.packages import package
from mirage.errors import SettingError
from mirage.languages import LANGUAGES, Language
from mirage.text.lexicon import lexicon
from mirage.text.tokens import UNSPACED, token_runs, tokenize

__all__ = ["Analysis", "Analyzer", "analysis"]

Analyzer = Literal["words", "stop", "stems", "trigrams", "bigrams", "best"]
"""How texts are split into terms.

``words``: the tokens of :func:`mirage.text.tokenize`. ``stop``: words without function words.
``stems``: these words, reduced to stems by Snowball. ``trigrams``: the sequences of three
neighbouring characters of these words, and shorter words as they are (McNamee and Mayfield 2004,
"Character n-gram tokenization for European language text retrieval"). ``bigrams``: the characters,
and pairs of neighbouring characters, of scripts without spaces and of Hangul. ``best``: the
analyzer with the highest mean nDCG@10 for the language on judged topics and bundled questions.
"""

_WITHOUT_STOP_WORDS = ("stop", "stems", "trigrams")


class Analysis(NamedTuple):
    """An analyzer for texts in one language or in several; call it with a text to get its terms.

    Attributes:
        analyzer: The name of the analyzer. If ``best`` was requested, it is the name of the
            analyzer that ``best`` selects for the language.
        language: The language, or ``None`` for texts in several languages.

    Example:
        >>> Analysis("stop", "en")("Where is the Nile?")
        ['nile']
        >>> Analysis("trigrams", "fi")("Niilin pituus")
        ['nii', 'iil', 'ili', 'lin', 'pit', 'itu', 'tuu', 'uus']
        >>> Analysis("bigrams", "ja")("ナイル川 6650")
        ['ナ', 'イ', 'ル', '川', 'ナイ', 'イル', 'ル川', '6650']
    """

    analyzer: Analyzer
    language: str | None

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text, in order and with repetitions."""
        if self.analyzer == "bigrams":
            return _bigrams(text, self.language)
        terms = tokenize(text, self.language)
        if self.analyzer == "words" or self.language is None:
            return terms
        ordinary = _stop_words(self.language)
        # A text of nothing but stop words, such as "To be or not to be", keeps them.
        terms = [term for term in terms if term not in ordinary] or terms
        if self.analyzer == "stop":
            return terms
        if self.analyzer == "trigrams":
            return [gram for term in terms for gram in _trigrams(term)]
        stems = _stemmer(self.language).stemWords(terms)
        spellings = _spellings(self.language)
        return [stem.translate(spellings) for stem in stems]

    @property
    def identity(self) -> list[str]:
        """Strings that identify the analyzer and its stop words; empty for ``words``.

        Two analyzers for the same language return equal terms if these strings are equal.
        """
        if self.analyzer == "words":
            return []
        parts: list[str] = [self.analyzer]
        if self.analyzer in _WITHOUT_STOP_WORDS and self.language is not None:
            variants = Language.of(self.language).spelling_variants
            table = "\n".join((*sorted(_stop_words(self.language)), *variants))
            parts.append(hashlib.sha256(table.encode()).hexdigest())
        return [*parts, version("PyStemmer")] if self.analyzer == "stems" else parts


def analysis(analyzer: str, language: str | None) -> Analysis:
    """Return the analyzer with this name for texts in a language.

    Args:
        analyzer: Name of the analyzer, such as ``words`` or ``stems``; ``best`` selects one for the
            language.
        language: ISO 639-1 code of the language; ``None`` for texts in several languages.

    Raises:
        SettingError: The name is unknown, or there is no such analyzer for the language.
        MissingPackageError: ``stems`` needs the package PyStemmer (extra ``retrieval``).

    Example:
        >>> analysis("best", "zh")
        Analysis(analyzer='bigrams', language='zh')
    """
    if analyzer not in get_args(Analyzer):
        names = ", ".join(get_args(Analyzer))
        raise SettingError(f"analyzer must be one of {names}, got analyzer={analyzer!r}")
    row = None if language is None else Language.of(language)
    if analyzer == "best":
        analyzer = "words" if row is None else row.analyzer
    if analyzer in _WITHOUT_STOP_WORDS and row is None:
        raise SettingError(
            f"analyzer={analyzer!r} needs the language of the texts; set language=, or use 'words'"
        )
    if analyzer == "stems" and row is not None:
        if not row.stemmer:
            codes = ", ".join(each.code for each in LANGUAGES.values() if each.stemmer)
            raise SettingError(
                f"there is no stemmer for {row.code}, only for {codes}; use analyzer='best'"
            )
        _stemmer(row.code)  # raises an error if the package is missing
    chosen: Any = analyzer
    return Analysis(chosen, None if row is None else row.code)


@cache
def _stemmer(code: str) -> Any:
    return package("Stemmer").Stemmer(Language.of(code).stemmer)


@cache
def _spellings(code: str) -> dict[int, str]:
    variants = Language.of(code).spelling_variants
    return {ord(variant[0]): variant[1:] for variant in variants}


@cache
def _stop_words(code: str) -> frozenset[str]:
    """Return the function words of a language; none if its tokens are characters."""
    if Language.of(code).tokens == "character":
        return frozenset()
    return frozenset(
        token for word in lexicon(code).function_words for token in tokenize(word, code)
    )


def _trigrams(word: str) -> list[str]:
    """Return the sequences of three characters in a word; a shorter word is returned whole."""
    return [word[start : start + 3] for start in range(max(1, len(word) - 2))]


_HANGUL = re.compile("[\uac00-\ud7a3]+")
_UNSPACED = re.compile(f"[{UNSPACED}]")


def _bigrams(text: str, language: str | None) -> list[str]:
    terms: list[str] = []
    for run in token_runs(text, language):
        characters: list[str] = []
        for token in (*run, ""):
            if _UNSPACED.match(token):
                characters.append(token)
            elif _HANGUL.fullmatch(token):
                characters += token
            else:
                terms += characters
                terms += map("".join, pairwise(characters))
                characters = []
                terms += [token] if token else []
    return terms
