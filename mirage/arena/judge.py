"""An LLM, or several, as judges of pairs of responses (MIRAGE-Bench, arXiv 2410.13716).

What a judge is asked, and how its answer is read, stands in :mod:`mirage.arena._prompt`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from mirage._base.concurrency import for_each, run_sync
from mirage._base.journal import Journal
from mirage._base.progress import progress_bar
from mirage.arena._prompt import REMINDER, judge_messages, read_verdict
from mirage.errors import JudgmentError, LLMError, UnknownNameError
from mirage.human_agreement import known_agreement
from mirage.llm import LLM, Completion, Connection
from mirage.llm.estimates import Estimate, estimate, sum_estimates
from mirage.llm.questions import ask_until, unread
from mirage.models import HumanAgreement, Judgment, Query, Response, Run, Verdict, Vote

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset

__all__ = ["Judged", "PairwiseJudge", "Skipped", "Votes", "judgments_of"]

Votes = Literal["majority", "all"]

_LOG = logging.getLogger("mirage.arena")
_ASKED = 16  # hexadecimal digits of what a vote says it was asked


class PairwiseJudge:
    """Asks LLMs which of two responses to a query is better.

    A judge sees the question, its passages and the two responses, and not whose they are. It has
    to end its answer with a verdict. Where it does not, it is asked again, five times at most;
    after that its vote is invalid, which is not a tie. Where a call fails for good, its vote is
    failed.

    Args:
        judges: one LLM or a jury of several, which have different model names.
        both_orders: ask about each pair twice, with either response first. Where a judge then
            does not prefer the same response twice, its verdict is a tie; where one of its two
            votes is invalid or failed, it has none. Otherwise a draw decides which response comes
            first.
        votes: what a jury brings: ``"majority"`` is one judgment on each pair and query, the
            verdict of more than half of the judges that have one, or else a tie; ``"all"`` is a
            judgment for every judge.
        measured: how far these judges were measured to agree with people, such as
            :meth:`mirage.metaeval.JudgeResult.human_agreement`; it comes on top of what is
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
        measured: Sequence[HumanAgreement] = (),
    ) -> None:
        self.judges = (judges,) if isinstance(judges, LLM) else tuple(judges)
        self.both_orders = both_orders
        self.votes: Votes = votes
        self._measured = tuple(measured)
        if not self.judges or not all(isinstance(judge, LLM) for judge in self.judges):
            raise JudgmentError(
                f"judges are one LLM or several, such as LLM('gpt-4o'), and not {judges!r}"
            )
        twice = _twice(judge.model for judge in self.judges)
        if twice is not None:
            raise JudgmentError(
                f"two judges are named {twice!r}, and their votes could not be told apart; "
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
        published = [one for judge in self.judges for one in known_agreement(judge.model)]
        return (*self._measured, *published)

    def compare(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        *,
        queries: int = 100,
        pairs: float = 1.0,
        seed: int = 0,
        out: str | Path | None = None,
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
            out: a JSON Lines file of :class:`~mirage.Vote` that grows as judges answer, and is in
                a fixed order at the end. Votes in it are not asked for again, unless they failed,
                or the responses, the prompt or the judge's parameters have changed since. Votes
                on other queries and pairs, or of other judges, stay in it.
            progress: show a progress bar on stderr, if that is a terminal.

        Raises:
            JudgmentError: runs that cannot be compared on this dataset; or not one judgment came
                of it, with the first reason.
            DatasetError: ``out`` is not a file of votes, or another process writes it.
            LLMError: there is no key for OpenAI.
        """
        planned, skipped = _plan(dataset, tuple(runs), queries, pairs, seed)
        if not planned:
            raise JudgmentError(f"no pair can be judged; the first: {skipped[0]}")
        shown = self._shown(planned)
        with (
            Journal(out, Vote) as journal,
            progress_bar(len(shown) * len(self.judges), "votes", progress) as bar,
        ):
            kept = _kept(journal.kept)
            votes = run_sync(self._ask_all(shown, kept, journal, bar))
            ours = {_key(vote) for vote in votes}
            others = [vote for vote in kept.values() if _key(vote) not in ours]
            journal.finish(sorted([*votes, *others], key=_place))
        judged = Judged(tuple(sorted(votes, key=_place)), self._judgments(planned, votes), skipped)
        _report(judged)
        return judged

    def estimate(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        *,
        queries: int = 100,
        pairs: float = 1.0,
        seed: int = 0,
    ) -> Estimate:
        """What :meth:`compare` with these arguments will ask for; nothing is sent.

        Raises:
            JudgmentError: runs that cannot be compared on this dataset.
        """
        planned, _ = _plan(dataset, tuple(runs), queries, pairs, seed)
        prompts = [
            judge_messages(pair.query, pair.response_a, pair.response_b)
            for pair in self._shown(planned)
        ]
        return sum_estimates(estimate(judge, prompts) for judge in self.judges)

    def _shown(self, planned: Sequence[_Pair]) -> list[_Pair]:
        """The pairs in every order in which a judge is shown them."""
        swapped = [pair.swapped() for pair in planned] if self.both_orders else []
        return [*planned, *swapped]

    async def _ask_all(
        self, shown: Sequence[_Pair], kept: Mapping[_Asked, Vote], journal: Journal[Vote], bar: Any
    ) -> list[Vote]:
        """One vote of each judge on each pair, in the order in which they came."""
        votes = []

        async def ask_judge(judge: LLM) -> None:
            async with judge.connect() as connection:

                async def ask(pair: _Pair) -> None:
                    asked = _digest(judge, pair)
                    vote = kept.get((pair.query.id, pair.a, pair.b, judge.model, asked))
                    if vote is None or vote.verdict == "failed":
                        vote = await _vote(connection, pair, asked)
                        journal.add(vote)
                    votes.append(vote)
                    bar.update()

                await for_each(shown, ask, judge.concurrency)

        await for_each(self.judges, ask_judge, len(self.judges))
        return votes

    def _judgments(self, planned: Sequence[_Pair], votes: Iterable[Vote]) -> tuple[Judgment, ...]:
        """What follows from the votes, in the order of the plan and with its first model first."""
        cast = {_key(vote): vote for vote in votes}
        planned_votes = (
            cast[pair.query.id, pair.a, pair.b, judge.model]
            for pair in self._shown(planned)
            for judge in self.judges
        )
        return judgments_of(planned_votes, self.votes)


def judgments_of(votes: Iterable[Vote], how: Votes = "majority") -> tuple[Judgment, ...]:
    """The judgments that follow from votes, as :class:`PairwiseJudge` counts them.

    A judge that was asked about two responses in both orders has one verdict on them: a tie where
    its two votes differ, and none where one of them is invalid or failed.

    Args:
        votes: of one judge or several, at most one of each on two responses in each order. Pairs
            come in the order of their first votes, each with the model that was shown first there
            as ``model_a``.
        how: what several judges bring: see :class:`PairwiseJudge`.
    """
    by_pair: dict[tuple[str, frozenset[str]], dict[str, list[Vote]]] = {}
    judges: dict[str, None] = {}  # a set in order
    for vote in votes:
        pair = by_pair.setdefault((vote.query_id, frozenset((vote.model_a, vote.model_b))), {})
        pair.setdefault(vote.judge, []).append(vote)
        judges[vote.judge] = None
    everyone = f"majority of {', '.join(judges)}"
    judgments = []
    for (query_id, _), by_judge in by_pair.items():
        first = next(iter(by_judge.values()))[0]
        said = {judge: _verdict(cast, first.model_a) for judge, cast in by_judge.items()}
        verdicts = {judge: verdict for judge, verdict in said.items() if verdict is not None}
        if how == "majority" and len(judges) > 1 and verdicts:
            verdicts = {everyone: _majority(verdicts.values())}
        judgments += [
            Judgment(
                query_id=query_id,
                model_a=first.model_a,
                model_b=first.model_b,
                verdict=verdict,
                judge=name,
            )
            for name, verdict in verdicts.items()
        ]
    return tuple(judgments)


def _verdict(votes: Iterable[Vote], model_a: str) -> Verdict | None:
    """One judge's verdict on a pair, ``None`` where a vote for it is invalid or failed."""
    verdicts = {
        (_AS_SHOWN if vote.model_a == model_a else _SWAPPED).get(vote.verdict) for vote in votes
    }
    if None in verdicts:
        return None
    return verdicts.pop() if len(verdicts) == 1 else "tie"


@dataclass(frozen=True, repr=False)
class Judged:
    """What judges said; iterates over the judgments, so that ``BradleyTerry`` takes it as it is.

    Attributes:
        votes: what each judge said about each pair, in each order in which it was shown it.
        judgments: what follows from the votes.
        skipped: pairs that were not judged on a query.
    """

    votes: tuple[Vote, ...]
    judgments: tuple[Judgment, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def invalid(self) -> tuple[Vote, ...]:
        """The votes in which a judge named no verdict, with what it wrote instead."""
        return tuple(vote for vote in self.votes if vote.verdict == "invalid")

    @property
    def failed(self) -> tuple[Vote, ...]:
        """The votes that a judge was asked for and did not cast, with the reasons."""
        return tuple(vote for vote in self.votes if vote.verdict == "failed")

    def __iter__(self) -> Iterator[Judgment]:
        return iter(self.judgments)

    def __len__(self) -> int:
        return len(self.judgments)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={count}" for name, count in self.describe().items())
        return f"Judged({counts})"

    def describe(self) -> dict[str, int]:
        """How many there are of each."""
        return {
            "judgments": len(self.judgments),
            "ties": sum(judgment.verdict == "tie" for judgment in self.judgments),
            "votes": len(self.votes),
            "invalid": len(self.invalid),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
        }


@dataclass(frozen=True)
class Skipped:
    """A pair of models that was not judged on a query, and why."""

    query_id: str
    model_a: str
    model_b: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.model_a!r} against {self.model_b!r} on query {self.query_id!r}: {self.reason}"
        )


# The plan -----------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """Two models with their responses to one query, in the order in which a judge sees them."""

    query: Query
    a: str
    b: str
    response_a: Response
    response_b: Response

    def swapped(self) -> _Pair:
        return _Pair(self.query, self.b, self.a, self.response_b, self.response_a)


def _plan(
    dataset: MirageDataset, runs: Sequence[Run], queries: int, pairs: float, seed: int
) -> tuple[list[_Pair], tuple[Skipped, ...]]:
    """The pairs to judge, and those to skip, both ordered by query and models."""
    _check(dataset, runs)
    if queries < 1 or not 0 < pairs <= 1:
        raise JudgmentError(
            f"judge 1 query or more and a share of pairs above 0 and up to 1, not {queries}, "
            f"{pairs}"
        )
    sampled = dataset.sample(min(queries, len(dataset)), seed)
    each = max(1, round(pairs * len(sampled)))
    planned, skipped = [], []
    for one, other in combinations(sorted(runs, key=lambda run: run.model), 2):
        drawn = sorted(
            sampled, key=lambda query: _draw(seed, "pairs", query.id, one.model, other.model)
        )
        for query in drawn[:each]:
            first, second = one.get(query.id), other.get(query.id)
            gap = _gap(one.model, first) or _gap(other.model, second)
            if first is None or second is None or gap:
                skipped.append(Skipped(query.id, one.model, other.model, gap))
                continue
            pair = _Pair(query, one.model, other.model, first, second)
            swap = _draw(seed, "order", query.id, one.model, other.model)[0] % 2
            planned.append(pair.swapped() if swap else pair)
    skipped.sort(key=lambda skip: (skip.query_id, skip.model_a, skip.model_b))
    return sorted(planned, key=lambda p: (p.query.id, *sorted((p.a, p.b)))), tuple(skipped)


def _check(dataset: MirageDataset, runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise JudgmentError(f"there is nothing to compare in {len(runs)} run; give two or more")
    twice = _twice(run.model for run in runs)
    if twice is not None:
        raise JudgmentError(f"two runs are of model {twice!r}; give each its own name")
    known = set(dataset.query_ids)
    for run in runs:
        if run.language != dataset.language:
            raise JudgmentError(
                f"run of model {run.model!r} is in {run.language!r}, but {dataset.name} is in "
                f"{dataset.language!r}; judge it on a dataset of its own language"
            )
        unknown = next((r.query_id for r in run if r.query_id not in known), None)
        if unknown is not None:
            raise JudgmentError(
                f"run of model {run.model!r} answers query {unknown!r}, which {dataset.name} does "
                "not have; judge it on the dataset that it was made from"
            )


def _gap(model: str, response: Response | None) -> str:
    """Why a model has no response that can be judged; empty where it has one."""
    if response is None:
        return f"model {model!r} has no response"
    return "" if response.error is None else f"model {model!r} failed: {response.error}"


def _draw(*what: object) -> bytes:
    """Something random that depends on nothing but this."""
    return hashlib.sha256(json.dumps(what).encode()).digest()


def _twice(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


# Votes --------------------------------------------------------------------------------------------

_Key = tuple[str, str, str, str]  # query, first model, second model, judge
_Asked = tuple[str, str, str, str, str]  # and what the judge was asked

# What a vote means for the pair; invalid and failed ones mean nothing.
_AS_SHOWN: dict[str, Verdict] = {"a": "a", "b": "b", "tie": "tie"}
_SWAPPED: dict[str, Verdict] = {"a": "b", "b": "a", "tie": "tie"}


def _key(vote: Vote) -> _Key:
    return vote.query_id, vote.model_a, vote.model_b, vote.judge


def _place(vote: Vote) -> tuple[str, ...]:
    """By which votes are sorted: both orders of a pair stand together."""
    return (vote.query_id, *sorted((vote.model_a, vote.model_b)), *_key(vote)[1:], vote.asked)


def _kept(votes: Iterable[Vote]) -> dict[_Asked, Vote]:
    """The votes of an earlier time, one for each question."""
    kept: dict[_Asked, Vote] = {}
    for vote in votes:
        question = (*_key(vote), vote.asked)
        if vote.verdict != "failed" or question not in kept:
            kept[question] = vote
    return kept


def _digest(judge: LLM, pair: _Pair) -> str:
    return judge.digest(judge_messages(pair.query, pair.response_a, pair.response_b)).hex()[:_ASKED]


async def _vote(connection: Connection, pair: _Pair, asked: str) -> Vote:
    messages = judge_messages(pair.query, pair.response_a, pair.response_b)
    cast = partial(
        Vote,
        query_id=pair.query.id,
        model_a=pair.a,
        model_b=pair.b,
        judge=connection.llm.model,
        asked=asked,
    )
    verdict: Verdict | None
    try:
        verdict, last = await ask_until(connection, messages, _read, reminder=REMINDER)
    except LLMError as error:
        # What a server says may hold lone surrogates, which cannot be written.
        return cast(verdict="failed", error=str(error).encode("utf-8", "replace").decode())
    if verdict is None:
        return cast(verdict="invalid", error=unread(last, "verdict"))
    return cast(verdict=verdict)


def _read(answer: Completion) -> Verdict | None:
    # What stands where an answer was cut off is not its end.
    return None if answer.finish_reason == "length" else read_verdict(answer.text)


def _majority(verdicts: Iterable[Verdict]) -> Verdict:
    counts = Counter(verdicts)
    verdict, count = counts.most_common(1)[0]
    return verdict if 2 * count > counts.total() else "tie"


def _report(judged: Judged) -> None:
    """Log what is missing, once; and refuse to go on with nothing at all.

    Raises:
        JudgmentError: there is no judgment.
    """
    for lost, kind in ((judged.failed, "failed"), (judged.invalid, "are invalid")):
        if lost:
            _LOG.warning(
                "%d of %d votes %s; the first: %s",
                len(lost),
                len(judged.votes),
                kind,
                lost[0].error,
            )
    if judged.skipped:
        _LOG.warning("%d pairs skipped; the first: %s", len(judged.skipped), judged.skipped[0])
    if not judged.judgments:
        first = (*judged.failed, *judged.invalid)[0]
        raise JudgmentError(
            f"no judgment came of {len(judged.votes)} votes; the first, of {first.judge!r} on "
            f"query {first.query_id!r}: {first.error}"
        )
