import json

import numpy as np
import pandas as pd
import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.arena import BradleyTerry, Judgments, read_judged, read_votes
from mirage.errors import JudgmentError
from mirage.models import Judgment

ROWS = [("q2", "x", "y", "a"), ("q1", "z", "x", "b"), ("q2", "y", "z", "tie")]
RECORDS = [Judgment(query_id=q, model_a=a, model_b=b, verdict=verdict) for q, a, b, verdict in ROWS]

names = st.text(min_size=1, max_size=4)
records = st.lists(
    st.builds(
        lambda query, pair, verdict: Judgment(
            query_id=query, model_a=pair[0], model_b=pair[1], verdict=verdict
        ),
        names,
        st.lists(names, min_size=2, max_size=2, unique=True),
        st.sampled_from(["a", "b", "tie"]),
    ),
    min_size=1,
    max_size=12,
)


def columns(judgments):
    return [
        [judgments.query_ids[i] for i in judgments.query],
        [judgments.models[i] for i in judgments.a],
        [judgments.models[i] for i in judgments.b],
        judgments.score.tolist(),
    ]


def arrays(**changes):
    query, a, b, verdict = zip(*ROWS, strict=True)
    return {"query": query, "model_a": a, "model_b": b, "verdict": verdict, **changes}


def test_records_become_columns():
    judgments = Judgments.from_records(iter(RECORDS))
    assert judgments.query_ids == ("q1", "q2")
    assert judgments.models == ("x", "y", "z")
    assert judgments.query.tolist() == [1, 0, 1]
    assert judgments.a.tolist() == [0, 2, 1]
    assert judgments.b.tolist() == [1, 0, 2]
    assert judgments.score.tolist() == [1.0, 0.0, 0.5]
    assert len(judgments) == 3
    dtypes = [c.dtype for c in (judgments.query, judgments.a, judgments.b, judgments.score)]
    assert dtypes == [np.int32, np.int32, np.int32, np.float32]


@settings(max_examples=25, deadline=None)
@given(records)
def test_round_trips(some):
    judgments = Judgments.from_records(some)
    assert judgments.to_records() == some
    assert Judgments.from_pandas(judgments.to_pandas()).to_records() == some


@pytest.mark.parametrize("dtype", ["O", "U", "S", "pandas", "category"])
def test_texts_of_any_dtype(dtype):
    query, a, b, verdict = zip(*ROWS, strict=True)
    if dtype == "pandas":
        given_arrays = [pd.Series(x) for x in (query, a, b, verdict)]
    elif dtype == "category":
        given_arrays = [pd.Categorical(x) for x in (query, a, b, verdict)]
    else:
        given_arrays = [np.array(x, dtype=dtype) for x in (query, a, b, verdict)]
    judgments = Judgments.from_arrays(
        **dict(zip(("query", "model_a", "model_b", "verdict"), given_arrays, strict=True))
    )
    assert columns(judgments) == columns(Judgments.from_records(RECORDS))


@pytest.mark.parametrize(
    "query",
    [
        np.array([7, -3, 7], dtype=np.int8),
        np.array([10**15, -5, 10**15]),
        np.array([-128, 127, -128], dtype=np.int8),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], dtype=np.uint64),
    ],
)
def test_integer_labels_near_and_far_apart(query):
    judgments = Judgments.from_arrays(**arrays(query=query))
    assert columns(judgments)[0] == [str(i) for i in query.tolist()]


def test_scores_instead_of_verdicts():
    judgments = Judgments.from_arrays(**arrays(verdict=None, score=[1, 0, 0.5]))
    assert columns(judgments) == columns(Judgments.from_records(RECORDS))


def test_long_columns_are_factorized_in_chunks(monkeypatch):
    monkeypatch.setattr("mirage.arena.judgments._CHUNK", 2)
    assert columns(Judgments.from_arrays(**arrays())) == columns(Judgments.from_records(RECORDS))


@each_case(
    ("changes", "message"),
    [
        ({"model_b": ("y", "z", "z")}, "row 1 .*'z' is compared with itself"),
        ({"verdict": None, "score": (1, 0, 0.7)}, "row 2: score 0.7"),
        ({"verdict": None, "score": (1, np.nan, 1)}, "row 1: score nan"),
        ({"verdict": None, "score": ("1", "0", "1")}, "column of numbers"),
        ({"verdict": ("a", "B", "tie")}, "row 1: verdict 'B'"),
        ({"verdict": ("a", "b", None)}, "row 2: verdict ''"),
        ({"query": ("q2", "q1")}, "differ in length.*'query': 2"),
        ({"query": ("q2", None, "q2")}, "row 1: query is missing"),
        ({"query": np.array([1.0, 2.0, np.nan])}, "row 2: query is missing"),
        ({"model_a": ("", "z", "y")}, "row 0: model_a is missing"),
        ({"model_b": np.array(["y", pd.NA, "z"], dtype=object)}, "row 1: model_b is missing"),
        ({"query": [["q2"], ["q1"], ["q2"]]}, "one dimension"),
        ({"score": (1, 0, 1)}, "either score= or verdict="),
        ({"query": [], "model_a": [], "model_b": [], "verdict": []}, "no judgments"),
    ],
)
def test_bad_columns_name_the_row(changes, message):
    with pytest.raises(JudgmentError, match=message):
        Judgments.from_arrays(**arrays(**changes))


def test_no_records():
    with pytest.raises(JudgmentError, match="no judgments"):
        Judgments.from_records([])


def test_bad_frames():
    frame = Judgments.from_records(RECORDS).to_pandas()
    with pytest.raises(JudgmentError, match="lacks \\['verdict'\\]"):
        Judgments.from_pandas(frame.drop(columns="verdict"))
    for column, message in (("model_a", "row 1: model_a is missing"), ("verdict", "row 1: verd")):
        holed = frame.astype(object)
        holed.loc[1, column] = None
        with pytest.raises(JudgmentError, match=message):
            Judgments.from_pandas(holed)


def test_order_of_rows_does_not_change_tournaments():
    rng = np.random.default_rng(0)
    query, a = rng.integers(8, size=300), rng.integers(4, size=300)
    b = (a + rng.integers(1, 4, size=300)) % 4
    score = rng.choice([0, 0.5, 1], size=300)
    order = rng.permutation(300)
    first, second = (
        BradleyTerry().bootstrap(
            Judgments.from_arrays(query=query[o], model_a=a[o], model_b=b[o], score=score[o]),
            tournaments=5,
        )
        for o in (np.arange(300), order)
    )
    assert np.array_equal(first.counts, second.counts)
    assert np.array_equal(first.logits, second.logits)


@pytest.mark.parametrize("key", ["prompt_digest", "asked"])
def test_votes_of_older_files_are_read(tmp_path, key):
    vote = {"query_id": "q1", "model_a": "x", "model_b": "y", "judge": "j", "verdict": "a"}
    file = tmp_path / "votes.jsonl"
    file.write_text(json.dumps(vote | {key: "0f"}))
    assert [vote.prompt_digest for vote in read_votes(file)] == ["0f"]
    assert read_judged(file).votes == tuple(read_votes(file))
