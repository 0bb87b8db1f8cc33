"""mirage queries: the bundled queries, as a system that is examined gets them."""

from __future__ import annotations

from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import dataset_of
from mirage.cli._output import out_json, out_json_text
from mirage.cli._shell import app, example, flag

__all__ = ["queries"]


@app.command(epilog=example("mirage queries sw > queries.jsonl"))
def queries(
    language: options.Language,
    as_json: Annotated[
        bool, flag("Print one JSON array, and not a line a query.", "--json")
    ] = False,
) -> None:
    """Print the bundled queries of a language as JSON Lines.

    Each has its passages, and nothing of what a response is measured by.
    """
    from mirage.models import GOLD

    dataset, gold = dataset_of(language, None), set(GOLD)
    if as_json:
        out_json([query.model_dump(exclude=gold) for query in dataset])
        return
    for query in dataset:
        out_json_text(query.model_dump_json(exclude=gold))
