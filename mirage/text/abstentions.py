"""Whether a text says that a question is not answered, in any of the languages.

No set phrase is a match for what models write ("that figure is missing here", "Pisa's stairs nobody
counts in these texts"), and a phrase alone does not tell an abstention from an answer with a
caveat. So a sentence is read for words of a few classes (negation, telling, sources, what is
lacking, the speaker, limits, contrast, nobody and never), and boosted trees (Friedman 2001, *Greedy
function approximation*) weigh where these stand together, what stands before and behind them,
whether what was asked stands there, and how much is told besides of the world and not of the
sources. The trees know signs and no words, and are the same for all languages;
``corpora/abstentions.py`` makes them.
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
"""The certainty from which on a text counts as an abstention."""

SIGNS = (
    # Of the first sentence: a set phrase stands there; a negation; one beside a word for telling,
    # for a source; something lacking; that beside telling; a negation beside the speaker; telling
    # and a source; those two negated.
    *("phrase", "negation", "not_told", "not_in_sources", "lacking", "telling_lacks"),
    *("speaker_cannot", "telling_sources", "not_told_in_sources", "first_new", "first_asked"),
    *("first_near", "opens_with_phrase", "verdict"),
    # Of any sentence, or of the last one.
    *("any_phrase", "any_negation", "any_not_told", "any_not_in_sources"),
    *("any_lacking", "any_speaker_cannot", "last_not_told", "last_lacking", "limits", "contrast"),
    # Of cues, the pieces that may say so: what stands before, in and beside them.
    *("new_before", "figures_before", "new_in", "asked_in", "new_beside", "asked_beside"),
    *("contrast_after", "nearest", "opens_with_cue", "told_before", "turns"),
    # Of plain pieces, which say how things are, and of those that deny without telling.
    *("plain_before", "plain_after", "plain_figures", "plain_asked", "plain_turns"),
    *("denied_new", "denied_asked", "denied_first", "denied_turns", "denied_after_told"),
    *("lacks_untold", "nobody", "nobody_told", "nobody_denied", "limited", "limited_first"),
    # Of the whole: what its first piece is, and how much of it cues are.
    *("first_plain", "first_told", "told_new", "cues", "pieces", "cue_share", "asked_share"),
    # Of sentences that do not speak of telling or sources.
    *("world_new", "world_figures", "world_first", "world_last", "world_denial"),
)
"""The names of what :func:`signs` gives, in its order."""


def abstains(text: str, language: str | Language, *, question: str = "") -> float:
    """How surely an answer says that the question is not answered, from 0 to 1.

    From :data:`ABSTAINS_AT` on it is an abstention. One may mention what is known besides ("they
    tell when it was built, but not by whom"); an answer with a caveat ("it is the Nile; its length
    is not given") is none, and neither is an answer that denies something. Sentences in English
    are understood in every language. An empty text says nothing: 0.

    Args:
        text: an answer, without its citations.
        language: the language that it should be in.
        question: what was asked, so that words of the question are known from news.

    Raises:
        UnknownNameError: no such language.
    """
    values = signs(text, language, question=question)
    return 1 / (1 + math.exp(-_trees().margin(values))) if any(values) else 0.0


# Words --------------------------------------------------------------------------------------------

_CLASSES = ("negation", "contrast", "telling", "sources", "lacking", "speaker", "limits", "nobody")
_NEGATION, _CONTRAST, _TELLING, _SOURCES, _LACKING, _SPEAKER, _LIMITS, _NOBODY = (
    1 << place for place in range(len(_CLASSES))
)
_DENIAL = _NEGATION | _LACKING
_TOLD = _TELLING | _SOURCES | _SPEAKER
_NOWHERE = re.compile("(?!)")
_REACH_WORDS, _REACH_CHARACTERS = 40, 12  # characters that `` ... `` in a phrase stands for
_STEM = 5
_DENSE_MARKS = 0.12


class _Phrase(NamedTuple):
    parts: tuple[str, ...]
    opens: bool  # may begin within a word
    goes_on: bool  # may end within a word


class _Words(NamedTuple):
    """What is known of a language, folded as texts are; classes are sets of bits."""

    entry: Language
    marked: bool
    gap: str  # what parts words
    scale: float  # words that a character counts for
    phrases: tuple[_Phrase, ...]
    whole: Mapping[str, int]
    begins: Sequence[tuple[int, tuple[str, ...]]]
    ends: Sequence[tuple[int, tuple[str, ...]]]
    inside: Sequence[tuple[int, tuple[str, ...]]]
    runs: Sequence[tuple[str, int]]  # of several words, or of characters
    turns: tuple[re.Pattern[str], re.Pattern[str]]  # words of contrast, that open a part or end one
    plain: frozenset[str]  # function words
    verdicts: frozenset[str]  # yes and no


@cache
def _words(code: str, marked: bool = False) -> _Words:
    entry, known, more = Language.of(code), lexicon(code), packaged_json("abstentions.json")[code]
    gap = "" if entry.tokens == "character" else " "
    whole: dict[str, int] = {}
    runs: dict[str, int] = {}
    places: dict[str, dict[int, list[str]]] = {"begins": {}, "ends": {}, "inside": {}}
    for bit, word in _classified(entry):
        opens, goes_on = word.startswith("*"), word.endswith("*")
        for text in _forms(word, entry, marked):
            if not gap:
                runs[text] = runs.get(text, 0) | bit
            elif gap in text:
                run = f"{'' if opens else gap}{text}{'' if goes_on else gap}"
                runs[run] = runs.get(run, 0) | bit
            elif opens or goes_on:
                place = "inside" if opens and goes_on else "ends" if opens else "begins"
                places[place].setdefault(bit, []).append(text)
            else:
                whole[text] = whole.get(text, 0) | bit
    turns = _turns(known.contrast, more["limits"], entry, marked)
    function_words = [f for word in known.function_words for f in _forms(word, entry, marked)]
    return _Words(
        entry=entry,
        marked=marked,
        gap=gap,
        scale=1.0 if gap else len(function_words) / sum(map(len, function_words)),
        phrases=tuple(_phrases(known.abstention, entry, marked)),
        whole=whole,
        runs=tuple(runs.items()),
        turns=turns,
        plain=frozenset(function_words),
        verdicts=frozenset(f for w in (*known.yes, *known.no) for f in _forms(w, entry, marked)),
        **{
            place: [(bit, tuple(words)) for bit, words in found.items()]
            for place, found in places.items()
        },
    )


def _turns(
    contrast: Iterable[str], limits: Sequence[str], entry: Language, marked: bool
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Words of contrast that open a part of a piece, and endings of words that end one."""
    opening, ending = set[str](), set[str]()
    for word in set(contrast).difference(limits):
        places = ending if word.startswith("*") else opening
        places.update(map(re.escape, _forms(word, entry, marked)))
    first = "|".join(opening)
    if entry.tokens == "character":
        return re.compile(f"(?<=.)(?={first})"), _NOWHERE
    last = "|".join(f"(?<={word})" for word in ending)
    return re.compile(f" (?=(?:{first}) )"), re.compile(f"(?:{last}) ") if last else _NOWHERE


def _classified(entry: Language) -> Iterator[tuple[int, str]]:
    """Every word of a class, with the bit of that class."""
    known, more = lexicon(entry.code), packaged_json("abstentions.json")[entry.code]
    lists = {
        **more,
        "negation": (*known.negation, *more["negation"]),
        "contrast": known.contrast,
        "sources": (*more["sources"], *(f"{word}*" for word in entry.passage_words)),
    }
    for place, name in enumerate(_CLASSES):
        yield from ((1 << place, word) for word in lists[name])


def _phrases(texts: Iterable[str], entry: Language, marked: bool) -> Iterator[_Phrase]:
    for text in texts:
        forms = zip(*(_forms(part, entry, marked) for part in text.split(" ... ")), strict=False)
        for parts in forms:
            yield _Phrase(parts, text.startswith("*"), text.endswith("*"))


def _forms(word: str, entry: Language, marked: bool) -> list[str]:
    """A word or phrase as it stands in a folded text; with marks and without where these count."""
    gap = "" if entry.tokens == "character" else " "
    found = [gap.join(_fold(word, entry, kept)) for kept in (False, *([True] if marked else []))]
    return [text for text in found if text]


def _fold(text: str, entry: Language, marked: bool) -> list[str]:
    tokens = tokenize(text, entry)
    return tokens if marked else [bare(token) for token in tokens]


def _is_marked(text: str, entry: Language) -> bool:
    """Whether accents stand so densely that they tell words apart, as tones do in Yoruba."""
    if entry.script != "Latin" or text.isascii():
        return False
    return sum(not char.isascii() for char in text) > _DENSE_MARKS * sum(map(str.isalpha, text))


@lru_cache(maxsize=65536)
def _class(token: str, code: str, marked: bool) -> int:
    words = _words(code, marked)
    bits = words.whole.get(token, 0)
    for bit, beginnings in words.begins:
        bits |= bit * token.startswith(beginnings)
    for bit, endings in words.ends:
        bits |= bit * token.endswith(endings)
    for bit, parts in words.inside:
        bits |= bit * any(part in token for part in parts)
    return bits


def _says(text: str, words: _Words) -> bool:
    """Whether a set phrase stands in a folded text."""
    found = [phrase for phrase in words.phrases if phrase.parts[0] in text]
    return any(_stands(text, phrase, words) for phrase in found)


def _stands(text: str, phrase: _Phrase, words: _Words) -> bool:
    spaced = bool(words.gap)
    at = text.find(phrase.parts[0])
    while at >= 0:
        if phrase.opens or not spaced or not at or text[at - 1] == " ":
            end = _phrase_end(text, at, phrase, _REACH_WORDS if spaced else _REACH_CHARACTERS)
            if end and (phrase.goes_on or not spaced or text[end : end + 1] in ("", " ")):
                return True
        at = text.find(phrase.parts[0], at + 1)
    return False


def _phrase_end(text: str, at: int, phrase: _Phrase, reach: int) -> int:
    """Where a phrase that begins at ``at`` ends; 0 where it does not go on."""
    end = at + len(phrase.parts[0])
    for part in phrase.parts[1:]:
        at = text.find(part, end, end + reach + len(part))
        if at < 0:
            return 0
        end = at + len(part)
    return end


# Sentences ----------------------------------------------------------------------------------------

_LONGEST = 2000  # characters that are read; who abstains has said so by then
_MARKS = r"(?<=[.!?…。！？．।॥؟۔])(?!\d)\s*|[\n\r\v\f\x85\u2028\u2029]+"
_SENTENCE = re.compile(_MARKS)
_CLAUSE = re.compile(_MARKS + r"|(?<=[^\x00-\x7f\d]{6})\s+(?=[^\x00-\x7f\d]{6})")
_SHORT_CLAUSE = 36
_QUESTION_MARKS = ("?", "？", "؟")
_PIECE = re.compile(r"[;:،؛、，；：,](?!\d)|\s[-–—]+\s|[—()（）]")


class _Piece(NamedTuple):
    """A part of a sentence between two marks."""

    classes: int
    new: float  # words of no class that the question lacks
    asked: float  # words of the question
    figures: int  # numbers that the question lacks
    near: float  # 1 where a negation touches a word for telling, less the farther it stands


class _Sentence(NamedTuple):
    phrase: bool
    opens: bool  # with a set phrase
    pieces: tuple[_Piece, ...]


def _sentences(text: str, entry: Language, question: str) -> Iterator[_Sentence]:
    own, english = _words(entry.code, _is_marked(text, entry)), _words("en")
    for raw in _statements(_split(text[:_LONGEST], entry)):
        words = english if _is_english(raw, own, english) else own
        strings = [part for piece in _PIECE.split(raw) for part in _parts(piece, words)]
        if strings:
            asked = _question(question, words.entry, words.marked)
            pieces = [text.split(" ") if words.gap else list(text) for text in strings]
            says = _says(words.gap.join(strings), words)
            yield _Sentence(
                says,
                says and _says(strings[0], words),
                tuple(_piece(*both, words, asked) for both in zip(pieces, strings, strict=True)),
            )


def _statements(sentences: Sequence[str]) -> Sequence[str]:
    """The sentences without questions, which many models repeat; all, where all are questions."""
    stated = [one for one in sentences if not one.rstrip().endswith(_QUESTION_MARKS)]
    return stated if any(map(str.strip, stated)) else sentences


def _parts(piece: str, words: _Words) -> list[str]:
    """A piece, folded and parted where it turns: "little of its size | but 3 m high"."""
    text = words.gap.join(_fold(piece, words.entry, words.marked))
    opening, ending = words.turns
    return [part for half in ending.split(text) for part in opening.split(half) if part]


@lru_cache(maxsize=4096)
def _question(text: str, entry: Language, marked: bool) -> str:
    gap = "" if entry.tokens == "character" else " "
    return f" {gap.join(_fold(text, entry, marked))} "


def _split(text: str, entry: Language) -> list[str]:
    if entry.sentence_ends == "marks":
        return _SENTENCE.split(text)
    clauses: list[str] = []
    for clause in filter(None, _CLAUSE.split(text)):
        if clauses and len(clauses[-1]) < _SHORT_CLAUSE:
            clauses[-1] += f", {clause}"
        else:
            clauses.append(clause)
    return clauses


def _is_english(text: str, own: _Words, english: _Words) -> bool:
    """Whether a sentence is in English, by function words; where these are as many, by phrases."""
    letters = sum(map(str.isalpha, text))
    if own is english or 2 * sum(c.isascii() and c.isalpha() for c in text) <= letters:
        return False
    tokens = _fold(text, LANGUAGES["en"], False)
    more = sum(t in english.plain for t in tokens) - sum(t in own.plain for t in tokens)
    return more > 0 or (more == 0 and _says(" ".join(tokens), english))


def _piece(tokens: Sequence[str], text: str, words: _Words, asked: str) -> _Piece:
    figures = sum(token.isdecimal() and token not in asked for token in tokens)
    if words.gap:
        return _piece_of_words(tokens, f" {text} ", words, asked, figures)
    return _piece_of_characters(text, words, asked, figures)


def _piece_of_words(
    tokens: Sequence[str], text: str, words: _Words, asked: str, figures: int
) -> _Piece:
    new = old = 0
    places = [
        (text.count(" ", 0, text.find(run) + 1) - 1, bits)
        for run, bits in words.runs
        if run in text
    ]
    stem = 3 if words.entry.gram_length == 2 else _STEM
    for place, token in enumerate(tokens):
        bits = _class(token, words.entry.code, words.marked)
        places.append((place, bits))
        if token.isdecimal() or token in words.plain:
            continue
        if f" {token[:stem]}" in asked:
            old += 1
        elif not bits:
            new += 1
    return _Piece(_union(bits for _, bits in places), new, old, figures, _near(places))


def _piece_of_characters(text: str, words: _Words, asked: str, figures: int) -> _Piece:
    rest = text
    places = []
    for run, bits in words.runs:
        if run in text:
            places.append((text.find(run) * words.scale, bits))
            rest = rest.replace(run, " ")
    pairs = [rest[i : i + 2] for i in range(len(rest) - 1)]
    pairs = [pair for pair in pairs if " " not in pair and pair not in words.plain]
    old = sum(pair in asked for pair in pairs)
    # Half of the characters that are left belong to endings and function words.
    new, old_words = (len(pairs) - old) * words.scale / 2, old * words.scale
    return _Piece(_union(bits for _, bits in places), new, old_words, figures, _near(places))


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


def _near(places: Sequence[tuple[float, int]]) -> float:
    """How near to each other a negation and a word for telling stand, from 0 to 1."""
    denials = [place for place, bits in places if bits & _NEGATION]
    if not denials:
        return 0.0
    told = [place for place, bits in places if bits & _TELLING]
    return max((1 / (1 + abs(here - there)) for here in denials for there in told), default=0.0)


# Signs --------------------------------------------------------------------------------------------


def signs(
    text: str, language: str | Language, *, question: str = "", phrases: bool = True
) -> tuple[float, ...]:
    """What the trees weigh, in the order of :data:`SIGNS`; all 0 where a text has no word.

    Args:
        text: as in :func:`abstains`.
        language: as in :func:`abstains`.
        question: as in :func:`abstains`.
        phrases: whether set phrases are looked for; without, the trees learn to do without.
    """
    entry = Language.of(language)
    sentences = list(_sentences(text, entry, question))
    if not phrases:
        sentences = [sentence._replace(phrase=False, opens=False) for sentence in sentences]
    if not sentences:
        return (0.0,) * len(SIGNS)
    pieces = [piece for sentence in sentences for piece in sentence.pieces]
    kinds = [kind for sentence in sentences for kind in _kinds(sentence)]
    return (
        *_signs_of_first(sentences[0], _opens_with_verdict(text, entry)),
        *_signs_of_any(sentences),
        *_signs_of_cues(pieces, kinds),
        *_signs_of_plain(pieces, kinds),
        *_signs_of_world(sentences),
    )


def _signs_of_first(first: _Sentence, verdict: bool) -> Iterator[float]:
    flags = _flags(first)
    yield float(first.phrase)
    yield from map(float, flags)
    yield math.log1p(sum(piece.new for piece in first.pieces))
    yield math.log1p(sum(piece.asked for piece in first.pieces))
    yield max(piece.near for piece in first.pieces)
    yield float(first.opens)
    yield float(verdict)


def _flags(sentence: _Sentence) -> tuple[bool, ...]:
    """Negation to ``not_told_in_sources``, see :data:`SIGNS`."""
    marks = [piece.classes for piece in sentence.pieces]
    every = _union(marks)
    lacks = bool(every & _LACKING)
    not_told = any(bits & _DENIAL and bits & _TELLING for bits in marks)
    not_in_sources = bool(every & _DENIAL and every & _SOURCES)
    return (
        bool(every & _NEGATION),
        not_told,
        not_in_sources,
        lacks,
        lacks and bool(every & _TELLING),
        any(bits & _DENIAL and bits & _SPEAKER for bits in marks),
        bool(every & _TELLING and every & _SOURCES),
        not_told and not_in_sources,
    )


def _signs_of_any(sentences: Sequence[_Sentence]) -> Iterator[float]:
    flags = [_flags(sentence) for sentence in sentences]
    marks = [piece.classes for sentence in sentences for piece in sentence.pieces]
    yield float(any(sentence.phrase for sentence in sentences))
    for place in (0, 1, 2, 3, 5):
        yield float(any(one[place] for one in flags))
    yield float(flags[-1][1])
    yield float(flags[-1][3])
    yield float(any(bits & _LIMITS for bits in marks))
    yield float(any(bits & _CONTRAST for bits in marks))


def _signs_of_cues(pieces: Sequence[_Piece], kinds: Sequence[str]) -> Iterator[float]:
    place = kinds.index("cue") if "cue" in kinds else len(kinds)
    before = pieces[:place]
    inside = _of_kind("cue", pieces, kinds)
    beside = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind != "cue"]
    after = beside[place:]
    yield math.log1p(sum(piece.new for piece in before))
    yield float(any(piece.figures for piece in before))
    yield math.log1p(sum(piece.new for piece in inside))
    yield math.log1p(sum(piece.asked for piece in inside))
    yield math.log1p(sum(piece.new for piece in beside))
    yield math.log1p(sum(piece.asked for piece in beside))
    yield float(any(piece.classes & _CONTRAST for piece in after))
    yield max(piece.near for piece in pieces)
    yield float(place == 0)
    yield math.log1p(sum(piece.new + piece.asked for piece in before))
    yield float(0 < place < len(pieces) and bool(pieces[place].classes & _CONTRAST))


def _of_kind(wanted: str, pieces: Sequence[_Piece], kinds: Sequence[str]) -> list[_Piece]:
    return [piece for piece, one in zip(pieces, kinds, strict=True) if one == wanted]


_TAKEN_UP = 3  # words of the question for one that is new


def _is_cue(piece: _Piece, phrase: bool) -> bool:
    """Whether a piece may be the one that says that there is no answer."""
    told = phrase or piece.classes & _TOLD
    return bool(piece.classes & _DENIAL and told)


def _kinds(sentence: _Sentence) -> list[str]:
    """What each piece is; what takes up the question before a cue belongs to it."""
    kinds = [_kind(piece, sentence.phrase) for piece in sentence.pieces]
    for place in reversed(range(len(kinds) - 1)):
        new, asked = sentence.pieces[place].new, sentence.pieces[place].asked
        if kinds[place : place + 2] == ["plain", "cue"] and asked > _TAKEN_UP * new:
            kinds[place] = "cue"
    return kinds


def _kind(piece: _Piece, phrase: bool) -> str:
    if _is_cue(piece, phrase):
        return "cue"
    if piece.classes & _DENIAL:
        return "denied"
    return "told" if piece.classes & _TOLD else "plain"


def _signs_of_plain(pieces: Sequence[_Piece], kinds: Sequence[str]) -> Iterator[float]:
    cues = [place for place, kind in enumerate(kinds) if kind == "cue"]
    first, last = (cues[0], cues[-1]) if cues else (len(pieces), -1)
    plain = _of_kind("plain", pieces, kinds)
    yield math.log1p(sum(p.new for p in _of_kind("plain", pieces[:first], kinds[:first])))
    yield math.log1p(sum(p.new for p in _of_kind("plain", pieces[last + 1 :], kinds[last + 1 :])))
    yield float(any(p.figures for p in plain))
    yield math.log1p(sum(p.asked for p in plain))
    yield math.log1p(sum(p.new for p in plain if p.classes & _CONTRAST))
    yield from _signs_of_denials(pieces, kinds)
    yield float(kinds[0] == "plain")
    yield float(kinds[0] == "told")
    yield math.log1p(sum(p.new for p in _of_kind("told", pieces, kinds)))
    yield float(len(cues))
    yield math.log1p(len(pieces))
    words = [p.new + p.asked for p in pieces]
    yield sum(words[place] for place in cues) / max(1.0, sum(words))
    asked = [p.asked for p in pieces]
    yield sum(asked[place] for place in cues) / max(1.0, sum(asked))


def _signs_of_denials(pieces: Sequence[_Piece], kinds: Sequence[str]) -> Iterator[float]:
    """``denied_new`` to ``limited_first``, see :data:`SIGNS`."""
    denied = _of_kind("denied", pieces, kinds)
    yield math.log1p(sum(p.new for p in denied))
    yield math.log1p(sum(p.asked for p in denied))
    yield float(kinds[0] == "denied")
    yield float(any(p.classes & _CONTRAST and p.classes & _DENIAL for p in pieces[1:]))
    yield float("denied" in kinds and "told" in kinds[: _last(kinds, "denied")])
    yield float(any(p.classes & _LACKING for p in denied))
    yield float(any(p.classes & _NOBODY for p in pieces))
    yield float(any(p.classes & _NOBODY for p in _of_kind("cue", pieces, kinds)))
    yield float(any(p.classes & _NOBODY for p in denied))
    told = _of_kind("told", pieces, kinds)
    yield float(any(p.classes & _LIMITS for p in told))
    yield float(kinds[0] == "told" and bool(pieces[0].classes & _LIMITS))


def _last(kinds: Sequence[str], kind: str) -> int:
    return len(kinds) - 1 - kinds[::-1].index(kind)


def _signs_of_world(sentences: Sequence[_Sentence]) -> Iterator[float]:
    world = [not s.phrase and not _union(p.classes for p in s.pieces) & _TOLD for s in sentences]
    pieces = [p for s, one in zip(sentences, world, strict=True) if one for p in s.pieces]
    yield math.log1p(sum(p.new for p in pieces))
    yield float(any(p.figures for p in pieces))
    yield float(world[0])
    yield float(world[-1])
    yield float(any(p.classes & _NEGATION for p in pieces))


_FIRST_WORD = re.compile(r"[,،、，.。!！।\s]")
_FIRST_PIECE = re.compile(r"[,،、，.。!！।]")


def _opens_with_verdict(text: str, entry: Language) -> bool:
    """Whether a text begins with yes or no."""
    words = _words(entry.code)
    end = _FIRST_WORD if words.gap else _FIRST_PIECE
    first = end.split(text.lstrip()[:100], maxsplit=1)[0]
    return words.gap.join(_fold(first, entry, False)) in words.verdicts


# Trees --------------------------------------------------------------------------------------------


@cache
def _trees() -> Forest:
    return forest(packaged_json("abstention_trees.json"), SIGNS)
