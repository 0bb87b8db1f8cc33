"""Passages on disk, opened without being read."""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage._base.files import replace_file, writing
from mirage._base.stores import (
    check_place,
    mapped_array,
    mapped_bytes,
    move_into_place,
    read_manifest,
    save_array,
    temporary,
    write_manifest,
)
from mirage.corpus.documents import CHUNK, read_passages
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.languages import Language
from mirage.models import Passage

__all__ = ["Corpus"]

FORMAT = 1
KIND = "corpus"
PASSAGES, OFFSETS = "passages.jsonl", "offsets.npy"
IDS, ID_ENDS = "ids.txt", "id_ends.npy"
HASHES, ROWS = "hashes.npy", "rows.npy"

Integers = NDArray[np.int64]


class Corpus:
    """Passages in a folder on disk, looked up by id or by row; none is in memory until asked for.

    Build one with :meth:`build`, open it again with :meth:`open`. ``a + b`` is the corpus of the
    passages of both, with no copy made: rows of ``b`` come behind those of ``a``.

    The folder holds the passages as JSON Lines, where each begins, the hashes of their ids in
    order, and a manifest with the size of each file and the SHA-256 of the passages, which is the
    corpus's :attr:`fingerprint`.

    Args:
        parts: the folders, opened.
        summands: the corpora that it is the sum of; they may own temporary folders.
    """

    def __init__(self, parts: Sequence[_Part], summands: Sequence[Corpus] = ()) -> None:
        self._parts = tuple(parts)
        self._summands = summands
        self._starts = np.cumsum([0, *(len(part.offsets) - 1 for part in self._parts)])
        self._check_ids()

    @classmethod
    def build(
        cls,
        source: str | Path | Iterable[Passage],
        folder: str | Path | None = None,
        *,
        language: str | None = None,
        size: int = CHUNK,
        overlap: int = 0,
    ) -> Self:
        """Write passages into a folder, and open it.

        The folder is written beside its place and moved there when it is whole, so that a build
        that was killed leaves nothing that looks like a corpus. A corpus that is there already
        stays if it has the same passages, and is replaced otherwise.

        Args:
            source: what :func:`~mirage.corpus.read_documents` reads: a folder, a file or a
                pattern such as ``handbook/*.md``; or the passages themselves. Text files are cut
                into passages (:func:`~mirage.corpus.chunk`); rows of JSON Lines or Parquet are
                passages as they are: to cut them, give ``chunk(read_documents(path))``.
            folder: where to; ``None`` keeps the corpus in a temporary folder until the program
                ends or the object is gone.
            language: the language of all passages, where they have one: it says how retrievers
                take their words.
            size: words a passage, of text files.
            overlap: words that a passage repeats from the one before it, of text files.

        Raises:
            DatasetError: the source cannot be read, has no passage, or two of one id; or the
                folder holds something else or cannot be written.
            UnknownNameError: no such language.
        """
        code = None if language is None else Language.of(language).code
        if isinstance(source, str | Path):
            passages: Iterable[Passage] = read_passages(source, size, overlap=overlap)
        else:
            passages = source
        if folder is None:
            place, goes_with = temporary("corpus")
            _write(passages, place, code)
            corpus = cls.open(place)
            goes_with(corpus)
            return corpus
        folder = Path(folder)
        check_place(folder, KIND)
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            _write(passages, part, code)
            if not _same(part, folder):
                move_into_place(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return cls.open(folder)

    @classmethod
    def open(cls, *folders: str | Path) -> Self:
        """Open a corpus, or several as their sum; no passage is read.

        Raises:
            DatasetError: there is none, or a file of it is missing or has been cut short; names it.
        """
        return cls([_Part.open(Path(folder)) for folder in folders])

    def __add__(self, other: Corpus) -> Corpus:
        return Corpus([*self._parts, *other._parts], (self, other))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        folders = ", ".join(str(part.folder) for part in self._parts)
        return f"Corpus({len(self)} passages in {folders})"

    def __iter__(self) -> Iterator[Passage]:
        return (part.passage(row) for part in self._parts for row in range(len(part.offsets) - 1))

    def __contains__(self, passage_id: object) -> bool:
        return isinstance(passage_id, str) and self._row(passage_id) is not None

    def __getitem__(self, passage_id: str) -> Passage:
        return self.at(self.row(passage_id))

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that it is in, one for each corpus that it was added up from."""
        return tuple(part.folder for part in self._parts)

    @property
    def language(self) -> str | None:
        """The language of all passages; ``None`` for several or where nothing says so."""
        codes = {part.language for part in self._parts}
        return codes.pop() if len(codes) == 1 else None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the passages in their order; of a sum, of the fingerprints of its parts."""
        prints = [part.fingerprint for part in self._parts]
        return prints[0] if len(prints) == 1 else _sha256("\n".join(prints).encode())

    def row(self, passage_id: str) -> int:
        """The row of a passage, counted from 0.

        Raises:
            UnknownNameError: there is no passage of this id.
        """
        row = self._row(passage_id)
        if row is None:
            near = self.ids_at(range(min(3, len(self))))
            raise UnknownNameError("passage of the corpus", passage_id, near)
        return row

    def at(self, row: int) -> Passage:
        """The passage in a row.

        Raises:
            SettingError: there is no such row.
        """
        part, row = self._place(row)
        return part.passage(row)

    def ids_at(self, rows: Sequence[int] | Integers) -> list[str]:
        """The ids of the passages in these rows.

        Raises:
            SettingError: there is no such row.
        """
        numbers = np.asarray(rows, dtype=np.int64)
        if len(self._parts) > 1:
            return [part.id_at(row) for part, row in map(self._place, numbers.tolist())]
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(self)):
            raise self._no_row(numbers)
        return self._parts[0].ids_at(numbers)

    def get_many(self, passage_ids: Iterable[str]) -> list[Passage]:
        """Passages by id, in the order asked for.

        Raises:
            UnknownNameError: there is no passage of one of these ids.
        """
        return [self[passage_id] for passage_id in passage_ids]

    def iter_batches(self, size: int = 1024, *, start: int = 0) -> Iterator[list[Passage]]:
        """The passages from row ``start`` on, ``size`` at a time."""
        rows = iter(range(start, len(self)))
        while batch := [self.at(row) for row in islice(rows, size)]:
            yield batch

    def _place(self, row: int) -> tuple[_Part, int]:
        if not 0 <= row < len(self):
            raise self._no_row(row)
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._parts[number], row - int(self._starts[number])

    def _no_row(self, rows: object) -> SettingError:
        return SettingError(f"the corpus has rows 0 to {len(self) - 1}, and no {rows}")

    def _row(self, passage_id: str) -> int | None:
        for start, part in zip(self._starts, self._parts, strict=False):
            row = part.row(passage_id)
            if row is not None:
                return int(start) + row
        return None

    def _check_ids(self) -> None:
        for number, part in enumerate(self._parts):
            for other in self._parts[number + 1 :]:
                for digest in np.intersect1d(part.hashes, other.hashes):
                    shared = part.ids_of(digest) & other.ids_of(digest)
                    if shared:
                        raise DatasetError(
                            f"{part.folder} and {other.folder} both hold passage "
                            f"{shared.pop()!r}; passage ids are unique in a corpus"
                        )


class _Part(NamedTuple):
    """One folder of a corpus, its files mapped into memory."""

    folder: Path
    language: str | None
    fingerprint: str
    text: mmap.mmap
    ids: mmap.mmap
    offsets: Integers
    id_ends: Integers
    hashes: NDArray[np.uint64]
    rows: Integers

    @classmethod
    def open(cls, folder: Path) -> Self:
        manifest = read_manifest(folder, KIND, ("format", "language", "fingerprint"))
        if manifest["format"] != FORMAT:
            raise DatasetError(f"{folder} is a {KIND} of another format; build it anew")
        arrays = (mapped_array(folder / name) for name in (OFFSETS, ID_ENDS, HASHES, ROWS))
        return cls(
            folder,
            manifest["language"],
            manifest["fingerprint"],
            mapped_bytes(folder / PASSAGES),
            mapped_bytes(folder / IDS),
            *arrays,
        )

    def ids_at(self, rows: Integers) -> list[str]:
        spans = zip(self.id_ends[rows].tolist(), self.id_ends[rows + 1].tolist(), strict=True)
        return [self.ids[begin:end].decode("utf-8", "surrogatepass") for begin, end in spans]

    def id_at(self, row: int) -> str:
        return self.ids_at(np.array([row]))[0]

    def passage(self, row: int) -> Passage:
        begin, end = self.offsets[row : row + 2]
        where = f"{self.folder / PASSAGES}, line {row + 1}"
        try:
            return Passage.model_construct(**json.loads(self.text[begin:end]))
        except (ValueError, TypeError):
            raise DatasetError(f"{where}: damaged; build the corpus anew") from None

    def row(self, passage_id: str) -> int | None:
        digest = _hash(passage_id)
        place = int(np.searchsorted(self.hashes, digest))
        while place < len(self.hashes) and self.hashes[place] == digest:
            row = int(self.rows[place])
            if self.id_at(row) == passage_id:
                return row
            place += 1
        return None

    def ids_of(self, digest: np.uint64) -> set[str]:
        places = np.flatnonzero(self.hashes == digest)
        return {self.id_at(int(self.rows[place])) for place in places}


# Files --------------------------------------------------------------------------------------------


def _write(passages: Iterable[Passage], folder: Path, language: str | None) -> None:
    """Write the files of a corpus into a folder that is there, the manifest last."""
    digest, hashes = hashlib.sha256(), array("Q")
    offsets, id_ends = array("q", [0]), array("q", [0])
    with (
        replace_file(folder / PASSAGES, follow=False) as file,
        replace_file(folder / IDS, follow=False) as ids,
    ):
        for passage in passages:
            line = _line(passage)
            file.write(line)
            digest.update(line)
            offsets.append(offsets[-1] + len(line))
            id_ends.append(id_ends[-1] + ids.write(passage.id.encode("utf-8", "surrogatepass")))
            hashes.append(_hash(passage.id))
    if not hashes:
        raise DatasetError("a corpus needs one passage or more, and there is none")
    numbers = np.frombuffer(hashes, dtype=np.uint64)
    rows = np.argsort(numbers, kind="stable")
    save_array(folder / OFFSETS, np.frombuffer(offsets, dtype=np.int64))
    save_array(folder / ID_ENDS, np.frombuffer(id_ends, dtype=np.int64))
    save_array(folder / HASHES, numbers[rows])
    save_array(folder / ROWS, rows.astype(np.int64))
    fields = {"format": FORMAT, "language": language, "fingerprint": digest.hexdigest()}
    write_manifest(folder, KIND, fields)
    _check_unique(folder, numbers[rows])


def _line(passage: Passage) -> bytes:
    try:
        return passage.model_dump_json(exclude_defaults=True).encode() + b"\n"
    except ValueError:  # lone surrogates, which JSON can say, escaped
        return json.dumps(passage.model_dump(exclude_defaults=True)).encode() + b"\n"


def _check_unique(folder: Path, hashes: NDArray[np.uint64]) -> None:
    twice = np.unique(hashes[:-1][hashes[:-1] == hashes[1:]])
    if not len(twice):
        return
    part = _Part.open(folder)
    for digest in twice:
        places = np.flatnonzero(part.hashes == digest)
        if len(part.ids_of(digest)) < len(places):
            lines = sorted(int(part.rows[place]) + 1 for place in places)
            raise DatasetError(
                f"passage {part.id_at(lines[0] - 1)!r} is there twice, as number {lines[0]} "
                f"and {lines[1]} of the corpus; passage ids are unique"
            )


def _same(part: Path, folder: Path) -> bool:
    """Whether a folder holds the corpus that a part is, whole."""
    try:
        old, new = _Part.open(folder), _Part.open(part)
    except DatasetError:
        return False
    return (old.fingerprint, old.language) == (new.fingerprint, new.language)


def _hash(passage_id: str) -> int:
    digest = hashlib.blake2b(passage_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
