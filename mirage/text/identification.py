"""Identify the languages of a short text from its letters, its words and its context."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from string import ascii_lowercase
from typing import NamedTuple

from mirage._base.memo import Memo
from mirage.languages import ALL_LANGUAGES, LANGUAGES
from mirage.text._trigrams import trigram_logs
from mirage.text.lexicon import codes_with_lexicon, lexicon

__all__ = ["Identification", "identify"]


class Identification(NamedTuple):
    """The share of a text in each language, and how uncertain these shares are.

    Attributes:
        shares: The probable share of the text in each language, by ISO 639-1 code; empty if no word
            of the text belongs to a language.
        doubts: For each language, the share of the text for which it is uncertain whether it is in
            this language.
    """

    shares: Mapping[str, float]
    doubts: Mapping[str, float]


def identify(text: str, code: str, context: tuple[str, ...]) -> Identification:
    """Identify the languages of an answer.

    Args:
        text: The answer, without citations.
        code: ISO 639-1 code of the expected language.
        context: The question, followed by the passages, from which an answer may copy names.

    Returns:
        The share of the answer in each language, and how uncertain each share is.
    """
    shares: defaultdict[str, float] = defaultdict(float)
    doubts: defaultdict[str, float] = defaultdict(float)
    letters = 0
    for words in _stretches(_source(code).sub(" ", text)):
        for script, script_words in _by_script(words).items():
            evidence = _evidence(script, script_words, code, context)
            if evidence is None:
                continue
            weight = sum(map(len, script_words)) * _WEIGHT.get(script, 1)
            letters += weight
            informed, uniform = (_posterior(prior, evidence) for prior in _priors(script, code))
            for language, probability in informed.items():
                shares[language] += weight * probability
                doubts[language] += weight * _is_doubtful(probability, uniform[language])
    # Sums of floats differ between platforms; rounding hides the difference.
    return Identification(
        {language: round(part / letters, 9) for language, part in shares.items()},
        {language: part / letters for language, part in doubts.items()},
    )


def _is_doubtful(probability: float, unprompted: float) -> bool:
    """Return whether a probability is uncertain, or high only because the language was expected.

    Args:
        probability: The probability, given the expected language.
        unprompted: The probability if no language is expected.
    """
    return _LOW < probability < _HIGH or (probability >= _HIGH and unprompted < 0.5)


@cache
def _source(code: str) -> re.Pattern[str]:
    """Return a pattern for addresses and for labels such as "Source:", which fit any language."""
    words = {word for key in ("en", code) for word in ALL_LANGUAGES[key].passage_words}
    label = rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))}|URL)"
    address = r"(?:https?://|www\.)[^\s)\]>]+"
    return re.compile(rf"(?:{label}\s*)?{address}|{label}\s*[:：]", re.IGNORECASE)


# Words and scripts --------------------------------------------------------------------------------

_LATIN = r"A-Za-zªº\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_KANA = r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
_SCRIPTS = {
    "Latin": rf"[{_LATIN}][{_LATIN}\u0300-\u036f]*(?:['’ʼ](?=[{_LATIN}])[{_LATIN}\u0300-\u036f]*)*",
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
# Texts are measured in letters; one character of these scripts counts as several letters.
_WEIGHT = {"Han": 3, "Hangul": 2}
_UNSPACED = {"Han", "Thai"}
_STRETCH = 20  # a sentence with fewer letters is joined with the next one
_FOREIGN_RUN = 3  # at most this many consecutive words in another script are ignored

Word = tuple[str, str]  # script and word


def _stretches(text: str) -> list[list[Word]]:
    """Return the words of each sentence; a short sentence is joined with the next one.

    A short sentence alone has too few words to identify a language.
    """
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
    """Return the words of a sentence by the name of their script.

    Up to three consecutive words in another script than the main one are left out, because they are
    mostly names.
    """
    words_by_script: dict[str, list[str]] = {}
    for script, word in words:
        words_by_script.setdefault(script, []).append(word)
    if len(words_by_script) < 2:
        return words_by_script
    longest: dict[str, float] = {}
    run, before = 0.0, ""
    for script, word in words:
        size = len(word) / 4 if script in _UNSPACED else 1
        run, before = (run + size if script == before else size), script
        longest[script] = max(longest.get(script, 0.0), run)
    letters = {
        name: sum(map(len, script_words)) * _WEIGHT.get(name, 1)
        for name, script_words in words_by_script.items()
    }
    main = max(letters, key=letters.__getitem__)
    return {
        name: script_words
        for name, script_words in words_by_script.items()
        if name == main or longest[name] > _FOREIGN_RUN
    }


# Odds ---------------------------------------------------------------------------------------------

# Natural logarithms. The expected language is the most probable, then English, because models fall
# back to it. Any other language needs more evidence.
_PRIOR_ENGLISH = -1.5
_PRIOR_OTHER = -3.0
_PRIOR_NEIGHBOUR = -5.0
_LOW, _HIGH = 0.2, 0.8  # a probability between them is uncertain
_COMMON_WORD = 3.0  # evidence of one of the language's most common words
_LISTED_WORD = 1.5  # evidence of a number, a month or a word of an abstention
_CONTEXT_WORD = 1.5  # evidence of a word of the question or passages, except names
_FLOOR = 4.0  # maximum evidence of trigrams against a language, plus the next value per letter
_FLOOR_PER_LETTER = 0.3
_TRIGRAM_FACTOR = 0.8  # below 1, as the trigrams of a word are not independent
_TRIGRAM_LETTERS = 60  # maximum number of letters of a sentence whose trigrams are counted
_UNUSUAL_LETTER = 2.0  # evidence against a language that lacks a letter of a word
_SHORTEST_WORD = 4  # unknown words with fewer letters in all are no evidence
_FEW_LETTERS = 12  # if the other words have fewer letters, capitalised words count too


@cache
def _priors(script: str, code: str) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return two mappings from each language of a script to its log prior probability.

    In the first mapping, the language ``code`` is expected, so it is the most probable one. In the
    second mapping, no language is expected.
    """
    writers, neighbours = _candidates(script, code)
    uniform = dict.fromkeys(writers, 0.0) | dict.fromkeys(neighbours, _PRIOR_NEIGHBOUR)
    informed = uniform | dict.fromkeys(writers, _PRIOR_OTHER)
    informed |= {"en": _PRIOR_ENGLISH} if "en" in writers else {}
    informed |= {code: 0.0} if code in writers else {}
    return informed, uniform


@cache
def _candidates(script: str, code: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the supported languages of a script, and unsupported ones that resemble ``code``.

    The unsupported languages are easily mistaken for ``code``, the expected language.
    """
    shared = {"Han": ("Han", "Japanese")}.get(script, (script,))
    # A language without a board is a candidate only if it is expected.
    codes = dict.fromkeys((*codes_with_lexicon(), *filter(None, [code])))
    writers = tuple(key for key in codes if ALL_LANGUAGES[key].script in shared)
    neighbours = ALL_LANGUAGES[code].neighbours if code in writers else ()
    return writers or ("",), neighbours


def _posterior(prior: Mapping[str, float], evidence: Mapping[str, float]) -> dict[str, float]:
    """Return the posterior probability of each language.

    Args:
        prior: Log prior probability of each language.
        evidence: Log likelihood of the words in each language.
    """
    logs = {key: log + evidence.get(key, 0.0) for key, log in prior.items()}
    most = max(logs.values())
    odds = {key: math.exp(log - most) for key, log in logs.items()}
    total = sum(odds.values())
    return {key: value / total for key, value in odds.items()}


def _evidence(
    script: str, words: Sequence[str], code: str, context: tuple[str, ...]
) -> Mapping[str, float] | None:
    """Return the log likelihood of words in each language; ``None`` if they may all be names.

    All words must be in one script. The result is empty if only one language uses the script.
    """
    writers, neighbours = _candidates(script, code)
    if script == "Han":
        return _han_evidence(words)
    if len(writers) + len(neighbours) == 1:
        return {}
    return _alphabet_evidence(script, words, code, context)


def _alphabet_evidence(
    script: str, words: Sequence[str], code: str, context: tuple[str, ...]
) -> Mapping[str, float] | None:
    """Return the log likelihood of words in each language of a script with an alphabet.

    The likelihood is computed from trigrams, word lists and the words of the question and passages.

    Args:
        script: Name of the script.
        words: The words, all in this script.
        code: ISO 639-1 code of the expected language.
        context: The question, followed by the passages.

    Returns:
        The log likelihood by language; ``None`` if all words may be names.
    """
    writers, neighbours = _candidates(script, code)
    extra = _extra_language(code)
    sample, evidence_table = _sample(context, script, code), _evidence_table(script, extra)
    logs: defaultdict[str, float] = defaultdict(float)
    spelled, capitals, hits = [], [], 0
    for position, word in enumerate(words):
        lower = word.casefold()
        if script == "Latin" and _is_name(words, position, sample, context):
            continue
        entry = evidence_table[lower]
        for language, weight in entry.items():
            logs[language] += weight
        if lower in sample.words:
            logs[sample.words[lower]] += _CONTEXT_WORD
        elif not entry:
            if len(word) < 3 or (script == "Latin" and word.isupper()):
                continue  # a unit, an abbreviation
            if position and script == "Latin" and word[0].isupper():
                capitals.append(word)  # often a name
                continue
        # A name such as "Nile" may resemble a rare word of another language.
        is_name = word[0].isupper() and code not in entry
        least = _COMMON_WORD if is_name and script == "Latin" else 0.0
        hits += max(entry.values(), default=-1.0) >= least or lower in sample.words
        spelled.append(word)
    if sum(map(len, spelled)) < _FEW_LETTERS:
        spelled += capitals
    if len(writers) > 1 and not hits and _may_be_names(spelled, script):
        return None
    accented = [word.casefold() for word in spelled if not word.isascii()]
    for language, letters in _alphabets(script, extra).items() if accented else ():
        logs[language] -= _UNUSUAL_LETTER * sum(not letters.issuperset(word) for word in accented)
    # Neighbours have no word lists of their own. They get the evidence of the language that they
    # resemble, so that only trigrams distinguish them.
    logs.update(dict.fromkeys(neighbours, logs[code]))
    for language, log in _trigrams(
        " ".join(spelled)[:_TRIGRAM_LETTERS], script, (*writers, *neighbours)
    ).items():
        logs[language] += _TRIGRAM_FACTOR * log
    return logs


def _may_be_names(words: Sequence[str], script: str) -> bool:
    """Return whether all of the words may be names.

    They may be names if they have few letters in total or, in Latin script, all begin with a
    capital.
    """
    few = sum(map(len, words)) < _SHORTEST_WORD
    return few or (script == "Latin" and all(word[0].isupper() for word in words))


def _is_name(
    words: Sequence[str], position: int, sample: _Sample, context: tuple[str, ...]
) -> bool:
    """Return whether the word at a position belongs to a name from the question or a passage."""
    word = words[position]
    if word[0].isupper():
        return word.casefold() in sample.names
    around = words[max(position - 1, 0) : position + 2]
    if len(word) > 3 or len(around) < 3:
        return False
    phrase = " ".join(around).casefold()
    # Finding all names takes long, and most phrases do not occur.
    return phrase in sample.text and phrase in _names_with_a_particle(context)


def _trigrams(text: str, script: str, languages: tuple[str, ...]) -> Mapping[str, float]:
    """Return the log probability of each language from trigrams, raised to a floor if lower."""
    if len(languages) < 2:
        return {}
    # Even one word with a letter that a language lacks can make its probability 0.
    floor = -_FLOOR - _FLOOR_PER_LETTER * len(text)
    logs = trigram_logs(text, script, languages)
    return {language: max(floor, log) for language, log in logs.items()}


# Known words --------------------------------------------------------------------------------------

_LETTERS = re.compile("|".join(f"(?:{pattern})" for pattern in _SCRIPTS.values()))
_ANYWHERE = (
    ascii_lowercase
    + "'’ʼ\u200c\u200d"
    + "".join(map(chr, (*range(0x300, 0x370), *range(0x64B, 0x660))))
)
_MARKS = re.compile(r"[\u0300-\u036f\u064b-\u065f]")


def _extra_language(code: str) -> str:
    """Return the expected language if it has no bundled leaderboard, else an empty string."""
    return "" if code in LANGUAGES else code


@cache
def _word_evidence(script: str, extra: str = "") -> dict[str, dict[str, float]]:
    """Return the evidence that each known word gives for each language of a script.

    Known words are those in the lexicons of the languages. Evidence is a number that is added to
    the log likelihood of a language.

    Args:
        script: The script.
        extra: An expected language without a bundled leaderboard, from :func:`_extra_language`.
    """
    evidence: dict[str, dict[str, float]] = {}
    for language in _candidates(script, extra)[0]:
        words = lexicon(language)
        common = {*words.function_words, *words.negation, *words.yes, *words.no, *words.contrast}
        rest = {*words.numbers, *words.months, *words.abstention}
        for phrases, weight in ((rest, _LISTED_WORD), (common, _COMMON_WORD)):
            for word in _whole_words(phrases):
                forms = [] if word.isascii() else [(_without_accents(word), weight / 2)]
                for form, part in (*forms, (word, weight)):
                    entry = evidence.setdefault(form, {})
                    entry[language] = max(part, entry.get(language, 0.0))
    return evidence


@cache
def _alphabets(script: str, extra: str = "") -> Mapping[str, frozenset[str]]:
    """Return the letters that each language of a script uses, taken from its word lists.

    ``extra`` is as in :func:`_word_evidence`.
    """
    return {
        language: frozenset(_ANYWHERE).union(
            *(word for word, entry in _word_evidence(script, extra).items() if language in entry)
        )
        for language in _candidates(script, extra)[0]
    }


def _whole_words(phrases: Iterable[str]) -> Iterator[str]:
    for phrase in phrases:
        for word in phrase.split():
            if "*" not in word and _LETTERS.fullmatch(word):
                yield word.casefold()


def _evidence_of_word(script: str, word: str, extra: str = "") -> Mapping[str, float]:
    """Return the evidence that a word gives for each language, as in :func:`_word_evidence`.

    If the word is in no word list, the part before or after an apostrophe is looked up, or the word
    without accents.
    """
    evidence = _word_evidence(script, extra)
    if word in evidence:
        return evidence[word]
    head, mark, tail = word.replace("’", "'").partition("'")
    if mark:
        return evidence.get(head + mark) or evidence.get(tail) or evidence.get(head, {})
    return evidence.get(_without_accents(word), {}) if not word.isascii() else {}


@cache
def _evidence_table(script: str, extra: str) -> Memo[str, Mapping[str, float]]:
    return Memo(lambda word: _evidence_of_word(script, word, extra))


def _without_accents(word: str) -> str:
    return _MARKS.sub("", unicodedata.normalize("NFD", word))


_NAME_WITH_A_PARTICLE = re.compile(
    r"[A-Z\u00c0-\u00de][\w'’]* [a-z]{1,3} [A-Z\u00c0-\u00de][\w'’]*"
)


class _Sample(NamedTuple):
    """The words and names of the question and the passages.

    Attributes:
        words: The words that are not names, each with its language.
        names: The words that occur only with a capital.
        text: The question and the passages in lower case.
    """

    words: Mapping[str, str]
    names: frozenset[str]
    text: str


@lru_cache(maxsize=256)
def _sample(context: tuple[str, ...], script: str, code: str) -> _Sample:
    """Return the words and names that a response may borrow from its question and passages.

    Args:
        context: The question, followed by the texts of the passages. The language of the passages
            is identified from their words.
        script: Name of the script; only words in this script are returned.
        code: The expected language, in which the question is assumed to be.
    """
    extra = _extra_language(code)
    words: dict[str, str] = {}
    names: set[str] = set()
    languages = {code, "en"}
    for texts, language in ((context[1:], ""), (context[:1], code)):
        script_words = set(_script_pattern(script).findall("\n".join(texts)))
        ordinary = {word for word in script_words if not word[0].isupper()}
        names.update(map(str.casefold, script_words - ordinary))
        sample_language = language or _language_of(ordinary, script, extra) or code
        words |= {word: sample_language for word in ordinary if len(word) > 2}
        languages.add(sample_language)
    # A capital may begin a sentence. A name such as "Nile" may be a word of another language.
    evidence = _word_evidence(script, extra)
    names = {
        name for name in names.difference(words) if languages.isdisjoint(evidence.get(name, ()))
    }
    return _Sample(words, frozenset(names), "\n".join(context).casefold())


@lru_cache(maxsize=256)
def _names_with_a_particle(context: tuple[str, ...]) -> frozenset[str]:
    """Return the names with a particle, such as "leonardo da vinci", in lower case."""
    return frozenset(map(str.casefold, _NAME_WITH_A_PARTICLE.findall("\n".join(context))))


@cache
def _script_pattern(script: str) -> re.Pattern[str]:
    """Return a pattern that matches the words of a script."""
    return re.compile(_SCRIPTS[script])


def _language_of(words: Set[str], script: str, extra: str) -> str:
    """Return the code of the language for which the words give the most evidence; empty if none."""
    logs: defaultdict[str, float] = defaultdict(float)
    table, listed = _evidence_table(script, extra), _word_evidence(script, extra)
    # Most words are in no word list, and few of them may get the evidence of another form.
    known = [word for word in words if word in listed or "'" in word or not word.isascii()]
    # The order in which floats are added must not depend on the order of a set.
    for word in sorted(known):
        for language, weight in table[word].items():
            logs[language] += weight
    return max(logs, key=logs.__getitem__) if logs else ""


# Chinese and Japanese -----------------------------------------------------------------------------

_KANA_LETTER = re.compile(f"[{_KANA}]")


def _han_evidence(words: Sequence[str]) -> Mapping[str, float]:
    """Return a mapping from ``ja`` to the log evidence that words are Japanese and not Chinese.

    The evidence is based on two facts. Chinese is written without kana, but Japanese contains kana
    between every few characters. Some characters are in only one country's standard: GB 2312 for
    simplified characters, Big5 for traditional characters and JIS X 0208 for Japanese characters.
    """
    text = "".join(words)
    kana = len(_KANA_LETTER.findall(text))
    log = 3.0 * kana
    for character in _KANA_LETTER.sub("", text):
        log += _japanese_evidence(character)
    return {"ja": log}


@cache
def _japanese_evidence(character: str) -> float:
    """Return the log evidence for Japanese that a character gives.

    The evidence depends on the national standards that include the character.
    """
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
