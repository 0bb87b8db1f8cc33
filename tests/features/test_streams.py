"""Test features of files: equal to those in memory, resumed after a kill, in bounded memory."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cli.command_line import mirage
from subsets import slow_except

from mirage import FeatureSuite, MirageDataset, Query, Response, Run
from mirage._base.block_file import BlockFile
from mirage.errors import DatasetError, FeatureError, MirageError, UnknownNameError
from mirage.executors import LocalExecutor
from mirage.features import _scoring, streams
from mirage.features.streams import RunFiles, ScoredRun, score_files, score_stream
from mirage.monitoring import logs
from mirage.monitoring.log_streams import measure_log_file
from mirage.monitoring.traffic import measure_log
from mirage.passages import CitationSurvey, citation_gaps
from mirage.text.recurring import RecurringSurvey, recurring_sentences

SUITE = FeatureSuite(["citation_recall@10", "answer_length", "answer_match", "abstention"])


def answered(dataset: MirageDataset, model: str, text: Callable[[Query], str | None]) -> Run:
    responses = []
    for query in dataset:
        answer = text(query)
        error = "timeout" if answer is None else None
        responses.append(Response(query_id=query.id, text=answer, error=error))
    return Run(model=model, language=dataset.language, responses=tuple(responses))


@pytest.fixture(scope="module", autouse=True)
def _small_blocks() -> Iterator[None]:
    """Divide queries into blocks of 16, not of 64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BATCH", 16)
        patch.setattr(_scoring, "BATCH", 16)
        yield


@pytest.fixture(scope="module")
def dataset() -> MirageDataset:
    """Queries of two and a half blocks."""
    queries = [
        query.model_copy(update={"id": f"{query.id}-{turn}", "cluster": query.id})
        for turn in range(4)
        for query in MirageDataset.bundled("sw")[:10]
    ]
    return MirageDataset(queries, name="queries")


@pytest.fixture(scope="module")
def runs(dataset: MirageDataset) -> list[Run]:
    footer = "Jibu hili limetolewa na huduma ya Acme."
    cited = answered(dataset, "cited", lambda q: f"{q.passages[0].text} [1] {footer}")
    failing = answered(dataset, "failing", lambda q: None if "q01" in q.id else "Sijui.")
    backwards = tuple(reversed(failing.responses[5:]))
    return [cited, failing.model_copy(update={"responses": backwards})]


@pytest.fixture(scope="module")
def folder(
    dataset: MirageDataset, runs: list[Run], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("files")
    dataset.save(folder / "queries.jsonl")
    for run in runs:
        run.save(folder / f"{run.model}.jsonl")
    return folder


def score(folder: Path, out: Path, **settings: object) -> list[ScoredRun]:
    files = {model: folder / f"{model}.jsonl" for model in ("cited", "failing")}
    queries = folder / "queries.jsonl"
    return score_files(queries, files, out, suite=SUITE, progress=False, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def scored(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[ScoredRun], Path]:
    """The result of an uninterrupted call, and its file."""
    path = tmp_path_factory.mktemp("scored") / "out.jsonl"
    return score(folder, path), path


@pytest.fixture(scope="module")
def whole(scored: tuple[list[ScoredRun], Path]) -> bytes:
    """The file of an uninterrupted call."""
    return scored[1].read_bytes()


def test_values_are_those_of_the_suite(
    dataset: MirageDataset, runs: list[Run], scored: tuple[list[ScoredRun], Path]
) -> None:
    tables = SUITE.score_all(dataset, runs, progress=False)
    results, path = scored
    assert [run.table.model for run in results] == ["cited", "failing"]
    for table, run in zip(tables, results, strict=True):
        assert run.table.query_ids == table.query_ids
        assert run.table.values.tobytes() == table.values.tobytes()
        assert run.table.clusters == table.clusters
        assert np.array_equal(run.table.intervals(), table.intervals(), equal_nan=True)
        assert set(run.table.reasons.items()) <= set(table.reasons.items())
        counts = {name: sum(reasons.values()) for name, reasons in run.missing.items()}
        gaps = dict(zip(table.features, np.isnan(table.values).sum(axis=0), strict=True))
        assert counts == {name: count for name, count in gaps.items() if count}
    assert set(results[1].failed) == {"q01-1", "q01-2", "q01-3"}
    assert "no response to this query" in results[1].missing["answer_length"]
    assert os.listdir(path.parent) == [path.name]


def test_rows_hold_the_values(
    scored: tuple[list[ScoredRun], Path], whole: bytes, dataset: MirageDataset
) -> None:
    rows = [json.loads(line) for line in whole.splitlines()]
    assert [row["query_id"] for row in rows[::2]] == list(dataset.query_ids)
    assert {row["model"] for row in rows} == {"cited", "failing"}
    (run, _), _ = scored
    for row, value in zip(rows[::2], run.table["answer_length"], strict=True):
        assert row["answer_length"] == value


@pytest.mark.parametrize("settings", [{"n_jobs": 2}, {"executor": LocalExecutor(2)}])
def test_workers_give_the_same_bytes(
    folder: Path, whole: bytes, tmp_path: Path, settings: dict[str, object]
) -> None:
    score(folder, tmp_path / "out.jsonl", **settings)
    assert (tmp_path / "out.jsonl").read_bytes() == whole


def test_gzip_and_parquet(folder: Path, whole: bytes, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    score(folder, tmp_path / "out.jsonl.gz")
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()) == whole
    score(folder, tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    for line, row in zip(whole.splitlines(), table, strict=True):
        expected = json.loads(line)
        reasons = dict(row.pop("not_computed"))
        assert reasons == expected.pop("not_computed", {})
        assert row == expected


def test_inputs_may_be_compressed_or_parquet(folder: Path, whole: bytes, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("queries", "failing"):
        rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        for row in rows:  # the columns of a Parquet file have one type in all rows
            row.pop("metadata", None)
            row |= {"error": row.get("error")} if name == "failing" else {}
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    cited = tmp_path / "cited.jsonl.gz"
    cited.write_bytes(gzip.compress((folder / "cited.jsonl").read_bytes()))
    files = {"cited": cited, "failing": tmp_path / "failing.parquet"}
    out = tmp_path / "out.jsonl"
    score_files(tmp_path / "queries.parquet", files, out, suite=SUITE, progress=False)
    assert out.read_bytes() == whole
    loaded = MirageDataset.load(tmp_path / "queries.parquet")
    assert loaded[3].passages == MirageDataset.load(folder / "queries.jsonl")[3].passages
    run = Run.load(tmp_path / "failing.parquet", language="sw", model="failing")
    assert run == Run.load(folder / "failing.jsonl", language="sw")


def test_a_model_that_was_asked_twice(dataset: MirageDataset, tmp_path: Path) -> None:
    small = dataset[:20]
    run = Run.of_repeats(
        [answered(small, "m", lambda q, n=n: f"{q.passages[n].text} [{n}]") for n in range(2)]
    )
    run.save(tmp_path / "m.jsonl")
    (scored,) = score_files(
        small, {"m": tmp_path / "m.jsonl"}, tmp_path / "out.jsonl", suite=SUITE, progress=False
    )
    table = SUITE.score(small, run, progress=False)
    assert scored.table.values.tobytes() == table.values.tobytes()
    assert scored.table.repeats is not None
    assert table.repeats is not None
    assert scored.table.repeats.tobytes() == table.repeats.tobytes()
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["repeat"] for row in rows] == [0, 1] * 20


# Interruptions ------------------------------------------------------------------------------------

_KILLED = """
import os
from pathlib import Path
from mirage import FeatureSuite
from mirage._base import block_file
from mirage.features import streams
from mirage.features.streams import score_files

streams.BATCH = 16

add = block_file.BlockFile.add
def add_and_die(self, data):
    if self.blocks == {blocks}:
        self._file.write(data[: len(data) // 2])  # a block that was cut off
        self._file.flush()
        os.kill(os.getpid(), 9)
    add(self, data)
block_file.BlockFile.add = add_and_die
folder = Path({folder!r})
files = {{model: folder / f"{{model}}.jsonl" for model in ("cited", "failing")}}
score_files(folder / "queries.jsonl", files, {out!r}, suite=FeatureSuite({names!r}), progress=False)
"""


@pytest.mark.parametrize("blocks", slow_except([2], [0, 2]))
def test_a_killed_call_is_resumed(folder: Path, whole: bytes, tmp_path: Path, blocks: int) -> None:
    out = tmp_path / "out.jsonl"
    script = _KILLED.format(names=SUITE.names, blocks=blocks, folder=str(folder), out=str(out))
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not out.exists()
    with pytest.raises(DatasetError, match="different responses, queries or features"):
        score_files(
            folder / "queries.jsonl",
            {"cited": folder / "cited.jsonl"},
            out,
            suite=SUITE,
            progress=False,
        )
    calls: list[int] = []
    executor = _Counting(calls)
    score(folder, out, executor=executor)
    assert len(calls) == 3 - blocks
    assert out.read_bytes() == whole
    assert sorted(os.listdir(tmp_path)) == ["out.jsonl"]


class _Counting(LocalExecutor):
    """Counts the blocks that it computes."""

    def __init__(self, calls: list[int]) -> None:
        super().__init__()
        self.calls = calls

    def map(self, function, items, /):  # type: ignore[no-untyped-def]
        for number, result in super().map(function, items):
            self.calls.append(number)
            yield number, result


def test_damaged_blocks_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with BlockFile(path, "inputs") as file:
        file.add(b'{"a": 1}\n')
    part = tmp_path / "out.jsonl.part"
    part.write_bytes(part.read_bytes().replace(b"1", b"2"))
    with pytest.raises(DatasetError, match=r"is damaged \(batch 1 of its rows\)"):
        BlockFile(path, "inputs")
    part.unlink()
    with BlockFile(path, "inputs") as file:  # without rows, the journal means nothing
        assert file.blocks == 0
        with pytest.raises(DatasetError, match="another process is writing"):
            BlockFile(path, "inputs")


def test_the_work_starts_anew_if_nothing_was_written(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with BlockFile(path, "inputs") as file:
        file.add(b'{"a": 1}\n')
        file.finish({"a": "int64"})
    assert path.read_bytes() == b'{"a": 1}\n'
    with BlockFile(path, "other inputs") as file:
        assert file.blocks == 0
        file.finish({"a": "int64"})
    assert path.read_bytes() == b""


# What depends on all responses --------------------------------------------------------------------


def test_sentences_that_recur_are_counted_over_all_blocks() -> None:
    usual = [f"The answer to question {i} is {i}." for i in range(3500)]
    footers = {"early": range(1800), "late": range(1500, 3500), "rare": range(1500)}
    for name, numbers in footers.items():
        for i in numbers:
            usual[i] += f" Powered by the {name} engine."
    survey = RecurringSurvey()
    for i in range(0, 3500, 130):
        survey.add(usual[i : i + 130])
    assert survey.needs_recount
    survey.recount(usual)
    assert survey.recurring() == recurring_sentences(usual)
    assert survey.recurring() == {"powered by the early engine", "powered by the late engine"}


@pytest.mark.parametrize("style", ["[1]", "[other.md:{i}]", "{{{i}}}", "", "[3]"])
def test_citation_gaps_are_those_of_the_whole_run(dataset: MirageDataset, style: str) -> None:
    run = answered(
        dataset,
        "m",
        lambda q: f"{q.passages[0].text} {style.format(i=len(q.id))}" if q.id > "q03" else "No.",
    )
    expected = citation_gaps(dataset, run)
    survey = CitationSurvey()
    for i in range(0, len(dataset), 15):
        queries = dataset[i : i + 15]
        survey.add(queries, [(query, run[query.id]) for query in queries])
    if survey.needs_recount:
        survey.recount((query, run[query.id]) for query in dataset)
    assert survey.gaps() == expected
    assert (expected.unread is None) == (style in ("[1]", "", "[3]"))


# Wrong inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ('{"query_id": "nobody", "text": "a"}', FeatureError, "'nobody', which .*does not have"),
        ('{"query_id": "q01-0", "text": "a"}\n' * 2, DatasetError, "line 2.*second response"),
        ('{"query_id": "q01-0"}', DatasetError, "line 1, field 'text'"),
        ("", DatasetError, "the file has no responses"),
    ],
)
def test_wrong_responses(
    folder: Path, tmp_path: Path, line: str, error: type[MirageError], message: str
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line)
    with pytest.raises(error, match=message):
        score_files(folder / "queries.jsonl", {"m": path}, tmp_path / "out.jsonl", progress=False)
    assert sorted(os.listdir(tmp_path)) == ["run.jsonl"]


def test_wrong_queries(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "queries.jsonl").read_text().splitlines()
    twice = tmp_path / "twice.jsonl"
    twice.write_text("\n".join([*lines, lines[3]]))
    files, out = {"cited": folder / "cited.jsonl"}, tmp_path / "out.jsonl"
    with pytest.raises(DatasetError, match=r"line 41.*a second time"):
        score_files(twice, files, out, progress=False)
    with pytest.raises(UnknownNameError, match="metadata key"):
        score_files(folder / "queries.jsonl", files, out, cluster="nothing", progress=False)
    bare = MirageDataset([Query(id="q", language="sw", text="Nani?")])
    (tmp_path / "r.jsonl").write_text('{"query_id": "q", "text": "a"}')
    with (
        RunFiles(bare, {"m": tmp_path / "r.jsonl"}) as stream,
        pytest.raises(FeatureError, match="none of the features"),
    ):
        score_stream(stream, FeatureSuite("answer_bleu"), out, applicable=True, progress=False)


# The commands -------------------------------------------------------------------------------------


def test_the_command_writes_the_same_values(
    dataset: MirageDataset, runs: list[Run], tmp_path: Path
) -> None:
    folder, small = tmp_path / "small", dataset[:20]  # two blocks
    folder.mkdir()
    small.save(folder / "queries.jsonl")
    for run in runs:
        rows = tuple(row for row in run.responses if row.query_id in small)
        run.model_copy(update={"responses": rows}).save(folder / f"{run.model}.jsonl")
    score(folder, folder / "whole.jsonl")
    whole = (folder / "whole.jsonl").read_bytes()
    files = [str(folder / f"{model}.jsonl") for model in ("cited", "failing")]
    features = [part for name in SUITE.names for part in ("--feature", name)]
    arguments = ["features", *files, "--dataset", str(folder / "queries.jsonl"), *features]
    plain = mirage(*arguments)
    streamed = mirage(*arguments, "--out", str(tmp_path / "out.jsonl"))
    assert streamed.exit_code == plain.exit_code == 0
    assert streamed.stdout == plain.stdout
    assert (tmp_path / "out.jsonl").read_bytes() == whole
    both = [
        json.loads(mirage(*arguments, *more, "--json").stdout)
        for more in ([], ["--out", str(tmp_path / "o.jsonl")])
    ]
    for memory, file in zip(*both, strict=True):
        assert file.pop("not_computed") is not None
        assert sorted(file.pop("failed")) == sorted(memory["failed"])
        assert file == {name: memory[name] for name in file}


def test_the_command_says_what_it_cannot_do(folder: Path, tmp_path: Path) -> None:
    run, out = str(folder / "cited.jsonl"), str(tmp_path / "out.jsonl")
    refused = mirage("features", run, "--language", "sw", "--out", out, "--min", "answer_match=1")
    assert refused.exit_code == 2
    assert "--out cannot be combined with --min" in refused.stderr
    assert "--executor needs --out" in mirage("features", run, "--executor", "ray").stderr


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two models, with sessions and equal questions."""
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    with path.open("w") as file:
        for i, query in enumerate(list(MirageDataset.bundled("en"))[:14] * 3):
            row = {
                "question": query.text,
                "passages": [passage.text for passage in query.passages],
                "answer": f"{query.passages[0].text} [1]" if i % 7 else None,
                "model": "a" if i % 3 else "b",
                "user": f"u{i // 5}" if i % 2 else None,
            }
            file.write(json.dumps(row) + "\n")
        file.write('{"question": " ", "answer": "x"}\n')
    return path


@pytest.mark.parametrize("fields", [{}, {"cluster": "user"}, {"session": "model"}])
def test_a_log_has_the_values_of_the_log_in_memory(
    log: Path, tmp_path: Path, fields: dict[str, str]
) -> None:
    suite = FeatureSuite(["support_lexical", "answer_length", "answer_match"])
    measured = measure_log_file(
        log, tmp_path / "out.jsonl", language="en", fields=fields, suite=suite, progress=False
    )
    parts = logs.read(log, language="en", fields=fields, model="log").by_model().values()
    regrouped = logs.regroup(list(parts))
    assert len(measured) == len(regrouped) == 2
    for part, streamed in zip(regrouped, measured, strict=True):
        side = measure_log(part.dataset, part.run, suite, progress=False)
        table, expected = streamed.measures.table, side.table
        assert (table.model, table.features) == (expected.model, expected.features)
        assert table.query_ids == expected.query_ids
        assert table.values.tobytes() == expected.values.tobytes()
        assert streamed.measures.unmet == side.unmet
        assert (streamed.clustering, streamed.joined) == (part.clustering, part.joined)
        assert np.array_equal(table.intervals(), expected.intervals(), equal_nan=True)


def test_the_command_for_logs(log: Path, tmp_path: Path) -> None:
    arguments = ["logs", "features", str(log), "--language", "en", "--feature", "answer_length"]
    plain = mirage(*arguments)
    streamed = mirage(*arguments, "--out", str(tmp_path / "out.jsonl"))
    assert streamed.exit_code == plain.exit_code == 0
    assert streamed.stdout == plain.stdout
    rows = (tmp_path / "out.jsonl").read_text().splitlines()
    assert len(rows) == 42
    assert {"abstains", "answer_length", "failed"} <= set(json.loads(rows[0]))
    many = mirage(*arguments, str(log.with_name("b.jsonl")), "--out", str(tmp_path / "o.jsonl"))
    assert "--out needs a single log, got 2" in many.stderr


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_answers(tmp_path: Path) -> None:
    peaks = []
    for size in (500, 5000):
        passages = [{"id": f"p{i}", "text": f"Passage {i}. " * 40} for i in range(10)]
        with (
            (tmp_path / "queries.jsonl").open("w") as queries,
            (tmp_path / "run.jsonl").open("w") as responses,
        ):
            for i in range(size):
                row = {"id": str(i), "language": "en", "text": "Who?", "passages": passages}
                queries.write(json.dumps(row) + "\n")
                responses.write(json.dumps({"query_id": str(i), "text": "She [1]. " * 50}) + "\n")
        script = (
            "import resource, sys\n"
            "from pathlib import Path\n"
            "from mirage import FeatureSuite\n"
            "from mirage.features.streams import score_files\n"
            f"folder = Path({str(tmp_path)!r})\n"
            "suite = FeatureSuite('answer_length')\n"
            "files = {'m': folder / 'run.jsonl'}\n"
            "score_files(folder / 'queries.jsonl', files, folder / 'out.jsonl', suite=suite)\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
        )
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert time.perf_counter() - start < 300
        peaks.append(float(done.stdout))
    assert peaks[1] - peaks[0] < 15  # MiB; the texts of the additional answers are 25 MiB
