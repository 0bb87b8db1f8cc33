"""Prompts of the judge of sentences, and the parser of its labels.

The four strategies are those of MEMERAG (Cruz Blandón et al. 2025, arXiv 2502.17163). The first
asks only for the label. The second asks for reasoning before the label (chain of thought), the
third adds the guidelines of the human annotators, and the fourth combines both. The wording is our
own. The tags around the reasoning and the label, ``<rationale>`` and ``<answer>``, are those of the
paper's prompts. Texts to judge (question, passages, sentence) are placed between the instructions.
They are enclosed in marks that these texts cannot close, so that their content is not mistaken for
instructions.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache, partial
from typing import Literal, get_args

from mirage.languages import Language
from mirage.llm.controls import Break
from mirage.llm.questions import BRACKETS, Form, Question, final_verdict, harmless
from mirage.llm.templates import PromptFields, Template
from mirage.metaeval.labels import Task
from mirage.metaeval.sentences import AnswerSentence
from mirage.models import Passage

Strategy = Literal["zero-shot", "cot", "guidelines", "guidelines+cot"]
"""The name of a prompting strategy."""

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
"""MEMERAG's four prompts, from the shortest to the longest."""

LABELS: dict[Task, tuple[str, ...]] = {
    "faithfulness": ("Supported", "Not Supported"),
    "relevance": (
        "Directly answers the question",
        "Adds context to the answer",
        "Unrelated to the question",
    ),
}
"""The labels that a judge may give for each task, without "Challenging to determine"."""

FIELDS: dict[Task, PromptFields] = {
    "faithfulness": PromptFields(
        material=(("question", "question"), ("passage", "passages"), ("sentence", "sentence")),
        required=("passages", "sentence"),
        verdicts=LABELS["faithfulness"],
    ),
    "relevance": PromptFields(
        material=(("question", "question"), ("sentence", "sentence")),
        required=("question", "sentence"),
        verdicts=LABELS["relevance"],
    ),
}
"""The fields that a user's own prompt for one sentence must or may have, by task."""


# Prompts ------------------------------------------------------------------------------------------


# The task description of a judge, and the guidelines that some strategies add.
_WORDING: dict[Task, tuple[str, str]] = {
    "faithfulness": (
        """\
You judge whether one sentence of an answer is carried by passages. A system wrote the answer to a \
question from these passages. Label the sentence "Supported" if they carry all that it says, and \
"Not Supported" otherwise. What you know from elsewhere plays no part, and passages may be of no \
use at all.""",
        """\
Guidelines:
The sentence is "Supported" where everything that it claims
- stands in the passages, in the same words or in others; or
- follows from them, by putting several of them together, by arithmetic or by plain reasoning.
So is a sentence that claims nothing which passages could carry, such as a greeting, the start of \
a list, or the honest remark that the passages do not hold the answer, where that is so.
The sentence is "Not Supported" where any part of it, however small,
- adds something that the passages neither say nor imply, even if it is true;
- contradicts a passage: another name, number, date, place or order of events;
- gives to one person, thing, time or passage what the passages say of another;
- shifts the meaning: says more or less firmly, widely or exactly what the passages say otherwise;
- states as a fact what the passages give as an opinion, a guess or a plan;
- draws a conclusion that does not follow;
- says of the question something other than what it asks, as if that were the answer.
Take the sentence apart, look for each claim in the passages, and label it by its weakest part.""",
    ),
    "relevance": (
        """\
You judge what one sentence of an answer does for the question that was asked. Label it "Directly \
answers the question", "Adds context to the answer" or "Unrelated to the question". Whether it is \
true plays no part.""",
        """\
Guidelines:
- "Directly answers the question": whoever reads the sentence learns what was asked, or a part of \
it. If the question asks for several things, one of them is enough. It counts if it is wrong, too.
- "Adds context to the answer": the sentence does not give what was asked, but helps to understand \
or to trust it: a reason, an example, a date or place, a definition, where it comes from, a \
summary, the start of a list, or the remark that the passages do not hold the answer.
- "Unrelated to the question": without the sentence nothing would be missing for whoever asked. It \
is about something else, or about the task or the system itself.
Ask in this order: does it give what was asked? If not, does it help to understand that? A \
sentence that does both gets the first label.""",
    ),
}

_LANGUAGE = "The question is in {language}; your label is in English, as it stands here."

_ANSWER_FORM = (
    "Write nothing but the label, between the tags <answer> and </answer>. The label is {labels}."
)

_RATIONALE_FORM = (
    "Think step by step first, and write your reasoning between the tags <rationale> and "
    "</rationale>. Then write the label, and nothing else, between the tags <answer> and "
    "</answer>. The label is {labels}."
)


def label_question(
    sentence: AnswerSentence, task: Task, strategy: Strategy, template: Template | None = None
) -> Question[str]:
    """Return the prompt that asks for the label of a sentence.

    For faithfulness, it contains the question, the passages that should support the sentence
    (:attr:`~mirage.metaeval.AnswerSentence.cited`) and the sentence. For relevance, it contains the
    question and the sentence, because passages do not matter.

    Args:
        sentence: The sentence to label.
        task: The property to judge.
        strategy: The prompt to use, such as ``zero-shot``.
        template: The user's own prompt, which replaces the wording of the strategy.
    """
    passages = sentence.cited if task == "faithfulness" else ()
    wording, guidelines = _WORDING[task]
    name = Language.of(sentence.query.language).name
    language = _LANGUAGE.format(language=name)
    parts = (wording, guidelines, language) if "guidelines" in strategy else (wording, language)
    # The count tells the judge that a sentence without citations comes without passages.
    count = f" (passages: {len(passages)})" if task == "faithfulness" else ""
    return Question(
        task="\n\n".join(parts),
        aim=f"Label the text marked <sentence {{word}}>{count}",
        form=label_form(task, strategy),
        material=(
            ("question", sentence.query.text),
            *((f"passage-{n}", _passage_text(p)) for n, p in enumerate(passages, 1)),
            ("sentence", sentence.text),
        ),
        template=template,
        language=name,
    )


@cache
def label_form(task: Task, strategy: Strategy) -> Form[str]:
    """Return the response format that a prompt asks for, with the labels of the task.

    If ``strategy`` contains ``cot``, the format has reasoning before the label.
    """
    *first_labels, last = (f'"{label}"' for label in LABELS[task])
    labels = f"{', '.join(first_labels)} or {last}"
    return Form(
        text=(_RATIONALE_FORM if "cot" in strategy else _ANSWER_FORM).format(labels=labels),
        reminder="Keep any reasoning short. Your output has to end with the label between the tags "
        f"<answer> and </answer>, and that is {labels}",
        read=partial(read_label, labels=LABELS[task]),
        sought="label",
        breaks=(_TAGS, _bare(LABELS[task])),
    )


def _passage_text(passage: Passage) -> str:
    return f"title: {passage.title}\n{passage.text}" if passage.title else passage.text


# Parsing ------------------------------------------------------------------------------------------

# All quantifiers are possessive, to rule out slow backtracking on long or malicious texts.
_TAG = re.compile(r"<(\s*+/?+\s*+(?:answer|rationale)\s*+)>", re.IGNORECASE)
_REASONING = re.compile(r"<\s*+rationale\s*+>", re.IGNORECASE)
_REASONING_END = re.compile(r"<\s*+/\s*+rationale\s*+>", re.IGNORECASE)
_ANSWER = re.compile(
    r"<\s*+answer\s*+> ([^<>]*+) (?: <\s*+/\s*+answer\s*+> | \Z )", re.IGNORECASE | re.VERBOSE
)
_OPENING = re.compile(r"\s*+(?:```\w*+)?+[\s*_`#]*+<\s*+answer\s*+>", re.IGNORECASE)
_AROUND = re.compile(r"[\s*_`'\"“”„«».:-]+")  # may surround a label, or separate its words


_TAGS: Break = (_TAG, r"[\1]")


def _bare(labels: Collection[str]) -> Break:
    """Return a pattern and a replacement that put parentheses around each line with only a label.

    They are applied to the passages and other texts in a prompt. Otherwise, such a line could be
    mistaken for the judge's response.
    """
    label_keys = {_normalize(label) for label in labels}

    def bracket(line: re.Match[str]) -> str:
        return f"({line[0].strip()})" if _normalize(line[0]) in label_keys else line[0]

    return re.compile(r"[^\n]+"), bracket


def read_label(text: str, labels: Collection[str]) -> str | None:
    """Return the label in a judge's response, or ``None`` if there is none.

    The label is between ``<answer>`` tags; the closing tag may be missing. The case of its letters
    does not matter, and it may be bold or in quotes. The response must end with it, as defined by
    :func:`mirage.llm.questions.final_verdict`: alone on a line, after whole sentences, or after a
    word such as "Verdict:". Alternatively, the response begins with the label in tags and has no
    other label in tags. A label among other words is ignored, since it may be a quote. Text in
    ``<rationale>`` tags is ignored. A response that consists of a label on one line needs no tags.

    Args:
        text: The response of the judge.
        labels: The possible labels.
    """
    labels_by_key = {_normalize(label): label for label in labels}
    answer_part = _without_rationale(text)
    if not _TAG.search(answer_part):
        # `_bare` breaks the labels in the material line by line, so a label followed by another
        # line may be a quote.
        lines = [line for line in map(_normalize, answer_part.splitlines()) if line]
        return labels_by_key.get(lines[0]) if len(lines) == 1 else None
    # Break brackets in the response first, so that only tags become [[label]].
    bracketed = _ANSWER.sub(
        lambda answer: f"[[{_normalize(answer[1])}]]", harmless(answer_part, [BRACKETS])
    )
    last = final_verdict(bracketed, labels_by_key)
    if last is not None:
        return labels_by_key[last]
    keys = {_normalize(answer) for answer in _ANSWER.findall(answer_part)}
    return labels_by_key.get(keys.pop()) if len(keys) == 1 and _OPENING.match(answer_part) else None


def _without_rationale(text: str) -> str:
    """Return the text after the reasoning of a response or, if none follows, the text before it."""
    after = _REASONING_END.split(text)[-1]
    return after if after.strip() else _REASONING.split(text)[0]


def _normalize(label: str) -> str:
    return _AROUND.sub(" ", label).strip().casefold()
