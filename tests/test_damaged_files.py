"""Test that every reader raises an error of this library for a damaged file."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import examples

from mirage import MirageDataset, respond
from mirage._base.journal import Journal
from mirage._base.stores import MANIFEST
from mirage.arena import read_judged, read_votes
from mirage.corpus import Corpus
from mirage.errors import MirageError
from mirage.integrations import trec
from mirage.metaeval import LabelledSentences
from mirage.models import Run, Vote
from mirage.papers.arenas import read_arena
from mirage.sources import memerag, nomiracl
from mirage.sources.trec import read_passages
from mirage.testing import save_baseline
from mirage.testing.baseline import read_baseline

DATASET = MirageDataset.bundled("sw").sample(3)

VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, 0])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "\0", "[[A]]", "a", "sw"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def row(value: Any) -> str:
    return json.dumps(value) + "\n"


def _of_dataset(folder: Path) -> Path:
    DATASET.save(folder / "queries.jsonl")
    return folder / "queries.jsonl"


def _of_run(folder: Path) -> Path:
    answers = {query.id: query.reference or "" for query in DATASET}
    respond(answers, DATASET, progress=False).save(folder / "run.jsonl")
    return folder / "run.jsonl"


def _of_votes(folder: Path) -> Path:
    vote = {"query_id": "q1", "model_a": "x", "model_b": "y", "judge": "j", "asked": "0"}
    rows = [vote | {"verdict": "a"}, vote | {"query_id": "q2", "verdict": "failed", "error": "no"}]
    (folder / "votes.jsonl").write_text("".join(map(row, rows)))
    return folder / "votes.jsonl"


def _of_trec(folder: Path) -> Path:
    trec.write_dataset(DATASET, folder)
    return folder / "qrels.txt"


def _topics(folder: Path) -> Path:
    _of_trec(folder)
    return folder / "topics.tsv"


def _passages(folder: Path) -> Path:
    _of_trec(folder)
    return folder / "passages.jsonl"


def _of_baseline(folder: Path) -> Path:
    answers = {query.id: query.reference or "" for query in MirageDataset.bundled("sw")}
    save_baseline(answers, folder / "baseline.json", on="sw")
    return folder / "baseline.json"


def _of_sentences(folder: Path) -> Path:
    sentence = {"query_id": "q1", "language": "en", "query": "Who?", "sentence": "He."}
    rows = [sentence | {"passages": ["He it is."], "label": "Supported"}]
    (folder / "en.jsonl").write_text("".join(map(row, [*rows, rows[0] | {"query_id": "q2"}])))
    return folder / "en.jsonl"


def _of_memerag(folder: Path) -> Path:
    sentence = {"sentence": "He.", "factuality": "Supported", "relevance": ["Directly"]}
    sentence["fine_grained_factuality"] = "x"
    query = {"query_id": 34, "query": "Who?", "context": [{"text": "He."}], "answer": [sentence]}
    (folder / "en.jsonl").write_text(row(query))
    return folder / "en.jsonl"


def _of_nomiracl(folder: Path) -> Path:
    prompt = "QUESTION:\nWho?\n\nCONTEXTS:\n[1] Title: He.\n\nOUTPUT:\n"
    query = {
        "query_id": "1",
        "docids": ["1#0"],
        "prompt": prompt,
        "results": {"gpt-4-azure": "He."},
    }
    query["results"] = {"gpt-4-azure": "He.", "x": "Yes, answer is present"}
    for name in ("relevant", "non_relevant"):
        (folder / name).mkdir()
        (folder / name / "en.jsonl").write_text(row(query | {"query_id": name}))
    return folder / "relevant" / "en.jsonl"


def _of_arena(folder: Path) -> Path:
    (folder / "en").mkdir()
    rows = [{"query_id": "q1", "model": model, "features": {"answer_bleu": 0.5}} for model in "xyz"]
    (folder / "en" / "features.jsonl").write_text("".join(map(row, rows)))
    judged = {"query_id": "q1", "model_a": "x", "model_b": "y", "verdict": "a"}
    (folder / "en" / "judgments.jsonl").write_text(row(judged) + row(judged | {"model_a": "z"}))
    return folder / "en" / "features.jsonl"


def _of_corpus(folder: Path) -> Path:
    passages = [passage for query in DATASET for passage in query.passages]
    Corpus.build(passages, folder / "corpus", language="sw")
    return folder / "corpus" / MANIFEST


def _journal(path: Path) -> None:
    with Journal(path, Vote):
        pass


def _arena(path: Path) -> None:
    read_arena(path.parent.parent, "en", tournaments=2)


READERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any]]] = {
    "a dataset": (_of_dataset, MirageDataset.load),
    "a run": (_of_run, lambda path: Run.load(path, language="sw")),
    "votes": (_of_votes, read_votes),
    "judgments": (_of_votes, read_judged),
    "a journal": (_of_votes, _journal),
    "qrels": (
        _of_trec,
        lambda p: MirageDataset.from_trec(p.with_name("topics.tsv"), p, language="sw"),
    ),
    "topics": (
        _topics,
        lambda p: MirageDataset.from_trec(p, p.with_name("qrels.txt"), language="sw"),
    ),
    "passages": (_passages, read_passages),
    "a baseline": (_of_baseline, read_baseline),
    "sentences": (_of_sentences, LabelledSentences.from_jsonl),
    "MEMERAG": (_of_memerag, lambda path: memerag.load(path, "en")),
    "NoMIRACL": (_of_nomiracl, lambda path: nomiracl.load(path.parent.parent, "en")),
    "an arena": (_of_arena, _arena),
    "a corpus": (_of_corpus, lambda path: Corpus.open(path.parent)),
}


@pytest.fixture(scope="module", params=READERS)
def reader(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, bytes, Callable[[Path], Any]]:
    write, read = READERS[request.param]
    path = write(tmp_path_factory.mktemp("files"))
    read(path)  # whole it can be read
    return path, path.read_bytes(), read


FUZZ = settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
Reader = tuple[Path, bytes, Callable[[Path], Any]]


def attempt(reader: Reader, content: bytes) -> None:
    path, _, read = reader
    path.write_bytes(content)
    with suppress(MirageError):
        read(path)


@FUZZ
@given(data=st.data())
def test_bytes_that_were_changed_cut_or_added(reader: Reader, data: st.DataObject) -> None:
    content = bytearray(reader[1])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "repeat"])):
            case "flip" if content:
                content[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del content[at:]
            case "insert":
                content[at:at] = data.draw(st.binary(max_size=6))
            case _:
                content[at:at] = content[:at]
    attempt(reader, bytes(content))


@FUZZ
@given(data=st.data())
def test_values_of_any_other_kind(reader: Reader, data: st.DataObject) -> None:
    """In each JSON line, or in a file that is one JSON value, a value is replaced by another."""
    text = reader[1].decode("utf-8", "replace")
    try:
        rows = [json.loads(text)]
    except ValueError:
        try:
            rows = [json.loads(line) for line in text.splitlines()]
        except ValueError:
            rows = [text.split()]  # fields of TREC, which become any text
    container: Any = rows
    while isinstance(container, dict | list) and container:
        key = data.draw(
            st.sampled_from([*container] if isinstance(container, dict) else range(len(container)))
        )
        if (
            not isinstance(container[key], dict | list)
            or not container[key]
            or data.draw(st.booleans())
        ):
            container[key] = data.draw(VALUES)
            break
        container = container[key]
    attempt(reader, "".join(map(row, rows)).encode())


@FUZZ
@given(content=st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_arbitrary_content(reader: Reader, content: bytes) -> None:
    attempt(reader, content)
