"""Retrieval-augmented generation systems that combine a retriever and a generator."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path

from mirage._base.near_names import NearNames
from mirage.dataset import DatasetLike, MirageDataset, as_dataset
from mirage.errors import SettingError
from mirage.executors import Executor
from mirage.generation import Answer, Generator, respond
from mirage.generation.callables import CallableGenerator
from mirage.generation.repeats import again
from mirage.models import Passage, Query, Run
from mirage.retrieval import ContextProcessor, Reranker, RetrievalRun, Retriever


class Pipeline(NearNames):
    """A RAG system: a retriever, an optional reranker and context processor, and a generator.

    A pipeline is a :class:`~mirage.Generator`, so it can be passed to every function that takes a
    generator, such as :meth:`mirage.Leaderboard.rank`. It ignores the passages of the queries, and
    shows the generator the passages that it retrieves. Citations are measured against the retrieved
    passages.

    Args:
        retriever: Retriever that finds the passages. With ``None``, the generator gets no passages
            (closed book).
        reranker: Reranker that reorders the first ``rerank_k`` passages; ``None`` keeps the order
            of the retriever.
        processor: Processor that changes the first ``show_k`` passages before they are shown, such
            as a :class:`~mirage.retrieval.SentencePruner`.
        generator: Generator, or function of a query, that answers from the shown passages. Only
            :meth:`run` needs it.
        retrieve_k: Number of passages to retrieve per query.
        rerank_k: Number of passages to rerank.
        show_k: Number of passages to show.
        name: Name of the pipeline in runs and rankings. The default consists of the names of its
            components.

    Raises:
        SettingError: If a number of passages is below 1, or if more are shown than reranked or more
            reranked than retrieved.

    Example:
        >>> pipeline = Pipeline(None, generator=lambda query: "The Nile.", name="closed book")
        >>> run = pipeline.run(MirageDataset.bundled("en")[:2], progress=False)
        >>> run["q01"].text
        'The Nile.'
    """

    def __init__(
        self,
        retriever: Retriever | None,
        *,
        reranker: Reranker | None = None,
        processor: ContextProcessor | None = None,
        generator: Generator | Answer | None = None,
        retrieve_k: int = 50,
        rerank_k: int = 50,
        show_k: int = 5,
        name: str = "",
    ) -> None:
        # Without a reranker, rerank_k has no effect and may have any value.
        depths = [retrieve_k, *([rerank_k] if reranker else []), show_k]
        if show_k < 1 or depths != sorted(depths, reverse=True):
            raise SettingError(
                "expected 1 <= show_k <= rerank_k <= retrieve_k (rerank_k only if there is a "
                f"reranker), got show_k={show_k}, rerank_k={rerank_k}, "
                f"retrieve_k={retrieve_k}"
            )
        if generator is not None and not isinstance(generator, Generator):
            generator = CallableGenerator(generator, getattr(generator, "__name__", "generator"))
        self.retriever: Retriever | None = retriever
        self.reranker: Reranker | None = reranker
        self.processor: ContextProcessor | None = processor
        self.generator = generator
        self.retrieve_k: int = retrieve_k
        self.rerank_k: int = rerank_k
        self.show_k: int = show_k
        parts = [part.name for part in (retriever, reranker, processor, generator) if part]
        self.name: str = name or " + ".join([*([] if retriever else ["closed book"]), *parts])

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, show_k={self.show_k})"

    def retrieve(self, dataset: DatasetLike) -> RetrievalRun:
        """Return the passages retrieved for each query, reranked if there is a reranker.

        If the pipeline has no retriever, every query gets an empty result.

        Args:
            dataset: A dataset, the language code of a bundled dataset, or the path of a JSON Lines
                file of queries.
        """
        dataset = as_dataset(dataset)
        if self.retriever is None:
            return RetrievalRun.of({query.id: {} for query in dataset}, self.name)
        run = self.retriever.retrieve(dataset, self.retrieve_k)
        if self.reranker is None:
            return run
        return self.reranker.rerank(run, self.retriever.corpus, dataset, self.rerank_k)

    def show(self, dataset: DatasetLike, run: RetrievalRun | None = None) -> MirageDataset:
        """Return the queries of a dataset with the retrieved passages instead of their own.

        The relevance judgments, the reference and the gold answers of each query are kept.

        Args:
            dataset: A dataset, the language code of a bundled dataset, or the path of a JSON Lines
                file of queries.
            run: Result of :meth:`retrieve` for these queries. By default, the passages are
                retrieved first.
        """
        dataset = as_dataset(dataset)
        retrieval_run = self.retrieve(dataset) if run is None else run
        return MirageDataset(
            (
                query.model_copy(
                    update={"passages": tuple(self._select_passages(query, retrieval_run))}
                )
                for query in dataset
            ),
            name=dataset.name,
            retrieved=True,
        )

    def again(self, number: int) -> Pipeline:
        """Return a copy of the pipeline that gives new answers, for another repeat.

        Args:
            number: Number of the repeat, counted from 0; see
                :attr:`Response.repeat <mirage.Response>`.
        """
        repeated = copy(self)
        repeated.generator = None if self.generator is None else again(self.generator, number)
        return repeated

    def run(
        self,
        dataset: DatasetLike,
        *,
        out: str | Path | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Run:
        """Retrieve passages for every query, and return a run with the generated responses.

        Each response contains the passages that it was generated from.

        Args:
            dataset: A dataset, the language code of a bundled dataset, or the path of a JSON Lines
                file of queries.
            out: JSON Lines file to which each response is appended. A query is not answered again
                if the file already has an answer that was generated from the same passages. Queries
                that failed are tried again. If the file was written with another generator, prompt
                or question, an error is raised. ``None`` writes no file.
            executor: Executor whose workers generate the responses, as in :func:`mirage.respond`.
                Passages are retrieved and reranked in this process. By default this process does
                everything.
            progress: Whether to show a progress bar.

        Raises:
            SettingError: If the pipeline has no generator.
            DatasetError: If ``out`` has answers of another generator, or to other questions.
        """
        if self.generator is None:
            raise SettingError(
                f"pipeline {self.name!r} has no generator, so it cannot answer queries; pass "
                "generator=, or use the passages that .show(dataset) returns"
            )
        queries_with_passages = self.show(dataset)
        return respond(
            self.generator,
            queries_with_passages,
            self.name,
            out=out,
            executor=executor,
            progress=progress,
        )

    def _select_passages(self, query: Query, run: RetrievalRun) -> Sequence[Passage]:
        if self.retriever is None:
            return ()
        passages = self.retriever.corpus.get_many(run[query.id].passage_ids[: self.show_k])
        if self.processor is None:
            return passages
        # The processor is part of the evaluated system, so it must not see the ground truth.
        return self.processor.process(query.without_gold(), passages)
