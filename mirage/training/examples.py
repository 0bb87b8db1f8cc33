"""Training examples made from queries with passages and answers, and checks for test queries."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError, UnknownNameError
from mirage.generation.prompts import PromptMaker, RagPrompt, prompt_for
from mirage.generation.short_answers import ShortAnswerPrompt
from mirage.models import Query
from mirage.testsets.evaluation_sets import reason_counts
from mirage.testsets.training_sets import (
    OmitReason,
    TrainingExample,
    TrainingSet,
    check_trainable,
    example_of,
)
from mirage.text import tokenize

Target = Literal["answers", "reference"]
"""The text that a model is trained to generate: short answers, or the reference response."""

_LISTED_QUERIES = 5  # largest number of queries that an error lists


def training_examples(
    dataset: MirageDataset,
    target: Target = "answers",
    prompt: PromptMaker | None = None,
    *,
    seed: int = 0,
) -> TrainingSet:
    """Convert queries with passages to conversations for fine-tuning a model.

    With the target ``answers``, the model is trained to generate the short answers. One accepted
    spelling (form) of each answer is drawn at random per query, independently of other queries
    (BERGEN, arXiv 2407.01102, sections 4.7 and 5.5). With ``reference``, it is trained to
    generate the query's reference response, which cites passages by id, as in MIRAGE-Bench.
    (:func:`mirage.testsets.build_training_set` uses the responses of a teacher model instead.)

    A query gives no example if it has no passage (``no passage``) or no target text (``no
    answer``), or if it does not fit into the prompt (``does not fit``). A reference must also meet
    the conditions of :func:`mirage.testsets.build_training_set`.

    Args:
        dataset: Queries with the passages to show, as from :meth:`mirage.Pipeline.show`.
        target: The text that the model is trained to generate: ``answers`` or ``reference``.
        prompt: Object that builds the prompts; use the same one as at inference time. By default
            ``ShortAnswerPrompt()`` for answers and ``RagPrompt()`` for references.
        seed: Random seed for drawing the spellings.

    Returns:
        The examples, and the reason why each of the other queries has none.

    Raises:
        DatasetError: If the queries are for evaluation only, or if no query gives an example.
        UnknownNameError: If ``target`` is not one of the two targets.

    Example:
        >>> from mirage import MirageDataset, Passage, Query
        >>> passage = Passage(id="p1", text="The Nile is 6,650 km long.")
        >>> query = Query(
        ...     id="q1", text="How long is the Nile?", language="en",
        ...     passages=(passage,), answers=(("6,650 km",),),
        ... )
        >>> examples = training_examples(MirageDataset((query,), name="rivers"))
        >>> examples.examples[0].messages[-1].content
        '6,650 km'
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
            example = _short_answer_example(query, prompt or ShortAnswerPrompt(), seed)
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
            "; add passages with Pipeline.show(dataset)" if "no passage" in omitted.values() else ""
        )
        raise DatasetError(
            f"no query of {dataset.name} can be used for training "
            f"({reason_counts(omitted.values())}){hint}"
        )
    return TrainingSet(tuple(examples), omitted)


def evaluation_overlap(
    examples: Iterable[TrainingExample], evaluation: Iterable[MirageDataset]
) -> dict[str, str]:
    """Find the training examples whose query is also in an evaluation set.

    Two queries count as equal if they have the same id, or if their texts differ only in case,
    punctuation, spaces and Unicode variants of characters.

    Args:
        examples: Training examples.
        evaluation: Evaluation sets.

    Returns:
        The reason why the two queries count as equal, by the id of the training query. Queries that
        are in no evaluation set are left out.

    Raises:
        DatasetError: If an example has no question text.
    """
    ids: dict[str, str] = {}
    texts: dict[str, tuple[str, str]] = {}
    for dataset in evaluation:
        for query in dataset:
            ids.setdefault(query.id, dataset.name)
            texts.setdefault(_normalize(query.text, query.language), (dataset.name, query.id))
    return {
        example.query_id: reason
        for example in examples
        if ids and (reason := _reason(example, ids, texts)) is not None
    }


def check_apart(examples: Iterable[TrainingExample], evaluation: Iterable[MirageDataset]) -> None:
    """Raise a ``DatasetError`` if the query of an example is also in an evaluation set."""
    shared = evaluation_overlap(examples, evaluation)
    if shared:
        listed = ", ".join(
            f"{id_!r} ({reason})" for id_, reason in list(shared.items())[:_LISTED_QUERIES]
        )
        more = f" and {len(shared) - _LISTED_QUERIES} more" if len(shared) > _LISTED_QUERIES else ""
        raise DatasetError(
            f"{len(shared)} training queries are also in an evaluation set: {listed}{more}; "
            "remove them (mirage.training.evaluation_overlap lists all), because training on test "
            "queries makes the evaluation invalid"
        )


def _short_answer_example(
    query: Query, prompt: PromptMaker, seed: int
) -> TrainingExample | OmitReason:
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
            f"the training example of query {example.query_id!r} has no question, so it cannot be "
            "compared with the evaluation sets; build the training set again"
        )
    if example.query_id in ids:
        return f"its id is in {ids[example.query_id]}"
    same = texts.get(_normalize(example.question, example.language))
    return None if same is None else f"its text equals that of {same[1]!r} in {same[0]}"


def _normalize(text: str, language: str) -> str:
    """Normalise a question for comparison: return its tokens, or the text itself if it has none."""
    return " ".join(tokenize(text, language)) or text
