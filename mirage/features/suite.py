"""A suite: features, in an order, that score a run together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from numbers import Real
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage._base.logs import logger
from mirage._base.progress import progress_bar
from mirage._base.rows import first_duplicate
from mirage.dataset import Cluster, MirageDataset, clusters_of
from mirage.errors import FeatureError, SettingError
from mirage.executors import Executor, in_order
from mirage.features.base import (
    GIVEN,
    Answered,
    Facts,
    Feature,
    FunctionFeature,
    Need,
    NotComputed,
    answered,
)
from mirage.features.neural import NeuralFeature
from mirage.features.registry import OFFLINE, facts, feature
from mirage.features.similarity import SimilarityFeature
from mirage.features.table import FeatureTable
from mirage.languages import Language
from mirage.models import Query, Response, Run
from mirage.passages import CitationGaps, citation_gaps

if TYPE_CHECKING:
    from mirage.llm import LLM
    from mirage.neural import NLI, Reranker

__all__ = ["FeatureLike", "FeatureSuite"]

FeatureLike = str | Feature | Callable[[Query, Response], float | NotComputed]
"""A feature, the name of one, or a function ``(query, response) -> float``."""

_LOG = logger("mirage.features")

# Large enough for a model behind a feature to batch, small enough to show progress.
_BATCH = 64


class FeatureSuite:
    """Features that score runs together; iterates over them, in order.

    Make one from names, functions ``(query, response) -> float`` and :class:`Feature` objects,
    or take :meth:`offline`. ``suite + feature`` is a suite with one more.

    Args:
        features: the features; names as :func:`mirage.features.feature` takes them.
        language: the only language that the suite is for, ``None`` for any.

    Raises:
        UnknownNameError: no feature has such a name, or there is no such language.
        FeatureError: no feature, two of one name, or something that is not a feature.
    """

    def __init__(
        self, features: Iterable[FeatureLike], language: str | Language | None = None
    ) -> None:
        self.features: tuple[Feature, ...] = tuple(_as_feature(item) for item in features)
        self.language: str | None = None if language is None else Language.of(language).code
        if not self.features:
            raise FeatureError("a feature suite needs at least one feature")
        twice = first_duplicate(self.names)
        if twice is not None:
            raise FeatureError(f"feature {twice!r} is in the suite twice; names are unique")

    @classmethod
    def offline(cls, language: str | Language | None = None) -> FeatureSuite:
        """The features that need no model and no network.

        ``target_language``, ``english_language``, ``citation_recall@10``, ``citation_map@10``,
        ``answer_bleu``, ``answer_rougeL`` (MIRAGE-Bench, section 4.1); ``support_lexical`` and
        ``relevance_lexical`` in place of its NLI model and reranker; and what sees whether an
        answer is right: ``answer_match``, ``wrong_answer``, ``fact_agreement``, ``fact_precision``,
        ``abstention``, ``invention``, ``incorrect_attempt``, ``unknown_facts``,
        ``passage_coverage``. For a dataset without short answers, or if it is not known which
        queries can be answered, take :meth:`applicable` of it.
        """
        return cls(OFFLINE, language)

    @classmethod
    def full(
        cls,
        llm: LLM,
        *,
        nli: NLI | str | None = None,
        reranker: Reranker | str | None = None,
        language: str | Language | None = None,
    ) -> FeatureSuite:
        """The eleven features of MIRAGE-Bench (section 4.1); needs the extra ``neural``.

        They are the first six of :meth:`offline` and those of the models. Score with ``n_jobs=1``.

        Args:
            llm: rates ``answer_overlap`` and ``fluency``.
            nli: the model of ``support_entailment`` and ``support_neutral``, or its name; by
                default the paper's.
            reranker: the model of ``reranker_score``, or its name; by default the paper's.

        Raises:
            NeuralError: a model cannot be loaded, or is of another kind.
            MissingPackageError: the extra ``neural`` is not installed.
        """
        from mirage.features import neural, rated
        from mirage.neural import NLI, Reranker

        nli = nli if isinstance(nli, NLI) else NLI(nli)
        reranker = reranker if isinstance(reranker, Reranker) else Reranker(reranker)
        features: tuple[FeatureLike, ...] = (
            *OFFLINE[:4],
            neural.support_entailment(nli),
            neural.support_neutral(nli),
            neural.reranker_score(reranker),
            *OFFLINE[4:6],
            rated.answer_overlap(llm),
            rated.fluency(llm),
        )
        return cls(features, language)

    def applicable(self, dataset: MirageDataset) -> FeatureSuite:
        """The features that can be computed on a dataset: one of its queries or more has what
        each needs, such as a reference.

        Raises:
            FeatureError: none of them can.
        """
        unmet = self.unmet(dataset)
        met = [item for item in self.features if item.name not in unmet]
        if not met:
            raise FeatureError(
                f"none of the features {', '.join(self.names)} can be computed on {dataset.name}: "
                "its queries lack what they need"
            )
        return FeatureSuite(met, self.language)

    def unmet(self, dataset: MirageDataset) -> dict[str, tuple[Need, ...]]:
        """What the features that cannot be computed on a dataset lack there, by their names."""
        given = {need for need, has in GIVEN.items() if any(map(has, dataset))}
        lacks = {
            item.name: tuple(n for n in facts(item).needs if n in GIVEN and n not in given)
            for item in self.features
        }
        return {name: needs for name, needs in lacks.items() if needs}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(item.name for item in self.features)

    @property
    def facts(self) -> dict[str, Facts]:
        """What is known of each feature, by name: see :func:`mirage.features.facts`."""
        return {item.name: facts(item) for item in self.features}

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def __add__(self, other: FeatureLike | Iterable[FeatureLike]) -> FeatureSuite:
        more = other if isinstance(other, Iterable) and not isinstance(other, str) else (other,)
        return FeatureSuite((*self.features, *more), self.language)

    def __repr__(self) -> str:
        return f"FeatureSuite({list(self.names)!r}, language={self.language!r})"

    def score(
        self,
        dataset: MirageDataset,
        run: Run,
        *,
        cluster: Cluster = None,
        n_jobs: int = 1,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> FeatureTable:
        """Compute every feature of every response.

        Args:
            dataset: the queries; the table has a row for each, in their order.
            run: the responses. A query that it does not answer, or where the model failed, is
                NaN in every column, with the reason. Where a model was asked several times, values
                are means over the times that have one, and the table's ``repeats`` has them all.
            cluster: what queries hang together by, where :attr:`Query.cluster <mirage.Query>` does
                not say so: a key of their metadata, a function of the query, or a mapping from
                query id. Intervals of means count what hangs together once.
            n_jobs: processes, as in joblib. The result does not depend on it.
            executor: whose workers compute, in place of processes; the result is the same. Models
                of pairs are loaded there, and :func:`answer_similarity` is computed here.

        Raises:
            SettingError: ``n_jobs`` is 0.
            UnknownNameError: no query has such a key of metadata.
            FeatureError: suite, dataset and run differ in language; the run answers a query that
                the dataset does not have; a feature raises an exception or returns something
                other than one number a response. Names the feature, the query and the model.
        """
        if n_jobs == 0:
            raise SettingError("n_jobs is a number of processes, or -1 for one a core, not 0")
        self._check(dataset, run)
        clusters = clusters_of(dataset, cluster)
        if len(run.repeats) > 1:
            return _over_repeats(
                [
                    self.score(
                        dataset,
                        once,
                        cluster=cluster,
                        n_jobs=n_jobs,
                        executor=executor,
                        progress=progress,
                    )
                    for once in run.repeats
                ]
            )
        gaps = _gaps(dataset, run)
        cited = citation_gaps(dataset, run, retrieved=dataset.retrieved)
        if cited.unread is not None:
            _warn_once(run.model, cited.unread.reason)
        pairs = [(query, run[query.id], cited) for query in dataset if query.id not in gaps]
        rows: dict[str, Row] = {id_: [NotComputed(why)] * len(self) for id_, why in gaps.items()}
        with progress_bar(len(pairs), f"features of {run.model}", progress) as bar:
            for batch in _map(self.features, run.model, pairs, n_jobs, executor):
                rows |= batch
                bar.update(len(batch))
        names, values = self.names, np.full((len(dataset), len(self)), np.nan)
        reasons, retry = {}, set()
        for i, j in np.ndindex(values.shape):
            query_id = dataset.query_ids[i]
            match rows[query_id][j]:
                case NotComputed() as missing:
                    reasons[query_id, names[j]] = missing.reason
                    if missing.retry:
                        retry.add((query_id, names[j]))
                case number:
                    values[i, j] = number
        own = {name: entry for name, entry in self.facts.items() if entry != facts(name)}
        ids = dataset.query_ids
        return FeatureTable(
            run.model,
            dataset.language,
            ids,
            names,
            values,
            reasons,
            own,
            clusters,
            retry=frozenset(retry),
        )

    def _check(self, dataset: MirageDataset, run: Run) -> None:
        if run.language != dataset.language:
            raise FeatureError(
                f"run of model {run.model!r} is in {run.language!r}, but {dataset.name} is in "
                f"{dataset.language!r}; score it against a dataset of its own language"
            )
        if self.language not in (None, dataset.language):
            raise FeatureError(
                f"this suite is for {self.language!r}, but {dataset.name} is in "
                f"{dataset.language!r}; make a suite for that language"
            )
        ids = set(dataset.query_ids)
        for response in run:
            if response.query_id not in ids:
                raise FeatureError(
                    f"run of model {run.model!r} answers query {response.query_id!r}, which "
                    f"{dataset.name} does not have; score it against the dataset that it was made "
                    "from"
                )


@lru_cache(maxsize=256)
def _warn_once(model: str, reason: str) -> None:
    """Log why a run's citations are not measured; a run is often scored several times."""
    _LOG.warning("%s: citation features are not computed: %s", model, reason)


def _over_repeats(tables: Sequence[FeatureTable]) -> FeatureTable:
    """The table of a model that was asked several times."""
    repeats = np.stack([table.values for table in tables])
    known = ~np.isnan(repeats)
    totals, counts = np.where(known, repeats, 0.0).sum(axis=0), known.sum(axis=0)
    values = np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0)
    first = tables[0]
    row = {query_id: i for i, query_id in enumerate(first.query_ids)}
    column = {name: j for j, name in enumerate(first.features)}
    reasons = {
        (query_id, name): why
        for table in tables
        for (query_id, name), why in table.reasons.items()
        if not counts[row[query_id], column[name]]
    }
    retry = frozenset(key for table in tables for key in table.retry if key in reasons)
    return replace(first, values=values, reasons=reasons, repeats=repeats, retry=retry)


def _as_feature(item: FeatureLike) -> Feature:
    if isinstance(item, str):
        return feature(item)
    if isinstance(item, type) or not (isinstance(item, Feature) or callable(item)):
        raise FeatureError(
            f"{item!r} is not a feature: give a name, a function (query, response) -> float, or an "
            "object with a name and a compute method"
        )
    computable = item if isinstance(item, Feature) else FunctionFeature(item)
    if not isinstance(computable.name, str) or computable.name in ("", "<lambda>"):
        raise FeatureError(f"{item!r} has no name; use FunctionFeature(function, name=...)")
    return computable


# Scoring ------------------------------------------------------------------------------------------

Pair = tuple[Query, Response, CitationGaps]
Row = Sequence[float | NotComputed]  # one query's values, in the order of the features


def _gaps(dataset: MirageDataset, run: Run) -> dict[str, str]:
    """The queries that have no response text, and why."""
    failed = {one.query_id: f"the model failed: {one.error}" for one in run.failed}
    missing = {id_: "no response to this query" for id_ in dataset.query_ids if not run.get(id_)}
    return missing | failed


def _map(
    features: Sequence[Feature],
    model: str,
    pairs: Sequence[Pair],
    n_jobs: int,
    executor: Executor | None,
) -> Iterator[dict[str, Row]]:
    """The rows by query id, a batch at a time; batches are the same wherever they are computed."""
    batches = [pairs[i : i + _BATCH] for i in range(0, len(pairs), _BATCH)]
    if executor is not None:
        yield from _map_on(executor, features, model, batches)
        return
    if n_jobs == 1:
        yield from (_score_batch(features, model, batch) for batch in batches)
        return
    from joblib import Parallel, delayed

    jobs = (delayed(_score_batch)(features, model, batch) for batch in batches)
    try:
        yield from Parallel(n_jobs=n_jobs, return_as="generator")(jobs)
    except PicklingError as error:
        # joblib passes on what was wrong as the text of a traceback.
        why = str(error.__cause__ or error).strip('"\n').rpartition("\n")[2]
        raise FeatureError(
            f"the suite {[item.name for item in features]} cannot be sent to other processes "
            f"({why}); score it with n_jobs=1"
        ) from error


def _map_on(
    executor: Executor, features: Sequence[Feature], model: str, batches: Sequence[Sequence[Pair]]
) -> Iterator[dict[str, Row]]:
    """The rows by query id, computed by workers but for features that remember what they saw."""
    here = [item for item in features if isinstance(item, NeuralFeature | SimilarityFeature)]
    there = [item for item in features if item not in here]
    for item in here:
        if isinstance(item, NeuralFeature):
            item.compute_ahead((_answered(batch) for batch in batches), executor)
    work = partial(_score_batch, there, model)
    rows = in_order(executor, work, batches) if there else map(work, batches)
    for batch, theirs in zip(batches, rows, strict=True):
        ours = _score_batch(here, model, batch)
        yield {id_: _merged(features, here, ours[id_], theirs[id_]) for id_ in theirs}


def _merged(features: Sequence[Feature], here: Sequence[Feature], ours: Row, theirs: Row) -> Row:
    first, second = iter(ours), iter(theirs)
    return [next(first) if item in here else next(second) for item in features]


def _answered(pairs: Iterable[Pair]) -> list[Answered]:
    return [answered(*pair) for pair in pairs]


def _score_batch(features: Sequence[Feature], model: str, pairs: Sequence[Pair]) -> dict[str, Row]:
    batch = _answered(pairs)
    columns = [_column(item, model, batch) for item in features]
    ids = [query.id for query, *_ in pairs]
    rows = zip(*columns, strict=True) if columns else ((),) * len(ids)
    return dict(zip(ids, rows, strict=True))


def _column(item: Feature, model: str, batch: Sequence[Answered]) -> list[float | NotComputed]:
    try:
        values = list(item.compute(batch))
    except Exception as error:
        query = _culprit(item, batch)
        raise FeatureError(
            f"feature {item.name!r} failed on {query} of model {model!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if len(values) != len(batch):
        raise FeatureError(
            f"feature {item.name!r} returned {len(values)} values for {len(batch)} responses of "
            f"model {model!r}, queries {batch[0].query.id!r} to {batch[-1].query.id!r}; it has to "
            "return one for each"
        )
    return [
        _checked(value, item.name, answer.query.id, model)
        for value, answer in zip(values, batch, strict=True)
    ]


def _culprit(item: Feature, batch: Sequence[Answered]) -> str:
    """Which query a feature fails on, by asking for one after the other."""
    for answer in batch:
        try:
            list(item.compute([answer]))
        except Exception:
            return f"query {answer.query.id!r}"
    return f"queries {batch[0].query.id!r} to {batch[-1].query.id!r} together"


def _checked(value: Any, name: str, query_id: str, model: str) -> float | NotComputed:
    if isinstance(value, NotComputed):
        return value
    if not isinstance(value, Real) or math.isinf(value):
        raise FeatureError(
            f"feature {name!r} returned {value!r} for query {query_id!r} of model {model!r}; it "
            "has to return a finite number, or NotComputed(reason)"
        )
    return NotComputed("the feature returned NaN") if math.isnan(value) else float(value)
