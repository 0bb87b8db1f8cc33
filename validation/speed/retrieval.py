"""BM25 from disk compared with bm25s in memory: time of a query, equal results, time to build.

    python validation/speed/retrieval.py              # 50,000 passages, then --languages
    python validation/speed/retrieval.py PASSAGES [--build-only]
    python validation/speed/retrieval.py PASSAGES --merge   # only merges shards of random numbers
    python validation/speed/retrieval.py --trec       # reads a run file of 1.7 million lines
    python validation/speed/retrieval.py --languages  # only sentences of three languages

Passages are 100 words drawn by Zipf's law from 200,000, questions eight words of a passage. Times
of questions are CPU times. bm25s is in the extra ``test``; its numba backend is timed if numba is
installed. Above a million passages, building an index with bm25s takes more than 12 GB, so it gets
the columns of our index, which have the same scores.

For ``--languages``, passages are six sentences of the bundled corpora each, drawn at random, in
English, Finnish and Japanese, whose terms are characters. Questions are those of the corpora. They
have far fewer distinct terms than real passages, so that each question meets more of them. bm25s
gets the terms as numbers; our time includes splitting the question into terms.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from joblib.externals.loky import get_reusable_executor

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import Corpus, MirageDataset, Passage, Query
from mirage.retrieval import BM25, RetrievalRun
from mirage.retrieval.bm25 import COMPILED, SHARD, merge_shards, write_shard
from mirage.text import split_sentences

LANGUAGES, SENTENCES = ("en", "fi", "ja"), 6
WORDS, LENGTH, QUESTIONS, K = 200_000, 100, 300, 50
ROUNDS, PASSAGES = 5, 50_000
OWN_INDEX = 1_000_000
"""Most passages that bm25s indexes by itself; it gets the columns of our index for more."""


def passages(n: int, seed: int = 0) -> Iterator[Passage]:
    """Yield passages of words that are numbers, frequent ones often."""
    rng = np.random.default_rng(seed)
    for start in range(0, n, 10_000):
        words = np.minimum(rng.zipf(1.3, (min(10_000, n - start), LENGTH)), WORDS)
        for i, row in enumerate(words.tolist(), start):
            yield Passage(id=f"d{i // 10}#{i % 10}", text=" ".join(f"w{word}" for word in row))


def questions(corpus: Corpus, n: int) -> list[Query]:
    """Return questions of eight different words of a passage."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(corpus), n)
    texts = [sorted(set(corpus.at(int(row)).text.split())) for row in rows]
    return [
        Query(id=str(i), language="en", text=" ".join(rng.permutation(words)[:8]))
        for i, words in enumerate(texts)
    ]


def milliseconds(asked: list[Query], *searches: Callable[[Query], object]) -> list[float]:
    """Return the median CPU time of a question for each search.

    Each question is asked once before it is timed. The searches alternate, in five rounds, so that
    a short disturbance changes neither the medians nor their ratio.
    """
    times: list[list[float]] = [[] for _ in searches]
    for query in asked * ROUNDS:
        for search, seconds in zip(searches, times, strict=True):
            search(query)
            start = time.process_time()
            search(query)
            seconds.append(time.process_time() - start)
    return [float(np.median(seconds)) * 1000 for seconds in times]


RESIDENT = """
import os, sys
from mirage import Corpus
from mirage.retrieval import BM25
def resident():
    pages = open("/proc/self/statm").read().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") // 2**20
index = BM25.open(sys.argv[1] + "/index", Corpus.open(sys.argv[1] + "/corpus"))
opened = resident()
for text in sys.stdin:
    index.search(text, 50)
print(f"resident: {opened} MiB opened, {resident()} MiB after 20 questions")
"""


def peers(corpus: Corpus, index: BM25, asked: list[Query]) -> dict[str, float]:
    """Return the milliseconds that bm25s takes per question, by backend."""
    import bm25s

    terms = {query.id: index._numbers(query.text) for query in asked}
    milliseconds_by_backend = {}
    for backend in ("numpy", *(["numba"] if find_spec("numba") else [])):
        peer = bm25s.BM25(k1=0.9, b=0.4, method="lucene", backend=backend)
        if len(corpus) <= OWN_INDEX:
            numbers = {f"w{word}": word for word in range(WORDS + 1)}
            rows = [[numbers[word] for word in passage.text.split()] for passage in corpus]
            peer.index((rows, numbers), create_empty_token=False, show_progress=False)
            terms = {query.id: [numbers[word] for word in query.text.split()] for query in asked}
        else:
            columns = index._columns
            peer.scores = {
                "data": np.array(columns.impacts),
                "indices": np.array(columns.rows),
                "indptr": np.array(columns.starts),
                "num_docs": len(corpus),
            }
            peer.nonoccurrence_array = None
            peer.vocab_dict = {str(number): number for number in range(len(columns.starts) - 1)}
            peer.unique_token_ids_set = set(peer.vocab_dict.values())

        def ask(
            query: Query, peer: bm25s.BM25 = peer, terms: dict[str, list[int]] = terms
        ) -> object:
            numbers = [terms[query.id]]
            best, _ = peer.retrieve(numbers, k=K, show_progress=False, sorted=True, n_threads=0)
            return corpus.ids_at(best[0])

        (milliseconds_by_backend[backend],) = milliseconds(asked, ask)
    return milliseconds_by_backend


def trec(queries: int = 34_000) -> None:
    """Print the seconds of one core to read a run file, with Mirage and with ir_measures.

    ir_measures neither checks nor sorts. Fields are separated by tabs, ranks begin at 0, and
    scores are tied, as in the runs that BERGEN published.
    """
    import ir_measures

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.trec"
        with path.open("w") as file:
            for query in range(queries):
                file.writelines(
                    f"q{query}\tQ0\td{query * K + rank}\t{rank}\t{100 - rank // 2}\trun\n"
                    for rank in range(K)
                )
        start = time.process_time()
        run = RetrievalRun.read(path)
        ours = time.process_time() - start
        assert run["q7"].passage_ids == tuple(f"d{7 * K + rank}" for rank in range(K))
        start = time.process_time()
        lines = sum(1 for _ in ir_measures.read_trec_run(str(path)))
        peer = time.process_time() - start
        print(
            f"{lines} lines: ours {ours:.1f} s, ir_measures {peer:.1f} s: {ours / peer:.2f} times"
        )
        add_figure(ours, "TREC run", "ours, s")
        add_figure(peer, "TREC run", "ir_measures, s")


def batch_rate(index: BM25, asked: list[Query], size: int) -> float:
    """Print and return the number of questions per second in batches."""
    times = -(-COMPILED // (size * len(asked)))  # so many that numba is used, if there
    index.retrieve(asked * times, K)
    start = time.process_time()
    index.retrieve(asked * times, K)
    rate = times * len(asked) / (time.process_time() - start)
    kind = "numba" if find_spec("numba") else "numpy"
    print(f"ours, batched ({kind}): {rate:.0f} a second of one core")
    return rate


def check_against_scores(index: BM25, asked: list[Query]) -> None:
    """Check that the best passages are those with the highest scores of all."""
    ids = [passage.id for passage in index.corpus]
    for query in asked:
        scores = index.scores(query.text, ids)
        brute = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:K]
        best = tuple(ids[row] for row in brute if scores[row] > 0)
        assert index.retrieve([query], K)[query.id].passage_ids == best


def bm25(n: int, build_only: bool, quick: bool) -> None:
    """Print a line for each figure."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        corpus = Corpus.build(passages(n), Path(folder) / "corpus", language="en")
        print(f"{n} passages as a corpus: {time.perf_counter() - start:.1f} s")
        start = time.perf_counter()
        BM25.build(corpus, Path(folder) / "index", n_jobs=2, progress=False)
        seconds = time.perf_counter() - start
        get_reusable_executor().shutdown(wait=True)  # or its workers are not counted yet
        who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        peak = [resource.getrusage(each).ru_maxrss / 2**20 for each in who]
        size = sum(path.stat().st_size for path in (Path(folder) / "index").iterdir()) / 2**30
        print(f"indexed: {seconds:.1f} s, {size:.2f} GiB")
        add_figure(seconds, "indexed, s")
        add_figure(size, "index, GiB")
        add_figure(peak[0], "peak memory, GiB")
        print(f"peak memory: {peak[0]:.2f} GiB, of a worker {peak[1]:.2f}")
        start = time.perf_counter()
        index = BM25.open(Path(folder) / "index", Corpus.open(Path(folder) / "corpus"))
        print(f"opened: {(time.perf_counter() - start) * 1000:.1f} ms")
        asked = questions(corpus, QUESTIONS)
        twenty = "\n".join(query.text for query in asked[:20])
        subprocess.run(
            [sys.executable, "-c", RESIDENT, folder], input=twenty, text=True, check=True
        )
        (ours,) = milliseconds(asked, lambda query: index.retrieve([query], K))
        print(f"ours, one question, k={K}: {ours:.3f} ms")
        add_figure(ours, "one question, ms")
        if not quick:
            rate = batch_rate(index, asked, len(corpus))
            add_figure(rate, "batched questions per second of one core")
        if n <= 50_000:
            check_against_scores(index, asked[:10])
        if not build_only:
            for backend, peer in peers(corpus, index, asked).items():
                print(f"bm25s ({backend}): {peer:.3f} ms; ours is {ours / peer:.2f} times that")
                add_figure(peer, "bm25s", backend, "one question, ms")
                add_figure(ours / peer, "bm25s", backend, "ours over theirs")


def in_languages(n: int) -> None:
    """Print the milliseconds of a question among natural sentences, with k = 50 and k = 1,000."""
    import bm25s

    for code in LANGUAGES:
        dataset = MirageDataset.bundled(code)
        texts = [
            p.text
            for level in (dataset, MirageDataset.bundled(code, level="hard"))
            for query in level
            for p in query.passages
        ]
        sentences = list(dict.fromkeys(s for text in texts for s in split_sentences(text, code)))
        drawn = np.random.default_rng(0).integers(0, len(sentences), (n, SENTENCES))
        rows = [
            Passage(id=f"d{i}", text=" ".join(sentences[s] for s in row))
            for i, row in enumerate(drawn.tolist())
        ]
        index = BM25.build(rows, language=code, progress=False)
        terms = [index._analysis(passage.text) for passage in rows]
        numbers = {term: i for i, term in enumerate(sorted({t for row in terms for t in row}))}
        asked = {
            query.id: [numbers[t] for t in index._analysis(query.text) if t in numbers]
            for query in dataset
        }
        peer = bm25s.BM25(
            k1=0.9, b=0.4, method="lucene", backend="numba" if find_spec("numba") else "numpy"
        )
        peer.index(
            ([[numbers[term] for term in row] for row in terms], numbers),
            create_empty_token=False,
            show_progress=False,
        )
        for k in (50, 1_000):

            def ask(
                query: Query,
                k: int = k,
                asked: dict[str, list[int]] = asked,
                peer: bm25s.BM25 = peer,
                corpus: Corpus = index.corpus,
            ) -> object:
                best, scores = peer.retrieve(
                    [asked[query.id]], k=k, show_progress=False, sorted=True, n_threads=0
                )
                return corpus.ids_at(best[0]), scores[0]

            for query in list(dataset)[:10]:
                hits = index.retrieve([query], k)[query.id]
                np.testing.assert_allclose(hits.scores, ask(query)[1][: len(hits.scores)], 1e-4)
            ours, theirs = milliseconds(
                list(dataset), lambda query, k=k, index=index: index.retrieve([query], k), ask
            )
            print(f"{code}, k={k}: ours {ours:.3f} ms, bm25s {theirs:.3f} ms: {ours / theirs:.2f}")
            add_figure(ours, code, f"k={k}", "ours, ms")
            add_figure(theirs, code, f"k={k}", "bm25s, ms")
            add_figure(ours / theirs, code, f"k={k}", "ours over theirs")


def merge(n: int) -> None:
    """Print time and peak memory of the merge alone, for corpora that take hours to tokenize."""
    hashes = np.sort(np.random.default_rng(2).integers(0, 2**64 - 1, WORDS, np.uint64))
    with tempfile.TemporaryDirectory() as folder:
        shards = Path(folder) / "shards"
        shards.mkdir()
        for start in range(0, n, SHARD):
            rng = np.random.default_rng([3, start])
            rows = min(SHARD, n - start)
            words = np.minimum(rng.zipf(1.3, rows * LENGTH), WORDS) - 1
            distinct, numbers = np.unique(words, return_inverse=True)
            lengths = np.full(rows, LENGTH, np.int32)
            write_shard(shards, start, hashes[distinct], numbers, lengths)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        start_time, start_cpu = time.perf_counter(), time.process_time()
        merge_shards(shards, n, Path(folder), 0.9, 0.4)
        seconds, cpu = time.perf_counter() - start_time, time.process_time() - start_cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        size = sum(path.stat().st_size for path in Path(folder).glob("*.npy")) / 2**30
    print(f"{n} passages: merged in {seconds:.1f} s ({cpu:.1f} s of CPU), {size:.2f} GiB")
    print(f"peak memory: {peak:.2f} GiB, {before:.2f} before the merge")
    add_figure(seconds, "merge", f"{n} passages, s")
    add_figure(peak, "merge", f"{n} passages, peak memory, GiB")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("passages", nargs="?", type=int, help="50,000 by default")
    parser.add_argument("--build-only", action="store_true", help="without bm25s")
    parser.add_argument("--merge", action="store_true", help="merge shards, and nothing else")
    parser.add_argument("--languages", action="store_true", help="natural sentences only")
    parser.add_argument("--trec", action="store_true", help="read a run file, and nothing else")
    options = parser.parse_args()
    if options.trec:
        trec(500 if options.quick else 34_000)
    elif options.languages:
        in_languages(1_000 if options.quick else options.passages or PASSAGES)
    elif options.merge:
        merge(options.passages or PASSAGES)
    elif options.quick:
        bm25(2_000, True, True)
    else:
        bm25(options.passages or PASSAGES, options.build_only, False)
        if not options.passages and not options.build_only:
            in_languages(PASSAGES)
    save(parser, options)
