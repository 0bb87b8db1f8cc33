"""Retrieval by the words that a question and a passage share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage.corpus import Corpus
from mirage.errors import DatasetError, SettingError, needing
from mirage.languages import Language
from mirage.models import Passage, Query
from mirage.retrieval.run import Hits, RetrievalRun
from mirage.text import tokenize

__all__ = ["BM25", "Hit"]


class Hit(NamedTuple):
    """A passage that was found, with its score."""

    passage: Passage
    score: float


class BM25:
    """Finds passages of a corpus by BM25 (Robertson and Zaragoza 2009), with bm25s.

    Terms are the tokens of :func:`mirage.text.tokenize`, of title and text together, so it works
    in all 18 languages; in those that write no spaces (Japanese, Thai, Chinese) a term is a
    character. With ``f`` the count of a term in a passage of ``l`` terms, ``L`` the mean of ``l``,
    and ``d`` of the ``n`` passages having the term, every occurrence of it in the question adds ::

        log(1 + (n - d + 0.5) / (d + 0.5)) * f / (f + k1 * (1 - b + b * l / L))

    the form of Lucene in Kamphuis et al. 2020. Needs the extra ``retrieval``.

    Args:
        passages: the corpus; it is kept in memory.
        k1: from which count on a term that is repeated adds little.
        b: how much long passages are held back, from 0 to 1. Both defaults are those of Anserini,
            by which MIRACL's baseline was run.

    Raises:
        DatasetError: no passage, two of one id, or no word in any of them.
        SettingError: ``k1`` or ``b`` is not in its range.
        UnknownNameError: no such language.
        MissingPackageError: the extra is not installed.
    """

    corpus: Corpus

    def __init__(
        self, passages: Iterable[Passage], language: str | None, *, k1: float = 0.9, b: float = 0.4
    ) -> None:
        with needing("bm25s", "retrieval"):
            import bm25s
        if not (0 <= k1 < np.inf and 0 <= b <= 1):
            raise SettingError(f"k1 is 0 or more and b from 0 to 1, not {k1} and {b}")
        self.passages = tuple(passages)
        self.language = None if language is None else Language.of(language).code
        self.k1, self.b = k1, b
        self._row = {passage.id: row for row, passage in enumerate(self.passages)}
        if len(self._row) < len(self.passages):
            twice = next(p.id for row, p in enumerate(self.passages) if self._row[p.id] != row)
            raise DatasetError(f"the corpus holds passage {twice!r} twice; passage ids are unique")
        self._number: dict[str, int] = {}
        rows = [self._numbered(f"{passage.title}\n{passage.text}") for passage in self.passages]
        if not self._number:
            raise DatasetError("the corpus has no passage with a word in it")
        self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
        self._index.index((rows, self._number), create_empty_token=False, show_progress=False)

    def _numbered(self, text: str) -> list[int]:
        """The terms of a passage as numbers, those that are new with the next one."""
        number = self._number
        return [number.setdefault(term, len(number)) for term in tokenize(text, self.language)]

    @classmethod
    def build(
        cls, corpus: Corpus, *, language: str | None = None, k1: float = 0.9, b: float = 0.4
    ) -> Self:
        """An index of a corpus, in memory."""
        index = cls(corpus, language or corpus.language, k1=k1, b=b)
        index.corpus = corpus
        return index

    @property
    def name(self) -> str:
        """``BM25``."""
        return "BM25"

    @property
    def fingerprint(self) -> str:
        """Of the corpus and the settings."""
        return repr(("BM25", self.corpus.fingerprint, self.language, self.k1, self.b))

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """The best ``k`` passages for each query."""
        hits = {}
        for query in queries:
            found = self.search(query.text, k)
            scores = np.array([hit.score for hit in found], dtype=float)
            hits[query.id] = Hits(tuple(hit.passage.id for hit in found), scores)
        return RetrievalRun(hits, self.name)

    def __len__(self) -> int:
        return len(self.passages)

    def __contains__(self, passage_id: object) -> bool:
        return passage_id in self._row

    def __getitem__(self, passage_id: str) -> Passage:
        return self.passages[self._row_of(passage_id)]

    def __repr__(self) -> str:
        return f"BM25({len(self)} passages, language={self.language!r}, k1={self.k1}, b={self.b})"

    def scores(self, question: str, passage_ids: Iterable[str]) -> list[float]:
        """The scores of ``passage_ids``, in order; 0 for one that shares no term with the question.

        Raises:
            DatasetError: the corpus has no such passage.
        """
        rows = [self._row_of(passage_id) for passage_id in passage_ids]
        return [float(score) for score in self._scores(question)[rows]]

    def search(self, question: str, k: int) -> list[Hit]:
        """The ``k`` passages with the highest scores, best first; of equal ones the earlier.

        Fewer where fewer share a term with the question.

        Raises:
            SettingError: ``k`` is below 1.
        """
        if k < 1:
            raise SettingError(f"a search gives 1 passage or more, not {k}")
        scores = self._scores(question)
        rows = np.flatnonzero(scores > 0)
        best = rows[np.argsort(-scores[rows], kind="stable")[:k]]
        return [Hit(self.passages[row], float(scores[row])) for row in best]

    def _scores(self, question: str) -> NDArray[np.float32]:
        terms = tokenize(question, self.language)
        numbers = [self._number[term] for term in terms if term in self._number]
        return np.asarray(self._index.get_scores_from_ids(numbers))

    def _row_of(self, passage_id: str) -> int:
        if passage_id not in self._row:
            raise DatasetError(f"passage {passage_id!r} is not in the corpus")
        return self._row[passage_id]
