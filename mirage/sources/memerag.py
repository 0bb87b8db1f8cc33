"""MEMERAG: real questions, passages and answers, with human labels for every answer sentence.

The files are those of amazon-science/MEMERAG (Blandón et al. 2025, arXiv 2502.17163).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mirage._base.files import read_rows, replace_file, validated
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.languages import Language
from mirage.models import EVALUATION_ONLY, Query, Response, Run

__all__ = ["load"]


class LabelledSentence(NamedTuple):
    """One sentence of an answer, with one label per annotator.

    Section 3 of the paper (arXiv 2502.17163) describes the labels.

    Attributes:
        query_id: Id of the query.
        text: Text of the sentence.
        factuality: ``Supported``, ``Not Supported`` or ``Challenging to determine``, by annotator.
        relevance: ``Directly answers the question``, ``Adds context to the answer`` or
            ``Unrelated to the question``, by annotator.
        fine: Fine-grained label of factuality, such as ``Contradiction``, by annotator; an empty
            text if the annotator chose none.
    """

    query_id: str
    text: str
    factuality: tuple[str, ...]
    relevance: tuple[str, ...]
    fine: tuple[str, ...]


class Memerag(NamedTuple):
    """The data of MEMERAG in one language.

    Attributes:
        dataset: The queries with their passages.
        run: The answers, as the responses of one model.
        sentences: The labelled sentences of the answers.
    """

    dataset: MirageDataset
    run: Run
    sentences: list[LabelledSentence]

    def write_labels(self, path: str | Path) -> None:
        """Write the sentences to a file for :meth:`~mirage.metaeval.LabelledSentences.from_jsonl`.

        The labels are those for factuality, and the fine-grained ones if there are any. Relevance
        labels are not written.

        Args:
            path: Path of the file.
        """
        with replace_file(Path(path)) as file:
            for sentence in self.sentences:
                query = self.dataset[sentence.query_id]
                row = {
                    "query_id": query.id,
                    "query": query.text,
                    "language": query.language,
                    "passages": [passage.model_dump() for passage in query.passages],
                    "sentence": sentence.text,
                    "label": sentence.factuality,
                    **({"fine": sentence.fine} if any(sentence.fine) else {}),
                }
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def load(path: str | Path, language: str) -> Memerag:
    """Read one file of MEMERAG, such as ``memerag/de.jsonl`` or ``memerag_ext/de.jsonl``.

    All three variants can be read: one annotator, five annotators (``memerag_ext``), and the
    majority vote of five annotators. The passages of a query get ids such as ``{query id}/1`` and
    ``{query id}/2``. The metadata of each query state that it is for evaluation only, under CC
    BY-NC 4.0. The files have neither qrels nor references. They do not name the LLMs that wrote the
    answers, so all answers are in one run with the model name ``memerag``.

    Args:
        path: Path of the file.
        language: ISO 639-1 code.

    Raises:
        DatasetError: If a row is not valid; the message names the file and the line.
        UnknownNameError: If there is no such language.
    """
    code = Language.of(language).code
    queries, responses, sentences = [], [], []
    for where, row in read_rows(Path(path)):
        try:
            query = _query(row, where, code)
            labelled = [_sentence(query.id, sentence) for sentence in row["answer"]]
            text = " ".join(sentence.text for sentence in labelled)
        except KeyError as error:
            raise DatasetError(f"{where}: field {error} is missing") from None
        # For example, a row whose answer is null or a text.
        except TypeError as error:
            raise DatasetError(f"{where}: not a MEMERAG row ({error})") from None
        queries.append(query)
        responses.append(Response(query_id=query.id, text=text))
        sentences.extend(labelled)
    run = Run(model="memerag", language=code, responses=tuple(responses))
    return Memerag(MirageDataset(queries, name=f"memerag-{code}"), run, sentences)


def _query(row: Mapping[str, Any], where: str, code: str) -> Query:
    id_, context = row["query_id"], row["context"]
    texts = [{"id": f"{id_}/{n}", "text": passage["text"]} for n, passage in enumerate(context, 1)]
    fields = {
        "id": id_,
        "language": code,
        "text": row["query"],
        "passages": texts,
        "metadata": {"use": EVALUATION_ONLY, "licence": "CC BY-NC 4.0"},
    }
    return validated(Query, fields, where)


def _sentence(query_id: str, row: Mapping[str, Any]) -> LabelledSentence:
    factuality, relevance = _labels(row["factuality"]), _labels(row["relevance"])
    fine = row["fine_grained_factuality"]  # null if the annotator could not decide
    fine = tuple(label or "" for label in (fine if isinstance(fine, list) else [fine]))
    return LabelledSentence(query_id, row["sentence"], factuality, relevance, fine)


def _labels(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
