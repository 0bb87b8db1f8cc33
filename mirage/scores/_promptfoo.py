"""promptfoo: the JSON file of ``promptfoo eval --output``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mirage.errors import DatasetError
from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    check_list,
    check_object,
    finish,
    name_of,
    score_of,
)

SCORE = "score"
_ERROR = 2  # promptfoo's failureReason of an item that was not answered or not graded


def recognises(content: Content) -> bool:
    """Return whether the content is a promptfoo evaluation."""
    results = (content.document or {}).get("results")
    return isinstance(results, Mapping) and "results" in results


def read(content: Content) -> ScoreFile:
    """Read the overall score and the named scores; the variables of a test identify the item.

    The name of the system is the provider, followed by the prompt if there are several prompts.

    Raises:
        DatasetError: If a result is not valid.
    """
    results = check_list((content.document or {})["results"]["results"], content.source, "results")
    rows = [
        (where, check_object(result, where, "a result"))
        for number, result in enumerate(results, 1)
        for where in [f"{content.source}, result {number}"]
    ]
    prompts = {_prompt(row) for _, row in rows}
    return finish(content.source, "promptfoo", _entries(rows, several=len(prompts) > 1))


def _prompt(row: Mapping[str, Any]) -> str:
    prompt = row.get("prompt")
    return str(prompt.get("label", "")) if isinstance(prompt, Mapping) else ""


def _entries(rows: list[tuple[str, Mapping[str, Any]]], *, several: bool) -> Iterator[Entry]:
    for where, row in rows:
        variables = row.get("vars")
        if not isinstance(variables, Mapping):
            raise DatasetError(f"{where}: field 'vars' must be an object with the test's variables")
        provider = row.get("provider")
        if isinstance(provider, Mapping):
            provider = provider.get("label") or provider.get("id")
        system = f"{provider or ''}, {_prompt(row)}" if several else str(provider or "")
        failed = row.get("failureReason") == _ERROR
        scores: dict[str, float] = {}
        if not failed:
            named = check_object(row.get("namedScores") or {}, where, "namedScores")
            scores = {
                name: score_of(value, where, name)
                for name, value in [(SCORE, row.get("score")), *named.items()]
            }
        response = row.get("response")
        answer = response.get("output") if isinstance(response, Mapping) else None
        yield Entry(
            where,
            row,
            name_of(dict(variables)) if variables else f"test {row.get('testIdx', '')}",
            scores,
            system=system,
            failure=str(row.get("error") or "the item failed") if failed else "",
            answer=answer_of(answer),
        )
