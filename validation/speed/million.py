"""Features of many answers in files: rate, memory, workers, and a run that is killed and resumed.

    python validation/speed/million.py [answers]

The questions and passages are those of NoMIRACL (in the folder that MIRAGE_DATA names) in English,
Swahili and Chinese, recombined so that no text occurs twice: each passage has its own sentences in
another order, and one sentence of another question. An answer consists of one to four sentences of
its passages, with citations; every tenth one is the output of a real LLM. One passage is relevant,
and the reference consists of its first sentences.

``mirage features --out`` scores each language in two ways: with two processes, and with one
process that is killed at half of the blocks and resumed. Both files must have the same bytes.
Memory is that of all processes together. The speed-up on two cores is computed from the processor
time of the main process, during which workers may wait, and of the workers; on a quiet machine it
equals the speed-up in wall time. The time of a million answers is computed from the processor time
per answer.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage.languages import Language
from mirage.models import Passage, Query, Response
from mirage.sources import nomiracl
from mirage.text import split_sentences

LANGUAGES = ("en", "sw", "zh")
MILLION = 1_000_000
PROGRAM = [sys.executable, "-c", "from mirage.cli import app; app()"]


def main(answers: int) -> None:
    """Write the files of each language, score them in both ways, and print the figures."""
    usages, resumed_peaks = [], []
    for code in LANGUAGES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_files(folder, code, answers // len(LANGUAGES))
            usage = finish(start(folder, "two.jsonl", jobs=2), folder)
            usages.append(usage)
            kill_at_half(start(folder, "one.jsonl", jobs=1), folder, answers // len(LANGUAGES))
            resumed_peaks.append(finish(start(folder, "one.jsonl", jobs=1), folder).peak)
            if digest(folder / "two.jsonl") != digest(folder / "one.jsonl"):
                raise SystemExit(f"{code}: the resumed file has other bytes")
            rows = sum(1 for _ in (folder / "two.jsonl").open("rb"))
            print(f"{code}: {rows} rows; the killed and resumed run gave the same bytes")
    scored = answers // len(LANGUAGES) * len(LANGUAGES)
    report(scored, usages, max(resumed_peaks))


class Usage(NamedTuple):
    """What a command used.

    Attributes:
        seconds: Seconds on the clock.
        main: Processor seconds of the main process.
        workers: Processor seconds of the other processes together.
        peak: Largest sum of the resident memory of all processes, in MiB.
    """

    seconds: float
    main: float
    workers: float
    peak: float


def report(answers: int, usages: list[Usage], one_process_peak: float) -> None:
    """Print and record the figures."""
    seconds, own, workers = (sum(column) for column in list(zip(*usages, strict=True))[:3])
    total = own + workers
    # The main process reads ahead while workers compute, so this is the worst case.
    reckoned = own + workers / 2
    peak = max(usage.peak for usage in usages)
    hours = reckoned / answers * MILLION / 3600
    rows = (
        ("answers", answers),
        ("answers per second on the clock, two processes", answers / seconds),
        ("answers per processor second", answers / total),
        ("share of the main process in the processor time", own / total),
        ("reckoned speed-up of two cores, at least", total / reckoned),
        ("peak memory of two workers and the main process, MiB", peak),
        ("peak memory of one process, MiB", one_process_peak),
        ("reckoned hours of a million answers on two quiet cores", hours),
    )
    for name, value in rows:
        print(f"  {name:58s} {value:10.3f}")
        add_figure(value, name)


# Commands -----------------------------------------------------------------------------------------


def start(folder: Path, out: str, *, jobs: int) -> subprocess.Popen[bytes]:
    """Start the command in a session of its own."""
    command = ["features", "run.jsonl", "--dataset", "queries.jsonl", "--out", out]
    return subprocess.Popen(
        [*PROGRAM, *command, "--jobs", str(jobs)],
        cwd=folder,
        stdout=(folder / "table.txt").open("wb"),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes], folder: Path) -> Usage:
    """Wait for a command, and return what it used."""
    begin, peak = time.perf_counter(), 0.0
    spent: dict[int, float] = {}
    while process.poll() is None:
        memory = 0.0
        for pid, cpu, size in processes(process.pid):
            spent[pid] = cpu
            memory += size
        peak = max(peak, memory)
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"the command failed: {(folder / 'table.txt').read_text()}")
    own = spent.pop(process.pid)
    return Usage(time.perf_counter() - begin, own, sum(spent.values()), peak)


def kill_at_half(process: subprocess.Popen[bytes], folder: Path, answers: int) -> None:
    """Kill a command when it has written half of the blocks of 64 answers."""
    journal = folder / "one.jsonl.journal"
    while not journal.exists() or journal.read_bytes().count(b"\n") <= answers // 64 // 2:
        if process.poll() is not None:
            raise SystemExit("the command ended before it could be killed")
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def processes(session: int) -> Iterator[tuple[int, float, float]]:
    """Yield id, processor seconds and resident MiB of each process of a session (Linux)."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[3]) == session:
            cpu = (int(fields[11]) + int(fields[12])) / tick
            yield int(path.parent.name), cpu, int(fields[21]) * page / 2**20


def digest(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Texts --------------------------------------------------------------------------------------------


def write_files(folder: Path, code: str, answers: int) -> None:
    """Write queries and a run with this many answers."""
    source = nomiracl.load(DATA / "nomiracl", code)
    sentences = {
        passage.id: split_sentences(passage.text, Language.of(code))
        for query in source.dataset
        for passage in query.passages
    }
    outputs = [response.text for run in source.runs.values() for response in run if response.text]
    with (folder / "queries.jsonl").open("w") as queries, (folder / "run.jsonl").open("w") as run:
        for number in range(answers):
            rng = random.Random(number)
            query, response = recombine(list(source.dataset), sentences, outputs, number, rng)
            queries.write(query.model_dump_json(exclude_defaults=True) + "\n")
            run.write(response.model_dump_json(exclude_defaults=True) + "\n")


def recombine(
    queries: list[Query],
    sentences: dict[str, list[str]],
    outputs: list[str],
    number: int,
    rng: random.Random,
) -> tuple[Query, Response]:
    """Return a query with passages that no other number has, and an answer to it."""
    query, other = queries[number % len(queries)], rng.choice(queries)
    texts = []
    for passage in query.passages:
        parts = [*sentences[passage.id], *sentences[rng.choice(other.passages).id][:1]]
        rng.shuffle(parts)
        texts.append(parts)
    shown = tuple(
        Passage(id=f"{number}#{i}", text=" ".join(parts)) for i, parts in enumerate(texts)
    )
    relevant = rng.randrange(len(shown))
    reference = " ".join(texts[relevant][:2])
    made = Query(
        id=str(number),
        language=query.language,
        text=query.text,
        passages=shown,
        relevant=(shown[relevant].id,),
        reference=f"##Reason: [{shown[relevant].id}]\n##Answer: {reference}",
    )
    text = rng.choice(outputs) if number % 10 == 0 else cited(texts, rng)
    return made, Response(query_id=made.id, text=text)


def cited(texts: list[list[str]], rng: random.Random) -> str:
    """Return one to four sentences of the passages, each with its citation."""
    numbers = [rng.randrange(len(texts)) for _ in range(rng.randint(1, 4))]
    return " ".join(f"{rng.choice(texts[number])} [{number + 1}]" for number in numbers)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("answers", default=20_000, nargs="?", type=int)
    options = parser.parse_args()
    require_data("nomiracl")
    main(600 if options.quick else options.answers)
    save(parser, options)
