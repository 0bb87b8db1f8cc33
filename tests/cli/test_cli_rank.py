"""mirage data queries and mirage rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import IN_SWAHILI, LANGUAGE, mirage, refusal, responses
from llm_server import ChatServer

from mirage.dataset import MirageDataset
from mirage.leaderboard import Leaderboard
from mirage.surrogate import SurrogateRanker


def test_queries_become_responses_become_a_ranking(tmp_path: Path) -> None:
    listed = mirage("data", "queries", LANGUAGE)
    queries = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [query["id"] for query in queries] == list(MirageDataset.bundled(LANGUAGE).query_ids)
    assert all(list(query) == ["id", "language", "text", "passages"] for query in queries)

    path = tmp_path / "my-rag.jsonl"
    rows = [{"query_id": query["id"], "text": query["passages"][0]["text"]} for query in queries]
    path.write_text("\n".join(map(json.dumps, rows)))
    ranked = mirage("rank", *IN_SWAHILI, path)
    assert ranked.exit_code == 0
    assert ranked.stdout.strip() == str(Leaderboard.bundled(LANGUAGE).rank(path, model="my-rag"))
    assert max(map(len, ranked.stdout.splitlines())) <= 80


@pytest.mark.slow
def test_the_hard_level_from_queries_to_a_ranking(tmp_path: Path) -> None:
    listed = mirage("data", "queries", LANGUAGE, "--level", "hard").stdout.splitlines()
    queries = list(map(json.loads, listed))
    assert len(queries) == 60
    assert all(list(query) == ["id", "language", "text", "passages"] for query in queries)
    path = tmp_path / "my-rag.jsonl"
    rows = [{"query_id": query["id"], "text": query["passages"][0]["text"]} for query in queries]
    path.write_text("\n".join(map(json.dumps, rows)))
    ranked = mirage("rank", *IN_SWAHILI, path, "--level", "hard")
    board = Leaderboard.bundled(LANGUAGE, level="hard")
    assert ranked.stdout.strip() == str(board.rank(path, model="my-rag"))
    assert ranked.stdout.startswith("bundled-sw-hard: Swahili, 60 queries")
    assert json.loads(mirage("features", *IN_SWAHILI, path, "--level", "hard", "--json").stdout)


def test_a_level_that_cannot_be_used_is_refused(good: Path, tmp_path: Path) -> None:
    assert "quick" in refusal("rank", *IN_SWAHILI, good, "--level", "easy")
    own = tmp_path / "own.jsonl"
    MirageDataset.bundled(LANGUAGE).save(own)
    message = refusal("features", good, "--dataset", own, "--level", "hard")
    assert "leave it out if you give --dataset" in message
    message = refusal("rank", *IN_SWAHILI, good, "--board", "official", "--level", "hard")
    assert "leave it out if you give --board" in message


def test_several_models_are_ranked_together_as_json(good: Path, bad: Path) -> None:
    result = mirage("rank", *IN_SWAHILI, f"a={good}", f"b={bad}", "--json")
    entries = json.loads(result.stdout)["entries"]
    ours = {entry["model"]: entry["rank"] for entry in entries if not entry["anchor"]}
    assert ours["a"] < ours["b"]
    assert result.stderr == ""


def test_at_least_holds_or_falls_short(good: Path, bad: Path) -> None:
    held = mirage("rank", *IN_SWAHILI, good, "--at-least", "anchor/uncited")
    assert (held.exit_code, held.stderr) == (0, "")
    short = mirage("rank", *IN_SWAHILI, good, bad, "--at-least", "anchor/uncited")
    assert short.exit_code == 1
    assert short.stdout.splitlines()[0].startswith(
        "bundled-sw"
    )  # the ranking is there all the same
    assert short.stderr.count("fell short:") == 1
    assert "bad" in short.stderr.splitlines()[0]
    assert "q0" in short.stderr  # the worst queries


def test_at_least_takes_no_failed_query_in_silence(tmp_path: Path) -> None:
    path = responses(tmp_path / "x.jsonl")
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[1:]))
    options = ("rank", *IN_SWAHILI, path, "--at-least", "anchor/garbled")
    assert mirage(*options).exit_code == 1
    assert mirage(*options, "--allow-failed", 1).exit_code == 0


def test_names_that_make_no_sense(good: Path, bad: Path) -> None:
    message = refusal("rank", *IN_SWAHILI, good, "--at-least", "anchor/uncitd")
    assert message.endswith("did you mean 'anchor/uncited'?")
    assert "two files have responses of the same model 'good'" in refusal(
        "rank", *IN_SWAHILI, good, good
    )
    message = refusal("rank", *IN_SWAHILI, good, f"anchor/uncited={bad}")
    assert "is the name of an anchor" in message


def test_a_file_whose_path_has_an_equals_sign_is_a_file(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "a=b.jsonl"
    path.write_text(good.read_text("utf-8"), encoding="utf-8")
    entries = json.loads(mirage("rank", *IN_SWAHILI, path, "--json").stdout)["entries"]
    assert [entry["model"] for entry in entries if not entry["anchor"]] == ["a=b"]


def test_a_ranking_is_also_written_as_a_page(good: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    ranked = mirage("rank", *IN_SWAHILI, good, "--report", page)
    assert ranked.exit_code == 0
    assert ranked.stdout.startswith("bundled-sw")
    text = page.read_text("utf-8")
    assert "good" in text
    assert "anchor/uncited" in text
    message = refusal("rank", *IN_SWAHILI, good, "--report", tmp_path / "no" / "x.html")
    assert "does not exist; create it first" in message


def test_wrong_columns_are_named_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"query_id": "q01", "txt": "x"}))
    message = refusal("rank", *IN_SWAHILI, path)
    assert message.startswith(f"{path}, line 1, field 'text': ")
    assert message.endswith("did you mean 'text' instead of 'txt'?")


def test_options_that_do_not_go_together(good: Path, tmp_path: Path) -> None:
    queries = tmp_path / "q.jsonl"
    MirageDataset.bundled(LANGUAGE).save(queries)
    assert "give --dataset and --surrogate together" in refusal(
        "rank", *IN_SWAHILI, good, "--dataset", queries
    )
    assert "give --dataset and --surrogate together" in refusal(
        "rank", *IN_SWAHILI, good, "--surrogate", queries
    )
    both = ("--board", "official", "--dataset", queries, "--surrogate", queries)
    assert "leave out --dataset" in refusal("rank", *IN_SWAHILI, good, *both)


@pytest.mark.slow
def test_a_surrogate_of_ones_own_is_read_where_it_is_trusted(good: Path, tmp_path: Path) -> None:
    queries, own = tmp_path / "q.jsonl", tmp_path / "own.joblib"
    MirageDataset.bundled(LANGUAGE).save(queries)
    SurrogateRanker.pretrained(LANGUAGE).save(own)
    options = ("rank", *IN_SWAHILI, good, "--dataset", queries, "--surrogate", own)
    assert "--trust" in refusal(*options)
    ranked = mirage(*options, "--trust")
    assert ranked.exit_code == 0
    assert "\n*" in ranked.stdout
    assert mirage(*options[:1], *options[3:], "--trust").exit_code == 0  # the dataset says sw
    assert "leave out --language" in refusal("rank", "--language", "en", *options[3:], "--trust")


def test_the_official_board_is_read_from_copies(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: dict[str, Any] = {}

    def from_hub(language: str, **options: Any) -> Leaderboard:
        called.update(options, language=language)
        return Leaderboard.bundled(language)

    monkeypatch.setattr(Leaderboard, "from_hub", from_hub)
    options = ("rank", *IN_SWAHILI, good, "--board")
    assert mirage(*options, tmp_path).exit_code == 0
    assert called == {"language": LANGUAGE, "path": tmp_path}
    assert mirage(*options, "official").exit_code == 0
    assert called["path"] is None
    assert "no such file" in refusal(*options, tmp_path / "none")


# With a judge -------------------------------------------------------------------------------------


@pytest.fixture
def judged(server: ChatServer, good: Path) -> tuple[object, ...]:
    server.answer = lambda request: "[[A]]" if len(str(request)) % 3 else "[[B]]"
    judge = ("--judge", "j", "--base-url", server.url, "--judgments", 20)
    return ("rank", *IN_SWAHILI, good, *judge)


@pytest.mark.slow
def test_a_judge_places_the_model(
    judged: tuple[object, ...], server: ChatServer, tmp_path: Path
) -> None:
    dry = mirage(*judged, "--dry-run")
    assert dry.stdout.startswith("20 calls (and 0 answers from the cache)")
    assert server.requests == []
    votes = tmp_path / "votes.jsonl"
    done = mirage(*judged, "--out", votes)
    assert done.exit_code == 0
    assert "20 calls" in done.stderr.splitlines()[0]
    assert "good is placed by 20 judgments on 20 queries" in done.stdout
    assert len(votes.read_text("utf-8").splitlines()) == len(server.requests) == 20
    again = json.loads(mirage(*judged, "--out", votes, "--json").stdout)
    assert len(server.requests) == 20
    assert any(entry["model"] == "good" for entry in again["entries"])


def test_what_goes_with_a_judge(judged: tuple[object, ...], good: Path) -> None:
    assert "need --judge" in refusal("rank", *IN_SWAHILI, good, "--judgments", 20)
    assert "did you mean 'anchor/uncited'" in refusal(*judged, "--until-against", "anchor/uncitd")
