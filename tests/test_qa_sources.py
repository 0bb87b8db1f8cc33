"""Questions with short answers, in small files of the published schemas."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mirage.corpus import read_documents
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.models import Passage
from mirage.sources import kilt
from mirage.sources.trec import read_qrels

# The fields as facebookresearch/KILT documents them: answers and provenance may stand apart.
KILT = [
    {
        "id": "-5004457603684974952",
        "input": "who played anna in once upon a time",
        "output": [
            {"answer": "Elizabeth Dean Lail"},
            {
                "answer": "Elizabeth Lail",
                "provenance": [
                    {"wikipedia_id": "3", "title": "A", "start_paragraph_id": 1, "section": "B"},
                    {"wikipedia_id": "7", "title": "C", "start_paragraph_id": 2},
                    {"wikipedia_id": "3", "title": "A", "start_paragraph_id": 4},
                ],
                "meta": {"score": 1},
            },
        ],
        "meta": {},
    },
    {"id": "2", "input": "a test question", "meta": {}},
]
MKQA = [
    {
        "query": "who sings it",
        "example_id": -5004457603684974952,
        "queries": {"en": "who sings it", "ru": "кто поет", "zh_cn": "谁演唱的", "zh_tw": "誰演唱"},
        "answers": {
            "en": [
                {"type": "entity", "entity": "Q1", "text": "Dave Edmunds", "aliases": ["Edmunds"]},
                {"type": "short_phrase", "text": "he", "aliases": []},
            ],
            "ru": [{"type": "entity", "entity": "Q1", "text": "Эдмундс, Дэйв"}],
            "zh_cn": [{"type": "entity", "text": "戴维·埃德蒙兹"}],
            "zh_tw": [{"type": "entity", "text": "戴夫"}],
        },
    },
    {
        "query": "how long is a piece of string",
        "example_id": 8,
        "queries": {"en": "how long is a piece of string", "ru": "?"},
        "answers": {
            "en": [{"type": "unanswerable", "text": None}],
            "ru": [{"type": "long_answer", "text": None, "aliases": []}],
        },
    },
]
XOR = [
    {"id": "1", "question": "誰？", "lang": "ja", "answers": ["大鵬", "大鵬幸喜"], "split": "dev"},
    {"id": "2", "question": "Kuka?", "lang": "fi", "answers": ["Kekkonen"], "split": "dev"},
    {"id": "3", "question": "どこ？", "lang": "ja", "split": "test"},
]


def json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_kilt(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "nq-dev-kilt.jsonl", KILT)
    dataset = MirageDataset.from_qa(path, "kilt")
    first, second = dataset
    assert first.answers == (("Elizabeth Dean Lail", "Elizabeth Lail"),)
    assert first.relevant == ("3", "7")
    assert (second.answers, second.relevant) == ((), ())
    assert (dataset.name, dataset.language) == ("nq-dev-kilt", "en")


def test_qrels_of_kilt_do_not_accumulate(tmp_path: Path) -> None:
    first = json_lines(tmp_path / "a.jsonl.gz", KILT)
    output = [{"provenance": [{"wikipedia_id": 9}]}]
    other = json_lines(tmp_path / "b.jsonl", [{"id": "x", "input": "?", "output": output}])
    assert kilt.qrels(first) == {KILT[0]["id"]: {"3": 1, "7": 1}}
    assert kilt.qrels(other) == {"x": {"9": 1}}


def test_the_knowledge_source_of_kilt_is_read_as_documents(tmp_path: Path) -> None:
    page = {"_id": "3", "wikipedia_id": "3", "wikipedia_title": "A", "text": ["A.\n", "B."]}
    path = json_lines(tmp_path / "kilt_knowledgesource.json", [page])
    (document,) = read_documents(path)
    assert (document.id, document.title, document.text) == ("3", "A", "A.\nB.")


def test_mkqa_with_the_relevance_of_kilt(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "mkqa.jsonl.gz", MKQA)
    english, unanswerable = MirageDataset.from_qa(path, "mkqa", language="en")
    assert english.id == "-5004457603684974952"
    assert english.answers == (("Dave Edmunds", "Edmunds", "he"),)
    assert (english.answerable, unanswerable.answerable, unanswerable.answers) == (None, False, ())
    qrels = json_lines(tmp_path / "nq-dev-kilt.jsonl", KILT)
    russian, long = MirageDataset.from_qa(path, "mkqa", language="ru", qrels=qrels)
    assert (russian.text, russian.relevant) == ("кто поет", ("3", "7"))
    assert (long.answers, long.answerable) == ((), None)
    file = json_lines(tmp_path / "one.jsonl", MKQA[:1])
    assert MirageDataset.from_qa(file, "mkqa", language="zh")[0].text == "谁演唱的"
    with pytest.raises(DatasetError, match=r"one\.jsonl, line 1: the row has no query in 'sw'"):
        MirageDataset.from_qa(file, "mkqa", language="sw")


def test_xor_tydi_takes_one_language(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "xor.jsonl", XOR)
    japanese = MirageDataset.from_qa(path, "xor-tydi", language="ja")
    assert japanese.query_ids == ("1", "3")
    assert japanese[0].answers == (("大鵬", "大鵬幸喜"),)
    assert MirageDataset.from_qa(path, "xor-tydi", language="fi").query_ids == ("2",)


def test_plain_answers_by_any_usual_name(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "question": "2+2?", "golden_answers": ["4", "four"]},
        {"query_id": "b", "query": "Which two?", "answers": [["x"], ["y", "z"]]},
        {"_id": "c", "text": "Who?", "answer": "me", "more": 1},
        {"id": "d", "language": "en", "text": "Both?", "answers": ["x", "y"]},
    ]
    path = json_lines(tmp_path / "answers.jsonl", rows)
    dataset = MirageDataset.from_qa(path, language="en")
    assert [query.answers for query in dataset] == [
        (("4", "four"),),
        (("x",), ("y", "z")),
        (("me",),),
        (("x",), ("y",)),
    ]


def test_beir(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    json_lines(tmp_path / "queries.jsonl", [{"_id": str(i), "text": "?"} for i in range(3)])
    json_lines(
        tmp_path / "corpus.jsonl", [{"_id": "d1", "title": "T", "text": "x", "metadata": {}}]
    )
    test = tmp_path / "qrels" / "test.tsv"
    test.write_text("query-id\tcorpus-id\tscore\n0\td1\t2\n0\td2\t0\n2\td1\t1\n")
    dataset = MirageDataset.from_qa(tmp_path, "beir", language="en")
    assert {query.id: query.relevant for query in dataset} == {"0": ("d1",), "2": ("d1",)}
    assert read_qrels(test)["0"] == {"d1": 2, "d2": 0}
    (passage,) = read_documents(tmp_path / "corpus.jsonl")
    assert (passage.id, passage.title) == ("d1", "T")
    test.write_text("query-id\tcorpus-id\tscore\n0 d1 2\n")
    with pytest.raises(DatasetError, match=r"test\.tsv, line 2: expected 'query-id<TAB>corpus-id"):
        MirageDataset.from_qa(tmp_path, "beir", language="en")


@pytest.mark.parametrize(
    ("form", "row", "message"),
    [
        ("kilt", {"id": "1", "input": "?", "output": "x"}, "field 'output': expected a list"),
        ("kilt", {"id": "1", "output": []}, "field 'input': Input should be a valid string"),
        ("kilt", {"id": "1", "input": "?", "output": [{"provenance": [{}]}]}, "'wikipedia_id' is"),
        ("mkqa", {"example_id": 1}, "'queries' and 'answers' must be objects"),
        (
            "xor-tydi",
            {"lang": "en", "id": "1"},
            "field 'question' is missing; the row has the fields lang, id",
        ),
        ("answers", {"id": "1", "question": "?", "answers": {}}, "expected a text or a list"),
        ("answers", {"question": "?"}, "field 'id' is missing"),
        ("answers", {"id": "1", "question": "?", "lang": "xx"}, "'lang': unknown language 'xx'"),
        ("answers", {"_id": "1", "query": ""}, "field 'query': String should have at least 1 char"),
        ("answers", {"_id": "", "query": "?"}, "field '_id': String should have at least 1 char"),
        ("answers", {"id": "1", "question": "?", "answer": ["x", ""]}, "field 'answer': String sh"),
        ("answers", {"id": "1", "question": "?", "answer": {}}, "field 'answer': expected a text"),
        ("kilt", {"id": KILT[0]["id"], "input": "?"}, "occurs a second time, first in .*, line 1"),
        ("mkqa", MKQA[0], "field 'example_id': query '-50.* occurs a second time"),
        ("xor-tydi", {"lang": "en", "id": "1", "question": ""}, "field 'question': String should"),
        ("answers", {"id": "0", "question": "?"}, "field 'id': query '0' occurs a second time, f"),
    ],
)
def test_a_bad_row_is_one_error_with_its_line(
    tmp_path: Path, form: str, row: dict[str, Any], message: str
) -> None:
    good = {"kilt": KILT[0], "mkqa": MKQA[0], "xor-tydi": XOR[0]}
    path = json_lines(tmp_path / "bad.jsonl", [good.get(form, {"id": "0", "question": "?"}), row])
    with pytest.raises(DatasetError, match=rf"bad\.jsonl, line 2(:|,) .*{message}"):
        MirageDataset.from_qa(path, form, language="en")


def test_forms_and_languages_are_named(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "x.jsonl", XOR)
    with pytest.raises(UnknownNameError, match="did you mean 'mkqa'"):
        MirageDataset.from_qa(path, "mqka", language="en")
    with pytest.raises(SettingError, match="need a language"):
        MirageDataset.from_qa(path, "mkqa")
    with pytest.raises(DatasetError, match="field 'language' is missing"):
        MirageDataset.from_qa(json_lines(path, [{"id": "1", "question": "?"}]))
    twice = json_lines(path, [{"id": "1", "question": "?"}] * 2)
    with pytest.raises(DatasetError, match="line 2, field 'id': query '1' occurs a second time"):
        MirageDataset.from_qa(twice, language="en")


def test_errors_name_the_fields_of_the_user(tmp_path: Path) -> None:
    row = {"key": "1", "ask": {"text": "Which?"}, "of": ["a", "b"], "right": "b"}
    fields = {"id": "key", "question": "ask.text", "answers": "right", "choices": "of"}
    path = tmp_path / "own.jsonl"
    for change, message in (
        ({"key": ""}, "field 'key': String should have at least 1 character"),
        ({"right": "c"}, "field 'right': expected one of the 2 choices"),
        ({"of": "a"}, "field 'of': expected a list of texts"),
    ):
        json_lines(path, [row | change])
        with pytest.raises(DatasetError, match=message):
            MirageDataset.from_qa(path, language="en", fields=fields)
    json_lines(path, [row | {"ask": {"text": ""}}])
    with pytest.raises(DatasetError, match=r"field 'ask\.text': String should have at least 1"):
        MirageDataset.from_qa(path, language="en", fields={"id": "key", "question": "ask.text"})


def test_popqa_is_read_with_its_answers(tmp_path: Path) -> None:
    """In akariasai/PopQA, lists are texts that contain JSON."""
    row = {
        "id": 4222362,
        "subj": "George Rankin",
        "prop": "occupation",
        "obj": "politician",
        "s_aliases": '["George James Rankin"]',
        "o_aliases": '["political leader", "political figure"]',
        "question": "What is George Rankin's occupation?",
        "possible_answers": '["politician", "political leader", "pol\\u00edtico"]',
    }
    plain = row | {"id": 7, "possible_answers": "[sic] as written"}
    path = tmp_path / "popqa.jsonl"
    path.write_text("\n".join(map(json.dumps, (row, plain))), encoding="utf-8")
    first, second = MirageDataset.from_qa(path, "answers", language="en")
    assert (first.id, first.text) == ("4222362", "What is George Rankin's occupation?")
    assert first.answers == (("politician", "political leader", "político"),)
    assert second.answers == (("[sic] as written",),)


def test_fields_may_have_other_names(tmp_path: Path) -> None:
    rows = [
        {
            "text": "Who?",
            "qa_pairs": [{"short": ["Ada", "A. L."]}, {"short": ["Bo"]}],
            "best": {"text": "Ada and Bo."},
            "language": "en",
        },
        {"text": "Where?", "qa_pairs": [], "best": {"text": "Here."}, "language": "en"},
    ]
    path = json_lines(tmp_path / "asqa.jsonl", rows)
    fields = {"answers": "qa_pairs.short", "reference": "best.text"}
    first, second = MirageDataset.from_qa(path, language="sw", fields=fields)
    assert (first.id, first.language, first.text) == ("0", "en", "Who?")
    assert first.answers == (("Ada", "A. L."), ("Bo",))
    assert first.reference == "Ada and Bo."
    assert second.answers == ()
    with pytest.raises(DatasetError, match=r"line 1: field 'best.txt' is missing; the row has"):
        MirageDataset.from_qa(path, fields={"answers": "best.txt"})
    with pytest.raises(UnknownNameError, match="did you mean 'answers'"):
        MirageDataset.from_qa(path, fields={"answer": "best"})
    with pytest.raises(SettingError, match="only be used with the format 'answers'"):
        MirageDataset.from_qa(path, "kilt", fields=fields)


def test_several_parquet_files_are_one_dataset(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    paths = [tmp_path / "0000.parquet", tmp_path / "0001.parquet"]
    for n, path in enumerate(paths):
        rows = [{"q": f"Who {n}?", "answer": ["Ada"]}, {"q": f"Where {n}?", "answer": []}]
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    dataset = MirageDataset.from_qa(paths, language="en", fields={"question": "q"})
    assert [query.text for query in dataset] == ["Who 0?", "Where 0?", "Who 1?", "Where 1?"]
    assert dataset.query_ids == ("0", "1", "2", "3")
    assert dataset["2"].answers == (("Ada",),)


def test_rows_are_selected_and_merged(tmp_path: Path) -> None:
    rows = [
        {"question_id": "a-1", "question": "Who?", "answer": "Ada.", "label": 1},
        {"question_id": "a-1", "question": "Who?", "answer": "Nobody.", "label": 0},
        {"question_id": "a-1", "question": "Who?", "answer": "A. L.", "label": 1},
        {"question_id": "b-2", "question": "Where?", "answer": "Here.", "label": 1},
    ]
    path = json_lines(tmp_path / "wiki.jsonl", rows)
    dataset = MirageDataset.from_qa(path, language="en", where={"label": 1})
    assert [query.answers for query in dataset] == [(("Ada.", "A. L."),), (("Here.",),)]
    only = MirageDataset.from_qa(path, language="en", where={"question_id": "b-*"})
    assert only.query_ids == ("b-2",)
    with pytest.raises(DatasetError, match="line 1: field 'labl' is missing"):
        MirageDataset.from_qa(path, language="en", where={"labl": 1})
    changed = json_lines(path, [*rows, rows[0] | {"question": "When?"}])
    with pytest.raises(DatasetError, match="line 5: query 'a-1' has a different text"):
        MirageDataset.from_qa(changed, language="en", where={"label": 1})


def test_an_empty_cell_of_a_csv_file_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "qa.csv"
    path.write_text(
        "id,question,answers\n1,How high?,2962 m\n2,Who?,\n3,Who?,[]\n", encoding="utf-8"
    )
    queries = MirageDataset.from_qa(path, language="en")
    assert [query.answers for query in queries] == [(("2962 m",),), (), ()]


@pytest.mark.parametrize("language", ["en", "th"])
def test_contexts_are_read_as_passages_or_named(
    language: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "qa.csv"
    path.write_text(
        "id,question,context,answer\n"
        "s1,ภูเขาสูงเท่าไร,ภูเขาสูง 812 เมตร,812\n"
        's2,Who guards it?,"[""Ivo guards it."", ""It is old.""]",Ivo\n'
        "s3,Where?,,here\n",
        encoding="utf-8",
    )
    assert not MirageDataset.from_qa(path, language=language)[0].passages
    (message,) = caplog.messages
    assert "the field 'context' is not read" in message
    assert "fields={'passages': 'context'}" in message
    caplog.clear()
    first, second, third = MirageDataset.from_qa(
        path, language=language, fields={"passages": "context"}
    )
    assert first.passages == (Passage(id="s1#0", text="ภูเขาสูง 812 เมตร"),)
    assert first.answers == (("812",),)
    assert [(p.id, p.text) for p in second.passages] == [
        ("s2#0", "Ivo guards it."),
        ("s2#1", "It is old."),
    ]
    assert not third.passages
    assert not caplog.messages


def test_passages_may_be_objects(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Who?", "answer": "Ivo"}
    found = {"docs": [{"id": "d7", "text": "Ivo did."}, {"text": "Later.", "title": "T"}]}
    path = json_lines(tmp_path / "qa.jsonl", [row | found])
    (query,) = MirageDataset.from_qa(path, language="en", fields={"passages": "docs"})
    assert query.passages == (
        Passage(id="d7", text="Ivo did."),
        Passage(id="a#1", text="Later.", title="T"),
    )
    wrong = json_lines(tmp_path / "qa.jsonl", [row | {"docs": 7}])
    with pytest.raises(DatasetError, match="line 1, field 'docs': expected a text, a list of"):
        MirageDataset.from_qa(wrong, language="en", fields={"passages": "docs"})
