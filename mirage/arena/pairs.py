"""Pairs of responses that a judge compares, and pairs that cannot be judged."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from mirage._base.gaps import NotComputed
from mirage._base.logs import logger
from mirage.arena._prompt import judge_question, shows_reference
from mirage.dataset import DatasetLike, MirageDataset, as_dataset
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.features.judged import reference_lines
from mirage.llm.questions import Question
from mirage.llm.templates import Template
from mirage.models import Run, Verdict

_LOG = logger("mirage.arena")

QUERIES = 100
"""Number of queries that are judged by default, as in MIRAGE-Bench."""


class Pair(NamedTuple):
    """One question for a judge: which of two models' responses to a query is better.

    Attributes:
        query_id: Id of the query.
        model_a: Model whose response is shown first.
        model_b: Model whose response is shown second.
    """

    query_id: str
    model_a: str
    model_b: str

    @property
    def swapped(self) -> Pair:
        """The same pair with the other response first."""
        return Pair(self.query_id, self.model_b, self.model_a)


@dataclass(frozen=True)
class Skipped:
    """A pair of models that was not judged on a query.

    Attributes:
        query_id: Id of the query.
        model_a: One of the models.
        model_b: The other model.
        reason: Why the pair was not judged, such as a missing response.
    """

    query_id: str
    model_a: str
    model_b: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.model_a!r} against {self.model_b!r} on query {self.query_id!r}: {self.reason}"
        )


class Contest:
    """Two or more runs of different models on one dataset, checked to be comparable.

    Args:
        dataset: The queries, or the language code of bundled queries.
        runs: The runs to compare.
        template: The user's prompt; by default the prompt that ships with the library.
        reference: Whether the prompt that ships with the library shows the right answer. If a
            prompt shows it, pairs on queries without a right answer are skipped.

    Raises:
        JudgmentError: There are fewer than two runs, two runs have the same model, or a run belongs
            to another dataset.
    """

    def __init__(
        self,
        dataset: DatasetLike,
        runs: Iterable[Run],
        template: Template | None = None,
        *,
        reference: bool = False,
    ) -> None:
        self.dataset: MirageDataset = as_dataset(dataset)
        self._template = template
        self._reference = shows_reference(template, reference)
        sorted_runs = sorted(runs, key=lambda run: run.model)
        self.runs: dict[str, Run] = {run.model: run for run in sorted_runs}
        self._query_ids = frozenset(self.dataset.query_ids)
        self._check(sorted_runs)

    def draw(
        self, queries: int | None, share: float, seed: int
    ) -> tuple[list[Pair], tuple[Skipped, ...]]:
        """Draw queries for each pair of models.

        A drawn pair is skipped if one of its responses is missing or failed. It is also skipped if
        the prompt shows the right answer and the query has none.

        Args:
            queries: Number of queries to draw; ``None`` for :data:`QUERIES`, with a warning if the
                dataset has more.
            share: Share of the drawn queries on which each pair of models is judged.
            seed: Random seed.

        Returns:
            The pairs to judge, and the skipped pairs with the reasons.

        Raises:
            SettingError: ``queries`` is below 1, or ``share`` is not above 0 and at most 1.
        """
        total = len(self.dataset)
        if queries is None:
            queries = QUERIES
            if total > queries:
                _LOG.warning(
                    "only %d of the %d queries of %s are judged; pass queries=%d to judge all of "
                    "them",
                    queries,
                    total,
                    self.dataset.name,
                    total,
                )
        if queries < 1 or not 0 < share <= 1:
            raise SettingError(
                "queries must be at least 1, and pairs must be a share above 0 and at most 1; got "
                f"queries={queries}, pairs={share}"
            )
        sample = self.dataset.sample(min(queries, total), seed=seed).query_ids
        count = max(1, round(share * len(sample)))
        pairs: list[Pair] = []
        for a, b in combinations(self.runs, 2):
            shuffled = sorted(sample, key=lambda id_: _draw(seed, "pairs", id_, a, b))
            pairs += [Pair(id_, a, b) for id_ in shuffled[:count]]
        possible, skipped = self.sort_out(sorted(pairs))
        return [in_random_order(pair, seed) for pair in possible], skipped

    def sort_out(self, pairs: Iterable[Pair]) -> tuple[list[Pair], tuple[Skipped, ...]]:
        """Split pairs into pairs that can be judged and pairs that cannot, without duplicates.

        A pair cannot be judged if one of its responses is missing or failed. The same holds if the
        prompt shows the right answer and the query has none.

        Returns:
            The pairs that can be judged, and the other pairs with the reasons.

        Raises:
            UnknownNameError: A pair has an unknown query or model.
            JudgmentError: A model is compared with itself.
        """
        possible, skipped = [], []
        for pair in dict.fromkeys(Pair(*pair) for pair in pairs):
            self._check_names(pair)
            reason = (
                self._missing_reason(pair.model_a, pair.query_id)
                or self._missing_reason(pair.model_b, pair.query_id)
                or self._missing_reference(pair.query_id)
            )
            if reason:
                skipped.append(Skipped(*pair, reason))
            else:
                possible.append(pair)
        return possible, tuple(skipped)

    def has_responses(self, pair: Pair) -> bool:
        """Return whether both models of a pair have a response to its query, even a failed one."""
        return all(
            model in self.runs and self.runs[model].get(pair.query_id) is not None
            for model in (pair.model_a, pair.model_b)
        )

    def question(self, pair: Pair) -> Question[Verdict]:
        """Return the question for a judge about a pair that can be judged."""
        a, b = (self.runs[model][pair.query_id] for model in (pair.model_a, pair.model_b))
        query = self.dataset[pair.query_id]
        return judge_question(query, a, b, self._template, reference=self._reference)

    def digest(self, pair: Pair) -> str:
        """Return a digest of the texts that a judge of a pair sees, without the instructions.

        It changes if the question, a passage or a response changes, or if the pair is swapped.
        """
        material = json.dumps(self.question(pair).material, ensure_ascii=False)
        return hashlib.sha256(material.encode("utf-8", "replace")).hexdigest()[:16]

    def _missing_reference(self, query_id: str) -> str:
        """Return why the right answer that the prompt must show is missing; empty if it is not."""
        lines = reference_lines(self.dataset[query_id]) if self._reference else ""
        return lines.reason if isinstance(lines, NotComputed) else ""

    def _missing_reason(self, model: str, query_id: str) -> str:
        """Return why a model has no response to a query that can be judged; empty if it has one."""
        response = self.runs[model].get(query_id)
        if response is None:
            return f"model {model!r} has no response"
        return "" if response.error is None else f"model {model!r} failed: {response.error}"

    def _check_names(self, pair: Pair) -> None:
        """Raise an error if a pair has an unknown name or compares a model with itself."""
        if pair.query_id not in self._query_ids:
            raise UnknownNameError("query", pair.query_id, self.dataset.query_ids)
        for model in (pair.model_a, pair.model_b):
            if model not in self.runs:
                raise UnknownNameError("model", model, self.runs)
        if pair.model_a == pair.model_b:
            raise JudgmentError(
                f"model {pair.model_a!r} is compared with itself on query {pair.query_id!r}"
            )

    def _check(self, runs: list[Run]) -> None:
        """Raise an error if the runs cannot be compared."""
        if len(runs) < 2:
            raise JudgmentError(f"at least two runs are needed for a comparison, got {len(runs)}")
        model, count = Counter(run.model for run in runs).most_common(1)[0]
        if count > 1:
            raise JudgmentError(
                f"two runs have the model name {model!r}; give each run its own name"
            )
        name, language = self.dataset.name, self.dataset.language
        for run in runs:
            if run.language != language:
                raise JudgmentError(
                    f"run of model {run.model!r} is in {run.language!r}, but {name} is in "
                    f"{language!r}; judge the run on a dataset in its own language"
                )
            unknown = next((r.query_id for r in run if r.query_id not in self._query_ids), None)
            if unknown is not None:
                raise JudgmentError(
                    f"run of model {run.model!r} answers query {unknown!r}, but {name} has no such "
                    "query; judge the run on the dataset whose queries it answers"
                )


def in_random_order(pair: Pair, seed: int) -> Pair:
    """Return a pair with one of its two models first, at random.

    The result depends only on the query, the set of models and the seed.
    """
    pair = Pair(pair.query_id, *sorted((pair.model_a, pair.model_b)))
    return pair.swapped if _draw(seed, "order", *pair)[0] % 2 else pair


def _draw(*key: object) -> bytes:
    """Return pseudo-random bytes that depend only on the arguments."""
    return hashlib.sha256(json.dumps(key).encode()).digest()
