"""mirage finetune: a language model trained on what retrieval shows, and on what to say then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage._base.quoting import utf8_text
from mirage.cli import _options as options
from mirage.cli._indexes import corpus_of
from mirage.cli._inputs import (
    check_folder,
    file_of,
    is_language,
    named_numbers,
    named_texts,
    queries_of,
)
from mirage.cli._output import say, summarise
from mirage.cli._shell import app, argument, example, option
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.building import TrainingExample
    from mirage.dataset import MirageDataset
    from mirage.training import Target, TuningRecipe

__all__ = ["finetune"]

RECIPES = ("bergen", "mirage-bench")


@app.command(
    epilog=example(
        "mirage finetune shown.jsonl --model Qwen/Qwen3-0.6B --out tuned --evaluation test.jsonl",
        "mirage finetune train.jsonl --run bm25.trec --index wiki.index --model llama --out tuned",
        "mirage finetune nq.yaml --cell retriever=bm25 --model llama --out tuned",
        "mirage finetune lessons.jsonl --recipe mirage-bench --model llama --out tuned",
    )
)
def finetune(
    data: Annotated[
        str,
        argument(
            "DATASET",
            "Queries with passages and answers as JSON Lines, a code for the bundled ones, the "
            "YAML file of a grid, or conversations of a training set.",
        ),
    ],
    model: Annotated[str, option("MODEL", "A folder, or a name on the hub.")],
    folder: Annotated[Path, option("FOLDER", "Where to; the same command goes on there.", "--out")],
    method: Annotated[
        str, option("METHOD", "lora, qlora (4 bits; needs CUDA) or full (all weights).")
    ] = "lora",
    recipe: Annotated[str, option("NAME", "The settings of a paper: bergen or mirage-bench.")] = (
        "bergen"
    ),
    settings: Annotated[
        list[str] | None,
        option(
            "NAME=NUMBER",
            "Another setting than the paper's, such as rank=8; may be repeated.",
            "--set",
        ),
    ] = None,
    target: Annotated[
        str, option("TARGET", "What to say: the queries' short answers, or their reference.")
    ] = "answers",
    evaluation: Annotated[
        list[str] | None,
        option(
            "DATASET",
            "What the model will be evaluated on: none of its queries is trained on. May be "
            "repeated.",
        ),
    ] = None,
    run: Annotated[
        Path | None,
        option("FILE", "With --index: show the passages of this TREC run in place of their own."),
    ] = None,
    index: Annotated[
        Path | None, option("INDEX", "With --run: a folder that `mirage index` wrote.")
    ] = None,
    cell: Annotated[
        list[str] | None,
        option(
            "AXIS=VALUE",
            "Of a grid: the cell whose queries and passages to train on, such as retriever=bm25; "
            "may be repeated.",
        ),
    ] = None,
    k: Annotated[int, option("N", "With --run: passages to show.", "-k", min=1)] = 5,
    language: Annotated[str | None, option("CODE", "Of queries that do not name theirs.")] = None,
    steps: Annotated[
        int | None, option("N", "Steps, in place of the epochs of the recipe.", min=1)
    ] = None,
    micro_batch: Annotated[
        int | None,
        option("N", "Examples to compute at a time; fewer take less memory.", min=1),
    ] = None,
    save_every: Annotated[int, option("N", "Steps between checkpoints.", min=1)] = 100,
    seed: options.Seed = 0,
    trust: options.TrustKeys = False,
    as_json: options.SummaryJson = False,
) -> None:
    """Fine-tune a language model, by TRL and PEFT (extra finetune).

    The loss is that of the answer alone. What was killed goes on from its last checkpoint. With
    lora and qlora the folder is an adapter, which TransformersGenerator loads.
    """
    from mirage.training import finetune as tune

    check_folder(folder)
    tuning = _recipe(recipe, settings)
    exams = [_dataset(source, language) for source in evaluation or ()]
    omitted: dict[str, str] = {}
    source = data if is_language(data) else str(file_of(Path(data)))
    grid = Path(source).suffix in (".yaml", ".yml")
    taught = not grid and not is_language(data) and _is_training_set(Path(source))
    if (grid or taught) and (run is not None or index is not None):
        raise MirageError(f"{data} has passages already; leave out --run and --index")
    if cell and not grid:
        raise MirageError("--cell goes with the YAML file of a grid")
    if taught:
        from mirage.building import read_training_set

        examples = read_training_set(source)
    else:
        if grid:
            from mirage.benchmarking import Grid

            dataset = Grid.read(source, trust=trust).shown(named_texts("--cell", cell or ()))
        else:
            dataset = _shown(_dataset(source, language), run, index, k)
        examples, omitted = _examples(dataset, model, target, tuning, seed)
    made = tune(
        examples,
        model,
        folder,
        method=method,  # type: ignore[arg-type]
        recipe=tuning,
        evaluation=exams,
        steps=steps,
        micro_batch=micro_batch,
        save_every=save_every,
        seed=seed,
    )
    omitted |= dict.fromkeys(made.too_long, "too long")
    plain = {
        "examples": made.examples,
        "omitted": omitted,
        "steps": len(made.losses),
        "losses": made.losses,
    }
    text = (
        f"{made.examples} examples, {len(omitted)} queries left out, {len(made.losses)} steps, "
        f"loss {made.losses[0]:.3f} to {made.losses[-1]:.3f}"
    )
    summarise(text, plain, folder, as_json)
    if not exams:
        say("no --evaluation was given: nothing tells whether a test is trained on", "note:")


def _recipe(name: str, settings: Iterable[str] | None) -> TuningRecipe:
    from dataclasses import fields, replace

    from mirage.training import BERGEN_TUNING, MIRAGE_BENCH_TUNING

    if name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    recipe = BERGEN_TUNING if name == "bergen" else MIRAGE_BENCH_TUNING
    numbers = named_numbers("--set", settings)
    types = {field.name: field.type for field in fields(recipe) if field.type in ("int", "float")}
    for setting, number in numbers.items():
        if setting not in types:
            raise UnknownNameError("setting of fine-tuning", setting, types)
        if types[setting] == "int" and not number.is_integer():
            raise MirageError(f"--set {setting}={number:g}: {setting} is a whole number")
    given: dict[str, Any] = {
        name: int(number) if types[name] == "int" else number for name, number in numbers.items()
    }
    return replace(recipe, **given)


def _dataset(source: str, language: str | None) -> MirageDataset:
    from mirage.dataset import MirageDataset

    queries = queries_of(source, language)
    if isinstance(queries, MirageDataset):
        return queries
    return MirageDataset(queries, name=utf8_text(Path(source).stem))


def _is_training_set(path: Path) -> bool:
    from mirage._base.files import read_rows

    _, row = next(read_rows(path), ("", {}))
    return "messages" in row


def _shown(dataset: MirageDataset, run: Path | None, index: Path | None, k: int) -> MirageDataset:
    """The queries with the passages of a run, where there is one."""
    if run is None and index is None:
        return dataset
    if run is None or index is None:
        raise MirageError("--run and --index go together: a run names passages, an index has them")
    from mirage.pipeline import Pipeline
    from mirage.retrieval import RetrievalRun, RunRetriever

    found = RetrievalRun.read(file_of(run), query_ids=dataset.query_ids)
    retriever = RunRetriever(found, corpus_of(index))
    return Pipeline(retriever, retrieve_k=k, show_k=k).show(dataset)


def _examples(
    dataset: MirageDataset, model: str, target: str, recipe: TuningRecipe, seed: int
) -> tuple[tuple[TrainingExample, ...], dict[str, str]]:
    from typing import cast, get_args

    from mirage.training import Target, prompt_of, training_examples

    if target not in get_args(Target):
        raise UnknownNameError("target", target, get_args(Target))
    known = cast("Target", target)
    made = training_examples(dataset, known, prompt_of(model, known, recipe=recipe), seed=seed)
    return made.examples, dict(made.omitted)
