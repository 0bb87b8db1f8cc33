"""Queries that hang together, from the names of their clusters to what is said of models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage import (
    BradleyTerry,
    FeatureSuite,
    FeatureTable,
    Judgments,
    MirageDataset,
    Query,
    Ranking,
    Response,
    respond,
)
from mirage.arena import AdaptivePairs
from mirage.dataset import clusters_of
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.metaeval import AnswerSentence, LabelledSentences, annotator_agreement, evaluate
from mirage.models import Judgment
from mirage.statistics.bootstrap import draw_clusters, draws_degrees
from mirage.testing import FellShortError, assert_no_regression, save_baseline
from mirage.testing.comparison import compare


def query(number: int, **more: object) -> Query:
    return Query(id=f"q{number}", language="en", text=f"question {number}", **more)


DATASET = MirageDataset(query(n, metadata={"document": f"d{n // 5}"}) for n in range(60))
BY_FIVE = {f"q{n}": f"d{n // 5}" for n in range(60)}


# Names --------------------------------------------------------------------------------------------


def test_every_way_to_name_clusters_gives_the_same() -> None:
    in_file = MirageDataset(query(n, cluster=f"d{n // 5}") for n in range(60))
    assert clusters_of(in_file) == BY_FIVE
    assert clusters_of(DATASET) == {}
    assert clusters_of(DATASET, "document") == BY_FIVE
    assert clusters_of(DATASET, BY_FIVE) == BY_FIVE
    assert clusters_of(DATASET, lambda query: query.metadata["document"]) == BY_FIVE
    assert clusters_of(DATASET.clustered("document")) == BY_FIVE
    assert clusters_of(DATASET, lambda _: None) == {}


def test_a_cluster_that_cannot_be_told_is_one_clear_error() -> None:
    with pytest.raises(UnknownNameError, match="metadata key 'doc' in the queries"):
        clusters_of(DATASET, "doc")
    with pytest.raises(UnknownNameError, match="query id 'q99'"):
        clusters_of(DATASET, {"q99": "d"})
    with pytest.raises(DatasetError, match="the cluster of query 'q0' is 3; it must be a text"):
        clusters_of(DATASET, lambda _: 3)  # type: ignore[arg-type, return-value]


def test_a_file_names_clusters_and_systems_do_not_see_them(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    rows = [{"id": n, "language": "en", "text": "?", "cluster": n // 2} for n in range(4)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    dataset = MirageDataset.load(path)
    assert clusters_of(dataset) == {"0": "0", "1": "0", "2": "1", "3": "1"}
    assert clusters_of(dataset.without_gold()) == {}


# Means --------------------------------------------------------------------------------------------


def test_a_table_knows_the_clusters_of_its_queries() -> None:
    def long(query: Query, _: Response) -> float:
        return float(query.metadata["document"] in ("d0", "d1", "d2"))

    run = respond(lambda _: "answer", DATASET, "m", progress=False)
    suite = FeatureSuite([long])
    table = suite.score(DATASET, run, cluster="document", progress=False)
    assert table.clusters == BY_FIVE
    (together,), (apart,) = table.intervals(), suite.score(DATASET, run, progress=False).intervals()
    assert np.ptp(together) > 2 * np.ptp(apart)
    some = table.select(["q1", "q7"]).columns(["long"])
    assert some.clusters == {"q1": "d0", "q7": "d1"}
    assert np.isnan(some.intervals()).all()


# The gate -----------------------------------------------------------------------------------------


def test_what_one_document_lost_is_no_more_than_one_loss(tmp_path: Path) -> None:
    def right(_: Query, response: Response) -> float:
        return float(response.text == "right")

    def system(lost: int) -> object:
        wrong = {f"q{n}" for n in range(lost)}
        return lambda query: "wrong" if query.id in wrong else "right"

    path = tmp_path / "baseline.json"
    save_baseline(system(0), path, on=DATASET, suite=FeatureSuite([right]))  # type: ignore[arg-type]

    def check(lost: int, **more: object) -> object:
        return assert_no_regression(
            system(lost),
            path,
            on=DATASET,
            suite=FeatureSuite([right]),
            **more,  # type: ignore[arg-type]
        )

    with pytest.raises(FellShortError, match="of the 60 queries; p"):
        check(15)
    assert check(15, cluster="document").clusters == 12  # type: ignore[attr-defined]
    with pytest.raises(FellShortError, match="60 queries, in 12 clusters that count as one"):
        check(20, cluster="document")
    with pytest.warns(UserWarning, match="60 queries in 3 clusters are too few for an alarm"):
        check(60, cluster=lambda query: str(int(query.id[1:]) // 20))


def test_four_clusters_are_too_few_for_an_alarm() -> None:
    # All worse in one of the sixteen ways to swap four: 6 % false alarms, where 5 % are allowed.
    ids = tuple(f"q{n}" for n in range(20))
    tables = [FeatureTable("m", "en", ids, ("f",), np.full((20, 1), x)) for x in (1.0, 0.0)]
    for clusters, alarm in ((4, False), (5, True)):
        together = {id_: str(n % clusters) for n, id_ in enumerate(ids)}
        assert bool(compare(*tables, clusters=together).regressed(0.05)) == alarm
    alone = [table.select(ids[:4]) for table in tables]
    assert compare(*alone).regressed(0.05)  # queries by themselves mostly stay as they were


def test_queries_that_hang_together_raise_no_more_alarms() -> None:
    rng, repeats, correlation = np.random.default_rng(3), 60, 0.7
    together, apart = 0, 0
    for _ in range(repeats):
        shared, own = rng.normal(size=(12, 1)).repeat(5, axis=0), rng.normal(size=(60, 1))
        after = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
        ids = tuple(BY_FIVE)
        tables = [FeatureTable("m", "en", ids, ("f",), x) for x in (np.zeros((60, 1)), after)]
        together += bool(compare(*tables, clusters=BY_FIVE).regressed(0.05))
        apart += bool(compare(*tables).regressed(0.05))
    assert together <= 7  # 3 are due, and seldom more than 7
    assert apart >= 10


# Judged rankings ----------------------------------------------------------------------------------


def judged(queries: int, copies: int, seed: int = 0) -> Judgments:
    """Three models; the verdicts on each query stand there so many times, as other queries."""
    rng = np.random.default_rng(seed)
    score = rng.choice([0.0, 0.5, 1.0], (queries, 3)).repeat(copies, axis=0)
    names = [f"q{n}.{copy}" for n in range(queries) for copy in range(copies)]
    return Judgments.from_arrays(
        query=np.repeat(names, 3),
        model_a=np.tile(["x", "x", "y"], len(names)),
        model_b=np.tile(["y", "z", "z"], len(names)),
        score=score.ravel(),
    )


def by_original(judgments: Judgments) -> dict[str, str]:
    return {id_: id_.split(".")[0] for id_ in judgments.query_ids}


def test_copies_of_queries_in_their_clusters_make_no_logit_surer() -> None:
    model, copied = BradleyTerry(ridge=0), judged(15, 4)
    once = model.fit(judged(15, 1))
    together, apart = model.fit(copied, clusters=by_original(copied)), model.fit(copied)
    np.testing.assert_allclose(together.logits, once.logits)
    np.testing.assert_allclose(together.interval(), once.interval())
    np.testing.assert_allclose(together.confidences, once.confidences)
    assert (together.degrees, together.queries) == (14, 60)
    assert np.ptp(apart.interval(), axis=1) == pytest.approx(
        np.ptp(once.interval(), axis=1) / 2, rel=0.15
    )


def test_clusters_of_many_sizes_cost_degrees_of_freedom() -> None:
    judgments = judged(20, 1)
    sizes = dict.fromkeys(judgments.query_ids[:10], "big")
    fit = BradleyTerry().fit(judgments, clusters=sizes)
    assert len(set(fit.clusters)) == 11
    assert 1 <= fit.degrees < 4
    draws = fit.draws(20_000)
    np.testing.assert_allclose(np.median(draws, axis=0), fit.logits, atol=0.02)


def test_tournaments_draw_whole_clusters() -> None:
    model, copied = BradleyTerry(ridge=0.1), judged(15, 4)
    drawn = model.bootstrap(
        copied, tournaments=300, queries=None, clusters=by_original(copied), progress=False
    )
    counts = drawn.counts.reshape(300, 15, 4)
    assert (counts == counts[:, :, :1]).all()
    assert (drawn.counts.sum(axis=1) == 60).all()
    assert (len(set(drawn.clusters)), drawn.degrees) == (15, 14)
    once = model.bootstrap(judged(15, 1), tournaments=300, queries=None, progress=False)
    np.testing.assert_allclose(
        np.ptp(drawn.interval(), axis=1), np.ptp(once.interval(), axis=1), rtol=0.15
    )
    halved = draw_clusters(drawn.clusters, 30, 10, seed=0)
    assert set(halved.sum(axis=1).tolist()) == {32}  # eight of the clusters
    assert draws_degrees(halved, drawn.clusters) == 14


@pytest.mark.slow
def test_a_ranking_says_as_much_as_its_clusters() -> None:
    copied = judged(15, 4)
    clusters = by_original(copied)
    apart, together = (
        Ranking.from_judgments(copied),
        Ranking.from_judgments(copied, cluster=clusters),
    )
    assert together.models == apart.models
    first, last = together.models[0], together.models[-1]
    assert 0.5 < together.p_better(first, last) < apart.p_better(first, last)
    dataset = MirageDataset(
        Query(id=id_, language="en", text="?", metadata={"of": of}) for id_, of in clusters.items()
    )
    by_key = Ranking.from_judgments(copied, dataset=dataset, cluster="of")
    assert by_key.p_better(first, last) == together.p_better(first, last)
    drawn = Ranking.from_judgments(copied, cluster=clusters, tournaments=200, progress=False)
    width = np.ptp([drawn[first].interval, together[first].interval], axis=1)
    assert width[0] == pytest.approx(width[1], rel=0.2)
    few = Ranking.from_judgments(copied, cluster=dict.fromkeys(clusters, "one") | {"q0.0": "b"})
    assert all(np.isnan(entry.interval).all() for entry in few)
    assert "60 queries in 2 clusters: the uncertainty of the order is not known" in str(few)
    assert "60 queries in 15 clusters are few" in str(together)
    with pytest.raises(SettingError, match="pass them as dataset=, or pass cluster= as a mapping"):
        Ranking.from_judgments(copied, cluster="of")


def test_halves_of_adaptive_pairs_share_no_cluster() -> None:
    ids = [f"q{n}" for n in range(12)]
    together = {f"q{n}": f"document {n // 3}" for n in range(9)}
    halves = AdaptivePairs("xyz", ids, clusters=together).halves
    for first in (0, 3, 6):
        assert len({halves[f"q{n}"] for n in range(first, first + 3)}) == 1
    assert sorted(halves.values()) == ["first"] * 6 + ["second"] * 6
    plain = AdaptivePairs("xyz", ids).halves
    assert [plain[id_] for id_ in ids] == ["first", "second"] * 6
    known = Judgment(query_id="q1", model_a="x", model_b="y", verdict="a", half="second")
    joined = AdaptivePairs("xyz", ids, earlier_judgments=[known], clusters=together).halves
    assert {joined[f"q{n}"] for n in range(3)} == {"second"}


def test_a_cluster_in_both_halves_is_drawn_for_both() -> None:
    copied = judged(15, 2)
    halves = np.array([int(id_.endswith(".1")) for id_ in copied.query_ids], dtype=np.int8)
    both = replace(copied, halves=halves)
    clusters = by_original(copied)
    drawn = BradleyTerry().bootstrap(
        both, tournaments=400, queries=None, clusters=clusters, progress=False
    )
    often = {id_: drawn.counts[:, n] for n, id_ in enumerate(drawn.query_ids)}
    for n in range(15):
        assert (often[f"q{n}.0"] == often[f"q{n}.1"]).all()
    # Each half is a copy of the other: to have both is to have one.
    once = BradleyTerry().bootstrap(judged(15, 1), tournaments=400, queries=None, progress=False)
    np.testing.assert_allclose(
        np.ptp(drawn.interval(), axis=1), np.ptp(once.interval(), axis=1), rtol=0.15
    )


# People's labels ----------------------------------------------------------------------------------


def sentences(copies: int, languages: tuple[str, ...] = ("en",)) -> LabelledSentences:
    """Forty queries a language with two sentences each; the copies are other queries."""
    rows = []
    for code in languages:
        for n in range(40):
            for copy in range(copies):
                more = {"id": f"q{n}.{copy}", "language": code, "metadata": {"of": f"q{n}"}}
                rows += [(Query(text="?", **more), n, part) for part in range(2)]
    return LabelledSentences(
        tuple(AnswerSentence(query, f"s{n}-{part}") for query, n, part in rows),
        tuple(("Supported" if (n + part) % 3 else "Not Supported",) for _, n, part in rows),
        tuple(() for _ in rows),
    )


def guess(sentence: AnswerSentence) -> str:
    return "Supported" if hash_of(sentence.text) % 4 else "Not Supported"


def other(sentence: AnswerSentence) -> str:
    return "Supported" if hash_of(sentence.text) % 7 else "Not Supported"


def hash_of(text: str) -> int:
    return sum((i + 3) * ord(c) for i, c in enumerate(text))


def test_copies_of_queries_in_their_clusters_make_no_judge_surer() -> None:
    once = evaluate(sentences(1), [guess, other])
    together = evaluate(sentences(3), [guess, other], cluster="of")
    ours, theirs = together["guess"]["en"], once["guess"]["en"]
    assert (ours.standard_error, ours.queries) == (pytest.approx(theirs.standard_error), 120)
    assert np.ptp(ours.interval) == pytest.approx(np.ptp(theirs.interval), rel=0.1)
    assert together.compare()["guess", "other"].p == pytest.approx(
        once.compare()["guess", "other"].p, abs=0.03
    )
    apart = evaluate(sentences(3), [guess, other])
    assert apart["guess"]["en"].standard_error < 0.7 * theirs.standard_error


def test_what_languages_share_makes_their_mean_no_surer() -> None:
    once = evaluate(sentences(1), guess)
    parallel = evaluate(sentences(1, ("en", "fi", "sw")), guess, cluster="of")
    apart = evaluate(sentences(1, ("en", "fi", "sw")), guess)
    alone, mean = once["guess"]["en"], parallel["guess"]["mean"]
    assert mean.standard_error == pytest.approx(alone.standard_error, rel=0.1)
    assert np.ptp(mean.interval) == pytest.approx(np.ptp(alone.interval), rel=0.15)
    assert np.ptp(apart["guess"]["mean"].interval) < 0.75 * np.ptp(mean.interval)


def test_annotators_of_copies_agree_no_surer() -> None:
    rng = np.random.default_rng(0)
    widths = []
    for copies in (1, 4):
        labelled = sentences(copies)
        told: dict[str, tuple[str, str]] = {}
        labels = tuple(
            told.setdefault(one.text, tuple(rng.choice(["yes", "no"], 2).tolist()))
            for one in labelled
        )
        several = LabelledSentences(labelled.sentences, labels, labelled.fine)
        cluster = "of" if copies > 1 else None
        widths.append(np.ptp(annotator_agreement(several, cluster=cluster)["en"].gwet_ac1_interval))
        rng = np.random.default_rng(0)
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
