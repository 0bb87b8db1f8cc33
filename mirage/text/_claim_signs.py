"""What stands around the mention of a candidate answer, as numbers for the trees of ``claims``."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from mirage.languages import Language
from mirage.text._candidates import Span, sentence_spans
from mirage.text._cues import CUES, Cue, cues
from mirage.text._folding import fold
from mirage.text.lexicon import lexicon
from mirage.text.mentions import stem
from mirage.text.tokens import tokenize
from mirage.text.words import IN_WORD

__all__ = ["MENTION_SIGNS", "Mentioned", "mention_signs"]

_FRAMING = ("negation", "contrast", "attribution", "falsity", "truth", "retraction")
_MARKING = ("negation", "attribution", "falsity", "truth", "exclusion", "comparison", "inferiority")
_NEAR = ("before", "after", "earlier", "later", "previous", "next")
MENTION_SIGNS = (
    # How near each kind of cue is: before and after the mention in its clause (1 if it is the next
    # word, less if it is farther), and whether one is earlier or later in the sentence, in the
    # sentence before and in the sentence after.
    *(f"{kind}_{where}" for kind in CUES for where in _NEAR),
    # Other candidates: in the clause, in the sentence, in the text, before and after; next to it
    # with nothing but a comma or a conjunction between.
    *("rivals_in_clause", "rivals_in_sentence", "rivals", "rivals_before", "rivals_after"),
    *("rival_next_before", "rival_next_after", "same_before", "same_after", "same_in_sentence"),
    # Where the sentence is, and what it looks like.
    *("sentence", "sentences_after", "question", "next_is_answer", "quoted", "parenthesis", "line"),
    *("clause_words", "sentence_words", "position", "opens_sentence", "ends_sentence"),
    # How near a cue of some kinds is on the side on which the language marks a noun: before it as
    # in "not the Nile", or behind it as in Japanese; and the same of the rivals in the sentence.
    *(f"marked_{kind}" for kind in _MARKING),
    *(f"rival_marked_{kind}" for kind in _MARKING),
    # Whether a cue stands before or behind a rival in the rival's clause.
    *(f"rival_{kind}_{side}" for kind in _MARKING for side in ("before", "after")),
    *("before_rival", "after_rival", "compared", "compared_rival"),
    # Whether the mention is in a quotation, and a cue is just before the quotation or behind it.
    "in_quotation",
    *(f"{kind}_{where}" for kind in _FRAMING for where in ("opens", "closes")),
    # How much of the question the clause and the sentence repeat.
    *("asked_in_clause", "asked_in_sentence", "asked_elsewhere", "verb_final", "characters"),
)
"""The names of the numbers that :func:`mention_signs` returns, in its order."""

_POSTPOSED = frozenset({"bn", "hi", "ja", "ko", "te"})
_VERB_FINAL = frozenset({"bn", "fa", "hi", "ja", "ko", "te"})
_CLAUSE_END = re.compile(r"[,;:،؛、，；：](?!\d)|\s[-–—]+\s|[—()（）\n]")
_WORD = re.compile(rf"[{IN_WORD}]+")
_QUESTION_END = re.compile(r"[?？؟][\s\"'”’»」』)*_]*\Z")
_OPENING_QUOTES, _CLOSING_QUOTES = '“„«「『‘"', '”“»」』’"'
_QUOTATION = re.compile('“[^”“]+[”“]|„[^“”]+[“”]|«[^»]+»|「[^」]+」|『[^』]+』|"[^"]+"')
_FRAME = 80
"""Characters before and behind a quotation that say how it is meant."""
_SHORT_GAP = 12  # characters between two candidates of a list


class Mentioned(NamedTuple):
    """A mention of a candidate: its place, and the number of the group that it belongs to."""

    start: int
    end: int
    group: int


class _Scene(NamedTuple):
    """A text, read for the signs of all its mentions."""

    text: str
    folded: str
    entry: Language
    sentences: tuple[Span, ...]  # in the folded text
    mentions: tuple[Mentioned, ...]  # in the folded text
    cues: tuple[Cue, ...]
    asked: frozenset[str]


def mention_signs(
    text: str, mentions: Sequence[Mentioned], language: str | Language, question: str
) -> list[tuple[float, ...]]:
    """Return the signs of each mention, in the order of :data:`MENTION_SIGNS`."""
    scene = _scene(text, tuple(mentions), Language.of(language), question)
    return [tuple(_signs(scene, mention)) for mention in scene.mentions]


def _scene(text: str, mentions: tuple[Mentioned, ...], entry: Language, question: str) -> _Scene:
    folded = fold(text)
    inside = tuple(Mentioned(folded.place(m.start), folded.place(m.end), m.group) for m in mentions)
    sentences = tuple(
        (folded.place(start), folded.place(end)) for start, end in sentence_spans(text, entry.code)
    )
    free = (
        cue
        for cue in cues(folded, text, entry)
        if not any(cue.start < m.end and m.start < cue.end for m in inside)
    )
    return _Scene(
        text, folded.text, entry, sentences, inside, tuple(free), _content(question, entry)
    )


@lru_cache(maxsize=2048)
def _content(text: str, entry: Language) -> frozenset[str]:
    """The stems of a text without function words, or its pairs of characters."""
    plain = lexicon(entry.code).function_words
    tokens = [stem(token, entry) for token in tokenize(text, entry)]
    if entry.tokens == "character":
        return frozenset("".join(tokens[i : i + 2]) for i in range(len(tokens) - 1))
    length = 4 if entry.gram_length == 3 else 3
    return frozenset(token[:length] for token in tokens if token not in plain)


def _signs(scene: _Scene, mention: Mentioned) -> Iterator[float]:
    index = max(0, bisect_right([start for start, _ in scene.sentences], mention.start) - 1)
    sentence = scene.sentences[index]
    clause = _clause(scene.folded, sentence, mention)
    yield from _cue_signs(scene, mention, index, clause)
    yield from _rival_signs(scene, mention, sentence, clause)
    yield from _place_signs(scene, mention, index, clause)
    yield from _marking_signs(scene, mention, sentence)
    yield from _quotation_signs(scene, mention)
    yield from _question_signs(scene, sentence, clause)


def _clause(folded: str, sentence: Span, mention: Mentioned) -> Span:
    start, end = sentence
    for match in _CLAUSE_END.finditer(folded, *sentence):
        if match.end() <= mention.start:
            start = match.end()
        elif match.start() >= mention.end:
            end = match.start()
            break
    return start, end


def _cue_signs(scene: _Scene, mention: Mentioned, index: int, clause: Span) -> Iterator[float]:
    values = [[0.0] * len(_NEAR) for _ in CUES]
    sentence = scene.sentences[index]
    for cue in scene.cues:
        row = values[cue.kind]
        if sentence[0] <= cue.start < sentence[1]:
            before = cue.end <= mention.start
            if clause[0] <= cue.start and cue.end <= clause[1]:
                gap = (cue.end, mention.start) if before else (mention.end, cue.start)
                near = 1 / (1 + _words_between(scene, *gap))
                row[not before] = max(row[not before], near)
            else:
                row[3 - before] = 1.0
        elif index and scene.sentences[index - 1][0] <= cue.start < sentence[0]:
            row[4] = 1.0
        elif index + 1 < len(scene.sentences) and (
            sentence[1] <= cue.start < scene.sentences[index + 1][1]
        ):
            row[5] = 1.0
    yield from chain.from_iterable(values)


def _words_between(scene: _Scene, start: int, end: int) -> float:
    if scene.entry.tokens == "character":
        return len(scene.folded[start:end].strip()) / 2
    return len(_WORD.findall(scene.folded, start, end))


def _rival_signs(
    scene: _Scene, mention: Mentioned, sentence: Span, clause: Span
) -> Iterator[float]:
    rivals = [m for m in scene.mentions if m.group != mention.group]
    same = [m for m in scene.mentions if m.group == mention.group and m != mention]

    def count(span: Span) -> float:
        return float(len({m.group for m in rivals if span[0] <= m.start < span[1]}))

    yield count(clause)
    yield count(sentence)
    yield count((0, len(scene.folded)))
    yield count((0, sentence[0]))
    yield count((sentence[1], len(scene.folded)))
    yield float(any(_adjacent(scene, m, mention) for m in rivals))
    yield float(any(_adjacent(scene, mention, m) for m in rivals))
    yield float(any(m.start < sentence[0] for m in same))
    yield float(any(m.start >= sentence[1] for m in same))
    yield float(any(sentence[0] <= m.start < sentence[1] for m in same))


def _adjacent(scene: _Scene, left: Mentioned, right: Mentioned) -> bool:
    """Whether hardly anything is between two candidates: a comma, a conjunction, a bullet."""
    if not 0 <= right.start - left.end <= _SHORT_GAP:
        return False
    return _words_between(scene, left.end, right.start) <= 1


def _place_signs(scene: _Scene, mention: Mentioned, index: int, clause: Span) -> Iterator[float]:
    start, end = scene.sentences[index]
    sentence = scene.folded[start:end]
    line_start = scene.folded.rfind("\n", 0, mention.start) + 1
    line_end = scene.folded.find("\n", mention.end)
    line = scene.folded[line_start : line_end if line_end >= 0 else None]
    before = scene.folded[start : mention.start].rstrip()[-1:]
    after = scene.folded[mention.end : end].lstrip()[:1]
    yield float(min(index, 3))
    yield float(min(len(scene.sentences) - 1 - index, 3))
    yield float(_QUESTION_END.search(sentence) is not None)
    yield float(index + 1 < len(scene.sentences) and bool(_QUESTION_END.search(sentence)))
    yield float(bool(before) and before in _OPENING_QUOTES and after in _CLOSING_QUOTES)
    yield float(before in ("(", "（"))
    yield float(
        _words_in(scene, line) <= _words_in(scene, scene.folded[mention.start : mention.end]) + 1
    )
    yield math.log1p(_words_in(scene, scene.folded[slice(*clause)]))
    yield math.log1p(_words_in(scene, sentence))
    yield (mention.start - start) / max(1, end - start)
    yield float(_words_in(scene, scene.folded[start : mention.start]) < 1)
    yield float(_words_in(scene, scene.folded[mention.end : end]) < 1)


def _words_in(scene: _Scene, text: str) -> float:
    if scene.entry.tokens == "character":
        return len(text.strip()) / 2
    return len(_WORD.findall(text))


def _marking_signs(scene: _Scene, mention: Mentioned, sentence: Span) -> Iterator[float]:
    rivals = [
        m
        for m in scene.mentions
        if m.group != mention.group and sentence[0] <= m.start < sentence[1]
    ]
    kinds = [CUES.index(kind) for kind in _MARKING]
    yield from (_marked(scene, mention, kind, sentence) for kind in kinds)
    for kind in kinds:
        yield max((_marked(scene, rival, kind, sentence) for rival in rivals), default=0.0)
    for kind in kinds:
        beside = [_beside(scene, rival, kind, sentence) for rival in rivals]
        yield max((before for before, _ in beside), default=0.0)
        yield max((after for _, after in beside), default=0.0)
    yield float(any(mention.start < rival.start for rival in rivals))
    yield float(any(rival.start < mention.start for rival in rivals))
    own = _compared(scene, mention, sentence)
    theirs = [_compared(scene, rival, sentence) for rival in rivals]
    yield own
    yield max(theirs, key=abs, default=0.0)


def _compared(scene: _Scene, mention: Mentioned, sentence: Span) -> float:
    """How near the mention is named as the lesser of two (above 0) or the greater (below 0)."""
    lesser = _marked(scene, mention, CUES.index("comparison"), sentence)
    greater = _marked(scene, mention, CUES.index("inferiority"), sentence)
    return lesser - greater


def _beside(scene: _Scene, mention: Mentioned, kind: int, sentence: Span) -> tuple[float, float]:
    """How near a cue stands before and behind a mention in its clause."""
    clause = _clause(scene.folded, sentence, mention)
    near = [0.0, 0.0]
    for cue in scene.cues:
        if cue.kind == kind and clause[0] <= cue.start and cue.end <= clause[1]:
            after = cue.end > mention.start
            gap = (mention.end, cue.start) if after else (cue.end, mention.start)
            near[after] = max(near[after], 1 / (1 + _words_between(scene, *gap)))
    return near[0], near[1]


def _marked(scene: _Scene, mention: Mentioned, kind: int, sentence: Span) -> float:
    """How near a cue stands on the marking side, with no other candidate between."""
    if scene.entry.code in _POSTPOSED:
        ends = [m.start for m in scene.mentions if m.start >= mention.end]
        gaps = [
            (mention.end, cue.start)
            for cue in scene.cues
            if cue.kind == kind and mention.end <= cue.start < min([sentence[1], *ends])
        ]
    else:
        starts = [m.end for m in scene.mentions if m.end <= mention.start]
        gaps = [
            (cue.end, mention.start)
            for cue in scene.cues
            if cue.kind == kind
            and max([sentence[0], *starts]) <= cue.start
            and cue.end <= mention.start
        ]
    return max((1 / (1 + _words_between(scene, *gap)) for gap in gaps), default=0.0)


def _quotation_signs(scene: _Scene, mention: Mentioned) -> Iterator[float]:
    quotation = next(
        (
            m.span()
            for m in _QUOTATION.finditer(scene.folded)
            if m.start() < mention.start < m.end()
        ),
        None,
    )
    start, end = quotation or (0, 0)
    opening, closing = (start - _FRAME, start), (end, end + _FRAME)
    yield float(quotation is not None)
    for kind in _FRAMING:
        own = [cue for cue in scene.cues if CUES[cue.kind] == kind]
        yield float(quotation is not None and _any_within(own, opening))
        yield float(quotation is not None and _any_within(own, closing))


def _any_within(candidates: Sequence[Cue], span: Span) -> bool:
    return any(span[0] <= cue.start < span[1] for cue in candidates)


def _question_signs(scene: _Scene, sentence: Span, clause: Span) -> Iterator[float]:
    asked = scene.asked
    here = _share(scene, sentence)
    yield _share(scene, clause)
    yield here
    others = (_share(scene, span) for span in scene.sentences if span != sentence)
    yield max(others, default=0.0) if asked else 0.0
    yield float(scene.entry.code in _VERB_FINAL)
    yield float(scene.entry.tokens == "character")


def _share(scene: _Scene, span: Span) -> float:
    if not scene.asked:
        return 0.0
    words = _content(scene.folded[slice(*span)], scene.entry)
    return len(words & scene.asked) / len(scene.asked)
