"""Passages worth asking about, spread over the documents."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

from mirage.building.instructions import find_instructions, without_instructions
from mirage.corpus import Corpus, chunk, read_documents
from mirage.corpus.documents import CHUNK
from mirage.errors import DatasetError
from mirage.features.language import language_probabilities
from mirage.languages import Language
from mirage.models import Passage
from mirage.text import tokenize
from mirage.text.lexicon import lexicon
from mirage.text.mentions import folded
from mirage.text.quantities import quantities

__all__ = ["INSTRUCTIONS", "Askable", "askable_passages", "corpus_of", "words_of"]

INSTRUCTIONS = "gives instructions to its reader or a model"
"""Why a passage is passed over that may be poisoned."""

LOOKED_AT = 20_000
"""Passages of a corpus that are looked at; of a larger one, so many at even distances."""

SHORTEST = {"word": 20, "character": 50}
"""Words or characters of a passage that is worth asking about, at least."""

SIGNS_A_WORD = 3
"""Signs that count as a word where a script parts none."""

IN_LANGUAGE = 0.5
"""The share of a passage that has to be in the language."""

RARE = 0.02
"""A word that stands in so many of the passages, or in two, says something of its own."""


def corpus_of(
    documents: Corpus | str | Path | Iterable[Passage] | Sequence[str | Path],
    language: str | Language,
    *,
    size: int = CHUNK,
    overlap: int = 0,
) -> Corpus:
    """The passages of documents: a corpus as it is, and all else cut into passages.

    Texts of more than twice ``size`` words are cut (:func:`mirage.corpus.chunk`); shorter ones, and
    those that are part of a document already, are passages as they are. Where a script parts no
    words, three signs count as one.

    Args:
        documents: a corpus; a folder that one is in; what :func:`mirage.corpus.read_documents`
            reads, or several of these; or the documents themselves.
        language: of the documents.
        size: words a passage.
        overlap: words that a passage repeats from the one before it.

    Raises:
        DatasetError: they cannot be read, or two have one id.
        SettingError: ``size`` or ``overlap`` makes no sense.
        UnknownNameError: no such language.
    """
    if isinstance(documents, Corpus):
        return documents
    sources = [documents] if isinstance(documents, str | Path) else documents
    entry = Language.of(language)
    signs = SIGNS_A_WORD if entry.tokens == "character" else 1
    passages = _passages(sources, size * signs, overlap * signs)
    return Corpus.build(passages, language=entry.code)


def _passages(
    sources: Iterable[str | Path | Passage], size: int, overlap: int
) -> Iterator[Passage]:
    for source in sources:
        if isinstance(source, Passage):
            texts: Iterable[Passage] = (source,)
        elif (Path(source) / "manifest.json").is_file():
            yield from Corpus.open(source)
            continue
        else:
            texts = read_documents(source)
        for text in texts:
            if text.document_id != text.id:
                yield text
                continue
            # Without its structure, so that the length alone decides.
            windows = list(chunk((Passage(id=text.id, text=text.text),), size, overlap=overlap))
            if len(windows) > 2:
                yield from chunk((text,), size, overlap=overlap)
            elif windows:
                yield text


class Askable(NamedTuple):
    """Passages worth asking about.

    Attributes:
        passages: in the order in which to ask: the best of each document, then their second best.
        documents: how many documents there are among the passages that were looked at.
        passed_over: by reason, how many passages are not worth it.
        instructions: the id of each passage that gives instructions to its reader or a model, with
            an excerpt. Nothing is asked about these passages.
        instruction_words: words that occur only in the sentences of these instructions.
    """

    passages: tuple[Passage, ...]
    documents: int
    passed_over: dict[str, int]
    instructions: tuple[tuple[str, str], ...] = ()
    instruction_words: frozenset[str] = frozenset()

    @property
    def askable_documents(self) -> int:
        """How many documents have a passage worth asking about."""
        return len({passage.document_id for passage in self.passages})


def askable_passages(
    corpus: Iterable[Passage] | Corpus, language: str | Language, *, seed: int = 0
) -> Askable:
    """The passages that are worth asking about, best first and spread over the documents.

    A passage is worth it if it is long enough, in the language, no copy of another, and gives no
    instructions to its reader or a model (:mod:`mirage.building.instructions`). The more
    numbers it has, and words that few others have, the more it is worth. Documents come in an
    order drawn at random, each with its best passage first.

    Args:
        corpus: the passages.
        language: what the questions are to be in.
        seed: of the order of documents.

    Raises:
        DatasetError: there is no passage.
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    looked_at = _looked_at(corpus)
    if not looked_at:
        raise DatasetError("there is no passage to ask about")
    words = [frozenset(words_of(passage.text, entry)) for passage in looked_at]
    instructions: dict[str, str] = {}
    ordered_words: set[str] = set()
    plain_words: set[str] = set()
    spread = Counter(word for each in words for word in each)
    rare_at = max(2.0, RARE * len(looked_at))
    passed_over: Counter[str] = Counter()
    seen: set[str] = set()
    worth: dict[str, list[tuple[float, int, Passage]]] = {}
    for number, (passage, own) in enumerate(zip(looked_at, words, strict=True)):
        finding = find_instructions(passage.titled_text)
        if finding is not None and finding.level == "instruction":
            instructions[passage.id] = finding.excerpt
            rest = without_instructions(passage.titled_text)
            plain_words |= set(words_of(rest, entry))
            ordered_words |= own
            passed_over[INSTRUCTIONS] += 1
            continue
        plain_words |= own
        why = _unfit(passage, entry, seen)
        if why:
            passed_over[why] += 1
            continue
        rare = sum(spread[word] <= rare_at for word in own)
        stated = len(quantities(passage.text, entry))
        value = math.log1p(rare) + math.log1p(min(stated, 5))
        worth.setdefault(passage.document_id, []).append((-value, number, passage))
    documents = sorted(worth)
    random.Random(seed).shuffle(documents)
    best = [[passage for *_, passage in sorted(worth[name], key=_key)] for name in documents]
    rounds = (passage for each in zip_longest(*best) for passage in each if passage is not None)
    everything = len({passage.document_id for passage in looked_at})
    return Askable(
        tuple(rounds),
        everything,
        dict(passed_over),
        tuple(instructions.items()),
        frozenset(ordered_words - plain_words),
    )


def _key(valued: tuple[float, int, Passage]) -> tuple[float, int]:
    return valued[:2]


def _looked_at(corpus: Iterable[Passage] | Corpus) -> list[Passage]:
    if not isinstance(corpus, Corpus):
        return list(corpus)
    step = max(1.0, len(corpus) / LOOKED_AT)
    return [corpus.at(int(n * step)) for n in range(min(len(corpus), LOOKED_AT))]


def words_of(text: str, entry: Language) -> list[str]:
    """Return the content words of a text; pairs of characters in scripts without spaces."""
    tokens = tokenize(text, entry)
    if entry.tokens == "character":
        return ["".join(pair) for pair in pairwise(tokens)]
    common = lexicon(entry.code).function_words
    return [token for token in tokens if token not in common]


def _unfit(passage: Passage, entry: Language, seen: set[str]) -> str:
    """Why a passage is not worth asking about, empty if it is; ``seen`` are texts before it."""
    if len(tokenize(passage.text, entry)) < SHORTEST[entry.tokens]:
        return "too short"
    shares = language_probabilities(passage.text, entry)
    if shares.get(entry.code, 0.0) < IN_LANGUAGE:
        return "in another language"
    text = folded(passage.text, entry)
    if text in seen:
        return "a copy of another"
    seen.add(text)
    return ""
