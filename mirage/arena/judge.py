"""LLMs as judges of pairs of responses (MIRAGE-Bench, arXiv 2410.13716).

The prompt and the parser of verdicts are in :mod:`mirage.arena._prompt`. The adaptive choice of
pairs is in :mod:`mirage.arena.adaptive`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from mirage._base.journal import Journal
from mirage._base.logs import logger
from mirage._base.near_names import NearNames
from mirage._base.progress import progress_bar
from mirage.arena._prompt import FIELDS, REFERENCE_DIGEST, shows_reference
from mirage.arena._voting import Voting, shown_pairs, vote_order
from mirage.arena.adaptive import AdaptivePairs
from mirage.arena.pairs import Contest, Pair, Skipped
from mirage.arena.verdicts import Judged, judgments_of
from mirage.dataset import DatasetLike, MirageDataset, clusters_of
from mirage.errors import JudgmentError, NoJudgmentError, SettingError
from mirage.executors import Executor
from mirage.human_agreement import known_agreement
from mirage.llm import LLM, as_llm
from mirage.llm.estimates import Estimate, estimate, sum_estimates
from mirage.llm.templates import template_of
from mirage.models import HumanAgreement, Run, Vote

_LOG = logger("mirage.arena")
_OTHER_PROMPT = "measured with another prompt than this judge's, so it may not hold"


class PairJudge(Protocol):
    """Protocol of objects that compare pairs of responses, such as an LLM, a rule, or people."""

    def judge(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        pairs: Iterable[Pair],
        *,
        out: str | Path | None = None,
        progress: bool = True,
    ) -> Judged:
        """Return verdicts on pairs of responses.

        Args:
            dataset: The queries.
            runs: The runs that contain the responses, one per model.
            pairs: The pairs to judge. The response of ``model_a`` is shown first.
            out: JSON Lines file to which votes are appended; ``None`` to write no file.
            progress: Whether to show a progress bar.

        Returns:
            The votes, the judgments that follow from them, and the pairs that were skipped because
            they cannot be judged.
        """


class PairwiseJudge(NearNames):
    """One or several LLMs that judge which of two responses to a query is better.

    A judge sees the question, its passages and the two responses, but not the names of the models.
    It has to end its answer with a verdict. If it does not, it is asked again, at most five times;
    after that its vote is invalid, which is different from a tie. If a call fails permanently, the
    vote counts as failed.

    :meth:`compare` judges pairs of runs on randomly drawn queries, :meth:`compare_adaptively`
    judges the pairs that are most informative about the order of the models, and :meth:`judge`
    judges the pairs that you list.

    All three accept ``out``, a JSON Lines file of :class:`~mirage.Vote`. Votes are appended as
    judges answer, and are sorted at the end. A vote in the file is not requested again, unless it
    has no verdict, or the responses, the prompt or the judge's parameters have changed. Unreadable
    replies of the judge are in its cache, so votes without a verdict are requested again without
    cost as long as the LLM has the same cache and parameters. Votes on other queries and pairs, or
    of other judges, stay in the file. Votes that are outdated by a change also stay, with the mark
    ``outdated``: :func:`read_votes` leaves them out, but they are reused if the change is reverted.

    Args:
        judges: One LLM or its name, or a jury of several with different names. The judgment of a
            jury is the verdict of more than half of the judges that have one, or else a tie.
        both_orders: Whether to judge each pair twice, with the responses swapped. If a judge does
            not prefer the same response both times, its verdict is a tie. If one of its two votes
            is invalid or failed, it has no verdict. By default each pair is judged once, and which
            response comes first is random.
        agreement: Measured agreement of these judges with people, such as the result of
            :meth:`mirage.metaeval.JudgeResult.agreement`. Published measurements are added.
        prompt: Your own prompt instead of the one that ships with the library. The fields
            ``{question}``, ``{answer_a}`` and ``{answer_b}`` are required; ``{reference}``,
            ``{passages}``, ``{language}``, ``{marks}`` and ``{form}`` are optional (see the
            guide "Your own judge"). Each inserted text is enclosed in markers that the text
            itself cannot close.
        reference: Show the judge the right answer, as in the pairwise LLMeval of BERGEN: the short
            answers of the query, or else the answer of its reference. Pairs on queries that have
            neither are skipped. If you pass a ``prompt``, its field ``{reference}`` shows the right
            answer instead.

    Raises:
        JudgmentError: There is no judge, or two judges have the same model name.
        SettingError: ``prompt`` has an unknown field, lacks a required field, or has neither the
            field ``{form}`` nor both verdicts ``[[A]]`` and ``[[B]]``; or ``reference`` is set
            together with a prompt without the field ``{reference}``.
    """

    def __init__(
        self,
        judges: LLM | str | Sequence[LLM | str],
        *,
        both_orders: bool = False,
        agreement: Sequence[HumanAgreement] = (),
        prompt: str | None = None,
        reference: bool = False,
    ) -> None:
        if isinstance(judges, str) or not isinstance(judges, Iterable):
            judges = (judges,)
        self.judges: tuple[LLM, ...] = tuple(map(as_llm, judges))
        self.both_orders = both_orders
        self._agreement = tuple(agreement)
        self._template = template_of(prompt, FIELDS, "a judge of pairs")
        self.reference: bool = shows_reference(self._template, reference)
        if reference and not self.reference:
            raise SettingError(
                "the prompt has no field {reference}; add the field, or leave out reference="
            )
        if not self.judges:
            raise JudgmentError("there is no judge; pass an LLM such as 'gpt-4o'")
        name, count = Counter(judge.model for judge in self.judges).most_common(1)[0]
        if count > 1:
            raise JudgmentError(
                f"two judges are named {name!r}, so their votes cannot be distinguished; "
                "use a different model for each judge"
            )

    def __repr__(self) -> str:
        names = [judge.model for judge in self.judges]
        settings = f"both_orders={self.both_orders}"
        reference = ", reference=True" if self.reference else ""
        return f"PairwiseJudge({names}, {settings}{reference})"

    def _contest(self, dataset: DatasetLike, runs: Iterable[Run]) -> Contest:
        return Contest(dataset, runs, self._template, reference=self.reference)

    @property
    def prompt_digest(self) -> str:
        """The digest of the prompt; empty for the library's own prompt without a reference."""
        if self._template is None:
            return REFERENCE_DIGEST if self.reference else ""
        return self._template.digest

    @property
    def agreement(self) -> tuple[HumanAgreement, ...]:
        """Measured and published agreement of these judges with people.

        If a figure was measured with another prompt, its ``source`` says so.
        """
        published = [entry for judge in self.judges for entry in known_agreement(judge.model)]
        return tuple(
            entry
            if entry.prompt_digest == self.prompt_digest
            else entry.model_copy(update={"source": f"{entry.source}; {_OTHER_PROMPT}"})
            for entry in (*self._agreement, *published)
        )

    def compare(
        self,
        dataset: DatasetLike,
        runs: Iterable[Run],
        *,
        queries: int | None = None,
        pairs: float = 1.0,
        seed: int = 0,
        out: str | Path | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Judged:
        """Have every pair of runs judged on a sample of queries, by default 100.

        A pair is skipped on a query if one of the two models has no response or failed; the result
        lists these pairs with the reason. Failed votes do not stop the other votes. With the same
        seed, two models are compared on the same queries, with the same response shown first,
        whichever other runs take part.

        Args:
            dataset: The queries, or the language code of bundled queries.
            runs: At least two runs of different models on this dataset.
            queries: Number of queries to draw without replacement; all if there are fewer. By
                default 100, as in MIRAGE-Bench, with a warning if the dataset has more.
            pairs: Share of the drawn queries on which each pair of models is judged, above 0 and at
                most 1. Queries are drawn separately for each pair, and at least one is drawn, so
                that all models stay connected.
            seed: Random seed for queries, pairs, and which response comes first.
            out: File to which votes are appended; see the class.
            executor: Executor whose workers call the judges, while this process writes the file.
                Budget, cache and ``concurrency`` of a judge then apply to all workers together. By
                default this process calls the judges.
            progress: Show a progress bar on stderr, if stderr is a terminal.

        Returns:
            The votes, the judgments that follow from them, and the pairs that were skipped because
            they cannot be judged.

        Raises:
            JudgmentError: There are fewer than two runs, two runs have the same model, a run
                belongs to another dataset, or no pair can be judged.
            NoJudgmentError: No judgment was obtained; the message gives the first error.
            SettingError: ``queries`` is below 1, or ``pairs`` is not a share above 0.
            DatasetError: ``out`` is not a file of votes, or another process writes it.
            LLMError: A judge needs an API key, and there is none.
        """
        contest = self._contest(dataset, runs)
        return self._ask_all(contest, *contest.draw(queries, pairs, seed), out, executor, progress)

    def judge(
        self,
        dataset: DatasetLike,
        runs: Iterable[Run],
        pairs: Iterable[Pair],
        *,
        out: str | Path | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Judged:
        """Let the judges compare the pairs that you list.

        A pair that is listed twice is judged once. A pair is skipped if one of the two models has
        no response to the query or failed on it.

        Args:
            dataset: The queries, or the language code of bundled queries.
            runs: At least two runs of different models on this dataset.
            pairs: Tuples ``(query_id, model_a, model_b)``; the response of ``model_a`` is shown
                first.
            out: File to which votes are appended; see the class.
            executor: Executor whose workers call the judges, as for :meth:`compare`. By default
                this process calls them.
            progress: Show a progress bar on stderr, if stderr is a terminal.

        Returns:
            The votes, the judgments that follow from them, and the pairs that were skipped because
            they cannot be judged.

        Raises:
            JudgmentError: As for :meth:`compare`, or a model is compared with itself.
            UnknownNameError: A pair has a query or model that is not in the dataset or runs.
        """
        contest = self._contest(dataset, runs)
        return self._ask_all(contest, *contest.sort_out(pairs), out, executor, progress)

    def compare_adaptively(
        self,
        dataset: DatasetLike,
        runs: Iterable[Run],
        *,
        judgments: int,
        target: float | None = None,
        batch: int | None = None,
        queries: int | None = None,
        seed: int = 0,
        out: str | Path | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Judged:
        """Let the judges compare the pairs that are most informative about the models' order.

        The aim is to estimate, with fewer judgments, the ranking that :meth:`compare` would return
        with these ``queries``, this ``seed`` and all pairs. Pairs are chosen in batches by
        :class:`AdaptivePairs`. With the same seed and verdicts, the same pairs are judged. If
        ``out`` contains votes of an interrupted run, the run continues as if it had not been
        interrupted, and failed votes are requested again. Votes and judgments record which half of
        the queries they belong to. :meth:`BradleyTerry.fit` needs the halves for unbiased logits,
        so do not remove them.

        If every vote fails on as many consecutive pairs as there are models, the comparison ends
        with the judgments so far. This happens if a service is down or the budget is spent.

        Args:
            dataset: The queries, or the language code of bundled queries.
            runs: At least two runs of different models on this dataset.
            judgments: Largest number of pairs to judge.
            target: Stop when :attr:`AdaptivePairs.tau_bound`, a lower 95 % bound of Kendall's tau
                with the ranking by all pairs, reaches this value. By default the number of
                judgments is the only limit.
            batch: Number of pairs that are judged together; by default the number of models. A
                batch ten times as large as the default costs little accuracy.
            queries: Number of queries to draw without replacement; by default 100, or all if there
                are fewer.
            seed: Random seed for queries, the choice between equally good pairs, and which response
                comes first.
            out: File to which votes are appended; see the class.
            executor: Executor whose workers call the judges, as for :meth:`compare`. By default
                this process calls them.
            progress: Show a progress bar on stderr, if stderr is a terminal.

        Returns:
            The votes, the judgments that follow from them, and the pairs that were skipped because
            they cannot be judged.

        Raises:
            JudgmentError: As for :meth:`compare`.
            SettingError: ``judgments``, ``queries`` or ``batch`` is below 1, or ``target`` is not
                above 0 and at most 1.
        """
        contest = self._contest(dataset, runs)
        size = len(contest.runs) if batch is None else batch
        _check_sizes(judgments, size)
        if target is not None and not 0 < target <= 1:
            raise SettingError(f"target must be above 0 and at most 1, such as 0.95, got {target}")
        possible, skipped = contest.draw(queries, 1.0, seed)
        total = min(judgments, len(possible))
        with self._open_voting(contest, total, skipped, out, executor, progress) as voting:
            query_ids = sorted({pair.query_id for pair in possible})
            adaptive = AdaptivePairs(
                list(contest.runs),
                query_ids,
                closed=skipped,
                clusters=clusters_of(contest.dataset),
                seed=seed,
            )
            # If all pairs are judged, verdicts did not influence the choice, so no halves are
            # needed.
            if total < len(possible) or target is not None:
                voting.halves = adaptive.halves
            chosen = _ask_adaptively(voting, adaptive, total, target, size)
        return self._to_judged(voting, chosen, skipped)

    def estimate(
        self,
        dataset: DatasetLike,
        runs: Iterable[Run],
        *,
        queries: int | None = None,
        pairs: float = 1.0,
        judgments: int | None = None,
        seed: int = 0,
        out: str | Path | None = None,
    ) -> Estimate:
        """Estimate the calls and cost of :meth:`compare` with these arguments; nothing is sent.

        If ``judgments`` is given, estimate :meth:`compare_adaptively` instead. The number of calls
        is then an upper bound. The cost assumes prompts of average length, because the pairs that
        will be chosen depend on the verdicts.

        Args:
            dataset: The queries.
            runs: The runs.
            queries: Number of queries to draw; by default 100, or all if there are fewer.
            pairs: Share of the drawn queries on which each pair of models is judged.
            judgments: Largest number of pairs to judge adaptively; ``None`` for :meth:`compare`.
            seed: Random seed.
            out: File of votes. Votes that it contains already are not counted.

        Returns:
            The estimated calls and cost, summed over judges.

        Raises:
            JudgmentError: There are fewer than two runs, two runs have the same model, or a run
                belongs to another dataset.
            SettingError: As for :meth:`compare` or :meth:`compare_adaptively`.
        """
        if judgments is not None:
            _check_sizes(judgments, 1)
            pairs = 1.0
        contest = self._contest(dataset, runs)
        drawn, _ = contest.draw(queries, pairs, seed)
        with Journal(out if out is not None and Path(out).exists() else None, Vote) as journal:
            voting = Voting(self.judges, self.both_orders, contest, journal, None)
            estimates = [
                estimate(judge, voting.missing_questions(judge, drawn)) for judge in self.judges
            ]
        if judgments is not None:
            most_calls = min(judgments, len(drawn)) * (2 if self.both_orders else 1)
            estimates = [entry.at_most(most_calls) for entry in estimates]
        return sum_estimates(estimates)

    def estimate_pairs(
        self, dataset: DatasetLike, runs: Iterable[Run], pairs: Iterable[Pair]
    ) -> Estimate:
        """Estimate the calls and cost of :meth:`judge` with these arguments; nothing is sent.

        Args:
            dataset: The queries.
            runs: The runs.
            pairs: The pairs to judge.

        Returns:
            The estimated calls and cost, summed over judges.

        Raises:
            JudgmentError: There are fewer than two runs, two runs have the same model, a run
                belongs to another dataset, or a model is compared with itself.
            UnknownNameError: A pair has a query or model that is not in the dataset or runs.
        """
        contest = self._contest(dataset, runs)
        orders = shown_pairs(contest.sort_out(pairs)[0], self.both_orders)
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
        """Request all votes on these pairs, and return the votes and judgments."""
        with self._open_voting(contest, len(pairs), skipped, out, executor, progress) as voting:
            voting.ask(pairs)
        return self._to_judged(voting, pairs, skipped)

    @contextmanager
    def _open_voting(
        self,
        contest: Contest,
        pairs: int,
        skipped: Sequence[Skipped],
        out: str | Path | None,
        executor: Executor | None,
        progress: bool,
    ) -> Iterator[Voting]:
        """Open the file ``out``, and yield an object that requests votes and writes them to it.

        The file and a progress bar are open during the ``with`` block. At its end, the votes in the
        file are sorted.

        Args:
            contest: The queries and the responses to compare.
            pairs: Number of pairs to judge, for the total of the progress bar.
            skipped: Pairs that cannot be judged; the first one is named in the error.
            out: File of votes, or ``None`` to keep them in memory only.
            executor: Executor whose workers call the judges, or ``None``.
            progress: Whether to show the progress bar.

        Raises:
            JudgmentError: If ``pairs`` is 0.
        """
        if not pairs:
            first = f"; the first skipped pair is {skipped[0]}" if skipped else ""
            raise JudgmentError(f"none of the pairs can be judged{first}")
        total = pairs * len(self.judges) * (2 if self.both_orders else 1)
        with Journal(out, Vote) as journal, progress_bar(total, "votes", progress) as bar:
            voting = Voting(self.judges, self.both_orders, contest, journal, bar, executor)
            yield voting
            voting.finish()

    def _to_judged(
        self, voting: Voting, pairs: Sequence[Pair], skipped: tuple[Skipped, ...]
    ) -> Judged:
        """Combine the votes on these pairs into judgments, and return both.

        ``skipped`` has the pairs that could not be judged. The numbers of failed votes, invalid
        votes and skipped pairs are logged.
        """
        votes = voting.votes_on(pairs)
        judgments = judgments_of(votes)
        judged = Judged(tuple(sorted(votes, key=vote_order)), judgments, skipped)
        _report(judged)
        return judged


JudgeLike = PairJudge | LLM | str
"""A judge of pairs, an LLM, or the name of an LLM."""


def as_judge(judge: Any) -> PairJudge:
    """Return a judge of pairs; an LLM or its name becomes a :class:`PairwiseJudge`.

    Raises:
        SettingError: The object has no method ``judge``.
    """
    if isinstance(judge, LLM | str):
        return PairwiseJudge(judge)
    if isinstance(judge, type) or not callable(getattr(judge, "judge", None)):
        raise SettingError(
            "judge must be a PairwiseJudge, an LLM or its name, or an object with a method "
            f"'judge', got {judge!r}"
        )
    pair_judge: PairJudge = judge
    return pair_judge


def _check_sizes(judgments: int, batch: int) -> None:
    if judgments < 1 or batch < 1:
        raise SettingError(
            f"judgments and batch must be at least 1, got judgments={judgments}, batch={batch}"
        )


def _ask_adaptively(
    voting: Voting, adaptive: AdaptivePairs, limit: int, target: float | None, batch: int
) -> list[Pair]:
    """Let judges compare adaptively chosen pairs, and return the pairs.

    It ends after ``limit`` pairs, or when :attr:`AdaptivePairs.tau_bound` reaches ``target``.
    ``batch`` is the number of pairs that are chosen at a time.
    """
    chosen: list[Pair] = []
    undecided: list[Pair] = []  # pairs without a judgment so far
    to_retry: list[Pair] = []  # pairs with a vote without a verdict in an earlier run
    unanswered = 0  # consecutive pairs on which every vote failed
    while len(chosen) < limit and (target is None or adaptive.tau_bound < target):
        pairs = adaptive.next(min(batch, limit - len(chosen)))
        # Replay the votes of an interrupted run unchanged, so that the same pairs are chosen.
        # Its votes without a verdict are requested again only after the replay.
        if voting.recall(pairs):
            to_retry += [pair for pair in pairs if any(v.error for v in voting.votes_on([pair]))]
            unanswered = 0
        else:
            voting.ask([*pairs, *to_retry])
            to_retry = []
            any_answer = not all(map(_failed, voting.votes_on(pairs)))
            unanswered = 0 if any_answer else unanswered + len(pairs)
        chosen += pairs
        undecided += pairs
        judgments = judgments_of(voting.votes_on(undecided))
        adaptive.update(judgments)
        decided = {(j.query_id, j.model_a, j.model_b) for j in judgments}
        undecided = [pair for pair in undecided if pair not in decided]
        if unanswered >= len(adaptive.models):
            break
    voting.ask(to_retry)
    return chosen


def _failed(vote: Vote) -> bool:
    return vote.verdict == "failed"


def _report(judged: Judged) -> None:
    """Log the numbers of failed votes, invalid votes and skipped pairs.

    Raises:
        NoJudgmentError: There is no judgment.
    """
    for votes, kind in ((judged.failed, "failed"), (judged.invalid, "are invalid")):
        if votes:
            total = len(judged.votes)
            _LOG.warning(
                "%d of %d votes %s; the first error is: %s", len(votes), total, kind, votes[0].error
            )
    if judged.skipped:
        _LOG.warning(
            "%d pairs were skipped; the first is: %s", len(judged.skipped), judged.skipped[0]
        )
    if not judged.judgments:
        first = (*judged.failed, *judged.invalid)[0]
        raise NoJudgmentError(
            f"none of the {len(judged.votes)} votes has a verdict; the error of the first vote, "
            f"by {first.judge!r} on query {first.query_id!r}, is: {first.error}"
        )
