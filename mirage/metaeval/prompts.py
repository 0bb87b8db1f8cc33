"""What a judge of one sentence is asked, and how its label is read.

The four ways to ask are those of MEMERAG (Cruz Blandón et al. 2025, arXiv 2502.17163):
the bare question, with reasoning before the label (chain of thought), with the guidelines by which
people annotated, and with both. The wording is our own. The tags around the reasoning and the
label, ``<rationale>`` and ``<answer>``, are those of the paper's prompts. What comes from elsewhere
(question, passages, sentence) stands between marks that it cannot end, with the instructions around
it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache, partial
from typing import Literal, get_args

from mirage.languages import Language
from mirage.llm.controls import Break
from mirage.llm.questions import BRACKETS, Form, Question, final_verdict, harmless
from mirage.metaeval.labels import Task
from mirage.metaeval.sentences import AnswerSentence
from mirage.models import Passage

__all__ = ["LABELS", "STRATEGIES", "Strategy", "label_form", "label_question", "read_label"]

Strategy = Literal["zero-shot", "cot", "guidelines", "guidelines+cot"]
"""How a judge of sentences is asked."""

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
"""MEMERAG's four ways to ask a judge, from the shortest to the longest."""

LABELS: dict[Task, tuple[str, ...]] = {
    "faithfulness": ("Supported", "Not Supported"),
    "relevance": (
        "Directly answers the question",
        "Adds context to the answer",
        "Unrelated to the question",
    ),
}
"""The labels that a judge may give, by what it judges; "Challenging to determine" is left out."""


# What is asked ------------------------------------------------------------------------------------


# What a judge is told of its task, and the guidelines that some strategies add.
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


def label_question(sentence: AnswerSentence, task: Task, strategy: Strategy) -> Question[str]:
    """The question which label a sentence deserves.

    For faithfulness a judge is shown the question, the passages that should carry the sentence
    (:attr:`~mirage.metaeval.AnswerSentence.cited`) and the sentence; for relevance, which no
    passage decides, the question and the sentence.
    """
    passages = sentence.cited if task == "faithfulness" else ()
    wording, guidelines = _WORDING[task]
    language = _LANGUAGE.format(language=Language.of(sentence.query.language).name)
    parts = (wording, guidelines, language) if "guidelines" in strategy else (wording, language)
    # A judge that is shown no passage, because the sentence cites none, is told so.
    count = f" (passages: {len(passages)})" if task == "faithfulness" else ""
    return Question(
        task="\n\n".join(parts),
        aim=f"Label the text marked <sentence {{word}}>{count}",
        form=label_form(task, strategy),
        material=(
            ("question", sentence.query.text),
            *((f"passage-{n}", _described(p)) for n, p in enumerate(passages, 1)),
            ("sentence", sentence.text),
        ),
    )


@cache
def label_form(task: Task, strategy: Strategy) -> Form[str]:
    """How a judge of sentences is to answer."""
    *others, last = (f'"{label}"' for label in LABELS[task])
    labels = f"{', '.join(others)} or {last}"
    return Form(
        text=(_RATIONALE_FORM if "cot" in strategy else _ANSWER_FORM).format(labels=labels),
        reminder="Keep any reasoning short. Your output has to end with the label between the tags "
        f"<answer> and </answer>, and that is {labels}",
        read=partial(read_label, labels=LABELS[task]),
        sought="label",
        breaks=(_TAGS, _bare(LABELS[task])),
    )


def _described(passage: Passage) -> str:
    return f"title: {passage.title}\n{passage.text}" if passage.title else passage.text


# How it is read -----------------------------------------------------------------------------------

# Possessive throughout: sentences, passages and outputs are of any length, and of anybody's making.
_TAG = re.compile(r"<(\s*+/?+\s*+(?:answer|rationale)\s*+)>", re.IGNORECASE)
_REASONING = re.compile(r"<\s*+rationale\s*+>", re.IGNORECASE)
_REASONED = re.compile(r"<\s*+/\s*+rationale\s*+>", re.IGNORECASE)
_ANSWER = re.compile(
    r"<\s*+answer\s*+> ([^<>]*+) (?: <\s*+/\s*+answer\s*+> | \Z )", re.IGNORECASE | re.VERBOSE
)
_OPENING = re.compile(r"\s*+(?:```\w*+)?+[\s*_`#]*+<\s*+answer\s*+>", re.IGNORECASE)
_AROUND = re.compile(r"[\s*_`'\"“”„«».:-]+")  # what may stand about a label or between its words


_TAGS: Break = (_TAG, r"[\1]")


def _bare(labels: Collection[str]) -> Break:
    """Breaks labels that stand alone on a line, which need no tags."""
    named = {_plain(label) for label in labels}

    def broken(line: re.Match[str]) -> str:
        return f"({line[0].strip()})" if _plain(line[0]) in named else line[0]

    return re.compile(r"[^\n]+"), broken


def read_label(text: str, labels: Collection[str]) -> str | None:
    """The label that a judge's output gives, ``None`` where it gives none.

    It stands between ``<answer>`` tags, of which the last may be missing, in any case, bold or in
    quotes. The output ends with it, as :func:`mirage.llm.questions.final_verdict` has it:
    alone on a line, behind whole sentences or behind a word such as "Verdict:". Or it opens with
    it, and names no other. In the midst of other words it may be what somebody else said, and is
    none. What stands in ``<rationale>`` tags is not looked at. An output that is a label on one
    line and nothing else needs no tags.
    """
    known = {_plain(label): label for label in labels}
    own = _without_rationale(text)
    if not _TAG.search(own):
        # `_bare` breaks the labels in the material line by line, so one that goes on over the next
        # line may be a quote.
        lines = [line for line in map(_plain, own.splitlines()) if line]
        return known.get(lines[0]) if len(lines) == 1 else None
    bracketed = _ANSWER.sub(lambda answer: f"[[{_plain(answer[1])}]]", harmless(own, [BRACKETS]))
    last = final_verdict(bracketed, known)
    if last is not None:
        return known[last]
    named = {_plain(answer) for answer in _ANSWER.findall(own)}
    return known.get(named.pop()) if len(named) == 1 and _OPENING.match(own) else None


def _without_rationale(text: str) -> str:
    """What stands behind the reasoning, or before it where nothing stands behind it."""
    behind = _REASONED.split(text)[-1]
    return behind if behind.strip() else _REASONING.split(text)[0]


def _plain(label: str) -> str:
    return _AROUND.sub(" ", label).strip().casefold()
