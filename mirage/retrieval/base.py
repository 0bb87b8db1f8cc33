"""What a retriever is, what reranks what it found, and what is made of that before it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from mirage.corpus import Corpus
from mirage.models import Passage, Query
from mirage.retrieval.run import RetrievalRun

__all__ = ["ContextProcessor", "Reranker", "Retriever"]


@runtime_checkable
class Retriever(Protocol):
    """Anything with these finds passages of a corpus."""

    @property
    def name(self) -> str:
        """What the run calls it."""

    @property
    def corpus(self) -> Corpus:
        """The passages that it finds."""

    @property
    def fingerprint(self) -> str:
        """Changes with whatever changes what is found: corpus, model, settings."""

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """The best ``k`` passages for each query, fewer where fewer are found.

        Every query is in the run, one without hits with no passage. The score of a passage depends
        on the query and the corpus, not on the other queries.
        """


@runtime_checkable
class Reranker(Protocol):
    """Anything with these puts the best of what was found into a better order."""

    @property
    def name(self) -> str:
        """What the run calls it."""

    @property
    def fingerprint(self) -> str:
        """Changes with whatever changes its order."""

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        """The first ``depth`` passages of each query in the new order; the rest is left out.

        Args:
            run: what was found.
            corpus: the passages that it names.
            queries: those to rerank.
            depth: passages to rerank a query.
        """


@runtime_checkable
class ContextProcessor(Protocol):
    """Anything with these makes of a query's passages what the generator is shown."""

    @property
    def name(self) -> str:
        """What the run calls it."""

    def process(self, query: Query, passages: Sequence[Passage]) -> Sequence[Passage]:
        """The passages to show, such as shorter ones; their ids are among those given."""
