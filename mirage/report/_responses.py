"""Select the best, worst and failed responses of each model for a report, and cut long texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.quoting import script_json
from mirage.arena import Judgments
from mirage.dataset import MirageDataset
from mirage.features import FeatureTable, Span, answered, spans
from mirage.models import Query, Response, Run
from mirage.passages import relevant_matches
from mirage.report._segments import Block, Cited, blocks, direction, marked, segments
from mirage.report.elements import cut, label, rounded
from mirage.retrieval import RetrievalRun
from mirage.text import parse

if TYPE_CHECKING:
    from mirage.ranking import Evidence, Ranking
    from mirage.surrogate.training import TrainingData


class Sampling(NamedTuple):
    """Limits on the number and length of the responses in a report.

    Attributes:
        most: Maximum number of best responses to show per model and language. The same maximum
            applies to the worst and to the failed responses.
        in_findings: Maximum number of further responses to show per model and language, because
            they have a fault that the findings at the top of the report name.
        response: Number of characters after which a response or a reference is cut.
        passage: Number of characters after which a passage is cut.
        all_passages: Whether to show the text of every passage. If False, show only those that
            a shown response cites and those that are known to be relevant.
    """

    most: int
    in_findings: int
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
"""Limits in the order in which they are tried, from generous to strict."""

MOST_BYTES = 3_600_000
"""Largest total size of the responses and passages in the file."""


class Excerpt(NamedTuple):
    """One response of one model that the report shows.

    Attributes:
        code: Language code.
        model: Name of the model.
        kind: The heading under which the page lists the response: ``best``, ``worst``,
            ``failed``, or ``found`` for other responses that are named in a finding about a fault.
        query: The query of the dataset.
        whole: The same query with all passages that any model received for it, including retrieved
            passages.
        response: The response itself.
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
        pages: Responses by language, model and kind: ``best``, ``worst``, ``failed``, or ``found``
            for other responses that are named in a finding about a fault.
        queries: Queries of these responses, by language and id, each with its position ``n`` in
            the dataset.
        notes: Sentences that state which responses and texts the report leaves out.
    """

    pages: Mapping[str, Mapping[str, Mapping[str, list[dict[str, Any]]]]]
    queries: Mapping[str, Mapping[str, dict[str, Any]]]
    notes: tuple[str, ...]

    def places(self, code: str, model: str) -> dict[str, int]:
        """Return the positions in the dataset of a model's queries, by query id.

        Only queries for which the report shows the response of ``model`` are included.
        """
        kinds = self.pages.get(code, {}).get(model, {})
        ids = [row["query"] for rows in kinds.values() for row in rows]
        return {id_: self.queries[code][id_]["n"] for id_ in ids}


def sample(
    rankings: Mapping[str, Ranking],
    retrieval: Mapping[str, Mapping[str, RetrievalRun]] = MappingProxyType({}),
) -> Sample:
    """Select the responses that the report shows, as many as its size limit allows.

    The same rankings always give the same sample. Rankings without responses or dataset are
    skipped.

    Args:
        rankings: Rankings by language.
        retrieval: Retrieval runs by language and model. Their scores are shown beside the passages.
    """
    candidates = {
        code: _candidates(ranking, evidence, evidence.dataset)
        for code, ranking in rankings.items()
        if (evidence := ranking.evidence) is not None and evidence.dataset is not None
    }
    for sampling in SAMPLINGS:
        excerpts = list(_excerpts(candidates, sampling))
        fitting = _fitting(excerpts, sampling)
        if len(fitting) == len(excerpts):
            break
    return Sample(
        _pages(fitting, sampling, rankings, retrieval),
        _queries(fitting, sampling, candidates),
        tuple(_notes(sampling, candidates, len(excerpts) - len(fitting))),
    )


# Order --------------------------------------------------------------------------------------------


class _Weights(NamedTuple):
    """The statistics of the training data that :func:`_scores` needs, one per feature."""

    features: tuple[str, ...]
    means: NDArray[np.float64]
    spreads: NDArray[np.float64]
    correlations: NDArray[np.float64]

    @classmethod
    def of(cls, data: TrainingData) -> _Weights:
        everyone = data.values.reshape(-1, len(data.features))
        spreads = np.nanstd(everyone, axis=0)
        return cls(
            tuple(data.features),
            np.nanmean(everyone, axis=0),
            np.where(spreads > 0, spreads, np.inf),
            _correlations(data.mean_X, data.mean_y),
        )


def _scores(table: FeatureTable, of_features: _Weights) -> NDArray[np.float64]:
    """Return a quality score for each response, computed from its features.

    Each feature is standardised by the mean and standard deviation of the responses that the
    surrogate was trained on, and clipped to [-3, 3]. It is multiplied by the correlation, over
    the training models, between the feature's mean and the logit. The sum is divided by the sum of
    the absolute correlations of the features that the response has. The score only orders the
    responses of one model; it is not a logit.

    Args:
        table: The features of the model's responses.
        of_features: Statistics of the training data of the surrogate.

    Returns:
        An array of shape ``(queries,)``; NaN if a response has no features.
    """
    features, means, spreads, weights = of_features
    above = (table.columns(features).values - means) / spreads
    present_weights = ~np.isnan(above) * np.abs(weights)
    total = np.nansum(np.clip(above, -3, 3) * weights, axis=1)
    size = present_weights.sum(axis=1)
    return np.asarray(np.divide(total, size, out=np.full(len(total), np.nan), where=size > 0))


def won_shares(
    judgments: Judgments | None, model: str, query_ids: Sequence[str]
) -> NDArray[np.float64]:
    """Return the share of judgments that a model won on each query; a tie counts as half a win.

    Args:
        judgments: The judgments; ``None`` if there are none.
        model: Name of the model.
        query_ids: Ids of the queries.

    Returns:
        An array of shape ``(queries,)``; NaN if the model was not judged on a query.
    """
    if judgments is None or model not in judgments.models:
        return np.full(len(query_ids), np.nan)
    code = judgments.models.index(model)
    mine = (judgments.a == code) | (judgments.b == code)
    won = np.where(judgments.a == code, judgments.score, 1 - judgments.score)[mine]
    size = len(judgments.query_ids)
    total = np.bincount(judgments.query[mine], weights=won, minlength=size)
    count = np.bincount(judgments.query[mine], minlength=size)
    shares = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
    by_query = dict(zip(judgments.query_ids, shares.tolist(), strict=True))
    return np.array([by_query.get(id_, np.nan) for id_ in query_ids])


def _correlations(X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Pearson's correlation of each column with y; 0 if the column is constant."""
    columns, target = X - X.mean(axis=0), y - y.mean()
    size = np.linalg.norm(columns, axis=0) * np.linalg.norm(target)
    return np.asarray(np.divide(target @ columns, size, out=np.zeros(len(size)), where=size > 0))


@dataclass(frozen=True)
class _Candidates:
    """One model's responses, from which the report selects those that it shows.

    Attributes:
        run: All responses of the model.
        queries: The queries of the dataset, by id.
        whole: The same queries with the passages of all models' responses added.
        ordered: Ids of the answered queries, best response first. The order is by features if a
            surrogate is available, otherwise by the share of judgments won.
        in_findings: Ids of the queries on which a finding reports a fault of this model.
    """

    run: Run
    queries: Mapping[str, Query]
    whole: Mapping[str, Query]
    ordered: tuple[str, ...]
    in_findings: tuple[str, ...]

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        queries: Mapping[str, Query],
        whole: Mapping[str, Query],
        model: str,
        in_findings: tuple[str, ...],
        weights: Callable[[str], _Weights],
    ) -> _Candidates:
        if evidence.ranker is not None and model in evidence.tables:
            table = evidence.tables[model]
            query_ids = table.query_ids
            scores = _scores(table, weights(table.language))
        else:
            run = evidence.runs[model]
            query_ids = tuple(id_ for id_ in queries if run.get(id_) is not None)
            scores = won_shares(evidence.judgments, model, query_ids)
        order = [i for i in np.argsort(-scores, kind="stable") if not np.isnan(scores[i])]
        return cls(
            evidence.runs[model],
            queries,
            whole,
            tuple(query_ids[i] for i in order),
            in_findings,
        )

    def by_kind(self, sampling: Sampling) -> dict[str, list[tuple[Query, Response]]]:
        """Return the selected responses by kind, each with its query.

        ``sampling`` limits their number. The kinds are ``best``, ``worst`` (worst first),
        ``failed``, and ``found`` for other responses that findings name. No response appears under
        two kinds.
        """
        best = min(sampling.most, (len(self.ordered) + 1) // 2)
        worst = min(sampling.most, len(self.ordered) - best)
        ids: dict[str, Sequence[str]] = {
            "best": self.ordered[:best],
            "worst": self.ordered[::-1][:worst],
            "failed": [response.query_id for response in self.run.failed][: sampling.most],
        }
        selected = set(chain.from_iterable(ids.values()))
        ids["found"] = [id_ for id_ in self.in_findings if id_ not in selected][
            : sampling.in_findings
        ]
        return {
            kind: [(self.queries[id_], self.run[id_]) for id_ in kind_ids if id_ in self.queries]
            for kind, kind_ids in ids.items()
        }


def _candidates(
    ranking: Ranking, evidence: Evidence, dataset: MirageDataset
) -> dict[str, _Candidates]:
    """Return, for each model, the responses that the report may show."""
    whole = {query.id: whole_query(query, evidence.runs.values()) for query in dataset}
    queries = {query.id: query for query in dataset}

    @cache
    def weights(language: str) -> _Weights:
        assert evidence.ranker is not None  # checked in _Candidates.of()
        return _Weights.of(evidence.ranker.data[language])

    return {
        model: _Candidates.of(
            evidence, queries, whole, model, _queries_in_findings(ranking, model), weights
        )
        for model in evidence.runs
    }


def whole_query(query: Query, runs: Iterable[Run]) -> Query:
    """Return a copy of a query with the passages of all its responses in ``runs`` added."""
    passages = {passage.id: passage for passage in query.passages}
    for run in runs:
        response = run.get(query.id)
        for passage in response.passages if response is not None else ():
            passages.setdefault(passage.id, passage)
    return query.model_copy(update={"passages": tuple(passages.values())})


def _queries_in_findings(ranking: Ranking, model: str) -> tuple[str, ...]:
    """Return the ids of the queries that a model's findings name and to which it responded.

    The first query of every finding comes before the second query of any finding.
    """
    assert ranking.evidence is not None  # rankings without evidence are skipped in sample()
    run = ranking.evidence.runs[model]
    rounds = zip_longest(*(finding.query_ids for finding in ranking.findings.get(model, ())))
    query_ids = dict.fromkeys(id_ for round_ in rounds for id_ in round_ if id_ is not None)
    return tuple(id_ for id_ in query_ids if run.get(id_) is not None)


def _excerpts(
    candidates: Mapping[str, Mapping[str, _Candidates]], sampling: Sampling
) -> Iterator[Excerpt]:
    for code, models in candidates.items():
        for model, responses in models.items():
            for kind, pairs in responses.by_kind(sampling).items():
                for query, response in pairs:
                    yield Excerpt(code, model, kind, query, responses.whole[query.id], response)


# Size ---------------------------------------------------------------------------------------------


def _fitting(excerpts: Sequence[Excerpt], sampling: Sampling) -> list[Excerpt]:
    """Return the first excerpts, as many as the size limit of the file allows.

    A text that several excerpts share counts once.
    """
    free_bytes = MOST_BYTES
    counted: set[tuple[str, ...]] = set()
    fitting = []
    for item in excerpts:
        # 300 and 60 bytes are estimates of the JSON around the texts.
        free_bytes -= (
            _size(item.response.text or item.response.error or "", sampling.response) + 300
        )
        for key, text, most in _shared(item, sampling):
            if key not in counted:
                counted.add(key)
                free_bytes -= _size(text, most) + 60
        if free_bytes < 0:
            break
        fitting.append(item)
    return fitting


def _shared(item: Excerpt, sampling: Sampling) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """Yield the texts that all responses to a query share: the query and its passages.

    Each text comes with a key that identifies it, and with the length after which it is cut.
    """
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


# Data for the page's script ---------------------------------------------------------------------


def _pages(
    excerpts: Sequence[Excerpt],
    sampling: Sampling,
    rankings: Mapping[str, Ranking],
    retrieval: Mapping[str, Mapping[str, RetrievalRun]],
) -> dict[str, dict[str, dict[str, list[dict[str, Any]]]]]:
    pages: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = {}
    for item in excerpts:
        evidence = rankings[item.code].evidence
        assert evidence is not None  # rankings without evidence are skipped in sample()
        kinds = pages.setdefault(item.code, {}).setdefault(item.model, {})
        row = plain_response(item, sampling)
        findings = rankings[item.code].findings.get(item.model, ())
        if faults := [finding.words for finding in findings if item.query.id in finding.query_ids]:
            row["faults"] = faults
        if item.model in evidence.tables:
            row |= _plain_features(evidence.tables[item.model], item)
        run = retrieval.get(item.code, {}).get(item.model)
        if run is not None:
            row |= _plain_scores(run, item)
        kinds.setdefault(item.kind, []).append(row)
    return pages


def plain_response(item: Excerpt, sampling: Sampling, *, faults: bool = True) -> dict[str, Any]:
    """Return a response as JSON data for the page's script.

    Args:
        item: The response with its query.
        sampling: The lengths after which texts are cut.
        faults: Whether to mark the parts of the answer that are wrong. True by default.
    """
    row = {"query": item.query.id, **_plain_passages(item)}
    if item.response.text is None:
        row["error"], row["cut"] = cut(item.response.error or "", sampling.response)
        return row
    text, row["cut"] = cut(item.response.text, sampling.response)
    order = item.query.shown_to(item.response)
    answer, wrong = _fault_spans(item, text) if faults else ("", ())
    row["blocks"] = [
        {
            "kind": block.kind,
            "dir": direction(block.text, item.code),
            "text": [
                _plain_piece(piece, type_, order)
                for piece, type_ in marked(
                    segments(block.text, item.code, order),
                    _shift_spans(block, answer, wrong),
                )
            ],
        }
        for block in blocks(text, item.code, order)
    ]
    return row


def _plain_passages(item: Excerpt) -> dict[str, Any]:
    """Return the passages in the prompt of a response, and which of them are relevant.

    A passage counts as relevant if its id or its text matches a passage that is judged relevant,
    because systems may use their own passage ids.
    """
    row: dict[str, Any] = {}
    order = item.query.shown_to(item.response)
    if item.response.shown is not None or len(item.whole.passages) > len(order):
        positions = {id_: position for position, id_ in enumerate(item.whole.passage_ids)}
        row["shown"] = [positions.get(id_, label(id_)) for id_ in order]
    matches = relevant_matches(item.query, item.response)
    if relevant := [position for position, id_ in enumerate(order) if id_ in matches]:
        row["relevant"] = relevant
    return row


def _fault_spans(item: Excerpt, text: str) -> tuple[str, tuple[Span, ...]]:
    """Return the answer of a response, and the spans of its faults.

    ``text`` is the text of the response, which may be shortened.
    """
    answer = answered(item.query, item.response.model_copy(update={"text": text}))
    return answer.parsed.answer, spans(answer)


def _shift_spans(block: Block, answer: str, faults: Sequence[Span]) -> list[tuple[int, int, str]]:
    """Convert offsets of faults in the answer to offsets in a block.

    The result has a tuple (start, end, type of fault) for each fault. It is empty if the block does
    not contain the whole answer in one piece.
    """
    at = block.text.find(answer) if block.kind in ("answer", "text") and answer else -1
    return [] if at < 0 else [(at + span.start, at + span.end, span.type) for span in faults]


def _plain_piece(piece: str | Cited, type_: str, order: Sequence[str]) -> str | list[Any]:
    if isinstance(piece, str):
        return [piece, None, type_] if type_ else piece
    positions = [order.index(id_) for id_ in piece.ids]
    return [piece.text, positions, type_] if type_ else [piece.text, positions]


def _plain_features(table: FeatureTable, item: Excerpt) -> dict[str, Any]:
    """Return the feature values of a response, and the reasons why values are missing."""
    if item.kind == "failed" or item.query.id not in table.query_ids:
        return {}
    row = table.values[table.query_ids.index(item.query.id)]
    missing = {
        str(position): cut(table.reasons.get((item.query.id, name), "no reason given"), 200)[0]
        for position, name in enumerate(table.features)
        if np.isnan(row[position])
    }
    return {"features": list(map(rounded, row)), **({"missing": missing} if missing else {})}


def _plain_scores(run: RetrievalRun, item: Excerpt) -> dict[str, Any]:
    """Return the retrieval scores of a response's passages, in the order of the passages."""
    hits = run.get(item.query.id)
    scores = {} if hits is None else dict(zip(*hits, strict=True))
    order = item.query.shown_to(item.response)
    return {"scores": [rounded(float(scores.get(id_, np.nan))) for id_ in order]}


def _queries(
    excerpts: Sequence[Excerpt],
    sampling: Sampling,
    candidates: Mapping[str, Mapping[str, _Candidates]],
) -> dict[str, dict[str, dict[str, Any]]]:
    positions = {
        code: {id_: n for responses in models.values() for n, id_ in enumerate(responses.queries)}
        for code, models in candidates.items()
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
        rows.setdefault(code, {})[id_] = row | {"n": positions[code][id_]}
    return rows


def plain_query(query: Query, with_text: set[str], sampling: Sampling) -> dict[str, Any]:
    """Return a query as JSON data for the page's script.

    Args:
        query: The query.
        with_text: Ids of the passages whose text is included; other passages have titles only.
        sampling: The lengths after which texts are cut.
    """
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


# Notes --------------------------------------------------------------------------------------------


def _notes(
    sampling: Sampling, candidates: Mapping[str, Mapping[str, _Candidates]], left_out: int
) -> Iterator[str]:
    if not any(candidates.values()):
        return
    most_answers = max(
        len(responses.ordered) for models in candidates.values() for responses in models.values()
    )
    if most_answers > 2 * sampling.most:
        yield (
            f"The report shows at most {sampling.most} best, {sampling.most} worst and "
            f"{sampling.most} failed responses per model and language, and at most "
            f"{sampling.in_findings} other responses that findings name."
        )
    yield (
        f"Responses are cut after {sampling.response:,} characters and passages after "
        f"{sampling.passage:,}; cut texts are marked."
    )
    if not sampling.all_passages:
        yield (
            "Passages that no shown response cites and that are not known to be relevant are "
            "listed without their text."
        )
    if left_out:
        yield f"{left_out} more responses are left out to limit the size of the file."
