"""A dataset, runs and judges for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from injections import marked
from llm_server import Answer, last_user_text

from mirage.dataset import MirageDataset
from mirage.models import Passage, Query, Response, Run


def make_dataset(queries: int) -> MirageDataset:
    return MirageDataset(
        Query(
            id=f"q{i}",
            language="sw",
            text=f"Swali la {i} ni nini?",
            passages=tuple(
                Passage(id=f"{i}#{n}", title=f"Title {n}", text=f"Passage {n} of query {i}.")
                for n in range(3)
            ),
        )
        for i in range(queries)
    )


def make_run(model: str, dataset: MirageDataset, **texts: str) -> Run:
    """Return a run with a response to every query, ``MODEL on QUERY`` unless given in ``texts``."""
    return Run(
        model=model,
        language=dataset.language,
        responses=tuple(
            Response(query_id=query.id, text=texts.get(query.id, f"{model} on {query.id}"))
            for query in dataset
        ),
    )


def make_runs(dataset: MirageDataset, models: str = "xyz") -> list[Run]:
    return [make_run(model, dataset) for model in models]


def responses(request: Mapping[str, Any]) -> tuple[str, str]:
    """Return the two responses in a request to a judge."""
    texts = dict(marked(last_user_text(request))[0])
    return texts["response-a"], texts["response-b"]


def judge_by(choose: Callable[[str, str], str]) -> Answer:
    """Return a server's answer function that gives the verdict of ``choose``."""
    return lambda request: f"They differ.\n\n[[{choose(*responses(request))}]]"


def first_in_alphabet(a: str, b: str) -> str:
    return "A" if a < b else "B" if b < a else "C"
