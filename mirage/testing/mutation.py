"""Known faults done to responses, and how many of them a suite of assertions catches.

The faults are those of the simulated arena (:mod:`mirage.surrogate.faults`), done to responses that
somebody's own system gave. A suite that passes on the responses and on a mutant of them does not
see that fault: the mutation score of DeMillo, Lipton and Sayward (1978, Hints on Test Data
Selection), of answers in place of programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.quoting import python_literal
from mirage._base.tables import Table, to_text
from mirage.dataset import MirageDataset
from mirage.errors import FeatureError, SettingError, UnknownNameError
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.base import answered
from mirage.languages import LANGUAGES, Language
from mirage.models import Query, Response, Run
from mirage.surrogate.drafts import Draft, Scene, bundled_texts
from mirage.surrogate.faults import FAULTS, Fault
from mirage.text import Sentence, parse

__all__ = [
    "WATCHED",
    "Bound",
    "Fate",
    "Mutant",
    "Mutants",
    "MutationScore",
    "fates_of",
    "mutants",
    "mutation_score",
    "suggested_bounds",
]

Random = np.random.Generator
SHARES = (1.0, 0.25)


class Mutant(NamedTuple):
    """Responses with one known fault.

    Attributes:
        kind: of fault, a key of :data:`mirage.surrogate.faults.FAULTS`.
        share: of the queries that can have the fault, those that have it, above 0 and up to 1.
        hit: the ids of these queries.
        run: the responses; all but those to ``hit`` are as they were.
    """

    kind: str
    share: float
    hit: tuple[str, ...]
    run: Run


class Mutants(NamedTuple):
    """The mutants of a run, those of one kind side by side, and why other kinds were not tried."""

    tried: tuple[Mutant, ...]
    untried: Mapping[str, str]


def mutants(
    dataset: MirageDataset,
    run: Run,
    *,
    kinds: Collection[str] | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
) -> Mutants:
    """The run once for each kind of fault and share of the queries, with that fault alone.

    A response that cannot have a fault, such as an uncited one no citation to lose, is left as it
    is. Queries of a smaller share are among those of a larger one, and have the same text there.

    Args:
        dataset: what was asked.
        run: the responses.
        kinds: which kinds of fault; all by default.
        shares: of the queries that can have a fault, how many have it.
        seed: of what is drawn: queries, passages, wrong answers.

    Raises:
        UnknownNameError: there is no such kind.
        SettingError: a share is not above 0 and up to 1.
    """
    _check(kinds, shares)
    stage = _Stage.of(dataset)
    tried, untried = [], {}
    for kind in FAULTS if kinds is None else dict.fromkeys(kinds):
        spoilt = stage.spoilt(kind, run, seed)
        if not spoilt:
            untried[kind] = f"no response can have it: it needs {_NEEDS[kind][1]}"
        tried += [_mutant(kind, share, run, spoilt, seed) for share in shares if spoilt]
    return Mutants(tuple(tried), MappingProxyType(untried))


def _check(kinds: Collection[str] | None, shares: Sequence[float]) -> None:
    for kind in kinds or ():
        if kind not in FAULTS:
            raise UnknownNameError("kind of fault", kind, tuple(FAULTS))
    if not shares or not all(0 < share <= 1 for share in shares):
        raise SettingError(f"shares={tuple(shares)}: give shares above 0 and up to 1, such as 0.25")


def _mutant(
    kind: str, share: float, run: Run, spoilt: Mapping[tuple[str, int], Response], seed: int
) -> Mutant:
    ids = list(dict.fromkeys(id_ for id_, _ in spoilt))
    order = np.random.default_rng([seed, *kind.encode()]).permutation(len(ids))
    hit = {ids[i] for i in order[: max(1, round(share * len(ids)))].tolist()}
    responses = tuple(
        spoilt.get((one.query_id, one.repeat), one) if one.query_id in hit else one
        for one in run.responses
    )
    changed = run.model_copy(update={"responses": responses})
    return Mutant(kind, share, tuple(id_ for id_ in ids if id_ in hit), changed)


# What is done to a response -----------------------------------------------------------------------

# What a query has to have for a kind of fault, and how to say so.
_NEEDS: Mapping[str, tuple[Callable[[Scene], object], str]] = {
    "wrong-language": (lambda _: True, "sentences"),
    "off-topic": (lambda s: s.misleading, "passages that are not relevant"),
    "answered-anyway": (lambda s: s.misleading, "queries that no passage answers"),
    "refusal": (lambda _: True, "queries that passages answer"),
    "lying": (lambda s: len(s.corpora) > 1, "a lie that was written for the query"),
    "wrong-entity": (
        lambda s: s.query.wrong_answers and s.query.answers,
        "answers and wrong answers",
    ),
    "wrong-number": (lambda _: True, "digits"),
    "hallucinated": (
        lambda s: len(s.corpus) > 1 and all(query.passages for query in s.corpus),
        "passages of other queries",
    ),
    "mixed-language": (lambda _: True, "sentences"),
    "padded": (lambda s: s.query.passages, "passages"),
    "verbose": (lambda s: s.relevant, "relevant passages"),
    "dumping": (lambda s: s.query.passages, "passages"),
    "truncated": (lambda _: True, "two sentences"),
    "cut-off": (lambda _: True, "sentences"),
    "wrongly-cited": (lambda s: s.misleading, "citations, and passages that are not relevant"),
    "over-cited": (lambda _: True, "citations, and passages not cited"),
    "uncited": (lambda _: True, "citations"),
    "garbled": (lambda _: True, "sentences"),
    "format-broken": (lambda _: True, "headings or reasons"),
}


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where faults are done: the queries, and what their texts may be taken from."""

    corpora: Mapping[str, MirageDataset]
    bundled: bool

    @classmethod
    def of(cls, dataset: MirageDataset) -> _Stage:
        code = dataset.language
        if code in LANGUAGES:
            ours = MirageDataset.bundled(code)
            if all(query.id in ours.query_ids and query == ours[query.id] for query in dataset):
                corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
                return cls({**corpora, code: dataset}, bundled=True)
        return cls({code: dataset}, bundled=False)

    def spoilt(self, kind: str, run: Run, seed: int) -> dict[tuple[str, int], Response]:
        """The responses that can have a fault, with it, by query id and repeat."""
        dataset = self.corpora[run.language]
        changed = {}
        for response in run.responses:
            if response.text is None or response.query_id not in dataset.query_ids:
                continue
            stream = [seed, *kind.encode(), response.repeat, *response.query_id.encode()]
            text = self._text(kind, dataset[response.query_id], response, stream)
            if text is not None:
                new = response.model_copy(update={"text": text})
                changed[response.query_id, response.repeat] = new
        return changed

    def _text(
        self, kind: str, query: Query, response: Response, stream: Sequence[int]
    ) -> str | None:
        """What the response says with a fault; ``None`` where it cannot have it."""
        fault, scene = FAULTS[kind], Scene(query, self.corpora)
        if not _can_befall(fault, query) or not _NEEDS[kind][0](scene):
            return None
        found = answered(query, response).parsed
        if not found.sentences:
            return None
        headings = "##" in (response.text or "")
        draft = Draft(found.reason, found.sentences, headings=headings)
        change = fault.change if self.bundled else _ELSEWHERE.get(kind, fault.change)
        changed = change(draft, scene, np.random.default_rng(stream))
        if changed is None:
            return None
        reason = changed.reason if fault.reason else ""
        language = Language.of(query.language)
        text = replace(changed, reason=reason).written(language)
        # Without its reason a response is no worse, so what is compared has none either.
        before = draft if fault.reason else replace(draft, reason="")
        return None if text == before.written(language) else text


def _can_befall(fault: Fault, query: Query) -> bool:
    if query.answerable is None:  # most likely it can be answered: somebody asks it in a test
        return fault.answerable is not False
    return fault.answerable in (None, query.answerable)


# The bundled queries have texts in all languages, abstentions and lies; others do with these.


def _in_english(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """Sentences of some bundled reference in English, or Spanish, with the citations of these."""
    foreign = _foreign(scene, rng)
    pairs = enumerate(draft.sentences)
    return draft.saying(Sentence(foreign[i % len(foreign)], s.citations) for i, s in pairs)


def _half_in_english(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """Every other sentence in another language, or one more where there is no other."""
    foreign, sentences = _foreign(scene, rng), draft.sentences
    if len(sentences) == 1:
        return draft.saying((*sentences, Sentence(foreign[0], ())))
    return draft.saying(
        Sentence(foreign[i // 2 % len(foreign)], s.citations) if i % 2 else s
        for i, s in enumerate(sentences)
    )


def _foreign(scene: Scene, rng: Random) -> list[str]:
    corpus = MirageDataset.bundled(
        next(code for code in ("en", "es") if code != scene.query.language)
    )
    query = corpus[corpus.query_ids[int(rng.integers(len(corpus)))]]
    found = parse(query.reference or "", corpus.language, query.passage_ids)
    return [sentence.text for sentence in found.sentences]


def _abstaining(_: Draft, scene: Scene, rng: Random) -> Draft | None:
    """An abstention that was written for a bundled query of the language."""
    if scene.query.language not in LANGUAGES:
        return None
    corpus = MirageDataset.bundled(scene.query.language)
    others = [query.id for query in corpus if query.answerable is False]
    text = bundled_texts(corpus.language)[others[int(rng.integers(len(others)))]].terse
    return scene.parsed(text).citing(lambda _: ())


def _wrongly_answered(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """A wrong answer in place of the right one, or alone where the right one stays."""
    wrong = scene.query.wrong_answers[int(rng.integers(len(scene.query.wrong_answers)))][0]
    forms = sorted((form for some in scene.query.answers for form in some), key=len, reverse=True)

    def other(text: str) -> str:
        for form in forms:
            text = text.replace(form, wrong)
        return text

    spoilt = draft.worded(other)
    if spoilt != draft and not all(scene.stated(spoilt.text)):
        return spoilt
    cited = tuple(dict.fromkeys(id_ for s in draft.sentences for id_ in s.citations))
    return draft.saying([Sentence(wrong, cited)])


_ELSEWHERE: Mapping[str, Callable[[Draft, Scene, Random], Draft | None]] = {
    "wrong-language": _in_english,
    "mixed-language": _half_in_english,
    "refusal": _abstaining,
    "wrong-entity": _wrongly_answered,
    "answered-anyway": FAULTS["off-topic"].change,
}


# What an assertion may watch ----------------------------------------------------------------------


class _Watched(NamedTuple):
    """A feature, how far its mean may move, and what a bound on it is for."""

    feature: str
    slack: float
    why: str


WATCHED = (
    _Watched("target_language", 0.1, "answers are in the language of the question"),
    _Watched("citation_recall@10", 0.1, "they cite the passages that answer it"),
    _Watched("citation_map@10", 0.1, "and few others"),
    _Watched("support_lexical", 0.25, "what they say stands in what they cite"),
    _Watched("answer_match", 0.1, "they state the right answer"),
    _Watched("wrong_answer", 0.1, "and no wrong one"),
    _Watched("unknown_facts", 0.1, "numbers and names are those of the passages"),
    _Watched("abstention", 0.1, "they abstain where, and only where, no passage answers"),
    _Watched("invention", 0.1, "and say nothing else there"),
    _Watched("passage_coverage", 0.1, "they do not recite the passages"),
    _Watched("well_formed", 0.1, "the answer stands under its heading"),
    _Watched("answer_length", 2.3, "they are not cut off, and do not run away (log of characters)"),
)
"""The features that suggested assertions are about, and the slack of each.

What truth and form hang on may move by a tenth of the range, as in the gate. Support and length
move with the wording alone: of the bundled queries' true answers in Swahili and Thai, written in
six manners, the mean support of one is up to 0.35 from another's, and one is up to eight times as
long. So support may move by a quarter, and the logarithm of the length by 2.3, ten times either way
(``benchmarks/mutation.py`` has what falls in other languages and manners).
"""


class Bound(NamedTuple):
    """What a mean of a feature is to be; ``assert_feature`` checks it."""

    feature: str
    why: str
    ge: float | None = None
    le: float | None = None

    def holds(self, mean: float) -> bool:
        """Whether a mean is within it. No mean at all is not."""
        low = -math.inf if self.ge is None else self.ge
        high = math.inf if self.le is None else self.le
        return low <= round(mean, 9) <= high

    def code(self, on: str = "") -> str:
        """The assertion as Python, about ``run``; ``on`` is what stands for the queries."""
        given = {"ge": self.ge, "le": self.le}
        limits = [f"{side}={value:g}" for side, value in given.items() if value is not None]
        arguments = ", ".join([*limits, *_on(on)])
        return f"assert_feature(run, {python_literal(self.feature)}, {arguments})"


def _on(on: str) -> list[str]:
    return [f"on={on}"] if on else []


def _bound(watched: _Watched, mean: float, direction: str) -> Bound | None:
    """The bound that a mean keeps with its slack; ``None`` where nothing could break it."""
    feature, slack, why = watched
    ge = math.floor(round((mean - slack) * 100, 6)) / 100
    le = math.ceil(round((mean + slack) * 100, 6)) / 100
    if feature == "answer_length":
        return Bound(feature, why, ge, le)
    if direction == "higher":
        return Bound(feature, why, ge=ge) if ge > 0 else None
    return Bound(feature, why, le=le) if le < 1 else None


class _Effects:
    """Means of the watched features, of the responses and of their mutants."""

    def __init__(self, dataset: MirageDataset, run: Run, tried: Sequence[Mutant]) -> None:
        self._suite = FeatureSuite([one.feature for one in WATCHED]).applicable(dataset)
        self._dataset, self.names = dataset, self._suite.names
        table = self._scored(run)
        self._values, self.unmeasured = table.values, table.unmeasured
        self._largest: dict[str, tuple[Mutant, Floats]] = {}
        for mutant in sorted(tried, key=lambda one: -one.share):
            if mutant.kind not in self._largest:
                self._largest[mutant.kind] = mutant, self._scored(mutant.run).values
        self.before = self._means(self._values)

    def _scored(self, run: Run) -> FeatureTable:
        return self._suite.score(self._dataset, run, progress=False)

    def _means(self, values: Floats) -> dict[str, float]:
        counts = np.isfinite(values).sum(axis=0)
        sums = np.nansum(values, axis=0)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return dict(zip(self.names, means.tolist(), strict=True))

    def after(self, mutant: Mutant) -> dict[str, float]:
        """Means of a mutant: its rows are those of the largest one of its kind, where it is hit."""
        hit = np.isin(self._dataset.query_ids, mutant.hit)
        return self._means(np.where(hit[:, None], self._largest[mutant.kind][1], self._values))

    def bounds(self, watched: Sequence[_Watched] = WATCHED) -> list[Bound]:
        """What the means keep."""
        directions = {
            name: facts.direction_in(self._dataset.language)
            for name, facts in self._suite.facts.items()
        }
        all_bounds = (
            _bound(one, self.before[one.feature], directions[one.feature])
            for one in watched
            if one.feature in self.names and math.isfinite(self.before[one.feature])
        )
        return [bound for bound in all_bounds if bound is not None]

    def suggestion(self, mutant: Mutant) -> str:
        """The assertion that catches a mutant: on the feature that moved most of its slack."""
        after, slacks = self.after(mutant), {one.feature: one.slack for one in WATCHED}
        moved = {
            name: abs(after[name] - self.before[name]) / slacks[name]
            for name in self.names
            if math.isfinite(after[name] - self.before[name])
        }
        name = max(moved, key=lambda one: moved[one], default="")
        if not name or moved[name] < 0.1:
            return "none of the watched features moves"
        usual = next((b for b in self.bounds() if b.feature == name), None)
        if usual is not None and not usual.holds(after[name]):
            return usual.code()
        # Nearer than the usual slack: halfway, and to be read as such.
        middle = round((after[name] + self.before[name]) / 2, 3)
        side = {"ge" if after[name] < self.before[name] else "le": middle}
        return f"{Bound(name, '', **side).code()}  # near: the mean is {self.before[name]:.3f}"


# Scores -------------------------------------------------------------------------------------------


class Fate(NamedTuple):
    """What became of one mutant.

    Attributes:
        kind: of fault.
        share: of the queries that can have it, those that have.
        hit: how many queries that are.
        caught_by: the assertions that fell.
        suggestion: where none fell, the assertion that would, as code.
    """

    kind: str
    share: float
    hit: int
    caught_by: tuple[str, ...]
    suggestion: str = ""


@dataclass(frozen=True, slots=True)
class MutationScore:
    """Which faults a suite of assertions catches.

    Attributes:
        fates: of every mutant.
        untried: kinds of fault that no response can have, and why.
        fallen: assertions that fall on the responses as they are; they count for nothing.
        unmeasured: features of which the responses have no value, and why; they bound nothing.
    """

    fates: tuple[Fate, ...]
    untried: Mapping[str, str]
    fallen: tuple[str, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """The share of the kinds that are caught where most queries have them, 0 to 1."""
        return self.at(max((fate.share for fate in self.fates), default=math.nan))

    def at(self, share: float) -> float:
        """The share of the kinds caught at a share of the queries; NaN where none was tried."""
        caught = [bool(fate.caught_by) for fate in self.fates if fate.share == share]
        return sum(caught) / len(caught) if caught else math.nan

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the queries that were tried, the largest first."""
        return tuple(sorted({fate.share for fate in self.fates}, reverse=True))

    def counted(self, share: float) -> str:
        """``17 of 19 kinds of fault``."""
        fates = [fate for fate in self.fates if fate.share == share]
        return f"{sum(bool(one.caught_by) for one in fates)} of {len(fates)} kinds of fault"

    def __str__(self) -> str:
        rows = [
            (fate.kind, f"{fate.share:.0%}", str(fate.hit), _by(fate.caught_by))
            for fate in self.fates
        ]
        notes = [f"{fate.kind}, {fate.share:.0%}: {fate.suggestion}" for fate in self.missed]
        table = Table(
            "; ".join(f"{self.counted(share)} caught at {share:.0%}" for share in self.shares),
            ("fault", "share", "queries", "caught by"),
            tuple(rows),
            tuple(not fate.caught_by for fate in self.fates),
            (
                *(("What would catch what was missed:", *notes) if notes else ()),
                *(f"Not tried, {kind}: {why}" for kind, why in self.untried.items()),
                *(f"Falls on the responses as they are: {name}" for name in self.fallen),
                *(f"Not measured, {name}: {why}" for name, why in self.unmeasured.items()),
            ),
            name=0,
        )
        return to_text(table)

    @property
    def missed(self) -> tuple[Fate, ...]:
        """The mutants on which every assertion holds."""
        return tuple(fate for fate in self.fates if not fate.caught_by)


def _by(names: Sequence[str]) -> str:
    if not names:
        return "nothing"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def mutation_score(
    assertions: Mapping[str, Callable[[Run], object]],
    dataset: MirageDataset,
    run: Run,
    *,
    kinds: Collection[str] | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
) -> MutationScore:
    """How many kinds of fault a suite of assertions catches, and what would catch the others.

    A fault is caught where an assertion that holds of the responses does not hold of the mutant.
    Assertions that do not hold of the responses themselves are named, and count for nothing.

    Args:
        assertions: by name; each takes a run, and raises ``AssertionError`` where it falls short,
            as those of :mod:`mirage.testing` do. A feature without any value counts as that too.
        dataset: what was asked.
        run: the responses, which the assertions are to pass on.
        kinds: which kinds of fault; all by default.
        shares: of the queries that can have a fault, how many have it.
        seed: of what is drawn.

    Raises:
        UnknownNameError: there is no such kind.
        SettingError: a share is not above 0 and up to 1.
    """

    def falling(some: Run) -> list[str]:
        return [name for name, check in assertions.items() if _falls(check, some)]

    return fates_of(falling, dataset, run, kinds=kinds, shares=shares, seed=seed)


def _falls(check: Callable[[Run], object], run: Run) -> bool:
    try:
        check(run)
    except (AssertionError, FeatureError):
        return True
    return False


def fates_of(
    falling: Callable[[Run], Iterable[str]],
    dataset: MirageDataset,
    run: Run,
    *,
    kinds: Collection[str] | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
) -> MutationScore:
    """As :func:`mutation_score`, where a function says which assertions fall on a run."""
    made = mutants(dataset, run, kinds=kinds, shares=shares, seed=seed)
    already = tuple(falling(run))
    fates = [
        (one, tuple(name for name in falling(one.run) if name not in already)) for one in made.tried
    ]
    effects = _Effects(dataset, run, [one for one, caught in fates if not caught])
    rows = (
        Fate(*one[:2], len(one.hit), caught, "" if caught else effects.suggestion(one))
        for one, caught in fates
    )
    return MutationScore(tuple(rows), made.untried, already)


def suggested_bounds(
    dataset: MirageDataset,
    run: Run,
    *,
    kinds: Collection[str] | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
) -> tuple[tuple[Bound, ...], MutationScore]:
    """Bounds that the responses keep and some fault breaks, and the mutation score of them all.

    Each feature of :data:`WATCHED` that the dataset provides for is bounded at the mean of the
    responses less its slack; bounds that no fault breaks are left out.

    Args:
        dataset: what was asked.
        run: the responses.
        kinds: which kinds of fault; all by default.
        shares: of the queries that can have a fault, how many have it.
        seed: of what is drawn.

    Raises:
        UnknownNameError: there is no such kind.
        SettingError: a share is not above 0 and up to 1.
    """
    made = mutants(dataset, run, kinds=kinds, shares=shares, seed=seed)
    effects = _Effects(dataset, run, made.tried)
    bounds, fates = effects.bounds(), []
    for one in made.tried:
        after = effects.after(one)
        caught = tuple(bound.feature for bound in bounds if not bound.holds(after[bound.feature]))
        suggestion = "" if caught else effects.suggestion(one)
        fates.append(Fate(one.kind, one.share, len(one.hit), caught, suggestion))
    useful = {name for fate in fates for name in fate.caught_by}
    some = tuple(bound for bound in bounds if bound.feature in useful)
    return some, MutationScore(tuple(fates), made.untried, unmeasured=effects.unmeasured)
