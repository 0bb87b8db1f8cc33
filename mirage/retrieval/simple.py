"""Retrievers without an index: nothing, what people judged relevant, and what was found before."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from mirage._base.passages import document_of
from mirage.corpus import Corpus
from mirage.errors import DatasetError
from mirage.models import Query
from mirage.retrieval.base import Retriever
from mirage.retrieval.run import NO_HITS, Hits, RetrievalRun

__all__ = ["HybridRetriever", "OracleRetriever", "RunRetriever", "relevant_passages"]

_ROWS = 100_000  # ids to read at a time


def relevant_passages(queries: Iterable[Query], corpus: Corpus) -> dict[str, tuple[str, ...]]:
    """Return the passages of a corpus that the qrels of each query name.

    Qrels name passages if the corpus has any of them. Otherwise they name documents, as those of
    KILT do, and every passage of a document is relevant: first the first passage of each document,
    then the second of each, and so on.

    Raises:
        DatasetError: no query has qrels, or the corpus has nothing that they name.
    """
    named = {query.id: query.relevant for query in queries}
    ids = set(chain.from_iterable(named.values()))
    if not ids:
        raise DatasetError(
            "the oracle finds what qrels name, and no query has any; where a system is examined it "
            "gets no gold: make its run first (pipeline.run(dataset)), and rank that"
        )
    if any(id_ in corpus for id_ in ids):
        return {
            query_id: tuple(id_ for id_ in relevant if id_ in corpus)
            for query_id, relevant in named.items()
        }
    parts = _passages_by_document(corpus, ids)
    if not parts:
        raise DatasetError(
            f"{corpus} has none of the {len(ids)} passages or documents that the qrels name, such "
            f"as {min(ids)!r}; give the corpus that the qrels were made on"
        )
    found = {}
    for query_id, documents in named.items():
        by_rank = zip_longest(*(parts.get(document, ()) for document in documents))
        found[query_id] = tuple(id_ for rank in by_rank for id_ in rank if id_ is not None)
    return found


def _passages_by_document(corpus: Corpus, documents: Collection[str]) -> Mapping[str, list[str]]:
    """Return the ids of the passages of each document that a corpus has."""
    by_id: dict[str, list[str]] = {}
    for start in range(0, len(corpus), _ROWS):
        for id_ in corpus.ids_at(range(start, min(start + _ROWS, len(corpus)))):
            if (document := document_of(id_)) in documents:
                by_id.setdefault(document, []).append(id_)
    if by_id:
        return by_id
    for passage in corpus:  # whose ids do not say their document
        if passage.document_id in documents:
            by_id.setdefault(passage.document_id, []).append(passage.id)
    return by_id


class OracleRetriever:
    """Finds the passages that the qrels of a query name: the best that retrieval could do.

    Passages that the corpus lacks are left out. If the qrels name documents, their passages are
    found. It is the one retriever that looks at the gold of a query, and for measuring what perfect
    retrieval would be worth alone (BERGEN, Rau et al. 2024, arXiv 2407.01102, section 4.1).
    """

    name = "oracle"

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.fingerprint: str = f"oracle {corpus.fingerprint}"

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return the first ``k`` relevant passages of each query, in the order of its qrels.

        Raises:
            DatasetError: no query has qrels, as none has that is handed to a system, or the corpus
                has nothing that they name.
        """
        found = relevant_passages(queries, self.corpus)
        return RetrievalRun({id_: _in_order(ids[:k]) for id_, ids in found.items()}, self.name)


def _in_order(ids: tuple[str, ...]) -> Hits:
    return Hits(ids, np.arange(len(ids), 0, -1, dtype=float))


class RunRetriever:
    """Finds what a run holds, such as a run file of another system.

    Args:
        run: the run, or the path of a run file (:meth:`RetrievalRun.read`).
        corpus: the passages that it names.
        name: what runs call it; by default the run's own name.

    Raises:
        DatasetError: the file cannot be read, or the run names a passage that the corpus lacks.
    """

    def __init__(self, run: RetrievalRun | str | Path, corpus: Corpus, name: str = "") -> None:
        self.run: RetrievalRun = run if isinstance(run, RetrievalRun) else RetrievalRun.read(run)
        self.corpus: Corpus = corpus
        self.name: str = name or self.run.name
        for query_id, (ids, _) in self.run.items():
            strange = next((id_ for id_ in ids if id_ not in corpus), None)
            if strange is not None:
                raise DatasetError(
                    f"run {self.name!r} ranks passage {strange!r} for query {query_id!r}, which "
                    f"{corpus} does not have; give the corpus that the run was made on"
                )

    @property
    def fingerprint(self) -> str:
        """Of the run's passages and scores, and the corpus."""
        digest = hashlib.sha256(self.corpus.fingerprint.encode())
        for query_id, (ids, scores) in self.run.items():
            digest.update(repr((query_id, ids)).encode())
            digest.update(scores.tobytes())
        return digest.hexdigest()

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """The first ``k`` passages of the run for each query, none where the run lacks it."""
        found = {query.id: self.run.get(query.id) for query in queries}
        hits = {id_: (each or NO_HITS).top(k) for id_, each in found.items()}
        return RetrievalRun(hits, self.name)


class HybridRetriever:
    """Several retrievers as one, by reciprocal rank fusion; see :meth:`RetrievalRun.fuse`.

    Args:
        retrievers: two or more, on one corpus.
        depth: passages that each is asked for before they are fused.
        k: the constant of the fusion.

    Raises:
        DatasetError: their corpora differ, or there are none.
    """

    def __init__(self, *retrievers: Retriever, depth: int = 100, k: int = 60) -> None:
        prints = {retriever.corpus.fingerprint for retriever in retrievers}
        if len(prints) != 1:
            raise DatasetError(
                f"a hybrid is made of retrievers on one corpus; these {len(retrievers)} have "
                f"{len(prints)}"
            )
        self.retrievers: tuple[Retriever, ...] = retrievers
        self.depth: int = depth
        self.k: int = k
        self.corpus: Corpus = retrievers[0].corpus
        self.name: str = "+".join(retriever.name for retriever in retrievers)

    @property
    def fingerprint(self) -> str:
        """Of all of them, the depth and the constant."""
        return repr(([each.fingerprint for each in self.retrievers], self.depth, self.k))

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """The best ``k`` passages of the fused run for each query."""
        asked = list(queries)
        first, *others = (each.retrieve(asked, max(k, self.depth)) for each in self.retrievers)
        return first.fuse(*others, k=self.k, name=self.name).top(k)
