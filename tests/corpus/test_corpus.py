"""Corpora on disk: building, reading, and errors for damaged ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mirage import MirageDataset, Passage
from mirage.corpus import Corpus, chunk, read_documents
from mirage.errors import DatasetError, UnknownNameError


def passages(*texts: str, prefix: str = "p") -> list[Passage]:
    return [Passage(id=f"{prefix}{i}", text=text) for i, text in enumerate(texts)]


def test_passages_are_read_back_unchanged(tmp_path: Path) -> None:
    bundled = {p.id: p for query in MirageDataset.bundled("th") for p in query.passages}
    corpus = Corpus.build(bundled.values(), tmp_path / "th", language="th")
    again = Corpus.open(tmp_path / "th")
    for each in (corpus, again):
        assert list(each) == list(bundled.values())
        assert each.get_many(reversed(bundled)) == list(reversed(bundled.values()))
        assert (len(each), each.language) == (len(bundled), "th")
    assert corpus.fingerprint == again.fingerprint
    assert "nobody" not in corpus
    with pytest.raises(UnknownNameError, match="nobody"):
        corpus["nobody"]
    assert [p for batch in corpus.iter_batches(7) for p in batch] == list(bundled.values())
    assert corpus.at(3) == list(bundled.values())[3]


def test_a_folder_of_text_is_cut_into_passages(tmp_path: Path) -> None:
    (tmp_path / "handbook" / "more").mkdir(parents=True)
    words = " ".join(f"w{i}" for i in range(230))
    (tmp_path / "handbook" / "leave.md").write_text(f"# Leave of absence\n{words}")
    (tmp_path / "handbook" / "more" / "pay.txt").write_text("Pay comes monthly.")
    (tmp_path / "handbook" / "logo.png").write_bytes(b"\x89")
    corpus = Corpus.build(tmp_path / "handbook")
    assert [p.id for p in corpus] == ["leave.md#0", "leave.md#1", "leave.md#2", "more/pay.txt#0"]
    assert [p.title for p in corpus] == ["Leave of absence"] * 3 + ["pay"]
    assert corpus["leave.md#1"].text == " ".join(f"w{i}" for i in range(96, 196))
    by_pattern = Corpus.build(str(tmp_path / "handbook" / "**" / "*.md"))
    assert [p.id for p in by_pattern] == ["leave.md#0", "leave.md#1", "leave.md#2"]


def test_rows_are_passages_whatever_their_fields_are_called(tmp_path: Path) -> None:
    rows = [
        {"_id": "a", "title": "A", "text": "one"},  # BEIR
        {"docid": "b#1", "contents": "two"},  # Pyserini
        {"wikipedia_id": 3, "wikipedia_title": "C", "text": ["three\n", "four"]},  # KILT
    ]
    wanted = [
        Passage(id="a", title="A", text="one"),
        Passage(id="b#1", text="two"),
        Passage(id="3", title="C", text="three\nfour"),
    ]
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    assert list(Corpus.build(tmp_path / "c.jsonl.gz")) == wanted
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra retrieval")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(
        arrow.Table.from_pylist([p.model_dump(exclude_defaults=True) for p in wanted]),
        tmp_path / "c.parquet",
    )
    assert list(Corpus.build(tmp_path / "c.parquet")) == wanted


def test_corpora_add_up_without_a_copy(tmp_path: Path) -> None:
    a = Corpus.build(passages("x", "y"), tmp_path / "a", language="en")
    b = Corpus.build(passages("z", prefix="q"), tmp_path / "b", language="sw")
    both = a + b
    assert [p.text for p in both] == ["x", "y", "z"]
    assert (both["q0"].text, both.row("q0"), both.language) == ("z", 2, None)
    assert both.folders == (tmp_path / "a", tmp_path / "b")
    assert len({a.fingerprint, b.fingerprint, both.fingerprint, (b + a).fingerprint}) == 4
    with pytest.raises(DatasetError, match="both contain a passage 'p"):
        a + a


def test_a_corpus_in_a_temporary_folder_lives_as_long_as_a_sum_of_it() -> None:
    both = Corpus.build(passages("x")) + Corpus.build(passages("y", prefix="q"))
    assert [p.text for p in both] == ["x", "y"]
    assert both.folders[0].exists()


def test_a_corpus_is_replaced_by_another_and_kept_where_it_is_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    first = Corpus.build(passages("x"), folder)
    inode = (folder / "passages.jsonl").stat().st_ino
    assert Corpus.build(passages("x"), folder).fingerprint == first.fingerprint
    assert (folder / "passages.jsonl").stat().st_ino == inode
    assert [p.text for p in Corpus.build(passages("y"), folder)] == ["y"]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_invalid_sources_and_folders_raise_errors(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="the corpus has no passages"):
        Corpus.build([], tmp_path / "none")
    with pytest.raises(DatasetError, match=r"passages 1 and 3 of the corpus both have the id 'p0'"):
        Corpus.build([*passages("x", "y"), *passages("z")], tmp_path / "twice")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all my work")
    with pytest.raises(DatasetError, match="is neither empty nor a corpus"):
        Corpus.build(passages("x"), tmp_path / "mine")
    with pytest.raises(DatasetError, match=r"has no manifest\.json"):
        Corpus.open(tmp_path / "mine")
    with pytest.raises(DatasetError, match="no documents found"):
        list(read_documents(tmp_path / "*.md"))
    (tmp_path / "a.odt").write_bytes(b"PK")
    with pytest.raises(DatasetError, match=r"a\.odt: unknown extension"):
        list(read_documents(tmp_path / "a.odt"))
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "text": "b"}\n{"id": "c"}\n')
    with pytest.raises(DatasetError, match=r"bad\.jsonl, line 2, field 'text'"):
        Corpus.build(tmp_path / "bad.jsonl")


@pytest.mark.parametrize("name", ["passages.jsonl", "ids.txt", "offsets.npy", "rows.npy"])
def test_a_truncated_file_is_named_in_the_error(tmp_path: Path, name: str) -> None:
    Corpus.build(passages("x", "y"), tmp_path / "c")
    path = tmp_path / "c" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DatasetError, match=f"{name} has .* bytes in place of"):
        Corpus.open(tmp_path / "c")
    path.unlink()
    with pytest.raises(DatasetError, match=f"{name} is missing"):
        Corpus.open(tmp_path / "c")
    assert [p.text for p in Corpus.build(passages("x", "y"), tmp_path / "c")] == ["x", "y"]


def test_a_build_that_fails_leaves_the_old_corpus(tmp_path: Path) -> None:
    Corpus.build(passages("x"), tmp_path / "c")

    def broken() -> object:
        yield from passages("y")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        Corpus.build(broken(), tmp_path / "c")  # type: ignore[arg-type]
    assert [p.text for p in Corpus.open(tmp_path / "c")] == ["x"]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_documents_of_passages() -> None:
    assert Passage(id="36897421#2", text="").document_id == "36897421"
    assert Passage(id="a#b#0", text="", document="a#b").document_id == "a#b"
    (passage,) = chunk([Passage(id="a#b", text="one")])
    assert (passage.id, passage.document_id) == ("a#b#0", "a#b")
