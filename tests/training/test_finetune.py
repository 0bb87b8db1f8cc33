"""Fine-tuning a small real model: training data, learning and resuming."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_llm
from lessons import dataset

from mirage.errors import (
    DatasetError,
    GenerationError,
    MissingPackageError,
    SettingError,
    UnknownNameError,
)
from mirage.generation import ShortAnswerPrompt
from mirage.generation.chat import completion_ids, end_ids, prompt_ids
from mirage.generation.local import TransformersGenerator
from mirage.testsets.training_sets import TrainingExample, TrainingSet
from mirage.training import BERGEN_TUNING, MIRAGE_BENCH_TUNING, finetune, training_examples, tuning
from mirage.training.recipes import TuningRecipe
from mirage.training.tuning import FineTuned, token_rows

WHY = "needs the extra 'finetune'"
for name in ("torch", "trl", "peft"):
    pytest.importorskip(name, reason=WHY)

QUERIES = dataset()
EXAMPLES = training_examples(QUERIES).examples
# A model with random weights needs a higher learning rate than a pretrained one.
RECIPE = replace(BERGEN_TUNING, learning_rate=3e-3, batch_size=8)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # matrices this small are slower on more
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [message.content for example in EXAMPLES for message in example.messages]
    return tiny_llm.folder_of(tmp_path_factory.mktemp("base") / "tiny", texts)


@pytest.fixture(scope="module")
def tuned(base: Path) -> FineTuned:
    return finetune(EXAMPLES, base, base.parent / "tuned", recipe=RECIPE, steps=50)


def quick(base: Path, folder: Path, **settings: Any) -> FineTuned:
    return finetune(EXAMPLES[:4], base, folder, **{"recipe": RECIPE, "steps": 1} | settings)


# What is learnt from ------------------------------------------------------------------------------


@pytest.mark.parametrize("template", [tiny_llm.TEMPLATE, None])
def test_the_loss_is_that_of_the_completion_token_by_token(template: str | None) -> None:
    texts = [message.content for example in EXAMPLES for message in example.messages]
    tokenizer = tiny_llm.tokenizer_of(texts, template=template)
    end = tokenizer.eos_token_id
    rows, too_long = token_rows(EXAMPLES, tokenizer, [end], 4096)
    assert too_long == []
    for row, example in zip(rows, EXAMPLES, strict=True):
        question, answer = (message.content for message in example.messages)
        if template is None:
            prompt, completion = question, f"{answer}<|end|>"
        else:
            prompt = f"<|start|>user\n{question}<|end|>\n<|start|>assistant\n"
            completion = f"{answer}<|end|>"
        before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        after = tokenizer(completion, add_special_tokens=False)["input_ids"]
        assert row["input_ids"] == before + after
        assert row["labels"] == [-100] * len(before) + after
        assert row["labels"][-1] == end


def test_the_first_loss_is_the_mean_over_the_completion_of_the_model_as_it_was(
    base: Path, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(base),
        AutoTokenizer.from_pretrained(base),
    )
    rows, _ = token_rows(EXAMPLES[:4], tokenizer, [tokenizer.eos_token_id], 4096)
    losses = []
    for row in rows:
        with torch.no_grad():
            logits = model(torch.tensor([row["input_ids"]])).logits[0]
        log_probabilities = torch.log_softmax(logits.double(), -1)
        losses += [
            -float(log_probabilities[position - 1, token])
            for position, token in enumerate(row["input_ids"])
            if row["labels"][position] == token
        ]
    result = quick(base, tmp_path / "out", recipe=replace(RECIPE, batch_size=4, dropout=0))
    assert result.losses[0] == pytest.approx(sum(losses) / len(losses), rel=1e-4)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of libraries, to each other
def test_trl_cuts_prompt_and_answer_apart_at_the_same_token(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trl
    from datasets import Dataset
    from huggingface_hub import constants
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    tokenizer = AutoTokenizer.from_pretrained(base)
    turns = [[message.model_dump() for message in example.messages] for example in EXAMPLES]
    trainer = trl.SFTTrainer(
        AutoModelForCausalLM.from_pretrained(base),
        trl.SFTConfig(str(tmp_path), bf16=False, report_to="none", max_length=None),
        train_dataset=Dataset.from_list([{"prompt": t[:-1], "completion": t[-1:]} for t in turns]),
        processing_class=tokenizer,
    )
    rows, _ = token_rows(EXAMPLES, tokenizer, [tokenizer.eos_token_id], 4096)
    for row, expected in zip(rows, trainer.train_dataset, strict=True):
        size = len(row["input_ids"])
        assert row["input_ids"] == expected["input_ids"][:size]
        assert row["labels"] == expected["labels"][:size]
        # TRL also trains on the text that the template adds after the end of an answer.
        assert tokenizer.decode(expected["input_ids"][size:]) == "\n"


def test_the_training_prompt_equals_that_of_the_generator(base: Path) -> None:
    generator = TransformersGenerator(base, prompt=ShortAnswerPrompt(), device="cpu")
    rows, _ = token_rows(EXAMPLES, generator.tokenizer, [generator.tokenizer.eos_token_id], 4096)
    for row, query in zip(rows, QUERIES, strict=True):
        prompt_tokens = prompt_ids(generator.prompt(query).messages, generator.tokenizer)
        assert row["input_ids"][: len(prompt_tokens)] == prompt_tokens


def test_control_tokens_in_an_answer_do_not_end_it(base: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    end = tokenizer.eos_token_id
    ids = completion_ids([{"role": "user", "content": "a"}], "b<|end|>c", tokenizer, [end])
    assert ids.count(end) == 1


def test_a_template_that_rewrites_finished_turns_loses_no_answer(base: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}<|start|>{% endif %}"
    )
    end = tokenizer.eos_token_id
    ids = completion_ids([{"role": "user", "content": "ask"}], "said", tokenizer, [end])
    assert ids == [*tokenizer("said")["input_ids"], end]


def test_a_model_ends_as_its_tokenizer_does_first() -> None:
    tokenizer = SimpleNamespace(eos_token_id=3)
    assert end_ids(tokenizer, SimpleNamespace(eos_token_id=[7, 3])) == [3, 7]
    assert end_ids(tokenizer, SimpleNamespace(eos_token_id=None)) == [3]


def test_examples_that_are_too_long_are_left_out_and_reported(base: Path, tmp_path: Path) -> None:
    long = EXAMPLES[1].messages[0].model_copy(update={"content": "word " * 3000})
    examples = [
        EXAMPLES[0],
        EXAMPLES[1].model_copy(update={"messages": (long, *EXAMPLES[1].messages[1:])}),
    ]
    result = finetune(examples, base, tmp_path / "out", recipe=RECIPE, steps=1)
    assert (result.examples, result.too_long) == (1, ("q1",))
    with pytest.raises(DatasetError, match="all 1 examples are longer than 2048 tokens"):
        finetune(examples[1:], base, tmp_path / "none", recipe=RECIPE, steps=1)


# What comes out -----------------------------------------------------------------------------------


def test_lora_halves_the_loss_in_50_steps(tuned: FineTuned) -> None:
    assert len(tuned.losses) == 50
    assert sum(tuned.losses[-5:]) / 5 < sum(tuned.losses[:5]) / 5 / 2


def test_the_adapter_has_the_format_of_peft_and_changes_the_answers(
    tuned: FineTuned, base: Path
) -> None:
    from peft import PeftConfig
    from safetensors.torch import load_file

    config = PeftConfig.from_pretrained(tuned.folder)
    assert (config.r, config.lora_alpha, config.lora_dropout, config.bias) == (32, 64, 0.1, "none")
    assert config.base_model_name_or_path == str(base.resolve())
    weights = load_file(tuned.folder / "adapter_model.safetensors")
    # Two matrices beside each of the seven linear layers of the two blocks, and none elsewhere.
    assert len(weights) == 2 * 7 * 2
    assert all("lora_A" in name or "lora_B" in name for name in weights)
    settings: dict[str, Any] = {"prompt": ShortAnswerPrompt(), "max_new_tokens": 8, "device": "cpu"}
    before = TransformersGenerator(base, **settings).run(QUERIES[:6], progress=False)
    generator = TransformersGenerator(tuned.folder, **settings)
    after = generator.run(QUERIES[:6], progress=False)
    assert generator.name == str(tuned.folder)
    assert [r.text for r in after] != [r.text for r in before]
    answer_forms = {form for query in QUERIES for forms in query.answers for form in forms}
    assert sum(response.text in answer_forms for response in after) >= 3
    assert sum(response.text in answer_forms for response in before) == 0


def test_the_manifest_records_data_settings_and_versions(tuned: FineTuned) -> None:
    manifest = json.loads((tuned.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["data"]["examples"] == 24
    assert manifest["recipe"]["rank"] == 32
    assert manifest["method"] == "lora"
    assert {"torch", "trl", "peft", "transformers"} <= manifest["versions"].keys()
    assert sorted(path.name for path in tuned.folder.parent.iterdir() if path.is_dir()) == [
        "tiny",
        "tuned",
    ]


def test_an_existing_model_is_not_trained_again(tuned: FineTuned, base: Path) -> None:
    weights = tuned.folder / "adapter_model.safetensors"
    modified = weights.stat().st_mtime_ns
    again = finetune(EXAMPLES, base, tuned.folder, recipe=RECIPE, steps=50)
    assert (again, weights.stat().st_mtime_ns) == (tuned, modified)
    for other in ({"seed": 1}, {"steps": 49}):
        with pytest.raises(DatasetError, match="on different data or with different settings"):
            finetune(EXAMPLES, base, tuned.folder, **{"recipe": RECIPE, "steps": 50} | other)  # type: ignore[arg-type]
    with pytest.raises(DatasetError, match="on different data or with different settings"):
        finetune(EXAMPLES[1:], base, tuned.folder, recipe=RECIPE, steps=50)


def test_smaller_batches_at_a_time_give_the_same_step(base: Path, tmp_path: Path) -> None:
    still = replace(RECIPE, batch_size=4, dropout=0)
    whole = quick(base, tmp_path / "whole", recipe=still, steps=3)
    parts = quick(base, tmp_path / "parts", recipe=still, steps=3, micro_batch=1)
    assert parts.losses == pytest.approx(whole.losses, rel=1e-3)


def test_all_weights_can_be_trained(base: Path, tmp_path: Path) -> None:
    result = quick(base, tmp_path / "full", method="full")
    assert (result.folder / "model.safetensors").is_file()
    generator = TransformersGenerator(result.folder, prompt=ShortAnswerPrompt(), device="cpu")
    assert generator.run(QUERIES[:2], progress=False).failed == ()


def test_nothing_is_printed_and_nothing_sent(
    base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub.utils import _telemetry

    sent: list[object] = []
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(_telemetry, "_start_telemetry_thread", lambda: None)
    monkeypatch.setattr(_telemetry._TELEMETRY_QUEUE, "put", sent.append)
    quick(base, tmp_path / "out")
    assert (capfd.readouterr().out, sent) == ("", [])


# Resuming -----------------------------------------------------------------------------------------

SCRIPT = """
import sys, torch
from pathlib import Path
from test_finetune import EXAMPLES, RECIPE
from mirage.training import finetune
torch.set_num_threads(1)
finetune(EXAMPLES, sys.argv[1], sys.argv[2], recipe=RECIPE, steps=24, save_every=4)
"""


@pytest.mark.slow
def test_killed_and_resumed_gives_the_weights_of_an_unbroken_run(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken = finetune(EXAMPLES, base, tmp_path / "a", recipe=RECIPE, steps=24, save_every=4)
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), str(here.parents[1])]
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(base), str(tmp_path / "b")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob(".b.*.part/checkpoints/checkpoint-8/whole")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (part,) = tmp_path.glob(".b.*.part")
    assert not (tmp_path / "b").exists()
    # An incomplete checkpoint must be ignored, whatever it contains.
    cut = part / "checkpoints" / "checkpoint-23"
    cut.mkdir()
    (cut / "trainer_state.json").write_text('{"global_step": 23')
    steps_taken = []

    class Bar(SimpleNamespace):
        def update(self, steps: int) -> None:
            steps_taken.append(steps)

    bar = Bar(refresh=lambda: None)
    monkeypatch.setattr(tuning, "progress_bar", lambda *_: nullcontext(bar))
    resumed = finetune(EXAMPLES, base, tmp_path / "b", recipe=RECIPE, steps=24, save_every=4)
    assert len(steps_taken) <= 16  # the 8 steps before the checkpoint are not repeated
    assert (bar.n, bar.total) == (24 - len(steps_taken), 24)
    assert resumed.losses == unbroken.losses
    weights = [each.folder / "adapter_model.safetensors" for each in (unbroken, resumed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not part.exists()


def test_training_that_is_finished_but_not_written_is_not_repeated(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    write_manifest, remove = tuning.write_manifest, shutil.rmtree
    whole = quick(base, tmp_path / "whole", steps=2)
    out = tmp_path / "out"
    monkeypatch.setattr(tuning, "write_manifest", broken)
    with pytest.raises(KeyboardInterrupt):
        quick(base, out, steps=2)
    (part,) = tmp_path.glob(".out.*.part")
    (part / "manifest.json").write_text('{"kind": ')  # a disk that was full
    monkeypatch.setattr(tuning, "write_manifest", write_manifest)
    # Killed once more, in the midst of cleaning up.
    monkeypatch.setattr(shutil, "rmtree", broken)
    with pytest.raises(KeyboardInterrupt):
        quick(base, out, steps=2)
    monkeypatch.setattr(shutil, "rmtree", remove)
    monkeypatch.setattr(tuning, "_train", broken)
    result = quick(base, out, steps=2)
    assert result.losses == whole.losses
    weights = [each.folder / "adapter_model.safetensors" for each in (whole, result)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not list(out.glob("checkpoints"))


# Refusals -----------------------------------------------------------------------------------------


def test_queries_of_an_evaluation_set_are_not_trained_on(base: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"1 training queries are also in .*'q3'"):
        quick(base, tmp_path / "out", evaluation=[QUERIES[3:9]])
    assert list(tmp_path.iterdir()) == []
    result = quick(base, tmp_path / "out", evaluation=[QUERIES[4:9]])
    manifest = json.loads((result.folder / "manifest.json").read_text(encoding="utf-8"))
    assert [(each["name"], each["queries"]) for each in manifest["evaluation"]] == [("places", 5)]


def test_wrong_settings_are_refused(
    base: Path, tmp_path: Path, tuned: FineTuned, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    out = tmp_path / "out"
    if not torch.cuda.is_available():
        with pytest.raises(SettingError, match=r"needs a GPU with CUDA.*use method='lora' instead"):
            quick(base, out, method="qlora")
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        with pytest.raises(
            SettingError, match="torch finds 2; select one of them with CUDA_VISIBLE_DEVICES"
        ):
            quick(base, out)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "peft", None)
        with pytest.raises(MissingPackageError, match=r"peft; .* 'mirage-rag\[finetune\] @ git"):
            TransformersGenerator(tuned.folder)
    with pytest.raises(UnknownNameError, match="did you mean 'lora'"):
        quick(base, out, method="lorra")
    with pytest.raises(SettingError, match="micro_batch must divide the recipe's batch size of 8"):
        quick(base, out, micro_batch=3)
    with pytest.raises(SettingError, match="steps and save_every must be at least 1"):
        quick(base, out, steps=0)
    with pytest.raises(SettingError, match="contains an adapter instead of a full model; merge"):
        quick(tuned.folder, out)
    with pytest.raises(SettingError, match=r"has no layers c_attn; .*all-linear"):
        quick(base, out, recipe=replace(RECIPE, layers=("c_attn",)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingError, match="cannot be loaded"):
        quick(tmp_path / "empty", out)
    with pytest.raises(SettingError, match="above 0"):
        TuningRecipe(rank=0)
    assert not out.exists()


def test_a_loss_that_is_not_finite_is_an_error(base: Path, tmp_path: Path) -> None:
    wild = replace(RECIPE, learning_rate=1e30, warmup=0, schedule="constant")
    with pytest.raises(GenerationError, match="the loss is not finite at step"):
        quick(base, tmp_path / "out", recipe=wild, steps=5)
    assert not (tmp_path / "out").exists()


def test_the_layers_of_the_papers_are_those_of_a_llama(base: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    result = quick(base, tmp_path / "out", recipe=replace(MIRAGE_BENCH_TUNING, batch_size=4))
    weights = load_file(result.folder / "adapter_model.safetensors")
    assert {tensor.shape[0] for name, tensor in weights.items() if "lora_A" in name} == {16}
    assert len(weights) == 2 * 7 * 2


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of libraries, to each other
def test_the_recipe_is_what_the_trainer_gets(tmp_path: Path) -> None:
    import trl

    facts = {"steps": None, "micro_batch": 4, "seed": 3}
    config = tuning._trainer_config(trl, tmp_path, facts, BERGEN_TUNING, 7)
    assert config.get_warmup_steps(1000) == 50
    assert (config.learning_rate, config.weight_decay) == (1e-4, 0.1)
    assert (config.lr_scheduler_type, config.optim.partition("_")[0]) == ("linear", "adamw")
    assert (config.num_train_epochs, config.max_steps, config.max_length) == (1, -1, None)
    assert config.per_device_train_batch_size * config.gradient_accumulation_steps == 16
    assert (config.seed, config.save_steps) == (3, 7)


def test_examples_are_conversations_of_any_length(base: Path, tmp_path: Path) -> None:
    turns = [
        ("system", "Be brief."),
        ("user", "Who?"),
        ("assistant", "Ann."),
        ("user", "And?"),
        ("assistant", "Bo."),
    ]
    example = TrainingExample.model_validate(
        {
            "query_id": "x",
            "language": "en",
            "messages": [{"role": role, "content": text} for role, text in turns],
        }
    )
    result = finetune(TrainingSet((example,), {}), base, tmp_path / "out", recipe=RECIPE, steps=1)
    assert result.examples == 1
