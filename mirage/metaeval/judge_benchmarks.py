"""Benchmarks for judges, ready for annotation.

They are built like MEMERAG (Cruz Blandón et al. 2025, arXiv 2502.17163, sections 3.1 to 3.3).
Questions whose answers change over time are dropped. Five passages are retrieved for each remaining
question, and several models answer it. Each sentence of an answer is paired with passage sentences
that may support it. Details that the paper leaves open are documented in
:func:`build_judge_benchmark` and the functions of its steps.
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
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.generation.responses import ModelLike, respond
from mirage.llm import LLM
from mirage.metaeval.judge_benchmark_steps import (
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
from mirage.models import Query, Run
from mirage.retrieval import BM25
from mirage.testsets.evaluation_sets import reason_counts


@dataclass(frozen=True, eq=False, repr=False)
class JudgeBenchmark:
    """Sentences for annotators, and the provenance of every question.

    It prints as a table of the steps.

    Attributes:
        sentences: The rows for annotators, in the order of the questions.
        answered_by: The model whose answer is used, by question id. The rows for annotators do not
            contain its name, so that annotators do not see which model wrote an answer.
        dropped: The reason why a question was dropped, by question id. Every question is either
            here or in ``answered_by``.
        replaced: The ids of questions whose lowest-ranked passage was replaced by a relevant one,
            including questions that were dropped later.
        settings: The settings of the build.
    """

    sentences: tuple[UnlabelledSentence, ...]
    answered_by: Mapping[str, str]
    dropped: Mapping[str, Dropped]
    replaced: tuple[str, ...]
    settings: Mapping[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of questions and sentences, by name.

        Questions are counted in total, as kept, and as dropped for each reason. ``lowest passage
        replaced`` is the number of questions whose last passage was replaced. ``sentences without a
        mark`` is the number of sentences that no passage sentence supports.
        """
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
        remaining, rows = counts["questions"], [("questions", "", str(counts["questions"]))]
        for reason in get_args(DropReason):
            remaining -= counts[reason]
            rows.append((reason, str(counts[reason]), str(remaining)))
        note_names = ("lowest passage replaced", "sentences", "sentences without a mark")
        notes = tuple(f"{name}: {counts[name]}" for name in note_names)
        head, marks = ("step", "dropped", "left"), (False,) * len(rows)
        return to_text(Table("A benchmark for annotators", head, tuple(rows), marks, notes, name=0))

    def to_jsonl(self, path: str | Path) -> None:
        """Write the rows for annotators, one per line.

        :meth:`LabelledSentences.from_jsonl` reads the file once its labels are filled in. An
        existing file with other content is never overwritten, because it may contain labels.

        Raises:
            DatasetError: If the file exists with other content.
        """
        file = Path(path)
        text = "".join(f"{row.model_dump_json(exclude_defaults=True)}\n" for row in self.sentences)
        if file.exists() and read_bytes(file) != text.encode():
            raise DatasetError(
                f"{file}: the file exists already with different content, such as labels or an "
                "earlier version of the benchmark; move the file and build the benchmark again"
            )
        _write(file, text)

    def provenance(self) -> dict[str, Any]:
        """Return the settings, the counts and the history of each question as JSON values."""
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
    """Build a benchmark for judges: sentences of models' answers for annotators, as in MEMERAG.

    The steps are:

    1. Passages are retrieved for each question (:func:`with_passages`). This comes first because it
       costs nothing.
    2. An LLM decides which answers change over time; these questions are dropped
       (:func:`~mirage.metaeval.judge_benchmark_steps.time_independent`).
    3. Every model answers every remaining question.
    4. Questions with a failed or short answer are dropped (:func:`unfit_answers`).
    5. ``per_model`` of the remaining questions are drawn for each model (:func:`assign_models`).
    6. The answers are split into sentences, each with the sentences of the passages that may
       support it (:func:`unlabelled_sentences`).

    The folder ``out`` gets ``sentences.jsonl`` for the annotators, ``provenance.json`` with the
    reason for every dropped question, ``queries.jsonl`` with the questions that the models
    answered, and their answers in the folder ``runs``. A second call with the same folder resumes:
    it reads answers from there and verdicts from the LLM's cache, and retries only failures.

    Args:
        queries: Questions of one language with their relevant passages, such as
            ``MirageDataset.from_trec(topics, qrels, language="sw")``. Passages that the queries
            already contain are ignored.
        index: The index of the corpus from which passages are retrieved.
        models: The models that answer, by name; see :data:`mirage.generation.ModelLike`. If a model
            is given as recorded answers, they must be answers to the questions in ``queries.jsonl``
            with the passages listed there.
        out: The output folder.
        llm: The LLM that decides which answers change over time; ``None`` skips this step.
        passages: Number of passages per question.
        min_words: Minimum number of words in an answer.
        per_model: Number of questions per model.
        mark: The function that scores how well a sentence of a passage supports a sentence of an
            answer; see :data:`~mirage.metaeval.judge_benchmark_steps.SupportMarker`.
        seed: Random seed of the draw of questions.
        progress: Show progress bars on stderr if it is a terminal.

    Returns:
        The benchmark, whose sentences have no labels yet.

    Raises:
        DatasetError: If there is no model, too few questions are left, or the folder has answers to
            questions with other passages or a different ``sentences.jsonl``.
        GenerationError: If a model failed on all questions.
        LLMError: If the LLM decided for no question whether its answer changes over time.
        JudgmentError: If ``mark`` did not return a finite number per sentence.
        UnknownNameError: If a recorded answer is to a question that was dropped.
    """
    if not models:
        raise DatasetError("models is empty; pass at least one model that answers the questions")
    folder = Path(out)
    complete, replaced, dropped = with_passages(queries, index, passages)
    # Cheap steps come first, so that the LLM and the models see as few questions as possible.
    stable, changing = _drop_changing(complete, llm, progress)
    dropped |= changing
    dataset = _make_dataset(stable, queries.name, dropped)
    runs = _collect_answers(dataset, models, folder, progress)
    dropped |= unfit_answers(dataset, runs, min_words)
    fit = [query_id for query_id in dataset.query_ids if query_id not in dropped]
    try:
        answered_by = assign_models(fit, list(models), per_model, seed=seed)
    except DatasetError as error:
        raise DatasetError(f"{error} (dropped: {_format_reasons(dropped) or 'none'})") from None
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


def _drop_changing(
    queries: Sequence[Query], llm: LLM | None, progress: bool
) -> tuple[tuple[Query, ...], dict[str, Dropped]]:
    """Return the questions whose answers stay the same, and why the other ones are dropped."""
    if llm is None or not queries:
        return tuple(queries), {}
    stable, changing, undecided = time_independent(queries, llm, progress=progress)
    dropped = {query.id: Dropped("changes over time") for query in changing}
    return stable, dropped | {id_: Dropped("undecided", why) for id_, why in undecided.items()}


def _make_dataset(
    queries: Sequence[Query], name: str, dropped: Mapping[str, Dropped]
) -> MirageDataset:
    if not queries:
        query_id, drop = next(iter(dropped.items()))
        first = f"the first, {query_id!r}: {drop.detail or drop.reason}"
        raise DatasetError(
            f"{name}: every question was dropped ({_format_reasons(dropped)}; {first})"
        )
    return MirageDataset(queries, name=name)


def _collect_answers(
    dataset: MirageDataset, models: Mapping[str, ModelLike], folder: Path, progress: bool
) -> dict[str, Run]:
    """Let every model answer all questions, and store its answers in a file in ``folder``."""
    _store_queries(dataset, folder / "queries.jsonl")
    # Names such as meta/llama-3 contain a slash.
    files = {name: folder / "runs" / f"{file_name(name)}.jsonl" for name in models}
    return {
        name: respond(model, dataset, name, out=files[name], progress=progress)
        for name, model in models.items()
    }


def _store_queries(dataset: MirageDataset, path: Path) -> None:
    """Write the questions for the models, or raise an error if the folder has other questions.

    The check is needed because stored answers are matched by question id, and a question may have
    other passages than when it was answered.
    """
    queries = {query.id: query for query in dataset}
    with Journal(path, Query) as journal:
        for query in journal.earlier:
            if queries.get(query.id) != query:
                raise DatasetError(
                    f"{path}: query {query.id!r} of this file is not among the current queries, "
                    "or has different passages there, so the answers in this folder cannot be "
                    "used; use another folder"
                )
        journal.finish(dataset)


def _format_reasons(dropped: Mapping[str, Dropped]) -> str:
    return reason_counts(drop.reason for drop in dropped.values())


def _write(path: Path, text: str) -> None:
    """Write a file atomically, and create its folder if it is missing."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
