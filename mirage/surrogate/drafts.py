"""Drafts of simulated responses, composed of bundled texts in several writing styles.

A manner is a style of writing, such as casual or terse, that does not change the content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from string import Formatter
from types import MappingProxyType

import numpy as np

from mirage.dataset import MirageDataset
from mirage.languages import LANGUAGES, Language
from mirage.models import Passage, Query
from mirage.text import mentioned, parse, split_sentences, tokenize
from mirage.text.sentences import Sentence


@dataclass(frozen=True, slots=True)
class Texts:
    """Handwritten texts for one query, in addition to its reference.

    Attributes:
        true: Two true answers: first a longer one, then a conversational one. If no passage answers
            the query, two abstentions.
        terse: A true answer in few words, or an abstention if no passage answers the query.
        false: A fluent false answer that is worded differently from the reference, or a confident
            invention if no passage answers the query.
        other_false: A false answer that changes another fact than ``false`` does. Only answerable
            queries of the hard level have it; otherwise it is empty.
    """

    true: tuple[str, str]
    terse: str
    false: str
    other_false: str = ""


_RESPONSES = {"quick": "responses", "hard": "hard_responses"}


@cache
def bundled_texts(code: str, level: str = "quick") -> Mapping[str, Texts]:
    """Return the handwritten texts for the bundled queries of a language and level, by query id."""
    name = f"{Language.with_board(code).code}.jsonl"
    source = resources.files("mirage") / "data" / _RESPONSES[level] / name
    rows = map(json.loads, source.read_text(encoding="utf-8").splitlines())
    return MappingProxyType(
        {
            row["query_id"]: Texts(
                tuple(row["true"]), row["terse"], row["false"], row.get("other_false", "")
            )
            for row in rows
        }
    )


@dataclass(frozen=True, slots=True)
class Phrases:
    """Templates and phrases of a language that fit any query.

    Attributes:
        faults: Templates of faulty answers by kind of fault. They may have the slots ``{true}`` and
            ``{false}`` for a true and a false text, ``{right}`` for the right answers, ``{wrong}``
            for one wrong answer and ``{others}`` for all wrong answers.
        truths: Templates of true answers that also mention wrong answers, by kind of template. They
            may have the same slots.
        manners: Phrases that chat models write before and after an answer, by kind of phrase.
    """

    faults: Mapping[str, tuple[str, ...]]
    truths: Mapping[str, tuple[str, ...]]
    manners: Mapping[str, tuple[str, ...]]


@cache
def bundled_phrases(code: str) -> Phrases:
    """Return the templates and phrases of a language, from which responses are composed."""
    name = f"{Language.with_board(code).code}.json"
    source = resources.files("mirage") / "data" / "phrases" / name
    return read_phrases(source.read_text(encoding="utf-8"))


def read_phrases(text: str) -> Phrases:
    """Return the phrases in ``text``, the JSON content of a phrase file."""
    sections = json.loads(text)
    return Phrases(
        *(
            MappingProxyType({name: tuple(texts) for name, texts in sections[section].items()})
            for section in ("faults", "truths", "manners")
        )
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """Markdown before and after an answer, like that of chat models.

    Attributes:
        before: Text before the answer.
        after: Text after the answer.
        sources: Heading of the list of cited passages after the answer; empty if there is no list.
    """

    before: str
    after: str
    sources: str = ""

    def around(self, answer: str, citations: Iterable[str]) -> str:
        """Return the answer with the text of this frame before and after it.

        Args:
            answer: Text of the answer.
            citations: Ids of the cited passages, for the list of sources.
        """
        listed = "\n".join(f"- [{id_}]" for id_ in citations)
        sources = f"{self.sources}\n{listed}" if self.sources and listed else ""
        return "\n\n".join(filter(None, (self.before + answer, sources, self.after)))


@dataclass(frozen=True, slots=True)
class Draft:
    """A simulated response before it is written as text.

    Attributes:
        reason: Reasoning before the answer.
        sentences: Sentences of the answer with their citations.
        faults: Names of the response's faults, from :data:`mirage.surrogate.utilities.LEFT`.
        complete: Share of the original sentences that remain in the response.
        headings: Whether the text has the headings ``##Reason:`` and ``##Answer:``.
        frame: Markdown around the answer, if any.
    """

    reason: str
    sentences: tuple[Sentence, ...]
    faults: tuple[str, ...] = ()
    complete: float = 1.0
    headings: bool = True
    frame: Frame | None = None

    def having(self, *faults: str) -> Draft:
        """Return a copy of this draft with more names in :attr:`faults`; the text is unchanged."""
        return replace(self, faults=self.faults + faults)

    def saying(self, sentences: Iterable[Sentence]) -> Draft:
        """Return a copy of this draft with these sentences instead of its own."""
        return replace(self, sentences=tuple(sentences))

    def citing(self, cite: Callable[[Sentence], tuple[str, ...]]) -> Draft:
        """Return a copy in which each sentence has the citations ``cite(sentence)``."""
        return self.saying(Sentence(sentence.text, cite(sentence)) for sentence in self.sentences)

    def worded(self, word: Callable[[str], str]) -> Draft:
        """Return a copy in which the text of each sentence is replaced with ``word(text)``."""
        return self.saying(Sentence(word(s.text), s.citations) for s in self.sentences)

    @property
    def text(self) -> str:
        """The text of the answer, without citations."""
        return " ".join(sentence.text for sentence in self.sentences)

    def answer(self, language: Language) -> str:
        """Return the answer as text; each sentence has its citations in brackets."""
        return " ".join(_with_brackets(sentence, language) for sentence in self.sentences)

    def written(self, language: Language) -> str:
        """Return the whole response as text.

        With a frame, the answer has Markdown around it; without one, it follows the reasoning.

        Args:
            language: Language of the response, which decides where citations are inserted.
        """
        answer = self.answer(language)
        if self.frame is not None:
            cited = dict.fromkeys(id_ for s in self.sentences for id_ in s.citations)
            return self.frame.around(answer, cited)
        if self.headings:
            return f"##Reason: {self.reason}\n##Answer: {answer}"
        return f"{self.reason}\n{answer}".strip()


def _with_brackets(sentence: Sentence, language: Language) -> str:
    """Return a sentence as text, with its citations in brackets before its final punctuation."""
    body = sentence.text.rstrip(language.terminators)
    citations = "".join(f"[{citation}]" for citation in sentence.citations)
    return f"{body} {citations}{sentence.text[len(body) :]}" if citations else sentence.text


@dataclass(frozen=True, slots=True)
class Scene:
    """A query to respond to, and the texts from which the simulated response is composed.

    Attributes:
        query: Query to respond to.
        corpora: Bundled queries of all languages, by language code. They supply texts for faults
            such as an answer in another language.
        manner: Manner of writing, a key of :data:`MANNERS`.
        level: Level of the bundled queries in ``corpora``.
    """

    query: Query
    corpora: Mapping[str, MirageDataset]
    manner: str = "reference"
    level: str = "quick"

    @property
    def corpus(self) -> MirageDataset:
        """The bundled corpus in the language of :attr:`query`, from :attr:`corpora`."""
        return self.corpora[self.query.language]

    @property
    def texts(self) -> Texts:
        """The handwritten texts for the query."""
        return bundled_texts(self.query.language, self.level)[self.query.id]

    @property
    def phrases(self) -> Phrases:
        """The phrases and templates from which answers in the query's language are made."""
        return bundled_phrases(self.query.language)

    @property
    def relevant(self) -> tuple[Passage, ...]:
        """The shown passages of the query that answer it."""
        return tuple(p for p in self.query.passages if p.id in self.query.relevant)

    @property
    def misleading(self) -> tuple[Passage, ...]:
        """The shown passages of the query that do not answer it."""
        return tuple(p for p in self.query.passages if p.id not in self.query.relevant)

    def sentences_of(self, *passages: Passage) -> tuple[Sentence, ...]:
        """Return the sentences of passages; each sentence cites its passage."""
        return tuple(
            Sentence(text, (passage.id,))
            for passage in passages
            for text in split_sentences(passage.text, self.query.language)
        )

    def stated(self, text: str) -> list[bool]:
        """Return, for each right answer to the query, whether a text mentions a spelling of it."""
        return [mentioned(forms, text, self.query.language) for forms in self.query.answers]

    def at(self, query: Query) -> Scene:
        """Return a copy of this scene with another query."""
        return replace(self, query=query)

    def abroad(self, place: int) -> Scene:
        """Return a scene with the same query in another language.

        Args:
            place: 0 for English (Spanish if the query is in English). 1 for the language that comes
                after the query's language in :data:`mirage.languages.LANGUAGES`, skipping English
                and languages without a corpus.
        """
        code = self.query.language
        codes = [other for other in LANGUAGES if other in self.corpora]
        following = codes[codes.index(code) + 1 :] + codes
        neighbour = next(other for other in following if other not in (code, "en"))
        main = next(other for other in ("en", "es") if other != code)
        return self.at(self.corpora[(main, neighbour)[place]][self.query.id])

    def parsed(self, text: str, *, headings: bool = False, reason: str = "") -> Draft:
        """Return the draft of a response that is given as text.

        Args:
            text: Text of a response.
            headings: Whether the draft is to have the headings ``##Reason:`` and ``##Answer:``.
            reason: Reasoning to use if the text contains none.
        """
        response = parse(text, self.query.language, self.query.passage_ids)
        return Draft(response.reason or reason, response.sentences, headings=headings)


# Manners of writing -------------------------------------------------------------------------------


def _write_reference(scene: Scene) -> Draft:
    return scene.parsed(scene.query.reference or "", headings=True)


def _write_plain(scene: Scene) -> Draft:
    return replace(_write_reference(scene), reason="", headings=False)


def _write_long(scene: Scene) -> Draft:
    return scene.parsed(scene.texts.true[0], headings=True, reason=_write_reference(scene).reason)


def _write_casual(scene: Scene) -> Draft:
    return scene.parsed(scene.texts.true[1])


def _write_terse(scene: Scene) -> Draft:
    return scene.parsed(scene.texts.terse)


def _write_quotes(scene: Scene) -> Draft:
    """Return a draft that quotes one sentence of each relevant passage.

    This is the sentence that states the most right answers or, among equals, shares the most words
    with the reference. If the quotes do not state all right answers, as for a question about a sum,
    the draft is made of the reference instead.
    """
    draft, language = _write_reference(scene), scene.query.language
    wanted = set(tokenize(draft.text, language))

    def worth(sentence: Sentence) -> tuple[int, int]:
        return (
            sum(scene.stated(sentence.text)),
            len(wanted.intersection(tokenize(sentence.text, language))),
        )

    best = tuple(max(scene.sentences_of(passage), key=worth) for passage in scene.relevant)
    quoted = draft.saying(best)
    return quoted if best and all(scene.stated(quoted.text)) else draft


def filled(
    template: str, query: Query, *, true: str = "", false: str = "", wrong: int = 0
) -> str | None:
    """Return a template with the query's answers in its slots.

    Args:
        template: Template from :class:`Phrases`.
        query: Query whose answers fill the slots ``{right}``, ``{wrong}`` and ``{others}``.
        true: Text for the slot ``{true}``.
        false: Text for the slot ``{false}``.
        wrong: Index of the wrong answer for ``{wrong}``, modulo the number of wrong answers.

    Returns:
        The text; ``None`` if there is no value for one of the slots.
    """
    rivals = [forms[0] for forms in query.wrong_answers]
    values = {
        "true": true,
        "false": false,
        "right": ", ".join(forms[0] for forms in query.answers),
        "wrong": rivals[wrong % len(rivals)] if rivals else "",
        "others": ", ".join(rivals),
    }
    slots = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
    return template.format_map(values) if all(values[name] for name in slots) else None


def general_abstention(scene: Scene, rng: np.random.Generator) -> str:
    """Return a random abstention that does not mention anything from the query."""
    templates = scene.phrases.faults["abstain_then_lie"]
    return abstention_of(templates[int(rng.integers(len(templates)))], scene)


def abstention_of(template: str, scene: Scene) -> str:
    """Return the abstention in a template for responses that first abstain and then lie.

    The abstention is the first sentence. The template must be in the language of the scene's query.
    """
    return split_sentences(template.replace("{false}", ""), scene.query.language)[0]


def _make_rejecting_manner(kind: str) -> Callable[[Scene], Draft]:
    """Return a function that writes an answer which also mentions and rejects a wrong answer.

    The returned function writes in the casual manner if the query has no wrong answer to mention.
    If no passage answers the query, it writes an abstention that mentions nothing from the query.
    Surrogates thus learn that such an abstention is as good as one that uses the words of the
    reference.

    Args:
        kind: Kind of template, a key of :attr:`Phrases.truths`.
    """

    def write(scene: Scene) -> Draft:
        draft, rng = _write_casual(scene), _random_stream(scene, kind)
        if scene.query.answerable is False:
            return draft.saying(scene.parsed(general_abstention(scene, rng)).sentences)
        templates = scene.phrases.truths[kind]
        text = filled(
            templates[int(rng.integers(len(templates)))],
            scene.query,
            true=draft.answer(Language.of(scene.query.language)),
            wrong=int(rng.integers(100)),
        )
        return draft if text is None else draft.saying(scene.parsed(text).sentences)

    return write


def _write_chatty(scene: Scene) -> Draft:
    rng = _random_stream(scene, "chatty")
    draft = scene.parsed(scene.texts.true[int(rng.integers(2))])
    return framed(draft, scene.phrases, rng)


def framed(draft: Draft, phrases: Phrases, rng: np.random.Generator) -> Draft:
    """Return a draft with random Markdown before and after the answer, like that of chat models.

    The Markdown is composed of ``phrases``, the phrases of the draft's language.
    """

    def draw_phrase(name: str, chance: float) -> str:
        if rng.random() >= chance:
            return ""
        return phrases.manners[name][int(rng.integers(len(phrases.manners[name])))]

    heading = draw_phrase("headings", 0.6)
    # The first label introduces an answer, the last one states a confidence.
    label, remark = (phrases.manners["labels"][i] if rng.random() < 0.4 else "" for i in (0, -1))
    before = [draw_phrase("openers", 0.7), f"## {heading}" if heading else ""]
    after = [f"- **{remark}**" if remark else ""]
    after += [
        draw_phrase("closers", 0.7),
        draw_phrase("disclaimers", 0.3),
        draw_phrase("signatures", 0.3),
    ]
    frame = Frame(
        "".join(f"{text}\n\n" for text in before if text) + (f"**{label}:** " if label else ""),
        "\n\n".join(filter(None, after)),
        draw_phrase("sources", 0.5),
    )
    return replace(draft, reason="", headings=False, frame=frame)


def _random_stream(scene: Scene, name: str) -> np.random.Generator:
    """Return a generator of random numbers that depends only on the scene's query and ``name``."""
    language, query = scene.query.language.encode(), scene.query.id.encode()
    return np.random.default_rng([*language, *query, *name.encode()])


MANNERS: Mapping[str, Callable[[Scene], Draft]] = MappingProxyType(
    {
        "reference": _write_reference,
        "plain": _write_plain,
        "long": _write_long,
        "casual": _write_casual,
        "terse": _write_terse,
        "quoting": _write_quotes,
        "contrasting": _make_rejecting_manner("contrast"),
        "correcting": _make_rejecting_manner("corrected"),
        "chatty": _write_chatty,
    }
)
"""Functions that write a response without faults, by manner (writing style).

``reference`` and ``plain`` copy the reference, with and without headings. ``long``, ``casual`` and
``terse`` are longer, conversational and short answers. ``quoting`` copies sentences of the
passages. ``contrasting`` and ``correcting`` also mention a wrong answer and reject it; if no
passage answers the query, they abstain in general words. ``chatty`` has the Markdown and the
courtesies of a chat model.
"""


def faultless(scene: Scene) -> Draft:
    """Return a draft without faults that answers the scene's query in the scene's manner."""
    return MANNERS[scene.manner](scene)
