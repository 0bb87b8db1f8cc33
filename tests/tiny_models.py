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


def token_classifier(place: Path, **settings: Any) -> Path:
    """The folder of a cross-encoder with a score per token."""
    made = config(**{"num_labels": 2} | settings)
    from transformers import BertForTokenClassification

    save(BertForTokenClassification(made), place)
    return place


def provence(place: Path, classifier: Path) -> Path:
    """The same weights as in a token classifier's folder, in the layout of Provence."""
    import json
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(classifier, place)
    weights = load_file(classifier / "model.safetensors")
    layout = {
        name.replace("classifier.", "token_classifier."): tensor for name, tensor in weights.items()
    }
    # The head that scores whole passages has the name that the one for tokens has elsewhere.
    layout |= {"classifier.weight": torch.ones(1, 16), "classifier.bias": torch.ones(1)}
    save_file(layout, place / "model.safetensors")
    settings = json.loads((place / "config.json").read_text())
    settings |= {
        "model_type": "Provence",
        "architectures": ["Provence"],
        "auto_map": {"AutoModel": "modeling_provence.Provence"},
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
    }
    (place / "config.json").write_text(json.dumps(settings))
    (place / "modeling_provence.py").write_text("raise SystemExit('executed')")
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
