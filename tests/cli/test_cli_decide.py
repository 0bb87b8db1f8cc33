"""mirage decide, with an LLM on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import LANGUAGE, json_lines, mirage, refusal
from llm_server import ChatServer

from mirage.dataset import MirageDataset
from mirage.features.lexical import SUPPORTED_AT
from mirage.metaeval import LabelledSentences, read_sentences

QUERIES = list(MirageDataset.bundled(LANGUAGE))
GIVEN = ("--feature", f"support_lexical={SUPPORTED_AT}")


def rows(*, vague: bool = False) -> list[dict[str, Any]]:
    """Return for each query a supported, an unsupported and a half supported sentence."""
    made: list[dict[str, Any]] = []
    for query in QUERIES:
        texts = [passage.text for passage in query.passages]
        common = {"query": query.text, "language": LANGUAGE, "passages": texts[:1]}
        made.append({**common, "sentence": texts[0], "label": "Supported"})
        made.append({**common, "sentence": "Mbwa wawili walilala.", "label": "Not Supported"})
        if vague:
            half = " ".join(texts[0].split()[:10]) + " mbwa wawili walilala kando njiani"
            made.append({**common, "sentence": half, "label": "Not Supported"})
    return made


def unlabelled(path: Path) -> Path:
    kept = [{k: v for k, v in row.items() if k != "label"} for row in rows(vague=True)]
    return json_lines(path, kept)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Write labels that agree with clear scores, and sentences, some of them near the threshold."""
    labels = rows()
    for number, row in enumerate(rows(vague=True)[2::3]):
        labels.append({**row, "label": ("Supported", "Not Supported")[number % 2]})
    return [json_lines(tmp_path / "labels.jsonl", labels), unlabelled(tmp_path / "new.jsonl")]


def test_what_the_score_leaves_goes_to_people_and_comes_back_as_labels(
    files: list[Path], tmp_path: Path
) -> None:
    out, left = tmp_path / "out.jsonl", tmp_path / "left.jsonl"
    options = (*GIVEN, "--risk", "0.15", "--out", out, "--rest", left)
    done = mirage("decide", *files, *options, "--json")
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert (said["sentences"], said["calibration"]["labels"]) == (120, 120)
    assert 0.6 < said["calibration"]["coverage"] < 1
    decided = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["label"] for row in decided[:2]] == ["Supported", "Not Supported"]
    assert decided[0]["by"] == "support_lexical"
    rest = [row for row in decided if row["label"] is None]
    assert 0 < len(rest) == said["left"]
    assert {row["by"] for row in rest} == {""}
    people = [json.loads(line) for line in left.read_text("utf-8").splitlines()]
    assert [row["sentence"] for row in people] == [row["sentence"] for row in rest]
    assert read_sentences(left)[0].query.passages[0].text in QUERIES[0].passages[0].text
    filled = json_lines(left, [{**row, "label": "Not Supported"} for row in people])
    assert LabelledSentences.from_jsonl(filled).names == ("Not Supported",)


def test_what_the_score_leaves_goes_to_an_llm_after_an_estimate(
    files: list[Path], server: ChatServer, tmp_path: Path
) -> None:
    asked = (
        "--judge",
        "j",
        "--base-url",
        server.url,
        "--llm",
        "price=1,2",
        *GIVEN,
        "--risk",
        "0.15",
    )
    plan = json.loads(mirage("decide", *files, *asked, "--dry-run", "--json").stdout)
    assert server.requests == []
    assert plan["estimate"]["calls"] == plan["left"] > 0
    assert plan["estimate"]["cost"] > 0
    server.answer = lambda _: "<answer>Not Supported</answer>"
    done = mirage("decide", *files, *asked, "--out", tmp_path / "out.jsonl", "--json")
    assert done.exit_code == 0
    assert f"{plan['left']} of 120 sentences are left for an LLM" in done.stderr
    said = json.loads(done.stdout)
    assert said["left"] == 0
    by = {row["by"]: row["sentences"] for row in said["given"] if row["label"] == "Not Supported"}
    assert by["j zero-shot"] == plan["left"] == len(server.requests)


def test_a_budget_that_ends_leaves_the_rest_for_people(
    files: list[Path], server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda _: "<answer>Supported</answer>"
    asked = ("--judge", "j", "--base-url", server.url, *GIVEN, "--risk", "0.15")
    left = tmp_path / "left.jsonl"
    done = mirage("decide", *files, *asked, "--budget", "calls=2", "--rest", left)
    assert done.exit_code == 1
    assert "gave no label to" in done.stderr
    assert len(server.requests) == 2
    labels = [json.loads(line)["label"] for line in done.stdout.splitlines()]
    assert labels.count(None) == len(left.read_text("utf-8").splitlines()) > 0
    assert len(labels) == 120


def test_features_without_a_threshold_become_one_score_by_the_labels(files: list[Path]) -> None:
    judges = ("--feature", "support_lexical", "--feature", "passage_coverage")
    done = mirage("decide", *files, *judges, "--dry-run", "--json", "--risk", "0.3")
    plan = json.loads(done.stdout)
    assert (plan["calibration"]["clusters"], plan["calibration"]["threshold"]) == (40, 0.5)
    assert plan["calibration"]["coverage"] > 0.5
    assert plan["estimate"] is None


def test_responses_are_cut_into_sentences(files: list[Path], tmp_path: Path) -> None:
    dataset, responses = tmp_path / "queries.jsonl", tmp_path / "bot.jsonl"
    MirageDataset(QUERIES).save(dataset)
    said = [{"query_id": q.id, "text": f"{q.passages[0].text} [1]"} for q in QUERIES]
    json_lines(responses, said)
    done = mirage("decide", files[0], responses, "--dataset", dataset, *GIVEN)
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(shown) > len(QUERIES)
    assert {row["query_id"] for row in shown} == {q.id for q in QUERIES}


def test_labels_that_show_nothing_fall_short(files: list[Path], tmp_path: Path) -> None:
    guessed = [{**row, "label": ("Supported", "Not Supported")[n // 2 % 2]}
               for n, row in enumerate(rows())]  # fmt: skip
    done = mirage("decide", json_lines(tmp_path / "guessed.jsonl", guessed), files[1], *GIVEN)
    assert done.exit_code == 1
    assert "abstains throughout" in done.stderr
    assert len(done.stdout.splitlines()) == 120


def test_what_decide_refuses(files: list[Path], tmp_path: Path) -> None:
    def labels(name: str, some: list[dict[str, Any]]) -> Path:
        return json_lines(tmp_path / name, some)

    few = labels("few.jsonl", rows()[:10])
    assert (
        "10 labels in 5 clusters are too few to show a risk (share of wrong decisions) of at most"
        in refusal("decide", few, files[1], *GIVEN)
    )
    assert "at least 37 labels" in refusal("decide", few, files[1])
    message = refusal("decide", few, files[1], *GIVEN, "--risk", 0.1)
    assert "of at most 0.1 with confidence 0.95" in message
    assert "at least 79 labels" in message
    one = labels("one.jsonl", rows()[::2])
    assert "the labels are 'Supported'" in refusal("decide", one, files[1], *GIVEN)
    mixed = labels("mixed.jsonl", [*rows(), {**rows()[0], "language": "en", "query_id": "x"}])
    assert "--risk limits errors only in the language of the labels" in refusal(
        "decide", mixed, files[1], *GIVEN
    )
    message = refusal("decide", *files, *GIVEN, "--feature", "passage_coverage")
    assert "leave out the threshold" in message
    assert "risk must be between 0 and 1, got risk=1.5" in refusal(
        "decide", *files, *GIVEN, "--risk", 1.5
    )
