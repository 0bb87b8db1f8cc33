"""The kinds of fault that a simulated system may have, and what each leaves of a response."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from mirage.surrogate.drafts import Draft, Quality, Scene, faultless
from mirage.text import Sentence

__all__ = ["FAULTS", "Fault"]

Random = np.random.Generator
T = TypeVar("T")

# What a fault makes of a draft; nothing where there is nothing to spoil.
Change = Callable[[Draft, Scene, Random], Draft | None]


# What is said -------------------------------------------------------------------------------------


def _lying(draft: Draft, scene: Scene, _: Random) -> Draft:
    return draft.saying(scene.parsed(scene.texts.false).sentences)


def _wrong_entity(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """A wrong answer in place of the right one, in the words of the draft.

    Where the right one stays, in some other form, it is the lie in its own words.
    """
    wrong = _drawn(scene.query.wrong_answers, rng)[0]
    pattern = _any_of(form for forms in scene.query.answers for form in forms)
    spoilt = draft.worded(lambda text: pattern.sub(lambda _: wrong, text))
    if spoilt != draft and not all(scene.stated(spoilt.text)):
        return spoilt
    cited = tuple(dict.fromkeys(id_ for s in draft.sentences for id_ in s.citations))
    return _lying(draft, scene, rng).citing(lambda s: cited if s.citations else ())


def _any_of(forms: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(map(re.escape, forms), key=len, reverse=True)
    return re.compile("|".join(rf"(?<![^\W_]){form}" for form in longest_first), re.IGNORECASE)


def _wrong_number(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    """Other digits for all. Where the answer was among them it is a lie."""

    def other(match: re.Match[str]) -> str:
        zero = ord(match[0]) - int(match[0])  # the script's own digit zero
        return chr(zero + (int(match[0]) + 1 + int(rng.integers(8))) % 10)

    spoilt = draft.worded(lambda text: re.sub(r"\d", other, text))
    if spoilt == draft:
        return None
    left = Quality(correct=1.0 if all(scene.stated(spoilt.text)) else 0.1)
    return replace(spoilt, quality=spoilt.quality.times(left))


def _hallucinated(draft: Draft, scene: Scene, rng: Random) -> Draft:
    elsewhere = _drawn([query for query in scene.corpus if query.id != scene.query.id], rng)
    sentences = scene.sentences_of(_drawn(elsewhere.passages, rng))[:2]
    made_up = draft.saying(sentences).citing(lambda _: scene.query.relevant[:1])
    return draft.saying(draft.sentences + made_up.sentences)


def _beside_the_point(draft: Draft, scene: Scene, rng: Random) -> Draft:
    return draft.saying(scene.sentences_of(_drawn(scene.misleading, rng))[:3])


def _refusing(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """An abstention that was written for another query, the shortest sentence of it."""
    other = _drawn([query for query in scene.corpus if query.answerable is False], rng)
    sentences = scene.parsed(scene.at(other).texts.terse).sentences
    return draft.saying(sentences).citing(lambda _: ())


# How much, and in which language ------------------------------------------------------------------


def _padded(draft: Draft, scene: Scene, rng: Random) -> Draft:
    extra = scene.sentences_of(_drawn(scene.misleading or scene.query.passages, rng))
    return draft.saying(draft.sentences + extra + draft.sentences[-1:])


def _verbose(draft: Draft, scene: Scene, _: Random) -> Draft:
    return draft.saying(draft.sentences + scene.sentences_of(*scene.relevant))


def _dumping(draft: Draft, scene: Scene, _: Random) -> Draft:
    return draft.saying(scene.sentences_of(*scene.query.passages))


def _truncated(draft: Draft, _: Scene, __: Random) -> Draft | None:
    sentences = draft.sentences[: max(1, len(draft.sentences) // 2)]
    share = len(sentences) / len(draft.sentences)
    left = draft.quality.times(Quality(complete=share))
    return replace(draft, sentences=sentences, quality=left) if share < 1 else None


def _cut_off(draft: Draft, scene: Scene, _: Random) -> Draft:
    first = draft.sentences[0].text
    cut = draft.saying([Sentence(first[: len(first) * 2 // 3].rstrip(), ())])
    left = Quality(correct=1.0 if all(scene.stated(cut.text)) else 0.3)
    return replace(cut, quality=cut.quality.times(left))


def _wrong_language(_: Draft, scene: Scene, __: Random) -> Draft:
    return faultless(scene.abroad(0))


def _mixed_language(draft: Draft, scene: Scene, _: Random) -> Draft:
    """Every other sentence in another language, or one more where there is no other."""
    there = faultless(scene.abroad(1)).sentences
    mixed = [there[i] if i % 2 and i < len(there) else s for i, s in enumerate(draft.sentences)]
    return draft.saying(mixed if tuple(mixed) != draft.sentences else (*mixed, there[-1]))


# Citations and form -------------------------------------------------------------------------------


def _uncited(draft: Draft, _: Scene, __: Random) -> Draft | None:
    bare = draft.citing(lambda _: ())
    return None if bare == draft else bare


def _wrongly_cited(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    wrong = [passage.id for passage in scene.misleading]
    if not any(sentence.citations for sentence in draft.sentences):
        return None
    return draft.citing(lambda s: (str(rng.choice(wrong)),) if s.citations else ())


def _over_cited(draft: Draft, scene: Scene, _: Random) -> Draft | None:
    everything = scene.query.passage_ids
    cited = draft.citing(lambda sentence: everything if sentence.citations else ())
    return None if cited == draft else cited


def _garbled(draft: Draft, _: Scene, rng: Random) -> Draft:
    text = [character for sentence in draft.sentences for character in sentence.text]
    return replace(draft.saying([Sentence("".join(rng.permutation(text)), ())]), headings=False)


def _format_broken(draft: Draft, scene: Scene, _: Random) -> Draft:
    # The reasoning runs into the answer, which therefore says more than was asked.
    reason = draft.reason or faultless(replace(scene, manner="reference")).reason
    return replace(draft, reason=reason, headings=False)


def _answered_anyway(draft: Draft, scene: Scene, rng: Random) -> Draft:
    return (_lying, _beside_the_point)[int(rng.integers(2))](draft, scene, rng)


def _drawn(choices: Sequence[T], rng: Random) -> T:
    return choices[int(rng.integers(len(choices)))]


class Fault(NamedTuple):
    """A kind of fault.

    ``left`` is what it leaves of each part of the quality. ``answerable`` says that it can befall
    only queries that have an answer (``True``) or have none; ``reason``, whether the reason stays.
    """

    change: Change
    left: Quality
    answerable: bool | None = None
    reason: bool = True

    def done_to(self, draft: Draft, scene: Scene, rng: Random) -> Draft:
        """The draft with this fault; the same draft where it cannot have it."""
        if self.answerable not in (None, bool(scene.query.answerable)):
            return draft
        changed = self.change(draft, scene, rng)
        if changed is None:
            return draft
        reason = changed.reason if self.reason else ""
        return replace(changed, reason=reason, quality=changed.quality.times(self.left))


LIE = Quality(correct=0.0, grounded=0.1, complete=0.5)

# Faults that write another text come before those that change it, and these before those that
# change its citations: a system with several faults suffers them in this order.
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "wrong-language": Fault(_wrong_language, Quality(language=0)),
        "off-topic": Fault(_beside_the_point, Quality(0, 0.5, complete=0.3), True, reason=False),
        "answered-anyway": Fault(_answered_anyway, LIE, False, reason=False),
        "refusal": Fault(_refusing, Quality(0.2, 0.4, complete=0), True, reason=False),
        "lying": Fault(_lying, LIE, True, reason=False),
        "wrong-entity": Fault(_wrong_entity, LIE, True, reason=False),
        "wrong-number": Fault(_wrong_number, Quality(0.8, 0.7), reason=False),
        "hallucinated": Fault(_hallucinated, Quality(0.6, 0.5), True),
        "mixed-language": Fault(_mixed_language, Quality(language=0.4)),
        "padded": Fault(_padded, Quality(complete=0.6, form=0.7)),
        "verbose": Fault(_verbose, Quality(complete=0.8, form=0.6), True),
        "dumping": Fault(_dumping, Quality(0.5, 0.7, complete=0.3, form=0.3), reason=False),
        "truncated": Fault(_truncated, Quality()),
        "cut-off": Fault(_cut_off, Quality(0.8, 0.5, complete=0.2, form=0.5), True),
        "wrongly-cited": Fault(_wrongly_cited, Quality(grounded=0.1), reason=False),
        "over-cited": Fault(_over_cited, Quality(grounded=0.7), reason=False),
        "uncited": Fault(_uncited, Quality(grounded=0.25), reason=False),
        "garbled": Fault(_garbled, Quality(0, 0, 0.3, 0.2, 0), reason=False),
        "format-broken": Fault(_format_broken, Quality(complete=0.8, form=0)),
    }
)
"""The kinds of fault by name, in the order in which they are done to a response."""
