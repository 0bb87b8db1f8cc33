"""An LLM, or several, as judges of pairs of responses (MIRAGE-Bench, arXiv 2410.13716).

What a judge is asked, and how its answer is read, stands in :mod:`mirage.arena._prompt`; which
pairs are worth asking about, in :mod:`mirage.arena.adaptive`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, get_args

from mirage._base.journal import Journal
from mirage._base.logs import logger
from mirage._base.progress import progress_bar
from mirage.arena._voting import Voting, place, shown
from mirage.arena.adaptive import AdaptivePairs
from mirage.arena.pairs import Contest, Pair, Skipped
from mirage.arena.verdicts import Judged, Votes, judgments_of
from mirage.dataset import MirageDataset, clusters_of
from mirage.errors import JudgmentError, NoJudgmentError, SettingError, UnknownNameError
from mirage.executors import Executor
from mirage.human_agreement import known_agreement
from mirage.llm import LLM
from mirage.llm.estimates import Estimate, estimate, sum_estimates
from mirage.models import HumanAgreement, Run, Vote

__all__ = ["PairJudge", "PairwiseJudge"]

_LOG = logger("mirage.arena")


class PairJudge(Protocol):
    """Anything with this method judges pairs of responses: people, a rule, a model of your own."""

    def judge(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        pairs: Iterable[Pair],
        *,
        out: str | Path | None = None,
        progress: bool = True,
    ) -> Judged:
        """Verdicts on these pairs of responses in ``runs``; see :meth:`PairwiseJudge.judge`."""


class PairwiseJudge:
    """Asks LLMs which of two responses to a query is better.

    A judge sees the question, its passages and the two responses, and not whose they are. It has
    to end its answer with a verdict. Where it does not, it is asked again, five times at most;
    after that its vote is invalid, which is not a tie. Where a call fails for good, its vote is
    failed.

    :meth:`compare` has pairs of runs judged that are drawn at random, :meth:`compare_adaptively`
    those that tell most about the order of the models, and :meth:`judge` those that you name.

    All three may be given ``out``, a JSON Lines file of :class:`~mirage.Vote` that grows as judges
    answer, and is in a fixed order at the end. Votes in it are not asked for again, unless they
    failed, or the responses, the prompt or the judge's parameters have changed since. Votes on
    other queries and pairs, or of other judges, stay in it. So do those before such a change, at
    its beginning, where :func:`read_votes` leaves them out and a judge that is as it was finds
    them.

    Args:
        judges: one LLM or a jury of several, which have different model names.
        both_orders: ask about each pair twice, with either response first. Where a judge then
            does not prefer the same response twice, its verdict is a tie; where one of its two
            votes is invalid or failed, it has none. Otherwise a draw decides which response comes
            first.
        votes: what a jury brings: ``"majority"`` is one judgment on each pair and query, the
            verdict of more than half of the judges that have one, or else a tie; ``"all"`` is a
            judgment for every judge.
        agreement: how far these judges were measured to agree with people, such as
            :meth:`mirage.metaeval.JudgeResult.agreement`; it comes on top of what is
            published of them.

    Raises:
        JudgmentError: no judge, or two of one model name.
    """

    def __init__(
        self,
        judges: LLM | Sequence[LLM],
        *,
        both_orders: bool = False,
        votes: Votes = "majority",
        agreement: Sequence[HumanAgreement] = (),
    ) -> None:
        self.judges: tuple[LLM, ...] = (judges,) if isinstance(judges, LLM) else tuple(judges)
        self.both_orders = both_orders
        self.votes: Votes = votes
        self._agreement = tuple(agreement)
        if not self.judges or not all(isinstance(judge, LLM) for judge in self.judges):
            raise JudgmentError(
                f"judges are one LLM or several, such as LLM('gpt-4o'), and not {judges!r}"
            )
        name, count = Counter(judge.model for judge in self.judges).most_common(1)[0]
        if count > 1:
            raise JudgmentError(
                f"two judges are named {name!r}, and their votes could not be told apart; "
                "give each judge another model"
            )
        if votes not in get_args(Votes):
            raise UnknownNameError("way to count votes", votes, get_args(Votes))

    def __repr__(self) -> str:
        names = [judge.model for judge in self.judges]
        return f"PairwiseJudge({names}, both_orders={self.both_orders}, votes={self.votes!r})"

    @property
    def agreement(self) -> tuple[HumanAgreement, ...]:
        """How far these judges agree with people, as measured or published."""
        published = [entry for judge in self.judges for entry in known_agreement(judge.model)]
        return (*self._agreement, *published)

    def compare(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        *,
        queries: int = 100,
        pairs: float = 1.0,
        seed: int = 0,
        out: str | Path | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Judged:
        """Have every pair of runs judged on a sample of queries.

        A pair is skipped on a query that one of the two does not answer, or where it failed; the
        result says which, and why. Votes that fail do not keep the others from being cast.

        With the same seed, the same pairs are judged in the same order of responses, whatever
        else is judged with them.

        Args:
            dataset: the queries.
            runs: two runs or more, of different models, on this dataset.
            queries: how many queries to draw, without replacement; all where there are fewer.
            pairs: the share of the drawn queries on which each pair is judged, above 0 and up to
                1. It is drawn for each pair by itself, and is one query at least, so that no
                model loses touch with the others.
            seed: of all that is drawn: queries, pairs, and which response comes first.
            out: a file of votes that grows; see the class.
            executor: whose workers ask, in place of this process, which writes; budget, cache and
                ``concurrency`` of a judge are for all machines together.
            progress: show a progress bar on stderr, if that is a terminal.

        Raises:
            JudgmentError: runs that cannot be compared on this dataset.
            NoJudgmentError: not one judgment came of it; says the first reason.
            SettingError: fewer than one query, or no such share.
            DatasetError: ``out`` is not a file of votes, or another process writes it.
            LLMError: there is no key for OpenAI.
        """
        contest = Contest(dataset, runs)
        return self._ask_all(contest, *contest.draw(queries, pairs, seed), out, executor, progress)

    def judge(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        pairs: Iterable[Pair],
        *,
        out: str | Path | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Judged:
        """Have these pairs judged.

        ``dataset``, ``runs``, ``out``, ``executor``, ``progress`` and errors are those of
        :meth:`compare`.

        Args:
            pairs: ``(query_id, model_a, model_b)``, of which the response of ``model_a`` is shown
                first. One that stands there twice is judged once, and one that cannot be judged
                (see :meth:`compare`) is skipped.

        Raises:
            JudgmentError: also where a model is to be compared with itself.
            UnknownNameError: a pair is on a query or model that is not among these.
        """
        contest = Contest(dataset, runs)
        return self._ask_all(contest, *contest.sort_out(pairs), out, executor, progress)

    def compare_adaptively(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        *,
        judgments: int,
        target: float | None = None,
        batch: int | None = None,
        queries: int = 100,
        seed: int = 0,
        out: str | Path | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Judged:
        """Have those pairs judged, batch after batch, that tell most about the order of the models.

        The order is that of the ranking which :meth:`compare` would give with these ``queries``
        and this ``seed``, and every pair; :class:`AdaptivePairs` says how pairs are chosen. With
        the same seed and verdicts the same pairs are judged, also where ``out`` holds votes of a
        run that was cut short: it goes on as if it had not been. Votes that had failed are asked
        for again then. Votes and judgments say to which half of the queries they belong, which
        :meth:`BradleyTerry.fit` needs for logits that are not stretched: keep them as they are.

        Where every vote fails on as many pairs in a row as there are models, nobody answers any
        more, or a budget is spent: that ends it, with what was judged.

        ``dataset``, ``runs``, ``out``, ``executor``, ``progress`` and errors are those of
        :meth:`compare`.

        Args:
            judgments: how many pairs to put to the judges, at most.
            target: stop once :attr:`AdaptivePairs.expected_tau` has reached this, Kendall's tau
                with the ranking by all pairs; by default all judgments are made.
            batch: pairs that are judged at once; as many as models by default. Even ten times as
                many lose little.
            queries: how many queries to draw, as :meth:`compare` draws them.
            seed: of all that is drawn: queries, the choice among equals, and which response comes
                first.

        Raises:
            SettingError: fewer than one judgment or query, an empty batch, or a target that is no
                tau above 0.
        """
        contest = Contest(dataset, runs)
        size = len(contest.runs) if batch is None else batch
        _check_sizes(judgments, size)
        if target is not None and not 0 < target <= 1:
            raise SettingError(f"target={target} is to be above 0 and up to 1, as 0.95 is")
        possible, skipped = contest.draw(queries, 1.0, seed)
        total = min(judgments, len(possible))
        with self._voting(contest, total, skipped, out, executor, progress) as voting:
            query_ids = sorted({pair.query_id for pair in possible})
            adaptive = AdaptivePairs(
                list(contest.runs),
                query_ids,
                closed=skipped,
                clusters=clusters_of(contest.dataset),
                seed=seed,
            )
            if total < len(possible) or target is not None:  # else nothing is chosen
                voting.halves = adaptive.halves
            chosen = _ask_adaptively(voting, adaptive, total, target, size)
        return self._judged(voting, chosen, skipped)

    def estimate(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        *,
        queries: int = 100,
        pairs: float = 1.0,
        judgments: int | None = None,
        seed: int = 0,
    ) -> Estimate:
        """What :meth:`compare` with these arguments will ask for; nothing is sent.

        With ``judgments``, what :meth:`compare_adaptively` will ask for at most: so many pairs of
        average length, as which ones are chosen depends on the verdicts.

        Raises:
            JudgmentError: runs that cannot be compared on this dataset.
            SettingError: as both.
        """
        if judgments is not None:
            _check_sizes(judgments, 1)
            pairs = 1.0
        contest = Contest(dataset, runs)
        drawn, _ = contest.draw(queries, pairs, seed)
        orders = shown(drawn, self.both_orders)
        estimates = [estimate(judge, map(contest.question, orders)) for judge in self.judges]
        if judgments is not None:
            most = min(judgments, len(drawn)) * (2 if self.both_orders else 1)
            estimates = [entry.at_most(most) for entry in estimates]
        return sum_estimates(estimates)

    def estimate_pairs(
        self, dataset: MirageDataset, runs: Iterable[Run], pairs: Iterable[Pair]
    ) -> Estimate:
        """What :meth:`judge` with these arguments will ask for; nothing is sent.

        Raises:
            JudgmentError: runs that cannot be compared on this dataset.
            UnknownNameError: a pair is on a query or model that is not among these.
        """
        contest = Contest(dataset, runs)
        orders = shown(contest.sort_out(pairs)[0], self.both_orders)
        return sum_estimates(
            estimate(judge, map(contest.question, orders)) for judge in self.judges
        )

    def _ask_all(
        self,
        contest: Contest,
        pairs: Sequence[Pair],
        skipped: tuple[Skipped, ...],
        out: str | Path | None,
        executor: Executor | None,
        progress: bool,
    ) -> Judged:
        with self._voting(contest, len(pairs), skipped, out, executor, progress) as voting:
            voting.ask(pairs)
        return self._judged(voting, pairs, skipped)

    @contextmanager
    def _voting(
        self,
        contest: Contest,
        pairs: int,
        skipped: Sequence[Skipped],
        out: str | Path | None,
        executor: Executor | None,
        progress: bool,
    ) -> Iterator[Voting]:
        """Votes on so many pairs, in a file that is put in order when they are cast."""
        if not pairs:
            first = f"; the first: {skipped[0]}" if skipped else ""
            raise JudgmentError(f"no pair can be judged{first}")
        total = pairs * len(self.judges) * (2 if self.both_orders else 1)
        with Journal(out, Vote) as journal, progress_bar(total, "votes", progress) as bar:
            voting = Voting(self.judges, self.both_orders, contest, journal, bar, executor)
            yield voting
            voting.finish()

    def _judged(
        self, voting: Voting, pairs: Sequence[Pair], skipped: tuple[Skipped, ...]
    ) -> Judged:
        votes = voting.votes_on(pairs)
        judgments = judgments_of(votes, self.votes)
        judged = Judged(tuple(sorted(votes, key=place)), judgments, skipped)
        _report(judged)
        return judged


def _check_sizes(judgments: int, batch: int) -> None:
    if judgments < 1 or batch < 1:
        raise SettingError(
            f"ask for 1 judgment or more, 1 or more at once, not {judgments}, {batch}"
        )


def _ask_adaptively(
    voting: Voting, adaptive: AdaptivePairs, most: int, target: float | None, batch: int
) -> list[Pair]:
    """Have pairs judged until that is enough; those that were."""
    chosen: list[Pair] = []
    undecided: list[Pair] = []  # to no judgment on them, as yet
    late: list[Pair] = []  # a vote on them failed at an earlier time
    unanswered = 0  # pairs in a row on which every vote failed
    while len(chosen) < most and (target is None or adaptive.expected_tau < target):
        pairs = adaptive.next(min(batch, most - len(chosen)))
        # What an earlier run went by is gone by again, so that it comes to the same pairs. Only
        # where that run ended are votes asked for that had failed in it.
        if voting.recall(pairs):
            late += [pair for pair in pairs if any(map(_failed, voting.votes_on([pair])))]
            unanswered = 0
        else:
            voting.ask([*pairs, *late])
            late = []
            answered = not all(map(_failed, voting.votes_on(pairs)))
            unanswered = 0 if answered else unanswered + len(pairs)
        chosen += pairs
        undecided += pairs
        judgments = judgments_of(voting.votes_on(undecided))
        adaptive.update(judgments)
        decided = {(j.query_id, j.model_a, j.model_b) for j in judgments}
        undecided = [pair for pair in undecided if pair not in decided]
        if unanswered >= len(adaptive.models):
            break
    voting.ask(late)
    return chosen


def _failed(vote: Vote) -> bool:
    return vote.verdict == "failed"


def _report(judged: Judged) -> None:
    """Log what is missing, once; and refuse to go on with nothing at all."""
    for lost, kind in ((judged.failed, "failed"), (judged.invalid, "are invalid")):
        if lost:
            of = len(judged.votes)
            _LOG.warning("%d of %d votes %s; the first: %s", len(lost), of, kind, lost[0].error)
    if judged.skipped:
        _LOG.warning("%d pairs skipped; the first: %s", len(judged.skipped), judged.skipped[0])
    if not judged.judgments:
        first = (*judged.failed, *judged.invalid)[0]
        raise NoJudgmentError(
            f"no judgment came of {len(judged.votes)} votes; the first, of {first.judge!r} on "
            f"query {first.query_id!r}: {first.error}"
        )
