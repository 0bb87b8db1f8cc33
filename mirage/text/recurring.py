"""Sentences that recur in most answers of a system, such as a footer that its prompt asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from mirage.text.words import IN_WORD

__all__ = ["RecurringSurvey", "is_recurring", "recurring_sentences"]

FEWEST_ANSWERS = 10
"""Minimum number of answers; if there are fewer, no sentence counts as recurring."""

SHARE = 0.5
"""Minimum share of the answers that contain a recurring sentence."""

FEWEST_CHARACTERS = 8
"""Minimum length, without punctuation, of a recurring sentence; "Yes." recurs by chance."""

_BLOCK = 1000  # answers that are counted together

_END = re.compile(r"[.!?:…。！？：।॥؟۔\n]+")
_WORD = re.compile(f"[{IN_WORD}]+")


def recurring_sentences(answers: Iterable[str]) -> frozenset[str]:
    """Return the sentences that at least half of the answers contain, without punctuation.

    Questions differ, so a sentence that recurs in most answers is part of a template. The sentences
    are in lower case. The result is empty if there are fewer than ten answers.

    Example:
        >>> answers = [f"It was in {year}. Powered by Acme Search!" for year in range(1900, 1910)]
        >>> sorted(recurring_sentences(answers))
        ['powered by acme search']
    """
    answers = list(answers)
    survey = RecurringSurvey()
    survey.add(answers)
    if survey.needs_recount:
        survey.recount(answers)
    return survey.recurring()


class RecurringSurvey:
    """A search for recurring sentences in answers that need not all be in memory at the same time.

    Pass all answers to :meth:`add` and, if :attr:`needs_recount` is true, pass them again to
    :meth:`recount`. The result of :meth:`recurring` equals that of :func:`recurring_sentences`.

    The sentences are counted in blocks of answers. A sentence in at least half of all answers is in
    at least half of the answers of some block. All other sentences are dropped after each block, so
    memory does not grow with the number of answers.
    """

    def __init__(self) -> None:
        self._answers = 0
        # The number of answers of the current block that contain each sentence, and the number of
        # all answers of the block.
        self._block, self._block_size = Counter[str](), 0
        # The number of answers that contain each candidate. Candidates of later blocks need a
        # second count.
        self._counts: dict[str, int] = {}
        self._late: set[str] = set()
        self._recounts: dict[str, int] = {}

    def add(self, answers: Iterable[str]) -> None:
        """Count the sentences of more answers."""
        for answer in answers:
            self._block.update(set(_pieces(answer)))
            self._block_size += 1
            if self._block_size == _BLOCK:
                self._end_block()

    def _end_block(self) -> None:
        for piece in self._counts:
            self._counts[piece] += self._block[piece]
        for piece, count in self._block.items():
            if count >= SHARE * self._block_size and piece not in self._counts:
                self._counts[piece] = count
                if self._answers:
                    self._late.add(piece)
        self._answers += self._block_size
        self._block, self._block_size = Counter(), 0

    @property
    def needs_recount(self) -> bool:
        """Whether :meth:`recount` must be called with all answers before :meth:`recurring`."""
        if self._block_size:
            self._end_block()
        return bool(self._late)

    def recount(self, answers: Iterable[str]) -> None:
        """Count the sentences again that :meth:`add` did not count in all answers.

        ``answers`` must be all answers that were passed to :meth:`add`.
        """
        for answer in answers:
            for piece in self._late.intersection(_pieces(answer)):
                self._recounts[piece] = self._recounts.get(piece, 0) + 1

    def recurring(self) -> frozenset[str]:
        """Return the sentences that at least half of the answers contain, without punctuation."""
        if self._block_size:
            self._end_block()
        if self._answers < FEWEST_ANSWERS:
            return frozenset()
        counts = self._counts | dict.fromkeys(self._late, 0) | self._recounts
        return frozenset(piece for piece, count in counts.items() if count >= SHARE * self._answers)


def is_recurring(text: str, recurring: frozenset[str]) -> bool:
    """Return whether a text consists only of sentences in ``recurring``.

    ``recurring`` is the result of :func:`recurring_sentences`.
    """
    pieces = _pieces(text) if recurring else []
    return bool(pieces) and recurring.issuperset(pieces)


def _pieces(text: str) -> list[str]:
    """Return the folded sentences of a text that are long enough to be compared."""
    pieces = (" ".join(_WORD.findall(piece.casefold())) for piece in _END.split(text))
    return [piece for piece in pieces if len(piece) >= FEWEST_CHARACTERS]
