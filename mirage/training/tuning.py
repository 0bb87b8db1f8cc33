"""Fine-tuning by TRL and PEFT, that goes on where it was when it is killed."""

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
from mirage._base.packages import package
from mirage._base.progress import progress_bar
from mirage._base.stores import MANIFEST, build_folder, read_manifest, stored_key, write_manifest
from mirage.building.training_sets import TrainingExample, TrainingSet
from mirage.dataset import MirageDataset
from mirage.errors import (
    DatasetError,
    GenerationError,
    MissingPackageError,
    SettingError,
    UnknownNameError,
)
from mirage.generation.chat import completion_ids, end_ids, own_prompt, prompt_ids
from mirage.generation.prompts import PromptMaker
from mirage.training.examples import Target, check_apart
from mirage.training.recipes import BERGEN_TUNING, TuningRecipe

__all__ = ["FineTuned", "Method", "finetune", "prompt_of", "token_rows"]

Method = Literal["lora", "qlora", "full"]
"""What is trained: matrices beside the layers, the same beside layers in 4 bits, or all weights."""

KIND = "fine-tuned model"
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")

_CHECKPOINTS = "checkpoints"
_WHOLE = "whole"  # a file in a checkpoint that was written to its end
_LOSSES = "losses.json"
_IGNORED = -100  # the label of a token that the loss leaves out, in torch and transformers


class FineTuned(NamedTuple):
    """A model that was fine-tuned.

    ``losses`` are the mean negative log-likelihoods, in nats, of the completion's tokens in each
    step's batch. ``too_long`` names the queries of the examples that were left out, being longer
    than the recipe or the model allows.
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

    The loss is that of the last message alone, the completion. The model reads the prompt as
    :class:`~mirage.TransformersGenerator` will give it, token by token. For ``lora`` and ``qlora``
    the folder holds an adapter in PEFT's form, for ``full`` a model; each with the tokenizer, and
    with ``manifest.json``, which says by what data, settings and versions it was made.
    ``TransformersGenerator(folder)`` loads it.

    Training that was killed goes on from its last checkpoint, by the same call, and on a CPU, with
    as many threads, gives the same weights to the bit as training that was not. A folder that holds
    the result of the same data, model and settings is returned as it is. It computes on one device.

    Args:
        examples: what to train on: :func:`training_examples` or
            :func:`mirage.building.build_training_set` make them.
        model: a name on the hub, or a folder.
        folder: where to. While it is made, it stands beside its place under a hidden name.
        method: what is trained. ``qlora`` (Dettmers et al. 2023, arXiv 2305.14314) needs a GPU with
            CUDA and the package bitsandbytes.
        recipe: the settings; :data:`BERGEN_TUNING` or :data:`MIRAGE_BENCH_TUNING`, or others.
        evaluation: datasets that the model will be evaluated on, none of whose queries may be
            trained on.
        steps: how many, in place of the recipe's epochs.
        micro_batch: examples to compute at a time, by default all of a step; fewer take less
            memory, and more time.
        save_every: steps between checkpoints, two of which are kept.
        dtype: of the weights, such as ``"bfloat16"``; by default those of the checkpoint, and
            float32 for ``full``.
        seed: of the order of examples, the new weights and dropout.
        progress: show a progress bar on stderr, if that is a terminal.

    Raises:
        DatasetError: an example's query stands in an evaluation set; all examples are too long; the
            folder holds something else, or another process writes it.
        SettingError: a setting that makes no sense, a model that cannot be loaded, ``qlora``
            without CUDA, or several GPUs.
        GenerationError: the loss is no number any more.
        UnknownNameError: no such method.
        MissingPackageError: TRL, PEFT, or what they need, is not installed.
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
        "base": _base(model),
        "method": method,
        "recipe": asdict(recipe),
        "steps": steps,
        "micro_batch": batch,
        "dtype": dtype,
        "seed": seed,
    }
    key = hashlib.sha256(json.dumps(tuning).encode()).hexdigest()
    place = Path(folder)
    _check_free(place, key)

    def fill(part: Path) -> None:
        if not _is_whole(part):
            train(part)
        # Last: what is left of them would be gone on from.
        with writing(part):
            shutil.rmtree(part / _CHECKPOINTS, ignore_errors=True)

    def train(part: Path) -> None:
        too_long, losses = _train(
            examples, part, tuning, recipe, save_every=save_every, progress=progress
        )
        facts = {"key": key, **tuning, "too_long": too_long, **_circumstances(evaluation)}
        with writing(part):
            (part / MANIFEST).unlink(missing_ok=True)
        write_text(part / _LOSSES, json.dumps(losses) + "\n", follow=False)
        write_manifest(part, KIND, facts)

    build_folder(place, KIND, key, fill)
    too_long = read_manifest(place, KIND, {"too_long": list}, verify=False)["too_long"]
    losses = json.loads((place / _LOSSES).read_text(encoding="utf-8"))
    return FineTuned(place, tuple(losses), len(examples) - len(too_long), tuple(too_long))


def prompt_of(
    model: str | Path, target: Target = "answers", *, recipe: TuningRecipe = BERGEN_TUNING
) -> PromptMaker:
    """The prompt to tune a model with, and to ask it: counted by its own tokenizer.

    It is a :class:`~mirage.generation.ShortAnswerPrompt`, or for references a
    :class:`~mirage.generation.RagPrompt`, in no more tokens than the recipe and the model allow.

    Args:
        model: a name on the hub, or a folder.
        target: that of :func:`training_examples`.
        recipe: that of :func:`finetune`.

    Raises:
        SettingError: the model cannot be loaded, or its context is too short for an answer.
        MissingPackageError: transformers is not installed.
    """
    transformers = package("transformers", "finetune")
    tokenizer = _loaded(model, transformers.AutoTokenizer.from_pretrained)
    config = _loaded(model, transformers.AutoConfig.from_pretrained)
    return own_prompt(tokenizer, _longest(config, recipe), short=target == "answers")


def token_rows(
    examples: Sequence[TrainingExample], tokenizer: Any, ends: Sequence[int], longest: int
) -> tuple[list[dict[str, list[int]]], list[str]]:
    """The tokens and labels of each example, and the ids of the queries of those too long.

    The label of a token of the completion is the token itself, that of any other -100, which the
    loss leaves out.

    Args:
        examples: the conversations.
        tokenizer: of the model.
        ends: tokens that end an answer.
        longest: the tokens of an example, at most.
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


# Before anything is loaded ------------------------------------------------------------------------


def _check_settings(
    method: str, recipe: TuningRecipe, batch: int, steps: int | None, save_every: int
) -> None:
    if method not in get_args(Method):
        raise UnknownNameError("method of fine-tuning", method, get_args(Method))
    if batch < 1 or recipe.batch_size % batch:
        raise SettingError(
            f"micro_batch divides the batch of {recipe.batch_size} examples a step; {batch} does "
            "not"
        )
    if save_every < 1 or (steps is not None and steps < 1):
        raise SettingError(f"steps and save_every are 1 or more, not {steps} and {save_every}")


def _check_machine(method: str) -> None:
    cuda = package("torch", "finetune").cuda
    if cuda.device_count() > 1:
        raise SettingError(
            f"training is on one GPU, and torch sees {cuda.device_count()}; say which with "
            "CUDA_VISIBLE_DEVICES=0"
        )
    if method != "qlora":
        return
    if not cuda.is_available():
        raise SettingError(
            "qlora computes in 4 bits, which needs a GPU with CUDA, and torch sees none; "
            "method='lora' does without"
        )
    try:
        package("bitsandbytes", "finetune")
    except MissingPackageError:
        raise MissingPackageError(
            "qlora needs the package bitsandbytes; install it with: pip install bitsandbytes"
        ) from None


def _check_free(folder: Path, key: str) -> None:
    """Refuse to replace a model made with other data or settings, which may have taken days."""
    if stored_key(folder, KIND) not in (None, key):
        raise DatasetError(
            f"{folder} holds a model fine-tuned on other data or with other settings, as its "
            f"{MANIFEST} says; choose another folder"
        )


def _is_whole(folder: Path) -> bool:
    try:
        return bool(read_manifest(folder, KIND, {"key": str}))
    except DatasetError:
        return False


def _fingerprint(records: Iterable[Any]) -> str:
    """SHA-256 of records in their order, as JSON Lines."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(record.model_dump_json().encode() + b"\n")
    return digest.hexdigest()


def _circumstances(evaluation: Iterable[MirageDataset]) -> dict[str, Any]:
    """What changes nothing in the key of a model, and is to be known of it."""
    versions = {name: metadata.version(name) for name in ("mirage-rag", *PACKAGES)}
    return {
        "evaluation": [
            {"name": each.name, "queries": len(each), "fingerprint": _fingerprint(each)}
            for each in evaluation
        ],
        "versions": {"python": platform.python_version()} | versions,
    }


def _base(model: str | Path) -> dict[str, str]:
    """Which model is tuned: its name or whole path, and what tells it from others of that name."""
    place = Path(model)
    if not place.is_dir():
        config = _loaded(model, package("transformers", "finetune").AutoConfig.from_pretrained)
        return {"name": str(model), "fingerprint": str(getattr(config, "_commit_hash", None))}
    if (place / "adapter_config.json").is_file():
        raise SettingError(
            f"{model} holds an adapter; merge it with its model (peft's merge_and_unload) and "
            "save that, to tune it on"
        )
    digest = hashlib.sha256()
    for path in sorted(place.iterdir()):
        if path.is_file():
            digest.update(path.name.encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return {"name": str(place.resolve()), "fingerprint": digest.hexdigest()}


def _loaded(model: str | Path, load: Callable[..., Any], **settings: Any) -> Any:
    try:
        return load(str(model), **settings)
    except (OSError, ValueError) as error:
        raise SettingError(
            f"model {str(model)!r} cannot be loaded ({' '.join(str(error).split())}); give a name "
            "on the Hugging Face hub or a folder with a model and its tokenizer"
        ) from None


def _longest(config: Any, recipe: TuningRecipe) -> int:
    """The tokens of an example that recipe and model allow."""
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
    """Train from the last checkpoint on, and save; what was too long, and the losses."""
    datasets, trl = package("datasets", "finetune"), package("trl", "finetune")
    transformers = package("transformers", "finetune")
    base = tuning["base"]["name"]
    tokenizer = _loaded(base, transformers.AutoTokenizer.from_pretrained)
    tokenizer.save_pretrained(part)  # as it is: a trainer may add a token to pad with
    model = _model(base, tuning["method"], tuning["dtype"])
    limit = _longest(model.config, recipe)
    ends = end_ids(tokenizer, model.generation_config)
    rows, too_long = token_rows(examples, tokenizer, ends, limit)
    if not rows:
        raise DatasetError(
            f"all {len(too_long)} examples are longer than {limit} tokens; make them with a prompt "
            "of a smaller context, or give a recipe with a larger max_length"
        )
    with _quietly():
        trainer = trl.SFTTrainer(
            model,
            _settings(trl, part / _CHECKPOINTS, tuning, recipe, save_every),
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer,
            peft_config=None if tuning["method"] == "full" else _lora(model, recipe),
        )
        # It prints; what is to be seen is in the bar, and in the losses.
        trainer.remove_callback(transformers.PrinterCallback)
        with progress_bar(0, "steps trained", progress) as bar:
            trainer.add_callback(_follower(transformers, bar))
            trainer.train(resume_from_checkpoint=_last_checkpoint(part / _CHECKPOINTS))
        trainer.model.save_pretrained(part)
    (part / "README.md").unlink(missing_ok=True)  # a form to fill in
    return too_long, [row["loss"] for row in trainer.state.log_history if "loss" in row]


def _model(name: str, method: str, dtype: str | None) -> Any:
    """The model to tune."""
    transformers = package("transformers", "finetune")
    settings: dict[str, Any] = {"dtype": dtype or ("float32" if method == "full" else "auto")}
    if method == "qlora":
        # As section 3 of the paper of QLoRA has it.
        settings["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=package("torch", "finetune").bfloat16,
        )
    return _loaded(name, transformers.AutoModelForCausalLM.from_pretrained, **settings)


def _settings(
    trl: Any, checkpoints: Path, tuning: dict[str, Any], recipe: TuningRecipe, save_every: int
) -> Any:
    """The recipe as TRL has it."""
    cuda = package("torch", "finetune").cuda
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
        max_length=None,  # none is longer, and none is to be cut
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


def _lora(model: Any, recipe: TuningRecipe) -> Any:
    layers: str | list[str] = "all-linear"
    if recipe.layers != layers:
        layers = [recipe.layers] if isinstance(recipe.layers, str) else list(recipe.layers)
        known = {name.rpartition(".")[2] for name, _ in model.named_modules()}
        if not known.intersection(layers):
            raise SettingError(
                f"{type(model).__name__} has no layers {', '.join(layers)}; give a recipe with "
                "layers='all-linear', or the names of some of its own"
            )
    return package("peft", "finetune").LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=layers,
        bias="none",
        task_type="CAUSAL_LM",
    )


def _follower(transformers: Any, bar: Any) -> Any:
    """What moves the bar, and marks a checkpoint that is whole."""

    class Follower(transformers.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, _: Any, state: Any, __: Any, **___: Any) -> None:
            bar.total, bar.n = state.max_steps, state.global_step
            bar.refresh()

        def on_step_end(self, _: Any, __: Any, ___: Any, **____: Any) -> None:
            bar.update(1)

        def on_log(self, _: Any, state: Any, __: Any, **more: Any) -> None:
            if not math.isfinite(more["logs"].get("loss", 0)):
                raise GenerationError(
                    f"the loss is no number at step {state.global_step}; give a recipe with a "
                    "lower learning_rate or a longer warmup"
                )

        def on_save(self, args: Any, state: Any, __: Any, **___: Any) -> None:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / _WHOLE).touch()

    return Follower()


def _last_checkpoint(folder: Path) -> str | None:
    """The last checkpoint that was written to its end; others are deleted."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        if (path / _WHOLE).is_file():
            whole.append(path)
        else:
            shutil.rmtree(path)
    last = max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
    return None if last is None else str(last)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the telemetry that TRL sends, and what libraries warn each other of."""
    from huggingface_hub import constants

    sends = constants.HF_HUB_DISABLE_TELEMETRY
    constants.HF_HUB_DISABLE_TELEMETRY = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        constants.HF_HUB_DISABLE_TELEMETRY = sends
