"""Count the queries and passages in a file of queries, and list its problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mirage._base.files import lines, parse_rows, validated
from mirage.errors import DatasetError
from mirage.models import Query

PROBLEMS_SHOWN = 10


@dataclass(frozen=True)
class Survey:
    """Counts of queries and their passages, and a list of problems; ``str()`` formats them as text.

    Attributes:
        name: Name of the file or dataset.
        languages: Number of queries by language code.
        queries: Number of queries.
        passages: Number of passages of all queries.
        passages_per_query: Smallest and largest number of passages per query; ``None`` if there are
            no queries.
        relevant: Number of relevant passages of all queries.
        with_reference: Number of queries with a reference.
        answerable: Number of queries that are marked as answerable.
        unanswerable: Number of queries that are marked as unanswerable.
        problems: Errors and contradictions that prevent the use of the queries, each with its
            location in the file.
        remarks: Remarks on missing data, such as ``3 of 40 queries have no reference, ...``.
            Without these data, some features cannot be computed.
    """

    name: str
    languages: Mapping[str, int]
    queries: int
    passages: int
    passages_per_query: tuple[int, int] | None
    relevant: int
    with_reference: int
    answerable: int
    unanswerable: int
    problems: tuple[str, ...]
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        languages = ", ".join(f"{code} ({n})" for code, n in self.languages.items()) or "none"
        fewest, most = self.passages_per_query or (0, 0)
        hidden = len(self.problems) - PROBLEMS_SHOWN
        return "\n".join(
            (
                self.name,
                f"  languages      {languages}",
                f"  queries        {self.queries}",
                f"  passages       {self.passages} ({fewest} to {most} a query)",
                f"  relevant       {self.relevant}",
                f"  references     {self.with_reference}",
                f"  answerable     {self.answerable}, unanswerable {self.unanswerable}",
                *(f"  remark: {remark}" for remark in self.remarks),
                *(f"  problem: {problem}" for problem in self.problems[:PROBLEMS_SHOWN]),
                *([f"  ... and {hidden} more problems"] if hidden > 0 else []),
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as a dictionary of values that JSON can represent."""
        return asdict(self)


def survey(name: str, queries: Iterable[Query]) -> Survey:
    """Count queries, passages and references, and list the problems of the queries.

    Args:
        name: Name of the dataset, for the title.
        queries: Queries, which need not form a valid dataset.

    Example:
        >>> from mirage import Query
        >>> survey("mine", [Query(id="q1", language="en", text="Who?")]).remarks[0]
        '1 of 1 queries have no passages, so nothing supports a response'
    """
    return _survey(name, [(f"query {query.id}", query) for query in queries], [])


def survey_file(path: str | Path) -> Survey:
    """Count queries, passages and references in a JSON Lines file, and list its problems.

    Lines that are not valid queries are listed as problems.

    Args:
        path: Path of the file.
    """
    queries, problems = [], []
    for where, line in lines(Path(path)):
        try:
            for _, row in parse_rows(line, where):
                queries.append((where, validated(Query, row, where)))
        except DatasetError as error:
            # Each line is parsed separately, so the message calls it line 1; use its real number.
            problems.append(str(error).replace(f"{where}, line 1", where))
    if not queries and not problems:
        problems.append(f"{path}: there is no query in this file")
    return _survey(str(path), queries, problems)


def _survey(name: str, places: Sequence[tuple[str, Query]], problems: list[str]) -> Survey:
    queries = [query for _, query in places]
    sizes = [len(query.passages) for query in queries]
    return Survey(
        name=name,
        languages=dict(Counter(query.language for query in queries)),
        queries=len(queries),
        passages=sum(sizes),
        passages_per_query=(min(sizes), max(sizes)) if sizes else None,
        relevant=sum(len(query.relevant) for query in queries),
        with_reference=sum(query.reference is not None for query in queries),
        answerable=sum(query.answerable is True for query in queries),
        unanswerable=sum(query.answerable is False for query in queries),
        problems=(*problems, *_problems(places)),
        remarks=tuple(_remarks(queries)),
    )


def _problems(places: Sequence[tuple[str, Query]]) -> Iterator[str]:
    first: dict[str, str] = {}
    language = places[0][1].language if places else ""
    for where, query in places:
        if query.id in first:
            yield f"{where}: query {query.id!r} occurs a second time; first: {first[query.id]}"
        first.setdefault(query.id, where)
        # A dataset has one language, and so do features and surrogates.
        if query.language != language:
            yield (
                f"{where}: query {query.id!r} is in {query.language!r}, but the first one is in "
                f"{language!r}; use one file per language"
            )
        blank = [passage.id for passage in query.passages if not passage.text.strip()]
        if blank:
            yield f"{where}: query {query.id!r}: passage {blank[0]!r} has no text"
        if query.answerable is False and query.relevant:
            yield f"{where}: query {query.id!r} is unanswerable, but has relevant passages"


def _remarks(queries: Sequence[Query]) -> Iterator[str]:
    counts = {
        "have no passages, so nothing supports a response": sum(not q.passages for q in queries),
        "have no relevant passage, so citations are not measured": sum(
            bool(q.passages) and not q.relevant for q in queries
        ),
        "name a relevant passage that is not among their passages": sum(
            bool(q.passages) and not set(q.relevant) <= set(q.passage_ids) for q in queries
        ),
        "have no reference, so overlap with it is not measured": sum(
            q.reference is None for q in queries
        ),
    }
    for remark, count in counts.items():
        if count:
            yield f"{count} of {len(queries)} queries {remark}"
