"""The simulated arena: RAG systems with known faults, and a judge that knows the faults.

No LLM and no human label is needed: a system answers with the reference response of the bundled
corpus, or with sentences of the relevant passages, after faults of known kinds in known amounts
were done to it. The judge sees what was done, not the text. What a surrogate learns here is how
features react to faults, in each language; it has not seen the style of any real LLM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import chain
from operator import mul
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mirage.arena import Judgments
from mirage.dataset import MirageDataset
from mirage.languages import LANGUAGES, Language
from mirage.models import Passage, Query, Response, Run
from mirage.text import Sentence, parse, split_sentences

__all__ = ["ANCHORS", "FAULTS", "SYSTEMS", "Quality", "System", "judge", "simulate"]

Random = np.random.Generator
T = TypeVar("T")
Source = Literal["reference", "passages"]


@dataclass(frozen=True, slots=True)
class Quality:
    """What the judge knows of one response, each from 0 (worst) to 1."""

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


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault may draw on: the query, and the corpus around it in this and other languages."""

    query: Query
    corpus: MirageDataset
    foreign: Sequence[MirageDataset]

    @property
    def misleading(self) -> tuple[Passage, ...]:
        """The shown passages that do not answer the query."""
        return tuple(p for p in self.query.passages if p.id not in self.query.relevant)

    def sentences_of(self, passage: Passage) -> tuple[Sentence, ...]:
        """A passage's sentences, each citing that passage."""
        texts = split_sentences(passage.text, self.query.language)
        return tuple(Sentence(text, (passage.id,)) for text in texts)


# What a fault makes of a draft; nothing where there is nothing to spoil.
Change = Callable[[Draft, Scene, Random], Draft | None]


def _uncited(draft: Draft, _: Scene, __: Random) -> Draft | None:
    bare = draft.citing(lambda _: ())
    return None if bare == draft else bare


def _wrongly_cited(draft: Draft, scene: Scene, rng: Random) -> Draft | None:
    wrong = [passage.id for passage in scene.misleading]
    if not any(sentence.citations for sentence in draft.sentences):
        return None
    return draft.citing(lambda _: (str(rng.choice(wrong)),))


def _over_cited(draft: Draft, scene: Scene, _: Random) -> Draft | None:
    everything = scene.query.passage_ids
    cited = draft.citing(lambda sentence: everything if sentence.citations else ())
    return None if cited == draft else cited


def _wrong_language(_: Draft, scene: Scene, __: Random) -> Draft:
    return _reference(scene.foreign[0][scene.query.id])


def _mixed_language(draft: Draft, scene: Scene, _: Random) -> Draft:
    there = _reference(scene.foreign[-1][scene.query.id]).sentences
    sentences = [there[i] if i % 2 and i < len(there) else s for i, s in enumerate(draft.sentences)]
    return draft.saying(sentences if len(sentences) > 1 else (*sentences, there[-1]))


def _truncated(draft: Draft, _: Scene, __: Random) -> Draft | None:
    sentences = draft.sentences[: max(1, len(draft.sentences) // 2)]
    share = len(sentences) / len(draft.sentences)
    left = draft.quality.times(Quality(complete=share))
    return replace(draft, sentences=sentences, quality=left) if share < 1 else None


def _cut_off(draft: Draft, _: Scene, __: Random) -> Draft:
    first = draft.sentences[0].text
    return draft.saying([Sentence(first[: len(first) * 2 // 3].rstrip(), ())])


def _beside_the_point(draft: Draft, scene: Scene, rng: Random) -> Draft:
    return draft.saying(scene.sentences_of(_drawn(scene.misleading, rng)))


def _padded(draft: Draft, scene: Scene, rng: Random) -> Draft:
    extra = scene.sentences_of(_drawn(scene.misleading or scene.query.passages, rng))
    return draft.saying(draft.sentences + extra + draft.sentences[-1:])


def _hallucinated(draft: Draft, scene: Scene, rng: Random) -> Draft:
    elsewhere = _drawn([query for query in scene.corpus if query.id != scene.query.id], rng)
    sentences = scene.sentences_of(_drawn(elsewhere.passages, rng))[:2]
    made_up = draft.saying(sentences).citing(lambda _: scene.query.relevant[:1])
    return draft.saying(draft.sentences + made_up.sentences)


def _wrong_entity(draft: Draft, scene: Scene, _: Random) -> Draft:
    right, wrong = scene.query.answers[0][0], scene.query.wrong_answers[0][0]
    return draft.worded(lambda text: text.replace(right, wrong))


def _wrong_number(draft: Draft, _: Scene, rng: Random) -> Draft | None:
    def other(match: re.Match[str]) -> str:
        zero = ord(match[0]) - int(match[0])  # the script's own digit zero
        return chr(zero + (int(match[0]) + 1 + int(rng.integers(8))) % 10)

    worded = draft.worded(lambda text: re.sub(r"\d", other, text))
    return None if worded == draft else worded


def _refusal(draft: Draft, scene: Scene, _: Random) -> Draft:
    unanswerable = next(query for query in scene.corpus if query.answerable is False)
    return draft.saying(_reference(unanswerable).sentences[-1:])


def _garbled(draft: Draft, _: Scene, rng: Random) -> Draft:
    text = [character for sentence in draft.sentences for character in sentence.text]
    return replace(draft.saying([Sentence("".join(rng.permutation(text)), ())]), headings=False)


def _format_broken(draft: Draft, _: Scene, __: Random) -> Draft:
    # The reasoning runs into the answer, which therefore says more than was asked.
    return replace(draft, headings=False)


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


# Faults that write another text come before those that change it, and these before those that
# change its citations: a system with several faults suffers them in this order.
FAULTS: Mapping[str, Fault] = {
    "wrong-language": Fault(_wrong_language, Quality(language=0)),
    "off-topic": Fault(_beside_the_point, Quality(0, 0.5, complete=0.3), True, reason=False),
    "answered-anyway": Fault(_beside_the_point, Quality(0, 0.4), False, reason=False),
    "refusal": Fault(_refusal, Quality(0, 0, complete=0), True, reason=False),
    "wrong-entity": Fault(_wrong_entity, Quality(0.5, 0.7), True),
    "wrong-number": Fault(_wrong_number, Quality(0.6, 0.7)),
    "hallucinated": Fault(_hallucinated, Quality(0.6, 0.5), True),
    "mixed-language": Fault(_mixed_language, Quality(language=0.4)),
    "padded": Fault(_padded, Quality(complete=0.6, form=0.7)),
    "truncated": Fault(_truncated, Quality()),
    "cut-off": Fault(_cut_off, Quality(0.5, 0.5, complete=0.2, form=0.5)),
    "wrongly-cited": Fault(_wrongly_cited, Quality(grounded=0.1), reason=False),
    "over-cited": Fault(_over_cited, Quality(grounded=0.7), reason=False),
    "uncited": Fault(_uncited, Quality(grounded=0.25), reason=False),
    "garbled": Fault(_garbled, Quality(0, 0, 0.1, 0, 0), reason=False),
    "format-broken": Fault(_format_broken, Quality(complete=0.7, form=0)),
}
"""The kinds of fault by name, in the order in which they are done to a response."""


@dataclass(frozen=True, slots=True)
class System:
    """A simulated RAG system.

    ``faults`` gives the share of queries, 0 to 1, that each kind of fault hits. ``source`` is what
    it would answer without them: the ``reference`` response, or the sentences of the relevant
    ``passages``, which say the same in other words.
    """

    name: str
    faults: Mapping[str, float]
    source: Source = "reference"


ANCHORS = ("reference", "quoting", *FAULTS)
"""The systems that a leaderboard shows: two without a fault, and one a fault, on every query."""


def _mixtures(number: int, seed: int) -> Iterator[System]:
    """Systems with two to five kinds of fault, each on a fifth of the queries or more."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        kinds = rng.choice(list(FAULTS), size=rng.integers(2, 6), replace=False)
        shares = rng.choice([0.2, 0.4, 0.6, 0.8, 1.0], size=len(kinds))
        faults = dict(zip(map(str, kinds), shares.tolist(), strict=True))
        yield System(f"mixture-{i + 1:02d}", faults)


SYSTEMS: tuple[System, ...] = (
    System("reference", {}),
    System("quoting", {}, "passages"),
    *(System(kind, {kind: 1.0}) for kind in FAULTS),
    *(System(f"{kind}-half", {kind: 0.5}) for kind in FAULTS),
    *_mixtures(66, seed=0),
)
"""The systems that the pretrained surrogates learn from."""


def simulate(
    corpora: Mapping[str, MirageDataset], code: str, systems: Sequence[System], *, seed: int
) -> tuple[list[Run], NDArray[np.float64]]:
    """What each system answers to the corpus of language ``code``, and how good that is.

    ``corpora`` are parallel datasets by language. Gives a run a system, and the judge's utilities
    of shape ``(systems, queries)``. The same seed gives the same texts.
    """
    corpus = corpora[code]
    foreign = _foreign(corpora, code)
    runs, qualities = [], np.empty((len(systems), len(corpus), len(fields(Quality))))
    for i, system in enumerate(systems):
        # One stream a system and language: adding a system changes no other one.
        rng = np.random.default_rng([seed, *code.encode(), *system.name.encode()])
        hit = {
            kind: _hit(kind, share, len(corpus), [seed, *code.encode()])
            for kind, share in system.faults.items()
        }
        responses = []
        for j, query in enumerate(corpus):
            scene = Scene(query, corpus, foreign)
            draft = _clean(scene, system.source)
            for kind, fault in FAULTS.items():
                if j in hit.get(kind, ()):
                    draft = fault.done_to(draft, scene, rng)
            responses.append(Response(query_id=query.id, text=_write(draft, Language.of(code))))
            qualities[i, j] = astuple(draft.quality)
        runs.append(Run(model=system.name, language=code, responses=tuple(responses)))
    return runs, qualities @ astuple(WEIGHTS)


def judge(
    utilities: NDArray[np.float64],
    models: Sequence[str],
    query_ids: Sequence[str],
    *,
    seed: int,
    tie_below: float = 0.4,
) -> Judgments:
    """Verdicts on every pair of models and every query, given utilities ``(models, queries)``.

    The judge prefers the response with the higher utility after logistic noise of scale 1, so
    that without ties the verdicts follow Bradley-Terry with utilities for logits. A noisy
    difference of less than ``tie_below`` is a tie.
    """
    a, b = np.triu_indices(len(models), k=1)
    noise = np.random.default_rng(seed).logistic(size=(len(a), len(query_ids)))
    difference = utilities[a] - utilities[b] + noise
    score = np.where(np.abs(difference) < tie_below, 0.5, difference > 0)
    names = np.asarray(models)
    return Judgments.from_arrays(
        query=np.tile(np.asarray(query_ids), len(a)),
        model_a=np.repeat(names[a], len(query_ids)),
        model_b=np.repeat(names[b], len(query_ids)),
        score=score.ravel(),
    )


def _hit(kind: str, share: float, queries: int, seed: Sequence[int]) -> set[int]:
    """The queries that a fault hits; those of a smaller share are among those of a larger one."""
    order = np.random.default_rng([*seed, *kind.encode()]).permutation(queries)
    return set(order[: round(share * queries)].tolist())


def _foreign(corpora: Mapping[str, MirageDataset], code: str) -> tuple[MirageDataset, ...]:
    """The corpora that a wrong and a mixed answer are taken from: English, and one nearby."""
    codes = [other for other in LANGUAGES if other in corpora]
    following = codes[codes.index(code) + 1 :] + codes
    neighbour = next(other for other in following if other not in (code, "en"))
    main = next(other for other in ("en", "es") if other != code)
    return corpora[main], corpora[neighbour]


def _clean(scene: Scene, source: Source) -> Draft:
    draft = _reference(scene.query)
    if source == "reference" or not scene.query.relevant:
        return draft
    relevant = [scene.query[id_] for id_ in scene.query.relevant]
    return draft.saying(chain.from_iterable(map(scene.sentences_of, relevant)))


def _reference(query: Query) -> Draft:
    parsed = parse(query.reference or "", query.language, query.passage_ids)
    return Draft(parsed.reason, parsed.sentences)


def _write(draft: Draft, language: Language) -> str:
    answer = " ".join(_with_brackets(sentence, language) for sentence in draft.sentences)
    if not draft.headings:
        return f"{draft.reason}\n{answer}".strip()
    return f"##Reason: {draft.reason}\n##Answer: {answer}"


def _with_brackets(sentence: Sentence, language: Language) -> str:
    """The sentence with its citations before its final punctuation."""
    body = sentence.text.rstrip(language.terminators)
    citations = "".join(f"[{citation}]" for citation in sentence.citations)
    return f"{body} {citations}{sentence.text[len(body) :]}" if citations else sentence.text
