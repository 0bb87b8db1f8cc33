"""Which language a short text is in, from what is known beside its letters."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from string import ascii_lowercase
from typing import Any, NamedTuple

from mirage.languages import LANGUAGES
from mirage.text.lexicon import lexicon

__all__ = ["Identification", "identify"]


class Identification(NamedTuple):
    """What a text says of its language.

    Attributes:
        shares: the share of the text that is probably in each language, by ISO 639-1 code; empty
            where nothing in it belongs to a language.
        doubts: the share of the text that leaves open whether it is in that language.
    """

    shares: Mapping[str, float]
    doubts: Mapping[str, float]


def identify(text: str, code: str, context: tuple[str, ...]) -> Identification:
    """The languages of an answer without citations.

    Args:
        text: the answer.
        code: the language that is expected.
        context: the question and the passages, from which an answer copies names.
    """
    shares: defaultdict[str, float] = defaultdict(float)
    doubts: defaultdict[str, float] = defaultdict(float)
    letters = 0
    for words in _stretches(text):
        for script, spoken in _by_script(words).items():
            evidence = _evidence(script, spoken, code, context)
            if evidence is None:
                continue
            weight = sum(map(len, spoken)) * _WEIGHT.get(script, 1)
            letters += weight
            led, even = (_posterior(prior, evidence) for prior in _priors(script, code))
            for language, probability in led.items():
                shares[language] += weight * probability
                doubts[language] += weight * _is_open(probability, even[language])
    # lingua adds up in an order that differs from call to call; the rounding hides its last bits.
    return Identification(
        {language: round(part / letters, 9) for language, part in shares.items()},
        {language: part / letters for language, part in doubts.items()},
    )


def _is_open(probability: float, unprompted: float) -> bool:
    """Whether that says little, or says much only because the language was expected."""
    return _LOW < probability < _HIGH or (probability >= _HIGH and unprompted < 0.5)


# Words and scripts --------------------------------------------------------------------------------

_LATIN = r"A-Za-zªº\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_KANA = r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
_SCRIPTS = {
    "Latin": rf"[{_LATIN}](?:[{_LATIN}\u0300-\u036f]|['’ʼ](?=[{_LATIN}]))*",
    "Cyrillic": r"[\u0400-\u052f]+",
    "Arabic": r"[\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\ufb50-\ufefc]+",
    "Devanagari": r"[\u0900-\u0963\u0971-\u097f\u200c\u200d]+",
    "Bengali": r"[\u0980-\u09e5\u09f0-\u09ff\u200c\u200d]+",
    "Telugu": r"[\u0c00-\u0c65\u0c70-\u0c7f\u200c\u200d]+",
    "Thai": r"[\u0e01-\u0e3a\u0e40-\u0e4e]+",
    "Hangul": r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]+",
    "Han": rf"[{_KANA}\u3005\u3400-\u9fff\uf900-\ufaff]+",
    "other": r"[^\W\d_]+",
}
_WORD = re.compile(
    "|".join(f"(?P<{name}>{pattern})" for name, pattern in _SCRIPTS.items())
    + r"|(?P<end>[.!?…。！？।۔؟\n])"
)
# Letters are counted; one of these says as much as two or three of an alphabet.
_WEIGHT = {"Han": 3, "Hangul": 2}
_UNSPACED = {"Han", "Thai"}
_STRETCH = 20  # letters, from which on a sentence is rated by itself
_FOREIGN_RUN = 3  # words of another script that a text may hold without being in two languages

Word = tuple[str, str]  # its script and itself


def _stretches(text: str) -> list[list[Word]]:
    """The words of the text's sentences; short ones are joined, so that a stretch tells much."""
    stretches: list[list[Word]] = [[]]
    letters = 0
    for match in _WORD.finditer(text):
        script, word = match.lastgroup or "", match[0]
        if script != "end":
            stretches[-1].append((script, word))
            letters += len(word) * _WEIGHT.get(script, 1)
        elif letters >= _STRETCH:
            stretches.append([])
            letters = 0
    if letters < _STRETCH and len(stretches) > 1:
        tail = stretches.pop()
        stretches[-1] += tail
    return stretches


def _by_script(words: Sequence[Word]) -> Mapping[str, Sequence[str]]:
    """The words by script, without the names that a text takes from another script."""
    found: dict[str, list[str]] = {}
    longest: dict[str, float] = {}
    run, before = 0.0, ""
    for script, word in words:
        found.setdefault(script, []).append(word)
        size = len(word) / 4 if script in _UNSPACED else 1
        run, before = (run + size if script == before else size), script
        longest[script] = max(longest.get(script, 0.0), run)
    if len(found) < 2:
        return found
    letters = {name: sum(map(len, these)) * _WEIGHT.get(name, 1) for name, these in found.items()}
    main = max(letters, key=letters.__getitem__)
    return {
        name: these for name, these in found.items() if name == main or longest[name] > _FOREIGN_RUN
    }


# Odds ---------------------------------------------------------------------------------------------

# Natural logarithms. What is asked for comes first, English is what models fall back into, and a
# language that nobody asked about needs more words to be believed.
_PRIOR_ENGLISH = -1.5
_PRIOR_OTHER = -3.0
_PRIOR_NEIGHBOUR = -5.0
_LOW, _HIGH = 0.2, 0.8  # between them a probability leaves the question open
_COMMON = 3.0  # a word that is among the commonest of the language
_KNOWN = 1.5  # a number, a month, a word that abstains
_SAID = 1.5  # a word that the question and passages use, other than names
_LEAST = 4.0  # what letters alone can say against a language, and more with each letter
_LEAST_A_LETTER = 0.3
_TRUST = 0.8  # trigrams of a word hang together, so that they say less than their product
_ENOUGH = 60  # letters of a sentence that are looked at by threes
_STRANGE = 2.0  # a word with a letter that the language does not have
_WORD_ALONE = 4  # letters, below which an unknown word says nothing
_FEW = 12  # letters of plain words, below which capitalised ones are heard too


@cache
def _priors(script: str, code: str) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Of the languages of a script, where ``code`` is expected, and where none of the table is."""
    writers, neighbours = _candidates(script, code)
    even = dict.fromkeys(writers, 0.0) | dict.fromkeys(neighbours, _PRIOR_NEIGHBOUR)
    led = even | dict.fromkeys(writers, _PRIOR_OTHER)
    led |= {"en": _PRIOR_ENGLISH} if "en" in writers else {}
    led |= {code: 0.0} if code in writers else {}
    return led, even


@cache
def _candidates(script: str, code: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The languages of the table that write a script, and neighbours of the expected one."""
    shared = {"Han": ("Han", "Japanese")}.get(script, (script,))
    writers = tuple(entry.code for entry in LANGUAGES.values() if entry.script in shared)
    neighbours = LANGUAGES[code].neighbours if code in writers else ()
    return writers or ("",), neighbours


def _posterior(prior: Mapping[str, float], evidence: Mapping[str, float]) -> dict[str, float]:
    logs = {key: log + evidence.get(key, 0.0) for key, log in prior.items()}
    most = max(logs.values())
    odds = {key: math.exp(log - most) for key, log in logs.items()}
    total = sum(odds.values())
    return {key: value / total for key, value in odds.items()}


def _evidence(
    script: str, words: Sequence[str], code: str, context: tuple[str, ...]
) -> Mapping[str, float] | None:
    """What words of one script say for each language; ``None`` where they are names alone."""
    writers, neighbours = _candidates(script, code)
    if script == "Han":
        return _han(words)
    if len(writers) + len(neighbours) == 1:
        return {}
    return _alphabetic(script, words, code, context)


def _alphabetic(
    script: str, words: Sequence[str], code: str, context: tuple[str, ...]
) -> Mapping[str, float] | None:
    """What trigrams, common words and words of the question say; ``None`` for names alone."""
    writers, neighbours = _candidates(script, code)
    sample = _sample(context, script, code)
    logs: defaultdict[str, float] = defaultdict(float)
    spelled, capitals, hits = [], [], 0
    for place, word in enumerate(words):
        lower = word.casefold()
        if script == "Latin" and _is_name(words, place, sample):
            continue
        entry = _known_in(script, lower)
        for language, weight in entry.items():
            logs[language] += weight
        if lower in sample.words:
            logs[sample.words[lower]] += _SAID
        elif not entry:
            if len(word) < 3 or (script == "Latin" and word.isupper()):
                continue  # a unit, an abbreviation
            if place and script == "Latin" and word[0].isupper():
                capitals.append(word)  # often a name
                continue
        hits += bool(entry) or lower in sample.words
        spelled.append(word)
    if sum(map(len, spelled)) < _FEW:
        spelled += capitals
    if len(writers) > 1 and not hits and _may_be_names(spelled, script):
        return None
    accented = [word.casefold() for word in spelled if not word.isascii()]
    for language, letters in _alphabets(script).items() if accented else ():
        logs[language] -= _STRANGE * sum(not letters.issuperset(word) for word in accented)
    # The neighbours have no lists of words here; they share those of the language that they
    # resemble, so that letters alone tell them apart.
    logs.update(dict.fromkeys(neighbours, logs[code]))
    for language, log in _trigrams(" ".join(spelled)[:_ENOUGH], (*writers, *neighbours)).items():
        logs[language] += _TRUST * log
    return logs


def _may_be_names(words: Sequence[str], script: str) -> bool:
    few = sum(map(len, words)) < _WORD_ALONE
    return few or (script == "Latin" and all(word[0].isupper() for word in words))


def _is_name(words: Sequence[str], place: int, sample: _Sample) -> bool:
    """Whether a word is copied from a name in the question or a passage."""
    word = words[place]
    if word[0].isupper():
        return word.casefold() in sample.names
    around = words[max(place - 1, 0) : place + 2]
    return len(word) < 4 and len(around) == 3 and " ".join(around).casefold() in sample.phrases


def _trigrams(text: str, languages: tuple[str, ...]) -> Mapping[str, float]:
    """The logarithms of lingua's confidence in each language."""
    if len(languages) < 2:
        return {}
    values = _detector(languages).compute_language_confidence_values(text)
    if not any(value.value for value in values):
        return {}
    # lingua leaves out languages that lack one of the letters, also where one word of many has it.
    least = -_LEAST - _LEAST_A_LETTER * len(text)
    return {
        value.language.iso_code_639_1.name.lower(): max(least, math.log(value.value or 1e-300))
        for value in values
    }


@cache
def _detector(languages: tuple[str, ...]) -> Any:
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    # Trigrams alone, which lingua calls low accuracy, load in a tenth of a second. All its n-grams
    # take seconds and 0.9 GB.
    codes = [getattr(IsoCode639_1, code.upper()) for code in languages]
    return LanguageDetectorBuilder.from_iso_codes_639_1(*codes).with_low_accuracy_mode().build()


# Known words --------------------------------------------------------------------------------------

_LETTERS = re.compile("|".join(f"(?:{pattern})" for pattern in _SCRIPTS.values()))
_ANYWHERE = (
    ascii_lowercase
    + "'’ʼ\u200c\u200d"
    + "".join(map(chr, (*range(0x300, 0x370), *range(0x64B, 0x660))))
)
_MARKS = re.compile(r"[\u0300-\u036f\u064b-\u065f]")


@cache
def _known_words(script: str) -> Mapping[str, Mapping[str, float]]:
    """By word, in which languages of a script it is common and how much that says."""
    known: dict[str, dict[str, float]] = {}
    for language in _candidates(script, "")[0]:
        words = lexicon(language)
        common = {*words.function_words, *words.negation, *words.yes, *words.no, *words.contrast}
        rest = {*words.numbers, *words.months, *words.abstention}
        for phrases, weight in ((rest, _KNOWN), (common, _COMMON)):
            for word in _whole_words(phrases):
                for form, part in ((_plain(word), weight / 2), (word, weight)):
                    entry = known.setdefault(form, {})
                    entry[language] = max(part, entry.get(language, 0.0))
    return known


@cache
def _alphabets(script: str) -> Mapping[str, frozenset[str]]:
    """The letters of each language of a script, as the words that are known of it have them."""
    return {
        language: frozenset(_ANYWHERE).union(
            *(word for word, entry in _known_words(script).items() if language in entry)
        )
        for language in _candidates(script, "")[0]
    }


def _whole_words(phrases: Iterable[str]) -> Iterator[str]:
    for phrase in phrases:
        for word in phrase.split():
            if "*" not in word and _LETTERS.fullmatch(word):
                yield word.casefold()


@lru_cache(maxsize=8192)
def _known_in(script: str, word: str) -> Mapping[str, float]:
    """In which languages a word is known, as it is, by a part of it, or without its accents."""
    known = _known_words(script)
    if word in known:
        return known[word]
    head, mark, tail = word.replace("’", "'").partition("'")
    if mark:
        return known.get(head + mark) or known.get(tail) or known.get(head, {})
    return known.get(_plain(word), {}) if not word.isascii() else {}


def _plain(word: str) -> str:
    return _MARKS.sub("", unicodedata.normalize("NFD", word))


_NAME_WITH_A_PARTICLE = re.compile(
    r"[A-Z\u00c0-\u00de][\w'’]* [a-z]{1,3} [A-Z\u00c0-\u00de][\w'’]*"
)


class _Sample(NamedTuple):
    """What the question and the passages hold: words, with the language they are in, and names."""

    words: Mapping[str, str]
    names: frozenset[str]
    phrases: frozenset[str]


@lru_cache(maxsize=256)
def _sample(context: tuple[str, ...], script: str, code: str) -> _Sample:
    """The question, which comes first, is in its language; the passages may be in another."""
    words: dict[str, str] = {}
    names: set[str] = set()
    phrases = {
        match[0].casefold() for text in context for match in _NAME_WITH_A_PARTICLE.finditer(text)
    }
    for texts, language in ((context[1:], ""), (context[:1], code)):
        found = {match[0] for text in texts for match in re.finditer(_SCRIPTS[script], text)}
        ordinary = {word for word in found if not word[0].isupper()}
        names |= {word.casefold() for word in found - ordinary}
        spoken = language or _language_of(ordinary, script) or code
        words |= {word: spoken for word in ordinary if len(word) > 2}
    return _Sample(
        words, frozenset(names - words.keys() - _known_words(script).keys()), frozenset(phrases)
    )


def _language_of(words: Iterable[str], script: str) -> str:
    logs: defaultdict[str, float] = defaultdict(float)
    for word in sorted(words):
        for language, weight in _known_in(script, word).items():
            logs[language] += weight
    return max(logs, key=logs.__getitem__) if logs else ""


# Chinese and Japanese -----------------------------------------------------------------------------

_KANA_LETTER = re.compile(f"[{_KANA}]")


def _han(words: Sequence[str]) -> Mapping[str, float]:
    """What kana, and characters that one country's standard alone has, say.

    Chinese is written without kana; Japanese puts some between every few characters. The
    standards are GB 2312 for simplified characters, Big5 for traditional ones and JIS X 0208.
    """
    text = "".join(words)
    kana = len(_KANA_LETTER.findall(text))
    log = 3.0 * kana
    for character in _KANA_LETTER.sub("", text):
        log += _japanese(character)
    return {"ja": log}


@cache
def _japanese(character: str) -> float:
    in_japan, in_china, in_taiwan = (
        _encodes(character, standard) for standard in ("shift_jis", "gb2312", "big5")
    )
    if in_japan and not in_china and not in_taiwan:
        return 3.0
    return -0.4 if in_japan else -3.0


def _encodes(character: str, standard: str) -> bool:
    try:
        character.encode(standard)
    except UnicodeEncodeError:
        return False
    return True
