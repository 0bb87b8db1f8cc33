"""Comparison of responses with short answers by the metrics of question answering.

BERGEN (Rau et al. 2024, arXiv 2407.01102, section 4.6 and appendix I) compares a response with
labels by match, exact match, token F1, ROUGE and the recall of character 3-grams. This module has
two families of these metrics. ``bergen_*`` reproduce the results of BERGEN's own module exactly,
from the raw text of the response. Use them to compare with BERGEN's tables. Use ``qa_*`` otherwise.
They ignore citations and headings, use the tokenizer of the language, and ignore differences of
case, width, digits and accents.

The labels are the spellings of the short answers in :attr:`mirage.Query.answers`. ``bergen_*``
return the best value over all labels. ``qa_*`` use the best spelling of each short answer, and
return the mean over the short answers. For a query with one short answer, as in BERGEN, both are
the best value over all labels.
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
from mirage.text.mentions import stems

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
"""Maximum number of letters in an ending that :func:`qa_match` allows.

Only languages with many word endings, such as Finnish, allow endings.
"""

_NO_TOKEN = NotComputed("no short answer of the query has a letter or a digit")

Tokens = Sequence[str]


# Recommended metrics ------------------------------------------------------------------------------


def qa_match(item: Answered) -> float | NotComputed:
    """Return the share of the short answers that occur in the answer as a sequence of whole words.

    The share is in [0, 1]. Words are compared without accents and without short words that a
    language writes joined to them (such as Arabic's article). In languages with many word endings
    (Finnish, Korean) the answer's word may be up to five letters longer. A part of a word never
    counts, and English articles are ignored. Not computed if no passage answers the query, or if
    the query has no short answer with a letter or digit.
    """
    entry = Language.of(item.query.language)
    answer = stems(_tokens(item.parsed.answer_text, entry), entry)
    return _mean_of_best(item, lambda label: _occurs(stems(label, entry), answer, entry))


def qa_exact(item: Answered) -> float | NotComputed:
    """Return the share of the query's short answers that are identical to the answer, from 0 to 1.

    The texts are compared token by token. Values between 0 and 1 are possible only for queries
    with several short answers. Tokens are those of :func:`mirage.text.tokenize` without English
    articles. Not computed if no passage answers the query, or if the query has no short answer with
    a letter or digit.
    """
    answer = _tokens(item.parsed.answer_text, Language.of(item.query.language))
    return _mean_of_best(item, lambda label: float(label == answer))


def qa_f1(item: Answered) -> float | NotComputed:
    """Return the token F1 of the answer and the short answer, from 0 to 1.

    If the short answer has several spellings, the one with the highest F1 counts. If the query has
    several short answers, the result is the mean over them. F1 is defined as in SQuAD (Rajpurkar et
    al. 2016, arXiv 1606.05250, section 6.1), but with the language's tokens, which are characters
    if words are not separated by spaces. Not computed if no passage answers the query, or if the
    query has no short answer with a letter or digit.
    """
    return _mean_overlap(item).f1


def qa_precision(item: Answered) -> float | NotComputed:
    """Return the share of the answer's tokens that occur in the short answer, from 0 to 1.

    The short answer is taken in the spelling with the highest F1. If the query has several short
    answers, the result is the mean over them. Not computed if no passage answers the query, or if
    the query has no short answer with a letter or digit.
    """
    return _mean_overlap(item).precision


def qa_recall(item: Answered) -> float | NotComputed:
    """Return the share of the short answer's tokens that occur in the answer, from 0 to 1.

    The short answer is taken in the spelling with the highest F1. If the query has several short
    answers, the result is the mean over them. Not computed if no passage answers the query, or if
    the query has no short answer with a letter or digit.
    """
    return _mean_overlap(item).recall


def qa_char3_recall(item: Answered) -> float | NotComputed:
    """Return the recall of a short answer's character 3-grams in the answer, from 0 to 1.

    BERGEN, appendix I, uses this metric because it tolerates transliteration. 3-grams do not cross
    the ends of tokens, and a 3-gram that occurs several times counts each time. A token of fewer
    than three characters counts as one gram, which may occur anywhere in the answer's tokens. In
    languages that do not separate words by spaces, the whole text is one token.
    """
    entry = Language.of(item.query.language)
    answer = _written_tokens(_tokens(item.parsed.answer_text, entry), entry)
    return _mean_of_best(item, lambda label: _char3_recall(_written_tokens(label, entry), answer))


def qa_rouge1(item: Answered) -> float | NotComputed:
    """Return the ROUGE-1 F-measure (Lin 2004) of the answer and a short answer, from 0 to 1.

    The best spelling counts. With several short answers, the result is the mean over them.
    """
    return _rouge_n(item, 1)


def qa_rouge2(item: Answered) -> float | NotComputed:
    """Return the ROUGE-2 F-measure (Lin 2004) of the answer and a short answer, from 0 to 1.

    The best spelling counts. With several short answers, the result is the mean over them. A short
    answer of one token has no pair of tokens, so its value is 0.
    """
    return _rouge_n(item, 2)


def qa_rougeL(item: Answered) -> float | NotComputed:
    """Return the ROUGE-L F-measure (Lin 2004) of the answer and a short answer, from 0 to 1.

    The best spelling counts. With several short answers, the result is the mean over them.
    """
    answer = _tokens(item.parsed.answer_text, Language.of(item.query.language))
    return _mean_of_best(item, lambda label: rouge_l(label, answer))


class _Overlap(NamedTuple):
    """Token F1, precision and recall of an answer, or the reason why they cannot be computed."""

    f1: float | NotComputed
    precision: float | NotComputed
    recall: float | NotComputed


def _mean_overlap(item: Answered) -> _Overlap:
    """Return the mean over short answers of token F1, precision and recall.

    Each short answer is taken in the spelling with the highest F1.
    """
    labels = _labels(item)
    if isinstance(labels, NotComputed):
        return _Overlap(labels, labels, labels)
    answer = _tokens(item.parsed.answer_text, Language.of(item.query.language))
    best = [max(_overlap(label, answer) for label in forms) for forms in labels]
    return _Overlap(*(sum(values) / len(best) for values in zip(*best, strict=True)))


def _rouge_n(item: Answered, n: int) -> float | NotComputed:
    answer = _ngrams(_tokens(item.parsed.answer_text, Language.of(item.query.language)), n)
    return _mean_of_best(item, lambda label: _overlap(_ngrams(label, n), answer)[0])


def _mean_of_best(item: Answered, value: Callable[[tuple[str, ...]], float]) -> float | NotComputed:
    """Return the mean over the short answers, each with the highest value of its spellings.

    The function ``value`` returns the value of a spelling, given its tokens.
    """
    labels = _labels(item)
    if isinstance(labels, NotComputed):
        return labels
    return sum(max(map(value, forms)) for forms in labels) / len(labels)


def _labels(item: Answered) -> list[list[tuple[str, ...]]] | NotComputed:
    """Return a list of spellings for each short answer; a spelling is a tuple of tokens.

    Spellings without tokens are left out. If the feature cannot be computed for the query, return
    the reason.
    """
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
    """Return 1 if the words of a label (a short answer) are consecutive in the answer, else 0."""
    ending = LONGEST_ENDING if entry.endings else 0
    starts = range(len(answer) - len(label) + 1)
    return float(
        any(
            all(_is_form(answer[start + i], word, ending) for i, word in enumerate(label))
            for start in starts
        )
    )


def _is_form(token: str, word: str, ending: int) -> bool:
    """Return whether a token is ``word``, alone or with an ending of at most ``ending`` letters.

    A longer number is not a form of a number, and a single letter has no endings.
    """
    if token == word:
        return True
    if not token.startswith(word) or not 0 < len(token) - len(word) <= ending:
        return False
    return not token[len(word)].isdecimal() if word[-1].isdecimal() else len(word) > 1


def _overlap(label: Sequence[object], answer: Sequence[object]) -> tuple[float, float, float]:
    """Return F1, precision and recall of an answer's tokens or n-grams, given a short answer's."""
    shared = (Counter(label) & Counter(answer)).total()
    if not shared:
        return 0.0, 0.0, 0.0
    precision, recall = shared / len(answer), shared / len(label)
    return 2 * precision * recall / (precision + recall), precision, recall


def _ngrams(tokens: Tokens, n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _written_tokens(tokens: Tokens, entry: Language) -> tuple[str, ...]:
    """Return the tokens; in a language whose tokens are characters, join them into one token."""
    return ("".join(tokens),) if entry.tokens == "character" else tuple(tokens)


def _char3_recall(label: Tokens, answer: Tokens) -> float:
    wanted, present = Counter(_char3(label)), Counter(_char3(answer))
    shared = sum(
        # A token of one or two characters never equals a 3-gram, so the tokens are searched for it.
        min(count, present[gram]) if len(gram) == 3 else count * any(gram in t for t in answer)
        for gram, count in wanted.items()
    )
    return shared / wanted.total()


def _char3(tokens: Tokens) -> list[str]:
    return [
        gram
        for token in tokens
        for gram in ([token[i : i + 3] for i in range(len(token) - 2)] or [token])
    ]


# BERGEN's own metrics -----------------------------------------------------------------------------


def bergen_match(item: Answered) -> float | NotComputed:
    """Return 1 if the response contains a label (a short answer), else 0; BERGEN's ``M``.

    Both texts are compared in lower case, without ASCII punctuation and English articles. A label
    of punctuation alone matches every response, and "no" matches "know", so prefer
    :func:`qa_match`.
    """
    return _best_of_labels(
        item, lambda response, label: float(_normalize(label) in _normalize(response))
    )


def bergen_exact(item: Answered) -> float | NotComputed:
    """Return 1 if the response equals a label (a short answer), else 0; BERGEN's ``EM``.

    Both texts are compared as in :func:`bergen_match`. Prefer :func:`qa_exact`.
    """
    return _best_of_labels(
        item, lambda response, label: float(_normalize(label) == _normalize(response))
    )


def bergen_f1(item: Answered) -> float | NotComputed:
    """Return the highest token F1 of the response over all short answers; BERGEN's ``F1``.

    Tokens are separated by whitespace. Texts are normalized as in :func:`bergen_match`.
    """
    return _best_of_labels(item, lambda response, label: _normal_overlap(response, label)[0])


def bergen_precision(item: Answered) -> float | NotComputed:
    """Return the highest token precision over all short answers; BERGEN's ``Precision``."""
    return _best_of_labels(item, lambda response, label: _normal_overlap(response, label)[1])


def bergen_recall(item: Answered) -> float | NotComputed:
    """Return the highest token recall over all short answers; BERGEN's ``Recall``."""
    return _best_of_labels(item, lambda response, label: _normal_overlap(response, label)[2])


def bergen_char3_recall(item: Answered) -> float | NotComputed:
    """Return the best recall of a short answer's 3-grams; BERGEN's ``Recall_char3gram``.

    It is the share of the short answer's character 3-grams that occur in the response. A token of
    fewer than three characters counts as one gram, which matches whole tokens only.
    """
    return _best_of_labels(item, _normal_char3_recall)


def bergen_rouge1(item: Answered) -> float | NotComputed:
    """Return the highest ROUGE-1 F-measure over all short answers; BERGEN's ``Rouge-1``.

    It is computed by the package rouge.

    Raises:
        MissingPackageError: The extra ``bergen`` is not installed.
    """
    return _best_of_labels(item, lambda response, label: _rouge(response, label)["rouge-1"]["f"])


def bergen_rouge2(item: Answered) -> float | NotComputed:
    """Return the highest ROUGE-2 F-measure over all short answers; BERGEN's ``Rouge-2``.

    It is computed by the package rouge.

    Raises:
        MissingPackageError: The extra ``bergen`` is not installed.
    """
    return _best_of_labels(item, lambda response, label: _rouge(response, label)["rouge-2"]["f"])


def bergen_rougeL(item: Answered) -> float | NotComputed:
    """Return the highest ROUGE-L F-measure over all short answers; BERGEN's ``Rouge-L``.

    It is computed by the package rouge.

    Raises:
        MissingPackageError: The extra ``bergen`` is not installed.
    """
    return _best_of_labels(item, lambda response, label: _rouge(response, label)["rouge-l"]["f"])


def _best_of_labels(item: Answered, value: Callable[[str, str], float]) -> float | NotComputed:
    """Return the highest ``value(response, label)`` over the labels, the query's short answers."""
    if not item.query.answers:
        return NO_ANSWERS
    response = item.response.text or ""
    return float(max(value(response, form) for answer in item.query.answers for form in answer))


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@lru_cache(maxsize=4096)
def _normalize(text: str) -> str:
    """Return a text as BERGEN compares it: in lower case, without punctuation and articles."""
    words = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def _normal_overlap(response: str, label: str) -> tuple[float, float, float]:
    return _overlap(_normalize(label).split(), _normalize(response).split())


def _normal_char3_recall(response: str, label: str) -> float:
    return _overlap(_char3(_normalize(label).split()), _char3(_normalize(response).split()))[2]


def _rouge(response: str, label: str) -> Any:
    """Return the scores of the rouge package.

    They are 0 for texts without a sentence, for which the package raises an error.
    """
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
