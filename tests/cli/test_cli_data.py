"""data describe, build and convert."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import IN_SWAHILI, LANGUAGE, mirage, refusal

from mirage.cli.data import _file_names
from mirage.dataset import MirageDataset
from mirage.metaeval import LabelledSentences
from mirage.models import Run
from mirage.testsets import build_benchmark

BUNDLED = MirageDataset.bundled(LANGUAGE)


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.jsonl"
    BUNDLED.save(path)
    return path


def text(dataset: MirageDataset) -> str:
    return "".join(query.model_dump_json(exclude_defaults=True) + "\n" for query in dataset)


# describe -----------------------------------------------------------------------------------------


def test_a_sound_dataset(queries: Path) -> None:
    done = mirage("data", "describe", queries, "--json")
    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)
    described = BUNDLED.describe()
    assert found["languages"] == {LANGUAGE: 40}
    for name in ("queries", "passages", "with_reference", "answerable", "unanswerable"):
        assert found[name] == described[name]
    assert found["problems"] == []
    assert "bundled-sw" in mirage("data", "describe", LANGUAGE).stdout
    assert "no relevant passage" in mirage("data", "describe", queries).stdout


def test_all_problems_at_once_each_with_its_line() -> None:
    first, second, *_ = (json.loads(line) for line in text(BUNDLED).splitlines())
    rows = [
        json.dumps(first),
        json.dumps(first),
        json.dumps({**second, "language": "en"}),
        "not json",
        json.dumps({**second, "id": "x", "question": "?"}),
        json.dumps({**second, "id": "y", "answerable": False}),
        json.dumps({**second, "id": "z", "passages": [{"id": "p", "text": " "}]}),
    ]
    short = mirage("data", "describe", "-", "--json", stdin="\n".join(rows))
    assert short.exit_code == 1
    (found,) = json.loads(short.stdout)
    assert found["queries"] == 5
    assert found["languages"] == {"sw": 4, "en": 1}
    problems = "\n".join(found["problems"])
    for line, what in (
        (2, "a second time"),
        (3, "use one file per language"),
        (4, "not JSON"),
        (5, "field 'question'"),
        (6, "unanswerable, but has relevant passages"),
        (7, "passage 'p' has no text"),
    ):
        assert f"standard input, line {line}" in problems
        assert what in problems
    assert len(found["problems"]) == 6
    assert "tmp" not in problems
    shown = mirage("data", "describe", "-", stdin="\n".join(rows))
    assert "problem: standard input, line 2" in shown.stdout


def test_an_empty_file_and_many_problems(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("")
    assert "no query in this file" in mirage("data", "describe", path).stdout
    path.write_text("[]\n" * 30)
    done = mirage("data", "describe", path)
    assert "... and 20 more" in done.stdout
    assert "30 problems; --json lists all" in done.stderr
    (survey,) = json.loads(mirage("data", "describe", path, "--json").stdout)
    assert len(survey["problems"]) == 30


def test_what_describe_refuses(tmp_path: Path) -> None:
    assert "did you mean 'sw'?" in refusal("data", "describe", "Kiswahili")
    assert "no such file" in refusal("data", "describe", tmp_path / "x.jsonl")


# build --------------------------------------------------------------------------------------------


@pytest.fixture
def trec(queries: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "trec"
    assert mirage("data", "convert", queries, "--to", "trec", "--out", folder).exit_code == 0
    return folder


def trec_options(folder: Path) -> tuple[object, ...]:
    return (
        *("--topics", folder / "topics.tsv", "--qrels", folder / "qrels.txt"),
        *("--passages", folder / "passages.jsonl", *IN_SWAHILI),
    )


def test_a_benchmark_is_the_librarys(trec: Path, tmp_path: Path) -> None:
    out = tmp_path / "benchmark.jsonl"
    done = mirage("data", "build", *trec_options(trec), "--sample", 5, "--out", out)
    assert "5 queries in 'sw'" in done.stdout
    assert "dropped: not sampled" in done.stdout
    printed = mirage("data", "build", *trec_options(trec))
    assert printed.stdout == text(
        build_benchmark(
            trec / "topics.tsv", trec / "qrels.txt", trec / "passages.jsonl", language=LANGUAGE
        ).dataset
    )
    assert "30 queries in 'sw'; 10 dropped: no judgment" in printed.stderr


def test_what_mirage_bench_took_of_miracl(data_dir: Path) -> None:
    folder = data_dir / "miracl"
    files = ("--topics", folder / "topics" / "te-dev.tsv", "--qrels", folder / "qrels/te-dev.tsv")
    done = mirage("data", "build", *files, "--language", "te", "--miracl")
    assert len(done.stdout.splitlines()) == 150
    message = refusal("data", "build", *files, "--language", "te", "--miracl", "--sample", 3)
    assert "leave out --sample" in message


def test_what_build_refuses(trec: Path) -> None:
    wrong = [*trec_options(trec)]
    wrong[1] = trec / "topic.tsv"
    assert refusal("data", "build", *wrong).endswith(f"did you mean {trec / 'topics.tsv'}?")
    assert "unknown language" in refusal("data", "build", *trec_options(trec)[:-1], "Swahili")


# convert ------------------------------------------------------------------------------------------


def test_there_and_back_again(trec: Path, tmp_path: Path) -> None:
    back = tmp_path / "back.jsonl"
    done = mirage(*("data", "convert", trec, "--from", "trec", *IN_SWAHILI, "--out", back))
    assert done.stdout == f"{back}: 40 queries in 'sw'\n"
    again = MirageDataset.load(back)
    for query in BUNDLED:
        if not query.relevant:
            continue  # without judgments, TREC's files do not say which passages it shows
        assert again[query.id].text == query.text
        assert set(again[query.id].passages) == set(query.passages)
        assert set(again[query.id].relevant) == set(query.relevant)


def test_json_lines_pass_unchanged(queries: Path) -> None:
    done = mirage("data", "convert", queries)
    assert done.stdout == queries.read_text("utf-8")
    piped = mirage("data", "convert", "-", stdin=done.stdout)
    assert piped.stdout == done.stdout


def test_nomiracl_with_its_recorded_runs(data_dir: Path, tmp_path: Path) -> None:
    source = ("data", "convert", data_dir / "nomiracl", "--from", "nomiracl", "--language", "sw")
    done = mirage(*source, "--out", tmp_path / "sw.jsonl", "--runs", tmp_path / "runs")
    assert "120 queries in 'sw'" in done.stdout
    dataset = MirageDataset.load(tmp_path / "sw.jsonl")
    paths = sorted((tmp_path / "runs").iterdir())
    assert len(paths) == 10  # the eleventh, GPT-4, is the reference
    run = Run.load(paths[0], language="sw")
    assert {response.query_id for response in run} <= set(dataset.query_ids)
    message = refusal(*source, "--to", "trec", "--out", tmp_path / "trec")
    assert "passages with the same id must be equal" in message


def test_memerag_with_its_labels(data_dir: Path, tmp_path: Path) -> None:
    folder = data_dir / "memerag" / "memerag_ext"
    labels = tmp_path / "labels.jsonl"
    done = mirage(
        *("data", "convert", folder / "de.jsonl", "--from", "memerag", "--language", "de"),
        *("--labels", labels),
    )
    assert len(done.stdout.splitlines()) == 150
    ours = LabelledSentences.from_jsonl(labels)
    theirs = LabelledSentences.memerag(folder, ["de"])
    assert ours.labels == theirs.labels
    assert ours.counts(fine=True) == theirs.counts(fine=True)


def test_what_convert_refuses(queries: Path, tmp_path: Path) -> None:
    assert "did you mean 'memerag'?" in refusal("data", "convert", queries, "--from", "memrag")
    assert "did you mean 'jsonl'?" in refusal("data", "convert", queries, "--to", "json")
    assert "with --out FOLDER" in refusal("data", "convert", queries, "--to", "trec")
    trec = ("--from", "trec", *IN_SWAHILI)
    assert "topics.tsv: no such file" in refusal("data", "convert", tmp_path, *trec)
    message = refusal("data", "convert", tmp_path, "--from", "nomiracl")
    assert "give --language CODE" in message
    assert "has no recorded responses" in refusal(
        "data", "convert", queries, "--runs", tmp_path / "r"
    )
    assert "has no labels" in refusal("data", "convert", queries, "--labels", tmp_path / "l")


def test_trec_has_no_room_for_a_tab(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    row = {"id": "a", "language": "en", "text": "one\ttwo"}
    path.write_text(json.dumps(row))
    out = tmp_path / "trec"
    assert "must not contain tabs" in refusal("data", "convert", path, "--to", "trec", "--out", out)
    assert not out.exists()


def test_two_models_never_share_a_file() -> None:
    runs = [Run(model=name, language="sw", responses=()) for name in ("a/b", "a_b", "c/d")]
    names = _file_names(runs)
    assert names == ["a%2Fb", "a_b", "c_d"]


def test_another_language_than_that_of_the_queries_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "queries.jsonl"
    MirageDataset.bundled("sw").save(file)
    assert "are in 'sw', not in 'de'" in refusal("data", "convert", file, "--language", "de")
