"""mirage metaeval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import LANGUAGE, json_lines, mirage, refusal

from mirage.dataset import MirageDataset
from mirage.features.lexical import SUPPORTED_AT


def labelled(path: Path) -> Path:
    """Write sentences that the passages support, and sentences that they do not."""
    rows = []
    for query in list(MirageDataset.bundled(LANGUAGE))[:10]:
        texts = [passage.text for passage in query.passages]
        common = {"query": query.text, "language": LANGUAGE, "passages": texts}
        rows.append({**common, "sentence": texts[0], "label": "Supported"})
        rows.append({**common, "sentence": "Mbwa wawili walilala.", "label": "Not Supported"})
    return json_lines(path, rows)


def test_features_as_judges_of_sentences(tmp_path: Path) -> None:
    path = labelled(tmp_path / "labels.jsonl")
    # Not 0.5: where five passages of a hundred words happen to hold two words of the three that
    # are not supported, support is 0.7.
    judges = ("--feature", f"support_lexical={SUPPORTED_AT}", "--feature", "support_lexical_all")
    shown = mirage("metaeval", path, *judges, "--compare")
    assert shown.exit_code == 0
    assert "threshold 0.8, given" in shown.stdout
    assert "Differences of balanced accuracy" in shown.stdout
    plain = json.loads(mirage("metaeval", path, *judges, "--compare", "--json").stdout)
    assert plain["judges"]["support_lexical"]["figures"]["sw"]["balanced_accuracy"] > 0.9
    assert len(plain["comparisons"]) == 1
    assert "support_lexical" in mirage("metaeval", path).stdout


def test_a_card_says_what_to_gate_on(tmp_path: Path) -> None:
    path = labelled(tmp_path / "labels.jsonl")
    shown = mirage("metaeval", path, "--feature", "support_lexical", "--card")
    assert shown.exit_code == 0
    assert "support_lexical: " in shown.stdout
    (row,) = json.loads(mirage("metaeval", path, "--card", "--json").stdout)["features"]
    assert (row["judge"], row["sentences"], row["queries"]) == ("support_lexical", 20, 10)
    assert row["roc_auc"] > 0.9


def test_labels_of_some_correct_the_share_of_all(tmp_path: Path) -> None:
    # The passages hold three sentences of four; people say of two that they are supported.
    rows = []
    for number, query in enumerate(MirageDataset.bundled(LANGUAGE)):
        passages = [passage.text for passage in query.passages]
        common = {"query": query.text, "language": LANGUAGE, "passages": passages}
        right = number % 4 in (1, 2)
        text = passages[0] if right or number % 4 == 0 else "Mbwa wawili walilala."
        label = "Supported" if right else "Not Supported"
        rows.append({**common, "sentence": text, "label": label})
    some = json_lines(tmp_path / "labels.jsonl", rows[:24])
    others = [{k: v for k, v in row.items() if k != "label"} for row in rows[24:]]
    rest = json_lines(tmp_path / "others.jsonl", others)
    judge = ("--feature", f"support_lexical={SUPPORTED_AT}")
    shown = mirage("metaeval", some, *judge, "--rest", rest)
    assert "Share of 40 sentences with the positive label" in shown.stdout
    plain = json.loads(mirage("metaeval", some, *judge, "--rest", rest, "--json").stdout)
    (row,) = plain["shares"]
    assert (row["judge_share"], plain["sentences"]) == (0.75, 40)
    assert row["corrected"]["labels"] == 24
    assert abs(row["corrected"]["estimate"] - 0.5) < 0.05
    low, high = row["corrected"]["interval"]
    assert low < 0.5 < high < 0.75
    for more in ("--card", "--compare"):
        assert "give only one of them" in refusal("metaeval", some, "--rest", rest, more)
    assert "others.jsonl" in refusal("metaeval", some, "--rest", tmp_path / "other.jsonl")


@pytest.mark.slow
def test_memerag_in_its_folder(data_dir: Path, tmp_path: Path) -> None:
    """Test 50 queries per language; tests/metaeval has the figures of all queries."""
    for path in (data_dir / "memerag" / "memerag").iterdir():
        lines = path.read_text("utf-8").splitlines(keepends=True)
        (tmp_path / path.name).write_text("".join(lines[:50]), "utf-8")
    done = mirage("metaeval", tmp_path, "--json")
    figures = json.loads(done.stdout)["judges"]["support_lexical"]["figures"]
    assert set(figures) == {"de", "en", "es", "mean"}
    assert 0.55 < figures["mean"]["balanced_accuracy"] < 0.75


def test_what_metaeval_refuses(tmp_path: Path) -> None:
    path = labelled(tmp_path / "labels.jsonl")
    message = refusal("metaeval", path, "--feature", "support_lexcal")
    assert "did you mean 'support_lexical'?" in message
    message = refusal("metaeval", tmp_path, "--task", "faithfulnes")
    assert "did you mean 'faithfulness'?" in message
    assert "no language file such as en.jsonl" in refusal("metaeval", tmp_path / "..")
    assert "did you mean" in refusal("metaeval", tmp_path / "label.jsonl")


def test_language_selects_sentences(tmp_path: Path) -> None:
    rows = []
    for code in ("de", "sw"):
        for query in list(MirageDataset.bundled(code))[:6]:
            text = query.passages[0].text
            common = {"query": query.text, "language": code, "passages": [text]}
            rows.append({**common, "sentence": text, "label": "Supported"})
            rows.append({**common, "sentence": "Mbwa 77 walilala.", "label": "Not Supported"})
    path = json_lines(tmp_path / "labels.jsonl", rows)
    judge = ("--feature", f"support_lexical={SUPPORTED_AT}", "--json")
    every = json.loads(mirage("metaeval", path, *judge).stdout)
    german = json.loads(mirage("metaeval", path, "--language", "de", *judge).stdout)
    figures = german["judges"]["support_lexical"]["figures"]
    assert set(figures) == {"de", "mean"}
    assert figures["de"] == every["judges"]["support_lexical"]["figures"]["de"]
    message = "the file has no sentence in 'fr', only in 'de', 'sw'"
    assert message in refusal("metaeval", path, "--language", "fr")
    rest = ("--rest", path, *judge)
    shares = json.loads(mirage("metaeval", path, "--language", "de", *rest).stdout)
    assert shares["sentences"] == 24


def test_language_of_memerag_selects_its_file(tmp_path: Path) -> None:
    for code in ("en", "es", "hi"):
        assert code in refusal("metaeval", tmp_path, "--language", code)
