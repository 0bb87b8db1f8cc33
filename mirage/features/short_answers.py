"""Responses against short answers, as question answering measures them: ``qa_*`` and ``bergen_*``.

BERGEN (Rau et al. 2024, arXiv 2407.01102, section 4.6 and appendix I) compares a response with
labels by match, exact match, token F1, ROUGE and the recall of character 3-grams. Here are two
families. ``bergen_*`` give what BERGEN's own module gives, to the bit, on the raw text of the
response: for comparing with its tables. ``qa_*`` are those to use: the answer without citations and
headings, tokens of the language, the forms of case, width, digits and marks folded.

The labels are the forms of :attr:`mirage.Query.answers`. ``bergen_*`` take the best of all labels.
Of ``qa_*`` each answer counts by its best form, and the mean over the answers is the value: where a
query has one answer, as in BERGEN, that is the best of all labels too.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from mirage._base.packages import package
from mirage.features.answers import NO_ANSWERS, UNANSWERABLE
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import rouge_l
from mirage.languages import Language
from mirage.text import tokenize
from mirage.text.mentions import stem

__all__ = [
    "bergen_char3_recall",
    "bergen_exact",
    "bergen_f1",
    "bergen_match",
    "bergen_precision",
    "bergen_recall",
    "bergen_rouge1",
    "bergen_rouge2",
    "bergen_rougeL",
    "qa_char3_recall",
    "qa_exact",
    "qa_f1",
    "qa_match",
    "qa_precision",
    "qa_recall",
    "qa_rouge1",
    "qa_rouge2",
    "qa_rougeL",
]

LONGEST_ENDING = 5
"""Letters that an ending may add to a word, in a language whose words take endings."""

_NO_TOKEN = NotComputed("no short answer of the query has a letter or a digit to look for")

Tokens = Sequence[str]


# For use ------------------------------------------------------------------------------------------


def qa_match(item: Answered) -> float | NotComputed:
    """Share of the short answers whose words stand in the answer, next to each other and in order.

    In [0, 1]. Words are equal without accents and without what a language writes as one with them
    (Arabic's article), and in a language whose words take endings (Finnish, Korean) the answer's
    may go on for up to five letters; part of a word is never a word. English articles do not count.
    Not computed where the query has no short answers, or none with a letter or digit.
    """
    entry = Language.of(item.query.language)
    answer = tuple(stem(token, entry) for token in _tokens(item.parsed.answer_text, entry))
    return _mean(item, lambda label: _occurs(tuple(stem(t, entry) for t in label), answer, entry))


def qa_exact(item: Answered) -> float | NotComputed:
    """Share of the short answers that the answer equals, token for token, in [0, 1].

    A share below 1 is possible only for queries with several answers. Otherwise as
    :func:`qa_match`, with tokens as :func:`mirage.text.tokenize` gives them.
    """
    answer = _tokens(item.parsed.answer_text, Language.of(item.query.language))
    return _mean(item, lambda label: float(label == answer))


def qa_f1(item: Answered) -> float | NotComputed:
    """F1 of the answer's tokens against those of the short answer's best form, in [0, 1].

    As in SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250, section 6.1), with tokens of the language:
    characters where no spaces part words. Not computed as :func:`qa_match`.
    """
    return _mean_overlap(item).f1


def qa_precision(item: Answered) -> float | NotComputed:
    """Share of the answer's tokens that are the short answer's: of the form with the best F1."""
    return _mean_overlap(item).precision


def qa_recall(item: Answered) -> float | NotComputed:
    """Share of the short answer's tokens that are in the answer: of the form with the best F1."""
    return _mean_overlap(item).recall


def qa_char3_recall(item: Answered) -> float | NotComputed:
    """Share of the character 3-grams of a short answer that the answer holds, in [0, 1].

    BERGEN, appendix I: lenient to transliteration. 3-grams are counted within tokens and as often
    as they occur; a token of fewer than three characters is one gram, which has to stand anywhere
    in the answer's tokens. Where no spaces part words, the text between marks is one token.
    """
    entry = Language.of(item.query.language)
    answer = _written(_tokens(item.parsed.answer_text, entry), entry)
    return _mean(item, lambda label: _char3_recall(_written(label, entry), answer))


def qa_rouge1(item: Answered) -> float | NotComputed:
    """ROUGE-1 F-measure (Lin 2004) of the answer and a short answer, on tokens, in [0, 1]."""
    return _rouge_n(item, 1)


def qa_rouge2(item: Answered) -> float | NotComputed:
    """ROUGE-2 F-measure (Lin 2004) of the answer and a short answer, on tokens, in [0, 1].

    A short answer of one token has no pair of tokens: it counts 0.
    """
    return _rouge_n(item, 2)


def qa_rougeL(item: Answered) -> float | NotComputed:
    """ROUGE-L F-measure (Lin 2004) of the answer and a short answer, on tokens, in [0, 1]."""
    answer = _tokens(item.parsed.answer_text, Language.of(item.query.language))
    return _mean(item, lambda label: rouge_l(label, answer))


class _Overlap(NamedTuple):
    f1: float | NotComputed
    precision: float | NotComputed
    recall: float | NotComputed


def _mean_overlap(item: Answered) -> _Overlap:
    labels = _labels(item)
    if isinstance(labels, NotComputed):
        return _Overlap(labels, labels, labels)
    answer = _tokens(item.parsed.answer_text, Language.of(item.query.language))
    best = [max(_overlap(label, answer) for label in forms) for forms in labels]
    return _Overlap(*(sum(values) / len(best) for values in zip(*best, strict=True)))


def _rouge_n(item: Answered, n: int) -> float | NotComputed:
    answer = _ngrams(_tokens(item.parsed.answer_text, Language.of(item.query.language)), n)
    return _mean(item, lambda label: _overlap(_ngrams(label, n), answer)[0])


def _mean(item: Answered, value: Callable[[tuple[str, ...]], float]) -> float | NotComputed:
    """Mean over the short answers of the best value of a form."""
    labels = _labels(item)
    if isinstance(labels, NotComputed):
        return labels
    return sum(max(map(value, forms)) for forms in labels) / len(labels)


def _labels(item: Answered) -> list[list[tuple[str, ...]]] | NotComputed:
    """The tokens of each form of each short answer; forms without a token are left out."""
    if item.query.answerable is False:
        return UNANSWERABLE
    if not item.query.answers:
        return NO_ANSWERS
    entry = Language.of(item.query.language)
    forms = [[_tokens(form, entry) for form in answer] for answer in item.query.answers]
    labels = [[label for label in answer if label] for answer in forms]
    return [answer for answer in labels if answer] or _NO_TOKEN


@lru_cache(maxsize=4096)
def _tokens(text: str, entry: Language) -> tuple[str, ...]:
    return tuple(token for token in tokenize(text, entry) if token not in entry.articles)


def _occurs(label: Tokens, answer: Tokens, entry: Language) -> float:
    ending = LONGEST_ENDING if entry.endings else 0
    places = range(len(answer) - len(label) + 1)
    return float(
        any(
            all(_is_form(answer[at + i], word, ending) for i, word in enumerate(label))
            for at in places
        )
    )


def _is_form(token: str, word: str, ending: int) -> bool:
    if token == word:
        return True
    if not token.startswith(word) or not 0 < len(token) - len(word) <= ending:
        return False
    return not token[len(word)].isdecimal() if word[-1].isdecimal() else len(word) > 1


def _overlap(label: Sequence[object], answer: Sequence[object]) -> tuple[float, float, float]:
    """F1, precision and recall of what an answer shares with a label, counted as it occurs."""
    shared = (Counter(label) & Counter(answer)).total()
    if not shared:
        return 0.0, 0.0, 0.0
    precision, recall = shared / len(answer), shared / len(label)
    return 2 * precision * recall / (precision + recall), precision, recall


def _ngrams(tokens: Tokens, n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _written(tokens: Tokens, entry: Language) -> tuple[str, ...]:
    return ("".join(tokens),) if entry.tokens == "character" else tuple(tokens)


def _char3_recall(label: Tokens, answer: Tokens) -> float:
    wanted, held = Counter(_char3(label)), Counter(_char3(answer))
    shared = sum(
        # A short token is looked for in words too: one of two characters is no 3-gram of them.
        min(count, held[gram]) if len(gram) == 3 else count * any(gram in t for t in answer)
        for gram, count in wanted.items()
    )
    return shared / wanted.total()


def _char3(tokens: Tokens) -> list[str]:
    return [
        gram
        for token in tokens
        for gram in ([token[i : i + 3] for i in range(len(token) - 2)] or [token])
    ]


# As BERGEN has them -------------------------------------------------------------------------------


def bergen_match(item: Answered) -> float | NotComputed:
    """1 where the response holds a label as a string, else 0; BERGEN's ``M``.

    Both in lower case, without ASCII punctuation and English articles. A label of which nothing is
    left is in every response, and "no" is in "know": use :func:`qa_match`.
    """
    return _best(item, lambda response, label: float(_normal(label) in _normal(response)))


def bergen_exact(item: Answered) -> float | NotComputed:
    """1 where the response equals a label, else 0; BERGEN's ``EM``. Use :func:`qa_exact`."""
    return _best(item, lambda response, label: float(_normal(label) == _normal(response)))


def bergen_f1(item: Answered) -> float | NotComputed:
    """Greatest token F1 with a label, tokens parted by blanks; BERGEN's ``F1``."""
    return _best(item, lambda response, label: _normal_overlap(response, label)[0])


def bergen_precision(item: Answered) -> float | NotComputed:
    """Greatest token precision, of whichever label; BERGEN's ``Precision``."""
    return _best(item, lambda response, label: _normal_overlap(response, label)[1])


def bergen_recall(item: Answered) -> float | NotComputed:
    """Greatest token recall, of whichever label; BERGEN's ``Recall``."""
    return _best(item, lambda response, label: _normal_overlap(response, label)[2])


def bergen_char3_recall(item: Answered) -> float | NotComputed:
    """Greatest share of a label's character 3-grams; BERGEN's ``Recall_char3gram``.

    A token of fewer than three characters is one gram, equal to a whole token only.
    """
    return _best(item, _normal_char3_recall)


def bergen_rouge1(item: Answered) -> float | NotComputed:
    """Greatest ROUGE-1 F-measure with a label, by the rouge package; BERGEN's ``Rouge-1``.

    Raises:
        MissingPackageError: the extra ``bergen`` is not installed.
    """
    return _best(item, lambda response, label: _rouge(response, label)["rouge-1"]["f"])


def bergen_rouge2(item: Answered) -> float | NotComputed:
    """Greatest ROUGE-2 F-measure with a label, by the rouge package; BERGEN's ``Rouge-2``.

    Raises:
        MissingPackageError: the extra ``bergen`` is not installed.
    """
    return _best(item, lambda response, label: _rouge(response, label)["rouge-2"]["f"])


def bergen_rougeL(item: Answered) -> float | NotComputed:
    """Greatest ROUGE-L F-measure with a label, by the rouge package; BERGEN's ``Rouge-L``.

    Raises:
        MissingPackageError: the extra ``bergen`` is not installed.
    """
    return _best(item, lambda response, label: _rouge(response, label)["rouge-l"]["f"])


def _best(item: Answered, value: Callable[[str, str], float]) -> float | NotComputed:
    if not item.query.answers:
        return NO_ANSWERS
    response = item.response.text or ""
    return float(max(value(response, form) for answer in item.query.answers for form in answer))


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@lru_cache(maxsize=4096)
def _normal(text: str) -> str:
    words = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def _normal_overlap(response: str, label: str) -> tuple[float, float, float]:
    return _overlap(_normal(label).split(), _normal(response).split())


def _normal_char3_recall(response: str, label: str) -> float:
    return _overlap(_char3(_normal(label).split()), _char3(_normal(response).split()))[2]


def _rouge(response: str, label: str) -> Any:
    rouge = _rouge_package()
    if not any(map(str.strip, response.split("."))) or not any(map(str.strip, label.split("."))):
        return {name: {"f": 0.0} for name in ("rouge-1", "rouge-2", "rouge-l")}
    return rouge.get_scores(response, label)[0]


@lru_cache(maxsize=1)
def _rouge_package() -> Any:
    return package("rouge", "bergen").Rouge()


_FACTS = Facts("higher", 0, 1, ("answers",))

DEFINITIONS = tuple(
    Definition(function.__name__, function, _FACTS)
    for function in (
        qa_match,
        qa_exact,
        qa_f1,
        qa_precision,
        qa_recall,
        qa_char3_recall,
        qa_rouge1,
        qa_rouge2,
        qa_rougeL,
        bergen_match,
        bergen_exact,
        bergen_f1,
        bergen_precision,
        bergen_recall,
        bergen_char3_recall,
        bergen_rouge1,
        bergen_rouge2,
        bergen_rougeL,
    )
)
