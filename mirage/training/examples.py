"""From queries with passages and known answers to training examples, none of them from a test."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from mirage.building.evaluation_sets import reason_counts
from mirage.building.training_sets import (
    OmitReason,
    TrainingExample,
    TrainingSet,
    check_trainable,
    example_of,
)
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError, UnknownNameError
from mirage.generation.prompts import PromptMaker, RagPrompt, prompt_for
from mirage.generation.short_answers import ShortAnswerPrompt
from mirage.models import Query
from mirage.text import tokenize

__all__ = ["Target", "check_apart", "evaluation_overlap", "training_examples"]

Target = Literal["answers", "reference"]
"""What a model is to say: short answers, or what the reference says."""

_NAMED = 5  # queries that an error names


def training_examples(
    dataset: MirageDataset,
    target: Target = "answers",
    prompt: PromptMaker | None = None,
    *,
    seed: int = 0,
) -> TrainingSet:
    """Conversations to fine-tune a model on, from queries that show passages.

    For ``answers`` the model is to say the short answers, each in one of its forms, drawn for each
    query, whatever other queries there are (BERGEN, arXiv 2407.01102, sections 4.7 and 5.5). For
    ``reference`` it is to say the query's reference, with citations of ids, as MIRAGE-Bench has it
    (:func:`mirage.building.build_training_set` takes the responses of a teacher in its place).

    A query gives no example where it shows no passage (``no passage``), has no such answer (``no
    answer``), or does not fit into the prompt (``does not fit``); and where a reference is as
    :func:`mirage.building.build_training_set` says.

    Args:
        dataset: the queries with the passages to show, such as :meth:`mirage.Pipeline.show` gives.
        target: what the model is to say.
        prompt: makes the prompts to train on, which should be those the model will be asked; by
            default ``ShortAnswerPrompt()`` for answers and ``RagPrompt()`` for references.
        seed: of the forms that are drawn.

    Raises:
        DatasetError: the queries are for evaluation only, or none gives an example; says why.
        UnknownNameError: no such target.
    """
    if target not in get_args(Target):
        raise UnknownNameError("target", target, get_args(Target))
    check_trainable(dataset)
    examples: list[TrainingExample] = []
    omitted: dict[str, OmitReason] = {}
    for query in dataset:
        if not query.passages:
            example: TrainingExample | OmitReason = "no passage"
        elif target == "answers":
            example = _short(query, prompt or ShortAnswerPrompt(), seed)
        elif query.reference is None:
            example = "no answer"
        else:
            ask = prompt_for(dataset, prompt or RagPrompt())
            example = example_of(query, query.reference, query.passage_ids, ask)
        if isinstance(example, TrainingExample):
            examples.append(example)
        else:
            omitted[query.id] = example
    if not examples:
        hint = (
            "; let a pipeline show(dataset) what it finds"
            if "no passage" in omitted.values()
            else ""
        )
        raise DatasetError(
            f"no query of {dataset.name} is fit to train on "
            f"({reason_counts(omitted.values())}){hint}"
        )
    return TrainingSet(tuple(examples), omitted)


def evaluation_overlap(
    examples: Iterable[TrainingExample], evaluation: Iterable[MirageDataset]
) -> dict[str, str]:
    """The examples whose query stands in an evaluation set: why, by the id of their query.

    Two queries are the same where their ids are, or their texts but for case, punctuation, spaces
    and forms of characters.

    Raises:
        DatasetError: an example does not say its question.
    """
    ids: dict[str, str] = {}
    texts: dict[str, tuple[str, str]] = {}
    for dataset in evaluation:
        for query in dataset:
            ids.setdefault(query.id, dataset.name)
            texts.setdefault(_normal(query.text, query.language), (dataset.name, query.id))
    return {
        example.query_id: why
        for example in examples
        if ids and (why := _reason(example, ids, texts)) is not None
    }


def check_apart(examples: Iterable[TrainingExample], evaluation: Iterable[MirageDataset]) -> None:
    """Refuse examples whose query stands in an evaluation set; see :func:`evaluation_overlap`.

    Raises:
        DatasetError: names them.
    """
    shared = evaluation_overlap(examples, evaluation)
    if shared:
        named = ", ".join(f"{id_!r} ({why})" for id_, why in list(shared.items())[:_NAMED])
        more = f" and {len(shared) - _NAMED} more" if len(shared) > _NAMED else ""
        raise DatasetError(
            f"{len(shared)} queries to train on also stand in an evaluation set: {named}{more}; "
            "leave them out (mirage.training.evaluation_overlap names all), for a model that has "
            "seen the answers is not evaluated"
        )


def _short(query: Query, prompt: PromptMaker, seed: int) -> TrainingExample | OmitReason:
    if not query.answers:
        return "no answer"
    draw = random.Random(f"{seed} {query.id}")
    answer = ", ".join(draw.choice(forms) for forms in query.answers)
    try:
        messages, _ = prompt(query)
    except GenerationError:
        return "does not fit"
    return TrainingExample.of(query, messages, answer)


def _reason(
    example: TrainingExample, ids: Mapping[str, str], texts: Mapping[str, tuple[str, str]]
) -> str | None:
    if example.question is None:
        raise DatasetError(
            f"the training example of query {example.query_id!r} does not say its question, and "
            "may stand in the evaluation set; build the training set anew"
        )
    if example.query_id in ids:
        return f"its id is in {ids[example.query_id]}"
    same = texts.get(_normal(example.question, example.language))
    return None if same is None else f"its text is that of {same[1]!r} in {same[0]}"


def _normal(text: str, language: str) -> str:
    """A text by which two questions are compared: its tokens, or itself where it has none."""
    return " ".join(tokenize(text, language)) or text
