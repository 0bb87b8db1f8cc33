"""Evaluation of retrieval runs against relevance judgments, with ir_measures."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.logs import logger
from mirage._base.passages import NOTHING_JUDGED, document_of
from mirage._base.tables import Printed, Table, frame_of, no_interval_notes
from mirage.dataset import Cluster, clusters_of
from mirage.errors import (
    DatasetError,
    MissingPackageError,
    SettingError,
    UnknownNameError,
    needing,
)
from mirage.models import Query
from mirage.retrieval.run import RetrievalRun, descending_scores
from mirage.sources.trec import read_qrels
from mirage.statistics.bootstrap import Interval, check_level
from mirage.statistics.clusters import cluster_codes, mean_intervals, no_interval_reasons
from mirage.statistics.differences import CorrectedDifference
from mirage.statistics.paired import paired_means
from mirage.statistics.permutation import holm

if TYPE_CHECKING:
    import pandas as pd

Qrels = Mapping[str, Mapping[str, int]]
"""Relevance grades by query id and passage id; a grade above 0 means relevant."""

MEASURES = ("nDCG@10", "R@10", "RR@10", "P@1")
"""The measures that :func:`evaluate` computes by default."""

_LOG = logger("mirage.retrieval")


class RetrievalMean(NamedTuple):
    """The mean of one measure over the queries of a run.

    Attributes:
        measure: The name of the measure, as ir_measures writes it.
        mean: The mean over all queries that have a relevant passage in the qrels (relevance
            judgments); NaN if there are no such queries.
        interval: The lower and upper end of the confidence interval of the mean; NaN with fewer
            than ten queries (or clusters of queries).
        n: The number of queries in the mean. Queries that are not in the run are included with the
            value 0.
        unmeasured: The number of queries that are left out of the mean because the qrels have no
            relevant passage for them.
    """

    measure: str
    mean: float
    interval: Interval
    n: int
    unmeasured: int


@dataclass(frozen=True, kw_only=True)
class RetrievalDifference(CorrectedDifference):
    """The difference between the means of two runs in one measure, with interval and p-value.

    Both means are over the same ``n`` queries: those that have a value in both runs. The interval
    contains 0 if and only if ``p`` is above 1 minus the confidence level. The interval is NaN if
    there are fewer than ten clusters of queries, or if the runs are equal on all queries.

    Attributes:
        measure: The name of the measure.
        n: The number of queries that have a value in both runs.
    """

    measure: str
    n: int


@dataclass(frozen=True, eq=False, repr=False)
class RetrievalEvaluation(Printed):
    """The values of retrieval measures for one run, by query.

    Iterating yields the mean of each measure as a :class:`RetrievalMean`.

    Attributes:
        name: The name of the run.
        measures: The names of the measures.
        query_ids: The ids of the queries. By default the queries of the run come first, then the
            queries that only the qrels contain.
        values: The value of each query and measure, as a float64 array of shape ``(queries,
            measures)``. NaN if the qrels have no relevant passage for the query.
        absent: The ids of queries that have relevant passages but are not in the run; their values
            are 0.
        documents: Whether documents were ranked instead of passages.
        strange: Whether none of the retrieved passages is in the qrels. If so, the ids in the run
            and in the qrels probably have different formats.
        clusters: The cluster of each query by query id. Queries in the same cluster, such as those
            about one document, are correlated.
    """

    name: str
    measures: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: NDArray[np.float64]
    absent: tuple[str, ...] = ()
    documents: bool = False
    strange: bool = False
    clusters: Mapping[str, str] = field(default_factory=dict)
    _id_problem: str = ""

    def __iter__(self) -> Iterator[RetrievalMean]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self.measures)

    def __getitem__(self, measure: str) -> RetrievalMean:
        if measure not in self.measures:
            raise UnknownNameError("measure", measure, self.measures)
        return self.rows()[self.measures.index(measure)]

    def __repr__(self) -> str:
        means = ", ".join(f"{row.measure}={row.mean:.3f}" for row in self)
        return f"RetrievalEvaluation({self.name!r}, {means}, n={self._measured})"

    @property
    def _measured(self) -> int:
        return int((~np.isnan(self.values)).any(axis=1).sum())

    def rows(self, *, level: float = 0.95) -> list[RetrievalMean]:
        """Return the mean of each measure with its confidence interval.

        The intervals account for the sampling of queries; see
        :func:`mirage.statistics.clusters.mean_intervals`.

        Args:
            level: The confidence level.

        Raises:
            SettingError: ``level`` is not between 0 and 1.
        """
        check_level(level)
        n, ends = self._measured, _intervals(self.values, self._codes(self.query_ids), level)
        means = np.nanmean(self.values, axis=0) if n else np.full(len(self), np.nan)
        rows = zip(self.measures, means.tolist(), ends, strict=True)
        return [RetrievalMean(*row, n, len(self.query_ids) - n) for row in rows]

    def compare(
        self,
        other: RetrievalEvaluation,
        *,
        level: float = 0.95,
        permutations: int = 10_000,
        seed: int = 0,
    ) -> list[RetrievalDifference]:
        """Return the difference between this run and another in each measure, with its p-value.

        A positive difference means that this run has the higher mean. The function
        :func:`mirage.statistics.paired_means` computes p-values and intervals.

        Args:
            other: The other run, evaluated on the same qrels with the same measures.
            level: The confidence level.
            permutations: The number of random permutations; if fewer are possible, all are used.
            seed: Random seed.

        Raises:
            SettingError: The two runs were evaluated with different measures, only one of them
                ranks documents, no query has a value in both runs, or ``level`` or
                ``permutations`` is out of range.
        """
        check_level(level)
        if (self.measures, self.documents) != (other.measures, other.documents):
            raise SettingError(
                f"{self.name!r} and {other.name!r} have different measures, or one ranks passages "
                "and the other documents; evaluate both with the same settings"
            )
        row = {id_: i for i, id_ in enumerate(other.query_ids)}
        shared = [i for i, id_ in enumerate(self.query_ids) if id_ in row]
        ids = [self.query_ids[i] for i in shared]
        gaps = self.values[shared] - other.values[[row[id_] for id_ in ids]]
        measured = ~np.isnan(gaps).any(axis=1)
        gaps, ids = gaps[measured], [ids[i] for i in np.flatnonzero(measured)]
        if not ids:
            raise SettingError(
                f"no query has values in both {self.name!r} and {other.name!r}; evaluate both "
                "runs on the same queries and qrels"
            )
        codes = self._codes(ids)
        means = paired_means(gaps, codes, level=level, permutations=permutations, seed=seed)
        corrected = holm([row.p for row in means]).tolist()
        rows = zip(self.measures, means, corrected, strict=True)
        return [
            RetrievalDifference(measure=name, corrected=p, **asdict(row)) for name, row, p in rows
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Return the values as a DataFrame with one row per query id and one column per measure.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        columns = {name: self.values[:, i] for i, name in enumerate(self.measures)}
        return frame_of({"query_id": self.query_ids, **columns}).set_index("query_id")

    def _tables(self) -> tuple[Table]:
        unit = "documents" if self.documents else "passages"
        rows = tuple((row.measure, *_cells(row.mean, row.interval)) for row in self)
        ends = np.array([row.interval for row in self])
        reasons = no_interval_reasons(self.measures, self.values, self._codes(self.query_ids), ends)
        notes = no_interval_notes(reasons, self.measures)
        if self.absent:
            notes.append(f"{_queries(self.absent)} not in the run (counted as 0)")
        if self._id_problem:
            notes.append(self._id_problem)
        if unmeasured := len(self.query_ids) - self._measured:
            notes.append(
                f"{unmeasured} without a relevant passage in the qrels, left out of the means"
            )
        title = f"{self.name}: {self._measured} queries, {unit}"
        header = ("measure", "mean", "95 % interval")
        return (Table(title, header, rows, notes=tuple(notes), name=0).filled(),)

    def _codes(self, query_ids: Sequence[str]) -> NDArray[np.intp]:
        return cluster_codes(query_ids, self.clusters)


def evaluate(
    run: RetrievalRun | str | Path,
    relevance: Qrels | Iterable[Query] | str | Path,
    measures: Sequence[str] = MEASURES,
    *,
    documents: bool = False,
    query_ids: Iterable[str] | None = None,
    cluster: Cluster = None,
) -> RetrievalEvaluation:
    """Measure how well a run ranks the relevant passages, per query and on average.

    The measures are computed with ir_measures (MacAvaney et al. 2022, ECIR). Passages with equal
    scores are ranked by their order in the run; trec_eval would order them by id. A query that is
    not in the run, or for which the run has no passages, has the value 0. A query without a
    relevant passage in the qrels has the value NaN, and is left out of the means. A passage is
    relevant if its grade is above 0. If a measure requires a higher grade, such as ``R(rel=2)@5``,
    a query whose passages have only lower grades has the value 0, and stays in the mean.

    Args:
        run: The run, or the path of a run file.
        relevance: The relevance judgments (qrels): grades by query id and passage id, the path of a
            qrels file, or queries with their ``relevant`` passages.
        measures: Names of measures in ir_measures, such as ``nDCG@10``, ``R@100``, ``AP`` or
            ``Success@5``.
        documents: Whether to rank documents, each by its best passage (max-P), instead of passages.
            A document's id is the part of the passage id before ``#``, and its grade is the highest
            of its passages in the qrels.
        query_ids: The ids of the queries to measure; by default all queries of the run and qrels.
        cluster: Names of the clusters of correlated queries: a key of the queries' metadata, a
            function of a query, or a mapping from query id. The default is :attr:`Query.cluster
            <mirage.Query>`. It is used only if queries are passed as ``relevance``.

    Raises:
        MissingPackageError: The extra ``retrieval`` is not installed.
        UnknownNameError: A measure is unknown.
        SettingError: A measure lacks its cutoff or occurs twice, or ``measures`` is empty.
        DatasetError: A file cannot be read, or the qrels have no relevant passage at all.

    Example:
        >>> from mirage.retrieval import RetrievalRun
        >>> run = RetrievalRun.of({"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 1.0}}, "demo")
        >>> evaluation = evaluate(run, {"q1": {"b": 1}, "q2": {"a": 1}}, ["RR@10"])
        >>> evaluation["RR@10"].mean
        0.75
    """
    ranked = run if isinstance(run, RetrievalRun) else RetrievalRun.read(run)
    grades, clusters = _grades(relevance, cluster)
    if not any(map(_has_relevant, grades.values())):
        raise DatasetError(
            "the qrels have no relevant passage (grade above 0), so no measure can be computed; "
            "check the grades"
        )
    if documents:
        ranked, grades = ranked.documents(), {id_: _by_document(g) for id_, g in grades.items()}
    judged = {id_: dict(grade) for id_, grade in grades.items() if _has_relevant(grade)}
    ids = tuple(dict.fromkeys([*ranked, *judged] if query_ids is None else query_ids))
    values = _values(ranked, {id_: judged[id_] for id_ in ids if id_ in judged}, ids, measures)
    absent = tuple(id_ for id_ in ids if id_ in judged and id_ not in ranked)
    ranked_and_judged = [
        (ranked[id_].passage_ids, judged[id_]) for id_ in ids if id_ in judged and id_ in ranked
    ]
    # If the qrels belong to another corpus, they share no id with the run and all measures are 0.
    strange = not any(
        not grade.keys().isdisjoint(passages) for passages, grade in ranked_and_judged
    )
    problem = _id_problem(ranked_and_judged, strange)
    if problem:
        _LOG.warning("%s: %s", ranked.name, problem)
    return RetrievalEvaluation(
        ranked.name, tuple(measures), ids, values, absent, documents, strange, clusters, problem
    )


def qrels(queries: Iterable[Query]) -> dict[str, dict[str, int]]:
    """Return the relevance judgments of queries in the form that :func:`evaluate` accepts.

    Queries without relevant passages are left out.

    Returns:
        Grades by query id and passage id: 1 for the relevant passages of a query, and 0 for its
        other passages.
    """
    return {
        query.id: dict.fromkeys(query.passage_ids, 0) | dict.fromkeys(query.relevant, 1)
        for query in queries
        if query.relevant
    }


def _grades(
    relevance: Qrels | Iterable[Query] | str | Path, cluster: Cluster
) -> tuple[Qrels, dict[str, str]]:
    if isinstance(relevance, str | Path):
        return read_qrels(Path(relevance)), {}
    if isinstance(relevance, Mapping):
        return relevance, {}
    queries = list(relevance)
    return qrels(queries), clusters_of(queries, cluster)


def _id_problem(rankings: Sequence[tuple[Sequence[str], Mapping[str, int]]], strange: bool) -> str:
    """Return why ids of the run and of the qrels do not match, with examples; empty if they do.

    Args:
        rankings: The retrieved passages and the grades of each query that has both.
        strange: Whether none of the retrieved passages is in the qrels.
    """
    pairs = [pair for ranking in rankings for pair in _other_level(*ranking)]
    if pairs:
        relevant, retrieved = pairs[0]
        units = ("passages", "documents") if "#" in relevant else ("documents", "passages")
        total = sum(grade > 0 for _, grades in rankings for grade in grades.values())
        return (
            f"{len(pairs)} of {total} relevant ids in the qrels name {units[0]}, such as "
            f"{relevant!r}, of which the run has {units[1]}, such as {retrieved!r}, so they count "
            "as not retrieved; rank documents instead (--level document, documents=True, or "
            "'level: document' in a grid file)"
        )
    if not strange:
        return ""
    example = next(((ids[0], grades) for ids, grades in rankings if ids), None)
    if example is None:
        return NOTHING_JUDGED
    judged = next(id_ for id_, grade in example[1].items() if grade > 0)
    return f"{NOTHING_JUDGED} ({example[0]!r} was retrieved, {judged!r} is in the qrels)"


def _other_level(
    passage_ids: Sequence[str], grades: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Yield each relevant id that was retrieved only as a part of it, or as the whole of it.

    Each is yielded with a retrieved id: ``a.md`` with ``a.md#0``, or ``a.md#0`` with ``a.md``.
    """
    missing = {id_ for id_, grade in grades.items() if grade > 0}.difference(passage_ids)
    if not missing:
        return
    parts = {document_of(id_): id_ for id_ in reversed(passage_ids)}
    for id_ in sorted(missing):
        retrieved = parts.get(document_of(id_), "")
        if retrieved and (id_ == document_of(id_)) != (retrieved == document_of(retrieved)):
            yield id_, retrieved


def _has_relevant(grades: Mapping[str, int]) -> bool:
    return any(grade > 0 for grade in grades.values())


def _by_document(grades: Mapping[str, int]) -> dict[str, int]:
    best: dict[str, int] = {}
    for passage_id, grade in grades.items():
        document = document_of(passage_id)
        best[document] = max(grade, best.get(document, grade))
    return best


def _values(
    run: RetrievalRun,
    judged: dict[str, dict[str, int]],
    query_ids: Sequence[str],
    names: Sequence[str],
) -> NDArray[np.float64]:
    """Return the value of each query and measure, of shape ``(queries, measures)``.

    Args:
        run: The run.
        judged: The grades of the queries that have a relevant passage, by query id and passage id.
            The values of all other queries are NaN.
        query_ids: The ids of the queries, one per row.
        names: The names of the measures, one per column.
    """
    with needing("ir-measures"):
        import ir_measures
    measures = _parse_measures(names)
    row = {id_: i for i, id_ in enumerate(query_ids)}
    column = {measure: j for j, measure in enumerate(measures)}
    values = np.full((len(query_ids), len(names)), np.nan)
    values[[row[id_] for id_ in judged]] = 0.0
    # Ranks replace the scores, because ir_measures would order equal scores by passage id.
    rankings = {id_: descending_scores(run[id_].passage_ids) for id_ in judged if id_ in run}
    name_of: Mapping[str, str] = {}
    if any(map(ir_measures.providers.registry["gdeval"].supports, measures)):
        judged, rankings, name_of = _numbered(judged, rankings)
    for each in ir_measures.iter_calc(measures, judged, rankings) if judged else ():
        id_ = name_of.get(each.query_id, each.query_id)
        values[row[id_], column[each.measure]] = each.value
    return values


def _numbered(
    judged: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Mapping[str, float]]
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]], dict[str, str]]:
    """Return grades and rankings with numbers as ids, and the id of the query of each number.

    The script gdeval, which computes ERR, accepts only numbers as query ids.
    """
    numbers = {id_: str(n) for n, id_ in enumerate(judged, 1)}
    numbered_grades: dict[str, dict[str, int]] = {}
    numbered_rankings: dict[str, dict[str, float]] = {}
    for id_, number in numbers.items():
        ranking = rankings.get(id_, {})
        passages = {p: f"p{n}" for n, p in enumerate(dict.fromkeys((*judged[id_], *ranking)))}
        numbered_grades[number] = {passages[p]: grade for p, grade in judged[id_].items()}
        if id_ in rankings:
            numbered_rankings[number] = {passages[p]: score for p, score in ranking.items()}
    return numbered_grades, numbered_rankings, {number: id_ for id_, number in numbers.items()}


def _parse_measures(names: Sequence[str]) -> list[Any]:
    import ir_measures

    if not names or len(set(names)) < len(names):
        raise SettingError(
            f"measures must have at least one name, and each only once, got {list(names)}"
        )
    return [_measure(ir_measures, name) for name in names]


def _measure(ir_measures: Any, name: str) -> Any:
    try:
        with warnings.catch_warnings():  # its parser uses features deprecated in Python 3.12
            warnings.simplefilter("ignore", DeprecationWarning)
            measure = ir_measures.parse_measure(name)
        if measure.params.get("cutoff", 1) > 0 and ir_measures.DefaultPipeline.supports(measure):
            return measure
        if measure.params.get("cutoff", 1) > 0:
            _check_providers(ir_measures.providers.registry.values(), name, measure)
    except NameError:
        _, at, cutoff = name.partition("@")
        candidates = [f"{each}{at}{cutoff}" for each in ir_measures.measures.registry]
        matches = [each for each in candidates if each.lower() == name.lower()]
        raise UnknownNameError("measure", name, matches or candidates) from None
    except (ValueError, AssertionError):
        pass
    raise SettingError(
        f"{name!r} is not a measure of ir_measures; write it as nDCG@10, R@100 or AP, with a "
        "cutoff if the measure needs one"
    )


def _check_providers(providers: Iterable[Any], name: str, measure: Any) -> None:
    """Raise an error with the command to install if a package that is missing has the measure."""
    for provider in providers:
        command = provider.install_instructions()
        if command and not provider.is_available() and provider.supports(measure):
            raise MissingPackageError(
                f"{name!r} is a measure of ir_measures, but the package that computes it is not "
                f"installed; install it with: {command}"
            )


def _intervals(values: NDArray[np.float64], codes: NDArray[np.intp], level: float) -> list[Any]:
    """Return the confidence interval of the mean of each column of ``values``.

    ``codes`` is the cluster of each query, counted from 0. A measure is assumed to range from 0 to
    1. If its column has a value above 1, it is treated as unbounded.
    """
    with_ends = np.array([not (column > 1).any() for column in values.T])
    low, high = np.where(with_ends, 0.0, -np.inf), np.where(with_ends, 1.0, np.inf)
    return list(map(tuple, mean_intervals(values, codes, low, high, level=level).tolist()))


def _cells(mean: float, interval: Interval) -> tuple[str, str]:
    low, high = interval
    return (
        "-" if mean != mean else f"{mean:.3f}",
        "" if low != low else f"[{low:.3f}, {high:.3f}]",
    )


def _queries(ids: Sequence[str]) -> str:
    return "1 query is" if len(ids) == 1 else f"{len(ids)} queries are"
