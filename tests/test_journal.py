"""Test journals: crashes at any point, two writers, and the content of the file afterwards."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import portalocker
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage._base.journal import Journal
from mirage.errors import DatasetError
from mirage.models import Response


def response(i: int, text: str = "jibu ✓") -> Response:
    return Response(query_id=f"q{i}", text=text)


def line(i: int) -> str:
    return f'{{"query_id":"q{i}","text":"jibu ✓"}}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run.jsonl"


def recorded_ids(path: Path) -> list[str]:
    with Journal(path, Response) as journal:
        return [record.query_id for record in journal.earlier]


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    head = (
        "import sys\nfrom mirage._base.journal import Journal\nfrom mirage.models import Response\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# One writer ---------------------------------------------------------------------------------------


def test_records_are_there_as_they_are_added(path: Path) -> None:
    with Journal(path, Response) as journal:
        assert journal.earlier == []
        for i in (3, 1, 2):
            journal.add(response(i))
            assert path.read_text(encoding="utf-8").endswith(line(i))
    with Journal(path, Response) as journal:
        assert journal.earlier == [response(3), response(1), response(2)]
        journal.add(response(4))
    assert recorded_ids(path) == ["q3", "q1", "q2", "q4"]


def test_finish_writes_the_same_file_whatever_the_order(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    for file, order in ((path, (3, 1, 2)), (other, (2, 3, 1))):
        with Journal(file, Response) as journal:
            for i in order:
                journal.add(response(i))
            journal.finish(response(i) for i in (1, 2, 3))
    assert path.read_bytes() == other.read_bytes() == "".join(map(line, (1, 2, 3))).encode()
    assert [file.name for file in path.parent.iterdir()] == ["run.jsonl"]


def test_nothing_is_added_after_finish(path: Path) -> None:
    with Journal(path, Response) as journal:
        journal.finish([response(1)])
        with pytest.raises(ValueError, match="closed"):
            journal.add(response(2))
    assert recorded_ids(path) == ["q1"]


def test_a_failed_finish_leaves_the_file_unchanged(path: Path) -> None:
    def broken() -> Iterator[Response]:
        yield response(7)
        raise RuntimeError("in the middle")

    with Journal(path, Response) as journal:
        journal.add(response(1))
        with pytest.raises(RuntimeError, match="in the middle"):
            journal.finish(broken())
        journal.add(response(2))
    assert recorded_ids(path) == ["q1", "q2"]


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Journal(None, Response) as journal:
        assert journal.earlier == []
        journal.add(response(1))
        journal.finish([response(1)])
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_any_text_makes_the_round_trip(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "run.jsonl"
    records = [response(i, text) for i, text in enumerate(texts)]
    with Journal(path, Response) as journal:
        for record in records:
            journal.add(record)
    with Journal(path, Response) as journal:
        assert journal.earlier == records
        journal.finish(records)
    with Journal(path, Response) as journal:
        assert journal.earlier == records


# Ends of files ------------------------------------------------------------------------------------


def test_a_line_cut_at_any_byte_is_dropped(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Earlier lines are kept, and later records begin on a new line."""
    path.parent.mkdir()
    whole = (line(1) + line(2)).encode()
    for cut in range(len(line(1).encode()) + 1, len(whole) - 1):
        caplog.clear()
        path.write_bytes(whole[:cut])
        with Journal(path, Response) as journal:
            assert journal.earlier == [response(1)]
            journal.add(response(3))
        (record,) = caplog.records
        assert (record.levelno, record.name) == (logging.WARNING, "mirage")
        assert f"{path}: the last line was incomplete" in record.getMessage()
        assert path.read_text(encoding="utf-8") == line(1) + line(3)


@pytest.mark.parametrize("start", ["", line(1)])
def test_a_whole_record_without_a_line_end_is_kept(
    path: Path, start: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Editors write such a file, and so does a process that is killed one byte before the end."""
    path.parent.mkdir()
    path.write_text(start + line(2).rstrip("\n"), encoding="utf-8")
    with Journal(path, Response) as journal:
        journal.add(response(3))
    assert path.read_text(encoding="utf-8") == start + line(2) + line(3)
    assert caplog.records == []


@pytest.mark.parametrize("content", ["notes of mine", f"{line(1)}notes of mine", "[1, 2]"])
def test_a_file_that_is_no_journal_is_not_changed(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=r"run\.jsonl, line \d: "):
        Journal(path, Response)
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("no json", r"run\.jsonl, line 2: not JSON"),
        ('{"query_id":"q', r"run\.jsonl, line 2: not JSON"),
        ("[]", r"run\.jsonl, line 2: expected a JSON object, found list"),
        ('{"text":"x"}', r"run\.jsonl, line 2, field 'query_id': Field required"),
        ('{"query_id":"q1","text":5}', r"run\.jsonl, line 2, field 'text'"),
    ],
)
def test_a_bad_line_names_file_and_line(path: Path, bad: str, says: str) -> None:
    path.parent.mkdir()
    path.write_text(f"{line(1)}{bad}\n{line(3)}", encoding="utf-8")
    with pytest.raises(DatasetError, match=says):
        Journal(path, Response)
    path.write_text(line(1), encoding="utf-8")
    assert recorded_ids(path) == ["q1"]  # the lock was given back


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "run.jsonl"):
        with pytest.raises(DatasetError, match=f"{path}: cannot be written"):
            Journal(path, Response)


# Two writers --------------------------------------------------------------------------------------

HOLD = """
with Journal(sys.argv[1], Response) as journal:
    journal.add(Response(query_id="q1", text="x"))
    print("open", flush=True)
    input()
    if sys.argv[2] == "finish":
        journal.finish([Response(query_id="q9", text="x")])
    print("done", flush=True)
    input()
"""


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{word}\n"


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_second_process_is_rejected(path: Path) -> None:
    with python(HOLD, path, "leave") as first:
        wait_for(first, "open")
        with pytest.raises(DatasetError, match=f"{path}: another process is writing this file"):
            Journal(path, Response)
        go_on(first)
        wait_for(first, "done")
        with pytest.raises(DatasetError, match="another process"):
            Journal(path, Response)
        go_on(first)
    assert first.returncode == 0
    assert recorded_ids(path) == ["q1"]


def test_opening_twice_in_one_process_raises(path: Path) -> None:
    with (
        Journal(path, Response),
        pytest.raises(DatasetError, match="or this process opened it twice"),
    ):
        Journal(path, Response)
    assert recorded_ids(path) == []


def test_another_process_may_write_after_finish(path: Path) -> None:
    """Its records are in the file that replaced the old one."""
    with python(HOLD, path, "finish") as first:
        wait_for(first, "open")
        go_on(first)
        wait_for(first, "done")
        with Journal(path, Response) as journal:
            assert [record.query_id for record in journal.earlier] == ["q9"]
            journal.add(response(10))
        go_on(first)
    assert recorded_ids(path) == ["q9", "q10"]


def test_a_killed_writer_gives_its_lock_back_and_loses_nothing(path: Path) -> None:
    script = """
with Journal(sys.argv[1], Response) as journal:
    i = 0
    while True:
        journal.add(Response(query_id=f"q{i}", text="x"))
        print(i, flush=True)
        i += 1
"""
    with python(script, path) as writer:
        assert writer.stdout is not None
        for printed in writer.stdout:
            if int(printed) == 100:
                break
        writer.send_signal(signal.SIGKILL)
        count = 101 + len(writer.stdout.readlines())
    assert recorded_ids(path)[:count] == [f"q{i}" for i in range(count)]


def test_a_file_that_is_replaced_while_it_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the file is replaced between opening and locking, the lock would be on a deleted file."""
    with Journal(path, Response) as journal:
        journal.add(response(1))
    newer = path.with_name("newer.jsonl")
    newer.write_text(line(2), encoding="utf-8")
    lock = portalocker.lock

    def late(*arguments: Any) -> None:
        if newer.exists():
            newer.replace(path)
        lock(*arguments)

    monkeypatch.setattr(portalocker, "lock", late)
    with Journal(path, Response) as journal:
        assert journal.earlier == [response(2)]
        journal.add(response(3))
    assert recorded_ids(path) == ["q2", "q3"]


@pytest.mark.slow
def test_writers_who_end_and_begin_at_once_lose_nothing(path: Path) -> None:
    """Three processes repeatedly open the journal, add a record and finish, without a pause.

    A record would be lost if a process could open a file that another one is about to replace.
    """
    script = """
from mirage.errors import DatasetError
print("open", flush=True)
input()
for i in range(30):
    while True:
        try:
            journal = Journal(sys.argv[1], Response)
            break
        except DatasetError:
            pass
    with journal:
        mine = Response(query_id=f"{sys.argv[2]}-{i}", text="x")
        journal.add(mine)
        journal.finish(sorted([*journal.earlier, mine], key=lambda record: record.query_id))
"""
    writers = [python(script, path, name) for name in "abc"]
    for writer in writers:
        wait_for(writer, "open")
    for writer in writers:
        go_on(writer)
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert (writer.returncode, errors) == (0, "")
    assert recorded_ids(path) == sorted(f"{name}-{i}" for name in "abc" for i in range(30))


def test_a_full_disk_is_named(path: Path) -> None:
    """A limit on the size of files simulates a full disk."""
    script = """
import resource, signal
from mirage.errors import DatasetError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
journal = Journal(sys.argv[1], Response)
try:
    for i in range(100):
        journal.add(Response(query_id=f"q{i}", text="x" * 30))
except DatasetError as error:
    print(i, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.add(Response(query_id="last", text="x"))
journal.__exit__(None, None, None)
"""
    output, errors = python(script, path).communicate(timeout=60)
    assert errors == ""
    count, _, message = output.partition(" ")
    assert message == (
        f"{path}: cannot be written (File too large); the records written so far are kept: free "
        "disk space, and repeat the command or call to continue from there\n"
    )
    assert recorded_ids(path) == [f"q{i}" for i in range(int(count))] + ["last"]


def test_a_full_disk_raises_one_mirage_error(path: Path) -> None:
    """When the ``with`` block is left, the failed write is not repeated."""
    script = """
import resource, signal
from mirage.errors import DatasetError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    with Journal(sys.argv[1], Response) as journal:
        for i in range(100):
            journal.add(Response(query_id=f"q{i}", text="x" * 30))
except DatasetError:
    print(i)
    with Journal(sys.argv[1], Response) as journal:
        try:
            journal.finish([*journal.earlier, Response(query_id="more", text="x" * 2000)])
        except DatasetError as error:
            print(error)
"""
    output, errors = python(script, path).communicate(timeout=60)
    count, message = output.splitlines()
    assert errors == ""
    assert "cannot be written (File too large)" in message
    assert recorded_ids(path) == [f"q{i}" for i in range(int(count))]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("end", ["\0" * 5000, '{"query_id": "q2", "te' + "\0" * 900, "\n\0"])
def test_a_file_that_ends_in_nuls_is_mended(
    path: Path, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_text(line(1) + end, encoding="utf-8")
    with Journal(path, Response) as journal:
        journal.add(response(3))
    assert "the file ended in NUL bytes" in caplog.text
    assert recorded_ids(path) == ["q1", "q3"]


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk" / "votes.jsonl"
    elsewhere.parent.mkdir()
    path.parent.mkdir()
    path.symlink_to(elsewhere)
    with Journal(path, Response) as journal:
        journal.add(response(2))
        journal.finish([response(1), response(2)])
    assert path.is_symlink()
    assert elsewhere.read_text(encoding="utf-8") == line(1) + line(2)
    assert [file.name for file in elsewhere.parent.iterdir()] == ["votes.jsonl"]
