"""Read the folder of a board: the board file, queries, votes and submissions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from mirage._base.files import read_rows, validated, write_text
from mirage.boards.records import (
    SURROGATE,
    BoardFile,
    Manifest,
    Mark,
    Submission,
    Version,
    read_record,
)
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, MirageError
from mirage.models import Response, Run
from mirage.surrogate.artifacts import shipped_digest
from mirage.testing.baseline import fingerprint

BOARD_FILE = "board.json"
"""Name of the board file in the folder, and of the manifest on the site."""

_RECORD = "submission.json"
_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,98}[a-z0-9])?")


class Answer(NamedTuple):
    """A response and its location in the form ``FILE, line N``."""

    where: str
    response: Response


class Entry(NamedTuple):
    """A submission to a board.

    Attributes:
        id: The name of its folder.
        path: The folder.
        record: The content of ``submission.json``.
        answers: The responses, by language code.
    """

    id: str
    path: Path
    record: Submission
    answers: Mapping[str, tuple[Answer, ...]]

    def run(self, code: str) -> Run:
        """Return the responses in the language ``code`` as a run named after the submission."""
        responses = tuple(answer.response for answer in self.answers[code])
        return Run(model=self.id, language=code, responses=responses)

    @property
    def digest(self) -> str:
        """SHA-256 digest of the record and the responses.

        It excludes the link and the permission to show the responses, which may change later.
        """
        record = self.record.model_dump_json(exclude={"link", "show_responses"})
        digest = hashlib.sha256(record.encode())
        for code, answers in sorted(self.answers.items()):
            digest.update(code.encode())
            for row in sorted(answer.response.model_dump_json() for answer in answers):
                digest.update(row.encode() + b"\n")
        return digest.hexdigest()


class BoardFolder:
    """The contents of a board's folder. A board is a leaderboard that a team maintains.

    Submissions that cannot be read are left out, and :attr:`unreadable` lists the reasons.

    Args:
        path: The folder.

    Attributes:
        path: The folder.
        file: The board file.
        entries: The submissions that can be read, ordered by date and id.
        unreadable: One error message for each submission that cannot be read.

    Raises:
        DatasetError: The board file is missing or not valid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = read_record(BoardFile, path / BOARD_FILE)
        entries: list[Entry] = []
        self.unreadable: list[str] = []
        folder = path / "submissions"
        for part in sorted(folder.iterdir()) if folder.is_dir() else []:
            try:
                entries.append(_read_entry(part))
            except MirageError as error:
                self.unreadable.append(str(error))
        self.entries = tuple(sorted(entries, key=lambda entry: (entry.record.date, entry.id)))

    @cached_property
    def datasets(self) -> Mapping[str, MirageDataset]:
        """The queries by language: those in ``queries/CODE.jsonl``, or else the bundled ones."""
        return {code: dataset_in(self.path, code) for code in self.file.versions}

    def votes_path(self, code: str) -> Path:
        """Return the path of the file with the judge's votes in the language ``code``."""
        return self.path / "judgments" / f"{code}.jsonl"

    def ranked(self, code: str) -> list[Entry]:
        """Return the submissions that answered the current queries of the language ``code``."""
        current = self.file.versions[code].data
        return [entry for entry in self.entries if entry.record.data.get(code) == current]

    def manifest(self) -> Manifest:
        """Return the state of the board, with which a later state can be compared."""
        return Manifest(
            **{name: getattr(self.file, name) for name in _SHARED},
            submissions={
                entry.id: Mark(
                    model=entry.record.model,
                    submitter=entry.record.submitter,
                    date=entry.record.date,
                    digest=entry.digest,
                )
                for entry in self.entries
            },
        )


_SHARED = ("judge", "prompt", "versions", "removed", "earlier")


def read_manifest(path: Path) -> Manifest:
    """Read the earlier state of a board.

    Args:
        path: The folder of the board, the folder of its site, or the manifest of its site.
    """
    if path.is_dir() and not (path / "index.html").is_file():
        return BoardFolder(path).manifest()
    return read_record(Manifest, path / BOARD_FILE if path.is_dir() else path)


def current_version(file: BoardFile, dataset: MirageDataset) -> Version:
    """Return the version of the queries and the judge in this installation of mirage.

    Args:
        file: The board file, which names the judge.
        dataset: The queries of one language.
    """
    code = dataset.language
    if file.judge == SURROGATE:
        judge = f"surrogate {shipped_digest(code)[:12]}, mirage {version('mirage-rag')}"
    else:
        judge = f"{file.judge}, prompt {file.prompt[:12] or 'of mirage'}"
    return Version(data=fingerprint(dataset), judge=judge)


def dataset_in(path: Path, code: str) -> MirageDataset:
    """Return a board's queries in a language, or the bundled queries if the board has none.

    Args:
        path: Folder of the board.
        code: Language code.

    Raises:
        DatasetError: The queries cannot be read, or are in another language.
    """
    file = path / "queries" / f"{code}.jsonl"
    if not file.exists():
        return MirageDataset.bundled(code)
    dataset = MirageDataset.load(file)
    if dataset.language != code:
        raise DatasetError(f"{file}: the queries are in {dataset.language!r}, not in {code!r}")
    return dataset


# Submissions --------------------------------------------------------------------------------------


def _read_entry(path: Path) -> Entry:
    if not _ID.fullmatch(path.name):
        raise DatasetError(
            f"{str(path)!a}: the name of a submission must have 1 to 100 lower-case ASCII letters, "
            "digits or ._-, and begin and end with a letter or digit"
        )
    if path.is_symlink() or not path.is_dir():
        raise DatasetError(
            f"{path}: expected a folder that contains {_RECORD} and files of responses"
        )
    record = read_record(Submission, path / _RECORD)
    names = {_RECORD, *(f"{code}.jsonl" for code in record.data)}
    for file in sorted(path.iterdir()):
        if file.name not in names or file.is_symlink() or not file.is_file():
            raise DatasetError(
                f"{str(file)!a}: unexpected file; a submission may only contain "
                f"{', '.join(sorted(names))} (scores are computed from the responses)"
            )
    answers = {code: tuple(_answers(path / f"{code}.jsonl")) for code in sorted(record.data)}
    return Entry(path.name, path, record, answers)


def _answers(path: Path) -> Iterator[Answer]:
    """Yield the responses of a file, at most one per query."""
    first: dict[str, str] = {}
    for where, row in read_rows(path):
        response = validated(Response, row, where)
        earlier = first.setdefault(response.query_id, where)
        if earlier != where or response.repeat:
            raise DatasetError(
                f"{where}: second response to query {response.query_id!r}; submit exactly one "
                "response per query, without repeats"
            )
        yield Answer(where, response)


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON, so that people can read it and Git can compare versions."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")
