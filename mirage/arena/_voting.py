"""Collection of judges' votes on pairs: each vote is requested once and stored in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from mirage._base.concurrency import for_each, run_sync
from mirage._base.journal import Journal
from mirage.arena.pairs import Contest, Pair
from mirage.executors import Executor
from mirage.llm import LLM
from mirage.llm.questions import Outcome, ask_each, ask_on_workers
from mirage.models import Half, Verdict, Vote

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

    A vote that the file already contains is not requested again, unless it failed.

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
        self.halves: Mapping[str, Half] = {}
        self._votes: dict[_Key, Vote] = {}
        self._earlier: dict[_VoteKey, Vote] = {}
        for vote in journal.earlier:
            key = (*_key(vote), vote.prompt_digest)
            if vote.verdict != "failed" or key not in self._earlier:
                self._earlier[key] = vote

    def ask(self, pairs: Iterable[Pair]) -> None:
        """Request the missing and failed votes of all judges on these pairs."""
        ballots_to_ask: dict[LLM, list[_Ballot]] = {judge: [] for judge in self.judges}
        for ballot in self._ballots(pairs):
            vote = self._earlier.get(ballot.vote_key)
            if vote is None or vote.verdict == "failed":
                ballots_to_ask[ballot.judge].append(ballot)
            else:
                self._count(vote)
        by_judge = [ballots for ballots in ballots_to_ask.values() if ballots]
        if self._executor is None:
            run_sync(self._ask(by_judge))
        else:
            self._ask_on(self._executor, by_judge)

    def recall(self, pairs: Iterable[Pair]) -> bool:
        """Return whether the file of votes contains all votes on these pairs.

        If it does, these votes are used instead of new ones, and the progress bar advances.
        """
        keys = [ballot.vote_key for ballot in self._ballots(pairs)]
        complete = all(key in self._earlier for key in keys)
        for key in keys if complete else ():
            self._count(self._earlier[key])
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

        If a judge voted on a pair several times, readers of the file use only the last vote. Votes
        that are outdated, because the parameters or responses have changed since, are therefore
        written first.
        """
        unrelated = [vote for vote in self._earlier.values() if _key(vote) not in self._votes]
        outdated = [
            vote
            for vote in self._earlier.values()
            if vote.verdict != "failed"
            and vote.prompt_digest != self._votes.get(_key(vote), vote).prompt_digest
        ]
        current = sorted([*self._votes.values(), *unrelated], key=vote_order)
        self._journal.finish([*sorted(outdated, key=vote_order), *current])

    def _ballots(self, pairs: Iterable[Pair]) -> list[_Ballot]:
        return [
            _Ballot(judge, pair, judge.digest(messages).hex()[:_DIGEST_DIGITS])
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
            await ask_each(ballots[0].judge, questions, partial(self._take, ballots))

        await for_each(by_judge, ask, len(self.judges))

    def _count(self, vote: Vote) -> None:
        key, half = _key(vote), self.halves.get(vote.query_id, "")
        if key not in self._votes:
            self._bar.update()
        if vote.half != half:
            vote = vote.model_copy(update={"half": half})
        self._votes[key] = self._earlier[(*key, vote.prompt_digest)] = vote


class _Ballot(NamedTuple):
    """A request for one judge's vote on one pair of responses.

    ``digest`` identifies the prompt and the judge's parameters.
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
