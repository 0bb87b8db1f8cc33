"""Retrieval-augmented generation as a system made of parts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path

from mirage.dataset import MirageDataset
from mirage.errors import SettingError
from mirage.executors import Executor
from mirage.generation import Answer, CallableGenerator, Generator, respond
from mirage.generation.repeats import again
from mirage.models import Passage, Query, Run
from mirage.retrieval import ContextProcessor, Reranker, RetrievalRun, Retriever

__all__ = ["Pipeline"]


class Pipeline:
    """A retriever, perhaps a reranker and a context processor, and a generator, as one system.

    It is a :class:`~mirage.Generator`: whatever takes one takes a pipeline, such as
    :meth:`mirage.Leaderboard.rank`. The passages of a dataset's queries are not used: what is shown
    to the generator, and what its citations are measured against, is what the retriever found.

    Args:
        retriever: finds passages; ``None`` shows none (closed book).
        reranker: puts the first ``rerank_k`` of them into a better order.
        processor: makes of the first ``show_k`` what is shown, such as a
            :class:`~mirage.retrieval.SentencePruner`.
        generator: answers from what is shown: a generator, or a function of a query.
        retrieve_k: passages to find a query.
        rerank_k: how many of them to rerank.
        show_k: how many to show.
        name: what runs and rankings call it; by default the names of its parts.

    Raises:
        SettingError: a number of passages is below 1, or more are shown than reranked or found.
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
        depths = [retrieve_k, *([rerank_k] if reranker else []), show_k]
        if show_k < 1 or depths != sorted(depths, reverse=True):
            raise SettingError(
                "a pipeline shows 1 passage or more, no more than it reranks, and reranks no more "
                f"than it finds; these are show_k={show_k}, rerank_k={rerank_k}, "
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

    def retrieve(self, dataset: MirageDataset) -> RetrievalRun:
        """What is found for each query, reranked where there is a reranker."""
        if self.retriever is None:
            return RetrievalRun.of({query.id: {} for query in dataset}, self.name)
        run = self.retriever.retrieve(dataset, self.retrieve_k)
        if self.reranker is None:
            return run
        return self.reranker.rerank(run, self.retriever.corpus, dataset, self.rerank_k)

    def show(self, dataset: MirageDataset, run: RetrievalRun | None = None) -> MirageDataset:
        """The same queries, each showing what was found for it in place of its own passages.

        What a query is measured by stays: its relevant passages, its reference, its answers.

        Args:
            dataset: the queries.
            run: what :meth:`retrieve` gave for them, where it is at hand.
        """
        found = self.retrieve(dataset) if run is None else run
        return MirageDataset(
            (
                query.model_copy(update={"passages": tuple(self._shown(query, found))})
                for query in dataset
            ),
            name=dataset.name,
            retrieved=True,
        )

    def again(self, number: int) -> Pipeline:
        """The pipeline whose generator gives its ``number``-th answer."""
        other = copy(self)
        other.generator = None if self.generator is None else again(self.generator, number)
        return other

    def run(
        self,
        dataset: MirageDataset,
        *,
        out: str | Path | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Run:
        """As :meth:`mirage.Generator.run`; each response says which passages it was made from.

        An ``executor`` has its workers answer, as :func:`mirage.respond` does; passages are found
        and reranked here.

        Raises:
            SettingError: the pipeline has no generator.
        """
        if self.generator is None:
            raise SettingError(
                f"pipeline {self.name!r} finds passages and has nothing that answers; give it a "
                "generator=, or use what .show(dataset) shows"
            )
        shown = self.show(dataset)
        return respond(
            self.generator, shown, self.name, out=out, executor=executor, progress=progress
        )

    def _shown(self, query: Query, run: RetrievalRun) -> Sequence[Passage]:
        if self.retriever is None:
            return ()
        passages = self.retriever.corpus.get_many(run[query.id].passage_ids[: self.show_k])
        if self.processor is None:
            return passages
        return self.processor.process(query.without_gold(), passages)
