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

__all__ = ["LabelledSentence", "Memerag", "load"]


class LabelledSentence(NamedTuple):
    """One sentence of an answer, with one label an annotator.

    ``factuality`` labels are ``Supported``, ``Not Supported`` and ``Challenging to determine``;
    ``relevance`` labels are ``Directly answers the question``, ``Adds context to the answer`` and
    ``Unrelated to the question`` (paper, section 3). ``fine`` are the fine-grained labels of
    factuality, such as ``Contradiction``; empty where there is none.
    """

    query_id: str
    text: str
    factuality: tuple[str, ...]
    relevance: tuple[str, ...]
    fine: tuple[str, ...]


class Memerag(NamedTuple):
    """One language of MEMERAG: its queries, the recorded answers, and their labelled sentences."""

    dataset: MirageDataset
    run: Run
    sentences: list[LabelledSentence]

    def write_labels(self, path: str | Path) -> None:
        """Write the sentences as :meth:`~mirage.metaeval.LabelledSentences.from_jsonl` reads them.

        Their label is the factuality, and ``fine`` its finer labels where there are any.
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

    All three variants: one annotator, five (``memerag_ext``), and the majority vote of the five.
    A query's passages get the ids ``{query id}/1``, ``{query id}/2``, ..., and its metadata say
    that it is for evaluation only, under CC BY-NC 4.0. The file holds neither qrels nor
    references, and does not name the LLM of an answer: the run's model is ``memerag``.

    Raises:
        DatasetError: names the file, the line and what is wrong with it.
        UnknownNameError: no such language.
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
        except TypeError as error:
            raise DatasetError(f"{where}: not a row of MEMERAG ({error})") from None
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
    fine = row["fine_grained_factuality"]  # null where the annotator could not tell
    fine = tuple(label or "" for label in (fine if isinstance(fine, list) else [fine]))
    return LabelledSentence(query_id, row["sentence"], factuality, relevance, fine)


def _labels(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
