"""A corpus of passages on disk."""

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

from mirage._base.arrays import are_ends, is_permutation
from mirage._base.files import replace_file, writing
from mirage._base.stores import (
    MANIFEST,
    ArrayType,
    FieldTypes,
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
from mirage.languages import ALL_LANGUAGES, Language
from mirage.models import Passage

FORMAT = 1
KIND = "corpus"
PASSAGES, OFFSETS = "passages.jsonl", "offsets.npy"
IDS, ID_ENDS = "ids.txt", "id_ends.npy"
HASHES, ROWS = "hashes.npy", "rows.npy"

_NEEDED = {name for name, field in Passage.model_fields.items() if field.is_required()}
_FIELDS: FieldTypes = {"format": int, "language": (str, type(None)), "fingerprint": str}

Integers = NDArray[np.int64]


class Corpus:
    """Passages in a folder on disk, accessible by id or row number.

    Each passage is read only when it is needed. :meth:`build` builds a corpus, and :meth:`open`
    opens one. ``a + b`` is a corpus with the passages of both; they are not copied. The rows of
    ``b`` follow those of ``a``.

    The folder contains the passages as JSON Lines, the offset of each line, the sorted hashes of
    the ids, and a manifest with the size and SHA-256 of each file. The SHA-256 of the passages is
    the :attr:`fingerprint` of the corpus.

    Args:
        parts: The opened folders, in order.
        summands: The corpora that were added to make this corpus, if any. They are kept alive,
            because they may own temporary folders.

    Example:
        >>> corpus = Corpus.build([Passage(id="a", text="Paris is in France.")], language="en")
        >>> corpus["a"].text
        'Paris is in France.'
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

        The passages are written to a temporary folder that is moved to ``folder`` when it is
        complete, so an interrupted build leaves nothing that looks like a corpus. An existing
        corpus is kept if it has the same passages and language, and is replaced otherwise.

        Args:
            source: The passages, or a folder, a file or a pattern such as ``handbook/*.md`` that
                :func:`~mirage.corpus.read_documents` reads. Text files are cut into passages
                (:func:`~mirage.corpus.chunk`). Rows of JSON Lines or Parquet are used as passages;
                to cut them, pass ``chunk(read_documents(path))``.
            folder: The folder of the corpus. ``None`` keeps the corpus in a temporary folder, which
                is deleted when the program ends or the object is garbage collected.
            language: ISO 639-1 code, if all passages are in one language. Retrievers split text
                into words by the rules of this language.
            size: The number of words per passage, for text files.
            overlap: The number of words that a passage repeats from the one before it, for text
                files.

        Raises:
            DatasetError: If the source cannot be read, has no passage, or has two passages with the
                same id; or the folder contains something other than a corpus or cannot be written.
            UnknownNameError: If the language is unknown.
        """
        code = None if language is None else Language.of(language).code
        if isinstance(source, str | Path):
            passages: Iterable[Passage] = read_passages(source, size, overlap=overlap)
        else:
            passages = source
        if folder is None:
            temporary_folder, delete_with = temporary("corpus")
            _write(passages, temporary_folder, code)
            corpus = cls.open(temporary_folder, verify=False)
            delete_with(corpus)
            return corpus
        folder = Path(folder)
        check_place(folder, KIND)
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            _write(passages, part, code)
            if not _are_same(part, folder):
                move_into_place(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return cls.open(folder, verify=False)

    @classmethod
    def open(cls, *folders: str | Path, verify: bool = True) -> Self:
        """Open the corpus in a folder, or the union of the corpora in several folders.

        Args:
            folders: The folders that :meth:`build` wrote.
            verify: Whether to check the SHA-256 of every file, which reads all files once (about a
                second per GB). If false, only the sizes of files are checked.

        Raises:
            DatasetError: If a folder is not a corpus, or a file is missing or damaged; the message
                names the file.
        """
        return cls([_Part.open(Path(folder), verify=verify) for folder in folders])

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
        """The folders of the corpus; a union of corpora has several."""
        return tuple(part.folder for part in self._parts)

    @property
    def language(self) -> str | None:
        """The language of all passages; ``None`` if they differ or are unknown."""
        codes = {part.language for part in self._parts}
        return codes.pop() if len(codes) == 1 else None

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the passages in order; for a union of corpora, of their fingerprints."""
        prints = [part.fingerprint for part in self._parts]
        if len(prints) == 1:
            return prints[0]
        return hashlib.sha256("\n".join(prints).encode()).hexdigest()

    def row(self, passage_id: str) -> int:
        """Return the row number of a passage, counted from 0.

        Raises:
            UnknownNameError: If there is no passage with this id.
        """
        row = self._row(passage_id)
        if row is None:
            examples = self.ids_at(range(min(3, len(self))))
            raise UnknownNameError("passage id", passage_id, examples, "in the corpus")
        return row

    def at(self, row: int) -> Passage:
        """Return the passage with the given row number, counted from 0.

        Raises:
            SettingError: If there is no such row.
        """
        part, row = self._locate(row)
        return part.passage(row)

    def ids_at(self, rows: Sequence[int] | Integers) -> list[str]:
        """Return the ids of the passages with the given row numbers, counted from 0.

        Raises:
            SettingError: If there is no such row.
        """
        numbers = np.asarray(rows, dtype=np.int64)
        if len(self._parts) > 1:
            return [part.id_at(row) for part, row in map(self._locate, numbers.tolist())]
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(self)):
            raise self._no_row(numbers)
        return self._parts[0].ids_at(numbers)

    def get_many(self, passage_ids: Iterable[str]) -> list[Passage]:
        """Return passages by id, in the order of the ids.

        Raises:
            UnknownNameError: If there is no passage with one of these ids.
        """
        return [self[passage_id] for passage_id in passage_ids]

    def iter_batches(self, size: int = 1024) -> Iterator[list[Passage]]:
        """Yield the passages in lists of ``size`` passages; the last list may have fewer."""
        rows = iter(range(len(self)))
        while batch := [self.at(row) for row in islice(rows, size)]:
            yield batch

    def _locate(self, row: int) -> tuple[_Part, int]:
        if not 0 <= row < len(self):
            raise self._no_row(row)
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._parts[number], row - int(self._starts[number])

    def _no_row(self, rows: object) -> SettingError:
        return SettingError(f"rows must be from 0 to {len(self) - 1}, got {rows}")

    def _row(self, passage_id: str) -> int | None:
        for start, part in zip(self._starts, self._parts, strict=False):
            row = part.row(passage_id)
            if row is not None:
                return int(start) + row
        return None

    def _check_ids(self) -> None:
        for number, part in enumerate(self._parts):
            for other in self._parts[number + 1 :]:
                # Different ids can have the same hash, so compare the ids that have a shared hash.
                for digest in np.intersect1d(part.hashes, other.hashes):
                    shared = part.ids_of(digest) & other.ids_of(digest)
                    if shared:
                        raise DatasetError(
                            f"{part.folder} and {other.folder} both contain a passage "
                            f"{shared.pop()!r}; passage ids must be unique in a corpus"
                        )


class _Part(NamedTuple):
    """One folder of a corpus, with its files mapped into memory.

    ``text`` is the file of passages, and ``offsets`` are the positions at which its lines begin and
    end. ``ids`` contains the passage ids, and ``id_ends`` the positions at which they end.
    ``hashes`` are the hashes of the ids, ascending. For each hash, ``rows`` is the row number of
    the passage with this id.
    """

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
    def open(cls, folder: Path, *, verify: bool = True) -> Self:
        files = (PASSAGES, IDS, OFFSETS, ID_ENDS, HASHES, ROWS)
        manifest = read_manifest(folder, KIND, _FIELDS, files=files, verify=verify)
        if manifest["format"] != FORMAT:
            raise DatasetError(
                f"{folder}: the {KIND} was built by a different version of mirage, in a different "
                "format; build it again"
            )
        hashes = mapped_array(folder / HASHES, ArrayType(np.uint64))
        ends = ArrayType(np.int64, (len(hashes) + 1,))
        part = cls(
            folder,
            manifest["language"],
            manifest["fingerprint"],
            mapped_bytes(folder / PASSAGES),
            mapped_bytes(folder / IDS),
            mapped_array(folder / OFFSETS, ends),
            mapped_array(folder / ID_ENDS, ends),
            hashes,
            mapped_array(folder / ROWS, ArrayType(np.int64, hashes.shape)),
        )
        if part.fingerprint != manifest["files"][PASSAGES]["sha256"]:
            raise part._damaged(f"{MANIFEST}, fingerprint")
        if part.language is not None and part.language not in ALL_LANGUAGES:
            raise part._damaged(f"{MANIFEST}, language")
        if verify:
            part._check_arrays()
        return part

    def _check_arrays(self) -> None:
        """Raise an error if the offsets, hashes or row numbers are not valid."""
        faults = {
            OFFSETS: not are_ends(self.offsets, len(self.text)),
            ID_ENDS: not are_ends(self.id_ends, len(self.ids)),
            HASHES: bool((self.hashes[1:] < self.hashes[:-1]).any()),
            ROWS: not is_permutation(self.rows),
        }
        for name, fault in faults.items():
            if fault:
                raise self._damaged(name)

    def _damaged(self, name: str) -> DatasetError:
        return DatasetError(
            f"{self.folder / name}: damaged; delete {self.folder} and build the corpus again"
        )

    def ids_at(self, rows: Integers) -> list[str]:
        spans = zip(self.id_ends[rows].tolist(), self.id_ends[rows + 1].tolist(), strict=True)
        try:
            return [self.ids[begin:end].decode("utf-8", "surrogatepass") for begin, end in spans]
        except ValueError:
            raise self._damaged(IDS) from None

    def id_at(self, row: int) -> str:
        return self.ids_at(np.array([row]))[0]

    def passage(self, row: int) -> Passage:
        begin, end = self.offsets[row : row + 2]
        try:
            fields = json.loads(self.text[begin:end])
        except (ValueError, RecursionError):
            fields = None
        passage = _passage(fields)
        if passage is None or passage.id != self.id_at(row):
            raise self._damaged(f"{PASSAGES}, line {row + 1}")
        return passage

    def row(self, passage_id: str) -> int | None:
        digest = _hash(passage_id)
        position = int(np.searchsorted(self.hashes, digest))
        while position < len(self.hashes) and self.hashes[position] == digest:
            row = self._row_at(position)
            if self.id_at(row) == passage_id:
                return row
            position += 1
        return None

    def _row_at(self, position: int) -> int:
        row = int(self.rows[position])
        if not 0 <= row < len(self.rows):
            raise self._damaged(ROWS)
        return row

    def ids_of(self, digest: np.uint64) -> set[str]:
        positions = np.flatnonzero(self.hashes == digest)
        return {self.id_at(self._row_at(int(position))) for position in positions}


# Files --------------------------------------------------------------------------------------------


def _write(passages: Iterable[Passage], folder: Path, language: str | None) -> None:
    """Write the files of a corpus into an existing folder, the manifest last."""
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
        raise DatasetError("the corpus has no passages; give documents that contain text")
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
    except ValueError:  # pydantic cannot encode lone surrogates, but json can escape them
        return json.dumps(passage.model_dump(exclude_defaults=True)).encode() + b"\n"


def _check_unique(folder: Path, hashes: NDArray[np.uint64]) -> None:
    duplicates = np.unique(hashes[:-1][hashes[:-1] == hashes[1:]])
    if not len(duplicates):
        return
    part = _Part.open(folder, verify=False)
    for digest in duplicates:
        positions = np.flatnonzero(part.hashes == digest)
        if len(part.ids_of(digest)) < len(positions):
            lines = sorted(int(part.rows[position]) + 1 for position in positions)
            raise DatasetError(
                f"passages {lines[0]} and {lines[1]} of the corpus both have the id "
                f"{part.id_at(lines[0] - 1)!r}; passage ids must be unique"
            )


def _are_same(part: Path, folder: Path) -> bool:
    """Return whether a folder is an undamaged corpus with the passages and language of ``part``."""
    try:
        old, new = _Part.open(folder), _Part.open(part, verify=False)
    except DatasetError:
        return False
    return (old.fingerprint, old.language) == (new.fingerprint, new.language)


def _passage(fields: object) -> Passage | None:
    """Return a passage with these fields, or ``None`` if they are not the fields of a passage.

    Validating each passage with pydantic would take longer than reading it.
    """
    names = Passage.model_fields.keys()
    if not isinstance(fields, dict) or not _NEEDED <= fields.keys() <= names:
        return None
    if not all(isinstance(value, str) for value in fields.values()):
        return None
    return Passage.model_construct(**fields)


def _hash(passage_id: str) -> int:
    digest = hashlib.blake2b(passage_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
