"""mirage logs: features of production logs, and drift."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import mirage, refusal

from mirage import MirageDataset


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two weeks of the bundled questions; in the second week, answers are not in Swahili."""
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    rows = [
        {
            "input": {"text": query.text},
            "contexts": [passage.text for passage in query.passages],
            "response": "I am afraid that I cannot tell you." if late else query.reference,
            "error": "timeout" if number == 3 else None,
            "when": f"2026-11-{(16 if late else 9) + number % 5:02}T12:00:00Z",
            "ticket": 40 * late + number,
        }
        for late in (False, True)
        for number, query in enumerate(list(MirageDataset.bundled("sw"))[:20])
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


OWN = ("--field", "question=input.text", "--cluster", "ticket")


def test_features_of_a_log(log: Path) -> None:
    shown = mirage("logs", "features", "--language", "sw", log, *OWN, "--json")
    (model,) = json.loads(shown.stdout)
    assert 0 < model["mean"]["failed"] < 0.1
    assert model["interval"]["target_language"][0] is not None
    assert model["not_measured"]["answer_bleu"] == "needs a reference"
    text = mirage("logs", "features", "--language", "sw", log, *OWN).stdout
    assert "answer_bleu, answer_rougeL, fact_agreement (needs a reference)" in " ".join(
        text.split()
    )


def test_what_makes_measures_say_little_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {"question": query.text, "contexts": ["Nairobi ni mji."], "answer": "Ndiyo.", "user": "u"}
        for query in list(MirageDataset.bundled("sw"))[:12]
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    said = " ".join(mirage("logs", "features", "--language", "sw", path).stdout.split())
    assert "intervals need at least 10 clusters, so there are none" in said
    assert "one cluster has 100 % of the questions" in said
    assert "no answer cites a passage, so support_lexical and relevance_lexical are 0" in said
    rows = [row | {"user": n, "answer": "Ndiyo [1]."} for n, row in enumerate(rows)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    said = mirage("logs", "features", "--language", "sw", path).stdout
    assert "cluster" not in said
    assert "no answer cites" not in said


@pytest.mark.parametrize("command", ["rank", "features"])
def test_commands_for_responses_refuse_a_log(tmp_path: Path, command: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"question": "x", "answer": "y"}\n', encoding="utf-8")
    message = refusal(command, "--language", "sw", path)
    assert "is a log" in message
    assert "`mirage logs features`" in message


def test_a_drift_ends_with_status_1(log: Path) -> None:
    shown = mirage(
        "logs",
        "drift",
        "--language",
        "sw",
        log,
        *OWN,
        "--field",
        "time=when",
        "--by",
        "week",
        "--json",
    )
    assert shown.exit_code == 1
    assert "target_language from" in shown.stderr
    plain = json.loads(shown.stdout)
    assert plain["verdict"] == "worse"
    assert plain["after"] == "log 2026-W47"
    assert plain["clusters"] == [20, 20]


@pytest.mark.slow
def test_a_log_is_watched(tmp_path: Path) -> None:
    query = MirageDataset.bundled("sw")[0]
    rows = [
        {
            "question": f"{query.text} {day} {number}",
            "contexts": [passage.text for passage in query.passages],
            "answer": "I am afraid that I cannot tell you." if day > 24 else query.reference,
            "time": f"2026-11-{day:02}T12:00:00Z",
        }
        for day in range(1, 31)
        for number in range(8)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    watched = ("logs", "watch", "--language", "sw", "--feature", "target_language")
    shown = mirage(*watched, path, "--json")
    assert shown.exit_code == 1
    plain = json.loads(shown.stdout)
    assert len(plain["periods"]) == 30
    assert "target_language" in plain["worse"]
    assert "failed" not in plain["worse"]
    assert "target_language is worse since 2026-11-25" in shown.stderr
    assert "worse since 2026-11-25" in mirage(*watched, path).stdout
    assert mirage(*watched, path, "--by", "month").exit_code == 3
    path.write_text("\n".join(map(json.dumps, rows[:192])), encoding="utf-8")
    assert mirage(*watched, path).exit_code == 0
    path.write_text("\n".join(map(json.dumps, rows[:40])), encoding="utf-8")
    shown = mirage(*watched, path)
    assert shown.exit_code == 3
    assert "at least 9 periods are needed, got 5" in shown.stderr


def test_a_drift_between_too_few_days_is_inconclusive(log: Path) -> None:
    shown = mirage(
        "logs", "drift", "--language", "sw", log, *OWN, "--field", "time=when", "--by", "day"
    )
    assert shown.exit_code == 3
    assert "each log needs at least 4 days" in shown.stderr
    assert "9 and 1" in shown.stderr


def test_a_drift_without_any_interval_is_inconclusive(log: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(log.read_text("utf-8").splitlines()[:5]), encoding="utf-8")
    for margin in ((), ("--margin", "0.1")):
        shown = mirage("logs", "drift", "--language", "sw", log, few, *OWN, *margin)
        assert shown.exit_code == 3
        assert "inconclusive: no measure that could get worse has an interval" in shown.stderr
    plain = json.loads(mirage("logs", "drift", "--language", "sw", log, few, *OWN, "--json").stdout)
    assert plain["verdict"] == "inconclusive"


def faq(path: Path, *, swapped: bool, users: int = 40) -> Path:
    """Write a week in which all users ask the same few questions; perhaps with wrong passages."""
    queries = list(MirageDataset.bundled("sw"))[:8]
    rows = []
    for user in range(users):
        for number in (user, user + 1, user + 3):
            query = queries[number % len(queries)]
            source = queries[(number + 4) % len(queries)] if swapped else query
            rows.append(
                {
                    "question": query.text,
                    "contexts": [passage.text for passage in source.passages],
                    "answer": query.reference,
                    "user": f"{path.stem}-{user}",
                }
            )
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.slow
def test_users_who_share_their_questions_do_not_hide_a_drift(tmp_path: Path) -> None:
    before = faq(tmp_path / "before.jsonl", swapped=False)
    after = faq(tmp_path / "after.jsonl", swapped=True)
    shown = mirage("logs", "drift", "--language", "sw", before, after)
    assert shown.exit_code == 1
    assert "question_carried from" in shown.stderr
    text = " ".join(shown.stdout.split())
    assert "120 questions in 40 clusters and 120 questions in 40 clusters" in text
    assert "clusters: the questions of one user or session" in text
    assert "would leave only 1 (fewer than 12)" in text
    same = mirage(
        "logs", "drift", "--language", "sw", before, faq(tmp_path / "same.jsonl", swapped=False)
    )
    assert same.exit_code == 0
    # Without a user the questions alone are clusters, and eight are too few.
    for path in (before, after):
        rows = [json.loads(row) for row in path.read_text("utf-8").splitlines()]
        for row in rows:
            del row["user"]
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    few = mirage("logs", "drift", "--language", "sw", before, after)
    assert few.exit_code == 3
    assert "clusters: equal questions (no line names a user or session)" in " ".join(
        few.stdout.split()
    )


def test_bad_input_reads_aloud(log: Path, tmp_path: Path) -> None:
    assert "give two logs, or one log and --by" in refusal("logs", "drift", "--language", "sw", log)
    assert "name a field inside it, as in input.text" in refusal(
        "logs", "drift", "--language", "sw", log, log
    )
    features = ("logs", "features", "--language", "sw")
    assert "expected FIELD=NAME" in refusal(*features, log, "--field", "question")
    other = tmp_path / "responses.jsonl"
    other.write_text('{"query_id": "1", "text": "x"}\n', encoding="utf-8")
    assert "question" in refusal(*features, other)
    assert "give --language" in refusal("logs", "features", log)


EXPORTS = Path(__file__).parents[1] / "data" / "exports"


def test_an_export_is_measured() -> None:
    shown = mirage(
        *("logs", "features", EXPORTS / "phoenix.jsonl", "--language", "en"),
        *("--format", "phoenix", "--json"),
    )
    (model,) = json.loads(shown.stdout)
    assert model["mean"]["passages_shown"] == 2
    assert model["mean"]["cites"] == 1


def test_damaged_lines_are_refused_or_counted(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(log.read_text(encoding="utf-8") + '\n{"input": {', encoding="utf-8")
    command = ("logs", "features", path, "--language", "sw", *OWN)
    assert "line 41: not JSON" in refusal(*command)
    result = mirage(*command, "--skip-damaged")
    assert result.exit_code == 0
    assert "1 damaged line was skipped, and 40 were read" in " ".join(result.stderr.split())


def test_each_week_is_compared_with_the_others(log: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    third = [
        row | {"when": row["when"].replace("-11-", "-12-"), "ticket": row["ticket"] + 80}
        for row in rows[:20]
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows + third)), encoding="utf-8")
    command = ("logs", "drift", path, "--language", "sw", *OWN, "--field", "time=when", "--each")
    result = mirage(*command, "--by", "week", "--json")
    periods = json.loads(result.stdout)["periods"]
    assert list(periods) == ["2026-W46", "2026-W47", "2026-W50"]
    assert {name: period["verdict"] for name, period in periods.items()} == {
        "2026-W46": None, "2026-W47": "worse", "2026-W50": None
    }  # fmt: skip
    assert periods["2026-W47"]["alpha"] == pytest.approx(0.05 / 3)
    assert result.exit_code == 1
    assert "log 2026-W47 is worse than log other weeks" in " ".join(result.stderr.split())
    overview, *details = mirage(*command, "--by", "week").stdout.split("\n\n")
    lines = [line.strip("* ").split() for line in overview.splitlines()]
    assert "log: 3 weeks, each compared with the others" in overview
    assert [line[:2] for line in lines if line[0].startswith("2026-W")] == [
        ["2026-W46", "no"],
        ["2026-W47", "worse"],
        ["2026-W50", "no"],
    ]
    # Only a period that differs has a table of all measures.
    assert [detail.partition(":")[0] for detail in details] == [
        "log other weeks and log 2026-W47",
    ]
    assert "--each needs one log and --by" in refusal(*command)


def test_documents_that_no_test_has_are_listed(log: Path, tmp_path: Path) -> None:
    bundled = MirageDataset.bundled("sw")
    bundled[:10].save(tmp_path / "tests.jsonl")
    command = ("logs", "features", log, "--language", "sw", *OWN)
    shown = mirage(*command, "--tests", tmp_path / "tests.jsonl", "--json")
    (model,) = json.loads(shown.stdout)
    tested = {passage.text for query in bundled[:10] for passage in query.passages}
    texts = {passage.text for query in bundled[:20] for passage in query.passages}
    found = model["untested"]
    assert len(found["untested"]) == len({text[:60] for text in texts - tested})
    assert found["questions"] == 40
    assert found["questions_with_untested_documents_only"] == 20
    assert {row["questions"] for row in found["untested"]} == {2}
    text = mirage(*command, "--tests", tmp_path / "tests.jsonl").stdout
    assert "retrieved documents are in no query of tests" in " ".join(text.split())
    bundled.save(tmp_path / "all.jsonl")
    text = mirage(*command, "--tests", tmp_path / "all.jsonl").stdout
    assert "log: 0 of" in text


def test_a_log_without_answers_has_no_note_on_citations(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {"question": f"{query.text} {number}", "contexts": ["Nairobi ni mji."], "answer": None}
        for number, query in enumerate(list(MirageDataset.bundled("sw"))[:12])
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    shown = mirage("logs", "features", "--language", "sw", path)
    assert "failed" in shown.stdout
    assert "no answer cites" not in shown.stdout


def test_empty_lists_of_passages_are_not_called_unknown(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {"question": query.text, "contexts": [], "answer": query.reference}
        for query in list(MirageDataset.bundled("sw"))[:12]
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = ("logs", "features", "--language", "sw", path)
    for more in ((), ("--out", tmp_path / "values.jsonl")):
        text = " ".join(mirage(*command, *more).stdout.split())
        assert "support_lexical_all (all lists of passages in the log are empty)" in text
        assert "does not say which passages" not in text
    del rows[0]["contexts"]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert "does not say which passages" not in mirage(*command).stdout
    for row in rows:
        row.pop("contexts", None)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    text = " ".join(mirage(*command).stdout.split())
    assert "(the log does not say which passages were shown)" in text


def log_that_loses_passages(path: Path, *, days: int, last_complete: int) -> Path:
    """Write a log in which every second line of the later days lists no passages."""
    rows = [
        {
            "question": f"How long is the Nile {day} {number}?",
            "answer": "6,650 km.",
            "passages": None if day > last_complete and number % 2 else ["It is 6,650 km long."],
            "time": f"2026-11-{day + 1:02}T12:{number:02}:00Z",
        }
        for day in range(days)
        for number in range(10)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_fewer_values_than_before_are_inconclusive(tmp_path: Path) -> None:
    path = log_that_loses_passages(tmp_path / "log.jsonl", days=22, last_complete=14)
    command = ("logs", "drift", path, "--language", "en", "--feature", "answer_length")
    result = mirage(*command, "--by", "week", "--json")
    assert result.exit_code == 3
    assert "significantly fewer questions could be measured" in " ".join(result.stderr.split())
    less = json.loads(result.stdout)["less_measured"]
    assert [entry["feature"] for entry in less] == ["cites", "question_carried", "passages_shown"]
    each = mirage(*command, "--by", "week", "--each")
    assert each.exit_code == 3
    assert "fewer values" in each.stdout
    features = mirage("logs", "features", *command[2:]).stdout
    assert "35 of 220 lines do not list the passages" in " ".join(features.split())


@pytest.mark.slow
def test_a_watch_with_fewer_values_than_before_is_inconclusive(tmp_path: Path) -> None:
    path = log_that_loses_passages(tmp_path / "log.jsonl", days=28, last_complete=17)
    result = mirage("logs", "watch", path, "--language", "en", "--feature", "answer_length")
    assert result.exit_code == 3
    assert "since 2026-11-19" in " ".join(result.stdout.split())
