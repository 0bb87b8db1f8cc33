"""The interfaces of retrievers, rerankers and context processors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from mirage.corpus import Corpus
from mirage.models import Passage, Query
from mirage.retrieval.run import RetrievalRun


@runtime_checkable
class Retriever(Protocol):
    """The interface of objects that find passages of a corpus."""

    @property
    def name(self) -> str:
        """The name of the retriever, which is also the name of its runs (results)."""

    @property
    def corpus(self) -> Corpus:
        """The corpus that the retriever searches."""

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever the retriever might return other results.

        It depends on the corpus, the model and the settings.
        """

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return the best ``k`` passages for each query, or fewer if fewer match.

        The returned run has an entry for every query, which is empty if no passage matches. The
        score of a passage must depend only on the query and the corpus, not on the other queries.

        Args:
            queries: The queries.
            k: The number of passages to retrieve for each query.
        """


@runtime_checkable
class Reranker(Protocol):
    """The interface of objects that reorder the best passages of a run."""

    @property
    def name(self) -> str:
        """The name of the reranker, which is added to the name of the reranked run."""

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever the reranker might order passages differently.

        It depends, for example, on the model.
        """

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        """Return a run with only the first ``depth`` passages of each query, in a new order.

        Args:
            run: The retrieved passages, best first.
            corpus: The corpus that contains these passages.
            queries: The queries to rerank.
            depth: The number of passages to rerank for each query; all others are left out.
        """


@runtime_checkable
class ContextProcessor(Protocol):
    """The interface of objects that edit the passages of a query before the generator sees them."""

    @property
    def name(self) -> str:
        """The name of the processor, which is added to the names of runs."""

    def process(self, query: Query, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages to show to the generator, for example shortened copies.

        Args:
            query: The query.
            passages: The passages that would be shown without the processor.

        Returns:
            Passages whose ids are among those of ``passages``.
        """
