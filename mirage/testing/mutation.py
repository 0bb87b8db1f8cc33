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

from mirage._base.quoting import python_literal
from mirage._base.tables import Table, to_text
from mirage.dataset import MirageDataset
from mirage.errors import FeatureError, SettingError, UnknownNameError
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.base import answered
from mirage.languages import LANGUAGES, Language
from mirage.models import Query, Response, Run
from mirage.statistics.bootstrap import Interval
from mirage.statistics.bounds import mean_bounds
from mirage.statistics.clusters import cluster_codes
from mirage.surrogate.drafts import Draft, Scene, bundled_texts
from mirage.surrogate.faults import FAULTS, Fault
from mirage.testing._current_test import without_traces
from mirage.testing._remembered import cached_feature, caching_features
from mirage.testing.feature_bounds import (
    ALPHA,
    BoundVerdict,
    compare_with_bounds,
    confidence_of,
)
from mirage.testing.gate import mean_of_pairs
from mirage.text import Sentence, parse

__all__ = [
    "SEEDS",
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
)
"""The features that suggested assertions are about, and the slack of each.

All of them have a better side (:class:`mirage.features.Facts`), and a bound leaves that side open:
a system that improves breaks none. Features of manner, such as length, headings and how much of the
passages is recited, do not bound. A mean may move by a tenth of its range to the worse. Support
moves with the wording: of the bundled queries' true answers in Swahili and Thai, written in six
manners, the mean of one is up to 0.35 from another's. So it may move by a quarter
(``benchmarks/mutation.py`` prints what falls in other languages and manners).
"""

SEEDS = 5
"""Random seeds that a mutation score is taken over.

If each is as likely to reach a minimum as to miss it, all five do with a probability of 1/32, and
none does with the same.
"""


class Bound(NamedTuple):
    """What a mean of a feature is to be; ``assert_feature`` checks it."""

    feature: str
    why: str
    ge: float | None = None
    le: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The bounds by ``ge`` and ``le``."""
        given = {"ge": self.ge, "le": self.le}
        return {side: value for side, value in given.items() if value is not None}

    def verdict(self, interval: Interval) -> BoundVerdict:
        """Compare the interval of a mean with the bound, as ``assert_feature`` does.

        A feature that has no value any more, whose interval is unknown, breaks the bound.
        """
        if math.isnan(interval[0]) and math.isnan(interval[1]):
            return "broken"
        return compare_with_bounds(self.limits, interval)

    def code(self, on: str = "") -> str:
        """Return the assertion as Python, about ``run``.

        Args:
            on: The expression for the queries.
        """
        limits = [f"{side}={value:g}" for side, value in self.limits.items()]
        where = [f"on={on}"] if on else []
        arguments = ", ".join([*limits, *where])
        return f"assert_feature(run, {python_literal(self.feature)}, {arguments})"


def _bound(watched: _Watched, interval: Interval, mean: float, higher: bool) -> Bound | None:
    """Return the bound that a mean keeps with its slack; ``None`` if nothing could break it.

    The whole interval is within the bound, so that the responses that it is written from keep it.
    """
    feature, slack, why = watched
    if higher:
        least = math.floor(round(min(mean - slack, interval[0]) * 100, 6)) / 100
        return Bound(feature, why, ge=least) if least > 0 else None
    most = math.ceil(round(max(mean + slack, interval[1]) * 100, 6)) / 100
    return Bound(feature, why, le=most) if most < 1 else None


class _Measured(NamedTuple):
    """The watched features of a run: the mean of each and its interval, by name."""

    means: Mapping[str, float]
    intervals: Mapping[str, Interval]


class _Effects:
    """Means of the watched features and their intervals, of the responses and of mutants.

    Values are computed once per query and response in a
    :func:`mirage.testing._remembered.caching_features` block.
    """

    def __init__(self, dataset: MirageDataset, run: Run) -> None:
        applicable = FeatureSuite([entry.feature for entry in WATCHED]).applicable(dataset)
        self._suite = FeatureSuite([cached_feature(name) for name in applicable.names])
        self._dataset, self.names = dataset, self._suite.names
        known = [self._suite.facts[name] for name in self.names]
        self._ends = tuple(np.array([getattr(fact, end) for fact in known]) for end in _ENDS)
        self._higher = {
            name: fact.higher_is_better(dataset.language)
            for name, fact in zip(self.names, known, strict=True)
        }
        table = self._score(run)
        self.unmeasured: Mapping[str, str] = table.unmeasured
        self.before = self._measured(table)

    def _score(self, run: Run) -> FeatureTable:
        return self._suite.score(self._dataset, run, progress=False)

    def measure(self, run: Run) -> _Measured:
        """Return the watched features of a run, with the intervals of ``assert_feature``."""
        return self._measured(self._score(run))

    def _measured(self, table: FeatureTable) -> _Measured:
        codes = cluster_codes(table.query_ids, table.clusters)
        low, high = self._ends
        confidence = confidence_of({"ge": 0.0}, ALPHA)
        bounds = mean_bounds(table.values, codes, low, high, level=confidence)
        pairs = [(float(least), float(most)) for least, most in bounds]
        return _Measured(
            dict(zip(self.names, mean_of_pairs(table.values).tolist(), strict=True)),
            dict(zip(self.names, pairs, strict=True)),
        )

    def bounds(self, watched: Sequence[_Watched] = WATCHED) -> list[Bound]:
        """Return the bounds that the responses keep, on features with a better side."""
        bounds = []
        for entry in watched:
            mean = self.before.means.get(entry.feature, math.nan)
            higher = self._higher.get(entry.feature)
            if higher is None or not math.isfinite(mean):
                continue
            bound = _bound(entry, self.before.intervals[entry.feature], mean, higher)
            bounds += [] if bound is None else [bound]
        return bounds

    def suggestion(self, after: _Measured) -> str:
        """Return the assertion that catches a mutant: on the feature that got worst by its slack.

        Args:
            after: The mutant's features.
        """
        slacks = {entry.feature: entry.slack for entry in WATCHED}
        worse = {
            name: (1 if higher else -1) * (self.before.means[name] - after.means[name])
            for name, higher in self._higher.items()
            if higher is not None
        }
        shares = {n: loss / slacks[n] for n, loss in worse.items() if math.isfinite(loss)}
        name = max(shares, key=lambda name: shares[name], default="")
        if not name or shares[name] < 0.1:
            return "no watched feature gets worse"
        usual = next((b for b in self.bounds() if b.feature == name), None)
        if usual is not None and usual.verdict(after.intervals[name]) == "broken":
            return usual.code()
        side = "ge" if self._higher[name] else "le"
        ends = (self.before.intervals[name], after.intervals[name])
        kept, broken = (ends[0][0], ends[1][1]) if side == "ge" else (ends[0][1], ends[1][0])
        nearer = Bound(name, "", **{side: round((kept + broken) / 2, 3)})
        if nearer.verdict(ends[0]) != "holds" or nearer.verdict(ends[1]) != "broken":
            return (
                f"no bound tells it with so many queries ({name} {self.before.means[name]:.3f} → "
                f"{after.means[name]:.3f}); compare with a baseline"
            )
        return f"{nearer.code()}  # near: the mean is {self.before.means[name]:.3f}"


_ENDS = ("low", "high")


# Scores -------------------------------------------------------------------------------------------


class Fate(NamedTuple):
    """What became of one mutant.

    Attributes:
        kind: of fault.
        share: of the queries that can have it, those that have.
        hit: how many queries that are.
        caught_by: the assertions that fell.
        suggestion: where none fell, the assertion that would, as code.
        seed: The random seed that the mutant was drawn with.
    """

    kind: str
    share: float
    hit: int
    caught_by: tuple[str, ...]
    suggestion: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class MutationScore:
    """Which faults a suite of assertions catches, over several random seeds.

    An assertion that is inconclusive on a mutant does not catch it.

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
        """The share of the kinds that are caught if most queries have them, 0 to 1."""
        return self.at(self.shares[0]) if self.fates else math.nan

    def at(self, share: float) -> float:
        """Return the mean over the seeds of the share of the kinds caught; NaN if none was tried.

        Args:
            share: The share of the queries that have the fault.
        """
        scores = self.by_seed(share)
        return sum(scores) / len(scores) if scores else math.nan

    def by_seed(self, share: float) -> tuple[float, ...]:
        """Return the share of the kinds that is caught with each seed."""
        caught: dict[int, list[bool]] = {}
        for fate in self.fates:
            if fate.share == share:
                caught.setdefault(fate.seed, []).append(bool(fate.caught_by))
        return tuple(sum(some) / len(some) for some in caught.values())

    def verdict(self, minimum: float) -> BoundVerdict:
        """Compare the score with a minimum.

        Returns:
            ``"holds"`` if the score reaches it with every seed, ``"broken"`` if with none, else
            ``"cannot tell"``. Also ``"cannot tell"`` if no fault was tried.
        """
        scores = self.by_seed(self.shares[0]) if self.fates else ()
        reached = [score >= minimum for score in scores]
        if not reached or (any(reached) and not all(reached)):
            return "cannot tell"
        return "holds" if all(reached) else "broken"

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the queries that were tried, the largest first."""
        return tuple(sorted({fate.share for fate in self.fates}, reverse=True))

    def counted(self, share: float) -> str:
        """Return ``17.4 of 19 kinds of fault (16 to 18 with 5 seeds)``."""
        scores = self.by_seed(share)
        kinds = len({fate.kind for fate in self.fates if fate.share == share})
        counts = [round(score * kinds) for score in scores]
        mean = f"{sum(counts) / len(counts):.1f}".removesuffix(".0")
        span = f"{min(counts)} to {max(counts)} " if min(counts) < max(counts) else ""
        seeds = f"{span}with {len(scores)} seed{'s' if len(scores) > 1 else ''}"
        return f"{mean} of {kinds} kinds of fault ({seeds})"

    def __str__(self) -> str:
        mutants_of = _by_kind(self.fates)
        missed = _by_kind(self.missed)
        notes = [
            f"{kind}, {share:.0%}: {fates[0].suggestion}" for (kind, share), fates in missed.items()
        ]
        table = Table(
            "; ".join(f"{self.counted(share)} caught at {share:.0%}" for share in self.shares),
            ("fault", "share", "queries", "seeds", "caught by"),
            tuple(_row(*key, fates) for key, fates in mutants_of.items()),
            tuple(key in missed for key in mutants_of),
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
        """The mutants that no assertion catches."""
        return tuple(fate for fate in self.fates if not fate.caught_by)


def _by_kind(fates: Iterable[Fate]) -> dict[tuple[str, float], list[Fate]]:
    groups: dict[tuple[str, float], list[Fate]] = {}
    for fate in fates:
        groups.setdefault((fate.kind, fate.share), []).append(fate)
    return groups


def _row(kind: str, share: float, fates: Sequence[Fate]) -> tuple[str, ...]:
    names = list(dict.fromkeys(name for fate in fates for name in fate.caught_by))
    caught = sum(bool(fate.caught_by) for fate in fates)
    return kind, f"{share:.0%}", str(fates[0].hit), f"{caught} of {len(fates)}", _by(names)


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
    seeds: int = SEEDS,
) -> MutationScore:
    """Count the kinds of fault that assertions catch, and suggest what would catch the others.

    A fault is caught if an assertion that holds of the responses fails on the mutant. One that is
    inconclusive there, such as :func:`~mirage.testing.assert_feature` with too few queries, does
    not catch it. Assertions that fail on the responses themselves are named, and count for nothing.

    Args:
        assertions: by name; each takes a run, and raises ``AssertionError`` where it falls short,
            as those of :mod:`mirage.testing` do. A feature without any value counts as that too.
        dataset: what was asked.
        run: the responses, which the assertions are to pass on.
        kinds: which kinds of fault; all by default.
        shares: of the queries that can have a fault, how many have it.
        seed: The first random seed.
        seeds: How many seeds mutants are drawn with.

    Raises:
        UnknownNameError: there is no such kind.
        SettingError: a share is not above 0 and up to 1, or ``seeds`` is below 1.
    """

    def falling(mutant: Run) -> list[str]:
        return [name for name, check in assertions.items() if _falls(check, mutant)]

    return fates_of(falling, dataset, run, kinds=kinds, shares=shares, seed=seed, seeds=seeds)


def _falls(check: Callable[[Run], object], run: Run) -> bool:
    try:
        with without_traces():
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
    seeds: int = SEEDS,
) -> MutationScore:
    """Return the mutation score of assertions of which a function names those that fail on a run.

    Arguments and errors are those of :func:`mutation_score`.
    """
    draws = _draws(dataset, run, kinds, shares, seed, seeds)
    with caching_features():
        already = tuple(falling(run))
        effects = _Effects(dataset, run)
        failures: dict[tuple[Response, ...], tuple[str, ...]] = {}
        fates = []
        for number, mutant in draws.mutants:
            texts = mutant.run.responses
            if texts not in failures:  # some faults leave nothing to chance
                names = falling(mutant.run)
                failures[texts] = tuple(name for name in names if name not in already)
            caught = failures[texts]
            suggestion = "" if caught else effects.suggestion(effects.measure(mutant.run))
            fates.append(_fate(mutant, caught, suggestion, number))
    return MutationScore(tuple(fates), draws.untried, already)


class _Draws(NamedTuple):
    """The mutants of several seeds, each with its seed, and why other kinds were not tried."""

    mutants: Sequence[tuple[int, Mutant]]
    untried: Mapping[str, str]


def _draws(
    dataset: MirageDataset,
    run: Run,
    kinds: Collection[str] | None,
    shares: Sequence[float],
    seed: int,
    seeds: int,
) -> _Draws:
    if seeds < 1:
        raise SettingError(f"seeds must be at least 1, got {seeds}")
    drawn = {
        number: mutants(dataset, run, kinds=kinds, shares=shares, seed=number)
        for number in range(seed, seed + seeds)
    }
    pairs = [(number, mutant) for number, some in drawn.items() for mutant in some.tried]
    return _Draws(pairs, drawn[seed].untried)


def _fate(mutant: Mutant, caught: tuple[str, ...], suggestion: str, seed: int) -> Fate:
    return Fate(mutant.kind, mutant.share, len(mutant.hit), caught, suggestion, seed)


def suggested_bounds(
    dataset: MirageDataset,
    run: Run,
    *,
    kinds: Collection[str] | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    seeds: int = SEEDS,
) -> tuple[tuple[Bound, ...], MutationScore]:
    """Return bounds that the responses keep and some fault breaks, and their mutation score.

    Each feature of :data:`WATCHED` that the dataset provides for and that has a better side is
    bounded on the other one: at the mean of the responses less its slack, or at the end of the
    interval of the mean if that is farther out, so that the responses keep the bound. Bounds that
    no fault breaks are left out.

    Args:
        dataset: what was asked.
        run: the responses.
        kinds: which kinds of fault; all by default.
        shares: of the queries that can have a fault, how many have it.
        seed: The first random seed.
        seeds: How many seeds mutants are drawn with.

    Raises:
        UnknownNameError: there is no such kind.
        SettingError: a share is not above 0 and up to 1, or ``seeds`` is below 1.
    """
    draws = _draws(dataset, run, kinds, shares, seed, seeds)
    fates = []
    with caching_features():
        effects = _Effects(dataset, run)
        bounds = effects.bounds()
        measured: dict[tuple[Response, ...], _Measured] = {}
        for number, mutant in draws.mutants:
            texts = mutant.run.responses
            if texts not in measured:  # some faults leave nothing to chance
                measured[texts] = effects.measure(mutant.run)
            after = measured[texts]
            caught = tuple(
                bound.feature
                for bound in bounds
                if bound.verdict(after.intervals[bound.feature]) == "broken"
            )
            suggestion = "" if caught else effects.suggestion(after)
            fates.append(_fate(mutant, caught, suggestion, number))
    useful = {name for fate in fates for name in fate.caught_by}
    some = tuple(bound for bound in bounds if bound.feature in useful)
    return some, MutationScore(tuple(fates), draws.untried, unmeasured=effects.unmeasured)
