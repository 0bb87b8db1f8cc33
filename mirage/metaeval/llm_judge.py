"""An LLM as a judge of sentences, asked in one of MEMERAG's four ways (arXiv 2502.17163).

What it is asked, and how its answer is read, stands in :mod:`mirage.metaeval.prompts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from mirage._base.logs import logger
from mirage.errors import JudgmentError, UnknownNameError
from mirage.llm import LLM
from mirage.llm.estimates import Estimate, estimate
from mirage.llm.questions import Outcome, Question, ask_all
from mirage.metaeval.labels import Task
from mirage.metaeval.prompts import LABELS, STRATEGIES, Strategy, label_question
from mirage.metaeval.sentences import AnswerSentence

__all__ = ["LLMSentenceJudge"]

_LOG = logger("mirage.metaeval")


class LLMSentenceJudge:
    """Asks an LLM which label a sentence deserves; :func:`~mirage.metaeval.evaluate` takes it.

    Where an answer names no label, the LLM is asked again, five times at most, with a reminder of
    the form; after that the sentence has no label, which counts as wrong (as in MEMERAG).
    Where a call fails for good, the judge said nothing, and that is no mistake of its own: the
    others are asked to the end, and then there is an error.

    It is the same judge in every language, and its prompts are in English. Several ways to ask one
    LLM are several judges, with the same client, cache and budget.

    Args:
        llm: the LLM. Its cache keeps every answer as it comes: the same judge asked again about
            the same sentences asks only for what is missing.
        strategy: ``"zero-shot"`` asks for the label alone; ``"cot"`` for reasoning before it;
            ``"guidelines"`` tells by which rules people annotate; ``"guidelines+cot"`` does both.
        task: what to judge: ``"faithfulness"``, with the labels "Supported" and "Not Supported";
            or ``"relevance"``, with MEMERAG's three labels.
        name: what tables call the judge; by default the model and the strategy.
        failed_is_wrong: take a failed call for a label that is wrong, and log how many there are,
            for an endpoint that will not answer about some sentences, whatever one does: filters
            of content and refusals.
        progress: show a progress bar on stderr, if that is a terminal.

    Raises:
        UnknownNameError: there is no such strategy or task.
    """

    def __init__(
        self,
        llm: LLM,
        strategy: Strategy = "zero-shot",
        *,
        task: Task = "faithfulness",
        name: str = "",
        failed_is_wrong: bool = False,
        progress: bool = True,
    ) -> None:
        if strategy not in STRATEGIES:
            raise UnknownNameError("strategy of a judge of sentences", strategy, STRATEGIES)
        if task not in LABELS:
            raise UnknownNameError("task of a judge of sentences", task, get_args(Task))
        self.llm: LLM = llm
        self.name: str = name or f"{llm.model} {strategy}"
        self.strategy: Strategy = strategy
        self.task: Task = task
        self.failed_is_wrong: bool = failed_is_wrong
        self.progress: bool = progress

    def __repr__(self) -> str:
        return f"LLMSentenceJudge({self.llm!r}, {self.strategy!r}, task={self.task!r})"

    def label(self, sentences: Sequence[AnswerSentence]) -> list[str | None]:
        """One of the task's labels for each sentence, ``None`` where the LLM named none.

        Sentences that are asked about in the same words are asked about once.

        Raises:
            JudgmentError: a call failed (network, refusal, budget); says how many, and the first.
                All others were made, and their answers are in the cache.
            LLMError: there is no key for OpenAI.
        """
        questions = self._questions(sentences)
        new = list(dict.fromkeys(questions))
        outcomes = ask_all(self.llm, new, what=self.name, progress=self.progress)
        by_question = dict(zip(new, outcomes, strict=True))
        self._report([by_question[question] for question in questions])
        return [by_question[question].value for question in questions]

    def estimate(self, sentences: Sequence[AnswerSentence]) -> Estimate:
        """What :meth:`label` will ask for; nothing is sent."""
        return estimate(self.llm, dict.fromkeys(self._questions(sentences)))

    def _questions(self, sentences: Sequence[AnswerSentence]) -> list[Question[str]]:
        return [label_question(sentence, self.task, self.strategy) for sentence in sentences]

    def _report(self, outcomes: Sequence[Outcome[str]]) -> None:
        """Log what is missing, once; an error where a call failed that is not to count as wrong."""
        failed = [outcome.failed for outcome in outcomes if outcome.failed]
        invalid = [outcome.invalid for outcome in outcomes if outcome.invalid]
        of = f"of {len(outcomes)} sentences"
        if failed and not self.failed_is_wrong:
            rest = (
                "nothing was kept, as the LLM has no cache"
                if self.llm.cache is None
                else "what was answered is in the cache; ask again for the rest"
            )
            raise JudgmentError(
                f"judge {self.name!r} was not answered about {len(failed)} {of}, the first: "
                f"{failed[0]}; {rest}"
            )
        for lost, what in ((failed, "was not answered about"), (invalid, "gave no label to")):
            if lost:
                words = "judge %r %s %d %s, which counts as wrong; the first: %s"
                _LOG.warning(words, self.name, what, len(lost), of, lost[0])
