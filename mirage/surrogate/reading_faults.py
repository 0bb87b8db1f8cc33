"""Faults of careless readers, which are possible only on questions of the hard level.

To answer these questions, several passages must be combined, and a later passage may correct an
earlier one. Careless readers therefore give answers that are wrong in typical ways.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from math import log
from types import MappingProxyType

from mirage.models import Passage
from mirage.surrogate.drafts import Draft, Scene
from mirage.surrogate.faults import ARENA_FAULTS, Fault, Random
from mirage.text import tokenize
from mirage.text.sentences import Sentence

NUMERIC = frozenset({"count", "difference", "sum", "unit", "table", "update"})
"""Kinds of question whose answers are numbers that have to be computed."""

CHAINED = frozenset(
    {"join", "count", "difference", "sum", "exception", "table", "order", "unit", "update"}
)
"""Kinds of question that one of the relevant passages alone does not answer."""

_CLOSEST = 2
"""Number of sentences of a passage that a careless reader quotes as the answer."""


def _tell_other_lie(draft: Draft, scene: Scene, _: Random) -> Draft:
    return draft.saying(scene.parsed(scene.texts.other_false).sentences)


def _tell_lie(draft: Draft, scene: Scene, _: Random) -> Draft:
    return draft.saying(scene.parsed(scene.texts.false).sentences)


def _quote_first_match(draft: Draft, scene: Scene, _: Random) -> Draft | None:
    """Return a draft of the sentences of the best matching passage that match the question best.

    The result is ``None`` if these sentences state all right answers.
    """
    best = _closest_passages(scene)[0]
    return _unless_right(draft.saying(_closest_sentences(scene, best)), scene)


def _stop_after_one(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    """Return a draft from one relevant passage only, although several are needed.

    The result is ``None`` if the draft states all right answers.
    """
    passage = scene.relevant[int(rng.integers(len(scene.relevant)))]
    return _unless_right(draft.saying(_closest_sentences(scene, passage)), scene)


def _miscalculate(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    """Return the draft with the last digit of the right number changed.

    The result is ``None`` if no number could be replaced, for example because the draft writes it
    in words, or if the draft still states all right answers.
    """
    forms = {form for forms in scene.query.answers for form in forms if re.search(r"\d", form)}
    if not forms:
        return None
    pattern = re.compile(
        "|".join(
            rf"(?<!\d){re.escape(form)}(?!\d)" for form in sorted(forms, key=len, reverse=True)
        )
    )
    step = int(rng.integers(1, 4))
    slipped = draft.worded(lambda text: pattern.sub(lambda match: _slip(match[0], step), text))
    return None if slipped == draft else _unless_right(slipped, scene)


def _slip(form: str, step: int) -> str:
    """Return the spelling ``form`` of an answer with the last digit of its first number changed.

    ``step`` is added to the digit, modulo 10.
    """
    number = re.search(r"\d+", form)
    assert number is not None
    last = number.end() - 1
    zero = ord(form[last]) - int(form[last])  # the digit zero of the script
    return form[:last] + chr(zero + (int(form[last]) + step) % 10) + form[last + 1 :]


def _unless_right(draft: Draft, scene: Scene) -> Draft | None:
    """Return the draft unchanged, or ``None`` if it states all right answers."""
    if scene.query.answers and all(scene.stated(draft.text)):
        return None
    return draft


def _closest_passages(scene: Scene) -> list[Passage]:
    """Return the passages, sorted by the words that they share with the question, best first.

    Words that occur in fewer passages have a larger weight.
    """
    words = [
        set(tokenize(f"{passage.title} {passage.text}", scene.query.language))
        for passage in scene.query.passages
    ]
    weights = _rarity(words)
    question = set(tokenize(scene.query.text, scene.query.language))
    scores = [sum(weights[word] for word in question & passage) for passage in words]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [scene.query.passages[index] for index in order]


def _closest_sentences(scene: Scene, passage: Passage) -> tuple[Sentence, ...]:
    """Return the ``_CLOSEST`` sentences of a passage that match the question best, in order."""
    code, sentences = scene.query.language, scene.sentences_of(passage)
    words = [set(tokenize(sentence.text, code)) for sentence in sentences]
    weights, question = _rarity(words), set(tokenize(scene.query.text, code))
    scores = [sum(weights[word] for word in question & sentence) for sentence in words]
    best = sorted(range(len(sentences)), key=lambda index: -scores[index])[:_CLOSEST]
    return tuple(sentences[index] for index in sorted(best))


def _rarity(texts: Iterable[set[str]]) -> dict[str, float]:
    """Return the weight of each word, which is larger if the word occurs in fewer texts."""
    texts = list(texts)
    frequency = Counter(word for words in texts for word in words)
    return {word: log(1 + len(texts) / number) for word, number in frequency.items()}


READING_FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "first-passage": Fault(_quote_first_match, reason=False),
        "one-hop": Fault(_stop_after_one, True, reason=False, kinds=CHAINED),
        "hasty": Fault(_tell_other_lie, True, reason=False),
        "update-ignoring": Fault(_tell_lie, True, reason=False, kinds=frozenset({"update"})),
        "exception-ignoring": Fault(_tell_lie, True, reason=False, kinds=frozenset({"exception"})),
        "one-sided": Fault(_tell_lie, True, reason=False, kinds=frozenset({"conflict"})),
        "namesake-mistaking": Fault(_tell_lie, True, reason=False, kinds=frozenset({"namesake"})),
        "miscalculating": Fault(_miscalculate, True, reason=False, kinds=NUMERIC),
    }
)
"""Faults of careless readers, by name."""

HARD_FAULTS: Mapping[str, Fault] = MappingProxyType({**READING_FAULTS, **ARENA_FAULTS})
"""All kinds of fault of the hard level, in the order in which they are applied."""
