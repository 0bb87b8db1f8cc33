"""Test sets are made from documents: what passes is sound, what fails is listed with its reason."""

from __future__ import annotations

from pathlib import Path

from item_llm import ItemWriter, documents_of
from llm_server import ChatServer

from mirage import LLM, FeatureSuite, MirageDataset, Response, Run
from mirage.building import build_test_set

ENGLISH = MirageDataset.bundled("en")
SINGLE = {"single": 1.0}


def llm(server: ChatServer) -> LLM:
    return LLM("writer", base_url=server.url, cache=False)


def test_items_are_a_dataset_that_features_and_boards_take(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = ItemWriter(ENGLISH, known=frozenset({"q01", "q05"}))
    documents, out = documents_of(ENGLISH), tmp_path / "tests.jsonl"
    made = build_test_set(
        documents,
        language="en",
        llm=llm(server),
        items=5,
        kinds=SINGLE,
        shown=4,
        out=out,
        progress=False,
    )
    dataset = MirageDataset.from_jsonl(out)
    assert list(dataset) == list(made.queries)
    assert len(dataset) == 5
    for query in dataset:
        assert len(query.passages) == 4
        (relevant,) = query.relevant
        assert query.cluster == query[relevant].document_id
        original = next(each for each in ENGLISH if each.text == query.text)
        known = "right" if original.id in ("q01", "q05") else "none"
        assert query.metadata["closed_book"] == known
    responses = tuple(Response(query_id=query.id, text=query.reference) for query in dataset)
    run = Run(model="best", language="en", responses=responses)
    means = FeatureSuite(["answer_match", "citation_recall@10"], "en").score(dataset, run).mean()
    assert means.tolist() == [1.0, 1.0]
