"""Lexical retrieval with BM25, which scores passages by the words they share with the question."""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import are_ends, are_within
from mirage._base.files import writing
from mirage._base.progress import progress_bar
from mirage._base.stores import (
    ArrayType,
    FieldTypes,
    build_folder,
    mapped_array,
    read_array,
    read_manifest,
    save_array,
    write_manifest,
    writing_array,
)
from mirage.corpus import Corpus
from mirage.errors import DatasetError, SettingError
from mirage.languages import Language
from mirage.models import Passage, Query
from mirage.retrieval._columns import Columns, Sum, compiled_sum, numpy_sum
from mirage.retrieval._top import top_rows
from mirage.retrieval.run import Hits, RetrievalRun
from mirage.text.analyzers import Analysis, Analyzer, analysis

KIND = "BM25 index"
FORMAT = 1
SHARD = 20_000
"""The number of passages per shard; an interrupted build repeats at most one shard per process."""

BLOCK = 2**24
"""The number of index entries (pairs of term and passage) that are merged in memory at a time.

Each entry takes 8 bytes.
"""

COMPILED = 100_000_000
"""numba is used once an index has computed this many scores (questions times passages).

For fewer scores, compiling (about a second) would take longer than it saves.
"""

KNOWN_TERMS = 2**14
"""The number of terms of earlier questions whose columns an open index remembers.

Questions share many of their words.
"""

Scores = NDArray[np.float32]

_FIELDS: FieldTypes = {
    "format": int,
    "key": str,
    "language": (str, type(None)),
    "k1": (int, float),
    "b": (int, float),
}
_FILES = tuple(f"{name}.npy" for name in ("terms", *Columns._fields))


class Hit(NamedTuple):
    """A retrieved passage and its score."""

    passage: Passage
    score: float


class BM25:
    """A retriever that ranks passages by BM25 (Robertson and Zaragoza 2009); its index is on disk.

    By default, the terms of a passage are the tokens that :func:`mirage.text.tokenize` finds in its
    title and text. In languages that are written without spaces (Japanese, Thai, Chinese), a term
    is a character. With another ``analyzer``, terms are stems, bigrams, or words without stop
    words. Each occurrence of a term in the question adds the following amount to the score of a
    passage ::

        log(1 + (n - d + 0.5) / (d + 0.5)) * f / (f + k1 * (1 - b + b * l / L))

    Here ``f`` is the number of occurrences of the term in the passage, ``l`` the number of terms in
    the passage, and ``L`` the mean of ``l`` over all passages. The corpus has ``n`` passages, of
    which ``d`` contain the term. ``k1`` and ``b`` are arguments of :meth:`build`. This is the
    variant of BM25 that Kamphuis et al. 2020 call Lucene. The value of this formula for each term
    and passage is computed when the index is built, as in bm25s (Lù 2024, arXiv 2407.03618). A
    search therefore only adds up the stored values of the question's terms. Passages with equal
    scores keep the order of the corpus. Create an index with :meth:`build`, and load it with
    :meth:`open`.

    Args:
        folder: The folder of the index.
        corpus: The corpus from which the index was built.
        verify: Whether to check the SHA-256 of every file; see :meth:`open`.

    Example:
        >>> from mirage.models import Passage
        >>> passages = [Passage(id="a", text="Paris is in France."), Passage(id="b", text="Tea")]
        >>> index = BM25.build(passages, language="en", progress=False)
        >>> [hit.passage.id for hit in index.search("Where is Paris?", k=10)]
        ['a']
    """

    name = "BM25"

    def __init__(self, folder: Path, corpus: Corpus, *, verify: bool = True) -> None:
        manifest = read_manifest(folder, KIND, _FIELDS, files=_FILES, verify=verify)
        if manifest["format"] != FORMAT:
            raise DatasetError(
                f"{folder}: the {KIND} was built by a different version of mirage, in a different "
                "format; build it again"
            )
        self.folder: Path = folder
        self.corpus: Corpus = corpus
        self.language: str | None = manifest["language"]
        self.k1: float = float(manifest["k1"])
        self.b: float = float(manifest["b"])
        self._analysis = analysis(manifest.get("analyzer", "words"), self.language)
        self.analyzer: Analyzer = self._analysis.analyzer
        if manifest["key"] != _key(corpus, self._analysis, self.k1, self.b):
            raise DatasetError(
                f"{folder} was built from a different corpus, or with different stems or stop "
                f"words; build it again (expected corpus: {corpus})"
            )
        self._terms, self._columns = self._arrays()
        self._scored = 0  # number of scores computed so far: questions times passages
        self._spare: list[Scores] = []
        self._known_terms: dict[str, int] = {}

    def _arrays(self) -> tuple[NDArray[np.uint64], Columns]:
        """Return the hashes of all terms and the inverted index, both mapped into memory."""
        paths = {name: self.folder / f"{name}.npy" for name in ("terms", *Columns._fields)}
        terms = mapped_array(paths["terms"], ArrayType(np.uint64))
        starts = mapped_array(paths["starts"], ArrayType(np.int64, (len(terms) + 1,)))
        rows = mapped_array(paths["rows"], ArrayType(np.int32))
        impacts = mapped_array(paths["impacts"], ArrayType(np.float32, rows.shape))
        faults = {
            "terms": not len(terms) or bool((terms[1:] <= terms[:-1]).any()),
            "starts": not are_ends(starts, len(rows)),
        }
        for name, fault in faults.items():
            if fault:
                raise DatasetError(
                    f"{paths[name]}: damaged; delete {self.folder} and build the {KIND} again"
                )
        return terms, Columns(starts, rows, impacts)

    @classmethod
    def build(
        cls,
        corpus: Corpus | Iterable[Passage],
        folder: str | Path | None = None,
        *,
        language: str | None = None,
        k1: float = 0.9,
        b: float = 0.4,
        analyzer: Analyzer = "words",
        n_jobs: int = 1,
        progress: bool = True,
    ) -> Self:
        """Build an index of a corpus in a folder, and open it.

        The index is built in shards in a temporary folder, and moved to ``folder`` when it is
        complete. If a build was interrupted, the next one continues with the missing shards. An
        existing index is opened if it matches the corpus and the settings, and replaced otherwise.

        Args:
            corpus: The passages; an iterable of passages is first written to a temporary corpus.
            folder: The folder of the index. ``None`` keeps the index in a temporary folder, which
                is deleted when the program ends or the object is garbage collected.
            language: The language whose rules split text into words. The default is the language
                of the corpus; a corpus in several languages is split by script.
            k1: The parameter of term frequency saturation, at least 0. The smaller it is, the less
                further occurrences of a term add to the score.
            b: The strength of length normalization, from 0 (none) to 1 (full). The defaults of
                ``k1`` and ``b`` are those of Anserini, which was used for the MIRACL baseline.
            analyzer: How a text is converted to terms. ``"words"`` uses its tokens. ``"stop"``
                leaves out function words. ``"stems"`` leaves out function words and reduces the
                others to their Snowball stems (for nine languages; it needs the package PyStemmer
                of the extra ``retrieval``). ``"trigrams"`` leaves out function words and uses all
                sequences of three characters of the others. ``"bigrams"`` uses characters and
                pairs of neighbouring characters in Japanese, Chinese, Thai and Korean.
                ``"best"`` selects the analyzer that performed best for the language in
                experiments on topics with relevance judgments.
            n_jobs: The number of processes that tokenize passages; -1 uses all CPUs.
            progress: Whether to show a progress bar if stderr is a terminal.

        Raises:
            DatasetError: No passage contains a word, or the folder contains something other than
                an index, cannot be written, or is in use by another build.
            SettingError: ``k1`` or ``b`` is out of range, or the analyzer does not support the
                language.
            UnknownNameError: The language is unknown.
            MissingPackageError: The analyzer uses stems, and PyStemmer is not installed.
        """
        if not (0 <= k1 < np.inf and 0 <= b <= 1):
            raise SettingError(f"k1 must be at least 0 and b from 0 to 1, got k1={k1} and b={b}")
        code = None if language is None else Language.of(language).code
        if not isinstance(corpus, Corpus):
            corpus = Corpus.build(corpus, language=code)
        code = code or corpus.language
        terms = analysis(analyzer, code)
        key = _key(corpus, terms, k1, b)
        manifest = {"format": FORMAT, "key": key, "language": code, "k1": k1, "b": b}
        if terms.analyzer != "words":  # indexes of earlier versions do not have the field
            manifest["analyzer"] = terms.analyzer

        def fill(part: Path) -> None:
            _build(corpus, part, terms, manifest, n_jobs, progress)

        index_folder, delete_with = build_folder(folder, KIND, key, fill)
        index = cls(index_folder, corpus, verify=False)
        delete_with(index)
        return index

    @classmethod
    def open(cls, folder: str | Path, corpus: Corpus, *, verify: bool = True) -> Self:
        """Open an index; its files are mapped into memory and read only as far as needed.

        Args:
            folder: The folder that :meth:`build` wrote.
            corpus: The corpus from which the index was built.
            verify: Whether to check the SHA-256 of every file of the index. This reads all files
                once, which takes about a second per GB. Without the check, a damaged file can
                change scores unnoticed.

        Raises:
            DatasetError: There is no index in the folder, a file of the index is missing or
                damaged, or it was built from a different corpus.
        """
        return cls(Path(folder), corpus, verify=verify)

    @property
    def fingerprint(self) -> str:
        """A digest of the corpus, the language, the analyzer, ``k1`` and ``b``."""
        return _key(self.corpus, self._analysis, self.k1, self.b)

    def __len__(self) -> int:
        return len(self.corpus)

    def __repr__(self) -> str:
        return f"BM25({len(self)} passages, language={self.language!r}, k1={self.k1}, b={self.b})"

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Return the best ``k`` passages for each query, or fewer if fewer match.

        If numba is installed, large batches of queries are faster, with identical results. Copies
        of the index entries of frequent terms take up to 64 MiB of memory.

        Args:
            queries: The queries.
            k: The number of passages to retrieve for each query.

        Raises:
            SettingError: ``k`` is below 1.
        """
        batch = list(queries)
        sum_up = self._sum(len(batch))
        hits = {}
        scores = self._take_array()
        for query in batch:
            best = self._best(self._numbers(query.text), k, scores, sum_up)
            hits[query.id] = self._hits(*best)
        self._spare.append(scores)
        return RetrievalRun(hits, self.name)

    def search(self, question: str, k: int) -> list[Hit]:
        """Return the ``k`` passages with the highest scores for a question, best first.

        Passages with equal scores keep the order of the corpus. The list is shorter than ``k`` if
        fewer passages share a term with the question.

        Args:
            question: The question.
            k: The number of passages to return.

        Raises:
            SettingError: ``k`` is below 1.
        """
        columns = self._numbers(question)
        array = self._take_array()
        rows, scores = self._best(columns, k, array, self._sum(1))
        self._spare.append(array)
        passages = map(self.corpus.at, rows.tolist())
        return [Hit(*pair) for pair in zip(passages, scores.tolist(), strict=True)]

    def scores(self, question: str, passage_ids: Iterable[str]) -> list[float]:
        """Return the score of each of these passages, in the given order.

        The score is 0 if a passage shares no term with the question.

        Args:
            question: The question.
            passage_ids: The ids of the passages.

        Raises:
            UnknownNameError: One of the passages is not in the corpus.
        """
        rows = [self.corpus.row(passage_id) for passage_id in passage_ids]
        columns = self._numbers(question)
        scores = self._take_array()
        self._sum(1)(scores, columns)
        requested: list[float] = scores[rows].tolist()
        self._spare.append(scores)
        return requested

    def _hits(self, rows: NDArray[np.int64], scores: Scores) -> Hits:
        return Hits(tuple(self.corpus.ids_at(rows)), scores.astype(np.float64))

    def _best(
        self, question: Sequence[int], k: int, scores: Scores, sum_up: Sum
    ) -> tuple[NDArray[np.int64], Scores]:
        """Return the rows and scores of the ``k`` best passages, using ``scores`` as a buffer."""
        if k < 1:
            raise SettingError(f"k must be at least 1, got {k}")
        sum_up(scores, question)
        rows = top_rows(scores, k)
        best = scores[rows]
        matches = len(best) if len(best) and best[-1] > 0 else np.count_nonzero(best)
        return rows[:matches], best[:matches]

    def _sum(self, questions: int) -> Sum:
        """Return the function that sums columns of the index.

        It uses numba once enough questions have been searched; see :data:`COMPILED`.

        Args:
            questions: The number of questions for which the function will be used.
        """
        self._scored += questions * len(self)
        return self._numpy_sum if self._scored < COMPILED else self._compiled_sum

    @cached_property
    def _numpy_sum(self) -> Sum:
        return numpy_sum(self._columns, len(self))

    @cached_property
    def _compiled_sum(self) -> Sum:
        return compiled_sum(self._columns, len(self))

    def _take_array(self) -> Scores:
        """Return an uninitialized array for the scores of all passages.

        Callers append the array to ``_spare`` when they no longer need it, because allocating a new
        one takes longer than a search. There is one array for each thread that searches at the same
        time. Appending to a list and taking from it are atomic.
        """
        try:
            return self._spare.pop()
        except IndexError:
            return np.empty(len(self.corpus), dtype=np.float32)

    def _numbers(self, question: str) -> list[int]:
        """Return the position of each term of a question among the columns of the index.

        If a term occurs twice, so does its position. Terms that are not in the index are left out.
        """
        terms, known = self._analysis(question), self._known_terms
        try:
            numbers = [known[term] for term in terms]
        except KeyError:
            numbers = self._search(terms)
            if len(known) > KNOWN_TERMS:
                known = self._known_terms = {}
            known.update(zip(terms, numbers, strict=True))
        return [number for number in numbers if number >= 0]

    def _search(self, terms: Sequence[str]) -> list[int]:
        """Return the position of each term among the columns of the index, -1 if it has none."""
        hashes = _hashes(terms)
        numbers = self._terms.searchsorted(hashes)
        exists = self._terms.take(numbers, mode="clip") == hashes
        columns: list[int] = np.where(exists, numbers, -1).tolist()
        return columns


def _key(corpus: Corpus, terms: Analysis, k1: float, b: float) -> str:
    settings = json.dumps([FORMAT, corpus.fingerprint, terms.language, k1, b, *terms.identity])
    return hashlib.sha256(settings.encode()).hexdigest()


def _hashes(terms: Sequence[str]) -> NDArray[np.uint64]:
    """Return 64-bit hashes of terms.

    The probability that a billion distinct terms include two with the same hash is 0.03.
    """
    digests = b"".join(
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for term in terms
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)


# Building -----------------------------------------------------------------------------------------


class _Shard(NamedTuple):
    """The index entries of up to :data:`SHARD` passages: which terms occur in which passages."""

    terms: NDArray[np.uint64]
    """The hashes of the terms, ascending."""

    counts: NDArray[np.int64]
    """The number of passages that contain each term."""

    rows: NDArray[np.int32]
    """The corpus rows of the passages that contain the first term, then the second, and so on.

    The rows of each term ascend.
    """

    frequencies: NDArray[np.int32]
    """The number of occurrences of the term in the passage, for each entry of ``rows``."""

    lengths: NDArray[np.int32]
    """The number of terms in each passage."""


_SHARD_TYPES = {
    "terms": ArrayType(np.uint64),
    "counts": ArrayType(np.int64),
    "rows": ArrayType(np.int32),
    "frequencies": ArrayType(np.int32),
    "lengths": ArrayType(np.int32),
}


def _build(
    corpus: Corpus,
    folder: Path,
    terms: Analysis,
    manifest: dict[str, object],
    n_jobs: int,
    progress: bool,
) -> None:
    """Write the files of an index into a folder.

    If an interrupted build left shards in the folder, they are reused. ``terms`` splits a text into
    terms, and ``manifest`` has the settings of the index.
    """
    k1, b = manifest["k1"], manifest["b"]
    assert isinstance(k1, float | int)
    assert isinstance(b, float | int)
    starts = range(0, len(corpus), SHARD)
    shards = folder / "shards"
    with writing(shards):
        shards.mkdir(exist_ok=True)
    with progress_bar(len(corpus), "passages indexed", progress) as bar:
        for start in _write_missing_shards(corpus, shards, starts, terms, n_jobs):
            bar.update(min(SHARD, len(corpus) - start))
    merge_shards(shards, len(corpus), folder, float(k1), float(b))
    shutil.rmtree(shards)
    write_manifest(folder, KIND, manifest)


def _write_missing_shards(
    corpus: Corpus, shards: Path, starts: Sequence[int], terms: Analysis, n_jobs: int
) -> Iterator[int]:
    """Write the missing shards, and yield the first row of each shard as soon as it exists.

    ``starts`` are the first rows of all shards, and ``terms`` splits a text into terms.
    """
    from joblib import Parallel, delayed

    missing = [start for start in starts if not _shard_path(shards, start).is_file()]
    yield from (start for start in starts if start not in set(missing))
    task = delayed(_make_shard)
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from parallel(task(corpus.folders, shards, start, terms) for start in missing)


def _shard_path(shards: Path, start: int, name: str = "checksums") -> Path:
    """Return the path of the array ``name`` of the shard that begins at row ``start``.

    The array ``checksums`` is written last, so a shard is complete if this file exists.
    """
    return shards / f"{start:012}.{name}.npy"


def _make_shard(folders: Sequence[Path], shards: Path, start: int, terms: Analysis) -> int:
    """Write the shard whose first passage is row ``start`` of the corpus, and return ``start``."""
    corpus = Corpus.open(*folders, verify=False)  # the parent process has verified it
    stop = min(start + SHARD, len(corpus))
    numbers: dict[str, int] = {}
    tokens = [
        [numbers.setdefault(term, len(numbers)) for term in terms(text)]
        for text in (f"{p.title}\n{p.text}" for p in map(corpus.at, range(start, stop)))
    ]
    lengths = np.fromiter(map(len, tokens), dtype=np.int32, count=len(tokens))
    flat = np.fromiter(chain.from_iterable(tokens), dtype=np.int64, count=int(lengths.sum()))
    write_shard(shards, start, _hashes(list(numbers)), flat, lengths)
    return start


def write_shard(
    shards: Path,
    start: int,
    hashes: NDArray[np.uint64],
    terms: NDArray[np.int64],
    lengths: NDArray[np.int32],
) -> None:
    """Count how often each term occurs in each passage, and write the files of the shard.

    Args:
        shards: The folder of the shards.
        start: The row in the corpus of the first passage.
        hashes: The hash of each distinct term; the position of a term is its number.
        terms: The numbers of all terms of the first passage, then of the next, and so on.
        lengths: The number of terms in each passage.
    """
    order = np.argsort(hashes)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    row = np.repeat(np.arange(start, start + len(lengths)), lengths)
    # Put the rank of the term and the row into one integer, so that np.unique counts their pairs.
    pairs, frequencies = np.unique(ranks[terms] << 32 | row, return_counts=True)
    shard = _Shard(
        hashes[order],
        np.bincount(pairs >> 32, minlength=len(order)),
        (pairs & 0xFFFFFFFF).astype(np.int32),
        frequencies.astype(np.int32),
        lengths,
    )
    for name, array in shard._asdict().items():
        save_array(_shard_path(shards, start, name), array)
    save_array(_shard_path(shards, start), _checksums(shard))


def _checksums(shard: _Shard) -> NDArray[np.uint32]:
    return np.array([zlib.crc32(np.ascontiguousarray(array).data) for array in shard], np.uint32)


def _read_shard(shards: Path, start: int, stop: int) -> _Shard:
    """Read and check the shard of the passages from row ``start`` to row ``stop - 1``."""
    try:
        arrays = {
            name: read_array(_shard_path(shards, start, name), kind)
            for name, kind in _SHARD_TYPES.items()
        }
        shard = _Shard(**arrays)
        checksums = read_array(_shard_path(shards, start), ArrayType(np.uint32, (len(shard),)))
    except DatasetError:
        shard = None
    if (
        shard is None
        or not np.array_equal(checksums, _checksums(shard))
        or not _is_sound(shard, start, stop)
    ):
        path = _shard_path(shards, start)
        path.unlink(missing_ok=True)
        raise DatasetError(
            f"{path} was damaged and has been deleted; build the index again to continue"
        )
    return shard


def _mapped(shards: Path, start: int, name: str) -> NDArray[Any]:
    """Map the array ``name`` of a shard into memory; :func:`_read_shard` must have checked it."""
    return mapped_array(_shard_path(shards, start, name), _SHARD_TYPES[name])


def _is_sound(shard: _Shard, start: int, stop: int) -> bool:
    return (
        len(shard.counts) == len(shard.terms)
        and not (shard.terms[1:] <= shard.terms[:-1]).any()
        and are_within(shard.counts - 1, stop - start)
        and shard.counts.sum() == len(shard.rows) == len(shard.frequencies)
        and are_within(shard.rows - start, stop - start)
        and bool((shard.frequencies > 0).all())
        and len(shard.lengths) == stop - start
        and bool((shard.lengths >= 0).all())
    )


def merge_shards(shards: Path, size: int, folder: Path, k1: float, b: float) -> None:
    """Merge all shards into the inverted index.

    For each term, the index has the passages that contain the term and its impacts, the amounts
    that the term adds to the scores of these passages.

    Terms are merged in blocks of about :data:`BLOCK` entries, so memory use does not grow with the
    corpus. Shards are sorted by term, so each block uses one contiguous part of each shard.

    Args:
        shards: The folder of the shards.
        size: The number of passages in the corpus.
        folder: The folder of the index.
        k1: The parameter of term frequency saturation.
        b: The strength of length normalization.

    Raises:
        DatasetError: No passage contains a term, or a shard is damaged.
    """
    starts = range(0, size, SHARD)
    terms, lengths = _vocabulary(shards, starts, size)
    if not len(terms):
        raise DatasetError("no passage of the corpus contains a word, so there is nothing to index")
    holders = np.zeros(len(terms), dtype=np.int64)
    for start in starts:
        columns = np.searchsorted(terms, _mapped(shards, start, "terms"))
        holders[columns] += _mapped(shards, start, "counts")
    column_starts = np.concatenate([[0], np.cumsum(holders)])
    save_array(folder / "terms.npy", terms)
    save_array(folder / "starts.npy", column_starts)
    idf = np.log1p((len(lengths) - holders + 0.5) / (holders + 0.5))
    norms = k1 * (1 - b + b * lengths / lengths.mean())
    total = int(column_starts[-1])
    readers = [_ShardReader(shards, start) for start in starts]
    with (
        writing_array(folder / "rows.npy", np.int32, total) as rows_file,
        writing_array(folder / "impacts.npy", np.float32, total) as impacts_file,
    ):
        begin = 0
        while begin < len(terms):
            limit = np.searchsorted(column_starts, column_starts[begin] + BLOCK, side="right")
            end = max(begin + 1, int(limit) - 1)
            block_starts = column_starts[begin : end + 1] - column_starts[begin]
            block = _block(readers, terms[begin:end], block_starts, idf[begin:end], norms)
            rows_file.write(block[0].data)
            impacts_file.write(block[1].data)
            begin = end


def _vocabulary(
    shards: Path, starts: Sequence[int], size: int
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return the term hashes of all shards, ascending, and the number of terms per passage."""
    terms = np.empty(0, np.uint64)
    waiting: list[NDArray[np.uint64]] = []
    lengths: list[NDArray[np.int32]] = []
    for start in starts:
        shard = _read_shard(shards, start, min(start + SHARD, size))
        lengths.append(shard.lengths)
        waiting.append(shard.terms)
        # Most terms occur in many shards, so merging them now and then saves memory.
        if sum(map(len, waiting)) > max(len(terms), BLOCK // 4):
            terms = np.unique(np.concatenate([terms, *waiting]))
            waiting.clear()
    return np.unique(np.concatenate([terms, *waiting])), np.concatenate(lengths)


def _block(
    readers: Sequence[_ShardReader],
    terms: NDArray[np.uint64],
    starts: NDArray[np.int64],
    idf: NDArray[np.float64],
    norms: NDArray[np.float64],
) -> tuple[NDArray[np.int32], Scores]:
    """Merge the entries of some terms from all shards, and return their rows and impacts.

    Args:
        readers: The readers of the shards.
        terms: The hashes of the terms, ascending.
        starts: The position in the result of the first entry of each term, then the total number
            of entries.
        idf: The weight of each term (inverse document frequency).
        norms: The length normalization of each passage of the corpus.
    """
    rows = np.empty(int(starts[-1]), dtype=np.int32)
    impacts = np.empty(len(rows), dtype=np.float32)
    ends = starts[:-1].copy()  # the positions at which the next shard's entries begin
    for reader in readers:
        part = reader.read(terms[-1])
        columns = np.searchsorted(terms, part.terms)
        before = np.concatenate([[0], np.cumsum(part.counts)])[:-1]
        target = np.arange(len(part.rows)) + np.repeat(ends[columns] - before, part.counts)
        frequency = part.frequencies
        rows[target] = part.rows
        impacts[target] = (
            np.repeat(idf[columns], part.counts) * frequency / (frequency + norms[part.rows])
        )
        ends[columns] += part.counts
    return rows, impacts


class _Part(NamedTuple):
    """The entries of a shard for some of its terms; the fields are those of :class:`_Shard`."""

    terms: NDArray[np.uint64]
    counts: NDArray[np.int64]
    rows: NDArray[np.int32]
    frequencies: NDArray[np.int32]


class _ShardReader:
    """A reader of a shard, which returns the entries of the next few terms at each call.

    No file stays open between calls, because there may be thousands of shards.
    """

    def __init__(self, shards: Path, start: int) -> None:
        self._shards, self._start = shards, start
        self._term = self._entry = 0

    def read(self, last: np.uint64) -> _Part:
        """Return the entries of the next terms, up to the term with the hash ``last``."""
        terms = _mapped(self._shards, self._start, "terms")
        end = int(np.searchsorted(terms, last, side="right"))
        counts = _mapped(self._shards, self._start, "counts")[self._term : end]
        stop = self._entry + int(counts.sum())
        entries = slice(self._entry, stop)
        part = _Part(
            terms[self._term : end],
            counts,
            _mapped(self._shards, self._start, "rows")[entries],
            _mapped(self._shards, self._start, "frequencies")[entries],
        )
        self._term, self._entry = end, stop
        return part
