"""Retrievers that need no index: they use relevance judgments, a run file, or other retrievers."""

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

_ROWS = 100_000  # number of ids to read at a time; all ids of a large corpus may not fit in memory


def relevant_passages(queries: Iterable[Query], corpus: Corpus) -> dict[str, tuple[str, ...]]:
    """Return, for each query, the ids of the relevant passages that are in a corpus.

    The relevance judgments (qrels) of a query are ids of passages or of documents. If the
    corpus has a passage with an id from the qrels of at least one query, all ids are taken as
    passage ids. Otherwise all ids are taken as document ids, as in KILT, and every passage of these
    documents is relevant. The passages of a query are then ordered as follows: the first passage of
    each document, then the second passage of each, and so on.

    Raises:
        DatasetError: No query has qrels, or the corpus has none of the passages or documents.
    """
    qrels = {query.id: query.relevant for query in queries}
    ids = set(chain.from_iterable(qrels.values()))
    if not ids:
        raise DatasetError(
            "the oracle retriever needs queries with qrels, but no query has any. Leaderboards "
            "hide the qrels from systems, so first call run = pipeline.run(dataset), and then "
            "rank this run"
        )
    if any(id_ in corpus for id_ in ids):
        return {
            query_id: tuple(id_ for id_ in relevant if id_ in corpus)
            for query_id, relevant in qrels.items()
        }
    parts = _passages_by_document(corpus, ids)
    if not parts:
        raise DatasetError(
            f"{corpus} has none of the {len(ids)} passages or documents that the qrels name, such "
            f"as {min(ids)!r}; pass the corpus for which the qrels were made"
        )
    passages = {}
    for query_id, documents in qrels.items():
        by_rank = zip_longest(*(parts.get(document, ()) for document in documents))
        passages[query_id] = tuple(id_ for rank in by_rank for id_ in rank if id_ is not None)
    return passages


def _passages_by_document(corpus: Corpus, documents: Collection[str]) -> Mapping[str, list[str]]:
    """Return the ids of the passages of each document; documents not in the corpus are left out."""
    by_id: dict[str, list[str]] = {}
    for start in range(0, len(corpus), _ROWS):
        for id_ in corpus.ids_at(range(start, min(start + _ROWS, len(corpus)))):
            if (document := document_of(id_)) in documents:
                by_id.setdefault(document, []).append(id_)
    if by_id:
        return by_id
    for passage in corpus:  # passage ids do not contain document ids, so read the passages
        if passage.document_id in documents:
            by_id.setdefault(passage.document_id, []).append(passage.id)
    return by_id


class OracleRetriever:
    """A retriever that returns the relevant passages of each query; it serves as an upper bound.

    It reads the relevance judgments (qrels) of the query, which no other retriever sees. Use it
    only to measure the quality of answers with perfect retrieval (BERGEN, Rau et al. 2024, arXiv
    2407.01102, section 4.1). Passages that are not in the corpus are left out. If the qrels contain
    document ids, the passages of these documents are returned.
    """

    name = "oracle"

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.fingerprint: str = f"oracle {corpus.fingerprint}"

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return the first ``k`` relevant passages of each query.

        The passages are in the order of the qrels. If the qrels contain document ids, the first
        passage of each document comes first, then the second passage of each, and so on.

        Raises:
            DatasetError: No query has qrels, or the corpus has none of the passages in them. The
                queries that a system under test gets have no qrels, so the system cannot use this
                retriever.
        """
        passages = relevant_passages(queries, self.corpus)
        return RetrievalRun(
            {id_: _hits_in_order(ids[:k]) for id_, ids in passages.items()}, self.name
        )


def _hits_in_order(ids: tuple[str, ...]) -> Hits:
    return Hits(ids, np.arange(len(ids), 0, -1, dtype=float))


class RunRetriever:
    """A retriever that returns recorded results, such as the run file of another system.

    Args:
        run: The recorded run, or the path of a run file (see :meth:`RetrievalRun.read`).
        corpus: The corpus that contains the passages of the run.
        name: The name of the retriever; by default the name of ``run``.

    Raises:
        DatasetError: The file cannot be read, or the corpus lacks a passage of the run.
    """

    def __init__(self, run: RetrievalRun | str | Path, corpus: Corpus, name: str = "") -> None:
        self.run: RetrievalRun = run if isinstance(run, RetrievalRun) else RetrievalRun.read(run)
        self.corpus: Corpus = corpus
        self.name: str = name or self.run.name
        for query_id, (ids, _) in self.run.items():
            unknown_id = next((id_ for id_ in ids if id_ not in corpus), None)
            if unknown_id is not None:
                raise DatasetError(
                    f"run {self.name!r}: passage {unknown_id!r} of query {query_id!r} is not in "
                    f"{corpus}; pass the corpus on which the run was made"
                )

    @property
    def fingerprint(self) -> str:
        """A digest of the run's passages and scores, and of the corpus."""
        digest = hashlib.sha256(self.corpus.fingerprint.encode())
        for query_id, (ids, scores) in self.run.items():
            digest.update(repr((query_id, ids)).encode())
            digest.update(scores.tobytes())
        return digest.hexdigest()

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return the first ``k`` recorded passages of each query.

        A query that is not in the recorded run gets no passages.

        Args:
            queries: The queries.
            k: The number of passages to retrieve for each query.
        """
        rankings = {query.id: self.run.get(query.id) for query in queries}
        hits = {id_: (each or NO_HITS).top(k) for id_, each in rankings.items()}
        return RetrievalRun(hits, self.name)


class HybridRetriever:
    """A retriever that combines the results of other retrievers by reciprocal rank fusion.

    :meth:`RetrievalRun.fuse` explains the method.

    Args:
        retrievers: The retrievers, usually two or more; all must have the same corpus.
        depth: The number of passages that each retriever contributes to the fusion. If
            :meth:`retrieve` is called with a larger ``k``, each contributes ``k`` passages.
        k: The constant in the formula of reciprocal rank fusion.

    Raises:
        DatasetError: The retrievers have different corpora, or no retriever is given.

    Example:
        >>> from mirage.models import Passage, Query
        >>> from mirage.retrieval import BM25
        >>> passages = [Passage(id="a", text="Paris is in France."), Passage(id="b", text="Tea")]
        >>> index = BM25.build(passages, language="en", progress=False)
        >>> hybrid = HybridRetriever(index, index)
        >>> hybrid.retrieve([Query(id="q", text="Paris?", language="en")], k=1)["q"].passage_ids
        ('a',)
    """

    def __init__(self, *retrievers: Retriever, depth: int = 100, k: int = 60) -> None:
        fingerprints = {retriever.corpus.fingerprint for retriever in retrievers}
        if len(fingerprints) != 1:
            raise DatasetError(
                "the retrievers of a hybrid retriever must search the same corpus; these "
                f"{len(retrievers)} retrievers search {len(fingerprints)} corpora"
            )
        self.retrievers: tuple[Retriever, ...] = retrievers
        self.depth: int = depth
        self.k: int = k
        self.corpus: Corpus = retrievers[0].corpus
        self.name: str = "+".join(retriever.name for retriever in retrievers)

    @property
    def fingerprint(self) -> str:
        """A string with the fingerprints of the retrievers, the depth and the constant ``k``."""
        return repr(([each.fingerprint for each in self.retrievers], self.depth, self.k))

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return the best ``k`` passages for each query after the fusion.

        Args:
            queries: The queries.
            k: The number of passages to retrieve for each query.
        """
        batch = list(queries)
        first, *rest = (each.retrieve(batch, max(k, self.depth)) for each in self.retrievers)
        return first.fuse(*rest, k=self.k, name=self.name).top(k)
