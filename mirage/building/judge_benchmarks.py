"""A benchmark for judges, up to the point where people label it.

As MEMERAG was built (Cruz Blandón et al. 2025, arXiv 2502.17163, sections 3.1 to 3.3): questions
whose answers do not change over time, five passages for each, answers of several models, and their
sentences beside what may support them. Where the paper is silent, :func:`build_judge_benchmark`
and the functions of its steps say what was decided.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from mirage._base.files import file_name, write_text, writing
from mirage._base.inputs import read_bytes
from mirage._base.journal import Journal
from mirage._base.tables import Table, to_text
from mirage.building.evaluation_sets import reason_counts
from mirage.building.judge_benchmark_steps import (
    Dropped,
    DropReason,
    SupportMarker,
    UnlabelledSentence,
    assign_models,
    lexical_marks,
    time_independent,
    unfit_answers,
    unlabelled_sentences,
    with_passages,
)
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.generation.responses import ModelLike, respond
from mirage.llm import LLM
from mirage.models import Query, Run
from mirage.retrieval import BM25

__all__ = ["JudgeBenchmark", "build_judge_benchmark"]


@dataclass(frozen=True, eq=False, repr=False)
class JudgeBenchmark:
    """Sentences for annotators, and what became of every question on the way.

    It prints as a table of the steps.

    Attributes:
        sentences: the rows for annotators, in the order of the questions.
        answered_by: by question, the model whose answer was taken. The rows do not say it, so that
            annotators do not know it.
        dropped: by question, why it was left out. Every question is here or in ``answered_by``.
        replaced: questions whose lowest passage gave way to a relevant one, whatever became of
            them later.
        settings: what it was built with.
    """

    sentences: tuple[UnlabelledSentence, ...]
    answered_by: Mapping[str, str]
    dropped: Mapping[str, Dropped]
    replaced: tuple[str, ...]
    settings: Mapping[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """How many questions there were, were dropped at each step, and are left; and sentences."""
        reasons = Counter(drop.reason for drop in self.dropped.values())
        return {
            "questions": len(self.dropped) + len(self.answered_by),
            **{reason: reasons[reason] for reason in get_args(DropReason)},
            "kept": len(self.answered_by),
            "lowest passage replaced": len(self.replaced),
            "sentences": len(self.sentences),
            "sentences without a mark": sum(not row.support for row in self.sentences),
        }

    def __repr__(self) -> str:
        return f"JudgeBenchmark(questions={len(self.answered_by)}, sentences={len(self.sentences)})"

    def __str__(self) -> str:
        counts = self.counts
        rest, rows = counts["questions"], [("questions", "", str(counts["questions"]))]
        for reason in get_args(DropReason):
            rest -= counts[reason]
            rows.append((reason, str(counts[reason]), str(rest)))
        others = ("lowest passage replaced", "sentences", "sentences without a mark")
        notes = tuple(f"{name}: {counts[name]}" for name in others)
        head, marks = ("step", "dropped", "left"), (False,) * len(rows)
        return to_text(Table("A benchmark for annotators", head, tuple(rows), marks, notes, name=0))

    def to_jsonl(self, path: str | Path) -> None:
        """Write the rows for annotators, one a line.

        :meth:`LabelledSentences.from_jsonl` reads the file once its labels are filled in. A file
        that stands there already is never replaced by another: it may hold somebody's labels.

        Raises:
            DatasetError: the file is there, and differs.
        """
        place = Path(path)
        text = "".join(f"{row.model_dump_json(exclude_defaults=True)}\n" for row in self.sentences)
        if place.exists() and read_bytes(place) != text.encode():
            raise DatasetError(
                f"{place}: this file is there already and says something else; it may hold labels, "
                "or a former state of the benchmark: move it away, and build again"
            )
        _write(place, text)

    def provenance(self) -> dict[str, Any]:
        """All but the rows, as plain values that go into JSON."""
        return {
            "settings": dict(self.settings),
            "counts": self.counts,
            "answered_by": dict(self.answered_by),
            "replaced": list(self.replaced),
            "dropped": {query_id: drop._asdict() for query_id, drop in self.dropped.items()},
        }


def build_judge_benchmark(
    queries: MirageDataset,
    index: BM25,
    models: Mapping[str, ModelLike],
    *,
    out: str | Path,
    llm: LLM | None,
    passages: int = 5,
    min_words: int = 10,
    per_model: int = 50,
    mark: SupportMarker = lexical_marks,
    seed: int = 0,
    progress: bool = True,
) -> JudgeBenchmark:
    """Sentences of models' answers for annotators to label, as MEMERAG was built.

    Passages are found first, because that costs nothing (:func:`with_passages`); an LLM says which
    questions have answers that change over time (:func:`~mirage.building.time_independent`); every
    model answers every question that is left; questions with an answer that failed or is short are
    dropped (:func:`unfit_answers`); ``per_model`` of the others are drawn for each model
    (:func:`assign_models`); the answers are split into sentences, with the sentences of the
    passages that may support each (:func:`unlabelled_sentences`).

    The folder ``out`` gets ``sentences.jsonl`` for the annotators, ``provenance.json`` with what
    became of every question, ``queries.jsonl`` with the questions that the models answered, and
    their answers under ``runs``. Built again with the same folder, it goes on where it was: answers
    are read from there and verdicts from the LLM's cache, and only what failed is asked again.

    Args:
        queries: questions of one language with their relevant passages, such as
            ``MirageDataset.from_trec(topics, qrels, language="sw")``. The passages they show are
            not read.
        index: the corpus to find passages in.
        models: what answers, by name; see :data:`mirage.generation.ModelLike`. Recorded answers
            have to be to the questions, and the passages, of ``queries.jsonl``.
        out: a folder.
        llm: says which answers change over time; ``None`` if none does: no question is asked
            about then, nor dropped for it.
        passages: passages a question.
        min_words: the words that an answer has, at least.
        per_model: questions a model.
        mark: marks supporting sentences.

    Raises:
        DatasetError: no model or not enough questions are left, the folder holds answers to
            questions with other passages, or a ``sentences.jsonl`` that differs.
        GenerationError: a model failed on all questions.
        LLMError: of no question is known whether its answer changes over time.
        JudgmentError: ``mark`` returned something else than a number a sentence.
        UnknownNameError: recorded answers are to a question that was dropped.
    """
    if not models:
        raise DatasetError("no model is given to answer the questions")
    folder = Path(out)
    complete, replaced, dropped = with_passages(queries, index, passages)
    stable, changing = _stable(complete, llm, progress)
    dropped |= changing
    dataset = _dataset(stable, queries.name, dropped)
    runs = _answers(dataset, models, folder, progress)
    dropped |= unfit_answers(dataset, runs, min_words)
    fit = [query_id for query_id in dataset.query_ids if query_id not in dropped]
    try:
        answered_by = assign_models(fit, list(models), per_model, seed=seed)
    except DatasetError as error:
        raise DatasetError(f"{error} (dropped: {_reasons(dropped) or 'none'})") from None
    dropped |= {query_id: Dropped("not sampled") for query_id in fit if query_id not in answered_by}
    rows = (
        row
        for query_id, model in answered_by.items()
        for row in unlabelled_sentences(dataset[query_id], runs[model][query_id], mark)
    )
    settings = {
        "queries": queries.name,
        "language": queries.language,
        "corpus": len(index),
        "k1": index.k1,
        "b": index.b,
        "passages": passages,
        "time filter": None if llm is None else llm.model,
        "models": list(models),
        "min_words": min_words,
        "per_model": per_model,
        "mark": getattr(mark, "__name__", type(mark).__name__),
        "seed": seed,
    }
    benchmark = JudgeBenchmark(tuple(rows), answered_by, dropped, replaced, settings)
    benchmark.to_jsonl(folder / "sentences.jsonl")
    provenance = json.dumps(benchmark.provenance(), ensure_ascii=False, indent=1)
    _write(folder / "provenance.json", provenance + "\n")
    return benchmark


def _stable(
    queries: Sequence[Query], llm: LLM | None, progress: bool
) -> tuple[tuple[Query, ...], dict[str, Dropped]]:
    """The questions whose answers stay the same, and why each other one is left out."""
    if llm is None or not queries:
        return tuple(queries), {}
    stable, changing, undecided = time_independent(queries, llm, progress=progress)
    dropped = {query.id: Dropped("changes over time") for query in changing}
    return stable, dropped | {id_: Dropped("undecided", why) for id_, why in undecided.items()}


def _dataset(queries: Sequence[Query], name: str, dropped: Mapping[str, Dropped]) -> MirageDataset:
    if not queries:
        query_id, drop = next(iter(dropped.items()))
        first = f"the first, {query_id!r}: {drop.detail or drop.reason}"
        raise DatasetError(f"{name}: no question is left ({_reasons(dropped)}; {first})")
    return MirageDataset(queries, name=name)


def _answers(
    dataset: MirageDataset, models: Mapping[str, ModelLike], folder: Path, progress: bool
) -> dict[str, Run]:
    """Every model's answers to all questions, kept in a file a model."""
    _keep_queries(dataset, folder / "queries.jsonl")
    # Names such as meta/llama-3 hold a slash.
    files = {name: folder / "runs" / f"{file_name(name)}.jsonl" for name in models}
    return {
        name: respond(model, dataset, name, out=files[name], progress=progress)
        for name, model in models.items()
    }


def _keep_queries(dataset: MirageDataset, path: Path) -> None:
    """Write what the models are asked; a folder of answers to anything else is refused.

    Answers are found again by the ids of questions, which do not say what passages they had.
    """
    queries = {query.id: query for query in dataset}
    with Journal(path, Query) as journal:
        for query in journal.earlier:
            if queries.get(query.id) != query:
                raise DatasetError(
                    f"{path}: query {query.id!r} of this file is not asked now, or with other "
                    "passages, and the answers in this folder are to it; build in another folder"
                )
        journal.finish(dataset)


def _reasons(dropped: Mapping[str, Dropped]) -> str:
    return reason_counts(drop.reason for drop in dropped.values())


def _write(path: Path, text: str) -> None:
    """Write a file in one step, so that none is left half written."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
