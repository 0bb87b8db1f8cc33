"""Overlap in wording between an answer and the reference's answer.

``answer_bleu`` and ``answer_rougeL`` are features of MIRAGE-Bench (arXiv 2410.13716), section 4.1
and appendix A, "Answer overlap".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from mirage._base.memo import Memo, cached_by_identity
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.languages import Language
from mirage.models import Query
from mirage.text import parse, tokenize

_NO_REFERENCE = NotComputed("the query has no reference")
_EMPTY_REFERENCE = NotComputed("the reference of the query has an empty answer")


def answer_bleu(item: Answered) -> float | NotComputed:
    """Return the sentence BLEU of the answer against the reference's answer, from 0 to 1.

    It is sacrebleu's value divided by 100, with the language's tokenizer and effective order (Post
    2018, arXiv 1804.08771). Not computed without a reference.
    """
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    tokenizer = Language.of(item.query.language).bleu_tokenizer
    return _sentence_bleu(item.parsed.answer_text, reference, tokenizer) / 100


def answer_rouge_l(item: Answered) -> float | NotComputed:
    """Return the ROUGE-L F-measure of the answer against the reference's answer, from 0 to 1.

    Not computed without a reference.
    """
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    code = item.query.language
    return rouge_l(_reference_tokens(reference, code), tokenize(item.parsed.answer_text, code))


def answer_char3(item: Answered) -> float | NotComputed:
    """Return the share of the reference's character 3-grams that the answer contains, from 0 to 1.

    It is BERGEN's recall of character 3-grams (arXiv 2407.01102, appendix I). Case is ignored,
    3-grams may include spaces, and each distinct 3-gram counts once. It needs no tokenizer, and
    different word endings or transliterations reduce it only a little. Not computed without a
    reference.
    """
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    reference_grams = _char3(reference)
    return len(reference_grams & _char3(item.parsed.answer_text)) / len(reference_grams)


def rouge_l(reference: Sequence[str], prediction: Sequence[str]) -> float:
    """Return the F-measure of the longest common subsequence of two token sequences (Lin 2004).

    It equals the ``rougeL`` F-measure of the rouge_score package on the same tokens. It is computed
    here because importing that package takes longer than the rest of a ranking.

    Example:
        >>> from mirage.features.overlap import rouge_l
        >>> round(rouge_l(["the", "blue", "Nile"], ["the", "Nile"]), 2)
        0.8
    """
    if not reference or not prediction:
        return 0.0
    common = longest_common_subsequence(reference, prediction)
    precision, recall = common / len(prediction), common / len(reference)
    return 2 * precision * recall / (precision + recall) if common else 0.0


def longest_common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two sequences (Hyyrö 2004)."""
    positions: dict[str, int] = {}
    for i, token in enumerate(a):
        positions[token] = positions.get(token, 0) | 1 << i
    everything = (1 << len(a)) - 1
    # A zero bit at i means that the longest common subsequence with the tokens of b so far is one
    # token longer for a[: i + 1] than for a[:i].
    row = everything
    for token in b:
        matches = row & positions.get(token, 0)
        row = ((row + matches) | (row - matches)) & everything
    return len(a) - row.bit_count()


def reference_answer(item: Answered) -> str | NotComputed:
    """Return the answer part of the query's reference; see :func:`answer_of_reference`."""
    return answer_of_reference(item.query)


@cached_by_identity
def answer_of_reference(query: Query) -> str | NotComputed:
    """Return the answer part of a query's reference, without its reason section and citations.

    If the query has no reference, or the answer part is empty, the result is a
    :class:`NotComputed` with the explanation.
    """
    if query.reference is None:
        return _NO_REFERENCE
    answer = _parse_reference(query.reference, query.language, query.passage_ids)
    return answer if answer.strip() else _EMPTY_REFERENCE


@lru_cache(maxsize=4096)
def _char3(text: str) -> frozenset[str]:
    text = text.casefold()
    return frozenset(text[i : i + 3] for i in range(len(text) - 2)) or frozenset([text])


@lru_cache(maxsize=4096)
def _parse_reference(reference: str, code: str, passage_ids: tuple[str, ...]) -> str:
    return parse(reference, code, passage_ids).answer_text


@lru_cache(maxsize=4096)
def _reference_tokens(answer: str, code: str) -> tuple[str, ...]:
    return tuple(tokenize(answer, code))


_LONGEST_NGRAM = 4


def _sentence_bleu(answer: str, reference: str, tokenizer: str) -> float:
    """Return sacrebleu's sentence BLEU with effective order, from 0 to 100.

    The n-grams are counted here, because sacrebleu counts the n-grams of a reference again for
    every answer.
    """
    bleu, tokens = _bleu(tokenizer), _bleu_tokens(answer, tokenizer)
    reference_tokens, counts_by_length = _reference_ngrams(reference, tokenizer)
    correct, total = [0] * _LONGEST_NGRAM, [0] * _LONGEST_NGRAM
    for place, reference_counts in enumerate(counts_by_length):
        total[place] = max(0, len(tokens) - place)
        if place and not correct[place - 1]:
            continue  # without a shared n-gram, no longer n-gram is shared
        counts = _count_ngrams(tokens, place + 1)
        shared = counts.keys() & reference_counts.keys()
        correct[place] = sum(min(counts[ngram], reference_counts[ngram]) for ngram in shared)
    return float(
        bleu.compute_bleu(
            correct,
            total,
            len(tokens),
            reference_tokens,
            smooth_method=bleu.smooth_method,
            smooth_value=bleu.smooth_value,
            effective_order=True,
        ).score
    )


def _count_ngrams(tokens: Sequence[str], length: int) -> dict[str, int]:
    # Strings, unlike tuples, do not slow down the garbage collector.
    ngrams = zip(*(tokens[start:] for start in range(length)), strict=False)
    return Counter(map(" ".join, ngrams) if length > 1 else tokens)


@lru_cache(maxsize=1024)
def _reference_ngrams(reference: str, tokenizer: str) -> tuple[int, tuple[dict[str, int], ...]]:
    """Return the number of tokens of a reference, and the counts of its n-grams by length."""
    tokens = _bleu_tokens(reference, tokenizer)
    counts = (_count_ngrams(tokens, length) for length in range(1, _LONGEST_NGRAM + 1))
    return len(tokens), tuple(counts)


_NOT_HAN = re.compile("([^\u4e00-\u9fa5]+)")
_ANY_HAN = "\u4e00"
_CHINESE = "zh"  # a tokenizer of sacrebleu


def _bleu_tokens(text: str, tokenizer: str) -> list[str]:
    """Return the tokens of a tokenizer of sacrebleu.

    The tokenizer ``zh`` splits the text between two Chinese characters separately. The results are
    cached, because most of these texts are short and frequent.
    """
    if tokenizer != _CHINESE:
        return _tokenize(text.rstrip(), tokenizer)
    # Chinese characters and other texts alternate.
    parts, table = _NOT_HAN.split(text.strip()), _zh_tokens()
    tokens = [*parts[0]]
    for before, other, after in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
        between = table[f"{_ANY_HAN * bool(before)}{other}{_ANY_HAN * bool(after)}"]
        tokens += between[bool(before) : len(between) - bool(after)]
        tokens += after
    return tokens


@cache
def _zh_tokens() -> Memo[str, list[str]]:
    return Memo(lambda text: _tokenize(text, _CHINESE))


def _tokenize(text: str, tokenizer: str) -> list[str]:
    tokens: list[str] = _bleu(tokenizer).tokenizer(text).split()
    return tokens


@lru_cache(maxsize=8)
def _bleu(tokenizer: str) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenizer, effective_order=True)


_FACTS = Facts("higher", 0, 1, ("reference",))

DEFINITIONS = (
    Definition("answer_bleu", answer_bleu, _FACTS),
    Definition("answer_rougeL", answer_rouge_l, _FACTS),
    Definition("answer_char3", answer_char3, _FACTS),
)
