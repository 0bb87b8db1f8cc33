"""The datasets of BERGEN's configuration, in small files of the published schemas."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mirage import Corpus, MirageDataset
from mirage.corpus import read_documents
from mirage.corpus.documents import read_rows
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.grids import Grid
from mirage.retrieval import OracleRetriever
from mirage.sources import kilt


def json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rows_file(folder: Path, *rows: Mapping[str, Any]) -> Path:
    """Return a Parquet file with the rows, as the hub has it."""
    pytest.importorskip("pyarrow", reason="the extra retrieval is not installed")
    from pyarrow import Table, parquet

    path = folder / "0000.parquet"
    parquet.write_table(Table.from_pylist(list(rows)), path)
    return path


# Forms of answers ---------------------------------------------------------------------------------

POPQA = {
    "id": 4222362,
    "subj": "George Rankin",
    "prop": "occupation",
    "obj": "politician",
    "question": "What is George Rankin's occupation?",
    "possible_answers": '["politician", "political leader"]',
}
TYDI = {
    "id": "indonesian--1-0",
    "title": "Zuhud",
    "context": "…",
    "question": "Apa itu?",
    "answers": {"text": ["zuhud"], "answer_start": [1]},
}
NQ_OPEN = {"question": "when was it", "answer": ["14 December 1972 UTC", "December 1972"]}
TRIVIAQA = {
    "question": "Who was it?",
    "question_id": "tc_1",
    "question_source": "http://www.triviacountry.com/",
    "answer": {
        "aliases": ["Ada", "A. Lovelace"],
        "normalized_aliases": ["ada"],
        "value": "Ada",
        "type": "WikipediaEntity",
    },
}
HOTPOTQA = {"id": "5a", "question": "Were both?", "answer": "yes", "type": "comparison"}
WIKI2 = {
    "_id": "8813f87c",
    "question": "Who is his mother?",
    "answer": "Ada",
    "evidences": [["a", "b", "c"]],
}
ASQA = {
    "ambiguous_question": "Who won?",
    "sample_id": "-57",
    "qa_pairs": [
        {"question": "Who won in 1?", "short_answers": ["Ada", "A. L."], "wikipage": None},
        {"question": "Who won in 2?", "short_answers": ["Bob"], "wikipage": "Bob"},
    ],
    "wikipages": [{"title": "T", "url": "u"}],
    "annotations": [{"knowledge": [], "long_answer": "Ada and Bob."}],
}
TRUTHFULQA = {
    "type": "Adversarial",
    "category": "Myth",
    "question": "What happens?",
    "best_answer": "Nothing",
    "correct_answers": ["Nothing", "It is fine"],
    "incorrect_answers": ["You die"],
    "source": "https://example.org",
}
SCIQ = {
    "question": "What is it?",
    "distractor3": "viruses",
    "distractor1": "protozoa",
    "distractor2": "gymnosperms",
    "correct_answer": "mesophilic organisms",
    "support": "Mesophiles grow best …",
}
MMLU = {
    "question": "What is the capital of France?",
    "subject": "geography",
    "choices": ["Rome", "Paris", "Berlin", "Madrid"],
    "answer": 1,
}


@pytest.mark.parametrize(
    ("row", "fields", "where", "id", "answers"),
    [
        (POPQA, {}, None, "4222362", (("politician", "political leader"),)),
        (TYDI, {"answers": "answers.text"}, {"id": "indo*"}, "indonesian--1-0", (("zuhud",),)),
        (NQ_OPEN, {"answers": "answer"}, None, "0", (("14 December 1972 UTC", "December 1972"),)),
        (TRIVIAQA, {"answers": "answer.aliases"}, None, "tc_1", (("Ada", "A. Lovelace"),)),
        (HOTPOTQA, {}, None, "5a", (("yes",),)),
        (WIKI2, {}, None, "8813f87c", (("Ada",),)),
        (
            ASQA,
            {
                "id": "sample_id",
                "question": "ambiguous_question",
                "answers": "qa_pairs.short_answers",
            },
            None,
            "-57",
            (("Ada", "A. L."), ("Bob",)),
        ),
        (TRUTHFULQA, {"answers": "best_answer"}, None, "0", (("Nothing",),)),
        (SCIQ, {"answers": "correct_answer"}, None, "0", (("mesophilic organisms",),)),
        (MMLU, {"choices": "choices"}, None, "0", (("Paris",),)),
    ],
    ids=["PopQA", "TyDi", "NQ-open", "TriviaQA", "HotpotQA", "2Wiki", "ASQA", "TruthfulQA", "SciQ",
         "MMLU"],
)  # fmt: skip
def test_rows_of_the_hub(
    tmp_path: Path,
    row: Mapping[str, Any],
    fields: Mapping[str, str],
    where: Mapping[str, object] | None,
    id: str,
    answers: tuple[tuple[str, ...], ...],
) -> None:
    path = rows_file(tmp_path, row)
    (query,) = MirageDataset.from_qa(path, language="en", fields=fields, where=where)
    assert (query.id, query.answers) == (id, answers)


@pytest.mark.parametrize("answer", [1, "B", "Paris"])
def test_choices_are_part_of_the_question(tmp_path: Path, answer: object) -> None:
    path = json_lines(tmp_path / "mmlu.jsonl", [MMLU | {"answer": answer}])
    fields = {"choices": "choices"}
    (query,) = MirageDataset.from_qa(path, language="en", fields=fields)
    assert query.text == "What is the capital of France?\n- Rome\n- Paris\n- Berlin\n- Madrid"
    assert query.answers == (("Paris",),)
    assert query.wrong_answers == (("Rome",), ("Berlin",), ("Madrid",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"answer": 4},
            "expected one of the 4 choices, given by its number .from 0., letter or text",
        ),
        ({"answer": "E"}, "got 'E'"),
        ({"answer": -1}, "got -1"),
        ({"choices": "Paris"}, "field 'choices': expected a list of texts"),
    ],
)
def test_a_wrong_choice_is_an_error(
    tmp_path: Path, change: Mapping[str, object], message: str
) -> None:
    path = json_lines(tmp_path / "mmlu.jsonl", [MMLU | change])
    with pytest.raises(DatasetError, match=rf"mmlu\.jsonl, line 1: .*{message}"):
        MirageDataset.from_qa(path, language="en", fields={"choices": "choices"})


def test_fields_can_be_joined(tmp_path: Path) -> None:
    row = {
        "question_id": "a",
        "title": "Heat",
        "question": "Who?",
        "answers": ["Ada"],
        "no_answer": False,
        "movie": {"year": 1995},
    }
    path = rows_file(tmp_path, row)
    fields = {"id": "question_id", "question": "{title} ({movie.year}): {question}"}
    (query,) = MirageDataset.from_qa(path, language="en", fields=fields, where={"no_answer": False})
    assert query.text == "Heat (1995): Who?"
    for name, message in (
        ("{title", "is not a valid template"),
        ("{title!r}", "each slot must name a field whose value is a text or a number"),
        ("{title:>10}", "each slot must name a field whose value is a text or a number"),
        ("{answers}", "each slot must name a field whose value is a text or a number"),
        ("{}", "each slot must name a field whose value is a text or a number"),
        ("{title.__class__}", "field 'title.__class__' is missing"),
    ):
        with pytest.raises(DatasetError, match=re.escape(message)):
            MirageDataset.from_qa(path, language="en", fields={"question": name})


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_tables_of_text(tmp_path: Path, suffix: str, delimiter: str) -> None:
    path = tmp_path / f"test.{suffix}"
    rows = [
        ["syllabus_name", "question", "answer", "ideal_answer"],
        ["Art 1", '"When,\nand where?"', "Monday", "['Monday', 'Mondays']"],
    ]
    quoted = [
        [f'"{cell}"' if "," in cell and '"' not in cell else cell for cell in r] for r in rows
    ]
    path.write_text("\n".join(delimiter.join(row) for row in quoted) + "\n")
    fields = {"question": "{syllabus_name}: {question}"}
    (query,) = MirageDataset.from_qa(path, language="en", fields=fields)
    assert (query.id, query.text) == ("0", "Art 1: When,\nand where?")
    assert query.answers == (("Monday",),)
    (query,) = MirageDataset.from_qa(path, language="en", fields={"answers": "ideal_answer"})
    assert query.answers == (("Monday", "Mondays"),)
    path.write_text(delimiter.join(["question", "answer"]) + "\nonly one\n")
    with pytest.raises(
        DatasetError,
        match=rf"test\.{suffix}, line 2: the row must have as many columns as the header",
    ):
        MirageDataset.from_qa(path, language="en", fields=fields)


def test_a_list_in_a_text_is_never_evaluated(tmp_path: Path) -> None:
    text = "[__import__('os').getcwd()]"
    path = json_lines(tmp_path / "a.jsonl", [{"id": "1", "question": "?", "answers": text}])
    assert MirageDataset.from_qa(path, language="en")["1"].answers == ((text,),)


# MKQA and XOR-TyDi --------------------------------------------------------------------------------

MKQA_KEYS = ("ar", "da", "de", "en", "es", "fi", "fr", "he", "hu", "it", "ja", "km", "ko", "ms",
             "nl", "no", "pl", "pt", "ru", "sv", "th", "tr", "vi", "zh_cn", "zh_hk",
             "zh_tw")  # fmt: skip
MKQA = [
    {
        "query": f"question {number}",
        "example_id": 70 + number,
        "queries": {key: f"{key} {number}" for key in MKQA_KEYS},
        "answers": {
            key: [{"type": "entity", "text": f"{key} answer", "aliases": [f"{key} alias"]}]
            for key in MKQA_KEYS
        },
    }
    for number in range(2)
]
KILT_NQ = [
    {
        "id": "71",
        "input": "question 1",
        "output": [
            {
                "answer": "en answer",
                "provenance": [
                    {"wikipedia_id": "9", "start_paragraph_id": 1, "end_paragraph_id": 2},
                    {"wikipedia_id": "5", "start_paragraph_id": -1, "end_paragraph_id": -1},
                ],
            },
            {"answer": "alias", "provenance": [{"wikipedia_id": "9", "start_paragraph_id": 4}]},
        ],
    },
    {"id": "99", "input": "not in MKQA", "output": [{"answer": "x"}]},
]
BERGEN_LANGUAGES = ("ar", "de", "en", "es", "fi", "fr", "it", "ja", "ko", "pt", "ru", "th", "zh")


@pytest.mark.parametrize("code", BERGEN_LANGUAGES)
def test_mkqa_has_the_languages_of_bergen(tmp_path: Path, code: str) -> None:
    path = json_lines(tmp_path / "mkqa.jsonl.gz", MKQA)
    qrels = json_lines(tmp_path / "nq-train-kilt.jsonl", KILT_NQ)
    (query,) = MirageDataset.from_qa(path, "mkqa", language=code, qrels=qrels, judged=True)
    key = "zh_cn" if code == "zh" else code
    assert (query.id, query.language, query.text) == ("71", code, f"{key} 1")
    assert query.answers == ((f"{key} answer", f"{key} alias"),)
    assert query.relevant == ("9", "5")


def test_other_forms_of_chinese_in_mkqa(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "mkqa.jsonl.gz", MKQA)
    fields = {
        "id": "example_id",
        "question": "queries.zh_hk",
        "answers": "answers.zh_hk.text",
    }
    first, _ = MirageDataset.from_qa(path, language="zh", fields=fields)
    assert (first.id, first.text, first.answers) == ("70", "zh_hk 0", (("zh_hk answer",),))


@pytest.mark.parametrize("code", ["ar", "bn", "fi", "ja", "ko", "ru", "te"])
def test_xor_tydi_has_all_languages(tmp_path: Path, code: str) -> None:
    codes = ("ar", "bn", "fi", "ja", "ko", "ru", "te")
    rows = [{"id": c, "question": f"{c}?", "lang": c, "answers": ["yes"]} for c in codes]
    path = json_lines(tmp_path / "xor_dev_full_v1_1.jsonl", rows)
    (query,) = MirageDataset.from_qa(path, "xor-tydi", language=code)
    assert (query.id, query.language, query.answers) == (code, code, (("yes",),))


def test_judged_needs_qrels(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "mkqa.jsonl", MKQA)
    with pytest.raises(SettingError, match="so pass qrels="):
        MirageDataset.from_qa(path, "mkqa", language="it", judged=True)


# KILT ---------------------------------------------------------------------------------------------

PAGE = {
    "_id": "9",
    "wikipedia_id": "9",
    "wikipedia_title": "Ada",
    "text": [
        "Ada\n",
        "Ada wrote a program.\n",
        "She was a countess.\n",
        "Section::::Works.\n",
        "BULLET::::- Notes, 1843\n",
        "\n",
    ],
}
OTHER_PAGE = PAGE | {"_id": "5", "wikipedia_id": "5", "text": ["Bob\n", "Bob did not.\n"]}


def test_pages_have_no_marks(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "kilt_knowledgesource.json", [PAGE])
    (page,) = read_documents(path)
    assert page.text == "Ada\nAda wrote a program.\nShe was a countess.\nWorks.\n\n"
    # On the hub, the paragraphs are in an object.
    on_hub = {**PAGE, "text": {"paragraph_id": [0, 1], "paragraph": PAGE["text"][:2]}}
    (page,) = read_documents(json_lines(tmp_path / "hub.jsonl", [on_hub]))
    assert page.text == "Ada\nAda wrote a program.\n"


def test_paragraphs_are_passages(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "kilt_knowledgesource.json", [PAGE])
    passages = list(read_documents(path, paragraphs=True))
    assert [(p.id, p.text, p.title) for p in passages] == [
        ("9#0", "Ada", "Ada"),
        ("9#1", "Ada wrote a program.", "Ada"),
        ("9#2", "She was a countess.", "Ada"),
        ("9#3", "Works.", "Ada"),
        ("9#4", "- Notes, 1843", "Ada"),
    ]
    plain = json_lines(tmp_path / "plain.jsonl", [{"id": "1", "text": "x"}])
    with pytest.raises(DatasetError, match=r"plain\.jsonl, line 1: expected an id and a list of"):
        list(read_documents(plain, paragraphs=True))


def test_the_oracle_shows_paragraphs_or_pages(tmp_path: Path) -> None:
    source = json_lines(tmp_path / "kilt_knowledgesource.json", [PAGE, OTHER_PAGE])
    questions = json_lines(tmp_path / "nq-dev-kilt.jsonl", KILT_NQ)

    def shown(paragraphs: bool) -> list[str]:
        dataset = MirageDataset.from_qa(questions, "kilt", paragraphs=paragraphs)
        corpus = Corpus.build(read_documents(source, paragraphs=True))
        run = OracleRetriever(corpus).retrieve(dataset, 10)
        ids, _ = run["71"]
        return list(ids)

    assert shown(paragraphs=True) == ["9#1", "9#2", "9#4"]
    # Pages take turns: the first paragraph of each, then the second.
    assert shown(paragraphs=False)[:4] == ["9#0", "5#0", "9#1", "5#1"]


def test_relevance_by_paragraph(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "nq-train-kilt.jsonl", KILT_NQ)
    assert kilt.qrels(path) == {"71": {"9": 1, "5": 1}}
    assert kilt.qrels(path, paragraphs=True) == {"71": {"9#1": 1, "9#2": 1, "9#4": 1}}
    mkqa = json_lines(tmp_path / "mkqa.jsonl", MKQA)
    dataset = MirageDataset.from_qa(mkqa, "mkqa", language="pt", qrels=path, paragraphs=True)
    assert dataset["71"].relevant == ("9#1", "9#2", "9#4")
    with pytest.raises(
        SettingError, match="paragraphs=True needs relevant passages from a KILT file"
    ):
        MirageDataset.from_qa(mkqa, "mkqa", language="pt", paragraphs=True)


def test_triviaqa_with_the_pages_of_kilt(tmp_path: Path) -> None:
    # KILT's TriviaQA has no questions, only their ids.
    row = {"id": "tc_1", "input": "", "output": [{"provenance": [{"wikipedia_id": "9"}]}]}
    qrels = json_lines(tmp_path / "triviaqa-dev_id-kilt.jsonl", [row])
    path = rows_file(tmp_path, TRIVIAQA, TRIVIAQA | {"question_id": "tc_2"})
    dataset = MirageDataset.from_qa(
        path, language="en", fields={"answers": "answer.aliases"}, qrels=qrels, judged=True
    )
    assert [(query.id, query.relevant) for query in dataset] == [("tc_1", ("9",))]
    with pytest.raises(DatasetError, match="'id' is missing; the row has the fields input"):
        kilt.qrels(json_lines(tmp_path / "x.jsonl", [{"input": "?"}]))


# Corpora ------------------------------------------------------------------------------------------


def test_fields_of_passages_are_named(tmp_path: Path) -> None:
    path = rows_file(
        tmp_path, {"doc_content": "x", "doc_id": "a"}, {"doc_content": "y", "doc_id": "b"}
    )
    named = list(read_rows([path], {"text": "doc_content", "title": "doc_id"}))
    assert [(p.id, p.title, p.text) for p in named] == [("0", "a", "x"), ("1", "b", "y")]
    with pytest.raises(DatasetError, match="'body' is missing; the row has the fields doc_content"):
        list(read_rows([path], {"text": "body"}))
    with pytest.raises(UnknownNameError, match="unknown passage field 'txt'"):
        list(read_rows([path], {"txt": "body"}))


# Grids --------------------------------------------------------------------------------------------

ITALIAN_GRID = """\
name: italian
datasets:
  mkqa: {form: mkqa, path: mkqa.jsonl, language: it, qrels: nq.jsonl, judged: true,
         paragraphs: true}
  choices: {form: answers, path: mmlu.jsonl, language: en, fields: {choices: choices}}
corpora:
  kilt: {path: kilt_knowledgesource.json, paragraphs: true, language: it}
  hub: {hub: some/passages, split: validation, language: en, fields: {text: context}}
  pages: {path: kilt_knowledgesource.json, language: en, chunk: {size: 4}}
retrievers:
  bm25: {kind: bm25}
generators:
  gold: {kind: oracle-answer}
grid:
  dataset: [mkqa]
  corpus: [kilt]
  retriever: [oracle, bm25]
  generator: [gold]
  retrieve_k: [5]
  rerank_k: [5]
  show_k: [2]
metrics: [qa_match, target_language, "R@5"]
"""


@pytest.fixture
def grid_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    json_lines(tmp_path / "mkqa.jsonl", MKQA)
    json_lines(tmp_path / "nq.jsonl", KILT_NQ)
    json_lines(tmp_path / "kilt_knowledgesource.json", [PAGE, OTHER_PAGE])
    json_lines(tmp_path / "mmlu.jsonl", [MMLU])
    on_hub = rows_file(tmp_path, *({"context": text, "id": text} for text in ("Paris", "Rome")))

    def split_files(name: str, config: str, split: str) -> tuple[Path, ...]:
        assert (name, config, split) == ("some/passages", "default", "validation")
        return (on_hub,)

    monkeypatch.setattr("mirage.sources.hub.split_files", split_files)
    path = tmp_path / "grid.yaml"
    path.write_text(ITALIAN_GRID)
    return path


def test_a_grid_in_italian_with_paragraphs(grid_path: Path) -> None:
    table = Grid.read(grid_path).run(progress=False)
    means = {
        (cell.settings["retriever"], name): cell.scores[name].mean
        for cell in table.cells
        for name in ("qa_match", "R@5")
    }
    assert means["oracle", "R@5"] == 1.0
    assert means["bm25", "R@5"] == 0.0
    assert means["oracle", "qa_match"] == 1.0


def test_choices_from_passages_on_the_hub(grid_path: Path) -> None:
    text = ITALIAN_GRID.replace("dataset: [mkqa]", "dataset: [choices]")
    text = text.replace("corpus: [kilt]", "corpus: [hub, pages]").replace(
        "[oracle, bm25]", "[bm25]"
    )
    grid_path.write_text(text.replace(', "R@5"', ""))
    table = Grid.read(grid_path).run(progress=False)
    assert [cell.scores["qa_match"].mean for cell in table.cells] == [1.0, 1.0]


def test_the_key_of_a_corpus_follows_its_settings(grid_path: Path) -> None:
    corpora = Grid.read(grid_path).config.corpora
    hub, pages = corpora["hub"].key(), corpora["pages"].key()
    assert hub["hub"][:3] == ["some/passages", "default", "validation"]
    assert hub["fields"] == {"text": "context"}
    # Pages were stored with KILT's marks in earlier versions.
    assert pages["marks"] == "removed"
    assert not {"hub", "config", "split", "fields", "paragraphs", "of"} & pages.keys()
    assert corpora["kilt"].key()["paragraphs"] is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("kilt: {path: x.json, hub: a/b}", "exactly one of 'path', 'hub', 'dataset' and 'of'"),
        ("kilt: {of: [hub], fields: {id: a}}", "'fields' can only be set with 'path' or 'hub'"),
        ("kilt: {path: x.json, paragraphs: true, chunk: {size: 2}}", "with 'chunk' or 'fields'"),
        ("kilt: {hub: a/b, paragraphs: true}", "'paragraphs' needs 'path'"),
    ],
)
def test_settings_of_a_corpus_that_do_not_fit(grid_path: Path, change: str, message: str) -> None:
    line = next(each for each in ITALIAN_GRID.splitlines() if "kilt: {" in each)
    grid_path.write_text(ITALIAN_GRID.replace(line, f"  {change}"))
    with pytest.raises(DatasetError, match=f"line 7: .*{message}"):
        Grid.read(grid_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("qrels: nq.jsonl, ", "", "it needs 'qrels'"),
        ("qrels: nq.jsonl, judged: true,", "", "'paragraphs' can only be set with form 'kilt'"),
    ],
)
def test_settings_of_a_dataset_that_do_not_fit(
    grid_path: Path, old: str, new: str, message: str
) -> None:
    grid_path.write_text(ITALIAN_GRID.replace(old, new))
    with pytest.raises(DatasetError, match=message):
        Grid.read(grid_path)
