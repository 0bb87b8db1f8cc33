"""Processes killed at random moments and started again: lost and repeated work.

    python validation/recovery/kills.py [--kills 20] [--seed 0] [KIND ...]

Each kind of work is killed (SIGKILL) at random moments within the time of a whole run, and started
again until it ends. The last line of the report sums all kinds. The exit status is 1 if anything
was lost, or if more was asked again than could have been in progress. The columns are:

- lost: runs whose files differ from those of an uninterrupted run, byte for byte
- again: questions, or texts to embed, that were asked more often than in a whole run
- under way: the most that could have been in progress at the kills: 4 calls, each with up to 32
  texts if they ask for embeddings

The kinds are: index (BM25), encode (vectors of an endpoint, without a cache), retrieve, rerank,
grid (BM25 and an LLM), tests-make, judge (votes in a file), generate (responses in a file, without
a cache), repeats (the same, three times each), service (an HTTP service), drift, labels (labels of
sentences by a judge, through a cache), ratings (grades through a cache) and judge-benchmark.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
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
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from item_llm import ItemWriter, documents_of

from mirage import LLM, Corpus, MirageDataset, OpenAIGenerator, PairwiseJudge, Passage
from mirage.cli import app
from mirage.features import FeatureSuite, answer_overlap
from mirage.generation import HTTPGenerator, respond
from mirage.grids import Grid
from mirage.metaeval import AnswerSentence, LLMSentenceJudge, build_judge_benchmark
from mirage.models import Response, Run
from mirage.neural import EndpointEmbedder
from mirage.retrieval import BM25, DenseRetriever, bm25
from mirage.testsets import build_test_set

CONCURRENCY = 4
BATCH = 32  # texts in a request for embeddings
PASSAGES, SHARD = 2600, 200
DATASET = MirageDataset.bundled("en").sample(24)
ITEMS = ItemWriter(MirageDataset.bundled("en"))
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
GRID = """\
name: killed
datasets:
  en: {{form: bundled, language: en}}
corpora:
  en: {{dataset: en, language: en}}
retrievers:
  bm25: {{kind: bm25}}
generators:
  chat: {{kind: openai, model: chat, base_url: "{url}", concurrency: 4}}
grid:
  dataset: [en]
  corpus: [en]
  retriever: [none, bm25]
  generator: [chat]
  show_k: [2, 5]
metrics: [qa_match, "R@5"]
"""


# The server ---------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    """A handler that answers by the digest of a request after some milliseconds, and logs it."""

    protocol_version = "HTTP/1.1"
    log: Path

    def do_POST(self) -> None:
        """Answer a chat, a request for embeddings or one to a service."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "input" in body:
            questions = list(body["input"])
        elif "messages" in body:
            questions = [body["messages"][-1]["content"] + body["model"]]
        else:
            questions = [body["query"]]
        digests = [hashlib.sha256(question.encode()).hexdigest() for question in questions]
        with self.log.open("a") as file:
            file.write("".join(f"{digest}\n" for digest in digests))
        time.sleep(0.01 + int(digests[0][:2], 16) / 20_000)
        if "input" in body:
            vectors = [
                [int(digest[i : i + 4], 16) + 1 for i in range(0, 32, 4)] for digest in digests
            ]
            answer = {"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)]}
        elif "messages" in body:
            text = ITEMS(body) if body["model"] == "items" else chat_text(questions[0], digests[0])
            message = {"role": "assistant", "content": text}
            answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
        else:
            answer = {"answer": chat_text(questions[0], digests[0])}  # type: ignore[dict-item]
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def chat_text(prompt: str, digest: str) -> str:
    """Return the answer to a prompt, in the form that the prompt asks for."""
    number = int(digest[0], 16)
    if "[[STABLE]]" in prompt:
        return "[[STABLE]]"
    if "[[grade]]" in prompt:
        return f"Fine.\n[[{number % 5 + 1}]]"
    if "[[A]]" in prompt:
        return f"Fine.\n[[{'ABC'[number % 3]}]]"
    if "<answer>" in prompt:
        label = "Supported" if number % 3 else "Not Supported"
        return f"<rationale>So.</rationale>\n<answer>{label}</answer>"
    return f"##Reason: so. ##Answer: It is {digest[:12]}, as one may well say of it all."


def serve(log: Path) -> tuple[str, int]:
    """Start a server in a process of its own; return its address and the process id."""
    Handler.log = log
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    pid = os.fork()
    if pid == 0:
        server.serve_forever()
    server.socket.close()
    return f"http://127.0.0.1:{server.server_port}/v1", pid


# The work -----------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where work is done.

    Attributes:
        url: The server.
        shared: A folder with inputs that all runs share.
        folder: The folder of this run.
    """

    url: str
    shared: Path
    folder: Path

    def llm(self, model: str, *, cached: bool = False) -> LLM:
        """Return the server's LLM."""
        cache = self.folder / "llm.sqlite" if cached else False
        return LLM(model, base_url=self.url, cache=cache, concurrency=CONCURRENCY)

    def embedder(self) -> EndpointEmbedder:
        """Return the server's embedder."""
        return EndpointEmbedder(self.llm("e"))

    def corpus(self) -> Corpus:
        """Open the corpus."""
        return Corpus.open(self.shared / "corpus")


def lay_out(shared: Path) -> None:
    """Write the inputs: a corpus of recombined sentences, its indexes, and two logs."""
    rng = random.Random(0)
    texts = [s for query in DATASET for p in query.passages for s in p.text.split(". ")]
    passages = [
        Passage(id=f"d{i}#0", text=f"{i}. " + ". ".join(rng.sample(texts, 5)))
        for i in range(PASSAGES)
    ]
    corpus = Corpus.build(passages, shared / "corpus", language="en")
    BM25.build(corpus, shared / "bm25", progress=False)
    for week in ("before", "after"):
        rows = [
            {
                "question": query.text,
                "passages": [passage.text for passage in query.passages],
                "answer": f"It is {rng.choice(query.passages).text}",
            }
            for query in DATASET
        ]
        (shared / f"{week}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def index(place: Place) -> None:
    """Build a BM25 index."""
    BM25.build(place.corpus(), place.folder / "bm25", progress=False)


def encode(place: Place) -> None:
    """Index a corpus by vectors of an endpoint, without a cache."""
    folder, embedder = place.folder / "dense", place.embedder()
    DenseRetriever.build(place.corpus(), folder, embedder=embedder, progress=False)


def retrieve(place: Place) -> None:
    """Write a run file, several times over, so that it takes long enough."""
    retriever = BM25.open(place.shared / "bm25", place.corpus())
    for k in range(10, 60):
        retriever.retrieve(DATASET, k).write(place.folder / "bm25.trec")


def rerank(place: Place) -> None:
    """Rerank a run by a dense index, and write the result."""
    encode(place)
    found = BM25.open(place.shared / "bm25", place.corpus()).retrieve(DATASET, 50)
    near = DenseRetriever.open(place.folder / "dense", place.corpus(), place.embedder())
    near.rerank(found, place.corpus(), DATASET, 50).write(place.folder / "near.trec")


def grid(place: Place) -> None:
    """Run a grid of closed book and retrieval with two numbers of passages."""
    os.environ["MIRAGE_CACHE"] = str(place.folder)
    path = place.folder / "grid.yaml"
    path.write_text(GRID.format(url=place.url))
    table = Grid.read(path).run(progress=False)
    (place.folder / "table.json").write_text(table.to_json())


def tests_make(place: Place) -> None:
    """Make a test set from documents."""
    documents = documents_of(MirageDataset.bundled("en"))
    out = place.folder / "tests.jsonl"
    llm = place.llm("items")
    build_test_set(documents, language="en", llm=llm, items=8, out=out, progress=False)


def judge(place: Place) -> None:
    """Write 72 votes."""
    judge = PairwiseJudge(place.llm("judge"))
    judge.compare(DATASET, RUNS, out=place.folder / "votes.jsonl", progress=False)


def generate(place: Place) -> None:
    """Write 24 responses."""
    generator = OpenAIGenerator(place.llm("writer"))
    respond(generator, DATASET, out=place.folder / "run.jsonl", progress=False)


def repeats(place: Place) -> None:
    """Write 24 responses, three times each."""
    generator = OpenAIGenerator(place.llm("writer"))
    respond(generator, DATASET, repeats=3, out=place.folder / "run.jsonl", progress=False)


def service(place: Place) -> None:
    """Write 24 responses of an HTTP service."""
    generator = HTTPGenerator(f"{place.url}/ask", concurrency=CONCURRENCY, name="ours")
    respond(generator, DATASET, out=place.folder / "run.jsonl", progress=False)


def drift(place: Place) -> None:
    """Compare two logs."""
    logs = [str(place.shared / f"{week}.jsonl") for week in ("before", "after")]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        app(["drift", "en", *logs, "--json"], prog_name="mirage")
    (place.folder / "drift.json").write_text(printed.getvalue())


def labels(place: Place) -> None:
    """Label 72 sentences."""
    judge = LLMSentenceJudge(place.llm("labels", cached=True), "cot", progress=False)
    sentences = [
        AnswerSentence(query, f"Sentence {i} says {query.text}")
        for i in range(3)
        for query in DATASET
    ]
    (place.folder / "labels.json").write_text(json.dumps(list(judge.label(sentences))))


def ratings(place: Place) -> None:
    """Write 72 grades."""
    suite = FeatureSuite([answer_overlap(place.llm("rater", cached=True))])
    tables = [suite.score(DATASET, run, progress=False).values.tolist() for run in RUNS]
    (place.folder / "grades.json").write_text(json.dumps(tables))


def judge_benchmark(place: Place) -> None:
    """Build a benchmark of judges: up to 24 verdicts, and answers of two models."""
    passages = {passage.id: passage for query in DATASET for passage in query.passages}
    build_judge_benchmark(
        MirageDataset([query for query in DATASET if query.relevant]),
        BM25.build(passages.values(), language="en", progress=False),
        {name: OpenAIGenerator(place.llm(name)) for name in ("one", "two")},
        out=place.folder / "benchmark",
        llm=place.llm("filter", cached=True),
        passages=3,
        min_words=1,
        per_model=9,
        progress=False,
    )


KINDS: dict[str, Callable[[Place], None]] = {
    work.__name__.replace("_", "-"): work
    for work in (
        index, encode, retrieve, rerank, grid, tests_make, judge, generate, repeats, service, drift,
        labels, ratings, judge_benchmark,
    )
}  # fmt: skip
EMBEDDING = ("encode", "rerank")


# Killing ------------------------------------------------------------------------------------------


def start(work: Callable[[Place], None], place: Place) -> int:
    """Start a process that does the work and ends; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work(place)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def ends(pid: int, seconds: float) -> bool:
    """Return whether a process ends well within this time; kill it if not."""
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


def results(folder: Path) -> dict[str, bytes]:
    """Return the result files by path, without caches, locks, journals and stores."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("llm.sqlite")
        if "journal" not in path.name and "killed.store" not in str(path)
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


class Row(NamedTuple):
    """The results of one kind of work; the module's docstring explains the fields."""

    kind: str
    kills: int
    runs: int
    questions: int
    lost: int
    again: int
    under_way: int

    def __str__(self) -> str:
        numbers = (self.kills, self.runs, self.questions, self.lost, self.again, self.under_way)
        return f"{self.kind:<16}" + "".join(f"{number:>11,}" for number in numbers)


def measure(kind: str, url: str, log: Path, kills: int, root: Path, rng: random.Random) -> Row:
    """Kill one kind of work repeatedly; compare each finished run with an uninterrupted one."""

    def make(name: str) -> Place:
        folder = root / f"{kind}-{name}"
        folder.mkdir()
        return Place(url, root / "shared", folder)

    work = KINDS[kind]
    assert ends(start(work, make("warm")), 300)
    began, at, place = time.monotonic(), len(log.read_text().split()), make("whole")
    assert ends(start(work, place), 300)
    seconds, expected = time.monotonic() - began, results(place.folder)
    needed = Counter(log.read_text().split()[at:])
    done = runs = again = lost = 0
    while done < kills:
        place = make(str(runs))
        at, killed = len(log.read_text().split()), 0
        while not ends(
            start(work, place), rng.uniform(0, seconds) if done + killed < kills else 300
        ):
            killed += 1
        asked = Counter(log.read_text().split()[at:])
        again += (asked - needed).total()
        lost += results(place.folder) != expected or set(asked) != set(needed)
        done, runs = done + killed, runs + 1
    at_once = CONCURRENCY * (BATCH if kind in EMBEDDING else 1) if needed else 0
    return Row(kind, done, runs, needed.total(), lost, again, done * at_once)


def main(kinds: list[str], kills: int, seed: int) -> list[Row]:
    """Print and return a row for each kind of work."""
    for module in ("openai", "httpx", "tenacity", "portalocker", "platformdirs", "numpy", "tqdm"):
        import_module(module)  # once, and not in every process
    bm25.SHARD = SHARD
    rows = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "shared").mkdir()
        lay_out(root / "shared")
        log = root / "requests"
        log.touch()
        url, server = serve(log)
        columns = ("kills", "runs", "questions", "lost", "again", "under way")
        print(f"{'':<16}" + "".join(f"{column:>11}" for column in columns), flush=True)
        try:
            for kind in kinds:
                rng = random.Random(f"{kind} {seed}")
                rows.append(measure(kind, url, log, kills, root, rng))
                print(rows[-1], flush=True)
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
    print(Row("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    return rows


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND")
    parser.add_argument("--kills", type=int, default=20, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds, kills = options.kinds, options.kills
    if options.quick:
        kinds, kills = ["generate"], 1
    rows = main(kinds, kills, options.seed)
    for row in rows:
        for name, figure in row._asdict().items():
            if name != "kind":
                add_figure(figure, row.kind, name.replace("_", " "))
    save(parser, options)
    sys.exit(any(row.lost or row.again > row.under_way for row in rows))
