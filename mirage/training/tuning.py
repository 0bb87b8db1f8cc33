"""Fine-tuning with TRL and PEFT that resumes from its last checkpoint after an interruption."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from mirage._base.files import write_text, writing
from mirage._base.packages import check_bitsandbytes, package
from mirage._base.progress import progress_bar
from mirage._base.stores import MANIFEST, build_folder, read_manifest, stored_key, write_manifest
from mirage.dataset import MirageDataset
from mirage.errors import (
    DatasetError,
    GenerationError,
    SettingError,
    UnknownNameError,
)
from mirage.generation.chat import completion_ids, end_ids, own_prompt, prompt_ids
from mirage.generation.prompts import PromptMaker
from mirage.testsets.training_sets import TrainingExample, TrainingSet
from mirage.training.examples import Target, check_apart
from mirage.training.recipes import BERGEN_TUNING, TuningRecipe

Method = Literal["lora", "qlora", "full"]
"""The parameters that are trained.

``"lora"`` trains LoRA matrices, ``"qlora"`` trains LoRA matrices of a model that is quantized to 4
bits, and ``"full"`` trains all weights.
"""

KIND = "fine-tuned model"
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")

_CHECKPOINTS = "checkpoints"
_COMPLETE = "whole"  # a file that marks a checkpoint as complete
_LOSSES = "losses.json"
_IGNORED = -100  # label of tokens that the loss ignores, in torch and transformers


class FineTuned(NamedTuple):
    """The result of fine-tuning a model.

    Attributes:
        folder: Folder of the model or adapter.
        losses: Loss of each step, in nats: the mean negative log-likelihood of the completion
            tokens in the batch.
        examples: Number of examples on which the model was trained.
        too_long: Query ids of examples that were left out because they are longer than the recipe
            or the model allows.
    """

    folder: Path
    losses: tuple[float, ...]
    examples: int
    too_long: tuple[str, ...]


def finetune(
    examples: TrainingSet | Iterable[TrainingExample],
    model: str | Path,
    folder: str | Path,
    *,
    method: Method = "lora",
    recipe: TuningRecipe = BERGEN_TUNING,
    evaluation: Iterable[MirageDataset] = (),
    steps: int | None = None,
    micro_batch: int | None = None,
    save_every: int = 100,
    dtype: str | None = None,
    seed: int = 0,
    progress: bool = True,
) -> FineTuned:
    """Fine-tune a causal language model on conversations (extra ``finetune``).

    The loss is computed only on the last message of each conversation, the completion. The prompt
    is converted to the same tokens that :class:`~mirage.TransformersGenerator` uses at inference.
    The folder then contains an adapter in PEFT's format (``lora`` and ``qlora``) or a model
    (``full``). It also contains the tokenizer and ``manifest.json``, which records the data, the
    settings and the versions of packages. ``TransformersGenerator(folder)`` loads the fine-tuned
    model.

    After an interruption, the same call resumes from the last checkpoint. On a CPU with the same
    number of threads, the resumed training gives identical weights. If the folder already contains
    a model that was trained on the same data with the same settings, it is returned without
    training. Training uses one device.

    Args:
        examples: Training examples, as from :func:`training_examples` or
            :func:`mirage.testsets.build_training_set`.
        model: Name of a model on the hub, or the folder of a model.
        folder: Output folder. During training, its files are in a hidden folder beside it.
        method: The parameters to train: ``lora`` (LoRA matrices), ``qlora`` (LoRA matrices of a
            model in 4 bits) or ``full`` (all weights). ``qlora`` (Dettmers et al. 2023, arXiv
            2305.14314) needs a GPU with CUDA and the package bitsandbytes.
        recipe: Settings of the training, such as :data:`BERGEN_TUNING` or
            :data:`MIRAGE_BENCH_TUNING`.
        evaluation: Datasets on which the model will be evaluated. They must not share queries with
            the examples.
        steps: Number of training steps; by default the epochs of the recipe determine it.
        micro_batch: Number of examples to compute at a time; by default all examples of a step.
            Smaller values need less memory and more time.
        save_every: Number of steps between checkpoints. The last two checkpoints are kept.
        dtype: Data type of the weights, such as ``"bfloat16"``; by default the type
            of the stored weights, and float32 for ``full``.
        seed: Random seed for the order of examples, the initial LoRA weights and dropout.
        progress: Whether to show a progress bar if stderr is a terminal.

    Returns:
        The folder, the loss of each step, and the examples that were left out.

    Raises:
        DatasetError: If an example's query is in an evaluation set, all examples are too long, the
            folder has other contents, or another process is writing to it.
        SettingError: If a setting is invalid, the model cannot be loaded, ``qlora`` is used without
            CUDA, or there are several GPUs.
        GenerationError: If the loss is not finite.
        UnknownNameError: If ``method`` is not one of the three methods.
        MissingPackageError: If TRL, PEFT or one of their dependencies is not installed.
    """
    examples = examples.examples if isinstance(examples, TrainingSet) else tuple(examples)
    evaluation = tuple(evaluation)
    batch = recipe.batch_size if micro_batch is None else micro_batch
    _check_settings(method, recipe, batch, steps, save_every)
    check_apart(examples, evaluation)
    for name in PACKAGES:
        package(name, "finetune")
    _check_machine(method)
    tuning = {
        "data": {"fingerprint": _fingerprint(examples), "examples": len(examples)},
        "base": _describe_base(model),
        "method": method,
        "recipe": asdict(recipe),
        "steps": steps,
        "micro_batch": batch,
        "dtype": dtype,
        "seed": seed,
    }
    key = hashlib.sha256(json.dumps(tuning).encode()).hexdigest()
    destination = Path(folder)
    _check_free(destination, key)

    def fill(part: Path) -> None:
        if not _is_complete(part):
            train(part)
        # Delete checkpoints only after training, because an interrupted training needs them.
        with writing(part):
            shutil.rmtree(part / _CHECKPOINTS, ignore_errors=True)

    def train(part: Path) -> None:
        too_long, losses = _train(
            examples, part, tuning, recipe, save_every=save_every, progress=progress
        )
        facts = {"key": key, **tuning, "too_long": too_long, **_provenance(evaluation)}
        with writing(part):
            (part / MANIFEST).unlink(missing_ok=True)
        write_text(part / _LOSSES, json.dumps(losses) + "\n", follow=False)
        write_manifest(part, KIND, facts)

    build_folder(destination, KIND, key, fill)
    too_long = read_manifest(destination, KIND, {"too_long": list}, verify=False)["too_long"]
    losses = json.loads((destination / _LOSSES).read_text(encoding="utf-8"))
    return FineTuned(destination, tuple(losses), len(examples) - len(too_long), tuple(too_long))


def prompt_of(
    model: str | Path, target: Target = "answers", *, recipe: TuningRecipe = BERGEN_TUNING
) -> PromptMaker:
    """Return an object that builds prompts for fine-tuning and inference with a model.

    The object counts tokens with the tokenizer of the model. It is a
    :class:`~mirage.generation.ShortAnswerPrompt`, or a :class:`~mirage.generation.RagPrompt` if the
    target is ``reference``. Prompt and answer together have at most 8,192 tokens, or fewer if the
    recipe or the model allows fewer.

    Args:
        model: Name of a model on the hub, or the folder of a model.
        target: The text that the model is trained to generate, ``answers`` or ``reference``; the
            same as for :func:`training_examples`.
        recipe: Settings of the training; the same as for :func:`finetune`.

    Raises:
        SettingError: If the model cannot be loaded, or its context is too short for an answer.
        MissingPackageError: If transformers is not installed.
    """
    transformers = package("transformers")
    tokenizer = _load(model, transformers.AutoTokenizer.from_pretrained)
    config = _load(model, transformers.AutoConfig.from_pretrained)
    return own_prompt(tokenizer, _max_length(config, recipe), short=target == "answers")


def token_rows(
    examples: Sequence[TrainingExample], tokenizer: Any, ends: Sequence[int], longest: int
) -> tuple[list[dict[str, list[int]]], list[str]]:
    """Convert examples to token ids and labels.

    The label of a token of the completion is the token itself. The label of any other token is
    -100, which the loss ignores.

    Args:
        examples: Training examples.
        tokenizer: The model's tokenizer.
        ends: Ids of the tokens that end an answer.
        longest: Maximum number of tokens of an example.

    Returns:
        The ``input_ids`` and ``labels`` of each example that is short enough, and the query ids of
        the examples that are too long.
    """
    rows, too_long = [], []
    for example in examples:
        *turns, answer = [message.model_dump() for message in example.messages]
        prompt = prompt_ids(turns, tokenizer)
        completion = completion_ids(turns, answer["content"], tokenizer, ends)
        if len(prompt) + len(completion) > longest:
            too_long.append(example.query_id)
            continue
        labels = [_IGNORED] * len(prompt) + completion
        rows.append({"input_ids": prompt + completion, "labels": labels})
    return rows, too_long


# Checks before training ---------------------------------------------------------------------------


def _check_settings(
    method: str, recipe: TuningRecipe, batch: int, steps: int | None, save_every: int
) -> None:
    if method not in get_args(Method):
        raise UnknownNameError("fine-tuning method", method, get_args(Method))
    if batch < 1 or recipe.batch_size % batch:
        raise SettingError(
            f"micro_batch must divide the recipe's batch size of {recipe.batch_size}; got "
            f"micro_batch={batch}"
        )
    if save_every < 1 or (steps is not None and steps < 1):
        raise SettingError(
            f"steps and save_every must be at least 1, got steps={steps}, save_every={save_every}"
        )


def _check_machine(method: str) -> None:
    cuda = package("torch").cuda
    if cuda.device_count() > 1:
        raise SettingError(
            f"training uses one GPU, but torch finds {cuda.device_count()}; select one of them "
            "with CUDA_VISIBLE_DEVICES=0"
        )
    if method != "qlora":
        return
    if not cuda.is_available():
        raise SettingError(
            "qlora computes in 4 bits, which needs a GPU with CUDA, but torch finds none; use "
            "method='lora' instead"
        )
    check_bitsandbytes("qlora")


def _check_free(folder: Path, key: str) -> None:
    """Raise an error if a folder contains a model trained on other data or with other settings.

    Replacing such a model could destroy the result of days of training.
    """
    if stored_key(folder, KIND) not in (None, key):
        raise DatasetError(
            f"{folder} contains a model that was fine-tuned on different data or with different "
            f"settings, according to its {MANIFEST}; choose another folder"
        )


def _is_complete(folder: Path) -> bool:
    try:
        return bool(read_manifest(folder, KIND, {"key": str}))
    except DatasetError:
        return False


def _fingerprint(records: Iterable[Any]) -> str:
    """Return the SHA-256 of some records, written as JSON Lines in the given order."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(record.model_dump_json().encode() + b"\n")
    return digest.hexdigest()


def _provenance(evaluation: Iterable[MirageDataset]) -> dict[str, Any]:
    """Return the evaluation sets and package versions that the manifest records."""
    versions = {name: metadata.version(name) for name in ("mirage-rag", *PACKAGES)}
    return {
        "evaluation": [
            {"name": each.name, "queries": len(each), "fingerprint": _fingerprint(each)}
            for each in evaluation
        ],
        "versions": {"python": platform.python_version()} | versions,
    }


def _describe_base(model: str | Path) -> dict[str, str]:
    """Return the name and the fingerprint that identify the base model in the manifest."""
    folder = Path(model)
    if not folder.is_dir():
        config = _load(model, package("transformers").AutoConfig.from_pretrained)
        return {"name": str(model), "fingerprint": str(getattr(config, "_commit_hash", None))}
    if (folder / "adapter_config.json").is_file():
        raise SettingError(
            f"{model} contains an adapter instead of a full model; merge the adapter with its "
            "base model (peft's merge_and_unload), save the result, and fine-tune that"
        )
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file():
            digest.update(path.name.encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return {"name": str(folder.resolve()), "fingerprint": digest.hexdigest()}


def _load(model: str | Path, load: Callable[..., Any], **settings: Any) -> Any:
    try:
        return load(str(model), **settings)
    except (OSError, ValueError) as error:
        raise SettingError(
            f"model {str(model)!r} cannot be loaded ({' '.join(str(error).split())}); pass a name "
            "on the Hugging Face hub or a folder with a model and its tokenizer"
        ) from None


def _max_length(config: Any, recipe: TuningRecipe) -> int:
    """Return the maximum number of tokens that both recipe and model allow in an example."""
    longest = getattr(config.get_text_config(), "max_position_embeddings", None)
    return min(recipe.max_length, longest or recipe.max_length)


# Training -----------------------------------------------------------------------------------------


def _train(
    examples: Sequence[TrainingExample],
    part: Path,
    tuning: dict[str, Any],
    recipe: TuningRecipe,
    *,
    save_every: int,
    progress: bool,
) -> tuple[list[str], list[float]]:
    """Train from the last checkpoint, or from the start if there is none, and save the model.

    ``part`` is the unfinished output folder, which contains the checkpoints. ``tuning`` contains
    the settings that the manifest records.

    Returns:
        Query ids of examples that are too long, and the loss of each step.
    """
    datasets, trl = package("datasets"), package("trl")
    transformers = package("transformers")
    base = tuning["base"]["name"]
    tokenizer = _load(base, transformers.AutoTokenizer.from_pretrained)
    tokenizer.save_pretrained(part)  # before training, because a trainer may add a padding token
    model = _load_model(base, tuning["method"], tuning["dtype"])
    limit = _max_length(model.config, recipe)
    ends = end_ids(tokenizer, model.generation_config)
    rows, too_long = token_rows(examples, tokenizer, ends, limit)
    if not rows:
        raise DatasetError(
            f"all {len(too_long)} examples are longer than {limit} tokens; build them with a "
            "prompt for a smaller context, or use a recipe with a larger max_length"
        )
    with _suppress_messages():
        trainer = trl.SFTTrainer(
            model,
            _trainer_config(trl, part / _CHECKPOINTS, tuning, recipe, save_every),
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer,
            peft_config=None if tuning["method"] == "full" else _lora_config(model, recipe),
        )
        # Stop it from printing each loss; the progress bar and the result report enough.
        trainer.remove_callback(transformers.PrinterCallback)
        with progress_bar(0, "steps trained", progress) as bar:
            trainer.add_callback(_progress_callback(transformers, bar))
            trainer.train(resume_from_checkpoint=_last_checkpoint(part / _CHECKPOINTS))
        trainer.model.save_pretrained(part)
    (part / "README.md").unlink(missing_ok=True)  # an empty template
    return too_long, [row["loss"] for row in trainer.state.log_history if "loss" in row]


def _load_model(name: str, method: str, dtype: str | None) -> Any:
    """Load the base model with the weights and data type that the method needs."""
    transformers = package("transformers")
    settings: dict[str, Any] = {"dtype": dtype or ("float32" if method == "full" else "auto")}
    if method == "qlora":
        # Settings of section 3 of the QLoRA paper.
        settings["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=package("torch").bfloat16,
        )
    return _load(name, transformers.AutoModelForCausalLM.from_pretrained, **settings)


def _trainer_config(
    trl: Any, checkpoints: Path, tuning: dict[str, Any], recipe: TuningRecipe, save_every: int
) -> Any:
    """Convert the recipe to TRL's settings."""
    cuda = package("torch").cuda
    return trl.SFTConfig(
        str(checkpoints),
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=recipe.warmup,  # a share, below 1
        weight_decay=recipe.weight_decay,
        num_train_epochs=recipe.epochs,
        max_steps=tuning["steps"] or -1,
        per_device_train_batch_size=tuning["micro_batch"],
        gradient_accumulation_steps=recipe.batch_size // tuning["micro_batch"],
        max_length=None,  # no truncation: longer examples were left out
        packing=False,
        bf16=cuda.is_available() and cuda.is_bf16_supported(),
        gradient_checkpointing=cuda.is_available(),
        save_steps=save_every,
        save_total_limit=2,
        logging_steps=1,
        logging_nan_inf_filter=False,
        dataloader_pin_memory=cuda.is_available(),
        disable_tqdm=True,
        report_to="none",
        seed=tuning["seed"],
    )


def _lora_config(model: Any, recipe: TuningRecipe) -> Any:
    layers: str | list[str] = "all-linear"
    if recipe.layers != layers:
        layers = [recipe.layers] if isinstance(recipe.layers, str) else list(recipe.layers)
        layer_names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
        if not layer_names.intersection(layers):
            raise SettingError(
                f"{type(model).__name__} has no layers {', '.join(layers)}; use a recipe with "
                "layers='all-linear', or with names of layers that the model has"
            )
    return package("peft").LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=layers,
        bias="none",
        task_type="CAUSAL_LM",
    )


def _progress_callback(transformers: Any, bar: Any) -> Any:
    """Return a callback that updates the progress bar and marks checkpoints that are complete."""

    class Follower(transformers.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, _: Any, state: Any, __: Any, **___: Any) -> None:
            bar.total, bar.n = state.max_steps, state.global_step
            bar.refresh()

        def on_step_end(self, _: Any, __: Any, ___: Any, **____: Any) -> None:
            bar.update(1)

        def on_log(self, _: Any, state: Any, __: Any, **more: Any) -> None:
            if not math.isfinite(more["logs"].get("loss", 0)):
                raise GenerationError(
                    f"the loss is not finite at step {state.global_step}; use a recipe with a "
                    "lower learning_rate or a longer warmup"
                )

        def on_save(self, args: Any, state: Any, __: Any, **___: Any) -> None:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / _COMPLETE).touch()

    return Follower()


def _last_checkpoint(folder: Path) -> str | None:
    """Return the path of the last complete checkpoint, or ``None``; delete incomplete ones."""
    complete = []
    for path in folder.glob("checkpoint-*"):
        if (path / _COMPLETE).is_file():
            complete.append(path)
        else:
            shutil.rmtree(path)
    last = max(complete, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
    return None if last is None else str(last)


@contextmanager
def _suppress_messages() -> Iterator[None]:
    """Suppress TRL's telemetry and warnings about future changes within a ``with`` block."""
    from huggingface_hub import constants

    previous = constants.HF_HUB_DISABLE_TELEMETRY
    constants.HF_HUB_DISABLE_TELEMETRY = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        constants.HF_HUB_DISABLE_TELEMETRY = previous
