"""Readers of votes and judgments from JSON Lines, and recorded votes as a judge."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mirage._base.files import read_rows, validated
from mirage._base.logs import logger
from mirage.arena._votes import tabulate
from mirage.arena.pairs import Contest, Pair
from mirage.arena.verdicts import Judged, judgments_of
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, NoJudgmentError, SettingError, UnknownNameError
from mirage.models import Judgment, Run, Vote

_LOG = logger("mirage.arena")
_WITHOUT_VERDICT = ("invalid", "failed")
_Question = tuple[str, str, frozenset[str]]  # judge, query, and the two models
_VOTE_KEYS = {"prompt_digest", "asked"}  # names of the digest in newer and in older files


def read_votes(path: str | Path) -> list[Vote]:
    """Read the votes in a file that :meth:`PairwiseJudge.compare` wrote.

    Votes that are outdated, because the responses, the prompt or the parameters of the judge have
    changed since, are left out, and a warning is logged.

    Args:
        path: JSON Lines file of :class:`~mirage.Vote`.

    Returns:
        The votes, in the order of the file.

    Raises:
        DatasetError: The file is not valid; the message gives the line and the field.
    """
    return _current_votes([validated(Vote, row, where) for where, row in read_rows(Path(path))])


def read_judged(path: str | Path, *, judge: str | None = None) -> Judged:
    """Read judgments from a file of judgments, or from a file of votes.

    Votes that are invalid or failed are not counted, and a warning is logged. The same holds for
    outdated votes, as for :func:`read_votes`.

    Args:
        path: JSON Lines file of :class:`~mirage.Judgment` or of :class:`~mirage.Vote`.
        judge: Name of the only judge to count; all by default.

    Returns:
        The votes and the judgments that are computed from them. If the file contains judgments, the
        result has no votes.

    Raises:
        DatasetError: The file contains neither votes nor judgments, or a line is not valid; the
            message gives the line and the field.
        UnknownNameError: There is no such judge.
        JudgmentError: No vote has a verdict, or a judge voted twice on the same two responses in
            the same order.
    """
    rows = list(read_rows(Path(path)))
    if not rows:
        raise DatasetError(f"{path}: the file has no judgments")
    if judge is not None:
        judges = sorted({str(row.get("judge", "")) for _, row in rows})
        rows = [(where, row) for where, row in rows if row.get("judge", "") == judge]
        if not rows:
            raise UnknownNameError("judge", judge, judges, f"in {path}")
    if not any(
        row.keys() & _VOTE_KEYS or row.get("verdict") in _WITHOUT_VERDICT for _, row in rows
    ):
        return Judged((), tuple(validated(Judgment, row, where) for where, row in rows))
    valid_votes = tuple(_current_votes([validated(Vote, row, where) for where, row in rows]))
    lost_questions = {
        _question_key(vote) for vote in valid_votes if vote.verdict in _WITHOUT_VERDICT
    }
    count = sum(_question_key(vote) in lost_questions for vote in valid_votes)
    if count:
        _LOG.warning(
            "%d of %d votes are left out, because they, or the same judge's votes on these pairs "
            "in the other order, are invalid or failed",
            count,
            len(valid_votes),
        )
    tabulate(valid_votes)  # raises an error on duplicate votes, and if none has a verdict
    return Judged(valid_votes, judgments_of(valid_votes))


class RecordedJudge:
    """A judge of pairs whose votes are in a file, such as people's votes from ``mirage label``.

    The judge has a verdict on a pair if the file has a vote on these two models and this query, in
    either order. A vote may store the digest of the texts that the rater saw. Such a vote only
    counts if the two responses, the question and the passages are still the same; a warning gives
    the number of votes that do not count. Pairs without a vote get no verdict, so a ranking uses
    only the pairs that people have labelled so far.

    Args:
        path: JSON Lines file of :class:`~mirage.Vote`.

    Raises:
        DatasetError: The file is not valid; the message gives the line and the field.
        JudgmentError: A rater voted twice on the same two responses in the same order.

    Example:
        >>> from mirage import Leaderboard
        >>> from mirage.arena.judgment_files import RecordedJudge
        >>> board = Leaderboard.bundled("sw")
        >>> board.rank("my-rag.jsonl", judge=RecordedJudge("votes.jsonl"))  # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Path = Path(path)
        self._recorded = read_judged(path).votes
        if not self._recorded:
            raise DatasetError(
                f"{path}: the file contains judgments, but votes are needed; pass a file that "
                "`mirage label --pairs` wrote"
            )

    def __repr__(self) -> str:
        return f"RecordedJudge({str(self.path)!r})"

    def judge(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        pairs: Iterable[Pair],
        *,
        out: str | Path | None = None,
        progress: bool = True,  # noqa: ARG002  # part of the protocol
    ) -> Judged:
        """Return the recorded verdicts on these pairs.

        Args:
            dataset: The queries.
            runs: At least two runs of different models on this dataset.
            pairs: The pairs to look up.
            out: Must be ``None``, because the votes are in a file already.
            progress: Has no effect.

        Returns:
            The votes, the judgments that follow from them, and the pairs that were skipped because
            they cannot be judged.

        Raises:
            NoJudgmentError: The file has no current vote on any of the pairs.
            SettingError: ``out`` is not ``None``.
        """
        if out is not None:
            raise SettingError(
                "out= cannot be used with recorded votes, because they are in a file already; "
                "leave it out"
            )
        contest = Contest(dataset, runs)
        possible, skipped = contest.sort_out(pairs)
        wanted = {(pair.query_id, frozenset(pair[1:])) for pair in possible}
        by_people = [
            vote
            for vote in self._recorded
            if (vote.query_id, frozenset((vote.model_a, vote.model_b))) in wanted
        ]
        current = [vote for vote in by_people if _is_current(vote, contest)]
        if len(current) < len(by_people):
            count = len(by_people) - len(current)
            _LOG.warning(
                "%s: %d of %d votes are left out, because the responses, questions or passages "
                "have changed since",
                self.path,
                count,
                len(by_people),
            )
        if not current:
            raise NoJudgmentError(
                f"{self.path}: there is no vote on any of the {len(possible)} pairs to judge; "
                "label pairs of these models with `mirage label --pairs`, with the same seed as "
                "for this ranking"
            )
        return Judged(tuple(current), judgments_of(current), skipped)


def _is_current(vote: Vote, contest: Contest) -> bool:
    pair = Pair(vote.query_id, vote.model_a, vote.model_b)
    return vote.prompt_digest in ("", contest.digest(pair))


def _current_votes(votes: list[Vote]) -> list[Vote]:
    """Return the votes that are not outdated, and log the number of votes that are left out.

    A finished comparison marks outdated votes. If it was interrupted, or an earlier version wrote
    the file, a vote is outdated if the same judge voted on the same responses in the same order
    again, with another prompt. A vote in the other order is then left out too, because it may
    belong to the earlier prompt.
    """
    unmarked = [vote for vote in votes if not vote.outdated]
    last = {(_question_key(vote), vote.model_a): vote for vote in unmarked}
    lasting = [
        vote
        for vote in unmarked
        if vote is (final := last[_question_key(vote), vote.model_a])
        or (vote.error is None and vote.prompt_digest == final.prompt_digest)
    ]
    replaced = {
        (_question_key(vote), vote.model_a)
        for vote in unmarked
        if vote.prompt_digest != last[_question_key(vote), vote.model_a].prompt_digest
    }
    questions = {question for question, _ in replaced}
    current = [
        vote
        for vote in lasting
        if _question_key(vote) not in questions or (_question_key(vote), vote.model_a) in replaced
    ]
    if len(current) < len(votes):
        _LOG.warning(
            "%d of %d votes are left out, because the responses, the prompt or the parameters of "
            "the judge have changed since",
            len(votes) - len(current),
            len(votes),
        )
    _warn_about_unchecked(current, questions)
    return current


def _warn_about_unchecked(votes: list[Vote], replaced: set[_Question]) -> None:
    """Warn of votes that may be outdated: the judge voted again on other queries only."""
    comparisons = {(judge, models) for judge, _, models in replaced}
    unchecked = sum(
        (vote.judge, _question_key(vote)[2]) in comparisons and _question_key(vote) not in replaced
        for vote in votes
    )
    if unchecked:
        _LOG.warning(
            "%d other votes on these models may be outdated too; run `mirage judge` again with the "
            "same file: it marks outdated votes, and pays only for what is missing",
            unchecked,
        )


def _question_key(vote: Vote) -> _Question:
    """Return the judge, the query and the set of models of a vote.

    This key is the same for the votes on both orders of two responses.
    """
    return vote.judge, vote.query_id, frozenset((vote.model_a, vote.model_b))
