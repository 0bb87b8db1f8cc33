"""A grid for tests: two cells with responses, and one that failed."""

from __future__ import annotations

import numpy as np

from mirage.dataset import MirageDataset
from mirage.grids import Cell, ResultTable
from mirage.models import Passage, Query, Response, Run

__all__ = ["TABLE", "cell", "dataset", "run"]

IDS = tuple(f"q{i}" for i in range(12))
SETTINGS = {"dataset": "nq", "retriever": "bm25", "generator": "solar"}


def dataset(texts: tuple[str, ...] = ()) -> MirageDataset:
    queries = [Query(id=id_, language="en", text=f"Question {id_}?") for id_ in IDS]
    extra = [Query(id=f"h{i}", language="en", text=text) for i, text in enumerate(texts)]
    return MirageDataset([*queries, *extra], name="nq")


def run(name: str) -> Run:
    """Return responses with their own passages; the last one failed."""
    responses = [
        Response(
            query_id=id_,
            text=f"##Answer: {name} says {id_} [1].",
            shown=(f"p{id_}#{name}",),
            passages=(Passage(id=f"p{id_}#{name}", text=f"A passage that {name} found."),),
        )
        for id_ in IDS[:-1]
    ]
    failed = Response(query_id=IDS[-1], text=None, error="the server is down")
    return Run(model=name, language="en", responses=(*responses, failed))


def cell(**settings: str) -> Cell:
    values = np.append(np.arange(11.0) / 10, np.nan)
    return Cell.measured(SETTINGS | settings, IDS, {"qa_match": values}, failed=IDS[-1:])


TABLE = ResultTable(
    "small",
    (cell(), cell(generator="llama"), Cell(SETTINGS | {"retriever": "e5"}, failure="no memory")),
    ("qa_match",),
)
