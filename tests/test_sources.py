"""Readers of other projects' files, on real files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from cases import each_case
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.sources import memerag, nomiracl

NOMIRACL_LANGUAGES = ("ar", "de", "en", "es", "fa", "id", "sw", "zh")


@pytest.mark.parametrize("code", NOMIRACL_LANGUAGES)
def test_nomiracl(data_dir: Path, code: str) -> None:
    dataset, runs, judgments = nomiracl.load(data_dir / "nomiracl", code)
    assert len(dataset) == 120
    assert dataset.describe()["answerable"] == 60
    assert all(len(query.passages) == 10 for query in dataset)
    assert all(passage.text and passage.title for query in dataset for passage in query.passages)
    assert len(runs) == 10
    assert "gpt-4-azure" not in runs
    assert len(judgments) == 120 * 45


def test_nomiracl_verdicts_follow_the_recorded_outputs(data_dir: Path) -> None:
    _, runs, judgments = nomiracl.load(data_dir / "nomiracl", "en")
    wins = Counter[str]()
    for judgment in judgments:
        if judgment.verdict != "tie":
            wins[judgment.model_a if judgment.verdict == "a" else judgment.model_b] += 1
    # Mixtral refuses where it should (37 of 60 by hand in non_relevant); Llama 2 7B never does.
    assert wins["Mixtral-8x7B-Instruct-v0.1"] > wins["llama-2-7b-chat"]
    assert set(wins) <= set(runs)


@each_case(
    ("output", "answerable", "right"),
    [
        ("Yes, answer is present.", True, True),
        ("\nYes, answer is present in context [1].", True, True),
        ("Yes, answer is present.", False, False),
        ("I don’t know.", False, True),
        ("I don't know", True, False),
        ('Please respond with "Yes, answer is present" or "I don\'t know"', True, False),
        ('Please respond with "Yes, answer is present" or "I don\'t know"', False, False),
        ("Wales", True, False),
    ],
)
def test_nomiracl_right_and_wrong(output: str, answerable: bool, right: bool) -> None:
    assert nomiracl.is_right(output, answerable) is right


def test_nomiracl_names_the_line_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "relevant").mkdir()
    row = {"query_id": "1", "docids": [], "prompt": "nothing", "results": {"gpt-4-azure": "x"}}
    (tmp_path / "relevant" / "en.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DatasetError, match=r"relevant.en\.jsonl, line 1: the prompt has no QUEST"):
        nomiracl.load(tmp_path, "en")


def test_nomiracl_skips_missing_prompts_and_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DatasetError, match=r"no query in relevant/en\.jsonl or non_relevant"):
        nomiracl.load(tmp_path, "en")
    (tmp_path / "relevant").mkdir()
    prompt = "QUESTION:\nWho?\n\nCONTEXTS:\n[1] Title: He.\n\nOUTPUT:\n"
    row = {"docids": ["1#0"], "results": {"gpt-4-azure": "He.", "x": "He."}}
    rows = [row | {"query_id": "1", "prompt": prompt}, row | {"query_id": "2", "prompt": None}]
    (tmp_path / "relevant" / "en.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    caplog.clear()
    assert nomiracl.load(tmp_path, "en").dataset.query_ids == ("1",)
    assert "1 rows were skipped, because their prompt is null" in caplog.text
    assert "non_relevant/en.jsonl: no such file" in caplog.text


@pytest.mark.parametrize("code", ["en", "de", "es"])
def test_memerag(data_dir: Path, code: str) -> None:
    dataset, run, sentences = memerag.load(data_dir / "memerag" / "memerag" / f"{code}.jsonl", code)
    assert len(dataset) == len(run) == 250
    assert all(len(query.passages) == 5 for query in dataset)
    assert {label for s in sentences for label in s.factuality} == {
        "Supported",
        "Not Supported",
        "Challenging to determine",
    }
    assert all(sentence.text in (run[sentence.query_id].text or "") for sentence in sentences)
    # Who cannot tell whether a sentence is supported cannot tell why.
    assert all(
        (sentence.fine == ("",)) == (sentence.factuality == ("Challenging to determine",))
        for sentence in sentences
    )


def test_memerag_with_five_annotators(data_dir: Path) -> None:
    _, _, sentences = memerag.load(data_dir / "memerag" / "memerag_ext" / "de.jsonl", "de")
    assert {len(sentence.factuality) for sentence in sentences} == {5}
    assert {len(sentence.fine) for sentence in sentences} == {5}
    assert sum(sentence.fine.count("Contradiction") for sentence in sentences) == 92


# The number of development queries of a language in the MIRACL paper, table 1; German and Yoruba,
# its two surprise languages, from the same table.
MIRACL_QUERIES = {
    "ar": 2896, "bn": 411, "en": 799, "es": 648, "fa": 632, "fi": 1271, "fr": 343, "hi": 350,
    "id": 960, "ja": 860, "ko": 213, "ru": 1252, "sw": 482, "te": 828, "th": 733, "zh": 393,
    "de": 305, "yo": 119,
}  # fmt: skip


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_miracl_topics_and_qrels(data_dir: Path, code: str) -> None:
    folder = data_dir / "miracl"
    dataset = MirageDataset.from_trec(
        folder / "topics" / f"{code}-dev.tsv", folder / "qrels" / f"{code}-dev.tsv", language=code
    )
    assert len(dataset) == MIRACL_QUERIES[code]
    assert all(query.relevant for query in dataset)
