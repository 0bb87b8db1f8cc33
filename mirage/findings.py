"""What is wrong with a model's responses, in words: which fault, on which queries, with quotes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from mirage.features import (
    FeatureSuite,
    FeatureTable,
    Span,
    answered,
    spans,
)
from mirage.features.answer_claims import answer_claims
from mirage.features.base import Answered
from mirage.text import ParsedResponse

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
    "no response",
]
"""What a finding is about."""

QUOTE = 160
"""Characters of a quote, at most."""

READ = 20_000
"""Characters of a response that are read, which is more than any that answers a question has."""

NAMED = 3
"""Queries or languages that a finding names in a line of text, at most."""


@dataclass(frozen=True)
class Finding:
    """One fault of a model's responses.

    Attributes:
        kind: what is wrong.
        words: the same as the end of a sentence that begins with the model's name.
        query_ids: where, in the order of the dataset.
        of: on how many queries it could have been.
        quotes: from the responses, by query id; of a failure, its reason.
    """

    kind: Kind
    words: str
    query_ids: tuple[str, ...]
    of: int
    quotes: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def count(self) -> int:
        """On how many queries it is."""
        return len(self.query_ids)

    def __str__(self) -> str:
        return f"{self.counted} ({_listed(self.query_ids)})"

    @property
    def counted(self) -> str:
        """The words, and on how many queries of how many."""
        return f"{self.words} on {self.count} of {self.of} queries"


@dataclass(frozen=True)
class PooledFinding:
    """One fault of a model's responses in several languages.

    Attributes:
        kind: what is wrong.
        words: the same in words.
        counts: on how many queries, by language code, most first.
    """

    kind: Kind
    words: str
    counts: Mapping[str, int] = field(hash=False)

    @property
    def count(self) -> int:
        """On how many queries of all languages it is."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        most = _listed([f"{code} {count}" for code, count in self.counts.items()])
        return f"{self.words} on {self.count} {self.unit} ({most})"

    @property
    def unit(self) -> str:
        """What is counted."""
        return "query" if self.count == 1 else "queries"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])


class _Read(NamedTuple):
    """A response as checks read it: parsed, beside its query, and the places that are wrong."""

    query: Query
    parsed: ParsedResponse
    spans: tuple[Span, ...]
    answered: Answered


class _Check(NamedTuple):
    """How a finding follows from a feature of a single response.

    ``unless`` are findings that explain this one; ``answerable`` says on which queries alone.
    """

    kind: Kind
    words: str
    feature: str
    faulty: Callable[[float, _Read], bool]
    unless: tuple[Kind, ...] = ()
    answerable: bool | None = None


def _is_zero(value: float, _: _Read) -> bool:
    return value == 0


def _is_low(value: float, _: _Read) -> bool:
    return value < 0.5


_SPANS: Mapping[Kind, Set[str]] = {
    "misplaced citation": {"citation"},
    "denial": {"negation"},
    "unknown fact": {"number", "date", "name"},
}
"""Findings that spans are the places of."""


def _marked(kind: Kind, item: _Read) -> list[Span]:
    return [span for span in item.spans if span.type in _SPANS[kind]]


_ELSEWHERE: tuple[Kind, ...] = ("wrong fact", "refusal", "language")

CHECKS = (
    _Check("wrong fact", "states a wrong fact", "wrong_answer", lambda value, _: value > 0),
    _Check(
        "invention",
        "answers where no passage answers",
        "abstention",
        lambda value, item: value < 0.5 and bool(item.parsed.answer_text.strip()),
        answerable=False,
    ),
    _Check(
        "refusal",
        "does not answer where a passage does",
        "abstention",
        _is_low,
        answerable=True,
    ),
    _Check("language", "answers in another language", "target_language", _is_low),
    _Check("missing answer", "leaves out the answer", "answer_match", _is_zero, _ELSEWHERE),
    _Check(
        "part of the answer",
        "gives only part of the answer",
        "answer_match",
        lambda value, _: 0 < value < 1,
        _ELSEWHERE,
    ),
    _Check(
        "nothing of the reference",
        "tells nothing of what the reference tells",
        "fact_recall",
        lambda value, item: value == 0 and not item.query.answers,
        _ELSEWHERE,
    ),
    _Check(
        "no citation",
        "cites nothing",
        "citation_recall@10",
        lambda value, item: value == 0 and not item.parsed.citations,
        ("refusal",),
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
        "cites a passage for what another one says, or none that was shown",
        "unknown_facts",
        lambda _, item: bool(_marked("misplaced citation", item)),
        ("wrong citation",),
    ),
    _Check(
        "denial",
        "says the opposite of a passage",
        "unknown_facts",
        lambda _, item: bool(_marked("denial", item)),
    ),
    _Check(
        "unknown fact",
        "states a number, date or name that no shown passage holds",
        "unknown_facts",
        lambda value, _: value > 0,
        ("language",),
    ),
)
"""What is looked for, the gravest first."""


def findings_of(
    dataset: MirageDataset, run: Run, table: FeatureTable | None = None
) -> tuple[Finding, ...]:
    """What is wrong with the responses of one model, the gravest first; empty where nothing is.

    A finding says that a feature of a single response has a value that is a fault: that
    ``wrong_answer`` is 1, say. One that another explains is left out: a response that does not
    answer cites nothing either. What no feature sees is not found.

    Args:
        dataset: the queries.
        run: the responses.
        table: their features; those that findings follow from and that it lacks are computed,
            with no model and no network.

    Raises:
        FeatureError: the run is in another language, or answers a query that is not in the
            dataset.
    """
    run = _shortened(run)
    values = _values(dataset, run, table)
    items = {query.id: item for query in dataset if (item := _read(query, run)) is not None}
    faults = {id_: _faults(items[id_], row) for id_, row in values.items() if id_ in items}
    found = [_finding(check, items, values, faults) for check in CHECKS]
    return tuple(one for one in (*found, _silence(dataset, run)) if one is not None)


def _shortened(run: Run) -> Run:
    if all(len(response.text or "") <= READ for response in run):
        return run
    responses = (
        one if one.text is None else one.model_copy(update={"text": one.text[:READ]}) for one in run
    )
    return run.model_copy(update={"responses": tuple(responses)})


def _read(query: Query, run: Run) -> _Read | None:
    response = run.get(query.id)
    if response is None or response.text is None:
        return None
    item = answered(query, response)
    return _Read(query, item.parsed, spans(item), item)


def _values(
    dataset: MirageDataset, run: Run, table: FeatureTable | None
) -> Mapping[str, Mapping[str, float]]:
    """By query, the features that checks are about."""
    wanted = list(dict.fromkeys(check.feature for check in CHECKS))
    missing = [name for name in wanted if table is None or name not in table.features]
    tables = [] if table is None else [table]
    if missing:
        tables.append(FeatureSuite(missing).score(dataset, run, progress=False))
    values: dict[str, dict[str, float]] = {}
    for part in tables:
        for name in wanted:
            if name in part.features:
                for id_, value in zip(part.query_ids, part[name].tolist(), strict=True):
                    values.setdefault(id_, {})[name] = value
    return values


def _applies(check: _Check, item: _Read, row: Mapping[str, float]) -> bool:
    is_kind = check.answerable is None or (item.query.answerable is False) != check.answerable
    return is_kind and not math.isnan(row.get(check.feature, math.nan))


def _faults(item: _Read, row: Mapping[str, float]) -> set[Kind]:
    there = {
        check.kind
        for check in CHECKS
        if _applies(check, item, row) and check.faulty(row[check.feature], item)
    }
    return {
        check.kind for check in CHECKS if check.kind in there and there.isdisjoint(check.unless)
    }


def _finding(
    check: _Check,
    items: Mapping[str, _Read],
    values: Mapping[str, Mapping[str, float]],
    faults: Mapping[str, set[Kind]],
) -> Finding | None:
    ids = tuple(id_ for id_ in items if check.kind in faults.get(id_, ()))
    if not ids:
        return None
    of = sum(_applies(check, item, values[id_]) for id_, item in items.items() if id_ in values)
    return Finding(
        check.kind, check.words, ids, of, {id_: _quote(check, items[id_]) for id_ in ids}
    )


def _silence(dataset: MirageDataset, run: Run) -> Finding | None:
    failed = {response.query_id: response.error or "" for response in run.failed}
    ids = [query.id for query in dataset if query.id in failed or run.get(query.id) is None]
    if not ids:
        return None
    reasons = {id_: _cut(failed.get(id_) or "no response") for id_ in ids}
    return Finding("no response", "gives no response", tuple(ids), len(dataset), reasons)


# Quotes -------------------------------------------------------------------------------------------


def _quote(check: _Check, item: _Read) -> str:
    """The places that are wrong, or the sentence, or else the first one of the answer."""
    if check.kind in _SPANS:
        texts = dict.fromkeys(" ".join(span.text.split()) for span in _marked(check.kind, item))
        return _cut(" … ".join(texts))
    sentences = [sentence.text for sentence in item.parsed.sentences] or [item.parsed.answer_text]
    if check.kind == "wrong fact":
        wrong = _wrong_words(item)
        sentences.sort(key=lambda text: not any(words in text for words in wrong))
    return _cut(sentences[0])


def _wrong_words(item: _Read) -> list[str]:
    """The words with which the answer asserts a wrong answer, or denies the right one."""
    claims = answer_claims(item.answered)
    text = item.parsed.answer_text
    mentions = claims.asserted_wrong() or claims.mentions
    return [text[mention.start : mention.end] for mention in mentions]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUOTE else line[: QUOTE - 1].rstrip() + "…"


# Several ------------------------------------------------------------------------------------------


def pooled(findings: Mapping[str, Sequence[Finding]]) -> tuple[PooledFinding, ...]:
    """One model's findings in several languages as one each, the gravest first.

    Args:
        findings: by language code.
    """
    return tuple(_pooled(findings))


def _pooled(findings: Mapping[str, Sequence[Finding]]) -> Iterator[PooledFinding]:
    words = {one.kind: one.words for some in findings.values() for one in some}
    order = [*(check.kind for check in CHECKS), "no response"]
    for kind in sorted(words, key=order.index):
        ours = [(code, one) for code, some in findings.items() for one in some if one.kind == kind]
        ours.sort(key=lambda row: -row[1].count)
        counts = {code: one.count for code, one in ours}
        yield PooledFinding(kind, words[kind], counts)


def summary(findings: Iterable[Finding | PooledFinding]) -> str:
    """Findings in a line, without failures; empty where nothing was found."""
    return "; ".join(str(one) for one in findings if one.kind != "no response")
