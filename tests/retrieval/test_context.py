"""Pruning of passages by the scores of their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import each_case
from tiny_models import cross_encoder, provence, token_classifier

from mirage import MirageDataset
from mirage.errors import NeuralError, SettingError
from mirage.features import NotComputed
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query
from mirage.neural import Reranker, TokenCrossEncoder
from mirage.retrieval import (
    ContextProcessor,
    ExtractiveCompressor,
    SentencePruner,
    compression,
)
from mirage.retrieval.context import TokenScorer
from mirage.text import split_sentences
from mirage.text.sentences import sentence_pieces

QUERY = Query(id="q", language="en", text="nile")
PASSAGES = [
    Passage(id="a", title="Rivers", text="The Nile is long.  It flows. The Nile is wide."),
    Passage(id="b", text="Bananas are yellow."),
    Passage(id="c", text="Some say so. The Nile again!"),
]


def about_the_nile(texts: Sequence[str]) -> np.ndarray:
    return np.array([[1.0, 0.0] if "nile" in text.lower() else [0.6, 0.8] for text in texts])


def prune(**rule: Any) -> dict[str, str]:
    passages = SentencePruner(about_the_nile, **rule).process(QUERY, PASSAGES)
    return {passage.id: passage.text for passage in passages}


def test_sentences_below_the_threshold_are_dropped_in_order() -> None:
    assert prune(threshold=0.9) == {
        "a": "The Nile is long.  The Nile is wide.",
        "c": "The Nile again!",
    }
    assert prune(threshold=0.6 - 1e-9) == {passage.id: passage.text for passage in PASSAGES}
    assert prune(threshold=1.1) == {}


def test_the_best_share_of_sentences_is_kept_and_ties_keep_the_earlier() -> None:
    assert prune(share=0.3) == {"a": "The Nile is long.  The Nile is wide."}  # 1.8 of 6: 2
    assert prune(share=4 / 6)["a"] == PASSAGES[0].text
    assert list(prune(share=5 / 6)) == ["a", "b", "c"]
    assert prune(share=1, threshold=0.9) == prune(threshold=0.9)


def test_a_sentence_is_scored_with_the_title_of_its_passage() -> None:
    embedded: list[str] = []

    def embedder(texts: Sequence[str]) -> np.ndarray:
        embedded.extend(texts)
        return about_the_nile(texts)

    embedder.query_prefix, embedder.passage_prefix = "q: ", "p: "  # type: ignore[attr-defined]
    SentencePruner(embedder, share=1).process(QUERY, PASSAGES[:2])
    assert embedded[:2] == ["q: nile", "p: Rivers\nThe Nile is long."]
    assert embedded[-1] == "p: Bananas are yellow."
    assert SentencePruner(embedder, share=1).process(QUERY, []) == []


def test_a_cross_encoder_scores_sentences(tmp_path: Path) -> None:
    scorer = Reranker(cross_encoder(tmp_path))
    logits = scorer.scores([("nile", text) for text in ("Some say so.", "The Nile again!")])
    pruner = SentencePruner(scorer, threshold=float(logits.mean()))
    (passage,) = pruner.process(QUERY, PASSAGES[2:])
    assert passage.text == ("Some say so.", "The Nile again!")[int(logits.argmax())]
    assert isinstance(pruner, ContextProcessor)


# Scores per token ---------------------------------------------------------------------------------


def keep_probabilities(folder: Path, question: str, text: str) -> list[tuple[int, float]]:
    """Return the position and the probability of each token, from transformers alone."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    inputs = tokenizer(question, text, return_tensors="pt", return_offsets_mapping=True)
    offsets = inputs.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        kept = model(**inputs).logits.softmax(-1)[0, :, 1].tolist()
    return [
        (start, score)
        for (start, _), score, part in zip(offsets, kept, inputs.sequence_ids(0), strict=True)
        if part == 1
    ]


def test_a_sentence_has_the_mean_score_of_its_tokens_within_the_passage(tmp_path: Path) -> None:
    folder = token_classifier(tmp_path)
    scorer = TokenCrossEncoder(folder)
    assert isinstance(scorer, TokenScorer)
    passage = Passage(id="a", title="Rivers", text="The Nile is long. It flows. So it is.")
    text = f"{passage.title}\n{passage.text}"
    tokens = keep_probabilities(folder, "nile", text)
    pieces, begin, means = sentence_pieces(passage.text, "en"), len("Rivers\n"), []
    for piece in pieces:
        inside = [score for start, score in tokens if begin <= start < begin + len(piece)]
        means.append(sum(inside) / len(inside))
        begin += len(piece)
    assert len(set(means)) == 3
    for threshold in (min(means), sorted(means)[1], max(means)):
        pruner = SentencePruner(scorer, threshold=threshold - 1e-6)
        expected = "".join(
            piece for piece, mean in zip(pieces, means, strict=True) if mean > threshold - 1e-6
        )
        assert [p.text for p in pruner.process(QUERY, [passage])] == [expected.strip()]
    assert SentencePruner(scorer, threshold=0).process(QUERY, []) == []
    assert SentencePruner(scorer, threshold=1.1).process(QUERY, [passage]) == []


def test_a_text_that_is_too_long_is_read_in_parts(tmp_path: Path) -> None:
    folder = token_classifier(tmp_path)
    text = "The Nile is long. " * 8
    whole = TokenCrossEncoder(folder, max_length=16, batch_size=1)
    one, other = whole.token_scores([("nile", text), ("nile", "It flows.")])
    assert one.starts.tolist() == [i for i, letter in enumerate(text) if letter != " "]
    assert ((one.scores > 0) & (one.scores < 1)).all()
    (alone,) = TokenCrossEncoder(folder).token_scores([("nile", "It flows.")])
    assert other.scores == pytest.approx(alone.scores, abs=1e-6)


def test_the_layout_of_provence_is_read_without_its_code(tmp_path: Path) -> None:
    folder = token_classifier(tmp_path / "plain")
    plain = TokenCrossEncoder(folder)
    model = TokenCrossEncoder(provence(tmp_path / "provence", folder))
    pairs = [("nile", passage.text) for passage in PASSAGES]
    for row, expected in zip(model.token_scores(pairs), plain.token_scores(pairs), strict=True):
        assert row.starts.tolist() == expected.starts.tolist()
        assert row.scores.tolist() == expected.scores.tolist()


def test_models_without_scores_per_token_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NeuralError, match="is not a token classifier"):
        TokenCrossEncoder(cross_encoder(tmp_path / "pairs"))
    with pytest.raises(NeuralError, match="3 labels per token, but 1 or 2"):
        TokenCrossEncoder(token_classifier(tmp_path / "three", num_labels=3))
    with pytest.raises(NeuralError, match="cannot be loaded"):
        TokenCrossEncoder(tmp_path / "nothing")
    with pytest.raises(SettingError, match="max_length must be at least 16"):
        TokenCrossEncoder(tmp_path, max_length=1)

    class Wide:
        def scores(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
            return np.zeros((len(pairs), 3))

    with pytest.raises(NeuralError, match="one score per sentence"):
        SentencePruner(Wide(), threshold=0).process(QUERY, PASSAGES)


# Extraction ---------------------------------------------------------------------------------------


def extract(**limits: Any) -> dict[str, str]:
    passages = ExtractiveCompressor(about_the_nile, count=len, **limits).process(QUERY, PASSAGES)
    return {passage.id: passage.text for passage in passages}


def test_the_best_sentences_are_kept_within_the_budget() -> None:
    # "The Nile is long." has 17 characters, and "The Nile again!" fits where the wide one does not.
    assert extract(tokens=17) == {"a": "The Nile is long."}
    assert extract(tokens=33) == {"a": "The Nile is long.", "c": "The Nile again!"}
    assert extract(tokens=35)["a"] == "The Nile is long.  The Nile is wide."
    assert extract(tokens=10**6) == {passage.id: passage.text for passage in PASSAGES}
    assert extract(tokens=1) == {}


def test_sentences_are_limited_by_passage() -> None:
    assert extract(sentences=1) == {
        "a": "The Nile is long.",
        "b": "Bananas are yellow.",
        "c": "The Nile again!",
    }
    assert extract(sentences=1, tokens=20) == {"a": "The Nile is long."}
    for limits in ({}, {"tokens": 0}, {"sentences": -1}):
        with pytest.raises(SettingError, match="set tokens=, sentences= or both"):
            extract(**limits)


def test_compression_is_the_share_of_removed_characters() -> None:
    assert compression(PASSAGES, PASSAGES) == 0
    assert compression(PASSAGES, []) == 1
    size = sum(len(passage.titled_text) for passage in PASSAGES)
    assert compression(PASSAGES, PASSAGES[1:2]) == pytest.approx(1 - 19 / size)
    assert np.isnan(compression([], []))


@each_case("code", sorted(LANGUAGES))
def test_pieces_add_up_to_the_text_in_every_language(code: str) -> None:
    for query in MirageDataset.bundled(code)[:5]:
        for passage in query.passages:
            pieces = sentence_pieces(passage.text, code)
            assert "".join(pieces) == passage.text
            assert [piece.strip() for piece in pieces] == split_sentences(passage.text, code)
    assert sentence_pieces(" ... ", code) == []


def test_invalid_settings_raise_errors() -> None:
    with pytest.raises(SettingError, match="set threshold=, share= or both"):
        SentencePruner(about_the_nile)
    for share in (0, 1.5, float("nan")):
        with pytest.raises(SettingError, match="above 0 and at most 1"):
            SentencePruner(about_the_nile, share=share)
    with pytest.raises(
        NeuralError, match=r"Pruner\(.* on query 'q': the text 'nile' has no vector: too"
    ):
        SentencePruner(lambda texts: [NotComputed("too long")] * len(texts), threshold=0).process(
            QUERY, PASSAGES
        )
