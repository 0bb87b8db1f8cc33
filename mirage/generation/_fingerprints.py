"""A record of the settings and questions that the answers in a file belong to.

A run that is written to ``answers.jsonl`` resumes from this file. The record is kept beside it, in
``answers.jsonl.settings``, so that answers of another model, prompt or question are not reused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mirage._base.files import write_text
from mirage._base.inputs import read_text
from mirage._base.logs import logger
from mirage._base.stores import is_part
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.models import Passage, Query

SUFFIX = ".settings"
"""The suffix that the name of a record adds to the name of the file of answers."""

_LOG = logger("mirage.generation")
_REPEAT = re.compile(r"\.repeat-\d+$")


def check_answers(
    out: Path, query_ids: Collection[str], dataset: MirageDataset, settings: Mapping[str, Any]
) -> None:
    """Compare the record of a file of answers with a run, and update the record.

    If there is no record, a warning is logged and the answers are used. The files of a store are
    not checked, because the manifest of a store identifies its settings.

    Args:
        out: The file of answers.
        query_ids: The ids of the queries that have an answer in the file.
        dataset: The queries of the run.
        settings: The settings of the run; the values can be written as JSON.

    Raises:
        DatasetError: If the settings, or questions that have an answer, differ from the record.
    """
    if is_part(out.parent):
        return
    path = _record_path(out)
    settings = json.loads(json.dumps(settings, default=repr))
    questions = {query.id: _question_digest(query, dataset.retrieved) for query in dataset}
    record = _read(path)
    if query_ids and record is None:
        _LOG.warning(
            "%s: nothing records which model, settings and questions the %d answers in the file "
            "belong to (%s is missing or damaged); they are reused without a check",
            out,
            len(query_ids),
            path.name,
        )
        return
    earlier = record["questions"] if record is not None else {}
    if query_ids and record is not None:
        changed = [id_ for id_ in query_ids if earlier.get(id_, questions[id_]) != questions[id_]]
        _check_same(out, [*_setting_differences(record["settings"], settings)], changed, query_ids)
    new = {"settings": settings, "questions": {**earlier, **questions}}
    if new != record:
        write_text(path, json.dumps(new, ensure_ascii=False, indent=1) + "\n", follow=False)


def _check_same(
    out: Path, differences: list[str], changed: Sequence[str], query_ids: Collection[str]
) -> None:
    """Raise an error if settings differ, or if questions changed that have an answer."""
    advice = "delete this file to replace its answers"
    if changed and not differences:
        advice = "delete the lines of these questions to ask them again"
    if changed:
        count = f"{len(changed)} of {len(query_ids)} answered questions or their passages"
        differences.append(f"{count}, such as those of {changed[0]!r}")
    if differences:
        raise DatasetError(
            f"{out}: the answers in the file belong to another run; these differ: "
            f"{'; '.join(differences)}. Choose another file for the new answers, or {advice}"
        )


def prompt_digest(make_prompt: Callable[[Query], Any], language: str) -> str:
    """Return a digest of the prompts that a function makes for two example queries.

    The digest is empty if the prompt function fails on them, or makes a new prompt in each call.
    """
    text = " ".join(f"word{i}" for i in range(1500))
    passages = tuple(Passage(id=f"p{i}", text=f"{i} {text}", title=f"t{i}") for i in range(3))
    queries = [
        Query(id="q", language=language, text="example", passages=each) for each in ((), passages)
    ]
    try:
        digests = {_digest([make_prompt(query) for query in queries]) for _ in range(2)}
    except Exception:
        return ""
    return digests.pop() if len(digests) == 1 else ""


def _setting_differences(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*earlier, *now)):
        if earlier.get(name) == now.get(name):
            continue
        if name == "prompt":
            # An empty digest is that of a prompt that differs from call to call.
            if earlier.get(name) and now.get(name):
                yield "the prompt"
        else:
            yield f"{name} (was {_shown(earlier, name)}, is now {_shown(now, name)})"


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return repr(settings[name])[:100] if name in settings else "not set"


def _record_path(out: Path) -> Path:
    """Return the path of the record; the files of all repeats of a run share one."""
    return out.with_name(_REPEAT.sub("", out.name) + SUFFIX)


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a record, or ``None`` if it is missing or damaged."""
    try:
        record = json.loads(read_text(path)) if path.exists() else None
    except (ValueError, DatasetError, RecursionError):
        return None
    names = ("settings", "questions")
    if not isinstance(record, dict) or not all(isinstance(record.get(n), dict) for n in names):
        return None
    return record


def _question_digest(query: Query, retrieved: bool) -> str:
    """Return a digest of everything about a query that a system can read.

    Passages that the evaluated system retrieved are left out: if they change, the query is asked
    again.
    """
    passages = () if retrieved else query.passages
    parts = [[passage.id, passage.title, passage.text] for passage in passages]
    return _digest([query.text, query.language, query.metadata.get("prompt"), parts])


def _digest(value: object) -> str:
    text = json.dumps(value, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
