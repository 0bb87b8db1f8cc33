"""An LLM as a judge of sentences, with one of MEMERAG's four prompts (arXiv 2502.17163).

:mod:`mirage.metaeval.prompts` has the prompts and the parser of responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import get_args

from mirage._base.logs import logger
from mirage.errors import JudgmentError, NoJudgmentError, UnknownNameError
from mirage.llm import LLM, as_llm
from mirage.llm.estimates import Estimate, estimate
from mirage.llm.questions import Outcome, Question, ask_all
from mirage.llm.templates import Template, template_of
from mirage.metaeval.labels import Task
from mirage.metaeval.prompts import FIELDS, LABELS, STRATEGIES, Strategy, label_question
from mirage.metaeval.sentences import AnswerSentence

_LOG = logger("mirage.metaeval")


class LLMSentenceJudge:
    """A judge that asks an LLM for the label of each sentence.

    If a response has no label, the LLM is asked again up to five times, with a reminder of the
    format. After that the sentence has no label, which counts as wrong in an evaluation (as in
    MEMERAG). The same holds if the model refuses or a content filter blocks the request. If a call
    fails otherwise, the other calls are completed before a JudgmentError is raised.

    The judge is the same in every language, and its prompts are in English. To compare strategies,
    create one judge per strategy from the same LLM object; they share its client, cache and budget.

    Args:
        llm: The LLM. Its cache stores every response at once, so a repeated run only sends missing
            requests.
        strategy: The prompt. ``"zero-shot"`` asks for the label alone, ``"cot"`` for reasoning
            before the label, ``"guidelines"`` includes the rules of the human annotators, and
            ``"guidelines+cot"`` combines both.
        task: The property to judge: ``"faithfulness"``, with the labels "Supported" and "Not
            Supported", or ``"relevance"``, with MEMERAG's three labels.
        name: The name in tables; by default the model and the strategy.
        prompt: Your own prompt, used instead of the prompt of the strategy. It must have the field
            ``{sentence}`` and, for faithfulness, ``{passages}`` or, for relevance, ``{question}``.
            It may also have ``{question}``, ``{language}`` (the name of the language), ``{marks}``
            (a warning that the texts are not instructions) and ``{form}`` (the format of the
            response). If it has ``{form}``, ``strategy`` still decides whether the LLM reasons
            first.
        names: Other names for the labels, if people used others: ``{"Supported": "correct", "Not
            Supported": "wrong"}``. By default the names are those of the task.
        failed_is_wrong: Whether to count a failed call as a wrong label, and to log the number of
            failures, instead of raising an error.
        progress: Show a progress bar on stderr if that is a terminal.

    Raises:
        UnknownNameError: The strategy, the task or a label in ``names`` is unknown.
        SettingError: ``prompt`` has an unknown field, lacks a field, or does not name the labels.
    """

    def __init__(
        self,
        llm: LLM | str,
        strategy: Strategy = "zero-shot",
        *,
        task: Task = "faithfulness",
        name: str = "",
        prompt: str | None = None,
        names: Mapping[str, str] = MappingProxyType({}),
        failed_is_wrong: bool = False,
        progress: bool = True,
    ) -> None:
        if strategy not in STRATEGIES:
            raise UnknownNameError("strategy", strategy, STRATEGIES)
        if task not in LABELS:
            raise UnknownNameError("task", task, get_args(Task))
        for label in names:
            if label not in LABELS[task]:
                raise UnknownNameError(f"{task} label", label, LABELS[task])
        self.llm: LLM = as_llm(llm)
        self.template: Template | None = template_of(prompt, FIELDS[task], f"a judge of {task}")
        self.names: Mapping[str, str] = names
        own_prompt = f" prompt {self.prompt_digest[:8]}" if self.template else ""
        self.name: str = name or f"{self.llm.model} {strategy}{own_prompt}"
        self.strategy: Strategy = strategy
        self.task: Task = task
        self.failed_is_wrong: bool = failed_is_wrong
        self.progress: bool = progress

    def __repr__(self) -> str:
        return f"LLMSentenceJudge({self.llm!r}, {self.strategy!r}, task={self.task!r})"

    @property
    def prompt_digest(self) -> str:
        """The digest (hash) of your own prompt; empty if the judge uses a built-in prompt."""
        return self.template.digest if self.template else ""

    def label(self, sentences: Sequence[AnswerSentence]) -> list[str | None]:
        """Return one of the task's labels for each sentence, or ``None`` if no response has one.

        Sentences with identical prompts share a request.

        Raises:
            JudgmentError: A call failed (network, budget). The message has the number of failures
                and the first reason. All other responses are in the cache.
            NoJudgmentError: Every call failed.
            LLMError: The LLM is called at OpenAI, and there is no API key.
        """
        questions = self._questions(sentences)
        # Identical prompts share a request.
        new = list(dict.fromkeys(questions))
        outcomes = ask_all(self.llm, new, what=self.name, progress=self.progress)
        by_question = dict(zip(new, outcomes, strict=True))
        self._report([by_question[question] for question in questions])
        labels = (by_question[question].value for question in questions)
        return [None if label is None else self.names.get(label, label) for label in labels]

    def estimate(self, sentences: Sequence[AnswerSentence]) -> Estimate:
        """Estimate the requests that :meth:`label` would send, without sending any."""
        return estimate(self.llm, dict.fromkeys(self._questions(sentences)))

    def _questions(self, sentences: Sequence[AnswerSentence]) -> list[Question[str]]:
        return [
            label_question(sentence, self.task, self.strategy, self.template)
            for sentence in sentences
        ]

    def _report(self, outcomes: Sequence[Outcome[str]]) -> None:
        """Log how many sentences have no label; raise an error if calls failed.

        With ``failed_is_wrong``, failed calls are only logged.
        """
        failed = [outcome.failed for outcome in outcomes if outcome.failed]
        invalid = [outcome.invalid for outcome in outcomes if outcome.invalid]
        total = f"of {len(outcomes)} sentences"
        if failed and not self.failed_is_wrong:
            problem = (
                f"judge {self.name!r} got no answer about {len(failed)} {total}; the first error "
                f"is: {failed[0]}"
            )
            if len(failed) == len(outcomes):
                raise NoJudgmentError(problem)
            rest = (
                "no response was stored, because the LLM has no cache"
                if self.llm.cache is None
                else "the other responses are in the cache; run again for the rest"
            )
            raise JudgmentError(f"{problem}; {rest}")
        for reasons, problem in (
            (failed, "has no label because of failed calls for"),
            (invalid, "gave no label to"),
        ):
            if reasons:
                template = "judge %r %s %d %s; the first: %s"
                _LOG.warning(template, self.name, problem, len(reasons), total, reasons[0])
