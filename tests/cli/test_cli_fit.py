"""mirage fit."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from command_line import LANGUAGE, first_passage, json_lines, mirage, refusal, responses
from direct_llm import DirectLLM, DirectServer

from mirage.arena import BradleyTerry, PairwiseJudge, read_judged
from mirage.dataset import MirageDataset
from mirage.errors import MirageError
from mirage.models import Judgment, Run, Vote
from mirage.ranking import Ranking

MODELS = ("a", "b", "c")


def judgments(seed: int = 0) -> list[Judgment]:
    """Write judgments in which a mostly beats b, and b mostly beats c."""
    rng = np.random.default_rng(seed)
    return [
        Judgment(
            query_id=f"q{query}",
            model_a=one,
            model_b=other,
            verdict=rng.choice(["a", "b", "tie"], p=[0.6, 0.2, 0.2]),
            judge="j",
        )
        for query in range(30)
        for one, other in (("a", "b"), ("a", "c"), ("b", "c"))
    ]


def test_judgments_are_fitted_as_the_library_fits_them(tmp_path: Path) -> None:
    rows = judgments()
    path = json_lines(tmp_path / "j.jsonl", [row.model_dump() for row in rows])
    fitted = BradleyTerry().fit(rows)
    plain = json.loads(mirage("fit", path, "--json").stdout)
    assert [row["model"] for row in plain["entries"]] == ["a", "b", "c"]
    for row in plain["entries"]:
        place = fitted.models.index(row["model"])
        assert row["logit"] == fitted.logits[place]
        assert row["interval"] == fitted.interval()[place].tolist()
    assert "90 judgments on 30 queries" in mirage("fit", path).stdout


def test_tournaments_give_intervals_of_ranks(tmp_path: Path) -> None:
    rows = judgments()
    path = json_lines(tmp_path / "j.jsonl", [row.model_dump() for row in rows])
    model = BradleyTerry(ties="drop")
    drawn = model.bootstrap(rows, tournaments=50, queries=None)
    plain = json.loads(
        mirage(
            *("fit", path, "--tournaments", 50, "--ties", "drop"),
            "--json",
        ).stdout
    )
    for row in plain["entries"]:
        place = drawn.models.index(row["model"])
        assert row["logit"] == drawn.mean[place]
        assert row["interval"] == drawn.interval()[place].tolist()
        assert row["rank_interval"][0] <= row["rank"] <= row["rank_interval"][1]
    assert "rank interval" in mirage("fit", path, "--tournaments", 50).stdout


@pytest.mark.parametrize("both_orders", [False, True])
def test_votes_are_read_as_the_judge_reads_them(tmp_path: Path, both_orders: bool) -> None:
    """Test a jury whose judges disagree, omit votes, and change with the order."""

    def answer(request: Any) -> str:
        pair = max((message["content"] for message in request["messages"]), key=len)
        draw = crc32((request["model"] + pair).encode())
        return ("[[A]]", "[[B]]", "[[C]]", "[[A]]", "no verdict")[draw % 5]

    server = DirectServer(answer)
    dataset = MirageDataset(list(MirageDataset.bundled(LANGUAGE))[:10], name="few")
    paths = [
        responses(
            tmp_path / f"{name}.jsonl", lambda query, n=n: first_passage(query)[: 90 + n], dataset
        )
        for n, name in enumerate(MODELS)
    ]
    runs = [Run.load(path, language=LANGUAGE) for path in paths]
    judges = [DirectLLM(name, server, cache=False) for name in ("j1", "j2", "j3")]
    path = tmp_path / "votes.jsonl"
    judge = PairwiseJudge(judges, both_orders=both_orders)
    judged = judge.compare(dataset, runs, out=path)
    assert judged.invalid
    fitted = BradleyTerry().fit(judged)
    ranking = Ranking.from_judgments(read_judged(path))
    assert ranking.title.startswith(f"{len(judged)} judgments")
    for entry in ranking:
        assert entry.logit == pytest.approx(fitted.logits[fitted.models.index(entry.model)])
    done = mirage("fit", path)
    # A vote in the other order goes with the one that names no verdict.
    ballots = Counter(map(ballot, judged.votes))
    lost = sum(ballots[key] for key in set(map(ballot, judged.invalid)))
    words = f"{lost} of {len(judged.votes)} votes are left out, because they"
    assert words in " ".join(done.stderr.split())


def ballot(vote: Vote) -> tuple[str, str, frozenset[str]]:
    return vote.judge, vote.query_id, frozenset((vote.model_a, vote.model_b))


def test_a_model_that_failed_on_most_queries_is_named(tmp_path: Path) -> None:
    votes = [
        vote.model_copy(update={"judge": "j"})
        for vote in judgments()
        if "c" not in (vote.model_a, vote.model_b) or vote.query_id in ("q0", "q1")
    ]
    rows = [{**vote.model_dump(), "prompt_digest": "x"} for vote in votes]
    path = json_lines(tmp_path / "votes.jsonl", [{k: r[k] for k in r if k != "half"} for r in rows])
    done = mirage("fit", path)
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert "judged on different numbers of queries: c on 2, the others on up to 30." in text
    assert "c was judged on 2 queries, which is too few" in text
    notes = json.loads(mirage("fit", path, "--json").stdout)["notes"]
    assert any("c on 2, the others on up to 30" in note for note in notes)


def test_one_judge_of_several(tmp_path: Path) -> None:
    rows = [
        {"query_id": "q", "model_a": "a", "model_b": "b", "verdict": "a", "judge": "one"},
        {"query_id": "q", "model_a": "a", "model_b": "b", "verdict": "b", "judge": "two"},
    ]
    path = json_lines(tmp_path / "j.jsonl", rows)
    two = json_lines(tmp_path / "two.jsonl", rows[1:])
    plain = json.loads(mirage("fit", two, "--json").stdout)
    assert plain["entries"][0]["model"] == "b"
    assert plain["entries"][0]["interval"] == [None, None]
    assert any("b won every judgment" in note for note in plain["notes"])
    assert "a lost every judgment" in mirage("fit", two).stdout
    assert Ranking.from_judgments(read_judged(path, judge="two")).entries[0].model == "b"
    with pytest.raises(MirageError, match="did you mean 'two'"):
        read_judged(path, judge="tow")


def test_what_fit_refuses(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "x.jsonl", [{"query_id": "q", "model_a": "a", "winner": "a"}])
    message = refusal("fit", path)
    assert "field 'model_b': Field required" in message
    assert "unknown: 'winner'" in message
    assert "the file has no judgments" in refusal("fit", json_lines(path, []))
    assert "did you mean 'half'?" in refusal("fit", path, "--ties", "hal")
    failed = {"query_id": "q", "model_a": "a", "model_b": "b", "judge": "j", "verdict": "failed"}
    assert (
        "there are no verdicts"
        in mirage("fit", json_lines(path, [{**failed, "error": "why"}])).stderr
    )


@pytest.mark.slow
def test_what_is_printed_is_the_ranking_and_its_page_is_written(tmp_path: Path) -> None:
    rows, page = judgments(), tmp_path / "ranking.html"
    path = json_lines(tmp_path / "j.jsonl", [row.model_dump() for row in rows])
    done = mirage("fit", path, "--report", page)
    assert done.stdout.rstrip() == str(Ranking.from_judgments(rows))
    assert "Judgments by pair" in page.read_text(encoding="utf-8")
    assert "does not exist; create it first" in refusal(
        "fit", path, "--report", tmp_path / "no" / "r.html"
    )


def test_votes_in_both_orders_are_left_out_together(tmp_path: Path) -> None:
    """Test that a pair with one lost vote gives no judgment in the other order either."""
    vote = {"model_a": "a", "model_b": "b", "judge": "j", "verdict": "a", "prompt_digest": "x"}
    rows = [{**vote, "query_id": "q1"}, {**vote, "query_id": "q2"}]
    rows.append({**vote, "query_id": "q2", "model_a": "b", "model_b": "a", "verdict": "invalid"})
    rows[-1]["error"] = "no verdict"
    done = mirage("fit", json_lines(tmp_path / "v.jsonl", rows))
    assert "2 of 3 votes are left out, because they" in done.stderr
    assert "1 judgments on 1 queries" in done.stdout


def test_a_report_in_another_format_is_refused(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "j.jsonl", [row.model_dump() for row in judgments()])
    page = tmp_path / "ranking.csv"
    for command in ("fit", "rank"):
        assert "must end in .html" in refusal(command, path, "--report", page)
    assert not page.exists()
    assert mirage("fit", path, "--report", tmp_path / "ranking.HTML").exit_code == 0
