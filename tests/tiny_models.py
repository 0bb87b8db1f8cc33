"""Small real models with random weights, made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

LETTERS = [*"abcdefghijklmnopqrstuvwxyz?:"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)]


def config(**settings: Any) -> Any:
    """Of a BERT of one layer that reads letters."""
    for name in ("torch", "transformers", "sentence_transformers"):
        pytest.importorskip(name, reason=f"needs {name} of the extra neural")
    import torch
    from transformers import BertConfig

    torch.manual_seed(0)
    return BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.4,
        **settings,
    )


def save(model: Any, place: Path) -> None:
    """A model and a tokenizer of letters."""
    from transformers import BertTokenizer

    ids = {token: i for i, token in enumerate(VOCABULARY)}
    model.save_pretrained(place)
    BertTokenizer(vocab=ids, model_max_length=64).save_pretrained(place)


def sentence_transformer(place: Path, **settings: Any) -> Path:
    """The folder of a SentenceTransformer with mean pooling, 16 numbers a vector."""
    made = config()
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    save(BertModel(made), place / "bert")
    modules = [Transformer(str(place / "bert")), Pooling(16)]
    SentenceTransformer(modules=modules, device="cpu", **settings).save(str(place / "whole"))
    return place / "whole"


def cross_encoder(place: Path, **settings: Any) -> Path:
    """The folder of a cross-encoder, with one score unless settings name other labels."""
    made = config(**{"num_labels": 1} | settings)
    from transformers import BertForSequenceClassification

    save(BertForSequenceClassification(made), place)
    return place


def sparse_encoder(place: Path) -> Path:
    """The folder of a SPLADE model."""
    made = config()
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling
    from transformers import BertForMaskedLM

    save(BertForMaskedLM(made), place / "bert")
    modules = [MLMTransformer(str(place / "bert")), SpladePooling("max")]
    SparseEncoder(modules=modules, device="cpu").save(str(place / "whole"))
    return place / "whole"
