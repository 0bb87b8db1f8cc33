"""Faults in a model's responses, with descriptions, affected queries and quotes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from mirage._base.near_names import NearNames
from mirage.dataset import clusters_of
from mirage.features.answer_claims import answer_claims
from mirage.features.base import Answered, NotComputed, answered
from mirage.features.fault_spans import Span, differs_from_source, spans
from mirage.features.registry import feature
from mirage.features.suite import FeatureSuite
from mirage.features.table import FeatureTable
from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.bounds import share_interval
from mirage.statistics.clusters import cluster_codes
from mirage.text.recurring import recurring_sentences
from mirage.text.responses import ParsedResponse

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.models import Query, Run

__all__ = ["Finding", "Kind", "PooledFinding", "findings_of", "pooled", "summary"]

Kind = Literal[
    "wrong fact",
    "invention",
    "refusal",
    "language",
    "missing answer",
    "part of the answer",
    "nothing of the reference",
    "no citation",
    "wrong citation",
    "misplaced citation",
    "denial",
    "unknown fact",
    "copied passages",
    "no response",
    "empty answer",
    "not checked",
]
"""The kind of a fault, or ``"not checked"`` if a response could not be checked for faults."""

QUOTE = 160
"""Maximum length of a quote, in characters."""

READ = 20_000
"""Maximum number of characters of a response that are analyzed; sensible answers are shorter."""

BLOCK = 64
"""Number of responses that are analyzed together.

Each step is faster for several responses than for one. The caches of the parsed texts are large
enough for a block, but not for a long run.
"""

NAMED = 3
"""Maximum number of queries or languages that the text of a finding lists."""

UNCHECKED = (
    "could not be checked for wrong facts, missing answers or wrong citations (the queries need "
    "passages, answers or a reference)"
)
"""Description of a finding of the kind ``not checked``."""


@dataclass(frozen=True)
class Finding(NearNames):
    """One kind of fault in a model's responses.

    Attributes:
        kind: Kind of fault.
        words: Description of the fault, written to follow the model's name in a sentence.
        query_ids: Ids of the affected queries, in the order of the dataset.
        of: Number of queries on which this fault could occur.
        quotes: A quote from each faulty response, by query id; for a failed response, the reason
            why it failed.
        interval: 95 % confidence interval of the share of queries with the fault, among those on
            which it could occur; NaN for responses that failed or were not checked.

    Example:
        >>> print(Finding("no citation", "cites nothing", ("q1", "q4"), of=30))
        cites nothing on 2 of 30 queries (q1, q4)
    """

    kind: Kind
    words: str
    query_ids: tuple[str, ...]
    of: int
    quotes: Mapping[str, str] = field(default_factory=dict, hash=False)
    interval: Interval = field(default=NO_INTERVAL, compare=False)

    @property
    def count(self) -> int:
        """The number of affected queries."""
        return len(self.query_ids)

    def __str__(self) -> str:
        return f"{self.counted} ({_join_first(self.query_ids)})"

    @property
    def counted(self) -> str:
        """The fault with its number of queries, such as ``"cites nothing on 2 of 30 queries"``."""
        return f"{self.words} on {self.count} of {self.of} queries"


@dataclass(frozen=True)
class PooledFinding:
    """One kind of fault in a model's responses in several languages.

    Attributes:
        kind: Kind of fault.
        words: Description of the fault, see :class:`Finding`.
        counts: Number of affected queries by language code, in descending order.
    """

    kind: Kind
    words: str
    counts: Mapping[str, int] = field(hash=False)

    @property
    def count(self) -> int:
        """The number of affected queries in all languages."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        languages = _join_first([f"{code} {count}" for code, count in self.counts.items()])
        return f"{self.words} on {self.count} {self.unit} ({languages})"

    @property
    def unit(self) -> str:
        """The noun to write after :attr:`count`: ``"query"`` or ``"queries"``."""
        return "query" if self.count == 1 else "queries"


def _join_first(names: Sequence[str]) -> str:
    return ", ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])


@dataclass(frozen=True)
class _ParsedItem:
    """A query with its parsed response and its features: the input of the checks for faults."""

    query: Query
    answered: Answered
    values: Mapping[str, float]

    @property
    def parsed(self) -> ParsedResponse:
        """The parsed response."""
        return self.answered.parsed

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The parts of the answer that passages and query do not support."""
        return spans(self.answered)

    @cached_property
    def differs(self) -> bool:
        """Whether a sentence negates a shown passage or has a wrong citation."""
        return differs_from_source(self.answered)


class _Check(NamedTuple):
    """A rule that derives a fault from a feature of a single response.

    Attributes:
        kind: Kind of fault.
        words: Description of the fault.
        feature: Name of the feature.
        faulty: Function that takes a value of the feature and the response, and returns whether the
            response has the fault.
        unless: Kinds of faults that explain this one. If the response has one of them, this fault
            is not reported.
        answerable: Whether the check applies to answerable queries only, or to unanswerable ones
            only; ``None`` for all queries.
    """

    kind: Kind
    words: str
    feature: str
    faulty: Callable[[float, _ParsedItem], bool]
    unless: tuple[Kind, ...] = ()
    answerable: bool | None = None


def _is_zero(value: float, _: _ParsedItem) -> bool:
    return value == 0


def _is_low(value: float, _: _ParsedItem) -> bool:
    return value < 0.5


COPIED = 0.5
"""Minimum share of the passages' text that a response with copied passages repeats.

Faultless simulated responses repeat at most 0.22, and those that append all passages at least 0.94.
"""

FEWEST_PASSAGES = 3
"""Minimum number of passages; an answer from one or two may have to repeat half of the text."""


def _is_copied(value: float, item: _ParsedItem) -> bool:
    return value >= COPIED and len(item.answered.shown) >= FEWEST_PASSAGES


_SPANS: Mapping[Kind, Set[str]] = {
    "misplaced citation": {"citation"},
    "denial": {"negation"},
    "unknown fact": {"number", "date", "name"},
}
"""The types of spans (:func:`mirage.features.spans`) that mark a kind of fault in the text."""


# A response has spans of these kinds only if `differs_from_source` returns True.
_BY_SENTENCE: Set[Kind] = {"misplaced citation", "denial"}


def _fault_spans(kind: Kind, item: _ParsedItem) -> list[Span]:
    if kind in _BY_SENTENCE and not item.differs:
        return []
    return [span for span in item.spans if span.type in _SPANS[kind]]


# If one of these faults occurs, a missing answer is only its consequence.
_CAUSES: tuple[Kind, ...] = ("wrong fact", "refusal", "language", "empty answer")

_RECALL = "fact_recall"

CHECKS = (
    _Check("wrong fact", "states a wrong fact", "wrong_answer", lambda value, _: value > 0),
    _Check(
        "invention",
        "answers although no passage does",
        "abstention",
        lambda value, item: value < 0.5 and bool(item.parsed.answer_text.strip()),
        answerable=False,
    ),
    _Check(
        "empty answer",
        "gives an empty answer",
        "target_language",
        lambda _, item: not item.parsed.answer_text.strip(),
    ),
    _Check(
        "refusal",
        "does not answer although a passage does",
        "abstention",
        _is_low,
        ("empty answer",),
        answerable=True,
    ),
    _Check(
        "language", "answers in another language", "target_language", _is_low, ("empty answer",)
    ),
    _Check("missing answer", "leaves out the answer", "answer_match", _is_zero, _CAUSES),
    _Check(
        "part of the answer",
        "gives only part of the answer",
        "answer_match",
        lambda value, _: 0 < value < 1,
        _CAUSES,
    ),
    _Check(
        "nothing of the reference",
        "states no fact of the reference",
        _RECALL,
        lambda value, item: value == 0 and not item.query.answers,
        _CAUSES,
    ),
    _Check(
        "no citation",
        "cites nothing",
        "citation_recall@10",
        lambda value, item: value == 0 and not item.parsed.citations,
        ("refusal", "empty answer"),
    ),
    _Check(
        "wrong citation",
        "cites only passages that do not answer",
        "citation_recall@10",
        lambda value, item: value == 0 and bool(item.parsed.citations),
        ("refusal",),
    ),
    _Check(
        "misplaced citation",
        "cites the wrong passage for a statement, or one that was not shown",
        "unknown_facts",
        lambda _, item: bool(_fault_spans("misplaced citation", item)),
        ("wrong citation",),
    ),
    _Check(
        "denial",
        "says the opposite of a passage",
        "unknown_facts",
        lambda _, item: bool(_fault_spans("denial", item)),
    ),
    _Check(
        "unknown fact",
        "states a number, date or name that no shown passage holds",
        "unknown_facts",
        lambda value, _: value > 0,
        ("language",),
    ),
    _Check(
        "copied passages",
        "copies at least half of the text of the passages",
        "passage_coverage",
        _is_copied,
    ),
)
"""All checks, the most serious fault first."""


def findings_of(
    dataset: MirageDataset, run: Run, table: FeatureTable | None = None
) -> tuple[Finding, ...]:
    """Return the faults in the responses of one model, the most serious first.

    A response has a fault if one of its features has a bad value, such as 1 for ``wrong_answer``. A
    fault that another one explains is omitted; for example, a response that does not answer cites
    nothing either. Faults that no feature measures are not detected.

    Args:
        dataset: The queries.
        run: The responses.
        table: Features of the responses. Features that the checks need and that are not in the
            table are computed, without a model or network. By default all are computed.

    Returns:
        One finding per kind of fault. The last finding is of the kind ``not checked`` if only the
        language of some responses could be checked, because their queries have no passages, answers
        or reference. The result is empty if all responses were checked and have no faults.

    Raises:
        FeatureError: The run is in another language, or answers a query that is not in the
            dataset.

    Example:
        >>> from mirage import MirageDataset, Query, respond
        >>> queries = MirageDataset([Query(id="q1", language="en", text="Who?", answers=[["Ada"]])])
        >>> run = respond(lambda query: "I like tea.", queries, progress=False)
        >>> [finding.kind for finding in findings_of(queries, run)]
        ['missing answer']
    """
    run = _shorten_responses(run)
    items: list[_ParsedItem] = []
    quotes: dict[Kind, dict[str, str]] = {check.kind: {} for check in CHECKS}
    for block in _iterate_blocks(dataset, run, table):
        items += block
        faults = [(item, check) for item in block for check in _faults(item)]
        for item, check in faults:
            quotes[check.kind][item.query.id] = _quote(check, item)
    findings = [_finding(check, items, quotes[check.kind]) for check in CHECKS]
    findings += [_failure_finding(dataset, run), _unchecked_finding(items)]
    return tuple(finding for finding in findings if finding is not None)


def _shorten_responses(run: Run) -> Run:
    """Return a run in which very long responses are cut, because parsing them takes too long."""
    if all(len(response.text or "") <= READ for response in run):
        return run
    responses = (
        response
        if response.text is None
        else response.model_copy(update={"text": response.text[:READ]})
        for response in run
    )
    return run.model_copy(update={"responses": tuple(responses)})


def _iterate_blocks(
    dataset: MirageDataset, run: Run, table: FeatureTable | None
) -> Iterator[list[_ParsedItem]]:
    """Yield blocks of the queries that have a response, in the order of the dataset."""
    names = _features_for(dataset)
    in_blocks = set()
    # This feature needs only a query and a response, unless it is the mean over several repeats.
    if len(run.repeats) == 1:
        in_blocks = {_RECALL} & {*names} - {*([] if table is None else table.features)}
    rows = _values(dataset, run, table, [name for name in names if name not in in_blocks])
    recurring = recurring_sentences(response.text for response in run if response.text)
    queries = [
        query
        for query in dataset
        if (response := run.get(query.id)) is not None and response.text is not None
    ]
    for start in range(0, len(queries), BLOCK):
        block = queries[start : start + BLOCK]
        parsed = [answered(query, run[query.id], recurring=recurring) for query in block]
        for name in in_blocks:
            _add_values(rows, name, parsed)
        yield [
            _ParsedItem(query, item, rows.get(query.id, {}))
            for query, item in zip(block, parsed, strict=True)
        ]


def _add_values(rows: dict[str, dict[str, float]], name: str, block: Sequence[Answered]) -> None:
    """Add the values of the feature ``name`` to the rows of the answered queries."""
    for item, value in zip(block, feature(name).compute(block), strict=True):
        if not isinstance(value, NotComputed):
            rows.setdefault(item.query.id, {})[name] = value


def _values(
    dataset: MirageDataset, run: Run, table: FeatureTable | None, names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return the values of the features ``names``, by query id and feature name."""
    missing = [name for name in names if table is None or name not in table.features]
    tables = [] if table is None else [table]
    if missing:
        tables.append(FeatureSuite(missing).score(dataset, run, progress=False))
    values: dict[str, dict[str, float]] = {}
    for part in tables:
        for name in names:
            if name in part.features:
                for id_, value in zip(part.query_ids, part[name].tolist(), strict=True):
                    values.setdefault(id_, {})[name] = value
    return values


def _features_for(dataset: MirageDataset) -> list[str]:
    """Return the names of the features that can show a fault in responses to these queries."""
    names = dict.fromkeys(check.feature for check in CHECKS)
    # This feature is slow, and shows no fault if there are short answers or nothing to answer.
    if all(query.answers or query.answerable is False for query in dataset):
        del names[_RECALL]
    return list(names)


def _applies(check: _Check, item: _ParsedItem) -> bool:
    is_in_scope = check.answerable is None or (item.query.answerable is False) != check.answerable
    return is_in_scope and not math.isnan(item.values.get(check.feature, math.nan))


def _faults(item: _ParsedItem) -> list[_Check]:
    """Return the checks that a response fails, except those that another fault explains."""
    kinds = {
        check.kind
        for check in CHECKS
        if _applies(check, item) and check.faulty(item.values[check.feature], item)
    }
    return [check for check in CHECKS if check.kind in kinds and kinds.isdisjoint(check.unless)]


def _finding(
    check: _Check, items: Sequence[_ParsedItem], quotes: Mapping[str, str]
) -> Finding | None:
    if not quotes:
        return None
    applicable = [item.query for item in items if _applies(check, item)]
    ids = [query.id for query in applicable]
    codes = cluster_codes(ids, clusters_of(applicable))
    interval = share_interval(np.isin(ids, list(quotes)), codes)
    return Finding(check.kind, check.words, tuple(quotes), len(ids), quotes, interval)


def _failure_finding(dataset: MirageDataset, run: Run) -> Finding | None:
    """Return a finding that lists the queries without a response, or ``None`` if there are none."""
    failed = {response.query_id: response.error or "" for response in run.failed}
    ids = [query.id for query in dataset if query.id in failed or run.get(query.id) is None]
    if not ids:
        return None
    # A query that is missing from the run has no reason.
    reasons = {id_: _cut(failed.get(id_) or "no response") for id_ in ids}
    return Finding("no response", "gives no response", tuple(ids), len(dataset), reasons)


def _unchecked_finding(items: Sequence[_ParsedItem]) -> Finding | None:
    """Return a finding on responses to which only the language check applies, or ``None``."""
    checks = [check for check in CHECKS if check.feature != "target_language"]
    ids = tuple(
        item.query.id for item in items if not any(_applies(check, item) for check in checks)
    )
    return Finding("not checked", UNCHECKED, ids, len(items)) if ids else None


# Quotes -------------------------------------------------------------------------------------------


def _quote(check: _Check, item: _ParsedItem) -> str:
    """Return a quote from the response that shows the fault.

    It consists of the unsupported spans, or of the sentence with a wrong fact. For other kinds of
    faults it is the first sentence.
    """
    if check.kind in _SPANS:
        texts = dict.fromkeys(
            " ".join(span.text.split()) for span in _fault_spans(check.kind, item)
        )
        return _cut(" … ".join(texts))
    sentences = [sentence.text for sentence in item.parsed.sentences] or [item.parsed.answer_text]
    if check.kind == "wrong fact":
        # The sort is stable, so the first sentence with a wrong fact comes first.
        wrong = _wrong_words(item)
        sentences.sort(key=lambda text: not any(words in text for words in wrong))
    return _cut(sentences[0])


def _wrong_words(item: _ParsedItem) -> list[str]:
    """Return the words of the answer that assert a wrong answer.

    If there are none, return all words that mention a right or wrong answer, such as a denied right
    answer.
    """
    claims = answer_claims(item.answered)
    text = item.parsed.answer_text
    mentions = claims.asserted_wrong() or claims.mentions
    return [text[mention.start : mention.end] for mention in mentions]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUOTE else line[: QUOTE - 1].rstrip() + "…"


# Several languages --------------------------------------------------------------------------------


def pooled(findings: Mapping[str, Sequence[Finding]]) -> tuple[PooledFinding, ...]:
    """Combine one model's findings in several languages, the most serious first.

    Args:
        findings: Findings by language code.

    Returns:
        One finding per kind of fault.
    """
    return tuple(_pool_by_kind(findings))


def _pool_by_kind(findings: Mapping[str, Sequence[Finding]]) -> Iterator[PooledFinding]:
    words = {finding.kind: finding.words for group in findings.values() for finding in group}
    order = [*(check.kind for check in CHECKS), "no response", "not checked"]
    for kind in sorted(words, key=order.index):
        same_kind = [
            (code, finding)
            for code, group in findings.items()
            for finding in group
            if finding.kind == kind
        ]
        same_kind.sort(key=lambda row: -row[1].count)
        counts = {code: finding.count for code, finding in same_kind}
        yield PooledFinding(kind, words[kind], counts)


def summary(findings: Iterable[Finding | PooledFinding]) -> str:
    """Return findings as one line of text; empty if there are no findings.

    Findings of the kind ``no response`` are left out.

    Args:
        findings: Findings of one model.
    """
    return "; ".join(str(finding) for finding in findings if finding.kind != "no response")
