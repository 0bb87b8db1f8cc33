"""Rerankers: a model that reads question and passage together puts the best found in order.

Of equal scores, the passage that stood first before stays first.
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
from mirage.llm import LLM, Form, Question, RerankForm, ask_all, relevance_all
from mirage.llm.questions import BRACKETS, final_verdict
from mirage.models import Passage, Query
from mirage.neural import Reranker as PairScorer
from mirage.retrieval.run import RetrievalRun

__all__ = ["CrossEncoderReranker", "EndpointReranker", "LLMReranker"]

_LOG = logger("mirage.retrieval")


class _Candidates(NamedTuple):
    """The passages of a query that are to be reranked, in the order before."""

    query: Query
    passages: Sequence[Passage]

    @property
    def texts(self) -> list[str]:
        """Their titles and texts."""
        return [passage.titled_text for passage in self.passages]


def _candidates(
    run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
) -> list[_Candidates]:
    if depth < 1:
        raise SettingError(f"1 passage or more is reranked, not {depth}")
    return [
        _Candidates(query, corpus.get_many(run[query.id].top(depth).passage_ids))
        for query in queries
    ]


class CrossEncoderReranker:
    """Reranks by a cross-encoder, which reads each question and passage together.

    Scores are the model's logits. Each distinct pair is scored once, by length in batches, and
    scores by a named model are kept on disk; see :class:`mirage.neural.Reranker`.

    Args:
        model: a model's name on the hub, by default :data:`mirage.neural.RERANKER_MODEL`; a folder
            that holds one; or a :class:`mirage.neural.Reranker`, with its own settings.

    Raises:
        NeuralError: there is no such model, or it gives more than one score.
        MissingPackageError: the extra ``neural`` is not installed.
    """

    def __init__(self, model: PairScorer | str | Path | None = None) -> None:
        self.scorer: PairScorer = model if isinstance(model, PairScorer) else PairScorer(model)
        self.name: str = Path(self.scorer.name).name

    def __repr__(self) -> str:
        return f"CrossEncoderReranker({self.scorer!r})"

    @property
    def fingerprint(self) -> str:
        """Of the model and the longest pair that it reads."""
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
        """The first passages of each query by the model's scores.

        Args:
            run: what was found.
            corpus: the passages that it names.
            queries: those to rerank.
            depth: passages to rerank a query; the rest is left out.
            executor: whose workers load the model and score; by default that is done here.

        Raises:
            SettingError: ``depth`` is below 1.
            NeuralError: the model cannot be loaded, or fails.
        """
        asked = _candidates(run, corpus, queries, depth)
        pairs = [(each.query.text, text) for each in asked for text in each.texts]
        with during(f"{self!r} on {run!r} of {corpus}"):
            if executor is not None:
                self.scorer.compute_ahead([pairs], executor)
            scores = iter(self.scorer.scores(pairs).tolist() if pairs else [])
        return RetrievalRun.of(
            {
                each.query.id: {passage.id: next(scores) for passage in each.passages}
                for each in asked
            },
            f"{run.name}>{self.name}",
        )


class EndpointReranker:
    """Reranks by an endpoint, ``POST .../rerank``, as vLLM, TEI, Jina and Cohere have it.

    Cache, budget, retries and headers are those of the :class:`~mirage.LLM`; see
    :func:`mirage.llm.relevance_all`. A query of which a request fails keeps the order before, which
    is logged; :attr:`failures` says why, by query id, for the last call.

    Args:
        llm: the model and the address that ``/rerank`` stands behind, such as
            ``LLM("BAAI/bge-reranker-v2-m3", base_url="http://localhost:8000")``.
        form: ``"jina"`` as Jina, Cohere, Voyage and vLLM take and answer it, or ``"tei"`` for
            text-embeddings-inference.
    """

    def __init__(self, llm: LLM, *, form: RerankForm = "jina") -> None:
        self.llm = llm
        self.form = form
        self.name: str = Path(llm.model).name
        self.failures: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"EndpointReranker({self.llm!r})"

    @property
    def fingerprint(self) -> str:
        """Of the endpoint, the model's name and settings."""
        return self.llm.relevance_digest("", "", self.form).hex()

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        """The first passages of each query by the endpoint's scores.

        Args:
            run: what was found.
            corpus: the passages that it names.
            queries: those to rerank.
            depth: passages to rerank a query; the rest is left out.

        Raises:
            SettingError: ``depth`` is below 1.
            LLMError: no query could be reranked, or there is no key for OpenAI.
        """
        asked = _candidates(run, corpus, queries, depth)
        found = relevance_all(
            self.llm, [(each.query.text, each.texts) for each in asked], form=self.form
        )
        self.failures, scores, before = {}, {}, run.top(depth).scores()
        for each, outcomes in zip(asked, found, strict=True):
            pairs = zip(each.passages, outcomes, strict=True)
            known = {passage.id: out.value for passage, out in pairs if out.value is not None}
            if len(known) < len(outcomes):
                why = next(outcome.failed for outcome in outcomes if outcome.value is None)
                self.failures[each.query.id] = why
                known = before[each.query.id]
            scores[each.query.id] = known
        some = sum(bool(each.passages) for each in asked)
        _tell(self.name, self.failures, len(asked), every=len(self.failures) == some)
        return RetrievalRun.of(scores, f"{run.name}>{self.name}")


def _tell(name: str, failures: Mapping[str, str], asked: int, *, every: bool) -> None:
    """Log which queries keep their order.

    Raises:
        LLMError: ``every`` request failed.
    """
    if not failures:
        return
    first, why = next(iter(failures.items()))
    if every:
        raise LLMError(f"{name} reranked none of {asked} queries; query {first!r}: {why}")
    _LOG.warning(
        "%s: %d of %d queries keep the order that they had; query %r: %s",
        name,
        len(failures),
        asked,
        first,
        why,
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
    """Reranks by an LLM that puts a list of passages in order.

    As RankGPT (Sun et al. 2023, arXiv 2304.09542, section 3.2): a window is moved from the last
    passages to the first, in steps, and each window is put in order with what the one before it
    left in front. Numbers that an answer leaves out follow in the order before. A window whose
    answer cannot be read, after asking six times, or does not come, keeps the order that it had;
    that is logged, and :attr:`failures` says why, by query id, for the last call. Scores are
    places: the last has 1.

    Args:
        llm: puts passages in order.
        window: passages that it sees at a time.
        step: by how many the window moves.

    Raises:
        SettingError: ``window`` is below 2, or ``step`` not from 1 to ``window``.
    """

    def __init__(self, llm: LLM, *, window: int = 20, step: int = 10) -> None:
        if window < 2 or not 1 <= step <= window:
            raise SettingError(
                f"a window has 2 passages or more and moves by 1 to as many, not window={window}, "
                f"step={step}"
            )
        self.llm = llm
        self.window = window
        self.step = step
        self.name: str = f"{Path(llm.model).name}-listwise"
        self.failures: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"LLMReranker({self.llm!r}, window={self.window}, step={self.step})"

    @property
    def fingerprint(self) -> str:
        """Of the model, its settings, the window and the question's wording."""
        digest = self.llm.digest([{"role": "user", "content": _TASK + _form(2).text}]).hex()
        return hashlib.sha256(json.dumps([digest, self.window, self.step]).encode()).hexdigest()

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        """The first passages of each query in the order of the LLM.

        Args:
            run: what was found.
            corpus: the passages that it names.
            queries: those to rerank.
            depth: passages to rerank a query; the rest is left out.

        Raises:
            SettingError: ``depth`` is below 1.
            LLMError: no window could be put in order, or there is no key for OpenAI.
        """
        asked = _candidates(run, corpus, queries, depth)
        orders = [list(each.passages) for each in asked]
        windows = [(i, start) for i, order in enumerate(orders) for start in self._starts(order)]
        windows.sort(key=itemgetter(1), reverse=True)
        self.failures = {}
        failed = 0
        for start, group in groupby(windows, key=itemgetter(1)):
            places = [i for i, _ in group]
            part = slice(start, start + self.window)
            questions = [_question(asked[i].query, orders[i][part]) for i in places]
            outcomes = ask_all(self.llm, questions, what="windows")
            for i, outcome in zip(places, outcomes, strict=True):
                if outcome.value is None:
                    self.failures[asked[i].query.id] = outcome.failed or outcome.invalid
                    failed += 1
                else:
                    orders[i][part] = [orders[i][part][number] for number in outcome.value]
        _tell(self.name, self.failures, len(asked), every=failed == len(windows))
        scores = {
            each.query.id: {passage.id: float(len(order) - i) for i, passage in enumerate(order)}
            for each, order in zip(asked, orders, strict=True)
        }
        return RetrievalRun.of(scores, f"{run.name}>{self.name}")

    def _starts(self, passages: Sequence[Passage]) -> Iterable[int]:
        """Where windows begin, the last one first; one passage needs no order."""
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
    """The order that ends an answer, counted from 0; numbers that it leaves out come last."""
    lists = _NUMBERS.findall(text.rstrip().rpartition("\n")[2])
    if len(lists) != 1 or final_verdict(text, lists[0].strip()) is None:
        return None
    numbers = [int(number) - 1 for number in re.findall(r"\d+", lists[0])]
    if len(set(numbers)) < len(numbers) or not all(0 <= number < n for number in numbers):
        return None
    return [*numbers, *(number for number in range(n) if number not in numbers)]
