"""One rater's order and labels, conflicts, and the readers of the files."""

from __future__ import annotations

from pathlib import Path

import pytest
from labelling_data import QUERIES, answers, dataset, pairs, run

from mirage import Run
from mirage.arena.judgment_files import RecordedJudge, read_judged
from mirage.arena.pairs import Pair
from mirage.errors import DatasetError, NoJudgmentError, SettingError, UnknownNameError
from mirage.labelling.items import pair_items
from mirage.labelling.session import SCALE, open_session
from mirage.labelling.summaries import summarise_labels
from mirage.metaeval import LabelledSentences, corrected_share, evaluate


def put_all(path: Path, rater: str, choose, items=None, **options) -> None:
    with open_session(items or answers(), path, rater=rater, **options) as session:
        for id_, item in session.items.items():
            session.put(id_, choose(item))


def by_truth(item) -> str:
    return "correct" if "6650" in item.text else "wrong"


def test_raters_see_the_same_blocks_in_different_orders() -> None:
    orders = []
    for rater in ("ann", "ben", "ann"):
        with open_session(answers(), None, rater=rater) as session:
            orders.append([*session.items])
    assert orders[0] == orders[2] != orders[1]
    assert {*orders[0][:20]} == {*orders[1][:20]}


def test_sides_of_pairs_differ_between_raters_and_votes_mean_the_same(tmp_path: Path) -> None:
    path, swapped = tmp_path / "votes.jsonl", []
    for rater in ("ann", "ben"):
        with open_session(pairs(), path, rater=rater) as session:
            swapped.append(session.swapped)
            for row in session.data()["items"]:
                better = "a" if "6650" in row["texts"][0] else "b"
                session.put(row["id"], better)
    assert swapped[0] != swapped[1]
    judged = read_judged(path)
    winners = {j.model_a if j.verdict == "a" else j.model_b for j in judged}
    assert len(judged) == QUERIES
    assert winners == {"system-under-test-a"}


def test_a_label_can_be_changed_and_the_file_has_the_last_one_only(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    with open_session(answers(), path, rater="ann") as session:
        first, second, *_ = session.items
        for id_, label in ((first, "wrong"), (second, "partly"), (first, "correct")):
            session.put(id_, label)
        assert session.given == {first: "correct", second: "partly"}
    assert len(path.read_text().splitlines()) == 2
    with open_session(answers(), path, rater="ann") as session:
        assert session.given == {first: "correct", second: "partly"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rater": "settled"}, "the rater cannot have the name"),
        ({"rater": " "}, "the rater cannot have the name"),
        ({"rater": "ann", "scale": ["one"]}, "2 to 9 different labels"),
        ({"rater": "ann", "scale": ["a", "a"]}, "2 to 9 different labels"),
        ({"rater": "ann", "scale": ["a", ""]}, "2 to 9 different labels"),
    ],
)
def test_bad_settings_are_refused(options, message: str) -> None:
    with pytest.raises(SettingError, match=message), open_session(answers(), None, **options):
        pass


def test_unknown_items_and_labels_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    with open_session(answers(), path, rater="ann") as session:
        for id_, label in ((next(iter(session.items)), "great"), ("zzz", "correct")):
            with pytest.raises(UnknownNameError):
                session.put(id_, label)
    assert path.read_text() == ""


def test_a_file_of_another_scale_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    put_all(path, "ann", by_truth)
    with (
        pytest.raises(DatasetError, match="use the same --scale"),
        open_session(answers(), path, rater="ben", scale=["yes", "no"]),
    ):
        pass


def test_one_rater_at_a_time_writes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    with (
        open_session(answers(), path, rater="ann"),
        pytest.raises(DatasetError, match="another process is writing"),
        open_session(answers(), path, rater="ben"),
    ):
        pass


# The second pass ----------------------------------------------------------------------------------


def test_conflicts_are_settled_and_agreement_stays_that_of_the_first_pass(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    put_all(path, "ann", by_truth)
    put_all(path, "ben", lambda item: "partly" if item.query.id == "q3" else by_truth(item))
    before = summarise_labels(path)
    assert (before.open, before.settled) == (2, 0)
    labelled = LabelledSentences.from_jsonl(path)
    assert labelled.decided()[1] == {"no majority": 2}
    with open_session(answers(), path, settle=True) as session:
        shown = session.data()["items"]
        assert {*map(tuple, (row["earlier"] for row in shown))} == {
            ("correct", "partly"),
            ("partly", "wrong"),
        }
        for row in shown:
            session.put(row["id"], "cannot tell")
        session.put(shown[0]["id"], "wrong")
    after = summarise_labels(path)
    assert (after.open, after.settled) == (0, 2)
    assert after.agreement["en"] == before.agreement["en"]
    final = LabelledSentences.from_jsonl(path, positive="correct")
    assert sorted(filter(None, final.settled)) == ["cannot tell", "wrong"]
    assert final.decided()[1] == {"cannot tell": 1}


def test_a_settled_vote_replaces_the_majority(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    for rater, label in (("ann", "tie"), ("ben", "tie")):
        put_all(path, rater, lambda _, label=label: label, pairs())
    with open_session(pairs(), path, rater="cem") as session:
        for row in session.data()["items"]:
            session.put(row["id"], "a" if "6650" in row["texts"][0] else "b")
    assert {j.verdict for j in read_judged(path)} == {"tie"}
    with open_session(pairs(), path, settle=True) as session:
        rows = session.data()["items"]
        assert len(rows) == QUERIES
        for row in rows:
            session.put(row["id"], "b" if "6650" in row["texts"][0] else "a")
    winners = {j.model_a if j.verdict == "a" else j.model_b for j in read_judged(path)}
    assert winners == {"system-under-test-b"}
    assert summarise_labels(path).open == 0


# Readers ------------------------------------------------------------------------------------------


def test_labels_of_two_raters_flow_into_metaeval_and_the_corrected_share(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    put_all(path, "ann", by_truth)
    put_all(path, "ben", by_truth)
    labelled = LabelledSentences.from_jsonl(path, positive="correct")
    assert len(labelled) == 2 * QUERIES
    assert {*labelled.labels} == {("correct", "correct"), ("wrong", "wrong")}
    judge = lambda sentence: "correct" if "6650" in sentence.text else "wrong"  # noqa: E731
    assert evaluate(labelled, judge)["<lambda>"]["en"].balanced_accuracy == 1
    share = corrected_share(labelled, judge, [item.sentence for item in answers()])
    assert share.rows[0].corrected.estimate == pytest.approx(0.5)


def test_files_of_two_raters_can_be_joined(tmp_path: Path) -> None:
    for rater in ("ann", "ben"):
        put_all(tmp_path / f"{rater}.jsonl", rater, by_truth)
    both = tmp_path / "both.jsonl"
    both.write_text("".join((tmp_path / f"{name}.jsonl").read_text() for name in ("ann", "ben")))
    assert {len(labels) for labels in LabelledSentences.from_jsonl(both).labels} == {2}


def test_a_row_of_a_rater_has_one_label(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    row = '{"query": "Who?", "language": "en", "passages": [], "sentence": "I.", "rater": "ann", '
    path.write_text(row + '"label": ["a", "b"]}\n')
    with pytest.raises(DatasetError, match="rater 'ann' has 2 labels"):
        LabelledSentences.from_jsonl(path)


def test_recorded_votes_count_until_a_response_changes(tmp_path: Path, caplog) -> None:
    path = tmp_path / "votes.jsonl"
    put_all(path, "ann", lambda _: "a", pairs())
    models = "system-under-test-a", "system-under-test-b"
    runs = [run(models[0]), run(models[1], "Nobody knows.")]
    asked = [Pair(f"q{n}", *models) for n in range(QUERIES)]
    judge = RecordedJudge(path)
    assert len(judge.judge(dataset(), runs, asked)) == QUERIES
    changed = [*runs[1].responses]
    changed[4] = changed[4].model_copy(update={"text": "##Answer: Something else."})
    later = [runs[0], Run(model=models[1], language="en", responses=tuple(changed))]
    assert len(judge.judge(dataset(), later, asked)) == QUERIES - 1
    assert "1 of 24 votes are left out, because the " in caplog.text
    with pytest.raises(NoJudgmentError, match="no vote on any of the 24 pairs"):
        judge.judge(dataset(), [runs[0], run(models[1], "Else.")], asked)
    with open_session(pair_items(dataset(), later)[0], path, rater="ann") as session:
        assert len(session.given) == QUERIES - 1


def test_the_default_scale_has_an_undecided_label() -> None:
    assert SCALE[-1] == "cannot tell"
