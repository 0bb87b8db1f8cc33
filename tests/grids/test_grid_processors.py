"""Context processors of every kind in a grid, and the measure of their compression."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tiny_models import cross_encoder, sentence_transformer, token_classifier

from mirage.errors import DatasetError
from mirage.grids import Grid
from mirage.grids._entries import SentencePrunerEntry
from mirage.models import Passage, Query
from mirage.retrieval import compression

FILE = """\
name: processors
datasets: {en: {form: bundled, language: en}}
corpora: {en: {dataset: en, language: en}}
retrievers: {bm25: {kind: bm25}}
processors:
  dslr: {kind: sentence-pruner, model: pairs, share: 0.5}
  provence: {kind: sentence-pruner, model: tokens, tokens: true, threshold: 0.5}
  budget: {kind: extractive-compressor, model: encoder/whole, tokens: 60}
  bare: {kind: extractive-compressor, model: encoder/bert, pooling: mean, sentences: 1}
  best: {kind: extractive-compressor, model: pairs, cross_encoder: true, sentences: 1}
  half: {kind: own, version: 1}
  longer: {kind: own, version: 1}
generators: {echo: {kind: own, version: 1}}
grid:
  dataset: en
  corpus: en
  retriever: [none, bm25]
  processor: [none, dslr, provence, budget, bare, best, half, longer]
  generator: echo
  show_k: [3]
metrics: [qa_match, compression, "R@3"]
"""


def half(query: Query, passages: Sequence[Passage]) -> list[Passage]:  # noqa: ARG001
    return [p.model_copy(update={"text": p.text[: len(p.text) // 2]}) for p in passages]


def longer(query: Query, passages: Sequence[Passage]) -> list[Passage]:  # noqa: ARG001
    return [p.model_copy(update={"text": p.text + p.text}) for p in passages]


PARTS = {"half": half, "longer": longer, "echo": lambda query: query.text}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    cross_encoder(tmp_path / "pairs")
    token_classifier(tmp_path / "tokens")
    sentence_transformer(tmp_path / "encoder")
    (tmp_path / "grid.yaml").write_text(FILE)
    return tmp_path / "grid.yaml"


def test_every_processor_is_measured(path: Path) -> None:
    grid = Grid.read(path, parts=PARTS)
    assert grid.plan(limit=4)["measure"].nodes == 1 + 7  # R@3, and each processor
    table = grid.run(limit=4, progress=False)
    closed_book, plain, *cells = table.cells
    assert not any(cell.failure for cell in table.cells)
    assert "compression" not in {**closed_book.scores, **plain.scores}
    before = grid.shown({"retriever": "bm25", "processor": "none"}, limit=4, progress=False)
    for cell in cells:
        name = cell.settings["processor"]
        after = grid.shown({"processor": name}, limit=4, progress=False)
        expected = [compression(query.passages, after[query.id].passages) for query in before]
        assert cell.values["compression"].tolist() == expected
        shares = cell.scores["compression"]
        assert shares.n == 4
        if name == "longer":
            assert -1 < shares.mean < -0.8
        else:
            assert 0.3 < shares.mean < 1
    text = str(table)
    assert "compression: share of the passages' characters that the processor removed" in text
    assert not any("*" in line and "compression" in line for line in text.splitlines())
    assert Grid.read(path, parts=PARTS).run(limit=4, progress=False).to_json() == table.to_json()
    assert Grid.read(path).table(limit=4).to_json() == table.to_json()
    left = grid.plan(limit=4)
    assert (left["measure"].items, left["process"].items) == (0, 0)


def test_compression_can_be_the_only_metric(path: Path) -> None:
    path.write_text(FILE.replace('[qa_match, compression, "R@3"]', "[compression]"))
    table = Grid.read(path, parts=PARTS).run(limit=2, progress=False)
    assert table.cell(processor="half").scores["compression"].mean > 0.3
    assert table.compare("compression").rows


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tokens: 60", "share: 0.5", "unknown key 'share'"),
        (", tokens: 60", "", "set 'tokens' "),
        ("cross_encoder: true", "cross_encoder: true, pooling: mean", "'pooling' does not apply"),
        ("tokens: true", "tokens: true, encoder: true", "cannot both be true"),
    ],
)
def test_invalid_entries_are_refused(path: Path, old: str, new: str, message: str) -> None:
    path.write_text(FILE.replace(old, new))
    with pytest.raises(DatasetError, match=message):
        Grid.read(path, parts=PARTS)


def test_results_of_earlier_versions_keep_their_keys() -> None:
    entry = SentencePrunerEntry(kind="sentence-pruner", model="m", threshold=0.5)
    assert "tokens" not in entry.key()
    assert entry.model_copy(update={"tokens": True}).key() == entry.key() | {"tokens": True}
