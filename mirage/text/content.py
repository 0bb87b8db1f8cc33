"""Content words of texts, and their matches in passages in any inflected form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate, chain, count, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.memo import Memo
from mirage.languages import Language
from mirage.text import tokenize
from mirage.text.forms import text_form
from mirage.text.lexicon import lexicon
from mirage.text.mentions import stems
from mirage.text.ngrams import code_points, distinct, pack
from mirage.text.numbers import without_numbers
from mirage.text.tokens import SENTENCE_MARK

__all__ = [
    "best_matches",
    "content_words",
    "function_words",
    "grams",
    "held_words",
    "index_words",
    "text_words",
    "words",
]

NO_MATCH_SHARE, FULL_MATCH_SHARE = 0.3, 0.7
"""Share of n-grams up to which two words do not match, and share from which they match fully."""


@lru_cache(maxsize=4096)
def content_words(text: str, code: str) -> tuple[str, ...]:
    """Return the distinct words of a text, except function words such as "the" and "of".

    If the text consists of function words only, return all its words. Numbers are left out, and
    accents are removed. In languages that are written without spaces, the words are pairs of
    characters.

    Args:
        text: The text.
        code: ISO 639-1 code of the language.
    """
    every = words(text, code)
    ordinary = function_words(code)
    return tuple(word for word in every if word not in ordinary) or every


@cache
def function_words(code: str) -> frozenset[str]:
    """Return the function words of a language, normalised like the results of :func:`words`."""
    return frozenset(word for text in lexicon(code).function_words for word in words(text, code))


@lru_cache(maxsize=16384)
def best_matches(words: tuple[str, ...], passage: str, code: str) -> tuple[float, ...]:
    """Return the best match of each word in any sentence of a passage, from 0 to 1.

    :meth:`WordIndex.sentence_matches` defines the match of a word in a sentence.

    Args:
        words: The words.
        passage: The passage.
        code: ISO 639-1 code of the language.

    Returns:
        One number for each word.
    """
    entry = Language.of(code)
    if entry.tokens == "character":
        return tuple(index_words((passage,), code).matches_in(words, 0))
    table, others = _gram_table(words, entry.gram_length), _sentence_grams(passage, code)
    number, other = _shared_pairs(table, others)
    counts = _count_pairs(table.words[number], other, (len(words), len(others.words)))
    # A word that the passage contains unchanged shares all of its n-grams.
    best = counts.max(axis=1, initial=0)
    matches: list[float] = _similarity(best / _gram_counts(table, len(words))).tolist()
    return tuple(matches)


def held_words(words: Sequence[str], text: str, code: str, share: float) -> list[bool]:
    """Return, for each word, whether a text contains it in some form.

    In a language with spaces, the text contains a word if at least ``share`` of the word's n-grams
    occur in words of the text. A word that is not longer than an n-gram must be part of a word in
    the text. In languages without spaces, the text is split into pairs of characters, and these
    pairs must include the word or at least ``share`` of its n-grams.

    Args:
        words: The words.
        text: The text.
        code: ISO 639-1 code of the language.
        share: Minimum share of a word's n-grams.

    Returns:
        One truth value per word.
    """
    entry = Language.of(code)
    stems_of_text = text_form(text, entry).stems
    if entry.tokens == "character":
        characters = stems_of_text.replace(" ", "")
        return [_holds(characters, word, share) for word in words]
    length = entry.gram_length
    others = text_words(text, code)
    text_grams = frozenset[str]().union(*[grams(other, length) for other in others])
    return [
        word in stems_of_text if len(word) <= length else len(own & text_grams) >= share * len(own)
        for word, own in zip(words, [grams(word, length) for word in words], strict=True)
    ]


def _holds(characters: str, word: str, share: float) -> bool:
    """Return whether a text in a language without spaces contains a word; see :func:`held_words`.

    Args:
        characters: The characters of the text.
        word: The word, mostly a pair of characters.
        share: Minimum share of the pairs of a longer word.
    """
    if len(word) == _PAIR:
        return word in characters
    if len(word) < _PAIR:
        # The only character of a text takes the place of a pair.
        return word == characters
    pairs = grams(word, _PAIR)
    return sum(pair in characters for pair in pairs) >= share * len(pairs)


@lru_cache(maxsize=1024)
def _sentence_grams(text: str, code: str) -> _Grams:
    """Return the n-grams of the words of a text's sentences."""
    entry = Language.of(code)
    sentences = text_form(text, entry).by_sentence()
    return _gram_table(list(dict.fromkeys(chain.from_iterable(sentences))), entry.gram_length)


def _gram_counts(table: _Grams, count: int) -> NDArray[np.int64]:
    """Return the number of distinct n-grams of each word in a table of ``count`` words.

    A word without n-grams counts as 1, to avoid a division by 0.
    """
    return np.maximum(np.bincount(table.words, minlength=count), 1)


def _similarity(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the match of two words, from 0 to 1, for each share of common n-grams.

    :meth:`WordIndex.sentence_matches` describes the formula.
    """
    scaled = (shares - NO_MATCH_SHARE) / (FULL_MATCH_SHARE - NO_MATCH_SHARE)
    return np.minimum(np.maximum(scaled, 0), 1)


@lru_cache(maxsize=1024)
def index_words(texts: tuple[str, ...], code: str) -> WordIndex:
    """Return an index with which words can be looked up in several texts at once.

    The index is cached, because many answers are compared with the same texts.

    Args:
        texts: The texts, all in one language.
        code: ISO 639-1 code of the language.
    """
    return WordIndex(texts, Language.of(code))


class WordIndex:
    """An index of the words in several texts, which looks up words in all texts at once.

    The results for each word are cached, because the answers of several systems to a query have
    many words in common.

    Args:
        texts: The texts.
        entry: The language of the texts.

    Attributes:
        texts: The texts.
        columns: The index of each text's first column in :meth:`sentence_matches`, followed by the
            number of all columns.

    Example:
        >>> index = WordIndex(("It is dark. It was day.", "Light."), Language.of("en"))
        >>> index.sentence_matches(("dark",)).tolist(), index.columns
        ([[0.0, 1.0, 0.0, 0.0, 0.0]], [0, 3, 5])
        >>> index.text_table(("dark", "light")).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, texts: Sequence[str], entry: Language) -> None:
        self.texts = texts
        self._entry = entry
        forms = [text_form(text, entry) for text in texts]
        # Each text begins with a column without words, so that every text has a column.
        sizes = [1 + form.sentence_stems.count(SENTENCE_MARK) for form in forms]
        self.columns: list[int] = [0, *accumulate(sizes)]
        self._first_columns = np.array(self.columns[:-1], int)
        self._words: list[str] = []
        self._pairs = np.zeros(0, np.int64)
        if entry.tokens == "character":
            parts = [form.sentence_stems.replace(" ", "").split(SENTENCE_MARK) for form in forms]
            self._pairs = _index_pairs([*chain.from_iterable(parts)])
        else:
            self._index_words("".join([SENTENCE_MARK + form.sentence_stems for form in forms]))
        # The rows of the words in the tables. Arrays, unlike a list for each word, do not slow down
        # the garbage collector.
        self._rows: dict[str, int] = {}
        self._tables = self._empty_tables()

    def _index_words(self, marked: str) -> None:
        """Assign a number to each distinct word of the texts.

        Args:
            marked: The words of all columns of :meth:`sentence_matches`, with :data:`SENTENCE_MARK`
                before each column.
        """
        # No word is a full stop.
        tokens = marked.replace(SENTENCE_MARK, " . ").split()
        numbers = dict.fromkeys(tokens, -1)
        del numbers["."]
        self._words += numbers
        numbers |= zip(self._words, count(), strict=False)
        numbers["."] = -1
        # The number of each word in order, and -1 at the start of each column.
        self._order = np.fromiter(map(numbers.__getitem__, tokens), int, len(tokens))
        self._starts = np.flatnonzero(self._order == -1)

    @cached_property
    def _grams(self) -> _Grams:
        """The n-grams of the words; none in languages written without spaces."""
        return _gram_table(self._words, self._entry.gram_length)

    @cached_property
    def _texts_of_words(self) -> NDArray[np.bool_]:
        """Whether a word occurs in a text: one row for each word, one column for each text."""
        columns = (self._order == -1).cumsum() - 1
        texts = self._first_columns.searchsorted(columns, side="right") - 1
        # The last row is for the starts of columns.
        is_in_text = np.zeros((len(self._words) + 1, len(self.texts)), dtype=bool)
        is_in_text[self._order, texts] = True
        return is_in_text

    def sentence_matches(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the match of each word in each sentence of the texts, from 0 to 1.

        A word is compared with the most similar word of the sentence. The similarity of two words
        is the share of the first word's character n-grams that also occur in the second word. The
        n-grams include the space before a word. A similarity up to 0.3 gives 0 and a similarity
        from 0.7 on gives 1, with linear interpolation between them. A word that a text contains
        unchanged matches only the sentences of the text that contain it unchanged. In languages
        written without spaces, the words are pairs of characters, which match exactly or not at
        all.

        Returns:
            One row for each word. The columns are those of the first text, then those of the second
            text, and so on: a column of zeros, and one for each sentence.
        """
        rows = self.look_up(words)
        return self._tables.sentences[rows]

    def text_table(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the best match of each word in any sentence of each text, from 0 to 1.

        Returns:
            One row for each word, with one column for each text.
        """
        rows = self.look_up(words)
        return self._tables.texts[rows]

    def matches_in(self, words: Sequence[str], number: int) -> list[float]:
        """Return the best match of each word in any sentence of a single text, from 0 to 1.

        ``number`` is the position of the text in ``texts``.
        """
        matches: list[float] = self.text_table(words)[:, number].tolist()
        return matches

    def held(self, words: Sequence[str], share: float) -> list[list[bool]]:
        """Return whether each text contains each word in some form, as :func:`held_words` does.

        Args:
            words: The words.
            share: Minimum share of a word's n-grams.

        Returns:
            One row for each word, with one value for each text.
        """
        if self._entry.tokens == "character":
            return [self._held_rows[word, share] for word in words]
        rows = self.look_up(words)
        shared, totals = self._tables.shared[rows], self._tables.totals[rows]
        held: list[list[bool]] = (shared >= (share * totals)[:, None]).tolist()
        for row, word in enumerate(words):
            if len(word) <= self._entry.gram_length:
                held[row] = [word in joined for joined in self._joined]
        return held

    @cached_property
    def _held_rows(self) -> Memo[tuple[str, float], list[bool]]:
        """The rows of :meth:`held` in a language without spaces, by word and share."""
        return Memo(lambda key: [_holds(joined, *key) for joined in self._joined])

    @cached_property
    def _joined(self) -> list[str]:
        """The words of each text, joined by spaces, or by nothing in a language without spaces."""
        joined = [text_form(text, self._entry).stems for text in self.texts]
        return (
            joined if self._entry.tokens == "word" else [text.replace(" ", "") for text in joined]
        )

    @cached_property
    def _odd(self) -> list[int]:
        """The indices of the texts whose words differ if the sentences are processed separately."""
        forms = [text_form(text, self._entry) for text in self.texts]
        return [number for number, form in enumerate(forms) if not form.is_split]

    def look_up(self, words: Sequence[str]) -> list[int]:
        """Return the row of each word in the cached tables; missing rows are computed first."""
        try:
            return [*map(self._rows.__getitem__, words)]
        except KeyError:
            self._add_rows(words)
        return [*map(self._rows.__getitem__, words)]

    def _add_rows(self, words: Sequence[str]) -> None:
        """Compute the missing rows of words, and add them to the cached tables."""
        if len(self._rows) >= MOST_WORDS:
            self._rows.clear()
        missing = [word for word in dict.fromkeys(words) if word not in self._rows]
        new = self._compute(missing)
        self._tables = self._tables.extended(new) if self._rows else new
        self._rows |= zip(missing, count(len(self._rows)), strict=False)

    def _empty_tables(self, count: int = 0) -> _Tables:
        return _Tables(
            np.zeros((count, self.columns[-1])),
            np.zeros((count, len(self.texts))),
            np.zeros((count, len(self.texts)), np.int64),
            np.ones(count, np.int64),
        )

    def _compute(self, words: Sequence[str]) -> _Tables:
        return (
            self._compute_words(words)
            if self._entry.tokens == "word"
            else self._compute_pairs(words)
        )

    def _compute_pairs(self, pairs: Sequence[str]) -> _Tables:
        tables = self._empty_tables(len(pairs))
        rows = [row for row, pair in enumerate(pairs) if 1 <= len(pair) <= 2]
        codes = code_points("".join([pairs[row].ljust(2, _NO_CHARACTER) for row in rows]))
        keys = pack(codes, 2, _CODE_POINT_BITS)[::2] << _COLUMN_BITS
        first = self._pairs.searchsorted(keys)
        sizes = self._pairs.searchsorted(keys + (1 << _COLUMN_BITS)) - first
        number, position = _ranges(first, sizes)
        columns = self._pairs[position] & ((1 << _COLUMN_BITS) - 1)
        tables.sentences[np.array(rows, int)[number], columns] = 1.0
        np.maximum.reduceat(tables.sentences, self._first_columns, axis=1, out=tables.texts)
        return tables

    def _compute_words(self, words: Sequence[str]) -> _Tables:
        table = _gram_table(words, self._entry.gram_length)
        number, other = _shared_pairs(table, self._grams)
        totals = _gram_counts(table, len(words))
        best = self._best_counts(table.words[number], other, totals)
        self._match_unchanged_words(words, best, totals)
        sentences = _similarity(best.T / totals[:, None])
        texts = np.maximum.reduceat(sentences, self._first_columns, axis=1)
        return _Tables(sentences, texts, self._count_by_text(words, table, number, other), totals)

    def _best_counts(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], totals: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return the largest number of n-grams that each word shares with any word of a sentence.

        Args:
            rows: For each n-gram that a word shares with a word of the texts, the index of the
                word.
            columns: For each of these n-grams, the index of the word of the texts.
            totals: The number of n-grams of each word.

        Returns:
            One row for each column of :meth:`sentence_matches`, and one column for each word.
        """
        # Small integers take a fraction of the time, because the tables stay in the processor's
        # cache. The last row is for the starts of columns.
        small = np.uint8 if totals.max() <= np.iinfo(np.uint8).max else np.int64
        counts = np.zeros((len(self._words) + 1, len(totals)), small)
        np.add.at(counts.reshape(-1), columns * len(totals) + rows, small(1))
        # The similarity grows with the count, so the largest count is that of the best word.
        return np.maximum.reduceat(counts.take(self._order, axis=0), self._starts, axis=0)

    def _match_unchanged_words(
        self, words: Sequence[str], best: NDArray[Any], totals: NDArray[np.int64]
    ) -> None:
        """Let a word match only its unchanged form in texts that contain this form.

        Args:
            words: The words.
            best: The result of :meth:`_best_counts`, which is changed.
            totals: The number of n-grams of each word.
        """
        row_of_word = dict(zip(words, count(), strict=False))
        rows = np.array([*map(row_of_word.get, self._words, repeat(-1)), -1], int)[self._order]
        positions = np.flatnonzero(rows >= 0)
        columns = self._starts.searchsorted(positions, side="right") - 1
        is_unchanged = np.zeros(best.shape, dtype=bool)
        is_unchanged[columns, rows[positions]] = True
        in_text = np.logical_or.reduceat(is_unchanged, self._first_columns, axis=0)
        in_text = in_text.repeat(np.diff(self.columns), axis=0)
        best[in_text] = 0
        best[columns, rows[positions]] = totals[rows[positions]]

    def _count_by_text(
        self,
        words: Sequence[str],
        table: _Grams,
        number: NDArray[np.int64],
        other: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Count the distinct n-grams of each word that occur in the words of each text.

        Args:
            words: The words.
            table: The n-grams of the words.
            number: The positions in ``table`` of n-grams that occur in the texts.
            other: For each of these positions, the index of a word of the texts with this n-gram.

        Returns:
            One row for each word, and one column for each text.
        """
        position, text = self._texts_of_words[other].nonzero()
        shared = _count_by_text(table, number[position], text, (len(words), len(self.texts)))
        for odd in self._odd:
            code, length = self._entry.code, self._entry.gram_length
            number, other = _shared_pairs(
                table, _gram_table(text_words(self.texts[odd], code), length)
            )
            column = _count_by_text(table, number, np.zeros_like(other), (len(words), 1))
            shared[:, odd] = column[:, 0]
        return shared


class _Tables(NamedTuple):
    """The cached results of an index, with one row for each word.

    Attributes:
        sentences: The match of the word in each sentence, from 0 to 1.
        texts: The best match of the word in any sentence of each text, from 0 to 1.
        shared: The number of distinct n-grams of the word that occur in words of each text.
        totals: The number of distinct n-grams of the word.
    """

    sentences: NDArray[np.float64]
    texts: NDArray[np.float64]
    shared: NDArray[np.int64]
    totals: NDArray[np.int64]

    def extended(self, new: _Tables) -> _Tables:
        """Return tables with the rows of these tables, followed by those of ``new``."""
        return _Tables(
            np.concatenate((self.sentences, new.sentences)),
            np.concatenate((self.texts, new.texts)),
            np.concatenate((self.shared, new.shared)),
            np.concatenate((self.totals, new.totals)),
        )


MOST_WORDS = 1 << 12
"""Number of cached words at which an index clears its cache, to limit the memory."""


class _Grams(NamedTuple):
    """The distinct n-grams of each word in a list, sorted by n-gram.

    Attributes:
        values: The n-grams as integers.
        words: The index of the word that each n-gram belongs to.
        bits: The number of bits that one character takes in ``values``.
    """

    values: NDArray[np.int64]
    words: NDArray[np.int64]
    bits: int

    def packed(self, bits: int) -> NDArray[np.int64]:
        """Return the n-grams as integers in which a character takes this number of bits."""
        if bits == self.bits:
            return self.values
        mask = (1 << self.bits) - 1
        wide = self.values & mask
        for place in range(1, 63 // self.bits):
            wide |= (self.values >> place * self.bits & mask) << place * bits
        return wide


def _count_pairs(
    rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Return a table with the number of times that each pair of a row and a column occurs."""
    cells = rows * shape[1] + columns
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _count_by_text(
    table: _Grams,
    number: NDArray[np.int64],
    text: NDArray[np.int64],
    shape: tuple[int, int],
) -> NDArray[np.int64]:
    """Count the distinct n-grams of each word that occur in the words of each text.

    Args:
        table: The n-grams of the words.
        number: The positions in ``table`` of n-grams that occur in the texts.
        text: For each of these positions, the index of a text that contains the n-gram.
        shape: The number of words and the number of texts.

    Returns:
        One row for each word, and one column for each text.
    """
    has = np.zeros((len(table.values), shape[1]), dtype=bool)
    has[number, text] = True
    number, text = has.nonzero()
    return _count_pairs(table.words[number], text, shape)


def _shared_pairs(grams: _Grams, others: _Grams) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the words of the table ``others`` that contain the n-grams of the table ``grams``.

    Returns:
        Two arrays with one entry for each pair of an n-gram and a word that contains it. The first
        has the position of the n-gram in ``grams``, the second the index of the word in ``others``.
    """
    bits = max(grams.bits, others.bits)
    values, other_values = grams.packed(bits), others.packed(bits)
    first = other_values.searchsorted(values)
    sizes = other_values.searchsorted(values, side="right") - first
    number, position = _ranges(first, sizes)
    return number, others.words[position]


def _ranges(
    starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Concatenate the ranges of integers with the given starts and sizes.

    Returns:
        Two arrays of the same length: the index of the range that each integer belongs to, and the
        integers.
    """
    number = np.arange(len(sizes)).repeat(sizes)
    return number, np.arange(len(number)) + (starts - sizes.cumsum() + sizes).repeat(sizes)


def _index_pairs(characters: Sequence[str]) -> NDArray[np.int64]:
    """Return the distinct pairs of neighbouring characters of several texts, as sorted integers.

    Each integer contains a pair and the index of its text. A text of one character has one pair,
    whose second character is U+0000.
    """
    parts = [f"{part}{_NO_CHARACTER if len(part) == 1 else ''}\n" for part in characters]
    codes = code_points("".join(parts))
    numbers = np.arange(len(parts)).repeat([*map(len, parts)])
    keys = pack(codes, 2, _CODE_POINT_BITS)
    # Pairs with a line break extend across the border of a text, and are never looked up.
    return distinct(keys << _COLUMN_BITS | numbers[: len(keys)])


_NO_CHARACTER = "\0"
_PAIR = 2  # characters of a word in a language without spaces
_COLUMN_BITS = 21
_CODE_POINT_BITS = 21
_SPACE = ord(" ")
_NARROW_BITS, _WORD_BITS = 16, 15  # of each character and of the number of its word


def _gram_table(words: Sequence[str], length: int) -> _Grams:
    """Return the n-grams of words, including the space before each word, as :func:`grams` does.

    If a word is too short for an n-gram, a space is added in place of the missing character.
    """
    if not words:
        return _Grams(np.zeros(0, np.int64), np.zeros(0, np.int64), _NARROW_BITS)
    text = f" {' '.join(words)}"
    codes = code_points(f"{text}{' ' * (length - 1)}")
    padded = codes == _SPACE
    is_space = padded[: len(text)]
    numbers = is_space.cumsum() - 1  # the number of the word at each position
    # An n-gram is within a word if only its first character is a space. A word of a single letter
    # is shorter than an n-gram of three characters; its n-gram ends with a space.
    is_inside = ~padded[1 : len(text) + 1]
    if length > 2:
        is_inside &= ~padded[2:] | is_space
    numbers = numbers[is_inside]
    if len(words) >> _WORD_BITS or int(codes.max()) >> _NARROW_BITS:
        values = pack(codes, length, _CODE_POINT_BITS)[is_inside]
        order = np.argsort(values, kind="stable")  # the numbers ascend already
        values, numbers = values[order], numbers[order]
        is_first = np.ones(len(values), dtype=bool)
        is_first[1:] = (values[1:] != values[:-1]) | (numbers[1:] != numbers[:-1])
        return _Grams(values[is_first], numbers[is_first], _CODE_POINT_BITS)
    # Sorting plain integers is several times as fast, so the number becomes a part of the value.
    keys = pack(codes, length, _NARROW_BITS)[is_inside] << _WORD_BITS | numbers
    keys.sort()
    is_first = np.ones(len(keys), dtype=bool)
    is_first[1:] = keys[1:] != keys[:-1]
    keys = keys[is_first]
    return _Grams(keys >> _WORD_BITS, keys & ((1 << _WORD_BITS) - 1), _NARROW_BITS)


@lru_cache(maxsize=16384)
def words(text: str, code: str) -> tuple[str, ...]:
    """Return the distinct words of a text; pairs of characters in a language without spaces.

    Numbers are left out. Accents are removed, and so are short words that a language attaches to
    the next word. ``code`` is the ISO 639-1 code of the language.
    """
    entry = Language.of(code)
    return _distinct(stems(tokenize(without_numbers(text), entry), entry), entry)


@lru_cache(maxsize=4096)
def text_words(text: str, code: str) -> tuple[str, ...]:
    """Return the same words as :func:`words`, from the cached :func:`text_form` of the text.

    This is faster than :func:`words` if the sentences of the text are needed as well.
    """
    entry = Language.of(code)
    return _distinct(text_form(text, entry).stems.split(), entry)


def _distinct(tokens: Sequence[str], entry: Language) -> tuple[str, ...]:
    """Return the distinct stems of tokens or, in a language without spaces, pairs of characters."""
    if entry.tokens == "character":
        joined = "".join(tokens)
        tokens = [joined[i : i + 2] for i in range(max(1, len(joined) - 1))]
    return tuple(filter(None, dict.fromkeys(tokens)))


@lru_cache(maxsize=65536)
def grams(word: str, length: int) -> frozenset[str]:
    """Return the character n-grams of ``" " + word``, or this whole text if it is shorter."""
    padded = f" {word}"
    length = min(length, len(padded))
    return frozenset([padded[i : i + length] for i in range(len(padded) - length + 1)])
