"""Fine-tuning a two-layer model with LoRA on a CPU: loss after 50 steps, and the cost of kills.

    python validation/recovery/finetuning.py [KILLS]

A Llama of two layers with random weights learns short answers from passages. The script prints the
losses and the seconds of this library, and of TRL alone on the same conversations, which separates
prompts and answers itself. Then training is killed (SIGKILL) at random moments (6 by default) and
started again until it ends. The weights must equal those of uninterrupted training, byte for byte.
Needs the extra ``finetune``.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from kills import ends, start

from mirage import MirageDataset, Passage, Query
from mirage.training import BERGEN_TUNING, finetune, training_examples

STEPS, BATCH, SAVE_EVERY = 50, 8, 5
PLACES = ("Kisumu", "Turku", "Lagos", "Quito", "Osaka", "Lyon", "Medan", "Patna")
QUERIES = MirageDataset(
    Query(
        id=f"q{i}",
        language="en",
        text=f"Where does person {i} live?",
        passages=(Passage(id=f"{i}#0", text=f"Person {i} lives in {PLACES[i % 8]}."),),
        answers=((PLACES[i % 8], f"the city of {PLACES[i % 8]}"),),
    )
    for i in range(400)
)
EXAMPLES = training_examples(QUERIES).examples


def ours(base: Path, folder: Path, rate: float) -> None:
    """Train with the library and its checkpoints."""
    recipe = replace(BERGEN_TUNING, learning_rate=rate, batch_size=BATCH)
    finetune(EXAMPLES, base, folder, recipe=recipe, steps=STEPS, save_every=SAVE_EVERY)


def tuned(base: Path, folder: Path) -> None:
    """Train in steps that are large enough for random weights."""
    single_thread()
    ours(base, folder / "tuned", 3e-3)


def single_thread() -> None:
    """Use one thread, which is faster for such small matrices."""
    import_module("torch").set_num_threads(1)


def alone(base: Path, folder: Path) -> list[float]:
    """Return the losses of TRL's own trainer with the same settings."""
    import datasets
    import peft
    import transformers
    import trl

    rows = [
        {
            "prompt": [turn.model_dump() for turn in example.messages[:-1]],
            "completion": [example.messages[-1].model_dump()],
        }
        for example in EXAMPLES
    ]
    settings = trl.SFTConfig(
        str(folder),
        learning_rate=3e-3,
        lr_scheduler_type="linear",
        warmup_steps=0.05,
        weight_decay=0.1,
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        save_steps=SAVE_EVERY,
        save_total_limit=2,
        logging_steps=1,
        disable_tqdm=True,
        report_to="none",
        seed=0,
    )
    trainer = trl.SFTTrainer(
        transformers.AutoModelForCausalLM.from_pretrained(base),
        settings,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=transformers.AutoTokenizer.from_pretrained(base),
        peft_config=peft.LoraConfig(
            r=32, lora_alpha=64, lora_dropout=0.1, target_modules="all-linear"
        ),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def begin(work: Callable[[Path, Path], object], base: Path, folder: Path) -> int:
    """Start a process that does the work and return its id."""
    unused: Any = None  # the work has its own folders
    return start(lambda _: work(base, folder), unused)


def in_process(work: Any, base: Path, folder: Path) -> float:
    """Return the seconds of some work in a process of its own."""
    folder.mkdir()
    began = time.monotonic()
    assert ends(begin(work, base, folder), 600)
    return time.monotonic() - began


def killed(base: Path, place: Path, kills: int, seconds: float, whole: bytes) -> str:
    """Return the results after this number of kills, as a line."""
    rng, made, runs, hidden = random.Random(0), 0, 0, 0
    while made < kills:
        folder = place / f"run-{runs}"
        folder.mkdir()
        while not ends(
            begin(tuned, base, folder), rng.uniform(0, seconds) if made < kills else 600
        ):
            made += 1
            hidden += not (folder / "tuned").exists()
        assert (folder / "tuned" / "adapter_model.safetensors").read_bytes() == whole
        runs += 1
    return (
        f"{made} kills in {runs} runs: {hidden} left nothing in the place of the result, "
        "0 runs have other weights than the whole one"
    )


def told(name: str, losses: list[float], seconds: float) -> str:
    """Return the drop of a loss, as a line."""
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    return f"{name:<22} loss {first:.3f} to {last:.3f} ({last / first:.2f}), {seconds:.1f} s"


def main(kills: int = 6) -> None:
    """Print the drop of the loss, and the cost of kills."""
    import json
    import os

    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    import tiny_llm

    single_thread()
    for module in ("trl", "peft", "datasets", "transformers.models.llama"):
        import_module(module)  # once, and not in every process
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        texts = [message.content for example in EXAMPLES for message in example.messages]
        # Behind the end of an answer this library learns nothing, TRL what the template writes.
        template = tiny_llm.TEMPLATE.replace("<|end|>\n", "<|end|>")
        base = tiny_llm.folder_of(place / "base", texts, template=template)

        runs: dict[str, list[float]] = {}

        def bare(base: Path, folder: Path) -> None:
            single_thread()
            (folder / "losses.json").write_text(json.dumps(alone(base, folder)))

        def paper(base: Path, folder: Path) -> None:
            single_thread()
            ours(base, folder / "tuned", BERGEN_TUNING.learning_rate)

        for name, work in {
            "TRL alone": bare,
            "mirage": tuned,
            "mirage, rate of 1e-4": paper,
        }.items():
            seconds = in_process(work, base, place / name)
            (losses,) = (place / name).rglob("losses.json")
            runs[name] = json.loads(losses.read_text())
            print(told(name, runs[name], seconds), flush=True)
            add_figure(sum(runs[name][:5]) / 5, name, "mean loss of the first 5 steps")
            add_figure(sum(runs[name][-5:]) / 5, name, "mean loss of the last 5 steps")
            add_figure(seconds, name, "s")
            if work is tuned:
                whole_seconds = seconds
        apart = max(abs(a - b) for a, b in zip(runs["TRL alone"], runs["mirage"], strict=True))
        print(f"largest difference of the two losses in {STEPS} steps: {apart:.2g}")
        add_figure(apart, "largest difference of the losses from TRL's")
        whole = (place / "mirage" / "tuned" / "adapter_model.safetensors").read_bytes()
        print(killed(base, place, kills, whole_seconds, whole))
        add_figure(kills, "kills")  # each run that was killed had the weights of the whole one


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("kills", default=6, nargs="?", type=int)
    options = parser.parse_args()
    STEPS = 10 if options.quick else STEPS
    main(1 if options.quick else options.kills)
    save(parser, options)
