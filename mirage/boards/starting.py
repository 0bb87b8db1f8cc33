"""Create a board, and add submissions to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from mirage._base.files import make_folder, validated, write_text
from mirage.boards.folders import (
    BOARD_FILE,
    BoardFolder,
    current_version,
    dataset_in,
    write_json,
)
from mirage.boards.records import SURROGATE, BoardFile, Submission
from mirage.errors import MirageError, UnknownNameError
from mirage.models import Run

JOBS = {"github.yml": ".github/workflows/board.yml", "gitlab.yml": ".gitlab-ci.yml"}
"""The CI jobs that are written for a new board, with their paths in its folder."""


def start_board(
    path: Path,
    languages: Sequence[str],
    *,
    title: str,
    judge: str = SURROGATE,
    prompt: str = "",
) -> None:
    """Write the board file and the CI jobs of a new board.

    Args:
        path: Folder of the board, with ``queries/CODE.jsonl`` if it has its own queries.
        languages: Language codes.
        title: Title of the page.
        judge: Name of the judge, as in :class:`mirage.boards.records.BoardFile`.
        prompt: Digest of the judge's prompt.

    Raises:
        MirageError: The folder has a board already, or its queries cannot be read.
    """
    file = path / BOARD_FILE
    if file.exists():
        raise MirageError(f"{file}: the board exists already; choose a new folder")
    draft = BoardFile.model_construct(judge=judge, prompt=prompt)
    versions = {
        code: current_version(draft, dataset_in(path, code)).model_dump() for code in languages
    }
    shared = {"judge": judge} | ({"prompt": prompt} if prompt else {})
    record = {"title": title, **shared, "versions": versions, "rules": [], "removed": []}
    validated(BoardFile, record, "the board")
    make_folder(path / "submissions")
    for name, target in JOBS.items():
        job = (resources.files("mirage.boards") / "jobs" / name).read_text(encoding="utf-8")
        make_folder((path / target).parent)
        write_text(path / target, job.replace("VERSION", version("mirage-rag")))
    write_json(file, record)


def add_submission(
    path: Path, files: Mapping[str, Path], *, model: str, submitter: str, day: date, link: str = ""
) -> Path:
    """Create the folder of a submission in the folder of a board, and return its path.

    Args:
        path: Folder of the board.
        files: Path of the file of responses in each language, by language code.
        model: Name of the system.
        submitter: Who submits it.
        day: Day of the submission.
        link: Address of the code or a description.

    Raises:
        MirageError: A file or a name is not valid, or the board has no such language.
    """
    board = BoardFolder(path)
    for code in files:
        if code not in board.file.versions:
            raise UnknownNameError("language", code, board.file.versions, "on the board")
    data = {code: board.file.versions[code].data for code in files}
    row = {"model": model, "submitter": submitter, "date": day, "link": link, "data": data}
    record = validated(Submission, row, "the submission")
    runs = {code: Run.load(file, language=code, model=model) for code, file in files.items()}
    name = f"{day.isoformat()}-{_slug(submitter)}-{_slug(model)}"
    removed = {removal.id for removal in board.file.removed}
    folder = _new_folder(path / "submissions", name, removed)
    make_folder(folder)
    for code, run in runs.items():
        run.save(folder / f"{code}.jsonl")
    write_json(folder / "submission.json", record.model_dump(mode="json", exclude_defaults=True))
    return folder


def _slug(name: str) -> str:
    letters = (char if char.isalnum() else "-" for char in name.lower())
    return "-".join(filter(None, "".join(letters).split("-")))[:40]


def _new_folder(parent: Path, name: str, removed: Collection[str]) -> Path:
    """Return the path of a folder that does not exist; if the name is taken, add a number.

    Names of ``removed`` submissions are taken too.
    """
    numbers = ("", *(f".{number}" for number in range(2, 1000)))
    folders = (parent / f"{name}{number}" for number in numbers)
    return next(path for path in folders if not path.exists() and path.name not in removed)
