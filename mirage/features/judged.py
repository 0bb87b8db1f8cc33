"""Whether an answer is right, as an LLM says that compares it with the short answers.

BERGEN's LLMeval (Rau et al. 2024, arXiv 2407.01102, section 4.6 and appendix G): an LLM sees the
question, the reference answers and the response, and says yes or no; here in words of our own. Its
graded form has a step between, and its form by log probabilities a number between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mirage._base.logs import logger
from mirage.errors import SettingError
from mirage.features.answers import UNANSWERABLE
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.features.rated import unanswered
from mirage.llm import LLM, Completion
from mirage.llm.questions import BRACKETS, Form, Outcome, Question, ask_all, final_verdict

__all__ = ["LLMEval", "Scale", "llm_eval"]

Scale = Literal["binary", "graded"]
"""Yes or no, or a step between."""

_LOG = logger("mirage.features")

LEAST_MASS = 0.5
"""Probability that the labels have together, below which an answer by log probabilities is none."""


def llm_eval(
    llm: LLM,
    *,
    scale: Scale = "binary",
    method: Literal["label", "logprobs"] = "label",
    invalid: Literal["nan", "false"] = "nan",
) -> LLMEval:
    """Whether the answer says what one of the short answers says, as an LLM judges it: 1 or 0.

    The LLM sees the question, the short answers in all their forms (the reference's answer where
    the query has none) and the answer. It ends its own with a label, which is read exactly:
    "not correct" is none. An empty answer is 0. Not computed where a call fails, and where six
    answers end in no label; a table counts these beside the mean.

    Args:
        llm: is asked, by the one client: with its cache, budget and retries.
        scale: ``graded`` has 0.5 for an answer that is right in part.
        method: ``logprobs`` adds up the value of each label times its probability as the first
            token of the LLM's answer: a number from 0 to 1. The server has to send log
            probabilities. The feature is then called ``llm_eval_logprobs``.
        invalid: ``false`` counts an answer that ends in no label as 0, as BERGEN does, and logs
            how many.

    Raises:
        SettingError: there is no such scale, method or rule.
    """
    for name, value, known in (
        ("scale", scale, tuple(SCALES)),
        ("method", method, ("label", "logprobs")),
        ("invalid", invalid, ("nan", "false")),
    ):
        if value not in known:
            raise SettingError(f"{name} is {' or '.join(known)}, not {value!r}")
    name = "llm_eval" + ("_graded" if scale == "graded" else "")
    if method == "logprobs":
        labels = SCALES[scale].values
        asked = llm.with_parameters(logprobs=True, top_logprobs=20)
        form = _first_word(labels)
        return LLMEval(f"{name}_logprobs", asked, scale, form, invalid == "false")
    return LLMEval(name, llm, scale, _brackets(SCALES[scale].values), invalid == "false")


@dataclass(frozen=True, slots=True, repr=False)
class LLMEval:
    """What an LLM says of an answer beside the short answers; made by :func:`llm_eval`.

    The responses of a batch are judged concurrently. It stays in one process (``n_jobs=1``).
    """

    name: str
    llm: LLM
    scale: Scale
    form: Form[float]
    invalid_is_false: bool

    def __repr__(self) -> str:
        return self.name

    @property
    def facts(self) -> Facts:
        """Higher is better, from 0 to 1."""
        return _FACTS

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """A value from 0 to 1 for each answered query; a call that fails leaves the others.

        Raises:
            LLMError: there is no key for OpenAI.
        """
        entries = [self._entry(item) for item in batch]
        questions = [entry for entry in entries if isinstance(entry, Question)]
        asked = ask_all(self.llm, questions, progress=False)
        if self.invalid_is_false and (unread := sum(bool(each.invalid) for each in asked)):
            _LOG.warning(
                "%s: %d of %d answers of %s name no label, and count 0",
                self.name,
                unread,
                len(asked),
                self.llm.model,
            )
        outcomes = iter(asked)
        return [
            self._value(next(outcomes)) if isinstance(entry, Question) else entry
            for entry in entries
        ]

    def _entry(self, item: Answered) -> Question[float] | float | NotComputed:
        labels = _labels(item)
        if isinstance(labels, NotComputed):
            return labels
        if not item.parsed.answer_text.strip():
            return 0.0
        material = (
            ("question", item.query.text),
            ("reference", labels),
            ("answer", item.parsed.answer_text),
        )
        aim = "Judge the text marked <answer {word}>"
        return Question(SCALES[self.scale].task, aim, self.form, material)

    def _value(self, outcome: Outcome[float]) -> float | NotComputed:
        if outcome.value is not None:
            return outcome.value
        if outcome.invalid and self.invalid_is_false:
            return 0.0
        return unanswered(self.llm, outcome, "not judged")


def _labels(item: Answered) -> str | NotComputed:
    """The short answers, a line each with its forms, or else the reference's answer."""
    if item.query.answerable is False:
        return UNANSWERABLE
    if item.query.answers:
        return "\n".join(" / ".join(forms) for forms in item.query.answers)
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return NotComputed("the query has neither short answers nor a reference to compare with")
    return reference


# What is asked ------------------------------------------------------------------------------------


class _Scale(NamedTuple):
    task: str
    values: Mapping[str, float]
    """The value of each label."""


_TASK = """\
You decide whether an answer to a question is right, by reference answers that are right.

{labels}

Where the reference has several lines, each is a part of the whole right answer; forms of one part \
stand side by side with a slash between, and any of them will do. Compare what is meant, not the \
words: another language, spelling, script, unit or form of a name is no mistake, and more detail \
is none either, unless it contradicts the reference."""

SCALES: Mapping[str, _Scale] = {
    "binary": _Scale(
        _TASK.format(
            labels="yes: it says what the reference says.\n"
            "no: it says something else, or nothing, or only a part of it."
        ),
        {"yes": 1.0, "no": 0.0},
    ),
    "graded": _Scale(
        _TASK.format(
            labels="yes: it says all that the reference says.\n"
            "partly: it says a part of that, or says it with a mistake in a detail.\n"
            "no: it says something else, or nothing."
        ),
        {"yes": 1.0, "partly": 0.5, "no": 0.0},
    ),
}
"""What the LLM is asked, and what its labels are worth."""


def _brackets(values: Mapping[str, float]) -> Form[float]:
    """A label in double brackets at the end, as all verdicts here are given."""
    labels = ", ".join(f"[[{label}]]" for label in values)

    cased = {
        form: v for label, v in values.items() for form in (label, label.title(), label.upper())
    }

    def read(text: str) -> float | None:
        label = final_verdict(text, cased)
        return None if label is None else cased[label]

    return Form(
        text=f"Justify it in one sentence. Then end with a line that holds one of {labels} and "
        "nothing else.",
        reminder=f"Your last line has to be one of {labels} and nothing else.",
        read=read,
        sought=f"label ({', '.join(values)})",
        breaks=(BRACKETS,),
    )


def _first_word(values: Mapping[str, float]) -> Form[float]:
    """A label as the first token of the answer, with its probability."""
    labels = ", ".join(values)

    def weigh(completion: Completion) -> float | None:
        return expected_value(completion.logprobs, values)

    return Form(
        text=f"Answer with one word and nothing else: {labels}.",
        reminder=f"Your whole output has to be one of: {labels}.",
        read=lambda _: None,
        sought=f"label ({labels}) among the log probabilities of its first token",
        weigh=weigh,
    )


def expected_value(
    logprobs: Sequence[Mapping[str, float]], values: Mapping[str, float]
) -> float | None:
    """The sum over labels of value times probability, at the first token that is no blank.

    A token stands for the one label that begins with it, whatever its case. ``None`` where labels
    have less than :data:`LEAST_MASS` together.
    """
    first = next((place for place in logprobs if _is_word(place)), None)
    if first is None:
        return None
    mass = dict.fromkeys(values, 0.0)
    for token, logprob in first.items():
        word = token.strip().casefold()
        meant = [label for label in values if word and label.startswith(word)]
        if len(meant) == 1:
            mass[meant[0]] += math.exp(logprob)
    if sum(mass.values()) < LEAST_MASS:
        return None
    return min(sum(values[label] * share for label, share in mass.items()), 1.0)


def _is_word(place: Mapping[str, float]) -> bool:
    """Whether the likeliest token at a place is more than blanks."""
    return bool(place) and bool(max(place, key=place.__getitem__).strip())


_FACTS = Facts("higher", 0, 1, ("answers or reference", "LLM"))

DEFINITIONS = (Definition("llm_eval", llm_eval, _FACTS),)
