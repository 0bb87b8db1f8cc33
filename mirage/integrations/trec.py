"""TREC run files: what queries show, and what responses cite, as rankings of passages.

A run file has a line ``query-id Q0 passage-id rank score tag`` for each ranked passage. Here it is
a mapping from query id to the scores of passages by id, the form that ir_measures, ranx and
pytrec_eval take as well.

The citations of a response are a ranking too, in the order of first mention, so these packages
compute ``citation_recall@10`` (their ``R@10``) and ``citation_map@10`` (their ``AP@10``), or any
other measure. A response that cites nothing stands in the mapping with no passage and counts as 0;
in a file it has no line, and what reads the file has to be told to count it (``trec_eval -c``). A
query without relevant passages has no qrels, and a query on which the model failed has none
either when ``qrels`` is given the run: neither counts, as in a feature table.

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
from mirage.models import Passage, Query, Run
from mirage.retrieval import RetrievalRun
from mirage.retrieval import qrels as relevance

__all__ = [
    "Scores",
    "citations",
    "qrels",
    "ranked",
    "read_run",
    "shown",
    "write_dataset",
    "write_qrels",
    "write_run",
]

Scores = dict[str, dict[str, float]]
"""Scores of passages by query id and passage id; the highest comes first."""


# Rankings -----------------------------------------------------------------------------------------


def shown(dataset: MirageDataset) -> Scores:
    """The passages of each query in the order in which it shows them; the last has score 1."""
    return {query.id: _descending(query.passage_ids) for query in dataset}


def citations(dataset: MirageDataset, run: Run) -> Scores:
    """The passages that each response cites, in order of first mention; the last has score 1.

    A query on which the model failed is left out.

    Raises:
        UnknownNameError: the run answers a query that the dataset does not have.
    """
    check_ids((response.query_id for response in run), dataset, f"by model {run.model!r}")
    return {
        response.query_id: _descending(
            answered(dataset[response.query_id], response).parsed.citations
        )
        for response in run
        if response.text is not None
    }


def qrels(dataset: MirageDataset, run: Run | None = None) -> dict[str, dict[str, int]]:
    """Relevance by query id and passage id: 1 for relevant passages, 0 for others that are shown.

    A query without relevant passages is left out, and so is one on which ``run`` failed: a
    measure would give it 0, where nothing was measured.
    """
    judged = relevance(dataset)
    if run is None:
        return judged
    return {id_: grades for id_, grades in judged.items() if _has_text(run, id_)}


def ranked(
    dataset: MirageDataset, scores: Scores, passages: Mapping[str, Passage] | None = None
) -> MirageDataset:
    """The same queries, each showing the passages of a ranking, highest score first.

    A query that the ranking leaves out shows no passage: nothing was found for it. Equal scores
    keep the order of the mapping, which is that of the ranks in a file.

    Args:
        dataset: the queries.
        scores: the ranking, such as :func:`read_run` gives.
        passages: texts of passages by id, for those that a query does not show already
            (``mirage.sources.trec.read_passages`` reads them).

    Raises:
        UnknownNameError: the ranking has a query that the dataset does not have.
        DatasetError: a ranked passage has no text; names it and the query.
    """
    check_ids(scores, dataset, "in the ranking")
    known = passages or {}
    return MirageDataset(
        (_showing(query, scores.get(query.id, {}), known) for query in dataset), name=dataset.name
    )


def _showing(query: Query, scores: dict[str, float], passages: Mapping[str, Passage]) -> Query:
    texts = {**passages, **{passage.id: passage for passage in query.passages}}
    order = _order(scores)
    missing = next((passage_id for passage_id in order if passage_id not in texts), None)
    if missing is not None:
        raise DatasetError(
            f"passage {missing!r}, ranked for query {query.id!r}, has no text: the query does not "
            "show it, and it is not in passages="
        )
    return query.model_copy(update={"passages": tuple(texts[id_] for id_ in order)})


def _descending(passage_ids: Iterable[str]) -> dict[str, float]:
    ids = tuple(passage_ids)
    return {passage_id: float(len(ids) - i) for i, passage_id in enumerate(ids)}


def _order(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=scores.__getitem__, reverse=True)  # stable: ties keep their order


def _has_text(run: Run, query_id: str) -> bool:
    response = run.get(query_id)
    return response is not None and response.text is not None


# Files --------------------------------------------------------------------------------------------


def read_run(path: str | Path) -> Scores:
    """Read a run file; passages stand in the order of their scores, and of equal scores, ranks.

    Raises:
        DatasetError: names the file and the line that is not as it should be.
    """
    return RetrievalRun.read(path).scores()


def write_run(scores: Scores, path: str | Path, *, tag: str) -> None:
    """Write a run file at ``path``, ranks from 1; ``tag`` names what ranked.

    Raises:
        DatasetError: as :meth:`mirage.retrieval.RetrievalRun.write`.
    """
    RetrievalRun.of(scores).write(path, tag=tag)


def write_qrels(grades: Mapping[str, Mapping[str, int]], path: str | Path) -> None:
    """Write what :func:`qrels` gives at ``path``, as a file that ``MirageDataset.from_trec`` reads.

    Raises:
        DatasetError: an id is empty or has a blank in it, which such a file cannot say.
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
    """Write ``topics.tsv``, ``qrels.txt`` and ``passages.jsonl`` into a folder, made where missing.

    ``MirageDataset.from_trec`` reads them. References and which passages a query shows in which
    order have no place there.

    Raises:
        DatasetError: two passages have one id, or a query has what a line cannot say; nothing is
            written then.
    """
    passages: dict[str, Passage] = {}
    for query in dataset:
        for passage in query.passages:
            if passages.setdefault(passage.id, passage) != passage:
                raise DatasetError(
                    f"query {query.id!r}: passage {passage.id!r} has another text than in a query "
                    "before; in TREC's files an id names one passage"
                )
        if {"\t", "\n", "\r"} & {*query.id, *query.text} or " " in query.id:
            raise DatasetError(
                f"query {query.id!r}: TREC's topics are lines id<TAB>text, with no room "
                "for its tabs, line ends or blanks in the id"
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
    for fields in rows:
        broken = next((field for field in fields if field.split() != [field]), None)
        if broken is not None:
            raise DatasetError(
                f"{path}: {broken!r} cannot stand in a TREC file, whose fields are parted by "
                "blanks; use ids and a tag without any"
            )
        text.append(" ".join(fields) + "\n")
    write_text(path, "".join(text))
