"""Processes killed at random moments, and started again: what is lost, doubled or asked again.

    python benchmarks/kills.py [KILLS]

Four kinds of work ask a server on loopback, a quarter of the kills (100 by default) each: judging
into a file without a cache, rating through a cache, generating into a file without a cache, and
building a benchmark of judges (a time filter through the cache, answers into files). A run is
killed (SIGKILL) at a random moment of the time that it takes whole, and started again until it
ends; then its files have to be those of a run that nobody killed, byte for byte. A request is asked
again without need where its answer was there before the kill: of each kill, as many as were under
way may be asked again, and no more.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from mirage import LLM, MirageDataset, OpenAIGenerator, PairwiseJudge
from mirage.building import build_judge_benchmark
from mirage.dataset import read_run
from mirage.features import FeatureSuite, answer_overlap
from mirage.models import Response, Run
from mirage.retrieval import BM25

T = TypeVar("T")

CONCURRENCY = 4
DATASET = MirageDataset.bundled("en").sample(24)
RUNS = [
    Run(
        model=model,
        language="en",
        responses=tuple(
            Response(query_id=q.id, text=f"##Answer: {model} says {q.text}") for q in DATASET
        ),
    )
    for model in "xyz"
]


# The server ---------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the digest of a prompt, after some milliseconds, and writes each digest down."""

    protocol_version = "HTTP/1.1"
    log: Path

    def do_POST(self) -> None:
        """Answer a chat."""
        body = self.rfile.read(int(self.headers["content-length"]))
        prompt = json.loads(body)["messages"][-1]["content"] + json.loads(body)["model"]
        digest = hashlib.sha256(prompt.encode()).hexdigest()
        with self.log.open("a") as file:
            file.write(digest + "\n")
        time.sleep(0.005 + int(digest[:2], 16) / 20_000)
        if "[[STABLE]]" in prompt:
            text = "[[STABLE]]"
        elif "[[grade]]" in prompt:
            text = f"Fine.\n[[{int(digest[0], 16) % 5 + 1}]]"
        elif "[[A]]" in prompt:
            text = f"Fine.\n[[{'ABC'[int(digest[0], 16) % 3]}]]"
        else:
            text = f"##Reason: so. ##Answer: It is {digest[:12]}, as one may well say of it all."
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        answer = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def serve(log: Path) -> tuple[str, int]:
    """The address of a server in a process of its own, and that process."""
    Handler.log = log
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    pid = os.fork()
    if pid == 0:
        server.serve_forever()
    server.socket.close()
    return f"http://127.0.0.1:{server.server_port}/v1", pid


# The work -----------------------------------------------------------------------------------------


def llm(url: str, model: str, cache: bool | Path) -> LLM:
    """The server's LLM."""
    return LLM(model, base_url=url, cache=cache, concurrency=CONCURRENCY)


def judged(url: str, folder: Path) -> None:
    """72 votes into a file."""
    judge = PairwiseJudge(llm(url, "judge", False))
    judge.compare(DATASET, RUNS, out=folder / "votes.jsonl", progress=False)


def rated(url: str, folder: Path) -> None:
    """72 grades through a cache."""
    suite = FeatureSuite([answer_overlap(llm(url, "rater", folder / "llm.sqlite"))])
    tables = [suite.score(DATASET, run, progress=False).values.tolist() for run in RUNS]
    (folder / "grades.json").write_text(json.dumps(tables))


def generated(url: str, folder: Path) -> None:
    """24 responses into a file."""
    run = OpenAIGenerator(llm(url, "writer", False))
    run.run(DATASET, out=folder / "run.jsonl", progress=False)
    assert len(read_run(folder / "run.jsonl", language="en")) == len(DATASET)


def building(url: str, folder: Path) -> None:
    """Up to 24 verdicts through a cache, and answers of two models into files."""
    passages = {passage.id: passage for query in DATASET for passage in query.passages}
    build_judge_benchmark(
        MirageDataset([query for query in DATASET if query.relevant]),
        BM25.build(passages.values(), language="en", progress=False),
        {name: OpenAIGenerator(llm(url, name, False)) for name in ("one", "two")},
        out=folder / "benchmark",
        llm=llm(url, "filter", folder / "llm.sqlite"),
        passages=3,
        min_words=1,
        per_model=9,
        progress=False,
    )


KINDS: dict[str, Callable[[str, Path], None]] = {
    "judged": judged,
    "rated": rated,
    "generated": generated,
    "building": building,
}


# Killing ------------------------------------------------------------------------------------------


def start(work: Callable[[T, Path], None], of: T, folder: Path) -> int:
    """A process that does the work in a folder and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            work(of, folder)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def ended(pid: int, seconds: float) -> bool:
    """Whether a process ended well within this time; it is killed otherwise."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, f"the work failed: {status}"
            return True
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def files(folder: Path) -> dict[str, bytes]:
    """What the work left, but for caches and locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("llm.sqlite")
    }


def measured(kind: str, url: str, log: Path, kills: int, root: Path, rng: random.Random) -> str:
    """What became of so many kills of one kind of work, as a line."""
    whole = root / f"{kind}-whole"
    whole.mkdir()
    warm = root / f"{kind}-warm"
    warm.mkdir()
    assert ended(start(KINDS[kind], url, warm), 600)
    began, at = time.monotonic(), len(log.read_text().split())
    assert ended(start(KINDS[kind], url, whole), 600)
    seconds, expected = time.monotonic() - began, files(whole)
    needed = Counter(log.read_text().split()[at:])
    made = runs = again = lost = 0
    while made < kills:
        folder = root / f"{kind}-{runs}"
        folder.mkdir()
        at, killed = len(log.read_text().split()), 0
        while not ended(
            start(KINDS[kind], url, folder),
            rng.uniform(0, seconds) if made + killed < kills else 600,
        ):
            killed += 1
        asked = Counter(log.read_text().split()[at:])
        again += (asked - needed).total()
        lost += files(folder) != expected or set(asked) != set(needed)
        assert (asked - needed).total() <= killed * CONCURRENCY, (asked - needed, killed)
        made, runs = made + killed, runs + 1
    return (
        f"{kind:<10}{made:>6} kills in {runs:>3} runs of {needed.total()} requests: {lost} runs "
        f"differ from a whole one, {again} requests again ({made * CONCURRENCY} may be under way)"
    )


def main() -> None:
    """Print a line for each kind of work."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for module in ("openai", "httpx", "tenacity", "portalocker", "platformdirs", "numpy", "tqdm"):
        import_module(module)  # once, and not in every process
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "requests"
        log.touch()
        url, server = serve(log)
        try:
            for kind in KINDS:
                line = measured(kind, url, log, kills // len(KINDS), Path(name), rng)
                print(line, flush=True)
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)


if __name__ == "__main__":
    main()
