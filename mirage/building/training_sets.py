"""From a teacher's responses to training data (MIRAGE-Bench, arXiv 2410.13716, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, Self

from mirage._base.files import read_rows, validated, write_records
from mirage.building.evaluation_sets import reason_counts
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError
from mirage.generation.prompts import PromptMaker, RagPrompt, prompt_for
from mirage.generation.responses import respond
from mirage.llm import Message
from mirage.models import EVALUATION_ONLY, Passage, Query, Record, Response, Run
from mirage.text import cite_by_id, parse

__all__ = [
    "ChatMessage",
    "OmitReason",
    "TrainingExample",
    "TrainingSet",
    "build_training_set",
    "check_trainable",
    "example_of",
    "read_training_set",
    "relevant_only",
    "write_training_set",
]

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
"""Why a query gives no training example; :func:`build_training_set` says what each one means.

The last two are those of :func:`mirage.training.training_examples`.
"""


class ChatMessage(Record):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class TrainingExample(Record):
    """One conversation to fine-tune on: a prompt with passages, then what a model should say.

    ``question`` is the text of the query, by which it is told from those of an evaluation set.
    """

    query_id: str
    language: str
    messages: tuple[ChatMessage, ...]
    question: str | None = None

    @classmethod
    def of(cls, query: Query, messages: Iterable[Message], response: str) -> Self:
        """The example that has these messages and then the response to a query."""
        turns = (*messages, {"role": "assistant", "content": response})
        return cls(
            query_id=query.id,
            language=query.language,
            messages=tuple(ChatMessage.model_validate(turn) for turn in turns),
            question=query.text,
        )


class TrainingSet(NamedTuple):
    """Training examples, and why each other query of the dataset gives none."""

    examples: tuple[TrainingExample, ...]
    omitted: dict[str, OmitReason]


def relevant_only(dataset: MirageDataset) -> MirageDataset:
    """The queries that show a relevant passage, each with its relevant passages only.

    A teacher answers these, so that no noise misleads it.

    Raises:
        DatasetError: no query shows a relevant passage.
    """
    queries = [
        query.model_copy(update={"passages": passages})
        for query in dataset
        if (passages := _relevant(query))
    ]
    if not queries:
        raise DatasetError(
            f"no query of {dataset.name} shows a relevant passage for a teacher to answer from; "
            "give the dataset its passages and its qrels"
        )
    return MirageDataset(queries, name=dataset.name)


def check_trainable(dataset: MirageDataset) -> None:
    """Refuse data that are for evaluation only.

    Raises:
        DatasetError: a query's ``metadata["use"]`` says that it is, as those of MEMERAG do.
    """
    refused = [query for query in dataset if query.metadata.get("use") == EVALUATION_ONLY]
    if refused:
        licence = refused[0].metadata.get("licence")
        under = f" (licence: {licence})" if licence else ""
        raise DatasetError(
            f"{dataset.name} is not to be trained on: {len(refused)} of {len(dataset)} queries, "
            f"such as {refused[0].id!r}, are for evaluation only{under}"
        )


def build_training_set(
    dataset: MirageDataset, teacher: Run, prompt: PromptMaker | None = None
) -> TrainingSet:
    """Conversations to fine-tune a model on, from a teacher's responses (section 3.2).

    The teacher answered ``relevant_only(dataset)``, so it cites what is relevant. An example
    shows all of a query's passages, with the noise put back, and answers as the teacher did: the
    model learns to find what the teacher was given. The passages stand elsewhere then, so every
    citation becomes ``[id]``, whether the teacher gave an id or a position. The rest of its text
    stays.

    A query gives no example where the teacher could not answer (``no relevant passage``) or did
    not (``failed``), where its response is not a reason and then an answer (``malformed``), names
    in a citation no passage that it was shown (``unknown citation``) or cites nothing
    (``no citation``), where the prompt has no room for the query or for a passage that is cited
    (``does not fit``), and where the response would cite otherwise among all passages, such as
    ``[1969]`` where that is the id of one (``ambiguous citation``).

    Args:
        dataset: the queries with all their passages.
        teacher: responses to ``relevant_only(dataset)``. One that does not say which passages it
            was shown counts positions in that dataset's order.
        prompt: makes the prompts to train on, which should be those the model will be asked; by
            default ``RagPrompt()``, which shuffles the passages by its ``seed`` unless a retriever
            ranked them.

    Raises:
        DatasetError: no query shows a relevant passage, the run is in another language, the
            teacher was shown a passage that is not relevant, no example is left, or the queries
            are for evaluation only.
        GenerationError: the teacher failed on every query.
        UnknownNameError: the teacher answers a query that ``relevant_only(dataset)`` does not have.
    """
    check_trainable(dataset)
    bare = relevant_only(dataset)
    prompt = prompt_for(dataset, prompt or RagPrompt())
    examples: list[TrainingExample] = []
    omitted: dict[str, OmitReason] = {
        query.id: "no relevant passage" for query in dataset if not _relevant(query)
    }
    for response in respond(teacher, bare, teacher.model, progress=False):
        shown = _shown_to_teacher(bare[response.query_id], response, teacher.model)
        query = dataset[response.query_id]
        example: TrainingExample | OmitReason
        if response.text is None:
            example = "failed"
        else:
            example = example_of(query, response.text, shown, prompt)
        if isinstance(example, TrainingExample):
            examples.append(example)
        else:
            omitted[response.query_id] = example
    if not examples:
        raise DatasetError(
            f"no response of model {teacher.model!r} to {dataset.name} is fit to train on "
            f"({reason_counts(omitted.values())})"
        )
    return TrainingSet(tuple(examples), omitted)


def write_training_set(examples: Iterable[TrainingExample], path: str | Path) -> None:
    """Write training examples to ``path`` as JSON Lines, as trainers of chat models read them.

    A line is ``{"query_id": ..., "language": ..., "messages": [{"role": "user", "content": ...},
    {"role": "assistant", "content": ...}], "question": ...}``.

    Raises:
        DatasetError: the file cannot be written.
    """
    write_records(examples, Path(path))


def read_training_set(path: str | Path) -> tuple[TrainingExample, ...]:
    """Read what :func:`write_training_set` wrote.

    Raises:
        DatasetError: names the file, the line and the field that is wrong.
    """
    return tuple(validated(TrainingExample, row, where) for where, row in read_rows(Path(path)))


def _relevant(query: Query) -> tuple[Passage, ...]:
    return tuple(passage for passage in query.passages if passage.id in query.relevant)


def _shown_to_teacher(query: Query, response: Response, teacher: str) -> tuple[str, ...]:
    shown = query.shown_to(response)
    if noise := [id_ for id_ in shown if id_ not in query.passage_ids]:
        raise DatasetError(
            f"model {teacher!r} was shown passage {noise[0]!r} for query {query.id!r}, which is "
            "none of its relevant passages; let it answer relevant_only(dataset)"
        )
    return shown


def example_of(
    query: Query, response: str, shown: tuple[str, ...], prompt: PromptMaker
) -> TrainingExample | OmitReason:
    """A prompt for a query and a response as its answer, or why that is no example.

    Args:
        query: with all the passages that the prompt is to show.
        response: cites passages of the query by id, or by position among ``shown``.
        shown: the ids of the passages that it was made from, in their order.
        prompt: makes the prompt.
    """
    lesson = parse(response, query.language, shown)
    if not lesson.well_formed:
        return "malformed"
    text, all_known = cite_by_id(response, query.language, shown)
    if not all_known:
        return "unknown citation"
    if not lesson.citations:
        return "no citation"
    try:
        messages, shown = prompt(query)
    except GenerationError:
        return "does not fit"
    if not set(lesson.citations) <= set(shown):
        return "does not fit"
    again = parse(text, query.language, shown)
    if (again.citations, again.sentences) != (lesson.citations, lesson.sentences):
        return "ambiguous citation"
    return TrainingExample.of(query, messages, text)
