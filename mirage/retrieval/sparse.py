"""Learned sparse retrieval, which scores passages by term weights that a model predicts."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from mirage._base.arrays import are_ends, are_within
from mirage._base.stores import (
    ArrayType,
    FieldTypes,
    build_folder,
    read_arrays,
    read_manifest,
    write_manifest,
)
from mirage.corpus import Corpus
from mirage.errors import DatasetError, SettingError, during
from mirage.executors import Executor
from mirage.models import Passage, Query
from mirage.neural import SparseEmbedder
from mirage.retrieval._exact import Nearest
from mirage.retrieval._shards import deleting_damaged, fill_shards, shard_rows, shard_starts
from mirage.retrieval.run import Hits, RetrievalRun

if TYPE_CHECKING:
    from scipy.sparse import csr_array

KIND = "sparse index"
FORMAT = 1
SUFFIX = ".npz"

_FIELDS: FieldTypes = {"format": int, "key": str}
_ARRAYS = {
    "indices": ArrayType(np.int32),
    "data": ArrayType(np.float32),
    "shape": ArrayType(np.int64, (2,)),
}


class SparseRetriever:
    """A retriever that ranks passages by term weights that a model predicts; its index is on disk.

    The method follows SPLADE (Formal et al. 2021, arXiv 2107.05720). For a question or a
    passage, the model predicts a weight for each term of its vocabulary, even if the text does not
    contain the term. The score of a passage is the dot product of the term weights of the passage
    and the question. Passages without a positive score are not retrieved; passages with equal
    scores keep the order of the corpus. The weights are stored as SciPy sparse matrices, one per
    1,024 passages. A search loads one of these matrices at a time.

    Create an index with :meth:`build`, and load it with :meth:`open`.

    Args:
        folder: The folder of the index.
        corpus: The corpus from which the index was built.
        embedder: The model that predicted the term weights of the index.
        verify: Whether to check the SHA-256 of every file; see :meth:`open`.
    """

    name = "sparse"

    def __init__(
        self, folder: Path, corpus: Corpus, embedder: SparseEmbedder, *, verify: bool = True
    ) -> None:
        starts = shard_starts(len(corpus))
        self._shards = {start: folder / f"{start:012}{SUFFIX}" for start in starts}
        names = [path.name for path in self._shards.values()]
        manifest = read_manifest(folder, KIND, _FIELDS, files=names, verify=verify)
        if manifest["format"] != FORMAT:
            raise DatasetError(
                f"{folder}: the {KIND} was built by a different version of mirage, in a different "
                "format; build it again"
            )
        self.folder, self.corpus, self.embedder = folder, corpus, embedder
        self.fingerprint: str = manifest["key"]
        if self.fingerprint != _key(corpus, embedder):
            raise DatasetError(
                f"{folder} was built from a different corpus or with a different model (expected "
                f"{corpus} and {embedder!r}); build it again"
            )

    @classmethod
    def build(
        cls,
        corpus: Corpus | Iterable[Passage],
        folder: str | Path | None = None,
        *,
        embedder: SparseEmbedder | str | Path,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Self:
        """Encode a corpus, write the index to a folder, and open it.

        The index is built in shards of 1,024 passages in a temporary folder, and moved to
        ``folder`` when it is complete. If a build was interrupted, the next one continues with the
        missing shards. An existing index is opened if it matches the corpus and the model, and
        replaced otherwise.

        Args:
            corpus: The passages; an iterable of passages is first written to a temporary corpus.
            folder: The folder of the index. ``None`` keeps the index in a temporary folder, which
                is deleted when the program ends or the object is garbage collected.
            embedder: The model that predicts the term weights: a
                :class:`~mirage.neural.SparseEmbedder`, or the name or folder of its model.
            executor: The executor whose workers encode the passages; by default this process
                encodes them.
            progress: Whether to show a progress bar if stderr is a terminal.

        Raises:
            NeuralError: The model cannot be loaded, or fails on a passage.
            DatasetError: The folder contains something other than an index, cannot be written, or
                is in use by another build.
            MissingPackageError: The extra ``neural`` is not installed.
        """
        if not isinstance(corpus, Corpus):
            corpus = Corpus.build(corpus)
        model = _as_embedder(embedder)
        key = _key(corpus, model)

        def shard(passages: Sequence[Passage]) -> bytes:
            weights = model.passages([passage.titled_text for passage in passages])
            return _shard_bytes(weights)

        def fill(part: Path) -> None:
            paths = fill_shards(corpus, part, SUFFIX, shard, model, progress, executor)
            for start, path in zip(shard_starts(len(corpus)), paths, strict=True):
                with deleting_damaged(path):
                    _read(path, len(shard_rows(corpus, start)))
            write_manifest(part, KIND, {"format": FORMAT, "key": key})

        index_folder, delete_with = build_folder(folder, KIND, key, fill)
        retriever = cls(index_folder, corpus, model, verify=False)
        delete_with(retriever)
        return retriever

    @classmethod
    def open(
        cls,
        folder: str | Path,
        corpus: Corpus,
        embedder: SparseEmbedder | str | Path,
        *,
        verify: bool = True,
    ) -> Self:
        """Open an index; its files are read only when questions are searched.

        Args:
            folder: The folder that :meth:`build` wrote.
            corpus: The corpus from which the index was built.
            embedder: The model that predicted the term weights of the index.
            verify: Whether to check the SHA-256 of every file of the index. This reads all files
                once, which takes about a second per GB. If false, only the sizes of the files are
                checked.

        Raises:
            DatasetError: There is no index in the folder, a file of the index is missing or
                damaged, or it was built from a different corpus or with a different model.
        """
        return cls(Path(folder), corpus, _as_embedder(embedder), verify=verify)

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        return f"SparseRetriever({len(self)} passages, {self.embedder!r})"

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return the best ``k`` passages for each query, or fewer if fewer match.

        Args:
            queries: The queries.
            k: The number of passages to retrieve for each query.

        Raises:
            SettingError: ``k`` is below 1.
            NeuralError: The model fails on a question.
            DatasetError: A file of the index is damaged.
        """
        if k < 1:
            raise SettingError(f"k must be at least 1, got {k}")
        batch = list(queries)
        with during(f"{self.embedder!r} on {len(batch)} questions to {self.corpus}"):
            questions = self.embedder.queries([query.text for query in batch]).T.tocsc()
        best = [Nearest(np.zeros(0, np.int64), np.zeros(0))] * len(batch)
        for start, path in self._shards.items():
            weights = _read(path, len(shard_rows(self.corpus, start)), questions.shape[0])
            products = (weights @ questions).tocsc()
            for i, (rows, scores) in enumerate(best):
                column = slice(products.indptr[i], products.indptr[i + 1])
                new_rows = products.indices[column].astype(np.int64) + start
                both = (
                    np.concatenate([rows, new_rows]),
                    np.concatenate([scores, products.data[column]]),
                )
                best[i] = Nearest(*both).top(k)
        return RetrievalRun(
            {query.id: self._hits(each) for query, each in zip(batch, best, strict=True)},
            self.name,
        )

    def _hits(self, best: Nearest) -> Hits:
        positive = best.scores > 0
        ids = self.corpus.ids_at(best.rows[positive])
        return Hits(tuple(ids), best.scores[positive].astype(np.float64))


def _as_embedder(embedder: SparseEmbedder | str | Path) -> SparseEmbedder:
    return SparseEmbedder(embedder) if isinstance(embedder, str | Path) else embedder


def _key(corpus: Corpus, embedder: SparseEmbedder) -> str:
    settings = json.dumps([FORMAT, corpus.fingerprint, embedder.fingerprint])
    return hashlib.sha256(settings.encode()).hexdigest()


def _shard_bytes(weights: csr_array) -> bytes:
    """Return the content of the shard file that stores these term weights."""
    file = io.BytesIO()
    np.savez(
        file,
        indices=weights.indices.astype(np.int32),
        indptr=weights.indptr.astype(np.int32),
        data=weights.data.astype(np.float32),
        shape=np.array(weights.shape, np.int64),
    )
    return file.getvalue()


def _read(path: Path, rows: int, terms: int | None = None) -> csr_array:
    """Read the term weights of a shard, and check the indices, because SciPy does not check them.

    Args:
        path: The file of the shard.
        rows: The number of passages in the shard.
        terms: The number of terms that the vocabulary must have; ``None`` allows any.
    """
    from scipy.sparse import csr_array

    arrays = read_arrays(path, _ARRAYS | {"indptr": ArrayType(np.int32, (rows + 1,))})
    indices, indptr, data = arrays["indices"], arrays["indptr"], arrays["data"]
    shape = arrays["shape"].tolist()
    sound = (
        shape[0] == rows
        and 0 < shape[1] <= np.iinfo(np.int32).max
        and terms in (None, shape[1])
        and len(indices) == len(data)
        and are_ends(indptr, len(indices))
        and are_within(indices, shape[1])
        and bool(np.isfinite(data).all())
    )
    if not sound:
        raise DatasetError(f"{path}: damaged; delete {path.parent} and build the {KIND} again")
    return csr_array((data, indices, indptr), shape=shape)
