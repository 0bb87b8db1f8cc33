"""Which responses a report shows, and how much of them: best, worst and failed, by model."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.quoting import script_json
from mirage.arena import Judgments
from mirage.dataset import MirageDataset
from mirage.features import FeatureTable, Span, answered, spans
from mirage.languages import LANGUAGES, Language
from mirage.models import Query, Response, Run
from mirage.passages import relevant_matches
from mirage.report._elements import cut, label, rounded
from mirage.retrieval import RetrievalRun
from mirage.text import parse

if TYPE_CHECKING:
    from mirage.ranking import Evidence, Ranking
    from mirage.surrogate.training import TrainingData

__all__ = [
    "SAMPLINGS",
    "Excerpt",
    "Sample",
    "Sampling",
    "blocks",
    "direction",
    "marked",
    "plain_query",
    "plain_response",
    "response_scores",
    "sample",
    "segments",
    "whole_query",
]

KINDS = ("best", "worst", "failed", "found")


class Sampling(NamedTuple):
    """How much is shown.

    Attributes:
        most: best, worst and failed responses of each kind, by model and language.
        found: others that findings are about.
        response: characters of a response or a reference.
        passage: characters of a passage.
        all_passages: whether passages are shown that no shown response cites and that are not
            known to be relevant.
    """

    most: int
    found: int
    response: int
    passage: int
    all_passages: bool = True


SAMPLINGS = (
    Sampling(5, 60, 6000, 2000),
    Sampling(3, 12, 3000, 1000),
    Sampling(3, 6, 2000, 600, all_passages=False),
    Sampling(2, 2, 1500, 400, all_passages=False),
    Sampling(1, 0, 900, 250, all_passages=False),
)
"""From all that anyone will read to what still fits where models and languages are many."""

MOST_BYTES = 3_600_000
"""What responses and passages may take of the file."""


class Excerpt(NamedTuple):
    """One response of one model that is shown.

    ``query`` is as the model got it; ``whole`` has the passages too that responses of all models
    bring, such as those that a pipeline retrieved.
    """

    code: str
    model: str
    kind: str
    query: Query
    whole: Query
    response: Response


@dataclass(frozen=True)
class Sample:
    """The responses that a report shows.

    Attributes:
        pages: by language and model, the responses of each kind.
        queries: by language, the queries to which these are responses, each with its place ``n``
            in the dataset.
        notes: what is not shown, a sentence each.
    """

    pages: Mapping[str, Mapping[str, Mapping[str, list[dict[str, Any]]]]]
    queries: Mapping[str, Mapping[str, dict[str, Any]]]
    notes: tuple[str, ...]

    def places(self, code: str, model: str) -> dict[str, int]:
        """The places of the queries to which a response of this model is shown, by id."""
        kinds = self.pages.get(code, {}).get(model, {})
        ids = [row["query"] for rows in kinds.values() for row in rows]
        return {id_: self.queries[code][id_]["n"] for id_ in ids}


def sample(
    rankings: Mapping[str, Ranking],
    retrieval: Mapping[str, Mapping[str, RetrievalRun]] = MappingProxyType({}),
) -> Sample:
    """The most responses that fit; the same ones each time.

    ``retrieval`` has the runs, by language and model, whose scores stand beside the passages.
    """
    chosen = {
        code: {
            model: _Chosen.of(evidence, evidence.dataset, model, _found(ranking, model))
            for model in evidence.runs
        }
        for code, ranking in rankings.items()
        if (evidence := ranking.evidence) is not None and evidence.dataset is not None
    }
    for sampling in SAMPLINGS:
        excerpts = list(_excerpts(chosen, sampling))
        fitting = _fitting(excerpts, sampling)
        if len(fitting) == len(excerpts):
            break
    return Sample(
        _pages(fitting, sampling, rankings, retrieval),
        _queries(fitting, sampling, chosen),
        tuple(_notes(sampling, chosen, len(excerpts) - len(fitting))),
    )


# Order --------------------------------------------------------------------------------------------


def response_scores(table: FeatureTable, data: TrainingData) -> NDArray[np.float64]:
    """How good each response looks by its features: ``(queries,)``, NaN where it has none.

    A feature counts by how many standard deviations it lies above the mean of all responses that
    the surrogate learnt from, at most 3, times the correlation of its mean with the logits of
    those models. The score is the mean over the features that the response has, weighted by the
    size of the correlation. It orders the responses of one model; it is no logit.
    """
    values = table.columns(data.features).values
    everyone = data.values.reshape(-1, len(data.features))
    spread = np.nanstd(everyone, axis=0)
    above = (values - np.nanmean(everyone, axis=0)) / np.where(spread > 0, spread, np.inf)
    weights = _correlations(data.mean_X, data.mean_y)
    there = ~np.isnan(above) * np.abs(weights)
    total = np.nansum(np.clip(above, -3, 3) * weights, axis=1)
    size = there.sum(axis=1)
    return np.asarray(np.divide(total, size, out=np.full(len(total), np.nan), where=size > 0))


def won_shares(
    judgments: Judgments | None, model: str, query_ids: Sequence[str]
) -> NDArray[np.float64]:
    """What share of its judgments a model won on each query, a tie being half: ``(queries,)``.

    NaN where it was not judged.
    """
    if judgments is None or model not in judgments.models:
        return np.full(len(query_ids), np.nan)
    code = judgments.models.index(model)
    own = (judgments.a == code) | (judgments.b == code)
    won = np.where(judgments.a == code, judgments.score, 1 - judgments.score)[own]
    size = len(judgments.query_ids)
    total = np.bincount(judgments.query[own], weights=won, minlength=size)
    count = np.bincount(judgments.query[own], minlength=size)
    shares = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
    by_query = dict(zip(judgments.query_ids, shares.tolist(), strict=True))
    return np.array([by_query.get(id_, np.nan) for id_ in query_ids])


def _correlations(X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's correlation of each column with y; 0 for a constant column."""
    columns, target = X - X.mean(axis=0), y - y.mean()
    size = np.linalg.norm(columns, axis=0) * np.linalg.norm(target)
    return np.asarray(np.divide(target @ columns, size, out=np.zeros(len(size)), where=size > 0))


@dataclass(frozen=True)
class _Chosen:
    """The responses of one model in order, best first, the failures, and those with findings.

    In order of their features, or else of the share of judgments that each won.
    """

    run: Run
    queries: Mapping[str, Query]
    whole: Mapping[str, Query]
    ordered: tuple[str, ...]
    found: tuple[str, ...]

    @classmethod
    def of(
        cls, evidence: Evidence, dataset: MirageDataset, model: str, found: tuple[str, ...]
    ) -> _Chosen:
        if evidence.ranker is not None and model in evidence.tables:
            table = evidence.tables[model]
            query_ids = table.query_ids
            scores = response_scores(table, evidence.ranker.data[table.language])
        else:
            run = evidence.runs[model]
            query_ids = tuple(id_ for id_ in dataset.query_ids if run.get(id_) is not None)
            scores = won_shares(evidence.judgments, model, query_ids)
        order = [i for i in np.argsort(-scores, kind="stable") if not np.isnan(scores[i])]
        return cls(
            evidence.runs[model],
            {query.id: query for query in dataset},
            {query.id: whole_query(query, evidence.runs.values()) for query in dataset},
            tuple(query_ids[i] for i in order),
            found,
        )

    def by_kind(self, sampling: Sampling) -> dict[str, list[tuple[Query, Response]]]:
        """The best, the worst (worst first), the failed, and others; none is of two kinds."""
        best = min(sampling.most, (len(self.ordered) + 1) // 2)
        worst = min(sampling.most, len(self.ordered) - best)
        ids: dict[str, Sequence[str]] = {
            "best": self.ordered[:best],
            "worst": self.ordered[::-1][:worst],
            "failed": [response.query_id for response in self.run.failed][: sampling.most],
        }
        shown = set(chain.from_iterable(ids.values()))
        ids["found"] = [id_ for id_ in self.found if id_ not in shown][: sampling.found]
        return {
            kind: [(self.queries[id_], self.run[id_]) for id_ in some if id_ in self.queries]
            for kind, some in ids.items()
        }


def whole_query(query: Query, runs: Iterable[Run]) -> Query:
    """A query with its own passages, and behind them those that responses to it bring."""
    passages = {passage.id: passage for passage in query.passages}
    for run in runs:
        response = run.get(query.id)
        for passage in response.passages if response is not None else ():
            passages.setdefault(passage.id, passage)
    return query.model_copy(update={"passages": tuple(passages.values())})


def _found(ranking: Ranking, model: str) -> tuple[str, ...]:
    """The queries that findings name, the first of each finding before the second of any."""
    assert ranking.evidence is not None  # what is shown comes from it
    run = ranking.evidence.runs[model]
    rounds = zip_longest(*(finding.query_ids for finding in ranking.findings.get(model, ())))
    named = dict.fromkeys(id_ for some in rounds for id_ in some if id_ is not None)
    return tuple(id_ for id_ in named if run.get(id_) is not None)


def _excerpts(chosen: Mapping[str, Mapping[str, _Chosen]], sampling: Sampling) -> Iterator[Excerpt]:
    for code, models in chosen.items():
        for model, order in models.items():
            for kind, some in order.by_kind(sampling).items():
                for query, response in some:
                    yield Excerpt(code, model, kind, query, order.whole[query.id], response)


# Size ---------------------------------------------------------------------------------------------


def _fitting(excerpts: Sequence[Excerpt], sampling: Sampling) -> list[Excerpt]:
    """As many of these as fit; a query and its passages count once."""
    left = MOST_BYTES
    counted: set[tuple[str, ...]] = set()
    fitting = []
    for item in excerpts:
        left -= _size(item.response.text or item.response.error or "", sampling.response) + 300
        for key, text, most in _shared(item, sampling):
            if key not in counted:
                counted.add(key)
                left -= _size(text, most) + 60
        if left < 0:
            break
        fitting.append(item)
    return fitting


def _shared(item: Excerpt, sampling: Sampling) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """The texts that responses to one query share, each with its key and the longest it may be."""
    query = item.query
    yield (item.code, query.id), query.text + (query.reference or ""), 2 * sampling.response
    with_text = _with_text(item, sampling)
    for passage in item.whole.passages:
        if passage.id in with_text:
            yield (item.code, query.id, passage.id), passage.title + passage.text, sampling.passage


def _size(text: str, most: int) -> int:
    return len(script_json(text[:most]).encode())


def _with_text(item: Excerpt, sampling: Sampling) -> set[str]:
    if sampling.all_passages:
        return set(item.query.passage_ids) | set(item.query.shown_to(item.response))
    text = (item.response.text or "")[: sampling.response]
    return {
        *item.query.relevant,
        *relevant_matches(item.query, item.response),
        *parse(text, item.code, item.query.shown_to(item.response)).citations,
    }


# What the page's script reads ---------------------------------------------------------------------


def _pages(
    excerpts: Sequence[Excerpt],
    sampling: Sampling,
    rankings: Mapping[str, Ranking],
    retrieval: Mapping[str, Mapping[str, RetrievalRun]],
) -> dict[str, dict[str, dict[str, list[dict[str, Any]]]]]:
    pages: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = {}
    for item in excerpts:
        evidence = rankings[item.code].evidence
        assert evidence is not None  # what is shown comes from it
        kinds = pages.setdefault(item.code, {}).setdefault(item.model, {})
        row = plain_response(item, sampling)
        ours = rankings[item.code].findings.get(item.model, ())
        if faults := [one.words for one in ours if item.query.id in one.query_ids]:
            row["faults"] = faults
        if item.model in evidence.tables:
            row |= _plain_features(evidence.tables[item.model], item)
        run = retrieval.get(item.code, {}).get(item.model)
        if run is not None:
            row |= _plain_scores(run, item)
        kinds.setdefault(item.kind, []).append(row)
    return pages


def plain_response(item: Excerpt, sampling: Sampling, *, faults: bool = True) -> dict[str, Any]:
    """A response as the page's script reads it; places that are wrong are marked, or not."""
    row = {"query": item.query.id, **_plain_shown(item)}
    if item.response.text is None:
        row["error"], row["cut"] = cut(item.response.error or "", sampling.response)
        return row
    text, row["cut"] = cut(item.response.text, sampling.response)
    order = item.query.shown_to(item.response)
    answer, wrong = _spans(item, text) if faults else ("", ())
    row["blocks"] = [
        {
            "kind": block.kind,
            "dir": direction(block.text, item.code),
            "text": [
                _plain_piece(piece, type_, order)
                for piece, type_ in marked(
                    segments(block.text, item.code, order),
                    _within(block, answer, wrong),
                )
            ],
        }
        for block in blocks(text, item.code, order)
    ]
    return row


def _plain_shown(item: Excerpt) -> dict[str, Any]:
    """Return which passages a response was made from, and at which places the relevant ones are.

    Passages are matched as the features match them, because systems bring their own ids.
    """
    row: dict[str, Any] = {}
    order = item.query.shown_to(item.response)
    if item.response.shown is not None or len(item.whole.passages) > len(order):
        places = {id_: place for place, id_ in enumerate(item.whole.passage_ids)}
        row["shown"] = [places.get(id_, label(id_)) for id_ in order]
    matches = relevant_matches(item.query, item.response)
    if relevant := [place for place, id_ in enumerate(order) if id_ in matches]:
        row["relevant"] = relevant
    return row


def _spans(item: Excerpt, text: str) -> tuple[str, tuple[Span, ...]]:
    """The answer in what is shown of a response, and the places of it that are wrong."""
    read = answered(item.query, item.response.model_copy(update={"text": text}))
    return read.parsed.answer, spans(read)


def _within(block: Block, answer: str, faults: Sequence[Span]) -> list[tuple[int, int, str]]:
    """The places in a block, where the answer stands in it in one piece."""
    at = block.text.find(answer) if block.kind in ("answer", "text") and answer else -1
    return [] if at < 0 else [(at + span.start, at + span.end, span.type) for span in faults]


def _plain_piece(piece: str | Cited, type_: str, order: Sequence[str]) -> str | list[Any]:
    if isinstance(piece, str):
        return [piece, None, type_] if type_ else piece
    places = [order.index(id_) for id_ in piece.ids]
    return [piece.text, places, type_] if type_ else [piece.text, places]


def _plain_features(table: FeatureTable, item: Excerpt) -> dict[str, Any]:
    """The values in the order of the table's features, and why there is none where that is so."""
    if item.kind == "failed" or item.query.id not in table.query_ids:
        return {}
    row = table.values[table.query_ids.index(item.query.id)]
    missing = {
        str(place): cut(table.reasons.get((item.query.id, name), "no reason given"), 200)[0]
        for place, name in enumerate(table.features)
        if np.isnan(row[place])
    }
    return {"features": list(map(rounded, row)), **({"missing": missing} if missing else {})}


def _plain_scores(run: RetrievalRun, item: Excerpt) -> dict[str, Any]:
    """The scores of the passages that a response was made from, in their order."""
    hits = run.get(item.query.id)
    scores = {} if hits is None else dict(zip(*hits, strict=True))
    order = item.query.shown_to(item.response)
    return {"scores": [rounded(float(scores.get(id_, np.nan))) for id_ in order]}


def _queries(
    excerpts: Sequence[Excerpt],
    sampling: Sampling,
    chosen: Mapping[str, Mapping[str, _Chosen]],
) -> dict[str, dict[str, dict[str, Any]]]:
    places = {
        code: {id_: n for models in some.values() for n, id_ in enumerate(models.queries)}
        for code, some in chosen.items()
    }
    with_text: dict[tuple[str, str], set[str]] = {}
    queries: dict[tuple[str, str], Query] = {}
    for item in excerpts:
        key = item.code, item.query.id
        queries[key] = item.whole
        with_text.setdefault(key, set()).update(_with_text(item, sampling))
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for (code, id_), query in queries.items():
        row = plain_query(query, with_text[code, id_], sampling)
        rows.setdefault(code, {})[id_] = row | {"n": places[code][id_]}
    return rows


def plain_query(query: Query, with_text: set[str], sampling: Sampling) -> dict[str, Any]:
    """A query as the page's script reads it, with the texts of the passages ``with_text``."""
    text, whole = cut(query.text, sampling.response)
    row: dict[str, Any] = {"id": label(query.id), "text": text, "cut": whole, "passages": []}
    if query.reference is not None:
        row["reference"], row["referenceCut"] = cut(query.reference, sampling.response)
    for passage in query.passages:
        body, whole = cut(passage.text, sampling.passage)
        row["passages"].append(
            {
                "id": label(passage.id),
                **({"title": label(passage.title)} if passage.title else {}),
                **({"text": body, "cut": whole} if passage.id in with_text else {}),
            }
        )
    return row


# Sections and citations ---------------------------------------------------------------------------


class Block(NamedTuple):
    """A part of a response: ``heading``, ``reason``, ``answer``, or ``text`` where it has none."""

    kind: str
    text: str


def blocks(text: str, code: str, shown: Sequence[str]) -> list[Block]:
    """A response in its sections, each without blanks around it, and what stands between them.

    A response is one block where :func:`mirage.text.parse` does not find an answer in one piece.
    """
    text = unicodedata.normalize("NFC", text)
    parsed = parse(text, code, shown)
    at = text.rfind(parsed.answer) if parsed.answer else -1
    if at < 0 or parsed.answer == text.strip():
        return [Block("text", text)]
    start = text.find(parsed.reason, 0, at) if parsed.reason else -1
    places = [("answer", at, at + len(parsed.answer))]
    if start >= 0:
        places.insert(0, ("reason", start, start + len(parsed.reason)))
    parts, done = [], 0
    for kind, begin, end in places:
        parts += [Block("heading", text[done:begin]), Block(kind, text[begin:end])]
        done = end
    parts.append(Block("heading", text[done:]))
    return [Block(kind, part.strip()) for kind, part in parts if part.strip()]


def direction(text: str, code: str) -> str:
    """The direction that most letters of a text are written in; else that of the language."""
    kinds = Counter(map(unicodedata.bidirectional, text))
    right, left = kinds["R"] + kinds["AL"], kinds["L"]
    return Language.of(code).direction if right == left else "rtl" if right > left else "ltr"


class Cited(NamedTuple):
    """A bracket made like a citation, as written, and the passages that it names, perhaps none."""

    text: str
    ids: tuple[str, ...]


def segments(text: str, code: str, shown: Sequence[str]) -> list[str | Cited]:
    """A response in pieces: its citations, and the text between them. Together they are the text.

    What a bracket cites is what :func:`mirage.text.parse` reads in it.
    """
    pieces: list[str | Cited] = []
    done = 0
    read: dict[str, tuple[str, ...] | None] = {}
    for match in _brackets(Language.of(code)).finditer(text):
        bracket = match[0]
        if bracket not in read:
            # Behind a letter, so that a bracket alone is not taken for a heading.
            parsed = parse(f"x {bracket}", code, shown)
            is_one = parsed.citations or parsed.answer_text == "x"
            read[bracket] = parsed.citations if is_one else None
        ids = read[bracket]
        if ids is not None:
            pieces += [text[done : match.start()], Cited(bracket, ids)]
            done = match.end()
    return [piece for piece in (*pieces, text[done:]) if piece]


def marked(
    pieces: Iterable[str | Cited], faults: Sequence[tuple[int, int, str]]
) -> Iterator[tuple[str | Cited, str]]:
    """Pieces of a text, parted where marked places begin and end; each with its type, or none.

    A citation is never parted: it is marked where a place touches it. Places are in order and do
    not overlap.
    """
    at = 0
    for piece in pieces:
        whole = piece if isinstance(piece, str) else piece.text
        ours = [place for place in faults if place[0] < at + len(whole) and place[1] > at]
        if not isinstance(piece, str):
            yield piece, ours[0][2] if ours else ""
        else:
            yield from _parted(piece, [(max(0, a - at), b - at, type_) for a, b, type_ in ours])
        at += len(whole)


def _parted(text: str, places: Sequence[tuple[int, int, str]]) -> Iterator[tuple[str, str]]:
    done = 0
    for start, end, type_ in places:
        if start > done:
            yield text[done:start], ""
        yield text[start:end], type_
        done = end
    if text[done:]:
        yield text[done:], ""


@lru_cache(maxsize=64)
def _brackets(entry: Language) -> re.Pattern[str]:
    pairs = {*LANGUAGES["en"].brackets, *entry.brackets}
    opening = "".join(re.escape(pair[0]) for pair in sorted(pairs))
    closing = "".join(re.escape(pair[1]) for pair in sorted(pairs))
    bracket = rf"[{opening}][^{opening}{closing}\n]*[{closing}]"
    return re.compile(rf"[{opening}]{bracket}[{closing}]|{bracket}")


# Words --------------------------------------------------------------------------------------------


def _notes(
    sampling: Sampling, chosen: Mapping[str, Mapping[str, _Chosen]], left_out: int
) -> Iterator[str]:
    if not any(chosen.values()):
        return
    answered = max(len(order.ordered) for models in chosen.values() for order in models.values())
    if answered > 2 * sampling.most:
        yield (
            f"Of each model, at most {sampling.most} best, {sampling.most} worst and "
            f"{sampling.most} failed responses are shown in each language, and at most "
            f"{sampling.found} others that findings are about."
        )
    yield (
        f"Responses are cut after {sampling.response:,} characters and passages after "
        f"{sampling.passage:,}; what is cut says so."
    )
    if not sampling.all_passages:
        yield (
            "Passages that no shown response cites, and that are not known to be relevant, are "
            "named without their text."
        )
    if left_out:
        yield f"{left_out} more responses would have made the file too large and are left out."
