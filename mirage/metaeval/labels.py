"""Sentences of responses with labels from people, against which judges are measured.

MEMERAG (Cruz Blandón et al. 2025, arXiv 2502.17163) labels every sentence of a response for its
faithfulness to the passages, with coarse and fine-grained labels, and for its relevance to the
query (section 3). Labels of other projects, with any names, come from JSON Lines or a DataFrame.
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

Task = Literal["faithfulness", "relevance"]
"""The property that MEMERAG's annotators labelled."""

SUPPORTED = "Supported"
CHALLENGING = "Challenging to determine"
CANNOT_TELL = "cannot tell"

NO_MAJORITY = "no majority"
"""The reason for leaving out a sentence whose annotators do not agree on one label."""


@dataclass(frozen=True, eq=False, repr=False)
class LabelledSentences:
    """Sentences, each with the labels that annotators gave to it, in one or several languages.

    They come from the files of MEMERAG (:meth:`memerag`), or from the user's own labels
    (:meth:`from_jsonl`, :meth:`from_pandas`).

    Attributes:
        sentences: The sentences, in the order of the files.
        labels: The labels of each sentence, one per annotator.
        fine: The fine-grained labels of each sentence, one per annotator; empty if the sentence has
            none. An annotator who gave no fine-grained label has the empty string.
        positive: The positive label: sentences with this label should get better scores.
        undecided: Labels that mean that the annotator could not decide. Sentences whose majority
            label is one of them are left out when judges are measured.
        source: The name of this set of sentences in tables.
        settled: For each sentence, the label that settles a conflict between its annotators and
            replaces their majority; empty if there is none. An empty tuple means that no conflict
            was settled.

    Example:
        >>> from mirage import Query
        >>> from mirage.metaeval import AnswerSentence
        >>> query = Query(id="q", text="Where is Paris?", language="en")
        >>> sentence = AnswerSentence(query, "Paris is in France.")
        >>> labelled = LabelledSentences((sentence,), (("Supported", "Supported"),), ((),))
        >>> labelled.majority().labels
        (('Supported',),)
    """

    sentences: tuple[AnswerSentence, ...]
    labels: tuple[tuple[str, ...], ...]
    fine: tuple[tuple[str, ...], ...]
    positive: str = SUPPORTED
    undecided: frozenset[str] = frozenset({CHALLENGING, CANNOT_TELL})
    source: str = "labelled sentences"
    settled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.sentences) == len(self.labels) == len(self.fine):
            raise DatasetError(
                f"{self.source}: there are {len(self.sentences)} sentences, but "
                f"{len(self.labels)} entries in labels and {len(self.fine)} in fine; each of the "
                "two lists must have one entry per sentence"
            )
        if not self.sentences:
            raise DatasetError(f"{self.source} contains no sentences")

    # Sources ------------------------------------------------------------------------------------

    @classmethod
    def memerag(
        cls,
        folder: str | Path,
        languages: Iterable[str] | None = None,
        *,
        task: Task = "faithfulness",
    ) -> LabelledSentences:
        """Read labels from MEMERAG (arXiv 2502.17163), a dataset of RAG answers.

        People labelled each sentence of the answers. The data may only be used for evaluation. The
        licence is CC BY-NC 4.0.

        Args:
            folder: A folder of MEMERAG's files ``en.jsonl``, ``de.jsonl``, ...: ``memerag``,
                ``memerag_ext``, or the folder with the majority votes of the annotators.
            languages: The languages to read; by default every file in the folder.
            task: The property whose labels are read. Only faithfulness has fine-grained labels.

        Raises:
            DatasetError: A line is invalid (the message names it), or the folder has no such file.
            UnknownNameError: A language or the task is unknown.
        """
        if task not in get_args(Task):
            raise UnknownNameError("MEMERAG task", task, get_args(Task))
        root = Path(folder)
        if languages is None:
            languages = sorted(path.stem for path in root.glob("*.jsonl"))
        codes = list(languages)
        if not codes:
            raise DatasetError(
                f"{root}: the folder contains no language file such as en.jsonl; pass a folder of "
                "MEMERAG's files"
            )
        sentences: list[AnswerSentence] = []
        labelled: list[memerag.LabelledSentence] = []
        for code in codes:
            source = memerag.load(root / f"{code}.jsonl", code)
            labelled += source.sentences
            sentences += (
                AnswerSentence(source.dataset[row.query_id], row.text) for row in source.sentences
            )
        return cls(
            tuple(sentences),
            tuple(row.factuality if task == "faithfulness" else row.relevance for row in labelled),
            tuple(row.fine if task == "faithfulness" else () for row in labelled),
            positive=SUPPORTED if task == "faithfulness" else "Directly answers the question",
            source=f"{root.name}, {task}",
        )

    @classmethod
    def from_jsonl(
        cls, path: str | Path, *, language: str | None = None, positive: str = SUPPORTED
    ) -> LabelledSentences:
        """Read labels from JSON Lines, with one row per sentence.

        Fields of a row:

        - ``query``: The question. ``query_id`` is needed if two queries have the same text.
        - ``passages``: Texts, or objects ``{"id", "text", "title"}``. Texts get the ids 1, 2, ...
        - ``sentence``: The sentence without its citations. ``citations``: The ids that it cites, if
          any.
        - ``label``: One label, or a list with one label per annotator; null if an annotator gave
          none. Numbers and truth values become text: ``True`` is the label ``"True"``.
        - ``rater``: The name of the annotator, if each row has the label of one annotator, as in
          files of ``mirage label``. Rows on the same sentence are joined, and a later row of an
          annotator replaces an earlier one. The label of the rater ``settled`` replaces the
          majority.
        - ``fine``: Fine-grained labels in the same form, if there are any.
        - ``cluster``: The cluster of the query, such as a document, if any.
        - ``language``: Needed if the argument is not set.

        Args:
            path: The path of the file.
            language: The language of all sentences whose row has none.
            positive: The positive label: sentences with this label should get better scores.

        Raises:
            DatasetError: A row is invalid; the message names the file, the line and the field.
        """
        rows = read_rows(Path(path))
        return cls(
            **columns_of(rows, language)._asdict(), positive=positive, source=Path(path).name
        )

    @classmethod
    def from_pandas(
        cls, frame: pd.DataFrame, *, language: str | None = None, positive: str = SUPPORTED
    ) -> LabelledSentences:
        """Read labels from a DataFrame whose columns are the fields of :meth:`from_jsonl`.

        Errors name the row, counted from 0, and the column.

        Args:
            frame: The DataFrame, with one row per sentence.
            language: The language of all sentences whose row has none.
            positive: The positive label: sentences with this label should get better scores.
        """
        rows = placed(rows_in(frame), "DataFrame")
        return cls(**columns_of(rows, language)._asdict(), positive=positive, source="DataFrame")

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
        labels = {label for labels in self.labels for label in labels}
        return tuple(sorted(labels | {*self.settled} - {""}))

    def counts(self, *, fine: bool = False) -> dict[str, Counter[str]]:
        """Return the number of times that each label was given, by language.

        Undecided labels are included. With one annotator per sentence these are counts of
        sentences, as in Tables 1 and 3 of MEMERAG.

        Args:
            fine: Whether to count the fine-grained labels instead of the labels.
        """
        counts: dict[str, Counter[str]] = {code: Counter() for code in self.languages}
        columns = self.fine if fine else self.labels
        for sentence, labels in zip(self.sentences, columns, strict=True):
            counts[sentence.query.language].update(label for label in labels if label)
        return counts

    def select(
        self, *, languages: Iterable[str] | None = None, fine: Iterable[str] | None = None
    ) -> LabelledSentences:
        """Select sentences by their language, by their fine-grained label, or by both.

        With several annotators, the fine-grained label of a sentence comes from :meth:`majority`.

        Args:
            languages: The languages to select; by default all.
            fine: The fine-grained labels to select; by default all.

        Raises:
            UnknownNameError: No sentence has such a language or fine-grained label.
        """
        codes = self._check_names("language", languages, self.languages)
        available = sorted({label for label in self._fine_majority if label})
        labels = self._check_names("fine-grained label", fine, available)
        return self._rows(
            row
            for row, sentence in enumerate(self.sentences)
            if (codes is None or sentence.query.language in codes)
            and (labels is None or self._fine_majority[row] in labels)
        )

    def merged(self, names: Mapping[str, str], positive: str) -> LabelledSentences:
        """Return the same sentences with renamed labels; labels with the same new name are merged.

        A score can only be evaluated against two labels. Relevance in MEMERAG has three, so two of
        them must be merged.

        Args:
            names: The new name of each label to rename.
            positive: The new name of the positive label: sentences with it should get better
                scores.

        Raises:
            UnknownNameError: A label to rename does not occur.
        """
        self._check_names("label", names, self.names)
        renamed = tuple(tuple(names.get(name, name) for name in labels) for labels in self.labels)
        settled = tuple(names.get(name, name) for name in self.settled)
        return replace(self, labels=renamed, positive=positive, settled=settled)

    def majority(self) -> LabelledSentences:
        """Return the sentences with one label each: the most frequent among the annotators' labels.

        A sentence has no label if two labels are equally frequent, unless the conflict was settled.

        The fine-grained label is the most frequent one among the annotators who gave the majority
        label. MEMERAG's files of majority votes have the same labels, except that ties get the
        first annotator's label.
        """
        labels, fine = (
            tuple((label,) if label else () for label in column)
            for column in (self._majority, self._fine_majority)
        )
        return replace(self, labels=labels, fine=fine, settled=())

    def decided(self) -> tuple[LabelledSentences, dict[str, int]]:
        """Return the sentences with a decided majority label, and count the others by reason.

        Sentences are left out if their majority label is undecided (such as "Challenging to
        determine" in MEMERAG), or if their labels are tied.

        Raises:
            DatasetError: No sentence is left.
        """
        reasons = {
            row: label or NO_MAJORITY
            for row, label in enumerate(self._majority)
            if not label or label in self.undecided
        }
        if len(reasons) == len(self):
            raise DatasetError(
                f"{self.source}: no sentence has a usable label, because every label is undecided "
                "or has no majority; label more sentences, or settle the conflicts"
            )
        rest = self.majority()._rows(row for row in range(len(self)) if row not in reasons)
        return rest, dict(Counter(reasons.values()))

    @cached_property
    def _majority(self) -> tuple[str, ...]:
        majority = tuple(map(_most_common, self.labels))
        if not self.settled:
            return majority
        return tuple(final or most for final, most in zip(self.settled, majority, strict=True))

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
            raise DatasetError(
                f"{self.source}: no sentence has both a selected language and a selected label; "
                "select more languages or labels"
            )
        return replace(
            self,
            sentences=tuple(self.sentences[row] for row in rows),
            labels=tuple(self.labels[row] for row in rows),
            fine=tuple(self.fine[row] for row in rows),
            settled=tuple(self.settled[row] for row in rows) if self.settled else (),
        )

    def _check_names(
        self, kind: str, names: Iterable[str] | None, available: Iterable[str]
    ) -> frozenset[str] | None:
        if names is None:
            return None
        names = frozenset(names)
        for name in sorted(names - {*available}):
            raise UnknownNameError(kind, name, available, f"in {self.source}")
        return names


def _most_common(labels: Iterable[str]) -> str:
    """Return the most frequent label; empty if there is none, or two are equally frequent."""
    (label, most), (_, next_most) = [*Counter(labels).most_common(2), ("", 0), ("", 0)][:2]
    return label if most > next_most else ""
