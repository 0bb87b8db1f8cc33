"""The values that a system may return: a text, a text with its passages, or a response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cases import each_case
from llm_server import ChatServer

from mirage import HTTPGenerator, Leaderboard, Pipeline, respond
from mirage.dataset import MirageDataset
from mirage.errors import GenerationError
from mirage.features import FeatureSuite
from mirage.generation.callables import CallableGenerator
from mirage.generation.replies import response_of
from mirage.models import GOLD, Passage, Query, Response, Run
from mirage.testing import assert_feature, save_baseline

DATASET = MirageDataset.bundled("en").sample(6, seed=1)
QUERY = Query(
    id="q1",
    language="en",
    text="When did the harbour open?",
    passages=(
        Passage(id="town#1", text="The harbour opened in 1912."),
        Passage(id="town#2", text="The mill burnt down."),
    ),
    relevant=("town#1",),
)
TEXT = "It opened in 1912 [1]."
HARBOUR = "The harbour opened in 1912."


def with_passages(query: Query) -> tuple[str, list[Passage]]:
    """Return an answer from the last passage of the query, with another id."""
    last = query.passages[-1].model_copy(update={"id": "mine:1"})
    return f"{last.text} [1]", [last]


def with_response(query: Query) -> Response:
    text, passages = with_passages(query)
    return Response(query_id=query.id, text=text, passages=tuple(passages))


async def later(query: Query) -> tuple[str, list[Passage]]:
    return with_passages(query)


async def response_later(query: Query) -> Response:
    return with_response(query)


FORMS = [with_passages, with_response, later, response_later]


@each_case(
    "passages",
    [
        [Passage(id="1", text=HARBOUR)],
        [{"id": "1", "text": HARBOUR}],
        [{"id": 1, "text": HARBOUR, "score": 0.7}],
        [{"docid": "1", "contents": HARBOUR}],
        [{"text": HARBOUR}],
        [HARBOUR],
        (HARBOUR,),
        iter([HARBOUR]),
    ],
)
def test_passages_come_in_many_forms(passages: Any) -> None:
    response = response_of(QUERY, (TEXT, passages))
    assert response == Response(
        query_id="q1", text=TEXT, shown=("1",), passages=(Passage(id="1", text=HARBOUR),)
    )


def test_ids_name_passages_of_the_query() -> None:
    response = response_of(QUERY, (TEXT, ["town#2", {"id": "town#1"}]))
    assert (response.shown, response.passages) == (("town#2", "town#1"), ())
    assert [p.text for p in QUERY.passages_shown_to(response)][1] == HARBOUR


def test_an_empty_list_of_passages_means_closed_book() -> None:
    assert response_of(QUERY, (TEXT, [])).shown == ()


def test_a_passage_found_twice_is_one() -> None:
    response = response_of(QUERY, (TEXT, [{"id": "a", "text": "A b."}] * 2))
    assert (response.shown, len(response.passages)) == (("a", "a"), 1)


def test_a_response_with_passages_alone_was_made_from_them() -> None:
    response = with_response(QUERY)
    assert response.shown is None
    assert QUERY.shown_to(response) == ("mine:1",)
    assert [p.text for p in QUERY.passages_shown_to(response)] == ["The mill burnt down."]


@each_case(
    ("reply", "message"),
    [
        ((TEXT, "town#1"), "expected a list of passages, got str"),
        ((TEXT, {"id": "1"}), "expected a list of passages, got dict"),
        ((TEXT, 3), "expected a list of passages, got int"),
        ((TEXT, None), "expected a list of passages, got NoneType"),
        ((TEXT, [HARBOUR, 3]), "passage 2 is of type int; return a Passage, a dict with id and"),
        (
            (TEXT, ["deploy.rst:3"]),
            "passage 1, 'deploy.rst:3', is neither a text nor the id of one",
        ),
        ((TEXT, [" "]), "passage 1, ' ', is neither a text nor the id"),
        ((TEXT, [{"score": 1}]), "passage 1 has neither a text nor an id, only ['score']"),
        ((TEXT, [{"id": "a", "text": 3}]), "passage 1: "),
        (
            (TEXT, [{"id": "a", "text": "A b."}, {"id": "a", "text": "C d."}]),
            "two passages have the id 'a', but different texts",
        ),
        (Response(query_id="q2", text=TEXT), "has query_id='q2'"),
        ((TEXT, [HARBOUR], 3), "is of type tuple, expected a text, a (text, passages) tuple or a"),
        ((None, [HARBOUR]), "is of type tuple, expected a text"),
    ],
)
def test_an_invalid_reply_is_an_error_that_names_the_query(reply: Any, message: str) -> None:
    with pytest.raises(GenerationError) as error:
        response_of(QUERY, reply)
    assert "response to query 'q1'" in str(error.value)
    assert message in str(error.value)


def test_half_a_character_in_a_passage_is_a_failure() -> None:
    with pytest.raises(UnicodeEncodeError):
        response_of(QUERY, (TEXT, [Passage.model_construct(id="a", text="\ud83d", title="")]))


# Everywhere ---------------------------------------------------------------------------------------


def check(run: Run) -> None:
    for response in run:
        (passage,) = response.passages
        assert passage.id == "mine:1"
        assert DATASET[response.query_id].shown_to(response) == ("mine:1",)
    assert not run.failed
    table = FeatureSuite(["support_lexical"]).score(DATASET, run, progress=False)
    assert all(value > 0.7 for value in table["support_lexical"] if value == value)


@pytest.mark.parametrize("system", FORMS)
def test_every_function_may_return_its_passages(system: Callable[[Query], Any]) -> None:
    check(respond(system, DATASET, progress=False))
    check(CallableGenerator(system, timeout=60).run(DATASET, progress=False))


@pytest.mark.parametrize("system", FORMS)
def test_files_and_tests_keep_the_passages(system: Callable[[Query], Any], tmp_path: Path) -> None:
    respond(system, DATASET, out=tmp_path / "run.jsonl", progress=False)
    check(Run.load(tmp_path / "run.jsonl", language="en"))
    assert_feature(system, "support_lexical", ge=0.7, on=DATASET)
    saved = save_baseline(system, tmp_path / "baseline.json", on=DATASET)
    assert saved.table.mean()[saved.table.features.index("support_lexical")] > 0.7


def test_a_mapping_may_contain_passages() -> None:
    check(respond({query.id: with_passages(query) for query in DATASET}, DATASET, progress=False))


@pytest.mark.slow
def test_a_leaderboard_ranks_a_system_by_its_own_passages() -> None:
    board = Leaderboard.bundled("en")

    def relabelled(query: Query) -> tuple[str, list[Passage]]:
        passages = [p.model_copy(update={"id": f"mine:{p.id}"}) for p in query.passages]
        return f"{passages[0].text} [1]", passages

    def plain(query: Query) -> str:
        return f"{query.passages[0].text} [1]"

    ranking = board.rank_many({"relabelled": relabelled, "plain": plain}, progress=False)
    assert ranking["relabelled"].features == pytest.approx(ranking["plain"].features, nan_ok=True)


def test_a_service_may_return_its_passages(server: ChatServer) -> None:
    server.answer = lambda _: HARBOUR
    service = HTTPGenerator(
        f"{server.url}/chat/completions",
        request=lambda query: {"model": "m", "messages": [{"role": "user", "content": query.text}]},
        response=lambda content: (TEXT, [content["choices"][0]["message"]["content"]]),
        backoff=0.0,
    )
    run = service.run(MirageDataset([QUERY]), progress=False)
    assert run["q1"].passages == (Passage(id="1", text=HARBOUR),)


def test_systems_get_queries_without_gold() -> None:
    queries: list[Query] = []

    def spy(query: Query) -> str:
        queries.append(query)
        return "x"

    async def spy_later(query: Query) -> str:
        return spy(query)

    for system in (spy, spy_later):
        respond(system, DATASET, progress=False)
        CallableGenerator(system).run(DATASET, progress=False)
        Pipeline(None, generator=system).run(DATASET, progress=False)
        assert_feature(system, "answer_length", ge=0, on=DATASET)
    assert len(queries) == 8 * len(DATASET)
    empty = Query(id="q", language="en", text="x")
    for query in queries:
        assert all(getattr(query, name) == getattr(empty, name) for name in GOLD)


# Frameworks ---------------------------------------------------------------------------------------


@dataclass
class Document:
    """A class with the attributes of LangChain's."""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


def test_documents_of_langchain_are_converted_in_one_line() -> None:
    try:
        from langchain_core.documents import Document as Real
    except ImportError:
        Real = Document
    documents = [Real(page_content=HARBOUR, metadata={"source": "town.md"})]
    passages = [{"id": d.metadata["source"], "text": d.page_content} for d in documents]
    assert response_of(QUERY, (TEXT, passages)).passages[0].text == HARBOUR


def test_nodes_of_llamaindex_are_converted_in_one_line() -> None:
    try:
        from llama_index.core.schema import NodeWithScore, TextNode

        nodes: list[Any] = [NodeWithScore(node=TextNode(id_="n1", text=HARBOUR), score=0.7)]
    except ImportError:
        nodes = [SimpleNamespace(node_id="n1", text=HARBOUR, score=0.7)]
    passages = [{"id": n.node_id, "text": n.text} for n in nodes]
    assert response_of(QUERY, (TEXT, passages)).shown == ("n1",)
