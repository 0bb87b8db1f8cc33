"""Test sets and their rejected items: the records, their files and the decisions of a review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from mirage._base.files import (
    json_object,
    lines,
    read_rows,
    refuse_link,
    validated,
    write_records,
    writing,
)
from mirage._base.tables import Table, to_text
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.models import Id, Query, Record
from mirage.testsets.askable import Askable
from mirage.testsets.evaluation_sets import reason_counts
from mirage.testsets.item_checks import Draft, Fault, FaultKind, ItemKind

FEWEST_CLUSTERS = 29
"""The smallest number of clusters that can rule out a mean loss of 0.1 at confidence 0.95.

This many clusters are enough if none of them has a loss. The number is ``log(0.05) / log(0.9)``,
rounded up; see
:func:`mirage.statistics.upper_bounds`.
"""

SKIPPED: FaultKind = "instructions in the passage"
"""The kind of fault of a passage that was skipped because it contains instructions."""


class RejectedItem(Record):
    """A rejected item or a skipped passage, and the reasons.

    Attributes:
        id: The id of the draft; no item of the test set has this id.
        kind: The kind of item that was requested.
        faults: The faults, at least one.
        passages: The ids of the passages that the item was written from.
        draft: The text of the item; ``None`` if there is none that can be parsed.
    """

    id: Id
    kind: ItemKind
    faults: tuple[Fault, ...]
    passages: tuple[Id, ...]
    draft: Draft | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ItemSet:
    """Items that passed all checks, rejected items, and the passages that were considered.

    It prints as a table with the number of drafts that each check rejected.

    Attributes:
        queries: The items, in the order of their drafts. The ``metadata`` of an item contain its
            ``kind`` and its ``document``. ``found_at`` is the BM25 rank of a passage that the item
            was written from, in a search with the question; the best rank if there are several. If
            an LLM answered the question, ``closed_book`` rates its answer without passages
            (``right``, ``wrong`` or ``none``), and ``checked_by`` is its name.
        rejected: The rejected items with their faults.
        askable: The passages worth asking about, and the reasons why other passages are not.
        wanted: The number of items that were requested.
        language: The ISO 639-1 code of all items.
    """

    queries: tuple[Query, ...]
    rejected: tuple[RejectedItem, ...]
    askable: Askable
    wanted: int
    language: str

    @property
    def dataset(self) -> MirageDataset:
        """The items as a dataset.

        Raises:
            DatasetError: If there is no item.
        """
        if not self.queries:
            first = next(
                (
                    f"; the first fault is: {f.detail}"
                    for item in self.rejected
                    for f in item.faults
                ),
                "",
            )
            reasons = reason_counts(item.faults[0].kind for item in self.rejected)
            reasons = reasons or "the LLM wrote none"
            raise DatasetError(f"no item passed the checks ({reasons}{first})")
        return MirageDataset(self.queries, name=f"made-{self.language}")

    @property
    def covered(self) -> int:
        """The number of documents that at least one item is about."""
        return len({document for query in self.queries for document in documents_of(query)})

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of drafts, rejections, items, documents and clusters, by short labels.

        Rejections are counted by their first fault, and items also by their kind.
        """
        first = Counter(item.faults[0].kind for item in self.rejected)
        skipped = first.pop(SKIPPED, 0)
        kinds = Counter(query.metadata["kind"] for query in self.queries)
        return {
            "drafts": len(self.queries) + first.total(),
            **{reason: first[reason] for reason in get_args(FaultKind) if first[reason]},
            "items": len(self.queries),
            **{f"kind {kind}": kinds[kind] for kind in get_args(ItemKind) if kinds[kind]},
            "known without passages": sum(
                query.metadata.get("closed_book") == "right" for query in self.queries
            ),
            "passages skipped for instructions": skipped,
            "documents": self.askable.documents,
            "documents worth asking about": self.askable.askable_documents,
            "documents covered": self.covered,
            "clusters": len({query.cluster for query in self.queries}),
        }

    @property
    def unasked(self) -> int:
        """The number of drafts for which a call failed; a repeated build retries these calls."""
        return sum(item.faults[0].kind == "not asked" for item in self.rejected)

    def __repr__(self) -> str:
        return f"ItemSet({len(self.queries)} items, {len(self.rejected)} rejected)"

    def __str__(self) -> str:
        counts = self.counts
        rest, rows = counts["drafts"], [("drafts", "", str(counts["drafts"]))]
        for reason in get_args(FaultKind):
            if reason in counts:
                rest -= counts[reason]
                rows.append((reason, str(counts[reason]), str(rest)))
        kinds = ", ".join(
            f"{kind} {counts[f'kind {kind}']}"
            for kind in get_args(ItemKind)
            if f"kind {kind}" in counts
        )
        few = f", and at least {FEWEST_CLUSTERS} are needed to show that a system is not worse"
        skipped = [item.passages[0] for item in self.rejected if item.faults[0].kind == SKIPPED]
        names = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        instructions = (
            f"passages skipped for instructions to a reader or a model: {len(skipped)} ({names})"
        )
        notes = (
            *([instructions] if skipped else ()),
            f"{len(self.queries)} of {self.wanted} items that were requested; {kinds or 'no kind'}",
            f"covered: {counts['documents covered']} documents of {counts['documents']}, of which "
            f"{counts['documents worth asking about']} have a passage worth asking about",
            f"answered correctly without passages: {counts['known without passages']}",
            f"clusters (items that share a document): {counts['clusters']}; each counts as one "
            "query in comparisons of two runs"
            f"{few if counts['clusters'] < FEWEST_CLUSTERS else ''}",
        )
        head, marks = ("draft", "rejected", "left"), (False,) * len(rows)
        return to_text(Table("A test set from documents", head, tuple(rows), marks, notes, name=0))

    def write(self, path: str | Path) -> None:
        """Write the items to ``path`` as a dataset, and the rejected items to a file beside it.

        If ``path`` is ``NAME.jsonl``, the file of rejected items is ``NAME.rejected.jsonl``.

        Raises:
            DatasetError: If there is no item, or a file cannot be written.
        """
        file = Path(path)
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_records(self.rejected, beside(file, "rejected"))
        self.dataset.save(file)


def beside(path: Path, what: str) -> Path:
    """Return the path of a companion file of a dataset, such as ``tests.rejected.jsonl``.

    ``what`` is the part of the name before ``.jsonl``, such as ``rejected``.
    """
    companion = path.with_name(f"{path.stem}.{what}.jsonl")
    refuse_link(companion)
    return companion


def documents_of(query: Query) -> Iterator[str]:
    """Yield the ids of the documents that an item is about; an id may occur more than once."""
    yield query.metadata["document"]
    relevant = set(query.relevant)
    yield from (each.document_id for each in query.passages if each.id in relevant)


class _Decisions(Record):
    """The decisions from the review page of a test set.

    ``struck`` maps the ids of the removed items to the reviewer's notes. ``dataset`` is the name of
    the test set.
    """

    dataset: str
    struck: dict[str, str]


def strike(dataset: MirageDataset, decisions: str | Path) -> MirageDataset:
    """Return a dataset without the items that a reviewer removed on the review page.

    Args:
        dataset: The items.
        decisions: The file of decisions that the page of :func:`mirage.report.write_review` saved.

    Raises:
        DatasetError: If the file is invalid or about another dataset, or no item is left.
        UnknownNameError: If the file names an item that the dataset does not have.
    """
    path = Path(decisions)
    text = " ".join(line for _, line in lines(path))
    review = validated(_Decisions, json_object(str(path), text)[1], str(path))
    if review.dataset != dataset.name:
        raise DatasetError(
            f"{path}: the review decisions are about the dataset {review.dataset!r}, not about "
            f"{dataset.name!r}; give the file for this dataset"
        )
    for id_ in review.struck:
        dataset[id_]  # raises an error that suggests the nearest id
    queries = [query for query in dataset if query.id not in review.struck]
    return MirageDataset(queries, name=dataset.name)


def read_rejected(dataset: str | Path) -> tuple[RejectedItem, ...]:
    """Read the rejected items that :meth:`ItemSet.write` wrote beside a dataset.

    Args:
        dataset: The file of the dataset. If it has no file of rejected items, the result is empty.

    Raises:
        DatasetError: If the file of rejected items is damaged.
    """
    path = beside(Path(dataset), "rejected")
    if not path.is_file():
        return ()
    return tuple(validated(RejectedItem, row, where) for where, row in read_rows(path))
