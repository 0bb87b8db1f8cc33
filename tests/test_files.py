"""Test that files are written atomically, read within limits, and never outside their folder."""

from __future__ import annotations

import ast
import errno
import gzip
import json
import os
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cases import each_case
from full_disk import disk_of
from hypothesis import given
from hypothesis import strategies as st
from syntax import nodes

import mirage
from mirage._base import files, inputs
from mirage._base.journal import Journal
from mirage._base.stores import locked
from mirage.corpus import read_documents
from mirage.corpus.documents import files as document_files
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, MirageError, SettingError, UnknownNameError
from mirage.llm.cache import Cache
from mirage.models import Response, Run
from mirage.retrieval import RetrievalRun
from mirage.testing.baseline import read_baseline

PACKAGE = Path(mirage.__file__).parent
SECRET = "the victim's text"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a file outside of the folder that is written to or read from."""
    path = tmp_path / "victim.md"
    path.write_text(SECRET)
    return path


# Writing ------------------------------------------------------------------------------------------


def test_a_file_is_replaced_at_once_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    path.write_text("old")
    path.chmod(0o640)
    with files.replace_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["table.md"]


def test_a_new_file_has_the_mode_that_any_program_would_give_it(tmp_path: Path) -> None:
    files.write_text(tmp_path / "ours", "x")
    (tmp_path / "plain").write_text("x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    path.write_text("old")
    file = files.replace_file(path)
    file.__enter__().write(b"half")
    assert file.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None) is False
    assert os.listdir(tmp_path) == ["table.md"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("name", [".part.table.md", "table.md.new", "table.md.part", ".table.md"])
def test_a_link_at_a_name_that_can_be_foreseen_is_not_followed(
    tmp_path: Path, victim: Path, name: str
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    files.write_text(folder / "table.md", "a table")
    assert victim.read_text() == SECRET
    assert (folder / "table.md").read_text() == "a table"


def test_the_temporary_name_is_another_each_time_and_never_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: Path
) -> None:
    temporary_names = set()
    for _ in range(3):
        with files.replace_file(tmp_path / "x") as file:
            file.write(b"x")
            temporary_names |= {path.name for path in tmp_path.glob(".mirage-*")}
    assert len(temporary_names) == 3
    # Even somebody who knows the name gains nothing.
    monkeypatch.setattr("mirage._base.files.secrets.token_hex", lambda _: "known")
    (tmp_path / ".mirage-known.part").symlink_to(victim)
    with pytest.raises(DatasetError, match="File exists"):
        files.write_text(tmp_path / "x", "y")
    assert victim.read_text() == SECRET


def test_a_link_that_the_user_names_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "latest.md").symlink_to(tmp_path / "archive" / "week.md")
    files.write_text(tmp_path / "latest.md", "one")
    files.write_text(tmp_path / "latest.md", "two")
    assert (tmp_path / "latest.md").is_symlink()
    assert (tmp_path / "archive" / "week.md").read_text() == "two"
    assert os.listdir(tmp_path / "archive") == ["week.md"]


def test_a_link_at_a_name_of_our_own_is_replaced(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "manifest.json").symlink_to(victim)
    files.write_text(tmp_path / "manifest.json", "{}", follow=False)
    assert not (tmp_path / "manifest.json").is_symlink()
    assert victim.read_text() == SECRET


def test_a_folder_that_is_swapped_while_it_is_written_to_is_not_entered(tmp_path: Path) -> None:
    folder, other = tmp_path / "out", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    with files.replace_file(folder / "x") as file:
        file.write(b"x")
        folder.rename(tmp_path / "moved")
        folder.symlink_to(other)
    assert os.listdir(other) == []
    assert (tmp_path / "moved" / "x").read_bytes() == b"x"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    files.write_text(pipe, "through a pipe")
    reader.join()
    assert read == ["through a pipe"]


def test_a_text_that_is_no_unicode_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not valid Unicode"):
        files.write_text(tmp_path / "x", "\ud800")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["r.trec", "r.trec.gz"])
def test_a_run_file_on_a_full_disk_is_whole_or_as_it_was(tmp_path: Path, name: str) -> None:
    run = RetrievalRun.of({f"q{i}": {f"p{i}-{j}": j / 7 for j in range(9)} for i in range(40)})
    path = tmp_path / name
    run.write(path)
    whole = path.read_bytes()
    for most in {*range(0, len(whole), len(whole) // 60), len(whole) - 1}:
        path.write_bytes(b"old")
        with pytest.raises(DatasetError, match="cannot be written"), disk_of(most):
            run.write(path)
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == [name]
    run.write(path)
    assert path.read_bytes() == whole


def test_a_disk_that_is_full_only_when_the_file_is_flushed_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)  # as network file systems and quotas do
    run = RetrievalRun.of({"q": {"p": 1.0}})
    with pytest.raises(DatasetError, match="No space left"):
        run.write(tmp_path / "r.trec.gz")
    assert os.listdir(tmp_path) == []


def test_gzip_output_depends_on_the_content_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RetrievalRun.of({"q": {"p": 1.0}})
    run.write(tmp_path / "a.gz")
    monkeypatch.setattr("time.time", lambda: 2e9)
    run.write(tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert RetrievalRun.read(tmp_path / "a.gz") == run


def written_elsewhere(path: Path) -> Iterator[str]:
    """Yield calls that write a file without the functions of ``_base/files.py``."""
    for node in nodes(path):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        module = (
            called.value.id
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)
            else ""
        )
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        texts = [value.value for value in values if isinstance(value, ast.Constant)]
        if name in ("write_text", "write_bytes") and isinstance(called, ast.Attribute):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno} {name}"
        if name == "open" and any(
            isinstance(text, str) and text.strip("bt+") in ("w", "a", "x") for text in texts
        ):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno} open"
        opened = [value.id for value in node.args if isinstance(value, ast.Name)]
        if (
            name in ("save", "savez", "dump")
            and module in ("np", "joblib")
            and not {"file", "buffer"} & {*opened}
        ):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno} {name}"
        if module == "os" and name in ("open", "fdopen", "replace", "rename"):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno} os.{name}"


ALLOWED = {
    "_base/block_file.py open": "a file that grows block by block, with a journal",
    "_base/block_file.py os.replace": "the same, when all blocks are complete",
    "_base/files.py open": "a pipe or a terminal",
    "_base/files.py os.open": "the functions that all others use",
    "_base/files.py os.fdopen": "the same",
    "_base/files.py os.replace": "the same",
    "cli/_inputs.py open": "standard input, in a new folder of its own",
    "cli/_output.py os.open": "the null device",
    "cli/_output.py os.fdopen": "the null device",
    "generation/processes.py os.fdopen": "pipes between two processes",
    "llm/cache.py os.replace": "a damaged database is renamed",
}


def test_every_file_is_written_by_one_function() -> None:
    calls = {
        f"{location.partition(':')[0]} {location.rpartition(' ')[2]}"
        for path in PACKAGE.rglob("*.py")
        for location in written_elsewhere(path)
    }
    assert calls == set(ALLOWED)


# Locks and journals -------------------------------------------------------------------------------


def test_a_link_at_the_name_of_a_lock_is_refused(tmp_path: Path, victim: Path) -> None:
    lock = tmp_path / ".index.lock"
    for target in (victim, tmp_path / "made"):
        lock.symlink_to(target)
        with (
            pytest.raises(DatasetError, match=r"\.index\.lock: this is a symbolic link"),
            locked(lock),
        ):
            pass
        lock.unlink()
    assert victim.read_text() == SECRET
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["llm.sqlite.lock", "llm.sqlite-wal", "llm.sqlite-shm"])
def test_links_beside_the_cache_are_not_followed(
    tmp_path: Path, victim: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).symlink_to(victim)
    cache = Cache(tmp_path / "llm.sqlite")
    cache.put(b"key", "model", {"text": "answer"})
    cache.get(b"key")
    cache.close()
    assert victim.read_text() == SECRET
    if name.endswith("lock"):
        assert "cannot be used" in caplog.text


def test_a_link_at_a_name_beside_a_journal_is_not_followed(tmp_path: Path, victim: Path) -> None:
    path = tmp_path / "run.jsonl"
    (tmp_path / "run.jsonl.new").symlink_to(victim)
    (tmp_path / "run.jsonl.lock").symlink_to(victim)
    with Journal(path, Response) as journal:
        journal.add(Response(query_id="q", text="x"))
        journal.finish([Response(query_id="q", text="x")])
    assert victim.read_text() == SECRET
    assert json.loads(path.read_text())["text"] == "x"


def test_the_parts_of_repeats_are_not_links(tmp_path: Path) -> None:
    dataset = MirageDataset.bundled("sw").sample(2)
    outside = tmp_path / "victim.jsonl"
    (tmp_path / "run.jsonl.repeat-1").symlink_to(outside)
    with pytest.raises(DatasetError, match=r"repeat-1: this is a symbolic link"):
        mirage.respond(
            lambda _: "x", dataset, repeats=2, out=tmp_path / "run.jsonl", progress=False
        )
    assert not outside.exists()


def test_a_link_at_the_folder_of_a_build_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    part = tmp_path / ".index.key.part"
    part.symlink_to(outside)
    with pytest.raises(DatasetError, match="is a symbolic link"):
        files.make_folder(part)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_journal_is_a_file(device: str) -> None:
    with pytest.raises(DatasetError, match="is a device or a pipe"):
        Journal(device, Response)


# Names --------------------------------------------------------------------------------------------


@each_case(
    "name", ["../outside", "/outside", "..", ".", "", "a/b", "a\\b", "C:x", "a\0b", "x" * 300]
)
def test_a_name_that_leads_out_of_its_folder_is_refused(name: str) -> None:
    with pytest.raises(DatasetError, match="is used as a file name"):
        files.check_name(name, "the grid's name")


def test_ordinary_names_are_taken() -> None:
    for name in ("mkqa", "my grid", "mkqa: k=5", "Übersicht.v2", ".hidden", "a..b"):
        files.check_name(name, "the grid's name")


def test_a_grid_with_a_name_that_leads_outside_is_refused(tmp_path: Path) -> None:
    from mirage.grids import Grid

    (tmp_path / "inside").mkdir()
    grid = tmp_path / "inside" / "grid.yaml"
    for name in ("../outside", str(tmp_path / "outside")):
        grid.write_text(
            f"name: {name}\ndatasets:\n  sw: {{form: bundled, language: sw}}\n"
            "generators:\n  gold: {kind: oracle-answer}\n"
            "grid:\n  dataset: sw\n  generator: gold\nmetrics: [qa_match]\n"
        )
        with pytest.raises(DatasetError, match="is used as a file name"):
            Grid.read(grid).run(limit=2, progress=False)
    assert os.listdir(tmp_path) == ["inside"]


@given(st.text())
def test_every_text_has_a_file_name_in_its_folder(text: str) -> None:
    name = files.file_name(text)
    if text:
        files.check_name(name, "the name")
    assert Path("folder", f"{name}.jsonl").parent == Path("folder")


@given(st.lists(st.text(), min_size=2, max_size=2, unique=True))
def test_two_texts_have_two_file_names(texts: list[str]) -> None:
    assert files.file_name(texts[0]) != files.file_name(texts[1])


# Folders of documents -----------------------------------------------------------------------------


def ids(source: Path) -> list[str]:
    return [document.id for document in read_documents(source)]


def test_a_link_out_of_a_folder_of_documents_is_not_read(
    tmp_path: Path, victim: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "leave.md").write_text("# Leave\nTwenty days.")
    (folder / "again.md").symlink_to("leave.md")
    (folder / "secret.md").symlink_to(victim)
    (folder / "lost.md").symlink_to(tmp_path / "none")
    for source in (folder, folder / "*.md", folder / "**" / "*.md"):
        caplog.clear()
        assert ids(source) == ["again.md", "leave.md"]
        assert "secret.md: this symbolic link leads out of" in caplog.text
        assert SECRET not in str([document.text for document in read_documents(source)])
    assert ids(folder / "secret.md") == ["secret.md"]  # whoever names it means it


def test_links_to_folders_and_loops_are_not_followed(
    tmp_path: Path, victim: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "handbook"
    (folder / "rules").mkdir(parents=True)
    (folder / "rules" / "leave.md").write_text("# Leave\nTwenty days.")
    (folder / "outside").symlink_to(victim.parent)
    for name in ("loop", "round", "about"):
        (folder / "rules" / name).symlink_to(folder)
    for source in (folder, folder / "**" / "*.md", folder / "*" / "*.md"):
        caplog.clear()
        assert ids(source) == ["rules/leave.md"]
        assert "outside: this is a symbolic link to a folder" in caplog.text
    from mirage.grids._entries import fingerprint

    assert len(fingerprint(folder)) == 64


def test_a_folder_that_is_a_link_itself_is_read(tmp_path: Path) -> None:
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2" / "a.md").write_text("# A\ntext")
    (tmp_path / "current").symlink_to("v2")
    assert ids(tmp_path / "current") == ["a.md"]
    assert ids(tmp_path / "current" / "*.md") == ["a.md"]


def test_patterns_match_as_glob_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.md", "b.txt", "x/c.md", "x/y/d.md", ".hidden/e.md", "x/.f.md", "x/y/g.rst"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    monkeypatch.chdir(tmp_path)

    def names(pattern: str) -> list[str]:
        return [path.as_posix() for path in document_files(pattern)[0]]

    assert names("*.md") == ["a.md"]
    assert names("**/*.md") == ["a.md", "x/c.md", "x/y/d.md"]
    assert names("x/**") == ["x/c.md", "x/y/d.md", "x/y/g.rst"]
    assert names("x/*/*.[mr]*") == ["x/y/d.md", "x/y/g.rst"]
    assert names("?/c.md") == ["x/c.md"]
    assert names(".hidden/*.md") == [".hidden/e.md"]
    assert names(str(tmp_path / "x" / "**" / "d.md")) == [str(tmp_path / "x/y/d.md")]
    with pytest.raises(DatasetError, match="no documents found"):
        names("*.rst")


# Limits -------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[Path], object]] = {
    "dataset": MirageDataset.load,
    "run": lambda path: Run.load(path, language="sw"),
    "qa": lambda path: MirageDataset.from_qa(path, language="sw"),
    "retrieval run": RetrievalRun.read,
    "documents": lambda path: list(read_documents(path)),
    "baseline": read_baseline,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_device_is_refused(reader: str, tmp_path: Path) -> None:
    endings = {"documents": "x.jsonl"}
    link = tmp_path / endings.get(reader, "x.json")
    link.symlink_to("/dev/zero")
    with pytest.raises(DatasetError):
        READERS[reader](link)


@pytest.mark.slow
def test_a_bomb_of_gzip_ends_in_one_error_within_bounded_memory(tmp_path: Path) -> None:
    bomb = tmp_path / "x.jsonl"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(160):
            file.write(b" " * (1 << 20))
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_files import READERS, MirageError, Path
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name, read in READERS.items():
    try:
        read(Path({str(bomb)!r}))
    except MirageError as error:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base, name, error)
"""
    completed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MIRAGE_READ_LIMIT": "16M"},
    )
    lines = completed.stdout.splitlines()
    assert len(lines) == len(READERS)
    for line, name in zip(lines, READERS, strict=True):
        kib, _, message = line.partition(" ")
        assert message.startswith(name)
        assert int(kib) < 100 * 1024
        assert "raise the limit with the environment variable MIRAGE_READ_LIMIT" in message


@pytest.mark.parametrize("reader", READERS)
def test_an_endless_pipe_ends_in_one_error(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(inputs.LIMIT, "1M")
    pipe = tmp_path / "x.jsonl"
    os.mkfifo(pipe)
    stop = threading.Event()

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            try:
                while not stop.is_set():
                    file.write(b'{"text": "' + b"x" * 65536)
            except BrokenPipeError:
                pass

    if reader == "documents":
        pytest.skip("a folder's pipes are passed over, and a pipe that is named is no document")
    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(DatasetError):
            READERS[reader](pipe)
    finally:
        stop.set()
        writer.join()


def test_a_bomb_in_a_history_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(inputs.LIMIT, "1M")
    assert inputs.inflate(zlib.compress(b"x" * 1000), "history") == b"x" * 1000
    with pytest.raises(DatasetError, match=r"history: the input has more than 1 MiB"):
        inputs.inflate(zlib.compress(b"x" * (8 << 20)), "history")
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        inputs.inflate(b"no", "history")


def test_a_grid_of_a_few_lines_does_not_grow_without_end(tmp_path: Path) -> None:
    from mirage.grids import Grid

    grid = tmp_path / "grid.yaml"
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    for text, message in (
        ("l0: &l0 [x]\n" + "\n".join(levels), "the YAML aliases expand to more than"),
        ("a: &a [*a]", "a YAML alias refers to a value that contains the alias"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
    ):
        grid.write_text(text)
        with pytest.raises(DatasetError, match=message):
            Grid.read(grid)


def test_lines_within_the_limit_are_read_and_one_more_byte_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(inputs.LIMIT, "16K")
    path = tmp_path / "x.jsonl"
    row = json.dumps({"query_id": "q", "text": ""})
    path.write_text(json.dumps({"query_id": "q", "text": "x" * (1023 - len(row))}) + "\n")
    assert len(Run.load(path, language="sw")) == 1
    path.write_text(json.dumps({"query_id": "q", "text": "x" * (1024 - len(row))}) + "\n")
    with pytest.raises(
        DatasetError, match=r"x\.jsonl, line 1: the input has a line that is longer than 1 K"
    ):
        Run.load(path, language="sw")


def test_a_limit_that_is_no_size_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size in (("8G", 8 << 30), ("512M", 512 << 20), ("100", 100), ("1 GiB", 1 << 30)):
        monkeypatch.setenv(inputs.LIMIT, text)
        assert inputs.limit_of("file") == size
    for text in ("much", "-1", "0", "1.5G"):
        monkeypatch.setenv(inputs.LIMIT, text)
        with pytest.raises(SettingError, match="expected a number of bytes, such as 8G"):
            inputs.limit_of("file")


def test_lines_end_as_they_always_did(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes("\ufeffa\r\nb\rc\n\n d\u2028e\r\r\nf".encode())
    assert [(where.rpartition(" ")[2], line) for where, line in files.lines(path)] == [
        *(("1", "a"), ("2", "b"), ("3", "c"), ("5", " d\u2028e"), ("7", "f"))
    ]


@given(st.text(st.sampled_from("ab \n\r\u2028"), max_size=30))
def test_lines_of_a_file_are_those_of_its_text(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(text.encode())
        in_file = [(where.removeprefix(f"{path}"), line) for where, line in files.lines(path)]
    assert in_file == [(where.removeprefix("x"), line) for where, line in files._lines(text, "x")]


# Messages -----------------------------------------------------------------------------------------


def test_messages_are_bounded_and_keep_their_start_and_end() -> None:
    long = "x" * 100_000
    error = DatasetError(f"file.jsonl, line 3: passage {long!r} is ranked twice; remove one")
    assert str(error).startswith("file.jsonl, line 3: passage 'xxx")
    assert str(error).endswith("is ranked twice; remove one")
    assert len(str(error)) <= 1000
    words = DatasetError("line 3: " + "long " * 100_000 + "; remove one")
    assert len(str(words)) == 1000
    assert str(words).endswith("; remove one")
    assert str(DatasetError("x" * 1000)) == "x" * 1000
    assert len(str(UnknownNameError("model", long, [long + "y", "b" * 100_000]))) <= 1000


def test_a_reader_quotes_no_more_of_a_file_than_fits(tmp_path: Path) -> None:
    run = tmp_path / "run.trec"
    run.write_text(f"q Q0 {'p' * 100_000} 1 1.0 tag\n" * 2)
    with pytest.raises(DatasetError, match="is ranked twice") as caught:
        RetrievalRun.read(run)
    assert len(str(caught.value)) <= 1000
    long = tmp_path / "run.jsonl"
    answer = Response(query_id="q" * 100_000, text="x")
    Run(model="m", language="sw", responses=(answer,)).save(long)
    with pytest.raises(MirageError) as unknown:
        mirage.Leaderboard.bundled("sw").rank(Run.load(long, language="sw", model="m"))
    assert len(str(unknown.value)) <= 1000
