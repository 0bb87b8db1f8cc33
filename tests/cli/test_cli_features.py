"""mirage features."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

from command_line import IN_SWAHILI, LANGUAGE, first_passage, mirage, refusal, responses

from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite
from mirage.models import Run


def test_features_are_the_librarys(good: Path) -> None:
    dataset = MirageDataset.bundled(LANGUAGE)
    table = FeatureSuite.default().score(dataset, Run.load(good, language=LANGUAGE))
    (plain,) = json.loads(mirage("features", *IN_SWAHILI, good, "--json").stdout)
    assert plain["mean"] == dict(zip(table.features, table.mean().tolist(), strict=True))
    assert plain["model"] == "good"
    assert len(plain["queries"]) == 40
    shown = mirage("features", *IN_SWAHILI, good).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert all(name in shown for name in table.features)
    gaps = " ".join(shown.split()).partition("not computed: ")[2]
    assert "citation_map@10: the query has no relevant passage" in gaps
    assert "and 6 more reasons" in gaps  # nine features are not computed on some queries


def test_a_feature_alone_by_any_of_its_names(good: Path) -> None:
    chosen = mirage("features", *IN_SWAHILI, good, "--feature", "citation_MAP@5", "--json")
    (plain,) = json.loads(chosen.stdout)
    assert list(plain["mean"]) == ["citation_map@5"]
    message = refusal("features", *IN_SWAHILI, good, "--feature", "citation_recal@10")
    assert message.endswith("did you mean 'citation_recall@10'?")


def test_a_missing_interval_has_a_reason(tmp_path: Path) -> None:
    queries, answers = tmp_path / "queries.jsonl", tmp_path / "run.jsonl"
    bundled = MirageDataset.bundled(LANGUAGE)
    MirageDataset(bundled[:4], name="few").save(queries)
    rows = [{"query_id": query.id, "text": "Ndiyo, ni kweli."} for query in bundled[:4]]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    few = ("features", answers, "--dataset", queries, "--feature", "citation_recall@10")
    why = "too few queries (4; at least 10 are needed)"
    assert f"no interval: {why}" in mirage(*few).stdout
    (plain,) = json.loads(mirage(*few, "--json").stdout)
    assert plain["interval"] == {"citation_recall@10": [None, None]}
    assert plain["no_interval"] == {"citation_recall@10": why}


def test_a_minimum_holds_or_falls_short(good: Path, tmp_path: Path) -> None:
    bad = responses(tmp_path / "bad.jsonl", first_passage)
    least = ("--min", "citation_recall@10=0.6", "--min", "target_language=0.5")
    assert mirage("features", *IN_SWAHILI, good, *least).exit_code == 0
    short = mirage("features", *IN_SWAHILI, good, bad, *least)
    assert short.exit_code == 1
    assert short.stderr.count("fell short: ") == 1
    # It cites the first passage alone, which finds one of so many, or none.
    answerable = [query for query in MirageDataset.bundled(LANGUAGE) if query.relevant]
    shares = [
        (query.passages[0].id in query.relevant) / len(query.relevant) for query in answerable
    ]
    words = f"citation_recall@10 of bad is {mean(shares):.3f} on bundled-sw"
    assert words in short.stderr.replace("\n", " ")


def test_a_minimum_within_the_interval_is_inconclusive(good: Path) -> None:
    least = ("--min", "citation_recall@10=0.95")
    shown = mirage("features", *IN_SWAHILI, good, *least, "--json")
    assert shown.exit_code == 3
    assert "inconclusive: cannot tell whether citation_recall@10 of good is >= 0.95" in shown.stderr
    (check,) = json.loads(shown.stdout)[0]["minimums"]
    assert check["verdict"] == "inconclusive"
    assert check["interval"][0] < 0.95 < check["interval"][1]
    # What falls short goes before what nobody can tell.
    both = mirage("features", *IN_SWAHILI, good, *least, "--min", "english_language=0.9")
    assert both.exit_code == 1


def test_minimums_that_make_no_sense(good: Path) -> None:
    form = "expected NAME=NUMBER"
    for text in ("citation_recall@10", "=0.5", "citation_recall@10=much"):
        assert form in refusal("features", *IN_SWAHILI, good, "--min", text)
    message = refusal("features", *IN_SWAHILI, good, "--min", "answer_blue=0.5")
    assert "did you mean 'answer_bleu'?" in message


def test_queries_without_a_response_count_as_failed(good: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.jsonl"
    part.write_text("".join(good.read_text().splitlines(keepends=True)[7:]))
    least = ("features", *IN_SWAHILI, part, "--min", "citation_recall@10=0.6")
    short = mirage(*least)
    assert short.exit_code == 1
    assert "part failed on 7 of 40 queries" in short.stderr
    assert "at most 0 are allowed" in " ".join(short.stderr.split())
    assert "allow_failed" not in short.stderr
    assert "failed: no response to this query" in " ".join(short.stderr.split())
    assert mirage(*least, "--allow-failed", 6).exit_code == 1
    assert mirage(*least, "--allow-failed", 7).exit_code == 0


def test_options_of_a_check_need_the_check(good: Path) -> None:
    for command, check in (("features", "--min"), ("rank", "--at-least")):
        message = refusal(command, *IN_SWAHILI, good, "--allow-failed", 2)
        assert message.endswith(f"give {check} too")
