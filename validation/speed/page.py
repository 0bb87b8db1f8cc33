"""The report on 19 models in 18 languages: time to write, size, and time to open.

    python validation/speed/page.py [report.html]
    python validation/speed/page.py --large  # English pages with 20,000 responses

Each language has 100 queries with ten passages, as MIRAGE-Bench (arXiv 2410.13716) has at least,
and a response of every model to each. Texts are those of the bundled corpora, repeated to realistic
lengths; features are random. The findings of all responses are computed first, as ``print`` of a
ranking does, and their time is printed apart. With playwright (extra ``dev``) and Debian's
chromium, the page is also opened: the time until everything is loaded and its script has run.

A second page is that of a grid of 500 cells on 100 queries each.

With ``--large``, the pages are those of one model on 20,000 queries and of ten models on 2,000.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import FeatureTable, MirageDataset, MultilingualRanking, Ranking, SurrogateRanker
from mirage.errors import install_command
from mirage.grids import Cell, ResultTable
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response, Run
from mirage.ranking import Entry, Evidence
from mirage.report import write_grid
from mirage.statistics.rank_sets import rank_sets
from mirage.statistics.ranks import ranks

MODELS, QUERIES, PASSAGES = 19, 100, 10
CELLS, GRID_LANGUAGES = 500, ("en", "sw", "ja", "ar", "fi")
METRICS = ("qa_match", "citation_recall@10", "nDCG@10")
PASSAGE, RESPONSE = 600, 900
"""Characters of a passage and of a response."""
CHROMIUM = Path("/usr/bin/chromium")


def dataset(code: str, size: int = QUERIES) -> MirageDataset:
    """Return ``size`` queries with ten passages each, of bundled texts."""
    bundled = MirageDataset.bundled(code)
    texts = [passage.text for query in bundled for passage in query.passages]
    queries = []
    for number in range(size):
        like = bundled[number % len(bundled)]
        passages = [
            Passage(id=f"{number}#{i}", text=long(texts, number * PASSAGES + i, PASSAGE))
            for i in range(PASSAGES)
        ]
        queries.append(
            Query(
                id=f"{code}-{number}",
                language=code,
                text=like.text,
                passages=passages,
                relevant=[passages[number % PASSAGES].id],
                reference=like.reference,
            )
        )
    return MirageDataset(queries, name=f"repeated-{code}")


def long(texts: list[str], start: int, length: int) -> str:
    """Return texts joined up to a length, starting at one of them."""
    joined = " ".join(texts[(start + i) % len(texts)] for i in range(12))
    return joined[:length]


def run(data: MirageDataset, model: str, seed: int) -> Run:
    """Return responses that quote passages and cite them; one in fifty fails."""
    rng = np.random.default_rng([seed, *data.language.encode()])
    responses = []
    for query in data:
        if rng.random() < 0.02:
            responses.append(Response(query_id=query.id, text=None, error="TimeoutError: 30 s"))
            continue
        cited = rng.choice(PASSAGES, size=3, replace=False)
        parts = [f"{query.passages[i].text[: RESPONSE // 3]} [{i + 1}]" for i in cited]
        text = f"##Reason: {parts[0]}\n##Answer: {parts[1]} {parts[2]}"
        responses.append(Response(query_id=query.id, text=text))
    return Run(model=model, language=data.language, responses=tuple(responses))


def ranking(code: str, models: int, queries: int = QUERIES) -> Ranking:
    """Return a ranking with everything that a report can show."""
    rng = np.random.default_rng([*code.encode()])
    data, ranker = dataset(code, queries), SurrogateRanker.pretrained(code)
    names = [f"organisation/Model-{number:02d}-Instruct" for number in range(models)]
    runs = {name: run(data, name, seed) for seed, name in enumerate(names)}
    ids = tuple(query.id for query in data)
    features = ranker.features
    tables = {
        name: FeatureTable(name, code, ids, features, rng.random((len(ids), len(features))))
        for name in names
    }
    logits = np.linspace(2, -2, models) + rng.normal(scale=0.4, size=models)
    draws = logits + rng.normal(scale=0.3, size=(200, models))
    entries = [
        Entry(
            int(rank),
            name,
            float(logit),
            (float(low), float(high)),
            ends,
            dict(zip(features, tables[name].mean().tolist(), strict=True)),
            answered=len(runs[name]) - len(runs[name].failed),
            failures={one.query_id: one.error or "" for one in runs[name].failed},
        )
        for rank, name, logit, low, high, ends in zip(
            ranks(logits),
            names,
            logits,
            *np.quantile(draws, [0.025, 0.975], axis=0),
            map(tuple, rank_sets(logits, draws - logits).tolist()),
            strict=True,
        )
    ]
    return Ranking(
        entries,
        language=code,
        title=f"{data.name}: {LANGUAGES[code].name}, {len(data)} queries",
        draws={name: draws[:, i] for i, name in enumerate(names)},
        evidence=Evidence(data, runs, tables, ranker),
    )


def grid(cells: int) -> tuple[ResultTable, list[Run], dict[str, MirageDataset]]:
    """Return a grid with responses of every cell, on a dataset in each of some languages."""
    rng = np.random.default_rng(0)
    datasets = {code: dataset(code) for code in GRID_LANGUAGES}
    rows, runs = [], []
    for number in range(cells):
        code = GRID_LANGUAGES[number % len(GRID_LANGUAGES)]
        settings = {"dataset": code, "generator": f"organisation/Model-{number:03d}-Instruct"}
        runs.append(run(datasets[code], settings["generator"], number))
        values = {metric: rng.random(QUERIES) for metric in METRICS}
        rows.append(Cell.measured(settings, datasets[code].query_ids, values))
    return ResultTable("cells", tuple(rows), METRICS), runs, datasets


def measure_grid(cells: int) -> None:
    """Write the page of a grid and print its time and size."""
    table, runs, datasets = grid(cells)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grid.html"
        cpu = time.process_time()
        write_grid(table, path, runs=runs, datasets=datasets)
        cpu = time.process_time() - cpu
        size = path.stat().st_size / 1e6
    print(f"grid of {cells} cells: {cpu:.1f} s of CPU, {size:.2f} MB")
    add_figure(cpu, "grid", "written, s of CPU")
    add_figure(size, "grid", "size, MB")


def measure_large(sizes: Sequence[tuple[int, int]]) -> None:
    """Write English pages of some numbers of models and queries, and print their times."""
    for models, queries in sizes:
        page = ranking("en", models, queries)
        name = f"{models} x {queries:,} responses"
        times = [time.process_time()]
        assert page.findings
        times.append(time.process_time())
        with tempfile.TemporaryDirectory() as folder:
            page.write(Path(folder) / "report.html")
        times.append(time.process_time())
        findings, written = np.diff(times).tolist()
        print(f"{name}: findings {findings:.1f} s of CPU, page {written:.1f} s")
        add_figure(findings, name, "findings, s of CPU")
        add_figure(written, name, "written, s of CPU")


def opened(path: Path) -> list[float]:
    """Return the milliseconds from the request for the page to the end of loading, five times."""
    from playwright.sync_api import sync_playwright

    took = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-quic"]
        )
        for _ in range(5):
            page = browser.new_page()
            page.goto(path.as_uri())
            took.append(page.evaluate("performance.getEntriesByType('navigation')[0].duration"))
            page.close()
        browser.close()
    return took


def main(out: str | None, codes: Sequence[str], models: int) -> None:
    """Make the report, measure it, and open it."""
    start = time.perf_counter()
    found = MultilingualRanking({code: ranking(code, models) for code in codes})
    print(f"{models} models x {len(found)} languages, made in {time.perf_counter() - start:.1f} s")
    cpu = time.process_time()
    assert found.findings
    cpu = time.process_time() - cpu
    print(f"findings of {models * len(found) * QUERIES:,} responses: {cpu:.1f} s of CPU")
    add_figure(cpu, "findings, s of CPU")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(out or f"{folder}/report.html").resolve()
        wall, cpu = time.perf_counter(), time.process_time()
        found.write(path)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"report: {wall:.1f} s ({cpu:.1f} s of CPU), {path.stat().st_size / 1e6:.2f} MB")
        add_figure(wall, "written, s")
        add_figure(cpu, "written, s of CPU")
        add_figure(path.stat().st_size / 1e6, "size, MB")
        if len(codes) == 1:
            return
        try:
            times = opened(path)
        except ImportError:
            print(f"not opened: this needs playwright ({install_command('browser')})")
        else:
            print(f"opens in {np.median(times):.0f} ms, at most {max(times):.0f} ms, of 5 times")
            add_figure(np.median(times), "opened, ms")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("path", nargs="?", help="where the page is written; nowhere by default")
    parser.add_argument("--large", action="store_true", help="pages of 20,000 responses only")
    options = parser.parse_args()
    if options.large:
        measure_large([(1, 200), (2, 100)] if options.quick else [(1, 20_000), (10, 2_000)])
    elif options.quick:
        main(options.path, ["en"], 3)
        measure_grid(4)
    else:
        main(options.path, list(LANGUAGES), MODELS)
        measure_grid(CELLS)
    save(parser, options)
