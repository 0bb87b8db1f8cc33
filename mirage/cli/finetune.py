"""mirage finetune: fine-tune a language model on retrieved passages and answers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage._base.quoting import utf8_text
from mirage.cli import _options as options
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
    from mirage.dataset import MirageDataset
    from mirage.testsets.training_sets import TrainingExample
    from mirage.training.examples import Target
    from mirage.training.recipes import TuningRecipe

RECIPES = ("bergen", "mirage-bench")
SCHEDULE = ("steps", "micro_batch", "save_every")


@app.command(
    epilog=example(
        "mirage finetune shown.jsonl --model Qwen/Qwen3-0.6B --out tuned --evaluation test.jsonl",
        "mirage finetune nq.yaml --cell retriever=bm25 --model llama --out tuned",
        "mirage finetune conversations.jsonl --recipe mirage-bench --model llama --out tuned",
    )
)
def finetune(
    data: Annotated[
        str,
        argument(
            "DATASET",
            "Training data: queries with passages and answers as JSON Lines; a language code, "
            "which selects the bundled queries; the YAML file of a grid; or conversations as JSON "
            'Lines, {"messages": [...]} per line.',
        ),
    ],
    model: Annotated[str, option("MODEL", "Model to fine-tune: a folder or a Hugging Face name.")],
    folder: Annotated[
        Path,
        option(
            "FOLDER",
            "Write the fine-tuned model and its checkpoints to this folder. Repeat the command to "
            "resume an interrupted run.",
            "--out",
        ),
    ],
    method: Annotated[
        str,
        option(
            "METHOD",
            "lora, qlora (LoRA on a model quantised to 4 bits; needs CUDA) or full (trains all "
            "weights).",
        ),
    ] = "lora",
    recipe: Annotated[
        str, option("NAME", "Use the hyperparameters of this paper: bergen or mirage-bench.")
    ] = "bergen",
    settings: Annotated[
        list[str] | None,
        option(
            "NAME=NUMBER",
            "Replace a hyperparameter of the recipe, such as rank=8, or set steps=N (training "
            "steps, instead of epochs), micro_batch=N (examples per forward pass) or save_every=N "
            "(steps between checkpoints); may be repeated.",
            "--set",
        ),
    ] = None,
    target: Annotated[
        str,
        option(
            "TARGET",
            "What the model learns to write: answers (the short answers) or reference (the "
            "reference responses).",
        ),
    ] = "answers",
    evaluation: Annotated[
        list[str] | None,
        option(
            "DATASET",
            "Dataset that you evaluate on later. Its queries are left out of training; may be "
            "repeated.",
        ),
    ] = None,
    cell: Annotated[
        list[str] | None,
        option(
            "AXIS=VALUE",
            "With a grid: train on the queries and passages of the cell that has this setting, "
            "such as retriever=bm25; may be repeated.",
        ),
    ] = None,
    seed: options.Seed = 0,
    trust: options.TrustGrid = False,
) -> None:
    """Fine-tune a language model to answer from passages.

    The loss is computed on the answer only, not on the prompt. With lora and qlora, the output is
    an adapter, which TransformersGenerator loads together with its base model. Requires
    mirage-rag[finetune].
    """
    from mirage.training import finetune as tune

    check_folder(folder)
    tuning, schedule = _recipe(recipe, settings)
    exams = [_dataset(source) for source in evaluation or ()]
    omitted: dict[str, str] = {}
    source = data if is_language(data) else str(file_of(Path(data)))
    grid = Path(source).suffix in (".yaml", ".yml")
    if cell and not grid:
        raise MirageError(
            "--cell selects a cell (a combination of settings) of a grid, so DATASET must be the "
            "YAML file of a grid"
        )
    if not grid and not is_language(data) and _is_training_set(Path(source)):
        from mirage.testsets.training_sets import read_training_set

        examples = read_training_set(source)
    else:
        if grid:
            from mirage.grids import Grid

            dataset = Grid.read(source, trust=trust).shown(named_texts("--cell", cell or ()))
        else:
            dataset = _dataset(source)
        examples, omitted = _examples(dataset, model, target, tuning, seed)
    tuned = tune(
        examples,
        model,
        folder,
        method=method,  # type: ignore[arg-type]
        recipe=tuning,
        evaluation=exams,
        seed=seed,
        **schedule,
    )
    omitted |= dict.fromkeys(tuned.too_long, "too long")
    text = (
        f"{tuned.examples} examples, {len(omitted)} queries left out, {len(tuned.losses)} steps, "
        f"loss {tuned.losses[0]:.3f} to {tuned.losses[-1]:.3f}"
    )
    summarise(text, folder)
    if not exams:
        say("without --evaluation, test queries may be among the training data", "note:")


def _recipe(name: str, settings: Iterable[str] | None) -> tuple[TuningRecipe, dict[str, Any]]:
    """Return the recipe and the training schedule.

    Values of ``--set`` for the number of steps, the number of examples per forward pass and the
    number of steps between checkpoints go into the schedule. All other values replace
    hyperparameters of the recipe.

    Args:
        name: Name of the recipe.
        settings: Values of ``--set``, such as ``rank=8``.
    """
    from dataclasses import fields, replace

    from mirage.training import BERGEN_TUNING, MIRAGE_BENCH_TUNING

    if name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    recipe = BERGEN_TUNING if name == "bergen" else MIRAGE_BENCH_TUNING
    numbers = named_numbers("--set", settings)
    types = {field.name: field.type for field in fields(recipe) if field.type in ("int", "float")}
    types |= dict.fromkeys(SCHEDULE, "int")
    for setting, number in numbers.items():
        if setting not in types:
            raise UnknownNameError("fine-tuning setting", setting, types)
        if types[setting] == "int" and not number.is_integer():
            raise MirageError(f"--set {setting}={number:g}: expected a whole number")
    values: dict[str, Any] = {
        name: int(number) if types[name] == "int" else number for name, number in numbers.items()
    }
    schedule = {name: values.pop(name) for name in SCHEDULE if name in values}
    if any(steps < 1 for steps in schedule.values()):
        raise MirageError(
            f"--set: each of {', '.join(SCHEDULE)} must be at least 1, got "
            f"{', '.join(f'{name}={steps}' for name, steps in schedule.items())}"
        )
    return replace(recipe, **values), schedule


def _dataset(source: str) -> MirageDataset:
    from mirage.dataset import MirageDataset

    queries = queries_of(source, None)
    if isinstance(queries, MirageDataset):
        return queries
    return MirageDataset(queries, name=utf8_text(Path(source).stem))


def _is_training_set(path: Path) -> bool:
    from mirage._base.files import read_rows

    _, row = next(read_rows(path), ("", {}))
    return "messages" in row


def _examples(
    dataset: MirageDataset, model: str, target: str, recipe: TuningRecipe, seed: int
) -> tuple[tuple[TrainingExample, ...], dict[str, str]]:
    from typing import cast, get_args

    from mirage.training import prompt_of, training_examples
    from mirage.training.examples import Target

    if target not in get_args(Target):
        raise UnknownNameError("target", target, get_args(Target))
    kind = cast("Target", target)
    built = training_examples(dataset, kind, prompt_of(model, kind, recipe=recipe), seed=seed)
    return built.examples, dict(built.omitted)
