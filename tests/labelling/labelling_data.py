"""Answers of two systems for tests of labelling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from mirage import MirageDataset, Passage, Query, Response, Run
from mirage.labelling.items import AnswerItem, Item, answer_items, pair_items
from mirage.labelling.server import LabelServer
from mirage.labelling.session import open_session

QUERIES = 24
SECRET = "system-under-test"


def dataset(count: int = QUERIES) -> MirageDataset:
    passages = (
        Passage(id="1", text="The Nile is 6650 km long.", title="Nile"),
        Passage(id="2", text="Tea is hot."),
    )
    return MirageDataset(
        (
            Query(
                id=f"q{n}",
                language="en",
                text=f"How long is river {n}?",
                passages=passages,
                answers=(("6650",),),
                cluster=f"c{n // 2}",
            )
            for n in range(count)
        ),
        name="rivers",
    )


def run(model: str, words: str = "It is 6650 km long [1].", count: int = QUERIES) -> Run:
    responses = tuple(
        Response(query_id=f"q{n}", text=f"##Answer: River {n}: {words}") for n in range(count)
    )
    return Run(model=model, language="en", responses=responses)


def answers() -> list[AnswerItem]:
    items, _ = answer_items(dataset(), [run(f"{SECRET}-a"), run(f"{SECRET}-b", "Nobody knows.")])
    return items


def pairs() -> list[Any]:
    return pair_items(dataset(), [run(f"{SECRET}-a"), run(f"{SECRET}-b", "Nobody knows.")])[0]


@contextmanager
def serving(items: list[Item], path: Path, **options: Any) -> Iterator[LabelServer]:
    """A server of a session in a thread of its own."""
    with open_session(items, path, **options) as session, LabelServer(session) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
