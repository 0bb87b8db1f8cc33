"""Rows of the files of labels that `mirage metaeval` and `mirage decide` read."""

from __future__ import annotations

import hashlib
import json

from mirage.models import Id, LanguageCode, Name, Passage, Record

__all__ = ["Label", "PageLabel"]


class Label(Record):
    """The label that one rater gave to one answer.

    The fields are those that :meth:`mirage.metaeval.LabelledSentences.from_jsonl` reads, so a file
    of labels needs no conversion.

    Attributes:
        query_id: The id of the query.
        query: The question.
        language: ISO 639-1 code.
        passages: The passages that the answer was based on.
        sentence: The answer, without formatting and citations.
        rater: The name of the rater. ``settled`` is the name for labels that settle a conflict.
        label: The label.
        citations: The ids of the passages that the answer cites; ``None`` if it cites nothing.
        cluster: The cluster of the query, if any.
        model: The system that wrote the answer; empty if it is unknown. Raters do not see it.
    """

    query_id: Id
    query: Name
    language: LanguageCode
    passages: tuple[Passage, ...]
    sentence: Name
    rater: Name
    label: Name
    citations: tuple[Id, ...] | None = None
    cluster: Id | None = None
    model: str = ""

    @property
    def passages_digest(self) -> str:
        """A digest of the texts of the passages, in order."""
        texts = json.dumps([[p.id, p.title, p.text] for p in self.passages], ensure_ascii=False)
        return hashlib.sha256(texts.encode("utf-8", "replace")).hexdigest()[:16]


class PageLabel(Record):
    """A label in a file that a rater downloaded from a labelling page without a server.

    Attributes:
        item: The id of the item on the page.
        label: The label.
        rater: The name of the rater.
    """

    item: Name
    label: Name
    rater: Name
