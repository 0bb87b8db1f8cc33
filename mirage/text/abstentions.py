"""Estimate whether an answer abstains, that is, states that the question is not answered.

A list of fixed phrases ("there is no information on") does not cover the wordings that models use
("that figure is missing here", "Pisa's stairs nobody counts in these texts"). A phrase alone also
cannot distinguish an abstention from an answer with a caveat.

Therefore each sentence is searched for words of a few classes: negation, telling (such as
"mention"), sources (such as "passage"), lacking (such as "missing"), the speaker, limits, contrast,
nobody or never, and customer service (such as "colleague"). Two further classes mark exceptions:
worldly words for telling, which often state facts about the world ("find", "contain"), and vague
sources, which need not be passages ("here"). From these words, numeric features called signs are
computed. A sign describes which classes occur together, which words come before and after them, or
how many words the answer has that are not in the question. Boosted trees (Friedman 2001, *Greedy
function approximation*) predict from the signs whether the answer abstains. The trees use no words
and are the same for all languages; ``corpora/abstentions.py`` trains them. A rule detects answers
of customer service only, such as "a colleague will email you", which also abstain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, reduce
from operator import or_
from typing import NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text._trees import Forest, forest, packaged_json
from mirage.text.lexicon import lexicon
from mirage.text.mentions import bare
from mirage.text.tokens import tokenize

__all__ = ["ABSTAINS_AT", "SIGNS", "abstains", "signs"]

ABSTAINS_AT = 0.5
"""Minimum probability at which a text counts as an abstention."""

SIGNS = (
    # In the first sentence: a fixed phrase; a negation; a negation with a word for telling; a
    # negation with a word for a source; a word for lacking; this word with a word for telling; a
    # negation with the speaker; words for telling and for a source; both of them negated; the
    # numbers of new and of repeated words.
    *("phrase", "negation", "not_told", "not_in_sources", "lacking", "telling_lacks"),
    *("speaker_cannot", "telling_sources", "not_told_in_sources", "first_new", "first_asked"),
    *("first_near", "opens_with_phrase", "verdict"),
    # In any sentence, or in the last one.
    *("any_phrase", "any_negation", "any_not_told", "any_not_in_sources"),
    *("any_lacking", "any_speaker_cannot", "last_not_told", "last_lacking", "limits", "contrast"),
    # Words before, in and outside of cues, which are the parts that may state the abstention.
    *("new_before", "figures_before", "new_in", "asked_in", "new_beside", "asked_beside"),
    *("contrast_after", "nearest", "opens_with_cue", "told_before", "turns"),
    # Words in plain parts, which state facts, and in denied parts, which contain a negation but no
    # word for telling.
    *("plain_before", "plain_after", "plain_figures", "plain_asked", "plain_turns"),
    *("denied_new", "denied_asked", "denied_first", "denied_turns", "denied_after_told"),
    *("lacks_untold", "nobody", "nobody_told", "nobody_denied", "limited", "limited_first"),
    # Facts about the whole text: the kind of its first part, and the share of cues.
    *("first_plain", "first_told", "told_new", "cues", "pieces", "cue_share", "asked_share"),
    # Words in sentences about the world, which have no words for telling, sources or the speaker.
    *("world_new", "world_figures", "world_first", "world_last", "world_denial"),
    # What distinguishes "they found no defects" from "the passages mention no defects": new numbers
    # in cues; words for telling that are not in the question, and those of them that are seldom
    # about the world; one that is in the question; words for passages; the speaker.
    *("figures_in", "told_words", "explicit_words", "near_explicit", "asked_telling"),
    *("cue_documents", "opens_document", "any_document", "any_speaker"),
    # In the last sentence, which may decline after a summary: as in the first one.
    *("last_phrase", "last_not_in_sources", "last_speaker_cannot", "last_figures", "last_near"),
    "last_cues",
)
"""Names of the features (signs) of an answer, in the order of :func:`signs`."""


def abstains(text: str, language: str | Language, *, question: str = "") -> float:
    """Return the probability that an answer states that the question is not answered.

    An answer abstains if the probability is at least :data:`ABSTAINS_AT`. An abstention may mention
    related facts ("they tell when it was built, but not by whom"). An answer with a caveat ("it is
    the Nile; its length is not given") and an answer that denies a fact are not abstentions.
    Sentences in English are recognised too, whatever ``language`` is.

    Args:
        text: Answer, without its citations.
        language: Language that the answer should be in.
        question: Question. It helps to distinguish repeated words of the question from new
            information.

    Returns:
        A probability from 0 to 1; 0 if the text has no words.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> text = "The passages do not mention its length."
        >>> abstains(text, "en", question="How long is the Nile?") >= ABSTAINS_AT
        True
        >>> abstains("It is 6,650 km long.", "en", question="How long is the Nile?") >= ABSTAINS_AT
        False
    """
    values = signs(text, language, question=question)
    probability = 1 / (1 + math.exp(-_trees().margin(values))) if any(values) else 0.0
    if probability < _SERVICE_CERTAINTY and _is_service(text, Language.of(language), question):
        return _SERVICE_CERTAINTY
    return probability


# Words --------------------------------------------------------------------------------------------

_CLASSES = (
    *("negation", "contrast", "telling", "sources", "lacking", "speaker", "limits", "nobody"),
    *("worldly", "vague", "service"),
)
_NEGATION, _CONTRAST, _TELLING, _SOURCES, _LACKING, _SPEAKER, _LIMITS, _NOBODY, _WORLDLY, _VAGUE = (
    1 << position for position in range(10)
)
_SERVICE = 1 << 10
_DENIAL = _NEGATION | _LACKING
_TELLING_CLASSES = _TELLING | _SOURCES | _SPEAKER
_NO_MATCH = re.compile("(?!)")
_REACH_WORDS, _REACH_CHARACTERS = 40, 12  # most characters that `` ... `` in a phrase matches
_STEM = 5  # letters that a word must share with a word of the question to count as repeated
_DENSE_MARKS = 0.12  # share of accented letters above which accents are kept


class _Phrase(NamedTuple):
    parts: tuple[str, ...]
    starts_inside_word: bool
    ends_inside_word: bool


class _Words(NamedTuple):
    """The word lists of a language, folded like the texts that they are compared with.

    Each word class, such as negation, is one bit. A set of classes is stored as an integer.
    """

    entry: Language
    marked: bool  # whether accents are kept
    gap: str  # separator of words: a space, or nothing in scripts without spaces
    scale: float  # number of words that one character counts as
    phrases: tuple[_Phrase, ...]
    whole: Mapping[str, int]  # word classes of whole words
    begins: Sequence[tuple[int, tuple[str, ...]]]  # a class, and the beginnings of its words
    ends: Sequence[tuple[int, tuple[str, ...]]]
    inside: Sequence[tuple[int, tuple[str, ...]]]
    runs: Sequence[tuple[str, int]]  # several words or characters, and their word classes
    contrast_patterns: tuple[re.Pattern[str], re.Pattern[str]]  # where a part begins, where it ends
    function_words: frozenset[str]
    verdicts: frozenset[str]  # yes and no


@cache
def _words(code: str, marked: bool = False) -> _Words:
    entry, language_lexicon, extra_lists = (
        Language.with_board(code),
        lexicon(code),
        packaged_json("abstentions.json")[code],
    )
    gap = "" if entry.tokens == "character" else " "
    whole: dict[str, int] = {}
    runs: dict[str, int] = {}
    affixes: dict[str, dict[int, list[str]]] = {"begins": {}, "ends": {}, "inside": {}}
    for bit, word in _iter_classified_words(entry):
        starts_inside_word, ends_inside_word = word.startswith("*"), word.endswith("*")
        for text in _forms(word, entry, marked):
            if not gap:
                runs[text] = runs.get(text, 0) | bit
            elif gap in text:
                run = f"{'' if starts_inside_word else gap}{text}{'' if ends_inside_word else gap}"
                runs[run] = runs.get(run, 0) | bit
            elif starts_inside_word or ends_inside_word:
                position = (
                    "inside"
                    if starts_inside_word and ends_inside_word
                    else "ends"
                    if starts_inside_word
                    else "begins"
                )
                affixes[position].setdefault(bit, []).append(text)
            else:
                whole[text] = whole.get(text, 0) | bit
    contrast_patterns = _contrast_patterns(
        language_lexicon.contrast, extra_lists["limits"], entry, marked
    )
    function_words = [
        f for word in language_lexicon.function_words for f in _forms(word, entry, marked)
    ]
    return _Words(
        entry=entry,
        marked=marked,
        gap=gap,
        scale=1.0 if gap else len(function_words) / sum(map(len, function_words)),
        phrases=tuple(_phrases(language_lexicon.abstention, entry, marked)),
        whole=whole,
        runs=tuple(runs.items()),
        contrast_patterns=contrast_patterns,
        function_words=frozenset(function_words),
        verdicts=frozenset(
            f
            for w in (*language_lexicon.yes, *language_lexicon.no)
            for f in _forms(w, entry, marked)
        ),
        **{
            position: [(bit, tuple(words)) for bit, words in words_by_bit.items()]
            for position, words_by_bit in affixes.items()
        },
    )


def _contrast_patterns(
    contrast: Iterable[str], limits: Sequence[str], entry: Language, marked: bool
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns that match the places at which words of contrast split a sentence.

    The first pattern matches before a word that begins a new part, such as "but". The second
    matches after a word whose ending marks the end of a part. Words in ``limits`` are not used. If
    ``marked`` is true, the words are also matched with their accents.
    """
    opening_words, ending_words = set[str](), set[str]()
    for word in set(contrast).difference(limits):
        forms = ending_words if word.startswith("*") else opening_words
        forms.update(map(re.escape, _forms(word, entry, marked)))
    first = "|".join(opening_words)
    if entry.tokens == "character":
        return re.compile(f"(?<=.)(?={first})"), _NO_MATCH
    last = "|".join(f"(?<={word})" for word in ending_words)
    return re.compile(f" (?=(?:{first}) )"), re.compile(f"(?:{last}) ") if last else _NO_MATCH


def _iter_classified_words(entry: Language) -> Iterator[tuple[int, str]]:
    """Yield the words of all classes, such as negation, with the bit that stands for the class."""
    language_lexicon, extra_lists = (
        lexicon(entry.code),
        packaged_json("abstentions.json")[entry.code],
    )
    lists = {
        **extra_lists,
        "negation": (
            *language_lexicon.negation,
            *language_lexicon.absence,
            *extra_lists["negation"],
        ),
        "contrast": language_lexicon.contrast,
        "sources": (*extra_lists["sources"], *(f"{word}*" for word in entry.passage_words)),
    }
    for index, name in enumerate(_CLASSES):
        yield from ((1 << index, word) for word in lists[name])


def _phrases(texts: Iterable[str], entry: Language, marked: bool) -> Iterator[_Phrase]:
    for text in texts:
        forms = zip(*(_forms(part, entry, marked) for part in text.split(" ... ")), strict=False)
        for parts in forms:
            yield _Phrase(parts, text.startswith("*"), text.endswith("*"))


def _forms(word: str, entry: Language, marked: bool) -> list[str]:
    """Return the folded forms of a word or phrase, to be searched for in folded texts.

    The result has a form without accents and, if ``marked`` is true, also a form with accents.
    ``marked`` is true if the searched text keeps its accents.
    """
    gap = "" if entry.tokens == "character" else " "
    variants = [
        gap.join(_fold(word, entry, keep_marks))
        for keep_marks in (False, *([True] if marked else []))
    ]
    return [text for text in variants if text]


def _fold(text: str, entry: Language, marked: bool) -> list[str]:
    tokens = tokenize(text, entry)
    return tokens if marked else [bare(token) for token in tokens]


def _has_dense_accents(text: str, entry: Language) -> bool:
    """Return whether accents are so frequent that they distinguish words, as tones do in Yoruba."""
    if entry.script != "Latin" or text.isascii():
        return False
    return sum(not char.isascii() for char in text) > _DENSE_MARKS * sum(map(str.isalpha, text))


@lru_cache(maxsize=65536)
def _word_classes(token: str, code: str, marked: bool) -> int:
    words = _words(code, marked)
    bits = words.whole.get(token, 0)
    for bit, beginnings in words.begins:
        bits |= bit * token.startswith(beginnings)
    for bit, endings in words.ends:
        bits |= bit * token.endswith(endings)
    for bit, parts in words.inside:
        bits |= bit * any(part in token for part in parts)
    return bits


def _contains_phrase(text: str, words: _Words) -> bool:
    """Return whether a folded text contains a fixed phrase that states an abstention."""
    candidates = [phrase for phrase in words.phrases if phrase.parts[0] in text]
    return any(_matches_phrase(text, phrase, words) for phrase in candidates)


def _matches_phrase(text: str, phrase: _Phrase, words: _Words) -> bool:
    spaced = bool(words.gap)
    at = text.find(phrase.parts[0])
    while at >= 0:
        if phrase.starts_inside_word or not spaced or not at or text[at - 1] == " ":
            end = _phrase_end(text, at, phrase, _REACH_WORDS if spaced else _REACH_CHARACTERS)
            if end and (phrase.ends_inside_word or not spaced or text[end : end + 1] in ("", " ")):
                return True
        at = text.find(phrase.parts[0], at + 1)
    return False


def _phrase_end(text: str, at: int, phrase: _Phrase, reach: int) -> int:
    """Return the offset at which a phrase with several parts ends.

    The result is 0 if a later part of the phrase does not follow closely.

    Args:
        text: Folded text.
        at: Offset at which the first part of the phrase begins.
        phrase: The phrase.
        reach: Largest number of characters between two parts.
    """
    end = at + len(phrase.parts[0])
    for part in phrase.parts[1:]:
        at = text.find(part, end, end + reach + len(part))
        if at < 0:
            return 0
        end = at + len(part)
    return end


# Sentences ----------------------------------------------------------------------------------------

_LONGEST = 2000  # characters that are read; abstentions do not begin later
_MARKS = r"(?<=[.!?…。！？．।॥؟۔])(?!\d)\s*|[\n\r\v\f\x85\u2028\u2029]+"
_SENTENCE = re.compile(_MARKS)
_CLAUSE = re.compile(_MARKS + r"|(?<=[^\x00-\x7f\d]{6})\s+(?=[^\x00-\x7f\d]{6})")
_SHORT_CLAUSE = 36
_OPENING = 4  # words at the beginning of a part of a sentence
_QUESTION_MARKS = ("?", "？", "؟")
_PIECE = re.compile(r"[;:،؛、，；：,](?!\d)|\s[-–—]+\s|[—()（）]")


class _Piece(NamedTuple):
    """A part of a sentence between two punctuation marks or words of contrast."""

    classes: int  # word classes that occur in it, one bit each
    new: float  # number of words without a class that are not in the question
    repeated: float  # number of words of the question
    figures: int  # number of numbers that are not in the question
    near: float  # 1 if a negation is next to a word for telling, less if it is farther away
    told_words: int  # number of words for telling that are not in the question
    explicit_words: int  # number of these words that seldom state facts about the world
    near_explicit: float  # like ``near``, for the explicit words
    asked_telling: bool  # contains a word for telling that is in the question
    document: bool  # contains a word such as "passage"
    opens_document: bool  # begins with one
    service: int  # number of different words of customer service that are not in the question


class _Sentence(NamedTuple):
    phrase: bool  # contains a fixed phrase of abstention
    opens: bool  # its first part contains one
    pieces: tuple[_Piece, ...]


def _sentences(text: str, entry: Language, question: str) -> Iterator[_Sentence]:
    target_words, english = _words(entry.code, _has_dense_accents(text, entry)), _words("en")
    for raw in _statements(_split(text[:_LONGEST], entry)):
        words = english if _is_english(raw, target_words, english) else target_words
        strings = [part for piece in _PIECE.split(raw) for part in _parts(piece, words)]
        if strings:
            folded_question = _fold_question(question, words.entry, words.marked)
            pieces = [text.split(" ") if words.gap else list(text) for text in strings]
            has_phrase = _contains_phrase(words.gap.join(strings), words)
            yield _Sentence(
                has_phrase,
                has_phrase and _contains_phrase(strings[0], words),
                tuple(
                    _piece(*both, words, folded_question)
                    for both in zip(pieces, strings, strict=True)
                ),
            )


def _statements(sentences: Sequence[str]) -> Sequence[str]:
    """Return the sentences that are not questions, because many models repeat the question.

    If all sentences are questions, return all of them.
    """
    statements = [
        sentence for sentence in sentences if not sentence.rstrip().endswith(_QUESTION_MARKS)
    ]
    return statements if any(map(str.strip, statements)) else sentences


def _parts(piece: str, words: _Words) -> list[str]:
    """Fold a part of a sentence and split it at words of contrast.

    For example, "little of its size but 3 m high" is split before "but".
    """
    text = words.gap.join(_fold(piece, words.entry, words.marked))
    opening, ending = words.contrast_patterns
    return [part for half in ending.split(text) for part in opening.split(half) if part]


@lru_cache(maxsize=4096)
def _fold_question(text: str, entry: Language, marked: bool) -> str:
    gap = "" if entry.tokens == "character" else " "
    return f" {gap.join(_fold(text, entry, marked))} "


_LIST_NUMBER = re.compile(r"^\s*\d{1,2}[.)]\s+", re.MULTILINE)


def _split(text: str, entry: Language) -> list[str]:
    text = _LIST_NUMBER.sub("", text)  # otherwise "1." would be a sentence
    if entry.sentence_ends == "marks":
        return _SENTENCE.split(text)
    clauses: list[str] = []
    for clause in filter(None, _CLAUSE.split(text)):
        if clauses and len(clauses[-1]) < _SHORT_CLAUSE:
            clauses[-1] += f", {clause}"
        else:
            clauses.append(clause)
    return clauses


def _is_english(text: str, target_words: _Words, english: _Words) -> bool:
    """Return whether a sentence is in English rather than in the expected language.

    The language with more of its function words in the sentence wins. In a tie, the sentence is
    English if it contains a fixed English phrase of abstention.
    """
    letters = sum(map(str.isalpha, text))
    if target_words is english or 2 * sum(c.isascii() and c.isalpha() for c in text) <= letters:
        return False
    tokens = _fold(text, LANGUAGES["en"], False)
    surplus = sum(t in english.function_words for t in tokens) - sum(
        t in target_words.function_words for t in tokens
    )
    return surplus > 0 or (surplus == 0 and _contains_phrase(" ".join(tokens), english))


def _piece(tokens: Sequence[str], text: str, words: _Words, question: str) -> _Piece:
    gap = words.gap
    figures = sum(token.isdecimal() and f"{gap}{token}{gap}" not in question for token in tokens)
    if words.gap:
        return _piece_of_words(tokens, f" {text} ", words, question, figures)
    return _piece_of_characters(text, words, question, figures)


def _piece_of_words(
    tokens: Sequence[str], text: str, words: _Words, question: str, figures: int
) -> _Piece:
    new = repeated = 0
    positions = [
        (text.count(" ", 0, text.find(run) + 1) - 1, bits, run in question)
        for run, bits in words.runs
        if run in text
    ]
    stem = 3 if words.entry.gram_length == 2 else _STEM
    for index, token in enumerate(tokens):
        bits = _word_classes(token, words.entry.code, words.marked)
        is_repeated = f" {token[:stem]}" in question
        positions.append((index, bits, is_repeated))
        if token.isdecimal() or token in words.function_words:
            continue
        if is_repeated:
            repeated += 1
        elif not bits & ~_SERVICE:
            new += 1
    return _summarize(positions, new, repeated, figures)


def _piece_of_characters(text: str, words: _Words, question: str, figures: int) -> _Piece:
    rest = text
    positions = []
    for run, bits in words.runs:
        if run in text:
            positions.append((text.find(run) * words.scale, bits, run in question))
            if bits & ~_SERVICE:
                rest = rest.replace(run, " ")
    pairs = [rest[i : i + 2] for i in range(len(rest) - 1)]
    pairs = [pair for pair in pairs if " " not in pair and pair not in words.function_words]
    repeated_pairs = sum(pair in question for pair in pairs)
    # About half of the remaining characters belong to endings and function words.
    new, repeated = (len(pairs) - repeated_pairs) * words.scale / 2, repeated_pairs * words.scale
    return _summarize(positions, new, repeated, figures)


def _summarize(
    positions: Sequence[tuple[float, int, bool]], new: float, repeated: float, figures: int
) -> _Piece:
    """Return the :class:`_Piece` for a part of a sentence, given its classified words.

    Args:
        positions: Position of each word in the part, the word classes, and whether the word is in
            the question.
        new: Number of words without a class that are not in the question.
        repeated: Number of words of the question.
        figures: Number of numbers that are not in the question.
    """
    words = [(position, bits) for position, bits, _ in positions]
    unasked = [bits for _, bits, is_repeated in positions if not is_repeated]
    explicit = [
        (position, bits & ~_TELLING if is_repeated or bits & _WORLDLY else bits)
        for position, bits, is_repeated in positions
    ]
    documents = [position for position, bits in words if bits & _SOURCES and not bits & _VAGUE]
    return _Piece(
        _union(bits for _, bits in words),
        new,
        repeated,
        figures,
        near=_negation_nearness(words),
        told_words=sum(bool(bits & _TELLING) for bits in unasked),
        explicit_words=sum(bool(bits & _TELLING) for _, bits in explicit),
        near_explicit=_negation_nearness(explicit),
        asked_telling=any(bits & _TELLING and is_repeated for _, bits, is_repeated in positions),
        document=bool(documents),
        opens_document=any(position < _OPENING for position in documents),
        service=sum(bool(bits & _SERVICE) for bits in unasked),
    )


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


def _negation_nearness(positions: Sequence[tuple[float, int]]) -> float:
    """Return how near a negation is to a word for telling, such as "mention".

    The value is 1 if both are at the same position, less if they are farther apart, and 0 if there
    is no negation or no word for telling.

    Args:
        positions: Position of each word in the text, with the bits of its word classes.
    """
    denials = [position for position, bits in positions if bits & _NEGATION]
    if not denials:
        return 0.0
    telling = [position for position, bits in positions if bits & _TELLING]
    return max(
        (1 / (1 + abs(denial - word)) for denial in denials for word in telling), default=0.0
    )


# Signs --------------------------------------------------------------------------------------------


def signs(
    text: str, language: str | Language, *, question: str = "", phrases: bool = True
) -> tuple[float, ...]:
    """Return the features from which abstentions are predicted, in the order of :data:`SIGNS`.

    All features are 0 if the text has no word.

    Args:
        text: Answer, as in :func:`abstains`.
        language: Language, as in :func:`abstains`.
        question: Question, as in :func:`abstains`.
        phrases: Whether to search for fixed phrases. Training uses features with and without this
            search, so that the trees do not depend on fixed phrases alone.
    """
    entry = Language.of(language)
    sentences = list(_sentences(text, entry, question))
    if not phrases:
        sentences = [sentence._replace(phrase=False, opens=False) for sentence in sentences]
    if not sentences:
        return (0.0,) * len(SIGNS)
    pieces = [piece for sentence in sentences for piece in sentence.pieces]
    kinds = [kind for sentence in sentences for kind in _piece_kinds(sentence)]
    return (
        *_signs_of_first(sentences[0], _opens_with_verdict(text, entry)),
        *_signs_of_any(sentences),
        *_signs_of_cues(pieces, kinds),
        *_signs_of_plain(pieces, kinds),
        *_signs_of_world(sentences),
        *_signs_of_subject(pieces, kinds),
        *_signs_of_last(sentences[-1]),
    )


def _signs_of_first(first: _Sentence, verdict: bool) -> Iterator[float]:
    flags = _flags(first)
    yield float(first.phrase)
    yield from map(float, flags)
    yield math.log1p(sum(piece.new for piece in first.pieces))
    yield math.log1p(sum(piece.repeated for piece in first.pieces))
    yield max(piece.near for piece in first.pieces)
    yield float(first.opens)
    yield float(verdict)


def _flags(sentence: _Sentence) -> tuple[bool, ...]:
    """Return the features ``negation`` to ``not_told_in_sources`` of :data:`SIGNS`.

    They describe which word classes occur together in the sentence.
    """
    classes = [piece.classes for piece in sentence.pieces]
    all_classes = _union(classes)
    lacks = bool(all_classes & _LACKING)
    not_told = any(bits & _DENIAL and bits & _TELLING for bits in classes)
    not_in_sources = bool(all_classes & _DENIAL and all_classes & _SOURCES)
    return (
        bool(all_classes & _NEGATION),
        not_told,
        not_in_sources,
        lacks,
        lacks and bool(all_classes & _TELLING),
        any(bits & _DENIAL and bits & _SPEAKER for bits in classes),
        bool(all_classes & _TELLING and all_classes & _SOURCES),
        not_told and not_in_sources,
    )


def _signs_of_any(sentences: Sequence[_Sentence]) -> Iterator[float]:
    flags = [_flags(sentence) for sentence in sentences]
    classes = [piece.classes for sentence in sentences for piece in sentence.pieces]
    yield float(any(sentence.phrase for sentence in sentences))
    for index in (0, 1, 2, 3, 5):
        yield float(any(sentence_flags[index] for sentence_flags in flags))
    yield float(flags[-1][1])
    yield float(flags[-1][3])
    yield float(any(bits & _LIMITS for bits in classes))
    yield float(any(bits & _CONTRAST for bits in classes))


def _signs_of_cues(pieces: Sequence[_Piece], kinds: Sequence[str]) -> Iterator[float]:
    cue_index = kinds.index("cue") if "cue" in kinds else len(kinds)
    before = pieces[:cue_index]
    inside = _of_kind("cue", pieces, kinds)
    other_pieces = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind != "cue"]
    after = other_pieces[cue_index:]
    yield math.log1p(sum(piece.new for piece in before))
    yield float(any(piece.figures for piece in before))
    yield math.log1p(sum(piece.new for piece in inside))
    yield math.log1p(sum(piece.repeated for piece in inside))
    yield math.log1p(sum(piece.new for piece in other_pieces))
    yield math.log1p(sum(piece.repeated for piece in other_pieces))
    yield float(any(piece.classes & _CONTRAST for piece in after))
    yield max(piece.near for piece in pieces)
    yield float(cue_index == 0)
    yield math.log1p(sum(piece.new + piece.repeated for piece in before))
    yield float(0 < cue_index < len(pieces) and bool(pieces[cue_index].classes & _CONTRAST))


def _of_kind(wanted: str, pieces: Sequence[_Piece], kinds: Sequence[str]) -> list[_Piece]:
    return [piece for piece, kind in zip(pieces, kinds, strict=True) if kind == wanted]


_REPEATED_PER_NEW = 3  # words of the question for each new word


def _is_cue(piece: _Piece, phrase: bool) -> bool:
    """Return whether a part of a sentence may state that there is no answer.

    Args:
        piece: The part.
        phrase: Whether the sentence contains a fixed phrase of abstention.
    """
    mentions_telling = phrase or piece.classes & _TELLING_CLASSES
    return bool(piece.classes & _DENIAL and mentions_telling)


def _piece_kinds(sentence: _Sentence) -> list[str]:
    """Return the kind of each part of a sentence.

    A ``cue`` may state that there is no answer. A ``denied`` part contains a negation, but no words
    for telling or sources such as "mention" or "passage". A ``told`` part contains such words, but
    no negation. A ``plain`` part contains neither. If a plain part directly before a cue mostly
    repeats the question, it counts as a cue too.
    """
    kinds = [_piece_kind(piece, sentence.phrase) for piece in sentence.pieces]
    for index in reversed(range(len(kinds) - 1)):
        new, repeated = sentence.pieces[index].new, sentence.pieces[index].repeated
        if kinds[index : index + 2] == ["plain", "cue"] and repeated > _REPEATED_PER_NEW * new:
            kinds[index] = "cue"
    return kinds


def _piece_kind(piece: _Piece, phrase: bool) -> str:
    if _is_cue(piece, phrase):
        return "cue"
    if piece.classes & _DENIAL:
        return "denied"
    return "told" if piece.classes & _TELLING_CLASSES else "plain"


def _signs_of_plain(pieces: Sequence[_Piece], kinds: Sequence[str]) -> Iterator[float]:
    cues = [index for index, kind in enumerate(kinds) if kind == "cue"]
    first, last = (cues[0], cues[-1]) if cues else (len(pieces), -1)
    plain = _of_kind("plain", pieces, kinds)
    yield math.log1p(sum(p.new for p in _of_kind("plain", pieces[:first], kinds[:first])))
    yield math.log1p(sum(p.new for p in _of_kind("plain", pieces[last + 1 :], kinds[last + 1 :])))
    yield float(any(p.figures for p in plain))
    yield math.log1p(sum(p.repeated for p in plain))
    yield math.log1p(sum(p.new for p in plain if p.classes & _CONTRAST))
    yield from _signs_of_denials(pieces, kinds)
    yield float(kinds[0] == "plain")
    yield float(kinds[0] == "told")
    yield math.log1p(sum(p.new for p in _of_kind("told", pieces, kinds)))
    yield float(len(cues))
    yield math.log1p(len(pieces))
    words = [p.new + p.repeated for p in pieces]
    yield sum(words[index] for index in cues) / max(1.0, sum(words))
    repeated = [p.repeated for p in pieces]
    yield sum(repeated[index] for index in cues) / max(1.0, sum(repeated))


def _signs_of_denials(pieces: Sequence[_Piece], kinds: Sequence[str]) -> Iterator[float]:
    """Yield the features ``denied_new`` to ``limited_first`` of :data:`SIGNS`.

    They describe the parts of sentences that deny something, that contain a word such as "nobody",
    or that state something with a limit.
    """
    denied = _of_kind("denied", pieces, kinds)
    yield math.log1p(sum(p.new for p in denied))
    yield math.log1p(sum(p.repeated for p in denied))
    yield float(kinds[0] == "denied")
    yield float(any(p.classes & _CONTRAST and p.classes & _DENIAL for p in pieces[1:]))
    yield float("denied" in kinds and "told" in kinds[: _last(kinds, "denied")])
    yield float(any(p.classes & _LACKING for p in denied))
    yield float(any(p.classes & _NOBODY for p in pieces))
    yield float(any(p.classes & _NOBODY for p in _of_kind("cue", pieces, kinds)))
    yield float(any(p.classes & _NOBODY for p in denied))
    told_pieces = _of_kind("told", pieces, kinds)
    yield float(any(p.classes & _LIMITS for p in told_pieces))
    yield float(kinds[0] == "told" and bool(pieces[0].classes & _LIMITS))


def _last(kinds: Sequence[str], kind: str) -> int:
    return len(kinds) - 1 - kinds[::-1].index(kind)


def _signs_of_world(sentences: Sequence[_Sentence]) -> Iterator[float]:
    about_world = [
        not s.phrase and not _union(p.classes for p in s.pieces) & _TELLING_CLASSES
        for s in sentences
    ]
    pieces = [
        p
        for s, is_about_world in zip(sentences, about_world, strict=True)
        if is_about_world
        for p in s.pieces
    ]
    yield math.log1p(sum(p.new for p in pieces))
    yield float(any(p.figures for p in pieces))
    yield float(about_world[0])
    yield float(about_world[-1])
    yield float(any(p.classes & _NEGATION for p in pieces))


def _signs_of_subject(pieces: Sequence[_Piece], kinds: Sequence[str]) -> Iterator[float]:
    """Yield the features of :data:`SIGNS` from ``figures_in`` on, which mark negative facts."""
    cues = _of_kind("cue", pieces, kinds)
    yield float(any(p.figures for p in cues))
    yield float(max((p.told_words for p in cues), default=0))
    yield float(max((p.explicit_words for p in cues), default=0))
    yield max((p.near_explicit for p in cues), default=0.0)
    yield float(any(p.asked_telling for p in cues))
    yield float(any(p.document for p in cues))
    yield float(any(p.opens_document for p in cues))
    yield float(any(p.document for p in pieces))
    yield float(any(p.classes & _SPEAKER for p in pieces))


def _signs_of_last(last: _Sentence) -> Iterator[float]:
    flags, kinds = _flags(last), _piece_kinds(last)
    yield float(last.phrase)
    yield float(flags[2])
    yield float(flags[5])
    yield float(any(piece.figures for piece in last.pieces))
    yield max(piece.near for piece in last.pieces)
    yield kinds.count("cue") / len(kinds)


_SERVICE_CERTAINTY = 0.9  # probability for an answer that only hands over to customer service
_SERVICE_WORDS, _SERVICE_SHARE = (
    2,
    0.3,
)  # words of customer service in each sentence, and their share


def _is_service(text: str, entry: Language, question: str) -> bool:
    """Return whether an answer only hands the question over, as in "a colleague will email you".

    Each sentence must have at least two words of customer service that are not in the question,
    unless it has no new words. At least 30 % of all new words must be such words.
    """
    sentences = list(_sentences(text, entry, question))
    counts = [sum(piece.service for piece in sentence.pieces) for sentence in sentences]
    new = [sum(piece.new for piece in sentence.pieces) for sentence in sentences]
    return (
        max(counts, default=0) >= _SERVICE_WORDS
        and all(
            n >= _SERVICE_WORDS or not any(piece.new or piece.figures for piece in sentence.pieces)
            for n, sentence in zip(counts, sentences, strict=True)
        )
        and sum(counts) >= _SERVICE_SHARE * sum(new)
    )


_FIRST_WORD = re.compile(r"[,،、，.。!！।\s]")
_FIRST_PIECE = re.compile(r"[,،、，.。!！।]")


def _opens_with_verdict(text: str, entry: Language) -> bool:
    """Return whether a text begins with yes or no."""
    words = _words(entry.code)
    end = _FIRST_WORD if words.gap else _FIRST_PIECE
    first = end.split(text.lstrip()[:100], maxsplit=1)[0]
    return words.gap.join(_fold(first, entry, False)) in words.verdicts


# Trees --------------------------------------------------------------------------------------------


@cache
def _trees() -> Forest:
    model = packaged_json("abstention_trees.json")
    return forest(model, model["signs"], SIGNS)
