"""NoMIRACL: real queries with ten passages each, and the recorded outputs of real LLMs.

The files are those of project-miracl/nomiracl (Thakur et al. 2024, arXiv 2312.11361). Queries in
the folder ``relevant`` can be answered from their passages, and queries in ``non_relevant`` cannot.
The folder thus shows which outputs are correct, so models can be compared without a judge.
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
from mirage.sources.hub import REFERENCE_MODEL

__all__ = ["FEATURES", "is_right", "load"]

FEATURES = (
    "target_language",
    "english_language",
    "answer_bleu",
    "answer_rougeL",
    "support_lexical",
    "relevance_lexical",
)
"""Features that need no relevance judgments and no neural model, so they fit these files."""

_LOG = logger("mirage.sources")

_PRESENT = "yes, answer is present"
_UNKNOWN = "i don't know"
_PASSAGE = re.compile(r"^\[(\d+)\] ", re.MULTILINE)


class NoMiracl(NamedTuple):
    """The data of NoMIRACL in one language.

    Attributes:
        dataset: The queries.
        runs: Run of each model, by name.
        judgments: Judgments derived from the correctness of the outputs (:func:`is_right`), one per
            query and pair of models.
    """

    dataset: MirageDataset
    runs: dict[str, Run]
    judgments: list[Judgment]


def load(folder: str | Path, language: str) -> NoMiracl:
    """Read ``folder/relevant/{language}.jsonl`` and ``folder/non_relevant/{language}.jsonl``.

    GPT-4's output becomes the reference of a query, so GPT-4 is not among the models.
    :func:`is_right` decides which outputs are correct. In a judgment, a correct output beats a
    wrong one. If both are correct or both are wrong, the verdict is a tie. The files have no qrels,
    so ``relevant`` is empty; :data:`FEATURES` do not need it. Rows whose prompt is null are
    skipped, and one of the two files may be missing; a warning is logged in both cases.

    Args:
        folder: Folder with the two subfolders.
        language: ISO 639-1 code.

    Raises:
        DatasetError: If both files are missing, or if a row is not valid; the message names the
            file and the line.
        UnknownNameError: If there is no such language.
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
            f"{folder}: there is no query in relevant/{code}.jsonl or non_relevant/{code}.jsonl"
        )
    dataset = MirageDataset(queries, name=f"nomiracl-{code}")
    names = sorted(outputs)
    runs = {name: Run(model=name, language=code, responses=tuple(outputs[name])) for name in names}
    return NoMiracl(dataset, runs, list(_judgments(dataset, runs)))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location and the content of each row that has a prompt.

    If the file does not exist, log a warning and yield no rows.
    """
    if not path.is_file():
        _LOG.warning("%s: no such file; its queries are skipped", path)
        return
    without = 0
    for where, row in read_rows(path):
        if "prompt" in row and row["prompt"] is None:
            without += 1
        else:
            yield where, row
    if without:
        _LOG.warning("%s: %d rows were skipped, because their prompt is null", path, without)


def is_right(output: str, answerable: bool) -> bool:
    """Return whether an output correctly says whether the passages contain an answer.

    If the passages contain an answer, a correct output says that they do. Otherwise, it says that
    the answer is unknown. An output that says both or neither is wrong.

    Args:
        output: Output of a model.
        answerable: Whether the passages contain an answer.
    """
    text = output.casefold().replace("’", "'")
    present, unknown = _PRESENT in text, _UNKNOWN in text
    return present != unknown and present == answerable


def _query(
    row: Mapping[str, Any], where: str, code: str, answerable: bool
) -> tuple[Query, dict[str, str]]:
    try:
        query_id, docids, prompt = row["query_id"], row["docids"], row["prompt"]
        results = dict(row["results"])
        # GPT-4's output is the reference, so GPT-4 must not be compared with it.
        reference = results.pop(REFERENCE_MODEL)
    except KeyError as error:
        raise DatasetError(f"{where}: field {error} is missing") from None
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{where}: not a NoMIRACL row ({error})") from None
    if not isinstance(prompt, str) or not isinstance(docids, list):
        raise DatasetError(
            f"{where}: not a NoMIRACL row ('prompt' must be a text, and 'docids' a list)"
        )
    question, contexts = _sections(prompt, where)
    # split() alternates numbers and texts, after the text before the first number.
    texts = [text.strip() for text in _PASSAGE.split(contexts)[2::2]]
    if len(texts) != len(docids):
        raise DatasetError(
            f"{where}: the prompt has {len(texts)} passages, but 'docids' has {len(docids)} ids"
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
    """Return the question and the numbered passages of a prompt."""
    _, _, rest = prompt.partition("QUESTION:\n")
    question, heading, rest = rest.partition("\n\nCONTEXTS:\n")
    # Search from the right, because a passage may contain the heading too.
    contexts, output, _ = rest.rpartition("\n\nOUTPUT:")
    if not heading or not output:
        raise DatasetError(f"{where}: the prompt has no QUESTION, CONTEXTS or OUTPUT section")
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
