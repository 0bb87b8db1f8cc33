"""Responses in the making: what was written for a query, in which manner, and how good it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache
from importlib import resources
from operator import mul
from types import MappingProxyType

from mirage.dataset import MirageDataset
from mirage.languages import LANGUAGES, Language
from mirage.models import Passage, Query
from mirage.text import Sentence, mentioned, parse, split_sentences, tokenize

__all__ = ["MANNERS", "WEIGHTS", "Draft", "Quality", "Scene", "Texts", "bundled_texts", "faultless"]


@dataclass(frozen=True, slots=True)
class Quality:
    """What the judge knows of one response, each from 0 (worst) to 1. The manner is no part."""

    correct: float = 1.0
    grounded: float = 1.0
    language: float = 1.0
    complete: float = 1.0
    form: float = 1.0

    def times(self, left: Quality) -> Quality:
        """This quality with each part multiplied by what is left of it."""
        return Quality(*map(mul, astuple(self), astuple(left)))


WEIGHTS = Quality(correct=3.6, grounded=3.2, language=2.8, complete=1.4, form=0.5)
"""The judge's utility of each part, in natural-log odds: correctness counts most, form least."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What was written for one query by hand, besides its reference.

    ``true`` are two true answers or, where no passage answers, two abstentions: one longer, one
    conversational. ``terse`` is a true answer in few words, an abstention where there is none.
    ``false`` is a fluent lie in its own words, or a confident invention.
    """

    true: tuple[str, str]
    terse: str
    false: str


@cache
def bundled_texts(code: str) -> Mapping[str, Texts]:
    """The texts that ship for the bundled corpus of a language, by query id."""
    source = resources.files("mirage") / "data" / "responses" / f"{Language.of(code).code}.jsonl"
    rows = map(json.loads, source.read_text(encoding="utf-8").splitlines())
    return MappingProxyType(
        {row["query_id"]: Texts(tuple(row["true"]), row["terse"], row["false"]) for row in rows}
    )


@dataclass(frozen=True, slots=True)
class Draft:
    """A response in the making: its parts, and what the judge thinks of it."""

    reason: str
    sentences: tuple[Sentence, ...]
    quality: Quality = Quality()
    headings: bool = True

    def saying(self, sentences: Iterable[Sentence]) -> Draft:
        """The same draft with other sentences."""
        return replace(self, sentences=tuple(sentences))

    def citing(self, cite: Callable[[Sentence], tuple[str, ...]]) -> Draft:
        """The same draft, each sentence citing something else."""
        return self.saying(Sentence(sentence.text, cite(sentence)) for sentence in self.sentences)

    def worded(self, word: Callable[[str], str]) -> Draft:
        """The same draft, each sentence in other words."""
        return self.saying(Sentence(word(s.text), s.citations) for s in self.sentences)

    @property
    def text(self) -> str:
        """Its sentences without their citations."""
        return " ".join(sentence.text for sentence in self.sentences)

    def written(self, language: Language) -> str:
        """The response as text."""
        answer = " ".join(_with_brackets(sentence, language) for sentence in self.sentences)
        if self.headings:
            return f"##Reason: {self.reason}\n##Answer: {answer}"
        return f"{self.reason}\n{answer}".strip()


def _with_brackets(sentence: Sentence, language: Language) -> str:
    """The sentence with its citations before its final punctuation."""
    body = sentence.text.rstrip(language.terminators)
    citations = "".join(f"[{citation}]" for citation in sentence.citations)
    return f"{body} {citations}{sentence.text[len(body) :]}" if citations else sentence.text


@dataclass(frozen=True, slots=True)
class Scene:
    """What a response may draw on: the query, the corpora of all languages, and its manner."""

    query: Query
    corpora: Mapping[str, MirageDataset]
    manner: str = "reference"

    @property
    def corpus(self) -> MirageDataset:
        """The queries of the same language."""
        return self.corpora[self.query.language]

    @property
    def texts(self) -> Texts:
        """What was written for the query."""
        return bundled_texts(self.query.language)[self.query.id]

    @property
    def relevant(self) -> tuple[Passage, ...]:
        """The shown passages that answer the query."""
        return tuple(p for p in self.query.passages if p.id in self.query.relevant)

    @property
    def misleading(self) -> tuple[Passage, ...]:
        """The shown passages that do not answer it."""
        return tuple(p for p in self.query.passages if p.id not in self.query.relevant)

    def sentences_of(self, *passages: Passage) -> tuple[Sentence, ...]:
        """The sentences of passages, each citing its own."""
        return tuple(
            Sentence(text, (passage.id,))
            for passage in passages
            for text in split_sentences(passage.text, self.query.language)
        )

    def stated(self, text: str) -> list[bool]:
        """Whether a text states each right answer, in one of its forms."""
        return [mentioned(forms, text, self.query.language) for forms in self.query.answers]

    def at(self, query: Query) -> Scene:
        """The same with another query."""
        return replace(self, query=query)

    def abroad(self, place: int) -> Scene:
        """The same query in another language: 0 for English, or Spanish, and 1 for one nearby."""
        code = self.query.language
        codes = [other for other in LANGUAGES if other in self.corpora]
        following = codes[codes.index(code) + 1 :] + codes
        neighbour = next(other for other in following if other not in (code, "en"))
        main = next(other for other in ("en", "es") if other != code)
        return self.at(self.corpora[(main, neighbour)[place]][self.query.id])

    def parsed(self, text: str, *, headings: bool = False, reason: str = "") -> Draft:
        """A draft that says what a text says."""
        found = parse(text, self.query.language, self.query.passage_ids)
        return Draft(found.reason or reason, found.sentences, headings=headings)


# Manners of writing -------------------------------------------------------------------------------


def _reference(scene: Scene) -> Draft:
    return scene.parsed(scene.query.reference or "", headings=True)


def _plain(scene: Scene) -> Draft:
    return replace(_reference(scene), reason="", headings=False)


def _long(scene: Scene) -> Draft:
    return scene.parsed(scene.texts.true[0], headings=True, reason=_reference(scene).reason)


def _casual(scene: Scene) -> Draft:
    return scene.parsed(scene.texts.true[1])


def _terse(scene: Scene) -> Draft:
    return scene.parsed(scene.texts.terse)


def _quoting(scene: Scene) -> Draft:
    """One sentence of each relevant passage, that with most answers, then most of the reference.

    As the reference where no sentence states an answer, as of sums.
    """
    draft, language = _reference(scene), scene.query.language
    wanted = set(tokenize(draft.text, language))

    def worth(sentence: Sentence) -> tuple[int, int]:
        return (
            sum(scene.stated(sentence.text)),
            len(wanted.intersection(tokenize(sentence.text, language))),
        )

    best = tuple(max(scene.sentences_of(passage), key=worth) for passage in scene.relevant)
    quoted = draft.saying(best)
    return quoted if best and all(scene.stated(quoted.text)) else draft


MANNERS: Mapping[str, Callable[[Scene], Draft]] = MappingProxyType(
    {
        "reference": _reference,
        "plain": _plain,
        "long": _long,
        "casual": _casual,
        "terse": _terse,
        "quoting": _quoting,
    }
)
"""How a faultless system may write: as the reference does, with and without headings; longer;
casually; in few words; in the words of the passages."""


def faultless(scene: Scene) -> Draft:
    """What a system without a fault writes, in its manner."""
    return MANNERS[scene.manner](scene)
