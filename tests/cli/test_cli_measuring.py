"""features, fit, metaeval and baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from command_line import LANGUAGE, first_passage, mirage, refusal, responses

from mirage.arena import BradleyTerry, PairwiseJudge
from mirage.dataset import MirageDataset, read_run
from mirage.features import FeatureSuite
from mirage.llm import LLM
from mirage.models import Judgment
from mirage.testing import read_baseline


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return responses(tmp_path / "good.jsonl")


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# features -----------------------------------------------------------------------------------------


def test_features_are_the_librarys(good: Path) -> None:
    dataset = MirageDataset.bundled(LANGUAGE)
    table = FeatureSuite.offline().score(dataset, read_run(good, language=LANGUAGE))
    (plain,) = json.loads(mirage("features", LANGUAGE, good, "--json").stdout)
    assert plain["mean"] == dict(zip(table.features, table.mean().tolist(), strict=True))
    assert plain["model"] == "good"
    assert len(plain["queries"]) == 14
    shown = mirage("features", LANGUAGE, good, "--per-query").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert all(name in shown for name in (*table.features, *dataset.query_ids))
    assert "not computed: citation_map@10: the query has no relevant passage" in shown


def test_a_feature_alone_by_any_of_its_names(good: Path) -> None:
    chosen = mirage("features", LANGUAGE, good, "--feature", "citation_MAP@5", "--json")
    (plain,) = json.loads(chosen.stdout)
    assert list(plain["mean"]) == ["citation_map@5"]
    message = refusal("features", LANGUAGE, good, "--feature", "citation_recal@10")
    assert message.endswith("did you mean 'citation_recall@10'?")


def test_a_minimum_holds_or_falls_short(good: Path, tmp_path: Path) -> None:
    bad = responses(tmp_path / "bad.jsonl", first_passage)
    least = ("--min", "citation_recall@10=0.6", "--min", "target_language=0.5")
    assert mirage("features", LANGUAGE, good, *least).exit_code == 0
    short = mirage("features", LANGUAGE, good, bad, *least)
    assert short.exit_code == 1
    assert short.stderr.count("fell short: ") == 1
    assert "citation_recall@10 of bad is 0.1" in short.stderr.replace("\n", " ")


def test_minimums_that_make_no_sense(good: Path) -> None:
    form = "expected a name, = and a number"
    for text in ("citation_recall@10", "=0.5", "citation_recall@10=much"):
        assert form in refusal("features", LANGUAGE, good, "--min", text)
    message = refusal("features", LANGUAGE, good, "--min", "answer_blue=0.5")
    assert "did you mean 'answer_bleu'?" in message


# fit ----------------------------------------------------------------------------------------------

MODELS = ("a", "b", "c")


def judgments(seed: int = 0) -> list[Judgment]:
    """Judgments in which a beats b beats c more often than not."""
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
    path = written(tmp_path / "j.jsonl", [row.model_dump() for row in rows])
    fitted = BradleyTerry().fit(rows)
    plain = json.loads(mirage("fit", path, "--json").stdout)
    assert [row["model"] for row in plain["models"]] == ["a", "b", "c"]
    for row in plain["models"]:
        place = fitted.models.index(row["model"])
        assert row["logit"] == fitted.logits[place]
        assert row["interval"] == fitted.interval()[place].tolist()
    assert "90 judgments on 30 queries" in mirage("fit", path).stdout


def test_tournaments_give_intervals_of_ranks(tmp_path: Path) -> None:
    rows = judgments()
    path = written(tmp_path / "j.jsonl", [row.model_dump() for row in rows])
    drawn = BradleyTerry(ties="drop", ridge=0.2).bootstrap(rows, 50, None, seed=3)
    plain = json.loads(
        mirage(
            *("fit", path, "--tournaments", 50, "--seed", 3, "--ties", "drop", "--ridge", 0.2),
            "--json",
        ).stdout
    )
    for row in plain["models"]:
        place = drawn.models.index(row["model"])
        assert row["logit"] == drawn.mean[place]
        assert row["rank_interval"] == drawn.rank_interval()[place].tolist()
    assert "rank interval" in mirage("fit", path, "--tournaments", 50).stdout


@pytest.mark.parametrize("both_orders", [False, True])
@pytest.mark.parametrize("how", ["majority", "all"])
def test_votes_are_read_as_the_judge_reads_them(
    server: Any, tmp_path: Path, both_orders: bool, how: Any
) -> None:
    """A jury whose judges disagree, leave votes out and change with the order."""

    def answer(request: Any) -> str:
        pair = max((message["content"] for message in request["messages"]), key=len)
        draw = crc32((request["model"] + pair).encode())
        return ("[[A]]", "[[B]]", "[[C]]", "[[A]]", "no verdict")[draw % 5]

    server.answer = answer
    dataset = MirageDataset.bundled(LANGUAGE)
    paths = [
        responses(tmp_path / f"{name}.jsonl", lambda query, n=n: first_passage(query)[: 90 + n])
        for n, name in enumerate(MODELS)
    ]
    runs = [read_run(path, language=LANGUAGE) for path in paths]
    judges = [LLM(name, base_url=server.url, cache=False) for name in ("j1", "j2", "j3")]
    path = tmp_path / "votes.jsonl"
    judge = PairwiseJudge(judges, both_orders=both_orders, votes=how)
    judged = judge.compare(dataset, runs, out=path)
    assert judged.invalid
    fitted = BradleyTerry().fit(judged)
    done = mirage("fit", path, "--votes", how, "--json")
    plain = json.loads(done.stdout)
    assert plain["judgments"] == len(judged)
    for row in plain["models"]:
        assert row["logit"] == pytest.approx(fitted.logits[fitted.models.index(row["model"])])
    assert "votes left out: invalid or failed" in done.stderr


def test_one_judge_of_several(tmp_path: Path) -> None:
    rows = [
        {"query_id": "q", "model_a": "a", "model_b": "b", "verdict": "a", "judge": "one"},
        {"query_id": "q", "model_a": "a", "model_b": "b", "verdict": "b", "judge": "two"},
    ]
    path = written(tmp_path / "j.jsonl", rows)
    plain = json.loads(mirage("fit", path, "--judge", "two", "--json").stdout)
    assert plain["models"][0]["model"] == "b"
    assert plain["separated"] == ["a", "b"]
    assert "won or lost every judgment" in mirage("fit", path, "--judge", "two").stdout
    assert "did you mean 'two'?" in refusal("fit", path, "--judge", "tow")


def test_what_fit_refuses(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", [{"query_id": "q", "model_a": "a", "winner": "a"}])
    message = refusal("fit", path)
    assert "field 'model_b': Field required" in message
    assert "'winner' is none of them" in message
    assert "no judgment in this file" in refusal("fit", written(path, []))
    assert "did you mean 'half'?" in refusal("fit", path, "--ties", "hal")
    assert "did you mean 'majority'?" in refusal("fit", path, "--votes", "majorty")
    failed = {"query_id": "q", "model_a": "a", "model_b": "b", "judge": "j", "verdict": "failed"}
    assert (
        "there are no verdicts" in mirage("fit", written(path, [{**failed, "error": "why"}])).stderr
    )


# metaeval -----------------------------------------------------------------------------------------


def labelled(path: Path) -> Path:
    """Sentences that the passages hold, and sentences that they do not."""
    rows = []
    for query in MirageDataset.bundled(LANGUAGE):
        texts = [passage.text for passage in query.passages]
        common = {"query": query.text, "language": LANGUAGE, "passages": texts}
        rows.append({**common, "sentence": texts[0], "label": "Supported"})
        rows.append({**common, "sentence": "Mbwa wawili walilala.", "label": "Not Supported"})
    return written(path, rows)


def test_features_as_judges_of_sentences(tmp_path: Path) -> None:
    path = labelled(tmp_path / "labels.jsonl")
    judges = ("--judge", "support_lexical=0.5", "--judge", "support_lexical_all")
    shown = mirage("metaeval", path, *judges, "--compare")
    assert shown.exit_code == 0
    assert "threshold 0.5, given" in shown.stdout
    assert "Differences of balanced accuracy" in shown.stdout
    plain = json.loads(mirage("metaeval", path, *judges, "--compare", "--json").stdout)
    assert plain["judges"]["support_lexical"]["figures"]["sw"]["balanced_accuracy"] > 0.9
    assert len(plain["comparisons"]) == 1
    assert "support_lexical" in mirage("metaeval", path).stdout


def test_memerag_in_its_folder(data_dir: Path) -> None:
    done = mirage("metaeval", data_dir / "memerag" / "memerag", "--json")
    figures = json.loads(done.stdout)["judges"]["support_lexical"]["figures"]
    assert set(figures) == {"de", "en", "es", "mean"}
    assert 0.55 < figures["mean"]["balanced_accuracy"] < 0.75


def test_what_metaeval_refuses(tmp_path: Path) -> None:
    path = labelled(tmp_path / "labels.jsonl")
    message = refusal("metaeval", path, "--judge", "support_lexcal")
    assert "did you mean 'support_lexical'?" in message
    message = refusal("metaeval", tmp_path, "--task", "faithfulnes")
    assert "did you mean 'faithfulness'?" in message
    assert "no file such as en.jsonl" in refusal("metaeval", tmp_path / "..")
    assert "did you mean" in refusal("metaeval", tmp_path / "label.jsonl")


# baseline -----------------------------------------------------------------------------------------


def test_a_baseline_is_saved_for_the_plugin(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    done = mirage("baseline", "save", LANGUAGE, good, "--out", path, "--name", "mine")
    assert done.stdout == f"{path}: 14 queries, 8 features\n"
    assert read_baseline(path).table.model == "mine"
    chosen = ("--feature", "answer_bleu", "--json")
    done = mirage("baseline", "save", LANGUAGE, good, "--out", path, *chosen)
    assert json.loads(done.stdout) == {"queries": 14, "features": ["answer_bleu"], "failed": 0}
    assert "there is no folder" in refusal(
        "baseline", "save", LANGUAGE, good, "--out", tmp_path / "no" / "x.json"
    )
