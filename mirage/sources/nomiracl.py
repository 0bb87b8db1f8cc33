"""NoMIRACL: real queries with ten passages each, and the recorded outputs of real LLMs.

The files are those of project-miracl/nomiracl (Thakur et al. 2024, arXiv 2312.11361). A query in
the folder ``relevant`` can be answered from its passages, one in ``non_relevant`` cannot, so the
right output is known and two models are compared without a judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from mirage._base.files import read_rows, validated
from mirage._base.logs import logger
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.languages import Language
from mirage.models import Judgment, Query, Response, Run, Verdict

__all__ = ["FEATURES", "NoMiracl", "is_right", "load"]

FEATURES = (
    "target_language",
    "english_language",
    "answer_bleu",
    "answer_rougeL",
    "support_lexical",
    "relevance_lexical",
)
"""The offline features that these files allow: those of citations need qrels."""

_LOG = logger("mirage.sources")

REFERENCE_MODEL = "gpt-4-azure"
_PRESENT = "yes, answer is present"
_UNKNOWN = "i don't know"
_PASSAGE = re.compile(r"^\[(\d+)\] ", re.MULTILINE)


class NoMiracl(NamedTuple):
    """One language of NoMIRACL: its queries, a run a model, and a judgment a pair and query."""

    dataset: MirageDataset
    runs: dict[str, Run]
    judgments: list[Judgment]


def load(folder: str | Path, language: str) -> NoMiracl:
    """Read ``folder/relevant/{language}.jsonl`` and ``folder/non_relevant/{language}.jsonl``.

    GPT-4's output becomes the reference response of a query, so GPT-4 is no model here. An
    output is right if it states that the answer is present where it is, or that it does not know
    where it is not, and does not state both. In a judgment right beats wrong; else it is a tie.
    The files hold no qrels, so ``relevant`` is empty; :data:`FEATURES` does without. A row whose
    prompt is null is left out, and one of the two files may be missing; both are logged.

    Raises:
        DatasetError: both files are missing, or names the file, the line and what is wrong with it.
        UnknownNameError: no such language.
    """
    code = Language.of(language).code
    queries: list[Query] = []
    outputs: dict[str, list[Response]] = {}
    for subset, answerable in (("relevant", True), ("non_relevant", False)):
        for where, row in _rows(Path(folder) / subset / f"{code}.jsonl"):
            query, results = _query(row, where, code, answerable)
            queries.append(query)
            for model, text in results.items():
                response = validated(Response, {"query_id": query.id, "text": text}, where)
                outputs.setdefault(model, []).append(response)
    if not queries:
        raise DatasetError(
            f"{folder}: no query in relevant/{code}.jsonl or non_relevant/{code}.jsonl"
        )
    dataset = MirageDataset(queries, name=f"nomiracl-{code}")
    names = sorted(outputs)
    runs = {name: Run(model=name, language=code, responses=tuple(outputs[name])) for name in names}
    return NoMiracl(dataset, runs, list(_judgments(dataset, runs)))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file that have a prompt, as far as there is such a file."""
    if not path.is_file():
        _LOG.warning("%s: no such file; its queries are left out", path)
        return
    without = 0
    for where, row in read_rows(path):
        if "prompt" in row and row["prompt"] is None:
            without += 1
        else:
            yield where, row
    if without:
        _LOG.warning("%s: %d rows left out, for their prompt is null", path, without)


def is_right(output: str, answerable: bool) -> bool:
    """Whether an output says what it should, by ``answerable``, and not the opposite as well."""
    text = output.casefold().replace("’", "'")
    present, unknown = _PRESENT in text, _UNKNOWN in text
    return present != unknown and present == answerable


def _query(
    row: Mapping[str, Any], where: str, code: str, answerable: bool
) -> tuple[Query, dict[str, str]]:
    try:
        query_id, docids, prompt = row["query_id"], row["docids"], row["prompt"]
        results = dict(row["results"])
        reference = results.pop(REFERENCE_MODEL)
    except KeyError as error:
        raise DatasetError(f"{where}: field {error} is missing") from None
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{where}: not a row of NoMIRACL ({error})") from None
    if not isinstance(prompt, str) or not isinstance(docids, list):
        raise DatasetError(
            f"{where}: not a row of NoMIRACL ('prompt' has to be a text, 'docids' a list)"
        )
    question, contexts = _sections(prompt, where)
    texts = [text.strip() for text in _PASSAGE.split(contexts)[2::2]]
    if len(texts) != len(docids):
        raise DatasetError(
            f"{where}: the prompt shows {len(texts)} passages, but 'docids' names {len(docids)}"
        )
    fields = {
        "id": query_id,
        "language": code,
        "text": question,
        "passages": [_passage(*both) for both in zip(docids, texts, strict=True)],
        "reference": reference,
        "answerable": answerable,
    }
    return validated(Query, fields, where), results


def _sections(prompt: str, where: str) -> tuple[str, str]:
    """The question and the numbered contexts of a prompt."""
    _, _, rest = prompt.partition("QUESTION:\n")
    question, heading, rest = rest.partition("\n\nCONTEXTS:\n")
    contexts, output, _ = rest.rpartition("\n\nOUTPUT:")
    if not heading or not output:
        raise DatasetError(f"{where}: the prompt lacks QUESTION, CONTEXTS or OUTPUT")
    return question.strip(), contexts


def _passage(docid: object, text: str) -> dict[str, object]:
    title, colon, body = text.partition(": ")
    return {"id": docid, "title": title if colon else "", "text": body if colon else text}


def _judgments(dataset: MirageDataset, runs: Mapping[str, Run]) -> Iterator[Judgment]:
    for query in dataset:
        right = {
            model: is_right(response.text or "", bool(query.answerable))
            for model, run in runs.items()
            if (response := run.get(query.id)) is not None
        }
        for a, b in combinations(right, 2):
            verdict: Verdict = "tie" if right[a] == right[b] else "a" if right[a] else "b"
            yield Judgment(
                query_id=query.id, model_a=a, model_b=b, verdict=verdict, judge="nomiracl"
            )
