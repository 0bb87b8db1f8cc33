"""Datasets: the queries of one language, with their passages and ground truth."""

from __future__ import annotations

import json
import random
import reprlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from mirage._base.files import parse_rows, record_rows, validated, write_records
from mirage._base.near_names import NearNames
from mirage._base.quoting import utf8_text
from mirage._base.tables import Table, frame_of, to_html
from mirage.errors import DatasetError, UnknownNameError
from mirage.languages import Language
from mirage.models import Query
from mirage.text import parse, tokenize

if TYPE_CHECKING:
    import pandas as pd

Cluster = str | Callable[[Query], str | None] | Mapping[str, str] | None
"""How to assign queries to clusters, such as the document that several queries are about.

- ``None``: the name of a query's cluster is :attr:`Query.cluster <mirage.Query>`.
- A text: the key of ``metadata`` under which each query has the name of its cluster.
- A function that takes a query and returns the name of its cluster, or a mapping from query ids to
  these names.

A query without a name is a cluster by itself.
"""


def clusters_of(queries: Iterable[Query], cluster: Cluster = None) -> dict[str, str]:
    """Return the name of the cluster of each query, by query id.

    A cluster is a group of related queries. Queries that belong to no cluster are left out.

    Args:
        queries: Queries to cluster.
        cluster: Source of the names: a key of ``metadata``, a function of the query, or a mapping
            from query id (:data:`Cluster`). By default :attr:`Query.cluster <mirage.Query>`.

    Raises:
        UnknownNameError: If no query has the key in its metadata, or if a mapping has an id that no
            query has.
        DatasetError: If ``cluster`` is a function that returns an empty text, or something other
            than a text or None.
    """
    queries = list(queries)
    if isinstance(cluster, str):
        keys = dict.fromkeys(key for query in queries for key in query.metadata)
        if cluster not in keys:
            raise UnknownNameError("metadata key", cluster, keys, "in the queries")
    elif isinstance(cluster, Mapping):
        ids = {query.id: None for query in queries}
        for id_ in cluster:
            if id_ not in ids:
                raise UnknownNameError("query id", id_, ids)
    names = {query.id: cluster_name(query, cluster) for query in queries}
    return {id_: name for id_, name in names.items() if name is not None}


def cluster_name(query: Query, cluster: Cluster) -> str | None:
    """Return the name of a query's cluster, or ``None`` if the query belongs to no cluster.

    ``cluster`` is the source of the name: a key of ``metadata``, a function of the query, or a
    mapping from query id. With ``None``, the name is :attr:`Query.cluster <mirage.Query>`.
    """
    if cluster is None:
        return query.cluster
    if isinstance(cluster, str):
        return query.metadata.get(cluster) or None
    name = cluster.get(query.id) if isinstance(cluster, Mapping) else cluster(query)
    if name is None or (isinstance(name, str) and name):
        return name
    raise DatasetError(
        f"the cluster of query {query.id!r} is {name!r}; it must be a text that is not empty, or "
        "None for a query without a cluster"
    )


LEVELS: Mapping[str, str] = MappingProxyType({"quick": "mini", "hard": "hard"})
"""Levels of difficulty of the bundled queries, each with the name of its folder in the package."""


def bundled_name(code: str, level: str) -> str:
    """Return the name of a bundled dataset, such as ``bundled-sw`` or ``bundled-sw-hard``."""
    return f"bundled-{code}" if level == "quick" else f"bundled-{code}-{level}"


def _queries_of_dossiers(
    dossiers: Iterable[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the queries of dossiers as pairs of location and row.

    A dossier is a group of queries with the same passages and cluster; both are added to each row.
    """
    for where, dossier in dossiers:
        shared = {"passages": dossier["passages"], "cluster": dossier["cluster"]}
        for row in dossier["queries"]:
            yield where, row | shared


_NOTEBOOK_ROWS = 10
"""Number of queries of a dataset that a notebook shows."""


class MirageDataset(NearNames, Sequence[Query]):
    """The queries of one language in a fixed order, accessible by position or by id.

    Build a dataset from :meth:`bundled` data, JSON Lines (:meth:`load`), TREC files
    (:meth:`from_trec`), MIRAGE-Bench (:meth:`from_hub`) or any iterable of :class:`~mirage.Query`.
    A dataset is immutable: slicing and :meth:`sample` return new ones.

    Args:
        queries: Queries, in order.
        name: Name of the dataset in errors and tables.
        retrieved: Whether the passages were retrieved by the evaluated system. If so, the responses
            of a run contain the passages.

    Raises:
        DatasetError: If there is no query, if the queries have several languages, or if two queries
            have the same id.

    Example:
        >>> dataset = MirageDataset.bundled("sw")
        >>> len(dataset), dataset.language, dataset[0].id
        (40, 'sw', 'q01')
    """

    def __init__(
        self, queries: Iterable[Query], *, name: str = "dataset", retrieved: bool = False
    ) -> None:
        self._queries = tuple(queries)
        self.name: str = name
        self.retrieved: bool = retrieved
        if not self._queries:
            raise DatasetError(f"{name} has no queries, but a dataset needs at least one")
        stranger = next((query for query in self._queries if not isinstance(query, Query)), None)
        if stranger is not None:
            raise DatasetError(
                f"{name} must be created from Query objects, got {type(stranger).__name__}; "
                f"{_hint(queries, stranger)}"
            )
        languages = sorted({query.language for query in self._queries})
        if len(languages) > 1:
            raise DatasetError(
                f"{name} mixes the languages {', '.join(languages)}; make one dataset per language"
            )
        self.language: str = languages[0]
        self._by_id = {query.id: query for query in self._queries}
        if len(self._by_id) != len(self._queries):
            duplicate = Counter(query.id for query in self._queries).most_common(1)[0][0]
            raise DatasetError(
                f"{name} contains query {duplicate!r} twice; query ids must be unique"
            )

    @classmethod
    def bundled(cls, language: str, *, level: str = "quick") -> MirageDataset:
        """Return a benchmark that ships with the library: the same queries in each language.

        ``metadata["kind"]`` is the type of the question, such as ``two_passages``.

        Args:
            language: ISO 639-1 code.
            level: Difficulty, one of :data:`LEVELS`. ``"quick"`` has 40 general-knowledge queries.
                Thirty of them show five passages, of which one to four contain the answer; the
                passages of the other ten do not answer the query. ``"hard"`` has 60 queries about
                twelve made-up dossiers, each a set of 12 to 15 passages. Fifty of the queries
                require two to four passages together, and ten have no answer. Queries about one
                dossier form a cluster.

        Raises:
            UnknownNameError: If there is no such language or level, or the language has no bundled
                queries.

        Example:
            >>> hard = MirageDataset.bundled("sw", level="hard")
            >>> len(hard), hard[0].cluster, hard[0].metadata["kind"]
            (60, '01-council', 'update')
        """
        code = Language.with_board(language).code
        if level not in LEVELS:
            raise UnknownNameError("level", level, LEVELS, "of the bundled queries")
        name = bundled_name(code, level)
        source = resources.files("mirage") / "data" / LEVELS[level] / f"{code}.jsonl"
        rows = parse_rows(source.read_text(encoding="utf-8"), name)
        queries = _queries_of_dossiers(rows) if level == "hard" else rows
        return cls((validated(Query, row, where) for where, row in queries), name=name)

    @classmethod
    def load(cls, path: str | Path) -> MirageDataset:
        """Read a JSON Lines file with one query per line, as :meth:`save` writes it.

        A Parquet file with one column per field of a query is read too (extra ``retrieval``).

        Args:
            path: Path of the file. Its stem is the name of the dataset.

        Raises:
            DatasetError: If a line is invalid. The message names the file, the line and the field.
        """
        path = Path(path)
        if path.suffix.lower() in (".csv", ".tsv"):
            raise DatasetError(
                f"{path}: expected JSON Lines or Parquet; MirageDataset.from_qa reads CSV and TSV"
            )
        queries: dict[str, Query] = {}
        for where, row in record_rows(path):
            query = validated(Query, row, where)
            check_addition(query, queries, next(iter(queries.values()), query).language, where)
            queries[query.id] = query
        if not queries:
            raise DatasetError(f"{path}: the file has no queries")
        return cls(queries.values(), name=utf8_text(path.stem))

    def save(self, path: str | Path) -> None:
        """Write one query per line as JSON Lines; :meth:`load` reads back an equal dataset.

        Args:
            path: Path of the file.

        Raises:
            DatasetError: If the file cannot be written.
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
        """Read TREC topics and qrels, and optionally the texts of the judged passages.

        A query shows the passages judged for it, in the order of the qrels. Without a passage file
        it shows none.

        Args:
            topics: File with lines ``id<TAB>text``.
            qrels: File with lines ``id Q0 passage-id relevance``. Relevance above 0 means relevant.
            passages: JSON Lines file of :class:`~mirage.Passage` objects; ``docid`` is an alias of
                ``id``.
            language: ISO 639-1 code of the queries.

        Raises:
            DatasetError: If a line is invalid, or a judged passage has no text in the passage file.
                The message names the file and the line.
            UnknownNameError: If there is no such language.
        """
        from mirage.sources import trec

        texts = None if passages is None else Path(passages)
        code = Language.of(language).code
        queries = list(trec.queries(Path(topics), Path(qrels), texts, code))
        if not queries:
            raise DatasetError(f"{topics}: the file has no queries")
        return cls(queries, name=utf8_text(Path(topics).stem))

    @classmethod
    def from_qa(
        cls,
        path: str | Path | Sequence[Path],
        form: str = "answers",
        *,
        language: str | None = None,
        qrels: str | Path | None = None,
        fields: Mapping[str, str] | None = None,
        where: Mapping[str, object] | None = None,
        paragraphs: bool = False,
        judged: bool = False,
    ) -> MirageDataset:
        """Read a published dataset of questions with short answers or relevance judgments.

        The readers are in :mod:`mirage.sources.qa`, which describes how each of them converts a
        file.

        Args:
            path: File (JSON Lines, gzipped or not, or Parquet; for ``answers`` also CSV or TSV), or
                several files. For BEIR, the folder.
            form: Format: ``answers`` (plain rows), ``kilt``, ``mkqa``, ``xor-tydi`` or
                ``beir``.
            language: ISO 639-1 code of the queries that name no language. For files of the formats
                ``mkqa`` and ``xor-tydi``, which have several languages, the language to read.
            qrels: TREC, BEIR or KILT file of relevance judgments, which are used instead of those
                in ``path``.
            fields: Names that a file of the format ``answers`` uses for the fields, such as
                ``{"answers": "correct_answers"}``; see :func:`mirage.sources.qa.answers`.
            where: Values that the fields of a row must have for the row to be read, such as
                ``{"label": 1}``. By default all rows are read.
            paragraphs: Whether to read the relevant paragraphs (``page#3``) from a KILT file
                instead of the relevant pages. :func:`mirage.corpus.read_documents` reads the texts
                of the paragraphs.
            judged: Whether to leave out the queries for which ``qrels`` has no judgment.

        Raises:
            DatasetError: If the file is invalid. The message names the file, the line and the
                problem.
            SettingError: If the format needs a language and none is passed, if a setting does not
                apply to the format, or if a setting needs a KILT file or ``qrels``.
            UnknownNameError: If there is no such format, language or field.
        """
        from mirage.sources import qa

        queries: dict[str, Query] = {}
        source = Path(path) if isinstance(path, str | Path) else path[0]
        for query in qa.queries(
            path,
            form,
            language=language,
            qrels=qrels,
            fields=fields,
            where=where,
            paragraphs=paragraphs,
            judged=judged,
        ):
            first = next(iter(queries.values()), query)
            check_addition(query, queries, first.language, str(source))
            queries[query.id] = query
        if not queries:
            raise DatasetError(f"{source}: the file has no queries")
        return cls(queries.values(), name=utf8_text(source.name.partition(".")[0]))

    @classmethod
    def from_hub(
        cls,
        language: str,
        *,
        path: str | Path | None = None,
        revisions: Mapping[str, str] | None = None,
    ) -> MirageDataset:
        """Return the queries of MIRAGE-Bench in one language, from the Hugging Face hub.

        The reference of a query is the output of GPT-4, as in the benchmark. This needs the extra
        ``hub``.

        Args:
            language: ISO 639-1 code.
            path: Folder with copies of the benchmark's datasets, to read in place of the hub.
            revisions: Commit hash of the revision to read, by name of the dataset, such as
                ``nthakur/mirage-bench``. By default the newest revision is downloaded once, and
                later calls use it again.

        Raises:
            DatasetError: If the hub cannot be reached (the message gives a command for a machine
                with access), or if a file is invalid (the message names the row).
            UnknownNameError: If there is no such language or dataset.
            MissingPackageError: If the extra is not installed.
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
            return self._with_queries(self._queries[key])
        if not isinstance(key, str):
            return self._queries[key]
        try:
            return self._by_id[key]
        except KeyError:
            raise UnknownNameError("query", key, self._by_id, f"in {self.name}") from None

    def __contains__(self, key: object) -> bool:
        return key in self._by_id if isinstance(key, str) else key in self._queries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MirageDataset) and self._queries == other._queries

    def __hash__(self) -> int:
        return hash(self.query_ids)

    def __repr__(self) -> str:
        return f"MirageDataset({self.name!r}, language={self.language!r}, queries={len(self)})"

    def _repr_html_(self) -> str:
        """Return an HTML table of the first queries, for notebooks."""
        rows = tuple(
            (query.id, _short(query.text), str(len(query.passages)), str(len(query.relevant)))
            for query in self._queries[:_NOTEBOOK_ROWS]
        )
        remaining = len(self) - len(rows)
        return to_html(
            Table(
                f"{self.name}: {Language.of(self.language).name}, {len(self)} queries",
                ("id", "query", "passages", "relevant"),
                rows,
                notes=(f"and {remaining} more",) if remaining else (),
            )
        )

    @cached_property
    def query_ids(self) -> tuple[str, ...]:
        """The ids of the queries, in order."""
        return tuple(query.id for query in self._queries)

    def sample(self, n: int, *, seed: int = 0) -> MirageDataset:
        """Draw ``n`` queries without replacement, and return them in the dataset's order.

        Args:
            n: Number of queries.
            seed: Random seed.

        Raises:
            DatasetError: If ``n`` is below 1 or above the number of queries.

        Example:
            >>> len(MirageDataset.bundled("en").sample(5))
            5
        """
        if not 1 <= n <= len(self):
            raise DatasetError(
                f"n must be from 1 to {len(self)}, the number of queries of {self.name}; got n={n}"
            )
        positions = sorted(random.Random(seed).sample(range(len(self)), n))
        return self._with_queries([self._queries[i] for i in positions])

    def filter(self, condition: Callable[[Query], bool]) -> MirageDataset:
        """Return the queries for which a condition is true, in their order.

        Args:
            condition: Function of a query that returns whether to keep the query.

        Raises:
            DatasetError: If the condition is true for no query.

        Example:
            >>> len(MirageDataset.bundled("en").filter(lambda query: not query.answerable))
            10
        """
        return self._with_queries([query for query in self if condition(query)])

    def clustered(self, cluster: Cluster) -> MirageDataset:
        """Return the same queries, each with the name of its cluster (:attr:`Query.cluster`).

        Args:
            cluster: Source of the names: a key of ``metadata``, a function of the query, or a
                mapping from query id.

        Raises:
            UnknownNameError: If no query has the key in its metadata, or if a mapping has an id
                that no query has.
            DatasetError: If ``cluster`` is a function that returns an empty text, or something
                other than a text or None.

        Example:
            >>> queries = MirageDataset.bundled("en").clustered("kind")
            >>> all(query.cluster == query.metadata["kind"] for query in queries)
            True
        """
        names = clusters_of(self, cluster)
        return self._with_queries(
            [query.model_copy(update={"cluster": names.get(query.id)}) for query in self]
        )

    def without_gold(self) -> MirageDataset:
        """Return the queries without their ground truth, as an evaluated system receives them.

        See :meth:`mirage.Query.without_gold`.
        """
        return self._with_queries([query.without_gold() for query in self._queries])

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per query and one column per field of a query.

        Lists and passages become Python lists and dicts, and metadata becomes JSON.
        :func:`mirage.integrations.frames.dataset_from_frame` reads the DataFrame back.

        Raises:
            MissingPackageError: If pandas is not installed.

        Example:
            >>> frame = MirageDataset.bundled("en").sample(2).to_pandas()
            >>> frame.shape[0], list(frame.columns[:3])
            (2, ['id', 'language', 'text'])
        """
        return frame_of(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        """Return the queries as dictionaries of plain values."""
        rows = [query.model_dump(mode="json") for query in self]
        return [row | {"metadata": json.dumps(row["metadata"], ensure_ascii=False)} for row in rows]

    def describe(self, *, tokens: Callable[[str], Sized] | None = None) -> dict[str, Any]:
        """Return counts and means of the dataset, as plain numbers by name.

        They include the columns of Table 1 of MIRAGE-Bench (arXiv 2410.13716, section 3.1): the
        number of queries, the mean number of tokens per query, and the mean numbers of relevant and
        of non-relevant passages. Two more values describe the reference responses: the mean
        numbers of tokens of the reason section (the context, in the paper) and of the answer,
        including citations. A mean is taken over the queries for which the value exists; it is
        ``None`` if there is no such query.

        Args:
            tokens: Function that splits a text into tokens. By default
                :func:`mirage.text.tokenize`, which returns words, or characters if a script has no
                spaces. The paper counts the tokens of GPT-4o, which are shorter: pass
                ``tiktoken.get_encoding("o200k_base").encode``.

        Example:
            >>> MirageDataset.bundled("en").describe()["queries"]
            40
        """
        n = len(self)
        passage_counts = [len(query.passages) for query in self]
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
            "passages": sum(passage_counts),
            "passages_per_query": sum(passage_counts) / n,
            "relevant_per_query": sum(len(query.relevant) for query in self) / n,
            "non_relevant_per_query": _mean(
                len(set(query.passage_ids) - set(query.relevant))
                for query in self
                if query.relevant or query.answerable is False
            ),
            "with_reference": len(references),
            "reason_tokens": _mean(
                len(split(reference.reason)) for reference in references if reference.reason
            ),
            "answer_tokens": _mean(
                len(split(reference.answer)) for reference in references if reference.answer
            ),
            "with_answers": sum(bool(query.answers) for query in self),
            "answerable": sum(answerable),
            "unanswerable": len(answerable) - sum(answerable),
        }

    def _with_queries(self, queries: Sequence[Query]) -> MirageDataset:
        return MirageDataset(queries, name=self.name, retrieved=self.retrieved)


def _hint(queries: object, stranger: object) -> str:
    """Return how to build a dataset from objects that are not queries."""
    if hasattr(queries, "column_names"):  # a Hugging Face dataset or an Arrow table
        return "mirage.integrations.datasets.dataset_from reads a table"
    if hasattr(queries, "columns"):
        return "mirage.integrations.frames.dataset_from_frame reads a DataFrame"
    if isinstance(stranger, Mapping):
        return "Query(**row) converts a dict with the fields id, language and text"
    return "to read a file, use MirageDataset.load"


def _short(text: str, limit: int = 100) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _mean(values: Iterable[int]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None


def check_addition(query: Query, ids: Container[str], language: str, where: str) -> None:
    """Raise an error if a query has the same id as an earlier query, or is in another language.

    Args:
        query: Query to check.
        ids: Ids of the earlier queries.
        language: Language of the earlier queries.
        where: Location of the query, for the message.
    """
    if query.id in ids:
        raise DatasetError(
            f"{where}, field 'id': query {query.id!r} occurs a second time; query ids must be "
            "unique"
        )
    if query.language != language:
        raise DatasetError(
            f"{where}, field 'language': {query.language!r}, but the queries above it are in "
            f"{language!r}; make one dataset per language"
        )


DatasetLike = MirageDataset | str | Path
"""A dataset, the language code of a bundled dataset, or the path of a JSON Lines file of queries.
"""


def as_dataset(dataset: DatasetLike) -> MirageDataset:
    """Return a dataset unchanged, or load the one that a language code or a path names.

    Args:
        dataset: A dataset, the code of a language with bundled queries, or the path of a file.

    Raises:
        DatasetError: If ``dataset`` is neither a dataset nor a text nor a path, or if the file is
            missing or invalid.
        UnknownNameError: If a text without a file ending is not the code of a language.

    Example:
        >>> as_dataset("sw").name
        'bundled-sw'
    """
    if isinstance(dataset, MirageDataset):
        return dataset
    if isinstance(dataset, Path) or (isinstance(dataset, str) and Path(dataset).suffix):
        return MirageDataset.load(dataset)
    if isinstance(dataset, str):
        return MirageDataset.bundled(dataset)
    raise DatasetError(
        f"{reprlib.repr(dataset)} is not a dataset; pass a MirageDataset, a language such as 'en' "
        "for the bundled one, or the path of a JSON Lines file of queries"
    )
