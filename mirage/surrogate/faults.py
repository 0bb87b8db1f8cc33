"""Kinds of fault that a simulated system may have, with functions that change a response."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from mirage.languages import Language
from mirage.surrogate.drafts import Draft, Scene, faultless, filled, general_abstention
from mirage.text import mentioned
from mirage.text.sentences import Sentence

Random = np.random.Generator
T = TypeVar("T")

# A fault changes a draft; it returns None if the draft cannot have the fault.
Change = Callable[[Draft, Scene, Random], Draft | None]


# Content of the answer ----------------------------------------------------------------------------


def _lie(draft: Draft, scene: Scene, _: Random) -> Draft:
    return draft.saying(scene.parsed(scene.texts.false).sentences)


def _name_wrong_entity(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """Return the draft with a wrong answer in place of the right one; other words stay the same.

    If this does not remove the right answer, for instance because it occurs in another spelling,
    return the handwritten false answer instead.
    """
    wrong = _choose(scene.query.wrong_answers, rng)[0]
    pattern = _pattern_of(form for forms in scene.query.answers for form in forms)
    spoilt = draft.worded(lambda text: pattern.sub(lambda _: wrong, text))
    if spoilt != draft and not all(scene.stated(spoilt.text)):
        return spoilt
    cited = tuple(dict.fromkeys(id_ for s in draft.sentences for id_ in s.citations))
    return _lie(draft, scene, rng).citing(lambda s: cited if s.citations else ())


def _pattern_of(forms: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches any of the forms; "3" does not match in "30".

    Longer forms have precedence over shorter ones.
    """
    longest_first = sorted(map(re.escape, forms), key=len, reverse=True)
    parts = (
        rf"(?<![^\W_]){form}" + (r"(?!\d)" if form[-1:].isdigit() else "") for form in longest_first
    )
    return re.compile("|".join(parts), re.IGNORECASE)


def _change_numbers(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    """Replace all digits with other digits; return ``None`` if there are none.

    If the draft then no longer states all right answers, the fault ``wrong-number in the answer``
    is added to its faults.
    """
    spoilt = draft.worded(lambda text: _replace_digits(text, rng))
    if spoilt == draft:
        return None
    return spoilt if all(scene.stated(spoilt.text)) else spoilt.having("wrong-number in the answer")


def _replace_digits(text: str, rng: Random) -> str:
    def other(match: re.Match[str]) -> str:
        zero = ord(match[0]) - int(match[0])  # the script's own digit zero
        return chr(zero + (int(match[0]) + 1 + int(rng.integers(8))) % 10)

    return re.sub(r"\d", other, text)


def _hallucinate(draft: Draft, scene: Scene, rng: Random) -> Draft:
    elsewhere = _choose([query for query in scene.corpus if query.id != scene.query.id], rng)
    sentences = scene.sentences_of(_choose(elsewhere.passages, rng))[:2]
    made_up = draft.saying(sentences).citing(lambda _: scene.query.relevant[:1])
    return draft.saying(draft.sentences + made_up.sentences)


def _answer_off_topic(draft: Draft, scene: Scene, rng: Random) -> Draft:
    return draft.saying(scene.sentences_of(_choose(scene.misleading, rng))[:3])


def _refuse(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """Return an abstention: a general one, or one that was written for another query.

    At the hard level, only general abstentions are used, because those for another query mention
    facts from that query's passages.
    """
    if scene.level == "hard" or rng.random() < 0.5:
        text = general_abstention(scene, rng)
    else:
        other = _choose([query for query in scene.corpus if query.answerable is False], rng)
        text = scene.at(other).texts.terse
    return draft.saying(scene.parsed(text).sentences).citing(lambda _: ())


# Assertions ---------------------------------------------------------------------------------------


def _make_template_fault(kind: str) -> Change:
    """Return a function that replaces a draft with a filled template of a kind, such as ``denial``.

    The function returns ``None`` if the draft lacks a right answer, or if the query has no values
    for the slots of any template.
    """

    def change(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
        true = _cut_after_answer(draft, scene)
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
                return _copy_citations(draft, draft.saying(scene.parsed(text).sentences))
        return None

    return change


def _cut_after_answer(draft: Draft, scene: Scene) -> Draft | None:
    """Return the shortest beginning of a draft, in sentences, that states all right answers.

    The result is ``None`` if the whole draft does not state them.
    """
    for end in range(1, len(draft.sentences) + 1):
        part = draft.saying(draft.sentences[:end])
        if all(scene.stated(part.text)):
            return part
    return None


def _copy_citations(draft: Draft, new: Draft) -> Draft:
    """Return ``new``; if it has no citations, its last sentence gets those of ``draft``.

    Otherwise, missing citations would reveal a fault. For example, a list of candidate answers
    keeps the citations of the true answer that it replaces.
    """
    if any(sentence.citations for sentence in new.sentences):
        return new
    cited = tuple(dict.fromkeys(id_ for s in draft.sentences for id_ in s.citations))
    *first, last = new.sentences
    return new.saying([*first, Sentence(last.text, cited)])


def _add_falsehood(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    """Add a false statement about a fact that the query does not ask for.

    The statement is a sentence of a passage with changed numbers. If none has a number, the
    statement is a sentence of the handwritten false answer. Sentences that mention a right or wrong
    answer to the query are skipped. If none is left, return ``None``.
    """
    candidates = (*scene.query.answers, *scene.query.wrong_answers)

    def names_no_candidate(sentence: Sentence) -> bool:
        code = scene.query.language
        return not any(mentioned(forms, sentence.text, code) for forms in candidates)

    for passages in (scene.relevant, scene.misleading):
        numeric = [
            s
            for s in scene.sentences_of(*passages)
            if re.search(r"\d", s.text) and names_no_candidate(s)
        ]
        if numeric:
            sentence = _choose(numeric, rng)
            break
    else:
        lies = list(filter(names_no_candidate, scene.parsed(scene.texts.false).sentences))
        if not lies:
            return None
        sentence = _choose(lies, rng)
    text = _replace_digits(sentence.text, rng)
    cites = any(s.citations for s in draft.sentences)
    return draft.saying((*draft.sentences, Sentence(text, sentence.citations if cites else ())))


def _answer_other_question(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """Return the right answer to another question, with the citations of the draft."""
    queries = [q for q in scene.corpus if q.answerable and q.id != scene.query.id]
    sentences = faultless(scene.at(_choose(queries, rng))).citing(lambda _: ()).sentences
    return _copy_citations(draft, draft.saying(sentences))


def _swap_answers(draft: Draft, scene: Scene, _: Random) -> Draft | None:
    """Exchange the right answer and a wrong one in the draft.

    Return ``None`` if the draft does not mention both, or if the query has several right answers.
    """
    query = scene.query
    if len(query.answers) != 1 or not query.wrong_answers:
        return None
    right, wrong = (
        _pattern_of(query.answers[0]),
        _pattern_of(f for forms in query.wrong_answers for f in forms),
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


# Length and language ------------------------------------------------------------------------------


def _pad(draft: Draft, scene: Scene, rng: Random) -> Draft:
    extra = scene.sentences_of(_choose(scene.misleading or scene.query.passages, rng))
    return draft.saying(draft.sentences + extra + draft.sentences[-1:])


def _append_relevant(draft: Draft, scene: Scene, _: Random) -> Draft:
    return draft.saying(draft.sentences + scene.sentences_of(*scene.relevant))


def _dump_passages(draft: Draft, scene: Scene, _: Random) -> Draft:
    return draft.saying(scene.sentences_of(*scene.query.passages))


def _truncate(draft: Draft, _: Scene, __: Random) -> Draft | None:
    sentences = draft.sentences[: max(1, len(draft.sentences) // 2)]
    share = len(sentences) / len(draft.sentences)
    if share == 1:
        return None
    return replace(draft, sentences=sentences, complete=draft.complete * share)


def _cut_sentence(draft: Draft, scene: Scene, _: Random) -> Draft:
    first = draft.sentences[0].text
    cut = draft.saying([Sentence(first[: len(first) * 2 // 3].rstrip(), ())])
    return cut if all(scene.stated(cut.text)) else cut.having("cut-off before the answer")


def _write_wrong_language(_: Draft, scene: Scene, __: Random) -> Draft:
    return faultless(scene.abroad(0))


def _mix_languages(draft: Draft, scene: Scene, _: Random) -> Draft:
    """Replace every other sentence with one in another language.

    If no sentence can be replaced, append a sentence in the other language.
    """
    foreign = faultless(scene.abroad(1)).sentences
    mixed = [foreign[i] if i % 2 and i < len(foreign) else s for i, s in enumerate(draft.sentences)]
    return draft.saying(mixed if tuple(mixed) != draft.sentences else (*mixed, foreign[-1]))


# Citations and form -------------------------------------------------------------------------------


def _drop_citations(draft: Draft, _: Scene, __: Random) -> Draft | None:
    bare = draft.citing(lambda _: ())
    return None if bare == draft else bare


def _cite_wrongly(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    wrong = [passage.id for passage in scene.misleading]
    if not any(sentence.citations for sentence in draft.sentences):
        return None
    return draft.citing(lambda s: (str(rng.choice(wrong)),) if s.citations else ())


def _cite_everything(draft: Draft, scene: Scene, _: Random) -> Draft | None:
    everything = scene.query.passage_ids
    cited = draft.citing(lambda sentence: everything if sentence.citations else ())
    return None if cited == draft else cited


def _garble(draft: Draft, _: Scene, rng: Random) -> Draft:
    text = [character for sentence in draft.sentences for character in sentence.text]
    return replace(draft.saying([Sentence("".join(rng.permutation(text)), ())]), headings=False)


def _break_format(draft: Draft, scene: Scene, _: Random) -> Draft:
    # Without headings the reasoning is parsed as part of the answer.
    reason = draft.reason or faultless(replace(scene, manner="reference")).reason
    return replace(draft, reason=reason, headings=False)


def _answer_anyway(draft: Draft, scene: Scene, rng: Random) -> Draft:
    return (_lie, _answer_off_topic)[int(rng.integers(2))](draft, scene, rng)


def _choose(choices: Sequence[T], rng: Random) -> T:
    return choices[int(rng.integers(len(choices)))]


class Fault(NamedTuple):
    """A kind of fault; :data:`mirage.surrogate.utilities.LEFT` defines its cost.

    Attributes:
        change: Function that returns a draft with the fault, or ``None`` if the draft cannot have
            it.
        answerable: ``True`` if only queries with an answer can have the fault, ``False`` if only
            queries without an answer can have it, and ``None`` if all queries can.
        reason: Whether the changed draft keeps its reasoning.
        kinds: Values of a query's ``metadata["kind"]`` with which it can have the fault; empty if
            queries of all kinds can.
    """

    change: Change
    answerable: bool | None = None
    reason: bool = True
    kinds: frozenset[str] = frozenset()

    def done_to(self, draft: Draft, scene: Scene, rng: Random) -> Draft | None:
        """Return the draft with this fault, or ``None`` if the draft or query cannot have it."""
        if self.answerable not in (None, bool(scene.query.answerable)):
            return None
        if self.kinds and scene.query.metadata.get("kind") not in self.kinds:
            return None
        changed = self.change(draft, scene, rng)
        if changed is None:
            return None
        return replace(changed, reason=changed.reason if self.reason else "")


# If a system has several faults, they are applied in this order: first faults that write another
# text, then faults that change the text, then faults that change its citations.
_REWRITING: Mapping[str, Fault] = {
    "wrong-language": Fault(_write_wrong_language),
    "off-topic": Fault(_answer_off_topic, True, reason=False),
    "answered-anyway": Fault(_answer_anyway, False, reason=False),
    "refusal": Fault(_refuse, True, reason=False),
    "lying": Fault(_lie, True, reason=False),
    "wrong-entity": Fault(_name_wrong_entity, True, reason=False),
}
_ASSERTING: Mapping[str, Fault] = {
    "denying": Fault(_make_template_fault("denial"), True, reason=False),
    "mention-lie": Fault(_make_template_fault("mention_lie"), True, reason=False),
    "listing": Fault(_make_template_fault("candidate_list"), True, reason=False),
    "undecided": Fault(_make_template_fault("undecided"), True, reason=False),
    "guessing": Fault(_make_template_fault("unstated_guess"), True, reason=False),
    "abstain-then-lie": Fault(_make_template_fault("abstain_then_lie"), True, reason=False),
    "other-question": Fault(_answer_other_question, True, reason=False),
    "swapped": Fault(_swap_answers, True, reason=False),
    "half-right": Fault(_add_falsehood, True),
}
_CHANGING: Mapping[str, Fault] = {
    "wrong-number": Fault(_change_numbers, reason=False),
    "hallucinated": Fault(_hallucinate, True),
    "mixed-language": Fault(_mix_languages),
    "padded": Fault(_pad),
    "verbose": Fault(_append_relevant, True),
    "dumping": Fault(_dump_passages, reason=False),
    "truncated": Fault(_truncate),
    "cut-off": Fault(_cut_sentence, True),
    "wrongly-cited": Fault(_cite_wrongly, True, reason=False),
    "over-cited": Fault(_cite_everything, True, reason=False),
    "uncited": Fault(_drop_citations, True, reason=False),
    "garbled": Fault(_garble, reason=False),
    "format-broken": Fault(_break_format),
}

FAULTS: Mapping[str, Fault] = MappingProxyType({**_REWRITING, **_CHANGING})
"""Kinds of fault that any response can have, by name, in the order in which they are applied."""

ARENA_FAULTS: Mapping[str, Fault] = MappingProxyType({**_REWRITING, **_ASSERTING, **_CHANGING})
"""All kinds of fault of the simulated arena: those in :data:`FAULTS`, and faults in the assertions
of a response.
"""
