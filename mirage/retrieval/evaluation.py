"""How good a retrieval run is, by the measures of ir_measures, against relevance judgments."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.logs import logger
from mirage._base.passages import NOTHING_JUDGED, document_of
from mirage._base.tables import Printed, Table, frame_of
from mirage.dataset import Cluster, clusters_of
from mirage.errors import DatasetError, SettingError, UnknownNameError, needing
from mirage.models import Query
from mirage.retrieval.run import RetrievalRun
from mirage.sources.trec import read_qrels
from mirage.statistics.bootstrap import Interval, check_level
from mirage.statistics.clusters import cluster_codes, mean_intervals
from mirage.statistics.paired import paired_means
from mirage.statistics.permutation import holm

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MEASURES",
    "Qrels",
    "RetrievalDifference",
    "RetrievalEvaluation",
    "RetrievalMean",
    "evaluate",
    "qrels",
]

Qrels = Mapping[str, Mapping[str, int]]
"""Relevance by query id and passage id, above 0 for what is relevant."""

MEASURES = ("nDCG@10", "R@10", "RR@10", "P@1")
"""The measures that are computed where none are named."""

_LOG = logger("mirage.retrieval")


class RetrievalMean(NamedTuple):
    """One measure of a run.

    Attributes:
        measure: its name, as ir_measures writes it.
        mean: over the queries that are measured; NaN where none is.
        interval: lower and upper end for the mean over all such queries; NaN with fewer than ten.
        n: queries that are measured, absent ones among them.
        unmeasured: queries of the run without a relevant passage in the qrels.
    """

    measure: str
    mean: float
    interval: Interval
    n: int
    unmeasured: int


class RetrievalDifference(NamedTuple):
    """How much higher one run is than another by a measure, on the same queries.

    Attributes:
        measure: its name.
        difference: of the means over the queries that both are measured on, first minus second.
        interval: Its lower and upper end, which hold 0 if and only if ``p`` is above 1 minus the
            level; NaN if the runs share fewer than ten clusters of queries, or differ on none.
        p: chance of so large a difference, of either sign, if the two runs are alike.
        corrected: the same, corrected for the number of measures (Holm).
        n: the queries.
    """

    measure: str
    difference: float
    interval: Interval
    p: float
    corrected: float
    n: int


@dataclass(frozen=True, eq=False, repr=False)
class RetrievalEvaluation(Printed):
    """The measures of one run; iterates over its :class:`RetrievalMean` rows.

    Attributes:
        name: of the run.
        measures: their names.
        query_ids: the queries, those of the run first.
        values: ``(queries, measures)``, float64; NaN where the qrels have no relevant passage.
        absent: queries with relevant passages that the run lacks; they count 0.
        documents: whether documents were ranked, and not passages.
        strange: whether the qrels name none of all that was found, relevant or not.
        clusters: what queries hang together with, by query id.
    """

    name: str
    measures: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: NDArray[np.float64]
    absent: tuple[str, ...] = ()
    documents: bool = False
    strange: bool = False
    clusters: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[RetrievalMean]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self.measures)

    def __getitem__(self, measure: str) -> RetrievalMean:
        """The row of one measure."""
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
        """The mean of each measure, and its interval.

        Queries are what varies: see :func:`mirage.statistics.clusters.mean_intervals`.

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
        """How much higher this run is than another, measure by measure, and whether by chance.

        P-values and intervals are those of :func:`mirage.statistics.paired_means`.

        Args:
            other: the other run, evaluated on the same qrels by the same measures.
            permutations: how many to draw, where there are more.

        Raises:
            SettingError: they have other measures, rank other things, or share no query.
        """
        check_level(level)
        if (self.measures, self.documents) != (other.measures, other.documents):
            raise SettingError(
                f"{self.name!r} and {other.name!r} are compared by the same measures of the same "
                "things, passages or documents; evaluate both alike"
            )
        row = {id_: i for i, id_ in enumerate(other.query_ids)}
        shared = [i for i, id_ in enumerate(self.query_ids) if id_ in row]
        ids = [self.query_ids[i] for i in shared]
        gaps = self.values[shared] - other.values[[row[id_] for id_ in ids]]
        known = ~np.isnan(gaps).any(axis=1)
        gaps, ids = gaps[known], [ids[i] for i in np.flatnonzero(known)]
        if not ids:
            raise SettingError(f"{self.name!r} and {other.name!r} share no query that is measured")
        codes = self._codes(ids)
        means = paired_means(gaps, codes, level=level, permutations=permutations, seed=seed)
        corrected = holm([row.p for row in means]).tolist()
        rows = zip(self.measures, means, corrected, strict=True)
        return [RetrievalDifference(name, *row[:3], p, row.n) for name, row, p in rows]

    def to_pandas(self) -> pd.DataFrame:
        """A frame indexed by query id, a column a measure (needs pandas)."""
        columns = {name: self.values[:, i] for i, name in enumerate(self.measures)}
        return frame_of({"query_id": self.query_ids, **columns}).set_index("query_id")

    def _tables(self) -> tuple[Table]:
        what = "documents" if self.documents else "passages"
        rows = tuple((row.measure, *_cells(row.mean, row.interval)) for row in self)
        notes = []
        if self.absent:
            notes.append(f"{_queries(self.absent)} not in the run, counted 0")
        if self.strange:
            notes.append(NOTHING_JUDGED)
        if unmeasured := len(self.query_ids) - self._measured:
            notes.append(
                f"{unmeasured} without a relevant passage in the qrels, left out of the means"
            )
        title = f"{self.name}: {self._measured} queries, {what}"
        header = ("measure", "mean", "95 % interval")
        return (Table(title, header, rows, notes=tuple(notes), name=0),)

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
    """Measure a run by ir_measures (MacAvaney et al. 2022, ECIR), for each query and on average.

    What counts is the order of the run, also where scores are equal: trec_eval would put those in
    the order of their ids. A query that the run lacks, or found nothing for, counts 0. One of
    which the qrels name no relevant passage is not measured: NaN, and left out of means.

    Args:
        run: the run, or the path of a run file.
        relevance: qrels, the path of a file of them, or queries, whose ``relevant`` passages count.
        measures: names of ir_measures, such as ``nDCG@10``, ``R@100``, ``AP``, ``Success@5``.
        documents: rank documents, each by its best passage (max-P); of qrels on passages a
            document has the highest grade. A document is what stands before ``#``.
        query_ids: the queries to measure; by default those of the run and of the qrels.
        cluster: what queries hang together by, where ``relevance`` are queries; see
            :class:`mirage.MirageDataset`.

    Raises:
        MissingPackageError: the extra ``retrieval`` is not installed.
        UnknownNameError: there is no such measure.
        SettingError: a measure lacks its cutoff, or stands twice.
        DatasetError: a file cannot be read, or the qrels name no relevant passage at all.
    """
    ranked = run if isinstance(run, RetrievalRun) else RetrievalRun.read(run)
    grades, clusters = _grades(relevance, cluster)
    if not any(map(_has_relevant, grades.values())):
        raise DatasetError("the qrels name no relevant passage, so that nothing can be measured")
    if documents:
        ranked, grades = ranked.documents(), {id_: _by_document(g) for id_, g in grades.items()}
    judged = {id_: dict(grade) for id_, grade in grades.items() if _has_relevant(grade)}
    ids = tuple(dict.fromkeys([*ranked, *judged] if query_ids is None else query_ids))
    values = _values(ranked, {id_: judged[id_] for id_ in ids if id_ in judged}, ids, measures)
    absent = tuple(id_ for id_ in ids if id_ in judged and id_ not in ranked)
    found = [
        (ranked[id_].passage_ids, judged[id_]) for id_ in ids if id_ in judged and id_ in ranked
    ]
    strange = not any(not grade.keys().isdisjoint(passages) for passages, grade in found)
    if strange:
        _LOG.warning("%s: %s", ranked.name, NOTHING_JUDGED)
    return RetrievalEvaluation(
        ranked.name, tuple(measures), ids, values, absent, documents, strange, clusters
    )


def qrels(queries: Iterable[Query]) -> dict[str, dict[str, int]]:
    """Relevance by query id and passage id: 1 for relevant passages, 0 for others that are shown.

    A query without relevant passages is left out.
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
    """The measures of each query, ``(queries, measures)``; NaN where nothing is judged."""
    with needing("ir-measures", "retrieval"):
        import ir_measures
    measures = _parsed(names)
    row = {id_: i for i, id_ in enumerate(query_ids)}
    column = {measure: j for j, measure in enumerate(measures)}
    values = np.full((len(query_ids), len(names)), np.nan)
    values[[row[id_] for id_ in judged]] = 0.0
    found = {id_: _descending(run[id_].passage_ids) for id_ in judged if id_ in run}
    for each in ir_measures.iter_calc(measures, judged, found) if judged else ():
        values[row[each.query_id], column[each.measure]] = each.value
    return values


def _descending(passage_ids: Sequence[str]) -> dict[str, float]:
    """Scores that are all different: ir_measures would order equal ones by id, backwards."""
    return {id_: float(len(passage_ids) - i) for i, id_ in enumerate(passage_ids)}


def _parsed(names: Sequence[str]) -> list[Any]:
    import ir_measures

    if not names or len(set(names)) < len(names):
        raise SettingError(f"measures are one or more, each once, not {list(names)}")
    return [_measure(ir_measures, name) for name in names]


def _measure(ir_measures: Any, name: str) -> Any:
    try:
        with warnings.catch_warnings():  # it parses by what Python 3.12 and 3.13 warn of
            warnings.simplefilter("ignore", DeprecationWarning)
            measure = ir_measures.parse_measure(name)
        if measure.params.get("cutoff", 1) > 0 and ir_measures.DefaultPipeline.supports(measure):
            return measure
    except NameError:
        _, at, cutoff = name.partition("@")
        known = [f"{each}{at}{cutoff}" for each in ir_measures.measures.registry]
        alike = [each for each in known if each.lower() == name.lower()]
        raise UnknownNameError("measure", name, alike or known) from None
    except (ValueError, AssertionError):
        pass
    raise SettingError(
        f"{name!r} is no measure as ir_measures writes them; it is nDCG@10, R@100 or AP, with the "
        "cutoff where one is needed"
    )


def _intervals(values: NDArray[np.float64], codes: NDArray[np.intp], level: float) -> list[Any]:
    """The interval of each measure; most have values from 0 to 1, others any."""
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
