"""A small real language model and its tokenizer, made on the spot."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def tokenizer_of(texts: Iterable[str], *, template: str | None = TEMPLATE) -> Any:
    """A byte-level BPE tokenizer, trained on texts, without a padding token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=trained, eos_token="<|end|>")
    made.chat_template = template
    return made


def llama(tokenizer: Any) -> Any:
    """A Llama of two layers with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=4096,
        initializer_range=0.5,  # far from uniform: the likeliest token differs from text to text
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config)


def folder_of(place: Path, texts: Iterable[str], **settings: Any) -> Path:
    """The folder of such a model and its tokenizer."""
    tokenizer = tokenizer_of(texts, **settings)
    llama(tokenizer).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place
