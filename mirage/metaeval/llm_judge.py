"""An LLM as a judge of sentences, asked in one of MEMERAG's four ways (arXiv 2502.17163).

What it is asked, and how its answer is read, stands in :mod:`mirage.metaeval.prompts`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, get_args

from mirage._base.concurrency import for_each, run_sync
from mirage._base.progress import progress_bar
from mirage.errors import JudgmentError, LLMError, UnknownNameError
from mirage.llm import LLM, Completion, Connection, Message
from mirage.llm.estimates import Estimate, estimate
from mirage.llm.questions import ask_until, unread
from mirage.metaeval.labels import Task
from mirage.metaeval.prompts import (
    LABELS,
    STRATEGIES,
    Strategy,
    label_prompt,
    read_label,
    reminder,
)
from mirage.metaeval.sentences import AnswerSentence

__all__ = ["LLMSentenceJudge"]

_LOG = logging.getLogger("mirage.metaeval")


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
        self.llm = llm
        self.strategy: Strategy = strategy
        self.task: Task = task
        self.name = name or f"{llm.model} {strategy}"
        self.failed_is_wrong = failed_is_wrong
        self.progress = progress

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
        prompts = self._prompts(sentences)
        said = run_sync(self._ask_all(list(dict.fromkeys(prompts))))
        verdicts = [said[prompt] for prompt in prompts]
        self._report(verdicts)
        return [verdict.label for verdict in verdicts]

    def estimate(self, sentences: Sequence[AnswerSentence]) -> Estimate:
        """What :meth:`label` will ask for; nothing is sent."""
        return estimate(self.llm, map(_messages, set(self._prompts(sentences))))

    def _prompts(self, sentences: Sequence[AnswerSentence]) -> list[str]:
        return [label_prompt(sentence, self.task, self.strategy) for sentence in sentences]

    async def _ask_all(self, prompts: Sequence[str]) -> dict[str, _Verdict]:
        """What the LLM said to each prompt."""
        said: dict[str, _Verdict] = {}
        with progress_bar(len(prompts), self.name, self.progress) as bar:
            async with self.llm.connect() as connection:

                async def ask(prompt: str) -> None:
                    said[prompt] = await self._ask(connection, prompt)
                    bar.update()

                await for_each(prompts, ask, self.llm.concurrency)
        return said

    async def _ask(self, connection: Connection, prompt: str) -> _Verdict:
        try:
            label, last = await ask_until(
                connection, _messages(prompt), self._read, reminder=reminder(self.task)
            )
        except LLMError as error:
            return _Verdict(None, failed=str(error))
        if label is None:
            return _Verdict(None, invalid=unread(last, "label"))
        return _Verdict(label)

    def _read(self, answer: Completion) -> str | None:
        # What stands where an answer was cut off is not its end.
        cut = answer.finish_reason == "length"
        return None if cut else read_label(answer.text, LABELS[self.task])

    def _report(self, verdicts: Sequence[_Verdict]) -> None:
        """Log what is missing, once.

        Raises:
            JudgmentError: a call failed, and that is not to count as wrong.
        """
        failed = [verdict.failed for verdict in verdicts if verdict.failed]
        invalid = [verdict.invalid for verdict in verdicts if verdict.invalid]
        of = f"of {len(verdicts)} sentences"
        if failed and not self.failed_is_wrong:
            kept = (
                "nothing was kept, as the LLM has no cache"
                if self.llm.cache is None
                else "what was answered is in the cache; ask again for the rest"
            )
            raise JudgmentError(
                f"judge {self.name!r} was not answered about {len(failed)} {of}, the first: "
                f"{failed[0]}; {kept}"
            )
        for lost, what in ((failed, "was not answered about"), (invalid, "gave no label to")):
            if lost:
                _LOG.warning(
                    "judge %r %s %d %s, which counts as wrong; the first: %s",
                    self.name,
                    what,
                    len(lost),
                    of,
                    lost[0],
                )


class _Verdict(NamedTuple):
    """What became of a prompt: a label, or why there is none."""

    label: str | None
    invalid: str = ""
    failed: str = ""


def _messages(prompt: str) -> list[Message]:
    return [{"role": "user", "content": prompt}]
