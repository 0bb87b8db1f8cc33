"""Features that an LLM rates from 1 to 5: agreement with the reference, and fluency.

They are features of MIRAGE-Bench (arXiv 2410.13716), section 4.1 and appendix A, "Answer overlap"
and "Fluency". The scales and the forms of the rater's output are those of its Figures 11 and 12.
The wording of the prompts is our own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirage._base.logs import logger
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.generation.prompts import passage_entry
from mirage.languages import Language
from mirage.llm import LLM, as_llm
from mirage.llm.questions import BRACKETS, Form, Outcome, Question, ask_all, final_verdict
from mirage.llm.templates import PromptFields, Template, template_of

_LOG = logger("mirage.features")

EMPTY_ANSWER = 1.0
"""The grade of an empty answer on both scales, which is given without calling the LLM."""


def answer_overlap(llm: LLM | str, *, prompt: str | None = None) -> RatedFeature:
    """Return the feature whose value is an LLM's grade of agreement with the reference, 1 to 5.

    - 1: unrelated to the reference, or made up.
    - 2: admits honestly that it cannot answer, although the reference can.
    - 3: on the topic, with clear deviations.
    - 4: acceptable, but incomplete.
    - 5: right and complete.

    The rater sees the question, the answer and the reference. Citations are removed, and so is the
    section of reasons, if there is one. An empty answer is graded 1. Not computed if the query has
    no reference, if a call fails, or if none of six outputs is complete and ends with a grade.

    Args:
        llm: The rater, or its name.
        prompt: Your own prompt, with the fields ``{question}``, ``{reference}`` and ``{answer}``;
            see :func:`named_by_prompt` for the name of the feature.

    Raises:
        SettingError: ``prompt`` has an unknown field, lacks a field, or asks for no grade.
    """
    template = template_of(prompt, ANSWER_FIELDS, "answer_overlap")
    name = named_by_prompt("answer_overlap", template)
    return RatedFeature(name, as_llm(llm), _overlap_question, _OVERLAP_FACTS, template=template)


def fluency(llm: LLM | str, *, prompt: str | None = None) -> RatedFeature:
    """Return the feature whose value is an LLM's grade of a response's fluency, 1 to 5.

    - 1: incoherent.
    - 2: unconnected sentences.
    - 3: mostly connected, with gaps.
    - 4: well organised, with a small flaw.
    - 5: one clear text.

    Whether the response is right does not matter. The rater sees the question, the shown passages
    and the whole response. A response with an empty answer is graded 1. Not computed if a call
    fails, or if none of six outputs is complete and begins with a grade.

    Args:
        llm: The rater, or its name.
        prompt: Your own prompt, with the fields ``{question}``, ``{passages}`` and ``{response}``;
            see :func:`named_by_prompt` for the name of the feature.

    Raises:
        SettingError: ``prompt`` has an unknown field, lacks a field, or asks for no rating.
    """
    template = template_of(prompt, _FLUENCY_FIELDS, "fluency")
    name = named_by_prompt("fluency", template)
    return RatedFeature(name, as_llm(llm), _fluency_question, _FLUENCY_FACTS, template=template)


def named_by_prompt(name: str, template: Template | None) -> str:
    """Append a digest of the user's prompt to the name of a feature, as in ``fluency@1a2b3c4d``.

    With such names, values from two prompts are never confused, and a surrogate that was trained
    with one prompt refuses a table from another prompt.

    Args:
        name: The name of the feature, such as ``fluency``.
        template: The user's prompt. If it is ``None``, the name is returned unchanged.
    """
    return f"{name}@{template.digest[:8]}" if template else name


@dataclass(frozen=True, slots=True, repr=False)
class RatedFeature:
    """A feature whose values are grades or labels that an LLM gives to responses.

    The responses of a batch are rated concurrently, in one process (``n_jobs=1``).

    Attributes:
        name: The name of the feature.
        llm: The rater.
        question: Function that returns the question to the rater. If no question is needed, it
            returns the value, or the reason why there is no value.
        facts: The direction, range and requirements.
        gap: Text before the error message in the reason for a missing value, if a call failed.
        invalid: The value if the rater's output cannot be parsed; ``None`` if the value is then
            missing.
        template: The user's prompt; ``None`` for the prompt that ships with the library.
    """

    name: str
    llm: LLM
    question: Callable[[Answered], Question[Any] | float | NotComputed]
    facts: Facts
    gap: str = "not rated"
    invalid: float | None = None
    template: Template | None = None

    def __repr__(self) -> str:
        return self.name

    @property
    def prompt_digest(self) -> str:
        """The digest of the user's prompt; empty for the prompt that ships with the library."""
        return self.template.digest if self.template else ""

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """Return a value for each answered query.

        If a call to the rater fails, only the query of this call has no value.
        """
        entries = [
            replace(entry, template=self.template, language=language_name(item))
            if isinstance(entry := self.question(item), Question)
            else entry
            for item in batch
        ]
        questions = [entry for entry in entries if isinstance(entry, Question)]
        outcomes = ask_all(self.llm, questions, progress=False)
        if self.invalid is not None and (invalid := sum(bool(each.invalid) for each in outcomes)):
            _LOG.warning(
                "%s: %d of %d outputs of the judge %s have no label, so they count as the score %g",
                self.name, invalid, len(outcomes), self.llm.model, self.invalid,
            )  # fmt: skip
        remaining = iter(outcomes)
        return [
            self._value(next(remaining)) if isinstance(entry, Question) else entry
            for entry in entries
        ]

    def _value(self, outcome: Outcome[Any]) -> float | NotComputed:
        if outcome.value is not None:
            return float(outcome.value)
        if outcome.invalid and self.invalid is not None:
            return self.invalid
        return missing_value(self.llm, outcome, self.gap)


def missing_value(llm: LLM, outcome: Outcome[Any], prefix: str) -> NotComputed:
    """Return why a question to the LLM has no value: its call failed, or the output is not valid.

    For a failed call, the reason begins with ``prefix``.
    """
    failed = f"{prefix}: {outcome.failed}" if outcome.failed else ""
    return NotComputed(failed or f"{llm.model} gave {outcome.invalid}", retry=True)


_SOUGHT = "grade from 1 to 5"
_RATING_IN_TEXT = re.compile(r"(?i)(?<![^\W_])(rating[\s*_]*+):(?=[\s*_]*+[1-5](?![0-9]))")
# Texts in a prompt that look like a grade are altered, so that a response cannot grade itself.
_GRADES = (BRACKETS, (_RATING_IN_TEXT, r"\1 ="))


ANSWER_FIELDS = PromptFields(
    material=(("question", "question"), ("reference", "reference"), ("answer", "answer")),
    required=("reference", "answer"),
    verdicts=("[[",),
)
"""The fields of a prompt that compares an answer with a reference."""

_FLUENCY_FIELDS = PromptFields(
    material=(("question", "question"), ("passage", "passages"), ("response", "response")),
    required=("response",),
    verdicts=("##Rating:",),
)


def language_name(item: Answered) -> str:
    """Return the English name of the question's language."""
    return Language.of(item.query.language).name


# Answer overlap -----------------------------------------------------------------------------------

_OVERLAP = """\
You compare an answer with a reference answer to the same question, and grade from 1 to 5 how well \
it agrees with the reference.

The grades:
1: the answer is beside what the reference says, or contradicts it, or is made up.
2: the answer says honestly that it cannot answer or was not told, though the reference answers.
3: the answer is on the topic, but clearly deviates from the reference.
4: the answer is acceptable: right as far as it goes, but not complete.
5: the answer is fully right and complete, measured by the reference.

The reference is right by definition. Compare what is meant, not the words: another language, \
order or style is no deviation."""


def read_overlap(text: str) -> int | None:
    """Return the grade from 1 to 5 at the end of a rater's output, such as ``[[4]]``.

    Return ``None`` if there is none; see :func:`mirage.llm.questions.final_verdict`.
    """
    grade = final_verdict(text, ("1", "2", "3", "4", "5"))
    return None if grade is None else int(grade)


_OVERLAP_FORM = Form(
    text="Justify the grade in one to three sentences. Then end with a line that holds nothing but "
    "the grade, a whole number from 1 to 5, in double square brackets: [[grade]]",
    reminder="Your last line has to be the grade in double square brackets and nothing else, a "
    "whole number from 1 to 5: [[grade]]",
    read=read_overlap,
    sought=_SOUGHT,
    breaks=_GRADES,
)


def _overlap_question(item: Answered) -> Question[int] | float | NotComputed:
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    if not item.parsed.answer_text.strip():
        return EMPTY_ANSWER
    material = (
        ("question", item.query.text),
        ("reference", reference),
        ("answer", item.parsed.answer_text),
    )
    return Question(_OVERLAP, "Grade the text marked <answer {word}>", _OVERLAP_FORM, material)


# Fluency ------------------------------------------------------------------------------------------

_FLUENCY = """\
You grade from 1 to 5 how fluent and coherent a response to a question is: whether its sentences \
build, one upon the other, one clear and well-organised text.

The grades:
1: no text that can be followed: fragments, broken sentences, a jumble.
2: sentences that can be read one by one, but stand side by side without order or connection.
3: a thread that can be followed, with gaps, leaps or repetitions.
4: a well-organised text with a small flaw, such as a rough transition.
5: one clear text: every sentence follows from what was said before, and nothing is in its way.

Grade how it is written, in whatever language, and not whether it is right; the question and the \
passages are there to understand it. Headings such as ##Reason: and ##Answer:, and citations in \
brackets, are its required form, and count neither for it nor against it."""


_RATING = re.compile(
    r"""
    [\s*_]*+ (?:\#{1,6}[\s*_]*+)? rating [\s*_]*+ : [\s*_]*+
    (?P<grade>[1-5]) (?:\s*/\s*5)? [.*_ \t]*+
    (?: \Z | [\r\n] | [\#*_]*+ \s*+ explanation )
    """,
    re.VERBOSE | re.IGNORECASE,
)


def read_fluency(text: str) -> int | None:
    """Return the grade at the start of a rater's output, such as ``##Rating: 4``.

    Return ``None`` if there is none. Case does not matter, ``#`` and bold type are optional, and
    ``4/5`` is accepted. The line has to end after the grade, or the heading of the explanation has
    to follow. So ``4 or 5`` and ``4.5`` do not count.
    """
    match = _RATING.match(text)
    return None if match is None else int(match["grade"])


_FLUENCY_FORM = Form(
    text="Write nothing before the grade, which is a whole number from 1 to 5, and explain it in "
    "one to three sentences, in this form:\n##Rating: grade\n##Explanation: explanation",
    reminder="Your output has to begin with ##Rating: and the grade, a whole number from 1 to 5, "
    "and then a new line with ##Explanation: and your explanation.",
    read=read_fluency,
    sought=_SOUGHT,
    breaks=_GRADES,
)


def _fluency_question(item: Answered) -> Question[int] | float:
    if not item.parsed.answer_text.strip():
        return EMPTY_ANSWER
    passages = item.query.passages_shown_to(item.response)
    material = (
        ("question", item.query.text),
        *(("passage", passage_entry(passage)) for passage in passages),
        ("response", item.response.text or ""),
    )
    return Question(_FLUENCY, "Grade the text marked <response {word}>", _FLUENCY_FORM, material)


_OVERLAP_FACTS = Facts("higher", 1, 5, ("reference", "LLM"))
_FLUENCY_FACTS = Facts("higher", 1, 5, ("LLM",))

DEFINITIONS = (
    Definition("answer_overlap", answer_overlap, _OVERLAP_FACTS),
    Definition("fluency", fluency, _FLUENCY_FACTS),
)
