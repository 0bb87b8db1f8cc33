"""The content of a board's page: submissions, and the rows of each view.

A view is the table of one language, or of the means over all languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirage.boards.records import Removal, Version

ALL = "all"
"""Name of the view with the means over the languages."""


class Row(NamedTuple):
    """A row of a view, which is the table of one language or of the means over all languages.

    Attributes:
        id: Id of the submission.
        logit: Logit of the system.
        interval: Lower and upper end of the logit's confidence interval; NaN if there is none.
        ranks: Best and worst plausible rank; ``None`` if there is no interval.
        failed: Number of queries on which the system failed.
        remarks: Remarks on suspicious responses.
    """

    id: str
    logit: float
    interval: tuple[float, float]
    ranks: tuple[int, int] | None
    failed: int = 0
    remarks: Sequence[str] = ()


class Listing(NamedTuple):
    """A submission in the list of the page.

    Attributes:
        id: Id of the submission.
        model: Name of the system.
        submitter: Who submitted it.
        date: Day of the submission, in ISO 8601.
        number: Position of this submission among those of its submitter, from 1.
        total: Number of submissions of its submitter.
        link: Address of the code or a description; empty if there is none.
        shown: Codes of the languages whose responses the site shows.
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
        versions: Current version of the queries and the judge, by language code.
        rules: Rules of the team.
        removed: Removed submissions.
        unranked: Submission id, language code and reason for each missing rank.
        about: Explanation of the ranks, in one line; empty if there is none.
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
