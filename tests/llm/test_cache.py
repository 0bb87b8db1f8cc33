"""The cache of answers: digests of requests, several processes, and damaged files."""

from __future__ import annotations

import inspect
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import portalocker
import pytest
from llm_server import ChatServer, last_user_text
from subsets import slow_except

from mirage._base.concurrency import run_sync
from mirage.errors import LLMError, SettingError
from mirage.llm import LLM
from mirage.llm.answers import Completion
from mirage.llm.cache import Cache, default_cache_path

HABARI = [{"role": "user", "content": "Habari?"}]


def key(i: int) -> bytes:
    return random.Random(i).randbytes(32)


def answer(i: int) -> dict[str, Any]:
    """Return an answer of about 2 kB, as long as real ones; some need more than one page."""
    text = f"jibu {i}: " + "Kilimanjaro ni mlima mrefu. " * 70
    return {"text": text, "finish_reason": "stop", "prompt_tokens": i, "completion_tokens": 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "cache.sqlite"


def filled(path: Path, count: int) -> None:
    cache = Cache(path)
    for i in range(count):
        cache.put(key(i), "m", answer(i))
    cache.close()


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a process that runs a script, which can use ``Cache``, ``key`` and ``answer``."""
    head = "import itertools, os, random, sys, threading\nfrom typing import Any\n"
    head += "from mirage.llm.cache import Cache\n"
    head += inspect.getsource(key) + inspect.getsource(answer)
    return subprocess.Popen(
        [sys.executable, "-c", head + script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*processes: subprocess.Popen[str]) -> list[str]:
    """Let the processes continue once all are ready, and return their output."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs
    return [output for output, _ in outputs]


READY = "print('ready', flush=True); input()\n"


# A table of answers -------------------------------------------------------------------------------


def test_an_answer_that_was_put_can_be_read(path: Path) -> None:
    cache = Cache(path)
    assert cache.get(key(1)) is None
    assert len(cache) == 0
    cache.put(key(1), "m", answer(1))
    cache.put(key(2), "m", answer(2) | {"text": "中文 😀 \0 ё"})
    cache.close()
    again = Cache(path)
    assert again.get(key(1)) == answer(1)
    assert again.get(key(2)) == answer(2) | {"text": "中文 😀 \0 ё"}
    assert len(again) == 2


def test_the_first_answer_stays(path: Path) -> None:
    cache = Cache(path)
    cache.put(key(1), "m", answer(1))
    cache.put(key(1), "m", answer(2))
    assert cache.get(key(1)) == answer(1)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Cache("~/llm.sqlite").path == tmp_path / "home" / "llm.sqlite"
    monkeypatch.chdir(tmp_path)
    cache = Cache("llm.sqlite")
    monkeypatch.chdir("/")
    cache.put(key(1), "m", answer(1))
    assert (tmp_path / "llm.sqlite").is_file()
    assert repr(cache) == f"Cache({str(tmp_path / 'llm.sqlite')!r})"


@pytest.mark.parametrize("path", ["", ".", ":memory:"])
def test_an_invalid_path_is_refused(path: str) -> None:
    with pytest.raises(SettingError, match=r"must be the path of a file, got .*pass cache=False"):
        LLM("m", base_url="http://localhost/v1", cache=path)


def test_the_default_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MIRAGE_CACHE", str(tmp_path))
    assert default_cache_path() == tmp_path / "llm.sqlite"
    monkeypatch.delenv("MIRAGE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_path().name == "llm.sqlite"
    assert default_cache_path().is_relative_to(tmp_path)


# What a client keeps ------------------------------------------------------------------------------


def ask(llm: LLM, sample: int = 0) -> Completion:
    async def ask_once() -> Completion:
        async with llm.connect() as connection:
            return await connection.ask(HABARI, sample=sample)

    return run_sync(ask_once())


def test_an_answer_is_asked_for_once(server: ChatServer, path: Path) -> None:
    server.answer = lambda _: "nzuri"
    first = LLM("m", base_url=server.url, cache=path)
    assert not first.cached(HABARI)
    completion = ask(first)
    assert not completion.cached
    second = LLM("m", base_url=f"{server.url}/", cache=path, concurrency=1, retries=0, timeout=1)
    assert second.cached(HABARI)
    again = ask(second)
    assert again == Completion(**vars(completion) | {"cached": True})
    assert len(server.requests) == 1
    assert (second.usage.calls, second.usage.cached, second.usage.tokens) == (0, 1, 0)


def test_samples_are_cached_separately(server: ChatServer, path: Path) -> None:
    server.answer = lambda _: str(len(server.requests))
    llm = LLM("m", base_url=server.url, cache=path)
    assert [ask(llm, sample).text for sample in (0, 1, 2, 1, 0)] == ["1", "2", "3", "2", "1"]


def test_requests_that_differ_in_content_have_different_digests() -> None:
    base = "http://localhost/v1"
    settings: list[dict[str, Any]] = [
        {},
        {"base_url": "http://localhost:81/v1"},
        {"azure_api_version": "2024-10-21"},
        {"azure_api_version": "2024-06-01"},
        {"temperature": 1.0},
        {"temperature": None},
        {"max_tokens": 10},
        {"max_tokens": None},
        {"parameters": {"seed": 1}},
        {"parameters": {"seed": 2}},
    ]
    llms = [LLM("m", cache=False, **{"base_url": base} | chosen) for chosen in settings]
    llms.append(LLM("m2", base_url=base, cache=False))
    digests = [llm.digest(HABARI) for llm in llms]
    for messages in (
        [{"role": "system", "content": "Habari?"}],
        [{"role": "user", "content": "Habari"}],
        [*HABARI, *HABARI],
        [],
    ):
        digests.append(llms[0].digest(messages))
    digests.append(llms[0].digest(HABARI, 1))
    assert len(set(digests)) == len(digests)


def test_requests_that_differ_in_transport_have_equal_digests() -> None:
    first = LLM(
        "m", base_url="http://localhost/v1", cache=False, parameters={"seed": 1, "stop": "x"}
    )
    two = LLM(
        "m",
        base_url="http://localhost/v1/",
        cache=False,
        parameters={"stop": "x", "seed": 1},
        api_key="another",
        headers={"x-title": "t"},
        retries=0,
    )
    assert first.digest(HABARI) == two.digest([{"content": "Habari?", "role": "user"}])


# Threads, forks, processes ------------------------------------------------------------------------


def test_threads_share_a_cache(path: Path) -> None:
    cache = Cache(path)

    def put(start: int) -> None:
        for i in range(start, start + 50):
            cache.put(key(i), "m", answer(i))
            assert cache.get(key(i)) == answer(i)

    threads = [threading.Thread(target=put, args=(50 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == 400


WRITE = (
    READY
    + """
cache = Cache(sys.argv[1])
for i in range(int(sys.argv[2]), int(sys.argv[3])):
    cache.put(key(i), "m", answer(i))
"""
)


def test_two_processes_write_one_file_at_once(path: Path) -> None:
    finish(*(python(WRITE, path, start, start + 500) for start in (0, 500)))
    cache = Cache(path)
    assert len(cache) == 1000
    assert all(cache.get(key(i)) == answer(i) for i in range(1000))


def test_a_killed_writer_loses_nothing(path: Path) -> None:
    script = """
cache = Cache(sys.argv[1])
for i in itertools.count():
    cache.put(key(i), "m", answer(i))
    print(i, flush=True)
"""
    with python(script, path) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) == 200:
                break
        writer.send_signal(signal.SIGKILL)
        count = 201 + len(writer.stdout.readlines())
    cache = Cache(path)
    assert all(cache.get(key(i)) == answer(i) for i in range(count))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_a_fork_opens_its_own_connection(path: Path) -> None:
    """Another thread uses the cache meanwhile, and the fork ends like a normal process."""
    script = (
        READY
        + """
cache = Cache(sys.argv[1])
cache.put(key(0), "m", answer(0))
stop = threading.Event()

def work():
    for i in itertools.count():
        if stop.is_set():
            return
        cache.put(key(10_000 + i % 100), "m", answer(0))

thread = threading.Thread(target=work)
thread.start()
children = []
for child in range(1, 6):
    if (pid := os.fork()) == 0:
        for i in range(child * 100, child * 100 + 20):
            cache.put(key(i), "m", answer(i))
        sys.exit(0)
    children.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in children]
stop.set()
thread.join()
assert codes == [0] * 5
cache.put(key(1), "m", answer(1))
for i in (0, 1, *(c * 100 + j for c in range(1, 6) for j in range(20))):
    assert cache.get(key(i)) == answer(i), i
"""
    )
    finish(python("import warnings; warnings.simplefilter('ignore')\n" + script, path))
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


# Damage -------------------------------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(0).randbytes(100_000))


def short_garbage(path: Path) -> None:
    path.write_bytes(b"not a database")


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_in_the_header(path: Path) -> None:
    os.truncate(path, 50)


def page_overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * (path.stat().st_size // 4096 // 2))
        file.write(random.Random(0).randbytes(4096))


def letters_overwritten(path: Path) -> None:
    """Overwrite letters in the middle of the answers, which SQLite cannot detect."""
    content = path.read_bytes()
    path.write_bytes(content.replace(b"Kilimanjaro", b"Kilimanjara"))


def page_of_zeros(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * (path.stat().st_size // 4096 // 2))
        file.write(bytes(4096))


@pytest.mark.parametrize(
    "damage",
    [
        garbage,
        short_garbage,
        truncated,
        cut_in_the_header,
        page_overwritten,
        letters_overwritten,
        page_of_zeros,
    ],
)
def test_a_corrupt_file_is_renamed_and_replaced(
    path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    filled(path, 300)
    damage(path)
    damaged = path.read_bytes()
    cache = Cache(path)
    for i in range(300):
        assert cache.get(key(i)) in (answer(i), None)
    for i in range(300):
        cache.put(key(i), "m", answer(i))
    assert all(cache.get(key(i)) == answer(i) for i in range(300))
    assert len(cache) == 300
    cache.close()
    (aside,) = path.parent.glob("cache.sqlite.corrupt-*[0-9]")
    assert aside.read_bytes() == damaged
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(path) in record.getMessage()
    assert aside.name in record.getMessage()


@pytest.mark.parametrize(
    "damage", slow_except([garbage], [garbage, truncated, letters_overwritten])
)
def test_processes_rename_a_corrupt_file_only_once(
    path: Path, damage: Callable[[Path], None]
) -> None:
    filled(path, 100)
    damage(path)
    script = (
        READY
        + """
cache = Cache(sys.argv[1])
mine = range(int(sys.argv[2]), int(sys.argv[2]) + 40)
for i in range(100):
    cache.get(key(i))
for i in mine:
    cache.put(key(i), "m", answer(i))
assert all(cache.get(key(i)) == answer(i) for i in mine)
"""
    )
    finish(*(python(script, path, 1000 * n) for n in range(1, 3)))
    cache = Cache(path)
    assert all(cache.get(key(1000 * n + i)) for n in range(1, 3) for i in range(40))
    assert len(list(path.parent.glob("cache.sqlite.corrupt-*[0-9]"))) == 1


def test_a_file_that_another_process_renamed_is_not_renamed_again(path: Path) -> None:
    """A cache that has the old file open uses the new file from then on."""
    first, two = Cache(path), Cache(path)
    first.put(key(1), "m", answer(1))
    two.put(key(2), "m", answer(2))
    first.close()
    two.close()
    assert first.get(key(2)) == answer(2)  # open
    garbage(path)
    assert two.get(key(2)) is None  # sets it aside
    for cache, i in ((first, 3), (two, 4)):
        cache.put(key(i), "m", answer(i))
    assert [i for i in range(1, 5) if Cache(path).get(key(i))] == [3, 4]


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Hold the lock, as a process does while it opens or renames the file."""
    with open(f"{path}.lock", "ab") as file:
        portalocker.lock(file, portalocker.LOCK_EX)
        yield


def test_only_one_thread_opens_the_file(path: Path) -> None:
    filled(path, 1)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(Cache(path).get(key(0))))
    with opening(path):
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join()
    assert results == [answer(0)]


def test_a_new_file_is_not_renamed_because_the_old_one_was_corrupt(
    path: Path, tmp_path: Path
) -> None:
    """Two caches detect the same damage; the second one after the first has started a new file."""
    filled(path, 300)
    filled(tmp_path / "new.sqlite", 1)
    cache = Cache(path)
    assert cache.get(key(0)) == answer(0)  # open
    letters_overwritten(path)
    thread = threading.Thread(target=cache.get, args=(key(299),))
    with opening(path):
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()  # has met the damage
        path.replace(path.with_name("cache.sqlite.corrupt-1"))
        (tmp_path / "new.sqlite").replace(path)
    thread.join()
    assert cache.get(key(0)) == answer(0)
    assert len(cache) == 1
    assert len(list(path.parent.glob("cache.sqlite.corrupt-*[0-9]"))) == 1


def test_a_file_that_is_deleted_is_begun_anew(path: Path) -> None:
    cache = Cache(path)
    cache.put(key(1), "m", answer(1))
    path.unlink()
    assert cache.get(key(1)) is None
    cache.put(key(2), "m", answer(2))
    assert Cache(path).get(key(2)) == answer(2)


def test_an_empty_file_is_a_new_one(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.touch()
    cache = Cache(path)
    cache.put(key(1), "m", answer(1))
    assert cache.get(key(1)) == answer(1)
    assert caplog.records == []


# Places where nothing can be kept -----------------------------------------------------------------


def in_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "cache.sqlite"


def a_folder(folder: Path) -> Path:
    return folder


def read_only(folder: Path) -> Path:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    folder.joinpath("locked").mkdir(mode=0o555)
    return folder / "locked" / "cache.sqlite"


def system_folder(_: Path) -> Path:
    if not Path("/proc/self").exists():
        pytest.skip("no /proc here")
    return Path("/proc/self/cache.sqlite")  # read-only for root too


@pytest.mark.parametrize("make_path", [in_a_file, a_folder, read_only, system_folder])
def test_answers_are_returned_even_if_they_cannot_be_cached(
    server: ChatServer,
    tmp_path: Path,
    make_path: Callable[[Path], Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = make_path(tmp_path)
    server.answer = lambda _: "nzuri"
    llm = LLM("m", base_url=server.url, cache=path)
    assert [ask(llm).text for _ in range(3)] == ["nzuri"] * 3
    assert len(server.requests) == 3
    (record,) = (record for record in caplog.records if record.name == "mirage.llm")
    assert str(path) in record.getMessage()
    assert "answers are not cached" in record.getMessage()


def test_a_full_disk(path: Path) -> None:
    """A limit on file sizes simulates it: earlier answers stay, and nothing crashes."""
    filled(path, 5)
    script = (
        READY
        + """
import logging, resource, signal
logging.basicConfig(stream=sys.stdout, format="%(message)s")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
cache = Cache(sys.argv[1])
for i in range(5, 300):
    cache.put(key(i), "m", answer(i))
print(len(cache))
"""
    )
    (output,) = finish(python(script, path))
    *logged, count = output.splitlines()
    assert len(logged) == 1
    assert "answers are not cached" in logged[0]
    assert 5 < int(count) < 300
    cache = Cache(path)
    assert all(cache.get(key(i)) == answer(i) for i in range(5))
    cache.put(key(1000), "m", answer(1000))
    assert cache.get(key(1000)) == answer(1000)


@pytest.mark.parametrize("table", ["songs (title TEXT)", "answers (question TEXT, answer TEXT)"])
def test_the_database_of_another_program_is_not_changed(
    server: ChatServer, tmp_path: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "songs.sqlite"
    database = sqlite3.connect(path)
    database.execute(f"CREATE TABLE {table}")
    database.commit()
    database.close()
    before = path.read_bytes()
    llm = LLM("m", base_url=server.url, cache=path)
    assert [ask(llm).text for _ in range(2)] == ["ok"] * 2
    assert path.read_bytes() == before
    (record,) = (record for record in caplog.records if record.name == "mirage.llm")
    assert "the database of another program" in record.getMessage()
    assert not list(tmp_path.glob("*corrupt*"))


def test_a_database_locked_by_another_is_waited_for(path: Path) -> None:
    filled(path, 1)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, other.execute, ("COMMIT",))
    timer.start()
    cache = Cache(path)
    cache.put(key(2), "m", answer(2))
    timer.join()
    other.close()
    assert cache.get(key(2)) == answer(2)


def test_a_cache_may_be_shared_by_two_models(server: ChatServer, path: Path) -> None:
    cache = Cache(path)
    server.answer = lambda request: f"{request['model']}: {last_user_text(request)}"
    first, two = (LLM(name, base_url=server.url, cache=cache) for name in ("a", "b"))
    assert [ask(llm).text for llm in (first, two, first, two)] == ["a: Habari?", "b: Habari?"] * 2
    assert len(server.requests) == 2


def test_errors_are_not_cached(path: Path) -> None:
    llm = LLM("m", base_url="http://127.0.0.1:1/v1", cache=path, retries=0)
    with pytest.raises(LLMError):
        ask(llm)
    assert len(Cache(path)) == 0


def test_a_flipped_bit_in_the_table_definition_does_not_stop_the_work(path: Path) -> None:
    """SQLite reports such damage in many ways, one of them with a message that is not Unicode."""
    filled(path, 1)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    content = path.read_bytes()
    first, last = content.index(b"CREATE TABLE answers"), content.index(b"WITHOUT ROWID")
    for bit in random.Random(0).sample(range(first * 8, last * 8), 60):
        for file in path.parent.iterdir():
            file.unlink()
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        cache = Cache(path)
        cache.get(key(0))
        cache.put(key(1), "m", answer(1))
        assert cache.get(key(1)) == answer(1), bit
        cache.close()
