"""Rerankers: models that reorder the best passages of a run.

Passages with equal scores keep their order.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from mirage._base.logs import logger
from mirage.corpus import Corpus
from mirage.errors import LLMError, SettingError, during
from mirage.executors import Executor
from mirage.languages import Language
from mirage.llm import LLM, Form, Question, as_llm
from mirage.llm.client import RerankForm
from mirage.llm.questions import BRACKETS, ask_all, final_verdict
from mirage.llm.reranking import relevance_all
from mirage.models import Passage, Query
from mirage.neural import Reranker as PairScorer
from mirage.retrieval.run import RetrievalRun

_LOG = logger("mirage.retrieval")


class _Candidates(NamedTuple):
    """A query and the passages to rerank for it, in the order of the run."""

    query: Query
    passages: Sequence[Passage]

    @property
    def texts(self) -> list[str]:
        """The title and text of each passage, as one string."""
        return [passage.titled_text for passage in self.passages]


def _candidates(
    run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
) -> list[_Candidates]:
    if depth < 1:
        raise SettingError(f"depth must be at least 1, got {depth}")
    return [
        _Candidates(query, corpus.get_many(run[query.id].top(depth).passage_ids))
        for query in queries
    ]


class CrossEncoderReranker:
    """A reranker that uses a cross-encoder, a model that reads question and passage together.

    Scores are the logits of the model. Each distinct pair of question and passage is scored once.
    If the model is given by name or folder, its scores are cached on disk; see
    :class:`mirage.neural.Reranker`.

    Args:
        model: The name of a model on the hub, by default :data:`mirage.neural.RERANKER_MODEL`; the
            folder of a model; or a :class:`mirage.neural.Reranker`, to choose its settings.

    Raises:
        NeuralError: The model does not exist, or returns more than one score per pair.
        MissingPackageError: The extra ``neural`` is not installed.
    """

    def __init__(self, model: PairScorer | str | Path | None = None) -> None:
        self.scorer: PairScorer = model if isinstance(model, PairScorer) else PairScorer(model)
        self.name: str = Path(self.scorer.name).name

    def __repr__(self) -> str:
        return f"CrossEncoderReranker({self.scorer!r})"

    @property
    def fingerprint(self) -> str:
        """A digest of everything that affects the scores; see :class:`mirage.neural.Reranker`."""
        return self.scorer.fingerprint

    def rerank(
        self,
        run: RetrievalRun,
        corpus: Corpus,
        queries: Iterable[Query],
        depth: int,
        *,
        executor: Executor | None = None,
    ) -> RetrievalRun:
        """Return the best passages of each query, ordered by the scores of the model.

        Args:
            run: The retrieved passages, best first.
            corpus: The corpus that contains these passages.
            queries: The queries to rerank.
            depth: The number of passages to rerank for each query; all others are left out.
            executor: The executor whose workers load the model and compute the scores; by default
                this process computes them.

        Raises:
            NeuralError: The model cannot be loaded, or fails.
            SettingError: ``depth`` is below 1.
        """
        batch = _candidates(run, corpus, queries, depth)
        pairs = [(each.query.text, text) for each in batch for text in each.texts]
        with during(f"{self!r} on {run!r} of {corpus}"):
            if executor is not None:
                self.scorer.compute_ahead([pairs], executor)
            scores = iter(self.scorer.scores(pairs).tolist() if pairs else [])
        return RetrievalRun.of(
            {
                each.query.id: {passage.id: next(scores) for passage in each.passages}
                for each in batch
            },
            f"{run.name}>{self.name}",
        )


class EndpointReranker:
    """A reranker that calls an endpoint ``POST .../rerank`` (vLLM, TEI, Jina, Cohere and others).

    The cache, budget, retries and headers are those of the :class:`~mirage.LLM`; see
    :func:`mirage.llm.relevance_all`. If a request fails, the passages of its query keep the order
    of the run, and a warning is logged. After a call of :meth:`rerank`, the attribute ``failures``
    maps the ids of these queries to the reasons.

    Args:
        llm: An LLM with the name of the reranking model and the address of the endpoint without
            ``/rerank``, such as ``LLM("BAAI/bge-reranker-v2-m3",
            base_url="http://localhost:8000")``.
        form: The format of requests: ``"jina"`` for Jina, Cohere, Voyage and vLLM, or ``"tei"`` for
            text-embeddings-inference.
    """

    def __init__(self, llm: LLM | str, *, form: RerankForm = "jina") -> None:
        self.llm: LLM = as_llm(llm)
        self.form = form
        self.name: str = Path(self.llm.model).name
        self.failures: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"EndpointReranker({self.llm!r})"

    @property
    def fingerprint(self) -> str:
        """A digest of the endpoint, the model's name, its settings and the format of requests."""
        return self.llm.relevance_digest("", "", self.form).hex()

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        """Return the best passages of each query, ordered by the scores of the endpoint.

        Args:
            run: The retrieved passages, best first.
            corpus: The corpus that contains these passages.
            queries: The queries to rerank.
            depth: The number of passages to rerank for each query; all others are left out.

        Raises:
            LLMError: No query could be reranked, or OpenAI is called without an API key.
            SettingError: ``depth`` is below 1.
        """
        batch = _candidates(run, corpus, queries, depth)
        results = relevance_all(
            self.llm, [(each.query.text, each.texts) for each in batch], form=self.form
        )
        self.failures, scores, before = {}, {}, run.top(depth).scores()
        for each, outcomes in zip(batch, results, strict=True):
            pairs = zip(each.passages, outcomes, strict=True)
            relevance = {passage.id: out.value for passage, out in pairs if out.value is not None}
            # A partial response is ignored: it would mix scores of the model with those of the run.
            if len(relevance) < len(outcomes):
                reason = next(outcome.failed for outcome in outcomes if outcome.value is None)
                self.failures[each.query.id] = reason
                relevance = before[each.query.id]
            scores[each.query.id] = relevance
        nonempty = sum(bool(each.passages) for each in batch)
        _log_failures(self.name, self.failures, len(batch), every=len(self.failures) == nonempty)
        return RetrievalRun.of(scores, f"{run.name}>{self.name}")


def _log_failures(name: str, failures: Mapping[str, str], total: int, *, every: bool) -> None:
    """Log the number of queries that keep the order of the run because requests failed.

    Args:
        name: Name of the reranker.
        failures: Why requests failed, by query id.
        total: Number of queries.
        every: Whether every request failed, so no query was reranked.

    Raises:
        LLMError: ``every`` is true.
    """
    if not failures:
        return
    first, reason = next(iter(failures.items()))
    if every:
        raise LLMError(
            f"{name} failed on all {total} queries; the first error, on query {first!r}, is: "
            f"{reason}"
        )
    _LOG.warning(
        "%s failed on %d of %d queries, which keep their original order; the first error, on "
        "query %r, is: %s",
        name,
        len(failures),
        total,
        first,
        reason,
    )


# Listwise -----------------------------------------------------------------------------------------

_TASK = """\
You rank passages by how well they answer a question. They are numbered, and are in {language} or \
in other languages.

Put first the passage that answers the question best, with what it says about the very thing that \
is asked for; then those that answer a part of it; last those that are only on its topic, or on \
none. Neither the length of a passage nor its place below says anything about it."""

_NUMBERS = re.compile(r"\[\[([\d\s>,]+)\]\]")


class LLMReranker:
    """A reranker that lets an LLM order lists of passages.

    The method follows RankGPT (Sun et al. 2023, arXiv 2304.09542, section 3.2). The LLM orders
    the passages of one window of the ranking at a time. The window moves in steps from the end of
    the ranking to its start. By default, consecutive windows overlap by half, so the best passages
    of a window are also in the next one.

    Passages that a response does not mention come last in their window, in their previous order. If
    a request fails, or no response can be parsed after six attempts, the passages of the window
    keep their order, and a warning is logged. After a call of :meth:`rerank`, the attribute
    ``failures`` contains the reasons, by query id. In the new run, the last passage has score 1,
    the one before it 2, and so on.

    Args:
        llm: The LLM that orders the passages, or its name.
        window: The number of passages in a request.
        step: The number of passages by which the window moves. If it equals ``window``, windows do
            not overlap.

    Raises:
        SettingError: ``window`` is below 2, or ``step`` is not from 1 to ``window``.
    """

    def __init__(self, llm: LLM | str, *, window: int = 20, step: int = 10) -> None:
        if window < 2 or not 1 <= step <= window:
            raise SettingError(
                f"window must be at least 2 and step from 1 to window, got window={window}, "
                f"step={step}"
            )
        self.llm: LLM = as_llm(llm)
        self.window = window
        self.step = step
        self.name: str = f"{Path(self.llm.model).name}-listwise"
        self.failures: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"LLMReranker({self.llm!r}, window={self.window}, step={self.step})"

    @property
    def fingerprint(self) -> str:
        """A digest of the model, its settings, the window, the step and the prompt."""
        digest = self.llm.digest([{"role": "user", "content": _TASK + _form(2).text}]).hex()
        return hashlib.sha256(json.dumps([digest, self.window, self.step]).encode()).hexdigest()

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        """Return the best passages of each query, in the order that the LLM gives them.

        Args:
            run: The retrieved passages, best first.
            corpus: The corpus that contains these passages.
            queries: The queries to rerank.
            depth: The number of passages to rerank for each query; all others are left out.

        Raises:
            LLMError: No window could be ordered, or OpenAI is called without an API key.
            SettingError: ``depth`` is below 1.
        """
        batch = _candidates(run, corpus, queries, depth)
        orders = [list(each.passages) for each in batch]
        # Windows with the same start are independent across queries and are sent together.
        windows = [(i, start) for i, order in enumerate(orders) for start in self._starts(order)]
        windows.sort(key=itemgetter(1), reverse=True)
        self.failures = {}
        failed = 0
        for start, group in groupby(windows, key=itemgetter(1)):
            numbers = [i for i, _ in group]
            part = slice(start, start + self.window)
            questions = [_question(batch[i].query, orders[i][part]) for i in numbers]
            outcomes = ask_all(self.llm, questions, what="windows")
            for i, outcome in zip(numbers, outcomes, strict=True):
                if outcome.value is None:
                    self.failures[batch[i].query.id] = outcome.failed or outcome.invalid
                    failed += 1
                else:
                    orders[i][part] = [orders[i][part][number] for number in outcome.value]
        _log_failures(self.name, self.failures, len(batch), every=failed == len(windows))
        scores = {
            each.query.id: {passage.id: float(len(order) - i) for i, passage in enumerate(order)}
            for each, order in zip(batch, orders, strict=True)
        }
        return RetrievalRun.of(scores, f"{run.name}>{self.name}")

    def _starts(self, passages: Sequence[Passage]) -> Iterable[int]:
        """Return the position of the first passage of each window, the last window first.

        The result is empty if there are fewer than two passages, because nothing can be reordered.
        """
        if len(passages) < 2:
            return []
        last = max(0, len(passages) - self.window)
        return [*range(last, 0, -self.step), 0]


def _question(query: Query, passages: Sequence[Passage]) -> Question[list[int]]:
    material = (
        *((f"passage-{n}", passage.titled_text) for n, passage in enumerate(passages, 1)),
        ("question", query.text),
    )
    task = _TASK.format(language=Language.of(query.language).name)
    return Question(task, "Rank the passages", _form(len(passages)), material)


def _form(n: int) -> Form[list[int]]:
    example = " > ".join(map(str, [2, 1, *range(3, n + 1)]))
    line = f"[[{example}]]" if n < 6 else "[[2 > 1 > 3 > ...]]"
    return Form(
        text=f"Answer with one line that holds all {n} numbers, the best passage first, in double "
        f"brackets, such as {line}",
        reminder=f"Write nothing but that line: the numbers 1 to {n}, each once, such as {line}",
        read=lambda text: _order(text, n),
        sought="order of all passages",
        breaks=(BRACKETS,),
    )


def _order(text: str, n: int) -> list[int] | None:
    """Parse the ranking of ``n`` passages in the last line of a response.

    Returns:
        The positions of the passages, counted from 0, best first; passages that the response does
        not mention come last. ``None`` if the response cannot be parsed.
    """
    lists = _NUMBERS.findall(text.rstrip().rpartition("\n")[2])
    if len(lists) != 1 or final_verdict(text, lists[0].strip()) is None:
        return None
    numbers = [int(number) - 1 for number in re.findall(r"\d+", lists[0])]
    if len(set(numbers)) < len(numbers) or not all(0 <= number < n for number in numbers):
        return None
    return [*numbers, *(number for number in range(n) if number not in numbers)]
