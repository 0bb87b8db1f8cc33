"""Labels from files and frames: reading, selecting and merging."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from labelled import NO, YES, labelled, query

from mirage.errors import DatasetError, UnknownNameError
from mirage.metaeval import AnswerSentence, LabelledSentences, read_sentences

ROW: dict[str, Any] = {
    "query": "Where does the Nile end?",
    "passages": ["The Nile ends in the Mediterranean.", {"id": "7#2", "text": "It floods."}],
    "sentence": "It ends in the Mediterranean.",
    "label": "yes",
    "language": "en",
}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row_with(**fields: object) -> dict[str, Any]:
    return {**ROW, **fields}


# A team's own labels


def test_rows_of_a_file(tmp_path: Path) -> None:
    rows = [
        ROW,
        row_with(sentence="It floods.", citations=["7#2"], label=["no", None, "yes"]),
        row_with(query_id=5, language="de", label=True, fine="copied"),
    ]
    sentences = LabelledSentences.from_jsonl(write(tmp_path / "own.jsonl", *rows), positive="yes")
    first, second, third = sentences
    assert [passage.id for passage in first.cited] == ["1", "7#2"]  # all: it cites none
    assert [passage.text for passage in second.cited] == ["It floods."]
    assert first.query.id == second.query.id == ROW["query"]
    assert (third.query.id, third.query.language) == ("5", "de")
    assert sentences.labels == (("yes",), ("no", "yes"), ("True",))
    assert sentences.fine == ((), (), ("copied",))
    assert (sentences.source, sentences.positive, sentences.languages) == (
        "own.jsonl",
        "yes",
        ("en", "de"),
    )
    assert sentences.names == ("True", "no", "yes")
    assert sentences.counts() == {"en": Counter(yes=2, no=1), "de": Counter({"True": 1})}
    assert sentences.counts(fine=True)["de"] == Counter(copied=1)


def test_the_language_may_be_named_once(tmp_path: Path) -> None:
    row = {name: value for name, value in ROW.items() if name != "language"}
    path = write(tmp_path / "own.jsonl", row, {**row, "language": "de"})
    assert LabelledSentences.from_jsonl(path, language="sw").languages == ("sw", "de")
    with pytest.raises(DatasetError, match=r"own\.jsonl, line 1, field 'language'"):
        LabelledSentences.from_jsonl(path)


def test_fine_labels_that_nobody_filled_in_are_none(tmp_path: Path) -> None:
    rows = row_with(label=["a", "b"], fine=None), row_with(label="a", fine="")
    assert LabelledSentences.from_jsonl(write(tmp_path / "own.jsonl", *rows)).fine == ((), ())


def test_a_frame_is_read_as_a_file_is(tmp_path: Path) -> None:
    rows = [ROW, row_with(label=["no", None], fine=["x", None]), row_with(citations=["1"])]
    sentences = LabelledSentences.from_jsonl(write(tmp_path / "own.jsonl", *rows))
    frame = pd.DataFrame(rows)  # fills in NaN where a row has no such field
    frame["of another tool"] = 1.5
    assert frame["fine"].isna().any()
    same = LabelledSentences.from_pandas(frame)
    assert (same.sentences, same.labels, same.fine) == (
        sentences.sentences,
        sentences.labels,
        sentences.fine,
    )


def test_other_types_than_frames_raise_an_error() -> None:
    with pytest.raises(DatasetError, match="expected a pandas or polars DataFrame, got list"):
        LabelledSentences.from_pandas([ROW])  # type: ignore[arg-type]


def test_labels_of_a_frame_may_be_numbers_and_arrays() -> None:
    frame = pd.DataFrame([ROW, ROW])
    frame["label"] = [1.0, np.nan]
    with pytest.raises(DatasetError, match="row 1, field 'label'"):
        LabelledSentences.from_pandas(frame)
    frame["label"] = [0, 1]
    assert LabelledSentences.from_pandas(frame).labels == (("0",), ("1",))
    frame["label"] = [np.array([1.0, np.nan]), np.array([0.5, 1.0])]
    assert LabelledSentences.from_pandas(frame).labels == (("1",), ("0.5", "1"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": "x"}, "field 'passages'"),
        (row_with(sentence=""), "field 'sentence'"),
        (row_with(label=None), "the sentence has no label"),
        (row_with(label=[]), "the sentence has no label"),
        (row_with(label=[["a"]]), "field 'label.0'"),
        (row_with(label={"a": 1}), "field 'label.0'"),
        (row_with(language="xx"), "unknown language 'xx'"),
        (row_with(passages="one text"), "field 'passages'"),
        (row_with(passages=[3]), "field 'passages.0'"),
        (row_with(passages=[{"id": "a", "text": "1"}] * 2), "shows passage 'a' twice"),
        (row_with(citations=["7#3"]), "cites '7#3', which is not one of its passages"),
        (row_with(label=["a", "b"], fine="c"), "1 fine-grained labels, but 2 labels"),
        (row_with(query_id=ROW["query"], query="Who?"), "has a different text in an earlier row"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=r"own\.jsonl, line 2") as caught:
        LabelledSentences.from_jsonl(write(tmp_path / "own.jsonl", ROW, row))
    assert message in str(caught.value)


def test_missing_files_and_sentences_raise_errors(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"nowhere: the folder contains no language file such as en\.jsonl"
    ):
        LabelledSentences.memerag(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match=r"en\.jsonl: cannot be read"):
        LabelledSentences.memerag(tmp_path, ["en"])
    with pytest.raises(UnknownNameError, match="did you mean 'relevance'"):
        LabelledSentences.memerag(tmp_path, ["en"], task="relevancy")
    with pytest.raises(DatasetError, match=r"own\.jsonl contains no sentences"):
        LabelledSentences.from_jsonl(write(tmp_path / "own.jsonl"))
    with pytest.raises(DatasetError, match="2 entries in labels"):
        LabelledSentences((AnswerSentence(query("a"), "s"),), (("x",), ("y",)), ((),))


# Views


def annotated(
    *rows: tuple[tuple[str, ...], tuple[str, ...]],
) -> LabelledSentences:
    """Sentences with these labels and fine-grained labels."""
    return LabelledSentences(
        tuple(AnswerSentence(query("a"), f"s{i}") for i in range(len(rows))),
        tuple(labels for labels, _ in rows),
        tuple(fine for _, fine in rows),
    )


def test_majority() -> None:
    sentences = annotated(
        ((YES, NO, YES), ("copy", "new", "copy")),
        ((YES, NO), ("copy", "new")),  # a tie
        ((NO, NO, YES), ("new", "", "copy")),
        ((NO, NO, YES, YES, NO), ("new", "new", "copy", "copy", "wrong")),
        ((NO, NO, YES), ("new", "wrong", "copy")),  # a tie of the fine-grained
    ).majority()
    assert sentences.labels == ((YES,), (), (NO,), (NO,), (NO,))
    assert sentences.fine == (("copy",), (), ("new",), ("new",), ())
    assert sentences.majority().labels == sentences.labels
    assert sentences.majority().fine == sentences.fine


def test_the_undecided_are_left_out_and_counted() -> None:
    hard = "Challenging to determine"
    sentences = annotated(
        ((YES,), ("copy",)),
        ((hard,), ("",)),
        ((YES, NO), ("copy", "new")),
        ((hard, hard, YES), ("", "", "copy")),
        ((NO, hard, NO), ("new", "", "new")),
    )
    decided, left_out = sentences.decided()
    assert [sentence.text for sentence in decided] == ["s0", "s4"]
    assert decided.labels == ((YES,), (NO,))
    assert left_out == {hard: 2, "no majority": 1}
    with pytest.raises(DatasetError, match="no sentence has a usable label"):
        annotated(((hard,), ("",))).decided()


def test_select() -> None:
    rows = [("en", "a", YES), ("de", "b", NO), ("sw", "c", YES)]
    sentences = labelled(rows)
    assert [s.text for s in sentences.select(languages=["sw", "en"])] == ["s0", "s2"]
    with pytest.raises(UnknownNameError, match="language 'fr' in labelled sentences"):
        sentences.select(languages=["fr"])
    several = annotated(((YES, NO, YES), ("copy", "new", "copy")), ((NO,), ("new",)))
    assert [s.text for s in several.select(fine=["new"])] == ["s1"]
    with pytest.raises(
        UnknownNameError, match=r"fine-grained label 'knew' in .*; did you mean 'new'"
    ):
        several.select(fine=["knew"])


def test_merged() -> None:
    sentences = labelled([("en", "a", "direct"), ("en", "b", "context"), ("en", "c", "unrelated")])
    two = sentences.merged({"direct": "related", "context": "related"}, positive="related")
    assert two.labels == (("related",), ("related",), ("unrelated",))
    assert two.positive == "related"
    assert sentences.names == ("context", "direct", "unrelated")
    with pytest.raises(
        UnknownNameError, match="'contexts' in labelled sentences; did you mean 'context'"
    ):
        sentences.merged({"contexts": "x"}, positive="x")


def test_a_file_of_memerag_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "de.jsonl"
    row = {"query_id": "1", "query": "Wo?", "context": [{"text": "Hier."}], "answer": []}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    for read in (LabelledSentences.from_jsonl, read_sentences):
        with pytest.raises(DatasetError, match=r"line 1: this is a row of MEMERAG.*the folder"):
            read(path)
