"""Select passages that are worth asking about, spread over the documents."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

from mirage.corpus import Corpus, chunk, read_passages
from mirage.corpus.documents import CHUNK
from mirage.errors import DatasetError
from mirage.features.language import language_probabilities
from mirage.languages import Language
from mirage.models import Passage
from mirage.testsets.instructions import find_instructions, without_instructions
from mirage.text import tokenize
from mirage.text.lexicon import lexicon
from mirage.text.mentions import folded
from mirage.text.quantities import quantities

GIVES_INSTRUCTIONS = "gives instructions to its reader or a model"
"""The reason for skipping a passage that may contain a prompt injection."""

MOST_CONSIDERED = 20_000
"""The largest number of passages to consider; from a larger corpus, every n-th is taken."""

SHORTEST = {"word": 20, "character": 50}
"""The smallest length of a passage worth asking about, in words or characters."""

CHARACTERS_PER_WORD = 3
"""The number of characters that count as one word in scripts without spaces between words."""

SURELY_IN_LANGUAGE = 0.5
"""The smallest probability of being in the language at which a passage is used."""

RARE_SHARE = 0.02
"""A word is rare if at most this share of the passages, or at most two passages, contain it."""


def corpus_of(
    documents: Corpus | str | Path | Iterable[Passage] | Sequence[str | Path],
    language: str | Language,
    *,
    size: int = CHUNK,
    overlap: int = 0,
) -> Corpus:
    """Read documents, split long texts into passages, and return the passages as a corpus.

    A corpus is returned unchanged. Files are split as by ``mirage index``, so the passages of an
    index with the same size and overlap have the same ids (:func:`mirage.corpus.read_passages`):
    text files are split into passages, and rows of JSON Lines and Parquet are passages. Documents
    that are passed as passages are split only if they have more than about twice ``size`` words and
    are not already part of a document; for these texts, three characters count as a word in scripts
    without spaces between words.

    Args:
        documents: A corpus, the folder of a corpus, a path that
            :func:`mirage.corpus.read_passages` reads, several of these, or documents as passages.
        language: ISO 639-1 code of the documents.
        size: Number of words per passage.
        overlap: Number of words that a passage repeats from the previous one.

    Example:
        >>> from mirage import Passage
        >>> corpus = corpus_of([Passage(id="a", text="The tower was built in 1889.")], "en")
        >>> len(corpus), corpus["a"].text
        (1, 'The tower was built in 1889.')
    """
    if isinstance(documents, Corpus):
        return documents
    sources = [documents] if isinstance(documents, str | Path) else documents
    entry = Language.of(language)
    characters = CHARACTERS_PER_WORD if entry.tokens == "character" else 1

    def passages() -> Iterator[Passage]:
        for source in sources:
            if isinstance(source, Passage):
                yield from _split(source, size * characters, overlap * characters)
            elif (Path(source) / "manifest.json").is_file():
                yield from Corpus.open(source)
            else:
                yield from read_passages(source, size, overlap=overlap)

    return Corpus.build(passages(), language=entry.code)


def _split(document: Passage, size: int, overlap: int) -> Iterator[Passage]:
    """Yield the passages of a document; it stays whole if it has at most two windows."""
    if document.document_id != document.id:
        yield document
        return
    # Without the headings and the rest of its structure, only the length decides.
    windows = list(chunk((Passage(id=document.id, text=document.text),), size, overlap=overlap))
    if len(windows) > 2:
        yield from chunk((document,), size, overlap=overlap)
    elif windows:
        yield document


class Askable(NamedTuple):
    """Passages that are worth asking questions about, and counts of other passages.

    Attributes:
        passages: The passages in the order of use: the best passage of each document, then the
            second best of each document, and so on.
        documents: The number of documents that were considered, with or without a passage worth
            asking about.
        passed_over: The number of passages that are not worth asking about, by reason.
        instructions: The id and an excerpt of each passage that contains instructions to its reader
            or a model. Nothing is asked about these passages.
        instruction_words: Words that occur only in sentences with these instructions.
    """

    passages: tuple[Passage, ...]
    documents: int
    passed_over: dict[str, int]
    instructions: tuple[tuple[str, str], ...] = ()
    instruction_words: frozenset[str] = frozenset()

    @property
    def askable_documents(self) -> int:
        """The number of documents with a passage worth asking about."""
        return len({passage.document_id for passage in self.passages})


def askable_passages(
    corpus: Iterable[Passage] | Corpus, language: str | Language, *, seed: int = 0
) -> Askable:
    """Return the passages that are worth asking about, spread over the documents.

    A passage is worth asking about if it is long enough, written in the language, not a copy of
    another passage, and free of instructions to a reader or a model
    (:mod:`mirage.testsets.instructions`). Passages with more rare words and more numbers are
    better. Documents are in random order, each with its best passage first.

    Args:
        corpus: The passages.
        language: The language that passages must be in.
        seed: Random seed for the order of documents.

    Raises:
        DatasetError: If there are no passages.

    Example:
        >>> from mirage import Passage
        >>> text = "The tower in Paris was built in 1889 by the company of Gustave Eiffel. " * 3
        >>> passages = [Passage(id="a", text=text), Passage(id="b", text="Too short.")]
        >>> askable = askable_passages(passages, "en")
        >>> [passage.id for passage in askable.passages], askable.passed_over
        (['a'], {'too short': 1})
    """
    entry = Language.of(language)
    considered = _sample_passages(corpus)
    if not considered:
        raise DatasetError("the corpus has no passages; give documents that contain text")
    words = [frozenset(words_of(passage.text, entry)) for passage in considered]
    instructions: dict[str, str] = {}
    instruction_words: set[str] = set()
    plain_words: set[str] = set()
    # Words with a low document frequency are specific to a passage, so they make good answers.
    document_frequency = Counter(word for each in words for word in each)
    rare_at = max(2.0, RARE_SHARE * len(considered))
    passed_over: Counter[str] = Counter()
    earlier_texts: set[str] = set()
    scored_by_document: dict[str, list[tuple[float, int, Passage]]] = {}
    for number, (passage, passage_words) in enumerate(zip(considered, words, strict=True)):
        finding = find_instructions(passage.titled_text)
        if finding is not None and finding.level == "instruction":
            instructions[passage.id] = finding.excerpt
            rest = without_instructions(passage.titled_text)
            plain_words |= set(words_of(rest, entry))
            instruction_words |= passage_words
            passed_over[GIVES_INSTRUCTIONS] += 1
            continue
        plain_words |= passage_words
        reason = _reason_to_skip(passage, entry, earlier_texts)
        if reason:
            passed_over[reason] += 1
            continue
        rare_count = sum(document_frequency[word] <= rare_at for word in passage_words)
        quantity_count = len(quantities(passage.text, entry))
        score = math.log1p(rare_count) + math.log1p(min(quantity_count, 5))
        scored_by_document.setdefault(passage.document_id, []).append((-score, number, passage))
    documents = sorted(scored_by_document)
    # The order of files often follows their topics, so documents are shuffled.
    random.Random(seed).shuffle(documents)
    ranked = [
        [passage for *_, passage in sorted(scored_by_document[name], key=lambda row: row[:2])]
        for name in documents
    ]
    rounds = (passage for each in zip_longest(*ranked) for passage in each if passage is not None)
    document_count = len({passage.document_id for passage in considered})
    return Askable(
        tuple(rounds),
        document_count,
        dict(passed_over),
        tuple(instructions.items()),
        frozenset(instruction_words - plain_words),
    )


def _sample_passages(corpus: Iterable[Passage] | Corpus) -> list[Passage]:
    if not isinstance(corpus, Corpus):
        return list(corpus)
    step = max(1.0, len(corpus) / MOST_CONSIDERED)
    return [corpus.at(int(n * step)) for n in range(min(len(corpus), MOST_CONSIDERED))]


def words_of(text: str, entry: Language) -> list[str]:
    """Return the content words of a text; ``entry`` is its language.

    In scripts without spaces between words, pairs of adjacent characters are returned instead.
    """
    tokens = tokenize(text, entry)
    if entry.tokens == "character":
        return ["".join(pair) for pair in pairwise(tokens)]
    common = lexicon(entry.code).function_words
    return [token for token in tokens if token not in common]


def _reason_to_skip(passage: Passage, entry: Language, earlier_texts: set[str]) -> str:
    """Return the reason why a passage is not worth asking about; empty if it is.

    The normalised text of a passage is added to ``earlier_texts``, to recognize later copies.
    """
    if len(tokenize(passage.text, entry)) < SHORTEST[entry.tokens]:
        return "too short"
    shares = language_probabilities(passage.text, entry)
    if shares.get(entry.code, 0.0) < SURELY_IN_LANGUAGE:
        return "in another language"
    text = folded(passage.text, entry)
    if text in earlier_texts:
        return "a copy of another"
    earlier_texts.add(text)
    return ""
