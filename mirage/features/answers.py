"""Whether an answer says what is right: the short answers of a query, or what its reference tells.

What is compared is facts, not wording. The n-gram recall comes from BERGEN (Rau et al. 2024, arXiv
2407.01102, section 4), whose metric takes the n-grams from anywhere in the response; here they have
to stand together, see :func:`mirage.text.mention`.
"""

from __future__ import annotations

from functools import lru_cache

from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.languages import Language
from mirage.text import mentioned, tokenize

__all__ = [
    "NO_ANSWERS",
    "UNANSWERABLE",
    "answer_match",
    "reference_recall",
    "states",
    "states_all",
    "wrong_answer",
]

NO_ANSWERS = NotComputed("the query has no short answers")
_NO_WRONG_ANSWERS = NotComputed("the query has no wrong answers to look for")
UNANSWERABLE = NotComputed("no passage answers the query, so that there is no right answer")


def answer_match(item: Answered) -> float | NotComputed:
    """Share of the query's short answers that the answer states in one of their forms.

    In [0, 1]. Not computed where the query has no :attr:`~mirage.Query.answers`.
    """
    if item.query.answerable is False:
        return UNANSWERABLE
    if not item.query.answers:
        return NO_ANSWERS
    stated = [states(item, forms) for forms in item.query.answers]
    return sum(stated) / len(stated)


def wrong_answer(item: Answered) -> float | NotComputed:
    """1 where the answer states a wrong answer of the query and not every right one, else 0.

    A wrong answer that stands beside the right one is no fault: good answers say what is not meant.
    Not computed where the query has no :attr:`~mirage.Query.wrong_answers`, and where no passage
    answers it: there an abstention may say of what else the passages tell.
    """
    if item.query.answerable is False:
        return UNANSWERABLE
    if not item.query.wrong_answers:
        return _NO_WRONG_ANSWERS
    if states_all(item):
        return 0.0
    return float(any(states(item, forms) for forms in item.query.wrong_answers))


def states(item: Answered, forms: tuple[str, ...]) -> bool:
    """Whether the answer states a short answer in one of its forms."""
    return mentioned(forms, item.parsed.answer_text, item.query.language)


def states_all(item: Answered) -> bool:
    """Whether it states every right answer of the query; not where the query has none."""
    answers = item.query.answers
    return bool(answers) and all(states(item, forms) for forms in answers)


def reference_recall(item: Answered) -> float | NotComputed:
    """Share of what the reference tells, and the question does not, that the answer tells too.

    In [0, 1]: the recall of the reference's n-grams of characters that the question does not hold,
    over lengths from one to the language's own n-gram length where a character is a syllable or a
    word, and of that length alone elsewhere. Not computed without a reference.
    """
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    language = item.query.language
    told = _grams(reference, language)
    new = told - _grams(item.query.text, language) or told
    return len(new & _grams(item.parsed.answer_text, language)) / len(new) if new else 0.0


@lru_cache(maxsize=4096)
def _grams(text: str, language: str) -> frozenset[str]:
    entry = Language.of(language)
    longest = entry.gram_length
    words = tokenize(text, entry)
    if entry.tokens == "character":
        words = ["".join(words)]
    lengths = range(1, 3) if longest == 2 else (longest,)
    padded = [f" {word} " if longest > 2 else word for word in words]
    return frozenset(
        word[i : i + n] for word in padded for n in lengths for i in range(len(word) - n + 1)
    )


_FACTS = Facts("higher", 0, 1, ("answers",))

DEFINITIONS = (
    Definition("answer_match", answer_match, _FACTS),
    Definition("wrong_answer", wrong_answer, Facts("lower", 0, 1, ("wrong answers",))),
    Definition("reference_recall", reference_recall, Facts("higher", 0, 1, ("reference",))),
)
