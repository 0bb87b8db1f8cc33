"""Many judgments as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Union, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage.errors import JudgmentError, needing
from mirage.models import Half, Judgment, Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Judgments", "JudgmentsLike", "as_judgments"]

_SCORES: dict[str, float] = {"a": 1.0, "b": 0.0, "tie": 0.5}
_VERDICTS: dict[float, Verdict] = {1.0: "a", 0.0: "b", 0.5: "tie"}
_HALVES: tuple[Half, ...] = ("first", "second", "")  # the last of them is -1
_CHUNK = 1 << 18  # labels turned into Python objects at a time: what keeps long columns lean


@dataclass(frozen=True, eq=False)
class Judgments:
    """Judgments as numpy columns, a row each.

    ``query``, ``a`` and ``b`` (int32) index into ``query_ids`` and ``models``; ``score`` (float32)
    is what model a got: 1 for a win, 0 for a loss, 0.5 for a tie. Rows take 16 bytes each.

    Make them with :meth:`from_records`, :meth:`from_arrays` or :meth:`from_pandas`, which check
    their input; the constructor itself trusts its arguments. Those three sort ``query_ids`` and
    ``models``, so that the same judgments in another order give the same tournaments.

    ``halves`` (int8, by query) is there where pairs were chosen for what other verdicts had said:
    0 and 1 are the halves of :class:`mirage.arena.AdaptivePairs`, -1 is a query of neither.
    """

    query_ids: tuple[str, ...]
    models: tuple[str, ...]
    query: NDArray[np.int32]
    a: NDArray[np.int32]
    b: NDArray[np.int32]
    score: NDArray[np.float32]
    halves: NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.score)

    @classmethod
    def from_records(cls, records: Iterable[Judgment]) -> Self:
        """The columns of these judgments; their ``judge`` is not kept.

        Raises:
            JudgmentError: there is none, or something else is among them.
        """
        rows = []
        halves: dict[str, Half] = {}
        for number, j in enumerate(records):
            if not isinstance(j, Judgment):
                raise JudgmentError(
                    f"judgment {number} is of type {type(j).__name__}: give Judgment records, a "
                    "pandas frame, or Judgments, whose from_arrays takes columns"
                )
            rows.append((j.query_id, j.model_a, j.model_b, _SCORES[j.verdict]))
            if j.half and halves.setdefault(j.query_id, j.half) != j.half:
                raise JudgmentError(
                    f"judgment {number}: query {j.query_id!r} is in both halves, so these are two "
                    "adaptive comparisons; fit each by itself"
                )
        columns = np.array(rows, dtype=object).reshape(-1, 4).T
        query, a, b = map(_factorize, columns[:3])
        return cls._build(query, a, b, columns[3].astype(np.float32))._in_halves(halves)

    @classmethod
    def from_arrays(
        cls,
        *,
        query: ArrayLike,
        model_a: ArrayLike,
        model_b: ArrayLike,
        score: ArrayLike | None = None,
        verdict: ArrayLike | None = None,
    ) -> Self:
        """The columns of these arrays, each of shape ``(judgments,)``.

        Labels of ``query``, ``model_a`` and ``model_b`` may be of any dtype (text, integers,
        objects) and become text. Either ``score`` says what model a got (1, 0 or 0.5 for a tie) or
        ``verdict`` says ``"a"``, ``"b"`` or ``"tie"``.

        Raises:
            JudgmentError: no rows, arrays of different lengths, a missing label, a score or
                verdict that is none, or a model against itself; the message names the row,
                counting from 0.
        """
        if (score is None) == (verdict is None):
            raise JudgmentError("judgments need either score= or verdict=, and not both")
        scores = _verdict_scores(_factorize(verdict)) if score is None else _check_scores(score)
        return cls._build(_factorize(query), _factorize(model_a), _factorize(model_b), scores)

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame) -> Self:
        """The columns ``query_id``, ``model_a``, ``model_b`` and ``verdict`` of a frame.

        Raises:
            JudgmentError: as :meth:`from_arrays`, or a column is missing.
        """
        names = ("query_id", "model_a", "model_b", "verdict")
        absent = [name for name in names if name not in frame.columns]
        if absent:
            raise JudgmentError(f"the frame of judgments lacks {absent}; it needs {list(names)}")
        coded = []
        for name in names:
            codes, labels = frame[name].factorize()
            codes = np.where(codes < 0, len(labels), codes)  # -1 is pandas' code of a missing label
            coded.append(_Labels(codes.astype(np.int32), [*map(_text, labels), ""]))
        query, a, b, verdict = coded
        return cls._build(query, a, b, _verdict_scores(verdict))

    def to_pandas(self) -> pd.DataFrame:
        """A frame of categorical columns query_id, model_a, model_b, verdict (needs pandas)."""
        with needing("pandas", "frames"):
            import pandas as pd

        def column(codes: NDArray[np.int32], labels: Sequence[str]) -> pd.Categorical[str]:
            return pd.Categorical.from_codes(codes, pd.Index(labels))

        verdict = (self.score * 2).astype(np.int32)  # 0, 1, 2: b, tie, a
        return pd.DataFrame(
            {
                "query_id": column(self.query, self.query_ids),
                "model_a": column(self.a, self.models),
                "model_b": column(self.b, self.models),
                "verdict": column(verdict, ("b", "tie", "a")),
            }
        )

    def to_records(self) -> list[Judgment]:
        """One record a row, in the order of the rows, with an empty ``judge``."""
        columns = self.query, self.a, self.b, self.score
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [
            Judgment(
                query_id=self.query_ids[query],
                model_a=self.models[a],
                model_b=self.models[b],
                verdict=_VERDICTS[score],
                half="" if self.halves is None else _HALVES[int(self.halves[query])],
            )
            for query, a, b, score in rows
        ]

    def results(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How often each model was preferred to each, and tied with it: ``(models, models)``."""
        models = len(self.models)
        cells = self.a.astype(np.intp) * models + self.b
        won, lost, tied = (
            np.bincount(cells[self.score == score], minlength=models**2).reshape(models, models)
            for score in (1.0, 0.0, 0.5)
        )
        return won + lost.T, tied + tied.T

    def _in_halves(self, halves: Mapping[str, Half]) -> Self:
        if not halves:
            return self
        half = {"first": 0, "second": 1}
        places = [half.get(halves.get(query_id, ""), -1) for query_id in self.query_ids]
        return replace(self, halves=np.array(places, dtype=np.int8))

    @classmethod
    def _build(cls, query: _Labels, a: _Labels, b: _Labels, score: NDArray[np.float32]) -> Self:
        columns = {"query": query, "model_a": a, "model_b": b}
        lengths = {name: len(column.codes) for name, column in columns.items()}
        lengths["score or verdict"] = len(score)
        if len(set(lengths.values())) > 1:
            raise JudgmentError(f"columns of judgments differ in length: {lengths}")
        if not len(score):
            raise JudgmentError("there are no judgments")
        for name, column in columns.items():
            row = _first_row(column, [i for i, text in enumerate(column.texts) if not text])
            if row is not None:
                raise JudgmentError(f"row {row}: {name} is missing or empty")
        (queries,), query_ids = _sort_labels(query)
        (codes_a, codes_b), models = _sort_labels(a, b)
        selves = np.flatnonzero(codes_a == codes_b)
        if len(selves):
            row = int(selves[0])
            raise JudgmentError(
                f"row {row} (query {query_ids[queries[row]]!r}): model "
                f"{models[codes_a[row]]!r} is compared with itself"
            )
        return cls(query_ids, models, queries, codes_a, codes_b, score)


JudgmentsLike = Union[Judgments, Iterable[Judgment], "pd.DataFrame"]
"""Judgments as columns, as records, or as a pandas frame."""


def as_judgments(judgments: JudgmentsLike) -> Judgments:
    """Judgments as columns, whether they are that already, records or a frame.

    Raises:
        JudgmentError: there is none, something else is among them, or the frame lacks a column.
    """
    if isinstance(judgments, Judgments):
        return judgments
    if hasattr(judgments, "columns"):
        return Judgments.from_pandas(cast("pd.DataFrame", judgments))
    return Judgments.from_records(judgments)


class _Labels(NamedTuple):
    """A column as codes into texts, in no particular order; an empty text is a missing label."""

    codes: NDArray[np.int32]
    texts: list[str]


def _factorize(values: ArrayLike | None) -> _Labels:
    column = np.asarray(values)
    if column.ndim != 1:
        raise JudgmentError(f"a column of judgments has one dimension, not shape {column.shape}")
    if column.dtype.kind in "iu" and len(column):
        return _factorize_integers(column)
    return _factorize_objects(column)


def _factorize_integers(column: NDArray[Any]) -> _Labels:
    """By a look-up table where the labels lie close together, else by sorting."""
    low, high = int(column.min()), int(column.max())
    if high - low > 4 * len(column) + 1024 or high > np.iinfo(np.int64).max:
        labels, codes = np.unique(column, return_inverse=True)
        return _Labels(codes.astype(np.int32), [str(label) for label in labels.tolist()])
    shifted = column.astype(np.int64) - low  # in the column's own type this could overflow
    present = np.zeros(high - low + 1, dtype=bool)
    present[shifted] = True
    table = np.cumsum(present, dtype=np.int32) - np.int32(1)
    texts = [str(label) for label in (np.flatnonzero(present) + low).tolist()]
    return _Labels(table[shifted], texts)


def _factorize_objects(column: NDArray[Any]) -> _Labels:
    """By a dictionary, chunk by chunk: numpy would sort the whole column of texts."""
    seen: defaultdict[Hashable, int] = defaultdict()
    seen.default_factory = seen.__len__
    codes = np.empty(len(column), dtype=np.int32)
    for start in range(0, len(column), _CHUNK):
        chunk = column[start : start + _CHUNK].tolist()
        codes[start : start + len(chunk)] = np.fromiter(
            map(seen.__getitem__, chunk), dtype=np.int32, count=len(chunk)
        )
    return _Labels(codes, [_text(label) for label in seen])


def _text(label: object) -> str:
    """A label as text; empty where it is missing (None, NaN, pandas.NA)."""
    if isinstance(label, bytes):
        return label.decode()
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return ""
    return "" if label != label else str(label)


def _first_row(column: _Labels, codes: list[int]) -> int | None:
    """The first row that holds one of these codes."""
    rows = np.flatnonzero(np.isin(column.codes, codes)).tolist() if codes else []
    return int(rows[0]) if rows else None


def _sort_labels(*columns: _Labels) -> tuple[list[NDArray[np.int32]], tuple[str, ...]]:
    """The columns as codes into one sorted tuple of texts, which they share."""
    shared = tuple(sorted({text for column in columns for text in column.texts if text}))
    place = {text: code for code, text in enumerate(shared)}
    tables = [np.array([place.get(t, -1) for t in c.texts], dtype=np.int32) for c in columns]
    return [table[c.codes] for table, c in zip(tables, columns, strict=True)], shared


def _check_scores(values: ArrayLike) -> NDArray[np.float32]:
    scores = np.asarray(values)
    if scores.ndim != 1 or scores.dtype.kind not in "biuf":
        raise JudgmentError(
            f"scores are a column of numbers, not shape {scores.shape} of dtype {scores.dtype}"
        )
    bad = np.flatnonzero((scores != 0) & (scores != 0.5) & (scores != 1))
    if len(bad):
        row = int(bad[0])
        raise JudgmentError(f"row {row}: score {scores[row]} is none of 0, 0.5 (a tie) and 1")
    return scores.astype(np.float32)


def _verdict_scores(column: _Labels) -> NDArray[np.float32]:
    row = _first_row(column, [i for i, text in enumerate(column.texts) if text not in _SCORES])
    if row is not None:
        text = column.texts[column.codes[row]]
        raise JudgmentError(f"row {row}: verdict {text!r} is none of 'a', 'b' and 'tie'")
    table = np.array([_SCORES.get(text, np.nan) for text in column.texts], dtype=np.float32)
    return table[column.codes]
