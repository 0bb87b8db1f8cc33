"""mirage generate, against a real server on this machine."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import IN_SWAHILI, LANGUAGE, first_passage, mirage, refusal, responses
from llm_server import ChatServer, Reply

from mirage.dataset import MirageDataset
from mirage.llm.retries import Retries
from mirage.models import Run

QUERIES = MirageDataset.bundled(LANGUAGE)


KEY = "sk-of-a-test-1234567890"


def generated(server: ChatServer, *options: object) -> Any:
    return mirage("generate", *IN_SWAHILI, "--model", "m", "--base-url", server.url, *options)


def models(*names: str) -> bytes:
    return json.dumps({"data": [{"id": name} for name in names]}).encode()


def test_responses_go_to_standard_output(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda _: "##Reason: x\n##Answer: jibu [1]"
    done = generated(server)
    assert done.exit_code == 0
    path = tmp_path / "run.jsonl"
    path.write_text(done.stdout)
    run = Run.load(path, language=LANGUAGE)
    assert [response.query_id for response in run] == list(QUERIES.query_ids)
    assert done.stderr.strip() == "m: 40 of 40 queries answered"


def test_responses_go_to_a_file_and_a_summary_to_standard_output(
    server: ChatServer, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    done = generated(server, "--out", path)
    assert done.stdout.strip() == f"{path}: m: 40 of 40 queries answered"
    assert len(Run.load(path, language=LANGUAGE)) == 40
    assert generated(server, "--out", path).stdout == done.stdout
    assert len(server.requests) == 40


def test_queries_that_fail_fall_short_and_are_asked_again(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda _: "ok" if len(server.requests) > 3 else Reply("no", status=400)
    options = ("--out", tmp_path / "run.jsonl", "--llm", "concurrency=1")
    short = generated(server, *options)
    assert short.exit_code == 1
    assert "37 of 40 queries answered" in short.stdout
    assert "fell short: 3 of 40 queries have no answer" in short.stderr
    assert generated(server, *options).exit_code == 0
    assert len(server.requests) == 43


def test_the_cache_and_doing_without_it(server: ChatServer) -> None:
    generated(server)
    generated(server)
    assert len(server.requests) == 40
    generated(server, "--llm", "cache=no")
    assert len(server.requests) == 80


def test_each_repeat_has_an_answer_of_its_own(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda _: f"##Answer: jibu {len(server.requests)}"
    path = tmp_path / "run.jsonl"
    asked = ("--repeats", 2, "--out", path)
    assert "40 of 40 queries answered, 2 times each" in generated(server, *asked).stdout
    first, second = Run.load(path, language=LANGUAGE).repeats
    assert not {one.text for one in first} & {one.text for one in second}
    path.unlink()
    generated(server, *asked)  # from the cache, which has an answer for each repeat
    assert len(server.requests) == 80
    assert Run.load(path, language=LANGUAGE).repeats == (first, second)
    two = ("--feature", "answer_bleu", "--feature", "citation_recall@10")
    shown = mirage("features", *IN_SWAHILI, path, *two).stdout
    assert "40 queries in 'sw', asked 2 times" in shown
    # How many change depends on the order in which the server was asked.
    assert re.search(r"\d+ of 40 \(\d+ to \d+ %\)", shown)
    assert "\n   citation_recall@10  " in shown  # beside what repeats add, a name is still whole


def test_the_budget_is_kept(server: ChatServer) -> None:
    short = generated(server, "--budget", "calls=3", "--llm", "cache=no")
    assert short.exit_code == 1
    assert len(server.requests) == 3
    assert "kind of budget 'cals'; did you mean 'calls'?" in refusal(
        "generate", *IN_SWAHILI, "--model", "m", "--budget", "cals=3"
    )
    assert "pass price=" in refusal("generate", *IN_SWAHILI, "--model", "m", "--budget", "cost=3")
    wrong = ("generate", *IN_SWAHILI, "--model", "m", "--llm")
    assert "--llm price '3'" in refusal(*wrong, "price=3")
    assert "did you mean 'max_tokens'?" in refusal(*wrong, "max_token=3")
    assert "expected a whole number above 0" in refusal(*wrong, "max_tokens=0")
    assert "expected yes or no" in refusal(*wrong, "cache=maybe")
    assert "expected a whole number of at least 0" in refusal(*wrong, "retries=-1")


@pytest.mark.parametrize("endpoint", ["llm", "service"])
def test_failed_calls_are_retried_as_often_as_requested(server: ChatServer, endpoint: str) -> None:
    server.answer = lambda _: Reply("busy", status=429)
    model = ("--model", "m", "--base-url", server.url)
    source = model if endpoint == "llm" else ("--service", f"{server.root}/answer")
    short = mirage("generate", *IN_SWAHILI, *source, "--llm", "retries=0")
    assert short.exit_code == 1
    assert len(server.requests) == 40


def test_a_service_that_is_down_is_reported_soon(server: ChatServer) -> None:
    server.answer = lambda _: Reply("down", status=500)
    short = mirage(
        "generate",
        *IN_SWAHILI,
        *("--service", f"{server.root}/answer"),
        *("--llm", "retries=0", "--llm", "concurrency=1"),
    )
    assert short.exit_code == 1
    assert "32 calls in a row failed with HTTP 500, and none succeeded" in short.stderr
    assert len(server.requests) == 32


def test_a_service_of_ones_own(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer = lambda _: Reply(body=json.dumps({"result": {"text": "jibu"}}).encode())
    monkeypatch.setenv("SERVICE_KEY", KEY)
    done = mirage(
        *(
            "generate",
            "--language",
            LANGUAGE,
            "--service",
            f"{server.root}/ask",
            "--answer",
            "result.text",
        ),
        *("--llm", "key_from=SERVICE_KEY"),
    )
    assert done.exit_code == 0
    assert {json.loads(line)["text"] for line in done.stdout.splitlines()} == {"jibu"}
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].keys() == {"query", "language", "passages"}


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS_KEY", KEY)
    server.answer = lambda _: Reply(f"you sent {KEY}", status=401)
    short = generated(server, "--llm", "key_from=OURS_KEY")
    assert (short.exit_code, short.stdout) == (1, "")
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "HTTP 401: you sent" in short.stderr
    assert KEY not in short.stderr
    assert "OURS_KEY" in refusal(
        "generate", *IN_SWAHILI, "--model", "m", "--llm", "key_from=OUR_KEY"
    )


def test_what_generate_needs() -> None:
    assert "set OPENAI_API_KEY" in refusal("generate", *IN_SWAHILI, "--model", "gpt-4o-mini")
    assert "either --model" in refusal("generate", *IN_SWAHILI)
    assert "not both" in refusal("generate", *IN_SWAHILI, "--model", "m", "--service", "http://x")
    message = refusal("generate", *IN_SWAHILI, "--model", "m", "--base-url", "localhost")
    assert "'localhost' is not the address of an endpoint" in message
    message = refusal("generate", *IN_SWAHILI, "--model", "m", "--out", "no/such/x.jsonl")
    assert "the folder no/such does not exist" in message


@pytest.mark.parametrize("command", ["generate", "judge"])
def test_a_mistyped_model_leads_to_the_nearest_that_the_endpoint_has(
    server: ChatServer, tmp_path: Path, command: str
) -> None:
    def answer(request: Mapping[str, Any]) -> Reply:
        if request:
            return Reply("no such model", status=404)
        return Reply(body=models("llama3.2", "qwen2.5"))

    server.answer = answer
    files = [responses(tmp_path / "a.jsonl"), responses(tmp_path / "b.jsonl", first_passage)]
    given = files if command == "judge" else []
    option = "--judge" if command == "judge" else "--model"
    model = (option, "lama3.2", "--base-url", server.url)
    done = mirage(command, *IN_SWAHILI, *given, *model)
    assert done.exit_code == 2
    problem = f"unknown model 'lama3.2' at {server.url}; did you mean 'llama3.2'?"
    assert done.stderr.strip().endswith(problem)


@pytest.mark.parametrize("command", ["generate", "service", "judge", "rank"])
def test_an_endpoint_that_is_not_there_falls_short(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Retries, "_wait", lambda *_: 0.0)  # how long is tested with the retries
    files = [responses(tmp_path / "a.jsonl"), responses(tmp_path / "b.jsonl", first_passage)]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        root = f"http://127.0.0.1:{taken.getsockname()[1]}"
        at = ("--base-url", f"{root}/v1")
        arguments: dict[str, tuple[object, ...]] = {
            "generate": ("generate", *IN_SWAHILI, "--model", "m", *at),
            "service": ("generate", *IN_SWAHILI, "--service", root),
            "judge": ("judge", *IN_SWAHILI, *files, "--judge", "m", *at),
            "rank": (
                "rank",
                "--language",
                LANGUAGE,
                files[0],
                "--judge",
                "m",
                "--judgments",
                5,
                *at,
            ),
        }
        done = mirage(*arguments[command])
    assert (done.exit_code, done.stdout) == (1, "")
    told = done.stderr.splitlines()[-1]
    assert told.startswith("fell short: ")
    assert "ConnectError" in told


def test_a_run_that_keeps_nothing_names_the_option_that_does(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda _: "##Reason: x\n##Answer: jibu [1]"
    note = "an interrupted run loses its answers; --out FILE keeps each as it arrives"
    assert note in " ".join(generated(server, "--llm", "cache=no").stderr.split())
    assert "note:" not in generated(server).stderr
    assert (
        "note:" not in generated(server, "--llm", "cache=no", "--out", tmp_path / "r.jsonl").stderr
    )
