"""Fixed pairs of responses that a judge compares again in every run, to detect drift.

If the verdicts on them change, the judge has changed, because the responses are always the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mirage._base.arrays import Ints
from mirage._base.files import read_rows, validated, write_records
from mirage.arena._prompt import judge_question
from mirage.arena.judge import PairwiseJudge
from mirage.arena.pairs import Contest, Pair
from mirage.dataset import DatasetLike
from mirage.errors import DatasetError, JudgmentError
from mirage.llm import LLM
from mirage.llm.estimates import Estimate, estimate, sum_estimates
from mirage.llm.questions import Question, ask_all
from mirage.models import Query, Record, Response, Run, Verdict
from mirage.statistics.agreement import Sums, terms
from mirage.statistics.bootstrap import Interval, bootstrap

PAIRS = 40
"""Number of anchor pairs that are drawn."""

REPEATS = 3
"""Number of times that a judge is asked about each anchor pair in a run."""

VERDICTS = ("a", "b", "tie", "invalid")
"""The verdicts that are counted; ``invalid`` means that the output contains no verdict."""


class AnchorPair(Record):
    """Two responses to one query, with everything that the judge's prompt shows.

    Attributes:
        query: The query with its passages.
        a: The response that is shown first.
        b: The response that is shown second.
    """

    query: Query
    a: Response
    b: Response


@dataclass(frozen=True, eq=False)
class AnchorVerdicts:
    """Counts of a judge's verdicts on each anchor pair (a fixed pair of responses) in one run.

    Attributes:
        judge: The name of the judge's LLM.
        settings_digest: Digest of the prompts, parameters, model and endpoint of the requests.
        pairs_digest: Digest of the anchor pairs; see :attr:`AnchorPairs.digest`.
        query_ids: Id of the query of each pair.
        counts: Number of times that each of :data:`VERDICTS` was given, of shape ``(pairs,
            verdicts)``.
    """

    judge: str
    settings_digest: str
    pairs_digest: str
    query_ids: tuple[str, ...]
    counts: Ints


@dataclass(frozen=True)
class AnchorPairs:
    """A fixed set of pairs of responses, which a judge compares in every run to detect drift.

    Args:
        pairs: The pairs. Create them with :meth:`draw`, or read them with :meth:`load`.

    Example:
        >>> from mirage import Query, Response
        >>> from mirage.arena.anchor_pairs import AnchorPair, AnchorPairs
        >>> query = Query(id="q1", language="en", text="Which river?")
        >>> a, b = (Response(query_id="q1", text=text) for text in ("The Nile.", "None."))
        >>> len(AnchorPairs((AnchorPair(query=query, a=a, b=b),)).digest)
        16
    """

    pairs: tuple[AnchorPair, ...]

    @classmethod
    def draw(cls, dataset: DatasetLike, runs: Iterable[Run], *, seed: int = 0) -> AnchorPairs:
        """Draw up to 40 random pairs of responses, on as many different queries as possible.

        The two responses of a pair are those of two models to the same query.

        Args:
            dataset: The queries, or the language code of bundled queries.
            runs: At least two runs of different models on this dataset.
            seed: Random seed.

        Raises:
            JudgmentError: There are fewer than two runs, two runs have the same model, a run
                belongs to another dataset, or no two models answered the same query.
        """
        contest = Contest(dataset, runs)
        possible, _ = contest.draw(len(contest.dataset), 1.0, seed)
        if not possible:
            raise JudgmentError(
                "no pair of responses can be compared, so none can be an anchor; pass runs of two "
                "models with responses to the same queries"
            )
        order = np.random.default_rng(seed).permutation(len(possible)).tolist()
        times, rows = Counter[str](), list[tuple[int, int, Pair]]()
        for position in order:  # the first pair of every query comes before any second pair
            pair = possible[position]
            rows.append((times[pair.query_id], len(rows), pair))
            times[pair.query_id] += 1
        chosen = [pair for _, _, pair in sorted(rows)[:PAIRS]]
        return cls(
            tuple(
                AnchorPair(
                    query=contest.dataset[pair.query_id],
                    a=contest.runs[pair.model_a][pair.query_id],
                    b=contest.runs[pair.model_b][pair.query_id],
                )
                for pair in chosen
            )
        )

    @classmethod
    def load(cls, path: str | Path) -> AnchorPairs:
        """Read pairs from a file that :meth:`save` wrote.

        Args:
            path: Path of the file.

        Raises:
            DatasetError: The file has no pairs, or a line is not valid; the message gives the line
                and the field.
        """
        pairs = tuple(validated(AnchorPair, row, where) for where, row in read_rows(Path(path)))
        if not pairs:
            raise DatasetError(f"{path}: the file has no anchor pairs")
        return cls(pairs)

    def save(self, path: str | Path) -> None:
        """Write the pairs to a JSON Lines file, which :meth:`load` can read.

        Args:
            path: Path of the file.

        Raises:
            DatasetError: The file cannot be written.
        """
        write_records(self.pairs, Path(path))

    @cached_property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the pairs."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(pair.model_dump_json().encode("utf-8", "replace") + b"\n")
        return digest.hexdigest()[:16]

    def judge(self, judge: PairwiseJudge, *, progress: bool = True) -> tuple[AnchorVerdicts, ...]:
        """Ask a judge about each pair :data:`REPEATS` times, without using cached answers.

        Args:
            judge: The judge, with one or several LLMs.
            progress: Show a progress bar on stderr, if stderr is a terminal.

        Returns:
            The verdicts of each LLM.

        Raises:
            JudgmentError: A call failed. The run is then incomplete and cannot be compared with
                other runs.
        """
        questions = self._questions(judge)
        results = []
        for llm in judge.judges:
            outcomes = ask_all(
                _without_cache(llm), questions * REPEATS, what="anchor pairs", progress=progress
            )
            failed = next((outcome.failed for outcome in outcomes if outcome.failed), None)
            if failed is not None:
                raise JudgmentError(
                    f"judge {llm.model!r} failed on an anchor pair ({failed}); nothing was "
                    "recorded, because a run of the judge needs a vote on every anchor pair; run "
                    "it again"
                )
            counts = np.zeros((len(self.pairs), len(VERDICTS)), dtype=np.intp)
            for number, outcome in enumerate(outcomes):
                verdict = VERDICTS.index(outcome.value or "invalid")
                counts[number % len(self.pairs), verdict] += 1
            requests = b"".join(llm.digest(question.messages) for question in questions)
            results.append(
                AnchorVerdicts(
                    llm.model,
                    hashlib.sha256(requests).hexdigest()[:16],
                    self.digest,
                    tuple(pair.query.id for pair in self.pairs),
                    counts,
                )
            )
        return tuple(results)

    def estimate(self, judge: PairwiseJudge) -> Estimate:
        """Estimate the number of calls of :meth:`judge`, and their cost; nothing is sent.

        Args:
            judge: The judge, with one or several LLMs.

        Returns:
            The estimated calls and cost, summed over LLMs.
        """
        questions = self._questions(judge) * REPEATS
        return sum_estimates(estimate(_without_cache(llm), questions) for llm in judge.judges)

    def _questions(self, judge: PairwiseJudge) -> list[Question[Verdict]]:
        return [
            judge_question(pair.query, pair.a, pair.b, judge._template, reference=judge.reference)
            for pair in self.pairs
        ]


def _without_cache(llm: LLM) -> LLM:
    """Return a copy of an LLM without its cache, because cached answers would hide a change."""
    copy = llm.with_parameters()
    copy.cache = None
    return copy


def self_agreement(counts: Ints, query_ids: Sequence[str]) -> tuple[float, Interval]:
    """Return the agreement of a judge with itself, and its 95 % confidence interval.

    The agreement is the probability that two verdicts on the same pair in the same run are equal.
    The interval comes from a bootstrap over queries
    (:func:`mirage.statistics.bootstrap.bootstrap`). It is NaN with fewer than 14 queries, or if all
    queries have the same agreement.

    Args:
        counts: Number of times that each verdict was given on each pair in one run, of shape
            ``(pairs, verdicts)``.
        query_ids: Id of the query of each pair.
    """
    query = np.unique(query_ids, return_inverse=True)[1]
    return bootstrap(query, terms(counts), lambda sums: Sums.of(sums).agreement)
