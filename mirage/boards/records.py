"""Records of a board: the board file, submissions, and the manifest of a published site."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from mirage._base.files import validated
from mirage._base.inputs import read_text
from mirage.errors import DatasetError
from mirage.models import LanguageCode, Name, Record

SURROGATE = "surrogate"
"""Name of the judge of a board that is scored by the bundled surrogates."""

_HANDLE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._/+:@()-]{0,78}[A-Za-z0-9)])?")
_LINK = re.compile(r"https://[A-Za-z0-9.-]+(?::\d+)?(?:/[!-~]*)?")


def _check_handle(name: str) -> str:
    if not _HANDLE.fullmatch(name):
        raise ValueError(
            f"{name!a} is not a valid name; use 1 to 80 ASCII letters, digits, spaces or "
            "._/+:@()-, so that no name looks like another one"
        )
    return name


def _check_link(link: str) -> str:
    if link and not _LINK.fullmatch(link):
        raise ValueError(f"the link {link!a} must begin with https:// and contain no spaces")
    return link


Handle = Annotated[str, AfterValidator(_check_handle)]
Link = Annotated[str, AfterValidator(_check_link)]
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]

R = TypeVar("R", bound=Record)


class Version(Record):
    """The queries and the judge that determine the scores in one language.

    Attributes:
        data: SHA-256 digest of the queries, from :func:`mirage.testing.baseline.fingerprint`.
        judge: Name of the judge, with the digest of the surrogate or of the prompt.
    """

    data: Digest
    judge: Name


class EarlierVersion(Version):
    """An earlier version of a board's queries and judge; its submissions are listed, not ranked.

    Attributes:
        language: ISO 639-1 code.
        until: Last day on which submissions could use it.
        reason: Why the board changed.
    """

    language: LanguageCode
    until: date
    reason: Name


class Removal(Record):
    """A submission whose folder was removed; it stays listed.

    Attributes:
        id: Name of the folder.
        model: Name of the system.
        submitter: Who submitted it.
        date: Day of the removal.
        reason: Why it was removed.
    """

    id: Name
    model: Handle
    submitter: Handle
    date: date
    reason: Name


class BoardFile(Record):
    """The file ``board.json``: the languages, versions and rules of a board.

    Attributes:
        title: Title of the page.
        judge: ``surrogate`` if the bundled surrogates score the submissions, or else the name of
            the judge in the files of votes.
        prompt: Digest of the judge's prompt; empty if the judge is ``surrogate``, or uses the
            prompt that ships with mirage.
        versions: Current version of the queries and the judge, by language code.
        rules: Rules of the team, in addition to those that every board has.
        removed: Removed submissions.
        earlier: Versions that the board used before.
    """

    title: Name
    judge: Name = SURROGATE
    prompt: str = ""
    versions: Annotated[dict[LanguageCode, Version], Field(min_length=1)]
    rules: tuple[Name, ...] = ()
    removed: tuple[Removal, ...] = ()
    earlier: tuple[EarlierVersion, ...] = ()


class Submission(Record):
    """The file ``submission.json`` of one submission.

    It has no field for scores, because they are computed from the responses.

    Attributes:
        model: Name of the system.
        submitter: Who submits it, such as a GitHub user name.
        date: Day of the submission.
        link: Address of the code or a description.
        show_responses: Whether the site may show the responses.
        data: Digest of the queries that were answered, by language.
    """

    model: Handle
    submitter: Handle
    date: date
    link: Link = ""
    show_responses: bool = True
    data: Annotated[dict[LanguageCode, Digest], Field(min_length=1)]


class Mark(Record):
    """A submission as listed in a manifest; ``digest`` shows whether it changed later.

    Attributes:
        model: Name of the system.
        submitter: Who submitted it.
        date: Day of the submission.
        digest: SHA-256 digest of its record and responses.
    """

    model: Handle
    submitter: Handle
    date: date
    digest: Digest


class Manifest(Record):
    """The state of a board, with which a later state is compared.

    Attributes:
        judge: ``surrogate``, or the name of the judge in the files of votes.
        prompt: Digest of the judge's prompt; empty if the judge is ``surrogate``, or uses the
            prompt that ships with mirage.
        versions: Current version of the queries and the judge, by language code.
        removed: Removed submissions.
        earlier: Versions that the board used before.
        submissions: The submissions by id.
    """

    judge: Name
    prompt: str
    versions: dict[LanguageCode, Version]
    removed: tuple[Removal, ...]
    earlier: tuple[EarlierVersion, ...]
    submissions: dict[Name, Mark]


def read_record(record: type[R], path: Path) -> R:
    """Read a JSON file with one record.

    Args:
        record: Class of the record.
        path: Path of the file.

    Raises:
        DatasetError: The file is not valid; the message names the file, the line and the field.
    """
    text = read_text(path, "settings")
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise DatasetError(f"{path}, line {line}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise DatasetError(f"{path}, line 1: expected a JSON object, got {type(row).__name__}")
    try:
        return record.model_validate(row)
    except ValidationError as error:
        # Raises the error again in the usual form, with the line of the first invalid field.
        line = _line_of(text, error.errors()[0]["loc"])
        return validated(record, row, f"{path}, line {line}")


def _line_of(text: str, location: Sequence[int | str]) -> int:
    """Return the number of the line with a field in a JSON text.

    ``location`` lists the names of the objects that contain the field, and its own name. If the
    field is missing, the line is that of the innermost object that was found, or else 1.
    """
    start = 0
    for part in location:
        at = text.find(json.dumps(part), start) if isinstance(part, str) else -1
        start = start if at < 0 else at
    return text.count("\n", 0, start) + 1
