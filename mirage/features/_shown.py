"""An index of the numbers, dates, words and n-grams of the texts that a response is based on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Sequence
from functools import cached_property, lru_cache

from mirage._base.memo import cached_by_identity
from mirage.features.base import Answered, NotComputed, passage_texts
from mirage.features.overlap import answer_of_reference
from mirage.languages import Language
from mirage.models import Query
from mirage.text import mention
from mirage.text.content import WordIndex, index_words
from mirage.text.forms import text_form
from mirage.text.mentions import MENTIONED_AT, folded
from mirage.text.quantities import days_in, values_in

ROUNDING_TOLERANCE = 0.05
"""Maximum relative difference between a round number and the number in the texts that it rounds."""

SHORTEST_STEM = 4
"""Minimum number of letters at the beginning of a word that all its forms share."""

LONGEST_ENDING = 3
"""Maximum number of letters at the end of a word that may differ between its forms."""

LONGEST_STEM = 200
"""Length, in letters, at which the beginning of a word is too long to be looked up.

The limit is needed for texts without blanks, which count as one word.
"""

MOST_SUMMED = 200
"""Maximum number of values whose pairwise sums are computed."""

SMALLEST_SUM = 100
"""Smallest value that may be the sum, difference, half or double of numbers in the texts."""

LONGEST_SPAN = 150
"""Span of years below which an answer may state the difference of two years in the texts.

For example, an answer may state 20 years if the texts state the years 1990 and 2010.
"""

OLDEST_AGE = 120
"""Greatest age of a person in years."""

_ERAS = (543, 621, 622)  # offsets of Buddhist and of Persian years from the common era


class TextIndex:
    """An index of some texts, for looking up the facts of an answer.

    Each part of the index is built when it is first used, because most answers need only a few
    parts.

    Args:
        texts: The texts.
        language: The language of the texts.
    """

    def __init__(self, texts: tuple[str, ...], language: Language) -> None:
        self.texts = texts
        self.language = language

    @cached_property
    def folded(self) -> str:
        """The words of all texts, in lower case and without numbers and accents."""
        return "\n".join([_folded_text(text, self.language) for text in self.texts])

    @cached_property
    def numbers(self) -> frozenset[float]:
        """The values of all numbers that occur in the texts."""
        return frozenset[float]().union(*(values_in(text, self.language) for text in self.texts))

    @cached_property
    def grams(self) -> frozenset[str]:
        """The character n-grams of the folded texts."""
        parts = (_grams_of_text(text, self.language) for text in self.texts)
        return frozenset[str]().union(*parts)

    @cached_property
    def _ordered_numbers(self) -> tuple[float, ...]:
        return tuple(sorted(self.numbers))

    @cached_property
    def _spaced(self) -> str:
        """The words of all texts, with a space before and after each."""
        return f" {self.folded.replace(chr(10), ' ')} "

    def _has_word(self, word: str) -> bool:
        return " " not in word and f" {word} " in self._spaced

    def _endings(self, beginning: str) -> Iterator[int]:
        """Yield the number of letters after ``beginning`` in each word that begins with it."""
        if " " in beginning:
            return
        # Most beginnings occur in no word, so a search takes less time than a set of all words.
        start = self._spaced.find(f" {beginning}")
        while start >= 0:
            end = start + 1 + len(beginning)
            yield self._spaced.index(" ", end) - end
            start = self._spaced.find(f" {beginning}", end)

    def _has_longer_word(self, beginning: str) -> bool:
        """Return whether the texts have a longer word that begins with ``beginning``."""
        return SHORTEST_STEM <= len(beginning) < LONGEST_STEM and any(self._endings(beginning))

    def number(self, values: frozenset[float]) -> bool:
        """Return whether the texts state a number, or numbers from which it can be derived.

        Args:
            values: Possible values of the number; "1.234", for example, has two.
        """
        # Reading all numbers of all texts is slow, so they are first searched for the digits.
        return (
            any(_has_digits(text, value) for value in values for text in self.texts)
            or not self.numbers.isdisjoint(values)
            or any(map(self._is_derivable, values))
        )

    def day(self, day: int, month: int) -> bool:
        """Return whether the texts contain a date with this day and month.

        A date such as 3/4 can be read in two ways; one of them is enough.
        """
        return any((day, month) in days_in(text, self.language)[0] for text in self.texts)

    def month(self, month: int) -> bool:
        """Return whether the texts state a month."""
        return any(month in days_in(text, self.language)[1] for text in self.texts)

    def _is_derivable(self, value: float) -> bool:
        """Return whether a value can be derived from the numbers in the texts.

        The value may be a rounded number, a conversion to another unit or calendar, a century, a
        decade, a span of years, an age, or a sum, difference or half of large numbers.
        """
        if value >= 10 and value % 10 == 0:
            position = bisect_left(self._ordered_numbers, value * (1 - ROUNDING_TOLERANCE))
            if position < len(self._ordered_numbers) and self._ordered_numbers[
                position
            ] <= value * (1 + ROUNDING_TOLERANCE):
                return True
        # A unit such as thousands or km, or a factor for an increase in percent: 3 for 200 %.
        converted = (value * 1000, value / 1000, value * 100 - 100)
        if any(other in self.numbers for other in converted):
            return True
        if any(value + era in self.numbers or value - era in self.numbers for era in _ERAS):
            return True
        years = [
            other for other in self._ordered_numbers if 1000 <= other <= 2600 and other % 1 == 0
        ]
        # A century: the 20th for 1932.
        if value <= 21 and any(year // 100 + 1 == value for year in years):
            return True
        # A span between two years. An age may be one year less, before the birthday.
        if any(year + value in self.numbers for year in years if 3 < value < LONGEST_SPAN):
            return True
        if any(year + value + 1 in self.numbers for year in years if 9 < value < OLDEST_AGE):
            return True
        # A decade: 1930 for 1932.
        if any(value % 10 == 0 and year // 10 * 10 == value for year in years):
            return True
        return value >= SMALLEST_SUM and value in _sums(self.numbers)

    def word(self, word: str) -> bool:
        """Return whether the texts contain a word, possibly with another ending.

        Args:
            word: The word, in lower case and without accents.
        """
        if self._has_word(word) or self._has_longer_word(word):
            return True
        # The word in the texts may have no ending, or another ending of similar length.
        if any(
            self._has_word(word[:n])
            for n in range(max(SHORTEST_STEM, len(word) - LONGEST_ENDING), len(word))
        ):
            return True
        if len(word) <= SHORTEST_STEM + 1:
            return len(word) >= SHORTEST_STEM and any(n < 2 for n in self._endings(word[:-1]))
        shortest = max(SHORTEST_STEM, len(word) - LONGEST_ENDING)
        return self._has_longer_word(word[: min(shortest, LONGEST_STEM - 1)])

    def initials(self, letters: str) -> bool:
        """Return whether these letters are the initials of consecutive words of the texts."""
        return letters in _initials(self.folded)

    def holds(self, phrase: str) -> bool:
        """Return whether the texts mention a name or phrase; see :func:`mirage.text.mention`.

        The result is ``True`` for a phrase without letters.
        """
        pattern = folded(phrase, self.language)
        if not pattern.strip() or pattern in self.folded:
            return True
        # A phrase that shares few n-grams with the texts is not mentioned. Counting n-grams is
        # much faster than aligning them.
        if self.missing_share(pattern) > 1 - MENTIONED_AT:
            return False
        return any(mention(phrase, t, self.language) >= MENTIONED_AT for t in self.texts)

    def missing_share(self, pattern: str) -> float:
        """Return the share of the character n-grams of ``pattern`` that no text contains."""
        grams = grams_of(pattern, self.language)
        is_long = len(pattern) >= self.language.gram_length
        # A shorter pattern is an n-gram of the texts only if a text is as short.
        texts: Container[str] = self.folded if is_long else self.grams
        return sum(gram not in texts for gram in grams) / len(grams)


def _has_digits(text: str, value: float) -> bool:
    """Return whether a text contains a value in digits that are not part of a longer number.

    This is a quick check: if it succeeds, :func:`mirage.text.quantities.values_in`, which takes
    longer, need not be called.
    """
    if not 0 <= value < 10**15 or value % 1:
        return False
    digits = str(int(value))
    start = text.find(digits)
    while start >= 0:
        end = start + len(digits)
        if not (text[max(0, start - 1) : start].isdecimal() or text[end : end + 1].isdecimal()):
            return True
        start = text.find(digits, end)
    return False


@lru_cache(maxsize=512)
def _initials(words: str) -> str:
    return "".join(word[0] for word in words.split())


@lru_cache(maxsize=512)
def _sums(numbers: frozenset[float]) -> frozenset[float]:
    """Return the sums and differences of all pairs of large numbers, and half of each large number.

    A number is large if it is at least half of :data:`SMALLEST_SUM`. Only the smallest
    :data:`MOST_SUMMED` large numbers are used.
    """
    large = sorted(number for number in numbers if number >= SMALLEST_SUM / 2)[:MOST_SUMMED]
    return frozenset(result for a in large for b in large for result in (a + b, abs(a - b), a / 2))


def grams_of(pattern: str, entry: Language) -> frozenset[str]:
    """Return the character n-grams of the text ``pattern``.

    The language determines the length of the n-grams. A text that is shorter than an n-gram is
    returned as a single n-gram.
    """
    length = min(entry.gram_length, len(pattern))
    return frozenset([pattern[i : i + length] for i in range(len(pattern) - length + 1)])


@lru_cache(maxsize=2048)
def _grams_of_text(text: str, entry: Language) -> frozenset[str]:
    return grams_of(_folded_text(text, entry), entry)


def _folded_text(text: str, entry: Language) -> str:
    """Return a text's stems, without numbers, as :func:`mirage.text.mentions.folded` does."""
    stems = text_form(text, entry).stems
    if entry.tokens == "character":
        return stems.replace(" ", "")
    return f" {stems}" if stems else ""


@lru_cache(maxsize=512)
def index_texts(texts: tuple[str, ...], code: str) -> TextIndex:
    """Return a :class:`TextIndex` that covers all of these texts; recent results are cached."""
    return TextIndex(texts, Language.of(code))


def index_of_words(query: Query, texts: tuple[str, ...]) -> WordIndex:
    """Index the words of some texts, of the question and of the reference's answer together.

    The last two texts of the index are the question and the reference's answer, which is empty if
    there is no reference. Features share this index, because several small indexes take more time.
    """
    reference = answer_of_reference(query)
    answer = reference if isinstance(reference, str) else ""
    return index_words((*texts, query.text, answer), query.language)


@cached_by_identity
def shown_texts(item: Answered) -> tuple[str, ...] | NotComputed:
    """Return the title and text of each passage in the prompt, or the reason why one is missing."""
    return passage_texts(item, item.shown)


def evidence(item: Answered, texts: Sequence[str]) -> TextIndex:
    """Index the numbers and words of the passages, question, right answers and reference together.

    The facts of an answer are looked up in this index. It includes the reference, which may contain
    numbers that no passage contains, such as the subtotals of a calculation.

    Args:
        item: The answered query.
        texts: The texts of the passages.
    """
    query = item.query
    forms = [form for forms in query.answers for form in forms]
    count = len(query.answers)
    answers = " | ".join([*forms, str(count)] if count else forms)
    reference = answer_of_reference(query)
    stated = reference if isinstance(reference, str) and query.answerable is not False else ""
    return index_texts((*texts, query.text, answers, stated), query.language)
