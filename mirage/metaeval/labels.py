"""Sentences of responses with the labels that people gave them: what judges are measured against.

MEMERAG (Cruz Blandón et al. 2025, arXiv 2502.17163) labels every sentence of a response for its
faithfulness to the passages, coarsely and finely, and for its relevance to the query (section 3).
A team's own labels come from JSON Lines or a DataFrame, under any names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from mirage._base.files import read_rows
from mirage._base.rows import placed, rows_in
from mirage.errors import DatasetError, UnknownNameError
from mirage.metaeval.sentences import AnswerSentence, columns_of
from mirage.sources import memerag

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NO_MAJORITY", "LabelledSentences", "Task"]

Task = Literal["faithfulness", "relevance"]
"""What MEMERAG's annotators were asked of a sentence."""

SUPPORTED = "Supported"
CHALLENGING = "Challenging to determine"

NO_MAJORITY = "no majority"
"""Why a sentence with several labels is left out where one is needed."""


@dataclass(frozen=True, eq=False, repr=False)
class LabelledSentences:
    """Sentences with the labels that annotators gave each; in one language or several.

    Make it from MEMERAG's files (:meth:`memerag`), or from a team's own labels
    (:meth:`from_jsonl`, :meth:`from_pandas`).

    Attributes:
        sentences: the sentences, in the order of the files.
        labels: for each sentence its labels, one an annotator.
        fine: likewise its fine-grained labels; empty where there are none, and a label is the
            empty text where an annotator gave none.
        positive: the label that a good score speaks for.
        undecided: labels that say nothing; no judge is measured on them.
        source: what to call the sentences in tables.
    """

    sentences: tuple[AnswerSentence, ...]
    labels: tuple[tuple[str, ...], ...]
    fine: tuple[tuple[str, ...], ...]
    positive: str = SUPPORTED
    undecided: frozenset[str] = frozenset({CHALLENGING})
    source: str = "labelled sentences"

    def __post_init__(self) -> None:
        if not len(self.sentences) == len(self.labels) == len(self.fine):
            raise DatasetError(
                f"{self.source}: {len(self.sentences)} sentences with {len(self.labels)} labels "
                f"and {len(self.fine)} fine-grained ones; there has to be one entry a sentence"
            )
        if not self.sentences:
            raise DatasetError(f"{self.source} has no sentence")

    # Sources ------------------------------------------------------------------------------------

    @classmethod
    def memerag(
        cls,
        folder: str | Path,
        languages: Iterable[str] | None = None,
        *,
        task: Task = "faithfulness",
    ) -> LabelledSentences:
        """MEMERAG's files in a folder: ``memerag``, ``memerag_ext`` or the majority vote's.

        The data is for evaluation only, under CC BY-NC 4.0.

        Args:
            folder: holds ``en.jsonl``, ``de.jsonl``, ...
            languages: which to read; by default every file there.
            task: which labels to take. Only those of faithfulness have fine-grained ones.

        Raises:
            DatasetError: names the file and the line; or the folder has no such file.
            UnknownNameError: no such language or task.
        """
        if task not in get_args(Task):
            raise UnknownNameError("task of MEMERAG", task, get_args(Task))
        place = Path(folder)
        if languages is None:
            languages = sorted(path.stem for path in place.glob("*.jsonl"))
        codes = list(languages)
        if not codes:
            raise DatasetError(f"{place}: there is no file such as en.jsonl")
        sentences: list[AnswerSentence] = []
        labelled: list[memerag.LabelledSentence] = []
        for code in codes:
            source = memerag.load(place / f"{code}.jsonl", code)
            labelled += source.sentences
            sentences += (
                AnswerSentence(source.dataset[row.query_id], row.text) for row in source.sentences
            )
        return cls(
            tuple(sentences),
            tuple(row.factuality if task == "faithfulness" else row.relevance for row in labelled),
            tuple(row.fine if task == "faithfulness" else () for row in labelled),
            positive=SUPPORTED if task == "faithfulness" else "Directly answers the question",
            source=f"{place.name}, {task}",
        )

    @classmethod
    def from_jsonl(
        cls, path: str | Path, *, language: str | None = None, positive: str = SUPPORTED
    ) -> LabelledSentences:
        """Labels in JSON Lines, a row a sentence.

        Fields of a row:

        - ``query``: the question. ``query_id`` where the same text is asked twice.
        - ``passages``: texts, or objects ``{"id", "text", "title"}``. Texts get the ids 1, 2, ...
        - ``sentence``: without its citations; ``citations``: the ids it cites, if it cites any.
        - ``label``: one label, or a list of one an annotator; null where an annotator gave none.
          Numbers and truth values are taken as text: ``True`` is the label ``"True"``.
        - ``fine``: likewise fine-grained labels, if there are any.
        - ``cluster``: what the query hangs together with, such as a document, if anything.
        - ``language``: unless given as an argument.

        Args:
            path: the file.
            language: of all sentences that do not name one.
            positive: the label that a good score speaks for.

        Raises:
            DatasetError: names the file, the line and the field.
        """
        rows = read_rows(Path(path))
        return cls(*columns_of(rows, language), positive=positive, source=Path(path).name)

    @classmethod
    def from_pandas(
        cls, frame: pd.DataFrame, *, language: str | None = None, positive: str = SUPPORTED
    ) -> LabelledSentences:
        """Labels in a DataFrame with the columns of :meth:`from_jsonl`, a row a sentence.

        Errors name the row, from 0, and the column.
        """
        rows = placed(rows_in(frame), "DataFrame")
        return cls(*columns_of(rows, language), positive=positive, source="DataFrame")

    # Views --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[AnswerSentence]:
        return iter(self.sentences)

    def __repr__(self) -> str:
        return (
            f"LabelledSentences({self.source!r}, sentences={len(self)}, "
            f"languages={list(self.languages)!r}, labels={list(self.names)!r})"
        )

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages, in order of first occurrence."""
        return tuple(dict.fromkeys(sentence.query.language for sentence in self.sentences))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The labels that occur, sorted."""
        return tuple(sorted({label for labels in self.labels for label in labels}))

    def counts(self, *, fine: bool = False) -> dict[str, Counter[str]]:
        """How often each label was given, by language, undecided ones included.

        With one annotator these are counts of sentences: MEMERAG's Tables 1 and 3.
        """
        counts: dict[str, Counter[str]] = {code: Counter() for code in self.languages}
        columns = self.fine if fine else self.labels
        for sentence, labels in zip(self.sentences, columns, strict=True):
            counts[sentence.query.language].update(label for label in labels if label)
        return counts

    def select(
        self, *, languages: Iterable[str] | None = None, fine: Iterable[str] | None = None
    ) -> LabelledSentences:
        """The sentences in these languages, and with one of these fine-grained labels.

        With several annotators a sentence's fine-grained label is that of :meth:`majority`.

        Raises:
            UnknownNameError: no sentence has such a language or fine-grained label.
        """
        codes = self._known("language", languages, self.languages)
        known = sorted({label for label in self._fine_majority if label})
        labels = self._known("fine-grained label", fine, known)
        return self._rows(
            row
            for row, sentence in enumerate(self.sentences)
            if (codes is None or sentence.query.language in codes)
            and (labels is None or self._fine_majority[row] in labels)
        )

    def merged(self, names: Mapping[str, str], positive: str) -> LabelledSentences:
        """The same sentences with other names for labels; two of one name become one label.

        A score has to be measured on two labels, and MEMERAG has three of relevance.

        Args:
            names: the new name of each label that gets one.
            positive: the label, by its new name, that a good score speaks for.

        Raises:
            UnknownNameError: there is no such label.
        """
        self._known("label", names, self.names)
        renamed = tuple(tuple(names.get(name, name) for name in labels) for labels in self.labels)
        return replace(self, labels=renamed, positive=positive)

    def majority(self) -> LabelledSentences:
        """One label a sentence: what most of its annotators gave; none where two lead.

        The fine-grained label is what most of those gave who gave that label; as in MEMERAG's
        files of the majority vote, but that those break a tie by the first annotator.
        """
        labels, fine = (
            tuple((label,) if label else () for label in column)
            for column in (self._majority, self._fine_majority)
        )
        return replace(self, labels=labels, fine=fine)

    def decided(self) -> tuple[LabelledSentences, dict[str, int]]:
        """The sentences on which a judge can be measured, with one label each; and the others.

        Left out, and counted by their reason, are those with an undecided label ("Challenging to
        determine", as in MEMERAG) and those where no label has a majority.

        Raises:
            DatasetError: no sentence is left.
        """
        reasons = {
            row: label or NO_MAJORITY
            for row, label in enumerate(self._majority)
            if not label or label in self.undecided
        }
        if len(reasons) == len(self):
            raise DatasetError(f"{self.source}: no sentence has a label to measure a judge on")
        rest = self.majority()._rows(row for row in range(len(self)) if row not in reasons)
        return rest, dict(Counter(reasons.values()))

    @cached_property
    def _majority(self) -> tuple[str, ...]:
        return tuple(map(_most_common, self.labels))

    @cached_property
    def _fine_majority(self) -> tuple[str, ...]:
        return tuple(
            _most_common(
                name for label, name in zip(labels, names, strict=True) if label == most and name
            )
            if names
            else ""
            for most, labels, names in zip(self._majority, self.labels, self.fine, strict=True)
        )

    def _rows(self, rows: Iterable[int]) -> LabelledSentences:
        rows = list(rows)
        if not rows:
            raise DatasetError(f"{self.source}: no sentence is left")
        return replace(
            self,
            sentences=tuple(self.sentences[row] for row in rows),
            labels=tuple(self.labels[row] for row in rows),
            fine=tuple(self.fine[row] for row in rows),
        )

    def _known(
        self, kind: str, names: Iterable[str] | None, known: Iterable[str]
    ) -> frozenset[str] | None:
        if names is None:
            return None
        names = frozenset(names)
        for name in sorted(names - {*known}):
            raise UnknownNameError(f"{kind} of {self.source}", name, known)
        return names


def _most_common(labels: Iterable[str]) -> str:
    """The label that occurs most often; empty where none does, or two do."""
    (label, most), (_, next_most) = [*Counter(labels).most_common(2), ("", 0), ("", 0)][:2]
    return label if most > next_most else ""
