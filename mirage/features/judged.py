"""Features that are judged by an LLM: whether an answer is right, given the short answers.

This is BERGEN's LLMeval (Rau et al. 2024, arXiv 2407.01102, section 4.6 and appendix G): an LLM
sees the question, the reference answers and the response, and outputs yes or no. The wording of the
prompts is our own. There are two variants. The graded scale has a third label, for answers that are
right in part. The method ``logprobs`` uses the probabilities of the labels, so that the result is a
number between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

from mirage.errors import SettingError
from mirage.features.answers import UNANSWERABLE
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import answer_of_reference
from mirage.features.rated import ANSWER_FIELDS, RatedFeature, named_by_prompt
from mirage.llm import LLM, as_llm
from mirage.llm.answers import Completion
from mirage.llm.questions import BRACKETS, Form, Question, final_verdict
from mirage.llm.templates import template_of
from mirage.models import Query

Scale = Literal["binary", "graded"]
"""The labels of the judge: ``binary`` for yes and no, ``graded`` for yes, partly and no."""

LEAST_MASS = 0.5
"""Minimum total probability of the labels in the log probabilities of an output.

Below it, the output counts as invalid.
"""


def llm_eval(
    llm: LLM | str,
    *,
    scale: Scale = "binary",
    method: Literal["label", "logprobs"] = "label",
    invalid: Literal["nan", "false"] = "nan",
    prompt: str | None = None,
) -> RatedFeature:
    """Return the feature whose value is 1 if an LLM judges the answer to be right, else 0.

    The LLM sees the question, the short answers in all spellings, and the response's answer. If the
    query has no short answers, the LLM sees the reference's answer instead. The output of the LLM
    ends in a label, which has to match exactly: "not correct" is not a label. An empty answer gets
    0. Not computed if no passage answers the query, if a call fails, or if none of six outputs ends
    in a label. Tables print the number of responses without a value beside the mean.

    Args:
        llm: The judge, with its cache, budget and retries; or its name.
        scale: ``binary`` (the default) has the labels yes and no. ``graded`` adds a label with the
            value 0.5, for answers that are right in part.
        method: ``label`` (the default) uses the label in the output. ``logprobs`` uses the
            probabilities that the first token of the output is one of the labels: the feature is
            the sum of each label's value times its probability, from 0 to 1, and is named
            ``llm_eval_logprobs``. The server has to return log probabilities. If it allows fewer
            than 20 alternatives per token, create the LLM with ``parameters={"top_logprobs": 5}``.
        invalid: Value for an output without a label. ``nan`` (the default) records a missing value.
            ``false`` counts it as 0, as BERGEN does, and logs how many there are.
        prompt: Your own prompt, with the fields ``{question}``, ``{reference}`` and ``{answer}``;
            see :func:`~mirage.features.rated.named_by_prompt` for the name of the feature.

    Raises:
        SettingError: ``scale``, ``method`` or ``invalid`` has an unknown value; or ``prompt`` has
            an unknown field, lacks a field, or names no label.
    """
    for name, value, choices in (
        ("scale", scale, tuple(SCALES)),
        ("method", method, ("label", "logprobs")),
        ("invalid", invalid, ("nan", "false")),
    ):
        if value not in choices:
            raise SettingError(f"{name} must be {' or '.join(choices)}, got {value!r}")
    llm = as_llm(llm)
    name = "llm_eval" + ("_graded" if scale == "graded" else "")
    labels = SCALES[scale].values
    form = _bracketed_label_form(labels)
    if method == "logprobs":
        name, form = f"{name}_logprobs", _first_token_form(labels)
        # Some servers allow fewer than 20 alternatives, so a number in the LLM's parameters has
        # precedence.
        alternatives = llm.parameters.get("top_logprobs", 20)
        llm = llm.with_parameters(logprobs=True, top_logprobs=alternatives)
    # The first token of an output is a bare label; otherwise labels are in brackets.
    verdicts = tuple(label if method == "logprobs" else f"[[{label}]]" for label in labels)
    template = template_of(prompt, replace(ANSWER_FIELDS, verdicts=verdicts), "llm_eval")
    return RatedFeature(
        named_by_prompt(name, template),
        llm,
        partial(_question, scale, form),
        _FACTS,
        "not judged",
        0.0 if invalid == "false" else None,
        template,
    )


def _question(
    scale: Scale, form: Form[float], item: Answered
) -> Question[float] | float | NotComputed:
    """Return the question to the judge, or the value if no judge is needed.

    An empty answer, for example, gets 0. If there is nothing to compare the answer with, return the
    reason why the feature cannot be computed.
    """
    references = reference_lines(item.query)
    if isinstance(references, NotComputed):
        return references
    if not item.parsed.answer_text.strip():
        return 0.0
    material = (
        ("question", item.query.text),
        ("reference", references),
        ("answer", item.parsed.answer_text),
    )
    return Question(SCALES[scale].task, "Judge the text marked <answer {word}>", form, material)


def reference_lines(query: Query) -> str | NotComputed:
    """Return the text with which the judge compares the answer, or the reason why there is none.

    The text has one line per short answer, with all spellings of this answer. If the query has no
    short answers, the text is the reference's answer.
    """
    if query.answerable is False:
        return UNANSWERABLE
    if query.answers:
        return "\n".join(" / ".join(forms) for forms in query.answers)
    reference = answer_of_reference(query)
    if isinstance(reference, NotComputed):
        return NotComputed("the query has neither short answers nor a reference to compare with")
    return reference


# Prompts ------------------------------------------------------------------------------------------


class _Scale(NamedTuple):
    """A prompt and the value of each label that it asks for."""

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
"""The prompt and the labels of each scale."""


def _bracketed_label_form(values: Mapping[str, float]) -> Form[float]:
    """Return the output format that ends in a label in double square brackets.

    ``values`` maps each label to its value, which is the result of an output with this label.
    """
    labels = ", ".join(f"[[{label}]]" for label in values)
    # Labels are matched exactly, but may be in lower case, title case or upper case.
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


def _first_token_form(values: Mapping[str, float]) -> Form[float]:
    """Return the output format for a judge whose output begins with a label.

    ``values`` maps each label to its value. The score is the expected value, given the
    probabilities of the labels as first token; see :func:`expected_value`.
    """
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
    """Return the sum of the labels' values, each times its probability as the first token.

    Blank tokens and a ``<think>`` block at the start are skipped. A token counts for a label if the
    label begins with it and no other label does, regardless of case. Return ``None`` if the
    probabilities of the labels add up to less than :data:`LEAST_MASS`.

    Args:
        logprobs: For each position of the output, the log probability of each likely token.
        values: The value of each label.

    Example:
        >>> import math
        >>> from mirage.features.judged import expected_value
        >>> first = {"Yes": math.log(0.75), "No": math.log(0.25)}
        >>> round(expected_value([first], {"yes": 1.0, "no": 0.0}), 2)
        0.75
    """
    ends = [n for n, tokens in enumerate(logprobs, 1) if _likeliest(tokens) == "</think>"]
    answer = logprobs[ends[-1] if ends else 0 :]
    first = next((tokens for tokens in answer if _likeliest(tokens)), None)
    if first is None:
        return None
    mass = dict.fromkeys(values, 0.0)
    for token, logprob in first.items():
        word = token.strip().casefold()
        # A token may be only the beginning of a label, such as "part" of "partly".
        matches = [label for label in values if word and label.startswith(word)]
        if len(matches) == 1:
            mass[matches[0]] += math.exp(logprob)
    if sum(mass.values()) < LEAST_MASS:
        return None
    # Rounded log probabilities may add up to slightly more than 1.
    return min(sum(values[label] * share for label, share in mass.items()), 1.0)


def _likeliest(logprobs: Mapping[str, float]) -> str:
    """Return the most likely token at a position, without surrounding whitespace."""
    return max(logprobs, key=logprobs.__getitem__).strip() if logprobs else ""


_FACTS = Facts("higher", 0, 1, ("answers or reference", "LLM"))

DEFINITIONS = (Definition("llm_eval", llm_eval, _FACTS),)
