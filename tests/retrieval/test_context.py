"""Pruning of passages by the scores of their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import cross_encoder

from mirage import MirageDataset
from mirage.errors import NeuralError, SettingError
from mirage.features import NotComputed
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query
from mirage.neural import Reranker
from mirage.retrieval import ContextProcessor, SentencePruner
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


@pytest.mark.parametrize("code", sorted(LANGUAGES))
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
    with pytest.raises(NeuralError, match=r"Pruner\(.* on query 'q': 'nile' has no vector: too"):
        SentencePruner(lambda texts: [NotComputed("too long")] * len(texts), threshold=0).process(
            QUERY, PASSAGES
        )
