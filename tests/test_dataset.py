"""Test datasets: bundled ones, reading and writing files, and errors for invalid files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, UnknownNameError
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response, Run
from mirage.sources import memerag, nomiracl

ROW = {"id": "a", "language": "en", "text": "Which river?"}


def dataset(*ids: str) -> MirageDataset:
    return MirageDataset((Query(id=id_, language="en", text=f"{id_}?") for id_ in ids), name="d")


def jsonl(folder: Path, *rows: object, name: str = "queries.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# --- Bundled


def test_bundled() -> None:
    bundled = MirageDataset.bundled("sw")
    assert bundled.language == "sw"
    assert bundled.name == "bundled-sw"
    assert bundled.query_ids == tuple(f"q{number:02}" for number in range(1, 41))
    assert bundled["q01"].text == "Ni mto upi ulio mrefu zaidi barani Afrika?"


def test_bundled_rejects_other_languages() -> None:
    with pytest.raises(UnknownNameError, match="unknown language 'Kiswahili'; did you mean 'sw'"):
        MirageDataset.bundled("Kiswahili")


# --- JSON Lines, there and back

# What has broken readers of lines: separators that str.splitlines takes for line ends, what JSON
# escapes, marks of direction, emoji of several code points, characters beyond the first plane.
ODD = st.sampled_from(
    [
        *("\u2028", "\u2029", "\x85", "\r\n", "\n", "\x00", "\x1f", "\ufeff", "\uffff", " "),
        *(
            '"',
            "\\",
            "{",
            "null",
            "\u202eאב",
            "مِصر",
            "सिंह",
            "e\u0301",
            "👩🏽\u200d🚀",
            "\U000323af",
        ),
    ]
)
TEXT = st.lists(ODD | st.text(max_size=8), max_size=4).map("".join)
NAME = TEXT.filter(bool)
PASSAGE = st.builds(Passage, id=NAME, text=TEXT, title=TEXT)
QUERY = st.builds(
    Query,
    id=NAME,
    language=st.just("ar"),
    text=NAME,
    passages=st.lists(PASSAGE, max_size=3, unique_by=lambda passage: passage.id).map(tuple),
    relevant=st.lists(NAME, max_size=2).map(tuple),
    reference=st.none() | TEXT,
    answerable=st.none() | st.booleans(),
    answers=st.lists(st.lists(NAME, min_size=1, max_size=2), max_size=2),
    wrong_answers=st.lists(NAME, max_size=2),
    cluster=st.none() | NAME,
    metadata=st.dictionaries(TEXT, TEXT, max_size=2),
)
QUERIES = st.lists(QUERY, min_size=1, max_size=3, unique_by=lambda query: query.id)


@settings(max_examples=examples(120), deadline=None)
@given(QUERIES)
def test_json_lines_give_back_the_same_queries(queries: list[Query]) -> None:
    written = MirageDataset(queries)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "queries.jsonl"
        written.save(path)
        read = MirageDataset.load(path)
        assert path.read_bytes().count(b"\n") == len(queries)
        assert list(read) == queries
        assert read == written
        again = Path(folder) / "again.jsonl"
        read.save(again)
        assert again.read_bytes() == path.read_bytes()


RESPONSE = st.builds(
    lambda id_, text, error, shown: Response(
        query_id=id_, text=text, error=None if text is not None else error, shown=shown
    ),
    NAME,
    st.none() | TEXT,
    TEXT,
    st.none() | st.lists(NAME, max_size=3).map(tuple),
)
RESPONSES = st.lists(RESPONSE, min_size=1, max_size=4, unique_by=lambda response: response.query_id)


@settings(max_examples=examples(200), deadline=None)
@given(RESPONSES)
def test_a_run_comes_back_the_same(responses: list[Response]) -> None:
    run = Run(model="m", language="th", responses=tuple(responses))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.jsonl"
        run.save(path)
        assert Run.load(path, language="th") == run


def test_the_dataset_and_the_run_are_named_after_the_file(tmp_path: Path) -> None:
    assert MirageDataset.load(jsonl(tmp_path, ROW, name="rivers.jsonl")).name == "rivers"
    path = jsonl(tmp_path, {"query_id": "a", "text": "x"}, name="my-rag.jsonl")
    assert Run.load(path, language="en").model == "my-rag"
    assert Run.load(path, language="en", model="other").model == "other"


def test_files_of_other_tools_are_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    text = '{"id": 7, "language": "fi", "text": "Mikä?"}\r\n\r\n  \r\n{"id": 8, "language": "fi",'
    path.write_bytes(b"\xef\xbb\xbf" + (text + ' "text": "Kuka?"}').encode())
    assert MirageDataset.load(path).query_ids == ("7", "8")


@pytest.mark.parametrize("alias", ["text", "output", "response"])
def test_a_run_may_use_an_alias_of_text(tmp_path: Path, alias: str) -> None:
    path = jsonl(tmp_path, {"query_id": 34, alias: "The Nile."}, {"query_id": 35, alias: ""})
    run = Run.load(str(path), language="en")
    assert run["34"].text == "The Nile."
    assert run["35"].text == ""
    assert run.failed == ()


# --- What is wrong, and where

BAD_LINES = [
    ("{'id': 1}", "line 2: not JSON"),
    ('{"id": "b"', "line 2: not JSON"),
    ('{"id": ' + "1" * 5000 + "}", "line 2: not JSON"),
    ("[" * 100_000, "line 2: not JSON"),
    ('["b"]', "line 2: expected a JSON object, found list"),
    ("3", "line 2: expected a JSON object, found int"),
    ({"id": "b", "language": "en"}, "line 2, field 'text': Field required"),
    ({**ROW, "id": ""}, "line 2, field 'id': String should have at least 1 character"),
    ({**ROW, "id": 1.5}, "line 2, field 'id': Input should be a valid string"),
    ({**ROW, "id": True}, "line 2, field 'id': Input should be a valid string"),
    ({**ROW, "id": "\ud800"}, "line 2, field 'id': Input should be a valid string"),
    ({**ROW, "language": "swa"}, "line 2, field 'language': unknown language 'swa'; did you mean"),
    ({**ROW, "answer": "x"}, "line 2, field 'answer': Extra inputs are not permitted"),
    (
        {**ROW, "answers": "x"},
        "line 2, field 'answers': expected a list of answers, each with its spellings, not a text; "
        'write [["38 m"]] for one answer, or [["38 m", "38 metres"]] if it has several spellings',
    ),
    ({**ROW, "wrong_answers": "x"}, "line 2, field 'wrong_answers': expected a list of answers"),
    ({**ROW, "answers": ["x", []]}, "line 2, field 'answers.1': Tuple should have at least 1 item"),
    ({**ROW, "metadata": {"k": 1}}, "line 2, field 'metadata.k': Input should be a valid string"),
    (
        {**ROW, "passages": [{"id": "1", "text": "x"}, {"id": "2", "text": 3}, {"id": "3"}]},
        "line 2, field 'passages.1.text': Input should be a valid string (and 1 more)",
    ),
    (
        {**ROW, "passages": [{"id": "1", "text": "x"}, {"id": "1", "text": "y"}]},
        "line 2: query 'a' shows passage '1' twice; passage ids must be unique",
    ),
    (ROW, "line 2, field 'id': query 'a' occurs a second time; query ids must be unique"),
    (
        {**ROW, "id": "b", "language": "de"},
        "line 2, field 'language': 'de', but the queries above it are in 'en'; make one dataset "
        "per language",
    ),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_wrong_line_is_named(tmp_path: Path, line: object, message: str) -> None:
    path = tmp_path / "queries.jsonl"
    second = line if isinstance(line, str) else json.dumps(line)
    path.write_text(f"{json.dumps(ROW)}\n{second}\n", encoding="utf-8")
    with pytest.raises(DatasetError) as caught:
        MirageDataset.load(path)
    assert str(caught.value).startswith(f"{path}, {message}")


def test_a_file_with_flat_answers_is_read_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [ROW | {"id": id_, "answers": ["30 Tage", "dreißig Tage"]} for id_ in "ab"]
    path = jsonl(tmp_path, *rows)
    for query in MirageDataset.load(path):
        assert query.answers == (("30 Tage",), ("dreißig Tage",))
    MirageDataset.from_qa(path)
    (message,) = caplog.messages
    assert message.startswith(f"{path}, field 'answers': a flat list of texts")
    assert 'write [["Nile", "Nil"]] for two spellings of one answer' in message


def test_a_file_with_answers_of_one_meaning_is_read_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    several = Query(**ROW, answers=[["a", "b"], ["c"]], wrong_answers=["d", "e"])
    one = ROW | {"id": "b", "answers": ["a"]}
    mixed = ROW | {"id": "c", "answers": ["a", ["b", "c"]]}
    path = jsonl(tmp_path, several.model_dump(mode="json"), one, mixed)
    assert [query.answers for query in MirageDataset.load(path)] == [
        (("a", "b"), ("c",)),
        (("a",),),
        (("a",), ("b", "c")),
    ]
    assert not caplog.messages


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_an_empty_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError) as queries:
        MirageDataset.load(path)
    assert str(queries.value) == f"{path}: the file has no queries"
    with pytest.raises(DatasetError) as responses:
        Run.load(path, language="en")
    assert str(responses.value) == f"{path}: the file has no responses"


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\n" + '{"id": "é"}\n'.encode("latin-1"))
    with pytest.raises(DatasetError) as caught:
        MirageDataset.load(path)
    assert str(caught.value) == f"{path}, line 2: not UTF-8; save the file as UTF-8"


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.jsonl", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(DatasetError) as caught:
            MirageDataset.load(path)
        assert str(caught.value).startswith(f"{path}: cannot be read ({why}")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query_id": "b"}, "line 2, field 'text': Field required"),
        ({"query_id": "b", "text": None}, "line 2: response to query 'b' needs"),
        ({"query_id": "b", "text": "x", "output": "y"}, "line 2, field 'output': Extra inputs"),
        (
            {"query_id": "a", "text": "again"},
            "line 2, field 'query_id': second response to query 'a'; a run has one "
            "response per query",
        ),
    ],
)
def test_a_wrong_line_of_a_run_is_named(tmp_path: Path, row: object, message: str) -> None:
    path = jsonl(tmp_path, {"query_id": "a", "text": "x"}, row)
    with pytest.raises(DatasetError) as caught:
        Run.load(path, language="en")
    assert str(caught.value).startswith(f"{path}, {message}")


def test_a_run_in_no_known_language(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"query_id": "a", "text": "x"})
    with pytest.raises(UnknownNameError, match="unknown language 'english'; did you mean 'en'"):
        Run.load(path, language="english")


def test_wrong_records_without_a_file() -> None:
    query = Query(id="a", language="en", text="?")
    with pytest.raises(
        DatasetError, match=r"^empty has no queries, but a dataset needs at least one$"
    ):
        MirageDataset([], name="empty")
    twice = r"^d contains query 'a' twice; query ids must be unique$"
    with pytest.raises(DatasetError, match=twice):
        MirageDataset([query, query], name="d")
    with pytest.raises(DatasetError, match=r"^d mixes the languages de, en; make one dataset per"):
        MirageDataset([query, Query(id="b", language="de", text="?")], name="d")


# --- TREC


def trec(
    folder: Path,
    topics: str = "1\tWhich river?\n2\tWhich lake?\n",
    qrels: str = "1 Q0 d#2 1\n1 Q0 d#1 0\n2\tQ0\te#1\t2\n",
    passages: str = '{"docid": "d#1", "title": "Congo", "text": "C"}\n{"id": "d#2", "text": "N"}\n'
    '{"docid": "e#1", "text": "L"}\n',
) -> tuple[Path, Path, Path]:
    paths = folder / "topics.tsv", folder / "qrels.tsv", folder / "passages.jsonl"
    for path, text in zip(paths, (topics, qrels, passages), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_trec_with_passages(tmp_path: Path) -> None:
    topics, qrels, passages = trec(tmp_path)
    read = MirageDataset.from_trec(topics, str(qrels), passages, language="en")
    assert read.name == "topics"
    assert list(read) == [
        Query(
            id="1",
            language="en",
            text="Which river?",
            passages=(Passage(id="d#2", text="N"), Passage(id="d#1", text="C", title="Congo")),
            relevant=("d#2",),
        ),
        Query(
            id="2",
            language="en",
            text="Which lake?",
            passages=(Passage(id="e#1", text="L"),),
            relevant=("e#1",),
        ),
    ]


def test_trec_without_passages(tmp_path: Path) -> None:
    topics, qrels, _ = trec(tmp_path, topics="1\tWhich river?\n3\tNot judged?\n")
    river, other = MirageDataset.from_trec(topics, qrels, language="sw")
    assert (river.passages, river.relevant) == ((), ("d#2",))
    assert (other.passages, other.relevant) == ((), ())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("topics", "1 Which river?\n", "line 1: expected 'id<TAB>text', got '1 Which river?'"),
        ("topics", "1\tRiver?\n\t?\n", r"line 2: expected 'id<TAB>text', got '\t?'"),
        ("topics", "1\tRiver?\n1\tLake?\n", "line 2: query '1' occurs a second time"),
        ("qrels", "1 Q0 d#1\n", "line 1: expected 'id Q0 passage-id relevance', got '1 Q0 d#1'"),
        ("qrels", "1 Q0 d#1 1\n1 Q0 d#2 yes\n", "line 2: expected 'id Q0 passage-id relevance'"),
        (
            "qrels",
            "1 Q0 d#1 1\n\n1 Q0 d#1 1\n1 Q0 d#1 0\n",
            "line 4: passage 'd#1' has two grades for query '1', 1 and 0",
        ),
        ("passages", '{"docid": "d#1"}\n', "line 1, field 'text': Field required"),
        (
            "passages",
            '{"id": "d#1", "text": "x"}\n{"id": "d#1", "text": "x"}\n{"id": "d#1", "text": "y"}\n',
            "line 3: passage 'd#1' occurs a second time, with another text or title",
        ),
    ],
)
def test_trec_names_the_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    paths = trec(tmp_path, **{name: text})
    with pytest.raises(DatasetError) as caught:
        MirageDataset.from_trec(*paths, language="en")
    path = next(path for path in paths if path.stem == name)
    assert str(caught.value).startswith(f"{path}, {message}")


def test_trec_names_the_passage_without_a_text(tmp_path: Path) -> None:
    topics, qrels, passages = trec(tmp_path, passages='{"id": "d#2", "text": "N"}\n')
    with pytest.raises(DatasetError) as caught:
        MirageDataset.from_trec(topics, qrels, passages, language="en")
    assert str(caught.value).startswith(
        f"{passages}: passage 'd#1' is missing, although {qrels} judges it for query '1'"
    )


def test_trec_in_no_known_language(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown language 'eng'; did you mean 'en'"):
        MirageDataset.from_trec(*trec(tmp_path), language="eng")


def test_trec_without_topics(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"topics\.tsv: the file has no queries"):
        MirageDataset.from_trec(*trec(tmp_path, topics="\n"), language="en")


# --- Other projects' files

MEMERAG_SENTENCE = {
    "sentence": "s",
    "factuality": "Supported",
    "fine_grained_factuality": None,
    "relevance": "Unrelated",
}
MEMERAG = {"query_id": "1", "query": "?", "context": [{"text": "x"}], "answer": [MEMERAG_SENTENCE]}
NOMIRACL = {
    "query_id": "1",
    "docids": ["d#1"],
    "prompt": "QUESTION:\nWhich?\n\nCONTEXTS:\n[1] Title: text\n\nOUTPUT:",
    "results": {"gpt-4-azure": "I don't know.", "m": "Yes"},
}


def load_memerag(folder: Path, row: object, language: str = "en") -> MirageDataset:
    return memerag.load(jsonl(folder, row, name="en.jsonl"), language).dataset


def load_nomiracl(folder: Path, row: object, language: str = "en") -> MirageDataset:
    for subset in ("relevant", "non_relevant"):
        (folder / subset).mkdir()
    jsonl(folder, row, name=f"relevant/{language}.jsonl")
    jsonl(folder, name=f"non_relevant/{language}.jsonl")
    return nomiracl.load(folder, language).dataset


@pytest.mark.parametrize(("load", "row"), [(load_memerag, MEMERAG), (load_nomiracl, NOMIRACL)])
def test_another_projects_row(
    tmp_path: Path, load: Callable[..., MirageDataset], row: dict[str, object]
) -> None:
    (query,) = load(tmp_path, row)
    assert query.id == "1"
    assert len(query.passages) == 1


@pytest.mark.parametrize(("load", "row"), [(load_memerag, MEMERAG), (load_nomiracl, NOMIRACL)])
def test_another_projects_reader_knows_the_languages(
    tmp_path: Path, load: Callable[..., MirageDataset], row: dict[str, object]
) -> None:
    with pytest.raises(UnknownNameError, match="unknown language 'deutsch'; did you mean 'de'"):
        load(tmp_path, row, "deutsch")


@pytest.mark.parametrize(
    ("load", "row", "field", "value", "message"),
    [
        (load_memerag, MEMERAG, "query_id", 1.5, "field 'id': Input should be a valid string"),
        (load_memerag, MEMERAG, "query", "", "field 'text': String should have at least 1"),
        (load_memerag, MEMERAG, "context", ["x"], "not a MEMERAG row"),
        (load_memerag, MEMERAG, "context", [{"text": None}], "field 'passages.0.text': Input"),
        (load_memerag, MEMERAG, "answer", None, "not a MEMERAG row"),
        (load_memerag, MEMERAG, "answer", [{"sentence": "s"}], "field 'factuality' is missing"),
        (load_nomiracl, NOMIRACL, "query_id", None, "field 'id': Input should be a valid string"),
        (load_nomiracl, NOMIRACL, "docids", None, "not a NoMIRACL row"),
        (load_nomiracl, NOMIRACL, "prompt", 3, "not a NoMIRACL row"),
        (load_nomiracl, NOMIRACL, "results", {"m": "Yes"}, "field 'gpt-4-azure' is missing"),
        (load_nomiracl, NOMIRACL, "results", {"gpt-4-azure": 3}, "field 'reference': Input should"),
    ],
)
def test_another_projects_wrong_row_is_named(
    tmp_path: Path,
    load: Callable[..., MirageDataset],
    row: dict[str, object],
    field: str,
    value: object,
    message: str,
) -> None:
    with pytest.raises(DatasetError, match=rf"en\.jsonl, line 1[:,] {re.escape(message)}"):
        load(tmp_path, {**row, field: value})


# --- A dataset in use


def test_positions_and_slices() -> None:
    abc = dataset("a", "b", "c")
    neither: Any = 1.0
    assert (len(abc), [query.id for query in abc]) == (3, ["a", "b", "c"])
    assert (abc[0].id, abc[-1].id, abc[np.int64(1)].id) == ("a", "c", "b")
    assert abc[1:].query_ids == ("b", "c")
    assert abc[::-2].query_ids == ("c", "a")
    assert (abc[:2].name, abc[:2].language) == ("d", "en")
    assert [query.id for query in reversed(abc)] == ["c", "b", "a"]
    with pytest.raises(IndexError):
        abc[3]
    with pytest.raises(TypeError):
        abc[neither]
    with pytest.raises(DatasetError, match="d has no queries"):
        abc[3:]


def test_ids() -> None:
    rivers = dataset("river-nile", "river-congo")
    assert rivers["river-congo"].id == "river-congo"
    with pytest.raises(UnknownNameError) as caught:
        rivers["river-nil"]
    assert str(caught.value) == "unknown query 'river-nil' in d; did you mean 'river-nile'?"
    with pytest.raises(UnknownNameError, match="known: river-nile, river-congo"):
        rivers["Ω"]
    assert "river-nile" in rivers
    assert "nile" not in rivers
    assert rivers[0] in rivers
    assert Query(id="river-nile", language="en", text="other") not in rivers
    assert 0 not in rivers


def test_a_sample_is_reproducible_and_in_order() -> None:
    bundled = MirageDataset.bundled("en")
    drawn = bundled.sample(6, seed=3)
    assert drawn == bundled.sample(6, seed=3)
    assert len(set(drawn.query_ids)) == 6
    assert list(drawn.query_ids) == sorted(drawn.query_ids)
    assert len({bundled.sample(6, seed=seed).query_ids for seed in range(10)}) > 5
    assert bundled.sample(40) == bundled
    assert drawn.name == "bundled-en"


def test_a_sample_draws_every_query_as_often() -> None:
    bundled = MirageDataset.bundled("en")
    drawn = [id_ for seed in range(400) for id_ in bundled.sample(20, seed=seed).query_ids]
    # Binomial(400, 1/2): 200 expected, standard deviation 10.
    assert all(150 < drawn.count(id_) < 250 for id_ in bundled.query_ids)


@pytest.mark.parametrize("n", [0, -1, 4])
def test_a_sample_has_to_fit(n: int) -> None:
    message = f"^n must be from 1 to 3, the number of queries of d; got n={n}$"
    with pytest.raises(DatasetError, match=message):
        dataset("a", "b", "c").sample(n)


def test_describe() -> None:
    passage_counts = (Passage(id="1", text="x"), Passage(id="2", text="y"))
    mixed = MirageDataset(
        [
            Query(
                id="a",
                language="yo",
                text="ta ni?",
                passages=passage_counts,
                relevant=("1",),
                reference="##Reason: a b c [1]\n##Answer: d e [1][2]",
                answers=[["d"]],
            ),
            Query(id="b", language="yo", text="?", passages=passage_counts[:1], answerable=False),
            Query(id="c", language="yo", text="ki", answerable=True, reference="x"),
            Query(id="d", language="yo", text="?", relevant=("8", "9"), answerable=False),
        ],
        name="mixed",
    )
    assert mixed.describe() == {
        "name": "mixed",
        "language": "yo",
        "queries": 4,
        "query_tokens": 3 / 4,
        "passages": 3,
        "passages_per_query": 0.75,
        "relevant_per_query": 0.75,
        "non_relevant_per_query": (1 + 1 + 0) / 3,
        "with_reference": 2,
        "reason_tokens": 4,
        "answer_tokens": (4 + 1) / 2,
        "with_answers": 1,
        "answerable": 1,
        "unanswerable": 2,
    }
    assert mixed.describe(tokens=str)["query_tokens"] == (6 + 1 + 2 + 1) / 4
    bare = MirageDataset([Query(id="a", language="yo", text="?")]).describe()
    assert {bare[name] for name in ("answer_tokens", "non_relevant_per_query")} == {None}


def test_equality_and_repr() -> None:
    first, other = dataset("a", "b"), MirageDataset(dataset("a", "b"), name="another name")
    assert first == other
    assert hash(first) == hash(other)
    assert first != dataset("b", "a")
    assert first != ["a", "b"]
    assert repr(first) == "MirageDataset('d', language='en', queries=2)"


@each_case("code", LANGUAGES)
def test_a_dataset_takes_any_of_the_languages(code: str) -> None:
    assert MirageDataset([Query(id="a", language=code, text="?")]).language == code


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    run = Run(model="m", language="sw", responses=(Response(query_id="q01", text="a"),))
    for write in (MirageDataset.bundled("sw").save, lambda path: run.save(path)):
        with pytest.raises(DatasetError, match=r"x\.jsonl: cannot be written \(No such file"):
            write(tmp_path / "nowhere" / "x.jsonl")
