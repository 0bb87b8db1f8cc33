"""The kinds of fault that a simulated system may have, and what each leaves of a response."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from mirage.languages import Language
from mirage.surrogate.drafts import Draft, Scene, faultless, filled
from mirage.text import Sentence, mentioned, split_sentences

__all__ = ["ARENA_FAULTS", "FAULTS", "Fault", "abstention_of"]

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
    """Replace all digits. If the answer was among them, the response is a lie."""
    spoilt = draft.worded(lambda text: _with_other_digits(text, rng))
    if spoilt == draft:
        return None
    return spoilt if all(scene.stated(spoilt.text)) else spoilt.having("wrong-number in the answer")


def _with_other_digits(text: str, rng: Random) -> str:
    def other(match: re.Match[str]) -> str:
        zero = ord(match[0]) - int(match[0])  # the script's own digit zero
        return chr(zero + (int(match[0]) + 1 + int(rng.integers(8))) % 10)

    return re.sub(r"\d", other, text)


def _hallucinated(draft: Draft, scene: Scene, rng: Random) -> Draft:
    elsewhere = _drawn([query for query in scene.corpus if query.id != scene.query.id], rng)
    sentences = scene.sentences_of(_drawn(elsewhere.passages, rng))[:2]
    made_up = draft.saying(sentences).citing(lambda _: scene.query.relevant[:1])
    return draft.saying(draft.sentences + made_up.sentences)


def _beside_the_point(draft: Draft, scene: Scene, rng: Random) -> Draft:
    return draft.saying(scene.sentences_of(_drawn(scene.misleading, rng))[:3])


def _refusing(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """An abstention in general words, or one that was written for another query."""
    if rng.random() < 0.5:
        templates = scene.phrases.faults["abstain_then_lie"]
        text = abstention_of(templates[int(rng.integers(len(templates)))], scene)
    else:
        other = _drawn([query for query in scene.corpus if query.answerable is False], rng)
        text = scene.at(other).texts.terse
    return draft.saying(scene.parsed(text).sentences).citing(lambda _: ())


def abstention_of(template: str, scene: Scene) -> str:
    """Return the first sentence of a template that abstains before it lies."""
    return split_sentences(template.replace("{false}", ""), scene.query.language)[0]


# What is asserted ---------------------------------------------------------------------------------


def _phrased(kind: str) -> Change:
    """Return a fault whose texts are the templates of a kind, filled for the query."""

    def change(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
        true = _true_part(draft, scene)
        if true is None:
            return None
        templates = scene.phrases.faults[kind]
        language = Language.of(scene.query.language)
        for i in rng.permutation(len(templates)):
            text = filled(
                templates[int(i)],
                scene.query,
                true=true.answer(language),
                false=scene.texts.false,
                wrong=int(rng.integers(100)),
            )
            if text is not None:
                return _cited_as(draft, draft.saying(scene.parsed(text).sentences))
        return None

    return change


def _true_part(draft: Draft, scene: Scene) -> Draft | None:
    """Return the first sentences, up to the one that completes the right answer, if any does."""
    for end in range(1, len(draft.sentences) + 1):
        part = draft.saying(draft.sentences[:end])
        if all(scene.stated(part.text)):
            return part
    return None


def _cited_as(draft: Draft, new: Draft) -> Draft:
    """Return ``new`` with the citations of ``draft`` on its last sentence if it has none.

    Citations must not tell the fault: a list of candidates may cite what a true answer cites.
    """
    if any(sentence.citations for sentence in new.sentences):
        return new
    cited = tuple(dict.fromkeys(id_ for s in draft.sentences for id_ in s.citations))
    *first, last = new.sentences
    return new.saying([*first, Sentence(last.text, cited)])


def _half_right(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    """Add a false statement about another matter: a sentence of a passage with other numbers.

    If no sentence has a number, add a sentence of the lie that names no candidate.
    """
    candidates = (*scene.query.answers, *scene.query.wrong_answers)

    def beside(sentence: Sentence) -> bool:
        code = scene.query.language
        return not any(mentioned(forms, sentence.text, code) for forms in candidates)

    for passages in (scene.relevant, scene.misleading):
        numeric = [
            s for s in scene.sentences_of(*passages) if re.search(r"\d", s.text) and beside(s)
        ]
        if numeric:
            sentence = _drawn(numeric, rng)
            break
    else:
        lies = list(filter(beside, scene.parsed(scene.texts.false).sentences))
        if not lies:
            return None
        sentence = _drawn(lies, rng)
    text = _with_other_digits(sentence.text, rng)
    cites = any(s.citations for s in draft.sentences)
    return draft.saying((*draft.sentences, Sentence(text, sentence.citations if cites else ())))


def _answering_another(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """The right answer to another question, citing what the draft cites."""
    queries = [q for q in scene.corpus if q.answerable and q.id != scene.query.id]
    sentences = faultless(scene.at(_drawn(queries, rng))).citing(lambda _: ()).sentences
    return _cited_as(draft, draft.saying(sentences))


def _swapped(draft: Draft, scene: Scene, _: Random) -> Draft | None:
    """Exchange the right answer and the wrong ones, if the draft mentions both."""
    query = scene.query
    if len(query.answers) != 1 or not query.wrong_answers:
        return None
    right, wrong = (
        _any_of(query.answers[0]),
        _any_of(f for forms in query.wrong_answers for f in forms),
    )
    rival = wrong.search(draft.text)
    if rival is None or right.search(draft.text) is None:
        return None
    both = re.compile(f"(?P<right>{right.pattern})|(?:{wrong.pattern})", re.IGNORECASE)
    return draft.worded(
        lambda text: both.sub(
            lambda match: rival[0] if match["right"] is not None else query.answers[0][0], text
        )
    )


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
    if share == 1:
        return None
    return replace(draft, sentences=sentences, complete=draft.complete * share)


def _cut_off(draft: Draft, scene: Scene, _: Random) -> Draft:
    first = draft.sentences[0].text
    cut = draft.saying([Sentence(first[: len(first) * 2 // 3].rstrip(), ())])
    return cut if all(scene.stated(cut.text)) else cut.having("cut-off before the answer")


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

    ``answerable`` says that only queries that have an answer (``True``) or have none (``False``)
    can have it; ``reason``, whether the reason stays. What it costs is in
    :data:`mirage.surrogate.utilities.LEFT`.
    """

    change: Change
    answerable: bool | None = None
    reason: bool = True

    def done_to(self, draft: Draft, scene: Scene, rng: Random) -> Draft | None:
        """Return the draft with this fault, or ``None`` if it cannot have it."""
        if self.answerable not in (None, bool(scene.query.answerable)):
            return None
        changed = self.change(draft, scene, rng)
        if changed is None:
            return None
        return replace(changed, reason=changed.reason if self.reason else "")


# Faults that write another text come before those that change it, and these before those that
# change its citations: a system with several faults suffers them in this order.
_REWRITING: Mapping[str, Fault] = {
    "wrong-language": Fault(_wrong_language),
    "off-topic": Fault(_beside_the_point, True, reason=False),
    "answered-anyway": Fault(_answered_anyway, False, reason=False),
    "refusal": Fault(_refusing, True, reason=False),
    "lying": Fault(_lying, True, reason=False),
    "wrong-entity": Fault(_wrong_entity, True, reason=False),
}
_ASSERTING: Mapping[str, Fault] = {
    "denying": Fault(_phrased("denial"), True, reason=False),
    "mention-lie": Fault(_phrased("mention_lie"), True, reason=False),
    "listing": Fault(_phrased("candidate_list"), True, reason=False),
    "undecided": Fault(_phrased("undecided"), True, reason=False),
    "guessing": Fault(_phrased("unstated_guess"), True, reason=False),
    "abstain-then-lie": Fault(_phrased("abstain_then_lie"), True, reason=False),
    "other-question": Fault(_answering_another, True, reason=False),
    "swapped": Fault(_swapped, True, reason=False),
    "half-right": Fault(_half_right, True),
}
_CHANGING: Mapping[str, Fault] = {
    "wrong-number": Fault(_wrong_number, reason=False),
    "hallucinated": Fault(_hallucinated, True),
    "mixed-language": Fault(_mixed_language),
    "padded": Fault(_padded),
    "verbose": Fault(_verbose, True),
    "dumping": Fault(_dumping, reason=False),
    "truncated": Fault(_truncated),
    "cut-off": Fault(_cut_off, True),
    "wrongly-cited": Fault(_wrongly_cited, reason=False),
    "over-cited": Fault(_over_cited, reason=False),
    "uncited": Fault(_uncited, reason=False),
    "garbled": Fault(_garbled, reason=False),
    "format-broken": Fault(_format_broken),
}

FAULTS: Mapping[str, Fault] = MappingProxyType({**_REWRITING, **_CHANGING})
"""The kinds of fault that any response can have, by name, in the order in which they are done."""

ARENA_FAULTS: Mapping[str, Fault] = MappingProxyType({**_REWRITING, **_ASSERTING, **_CHANGING})
"""All kinds of fault of the simulated arena: :data:`FAULTS`, and those that need the phrases of
the bundled corpora."""
