"""TREC run files and qrels for the passages that responses cite.

A run file has a line ``query-id Q0 passage-id rank score tag`` for each ranked passage. In Python,
a run is a mapping from query id to the scores of passages by id; ir_measures, ranx and pytrec_eval
accept such mappings too. :class:`mirage.retrieval.RetrievalRun` reads a run file, and
:class:`mirage.retrieval.RunRetriever` gives its passages to a pipeline.

The citations of a response, in the order of first mention, are a ranking. So these packages can
compute ``citation_recall@10`` (their ``R@10``), ``citation_map@10`` (their ``AP@10``) and other
measures. In the mapping, a response that cites nothing has no passages and counts as 0. A run file
has no line for it, so the evaluation tool needs an option that counts it (``trec_eval -c``). A
query without relevant passages has no qrels. If a run is passed to ``qrels``, a query on which the
model failed has no qrels either. Such queries do not count, as in a feature table.

    import ir_measures
    from mirage import MirageDataset, respond
    from mirage.integrations import trec

    dataset = MirageDataset.bundled("en")
    run = respond(lambda query: f"##Answer: {query.text} [{query.passages[0].id}]", dataset)
    measures = [ir_measures.R @ 10, ir_measures.AP @ 10]
    cited = trec.citations(dataset, run)
    print(ir_measures.calc_aggregate(measures, trec.qrels(dataset, run), cited))
    trec.write_run(cited, "citations.trec", tag="my-model")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from mirage._base.files import write_records, write_text, writing
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.features.base import answered
from mirage.generation.base import check_ids
from mirage.models import Passage, Run
from mirage.retrieval import RetrievalRun
from mirage.retrieval import qrels as relevance
from mirage.retrieval.run import descending_scores

__all__ = [
    "Scores",
    "citations",
    "qrels",
    "write_dataset",
    "write_qrels",
    "write_run",
]

Scores = dict[str, dict[str, float]]
"""Scores by query id and passage id; the passage with the highest score is first."""


# Rankings -----------------------------------------------------------------------------------------


def citations(dataset: MirageDataset, run: Run) -> Scores:
    """Return the citations of each response as a ranking: scores by query id and passage id.

    The passage that is cited first has the highest score, and the last one has score 1. Queries on
    which the model failed are left out.

    Args:
        dataset: The dataset.
        run: Responses to queries of the dataset.

    Raises:
        UnknownNameError: If the run answers a query that the dataset does not have.

    Example:
        >>> from mirage import MirageDataset, respond
        >>> dataset = MirageDataset.bundled("en").sample(1)
        >>> run = respond(lambda query: f"Yes [{query.passages[0].id}].", dataset)
        >>> [list(scores.values()) for scores in citations(dataset, run).values()]
        [[1.0]]
    """
    check_ids((response.query_id for response in run), dataset, f"by model {run.model!r}")
    return {
        response.query_id: descending_scores(
            answered(dataset[response.query_id], response).parsed.citations
        )
        for response in run
        if response.text is not None
    }


def qrels(dataset: MirageDataset, run: Run | None = None) -> dict[str, dict[str, int]]:
    """Return relevance by query id and passage id: 1 for relevant passages, 0 for other ones.

    Queries without relevant passages are left out, and so are queries on which ``run`` failed,
    because evaluation tools would count them as 0 although nothing was measured.

    Args:
        dataset: The dataset.
        run: A run on the dataset, or ``None`` to include all queries.

    Example:
        >>> from mirage import MirageDataset
        >>> grades = qrels(MirageDataset.bundled("en"))
        >>> {grade for judged in grades.values() for grade in judged.values()} <= {0, 1}
        True
    """
    judged = relevance(dataset)
    if run is None:
        return judged
    return {id_: grades for id_, grades in judged.items() if _has_text(run, id_)}


def _has_text(run: Run, query_id: str) -> bool:
    response = run.get(query_id)
    return response is not None and response.text is not None


# Files --------------------------------------------------------------------------------------------


def write_run(scores: Scores, path: str | Path, *, tag: str) -> None:
    """Write a run file with ranks from 1.

    Args:
        scores: Scores by query id and passage id.
        path: The file to write.
        tag: Name of the system that made the ranking.

    Raises:
        DatasetError: If an id or the tag cannot be written; see
            :meth:`mirage.retrieval.RetrievalRun.write`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_run({"q1": {"p2": 2.0, "p1": 1.0}}, f"{folder}/run.trec", tag="mine")
        ...     RetrievalRun.read(f"{folder}/run.trec").scores()
        {'q1': {'p2': 2.0, 'p1': 1.0}}
    """
    RetrievalRun.of(scores).write(path, tag=tag)


def write_qrels(grades: Mapping[str, Mapping[str, int]], path: str | Path) -> None:
    """Write relevance grades to a file that ``MirageDataset.from_trec`` can read.

    Args:
        grades: Grades by query id and passage id, such as the result of :func:`qrels`.
        path: The file to write.

    Raises:
        DatasetError: If an id is empty or contains white space, which the format does not allow.
    """
    _write(
        (
            (query_id, "Q0", passage_id, str(grade))
            for query_id, judged in grades.items()
            for passage_id, grade in judged.items()
        ),
        Path(path),
    )


def write_dataset(dataset: MirageDataset, folder: str | Path) -> None:
    """Write ``topics.tsv``, ``qrels.txt`` and ``passages.jsonl`` into a folder.

    ``MirageDataset.from_trec`` can read the files. They contain neither references nor the order in
    which a query lists its passages.

    Args:
        dataset: The dataset.
        folder: The folder, which is created if it does not exist.

    Raises:
        DatasetError: If two passages have the same id, or a query contains characters that the
            format does not allow. No file is written then.
    """
    passages: dict[str, Passage] = {}
    for query in dataset:
        for passage in query.passages:
            if passages.setdefault(passage.id, passage) != passage:
                raise DatasetError(
                    f"query {query.id!r}: an earlier query has a passage with the same id "
                    f"{passage.id!r}, but a different text; in TREC files, passages with the same "
                    "id must be equal"
                )
        if {"\t", "\n", "\r"} & {*query.id, *query.text} or " " in query.id:
            raise DatasetError(
                f"query {query.id!r}: TREC topics are lines id<TAB>text, so id and text must not "
                "contain tabs or line breaks, and the id no spaces"
            )
    folder = Path(folder)
    text = "".join(f"{query.id}\t{query.text}\n" for query in dataset)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "topics.tsv", text)
    write_qrels(qrels(dataset), folder / "qrels.txt")
    write_records(passages.values(), folder / "passages.jsonl")


def _write(rows: Iterable[tuple[str, ...]], path: Path) -> None:
    text = []
    # Check every row before anything is written.
    for fields in rows:
        broken = next((field for field in fields if field.split() != [field]), None)
        if broken is not None:
            raise DatasetError(
                f"{path}: {broken!r} cannot be written to a TREC file, whose fields are separated "
                "by spaces; use ids and a run tag without white space"
            )
        text.append(" ".join(fields) + "\n")
    write_text(path, "".join(text))
