"""What the texts that a response was made from hold: numbers, days, words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mirage.features.base import Answered, NotComputed, passage_texts
from mirage.languages import Language
from mirage.text import MENTIONED_AT, mention
from mirage.text.mentions import folded
from mirage.text.quantities import days_in, values_in

__all__ = ["Shown", "evidence", "grams_of", "holdings", "shown_texts"]

ROUNDED = 0.05
"""How far a round number may be from a number that it stands for, as a share."""

STEM = 4
"""Letters that two words have to begin with to be forms of one, at least."""

ENDING = 3
"""Letters at a word's end that may differ between its forms."""

LONGEST_STEM = 200
"""Letters of a word's beginning, at most: a text without blanks is one word."""

SUMMED = 200
"""Numbers among which sums are formed, at most."""

SUMS_FROM = 100
"""From here on sums and differences of two shown numbers, halves and doubles are taken for such."""

LIFETIMES = 150
"""Years between two shown years that may be said instead of them, at most."""

OLDEST = 120
"""Years that a person lives, at most."""

_ERAS = (543, 621, 622)  # of Buddhist, and of Persian years


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What some texts hold, in the forms in which it is looked up."""

    language: Language
    texts: tuple[str, ...]
    folded: str
    numbers: frozenset[float]
    ordered: tuple[float, ...]
    days: frozenset[tuple[int, int]]
    months: frozenset[int]
    words: frozenset[str]
    stems: frozenset[str]
    short: frozenset[str]
    grams: frozenset[str]

    def number(self, values: frozenset[float]) -> bool:
        """Whether a number stands in the texts, as it is, rounded, or as an easy sum of them."""
        return not self.numbers.isdisjoint(values) or any(map(self._derived, values))

    def _derived(self, value: float) -> bool:
        if value >= 10 and value % 10 == 0:
            place = bisect_left(self.ordered, value * (1 - ROUNDED))
            if place < len(self.ordered) and self.ordered[place] <= value * (1 + ROUNDED):
                return True
        near = (value * 1000, value / 1000, value * 100 - 100)
        if any(other in self.numbers for other in near):
            return True
        if any(value + era in self.numbers or value - era in self.numbers for era in _ERAS):
            return True
        years = [other for other in self.ordered if 1000 <= other <= 2600 and other % 1 == 0]
        if value <= 21 and any(year // 100 + 1 == value for year in years):
            return True
        if any(year + value in self.numbers for year in years if 3 < value < LIFETIMES):
            return True
        # An age is one less before the birthday.
        if any(year + value + 1 in self.numbers for year in years if 9 < value < OLDEST):
            return True
        if any(value % 10 == 0 and year // 10 * 10 == value for year in years):
            return True
        return value >= SUMS_FROM and value in _sums(self.numbers)

    def word(self, word: str) -> bool:
        """Whether a folded word stands in the texts, in any form."""
        if word in self.words or word in self.stems:
            return True
        if any(word[:n] in self.words for n in range(max(STEM, len(word) - ENDING), len(word))):
            return True
        if len(word) <= STEM + 1:
            return len(word) >= STEM and word[:-1] in self.short
        return word[: min(max(STEM, len(word) - ENDING), LONGEST_STEM - 1)] in self.stems

    def initials(self, letters: str) -> bool:
        """Whether the texts have words in a row that begin with these letters."""
        return letters in _initials(self.folded)

    def holds(self, phrase: str) -> bool:
        """Whether the texts mention a name; see :func:`mirage.text.mention`."""
        pattern = folded(phrase, self.language)
        if not pattern.strip() or pattern in self.folded:
            return True
        if self.unlike(pattern) > 1 - MENTIONED_AT:
            return False
        return any(mention(phrase, t, self.language) >= MENTIONED_AT for t in self.texts)

    def unlike(self, pattern: str) -> float:
        """The share of the n-grams of a folded phrase that stand nowhere in the texts."""
        grams = grams_of(pattern, self.language)
        return len(grams - self.grams) / len(grams) if grams else 0.0


@lru_cache(maxsize=512)
def _initials(words: str) -> str:
    return "".join(word[0] for word in words.split())


@lru_cache(maxsize=512)
def _sums(numbers: frozenset[float]) -> frozenset[float]:
    large = sorted(number for number in numbers if number >= SUMS_FROM / 2)[:SUMMED]
    return frozenset(result for a in large for b in large for result in (a + b, abs(a - b), a / 2))


def grams_of(pattern: str, entry: Language) -> frozenset[str]:
    length = min(entry.gram_length, len(pattern))
    return frozenset(pattern[i : i + length] for i in range(len(pattern) - length + 1))


@lru_cache(maxsize=2048)
def _of_text(text: str, entry: Language) -> Shown:
    return _shown((text,), entry)


@lru_cache(maxsize=512)
def holdings(texts: tuple[str, ...], code: str) -> Shown:
    """What these texts hold together."""
    entry = Language.of(code)
    return _shown(texts, entry) if len(texts) != 1 else _of_text(texts[0], entry)


def _shown(texts: tuple[str, ...], entry: Language) -> Shown:
    if len(texts) == 1:
        whole = folded(texts[0], entry)
        words = frozenset(whole.split())
        numbers = values_in(texts[0], entry)
        days, months = days_in(texts[0], entry)
        short = frozenset(word[:-1] for word in words if STEM <= len(word) <= STEM + 2) | words
        stems = frozenset(
            word[:n] for word in words for n in range(STEM, min(len(word), LONGEST_STEM))
        )
        grams = grams_of(whole, entry)
    else:
        each = [_of_text(text, entry) for text in texts]
        whole = "\n".join(one.folded for one in each)
        words, stems, short, grams = (
            frozenset[str]().union(*(getattr(one, name) for one in each))
            for name in ("words", "stems", "short", "grams")
        )
        numbers = frozenset[float]().union(*(one.numbers for one in each))
        days = frozenset[tuple[int, int]]().union(*(one.days for one in each))
        months = frozenset[int]().union(*(one.months for one in each))
    return Shown(
        entry,
        texts,
        whole,
        numbers,
        tuple(sorted(numbers)),
        days,
        months,
        words,
        stems,
        short,
        grams,
    )


def shown_texts(item: Answered) -> tuple[str, ...] | NotComputed:
    """The texts of the passages that were shown."""
    return passage_texts(item, item.shown)


def evidence(item: Answered, texts: Sequence[str]) -> Shown:
    """What the passages, the question and the right answers hold together."""
    forms = [form for forms in item.query.answers for form in forms]
    count = len(item.query.answers)
    answers = " | ".join([*forms, str(count)] if count else forms)
    return holdings((*texts, item.query.text, answers), item.query.language)
