"""Collection of judges' votes on pairs: each vote is requested once and stored in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from mirage._base.concurrency import for_each, run_sync
from mirage._base.journal import Journal
from mirage._base.logs import logger
from mirage.arena.pairs import Contest, Pair
from mirage.executors import Executor
from mirage.llm import LLM
from mirage.llm.client import Message
from mirage.llm.questions import Outcome, Question, Readability, ask_each, ask_on_workers
from mirage.models import Half, Verdict, Vote

_LOG = logger("mirage.arena")
_DIGEST_DIGITS = 16  # number of hexadecimal digits of the prompt's digest in a vote

_Key = tuple[str, str, str, str]  # query, first model, second model, judge
_VoteKey = tuple[str, str, str, str, str]  # a `_Key` and the digest of the prompt


def shown_pairs(pairs: Iterable[Pair], both_orders: bool) -> list[Pair]:
    """Return the pairs as judges see them, without duplicates.

    If ``both_orders`` is true, each pair is followed by the same pair with its responses swapped.
    """
    orders = ((pair, pair.swapped) if both_orders else (pair,) for pair in pairs)
    return list(dict.fromkeys(pair for order in orders for pair in order))


class Voting:
    """A collector of judges' votes on pairs of responses, which stores the votes in a file.

    A vote that the file already contains is not requested again, unless it has no verdict.

    Args:
        judges: LLMs that vote on each pair.
        both_orders: Whether each judge sees every pair in both orders.
        contest: The queries, and the responses to compare.
        journal: The file to which votes are appended.
        bar: Progress bar that shows the number of votes so far.
        executor: Executor whose workers call the judges; by default this process calls them.

    Attributes:
        halves: Maps each query id to ``first`` or ``second``, the half of the queries that it
            belongs to, if pairs are chosen adaptively (see :class:`mirage.arena.AdaptivePairs`);
            otherwise empty. Each vote stores the half of its query.
    """

    def __init__(
        self,
        judges: Sequence[LLM],
        both_orders: bool,
        contest: Contest,
        journal: Journal[Vote],
        bar: Any,
        executor: Executor | None = None,
    ) -> None:
        self.judges = judges
        self.both_orders = both_orders
        self.contest = contest
        self._journal, self._bar = journal, bar
        self._executor = executor
        self._readability = {judge: Readability() for judge in judges}
        self.halves: Mapping[str, Half] = {}
        self._votes: dict[_Key, Vote] = {}
        self._earlier: dict[_VoteKey, Vote] = {}
        for vote in journal.earlier:
            key = (*_key(vote), vote.prompt_digest)
            if vote.error is None or key not in self._earlier:
                self._earlier[key] = vote

    def ask(self, pairs: Iterable[Pair]) -> None:
        """Request the votes of all judges on these pairs that are missing or have no verdict."""
        ballots_to_ask: dict[LLM, list[_Ballot]] = {judge: [] for judge in self.judges}
        for ballot in self._ballots(pairs):
            vote = self._earlier_vote(ballot)
            if vote is None or vote.error is not None:
                ballots_to_ask[ballot.judge].append(ballot)
            else:
                self._readability[ballot.judge].read = True
                self._count(vote)
        by_judge = [ballots for ballots in ballots_to_ask.values() if ballots]
        if self._executor is None:
            run_sync(self._ask(by_judge))
        else:
            self._ask_on(self._executor, by_judge)

    def missing_questions(self, judge: LLM, pairs: Iterable[Pair]) -> Iterator[Question[Verdict]]:
        """Yield the questions to a judge about these pairs to which the file has no verdict."""
        for ballot in self._ballots(pairs):
            vote = self._earlier_vote(ballot)
            if ballot.judge is judge and (vote is None or vote.error is not None):
                yield self.contest.question(ballot.pair)

    def recall(self, pairs: Iterable[Pair]) -> bool:
        """Return whether the file of votes contains all votes on these pairs.

        If it does, these votes are used instead of new ones, and the progress bar advances.
        """
        votes = [self._earlier_vote(ballot) for ballot in self._ballots(pairs)]
        complete = None not in votes
        for vote in filter(None, votes if complete else ()):
            self._count(vote)
        return complete

    def votes_on(self, pairs: Iterable[Pair]) -> list[Vote]:
        """Return the votes on these pairs, in the order of the pairs."""
        return [
            self._votes[(*pair, judge.model)]
            for pair in shown_pairs(pairs, self.both_orders)
            for judge in self.judges
        ]

    def finish(self) -> None:
        """Sort the votes in the file of votes, including those from earlier comparisons.

        Votes of these judges on these models are marked as outdated if the responses, the prompt or
        the parameters have changed since. They are written first.
        """
        unrelated = [vote for vote in self._earlier.values() if _key(vote) not in self._votes]
        checked = [
            vote.model_copy(update={"outdated": self._is_outdated(vote)}) for vote in unrelated
        ]
        replaced = [
            vote.model_copy(update={"outdated": True})
            for vote in self._earlier.values()
            if vote.prompt_digest != self._votes.get(_key(vote), vote).prompt_digest
        ]
        outdated = [vote for vote in (*replaced, *checked) if vote.outdated and vote.error is None]
        current = [*self._votes.values(), *(vote for vote in checked if not vote.outdated)]
        self._journal.finish([*sorted(outdated, key=vote_order), *sorted(current, key=vote_order)])
        if outdated:
            self._warn_about_outdated(len(outdated), unrelated)

    def _warn_about_outdated(self, count: int, unrelated: Sequence[Vote]) -> None:
        _LOG.warning(
            "%s: %d earlier votes are marked as outdated, because the responses, the prompt or the "
            "parameters of the judge have changed since; `mirage fit` leaves them out",
            self._journal.path,
            count,
        )
        models, names = self.contest.runs.keys(), [judge.model for judge in self.judges]
        unchecked = sum(
            vote.judge in names
            and not vote.outdated
            and len({vote.model_a, vote.model_b} & models) == 1
            for vote in unrelated
        )
        if unchecked:
            _LOG.warning(
                "%s: %d votes on one of these models and another model were not checked and still "
                "count; judge all models of the file in one command to check them",
                self._journal.path,
                unchecked,
            )

    def _is_outdated(self, vote: Vote) -> bool:
        """Return whether a vote would now be on another prompt, response or parameter.

        A vote that cannot be checked keeps its mark.
        """
        judge = next((judge for judge in self.judges if judge.model == vote.judge), None)
        pair = Pair(vote.query_id, vote.model_a, vote.model_b)
        if judge is None or not self.contest.has_responses(pair):
            return vote.outdated
        if not self.contest.sort_out([pair])[0]:
            return True
        messages = self.contest.question(pair).messages
        return vote.prompt_digest not in (_digest(judge, messages, on) for on in (False, True))

    def _earlier_vote(self, ballot: _Ballot) -> Vote | None:
        """Return the vote in the file for a ballot; ``None`` if there is none."""
        vote = self._earlier.get(ballot.vote_key)
        if vote is None and self._journal.earlier:
            # The digests of older files depend on the limit of answers.
            messages = self.contest.question(ballot.pair).messages
            older = _digest(ballot.judge, messages, limits=True)
            vote = self._earlier.get((*ballot.vote_key[:-1], older))
        return vote

    def _ballots(self, pairs: Iterable[Pair]) -> list[_Ballot]:
        return [
            _Ballot(judge, pair, _digest(judge, messages, limits=False))
            for pair in shown_pairs(pairs, self.both_orders)
            for messages in [self.contest.question(pair).messages]
            for judge in self.judges
        ]

    def _ask_on(self, executor: Executor, by_judge: Sequence[list[_Ballot]]) -> None:
        ballots = [ballot for ballots in by_judge for ballot in ballots]
        questions = (
            (self.judges.index(ballot.judge), self.contest.question(ballot.pair))
            for ballot in ballots
        )
        ask_on_workers(executor, self.judges, questions, partial(self._take, ballots))

    def _take(self, ballots: Sequence[_Ballot], number: int, outcome: Outcome[Verdict]) -> None:
        vote = ballots[number].to_vote(outcome)
        self._journal.add(vote)
        self._count(vote)

    async def _ask(self, by_judge: Sequence[list[_Ballot]]) -> None:
        async def ask(ballots: list[_Ballot]) -> None:
            # Prompts are long, so each is built just before it is sent.
            questions = (self.contest.question(ballot.pair) for ballot in ballots)
            judge, take = ballots[0].judge, partial(self._take, ballots)
            await ask_each(judge, questions, take, self._readability[judge])

        await for_each(by_judge, ask, len(self.judges))

    def _count(self, vote: Vote) -> None:
        key, half = _key(vote), self.halves.get(vote.query_id, "")
        if key not in self._votes:
            self._bar.update()
        if vote.half != half or vote.outdated:
            vote = vote.model_copy(update={"half": half, "outdated": False})
        self._votes[key] = self._earlier[(*key, vote.prompt_digest)] = vote


class _Ballot(NamedTuple):
    """A request for one judge's vote on one pair of responses.

    ``digest`` identifies the prompt and the judge's parameters, except for a limit on the length of
    answers.
    """

    judge: LLM
    pair: Pair
    digest: str

    @property
    def vote_key(self) -> _VoteKey:
        """The key under which the file of votes stores the vote."""
        return (*self.pair, self.judge.model, self.digest)

    def to_vote(self, outcome: Outcome[Verdict]) -> Vote:
        """Convert the outcome of the request (verdict, no verdict or error) to a vote."""
        verdict = outcome.value or ("failed" if outcome.failed else "invalid")
        return Vote(
            **self.pair._asdict(),
            judge=self.judge.model,
            prompt_digest=self.digest,
            verdict=verdict,
            error=outcome.failed or outcome.invalid or None,
        )


def _digest(judge: LLM, messages: Sequence[Message], limits: bool) -> str:
    return judge.digest(messages, limits=limits).hex()[:_DIGEST_DIGITS]


def _key(vote: Vote) -> _Key:
    return vote.query_id, vote.model_a, vote.model_b, vote.judge


def vote_order(vote: Vote) -> tuple[str, ...]:
    """Return a sort key that puts the votes on both orders of a pair next to each other."""
    return (
        vote.query_id,
        *sorted((vote.model_a, vote.model_b)),
        *_key(vote)[1:],
        vote.prompt_digest,
    )
