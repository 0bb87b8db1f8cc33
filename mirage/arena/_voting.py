"""Asking judges for their votes on pairs, each once, and keeping them in a file."""

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

__all__ = ["Voting", "place", "shown"]

_ASKED = 16  # hexadecimal digits of what a vote says it was asked

_Key = tuple[str, str, str, str]  # query, first model, second model, judge
_Words = tuple[str, str, str, str, str]  # and what the judge was asked


def shown(pairs: Iterable[Pair], both_orders: bool) -> list[Pair]:
    """These pairs in every order in which a judge is shown them."""
    orders = ((pair, pair.swapped) if both_orders else (pair,) for pair in pairs)
    return list(dict.fromkeys(pair for order in orders for pair in order))


class Voting:
    """The votes of judges on pairs of a contest.

    Votes that the journal holds already are not asked for again, unless they failed. ``bar`` shows
    how many votes there are. ``halves`` are those of the queries on which pairs are chosen
    adaptively, by id; a vote says its half. An ``executor`` has its workers ask.
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
        self._earlier: dict[_Words, Vote] = {}
        for vote in journal.earlier:
            words = (*_key(vote), vote.asked)
            if vote.verdict != "failed" or words not in self._earlier:
                self._earlier[words] = vote

    def ask(self, pairs: Iterable[Pair]) -> None:
        """Have the judges vote on these pairs, but for votes that there are and did not fail."""
        missing: dict[LLM, list[_Ballot]] = {judge: [] for judge in self.judges}
        for ballot in self._ballots(pairs):
            vote = self._earlier.get(ballot.words)
            if vote is None or vote.verdict == "failed":
                missing[ballot.judge].append(ballot)
            else:
                self._count(vote)
        by_judge = [ballots for ballots in missing.values() if ballots]
        if self._executor is None:
            run_sync(self._ask(by_judge))
        else:
            self._ask_on(self._executor, by_judge)

    def recall(self, pairs: Iterable[Pair]) -> bool:
        """Whether the journal held all votes on these pairs; they then count as they are."""
        words = [ballot.words for ballot in self._ballots(pairs)]
        held = all(key in self._earlier for key in words)
        for key in words if held else ():
            self._count(self._earlier[key])
        return held

    def votes_on(self, pairs: Iterable[Pair]) -> list[Vote]:
        """The votes on these pairs, in their order."""
        return [
            self._votes[(*pair, judge.model)]
            for pair in shown(pairs, self.both_orders)
            for judge in self.judges
        ]

    def finish(self) -> None:
        """Put the journal in order: what was voted here, and all that it held of something else.

        Votes that were asked for otherwise (with other parameters, or on other responses) come
        first, so that those of now are the last on their pair, which count.
        """
        others = [vote for vote in self._earlier.values() if _key(vote) not in self._votes]
        before = [
            vote
            for vote in self._earlier.values()
            if vote.verdict != "failed" and vote.asked != self._votes.get(_key(vote), vote).asked
        ]
        now = sorted([*self._votes.values(), *others], key=place)
        self._journal.finish([*sorted(before, key=place), *now])

    def _ballots(self, pairs: Iterable[Pair]) -> list[_Ballot]:
        return [
            _Ballot(judge, pair, judge.digest(messages).hex()[:_ASKED])
            for pair in shown(pairs, self.both_orders)
            for messages in [self.contest.question(pair).messages]
            for judge in self.judges
        ]

    def _ask_on(self, executor: Executor, by_judge: Sequence[list[_Ballot]]) -> None:
        all_of_them = [ballot for ballots in by_judge for ballot in ballots]
        asked = (
            (self.judges.index(ballot.judge), self.contest.question(ballot.pair))
            for ballot in all_of_them
        )
        ask_on_workers(executor, self.judges, asked, partial(self._take, all_of_them))

    def _take(self, ballots: Sequence[_Ballot], number: int, outcome: Outcome[Verdict]) -> None:
        vote = ballots[number].filled(outcome)
        self._journal.add(vote)
        self._count(vote)

    async def _ask(self, by_judge: Sequence[list[_Ballot]]) -> None:
        async def ask(ballots: list[_Ballot]) -> None:
            # Prompts are long: each is written when it is its turn.
            questions = (self.contest.question(ballot.pair) for ballot in ballots)
            await ask_each(ballots[0].judge, questions, partial(self._take, ballots))

        await for_each(by_judge, ask, len(self.judges))

    def _count(self, vote: Vote) -> None:
        key, half = _key(vote), self.halves.get(vote.query_id, "")
        if key not in self._votes:
            self._bar.update()
        if vote.half != half:
            vote = vote.model_copy(update={"half": half})
        self._votes[key] = self._earlier[(*key, vote.asked)] = vote


class _Ballot(NamedTuple):
    """What a judge is asked for one vote; ``asked`` says in which words."""

    judge: LLM
    pair: Pair
    asked: str

    @property
    def words(self) -> _Words:
        return (*self.pair, self.judge.model, self.asked)

    def filled(self, outcome: Outcome[Verdict]) -> Vote:
        verdict = outcome.value or ("failed" if outcome.failed else "invalid")
        return Vote(
            **self.pair._asdict(),
            judge=self.judge.model,
            asked=self.asked,
            verdict=verdict,
            error=outcome.failed or outcome.invalid or None,
        )


def _key(vote: Vote) -> _Key:
    return vote.query_id, vote.model_a, vote.model_b, vote.judge


def place(vote: Vote) -> tuple[str, ...]:
    """By which votes are sorted: both orders of a pair stand together."""
    return (vote.query_id, *sorted((vote.model_a, vote.model_b)), *_key(vote)[1:], vote.asked)
