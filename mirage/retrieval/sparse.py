"""Retrieval by weights of terms that a model has learned to give."""

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

__all__ = ["SparseRetriever"]

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
    """Finds passages by the terms that a learned sparse model gives them, from an index on disk.

    As SPLADE (Formal et al. 2021, arXiv 2107.05720): the model weighs every term of its vocabulary
    for a question and for a passage, written or not, and the score is the sum of the products.
    Passages that share no term with the question are not found; equal scores stand in the order of
    the corpus. Weights are kept as SciPy's sparse matrices, and a shard of them is in memory at a
    time. Build one with :meth:`build`, open it with :meth:`open`; both take the ``embedder``,
    and :meth:`open` explains ``verify``.
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
            raise DatasetError(f"{folder} is a {KIND} of another format; build it anew")
        self.folder, self.corpus, self.embedder = folder, corpus, embedder
        self.fingerprint: str = manifest["key"]
        if self.fingerprint != _key(corpus, embedder):
            raise DatasetError(
                f"{folder} is an index of another corpus than {corpus}, or by another model than "
                f"{embedder!r}; build it anew"
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
        """Encode a corpus into a folder, and open the index.

        It is built as a :class:`~mirage.retrieval.DenseRetriever` is: beside its place, in shards
        of 1,024 passages; a build that was killed goes on; an index of another corpus or model is
        replaced.

        Args:
            corpus: the passages; passages that are no corpus become a temporary one.
            folder: where to; ``None`` keeps the index in a temporary folder until the program ends
                or the object is gone.
            embedder: gives the weights; the name or folder of a model is a
                :class:`~mirage.neural.SparseEmbedder`.
            executor: whose workers encode the passages; by default that is done here.
            progress: show a progress bar on stderr, if that is a terminal.

        Raises:
            NeuralError: the model cannot be loaded, or fails on a passage.
            DatasetError: the folder holds something else, cannot be written, or another process
                builds there.
            MissingPackageError: the extra ``neural`` is not installed.
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

        place, goes_with = build_folder(folder, KIND, key, fill)
        retriever = cls(place, corpus, model, verify=False)
        goes_with(retriever)
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
        """Open an index; its files are read when questions need them.

        Args:
            folder: The folder that :meth:`build` wrote.
            corpus: The corpus that it was built from.
            embedder: The model that made its weights.
            verify: Check the SHA-256 of every file, which reads them all once (about a second per
                GB). If false, only sizes are checked.

        Raises:
            DatasetError: There is no index, a file of it is missing or damaged, or it is an index
                of another corpus or by another model.
        """
        return cls(Path(folder), corpus, _as_embedder(embedder), verify=verify)

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        return f"SparseRetriever({len(self)} passages, {self.embedder!r})"

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return the best ``k`` passages for each query; see :class:`mirage.retrieval.Retriever`.

        Raises:
            SettingError: ``k`` is below 1.
            NeuralError: The model fails on a question.
            DatasetError: A file of the index is damaged.
        """
        if k < 1:
            raise SettingError(f"a search gives 1 passage or more, not {k}")
        asked = list(queries)
        with during(f"{self.embedder!r} on {len(asked)} questions to {self.corpus}"):
            questions = self.embedder.queries([query.text for query in asked]).T.tocsc()
        best = [Nearest(np.zeros(0, np.int64), np.zeros(0))] * len(asked)
        for start, path in self._shards.items():
            weights = _read(path, len(shard_rows(self.corpus, start)), questions.shape[0])
            products = (weights @ questions).tocsc()
            for i, (rows, scores) in enumerate(best):
                column = slice(products.indptr[i], products.indptr[i + 1])
                found = products.indices[column].astype(np.int64) + start
                both = (
                    np.concatenate([rows, found]),
                    np.concatenate([scores, products.data[column]]),
                )
                best[i] = Nearest(*both).top(k)
        return RetrievalRun(
            {query.id: self._hits(each) for query, each in zip(asked, best, strict=True)},
            self.name,
        )

    def _hits(self, found: Nearest) -> Hits:
        some = found.scores > 0
        ids = self.corpus.ids_at(found.rows[some])
        return Hits(tuple(ids), found.scores[some].astype(np.float64))


def _as_embedder(embedder: SparseEmbedder | str | Path) -> SparseEmbedder:
    return SparseEmbedder(embedder) if isinstance(embedder, str | Path) else embedder


def _key(corpus: Corpus, embedder: SparseEmbedder) -> str:
    facts = json.dumps([FORMAT, corpus.fingerprint, embedder.fingerprint])
    return hashlib.sha256(facts.encode()).hexdigest()


def _shard_bytes(weights: csr_array) -> bytes:
    """Return the content of the file of a shard."""
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
    """Read a shard; SciPy follows its numbers without checking them.

    Args:
        path: The file.
        rows: The number of passages.
        terms: The size of the vocabulary; ``None`` if unknown.

    Raises:
        DatasetError: The file is damaged.
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
        raise DatasetError(f"{path}: damaged; delete {path.parent} and build the {KIND} anew")
    return csr_array((data, indices, indptr), shape=shape)
