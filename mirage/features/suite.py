"""Feature suites: ordered collections of features that score the responses of a run together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from mirage._base.garbage import rare_collection
from mirage._base.near_names import NearNames
from mirage._base.progress import progress_bar
from mirage._base.rows import first_duplicate
from mirage.dataset import Cluster, DatasetLike, MirageDataset, as_dataset, clusters_of
from mirage.errors import FeatureError, SettingError
from mirage.executors import Executor
from mirage.features import registry
from mirage.features._scoring import Row, iterate_rows, jobs_of, missing_responses, pairs_of
from mirage.features.base import (
    GIVEN,
    Facts,
    Feature,
    FunctionFeature,
    Need,
    NotComputed,
)
from mirage.features.registry import OFFLINE, facts, feature
from mirage.features.table import FeatureTable
from mirage.languages import Language
from mirage.models import Query, Response, Run

if TYPE_CHECKING:
    from mirage.llm import LLM
    from mirage.neural import NLI, Reranker

FeatureLike = str | Feature | Callable[[Query, Response], float | NotComputed]
"""A feature, its name, or a function ``(query, response) -> float``."""


class FeatureSuite(NearNames):
    """An ordered collection of features that are computed together for the responses of a run.

    Iterating over a suite yields its features in order. ``suite + feature`` is a suite with that
    feature added at the end.

    Args:
        features: One feature or several: names that :func:`mirage.features.feature` accepts,
            functions ``(query, response) -> float``, or :class:`Feature` objects.
        language: The only language that the suite is for; by default any.

    Raises:
        UnknownNameError: A feature name is unknown, or the language is not supported.
        FeatureError: There is no feature, two have the same name, or an item is not a feature.

    Example:
        >>> from mirage import FeatureSuite, MirageDataset, Query, Response, Run
        >>> query = Query(id="q1", language="en", text="Who wrote Emma?", answers=("Jane Austen",))
        >>> response = Response(query_id="q1", text="Jane Austen wrote it.")
        >>> run = Run(model="model", language="en", responses=[response])
        >>> suite = FeatureSuite(["answer_match", "answer_length"])
        >>> table = suite.score(MirageDataset([query]), run, progress=False)
        >>> table.values.round(2).tolist()
        [[1.0, 3.09]]
    """

    def __init__(
        self,
        features: FeatureLike | Iterable[FeatureLike],
        language: str | Language | None = None,
    ) -> None:
        self.features: tuple[Feature, ...] = tuple(map(_as_feature, _as_several(features)))
        self.language: str | None = None if language is None else Language.of(language).code
        if not self.features:
            raise FeatureError("a feature suite needs at least one feature")
        duplicate = first_duplicate(self.names)
        if duplicate is not None:
            raise FeatureError(f"feature {duplicate!r} is in the suite twice; remove or rename one")

    @classmethod
    def default(cls, language: str | Language | None = None) -> FeatureSuite:
        """Return the suite of features that need no model and no network.

        - From MIRAGE-Bench (section 4.1): ``target_language``, ``english_language``,
          ``citation_recall@10``, ``citation_map@10``, ``answer_bleu``, ``answer_rougeL``.
        - In place of its NLI model and reranker: ``support_lexical`` and ``relevance_lexical``.
        - Whether an answer is right: ``answer_match``, ``wrong_answer``, ``fact_agreement``,
          ``fact_precision``, ``abstention``, ``invention``, ``incorrect_attempt``,
          ``unknown_facts``, ``passage_coverage``.

        If a dataset has no short answers, or does not mark which queries can be answered, use
        :meth:`applicable` to drop the features that need them.

        Args:
            language: The only language that the suite is for; by default any.

        Example:
            >>> from mirage import FeatureSuite
            >>> len(FeatureSuite.default())
            17
        """
        return cls(OFFLINE, language)

    @staticmethod
    def available() -> tuple[str, ...]:
        """Return the names of all features that a suite accepts by name.

        If a feature has a cutoff, its name is given with the cutoff 10. Features that need a model
        are not among them: :mod:`mirage.features` has functions that take the model.

        Example:
            >>> "citation_recall@10" in FeatureSuite.available()
            True
        """
        return tuple(
            entry.example for entry in registry.DEFINITIONS.values() if not entry.facts.models
        )

    @classmethod
    def full(
        cls,
        llm: LLM | str,
        *,
        nli: NLI | str | None = None,
        reranker: Reranker | str | None = None,
        language: str | Language | None = None,
    ) -> FeatureSuite:
        """Return the suite of the eleven features of MIRAGE-Bench (section 4.1).

        They are the first six features of :meth:`default` and five that use models. The suite needs
        the extra ``neural``. Score it with ``n_jobs=1``.

        Args:
            llm: The LLM that rates ``answer_overlap`` and ``fluency``, or its name.
            nli: The model of ``support_entailment`` and ``support_neutral``, or its name; by
                default the model that MIRAGE-Bench uses.
            reranker: The model of ``reranker_score``, or its name; by default the model that
                MIRAGE-Bench uses.
            language: The only language that the suite is for; by default any.

        Raises:
            NeuralError: A model cannot be loaded, or ``nli`` is not an NLI model, or ``reranker``
                is not a reranker.
            MissingPackageError: The extra ``neural`` is not installed.
        """
        from mirage.features import neural, rated
        from mirage.llm import as_llm
        from mirage.neural import NLI, Reranker

        llm = as_llm(llm)
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
        """Return a suite with only the features that can be computed on a dataset.

        A feature can be computed if at least one query meets its needs, such as a reference.

        Raises:
            FeatureError: None of the features can be computed.
        """
        unmet = self.unmet(dataset)
        met = [item for item in self.features if item.name not in unmet]
        if not met:
            raise FeatureError(
                f"none of the features {', '.join(self.names)} can be computed on {dataset.name}: "
                "they need data that none of its queries has, such as relevant passages, a "
                "reference or short answers"
            )
        return FeatureSuite(met, self.language)

    def unmet(self, dataset: MirageDataset) -> dict[str, tuple[Need, ...]]:
        """Return the features that cannot be computed on a dataset, with their unmet requirements.

        The result maps the name of each such feature to its requirements, such as a reference, that
        no query of the dataset meets.
        """
        return self.unmet_by(need for need, has in GIVEN.items() if any(map(has, dataset)))

    def unmet_by(self, needs: Iterable[Need]) -> dict[str, tuple[Need, ...]]:
        """Return the features that cannot be computed on queries that meet only ``needs``.

        The result maps the name of each such feature to its requirements that are not in ``needs``.
        Required models are ignored.
        """
        met_needs = set(needs)
        lacks = {
            item.name: tuple(n for n in registry.needs(item) if n in GIVEN and n not in met_needs)
            for item in self.features
        }
        return {name: needs for name, needs in lacks.items() if needs}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(item.name for item in self.features)

    @property
    def facts(self) -> dict[str, Facts]:
        """The :class:`Facts` of each feature by name; see :func:`mirage.features.facts`."""
        return {item.name: facts(item) for item in self.features}

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def __add__(self, other: FeatureLike | Iterable[FeatureLike]) -> FeatureSuite:
        return FeatureSuite((*self.features, *_as_several(other)), self.language)

    def __repr__(self) -> str:
        return f"FeatureSuite({list(self.names)!r}, language={self.language!r})"

    def score(
        self,
        dataset: DatasetLike,
        run: Run,
        *,
        cluster: Cluster = None,
        recurring: Collection[str] | None = None,
        n_jobs: int = 1,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> FeatureTable:
        """Compute every feature for every response of a run.

        Args:
            dataset: The queries, or the language of bundled ones; the table has one row per query,
                in their order.
            run: The responses. If a query has no response, or the model failed on it, the row is
                NaN and the reason is recorded. If the model answered several times, each value is
                the mean over the repeats for which it can be computed. The table's ``repeats`` then
                contains the values of each repeat.
            cluster: The clusters of dependent queries, if they differ from :attr:`Query.cluster
                <mirage.Query>`: a key of the queries' metadata, a function that takes a query and
                returns the name of its cluster, or a mapping from query ids to such names. In the
                confidence intervals of means, a cluster counts as one query.
            recurring: Sentences that count as part of a template and are not scored, as
                :func:`mirage.text.recurring.recurring_sentences` returns them. By default those
                that at least half of the answers of the run contain.
            n_jobs: Number of processes, as in joblib. The result does not depend on it.
            executor: Executor whose workers compute the features instead of local processes; the
                result is the same. Models that score pairs of texts are loaded on the workers, but
                :func:`answer_similarity` is computed in this process.
            progress: Whether to show a progress bar.

        Returns:
            The features, with one row per query.

        Raises:
            SettingError: ``n_jobs`` is 0.
            UnknownNameError: ``cluster`` is a key that the metadata of no query has, or a mapping
                with an id that no query has.
            FeatureError: Suite, dataset and run differ in language, or the run answers a query that
                the dataset does not have. Also if a feature raises an exception or returns
                something other than one number per response; the message names the feature, the
                query and the model.
        """
        tables = self.score_all(
            dataset,
            [run],
            cluster=cluster,
            recurring=recurring,
            n_jobs=n_jobs,
            executor=executor,
            progress=progress,
        )
        return tables[0]

    @rare_collection()
    def score_all(
        self,
        dataset: DatasetLike,
        runs: Iterable[Run],
        *,
        cluster: Cluster = None,
        recurring: Collection[str] | None = None,
        n_jobs: int = 1,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> list[FeatureTable]:
        """Compute every feature for every response of several runs.

        The tables equal those of :meth:`score`, in the order of the runs. One call takes less time
        than a call of :meth:`score` per run, because the passages of a query are read only once for
        the responses of all runs.

        Args:
            dataset: The queries, or the language of bundled ones.
            runs: The responses of each model.
            cluster: The clusters of dependent queries: a metadata key, a function or a mapping; see
                :meth:`score`. By default :attr:`Query.cluster <mirage.Query>`.
            recurring: Sentences that are not scored in any run; see :meth:`score`.
            n_jobs: Number of processes, as in joblib.
            executor: Executor whose workers compute the features instead of local processes.
            progress: Whether to show a progress bar.

        Returns:
            One table per run.

        Raises:
            SettingError: ``n_jobs`` is 0.
            UnknownNameError: ``cluster`` is a key that the metadata of no query has, or a mapping
                with an id that no query has.
            FeatureError: Suite, dataset and runs differ in language, a run answers a query that the
                dataset does not have, or a feature fails.

        Example:
            >>> from mirage import FeatureSuite, MirageDataset, Query, Response, Run
            >>> dataset = MirageDataset([Query(id="q", language="en", text="Who wrote Emma?")])
            >>> runs = [
            ...     Run(model=text, language="en", responses=[Response(query_id="q", text=text)])
            ...     for text in ("Austen", "Jane Austen did")
            ... ]
            >>> tables = FeatureSuite("answer_length").score_all(dataset, runs, progress=False)
            >>> [table.values.round(1).tolist() for table in tables]
            [[[1.9]], [[2.8]]]
        """
        if n_jobs == 0:
            raise SettingError(
                "n_jobs must be a number of processes, or -1 for one per core, got 0"
            )
        dataset, runs = as_dataset(dataset), list(runs)
        for run in runs:
            self._check(dataset, run)
        clusters = clusters_of(dataset, cluster)
        # Each repeat is a run with one response per query, so it is scored like any other run.
        repeats = [repeat for run in runs for repeat in run.repeats]
        gaps = [missing_responses(dataset, run) for run in repeats]
        template = None if recurring is None else frozenset(recurring)
        pairs = [
            pairs_of(dataset, run, gaps_of, template)
            for run, gaps_of in zip(repeats, gaps, strict=True)
        ]
        rows: list[dict[str, Row]] = [
            {id_: [NotComputed(why)] * len(self) for id_, why in gaps_of.items()}
            for gaps_of in gaps
        ]
        label = runs[0].model if len(runs) == 1 else f"{len(runs)} models"
        with progress_bar(sum(map(len, pairs)), f"features of {label}", progress) as bar:
            models = [run.model for run in repeats]
            for part in iterate_rows(
                self.features, jobs_of(dataset, models, pairs), n_jobs, executor
            ):
                for (number, query_id), row in part.items():
                    rows[number][query_id] = row
                bar.update(len(part))
        tables = iter(
            [
                self._table(dataset, run.model, rows_of_run, clusters)
                for run, rows_of_run in zip(repeats, rows, strict=True)
            ]
        )
        return [average_repeats([next(tables) for _ in run.repeats]) for run in runs]

    def _table(
        self,
        dataset: MirageDataset,
        model: str,
        rows: Mapping[str, Row],
        clusters: Mapping[str, str],
    ) -> FeatureTable:
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
        declared_facts = {name: entry for name, entry in self.facts.items() if entry != facts(name)}
        return FeatureTable(
            model,
            dataset.language,
            dataset.query_ids,
            names,
            values,
            reasons,
            declared_facts,
            clusters,
            retry=frozenset(retry),
        )

    def _check(self, dataset: MirageDataset, run: Run) -> None:
        if run.language != dataset.language:
            raise FeatureError(
                f"run of model {run.model!r} is in {run.language!r}, but {dataset.name} is in "
                f"{dataset.language!r}; score it with a dataset in its own language"
            )
        if self.language not in (None, dataset.language):
            raise FeatureError(
                f"this suite is for {self.language!r}, but {dataset.name} is in "
                f"{dataset.language!r}; create a suite for that language"
            )
        ids = set(dataset.query_ids)
        for response in run:
            if response.query_id not in ids:
                raise FeatureError(
                    f"run of model {run.model!r} answers query {response.query_id!r}, which "
                    f"{dataset.name} does not have; score the run with the dataset whose queries "
                    "it answers"
                )


def average_repeats(tables: Sequence[FeatureTable]) -> FeatureTable:
    """Combine the tables of all repeats into one table, whose values are means over repeats."""
    if len(tables) == 1:
        return tables[0]
    repeats = np.stack([table.values for table in tables])
    # np.nanmean would warn about queries without any value.
    present = ~np.isnan(repeats)
    totals, counts = np.where(present, repeats, 0.0).sum(axis=0), present.sum(axis=0)
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


def _as_several(features: FeatureLike | Iterable[FeatureLike]) -> Iterable[FeatureLike]:
    several = isinstance(features, Iterable) and not isinstance(features, str)
    return cast("Iterable[FeatureLike]", features if several else (features,))


def _as_feature(item: FeatureLike) -> Feature:
    if isinstance(item, str):
        return feature(item)
    if isinstance(item, type) or not (isinstance(item, Feature) or callable(item)):
        raise FeatureError(
            f"{item!r} is not a feature: give the name of a feature, a function (query, response) "
            "-> float, or an object with a name and a method 'compute'"
        )
    computable = item if isinstance(item, Feature) else FunctionFeature(item)
    if not isinstance(computable.name, str) or computable.name in ("", "<lambda>"):
        raise FeatureError(
            f"{item!r} has no name, which a feature needs; wrap it in FunctionFeature(function, "
            "name=...)"
        )
    return computable
