"""Compute the signs of a mention: numbers that describe the words around a candidate answer.

A sign is an input feature of the boosted trees in ``claims``. The trees predict how the text
presents the mentioned candidate: whether it asserts, denies or reports the candidate, and so on.
Other candidates in the text are called rivals. Words that show how a text presents a statement,
such as "not", are called cues.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from mirage.languages import Language
from mirage.text._candidates import Span, sentence_spans
from mirage.text._cues import CUES, Cue, cues
from mirage.text._folding import fold
from mirage.text._unicode import any_of
from mirage.text.lexicon import lexicon
from mirage.text.mentions import stems
from mirage.text.tokens import tokenize
from mirage.text.words import IN_WORD

__all__ = [
    "MENTION_SIGNS",
    "Mentioned",
    "content_words",
    "mention_signs",
]

_FRAMING = ("negation", "contrast", "attribution", "falsity", "truth", "retraction")
_MARKING = ("negation", "attribution", "falsity", "truth", "exclusion", "comparison", "inferiority")
_REACHING = ("negation", "falsity", "truth", "attribution", "exclusion", "retraction")
_MARKING_KINDS = tuple(map(CUES.index, _MARKING))
_COMPARISON, _INFERIORITY = map(CUES.index, ("comparison", "inferiority"))
_NEGATING = frozenset(CUES.index(kind) for kind in ("negation", "falsity", "exclusion"))
_SCOPE = ("new", "asked", "apart")
_TOPICAL = frozenset({"falsity", "truth", "exclusion", "retraction"})
_NEGATION, _CONTRAST = CUES.index("negation"), CUES.index("contrast")
_NEAR = ("before", "after", "earlier", "later", "previous", "next")
MENTION_SIGNS = (
    # How near each kind of cue is before and after the mention in its clause: 1 if it is the next
    # word, less if it is farther away. Then four flags: a cue earlier or later in the sentence,
    # in the previous sentence, in the next sentence.
    *(f"{kind}_{where}" for kind in CUES for where in _NEAR),
    # How many other candidates (rivals) are in the clause, the sentence, the whole text, before
    # and after the sentence; whether one is next to the mention in a list; and whether the same
    # candidate is mentioned elsewhere.
    *("rivals_in_clause", "rivals_in_sentence", "rivals", "rivals_before", "rivals_after"),
    *("rival_next_before", "rival_next_after", "same_before", "same_after", "same_in_sentence"),
    # Position and form of the sentence, and position of the mention in it.
    *("sentence", "sentences_after", "question", "next_is_answer", "quoted", "parenthesis", "line"),
    *("clause_words", "sentence_words", "position", "opens_sentence", "ends_sentence"),
    # How near a cue is on the side on which the language marks a noun: before it, as in "not the
    # Nile", or after it, as in Japanese. The same for the rivals in the sentence.
    *(f"marked_{kind}" for kind in _MARKING),
    *(f"rival_marked_{kind}" for kind in _MARKING),
    # How near a cue is before and after a rival in the rival's clause.
    *(f"rival_{kind}_{side}" for kind in _MARKING for side in ("before", "after")),
    *("before_rival", "after_rival", "compared", "compared_rival"),
    # Whether the mention is in a quotation, whether nothing comes before or after the quotation,
    # and whether a cue is just before or after it.
    *("in_quotation", "quotation_opens_text", "quotation_ends_text"),
    *(f"{kind}_{where}" for kind in _FRAMING for where in ("opens", "closes")),
    # How much of the question is repeated in the clause, the sentence and other sentences; then
    # two facts about the language: its verbs come last, its tokens are characters.
    *("asked_in_clause", "asked_in_sentence", "asked_elsewhere", "verb_final", "characters"),
    # How near a cue is in the sentence on each side, across the borders of clauses but not across
    # another candidate. "It is untrue that", for example, denies a later clause.
    *(f"{kind}_{side}_in_sentence" for kind in _REACHING for side in ("before", "after")),
    # How many cues negate (negation, falsity, exclusion) in the clause, the sentence and the next
    # sentence. Then how many words the previous and the next sentence have, and how many content
    # words are left in the previous, this and the next sentence without cues, candidates and words
    # of the question. In "1912? Absolutely not." none are left.
    *("negated_in_clause", "negated_in_sentence", "negated_next", "previous_words", "next_words"),
    *("previous_rest", "sentence_rest", "next_rest"),
    # Whether this, the next and the previous sentence open with a verdict, such as "Yes," or "No.".
    *("opens_with_yes", "opens_with_no", "next_opens_with_yes", "next_opens_with_no"),
    *("previous_opens_with_yes", "previous_opens_with_no"),
    # The same for the first and the last sentence of the text, if they mention no candidate: kinds
    # of cue, words, and content words that are left. "All of this is made up" denies what comes
    # several sentences before.
    *(f"{kind}_in_{end}" for end in ("first", "last") for kind in _FRAMING),
    *("first_words", "first_rest", "last_words", "last_rest"),
    # For the nearest negation in the sentence, before and after the mention: how many content words
    # its part of the sentence has that are not in the question, how much of the question it
    # repeats, and whether it is another part than that of the mention. In "It opened on 14 March
    # and has not been enlarged since", the negation is in another part, about something else.
    *(f"negated_{what}_{side}" for side in ("before", "after") for what in _SCOPE),
)
"""Names of the features (signs) of a mention, in the order of :func:`mention_signs`."""

_POSTPOSED = frozenset({"bn", "hi", "ja", "ko", "te"})
_VERB_FINAL = frozenset({"bn", "fa", "hi", "ja", "ko", "te"})
_CLAUSE_END = re.compile(r"[,;:،؛、，；：](?!\d)|\s[-–—]+\s|[—()（）\n]")
_WORD = re.compile(rf"[{IN_WORD}]+")
_QUESTION_END = re.compile(r"[?？؟][\s\"'”’»」』)*_]*\Z")
_OPENING_QUOTES, _CLOSING_QUOTES = '“„«「『‘"', '”“»」』’"'
_QUOTATION = re.compile('“[^”“]+[”“]|„[^“”]+[“”]|«[^»]+»|「[^」]+」|『[^』]+』|"[^"]+"')
_FRAME = 80
"""Number of characters before and after a quotation that are searched for cues."""
_PAUSE = r"(?:[,.!?:;،؛。！？、，；।]|[-–—]|\Z)"
_SHORT_GAP = 12  # most characters between two neighbouring candidates of a list


class Mentioned(NamedTuple):
    """The position of a mention of a candidate answer, and the group of the answer.

    The candidate answers of one group can be true together.

    Attributes:
        start: Offset of the first character.
        end: Offset after the last character.
        group: Number that identifies the group of the candidate answer.
    """

    start: int
    end: int
    group: int


class _Sentence(NamedTuple):
    """A sentence of a text, with data for the features of the mentions in it.

    Attributes:
        start: Offset of the first character.
        end: Offset after the last character.
        words: Number of words.
        rest: Number of content words that are in no cue (words such as "not"), in no candidate
            answer and not in the question.
        kinds: Kinds of the cues in the sentence.
        mentions_candidate: Whether the sentence mentions a candidate answer.
        opens_with: Two flags, each 1 or 0: whether the sentence opens with a word such as "yes",
            and whether it opens with a word such as "no".
    """

    start: int
    end: int
    words: float
    rest: int
    kinds: frozenset[str]
    mentions_candidate: bool
    opens_with: tuple[float, float]

    @property
    def span(self) -> Span:
        return self.start, self.end


_NO_SENTENCE = _Sentence(0, 0, 0.0, 0, frozenset(), False, (0.0, 0.0))


class _Scene(NamedTuple):
    """A text with the data from which features of its mentions of answers are computed."""

    text: str
    folded: str
    entry: Language
    sentences: tuple[_Sentence, ...]  # in the folded text
    mentions: tuple[Mentioned, ...]  # in the folded text
    cues: tuple[Cue, ...]  # without cues inside a mention
    question_words: frozenset[str]


def mention_signs(
    text: str, mentions: Sequence[Mentioned], language: str | Language, question: str
) -> list[tuple[float, ...]]:
    """Return one feature vector for each mention of a candidate answer.

    The features describe the words around the mention, in the order of :data:`MENTION_SIGNS`.

    Args:
        text: The text, in NFC.
        mentions: The mentions of candidates in the text.
        language: The language of the text.
        question: The question. Some features measure how many of its words the text repeats.
    """
    scene = _build_scene(text, tuple(mentions), Language.with_board(language), question)
    marks = {mention: _marks(scene, mention) for mention in scene.mentions}
    return [tuple(_signs(scene, mention, marks)) for mention in scene.mentions]


def _build_scene(
    text: str, mentions: tuple[Mentioned, ...], entry: Language, question: str
) -> _Scene:
    folded = fold(text)
    folded_mentions = tuple(
        Mentioned(folded.folded_index(m.start), folded.folded_index(m.end), m.group)
        for m in mentions
    )
    repeated = _topical_cues(question, entry)
    detached = (_detach(cue, folded_mentions, folded.text) for cue in cues(folded, text, entry))
    free_cues = tuple(
        cue
        for cue in detached
        if not any(cue.start < m.end and m.start < cue.end for m in folded_mentions)
        and (CUES[cue.kind], folded.text[cue.start : cue.end]) not in repeated
    )
    question_words = content_words(question, entry)
    scene = _Scene(text, folded.text, entry, (), folded_mentions, free_cues, question_words)
    spans = (
        (folded.folded_index(start), folded.folded_index(end))
        for start, end in sentence_spans(text, entry.code)
    )
    return scene._replace(sentences=tuple(_describe_sentence(scene, span) for span in spans))


def _describe_sentence(scene: _Scene, span: Span) -> _Sentence:
    yes, no = (float(v.match(scene.folded, *span) is not None) for v in _verdicts(scene.entry.code))
    return _Sentence(
        *span,
        words=_words_in(scene, scene.folded[slice(*span)]),
        rest=len(_rest(scene, span)),
        kinds=frozenset(CUES[cue.kind] for cue in scene.cues if span[0] <= cue.start < span[1]),
        mentions_candidate=any(span[0] <= m.start < span[1] for m in scene.mentions),
        opens_with=(yes, no),
    )


@lru_cache(maxsize=2048)
def _topical_cues(question: str, entry: Language) -> frozenset[tuple[str, str]]:
    """Return the kinds and texts of the cue words that belong to the topic of a question.

    "Fiction", for example, is a cue, but denies nothing in an answer about a work of fiction.
    """
    folded = fold(question)
    return frozenset(
        (CUES[cue.kind], folded.text[cue.start : cue.end])
        for cue in cues(folded, question, entry)
        if CUES[cue.kind] in _TOPICAL
    )


def _detach(cue: Cue, mentions: Sequence[Mentioned], folded: str) -> Cue:
    """Return a cue word without the part that is also the end of a mentioned answer.

    In Korean, for example, "than" is an ending that is attached to the mentioned word.
    """
    for mention in mentions:
        attached = mention.start <= cue.start < mention.end < cue.end
        if attached and _WORD.match(folded, mention.end):
            return cue._replace(start=mention.end)
    return cue


@lru_cache(maxsize=2048)
def content_words(text: str, entry: Language) -> frozenset[str]:
    """Return the stems of a text's content words, that is, of all words but function words.

    In a language whose tokens are characters, return pairs of neighbouring characters instead.
    """
    function_words = lexicon(entry.code).function_words
    tokens = stems(tokenize(text, entry), entry)
    if entry.tokens == "character":
        return frozenset("".join(tokens[i : i + 2]) for i in range(len(tokens) - 1))
    length = 4 if entry.gram_length == 3 else 3
    return frozenset(token[:length] for token in tokens if token not in function_words)


def _signs(scene: _Scene, mention: Mentioned, marks: Mapping[Mentioned, _Marks]) -> Iterator[float]:
    index = _sentence_index(scene, mention)
    sentence = scene.sentences[index].span
    clause = _clause(scene.folded, sentence, mention)
    yield from _cue_signs(scene, index, clause, mention, marks[mention])
    yield from _rival_signs(scene, mention, sentence, clause)
    yield from _position_signs(scene, mention, index, clause)
    yield from _marking_signs(scene, mention, sentence, marks)
    yield from _quotation_signs(scene, mention)
    yield from _question_signs(scene, sentence, clause)
    yield from _reach_signs(scene, mention, sentence)
    yield from _rest_signs(scene, index, clause)
    yield from _end_signs(scene, index)
    yield from _scope_signs(scene, mention, sentence)


def _sentence_index(scene: _Scene, mention: Mentioned) -> int:
    starts = [sentence.start for sentence in scene.sentences]
    return max(0, bisect_right(starts, mention.start) - 1)


def _clause(folded: str, sentence: Span, mention: Mentioned) -> Span:
    start, end = sentence
    for match in _CLAUSE_END.finditer(folded, *sentence):
        if match.end() <= mention.start:
            start = match.end()
        elif match.start() >= mention.end:
            end = match.start()
            break
    return start, end


def _cue_signs(
    scene: _Scene, index: int, clause: Span, mention: Mentioned, marks: _Marks
) -> Iterator[float]:
    # One row for each kind of cue, one column for each entry of _NEAR.
    values = [[*near, 0.0, 0.0, 0.0, 0.0] for near in zip(marks.before, marks.after, strict=True)]
    sentence = scene.sentences[index].span
    for cue in scene.cues:
        row = values[cue.kind]
        if sentence[0] <= cue.start < sentence[1]:
            if not (clause[0] <= cue.start and cue.end <= clause[1]):
                row[2 if cue.end <= mention.start else 3] = 1.0
        elif index and scene.sentences[index - 1].start <= cue.start < sentence[0]:
            row[4] = 1.0
        elif index + 1 < len(scene.sentences) and (
            sentence[1] <= cue.start < scene.sentences[index + 1].end
        ):
            row[5] = 1.0
    yield from chain.from_iterable(values)


def _words_between(scene: _Scene, start: int, end: int) -> float:
    if scene.entry.tokens == "character":
        return len(scene.folded[start:end].strip()) / 2  # two characters count as one word
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
    yield float(any(_are_adjacent(scene, m, mention) for m in rivals))
    yield float(any(_are_adjacent(scene, mention, m) for m in rivals))
    yield float(any(m.start < sentence[0] for m in same))
    yield float(any(m.start >= sentence[1] for m in same))
    yield float(any(sentence[0] <= m.start < sentence[1] for m in same))


def _are_adjacent(scene: _Scene, first: Mentioned, second: Mentioned) -> bool:
    """Return whether two mentions are neighbours in a list of candidates.

    Between them there is at most one word, such as "and", or a bullet.
    """
    if not 0 <= second.start - first.end <= _SHORT_GAP:
        return False
    return _words_between(scene, first.end, second.start) <= 1


def _position_signs(scene: _Scene, mention: Mentioned, index: int, clause: Span) -> Iterator[float]:
    start, end = scene.sentences[index].span
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
    yield math.log1p(scene.sentences[index].words)
    yield (mention.start - start) / max(1, end - start)
    yield float(_words_in(scene, scene.folded[start : mention.start]) < 1)
    yield float(_words_in(scene, scene.folded[mention.end : end]) < 1)


def _words_in(scene: _Scene, text: str) -> float:
    if scene.entry.tokens == "character":
        return len(text.strip()) / 2
    return len(_WORD.findall(text))


class _Marks(NamedTuple):
    """How near a mention cue words, such as "not" or "than", are in its sentence.

    A number is 1 if the cue is the next word, less if it is farther away, and 0 if there is none.
    The numbers are in the order of :data:`CUES`.

    Attributes:
        marking: Cues on the side on which the language marks a noun, without another candidate in
            between. In languages with postpositions, such as Japanese, a cue follows the mention;
            in other languages it precedes it.
        before: Cues before the mention in its clause.
        after: Cues after the mention in its clause.
    """

    marking: list[float]
    before: list[float]
    after: list[float]

    @property
    def comparison(self) -> float:
        """How near a comparison word, such as "than", is to the mention.

        The number is above 0 if the mentioned candidate is the lesser of two ("longer than the
        Nile"), and below 0 if it is the greater.
        """
        return self.marking[_COMPARISON] - self.marking[_INFERIORITY]


def _marks(scene: _Scene, mention: Mentioned) -> _Marks:
    marks = _Marks(*([0.0] * len(CUES) for _ in range(3)))
    sentence = scene.sentences[_sentence_index(scene, mention)].span
    clause = _clause(scene.folded, sentence, mention)
    if scene.entry.code in _POSTPOSED:
        starts = [m.start for m in scene.mentions if m.start >= mention.end]
        marked = mention.end, min([sentence[1], *starts])
    else:
        ends = [m.end for m in scene.mentions if m.end <= mention.start]
        marked = max([sentence[0], *ends]), mention.start
    for cue in scene.cues:
        follows = cue.end > mention.start
        marks_noun = marked[0] <= cue.start and (
            cue.start < marked[1] if scene.entry.code in _POSTPOSED else cue.end <= marked[1]
        )
        in_clause = clause[0] <= cue.start and cue.end <= clause[1]
        if marks_noun or in_clause:
            gap = (mention.end, cue.start) if follows else (cue.end, mention.start)
            nearness = 1 / (1 + _words_between(scene, *gap))
            side = marks.after if follows else marks.before
            if marks_noun:
                marks.marking[cue.kind] = max(marks.marking[cue.kind], nearness)
            if in_clause:
                side[cue.kind] = max(side[cue.kind], nearness)
    return marks


def _marking_signs(
    scene: _Scene, mention: Mentioned, sentence: Span, marks: Mapping[Mentioned, _Marks]
) -> Iterator[float]:
    rivals = [
        m
        for m in scene.mentions
        if m.group != mention.group and sentence[0] <= m.start < sentence[1]
    ]
    of_rivals = [marks[rival] for rival in rivals]
    yield from (marks[mention].marking[kind] for kind in _MARKING_KINDS)
    for kind in _MARKING_KINDS:
        yield max((rival.marking[kind] for rival in of_rivals), default=0.0)
    for kind in _MARKING_KINDS:
        yield max((rival.before[kind] for rival in of_rivals), default=0.0)
        yield max((rival.after[kind] for rival in of_rivals), default=0.0)
    yield float(any(mention.start < rival.start for rival in rivals))
    yield float(any(rival.start < mention.start for rival in rivals))
    yield marks[mention].comparison
    yield max((rival.comparison for rival in of_rivals), key=abs, default=0.0)


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
    yield float(quotation is not None and not _WORD.search(scene.folded, 0, start))
    yield float(quotation is not None and not _WORD.search(scene.folded, end))
    for kind in _FRAMING:
        cues_of_kind = [cue for cue in scene.cues if CUES[cue.kind] == kind]
        yield float(quotation is not None and _any_within(cues_of_kind, opening))
        yield float(quotation is not None and _any_within(cues_of_kind, closing))


def _any_within(candidates: Sequence[Cue], span: Span) -> bool:
    return any(span[0] <= cue.start < span[1] for cue in candidates)


def _question_signs(scene: _Scene, sentence: Span, clause: Span) -> Iterator[float]:
    yield _question_share(scene, clause)
    yield _question_share(scene, sentence)
    other_shares = (
        _question_share(scene, other.span) for other in scene.sentences if other.span != sentence
    )
    yield max(other_shares, default=0.0) if scene.question_words else 0.0
    yield float(scene.entry.code in _VERB_FINAL)
    yield float(scene.entry.tokens == "character")


def _question_share(scene: _Scene, span: Span) -> float:
    if not scene.question_words:
        return 0.0
    words = content_words(scene.folded[slice(*span)], scene.entry)
    return len(words & scene.question_words) / len(scene.question_words)


def _reach_signs(scene: _Scene, mention: Mentioned, sentence: Span) -> Iterator[float]:
    ends = [m.end for m in scene.mentions if m.end <= mention.start]
    starts = [m.start for m in scene.mentions if m.start >= mention.end]
    low, high = max([sentence[0], *ends]), min([sentence[1], *starts])
    nearness = {kind: [0.0, 0.0] for kind in map(CUES.index, _REACHING)}
    for cue in scene.cues:
        if cue.kind in nearness and low <= cue.start and cue.end <= high:
            after = cue.end > mention.start
            gap = (mention.end, cue.start) if after else (cue.end, mention.start)
            row = nearness[cue.kind]
            row[after] = max(row[after], 1 / (1 + _words_between(scene, *gap)))
    yield from chain.from_iterable(nearness.values())


def _rest_signs(scene: _Scene, index: int, clause: Span) -> Iterator[float]:
    sentence = scene.sentences[index]
    previous = scene.sentences[index - 1] if index else _NO_SENTENCE
    following = scene.sentences[index + 1] if index + 1 < len(scene.sentences) else _NO_SENTENCE
    for span in (clause, sentence.span, following.span):
        negations = [
            cue
            for cue in scene.cues
            if cue.kind in _NEGATING and span[0] <= cue.start and cue.end <= span[1]
        ]
        yield float(min(len(negations), 4))
    yield math.log1p(previous.words)
    yield math.log1p(following.words)
    yield from (math.log1p(each.rest) for each in (previous, sentence, following))
    yield from sentence.opens_with
    yield from following.opens_with
    yield from previous.opens_with


def _end_signs(scene: _Scene, index: int) -> Iterator[float]:
    lengths: list[float] = []
    for position in (0, len(scene.sentences) - 1):
        end = scene.sentences[position]
        frames = position != index and not end.mentions_candidate
        yield from (float(frames and kind in end.kinds) for kind in _FRAMING)
        lengths.append(math.log1p(end.words) if frames else 0.0)
        lengths.append(math.log1p(end.rest) if frames else 0.0)
    yield from lengths


def _scope_signs(scene: _Scene, mention: Mentioned, sentence: Span) -> Iterator[float]:
    """Yield three numbers about the part of the sentence with the nearest negation, on each side.

    A part ends at a comma or another pause, at words such as "and" and "but", and at a mention.
    """
    negations = [
        cue
        for cue in scene.cues
        if cue.kind == _NEGATION and sentence[0] <= cue.start and cue.end <= sentence[1]
    ]
    before = [cue for cue in negations if cue.end <= mention.start]
    after = [cue for cue in negations if mention.end <= cue.start]
    borders = _borders(scene, sentence) if negations else []
    for cue in (before[-1:], after[:1]):
        yield from _scope_of(scene, mention, sentence, borders, cue[0]) if cue else (0.0, 0.0, 0.0)


def _borders(scene: _Scene, sentence: Span) -> list[Span]:
    """Return the spans of pauses, conjunctions and words of contrast in a sentence."""
    patterns = filter(None, (_CLAUSE_END, _conjunctions(scene.entry)))
    matches = (pattern.finditer(scene.folded, *sentence) for pattern in patterns)
    spans = [match.span() for match in chain.from_iterable(matches)]
    return spans + [(cue.start, cue.end) for cue in scene.cues if cue.kind == _CONTRAST]


def _scope_of(
    scene: _Scene, mention: Mentioned, sentence: Span, borders: Sequence[Span], cue: Cue
) -> tuple[float, float, float]:
    ends = [*borders, *((m.start, m.end) for m in scene.mentions)]
    start = max([sentence[0], *(end for _, end in ends if end <= cue.start)])
    end = min([sentence[1], *(first for first, _ in ends if first >= cue.end)])
    low, high = min(cue.end, mention.end), max(cue.start, mention.start)
    apart = any(low <= first and last <= high for first, last in borders)
    rest = len(_rest(scene, (start, end)))
    return math.log1p(rest), _question_share(scene, (start, end)), float(apart)


@cache
def _conjunctions(entry: Language) -> re.Pattern[str] | None:
    """Return a pattern for words such as "and", or ``None`` in a script without spaces."""
    words = [fold(word).text for word in entry.conjunctions if entry.tokens == "word"]
    return re.compile(rf"(?<![{IN_WORD}])(?:{any_of(words)})(?![{IN_WORD}])") if words else None


@cache
def _verdicts(code: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns for the start of a sentence: words that mean "yes", and words for "no".

    Both match only if a pause, such as a comma, follows.
    """
    words = lexicon(code)
    yes, no = (
        re.compile(rf"\W*(?:{'|'.join(re.escape(fold(form).text) for form in forms)})\s*{_PAUSE}")
        for forms in (words.yes, words.no)
    )
    return yes, no


def _rest(scene: _Scene, span: Span) -> frozenset[str]:
    """Return the content words of a span that are in no cue, no mention and not in the question.

    A cue is a word or phrase that shows how a text presents a statement, such as "not".
    """
    spans = [(cue.start, cue.end) for cue in scene.cues]
    spans += [(mention.start, mention.end) for mention in scene.mentions]
    taken = sorted((start, end) for start, end in spans if span[0] <= start < span[1])
    parts, position = [], span[0]
    for start, end in taken:
        parts.append(scene.folded[position : max(position, start)])
        position = max(position, end)
    parts.append(scene.folded[position : span[1]])
    return content_words(" ".join(parts), scene.entry) - scene.question_words
