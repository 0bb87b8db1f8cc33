"""mirage label without a browser, and the commands that read its files; calibrations."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from command_line import IN_SWAHILI, LANGUAGE, json_lines, mirage, process, refusal
from llm_server import ChatServer

from mirage import MirageDataset


@contextmanager
def page(*arguments: object) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """Run the command; give its process, the data of its page, and a function that labels."""
    running = process("label", *arguments)
    try:
        url = next(line.split()[1] for line in running.stderr if line.startswith("open "))
        text = urlopen(url).read().decode()
        data = json.loads(text.split('id="data">')[1].split("</script>")[0])

        def put(item: str, label: str) -> None:
            body = json.dumps({"item": item, "label": label}).encode()
            headers = {"Content-Type": "application/json", "Origin": "/".join(url.split("/")[:3])}
            urlopen(Request(f"{url}label", body, headers)).close()

        yield running, data, put
    finally:
        running.kill()
        running.communicate()


def label_all(choose: Any, *arguments: object) -> str:
    """Label all items, end the command with Ctrl-C, and return what it printed."""
    with page(*arguments) as (running, data, put):
        for item in data["items"]:
            put(item["id"], choose(item))
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=20)
        assert running.returncode == 0
        return out


def by_length(item: dict[str, Any]) -> str:
    return "correct" if len(item["texts"][0]) % 2 else "wrong"


@pytest.mark.slow
def test_labels_of_answers_reach_metaeval_decide_and_the_corrected_share(
    good: Path, bad: Path, tmp_path: Path
) -> None:
    path, rest, out = (tmp_path / f"{name}.jsonl" for name in ("labels", "rest", "out"))
    options = (good, bad, *IN_SWAHILI, "--items", 60, "--out", path)
    text = label_all(by_length, *options, "--rater", "ann")
    assert "ann: 60 labels" in text
    text = label_all(
        lambda item: "partly" if "1" in item["id"][:2] else by_length(item),
        *options,
        "--rater",
        "ben",
    )
    assert "Agreement of annotators on labels.jsonl" in text
    summary = json.loads(mirage("label", "--out", path, "--json").stdout)
    assert summary["agreement"]["rows"][0][1] == 60
    assert summary["conflicts"]["open"] > 0
    label_all(by_length, *options, "--settle")
    summary = json.loads(mirage("label", "--out", path, "--json").stdout)
    assert summary["conflicts"]["open"] == 0
    positive = ("--positive", "correct")
    done = mirage("metaeval", path, *positive, "--json")
    assert done.exit_code == 0, done.stderr
    assert "are counted as 'not correct'" in done.stderr
    rows = [json.loads(line) for line in path.read_text().splitlines()][:60]
    json_lines(
        rest, [{k: v for k, v in row.items() if k not in ("label", "rater")} for row in rows]
    )
    shares = json.loads(mirage("metaeval", path, *positive, "--rest", rest, "--json").stdout)
    assert shares["shares"][0]["corrected"]["labels"] == 60
    decided = mirage("decide", path, rest, *positive, "--risk", "0.3", "--out", out)
    assert decided.exit_code in (0, 1), decided.stderr  # 1 if nothing can be decided safely
    assert "labels" in decided.stdout + decided.stderr


@pytest.mark.slow
def test_votes_on_pairs_rank_a_model(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    run = f"mine={good}"
    options = (run, *IN_SWAHILI, "--pairs", "--items", 60, "--out", path, "--rater", "ann")
    best = {query.reference for query in MirageDataset.bundled(LANGUAGE)}
    label_all(lambda item: "a" if item["texts"][0] in best else "b", *options)
    ranked = mirage("rank", run, *IN_SWAHILI, "--judge", path, "--json")
    assert ranked.exit_code == 0, ranked.stderr
    ranking = json.loads(ranked.stdout)
    assert any("placed by 60 judgments" in note for note in ranking["notes"])
    assert "need an LLM as --judge" in refusal(
        "rank", run, *IN_SWAHILI, "--judge", path, "--dry-run"
    )


def test_sentences_that_decide_leaves_open_can_be_labelled(tmp_path: Path) -> None:
    passages = ["Nairobi ni mji mkuu wa Kenya."]
    row = {"query": "Mji mkuu?", "language": "sw", "passages": passages, "sentence": "Nairobi."}
    sentences = json_lines(tmp_path / "sentences.jsonl", [row])
    options = ("--scale", "Supported,Not Supported", "--rater", "ann", "--out")
    text = label_all(lambda _: "Supported", sentences, *options, tmp_path / "labels.jsonl")
    assert "ann: 1 labels (1 Supported)" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give either --rater NAME, or --settle"),
        (("--rater", "ann", "--settle"), "give either --rater NAME, or --settle"),
        (("--rater", "settled"), "the rater cannot have the name"),
        (("--rater", "ann", "--scale", "yes"), "2 to 9 different labels"),
        (("--rater", "ann", "--feature", "nothing"), "nothing"),
        (("--rater", "ann", "--import", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_bad_options_are_one_error(
    good: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    out = ("--out", tmp_path / "labels.jsonl")
    assert message in refusal("label", good, *IN_SWAHILI, *out, *options)


def test_a_page_for_elsewhere_and_its_file_must_fit_together(good: Path, tmp_path: Path) -> None:
    written, path = tmp_path / "page.html", tmp_path / "labels.jsonl"
    options = ("label", good, *IN_SWAHILI, "--items", 5, "--rater", "ann", "--out", path)
    assert mirage(*options, "--page", written).exit_code == 0
    data = json.loads(written.read_text().split('id="data">')[1].split("</script>")[0])
    rows = [{"item": item["id"], "label": "wrong", "rater": "ann"} for item in data["items"]]
    saved = json_lines(tmp_path / "saved.jsonl", [*rows, {**rows[0], "item": "other"}])
    assert "line 6: there is no item with the id 'other'" in refusal(*options, "--import", saved)
    assert path.read_text() == ""
    json_lines(saved, [{**rows[0], "rater": "ben"}])
    assert "the label is by rater 'ben', expected 'ann'" in refusal(*options, "--import", saved)
    json_lines(saved, rows)
    assert "ann: 5 labels (5 wrong)" in mirage(*options, "--import", saved).stdout


# Calibrations -------------------------------------------------------------------------------------


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    rows = [
        {
            "query_id": f"q{n}",
            "query": f"Mto {n}?",
            "language": "sw",
            "passages": ["Mto ni mrefu."],
            "sentence": f"Mto {n} ni mrefu.",
            "rater": "ann",
            "label": "correct" if n % 2 else "wrong",
        }
        for n in range(20)
    ]
    return json_lines(tmp_path / "labels.jsonl", rows)


def measure(labels: Path, server: ChatServer, *more: object, judge: str = "j") -> Any:
    endpoint = ("--base-url", server.url, "--llm", "key_from=MIRAGE_CACHE", "--llm", "cache=no")
    options = (*endpoint, "--positive", "correct", "--judge", judge)
    calibration = ("--calibration", labels.with_name("j.json"))
    return mirage("metaeval", labels, *options, *calibration, *more)


def test_a_calibration_is_reused_until_anything_changes(
    labels: Path, server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda request: (
        "<answer>Supported</answer>"
        if any(f"Mto {n} ni" in request["messages"][-1]["content"] for n in range(1, 20, 2))
        else "<answer>Not Supported</answer>"
    )
    done = measure(labels, server, "--json")
    assert done.exit_code == 0, done.stderr
    figures = json.loads(done.stdout)["judges"]["j zero-shot"]["figures"]
    assert figures["sw"]["balanced_accuracy"] == 1
    asked = len(server.requests)
    assert measure(labels, server, "--json").stdout == done.stdout
    assert len(server.requests) == asked == 20
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("{passages}{sentence}{form}")
    for more, judge, change in (
        ((), "k", "the model was 'j' and is 'k'"),
        (("--prompt", prompt), "j", "the prompt has changed"),
        (("--llm", "temperature=1"), "j", "the endpoint or the parameters have changed"),
    ):
        stale = measure(labels, server, *more, judge=judge)
        assert stale.exit_code == 3
        assert f"j.json is stale: {change}" in stale.stderr
        assert stale.stdout == ""
    text = labels.read_text()
    labels.write_text(text.replace("wrong", "correct", 1))
    stale = measure(labels, server)
    assert (stale.exit_code, len(server.requests)) == (3, asked)
    assert "sentences or labels have changed" in stale.stderr
    rest = json_lines(tmp_path / "rest.jsonl", [json.loads(text.splitlines()[0])])
    decided = mirage(
        "decide", labels, rest, "--positive", "correct", "--judge", "j", "--base-url", server.url,
        "--llm", "key_from=MIRAGE_CACHE", "--calibration", tmp_path / "j.json",
    )  # fmt: skip
    assert decided.exit_code == 3
    assert len(server.requests) == asked


@pytest.mark.parametrize("scale", [("correct", "wrong"), ("correct", "partly", "wrong")])
def test_a_judge_decides_with_the_names_of_the_labels(
    scale: tuple[str, ...], labels: Path, server: ChatServer, tmp_path: Path
) -> None:
    row = json.loads(labels.read_text().splitlines()[0])
    rows = [
        {
            **row,
            "query_id": f"q{n}",
            "sentence": f"Mto {n} ni mrefu." if n % 2 else f"Nyota {n} zinang'aa sana usiku.",
            "label": "correct" if n % 2 else scale[1 + n // 2 % (len(scale) - 1)],
        }
        for n in range(120)
    ]
    json_lines(labels, rows)
    rest = [{key: row[key] for key in row if key not in ("rater", "label")} for row in rows[:6]]
    rest.append({**rest[0], "query_id": "new", "sentence": "Mto na nyota"})
    new = json_lines(tmp_path / "new.jsonl", rest)
    server.answer = lambda request: (
        "<answer>Supported</answer>"
        if "Mto" in request["messages"][-1]["content"].partition("<sentence")[2]
        else "<answer>Not Supported</answer>"
    )
    assert measure(labels, server).exit_code == 0
    done = mirage(
        "decide", labels, new, "--positive", "correct", "--judge", "j", "--base-url", server.url,
        "--llm", "key_from=MIRAGE_CACHE", "--calibration", labels.with_name("j.json"), "--json",
        "--out", tmp_path / "decided.jsonl", "--llm", "cache=no",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    negative = scale[1] if len(scale) == 2 else "not correct"
    decided = (tmp_path / "decided.jsonl").read_text().splitlines()
    given = {json.loads(line)["label"] for line in decided}
    assert given == {"correct", negative}


def test_a_damaged_calibration_is_one_error(labels: Path, server: ChatServer) -> None:
    for text in ("", "[]", "{}", '{"model": 1}'):
        labels.with_name("j.json").write_text(text)
        done = measure(labels, server)
        assert done.exit_code == 2
        assert "j.json" in done.stderr


def test_a_judge_and_a_feature_are_two_things(labels: Path) -> None:
    refused = refusal("metaeval", labels, "--judge", "j", "--feature", "support_lexical")
    assert "--judge cannot be combined" in refused
    assert "need --judge" in refusal("metaeval", labels, "--calibration", "c.json")
