"""Detect responses that copy a reference, the ground truth, or another submission."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator

from mirage.boards.folders import Entry
from mirage.dataset import MirageDataset
from mirage.models import Query, Run
from mirage.text import split_sentences, tokenize

_WORDS = 5  # number of words in a phrase
_PHRASES = 3  # a reference with fewer phrases of its own is not compared with responses
_COPIED = 0.5  # a response is a copy if it has at least this share of these phrases
_FEWEST = 3  # fewer copied responses than this are not reported
_SAME = 0.8  # two responses are equal if they have at least this share of sentences in common
_LONG = 40  # shorter texts may be equal by chance; counts letters and digits
_GOLD_FIELD = re.compile(r"[\"'](?:relevant|reference|answerable|wrong_answers)[\"']\s*:")
_SPELLINGS = 3  # shorter lists of spellings may occur in a response by chance


def gold_leaks(text: str, query: Query) -> bool:
    """Return whether a response shows that its system received the ground truth.

    The result is true if the response contains a field of the ground truth as JSON. It is also true
    if the response lists all spellings of an answer in the order of the ground truth, provided that
    the answer has at least three spellings.

    Args:
        text: The text of the response.
        query: The query with its ground truth.
    """
    if _GOLD_FIELD.search(text):
        return True
    letters = _letters(text)
    lists = (forms for forms in query.answers if len(forms) >= _SPELLINGS)
    return any("".join(map(_letters, forms)) in letters for forms in lists)


class Copies:
    """A detector of copies among the responses in one language.

    Submissions are added one at a time and compared with the submissions before them.

    Args:
        dataset: The queries.
    """

    REFUSED = 0.8
    """A submission is a copy of another one if at least this share of its responses is equal."""

    SHOWN = 0.2
    """The page has a remark on a submission if at least this share of its responses is equal."""

    def __init__(self, dataset: MirageDataset) -> None:
        self._dataset = dataset
        self._queries = {query.id: query for query in dataset}
        self._shown = {
            query.id: _letters(" ".join([query.text, *(p.titled_text for p in query.passages)]))
            for query in dataset
        }
        self._holders: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._own_counts: dict[tuple[str, str], int] = {}
        self._phrases = {
            query.id: phrases
            for query in dataset
            # Systems that find no answer abstain in similar words, without copying.
            if query.answerable is not False
            and len(phrases := _reference_phrases(query)) >= _PHRASES
        }

    def of_references(self, run: Run) -> list[str]:
        """Return the ids of queries whose response copies phrases that only the reference contains.

        A phrase has five words, and occurs neither in the question nor in a passage. A response is
        a copy if it contains at least half of the phrases of the reference. References with fewer
        than three such phrases are ignored. The list is empty if the run has fewer than three
        copies, or if fewer than a tenth of the compared references were copied.
        """
        copied = [
            query_id
            for query_id, phrases in self._phrases.items()
            if (response := run.get(query_id)) is not None
            and len(phrases & _phrases(response.text or "", run.language)) >= _COPIED * len(phrases)
        ]
        return copied if len(copied) >= max(_FEWEST, len(self._phrases) / 10) else []

    def of_earlier(self, entry: Entry, *, share: float = REFUSED) -> Iterator[tuple[str, int, int]]:
        """Yield earlier submissions that share many responses with ``entry``; then store ``entry``.

        Two responses to a query are equal if they have the same letters and digits. They are also
        equal if at least 80 % of the sentences of one occur in the other. Sentences that the
        question or a passage contains do not count. Texts with fewer than 40 letters and digits are
        not distinctive and do not count.

        Args:
            entry: The submission.
            share: Report an earlier submission if at least this share of the distinctive responses
                is equal. Fewer than three equal responses are never reported.

        Yields:
            The id of the earlier submission, the number of equal responses, and the number of
            distinctive responses.
        """
        same: Counter[str] = Counter()
        distinctive = 0
        for answer in entry.answers[self._dataset.language]:
            query = self._queries.get(answer.response.query_id)
            text = answer.response.text
            if query is None or text is None or len(whole := _letters(text)) < _LONG:
                continue
            distinctive += 1
            sentences = self._own_sentences(text, query)
            shared = Counter(
                holder for part in sentences for holder in self._holders[query.id, part]
            )
            equal = {
                id_
                for id_, count in shared.items()
                if count >= _SAME * min(len(sentences), self._own_counts[query.id, id_])
            }
            same.update(equal | self._holders[query.id, whole])
            self._own_counts[query.id, entry.id] = len(sentences)
            for part in {whole, *sentences}:
                self._holders[query.id, part].add(entry.id)
        for holder, count in sorted(same.items()):
            if holder != entry.id and count >= max(_FEWEST, share * distinctive):
                yield holder, count, distinctive

    def _own_sentences(self, text: str, query: Query) -> set[str]:
        """Return the distinctive sentences of a response that the system wrote itself.

        Neither the question nor a passage contains them. Each sentence is represented by its
        letters and digits.
        """
        shown = self._shown[query.id]
        parts = map(_letters, split_sentences(text, query.language))
        return {part for part in parts if len(part) >= _LONG and part not in shown}


def _letters(text: str) -> str:
    """Return the letters, combining marks and digits of a text, in lower case."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.translate(_LETTERS)


class _Letters(dict[int, int | None]):
    """A table for ``str.translate`` that removes all but letters, combining marks and digits."""

    def __missing__(self, code: int) -> int | None:
        kept = code if unicodedata.category(chr(code))[0] in "LMN" else None
        self[code] = kept
        return kept


_LETTERS = _Letters()


def _phrases(text: str, language: str) -> set[tuple[str, ...]]:
    words = tokenize(text, language)
    return {tuple(words[i : i + _WORDS]) for i in range(len(words) - _WORDS + 1)}


def _reference_phrases(query: Query) -> set[tuple[str, ...]]:
    """Return the five-word phrases of the reference that are in neither question nor passages."""
    sources = (query.text, *(passage.titled_text for passage in query.passages))
    shown = set().union(*(_phrases(text, query.language) for text in sources))
    return _phrases(query.reference or "", query.language) - shown
