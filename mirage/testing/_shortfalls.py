"""The error that a failed assertion raises; its message shows the worst queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from mirage._base.quoting import visible
from mirage._base.tables import Table, to_text
from mirage.dataset import MirageDataset
from mirage.errors import MirageError
from mirage.features import FeatureTable
from mirage.features.base import answered
from mirage.models import Run
from mirage.testing._current_test import record

P = ParamSpec("P")
T = TypeVar("T")

_MOST = 5  # queries to show
_QUESTION, _RESPONSE = 80, 120  # characters to show


class FellShortError(AssertionError):
    """The error raised if a model is worse than a test requires; it shows the worst queries."""


FellShortError.__module__ = "mirage.testing"  # users import it from there


def raise_at_caller(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate an assertion so that pytest reports its errors at the calling line of the test.

    The traceback of a :class:`FellShortError` or :class:`~mirage.MirageError` ends at that line and
    shows no code of this library.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except (FellShortError, MirageError) as error:
            raise error.with_traceback(None) from error.__cause__

    return wrapper


class Finding(NamedTuple):
    """A query to show in an error message, and what is wrong with its response."""

    query_id: str
    why: str


def shortfall_error(
    title: str,
    header: Sequence[str],
    rows: Sequence[tuple[tuple[str, ...], bool]],
    notes: Iterable[str] = (),
) -> FellShortError:
    """Return the error of a failed assertion; its message is a table at most 80 characters wide.

    ``title`` is the line above the table, and ``header`` contains the names of the columns. Each
    row is a pair: its cells, and whether to highlight them. ``notes`` are printed below the table.
    """
    cells, highlights = zip(*rows, strict=True)
    table = Table(title, tuple(header), tuple(cells), tuple(highlights), tuple(notes), name=0)
    return FellShortError(to_text(table))


def inconclusive_error(text: str) -> FellShortError:
    """Return the error of an inconclusive assertion, with ``text`` as its message."""
    return FellShortError(visible(text))


def worst_lines(
    findings: Sequence[Finding], about: str, dataset: MirageDataset, run: Run
) -> list[str]:
    """Return a heading and one line per finding, for the first five findings.

    A line contains the question, the fault and the answer. The heading consists of ``about`` and
    the number of findings. The list is empty if there are no findings.
    """
    if not findings:
        return []
    more = f", the {_MOST} worst" if len(findings) > _MOST else ""
    return [
        f"{about} ({len(findings)}{more}):",
        *(_line(finding, dataset, run) for finding in findings[:_MOST]),
    ]


def _line(finding: Finding, dataset: MirageDataset, run: Run) -> str:
    question = shorten(dataset[finding.query_id].text)
    line = f"- {finding.query_id} “{question}” {finding.why}"
    response = run.get(finding.query_id)
    if response is None or response.text is None:
        return line
    answer = answered(dataset[finding.query_id], response).parsed.answer
    return f"{line}; answer: {shorten(answer, _RESPONSE)}" if answer else f"{line}; answer: none"


def shorten(text: str, most: int = _QUESTION) -> str:
    """Return a text on one line, cut to at most ``most`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def format_value(value: float) -> str:
    """Return the value of a feature, formatted for messages."""
    return f"{value:.3f}"


def format_change(before: float, after: float) -> str:
    """Return a change of a feature, formatted for messages."""
    # Adding 0.0 turns a rounded -0.0 into +0.0.
    return f"{round(after - before, 3) + 0.0:+.3f}"


def worse_queries(
    worse: NDArray[np.float64],
    table: FeatureTable,
    show: Callable[[int, int], str],
    first: Sequence[int] = (),
    leading: Collection[int] = (),
) -> list[Finding]:
    """Return the queries that have worse values than a reference, the worst first.

    Each query comes with a description of up to three features.

    Args:
        worse: How much worse each value is than the reference, of shape ``(queries, features)``;
            above 0 is worse.
        table: Features of the run.
        show: Function that describes the value at a row and column.
        first: Columns that decide the order of the queries and are described first; all columns
            if empty.
        leading: Columns to describe before the rest of ``first``.
    """
    amounts = np.nan_to_num(worse, nan=0.0).clip(min=0.0)
    columns = list(first) or list(range(amounts.shape[1]))
    total = amounts[:, columns].sum(axis=1)
    findings = []
    for i in np.argsort(-total, kind="stable")[: np.count_nonzero(total)].tolist():
        order = sorted(
            np.flatnonzero(amounts[i]).tolist(),
            key=lambda j: (j not in columns, j not in leading, -amounts[i, j]),
        )
        findings.append(Finding(table.query_ids[i], ", ".join(show(i, j) for j in order[:3])))
    return findings


def check_failed(run: Run, dataset: MirageDataset, allow_failed: int) -> None:
    """Raise an error if the model failed on more than ``allow_failed`` queries.

    A query also fails if the run has no response to it.
    """
    failures = {response.query_id: response.error for response in run.failed}
    failures |= {id_: "no response to this query" for id_ in dataset.query_ids if not run.get(id_)}
    lost = [Finding(query_id, f"failed: {why}") for query_id, why in failures.items()]
    check_lost(lost, "failed on", run, dataset, allow_failed)


def check_lost(
    lost: Sequence[Finding], how: str, run: Run, dataset: MirageDataset, allow_failed: int
) -> None:
    """Raise an error if a run lost more than ``allow_failed`` queries.

    The error is also recorded in the running test.

    Args:
        lost: The queries that the model failed on, or for which only the baseline has a value.
        how: Words between the model and the number of queries in the message; ``"failed on"`` gives
            "my-model failed on 2 of 28 queries".
        run: The responses.
        dataset: The queries.
        allow_failed: Number of queries that may be lost.
    """
    if len(lost) <= allow_failed:
        return
    of = f"{len(lost)} of {len(dataset)}"
    facts = {"model": run.model, "queries": len(dataset), "failed": len(lost)}
    record("mirage.failed", {**facts, "allowed": allow_failed, "held": False})
    raise shortfall_error(
        f"{run.model} {how} {of} queries of {dataset.name}; at most {allow_failed} are allowed",
        ("model", "queries lost", "allowed"),
        [((run.model, of, str(allow_failed)), True)],
        worst_lines(lost, "Queries", dataset, run),
    )
