"""Training data from a teacher's responses (MIRAGE-Bench, arXiv 2410.13716, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, Self

from mirage._base.files import read_rows, validated, write_records
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError
from mirage.generation.prompts import PromptMaker, RagPrompt, prompt_for
from mirage.generation.responses import respond
from mirage.llm.client import Message
from mirage.models import EVALUATION_ONLY, Passage, Query, Record, Response, Run
from mirage.testsets.evaluation_sets import reason_counts
from mirage.text import parse
from mirage.text.citations import cite_by_id

OmitReason = Literal[
    "no relevant passage",
    "failed",
    "malformed",
    "unknown citation",
    "no citation",
    "does not fit",
    "ambiguous citation",
    "no passage",
    "no answer",
]
"""The reason why a query has no training example; see :func:`build_training_set`.

:func:`mirage.training.training_examples` uses the last two reasons.
"""


class ChatMessage(Record):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class TrainingExample(Record):
    """One conversation to fine-tune on: a prompt with passages and the desired response.

    ``question`` is the text of the query. It is used to detect examples whose question is also in
    an evaluation set.
    """

    query_id: str
    language: str
    messages: tuple[ChatMessage, ...]
    question: str | None = None

    @classmethod
    def of(cls, query: Query, messages: Iterable[Message], response: str) -> Self:
        """Return a training example: these messages, followed by the response to the query."""
        turns = (*messages, {"role": "assistant", "content": response})
        return cls(
            query_id=query.id,
            language=query.language,
            messages=tuple(ChatMessage.model_validate(turn) for turn in turns),
            question=query.text,
        )


class TrainingSet(NamedTuple):
    """Training examples, and the reasons why the other queries have none, by query id."""

    examples: tuple[TrainingExample, ...]
    omitted: dict[str, OmitReason]


def relevant_only(dataset: MirageDataset) -> MirageDataset:
    """Return the queries that show relevant passages, without their other passages.

    A teacher model answers these queries instead of the originals, so that irrelevant passages do
    not mislead it.

    Raises:
        DatasetError: If no query shows a relevant passage.

    Example:
        >>> from mirage import MirageDataset
        >>> dataset = MirageDataset.bundled("sw")
        >>> queries = relevant_only(dataset)
        >>> all(passage.id in query.relevant for query in queries for passage in query.passages)
        True
    """
    queries = [
        query.model_copy(update={"passages": passages})
        for query in dataset
        if (passages := _relevant_passages(query))
    ]
    if not queries:
        raise DatasetError(
            f"no query of {dataset.name} has a relevant passage from which a teacher could "
            "answer; load the dataset with its passages and qrels"
        )
    return MirageDataset(queries, name=dataset.name)


def check_trainable(dataset: MirageDataset) -> None:
    """Raise an error if a dataset is for evaluation only."""
    refused = [query for query in dataset if query.metadata.get("use") == EVALUATION_ONLY]
    if refused:
        licence = refused[0].metadata.get("licence")
        licence_note = f" (licence: {licence})" if licence else ""
        raise DatasetError(
            f"{dataset.name} must not be used for training: {len(refused)} of {len(dataset)} "
            f"queries, such as {refused[0].id!r}, are for evaluation only{licence_note}"
        )


def build_training_set(
    dataset: MirageDataset, teacher: Run, prompt: PromptMaker | None = None
) -> TrainingSet:
    """Convert a teacher's responses to conversations for fine-tuning (MIRAGE-Bench, section 3.2).

    The teacher model answered ``relevant_only(dataset)``, so it cites relevant passages. An example
    shows all passages of the query, including irrelevant ones, with the teacher's response. So the
    trained model learns to find the relevant passages by itself. The positions of passages in this
    prompt differ from those in the teacher's prompt, so every citation is rewritten as ``[id]``.
    The rest of the response is unchanged.

    A query has no example for one of these reasons:

    - ``no relevant passage``: the teacher was not asked.
    - ``failed``: the teacher did not answer.
    - ``malformed``: the response is not a reason followed by an answer.
    - ``unknown citation``: the response cites a passage that the teacher was not shown.
    - ``no citation``: the response cites nothing.
    - ``does not fit``: the prompt has no room for the query or a cited passage.
    - ``ambiguous citation``: when all passages are shown, the response cites other passages than
      the teacher meant, for example because ``[1969]`` in its text is the id of a passage.

    Args:
        dataset: The queries with all their passages.
        teacher: Responses to ``relevant_only(dataset)``. If a response does not list the passages
            that the teacher was shown, the query's relevant passages are assumed, in the order of
            the query.
        prompt: Function that builds the prompts; use the same function at inference time. The
            default is ``RagPrompt()``, which shuffles the passages by its ``seed`` unless a
            retriever ranked them.

    Raises:
        DatasetError: If no query shows a relevant passage, the run is in another language, the
            teacher was shown a passage that is not relevant, no example is left, or the queries
            are for evaluation only.
        GenerationError: If the teacher failed on every query.
        UnknownNameError: If the teacher answered a query that ``relevant_only(dataset)`` does not
            have.
    """
    check_trainable(dataset)
    teacher_queries = relevant_only(dataset)
    prompt = prompt_for(dataset, prompt or RagPrompt())
    examples: list[TrainingExample] = []
    omitted: dict[str, OmitReason] = {
        query.id: "no relevant passage" for query in dataset if not _relevant_passages(query)
    }
    for response in respond(teacher, teacher_queries, teacher.model, progress=False):
        shown_ids = _check_shown_ids(teacher_queries[response.query_id], response, teacher.model)
        query = dataset[response.query_id]
        example: TrainingExample | OmitReason
        if response.text is None:
            example = "failed"
        else:
            example = example_of(query, response.text, shown_ids, prompt)
        if isinstance(example, TrainingExample):
            examples.append(example)
        else:
            omitted[response.query_id] = example
    if not examples:
        raise DatasetError(
            f"none of the responses of model {teacher.model!r} to {dataset.name} can be used as a "
            f"training example ({reason_counts(omitted.values())})"
        )
    return TrainingSet(tuple(examples), omitted)


def write_training_set(examples: Iterable[TrainingExample], path: str | Path) -> None:
    """Write training examples to ``path`` as JSON Lines, a format that chat trainers read.

    A line is ``{"query_id": ..., "language": ..., "messages": [{"role": "user", "content": ...},
    {"role": "assistant", "content": ...}], "question": ...}``.

    Raises:
        DatasetError: If the file cannot be written.
    """
    write_records(examples, Path(path))


def read_training_set(path: str | Path) -> tuple[TrainingExample, ...]:
    """Read training examples that :func:`write_training_set` wrote.

    Raises:
        DatasetError: If the file is invalid; the message names the file, the line and the field.
    """
    return tuple(validated(TrainingExample, row, where) for where, row in read_rows(Path(path)))


def _relevant_passages(query: Query) -> tuple[Passage, ...]:
    return tuple(passage for passage in query.passages if passage.id in query.relevant)


def _check_shown_ids(query: Query, response: Response, teacher: str) -> tuple[str, ...]:
    shown_ids = query.shown_to(response)
    if irrelevant := [id_ for id_ in shown_ids if id_ not in query.passage_ids]:
        raise DatasetError(
            f"model {teacher!r} was shown passage {irrelevant[0]!r} for query {query.id!r}, but "
            "this passage is not relevant; let the model answer the queries of "
            "relevant_only(dataset)"
        )
    return shown_ids


def example_of(
    query: Query, response: str, shown: tuple[str, ...], prompt: PromptMaker
) -> TrainingExample | OmitReason:
    """Return the training example for a query and a response, or the reason why there is none.

    Args:
        query: The query with all the passages that the prompt shows.
        response: The response. It cites passages by id, or by position among ``shown``.
        shown: The ids of the passages that the response was generated from, in their order.
        prompt: Function that builds the prompt.
    """
    parsed = parse(response, query.language, shown)
    if not parsed.well_formed:
        return "malformed"
    text, all_resolved = cite_by_id(response, query.language, shown)
    if not all_resolved:
        return "unknown citation"
    if not parsed.citations:
        return "no citation"
    try:
        messages, shown = prompt(query)
    except GenerationError:
        return "does not fit"
    if not set(parsed.citations) <= set(shown):
        return "does not fit"
    # Text in brackets that was not a citation for the teacher may be the id of a shown passage.
    reparsed = parse(text, query.language, shown)
    if (reparsed.citations, reparsed.sentences) != (parsed.citations, parsed.sentences):
        return "ambiguous citation"
    return TrainingExample.of(query, messages, text)
