"""What the page of a board shows: submissions, and the rows of each view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirage.boards.records import Removal, Version

ALL = "all"
"""Name of the view with the means over the languages."""


class Row(NamedTuple):
    """A row of a view.

    Attributes:
        id: The submission.
        logit: Its logit.
        interval: Interval of the logit; NaN if there is none.
        ranks: Best and worst rank; ``None`` if there is no interval.
        failed: Number of queries on which the system failed.
        remarks: Remarks for readers.
    """

    id: str
    logit: float
    interval: tuple[float, float]
    ranks: tuple[int, int] | None
    failed: int = 0
    remarks: Sequence[str] = ()


class Listing(NamedTuple):
    """A submission as the page lists it.

    Attributes:
        id: Its id.
        model: Name of the system.
        submitter: Who submitted it.
        date: Day of the submission, in ISO 8601.
        number: Number of this submission among those of its submitter.
        total: Number of submissions of its submitter.
        link: Address of the code or a description, or an empty text.
        shown: Languages whose responses the site has.
    """

    id: str
    model: str
    submitter: str
    date: str
    number: int
    total: int
    link: str = ""
    shown: Sequence[str] = ()


class Site(NamedTuple):
    """Everything that the page of a board shows.

    Attributes:
        title: Title of the page.
        listings: All submissions.
        views: The rows of each view, best first, by language code and :data:`ALL`.
        versions: Version of each language.
        rules: Rules of the team.
        removed: Removed submissions.
        unranked: Submissions without a rank in a language: id, language and reason.
        about: What a rank means, in one line.
        level: Confidence level of the intervals.
    """

    title: str
    listings: Sequence[Listing]
    views: Mapping[str, Sequence[Row]]
    versions: Mapping[str, Version]
    rules: Sequence[str] = ()
    removed: Sequence[Removal] = ()
    unranked: Sequence[tuple[str, str, str]] = ()
    about: str = ""
    level: float = 0.95
