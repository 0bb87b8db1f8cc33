"""Mutation testing: measure which known faults in responses a suite of assertions detects.

The module inserts known faults (:mod:`mirage.surrogate.faults`) into the responses of a user's
system. A mutant is a copy of the responses with one kind of fault. If assertions pass on the
original responses and also on a mutant, they miss its fault. DeMillo, Lipton and Sayward (1978,
Hints on Test Data Selection) defined the mutation score for programs; here it is applied to
answers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from mirage.testing._feature_cache import cached_feature, caching_features
from mirage.testing.feature_bounds import (
    ALPHA,
    BoundVerdict,
    compare_with_bounds,
    confidence_of,
)
from mirage.testing.gate import mean_of_pairs
from mirage.text import parse
from mirage.text.sentences import Sentence

Random = np.random.Generator
SHARES = (1.0, 0.25)


class Mutant(NamedTuple):
    """A copy of a run in which some responses have one kind of fault.

    Attributes:
        kind: Kind of fault, a key of :data:`mirage.surrogate.faults.FAULTS`.
        share: Share of the queries with the fault, among those that can have it; above 0 and up to
            1.
        hit: Ids of the queries with the fault.
        run: The responses; those to all other queries are unchanged.
    """

    kind: str
    share: float
    hit: tuple[str, ...]
    run: Run


class Mutants(NamedTuple):
    """The mutants of a run, and the reasons why some kinds of fault were not tried.

    Attributes:
        tried: The mutants, in groups of the same kind.
        untried: Kinds of fault that were not tried, each with the reason.
    """

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
    """Return copies of a run with faults: one copy per kind of fault and share of the queries.

    A response that cannot have a fault is unchanged; for example, a response without citations
    cannot lose one. The queries that have a fault at a smaller share also have it at a larger
    share, with the same faulty text.

    Args:
        dataset: The queries.
        run: The responses.
        kinds: Kinds of fault; all by default.
        shares: Shares of the queries with the fault, among those that can have it.
        seed: Random seed for choosing queries, passages and wrong answers.

    Raises:
        UnknownNameError: There is no such kind of fault.
        SettingError: A share is 0 or less, or above 1.

    Example:
        >>> from mirage import MirageDataset, Query, respond
        >>> queries = MirageDataset(
        ...     Query(id=f"q{i}", language="en", text="When?") for i in range(4)
        ... )
        >>> run = respond(lambda query: "In 1969.", queries, progress=False)
        >>> mutant, = mutants(queries, run, kinds=["wrong-number"], shares=[0.5]).tried
        >>> len(mutant.hit)
        2
    """
    _check(kinds, shares)
    stage = _Stage.of(dataset)
    tried, untried = [], {}
    for kind in FAULTS if kinds is None else dict.fromkeys(kinds):
        faulty = stage.faulty_responses(kind, run, seed)
        if not faulty:
            untried[kind] = f"no response can have it: it needs {_NEEDS[kind][1]}"
        tried += [_mutant(kind, share, run, faulty, seed) for share in shares if faulty]
    return Mutants(tuple(tried), MappingProxyType(untried))


def _check(kinds: Collection[str] | None, shares: Sequence[float]) -> None:
    for kind in kinds or ():
        if kind not in FAULTS:
            raise UnknownNameError("kind of fault", kind, tuple(FAULTS))
    if not shares or not all(0 < share <= 1 for share in shares):
        raise SettingError(
            f"shares must be above 0 and at most 1, such as 0.25; got {tuple(shares)}"
        )


def _mutant(
    kind: str, share: float, run: Run, faulty: Mapping[tuple[str, int], Response], seed: int
) -> Mutant:
    # The order depends on the seed and the kind only, so small shares are subsets of large ones.
    ids = list(dict.fromkeys(id_ for id_, _ in faulty))
    order = np.random.default_rng([seed, *kind.encode()]).permutation(len(ids))
    hit = {ids[i] for i in order[: max(1, round(share * len(ids)))].tolist()}
    responses = tuple(
        faulty.get((response.query_id, response.repeat), response)
        if response.query_id in hit
        else response
        for response in run.responses
    )
    changed = run.model_copy(update={"responses": responses})
    return Mutant(kind, share, tuple(id_ for id_ in ids if id_ in hit), changed)


# Inserting a fault into a response ----------------------------------------------------------------

# For each kind of fault, a test whether a query can have it, and the requirement in words.
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

_ABOUT_PROMPTS = ("dumping", "over-cited")  # made from the passages that the system has read


@dataclass(frozen=True, slots=True)
class _Stage:
    """The datasets whose texts are used to build faulty responses.

    Attributes:
        corpora: Datasets by language code. The one in the language of the run is the dataset under
            test; the others provide texts in other languages.
        bundled: Whether all queries of the dataset under test ship with the library. If so,
            ``corpora`` has the bundled queries of every language, else only the dataset itself.
    """

    corpora: Mapping[str, MirageDataset]
    bundled: bool

    @classmethod
    def of(cls, dataset: MirageDataset) -> _Stage:
        code = dataset.language
        if code in LANGUAGES:
            ours = MirageDataset.bundled(code)
            # A user's query may have the id of a bundled one, so the content is compared too.
            if all(query.id in ours.query_ids and query == ours[query.id] for query in dataset):
                corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
                return cls({**corpora, code: dataset}, bundled=True)
        return cls({code: dataset}, bundled=False)

    def faulty_responses(self, kind: str, run: Run, seed: int) -> dict[tuple[str, int], Response]:
        """Insert a fault into all responses that can have it.

        Returns:
            The faulty responses, by query id and repeat.
        """
        dataset = self.corpora[run.language]
        changed = {}
        for response in run.responses:
            if response.text is None or response.query_id not in dataset.query_ids:
                continue
            stream = [seed, *kind.encode(), response.repeat, *response.query_id.encode()]
            text = self._faulty_text(kind, dataset[response.query_id], response, stream)
            if text is not None:
                new = response.model_copy(update={"text": text})
                changed[response.query_id, response.repeat] = new
        return changed

    def _faulty_text(
        self, kind: str, query: Query, response: Response, stream: Sequence[int]
    ) -> str | None:
        """Insert a fault into a response, and return its text; ``None`` if that is impossible.

        ``stream`` seeds the random generator, so that each response has its own random numbers.
        """
        source = _as_shown(query, response) if kind in _ABOUT_PROMPTS else query
        fault, scene = FAULTS[kind], Scene(source, self.corpora)
        if not _can_occur(fault, query) or not _NEEDS[kind][0](scene):
            return None
        parsed = answered(query, response).parsed
        if not parsed.sentences:
            return None
        headings = "##" in (response.text or "")
        draft = Draft(parsed.reason, parsed.sentences, headings=headings)
        change = fault.change if self.bundled else _USER_CHANGES.get(kind, fault.change)
        changed = change(draft, scene, np.random.default_rng(stream))
        if changed is None:
            return None
        reason = changed.reason if fault.reason else ""
        language = Language.of(query.language)
        text = replace(changed, reason=reason).written(language)
        # A missing reason makes no response worse. So it is removed from both before the texts are
        # compared, as some faults drop it.
        before = draft if fault.reason else replace(draft, reason="")
        return None if text == before.written(language) else text


def _as_shown(query: Query, response: Response) -> Query:
    """Return the query with the passages that the prompt of the response showed, in order."""
    passages = {passage.id: passage for passage in query.knowing(response).passages}
    shown = [passages[id_] for id_ in query.shown_to(response) if id_ in passages]
    return query.model_copy(update={"passages": tuple(shown)})


def _can_occur(fault: Fault, query: Query) -> bool:
    if query.answerable is None:  # most queries of a test can be answered
        return fault.answerable is not False
    return fault.answerable in (None, query.answerable)


# The faults of bundled queries use their translations, abstentions and lies. For a user's queries,
# which have none, these functions replace them.


def _replace_by_foreign(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """Replace all sentences with sentences of a bundled English reference.

    If the query is in English, a Spanish reference is used. Citations are kept.
    """
    foreign = _foreign_sentences(scene, rng)
    pairs = enumerate(draft.sentences)
    return draft.saying(Sentence(foreign[i % len(foreign)], s.citations) for i, s in pairs)


def _mix_with_foreign(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """Replace every second sentence with one in another language.

    If the draft has only one sentence, a sentence in another language is appended.
    """
    foreign, sentences = _foreign_sentences(scene, rng), draft.sentences
    if len(sentences) == 1:
        return draft.saying((*sentences, Sentence(foreign[0], ())))
    return draft.saying(
        Sentence(foreign[i // 2 % len(foreign)], s.citations) if i % 2 else s
        for i, s in enumerate(sentences)
    )


def _foreign_sentences(scene: Scene, rng: Random) -> list[str]:
    corpus = MirageDataset.bundled(
        next(code for code in ("en", "es") if code != scene.query.language)
    )
    query = corpus[corpus.query_ids[int(rng.integers(len(corpus)))]]
    reference = parse(query.reference or "", corpus.language, query.passage_ids)
    return [sentence.text for sentence in reference.sentences]


def _replace_by_abstention(_: Draft, scene: Scene, rng: Random) -> Draft | None:
    """Replace the answer with the abstention of a bundled query in the same language.

    Returns ``None`` if no bundled queries are in that language.
    """
    if scene.query.language not in LANGUAGES:
        return None
    corpus = MirageDataset.bundled(scene.query.language)
    unanswerable = [query.id for query in corpus if query.answerable is False]
    text = bundled_texts(corpus.language)[unanswerable[int(rng.integers(len(unanswerable)))]].terse
    return scene.parsed(text).citing(lambda _: ())


def _insert_wrong_answer(draft: Draft, scene: Scene, rng: Random) -> Draft:
    """Replace the right answer with a wrong one.

    If the text still states the right answer after that, the wrong answer replaces the whole text.
    """
    wrong = scene.query.wrong_answers[int(rng.integers(len(scene.query.wrong_answers)))][0]
    forms = sorted(
        (form for answer in scene.query.answers for form in answer), key=len, reverse=True
    )

    def replace_forms(text: str) -> str:
        for form in forms:
            text = text.replace(form, wrong)
        return text

    faulty = draft.worded(replace_forms)
    if faulty != draft and not all(scene.stated(faulty.text)):
        return faulty
    cited = tuple(dict.fromkeys(id_ for s in draft.sentences for id_ in s.citations))
    return draft.saying([Sentence(wrong, cited)])


_USER_CHANGES: Mapping[str, Callable[[Draft, Scene, Random], Draft | None]] = {
    "wrong-language": _replace_by_foreign,
    "mixed-language": _mix_with_foreign,
    "refusal": _replace_by_abstention,
    "wrong-entity": _insert_wrong_answer,
    "answered-anyway": FAULTS["off-topic"].change,
}


# Features for suggested assertions ----------------------------------------------------------------


class _WatchedFeature(NamedTuple):
    """A feature for which a bound may be suggested.

    ``slack`` is the loss in the feature's mean that the bound tolerates. ``why`` is the purpose of
    the bound, in words.
    """

    feature: str
    slack: float
    why: str


WATCHED = (
    _WatchedFeature("target_language", 0.1, "answers are in the language of the question"),
    _WatchedFeature(
        "citation_recall@10", 0.1, "answers cite the passages that answer the question"
    ),
    _WatchedFeature("citation_map@10", 0.1, "answers cite few other passages"),
    _WatchedFeature("support_lexical", 0.25, "the cited passages support the answers"),
    _WatchedFeature("answer_match", 0.1, "answers state the right fact"),
    _WatchedFeature("wrong_answer", 0.1, "answers state no wrong fact"),
    _WatchedFeature("unknown_facts", 0.1, "numbers and names occur in the passages"),
    _WatchedFeature("abstention", 0.1, "answers abstain if, and only if, no passage answers"),
    _WatchedFeature("invention", 0.1, "abstentions contain nothing else"),
)
"""The features that suggested assertions check, each with its slack.

The slack is the change of the mean that a bound tolerates. For all these features, either higher or
lower values are better (:class:`mirage.features.Facts`). A bound limits only the worse side, so
improvements never break it. Features of style, such as length, headings and the share of copied
passages, are not included. The slack is a tenth of the range, but a quarter for support, which
depends on the wording: the bundled queries have true answers in six styles, and in Swahili and Thai
the means of two styles differ by up to 0.35. ``validation/power/mutation.py`` prints the bounds
that break in other languages and styles.
"""

SEEDS = 5
"""Number of random seeds of a mutation score.

If the score reaches a minimum with a probability of 1/2 per seed, the probability that it does so
with all five seeds is 1/32. The probability that it does so with none of them is also 1/32.
"""


class Bound(NamedTuple):
    """A bound on the mean of a feature, for ``assert_feature``.

    Attributes:
        feature: Name of the feature.
        why: Purpose of the bound, in words.
        ge: The mean must be at least this value; ``None`` if there is no such bound.
        le: The mean must be at most this value; ``None`` if there is no such bound.

    Example:
        >>> Bound("answer_match", "answers state the right fact", ge=0.8).code()
        'assert_feature(run, "answer_match", ge=0.8)'
    """

    feature: str
    why: str
    ge: float | None = None
    le: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The bounds that are not ``None``, with the keys ``ge`` and ``le``."""
        sides = {"ge": self.ge, "le": self.le}
        return {side: value for side, value in sides.items() if value is not None}

    def verdict(self, interval: Interval) -> BoundVerdict:
        """Compare the interval of a mean with the bound, as ``assert_feature`` does.

        Args:
            interval: Confidence interval of the mean. If both ends are NaN, the feature has no
                value any more, which breaks the bound.
        """
        if math.isnan(interval[0]) and math.isnan(interval[1]):
            return "broken"
        return compare_with_bounds(self.limits, interval)

    def code(self, on: str = "") -> str:
        """Return the assertion as Python code, for a variable ``run``.

        Args:
            on: Python expression for the argument ``on``, the queries; by default it is omitted.
        """
        limits = [f"{side}={value:g}" for side, value in self.limits.items()]
        where = [f"on={on}"] if on else []
        arguments = ", ".join([*limits, *where])
        return f"assert_feature(run, {python_literal(self.feature)}, {arguments})"


def _bound(watched: _WatchedFeature, interval: Interval, mean: float, higher: bool) -> Bound | None:
    """Return a bound on a feature's mean; ``None`` if every possible value satisfies it.

    The bound is the mean minus the feature's slack, the loss that is tolerated. If lower values are
    better, it is the mean plus the slack. If the confidence interval of the mean extends beyond
    that, the bound is at the end of the interval, so that the assertion holds for the original
    responses.
    """
    # Rounded outwards to two decimals, so that rounding cannot break the bound.
    feature, slack, why = watched
    if higher:
        least = math.floor(round(min(mean - slack, interval[0]) * 100, 6)) / 100
        return Bound(feature, why, ge=least) if least > 0 else None
    most = math.ceil(round(max(mean + slack, interval[1]) * 100, 6)) / 100
    return Bound(feature, why, le=most) if most < 1 else None


class _WatchedValues(NamedTuple):
    """Means of the features in :data:`WATCHED` on one run, and their intervals, by feature name."""

    means: Mapping[str, float]
    intervals: Mapping[str, Interval]


class _Effects:
    """The features of the original responses, for comparison with the features of mutants.

    Use it in a :func:`mirage.testing._feature_cache.caching_features` block: mutants share most
    responses, and each feature is then computed only once per response.
    """

    def __init__(self, dataset: MirageDataset, run: Run) -> None:
        applicable = FeatureSuite([entry.feature for entry in WATCHED]).applicable(dataset)
        self._suite = FeatureSuite([cached_feature(name) for name in applicable.names])
        self._dataset, self.names = dataset, self._suite.names
        feature_facts = [self._suite.facts[name] for name in self.names]
        self._low = np.array([fact.low for fact in feature_facts])
        self._high = np.array([fact.high for fact in feature_facts])
        self._higher = {
            name: fact.higher_is_better(dataset.language)
            for name, fact in zip(self.names, feature_facts, strict=True)
        }
        table = self._score(run)
        self.unmeasured: Mapping[str, str] = table.unmeasured
        self.before = self._watched_values(table)
        self._latest = run, self.before

    def _score(self, run: Run) -> FeatureTable:
        return self._suite.score(self._dataset, run, progress=False)

    def measure(self, run: Run) -> _WatchedValues:
        """Return the feature means of a run, with the intervals that ``assert_feature`` uses."""
        if self._latest[0] is not run:  # the bounds and the suggestion measure the same run
            self._latest = run, self._watched_values(self._score(run))
        return self._latest[1]

    def _watched_values(self, table: FeatureTable) -> _WatchedValues:
        codes = cluster_codes(table.query_ids, table.clusters)
        confidence = confidence_of({"ge": 0.0}, ALPHA)
        bounds = mean_bounds(table.values, codes, self._low, self._high, level=confidence)
        pairs = [(float(lower), float(upper)) for lower, upper in bounds]
        return _WatchedValues(
            dict(zip(self.names, mean_of_pairs(table.values).tolist(), strict=True)),
            dict(zip(self.names, pairs, strict=True)),
        )

    def bounds(self) -> list[Bound]:
        """Return a bound for each feature for which higher or lower values are better.

        Features without a value, and features for which every possible value satisfies the bound,
        are left out.

        All bounds hold for the original responses.
        """
        bounds = []
        for entry in WATCHED:
            mean = self.before.means.get(entry.feature, math.nan)
            higher = self._higher.get(entry.feature)
            if higher is None or not math.isfinite(mean):
                continue
            bound = _bound(entry, self.before.intervals[entry.feature], mean, higher)
            bounds += [] if bound is None else [bound]
        return bounds

    def suggestion(self, mutant: Run) -> str:
        """Return the code of an assertion that catches a mutant, or why there is none.

        The assertion is about the feature with the largest loss, relative to the loss that the
        feature's bound tolerates (:data:`WATCHED`).
        """
        after = self.measure(mutant)
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
        # Try a tighter bound, half-way between the two intervals.
        original, faulty = (ends[0][0], ends[1][1]) if side == "ge" else (ends[0][1], ends[1][0])
        tighter = Bound(name, "", **{side: round((original + faulty) / 2, 3)})
        if tighter.verdict(ends[0]) != "holds" or tighter.verdict(ends[1]) != "broken":
            return (
                f"no bound detects it with this number of queries ({name} "
                f"{self.before.means[name]:.3f} → {after.means[name]:.3f}); compare with a baseline"
            )
        return f"{tighter.code()}  # tight: the mean is {self.before.means[name]:.3f}"


# Scores -------------------------------------------------------------------------------------------


class Fate(NamedTuple):
    """The result of the assertions on one mutant.

    Attributes:
        kind: Kind of fault.
        share: Share of the queries with the fault, among those that can have it.
        hit: Number of queries with the fault.
        caught_by: Names of the assertions that failed.
        suggestion: If none failed, code of an assertion that would fail, or the reason why there
            is none.
        seed: Random seed of the mutant.
    """

    kind: str
    share: float
    hit: int
    caught_by: tuple[str, ...]
    suggestion: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class MutationScore:
    """The faults that a suite of assertions catches, over several random seeds.

    An assertion that is inconclusive on a mutant does not catch it.

    Attributes:
        fates: The result for every mutant.
        untried: Kinds of fault that no response can have, with reasons.
        fallen: Assertions that fail on the original responses; they are ignored.
        unmeasured: Features without a value for any response, with reasons; they have no bound.
    """

    fates: tuple[Fate, ...]
    untried: Mapping[str, str]
    fallen: tuple[str, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """The share of the kinds of fault that are caught, as a mean over the seeds.

        It is measured on the mutants with the largest share of faulty queries. NaN if no fault was
        tried.
        """
        return self.at(self.shares[0]) if self.fates else math.nan

    def at(self, share: float) -> float:
        """Return the share of the kinds of fault that are caught, as a mean over the seeds.

        Args:
            share: Share of the queries with the fault, one of :attr:`shares`.

        Returns:
            A share from 0 to 1; NaN if no fault was tried.
        """
        scores = self.by_seed(share)
        return sum(scores) / len(scores) if scores else math.nan

    def by_seed(self, share: float) -> tuple[float, ...]:
        """Return, for each random seed, the share of the kinds of fault that are caught.

        ``share`` is the share of the queries with the fault, one of :attr:`shares`.
        """
        caught: dict[int, list[bool]] = {}
        for fate in self.fates:
            if fate.share == share:
                caught.setdefault(fate.seed, []).append(bool(fate.caught_by))
        return tuple(sum(results) / len(results) for results in caught.values())

    def verdict(self, minimum: float) -> BoundVerdict:
        """Compare the score with a minimum.

        Args:
            minimum: The minimum, from 0 to 1.

        Returns:
            ``"holds"`` if the score is at least the minimum for every seed, ``"broken"`` if it is
            below for every seed; otherwise, or if no fault was tried, ``"inconclusive"``.
        """
        scores = self.by_seed(self.shares[0]) if self.fates else ()
        reached = [score >= minimum for score in scores]
        if not reached or (any(reached) and not all(reached)):
            return "inconclusive"
        return "holds" if all(reached) else "broken"

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of queries with a fault, the largest first."""
        return tuple(sorted({fate.share for fate in self.fates}, reverse=True))

    def counted(self, share: float) -> str:
        """Return the number of kinds of fault that are caught, as text.

        The text contains the mean over the random seeds and the range, as in ``17.4 of 19 kinds of
        fault (16 to 18 with 5 seeds)``. ``share`` is the share of the queries with the fault, one
        of :attr:`shares`.
        """
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
                *(("Assertions that would catch the missed faults:", *notes) if notes else ()),
                *(f"Not tried, {kind}: {why}" for kind, why in self.untried.items()),
                *(f"Fails on the original responses: {name}" for name in self.fallen),
                *(f"Not measured, {name}: {why}" for name, why in self.unmeasured.items()),
            ),
            name=0,
        )
        return to_text(table)

    @property
    def missed(self) -> tuple[Fate, ...]:
        """The results of the mutants that no assertion catches."""
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
    seed: int = 0,
    seeds: int = SEEDS,
) -> MutationScore:
    """Measure the share of the kinds of fault that assertions catch.

    The result also suggests assertions for the faults that are missed. A fault is caught if an
    assertion holds for the original responses and fails on the mutant. An inconclusive assertion,
    such as :func:`~mirage.testing.assert_feature` with too few queries, does not catch it.
    Assertions that fail on the original responses are listed in the result and ignored.

    Args:
        assertions: Functions by name, such as calls of the assertions of :mod:`mirage.testing`.
            Each takes a run and raises ``AssertionError`` if the run is faulty. ``FeatureError``,
            which means that no response has a value of a feature, also counts as a failure.
        dataset: The queries.
        run: The responses; the assertions should pass on them.
        kinds: Kinds of fault; all by default.
        seed: The first random seed.
        seeds: Number of consecutive random seeds.

    Raises:
        UnknownNameError: There is no such kind of fault.
        SettingError: ``seeds`` is below 1.
    """

    def failing_assertions(mutant: Run) -> list[str]:
        return [name for name, check in assertions.items() if _fails(check, mutant)]

    return fates_of(failing_assertions, dataset, run, kinds=kinds, seed=seed, seeds=seeds)


def _fails(check: Callable[[Run], object], run: Run) -> bool:
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
    seed: int = 0,
    seeds: int = SEEDS,
) -> MutationScore:
    """Return the mutation score of assertions that a single function runs.

    Args:
        falling: Function that takes a run and returns the names of the assertions that fail on it.
        dataset: The queries.
        run: The responses; no assertion should fail on them.
        kinds: Kinds of fault; all by default.
        seed: The first random seed.
        seeds: Number of consecutive random seeds.

    Raises:
        UnknownNameError: There is no such kind of fault.
        SettingError: ``seeds`` is below 1.
    """
    seeded_mutants, untried = _draw_mutants(dataset, run, kinds, seed, seeds)
    with caching_features():
        already = tuple(falling(run))

        def caught_by(mutant: Run, _: _Effects) -> Iterable[str]:
            return (name for name in falling(mutant) if name not in already)

        fates = _fates(seeded_mutants, _Effects(dataset, run), caught_by)
    return MutationScore(fates, untried, already)


def _draw_mutants(
    dataset: MirageDataset,
    run: Run,
    kinds: Collection[str] | None,
    seed: int,
    seeds: int,
) -> tuple[list[tuple[int, Mutant]], Mapping[str, str]]:
    """Return pairs of a random seed and a mutant, and the untried kinds of fault with reasons."""
    if seeds < 1:
        raise SettingError(f"seeds must be at least 1, got {seeds}")
    by_seed = {
        number: mutants(dataset, run, kinds=kinds, seed=number)
        for number in range(seed, seed + seeds)
    }
    pairs = [(number, mutant) for number, group in by_seed.items() for mutant in group.tried]
    return pairs, by_seed[seed].untried


def _fates(
    seeded_mutants: Iterable[tuple[int, Mutant]],
    effects: _Effects,
    caught_by: Callable[[Run, _Effects], Iterable[str]],
) -> tuple[Fate, ...]:
    """Return the result for each mutant.

    ``seeded_mutants`` are pairs of a random seed and a mutant. ``effects`` has the features of the
    original responses, from which assertions for missed faults are suggested. ``caught_by`` is a
    function that returns the names of the assertions that fail on a run.
    """
    # Faults without randomness give equal mutants for all seeds.
    results: dict[tuple[Response, ...], tuple[tuple[str, ...], str]] = {}
    fates = []
    for seed, mutant in seeded_mutants:
        texts = mutant.run.responses
        if texts not in results:
            with _without_warnings():  # they would seem to be about the user's responses
                caught = tuple(caught_by(mutant.run, effects))
                results[texts] = caught, "" if caught else effects.suggestion(mutant.run)
        fates.append(Fate(mutant.kind, mutant.share, len(mutant.hit), *results[texts], seed))
    return tuple(fates)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Context manager that drops the warnings that features log."""
    logger = logging.getLogger("mirage.features")
    level = logger.level
    logger.setLevel(max(level, logging.ERROR))
    try:
        yield
    finally:
        logger.setLevel(level)


def suggested_bounds(
    dataset: MirageDataset,
    run: Run,
    *,
    kinds: Collection[str] | None = None,
    seed: int = 0,
    seeds: int = SEEDS,
) -> tuple[tuple[Bound, ...], MutationScore]:
    """Return bounds that hold for the responses and detect faults, and their mutation score.

    A bound is suggested for each feature of :data:`WATCHED` that can be computed on the dataset. It
    is the mean over the responses minus the feature's slack, the loss that is tolerated. If lower
    values are better, it is the mean plus the slack. If the end of the mean's confidence interval
    is farther from the mean, this end is the bound. So all bounds hold for the responses. Bounds
    that no fault breaks are omitted.

    Args:
        dataset: The queries.
        run: The responses.
        kinds: Kinds of fault; all by default.
        seed: The first random seed.
        seeds: Number of consecutive random seeds.

    Raises:
        UnknownNameError: There is no such kind of fault.
        SettingError: ``seeds`` is below 1.
    """
    seeded_mutants, untried = _draw_mutants(dataset, run, kinds, seed, seeds)
    with caching_features():
        effects = _Effects(dataset, run)
        bounds = effects.bounds()

        def broken_bounds(mutant: Run, effects: _Effects) -> Iterable[str]:
            after = effects.measure(mutant).intervals
            return (b.feature for b in bounds if b.verdict(after[b.feature]) == "broken")

        fates = _fates(seeded_mutants, effects, broken_bounds)
    useful = {name for fate in fates for name in fate.caught_by}
    useful_bounds = tuple(bound for bound in bounds if bound.feature in useful)
    return useful_bounds, MutationScore(fates, untried, unmeasured=effects.unmeasured)
