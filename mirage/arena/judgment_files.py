"""Votes and judgments from JSON Lines."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from mirage._base.files import read_rows, validated
from mirage._base.logs import logger
from mirage.arena._votes import tabulate
from mirage.arena.verdicts import Judged, Votes, judgments_of
from mirage.errors import DatasetError, UnknownNameError
from mirage.models import Judgment, Vote

__all__ = ["read_judged", "read_votes"]

_LOG = logger("mirage.arena")
_LOST = ("invalid", "failed")


def read_votes(path: str | Path) -> list[Vote]:
    """The votes in a file, as :meth:`PairwiseJudge.compare` writes them.

    Where a judge was asked about a pair again in other words, with other parameters or on other
    responses, the last vote counts, and the earlier ones are left out.

    Raises:
        DatasetError: names the line and field that is wrong.
    """
    return _last([validated(Vote, row, where) for where, row in read_rows(Path(path))])


def read_judged(path: str | Path, *, judge: str | None = None, votes: Votes = "majority") -> Judged:
    """The judgments in a file of judgments, or a file of votes with those that follow from it.

    Votes that are invalid or failed count for nothing, which a warning says. Of votes that a judge
    cast on a pair in other words, the last counts, as :func:`read_votes` has it.

    Args:
        path: JSON Lines of :class:`~mirage.Judgment` or of :class:`~mirage.Vote`.
        judge: count this judge alone.
        votes: what several judges bring, as :class:`PairwiseJudge` says; of votes alone.

    Raises:
        DatasetError: the file holds neither, or names the line and field that is wrong.
        UnknownNameError: no such judge, or no such way to count votes.
        JudgmentError: nothing is left, or a judge voted twice on the same two responses.
    """
    if votes not in get_args(Votes):
        raise UnknownNameError("way to count votes", votes, get_args(Votes))
    rows = list(read_rows(Path(path)))
    if not rows:
        raise DatasetError(f"{path}: no judgment in this file")
    if judge is not None:
        judges = sorted({str(row.get("judge", "")) for _, row in rows})
        rows = [(where, row) for where, row in rows if row.get("judge", "") == judge]
        if not rows:
            raise UnknownNameError(f"judge in {path}", judge, judges)
    if not any("asked" in row or row.get("verdict") in _LOST for _, row in rows):
        return Judged((), tuple(validated(Judgment, row, where) for where, row in rows))
    cast = tuple(_last([validated(Vote, row, where) for where, row in rows]))
    lost = {_question(vote) for vote in cast if vote.verdict in _LOST}
    count = sum(_question(vote) in lost for vote in cast)
    if count:
        _LOG.warning("%d of %d votes left out: invalid or failed", count, len(cast))
    tabulate(cast)  # refuses votes that stand there twice, and where none has a verdict
    return Judged(cast, judgments_of(cast, votes))


def _last(votes: list[Vote]) -> list[Vote]:
    """Without the votes that a later one in other words stands for."""
    asked = {(_question(vote), vote.model_a): vote.asked for vote in votes}
    last = [vote for vote in votes if vote.asked == asked[_question(vote), vote.model_a]]
    if len(last) < len(votes):
        count = len(votes) - len(last)
        _LOG.warning("%d earlier votes left out: the judge was asked again in other words", count)
    return last


def _question(vote: Vote) -> tuple[str, str, frozenset[str]]:
    """What a judge's votes in both orders share: where one names no verdict, neither counts."""
    return vote.judge, vote.query_id, frozenset((vote.model_a, vote.model_b))
