"""Datasets: the queries of one language, with their passages and what is known of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, SupportsIndex, overload

from mirage._base.files import parse_rows, read_rows, validated, write_records
from mirage._base.quoting import utf8_text
from mirage._base.tables import Table, to_html
from mirage.errors import DatasetError, UnknownNameError
from mirage.languages import Language
from mirage.models import Query, Response, Run
from mirage.text import parse, tokenize

__all__ = ["Cluster", "MirageDataset", "clusters_of", "read_run", "write_run"]

Cluster = str | Callable[[Query], str | None] | Mapping[str, str] | None
"""What queries hang together by, such as the document that several of them are about.

``None``: their own :attr:`Query.cluster <mirage.Query>`; a text: the key of ``metadata`` that names
it; a function of the query, or a mapping from query id, that gives the name. A query without a name
is a cluster by itself.
"""


def clusters_of(queries: Iterable[Query], cluster: Cluster = None) -> dict[str, str]:
    """The name of the cluster, by id, of each query that has one.

    Raises:
        UnknownNameError: no query has such a key of metadata, or there is no query of such an id.
        DatasetError: a function gives something other than a text.
    """
    queries = list(queries)
    if isinstance(cluster, str):
        keys = dict.fromkeys(key for query in queries for key in query.metadata)
        if cluster not in keys:
            raise UnknownNameError("key of the queries' metadata to cluster by", cluster, keys)
    elif isinstance(cluster, Mapping):
        ids = {query.id: None for query in queries}
        for id_ in cluster:
            if id_ not in ids:
                raise UnknownNameError("query to cluster", id_, ids)
    names = {query.id: _cluster_name(query, cluster) for query in queries}
    return {id_: name for id_, name in names.items() if name is not None}


def _cluster_name(query: Query, cluster: Cluster) -> str | None:
    if cluster is None:
        return query.cluster
    if isinstance(cluster, str):
        return query.metadata.get(cluster) or None
    name = cluster.get(query.id) if isinstance(cluster, Mapping) else cluster(query)
    if name is None or (isinstance(name, str) and name):
        return name
    raise DatasetError(
        f"the cluster of query {query.id!r} is {name!r}; give a text that names it, or None where "
        "it is by itself"
    )


_SHOWN = 10
"""Queries of a dataset that a notebook shows."""


class MirageDataset(Sequence[Query]):
    """Queries of one language, in a fixed order, looked up by position or by id.

    Build one from :meth:`bundled` data, JSON Lines (:meth:`from_jsonl`), TREC files
    (:meth:`from_trec`), MIRAGE-Bench (:meth:`from_hub`) or from any iterable of
    :class:`~mirage.Query`. It is immutable: slicing and :meth:`sample` give new ones.

    Args:
        queries: the queries, in their order.
        name: how errors and tables call the dataset.
        retrieved: whether the passages were found for the queries, by a retriever that is
            examined too; then the responses of a run carry them.

    Raises:
        DatasetError: no query, two languages, or one query id twice.
    """

    def __init__(
        self, queries: Iterable[Query], *, name: str = "dataset", retrieved: bool = False
    ) -> None:
        self._queries = tuple(queries)
        self.name: str = name
        self.retrieved: bool = retrieved
        if not self._queries:
            raise DatasetError(f"{name} has no query; a dataset needs one or more")
        other = next((query for query in self._queries if not isinstance(query, Query)), None)
        if other is not None:
            raise DatasetError(
                f"{name} consists of Query objects, and not of {type(other).__name__}; "
                "MirageDataset.from_jsonl reads a file"
            )
        languages = sorted({query.language for query in self._queries})
        if len(languages) > 1:
            raise DatasetError(
                f"{name} mixes the languages {', '.join(languages)}; make one dataset a language"
            )
        self.language: str = languages[0]
        self._by_id = {query.id: query for query in self._queries}
        if len(self._by_id) != len(self._queries):
            twice = Counter(query.id for query in self._queries).most_common(1)[0][0]
            raise DatasetError(f"{name} holds query {twice!r} twice; query ids are unique")

    @classmethod
    def bundled(cls, language: str) -> MirageDataset:
        """The benchmark that ships with the library: 40 parallel queries a language.

        Thirty have passages that answer them, one to four of the five that are shown; ten have
        none. ``metadata["kind"]`` says what each asks for, such as ``two_passages``.
        """
        code = Language.of(language).code
        source = resources.files("mirage") / "data" / "mini" / f"{code}.jsonl"
        rows = parse_rows(source.read_text(encoding="utf-8"), f"bundled {code}")
        return cls((validated(Query, row, where) for where, row in rows), name=f"bundled-{code}")

    @classmethod
    def from_jsonl(cls, path: str | Path) -> MirageDataset:
        """Read a file with one query a line, as :meth:`to_jsonl` writes it.

        Raises:
            DatasetError: names the file, the line and the field that is wrong.
        """
        path = Path(path)
        queries: dict[str, Query] = {}
        for where, row in read_rows(path):
            query = validated(Query, row, where)
            _check_addition(query, queries, where)
            queries[query.id] = query
        if not queries:
            raise DatasetError(f"{path}: no query in this file")
        return cls(queries.values(), name=utf8_text(path.stem))

    def to_jsonl(self, path: str | Path) -> None:
        """Write one query a line; :meth:`from_jsonl` reads back an equal dataset.

        Raises:
            DatasetError: the file cannot be written.
        """
        write_records(self._queries, Path(path))

    @classmethod
    def from_trec(
        cls,
        topics: str | Path,
        qrels: str | Path,
        passages: str | Path | None = None,
        *,
        language: str,
    ) -> MirageDataset:
        """Read TREC topics and qrels, and the passages they name where there is a file of them.

        ``topics`` has lines ``id<TAB>text``; ``qrels`` has lines ``id Q0 passage-id relevance``,
        relevance above 0 meaning relevant; ``passages`` is JSON Lines of
        :class:`~mirage.Passage` (``docid`` is understood for ``id``). A query shows the passages
        judged for it, in the order of the qrels; without a passage file it shows none.

        Raises:
            DatasetError: names the file and line; also for a judged passage without a text.
            UnknownNameError: no such language.
        """
        from mirage.sources import trec

        texts = None if passages is None else Path(passages)
        code = Language.of(language).code
        queries = list(trec.queries(Path(topics), Path(qrels), texts, code))
        if not queries:
            raise DatasetError(f"{topics}: no query in this file")
        return cls(queries, name=utf8_text(Path(topics).stem))

    @classmethod
    def from_qa(
        cls,
        path: str | Path,
        form: str = "answers",
        *,
        language: str | None = None,
        qrels: str | Path | None = None,
    ) -> MirageDataset:
        """Read questions with short answers, or judged ones, as others publish them.

        The readers are in :mod:`mirage.sources.qa`, which says what each makes of a file.

        Args:
            path: the file, gzipped or not; for BEIR the folder.
            form: ``answers`` (plain JSON Lines), ``kilt``, ``mkqa``, ``xor-tydi`` or ``beir``.
            language: ISO 639-1 code of queries that do not say theirs; of files in several, which
                to take.
            qrels: relevance in place of the queries' own: a file of TREC, BEIR or KILT.

        Raises:
            DatasetError: names the file, the line and what is wrong with it.
            SettingError: the form needs a language.
            UnknownNameError: no such form or language.
        """
        from mirage.sources import qa

        queries: dict[str, Query] = {}
        for query in qa.queries(path, form, language=language, qrels=qrels):
            _check_addition(query, queries, str(path))
            queries[query.id] = query
        if not queries:
            raise DatasetError(f"{path}: no query in this file")
        return cls(queries.values(), name=utf8_text(Path(path).name.partition(".")[0]))

    @classmethod
    def from_hub(
        cls,
        language: str,
        *,
        path: str | Path | None = None,
        revisions: Mapping[str, str] | None = None,
    ) -> MirageDataset:
        """The queries of MIRAGE-Bench in one language, from the Hugging Face hub.

        A query's reference is GPT-4's output, as in the benchmark. Needs the extra ``hub``.

        Args:
            path: a folder with copies of the benchmark's datasets, to read in place of the hub.
            revisions: commit hashes by name of the dataset, such as ``nthakur/mirage-bench``. By
                default what the first download found, which was then the newest: it is kept.

        Raises:
            DatasetError: the hub cannot be reached (says what to run where it can), or a file is
                not as it should be (names the row).
            UnknownNameError: no such language or dataset.
            MissingPackageError: the extra is not installed.
        """
        from mirage.sources import hub

        queries = hub.queries(language, path=path, revisions=revisions)
        return cls(queries, name=f"mirage-bench-{queries[0].language}")

    def __len__(self) -> int:
        return len(self._queries)

    def __iter__(self) -> Iterator[Query]:
        return iter(self._queries)

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> Query: ...

    @overload
    def __getitem__(self, key: slice) -> MirageDataset: ...

    def __getitem__(self, key: SupportsIndex | str | slice) -> Query | MirageDataset:
        if isinstance(key, slice):
            return self._with(self._queries[key])
        if not isinstance(key, str):
            return self._queries[key]
        try:
            return self._by_id[key]
        except KeyError:
            raise UnknownNameError(f"query of {self.name}", key, self._by_id) from None

    def __contains__(self, key: object) -> bool:
        return key in self._by_id if isinstance(key, str) else key in self._queries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MirageDataset) and self._queries == other._queries

    def __hash__(self) -> int:
        return hash(self.query_ids)

    def __repr__(self) -> str:
        return f"MirageDataset({self.name!r}, language={self.language!r}, queries={len(self)})"

    def _repr_html_(self) -> str:
        """For notebooks: what is in it, and the first queries."""
        rows = tuple(
            (query.id, _short(query.text), str(len(query.passages)), str(len(query.relevant)))
            for query in self._queries[:_SHOWN]
        )
        left = len(self) - len(rows)
        return to_html(
            Table(
                f"{self.name}: {Language.of(self.language).name}, {len(self)} queries",
                ("id", "query", "passages", "relevant"),
                rows,
                notes=(f"and {left} more",) if left else (),
            )
        )

    @cached_property
    def query_ids(self) -> tuple[str, ...]:
        """The ids of the queries, in order."""
        return tuple(query.id for query in self._queries)

    def sample(self, n: int, *, seed: int = 0) -> MirageDataset:
        """``n`` queries drawn without replacement, in the dataset's order.

        Raises:
            DatasetError: it has not so many.
        """
        if not 1 <= n <= len(self):
            raise DatasetError(f"cannot sample {n} of the {len(self)} queries of {self.name}")
        places = sorted(random.Random(seed).sample(range(len(self)), n))
        return self._with([self._queries[i] for i in places])

    def clustered(self, cluster: Cluster) -> MirageDataset:
        """The same queries, each with the name of its cluster (:attr:`Query.cluster`).

        Args:
            cluster: a key of ``metadata``, a function of the query, or a mapping from query id.

        Raises:
            UnknownNameError: there is no such key, or no query of such an id.
            DatasetError: a function gives something other than a text.
        """
        names = clusters_of(self, cluster)
        return self._with(
            [query.model_copy(update={"cluster": names.get(query.id)}) for query in self]
        )

    def without_gold(self) -> MirageDataset:
        """The same queries as a system gets them; see :meth:`mirage.Query.without_gold`."""
        return self._with([query.without_gold() for query in self._queries])

    def describe(self, *, tokens: Callable[[str], Sized] | None = None) -> dict[str, Any]:
        """What is in the dataset, as plain numbers.

        Those of Table 1 of MIRAGE-Bench (arXiv 2410.13716, section 3.1) are among them: queries,
        mean tokens of a query, mean relevant and non-relevant passages, and mean tokens of the
        reference's context (its reason section) and answer, each with its citations. A mean is
        over the queries that have what it is of, and ``None`` where none has.

        Args:
            tokens: splits a text, by default :func:`mirage.text.tokenize`: words, or characters
                where a script has no spaces. The paper counts those of GPT-4o,
                ``tiktoken.get_encoding("o200k_base").encode``, which are shorter.
        """
        n = len(self)
        shown = [len(query.passages) for query in self]
        answerable = [query.answerable for query in self if query.answerable is not None]
        split = tokens or (lambda text: tokenize(text, self.language))
        references = [
            parse(query.reference, self.language, query.passage_ids)
            for query in self
            if query.reference is not None
        ]
        return {
            "name": self.name,
            "language": self.language,
            "queries": n,
            "query_tokens": _mean(len(split(query.text)) for query in self),
            "passages": sum(shown),
            "passages_per_query": sum(shown) / n,
            "relevant_per_query": sum(len(query.relevant) for query in self) / n,
            "non_relevant_per_query": _mean(
                len(set(query.passage_ids) - set(query.relevant))
                for query in self
                if query.relevant or query.answerable is False
            ),
            "with_reference": len(references),
            "reason_tokens": _mean(len(split(one.reason)) for one in references if one.reason),
            "answer_tokens": _mean(len(split(one.answer)) for one in references if one.answer),
            "with_answers": sum(bool(query.answers) for query in self),
            "answerable": sum(answerable),
            "unanswerable": len(answerable) - sum(answerable),
        }

    def _with(self, queries: Sequence[Query]) -> MirageDataset:
        return MirageDataset(queries, name=self.name, retrieved=self.retrieved)


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _mean(values: Iterable[int]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _check_addition(query: Query, queries: Mapping[str, Query], where: str) -> None:
    """Refuse a query that cannot join those above it in its file."""
    if query.id in queries:
        raise DatasetError(
            f"{where}, field 'id': query {query.id!r} stands here a second time; query ids are "
            "unique"
        )
    language = next(iter(queries.values()), query).language
    if query.language != language:
        raise DatasetError(
            f"{where}, field 'language': {query.language!r}, but the queries above are in "
            f"{language!r}; make one dataset a language"
        )


def read_run(path: str | Path, *, language: str, model: str = "") -> Run:
    """Read a run from JSON Lines with one :class:`~mirage.Response` a line.

    ``output`` and ``response`` are understood for ``text``. The model is named after the file
    unless ``model`` is given.

    Raises:
        DatasetError: names the file, the line and the field that is wrong.
        UnknownNameError: no such language.
    """
    path = Path(path)
    code = Language.of(language).code
    responses: dict[tuple[str, int], Response] = {}
    for where, row in read_rows(path):
        for alias in ("output", "response"):
            if alias in row and "text" not in row:
                row["text"] = row.pop(alias)
        response = validated(Response, row, where)
        key = response.query_id, response.repeat
        if key in responses:
            raise DatasetError(
                f"{where}, field 'query_id': query {response.query_id!r} is answered here a second "
                "time; a run answers a query once, but for repeats, which have a number "
                '("repeat": 1)'
            )
        responses[key] = response
    if not responses:
        raise DatasetError(f"{path}: no response in this file")
    return Run(
        model=model or utf8_text(path.stem), language=code, responses=tuple(responses.values())
    )


def write_run(run: Run, path: str | Path) -> None:
    """Write a run's responses to ``path`` as JSON Lines; :func:`read_run` reads them back.

    Raises:
        DatasetError: the file cannot be written.
    """
    write_records(run.responses, Path(path))
