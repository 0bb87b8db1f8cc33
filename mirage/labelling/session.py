"""The labelling session of one rater: order of the items, labels so far, and file of labels."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mirage._base.journal import Journal
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.labelling.items import PAIR_LABELS, Item, PairItem, item_id, label_key, vote_key
from mirage.labelling.records import Label
from mirage.models import SETTLED, Vote

__all__ = ["SCALE", "Session", "conflicts", "open_session", "rater_of"]

SCALE = ("correct", "partly", "wrong", "cannot tell")
"""The default labels of answers, the positive one first."""

BLOCK = 20
"""Number of items in a block. All raters label the same blocks in the same sequence, but each rater
sees the items of a block in a different order."""

MOST_LABELS = 9
"""Largest number of labels. Each label is given by pressing a digit from 1 to 9."""

Row = Label | Vote


@dataclass
class Session:
    """The items to label, ordered for one rater, and the labels that the rater has given so far.

    Attributes:
        items: The items by their id, in the order of the page.
        swapped: The ids of the pairs whose two responses are shown in reverse order.
        labels: Text of each button, by label.
        rater: The name of the rater; :data:`SETTLED` if the session settles conflicts between
            raters.
        journal: The file of labels, to which each label is appended as soon as it is given.
        rows: All rows of the file, including those of other raters.
        earlier: The conflicting labels of each item, by item id; empty unless the session settles
            conflicts.
    """

    items: Mapping[str, Item]
    swapped: frozenset[str]
    labels: Mapping[str, str]
    rater: str
    journal: Journal[Any]
    rows: list[Row]
    earlier: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, str]:
        """The labels that this rater has given so far, by item id.

        If the page shows the two responses of a pair in reverse order, ``a`` and ``b`` are
        exchanged.
        """
        rows_by_key = {_row_key(row): row for row in self.rows if rater_of(row) == self.rater}
        labels = {}
        for id_, item in self.items.items():
            row = rows_by_key.get(item.key)
            if row is not None and _is_current(row, item):
                labels[id_] = _shown_label(row, item, id_ in self.swapped)
        return labels

    def put(self, id_: str, label: str) -> None:
        """Store the label of an item in the file, and replace an earlier label by the same rater.

        Args:
            id_: The id of the item on the page.
            label: The label. For a pair, ``a`` means the response that the page shows first.

        Raises:
            UnknownNameError: There is no such item or label.
            DatasetError: The file cannot be written.
        """
        if id_ not in self.items:
            raise UnknownNameError("item", id_, ())
        if label not in self.labels:
            raise UnknownNameError("label", label, self.labels)
        item = self.items[id_]
        row: Row = (
            item.record(label, self.rater, id_ in self.swapped)
            if isinstance(item, PairItem)
            else item.record(label, self.rater)
        )
        rest = [r for r in self.rows if (rater_of(r), _row_key(r)) != (self.rater, item.key)]
        if len(rest) == len(self.rows):
            self.journal.add(row)
        else:  # replaces the file in one step, so that no label is lost
            path, record = self.journal.path, type(row)
            self.journal.finish([*rest, row])
            self.journal = Journal(path, record)
        self.rows = [*rest, row]

    def data(self) -> dict[str, Any]:
        """Return the content of the page as JSON data, without the names of the systems."""
        items = []
        for id_, item in self.items.items():
            items.append(
                {
                    "id": id_,
                    "language": item.query.language,
                    "question": item.query.text,
                    "texts": item.texts[:: -1 if id_ in self.swapped else 1],
                    "passages": [[p.id, p.title, p.text] for p in item.query.passages],
                    "earlier": self.earlier.get(id_, ()),
                }
            )
        return {
            "rater": self.rater,
            "task": hashlib.sha256(" ".join([self.rater, *self.items]).encode()).hexdigest()[:16],
            "labels": [[label, text] for label, text in self.labels.items()],
            "items": items,
            "given": self.given,
        }


@contextmanager
def open_session(
    items: Sequence[Item],
    path: Path | None,
    *,
    rater: str = "me",
    scale: Sequence[str] = SCALE,
    seed: int = 0,
    settle: bool = False,
) -> Iterator[Session]:
    """Open the file of labels, and arrange the items for one rater.

    The items within each block of :data:`BLOCK` items are shuffled, and so are the two responses of
    each pair. The random seed and the name of the rater determine the order. Raters who stop early
    have therefore labelled the same blocks, in different orders.

    Args:
        items: The items, in the order of the draw.
        path: The file of labels; it is created if it does not exist. If it is ``None``, labels are
            not stored.
        rater: The name of the rater.
        scale: The labels of answers. Pairs always have the labels ``a``, ``b`` and ``tie``.
        seed: Random seed of the order.
        settle: Whether to present only items on which raters disagree, and store the new labels as
            final.

    Yields:
        The session.

    Raises:
        SettingError: The scale or the name of the rater cannot be used.
        DatasetError: The file has other rows, or another process writes it.
    """
    pairs = isinstance(items[0], PairItem)
    labels = PAIR_LABELS if pairs else _checked_scale(scale)
    if settle:
        rater = SETTLED
    elif rater == SETTLED or not rater.strip():
        raise SettingError(
            f"the rater cannot have the name {rater!r}; the name must not be empty, and "
            f"{SETTLED!r} is reserved for settled conflicts"
        )
    journal: Journal[Any] = Journal(path, Vote if pairs else Label)
    session = Session({}, frozenset(), labels, rater, journal, list(journal.earlier))
    try:
        _check_labels(session, path)
        earlier: dict[int, tuple[Row, ...]] = {}
        order: list[int] = _shuffle_blocks(len(items), seed, rater)
        if settle:
            earlier = _conflicting_rows(items, session.rows)
            order = [position for position in order if position in earlier]
        session.items = {item_id(items[position]): items[position] for position in order}
        sides = np.random.default_rng([seed, 1, _number(rater)]).random(len(items)) < 0.5
        session.swapped = frozenset(
            item_id(items[position]) for position in order if pairs and sides[position]
        )
        session.earlier = {
            id_: _earlier_labels(items[position], rows, id_ in session.swapped)
            for position, rows in earlier.items()
            for id_ in [item_id(items[position])]
        }
        yield session
    finally:
        session.journal.__exit__()


def conflicts(rows: Sequence[Row]) -> dict[tuple[str, ...], tuple[Row, ...]]:
    """Return the rows of each item on which raters disagree, unless the conflict was settled.

    The result maps the key of each such item (:func:`label_key` or :func:`vote_key`) to its rows.
    """
    by_key: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        by_key.setdefault(_row_key(row), {})[rater_of(row)] = row
    return {
        key: tuple(by_rater.values())
        for key, by_rater in by_key.items()
        if SETTLED not in by_rater and len(set(map(_side_free, by_rater.values()))) > 1
    }


def _checked_scale(scale: Sequence[str]) -> dict[str, str]:
    labels = [label.strip() for label in scale]
    if not 2 <= len(labels) <= MOST_LABELS or len({*labels, ""}) <= len(labels):
        raise SettingError(
            f"a scale needs 2 to {MOST_LABELS} different labels, such as correct,wrong; got "
            f"{', '.join(map(repr, labels))}"
        )
    return {label: label for label in labels}


def _check_labels(session: Session, path: Path | None) -> None:
    """Raise a DatasetError if the file has a label that is not in the session's scale."""
    for row in session.rows:
        if isinstance(row, Label) and row.label not in session.labels:
            raise DatasetError(
                f"{path}: the file has the label {row.label!r}, but the scale is "
                f"{', '.join(session.labels)}; use the same --scale as before, or another file"
            )


def _shuffle_blocks(count: int, seed: int, rater: str) -> list[int]:
    generator = np.random.default_rng([seed, 0, _number(rater)])
    blocks = [np.arange(count)[start : start + BLOCK] for start in range(0, count, BLOCK)]
    return [int(position) for block in blocks for position in generator.permutation(block)]


def _number(rater: str) -> int:
    return zlib.crc32(rater.encode("utf-8", "replace"))


def _conflicting_rows(items: Sequence[Item], rows: Sequence[Row]) -> dict[int, tuple[Row, ...]]:
    """Return the rows of each item on which raters disagree, by the position of the item.

    Items that were settled before are included, so that a settled label can be changed.
    """
    first_pass = conflicts([row for row in rows if rater_of(row) != SETTLED])
    return {
        position: first_pass[item.key]
        for position, item in enumerate(items)
        if item.key in first_pass and all(_is_current(row, item) for row in first_pass[item.key])
    }


def _earlier_labels(item: Item, rows: Sequence[Row], swapped: bool) -> tuple[str, ...]:
    labels = sorted(_shown_label(row, item, swapped) for row in rows)
    return tuple(PAIR_LABELS.get(label, label) for label in labels)


def _row_key(row: Row) -> tuple[str, ...]:
    return vote_key(row) if isinstance(row, Vote) else label_key(row)


def rater_of(row: Row) -> str:
    """Return the name of the person who gave the label or vote of a row."""
    return row.judge if isinstance(row, Vote) else row.rater


def _is_current(row: Row, item: Item) -> bool:
    """Return whether a row refers to the item's current responses, and not to earlier versions."""
    return not isinstance(item, PairItem) or (
        isinstance(row, Vote) and row.prompt_digest in item.digests
    )


_OTHER_SIDE = {"a": "b", "b": "a"}


def _shown_label(row: Row, item: Item, swapped: bool) -> str:
    """Return the label of a row; ``a`` and ``b`` are exchanged if the page shows them reversed."""
    if isinstance(row, Label) or not isinstance(item, PairItem):
        return row.label if isinstance(row, Label) else row.verdict
    shown_first = item.pair.model_b if swapped else item.pair.model_a
    return row.verdict if row.model_a == shown_first else _OTHER_SIDE.get(row.verdict, row.verdict)


def _side_free(row: Row) -> str:
    """Return the label of a row or, if the row is a vote, the better model's name or "tie"."""
    if isinstance(row, Label):
        return row.label
    return {"a": row.model_a, "b": row.model_b}.get(row.verdict, row.verdict)
